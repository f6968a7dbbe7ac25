"""Eager reads and writes of elements and parts of arrays whose contents are materialised."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array.views import ViewPath, shown, view_dtype
from weft.dtypes.formats import BOOL, FLOATS, INTEGERS, Format
from weft.eager.apply import computed
from weft.eager.in_place import write_if_unshared
from weft.eager.policy import can_run_now
from weft.eager.tiers import content
from weft.graph.node import Node
from weft.graph.primitives.table import CONSTANT, input_leaf
from weft.runtime import execute
from weft.runtime.cell import Cell

_NUMBERS = frozenset((float, int, bool))


def element(array: Any, index: Any) -> Node | None:
    """Return the element of an array at integers, as a leaf; None if the content is not materialised."""
    view = array._peek()
    return None if view is None else input_leaf((), viewed_dtype(array), execute.to_buffer(view[index]))


def written(cell: Any, path: ViewPath, value: Node) -> bool:
    """Write a small value along a path into a cell's buffer, if nothing else refers to the buffer. Return whether it was done."""
    new = _compute_content(value)
    if new is None:
        return False

    def write(memory: np.ndarray) -> bool:
        target = shown(memory, path)
        if target is None:
            return False
        target[...] = new
        return True

    return write_if_unshared(cell, write)


def write_part(array: Any, index: Any, value: Any) -> bool:
    """Write a number or an array of this dtype at an index of integers and slices, if nothing else refers to the buffer. Return
    whether it was done. NumPy broadcasts the value. The caller holds ``WRITE_LOCK``."""
    new = castless_value(value, viewed_dtype(array))
    if new is None:
        return False

    def write(memory: np.ndarray) -> bool:
        view = array._shown(memory)
        if view is None:
            return False
        view[index] = new
        return True

    try:
        return write_if_unshared(array.cell, write)
    except ValueError:  # it does not fit: the caller raises it with the line
        return False


def viewed_dtype(array: Any) -> Format:
    """Return the dtype of an array, without following its view."""
    dtype = array.cell._node.dtype
    return dtype if array._base is None else view_dtype(dtype, array._path)


def castless_value(value: Any, dtype: Format) -> Any:
    """Return the value to write if NumPy stores it in ``dtype`` without a cast; else None."""
    if number_fits(value, dtype):
        return value
    if not isinstance(value, Cell):
        return None
    node = value.node  # type: ignore[attr-defined]
    return None if node.dtype is not dtype else _compute_content(node)


def _compute_content(node: Node) -> np.ndarray | None:
    """Return the content of a node, which is computed if it is small work; None if it stays pending, or is large."""
    if node.value is None and node.op is not CONSTANT:
        computed(node)
    return content(node) if can_run_now(node.nbytes, node) else None


def number_fits(value: Any, dtype: Format) -> bool:
    """Return whether this is a Python number that ``dtype`` holds without a warning or a change of kind."""
    kind = type(value)
    if kind not in _NUMBERS:
        return False
    if dtype in FLOATS:
        return kind is float and not dtype.largest < abs(value) < math.inf or kind is not float and abs(value) <= dtype.reach
    return kind is bool if dtype is BOOL else kind is int and dtype in INTEGERS and dtype.least <= value <= dtype.greatest
