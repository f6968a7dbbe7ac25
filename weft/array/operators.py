"""The operators of Array, hung on the class by :func:`install`.

Most expressions join two arrays of one shape and dtype, or an array and a number: these take a short way that asks no
rule. A lazy operation should cost less than a microsecond.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array.meaning import apply, unary
from weft.cell import LOCAL
from weft.convert import number_node
from weft.dtypes import FLOATS, SIGNED, UNSIGNED, is_float
from weft.dtypes import bool as BOOL
from weft.graph.node import Node, user_frame
from weft.graph.primitives.table import TABLE, constant

_ARITHMETIC = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
_COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
_UNARY = {"neg": "negative", "abs": "abs", "invert": "bitwise_invert"}

_INTEGERS = (*SIGNED, *UNSIGNED)
# operator -> {dtype of both operands: dtype of the result}, where the primitive applies as it stands
_PLAIN: dict[str, dict[np.dtype, np.dtype]] = {
    **{n: {d: d for d in (*_INTEGERS, *FLOATS)} for n in ("add", "subtract", "multiply", "floor_divide", "remainder", "pow")},
    "divide": {d: d for d in FLOATS},
    **{n: {d: BOOL for d in (*_INTEGERS, *FLOATS)} for n in _COMPARISONS.values()},
    **{n: {d: d for d in (*_INTEGERS, BOOL)} for n in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{n: {d: d for d in _INTEGERS} for n in ("bitwise_left_shift", "bitwise_right_shift")},
}
_NUMBERS = frozenset((float, int, bool))
_PACKAGE = __file__.rsplit("/", 2)[0] + "/"
_ASKING = _PACKAGE  # operators written in files that begin with this ask user_frame where they stand
_frame = sys._getframe
_new = object.__new__
_NOTHING: dict[str, Any] = {}
_SMALL: dict[tuple[Any, np.dtype], Node] = {}  # constants of small integers, made once


def _number(value: Any, dtype: np.dtype) -> Node | None:
    """A Python number beside an array of ``dtype``, where that keeps the dtype."""
    if type(value) is int:
        node = _SMALL.get((value, dtype))
        if node is None:
            if dtype is BOOL or not -128 <= value < 128 or (value < 0 and dtype.kind == "u"):
                return None
            node = _SMALL[value, dtype] = constant(value, dtype)
        return node
    return number_node(value, dtype) if type(value) is float and is_float(dtype) else None


def install(cls: Any, wrap: Callable[[Node], Any]) -> None:
    """Give ``cls`` (Array) its operators."""
    for name, primitive in _ARITHMETIC.items():
        for prefix, function in zip(("", "r", "i"), _binary(cls, wrap, primitive), strict=True):
            _hang(cls, f"__{prefix}{name}__", function)
    _hang(cls, "__pow__", _power(cls, wrap, cls.__pow__))
    for name, primitive in _COMPARISONS.items():
        _hang(cls, f"__{name}__", _binary(cls, wrap, primitive)[0])
    for name, primitive in _UNARY.items():
        _hang(cls, f"__{name}__", _unary(wrap, primitive))


def _power(cls: Any, wrap: Callable[[Node], Any], power: Callable) -> Callable:
    """``x ** 2`` is ``x * x``, as in NumPy: cheaper and more exact than a power."""
    square = TABLE["square"]

    def raised(self: Any, other: Any) -> Any:
        if type(self) is cls and type(other) in (int, float) and other == 2 and self.dtype is not BOOL:
            node = self.node
            return wrap(Node(square, (node,), _NOTHING, node.shape, node.dtype, user_frame()))
        return power(self, other)

    return raised


def _hang(cls: type, name: str, function: Any) -> None:
    function.__name__ = name
    function.__qualname__ = f"Array.{name}"
    setattr(cls, name, function)


def _unary(wrap: Callable[[Node], Any], primitive: str) -> Callable:
    node_of = unary(primitive)
    return lambda self: wrap(node_of(self.node))


def _binary(cls: Any, wrap: Callable[[Node], Any], name: str) -> tuple[Callable, Callable, Callable]:
    op, plain = TABLE[name], _PLAIN[name]

    def joined(x: Node, y: Node, dtype: np.dtype) -> Any:
        """The short way: the result has the shape of ``x``."""
        frame = _frame(2)
        code = frame.f_code
        node = _new(Node)  # by hand: __init__ would cost as much as all the rest
        node.op = op
        node.inputs = (x, y)
        node.params = _NOTHING
        node.shape = x.shape
        node.dtype = dtype
        node.where = user_frame() if code.co_filename.startswith(_ASKING) else (code, frame.f_lasti)
        node.value = node.holder = None
        return wrap(node)

    def forward(self: Any, other: Any) -> Any:
        if type(self) is cls:
            outside = LOCAL.trace is None  # then a cell's content is simply there
            x = self._node if outside and self._base is None else self.node
            dtype = plain.get(x.dtype)
            if dtype is not None:
                if type(other) is cls:
                    y = other._node if outside and other._base is None else other.node
                    if x.dtype is y.dtype:
                        if x.shape == y.shape or not y.shape:
                            return joined(x, y, dtype)
                elif type(other) in _NUMBERS:
                    y = _number(other, x.dtype)
                    if y is not None:
                        return joined(x, y, dtype)
        elif type(other) in _NUMBERS or getattr(other, "weak", False):
            return self._weakly(name, self, other)
        if foreign(other):
            return NotImplemented
        return wrap(apply(name, self, other))

    def reflected(self: Any, other: Any) -> Any:
        if foreign(other):
            return NotImplemented
        if self.weak and type(other) in _NUMBERS:
            return self._weakly(name, other, self)
        return wrap(apply(name, other, self))

    def in_place(self: Any, other: Any) -> Any:
        if foreign(other):
            return NotImplemented
        return forward(self, other) if self.weak else self._in_place(apply(name, self, other), f"{name} in place")

    return forward, reflected, in_place


def mark_nodes(on: bool) -> None:
    """While a profile marks nodes with layers, all operators ask user_frame; the short way knows only the line."""
    global _ASKING
    _ASKING = "" if on else _PACKAGE


def foreign(x: Any) -> bool:
    """Whether an operand is of a type that weft leaves to its own operators."""
    return x is None or isinstance(x, str | bytes | dict | set)
