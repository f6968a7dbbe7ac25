"""Functions of complex numbers: their parts, conjugates and angles, and which arrays are complex."""

from __future__ import annotations

import math
from typing import Any

from weft.array import Array, wrap
from weft.formats import BOOL, COMPLEX, of_elements
from weft.functions.common import broadcast, cast, floating, node, number, op
from weft.graph.node import Node


def real(x: Any, /) -> Array:
    """The real parts of ``x``; of real numbers they themselves.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Array of the shape of ``x``: float32 of complex64, float64 of complex128; of an Array a view, which writes through

    Examples
    --------
    >>> import weft as wf
    >>> wf.real(wf.array([1 + 2j, 3.0])).tolist()
    [1.0, 3.0]
    """
    if isinstance(x, Array):
        return x.real
    value = node(x, "real")
    return wrap(op("real", value) if value.dtype in COMPLEX else value)


def imag(x: Any, /) -> Array:
    """The imaginary parts of ``x``; of real numbers zeros.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Array of the shape of ``x``: float32 of complex64, float64 of complex128; of a complex Array a view, which writes through

    Examples
    --------
    >>> import weft as wf
    >>> wf.imag(wf.array([1 + 2j, 3.0])).tolist()
    [2.0, 0.0]
    """
    return x.imag if isinstance(x, Array) else wrap(_imaginary(node(x, "imag")))


def _imaginary(value: Node) -> Node:
    return op("imag", value) if value.dtype in COMPLEX else broadcast(number(0, value.dtype), value.shape)


def angle(z: Any, /, deg: bool = False) -> Array:
    """The angles of complex numbers, counted from the positive real axis: -pi to pi.

    Parameters
    ----------
    z : array_like
    deg : bool
        In degrees, not radians.

    Returns
    -------
    Array of floats

    Examples
    --------
    >>> import weft as wf
    >>> wf.angle(wf.array([1.0, 1j, -1.0]), deg=True).tolist()
    [0.0, 90.0, 180.0]
    """
    value = node(z, "angle", "z")
    value = floating(value) if value.dtype is BOOL else cast(value, of_elements(value.dtype))
    y, x = _imaginary(value), op("real", value) if value.dtype in COMPLEX else value
    found = op("atan2", y, x)
    return wrap(op("multiply", found, number(180 / math.pi, found.dtype)) if deg else found)


def isreal(x: Any, /) -> Array:
    """Whether each element has no imaginary part.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Array of bool, of the shape of ``x``

    Examples
    --------
    >>> import weft as wf
    >>> wf.isreal(wf.array([1 + 2j, 3.0])).tolist()
    [False, True]
    """
    part = _imaginary(node(x, "isreal"))
    return wrap(op("equal", part, number(0, part.dtype)))


def iscomplex(x: Any, /) -> Array:
    """Whether each element has an imaginary part.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Array of bool, of the shape of ``x``

    Examples
    --------
    >>> import weft as wf
    >>> wf.iscomplex(wf.array([1 + 2j, 3.0])).tolist()
    [True, False]
    """
    return wrap(cast(_imaginary(node(x, "iscomplex")), BOOL))


def iscomplexobj(x: Any, /) -> bool:
    """Whether an array, a list or a number is of a complex dtype, whatever its elements are.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    bool

    Examples
    --------
    >>> import weft as wf
    >>> wf.iscomplexobj(wf.zeros(2, dtype="complex64")), wf.iscomplexobj(1.5)
    (True, False)
    """
    return node(x, "iscomplexobj").dtype in COMPLEX


def isrealobj(x: Any, /) -> bool:
    """Whether an array, a list or a number is of a dtype that is not complex.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    bool

    Examples
    --------
    >>> import weft as wf
    >>> wf.isrealobj(wf.zeros(2)), wf.isrealobj([1j])
    (True, False)
    """
    return not iscomplexobj(x)
