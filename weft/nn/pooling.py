"""Pooling functions over one to three spatial dimensions, optionally over channels too. Images are (N, C, *spatial)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.eager.apply import bind
from weft.errors import DTypeError, ShapeError, rename_error, short
from weft.functions.creation.fill import asarray
from weft.functions.dtype_info.half_precision import to_compute_dtype, to_storage_dtype
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.indexing.take_scatter import take
from weft.functions.indexing.where import where
from weft.functions.support.arguments import norm_root, powers
from weft.graph.primitives import TABLE
from weft.nn.module import Module, derive_variants, describe_variants
from weft.nn.pool_indices import find_largest
from weft.nn.size_arguments import MAX_EXTENT, check_sizes, extents, images, int_or_none
from weft.process.docstrings import complete_docs

Ints = tuple[int, ...]
Placement = tuple[Ints, Ints, tuple[tuple[int, int], ...]]


def window_sizes(name: str, spatial: int, kernel_size: Any, stride: Any, padding: Any) -> tuple[Ints, Ints, Ints]:
    """Return window, stride and padding of each dimension of the window.

    These are the spatial dimensions, preceded by the channels if ``kernel_size`` has one more entry.
    """
    count = len(kernel_size) if isinstance(kernel_size, tuple | list) else spatial
    if count not in (spatial, spatial + 1):
        forms = f"an int, a tuple of {spatial}, or one of {spatial + 1} whose first is for channels"
        raise ShapeError(f"{name}: kernel_size must be {forms}, not {short(kernel_size)}")
    k = check_sizes(kernel_size, count, f"{name}: kernel_size", 1)
    s = k if stride is None else check_sizes(stride, count, f"{name}: stride", 1)
    p = check_sizes(padding, count, f"{name}: padding")
    return k, s, p


def _place_windows(name: str, spatial: int, x: Array, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool) -> Placement:
    """Return window, stride and padding (low, high) of each dimension of the window."""
    images(name, x.shape, spatial)
    k, s, p = window_sizes(name, spatial, kernel_size, stride, padding)
    if any(2 * a > b for a, b in zip(p, k, strict=True)):
        raise ShapeError(f"{name}: padding {p} is more than half the window {k}")
    overhangs = [_overhang(*at) if ceil_mode else 0 for at in zip(x.shape[-len(k):], k, s, p, strict=True)]
    return k, s, tuple((a, a + b) for a, b in zip(p, overhangs, strict=True))


def _overhang(n: int, k: int, s: int, p: int) -> int:
    """Return how far the last window extends beyond the padded image with ``ceil_mode``, less than a stride.

    As in PyTorch, the last window must begin inside the image or the padding before it.
    """
    over = n + 2 * p - k
    start = -(-over // s) * s
    return start - over if 0 <= start < n + p else 0


def _reduce(name: str, kind: str, x: Array, placement: Placement) -> Array:
    """Return the reduction ``kind`` ("max" or "sum") over each window."""
    k, s, p = placement
    try:
        return wrap(bind(TABLE["reduce_window"], as_node(x), kind=kind, window=k, stride=s, padding=p))
    except (ShapeError, DTypeError) as error:
        raise rename_error(error, name) from None


def max_pool(
    spatial: int, x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Compute :func:`max_pool2d` over ``spatial`` dimensions."""
    x, name = asarray(x), f"max_pool{spatial}d"
    placement = _place_windows(name, spatial, x, kernel_size, stride, padding, ceil_mode)
    largest = _reduce(name, "max", x, placement)
    if not return_indices:
        return largest
    if len(placement[0]) != spatial:
        raise ShapeError(f"{name}: return_indices is for windows of {spatial} dimensions, not {short(kernel_size)}")
    return largest, find_largest(x, *placement)


def avg_pool(
    spatial: int, x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True,
    ceil_mode: bool = False,
) -> Array:
    """Compute :func:`avg_pool2d` over ``spatial`` dimensions."""
    x, name = asarray(x), f"avg_pool{spatial}d"
    placement = k, s, p = _place_windows(name, spatial, x, kernel_size, stride, padding, ceil_mode)
    total = _reduce(name, "sum", to_compute_dtype(x), placement)
    counts: Any = np.ones((1,) * len(k))
    dims = len(k)
    for d, (n, size, step, (low, _)) in enumerate(zip(x.shape[-dims:], k, s, p, strict=True)):
        first = np.arange(total.shape[d - dims]) * step - low
        begin, end = (-low, n + low) if count_include_pad else (0, n)  # excludes what ceil_mode adds at the end
        inside = np.minimum(first + size, end) - np.maximum(first, begin)
        counts = counts * inside.reshape([-1 if a == d else 1 for a in range(dims)])
    if (counts == math.prod(k)).all():
        return to_storage_dtype(total / float(math.prod(k)), x)
    return to_storage_dtype(total * asarray((1.0 / counts).astype(total.dtype)), x)


def lp_pool(
    spatial: int, x: Any, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
) -> Array:
    """Compute :func:`lp_pool2d` over ``spatial`` dimensions."""
    x, name = asarray(x), f"lp_pool{spatial}d"
    if isinstance(norm_type, str) or not hasattr(type(norm_type), "__float__"):
        raise TypeError(f"{name}: norm_type must be a number of at least 1, not {short(norm_type)}")
    if not norm_type >= 1:
        raise ValueError(f"{name}: norm_type must be at least 1, not {norm_type}")
    placement = _place_windows(name, spatial, x, kernel_size, stride, padding, ceil_mode)
    if norm_type == math.inf:
        return _reduce(name, "max", absolute(x), placement)
    wide = to_compute_dtype(x)
    if norm_type == 1:
        norm = _reduce(name, "sum", absolute(wide), placement)
    else:
        norm = wrap(norm_root(_reduce(name, "sum", wrap(powers(wide.node, norm_type)), placement).node, norm_type))
    return to_storage_dtype(norm, x)


def max_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:
    """Return the largest element of each window; among equal elements, the first receives the gradient.

    Parameters
    ----------
    x : array
        Of shape (N, C, H, W); (N, C, L) for one spatial dimension, (N, C, D, H, W) for three.
    kernel_size : int, or one int per spatial dimension
        A tuple with one more entry is a window over channels too: (3, 1, 1) in two dimensions takes the largest of three
        neighbouring channels.
    stride, padding : int, or as many ints as ``kernel_size`` has
        An int applies to every dimension of the window. ``stride`` defaults to ``kernel_size``.
    ceil_mode : bool
        Whether the number of windows is rounded up, so that the last elements are in a window although it extends beyond the
        padded image. As in PyTorch, it must begin inside the image or the padding before it. What lies beyond is ignored: it is
        never the largest element, adds nothing to a norm, and a mean does not count it.
    return_indices : bool
        Whether to return (result, indices) for :func:`weft.nn.max_unpool2d`: the int64 index of each largest element in the
        flattened image. Of equal elements it is the first, and NaN is larger than all numbers.

    Returns
    -------
    Array
        Of shape (N, C, ...), where a dimension of length n becomes ``(n + 2 * padding - kernel_size) // stride + 1``, with
        ``ceil_mode`` one more if a window begins at the next stride. This applies to C too if the window covers channels.

    Raises
    ------
    ShapeError
        A size is out of range, ``x`` is not a batch of images, or the window does not fit into it.

    >>> wf.nn.max_pool2d(wf.ones((2, 3, 8, 8)), 2).shape
    (2, 3, 4, 4)
    >>> wf.nn.max_pool2d(wf.ones((2, 3, 7, 7)), 2).shape, wf.nn.max_pool2d(wf.ones((2, 3, 7, 7)), 2, ceil_mode=True).shape
    ((2, 3, 3, 3), (2, 3, 4, 4))
    >>> wf.nn.max_pool2d(wf.ones((2, 6, 8, 8)), (3, 2, 2), stride=(2, 2, 2), padding=(1, 0, 0)).shape
    (2, 3, 4, 4)
    """
    return max_pool(2, x, kernel_size, stride, padding, ceil_mode, return_indices)


def max_pool1d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:
    return max_pool(1, x, kernel_size, stride, padding, ceil_mode, return_indices)


def max_pool3d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:
    return max_pool(3, x, kernel_size, stride, padding, ceil_mode, return_indices)


def avg_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True, ceil_mode: bool = False,
) -> Array:
    """Return the mean of each window.

    Parameters
    ----------
    count_include_pad : bool
        Whether padding counts as zeros or is excluded. Positions beyond it (``ceil_mode``) are always excluded.

    >>> float(wf.nn.avg_pool2d(wf.ones((1, 1, 2, 2)), 2).sum())
    1.0
    """
    return avg_pool(2, x, kernel_size, stride, padding, count_include_pad, ceil_mode)


def avg_pool1d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True, ceil_mode: bool = False,
) -> Array:
    return avg_pool(1, x, kernel_size, stride, padding, count_include_pad, ceil_mode)


def avg_pool3d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True, ceil_mode: bool = False,
) -> Array:
    return avg_pool(3, x, kernel_size, stride, padding, count_include_pad, ceil_mode)


def lp_pool2d(
    x: Any, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
) -> Array:
    """Return the p-norm ``sum(abs(x) ** p) ** (1 / p)`` of each window; the gradient of a window of zeros is 0.

    Sermanet et al.: Convolutional neural networks applied to house numbers digit classification. 2012.

    Parameters
    ----------
    norm_type : number
        p, at least 1, or ``wf.inf`` for the largest magnitude.

    Raises
    ------
    ShapeError, ValueError
        A size is out of range, ``x`` is not a batch of images, or the window does not fit into it; ``norm_type`` is below 1.

    >>> wf.nn.lp_pool2d(wf.array([[[[3.0, 0.0], [0.0, -4.0]]]]), 2, 2).tolist()
    [[[[5.0]]]]
    """
    return lp_pool(2, x, norm_type, kernel_size, stride, padding, ceil_mode)


def lp_pool1d(
    x: Any, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
) -> Array:
    return lp_pool(1, x, norm_type, kernel_size, stride, padding, ceil_mode)


def lp_pool3d(
    x: Any, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
) -> Array:
    return lp_pool(3, x, norm_type, kernel_size, stride, padding, ceil_mode)


complete_docs(max_pool2d, avg_pool2d, lp_pool2d)
describe_variants(max_pool2d, max_pool1d, max_pool3d, example="(wf.ones((1, 2, {4})), 2)", shape="(1, 2, {2})")
describe_variants(avg_pool2d, avg_pool1d, avg_pool3d, example="(wf.ones((1, 2, {4})), 2)", shape="(1, 2, {2})")
describe_variants(lp_pool2d, lp_pool1d, lp_pool3d, example="(wf.ones((1, 2, {4})), 2, 2)", shape="(1, 2, {2})")


def _output_sizes(name: str, spatial: int, x: Array, output_size: Any) -> tuple[int, ...]:
    """Return the extents of the result; None in ``output_size`` keeps the extent of ``x``."""
    images(name, x.shape, spatial)
    sizes = tuple(output_size) if isinstance(output_size, tuple | list) else (output_size,) * spatial
    if len(sizes) != spatial:
        raise ShapeError(f"{name}: output_size {output_size!r} must be an int, None or {spatial} of these")
    extents = tuple(n if o is None else int_or_none(o) or 0 for o, n in zip(sizes, x.shape[2:], strict=True))
    if min(extents) < 1:
        raise ShapeError(f"{name}: output_size {output_size!r} must hold positive ints")
    if max(extents) > MAX_EXTENT:
        raise ShapeError(f"{name}: output_size {output_size!r} must be at most {MAX_EXTENT:,}")
    return extents


def _gather_regions(x: Array, axis: int, out: int) -> tuple[Array, Array, Array]:
    """Return the elements of each region along an axis, a mask of the valid ones, and the size of each region.

    Regions smaller than the largest one are filled with their last element.
    """
    i, n = np.arange(out), x.shape[axis]
    first, last = i * n // out, -(-(i + 1) * n // out)  # neighbours overlap if ``out`` does not divide ``n``
    at = first[:, None] + np.arange((last - first).max())
    along = [-1 if a == axis else 1 for a in range(x.ndim)]
    inside = (at < last[:, None]).reshape([*along[:axis], *at.shape, *along[axis + 1 :]])
    rows = take(x, asarray(np.minimum(at, last[:, None] - 1)), axis=axis)
    return rows, asarray(inside), asarray((last - first).reshape(along), dtype=x.dtype)


def _even_window(x: Array, out: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the window if all regions have one size, else None."""
    pairs = list(zip(x.shape[2:], out, strict=True))
    return None if any(n % o for n, o in pairs) else tuple(n // o for n, o in pairs)


def adaptive_avg_pool(spatial: int, x: Any, output_size: Any) -> Array:
    """Return the mean of each of ``output_size`` regions; see :class:`weft.nn.AdaptiveAvgPool2d`."""
    x = asarray(x)
    out = _output_sizes(f"adaptive_avg_pool{spatial}d", spatial, x, output_size)
    if all(o == 1 for o in out):
        return x.mean(axis=tuple(range(2, 2 + spatial)), keepdims=True)
    window = _even_window(x, out)
    if window is not None:
        return avg_pool(spatial, x, window)
    mean = to_compute_dtype(x)
    for axis, o in enumerate(out, 2):  # a product with 0 and 1 would spread NaNs and infinities to all regions
        rows, inside, size = _gather_regions(mean, axis, o)
        mean = where(inside, rows, 0).sum(axis=axis + 1) / size
    return to_storage_dtype(mean, x)


def adaptive_max_pool(spatial: int, x: Any, output_size: Any) -> Array:
    """Return the largest element of each of ``output_size`` regions; see :class:`weft.nn.AdaptiveMaxPool2d`."""
    x = asarray(x)
    out = _output_sizes(f"adaptive_max_pool{spatial}d", spatial, x, output_size)
    window = _even_window(x, out)
    if window is not None:
        return max_pool(spatial, x, window)
    for axis, o in enumerate(out, 2):
        x = _gather_regions(x, axis, o)[0].max(axis=axis + 1)
    return x


def maxout(x: Any, kernel_size: int) -> Array:
    """Return the largest of each ``kernel_size`` neighbouring channels.

    Goodfellow et al.: Maxout networks. 2013.

    Parameters
    ----------
    x : (N, C, ...), where C is a multiple of ``kernel_size``
    kernel_size : int

    Returns
    -------
    Array of shape (N, C // kernel_size, ...)

    Raises
    ------
    ShapeError
        ``kernel_size`` does not divide the number of channels.

    >>> wf.nn.maxout(wf.array([[1.0, 3.0, 5.0, 2.0]]), 2).tolist()
    [[3.0, 5.0]]
    """
    x, k = asarray(x), int_or_none(kernel_size) or 0
    if x.ndim < 2 or k < 1 or x.shape[1] % k:
        raise ShapeError(f"maxout: the channels (axis 1) of x {x.shape} must be a multiple of kernel_size={kernel_size!r}")
    return x.reshape((x.shape[0], x.shape[1] // k, k, *x.shape[2:])).max(axis=2)


class _Pool(Module):
    spatial = 2

    def __init__(self, kernel_size: Any = None, stride: Any = None, padding: Any = 0, ceil_mode: bool = False) -> None:
        super().__init__()
        name = type(self).__name__
        self.kernel_size, self.stride, self.padding = window_sizes(name, self.spatial, kernel_size, stride, padding)
        self.ceil_mode = bool(ceil_mode)


class MaxPool2d(_Pool):
    """Apply :func:`weft.nn.max_pool2d`.

    >>> wf.nn.MaxPool2d(2)(wf.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def __init__(
        self, kernel_size: Any = None, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.return_indices = bool(return_indices)

    def forward(self, x: Any) -> Any:
        settings = self.kernel_size, self.stride, self.padding, self.ceil_mode, self.return_indices
        return max_pool(self.spatial, x, *settings)


class AvgPool2d(_Pool):
    """Apply :func:`weft.nn.avg_pool2d`.

    >>> wf.nn.AvgPool2d(2)(wf.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True, ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = bool(count_include_pad)

    def forward(self, x: Any) -> Array:
        settings = self.kernel_size, self.stride, self.padding, self.count_include_pad, self.ceil_mode
        return avg_pool(self.spatial, x, *settings)


class LPPool2d(_Pool):
    """Apply :func:`weft.nn.lp_pool2d`.

    >>> wf.nn.LPPool2d(2, 2)(wf.ones((1, 1, 4, 4))).tolist()
    [[[[2.0, 2.0], [2.0, 2.0]]]]
    """

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.norm_type = norm_type

    def forward(self, x: Any) -> Array:
        return lp_pool(self.spatial, x, self.norm_type, self.kernel_size, self.stride, self.padding, self.ceil_mode)


class AdaptiveAvgPool2d(Module):
    """Compute the mean of each region of the image, for a result with spatial shape ``output_size``.

    Region i of o spans floor(i * n / o) to ceil((i + 1) * n / o), as in PyTorch.

    Parameters
    ----------
    output_size : int or tuple; None as an entry keeps the extent

    Raises
    ------
    ShapeError
        Called: ``x`` is not a batch of images, or ``output_size`` has entries that are not positive ints.

    >>> wf.nn.AdaptiveAvgPool2d((2, 3))(wf.ones((1, 4, 7, 9))).shape
    (1, 4, 2, 3)
    """

    spatial = 2

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = tuple(output_size) if isinstance(output_size, list) else output_size

    def forward(self, x: Any) -> Array:
        return adaptive_avg_pool(self.spatial, x, self.output_size)


class AdaptiveMaxPool2d(AdaptiveAvgPool2d):
    """Return the largest element of each region; regions as in :class:`AdaptiveAvgPool2d`.

    If ``output_size`` divides all extents, the first of equal elements receives the gradient, else they share it.

    >>> wf.nn.AdaptiveMaxPool2d(2)(wf.ones((1, 4, 7, 9))).shape
    (1, 4, 2, 2)
    """

    def forward(self, x: Any) -> Array:
        return adaptive_max_pool(self.spatial, x, self.output_size)


class GlobalAvgPool2d(Module):
    """Compute the mean of each channel: (N, C, H, W) -> (N, C), or (N, C, 1, 1) with ``keepdims``.

    Lin et al.: Network in network. 2013.

    Parameters
    ----------
    keepdims : bool

    Raises
    ------
    ShapeError
        Called: ``x`` is not a batch of images.

    >>> wf.nn.GlobalAvgPool2d()(wf.ones((2, 3, 4, 4))).shape
    (2, 3)
    """

    spatial = 2
    reduction = "mean"

    def __init__(self, keepdims: bool = False) -> None:
        super().__init__()
        self.keepdims = keepdims

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        images(type(self).__name__, x.shape, self.spatial)
        return getattr(x, self.reduction)(axis=tuple(range(2, x.ndim)), keepdims=self.keepdims)


class GlobalMaxPool2d(GlobalAvgPool2d):
    """Return the largest element of each channel; shapes as in :class:`GlobalAvgPool2d`.

    >>> wf.nn.GlobalMaxPool2d()(wf.ones((2, 3, 4, 4))).shape
    (2, 3)
    """

    reduction = "max"


complete_docs(max_pool2d, MaxPool2d)
complete_docs(avg_pool2d, AvgPool2d)
complete_docs(lp_pool2d, LPPool2d)
complete_docs(AdaptiveAvgPool2d, AdaptiveMaxPool2d)
complete_docs(GlobalAvgPool2d, GlobalMaxPool2d)
MaxPool1d, MaxPool3d = derive_variants(MaxPool2d, "2", "(1, 2, {2})")
AvgPool1d, AvgPool3d = derive_variants(AvgPool2d, "2", "(1, 2, {2})")
LPPool1d, LPPool3d = derive_variants(LPPool2d, "2, 2", "(1, 2, {2})")
AdaptiveAvgPool1d, AdaptiveAvgPool3d = derive_variants(AdaptiveAvgPool2d, "3", "(1, 2, {3})")
AdaptiveMaxPool1d, AdaptiveMaxPool3d = derive_variants(AdaptiveMaxPool2d, "3", "(1, 2, {3})")
GlobalAvgPool1d, GlobalAvgPool3d = derive_variants(GlobalAvgPool2d, "", "(1, 2)")
GlobalMaxPool1d, GlobalMaxPool3d = derive_variants(GlobalMaxPool2d, "", "(1, 2)")


class MaxOut(Module):
    """Apply :func:`weft.nn.maxout`: return the largest of each ``kernel_size`` neighbouring channels.

    Goodfellow et al.: Maxout networks. 2013.

    >>> wf.nn.MaxOut(2)(wf.ones((1, 6, 4, 4))).shape
    (1, 3, 4, 4)
    """

    def __init__(self, kernel_size: int) -> None:
        super().__init__()
        (self.kernel_size,) = extents("MaxOut", kernel_size=kernel_size)

    def forward(self, x: Any) -> Array:
        return maxout(x, self.kernel_size)


complete_docs(maxout, MaxOut)
