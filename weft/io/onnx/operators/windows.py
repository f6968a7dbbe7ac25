"""Padding, counts and taps of windows, which ONNX's convolutions and pooling operators share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import weft as wf
from weft.dtypes.formats import FROM_NUMPY
from weft.graph.primitives.conv_general import dilated_extent
from weft.io.onnx.operators.table import Attributes

Ints = tuple[int, ...]


class Windows(NamedTuple):
    """Where windows lie, one entry a spatial dimension. ``padding``: (low, high), the part that ``ceil_mode`` adds included."""

    sizes: Ints
    strides: Ints
    dilations: Ints
    padding: tuple[tuple[int, int], ...]
    counts: Ints


def place_windows(at: Attributes, image: Ints, sizes: Ints) -> Windows:
    """Return where the windows of a node lie in images of the spatial shape ``image``."""
    spatial = len(image)
    strides, dilations = at.strides or (1,) * spatial, at.dilations or (1,) * spatial
    pads = at.pads or (0,) * (2 * spatial)
    padding, counts = [], []
    for d, (n, k, s, e) in enumerate(zip(image, sizes, strides, dilations, strict=True)):
        low, high = pads[d], pads[d + spatial]
        wide = dilated_extent(k, e)
        if at.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            total = max((-(-n // s) - 1) * s + wide - n, 0)
            low = total // 2 if at.auto_pad == "SAME_UPPER" else -(-total // 2)
            high = total - low
        elif at.auto_pad == "VALID":
            low = high = 0
        count = (n + low + high - wide) // s + 1
        if at.ceil_mode:
            count = -(-(n + low + high - wide) // s) + 1
            if (count - 1) * s >= n + low:  # a window may not begin in the padding behind the image
                count -= 1
            high = max(high, (count - 1) * s + wide - n - low)
        padding.append((low, high))
        counts.append(count)
    return Windows(tuple(sizes), tuple(strides), tuple(dilations), tuple(padding), tuple(counts))


def read_taps(x: Any, windows: Windows, fill: Any) -> Iterator[Any]:
    """Yield, for each position in a window, the elements there: arrays (N, C, *counts)."""
    low = tuple(a for a, _ in windows.padding)
    lead = wf.ndim(x) - len(low)
    ends = [a + n + b for (a, b), n in zip(windows.padding, wf.shape(x)[lead:], strict=True)]
    axes = zip(windows.counts, windows.strides, windows.sizes, windows.dilations, strict=True)
    needed = [(c - 1) * s + dilated_extent(k, e) for c, s, k, e in axes]
    more = [max(m - n, 0) for m, n in zip(needed, ends, strict=True)]
    wide = wf.pad(
        x, [(0, 0)] * lead + [(a, b + m) for (a, b), m in zip(windows.padding, more, strict=True)], constant_values=fill
    )
    for tap in np.ndindex(*windows.sizes):
        yield wide[(..., *(
            slice(t * e, t * e + (c - 1) * s + 1, s)
            for t, e, c, s in zip(tap, windows.dilations, windows.counts, windows.strides, strict=True)
        ))]


def find_least(x: Any) -> Any:
    """Return the number below all others of an array's dtype."""
    return FROM_NUMPY[x.dtype].least


def count_covered(windows: Windows, image: Ints, count_padding: bool, pads: Any) -> np.ndarray:
    """Return the number of elements of each window that lie in the image, or in the image and its declared padding."""
    total: Any = np.ones((1,) * len(image))
    for d, n in enumerate(image):
        low = windows.padding[d][0]
        begin, end = (-low, n + pads[d]) if count_padding else (0, n)
        first = np.arange(windows.counts[d])[:, None] * windows.strides[d] - low
        places = first + np.arange(windows.sizes[d]) * windows.dilations[d]
        inside = ((places >= begin) & (places < end)).sum(1)
        total = total * inside.reshape([-1 if k == d else 1 for k in range(len(image))])
    return total
