"""Where machine code lies: a few large regions, in which objects get pages and give them back.

A mapping for each object would end a process that changes shapes at 16,000 of them: the system allows 65,530 mappings. A
region is two: pages of code, which are executable, and behind them data, which are writable; nothing is ever both. Pages of
code are writable for the moment in which an object is copied there, and neighbours with equal protection are one mapping
again afterwards.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import lru_cache
from typing import Any, NamedTuple

PAGE = mmap.PAGESIZE
UNIT = 64  # bytes of data are given out in units: no section of ours wants more alignment
CODE, DATA = 14 << 20, 2 << 20  # a region; only what is touched takes memory


class Refused(OSError):
    """This system gives no executable memory."""


class Spans:
    """Free stretches of ``count`` units. Free neighbours are one stretch."""

    def __init__(self, count: int) -> None:
        self._end: dict[int, int] = {}  # of the stretch that begins there
        self._start: dict[int, int] = {}  # of the stretch that ends there
        self._of_size: dict[int, set[int]] = {}
        self._add(0, count)

    def take(self, count: int) -> int | None:
        """Where ``count`` units begin that are taken now; None if there is no such stretch."""
        sizes = self._of_size
        size = count if count in sizes else min((s for s in sizes if s > count), default=None)
        if size is None:
            return None
        start = next(iter(sizes[size]))
        self._remove(start, start + size)
        self._add(start + count, start + size)
        return start

    def give(self, start: int, count: int) -> None:
        """Units that :meth:`take` gave are free again."""
        end = start + count
        if start in self._start:
            before = self._start[start]
            self._remove(before, start)
            start = before
        if end in self._end:
            after = self._end[end]
            self._remove(end, after)
            end = after
        self._add(start, end)

    def free(self) -> int:
        """How many units are free."""
        return sum(size * len(starts) for size, starts in self._of_size.items())

    def _add(self, start: int, end: int) -> None:
        if start < end:
            self._end[start], self._start[end] = end, start
            self._of_size.setdefault(end - start, set()).add(start)

    def _remove(self, start: int, end: int) -> None:
        del self._end[start], self._start[end]
        starts = self._of_size[end - start]
        starts.remove(start)
        if not starts:
            del self._of_size[end - start]


class Region:
    """``code`` bytes of pages for code, then ``data`` bytes."""

    def __init__(self, code: int, data: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)  # a forked child has its own
        self.memory = mmap.mmap(-1, code + data, flags)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.memory[0] = 0  # a mapping that was touched before it is cut joins again
        if _protect(self.address, code, mmap.PROT_READ | mmap.PROT_EXEC):
            raise Refused("this system refuses executable memory")
        # never unmapped: workers may be inside, and buffers are freed by code here while the interpreter ends
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.memory))
        self.code_size = code
        self.code = Spans(code // PAGE)
        self.data = Spans(data // UNIT)


class Place(NamedTuple):
    """What one object has of a region: offsets and sizes in pages of code and in units of data."""

    region: Region
    code: int
    pages: int
    data: int
    units: int

    @property
    def code_address(self) -> int:
        return self.region.address + self.code * PAGE

    @property
    def data_address(self) -> int:
        return self.region.address + self.region.code_size + self.data * UNIT


class CodeMemory:
    """The regions of one compiler. One thread at a time."""

    def __init__(self) -> None:
        self.regions: list[Region] = []

    def take(self, code: int, data: int) -> Place:
        """Room for so many bytes of code and of data."""
        pages, units = max(1, -(-code // PAGE)), -(-data // UNIT)
        for region in reversed(self.regions):
            found = _in(region, pages, units)
            if found is not None:
                return found
        self.regions.append(Region(max(CODE, pages * PAGE), max(DATA, -(-units * UNIT // PAGE) * PAGE)))
        found = _in(self.regions[-1], pages, units)
        assert found is not None
        return found

    def fill(self, place: Place, code: bytes | memoryview, data: bytes | memoryview) -> None:
        """Put an object's bytes at its place."""
        memory, at = place.region.memory, place.region.code_size + place.data * UNIT
        memory[at : at + len(data)] = data
        start, size = place.code * PAGE, place.pages * PAGE
        if _protect(place.code_address, size, mmap.PROT_READ | mmap.PROT_WRITE):
            raise Refused("this system does not let code be written")
        try:
            memory[start : start + len(code)] = code
        finally:
            if _protect(place.code_address, size, mmap.PROT_READ | mmap.PROT_EXEC):
                raise Refused("this system refuses executable memory")

    def give(self, place: Place) -> None:
        """Take an object's place back, which nobody runs or reads any more."""
        region = place.region
        region.memory.madvise(mmap.MADV_DONTNEED, place.code * PAGE, place.pages * PAGE)
        region.code.give(place.code, place.pages)
        if place.units:
            region.data.give(place.data, place.units)

    def used(self) -> int:
        """Bytes that objects have."""
        return sum(r.code_size - r.code.free() * PAGE + len(r.memory) - r.code_size - r.data.free() * UNIT for r in self.regions)


def _in(region: Region, pages: int, units: int) -> Place | None:
    code = region.code.take(pages)
    if code is None:
        return None
    data = region.data.take(units) if units else 0
    if data is None:
        region.code.give(code, pages)
        return None
    return Place(region, code, pages, data, units)


@lru_cache(maxsize=1)
def _mprotect() -> Any:
    found = ctypes.CDLL(None).mprotect
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found


def _protect(address: int, size: int, flags: int) -> int:
    return _mprotect()(address, size, flags)
