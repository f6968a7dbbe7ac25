"""Decomposition of operations for which a device has no kernel."""

from __future__ import annotations

from weft.graph.convolution_as_product import as_product
from weft.graph.node import Graph, Node, rebuild
from weft.kernel.target import ChainLimits


def decompose(graph: Graph, kept: ChainLimits) -> Graph:
    """Return the graph with composed operations (``Primitive.compose``) replaced by their parts unless ``kept`` allows them.

    Examples
    --------
    >>> from weft.dtypes.formats import FLOAT32
    >>> from weft.graph.primitives import TABLE, bind, input_leaf
    >>> x = input_leaf((5, 4), FLOAT32)
    >>> out = bind(TABLE["attention"], x, x, x, result="out", scale=0.5, causal=False, keep=None)
    >>> "attention" in repr(decompose(Graph([x], [out]), ChainLimits(widest=3)))
    False
    """
    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op.kind == "convolution" and node.value is None:
            return as_product(node, inputs) or node.on(inputs)
        composed = node.op.compose
        if composed is None or node.value is not None or _fits(node, kept):
            return node.on(inputs)
        return composed(*inputs, **node.params)

    return rebuild(graph, change)


def _fits(node: Node, kept: ChainLimits) -> bool:
    multiplied = node.inputs[: node.op.factor_count]
    short = all(x.shape[-1] <= kept.widest for x in multiplied)
    return short and kept.min_bits <= multiplied[0].dtype.bits and node.dtype.bits <= kept.max_bits
