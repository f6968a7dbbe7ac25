"""Elements and selections read and written at once, in NumPy."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft.array.views import ViewPath, shown, view_dtype
from weft.dtypes.formats import BOOL, FLOATS, FROM_NUMPY, INTEGERS, UINT64, Format
from weft.eager import compute_now, in_place, policy, tiers
from weft.eager.compute_now import computed
from weft.eager.in_place import write_if_unshared
from weft.eager.materialise import materialise
from weft.eager.policy import can_run_now
from weft.eager.tiers import content
from weft.graph.node import Node
from weft.graph.primitives.table import CONSTANT, SCALAR, input_leaf
from weft.runtime import execute
from weft.runtime.cell import Cell
from weft.runtime.context import CONTEXT

_NUMBERS = frozenset((float, int, bool))


def element(array: Any, index: Any) -> Node | None:
    """Return the element of an array at integers, as a leaf; None if the content is not materialised."""
    view = array._peek()
    return None if view is None else input_leaf((), viewed_dtype(array), execute.to_buffer(view[index]))


def write_view(cell: Any, path: ViewPath, value: Node) -> bool:
    """Write a small value along a path into a cell's buffer, if nothing else refers to the buffer. Return whether it was done."""
    if (new := _compute_content(value)) is None:
        return False

    def write(memory: np.ndarray) -> bool:
        if (target := shown(memory, path)) is None:
            return False
        target[...] = new
        return True

    return write_if_unshared(cell, write)


def write_part(array: Any, index: Any, value: Any) -> bool:
    """Write a number or an array of this dtype at an index of integers and slices, if nothing else refers to the buffer. Return
    whether it was done. NumPy broadcasts the value. The caller holds ``WRITE_LOCK``."""
    if (new := castless_value(value, viewed_dtype(array))) is None:
        return False

    def write(memory: np.ndarray) -> bool:
        if (view := array._shown(memory)) is None:
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


_PLAIN = frozenset((int, slice, type(None), type(Ellipsis)))
_INDEX_FORMATS = frozenset((BOOL, *(form for form in INTEGERS if form is not UINT64)))  # NumPy reads the largest uint64 as -1
_MASK_FACTOR = 16  # masks may select from arrays this much larger than the eager limit


def read(array: Any, index: Any) -> Node | None:
    """Return the elements that an index with arrays selects, as a leaf; None if the case is not plain."""
    if (key := _numpy_key(index, compute_masks=True)) is None:
        return None
    view = array._peek()
    try:
        if view is None or _count_bytes(key, view) > CONTEXT.max_eager_bytes:
            return None
        result = np.asarray(view[key])
    except (IndexError, ValueError):  # the caller raises it with the line
        return None
    return input_leaf(result.shape, viewed_dtype(array), execute.to_buffer(result))


def written(array: Any, index: Any, value: Any, put: Callable[..., None] = operator.setitem) -> bool:
    """Write or accumulate where an index with arrays selects. Return whether it was done; if not, nothing was written.

    The caller holds ``WRITE_LOCK``. put : called with NumPy's array, index and value
    """
    if (key := _numpy_key(index, compute_masks=False)) is None:
        return False
    cell = array.cell
    if (content := None if cell._node.value is None else castless_value(value, viewed_dtype(array))) is None:
        return False

    def write(memory: np.ndarray) -> bool:
        view = array._shown(memory)
        if view is None or _count_bytes(key, view) > CONTEXT.max_eager_bytes:
            return False
        put(view, key, content)
        return True

    try:
        return in_place.write_if_unshared(cell, write)
    except (IndexError, TypeError, ValueError):  # the caller raises it, or accepts what NumPy does not
        return False


def _numpy_key(index: Any, compute_masks: bool) -> tuple | None:
    """Return the index as NumPy takes it, if it contains arrays and all of them are materialised; else None.

    compute_masks : whether pending masks are computed, as a read needs them
    """
    if not policy.is_enabled():
        return None
    key, arrays = [], False
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind in _PLAIN:
            key.append(part)
            continue
        if isinstance(part, Cell):
            node = part.node  # type: ignore[attr-defined]
            array = tiers.content(node) if node.dtype in _INDEX_FORMATS and _materialised(node, compute_masks) else None
        else:
            array = np.asarray(part) if kind in (list, np.ndarray) else None
            if array is not None and FROM_NUMPY.get(array.dtype) not in _INDEX_FORMATS:
                return None
        if array is None:
            return None
        arrays = True
        key.append(array)
    return tuple(key) if arrays else None


def _materialised(node: Node, compute_masks: bool) -> bool:
    if node.value is None and not compute_now.computed(node) and compute_masks and node.dtype is BOOL:
        materialise((node,))
    return node.value is not None and node.op is not SCALAR


def _count_bytes(key: tuple, view: np.ndarray) -> int:
    """Return the bytes that are read or written, at most; an estimate if there is a mask.

    Raises
    ------
    ValueError
        The index arrays do not broadcast.
    """
    shape: tuple[int, ...] | None = None
    for part in key:
        if type(part) is np.ndarray:
            if part.dtype == np.bool_:
                return view.nbytes // _MASK_FACTOR
            if shape is None or shape == part.shape:
                shape = part.shape
            else:
                shape = np.broadcast_shapes(shape, part.shape)
    count, dim = prod(shape or ()), 0
    if count * view.nbytes <= CONTEXT.max_eager_bytes:  # small for every selection
        return 0
    for part in key:
        if part is Ellipsis:
            dims = view.ndim - sum([p is not None and p is not Ellipsis for p in key])
            count *= prod(view.shape[dim : dim + dims])
            dim += dims
        elif part is not None:
            count *= prod(view.shape[dim : dim + 1]) if isinstance(part, slice) else 1
            dim += 1
    return count * prod(view.shape[dim:]) * view.itemsize
