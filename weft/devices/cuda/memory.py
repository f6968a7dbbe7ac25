"""Memory of a card: pieces in classes of sizes, kept for the next who asks, and what to say when there is none left.

Everything is asked for in the order of one stream. So a piece that nobody holds any more can be given out at once: whoever gets
it writes after what still reads it.
"""

from __future__ import annotations

from collections import Counter, deque
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

from weft.devices.cuda.driver import Driver, OutOfMemory
from weft.devices.faults import Elsewhere
from weft.errors import gib

ALIGNED = 256  # bytes: pieces begin at multiples
LEAST = 512


class CardMemory:
    """A piece of a card's memory, for as long as the object lives. Native code of the host cannot touch it."""

    __slots__ = ("__weakref__", "_freed", "nbytes", "pointer", "size")

    def __init__(self, pointer: int, nbytes: int, size: int, freed: deque[tuple[int, int]]) -> None:
        self.pointer, self.nbytes, self.size, self._freed = pointer, nbytes, size, freed

    @property
    def address(self) -> int:
        raise Elsewhere(-1, -1)

    def __del__(self) -> None:
        self._freed.append((self.pointer, self.size))  # atomic: this may run anywhere, also while the pool is asked


@lru_cache(maxsize=4096)
def class_of(nbytes: int) -> int:
    """The size of the pieces from which so many bytes are given: eight classes between a power of two and the next."""
    size = max(nbytes, LEAST)
    step = max(LEAST, 1 << (size - 1).bit_length() - 4)
    return -(-size // step) * step


class Memories:
    """All memory of one card. To be asked under the device's lock.

    made : the class of its pieces
    """

    def __init__(self, driver: Driver, made: type[CardMemory]) -> None:
        self._driver, self._made = driver, made
        self._freed: deque[tuple[int, int]] = deque()
        self._kept: dict[int, list[int]] = {}
        self._live: Counter[int] = Counter()  # by size: how many are held
        self.asked = self.misses = 0

    def allocate(self, nbytes: int) -> CardMemory:
        """A piece of memory.

        Raises
        ------
        MemoryError
            There is none left, also after all that is kept was given back; the text says who has it.
        """
        if self._freed:
            self._collect()
        self.asked += 1
        size = class_of(nbytes)
        kept = self._kept.get(size)
        # the lowest address, not the latest: so a program that runs again finds the memory of the last run, and is replayed
        pointer = heappop(kept) if kept else self._fresh(size, nbytes)
        self._live[size] += 1
        return self._made(pointer, nbytes, size, self._freed)

    def _fresh(self, size: int, nbytes: int) -> int:
        self.misses += 1
        try:
            return self._driver.allocate(size)
        except OutOfMemory:
            self.give_back()
        try:
            return self._driver.allocate(size)
        except OutOfMemory:
            raise MemoryError(self._told(nbytes)) from None

    def give_back(self) -> None:
        """Give back all that is kept."""
        self._collect()
        for pieces in self._kept.values():
            for pointer in pieces:
                self._driver.release(pointer)
        self._kept.clear()
        self._driver.trim()

    def _collect(self) -> None:
        """Take what was held by objects that are gone."""
        while self._freed:
            pointer, size = self._freed.popleft()
            self._live[size] -= 1
            heappush(self._kept.setdefault(size, []), pointer)

    @property
    def held(self) -> int:
        """Bytes that arrays have, and programs that run."""
        self._collect()
        return sum([size * count for size, count in self._live.items()])

    @property
    def kept(self) -> int:
        """Bytes that are kept for the next who asks."""
        self._collect()
        return sum([size * len(pieces) for size, pieces in self._kept.items()])

    def _told(self, nbytes: int) -> str:
        live = {size: count for size, count in self._live.items() if count}
        largest = ", ".join([f"{count} of {gib(size)}" for size, count in sorted(live.items(), reverse=True)[:3]])
        free = self._driver.free()
        others = max(0, self._driver.total - free - self.held)
        return (
            f"{self._driver.name} has no {gib(nbytes)} left of its {gib(self._driver.total)}: arrays of this process hold "
            f"{gib(self.held)} in {sum(live.values())} pieces{f' (the largest: {largest})' if largest else ''}, others "
            f"{gib(others)}, and {gib(free)} are free, perhaps in smaller pieces"
        )

    def describe(self) -> dict[str, Any]:
        """For people."""
        free = self._driver.free()
        return {"held_bytes": self.held, "kept_bytes": self.kept, "free_bytes": free, "total_bytes": self._driver.total}
