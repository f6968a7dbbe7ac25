"""Graphs: nodes, graphs of nodes, and transformations that do not depend on how a graph will run.

``node`` contains the data structure; ``primitives`` defines the meaning of each operation. The other modules walk graphs:
``gradient`` computes derivatives, ``batching`` adds a dimension, ``interpret`` evaluates with NumPy; ``simplify``, ``ranges``
and ``hoist_checks`` return smaller or faster graphs.

Nothing here depends on arrays, programs or devices. A walk uses the fields of a primitive's entry, never its name.
"""
