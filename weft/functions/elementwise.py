"""Element-wise functions: the array API's, with NumPy's names as aliases; one line of the table a function.

Each takes arrays or numbers, broadcasts as NumPy does, and accepts ``out=``. What they mean for each dtype is said in
``weft/array/operations.py``, which operators and NumPy's ufuncs ask too.
"""

from __future__ import annotations

import builtins
from typing import Any

from weft.array import Array, wrap
from weft.array.operations import OPERATIONS
from weft.array.operators import call, short_way
from weft.dtypes.formats import BOOL, COMPLEX, FLOATS, of_elements
from weft.dtypes.parse import layout
from weft.eager.apply import bind
from weft.errors import DTypeError
from weft.functions.common import Node, alias, cast, finish, named, node, number, op, parts_of, whole
from weft.functions.ufunc import Ufunc, asked, equip, special
from weft.functions.unbound import as_method
from weft.graph.primitives.table import TABLE

Unary = Ufunc
Binary = Ufunc

# ---- makers


def _document(function: Any, name: str, about: str, parameters: str, example: str, shows: str, raises: str = "") -> Any:
    named(function, name)
    function.__doc__ = f"""{about}

    Parameters
    ----------
{parameters}
    out : Array, optional
        Where to write the result; it needs the result's shape and a dtype that can hold it.
    where : array of bools, optional
        Elsewhere ``out`` stays as it is (zeros without an ``out``).
    dtype : dtype, optional
        What the operands are cast to first.
    casting : str, optional
        Which casts ``dtype`` may ask for: "same_kind", or "unsafe" for all.
    order, subok
        Do nothing: arrays of weft lie row by row, and there are no other classes of them.

    Returns
    -------
    Array
        Of the shape that the operands broadcast to.

    Raises
    ------
    ShapeError, DTypeError
        Shapes that do not broadcast, or dtypes the function does not take.
{raises}
    Examples
    --------
    >>> import weft as wf
    >>> {example}
    {shows}
    """
    return as_method(function)


def unary(name: str, about: str, example: str, shows: str) -> Unary:
    """A function of one operand that is an operation; ``example``: what it is called with, and the list that this shows."""
    ask, short = call(name, 1), short_way(name)

    def function(
        library: Any, x: Any, /, out: Array | None = None, where: Any = True, dtype: Any = None, casting: str = "same_kind",
        order: str = "K", subok: bool = True,
    ) -> Array:
        if where is not True or dtype is not None or casting != "same_kind" or order != "K":
            layout(order, name)
            return special(ask, name, (x,), out, where, dtype, casting)
        if out is not None:
            return finish(asked(ask, (x,), out).node, out, name)
        native = short.call
        found = native(x)
        if found is not None:
            return found
        if x is None:
            node(x, name)  # refuses it
        return ask(x)

    equip(function, OPERATIONS[name])
    return _document(function, name, about, "    x : array or number", f"wf.{name}({example}).tolist()", shows)


def binary(name: str, about: str, example: str, shows: str, raises: str = "") -> Binary:
    """The same of two operands."""
    ask, short = call(name, 2), short_way(name)

    def function(
        library: Any, x1: Any, x2: Any, /, out: Array | None = None, where: Any = True, dtype: Any = None,
        casting: str = "same_kind", order: str = "K", subok: bool = True,
    ) -> Array:
        if where is not True or dtype is not None or casting != "same_kind" or order != "K":
            layout(order, name)
            return special(ask, name, (x1, x2), out, where, dtype, casting)
        if out is not None:
            return finish(asked(ask, (x1, x2), out).node, out, name)
        native = short.call
        found = native(x1, x2)
        return ask(x1, x2) if found is None else found

    equip(function, OPERATIONS[name])
    return _document(function, name, about, "    x1, x2 : array or number", f"wf.{name}({example}).tolist()", shows, raises)


# ---- the table: arithmetic

add = binary("add", "``x1 + x2``; for bools: or.", "wf.array([1.0, 2.0]), 1.0", "[2.0, 3.0]")
subtract = binary("subtract", "``x1 - x2``.", "wf.array([1.0, 2.0]), 1.0", "[0.0, 1.0]")
multiply = binary("multiply", "``x1 * x2``; for bools: and.", "wf.array([1.0, 2.0]), 3.0", "[3.0, 6.0]")
divide = binary("divide", "``x1 / x2``; integers give float32.", "wf.array([1, 2]), 2", "[0.5, 1.0]")
floor_divide = binary(
    "floor_divide", "``x1 // x2``, rounded down; integers by zero are 0.", "wf.array([7, -7]), 2", "[3, -4]"
)
remainder = binary("remainder", "``x1 % x2``, with the sign of ``x2``.", "wf.array([7, -7]), 4", "[3, 1]")
pow = binary(
    "pow", "``x1 ** x2``; integers stay integers, and have no negative powers.", "wf.array([2.0, 3.0]), 2.0", "[4.0, 9.0]",
    "    ValueError\n        A negative power of integers, where it is known: a number, or an array that is computed.\n",
)
maximum = binary("maximum", "The larger of the two; NaN if either is NaN.", "wf.array([1.0, 5.0]), 3.0", "[3.0, 5.0]")
minimum = binary("minimum", "The smaller of the two; NaN if either is NaN.", "wf.array([1.0, 5.0]), 3.0", "[1.0, 3.0]")
fmax = binary("fmax", "The larger of the two; a NaN counts only beside a NaN.", "wf.array([1.0, wf.nan]), 3.0", "[3.0, 3.0]")
fmin = binary("fmin", "The smaller of the two; a NaN counts only beside a NaN.", "wf.array([1.0, wf.nan]), 3.0", "[1.0, 3.0]")
fmod = binary("fmod", "What is left of a division that is cut off: it has the sign of ``x1``.", "wf.array([7, -7]), 4", "[3, -3]")
heaviside = binary("heaviside", "0 below zero, 1 above it, ``x2`` at zero.", "wf.array([-1.0, 0.0, 2.0]), 0.5", "[0.0, 0.5, 1.0]")
negative = unary("negative", "``-x``.", "wf.array([1.0, -2.0])", "[-1.0, 2.0]")
positive = unary("positive", "``+x``: the same numbers.", "wf.array([1.0, -2.0])", "[1.0, -2.0]")
abs = unary("abs", "Absolute value.", "wf.array([1.0, -2.0])", "[1.0, 2.0]")
sign = unary("sign", "-1, 0 or 1; NaN for NaN.", "wf.array([-3.0, 0.0, 2.0])", "[-1.0, 0.0, 1.0]")
square = unary("square", "``x * x``.", "wf.array([-3.0, 2.0])", "[9.0, 4.0]")
sqrt = unary("sqrt", "Square root; NaN below zero.", "wf.array([4.0, 9.0])", "[2.0, 3.0]")
cbrt = unary("cbrt", "Cube root, of negative numbers too.", "wf.array([8.0, -27.0])", "[2.0, -3.0]")
reciprocal = unary(
    "reciprocal", "``1 / x``; of integers the whole part: 1 and -1 stay, the rest is 0.", "wf.array([4.0, 0.5])", "[0.25, 2.0]"
)
fabs = unary("fabs", "Absolute value, as a float.", "wf.array([1, -2])", "[1.0, 2.0]")

conj = unary("conj", "The complex conjugates; real numbers as they are.", "wf.array([1 + 2j])", "[(1-2j)]")

stop_gradient = unary("stop_gradient", "x, a constant for gradients.", "wf.array([1.0])", "[1.0]")

ldexp = binary(
    "ldexp", "``x1 * 2**x2`` with integers ``x2``, where the power alone may overflow.", "wf.array([0.75, 1.0]), [2, -1]",
    "[3.0, 0.5]",
)
float_power = binary(
    "float_power", "``x1 ** x2`` in float64, of complex numbers in complex128.", "wf.array([2, 4]), -1", "[0.5, 0.25]",
)
gcd = binary("gcd", "The greatest common divisor of integers; computes at once, in NumPy.", "wf.array([12, 7]), 8", "[4, 1]")
lcm = binary("lcm", "The least common multiple of integers; computes at once, in NumPy.", "wf.array([12, 7]), 8", "[24, 56]")

# ---- rounding

floor = unary("floor", "Rounded down.", "wf.array([1.5, -1.5])", "[1.0, -2.0]")
ceil = unary("ceil", "Rounded up.", "wf.array([1.5, -1.5])", "[2.0, -1.0]")
trunc = unary("trunc", "Rounded towards zero.", "wf.array([1.5, -1.5])", "[1.0, -1.0]")
rint = unary("rint", "The nearest whole number, halves to even, as a float.", "wf.array([1.5, 2.5])", "[2.0, 2.0]")


def round(a: Any, decimals: int = 0, out: Array | None = None) -> Array:
    """Rounded to ``decimals`` digits, halves to even.

    Parameters
    ----------
    a : array or number
    decimals : int
        Digits after the point; below zero, digits in front of it.
    out : Array, optional

    Returns
    -------
    Array of the shape and dtype of ``a``; bools become float32

    Raises
    ------
    ShapeError, DTypeError
        An ``out`` that does not fit.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.array([0.5, 1.5, 2.6])).tolist()
    [0.0, 2.0, 3.0]
    >>> wf.round(wf.array([1.25, 3.5]), 1).tolist()[0] < 1.21
    True
    """
    value, decimals = node(a, "round", "a"), whole(decimals, "round", "decimals")
    if value.dtype == BOOL:
        if decimals:
            raise DTypeError(f"round: a is bool, which has no digits (decimals={decimals}); cast with .astype('float32')")
        value = cast(value, of_elements(BOOL))
    if value.dtype in COMPLEX:
        return finish(op("complex", *[round(wrap(part), decimals).node for part in parts_of(value)]), out, "round")
    if value.dtype in FLOATS and decimals == 0:
        return finish(bind(TABLE["round"], value), out, "round")
    if value.dtype not in FLOATS:
        return finish(_tens(value, -decimals) if decimals < 0 else value, out, "round")
    dtype, digits = value.dtype, builtins.min(builtins.abs(decimals), 400)  # float64 ends at 10**308
    wide = dtype if 10**digits <= dtype.largest else dtype.computed
    if 10**digits > wide.largest:  # these digits stand behind, or in front of, all that a number of this dtype has
        return finish(value if decimals > 0 else op("multiply", value, number(0, dtype)), out, "round")
    scale = number(10.0**digits, wide)
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return finish(cast(op(back, op("round", op(there, cast(value, wide), scale)), scale), dtype), out, "round")


def _tens(value: Node, digits: int) -> Node:
    """Integers to a multiple of a power of ten, without a detour over floats."""
    if digits > len(str(value.dtype.greatest)) or 10**digits > value.dtype.greatest:
        return op("broadcast_to", number(0, value.dtype), shape=value.shape)
    scale = 10**digits
    unit, half, one = (number(n, value.dtype) for n in (scale, scale // 2, 1))
    whole = op("floor_divide", value, unit)
    rest = op("subtract", value, op("multiply", whole, unit))
    odd = cast(op("bitwise_and", whole, one), BOOL)
    up = op("logical_or", op("greater", rest, half), op("logical_and", op("equal", rest, half), odd))
    return op("multiply", op("add", whole, cast(up, value.dtype)), unit)


# ---- exponentials and logarithms

exp = unary("exp", "e to the power x.", "wf.array([0.0])", "[1.0]")
exp2 = unary("exp2", "2 to the power x.", "wf.array([3.0])", "[8.0]")
expm1 = unary("expm1", "``exp(x) - 1``, exact near zero.", "wf.array([0.0])", "[0.0]")
log = unary("log", "Natural logarithm; NaN below zero.", "wf.array([1.0])", "[0.0]")
log1p = unary("log1p", "``log(1 + x)``, exact near zero.", "wf.array([0.0])", "[0.0]")
log2 = unary("log2", "Logarithm to base 2.", "wf.array([1.0])", "[0.0]")
log10 = unary("log10", "Logarithm to base 10.", "wf.array([1.0])", "[0.0]")
logaddexp = binary("logaddexp", "``log(exp(x1) + exp(x2))`` without overflow.", "wf.array([-wf.inf]), 0.0", "[0.0]")
logaddexp2 = binary("logaddexp2", "``log2(2**x1 + 2**x2)`` without overflow.", "wf.array([-wf.inf]), 0.0", "[0.0]")

# ---- trigonometry

sin = unary("sin", "Sine of x in radians.", "wf.array([0.0])", "[0.0]")
cos = unary("cos", "Cosine of x in radians.", "wf.array([0.0])", "[1.0]")
tan = unary("tan", "Tangent of x in radians.", "wf.array([0.0])", "[0.0]")
asin = unary("asin", "Inverse sine; NaN outside -1 to 1.", "wf.array([0.0])", "[0.0]")
acos = unary("acos", "Inverse cosine; NaN outside -1 to 1.", "wf.array([1.0])", "[0.0]")
atan = unary("atan", "Inverse tangent.", "wf.array([0.0])", "[0.0]")
atan2 = binary("atan2", "Angle of the point (x2, x1), -pi to pi.", "wf.array([0.0]), 1.0", "[0.0]")
sinh = unary("sinh", "Hyperbolic sine.", "wf.array([0.0])", "[0.0]")
cosh = unary("cosh", "Hyperbolic cosine.", "wf.array([0.0])", "[1.0]")
tanh = unary("tanh", "Hyperbolic tangent.", "wf.array([0.0])", "[0.0]")
asinh = unary("asinh", "Inverse hyperbolic sine.", "wf.array([0.0])", "[0.0]")
acosh = unary("acosh", "Inverse hyperbolic cosine; NaN below 1.", "wf.array([1.0])", "[0.0]")
atanh = unary("atanh", "Inverse hyperbolic tangent; NaN outside -1 to 1.", "wf.array([0.0])", "[0.0]")
hypot = binary("hypot", "``sqrt(x1**2 + x2**2)`` without overflow.", "wf.array([3.0]), 4.0", "[5.0]")
degrees = unary("degrees", "Radians as degrees.", "wf.array([0.0])", "[0.0]")
radians = unary("radians", "Degrees as radians.", "wf.array([0.0])", "[0.0]")

erf = unary("erf", "The error function.", "wf.array([0.0])", "[0.0]")

# ---- floating-point bits

copysign = binary("copysign", "``x1`` with the sign of ``x2``.", "wf.array([3.0]), -0.0", "[-3.0]")
nextafter = binary("nextafter", "The next number after ``x1`` towards ``x2``.", "wf.array([1.0]), 1.0", "[1.0]")
spacing = unary("spacing", "The distance to the next number, away from zero.", "wf.array([2.0**23])", "[1.0]")
signbit = unary("signbit", "Whether the sign is negative (true for -0.0).", "wf.array([-0.0, 1.0])", "[True, False]")
isnan = unary("isnan", "Whether x is NaN.", "wf.array([wf.nan, 1.0])", "[True, False]")
isinf = unary("isinf", "Whether x is infinite.", "wf.array([wf.inf, 1.0])", "[True, False]")
isfinite = unary("isfinite", "Neither NaN nor infinite.", "wf.array([wf.inf, 1.0])", "[False, True]")

# ---- comparisons and logic

equal = binary("equal", "``x1 == x2``.", "wf.array([1, 2]), 2", "[False, True]")
not_equal = binary("not_equal", "``x1 != x2``.", "wf.array([1, 2]), 2", "[True, False]")
less = binary("less", "``x1 < x2``.", "wf.array([1, 2]), 2", "[True, False]")
less_equal = binary("less_equal", "``x1 <= x2``.", "wf.array([1, 3]), 2", "[True, False]")
greater = binary("greater", "``x1 > x2``.", "wf.array([1, 3]), 2", "[False, True]")
greater_equal = binary("greater_equal", "``x1 >= x2``.", "wf.array([1, 2]), 2", "[False, True]")
logical_and = binary("logical_and", "Whether both are true (not zero).", "wf.array([1, 0]), 1", "[True, False]")
logical_or = binary("logical_or", "Whether one of them is true (not zero).", "wf.array([1, 0]), 0", "[True, False]")
logical_xor = binary("logical_xor", "Whether just one is true (not zero).", "wf.array([1, 0]), 1", "[False, True]")
logical_not = unary("logical_not", "Whether x is false (zero).", "wf.array([1, 0])", "[False, True]")
bitwise_and = binary("bitwise_and", "``x1 & x2``.", "wf.array([6, 3]), 2", "[2, 2]")
bitwise_or = binary("bitwise_or", "``x1 | x2``.", "wf.array([4, 3]), 2", "[6, 3]")
bitwise_xor = binary("bitwise_xor", "``x1 ^ x2``.", "wf.array([6, 3]), 2", "[4, 1]")
bitwise_invert = unary("bitwise_invert", "``~x``; for bools: not.", "wf.array([0, 1])", "[-1, -2]")
bitwise_count = unary("bitwise_count", "How many bits of the absolute value are 1.", "wf.array([7, -8])", "[3, 1]")
bitwise_left_shift = binary(
    "bitwise_left_shift", "``x1 << x2``; 0 when all bits have left.", "wf.array([1, 3]), 2", "[4, 12]"
)
bitwise_right_shift = binary("bitwise_right_shift", "``x1 >> x2``, keeping the sign.", "wf.array([8, -8]), 2", "[2, -2]")

# ---- NumPy's names

absolute = abs
arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh = acos, acosh, asin, asinh, atan, atan2, atanh
rad2deg, deg2rad = degrees, radians
around = alias(round, "around")
conjugate = conj
true_divide, mod, power = divide, remainder, pow
bitwise_not = invert = bitwise_invert
left_shift, right_shift = bitwise_left_shift, bitwise_right_shift
