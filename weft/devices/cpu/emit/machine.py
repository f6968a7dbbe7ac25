"""The machine operations of kernel.MACHINE as LLVM text, with NumPy's answers where LLVM leaves them open."""

from __future__ import annotations

import zlib

import numpy as np

from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import float_text, is_float, is_half, literal, llvm_type, name_of, splat_text, wide
from weft.kernel.ir import Value

_F32 = np.dtype(np.float32)
_F64 = np.dtype(np.float64)


class Ops:
    """A writer of operations on scalars (lanes None) or vectors of ``lanes``."""

    __slots__ = ("f", "isa", "lanes", "m")

    def __init__(self, f: Function, m: Module, isa: ISA, lanes: int | None) -> None:
        self.f = f
        self.m = m
        self.isa = isa
        self.lanes = lanes

    def t(self, type_: str) -> str:
        return wide(type_, self.lanes)

    def const(self, dtype: np.dtype, value: object) -> str:
        return splat_text(llvm_type(dtype), literal(dtype, value), self.lanes)

    def c(self, type_: str, value: float | int) -> str:
        """A constant of an LLVM type."""
        if type_ in ("float", "double"):
            text = float_text(float(np.float32(value)) if type_ == "float" else float(value))
        elif type_ == "i1":
            text = "true" if value else "false"
        else:
            text = str(int(value))
        return splat_text(type_, text, self.lanes)

    def kept(self, type_: str, value: float) -> str:
        """A constant as a whole vector in memory: arithmetic reads it there, without an instruction of its own."""
        if self.lanes is None:
            return self.c(type_, value)
        text = self.c(type_, value)
        name = f"@kept.{self.lanes}.{type_}.{zlib.crc32(text.encode()):08x}"
        size = self.lanes * (4 if type_ == "float" else 8)
        if self.m.once(name):
            self.m.globals.append(f"{name} = private unnamed_addr constant {self.t(type_)} {text}, align {size}")
        return self.f.load(self.t(type_), name, size)

    def splat(self, name: str, type_: str) -> str:
        if self.lanes is None:
            return name
        if not name.startswith("%"):
            return splat_text(type_, name, self.lanes)
        vtype = self.t(type_)
        one = self.f.let(f"insertelement {vtype} poison, {type_} {name}, i32 0")
        return self.f.let(f"shufflevector {vtype} {one}, {vtype} poison, {wide('i32', self.lanes)} zeroinitializer", "s")

    def op(self, word: str, type_: str, *args: str) -> str:
        """``word <type> a, b``."""
        return self.f.let(f"{word} {self.t(type_)} {', '.join(args)}")

    def cmp(self, word: str, type_: str, a: str, b: str) -> str:
        return self.f.let(f"{'fcmp' if type_ in ('float', 'double') else 'icmp'} {word} {self.t(type_)} {a}, {b}", "c")

    def select(self, c: str, type_: str, a: str, b: str) -> str:
        t = self.t(type_)
        return self.f.let(f"select {self.t('i1')} {c}, {t} {a}, {t} {b}")

    def convert(self, word: str, source: str, name: str, target: str) -> str:
        return self.f.let(f"{word} {self.t(source)} {name} to {self.t(target)}")

    def intrinsic(self, name: str, type_: str, *args: str, extra: str = "") -> str:
        """``llvm.name.type(args)``; extra: a trailing immediate argument, as ``i1 false``."""
        short = {"float": "f32", "double": "f64", "half": "f16"}.get(type_, type_)
        full = f"llvm.{name}." + (short if self.lanes is None else f"v{self.lanes}{short}")
        t = self.t(type_)
        types = ", ".join([t] * len(args) + ([extra.split()[0]] if extra else []))
        self.m.declare(full, f"declare {t} @{full}({types})")
        text = ", ".join([f"{t} {a}" for a in args] + ([extra] if extra else []))
        return self.f.let(f"call {t} @{full}({text})")


# which rounding a half needs after an operation: none of these can leave the dtype
_EXACT = frozenset(("neg", "abs", "min", "max", "copysign", "floor", "ceil", "trunc", "rint", "select"))
_COMPARE = {
    "eq": ("oeq", "eq", "eq"), "ne": ("une", "ne", "ne"), "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"), "gt": ("ogt", "sgt", "ugt"), "ge": ("oge", "sge", "uge"),
}
_INTRINSIC = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven", "sqrt": "sqrt"}


def machine(o: Ops, v: Value, args: list[str]) -> str:
    """One machine operation; args are registers of the operands' dtypes."""
    op = v.op
    if op == "select":
        return o.select(args[0], llvm_type(v.dtype), args[1], args[2])
    if op == "cast":
        return cast(o, args[0], v.args[0].dtype, v.dtype)
    if op == "bitcast":
        return bitcast(o, args[0], v.args[0].dtype, v.dtype)
    if op == "philox":
        from weft.devices.cpu.emit.philox import philox

        return philox(o, *args)
    dtype = v.args[0].dtype
    if op in _COMPARE:
        word = _COMPARE[op][0 if is_float(dtype) else 1 if dtype.kind == "i" else 2]
        return o.cmp(word, llvm_type(dtype), *args)
    if is_float(dtype):
        out = _float_op(o, op, llvm_type(dtype), args, v)
        return round_half(o, out, dtype) if is_half(dtype) and op not in _EXACT else out
    if dtype.kind == "b":
        return _bool_op(o, op, args)
    return _int_op(o, op, dtype, args)


def _float_op(o: Ops, op: str, t: str, args: list[str], v: Value) -> str:
    plain = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}.get(op)
    if plain:
        return o.op(plain, t, *args)
    if op == "neg":
        return o.op("fneg", t, args[0])
    if op in _INTRINSIC:
        return o.intrinsic(_INTRINSIC[op], t, args[0])
    if op == "abs":
        return o.intrinsic("fabs", t, args[0])
    if op in ("min", "max"):
        return o.intrinsic("minimum" if op == "min" else "maximum", t, *args)
    if op == "copysign":
        return o.intrinsic("copysign", t, *args)
    if op == "fma":
        return o.intrinsic("fma", t, *args)
    if op in ("floordiv", "rem"):
        return _float_divmod(o, op, t, *args)
    from weft.devices.cpu.emit.math import function

    if op == "pow":
        return _pow(o, t, v.args[1], args)
    return function(o, op, t, args)


def _pow(o: Ops, t: str, power: Value, args: list[str]) -> str:
    """A square has the bits of a product, whether its exponent is known here or comes with the call."""
    from weft.devices.cpu.emit.math import function

    if power.op == "const":
        return o.op("fmul", t, args[0], args[0]) if float(power.attr) == 2.0 else function(o, "pow", t, args)
    square = o.cmp("oeq", t, args[1], o.c(t, 2.0))
    return o.select(square, t, o.op("fmul", t, args[0], args[0]), function(o, "pow", t, args))


def _float_divmod(o: Ops, op: str, t: str, a: str, b: str) -> str:
    """As npy_divmod: the remainder has the divisor's sign, the quotient is its floor."""
    from weft.devices.cpu.emit.libm import libm

    zero, one = o.c(t, 0.0), o.c(t, 1.0)
    r = libm(o, "fmod", t, [a, b])
    rest = o.cmp("une", t, r, zero)
    apart = o.op("xor", "i1", o.cmp("olt", t, b, zero), o.cmp("olt", t, r, zero))
    fix = o.op("and", "i1", rest, apart)
    if op == "rem":
        fixed = o.select(fix, t, o.op("fadd", t, r, b), r)
        return o.select(o.cmp("oeq", t, r, zero), t, o.intrinsic("copysign", t, zero, b), fixed)
    q = o.op("fdiv", t, o.op("fsub", t, a, r), b)
    q = o.select(fix, t, o.op("fsub", t, q, one), q)
    down = o.intrinsic("floor", t, q)
    down = o.select(o.cmp("ogt", t, o.op("fsub", t, q, down), o.c(t, 0.5)), t, o.op("fadd", t, down, one), down)
    ratio = o.op("fdiv", t, a, b)
    down = o.select(o.cmp("oeq", t, q, zero), t, o.intrinsic("copysign", t, zero, ratio), down)
    return o.select(o.cmp("oeq", t, b, zero), t, ratio, down)


def _bool_op(o: Ops, op: str, args: list[str]) -> str:
    if op in ("or", "add", "max"):
        return o.op("or", "i1", *args)
    if op in ("and", "mul", "min", "pow"):
        return o.op("and", "i1", *args)
    if op in ("xor", "sub"):
        return o.op("xor", "i1", *args)
    if op in ("not", "neg"):
        return o.op("xor", "i1", args[0], o.c("i1", 1))
    if op in ("abs", "floor", "ceil", "trunc", "rint"):
        return args[0]
    raise ValueError(f"machine operation {op} is not defined for bool")


def _int_op(o: Ops, op: str, dtype: np.dtype, args: list[str]) -> str:
    t = llvm_type(dtype)
    bits = 8 * dtype.itemsize
    signed = dtype.kind == "i"
    if op in ("add", "sub", "mul", "and", "or", "xor"):
        return o.op(op, t, *args)
    if op == "neg":
        return o.op("sub", t, o.c(t, 0), args[0])
    if op == "not":
        return o.op("xor", t, args[0], o.c(t, -1))
    if op == "abs":
        return o.intrinsic("abs", t, args[0], extra="i1 false") if signed else args[0]
    if op in ("min", "max"):
        return o.intrinsic(("s" if signed else "u") + op, t, *args)
    if op in ("floor", "ceil", "trunc", "rint"):
        return args[0]
    if op == "fma":
        return o.op("add", t, o.op("mul", t, args[0], args[1]), args[2])
    if op == "shl":
        ok = o.cmp("ult", t, args[1], o.c(t, bits))
        amount = o.select(ok, t, args[1], o.c(t, 0))
        return o.select(ok, t, o.op("shl", t, args[0], amount), o.c(t, 0))
    if op == "shr":
        ok = o.cmp("ult", t, args[1], o.c(t, bits))
        if signed:
            return o.op("ashr", t, args[0], o.select(ok, t, args[1], o.c(t, bits - 1)))
        amount = o.select(ok, t, args[1], o.c(t, 0))
        return o.select(ok, t, o.op("lshr", t, args[0], amount), o.c(t, 0))
    if op in ("div", "floordiv", "rem"):
        return _int_divmod(o, op, t, bits, signed, *args)
    if op == "pow":
        return _int_pow(o, t, *args)
    raise ValueError(f"machine operation {op} is not defined for {dtype}")


def _int_divmod(o: Ops, op: str, t: str, bits: int, signed: bool, a: str, b: str) -> str:
    """x / 0 is 0 and x % 0 is 0; INT_MIN / -1 is INT_MIN; floors as Python does (div truncates)."""
    zero, one = o.c(t, 0), o.c(t, 1)
    none = o.cmp("eq", t, b, zero)
    if not signed:
        safe = o.select(none, t, one, b)
        out = o.op("urem" if op == "rem" else "udiv", t, a, safe)
        return o.select(none, t, zero, out)
    wraps = o.op("and", "i1", o.cmp("eq", t, a, o.c(t, -(1 << (bits - 1)))), o.cmp("eq", t, b, o.c(t, -1)))
    safe = o.select(o.op("or", "i1", none, wraps), t, one, b)
    q = o.op("sdiv", t, a, safe)
    if op == "div":
        return o.select(none, t, zero, q)
    r = o.op("sub", t, a, o.op("mul", t, q, safe))
    apart = o.cmp("slt", t, o.op("xor", t, r, safe), zero)
    fix = o.op("and", "i1", apart, o.cmp("ne", t, r, zero))
    if op == "floordiv":
        q = o.select(fix, t, o.op("sub", t, q, one), q)
        return o.select(none, t, zero, q)
    r = o.select(fix, t, o.op("add", t, r, safe), r)
    return o.select(none, t, zero, r)


def _int_pow(o: Ops, t: str, a: str, b: str) -> str:
    """Square and multiply over the exponent's bits; negative exponents are the formula's."""
    f = o.f
    vt = o.t(t)
    base, left, out = f.local(vt), f.local(vt), f.local(vt)
    f.store(vt, a, base)
    f.store(vt, b, left)
    f.store(vt, o.c(t, 1), out)
    with f.loop(0, int(t[1:])):
        x, n, r = f.load(vt, base), f.load(vt, left), f.load(vt, out)
        odd = o.cmp("ne", t, o.op("and", t, n, o.c(t, 1)), o.c(t, 0))
        f.store(vt, o.select(odd, t, o.op("mul", t, r, x), r), out)
        f.store(vt, o.op("mul", t, x, x), base)
        f.store(vt, o.op("lshr", t, n, o.c(t, 1)), left)
    return f.load(vt, out)


# halves and casts


def round_half(o: Ops, x: str, dtype: np.dtype) -> str:
    """A float rounded to float16 or bfloat16 (nearest, ties to even; NaN kept), still held as float."""
    if name_of(dtype) == "float16":
        return o.convert("fpext", "half", o.convert("fptrunc", "float", x, "half"), "float")
    bits = o.convert("bitcast", "float", x, "i32")
    odd = o.op("and", "i32", o.op("lshr", "i32", bits, o.c("i32", 16)), o.c("i32", 1))
    up = o.op("add", "i32", o.op("add", "i32", bits, o.c("i32", 0x7FFF)), odd)
    quiet = o.op("or", "i32", bits, o.c("i32", 0x00400000))
    kept = o.select(o.cmp("uno", "float", x, x), "i32", quiet, up)
    cut = o.op("and", "i32", kept, o.c("i32", -65536))
    return o.convert("bitcast", "i32", cut, "float")


def _double_to_half(o: Ops, x: str, dtype: np.dtype) -> str:
    """Through float rounded to odd, so that the second rounding is the only one that counts."""
    near = o.convert("fptrunc", "double", x, "float")
    back = o.convert("fpext", "float", near, "double")
    inexact = o.cmp("one", "double", back, x)
    beyond = o.cmp("ogt", "double", o.intrinsic("fabs", "double", back), o.intrinsic("fabs", "double", x))
    bits = o.convert("bitcast", "float", near, "i32")
    bits = o.select(beyond, "i32", o.op("sub", "i32", bits, o.c("i32", 1)), bits)
    bits = o.select(inexact, "i32", o.op("or", "i32", bits, o.c("i32", 1)), bits)
    return round_half(o, o.convert("bitcast", "i32", bits, "float"), dtype)


def cast(o: Ops, x: str, source: np.dtype, target: np.dtype) -> str:
    """NumPy's astype."""
    if source == target:
        return x
    s, t = llvm_type(source), llvm_type(target)
    if target.kind == "b":
        return o.cmp("une" if is_float(source) else "ne", s, x, o.c(s, 0))
    if is_float(source):
        if not is_float(target):
            return _float_to_int(o, x, s, target)
        if s == t:  # among float32 and the halves
            return round_half(o, x, target) if is_half(target) else x
        if s == "float":
            return o.convert("fpext", "float", x, "double")
        return _double_to_half(o, x, target) if is_half(target) else o.convert("fptrunc", "double", x, "float")
    if is_float(target):
        out = o.convert("sitofp" if source.kind == "i" else "uitofp", s, x, t)
        return round_half(o, out, target) if is_half(target) else out
    if s == t:
        return x
    if source.kind == "b":
        return o.convert("zext", s, x, t)
    if target.itemsize < source.itemsize:
        return o.convert("trunc", s, x, t)
    return o.convert("sext" if source.kind == "i" else "zext", s, x, t)


def _float_to_int(o: Ops, x: str, s: str, target: np.dtype) -> str:
    """Toward zero. Out of range and NaN give the smallest integer, as the x86 instructions do; narrow
    and unsigned types take the low bits of the next wider signed one."""
    t = llvm_type(target)
    if name_of(target) == "uint64":
        big = o.cmp("oge", s, x, o.c(s, 2.0**63))
        low = _checked(o, o.select(big, s, o.op("fsub", s, x, o.c(s, 2.0**63)), x), s, "i64")
        return o.select(big, "i64", o.op("xor", "i64", low, o.c("i64", -(2**63))), low)
    through = "i64" if target.itemsize == 8 or name_of(target) == "uint32" else "i32"
    out = _checked(o, x, s, through)
    return out if through == t else o.convert("trunc", through, out, t)


def _checked(o: Ops, x: str, s: str, t: str) -> str:
    edge = 2.0 ** (int(t[1:]) - 1)
    high = o.cmp("olt", s, x, o.c(s, edge))
    # -2**31 - 0.5 still truncates to -2**31 in double; in float the next number below is out of range
    low = o.cmp("ogt", s, x, o.c(s, -edge - 1)) if s == "double" and t == "i32" else o.cmp("oge", s, x, o.c(s, -edge))
    out = o.convert("fptosi", s, x, t)
    return o.select(o.op("and", "i1", high, low), t, out, o.c(t, -int(edge)))


def bitcast(o: Ops, x: str, source: np.dtype, target: np.dtype) -> str:
    """The same bits under another dtype of the same width."""
    if source == target:
        return x
    if name_of(source) == "bool":
        x, source = o.convert("zext", "i1", x, "i8"), np.dtype(np.uint8)
    s = llvm_type(source)
    if is_half(source):
        x, s = half_bits(o, x, source), "i16"
    if name_of(target) == "bool":
        return o.cmp("ne", "i8", x, o.c("i8", 0))
    if is_half(target):
        if name_of(target) == "float16":
            return o.convert("fpext", "half", o.convert("bitcast", s, x, "half"), "float")
        high = o.op("shl", "i32", o.convert("zext", "i16", x, "i32"), o.c("i32", 16))
        return o.convert("bitcast", "i32", high, "float")
    t = llvm_type(target)
    return x if s == t else o.convert("bitcast", s, x, t)


def half_bits(o: Ops, x: str, dtype: np.dtype) -> str:
    """The i16 of a half held as float."""
    if name_of(dtype) == "float16":
        return o.convert("bitcast", "half", o.convert("fptrunc", "float", x, "half"), "i16")
    bits = o.op("lshr", "i32", o.convert("bitcast", "float", x, "i32"), o.c("i32", 16))
    return o.convert("trunc", "i32", bits, "i16")


def add(o: Ops, a: str, b: str, dtype: np.dtype) -> str:
    """a + b rounded to dtype."""
    if is_float(dtype):
        out = o.op("fadd", llvm_type(dtype), a, b)
        return round_half(o, out, dtype) if is_half(dtype) else out
    return o.op("or" if dtype.kind == "b" else "add", llvm_type(dtype), a, b)


FLOAT32, FLOAT64 = _F32, _F64
