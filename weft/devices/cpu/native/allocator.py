"""The caching allocator: a freed block goes to the idle list of its size class and is reused.

Fresh pages cost three times the work done on them, so memory is kept until ``trim`` or until more than ``limit`` bytes are
idle. Blocks are 64-byte aligned. Blocks of 4 MB and more are aligned to 2 MB and request huge pages; small ones are cut from
slabs, because a block from the system takes 20 us. The lists are native (``memory_ir.py``) and change only under the
interpreter lock.

A ``Buffer`` has ``address``, ``nbytes`` and ``export_count``, the number of NumPy views and other libraries that use it; it is
donated only if that is 0. Its memory is freed with the last reference to the object; a view holds a reference.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
from collections import Counter
from functools import cache
from typing import Any

import numpy as np

from weft.devices.cpu.native import call, imported_symbols
from weft.devices.cpu.native.layouts import ALLOCATOR, BUFFER, BUFFER_SIZE, HOME, extent, offset, write
from weft.devices.cpu.native.threads import permanent
from weft.errors import format_bytes

_HUGE = 2 << 20
LARGE_BYTES = 4 << 20
SMALL_BYTES, SLAB = 1 << 10, 64 << 10  # blocks of at most SMALL bytes are cut from slabs, which are aligned to their size


class BorrowedBuffer:
    """A buffer over memory that belongs to ``owner``, which it keeps alive."""

    __slots__ = ("__weakref__", "address", "export_count", "nbytes", "owner")

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self.address = address
        self.nbytes = nbytes
        self.owner = owner
        self.export_count = 1


def size_class(nbytes: int) -> int:
    """Round a size up: to multiples of 64 up to 1 KB, then to four classes per doubling, to multiples of 2 MB from 4 MB on."""
    if nbytes <= 1024:
        return max(64, -(-nbytes // 64) * 64)
    if nbytes >= LARGE_BYTES:
        return -(-nbytes // _HUGE) * _HUGE
    step = 1 << (nbytes - 1).bit_length() - 3
    return -(-nbytes // step) * step


class Allocator:
    """An allocator with a list of idle blocks per size class.

    Parameters
    ----------
    native : addresses of the emitted functions (``memory_ir.py``)
    limit : idle bytes above which blocks are returned to the system; by default an eighth of the machine's memory.
    """

    def __init__(self, native: dict[str, int], limit: int | None = None) -> None:
        self.limit = limit if limit is not None else _physical_memory() // 8
        self.misses = 0
        self.system_bytes = 0
        self.Buffer = buffer_type(native)
        self.address = permanent(extent(ALLOCATOR))
        fresh = self.fresh
        for referenced in (self.Buffer, fresh):  # the native record holds no references
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(referenced))
        write(self.address, ALLOCATOR, {"type": id(self.Buffer), "fresh": id(fresh)})
        self._make = call.builtin("weft_buffer", native["weft_buffer"], self.address)
        self._pop = call.builtin("weft_pop", native["weft_pop"], self.address)
        self._push = call.builtin("weft_push", native["weft_push"], self.address)
        self.fill = call.builtin("weft_fill", native["weft_fill"], self.address)
        self._homes: dict[int, int] = {}
        self._by_request: dict[int, int] = {}

    def home(self, nbytes: int) -> int:
        """Return the address of the idle list of the size class of ``nbytes``."""
        home = self._by_request.get(nbytes)
        if home is None:
            size = size_class(nbytes)
            home = self._homes.get(size)
            if home is None:
                home = permanent(extent(HOME))
                ctypes.c_int64.from_address(home + offset(HOME, "size")).value = size
                home = self._homes.setdefault(size, home)
            if len(self._by_request) >= 10_000:
                self._by_request.clear()
            self._by_request[nbytes] = home
        return home

    def allocate(self, nbytes: int) -> Any:
        """Return a buffer of at least ``nbytes`` uninitialised bytes."""
        return self._make(self._by_request.get(nbytes) or self.home(nbytes), nbytes)

    def fresh(self, nbytes: int) -> int:
        """Return the address of a new block from the system, or from a new slab. Counts as a miss."""
        size = size_class(nbytes)
        self.misses += 1
        if size > SMALL_BYTES:
            return self._from_system(size)
        start, home = self._from_system(SLAB), self.home(size)
        for address in range(start + size, start + SLAB - size + 1, size):
            self._push(home, address)
        return start

    def _from_system(self, size: int) -> int:
        idle = self.idle_bytes()
        if idle and idle + size > self.limit:
            self.trim(max(0, self.limit - size) // 2)
        try:
            address = _system_allocate(size)
        except MemoryError:
            self.trim()
            address = _system_allocate(size)
        self.system_bytes += size
        return address

    def idle_bytes(self) -> int:
        return sum(size * ctypes.c_int64.from_address(home).value for size, home in list(self._homes.items()))

    def trim(self, keep: int = 0) -> int:
        """Return idle blocks to the system, large ones first, until ``keep`` idle bytes are left. Return the bytes freed."""
        idle = self.idle_bytes()
        freed = 0
        for size in sorted(self._homes, reverse=True):
            if size <= SMALL_BYTES:
                freed += self._trim_slabs(size, idle - freed - keep)
                continue
            while idle - freed > keep:
                address = self._pop(self._homes[size])
                if not address:
                    break
                _system_free(address)
                freed += size
                self.system_bytes -= size
        return freed

    def _trim_slabs(self, size: int, wanted: int) -> int:
        """Free slabs whose blocks are all idle, until ``wanted`` bytes are freed. Return the bytes freed."""
        home, blocks, freed = self._homes[size], [], 0
        while wanted > 0 and (address := self._pop(home)):
            blocks.append(address)
        count = SLAB // size
        idle_slabs = [slab for slab, idle in Counter([address & -SLAB for address in blocks]).items() if idle == count]
        released = set(idle_slabs[: max(0, -(-wanted // (count * size)))])
        for address in reversed(blocks):
            if address & -SLAB not in released:
                self._push(home, address)
        for slab in released:
            _system_free(slab)
            self.system_bytes -= SLAB
            freed += count * size
        return freed


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("offset", ctypes.c_ssize_t), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int), ("flags", ctypes.c_uint),
        ("slots", ctypes.c_void_p),
    ]


def buffer_type(native: dict[str, int]) -> Any:
    """Create the type Buffer: fields at fixed offsets, freed by emitted code, weakly referable, not constructible in Python."""
    members = (_Member * 5)(
        _Member(b"address", imported_symbols.T_LONGLONG, offset(BUFFER, "address"), imported_symbols.READONLY, None),
        _Member(b"nbytes", imported_symbols.T_LONGLONG, offset(BUFFER, "nbytes"), imported_symbols.READONLY, None),
        _Member(b"export_count", imported_symbols.T_LONGLONG, offset(BUFFER, "export_count"), 0, None),
        _Member(b"__weaklistoffset__", imported_symbols.T_PYSSIZET, offset(BUFFER, "weak"), imported_symbols.READONLY, None),
        _Member(None, 0, 0, 0, None),
    )
    slots = (_Slot * 5)(
        _Slot(imported_symbols.TP_DEALLOC, native["weft_buffer_free"]),
        _Slot(imported_symbols.TP_MEMBERS, ctypes.addressof(members)),
        _Slot(imported_symbols.BF_GETBUFFER, native["weft_buffer_export"]),
        _Slot(imported_symbols.BF_RELEASEBUFFER, native["weft_buffer_release"]), _Slot(0, None),
    )
    spec = _Spec(b"weft.devices.cpu.Buffer", BUFFER_SIZE, 0, imported_symbols.DISALLOW_INSTANTIATION, ctypes.addressof(slots))
    for referenced in (members, slots, spec):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(referenced))
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p,)
    return make(ctypes.addressof(spec))


class _View:
    """The base object of a NumPy view. It keeps the buffer alive."""

    __slots__ = ("__array_interface__", "buffer")

    def __init__(self, buffer: Any, interface: dict[str, Any]) -> None:
        self.buffer = buffer
        self.__array_interface__ = interface


def view(buffer: Any, shape: tuple[int, ...], dtype: np.dtype, writable: bool = False) -> np.ndarray:
    """Return a NumPy array that shares the buffer's memory. The array keeps the buffer alive and prevents its donation."""
    if type(buffer) is BorrowedBuffer:
        return at(buffer.address, shape, dtype, buffer, writable)
    count = shape[0] if len(shape) == 1 else math.prod(shape)
    if not count:
        empty = np.empty(shape, dtype)
        empty.flags.writeable = writable
        return empty
    # unlike ndarray(buffer=...), frombuffer holds the export while the array lives; an array over a read-only memoryview cannot
    # be made writeable again
    try:
        out = np.frombuffer(buffer if writable else memoryview(buffer).toreadonly(), dtype, count)
    except ValueError:
        raise ValueError(f"a buffer of {buffer.nbytes} bytes is too small for shape {shape} of {dtype}") from None
    return out if len(shape) == 1 else out.reshape(shape)


def at(address: int, shape: tuple[int, ...], dtype: np.dtype, owner: Any, writable: bool = True) -> np.ndarray:
    """Return a NumPy array over memory at an address. The array keeps ``owner`` alive."""
    plain = dtype.isbuiltin == 1
    typestr = dtype.str if plain else f"<u{dtype.itemsize}"  # the array interface has no bfloat16
    interface = {"shape": shape, "typestr": typestr, "data": (address, not writable), "version": 3}
    out = np.asarray(_View(owner, interface))
    return out if plain else out.view(dtype)


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 8 << 30


@cache
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
    aligned = _HUGE if size >= LARGE_BYTES else SLAB if size == SLAB else 64
    if libc.posix_memalign(ctypes.byref(address), aligned, size) or not address.value:
        raise MemoryError(f"weft: no memory for an array of {format_bytes(size)} ({size:,} bytes)")
    if size >= LARGE_BYTES and sys.platform == "linux":
        libc.madvise(address, size, getattr(mmap, "MADV_HUGEPAGE", 14))
    return address.value


def _system_free(address: int) -> None:
    _libc().free(address)
