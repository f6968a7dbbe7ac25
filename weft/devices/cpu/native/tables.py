"""The steps of a table as words.

The check word of a step says what is checked after it. Bit 0: signals. The other bits: the Program's number of the step's first
site plus one, if the step can report a fault (an index out of range), else 0. The fault record of a run is two words: a site
number plus one, or 0, and the index. Kernels number their own sites; native code adds the first number and runs no further step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple


class TableRow(NamedTuple):
    """One native call.

    function : address of the cell with the function's address, which recompilation may replace
    check : whether to check for signals (Ctrl-C) afterwards
    first : number of its first site; -1 if it checks no index, 0 for a loop, whose sites have the Program's numbers already
    """

    function: int
    args: tuple[int, ...]
    check: bool = False
    first: int = -1


@cache
def cell(address: int) -> int:
    """Return the address of a permanent cell that holds a function's address."""
    word = ctypes.c_int64(address)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(word))
    return ctypes.addressof(word)


def most_arguments(steps: Sequence[TableRow]) -> int:
    return max((len(s.args) for s in steps), default=0)


def step_words(steps: Iterable[TableRow]) -> list[int]:
    return [word for s in steps for word in (s.function, len(s.args), int(s.check) + 2 * (s.first + 1), *s.args)]
