"""Which int arguments of a jitted function, and which numbers of objects, are run-time numbers (see ``runtime/traced_int.py``).

Such a number is part of the key, and a constant of the program, until it comes with a second value: most never do, and constants
are what programs are fastest with. From then on each call tells its value; where the function turns out to need the value
itself (as a shape, in a format) it is part of the key again, for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.process.bounded_cache import Recent
from weft.runtime.traced_int import RUN_TIME
from weft.transforms.call import Call
from weft.transforms.records import same_constant


class Numbers:
    """The int arguments, and the numbers of objects, of one kind of call. The leaves of the arguments come first, then the values
    of objects.

    values : of numbers that have been the same so far
    moving : those that each call tells
    pinned : those that were such and are part of the key now, each with the line that needs its value
    """

    __slots__ = ("_last", "first", "moving", "pinned", "values")

    def __init__(self, first: int, moving: frozenset[int]) -> None:
        self.first, self.moving = first, moving
        self.pinned: dict[int, str] = {}
        self.values: dict[int, Any] = {}
        self._last: Sequence[Any] = ()

    def see(self, leaves: Sequence[Any], values: Sequence[Any]) -> None:
        for k, new in enumerate(leaves):
            if isinstance(new, float | np.floating):
                if k not in self.pinned and type(new) in RUN_TIME:
                    self.moving |= {k}
            elif type(new) in RUN_TIME:
                self._see(k, new)
        if values is not self._last:
            self._last = values
            known = self.values
            for k, new in enumerate(values, self.first):
                if type(new) in RUN_TIME and known.get(k) is not new:
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
        """These are part of the key from now on."""
        self.pinned |= {k: line for k, line in numbers.items() if k in self.moving}
        self.moving = self.moving.difference(numbers)


_NONE = Numbers(0, frozenset())


def numbers_of(known: Recent, call: Call) -> Numbers:
    """What ``known`` says of the numbers of a call, now that they have been seen. It depends on no shape."""
    leaves, values = call.leaves, call.values
    if RUN_TIME.isdisjoint(map(type, leaves)) and not any([content.numbers for content in call.contents]):
        return _NONE
    kind = (call.kind, *map(type, leaves))
    first = len(leaves)
    found = known.get(kind)
    if found is None:
        found = Numbers(first, frozenset([first + k for k in call.moving if type(values[k]) in RUN_TIME]))
        known.put(kind, found)
    found.see(leaves, values)
    return found
