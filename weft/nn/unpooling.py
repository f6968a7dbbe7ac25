"""Partial inverses of max-pooling, which write elements back to the places that they came from."""

from __future__ import annotations

import math
from typing import Any

from weft.array import Array
from weft.dtypes.api import is_integer
from weft.errors import DTypeError, ShapeError, short
from weft.functions.creation.fill import arange, asarray, zeros
from weft.functions.indexing.take_scatter import scatter_set
from weft.functions.support.arguments import check_range
from weft.nn.module import Module, derive_variants, describe_variants
from weft.nn.pooling import window_sizes
from weft.nn.size_arguments import check_sizes, images
from weft.process.docstrings import complete_docs


def max_unpool(
    spatial: int, x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None,
) -> Array:
    """Compute :func:`max_unpool2d` over ``spatial`` dimensions."""
    name = f"max_unpool{spatial}d"
    x, places = asarray(x), asarray(indices)
    images(name, x.shape, spatial)
    if places.shape != x.shape:
        raise ShapeError(f"{name}: indices {places.shape} must have the shape of x {x.shape}")
    if not is_integer(places.dtype):
        raise DTypeError(f"{name}: indices must be integers, not {places.dtype}")
    k, s, p = window_sizes(name, spatial, kernel_size, stride, padding)
    if len(k) != spatial:
        forms = "an int" if spatial == 1 else f"an int or {spatial} of them"
        raise ShapeError(f"{name}: kernel_size must be {forms}, not {short(kernel_size)}")
    defaults = tuple((n - 1) * step + size - 2 * low for n, step, size, low in zip(x.shape[2:], s, k, p, strict=True))
    if output_size is None:
        extents = defaults
    else:
        sizes = tuple(output_size) if isinstance(output_size, tuple | list) else (output_size,) * spatial
        extents = check_sizes(sizes[2:] if len(sizes) == spatial + 2 else sizes, spatial, f"{name}: output_size", 1)
        smallest = [d - step + 1 for d, step in zip(defaults, s, strict=True)]
        largest = [d + step - 1 for d, step in zip(defaults, s, strict=True)]
        if not all(a <= n <= b for a, n, b in zip(smallest, extents, largest, strict=True)):
            windows = f"kernel_size={k}, stride={s} and padding={p}"
            raise ShapeError(
                f"{name}: output_size {extents} has no pooling with {windows} to the extents {x.shape[2:]} of x: it must be from "
                f"{tuple(max(a, 1) for a in smallest)} to {tuple(largest)}"
            )
    if min(extents) < 1:
        raise ShapeError(f"{name}: the result of x {x.shape} would have the extents {extents}")
    n, c = x.shape[:2]
    flat = zeros((n, c, math.prod(extents)), dtype=x.dtype)
    many = math.prod(x.shape[2:])
    inside = check_range(places.reshape((n, c, many)), math.prod(extents), f"{name}: indices")
    where = (arange(n).reshape((n, 1, 1)), arange(c).reshape((c, 1)), inside)
    return scatter_set(flat, where, x.reshape((n, c, many))).reshape((n, c, *extents))


def max_unpool2d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None,
) -> Array:
    """Write each element to the place that it had before max-pooling, and zeros elsewhere.

    Zeiler, Fergus: Visualizing and understanding convolutional networks. 2014.

    Parameters
    ----------
    x : (N, C, H, W)
    indices : integers of the shape of ``x``, as :func:`weft.nn.max_pool2d` returns them with ``return_indices``
    kernel_size, stride, padding : int, or one int per spatial dimension; those of the pooling
    output_size : one int per spatial dimension, or the shape (N, C, H, W), optional
        The extents before the pooling, if they are not the smallest that it maps to those of ``x``.

    Returns
    -------
    Array of the dtype of ``x``; of several elements for one place it has the last one

    Raises
    ------
    ShapeError, DTypeError, IndexError
        Shapes do not fit, or no pooling with these windows maps ``output_size`` to the extents of ``x``; ``indices`` are no
        integers; one is negative or outside of the result, which is raised when the result is computed.

    >>> y, indices = wf.nn.max_pool2d(wf.array([[[[1.0, 3.0], [2.0, 0.0]]]]), 2, return_indices=True)
    >>> wf.nn.max_unpool2d(y, indices, 2).tolist()
    [[[[0.0, 3.0], [0.0, 0.0]]]]
    """
    return max_unpool(2, x, indices, kernel_size, stride, padding, output_size)


def max_unpool1d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None,
) -> Array:
    return max_unpool(1, x, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None,
) -> Array:
    return max_unpool(3, x, indices, kernel_size, stride, padding, output_size)


class MaxUnpool2d(Module):
    """Apply :func:`weft.nn.max_unpool2d`: called with x, indices and, optionally, ``output_size``.

    >>> y, indices = wf.nn.MaxPool2d(2, return_indices=True)(wf.ones((1, 1, 4, 4)))
    >>> wf.nn.MaxUnpool2d(2)(y, indices).shape
    (1, 1, 4, 4)
    """

    spatial = 2

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = window_sizes(
            type(self).__name__, self.spatial, kernel_size, stride, padding
        )

    def forward(self, x: Any, indices: Any, output_size: Any = None) -> Array:
        return max_unpool(self.spatial, x, indices, self.kernel_size, self.stride, self.padding, output_size)


_INPUTS = "wf.ones((1, 2, {2})), wf.zeros((1, 2, {2}), dtype='int64')"
complete_docs(max_unpool2d, MaxUnpool2d)
describe_variants(max_unpool2d, max_unpool1d, max_unpool3d, example=f"({_INPUTS}, 2)", shape="(1, 2, {4})")
MaxUnpool1d, MaxUnpool3d = derive_variants(MaxUnpool2d, "2", "(1, 2, {4})", _INPUTS)
