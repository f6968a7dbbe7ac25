"""LLVM text to code in memory: generate, compile, keep on disk, load.

LLVM is opened on the first real compilation; a process whose kernels are all in the cache never opens it (on
platforms that ``elf.py`` serves). The key of a kernel is computed from its printed form, so a hit generates no
LLVM text either.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from weft.runtime.cache import Cache
from weft.runtime.cpu import elf

ABI = "weft-cpu-1"  # arguments as an array of 8-byte slots; weft_parallel; weft_counters


class Loaded(NamedTuple):
    """One kernel that can be called: ``void (*address)(void **args)``."""

    address: int
    scratch: int
    worker_scratch: int
    parallel: bool


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
    kernels: dict[str, Loaded] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)
    _jit: Any = None

    def kernel(self, text: str, generate: Callable[[], Any]) -> Loaded:
        """The kernel whose printed form is ``text``; ``generate() -> Generated`` is called if it must be built."""
        found = self.kernels.get(text)
        if found is not None:
            return found
        with self.lock:
            found = self.kernels.get(text)
            if found is None:
                meta, addresses = self._object("kernel\n" + text, lambda: _of_generated(generate()))
                found = Loaded(addresses[meta["symbol"]], meta["scratch"], meta["worker_scratch"], meta["parallel"])
                self.kernels[text] = found
            return found

    def module(self, ir: str) -> dict[str, int]:
        """Addresses of the functions that a piece of LLVM text defines."""
        with self.lock:
            return self._object("module\n" + ir, lambda: (ir, {}))[1]

    def _object(self, text: str, make: Callable[[], tuple[str, dict[str, Any]]]) -> tuple[dict[str, Any], dict[str, int]]:
        name = hashlib.sha256((identity() + text).encode()).hexdigest()
        entry = self.cache.read(name)
        if entry is not None:
            self.counts.cache_hits += 1
            meta, code = entry.meta, entry.code
        else:
            ir, meta = make()
            code, exports = emit_object(ir)
            meta = {**meta, "exports": exports}
            self.counts.compiles += 1
            if sources_unchanged():
                self.cache.write(name, meta, code)
        self.counts.loads += 1
        return meta, self._load(name, code, meta["exports"])

    def _load(self, name: str, code: bytes, exports: list[str]) -> dict[str, int]:
        if elf.supported():
            try:
                return elf.load(code, self._resolve)
            except elf.UnsupportedObject as error:
                try:  # LLVM's loader knows more
                    return self._load_llvm(name, code, exports)
                except RuntimeError as second:
                    raise RuntimeError(f"compiled code cannot be loaded: {error}") from second
        return self._load_llvm(name, code, exports)

    def _resolve(self, name: str) -> int:
        return self.imports.get(name) or elf.process_symbol(name)

    def _load_llvm(self, name: str, code: bytes, exports: list[str]) -> dict[str, int]:
        llvm = _llvm()
        if self._jit is None:
            self._jit = llvm.create_lljit_compiler(_machine())
            _keep(self._jit)
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol, address in self.imports.items():
            builder.import_symbol(symbol, address)
        for symbol in exports:
            builder.export_symbol(symbol)
        tracker = builder.link(self._jit, f"{name}-{self.counts.loads}")
        _keep(tracker)
        return {symbol: tracker[symbol] for symbol in exports}


def _of_generated(generated: Any) -> tuple[str, dict[str, Any]]:
    return generated.ir, {
        "symbol": generated.symbol, "scratch": generated.scratch, "worker_scratch": generated.worker_scratch,
        "parallel": "parallel" in generated.paths,
    }


def emit_object(ir: str) -> tuple[bytes, list[str]]:
    """Compile LLVM text for this CPU: locals into registers (SROA), then code generation, nothing else.

    Returns the object file and the functions it exports.
    """
    llvm = _llvm()
    machine = _machine()
    module = llvm.parse_assembly(ir)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, builder)
    exports = [f.name for f in module.functions if not f.is_declaration and f.linkage == llvm.Linkage.external]
    return machine.emit_object(module), exports


def _keep(thing: Any) -> None:
    """Never unload: worker threads may be inside emitted code when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


@lru_cache(maxsize=1)
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # a module with inline assembly aborts the process without it
    return llvm


def _machine() -> Any:
    """A new target machine each time: it belongs to whoever uses it."""
    from weft.codegen.cpu.isa import host_isa

    return _llvm().Target.from_default_triple().create_target_machine(
        cpu="", features=host_isa().features, opt=3, reloc="pic", codemodel="small"
    )


@lru_cache(maxsize=1)
def identity() -> str:
    """All that code depends on besides its own text: CPU, LLVM, ABI, and the code that wrote it."""
    import llvmlite

    libraries = sorted((Path(llvmlite.__file__).parent / "binding").glob("*llvmlite*"))
    stamp = " ".join(f"{p.name} {p.stat().st_size}" for p in libraries)  # which LLVM it carries
    return "\n".join([ABI, cpu_identity(), f"llvmlite {llvmlite.__version__} {stamp}", source_hash(), ""])


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
        from weft.codegen.cpu.isa import host_isa

        lines.append(repr(host_isa()))
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

    While somebody edits weft, old code in memory must not be kept under the new files' name.
    """
    return not any(_STARTED < path.stat().st_mtime <= time.time() for path in _sources())


def _sources() -> list[Path]:
    files = [_PACKAGE / "schedule" / f"{name}.py" for name in ("kernel", "memory", "printer")]
    for folder in (_PACKAGE / "codegen", _PACKAGE / "runtime" / "cpu"):
        files += sorted(folder.rglob("*.py"))
    return files


_PACKAGE = Path(__file__).resolve().parents[2]
_STARTED = time.time()


def function(address: int, *types: Any, result: Any = None) -> Any:
    """A ctypes function at an address; releases the interpreter lock."""
    return ctypes.CFUNCTYPE(result, *types)(address)
