"""The CPU as a backend: what :class:`weft.devices.base.Backend` asks for. Everything is made when first used."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from weft.devices.cache import Cache
from weft.devices.cpu.native import call, pool_ir, warm, warm_ir
from weft.devices.cpu.native.allocator import Allocator, view
from weft.devices.cpu.native.compile import Compiler, host, llvm_lock
from weft.devices.cpu.native.executable import CPUExecutable
from weft.devices.cpu.native.threads import Pool, permanent
from weft.devices.faults import IndexFault
from weft.schedule.program import Program, calls

T = TypeVar("T")


class _Once(Generic[T]):
    """An attribute that is made when it is first asked for, once, however many threads ask."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make
        self.name = make.__name__

    def __get__(self, backend: Any, cls: type | None = None) -> T:
        if backend is None:
            return self  # type: ignore[return-value]
        with backend._lock:
            made = backend.__dict__
            if self.name not in made:
                made[self.name] = self.make(backend)
            return made[self.name]


class CPUBackend:
    """One a process (see ``weft.devices.get_backend``); tests make their own with a cache of their own."""

    name = "cpu"

    def __init__(self, cache: Cache | None = None, threads: int | None = None, memory_limit: int | None = None) -> None:
        self._cache = cache
        self._threads = threads
        self._limit = memory_limit
        self._lock = threading.RLock()
        self._forking: list[Any] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._after_fork)

    def _before_fork(self) -> None:
        """A child has no other threads: what they are doing under these locks must be finished, or it stays half done there."""
        self._lock.acquire()
        self._forking.append(self._lock)
        compiler = self.__dict__.get("compiler")
        for lock in (compiler.lock, llvm_lock()) if compiler is not None else ():
            if lock is not None:
                lock.acquire()
                self._forking.append(lock)

    def _after_fork(self) -> None:
        while self._forking:
            self._forking.pop().release()

    @_Once
    def pool(self) -> Pool:
        return Pool(self._threads)

    @_Once
    def compiler(self) -> Compiler:
        return Compiler(self._cache if self._cache is not None else Cache())

    @_Once
    def native(self) -> dict[str, int]:
        """The runtime's own emitted functions; makes the symbols that kernels import known."""
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise RuntimeError("weft needs the interpreter lock: start this Python with PYTHON_GIL=1 or -X gil=1")
        self.compiler.imports.update(self.pool.imports())
        pool = self.compiler.module(pool_ir.text())
        self.compiler.imports.update(pool, weft_warm_state=self.warm_state, weft_index_fault=id(IndexFault))
        return {**pool, **self.compiler.module(call.text())}

    @_Once
    def warm_state(self) -> int:
        return permanent(8 * len(warm_ir.STATE))

    def warm_calls(self, cls: type, table: str, world: warm.World) -> None:
        """See :func:`weft.devices.cpu.native.warm.install`."""
        warm.install(cls, table, world, self.native["weft_warm"], self.warm_state)

    @_Once
    def allocator(self) -> Allocator:
        return Allocator(self.native, self._limit)

    def compile(self, program: Program, flush_denormals: bool = False, timed: bool = False) -> CPUExecutable:
        """Load or build every kernel of a Program. Ctrl-C works between two kernels. ``timed``: see ``timed.py``."""
        from weft.kernel.printer import kernel_key

        native = self.native
        kernels = [
            self.compiler.kernel(str(kernel_key(step.kernel)), partial(_generate, step.kernel)) for step in calls(program)
        ]
        if timed:
            from weft.devices.cpu.native import timed as timing

            native = {**native, **self.compiler.module(timing.text())}
            return timing.TimedExecutable(program, kernels, self.pool, self.allocator, native, flush_denormals)
        return CPUExecutable(program, kernels, self.pool, self.allocator, native, flush_denormals)

    def allocate(self, nbytes: int) -> Any:
        """At least ``nbytes`` uninitialised bytes, 64-byte aligned."""
        return self.allocator.allocate(max(1, nbytes))

    def from_numpy(self, array: np.ndarray) -> Any:
        """A copy of an array, in row-major order."""
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        nbytes = array.nbytes
        buffer = self.allocator.allocate(nbytes or 1)
        if nbytes:
            if array.dtype.isbuiltin != 1:  # bfloat16 has no place in the buffer protocol: its bytes have
                array = array.reshape(-1).view(np.uint8)
            self.allocator.fill(buffer.address, array)
        return buffer

    def gather(self, array: np.ndarray, rows: np.ndarray) -> Any:
        """A copy of some rows of an array that has a dtype of NumPy's own; ``rows``, of any shape, lie within it."""
        shape = (*rows.shape, *array.shape[1:])
        buffer = self.allocator.allocate(math.prod(shape) * array.itemsize or 1)
        if array.size and rows.size:
            array.take(rows, 0, view(buffer, shape, array.dtype, True), "clip")  # with "raise" NumPy goes by a buffer of its own
        return buffer

    def first(self, buffer: Any, dtype: np.dtype) -> Any:
        """The first element of a buffer, as a NumPy number."""
        return view(buffer, (1,), dtype)[0]

    def to_numpy(self, buffer: Any, shape: tuple[int, ...], dtype: np.dtype, writable: bool = False) -> np.ndarray:
        """A view of a buffer, without a copy. While it lives, the buffer counts as exported and is not donated."""
        return view(buffer, shape, dtype, writable)

    def synchronise(self) -> None:
        """Calls on the CPU have finished when they return."""

    def counters(self) -> dict[str, int]:
        """What was counted since the process began, in emitted code and in the runtime."""
        counts, pool = self.compiler.counts, self.pool
        return {
            "kernels": pool.counter("kernels"), "entries": pool.counter("entries"),
            "parallel_jobs": pool.counter("jobs"), "inline_jobs": pool.counter("inline"),
            "compiles": counts.compiles, "cache_hits": counts.cache_hits, "loads": counts.loads,
            "allocator_misses": self.allocator.misses, "allocator_bytes": self.allocator.system_bytes,
        }

    def describe(self, measure: bool = False) -> dict[str, Any]:
        """CPU features, threads, cache and versions; with ``measure`` also FMA peak and copy bandwidth."""
        from weft.devices.cpu.native.describe import describe

        return describe(self, measure)


def _generate(kernel: Any) -> Any:
    from weft.devices.cpu.generate import generate

    return generate(kernel, host())


BACKEND = CPUBackend()
