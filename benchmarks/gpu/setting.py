"""The setting of a step: device, deadline, sizes, and PyTorch for comparison."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft as wf
from benchmarks.gpu.peers import Torch, torch_beside
from benchmarks.gpu.timing import QUICK, Clock, Effort, Side, Watch, turns, watch_of
from weft.devices import get_device
from weft.devices.base import ChoosesByMeasuring

TUNING_S = 20.0  # maximum time for the choice of tiles in a row
Rows = Iterator[tuple[str, Callable[[], dict[str, Any]]]]  # names, each with a function that measures the row


@dataclass(frozen=True)
class Setting:
    """Setting of a step.

    Attributes
    ----------
    device : name of the device
    quick : whether to use tiny sizes and few runs, only to show that the step runs
    deadline : end of the step's share of the time, by ``time.monotonic``
    torch : PyTorch, or None; ``no_torch`` is then the reason
    notes : sentences for the step's file
    """

    device: str
    quick: bool = False
    deadline: float = float("inf")
    torch: Torch | None = None
    no_torch: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    @property
    def card(self) -> Any:
        return get_device(self.device)

    @property
    def launches(self) -> int:
        """Number of kernels that the device has launched so far, 0 if it does not count them."""
        return self.card.counters().get("launches", 0)

    def timed(self, sides: Mapping[str, Any], effort: Effort | None = None, host: bool = False) -> dict[str, Any]:
        """Time calls in turns and return their times by name. Names "torch..." are PyTorch's, "cpu..." weft's on the CPU, others
        weft's on the device. An error of PyTorch is returned as "... error". host : use the host's clock, to include its time"""
        timers = {name: Side(call, self._watch_of(name, host)) for name, call in sides.items() if call is not None}
        failed: dict[str, Any] = {}
        for name, side in list(timers.items()):
            side.watch.begin()
            try:
                side.call()  # compiles, and loads
            except Exception as error:
                if not name.startswith("torch"):  # an error of PyTorch is a remark, not a failure
                    raise
                failed[f"{name} error"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                del timers[name]
            side.watch.end()
        settled = {name: self._wait_for_tuning(name, side.call) for name, side in timers.items() if not name.startswith("torch")}
        times_by_name = turns(timers, QUICK if self.quick else effort or Effort())
        return {name: {**times, **settled.get(name, {})} for name, times in times_by_name.items()} | failed

    def _wait_for_tuning(self, name: str, call: Callable[[], Any]) -> dict[str, bool]:
        """Wait until weft has chosen its tiles, as in a long run. Return ``settled``: whether there was enough time."""
        device = get_device("cpu" if name.startswith("cpu") else self.device)
        if not isinstance(device, ChoosesByMeasuring):
            return {}
        return {"settled": device.choose_variants(call, max(0.0, min(TUNING_S, self.left / 2)))}

    def of_torch(self, peer: float, seconds: float) -> float | None:
        """Return weft's speed as a share of PyTorch's, from the seconds of both; None for an interpreter."""
        return None if self.device == "gpu-sim" else peer / seconds

    def _watch_of(self, name: str, host: bool) -> Watch:
        if name.startswith("torch") and self.torch is not None:
            return self.torch.clock if host else self.torch.watch
        device = get_device("cpu" if name.startswith("cpu") else self.device)
        return Clock(device.synchronise) if host else watch_of(device)


def made(device: str, quick: bool, seconds: float) -> Setting:
    """Return the setting of a step that starts now."""
    torch, why = torch_beside(device)
    return Setting(device, quick, time.monotonic() + seconds, torch, why, [why] if why else [])


def formats(*names: str) -> list[str]:
    """Return those of these formats that weft has."""
    return [name for name in names if hasattr(wf, name)]


def normal(shape: tuple[int, ...], seed: int, dtype: str = "float32") -> np.ndarray:
    """Return normal random numbers in a format. They depend on shape and seed alone."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(numpy_dtype(dtype))


def numpy_dtype(name: str) -> np.dtype:
    """Return NumPy's dtype for weft's name."""
    return np.dtype(getattr(wf, name))
