"""Kinds of dtypes, as classes above them, and which dtype holds others."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from weft.array import Array, Scalar
from weft.dtypes.api import result_type
from weft.dtypes.formats import FLOATS
from weft.dtypes.parse import of_any_order
from weft.dtypes.scalar_types import DType
from weft.errors import DTypeError, said_by, short
from weft.functions.unbound import unbound

_GENERIC = frozenset(f.numpy.type for f in FLOATS if f.numpy.isbuiltin != 1)  # floats that NumPy knows as generics only


class Kind(type):
    """The class of the kinds: ``isinstance(x, wf.integer)`` asks for scalars, weft's and NumPy's."""

    numpys: Any

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Scalar | np.generic) and cls._holds(x.dtype.type)

    def __subclasscheck__(cls, other: Any) -> bool:
        return cls._holds(other.numpys if isinstance(other, Kind) else other.dtype.type if isinstance(other, DType) else other)

    def _holds(cls, scalar: Any) -> bool:
        if scalar in _GENERIC:
            scalar = np.floating
        return isinstance(scalar, type) and builtins.issubclass(scalar, cls.numpys)


def _kind(name: str, about: str, example: str) -> Any:
    doc = f"""{about}, for :func:`issubdtype` and ``isinstance``; no dtype itself.

    Examples
    --------
    >>> import weft as wf
    >>> wf.issubdtype({example}, wf.{name})
    True
    """
    return Kind(name, (), {"numpys": getattr(np, name), "__doc__": doc, "__module__": __name__})


generic = _kind("generic", "Any dtype", "wf.bool")
number = _kind("number", "Integers and floats", "wf.int8")
integer = _kind("integer", "Integers", "wf.uint8")
signedinteger = _kind("signedinteger", "Integers with a sign", "wf.int8")
unsignedinteger = _kind("unsignedinteger", "Integers without a sign", "wf.uint8")
inexact = _kind("inexact", "Floats, and what is complex", "wf.bfloat16")
floating = _kind("floating", "Floats", "wf.bfloat16")
complexfloating = _kind("complexfloating", "Complex numbers", "wf.complex64")


def _scalar_type(given: Any, argument: str) -> Any:
    """NumPy's class of scalars for what the user means by a dtype."""
    if isinstance(given, Kind):
        return given.numpys
    if isinstance(given, type) and builtins.issubclass(given, np.generic):
        return given
    if given is float or given is int:
        return np.float64 if given is float else np.int64
    if isinstance(given, type) and builtins.issubclass(given, Array):
        raise DTypeError(
            f"issubdtype: {argument}={given.__name__} is the class of numbers of every dtype; ask x.dtype in place of type(x)"
        )
    try:
        return of_any_order(given).numpy.type
    except DTypeError:
        try:
            return np.dtype(given).type
        except TypeError:
            raise DTypeError(f"issubdtype: {argument}={short(given)} is no dtype") from None


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype is another one, or of a kind such as ``wf.integer``.

    Parameters
    ----------
    arg1, arg2 : dtype, or a kind: wf.number, wf.integer, wf.floating, ...

    Returns
    -------
    bool

    Raises
    ------
    DTypeError
        No dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.issubdtype(wf.float32, wf.floating), wf.issubdtype(wf.float32, wf.integer)
    (True, False)
    """
    one, other = _scalar_type(arg1, "arg1"), _scalar_type(arg2, "arg2")
    if one in _GENERIC and other is not one:
        one = np.floating
    return builtins.issubclass(one, other)


@unbound
def promote_types(type1: Any, type2: Any) -> np.dtype:
    """The dtype that both become together.

    Parameters
    ----------
    type1, type2 : dtype

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        An unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.promote_types(wf.int8, wf.float16)
    dtype('float16')
    """
    return result_type(of_any_order(type1).numpy, of_any_order(type2).numpy)


def min_scalar_type(a: Any) -> np.dtype:
    """The smallest dtype that holds a number; the dtype of an array.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        A number that no dtype of weft holds.

    Examples
    --------
    >>> import weft as wf
    >>> wf.min_scalar_type(300)
    dtype('uint16')
    """
    if isinstance(a, Array):
        return a.dtype if a.ndim else np.min_scalar_type(a.numpy())
    with said_by("min_scalar_type"):
        found = np.min_scalar_type(a)
    return of_any_order(found).numpy
