"""What is to be computed: nodes, graphs of them, and what can be done to a graph without knowing how it will run.

``node`` is the whole data structure; ``primitives`` says what each operation means. The rest are walks: ``gradient``
backwards, ``batching`` with one dimension more, ``interpret`` with NumPy, ``simplify``, ``ranges`` and ``hoist`` to smaller
graphs.

Nothing here knows arrays, programs or devices. A walk asks a primitive's entry, never its name.
"""
