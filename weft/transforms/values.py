"""Keys of the arrays and constants that objects hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from weft.array import Array
from weft.array.numpy_methods import lies
from weft.dtypes.formats import EVERY
from weft.runtime.traced_int import RUN_TIME_TYPES
from weft.transforms.aliases import path_key

_SCALARS = frozenset([form.numpy.type for form in EVERY.values()])
CONSTANTS = frozenset((int, float, bool, complex, str, bytes, type(None))) | _SCALARS
EXACT = frozenset((float, complex)) | _SCALARS  # compared by their text: 0.0 and -0.0 differ, NaN equals NaN


class Hashed:
    """A long key with a cached hash."""

    __slots__ = ("_hash", "key")

    def __init__(self, key: Any) -> None:
        self.key, self._hash = key, hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Hashed) and self._hash == other._hash and self.key == other.key)


def key_of(x: Array) -> tuple[Any, ...]:
    """Return the key of an array: shape and dtype of its cell, its class, memory layout and view path."""
    if x._base is None:
        node = x.node
        return node.shape, node.dtype, type(x), lies(x), ()
    node = x.cell.node
    return node.shape, node.dtype, type(x), lies(x), path_key(x)


def aliases_of(arrays: Sequence[Array]) -> list[tuple[int, int]]:
    """Return, for each array, the number of the first identical one, and of the first that shows the same cell."""
    same: dict[int, int] = {}
    cells: dict[int, int] = {}
    return [(same.setdefault(id(x), k), cells.setdefault(id(x.cell), k)) for k, x in enumerate(arrays)]


def cells_of(values: Sequence[Any]) -> dict[int, int]:
    """Map the id of each cell that arrays among the values show to the number of the first such value."""
    cells: dict[int, int] = {}
    for k, x in enumerate(values):
        if isinstance(x, Array):
            cells.setdefault(id(x.cell), k)
    return cells


def key_of_values(values: Sequence[Any], cells: Mapping[int, int], moving: Collection[int]) -> Hashed:
    """Return the key of values. cells : as :func:`cells_of` returns them. moving : numbers of the run-time numbers among them"""
    keys: list[Any] = []
    same: dict[int, int] = {}
    for k, x in enumerate(values):
        kind = type(x)
        if kind in CONSTANTS:
            keys.append(kind if k in moving and kind in RUN_TIME_TYPES else (kind, repr(x) if kind in EXACT else x))
        else:
            first, cell = same.setdefault(id(x), k), cells[id(x.cell)]
            keys.append(first if first < k else (key_of(x), cell if cell < k else None))
    return Hashed(tuple(keys))
