"""Functions of mathematics that are primitives, each told whole: reference, formula, derivative, and the function of ``wf``.

A new primitive of floats belongs here (CONTRIBUTING.md, "Adding a primitive"): no other file needs to know of it.
"""

from __future__ import annotations

import math
from typing import Any

from weft.functions.elementwise import unary
from weft.graph.primitives import derivatives as d
from weft.graph.primitives.call import call
from weft.graph.primitives.elementwise import each, entry
from weft.graph.primitives.kinds import FLOAT32, FLOATS

# ---- erfc

# ((1 + 2 a) exp(a * a) erfc(a) - 1) / s as a polynomial in 2 s - 1, where s is a / (a + 4): interpolated at Chebyshev's points
# between 0 and the number from which erfc is 0; off by 3e-9 and 5e-18
_ERFC_FLOAT = (
    -0.001369988444, -0.001179898884, 0.01098895757, -0.04305631091, 0.1176210432, -0.2502841119, 0.4377120524,
    -0.6397960258, 0.7759921888, -0.7452324968, 0.465990234,
)
_ERFC_DOUBLE = (
    1.8568190642048207e-9, -1.5968399067769785e-10, -2.8016413675015326e-8, -2.4493994042639578e-9, 2.2598658982748924e-7,
    -8.2739680377885975e-8, -1.5740789618667658e-6, 2.1652580954874446e-6, 9.259103855592433e-6, -3.1704317637505296e-5,
    -1.7096454992885093e-5, 0.00031833998278657785, -0.00071685267517612876, -0.00079869389898198176, 0.010862633725407324,
    -0.043258101846471193, 0.11759313293597199, -0.25025386455960808, 0.43771953455540467, -0.63979766662805939,
    0.77599177513747067, -0.74523247093223027, 0.46599023725110502,
)


def _erfc_formula(m: Any, x: Any) -> Any:
    """exp(-a * a) / (1 + 2 a) is most of it, and 1 + s p of that the rest: exact at 0, and no digits cancel at any a = abs(x)."""
    last, (first, *rest) = (10.5, _ERFC_FLOAT) if x.dtype == FLOAT32 else (28.0, _ERFC_DOUBLE)
    one, two = m.const(1, x), m.const(2, x)
    a = m.abs(x)
    a = m.select(m.gt(a, m.const(last, x)), m.const(last, x), a)  # NaN stays
    s = m.div(a, m.add(a, m.const(4, x)))
    q = m.sub(m.add(s, s), one)
    p = m.const(first, x)
    for coefficient in rest:
        p = m.add(m.mul(p, q), m.const(coefficient, x))
    square = m.mul(a, a)
    lost = m.fma(a, a, m.neg(square))  # of the square by rounding: exp would multiply it
    bell = m.exp(m.neg(square))
    more = m.sub(m.mul(s, p), m.add(lost, m.mul(lost, m.mul(s, p))))
    right = m.div(m.add(bell, m.mul(bell, more)), m.add(m.add(a, a), one))
    return m.select(m.lt(x, m.const(0, x)), m.sub(two, right), right)


entry(
    "erfc", 1, FLOATS, each(math.erfc), _erfc_formula, lambda g, out, x: d.erf(call.negative(g), out, x), flops=60, exact=False,
)
erfc = unary(
    "erfc",
    """The complementary error function ``1 - erf(x)``, to a few units of the last digit even where that is tiny.

    By the form of M. M. Shepherd and J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < inf,
    Mathematics of Computation 36, 1981.""",
    "wf.array([0.0, 30.0])", "[1.0, 0.0]",
)
