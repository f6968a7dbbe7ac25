"""Forward-mode derivatives: one walk over a graph, from the nodes with tangents to the outputs.

A primitive's forward derivative is its reverse derivative, transposed. The derivative rule is applied to a placeholder, which
gives nodes that are linear in it; walking these backwards with the operands' tangents as cotangents gives the tangent of the
result. The placeholder does not occur in it (Radul et al.: You only linearize once. 2022, uses the transposition in the other
direction). A loop has a rule of its own, which computes values and tangents in one loop, so the walk returns both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.dtypes.formats import INEXACT
from weft.graph.gradient import backward, pull_back
from weft.graph.node import Node, topological_order
from weft.graph.primitives.table import bind, input_leaf
from weft.graph.source_lines import ORIGIN, keep_origin

Dual = tuple[Node, Node | None]


def forward(outputs: Sequence[Node], tangents: Mapping[Node, Node]) -> tuple[list[Node], list[Node | None]]:
    """Return the outputs and their derivatives along ``tangents``.

    Parameters
    ----------
    outputs : nodes
    tangents : for float nodes of the graph, a node of the same shape and dtype; their own operands are ignored

    Returns
    -------
    (list of Node, list of Node or None)
        The outputs: the nodes themselves, except that loops are replaced by loops that also compute tangents. Their tangents:
        None where no path leads and where an output is not float.

    Examples
    --------
    >>> import numpy as np
    >>> from weft.dtypes.formats import FLOAT32
    >>> from weft.graph.interpret import interpret
    >>> from weft.graph.node import Graph
    >>> from weft.graph.primitives import TABLE, bind, input_leaf
    >>> x, dx = input_leaf((3,), FLOAT32), input_leaf((3,), FLOAT32)
    >>> _, (dy,) = forward([bind(TABLE["square"], x)], {x: dx})
    >>> interpret(Graph([x, dx], [dy]), [np.array([1, 2, 3], np.float32), np.array([1, 0, 10], np.float32)])
    [array([ 2.,  0., 60.], dtype=float32)]
    """
    done: dict[Node, Dual] = {node: (node, t) for node, t in tangents.items()}
    loops: dict[Node, Callable[[int], Dual]] = {}
    with keep_origin() as before:
        for node in topological_order(outputs, stop=frozenset(tangents)):
            if node not in tangents:
                ORIGIN.source_line = node.source_line or before
                done[node] = _step(node, done, loops)
    return [done[o][0] for o in outputs], [done[o][1] for o in outputs]


def _step(node: Node, done: Mapping[Node, Dual], loops: dict[Node, Callable[[int], Dual]]) -> Dual:
    """Return one node, on operands that may have been replaced, and its tangent."""
    token, operands = node, node.inputs if node.value is None else ()
    if operands and operands[0] in loops:
        return loops[operands[0]](node.params["index"])
    inputs = [done[i][0] for i in operands]
    moving = [done[i][1] for i in operands]
    if any(x is not i for x, i in zip(inputs, operands, strict=True)):
        node = bind(node.op, *inputs, **node.params)
    if all(t is None for t in moving):
        return node, None
    if node.op.kind == "loop":
        assert node.op.jvp is not None
        loops[token] = node.op.jvp(moving, node, *inputs, **node.params)
        return node, None
    return node, _tangent(node, moving) if node.dtype in INEXACT else None


def _tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    """Return the tangent of one node from those of its operands."""
    if node.op.jvp is not None:
        return node.op.jvp(tangents, node, *node.inputs, **node.params)
    slot = input_leaf(node.shape, node.dtype)
    pairs = [(p, t) for p, t in zip(pull_back(node, slot), tangents, strict=True) if p is not None and t is not None]
    if not pairs:
        return None
    return backward([p for p, _ in pairs], [t for _, t in pairs], [slot], (node, *node.inputs))[0]
