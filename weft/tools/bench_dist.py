"""``weft bench dist``: measure sums between ranks and a training step, and predict the efficiency on more nodes."""

from __future__ import annotations

import argparse
import os
import runpy
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.dist.algorithms import SHORT_BYTES
from weft.errors import amount, seconds
from weft.tools.scaling import NODES, Network, find_efficiency, fit_network

SIZES = (8, 4096, 1 << 16, 1 << 20, 1 << 24)  # bytes of a sum
_BYTES = 1 << 27  # that a rank sums up for each size, in at least
_LEAST_CALLS = 7
_MOST_CALLS = 300
_STEPS_S = 1.0  # for the measured steps of each kind
_DIGITS = 128  # rows of the net that is measured without --model


def bench_dist(argv: Sequence[str]) -> int:
    """Run the command and return its exit status. Raises what ``weft``'s command line prints in one line."""
    from weft.dist.mpi import launched_rank

    arguments = _parser().parse_args(argv)
    figures = {"--latency-us": arguments.latency_us, "--gbytes-per-s": arguments.gbytes_per_s, "--step-ms": arguments.step_ms,
               "--mbytes": arguments.mbytes}
    for name, value in figures.items():
        if value is not None and not value > 0:
            raise ValueError(f"bench dist: {name} is {value:g}, but must be positive")
    if None not in figures.values():  # nothing is left to be measured
        print(_predict(Network(arguments.latency_us * 1e-6, arguments.gbytes_per_s * 1e9), arguments.step_ms * 1e-3,
                       round(arguments.mbytes * 1e6)))
        return 0
    if launched_rank() is None:
        from weft.dist.launch import launch

        if arguments.n < 2:
            raise ValueError(f"bench dist: -n is {arguments.n}, but messages need at least 2 ranks")
        if arguments.model is not None:
            _load(arguments.model)
        hosts = [] if arguments.hosts is None else arguments.hosts.split(",")
        return launch(arguments.n, str(Path(__file__).with_name("__main__.py")), ["bench", "dist", *argv], hosts=hosts)
    return _measure(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="weft bench dist",
        description="Measure sums between ranks and a training step, and predict the efficiency on more nodes.",
    )
    parser.add_argument("-n", type=int, default=2, metavar="RANKS", help="default 2; a power of 2 on equal nodes says most")
    parser.add_argument("--hosts", metavar="A,B", help="machines that share the ranks; default: this one")
    parser.add_argument(
        "--model", metavar="FILE:FUNCTION",
        help="function that returns (net, x, y) or (net, x, y, loss), where x, y are the rows of one node; default: the net of "
        f"`weft train digits` with {_DIGITS} rows",
    )
    own = parser.add_argument_group("figures of your own, in place of measured ones; with all four nothing is measured")
    own.add_argument("--latency-us", type=float, metavar="A", help="microseconds of a short message")
    own.add_argument("--gbytes-per-s", type=float, metavar="B", help="bandwidth of a node")
    own.add_argument("--step-ms", type=float, metavar="T", help="milliseconds in which a node computes a step")
    own.add_argument("--mbytes", type=float, metavar="G", help="megabytes of gradients, 4 for a million parameters")
    return parser


def _load(name: str | None) -> tuple[Any, Any, Any, Callable]:
    """Return net, rows and loss of the function ``FILE:FUNCTION``."""
    import weft as wf
    from weft.tools.digit_net import digit_net

    wf.random.seed(0)
    if name is None:
        digits = wf.data.load_digits()
        return digit_net(8), digits.x_train[:_DIGITS], digits.y_train[:_DIGITS], wf.losses.cross_entropy
    path, _, function = name.rpartition(":")
    if not os.path.isfile(path):
        raise ValueError(f"bench dist: --model is {name}, but must be FILE:FUNCTION, such as train.py:make")
    found = runpy.run_path(path).get(function)
    if not callable(found):
        raise ValueError(f"bench dist: {path} has no function {function!r}")
    result = found()
    if not isinstance(result, tuple) or len(result) not in (3, 4) or not isinstance(result[0], wf.nn.Module):
        raise ValueError(f"bench dist: {name} must return (net, x, y) or (net, x, y, loss), not {type(result).__name__}")
    net, x, y, *rest = result
    return net, x, y, rest[0] if rest else wf.losses.cross_entropy


def _measure(arguments: argparse.Namespace) -> int:
    """Measure what is not given, and print all on rank 0."""
    import weft as wf
    from weft.dist.mpiexec import cores_of_process
    from weft.dist.run_rank import count_local_ranks

    rank, size = wf.dist.rank(), wf.dist.size()
    if size < 2:
        raise ValueError("bench dist: this job has 1 rank, but messages need at least 2")
    net, x, y, loss = _load(arguments.model)
    alone, together, parameters = _time_steps(net, x, y, loss)
    gradient = 4 * parameters if arguments.mbytes is None else round(arguments.mbytes * 1e6)
    count = 1 << size.bit_length() - 1  # a power of 2, spread over the hosts
    members = tuple(k * size // count for k in range(count))
    long = max(4 * parameters, SHORT_BYTES + 4)  # bandwidth depends on the size: that of the gradients counts
    sizes = sorted({*SIZES, long})
    if rank not in members:
        return 0
    times = {n: _time_sums(members, n) for n in sizes}
    network = fit_network((sizes[0], times[sizes[0]]), (long, times[long]), count)
    shard_seconds = max(together - alone - network.sum_seconds(4 * parameters, size), 0.0)
    lines = [
        _row("a sum of", [f"{amount(n)}B" for n in sizes]), _row(f"measured, {count} ranks", map(seconds, times.values())),
        _row("by the formula", [seconds(network.sum_seconds(n, count)) for n in sizes]),
        f"a message: {seconds(network.latency)} and {amount(network.bandwidth)}B/s, from the sums of {amount(sizes[0])}B and "
        f"{amount(long)}B",
        f"a step of {len(x)} rows, {parameters:,} parameters: {seconds(alone)} on a rank alone; {seconds(together)} on each of "
        f"{size} ranks, which is {alone / together:.0%}, and has {seconds(shard_seconds)} for shards",
    ]
    if count_local_ranks() > cores_of_process():
        lines.append("this host has more ranks than cores, so these are times of ranks that wait for a core")
    latency = network.latency if arguments.latency_us is None else arguments.latency_us * 1e-6
    network = Network(latency, network.bandwidth if arguments.gbytes_per_s is None else arguments.gbytes_per_s * 1e9)
    if arguments.step_ms is not None:
        alone, shard_seconds = arguments.step_ms * 1e-3, 0.0
    lines.append(_predict(network, alone, gradient, shard_seconds))
    if rank == 0:
        print("\n".join(lines))
    return 0


def _time_sums(members: tuple[int, ...], n: int) -> float:
    """Return the median seconds of a sum of ``n`` bytes among some ranks."""
    from weft.dist.algorithms import all_sum
    from weft.dist.together import run_together

    x = np.ones(-(-n // 4), np.float32)
    stamps = [time.perf_counter()]
    for _ in range(min(max(_BYTES // n, _LEAST_CALLS), _MOST_CALLS)):
        run_together(all_sum, f"a sum of {n} bytes", "bench dist", members, x)
        stamps.append(time.perf_counter())
    return statistics.median(np.diff(stamps)[1:].tolist())


def _time_steps(net: Any, x: Any, y: Any, loss: Callable) -> tuple[float, float, int]:
    """Return the seconds of a step of each rank alone, those with an exchange of the gradients, and the number of parameters."""
    import weft as wf
    from weft.train.batches import Arrays, check_samples
    from weft.train.feeds import cast_in_memory, casts_to_float32
    from weft.train.ranks import Ranks
    from weft.train.shards import make_stepper

    size, rows = wf.dist.size(), len(x)
    narrow = casts_to_float32(net)
    x, y = cast_in_memory(check_samples(x, y, "bench dist"), narrow)
    feed = Arrays(x, y, None, rows, None, narrow)
    net(feed.batch(np.arange(rows))[0])  # creates parameters whose sizes depend on the input
    net.train()
    found = []
    for ranks in (Ranks(), Ranks(size, wf.dist.rank(), size)):
        wf.random.seed(0)
        optimizer = wf.optim.Adam(1e-3).init(net)
        stepper = make_stepper(net, loss, optimizer, {}, 1, None, None, ranks)
        key = np.arange(ranks.size * rows) % rows  # each rank reads the same rows
        read = stepper.open_feed(feed)

        def step(stepper: Any = stepper, read: Any = read, key: np.ndarray = key) -> float:
            start = time.perf_counter()
            stepper.advance([read(key)], 1e-3)
            return time.perf_counter() - start

        first = _largest(min(step() for _ in range(4)))  # the first ones compile
        found.append(_largest(statistics.median(step() for _ in range(int(min(max(_STEPS_S / first, 5), 1000))))))
    return found[0], found[1], sum(p.size for p in net.parameters().values())


def _largest(value: float) -> float:
    """Return the largest of the ranks' values: all wait for the slowest."""
    from weft.dist.algorithms import all_gather
    from weft.dist.together import run_together
    from weft.dist.world import world

    return float(run_together(all_gather, "a time", "bench dist", tuple(range(world().size)), np.array(value)).max())


def _row(name: str, cells: Any) -> str:
    return f"{name:22}" + "".join(f"{cell:>9}" for cell in cells)


def _predict(network: Network, step: float, gradient: int, shard_seconds: float = 0.0) -> str:
    """Return the table of efficiencies on more nodes."""
    cells = [f"{find_efficiency(network, step, gradient, n, shard_seconds):.0%}" for n in NODES]
    return "\n".join([
        f"predicted for nodes that compute a step in {seconds(step)} alone, with {amount(gradient)}B of gradients:",
        f"{'nodes':12}" + "".join(f"{n:>7,}" for n in NODES), f"{'efficiency':12}" + "".join(f"{cell:>7}" for cell in cells),
    ])
