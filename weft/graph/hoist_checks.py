"""Hoisting of index checks out of loops: all steps' indices are checked before the first step if they do not depend on a step.

A loop over indices (tokens, labels, numbers of batches) then cannot fail half-way, and may overwrite the memory of its first
carries. The checked indices of all steps take memory: at most ``MIN_HOIST_BYTES`` bytes, or twice the size of the loop's
operands.
"""

from __future__ import annotations

from weft.dtypes.formats import INT64
from weft.graph.batching import BatchedNode, batch
from weft.graph.loops import SCAN, Body, every, is_dynamic
from weft.graph.node import Graph, Node, rebuild
from weft.graph.primitives import CONSTANT, constant, input_leaf
from weft.graph.primitives.call import call
from weft.graph.primitives.common import front
from weft.graph.primitives.elementwise import ADD
from weft.graph.primitives.index import IN_BOUNDS
from weft.graph.primitives.shape import IOTA
from weft.graph.simplify import splat
from weft.graph.source_lines import ORIGIN, keep_origin

MIN_HOIST_BYTES = 8 << 20


def hoist_checks(graph: Graph) -> Graph:
    """Return the graph with index checks moved in front of its loops where possible."""
    if not any(n.op is SCAN and any(i.op is IN_BOUNDS for i in every(n.params["body"].graph)) for n in graph.order):
        return graph
    with keep_origin():
        return _hoist(graph)


def _hoist(graph: Graph) -> Graph:
    return rebuild(graph, lambda node, inputs: _hoist_from_scan(node, inputs) if node.op is SCAN else node.on(inputs))


def _hoist_from_scan(scan: Node, operands: tuple[Node, ...]) -> Node:
    """Return the loop on new operands, with index checks moved in front of it where possible.

    The indices must be available before the first step. The checks then run for all steps at once. The loop gets their results
    step by step, or once if all steps check the same indices.
    """
    body = _hoist(scan.params["body"].graph)  # innermost loops first
    carries, xs, length = scan.params["carries"], scan.params["xs"], scan.params["length"]
    ORIGIN.source_line = scan.source_line
    available: dict[Node, BatchedNode] = {}  # inputs of the body: stacked along 0, or one for all steps
    for k, (node, operand) in enumerate(zip(body.inputs, () if is_dynamic(scan) else operands, strict=False)):
        if k >= carries:
            available[node] = (operand, 0 if k < carries + xs else None)
        else:
            steps = _counter_values(node, body.outputs[k], operand, length, scan.params["reverse"])
            if steps is not None:
                available[node] = (steps, 0)
    room = max(MIN_HOIST_BYTES, 2 * sum(o.size * o.dtype.bytes for o in operands[carries:]))
    found = [] if is_dynamic(scan) else _available_checks(body, set(available))  # a step that is not run must not raise
    checks = [n for n in found if length * n.size * n.dtype.bytes <= room]
    if not checks:
        if body is scan.params["body"].graph and operands == scan.inputs:
            return scan
        return Node(SCAN, operands, {**scan.params, "body": Body(body)}, scan.shape, scan.dtype, scan.source_line)
    leaves = {n: input_leaf(n.shape, n.dtype) for n in checks}
    rows, fixed = [], []
    for node, (check, dim) in zip(checks, batch(checks, available), strict=True):
        if dim is None:
            fixed.append((leaves[node], check))
        else:
            rows.append((leaves[node], front(check, dim)))
    last = carries + xs
    places = [*body.inputs[:last], *(n for n, _ in rows), *body.inputs[last:], *(n for n, _ in fixed)]
    new_operands = (*operands[:last], *(n for _, n in rows), *operands[last:], *(n for _, n in fixed))
    outputs = rebuild(body, lambda node, inputs: leaves[node] if node in leaves else node.on(inputs)).outputs
    new = Body(Graph(places, outputs))
    return Node(SCAN, new_operands, {**scan.params, "body": new, "xs": xs + len(rows)}, scan.shape, scan.dtype, scan.source_line)


def _counter_values(node: Node, after: Node, first: Node, length: int, reverse: bool) -> Node | None:
    """Return a counter's value before every step: a carry to which all steps add the same number. None for other carries."""
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
    positions = call.iota(shape=(length,), dtype=node.dtype, axis=0)
    if step != 1:
        positions = call.multiply(positions, constant(step, node.dtype))
    return call.add(positions, constant(start, node.dtype)) if start else positions


def _available_checks(body: Graph, available: set[Node]) -> list[Node]:
    """Return the checks that depend only on ``available``, through moves and elementwise arithmetic."""
    available = set(available)
    checks = []
    for node in body.order:
        if node in available or node.value is not None:
            continue
        light = node.op.kind in ("elementwise", "shape") and node.inputs
        if node.op is CONSTANT or node.op is IOTA or (light and all(i in available for i in node.inputs)):
            available.add(node)
            if node.op is IN_BOUNDS:
                checks.append(node)
    return checks
