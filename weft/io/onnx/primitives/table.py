"""The table of primitives that can be written: name -> the ONNX nodes that compute it.

An entry is the name of an ONNX operator, or a function of the writer, the traced node and the names of its operands, which adds
nodes and returns the name of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.io.onnx.writer import Traced, Writer

Export = Callable[..., str]

EXPORTS: dict[str, str | Export] = {}
LOWEST = -(2**63) + 1  # the end of a slice that goes backwards and includes the first element
_NARROW_INTEGERS = ("int8", "uint8", "int16", "uint16")


class NotWritten(Exception):
    """The operation, or this form of it, has no counterpart in the table; the text completes "the model computes ..."."""


def export(*names: str) -> Callable[[Export], Export]:
    """Return a decorator that adds a function to the table."""

    def add(function: Export) -> Export:
        EXPORTS.update(dict.fromkeys(names, function))
        return function

    return add


def kind_of(n: Traced) -> str:
    """Return the kind of a node's dtype: "bool", "int", "float", ..."""
    return n.dtype.kind


def is_narrow_integer(n: Traced) -> bool:
    """Return whether a node has integers of 8 or 16 bits, which several ONNX operators do not take."""
    return n.dtype.numpy.name in _NARROW_INTEGERS


def add_in_32_bits(w: Writer, n: Traced, op: str, x: str, *others: str, **attributes: Any) -> str:
    """Add an operation that ONNX lacks for integers of few bits: computed in 32 bits, the result wraps as weft's does."""
    if not is_narrow_integer(n):
        return w.add(op, x, *others, **attributes)
    return w.cast(w.add(op, w.cast(x, np.int32), *others, **attributes), n.dtype.numpy)
