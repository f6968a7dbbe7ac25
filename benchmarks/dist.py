"""What several ranks cost: a sum in jit beside MPI's own, and ``fit(shards=S)`` beside ``fit``, for three nets.

    python benchmarks/dist.py [--turns 5]      # one rank: CPU time of a step of 64 rows on one thread, by shards
    weft launch -n 2 benchmarks/dist.py        # two ranks: also the sums; the clock's time of a step, without "none"

The contestants take turns; a time is the least of the turns. On one rank it is CPU time, since other processes share the cores.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

import weft as wf
from weft import nn

ROWS = 64
SHARDS = (None, 2, 4, 8, 16, 32)
SIZES = (8, 1 << 12, 1 << 16, 1 << 20, 1 << 24)  # bytes of a sum


def small_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(160, 100), nn.ReLU(), nn.Linear(100, 10),
    )


def net_with_statistics() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10),
    )


def medium_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(4096, 256), nn.ReLU(), nn.Linear(256, 10),
    )


CASES = (  # name, net, shape of a sample, batches, epochs
    ("8x8 digits: convolution, two dense", small_net, (1, 8, 8), 20, 10),
    ("the same with batch norm and dropout", net_with_statistics, (1, 8, 8), 20, 6),
    ("32x32 images: two convolutions, two dense", medium_net, (3, 32, 32), 10, 3),
)


def time_calls(f: Callable[[], Any], count: int) -> float:
    """Return the microseconds of a call, all ranks beginning together."""
    wf.dist.barrier()
    start = time.perf_counter()
    for _ in range(count):
        f()
    return (time.perf_counter() - start) / count * 1e6


def compare_sums(turns: int) -> None:
    """Print the times of ``all_sum`` in jit, of the same jitted function without it, and of MPI's Allreduce, by size."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    if wf.dist.rank() == 0:
        print("us of a call:", "bytes, jit without a sum, jit with all_sum, MPI's Allreduce")
    for size in SIZES:
        with_sum, without = wf.jit(lambda x: wf.dist.all_sum(x * 2) + 1), wf.jit(lambda x: x * 2 + 1)
        source = np.ones(size // 4, np.float32)
        x, out, count = wf.asarray(source), np.empty_like(source), max(5, min(500, (1 << 25) // size))
        calls = lambda: without(x).numpy(), lambda: with_sum(x).numpy(), lambda: comm.Allreduce(source, out)  # noqa: E731, B023
        for call in calls:
            time_calls(call, 3)
        times = [[time_calls(call, count) for call in calls] for _ in range(turns)]
        if wf.dist.rank() == 0:
            print(f"{size:>10,}:", *(f"{min(column):.4g}" for column in zip(*times, strict=True)), flush=True)


def time_step(make: Any, x: np.ndarray, y: np.ndarray, epochs: int, shards: int | None) -> float:
    """Return the milliseconds of a step."""
    clock = time.process_time if wf.dist.size() == 1 else time.perf_counter
    wf.random.seed(0)
    net = make()
    wf.dist.barrier()
    start = clock()
    wf.train.fit(net, x, y, epochs=epochs, batch_size=ROWS, shards=shards, show=False)
    return (clock() - start) / (epochs * len(x) // ROWS) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    wf.set_num_threads(1)
    size, rng = wf.dist.size(), np.random.default_rng(0)
    if size > 1:
        compare_sums(turns)
    contestants = [s for s in SHARDS if (s or 1) >= size]
    if wf.dist.rank() == 0:
        print("ms a step;", size, "ranks; shards:", *("none" if s is None else s for s in contestants))
    for name, make, shape, batches, epochs in CASES:
        x = rng.normal(size=(batches * ROWS, *shape)).astype("float32")
        y = rng.integers(0, 10, len(x)).astype("int32")
        for shards in contestants:
            time_step(make, x, y, 1, shards)  # compiles
        times = [[time_step(make, x, y, epochs, shards) for shards in contestants] for _ in range(turns)]
        if wf.dist.rank() == 0:
            count = sum(p.size for p in make().parameters().values())
            print(f"{name}, {count:,} parameters:", *(f"{min(column):.3g}" for column in zip(*times, strict=True)), flush=True)


if __name__ == "__main__":
    main()
