"""Which int arguments of a jitted function are run-time numbers, see ``weft/given.py``.

An int is part of the key, and a constant of the program, until it comes with a second value: most never do, and constants
are what programs are fastest with. Then it is a number that each call tells; where the function turns out to need its value
(as a shape, an index, a format) it is part of the key again, for good.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from weft.recent import Recent
from weft.transforms.traced import Traced, trace


class Ints:
    """The int leaves of one kind of arguments.

    values: of those that have been the same so far. moving: those that each call tells. The rest is static.
    """

    __slots__ = ("moving", "values")

    def __init__(self, values: dict[int, int]) -> None:
        self.values = values
        self.moving: frozenset[int] = frozenset()

    def see(self, leaves: Sequence[Any]) -> None:
        changed = [k for k, value in self.values.items() if leaves[k] != value]
        if changed:
            self.values = {k: value for k, value in self.values.items() if k not in changed}
            self.moving = self.moving.union(changed)

    def pin(self, leaves: Collection[int]) -> None:
        """These are part of the key from now on."""
        self.moving = self.moving.difference(leaves)


_NONE = Ints({})


def ints_of(known: Recent, structure: Any, leaves: Sequence[Any]) -> Ints:
    """What ``known`` says of the ints among some leaves, now that they have been seen. It depends on no shape."""
    if int not in map(type, leaves):
        return _NONE
    kind = (structure, *map(type, leaves))
    found = known.get(kind)
    if found is None:
        found = Ints({k: x for k, x in enumerate(leaves) if type(x) is int})
        known.put(kind, found)
    else:
        found.see(leaves)
    return found


def traced_with(
    moving: frozenset[int], f: Callable, leaves: list[Any], rebuild: Callable, states: Collection[int],
    together: Sequence[Sequence[int]], collect: bool,
) -> tuple[Traced, frozenset[int], bool]:
    """:func:`trace` with ints that move, those that still do, and whether it took one more: what refuses a number that is no int
    to C (a JSON encoder, ``type(i) is int``) gets ints, and has them from then on."""
    if moving:
        try:
            traced = trace(f, leaves, rebuild, states, together, collect, moving)
        except Exception:
            pass  # an error of the function's own comes again, and is no consequence of this one
        else:
            still = moving.difference(traced.tape.static if traced.tape else ())
            made = any(kind == "leaf" and k >= len(leaves) for kind, k in traced.results)
            if not still and not made and traced.tape and not traced.tape.nodes:
                traced.tape = None  # it would find what the key has told
            return traced, still, False
    return trace(f, leaves, rebuild, states, together, collect), frozenset(), bool(moving)
