"""Compiled code of launches: from memory, from disk, or compiled by Triton and stored there."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.devices.cache import Cache
from weft.devices.cuda.adapter import Code, job, toolchain
from weft.devices.cuda.adapter import compile_launch as compiled_by_triton
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.compilers import Pool, SlowCompileNotice
from weft.devices.cuda.launch_parameters import Layout, declared_sizes, layout
from weft.devices.cuda.nvidia import NvidiaDriver
from weft.process.bounded_cache import BoundedCache

MAX_LOADED = 1000  # functions that stay loaded after the last program that uses them
Compiler = Callable[[Launch, int, int], Code]


@dataclass(frozen=True, eq=False)
class LoadedCode:
    """A launch that can be started: its function on the card, its code, and the layout of its parameters.

    Callers keep this object while the function may run. gone: receives the function when the object is deleted.
    """

    function: Any
    code: Code
    layout: Layout
    unload: Callable[[Any], None]

    def __del__(self) -> None:
        self.unload(self.function)


class CodeStore:
    """The code of one card.

    gone: receives functions that are no longer used; it may be called from anywhere.
    compiler: (launch, capability, alignment of addresses) -> Code. pool: compiles several launches in parallel.
    """

    def __init__(
        self, driver: NvidiaDriver, gone: Callable[[Any], None], cache: Cache | None = None,
        compiler: Compiler = compiled_by_triton, pool: Pool | None = None,
    ) -> None:
        self._driver, self._unload, self._compiler, self._cache, self._pool = driver, gone, compiler, cache, pool
        self._loaded_code = BoundedCache(MAX_LOADED)
        self._lock = threading.Lock()
        self.compiles = self.hits = 0

    def load(self, launch: Launch, aligned: int) -> LoadedCode:
        """Return a launch for buffers whose addresses are multiples of ``aligned``: 16, which allows 16-byte loads, or 1."""
        key = _key(launch, aligned)
        with self._lock:
            code = self._loaded_code.get(key)
            if code is None:
                found = self._read_disk(launch, aligned)
                if found is None:
                    found = self._store(launch, aligned, self._compiler(launch, self._driver.capability, aligned))
                code = self._load(launch, found)
                self._loaded_code.put(key, code)
        return code

    def prepare(self, launches: Iterable[tuple[Launch, int]]) -> None:
        """Load all of these (launch, alignment) pairs, compiling those without code in parallel."""
        with self._lock:
            missing = {}
            for launch, aligned in launches:
                key = _key(launch, aligned)
                if key in missing or self._loaded_code.get(key) is not None:
                    continue
                code = self._read_disk(launch, aligned)
                if code is None:
                    missing[key] = launch, aligned
                else:
                    self._loaded_code.put(key, self._load(launch, code))
            if self._pool is None or len(missing) < 2:
                return  # compiled when it is first loaded
            count, uncompiled = len(missing), list(missing.values())
            notice = SlowCompileNotice(f"compiling {count} kernels for the GPU")

            def store(k: int, answer: Any) -> None:
                launch, aligned = uncompiled[k]
                code = self._store(launch, aligned, Code(*answer))
                self._loaded_code.put(_key(launch, aligned), self._load(launch, code))

            self._pool.all(
                [job(launch, self._driver.capability, aligned) for launch, aligned in uncompiled], store, notice.show_if_due
            )

    def start_compiling(self, launches: Sequence[tuple[Launch, int]]) -> Callable[[], bool]:
        """Start compiling these (launch, alignment) pairs in other processes.

        Return a function that says whether they are done. A launch without code by then is compiled when it is loaded, which may
        fail.
        """
        with self._lock:
            missing = [pair for pair in launches if not self.has(*pair)]
        jobs = [job(launch, self._driver.capability, n) for launch, n in missing]
        pool = self._pool
        tasks = None if pool is None or not jobs else pool.submit(jobs)
        if pool is None or tasks is None:
            return lambda: True

        def finished() -> bool:
            nonlocal tasks
            if tasks is not None and not pool.is_abandoned(tasks):
                return False
            for (launch, n), task in zip(missing, tasks or (), strict=False):
                if task.answer is not None:
                    with self._lock:
                        code = self._store(launch, n, Code(*task.answer))
                        try:
                            self._loaded_code.put(_key(launch, n), self._load(launch, code))
                        except RuntimeError:  # this card rejects it; loaded() will raise the error
                            pass
            tasks = None
            return True

        return finished

    def has(self, launch: Launch, aligned: int) -> bool:
        """Return whether there is code, loaded or on disk."""
        if self._loaded_code.get(_key(launch, aligned)) is not None:
            return True
        return self._cache is not None and self._cache.read(self._name(launch, aligned)) is not None

    def _load(self, launch: Launch, code: Code) -> LoadedCode:
        """Load code on the card after checking its parameters against the launch."""
        where = layout(launch)
        if declared_sizes(code) != where.sizes:
            raise RuntimeError(f"a launch passes parameters of {where.sizes} bytes, its code takes {declared_sizes(code)}")
        if code.scratch:
            raise RuntimeError(f"compiled code requires {code.scratch} bytes of scratch memory, and weft's launches provide none")
        return LoadedCode(self._driver.load(code), code, where, self._unload)

    def _name(self, launch: Launch, aligned: int) -> str:
        """Return the name of the code on disk."""
        key = (*toolchain(), self._driver.capability, aligned, launch.warps, launch.stages, launch.signature, launch.text)
        return hashlib.sha256(repr(("triton", *key)).encode()).hexdigest()

    def _read_disk(self, launch: Launch, aligned: int) -> Code | None:
        entry = None if self._cache is None else self._cache.read(self._name(launch, aligned))
        code = None if entry is None else _decode(entry.meta, entry.code)
        self.hits += code is not None
        return code

    def _store(self, launch: Launch, aligned: int, code: Code) -> Code:
        """Count newly compiled code and write it to disk."""
        self.compiles += 1
        if self._cache is not None:
            start = code.assembly.index(f".entry {code.entry}(")
            head = code.assembly[start : code.assembly.index(")", start) + 1]  # declares the parameters
            meta = {"entry": code.entry, "warps": code.warps, "shared": code.shared, "scratch": code.scratch, "head": head}
            self._cache.write(self._name(launch, aligned), meta, code.binary)
        return code


def _key(launch: Launch, aligned: int) -> tuple:
    return (launch.text, launch.signature, launch.warps, launch.stages, aligned)


def _decode(meta: dict[str, Any], binary: bytes) -> Code | None:
    try:
        warps, shared, scratch = (int(meta[key]) for key in ("warps", "shared", "scratch"))
        return Code(binary, str(meta["entry"]), warps, shared, scratch, str(meta["head"]))
    except (KeyError, TypeError, ValueError):
        return None
