"""What a launch costs the host beside the driver's own call: programs of many kernels over a driver that does nothing.

It needs Triton and no card:

    .venv-gpu/bin/python benchmarks/gpu_launch.py

A launch is prepared when the program is compiled; a run writes the addresses, where these have changed, and calls the driver.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import weft as wf
from tests.cuda.stub import Compiler, StubDriver
from weft.devices.cuda.device import CardDevice
from weft.runtime import execute
from weft.schedule.build import build

STEPS, ROUNDS = 20, 300


class IdleDriver(StubDriver):
    """Takes every launch and does nothing."""

    def launch(self, function: Any, grid: tuple[int, int], code: Any, parameters: int) -> None:
        pass


def centred(x: Any, w: Any) -> Any:
    """Two kernels a step: each needs the mean of all that the one before it gave."""
    for _ in range(STEPS):
        x = x * w - x.mean()
    return x


def measured() -> dict[str, Any]:
    compiler = Compiler()
    device = CardDevice(IdleDriver(compiler), "gpu", None, compiler, 4096)
    x, w = (np.ones((1024, 512), np.float32) for _ in range(2))
    graph = wf.jit(centred).trace(wf.array(x), wf.array(w)).graph
    run = device.compile(build(execute.copy_structure(graph), device.target))
    inputs = [device.upload(a) for a in (x, w)]
    run(inputs)
    places = [[(k + 1) * 4096 + again * (1 << 20) for k in range(8)] for again in range(2)]
    idle, steps = device.driver.launch, run._steps
    found: dict[str, list[float]] = {"the loop and the call alone": [], "same addresses": [], "new addresses": []}
    for k in range(ROUNDS):
        for what, bases in (("same addresses", places[0]), ("new addresses", places[k % 2])):
            if what == "same addresses":
                run._start(steps, bases, inputs)
            began = perf_counter_ns()
            run._start(steps, bases, inputs)
            found[what].append((perf_counter_ns() - began) / len(steps) / 1000)
        began = perf_counter_ns()
        for _ in steps:
            idle(None, (1, 1), None, 0)
        found["the loop and the call alone"].append((perf_counter_ns() - began) / len(steps) / 1000)
    return {"launches": len(steps), **{what: round(float(np.median(times)), 3) for what, times in found.items()}}


if __name__ == "__main__":
    about = {"python": platform.python_version(), "numpy": np.__version__, "weft": wf.__version__, "rounds": ROUNDS}
    print(json.dumps({"median us a launch, one thread": measured(), **about}, indent=1))
