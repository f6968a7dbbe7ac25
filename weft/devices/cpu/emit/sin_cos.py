"""sin and cos as vector polynomials over quadrants, for float and double; beyond 100,000 the C library computes them.

The polynomials of float are Norbert Juffa's; those of double, and their order of additions, are FreeBSD's msun (fdlibm).
"""

from __future__ import annotations

from weft.devices.cpu.emit.exp_log import FLOAT_CONSTANTS
from weft.devices.cpu.emit.libm import libm, rare
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.reals import Reals

_FAR = 100000.0
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)  # pi/2 is their sum
_SIN = (1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
        8.33333333332248946124e-03)
_SIN1 = -1.66666666666666324348e-01
_COS = (-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
        -1.38888888888741095749e-03, 4.16666666666666019037e-02)


def sin(o: Ops, t: str, x: str) -> str:
    return _sin_cos_float(o, x, "sin") if t == "float" else _sin_cos_double(o, x, "sin")


def cos(o: Ops, t: str, x: str) -> str:
    return _sin_cos_float(o, x, "cos") if t == "float" else _sin_cos_double(o, x, "cos")


def _sin_cos_float(o: Ops, x: str, name: str) -> str:
    """Emit sin or cos of a float. The argument is reduced by multiples of pi/2 in three parts."""
    f, magic = Reals(o, "float"), FLOAT_CONSTANTS["float"].magic
    t = f.fma(x, f.c(0.636619772), f.c(magic))
    j = f.sub(t, f.c(magic))
    r = f.fma(j, f.c(-1.57079601e00), x)
    r = f.fma(j, f.c(-3.13916473e-07), r)
    r = f.fma(j, f.c(-5.39030253e-15), r)
    quadrant = f.i("add", f.bits(t), 1) if name == "cos" else f.bits(t)
    s = f.mul(r, r)
    sine = f.fma(f.poly(s, 2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1), f.mul(r, s), r)
    cosine = f.poly(s, 2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -5.00000000e-1, 1.0)
    return _select_quadrant(f, name, x, quadrant, sine, cosine)


def _sin_cos_double(o: Ops, x: str, name: str) -> str:
    """Emit sin or cos of a double: x = n pi/2 + r + low, where low is the rounding error of r."""
    if not o.isa.fma:
        return libm(o, name, "double", [x])
    f, magic = Reals(o, "double"), FLOAT_CONSTANTS["double"].magic
    t = f.fma(x, f.c(0.6366197723675814), f.c(magic))
    n = f.neg(f.sub(t, f.c(magic)))
    near = f.fma(n, f.c(_HALF_PI[0]), x)
    part = f.mul(n, f.c(_HALF_PI[1]))
    r = f.add(near, part)
    lost = f.fma(n, f.c(_HALF_PI[1]), f.neg(part))  # the rounding error of the product; `low` adds that of the sum
    low = f.fma(n, f.c(_HALF_PI[2]), f.add(f.add(f.sub(near, r), part), lost))
    quadrant = f.i("add", f.bits(t), 1) if name == "cos" else f.bits(t)
    z, half = f.mul(r, r), f.c(0.5)
    v = f.mul(z, r)
    inner = f.sub(f.mul(half, low), f.mul(v, f.poly(z, *_SIN)))
    sine = f.sub(r, f.sub(f.sub(f.mul(z, inner), low), f.mul(v, f.c(_SIN1))))
    hz = f.mul(half, z)
    w = f.sub(f.c(1.0), hz)
    rest = f.sub(f.mul(z, f.mul(z, f.poly(z, *_COS))), f.mul(r, low))
    cosine = f.add(w, f.add(f.sub(f.sub(f.c(1.0), w), hz), rest))
    return _select_quadrant(f, name, x, quadrant, sine, cosine)


def _select_quadrant(f: Reals, name: str, x: str, quadrant: str, sine: str, cosine: str) -> str:
    """Select sine or cosine by the quadrant and set its sign; use the C library for large arguments."""
    o, sign = f.o, 30 if f.type_ == "float" else 62
    odd = o.cmp("ne", f.whole, f.i("and", quadrant, 1), o.c(f.whole, 0))
    out = o.select(odd, f.type_, cosine, sine)
    flip = f.i("shl", f.i("and", quadrant, 2), sign)
    out = f.real(f.i("xor", f.bits(out), flip))
    if name == "sin":
        out = f.where("oeq", x, f.c(0.0), x, out)  # keeps -0.0
    return rare(o, name, f.type_, x, o.cmp("ugt", f.type_, f.abs(x), f.c(_FAR)), out)
