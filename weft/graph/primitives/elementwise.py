"""Element-wise primitives: one line an operation in a table; :func:`entry` creates the entry.

Operands have one dtype and shapes that broadcast. ``float16`` and ``bfloat16`` are computed in float32 and rounded. Results are
NumPy's where the hardware leaves a choice: division by zero, wide shifts, NaN, signed zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, FLOATS, FROM_NUMPY, INTEGERS, Format, Kinds
from weft.dtypes.rounding import convert_array, round_array
from weft.errors import DTypeError
from weft.graph.node import Domain, Node, Primitive, Shape
from weft.graph.primitives import derivatives as d
from weft.graph.primitives import formulas as f
from weft.graph.primitives.common import batch_elementwise, compute_in_float32, elementwise_cost, zero_vjp
from weft.graph.primitives.kinds import ALL, BITS, NUMBERS, SIGNED
from weft.graph.primitives.rules import Rule, binary, dtype_error, unary, where_rule
from weft.graph.primitives.table import TABLE, register

HEAVY = 10  # operations an element from which on a primitive is heavy


def apply_each(fn: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """Return a reference that applies a Python function to each element, in float64, for functions that NumPy lacks."""
    many = np.frompyfunc(fn, 1, 1)
    return lambda x: np.asarray(many(np.asarray(x, np.float64)), np.float64).astype(x.dtype)


def _pow(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NumPy's power. Integers to negative powers, which NumPy refuses, are the true value truncated, 0 at base 0."""
    if x.dtype.kind not in "iu":
        return np.power(x, y)
    x, y = np.broadcast_arrays(x, y)
    out = np.power(x, np.maximum(y, 0))
    odd = np.where(y % 2 == 0, np.ones_like(x), x)
    return np.where(y < 0, np.where(x == 1, x, np.where(x + 1 == 0, odd, 0)), out).astype(x.dtype)


def _keep_integers(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Return a reference that leaves integers unchanged. NumPy returns floats for some of these functions."""
    return lambda x: x if x.dtype.kind in "iu" else fn(x)


def entry(
    name: str, arity: int, allowed: Kinds, reference: Callable[..., np.ndarray],
    formula: f.Formula, vjp: Callable[..., Any], *, out: Format | None = None, flops: int = 1,
    domain: tuple[float, float] = (-3.0, 3.0), integers: tuple[float, float] = (-9.0, 9.0), exact: bool = True,
    cheap: bool = False,
) -> None:
    """Register one operation of the table. The arguments are those of :class:`Primitive`, and these:

    allowed : dtypes of the operands; out : of the result, if it differs; flops : operations an element;
    domain, integers : ranges of the operands that tests draw
    """
    rule: Rule = (unary if arity == 1 else binary)(name, allowed, out)
    register(Primitive(
        name, "elementwise", rule, compute_in_float32(reference), f.compute_widened(formula), vjp, batch_elementwise(name),
        elementwise_cost(flops), exact, cheap, flops >= HEAVY, domain=Domain(arity, allowed, domain, integers),
    ))


def _table() -> None:
    machine, zero = f.machine, zero_vjp
    # arithmetic
    entry("add", 2, ALL, np.add, f.add, d.add)
    entry("subtract", 2, NUMBERS, np.subtract, machine("sub"), d.subtract)
    entry("multiply", 2, ALL, np.multiply, f.multiply, d.multiply)
    entry("divide", 2, FLOATS, np.divide, machine("div"), d.divide, domain=(0.5, 3.0))
    entry("floor_divide", 2, NUMBERS, np.floor_divide, machine("floordiv"), zero, flops=4, domain=(0.5, 3.0))
    entry("remainder", 2, NUMBERS, np.remainder, machine("rem"), d.remainder, flops=4, domain=(0.5, 3.0))
    entry("pow", 2, NUMBERS, _pow, f.power, d.power, flops=40, domain=(0.3, 2.5), integers=(-4.0, 4.0), exact=False)
    entry("negative", 1, NUMBERS, np.negative, machine("neg"), d.negative, cheap=True)
    entry("abs", 1, NUMBERS, np.abs, f.absolute, d.absolute)
    entry("sign", 1, NUMBERS, np.sign, f.sign, zero)
    entry("maximum", 2, ALL, np.maximum, f.maximum, d.maximum)
    entry("minimum", 2, ALL, np.minimum, f.minimum, d.minimum)
    entry("square", 1, NUMBERS, np.square, f.square, d.square)
    entry("sqrt", 1, FLOATS, np.sqrt, machine("sqrt"), d.sqrt, flops=4, domain=(0.2, 4.0))
    entry("root_of_squares", 1, FLOATS, np.sqrt, machine("sqrt"), d.root_of_squares, flops=4, domain=(0.2, 4.0))
    entry("reciprocal", 1, FLOATS, np.reciprocal, f.reciprocal, d.reciprocal, domain=(0.4, 3.0))
    entry("floor", 1, NUMBERS, _keep_integers(np.floor), f.keep_integers("floor"), zero)
    entry("ceil", 1, NUMBERS, _keep_integers(np.ceil), f.keep_integers("ceil"), zero)
    entry("trunc", 1, NUMBERS, _keep_integers(np.trunc), f.keep_integers("trunc"), zero)
    entry("round", 1, NUMBERS, _keep_integers(np.rint), f.keep_integers("rint"), zero)
    # comparisons and logic
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        entry(name, 2, ALL, getattr(np, name), getattr(f, name), zero, out=BOOL, cheap=True)
    for name, operation in (("logical_and", "and"), ("logical_or", "or"), ("logical_xor", "xor"), ("logical_not", "not")):
        single = operation == "not"
        entry(name, 1 if single else 2, ALL, getattr(np, name), f.logical(operation), zero, out=BOOL, cheap=single)
    for name, operation in (("bitwise_and", "and"), ("bitwise_or", "or"), ("bitwise_xor", "xor"), ("bitwise_invert", "not")):
        entry(name, 1 if operation == "not" else 2, BITS, getattr(np, name), machine(operation), zero)
    entry("bitwise_left_shift", 2, INTEGERS, np.left_shift, machine("shl"), zero, domain=(0, 9), integers=(0, 9))
    entry("bitwise_right_shift", 2, INTEGERS, np.right_shift, machine("shr"), zero, domain=(0, 9), integers=(0, 9))
    # exponentials and logarithms
    entry("exp", 1, FLOATS, np.exp, machine("exp"), d.exp, flops=15, exact=False)
    entry("expm1", 1, FLOATS, np.expm1, machine("expm1"), d.expm1, flops=20, exact=False)
    entry("log", 1, FLOATS, np.log, machine("log"), d.log, flops=20, domain=(0.2, 5.0), exact=False)
    entry("log1p", 1, FLOATS, np.log1p, machine("log1p"), d.log1p, flops=20, domain=(-0.6, 4.0), exact=False)
    entry("log2", 1, FLOATS, np.log2, f.log2, d.log2, flops=25, domain=(0.2, 5.0), exact=False)
    entry("log10", 1, FLOATS, np.log10, f.log10, d.log10, flops=25, domain=(0.2, 5.0), exact=False)
    entry("logaddexp", 2, FLOATS, np.logaddexp, f.logaddexp, d.logaddexp, flops=40, exact=False)
    # trigonometry
    unit = (-0.9, 0.9)
    entry("sin", 1, FLOATS, np.sin, machine("sin"), d.sin, flops=20, exact=False)
    entry("cos", 1, FLOATS, np.cos, machine("cos"), d.cos, flops=20, exact=False)
    entry("tan", 1, FLOATS, np.tan, machine("tan"), d.tan, flops=25, domain=(-1.2, 1.2), exact=False)
    entry("asin", 1, FLOATS, np.arcsin, machine("asin"), d.asin, flops=25, domain=unit, exact=False)
    entry("acos", 1, FLOATS, np.arccos, machine("acos"), d.acos, flops=25, domain=unit, exact=False)
    entry("atan", 1, FLOATS, np.arctan, machine("atan"), d.atan, flops=25, exact=False)
    entry("sinh", 1, FLOATS, np.sinh, machine("sinh"), d.sinh, flops=25, exact=False)
    entry("cosh", 1, FLOATS, np.cosh, machine("cosh"), d.cosh, flops=25, exact=False)
    entry("tanh", 1, FLOATS, np.tanh, machine("tanh"), d.tanh, flops=20, exact=False)
    entry("asinh", 1, FLOATS, np.arcsinh, machine("asinh"), d.asinh, flops=30, exact=False)
    entry("acosh", 1, FLOATS, np.arccosh, machine("acosh"), d.acosh, flops=30, domain=(1.2, 5.0), exact=False)
    entry("atanh", 1, FLOATS, np.arctanh, machine("atanh"), d.atanh, flops=25, domain=unit, exact=False)
    entry("atan2", 2, FLOATS, np.arctan2, machine("atan2"), d.atan2, flops=30, exact=False)
    entry("erf", 1, FLOATS, apply_each(math.erf), machine("erf"), d.erf, flops=25, exact=False)
    entry("hypot", 2, FLOATS, np.hypot, f.hypot, d.hypot, flops=10, exact=False)
    # sign and kind of numbers
    entry("copysign", 2, FLOATS, np.copysign, machine("copysign"), d.copysign)
    entry("signbit", 1, FLOATS | SIGNED, lambda x: np.signbit(x) if x.dtype.kind != "i" else x < 0, f.signbit, zero, out=BOOL)
    for name in ("isnan", "isinf", "isfinite"):
        entry(name, 1, NUMBERS, getattr(np, name), getattr(f, name), zero, out=BOOL)
    # no computation
    entry("identity", 1, ALL, lambda x: x, f.identity, d.identity, flops=0, cheap=True)
    entry("stop_gradient", 1, ALL, lambda x: x, f.identity, zero, flops=0, cheap=True)
    entry("after_step", 1, ALL, lambda x: x, f.identity, zero, flops=0, cheap=True)  # see ``weft/graph/loops.py``


def _dtype_of(name: str, dtype: Any) -> Format:
    if not isinstance(dtype, Format) or dtype not in ALL:
        raise DTypeError(f"{name}: dtype {dtype!r} is not one of weft's; use one of {', '.join(sorted(t.name for t in ALL))}.")
    return dtype


def _cast_rule(x: Node, dtype: Format) -> tuple[Shape, Format]:
    return x.shape, _dtype_of("cast", dtype)


def _bitcast_rule(x: Node, dtype: Format) -> tuple[Shape, Format]:
    if _dtype_of("bitcast", dtype).bytes != x.dtype.bytes:
        raise DTypeError(
            f"bitcast: x is {x.dtype.name} ({x.dtype.bytes} bytes an element) and dtype is {dtype.name} "
            f"({dtype.bytes}): widths must be equal; astype converts the values."
        )
    if BOOL in (dtype, x.dtype) and dtype != x.dtype:
        raise dtype_error("bitcast", (x,), ("x",), NUMBERS) if x.dtype == BOOL else DTypeError(
            f"bitcast: x is {x.dtype.name} and dtype is bool, but a bool is 0 or 1: compare with 0 instead."
        )
    return x.shape, dtype


def _nextafter(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    form = FROM_NUMPY[x.dtype]
    if form.custom or not form.has_ordered_bits:
        x, y = np.broadcast_arrays(x, y)
        wide_x, wide_y = convert_array(x, form.computed.numpy), convert_array(y, form.computed.numpy)
        step = np.nextafter(wide_x, wide_y)
        beyond = np.where(wide_y > wide_x, round_array(step, form, "up"), round_array(step, form, "down"))
        return np.where(wide_x == wide_y, y, np.where(wide_x != wide_x, x, beyond))
    with np.errstate(all="ignore"):  # equal zeros return y, as in C; NumPy's float16 returns x
        return np.where(x == y, y, np.nextafter(x, y))


def _cast(x: np.ndarray, dtype: Format) -> np.ndarray:
    with np.errstate(all="ignore"):
        return convert_array(np.asarray(x), dtype.numpy)


def _bitcast(x: np.ndarray, dtype: Format) -> np.ndarray:
    return np.ascontiguousarray(x).reshape(x.shape).view(dtype.numpy)


_table()
ADD, MULTIPLY, DIVIDE, NEGATIVE, IDENTITY, STOP_GRADIENT = (
    TABLE[name] for name in ("add", "multiply", "divide", "negative", "identity", "stop_gradient")
)
register(Primitive(
    "nextafter", "elementwise", binary("nextafter", FLOATS, None), _nextafter, f.nextafter, zero_vjp,
    batch_elementwise("nextafter"), elementwise_cost(6), True, domain=Domain(2, FLOATS),
))
register(Primitive(
    "where", "elementwise", where_rule, np.where, f.select_where, d.where_vjp,
    batch_elementwise("where"), elementwise_cost(1), True,
))
register(Primitive(  # x; a derivative of the loop around it puts ``where`` in its place, see ``weft/graph/loops.py``
    "guard", "elementwise", where_rule, lambda condition, x, safe: np.broadcast_arrays(condition, x, safe)[1], f.select_first,
    d.guard, batch_elementwise("guard"), elementwise_cost(0), True, cheap=True,
))
CAST = register(Primitive(
    "cast", "elementwise", _cast_rule, _cast, f.cast, d.cast, batch_elementwise("cast"), elementwise_cost(1), True, cheap=True,
))
register(Primitive(
    "bitcast", "elementwise", _bitcast_rule, _bitcast, f.bitcast,
    zero_vjp, batch_elementwise("bitcast"), elementwise_cost(0), True, cheap=True,
))
