"""exp, expm1, log, log1p, tanh, sin and cos of float64 as vector polynomials; the rest is the C library's, lane by lane.

The coefficients of the logarithm, the sine and the cosine, and their order of additions, are those of FreeBSD's msun
(fdlibm).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.codegen.cpu.libm import libm, rare
from weft.codegen.cpu.machine import Ops

_INF, _NAN = float("inf"), float("nan")
_MAGIC = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, held in the low bits
_LN2_HI, _LN2_LO = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_EXP = tuple(1 / math.factorial(k) for k in range(13, 1, -1))
_LOG = (1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
        2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01)


class _D:
    """Short names for double operations."""

    __slots__ = ("o",)

    def __init__(self, o: Ops) -> None:
        self.o = o

    def c(self, x: float) -> str:
        return self.o.c("double", x)

    def add(self, a: str, b: str) -> str:
        return self.o.op("fadd", "double", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.o.op("fsub", "double", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.o.op("fmul", "double", a, b)

    def div(self, a: str, b: str) -> str:
        return self.o.op("fdiv", "double", a, b)

    def fma(self, a: str, b: str, c: str) -> str:
        if self.o.isa.fma:
            return self.o.intrinsic("fma", "double", a, b, c)
        return self.add(self.mul(a, b), c)

    def where(self, word: str, a: str, b: str, yes: str, no: str) -> str:
        return self.o.select(self.o.cmp(word, "double", a, b), "double", yes, no)

    def bits(self, a: str) -> str:
        return self.o.convert("bitcast", "double", a, "i64")

    def real(self, a: str) -> str:
        return self.o.convert("bitcast", "i64", a, "double")

    def i(self, word: str, a: str, b: int | str) -> str:
        return self.o.op(word, "i64", a, self.o.c("i64", b) if isinstance(b, int) else b)

    def poly(self, x: str, coefs: tuple[float, ...]) -> str:
        """Highest power first."""
        r = self.c(coefs[0])
        for k in coefs[1:]:
            r = self.fma(r, x, self.c(k))
        return r


def _exp_parts(f: _D, x: str, bias: int) -> tuple[str, str]:
    """x = n ln 2 + r: (the bits of _MAGIC + n + bias, exp(r) - 1)."""
    t = f.fma(x, f.c(1.4426950408889634), f.c(_MAGIC + bias))
    n = f.sub(t, f.c(_MAGIC + bias))
    r = f.fma(n, f.c(-_LN2_HI), x)
    r = f.fma(n, f.c(-_LN2_LO), r)
    return f.bits(t), f.fma(f.mul(r, r), f.poly(r, _EXP), r)


def _clamped(f: _D, x: str, low: float, high: float) -> str:
    x = f.where("ogt", x, f.c(high), f.c(high), x)
    return f.where("olt", x, f.c(low), f.c(low), x)


def _exp(o: Ops, x: str) -> str:
    """2**n is multiplied in two halves: the first keeps all bits, the second rounds to a denormal or to infinity."""
    f = _D(o)
    bits, p = _exp_parts(f, _clamped(f, x, -746.0, 710.0), 2046)
    bits = f.i("and", bits, 0xFFFF)
    low = f.i("lshr", bits, 1)
    first = f.real(f.i("shl", low, 52))
    second = f.real(f.i("shl", f.i("sub", bits, low), 52))
    return f.mul(f.fma(p, first, first), second)


def _expm1_core(f: _D, x: str) -> str:
    bits, p = _exp_parts(f, x, 1022)
    s = f.real(f.i("shl", bits, 52))  # 2**(n - 1)
    out = f.fma(s, p, f.sub(s, f.c(0.5)))
    return f.add(out, out)


def _expm1(o: Ops, x: str) -> str:
    f = _D(o)
    return f.where("oeq", x, f.c(0.0), x, _expm1_core(f, _clamped(f, x, -40.0, 710.0)))


def _tanh(o: Ops, x: str) -> str:
    f = _D(o)
    y = f.mul(o.intrinsic("fabs", "double", x), f.c(-2.0))
    e = _expm1_core(f, f.where("olt", y, f.c(-40.0), f.c(-40.0), y))
    return o.intrinsic("copysign", "double", f.div(e, f.add(e, f.c(2.0))), x)


def _log(o: Ops, x: str) -> str:
    f = _D(o)
    tiny = o.cmp("olt", "double", x, f.c(2.2250738585072014e-308))
    n, m = _log_split(f, o.select(tiny, "double", f.mul(x, f.c(2.0**54)), x))
    out = _log_core(f, o.select(tiny, "i64", f.i("sub", n, 54), n), f.sub(m, f.c(1.0)))
    return _log_edges(f, x, x, out)


def _log1p(o: Ops, x: str) -> str:
    f = _D(o)
    one = f.c(1.0)
    u = f.add(x, one)
    v = f.sub(u, one)
    rest = f.add(f.sub(one, f.sub(u, v)), f.sub(x, v))  # what rounding took from u
    n, m = _log_split(f, u)
    scale = f.real(o.op("sub", "i64", o.c("i64", 0x3FF0000000000000), f.i("shl", n, 52)))
    # beyond 2**54 the rest is below the last bit, and its scale would be out of range
    rest = f.where("olt", x, f.c(2.0**54), f.mul(rest, scale), f.c(0.0))
    out = _log_edges(f, x, u, _log_core(f, n, f.add(f.sub(m, one), rest)))
    return f.where("oeq", x, f.c(0.0), x, out)


def _log_split(f: _D, x: str) -> tuple[str, str]:
    """A normal x as 2**n * m with m near 1: (n as i64, m)."""
    n = f.i("ashr", f.i("sub", f.bits(x), 0x3FE6A09E667F3BCD), 52)
    return n, f.real(f.i("sub", f.bits(x), f.i("shl", n, 52)))


def _log_core(f: _D, n: str, d: str) -> str:
    """log(2**n * (1 + d))."""
    k = f.sub(f.real(f.i("add", f.bits(f.c(_MAGIC)), n)), f.c(_MAGIC))  # few machines convert 64-bit integers in vectors
    s = f.div(d, f.add(d, f.c(2.0)))
    z = f.mul(s, s)
    half = f.mul(f.mul(d, d), f.c(0.5))
    r = f.mul(z, f.poly(z, _LOG))
    low = f.fma(s, f.add(half, r), f.mul(k, f.c(_LN2_LO)))
    return f.fma(k, f.c(_LN2_HI), f.sub(d, f.sub(half, low)))


def _log_edges(f: _D, x: str, at_zero: str, out: str) -> str:
    """Infinity and NaN stay, below zero is NaN, zero is minus infinity; ``at_zero`` is compared with zero."""
    out = f.where("uno", x, x, x, out)
    out = f.where("ult", x, f.c(_INF), out, x)
    out = f.where("olt", at_zero, f.c(0.0), f.c(_NAN), out)
    return f.where("oeq", at_zero, f.c(0.0), f.c(-_INF), out)


_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)  # their sum
_SIN = (1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
        8.33333333332248946124e-03)
_SIN1 = -1.66666666666666324348e-01
_COS = (-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
        -1.38888888888741095749e-03, 4.16666666666666019037e-02)


def _sincos(o: Ops, x: str, name: str) -> str:
    """x = n pi/2 + r + low, where low is what r has lost by rounding; beyond 100,000 the C library."""
    if not o.isa.fma:
        return libm(o, name, "double", [x])
    f = _D(o)
    t = f.fma(x, f.c(0.6366197723675814), f.c(_MAGIC))
    n = o.op("fneg", "double", f.sub(t, f.c(_MAGIC)))
    near = f.fma(n, f.c(_HALF_PI[0]), x)
    part = f.mul(n, f.c(_HALF_PI[1]))
    r = f.add(near, part)
    lost = f.fma(n, f.c(_HALF_PI[1]), o.op("fneg", "double", part))  # by rounding the product, then the sum
    low = f.fma(n, f.c(_HALF_PI[2]), f.add(f.add(f.sub(near, r), part), lost))
    quadrant = f.i("add", f.bits(t), 1) if name == "cos" else f.bits(t)
    z, half = f.mul(r, r), f.c(0.5)
    v = f.mul(z, r)
    inner = f.sub(f.mul(half, low), f.mul(v, f.poly(z, _SIN)))
    sine = f.sub(r, f.sub(f.sub(f.mul(z, inner), low), f.mul(v, f.c(_SIN1))))
    hz = f.mul(half, z)
    w = f.sub(f.c(1.0), hz)
    rest = f.sub(f.mul(z, f.mul(z, f.poly(z, _COS))), f.mul(r, low))
    cosine = f.add(w, f.add(f.sub(f.sub(f.c(1.0), w), hz), rest))
    odd = o.cmp("ne", "i64", f.i("and", quadrant, 1), o.c("i64", 0))
    out = o.select(odd, "double", cosine, sine)
    out = f.real(f.i("xor", f.bits(out), f.i("shl", f.i("and", quadrant, 2), 62)))
    if name == "sin":
        out = f.where("oeq", x, f.c(0.0), x, out)
    size = o.intrinsic("fabs", "double", x)
    return rare(o, name, "double", x, o.cmp("ugt", "double", size, f.c(100000.0)), out)


def _sin(o: Ops, x: str) -> str:
    return _sincos(o, x, "sin")


def _cos(o: Ops, x: str) -> str:
    return _sincos(o, x, "cos")


OWN: dict[str, Callable[..., str]] = {
    "exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p, "tanh": _tanh, "sin": _sin, "cos": _cos,
}
