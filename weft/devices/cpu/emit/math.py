"""Mathematical functions: vector polynomials where weft has its own, else the C library lane by lane.

tests/cpu/test_math.py measures errors in ulp; NaN, infinities, signed zeros and denormals give NumPy's results.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.devices.cpu.emit import exp_log, sin_cos
from weft.devices.cpu.emit.exp_log import FLOAT_CONSTANTS
from weft.devices.cpu.emit.libm import libm
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.reals import Reals

_LOG2_E = 1.44269504088896341
_EXP2 = (1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2, 2.402264791363012e-1,
         6.931472028550421e-1)
_POLYNOMIALS: dict[str, Callable[[Ops, str, str], str]] = {
    "exp": exp_log.exp, "expm1": exp_log.expm1, "log": exp_log.log, "log1p": exp_log.log1p, "tanh": exp_log.tanh,
    "sin": sin_cos.sin, "cos": sin_cos.cos,
}
VECTOR_FUNCTIONS = frozenset((*_POLYNOMIALS, "erf"))  # have polynomials, at least for float


def function(o: Ops, op: str, t: str, args: list[str]) -> str:
    """Emit one of kernel.MACHINE's functions on float or double registers."""
    if op == "erf" and t == "float":
        return _erf(o, *args)
    own = _POLYNOMIALS.get(op)
    return own(o, t, *args) if own else libm(o, op, t, args)


def has_vectors(op: str, t: str) -> bool:
    """Return whether a function is computed in vectors; the others call the C library lane by lane."""
    return op in _POLYNOMIALS or (op == "erf" and t == "float")


def _erf(o: Ops, x: str) -> str:
    """Emit erf: near zero Norbert Juffa's polynomial; beyond, 1 - 2**r with his polynomial for r and Cephes' exp2."""
    f = Reals(o, "float")
    magic = FLOAT_CONSTANTS["float"].magic + 127
    t = f.abs(x)
    t = f.where("ogt", t, f.c(4.0), f.c(4.0), t)  # erf(4) rounds to 1
    s = f.mul(t, t)
    r = f.pairs(t, s, *(k * _LOG2_E for k in (-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1,
                                              -6.34846687e-1)))
    r = f.fma(r, s, f.mul(t, f.c((-1.28717512e-1 - 1.0) * _LOG2_E)))
    n = f.add(r, f.c(magic))
    d = f.sub(r, f.sub(n, f.c(magic)))
    p = f.mul(d, f.pairs(d, f.mul(d, d), *_EXP2))
    scale = f.real(f.i("shl", f.bits(n), 23))
    far = f.copysign(f.sub(f.c(1.0), f.fma(p, scale, scale)), x)
    near = f.poly(s, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1, kept=True)
    near = f.fma(near, x, x)
    return f.where("ogt", t, f.c(0.927734375), far, near)
