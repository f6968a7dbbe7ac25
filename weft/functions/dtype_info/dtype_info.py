"""Kinds of dtypes, type codes and names of dtypes, and the array API's ``__array_namespace_info__``."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import numpy as np

from weft.array import Array, Scalar
from weft.devices.names import named, usable
from weft.dtypes.api import ALL, COMPLEX, int64, isdtype, result_type
from weft.dtypes.formats import COMPLEX as PAIRS
from weft.dtypes.formats import DEFAULT, EVERY, FLOATS, INEXACT, promote
from weft.dtypes.parse import format_of, of_any_order, spelled
from weft.dtypes.scalar_types import DType
from weft.errors import DTypeError, said_by, short
from weft.functions.support.arguments import node, several
from weft.functions.support.unbound import unbound
from weft.runtime import execute

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

_LETTERS = "bBhHiIlLqQnNpPefdFD?"  # of the dtypes that weft has
False_, True_ = np.False_, np.True_
_CODES: dict[str, str] = {str(name): str(letters) for name, letters in vars(np)["typecodes"].items()}
little_endian = sys.byteorder == "little"
ScalarType = (*(t for t in np.ScalarType if t not in (str, bytes, np.object_, np.str_, np.bytes_, np.void)), Scalar)
typecodes = {
    name: "".join(c for c in letters if c in _LETTERS)
    for name, letters in _CODES.items() if any(c in _LETTERS for c in letters)
}
sctypeDict = {  # noqa: N816  NumPy's name
    name: held for name, held in np.sctypeDict.items() if held in {d.type for d in (*ALL, *COMPLEX)} and isinstance(name, str)
}


def typename(char: str) -> str:
    """What a letter for a dtype means, in words.

    Parameters
    ----------
    char : str

    Returns
    -------
    str

    Raises
    ------
    KeyError
        An unknown letter.

    Examples
    --------
    >>> import weft as wf
    >>> wf.typename("f")
    'single precision'
    """
    asked: Any = np.typename
    try:
        return asked(char)
    except (KeyError, TypeError):
        raise KeyError(f"typename: char={char!r} is no letter of a dtype") from None


def mintypecode(typechars: Any, typeset: Any = "GDFgdf", default: str = "d") -> str:
    """The letter of the smallest dtype of a set to which all given ones can be cast.

    Parameters
    ----------
    typechars : str, or sequence of letters, dtypes and arrays
    typeset : str or sequence of str
    default : str
        What is given where none of them is in the set.

    Returns
    -------
    str

    Raises
    ------
    DTypeError
        What has no dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.mintypecode(["d", "f", "D"])
    'D'
    """
    given = several(typechars, "mintypecode", "typechars")
    letters = [c if isinstance(c, str) and len(c) == 1 else _letter(c) for c in given]
    with said_by("mintypecode"):
        return np.mintypecode(letters, typeset, default)


def _letter(given: Any) -> str:
    try:
        return format_of(given).numpy.char
    except DTypeError:
        raise DTypeError(f"mintypecode: typechars holds {given!r}, which is no letter, no dtype and no array") from None


def common_type(*arrays: Any) -> Any:
    """The float or complex dtype that holds all arrays; integers count as the default float.

    Parameters
    ----------
    arrays : array
        Of numbers, not bools.

    Returns
    -------
    dtype : ``wf.float32``, ``wf.complex64``, ...

    Raises
    ------
    DTypeError
        An array of bools.

    Examples
    --------
    >>> import weft as wf
    >>> wf.common_type(wf.ones(2, dtype="float16"), wf.ones(2, dtype="float64")) == wf.float64
    True
    """
    import weft

    found = spelled("float16")
    for k, x in enumerate(arrays):
        have = node(x, "common_type", f"arrays[{k}]").dtype
        if have not in INEXACT and have.kind == "bool":
            raise DTypeError(f"common_type: arrays[{k}] is bool, and bools are no numbers; cast with .astype('float32')")
        found = promote(found, have if have in FLOATS or have in PAIRS else DEFAULT.real)
    return getattr(weft, found.name)


__all__ = ["False_", "ScalarType", "True_", "common_type", "little_endian", "mintypecode", "sctypeDict", "typecodes", "typename"]

_STANDARD = tuple(f for f in EVERY.values() if not f.narrow)  # those that the standard names


def __array_namespace_info__() -> Info:  # noqa: N807  the standard's name
    """What the array API asks of a library before it is used.

    Returns
    -------
    Info

    Examples
    --------
    >>> import weft as wf
    >>> wf.__array_namespace_info__().default_device()
    'cpu'
    """
    return Info()


class Info:
    """The answers."""

    def capabilities(self) -> dict[str, Any]:
        """What the library can do: masks as indices, shapes that depend on contents, and how many dimensions there may be."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays are made: the device in use."""
        return execute.device().name

    def devices(self) -> tuple[str, ...]:
        """All devices that can be used here."""
        return usable()

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of what is made without one."""
        _known("default_dtypes", device)
        whole = int64.dtype
        real, pair = DEFAULT.real.numpy, DEFAULT.complex.numpy
        return {"real floating": real, "complex floating": pair, "integral": whole, "indexing": whole}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """The standard's dtypes by name, all or those of a kind (as in ``isdtype``)."""
        _known("dtypes", device)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not all(k is None or isinstance(k, str) for k in kinds):
            raise DTypeError(f"dtypes: kind={kind!r} must be the name of a kind, or a tuple of such")
        return {f.name: f.numpy for f in _STANDARD if kind is None or isdtype(f.numpy, kind)}


def _known(function: str, device: Any) -> None:
    """Refuse a device that there is not; all have the same dtypes."""
    try:
        named("cpu" if device is None else device)
    except ValueError as error:
        raise ValueError(f"{function}: {error}") from None
