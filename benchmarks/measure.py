"""Timing shared by every benchmark: batches long enough to trust the clock, one list of seconds a call."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds_per_call(
    call: Callable[[], object], batch_seconds: float = 0.1, batches: int = 3, warm: int = 3,
    clock: Callable[[], float] = time.perf_counter, settle: Callable[[], None] = lambda: None,
) -> list[float]:
    """Seconds a call, one figure a batch. The first calls compile and warm caches and are not counted, nor is ``settle``."""
    for _ in range(warm):
        call()
    settle()
    start = clock()
    call()
    once = clock() - start
    repeat = max(1, int(batch_seconds / max(once, 1e-7)))
    out = []
    for _ in range(batches):
        start = clock()
        for _ in range(repeat):
            call()
        out.append((clock() - start) / repeat)
    return out
