"""How near the estimates of ``auto`` are to what programs take on this CPU, one thread: estimate, time, and their ratio.

    .venv/bin/python benchmarks/placement.py [--record FILE] [NAME ...]

Times are the least of several series, in seconds of the processor, of programs that are called without Python in between.
--record writes them with the figures of the machine; tests/placement/measured.json is such a file, and its estimates are tested.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from time import process_time
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

import weft as wf
from benchmarks.turns import check_output
from tests.placement.programs import Work, program_of, traced, works
from weft.devices import get_device, settle
from weft.devices.cpu.native.describe import measure_speed
from weft.placement.device_figures import Machine, machine
from weft.placement.estimate import estimate
from weft.runtime import execute

SERIES, ROUNDS = 2e-3, 12  # seconds of a series; how many of each program


def prepared(work: Work) -> Callable[[], Any]:
    """A call of a program on memory that holds what it is given, or zeros."""
    graph, device = traced(work), get_device()
    run = execute.executable(graph)
    given = [device.upload(a) for a in work.given]
    for node in graph.inputs[len(given) :]:
        given.append(1.0 if node.op.name == "scalar" else device.upload(np.zeros(node.shape, node.dtype.numpy)))
    return lambda: run(list(given))


def seconds(run: Callable[[], Any], count: int) -> float:
    begin = process_time()
    for _ in range(count):
        run()
    return (process_time() - begin) / count


def better(found: Machine) -> Machine:
    """The best of two measurements: a busy machine shows less than it can."""
    m = measure_speed(get_device(), get_device().threads, process_time)
    rates = tuple([(s, max(a, b)) for (s, a), (_, b) in zip(found.bandwidth, m["bandwidth"], strict=True)])
    return replace(found, flops=max(found.flops, m["flops"]), bandwidth=rates)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--record", type=check_output)
    given = parser.parse_args()
    wf.set_num_threads(1)
    chosen = {name: work for name, work in works().items() if not given.names or any(part in name for part in given.names)}
    runs = {name: prepared(work) for name, work in chosen.items()}
    for run in runs.values():
        run()
    settle()
    gc.disable()
    took = {name: seconds(run, 2) for name, run in runs.items()}
    there, far = machine(), 0
    for _ in range(ROUNDS):
        there = better(better(there))
        for name, run in runs.items():
            took[name] = min(took[name], seconds(run, max(1, int(SERIES / took[name]))))
    for name, work in chosen.items():
        told = estimate("cpu", program_of(work), there).total
        ratio = told / took[name]
        far += not 0.5 <= ratio <= 2
        print(f"{name:28}{1e6 * told:12.1f} us estimated{1e6 * took[name]:12.1f} us taken{ratio:8.2f}")
    print(f"{far} of {len(chosen)} are off by more than a factor of 2")
    if given.record:
        rows = ",\n".join([f"  {json.dumps(name)}: {took[name]:.4g}" for name in chosen])
        machines = json.dumps({"cpu": asdict(there)})
        Path(given.record).write_text(f'{{\n "devices": {machines},\n "took": {{\n{rows}\n }}\n}}\n')


if __name__ == "__main__":
    main()
