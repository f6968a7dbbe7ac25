"""Channels-last storage on gpu-sim, in programs of users, and in what is compiled: loads of 16 bytes where two were."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.cuda.on_device import check_kernel
from tests.cuda.resources import usage
from tests.cuda.test_programs import trained_in_16_bits
from tests.fuzz.levels import perform
from tests.graph.cnns import Net
from weft.devices import get_device
from weft.devices.cuda import adapter
from weft.devices.cuda.generate import generate
from weft.devices.cuda.simulator import SimulatedDevice
from weft.devices.cuda.target import GPU
from weft.graph.node import Graph
from weft.kernel.ir import Kernel
from weft.kernel.target import Target
from weft.process.bounded_cache import BoundedCache
from weft.runtime import execute
from weft.schedule.build import build
from weft.schedule.program import calls

pytest.importorskip("triton")

OFF = replace(GPU, channels_last=0)
ALWAYS = replace(GPU, channels_last=1, relaying=-(1 << 60))
DEVICE = SimulatedDevice()


@pytest.mark.drawn(24)
@pytest.mark.parametrize("target", [GPU, ALWAYS, OFF], ids=["asked for", "always", "never"])
@pytest.mark.parametrize("seed", range(100, 124))
def test_random_nets(seed: int, target: Target) -> None:
    """Each kernel, given what the one before it gives in the order of the kernel IR, in memory of its own and in place."""
    graph, values = Net(seed).graph(seed % 2 == 1)
    made: list[Kernel] = []

    def watch(kernel: Kernel, *call: Any) -> None:
        made.append(kernel)
        check_kernel(DEVICE, kernel, *call)

    perform(build(execute.copy_structure(graph), target), values, watch)
    assert made and not (target is OFF and any(b.order for k in made for b in (*k.inputs, *k.outputs)))


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Everything runs on gpu-sim, which asks the scheduler for what it is told; programs made before are not met again."""
    device: Any = get_device("gpu-sim")

    def choose(target: Target) -> None:
        monkeypatch.setattr(device, "target", target)
        monkeypatch.setattr(execute, "PROGRAMS", BoundedCache(64e6))

    with wf.device("gpu-sim"):
        yield choose


def test_a_net_learns_as_without_it_and_as_on_the_cpu(simulated: Any) -> None:
    with wf.device("cpu"):
        wf.random.seed(0)
        here = trained_in_16_bits()
    for target in (ALWAYS, OFF):  # as it asks by itself: test_programs.py
        simulated(target)
        wf.random.seed(0)
        losses, weights = trained_in_16_bits()
        np.testing.assert_allclose(losses, here[0], rtol=2e-2)
        for a, b in zip(weights, here[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-2 * np.abs(b).max())


# ---- what is compiled


def widths(assembly: str) -> Counter[int]:
    """How many loads of the card's memory there are of so many bytes, cp.async among them."""
    found: Counter[int] = Counter()
    for line in assembly.splitlines():
        copied = re.search(r"cp\.async\.c[ag]\.shared\.global.*\], (0x[0-9a-f]+|\d+)", line)
        loaded = re.search(r"ld\.global(?:\.\w+)*?(?:\.v(\d))?\.[bfus](\d+)", line)
        if copied:
            found[int(copied[1], 0)] += 1
        elif loaded:
            found[int(loaded[1] or 1) * int(loaded[2]) // 8] += 1
    return found


def stack(x: Any, w: Any, v: Any) -> Any:
    """Two convolutions with all that may stand between them; their weights are float32."""
    w, v = (wf.astype(a, "bfloat16") for a in (w, v))
    y = wf.nn.conv2d(wf.astype(x, "bfloat16"), w, padding=1)
    y = wf.nn.max_pool2d(wf.nn.relu(y), 2)
    return y + wf.nn.relu(wf.nn.conv2d(y, v, padding=1))


def slopes(x: Any, w: Any, v: Any) -> Any:
    return wf.grad(lambda x, w, v: wf.astype(stack(x, w, v), "float32").sum(), (0, 1, 2))(x, w, v)


STACK = ((8, 32, 16, 16), (64, 32, 3, 3), (64, 64, 3, 3))


def graph_of(f: Any, dtype: str = "float32") -> Graph:
    return wf.jit(f).trace(*[wf.zeros(s, dtype=dtype) for s in STACK]).graph


def products(graph: Graph, target: Target, capability: int) -> list[adapter.Code]:
    """The code of all convolutions, without the launches that add up pieces of k."""
    found = [c.kernel for c in calls(build(graph, target)) if "conv" in c.kernel.name]
    texts = [launch for k in found for launch in generate(k).launches if "tl.dot(" in launch.text]
    return [adapter.compile_launch(launch, capability) for launch in texts]


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_convolutions_load_16_bytes_at_once(capability: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All three passes: not one load of two bytes is left, operands go through cp.async, and nothing is spilled."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    graph = graph_of(slopes)
    now = products(graph, GPU, capability)
    assert len(now) >= 5
    for code in now:
        found = widths(code.assembly)
        assert found[2] == 0 and found[16] >= 8, found
        assert "cp.async" in code.assembly and any(w in code.assembly for w in ("mma.sync", "wgmma", "tcgen05.mma"))
        assert usage(code).stack == 0
    if capability == 90:  # without the pass they are loads of two bytes
        before = [widths(code.assembly)[2] for code in products(graph, OFF, capability)]
        assert sum(n >= 16 for n in before) >= len(before) - 1, before


def test_weights_that_are_given_are_laid_anew(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it their half of the loads would stay narrow."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    graph = wf.jit(stack).trace(*[wf.zeros(s, dtype="bfloat16") for s in STACK]).graph
    kept, laid = (products(graph, replace(GPU, relaying=n), 90)[1:] for n in (1 << 60, 0))
    assert all(widths(c.assembly)[2] > 0 and widths(c.assembly)[16] > 0 for c in kept)
    assert all(widths(c.assembly)[2] == 0 for c in laid)
