"""Vectorisation (vmap): evaluate a graph for many examples at once, with the batching rules of the primitives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.graph.node import Node, topological_order
from weft.graph.primitives import bind
from weft.graph.primitives.batch_last import apply_batch_last
from weft.graph.source_lines import ORIGIN, keep_origin

BatchedNode = tuple[Node, int | None]


def batch(outputs: Sequence[Node], mapping: Mapping[Node, BatchedNode], batch_last: bool = False) -> list[BatchedNode]:
    """Return the outputs after some nodes were replaced by batched ones.

    Parameters
    ----------
    outputs : nodes
    mapping : for nodes of the graph, the replacement and its batch dimension (None: not batched)
    batch_last : whether batch dimensions are moved behind all others where that costs nothing

    Returns
    -------
    list of (Node, dimension or None) : None where an output does not depend on anything batched

    Examples
    --------
    >>> from weft.dtypes.formats import FLOAT32
    >>> from weft.graph.primitives import TABLE, bind, input_leaf
    >>> x, rows = input_leaf((3,), FLOAT32), input_leaf((8, 3), FLOAT32)
    >>> batch([bind(TABLE["square"], x)], {x: (rows, 0)})
    [(<square float32[8,3]>, 0)]
    """
    done: dict[Node, BatchedNode] = dict(mapping)
    with keep_origin() as before:
        for node in topological_order(outputs, stop=frozenset(mapping)):
            if node not in done:
                ORIGIN.source_line = node.source_line or before
                done[node] = _batch_node(node, done, batch_last)
    return [done[o] for o in outputs]


def _batch_node(node: Node, done: Mapping[Node, BatchedNode], batch_last: bool) -> BatchedNode:
    """Return a node on batched operands, or the node itself if no operand changed."""
    parts = [done[i] for i in node.inputs] if node.value is None else []
    if any(dim is not None for _, dim in parts):
        if node.op.batch is None:
            raise TypeError(f"vmap: {node.op.name} has no batching rule.")
        if batch_last:
            return apply_batch_last(node.op, [x for x, _ in parts], [dim for _, dim in parts], node.params)
        return node.op.batch([x for x, _ in parts], [dim for _, dim in parts], **node.params)
    if all(x is i for (x, _), i in zip(parts, node.inputs, strict=False)):
        return node, None
    return bind(node.op, *(x for x, _ in parts), **node.params), None
