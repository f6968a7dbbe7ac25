"""The compiler: generate LLVM text, compile it, store it on disk, load it, and free the code of unused kernels.

LLVM is loaded on the first actual compilation; a process whose kernels are all cached never loads it (on platforms that
``elf.py`` supports). A kernel's key is computed from its printed form, so a cache hit generates no LLVM text either.

Executables hold the :class:`LoadedKernel` of each kernel they run. The compiler has a weak reference without a callback,
because a Ctrl-C during a callback would be lost; a sweep finds the dead references from time to time.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from weft.devices.cache import Cache
from weft.devices.cpu.native import elf, emission
from weft.devices.cpu.native.code_key import name_of, sources_unchanged
from weft.devices.cpu.native.code_memory import CodeMemory
from weft.devices.cpu.native.emission import HIGH, LOW
from weft.devices.cpu.native.host_cpu import host
from weft.devices.cpu.native.recompile import PATIENCE, Job, Recompiler, cost_of, level_of
from weft.process.signals import uninterrupted

KEPT_DEAD = 256  # a sweep runs when the unused kernels outnumber the used ones by this many


class PendingRecompilation(NamedTuple):
    """The pending recompilation of a kernel: its name in the cache, metadata and a function returning the compressed text."""

    name: str
    meta: dict[str, Any]
    text: Callable[[], bytes]


class LoadedKernel:
    """A loaded kernel, ``void (*address)(void **args)``. Its code is freed after this object.

    Emitted code reads the address from memory, at ``cell``, at each call. Recompilation replaces the address and sets ``later``
    to None. The old code stays in memory, since a thread may be executing it.
    """

    __slots__ = ("__weakref__", "_word", "cell", "later", "parallel", "scratch", "worker_scratch")

    def __init__(
        self, address: int, scratch: int, worker_scratch: int, parallel: bool, later: PendingRecompilation | None = None
    ) -> None:
        self._word = ctypes.c_int64(address)  # written atomically
        self.cell = ctypes.addressof(self._word)
        self.scratch, self.worker_scratch, self.parallel, self.later = scratch, worker_scratch, parallel, later

    @property
    def address(self) -> int:
        return self._word.value

    def improve(self, address: int) -> None:
        self._word.value = address
        self.later = None


@dataclass(slots=True)
class _KernelEntry:
    """A kernel in memory. ``fields`` recreate its ``LoadedKernel``; ``give`` frees its code once ``loaded`` is dead."""

    loaded: weakref.ref[LoadedKernel]
    fields: tuple[int, int, int, bool, PendingRecompilation | None]
    give: Callable[[], None]


@dataclass(slots=True)
class Counts:
    """Counters: foreground compilations, objects read from disk, objects loaded into memory, background recompilations."""

    compiles: int = 0
    cache_hits: int = 0
    loads: int = 0
    improved: int = 0


@dataclass(slots=True)
class Compiler:
    """Compiles text to addresses and caches them.

    imports : addresses of the symbols that kernels import
    load_generator : imports the modules that ``generate`` of :meth:`kernel` needs
    """

    cache: Cache
    imports: dict[str, int] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    kernels: dict[str, _KernelEntry] = field(default_factory=dict)
    modules: dict[str, dict[str, int]] = field(default_factory=dict)
    memory: CodeMemory = field(default_factory=CodeMemory)
    lock: Any = field(default_factory=threading.RLock)
    load_generator: Callable[[], None] = lambda: None
    again: Recompiler = field(init=False)
    _sweep_at: int = KEPT_DEAD
    _jit: Any = None

    def __post_init__(self) -> None:
        self.again = Recompiler(self._features)

    def _features(self) -> str:
        self.load_generator()  # the recompiling thread generates the text of kernels that came from disk
        return str(host().features)

    def kernel(self, text: str, generate: Callable[[], Any], us: float = math.inf) -> LoadedKernel:
        """Return the kernel whose printed form is ``text``. If it is not cached, compile ``generate() -> Generated``.

        us : estimated microseconds per run; decides whether to optimise now or later, in :meth:`improve`
        """
        name = name_of("kernel\n" + text)
        entry = self.kernels.get(name)
        loaded = None if entry is None else entry.loaded()
        if loaded is not None:
            return loaded
        with self.lock:
            entry = self.kernels.get(name)
            if entry is not None:
                loaded = entry.loaded()
                if loaded is None:  # unused and not swept yet: reuse its code
                    loaded = LoadedKernel(*entry.fields)
                    entry.loaded = weakref.ref(loaded)
                return loaded
            if len(self.kernels) >= self._sweep_at:
                self.sweep()
            us = us if self.again.possible else math.inf
            make, keep = lambda: _text_and_meta(generate()), partial(self._as_kernel, generate)
            return self._load_or_build(name, make, keep, us, kernel=True)

    def improve(self, kernels: Iterable[LoadedKernel], patience: float = PATIENCE) -> None:
        """Queue kernels for recompilation in the background, unless they have been recompiled; see :meth:`Again.add`."""
        jobs = [Job(k.later.text, partial(self._install_improved, k.later)) for k in dict.fromkeys(kernels) if k.later]
        self.again.add(jobs, patience)

    def settle(self, kernels: Iterable[LoadedKernel] | None = None) -> None:
        """Recompile these kernels, or all in memory, and wait."""
        if kernels is None:
            with self.lock:
                kernels = [k for entry in self.kernels.values() if (k := entry.loaded()) is not None]
        self.improve(kernels)
        self.again.settle()

    def _install_improved(self, later: PendingRecompilation, code: bytes) -> None:
        """Load recompiled code and switch the kernel to it. Runs in the background thread."""
        meta = {**later.meta, "level": HIGH, "llvm": not elf.supported()}
        with self.lock:
            entry = self.kernels.get(later.name)
            if entry is None or entry.fields[-1] is None:  # swept or recompiled meanwhile
                return
            addresses, give = self._place(later.name, meta, code)
            entry.give = partial(_call_both, entry.give, give)
            entry.fields = (addresses[meta["symbol"]], *entry.fields[1:-1], None)
            loaded = entry.loaded()
            if loaded is not None:
                loaded.improve(entry.fields[0])
            self.counts.improved += 1
        if sources_unchanged():
            self.cache.write(later.name, meta, code)

    def module(self, ir: str) -> dict[str, int]:
        """Return the addresses of the functions that LLVM text defines. They are never freed."""
        return self.named_module(ir, lambda: ir)

    def named_module(self, what: str, text: Callable[[], str]) -> dict[str, int]:
        """Return the addresses of the functions that ``text()`` defines; it is called only if there is no cached object.

        what : identifies the text, including all that it depends on besides weft's own code and the machine
        """
        name = name_of("module\n" + what)
        with self.lock:
            if name not in self.modules:
                self._load_or_build(name, lambda: (text(), {}), self._as_module, math.inf)
            return self.modules[name]

    def sweep(self) -> int:
        """Free the code of unused kernels. Return their number."""
        with self.lock:
            dead = [name for name, entry in self.kernels.items() if entry.loaded() is None]
            with uninterrupted():  # Ctrl-C between pop and give would leak the code
                for name in dead:
                    self.kernels.pop(name).give()
            self._sweep_at = 2 * len(self.kernels) + KEPT_DEAD
            return len(dead)

    def _as_kernel(
        self, generate: Callable[[], Any], name: str, meta: dict[str, Any], ir: str | None, addresses: dict[str, int],
        give: Callable[[], None],
    ) -> LoadedKernel:
        """Register a loaded kernel."""
        later = None
        if meta["level"] != HIGH:
            text = None if ir is None else _compress(ir)
            later = PendingRecompilation(name, meta, (lambda: _compress(generate().ir)) if text is None else lambda: text)
        fields = (addresses[meta["symbol"]], meta["scratch"], meta["worker_scratch"], meta["parallel"], later)
        loaded = LoadedKernel(*fields)
        self.kernels[name] = _KernelEntry(weakref.ref(loaded), fields, give)
        return loaded

    def _as_module(
        self, name: str, meta: dict[str, Any], ir: str | None, addresses: dict[str, int], give: Callable[[], None],
    ) -> None:
        self.modules[name] = addresses

    def _load_or_build(
        self, name: str, make: Callable[[], tuple[str, dict[str, Any]]], keep: Callable[..., Any], us: float,
        kernel: bool = False,
    ) -> Any:
        """Load an object from disk, or build and store it. Return the result of ``keep`` for it.

        A cached object that is incomplete, not optimised enough or not loadable is rebuilt.
        """
        entry = self.cache.read(name)
        if entry is not None and _is_complete(entry.meta, kernel) and level_of(us, entry.meta["cost"]) <= entry.meta["level"]:
            try:
                return self._load(name, entry.meta, None, entry.code, keep, hit=True)
            except (elf.UnsupportedObject, RuntimeError):
                pass
        ir, meta = make()
        cost = cost_of(ir)
        level = HIGH if "<1 x i1>" in ir else level_of(us, cost)  # LLVM 22 aborts at LOW on some code with one-lane masks
        code, exports = emit_object(ir, level)
        meta = {**meta, "exports": exports, "llvm": not elf.supported(), "level": level, "cost": cost}
        self.counts.compiles += 1
        try:
            result = self._load(name, meta, ir, code, keep)
        except elf.UnsupportedObject as error:  # LLVM's loader supports more
            meta["llvm"] = True
            try:
                result = self._load(name, meta, ir, code, keep)
            except RuntimeError as second:
                raise RuntimeError(f"compiled code cannot be loaded: {error}") from second
        if sources_unchanged():
            self.cache.write(name, meta, code)
        return result

    def _load(
        self, name: str, meta: dict[str, Any], ir: str | None, code: bytes, keep: Callable[..., Any], hit: bool = False,
    ) -> Any:
        with uninterrupted():  # Ctrl-C between loading and registering would leak the code
            addresses, give = self._place(name, meta, code)
            self.counts.loads += 1
            self.counts.cache_hits += hit
            return keep(name, meta, ir, addresses, give)

    def _place(self, name: str, meta: dict[str, Any], code: bytes) -> tuple[dict[str, int], Callable[[], None]]:
        if meta["llvm"]:
            return self._load_llvm(name, code, meta["exports"])
        addresses, place = elf.load(code, self._resolve, self.memory)
        missing = [symbol for symbol in meta["exports"] if symbol not in addresses]
        if missing:
            self.memory.give(place)
            raise elf.UnsupportedObject(f"the object does not define {', '.join(missing)}")
        return addresses, partial(self.memory.give, place)

    def _resolve(self, name: str) -> int:
        return self.imports.get(name) or elf.process_symbol(name)

    def _load_llvm(self, name: str, code: bytes, exports: list[str]) -> tuple[dict[str, int], Callable[[], None]]:
        with uninterrupted():
            llvm = emission.opened()
        if self._jit is None:
            self._jit = llvm.create_lljit_compiler(emission.machine(host().features, HIGH))
            _keep_alive(self._jit)
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol, address in self.imports.items():
            builder.import_symbol(symbol, address)
        for symbol in exports:
            builder.export_symbol(symbol)
        tracker = builder.link(self._jit, f"{name}-{self.counts.loads}-{self.counts.improved}")
        _keep_alive(tracker)
        return {symbol: tracker[symbol] for symbol in exports}, partial(_unload, tracker)


def _text_and_meta(generated: Any) -> tuple[str, dict[str, Any]]:
    return generated.ir, {
        "symbol": generated.symbol, "scratch": generated.scratch, "worker_scratch": generated.worker_scratch,
        "parallel": "parallel" in generated.paths,
    }


def emit_object(ir: str, level: int = HIGH) -> tuple[bytes, list[str]]:
    """Compile LLVM text for this CPU. Return the object file and the names of its exported functions."""
    with uninterrupted():  # llvmlite frees objects in destructors, where Ctrl-C would be lost
        return emission.emitted(ir, host().features, level)


def _is_complete(meta: dict[str, Any], kernel: bool) -> bool:
    """Return whether an entry's metadata has every field needed to load a kernel, or a module if ``kernel`` is false."""
    exports = meta.get("exports")
    if not isinstance(exports, list) or not all(isinstance(name, str) for name in exports) or type(meta.get("llvm")) is not bool:
        return False
    if meta.get("level") not in (LOW, HIGH) or type(meta["level"]) is not int or type(meta.get("cost")) is not float:
        return False
    if not kernel:
        return True
    sizes = (meta.get("scratch"), meta.get("worker_scratch"))
    return meta.get("symbol") in exports and type(meta.get("parallel")) is bool and all(
        type(size) is int and 0 <= size < 1 << 48 for size in sizes
    )


def _keep_alive(thing: Any) -> None:
    """Leak a reference: threads may be inside emitted code at interpreter shutdown."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _call_both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()


def _compress(ir: str) -> bytes:
    return zlib.compress(ir.encode(), 1)  # to about a tenth: the text may stay in memory for long


def _unload(tracker: Any) -> None:
    tracker.close()
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(tracker))


def llvm_lock() -> Any:
    """Return llvmlite's lock around LLVM calls, or None if llvmlite is not loaded or has no such lock."""
    ffi = sys.modules.get("llvmlite.binding.ffi")
    return getattr(getattr(getattr(ffi, "lib", None), "_lock", None), "_lock", None)


def function(address: int, *types: Any, result: Any = None) -> Any:
    """Return a ctypes function for an address. Calls release the interpreter lock."""
    return ctypes.CFUNCTYPE(result, *types)(address)
