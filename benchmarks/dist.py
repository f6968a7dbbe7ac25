"""What several ranks cost: a sum in jit beside MPI's own, and ``fit(shards=S)`` beside ``fit``, for three nets.

    python benchmarks/dist.py [--turns 5]      # one rank: CPU time of a step of 64 rows on one thread, by shards
    weft launch -n 2 benchmarks/dist.py        # two ranks: also the sums; the clock's time of a step, without "none"
    weft launch -n 2 benchmarks/dist.py --gbytes-per-s 0.25 --latency-us 30 --rows 512
                                               # steps with and without overlap, beside a wire that takes its time in sleep

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
_STEPS = 9  # of a run of fit with a simulated wire; the first ones compile
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


class Arriving:
    """A message that MPI has received, until it would have come over the wire."""

    def __init__(self, wire: Wire, request: Any, nbytes: int) -> None:
        self.wire, self.request, self.nbytes, self.end = wire, request, nbytes, 0.0

    def Test(self) -> bool:
        if not self.end and self.request.Test():
            self.end = self.wire.end_of(self.nbytes)
        return bool(self.end) and time.monotonic() >= self.end


class Wire:
    """An engine whose messages to this rank come one after the other, at a bandwidth and with a latency."""

    def __init__(self, engine: Any, bandwidth: float, latency: float) -> None:
        self.engine, self.bandwidth, self.latency, self.free = engine, bandwidth, latency, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def irecv(self, data: np.ndarray, source: int, tag: int) -> Arriving:
        return Arriving(self, self.engine.irecv(data, source, tag), data.nbytes)

    def end_of(self, nbytes: int) -> float:
        self.free = max(time.monotonic(), self.free) + nbytes / self.bandwidth
        return self.free + self.latency


def wide_net() -> nn.Module:
    return nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.Tanh())])


def time_own_step(x: Any, makes_sum: bool) -> float:
    """Return the milliseconds of a jitted step with :func:`wf.dist.average`, or without exchange."""
    wf.random.seed(0)
    net = wide_net()
    optimizer = wf.optim.Adam(1e-3).init(net)

    @wf.jit
    def step(x: Any) -> Any:
        value, slopes = wf.value_and_grad(lambda net, x: (net(x) ** 2).mean())(net, x)
        optimizer.update(net, wf.dist.average(slopes, rows=len(x)) if makes_sum else slopes)
        return value

    for _ in range(2):
        float(step(x))
    return min(time_calls(lambda: float(step(x)), 1) for _ in range(6)) / 1e3


def time_fit(x: np.ndarray, shards: int) -> float:
    """Return the milliseconds of a step of ``fit``, the least of several."""
    ends = []

    class Note:
        def on_batch(self, state: Any) -> None:
            ends.append(time.perf_counter())

    wf.random.seed(0)
    batches = np.tile(x, (_STEPS, 1))
    wf.train.fit(
        wide_net(), batches, batches, epochs=1, batch_size=len(x), loss="mse", optimizer=wf.optim.Adam(1e-3), callbacks=[Note()],
        show=False, shards=shards,
    )
    return float(np.diff(ends)[2:].min() * 1e3)


def compare_overlap(rows: int, bandwidth: float, latency: float, turns: int) -> None:
    """Print the times of steps of each rank's ``rows`` with and without overlap, in turns."""
    from weft.dist.world import world

    job, size = world(), wf.dist.size()
    x = np.random.default_rng(0).normal(size=(rows * size, 1024)).astype("float32")
    own = wf.asarray(x[wf.dist.rank() :: size])
    alone = min(time_own_step(own, False) for _ in range(turns))
    job.engine = Wire(job.engine, bandwidth, latency)
    nbytes = sum(p.nbytes for p in wide_net().parameters().values())
    if wf.dist.rank() == 0:
        print(f"4 dense layers of 1,024, {rows} rows a rank, {size} ranks, Adam; ms of a step, the least of {turns} turns")
        print(f"a jitted step without exchange: {alone:.0f}; a wire of {bandwidth / 1e9:g} GB/s and {latency * 1e6:g} us, which "
              f"takes {2 * (size - 1) / size * nbytes / bandwidth * 1e3:.0f} ms for {nbytes / 1e6:.1f} MB of gradients")
    cases = {
        "jit, wf.dist.average": lambda: time_own_step(own, True),
        "fit, a shard a rank": lambda: time_fit(x, shards=size),
        "fit, 4 shards a rank": lambda: time_fit(x, shards=4 * size),
    }
    for name, measure in cases.items():
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(turns):
            for job.overlaps in times:
                times[job.overlaps].append(measure())
        before, after = min(times[False]), min(times[True])
        if wf.dist.rank() == 0:
            print(f"{name}: {before:.0f} without overlap, {after:.0f} with: {after / before:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", type=int, default=512, help="of a rank's batch, with --gbytes-per-s")
    parser.add_argument("--gbytes-per-s", type=float, help="of a simulated wire: only steps with and without overlap are timed")
    parser.add_argument("--latency-us", type=float, default=30)
    arguments = parser.parse_args()
    turns = arguments.turns
    wf.set_num_threads(1)
    size, rng = wf.dist.size(), np.random.default_rng(0)
    if arguments.gbytes_per_s:
        return compare_overlap(arguments.rows, arguments.gbytes_per_s * 1e9, arguments.latency_us / 1e6, turns)
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
