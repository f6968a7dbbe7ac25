"""Sample images at places of a grid, with gradients of images and places, and make grids of affine maps."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.api import is_float
from weft.errors import DTypeError, ShapeError
from weft.functions.creation.fill import arange, asarray
from weft.functions.dtype_info.half_precision import to_compute_dtype, to_storage_dtype
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import floor, rint, stop_gradient
from weft.functions.indexing.take_scatter import gather
from weft.functions.indexing.where import where
from weft.functions.shape.axes import moveaxis, stack
from weft.nn.resize import CUBIC
from weft.nn.size_arguments import IMAGE_LAYOUTS, check_sizes
from weft.process.docstrings import complete_each

SAMPLING = ("bilinear", "nearest", "bicubic")
OUTSIDE = ("zeros", "border", "reflection")


def grid_sample(
    x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False,
) -> Array:
    """Return the values of images at places between their pixels.

    Jaderberg et al.: Spatial transformer networks. 2015.

    Parameters
    ----------
    x : (N, C, H, W) or (N, C, D, H, W), float
    grid : (N, ..., 2) or (N, ..., 3), float
        The place of each new pixel, in the order x, y(, z), of which x runs along the last axis. -1 and 1 are the edges of the
        image, or with ``align_corners`` the centres of its first and last pixels. As many dimensions as ``x``.
    mode : str
        "bilinear" (trilinear for three dimensions), "nearest", or "bicubic" (two dimensions).
    padding_mode : str
        What lies outside: "zeros", "border" (the nearest pixel) or "reflection".
    align_corners : bool

    Returns
    -------
    Array
        Of shape (N, C, ...) with the middle dimensions of ``grid``, and the dtype of ``x``. The gradient of places is that of
        the interpolation, 0 in mode "nearest". With "border" and "reflection" places at the centre of the first or last pixel
        and beyond it, in the border, have the gradient 0, as in PyTorch.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        Shapes or dtypes do not fit; ``mode`` or ``padding_mode`` is unknown.

    >>> x = wf.array([[[[0.0, 4.0]]]])
    >>> wf.nn.grid_sample(x, wf.array([[[[0.0, 0.0], [-0.5, 0.0], [0.5, 0.0]]]])).tolist()
    [[[[2.0, 0.0, 4.0]]]]
    """
    like, grid = asarray(x), asarray(grid)
    spatial = like.ndim - 2
    if spatial not in (2, 3) or grid.ndim != like.ndim or grid.shape[0] != like.shape[0] or grid.shape[-1] != spatial:
        raise ShapeError(
            f"grid_sample: x {like.shape} and grid {grid.shape} must be (N, C, H, W) and (N, H', W', 2), or (N, C, D, H, W) and "
            "(N, D', H', W', 3)"
        )
    if not is_float(like.dtype) or not is_float(grid.dtype):
        raise DTypeError(f"grid_sample: x and grid must be float, not {like.dtype} and {grid.dtype}")
    if 0 in like.shape[2:]:
        raise ShapeError(f"grid_sample: x {like.shape} has no pixels")
    if mode not in SAMPLING or (mode == "bicubic" and spatial == 3):
        raise ValueError(f"grid_sample: mode must be one of {', '.join(map(repr, SAMPLING[: 5 - spatial]))}, not {mode!r}")
    if padding_mode not in OUTSIDE:
        raise ValueError(f"grid_sample: padding_mode must be one of {', '.join(map(repr, OUTSIDE))}, not {padding_mode!r}")
    values = to_compute_dtype(like)
    places = to_compute_dtype(grid).astype(values.dtype)
    extents = like.shape[2:]
    at = [_to_pixels(places[..., spatial - 1 - d], n, align_corners) for d, n in enumerate(extents)]  # one for each axis of x
    if mode == "bicubic":
        taps = [_take_cubic(p, n, padding_mode, align_corners) for p, n in zip(at, extents, strict=True)]
    else:
        at = [_bring_inside(p, n, padding_mode, align_corners) for p, n in zip(at, extents, strict=True)]
        taps = [[(rint(p), None)] if mode == "nearest" else _take_linear(p) for p in at]
    return to_storage_dtype(_sum_taps(values, taps, padding_mode), like)


def _to_pixels(place: Array, n: int, align_corners: bool) -> Array:
    return (place + 1.0) * ((n - 1) / 2) if align_corners else ((place + 1.0) * n - 1.0) * 0.5


def _bring_inside(p: Array, n: int, padding_mode: str, align_corners: bool) -> Array:
    """Return pixel coordinates that lie in the image, except for "zeros"."""
    if padding_mode == "zeros":
        return p
    if padding_mode == "reflection":
        low, span = (0.0, n - 1.0) if align_corners else (-0.5, float(n))
        if span == 0:
            return p * 0
        distance = absolute(p - low)
        turns: Any = stop_gradient(floor(distance / span))
        rest = distance - turns * span
        p = where(turns % 2 == 0, rest + low, span - rest + low)
    return where(p <= 0, 0.0, where(p >= n - 1, n - 1.0, p))  # as in PyTorch, the derivative at the borders is 0, not 0.5


def _take_linear(p: Array) -> list[tuple[Array, Any]]:
    """Return (pixel, weight) of the two neighbours along an axis."""
    low = stop_gradient(floor(p))
    share = p - low
    return [(low, 1.0 - share), (low + 1.0, share)]


def _take_cubic(p: Array, n: int, padding_mode: str, align_corners: bool) -> list[tuple[Array, Any]]:
    """Return (pixel, weight) of the four neighbours along an axis; pixels outside are brought inside one by one."""
    low = stop_gradient(floor(p))
    t, a = p - low, CUBIC
    far, near = (lambda d: ((a * d - 5 * a) * d + 8 * a) * d - 4 * a), (lambda d: ((a + 2) * d - (a + 3)) * d * d + 1)
    weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
    return [(_bring_inside(low + (k - 1.0), n, padding_mode, align_corners), w) for k, w in enumerate(weights)]


def _sum_taps(x: Array, taps: list[list[tuple[Array, Any]]], padding_mode: str) -> Array:
    """Return the sum over all combinations of taps of the pixels, (N, C, ...), times their weights."""
    spatial, n = len(taps), len(x)
    batch = arange(n).reshape((n,) + (1,) * spatial)
    total: Any = None
    for corner in product(*taps):
        weight, inside, indices = None, None, []
        for (pixel, share), extent in zip(corner, x.shape[2:], strict=True):
            if padding_mode == "zeros":
                here = (pixel >= 0) & (pixel <= extent - 1)
                inside = here if inside is None else inside & here
            indices.append(where(pixel > 0, where(pixel < extent - 1, pixel, extent - 1.0), 0.0).astype("int64"))  # NaN: 0
            weight = share if weight is None else weight if share is None else weight * share
        part = gather(x, batch, *indices, axes=(0, *range(2, spatial + 2)))
        part = moveaxis(part, -1, 1)
        if inside is not None:
            part = where(inside[:, None], part, 0.0)
        part = part if weight is None else part * weight[:, None]
        total = part if total is None else total + part
    return total


def affine_grid(theta: Any, size: Any, align_corners: bool = False) -> Array:
    """Return the grid for :func:`grid_sample` that maps the pixels of an image of ``size`` by affine maps.

    Parameters
    ----------
    theta : (N, 2, 3) or (N, 3, 4), float
    size : (N, C, H, W) or (N, C, D, H, W), ints; the shape of the result of ``grid_sample``
    align_corners : bool, as in :func:`grid_sample`

    Returns
    -------
    Array of shape (N, H, W, 2) or (N, D, H, W, 3)

    Raises
    ------
    ShapeError, DTypeError
        Shapes or dtypes do not fit.

    >>> grid = wf.nn.affine_grid(wf.array([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2))
    >>> grid.tolist()
    [[[[0.0, 0.0], [1.0, 0.0]]]]
    """
    theta = asarray(theta)
    spatial = theta.shape[-2] if theta.ndim == 3 else 0
    if spatial not in (2, 3) or theta.shape[-1] != spatial + 1:
        raise ShapeError(f"affine_grid: theta must be (N, 2, 3) or (N, 3, 4), not {theta.shape}")
    if not is_float(theta.dtype):
        raise DTypeError(f"affine_grid: theta must be float, not {theta.dtype}")
    if not isinstance(size, tuple | list) or len(size) != spatial + 2:
        raise ShapeError(f"affine_grid: size={size!r} must be {IMAGE_LAYOUTS[spatial]}, as theta {theta.shape} says")
    extents = check_sizes(tuple(size[2:]), spatial, "affine_grid: size", 1)
    wide = to_compute_dtype(theta)
    axes = []
    for d in reversed(range(spatial)):  # x first
        n = extents[d]
        centres = np.linspace(-1.0, 1.0, n) if align_corners and n > 1 else (np.arange(n) * 2 + 1) / n - 1
        along = np.broadcast_to(centres.reshape([-1 if k == d else 1 for k in range(spatial)]), extents)
        axes.append(asarray(along, dtype=wide.dtype))
    places = stack(axes, axis=-1)
    middle = (1,) * spatial
    parts = wide.reshape((-1, *middle, spatial, spatial + 1))
    rows = [sum(places[..., k] * parts[..., i, k] for k in range(spatial)) + parts[..., i, spatial] for i in range(spatial)]
    return to_storage_dtype(stack(rows, axis=-1), theta)


complete_each(grid_sample, affine_grid)
