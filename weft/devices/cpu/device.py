"""The CPU device: implements :class:`weft.devices.base.Device`. Its parts are created on first use."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from weft.devices.base import CodeProperties
from weft.devices.cache import Cache
from weft.devices.cpu.native import call, call_tables
from weft.devices.cpu.native.allocator import Allocator, BorrowedBuffer, view
from weft.devices.cpu.native.code_key import PROGRAM_SOURCES, cpu_identity, cpu_model, program_name, sources_unchanged
from weft.devices.cpu.native.compile import Compiler, LoadedKernel
from weft.devices.cpu.native.dynamic_calls import CPUDynamicKernels
from weft.devices.cpu.native.emission import llvm_lock
from weft.devices.cpu.native.host_cpu import host
from weft.devices.cpu.native.imported_symbols import OBJECT_SIZE
from weft.devices.cpu.native.layouts import SMALL_STATE, WARM_STATE, extent
from weft.devices.cpu.native.threads import Pool, permanent, pool_text
from weft.devices.faults import IndexFault
from weft.devices.native_protocols import SmallOperationContext, WarmCall, WarmCallContext, WatchRow
from weft.dtypes.formats import Format
from weft.kernel.target import CPU

if TYPE_CHECKING:  # loaded with the first program: small eager operations do not need these modules
    from weft.devices.cpu.emit.text import Generated
    from weft.devices.cpu.native.executable import CPUExecutable
    from weft.devices.cpu.native.timed_executable import TimedExecutable
    from weft.kernel.ir import Kernel
    from weft.schedule.program import Program

T = TypeVar("T")


class _LazyAttribute(Generic[T]):
    """An attribute that is computed on first access, once, under the device's lock."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make
        self.name = make.__name__

    def __get__(self, device: Any, cls: type | None = None) -> T:
        if device is None:
            return self  # type: ignore[return-value]
        with device._lock:
            cached = device.__dict__
            if self.name not in cached:
                cached[self.name] = self.make(device)
            return cached[self.name]


class _NativeFunctions(dict[str, int]):
    """Addresses of the runtime's functions. A module is loaded when one of its functions is first used, so a first process uses
    buffers while LLVM compiles the rest."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._modules = [(f"{name} {OBJECT_SIZE}", partial(call.text, name)) for name in call.MODULES]
        for module in self._modules[:2]:  # many programs never use the third
            compiler.begin_module(*module)

    def __missing__(self, name: str) -> int:
        for module in self._modules:
            functions = self._compiler.named_module(*module)
            self.update(functions)
            self._compiler.imports.update(functions)
            if name in functions:
                return functions[name]
        raise KeyError(name)


class CPUDevice:
    """The CPU device. A process has one (see ``weft.devices.get_device``); tests create more with their own cache."""

    name = "cpu"
    target = CPU

    def __init__(self, cache: Cache | None = None, threads: int | None = None, memory_limit: int | None = None) -> None:
        self._cache = cache
        self._threads = threads
        self._limit = memory_limit
        self._lock = threading.RLock()
        self._locks_held_by_fork: list[Any] = []
        self.numpy_calls = 0
        self._is_prepared: dict[int, tuple[Kernel, str]] = {}  # id -> kernel and printed form, until its program is compiled
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._after_fork)

    def _before_fork(self) -> None:
        """Acquire all locks before a fork: the child has no other threads, so a lock that one of them held would stay locked."""
        self._lock.acquire()
        self._locks_held_by_fork.append(self._lock)
        compiler = self.__dict__.get("compiler")
        if compiler is not None:
            compiler.lock.acquire()
            self._locks_held_by_fork.append(compiler.lock)
            compiler.emitter.drain()
            lock = llvm_lock()
            if lock is not None:
                lock.acquire()
                self._locks_held_by_fork.append(lock)

    def _after_fork(self) -> None:
        """Release the locks, in the parent and in the child."""
        while self._locks_held_by_fork:
            self._locks_held_by_fork.pop().release()

    @_LazyAttribute
    def pool(self) -> Pool:
        return Pool(self._threads)

    @_LazyAttribute
    def compiler(self) -> Compiler:
        return Compiler(self._cache if self._cache is not None else Cache())

    @_LazyAttribute
    def native(self) -> _NativeFunctions:
        """Addresses of the runtime's emitted functions. Also registers the symbols that kernels import."""
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise RuntimeError("weft needs the interpreter lock: start this Python with PYTHON_GIL=1 or -X gil=1")
        native = _NativeFunctions(self.compiler)
        self.compiler.imports.update(self.pool.imports())
        native.update(self.compiler.named_module("pool", pool_text))
        self.compiler.imports.update(native, weft_index_fault=id(IndexFault))
        self.compiler.imports.update(weft_warm_state=self.warm_state, weft_small_state=self.small_state)
        return native

    @_LazyAttribute
    def warm_state(self) -> int:
        return permanent(extent(WARM_STATE))

    @_LazyAttribute
    def small_state(self) -> int:
        return permanent(extent(SMALL_STATE))

    def small_work(self, world: SmallOperationContext) -> call_tables.CPUSmall:
        """Return the native functions for small eager operations. A process has one ``world``, the state that they read."""
        return call_tables.CPUSmall(world, self.native, self.allocator, self.small_state)

    def install_warm_calls(self, cls: type, table: str, world: WarmCallContext) -> None:
        """Set the ``__call__`` of ``cls`` to the native warm call. The slot ``table`` of ``cls`` holds a :meth:`warm_table`."""
        self._world = world
        call_tables.install(cls, table, world, self.native["weft_warm"], self.warm_state)

    def warm_table(self, table: WarmCall) -> call_tables.WarmTable | None:
        """Return the native table of a signature, or None if the Program may not overwrite an input that is written in place."""
        if not {row[:2] for row in table.overwritten_inputs} <= call.donations(table.run.direct()):
            return None
        return call_tables.WarmTable(self._world, table)

    def watch_check(self, rows: Sequence[WatchRow]) -> Callable[[], bool]:
        """Return a function that checks that the watched variables and containers still hold the objects of ``rows``."""
        return call_tables.watch_check(rows, self.native["weft_watched"])

    @_LazyAttribute
    def allocator(self) -> Allocator:
        return Allocator(self.native, self._limit)

    @_LazyAttribute
    def dynamic_kernels(self) -> CPUDynamicKernels:
        return CPUDynamicKernels(self.compiler, self.allocator, self.native)

    @property
    def threads(self) -> int:
        return self.pool.threads

    def set_threads(self, count: int) -> None:
        self.pool.set_threads(count)

    def compile(self, program: Program, flush_denormals: bool = False) -> CPUExecutable:
        """Load or compile every kernel of a Program. Ctrl-C works between two kernels."""
        from weft.devices.cpu.native.executable import CPUExecutable

        native = self.native  # kernels import its symbols
        return CPUExecutable(program, self._load_kernels(program), self.pool, self.allocator, native, flush_denormals)

    def compile_timed(self, program: Program, flush_denormals: bool = False) -> TimedExecutable:
        """Compile a Program with time stamps between its steps: see ``native/timed_executable.py``."""
        from weft.devices.cpu.native import timed_executable

        self.native.update(self.compiler.module(timed_executable.text()))
        kernels = self._load_kernels(program)
        return timed_executable.TimedExecutable(program, kernels, self.pool, self.allocator, self.native, flush_denormals)

    def prepare(self, kernel: Kernel, text: str | None = None) -> str:
        """Start the compilation of a kernel, in another thread if there is a core for it. Return its printed form, ``text``."""
        known = self._is_prepared.get(id(kernel))
        if known is not None:
            return known[1]
        if text is None:
            from weft.kernel.printer import kernel_key

            text = str(kernel_key(kernel))
        self.compiler.begin(text, partial(_generate, kernel))
        self._is_prepared[id(kernel)] = kernel, text
        return text

    def _load_kernels(self, program: Program) -> list[LoadedKernel]:
        from weft.schedule.program import calls

        kernels = [step.kernel for step in calls(program)]
        texts = {id(k): (k, self.prepare(k)) for k in {id(k): k for k in kernels}.values()}
        loaded = {key: self.compiler.kernel(text, partial(_generate, k)) for key, (k, text) in texts.items()}
        self._is_prepared.clear()
        return [loaded[id(k)] for k in kernels]

    def allocate(self, nbytes: int) -> Any:
        """Return an uninitialised buffer of at least ``nbytes`` bytes, 64-byte aligned."""
        return self.allocator.allocate(max(1, nbytes))

    def upload(self, array: np.ndarray) -> Any:
        """Copy an array to a new buffer, in row-major order."""
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        nbytes = array.nbytes
        buffer = self.allocator.allocate(nbytes or 1)
        if nbytes:
            if array.dtype.isbuiltin != 1:  # the buffer protocol has no bfloat16: pass bytes
                array = array.reshape(-1).view(np.uint8)
            self.allocator.fill(buffer.address, array)
        return buffer

    def upload_rows(self, array: np.ndarray, rows: np.ndarray) -> Any:
        """Copy rows of an array with a NumPy dtype to a new buffer. ``rows`` may have any shape; its indices must be in range."""
        shape = (*rows.shape, *array.shape[1:])
        buffer = self.allocator.allocate(math.prod(shape) * array.itemsize or 1)
        if array.size and rows.size:
            # mode "raise" would make NumPy allocate a temporary
            array.take(rows, 0, view(buffer, shape, array.dtype, writable=True), "clip")
        return buffer

    def read_first(self, buffer: Any, dtype: Format) -> Any:
        return view(buffer, (1,), dtype.numpy)[0]

    def download(self, buffer: Any, shape: tuple[int, ...], dtype: Format, writable: bool = False) -> np.ndarray:
        """Return a NumPy view of a buffer. While the view exists, the buffer counts as exported and is not donated."""
        return view(buffer, shape, dtype.numpy, writable)

    def window(self, buffer: Any, start: int, nbytes: int) -> Any:
        """Return a buffer that aliases part of another, which it keeps alive and marks as exported."""
        owner = buffer if isinstance(buffer, BorrowedBuffer) else memoryview(buffer)
        return BorrowedBuffer(buffer.address + start, nbytes, owner)

    def alias_numpy(self, array: np.ndarray) -> Any:
        return BorrowedBuffer(array.__array_interface__["data"][0], array.nbytes, array)

    def memory(self, buffer: Any, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
        """Return a NumPy view of a buffer for a short read. It does not count as an export; the caller keeps the buffer alive."""
        if isinstance(buffer, BorrowedBuffer):
            return view(buffer, shape, dtype.numpy)
        return np.ndarray(shape, dtype.numpy, buffer)

    def writable(self, buffer: Any, shape: tuple[int, ...], dtype: Format) -> np.ndarray | None:
        return None if buffer.export_count else self.memory(buffer, shape, dtype)

    def concatenate(self, buffers: Sequence[Any]) -> bytes | None:
        return None if BorrowedBuffer in set(map(type, buffers)) else b"".join(buffers)

    def synchronise(self) -> None:
        """Do nothing: calls on the CPU have finished when they return."""

    def counters(self) -> dict[str, int]:
        """Return the counters of emitted code and of the runtime: see :func:`weft.devices.counters`."""
        counts, pool = self.compiler.counts, self.pool
        return {
            "kernels": pool.counter("kernels"), "entries": pool.counter("entries"),
            "parallel_jobs": pool.counter("jobs"), "inline_jobs": pool.counter("inline"),
            "sized_calls": pool.counter("sized"), "numpy_calls": self.numpy_calls,
            "compiles": counts.compiles, "cache_hits": counts.cache_hits, "loads": counts.loads,
            "allocator_misses": self.allocator.misses, "allocator_bytes": self.allocator.system_bytes,
        }

    def describe(self, measure: bool = False) -> dict[str, Any]:
        """Return CPU features, threads, cache and versions; with ``measure`` also FMA peak and copy bandwidth."""
        from weft.devices.cpu.native.describe import describe

        return describe(self, measure)

    @property
    def processor(self) -> str:
        return cpu_model()

    @property
    def identity(self) -> str:
        return cpu_identity()

    def measure(self) -> dict[str, Any]:
        """Measure this machine with all of weft's threads, for about half a second."""
        from weft.devices.cpu.native.describe import measure_speed

        return measure_speed(self, self.threads)

    def recall(self, name: str) -> dict[str, Any] | None:
        """Return a note from the cache folder, or None."""
        entry = self.compiler.cache.read(name)
        return None if entry is None else entry.meta

    def remember(self, name: str, note: dict[str, Any]) -> None:
        self.compiler.cache.write(name, note, b"")

    def read_program(self, name: str) -> bytes | None:
        entry = self.compiler.cache.read(program_name(name))
        return None if entry is None else entry.code

    def write_program(self, name: str, content: bytes) -> None:
        if sources_unchanged(PROGRAM_SOURCES):
            self.compiler.cache.write(program_name(name), {}, content)

    def code_of(self, kernel: Kernel) -> CodeProperties:
        """Return whether a kernel's code is vectorised, and the functions it calls per element."""
        from weft.devices.cpu.emit.math import has_vectors

        generated = _generate(kernel)
        slow = {name + "f" * (type_ == "float") for name, type_ in generated.called if not has_vectors(name, type_)}
        return CodeProperties(generated.vectors, tuple(sorted(slow)))


def _generate(kernel: Kernel) -> Generated:
    from weft.devices.cpu.generate import generate

    return generate(kernel, host())


DEVICE = CPUDevice()
