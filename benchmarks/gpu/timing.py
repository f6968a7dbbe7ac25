"""Time asynchronous calls: in series, alternating between the sides, with the median of several series."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

_LEAST = 5e-3  # seconds of a series, long compared with reading a clock and waiting


class Watch(Protocol):
    """Measures the time of one library's calls. ``by``: the method"""

    by: str

    def begin(self) -> None: ...

    def end(self) -> float:
        """Wait for all calls to be finished, and return the seconds since :meth:`begin`."""
        ...


class Clock:
    """Watch that reads the host's clock and waits for the device at both ends."""

    by = "clock"

    def __init__(self, wait: Callable[[], Any]) -> None:
        self._wait, self._at = wait, 0.0

    def begin(self) -> None:
        self._wait()
        self._at = time.perf_counter()

    def end(self) -> float:
        self._wait()
        return time.perf_counter() - self._at


class Stamps:
    """Watch that reads the driver's time between two events in its stream. device : one whose driver has ``stamp``"""

    by = "events"

    def __init__(self, device: Any) -> None:
        self._device, self._first = device, None

    def _stamp(self) -> Any:
        with self._device.lock:
            self._device.driver.enter()
            return self._device.driver.stamp()

    def begin(self) -> None:
        self._device.synchronise()
        self._first = self._stamp()

    def end(self) -> float:
        last = self._stamp()
        self._device.synchronise()
        return self._device.driver.take_seconds(self._first, last)


def watch_of(device: Any) -> Watch:
    """Return a watch that uses the driver's events if it has them, else the host's clock."""
    return Stamps(device) if hasattr(getattr(device, "driver", None), "stamp") else Clock(device.synchronise)


@dataclass(frozen=True)
class Side:
    """A call and the watch that measures it."""

    call: Callable[[], Any]
    watch: Watch


@dataclass(frozen=True)
class Effort:
    """Amount of measurement. runs : series per side; seconds : maximum for all series of a side; least : minimum of a series"""

    runs: int = 7
    seconds: float = 0.4
    least: float = _LEAST


QUICK = Effort(2, 0.0, 0.0)


def turns(sides: Mapping[str, Side], effort: Effort) -> dict[str, dict[str, Any]]:
    """Return, for each side, the seconds of one call: ``median``, ``low`` and ``high`` (the quartiles of the series), ``runs``
    (series), ``calls`` (in each), ``by``. Each side must have been called before."""
    counts, runs = dict.fromkeys(sides, 1), dict.fromkeys(sides, effort.runs)
    for name, side in sides.items() if effort.seconds else ():
        one = max(_series(side, 1), 1e-9)
        if one < effort.least:
            one = max(_series(side, 3) / 3, 1e-9)
        counts[name] = max(1, min(1000, int(effort.least / one)))
        runs[name] = max(2, min(effort.runs, int(effort.seconds / (one * counts[name]))))
    series: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(max(runs.values(), default=0)):
        for name, side in sides.items():
            if turn < runs[name]:
                series[name].append(_series(side, counts[name]) / counts[name])
    return {name: {**spread(times), "calls": counts[name], "by": sides[name].watch.by} for name, times in series.items()}


def _series(side: Side, count: int) -> float:
    side.watch.begin()
    for _ in range(count):
        side.call()
    return side.watch.end()


def spread(times: list[float]) -> dict[str, Any]:
    """Return the median and the quartiles."""
    low, _, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
    return {"median": statistics.median(times), "low": low, "high": high, "runs": len(times)}
