"""Number: a Python float argument of a traced function, a run-time number without a dtype of its own.

A Number is computed in float64 with other numbers, and passed to the Program once for each dtype that it meets.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.array.convert import as_node, cast
from weft.array.core import Array, Scalar
from weft.array.operations import Operation
from weft.array.operators import install_weak
from weft.dtypes.formats import BOOL, COMPLEX, DEFAULT, FLOAT64, Format
from weft.graph.node import Node
from weft.graph.primitives.table import SCALAR
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import TRACED_TYPES, Tape, TracedInt, compute_traced

_Source = tuple[Callable[..., Any], tuple[Any, ...]]  # Python function and operands


class TraceNumber(Scalar):
    """A number or bool inside a trace whose value Python can compute: see ``weft/runtime/traced_int.py``.

    The Program computes it. Only if the value itself is needed does Python compute it too, from ``source``, at each call.
    """

    __slots__ = ("source",)

    source: _Source | None

    def run_time_number(self) -> Any:
        """Return the number as a run-time number of the tape; None if Python cannot compute its value."""
        pending: list[TraceNumber] = [self]
        values: dict[int, Any] = {}
        while pending:
            x = pending[-1]
            if id(x) in values:
                pending.pop()
            elif x.source is None:
                return None
            else:
                function, operands = x.source
                missing = [y for y in operands if isinstance(y, TraceNumber) and id(y) not in values]
                if missing:
                    pending += missing
                    continue
                values[id(x)] = compute_traced(function, *[values[id(y)] if isinstance(y, TraceNumber) else y for y in operands])
        traced = values[id(self)]
        return traced if type(traced) in TRACED_TYPES and traced.tape.open else None

    def __bool__(self) -> bool:
        traced = self.run_time_number()
        return super().__bool__() if traced is None else bool(traced)


class Number(TraceNumber):
    """A Python float argument of a traced function: a run-time number that takes the dtype of the arrays it is combined with.

    Alone it is float32. Combined with other numbers it stays a number, computed in float64 as in Python, and is returned as a
    float. NumPy's functions convert it to float64, as they do floats.
    """

    __slots__ = ()
    weak = True

    if not TYPE_CHECKING:

        @property
        def __class__(self) -> type:  # isinstance(t, float) is the same as without jit
            return float

    @property
    def node(self) -> Node:
        return self.as_dtype_node(DEFAULT.real)

    def as_dtype_node(self, dtype: Format) -> Node:
        """Return the number in ``dtype``, as a node."""
        if dtype in COMPLEX:
            return cast(self.as_dtype_node(dtype.part), dtype)
        node = self._node
        if node.op is SCALAR and self._trace is not None:  # None: it outlives its trace
            return self._trace.scalar(node, dtype)
        return cast(node, dtype)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            traced = self.run_time_number()
            return super().__round__() if traced is None else round(traced)
        return number(as_node(Scalar.round(self._wrap(self._node), digits)), (round, (self, digits)))

    def _weakly(self, operation: Operation, *xs: Any) -> Array:
        out = operation.of(*map(_exact_node, xs))
        function = getattr(operator, f"__{operation.operator}__", None)
        source = None if function is None else (function, xs)
        return _make(TraceNumber, out, source) if out.dtype == BOOL else number(out, source)


def _exact_node(x: Any) -> Node:
    return x._node if isinstance(x, Number) else as_node(x if type(x) is TracedInt else float(x), FLOAT64)


def _make(kind: type[TraceNumber], node: Node, source: _Source | None) -> Any:
    out = object.__new__(kind)
    out._node = node
    out._base = None
    out.source = source
    out._trace = trace = CONTEXT.trace
    if trace is not None:
        trace.made_arrays.append(weakref.ref(out))
    return out


def number(node: Node, source: _Source | None = None) -> Number:
    """Return a Number for a float64 node. source : the Python function and operands that compute it"""
    return _make(Number, node, source)


def tape_number(node: Node, value: float, tape: Tape, slot: int) -> Number:
    """Return a Number whose value is in a slot of the tape."""
    return number(node, (tape.number, (value, slot)))


def _install() -> None:
    """Add the methods that need a float's value. They make the argument static, as for an int."""

    def method(name: str, function: Callable[..., Any], static: bool = True) -> None:
        original = getattr(Number, name)

        def read_value(self: Number, *args: Any) -> Any:
            traced = self.run_time_number()
            return original(self, *args) if traced is None else function(traced.make_static() if static else traced, *args)

        read_value.__name__ = name
        setattr(Number, name, read_value)

    static_methods: dict[str, Callable[..., Any]] = {
        "__float__": float, "__int__": int, "__complex__": complex, "__str__": str, "__repr__": repr, "__format__": format,
        "__hash__": hash, "__index__": operator.index,
        "item": float, "tolist": float, "is_integer": float.is_integer, "as_integer_ratio": float.as_integer_ratio,
        "hex": float.hex,
    }
    dynamic_methods: dict[str, Callable[..., Any]] = {"__trunc__": math.trunc, "__floor__": math.floor, "__ceil__": math.ceil}
    for name, function in static_methods.items():
        method(name, function)
    for name, function in dynamic_methods.items():
        method(name, function, static=False)


install_weak(Number)
_install()
