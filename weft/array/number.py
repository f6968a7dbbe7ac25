"""Number: a float argument of a traced function, a run-time number without a dtype of its own."""

from __future__ import annotations

import weakref
from typing import Any

from weft.array.core import Array, Scalar
from weft.array.meaning import Operation
from weft.array.operators import install_weak
from weft.cell import LOCAL
from weft.convert import as_node, cast
from weft.formats import BOOL, COMPLEX, DEFAULT, FLOAT64, Format
from weft.given import Given
from weft.graph.node import Node
from weft.graph.primitives.table import SCALAR


class Number(Scalar):
    """A Python float given to a traced function: a run-time number that takes the dtype of the arrays it meets.

    Alone it is float32; with other numbers it stays a number, computed in float64 as Python would, and a float when it is
    returned. NumPy's functions make float64 of it, as they do of floats.
    """

    __slots__ = ()
    weak = True

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
            return super().__round__()
        return number(as_node(Scalar.round(self._new(self._node), digits)))

    def _weakly(self, operation: Operation, *xs: Any) -> Array:
        out = operation.of(*map(_exactly, xs))
        return self._new(out) if out.dtype == BOOL else number(out)


def _exactly(x: Any) -> Node:
    return x._node if isinstance(x, Number) else as_node(x if type(x) is Given else float(x), FLOAT64)


def number(node: Node) -> Number:
    """A Number of a float64 node."""
    out = object.__new__(Number)
    out._node = node
    out._base = None
    out._trace = trace = LOCAL.trace
    if trace is not None:
        trace.made.append(weakref.ref(out))
    return out


install_weak(Number)
