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
import hashlib
import os
import platform
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from weft.devices.cache import Cache
from weft.devices.cpu.native import elf
from weft.devices.cpu.native.code_memory import CodeMemory
from weft.signals import uninterrupted

ABI = "weft-cpu-1"  # arguments as an array of 8-byte slots; weft_parallel; weft_counters
KEPT_DEAD = 256  # kernels that nobody holds wait for a sweep: this many, and as many as are alive


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Loaded:
    """One kernel that can be called: ``void (*address)(void **args)``. Its code lives as long as this object is held."""

    address: int
    scratch: int
    worker_scratch: int
    parallel: bool


@dataclass(slots=True)
class _Known:
    """A kernel in memory. ``give`` frees its code, once ``loaded`` is dead."""

    loaded: weakref.ref[Loaded]
    fields: tuple[int, int, int, bool]
    give: Callable[[], None]


@dataclass(slots=True)
class Counts:
    """What this process did: LLVM compilations, objects taken from disk, objects put into memory."""

    compiles: int = 0
    cache_hits: int = 0
    loads: int = 0


@dataclass(slots=True)
class Compiler:
    """Turns text into addresses and remembers them.

    imports : addresses of the symbols that kernels import by name.
    """

    cache: Cache
    imports: dict[str, int] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    kernels: dict[str, _Known] = field(default_factory=dict)
    modules: dict[str, dict[str, int]] = field(default_factory=dict)
    memory: CodeMemory = field(default_factory=CodeMemory)
    lock: Any = field(default_factory=threading.RLock)
    _sweep_at: int = KEPT_DEAD
    _jit: Any = None

    def kernel(self, text: str, generate: Callable[[], Any]) -> Loaded:
        """The kernel whose printed form is ``text``; ``generate() -> Generated`` is called if it must be built."""
        name = _name("kernel\n" + text)
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
            return self._object(name, lambda: _of_generated(generate()), self._as_kernel)

    def module(self, ir: str) -> dict[str, int]:
        """Addresses of the functions that a piece of LLVM text defines. They stay."""
        return self.named_module(ir, lambda: ir)

    def named_module(self, what: str, text: Callable[[], str]) -> dict[str, int]:
        """The same for ``text()``, which is asked only if there is no object of it yet.

        what : names the text, with all that it depends on besides weft's own code and the machine.
        """
        name = _name("module\n" + what)
        with self.lock:
            if name not in self.modules:
                self._object(name, lambda: (text(), {}), self._as_module)
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

    def _as_kernel(self, name: str, meta: dict[str, Any], addresses: dict[str, int], give: Callable[[], None]) -> Loaded:
        fields = (addresses[meta["symbol"]], meta["scratch"], meta["worker_scratch"], meta["parallel"])
        found = Loaded(*fields)
        self.kernels[name] = _Known(weakref.ref(found), fields, give)
        return found

    def _as_module(self, name: str, meta: dict[str, Any], addresses: dict[str, int], give: Callable[[], None]) -> None:
        self.modules[name] = addresses

    def _object(self, name: str, make: Callable[[], tuple[str, dict[str, Any]]], keep: Callable[..., Any]) -> Any:
        """From disk, or built: loaded, and handed to ``keep``. An entry that cannot be loaded counts as none."""
        entry = self.cache.read(name)
        if entry is not None and _is_complete(entry.meta):
            try:
                return self._loaded(name, entry.meta, entry.code, keep, hit=True)
            except (elf.UnsupportedObject, RuntimeError):
                pass
        ir, meta = make()
        code, exports = emit_object(ir)
        meta = {**meta, "exports": exports, "llvm": not elf.supported()}
        self.counts.compiles += 1
        try:
            found = self._loaded(name, meta, code, keep)
        except elf.UnsupportedObject as error:  # LLVM's loader knows more
            meta["llvm"] = True
            try:
                found = self._loaded(name, meta, code, keep)
            except RuntimeError as second:
                raise RuntimeError(f"compiled code cannot be loaded: {error}") from second
        if sources_unchanged():
            self.cache.write(name, meta, code)
        return found

    def _loaded(self, name: str, meta: dict[str, Any], code: bytes, keep: Callable[..., Any], hit: bool = False) -> Any:
        with uninterrupted():  # in memory and known, or neither
            if meta["llvm"]:
                addresses, give = self._load_llvm(name, code, meta["exports"])
            else:
                addresses, place = elf.load(code, self._resolve, self.memory)
                give = partial(self.memory.give, place)
            self.counts.loads += 1
            self.counts.cache_hits += hit
            return keep(name, meta, addresses, give)

    def _resolve(self, name: str) -> int:
        return self.imports.get(name) or elf.process_symbol(name)

    def _load_llvm(self, name: str, code: bytes, exports: list[str]) -> tuple[dict[str, int], Callable[[], None]]:
        llvm = _llvm()
        if self._jit is None:
            self._jit = llvm.create_lljit_compiler(_machine())
            _hold(self._jit)
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol, address in self.imports.items():
            builder.import_symbol(symbol, address)
        for symbol in exports:
            builder.export_symbol(symbol)
        tracker = builder.link(self._jit, f"{name}-{self.counts.loads}")
        _hold(tracker)
        return {symbol: tracker[symbol] for symbol in exports}, partial(_unload, tracker)


def _of_generated(generated: Any) -> tuple[str, dict[str, Any]]:
    return generated.ir, {
        "symbol": generated.symbol, "scratch": generated.scratch, "worker_scratch": generated.worker_scratch,
        "parallel": "parallel" in generated.paths,
    }


def emit_object(ir: str) -> tuple[bytes, list[str]]:
    """Compile LLVM text for this CPU: locals into registers (SROA), then code generation, nothing else.

    Returns the object file and the functions it exports.
    """
    with uninterrupted():  # llvmlite frees what it made in destructors, where Ctrl-C would be lost
        return _emitted(ir)


def _emitted(ir: str) -> tuple[bytes, list[str]]:
    llvm = _llvm()
    passes, options = _passes()
    with (
        llvm.create_context() as context,  # one for all would keep types and numbers of every kernel for ever
        _machine() as machine,
        llvm.parse_assembly(ir, context) as module,
        llvm.create_pass_builder(machine, options) as builder,  # for one run; 2 KB of each are never freed by llvmlite
    ):
        passes.run(module, builder)
        exports = [f.name for f in module.functions if not f.is_declaration and f.linkage == llvm.Linkage.external]
        return machine.emit_object(module), exports


@lru_cache(maxsize=1)
def _passes() -> tuple[Any, Any]:
    """What every compilation runs; made once, for llvmlite does not free it."""
    llvm = _llvm()
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    return passes, llvm.create_pipeline_tuning_options(speed_level=0)


def _is_complete(meta: dict[str, Any]) -> bool:
    """Whether an entry says what loading it needs."""
    exports = meta.get("exports")
    if not isinstance(exports, list) or not all(isinstance(name, str) for name in exports) or type(meta.get("llvm")) is not bool:
        return False
    if "symbol" not in meta:
        return True
    sizes = (meta.get("scratch"), meta.get("worker_scratch"))
    return meta["symbol"] in exports and type(meta.get("parallel")) is bool and all(
        type(size) is int and 0 <= size < 1 << 48 for size in sizes
    )


def _hold(thing: Any) -> None:
    """Not unloaded while the interpreter ends: threads may be inside emitted code."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _unload(tracker: Any) -> None:
    tracker.close()
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(tracker))


@lru_cache(maxsize=1)
def _llvm() -> Any:
    with uninterrupted():
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()  # a module with inline assembly aborts the process without it
        return llvm


@lru_cache(maxsize=1)
def host() -> Any:
    """What the code generator must know of this CPU; the first time LLVM is asked, which is not to be interrupted."""
    with uninterrupted():
        from weft.devices.cpu.emit.isa import host_isa

        return host_isa()


def llvm_lock() -> Any:
    """The lock under which llvmlite enters LLVM, None where LLVM is not loaded (or keeps it elsewhere)."""
    loaded = sys.modules.get("llvmlite.binding.ffi")
    return getattr(getattr(getattr(loaded, "lib", None), "_lock", None), "_lock", None)


def _machine() -> Any:
    """A new target machine each time: it belongs to whoever uses it."""
    return _llvm().Target.from_default_triple().create_target_machine(
        cpu="", features=host().features, opt=3, reloc="pic", codemodel="small"
    )


@lru_cache(maxsize=1)
def identity() -> str:
    """All that code depends on besides its own text: CPU, LLVM, ABI, and the code that wrote it."""
    import llvmlite

    libraries = sorted((Path(llvmlite.__file__).parent / "binding").glob("*llvmlite*"))
    stamp = " ".join(f"{p.name} {p.stat().st_size}" for p in libraries)  # which LLVM it carries
    return "\n".join([ABI, cpu_identity(), f"llvmlite {llvmlite.__version__} {stamp}", source_hash(), ""])


@lru_cache(maxsize=1)
def _identified() -> Any:
    return hashlib.sha256(identity().encode())


def _name(text: str) -> str:
    """Under which name an object is kept, in memory and on disk."""
    digest = _identified().copy()
    digest.update(text.encode())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def cpu_identity() -> str:
    """The CPU's exact features and cache sizes, without asking LLVM."""
    lines = [platform.system(), platform.machine()]
    try:
        wanted = ("model name", "flags", "Features", "CPU part", "CPU implementer")
        text = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
        lines += [line for line in text.splitlines() if line.split(":")[0].strip() in wanted]
        for size in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")):
            lines.append(size.read_text().strip())
    except OSError:
        lines.append(platform.processor())
    if len(lines) <= 3:  # not Linux: ask LLVM
        lines.append(repr(host()))
    return "\n".join(lines)


def cpu_model() -> str:
    """The name the CPU gives itself; never used to choose code."""
    for line in cpu_identity().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@lru_cache(maxsize=1)
def source_hash() -> str:
    """A digest of weft's own code that decides what a kernel's object code looks like."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(os.fsencode(path.relative_to(_PACKAGE)) + b"\0" + path.read_bytes())
    return digest.hexdigest()


def sources_unchanged() -> bool:
    """Whether the files that :func:`source_hash` reads are still those this process imported.

    While somebody edits weft, old code in memory must not be kept under the new files' name. Looked at once a second: all
    files take a millisecond, and a first call may write fifty kernels.
    """
    return _unchanged_since(_STARTED, int(time.monotonic()))


@lru_cache(maxsize=1)
def _unchanged_since(start: float, second: int) -> bool:
    return not any(start < path.stat().st_mtime <= time.time() for path in _sources())


@lru_cache(maxsize=1)
def _sources() -> list[Path]:
    files = [_PACKAGE / "formats.py", _PACKAGE / "graph" / "primitives" / "philox.py"]
    for folder in (_PACKAGE / "kernel", _PACKAGE / "devices" / "cpu"):
        files += sorted(folder.rglob("*.py"))
    return files


_PACKAGE = Path(__file__).resolve().parents[3]
_STARTED = time.time()


def function(address: int, *types: Any, result: Any = None) -> Any:
    """A ctypes function at an address; releases the interpreter lock."""
    return ctypes.CFUNCTYPE(result, *types)(address)
