"""Parts and angles of complex numbers, and queries for complex arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import BOOL, COMPLEX, DEFAULT, FLOAT32, FLOAT64, complex_format, elementwise_float_format
from weft.functions.creation.fill import asarray
from weft.functions.support.arguments import axis_index, broadcast, cast, floating, looked, node, number, op
from weft.graph.node import Node
from weft.process.docstrings import complete_docs, complete_each


def real(val: Any) -> Array:
    """Return the real parts of ``val``; real numbers unchanged.

    Parameters
    ----------
    val : array_like

    Returns
    -------
    Array of the shape of ``val``, float32 for complex64, float64 for complex128
        For a complex Array a view, which writes through.

    Examples
    --------
    >>> wf.real(wf.array([1 + 2j, 3.0])).tolist()
    [1.0, 3.0]
    """
    if isinstance(val, Array):
        return val.real
    value = node(val, "real", "val")
    return wrap(op("real", value) if value.dtype in COMPLEX else value)


def imag(val: Any) -> Array:
    """Return the imaginary parts of ``val``; zeros for real numbers.

    Examples
    --------
    >>> wf.imag(wf.array([1 + 2j, 3.0])).tolist()
    [2.0, 0.0]
    """
    return val.imag if isinstance(val, Array) else wrap(_imaginary_part(node(val, "imag", "val")))


def _imaginary_part(value: Node) -> Node:
    return op("imag", value) if value.dtype in COMPLEX else broadcast(number(0, value.dtype), value.shape)


def angle(z: Any, deg: bool = False) -> Array:
    """Return the angles of complex numbers from the positive real axis, -pi to pi.

    Parameters
    ----------
    z : array_like
    deg : bool
        In degrees instead of radians.

    Returns
    -------
    Array of floats

    Examples
    --------
    >>> wf.angle(wf.array([1.0, 1j, -1.0]), deg=True).tolist()
    [0.0, 90.0, 180.0]
    """
    value = node(z, "angle", "z")
    value = floating(value) if value.dtype is BOOL else cast(value, elementwise_float_format(value.dtype))
    y, x = _imaginary_part(value), op("real", value) if value.dtype in COMPLEX else value
    angles = op("atan2", y, x)
    return wrap(op("multiply", angles, number(180 / math.pi, angles.dtype)) if deg else angles)


def real_if_close(a: Any, tol: float = 100) -> Array:
    """Return the real parts if all imaginary parts are negligible, else ``a``. Complex elements are computed.

    Parameters
    ----------
    a : array_like
    tol : float
        The largest negligible imaginary part: above 1 in machine epsilons of the dtype, else absolute.

    Returns
    -------
    Array of the shape of ``a``

    Raises
    ------
    TraceError
        Inside a traced function, because the dtype depends on the values.

    Examples
    --------
    >>> wf.real_if_close(wf.array([2.1 + 4e-14j, 5.2 + 3e-15j], dtype="complex128"), tol=1000).dtype
    dtype('float64')
    """
    value = asarray(a)
    if value.node.dtype not in COMPLEX:
        return value
    elements = looked(value, "real_if_close", "a")
    bound = tol * np.finfo(elements.real.dtype).eps if tol > 1 else tol
    return wrap(op("real", value.node)) if bool((np.abs(elements.imag) < bound).all()) else value


def sort_complex(a: Any) -> Array:
    """Sort by real parts, then by imaginary parts, along the last axis; return complex numbers.

    Parameters
    ----------
    a : array_like with a dimension or more

    Returns
    -------
    Array of complex64 or complex128; a complex array keeps its dtype

    Raises
    ------
    AxisError
        ``a`` has no dimensions.

    Examples
    --------
    >>> wf.sort_complex([5, 3, 6, 2, 1]).tolist()
    [(1+0j), (2+0j), (3+0j), (5+0j), (6+0j)]
    """
    value = node(a, "sort_complex", "a")
    axis = axis_index(-1, len(value.shape), "sort_complex")
    if value.dtype in COMPLEX:
        return wrap(op("sort", value, axis=axis) if value.size else value)
    short = value.dtype.kind in ("signed", "unsigned") and value.dtype.bits <= 16
    part = FLOAT32 if short else FLOAT64 if DEFAULT.wide else floating(value).dtype.computed
    line = cast(value, part)
    return wrap(cast(op("sort", line, axis=axis) if value.size else line, complex_format(part)))


def isreal(x: Any) -> Array:
    """Return whether the imaginary part of each element is zero.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Array of bool, of the shape of ``x``

    Examples
    --------
    >>> wf.isreal(wf.array([1 + 2j, 3.0])).tolist()
    [False, True]
    """
    part = _imaginary_part(node(x, "isreal"))
    return wrap(op("equal", part, number(0, part.dtype)))


def iscomplex(x: Any) -> Array:
    """Return whether the imaginary part of each element is not zero.

    Examples
    --------
    >>> wf.iscomplex(wf.array([1 + 2j, 3.0])).tolist()
    [True, False]
    """
    return wrap(cast(_imaginary_part(node(x, "iscomplex")), BOOL))


def iscomplexobj(x: Any) -> bool:
    """Return whether an array, a list or a number has a complex dtype, whatever its elements are.

    Parameters
    ----------
    x : array_like

    Examples
    --------
    >>> wf.iscomplexobj(wf.zeros(2, dtype="complex64")), wf.iscomplexobj(1.5)
    (True, False)
    """
    return node(x, "iscomplexobj").dtype in COMPLEX


def isrealobj(x: Any) -> bool:
    """Return whether an array, a list or a number has a dtype that is not complex.

    Examples
    --------
    >>> wf.isrealobj(wf.zeros(2)), wf.isrealobj([1j])
    (True, False)
    """
    return not iscomplexobj(x)


complete_each(angle, real_if_close, sort_complex)
complete_docs(real, imag)
complete_docs(isreal, iscomplex)
complete_docs(iscomplexobj, isrealobj)
