"""Casts of float32 and float64 to smaller floats in every rounding mode, and back, as one formula on integers.

With ``M`` stored mantissa bits of the target, and ``F`` of the source::

    s    = the bits of |x|, less the difference of the two biases; the significand if x is below the target's normal numbers
    drop = F - M, plus the distance of x's exponent from that of the smallest normal number if x is below it
    code = (s + addend(mode, drop, sign, word)) >> drop

A carry then goes where it must: into the exponent, and from the largest subnormal number to the smallest normal one. Only
integers are used, so flushing of denormals changes nothing. The formula is written once, for any arithmetic: NumPy's here, those
of LLVM and of Triton with the devices. Stochastic rounding adds as many random bits as it cuts off.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.dtypes.formats import FLOAT64, FROM_NUMPY, Format

MODES = {  # the names in user code, and in the names of machine operations
    "nearest": "nearest", "nearest away": "away_ties", "toward zero": "zero", "away from zero": "away", "up": "up",
    "down": "down", "stochastic": "stochastic",
}
DIRECTED = tuple(mode for mode in MODES.values() if mode not in ("nearest", "stochastic"))


class Accumulator(NamedTuple):
    """How a product adds up: its sum is rounded to ``form``, to nearest, once for every ``every`` products.

    1: each product is added in float32 and the result is rounded, total = round(fma(a, b, total)). More: as many products are
    added in float32 from 0 on, then total = round(total + sum). The last sum may have fewer. Products come in ascending order.
    """

    form: Format
    every: int = 1

    def __str__(self) -> str:
        return f"in {self.form}" + (f" every {self.every}" if self.every > 1 else "")


def encode(b: Any, bits: Any, form: Format, mode: str = "nearest", word: Any = None) -> Any:
    """Return the bits of numbers rounded to ``form``.

    b : the arithmetic on unsigned integers of the size of the source format ``b.form``
    bits : the bits of the numbers in the source format, which has all numbers of ``form``
    mode : one of the values of ``MODES``
    word : for "stochastic", 32 random bits for each number, as integers of the arithmetic
    """
    digits, size_bits, digit = b.form.mantissa, b.form.bits, form.mantissa
    size = b.i("and", bits, (1 << size_bits - 1) - 1)
    infinite = ((1 << b.form.exponent) - 1) << digits
    negative = b.i("lshr", bits, size_bits - 1)
    s, drop, below = size, b.c(digits - digit), None
    if form.special == "scale":  # the smallest number, 2**-127, is subnormal in float32
        if form.bias == b.form.bias:
            s = b.where("ult", size, 1 << digits, b.i("sub", b.i("shl", size, 1), 1 << digits), size)
            s = b.where("ult", size, 1 << digits - 1, 0, s)
        else:
            least = b.form.bias - form.bias << digits
            s = b.where("ult", size, least, 0, b.i("sub", size, least))
    elif form.bias == b.form.bias and not form.subnormals:
        below = b.where("ult", size, 1 << digits, 1, 0)
        drop = b.where("eq", below, 0, digits - digit, digits)
    elif form.bias != b.form.bias:
        least = b.form.bias + 1 - form.bias  # the exponent field of the smallest normal number
        first = digits - digit + (0 if form.subnormals else digit)
        field = b.i("lshr", size, digits)
        below = b.where("ult", field, least, b.i("sub", b.c(least), field), 0)
        small = b.where("ult", below, size_bits - 1 - first, below, size_bits - 1 - first)
        drop = b.i("add", small, first)
        if not form.subnormals:
            drop = b.where("eq", below, 0, digits - digit, drop)
        significand = b.i("or", b.i("and", size, (1 << digits) - 1), 1 << digits)
        if mode in ("away", "up", "down", "stochastic"):
            significand = b.where("eq", field, 0, size, significand)  # 0 has no leading one
        if mode == "stochastic":
            far = b.where("ugt", below, size_bits - 1 - first, b.i("sub", below, size_bits - 1 - first), 0)
            significand = b.i("lshr", significand, b.where("ult", far, size_bits - 1, far, size_bits - 1))
        s = b.where("ult", size, least << digits, significand, b.i("sub", size, b.form.bias - form.bias << digits))
    code = s if mode == "zero" else b.i("add", s, _addend(b, form, mode, s, drop, negative, word))
    code = b.i("lshr", code, drop)
    if below is not None and not form.subnormals:
        code = b.where("eq", below, 0, code, b.i("shl", code, digit))
    top, nan = form.top, form.nan
    if form.special == "fixed":  # there is one more negative number
        top = b.i("add", negative, top)
    over = top if form.overflow == form.largest else top + 1 if form.special == "ieee" else nan
    beyond: Any = over if mode not in ("zero", "up", "down") else top
    if mode in ("up", "down"):
        beyond = b.where("eq", negative, int(mode == "up"), top, over)
    code = b.where("ugt", code, top, beyond, code)  # "fixed": top and beyond depend on the sign
    if mode in ("zero", "up", "down"):
        code = b.where("eq", size, infinite, over, code)  # infinity stays infinite
    if form.special == "scale":
        code = b.where("eq", size, 0, nan, b.where("eq", negative, 0, code, nan))
        return b.where("ugt", size, infinite, nan, code)
    sign = b.i("shl", negative, form.exponent + digit)
    if form.special == "fnuz":
        code = b.where("eq", code, 0, 0, b.where("eq", code, nan, nan, b.i("or", code, sign)))
        return b.where("ugt", size, infinite, nan, code)
    if form.special == "fixed":
        code = b.where("eq", negative, 0, code, b.i("and", b.i("sub", b.c(0), code), (1 << form.bits) - 1))
    if form.special in ("finite", "fixed"):
        return b.where("ugt", size, infinite, nan, b.i("or", code, sign) if form.special == "finite" else code)
    return b.i("or", b.where("ugt", size, infinite, nan, code), sign)


def _addend(b: Any, form: Format, mode: str, s: Any, drop: Any, negative: Any, word: Any) -> Any:
    """Return the number that is added before the last ``drop`` bits are cut off."""
    if mode == "stochastic":
        if b.form.bits == 32:
            return b.i("lshr", word, b.i("sub", b.c(32), drop))
        narrow = b.where("ult", drop, 32, b.i("sub", b.c(32), drop), 0)
        return b.i("lshr", b.i("shl", word, b.where("ugt", drop, 32, b.i("sub", drop, 32), 0)), narrow)
    one = b.i("shl", b.c(1), drop)
    rest = b.i("sub", one, 1)
    if mode == "away_ties" or mode == "nearest" and form.special == "scale":  # no number of one digit is even
        return b.i("lshr", one, 1)
    if mode == "nearest":
        return b.i("add", b.i("lshr", rest, 1), b.i("and", b.i("lshr", s, drop), 1))
    return rest if mode == "away" else b.where("eq", negative, int(mode == "down"), rest, 0)


def decode(b: Any, code: Any, form: Format) -> Any:
    """Return the bits of numbers in the format ``b.form``, given their bits in ``form``. It holds them exactly."""
    digits, digit = b.form.mantissa, form.mantissa
    infinite, quiet = ((1 << b.form.exponent) - 1) << digits, 1 << digits - 1
    if form.special == "scale":
        bits = b.i("shl", b.i("add", code, b.form.bias - form.bias), digits)
        bits = b.where("eq", code, 0, quiet, bits) if form.bias == b.form.bias else bits
        return b.where("eq", code, form.nan, infinite | quiet, bits)
    places = form.exponent + digit
    if form.special == "fixed":
        negative = b.i("lshr", b.i("and", code, 1 << places), places)
        size = b.where("eq", negative, 0, code, b.i("sub", b.c(1 << form.bits), code))
        return b.i("or", b.count(size, 1 - form.bias - digit), b.i("shl", negative, b.form.bits - 1))
    size = b.i("and", code, (1 << places) - 1)
    sign = b.i("shl", b.i("lshr", code, places), b.form.bits - 1)
    bits = b.i("shl", size, digits - digit)
    if form.bias != b.form.bias:
        normal = b.i("add", bits, b.form.bias - form.bias << digits)
        bits = b.where("ult", size, 1 << digit, b.count(size, 1 - form.bias - digit) if form.subnormals else 0, normal)
        if form.special == "ieee":
            bits = b.where("ugt", size, form.top, b.i("or", b.i("shl", size, digits - digit), infinite), bits)
    elif not form.subnormals:
        bits = b.where("ult", size, 1 << digit, 0, bits)
    if form.special == "fn":
        bits = b.where("eq", size, form.nan, infinite | quiet, bits)
    bits = b.i("or", bits, sign)
    return b.where("eq", code, form.nan, infinite | quiet | 1 << b.form.bits - 1, bits) if form.special == "fnuz" else bits


class ArrayBits:
    """NumPy's arithmetic on unsigned integers of the size of ``form``, float32 or float64."""

    def __init__(self, form: Format) -> None:
        self.form, self._type = form, np.dtype(f"u{form.bytes}").type
        self._words = {
            "and": np.bitwise_and, "or": np.bitwise_or, "add": np.add, "sub": np.subtract, "shl": np.left_shift,
            "lshr": np.right_shift,
        }
        self._comparisons = {"eq": np.equal, "ult": np.less, "ugt": np.greater}

    def c(self, x: Any) -> Any:
        return self._type(x) if isinstance(x, int) else x

    def i(self, word: str, a: Any, b: Any) -> Any:
        with np.errstate(over="ignore"):
            return self._words[word](a, self.c(b))

    def where(self, word: str, a: Any, b: Any, then: Any, other: Any) -> Any:
        return np.where(self._comparisons[word](a, self.c(b)), self.c(then), self.c(other))

    def count(self, x: Any, exponent: int) -> Any:
        return (x.astype(self.form.numpy) * self.form.numpy.type(2.0**exponent)).view(self._type)


def round_array(x: np.ndarray, form: Format, mode: str = "nearest", words: np.ndarray | None = None) -> np.ndarray:
    """Return float32 or float64 numbers rounded to ``form``, in its NumPy dtype. words : see :func:`encode`"""
    b = ArrayBits(FLOAT64 if x.dtype == FLOAT64.numpy else form.computed)
    x = np.ascontiguousarray(x, b.form.numpy).reshape(x.shape)
    unsigned = np.dtype(f"u{b.form.bytes}")
    codes = encode(b, x.view(unsigned), form, mode, None if words is None else words.astype(unsigned))
    return np.asarray(codes).astype(f"u{form.bytes}").view(form.numpy)


def round_float32(x: np.ndarray, form: Format) -> np.ndarray:
    """Return float32 numbers rounded to ``form``, to nearest, as float32."""
    return convert_array(convert_array(x, form.numpy), np.dtype(np.float32))


def decode_array(x: np.ndarray) -> np.ndarray:
    """Return the numbers of an array of a user's format, as float32 or float64."""
    form = FROM_NUMPY[x.dtype]
    b = ArrayBits(form.computed)
    codes = np.ascontiguousarray(x).view(f"u{form.bytes}").astype(f"u{b.form.bytes}").reshape(x.shape)
    return np.asarray(decode(b, codes, form)).view(b.form.numpy)


def convert_array(x: np.ndarray, to: np.dtype) -> np.ndarray:
    """Convert like NumPy's astype, with two corrections.

    float64 is rounded once to formats of ml_dtypes, whose conversion rounds to float32 first. All floats give the same
    integers for values that an integer format cannot hold.
    """
    if x.dtype == to:
        return x.astype(to)
    if x.dtype.names is not None:
        x = decode_array(x)
    source, target = FROM_NUMPY.get(x.dtype), FROM_NUMPY.get(to)
    if source is not None and source.narrow and source.kind != "float":  # integers of 2 and 4 bits
        x = x.astype(source.computed.numpy)
    if target is not None and target.narrow and target.kind != "float":
        return convert_array(x, target.computed.numpy).astype(to)
    if x.dtype.isbuiltin != 1 and to.kind in "iu":
        x = x.astype(np.float32)
    if to.isbuiltin == 1:
        return x.astype(to)
    form = FROM_NUMPY[to]
    if x.dtype.isbuiltin != 1:
        x = x.astype(np.float32)
    x = x.astype(np.float64 if x.dtype.kind in "iu" and x.dtype.itemsize > 2 else np.float32) if x.dtype.kind in "biu" else x
    if x.dtype == FLOAT64.numpy or form.custom or form.special in ("finite", "scale"):  # ml_dtypes rounds these differently
        return round_array(x, form)
    return x.astype(to)


def in_dtype(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert an array if it has another dtype."""
    return x if x.dtype == dtype else convert_array(x, dtype)


def scalar(value: Any, form: Format) -> Any:
    """Convert a Python number to a NumPy scalar, rounded once. NaN loses its sign, which printed kernels cannot show."""
    if form.custom:
        return convert_array(np.asarray(float(value)), form.numpy)[()]
    if form.narrow and form.kind != "float":
        if not form.least <= value <= form.greatest:
            raise OverflowError(f"Python integer {value} out of bounds for {form}")
        return convert_array(np.asarray(int(value)), form.numpy)[()]
    if form.narrow and form.numpy.isbuiltin != 1 and type(value) is not bool:
        rounded = convert_array(np.asarray(float(value)), form.numpy)[()]
        return rounded if rounded == rounded else form.numpy.type(np.nan)
    return form.numpy.type(value)


def rounded_number(value: Any, form: Format) -> Any:
    """Return a Python number rounded to a format, as a Python number."""
    rounded = scalar(value, form)
    return decode_array(np.asarray(rounded)).item() if form.custom else rounded.item()


def array_in(value: Any, form: Format) -> np.ndarray:
    """Return numbers as a NumPy array in the memory of a format."""
    if form.custom and getattr(value, "dtype", None) != form.numpy:
        return convert_array(np.asarray(value, np.float64), form.numpy)
    return np.asarray(value, form.numpy)
