"""Casts, kinds of dtypes, NumPy's type codes, and what the array API asks of a library."""

from __future__ import annotations

import builtins
import sys
from functools import partial
from typing import Any

import numpy as np

from weft.array import Array, Scalar, wrap, wrap_like
from weft.array.convert import is_argument
from weft.devices.names import canonical_name, usable
from weft.dtypes.api import ALL, COMPLEX, int64, isdtype, result_type
from weft.dtypes.formats import COMPLEX as PAIRS
from weft.dtypes.formats import DEFAULT, EVERY, FLOATS, FROM_NUMPY, INEXACT, promote
from weft.dtypes.parse import format_of, layout, parse_any_byte_order, parse_dtype
from weft.dtypes.scalar_types import DType
from weft.eager import implementations
from weft.eager.policy import is_enabled
from weft.errors import DTypeError, name_numpy_errors, short
from weft.functions.creation.fill import array, asarray
from weft.functions.support.arguments import as_list, cast, cast_by, convert_for_write, create_on_device, node, unbound
from weft.graph.primitives.table import input_leaf
from weft.process.docstrings import complete_module
from weft.runtime import execute


def astype(
    x: Any, /, dtype: Any, order: Any = None, casting: str = "unsafe", subok: bool = True, copy: bool = True, *,
    device: Any = None, rounding: str | None = None, saturate: bool | None = None, bits: int = 32, key: Any = None,
) -> Array:
    """Return ``x`` converted to another dtype.

    Parameters
    ----------
    dtype : dtype
    casting : str
        The conversions that are allowed: "no", "equiv", "safe", "same_kind", or "unsafe" for all.
    copy : bool
        False: return an Array unchanged if it already has the dtype.
    rounding : str
        "nearest" (ties to even), "nearest away" (ties away from zero), "toward zero", "away from zero", "up", "down", or
        "stochastic": up or down at random, so that the expected value is the number itself, even below the smallest number of the
        dtype. By default casts to floats round to nearest, and casts of floats to integers toward zero.
    saturate : bool, optional
        True: numbers that are too large become the largest one, and NaN becomes 0 in an integer dtype. By default they become
        infinity or NaN where the dtype has it, and wrap around in integer dtypes.
    bits : int
        The number of random bits of "stochastic", 1 to 32. With 8 bits, numbers that are rounded up in less than one of 256 cases
        are biased.
    key : key, optional
        For "stochastic": a key as for the functions of ``wf.random``. By default the hidden state of ``wf.random`` is used.

    Returns
    -------
    Array of the shape of ``x``

    Raises
    ------
    DTypeError, ValueError
        The dtype is unknown, or ``casting`` forbids it; complex numbers would lose their imaginary parts (use ``wf.real(x)``);
        the device or the rounding is unknown, or the dtype is bool or complex.

    >>> wf.astype(wf.array([1.9, -1.9]), wf.int32).tolist()
    [1, -1]
    """
    layout(order, "astype")
    if device is not None:
        return create_on_device(
            "astype", device, partial(astype, rounding=rounding, saturate=saturate, bits=bits, key=key), x, dtype, order, casting,
            subok, copy,
        )
    form = parse_dtype(dtype)
    if casting != "unsafe":
        cast_by(casting, node(x, "astype"), form, "astype", "x")
    if rounding is not None or saturate is not None:
        from weft.functions.random.rounding import round_cast

        return wrap_like(x, round_cast(node(x, "astype"), form, rounding, saturate, bits, key))
    if not isinstance(x, Array) or x.weak:
        return wrap_like(x, convert_for_write(x, form, "astype", "x"))
    value = x.node
    return wrap_like(x, cast(value, form)) if copy or value.dtype != form else x


def copy(a: Any, order: Any = None, subok: bool = False) -> Array:
    """Return a new array with the content of ``a``.

    Returns
    -------
    Array
        With the shape and dtype of ``a``. A Scalar gives a Scalar; ``wf.array(a)`` makes an array that can be written to.

    Raises
    ------
    ValueError, TypeError
        ``order`` is none of NumPy's.

    >>> wf.copy(wf.ones(2)).tolist()
    [1.0, 1.0]
    """
    layout(order, "copy")
    return wrap_like(a, node(a, "copy", "a"))


def scalar_of(dtype: np.dtype, x: Any, imag: Any = None) -> Array:
    """Return a number as a Scalar of the dtype; return an array if ``x`` has dimensions."""
    if imag is not None:
        if dtype.kind != "c":
            raise TypeError(f"{dtype.name}: takes one number, not two; complex64(real, imag) takes two")
        x = asarray(x) + 1j * asarray(imag)
    form = FROM_NUMPY[dtype]
    if is_enabled() and form in FLOATS and is_argument(x, form) and abs(x) <= min(65504, form.reach):
        return wrap(input_leaf((), form, implementations.number(x, form)))
    if x is None or isinstance(x, str | bytes):
        x = array(x, dtype)
    result = astype(x, dtype)
    return result if result.ndim else result[()]


_NUMPY_KINDS = {"float": np.floating, "signed": np.signedinteger, "unsigned": np.unsignedinteger}
_GENERIC = {  # scalar types of ml_dtypes, which are not subclasses of NumPy's kinds -> their kind
    f.numpy.type: _NUMPY_KINDS[f.kind] for f in EVERY.values() if f.numpy.isbuiltin != 1 and f.kind in _NUMPY_KINDS
}


class Kind(type):
    """The metaclass of dtype kinds: ``isinstance(x, wf.integer)`` is True for matching scalars of weft and NumPy."""

    numpy_kind: Any

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Scalar | np.generic) and cls._contains(x.dtype.type)

    def __subclasscheck__(cls, other: Any) -> bool:
        return cls._contains(
            other.numpy_kind if isinstance(other, Kind) else other.dtype.type if isinstance(other, DType) else other
        )

    def _contains(cls, scalar: Any) -> bool:
        """Return whether a scalar class of NumPy belongs to the kind."""
        if scalar in _GENERIC:
            scalar = _GENERIC[scalar]
        return isinstance(scalar, type) and builtins.issubclass(scalar, cls.numpy_kind)


def _kind(name: str, description: str, example: str) -> Any:
    doc = f"""{description}: a kind of dtypes for :func:`issubdtype` and ``isinstance``, not a dtype itself.

    Examples
    --------
    >>> import weft as wf
    >>> wf.issubdtype({example}, wf.{name})
    True
    """
    return Kind(name, (), {"numpy_kind": getattr(np, name), "__doc__": doc, "__module__": __name__})


generic = _kind("generic", "Any dtype", "wf.bool")
number = _kind("number", "Integers and floats", "wf.int8")
integer = _kind("integer", "Integers", "wf.uint8")
signedinteger = _kind("signedinteger", "Integers with a sign", "wf.int8")
unsignedinteger = _kind("unsignedinteger", "Integers without a sign", "wf.uint8")
inexact = _kind("inexact", "Floats and complex numbers", "wf.bfloat16")
floating = _kind("floating", "Floats", "wf.bfloat16")
complexfloating = _kind("complexfloating", "Complex numbers", "wf.complex64")


def _scalar_type(dtype: Any, argument: str) -> Any:
    """Return NumPy's scalar class of anything that names a dtype."""
    if isinstance(dtype, Kind):
        return dtype.numpy_kind
    if isinstance(dtype, type) and builtins.issubclass(dtype, np.generic):
        return dtype
    if dtype is float or dtype is int:
        return np.float64 if dtype is float else np.int64
    if isinstance(dtype, type) and builtins.issubclass(dtype, Array):
        raise DTypeError(
            f"issubdtype: {argument}={dtype.__name__} is the class of numbers of every dtype; use x.dtype instead of type(x)"
        )
    try:
        return parse_any_byte_order(dtype).numpy.type
    except DTypeError:
        try:
            return np.dtype(dtype).type
        except TypeError:
            raise DTypeError(f"issubdtype: {argument}={short(dtype)} is no dtype") from None


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Return whether a dtype equals another one or is of a kind such as ``wf.integer``.

    Parameters
    ----------
    arg1, arg2 : dtype or kind
        Kinds are ``wf.number``, ``wf.integer``, ``wf.floating``, ...

    Raises
    ------
    DTypeError
        An argument is no dtype.

    >>> wf.issubdtype(wf.float32, wf.floating), wf.issubdtype(wf.float32, wf.integer)
    (True, False)
    """
    one, other = _scalar_type(arg1, "arg1"), _scalar_type(arg2, "arg2")
    if one in _GENERIC and other is not one:
        one = _GENERIC[one]
    return builtins.issubclass(one, other)


@unbound
def promote_types(type1: Any, type2: Any) -> np.dtype:
    """Return the dtype that two dtypes promote to.

    Parameters
    ----------
    type1, type2 : dtype

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        An unknown dtype, or two that do not promote.

    >>> wf.promote_types(wf.int8, wf.float16)
    dtype('float16')
    """
    return result_type(parse_any_byte_order(type1).numpy, parse_any_byte_order(type2).numpy)


def min_scalar_type(a: Any) -> np.dtype:
    """Return the smallest dtype that holds a number, or the dtype of an array.

    Parameters
    ----------
    a : number or array

    Raises
    ------
    DTypeError
        No dtype of weft holds the number.

    >>> wf.min_scalar_type(300)
    dtype('uint16')
    """
    if isinstance(a, Array):
        return a.dtype if a.ndim else np.min_scalar_type(a.numpy())
    with name_numpy_errors("min_scalar_type"):
        numpy_dtype = np.min_scalar_type(a)
    return parse_any_byte_order(numpy_dtype).numpy


_LETTERS = "bBhHiIlLqQnNpPefdFD?"  # type codes of weft's dtypes
False_, True_ = np.False_, np.True_
_CODES: dict[str, str] = {str(name): str(letters) for name, letters in vars(np)["typecodes"].items()}
little_endian = sys.byteorder == "little"
ScalarType = (*(t for t in np.ScalarType if t not in (str, bytes, np.object_, np.str_, np.bytes_, np.void)), Scalar)
typecodes = {
    name: "".join(c for c in letters if c in _LETTERS)
    for name, letters in _CODES.items() if any(c in _LETTERS for c in letters)
}
sctypeDict = {  # noqa: N816  NumPy's name
    name: t for name, t in np.sctypeDict.items() if t in {d.type for d in (*ALL, *COMPLEX)} and isinstance(name, str)
}


def typename(char: str) -> str:
    """Return the description of a dtype's type code.

    Parameters
    ----------
    char : str

    Raises
    ------
    KeyError
        An unknown code.

    >>> wf.typename("f")
    'single precision'
    """
    lookup: Any = np.typename
    try:
        return lookup(char)
    except (KeyError, TypeError):
        raise KeyError(f"typename: char={char!r} is no letter of a dtype") from None


def mintypecode(typechars: Any, typeset: Any = "GDFgdf", default: str = "d") -> str:
    """Return the code of the smallest dtype of a set to which all given dtypes can be cast.

    Parameters
    ----------
    typechars : str, or sequence of codes, dtypes and arrays
    typeset : str or sequence of str
    default : str
        The result if no dtype of the set is among ``typechars``.

    Raises
    ------
    DTypeError
        An element has no dtype.

    >>> wf.mintypecode(["d", "f", "D"])
    'D'
    """
    items = as_list(typechars, "mintypecode", "typechars")
    letters = [c if isinstance(c, str) and len(c) == 1 else _type_code(c) for c in items]
    with name_numpy_errors("mintypecode"):
        return np.mintypecode(letters, typeset, default)


def _type_code(item: Any) -> str:
    try:
        return format_of(item).numpy.char
    except DTypeError:
        raise DTypeError(f"mintypecode: typechars holds {item!r}, which is no letter, no dtype and no array") from None


def common_type(*arrays: Any) -> Any:
    """Return the float or complex dtype that holds all arrays; integers count as the default float.

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
        An array holds bools.

    >>> wf.common_type(wf.ones(2, dtype="float16"), wf.ones(2, dtype="float64")) == wf.float64
    True
    """
    import weft

    result = parse_dtype("float16")
    for k, x in enumerate(arrays):
        form = node(x, "common_type", f"arrays[{k}]").dtype
        if form not in INEXACT and form.kind == "bool":
            raise DTypeError(f"common_type: arrays[{k}] is bool, and bools are no numbers; cast with .astype('float32')")
        result = promote(result, form if form in FLOATS or form in PAIRS else DEFAULT.real)
    return getattr(weft, result.name)


__all__ = ["False_", "ScalarType", "True_", "common_type", "little_endian", "mintypecode", "sctypeDict", "typecodes", "typename"]

_STANDARD = tuple(f for f in EVERY.values() if not f.narrow)  # the dtypes of the array API


def __array_namespace_info__() -> Info:  # noqa: N807  the standard's name
    """Return the array API's information about the library.

    Returns
    -------
    Info

    >>> import weft as wf
    >>> wf.__array_namespace_info__().default_device()
    'cpu'
    """
    return Info()


class Info:
    """The array API's information about weft."""

    def capabilities(self) -> dict[str, Any]:
        """Return whether masks are valid indices, whether shapes may depend on values, and the largest number of dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Return the device in use, on which arrays are created."""
        return execute.device().name

    def devices(self) -> tuple[str, ...]:
        """Return all usable devices."""
        return usable()

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """Return the dtypes of arrays that are created without one."""
        _check_device("default_dtypes", device)
        whole = int64.dtype
        real, pair = DEFAULT.real.numpy, DEFAULT.complex.numpy
        return {"real floating": real, "complex floating": pair, "integral": whole, "indexing": whole}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """Return the standard's dtypes by name: all of them, or those of a kind (see ``isdtype``)."""
        _check_device("dtypes", device)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not all(k is None or isinstance(k, str) for k in kinds):
            raise DTypeError(f"dtypes: kind={kind!r} must be the name of a kind, or a tuple of such")
        return {f.name: f.numpy for f in _STANDARD if kind is None or isdtype(f.numpy, kind)}


def _check_device(function: str, device: Any) -> None:
    """Raise an error if the device does not exist. All devices have the same dtypes."""
    try:
        canonical_name("cpu" if device is None else device)
    except ValueError as error:
        raise ValueError(f"{function}: {error}") from None


complete_module(globals())
