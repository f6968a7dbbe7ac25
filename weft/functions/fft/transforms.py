"""Discrete Fourier transforms with the names, arguments and results of ``numpy.fft``.

float32 gives complex64 and back; integers and narrow floats are cast to float32 first. NumPy computes them on the host, and they
have derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array import Array, wrap
from weft.dtypes.formats import COMPLEX, DEFAULT, FLOAT32, FLOAT64, INT64, Format, complexed
from weft.dtypes.parse import spelled, to_tuple
from weft.errors import AxisError, DTypeError, ShapeError
from weft.functions.shape.axes import roll
from weft.functions.support.arguments import (
    Node,
    axis_index,
    cast,
    conjugated,
    finish,
    floating,
    made_on,
    node,
    number,
    op,
    real_number,
    several,
    sliced,
    whole,
)
from weft.graph.primitives.spectrum import NORMS, SWAPPED


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of :func:`fft`'s elements, in cycles per unit of ``d``.

    Parameters
    ----------
    n : int
        How many elements are transformed.
    d : float
        The distance between them.
    dtype : dtype, optional
        float32 by default.
    device : str, optional
        There is only "cpu".

    Returns
    -------
    (n,) Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        ``n`` is not positive; no float dtype; an unknown device.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies("fftfreq", n, d, dtype, device, True)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of :func:`rfft`'s elements, in cycles per unit of ``d``.

    Parameters
    ----------
    n : int
        How many elements are transformed.
    d : float
        The distance between them.
    dtype : dtype, optional
        float32 by default.
    device : str, optional
        There is only "cpu".

    Returns
    -------
    (n // 2 + 1,) Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        ``n`` is not positive; no float dtype; an unknown device.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _frequencies("rfftfreq", n, d, dtype, device, False)


def _frequencies(function: str, n: int, d: float, dtype: Any, device: Any, full: bool) -> Array:
    if device is not None:
        return made_on(function, device, _frequencies, function, n, d, dtype, None, full)
    count = whole(n, function, "n")
    if count < 1:
        raise ShapeError(f"{function}: n={n} must be positive")
    wanted: Format = DEFAULT.real if dtype is None else spelled(dtype)
    if wanted.kind != "float":
        raise DTypeError(f"{function}: dtype={wanted} cannot hold frequencies; use a float dtype")
    place = op("iota", shape=(count if full else count // 2 + 1,), dtype=INT64, axis=0)
    if full:
        upper = op("greater", place, number((count - 1) // 2, INT64))
        place = op("where", upper, op("subtract", place, number(count, INT64)), place)
    return wrap(cast(op("divide", cast(place, FLOAT64), number(count * real_number(d, function, "d"), FLOAT64)), wanted))


def fftshift(x: Any, axes: Any = None) -> Array:
    """The frequency 0 moved to the middle.

    Parameters
    ----------
    x : array_like
    axes : int or sequence of int, optional
        By default all.

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    AxisError
        No such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fft.fftshift(wf.array([0, 1, -2, -1])).tolist()
    [-2, -1, 0, 1]
    """
    value = node(x, "fftshift")
    shape = value.shape
    places = tuple(range(len(shape))) if axes is None else to_tuple(axes)
    places = tuple(axis_index(a, len(shape), "fftshift", "axes") for a in places)
    return wrap(value) if not places else roll(x, tuple(shape[a] // 2 for a in places), places)


def ifftshift(x: Any, axes: Any = None) -> Array:
    """The inverse of :func:`fftshift`.

    Parameters
    ----------
    x : array_like
    axes : int or sequence of int, optional
        By default all.

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    AxisError
        No such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fft.ifftshift(wf.array([-2, -1, 0, 1])).tolist()
    [0, 1, -2, -1]
    """
    value = node(x, "ifftshift")
    shape = value.shape
    places = tuple(range(len(shape))) if axes is None else to_tuple(axes)
    places = tuple(axis_index(a, len(shape), "ifftshift", "axes") for a in places)
    return wrap(value) if not places else roll(x, tuple(-(shape[a] // 2) for a in places), places)

Axes = Sequence[int] | None


def operand(x: Any, function: str) -> Node:
    found = floating(node(x, function, "a"))
    return cast(found, FLOAT32) if found.dtype.narrow else found


def _complex(value: Node) -> Node:
    return cast(value, complexed(value.dtype))


def _norm(function: str, norm: Any) -> str:
    if norm is not None and norm not in NORMS:
        raise ValueError(f"{function}: norm={norm!r} must be 'backward', 'ortho' or 'forward'")
    return norm or "backward"


def _resized(function: str, value: Node, places: Sequence[int], sizes: Sequence[int | None]) -> Node:
    """Cut, or filled up with zeros, along some axes; None leaves an axis as it is."""
    ndim = len(value.shape)
    for axis, size in zip(places, sizes, strict=True):
        have = value.shape[axis]
        n = have if size is None else size
        if n < 1:
            raise ShapeError(f"{function}: a transform of n={n} elements along axis {axis}; at least one is needed")
        if n < have:
            value = sliced(value, axis, 0, n)
        elif n > have:
            value = op("pad", value, low=(0,) * ndim, high=tuple(n - have if d == axis else 0 for d in range(ndim)), value=0)
    return value


def _places(function: str, value: Node, s: Any, axes: Any) -> tuple[tuple[int, ...], list[int | None]]:
    """The axes to go over, and how long each is to be; None where that is its own."""
    ndim = len(value.shape)
    sizes = None if s is None else [whole(n, function, "s") for n in several(s, function, "s")]
    if axes is None:
        axes = range(ndim) if sizes is None else range(ndim - len(sizes), ndim)
    found = tuple(axis_index(a, ndim, function, "axes") for a in several(axes, function, "axes"))
    if not found:
        raise AxisError(f"{function}: at least one axis is needed")
    if sizes is None:
        return found, [None] * len(found)
    if len(sizes) != len(found):
        raise ShapeError(f"{function}: s={tuple(sizes)} and axes={tuple(axes)} must have one entry an axis")
    return found, [value.shape[axis] if n == -1 else n for axis, n in zip(found, sizes, strict=True)]


def _one_by_one(
    function: str, value: Node, places: Sequence[int], sizes: Sequence[int | None], inverse: bool, way: str,
) -> Node:
    """Transformed along one axis after the other, each made as long as it is to be when its turn comes: one may come twice."""
    for axis, size in zip(places, sizes, strict=True):
        value = op("fft", _complex(_resized(function, value, (axis,), (size,))), axes=(axis,), inverse=inverse, norm=way)
    return value


def _twice(value: Node, places: Sequence[int], sizes: Sequence[int | None]) -> list[int] | None:
    """How long each axis is to be, where one is named twice; else None."""
    if len(set(places)) == len(places):
        return None
    return [value.shape[axis] if n is None else n for axis, n in zip(places, sizes, strict=True)]


def transformed(function: str, x: Any, s: Any, axes: Any, norm: Any, inverse: bool) -> Node:
    value = operand(x, function)
    if not value.shape and s is None and not axes:
        return node(x, function, "a")  # along no axes nothing is done
    places, sizes = _places(function, value, s, axes)
    lengths = _twice(value, places, sizes)
    if lengths is not None:
        return _one_by_one(function, value, places[::-1], lengths[::-1], inverse, _norm(function, norm))
    value = _resized(function, value, places, sizes)
    return op("fft", _complex(value), axes=places, inverse=inverse, norm=_norm(function, norm))


def from_real(function: str, x: Any, s: Any, axes: Any, norm: Any) -> Node:
    value, way = operand(x, function), _norm(function, norm)
    if value.dtype in COMPLEX:
        raise DTypeError(f"{function}: a is {value.dtype}, but must be real: use wf.fft.fftn, or wf.real(x)")
    places, sizes = _places(function, value, s, axes)
    lengths = _twice(value, places, sizes)
    if lengths is not None:
        value = op("rfft", _resized(function, value, places[-1:], lengths[-1:]), axis=places[-1], norm=way)
        return _one_by_one(function, value, places[-2::-1], lengths[-2::-1], False, way)
    value = _resized(function, value, places, sizes)
    value = op("rfft", value, axis=places[-1], norm=way)
    return op("fft", value, axes=places[:-1], inverse=False, norm=way) if places[1:] else value


def to_real(function: str, value: Node, s: Any, axes: Any, norm: Any) -> Node:
    way = _norm(function, norm)
    value = _complex(value)
    places, sizes = _places(function, value, s, axes)
    lengths = _twice(value, places, sizes)
    if lengths is not None:
        value = _one_by_one(function, value, places[:-1], lengths[:-1], True, way)
        sizes = [*sizes[:-1], 2 * (lengths[-1] - 1) if sizes[-1] is None else sizes[-1]]
    else:
        value = _resized(function, value, places[:-1], sizes[:-1])
    if places[1:] and lengths is None:
        value = op("fft", value, axes=places[:-1], inverse=True, norm=way)
    last = sizes[-1]
    n = 2 * (value.shape[places[-1]] - 1) if last is None else last
    if n < 1:
        raise ShapeError(f"{function}: a transform of n={n} elements along axis {places[-1]}; at least one is needed")
    value = _resized(function, value, places[-1:], [n // 2 + 1])
    return op("irfft", value, axis=places[-1], n=n, norm=way)


def _pair(n: Any) -> Any:
    return None if n is None else (n,)


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """The discrete Fourier transform along an axis.

    Parameters
    ----------
    a : array_like
    n : int, optional
        How many elements are transformed, cut or filled up with zeros.
    axis : int
    norm : "backward", "ortho" or "forward"
        Which way is divided by n: the way back, both by its root, or the way there.
    out : Array, optional

    Returns
    -------
    Array of complex64 or complex128

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.fft(wf.array([1.0, 0.0, 0.0])), 3).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """
    return finish(transformed("fft", a, _pair(n), (axis,), norm, False), out, "fft")


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """The inverse of :func:`fft`.

    Parameters
    ----------
    a : array_like
    n, axis, norm, out : as in :func:`fft`

    Returns
    -------
    Array of complex64 or complex128

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.ifft(wf.array([3.0, 0.0, 0.0])), 3).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """
    return finish(transformed("ifft", a, _pair(n), (axis,), norm, True), out, "ifft")


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """The transform of real numbers: the half of the frequencies that tells the other.

    Parameters
    ----------
    a : array_like
    n, axis, norm, out : as in :func:`fft`

    Returns
    -------
    Array of complex64 or complex128, with n // 2 + 1 elements along the axis

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.rfft(wf.array([1.0, 0.0, 0.0])), 3).tolist()
    [(1+0j), (1+0j)]
    """
    return finish(from_real("rfft", a, _pair(n), (axis,), norm), out, "rfft")


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """The inverse of :func:`rfft`.

    Parameters
    ----------
    a : array_like
    n : int, optional
        How many elements the result has, 2 (m - 1) of m by default; what is transformed is, cut or filled up with zeros.
    axis, norm, out : as in :func:`fft`

    Returns
    -------
    Array of floats

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.irfft(wf.array([1.0, 1.0, 1.0])), 3).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    return finish(to_real("irfft", operand(a, "irfft"), _pair(n), (axis,), norm), out, "irfft")


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """The transform of a half of what is symmetric in time, whose spectrum is real.

    Parameters
    ----------
    a : array_like
    n : int, optional
        How many elements the result has, 2 (m - 1) of m by default; what is transformed is, cut or filled up with zeros.
    axis, norm, out : as in :func:`fft`

    Returns
    -------
    Array of floats

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.hfft(wf.array([1.0, 0.0, 0.0])), 3).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return finish(to_real("hfft", conjugated(operand(a, "hfft")), _pair(n), (axis,), SWAPPED[_norm("hfft", norm)]), out, "hfft")


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """The inverse of :func:`hfft`.

    Parameters
    ----------
    a : array_like
    n, axis, norm, out : as in :func:`fft`

    Returns
    -------
    Array of complex64 or complex128, with n // 2 + 1 elements along the axis

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fft.ihfft(wf.array([4.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0]
    """
    return finish(conjugated(from_real("ihfft", a, _pair(n), (axis,), SWAPPED[_norm("ihfft", norm)])), out, "ihfft")


def fft2(a: Any, s: Any = None, axes: Axes = (-2, -1), norm: str | None = None, out: Array | None = None) -> Array:
    """The discrete Fourier transform in two dimensions.

    Parameters
    ----------
    a : array_like
    s : sequence of int, optional
        How many elements along each axis are transformed, cut or filled up with zeros; -1 for its own.
    axes : sequence of int, optional
        By default the last two.
    norm, out : as in :func:`fft`

    Returns
    -------
    Array of complex64 or complex128

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.fft2(wf.array([[1.0, 0.0], [0.0, 0.0]])), 3).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return finish(transformed("fft2", a, s, axes, norm, False), out, "fft2")


def ifft2(a: Any, s: Any = None, axes: Axes = (-2, -1), norm: str | None = None, out: Array | None = None) -> Array:
    """The inverse of :func:`fft2`.

    Parameters
    ----------
    a : array_like
    s, axes, norm, out : as in :func:`fft2`

    Returns
    -------
    Array of complex64 or complex128

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.ifft2(wf.array([[4.0, 0.0], [0.0, 0.0]])), 3).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return finish(transformed("ifft2", a, s, axes, norm, True), out, "ifft2")


def rfft2(a: Any, s: Any = None, axes: Axes = (-2, -1), norm: str | None = None, out: Array | None = None) -> Array:
    """The transform of real numbers in two dimensions: :func:`rfft` along the last axis, :func:`fft` along the others.

    Parameters
    ----------
    a : array_like
    s, axes, norm, out : as in :func:`fft2`

    Returns
    -------
    Array of complex64 or complex128, with n // 2 + 1 elements along the last of the axes

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.rfft2(wf.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])), 3).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return finish(from_real("rfft2", a, s, axes, norm), out, "rfft2")


def irfft2(a: Any, s: Any = None, axes: Axes = (-2, -1), norm: str | None = None, out: Array | None = None) -> Array:
    """The inverse of :func:`rfft2`.

    Parameters
    ----------
    a : array_like
    s : sequence of int, optional
        How many elements along each axis the result has, cut or filled up with zeros; -1 for its own.
    axes, norm, out : as in :func:`fft2`

    Returns
    -------
    Array of floats

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.irfft2(wf.array([[4.0, 0.0], [0.0, 0.0]])), 3).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return finish(to_real("irfft2", operand(a, "irfft2"), s, axes, norm), out, "irfft2")


def fftn(a: Any, s: Any = None, axes: Axes = None, norm: str | None = None, out: Array | None = None) -> Array:
    """The discrete Fourier transform in several dimensions.

    Parameters
    ----------
    a : array_like
    s : sequence of int, optional
        How many elements along each axis are transformed, cut or filled up with zeros; -1 for its own.
    axes : sequence of int, optional
        By default all, or as many of the last as ``s`` has entries.
    norm, out : as in :func:`fft`

    Returns
    -------
    Array of complex64 or complex128

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.fftn(wf.array([[1.0, 0.0], [0.0, 0.0]])), 3).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return finish(transformed("fftn", a, s, axes, norm, False), out, "fftn")


def ifftn(a: Any, s: Any = None, axes: Axes = None, norm: str | None = None, out: Array | None = None) -> Array:
    """The inverse of :func:`fftn`.

    Parameters
    ----------
    a : array_like
    s, axes, norm, out : as in :func:`fftn`

    Returns
    -------
    Array of complex64 or complex128

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.ifftn(wf.array([[4.0, 0.0], [0.0, 0.0]])), 3).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return finish(transformed("ifftn", a, s, axes, norm, True), out, "ifftn")


def rfftn(a: Any, s: Any = None, axes: Axes = None, norm: str | None = None, out: Array | None = None) -> Array:
    """The transform of real numbers in several dimensions: :func:`rfft` along the last axis, :func:`fft` along the others.

    Parameters
    ----------
    a : array_like
    s, axes, norm, out : as in :func:`fftn`

    Returns
    -------
    Array of complex64 or complex128, with n // 2 + 1 elements along the last of the axes

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.rfftn(wf.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])), 3).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return finish(from_real("rfftn", a, s, axes, norm), out, "rfftn")


def irfftn(a: Any, s: Any = None, axes: Axes = None, norm: str | None = None, out: Array | None = None) -> Array:
    """The inverse of :func:`rfftn`.

    Parameters
    ----------
    a : array_like
    s : sequence of int, optional
        How many elements along each axis the result has, cut or filled up with zeros; -1 for its own.
    axes, norm, out : as in :func:`fftn`

    Returns
    -------
    Array of floats

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        No elements to transform, or lengths, axes or an ``out`` that do not fit; no such axis; an unknown ``norm``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.fft.irfftn(wf.array([[4.0, 0.0], [0.0, 0.0]])), 3).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return finish(to_real("irfftn", operand(a, "irfftn"), s, axes, norm), out, "irfftn")
