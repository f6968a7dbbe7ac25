"""Executables that measure the time of each step: the same kernels and native code, with stamps between the steps.

A stamp is an extra step, a native function that writes the clock to a buffer. Two stamps after the last step measure the cost
of a stamp itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.devices.cpu.native.call import TableRow
from weft.devices.cpu.native.executable import CPUExecutable
from weft.devices.cpu.native.routine import Body, Value, routine, text_of_all

# the clock that time.perf_counter_ns reads
_CLOCK = getattr(time, "CLOCK_UPTIME_RAW", getattr(time, "CLOCK_MONOTONIC", None))


class TimedExecutable(CPUExecutable):
    """An executable whose :meth:`times` returns the times of the last run. Not thread-safe."""

    _spans: list[_Native | _Host]

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[Any]:
        for span in self._spans:
            span.clear()
        return super().__call__(inputs, held)

    def times(self) -> list[tuple[int, int]]:
        """Return (begin, nanoseconds) of each step in the last run; ``begin`` is on the clock of ``time.perf_counter_ns``."""
        return [t for span in self._spans for t in span.times()]

    def parallel(self, kernel: int) -> bool:
        """Return whether a kernel, numbered in the order of the Program's calls, divides its work among threads."""
        return self._kernels[kernel].parallel

    def _prepare(self) -> None:
        self._runs_by_threads.clear()  # ``_spans`` belong to the tables written last
        super()._prepare()

    def _segments(self, threads: int) -> list[Any]:
        parts = super()._segments(threads)
        self._spans = [_Native(part) if isinstance(part, list) else _Host(part) for part in parts]
        return [part if isinstance(part, list) else span for part, span in zip(parts, self._spans, strict=True)]

    def _entry(self, name: str, steps: list[TableRow], threads: int, room: int) -> Callable[..., Any]:
        layout = self._layout
        slot = len(layout.kinds) + len(layout.outputs) + len(layout.arena) + 1 + len(layout.constants)
        stamp = TableRow(self._native["weft_stamp"], (slot,))
        for span in self._spans:
            if isinstance(span, _Native) and span.steps is steps:
                steps = [*(s for step in steps for s in (stamp, step)), stamp, stamp]
                self._layout = layout._replace(constants=(*layout.constants, int(span.buffer.ctypes.data)))
                break
        try:
            return super()._entry(name, steps, threads, room)
        finally:
            self._layout = layout


class _Native:
    """The stamps of a native segment. ``buffer``: their number, then the clock values."""

    def __init__(self, steps: list[TableRow]) -> None:
        self.steps = steps
        self.buffer = np.zeros(len(steps) + 3, np.int64)

    def clear(self) -> None:
        self.buffer[0] = 0

    def times(self) -> list[tuple[int, int]]:
        if self.buffer[0] != len(self.steps) + 2:  # the run ended early
            return [(int(self.buffer[1]), 0)] * len(self.steps)
        stamps = self.buffer[1:].tolist()
        cost = stamps[-1] - stamps[-2]
        return [(a, max(0, b - a - cost)) for a, b in zip(stamps[:-2], stamps[1:-1], strict=True)]


class _Host:
    """A step in Python that measures its time."""

    def __init__(self, step: Callable[..., None]) -> None:
        self.step = step
        self.begin = self.length = 0

    def clear(self) -> None:
        self.length = 0

    def __call__(self, inputs: list[Any], outputs: list[Any], arena: int) -> None:
        self.begin = time.perf_counter_ns()
        self.step(inputs, outputs, arena)
        self.length = time.perf_counter_ns() - self.begin

    def times(self) -> list[tuple[int, int]]:
        return [(self.begin, self.length)]


@routine("void weft_stamp(ptr args)", exported=True)
def stamp(f: Body, args: Value) -> None:
    """Append the clock to the buffer whose address is in ``args``."""
    now, buffer = f.array(f.allocate_fixed("{ i64, i64 }")), f.array(f.array(args, "ptr")[0])
    f.call("clock_gettime", int(_CLOCK or 0), now.pointer)
    count = buffer[0] + 1
    buffer[count] = now[0] * 1_000_000_000 + now[1]
    buffer[0] = count


def text() -> str:
    """Return the LLVM text of the stamp."""
    if _CLOCK is None:
        raise OSError("profile: this system has no clock_gettime, so kernels cannot be timed here")
    return text_of_all([stamp])
