"""``weft bench convnets``: the layers of AlexNet, VGG-A, Overfeat and GoogLeNet, timed one by one on the CPU."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

from benchmarks.nets import NETS, Layer, Weft, layers

QUICK_BATCH = 4


def passes(layer: Layer, batch: int, first: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """(forward, input gradient or weight gradient; a call that computes it once) on random numbers."""
    import weft as wf

    words = Weft()

    def run(x, w):
        if layer.kind == "pool":
            return words.pool(x, layer.kernel, layer.stride, layer.padding)
        if layer.kind == "mean":
            return words.mean(x, layer.kernel, layer.stride)
        return words.conv(x, w, layer.stride, layer.padding) if layer.kind == "conv" else words.dense(x, w)

    x = wf.random.uniform(-1.0, 1.0, (batch, *layer.inside))
    dy = wf.random.uniform(-1.0, 1.0, (batch, *layer.outside))
    w = wf.zeros(()) if layer.weight is None else wf.random.uniform(-0.1, 0.1, layer.weight)
    wf.eval(x, dy, w)
    forward = wf.jit(lambda x, w: wf.nn.relu(run(x, w)) if layer.relu and layer.weight else run(x, w))
    yield "forward", lambda: wf.eval(forward(x, w))
    if not first:
        by_input = wf.jit(lambda x, w, dy: wf.vjp(lambda x: run(x, w), x)[1](dy)[0])
        yield "input gradient", lambda: wf.eval(by_input(x, w, dy))
    if layer.weight:
        by_weight = wf.jit(lambda x, w, dy: wf.vjp(lambda w: run(x, w), w)[1](dy)[0])
        yield "weight gradient", lambda: wf.eval(by_weight(x, w, dy))


PASSES = ("forward", "input gradient", "weight gradient")


def measure(net: str, batch: int, repeats: int, show: Callable[[Layer, dict[str, float]], None]) -> dict[str, dict[str, float]]:
    """Median seconds of each pass of each layer; ``show`` is told of a layer when it is done."""
    from weft.devices import settle

    found = {}
    for position, layer in enumerate(layers(net)):
        seconds = {}
        for name, call in passes(layer, batch, first=position == 0):
            call()  # compiles
            settle()
            call()
            times = []
            for _ in range(repeats):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            seconds[name] = statistics.median(times)
        found[layer.name] = seconds
        show(layer, seconds)
    return found


def convnets(arguments: argparse.Namespace) -> int:
    """Print the tables; returns the exit status."""
    import weft as wf
    from weft.devices import get_device

    names = arguments.nets.split(",") if arguments.nets else ["alexnet"] if arguments.quick else list(NETS)
    for name in names:
        if name not in NETS:
            raise ValueError(f"bench: no net {name!r}; there are {', '.join(NETS)}")
    if arguments.batch is not None and arguments.batch < 1:
        raise ValueError(f"bench: --batch must be at least 1, not {arguments.batch}")
    if arguments.threads is not None:
        wf.set_num_threads(arguments.threads)
    threads = wf.get_num_threads()
    one = get_device("cpu").describe(measure=True)["fma_peak_flops"]
    peak = f"{one * threads / 1e9:.0f} GFLOP/s ({one / 1e9:.0f} a thread)"
    print(f"float32, {threads} thread{'s' * (threads > 1)}; measured peak {peak}")
    with wf.flush_denormals():
        for name in names:
            batch = arguments.batch or (QUICK_BATCH if arguments.quick else NETS[name][1])
            _table(name, batch, 3 if arguments.quick else 10, one * threads)
    return 0


def _table(net: str, batch: int, repeats: int, peak: float) -> None:
    print(f"\n{net}, batch {batch}, median of {repeats}: ms, GFLOP/s, share of the peak")
    print(f"{'layer':14}{'result':>14}" + "".join(f"{name:>24}" for name in PASSES), flush=True)

    def show(layer: Layer, seconds: dict[str, float]) -> None:
        shape = "x".join(map(str, layer.outside))
        cells = [_cell(seconds.get(name), batch * layer.flops, peak) for name in PASSES]
        print(f"{layer.name:14}{shape:>14}" + "".join(f"{cell:>24}" for cell in cells), flush=True)

    found = measure(net, batch, repeats, show)
    work = {layer.name: batch * layer.flops for layer in layers(net)}
    total = {name: sum(s.get(name, 0.0) for s in found.values()) for name in PASSES}
    done = {name: sum(work[layer] for layer, s in found.items() if name in s) for name in PASSES}
    print(f"{'sum':28}" + "".join(f"{_cell(total[name], done[name], peak):>24}" for name in PASSES))
    forward, backward = total["forward"], total["input gradient"] + total["weight gradient"]
    operations = sum(work.values())
    print(
        f"forward {1e3 * forward:.1f} ms, backward {1e3 * backward:.1f} ms, together {1e3 * (forward + backward):.1f} ms: "
        f"{batch / (forward + backward):.1f} images/s, {sum(done.values()) / (forward + backward) / 1e9:.0f} GFLOP/s done, "
        f"{3 * operations / (forward + backward) / 1e9:.0f} as published tables count (they add conv1's input gradient, "
        "which nobody computes)"
    )


def _cell(seconds: float | None, flops: int, peak: float) -> str:
    if seconds is None:
        return "-"
    rate = f"{flops / seconds / 1e9:7.0f} {100 * flops / seconds / peak:4.0f} %" if flops else " " * 14
    return f"{1e3 * seconds:.3f} {rate}"
