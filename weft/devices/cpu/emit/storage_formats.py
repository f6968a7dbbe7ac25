"""Conversions between memory and registers: loads and stores of narrow types, NumPy's casts, rounding.

A float format without an instruction is rounded by adding and subtracting a power of two, chosen so that the last bit of the sum
has the weight of the format's last bit. Below the smallest normal number the power stays the same, so subnormals need no special
case, and the result is correct even if denormals are flushed.
"""

from __future__ import annotations

import numpy as np

from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.text import Function
from weft.devices.cpu.emit.types import cell_type, float_text, literal, llvm_type, memory_type, splat_text, wide
from weft.dtypes.formats import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, FLOATS, INTEGERS, UINT8, UINT32, UINT64, Format
from weft.dtypes.rounding import convert_array, decode, encode


def from_memory(f: Function, name: str, dtype: Format, lanes: int | None) -> str:
    """Convert a loaded value to its register type."""
    if dtype is BOOL:
        return f.let(f"icmp ne {wide('i8', lanes)} {name}, {splat_text('i8', '0', lanes)}")
    if dtype is FLOAT16:
        return f.let(f"fpext {wide('half', lanes)} {name} to {wide('float', lanes)}")
    if dtype is BFLOAT16:
        bits = f.let(f"zext {wide('i16', lanes)} {name} to {wide('i32', lanes)}")
        high = f.let(f"shl {wide('i32', lanes)} {bits}, {splat_text('i32', '16', lanes)}")
        return f.let(f"bitcast {wide('i32', lanes)} {high} to {wide('float', lanes)}")
    if dtype.narrow and dtype in INTEGERS:
        return keep_low_bits(f, name, dtype, lanes)
    return decode_bits(f, name, dtype, lanes) if dtype.narrow else name


def keep_low_bits(f: Function, x: str, dtype: Format, lanes: int | None) -> str:
    """Return an integer of 8 bits with the value of its low bits, which are a number of 2 or 4 bits."""
    type_, unused = wide("i8", lanes), splat_text("i8", str(8 - dtype.bits), lanes)
    if dtype.kind == "unsigned":
        return f.let(f"and {type_} {x}, {splat_text('i8', str((1 << dtype.bits) - 1), lanes)}")
    high = f.let(f"shl {type_} {x}, {unused}")
    return f.let(f"ashr {type_} {high}, {unused}")


def to_memory(o: Ops, name: str, dtype: Format) -> str:
    """Convert a register value to its memory type."""
    f, lanes = o.f, o.lanes
    if (code := f.codes.get((name, dtype))) is not None:
        return code if dtype is not FLOAT16 else f.let(f"bitcast {wide('i16', lanes)} {code} to {wide('half', lanes)}")
    if dtype is BOOL:
        return f.let(f"zext {wide('i1', lanes)} {name} to {wide('i8', lanes)}")
    if dtype is FLOAT16:
        return f.let(f"fptrunc {wide('float', lanes)} {name} to {wide('half', lanes)}")
    if dtype is BFLOAT16:
        bits = f.let(f"bitcast {wide('float', lanes)} {name} to {wide('i32', lanes)}")
        high = f.let(f"lshr {wide('i32', lanes)} {bits}, {splat_text('i32', '16', lanes)}")
        return f.let(f"trunc {wide('i32', lanes)} {high} to {wide('i16', lanes)}")
    if dtype.narrow and dtype in INTEGERS:
        return f.let(f"and {wide('i8', lanes)} {name}, {splat_text('i8', str((1 << dtype.bits) - 1), lanes)}")
    return encode_bits(f, name, dtype, lanes) if dtype.narrow else name


def memory_literal(dtype: Format, fill: object) -> str:
    """Return ``fill`` as a constant of the memory type."""
    if dtype is BOOL:
        return "1" if fill else "0"
    if dtype.narrow:
        return str(convert_array(np.asarray(fill), dtype.numpy).view(dtype.integer.numpy).item())
    return literal(dtype, fill)


def load_cell(f: Function, type_: str, pointer: str, align: int | None = None) -> str:
    """Load registers of ``type_``, stored as ``cell_type(type_)``."""
    cell = cell_type(type_)
    out = f.load(cell, pointer, align)
    return out if cell == type_ else f.let(f"trunc {cell} {out} to {type_}")


def store_cell(f: Function, type_: str, value: str, pointer: str, align: int | None = None) -> None:
    """Store registers of ``type_`` as ``cell_type(type_)``."""
    cell = cell_type(type_)
    if cell != type_:
        value = f.let(f"zext {type_} {value} to {cell}")
    f.store(cell, value, pointer, align)


def load_scalar(f: Function, dtype: Format, pointer: str) -> str:
    """Load a run-time scalar from its argument slot, in its register type."""
    return from_memory(f, f.load(memory_type(dtype), pointer, dtype.bytes), dtype, None)


def to_accumulator(f: Function, name: str, dtype: Format, type_: str, lanes: int | None) -> str:
    """Convert a loaded number to the accumulators' type ``type_``."""
    name, own = from_memory(f, name, dtype, lanes), llvm_type(dtype)
    word = "fpext" if dtype in FLOATS else "sitofp" if dtype.kind == "signed" else "uitofp"
    return name if own == type_ else f.let(f"{word} {wide(own, lanes)} {name} to {wide(type_, lanes)}")


def round_to_storage(o: Ops, x: str, dtype: Format, low_nans: bool = True) -> str:
    """Round a float to a narrow format (nearest, ties to even; NaN stays NaN). The result is still a float.

    low_nans: whether ``x`` may be a NaN whose lower 16 bits are set, as operations never make one.
    """
    if dtype == FLOAT16:
        return o.convert("fpext", "half", o.convert("fptrunc", "float", x, "half"), "float")
    if dtype is not BFLOAT16:
        by_addition = _rounds_by_addition(dtype)
        return round_by_addition(o, x, dtype) if by_addition else round_with_mode(o, x, dtype.computed, dtype, "nearest")
    bits = o.convert("bitcast", "float", x, "i32")
    up = o.op("add", "i32", bits, o.c("i32", 0x8000))
    is_tie = o.cmp("eq", "i32", o.op("and", "i32", up, o.c("i32", 0xFFFF)), o.c("i32", 0))
    rounded = o.op("and", "i32", up, o.select(is_tie, "i32", o.c("i32", -131072), o.c("i32", -65536)))
    if low_nans:
        quiet = o.op("and", "i32", o.op("or", "i32", bits, o.c("i32", 0x00400000)), o.c("i32", -65536))
        rounded = o.select(o.cmp("uno", "float", x, x), "i32", quiet, rounded)
    return o.convert("bitcast", "i32", rounded, "float")


def _double_to_half(o: Ops, x: str, dtype: Format) -> str:
    """Round a double to a narrow format. The first rounding, to float, is to odd, so that only the second one counts."""
    near = o.convert("fptrunc", "double", x, "float")
    back = o.convert("fpext", "float", near, "double")
    inexact = o.cmp("one", "double", back, x)
    beyond = o.cmp("ogt", "double", o.intrinsic("fabs", "double", back), o.intrinsic("fabs", "double", x))
    bits = o.convert("bitcast", "float", near, "i32")
    bits = o.select(beyond, "i32", o.op("sub", "i32", bits, o.c("i32", 1)), bits)
    bits = o.select(inexact, "i32", o.op("or", "i32", bits, o.c("i32", 1)), bits)
    return round_to_storage(o, o.convert("bitcast", "i32", bits, "float"), dtype)


def cast(o: Ops, x: str, source: Format, target: Format) -> str:
    """Emit NumPy's astype."""
    if source == target:
        return x
    s, t = llvm_type(source), llvm_type(target)
    if target.narrow and target in INTEGERS:
        return keep_low_bits(o.f, cast(o, x, source, target.computed), target, o.lanes)
    if target.kind == "bool":
        return o.cmp("une" if source in FLOATS else "ne", s, x, o.c(s, 0))
    if source in FLOATS:
        if target not in FLOATS:
            return _float_to_int(o, x, s, target)
        if s == t:  # among float32 and the halves
            return round_to_storage(o, x, target) if target.narrow else x
        if s == "float":
            x = o.convert("fpext", "float", x, "double")
            return round_to_storage(o, x, target) if target.narrow else x
        if target.custom:
            return round_with_mode(o, x, FLOAT64, target, "nearest")
        return _double_to_half(o, x, target) if target.narrow else o.convert("fptrunc", "double", x, "float")
    if target in FLOATS:
        out = o.convert("sitofp" if source.kind == "signed" else "uitofp", s, x, t)
        return round_to_storage(o, out, target) if target.narrow else out
    if s == t:
        return x
    if source.kind == "bool":
        return o.convert("zext", s, x, t)
    if target.bytes < source.bytes:
        return o.convert("trunc", s, x, t)
    return o.convert("sext" if source.kind == "signed" else "zext", s, x, t)


def _float_to_int(o: Ops, x: str, s: str, target: Format) -> str:
    """Convert toward zero. NaN and numbers out of range become the smallest integer, as in the x86 instructions.

    Narrow and unsigned types take the low bits of the next wider signed type.
    """
    t = llvm_type(target)
    if target is UINT64:
        big = o.cmp("oge", s, x, o.c(s, 2.0**63))
        low = _float_to_signed(o, o.select(big, s, o.op("fsub", s, x, o.c(s, 2.0**63)), x), s, "i64")
        return o.select(big, "i64", o.op("xor", "i64", low, o.c("i64", -(2**63))), low)
    through = "i64" if target.bytes == 8 or target is UINT32 else "i32"
    out = _float_to_signed(o, x, s, through)
    return out if through == t else o.convert("trunc", through, out, t)


def _float_to_signed(o: Ops, x: str, s: str, t: str) -> str:
    edge = 2.0 ** (int(t[1:]) - 1)
    high = o.cmp("olt", s, x, o.c(s, edge))
    # -2**31 - 0.5 still truncates to -2**31 in double; the next float below -2**31 is out of range
    low = o.cmp("ogt", s, x, o.c(s, -edge - 1)) if s == "double" and t == "i32" else o.cmp("oge", s, x, o.c(s, -edge))
    out = o.convert("fptosi", s, x, t)
    return o.select(o.op("and", "i1", high, low), t, out, o.c(t, -int(edge)))


def bitcast(o: Ops, x: str, source: Format, target: Format) -> str:
    """Reinterpret the bits as another dtype of the same width."""
    if source == target:
        return x
    if source is BOOL:
        x, source = o.convert("zext", "i1", x, "i8"), UINT8
    s = llvm_type(source)
    if source.narrow:
        x, s = storage_bits(o, x, source), f"i{8 * source.bytes}"
    if target is BOOL:
        return o.cmp("ne", "i8", x, o.c("i8", 0))
    if target.narrow:
        return from_memory(o.f, o.convert("bitcast", s, x, "half") if target == FLOAT16 else x, target, o.lanes)
    t = llvm_type(target)
    return x if s == t else o.convert("bitcast", s, x, t)


def storage_bits(o: Ops, x: str, dtype: Format) -> str:
    """Return the bits of a narrow number, held as float, as an integer."""
    x = to_memory(o, x, dtype)
    return o.convert("bitcast", "half", x, "i16") if dtype == FLOAT16 else x


def add(o: Ops, a: str, b: str, dtype: Format) -> str:
    """Emit a + b rounded to dtype."""
    if dtype in FLOATS:
        out = o.op("fadd", llvm_type(dtype), a, b)
        return round_to_storage(o, out, dtype) if dtype.narrow else out
    out = o.op("or" if dtype.kind == "bool" else "add", llvm_type(dtype), a, b)
    return keep_low_bits(o.f, out, dtype, o.lanes) if dtype.narrow else out

_MAGNITUDE, _INFINITE, _NAN = 0x7FFFFFFF, 0x7F800000, 0x7FC00000


def _rounds_by_addition(form: Format) -> bool:
    """Return whether ``round_by_addition`` rounds to a format: the powers of two that it adds must be float32 numbers."""
    if form.special in ("scale", "fixed") or not form.subnormals or form.mantissa == 0 or form.computed is not FLOAT32:
        return False
    return form.exponent <= 5 and abs(form.bias) <= 64


def round_by_addition(o: Ops, x: str, form: Format) -> str:
    """Round a float to a narrow format (nearest, ties to even), still held as float. NaN keeps its sign.

    The last digits of the sum count units of the format's last digit: with the exponent, they are the number's code.
    """
    bits = o.convert("bitcast", "float", x, "i32")
    size = o.op("and", "i32", bits, o.c("i32", _MAGNITUDE))
    sign = o.op("xor", "i32", bits, size)
    power = o.op("and", "i32", size, o.c("i32", _INFINITE))
    least = _power_bits(1 - form.bias)
    low, high = o.c("i32", least), o.c("i32", _power_bits((1 << form.exponent) - form.bias + 1))
    power = o.select(o.cmp("ult", "i32", power, low), "i32", low, power)
    power = o.select(o.cmp("ugt", "i32", power, high), "i32", high, power)  # larger numbers overflow in any case
    addend = o.convert("bitcast", "i32", o.op("add", "i32", power, o.c("i32", FLOAT32.mantissa - form.mantissa << 23)), "float")
    total = o.op("fadd", "float", o.convert("bitcast", "i32", size, "float"), addend)
    rounded = o.convert("bitcast", "float", o.op("fsub", "float", total, addend), "i32")
    over = o.cmp("sgt", "i32", rounded, o.c("i32", _number_bits(form.largest)))
    is_nan = o.cmp("sgt", "i32", rounded, o.c("i32", _INFINITE))
    beyond = _NAN if form.overflow != form.overflow else _INFINITE if form.overflow == np.inf else _number_bits(form.largest)
    rounded = o.select(over, "i32", o.c("i32", beyond), rounded)
    if form.special == "fnuz":
        sign = o.select(o.cmp("eq", "i32", rounded, o.c("i32", 0)), "i32", o.c("i32", 0), sign)
    elif form.special == "finite":  # NaN becomes -0
        rounded = o.select(is_nan, "i32", o.c("i32", 0), rounded)
        sign = o.select(is_nan, "i32", o.c("i32", -(1 << 31)), sign)
    if beyond != _NAN and form.special != "finite":
        rounded = o.select(is_nan, "i32", o.c("i32", _NAN), rounded)
    out = o.convert("bitcast", "i32", o.op("or", "i32", rounded, sign), "float")
    unit = FLOAT32.mantissa - form.mantissa
    digits = o.op("sub", "i32", *(o.convert("bitcast", "float", x, "i32") for x in (total, addend)))
    exponent = o.op("sub", "i32", o.op("lshr", "i32", power, o.c("i32", unit)), o.c("i32", least >> unit))
    code = o.op("add", "i32", digits, exponent)
    largest = form.nan if form.overflow != form.overflow else form.top + (form.overflow == np.inf)
    code = o.select(o.cmp("ugt", "i32", code, o.c("i32", largest)), "i32", o.c("i32", largest), code)
    if largest != form.nan:
        nan = o.c("i32", 0 if form.special == "finite" else form.nan)
        code = o.select(o.cmp("ugt", "i32", size, o.c("i32", _INFINITE)), "i32", nan, code)
    code = o.op("or", "i32", code, o.op("lshr", "i32", sign, o.c("i32", 32 - form.bits)))
    o.f.codes[out, form] = _resize(o.f, code, 32, 8 * form.bytes, o.lanes)
    return out


class RegisterBits:
    """LLVM's arithmetic on integers of the size of ``form``, float32 or float64, for the formulas of ``weft.dtypes.rounding``."""

    def __init__(self, f: Function, form: Format, lanes: int | None) -> None:
        self.f, self.form, self.lanes, self._type = f, form, lanes, f"i{form.bits}"
        self.type_, self.float_ = wide(self._type, lanes), wide(llvm_type(form), lanes)

    def c(self, x: int | str) -> str:
        if isinstance(x, str):
            return x
        return splat_text(self._type, str(x - (1 << self.form.bits) if x >> self.form.bits - 1 else x), self.lanes)

    def i(self, word: str, a: str, b: str | int) -> str:
        return self.f.let(f"{word} {self.type_} {a}, {self.c(b)}")

    def where(self, word: str, a: str, b: str | int, then: str | int, other: str | int) -> str:
        bit = self.f.let(f"icmp {word} {self.type_} {a}, {self.c(b)}", "c")
        return self.f.let(f"select {wide('i1', self.lanes)} {bit}, {self.type_} {self.c(then)}, {self.type_} {self.c(other)}")

    def count(self, x: str, exponent: int) -> str:
        whole = self.f.let(f"uitofp {self.type_} {x} to {self.float_}")
        weight = splat_text(llvm_type(self.form), float_text(2.0**exponent), self.lanes)
        return self.bits(self.f.let(f"fmul {self.float_} {whole}, {weight}"))

    def bits(self, x: str) -> str:
        return self.f.let(f"bitcast {self.float_} {x} to {self.type_}")

    def real(self, x: str) -> str:
        return self.f.let(f"bitcast {self.type_} {x} to {self.float_}")


def encode_bits(f: Function, x: str, form: Format, lanes: int | None) -> str:
    """Return the memory bits, as an integer, of a number that is already rounded to the format."""
    b = RegisterBits(f, form.computed, lanes)
    return _resize(f, encode(b, b.bits(x), form, "zero"), b.form.bits, 8 * form.bytes, lanes)


def decode_bits(f: Function, code: str, form: Format, lanes: int | None) -> str:
    """Return the number that bits in memory represent."""
    b = RegisterBits(f, form.computed, lanes)
    return b.real(decode(b, _resize(f, code, 8 * form.bytes, b.form.bits, lanes), form))


def _resize(f: Function, x: str, source: int, target: int, lanes: int | None) -> str:
    """Convert an unsigned integer of ``source`` bits to ``target`` bits."""
    if source == target:
        return x
    return f.let(f"{'zext' if source < target else 'trunc'} {wide(f'i{source}', lanes)} {x} to {wide(f'i{target}', lanes)}")


def round_with_mode(o: Ops, x: str, source: Format, form: Format, mode: str, word: str | None = None) -> str:
    """Round a float to a smaller one. word : for "stochastic", 32 random bits, an i32"""
    b = RegisterBits(o.f, source, o.lanes)
    word = None if word is None else _resize(o.f, word, 32, source.bits, o.lanes)
    code = encode(b, b.bits(x), form, mode, word)
    b = RegisterBits(o.f, form.computed, o.lanes)
    out = b.real(decode(b, _resize(o.f, code, source.bits, b.form.bits, o.lanes), form))
    if form.narrow:
        o.f.codes[out, form] = _resize(o.f, code, source.bits, 8 * form.bytes, o.lanes)
    return out


def goes_through_half(form: Format) -> bool:
    """Return whether ``decode_through_half`` decodes a format: its infinities and NaNs must be float16's, or NaN all bits."""
    return form.bits == 8 and form.subnormals and (
        form.special == "ieee" and form.exponent == FLOAT16.exponent or form.special == "fn" and form.exponent < FLOAT16.exponent
    )


def decode_through_half(f: Function, code: str, form: Format, lanes: int) -> str:
    """Return what ``decode_bits`` returns, for formats of ``goes_through_half``.

    The code is moved to the place of a half's exponent and first digits; a multiplication, which is exact, sets the bias right.
    These are five instructions where the conversion of halves is one.
    """
    words, halves = wide("i16", lanes), wide("half", lanes)

    def each(word: str, x: str, value: int) -> str:
        return f.let(f"{word} {words} {x}, splat (i16 {value})")

    code = f.let(f"sext {wide('i8', lanes)} {code} to {words}")
    shift, most = FLOAT16.mantissa - form.mantissa, (1 << form.bits - 1) - 1
    bits = each("and", each("shl", code, shift), (most << shift | 1 << 15) - (1 << 16))  # sign, exponent and digits
    if form.special == "fn":
        is_nan = each("icmp eq", each("and", code, most), most)
        bits = f.let(f"select {wide('i1', lanes)} {is_nan}, {words} splat (i16 32256), {words} {bits}")
    x = f.let(f"fpext {halves} {f.let(f'bitcast {words} {bits} to {halves}')} to {wide('float', lanes)}")
    if form.bias == FLOAT16.bias:
        return x
    scale = float_text(2.0 ** (FLOAT16.bias - form.bias))
    return f.let(f"fmul {wide('float', lanes)} {x}, {splat_text('float', scale, lanes)}")


def _power_bits(exponent: int) -> int:
    """Return the float bits of a power of two."""
    return exponent + FLOAT32.bias << 23


def _number_bits(number: float) -> int:
    """Return the float bits of a number."""
    return int(np.float32(number).view(np.int32))
