"""The machine operations of kernel.MACHINE as LLVM text, with NumPy's results where LLVM defines none."""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.devices.cpu.emit.math import function, libm
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.philox import random_half_word, random_word
from weft.devices.cpu.emit.storage_formats import bitcast, cast, keep_low_bits, round_to_storage, round_with_mode
from weft.devices.cpu.emit.types import llvm_type
from weft.dtypes.formats import FLOATS, Format
from weft.kernel.ir import Value, is_exact

_COMPARE = {
    "eq": ("oeq", "eq", "eq"), "ne": ("une", "ne", "ne"), "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"), "gt": ("ogt", "sgt", "ugt"), "ge": ("oge", "sge", "uge"),
}
_FLOAT_WORDS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "neg": "fneg"}
_INTRINSIC = {
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven", "sqrt": "sqrt", "abs": "fabs", "min": "minimum",
    "max": "maximum", "copysign": "copysign", "fma": "fma",
}
_ROUND = ("floor", "ceil", "trunc", "rint")  # return integers and bools unchanged
_BOOL_WORDS = {
    **dict.fromkeys(("or", "add", "max"), "or"), **dict.fromkeys(("and", "mul", "min", "pow"), "and"),
    **dict.fromkeys(("xor", "sub", "not", "neg"), "xor"),
}


def emit_machine_operation(o: Ops, v: Value, args: list[str]) -> str:
    """Emit one machine operation; ``args`` are registers of the operands' dtypes."""
    op = v.op
    if op == "select":
        return o.select(args[0], llvm_type(v.dtype), args[1], args[2])
    if op == "cast":
        if _rounds_nothing(v):
            return args[0]
        return cast(o, args[0], v.args[0].dtype, v.dtype)
    if op.startswith("round_"):
        return round_with_mode(o, args[0], v.args[0].dtype, v.dtype, op.removeprefix("round_"), *args[1:])
    if op == "bitcast":
        return bitcast(o, args[0], v.args[0].dtype, v.dtype)
    if op == "philox":
        return random_word(o, *args)
    if op == "philox_half":
        return random_half_word(o, *args)
    dtype = v.args[0].dtype
    if op in _COMPARE:
        word = _COMPARE[op][0 if dtype in FLOATS else 1 if dtype.kind == "signed" else 2]
        return o.cmp(word, llvm_type(dtype), *args)
    if dtype in FLOATS:
        out = _float_op(o, op, llvm_type(dtype), args, v)
        return round_to_storage(o, out, dtype) if dtype.narrow and not is_exact(op, dtype) else out
    if dtype.kind == "bool":
        return _bool_op(o, op, args)
    out = _int_op(o, op, dtype, args)
    return keep_low_bits(o.f, out, dtype, o.lanes) if dtype.narrow else out


def _float_op(o: Ops, op: str, t: str, args: list[str], v: Value) -> str:
    if op in _FLOAT_WORDS:
        return o.op(_FLOAT_WORDS[op], t, *args)
    if op in _INTRINSIC:
        return o.intrinsic(_INTRINSIC[op], t, *args)
    if op == "div":
        return o.divided(t, *args)
    if op in ("floordiv", "rem"):
        return _float_divmod(o, op, t, *args)
    return _pow(o, t, v.args[1], *args) if op == "pow" else function(o, op, t, *args)


def _rounds_nothing(v: Value) -> bool:
    """Return whether a cast to a storage-only float is of a number of this format, computed from such numbers."""
    (x,), form = v.args, v.dtype
    if not form.narrow or x.dtype is not form.computed or not is_exact(x.op, form):
        return False
    operands = x.args[1:] if x.op == "select" else x.args
    return all(a.op == "cast" and a.args[0].dtype is form or a.op == "const" and a.attr == 0 for a in operands)


def _pow(o: Ops, t: str, power: Value, x: str, y: str) -> str:
    """Emit a power. Some exponents have short forms, also if the exponent is a run-time argument, so that the bits are equal."""
    if power.op == "const" and float(power.attr) in _POWERS:
        return _POWERS[float(power.attr)](o, t, x)
    out = function(o, "pow", t, x, y)
    if power.op == "const":
        return out
    for exponent, short in _POWERS.items():
        out = o.select(o.cmp("oeq", t, y, o.c(t, exponent)), t, short(o, t, x), out)
    return out


def _square(o: Ops, t: str, x: str) -> str:
    return o.op("fmul", t, x, x)


def _cube(o: Ops, t: str, x: str) -> str:
    """Emit x * x * x plus the rounding errors of both products; without them the error is up to 1.5 ulp."""
    square = _square(o, t, x)
    out = o.op("fmul", t, square, x)
    lost = o.intrinsic("fma", t, x, x, o.op("fneg", t, square))
    rest = o.intrinsic("fma", t, lost, x, o.intrinsic("fma", t, square, x, o.op("fneg", t, out)))
    finite = o.cmp("olt", t, o.intrinsic("fabs", t, out), o.c(t, math.inf))
    return o.intrinsic("copysign", t, o.select(finite, t, o.op("fadd", t, out, rest), out), x)


def _inverse(o: Ops, t: str, x: str) -> str:
    return o.divided(t, o.c(t, 1.0), x)


def _root(o: Ops, t: str, x: str) -> str:
    """Emit ``x ** 0.5``: the square root, but 0 for -0 and infinity for -infinity."""
    root = o.op("fadd", t, o.intrinsic("sqrt", t, x), o.c(t, 0.0))
    return o.select(o.cmp("oeq", t, x, o.c(t, -math.inf)), t, o.c(t, math.inf), root)


def _inverse_root(o: Ops, t: str, x: str) -> str:
    """Emit 1 / sqrt(x), corrected by the rounding errors of root and quotient; without them the error is up to 1.5 ulp."""
    root = _root(o, t, x)
    out, minus = _inverse(o, t, root), o.op("fneg", t, root)
    of_quotient = o.intrinsic("fma", t, minus, out, o.c(t, 1.0))
    of_root = o.op("fmul", t, o.op("fmul", t, o.intrinsic("fma", t, minus, root, x), out), o.op("fmul", t, out, o.c(t, -0.5)))
    better = o.intrinsic("fma", t, out, o.op("fadd", t, of_quotient, of_root), out)
    return o.select(o.cmp("ord", t, better, better), t, better, out)


_POWERS: dict[float, Callable[[Ops, str, str], str]] = {
    2.0: _square, 3.0: _cube, -1.0: _inverse, 0.5: _root, -0.5: _inverse_root,
}


def _float_divmod(o: Ops, op: str, t: str, a: str, b: str) -> str:
    """Emit NumPy's ``npy_divmod``: the remainder has the divisor's sign, the quotient is rounded down."""
    zero, one = o.c(t, 0.0), o.c(t, 1.0)
    r = libm(o, "fmod", t, [a, b])
    nonzero = o.cmp("une", t, r, zero)
    signs_differ = o.op("xor", "i1", o.cmp("olt", t, b, zero), o.cmp("olt", t, r, zero))
    fix = o.op("and", "i1", nonzero, signs_differ)
    if op == "rem":
        fixed = o.select(fix, t, o.op("fadd", t, r, b), r)
        return o.select(o.cmp("oeq", t, r, zero), t, o.intrinsic("copysign", t, zero, b), fixed)
    q = o.divided(t, o.op("fsub", t, a, r), b)
    q = o.select(fix, t, o.op("fsub", t, q, one), q)
    down = o.intrinsic("floor", t, q)
    down = o.select(o.cmp("ogt", t, o.op("fsub", t, q, down), o.c(t, 0.5)), t, o.op("fadd", t, down, one), down)
    ratio = o.divided(t, a, b)
    down = o.select(o.cmp("oeq", t, q, zero), t, o.intrinsic("copysign", t, zero, ratio), down)
    return o.select(o.cmp("oeq", t, b, zero), t, ratio, down)


def _bool_op(o: Ops, op: str, args: list[str]) -> str:
    if op in _BOOL_WORDS:
        return o.op(_BOOL_WORDS[op], "i1", *args, *[o.c("i1", 1)] * (2 - len(args)))
    if op == "abs" or op in _ROUND:
        return args[0]
    raise ValueError(f"machine operation {op} is not defined for bool")


def _int_op(o: Ops, op: str, dtype: Format, args: list[str]) -> str:
    t = llvm_type(dtype)
    bits = dtype.bits
    signed = dtype.kind == "signed"
    if op in ("add", "sub", "mul", "and", "or", "xor"):
        return o.op(op, t, *args)
    if op == "neg":
        return o.op("sub", t, o.c(t, 0), args[0])
    if op == "not":
        return o.op("xor", t, args[0], o.c(t, -1))
    if op in _ROUND or (op == "abs" and not signed):
        return args[0]
    if op == "abs":
        return o.intrinsic("abs", t, args[0], extra="i1 false")
    if op in ("min", "max"):
        return o.intrinsic(("s" if signed else "u") + op, t, *args)
    if op == "fma":
        return o.op("add", t, o.op("mul", t, args[0], args[1]), args[2])
    if op in ("shl", "shr"):
        ok = o.cmp("ult", t, args[1], o.c(t, bits))
        if op == "shr" and signed:
            return o.op("ashr", t, args[0], o.select(ok, t, args[1], o.c(t, bits - 1)))
        shifted = o.op("shl" if op == "shl" else "lshr", t, args[0], o.select(ok, t, args[1], o.c(t, 0)))
        return o.select(ok, t, shifted, o.c(t, 0))
    if op in ("div", "floordiv", "rem"):
        return _int_divmod(o, op, t, bits, signed, *args)
    if op == "pow":
        return _int_pow(o, t, *args)
    raise ValueError(f"machine operation {op} is not defined for {dtype}")


def _int_divmod(o: Ops, op: str, t: str, bits: int, signed: bool, a: str, b: str) -> str:
    """Emit integer division: x / 0 and x % 0 are 0, INT_MIN / -1 is INT_MIN. ``div`` truncates, the others floor as Python."""
    zero, one = o.c(t, 0), o.c(t, 1)
    by_zero = o.cmp("eq", t, b, zero)
    if not signed:
        safe = o.select(by_zero, t, one, b)
        out = o.op("urem" if op == "rem" else "udiv", t, a, safe)
        return o.select(by_zero, t, zero, out)
    wraps = o.op("and", "i1", o.cmp("eq", t, a, o.c(t, -(1 << (bits - 1)))), o.cmp("eq", t, b, o.c(t, -1)))
    safe = o.select(o.op("or", "i1", by_zero, wraps), t, one, b)
    q = o.op("sdiv", t, a, safe)
    if op == "div":
        return o.select(by_zero, t, zero, q)
    r = o.op("sub", t, a, o.op("mul", t, q, safe))
    signs_differ = o.cmp("slt", t, o.op("xor", t, r, safe), zero)
    fix = o.op("and", "i1", signs_differ, o.cmp("ne", t, r, zero))
    if op == "floordiv":
        q = o.select(fix, t, o.op("sub", t, q, one), q)
        return o.select(by_zero, t, zero, q)
    r = o.select(fix, t, o.op("add", t, r, safe), r)
    return o.select(by_zero, t, zero, r)


def _int_pow(o: Ops, t: str, a: str, b: str) -> str:
    """Emit square and multiply over the bits of the exponent. The primitive's formula handles negative exponents."""
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
