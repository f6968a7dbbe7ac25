"""The indices of the largest elements of windows, for max-pooling that is undone later."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.api import is_inexact
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.ufuncs import isnan, stop_gradient
from weft.functions.indexing.where import where
from weft.functions.shape.axes import broadcast_to
from weft.functions.statistics.pad import pad


def find_largest(x: Array, window: tuple[int, ...], stride: tuple[int, ...], padding: tuple[tuple[int, int], ...]) -> Array:
    """Return the index of each window's largest element in the flattened image, the first of equal ones; NaN counts as larger.

    x : (N, C, *spatial); the result is int64 of the shape of the pooled images
    """
    shape, has_nan = x.shape[2:], is_inexact(x.dtype)
    wide = pad(stop_gradient(x), [(0, 0), (0, 0), *padding])
    counts = [
        (n + low + high - k) // step + 1 for n, (low, high), k, step in zip(shape, padding, window, stride, strict=True)
    ]
    best: Any = None
    index: Any = None
    found: Any = None  # whether a window has had an element of the image so far
    for offsets in product(*map(range, window)):
        value = wide[(..., *(slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offsets, counts, stride, strict=True)))]
        axes = [
            np.arange(n) * s + (o - low) for n, s, o, (low, _) in zip(counts, stride, offsets, padding, strict=True)
        ]
        grids = np.ix_(*axes)
        place = asarray(sum(g * math.prod(shape[d + 1 :]) for d, g in enumerate(grids)))
        limits = zip(np.broadcast_arrays(*grids), shape, strict=True)
        inside = np.logical_and.reduce([(a >= 0) & (a < n) for a, n in limits])
        if best is None:
            best, index, found = value, broadcast_to(place, value.shape), inside
            continue
        is_larger = value > best
        if has_nan:
            is_larger = is_larger | (isnan(value) & ~isnan(best))
        if not found.all():
            is_larger = is_larger | asarray(~found)
        if not inside.all():
            is_larger = is_larger & asarray(inside)
        best, index, found = where(is_larger, value, best), where(is_larger, place, index), found | inside
    return index
