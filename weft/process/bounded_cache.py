"""A cache of bounded size that drops values that were not used recently."""

from __future__ import annotations

from typing import Any


class BoundedCache:
    """A mapping with a bounded total weight.

    It keeps two generations instead of an order of use, so a hit in the newest one costs one lookup. ``max_weight`` is the
    weight of a generation, in the unit of ``put``. When the newest generation is full, it becomes the older one, and the previous
    older one is dropped. A generation holds at least ``fewest`` values, whatever they weigh.
    """

    __slots__ = ("fewest", "newest", "older", "max_weight", "weight")

    def __init__(self, max_weight: float, fewest: int = 16) -> None:
        self.max_weight, self.fewest = max_weight, fewest
        self.newest: dict[Any, tuple[Any, float]] = {}
        self.older: dict[Any, tuple[Any, float]] = {}
        self.weight = 0.0

    def get(self, key: Any) -> Any:
        """Return the value or None, and mark it as used."""
        entry = self.newest.get(key)
        if entry is None:
            entry = self.older.get(key)
            if entry is None:
                return None
            self.put(key, *entry)
        return entry[0]

    def put(self, key: Any, value: Any, weight: float = 1.0) -> None:
        """Store a value; ``weight`` is in the unit of ``max_weight``."""
        if self.weight >= self.max_weight and len(self.newest) >= self.fewest:
            self.older, self.newest, self.weight = self.newest, {}, 0.0
        self.newest[key] = value, weight
        self.weight += weight

    def __len__(self) -> int:
        return len(self.newest.keys() | self.older.keys())
