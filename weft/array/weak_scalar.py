"""Number: a float argument of a traced function, a run-time number without a dtype of its own."""

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
from weft.runtime.context import LOCAL
from weft.runtime.traced_int import GIVEN, Given, Tape, computed

_Source = tuple[Callable[..., Any], tuple[Any, ...]]  # what Python computes a number by, and of what


class Told(Scalar):
    """A number or a truth of a trace, of which Python can tell the value: see ``weft/runtime/traced_int.py``.

    The Program computes it. Only where the value itself is needed Python computes it too, by what ``source`` says, at each call.
    """

    __slots__ = ("source",)

    source: _Source | None

    def given(self) -> Any:
        """The run-time number, None where nobody can tell its value."""
        pending: list[Told] = [self]
        found: dict[int, Any] = {}
        while pending:
            x = pending[-1]
            if id(x) in found:
                pending.pop()
            elif x.source is None:
                return None
            else:
                function, operands = x.source
                missing = [y for y in operands if isinstance(y, Told) and id(y) not in found]
                if missing:
                    pending += missing
                    continue
                found[id(x)] = computed(function, *[found[id(y)] if isinstance(y, Told) else y for y in operands])
        given = found[id(self)]
        return given if type(given) in GIVEN and given.tape.open else None

    def __bool__(self) -> bool:
        given = self.given()
        return super().__bool__() if given is None else bool(given)


class Number(Told):
    """A Python float given to a traced function: a run-time number that takes the dtype of the arrays it meets.

    Alone it is float32; with other numbers it stays a number, computed in float64 as Python would, and a float when it is
    returned. NumPy's functions make float64 of it, as they do of floats.
    """

    __slots__ = ()
    weak = True

    if not TYPE_CHECKING:

        @property
        def __class__(self) -> type:  # so isinstance(t, float) is what it is without jit
            return float

    @property
    def node(self) -> Node:
        return self.as_dtype_node(DEFAULT.real)

    def as_dtype_node(self, dtype: Format) -> Node:
        """The number in ``dtype``."""
        if dtype in COMPLEX:
            return cast(self.as_dtype_node(dtype.part), dtype)
        node = self._node
        if node.op is SCALAR and self._trace is not None:  # None: it was left behind by its trace
            return self._trace.scalar(node, dtype)
        return cast(node, dtype)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            given = self.given()
            return super().__round__() if given is None else round(given)
        return number(as_node(Scalar.round(self._new(self._node), digits)), (round, (self, digits)))

    def _weakly(self, operation: Operation, *xs: Any) -> Array:
        out = operation.of(*map(_exactly, xs))
        function = getattr(operator, f"__{operation.operator}__", None)
        source = None if function is None else (function, xs)
        return _truth(out, source) if out.dtype == BOOL else number(out, source)


def _exactly(x: Any) -> Node:
    return x._node if isinstance(x, Number) else as_node(x if type(x) is Given else float(x), FLOAT64)


def _made(kind: type[Told], node: Node, source: _Source | None) -> Any:
    out = object.__new__(kind)
    out._node = node
    out._base = None
    out.source = source
    out._trace = trace = LOCAL.trace
    if trace is not None:
        trace.made.append(weakref.ref(out))
    return out


def number(node: Node, source: _Source | None = None) -> Number:
    """A Number of a float64 node. source : how Python computes it"""
    return _made(Number, node, source)


def _truth(node: Node, source: _Source | None) -> Told:
    return _made(Told, node, source)


def told_number(node: Node, value: float, tape: Tape, slot: int) -> Number:
    """A Number whose value the tape has in a slot."""
    return number(node, (tape.number, (value, slot)))


def _install() -> None:
    """Where a float's value is needed, it is told: the argument is static then, as an int is."""

    def method(name: str, function: Callable[..., Any], static: bool = True) -> None:
        otherwise = getattr(Number, name)

        def told(self: Number, *args: Any) -> Any:
            given = self.given()
            return otherwise(self, *args) if given is None else function(given.told() if static else given, *args)

        told.__name__ = name
        setattr(Number, name, told)

    needing: dict[str, Callable[..., Any]] = {
        "__float__": float, "__int__": int, "__complex__": complex, "__str__": str, "__repr__": repr, "__format__": format,
        "__hash__": hash, "__index__": operator.index,
        "item": float, "tolist": float, "is_integer": float.is_integer, "as_integer_ratio": float.as_integer_ratio,
        "hex": float.hex,
    }
    computing: dict[str, Callable[..., Any]] = {"__trunc__": math.trunc, "__floor__": math.floor, "__ceil__": math.ceil}
    for name, function in needing.items():
        method(name, function)
    for name, function in computing.items():
        method(name, function, static=False)


install_weak(Number)
_install()
