"""Resize images by nearest, linear or cubic interpolation, by areas, and with a filter against aliasing, as PyTorch does."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from weft.array import Array
from weft.dtypes.api import is_inexact
from weft.errors import DTypeError, ShapeError, short
from weft.functions.creation.fill import asarray
from weft.functions.dtype_info.half_precision import to_compute_dtype, to_storage_dtype
from weft.functions.indexing.take_scatter import take
from weft.functions.shape.axes import broadcast_to
from weft.nn.module import Module
from weft.nn.pooling import adaptive_avg_pool
from weft.nn.size_arguments import IMAGE_LAYOUTS, check_sizes
from weft.process.docstrings import complete_docs

MODES = ("nearest", "nearest-exact", "linear", "cubic", "area")
_OF_DIMENSIONS = {"linear": ("linear", 1), "bilinear": ("linear", 2), "trilinear": ("linear", 3), "bicubic": ("cubic", 2)}
MAX_UNROLLED_TAPS = 8  # of an element, that are added by operations of their own; more are a reduction
_REACH = {"linear": 1.0, "cubic": 2.0}  # the distance, in pixels, from which on a pixel has no weight
CUBIC, _CUBIC_ANTIALIASED = -0.75, -0.5  # Keys' parameter: PyTorch's, and Pillow's, which PyTorch has with antialias


class Taps(NamedTuple):
    """For each element of a result along an axis, the indices that it reads and their weights: two arrays (extent, taps)."""

    indices: np.ndarray
    weights: np.ndarray


def interpolate(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool = False,
    antialias: bool = False,
) -> Array:
    """Resize images to ``size``, or by ``scale_factor``.

    Keys: Cubic convolution interpolation for digital image processing. 1981.

    Parameters
    ----------
    x : (N, C, L), (N, C, H, W) or (N, C, D, H, W)
    size : int, or one int per spatial dimension
    scale_factor : number, or one per spatial dimension; instead of ``size``. The extents are rounded down
    mode : str
        "nearest", as PyTorch's: the pixel at the corner of the area that a new pixel covers; "nearest-exact": at its centre;
        "linear", "cubic": weights of the 2 or 4 nearest pixels along each dimension; "area": the mean of the area.
        "bilinear", "bicubic" and "trilinear" are other names for 2 and 3 dimensions.
    align_corners : bool
        For "linear" and "cubic": the centres of the first and last pixels keep their places, instead of the edges.
    antialias : bool
        For "linear" and "cubic": where the image becomes smaller, weights cover the area of a new pixel, as in Pillow.

    Returns
    -------
    Array of shape (N, C, ...) and the dtype of ``x``

    Raises
    ------
    ShapeError, DTypeError, ValueError, TypeError
        ``x`` is no batch of images, or sizes do not fit; ``x`` has integers in a mode that computes means; ``mode`` is unknown,
        or does not take an option; both or none of ``size`` and ``scale_factor``.

    >>> x = wf.array([[[[0.0, 4.0]]]])
    >>> wf.nn.interpolate(x, scale_factor=2).tolist()
    [[[[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 4.0]]]]
    >>> wf.nn.interpolate(x, size=(1, 4), mode="linear").tolist()
    [[[[0.0, 1.0, 3.0, 4.0]]]]
    """
    x = asarray(x)
    spatial = x.ndim - 2
    if spatial not in IMAGE_LAYOUTS:
        raise ShapeError(f"interpolate: x must be {', '.join(IMAGE_LAYOUTS.values())}, not {x.shape}")
    mode = _check_mode(mode, spatial, align_corners, antialias)
    if mode[:7] != "nearest" and not is_inexact(x.dtype):
        raise DTypeError(f"interpolate: mode={mode!r} computes means; x must be float, not {x.dtype}")
    extents, scales = _read_sizes(x.shape[2:], size, scale_factor)
    if mode == "area":
        return adaptive_avg_pool(spatial, x, extents)
    y = x if mode[:7] == "nearest" else to_compute_dtype(x)
    times = [1] * spatial
    for d in sorted(range(spatial), key=lambda d: extents[d] / x.shape[2 + d]):  # the axes that shrink first
        n, out, scale = x.shape[2 + d], extents[d], scales[d]
        is_kept = mode == "linear" or antialias or (mode == "nearest" and spatial == 2)  # factors that are rounded, as in PyTorch
        if out == n and (is_kept or scale == 1):
            continue
        if mode == "nearest" and out % n == 0 and (scale * out == n or (out == 2 * n and is_kept)):
            times[d] = out // n
        else:
            y = _apply(y, 2 + d, find_taps(n, out, scale, mode, bool(align_corners), bool(antialias)))
    y = _repeat(y, times) if max(times) > 1 else y
    return to_storage_dtype(y, x)


def _check_mode(mode: Any, spatial: int, align_corners: bool, antialias: bool) -> str:
    """Return one of :data:`MODES`."""
    name, needed = _OF_DIMENSIONS.get(mode, (mode, spatial)) if isinstance(mode, str) else (mode, spatial)
    if name == "linear" and mode == "linear":
        needed = spatial
    if name not in MODES or needed != spatial:
        modes = ", ".join(map(repr, MODES))
        raise ValueError(f"interpolate: mode must be one of {modes}, not {short(mode)} for x {IMAGE_LAYOUTS[spatial]}")
    for option, value in (("align_corners", align_corners), ("antialias", antialias)):
        if value and name not in _REACH:
            raise ValueError(f'interpolate: {option} is for mode "linear" or "cubic", not {mode!r}')
    return name


def _read_sizes(shape: tuple[int, ...], size: Any, scale_factor: Any) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the extents of the result, and the old pixels for each new one along each dimension."""
    if (size is None) == (scale_factor is None):
        raise TypeError("interpolate: give size or scale_factor" + ("" if size is None else ", not both"))
    if 0 in shape:
        raise ShapeError(f"interpolate: an image of extents {shape} has no pixels")
    if size is not None:
        extents = check_sizes(size, len(shape), "interpolate: size", 1)
        return extents, tuple(n / out for n, out in zip(shape, extents, strict=True))
    factors = tuple(scale_factor) if isinstance(scale_factor, tuple | list) else (scale_factor,) * len(shape)
    if len(factors) != len(shape) or not all(isinstance(f, int | float | np.number) and 0 < f < math.inf for f in factors):
        forms = "a positive number" + (f", or one for each of {len(shape)} dimensions" if len(shape) > 1 else "")
        raise ShapeError(f"interpolate: scale_factor must be {forms}, not {short(scale_factor)}")
    extents = tuple(math.floor(n * float(f)) for n, f in zip(shape, factors, strict=True))
    if 0 in extents:
        raise ShapeError(f"interpolate: scale_factor={short(scale_factor)} leaves no pixel of the extents {shape}")
    return extents, tuple(1 / float(f) for f in factors)


@lru_cache(maxsize=256)
def find_taps(n: int, out: int, scale: float, mode: str, align_corners: bool, antialias: bool) -> Taps:
    """Return the taps that resize an axis from ``n`` to ``out`` elements, ``scale`` old ones for each new one."""
    places = np.arange(out)
    if mode[:7] == "nearest":
        shift = 0.0 if mode == "nearest" else 0.5
        exact = (2 * places + (mode != "nearest")) * n // (2 * out) if scale * out == n else np.floor((places + shift) * scale)
        return Taps(np.minimum(exact.astype(np.int64), n - 1)[:, None], np.ones((out, 1)))
    if align_corners:
        scale = (n - 1) / (out - 1) if out > 1 else 0.0
    if antialias:
        return _find_antialiased_taps(n, out, scale, mode)
    at = places * scale if align_corners else (places + 0.5) * scale - 0.5
    at = np.maximum(at, 0.0) if mode == "linear" else at
    reach = int(_REACH[mode])
    indices = np.floor(at).astype(np.int64)[:, None] + np.arange(1 - reach, 1 + reach)
    weights = _weigh(at[:, None] - indices, mode, CUBIC)
    return Taps(np.clip(indices, 0, n - 1), weights)


def _find_antialiased_taps(n: int, out: int, scale: float, mode: str) -> Taps:
    stretch = max(scale, 1.0)
    support, centre = _REACH[mode] * stretch, scale * (np.arange(out) + 0.5)
    first = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + support + 0.5).astype(np.int64), n)
    indices = first[:, None] + np.arange(int((last - first).max()))
    weights = _weigh((indices - centre[:, None] + 0.5) / stretch, mode, _CUBIC_ANTIALIASED) * (indices < last[:, None])
    return Taps(np.minimum(indices, n - 1), weights / weights.sum(axis=1, keepdims=True))


def _weigh(distance: np.ndarray, mode: str, a: float) -> np.ndarray:
    """Return the weight of a pixel at a distance."""
    d = np.abs(distance)
    if mode == "linear":
        return np.maximum(1.0 - d, 0.0)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _apply(x: Array, axis: int, taps: Taps) -> Array:
    """Return the weighted sums of taps along an axis."""
    count = taps.indices.shape[1]
    if count > MAX_UNROLLED_TAPS:
        weights = asarray(taps.weights.reshape(taps.weights.shape + (1,) * (x.ndim - axis - 1)), dtype=x.dtype)
        return (take(x, asarray(taps.indices), axis=axis) * weights).sum(axis=axis + 1)
    y: Any = None
    for k in range(count):
        part = take(x, asarray(taps.indices[:, k]), axis=axis)
        if not (taps.weights[:, k] == 1).all():
            part = part * asarray(taps.weights[:, k].reshape((-1,) + (1,) * (x.ndim - axis - 1)), dtype=x.dtype)
        y = part if y is None else y + part
    return y


def _repeat(x: Array, times: list[int]) -> Array:
    """Return ``x`` with each element repeated along the spatial dimensions; its gradient is a sum, not a scatter."""
    lead, sides = x.shape[:2], x.shape[2:]
    apart = x.reshape((*lead, *(n for side in sides for n in (side, 1))))
    many = broadcast_to(apart, (*lead, *(n for pair in zip(sides, times, strict=True) for n in pair)))
    return many.reshape((*lead, *(side * t for side, t in zip(sides, times, strict=True))))


class Upsample(Module):
    """Apply :func:`weft.nn.interpolate`.

    >>> wf.nn.Upsample(scale_factor=2, mode="linear")(wf.ones((1, 3, 4, 5))).shape
    (1, 3, 8, 10)
    """

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool = False,
        antialias: bool = False,
    ) -> None:
        super().__init__()
        self.size = tuple(size) if isinstance(size, list) else size
        self.scale_factor = tuple(scale_factor) if isinstance(scale_factor, list) else scale_factor
        self.mode, self.align_corners, self.antialias = mode, bool(align_corners), bool(antialias)

    def forward(self, x: Any) -> Array:
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners, self.antialias)


complete_docs(interpolate, Upsample)
