"""Operations on elements that are made of others: nodes of primitives say what they mean, so they fuse and have derivatives.

Each is a record as in ``meaning.py``, which operators, functions and NumPy's ufuncs ask.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array.meaning import OPERATIONS, UFUNCS, Operation, floating, floats_of, real
from weft.convert import as_node, cast, common, in_dtype, numpy_node, operands
from weft.dtypes.formats import (
    BOOL,
    COMPLEX,
    DEFAULT,
    FLOAT16,
    FLOAT64,
    FLOATS,
    INEXACT,
    INT8,
    INT64,
    INTEGERS,
    UINT8,
    UINT64,
    Format,
    of_kind,
    promote,
    weak,
)
from weft.eager.apply import bind
from weft.eager.materialise import look
from weft.errors import DTypeError, ShapeError
from weft.graph.node import Node
from weft.graph.primitives.rules import broadcast as two_shapes
from weft.graph.primitives.table import TABLE, constant

__all__ = ["OPERATIONS", "RECORDS"]


def _op(name: str, *nodes: Node) -> Node:
    return bind(TABLE[name], *nodes)


def _as_floats(operation: Operation, *xs: Any) -> tuple[list[Node], Format]:
    """Operands in the dtype that registers compute, and the dtype of the result."""
    found, have = common(xs, operation.both, weak)
    dtype = operation.rule(operation.name, have)[1]
    return [cast(in_dtype(x, dtype), dtype.computed) for x in found], dtype


def _other_than_nan(name: str) -> Any:
    """The maximum or minimum in which a NaN does not count beside a number."""
    def body(operation: Operation, x: Any, y: Any) -> Node:
        a, b = operands(x, y)
        both = OPERATIONS[name].of(a, b)
        if both.dtype not in INEXACT:
            return both
        return _op("where", _op("isnan", both), _op("where", _op("isnan", b), a, b), both)

    return body


def _fmod(operation: Operation, x: Any, y: Any) -> Node:
    """The remainder of a division that is cut off: it has the sign of the first."""
    a, b = operands(x, y)
    if a.dtype in FLOATS:
        return _op("copysign", _op("remainder", _op("abs", a), _op("abs", b)), a)
    if a.dtype == BOOL:
        a, b = cast(a, INT8), cast(b, INT8)
    rest, zero = _op("remainder", a, b), constant(0, a.dtype)
    if a.dtype.kind == "unsigned":
        return rest
    other = _op("not_equal", _op("less", a, zero), _op("less", b, zero))
    other = _op("logical_and", other, _op("not_equal", rest, zero))
    return _op("where", other, _op("subtract", rest, b), rest)


def _times(factor: float) -> Any:
    def body(operation: Operation, x: Any) -> Node:
        (a,), dtype = _as_floats(operation, x)
        return cast(_op("multiply", a, constant(factor, a.dtype)), dtype)

    return body


def _cbrt(operation: Operation, x: Any) -> Node:
    """A power, and one step of Newton's: it has the last digit right."""
    (a,), dtype = _as_floats(operation, x)
    size = _op("abs", a)
    plain = _op("logical_and", _op("isfinite", a), _op("greater", size, constant(0, a.dtype)))
    inside = _op("where", plain, size, constant(1, a.dtype))
    root = _op("pow", inside, constant(1 / 3, a.dtype))
    off = _op("subtract", root, _op("divide", inside, _op("square", root)))
    root = _op("subtract", root, _op("multiply", off, constant(1 / 3, a.dtype)))
    return cast(_op("where", plain, _op("copysign", root, a), a), dtype)


def _logaddexp2(operation: Operation, x: Any, y: Any) -> Node:
    (a, b), dtype = _as_floats(operation, x, y)
    apart = _op("negative", _op("abs", _op("subtract", a, b)))
    more = _op("log1p", _op("pow", constant(2, a.dtype), apart))
    sum_ = _op("add", _op("maximum", a, b), _op("multiply", more, constant(1 / math.log(2), a.dtype)))
    equal = _op("equal", a, b)  # infinities, too, whose difference is none
    return cast(_op("where", equal, _op("add", a, constant(1, a.dtype)), sum_), dtype)


def _heaviside(operation: Operation, x: Any, y: Any) -> Node:
    (a, b), dtype = _as_floats(operation, x, y)
    zero, one = constant(0, a.dtype), constant(1, a.dtype)
    sides = _op("where", _op("less", a, zero), zero, _op("where", _op("equal", a, zero), b, one))
    return cast(_op("where", _op("isnan", a), a, sides), dtype)


def _spacing(operation: Operation, x: Any) -> Node:
    a = as_node(x)
    a = cast(a, operation.rule(operation.name, a.dtype)[1])
    a = _op("stop_gradient", a)  # the distance is the same for a number and its neighbours
    low, high = constant(a.dtype.least, a.dtype), constant(a.dtype.greatest, a.dtype)
    sign = _op("where", _op("less", a, constant(0, a.dtype)), low, high)
    further = _op("subtract", _op("nextafter", a, sign), a)
    if not a.dtype.finite:
        return further
    nearer = _op("subtract", a, _op("nextafter", a, constant(0, a.dtype)))  # behind the last number there is none
    return _op("where", _op("equal", a, sign), nearer, further)


def _bitwise_count(operation: Operation, x: Any) -> Node:
    """Bits of the absolute value: counted in pairs, in fours, in eights, and summed by a multiplication."""
    a = as_node(x)
    if a.dtype == BOOL:
        return cast(a, UINT8)
    if a.dtype not in INTEGERS:
        raise DTypeError(f"bitwise_count: integers are needed, but the dtype is {a.dtype}; cast with .astype('int64')")
    if a.dtype.kind == "signed":
        a = _op("abs", a)
    bits = a.dtype.bits
    a = cast(a, next(f for f in of_kind("unsigned") if f.bits == bits))

    def known(pattern: int) -> Node:
        return constant(int.from_bytes(bytes([pattern]) * (bits // 8), "little"), a.dtype)

    def right(n: Node, by: int) -> Node:
        return _op("bitwise_right_shift", n, constant(by, a.dtype))

    a = _op("subtract", a, _op("bitwise_and", right(a, 1), known(0x55)))
    a = _op("add", _op("bitwise_and", a, known(0x33)), _op("bitwise_and", right(a, 2), known(0x33)))
    a = _op("bitwise_and", _op("add", a, right(a, 4)), known(0x0F))
    return cast(right(_op("multiply", a, known(0x01)), bits - 8) if bits > 8 else a, UINT8)


def _ldexp(operation: Operation, x: Any, y: Any) -> Node:
    """Multiplied by powers of two whose bits are known: as often as leads from the least number to the largest."""
    value, power = as_node(x), as_node(y)
    if power.dtype == UINT64 or (power.dtype not in INTEGERS and power.dtype != BOOL):
        raise DTypeError(f"ldexp: x2 must hold integers below 2**63, but has dtype {power.dtype}; cast with .astype('int64')")
    least = DEFAULT.wide and type(x) is int and type(y) not in (bool, int) and power.dtype is not BOOL
    value = cast(value, FLOAT16 if least else operation.rule(operation.name, value.dtype)[1])  # as NumPy's: a number is weak
    form = value.dtype.computed
    bits, most = form.integer, form.bias - 1
    found, rest = cast(value, form), cast(power, INT64)
    for _ in range(4):
        step = _op("minimum", _op("maximum", rest, constant(-most, INT64)), constant(most, INT64))
        rest = _op("subtract", rest, step)
        field = cast(_op("add", step, constant(form.bias, INT64)), bits)
        factor = bind(TABLE["bitcast"], _op("bitwise_left_shift", field, constant(form.mantissa, bits)), dtype=form)
        found = _op("multiply", found, factor)
    return cast(found, value.dtype)


def _wide(name: str, dtype: Format) -> tuple[str | None, Format]:
    return name, FLOAT64 if dtype.alone else promote(dtype, FLOAT64)


def _float_power(operation: Operation, x: Any, y: Any) -> Node:
    found, have = common((x, y), promote, weak)
    within = operation.rule(operation.name, have)[1]
    return OPERATIONS["pow"].of(*[in_dtype(v, within) for v in found])


def _whole(name: str, dtype: Format) -> tuple[str | None, Format]:
    if dtype not in INTEGERS:
        raise DTypeError(f"{name}: integers are needed, but the dtype is {dtype}; cast with .astype('int64')")
    return name, dtype


def _in_numpy(operation: Operation, x: Any, y: Any) -> Node:
    """Loops of integers: computed at once, in NumPy."""
    a, b = operands(x, y)
    operation.rule(operation.name, a.dtype)
    if two_shapes(a.shape, b.shape) is None:
        raise ShapeError(
            f"{operation.name}: shapes {a.shape}, {b.shape} do not broadcast: from the right, extents must be equal or 1"
        )
    return numpy_node(np.asarray(getattr(np, operation.name)(look(a), look(b))))


def _conjugate(name: str, dtype: Format) -> tuple[str | None, Format]:
    """Real numbers are their own; NumPy makes int8 of bools."""
    return (name, dtype) if dtype in COMPLEX else (None, INT8 if dtype == BOOL else dtype)


RECORDS = (
    Operation("fmax", 2, OPERATIONS["maximum"].rule, body=_other_than_nan("maximum")),
    Operation("fmin", 2, OPERATIONS["minimum"].rule, body=_other_than_nan("minimum")),
    Operation("fmod", 2, OPERATIONS["remainder"].rule, body=_fmod),
    Operation("degrees", 1, real(floating), aliases=("rad2deg",), body=_times(180 / math.pi)),
    Operation("radians", 1, real(floating), aliases=("deg2rad",), body=_times(math.pi / 180)),
    Operation("cbrt", 1, real(floating), body=_cbrt),
    Operation("logaddexp2", 2, real(floating), body=_logaddexp2, both=floats_of),
    Operation("heaviside", 2, real(floating), body=_heaviside, both=floats_of),
    Operation("ldexp", 2, real(floating), body=_ldexp),
    Operation("float_power", 2, _wide, body=_float_power),
    Operation("gcd", 2, _whole, body=_in_numpy),
    Operation("lcm", 2, _whole, body=_in_numpy),
    Operation("conj", 1, _conjugate, ufunc="conjugate", aliases=("conjugate",)),
    Operation("spacing", 1, real(floating), body=_spacing),
    Operation("bitwise_count", 1, OPERATIONS["bitwise_and"].rule, body=_bitwise_count),
)
OPERATIONS.update((o.name, o) for o in RECORDS)
UFUNCS.update((name, o) for o in RECORDS for name in (o.ufunc, *o.aliases))
