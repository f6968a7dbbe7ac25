"""The thread pool's Python side: its memory, the number of threads, fork, and a record for tests.

The threads run emitted code (``pool_ir.py``), are created when the first parallel kernel runs, have no Python state and end with
the process.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from weft.devices.cpu.native.host_cpu import has_threads
from weft.devices.cpu.native.layouts import COUNTERS, MAX_WORKERS, POOL, POOL_SIZE, offset


def permanent(nbytes: int) -> int:
    """Allocate zeroed, 64-byte aligned memory that is never freed: threads may read it during interpreter shutdown."""
    address = _calloc()(1, nbytes + 64)
    if not address:
        raise MemoryError(f"no memory for {nbytes} bytes of the runtime's own")
    return -(-address // 64) * 64


@cache
def _calloc() -> Any:
    calloc = ctypes.CDLL(None).calloc
    calloc.restype, calloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_size_t)
    return calloc


def default_threads() -> int:
    """Return ``$WEFT_THREADS``, else the number of CPUs available to this process."""
    setting = os.environ.get("WEFT_THREADS", "").strip()
    if setting:
        if not setting.isdigit() or int(setting) < 1:
            raise ValueError(f"WEFT_THREADS must be a positive integer, got {setting!r}")
        return min(int(setting), MAX_WORKERS)
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MAX_WORKERS)
    return min(os.cpu_count() or 1, MAX_WORKERS)


class Pool:
    """The thread pool. ``threads`` includes the calling thread; ``state`` and ``counters`` are addresses that kernels import."""

    def __init__(self, threads: int | None = None) -> None:
        self.state = permanent(POOL_SIZE)
        self.counters = permanent(8 * 64)
        self.threads = 1
        self.set_threads(default_threads() if threads is None else threads)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.reset)

    def imports(self) -> dict[str, int]:
        return {"weft_state": self.state, "weft_counters": self.counters}

    def field(self, name: str) -> ctypes.c_int32:
        """Return a 32-bit field of the state."""
        return ctypes.c_int32.from_address(self.state + offset(POOL, name))

    def set_threads(self, count: int) -> None:
        """Set the number of threads. Running programs keep the old number."""
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
            raise TypeError(f"the number of threads must be an int, got {type(count).__name__}")
        if not 1 <= count <= MAX_WORKERS:
            raise ValueError(f"the number of threads must be from 1 to {MAX_WORKERS}, got {count}")
        self.threads = int(count) if has_threads() else 1
        self.field("threads").value = self.threads

    def counter(self, name: str) -> int:
        return ctypes.c_int64.from_address(self.counters + offset(COUNTERS, name)).value

    def reset(self) -> None:
        """Reset the state in a forked child, which has no workers; they are created again when needed."""
        for name in ("sleepers", "busy", "started", "waiting"):
            self.field(name).value = 0
        for name in ("lock", "guests", "remaining", "trace_size"):
            ctypes.c_int64.from_address(self.state + offset(POOL, name)).value = 0

    @contextmanager
    def record(self, chunks: int) -> Iterator[np.ndarray]:
        """Yield an int32 array that receives, for each chunk of the last parallel job, the worker that ran it. For tests."""
        workers = np.full(chunks, -1, np.int32)
        trace = ctypes.c_int64.from_address(self.state + offset(POOL, "trace"))
        size = ctypes.c_int64.from_address(self.state + offset(POOL, "trace_size"))
        trace.value, size.value = workers.ctypes.data, chunks
        try:
            yield workers
        finally:
            size.value = 0


def pool_text() -> str:
    from weft.devices.cpu.native import pool_ir

    return pool_ir.text()
