"""Casts with directed or stochastic rounding: toward zero, up, down. They fuse like other arithmetic."""

from __future__ import annotations

from typing import Any

from weft.dtypes.formats import COMPLEX, FLOAT32, FLOAT64, FLOATS, UINT32, Format, holds
from weft.errors import DTypeError
from weft.functions.random.state import open_words
from weft.functions.support.arguments import Node, cast, number, op

ROUNDING_MODES = ("nearest", "stochastic", "toward zero", "up", "down")


def rounded(value: Node, form: Format, rounding: str, key: Any) -> Node:
    """Cast ``value`` to a float format with the given rounding. The derivative is that of a plain cast."""
    if rounding not in ROUNDING_MODES:
        raise ValueError(f"astype: rounding={rounding!r} must be one of {', '.join(map(repr, ROUNDING_MODES))}")
    if form not in FLOATS or value.dtype in COMPLEX:
        raise DTypeError(f"astype: rounding={rounding!r} is for casts to floats, not of {value.dtype} to {form}")
    if rounding == "nearest" or holds(form, value.dtype):
        return cast(value, form)
    wide = value.dtype.computed if value.dtype in FLOATS else FLOAT32 if holds(FLOAT32, value.dtype) else FLOAT64
    x = cast(value, wide)
    constant = op("stop_gradient", x)
    size = op("abs", constant)
    low, high, part = _find_neighbours(size, wide, form)
    if rounding == "stochastic":
        rounds_up = op("less", open_words(key, "astype").take(value.shape), part)
    else:
        low = op("minimum", low, number(form.largest, wide))  # only rounding away from zero gives infinity
        rounds_up = op("less", low, size)
    if rounding in ("up", "down"):
        rounds_up = op("logical_and", rounds_up, op("greater" if rounding == "up" else "less", constant, number(0.0, wide)))
    result = low if rounding == "toward zero" else op("where", rounds_up, high, low)
    result = op("copysign", result, constant)
    result = op("subtract", result, op("subtract", constant, x))  # subtracts 0; carries the derivative of x
    return cast(op("where", op("isfinite", constant), result, x), form)


def _find_neighbours(size: Node, wide: Format, form: Format) -> tuple[Node, Node, Node]:
    """Return the neighbours in ``form`` of magnitudes in ``wide``, and the distance from the lower one in units of 2**-32."""
    bits = wide.integer
    word = op("bitcast", size, dtype=bits)
    if form.bias == wide.bias:  # the cut bits are the last ones, of subnormal numbers as well
        drop = wide.mantissa - form.mantissa
        rest = op("bitwise_and", word, number((1 << drop) - 1, bits))
        lower = op("subtract", word, rest)
        low, high = (op("bitcast", n, dtype=wide) for n in (lower, op("add", lower, number(1 << drop, bits))))
        return low, high, op("bitwise_left_shift", cast(rest, UINT32), number(32 - drop, UINT32))
    least, most = ((e + wide.bias) << wide.mantissa for e in (1 - form.bias, form.bias + 2))
    power = op("bitwise_and", word, number(((1 << wide.exponent) - 1) << wide.mantissa, bits))
    power = op("minimum", op("maximum", power, number(least, bits)), number(most, bits))
    one = op("subtract", power, number(form.mantissa << wide.mantissa, bits))  # the bits of the last digit's weight
    weight = op("bitcast", one, dtype=wide)
    inverse = op("bitcast", op("subtract", number(2 * wide.bias << wide.mantissa, bits), one), dtype=wide)
    count = op("multiply", size, inverse)
    whole = op("trunc", count)
    low, high = (op("multiply", n, weight) for n in (whole, op("add", whole, number(1.0, wide))))
    part = op("multiply", op("subtract", count, whole), number(2.0**32, wide))
    return low, high, cast(op("where", op("isfinite", part), part, number(0.0, wide)), UINT32)
