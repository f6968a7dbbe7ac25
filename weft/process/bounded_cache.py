"""A cache of bounded size: values that have not been used for a long time are dropped."""

from __future__ import annotations

from typing import Any


class Recent:
    """A mapping that forgets: two generations instead of an order of use, so that a hit among the newest costs one look-up.

    ``room`` is what a generation holds, in the unit of the weights; with as much again a generation is the older one, and the
    one before it is dropped. Whatever they weigh, the last ``fewest`` values stay.
    """

    __slots__ = ("fewest", "newest", "older", "room", "weight")

    def __init__(self, room: float, fewest: int = 16) -> None:
        self.room, self.fewest = room, fewest
        self.newest: dict[Any, tuple[Any, float]] = {}
        self.older: dict[Any, tuple[Any, float]] = {}
        self.weight = 0.0

    def get(self, key: Any) -> Any:
        """The value, or None; it counts as used now."""
        found = self.newest.get(key)
        if found is None:
            found = self.older.get(key)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: Any, value: Any, weight: float = 1.0) -> None:
        """Keep a value; ``weight`` in the unit of ``room``."""
        if self.weight >= self.room and len(self.newest) >= self.fewest:
            self.older, self.newest, self.weight = self.newest, {}, 0.0
        self.newest[key] = value, weight
        self.weight += weight

    def __len__(self) -> int:
        return len(self.newest.keys() | self.older.keys())
