"""Gradients of tables as rows: which rows of a table a gradient touches, and the values there.

The derivative of ``table[indices]`` is a scatter-add into zeros as large as the table. Its node refers to the indices and the
updates, so the rows are taken from the graph, and the large array is not computed unless it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from weft.dtypes.formats import INT64, Format
from weft.graph.node import Node
from weft.graph.primitives.call import broadcast_to, call, cast, full, reshape
from weft.graph.primitives.elementwise import ADD, CAST, DIVIDE, IDENTITY, MULTIPLY, NEGATIVE, STOP_GRADIENT
from weft.graph.primitives.index import SCATTER
from weft.graph.primitives.settings import ADD_MODES, scatter_add_mode
from weft.graph.primitives.shape import BROADCAST, RESHAPE
from weft.graph.primitives.table import CONSTANT, bind


class TouchedRows(NamedTuple):
    """``values`` (*indices.shape, *row): the values added at each index, in the shape in which they are computed."""

    indices: Node
    values: Node


class Rows(NamedTuple):
    """Touched rows of a table, each once, and the sums of their values.

    ``numbers`` (n,): the rows, then the number of rows of the table (no valid row) up to the end. ``values`` (n, *row): the
    sums, zeros at the end.
    """

    numbers: Node
    values: Node


def find_scatters(gradient: Node, dtype: Format) -> list[TouchedRows] | None:
    """Return the scatter-adds whose sum is ``gradient``, in the order of the sum, or None if it is anything else.

    Parameters
    ----------
    gradient : node, (rows, ...)
    dtype : of the values
    """
    op, inputs = gradient.op, gradient.inputs
    if gradient.value is not None or not gradient.shape:
        return None
    if _is_sum(gradient):
        result: list[TouchedRows] = []
        for term in _terms(gradient):
            parts = find_scatters(term, dtype)
            if parts is None:
                return None
            result += parts
        return result
    if op in (IDENTITY, STOP_GRADIENT, CAST):
        return find_scatters(inputs[0], dtype)
    if op is NEGATIVE:
        return _map_values(inputs[0], dtype, lambda v: call.negative(v))
    if op in (MULTIPLY, DIVIDE):
        a, b = inputs
        if op is MULTIPLY and _number(a) is not None:
            a, b = b, a
        factor = _number(b)
        if factor is None or a.shape != gradient.shape:
            return None
        return _map_values(a, dtype, lambda v: bind(op, v, broadcast_to(cast(factor, dtype), v.shape)))
    if op is not SCATTER or gradient.params["mode"] not in ADD_MODES or gradient.params["axes"] != (0,) or not _zeros(inputs[0]):
        return None
    _, updates, index = inputs
    return [TouchedRows(index, cast(updates, dtype))]


def _is_sum(node: Node) -> bool:
    return node.op is ADD and node.value is None and all(i.shape == node.shape for i in node.inputs)


def _terms(node: Node) -> list[Node]:
    """Return the summands of nested sums, in order. A loop over time steps creates thousands of them."""
    out, stack = [], [node]
    while stack:
        last = stack.pop()
        if _is_sum(last):
            stack += reversed(last.inputs)
        else:
            out.append(last)
    return out


def _map_values(below: Node, dtype: Format, f: Callable[[Node], Node]) -> list[TouchedRows] | None:
    parts = find_scatters(below, dtype)
    return None if parts is None else [TouchedRows(p.indices, f(p.values)) for p in parts]


def _number(node: Node) -> Node | None:
    """Return the node of shape () that is repeated in every element of this one, or None."""
    while node.shape and node.value is None and node.op in (BROADCAST, RESHAPE, CAST):
        node = node.inputs[0]
    return None if node.shape else node


def _zeros(node: Node) -> bool:
    number = _number(node)
    return number is not None and number.op is CONSTANT and not number.params["value"]


def sum_rows(parts: list[TouchedRows], extent: int) -> Rows:
    """Return the rows of a gradient, each once. Values of the same row are added in the order in which they occur.

    Time and memory traffic grow with the number of indices, not with ``extent``, the number of rows of the table.
    """
    flat = [_flatten(p) for p in parts]
    indices = flat[0].indices if len(parts) == 1 else call.concat(*[p.indices for p in flat], axis=0)
    values = parts[0].values if len(parts) == 1 else call.concat(*[p.values for p in flat], axis=0)
    count, row = indices.shape[0], flat[0].values.shape[1:]
    last = call.last_equal(indices, extent=extent)  # last occurrence of the same row: it represents the row
    is_last = cast(call.equal(last, call.iota(shape=(count,), dtype=INT64, axis=0)), INT64)
    place = call.subtract(call.gather(call.cumulative_sum(is_last, axis=0), last, axes=(0,)), full(1, (count,), INT64))
    # place: the position of each index among the distinct rows
    numbers = call.scatter(full(extent, (count,), INT64), _in_range(indices, extent), place, axes=(0,), mode="set")
    shape = values.shape[: len(values.shape) - len(row)]
    zeros, mode = full(0, (count, *row), values.dtype), scatter_add_mode(values.dtype)
    return Rows(numbers, call.scatter(zeros, values, reshape(place, shape), axes=(0,), mode=mode))


def _flatten(part: TouchedRows) -> TouchedRows:
    """Return the rows with one dimension of indices."""
    count, lead = prod(part.indices.shape), len(part.indices.shape)
    return TouchedRows(cast(reshape(part.indices, (count,)), INT64), reshape(part.values, (count, *part.values.shape[lead:])))


def _in_range(indices: Node, extent: int) -> Node:
    """Return indices as gather reads them: negative ones count from the end, the rest is clamped."""
    def all_of(n: int) -> Node:
        return full(n, indices.shape, INT64)

    counted = call.where(call.less(indices, all_of(0)), call.add(indices, all_of(extent)), indices)
    return call.minimum(call.maximum(counted, all_of(0)), all_of(extent - 1))
