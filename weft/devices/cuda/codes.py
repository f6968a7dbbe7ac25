"""Compiled code of launches: found in memory, on disk, or made by Triton and kept there."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.devices.cache import Cache
from weft.devices.cuda.adapter import Code, version
from weft.devices.cuda.adapter import compiled as compiled_by_triton
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.driver import Driver
from weft.devices.cuda.packed import Layout, compiled_sizes, layout
from weft.recent import Recent

SHARED = 227 << 10  # bytes that a block may have
Compiler = Callable[[Launch, int, int], Code]


@dataclass(frozen=True)
class Loaded:
    """A launch that can be started: its function on the card, its code, and where its parameters lie."""

    function: Any
    code: Code
    layout: Layout


class Codes:
    """Of one card. compiler : (launch, capability, what addresses are multiples of) -> Code"""

    def __init__(self, driver: Driver, cache: Cache | None = None, compiler: Compiler = compiled_by_triton) -> None:
        self._driver, self._compiler, self._cache = driver, compiler, cache
        self._loaded = Recent(1000)
        self._lock = threading.Lock()
        self.compiles = self.hits = 0

    def loaded(self, launch: Launch, aligned: int) -> Loaded:
        """A launch for buffers whose addresses are multiples of ``aligned``: 16, so that 16 bytes are loaded at once, or 1."""
        key = (launch.text, launch.signature, launch.warps, launch.stages, aligned)
        with self._lock:
            found = self._loaded.get(key)
            if found is None:
                found = self._found(launch, aligned)
                self._loaded.put(key, found)
        return found

    def _found(self, launch: Launch, aligned: int) -> Loaded:
        code, where = self._code(launch, aligned), layout(launch)
        if compiled_sizes(code) != where.sizes:
            raise RuntimeError(f"a launch passes parameters of {where.sizes} bytes, its code takes {compiled_sizes(code)}")
        if code.scratch:
            raise RuntimeError(f"the code of a launch asks for {code.scratch} bytes of scratch memory, which it is not given")
        return Loaded(self._driver.load(code), code, where)

    def _code(self, launch: Launch, aligned: int) -> Code:
        capability = self._driver.capability
        asked = (version(), capability, aligned, launch.warps, launch.stages, launch.signature, launch.text)
        name = hashlib.sha256(repr(("triton", *asked)).encode()).hexdigest()
        entry = None if self._cache is None else self._cache.read(name)
        if entry is not None:
            code = _decoded(entry.meta, entry.code)
            if code is not None:
                self.hits += 1
                return code
        code = self._compiler(launch, capability, aligned)
        self.compiles += 1
        if self._cache is not None:
            start = code.assembly.index(f".entry {code.entry}(")
            head = code.assembly[start : code.assembly.index(")", start) + 1]  # what says where parameters lie
            meta = {"entry": code.entry, "warps": code.warps, "shared": code.shared, "scratch": code.scratch, "head": head}
            self._cache.write(name, meta, code.binary)
        return code


def _decoded(meta: dict[str, Any], binary: bytes) -> Code | None:
    try:
        warps, shared, scratch = (int(meta[key]) for key in ("warps", "shared", "scratch"))
        return Code(binary, str(meta["entry"]), warps, shared, scratch, str(meta["head"]))
    except (KeyError, TypeError, ValueError):
        return None
