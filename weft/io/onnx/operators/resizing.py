"""ONNX operators that resample images: each axis is one product with a matrix, or one choice of elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf
from weft.io.onnx.operators.table import Attributes, operator, read_ints, read_static

_ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _compute_coordinates(mode: str, old: int, new: int, scale: float, roi: Any) -> np.ndarray:
    """Return the place in an axis of ``old`` elements of each of the ``new`` elements."""
    x = np.arange(new, dtype=np.float64)
    if mode == "align_corners":
        wide = scale * old  # not rounded
        return x * ((old - 1) / (wide - 1)) if wide != 1 else x * 0
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_crop_and_resize":
        begin, end = roi
        if new > 1:
            return begin * (old - 1) + x * (end - begin) * (old - 1) / (new - 1)
        return x * 0 + 0.5 * (begin + end) * (old - 1)
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "pytorch_half_pixel" and new == 1:
        return x * 0
    middle = 0.0
    if mode == "half_pixel_symmetric":
        middle = old / 2 * (1 - new / (scale * old))
    return middle + (x + 0.5) / scale - 0.5


def _evaluate_kernel(mode: str, distance: np.ndarray, a: float) -> np.ndarray:
    t = np.abs(distance)
    if mode == "linear":
        return np.maximum(1 - t, 0)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = (((t - 5) * t + 8) * t - 4) * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def _make_matrix(at: Attributes, mode: str, places: np.ndarray, old: int, scale: float) -> np.ndarray:
    """Return the (new, old) weights of the elements; those outside of the axis count for the nearest one, or not at all."""
    stretch = max(1 / scale, 1.0) if at.antialias else 1.0
    reach = math.ceil((1 if mode == "linear" else 2) * stretch) + 1
    offsets = np.arange(-reach, reach + 1)
    elements = np.floor(places)[:, None] + offsets
    weights = _evaluate_kernel(mode, (places[:, None] - elements) / stretch, at.cubic_coeff_a)
    if at.exclude_outside:
        weights = weights * ((elements >= 0) & (elements < old))
    if at.antialias or at.exclude_outside:
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((len(places), old))
    np.add.at(matrix, (np.arange(len(places))[:, None], np.clip(elements, 0, old - 1).astype(int)), weights)
    return matrix


@operator("Resize", "Upsample", static=(1, 2, 3))
def _resize(at: Attributes, x: Any, *inputs: Any) -> Any:
    x = wf.asarray(x)
    if len(inputs) == 1:  # Upsample, and Resize of opset 10
        inputs = (None, inputs[0])
    roi, given, sizes = (*inputs, None, None, None)[:3]
    scales: Any = at.scales if given is None else read_static(given, "scales").reshape(-1).tolist()
    rank = x.ndim
    axes = [a % rank for a in at.axes or range(rank)]
    mode = {"bilinear": "linear", "nn": "nearest"}.get(at.mode, at.mode)
    transform = at.coordinate_transformation_mode or "asymmetric"
    rounding = at.nearest_mode or "floor"
    old = [x.shape[a] for a in axes]
    if sizes is not None:
        new = list(read_ints(sizes, "sizes") or ())
        scales = [m / n for m, n in zip(new, old, strict=True)]
        if at.keep_aspect_ratio_policy in ("not_larger", "not_smaller"):
            common = (min if at.keep_aspect_ratio_policy == "not_larger" else max)(scales)
            scales, new = [common] * len(old), [int(math.floor(common * n + 0.5)) for n in old]
    else:
        new = [math.floor(n * s) for n, s in zip(old, scales, strict=True)]
    regions = None if roi is None else read_static(roi, "roi").reshape(2, -1).T.astype(np.float64)
    outside = np.zeros((1,) * rank, bool)
    dtype = x.dtype
    wide = mode != "nearest" and x.dtype.kind in "iu"
    x = x.astype(np.float32) if wide else x
    for k, axis in enumerate(axes):
        region = None if regions is None or not len(regions) else regions[k]
        if new[k] == old[k] and scales[k] == 1 and transform != "tf_crop_and_resize":
            continue
        places = _compute_coordinates(transform, old[k], new[k], scales[k], region)
        if transform == "tf_crop_and_resize":
            beyond = (places < 0) | (places > old[k] - 1)
            outside = outside | beyond.reshape([-1 if d == axis else 1 for d in range(rank)])
        if mode == "nearest":
            elements = np.clip(_ROUNDINGS[rounding](places), 0, old[k] - 1).astype(np.int64)
            x = wf.take(x, elements, axis=axis)
        else:
            matrix = _make_matrix(at, mode, places, old[k], scales[k])
            x = wf.moveaxis(wf.tensordot(x, matrix.astype(x.dtype).T, axes=((axis,), (0,))), -1, axis)
    if outside.any():
        x = wf.where(outside, at.extrapolation_value, x).astype(x.dtype)
    if wide:
        info = np.iinfo(dtype)
        x = wf.clip(wf.rint(x), info.min, info.max)
    return x.astype(dtype)


def _reflect(x: Any, low: float, high: float) -> Any:
    """Return coordinates reflected into [low, high]."""
    span = high - low
    if not span:
        return x * 0
    x = wf.remainder(wf.abs(x - low), 2 * span)
    return wf.where(x > span, 2 * span - x, x) + low


@operator("GridSample")
def _grid_sample(at: Attributes, x: Any, grid: Any) -> Any:
    x, grid = wf.asarray(x), wf.asarray(grid)
    sides = x.shape[2:]
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(at.mode, at.mode)
    padding = at.padding_mode
    ends = [(0.0, n - 1.0) if at.align_corners else (-0.5, n - 0.5) for n in sides]
    places = []
    for d, n in enumerate(sides):
        g = grid[..., len(sides) - 1 - d]
        place = (g + 1) * ((n - 1) / 2) if at.align_corners else ((g + 1) * n - 1) / 2
        if mode == "nearest":
            place = wf.rint(place)
        elif padding == "border" and mode == "linear":
            place = wf.clip(place, 0, n - 1)
        elif padding == "reflection" and mode == "linear":
            place = wf.clip(_reflect(place, *ends[d]), 0, n - 1)
        places.append(place)
    options = []
    for place in places:
        first = wf.floor(place)
        part = place - first
        if mode == "nearest":
            options.append([(place, wf.ones_like(place))])
        elif mode == "linear":
            options.append([(first, 1 - part), (first + 1, part)])
        else:
            a = -0.75
            near = [((a + 2) * t - (a + 3)) * t * t + 1 for t in (part, 1 - part)]
            far = [(((t - 5) * t + 8) * t - 4) * a for t in (part + 1, 2 - part)]
            options.append([(first - 1, far[0]), (first, near[0]), (first + 1, near[1]), (first + 2, far[1])])
    examples = wf.arange(x.shape[0]).reshape((-1, *(1,) * len(sides)))
    total: Any = 0
    share: Any
    for choice in np.ndindex(*(len(o) for o in options)):
        index, share = [], 1
        for d, k in enumerate(choice):
            element, weight = options[d][k]
            if padding == "reflection":
                element = _reflect(element, *ends[d])
            if padding == "zeros":
                weight = wf.where((element >= 0) & (element <= sides[d] - 1), weight, 0)
            index.append(wf.clip(element, 0, sides[d] - 1).astype(np.int64))
            share = share * weight
        values = wf.gather(x, examples, *index, axes=(0, *range(2, x.ndim)))  # channels last
        total = total + values * share[..., None]
    return wf.moveaxis(total, -1, 1).astype(x.dtype)
