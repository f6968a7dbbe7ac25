"""Index arrays and masks that are there: NumPy reads and writes at once what they choose.

How many elements a mask chooses is the shape of the result, so it has to be looked at anyway; and where shapes differ at every
turn of a loop, nothing would be won by compiling. Whatever is not plain is left to those who ask.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft import at_once, execute, node_by_node, small
from weft.cell import LOCAL, Cell
from weft.devices.base import ELSEWHERE
from weft.formats import BOOL
from weft.graph.node import Node
from weft.graph.primitives.table import SCALAR, input_leaf
from weft.look import materialise
from weft.views import shown

_PLAIN = frozenset((int, slice, type(None), type(Ellipsis)))
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
    seen = _seen(execute.memory(source.value, source.shape, source.dtype), array)
    try:
        if seen is None or _moved(key, seen) > LOCAL.at_once:
            return None
        found = np.asarray(seen[key])
    except (IndexError, ValueError):  # told by others, with the line
        return None
    return input_leaf(found.shape, at_once.shown_dtype(array), execute.to_buffer(found))


def written(array: Any, index: Any, value: Any) -> bool:
    """Write where an index with arrays chooses; whether it is done. Nothing is written where it is not.

    To be called under ``WRITING``.
    """
    key = _key(index, looks=False)
    if key is None:
        return False
    cell = array.cell
    content = None if cell._node.value is None else at_once.plain_content(value, at_once.shown_dtype(array))
    if content is None:
        return False

    def write(memory: np.ndarray) -> bool:
        seen = _seen(memory, array)
        if seen is None or _moved(key, seen) > LOCAL.at_once:
            return False
        seen[key] = content
        return True

    try:
        return at_once.in_own_memory(cell, write)
    except (IndexError, TypeError, ValueError):  # told by others, or NumPy takes less than they
        return False


def _key(index: Any, looks: bool) -> tuple | None:
    """The index as NumPy takes it, if it has arrays, and all of them are there.

    looks : pending masks are computed, as whoever reads through them must
    """
    parts = index if type(index) is tuple else (index,)
    if _PLAIN.issuperset(map(type, parts)) or LOCAL.trace is not None or not small.able():
        return None
    key = []
    for part in parts:
        if type(part) in _PLAIN:
            key.append(part)
            continue
        if isinstance(part, Cell):
            node = part.node  # type: ignore[attr-defined]
            found = node_by_node.content(node) if _is_there(node, looks) else None
        else:
            found = np.asarray(part) if type(part) in (list, np.ndarray) else None
        if found is None or found.dtype.kind not in "iub" or found.dtype == np.uint64:  # NumPy takes its largest for -1
            return None
        key.append(found)
    return tuple(key)


def _is_there(node: Node, looks: bool) -> bool:
    if node.value is None and not at_once.computed(node) and looks and node.dtype is BOOL:
        materialise((node,))
    return node.value is not None and node.op is not SCALAR


def _seen(memory: np.ndarray, array: Any) -> np.ndarray | None:
    """What a handle shows of its cell's memory."""
    return memory if array._base is None else shown(memory, array._path)


def _moved(key: tuple, seen: np.ndarray) -> int:
    """Bytes that are read or written, at most; a guess where masks choose.

    Raises
    ------
    ValueError
        The index arrays do not broadcast.
    """
    arrays = [part for part in key if isinstance(part, np.ndarray)]
    if any([part.dtype == np.bool_ for part in arrays]):
        return seen.nbytes // _FEW
    first, *others = [part.shape for part in arrays]
    kept, dim = prod(np.broadcast_shapes(first, *others) if others else first), 0
    for part in key:
        if part is Ellipsis:
            dims = seen.ndim - sum([p is not None and p is not Ellipsis for p in key])
            kept *= prod(seen.shape[dim : dim + dims])
            dim += dims
        elif part is not None:
            kept *= prod(seen.shape[dim : dim + 1]) if isinstance(part, slice) else 1
            dim += 1
    return kept * prod(seen.shape[dim:]) * seen.itemsize
