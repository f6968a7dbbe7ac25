"""The steps of a table as words.

A step says what is looked at after it: bit 0: signals; above it, where the step may tell a fault (an index out of range), one
more than the number that its first site has among those of the Program. The record of the run is two words: 0 or the number of
a site plus one; and the index. Kernels write numbers of their own, the walker adds the first; after that no step runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple


class TableRow(NamedTuple):
    """One native call. ``function``: where its address lies, which may change. ``check``: look for signals (Ctrl-C) afterwards.
    ``first``: of its sites, -1: it checks no index; the sites of a loop have their numbers already, so its first is 0."""

    function: int
    args: tuple[int, ...]
    check: bool = False
    first: int = -1


@cache
def cell(address: int) -> int:
    """Where the address of a function lies that stays: memory that is never freed."""
    word = ctypes.c_int64(address)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(word))
    return ctypes.addressof(word)


def most_arguments(steps: Sequence[TableRow]) -> int:
    return max((len(s.args) for s in steps), default=0)


def step_words(steps: Iterable[TableRow]) -> list[int]:
    return [word for s in steps for word in (s.function, len(s.args), int(s.check) + 2 * (s.first + 1), *s.args)]
