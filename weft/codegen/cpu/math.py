"""Mathematical functions: own vector polynomials for float32 (float64: math64.py), else the C library lane by lane.

Errors of the float32 functions are measured in tests/cpu/test_math.py (in ulp; NaN, infinities, signed zero and
denormals as NumPy). The polynomials of exp and log are Cephes', those of erf, sin and cos Norbert Juffa's.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen.cpu import math64
from weft.codegen.cpu.libm import libm, rare
from weft.codegen.cpu.machine import Ops

__all__ = ["function", "libm"]

_INF, _NAN = float("inf"), float("nan")


def function(o: Ops, op: str, t: str, args: list[str]) -> str:
    """One of kernel.MACHINE's functions on float or double registers."""
    own = _OWN.get(op) if t == "float" else math64.OWN.get(op)
    return own(o, *args) if own else libm(o, op, t, args)


def has_vectors(op: str, t: str) -> bool:
    """Whether a function is computed with vectors; others are the C library's, lane by lane."""
    return op in (_OWN if t == "float" else math64.OWN)


class _F:
    """Short names for float operations."""

    __slots__ = ("o",)

    def __init__(self, o: Ops) -> None:
        self.o = o

    def c(self, x: float) -> str:
        return self.o.c("float", x)

    def k(self, x: float) -> str:
        return self.o.kept("float", x)

    def add(self, a: str, b: str) -> str:
        return self.o.op("fadd", "float", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.o.op("fsub", "float", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.o.op("fmul", "float", a, b)

    def div(self, a: str, b: str) -> str:
        return self.o.op("fdiv", "float", a, b)

    def fma(self, a: str, b: str, c: str) -> str:
        if self.o.isa.fma:
            return self.o.intrinsic("fma", "float", a, b, c)
        return self.add(self.mul(a, b), c)

    def abs(self, a: str) -> str:
        return self.o.intrinsic("fabs", "float", a)

    def copysign(self, a: str, b: str) -> str:
        return self.o.intrinsic("copysign", "float", a, b)

    def where(self, word: str, a: str, b: str, yes: str, no: str) -> str:
        return self.o.select(self.o.cmp(word, "float", a, b), "float", yes, no)

    def bits(self, a: str) -> str:
        return self.o.convert("bitcast", "float", a, "i32")

    def real(self, a: str) -> str:
        return self.o.convert("bitcast", "i32", a, "float")

    def i(self, word: str, a: str, b: int | str) -> str:
        return self.o.op(word, "i32", a, self.o.c("i32", b) if isinstance(b, int) else b)

    def pairs(self, x: str, s: str, *coefs: float) -> str:
        """A polynomial of an even number of coefficients in pairs, highest power first; ``s`` is x * x.

        Half as long a chain as ``poly``, which is what counts where a few chains must fill the machine."""
        r = self.fma(self.c(coefs[0]), x, self.k(coefs[1]))
        for a, b in zip(coefs[2::2], coefs[3::2], strict=True):
            r = self.fma(r, s, self.fma(self.c(a), x, self.k(b)))
        return r

    def poly(self, x: str, *coefs: float, kept: bool = False) -> str:
        """Highest power first."""
        r = self.c(coefs[0])
        for a in coefs[1:]:
            r = self.fma(r, x, self.k(a) if kept else self.c(a))
        return r


_MAGIC = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, held in the low bits
_LN2_HI, _LN2_LO = 0.693359375, -2.12194440e-4
_LOG2_E = 1.44269504088896341
_EXP2 = (1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2, 2.402264791363012e-1,
         6.931472028550421e-1)
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def _exp_parts(f: _F, x: str, bias: int = 0) -> tuple[str, str]:
    """x = n ln 2 + r: (the bits of _MAGIC + n + bias, exp(r) - 1)."""
    t = f.fma(x, f.c(_LOG2_E), f.c(_MAGIC + bias))
    n = f.sub(t, f.c(_MAGIC + bias))
    r = f.fma(n, f.c(-_LN2_HI), x)
    r = f.fma(n, f.c(-_LN2_LO), r)
    return f.bits(t), f.fma(f.mul(r, r), f.poly(r, *_EXP), r)


def _exp(o: Ops, x: str) -> str:
    """2**n is multiplied in two halves: the first keeps all bits, the second rounds to a denormal or to infinity."""
    f = _F(o)
    x = f.where("ogt", x, f.c(89.0), f.c(89.0), x)
    x = f.where("olt", x, f.c(-104.0), f.c(-104.0), x)
    bits, p = _exp_parts(f, x, 254)  # the low bits hold n + 254, the sum of the two biased exponents
    low = f.i("lshr", bits, 1)
    first = f.real(f.i("shl", low, 23))
    second = f.real(f.i("shl", f.i("sub", bits, low), 23))
    return f.mul(f.fma(p, first, first), second)


def _expm1_core(f: _F, x: str) -> str:
    bits, p = _exp_parts(f, x, 126)
    s = f.real(f.i("shl", bits, 23))  # 2**(n - 1)
    out = f.fma(s, p, f.sub(s, f.c(0.5)))
    return f.add(out, out)


def _expm1(o: Ops, x: str) -> str:
    f = _F(o)
    y = f.where("ogt", x, f.c(89.0), f.c(89.0), x)
    y = f.where("olt", y, f.c(-18.0), f.c(-18.0), y)
    return f.where("oeq", x, f.c(0.0), x, _expm1_core(f, y))


def _tanh(o: Ops, x: str) -> str:
    f = _F(o)
    a = f.abs(x)
    y = f.mul(a, f.c(-2.0))
    y = f.where("olt", y, f.c(-18.0), f.c(-18.0), y)
    e = _expm1_core(f, y)
    out = f.div(e, f.add(e, f.c(2.0)))  # minus tanh(a)
    return f.copysign(out, x)


_LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)


def _log_split(f: _F, x: str) -> tuple[str, str]:
    """A normal x as 2**n * m with m near 1: (n as i32, m)."""
    n = f.i("ashr", f.i("sub", f.bits(x), 0x3F3504F3), 23)
    return n, f.real(f.i("sub", f.bits(x), f.i("shl", n, 23)))


def _log_core(f: _F, n: str, d: str) -> str:
    """log(2**n * (1 + d))."""
    e = f.o.convert("sitofp", "i32", n, "float")
    z = f.mul(d, d)
    y = f.mul(f.mul(f.poly(d, *_LOG), d), z)
    y = f.fma(e, f.c(_LN2_LO), y)
    y = f.fma(z, f.c(-0.5), y)
    return f.fma(e, f.c(_LN2_HI), f.add(d, y))


def _log_edges(f: _F, x: str, at_zero: str, out: str) -> str:
    """Infinity and NaN stay, below zero is NaN, zero is minus infinity; ``at_zero`` is compared with zero."""
    out = f.where("ult", x, f.c(_INF), out, x)
    out = f.where("olt", at_zero, f.c(0.0), f.c(_NAN), out)
    return f.where("oeq", at_zero, f.c(0.0), f.c(-_INF), out)


def _log(o: Ops, x: str) -> str:
    f = _F(o)
    tiny = o.cmp("olt", "float", x, f.c(1.17549435e-38))
    y = o.select(tiny, "float", f.mul(x, f.c(8388608.0)), x)
    n, m = _log_split(f, y)
    n = o.select(tiny, "i32", f.i("sub", n, 23), n)
    out = _log_core(f, n, f.sub(m, f.c(1.0)))
    out = f.where("uno", x, x, x, out)
    return _log_edges(f, x, x, out)


def _log1p(o: Ops, x: str) -> str:
    f = _F(o)
    one = f.c(1.0)
    u = f.add(x, one)
    v = f.sub(u, one)
    rest = f.add(f.sub(one, f.sub(u, v)), f.sub(x, v))  # what rounding took from u
    n, m = _log_split(f, u)
    scale = f.real(o.op("sub", "i32", o.c("i32", 0x3F800000), f.i("shl", n, 23)))
    # beyond 2**25 the rest is below the last bit, and its scale would be out of range
    rest = f.where("olt", x, f.c(33554432.0), f.mul(rest, scale), f.c(0.0))
    out = _log_core(f, n, f.add(f.sub(m, one), rest))
    out = f.where("uno", x, x, x, out)
    out = _log_edges(f, x, u, out)
    return f.where("oeq", x, f.c(0.0), x, out)


def _erf(o: Ops, x: str) -> str:
    f = _F(o)
    t = f.abs(x)
    t = f.where("ogt", t, f.c(4.0), f.c(4.0), t)  # beyond, it is 1
    s = f.mul(t, t)
    # log2(1 - erf(t)), then 2**r by Cephes' exp2
    r = f.pairs(t, s, *(k * _LOG2_E for k in (-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1,
                                              -6.34846687e-1)))
    r = f.fma(r, s, f.mul(t, f.c((-1.28717512e-1 - 1.0) * _LOG2_E)))
    n = f.add(r, f.c(_MAGIC + 127))
    d = f.sub(r, f.sub(n, f.c(_MAGIC + 127)))
    p = f.mul(d, f.pairs(d, f.mul(d, d), *_EXP2))
    scale = f.real(f.i("shl", f.bits(n), 23))
    far = f.copysign(f.sub(f.c(1.0), f.fma(p, scale, scale)), x)
    near = f.poly(s, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1, kept=True)
    near = f.fma(near, x, x)
    return f.where("ogt", t, f.c(0.927734375), far, near)


def _sincos(o: Ops, x: str, name: str) -> str:
    """Quadrants of pi/2 in three parts; beyond 100,000 the C library."""
    f = _F(o)
    t = f.fma(x, f.c(0.636619772), f.c(_MAGIC))
    j = f.sub(t, f.c(_MAGIC))
    r = f.fma(j, f.c(-1.57079601e00), x)
    r = f.fma(j, f.c(-3.13916473e-07), r)
    r = f.fma(j, f.c(-5.39030253e-15), r)
    quadrant = f.i("add", f.bits(t), 1) if name == "cos" else f.bits(t)
    s = f.mul(r, r)
    sine = f.fma(f.poly(s, 2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1), f.mul(r, s), r)
    cosine = f.poly(s, 2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -5.00000000e-1, 1.0)
    odd = o.cmp("ne", "i32", f.i("and", quadrant, 1), o.c("i32", 0))
    out = o.select(odd, "float", cosine, sine)
    flip = f.i("shl", f.i("and", quadrant, 2), 30)
    out = f.real(f.i("xor", f.bits(out), flip))
    if name == "sin":
        out = f.where("oeq", x, f.c(0.0), x, out)
    return rare(o, name, "float", x, o.cmp("ugt", "float", f.abs(x), f.c(100000.0)), out)


def _sin(o: Ops, x: str) -> str:
    return _sincos(o, x, "sin")


def _cos(o: Ops, x: str) -> str:
    return _sincos(o, x, "cos")


_OWN: dict[str, Callable[..., str]] = {
    "exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p, "tanh": _tanh, "erf": _erf, "sin": _sin, "cos": _cos,
}
