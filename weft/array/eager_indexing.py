"""Eager reads and writes through index arrays and masks that are materialised, in NumPy.

The number of elements that a mask selects is the shape of the result, so the mask must be read anyway; and if shapes differ in
every iteration of a loop, compiling does not pay off. Cases that are not plain are left to the caller.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft.array import element_access
from weft.dtypes.formats import BOOL, FROM_NUMPY, INTEGERS, UINT64
from weft.eager import apply, in_place, policy, tiers
from weft.eager.materialise import materialise
from weft.graph.node import Node
from weft.graph.primitives.table import SCALAR, input_leaf
from weft.runtime import execute
from weft.runtime.cell import Cell
from weft.runtime.context import CONTEXT

_PLAIN = frozenset((int, slice, type(None), type(Ellipsis)))
_INDEX_FORMATS = frozenset((BOOL, *(form for form in INTEGERS if form is not UINT64)))  # NumPy reads the largest uint64 as -1
_MASK_FACTOR = 16  # masks may select from arrays this much larger than the eager limit


def read(array: Any, index: Any) -> Node | None:
    """Return the elements that an index with arrays selects, as a leaf; None if the case is not plain."""
    key = _numpy_key(index, compute_masks=True)
    if key is None:
        return None
    view = array._peek()
    try:
        if view is None or _count_bytes(key, view) > CONTEXT.max_eager_bytes:
            return None
        result = np.asarray(view[key])
    except (IndexError, ValueError):  # the caller raises it with the line
        return None
    return input_leaf(result.shape, element_access.viewed_dtype(array), execute.to_buffer(result))


def written(array: Any, index: Any, value: Any, put: Callable[..., None] = operator.setitem) -> bool:
    """Write or accumulate where an index with arrays selects. Return whether it was done; if not, nothing was written.

    The caller holds ``WRITE_LOCK``. put : called with NumPy's array, index and value
    """
    key = _numpy_key(index, compute_masks=False)
    if key is None:
        return False
    cell = array.cell
    content = None if cell._node.value is None else element_access.castless_value(value, element_access.viewed_dtype(array))
    if content is None:
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
    if node.value is None and not apply.computed(node) and compute_masks and node.dtype is BOOL:
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
