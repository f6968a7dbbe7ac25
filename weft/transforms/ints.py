"""Which int arguments of a jitted function, and which numbers of objects, are run-time numbers: see ``weft/given.py``.

Such a number is part of the key, and a constant of the program, until it comes with a second value: most never do, and constants
are what programs are fastest with. From then on each call tells its value; where the function turns out to need the value
itself (as a shape, in a format) it is part of the key again, for good.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from weft.recent import Recent
from weft.transforms.records import same_constant

_NUMBERS = (int, float)


class Numbers:
    """The int arguments, and the numbers of objects, of one kind of call. The leaves of the arguments come first, then constants.

    values : of those that have been the same so far
    moving : those that each call tells. The rest is static
    """

    __slots__ = ("moving", "values")

    def __init__(self, values: dict[int, Any], moving: frozenset[int] = frozenset()) -> None:
        self.values = values
        self.moving = moving

    def see(self, numbers: Sequence[Any]) -> None:
        for k, value in list(self.values.items()):
            new = numbers[k]
            if same_constant(value, new):
                continue
            if type(new) is type(value) and type(new) in _NUMBERS:
                del self.values[k]
                self.moving |= {k}
            else:
                self.values[k] = new

    def pin(self, numbers: Collection[int]) -> None:
        """These are part of the key from now on."""
        self.moving = self.moving.difference(numbers)


def numbers_of(known: Recent, kind: Any, leaves: Sequence[Any], constants: Sequence[Any], moving: Collection[int]) -> Numbers:
    """What ``known`` says of the numbers of a kind of call, now that they have been seen. It depends on no shape.

    moving : constants that are run-time numbers from the first call on
    """
    kind = (kind, *map(type, leaves))
    first = len(leaves)
    found = known.get(kind)
    if found is None:
        values = {k: x for k, x in enumerate(leaves) if type(x) is int}
        values |= {first + k: x for k, x in enumerate(constants) if k not in moving}
        found = Numbers(values, frozenset([first + k for k in moving if type(constants[k]) in _NUMBERS]))
        known.put(kind, found)
    else:
        found.see([*leaves, *constants])
    return found
