"""A process that computes the layers of nets with one library and times them, as ``weft bench convnets`` asks by its input.

    python -m benchmarks.convnet_worker weft|torch

Requests and answers are lines of JSON. ``{"net": ..., "layer": name}`` makes a layer, ``"layer": null`` a whole net; the answer
lists its passes. ``{"pass": name, "calls": n}`` answers with seconds. ``{"memory": net}`` answers with bytes of this process.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.peers import TorchWords
from benchmarks.nets import Layer, Net, Weft, compute, forward, layer_weights, layers, shrink, weft_functions

LAST_GRADIENT = 2.0**-5  # times a net's result: the gradient of its last layer
MEMORY_STEPS = 3
Calls = dict[str, Callable[[], object]]  # a pass -> a call that computes it once


class WeftSide:
    """weft's arrays and calls."""

    def __init__(self, threads: int) -> None:
        import weft as wf

        self._wf, self.version = wf, wf.__version__
        self._entered = ExitStack()
        self._entered.enter_context(wf.flush_denormals())
        wf.set_num_threads(threads)
        wf.set_conv_algorithm(os.environ.get("BENCH_ALGORITHM", "direct"))
        wf.set_matmul_precision(os.environ.get("BENCH_PRECISION", "float32"))

    def settle(self) -> None:
        importlib.import_module("weft.devices").settle()

    def array(self, x: np.ndarray) -> Any:
        return self._wf.asarray(x)

    def layer(self, layer: Layer, x: Any, parameters: list[Any], dy: Any, variables: Mapping[str, tuple[bool, bool]]) -> Calls:
        wf, words = self._wf, Weft()
        ahead = wf.jit(lambda x, ws: compute(layer, x, ws, words))
        calls: Calls = {"forward": lambda: wf.eval(ahead(x, parameters))}
        plain = replace(layer, relu=False)

        def gradient(by_input: bool, by_weight: bool) -> Callable[[], object]:
            def run(x: Any, ws: list[Any], dy: Any) -> Any:
                given = [x] * by_input + ws * by_weight
                return wf.vjp(
                    lambda *vs: compute(plain, vs[0] if by_input else x, vs[by_input:] if by_weight else ws, words), *given,
                )[1](dy)

            jitted = wf.jit(run)
            return lambda: wf.eval(jitted(x, parameters, dy))

        return calls | {name: gradient(*pair) for name, pair in variables.items()}

    def net(self, net: Net, x: Any, parameters: list[Any]) -> Calls:
        ahead, step = weft_functions(net)
        wf = self._wf
        return {
            "forward": lambda: wf.eval(ahead(x, parameters)),
            "step": lambda: wf.eval(step(x, parameters, LAST_GRADIENT, 0.0), parameters),
        }


class TorchSide:
    """PyTorch's, with channels last. Its arrays are stored in the format of its products, which is faster than autocast."""

    def __init__(self, threads: int) -> None:
        self._torch: Any = importlib.import_module("torch")
        self.version = self._torch.__version__
        self._torch.set_num_threads(threads)
        self._torch.set_flush_denormal(True)
        self._words = TorchWords(self._torch)
        self._dtype = getattr(self._torch, os.environ.get("BENCH_PRECISION", "float32"))

    def settle(self) -> None:
        pass

    def array(self, x: np.ndarray) -> Any:
        tensor = self._torch.from_numpy(x).to(self._dtype)
        return tensor.contiguous(memory_format=self._torch.channels_last) if x.ndim == 4 else tensor

    def layer(self, layer: Layer, x: Any, parameters: list[Any], dy: Any, variables: Mapping[str, tuple[bool, bool]]) -> Calls:
        torch, words = self._torch, self._words

        def ahead() -> Any:
            with torch.no_grad():
                return compute(layer, x, parameters, words)

        def gradient(by_input: bool, by_weight: bool) -> Callable[[], object]:
            image = x.detach().requires_grad_(by_input)
            ws = [w.detach().requires_grad_(by_weight) for w in parameters]
            out = compute(replace(layer, relu=False), image, ws, words)
            given = [image] * by_input + ws * by_weight
            return lambda: torch.autograd.grad(out, given, dy, retain_graph=True)

        return {"forward": ahead} | {name: gradient(*pair) for name, pair in variables.items()}

    def net(self, net: Net, x: Any, parameters: list[Any]) -> Calls:
        torch, run = self._torch, forward(net, self._words)
        tensors = [w.requires_grad_() for w in parameters]

        def ahead() -> Any:
            with torch.no_grad():
                return run(x, tensors)

        def step() -> Any:
            out = run(x, tensors)
            slopes = torch.autograd.grad(out, tensors, out.detach() * LAST_GRADIENT)
            with torch.no_grad():
                torch._foreach_add_(tensors, slopes, alpha=0.0)
            return out

        return {"forward": ahead, "step": step}


SIDES = {"weft": WeftSide, "torch": TorchSide}


def find_passes(layer: Layer, first: bool) -> dict[str, tuple[bool, bool]]:
    """Return the backward passes of a layer: whether each computes the gradient of the input and those of the parameters.

    Nobody computes the gradient of the images. A normalisation computes all its gradients together.
    """
    if layer.kind == "norm":
        return {"gradients": (True, True)}
    both = {"input gradient": (True, False), "weight gradient": (False, True)}
    return {name: pair for name, pair in both.items() if not (pair[0] and first) and not (pair[1] and not layer.parameters)}


def make_layer(side: Any, net: Net, name: str) -> Calls:
    """Return the calls of a layer on random numbers."""
    found = layers(net)
    position = next(k for k, layer in enumerate(found) if layer.name == name)
    layer, rng = found[position], np.random.default_rng(position)
    x, dy = (side.array(rng.random((net.batch, *shape), np.float32) - 0.5) for shape in (layer.inside, layer.outside))
    parameters = [side.array(w) for w in layer_weights(layer, rng)]
    return side.layer(layer, x, parameters, dy, find_passes(layer, position == 0))


def make_net(side: Any, net: Net) -> Calls:
    """Return the calls of a whole net on random images."""
    rng = np.random.default_rng(7)
    x = side.array(rng.random((net.batch, 3, net.side, net.side), np.float32))
    return side.net(net, x, [side.array(w) for layer in layers(net) for w in layer_weights(layer, rng)])  # one array a time


def measure_memory(side: Any, net: Net) -> dict[str, int]:
    """Return bytes of this process before a net is made, and the most of them while it makes some training steps.

    Before the first figure a step of a tiny net has loaded the library's code and started its threads.
    """
    make_net(side, shrink(replace(net, batch=1), narrow=64))["step"]()
    before = _status("VmRSS")
    step = make_net(side, net)["step"]
    for _ in range(MEMORY_STEPS):
        step()
    return {"baseline": before, "peak": _status("VmHWM")}


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def answers(side: Any, requests: Iterator[str], clock: Callable[[], float]) -> Iterator[object]:
    """Yield the answer to each request."""
    calls: Calls = {}
    yield side.version
    for line in requests:
        request = json.loads(line)
        if "memory" in request:
            yield measure_memory(side, Net(**request["memory"]))
        elif "net" in request:
            calls = {}  # frees the arrays of the previous one
            net = Net(**request["net"])
            calls = make_net(side, net) if request["layer"] is None else make_layer(side, net, request["layer"])
            for call in calls.values():
                call()
            side.settle()
            for call in calls.values():
                call()
            yield list(calls)
        else:
            seconds = []
            for _ in range(request["calls"]):
                start = clock()
                calls[request["pass"]]()
                seconds.append(clock() - start)
            yield seconds


def main() -> None:
    clock = time.process_time if os.environ.get("BENCH_CLOCK") == "cpu" else time.perf_counter
    side = SIDES[sys.argv[1]](int(os.environ["BENCH_THREADS"]))
    for answer in answers(side, iter(sys.stdin), clock):
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
