"""Fourier transforms along several axes."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.functions.common import finish
from weft.functions.fourier import Axes, from_real, operand, to_real, transformed


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
