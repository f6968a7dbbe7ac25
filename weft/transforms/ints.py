"""Decide which int arguments of a jitted function, and which numbers of objects, are run-time numbers (see ``traced_int.py``).

A number is part of the key, and a constant of the program, until a call passes a second value: most never change, and programs
with constants are the fastest. After that it is a run-time number, unless the function needs the value itself (as a shape, in a
format): then it is pinned to the key for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.process.bounded_cache import BoundedCache
from weft.runtime.traced_int import RUN_TIME_TYPES
from weft.transforms.call import Call
from weft.transforms.records import same_constant


class Numbers:
    """The numbers of one kind of call: those among the leaves of the arguments, then those among the values of objects.

    values : of the numbers that have not changed so far
    moving : the run-time numbers
    pinned : former run-time numbers that are part of the key again, each with the line that needs its value
    """

    __slots__ = ("_last", "first", "moving", "pinned", "values")

    def __init__(self, first: int, moving: frozenset[int]) -> None:
        self.first, self.moving = first, moving
        self.pinned: dict[int, str] = {}
        self.values: dict[int, Any] = {}
        self._last: Sequence[Any] = ()

    def see(self, leaves: Sequence[Any], values: Sequence[Any]) -> None:
        """Compare the numbers of a call with those before, and make changed ones run-time numbers."""
        for k, new in enumerate(leaves):
            if isinstance(new, float | np.floating):
                if k not in self.pinned and type(new) in RUN_TIME_TYPES:
                    self.moving |= {k}
            elif type(new) in RUN_TIME_TYPES:
                self._see(k, new)
        if values is not self._last:
            self._last = values
            before = self.values
            for k, new in enumerate(values, self.first):
                if type(new) in RUN_TIME_TYPES and before.get(k) is not new:
                    self._see(k, new)

    def _see(self, k: int, new: Any) -> None:
        if k in self.moving or k in self.pinned:
            return
        old = self.values.get(k)
        if type(old) is type(new) and not same_constant(old, new):
            del self.values[k]
            self.moving |= {k}
        else:
            self.values[k] = new

    def pin(self, numbers: Mapping[int, str]) -> None:
        """Make these numbers part of the key from now on."""
        self.pinned |= {k: line for k, line in numbers.items() if k in self.moving}
        self.moving = self.moving.difference(numbers)


_NONE = Numbers(0, frozenset())


def numbers_of(cache: BoundedCache, call: Call) -> Numbers:
    """Return the ``Numbers`` in ``cache`` for this kind of call, updated with its values. A kind does not depend on shapes."""
    leaves, values = call.leaves, call.values
    if RUN_TIME_TYPES.isdisjoint(map(type, leaves)) and not any([content.numbers for content in call.contents]):
        return _NONE
    kind = (call.kind, *map(type, leaves))
    first = len(leaves)
    numbers = cache.get(kind)
    if numbers is None:
        numbers = Numbers(first, frozenset([first + k for k in call.moving if type(values[k]) in RUN_TIME_TYPES]))
        cache.put(kind, numbers)
    numbers.see(leaves, values)
    return numbers
