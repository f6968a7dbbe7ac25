"""The first call of a training step: it traces, plans and compiles. A second process finds the code on disk.

    python benchmarks/first_calls.py [--rounds 5] [--threads N] [--only mlp gpt]

Every call has a process of its own; with each round the disk cache is empty again. The figures are the least of all rounds, of
wall time and of the processor time of all threads. The duration of a later call is subtracted. AlexNet has a batch of
16, Overfeat and VGG-A have one of 4.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

NETS = ("mlp", "gpt", "alexnet", "overfeat", "vgg-a")
BATCH = 4
LATER = 3  # calls, of which the shortest counts


def worker(name: str, threads: int) -> None:
    """Print the seconds (wall, processor) of the first call less those of a later one, and the number of compilations."""
    import eager_first
    import eager_libraries

    import weft as wf

    wf.set_num_threads(threads)
    lib = eager_libraries.Library("weft", wf.__version__, wf, wf.array, wf.eval, wf.scatter_add)
    start = wf.ones(3)
    wf.eval(start + start)
    step, _ = getattr(eager_first, name)(lib) if hasattr(eager_first, name) else _make_convnet(lib, name)
    calls = []
    for number in range(1 + LATER):
        begin = time.perf_counter(), time.process_time()
        step(number)
        calls.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    later = [min(column) for column in zip(*calls[1:], strict=True)]
    seconds = [max(0.0, first - rest) for first, rest in zip(calls[0], later, strict=True)]
    print(json.dumps([*seconds, wf.counters()["compiles"]]))


def _make_convnet(lib: Any, name: str) -> Any:
    import eager_first
    import nets

    import weft as wf

    net, parts = nets.DEFINITIONS["convnet-benchmarks"][name], []
    for layer in nets.layers(net):
        if layer.kind == "conv":
            parts += [wf.nn.Conv2d(layer.inside[0], layer.outside[0], layer.kernel, layer.stride, layer.padding)]
        elif layer.kind == "pool":
            parts += [wf.nn.MaxPool2d(layer.kernel, layer.stride)]
        else:
            flat = any(isinstance(part, wf.nn.Flatten) for part in parts)
            parts += [*([] if flat else [wf.nn.Flatten()]), wf.nn.Linear(int(np.prod(layer.inside)), layer.outside[0])]
        parts += [wf.nn.ReLU()] if layer.relu and layer.kind != "pool" else []
    r = np.random.default_rng(65)
    x, y = r.standard_normal((BATCH, 3, net.side, net.side), np.float32), r.integers(0, 1000, BATCH)
    return eager_first._stepper(lib, wf.nn.Sequential(*parts), "SGD", x, y)


def measure(name: str, threads: int, rounds: int) -> list[list[float]]:
    """Return the least wall and processor seconds and the compilations, without and with a filled cache."""
    calls: list[list[list[float]]] = [[], []]
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for kind in calls:
                command = [sys.executable, __file__, "--worker", name, "--threads", str(threads)]
                env = {**os.environ, "WEFT_CACHE": cache}
                kind.append(json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout))
    return [[min(column) for column in zip(*kind, strict=True)] for kind in calls]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", nargs="*", default=NETS, choices=NETS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given.worker, given.threads)
        return
    print(f"{'net':10} {'wall s':>8} {'cpu s':>8} {'compiled':>9}   second process: {'wall s':>8} {'cpu s':>8}")
    for name in given.only:
        first, second = measure(name, given.threads, given.rounds)
        print(f"{name:10} {first[0]:8.3f} {first[1]:8.3f} {first[2]:9.0f} {second[0]:24.3f} {second[1]:8.3f}", flush=True)


if __name__ == "__main__":
    main()
