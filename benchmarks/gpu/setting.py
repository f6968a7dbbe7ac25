"""What a step is told: the device, how long it may take, sizes, and who stands beside."""

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

TUNING_S = 20.0  # that choosing tiles may take in a row
Rows = Iterator[tuple[str, Callable[[], dict[str, Any]]]]  # names, and what measures; names come without measuring


@dataclass(frozen=True)
class Setting:
    """Attributes
    ----------
    device : its name
    quick : tiny sizes, few runs: it shows that the step runs
    deadline : of ``time.monotonic``, when the step's share is over
    torch : or None, and then ``no_torch`` says why
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
        """Seconds."""
        return self.deadline - time.monotonic()

    @property
    def card(self) -> Any:
        return get_device(self.device)

    @property
    def launches(self) -> int:
        """Kernels that the device has started so far; 0 where it does not count them."""
        return self.card.counters().get("launches", 0)

    def timed(self, sides: Mapping[str, Any], effort: Effort | None = None, host: bool = False) -> dict[str, Any]:
        """Times of calls, in turns: what is called "torch..." is PyTorch's, "cpu..." weft's on the CPU, the rest weft's. What
        PyTorch cannot do is told as "... error". host : the host's clock tells, what it does is part of what is asked"""
        made = {name: Side(call, self._watch_of(name, host)) for name, call in sides.items() if call is not None}
        failed: dict[str, Any] = {}
        for name, side in list(made.items()):
            side.watch.begin()
            try:
                side.call()  # compiles, and loads
            except Exception as error:
                if not name.startswith("torch"):  # what a peer cannot do is a remark, and no failure
                    raise
                failed[f"{name} error"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                del made[name]
            side.watch.end()
        settled = {name: self._settled(name, side.call) for name, side in made.items() if not name.startswith("torch")}
        found = turns(made, QUICK if self.quick else effort or Effort())
        return {name: {**times, **settled.get(name, {})} for name, times in found.items()} | failed

    def _settled(self, name: str, call: Callable[[], Any]) -> dict[str, bool]:
        """Wait until weft has chosen its tiles, as in a program that runs long; ``settled``: whether there was time for that."""
        there = get_device("cpu" if name.startswith("cpu") else self.device)
        if not isinstance(there, ChoosesByMeasuring):
            return {}
        return {"settled": there.settled(call, max(0.0, min(TUNING_S, self.left / 2)))}

    def of_torch(self, peer: float, seconds: float) -> float | None:
        """What weft reaches as a share of PyTorch, from both's seconds; None beside an interpreter, where that says nothing."""
        return None if self.device == "gpu-sim" else peer / seconds

    def _watch_of(self, name: str, host: bool) -> Watch:
        if name.startswith("torch") and self.torch is not None:
            return self.torch.clock if host else self.torch.watch
        there = get_device("cpu" if name.startswith("cpu") else self.device)
        return Clock(there.synchronise) if host else watch_of(there)


def made(device: str, quick: bool, seconds: float) -> Setting:
    """For a step that begins now."""
    torch, why = torch_beside(device)
    return Setting(device, quick, time.monotonic() + seconds, torch, why, [why] if why else [])


def formats(*names: str) -> list[str]:
    """Those of these formats that weft has."""
    return [name for name in names if hasattr(wf, name)]


def normal(shape: tuple[int, ...], seed: int, dtype: str = "float32") -> np.ndarray:
    """The same numbers wherever they are asked for: rounded to a format."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(numpys(dtype))


def numpys(name: str) -> np.dtype:
    """NumPy's dtype by weft's name."""
    return np.dtype(getattr(wf, name))
