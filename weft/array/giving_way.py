"""Operands that weft cannot hold: which are left to their own operators, and what ``==`` says of the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.convert import is_stripped, numpy_node
from weft.dtypes.formats import BOOL
from weft.eager.apply import bind
from weft.errors import DTypeError
from weft.graph.primitives.table import TABLE, constant
from weft.runtime.cell import Cell

_NEVER_EQUAL = (str, bytes, dict, set, type(None))
_SILENT: Any = object()


def foreign(x: Any) -> bool:
    """Whether an operand is of a type that weft leaves to its own operators: one that is no number, or that asks for it."""
    return isinstance(x, _NEVER_EQUAL) or asks_for_it(x)


def asks_for_it(x: Any) -> bool:
    """Whether an object says, as it does to NumPy, that its operators come first: ``__array_ufunc__ = None``, or, where it has
    nothing of that name, a higher ``__array_priority__`` than arrays, which have 0.

    Arrays of other libraries, which know NumPy's but not weft's, are taken over instead.
    """
    found = getattr(type(x), "__array_ufunc__", _SILENT)
    if found is not _SILENT:
        return found is None
    return getattr(x, "__array_priority__", 0) > 0 and not hasattr(x, "__dlpack__")


def foreign_in_place(x: Any, name: str) -> bool:
    """The same of ``a += x``, which may not become another object where ``x`` wants no arrays' operations."""
    if getattr(type(x), "__array_ufunc__", _SILENT) is None:
        raise TypeError(f"{name} in place: {type(x).__name__} has __array_ufunc__ = None, so no array takes it; use a = a + b")
    return foreign(x)


def equality(operation: Any, slow: Callable[[Any, Any], Any], scalar: type) -> Callable[[Any, Any], Any]:
    """The long way of ``==`` or ``!=``: with what weft cannot hold, too, each element is equal or not."""
    differs = operation.name == "not_equal"

    def compared(self: Any, other: Any) -> Any:
        if asks_for_it(other):
            return NotImplemented
        if isinstance(other, _NEVER_EQUAL):
            if type(self) is scalar:
                return differs
            return self._new(bind(TABLE["broadcast_to"], constant(differs, BOOL), shape=self.node.shape))
        try:
            return slow(self, other)
        except DTypeError:
            if isinstance(other, Cell | np.number | np.bool_ | int | float | complex) or is_stripped(type(other)):
                raise
        content = self.numpy()
        found: Any = content != other if differs else content == other
        if not isinstance(found, np.ndarray | np.bool_):
            return found
        return self._new(numpy_node(np.asarray(found, bool)))

    return compared
