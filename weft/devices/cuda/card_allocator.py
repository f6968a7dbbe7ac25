"""Memory of a card: freed pieces are kept by size class and reused, and copies go through pinned memory of the host.

All operations are ordered by one stream, so a freed piece can be reused at once: its next owner writes after its last reader.
Copies alternate between two pinned pieces: the card copies one while the host fills or empties the other.
"""

from __future__ import annotations

import ctypes
import gc
from collections import Counter, deque
from collections.abc import Callable
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

import numpy as np

from weft.devices.cuda.nvidia import NvidiaDriver, OutOfMemory
from weft.devices.faults import ForeignBuffer, OutOfDeviceMemory
from weft.errors import format_bytes
from weft.graph.node import Node

ALIGNMENT = 256  # bytes: addresses of pieces are multiples
MIN_BYTES = 512


Piece = tuple[int, int, bool]  # address, bytes, and whether other libraries may be reading it


class CardMemory:
    """A piece of a card's memory, which lives as long as the object. Native code of the host cannot access it.

    lent: another library may be reading it on any stream; it is no longer written.
    checks: pending index checks on whose outcome its content depends (``pending_checks.py``).
    """

    __slots__ = ("__weakref__", "_on_delete", "checks", "lent", "nbytes", "pointer", "size")

    def __init__(self, pointer: int, nbytes: int, size: int, on_delete: Callable[[Piece], None]) -> None:
        self.pointer, self.nbytes, self.size, self._on_delete = pointer, nbytes, size, on_delete
        self.lent = False
        self.checks: tuple[Any, ...] = ()

    @property
    def address(self) -> int:
        raise ForeignBuffer(-1, -1)

    def __del__(self) -> None:
        # on_delete appends to a deque, which is atomic: this may run anywhere, even inside the pool
        self._on_delete((self.pointer, self.size, self.lent))


@lru_cache(maxsize=4096)
def size_class(nbytes: int) -> int:
    """Return the size of the pieces that serve ``nbytes``: eight classes between a power of two and the next."""
    size = max(nbytes, MIN_BYTES)
    step = max(MIN_BYTES, 1 << (size - 1).bit_length() - 4)
    return -(-size // step) * step


class EndWhenDone:
    """Objects to be ended when all operations issued so far are done, without waiting for that.

    end : function that ends one object
    """

    def __init__(self, driver: NvidiaDriver, end: Callable[[Any], None]) -> None:
        self._driver, self._end = driver, end
        self._new: deque[Any] = deque()
        self._waiting: deque[tuple[Any, Any]] = deque()  # (mark, object)
        self._marks: list[Any] = []  # marks to reuse
        self.add = self._new.append  # atomic, so it may be called from anywhere

    def end_finished(self) -> None:
        """End the objects whose operations are done. Call it under the device's lock."""
        while self._new:
            mark = self._driver.mark(self._marks.pop() if self._marks else None)
            self._waiting.append((mark, self._new.popleft()))
        while self._waiting and self._driver.has_reached(self._waiting[0][0]):
            mark, thing = self._waiting.popleft()
            self._marks.append(mark)
            self._end(thing)


class CardAllocator:
    """All memory of one card. Call it under the device's lock.

    memory_class : the class of its pieces
    """

    def __init__(self, driver: NvidiaDriver, memory_class: type[CardMemory]) -> None:
        self._driver, self._memory_class = driver, memory_class
        self._freed_pieces: deque[Piece] = deque()
        self.borrowed_owners = EndWhenDone(driver, lambda owner: None)  # owners of memory that the card may be reading
        self.has_unaligned = False  # whether any borrowed memory is not aligned to 16 bytes
        self._pool: dict[int, list[int]] = {}
        self._live: Counter[int] = Counter()  # size -> number of pieces in use
        self.requests = self.misses = 0

    def allocate(self, nbytes: int) -> CardMemory:
        """Return a piece of memory.

        Raises
        ------
        OutOfDeviceMemory
            No memory is left, even after all kept pieces were released. The text lists the arrays that hold memory.
        """
        if self._freed_pieces:
            self._collect()
        self.requests += 1
        size = size_class(nbytes)
        free_addresses = self._pool.get(size)
        # the lowest address, not the latest: a repeated program gets the memory of its last run, so its graph is replayed
        pointer = heappop(free_addresses) if free_addresses else self._allocate_new(size, nbytes)
        self._live[size] += 1
        return self._memory_class(pointer, nbytes, size, self._freed_pieces.append)

    def borrow(self, pointer: int, nbytes: int, owner: Any) -> CardMemory:
        """Return memory of another library, which is never written. ``owner`` is kept until the card has read it."""
        memory = self._memory_class(pointer, nbytes, nbytes, lambda piece: self.borrowed_owners.add(owner))
        memory.lent = True
        self.has_unaligned = self.has_unaligned or pointer % 16 != 0
        return memory

    def _allocate_new(self, size: int, nbytes: int) -> int:
        self.misses += 1
        try:
            return self._driver.allocate(size)
        except OutOfMemory:
            self.give_back()
        try:
            return self._driver.allocate(size)
        except OutOfMemory:
            raise OutOfDeviceMemory(self._describe_shortage(nbytes)) from None

    def give_back(self) -> None:
        """Release all kept pieces to the system."""
        self._collect()
        for pieces in self._pool.values():
            for pointer in pieces:
                self._driver.release(pointer)
        self._pool.clear()
        self._driver.trim()

    def _collect(self) -> None:
        """Move the pieces of deleted objects to the kept ones."""
        settled = False
        while self._freed_pieces:
            pointer, size, lent = self._freed_pieces.popleft()
            if lent and not settled:  # another library returns it without waiting for its reads
                self._driver.settle()
                settled = True
            self._live[size] -= 1
            heappush(self._pool.setdefault(size, []), pointer)

    @property
    def bytes_in_use(self) -> int:
        """Return the bytes in use by arrays and running programs."""
        self._collect()
        return sum([size * count for size, count in self._live.items()])

    @property
    def pooled_bytes(self) -> int:
        """Return the bytes of the pieces kept for reuse."""
        self._collect()
        return sum([size * len(pieces) for size, pieces in self._pool.items()])

    def _describe_shortage(self, nbytes: int) -> str:
        live = {size: count for size, count in self._live.items() if count}
        largest = ", ".join([f"{count} of {format_bytes(size)}" for size, count in sorted(live.items(), reverse=True)[:3]])
        arrays = ", ".join([f"{n.dtype.name} {n.shape}" for n in self._arrays()[:3]])
        free = self._driver.free()
        other_bytes = max(0, self._driver.total - free - self.bytes_in_use)
        return (
            f"{self._driver.name} has no {format_bytes(nbytes)} left of its {format_bytes(self._driver.total)}: arrays of "
            f"this process hold {format_bytes(self.bytes_in_use)} in {sum(live.values())} pieces"
            f"{f' (the largest: {largest})' if largest else ''}{f', among them {arrays}' if arrays else ''}, other programs hold "
            f"{format_bytes(other_bytes)}, and {format_bytes(free)} are free, perhaps in smaller pieces"
        )

    def _arrays(self) -> list[Node]:
        """Return the nodes of this process with memory on the card, largest first.

        It searches all objects, so that nothing is recorded before an error needs it.
        """
        nodes = [x for x in gc.get_objects() if type(x) is Node and isinstance(x.value, self._memory_class)]
        by_buffer = {id(n.value): n for n in nodes if n.value._on_delete == self._freed_pieces.append}
        return sorted(by_buffer.values(), key=lambda n: n.value.size, reverse=True)

    def describe(self) -> dict[str, Any]:
        """Return the figures that ``describe()`` of the device shows."""
        free = self._driver.free()
        return {
            "held_bytes": self.bytes_in_use, "kept_bytes": self.pooled_bytes, "free_bytes": free,
            "total_bytes": self._driver.total,
        }

PIECE_BYTES = 4 << 20  # bytes of a pinned piece


class Staging:
    """Copies between the host and one card. Call it under the device's lock."""

    def __init__(self, driver: NvidiaDriver, piece: int = PIECE_BYTES) -> None:
        self._driver, self._piece, self._turn = driver, piece, 0
        self._pieces: list[tuple[int, np.ndarray]] = []
        self._marks: list[Any] = [None, None]
        self._busy = [False, False]

    def _take_piece(self) -> int:
        """Return the number of the next pinned piece, after the card is done with it."""
        if not self._pieces:
            for _ in range(2):
                address = self._driver.allocate_pinned(self._piece)
                memory = (ctypes.c_uint8 * self._piece).from_address(address)
                self._pieces.append((address, np.ctypeslib.as_array(memory)))
        self._turn = 1 - self._turn
        self._wait(self._turn)
        return self._turn

    def _wait(self, k: int) -> None:
        if self._busy[k]:
            self._driver.wait(self._marks[k])
            self._busy[k] = False

    def _mark(self, k: int) -> None:
        self._marks[k] = self._driver.mark(self._marks[k])
        self._busy[k] = True

    def upload(self, pointer: int, source: np.ndarray) -> None:
        """Copy bytes to the card. ``source`` has been read on return; later operations on the card wait for the copy."""
        for first in range(0, source.size, self._piece):
            part = source[first : first + self._piece]
            k = self._take_piece()
            address, memory = self._pieces[k]
            memory[: part.size] = part
            self._driver.upload(pointer + first, address, part.size)
            self._mark(k)

    def download(self, pointer: int, target: np.ndarray) -> None:
        """Copy bytes from the card and wait for them, and thereby for all earlier operations."""
        pending: list[tuple[int, int, int]] = []

        def empty_oldest() -> None:
            k, first, size = pending.pop(0)
            self._wait(k)
            target[first : first + size] = self._pieces[k][1][:size]

        for first in range(0, target.size, self._piece):
            if len(pending) == 2:
                empty_oldest()
            size = min(self._piece, target.size - first)
            k = self._take_piece()
            self._driver.download(self._pieces[k][0], pointer + first, size)
            self._mark(k)
            pending.append((k, first, size))
        while pending:
            empty_oldest()
