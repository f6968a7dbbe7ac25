"""``weft bench convnets``: the layers of AlexNet, VGG-A and Overfeat, timed one by one as nervanagpu's script timed them.

The nets are that script's: its dense layers are 3072 wide, there are no biases, and a ReLU follows every convolution
and dense layer but the last. Published tables with 4096 wide layers are of other nets.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class Layer:
    """One layer of a net: what it is called, what it computes, and what it is given (without the batch)."""

    name: str
    kind: str  # conv, pool or dense
    inside: tuple[int, ...]
    outside: tuple[int, ...]
    kernel: int = 0
    stride: int = 1
    padding: int = 0
    relu: bool = True

    @property
    def flops(self) -> int:
        """Operations of the forward pass for one image: two a multiply-add."""
        if self.kind == "pool":
            return 0
        return 2 * prod(self.outside) * (self.inside[0] * self.kernel**2 if self.kind == "conv" else self.inside[0])


_ALEXNET = "conv 64 11 4 2|pool 3 2|conv 192 5 1 2|pool 3 2|conv 384 3 1 1|conv 256 3 1 1|conv 256 3 1 1|pool 3 2"
_OVERFEAT = "conv 96 11 4 0|pool 2 2|conv 256 5 1 0|pool 2 2|conv 512 3 1 1|conv 1024 3 1 1|conv 1024 3 1 1|pool 2 2"
_VGG = "|".join(
    f"conv {channels} 3 1 1" if channels else "pool 2 2" for channels in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0)
)
_DENSE = "|dense 3072|dense 3072|dense 1000"
NETS = {  # name -> side of the images, batch, layers
    "alexnet": (224, 128, _ALEXNET + _DENSE),
    "vgg": (224, 64, _VGG + _DENSE),
    "overfeat": (231, 128, _OVERFEAT + _DENSE),
}
QUICK_BATCH = 4


def layers(net: str) -> list[Layer]:
    """The layers of a net, with their shapes.

    Examples
    --------
    >>> from weft.tools.bench import layers
    >>> print(layers("alexnet")[0].outside, f"{128 * sum(layer.flops for layer in layers('alexnet')) / 1e9:.3f} GFLOP")
    (64, 55, 55) 178.275 GFLOP
    """
    shape: tuple[int, ...] = (3, NETS[net][0], NETS[net][0])
    words = [word.split() for word in NETS[net][2].split("|")]
    found, count = [], {"conv": 0, "pool": 0, "dense": 0}
    outside: tuple[int, ...]
    for kind, *numbers in words:
        count[kind] += 1
        first, *more = map(int, numbers)
        kernel, stride, padding = more if kind == "conv" else (first, more[0], 0) if kind == "pool" else (0, 1, 0)
        if kind == "dense":
            shape, outside = (prod(shape),), (first,)
        else:
            side = (shape[1] + 2 * padding - kernel) // stride + 1
            outside = (first if kind == "conv" else shape[0], side, side)
        last = kind == "dense" and count[kind] == 3
        found.append(Layer(f"{kind}{count[kind]}", kind, shape, outside, kernel, stride, padding, not last))
        shape = outside
    return found


def passes(layer: Layer, batch: int, first: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """(forward, input gradient or weight gradient; a call that computes it once) on random numbers."""
    import weft as wf

    def run(x, w):
        if layer.kind == "pool":
            return wf.nn.max_pool2d(x, layer.kernel, layer.stride)
        return wf.nn.conv2d(x, w, None, layer.stride, layer.padding) if layer.kind == "conv" else wf.nn.linear(x, w)

    x = wf.random.uniform(-1.0, 1.0, (batch, *layer.inside))
    dy = wf.random.uniform(-1.0, 1.0, (batch, *layer.outside))
    shape = (layer.outside[0], layer.inside[0]) + (layer.kernel, layer.kernel) * (layer.kind == "conv")
    w = wf.random.uniform(-0.1, 0.1, shape) if layer.kind != "pool" else wf.zeros(())
    wf.eval(x, dy, w)
    forward = wf.jit(lambda x, w: wf.nn.relu(run(x, w)) if layer.relu and layer.kind != "pool" else run(x, w))
    yield "forward", lambda: wf.eval(forward(x, w))
    if not first:
        by_input = wf.jit(lambda x, w, dy: wf.vjp(lambda x: run(x, w), x)[1](dy)[0])
        yield "input gradient", lambda: wf.eval(by_input(x, w, dy))
    if layer.kind != "pool":
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
    print(f"{'layer':8}{'result':>14}" + "".join(f"{name:>24}" for name in PASSES), flush=True)

    def show(layer: Layer, seconds: dict[str, float]) -> None:
        shape = "x".join(map(str, layer.outside))
        cells = [_cell(seconds.get(name), batch * layer.flops, peak) for name in PASSES]
        print(f"{layer.name:8}{shape:>14}" + "".join(f"{cell:>24}" for cell in cells), flush=True)

    found = measure(net, batch, repeats, show)
    work = {layer.name: batch * layer.flops for layer in layers(net)}
    total = {name: sum(s.get(name, 0.0) for s in found.values()) for name in PASSES}
    done = {name: sum(work[layer] for layer, s in found.items() if name in s) for name in PASSES}
    print(f"{'sum':22}" + "".join(f"{_cell(total[name], done[name], peak):>24}" for name in PASSES))
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
