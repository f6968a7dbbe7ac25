"""Memory of a card: freed pieces are kept by size class and reused, and copies go through pinned memory of the host.

Everything is asked for in the order of one stream, so a freed piece can be reused at once: the next owner writes after the last
reader. Two pinned pieces take turns: while the card copies one, the host fills or empties the other.
"""

from __future__ import annotations

import ctypes
import gc
from collections import Counter, deque
from collections.abc import Callable
from functools import lru_cache, partial
from heapq import heappop, heappush
from typing import Any

import numpy as np

from weft.devices.cuda.driver import Driver, OutOfMemory
from weft.devices.faults import Elsewhere, OutOfRoom
from weft.errors import gib
from weft.graph.node import Node

ALIGNED = 256  # bytes: pieces begin at multiples
LEAST = 512


Piece = tuple[int, int, bool]  # address, bytes, and whether other libraries may be reading it


class CardMemory:
    """A piece of a card's memory, for as long as the object lives. Native code of the host cannot touch it.

    lent : others may be reading it, whatever stream they are on: from then on it is not written to
    checks : of indices, on whose outcome its content rests (``pending_checks.py``)
    """

    __slots__ = ("__weakref__", "_gone", "checks", "lent", "nbytes", "pointer", "size")

    def __init__(self, pointer: int, nbytes: int, size: int, gone: Callable[[Piece], None]) -> None:
        self.pointer, self.nbytes, self.size, self._gone = pointer, nbytes, size, gone
        self.lent = False
        self.checks: tuple[Any, ...] = ()

    @property
    def address(self) -> int:
        raise Elsewhere(-1, -1)

    def __del__(self) -> None:
        self._gone((self.pointer, self.size, self.lent))  # appends, which is atomic: this may run anywhere, also in the pool


@lru_cache(maxsize=4096)
def class_of(nbytes: int) -> int:
    """The size of the pieces from which so many bytes are given: eight classes between a power of two and the next."""
    size = max(nbytes, LEAST)
    step = max(LEAST, 1 << (size - 1).bit_length() - 4)
    return -(-size // step) * step


class Until:
    """Things that may go when all that was asked for before is done; nobody waits for that.

    end : what is done to each then
    """

    def __init__(self, driver: Driver, end: Callable[[Any], None]) -> None:
        self._driver, self._end = driver, end
        self._new: deque[Any] = deque()
        self._waiting: deque[tuple[Any, Any]] = deque()  # (mark, thing)
        self._marks: list[Any] = []  # to be used again
        self.add = self._new.append  # atomic: from anywhere

    def look(self) -> None:
        """Under the device's lock: let go what may."""
        while self._new:
            mark = self._driver.mark(self._marks.pop() if self._marks else None)
            self._waiting.append((mark, self._new.popleft()))
        while self._waiting and self._driver.reached(self._waiting[0][0]):
            mark, thing = self._waiting.popleft()
            self._marks.append(mark)
            self._end(thing)


class Memories:
    """All memory of one card. To be asked under the device's lock.

    made : the class of its pieces
    """

    def __init__(self, driver: Driver, made: type[CardMemory]) -> None:
        self._driver, self._made = driver, made
        self._freed: deque[Piece] = deque()
        self.borrowed = Until(driver, lambda owner: None)  # owners of memory that nobody wants, while the card may be reading it
        self.odd = False  # whether memory was borrowed that begins at no multiple of 16
        self._kept: dict[int, list[int]] = {}
        self._live: Counter[int] = Counter()  # by size: how many are held
        self.asked = self.misses = 0

    def allocate(self, nbytes: int) -> CardMemory:
        """A piece of memory.

        Raises
        ------
        OutOfRoom
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
        return self._made(pointer, nbytes, size, self._freed.append)

    def borrow(self, pointer: int, nbytes: int, owner: Any) -> CardMemory:
        """Memory of another library, which is never written to. ``owner`` keeps it, until the card has read it."""
        made = self._made(pointer, nbytes, nbytes, partial(self._return, owner))
        made.lent = True
        self.odd = self.odd or pointer % 16 != 0
        return made

    def _return(self, owner: Any, piece: Piece) -> None:
        self.borrowed.add(owner)

    def _fresh(self, size: int, nbytes: int) -> int:
        self.misses += 1
        try:
            return self._driver.allocate(size)
        except OutOfMemory:
            self.give_back()
        try:
            return self._driver.allocate(size)
        except OutOfMemory:
            raise OutOfRoom(self._told(nbytes)) from None

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
        settled = False
        while self._freed:
            pointer, size, lent = self._freed.popleft()
            if lent and not settled:  # who had it gives it back without waiting for what reads it
                self._driver.settle()
                settled = True
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
        arrays = ", ".join([f"{n.dtype.name} {n.shape}" for n in self._arrays()[:3]])
        free = self._driver.free()
        others = max(0, self._driver.total - free - self.held)
        return (
            f"{self._driver.name} has no {gib(nbytes)} left of its {gib(self._driver.total)}: arrays of this process hold "
            f"{gib(self.held)} in {sum(live.values())} pieces{f' (the largest: {largest})' if largest else ''}"
            f"{f', among them {arrays}' if arrays else ''}, others "
            f"{gib(others)}, and {gib(free)} are free, perhaps in smaller pieces"
        )

    def _arrays(self) -> list[Node]:
        """What this process has here, the largest first, looked for among all objects: nothing is kept for an error's sake."""
        nodes = [x for x in gc.get_objects() if type(x) is Node and isinstance(x.value, self._made)]
        own = {id(n.value): n for n in nodes if n.value._gone == self._freed.append}
        return sorted(own.values(), key=lambda n: n.value.size, reverse=True)

    def describe(self) -> dict[str, Any]:
        """For people."""
        free = self._driver.free()
        return {"held_bytes": self.held, "kept_bytes": self.kept, "free_bytes": free, "total_bytes": self._driver.total}

PIECE = 4 << 20  # bytes


class Staging:
    """Of one card, to be asked under the device's lock."""

    def __init__(self, driver: Driver, piece: int = PIECE) -> None:
        self._driver, self._piece, self._turn = driver, piece, 0
        self._pieces: list[tuple[int, np.ndarray]] = []
        self._marks: list[Any] = [None, None]
        self._busy = [False, False]

    def _next(self) -> int:
        """The number of a piece that the card is done with."""
        if not self._pieces:
            for _ in range(2):
                address = self._driver.pinned(self._piece)
                memory = (ctypes.c_uint8 * self._piece).from_address(address)
                self._pieces.append((address, np.ctypeslib.as_array(memory)))
        self._turn = 1 - self._turn
        self._done(self._turn)
        return self._turn

    def _done(self, k: int) -> None:
        if self._busy[k]:
            self._driver.wait(self._marks[k])
            self._busy[k] = False

    def _marked(self, k: int) -> None:
        self._marks[k] = self._driver.mark(self._marks[k])
        self._busy[k] = True

    def upload(self, pointer: int, source: np.ndarray) -> None:
        """Bytes to the card; ``source`` has been read when this returns, and what follows on the card waits for it."""
        for first in range(0, source.size, self._piece):
            part = source[first : first + self._piece]
            k = self._next()
            address, memory = self._pieces[k]
            memory[: part.size] = part
            self._driver.upload(pointer + first, address, part.size)
            self._marked(k)

    def download(self, pointer: int, target: np.ndarray) -> None:
        """Bytes from the card, which are there when this returns: everything before has been done by then."""
        waiting: list[tuple[int, int, int]] = []

        def emptied() -> None:
            k, first, size = waiting.pop(0)
            self._done(k)
            target[first : first + size] = self._pieces[k][1][:size]

        for first in range(0, target.size, self._piece):
            if len(waiting) == 2:
                emptied()
            size = min(self._piece, target.size - first)
            k = self._next()
            self._driver.download(self._pieces[k][0], pointer + first, size)
            self._marked(k)
            waiting.append((k, first, size))
        while waiting:
            emptied()
