"""ONNX operators that make arrays or move their elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft as wf
from weft.errors import ShapeError
from weft.io.onnx.operators.table import Attributes, operator, read_axes, read_ints, read_static
from weft.io.onnx.tensors import dtype_of_code


@operator("Constant")
def _constant(at: Attributes) -> Any:
    for name, dtype in (
        ("value", None), ("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if (value := at.values.get(name)) is not None:
            return np.asarray(value, dtype)
    raise TypeError("a Constant of strings or without a value")


@operator("Shape")
def _shape(at: Attributes, x: Any) -> Any:
    return np.array(wf.shape(x)[slice(at.start or 0, at.end)], np.int64)


@operator("Size")
def _size(at: Attributes, x: Any) -> Any:
    return np.array(wf.size(x), np.int64)


@operator("ConstantOfShape", static=(0,))
def _constant_of_shape(at: Attributes, shape: Any) -> Any:
    value = np.zeros(1, np.float32) if at.value is None else at.value
    return wf.full(read_ints(shape, "shape"), value.reshape(()), dtype=value.dtype)


@operator("EyeLike")
def _eye_like(at: Attributes, x: Any) -> Any:
    rows, columns = x.shape
    return wf.eye(rows, columns, k=at.k, dtype=x.dtype if at.dtype is None else dtype_of_code(at.dtype))


@operator("Range", static=(0, 1, 2))
def _range(at: Attributes, start: Any, limit: Any, delta: Any) -> Any:
    start, limit, delta = (read_static(x, "the range").reshape(()) for x in (start, limit, delta))
    count = max(math.ceil((limit.astype(float) - start) / delta), 0)
    return start + delta * wf.arange(count).astype(start.dtype)


@operator("Reshape", static=(1,))
def _reshape(at: Attributes, x: Any, shape: Any = None) -> Any:
    new = read_ints(at.shape if shape is None else shape, "shape")
    assert new is not None
    if not at.allowzero:
        new = tuple([wf.shape(x)[k] if n == 0 else n for k, n in enumerate(new)])
    return wf.reshape(x, new)


@operator("Flatten")
def _flatten(at: Attributes, x: Any) -> Any:
    shape = wf.shape(x)
    axis = at.axis + len(shape) if at.axis < 0 else at.axis
    return wf.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@operator("Squeeze", static=(1,))
def _squeeze(at: Attributes, x: Any, axes: Any = None) -> Any:
    chosen = read_axes(at, axes)
    return wf.squeeze(x, tuple(d for d, n in enumerate(wf.shape(x)) if n == 1) if chosen is None else chosen)


@operator("Unsqueeze", static=(1,))
def _unsqueeze(at: Attributes, x: Any, axes: Any = None) -> Any:
    return wf.expand_dims(x, read_axes(at, axes))


@operator("Transpose")
def _transpose(at: Attributes, x: Any) -> Any:
    return wf.permute_dims(x, at.perm or tuple(range(wf.ndim(x)))[::-1])


@operator("Expand", static=(1,))
def _expand(at: Attributes, x: Any, shape: Any) -> Any:
    return wf.broadcast_to(x, np.broadcast_shapes(wf.shape(x), read_ints(shape, "shape") or ()))


@operator("Tile", static=(1, 2))
def _tile(at: Attributes, x: Any, repeats: Any, axis: Any = None) -> Any:
    times = read_ints(repeats, "repeats")
    if axis is not None:  # opset 1
        (d,), (n,) = read_ints(axis, "axis"), times  # type: ignore[misc]
        times = tuple(n if k == d else 1 for k in range(wf.ndim(x)))
    return wf.tile(x, times)


@operator("Concat")
def _concat(at: Attributes, *xs: Any) -> Any:
    return wf.concatenate(xs, axis=1 if at.axis is None else at.axis)


@operator("Split", static=(1,))
def _split(at: Attributes, x: Any, sizes: Any = None) -> Any:
    n, given = wf.shape(x)[at.axis], read_ints(at.split if sizes is None else sizes, "split")
    if given is None:
        count = at.num_outputs or at.outputs
        each = -(-n // count)
        given = tuple(min(each, max(n - k * each, 0)) for k in range(count))
    if sum(given) != n:
        raise ShapeError(f"parts of {given} do not add up to the {n} elements of axis {at.axis}")
    return tuple(wf.split(x, np.cumsum(given)[:-1].tolist(), axis=at.axis))


@operator("Slice", static=(1, 2, 3, 4))
def _slice(at: Attributes, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    starts = read_ints(at.starts if starts is None else starts, "starts")
    ends = read_ints(at.ends if ends is None else ends, "ends")
    chosen = read_axes(at, axes) or tuple(range(len(starts)))
    index: list[Any] = [slice(None)] * wf.ndim(x)
    for axis, start, end, step in zip(chosen, starts, ends, read_ints(steps, "steps") or (1,) * len(starts), strict=True):
        n = wf.shape(x)[axis]
        first, last = (0, n) if step > 0 else (0, n - 1)
        start = min(max(start + n if start < 0 else start, first), last)
        end = min(max(end + n if end < 0 else end, first if step > 0 else -1), n)
        index[axis] = slice(start, None if end < 0 else end, step)
    return x[tuple(index)]


@operator("Pad", static=(1, 3))
def _pad(at: Attributes, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    amounts = read_ints(at.pads or at.paddings if pads is None else pads, "pads")
    rank = wf.ndim(x)
    chosen = read_ints(axes, "axes") or tuple(range(rank))
    low, high = np.zeros(rank, int), np.zeros(rank, int)
    for k, axis in enumerate(chosen):
        low[axis], high[axis] = amounts[k], amounts[k + len(chosen)]  # type: ignore[index]
    x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(low, high, wf.shape(x), strict=True))]
    widths = [(max(int(a), 0), max(int(b), 0)) for a, b in zip(low, high, strict=True)]
    mode = at.mode or "constant"
    if mode != "constant":
        return wf.pad(x, widths, mode=mode)
    x, number = wf.asarray(x), at.value or 0 if value is None else value
    if isinstance(number, wf.ndarray) or np.ndim(number):
        number = wf.reshape(number, ())
    if not isinstance(number, wf.ndarray):
        return wf.pad(x, widths, constant_values=np.asarray(number)[()])
    inside = wf.pad(wf.ones(x.shape, dtype=bool), widths)
    return wf.where(inside, wf.pad(x, widths), number.astype(x.dtype))


@operator("DepthToSpace")
def _depth_to_space(at: Attributes, x: Any) -> Any:
    n, c, h, w = x.shape
    b = at.blocksize
    if at.mode == "CRD":
        parts = wf.permute_dims(x.reshape((n, c // b**2, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    else:
        parts = wf.permute_dims(x.reshape((n, b, b, c // b**2, h, w)), (0, 3, 4, 1, 5, 2))
    return parts.reshape((n, c // b**2, h * b, w * b))


@operator("SpaceToDepth")
def _space_to_depth(at: Attributes, x: Any) -> Any:
    n, c, h, w = x.shape
    b = at.blocksize
    parts = x.reshape((n, c, h // b, b, w // b, b))
    order = (0, 1, 3, 5, 2, 4) if at.mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return wf.permute_dims(parts, order).reshape((n, c * b * b, h // b, w // b))


@operator("Trilu", static=(1,))
def _trilu(at: Attributes, x: Any, k: Any = None) -> Any:
    diagonal = 0 if k is None else int(read_static(k, "k").reshape(()))
    return wf.triu(x, diagonal) if at.upper else wf.tril(x, diagonal)


@operator("ReverseSequence", static=(1,))
def _reverse_sequence(at: Attributes, x: Any, lengths: Any) -> Any:
    return reverse_sequences(x, lengths, at.batch_axis, at.time_axis)


def reverse_sequences(x: Any, lengths: Any, batch_axis: int, time_axis: int) -> Any:
    """Return ``x`` with the first ``lengths[b]`` steps of each example in the other order."""
    steps = wf.arange(x.shape[time_axis]).reshape((-1, 1))
    lengths = wf.asarray(lengths).astype("int64")
    order = wf.where(steps < lengths, lengths - 1 - steps, steps)  # (time, batch)
    order = order if time_axis < batch_axis else order.T
    lead = (1,) * min(batch_axis, time_axis)
    order = order.reshape((*lead, *order.shape, *(1,) * (x.ndim - 2 - len(lead))))
    return wf.take_along_axis(x, wf.broadcast_to(order, x.shape), axis=time_axis)


@operator("Col2Im", static=(1, 2))
def _col2im(at: Attributes, x: Any, image: Any, block: Any) -> Any:
    size, window = read_ints(image, "image_shape"), read_ints(block, "block_shape")
    assert size is not None and window is not None
    spatial = len(size)
    dilations, strides = at.dilations or (1,) * spatial, at.strides or (1,) * spatial
    pads = at.pads or (0,) * (2 * spatial)
    padded = [n + pads[k] + pads[k + spatial] for k, n in enumerate(size)]
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(padded, window, dilations, strides, strict=True)]
    n, channels = x.shape[0], x.shape[1] // math.prod(window)
    blocks = x.reshape((n, channels, math.prod(window), *counts))
    out = wf.zeros((n, channels, *padded), dtype=x.dtype)
    for k, tap in enumerate(np.ndindex(*window)):
        part = tuple(
            slice(t * d, t * d + (c - 1) * s + 1, s) for t, d, c, s in zip(tap, dilations, counts, strides, strict=True)
        )
        out[(slice(None), slice(None), *part)] += blocks[:, :, k]
    return out[(slice(None), slice(None), *(slice(pads[k], pads[k] + m) for k, m in enumerate(size)))]
