"""Compiled code of launches: found in memory, on disk, or made by Triton and kept there."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.devices.cache import Cache
from weft.devices.cuda.adapter import Code, code_of, job, toolchain
from weft.devices.cuda.adapter import compiled as compiled_by_triton
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.compilers import Pool, Word
from weft.devices.cuda.driver import Driver
from weft.devices.cuda.launch_parameters import Layout, compiled_sizes, layout
from weft.process.bounded_cache import Recent

LOADED = 1000  # functions that are kept loaded though no program holds them
Compiler = Callable[[Launch, int, int], Code]


@dataclass(frozen=True, eq=False)
class Loaded:
    """A launch that can be started: its function on the card, its code, and where its parameters lie.

    Whoever starts the function holds this object. gone : takes the function when nobody does
    """

    function: Any
    code: Code
    layout: Layout
    gone: Callable[[Any], None]

    def __del__(self) -> None:
        self.gone(self.function)


class Codes:
    """Of one card. gone : takes functions that nobody holds; it may be called from anywhere. compiler : (launch, capability, what
    addresses are multiples of) -> Code; pool : what compiles several"""

    def __init__(
        self, driver: Driver, gone: Callable[[Any], None], cache: Cache | None = None, compiler: Compiler = compiled_by_triton,
        pool: Pool | None = None,
    ) -> None:
        self._driver, self._gone, self._compiler, self._cache, self._pool = driver, gone, compiler, cache, pool
        self._loaded = Recent(LOADED)
        self._lock = threading.Lock()
        self.compiles = self.hits = 0

    def loaded(self, launch: Launch, aligned: int) -> Loaded:
        """A launch for buffers whose addresses are multiples of ``aligned``: 16, so that 16 bytes are loaded at once, or 1."""
        key = _key(launch, aligned)
        with self._lock:
            found = self._loaded.get(key)
            if found is None:
                found = self._ready(launch, self._code(launch, aligned))
                self._loaded.put(key, found)
        return found

    def prepare(self, asked: Iterable[tuple[Launch, int]]) -> None:
        """See that all of these launches, with what their addresses are multiples of, can be started: what has to be compiled is,
        in several processes."""
        with self._lock:
            missing = {}
            for launch, aligned in asked:
                key = _key(launch, aligned)
                if key in missing or self._loaded.get(key) is not None:
                    continue
                code = self._kept(launch, aligned)
                if code is None:
                    missing[key] = launch, aligned
                else:
                    self._loaded.put(key, self._ready(launch, code))
            if self._pool is None or len(missing) < 2:
                return  # what is missing is compiled when it is asked for
            count, launches = len(missing), list(missing.values())
            word = Word(f"compiling {count} kernels for the GPU")

            def done(k: int, made: Any) -> None:
                launch, aligned = launches[k]
                code = self._keep(launch, aligned, code_of(made))
                self._loaded.put(_key(launch, aligned), self._ready(launch, code))

            self._pool.all([job(launch, self._driver.capability, aligned) for launch, aligned in launches], done, word.look)

    def ahead(self, asked: Sequence[tuple[Launch, int]]) -> Callable[[], bool]:
        """Let others compile these while the program goes on; what is given says whether they are done. What there is no code for
        then is compiled when it is asked for, or refused."""
        with self._lock:
            missing = [asked_for for asked_for in asked if not self.has(*asked_for)]
        jobs = [job(launch, self._driver.capability, n) for launch, n in missing]
        pool = self._pool
        tasks = None if pool is None or not jobs else pool.asked(jobs)
        if pool is None or tasks is None:
            return lambda: True

        def arrived() -> bool:
            nonlocal tasks
            if tasks is not None and not pool.over(tasks):
                return False
            for (launch, n), task in zip(missing, tasks or (), strict=False):
                if task.answer is not None:
                    with self._lock:
                        code = self._keep(launch, n, code_of(task.answer))
                        try:
                            self._loaded.put(_key(launch, n), self._ready(launch, code))
                        except RuntimeError:  # this card does not take it, as who asks for it will hear
                            pass
            tasks = None
            return True

        return arrived

    def has(self, launch: Launch, aligned: int) -> bool:
        """Whether there is code, loaded or on disk."""
        if self._loaded.get(_key(launch, aligned)) is not None:
            return True
        return self._cache is not None and self._cache.read(self._name(launch, aligned)) is not None

    def _ready(self, launch: Launch, code: Code) -> Loaded:
        where = layout(launch)
        if compiled_sizes(code) != where.sizes:
            raise RuntimeError(f"a launch passes parameters of {where.sizes} bytes, its code takes {compiled_sizes(code)}")
        if code.scratch:
            raise RuntimeError(f"the code of a launch asks for {code.scratch} bytes of scratch memory, which it is not given")
        return Loaded(self._driver.load(code), code, where, self._gone)

    def _code(self, launch: Launch, aligned: int) -> Code:
        code = self._kept(launch, aligned)
        return self._keep(launch, aligned, self._compiler(launch, self._driver.capability, aligned)) if code is None else code

    def _name(self, launch: Launch, aligned: int) -> str:
        """Of the code on disk."""
        asked = (*toolchain(), self._driver.capability, aligned, launch.warps, launch.stages, launch.signature, launch.text)
        return hashlib.sha256(repr(("triton", *asked)).encode()).hexdigest()

    def _kept(self, launch: Launch, aligned: int) -> Code | None:
        """What is on disk."""
        entry = None if self._cache is None else self._cache.read(self._name(launch, aligned))
        code = None if entry is None else _decoded(entry.meta, entry.code)
        self.hits += code is not None
        return code

    def _keep(self, launch: Launch, aligned: int, code: Code) -> Code:
        """Code that was compiled, which goes to the disk."""
        self.compiles += 1
        if self._cache is not None:
            start = code.assembly.index(f".entry {code.entry}(")
            head = code.assembly[start : code.assembly.index(")", start) + 1]  # what says where parameters lie
            meta = {"entry": code.entry, "warps": code.warps, "shared": code.shared, "scratch": code.scratch, "head": head}
            self._cache.write(self._name(launch, aligned), meta, code.binary)
        return code


def _key(launch: Launch, aligned: int) -> tuple:
    return (launch.text, launch.signature, launch.warps, launch.stages, aligned)


def _decoded(meta: dict[str, Any], binary: bytes) -> Code | None:
    try:
        warps, shared, scratch = (int(meta[key]) for key in ("warps", "shared", "scratch"))
        return Code(binary, str(meta["entry"]), warps, shared, scratch, str(meta["head"]))
    except (KeyError, TypeError, ValueError):
        return None
