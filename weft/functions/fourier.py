"""Fourier transforms along one axis, and what those of several share: how long each axis is to be, which way is divided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array import Array
from weft.dtypes.formats import COMPLEX, FLOAT32, complexed
from weft.errors import AxisError, DTypeError, ShapeError
from weft.functions.common import Node, axis_index, cast, conjugated, finish, floating, node, op, several, sliced, whole
from weft.graph.primitives.spectrum import NORMS, SWAPPED

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
