"""Eager reads and writes of elements and parts of arrays whose contents are materialised."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array.views import Path, dtype_behind, shown
from weft.devices.base import ELSEWHERE
from weft.dtypes.formats import BOOL, FLOATS, INTEGERS, Format
from weft.eager import policy, tiers
from weft.eager.compute_now import computed
from weft.eager.in_place import in_own_memory
from weft.graph.node import Node
from weft.graph.primitives.table import CONSTANT, SCALAR, input_leaf
from weft.runtime import execute
from weft.runtime.cell import WRITING, Cell
from weft.runtime.context import LOCAL

_NUMBERS = frozenset((float, int, bool))


def element(array: Any, index: Any) -> Node | None:
    """Return the element of an array at integers, as a leaf; None if the content is not materialised."""
    node = array.cell._node
    if node.value is None or node.op is SCALAR or not policy.is_enabled():
        return None
    if ELSEWHERE and not execute.fetched(node):
        return None
    view = array._shown(execute.memory(node.value, node.shape, node.dtype))
    return None if view is None else input_leaf((), shown_dtype(array), execute.to_buffer(view[index]))


def written(cell: Any, path: Path, value: Node) -> bool:
    """Write a small value along a path into a cell's buffer, if nothing else refers to the buffer. Return whether it was done."""
    if value.nbytes > LOCAL.at_once or not policy.is_enabled():
        return False
    if value.value is None and value.op is not CONSTANT and not computed(value):
        return False
    content = tiers.content(value)

    def write(memory: np.ndarray) -> bool:
        target = shown(memory, path)
        if target is None:
            return False
        target[...] = content
        return True

    return in_own_memory(cell, write)


def part_written(array: Any, index: Any, value: Any) -> bool:
    """Write a number or an array of this dtype at an index of integers and slices, if nothing else refers to the buffer. Return
    whether it was done. NumPy broadcasts the value. The caller holds ``WRITING``."""
    if not policy.is_enabled():
        return False
    content = plain_content(value, shown_dtype(array))
    if content is None:
        return False

    def write(memory: np.ndarray) -> bool:
        view = array._shown(memory)
        if view is None:
            return False
        view[index] = content
        return True

    try:
        return in_own_memory(array.cell, write)
    except ValueError:  # it does not fit: the caller raises it with the line
        return False


def shown_dtype(array: Any) -> Format:
    """Return the dtype of an array, without following its view."""
    dtype = array.cell._node.dtype
    return dtype if array._base is None else dtype_behind(dtype, array._path)


def plain_content(value: Any, dtype: Format) -> Any:
    """Return the value to write if NumPy stores it in ``dtype`` without a cast; else None."""
    if number_fits(value, dtype):
        return value
    if not isinstance(value, Cell):
        return None
    node = value.node  # type: ignore[attr-defined]
    if node.dtype is not dtype or node.nbytes > LOCAL.at_once:
        return None
    if node.value is None and node.op is not CONSTANT and not computed(node):
        return None
    return tiers.content(node)


def number_written(cell: Any, index: Any, value: Any) -> bool:
    """Write a Python number at an index of integers, if nothing else refers to the buffer. Return whether it was done."""
    if not number_fits(value, cell._node.dtype) or not policy.is_enabled():
        return False

    def write(memory: np.ndarray) -> bool:
        memory[index] = value
        return True

    with WRITING:
        return in_own_memory(cell, write)


def number_fits(value: Any, dtype: Format) -> bool:
    """Return whether this is a Python number that ``dtype`` holds without a warning or a change of kind."""
    kind = type(value)
    if kind not in _NUMBERS:
        return False
    if dtype in FLOATS:
        return kind is float and not dtype.largest < abs(value) < math.inf or kind is not float and abs(value) <= dtype.reach
    return kind is bool if dtype is BOOL else kind is int and dtype in INTEGERS and dtype.least <= value <= dtype.greatest
