"""Checks of indices leave loops: those of all steps are made before the first step, where what they need is known by then.

Then a loop that trains on indices (tokens, labels, numbers of batches) cannot fail half-way, and may write over the memory of
its first carries. The checked indices of all steps take memory: at most ``ROOM`` bytes, or twice what the loop is given.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.dtypes.formats import INT64
from weft.graph.batching import Batched, batch
from weft.graph.loops import SCAN, Body, every
from weft.graph.node import Graph, Node
from weft.graph.primitives import CONSTANT, constant, input_leaf
from weft.graph.primitives.call import call
from weft.graph.primitives.common import front
from weft.graph.primitives.elementwise import ADD
from weft.graph.primitives.index import IN_BOUNDS
from weft.graph.primitives.shape import IOTA
from weft.graph.simplify import splat
from weft.graph.source_lines import ORIGIN

ROOM = 8 << 20


def hoisted(graph: Graph) -> Graph:
    """The same graph; its loops are given checked indices where they checked them themselves."""
    if not _checks(graph):
        return graph
    before = ORIGIN.where
    try:
        return _hoisted(graph)[0]
    finally:
        ORIGIN.where = before


def _checks(graph: Graph) -> bool:
    """Whether a loop of the graph checks an index."""
    return any(n.op is SCAN and any(i.op is IN_BOUNDS for i in every(n.params["body"].graph)) for n in graph.order)


def _hoisted(graph: Graph) -> tuple[Graph, bool]:
    """(the new graph, whether anything in it has changed)."""
    done: dict[Node, Node] = {n: n for n in graph.inputs}
    for node in graph.order:
        if node in done:
            continue
        inputs = tuple([done[i] for i in node.inputs])
        if node.op is SCAN:
            done[node] = _scan(node, inputs)
        elif all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            done[node] = node
        else:
            done[node] = Node(node.op, inputs, node.params, node.shape, node.dtype, node.where)
    same = all(a is b for a, b in done.items())
    return (graph, False) if same else (Graph(graph.inputs, [done[o] for o in graph.outputs]), True)


def _scan(scan: Node, operands: tuple[Node, ...]) -> Node:
    """The loop on new operands. Checks whose indices are known before the first step leave its body: they are made in front,
    for all steps at once, and the loop is given their results, step by step (or once, where all steps check the same)."""
    body, changed = _hoisted(scan.params["body"].graph)  # from the innermost loop outwards
    carries, xs, length = scan.params["carries"], scan.params["xs"], scan.params["length"]
    ORIGIN.where = scan.where
    known: dict[Node, Batched] = {}  # inputs of the body that are known before the first step: stacked along 0, or one for all
    for k, (node, operand) in enumerate(zip(body.inputs, operands, strict=True)):
        if k >= carries:
            known[node] = (operand, 0 if k < carries + xs else None)
        else:
            steps = _counted(node, body.outputs[k], operand, length, scan.params["reverse"])
            if steps is not None:
                known[node] = (steps, 0)
    room = max(ROOM, 2 * sum(o.size * o.dtype.bytes for o in operands[carries:]))
    found = [n for n in _known_checks(body, set(known)) if length * n.size * n.dtype.bytes <= room]
    if not found:
        if not changed and all(a is b for a, b in zip(operands, scan.inputs, strict=True)):
            return scan
        return Node(SCAN, operands, {**scan.params, "body": Body(body)}, scan.shape, scan.dtype, scan.where)
    leaves = {n: input_leaf(n.shape, n.dtype) for n in found}
    rows, fixed = [], []
    for node, (made, dim) in zip(found, batch(found, known), strict=True):
        if dim is None:
            fixed.append((leaves[node], made))
        else:
            rows.append((leaves[node], front(made, dim)))
    last = carries + xs
    places = [*body.inputs[:last], *(n for n, _ in rows), *body.inputs[last:], *(n for n, _ in fixed)]
    given = (*operands[:last], *(n for _, n in rows), *operands[last:], *(n for _, n in fixed))
    new = Body(Graph(places, _replaced(body.outputs, body.order, leaves)))
    return Node(SCAN, given, {**scan.params, "body": new, "xs": xs + len(rows)}, scan.shape, scan.dtype, scan.where)


def _counted(node: Node, after: Node, first: Node, length: int, reverse: bool) -> Node | None:
    """A carry as it is before every step, if all steps add one number to another: a loop's counter."""
    if node.dtype is not INT64 or node.shape or after.op is not ADD or node not in after.inputs:
        return None
    start, step = splat(first), splat(after.inputs[after.inputs[0] is node])
    if start is None or step is None:
        return None
    start, step = int(start), int(step)
    if abs(start) + abs(step) * length >= 1 << 63:
        return None
    if reverse:
        start, step = start + step * (length - 1), -step
    line = call.iota(shape=(length,), dtype=node.dtype, axis=0)
    if step != 1:
        line = call.multiply(line, constant(step, node.dtype))
    return call.add(line, constant(start, node.dtype)) if start else line


def _known_checks(body: Graph, known: set[Node]) -> list[Node]:
    """The checks that need nothing but ``known``, reached by moving and by elementwise arithmetic."""
    known = set(known)
    found = []
    for node in body.order:
        if node in known or node.value is not None:
            continue
        light = node.op.kind in ("elementwise", "shape") and node.inputs
        if node.op is CONSTANT or node.op is IOTA or (light and all(i in known for i in node.inputs)):
            known.add(node)
            if node.op is IN_BOUNDS:
                found.append(node)
    return found


def _replaced(outputs: Sequence[Node], order: Sequence[Node], leaves: dict[Node, Node]) -> list[Node]:
    """The outputs, made again where they depend on nodes that ``leaves`` replaces."""
    done: dict[Node, Node] = dict(leaves)
    for node in order:
        if node not in done:
            inputs = tuple([done[i] for i in node.inputs])
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            done[node] = node if same else Node(node.op, inputs, node.params, node.shape, node.dtype, node.where)
    return [done[o] for o in outputs]
