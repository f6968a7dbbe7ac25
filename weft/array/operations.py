"""Records of the elementwise operations, used by operators, the functions of ``wf.*`` and NumPy's ufuncs.

The rule of a record maps the common dtype of the operands to a primitive and the dtype it runs in. Integers become float32 where
NumPy makes floats of them. Records of several primitives fuse and have derivatives like the others."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.array.convert import as_node, cast, convert_operand, numpy_node, promote_operands, read_operands
from weft.dtypes import formats
from weft.dtypes.formats import BOOL, FLOAT16, INEXACT, INT8, INT64, INTEGERS, UINT64, Format, elementwise_float_format, promote
from weft.dtypes.formats import floating as quotient
from weft.eager.apply import bind
from weft.eager.materialise import read_array
from weft.errors import DTypeError, ShapeError
from weft.graph.node import Node, Primitive
from weft.graph.primitives.rules import broadcast
from weft.graph.primitives.settings import current_precision
from weft.graph.primitives.table import CONSTANT, TABLE, constant
from weft.runtime.traced_int import TracedInt, fits, is_int

NO_SETTINGS: Mapping[str, Any] = {}


def matmul(a: Node, b: Node, *, settings: Mapping[str, Any] = NO_SETTINGS) -> Node:
    """Return ``a @ b`` by NumPy's rules: vectors, matrices, and stacks of matrices whose leading dimensions broadcast.

    settings : more parameters of the product, see ``graph/primitives/settings.py``
    """
    if not a.shape or not b.shape:
        raise ShapeError(f"matmul: shapes {a.shape} and {b.shape}: a number has no matrix product, use *")
    inner = max(len(b.shape) - 2, 0)
    if a.shape[-1] != b.shape[inner]:
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape} do not fit: the last extent of the first ({a.shape[-1]}) must be "
            f"the {'last but one' if inner or len(b.shape) == 2 else 'only'} of the second ({b.shape[inner]})"
        )
    if len(b.shape) <= 2:
        return contract_axes(a, b, (len(a.shape) - 1,), (inner,), (), settings)
    vector = len(a.shape) == 1
    if vector:
        a = bind(TABLE["reshape"], a, shape=(1, *a.shape))
    lead = _broadcast_leading(a, b)
    a, b = (x if x.shape[:-2] == lead else bind(TABLE["broadcast_to"], x, shape=(*lead, *x.shape[-2:])) for x in (a, b))
    n = len(lead)
    axes = tuple(range(n))
    out = contract_axes(a, b, (n + 1,), (n,), axes, settings)
    return bind(TABLE["reshape"], out, shape=(*lead, out.shape[-1])) if vector else out


def _broadcast_leading(a: Node, b: Node) -> tuple[int, ...]:
    if (lead := broadcast(a.shape[:-2], b.shape[:-2])) is None:
        raise ShapeError(f"matmul: the leading dimensions of {a.shape} and {b.shape} do not broadcast")
    return lead


def contract_axes(
    a: Node, b: Node, a_axes: Sequence[int], b_axes: Sequence[int], batch: Sequence[int] = (),
    settings: Mapping[str, Any] = NO_SETTINGS,
) -> Node:
    """Return sums of products over axes; of bools, whether any product is true."""
    is_bool = a.dtype == BOOL
    if is_bool:
        a, b = cast(a, formats.INT32), cast(b, formats.INT32)
    batch_axes = tuple(batch)
    contract = tuple(a_axes), tuple(b_axes)
    params = {**current_precision(a.dtype), **settings} if settings else current_precision(a.dtype)
    out = bind(TABLE["dot_general"], a, b, contract=contract, batch=(batch_axes, batch_axes), **params)
    return cast(out, BOOL) if is_bool else out


BoundPrimitive = tuple[Primitive | None, Format]  # primitive None: the operand itself
Rule = Callable[[str, Format], tuple[str | None, Format]]


class _RuleCache(dict[Format, BoundPrimitive]):
    """Cache of a rule's results, by dtype of the operands."""

    __slots__ = ("name", "rule")

    def __init__(self, name: str, rule: Rule) -> None:
        self.name, self.rule = name, rule

    def __missing__(self, dtype: Format) -> BoundPrimitive:
        primitive, within = self.rule(self.name, dtype)
        way = (None if primitive is None else TABLE[primitive], within)
        if dtype in INEXACT or within not in INEXACT:  # not cached for integers that become floats: that dtype is a setting
            self[dtype] = way
        return way


class Operation:
    """An elementwise operation.

    name : of the function, ``wf.<name>``
    arity : number of operands
    rule : (name, dtype of the operands) -> (primitive, dtype it is bound in), or DTypeError
    operator : ``add`` stands for ``__add__``, ``__radd__`` and ``__iadd__``
    ufunc : name of NumPy's ufunc, if it differs; "" if there is none
    aliases : further names in ``wf``
    fold : the function of ``wf`` that is the ufunc's ``reduce``
    body : makes the node from operands of any kind, if the rule is not enough
    promote_pair : (a, b) -> common dtype of two arrays
    """

    __slots__ = ("aliases", "arity", "body", "fold", "name", "operator", "promote_pair", "rule", "ufunc", "bindings")

    def __init__(
        self, name: str, arity: int, rule: Rule, operator: str = "", ufunc: str | None = None, aliases: tuple[str, ...] = (),
        fold: str = "", body: Callable[..., Node] | None = None, promote_pair: Callable[[Format, Format], Format] = promote,
    ) -> None:  # a dataclass would add 1 ms to the import
        self.name, self.arity, self.rule, self.operator = name, arity, rule, operator
        self.ufunc = name if ufunc is None else ufunc
        self.aliases, self.fold, self.body, self.promote_pair = aliases, fold, body, promote_pair
        self.bindings = _RuleCache(name, rule)

    def node(self, *xs: Any) -> Node:
        """Return the node for operands of any kind."""
        if self.body is not None:
            return self.body(self, *xs)
        values, common_dtype = read_operands(xs, self.promote_pair, formats.weak)
        primitive, dtype = self.bindings[common_dtype]
        nodes = [x if type(x) is Node and x.dtype is dtype else convert_operand(x, dtype) for x in values]
        return nodes[0] if primitive is None else bind(primitive, *nodes)

    def of(self, *nodes: Node) -> Node:
        """Return the node for nodes of one dtype."""
        primitive, dtype = self.bindings[nodes[0].dtype]
        return nodes[0] if primitive is None else bind(primitive, *[cast(n, dtype) for n in nodes])


# ---- rules

def _keep_dtype(name: str, dtype: Format) -> tuple[str | None, Format]:
    return name, dtype


def to_float(name: str, dtype: Format) -> tuple[str | None, Format]:
    return name, elementwise_float_format(dtype)


def floats_of(a: Format, b: Format) -> Format:
    """Return the common float dtype of two dtypes. If DEFAULT is wide, each becomes a float before they are promoted, as in
    NumPy."""
    return promote(elementwise_float_format(a), elementwise_float_format(b)) if formats.DEFAULT.wide else promote(a, b)


def _refuse_bool(name: str, dtype: Format) -> tuple[str | None, Format]:
    if dtype == BOOL:
        other = {"subtract": "^ or wf.logical_xor", "negative": "~ or wf.logical_not"}.get(name)
        raise DTypeError(f"{name}: the dtype bool has no {name}; {f'use {other}, or ' if other else ''}cast with .astype('int8')")
    return name, dtype


def _identity(name: str, dtype: Format) -> tuple[str | None, Format]:
    return None, _refuse_bool(name, dtype)[1]


def _bool_as_int8(name: str, dtype: Format) -> tuple[str | None, Format]:
    return name, INT8 if dtype == BOOL else dtype


def _bool_as(other: str) -> Rule:
    return lambda name, dtype: (other if dtype == BOOL else name, dtype)


def _skip_integers(name: str, dtype: Format) -> tuple[str | None, Format]:
    """Return the operand itself for integers and bools, which are whole already."""
    return name if dtype in INEXACT else None, dtype


def _absolute(name: str, dtype: Format) -> tuple[str | None, Format]:
    return None if dtype.kind in ("bool", "unsigned") else name, dtype


def complex_error(name: str, dtype: Format) -> DTypeError:
    """Return the error for complex operands of a function of real numbers."""
    parts = "take wf.real(x), wf.imag(x) or wf.abs(x)"
    return DTypeError(f"{name}: the dtype is {dtype}, but {name} takes no complex numbers: {parts}")


def _refuse_floats(name: str, dtype: Format) -> tuple[str | None, Format]:
    if dtype in formats.COMPLEX:
        raise complex_error(name, dtype)
    if dtype in formats.FLOATS:
        raise DTypeError(f"{name}: integers are needed, but the dtype is {dtype}; cast with .astype('int64')")
    return name, INT8 if dtype == BOOL and "shift" in name else dtype


def refuse_complex(rule: Rule) -> Rule:
    """Return a rule that refuses complex numbers, as NumPy does, although the primitive takes them."""

    def checked(name: str, dtype: Format) -> tuple[str | None, Format]:
        if dtype in formats.COMPLEX:
            raise complex_error(name, dtype)
        return rule(name, dtype)

    return checked


def _use_primitive(primitive: str, rule: Rule) -> Rule:
    return lambda name, dtype: (primitive, rule(name, dtype)[1])


# ---- operations of more than one node

def _combine_as_bool(operation: Operation, *xs: Any) -> Node:
    """Convert each operand to bool before it is combined, since dtypes need not promote."""
    return bind(TABLE[operation.name], *(is_nonzero(as_node(x)) for x in xs))


def is_nonzero(node: Node) -> Node:
    """Return whether each element is not zero."""
    return node if node.dtype == BOOL else bind(TABLE["not_equal"], node, constant(0, node.dtype))


def _exp2(operation: Operation, x: Any) -> Node:
    node = as_node(x)
    dtype = to_float("", node.dtype)[1]
    wide = dtype.computed if dtype.alone else dtype  # which has the number 2
    return cast(bind(TABLE["pow"], constant(2, wide), cast(node, wide)), dtype)


def _reciprocal(operation: Operation, x: Any) -> Node:
    """Return reciprocals. Of integers the truncated value, as in NumPy: 1 and -1 stay, others are 0."""
    node = as_node(x)
    if node.dtype in INEXACT:
        return operation.of(node)
    node = cast(node, _bool_as_int8("", node.dtype)[1])
    unit = bind(TABLE["equal"], bind(TABLE["abs"], node), constant(1, node.dtype))
    return bind(TABLE["where"], unit, node, constant(0, node.dtype))


def _signbit(operation: Operation, x: Any) -> Node:
    node = as_node(x)
    if node.dtype in INEXACT:
        return operation.of(node)
    node = cast(node, _bool_as_int8("", node.dtype)[1])
    return bind(TABLE["less"], node, constant(0, node.dtype))


SHORT_POWERS = (-1.0, -0.5, 0.5, 3.0)  # exponents compiled as constants: devices compute them in a few operations


def _power(operation: Operation, x: Any, y: Any) -> Node:
    """Return ``x ** y``. ``x ** 2`` is ``x * x``, as in NumPy: cheaper and more exact. Integers have no negative powers."""
    if type(y) is TracedInt:
        y = y.make_static()
    a, b = promote_operands(x, y)
    if type(y) is int or (type(y) is float and y in SHORT_POWERS):
        b = constant(y, b.dtype)  # the code of a power and its derivative depends on it
    if b.dtype not in formats.FLOATS and 0 not in a.shape:
        _refuse_negative(b)
    if type(y) in (int, float) and y == 2 and a.dtype != BOOL:
        return bind(TABLE["square"], a)
    return operation.of(a, b)


def _refuse_negative(power: Node) -> None:
    """Raise an error for negative exponents in constants and materialised nodes. Pending ones are not checked."""
    if power.op is CONSTANT:
        least = power.params["value"]
    elif power.value is not None and power.size and power.dtype.kind == "signed":
        least = read_array(power).min()
    else:
        return
    if least < 0:
        raise ValueError("pow: integers to negative integer powers are not allowed: cast one of them with .astype('float32')")


_PYTHON = {
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge,
}


def _compare(operation: Operation, x: Any, y: Any) -> Node:
    """Compare by value, as NumPy does: integers meet floats in float64, and a number out of range of the dtype is allowed."""
    (a, b), dtype = read_operands((x, y), formats.compared, formats.weak_compared)
    if dtype in INTEGERS and (is_int(a) or is_int(b)):
        number, array = (a, b) if is_int(a) else (b, a)
        if type(array) is Node and not dtype.least <= number <= dtype.greatest:
            side = -1 if number > 0 else 1  # every element lies on this side of the number
            answer = _PYTHON[operation.name](side, 0) if array is a else _PYTHON[operation.name](0, side)
            return bind(TABLE["broadcast_to"], constant(answer, BOOL), shape=array.shape)
    if dtype.finite and (_becomes_nan(a, dtype) or _becomes_nan(b, dtype)):
        dtype = dtype.computed
    if dtype == formats.FLOAT64 and type(a) is Node and type(b) is Node and a.dtype in INTEGERS and b.dtype in INTEGERS:
        return _compare_signs(operation, a, b)
    return operation.of(convert_operand(a, dtype), convert_operand(b, dtype))


def _becomes_nan(x: Any, dtype: Format) -> bool:
    """Return whether a number would become NaN in a format without infinities."""
    if type(x) is TracedInt and not fits(x.value, dtype):
        x = x.fix_value()
    return type(x) in (int, float) and abs(x) > dtype.reach


def _compare_signs(operation: Operation, a: Node, b: Node) -> Node:
    """Compare uint64 with a signed dtype: as uint64 if the signed value is not negative, by its sign if it is."""
    signed = b if a.dtype == UINT64 else a
    negative = bind(TABLE["less"], signed, constant(0, signed.dtype))
    whole = bind(TABLE[operation.name], cast(a, UINT64), cast(b, UINT64))
    answer = constant(_PYTHON[operation.name](0, -1) if signed is b else _PYTHON[operation.name](-1, 0), BOOL)
    return bind(TABLE["where"], negative, answer, whole)


# ---- the table

_TRIGONOMETRY = ("sin", "cos", "tan", "sinh", "cosh", "tanh")
_INVERSE = ("asin", "acos", "atan", "asinh", "acosh", "atanh")
_RECORDS = (
    # arithmetic
    Operation("add", 2, _bool_as("logical_or"), "add", fold="sum"),
    Operation("subtract", 2, _refuse_bool, "sub"),
    Operation("multiply", 2, _bool_as("logical_and"), "mul", fold="prod"),
    Operation("divide", 2, lambda name, dtype: (name, quotient(dtype)), "truediv", aliases=("true_divide",)),
    Operation("floor_divide", 2, refuse_complex(_bool_as_int8), "floordiv"),
    Operation("remainder", 2, refuse_complex(_bool_as_int8), "mod", aliases=("mod",)),
    Operation("pow", 2, _bool_as_int8, "pow", "power", ("power",), body=_power),
    Operation("maximum", 2, _bool_as("logical_or"), fold="max"),
    Operation("minimum", 2, _bool_as("logical_and"), fold="min"),
    Operation("negative", 1, _refuse_bool, "neg"),
    Operation("positive", 1, _identity, "pos"),
    Operation("abs", 1, _absolute, "abs", "absolute", ("absolute",)),
    Operation("fabs", 1, refuse_complex(_use_primitive("abs", to_float))),
    Operation("sign", 1, _refuse_bool),
    Operation("square", 1, _bool_as_int8),
    Operation("sqrt", 1, to_float),
    Operation("reciprocal", 1, _keep_dtype, body=_reciprocal),
    Operation("stop_gradient", 1, _keep_dtype, ufunc=""),
    # rounding
    Operation("floor", 1, _skip_integers),
    Operation("ceil", 1, _skip_integers),
    Operation("trunc", 1, _skip_integers),
    Operation("rint", 1, _use_primitive("round", to_float)),
    # exponentials, logarithms, trigonometry
    *(Operation(n, 1, to_float) for n in ("exp", "expm1", "log", "log1p", "log2", "log10")),
    Operation("exp2", 1, to_float, body=_exp2),
    Operation("logaddexp", 2, refuse_complex(to_float), promote_pair=floats_of),
    *(Operation(n, 1, to_float) for n in _TRIGONOMETRY),
    *(Operation(n, 1, to_float, ufunc=f"arc{n[1:]}", aliases=(f"arc{n[1:]}",)) for n in _INVERSE),
    Operation("atan2", 2, refuse_complex(to_float), ufunc="arctan2", aliases=("arctan2",), promote_pair=floats_of),
    Operation("hypot", 2, refuse_complex(to_float), promote_pair=floats_of),
    # kinds and signs of numbers
    Operation("copysign", 2, refuse_complex(to_float), promote_pair=floats_of),
    Operation("nextafter", 2, refuse_complex(to_float), promote_pair=floats_of),
    Operation("signbit", 1, _keep_dtype, body=_signbit),
    *(Operation(n, 1, _bool_as_int8) for n in ("isnan", "isinf", "isfinite")),
    # comparisons and logic
    Operation("equal", 2, _keep_dtype, "eq", body=_compare),
    Operation("not_equal", 2, _keep_dtype, "ne", body=_compare),
    Operation("less", 2, _keep_dtype, "lt", body=_compare),
    Operation("less_equal", 2, _keep_dtype, "le", body=_compare),
    Operation("greater", 2, _keep_dtype, "gt", body=_compare),
    Operation("greater_equal", 2, _keep_dtype, "ge", body=_compare),
    Operation("logical_and", 2, _keep_dtype, fold="all", body=_combine_as_bool),
    Operation("logical_or", 2, _keep_dtype, fold="any", body=_combine_as_bool),
    Operation("logical_xor", 2, _keep_dtype, body=_combine_as_bool),
    Operation("logical_not", 1, _keep_dtype, body=_combine_as_bool),
    # bits
    Operation("bitwise_and", 2, _refuse_floats, "and"),
    Operation("bitwise_or", 2, _refuse_floats, "or"),
    Operation("bitwise_xor", 2, _refuse_floats, "xor"),
    Operation("bitwise_invert", 1, _refuse_floats, "invert", "invert", ("bitwise_not", "invert")),
    Operation("bitwise_left_shift", 2, _refuse_floats, "lshift", "left_shift", ("left_shift",)),
    Operation("bitwise_right_shift", 2, _refuse_floats, "rshift", "right_shift", ("right_shift",)),
)
OPERATIONS: dict[str, Operation] = {o.name: o for o in _RECORDS}
UFUNCS: dict[str, Operation] = {o.ufunc: o for o in _RECORDS if o.ufunc}

__all__ = ["OPERATIONS", "RECORDS"]


def _op(name: str, *nodes: Node) -> Node:
    return bind(TABLE[name], *nodes)


def _as_floats(operation: Operation, *xs: Any) -> tuple[list[Node], Format]:
    """Return operands as floats, in the dtype in which the result is computed, and the dtype of the result."""
    values, common_dtype = read_operands(xs, operation.promote_pair, formats.weak)
    dtype = operation.rule(operation.name, common_dtype)[1]
    return [cast(convert_operand(x, dtype), dtype.computed) for x in values], dtype


def _ignore_nan(name: str) -> Any:
    """Return a maximum or minimum that ignores a NaN beside a number."""
    def body(operation: Operation, x: Any, y: Any) -> Node:
        a, b = promote_operands(x, y)
        both = OPERATIONS[name].of(a, b)
        if both.dtype not in INEXACT:
            return both
        return _op("where", _op("isnan", both), _op("where", _op("isnan", b), a, b), both)

    return body


def _fmod(operation: Operation, x: Any, y: Any) -> Node:
    """Return the remainder of a truncated division, which has the sign of the first operand."""
    a, b = promote_operands(x, y)
    if a.dtype in formats.FLOATS:
        return _op("copysign", _op("remainder", _op("abs", a), _op("abs", b)), a)
    if a.dtype == BOOL:
        a, b = cast(a, INT8), cast(b, INT8)
    rest, zero = _op("remainder", a, b), constant(0, a.dtype)
    if a.dtype.kind == "unsigned":
        return rest
    other = _op("not_equal", _op("less", a, zero), _op("less", b, zero))
    other = _op("logical_and", other, _op("not_equal", rest, zero))
    return _op("where", other, _op("subtract", rest, b), rest)


def _scale_by(factor: float) -> Any:
    def body(operation: Operation, x: Any) -> Node:
        (a,), dtype = _as_floats(operation, x)
        return cast(_op("multiply", a, constant(factor, a.dtype)), dtype)

    return body


def _cbrt(operation: Operation, x: Any) -> Node:
    """Return the cube root: a power, whose last digit one Newton step makes exact."""
    (a,), dtype = _as_floats(operation, x)
    size = _op("abs", a)
    is_regular = _op("logical_and", _op("isfinite", a), _op("greater", size, constant(0, a.dtype)))
    inside = _op("where", is_regular, size, constant(1, a.dtype))
    root = _op("pow", inside, constant(1 / 3, a.dtype))
    error = _op("subtract", root, _op("divide", inside, _op("square", root)))
    root = _op("subtract", root, _op("multiply", error, constant(1 / 3, a.dtype)))
    return cast(_op("where", is_regular, _op("copysign", root, a), a), dtype)


def _logaddexp2(operation: Operation, x: Any, y: Any) -> Node:
    (a, b), dtype = _as_floats(operation, x, y)
    difference = _op("negative", _op("abs", _op("subtract", a, b)))
    extra = _op("log1p", _op("pow", constant(2, a.dtype), difference))
    sum_ = _op("add", _op("maximum", a, b), _op("multiply", extra, constant(1 / math.log(2), a.dtype)))
    equal = _op("equal", a, b)  # includes infinities, whose difference is NaN
    return cast(_op("where", equal, _op("add", a, constant(1, a.dtype)), sum_), dtype)


def _heaviside(operation: Operation, x: Any, y: Any) -> Node:
    (a, b), dtype = _as_floats(operation, x, y)
    zero, one = constant(0, a.dtype), constant(1, a.dtype)
    sides = _op("where", _op("less", a, zero), zero, _op("where", _op("equal", a, zero), b, one))
    return cast(_op("where", _op("isnan", a), a, sides), dtype)


def _spacing(operation: Operation, x: Any) -> Node:
    a = as_node(x)
    a = cast(a, operation.rule(operation.name, a.dtype)[1])
    a = _op("stop_gradient", a)  # the spacing is locally constant
    low, high = constant(a.dtype.least, a.dtype), constant(a.dtype.greatest, a.dtype)
    sign = _op("where", _op("less", a, constant(0, a.dtype)), low, high)
    further = _op("subtract", _op("nextafter", a, sign), a)
    if not a.dtype.finite:
        return further
    nearer = _op("subtract", a, _op("nextafter", a, constant(0, a.dtype)))  # the largest number has no next one
    return _op("where", _op("equal", a, sign), nearer, further)


def _bitwise_count(operation: Operation, x: Any) -> Node:
    """Count the bits of the absolute value: in pairs, fours, eights, summed by a multiplication."""
    a = as_node(x)
    if a.dtype == BOOL:
        return cast(a, formats.UINT8)
    if a.dtype not in INTEGERS:
        raise DTypeError(f"bitwise_count: integers are needed, but the dtype is {a.dtype}; cast with .astype('int64')")
    a = cast(a, a.dtype.computed)
    if a.dtype.kind == "signed":
        a = _op("abs", a)
    bits = a.dtype.bits
    a = cast(a, next(f for f in formats.formats_of_kind("unsigned") if f.bits == bits))

    def repeat(pattern: int) -> Node:
        return constant(int.from_bytes(bytes([pattern]) * (bits // 8), "little"), a.dtype)

    def right(n: Node, by: int) -> Node:
        return _op("bitwise_right_shift", n, constant(by, a.dtype))

    a = _op("subtract", a, _op("bitwise_and", right(a, 1), repeat(0x55)))
    a = _op("add", _op("bitwise_and", a, repeat(0x33)), _op("bitwise_and", right(a, 2), repeat(0x33)))
    a = _op("bitwise_and", _op("add", a, right(a, 4)), repeat(0x0F))
    return cast(right(_op("multiply", a, repeat(0x01)), bits - 8) if bits > 8 else a, formats.UINT8)


def _ldexp(operation: Operation, x: Any, y: Any) -> Node:
    """Return ``x * 2**y``, multiplied by four powers of two whose bits are built from the exponent: four reach from the smallest
    to the largest number."""
    value, power = as_node(x), as_node(y)
    if power.dtype == UINT64 or (power.dtype not in INTEGERS and power.dtype != BOOL):
        raise DTypeError(f"ldexp: x2 must hold integers below 2**63, but has dtype {power.dtype}; cast with .astype('int64')")
    use_float16 = formats.DEFAULT.wide and type(x) is int and type(y) not in (bool, int) and power.dtype is not BOOL
    value = cast(value, FLOAT16 if use_float16 else operation.rule(operation.name, value.dtype)[1])  # NumPy's numbers are weak
    form = value.dtype.computed
    bits, most = form.integer, form.bias - 1
    result, rest = cast(value, form), cast(power, INT64)
    for _ in range(4):
        step = _op("minimum", _op("maximum", rest, constant(-most, INT64)), constant(most, INT64))
        rest = _op("subtract", rest, step)
        field = cast(_op("add", step, constant(form.bias, INT64)), bits)
        factor = bind(TABLE["bitcast"], _op("bitwise_left_shift", field, constant(form.mantissa, bits)), dtype=form)
        result = _op("multiply", result, factor)
    return cast(result, value.dtype)


def _at_least_float64(name: str, dtype: Format) -> tuple[str | None, Format]:
    return name, formats.FLOAT64 if dtype.alone else promote(dtype, formats.FLOAT64)


def _float_power(operation: Operation, x: Any, y: Any) -> Node:
    values, common_dtype = read_operands((x, y), promote, formats.weak)
    within = operation.rule(operation.name, common_dtype)[1]
    return OPERATIONS["pow"].of(*[convert_operand(v, within) for v in values])


def _integers_only(name: str, dtype: Format) -> tuple[str | None, Format]:
    if dtype not in INTEGERS:
        raise DTypeError(f"{name}: integers are needed, but the dtype is {dtype}; cast with .astype('int64')")
    return name, dtype


def _compute_in_numpy(operation: Operation, x: Any, y: Any) -> Node:
    """Return the result of NumPy, computed now: gcd and lcm loop over integers, for which there is no primitive."""
    a, b = promote_operands(x, y)
    operation.rule(operation.name, a.dtype)
    if broadcast(a.shape, b.shape) is None:
        raise ShapeError(
            f"{operation.name}: shapes {a.shape}, {b.shape} do not broadcast: from the right, extents must be equal or 1"
        )
    return numpy_node(np.asarray(getattr(np, operation.name)(read_array(a), read_array(b))))


def _conjugate(name: str, dtype: Format) -> tuple[str | None, Format]:
    """Return the operand itself if it is real; NumPy makes int8 of bools."""
    return (name, dtype) if dtype in formats.COMPLEX else (None, INT8 if dtype == BOOL else dtype)


RECORDS = (
    Operation("fmax", 2, OPERATIONS["maximum"].rule, body=_ignore_nan("maximum")),
    Operation("fmin", 2, OPERATIONS["minimum"].rule, body=_ignore_nan("minimum")),
    Operation("fmod", 2, OPERATIONS["remainder"].rule, body=_fmod),
    Operation("degrees", 1, refuse_complex(to_float), aliases=("rad2deg",), body=_scale_by(180 / math.pi)),
    Operation("radians", 1, refuse_complex(to_float), aliases=("deg2rad",), body=_scale_by(math.pi / 180)),
    Operation("cbrt", 1, refuse_complex(to_float), body=_cbrt),
    Operation("logaddexp2", 2, refuse_complex(to_float), body=_logaddexp2, promote_pair=floats_of),
    Operation("heaviside", 2, refuse_complex(to_float), body=_heaviside, promote_pair=floats_of),
    Operation("ldexp", 2, refuse_complex(to_float), body=_ldexp),
    Operation("float_power", 2, _at_least_float64, body=_float_power),
    Operation("gcd", 2, _integers_only, body=_compute_in_numpy),
    Operation("lcm", 2, _integers_only, body=_compute_in_numpy),
    Operation("conj", 1, _conjugate, ufunc="conjugate", aliases=("conjugate",)),
    Operation("spacing", 1, refuse_complex(to_float), body=_spacing),
    Operation("bitwise_count", 1, OPERATIONS["bitwise_and"].rule, body=_bitwise_count),
)
OPERATIONS.update((o.name, o) for o in RECORDS)
UFUNCS.update((name, o) for o in RECORDS for name in (o.ufunc, *o.aliases))
