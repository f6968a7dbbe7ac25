"""The CPU as a device: what :class:`weft.devices.base.Device` asks for. Everything is made when first used."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from weft.devices.base import Code
from weft.devices.cache import Cache
from weft.devices.cpu.native import call, call_tables, small_tables
from weft.devices.cpu.native.allocator import Allocator, Borrowed, view
from weft.devices.cpu.native.code_key import cpu_identity, cpu_model
from weft.devices.cpu.native.compile import Compiler, Loaded, llvm_lock
from weft.devices.cpu.native.host_cpu import host
from weft.devices.cpu.native.imported_symbols import OBJECT_SIZE
from weft.devices.cpu.native.layouts import SMALL_STATE, WARM_STATE, extent
from weft.devices.cpu.native.optimisation_levels import runs_until
from weft.devices.cpu.native.sized import CPUSized
from weft.devices.cpu.native.threads import Pool, permanent, pool_text
from weft.devices.faults import IndexFault
from weft.devices.native_protocols import Surroundings, Watched, World
from weft.dtypes.formats import Format
from weft.kernel.target import CPU

if TYPE_CHECKING:  # what small work needs nothing of is loaded with the first program
    from weft.devices.cpu.native.executable import CPUExecutable
    from weft.devices.cpu.native.timed_executable import TimedExecutable
    from weft.kernel.ir import Kernel
    from weft.schedule.program import Program

T = TypeVar("T")


class _Once(Generic[T]):
    """An attribute that is made when it is first asked for, once, however many threads ask."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make
        self.name = make.__name__

    def __get__(self, device: Any, cls: type | None = None) -> T:
        if device is None:
            return self  # type: ignore[return-value]
        with device._lock:
            made = device.__dict__
            if self.name not in made:
                made[self.name] = self.make(device)
            return made[self.name]


class CPUDevice:
    """One a process (see ``weft.devices.get_device``); tests make their own with a cache of their own."""

    name = "cpu"
    target = CPU

    def __init__(self, cache: Cache | None = None, threads: int | None = None, memory_limit: int | None = None) -> None:
        self._cache = cache
        self._threads = threads
        self._limit = memory_limit
        self._lock = threading.RLock()
        self._forking: list[Any] = []
        self.numpy_calls = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._in_child)

    def _before_fork(self) -> None:
        """A child has no other threads: what they are doing under these locks must be finished, or it stays half done there."""
        self._lock.acquire()
        self._forking.append(self._lock)
        compiler = self.__dict__.get("compiler")
        for lock in (compiler.lock, llvm_lock(), compiler.again.starting, compiler.again.state) if compiler is not None else ():
            if lock is not None:
                lock.acquire()
                self._forking.append(lock)

    def _after_fork(self) -> None:
        while self._forking:
            self._forking.pop().release()

    def _in_child(self) -> None:
        self._after_fork()
        if (compiler := self.__dict__.get("compiler")) is not None:
            compiler.again.in_child()

    @_Once
    def pool(self) -> Pool:
        return Pool(self._threads)

    @_Once
    def compiler(self) -> Compiler:
        return Compiler(self._cache if self._cache is not None else Cache(), load_generator=_load_generator)

    @_Once
    def native(self) -> dict[str, int]:
        """The runtime's own emitted functions; makes the symbols that kernels import known."""
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise RuntimeError("weft needs the interpreter lock: start this Python with PYTHON_GIL=1 or -X gil=1")
        self.compiler.imports.update(self.pool.imports())
        pool = self.compiler.named_module("pool", pool_text)
        self.compiler.imports.update(pool, weft_index_fault=id(IndexFault))
        self.compiler.imports.update(weft_warm_state=self.warm_state, weft_small_state=self.small_state)
        return {**pool, **self.compiler.named_module(f"call {OBJECT_SIZE}", call.text)}

    @_Once
    def warm_state(self) -> int:
        return permanent(extent(WARM_STATE))

    @_Once
    def small_state(self) -> int:
        return permanent(extent(SMALL_STATE))

    def small_work(self, world: Surroundings) -> small_tables.CPUSmall:
        """See ``weft.devices.native_protocols``; for one world a process."""
        return small_tables.CPUSmall(world, self.native, self.allocator, self.small_state)

    def install_warm_calls(self, cls: type, table: str, world: World) -> None:
        """Make the native call the ``__call__`` of ``cls``, whose slot ``table`` holds what :meth:`warm_table` gives."""
        self._world = world
        call_tables.install(cls, table, world, self.native["weft_warm"], self.warm_state)

    def warm_table(
        self, run: Any, structures: int, watch: Sequence[Watched], arguments: Sequence[tuple], inputs: Sequence[tuple],
        node: dict[str, Any], array: tuple[type, dict[str, Any]],
    ) -> call_tables.WarmTable:
        """See ``weft.devices.native_protocols``. node, array : the slots of a new Node and of a new array of the class."""
        kind, slots = array
        return call_tables.WarmTable(self._world.node, kind, run, structures, watch, arguments, inputs, node, slots)

    def watched(self, rows: Sequence[Watched]) -> Callable[[], bool]:
        """See ``weft.devices.native_protocols``: what says whether all is as the rows say."""
        return call_tables.watched(rows, self.native["weft_watched"])

    @_Once
    def allocator(self) -> Allocator:
        return Allocator(self.native, self._limit)

    @_Once
    def sized(self) -> CPUSized:
        return CPUSized(self.compiler, self.allocator, self.native)

    @property
    def threads(self) -> int:
        return self.pool.threads

    def set_threads(self, count: int) -> None:
        self.pool.set_threads(count)

    def compile(self, program: Program, flush_denormals: bool = False) -> CPUExecutable:
        """Load or build every kernel of a Program. Ctrl-C works between two kernels."""
        from weft.devices.cpu.native.executable import BYTES_PER_US, FLOPS_PER_US, CPUExecutable
        from weft.devices.cpu.native.loops import kernel_times

        native = self.native  # before the kernels, which import its symbols
        times = kernel_times(program, FLOPS_PER_US, BYTES_PER_US)
        kernels = self._kernels(program, times)
        return CPUExecutable(
            program, kernels, self.pool, self.allocator, native, flush_denormals, self._hot(kernels, times)
        )

    def compile_timed(self, program: Program, flush_denormals: bool = False) -> TimedExecutable:
        """The same, with stamps between its steps: see ``native/timed_executable.py``."""
        from weft.devices.cpu.native import timed_executable
        from weft.schedule.program import calls

        native = {**self.native, **self.compiler.module(timed_executable.text())}
        kernels = self._kernels(program, [math.inf] * len(calls(program)))
        self.compiler.settle(kernels)  # what is timed is code that stays
        return timed_executable.TimedExecutable(program, kernels, self.pool, self.allocator, native, flush_denormals)

    def _kernels(self, program: Program, times: Sequence[float]) -> list[Loaded]:
        """Compiled as well as pays: ``times`` are microseconds that a run spends in each."""
        from weft.kernel.printer import kernel_key
        from weft.schedule.program import calls

        kernels = [step.kernel for step in calls(program)]
        texts = {id(k): str(kernel_key(k)) for k in kernels}  # layers of a net share kernels
        whole: defaultdict[str, float] = defaultdict(float)
        for kernel, us in zip(kernels, times, strict=True):
            whole[texts[id(kernel)]] += us
        found = {
            id(k): self.compiler.kernel(texts[id(k)], partial(_generate, k), whole[texts[id(k)]])
            for k in {id(k): k for k in kernels}.values()
        }
        return [found[id(k)] for k in kernels]

    def _hot(self, kernels: Sequence[Loaded], times: Sequence[float]) -> call.Hot | None:
        """When a program has run so often that its kernels get better code, the costliest first."""
        us: dict[Loaded, float] = {}
        for kernel, time in zip(kernels, times, strict=True):
            if kernel.later is not None:
                us[kernel] = us.get(kernel, 0.0) + time
        if not us:
            return None
        costs = [kernel.later.meta["cost"] for kernel in us if kernel.later is not None]
        improve = partial(self.compiler.improve, sorted(us, key=us.__getitem__, reverse=True))
        return call.Hot(runs_until(costs, sum(us.values())), improve)

    def settle(self) -> None:
        """Wait until all code in memory is as good as it gets: what is timed then stays as fast."""
        self.compiler.settle()

    def allocate(self, nbytes: int) -> Any:
        """At least ``nbytes`` uninitialised bytes, 64-byte aligned."""
        return self.allocator.allocate(max(1, nbytes))

    def upload(self, array: np.ndarray) -> Any:
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

    def upload_rows(self, array: np.ndarray, rows: np.ndarray) -> Any:
        """A copy of some rows of an array that has a dtype of NumPy's own; ``rows``, of any shape, lie within it."""
        shape = (*rows.shape, *array.shape[1:])
        buffer = self.allocator.allocate(math.prod(shape) * array.itemsize or 1)
        if array.size and rows.size:
            # with "raise" NumPy goes by a buffer of its own
            array.take(rows, 0, view(buffer, shape, array.dtype, writable=True), "clip")
        return buffer

    def first(self, buffer: Any, dtype: Format) -> Any:
        """The first element of a buffer, as a NumPy number."""
        return view(buffer, (1,), dtype.numpy)[0]

    def download(self, buffer: Any, shape: tuple[int, ...], dtype: Format, writable: bool = False) -> np.ndarray:
        """A view of a buffer, without a copy. While it lives, the buffer counts as exported and is not donated."""
        return view(buffer, shape, dtype.numpy, writable)

    def window(self, buffer: Any, start: int, nbytes: int) -> Any:
        """A buffer that is a part of another one, which it keeps, and which counts as exported while it lives."""
        owner = buffer if isinstance(buffer, Borrowed) else memoryview(buffer)
        return Borrowed(buffer.address + start, nbytes, owner)

    def over(self, array: np.ndarray) -> Any:
        """A buffer over the memory of an array that lies row by row; it keeps the array, and is never written to."""
        return Borrowed(array.__array_interface__["data"][0], array.nbytes, array)

    def memory(self, buffer: Any, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
        """A buffer's memory, to be read from for a moment, while the buffer is held; it is not counted as an export."""
        if isinstance(buffer, Borrowed):
            return view(buffer, shape, dtype.numpy)
        return np.ndarray(shape, dtype.numpy, buffer)

    def writable(self, buffer: Any, shape: tuple[int, ...], dtype: Format) -> np.ndarray | None:
        """A buffer's memory, to be written to for a moment; None where a view or another library may be reading it."""
        return None if buffer.exported else self.memory(buffer, shape, dtype)

    def together(self, buffers: Sequence[Any]) -> bytes | None:
        """The bytes of many buffers, one after the other; None where one of them is a part of another buffer."""
        return None if Borrowed in set(map(type, buffers)) else b"".join(buffers)

    def synchronise(self) -> None:
        """Calls on the CPU have finished when they return."""

    def counters(self) -> dict[str, int]:
        """What was counted since the process began, in emitted code and in the runtime."""
        counts, pool = self.compiler.counts, self.pool
        return {
            "kernels": pool.counter("kernels"), "entries": pool.counter("entries"),
            "parallel_jobs": pool.counter("jobs"), "inline_jobs": pool.counter("inline"),
            "sized_calls": pool.counter("sized"), "numpy_calls": self.numpy_calls,
            "compiles": counts.compiles, "cache_hits": counts.cache_hits, "loads": counts.loads, "improved": counts.improved,
            "allocator_misses": self.allocator.misses, "allocator_bytes": self.allocator.system_bytes,
        }

    def describe(self, measure: bool = False) -> dict[str, Any]:
        """CPU features, threads, cache and versions; with ``measure`` also FMA peak and copy bandwidth."""
        from weft.devices.cpu.native.describe import describe

        return describe(self, measure)


    # ---- what it can do

    @property
    def processor(self) -> str:
        return cpu_model()

    @property
    def identity(self) -> str:
        return cpu_identity()

    def measure(self) -> dict[str, Any]:
        """What this machine can do with all threads weft uses. About half a second."""
        from weft.devices.cpu.native.measure import measure

        return measure(self)

    def recall(self, name: str) -> dict[str, Any] | None:
        """A note in the cache folder."""
        entry = self.compiler.cache.read(name)
        return None if entry is None else entry.meta

    def remember(self, name: str, note: dict[str, Any]) -> None:
        self.compiler.cache.write(name, note, b"")

    def code_of(self, kernel: Kernel) -> Code:
        """What a kernel's code is like."""
        from weft.devices.cpu.emit.math import has_vectors

        made = _generate(kernel)
        slow = {name + "f" * (type_ == "float") for name, type_ in made.called if not has_vectors(name, type_)}
        return Code(made.vectors, tuple(sorted(slow)))


def _load_generator() -> None:
    import weft.devices.cpu.generate  # noqa: F401


def _generate(kernel: Any) -> Any:
    from weft.devices.cpu.generate import generate

    return generate(kernel, host())


DEVICE = CPUDevice()
