"""ONNX operators that pool over windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft as wf
from weft.array import wrap
from weft.array.convert import as_node
from weft.eager.apply import bind
from weft.graph.primitives import TABLE
from weft.io.onnx.operators.table import Attributes, operator, read_ints, read_static
from weft.io.onnx.operators.windows import Windows, count_covered, find_least, place_windows, read_taps


def _reduce(kind: str, x: Any, windows: Windows) -> Any:
    """Return the sum or maximum of each window."""
    fits = all(a < k and b < k for (a, b), k in zip(windows.padding, windows.sizes, strict=True))
    if set(windows.dilations) == {1} and fits:
        return wrap(bind(
            TABLE["reduce_window"], as_node(x), kind=kind, window=windows.sizes, stride=windows.strides, padding=windows.padding
        ))
    parts = read_taps(x, windows, find_least(x) if kind == "max" else 0)
    total = next(parts)
    for part in parts:
        total = wf.maximum(total, part) if kind == "max" else total + part
    return total


@operator("MaxPool")
def _max_pool(at: Attributes, x: Any) -> Any:
    x = wf.asarray(x)
    image = x.shape[2:]
    windows = place_windows(at, image, at.kernel_shape)
    y = _reduce("max", x, windows)
    if at.outputs == 1:
        return y
    best: Any = wf.argmax(wf.stack(list(read_taps(x, windows, find_least(x))), axis=-1), axis=-1)
    flat: Any = 0
    pitch = [math.prod(image[d + 1 :]) for d in range(len(image))]
    if at.storage_order:
        pitch = [math.prod(image[:d]) for d in range(len(image))]
    below = math.prod(windows.sizes)
    for d, k in enumerate(windows.sizes):
        below //= k
        offset = (best // below) % k * windows.dilations[d]
        start = wf.arange(windows.counts[d]) * windows.strides[d] - windows.padding[d][0]
        flat = flat + (start.reshape([-1 if c == d else 1 for c in range(len(image))]) + offset) * pitch[d]
    planes = wf.arange(x.shape[0] * x.shape[1]).reshape((*x.shape[:2], *(1,) * len(image)))
    return y, (flat + planes * math.prod(image)).astype(np.int64)


@operator("AveragePool")
def _average_pool(at: Attributes, x: Any) -> Any:
    x = wf.asarray(x)
    image = x.shape[2:]
    windows = place_windows(at, image, at.kernel_shape)
    declared = [b for _, b in windows.padding]
    if at.ceil_mode:  # positions that it adds beyond the padding are not counted
        declared = list(at.pads[len(image) :]) if at.pads else [0] * len(image)
    counts = count_covered(windows, image, bool(at.count_include_pad), declared)
    total = _reduce("sum", x if x.dtype.itemsize > 2 else x.astype(np.float32), windows)
    return (total * (1 / counts).astype(total.dtype)).astype(x.dtype)


@operator("LpPool")
def _lp_pool(at: Attributes, x: Any) -> Any:
    x, p = wf.asarray(x), 2 if at.p is None else at.p
    return _reduce("sum", wf.abs(x) ** p, place_windows(at, x.shape[2:], at.kernel_shape)) ** (1 / p)


def _find_spatial_axes(x: Any) -> tuple[int, ...]:
    return tuple(range(2, wf.ndim(x)))


operator("GlobalAveragePool")(lambda at, x: wf.mean(x, axis=_find_spatial_axes(x), keepdims=True))
operator("GlobalMaxPool")(lambda at, x: wf.max(x, axis=_find_spatial_axes(x), keepdims=True))


@operator("GlobalLpPool")
def _global_lp_pool(at: Attributes, x: Any) -> Any:
    return wf.sum(wf.abs(x) ** at.p, axis=_find_spatial_axes(x), keepdims=True) ** (1 / at.p)


@operator("MaxUnpool", static=(2,))
def _max_unpool(at: Attributes, x: Any, places: Any, shape: Any = None) -> Any:
    spatial = len(at.kernel_shape)
    strides, pads = at.strides or (1,) * spatial, at.pads or (0,) * (2 * spatial)
    own = [
        (n - 1) * s + k - pads[d] - pads[d + spatial]
        for d, (n, s, k) in enumerate(zip(x.shape[2:], strides, at.kernel_shape, strict=True))
    ]
    size = x.shape[0] * x.shape[1] * math.prod(own)
    y = wf.scatter_set(wf.zeros(size, dtype=x.dtype), wf.reshape(places, (-1,)), wf.reshape(x, (-1,)))
    y = y.reshape((*x.shape[:2], *own))
    if shape is None:
        return y
    wanted = read_ints(shape, "output_shape")
    return wf.pad(y, [(0, m - n) for m, n in zip(wanted, y.shape, strict=True)])  # type: ignore[arg-type]


@operator("RoiAlign")
def _roi_align(at: Attributes, x: Any, rois: Any, batch: Any) -> Any:
    shift = 0.5 if at.opset >= 16 and at.coordinate_transformation_mode == "half_pixel" else 0.0
    rois = wf.asarray(rois) * at.spatial_scale - shift
    left, top, right, bottom = (rois[:, k] for k in range(4))
    height, width = bottom - top, right - left
    if not shift:
        height, width = wf.maximum(height, 1), wf.maximum(width, 1)
    samples = at.sampling_ratio
    if not samples:
        sides = read_static(wf.stack([height / at.output_height, width / at.output_width]), "rois")
        counts = np.maximum(np.ceil(sides), 1).astype(int)
        parts = [
            _align(at, x, *(v[r : r + 1] for v in (batch, top, left, height, width)), *counts[:, r]) for r in range(len(rois))
        ]
        return wf.concatenate(parts, axis=0)
    return _align(at, x, batch, top, left, height, width, samples, samples)


def _align(at: Attributes, x: Any, batch: Any, top: Any, left: Any, height: Any, width: Any, rows: int, columns: int) -> Any:
    """Return the regions sampled ``rows`` times ``columns`` in each cell of the output."""
    h, w = at.output_height, at.output_width
    y = top[:, None] + (np.arange(h * rows) + 0.5).astype(np.float32) * height[:, None] / (h * rows)
    z = left[:, None] + (np.arange(w * columns) + 0.5).astype(np.float32) * width[:, None] / (w * columns)
    corners = []
    for line, n in ((y, x.shape[2]), (z, x.shape[3])):
        inside = (line >= -1) & (line <= n)
        line = wf.clip(line, 0, n - 1)
        first = wf.floor(line)
        low = first.astype(np.int64)
        corners.append([(low, (first + 1 - line) * inside), (wf.minimum(low + 1, n - 1), (line - first) * inside)])
    number = wf.asarray(batch).reshape((-1, 1, 1))
    terms = []
    for i, a in corners[0]:
        for j, b in corners[1]:
            pixels = wf.moveaxis(wf.gather(x, number, i[:, :, None], j[:, None, :], axes=(0, 2, 3)), -1, 1)
            terms.append(pixels * (a[:, :, None] * b[:, None, :])[:, None])
    if at.mode == "max":
        values = wf.max(wf.stack(terms), axis=0)
    else:
        values = sum(terms[1:], terms[0])
    cells = values.reshape((*values.shape[:2], h, rows, w, columns))
    return cells.max(axis=(3, 5)) if at.mode == "max" else cells.mean(axis=(3, 5))


