"""exp, expm1, log, log1p and tanh as vector polynomials: one algorithm with constants for float and for double.

The polynomials of float are Cephes'; the logarithm of double, and its order of additions, are FreeBSD's msun (fdlibm).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.reals import Reals

_INF, _NAN = float("inf"), float("nan")


class Numbers(NamedTuple):
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


FLOAT_CONSTANTS = {
    "float": Numbers(
        23, 127, 12582912.0, 0.693359375, -2.12194440e-4,
        (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
        -104.0, 89.0, -18.0, 0x3F3504F3, 1.17549435e-38, 23, 25,
    ),
    "double": Numbers(
        52, 1023, 6755399441055744.0, 6.93147180369123816490e-01, 1.90821492927058770002e-10,
        tuple(1 / math.factorial(k) for k in range(13, 1, -1)),
        -746.0, 710.0, -40.0, 0x3FE6A09E667F3BCD, 2.2250738585072014e-308, 54, 54,
    ),
}
_LOG_FLOAT = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
              2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
_LOG_DOUBLE = (1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
               2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01)


def _exp_parts(f: Reals, z: Numbers, x: str, bias: int) -> tuple[str, str]:
    """Split x = n ln 2 + r; return the bits of magic + n + bias, and exp(r) - 1."""
    t = f.fma(x, f.c(1.4426950408889634), f.c(z.magic + bias))
    n = f.sub(t, f.c(z.magic + bias))
    r = f.fma(n, f.c(-z.ln2_high), x)
    r = f.fma(n, f.c(-z.ln2_low), r)
    return f.bits(t), f.fma(f.mul(r, r), f.poly(r, *z.exp), r)


def exp(o: Ops, t: str, x: str) -> str:
    """Emit exp. 2**n is multiplied in two halves: the first is exact, the second rounds to a denormal or to infinity."""
    f, z = Reals(o, t), FLOAT_CONSTANTS[t]
    bits, p = _exp_parts(f, z, f.clamped(x, z.lowest, z.highest), 2 * z.bias)  # low bits: the sum of two exponents
    if t == "double":
        bits = f.i("and", bits, 0xFFFF)  # in float the shifts drop the other bits
    low = f.i("lshr", bits, 1)
    first = f.real(f.i("shl", low, z.digits))
    second = f.real(f.i("shl", f.i("sub", bits, low), z.digits))
    return f.mul(f.fma(p, first, first), second)


def _expm1_core(f: Reals, z: Numbers, x: str) -> str:
    bits, p = _exp_parts(f, z, x, z.bias - 1)
    s = f.real(f.i("shl", bits, z.digits))  # 2**(n - 1)
    out = f.fma(s, p, f.sub(s, f.c(0.5)))
    return f.add(out, out)


def expm1(o: Ops, t: str, x: str) -> str:
    f, z = Reals(o, t), FLOAT_CONSTANTS[t]
    # expm1(x) is x there; the core halves x, which loses the last bit if the half is denormal
    return f.where("olt", f.abs(x), f.c(2 * z.tiny), x, _expm1_core(f, z, f.clamped(x, z.gone, z.highest)))


def tanh(o: Ops, t: str, x: str) -> str:
    f, z = Reals(o, t), FLOAT_CONSTANTS[t]
    y = f.mul(f.abs(x), f.c(-2.0))
    e = _expm1_core(f, z, f.where("olt", y, f.c(z.gone), f.c(z.gone), y))
    return f.copysign(f.div(e, f.add(e, f.c(2.0))), x)  # the fraction is -tanh(|x|)


def _log_split(f: Reals, z: Numbers, x: str) -> tuple[str, str]:
    """Split a normal x = 2**n * m with m near 1; return n, as an integer, and m."""
    n = f.i("ashr", f.i("sub", f.bits(x), z.root), z.digits)
    return n, f.real(f.i("sub", f.bits(x), f.i("shl", n, z.digits)))


def _log_core(f: Reals, z: Numbers, n: str, d: str) -> str:
    """Emit log(2**n * (1 + d))."""
    return (_log_float if f.type_ == "float" else _log_double)(f, z, n, d)


def _log_float(f: Reals, z: Numbers, n: str, d: str) -> str:
    e = f.o.convert("sitofp", "i32", n, "float")
    s = f.mul(d, d)
    y = f.mul(f.mul(f.poly(d, *_LOG_FLOAT), d), s)
    y = f.fma(e, f.c(z.ln2_low), y)
    y = f.fma(s, f.c(-0.5), y)
    return f.fma(e, f.c(z.ln2_high), f.add(d, y))


def _log_double(f: Reals, z: Numbers, n: str, d: str) -> str:
    k = f.sub(f.real(f.i("add", f.bits(f.c(z.magic)), n)), f.c(z.magic))  # few CPUs convert vectors of 64-bit integers
    s = f.div(d, f.add(d, f.c(2.0)))
    square = f.mul(s, s)
    half = f.mul(f.mul(d, d), f.c(0.5))
    r = f.mul(square, f.poly(square, *_LOG_DOUBLE))
    low = f.fma(s, f.add(half, r), f.mul(k, f.c(z.ln2_low)))
    return f.fma(k, f.c(z.ln2_high), f.sub(d, f.sub(half, low)))


def _log_edges(f: Reals, x: str, at_zero: str, out: str) -> str:
    """Select special cases: infinity and NaN stay, below zero is NaN, zero is -infinity. ``at_zero`` is compared with zero."""
    out = f.where("uno", x, x, x, out)
    out = f.where("ult", x, f.c(_INF), out, x)
    out = f.where("olt", at_zero, f.c(0.0), f.c(_NAN), out)
    return f.where("oeq", at_zero, f.c(0.0), f.c(-_INF), out)


def log(o: Ops, t: str, x: str) -> str:
    f, z = Reals(o, t), FLOAT_CONSTANTS[t]
    tiny = o.cmp("olt", t, x, f.c(z.tiny))
    n, m = _log_split(f, z, o.select(tiny, t, f.mul(x, f.c(2.0**z.lift)), x))
    n = o.select(tiny, f.whole, f.i("sub", n, z.lift), n)
    return _log_edges(f, x, x, _log_core(f, z, n, f.sub(m, f.c(1.0))))


def log1p(o: Ops, t: str, x: str) -> str:
    f, z = Reals(o, t), FLOAT_CONSTANTS[t]
    one = f.c(1.0)
    u = f.add(x, one)
    v = f.sub(u, one)
    rest = f.add(f.sub(one, f.sub(u, v)), f.sub(x, v))  # the rounding error of u
    n, m = _log_split(f, z, u)
    scale = f.real(o.op("sub", f.whole, o.c(f.whole, z.bias << z.digits), f.i("shl", n, z.digits)))
    # for larger x the error is below the last bit, and its scale would be out of range
    rest = f.where("olt", x, f.c(2.0**z.full), f.mul(rest, scale), f.c(0.0))
    out = _log_edges(f, x, u, _log_core(f, z, n, f.add(f.sub(m, one), rest)))
    return f.where("oeq", x, f.c(0.0), x, out)
