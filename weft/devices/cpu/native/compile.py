"""LLVM text to code in memory: generate, compile, keep on disk, load; and take the memory of dropped kernels back.

LLVM is opened on the first real compilation; a process whose kernels are all in the cache never opens it (on
platforms that ``elf.py`` serves). The key of a kernel is computed from its printed form, so a hit generates no
LLVM text either.

A kernel belongs to the executables that hold its :class:`Loaded`: who runs one holds it. The compiler knows it by a weak
reference without a callback (nothing of Python's runs when a kernel is dropped, so no Ctrl-C is lost there), and looks now and
then which of them are dead.
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
from functools import lru_cache, partial
from typing import Any, NamedTuple

from weft.devices.cache import Cache
from weft.devices.cpu.native import elf, emission
from weft.devices.cpu.native.code_key import name_of, sources_unchanged
from weft.devices.cpu.native.code_memory import CodeMemory
from weft.devices.cpu.native.emission import HIGH, LOW
from weft.devices.cpu.native.host_cpu import host
from weft.devices.cpu.native.optimisation_levels import cost_of, level_of
from weft.devices.cpu.native.recompile import PATIENCE, Again, Job
from weft.process.signals import uninterrupted

KEPT_DEAD = 256  # kernels that nobody holds wait for a sweep: this many, and as many as are alive


class Later(NamedTuple):
    """A kernel's better code, which is not made yet: what it is kept under, and the text, packed."""

    name: str
    meta: dict[str, Any]
    text: Callable[[], bytes]


class Loaded:
    """One kernel that can be called: ``void (*address)(void **args)``. Its code lives as long as this object is held.

    The address lies in memory, at ``cell``, where emitted code reads it at each call: it changes when better code is there
    (``later`` is None then). The old code stays, for a thread may be in it.
    """

    __slots__ = ("__weakref__", "_word", "cell", "later", "parallel", "scratch", "worker_scratch")

    def __init__(self, address: int, scratch: int, worker_scratch: int, parallel: bool, later: Later | None = None) -> None:
        self._word = ctypes.c_int64(address)  # written at once, not in parts
        self.cell = ctypes.addressof(self._word)
        self.scratch, self.worker_scratch, self.parallel, self.later = scratch, worker_scratch, parallel, later

    @property
    def address(self) -> int:
        return self._word.value

    def improve(self, address: int) -> None:
        self._word.value = address
        self.later = None


@dataclass(slots=True)
class _Known:
    """A kernel in memory. ``give`` frees its code, once ``loaded`` is dead."""

    loaded: weakref.ref[Loaded]
    fields: tuple[int, int, int, bool, Later | None]
    give: Callable[[], None]


@dataclass(slots=True)
class Counts:
    """What this process did: LLVM compilations that somebody waited for, objects taken from disk and objects put into memory
    then; kernels that got better code in the background."""

    compiles: int = 0
    cache_hits: int = 0
    loads: int = 0
    improved: int = 0


@dataclass(slots=True)
class Compiler:
    """Turns text into addresses and remembers them.

    imports : addresses of the symbols that kernels import by name.
    load_generator : loads the modules that ``generate`` of :meth:`kernel` needs.
    """

    cache: Cache
    imports: dict[str, int] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    kernels: dict[str, _Known] = field(default_factory=dict)
    modules: dict[str, dict[str, int]] = field(default_factory=dict)
    memory: CodeMemory = field(default_factory=CodeMemory)
    lock: Any = field(default_factory=threading.RLock)
    load_generator: Callable[[], None] = lambda: None
    again: Again = field(init=False)
    _sweep_at: int = KEPT_DEAD
    _jit: Any = None

    def __post_init__(self) -> None:
        self.again = Again(self._features)

    def _features(self) -> str:
        self.load_generator()  # the texts of lesser code that came from disk are made in the thread
        return str(host().features)

    def kernel(
        self, text: str, generate: Callable[[], Any], us: float = math.inf, quick: Callable[[], Any] | None = None,
    ) -> Loaded:
        """The kernel whose printed form is ``text``; ``generate() -> Generated`` is called if it must be built.

        us : that a run spends in it, by an estimate: whether LLVM takes its time now, or when :meth:`improve` asks for it
        quick : makes a shorter text of the same function, for where better code is made later
        """
        name = name_of("kernel\n" + text)
        known = self.kernels.get(name)
        found = None if known is None else known.loaded()
        if found is not None:
            return found
        with self.lock:
            known = self.kernels.get(name)
            if known is not None:
                found = known.loaded()
                if found is None:  # dead, and not swept yet
                    found = Loaded(*known.fields)
                    known.loaded = weakref.ref(found)
                return found
            if len(self.kernels) >= self._sweep_at:
                self.sweep()
            first = quick
            if first is None or not self.again.possible:
                us, first = us if self.again.possible else math.inf, generate
            keep = partial(self._as_kernel, generate, first is generate)
            return self._object(name, lambda: _of_generated(first()), keep, us, kernel=True)

    def improve(self, kernels: Iterable[Loaded], patience: float = PATIENCE) -> None:
        """Have better code made, in the background, for those that have none yet; see :meth:`Again.add`."""
        jobs = [Job(k.later.text, partial(self._improved, k.later)) for k in dict.fromkeys(kernels) if k.later]
        self.again.add(jobs, patience)

    def settle(self, kernels: Iterable[Loaded] | None = None) -> None:
        """Wait until these kernels, or all in memory, have the best code."""
        if kernels is None:
            with self.lock:
                kernels = [k for known in self.kernels.values() if (k := known.loaded()) is not None]
        self.improve(kernels)
        self.again.settle()

    def _improved(self, later: Later, code: bytes) -> None:
        """Better code is there. In the background's thread."""
        meta = {**later.meta, "level": HIGH, "llvm": not elf.supported()}
        with self.lock:
            known = self.kernels.get(later.name)
            if known is None or known.fields[-1] is None:  # swept, or done meanwhile
                return
            addresses, give = self._placed(later.name, meta, code)
            known.give = partial(_both, known.give, give)
            known.fields = (addresses[meta["symbol"]], *known.fields[1:-1], None)
            found = known.loaded()
            if found is not None:
                found.improve(known.fields[0])
            self.counts.improved += 1
        if sources_unchanged():
            self.cache.write(later.name, meta, code)

    def module(self, ir: str) -> dict[str, int]:
        """Addresses of the functions that a piece of LLVM text defines. They stay."""
        return self.named_module(ir, lambda: ir)

    def named_module(self, what: str, text: Callable[[], str]) -> dict[str, int]:
        """The same for ``text()``, which is asked only if there is no object of it yet.

        what : names the text, with all that it depends on besides weft's own code and the machine.
        """
        name = name_of("module\n" + what)
        with self.lock:
            if name not in self.modules:
                self._object(name, lambda: (text(), {}), self._as_module, math.inf)
            return self.modules[name]

    def sweep(self) -> int:
        """Free the code of kernels that nobody holds; returns how many there were."""
        with self.lock:
            dead = [name for name, known in self.kernels.items() if known.loaded() is None]
            with uninterrupted():  # forgotten and given back, or neither
                for name in dead:
                    self.kernels.pop(name).give()
            self._sweep_at = 2 * len(self.kernels) + KEPT_DEAD
            return len(dead)

    def _as_kernel(
        self, generate: Callable[[], Any], whole: bool, name: str, meta: dict[str, Any], ir: str | None,
        addresses: dict[str, int], give: Callable[[], None],
    ) -> Loaded:
        """whole: ``ir`` is what ``generate`` gives"""
        later = None
        if meta["level"] != HIGH:
            known = ir if whole else None
            later = Later(name, meta, (lambda: _packed(generate().ir)) if known is None else partial(_same, _packed(known)))
        fields = (addresses[meta["symbol"]], meta["scratch"], meta["worker_scratch"], meta["parallel"], later)
        found = Loaded(*fields)
        self.kernels[name] = _Known(weakref.ref(found), fields, give)
        return found

    def _as_module(
        self, name: str, meta: dict[str, Any], ir: str | None, addresses: dict[str, int], give: Callable[[], None],
    ) -> None:
        self.modules[name] = addresses

    def _object(
        self, name: str, make: Callable[[], tuple[str, dict[str, Any]]], keep: Callable[..., Any], us: float,
        kernel: bool = False,
    ) -> Any:
        """From disk, or built: loaded, and handed to ``keep``. An entry that cannot be loaded, or not serve, counts as none."""
        entry = self.cache.read(name)
        if entry is not None and _is_complete(entry.meta, kernel) and level_of(us, entry.meta["cost"]) <= entry.meta["level"]:
            try:
                return self._loaded(name, entry.meta, None, entry.code, keep, hit=True)
            except (elf.UnsupportedObject, RuntimeError):
                pass
        ir, meta = make()
        cost = cost_of(ir)
        level = HIGH if "<1 x i1>" in ir else level_of(us, cost)  # LLVM 22 aborts at LOW on some of what masks of one lane do
        code, exports = emit_object(ir, level)
        meta = {**meta, "exports": exports, "llvm": not elf.supported(), "level": level, "cost": cost}
        self.counts.compiles += 1
        try:
            found = self._loaded(name, meta, ir, code, keep)
        except elf.UnsupportedObject as error:  # LLVM's loader knows more
            meta["llvm"] = True
            try:
                found = self._loaded(name, meta, ir, code, keep)
            except RuntimeError as second:
                raise RuntimeError(f"compiled code cannot be loaded: {error}") from second
        if sources_unchanged():
            self.cache.write(name, meta, code)
        return found

    def _loaded(
        self, name: str, meta: dict[str, Any], ir: str | None, code: bytes, keep: Callable[..., Any], hit: bool = False,
    ) -> Any:
        with uninterrupted():  # in memory and known, or neither
            addresses, give = self._placed(name, meta, code)
            self.counts.loads += 1
            self.counts.cache_hits += hit
            return keep(name, meta, ir, addresses, give)

    def _placed(self, name: str, meta: dict[str, Any], code: bytes) -> tuple[dict[str, int], Callable[[], None]]:
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
        llvm = _llvm()
        if self._jit is None:
            self._jit = llvm.create_lljit_compiler(emission.machine(host().features, HIGH))
            _hold(self._jit)
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol, address in self.imports.items():
            builder.import_symbol(symbol, address)
        for symbol in exports:
            builder.export_symbol(symbol)
        tracker = builder.link(self._jit, f"{name}-{self.counts.loads}-{self.counts.improved}")
        _hold(tracker)
        return {symbol: tracker[symbol] for symbol in exports}, partial(_unload, tracker)


def _of_generated(generated: Any) -> tuple[str, dict[str, Any]]:
    return generated.ir, {
        "symbol": generated.symbol, "scratch": generated.scratch, "worker_scratch": generated.worker_scratch,
        "parallel": "parallel" in generated.paths,
    }


def emit_object(ir: str, level: int = HIGH) -> tuple[bytes, list[str]]:
    """Compile LLVM text for this CPU; the object file and the functions it exports."""
    with uninterrupted():  # llvmlite frees what it made in destructors, where Ctrl-C would be lost
        return emission.emitted(ir, host().features, level)


def _is_complete(meta: dict[str, Any], kernel: bool) -> bool:
    """Return whether an entry's metadata has every field that loading a kernel, or else a module, reads."""
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


def _hold(thing: Any) -> None:
    """Not unloaded while the interpreter ends: threads may be inside emitted code."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()


def _same(text: bytes) -> bytes:
    return text


def _packed(ir: str) -> bytes:
    return zlib.compress(ir.encode(), 1)  # a tenth of it; it may have to be kept for long


def _unload(tracker: Any) -> None:
    tracker.close()
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(tracker))


@lru_cache(maxsize=1)
def _llvm() -> Any:
    with uninterrupted():
        return emission.opened()


def llvm_lock() -> Any:
    """The lock under which llvmlite enters LLVM, None where LLVM is not loaded (or keeps it elsewhere)."""
    loaded = sys.modules.get("llvmlite.binding.ffi")
    return getattr(getattr(getattr(loaded, "lib", None), "_lock", None), "_lock", None)


def function(address: int, *types: Any, result: Any = None) -> Any:
    """A ctypes function at an address; releases the interpreter lock."""
    return ctypes.CFUNCTYPE(result, *types)(address)
