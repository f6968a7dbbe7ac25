"""Casts as NumPy makes them, and narrow floats, which are held as float and rounded to their dtype."""

from __future__ import annotations

from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.rounding import decoded, encoded, round_to
from weft.devices.cpu.emit.types import llvm_type
from weft.dtypes.formats import BFLOAT16, BOOL, FLOAT16, FLOATS, UINT8, UINT32, UINT64, Format


def round_half(o: Ops, x: str, dtype: Format) -> str:
    """A float rounded to a narrow format (nearest, ties to even; NaN kept), still held as float."""
    if dtype == FLOAT16:
        return o.convert("fpext", "half", o.convert("fptrunc", "float", x, "half"), "float")
    if dtype is not BFLOAT16:
        return round_to(o, x, dtype)
    bits = o.convert("bitcast", "float", x, "i32")
    odd = o.op("and", "i32", o.op("lshr", "i32", bits, o.c("i32", 16)), o.c("i32", 1))
    up = o.op("add", "i32", o.op("add", "i32", bits, o.c("i32", 0x7FFF)), odd)
    quiet = o.op("or", "i32", bits, o.c("i32", 0x00400000))
    kept = o.select(o.cmp("uno", "float", x, x), "i32", quiet, up)
    cut = o.op("and", "i32", kept, o.c("i32", -65536))
    return o.convert("bitcast", "i32", cut, "float")


def _double_to_half(o: Ops, x: str, dtype: Format) -> str:
    """Through float rounded to odd, so that the second rounding is the only one that counts."""
    near = o.convert("fptrunc", "double", x, "float")
    back = o.convert("fpext", "float", near, "double")
    inexact = o.cmp("one", "double", back, x)
    beyond = o.cmp("ogt", "double", o.intrinsic("fabs", "double", back), o.intrinsic("fabs", "double", x))
    bits = o.convert("bitcast", "float", near, "i32")
    bits = o.select(beyond, "i32", o.op("sub", "i32", bits, o.c("i32", 1)), bits)
    bits = o.select(inexact, "i32", o.op("or", "i32", bits, o.c("i32", 1)), bits)
    return round_half(o, o.convert("bitcast", "i32", bits, "float"), dtype)


def cast(o: Ops, x: str, source: Format, target: Format) -> str:
    """NumPy's astype."""
    if source == target:
        return x
    s, t = llvm_type(source), llvm_type(target)
    if target.kind == "bool":
        return o.cmp("une" if source in FLOATS else "ne", s, x, o.c(s, 0))
    if source in FLOATS:
        if target not in FLOATS:
            return _float_to_int(o, x, s, target)
        if s == t:  # among float32 and the halves
            return round_half(o, x, target) if target.narrow else x
        if s == "float":
            return o.convert("fpext", "float", x, "double")
        return _double_to_half(o, x, target) if target.narrow else o.convert("fptrunc", "double", x, "float")
    if target in FLOATS:
        out = o.convert("sitofp" if source.kind == "signed" else "uitofp", s, x, t)
        return round_half(o, out, target) if target.narrow else out
    if s == t:
        return x
    if source.kind == "bool":
        return o.convert("zext", s, x, t)
    if target.bytes < source.bytes:
        return o.convert("trunc", s, x, t)
    return o.convert("sext" if source.kind == "signed" else "zext", s, x, t)


def _float_to_int(o: Ops, x: str, s: str, target: Format) -> str:
    """Toward zero. Out of range and NaN give the smallest integer, as the x86 instructions do; narrow
    and unsigned types take the low bits of the next wider signed one."""
    t = llvm_type(target)
    if target is UINT64:
        big = o.cmp("oge", s, x, o.c(s, 2.0**63))
        low = _checked(o, o.select(big, s, o.op("fsub", s, x, o.c(s, 2.0**63)), x), s, "i64")
        return o.select(big, "i64", o.op("xor", "i64", low, o.c("i64", -(2**63))), low)
    through = "i64" if target.bytes == 8 or target is UINT32 else "i32"
    out = _checked(o, x, s, through)
    return out if through == t else o.convert("trunc", through, out, t)


def _checked(o: Ops, x: str, s: str, t: str) -> str:
    edge = 2.0 ** (int(t[1:]) - 1)
    high = o.cmp("olt", s, x, o.c(s, edge))
    # -2**31 - 0.5 still truncates to -2**31 in double; in float the next number below is out of range
    low = o.cmp("ogt", s, x, o.c(s, -edge - 1)) if s == "double" and t == "i32" else o.cmp("oge", s, x, o.c(s, -edge))
    out = o.convert("fptosi", s, x, t)
    return o.select(o.op("and", "i1", high, low), t, out, o.c(t, -int(edge)))


def bitcast(o: Ops, x: str, source: Format, target: Format) -> str:
    """The same bits under another dtype of the same width."""
    if source == target:
        return x
    if source is BOOL:
        x, source = o.convert("zext", "i1", x, "i8"), UINT8
    s = llvm_type(source)
    if source.narrow:
        x, s = half_bits(o, x, source), f"i{source.bits}"
    if target is BOOL:
        return o.cmp("ne", "i8", x, o.c("i8", 0))
    if target.narrow:
        if target == FLOAT16:
            return o.convert("fpext", "half", o.convert("bitcast", s, x, "half"), "float")
        if target is not BFLOAT16:
            return decoded(o.f, x, target, o.lanes)
        high = o.op("shl", "i32", o.convert("zext", "i16", x, "i32"), o.c("i32", 16))
        return o.convert("bitcast", "i32", high, "float")
    t = llvm_type(target)
    return x if s == t else o.convert("bitcast", s, x, t)


def half_bits(o: Ops, x: str, dtype: Format) -> str:
    """The integer that has the bits of a narrow number held as float."""
    if dtype == FLOAT16:
        return o.convert("bitcast", "half", o.convert("fptrunc", "float", x, "half"), "i16")
    if dtype is not BFLOAT16:
        return encoded(o.f, x, dtype, o.lanes)
    bits = o.op("lshr", "i32", o.convert("bitcast", "float", x, "i32"), o.c("i32", 16))
    return o.convert("trunc", "i32", bits, "i16")


def add(o: Ops, a: str, b: str, dtype: Format) -> str:
    """a + b rounded to dtype."""
    if dtype in FLOATS:
        out = o.op("fadd", llvm_type(dtype), a, b)
        return round_half(o, out, dtype) if dtype.narrow else out
    return o.op("or" if dtype.kind == "bool" else "add", llvm_type(dtype), a, b)
