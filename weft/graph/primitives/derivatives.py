"""Derivatives of element-wise primitives: ``rule(g, out, *inputs, **params) -> one node an input, or None for zero``.

Each node returned has the shape of the output; the gradient walk sums over broadcast dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft.dtypes.formats import FLOATS, Format
from weft.graph.node import Node
from weft.graph.primitives import call as c
from weft.graph.primitives.call import call, number
from weft.graph.primitives.table import CONSTANT

OneCotangent = tuple[Node]
TwoCotangents = tuple[Node | None, Node | None]
mul, div, neg, sub, plus = call.multiply, call.divide, call.negative, call.subtract, call.add


def unary(rule: Callable[[Node, Node, Node], Node]) -> Callable[..., OneCotangent]:
    """Return the rule of a unary primitive from ``rule(g, out, x) -> derivative``."""
    return lambda g, out, x: (rule(g, out, x),)


def add(g: Node, out: Node, x: Node, y: Node) -> TwoCotangents:
    return g, g


def subtract(g: Node, out: Node, x: Node, y: Node) -> TwoCotangents:
    return g, neg(g)


def multiply(g: Node, out: Node, x: Node, y: Node) -> TwoCotangents:
    return mul(g, y), mul(g, x)


def divide(g: Node, out: Node, x: Node, y: Node) -> TwoCotangents:
    part = div(g, y)
    return part, neg(mul(part, out))


def remainder(g: Node, out: Node, x: Node, y: Node) -> TwoCotangents:
    return g, neg(mul(g, call.floor_divide(x, y)))


def power(g: Node, out: Node, x: Node, y: Node) -> TwoCotangents:
    zero, one = number(0, x), number(1, x)
    if y.op is CONSTANT:
        exponent = float(y.params["value"])
        if exponent == 0.0:
            return None, None
        return mul(g, mul(y, call.pow(x, c.number(exponent - 1, x)))), None
    # y == 0 is a constant function, also where x ** (y - 1) would be infinite: the base there is replaced by 1
    flat = call.logical_and(call.equal(y, zero), call.less(call.abs(x), number(2.0 ** (3 - x.dtype.bias), x)))
    dx = mul(g, mul(y, call.pow(call.where(flat, one, x), sub(y, one))))
    at_zero = call.equal(x, zero)
    dy = mul(g, call.where(at_zero, zero, mul(out, call.log(call.where(at_zero, one, x)))))
    return dx, dy


def _share(g: Node, wins: Node, ties: Node) -> Node:
    """Return g where an operand wins, half of it where the operands are equal, and 0 elsewhere."""
    return call.where(wins, g, call.where(ties, mul(g, number(0.5, g)), number(0, g)))


def maximum(g: Node, out: Node, x: Node, y: Node) -> TwoCotangents:
    ties = call.equal(x, y)
    return _share(g, call.greater(x, y), ties), _share(g, call.greater(y, x), ties)


def minimum(g: Node, out: Node, x: Node, y: Node) -> TwoCotangents:
    ties = call.equal(x, y)
    return _share(g, call.less(x, y), ties), _share(g, call.less(y, x), ties)


def logaddexp(g: Node, out: Node, x: Node, y: Node) -> TwoCotangents:
    """The smaller operand has the share e / (1 + e), the larger one 1 / (1 + e), where e = exp(smaller - larger).

    e is at most 1, so no derivative of a share, of any order, is an infinity times zero. Where the operands are equal, the
    shares are still functions of both. Equal infinities have no difference: each has one half.
    """
    first, alike = call.greater_equal(x, y), call.logical_and(call.equal(x, y), call.isinf(x))
    one = number(1, g)
    e = call.exp(call.where(alike, number(0, g), call.where(first, sub(y, x), sub(x, y))))
    part = div(g, plus(one, e))
    return mul(part, call.where(first, one, e)), mul(part, call.where(first, e, one))


def without_zeros(denominator: Node) -> Node:
    """Return a denominator with 1 in place of 0.

    A numerator of 0 then results in 0 and not NaN, in derivatives of any order.
    """
    return call.where(call.equal(denominator, number(0, denominator)), number(1, denominator), denominator)


def atan2(g: Node, out: Node, y: Node, x: Node) -> TwoCotangents:
    part = div(g, without_zeros(plus(call.square(x), call.square(y))))
    return mul(part, x), neg(mul(part, y))


def hypot(g: Node, out: Node, x: Node, y: Node) -> TwoCotangents:
    """Both derivatives are 0 at the origin. Each operand is divided, not g: g / out is infinite if out is subnormal."""
    length = without_zeros(out)
    return mul(g, div(x, length)), mul(g, div(y, length))


def root_of_squares(g: Node, out: Node, x: Node) -> OneCotangent:
    """The derivative of a square root, but 0 at 0: that of a norm or a deviation with zero terms only."""
    zero = call.equal(out, number(0, out))
    return (call.where(zero, number(0, g), div(mul(g, number(0.5, g)), without_zeros(out))),)


def copysign(g: Node, out: Node, x: Node, y: Node) -> TwoCotangents:
    turned = call.not_equal(call.signbit(x), call.signbit(y))
    return call.where(turned, neg(g), g), None


def where_vjp(g: Node, out: Node, condition: Node, x: Node, y: Node) -> tuple[None, Node, Node]:
    zero = number(0, g)
    return None, call.where(condition, g, zero), call.where(condition, zero, g)


def guard(g: Node, out: Node, condition: Node, x: Node, safe: Node) -> tuple[None, Node, None]:
    return None, g, None


def cast(g: Node, out: Node, x: Node, dtype: Format) -> tuple[Node | None]:
    return (c.cast(g, x.dtype) if x.dtype in FLOATS and dtype in FLOATS else None,)


def round_to(g: Node, out: Node, x: Node, dtype: Format, mode: str) -> OneCotangent:
    """The derivative of rounding: that of the identity."""
    return (c.cast(g, x.dtype),)


def round_stochastic(g: Node, out: Node, x: Node, word: Node, dtype: Format, bits: int) -> tuple[Node | None, None]:
    return c.cast(g, x.dtype) if dtype in FLOATS else None, None


def identity(g: Node, out: Node, x: Node) -> OneCotangent:
    return (g,)


def _divide_by_root(g: Node, radicand: Node) -> Node:
    return div(g, call.sqrt(radicand))


def _per_log(base: float) -> Callable[..., Any]:
    return unary(lambda g, out, x: div(mul(g, number(1 / math.log(base), g)), x))


negative = unary(lambda g, out, x: neg(g))
absolute = unary(lambda g, out, x: mul(g, call.sign(x)))
square = unary(lambda g, out, x: mul(g, mul(x, number(2, x))))
sqrt = unary(lambda g, out, x: div(mul(g, number(0.5, g)), out))
reciprocal = unary(lambda g, out, x: neg(mul(g, call.square(out))))
exp = unary(lambda g, out, x: mul(g, out))
expm1 = unary(lambda g, out, x: mul(g, plus(out, number(1, out))))
log = unary(lambda g, out, x: div(g, x))
log1p = unary(lambda g, out, x: div(g, plus(x, number(1, x))))
log2 = _per_log(2)
log10 = _per_log(10)
sin = unary(lambda g, out, x: mul(g, call.cos(x)))
cos = unary(lambda g, out, x: neg(mul(g, call.sin(x))))
tan = unary(lambda g, out, x: mul(g, plus(number(1, out), call.square(out))))
asin = unary(lambda g, out, x: _divide_by_root(g, sub(number(1, x), call.square(x))))
acos = unary(lambda g, out, x: neg(_divide_by_root(g, sub(number(1, x), call.square(x)))))
atan = unary(lambda g, out, x: div(g, plus(number(1, x), call.square(x))))
sinh = unary(lambda g, out, x: mul(g, call.cosh(x)))
cosh = unary(lambda g, out, x: mul(g, call.sinh(x)))
tanh = unary(lambda g, out, x: mul(g, sub(number(1, out), call.square(out))))
asinh = unary(lambda g, out, x: _divide_by_root(g, plus(call.square(x), number(1, x))))
acosh = unary(lambda g, out, x: _divide_by_root(g, mul(sub(x, number(1, x)), plus(x, number(1, x)))))
atanh = unary(lambda g, out, x: div(g, sub(number(1, x), call.square(x))))
erf = unary(lambda g, out, x: mul(g, mul(number(2 / math.sqrt(math.pi), x), call.exp(neg(call.square(x))))))
