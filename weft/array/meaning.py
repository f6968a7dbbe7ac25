"""What the operations on elements mean: one record each, which operators, functions of ``wf.*`` and NumPy's ufuncs all ask.

A record's rule says for the dtype that the operands have together which primitive is bound and in which dtype. Where NumPy
makes floats out of integers weft makes float32; the rest is NumPy's answer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from weft.convert import as_node, cast, common, in_dtype, operands
from weft.dtypes.formats import (
    BOOL,
    COMPLEX,
    DEFAULT,
    FLOAT64,
    FLOATS,
    INEXACT,
    INT8,
    INTEGERS,
    UINT64,
    Format,
    compared,
    of_elements,
    promote,
    weak,
    weak_compared,
)
from weft.dtypes.formats import floating as quotient
from weft.eager.apply import bind
from weft.eager.materialise import look
from weft.errors import DTypeError
from weft.graph.node import Node, Primitive
from weft.graph.primitives.table import CONSTANT, TABLE, constant
from weft.runtime.traced_int import Given, fits, is_int

Way = tuple[Primitive | None, Format]  # None: the operand itself
Rule = Callable[[str, Format], tuple[str | None, Format]]


class _Ways(dict[Format, Way]):
    """What an operation does with operands of a dtype, asked of its rule once."""

    __slots__ = ("name", "rule")

    def __init__(self, name: str, rule: Rule) -> None:
        self.name, self.rule = name, rule

    def __missing__(self, dtype: Format) -> Way:
        primitive, within = self.rule(self.name, dtype)
        found = (None if primitive is None else TABLE[primitive], within)
        if dtype in INEXACT or within not in INEXACT:  # what floats are made of integers is not for ever
            self[dtype] = found
        return found


class Operation:
    """One operation on elements.

    name : of the function, ``wf.<name>``
    arity : how many operands
    rule : (name, dtype of the operands) -> (primitive, dtype it is bound in), or DTypeError
    operator : ``add`` stands for ``__add__``, ``__radd__`` and ``__iadd__``
    ufunc : what NumPy's ufunc is called, where it differs; "" where there is none
    aliases : further names in ``wf``
    fold : the function of ``wf`` that is the ufunc's ``reduce``
    body : makes the node of operands as users write them, where there is more to it than the rule
    both : (a, b) -> the dtype that arrays of these have together
    """

    __slots__ = ("aliases", "arity", "body", "both", "fold", "name", "operator", "rule", "ufunc", "ways")

    def __init__(
        self, name: str, arity: int, rule: Rule, operator: str = "", ufunc: str | None = None, aliases: tuple[str, ...] = (),
        fold: str = "", body: Callable[..., Node] | None = None, both: Callable[[Format, Format], Format] = promote,
    ) -> None:  # a dataclass would take a millisecond of the import
        self.name, self.arity, self.rule, self.operator = name, arity, rule, operator
        self.ufunc = name if ufunc is None else ufunc
        self.aliases, self.fold, self.body, self.both = aliases, fold, body, both
        self.ways = _Ways(name, rule)

    def node(self, *xs: Any) -> Node:
        """The node of operands of any kind."""
        if self.body is not None:
            return self.body(self, *xs)
        found, have = common(xs, self.both, weak)
        primitive, dtype = self.ways[have]
        nodes = [x if type(x) is Node and x.dtype is dtype else in_dtype(x, dtype) for x in found]
        return nodes[0] if primitive is None else bind(primitive, *nodes)

    def of(self, *nodes: Node) -> Node:
        """The node of operands of one dtype."""
        primitive, dtype = self.ways[nodes[0].dtype]
        return nodes[0] if primitive is None else bind(primitive, *[cast(n, dtype) for n in nodes])


# ---- rules

def _same(name: str, dtype: Format) -> tuple[str | None, Format]:
    return name, dtype


def floating(name: str, dtype: Format) -> tuple[str | None, Format]:
    return name, of_elements(dtype)


def floats_of(a: Format, b: Format) -> Format:
    """Of two that become floats: where formats mix as NumPy's do, each does by itself."""
    return promote(of_elements(a), of_elements(b)) if DEFAULT.wide else promote(a, b)


def _divided(name: str, dtype: Format) -> tuple[str | None, Format]:
    return name, quotient(dtype)


def _numeric(name: str, dtype: Format) -> tuple[str | None, Format]:
    if dtype == BOOL:
        other = {"subtract": "^ or wf.logical_xor", "negative": "~ or wf.logical_not"}.get(name)
        raise DTypeError(f"{name}: the dtype bool has no {name}; {f'use {other}, or ' if other else ''}cast with .astype('int8')")
    return name, dtype


def _itself(name: str, dtype: Format) -> tuple[str | None, Format]:
    return None, _numeric(name, dtype)[1]


def _bool_as_int8(name: str, dtype: Format) -> tuple[str | None, Format]:
    return name, INT8 if dtype == BOOL else dtype


def _bool_as(other: str) -> Rule:
    return lambda name, dtype: (other if dtype == BOOL else name, dtype)


def _of_floats(name: str, dtype: Format) -> tuple[str | None, Format]:
    """Integers and bools are whole already."""
    return name if dtype in INEXACT else None, dtype


def _absolute(name: str, dtype: Format) -> tuple[str | None, Format]:
    return None if dtype.kind in ("bool", "unsigned") else name, dtype


def no_complex(name: str, dtype: Format) -> DTypeError:
    parts = "take wf.real(x), wf.imag(x) or wf.abs(x)"
    return DTypeError(f"{name}: the dtype is {dtype}, but {name} takes no complex numbers: {parts}")


def _bits(name: str, dtype: Format) -> tuple[str | None, Format]:
    if dtype in COMPLEX:
        raise no_complex(name, dtype)
    if dtype in FLOATS:
        raise DTypeError(f"{name}: integers are needed, but the dtype is {dtype}; cast with .astype('int64')")
    return name, INT8 if dtype == BOOL and "shift" in name else dtype


def real(rule: Rule) -> Rule:
    """Of what NumPy refuses complex numbers, although the primitive takes them."""

    def checked(name: str, dtype: Format) -> tuple[str | None, Format]:
        if dtype in COMPLEX:
            raise no_complex(name, dtype)
        return rule(name, dtype)

    return checked


def _as(primitive: str, rule: Rule) -> Rule:
    return lambda name, dtype: (primitive, rule(name, dtype)[1])


# ---- operations of more than one node

def _each_as_bool(operation: Operation, *xs: Any) -> Node:
    """Whether each operand is true is asked before they meet: their dtypes do not mix."""
    return bind(TABLE[operation.name], *(truth(as_node(x)) for x in xs))


def truth(node: Node) -> Node:
    """Whether each element is not zero."""
    return node if node.dtype == BOOL else bind(TABLE["not_equal"], node, constant(0, node.dtype))


def _exp2(operation: Operation, x: Any) -> Node:
    node = as_node(x)
    node = cast(node, floating("", node.dtype)[1])
    return bind(TABLE["pow"], constant(2, node.dtype), node)


def _reciprocal(operation: Operation, x: Any) -> Node:
    """Of integers the whole part, as in NumPy: 1 and -1 stay, the rest is 0."""
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


SHORT_POWERS = (-1.0, -0.5, 0.5, 3.0)  # exponents that are constants of a program, since devices compute them in a few operations


def _power(operation: Operation, x: Any, y: Any) -> Node:
    """``x ** 2`` is ``x * x``, as in NumPy: cheaper and more exact. Integers have no negative powers."""
    if type(y) is Given:
        y = y.told()
    a, b = operands(x, y)
    if type(y) is int or (type(y) is float and y in SHORT_POWERS):
        b = constant(y, b.dtype)  # what a power and its derivative are computed by depends on it
    if b.dtype not in FLOATS and 0 not in a.shape:
        _refuse_negative(b)
    if type(y) in (int, float) and y == 2 and a.dtype != BOOL:
        return bind(TABLE["square"], a)
    return operation.of(a, b)


def _refuse_negative(power: Node) -> None:
    """What is known already is looked at: numbers, and arrays that are computed."""
    if power.op is CONSTANT:
        least = power.params["value"]
    elif power.value is not None and power.size and power.dtype.kind == "signed":
        least = look(power).min()
    else:
        return
    if least < 0:
        raise ValueError("pow: integers to negative integer powers are not allowed: cast one of them with .astype('float32')")


_PYTHON = {
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge,
}


def _compare(operation: Operation, x: Any, y: Any) -> Node:
    """By value, as in NumPy: integers meet floats in float64, and numbers that no element can equal are compared all the same."""
    (a, b), dtype = common((x, y), compared, weak_compared)
    if dtype in INTEGERS and (is_int(a) or is_int(b)):
        number, array = (a, b) if is_int(a) else (b, a)
        if type(array) is Node and not dtype.least <= number <= dtype.greatest:
            below = -1 if number > 0 else 1  # every element as seen from the number
            answer = _PYTHON[operation.name](below, 0) if array is a else _PYTHON[operation.name](0, below)
            return bind(TABLE["broadcast_to"], constant(answer, BOOL), shape=array.shape)
    if dtype.finite and (_beyond(a, dtype) or _beyond(b, dtype)):
        dtype = dtype.computed
    if dtype == FLOAT64 and type(a) is Node and type(b) is Node and a.dtype in INTEGERS and b.dtype in INTEGERS:
        return _compare_signs(operation, a, b)
    return operation.of(in_dtype(a, dtype), in_dtype(b, dtype))


def _beyond(x: Any, dtype: Format) -> bool:
    """Whether this is a number that becomes NaN in a format without infinities."""
    if type(x) is Given and not fits(x.value, dtype):
        x = x.here()
    return type(x) in (int, float) and abs(x) > dtype.reach


def _compare_signs(operation: Operation, a: Node, b: Node) -> Node:
    """uint64 with a signed dtype: as uint64 where that is not negative, and by the sign where it is."""
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
    Operation("subtract", 2, _numeric, "sub"),
    Operation("multiply", 2, _bool_as("logical_and"), "mul", fold="prod"),
    Operation("divide", 2, _divided, "truediv", aliases=("true_divide",)),
    Operation("floor_divide", 2, real(_bool_as_int8), "floordiv"),
    Operation("remainder", 2, real(_bool_as_int8), "mod", aliases=("mod",)),
    Operation("pow", 2, _bool_as_int8, "pow", "power", ("power",), body=_power),
    Operation("maximum", 2, _bool_as("logical_or"), fold="max"),
    Operation("minimum", 2, _bool_as("logical_and"), fold="min"),
    Operation("negative", 1, _numeric, "neg"),
    Operation("positive", 1, _itself, "pos"),
    Operation("abs", 1, _absolute, "abs", "absolute", ("absolute",)),
    Operation("fabs", 1, real(_as("abs", floating))),
    Operation("sign", 1, _numeric),
    Operation("square", 1, _bool_as_int8),
    Operation("sqrt", 1, floating),
    Operation("reciprocal", 1, _same, body=_reciprocal),
    Operation("stop_gradient", 1, _same, ufunc=""),
    # rounding
    Operation("floor", 1, _of_floats),
    Operation("ceil", 1, _of_floats),
    Operation("trunc", 1, _of_floats),
    Operation("rint", 1, _as("round", floating)),
    # exponentials, logarithms, trigonometry
    *(Operation(n, 1, floating) for n in ("exp", "expm1", "log", "log1p", "log2", "log10")),
    Operation("exp2", 1, floating, body=_exp2),
    Operation("logaddexp", 2, real(floating), both=floats_of),
    *(Operation(n, 1, floating) for n in _TRIGONOMETRY),
    *(Operation(n, 1, floating, ufunc=f"arc{n[1:]}", aliases=(f"arc{n[1:]}",)) for n in _INVERSE),
    Operation("atan2", 2, real(floating), ufunc="arctan2", aliases=("arctan2",), both=floats_of),
    Operation("hypot", 2, real(floating), both=floats_of),
    # kinds and signs of numbers
    Operation("copysign", 2, real(floating), both=floats_of),
    Operation("nextafter", 2, real(floating), both=floats_of),
    Operation("signbit", 1, _same, body=_signbit),
    *(Operation(n, 1, _bool_as_int8) for n in ("isnan", "isinf", "isfinite")),
    # comparisons and logic
    Operation("equal", 2, _same, "eq", body=_compare),
    Operation("not_equal", 2, _same, "ne", body=_compare),
    Operation("less", 2, _same, "lt", body=_compare),
    Operation("less_equal", 2, _same, "le", body=_compare),
    Operation("greater", 2, _same, "gt", body=_compare),
    Operation("greater_equal", 2, _same, "ge", body=_compare),
    Operation("logical_and", 2, _same, fold="all", body=_each_as_bool),
    Operation("logical_or", 2, _same, fold="any", body=_each_as_bool),
    Operation("logical_xor", 2, _same, body=_each_as_bool),
    Operation("logical_not", 1, _same, body=_each_as_bool),
    # bits
    Operation("bitwise_and", 2, _bits, "and"),
    Operation("bitwise_or", 2, _bits, "or"),
    Operation("bitwise_xor", 2, _bits, "xor"),
    Operation("bitwise_invert", 1, _bits, "invert", "invert", ("bitwise_not", "invert")),
    Operation("bitwise_left_shift", 2, _bits, "lshift", "left_shift", ("left_shift",)),
    Operation("bitwise_right_shift", 2, _bits, "rshift", "right_shift", ("right_shift",)),
)
OPERATIONS: dict[str, Operation] = {o.name: o for o in _RECORDS}
UFUNCS: dict[str, Operation] = {o.ufunc: o for o in _RECORDS if o.ufunc}
