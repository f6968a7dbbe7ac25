"""Casts with a rounding mode, and casts that saturate."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dtypes.check import check_rounding
from weft.dtypes.formats import BOOL, COMPLEX, FLOAT32, FLOAT64, FLOATS, INTEGERS, Format, holds
from weft.dtypes.rounding import MODES
from weft.errors import DTypeError
from weft.functions.random.state import open_words
from weft.functions.support.arguments import Node, cast, number, op
from weft.graph.primitives.table import constant


def round_cast(value: Node, form: Format, rounding: str | None, saturate: bool | None, bits: int, key: Any) -> Node:
    """Cast ``value`` as ``astype`` does. rounding None : to nearest for floats, toward zero for integers"""
    check_rounding("astype", form, rounding, saturate)
    if not isinstance(bits, int | np.integer) or isinstance(bits, bool) or not 1 <= bits <= 32:
        raise ValueError(f"astype: bits={bits!r} must be an integer from 1 to 32, the random bits of a number")
    bits = int(bits)
    if form is BOOL or form in COMPLEX or value.dtype in COMPLEX:
        raise DTypeError(f"astype: rounding= and saturate= are for casts to floats and integers, not of {value.dtype} to {form}")
    if form in FLOATS and rounding in (None, "nearest") and not saturate:
        return cast(value, form)
    x = value if value.dtype in FLOATS else cast(value, FLOAT32 if holds(FLOAT32, value.dtype) else FLOAT64)
    if form in INTEGERS:
        return _to_integer(value, x, form, rounding or "toward zero", bool(saturate), bits, key)
    if rounding not in (None, "nearest") and value.dtype in INTEGERS and not holds(FLOAT64, value.dtype):
        raise DTypeError(f"astype: {value.dtype} is rounded to float64 first, so rounding={rounding!r} needs that cast before it")
    if saturate and form.overflow != form.largest:
        x = cast(x, x.dtype.computed if x.dtype.computed.largest >= form.largest else form.computed)
        x = op("maximum", op("minimum", x, number(form.largest, x.dtype)), number(-form.largest, x.dtype))
    if rounding in (None, "nearest") or holds(form, value.dtype):
        return cast(x, form)  # clamped
    if rounding == "stochastic":
        return op("round_stochastic", x, _words(x, bits, key), dtype=form, bits=bits)
    return op("round_to", x, dtype=form, mode=MODES[rounding])


def _to_integer(value: Node, x: Node, form: Format, rounding: str, saturate: bool, bits: int, key: Any) -> Node:
    """Round floats to integers. x : ``value`` as a float"""
    if value.dtype not in FLOATS:
        least, greatest = max(form.least, value.dtype.least), min(form.greatest, value.dtype.greatest)
        if saturate and value.dtype is not BOOL:
            value = op("minimum", op("maximum", value, constant(least, value.dtype)), constant(greatest, value.dtype))
        return cast(value, form)
    x = cast(x, x.dtype.computed)
    most = float(x.dtype.numpy.type(form.greatest))
    if most > form.greatest:  # no number of this float format
        most = float(np.nextafter(x.dtype.numpy.type(most), x.dtype.numpy.type(0)))
    clamped = x
    if saturate:
        clamped = op("where", op("isnan", x), number(0.0, x.dtype), x)
        clamped = op("minimum", op("maximum", clamped, number(float(form.least), x.dtype)), number(most, x.dtype))
    result = _to_whole(clamped, form, rounding, bits, key)
    return op("where", op("greater", x, number(most, x.dtype)), constant(form.greatest, form), result) if saturate else result


def _words(x: Node, bits: int, key: Any) -> Node:
    """Return random words for each element of ``x``, of which ``bits`` bits are used."""
    return open_words(key, "astype").take(x.shape, 32 if bits > 16 else 16)


def _to_whole(x: Node, form: Format, rounding: str, bits: int, key: Any) -> Node:
    """Round float32 or float64 numbers to an integer format."""
    if rounding == "stochastic":
        return op("round_stochastic", x, _words(x, bits, key), dtype=form, bits=bits)
    size = op("abs", x)
    if rounding == "away from zero":
        return cast(op("copysign", op("ceil", size), x), form)
    if rounding == "nearest away":
        low = op("floor", size)
        half = op("greater_equal", op("subtract", size, low), number(0.5, x.dtype))
        return cast(op("copysign", op("add", low, cast(half, x.dtype)), x), form)
    return cast(op({"nearest": "round", "toward zero": "trunc", "up": "ceil", "down": "floor"}[rounding], x), form)
