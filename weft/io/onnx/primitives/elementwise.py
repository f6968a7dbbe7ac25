"""Element-wise primitives as ONNX nodes."""

from __future__ import annotations

import math

import numpy as np

from weft.io.onnx.primitives.table import EXPORTS, NotWritten, add_in_32_bits, export, is_narrow_integer, kind_of
from weft.io.onnx.writer import Traced, Writer

EXPORTS.update({
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh",
    "cos": "Cos", "cosh": "Cosh", "divide": "Div", "erf": "Erf", "exp": "Exp", "log": "Log",
    "reciprocal": "Reciprocal", "root_of_squares": "Sqrt", "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt",
    "subtract": "Sub", "tan": "Tan", "tanh": "Tanh", "where": "Where",
})


@export("identity", "stop_gradient", "after_step", "recompute")
def _pass_on(w: Writer, n: Traced, x: str, *others: str) -> str:
    return x


@export("guard")
def _guard(w: Writer, n: Traced, condition: str, x: str, safe: str) -> str:
    return x if n.inputs[1].shape == n.shape else w.add("Expand", x, w.ints(n, lambda m: m.shape))


@export("negative")
def _negative(w: Writer, n: Traced, x: str) -> str:
    return w.add("Sub", w.number(0, n), x) if n.dtype.numpy.kind == "u" else w.add("Neg", x)


@export("pow")
def _pow(w: Writer, n: Traced, x: str, y: str) -> str:
    if is_narrow_integer(n):
        y = w.cast(y, np.int32)
    return add_in_32_bits(w, n, "Pow", x, y)


def _add_with_bools(name: str, plain: str, of_bools: str) -> None:
    """Add an operation that ONNX calls otherwise for bools."""

    @export(name)
    def emit(w: Writer, n: Traced, a: str, b: str) -> str:
        return w.add(of_bools if kind_of(n.inputs[0]) == "bool" else plain, a, b)


_add_with_bools("add", "Add", "Or")
_add_with_bools("multiply", "Mul", "And")
_add_with_bools("maximum", "Max", "Or")
_add_with_bools("minimum", "Min", "And")
_add_with_bools("bitwise_and", "BitwiseAnd", "And")
_add_with_bools("bitwise_or", "BitwiseOr", "Or")
_add_with_bools("bitwise_xor", "BitwiseXor", "Xor")

for _name, _op in (("less", "Less"), ("less_equal", "LessOrEqual"), ("greater", "Greater"), ("greater_equal", "GreaterOrEqual")):
    @export(_name)
    def _compare(w: Writer, n: Traced, a: str, b: str, op: str = _op) -> str:
        if kind_of(n.inputs[0]) == "bool":
            a, b = w.cast(a, np.int32), w.cast(b, np.int32)
        return w.add(op, a, b)


@export("equal")
def _equal(w: Writer, n: Traced, a: str, b: str) -> str:
    return w.add("Equal", a, b)


@export("not_equal")
def _not_equal(w: Writer, n: Traced, a: str, b: str) -> str:
    return w.add("Not", w.add("Equal", a, b))


@export("bitwise_invert")
def _invert(w: Writer, n: Traced, x: str) -> str:
    return w.add("Not" if kind_of(n) == "bool" else "BitwiseNot", x)


for _name, _op in (("logical_and", "And"), ("logical_or", "Or"), ("logical_xor", "Xor"), ("logical_not", "Not")):
    @export(_name)
    def _logical(w: Writer, n: Traced, *operands: str, op: str = _op) -> str:
        bools = [x if kind_of(i) == "bool" else w.cast(x, np.bool_) for i, x in zip(n.inputs, operands, strict=True)]
        return w.add(op, *bools)


@export("bitwise_left_shift", "bitwise_right_shift")
def _shift(w: Writer, n: Traced, x: str, by: str) -> str:
    if n.dtype.numpy.kind != "u":
        raise NotWritten("shifts of signed integers")
    return w.add("BitShift", x, by, direction="LEFT" if "left" in n.node.op.name else "RIGHT")


for _name, _op in (("floor", "Floor"), ("ceil", "Ceil"), ("round", "Round")):
    @export(_name)
    def _rounded(w: Writer, n: Traced, x: str, op: str = _op) -> str:
        return w.add(op, x) if kind_of(n) == "float" else x


@export("trunc")
def _trunc(w: Writer, n: Traced, x: str) -> str:
    return w.add("Mul", w.add("Sign", x), w.add("Floor", w.add("Abs", x))) if kind_of(n) == "float" else x


@export("square")
def _square(w: Writer, n: Traced, x: str) -> str:
    return w.add("Mul", x, x)


@export("floor_divide")
def _floor_divide(w: Writer, n: Traced, a: str, b: str) -> str:
    if kind_of(n) == "float":
        return w.add("Floor", w.add("Div", a, b))
    return w.add("Div", w.add("Sub", a, w.add("Mod", a, b)), b)  # ONNX truncates


@export("remainder")
def _remainder(w: Writer, n: Traced, a: str, b: str) -> str:
    if kind_of(n) != "float":
        return w.add("Mod", a, b)
    return w.add("Sub", a, w.add("Mul", w.add("Floor", w.add("Div", a, b)), b))


@export("expm1")
def _expm1(w: Writer, n: Traced, x: str) -> str:
    """2 exp(x / 2) sinh(x / 2) near 0, where exp(x) - 1 loses digits."""
    near = w.add("Less", w.add("Abs", x), w.number(1, n))
    half = w.add("Mul", w.add("Where", near, x, w.number(0, n)), w.number(0.5, n))
    precise = w.add("Mul", w.add("Mul", w.add("Exp", half), w.add("Sinh", half)), w.number(2, n))
    return w.add("Where", near, precise, w.add("Sub", w.add("Exp", x), w.number(1, n)))


@export("log1p")
def _log1p(w: Writer, n: Traced, x: str) -> str:
    """2 atanh(x / (x + 2)) near 0, where log(1 + x) loses digits."""
    near = w.add("Less", w.add("Abs", x), w.number(0.5, n))
    small = w.add("Where", near, x, w.number(0, n))
    precise = w.add("Mul", w.add("Atanh", w.add("Div", small, w.add("Add", small, w.number(2, n)))), w.number(2, n))
    return w.add("Where", near, precise, w.add("Log", w.add("Add", x, w.number(1, n))))


@export("log2")
def _log2(w: Writer, n: Traced, x: str) -> str:
    return w.add("Mul", w.add("Log", x), w.number(1 / math.log(2), n))


@export("log10")
def _log10(w: Writer, n: Traced, x: str) -> str:
    return w.add("Mul", w.add("Log", x), w.number(1 / math.log(10), n))


@export("logaddexp")
def _logaddexp(w: Writer, n: Traced, a: str, b: str) -> str:
    gap = w.add("Where", w.add("Equal", a, b), w.number(0, n), w.add("Neg", w.add("Abs", w.add("Sub", a, b))))
    return w.add("Add", w.add("Max", a, b), w.add("Softplus", gap))


@export("hypot")
def _hypot(w: Writer, n: Traced, a: str, b: str) -> str:
    return w.add("Sqrt", w.add("Add", w.add("Mul", a, a), w.add("Mul", b, b)))


@export("erfc")
def _erfc(w: Writer, n: Traced, x: str) -> str:
    return w.add("Sub", w.number(1, n), w.add("Erf", x))


@export("copysign")
def _copysign(w: Writer, n: Traced, a: str, b: str) -> str:
    size = w.add("Abs", a)
    return w.add("Where", w.add("Less", b, w.number(0, n)), w.add("Neg", size), size)


@export("signbit")
def _signbit(w: Writer, n: Traced, x: str) -> str:
    return w.add("Less", x, w.number(0, n.inputs[0]))


@export("atan2")
def _atan2(w: Writer, n: Traced, y: str, x: str) -> str:
    zero = w.number(0, n)
    angle = w.add("Atan", w.add("Div", y, x))
    turn = w.add("Where", w.add("Less", y, zero), w.number(-math.pi, n), w.number(math.pi, n))
    angle = w.add("Where", w.add("Less", x, zero), w.add("Add", angle, turn), angle)
    upright = w.add("Mul", w.add("Sign", y), w.number(math.pi / 2, n))
    return w.add("Where", w.add("Equal", x, zero), upright, angle)


@export("isnan", "isinf", "isfinite")
def _classify(w: Writer, n: Traced, x: str) -> str:
    name = n.node.op.name
    if kind_of(n.inputs[0]) != "float":
        fill = w.tensor(np.array(name == "isfinite"))
        return w.add("Or" if name == "isfinite" else "And", w.cast(x, np.bool_), fill)
    found = [w.add(op, x) for op, names in (("IsNaN", ("isnan", "isfinite")), ("IsInf", ("isinf", "isfinite"))) if name in names]
    return found[0] if len(found) == 1 else w.add("Not", w.add("Or", *found))


@export("cast")
def _cast(w: Writer, n: Traced, x: str) -> str:
    return w.cast(x, n.dtype.numpy)


@export("in_bounds")
def _in_bounds(w: Writer, n: Traced, x: str) -> str:
    return x if n.inputs[0].dtype is n.dtype else w.cast(x, np.int64)  # ONNX counts negative indices from the end itself
