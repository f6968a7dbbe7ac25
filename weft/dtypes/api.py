"""The public dtypes (NumPy's, plus bfloat16 and 8-bit floats from ml_dtypes) and their promotion.

Promotion follows NumPy with one difference: where NumPy promotes integers to float64 (``int64 + float32``, ``int32 / int32``,
``sqrt`` of integers), weft uses float32. uint64 with a signed integer is float64, as in NumPy: float32 could represent
neither. Python numbers take the dtype of the array; a Python float with an integer array gives float32. Comparisons use
:func:`compared`: their result is bool, so they can be as exact as NumPy's.

Nothing that becomes no float32 is rounded to it on the way: comparisons of integers with floats are made in float64, means of
integers add up in float64, and Python floats in a list beside float64 are float64 at once.
"""

from __future__ import annotations

import builtins
import math
import operator
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from weft.dtypes import formats
from weft.dtypes.formats import FROM_NUMPY, Format
from weft.dtypes.parse import format_of, parse_any_byte_order, parse_dtype
from weft.dtypes.scalar_types import CLASSES, DType, public_dtype
from weft.errors import DTypeError
from weft.process.docstrings import complete_module

SIGNED, UNSIGNED, FLOATS = (tuple(f.numpy for f in formats.formats_of_kind(kind)) for kind in ("signed", "unsigned", "float"))
INTEGERS = frozenset(SIGNED + UNSIGNED)
COMPLEX = tuple(f.numpy for f in formats.formats_of_kind("complex"))
ALL = tuple(f.numpy for f in formats.FORMATS.values())  # without the complex ones


def _classes(kind: str) -> tuple[DType, ...]:
    return tuple([CLASSES[f] for f in formats.formats_of_kind(kind)])


(bool,) = _classes("bool")  # noqa: A001  the array API's name
int2, int4, int8, int16, int32, int64 = _classes("signed")
uint2, uint4, uint8, uint16, uint32, uint64 = _classes("unsigned")
(
    float4_e2m1fn, float6_e2m3fn, float6_e3m2fn, float8_e8m0fnu, float8_e5m2, float8_e5m2fnuz, float8_e4m3, float8_e4m3fn,
    float8_e4m3fnuz, float8_e4m3b11fnuz, float8_e3m4, float16, bfloat16, float32, float64,
) = _classes("float")
csingle, cdouble = complex64, complex128 = _classes("complex")
bool_, byte, ubyte, short, ushort, half, single, double = bool, int8, uint8, int16, uint16, float16, float32, float64
intc, int_, intp, long, longlong = int32, int64, int64, int64, int64
uintc, uint, uintp, ulong, ulonglong = uint32, uint64, uint64, uint64, uint64
dtype = np.dtype

def float_dtype(
    exponent: int, mantissa: int, bias: int | None = None, *, infinities: builtins.bool = True, nans: Any = True,
    saturate: builtins.bool = False, subnormals: builtins.bool = True,
) -> DType:
    """Return the dtype of floats with a sign, ``exponent`` bits of exponent and ``mantissa`` stored bits of mantissa.

    A number of the exponent bits ``e`` and the mantissa ``f`` is ``(1 + f / 2**mantissa) * 2**(e - bias)``, or with ``e = 0``
    ``f / 2**mantissa * 2**(1 - bias)``. Arrays are stored in 1, 2, 4 or 8 bytes an element, whose low bits are the number's.
    They are computed in float32 where it has all numbers of the dtype, else in float64, and each result is rounded.

    Parameters
    ----------
    exponent, mantissa : int
        Numbers of bits, 64 at most with the sign. Without bits of exponent the numbers are multiples of
        ``2**(1 - bias - mantissa)``, with a sign bit; :func:`fixed_dtype` has them in two's complement.
    bias : int, optional
        By default ``2**(exponent - 1) - 1``, and one more with ``nans="negative zero"``; 1 without bits of exponent.
    infinities : bool
        Whether the highest exponent is that of infinities and NaNs, as in IEEE 754. If not, it is that of numbers.
    nans : bool or "negative zero"
        Without infinities: True: all bits set are NaN. "negative zero": the bits of -0 are NaN. False: there is no NaN, and casts
        of it give -0.
    saturate : bool
        Whether casts of numbers that are too large give the largest number. By default they give infinity, else NaN. A dtype
        with neither always saturates.
    subnormals : bool
        Whether there are numbers between 0 and the smallest one of the exponent 1.

    Returns
    -------
    DType
        Equal arguments give the same object, and those of a dtype of weft give that one.

    Raises
    ------
    DTypeError, TypeError
        Such a dtype cannot be, or float64 does not have all of its numbers; a flag is not a bool.

    Notes
    -----
    The formats and their special values are those of ml_dtypes and of IEEE P3109's interim report.

    Examples
    --------
    >>> import weft as wf
    >>> f = wf.float_dtype(3, 2, infinities=False, nans=False, bias=4)
    >>> wf.array([0.3, 5.2, -100]).astype(f)
    array([  0.3125,   5.    , -14.    ], dtype=float_e3m2b4_finite)
    >>> wf.float_dtype(5, 10) is wf.float16
    True
    """
    exponent, mantissa = (_count("float_dtype", name, x, True) for name, x in (("exponent", exponent), ("mantissa", mantissa)))
    bias = None if bias is None else _count("float_dtype", "bias", bias)
    for flag, name in ((infinities, "infinities"), (saturate, "saturate"), (subnormals, "subnormals")):
        if not isinstance(flag, builtins.bool | np.bool_):
            raise TypeError(f"float_dtype: {name}={flag!r} must be True or False")
    if not isinstance(nans, builtins.bool | np.bool_) and nans != "negative zero":
        raise DTypeError(f"float_dtype: nans={nans!r} must be True, False or 'negative zero'")
    where = f"float_dtype({exponent}, {mantissa})"
    special = "ieee" if infinities else {True: "fn", False: "finite"}.get(nans, "fnuz")
    if infinities and nans is not True:
        raise DTypeError(f"{where}: infinities need NaNs beside them: pass infinities=False with nans={nans!r}")
    if not 1 <= exponent + mantissa <= 63 or exponent > 11:
        raise DTypeError(f"{where}: 1 to 63 bits beside the sign are possible, 11 of them for the exponent")
    if infinities and not (exponent and mantissa):
        raise DTypeError(f"{where}: infinities and NaNs need bits of both: pass infinities=False")
    if special == "fn" and exponent + mantissa < 2:
        raise DTypeError(f"{where}: its only bit would be that of NaN: pass nans=False")
    if not subnormals and not exponent:
        raise DTypeError(f"{where}: without bits of exponent all numbers are subnormal")
    if bias is None:
        bias = (1 << exponent >> 1) - (special != "fnuz") if exponent else 1
    flags = builtins.bool(saturate), builtins.bool(subnormals)
    try:
        return CLASSES[formats.float_format(exponent, mantissa, bias, special, *flags)]
    except ValueError:
        raise DTypeError(f"{where} with bias {bias} has numbers that float64 does not have") from None


def fixed_dtype(bits: int, fraction: int) -> DType:
    """Return the dtype of fixed-point numbers: integers of ``bits`` bits in two's complement, times ``2**-fraction``.

    Casts saturate, and NaN becomes 0. The numbers are computed in float32 up to 24 bits, else in float64.

    Parameters
    ----------
    bits : int
        2 to 53.
    fraction : int
        The number of bits behind the binary point; it may be negative or larger than ``bits``.

    Returns
    -------
    DType
        Equal arguments give the same object.

    Raises
    ------
    DTypeError
        Such a dtype cannot be.

    Notes
    -----
    16 bits with stochastic rounding train networks where 16 bits rounded to nearest do not: S. Gupta et al., Deep learning with
    limited numerical precision, ICML 2015.

    Examples
    --------
    >>> import weft as wf
    >>> wf.array([0.3, -1.26, 100]).astype(wf.fixed_dtype(8, fraction=4))
    array([ 0.3125, -1.25  ,  7.9375], dtype=fixed8_4)
    """
    bits, fraction = _count("fixed_dtype", "bits", bits), _count("fixed_dtype", "fraction", fraction)
    if not 2 <= bits <= 53 or not -100 <= fraction <= 140:
        raise DTypeError(f"fixed_dtype: bits={bits} must be from 2 to 53, and fraction={fraction} from -100 to 140")
    return CLASSES[formats.fixed_format(bits, fraction)]


def _count(function: str, name: str, value: Any, is_natural: builtins.bool = False) -> builtins.int:
    """Return an argument that must be an integer of Python or NumPy; a bool is none."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, builtins.bool) or is_natural and number < 0:
        raise DTypeError(f"{function}: {name} must be an integer{' from 0 on' * is_natural}, not {value!r}")
    return number


def find_made_dtype(name: str) -> DType | None:
    """Return the dtype that a name describes, if it is that of a user's dtype."""
    try:
        return CLASSES[formats.named(name)]
    except (KeyError, ValueError):
        return None


def as_dtype(dtype: Any) -> np.dtype:
    """Return the ``numpy.dtype`` of anything that names a dtype of weft.

    Parameters
    ----------
    dtype : dtype, scalar type, name or Python type
        Python's types and their names mean the dtypes of Python's numbers: ``float`` and ``"float"`` are float32, ``int`` is
        int64. float64 has to be named.

    Raises
    ------
    DTypeError
        An argument is no dtype, or one that weft does not have.

    >>> from weft.dtypes import as_dtype
    >>> as_dtype("bfloat16"), as_dtype(float)
    (dtype(bfloat16), dtype('float32'))
    """
    return parse_dtype(dtype).numpy


def is_float(dtype: np.dtype) -> Any:
    """Return whether ``dtype`` is a float dtype, including ml_dtypes' (NumPy gives bfloat16 the kind "V").

    Parameters
    ----------
    dtype : numpy.dtype

    Returns
    -------
    bool
    """
    return FROM_NUMPY.get(getattr(dtype, "cell", dtype)) in formats.FLOATS


def is_integer(dtype: np.dtype) -> Any:
    """Return whether ``dtype`` is an integer dtype in either byte order, including ml_dtypes'.

    Parameters
    ----------
    dtype : numpy.dtype

    Returns
    -------
    bool
    """
    return dtype.kind in "iu" or FROM_NUMPY.get(dtype) in formats.INTEGERS


def is_real(dtype: np.dtype) -> Any:
    """Return whether ``dtype`` is a bool, integer or float dtype in either byte order, including ml_dtypes'."""
    return dtype.kind in "biuf" or is_integer(dtype) or is_float(dtype)


def is_inexact(dtype: np.dtype) -> Any:
    """Return whether ``dtype`` is a float or complex dtype, which derivatives need."""
    return is_float(dtype) or dtype in COMPLEX


def promote(a: np.dtype, b: np.dtype) -> np.dtype:
    """Return the dtype that ``a`` and ``b`` promote to.

    Parameters
    ----------
    a, b : dtype

    >>> from weft.dtypes import int64, float32, promote
    >>> promote(int64, float32)
    dtype('float32')
    """
    return public_dtype(formats.promote(parse_any_byte_order(a), parse_any_byte_order(b)))


def compared(a: np.dtype, b: np.dtype) -> np.dtype:
    """Return the dtype in which ``a`` and ``b`` are compared: float64 for integers of more than 16 bits with floats, as in NumPy.

    Parameters
    ----------
    a, b : dtype
    """
    return public_dtype(formats.compared(parse_any_byte_order(a), parse_any_byte_order(b)))


def weak_compared(kind: type, dtype: np.dtype) -> np.dtype:
    """Return the dtype in which a Python number of type ``kind`` is compared with an array of ``dtype``.

    Parameters
    ----------
    kind : bool, int, float or complex
    """
    return public_dtype(formats.weak_compared(kind, parse_dtype(dtype)))


def same_kind(source: np.dtype, target: np.dtype) -> Any:
    """Return whether ``out=`` and in-place operations may write ``source`` into ``target``.

    The order of kinds is bool < unsigned < signed < float < complex.

    Parameters
    ----------
    source, target : numpy.dtype

    Returns
    -------
    bool

    Raises
    ------
    DTypeError
        An argument is no dtype, or one that weft does not have.
    """
    return formats.same_kind(parse_dtype(source), parse_dtype(target))


def weak(kind: type, dtype: np.dtype) -> np.dtype:
    """Return the dtype of an operation of a Python number of type ``kind`` with an array of ``dtype``.

    Parameters
    ----------
    kind : bool, int, float or complex
    """
    return public_dtype(formats.weak(kind, parse_dtype(dtype)))


def floating(dtype: np.dtype) -> np.dtype:
    """Return the dtype of true division, means and roots: ``dtype`` itself if it is float or complex, else the default float."""
    return public_dtype(formats.floating(parse_dtype(dtype)))


def summed(dtype: np.dtype) -> np.dtype:
    """Return the dtype of a sum or product: int64 or uint64 for integers and bool, as in NumPy, else ``dtype`` itself."""
    return public_dtype(formats.summed(parse_dtype(dtype)))


def result_type(*operands: Any) -> np.dtype:
    """Return the dtype that arrays, dtypes and Python numbers promote to.

    Parameters
    ----------
    operands : arrays, dtypes and Python numbers

    Raises
    ------
    DTypeError
        There is no operand, or a dtype is unknown.

    >>> wf.result_type(wf.int32, 2.0)
    dtype('float32')
    """
    result: Format | None = None
    numbers = [x for x in operands if type(x) in _PYTHON]
    for x in operands:
        if type(x) in _PYTHON:
            continue
        form = format_of(x)
        result = form if result is None else formats.promote(result, form)
    for x in numbers:
        result = parse_dtype(type(x)) if result is None else formats.weak(type(x), result)
    if result is None:
        raise DTypeError("result_type needs at least one array, dtype or number")
    return public_dtype(result)


_PYTHON = (int, float, builtins.bool, complex)


def can_cast(from_: Any, to: Any, casting: str | None = None) -> Any:
    """Return whether promotion converts ``from_`` to ``to`` (the array API's rule).

    Small floats that do not promote to each other are cast if ``to`` has every number of ``from_``.

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

    >>> wf.can_cast(wf.int8, wf.int32), wf.can_cast(wf.float32, wf.int32)
    (True, False)
    """
    source, target = format_of(from_), parse_any_byte_order(to)
    if casting is not None:
        if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
            raise ValueError(f"can_cast: casting={casting!r} must be 'no', 'equiv', 'safe', 'same_kind' or 'unsafe'")
        if formats.BFLOAT16 in (source, target) or source.custom or target.custom:  # NumPy does not know them
            wider = {"safe": formats.holds(target, source), "same_kind": formats.same_kind(source, target)}
            return casting == "unsafe" or source is target or wider.get(casting, False)
        return builtins.bool(np.can_cast(source.numpy, target.numpy, casting))  # type: ignore[arg-type]
    try:
        return formats.promote(source, target) is target
    except DTypeError:  # small floats do not promote to others
        return formats.holds(target, source)


_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",), "signed integer": ("signed",), "unsigned integer": ("unsigned",), "integral": ("signed", "unsigned"),
    "real floating": ("float",), "complex floating": ("complex",), "numeric": ("signed", "unsigned", "float", "complex"),
}


def isdtype(dtype: Any, kind: Any) -> Any:
    """Return whether ``dtype`` is of a kind.

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

    >>> wf.isdtype(wf.bfloat16, "real floating")
    True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    form = parse_any_byte_order(dtype)
    if isinstance(kind, str) and kind in _KINDS:
        return form.kind in _KINDS[kind]
    if isinstance(kind, str) and kind not in formats.EVERY:
        raise DTypeError(f"isdtype: unknown kind {kind!r}; known are {', '.join(map(repr, _KINDS))}")
    return form is parse_any_byte_order(kind)


def finfo(dtype: Any) -> Any:
    """Return the limits of a float dtype (bits, eps, max, min, smallest_normal), including ml_dtypes'.

    Parameters
    ----------
    dtype : float or complex dtype, or an array or a number of one
        For a complex dtype, the limits of its parts are returned.

    Returns
    -------
    Limits
        Its numbers are Python's; it has all attributes of NumPy's ``finfo``.

    Raises
    ------
    DTypeError
        ``dtype`` is no float or complex dtype.

    >>> float(wf.finfo(wf.float32).eps)
    1.1920928955078125e-07
    """
    form = format_of(type(dtype) if type(dtype) in _PYTHON else dtype)
    if form not in formats.INEXACT:
        raise DTypeError(f"finfo: {form.name} is not a float dtype; use iinfo")
    return Limits(form.part.numpy)


def _limits(form: Format) -> SimpleNamespace:
    """Return the limits of a user's format under the names of NumPy's finfo."""
    unit, tiny, fixed = 2.0**-form.mantissa, form.smallest_normal, form.special == "fixed"
    if fixed:
        unit = tiny = tiny * unit
    precision = int(form.mantissa * math.log10(2))
    return SimpleNamespace(
        bits=form.bits, eps=unit, epsneg=unit if fixed else unit / 2, max=form.largest, min=form.lowest, nmant=form.mantissa,
        nexp=form.exponent, iexp=form.exponent, machep=math.frexp(unit)[1] - 1, negep=math.frexp(unit)[1] - 1 - (not fixed),
        minexp=math.frexp(tiny)[1] - 1, maxexp=math.frexp(form.largest)[1], precision=precision, resolution=10.0**-precision,
        smallest_normal=tiny, tiny=tiny, smallest_subnormal=tiny * unit if form.subnormals and not fixed else tiny,
    )


class Limits:
    """The limits of a float dtype: the result of :func:`finfo`.

    Parameters
    ----------
    dtype : numpy.dtype
        A float dtype.

    >>> limits = wf.finfo(wf.bfloat16)
    >>> limits.bits, limits.max > 3e38, limits.dtype
    (16, True, dtype(bfloat16))
    """

    def __init__(self, dtype: np.dtype) -> None:
        form = FROM_NUMPY[dtype]
        self.dtype = public_dtype(form)
        self._found: Any = np.finfo(dtype) if dtype.isbuiltin == 1 else _limits(form) if form.custom else ml_dtypes.finfo(dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._found, name)
        return float(value) if hasattr(value, "dtype") else value

    def __repr__(self) -> str:
        return f"finfo(min={self.min}, max={self.max}, eps={self.eps}, dtype={self.dtype.name})"


def iinfo(dtype: Any) -> np.iinfo:
    """Return the limits of an integer dtype (bits, max, min).

    Parameters
    ----------
    dtype : integer dtype, or an array or a number of one

    Raises
    ------
    DTypeError
        ``dtype`` is no integer dtype.

    >>> wf.iinfo(wf.int8).max
    127
    """
    form = format_of(type(dtype) if type(dtype) in _PYTHON else dtype)
    if form not in formats.INTEGERS:
        raise DTypeError(f"iinfo: {form.name} is not an integer dtype; use finfo")
    return ml_dtypes.iinfo(form.numpy) if form.narrow else np.iinfo(form.numpy)  # type: ignore[return-value]


complete_module(globals(), (is_float, is_inexact), (as_dtype, promote, compared, weak_compared, weak, floating, summed))
