"""Pooling over the last one to three dimensions and, where the window says so, over channels, as functions.

Images are (N, C, *spatial).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.eager.apply import bind
from weft.errors import DTypeError, ShapeError, renamed, short
from weft.functions.creation.fill import asarray
from weft.functions.dtype_info.half_precision import narrowed, widened
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.indexing.take_scatter import take
from weft.functions.indexing.where import where
from weft.functions.support.arguments import norm_root, powers
from weft.graph.primitives import TABLE
from weft.nn.size_arguments import each, images, whole

Ints = tuple[int, ...]
Places = tuple[Ints, Ints, tuple[tuple[int, int], ...]]


def window_sizes(name: str, spatial: int, kernel_size: Any, stride: Any, padding: Any) -> tuple[Ints, Ints, Ints]:
    """Return window, stride and padding of each dimension: the spatial ones, after the channels if the window has one more."""
    count = len(kernel_size) if isinstance(kernel_size, tuple | list) else spatial
    if count not in (spatial, spatial + 1):
        raise ShapeError(
            f"{name}: kernel_size must be an int, a tuple of {spatial}, or one of {spatial + 1} whose first is for channels, not "
            f"{short(kernel_size)}"
        )
    k = each(kernel_size, count, f"{name}: kernel_size", 1)
    s = k if stride is None else each(stride, count, f"{name}: stride", 1)
    p = each(padding, count, f"{name}: padding")
    return k, s, p


def _places(name: str, spatial: int, x: Array, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool) -> Places:
    """Return window, stride and padding (low, high) of each dimension that the window runs along."""
    images(name, x.shape, spatial)
    k, s, p = window_sizes(name, spatial, kernel_size, stride, padding)
    if any(2 * a > b for a, b in zip(p, k, strict=True)):
        raise ShapeError(f"{name}: padding {p} is more than half the window {k}")
    rest = [_rest(*at) if ceil_mode else 0 for at in zip(x.shape[-len(k):], k, s, p, strict=True)]
    return k, s, tuple((a, a + b) for a, b in zip(p, rest, strict=True))


def _rest(n: int, k: int, s: int, p: int) -> int:
    """Return how far the last window sticks out: one that begins inside the image or the padding before it, as in PyTorch.

    A window larger than the padded image sticks out, too, by less than a stride.
    """
    over = n + 2 * p - k
    start = -(-over // s) * s
    return start - over if 0 <= start < n + p else 0


def _reduced(name: str, kind: str, x: Array, places: Places) -> Array:
    k, s, p = places
    try:
        return wrap(bind(TABLE["reduce_window"], as_node(x), kind=kind, window=k, stride=s, padding=p))
    except (ShapeError, DTypeError) as error:
        raise renamed(error, name) from None


def max_pool(
    spatial: int, x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
) -> Array:
    """The largest element of each window, over ``spatial`` dimensions; see :func:`max_pool2d`."""
    x, name = asarray(x), f"max_pool{spatial}d"
    return _reduced(name, "max", x, _places(name, spatial, x, kernel_size, stride, padding, ceil_mode))


def avg_pool(
    spatial: int, x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True,
    ceil_mode: bool = False,
) -> Array:
    """The mean of each window, over ``spatial`` dimensions; see :func:`avg_pool2d`."""
    x, name = asarray(x), f"avg_pool{spatial}d"
    places = k, s, p = _places(name, spatial, x, kernel_size, stride, padding, ceil_mode)
    total = _reduced(name, "sum", widened(x), places)
    counts: Any = np.ones((1,) * len(k))
    dims = len(k)
    for d, (n, size, step, (low, _)) in enumerate(zip(x.shape[-dims:], k, s, p, strict=True)):
        first = np.arange(total.shape[d - dims]) * step - low
        begin, end = (-low, n + low) if count_include_pad else (0, n)  # what ceil_mode adds at the end never counts
        inside = np.minimum(first + size, end) - np.maximum(first, begin)
        counts = counts * inside.reshape([-1 if a == d else 1 for a in range(dims)])
    if (counts == math.prod(k)).all():
        return narrowed(total / float(math.prod(k)), x)
    return narrowed(total * asarray((1.0 / counts).astype(total.dtype)), x)


def lp_pool(
    spatial: int, x: Any, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
) -> Array:
    """The p-norm of each window, over ``spatial`` dimensions; see :func:`lp_pool2d`."""
    x, name = asarray(x), f"lp_pool{spatial}d"
    if not norm_type >= 1:
        raise ValueError(f"{name}: norm_type must be at least 1, not {norm_type}")
    places = _places(name, spatial, x, kernel_size, stride, padding, ceil_mode)
    if norm_type == math.inf:
        return _reduced(name, "max", absolute(x), places)
    wide = widened(x)
    if norm_type == 1:
        norm = _reduced(name, "sum", absolute(wide), places)
    else:
        norm = wrap(norm_root(_reduced(name, "sum", wrap(powers(wide.node, norm_type)), places).node, norm_type))
    return narrowed(norm, x)


def max_pool2d(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False) -> Array:
    """The largest element of each window; the gradient goes to the first of equals.

    Parameters
    ----------
    x : (N, C, H, W)
    kernel_size : int, pair, or triple
        A triple is a window over channels, too: (3, 1, 1) gives the largest of three neighbouring channels.
    stride, padding : int, or as many ints as ``kernel_size`` has
        An int holds for every dimension of the window. ``stride`` defaults to ``kernel_size``.
    ceil_mode : bool, whether a last window that sticks out of the image counts too, if it begins inside

    Returns
    -------
    (N, C, (H + 2 * padding - kernel_size) // stride + 1, ...), with ``ceil_mode`` rounded up; C becomes less in the same way
    where the window has channels

    Raises
    ------
    ShapeError
        ``x`` is no batch of images, or the window does not fit into it.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.max_pool2d(wf.ones((2, 3, 8, 8)), 2).shape
    (2, 3, 4, 4)
    >>> wf.nn.max_pool2d(wf.ones((2, 6, 8, 8)), (3, 2, 2), stride=(2, 2, 2), padding=(1, 0, 0)).shape
    (2, 3, 4, 4)
    """
    return max_pool(2, x, kernel_size, stride, padding, ceil_mode)


def max_pool1d(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False) -> Array:
    """:func:`max_pool2d` with one spatial dimension.

    Parameters
    ----------
    x : (N, C, L)
    kernel_size, stride, padding, ceil_mode : as in :func:`max_pool2d`, for one dimension, or for channels and one

    Returns
    -------
    (N, C, length)

    Raises
    ------
    ShapeError
        As :func:`max_pool2d`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.max_pool1d(wf.array([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
    [[[3.0, 2.0]]]
    """
    return max_pool(1, x, kernel_size, stride, padding, ceil_mode)


def max_pool3d(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False) -> Array:
    """:func:`max_pool2d` with three spatial dimensions.

    Parameters
    ----------
    x : (N, C, D, H, W)
    kernel_size, stride, padding, ceil_mode : as in :func:`max_pool2d`, for three dimensions, or for channels and three

    Returns
    -------
    (N, C, depth, height, width)

    Raises
    ------
    ShapeError
        As :func:`max_pool2d`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.max_pool3d(wf.ones((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return max_pool(3, x, kernel_size, stride, padding, ceil_mode)


def avg_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True, ceil_mode: bool = False,
) -> Array:
    """The mean of each window.

    Parameters
    ----------
    x, kernel_size, stride, padding, ceil_mode : as in :func:`max_pool2d`
    count_include_pad : bool
        Whether padding counts as zeros, or not at all. What sticks out with ``ceil_mode`` never counts.

    Returns
    -------
    Array of the shape that :func:`max_pool2d` gives

    Raises
    ------
    ShapeError
        As :func:`max_pool2d`.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.nn.avg_pool2d(wf.ones((1, 1, 2, 2)), 2).sum())
    1.0
    """
    return avg_pool(2, x, kernel_size, stride, padding, count_include_pad, ceil_mode)


def avg_pool1d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True, ceil_mode: bool = False,
) -> Array:
    """:func:`avg_pool2d` with one spatial dimension.

    Parameters
    ----------
    x : (N, C, L)
    kernel_size, stride, padding, count_include_pad, ceil_mode : as in :func:`avg_pool2d`

    Returns
    -------
    (N, C, length)

    Raises
    ------
    ShapeError
        As :func:`max_pool2d`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.avg_pool1d(wf.array([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
    [[[2.0, 1.0]]]
    """
    return avg_pool(1, x, kernel_size, stride, padding, count_include_pad, ceil_mode)


def avg_pool3d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True, ceil_mode: bool = False,
) -> Array:
    """:func:`avg_pool2d` with three spatial dimensions.

    Parameters
    ----------
    x : (N, C, D, H, W)
    kernel_size, stride, padding, count_include_pad, ceil_mode : as in :func:`avg_pool2d`

    Returns
    -------
    (N, C, depth, height, width)

    Raises
    ------
    ShapeError
        As :func:`max_pool2d`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.avg_pool3d(wf.ones((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return avg_pool(3, x, kernel_size, stride, padding, count_include_pad, ceil_mode)


def lp_pool2d(
    x: Any, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
) -> Array:
    """The p-norm ``sum(abs(x) ** p) ** (1 / p)`` of each window. Where a window holds only zeros its gradient is 0.

    Sermanet et al.: Convolutional neural networks applied to house numbers digit classification. 2012.

    Parameters
    ----------
    x, kernel_size, stride, padding, ceil_mode : as in :func:`max_pool2d`
    norm_type : number
        p, at least 1, or ``wf.inf`` for the largest magnitude.

    Returns
    -------
    Array of the shape that :func:`max_pool2d` gives

    Raises
    ------
    ShapeError, ValueError
        As :func:`max_pool2d`; ``norm_type`` below 1.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.lp_pool2d(wf.array([[[[3.0, 0.0], [0.0, -4.0]]]]), 2, 2).tolist()
    [[[[5.0]]]]
    """
    return lp_pool(2, x, norm_type, kernel_size, stride, padding, ceil_mode)


def lp_pool1d(
    x: Any, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
) -> Array:
    """:func:`lp_pool2d` with one spatial dimension.

    Parameters
    ----------
    x : (N, C, L)
    norm_type, kernel_size, stride, padding, ceil_mode : as in :func:`lp_pool2d`

    Returns
    -------
    (N, C, length)

    Raises
    ------
    ShapeError, ValueError
        As :func:`lp_pool2d`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.lp_pool1d(wf.array([[[3.0, -4.0]]]), 2, 2).tolist()
    [[[5.0]]]
    """
    return lp_pool(1, x, norm_type, kernel_size, stride, padding, ceil_mode)


def lp_pool3d(
    x: Any, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
) -> Array:
    """:func:`lp_pool2d` with three spatial dimensions.

    Parameters
    ----------
    x : (N, C, D, H, W)
    norm_type, kernel_size, stride, padding, ceil_mode : as in :func:`lp_pool2d`

    Returns
    -------
    (N, C, depth, height, width)

    Raises
    ------
    ShapeError, ValueError
        As :func:`lp_pool2d`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.lp_pool3d(wf.ones((1, 1, 2, 2, 2)), 1, 2).tolist()
    [[[[[8.0]]]]]
    """
    return lp_pool(3, x, norm_type, kernel_size, stride, padding, ceil_mode)


# ---- regions by the size of the result


def _outputs(name: str, spatial: int, x: Array, output_size: Any) -> tuple[int, ...]:
    images(name, x.shape, spatial)
    given = tuple(output_size) if isinstance(output_size, tuple | list) else (output_size,) * spatial
    if len(given) != spatial:
        raise ShapeError(f"{name}: output_size {output_size!r} must be an int, None or {spatial} of these")
    found = tuple(n if o is None else whole(o) or 0 for o, n in zip(given, x.shape[2:], strict=True))
    if min(found) < 1:
        raise ShapeError(f"{name}: output_size {output_size!r} must hold positive ints")
    return found


def _regions(n: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """First and last + 1 element of each region; neighbours overlap where ``out`` does not divide ``n``."""
    i = np.arange(out)
    return i * n // out, -(-(i + 1) * n // out)


def _gathered(x: Array, axis: int, out: int) -> tuple[Array, Array, Array]:
    """Return the elements of each region along an axis, which of them do not repeat the last one, and their number."""
    first, last = _regions(x.shape[axis], out)
    at = first[:, None] + np.arange((last - first).max())
    along = [-1 if a == axis else 1 for a in range(x.ndim)]
    inside = (at < last[:, None]).reshape([*along[:axis], *at.shape, *along[axis + 1 :]])
    rows = take(x, asarray(np.minimum(at, last[:, None] - 1)), axis=axis)
    return rows, asarray(inside), asarray((last - first).reshape(along), dtype=x.dtype)


def _even(x: Array, out: tuple[int, ...]) -> tuple[int, ...] | None:
    """The window, where all regions have one size."""
    pairs = list(zip(x.shape[2:], out, strict=True))
    return None if any(n % o for n, o in pairs) else tuple(n // o for n, o in pairs)


def adaptive_avg_pool(spatial: int, x: Any, output_size: Any) -> Array:
    """The mean of each region, such that the result has ``output_size``; see :func:`weft.nn.AdaptiveAvgPool2d`."""
    x = asarray(x)
    out = _outputs(f"adaptive_avg_pool{spatial}d", spatial, x, output_size)
    if all(o == 1 for o in out):
        return x.mean(axis=tuple(range(2, 2 + spatial)), keepdims=True)
    window = _even(x, out)
    if window is not None:
        return avg_pool(spatial, x, window)
    mean = widened(x)
    for axis, o in enumerate(out, 2):  # not a product with 0 and 1: NaNs and infinities would spread to all regions
        rows, inside, size = _gathered(mean, axis, o)
        mean = where(inside, rows, 0).sum(axis=axis + 1) / size
    return narrowed(mean, x)


def adaptive_max_pool(spatial: int, x: Any, output_size: Any) -> Array:
    """The largest of each region, such that the result has ``output_size``; see :func:`weft.nn.AdaptiveMaxPool2d`."""
    x = asarray(x)
    out = _outputs(f"adaptive_max_pool{spatial}d", spatial, x, output_size)
    window = _even(x, out)
    if window is not None:
        return max_pool(spatial, x, window)
    for axis, o in enumerate(out, 2):
        x = _gathered(x, axis, o)[0].max(axis=axis + 1)
    return x


def maxout(x: Any, kernel_size: int) -> Array:
    """The largest of each ``kernel_size`` neighbouring channels.

    Goodfellow et al.: Maxout networks. 2013.

    Parameters
    ----------
    x : (N, C, ...); C is a multiple of kernel_size
    kernel_size : int

    Returns
    -------
    (N, C // kernel_size, ...)

    Raises
    ------
    ShapeError
        ``kernel_size`` does not divide the channels.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.maxout(wf.array([[1.0, 3.0, 5.0, 2.0]]), 2).tolist()
    [[3.0, 5.0]]
    """
    x, k = asarray(x), whole(kernel_size) or 0
    if x.ndim < 2 or k < 1 or x.shape[1] % k:
        raise ShapeError(f"maxout: the channels (axis 1) of x {x.shape} must be a multiple of kernel_size={kernel_size!r}")
    return x.reshape((x.shape[0], x.shape[1] // k, k, *x.shape[2:])).max(axis=2)
