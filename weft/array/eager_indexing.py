"""Index arrays and masks that are there: NumPy reads and writes at once what they choose.

How many elements a mask chooses is the shape of the result, so it has to be looked at anyway; and where shapes differ at every
turn of a loop, nothing would be won by compiling. Whatever is not plain is left to those who ask.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft.array import element_access
from weft.devices.base import ELSEWHERE
from weft.dtypes.formats import BOOL, FROM_NUMPY, INTEGERS, UINT64
from weft.eager import compute_now, in_place, policy, tiers
from weft.eager.materialise import materialise
from weft.graph.node import Node
from weft.graph.primitives.table import SCALAR, input_leaf
from weft.runtime import execute
from weft.runtime.cell import Cell
from weft.runtime.context import LOCAL

_PLAIN = frozenset((int, slice, type(None), type(Ellipsis)))
_CHOOSING = frozenset((BOOL, *(form for form in INTEGERS if form is not UINT64)))  # whose largest NumPy takes for -1
_FEW = 16  # times what is read or written may be as large as what runs at once, if its shape depends on what masks hold


def read(array: Any, index: Any) -> Node | None:
    """What an index with arrays chooses, as a leaf; None where it is left to others."""
    key = _key(index, looks=True)
    if key is None:
        return None
    source = array.cell._node
    if source.value is None or source.op is SCALAR:
        return None
    if ELSEWHERE and not execute.fetched(source):
        return None
    seen = array._shown(execute.memory(source.value, source.shape, source.dtype))
    try:
        if seen is None or _moved(key, seen) > LOCAL.at_once:
            return None
        found = np.asarray(seen[key])
    except (IndexError, ValueError):  # told by others, with the line
        return None
    return input_leaf(found.shape, element_access.shown_dtype(array), execute.to_buffer(found))


def written(array: Any, index: Any, value: Any, put: Callable[..., None] = operator.setitem) -> bool:
    """Write where an index with arrays chooses, or add there; whether it is done. Nothing is written where it is not.

    To be called under ``WRITING``. put : called with NumPy's array, index and value
    """
    key = _key(index, looks=False)
    if key is None:
        return False
    cell = array.cell
    content = None if cell._node.value is None else element_access.plain_content(value, element_access.shown_dtype(array))
    if content is None:
        return False

    def write(memory: np.ndarray) -> bool:
        seen = array._shown(memory)
        if seen is None or _moved(key, seen) > LOCAL.at_once:
            return False
        put(seen, key, content)
        return True

    try:
        return in_place.in_own_memory(cell, write)
    except (IndexError, TypeError, ValueError):  # told by others, or NumPy takes less than they
        return False


def _key(index: Any, looks: bool) -> tuple | None:
    """The index as NumPy takes it, if it has arrays, and all of them are there.

    looks : pending masks are computed, as whoever reads through them must
    """
    if LOCAL.trace is not None or not policy.able():
        return None
    key, arrays = [], False
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind in _PLAIN:
            key.append(part)
            continue
        if isinstance(part, Cell):
            node = part.node  # type: ignore[attr-defined]
            found = tiers.content(node) if node.dtype in _CHOOSING and _is_there(node, looks) else None
        else:
            found = np.asarray(part) if kind in (list, np.ndarray) else None
            if found is not None and FROM_NUMPY.get(found.dtype) not in _CHOOSING:
                return None
        if found is None:
            return None
        arrays = True
        key.append(found)
    return tuple(key) if arrays else None


def _is_there(node: Node, looks: bool) -> bool:
    if node.value is None and not compute_now.computed(node) and looks and node.dtype is BOOL:
        materialise((node,))
    return node.value is not None and node.op is not SCALAR


def _moved(key: tuple, seen: np.ndarray) -> int:
    """Bytes that are read or written, at most; a guess where masks choose.

    Raises
    ------
    ValueError
        The index arrays do not broadcast.
    """
    shape: tuple[int, ...] | None = None
    for part in key:
        if type(part) is np.ndarray:
            if part.dtype == np.bool_:
                return seen.nbytes // _FEW
            if shape is None or shape == part.shape:
                shape = part.shape
            else:
                shape = np.broadcast_shapes(shape, part.shape)
    kept, dim = prod(shape or ()), 0
    if kept * seen.nbytes <= LOCAL.at_once:  # whatever is chosen
        return 0
    for part in key:
        if part is Ellipsis:
            dims = seen.ndim - sum([p is not None and p is not Ellipsis for p in key])
            kept *= prod(seen.shape[dim : dim + dims])
            dim += dims
        elif part is not None:
            kept *= prod(seen.shape[dim : dim + 1]) if isinstance(part, slice) else 1
            dim += 1
    return kept * prod(seen.shape[dim:]) * seen.itemsize
