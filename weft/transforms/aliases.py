"""Arguments that share memory: which of them, and what that means for a traced function.

As long as nothing is written it does not matter that two arguments show one array. Where one is written, the other must show
it: then both are traced as views of one placeholder, and how they lie in it is part of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from weft.array import Array
from weft.array.views import Path, overlap
from weft.graph.node import frozen
from weft.graph.source_lines import user_frame, user_line


def shared(leaves: Sequence[Any], written: Collection[int], states: Collection[int] = ()) -> list[list[int]]:
    """Groups of leaves (their numbers) that show one cell, where one that is written has an element of another.

    written : numbers of leaves
    states : cells (by id) that are known to the trace by themselves
    """
    found: dict[int, list[int]] = {}
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, Array) and not leaf.weak and id(leaf.cell) not in states:
            found.setdefault(id(leaf.cell), []).append(k)
    return [
        numbers for numbers in found.values()
        if len(numbers) > 1 and any(meet(leaves[w], leaves[k]) for w in numbers if w in written for k in numbers)
    ]


def meet(a: Array, b: Array) -> bool:
    """Whether two Arrays, not one and the same, show an element in common."""
    return a is not b and touch(a, b)


def touch(a: Any, b: Any) -> bool:
    """Whether two arrays, weft's or NumPy's, show an element in common; yes where that is hard to tell."""
    if isinstance(a, Array) and isinstance(b, Array):
        return a.cell is b.cell and overlap(a.cell.shape, a.cell.node.dtype, path_of(a), path_of(b))
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)


def path_of(array: Array) -> Path:
    return () if array._base is None else array._path


def path_key(array: Array) -> tuple:
    """How an Array shows its cell, hashable."""
    return tuple([(name, frozen(params)) for name, params in path_of(array)])


def shared_key(leaves: Sequence[Any], groups: Sequence[Sequence[int]]) -> tuple:
    """How the leaves of each group lie in the cell they show."""
    key = []
    for numbers in groups:
        node = leaves[numbers[0]].cell.node
        key.append((node.shape, node.dtype, tuple([(k, path_key(leaves[k])) for k in numbers])))
    return tuple(key)


def check_writes(given: Sequence[Any], written: Collection[int], f: Callable) -> None:
    """Refuse NumPy arrays that cannot be written as the function writes them, before anything has run."""
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
    """Refuse to write what NumPy would not write."""
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise ValueError(
            f"{user_line(user_frame())}: {name} writes an argument in place, a NumPy array ({array.dtype}{list(array.shape)}) "
            "that is read-only: give a copy of it"
        )


def write_back(given: Sequence[Any], leaves: Sequence[Any], written: Collection[int]) -> None:
    """What the function wrote into NumPy arrays, which went in as copies."""
    for k in written:
        if isinstance(given[k], np.ndarray):
            given[k][...] = leaves[k].numpy()
