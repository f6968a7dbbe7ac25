"""gather and scatter: reads and writes at integer indices. in_bounds: checked indices. last_equal: the last of equal indices.

Indices broadcast to a shape I, which comes first: the result of gather has the shape I + (shape of x without ``axes``), and so
have the updates of a scatter. Negative indices count from the end; indices out of range are clamped to the edge, so memory is
always safe. Indices of users go through ``in_bounds`` first, which raises IndexError; those that weft creates cannot be out of
range. A gather of checked indices does not clamp.

A scatter's mode is "set" (the last of several updates of one element counts), "add" (in order), "add_unordered" (in any order,
if the user permits it: see ``settings.py``), or "own": set, where the caller guarantees that no element is written twice, and
indices out of range are not written. Rows can then be computed and written by several threads, in place, as an optimizer does
with the touched rows of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.dtypes.formats import FROM_NUMPY, INT64, INTEGERS, Format
from weft.dtypes.rounding import convert_array, decode_array
from weft.errors import ShapeError, index_error
from weft.graph.node import Cost, Node, Primitive, Shape
from weft.graph.primitives import common
from weft.graph.primitives.call import call, cast, full, number, permute, reshape
from weft.graph.primitives.common import NodeAndAxis, extent, front, rank, shift_axes, spread, zero_vjp
from weft.graph.primitives.formulas import in_bounds as in_bounds_formula
from weft.graph.primitives.kinds import NUMBERS
from weft.graph.primitives.rules import broadcast, check_axes, check_dtype, dtype_error, shapes_error
from weft.graph.primitives.settings import ADD_MODES, scatter_add_mode
from weft.graph.primitives.table import register

Inputs = Sequence[Node]
Dims = Sequence[int | None]
Ints = tuple[int, ...]


def _result_shape(name: str, x: Node, indices: Sequence[Node], axes: Ints) -> Shape:
    """Return the shape of a gather's result or a scatter's updates, after checking axes and indices."""
    check_axes(name, axes, len(x.shape))
    if len(axes) != len(indices) or not axes:
        raise ShapeError(f"{name}: {len(indices)} index arrays for axes {axes}: give one an axis.")
    shape: Shape | None = indices[0].shape
    for index in indices:
        if index.dtype not in INTEGERS:
            raise dtype_error(name, indices, [f"indices[{k}]" for k in range(len(indices))], INTEGERS)
        if shape is not None and index.shape != shape:
            shape = broadcast(shape, index.shape)
    if shape is None:
        raise shapes_error(name, indices, [f"indices[{k}]" for k in range(len(indices))])
    if 0 in x.shape and 0 not in shape and any(x.shape[a] == 0 for a in axes):
        raise IndexError(f"{name}: x {x.shape} has no elements along axes {axes} to index.")
    return shape + tuple([n for d, n in enumerate(x.shape) if d not in axes])


def _in_bounds_rule(x: Node, extent: int, axis: int | str, from_end: bool) -> tuple[Shape, Format]:
    check_dtype("in_bounds", x, INTEGERS)
    if extent == 0 and 0 not in x.shape:
        raise IndexError(f"every index is out of bounds for axis {axis} with size 0")
    return x.shape, INT64


def _in_bounds(x: np.ndarray, extent: int, axis: int | str, from_end: bool) -> np.ndarray:
    wide = x.astype(np.int64)
    if not x.size:
        return wide
    least = x.min()
    if x.max() >= extent or least < (-extent if from_end else 0):
        outside = x >= extent if x.dtype.kind == "u" else (wide >= extent) | (wide < (-extent if from_end else 0))
        raise index_error(int(x[outside][0]), axis, extent)
    return wide if least >= 0 else np.where(wide < 0, wide + extent, wide)


def _gather_rule(x: Node, *indices: Node, axes: Ints) -> tuple[Shape, Format]:
    return _result_shape("gather", x, indices, axes), x.dtype


def _scatter_rule(x: Node, updates: Node, *indices: Node, axes: Ints, mode: str) -> tuple[Shape, Format]:
    if x.dtype != updates.dtype:
        raise dtype_error("scatter", (x, updates), ("x", "updates"), frozenset((x.dtype, updates.dtype)))
    if mode not in ("set", "own", *ADD_MODES):
        raise ValueError(f"scatter: mode {mode!r} must be 'set', 'add', 'add_unordered' or 'own'.")
    if mode in ADD_MODES and x.dtype not in NUMBERS:
        raise dtype_error("scatter", (x,), ("x",), NUMBERS)
    expected = _result_shape("scatter", x, indices, axes)
    if updates.shape != expected:
        raise ShapeError(
            f"scatter: updates {updates.shape} must have shape {expected}: the indices' shape, then x {x.shape} without axes "
            f"{axes}."
        )
    return x.shape, x.dtype


def _key(x: np.ndarray, indices: Sequence[np.ndarray], axes: Ints) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Return x with the indexed axes in front, and the indices clamped to their range."""
    front_axes = axes + tuple(d for d in range(x.ndim) if d not in axes)
    key = []
    for index, axis in zip(indices, axes, strict=True):
        n = x.shape[axis]
        wide = index.astype(np.int64, copy=False)
        if wide.size and not (wide.min() >= 0 and wide.max() < n):
            wide = np.minimum(np.maximum(np.where(wide < 0, wide + n, wide), 0), max(n - 1, 0))
        key.append(wide)
    return x.transpose(front_axes), tuple(key if len(key) == 1 else np.broadcast_arrays(*key))


def _in_range(x: np.ndarray, indices: Sequence[np.ndarray], axes: Ints) -> np.ndarray:
    """Return where all indices are in range."""
    valid = [(i.astype(np.int64) >= -x.shape[a]) & (i.astype(np.int64) < x.shape[a]) for i, a in zip(indices, axes, strict=True)]
    return np.logical_and.reduce(np.broadcast_arrays(*valid))


def _gather(x: np.ndarray, *indices: np.ndarray, axes: Ints) -> np.ndarray:
    view, key = _key(x, indices, axes)
    return view[key]


def _add_in_order(view: np.ndarray, key: tuple[Any, ...], updates: np.ndarray) -> None:
    """Add updates in a user's format, which NumPy cannot add: one after the other, each sum rounded."""
    keys = np.broadcast_arrays(*key)
    for position in np.ndindex(keys[0].shape):
        at = tuple([k[position] for k in keys])
        view[at] = convert_array(decode_array(view[at]) + decode_array(updates[position]), view.dtype)


def _scatter(x: np.ndarray, updates: np.ndarray, *indices: np.ndarray, axes: Ints, mode: str) -> np.ndarray:
    out = np.array(x, copy=True, order="C")
    view, key = _key(out, indices, axes)
    if mode in ADD_MODES:
        with np.errstate(all="ignore"):
            _add_in_order(view, key, updates) if FROM_NUMPY[x.dtype].custom else np.add.at(view, key, updates)
    elif mode == "own":
        inside = _in_range(x, indices, axes)
        view[tuple(k[inside] for k in key)] = updates[inside]
    else:
        view[key] = updates
    return out


def _gather_vjp(g: Node, out: Node, x: Node, *indices: Node, axes: Ints) -> tuple[Node | None, ...]:
    return (
        call.scatter(full(0, x.shape, x.dtype), g, *indices, axes=axes, mode=scatter_add_mode(x.dtype)),
        *(None,) * len(indices),
    )


def _scatter_vjp(g: Node, out: Node, x: Node, updates: Node, *indices: Node, axes: Ints, mode: str) -> tuple[Node | None, ...]:
    none = (None,) * len(indices)
    back = call.gather(g, *indices, axes=axes)
    if mode in ADD_MODES:
        return (g, back, *none)
    hole = call.scatter(g, full(0, updates.shape, g.dtype), *indices, axes=axes, mode=mode)
    shape = updates.shape[: len(updates.shape) - (len(x.shape) - len(axes))]
    if mode == "own":
        for index, axis in zip(indices, axes, strict=True):
            wide, extent = cast(index, INT64), x.shape[axis]
            valid = call.logical_and(call.greater_equal(wide, number(-extent, wide)), call.less(wide, number(extent, wide)))
            valid = reshape(valid, valid.shape + (1,) * (len(updates.shape) - len(shape)))
            back = call.where(valid, back, number(0, back))
        return (hole, back, *none)
    # of several updates of one element only the last counts: find the writer of each element
    count = prod(shape)
    if count > 1:
        writer = reshape(call.iota(shape=(count,), dtype=INT64, axis=0), shape)
        board = full(0, tuple(x.shape[a] for a in axes), INT64)
        own = tuple(range(len(axes)))
        won = call.equal(call.gather(call.scatter(board, writer, *indices, axes=own, mode="set"), *indices, axes=own), writer)
        won = reshape(won, shape + (1,) * (len(updates.shape) - len(shape)))
        back = call.where(won, back, number(0, back))
    return (hole, back, *none)


def _batched_indices(inputs: Inputs, dims: Dims, count: int) -> tuple[Node, list[Node]]:
    """Return the batch's own index, and the indices with the batch in front."""
    ndim = max(map(rank, inputs, dims))
    own = reshape(call.iota(shape=(count,), dtype=INT64, axis=0), (count,) + (1,) * ndim)
    return own, [front(i, d, ndim) for i, d in zip(inputs, dims, strict=True)]


def _gather_batch(inputs: Inputs, dims: Dims, axes: Ints) -> NodeAndAxis:
    x, indices, index_dims = inputs[0], inputs[1:], dims[1:]
    if all(d is None for d in index_dims):
        out = call.gather(front(x, dims[0]), *indices, axes=shift_axes(axes))
        return out, max(len(i.shape) for i in indices)
    count = extent(inputs, dims)
    own, moved = _batched_indices(indices, index_dims, count)
    if dims[0] is None:
        return call.gather(x, *moved, axes=axes), 0
    return call.gather(front(x, dims[0]), own, *moved, axes=(0, *shift_axes(axes))), 0


def _scatter_batch(inputs: Inputs, dims: Dims, axes: Ints, mode: str) -> NodeAndAxis:
    count = extent(inputs, dims)
    x, updates = spread(inputs[0], dims[0], count), spread(inputs[1], dims[1], count)
    indices, index_dims = inputs[2:], dims[2:]
    if all(d is None for d in index_dims):
        lead = max(len(i.shape) for i in indices)  # the batch goes behind the indices' dimensions
        order = (*range(1, lead + 1), 0, *range(lead + 1, len(updates.shape)))
        return call.scatter(x, permute(updates, order), *indices, axes=shift_axes(axes), mode=mode), 0
    own, moved = _batched_indices(indices, index_dims, count)
    return call.scatter(x, updates, own, *moved, axes=(0, *shift_axes(axes)), mode=mode), 0


def _scatter_cost(node: Node) -> Cost:
    adds = node.inputs[1].size if node.params["mode"] in ADD_MODES else 0
    return Cost(adds, common.moving(node).bytes)


def _gather_cost(node: Node) -> Cost:
    """Count only the elements of x that are read."""
    return Cost(0, 2 * node.nbytes + sum(i.nbytes for i in node.inputs[1:]))


# last_equal: for each element of a vector of indices into ``extent`` positions, the position in the vector of the last index with
# the same meaning (negative ones count from the end, out of range are clamped). Its time does not grow with ``extent``.


def _last_equal_rule(x: Node, extent: int) -> tuple[Shape, Format]:
    if len(x.shape) != 1:
        raise ShapeError(f"last_equal: x {x.shape} must have one dimension.")
    check_dtype("last_equal", x, INTEGERS)
    if extent < 1:
        raise ShapeError(f"last_equal: extent {extent} must be at least 1.")
    return x.shape, INT64


def _last_equal(x: np.ndarray, extent: int) -> np.ndarray:
    _, (key,) = _key(np.empty(extent), (x,), (0,))
    board = np.zeros(extent, np.int64)
    board[key] = np.arange(x.size)
    return board[key]


def _last_equal_batch(inputs: Inputs, dims: Dims, extent: int) -> NodeAndAxis:
    x = front(inputs[0], dims[0])
    count, n = x.shape
    wide = cast(x, INT64)
    end = number(extent, wide)
    wide = call.where(call.less(wide, number(0, wide)), call.add(wide, end), wide)
    wide = call.minimum(call.maximum(wide, number(0, wide)), number(extent - 1, wide))
    own = call.multiply(call.iota(shape=(count, 1), dtype=INT64, axis=0), end)  # each batch has its own range of numbers
    last = call.last_equal(reshape(call.add(wide, own), (count * n,)), extent=count * extent)
    first = call.multiply(call.iota(shape=(count, 1), dtype=INT64, axis=0), number(n, wide))
    return call.subtract(reshape(last, x.shape), first), 0


# in_bounds: indices counted from the front; IndexError for one outside of -extent..extent-1, or without ``from_end`` outside of
# 0..extent-1. axis: the axis or the name in the error message (``errors.index_error``). Not exact: it must not be folded while
# a graph is built.
IN_BOUNDS = register(Primitive(
    "in_bounds", "elementwise", _in_bounds_rule, _in_bounds, in_bounds_formula, zero_vjp, common.batch_elementwise("in_bounds"),
    common.elementwise_cost(2), exact=False, cheap=True, raises=True,
    at=lambda reader, node, index, guards: reader.check(node, index, guards),
))
register(Primitive(
    "gather", "gather", _gather_rule, _gather, None, _gather_vjp, _gather_batch, _gather_cost,
    exact=True, at=common.read.gather,
))
SCATTER = register(Primitive(
    "scatter", "scatter", _scatter_rule, _scatter, None, _scatter_vjp, _scatter_batch, _scatter_cost, exact=True,
    ends_kernel=True,
))
register(Primitive(
    "last_equal", "board", _last_equal_rule, _last_equal, None, zero_vjp, _last_equal_batch, common.moving, exact=True,
    ends_kernel=True,
))
