"""Find arguments that share memory.

Aliases matter only if one of them is written, because the other must show the write: then both are traced as views of one
placeholder, and their view paths are part of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from weft.array import Array
from weft.array.views import ViewPath, overlap
from weft.graph.node import frozen
from weft.graph.source_lines import user_frame, user_line


def shared(leaves: Sequence[Any], written: Collection[int], states: Collection[int] = ()) -> list[list[int]]:
    """Return groups of leaf numbers that show one cell, if a written leaf overlaps another leaf of the group.

    written : numbers of the leaves that are written
    states : ids of captured cells, whose leaves are excluded
    """
    groups: dict[int, list[int]] = {}
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, Array) and not leaf.weak and id(leaf.cell) not in states:
            groups.setdefault(id(leaf.cell), []).append(k)
    return [
        numbers for numbers in groups.values()
        if len(numbers) > 1 and any(
            leaves[w] is not leaves[k] and touch(leaves[w], leaves[k]) for w in numbers if w in written for k in numbers
        )
    ]


def touch(a: Any, b: Any) -> bool:
    """Return whether two arrays, weft's or NumPy's, overlap; True if that cannot be excluded cheaply."""
    if isinstance(a, Array) and isinstance(b, Array):
        return a.cell is b.cell and overlap(a.cell.shape, a.cell.node.dtype, path_of(a), path_of(b))
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)


def path_of(array: Array) -> ViewPath:
    return () if array._base is None else array._path


def path_key(array: Array) -> tuple:
    """Return the view path of an Array, hashable."""
    return tuple([(name, frozen(params)) for name, params in path_of(array)])


def alias_key(leaves: Sequence[Any], groups: Sequence[Sequence[int]]) -> tuple:
    """Return the shape and dtype of each group's cell, with the view path of each leaf."""
    key = []
    for numbers in groups:
        node = leaves[numbers[0]].cell.node
        key.append((node.shape, node.dtype, tuple([(k, path_key(leaves[k])) for k in numbers])))
    return tuple(key)


def check_writes(given: Sequence[Any], written: Collection[int], f: Callable) -> None:
    """Raise ValueError if a NumPy array to be written is read-only or shares memory with another argument."""
    for k in written:
        array = given[k]
        if not isinstance(array, np.ndarray):
            continue
        name = getattr(f, "__name__", type(f).__name__)
        check_writable(array, name)
        if any(x is not array and touch(x, array) for x in given):
            raise ValueError(
                f"{user_line(user_frame())}: {name} writes a NumPy array ({array.dtype}{list(array.shape)}) in place that shares "
                "memory with another argument: give copies, or weft's arrays (wf.asarray), which may share it"
            )


def check_writable(array: Any, name: str) -> None:
    """Raise ValueError if ``array`` is a read-only NumPy array."""
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise ValueError(
            f"{user_line(user_frame())}: {name} writes an argument in place, a NumPy array ({array.dtype}{list(array.shape)}) "
            "that is read-only: give a copy of it"
        )


def write_back(given: Sequence[Any], leaves: Sequence[Any], written: Collection[int]) -> None:
    """Copy what the function wrote into the NumPy arrays, which were passed as copies."""
    for k in written:
        if isinstance(given[k], np.ndarray):
            given[k][...] = leaves[k].numpy()
