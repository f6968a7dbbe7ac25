"""Element-wise functions: the array API's, with NumPy's names as aliases; one line of the table a function.

Each takes arrays or numbers, broadcasts as NumPy does, and accepts ``out=``. Where NumPy would make
float64 out of integers, weft makes float32.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from weft.array import Array, wrap
from weft.convert import operands
from weft.dtypes import int8 as INT8
from weft.errors import DTypeError
from weft.functions.common import BOOL, FLOAT64, cast, finish, floating, is_float, node, number, op
from weft.graph.node import Node
from weft.graph.primitives.table import TABLE, bind

Unary = Callable[..., Array]
Binary = Callable[..., Array]

# ---- dtype rules: (name, nodes) -> the node of the result


def _floating(name: str, *xs: Node) -> Node:
    if len(xs) == 1:  # usual, and called often
        return bind(TABLE[name], floating(xs[0]))
    return op(name, *(floating(x) for x in xs))


def _numeric(name: str, *xs: Node) -> Node:
    if xs[0].dtype == BOOL:
        other = {"subtract": "logical_xor", "negative": "logical_not"}.get(name)
        fix = f"use wf.{other}" if other else "cast with .astype('int8')"
        raise DTypeError(f"{name}: the dtype bool has no {name}; {fix}")
    return op(name, *xs)


def _as_is(name: str, *xs: Node) -> Node:
    return op(name, *xs)


def _bool_as_int8(name: str, *xs: Node) -> Node:
    return op(name, *(cast(x, INT8) if x.dtype == BOOL else x for x in xs))


def _bool_as(logical: str) -> Callable[..., Node]:
    def rule(name: str, *xs: Node) -> Node:
        return op(logical if xs[0].dtype == BOOL else name, *xs)

    return rule


def _whole_already(name: str, x: Node) -> Node:
    return op(name, x) if is_float(x.dtype) else x


def _kind_of_number(name: str, x: Node) -> Node:
    return op(name, cast(x, INT8) if x.dtype == BOOL else x)


def _logical(name: str, *xs: Node) -> Node:
    return op(name, *(cast(x, BOOL) for x in xs))


def _bits(name: str, *xs: Node) -> Node:
    if is_float(xs[0].dtype) or (xs[0].dtype == BOOL and "shift" in name):
        raise DTypeError(f"{name}: integers are needed, but the dtype is {xs[0].dtype}; cast with .astype('int64')")
    return op(name, *xs)


def _abs(name: str, x: Node) -> Node:
    return x if x.dtype.kind in "bu" else op(name, x)


def _signbit(name: str, x: Node) -> Node:
    return op(name, x) if is_float(x.dtype) else op("less", x, number(0, x.dtype))


def _square(name: str, x: Node) -> Node:
    return x if x.dtype == BOOL else op(name, x)


def _exp2(name: str, x: Node) -> Node:
    x = floating(x)
    return op("pow", number(2, x.dtype), x)


def _positive(name: str, x: Node) -> Node:
    if x.dtype == BOOL:
        raise DTypeError("positive: the dtype bool has no positive; cast with .astype('int8')")
    return x


# ---- makers


def _document(function: Any, name: str, about: str, parameters: str, example: str, shows: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{about}

    Parameters
    ----------
{parameters}
    out : Array, optional
        Where to write the result; it needs the result's shape and a dtype that can hold it.

    Returns
    -------
    Array
        Of the shape that the operands broadcast to.

    Raises
    ------
    ShapeError, DTypeError
        Shapes that do not broadcast, or dtypes the function does not take.

    Examples
    --------
    >>> import weft as wf
    >>> {example}
    {shows}
    """
    return function


def _unary(name: str, about: str, example: str, shows: str, rule: Callable[..., Node] = _floating) -> Unary:
    def function(x: Any, /, out: Array | None = None) -> Array:
        result = rule(name, x.node if type(x) is Array else node(x, name))
        return wrap(result) if out is None else finish(result, out, name)

    return _document(function, name, about, "    x : array or number", f"wf.{name}({example}).tolist()", shows)


def _binary(name: str, about: str, example: str, shows: str, rule: Callable[..., Node] = _as_is) -> Binary:
    def function(x1: Any, x2: Any, /, out: Array | None = None) -> Array:
        result = rule(name, *operands(x1, x2))
        return wrap(result) if out is None else finish(result, out, name)

    return _document(function, name, about, "    x1, x2 : array or number", f"wf.{name}({example}).tolist()", shows)


# ---- the table: arithmetic

add = _binary("add", "``x1 + x2``; for bools: or.", "wf.array([1.0, 2.0]), 1.0", "[2.0, 3.0]", _bool_as("logical_or"))
subtract = _binary("subtract", "``x1 - x2``.", "wf.array([1.0, 2.0]), 1.0", "[0.0, 1.0]", _numeric)
multiply = _binary("multiply", "``x1 * x2``; for bools: and.", "wf.array([1.0, 2.0]), 3.0", "[3.0, 6.0]", _bool_as("logical_and"))
divide = _binary("divide", "``x1 / x2``; integers give float32.", "wf.array([1, 2]), 2", "[0.5, 1.0]", _floating)
floor_divide = _binary(
    "floor_divide", "``x1 // x2``, rounded down; integers by zero are 0.", "wf.array([7, -7]), 2", "[3, -4]", _bool_as_int8
)
remainder = _binary("remainder", "``x1 % x2``, with the sign of ``x2``.", "wf.array([7, -7]), 4", "[3, 1]", _bool_as_int8)
pow = _binary("pow", "``x1 ** x2``; integers stay integers.", "wf.array([2.0, 3.0]), 2.0", "[4.0, 9.0]", _bool_as_int8)
maximum = _binary(
    "maximum", "The larger of the two; NaN if either is NaN.", "wf.array([1.0, 5.0]), 3.0", "[3.0, 5.0]", _bool_as("logical_or")
)
minimum = _binary(
    "minimum", "The smaller of the two; NaN if either is NaN.", "wf.array([1.0, 5.0]), 3.0", "[1.0, 3.0]", _bool_as("logical_and")
)
negative = _unary("negative", "``-x``.", "wf.array([1.0, -2.0])", "[-1.0, 2.0]", _numeric)
positive = _unary("positive", "``+x``: the same numbers.", "wf.array([1.0, -2.0])", "[1.0, -2.0]", _positive)
abs = _unary("abs", "Absolute value.", "wf.array([1.0, -2.0])", "[1.0, 2.0]", _abs)
sign = _unary("sign", "-1, 0 or 1; NaN for NaN.", "wf.array([-3.0, 0.0, 2.0])", "[-1.0, 0.0, 1.0]", _numeric)
square = _unary("square", "``x * x``.", "wf.array([-3.0, 2.0])", "[9.0, 4.0]", _square)
sqrt = _unary("sqrt", "Square root; NaN below zero.", "wf.array([4.0, 9.0])", "[2.0, 3.0]")
reciprocal = _unary("reciprocal", "``1 / x``; integers give float32.", "wf.array([4.0, 0.5])", "[0.25, 2.0]")

stop_gradient = _unary("stop_gradient", "x, a constant for gradients.", "wf.array([1.0])", "[1.0]", _as_is)

# ---- rounding

floor = _unary("floor", "Rounded down.", "wf.array([1.5, -1.5])", "[1.0, -2.0]", _whole_already)
ceil = _unary("ceil", "Rounded up.", "wf.array([1.5, -1.5])", "[2.0, -1.0]", _whole_already)
trunc = _unary("trunc", "Rounded towards zero.", "wf.array([1.5, -1.5])", "[1.0, -1.0]", _whole_already)


def round(x: Any, /, decimals: int = 0, out: Array | None = None) -> Array:
    """Rounded to ``decimals`` digits, halves to even.

    Parameters
    ----------
    x : array or number
    decimals : int
        Digits after the point; below zero, digits in front of it.
    out : Array, optional

    Returns
    -------
    Array of the shape and dtype of ``x``

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.array([0.5, 1.5, 2.6])).tolist()
    [0.0, 2.0, 3.0]
    >>> wf.round(wf.array([1.25, 3.5]), 1).tolist()[0] < 1.21
    True
    """
    value = node(x, "round")
    if not is_float(value.dtype):
        if decimals >= 0:
            return finish(value, out, "round")
        scale = number(10**-decimals, value.dtype)
        whole = op("round", op("divide", cast(value, FLOAT64), cast(scale, FLOAT64)))
        return finish(op("multiply", cast(whole, value.dtype), scale), out, "round")
    if decimals == 0:
        return finish(op("round", value), out, "round")
    scale = number(10.0 ** builtins.abs(decimals), value.dtype)
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return finish(op(back, op("round", op(there, value, scale)), scale), out, "round")


# ---- exponentials and logarithms

exp = _unary("exp", "e to the power x.", "wf.array([0.0])", "[1.0]")
exp2 = _unary("exp2", "2 to the power x.", "wf.array([3.0])", "[8.0]", _exp2)
expm1 = _unary("expm1", "``exp(x) - 1``, exact near zero.", "wf.array([0.0])", "[0.0]")
log = _unary("log", "Natural logarithm; NaN below zero.", "wf.array([1.0])", "[0.0]")
log1p = _unary("log1p", "``log(1 + x)``, exact near zero.", "wf.array([0.0])", "[0.0]")
log2 = _unary("log2", "Logarithm to base 2.", "wf.array([1.0])", "[0.0]")
log10 = _unary("log10", "Logarithm to base 10.", "wf.array([1.0])", "[0.0]")
logaddexp = _binary("logaddexp", "``log(exp(x1) + exp(x2))`` without overflow.", "wf.array([-wf.inf]), 0.0", "[0.0]", _floating)

# ---- trigonometry

sin = _unary("sin", "Sine of x in radians.", "wf.array([0.0])", "[0.0]")
cos = _unary("cos", "Cosine of x in radians.", "wf.array([0.0])", "[1.0]")
tan = _unary("tan", "Tangent of x in radians.", "wf.array([0.0])", "[0.0]")
asin = _unary("asin", "Inverse sine; NaN outside -1 to 1.", "wf.array([0.0])", "[0.0]")
acos = _unary("acos", "Inverse cosine; NaN outside -1 to 1.", "wf.array([1.0])", "[0.0]")
atan = _unary("atan", "Inverse tangent.", "wf.array([0.0])", "[0.0]")
atan2 = _binary("atan2", "Angle of the point (x2, x1), -pi to pi.", "wf.array([0.0]), 1.0", "[0.0]", _floating)
sinh = _unary("sinh", "Hyperbolic sine.", "wf.array([0.0])", "[0.0]")
cosh = _unary("cosh", "Hyperbolic cosine.", "wf.array([0.0])", "[1.0]")
tanh = _unary("tanh", "Hyperbolic tangent.", "wf.array([0.0])", "[0.0]")
asinh = _unary("asinh", "Inverse hyperbolic sine.", "wf.array([0.0])", "[0.0]")
acosh = _unary("acosh", "Inverse hyperbolic cosine; NaN below 1.", "wf.array([1.0])", "[0.0]")
atanh = _unary("atanh", "Inverse hyperbolic tangent; NaN outside -1 to 1.", "wf.array([0.0])", "[0.0]")
hypot = _binary("hypot", "``sqrt(x1**2 + x2**2)`` without overflow.", "wf.array([3.0]), 4.0", "[5.0]", _floating)

erf = _unary("erf", "The error function.", "wf.array([0.0])", "[0.0]")

# ---- floating-point bits

copysign = _binary("copysign", "``x1`` with the sign of ``x2``.", "wf.array([3.0]), -0.0", "[-3.0]", _floating)
nextafter = _binary("nextafter", "The next number after ``x1`` towards ``x2``.", "wf.array([1.0]), 1.0", "[1.0]", _floating)
signbit = _unary("signbit", "Whether the sign is negative (true for -0.0).", "wf.array([-0.0, 1.0])", "[True, False]", _signbit)
isnan = _unary("isnan", "Whether x is NaN.", "wf.array([wf.nan, 1.0])", "[True, False]", _kind_of_number)
isinf = _unary("isinf", "Whether x is infinite.", "wf.array([wf.inf, 1.0])", "[True, False]", _kind_of_number)
isfinite = _unary("isfinite", "Neither NaN nor infinite.", "wf.array([wf.inf, 1.0])", "[False, True]", _kind_of_number)

# ---- comparisons and logic

equal = _binary("equal", "``x1 == x2``.", "wf.array([1, 2]), 2", "[False, True]")
not_equal = _binary("not_equal", "``x1 != x2``.", "wf.array([1, 2]), 2", "[True, False]")
less = _binary("less", "``x1 < x2``.", "wf.array([1, 2]), 2", "[True, False]")
less_equal = _binary("less_equal", "``x1 <= x2``.", "wf.array([1, 3]), 2", "[True, False]")
greater = _binary("greater", "``x1 > x2``.", "wf.array([1, 3]), 2", "[False, True]")
greater_equal = _binary("greater_equal", "``x1 >= x2``.", "wf.array([1, 2]), 2", "[False, True]")
logical_and = _binary("logical_and", "Whether both are true (not zero).", "wf.array([1, 0]), 1", "[True, False]", _logical)
logical_or = _binary("logical_or", "Whether one of them is true (not zero).", "wf.array([1, 0]), 0", "[True, False]", _logical)
logical_xor = _binary("logical_xor", "Whether just one is true (not zero).", "wf.array([1, 0]), 1", "[False, True]", _logical)
logical_not = _unary("logical_not", "Whether x is false (zero).", "wf.array([1, 0])", "[False, True]", _logical)
bitwise_and = _binary("bitwise_and", "``x1 & x2``.", "wf.array([6, 3]), 2", "[2, 2]", _bits)
bitwise_or = _binary("bitwise_or", "``x1 | x2``.", "wf.array([4, 3]), 2", "[6, 3]", _bits)
bitwise_xor = _binary("bitwise_xor", "``x1 ^ x2``.", "wf.array([6, 3]), 2", "[4, 1]", _bits)
bitwise_invert = _unary("bitwise_invert", "``~x``; for bools: not.", "wf.array([0, 1])", "[-1, -2]", _bits)
bitwise_left_shift = _binary(
    "bitwise_left_shift", "``x1 << x2``; 0 when all bits have left.", "wf.array([1, 3]), 2", "[4, 12]", _bits
)
bitwise_right_shift = _binary("bitwise_right_shift", "``x1 >> x2``, keeping the sign.", "wf.array([8, -8]), 2", "[2, -2]", _bits)

# ---- NumPy's names

absolute = abs
arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh = acos, acosh, asin, asinh, atan, atan2, atanh
true_divide, mod, power, fabs = divide, remainder, pow, abs
bitwise_not = invert = bitwise_invert
left_shift, right_shift = bitwise_left_shift, bitwise_right_shift
rint = round
