"""Formulas of element-wise primitives in machine operations (``weft.kernel.ir.MACHINE_OPERATIONS``).

A formula is ``f(m, *values) -> value``: ``m`` has a method for each machine operation, ``m.const(number, like)`` and
``m.cast(x, dtype)``; each value has ``.dtype``. ``and``, ``or`` and ``not`` are Python keywords, hence getattr. Formulas get
float32 in place of float16 and bfloat16: :func:`compute_widened` casts around them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, FLOAT32, FLOAT64, FLOATS, INT64, UINT32, Format
from weft.graph.primitives.kinds import SIGNED

Formula = Callable[..., Any]


def compute_widened(formula: Formula) -> Formula:
    """Return a formula that computes storage-only formats in their register format and rounds the result once."""
    if formula is identity:
        return identity  # computes nothing

    def outer(m: Any, *values: Any, **params: Any) -> Any:
        narrow = next((v.dtype for v in values if v.dtype.narrow), None)
        if narrow is None:
            return formula(m, *values, **params)
        out = formula(m, *(m.cast(v, v.dtype.computed) for v in values), **params)
        return m.cast(out, narrow) if out.dtype is narrow.computed else out

    return outer


def machine(name: str) -> Formula:
    """Return the formula of a machine operation."""
    return lambda m, *values: getattr(m, name)(*values)


def bitwise_and(a: Any, b: Any, m: Any) -> Any:
    return getattr(m, "and")(a, b)


def bitwise_or(a: Any, b: Any, m: Any) -> Any:
    return getattr(m, "or")(a, b)


def invert(a: Any, m: Any) -> Any:
    return getattr(m, "not")(a)


def on_bool(of_bool: Formula, of_numbers: str) -> Formula:
    """Return a formula that uses ``of_bool`` for bool and a machine operation for numbers."""
    return lambda m, x, y: of_bool(m, x, y) if x.dtype == BOOL else getattr(m, of_numbers)(x, y)


add = on_bool(machine("or"), "add")
multiply = on_bool(machine("and"), "mul")
maximum = on_bool(machine("or"), "max")
minimum = on_bool(machine("and"), "min")
equal = on_bool(lambda m, x, y: invert(m.xor(x, y), m), "eq")
not_equal = on_bool(machine("xor"), "ne")
less = on_bool(lambda m, x, y: bitwise_and(invert(x, m), y, m), "lt")
less_equal = on_bool(lambda m, x, y: bitwise_or(invert(x, m), y, m), "le")
greater = on_bool(lambda m, x, y: bitwise_and(x, invert(y, m), m), "gt")
greater_equal = on_bool(lambda m, x, y: bitwise_or(x, invert(y, m), m), "ge")


def truth(m: Any, x: Any) -> Any:
    return x if x.dtype == BOOL else m.ne(x, m.const(0, x))


def logical(name: str) -> Formula:
    """Return the formula of a logical operation on truth values."""
    return lambda m, *values: getattr(m, name)(*(truth(m, v) for v in values))


def keep_integers(name: str) -> Formula:
    """Return a formula that leaves integers unchanged, for floor and similar functions."""
    return lambda m, x: getattr(m, name)(x) if x.dtype in FLOATS else x


def absolute(m: Any, x: Any) -> Any:
    return m.abs(x) if x.dtype in FLOATS or x.dtype in SIGNED else x


def sign(m: Any, x: Any) -> Any:
    """Return NumPy's sign: 0 for both zeros, NaN for NaN."""
    zero, one = m.const(0, x), m.const(1, x)
    if x.dtype not in FLOATS and x.dtype not in SIGNED:
        return m.select(m.ne(x, zero), one, zero)
    rest = m.select(m.eq(x, zero), zero, x) if x.dtype in FLOATS else zero
    return m.select(m.gt(x, zero), one, m.select(m.lt(x, zero), m.const(-1, x), rest))


def square(m: Any, x: Any) -> Any:
    return m.mul(x, x)


def reciprocal(m: Any, x: Any) -> Any:
    return m.div(m.const(1, x), x)


def power(m: Any, x: Any, y: Any) -> Any:
    """Return x to the power y.

    An integer to a negative power is the true value truncated: 0 except for 1 and -1. 0 stays 0, too.
    """
    if x.dtype not in SIGNED:
        return m.pow(x, y)
    zero, one = m.const(0, x), m.const(1, x)
    sign = m.select(m.eq(bitwise_and(y, one, m), zero), one, x)
    inverse = m.select(bitwise_or(m.eq(x, one), m.eq(x, m.const(-1, x)), m), sign, zero)
    return m.select(m.lt(y, zero), inverse, m.pow(x, m.max(y, zero)))


def signbit(m: Any, x: Any) -> Any:
    zero = m.const(0, x)
    return m.lt(m.copysign(m.const(1, x), x), zero) if x.dtype in FLOATS else m.lt(x, zero)


def isnan(m: Any, x: Any) -> Any:
    return m.ne(x, x)


def isinf(m: Any, x: Any) -> Any:
    return m.eq(m.abs(x), m.const(math.inf, x)) if x.dtype in FLOATS else m.ne(x, x)


def isfinite(m: Any, x: Any) -> Any:
    return m.lt(m.abs(x), m.const(math.inf, x)) if x.dtype in FLOATS else m.eq(x, x)


def hypot(m: Any, x: Any, y: Any) -> Any:
    if x.dtype == FLOAT32:  # squares of float32 neither overflow nor lose bits in float64
        a, b = m.cast(x, FLOAT64), m.cast(y, FLOAT64)
        root = m.cast(m.sqrt(m.add(m.mul(a, a), m.mul(b, b))), FLOAT32)
    else:
        a, b = m.abs(x), m.abs(y)
        big, small = m.max(a, b), m.min(a, b)
        ratio = m.select(m.eq(big, m.const(0, x)), m.const(0, x), m.div(small, big))
        root = m.mul(big, m.sqrt(m.add(m.const(1, x), m.mul(ratio, ratio))))
    infinite = bitwise_or(isinf(m, x), isinf(m, y), m)  # also if the other operand is NaN
    return m.select(infinite, m.const(math.inf, x), root)


def logaddexp(m: Any, x: Any, y: Any) -> Any:
    tail = m.log1p(m.exp(m.neg(m.abs(m.sub(x, y)))))
    return m.select(m.eq(x, y), m.add(x, m.const(math.log(2), x)), m.add(m.max(x, y), tail))  # eq: equal infinities


def log_base(m: Any, x: Any, per_octave: float, per_log: float) -> Any:
    """Write x as 2**e * f with f near 1 and return e * per_octave + log(f) * per_log. Powers of two are exact in base 2."""
    ints, mantissa, bias = x.dtype.integer, x.dtype.mantissa, x.dtype.bias
    tiny = m.lt(x, m.const(2.0 ** (1 - bias), x))  # subnormal: scale it up first
    scaled = m.select(tiny, m.mul(x, m.const(2.0 ** (mantissa + 2), x)), x)
    bits = m.bitcast(scaled, ints)
    half = m.const(int(np.array(math.sqrt(0.5), dtype=x.dtype.numpy).view(ints.numpy)), bits)
    width = m.const(mantissa, bits)
    exponent = m.shr(m.sub(bits, half), width)
    f = m.bitcast(m.sub(bits, m.shl(exponent, width)), x.dtype)
    e = m.cast(exponent, x.dtype)
    e = m.select(tiny, m.sub(e, m.const(mantissa + 2, x)), e)
    part = m.mul(m.log(f), m.const(per_log, x))
    if per_octave == 1.0:
        out = m.add(e, part)
    else:  # the constant in two parts, so that its rounding is not multiplied by e
        high = float(np.float32(per_octave)) if x.dtype == FLOAT64 else math.floor(per_octave * 4096) / 4096
        out = m.add(m.mul(e, m.const(high, x)), m.add(m.mul(e, m.const(per_octave - high, x)), part))
    ordinary = bitwise_and(m.gt(x, m.const(0, x)), m.lt(x, m.const(math.inf, x)), m)
    return m.select(ordinary, out, m.log(x))  # zero, negative, infinity, NaN


def log2(m: Any, x: Any) -> Any:
    return log_base(m, x, 1.0, 1 / math.log(2))


def log10(m: Any, x: Any) -> Any:
    return log_base(m, x, math.log10(2), 1 / math.log(10))


def nextafter(m: Any, x: Any, y: Any) -> Any:
    """Step the integer with the float's bits. Formats whose bits are not in the order of the numbers step in the wider one, and
    are rounded up or down from there."""
    form = x.dtype
    if not form.has_ordered_bits:
        wx, wy = m.cast(x, form.computed), m.cast(y, form.computed)
        step = nextafter(m, wx, wy)
        beyond = m.select(m.gt(wy, wx), m.make("round_up", (step,), form), m.make("round_down", (step,), form))
        return m.select(m.eq(wx, wy), y, m.select(m.ne(wx, wx), x, beyond))
    ints = form.integer
    bx, by = m.bitcast(x, ints), m.bitcast(y, ints)
    zero, one, magnitude = m.const(0, bx), m.const(1, bx), m.const(ints.greatest, bx)
    wx, wy = m.cast(x, x.dtype.computed), m.cast(y, y.dtype.computed)
    size = bitwise_and(bx, magnitude, m)
    away = invert(m.xor(m.gt(wy, wx), m.ge(bx, zero)), m)
    step = m.add(bx, m.select(away, one, m.const(-1, bx)))
    from_zero = bitwise_or(bitwise_and(by, m.const(ints.least, bx), m), one, m)
    out = m.bitcast(m.select(m.eq(size, zero), from_zero, step), x.dtype)
    nan = bitwise_or(m.ne(wx, wx), m.ne(wy, wy), m)
    return m.select(m.eq(wx, wy), y, m.select(nan, m.select(m.ne(wx, wx), x, y), out))


def select_where(m: Any, c: Any, x: Any, y: Any) -> Any:
    return m.select(c, x, y)


def select_first(m: Any, c: Any, x: Any, y: Any) -> Any:
    return x


def cast(m: Any, x: Any, dtype: Format) -> Any:
    return m.cast(x, dtype)


def _wide(m: Any, x: Any, dtype: Format) -> Any:
    """Cast ``x`` to a format that holds it and the numbers of ``dtype``."""
    return m.cast(x, FLOAT64 if dtype.computed is FLOAT64 else x.dtype.computed)


def round_to(m: Any, x: Any, dtype: Format, mode: str) -> Any:
    return m.make(f"round_{mode}", (_wide(m, x, dtype),), dtype)


def round_stochastic(m: Any, x: Any, word: Any, dtype: Format, bits: int) -> Any:
    if bits < 32:  # the first bits of the word; the middle of the numbers that the others would make
        word = getattr(m, "and")(word, m.const((1 << 32) - (1 << 32 - bits), word))
        word = getattr(m, "or")(word, m.const(1 << 31 - bits, word))
    x = _wide(m, x, dtype)
    if dtype in FLOATS:
        return m.make("round_stochastic", (x, word), dtype)
    low = m.floor(x)
    part = m.cast(m.mul(m.sub(x, low), m.const(2.0**32, x)), UINT32)
    return m.cast(m.add(low, m.cast(m.lt(word, part), x.dtype)), dtype)


def bitcast(m: Any, x: Any, dtype: Format) -> Any:
    return x if x.dtype == dtype else m.bitcast(x, dtype)


def identity(m: Any, x: Any) -> Any:
    return x


def count_index(m: Any, x: Any, extent: int, from_end: bool = True) -> Any:
    """Return an index as int64, counted from the end where it is negative, unless ``from_end`` is False."""
    value = m.cast(x, INT64)
    if x.dtype.kind == "unsigned" or not from_end:
        return value
    return m.select(m.lt(value, m.const(0, value)), m.add(value, m.const(extent, value)), value)


def in_bounds(m: Any, x: Any, extent: int, axis: int | str, from_end: bool) -> Any:
    return m.check(count_index(m, x, extent, from_end), extent)
