"""Mathematical functions: vector polynomials where weft has its own, else the C library lane by lane.

exp, log and their relatives are one algorithm with constants for float and for double; sin and cos are polynomials over
quadrants, and the C library computes them beyond 100,000. The polynomials of float are Cephes' (erf, sin and cos: Norbert
Juffa's); those of double, and their order of additions, are FreeBSD's msun (fdlibm). tests/cpu/test_math.py measures errors in
ulp; NaN, infinities, signed zeros and denormals give NumPy's results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.types import wide

_INF, _NAN = float("inf"), float("nan")
_LOG2_E = 1.44269504088896341
_EXP2 = (1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2, 2.402264791363012e-1,
         6.931472028550421e-1)
_ERF_FAR = (-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1, -6.34846687e-1)
_ERF_NEAR = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
_LOG_FLOAT = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
              2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
_LOG_DOUBLE = (1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
               2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01)
_FAR = 100000.0  # larger arguments of sin and cos go to the C library
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)  # pi/2 is their sum
_SIN = (1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
        8.33333333332248946124e-03)
_SIN1 = -1.66666666666666324348e-01
_COS = (-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
        -1.38888888888741095749e-03, 4.16666666666666019037e-02)


class _Numbers(NamedTuple):
    """Constants of one float type.

    digits : bits of the mantissa; bias : of the exponent; magic : 1.5 * 2**digits, adding it rounds to an integer in the low bits
    ln2_high, ln2_low : their sum is log(2)
    exp : coefficients; lowest, highest : exp is 0 below and infinite above; gone : expm1 is -1 below
    root : the bits of sqrt(1/2), where log splits the mantissa; tiny : the smallest normal number
    lift : power of 2 that makes denormals normal; full : from this power of 2 on, x + 1 loses nothing significant
    """

    digits: int
    bias: int
    magic: float
    ln2_high: float
    ln2_low: float
    exp: tuple[float, ...]
    lowest: float
    highest: float
    gone: float
    root: int
    tiny: float
    lift: int
    full: int


_NUMBERS = {
    "float": _Numbers(
        23, 127, 12582912.0, 0.693359375, -2.12194440e-4,
        (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
        -104.0, 89.0, -18.0, 0x3F3504F3, 1.17549435e-38, 23, 25,
    ),
    "double": _Numbers(
        52, 1023, 6755399441055744.0, 6.93147180369123816490e-01, 1.90821492927058770002e-10,
        tuple(1 / math.factorial(k) for k in range(13, 1, -1)),
        -746.0, 710.0, -40.0, 0x3FE6A09E667F3BCD, 2.2250738585072014e-308, 54, 54,
    ),
}


class _Reals:
    """Short names for operations on ``type_`` (``float`` or ``double``). z: its constants; whole: the integer of its width."""

    __slots__ = ("o", "type_", "whole", "z")

    def __init__(self, o: Ops, type_: str) -> None:
        self.o, self.type_, self.z = o, type_, _NUMBERS[type_]
        self.whole = "i32" if type_ == "float" else "i64"

    def c(self, x: float) -> str:
        return self.o.c(self.type_, x)

    def k(self, x: float) -> str:
        return self.o.kept(self.type_, x)

    def add(self, a: str, b: str) -> str:
        return self.o.op("fadd", self.type_, a, b)

    def sub(self, a: str, b: str) -> str:
        return self.o.op("fsub", self.type_, a, b)

    def mul(self, a: str, b: str) -> str:
        return self.o.op("fmul", self.type_, a, b)

    def div(self, a: str, b: str) -> str:
        return self.o.divided(self.type_, a, b)

    def fma(self, a: str, b: str, c: str) -> str:
        return self.o.intrinsic("fma", self.type_, a, b, c) if self.o.isa.fma else self.add(self.mul(a, b), c)

    def abs(self, a: str) -> str:
        return self.o.intrinsic("fabs", self.type_, a)

    def copysign(self, a: str, b: str) -> str:
        return self.o.intrinsic("copysign", self.type_, a, b)

    def where(self, word: str, a: str, b: str | float, yes: str, no: str) -> str:
        return self.o.select(self.o.cmp(word, self.type_, a, b if isinstance(b, str) else self.c(b)), self.type_, yes, no)

    def clamped(self, x: str, low: float, high: float) -> str:
        """Clamp to [low, high]; NaN stays NaN."""
        x = self.where("ogt", x, high, self.c(high), x)
        return self.where("olt", x, low, self.c(low), x)

    def bits(self, a: str) -> str:
        return self.o.convert("bitcast", self.type_, a, self.whole)

    def real(self, a: str) -> str:
        return self.o.convert("bitcast", self.whole, a, self.type_)

    def i(self, word: str, a: str, b: int | str) -> str:
        return self.o.op(word, self.whole, a, self.o.c(self.whole, b) if isinstance(b, int) else b)

    def pairs(self, x: str, s: str, *coefs: float) -> str:
        """Evaluate a polynomial with an even number of coefficients in pairs, highest power first; ``s`` is x * x.

        Its dependency chain is half as long as that of ``poly``, which is faster if few chains must fill the pipeline.
        """
        r = self.fma(self.c(coefs[0]), x, self.k(coefs[1]))
        for a, b in zip(coefs[2::2], coefs[3::2], strict=True):
            r = self.fma(r, s, self.fma(self.c(a), x, self.k(b)))
        return r

    def poly(self, x: str, *coefs: float, kept: bool = False) -> str:
        """Evaluate a polynomial by Horner's rule, highest power first. kept: constants are read from memory."""
        r = self.c(coefs[0])
        for a in coefs[1:]:
            r = self.fma(r, x, self.k(a) if kept else self.c(a))
        return r


# ---- the C library


def libm(o: Ops, name: str, t: str, args: list[str]) -> str:
    """Emit ``name`` (that of the double function, as ``exp``) on each lane; the runtime resolves the symbol in the process."""
    symbol = name + ("f" if t == "float" else "")
    o.m.called[name, t] = None
    o.m.declare(symbol, f"declare {t} @{symbol}({', '.join([t] * len(args))})")
    if o.lanes is None:
        return o.f.let(f"call {t} @{symbol}({', '.join(f'{t} {a}' for a in args)})")
    vt = wide(t, o.lanes)
    helper = f"weft.{symbol}.{o.lanes}"
    if o.m.once(helper):
        names = [f"%x{i}" for i in range(len(args))]
        f = o.m.function(f"define internal {vt} @{helper}({', '.join(f'{vt} {n}' for n in names)})", "nounwind noinline")
        out = "poison"
        for lane in range(o.lanes):
            ones = [f.let(f"extractelement {vt} {n}, i32 {lane}") for n in names]
            one = f.let(f"call {t} @{symbol}({', '.join(f'{t} {a}' for a in ones)})")
            out = f.let(f"insertelement {vt} {out}, {t} {one}, i32 {lane}")
        f.do(f"ret {vt} {out}")
    return o.f.let(f"call {vt} @{helper}({', '.join(f'{vt} {a}' for a in args)})")


def _library_where(o: Ops, name: str, t: str, x: str, where: str, out: str) -> str:
    """Return ``out`` with the C library's result in the lanes ``where``, which include NaN and infinity."""
    f, type_ = o.f, o.t(t)
    cell = f.local(type_)
    f.store(type_, out, cell)
    with f.when(where if o.lanes is None else o.m.any_lane(f, where, o.lanes)):
        f.store(type_, o.select(where, t, libm(o, name, t, [x]), out), cell)
    return f.load(type_, cell)


# ---- exp, expm1, tanh


def _exp_parts(f: _Reals, x: str, bias: int) -> tuple[str, str]:
    """Split x = n ln 2 + r; return the bits of magic + n + bias, and exp(r) - 1."""
    z = f.z
    t = f.fma(x, f.c(1.4426950408889634), f.c(z.magic + bias))
    n = f.sub(t, f.c(z.magic + bias))
    r = f.fma(n, f.c(-z.ln2_high), x)
    r = f.fma(n, f.c(-z.ln2_low), r)
    return f.bits(t), f.fma(f.mul(r, r), f.poly(r, *z.exp), r)


def _exp(f: _Reals, x: str) -> str:
    """Emit exp. 2**n is multiplied in two halves: the first is exact, the second rounds to a denormal or to infinity."""
    z = f.z
    bits, p = _exp_parts(f, f.clamped(x, z.lowest, z.highest), 2 * z.bias)  # low bits: the sum of two exponents
    if f.type_ == "double":
        bits = f.i("and", bits, 0xFFFF)  # in float the shifts drop the other bits
    low = f.i("lshr", bits, 1)
    first = f.real(f.i("shl", low, z.digits))
    second = f.real(f.i("shl", f.i("sub", bits, low), z.digits))
    return f.mul(f.fma(p, first, first), second)


def _expm1_core(f: _Reals, x: str) -> str:
    bits, p = _exp_parts(f, x, f.z.bias - 1)
    s = f.real(f.i("shl", bits, f.z.digits))  # 2**(n - 1)
    out = f.fma(s, p, f.sub(s, f.c(0.5)))
    return f.add(out, out)


def _expm1(f: _Reals, x: str) -> str:
    # expm1(x) is x there; the core halves x, which loses the last bit if the half is denormal
    return f.where("olt", f.abs(x), 2 * f.z.tiny, x, _expm1_core(f, f.clamped(x, f.z.gone, f.z.highest)))


def _tanh(f: _Reals, x: str) -> str:
    y = f.mul(f.abs(x), f.c(-2.0))
    e = _expm1_core(f, f.where("olt", y, f.z.gone, f.c(f.z.gone), y))
    return f.copysign(f.div(e, f.add(e, f.c(2.0))), x)  # the fraction is -tanh(|x|)


# ---- log, log1p


def _log_split(f: _Reals, x: str) -> tuple[str, str]:
    """Split a normal x = 2**n * m with m near 1; return n, as an integer, and m."""
    n = f.i("ashr", f.i("sub", f.bits(x), f.z.root), f.z.digits)
    return n, f.real(f.i("sub", f.bits(x), f.i("shl", n, f.z.digits)))


def _log_core(f: _Reals, n: str, d: str) -> str:
    """Emit log(2**n * (1 + d))."""
    z = f.z
    if f.type_ == "float":
        e = f.o.convert("sitofp", "i32", n, "float")
        s = f.mul(d, d)
        y = f.mul(f.mul(f.poly(d, *_LOG_FLOAT), d), s)
        y = f.fma(e, f.c(z.ln2_low), y)
        y = f.fma(s, f.c(-0.5), y)
        return f.fma(e, f.c(z.ln2_high), f.add(d, y))
    k = f.sub(f.real(f.i("add", f.bits(f.c(z.magic)), n)), f.c(z.magic))  # few CPUs convert vectors of 64-bit integers
    s = f.div(d, f.add(d, f.c(2.0)))
    square = f.mul(s, s)
    half = f.mul(f.mul(d, d), f.c(0.5))
    r = f.mul(square, f.poly(square, *_LOG_DOUBLE))
    low = f.fma(s, f.add(half, r), f.mul(k, f.c(z.ln2_low)))
    return f.fma(k, f.c(z.ln2_high), f.sub(d, f.sub(half, low)))


def _log_edges(f: _Reals, x: str, at_zero: str, out: str) -> str:
    """Select special cases: infinity and NaN stay, below zero is NaN, zero is -infinity. ``at_zero`` is compared with zero."""
    out = f.where("uno", x, x, x, out)
    out = f.where("ult", x, _INF, out, x)
    out = f.where("olt", at_zero, 0.0, f.c(_NAN), out)
    return f.where("oeq", at_zero, 0.0, f.c(-_INF), out)


def _log(f: _Reals, x: str) -> str:
    o, z = f.o, f.z
    tiny = o.cmp("olt", f.type_, x, f.c(z.tiny))
    n, m = _log_split(f, o.select(tiny, f.type_, f.mul(x, f.c(2.0**z.lift)), x))
    n = o.select(tiny, f.whole, f.i("sub", n, z.lift), n)
    return _log_edges(f, x, x, _log_core(f, n, f.sub(m, f.c(1.0))))


def _log1p(f: _Reals, x: str) -> str:
    one = f.c(1.0)
    u = f.add(x, one)
    v = f.sub(u, one)
    rest = f.add(f.sub(one, f.sub(u, v)), f.sub(x, v))  # the rounding error of u
    n, m = _log_split(f, u)
    scale = f.real(f.o.op("sub", f.whole, f.o.c(f.whole, f.z.bias << f.z.digits), f.i("shl", n, f.z.digits)))
    # for larger x the error is below the last bit, and its scale would be out of range
    rest = f.where("olt", x, 2.0**f.z.full, f.mul(rest, scale), f.c(0.0))
    out = _log_edges(f, x, u, _log_core(f, n, f.add(f.sub(m, one), rest)))
    return f.where("oeq", x, 0.0, x, out)


# ---- sin, cos, erf


def _sin_cos(name: str, f: _Reals, x: str) -> str:
    """Emit sin or cos by quadrants of pi/2; use the C library for large arguments."""
    o, sign = f.o, 30 if f.type_ == "float" else 62
    if f.type_ == "double" and not o.isa.fma:
        return libm(o, name, "double", [x])
    t, sine, cosine = (_sin_cos_float if f.type_ == "float" else _sin_cos_double)(f, x, name)
    odd = o.cmp("ne", f.whole, f.i("and", t, 1), o.c(f.whole, 0))
    out = o.select(odd, f.type_, cosine, sine)
    flip = f.i("shl", f.i("and", t, 2), sign)
    out = f.real(f.i("xor", f.bits(out), flip))
    if name == "sin":
        out = f.where("oeq", x, 0.0, x, out)  # keeps -0.0
    return _library_where(o, name, f.type_, x, o.cmp("ugt", f.type_, f.abs(x), f.c(_FAR)), out)


def _sin_cos_float(f: _Reals, x: str, name: str) -> tuple[str, str, str]:
    """Return (quadrant, sine, cosine). The argument is reduced by multiples of pi/2 in three parts."""
    t = f.fma(x, f.c(0.636619772), f.c(f.z.magic))
    j = f.sub(t, f.c(f.z.magic))
    r = f.fma(j, f.c(-1.57079601e00), x)
    r = f.fma(j, f.c(-3.13916473e-07), r)
    r = f.fma(j, f.c(-5.39030253e-15), r)
    quadrant = f.i("add", f.bits(t), 1) if name == "cos" else f.bits(t)
    s = f.mul(r, r)
    sine = f.fma(f.poly(s, 2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1), f.mul(r, s), r)
    return quadrant, sine, f.poly(s, 2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -5.00000000e-1, 1.0)


def _sin_cos_double(f: _Reals, x: str, name: str) -> tuple[str, str, str]:
    """Return (quadrant, sine, cosine): x = n pi/2 + r + low, where low is the rounding error of r."""
    t = f.fma(x, f.c(0.6366197723675814), f.c(f.z.magic))
    n = f.o.op("fneg", "double", f.sub(t, f.c(f.z.magic)))
    near = f.fma(n, f.c(_HALF_PI[0]), x)
    part = f.mul(n, f.c(_HALF_PI[1]))
    r = f.add(near, part)
    lost = f.fma(n, f.c(_HALF_PI[1]), f.o.op("fneg", "double", part))  # rounding error of the product; `low` adds the sum's
    low = f.fma(n, f.c(_HALF_PI[2]), f.add(f.add(f.sub(near, r), part), lost))
    quadrant = f.i("add", f.bits(t), 1) if name == "cos" else f.bits(t)
    z, half = f.mul(r, r), f.c(0.5)
    v = f.mul(z, r)
    inner = f.sub(f.mul(half, low), f.mul(v, f.poly(z, *_SIN)))
    sine = f.sub(r, f.sub(f.sub(f.mul(z, inner), low), f.mul(v, f.c(_SIN1))))
    hz = f.mul(half, z)
    w = f.sub(f.c(1.0), hz)
    rest = f.sub(f.mul(z, f.mul(z, f.poly(z, *_COS))), f.mul(r, low))
    return quadrant, sine, f.add(w, f.add(f.sub(f.sub(f.c(1.0), w), hz), rest))


def _erf(f: _Reals, x: str) -> str:
    """Emit erf of floats: near zero Norbert Juffa's polynomial; beyond, 1 - 2**r with his polynomial for r and Cephes' exp2."""
    magic = f.z.magic + 127
    t = f.abs(x)
    t = f.where("ogt", t, 4.0, f.c(4.0), t)  # erf(4) rounds to 1
    s = f.mul(t, t)
    r = f.pairs(t, s, *(k * _LOG2_E for k in _ERF_FAR))
    r = f.fma(r, s, f.mul(t, f.c((-1.28717512e-1 - 1.0) * _LOG2_E)))
    n = f.add(r, f.c(magic))
    d = f.sub(r, f.sub(n, f.c(magic)))
    p = f.mul(d, f.pairs(d, f.mul(d, d), *_EXP2))
    scale = f.real(f.i("shl", f.bits(n), 23))
    far = f.copysign(f.sub(f.c(1.0), f.fma(p, scale, scale)), x)
    near = f.poly(s, *_ERF_NEAR, kept=True)
    near = f.fma(near, x, x)
    return f.where("ogt", t, 0.927734375, far, near)


_POLYNOMIALS: dict[str, Callable[[_Reals, str], str]] = {
    "exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p, "tanh": _tanh, "sin": partial(_sin_cos, "sin"),
    "cos": partial(_sin_cos, "cos"), "erf": _erf,
}
VECTOR_FUNCTIONS = frozenset(_POLYNOMIALS)  # have polynomials, at least for float


def function(o: Ops, op: str, t: str, *args: str) -> str:
    """Emit one of kernel.MACHINE's functions on float or double registers."""
    return _POLYNOMIALS[op](_Reals(o, t), *args) if has_vectors(op, t) else libm(o, op, t, list(args))


def has_vectors(op: str, t: str) -> bool:
    """Return whether a function is computed in vectors; the others call the C library lane by lane."""
    return op in _POLYNOMIALS and (op != "erf" or t == "float")
