"""The dtypes as users see them: NumPy's own objects, plus bfloat16 and 8-bit floats from ml_dtypes; how they mix.

Arrays mix as NumPy's do, with one difference: where NumPy makes floats out of integers (``int64 + float32``,
``int32 / int32``, ``sqrt`` of integers) weft makes float32. uint64 with a signed integer is float64, as in NumPy:
float32 could hold neither. Python numbers take the dtype of the array they meet; a Python float that meets integers
makes float32. Comparisons ask :func:`compared`: their result is bool, so they may be as exact as NumPy's.
"""

from __future__ import annotations

import builtins
from typing import Any

import ml_dtypes
import numpy as np

from weft.dtypes import formats
from weft.dtypes.formats import FROM_NUMPY, Format
from weft.dtypes.parse import format_of, of_any_order, spelled
from weft.dtypes.scalar_types import CLASSES, DType
from weft.errors import DTypeError

SIGNED, UNSIGNED, FLOATS = (tuple(f.numpy for f in formats.of_kind(kind)) for kind in ("signed", "unsigned", "float"))
INTEGERS = frozenset(SIGNED + UNSIGNED)
COMPLEX = tuple(f.numpy for f in formats.of_kind("complex"))
ALL = tuple(f.numpy for f in formats.FORMATS.values())  # but for the complex ones


def _classes(kind: str) -> tuple[DType, ...]:
    return tuple([CLASSES[f] for f in formats.of_kind(kind)])


(bool,) = _classes("bool")  # noqa: A001  the array API's name
int8, int16, int32, int64 = _classes("signed")
uint8, uint16, uint32, uint64 = _classes("unsigned")
float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64 = _classes("float")
csingle, cdouble = complex64, complex128 = _classes("complex")
bool_, byte, ubyte, short, ushort, half, single, double = bool, int8, uint8, int16, uint16, float16, float32, float64
intc, int_, intp, long, longlong = int32, int64, int64, int64, int64
uintc, uint, uintp, ulong, ulonglong = uint32, uint64, uint64, uint64, uint64
dtype = np.dtype

_NAMES = tuple(formats.EVERY)


def as_dtype(dtype: Any) -> np.dtype:
    """What the user wrote as a ``numpy.dtype`` that weft has.

    Parameters
    ----------
    dtype : dtype, scalar type, name or Python type
        Python's types, and their names, mean what Python's numbers become: ``float`` and ``"float"`` are float32, ``int`` is
        int64. float64 is asked for by its own name.

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        No dtype, or one that weft does not have.

    Examples
    --------
    >>> from weft.dtypes import as_dtype
    >>> as_dtype("bfloat16"), as_dtype(float)
    (dtype(bfloat16), dtype('float32'))
    """
    return spelled(dtype).numpy


def is_float(dtype: np.dtype) -> Any:
    """Whether ``dtype`` is one of the float dtypes (NumPy calls bfloat16 a void, so ``kind`` does not tell).

    Parameters
    ----------
    dtype : numpy.dtype

    Returns
    -------
    bool
    """
    return dtype in FLOATS


def is_inexact(dtype: np.dtype) -> Any:
    """Whether ``dtype`` is a float or a complex one: what derivatives are taken by.

    Parameters
    ----------
    dtype : numpy.dtype

    Returns
    -------
    bool
    """
    return dtype in FLOATS or dtype in COMPLEX


def promote(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype of ``a`` and ``b`` together.

    Parameters
    ----------
    a, b : dtype

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        As :func:`as_dtype`.

    Examples
    --------
    >>> from weft.dtypes import int64, float32, promote
    >>> promote(int64, float32)
    dtype('float32')
    """
    return formats.promote(of_any_order(a), of_any_order(b)).numpy


def compared(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype in which ``a`` and ``b`` are compared: float64 for integers of more than 16 bits with floats, as in NumPy.

    Parameters
    ----------
    a, b : dtype

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        As :func:`as_dtype`.
    """
    return formats.compared(of_any_order(a), of_any_order(b)).numpy


def weak_compared(kind: type, dtype: np.dtype) -> np.dtype:
    """The dtype in which a Python number of type ``kind`` is compared with an array of ``dtype``.

    Parameters
    ----------
    kind : bool, int, float or complex
    dtype : numpy.dtype

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        As :func:`as_dtype`.
    """
    return formats.weak_compared(kind, spelled(dtype)).numpy


def same_kind(source: np.dtype, target: np.dtype) -> Any:
    """Whether ``source`` may be written into ``target``, by ``out=`` and in place: bool < unsigned < signed < float < complex.

    Parameters
    ----------
    source, target : numpy.dtype

    Returns
    -------
    bool

    Raises
    ------
    DTypeError
        As :func:`as_dtype`.
    """
    return formats.same_kind(spelled(source), spelled(target))


def weak(kind: type, dtype: np.dtype) -> np.dtype:
    """The dtype of a Python number of type ``kind`` with an array of ``dtype``.

    Parameters
    ----------
    kind : bool, int, float or complex
    dtype : numpy.dtype

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        As :func:`as_dtype`.
    """
    return formats.weak(kind, spelled(dtype)).numpy


def floating(dtype: np.dtype) -> np.dtype:
    """What true division, means and roots of ``dtype`` give: itself for floats and complex numbers, float32 for the rest.

    Parameters
    ----------
    dtype : numpy.dtype

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        As :func:`as_dtype`.
    """
    return formats.floating(spelled(dtype)).numpy


def summed(dtype: np.dtype) -> np.dtype:
    """What a sum or product of ``dtype`` gives: NumPy's int64 and uint64 for smaller integers and bool.

    Parameters
    ----------
    dtype : numpy.dtype

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        As :func:`as_dtype`.
    """
    return formats.summed(spelled(dtype)).numpy


def result_type(*operands: Any) -> np.dtype:
    """The dtype that arrays, dtypes and Python numbers have together.

    Parameters
    ----------
    operands : arrays, dtypes and Python numbers

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        No operand at all, or an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.result_type(wf.int32, 2.0)
    dtype('float32')
    """
    found: Format | None = None
    numbers = [x for x in operands if type(x) in _PYTHON]
    for x in operands:
        if type(x) in _PYTHON:
            continue
        own = format_of(x)
        found = own if found is None else formats.promote(found, own)
    for x in numbers:
        found = spelled(type(x)) if found is None else formats.weak(type(x), found)
    if found is None:
        raise DTypeError("result_type needs at least one array, dtype or number")
    return found.numpy


_PYTHON = (int, float, builtins.bool, complex)


def can_cast(from_: Any, to: Any, casting: str | None = None) -> Any:
    """Whether values of ``from_`` may become ``to`` by promotion (the array API's rule).

    Parameters
    ----------
    from_ : dtype or array
    to : dtype
    casting : str, optional
        One of NumPy's rules instead: "no", "equiv", "safe", "same_kind" or "unsafe".

    Returns
    -------
    bool

    Raises
    ------
    DTypeError, ValueError
        An unknown dtype; an unknown rule.

    Examples
    --------
    >>> import weft as wf
    >>> wf.can_cast(wf.int8, wf.int32), wf.can_cast(wf.float32, wf.int32)
    (True, False)
    """
    source, target = format_of(from_).numpy, of_any_order(to).numpy
    if casting is not None:
        if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
            raise ValueError(f"can_cast: casting={casting!r} must be 'no', 'equiv', 'safe', 'same_kind' or 'unsafe'")
        if builtins.bool({source, target} & {bfloat16.dtype}):
            wider = casting in ("safe", "same_kind") and promote(source, target) == target
            return casting == "unsafe" or source == target or wider
        return builtins.bool(np.can_cast(source, target, casting))  # type: ignore[arg-type]
    try:
        return promote(source, target) == target
    except DTypeError:  # 8-bit floats do not promote to others
        return False


_KINDS: dict[str, tuple[np.dtype, ...]] = {
    "bool": (bool.dtype,), "signed integer": SIGNED, "unsigned integer": UNSIGNED, "integral": SIGNED + UNSIGNED,
    "real floating": FLOATS, "complex floating": COMPLEX, "numeric": SIGNED + UNSIGNED + FLOATS + COMPLEX,
}


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether ``dtype`` is of a kind.

    Parameters
    ----------
    dtype : dtype
    kind : str, dtype, or tuple of these
        A name of the array API: "bool", "signed integer", "unsigned integer", "integral", "real floating",
        "complex floating", "numeric".

    Returns
    -------
    bool

    Raises
    ------
    DTypeError
        An unknown kind or dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.isdtype(wf.bfloat16, "real floating")
    True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    found = of_any_order(dtype).numpy
    if isinstance(kind, str) and kind in _KINDS:
        return found in _KINDS[kind]
    if isinstance(kind, str) and kind not in _NAMES:
        raise DTypeError(f"isdtype: unknown kind {kind!r}; known are {', '.join(map(repr, _KINDS))}")
    return found == of_any_order(kind).numpy


def finfo(dtype: Any) -> Any:
    """Limits of a float dtype (bits, eps, max, min, smallest_normal), also of ml_dtypes'; of a complex one those of its parts.

    Parameters
    ----------
    dtype : float or complex dtype, or an array or a number of one

    Returns
    -------
    Limits
        Its numbers are Python's; what else NumPy's ``finfo`` has, it has too.

    Raises
    ------
    DTypeError
        No float or complex dtype.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.finfo(wf.float32).eps)
    1.1920928955078125e-07
    """
    found = format_of(type(dtype) if type(dtype) in _PYTHON else dtype).numpy
    if not is_inexact(found):
        raise DTypeError(f"finfo: {found.name} is not a float dtype; use iinfo")
    return Limits(FROM_NUMPY[found].part.numpy)


class Limits:
    """What :func:`finfo` gives.

    Parameters
    ----------
    dtype : numpy.dtype
        A float one.

    Examples
    --------
    >>> import weft as wf
    >>> limits = wf.finfo(wf.bfloat16)
    >>> limits.bits, limits.max > 3e38, limits.dtype
    (16, True, dtype(bfloat16))
    """

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        self._found: Any = np.finfo(dtype) if dtype.isbuiltin == 1 else ml_dtypes.finfo(dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._found, name)
        return float(found) if hasattr(found, "dtype") else found

    def __repr__(self) -> str:
        return f"finfo(min={self.min}, max={self.max}, eps={self.eps}, dtype={self.dtype.name})"


def iinfo(dtype: Any) -> np.iinfo:
    """Limits of an integer dtype (bits, max, min).

    Parameters
    ----------
    dtype : integer dtype, or an array or a number of one

    Returns
    -------
    numpy.iinfo

    Raises
    ------
    DTypeError
        No integer dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.iinfo(wf.int8).max
    127
    """
    found = format_of(type(dtype) if type(dtype) in _PYTHON else dtype).numpy
    if found not in SIGNED + UNSIGNED:
        raise DTypeError(f"iinfo: {found.name} is not an integer dtype; use finfo")
    return np.iinfo(found)
