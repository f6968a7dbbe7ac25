"""The caching allocator: freed memory goes to a list of its size class and is used again.

Fresh pages cost three times the work done on them, so memory is kept until ``trim`` or until more than ``limit``
bytes lie idle. All of it is 64-byte aligned; blocks from 4 MB on are aligned to 2 MB and ask for huge pages.
Taking and giving are single operations on a list, so two threads need no lock.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
from typing import Any

import numpy as np

_HUGE = 2 << 20
LARGE = 4 << 20


class Buffer:
    """Memory that belongs to whoever holds the object; its last holder's end gives it back.

    ``exported`` says that a NumPy view or another library may see it: it is then never donated.
    """

    __slots__ = ("__weakref__", "address", "exported", "home", "nbytes")

    def __init__(self, address: int, nbytes: int, home: list[int]) -> None:
        self.address = address
        self.nbytes = nbytes
        self.home = home
        self.exported = False

    def __del__(self) -> None:
        self.home.append(self.address)

    def __repr__(self) -> str:
        return f"<cpu buffer {self.nbytes} bytes at {self.address:#x}>"


class Borrowed:
    """A buffer over memory that somebody else (``owner``) keeps."""

    __slots__ = ("__weakref__", "address", "exported", "nbytes", "owner")

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self.address = address
        self.nbytes = nbytes
        self.owner = owner
        self.exported = True


def size_class(nbytes: int) -> int:
    """The bytes really taken: multiples of 64 up to 1 KB, then four steps a doubling, 2 MB steps from 4 MB on."""
    if nbytes <= 1024:
        return max(64, -(-nbytes // 64) * 64)
    if nbytes >= LARGE:
        return -(-nbytes // _HUGE) * _HUGE
    step = 1 << (nbytes - 1).bit_length() - 3
    return -(-nbytes // step) * step


class Allocator:
    """Size classes with their lists of idle blocks.

    Parameters
    ----------
    limit : idle bytes above which blocks go back to the system; by default an eighth of the machine's memory.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit if limit is not None else _physical() // 8
        self.misses = 0
        self.system_bytes = 0
        self._stacks: dict[int, list[int]] = {}
        self._by_request: dict[int, list[int]] = {}

    def stack(self, nbytes: int) -> list[int]:
        """The list of idle blocks that serve ``nbytes``."""
        found = self._by_request.get(nbytes)
        if found is None:
            found = self._by_request[nbytes] = self._stacks.setdefault(size_class(nbytes), [])
            if len(self._by_request) > 100_000:
                self._by_request = {nbytes: found}
        return found

    def allocate(self, nbytes: int) -> Buffer:
        """A buffer of at least ``nbytes`` uninitialised bytes."""
        stack = self.stack(nbytes)
        try:
            return Buffer(stack.pop(), nbytes, stack)
        except IndexError:
            return Buffer(self.fresh(nbytes), nbytes, stack)

    def fresh(self, nbytes: int) -> int:
        """New memory from the system; counts as a miss."""
        size = size_class(nbytes)
        self.misses += 1
        idle = self.idle_bytes()
        if idle + size > self.limit and idle:
            self.trim(max(0, self.limit - size) // 2)
        try:
            address = _system_allocate(size)
        except MemoryError:
            self.trim()
            address = _system_allocate(size)
        self.system_bytes += size
        return address

    def idle_bytes(self) -> int:
        return sum(size * len(stack) for size, stack in list(self._stacks.items()))

    def trim(self, keep: int = 0) -> int:
        """Give idle blocks back, large ones first, until ``keep`` idle bytes are left; returns the bytes freed."""
        idle = self.idle_bytes()
        freed = 0
        for size in sorted(self._stacks, reverse=True):
            stack = self._stacks[size]
            while idle - freed > keep:
                try:
                    address = stack.pop()
                except IndexError:
                    break
                _system_free(address, size)
                freed += size
        self.system_bytes -= freed
        return freed


class _View:
    """What NumPy keeps as the owner of a view; it keeps the buffer."""

    __slots__ = ("__array_interface__", "buffer")

    def __init__(self, buffer: Any, interface: dict[str, Any]) -> None:
        self.buffer = buffer
        self.__array_interface__ = interface


def view(buffer: Any, shape: tuple[int, ...], dtype: np.dtype, writable: bool = False) -> np.ndarray:
    """A NumPy array over a buffer's memory. The buffer lives as long as the array and counts as exported."""
    buffer.exported = True
    return at(buffer.address, shape, dtype, buffer, writable)


def at(address: int, shape: tuple[int, ...], dtype: np.dtype, owner: Any, writable: bool = True) -> np.ndarray:
    """A NumPy array over any memory; ``owner`` is kept."""
    plain = dtype.isbuiltin == 1
    typestr = dtype.str if plain else f"<u{dtype.itemsize}"  # bfloat16 is bytes to NumPy's protocols
    interface = {"shape": shape, "typestr": typestr, "data": (address, not writable), "version": 3}
    out = np.asarray(_View(owner, interface))
    return out if plain else out.view(dtype)


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 8 << 30


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    libc.posix_memalign.argtypes = (ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t)
    libc.free.argtypes = (ctypes.c_void_p,)
    libc.free.restype = None
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return libc


def _system_allocate(size: int) -> int:
    libc = _libc()
    address = ctypes.c_void_p()
    if libc.posix_memalign(ctypes.byref(address), _HUGE if size >= LARGE else 64, size) or not address.value:
        raise MemoryError(f"weft: no memory for {size} bytes (2**{math.log2(size):.1f})")
    if size >= LARGE and sys.platform == "linux":
        libc.madvise(address, size, getattr(mmap, "MADV_HUGEPAGE", 14))
    return address.value


def _system_free(address: int, size: int) -> None:
    _libc().free(address)
