"""The compiler: generate LLVM text, compile it, store it on disk, load it, and free the code of unused kernels.

LLVM is loaded on the first actual compilation; a process whose kernels are all cached never loads it (on platforms that
``elf.py`` supports). A kernel's key is computed from its printed form, so a cache hit generates no LLVM text either.

Executables hold the :class:`LoadedKernel` of each kernel they run. The compiler has a weak reference without a callback,
because a Ctrl-C during a callback would be lost; a sweep finds the dead references from time to time.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from weft.devices.cache import Cache
from weft.devices.cpu.native import elf
from weft.devices.cpu.native.code_key import name_of, sources_unchanged
from weft.devices.cpu.native.code_memory import CodeMemory
from weft.devices.cpu.native.emission import Emission, Emitter, emit_object, open_llvm, target_machine
from weft.process.signals import defer_signals

MAX_UNUSED_KERNELS = 256  # a sweep runs when the unused kernels outnumber the used ones by this many


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class LoadedKernel:
    """A loaded kernel, ``void (*address)(void **args)``. Its code is freed after this object."""

    address: int
    scratch: int
    worker_scratch: int
    parallel: bool


@dataclass(slots=True)
class _KernelEntry:
    """A kernel in memory. ``fields`` recreate its ``LoadedKernel``; ``give`` frees its code once ``kernel_ref`` is dead."""

    kernel_ref: weakref.ref[LoadedKernel]
    fields: tuple[int, int, int, bool]
    give: Callable[[], None]


class _Compilation(NamedTuple):
    """A kernel or module that is being compiled."""

    emission: Emission
    meta: dict[str, Any]


@dataclass(slots=True)
class Counts:
    """Counters: compilations, objects read from disk, objects loaded into memory."""

    compiles: int = 0
    cache_hits: int = 0
    loads: int = 0


@dataclass(slots=True)
class Compiler:
    """Compiles text to addresses and caches them. imports: addresses of the symbols that kernels import."""

    cache: Cache
    imports: dict[str, int] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    kernels: dict[str, _KernelEntry] = field(default_factory=dict)
    modules: dict[str, dict[str, int]] = field(default_factory=dict)
    memory: CodeMemory = field(default_factory=CodeMemory)
    lock: Any = field(default_factory=threading.RLock)
    emitter: Emitter = field(default_factory=Emitter)
    _compilations: dict[str, _Compilation] = field(default_factory=dict)
    _sweep_at: int = MAX_UNUSED_KERNELS
    _jit: Any = None

    def begin(self, text: str, generate: Callable[[], Any]) -> None:
        """Start the compilation of a kernel in another thread; ``kernel`` with the same arguments finishes it."""
        self._begin("kernel\n" + text, self.kernels, lambda: _text_and_meta(generate()))

    def begin_module(self, what: str, text: Callable[[], str]) -> None:
        """Start the compilation of a module in another thread; ``named_module`` with the same arguments finishes it."""
        self._begin("module\n" + what, self.modules, lambda: (text(), {}))

    def _begin(self, what: str, loaded: Container[str], make: Callable[[], tuple[str, dict[str, Any]]]) -> None:
        name = name_of(what)
        with self.lock:
            if name not in loaded and name not in self._compilations and not self.cache.contains(name):
                ir, meta = make()
                self._compilations[name] = _Compilation(self.emitter.begin(ir), meta)

    def kernel(self, text: str, generate: Callable[[], Any]) -> LoadedKernel:
        """Return the kernel whose printed form is ``text``. If it is not cached, compile ``generate() -> Generated``."""
        name = name_of("kernel\n" + text)
        entry = self.kernels.get(name)
        loaded = None if entry is None else entry.kernel_ref()
        if loaded is not None:
            return loaded
        with self.lock:
            entry = self.kernels.get(name)
            if entry is not None:
                loaded = entry.kernel_ref()
                if loaded is None:  # unused and not swept yet: reuse its code
                    loaded = LoadedKernel(*entry.fields)
                    entry.kernel_ref = weakref.ref(loaded)
                return loaded
            if len(self.kernels) >= self._sweep_at:
                self.sweep()
            return self._load_or_build(name, lambda: _text_and_meta(generate()), kernel=True)

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
                self._load_or_build(name, lambda: (text(), {}), kernel=False)
            return self.modules[name]

    def sweep(self) -> int:
        """Free the code of unused kernels. Return their number."""
        with self.lock:
            dead = [name for name, entry in self.kernels.items() if entry.kernel_ref() is None]
            with defer_signals():  # Ctrl-C between pop and give would leak the code
                for name in dead:
                    self.kernels.pop(name).give()
            self._sweep_at = 2 * len(self.kernels) + MAX_UNUSED_KERNELS
            return len(dead)

    def _load_or_build(self, name: str, make: Callable[[], tuple[str, dict[str, Any]]], kernel: bool) -> Any:
        """Load an object from disk, or build and store it. Return the kernel, or None for a module.

        A cached object that is incomplete or not loadable is rebuilt.
        """
        entry = self.cache.read(name)
        if entry is not None and _is_complete(entry.meta, kernel):
            try:
                return self._load(name, entry.meta, entry.code, hit=True)
            except (elf.UnsupportedObject, RuntimeError):
                pass
        begun = self._compilations.pop(name, None)
        if begun is None:
            ir, meta = make()
            code, exports = emit_object(ir)
        else:
            meta = begun.meta
            code, exports = self.emitter.finish(begun.emission)
        meta = {**meta, "exports": exports, "llvm": not elf.is_supported()}
        self.counts.compiles += 1
        try:
            result = self._load(name, meta, code)
        except elf.UnsupportedObject as error:  # LLVM's loader supports more
            meta["llvm"] = True
            try:
                result = self._load(name, meta, code)
            except RuntimeError as second:
                raise RuntimeError(f"compiled code cannot be loaded: {error}") from second
        if sources_unchanged():
            self.cache.write(name, meta, code)
        return result

    def _load(self, name: str, meta: dict[str, Any], code: bytes, hit: bool = False) -> LoadedKernel | None:
        with defer_signals():  # Ctrl-C between loading and registering would leak the code
            addresses, give = self._place(name, meta, code)
            self.counts.loads += 1
            self.counts.cache_hits += hit
            if "symbol" not in meta:
                self.modules[name] = addresses
                return None
            fields = addresses[meta["symbol"]], meta["scratch"], meta["worker_scratch"], meta["parallel"]
            loaded = LoadedKernel(*fields)
            self.kernels[name] = _KernelEntry(weakref.ref(loaded), fields, give)
            return loaded

    def _place(self, name: str, meta: dict[str, Any], code: bytes) -> tuple[dict[str, int], Callable[[], None]]:
        if meta["llvm"]:
            return self._load_llvm(name, code, meta["exports"])
        addresses, place = elf.load(code, lambda name: self.imports.get(name) or elf.process_symbol(name), self.memory)
        missing = [symbol for symbol in meta["exports"] if symbol not in addresses]
        if missing:
            self.memory.give(place)
            raise elf.UnsupportedObject(f"the object does not define {', '.join(missing)}")
        return addresses, partial(self.memory.give, place)

    def _load_llvm(self, name: str, code: bytes, exports: list[str]) -> tuple[dict[str, int], Callable[[], None]]:
        with defer_signals():
            llvm = open_llvm()
        if self._jit is None:
            self._jit = llvm.create_lljit_compiler(target_machine())
            _keep_alive(self._jit)
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol, address in self.imports.items():
            builder.import_symbol(symbol, address)
        for symbol in exports:
            builder.export_symbol(symbol)
        tracker = builder.link(self._jit, f"{name}-{self.counts.loads}")
        _keep_alive(tracker)
        return {symbol: tracker[symbol] for symbol in exports}, partial(_unload, tracker)


def _text_and_meta(generated: Any) -> tuple[str, dict[str, Any]]:
    return generated.ir, {
        "symbol": generated.symbol, "scratch": generated.scratch, "worker_scratch": generated.worker_scratch,
        "parallel": "parallel" in generated.paths,
    }


def _is_complete(meta: dict[str, Any], kernel: bool) -> bool:
    """Return whether an entry's metadata has every field needed to load a kernel, or a module if ``kernel`` is false."""
    exports = meta.get("exports")
    if not isinstance(exports, list) or not all(isinstance(name, str) for name in exports) or type(meta.get("llvm")) is not bool:
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


def _unload(tracker: Any) -> None:
    tracker.close()
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(tracker))


def function(address: int, *types: Any, result: Any = None) -> Any:
    """Return a ctypes function for an address. Calls release the interpreter lock."""
    return ctypes.CFUNCTYPE(result, *types)(address)
