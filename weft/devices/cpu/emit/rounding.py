"""Floats that no instruction knows: rounded in registers, and brought to their bits in memory and back. One formula for all.

What is added is the power of two beside which a float's last bit weighs as much as the last of the format does: then the
addition rounds, and taking it away again is exact. Below the smallest normal number that power stays what it is, so subnormals
need nothing of their own; that all of it happens among normal floats makes it right where denormals are flushed, too.
"""

from __future__ import annotations

from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.text import Function
from weft.devices.cpu.emit.types import float_text, splat_text, wide
from weft.dtypes.formats import FLOAT32, Format

_MAGNITUDE, _INFINITE, _NAN = 0x7FFFFFFF, 0x7F800000, 0x7FC00000


def round_to(o: Ops, x: str, form: Format) -> str:
    """A float rounded to a narrow format (nearest, ties to even), still held as float. NaN keeps its sign."""
    bits = o.convert("bitcast", "float", x, "i32")
    size = o.op("and", "i32", bits, o.c("i32", _MAGNITUDE))
    sign = o.op("xor", "i32", bits, size)
    power = o.op("and", "i32", size, o.c("i32", _INFINITE))
    low, high = (o.c("i32", _power(p)) for p in (1 - form.bias, form.bias + 2))
    power = o.select(o.cmp("ult", "i32", power, low), "i32", low, power)
    power = o.select(o.cmp("ugt", "i32", power, high), "i32", high, power)  # beyond its largest number all is one
    beside = o.convert("bitcast", "i32", o.op("add", "i32", power, o.c("i32", FLOAT32.mantissa - form.mantissa << 23)), "float")
    size = o.convert("bitcast", "i32", size, "float")
    near = o.op("fsub", "float", o.op("fadd", "float", size, beside), beside)
    near = o.convert("bitcast", "float", near, "i32")
    over = o.cmp("sgt", "i32", near, o.c("i32", _bits(form.largest)))
    none = o.cmp("sgt", "i32", near, o.c("i32", _INFINITE))
    near = o.select(over, "i32", o.c("i32", _NAN if form.finite else _INFINITE), near)
    near = near if form.finite else o.select(none, "i32", o.c("i32", _NAN), near)
    return o.convert("bitcast", "i32", o.op("or", "i32", near, sign), "float")


def encoded(f: Function, x: str, form: Format, lanes: int | None) -> str:
    """The bits in memory, an integer, of a float that is rounded to the format already."""

    def c(value: int) -> str:
        return splat_text("i32", str(value), lanes)

    whole, real, kept = wide("i32", lanes), wide("float", lanes), wide(f"i{form.bits}", lanes)
    bits = f.let(f"bitcast {real} {x} to {whole}")
    size = f.let(f"and {whole} {bits}, {c(_MAGNITUDE)}")
    first = FLOAT32.mantissa - form.mantissa
    normal = f.let(f"lshr {whole} {size}, {c(first)}")
    normal = f.let(f"sub {whole} {normal}, {c(FLOAT32.bias - form.bias << form.mantissa)}")
    beside = splat_text("float", float_text(2.0 ** (1 - form.bias + first)), lanes)
    number = f.let(f"bitcast {whole} {size} to {real}")
    counted = f.let(f"fadd {real} {number}, {beside}")  # its last bits count steps of the smallest number
    counted = f.let(f"bitcast {real} {counted} to {whole}")
    code = _chosen(f, "ult", size, c(_power(1 - form.bias)), counted, normal, lanes)
    top = (1 << form.exponent) - 1 << form.mantissa
    if form.finite:
        code = _chosen(f, "uge", size, c(_INFINITE), c((1 << form.bits - 1) - 1), code, lanes)
    else:
        special = _chosen(f, "eq", size, c(_INFINITE), c(top), c(top | 1 << form.mantissa - 1), lanes)
        code = _chosen(f, "uge", size, c(_INFINITE), special, code, lanes)
    code = f.let(f"and {whole} {code}, {c((1 << form.bits - 1) - 1)}")
    sign = f.let(f"lshr {whole} {bits}, {c(32 - form.bits)}")
    sign = f.let(f"and {whole} {sign}, {c(1 << form.bits - 1)}")
    code = f.let(f"or {whole} {code}, {sign}")
    return f.let(f"trunc {whole} {code} to {kept}")


def decoded(f: Function, code: str, form: Format, lanes: int | None) -> str:
    """The float that bits in memory stand for."""

    def c(value: int) -> str:
        return splat_text("i32", str(value), lanes)

    whole, real, kept = wide("i32", lanes), wide("float", lanes), wide(f"i{form.bits}", lanes)
    code = f.let(f"zext {kept} {code} to {whole}")
    size = f.let(f"and {whole} {code}, {c((1 << form.bits - 1) - 1)}")
    sign = f.let(f"xor {whole} {code}, {size}")
    sign = f.let(f"shl {whole} {sign}, {c(32 - form.bits)}")
    moved = f.let(f"shl {whole} {size}, {c(FLOAT32.mantissa - form.mantissa)}")
    bits = f.let(f"add {whole} {moved}, {c(FLOAT32.bias - form.bias << 23)}")
    beside = f.let(f"add {whole} {moved}, {c(_power(1 - form.bias))}")  # a subnormal, and the smallest normal number
    beside = f.let(f"bitcast {whole} {beside} to {real}")
    below = f.let(f"fsub {real} {beside}, {splat_text('float', float_text(2.0 ** (1 - form.bias)), lanes)}")
    below = f.let(f"bitcast {real} {below} to {whole}")
    bits = _chosen(f, "ult", size, c(1 << form.mantissa), below, bits, lanes)
    top = (1 << form.exponent) - 1 << form.mantissa
    if form.finite:
        bits = _chosen(f, "eq", size, c((1 << form.bits - 1) - 1), c(_NAN), bits, lanes)
    else:
        special = _chosen(f, "eq", size, c(top), c(_INFINITE), c(_NAN), lanes)
        bits = _chosen(f, "uge", size, c(top), special, bits, lanes)
    bits = f.let(f"or {whole} {bits}, {sign}")
    return f.let(f"bitcast {whole} {bits} to {real}")


def _chosen(f: Function, word: str, a: str, b: str, then: str, other: str, lanes: int | None) -> str:
    whole = wide("i32", lanes)
    bit = f.let(f"icmp {word} {whole} {a}, {b}", "c")
    return f.let(f"select {wide('i1', lanes)} {bit}, {whole} {then}, {whole} {other}")


def _power(exponent: int) -> int:
    """The bits of a power of two, as a float."""
    return exponent + FLOAT32.bias << 23


def _bits(number: float) -> int:
    """The bits of a positive float that is one of a narrow format."""
    fraction, exponent = number, 0
    while fraction >= 2:
        fraction, exponent = fraction / 2, exponent + 1
    return _power(exponent) + int((fraction - 1) * 2**23)
