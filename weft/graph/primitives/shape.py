"""Primitives that only move data. A kernel that reads one evaluates its index expression."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.dtypes.formats import UINT8, Format
from weft.dtypes.rounding import convert_array
from weft.errors import DTypeError, ShapeError
from weft.graph.node import AxisMaps, Node, Primitive, Shape
from weft.graph.primitives.call import call, full, permute, reshape
from weft.graph.primitives.common import NodeAndAxis, batch_in_front, front, inverse, moving, read, shift_axes, zero_vjp
from weft.graph.primitives.kinds import NUMBERS
from weft.graph.primitives.rules import broadcast, check_axes, check_axis, dtype_error, memoise
from weft.graph.primitives.table import register

Inputs = Sequence[Node]
Dims = Sequence[int | None]
Ints = tuple[int, ...]
_builtin_slice = slice


def _check_extents(name: str, shape: Ints) -> None:
    if shape and min(shape) < 0:
        raise ShapeError(f"{name}: shape {shape} has a negative extent.")


# reshape


def _reshape_rule(x: Node, shape: Ints) -> tuple[Shape, Format]:
    _check_extents("reshape", shape)
    if prod(shape) != x.size:
        raise ShapeError(f"reshape: x {x.shape} has {x.size} elements, and shape {shape} would have {prod(shape)}.")
    return shape, x.dtype


# permute


@memoise
def _permuted_shape(shape: Shape, axes: Ints) -> Shape:
    check_axes("permute", axes, len(shape))
    if len(axes) != len(shape):
        raise ShapeError(f"permute: axes {axes} must name each of the {len(shape)} dimensions of x {shape} once.")
    return tuple([shape[a] for a in axes])


# broadcast_to


def _broadcast_rule(x: Node, shape: Ints) -> tuple[Shape, Format]:
    _check_extents("broadcast_to", shape)
    if broadcast(x.shape, shape) != shape:
        raise ShapeError(
            f"broadcast_to: x {x.shape} does not broadcast to shape {shape}: dimensions are matched from the last, "
            "and each of x must be equal or 1."
        )
    return shape, x.dtype


def _broadcast_vjp(g: Node, out: Node, x: Node, shape: Ints) -> tuple[Node]:
    lead = len(shape) - len(x.shape)
    axes = tuple(d for d in range(len(shape)) if d < lead or (x.shape[d - lead] == 1 and shape[d] != 1))
    return (reshape(call.reduce_sum(g, axes=axes, keepdims=False), x.shape) if axes else g,)


def _broadcast_batch(inputs: Inputs, dims: Dims, shape: Ints) -> NodeAndAxis:
    x = front(inputs[0], dims[0], len(shape))
    return call.broadcast_to(x, shape=(x.shape[0], *shape)), 0


def _broadcast_along(node: Node) -> AxisMaps:
    shape = node.inputs[0].shape
    lead = len(node.shape) - len(shape)
    return (tuple([d - lead if d >= lead and shape[d - lead] != 1 else None for d in range(len(node.shape))]),)


# recompute


def _recompute_along(node: Node) -> AxisMaps:
    rank = len(node.shape)
    return (tuple(range(rank)), *[(None,) * rank for _ in node.inputs[1:]])


# slice


@memoise
def _check_slice(name: str, of: Shape, start: Ints, step: Ints, shape: Ints) -> None:
    if not len(start) == len(step) == len(shape) == len(of):
        raise ShapeError(f"{name}: start {start}, step {step} and shape {shape} must have an entry for each dimension of x {of}.")
    for n, begin, by, count in zip(of, start, step, shape, strict=True):
        last = begin + (count - 1) * by
        if count and not (by and 0 <= begin < n and 0 <= last < n):
            raise ShapeError(f"{name}: start {start}, step {step} and shape {shape} leave x {of}; steps must not be 0.")


def _slice_rule(x: Node, start: Ints, step: Ints, shape: Ints) -> tuple[Shape, Format]:
    _check_extents("slice", shape)
    _check_slice("slice", x.shape, start, step, shape)
    return shape, x.dtype


def slices(start: Ints, step: Ints, shape: Ints) -> tuple[Any, ...]:
    """Return the same selection as NumPy slices."""
    out = []
    for begin, by, count in zip(start, step, shape, strict=True):
        end: int | None = begin + by * count
        if count == 0:
            begin, end, by = 0, 0, 1
        out.append(_builtin_slice(begin, None if end is not None and end < 0 else end, by))
    return tuple(out)


def _slice_vjp(g: Node, out: Node, x: Node, start: Ints, step: Ints, shape: Ints) -> tuple[Node]:
    if any(abs(by) != 1 and n > 1 for by, n in zip(step, shape, strict=True)) or 0 in shape:
        return (call.slice_set(full(0, x.shape, x.dtype), g, start=start, step=step),)
    turned = [by < 0 and n > 1 for by, n in zip(step, shape, strict=True)]
    low = tuple(begin - n + 1 if t else begin for begin, n, t in zip(start, shape, turned, strict=True))
    if any(turned):
        back = tuple(n - 1 if t else 0 for n, t in zip(shape, turned, strict=True))
        g = call.slice(g, start=back, step=tuple(-1 if t else 1 for t in turned), shape=shape)
    high = tuple(n - a - m for n, a, m in zip(x.shape, low, shape, strict=True))
    return (call.pad(g, low=low, high=high, value=0) if any(low) or any(high) else g,)


def _slice_along(node: Node) -> AxisMaps:
    before = node.inputs[0].shape
    return (tuple([
        d if n == m and by == 1 else None
        for d, (n, m, by) in enumerate(zip(node.shape, before, node.params["step"], strict=True))
    ]),)


# pad


def _pad_rule(x: Node, low: Ints, high: Ints, value: Any) -> tuple[Shape, Format]:
    if not len(low) == len(high) == len(x.shape):
        raise ShapeError(f"pad: low {low} and high {high} must have an entry for each dimension of x {x.shape}.")
    if any(n < 0 for n in low + high):
        raise ShapeError(f"pad: low {low} and high {high} must not be negative: slice x {x.shape} instead.")
    return tuple([a + n + b for a, n, b in zip(low, x.shape, high, strict=True)]), x.dtype


def _pad(x: np.ndarray, low: Ints, high: Ints, value: Any) -> np.ndarray:
    fill = convert_array(np.asarray(value), x.dtype)
    out = np.full([a + n + b for a, n, b in zip(low, x.shape, high, strict=True)], fill, x.dtype)
    out[tuple(_builtin_slice(a, a + n) for a, n in zip(low, x.shape, strict=True))] = x
    return out


def _pad_vjp(g: Node, out: Node, x: Node, low: Ints, high: Ints, value: Any) -> tuple[Node]:
    start = tuple(a if n else 0 for a, n in zip(low, x.shape, strict=True))
    return (call.slice(g, start=start, step=(1,) * len(low), shape=x.shape),)


def _where_equal(node: Node) -> AxisMaps:
    """Return ``along`` for operands that start at the result's origin.

    A dimension maps to itself if its extent is the result's.
    """
    return tuple([
        tuple([d if n == m else None for d, (n, m) in enumerate(zip(node.shape, x.shape, strict=True))]) for x in node.inputs
    ])


# concat


def _concat_rule(*xs: Node, axis: int) -> tuple[Shape, Format]:
    if not xs:
        raise ShapeError("concat: there are no arrays: give one at least.")
    first = xs[0]
    check_axis("concat", axis, len(first.shape))
    total = 0
    for k, x in enumerate(xs):
        if x.dtype != first.dtype:
            raise dtype_error("concat", (first, x), ("arrays[0]", f"arrays[{k}]"), frozenset((first.dtype, x.dtype)))
        if x.shape[:axis] != first.shape[:axis] or x.shape[axis + 1:] != first.shape[axis + 1:]:
            raise ShapeError(
                f"concat: arrays[0] {first.shape} and arrays[{k}] {x.shape} must have equal shapes but for axis {axis}."
            )
        total += x.shape[axis]
    return (*first.shape[:axis], total, *first.shape[axis + 1:]), first.dtype


def _concat_vjp(g: Node, out: Node, *xs: Node, axis: int) -> tuple[Node, ...]:
    parts, at = [], 0
    for x in xs:
        start = tuple(at if d == axis and x.shape[d] else 0 for d in range(len(x.shape)))
        parts.append(call.slice(g, start=start, step=(1,) * len(x.shape), shape=x.shape))
        at += x.shape[axis]
    return tuple(parts)


# iota


def _iota_rule(shape: Ints, dtype: Format, axis: int) -> tuple[Shape, Format]:
    _check_extents("iota", shape)
    check_axis("iota", axis, len(shape))
    if dtype not in NUMBERS:
        raise DTypeError(f"iota: dtype {dtype} must be an integer or float dtype.")
    return shape, dtype


def _iota(shape: Ints, dtype: Format, axis: int) -> np.ndarray:
    line = np.arange(shape[axis]).astype(dtype.numpy)
    return np.broadcast_to(line.reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape)


# unpack_nibbles: bytes (..., n) -> their halves (..., 2, n), the low ones first


def _unpack_rule(x: Node) -> tuple[Shape, Format]:
    if x.dtype is not UINT8:
        raise dtype_error("unpack_nibbles", (x,), ("x",), frozenset((UINT8,)))
    if not x.shape:
        raise ShapeError("unpack_nibbles: x has no dimensions")
    return (*x.shape[:-1], 2, x.shape[-1]), UINT8


def _unpack(x: np.ndarray) -> np.ndarray:
    return np.stack([x & 15, x >> 4], axis=-2)


def _unpack_along(node: Node) -> tuple[tuple[int | None, ...]]:
    last = len(node.shape) - 2
    return ((*range(last), None, last),)


# slice_set


def _slice_set_rule(x: Node, value: Node, start: Ints, step: Ints) -> tuple[Shape, Format]:
    if x.dtype != value.dtype:
        raise dtype_error("slice_set", (x, value), ("x", "value"), frozenset((x.dtype, value.dtype)))
    _check_slice("slice_set", x.shape, start, step, value.shape)
    return x.shape, x.dtype


def _slice_set(x: np.ndarray, value: np.ndarray, start: Ints, step: Ints) -> np.ndarray:
    out = np.array(x, copy=True, order="C")
    out[slices(start, step, value.shape)] = value
    return out


def _slice_set_vjp(g: Node, out: Node, x: Node, value: Node, start: Ints, step: Ints) -> tuple[Node, Node]:
    hole = call.slice_set(g, full(0, value.shape, g.dtype), start=start, step=step)
    return hole, call.slice(g, start=start, step=step, shape=value.shape)


def _entry(name: str, rule: Any, reference: Any, vjp: Any, batch: Any, kind: str = "shape", **more: Any) -> Primitive:
    return register(Primitive(name, kind, rule, reference, None, vjp, batch, moving, True, **more))


RESHAPE = _entry(
    "reshape", _reshape_rule, lambda x, shape: np.reshape(x, shape),
    lambda g, out, x, shape: (reshape(g, x.shape),), batch_in_front("reshape"),
    view=True, same_memory=True, at=read.reshape, axis_maps=read.reshape_along,
)
PERMUTE = _entry(
    "permute", lambda x, axes: (_permuted_shape(x.shape, axes), x.dtype), np.transpose,
    lambda g, out, x, axes: (permute(g, inverse(axes)),),
    lambda inputs, dims, axes: (permute(front(inputs[0], dims[0]), (0, *shift_axes(axes))), 0),
    view=True, moves=True, at=read.permute, axis_maps=lambda node: (node.params["axes"],),
)
BROADCAST = _entry(
    "broadcast_to", _broadcast_rule, np.broadcast_to, _broadcast_vjp, _broadcast_batch,
    view=True, at=read.broadcast_to, axis_maps=_broadcast_along,
)
_entry(
    "slice", _slice_rule, lambda x, start, step, shape: x[slices(start, step, shape)], _slice_vjp, batch_in_front("slice"),
    view=True, moves=True, at=read.slice_, axis_maps=_slice_along,
)
_entry("pad", _pad_rule, _pad, _pad_vjp, batch_in_front("pad"), moves=True, at=read.pad, axis_maps=_where_equal)
CONCAT = _entry(
    "concat", _concat_rule, lambda *xs, axis: np.concatenate(xs, axis=axis), _concat_vjp, batch_in_front("concat"),
    moves=True, at=read.concat, axis_maps=_where_equal,
)
# x itself, ready when all other operands are. It is a node of its own, so computations from it are not merged with those from x
RECOMPUTE = _entry(
    "recompute", lambda x, *after: (x.shape, x.dtype), lambda x, *after: x,
    lambda g, out, x, *after: (g, *[None] * len(after)), lambda inputs, dims: (call.recompute(*inputs), dims[0]),
    view=True, same_memory=True, at=read.recompute, axis_maps=_recompute_along,
)
IOTA = _entry("iota", _iota_rule, _iota, zero_vjp, lambda inputs, dims, **params: (call.iota(**params), None), at=read.iota)
UNPACK_NIBBLES = _entry(
    "unpack_nibbles", _unpack_rule, _unpack, zero_vjp, batch_in_front("unpack_nibbles"), at=read.unpack_nibbles,
    axis_maps=_unpack_along,
)
_entry("slice_set", _slice_set_rule, _slice_set, _slice_set_vjp, batch_in_front("slice_set"), "write", at=read.slice_set)
_PARTS = frozenset(("slice", "permute"))  # moves that ``find_repeated`` looks through


def find_repeated(node: Node) -> Node | None:
    """Return the operand of a pending broadcast that ``node`` is, slices or permutes, or None for any other node."""
    while node.value is None and node.op.name in _PARTS:
        (node,) = node.inputs
    return node.inputs[0] if node.value is None and node.op is BROADCAST else None
