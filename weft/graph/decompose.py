"""Decomposition of operations for which a device has no kernel."""

from __future__ import annotations

from weft.graph.node import Graph, Node
from weft.kernel.target import ChainLimits


def decompose(graph: Graph, kept: ChainLimits) -> Graph:
    """Return the graph with composed operations (``Primitive.composed``) replaced by their parts unless ``kept`` allows them.

    Examples
    --------
    >>> from weft.dtypes.formats import FLOAT32
    >>> from weft.graph.primitives import TABLE, bind, input_leaf
    >>> x = input_leaf((5, 4), FLOAT32)
    >>> out = bind(TABLE["attention"], x, x, x, result="out", scale=0.5, causal=False, keep=None)
    >>> "attention" in repr(in_parts(Graph([x], [out]), Chaining(widest=3)))
    False
    """
    composed = {n for n in graph.order if n.op.composed is not None and n.value is None and not _fits(n, kept)}
    if not composed:
        return graph
    done: dict[Node, Node] = {node: node for node in graph.inputs}
    for node in graph.order:
        if node in done:
            continue
        inputs = tuple([done[i] for i in node.inputs])
        if node in composed:
            assert node.op.composed is not None
            done[node] = node.op.composed(*inputs, **node.params)
        else:
            done[node] = node.on(inputs)
    return Graph(graph.inputs, [done[o] for o in graph.outputs])


def _fits(node: Node, kept: ChainLimits) -> bool:
    multiplied = node.inputs[: node.op.multiplied]
    short = all(x.shape[-1] <= kept.widest for x in multiplied)
    return short and kept.least <= multiplied[0].dtype.bits and node.dtype.bits <= kept.bits
