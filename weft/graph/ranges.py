"""Ranges of integers, to remove checks of indices that cannot be out of range.

Sources of such indices are weft's random numbers, positions of a maximum, arange, and clipped values. A loop with only such
indices cannot fail half-way and may overwrite the memory of its first carries.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from itertools import zip_longest

from weft.dtypes.formats import INT64, Format
from weft.graph.loops import SCAN, Body
from weft.graph.node import Graph, Node, rebuild
from weft.graph.primitives.call import call, cast
from weft.graph.primitives.index import IN_BOUNDS
from weft.graph.primitives.kinds import BITS
from weft.graph.primitives.shape import CONCAT
from weft.graph.source_lines import ORIGIN, keep_origin

Range = tuple[int, int]  # the least and the largest value, both inclusive
Rule = Callable[[Node, Sequence[Range]], Range]


def remove_certain_checks(graph: Graph) -> Graph:
    """Return the graph without the ``in_bounds`` nodes, also in loops, whose indices are in range for any inputs."""
    with keep_origin():
        return _remove_certain_checks(graph)


def _remove_certain_checks(graph: Graph, input_ranges: Sequence[Range | None] = ()) -> Graph:
    """Return the graph without certain checks.

    ``input_ranges``: ranges of the graph's inputs, None where only the dtype limits them.
    """
    if not any(n.op is IN_BOUNDS or n.op is SCAN for n in graph.order):
        return graph
    ranges = {n: r or _whole_range(n.dtype) for n, r in zip_longest(graph.inputs, input_ranges) if n.dtype in BITS}

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        new = _without_check(node, inputs, ranges)
        note(new, ranges)
        return new

    return rebuild(graph, change)


def _without_check(node: Node, inputs: tuple[Node, ...], ranges: dict[Node, Range]) -> Node:
    """Return the node on new operands, without certain checks."""
    params = node.params
    if node.op is SCAN:
        body, carries = params["body"].graph, params["carries"]
        known = [None if k < carries else ranges.get(i) for k, i in enumerate(inputs[: len(body.inputs)])]
        inner = _remove_certain_checks(body, known)
        params = params if inner is body else {**params, "body": Body(inner)}
    elif node.op is IN_BOUNDS:
        ORIGIN.source_line = node.source_line
        (index,) = inputs
        if _is_in_range(index, node, ranges):
            return cast(index, INT64)
        if index.op is CONCAT and any(_is_in_range(i, node, ranges) for i in index.inputs):  # each operand by itself
            parts = [cast(i, INT64) if _is_in_range(i, node, ranges) else call.in_bounds(i, **params) for i in index.inputs]
            return call.concat(*parts, axis=index.params["axis"])
    return node.on(inputs) if params is node.params else Node(node.op, inputs, params, node.shape, node.dtype, node.source_line)


def _is_in_range(index: Node, check: Node, ranges: dict[Node, Range]) -> bool:
    """Return whether an index is certainly in the range of a check."""
    low, high = ranges[index]
    return low >= 0 and high < check.params["extent"]


def note(node: Node, ranges: dict[Node, Range]) -> None:
    """Add the range of ``node``, and of the nodes it reads, to ``ranges``. Floats have no range."""
    stack = [node]
    while stack:
        n = stack[-1]
        below = [i for i in n.inputs if i not in ranges and i.dtype in BITS]
        if n in ranges or n.dtype not in BITS or not below:
            stack.pop()
            if n not in ranges and n.dtype in BITS:
                ranges[n] = _range(n, ranges)
        else:
            stack += below


def _range(node: Node, ranges: dict[Node, Range]) -> Range:
    """Return the range of a node from the ranges of its operands."""
    whole = _whole_range(node.dtype)
    if any(i.dtype not in BITS for i in node.inputs) and node.op.name not in _PLACES:
        return whole
    rule = _RULES.get(node.op.name)
    result = rule(node, [ranges.get(i, whole) for i in node.inputs]) if rule is not None else whole
    return result if whole[0] <= result[0] and result[1] <= whole[1] else whole  # larger values wrap around


def _whole_range(dtype: Format) -> Range:
    return int(dtype.least), int(dtype.greatest)


def _join(some: Sequence[Range]) -> Range:
    """Return the smallest range that contains all of ``some``."""
    return min([low for low, _ in some], default=0), max([high for _, high in some], default=0)


def _corners(f: Callable[[int, int], int]) -> Rule:
    """Return the rule of a function that is monotonic in both operands: its extremes lie at extremes of the operands."""

    def rule(_: Node, x: Sequence[Range]) -> Range:
        values = [f(a, b) for a in x[0] for b in x[1]]
        return min(values), max(values)

    return rule


def _shift(node: Node, x: Sequence[Range]) -> Range:
    """Return the range of a right shift by a valid count."""
    (a, b), (low, high) = x
    return (a >> high, b >> low) if a >= 0 and 0 <= low and high < node.dtype.bits else _whole_range(node.dtype)


def _bitwise_and(node: Node, x: Sequence[Range]) -> Range:
    """Return the range of a bitwise and: at most the largest value of each non-negative operand."""
    tops = [high for low, high in x if low >= 0]
    return (0, min(tops)) if tops else _whole_range(node.dtype)


def _remainder(node: Node, x: Sequence[Range]) -> Range:
    """Return the range of a remainder by a positive divisor."""
    (a, b), (low, high) = x
    if low <= 0:
        return _whole_range(node.dtype)
    return (0, min(b, high - 1)) if a >= 0 else (0, high - 1)


def _divide(node: Node, x: Sequence[Range]) -> Range:
    """Return the range of a quotient by a positive divisor."""
    (a, b), (low, high) = x
    return (min(a // low, a // high), max(b // low, b // high)) if low > 0 else _whole_range(node.dtype)


def _places(node: Node, x: Sequence[Range]) -> Range:
    """Return the range of positions, which count from 0 along the axes that are searched or sorted."""
    axes = node.params["axes"] if node.op.kind == "reduce" else (node.params["axis"],)
    return 0, max(math.prod([node.inputs[0].shape[a] for a in axes]) - 1, 0)


_CORNERS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "minimum": min, "maximum": max,
}
_PLACES = ("argmax", "argmin", "argsort")  # for any dtype of the searched operand
_KEEPS_RANGE = ("permute", "broadcast_to", "reshape", "slice", "gather", "sort", "cast", "identity", "stop_gradient",
          "reduce_max", "reduce_min")  # in the range of their first operand; a cast keeps values that it can represent

_RULES: dict[str, Rule] = {
    **{name: _corners(f) for name, f in _CORNERS.items()},
    **dict.fromkeys(_KEEPS_RANGE, lambda n, x: x[0]),
    **dict.fromkeys(_PLACES, _places),
    **dict.fromkeys(("concat", "slice_set"), lambda n, x: _join(x)),
    "where": lambda n, x: _join(x[1:]),
    "pad": lambda n, x: _join((x[0], (int(n.params["value"]), int(n.params["value"])))),
    "constant": lambda n, x: (int(n.params["value"]), int(n.params["value"])),
    "iota": lambda n, x: (0, max(n.shape[n.params["axis"]] - 1, 0)),
    "in_bounds": lambda n, x: (0, max(n.params["extent"] - 1, 0)),
    "bitwise_and": _bitwise_and,
    "bitwise_right_shift": _shift,
    "remainder": _remainder,
    "floor_divide": _divide,
}
