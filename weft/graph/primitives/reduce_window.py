"""Pooling over the last dimensions, and its gradient as a gather.

``reduce_window`` kinds: ``sum``; ``max`` (NaN wins); ``argmax``, the int32 position of the maximum in its window (row-major,
first of equals, NaN wins). Padding is 0 for sums and below every number for max, also below -inf. ``window_gather`` is the
transpose: each element sums the values of the windows that contain it.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.dtypes.formats import FROM_NUMPY, INT32, INT64, INTEGERS, Format
from weft.errors import DTypeError, ShapeError
from weft.graph.node import Cost, Node, Primitive, Shape
from weft.graph.primitives.call import call, number, reshape
from weft.graph.primitives.common import batch_in_front, compute_in_float32, read, traffic
from weft.graph.primitives.kinds import NUMBERS
from weft.graph.primitives.rules import check_dtype, dtype_error, memoise
from weft.graph.primitives.table import register

Ints = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


@memoise
def _window_counts(name: str, size: Ints, window: Ints, stride: Ints, padding: Pads) -> Ints:
    """Return the number of windows along each dimension, after checking the parameters."""
    if not len(size) == len(window) == len(stride) == len(padding):
        raise ShapeError(f"{name}: window {window}, stride {stride} and padding {padding} must have one entry a dimension.")
    if not window or min(window + stride) < 1 or any(p < 0 for pair in padding for p in pair):
        raise ShapeError(f"{name}: window {window} and stride {stride} must be >= 1, padding {padding} >= 0.")
    out = []
    for n, k, s, (low, high) in zip(size, window, stride, padding, strict=True):
        if low >= k or high >= k:
            raise ShapeError(f"{name}: padding {padding} must be smaller than the window {window}, or windows would be empty.")
        if n + low + high < k:
            raise ShapeError(f"{name}: the window {window} is larger than x {size} with padding {padding}.")
        out.append((n + low + high - k) // s + 1)
    return tuple(out)


def _rule(x: Node, kind: str, window: Ints, stride: Ints, padding: Pads) -> tuple[Shape, Format]:
    check_dtype("reduce_window", x, NUMBERS)
    if kind not in ("sum", "max", "argmax"):
        raise ValueError(f"reduce_window: kind {kind!r} must be 'sum', 'max' or 'argmax'.")
    lead = len(x.shape) - len(window)
    if lead < 0:
        raise ShapeError(f"reduce_window: window {window} has more dimensions than x {x.shape}.")
    counts = _window_counts("reduce_window", x.shape[lead:], window, stride, padding)
    return x.shape[:lead] + counts, INT32 if kind == "argmax" else x.dtype


def _windows(x: np.ndarray, window: Ints, stride: Ints, padding: Pads, fill: Any) -> np.ndarray:
    """Return the windows of x, flattened into a last dimension."""
    lead, k = x.ndim - len(window), len(window)
    x = np.pad(x, [(0, 0)] * lead + list(padding), constant_values=fill)
    views = np.lib.stride_tricks.sliding_window_view(x, window, axis=tuple(range(lead, lead + k)))
    views = views[(slice(None),) * lead + tuple(slice(None, None, s) for s in stride)]
    return views.reshape(views.shape[: lead + k] + (prod(window),))


def _reference(x: np.ndarray, kind: str, window: Ints, stride: Ints, padding: Pads) -> np.ndarray:
    views = _windows(x, window, stride, padding, 0 if kind == "sum" else FROM_NUMPY[x.dtype].least)
    if kind == "sum":
        return np.add.reduce(views, axis=-1, dtype=x.dtype)
    if kind == "max":
        return np.maximum.reduce(views, axis=-1)
    counts, shape = views.shape[-1 - len(window):-1], views.shape[:-1]
    outside = [np.maximum(low - s * np.arange(n), 0) for n, s, (low, _) in zip(counts, stride, padding, strict=True)]
    first = np.broadcast_to(np.ravel_multi_index(np.ix_(*outside), window), shape)  # of the window's elements of x
    return np.maximum(np.argmax(views, axis=-1), first).astype(np.int32)


def _gather_rule(g: Node, *position: Node, window: Ints, stride: Ints, padding: Pads, size: Ints) -> tuple[Shape, Format]:
    if g.dtype not in NUMBERS:
        raise dtype_error("window_gather", (g,), ("g",), NUMBERS)
    lead = len(g.shape) - len(window)
    counts = _window_counts("window_gather", size, window, stride, padding)
    if lead < 0 or g.shape[lead:] != counts:
        raise ShapeError(f"window_gather: g {g.shape} must end in {counts}, the windows {window} of an array of size {size}.")
    if len(position) > 1:
        raise TypeError("window_gather: takes g and at most one array of positions.")
    if position:
        if position[0].dtype not in INTEGERS:
            raise DTypeError(f"window_gather: position is {position[0].dtype.name}, but must be an integer dtype.")
        if position[0].shape != g.shape:
            raise ShapeError(f"window_gather: position {position[0].shape} must have the shape of g {g.shape}.")
    return g.shape[:lead] + size, g.dtype


def _gather_reference(
    g: np.ndarray, *position: np.ndarray, window: Ints, stride: Ints, padding: Pads, size: Ints
) -> np.ndarray:
    lead = g.ndim - len(window)
    counts = g.shape[lead:]
    wide = np.zeros(g.shape[:lead] + tuple(n + a + b for n, (a, b) in zip(size, padding, strict=True)), g.dtype)
    for p, at in enumerate(np.ndindex(*window)):
        place: Any = tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(at, counts, stride, strict=True))
        wide[(..., *place)] += g if not position else np.where(position[0] == p, g, np.zeros((), g.dtype))
    inside: Any = tuple(slice(a, a + n) for n, (a, b) in zip(size, padding, strict=True))
    return wide[(..., *inside)]


# vjp


def _vjp(g: Node, out: Node, x: Node, kind: str, **at: Any) -> tuple[Node | None]:
    if kind == "argmax":
        return (None,)
    size = x.shape[len(x.shape) - len(at["window"]):]
    position = () if kind == "sum" else (call.reduce_window(x, kind="argmax", **at),)
    return (call.window_gather(g, *position, size=size, **at),)


def _gather_vjp(g: Node, out: Node, source: Node, *position: Node, size: Ints, **at: Any) -> tuple[Node | None, ...]:
    return (gather_at_positions(g, position[0], **at), None) if position else (call.reduce_window(g, kind="sum", **at),)


def gather_at_positions(x: Node, position: Node, window: Ints, stride: Ints, padding: Pads) -> Node:
    """Return the element of x at each window's position, or 0 where the position lies in the padding."""
    shape, lead = position.shape, len(position.shape) - len(window)
    place = call.cast(position, dtype=INT64)
    inside: Node | None = None
    indices: list[Node] = []
    for d in range(lead):
        line = call.iota(shape=(shape[d],), dtype=INT64, axis=0)
        indices.append(reshape(line, tuple(shape[d] if k == d else 1 for k in range(len(shape)))))
    below = prod(window)
    for d, (k, s, (low, _)) in enumerate(zip(window, stride, padding, strict=True)):
        below //= k
        part = call.remainder(call.floor_divide(place, number(below, place)), number(k, place))
        start = call.multiply(call.iota(shape=shape, dtype=INT64, axis=lead + d), number(s, place))
        index = call.subtract(call.add(start, part), number(low, place))
        valid = call.logical_and(
            call.greater_equal(index, number(0, index)), call.less(index, number(x.shape[lead + d], index))
        )
        inside = valid if inside is None else call.logical_and(inside, valid)
        indices.append(call.maximum(index, number(0, index)))
    assert inside is not None
    return call.where(inside, call.gather(x, *indices, axes=tuple(range(len(shape)))), number(0, x))


def _cost(node: Node) -> Cost:
    return Cost(node.size * prod(node.params["window"]), traffic(node))


def _gather_cost(node: Node) -> Cost:
    return Cost(node.inputs[0].size * prod(node.params["window"]), traffic(node))


register(Primitive(
    "reduce_window", "window", _rule, compute_in_float32(_reference), None, _vjp, batch_in_front("reduce_window"), _cost,
))
register(Primitive(
    "window_gather", "unwindow", _gather_rule, compute_in_float32(_gather_reference), None, _gather_vjp,
    batch_in_front("window_gather"), _gather_cost, at=read.window_gather,
))
