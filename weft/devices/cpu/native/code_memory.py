"""Memory for machine code: a few large regions from which objects take pages and to which they return them.

With a mapping per object, a process with many shapes would fail after 16,000 of them: Linux allows 65,530 mappings. A region
consists of executable pages for code, followed by writable pages for data; no page is ever both. Code pages are made writable
only while an object is copied into them; afterwards the kernel joins neighbours of equal protection into one mapping again.
"""

from __future__ import annotations

import ctypes
import mmap
from bisect import bisect_left
from typing import NamedTuple

PAGE = mmap.PAGESIZE
UNIT = 64  # granularity of data in bytes; no section of a kernel needs more alignment
CODE, DATA = 14 << 20, 2 << 20  # sizes of a region; only touched pages take memory


class NoExecutableMemory(OSError):
    """The system refuses executable memory."""


class FreeSpans:
    """The free spans among ``count`` units, as (start, end) in order. Adjacent free spans are merged."""

    def __init__(self, count: int) -> None:
        self.spans = [(0, count)]

    def take(self, count: int) -> int | None:
        """Take ``count`` adjacent units of the shortest sufficient span. Return the first, or None if no span is long enough."""
        fitting = [(end - start, k) for k, (start, end) in enumerate(self.spans) if end - start >= count]
        if not fitting:
            return None
        _, k = min(fitting)
        start, end = self.spans[k]
        self.spans[k : k + 1] = [(start + count, end)] if start + count < end else []
        return start

    def give(self, start: int, count: int) -> None:
        """Return units taken by :meth:`take`."""
        k, end = bisect_left(self.spans, (start, 0)), start + count
        first, last = k, k
        if k < len(self.spans) and self.spans[k][0] == end:
            end, last = self.spans[k][1], k + 1
        if k and self.spans[k - 1][1] == start:
            start, first = self.spans[k - 1][0], k - 1
        self.spans[first:last] = [(start, end)]

    def free(self) -> int:
        """Return the number of free units."""
        return sum(end - start for start, end in self.spans)


class Region:
    """A mapping of ``code`` bytes for code, followed by ``data`` bytes for data."""

    def __init__(self, code: int, data: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)  # private: each fork has a copy
        self.memory = mmap.mmap(-1, code + data, flags)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.memory[0] = 0  # Linux joins split mappings again only if the mapping was touched before
        if _protect(self.address, code, mmap.PROT_READ | mmap.PROT_EXEC):
            raise NoExecutableMemory("this system refuses executable memory")
        # never unmapped: workers may be executing it, and it frees buffers during interpreter shutdown
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.memory))
        self.code_size = code
        self.code = FreeSpans(code // PAGE)
        self.data = FreeSpans(data // UNIT)


class Place(NamedTuple):
    """The part of a region that an object occupies: first page and number of pages, first data unit and number of units."""

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
    """The regions of one compiler. Not thread-safe."""

    def __init__(self) -> None:
        self.regions: list[Region] = []

    def take(self, code: int, data: int) -> Place:
        """Reserve space for ``code`` and ``data`` bytes, in a new region if necessary."""
        pages, units = max(1, -(-code // PAGE)), -(-data // UNIT)
        for region in reversed(self.regions):
            place = _take_place(region, pages, units)
            if place is not None:
                return place
        self.regions.append(Region(max(CODE, pages * PAGE), max(DATA, -(-units * UNIT // PAGE) * PAGE)))
        place = _take_place(self.regions[-1], pages, units)
        assert place is not None
        return place

    def fill(self, place: Place, code: bytes | memoryview, data: bytes | memoryview) -> None:
        """Copy an object's bytes to its place."""
        memory, at = place.region.memory, place.region.code_size + place.data * UNIT
        memory[at : at + len(data)] = data
        start, size = place.code * PAGE, place.pages * PAGE
        if _protect(place.code_address, size, mmap.PROT_READ | mmap.PROT_WRITE):
            raise NoExecutableMemory("this system does not let code be written")
        try:
            memory[start : start + len(code)] = code
        finally:
            if _protect(place.code_address, size, mmap.PROT_READ | mmap.PROT_EXEC):
                raise NoExecutableMemory("this system refuses executable memory")

    def give(self, place: Place) -> None:
        """Free an object's place. Its code must not be running and its data not be in use."""
        region = place.region
        region.memory.madvise(mmap.MADV_DONTNEED, place.code * PAGE, place.pages * PAGE)
        region.code.give(place.code, place.pages)
        if place.units:
            region.data.give(place.data, place.units)

    def used_bytes(self) -> int:
        """Return the bytes that objects occupy."""
        return sum(r.code_size - r.code.free() * PAGE + len(r.memory) - r.code_size - r.data.free() * UNIT for r in self.regions)


def _take_place(region: Region, pages: int, units: int) -> Place | None:
    code = region.code.take(pages)
    if code is None:
        return None
    data = region.data.take(units) if units else 0
    if data is None:
        region.code.give(code, pages)
        return None
    return Place(region, code, pages, data, units)


def _protect(address: int, size: int, flags: int) -> int:
    return ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), flags)
