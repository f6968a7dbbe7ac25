"""The Protocol of devices, kept by a device that is nothing else: primitives, loops, faults, and programs of users."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

import weft as wf
from tests import oracle
from tests.kernel.numpy_device import NumpyDevice
from tests.kernel.samples.table import draw_samples
from tests.transforms.dynamic_programs import Python, program
from weft.devices import get_device
from weft.devices.base import Device, Measuring, ReadsCode, Timing, WarmCalls
from weft.functions.random import state
from weft.graph.interpret import interpret
from weft.graph.node import Graph
from weft.graph.primitives import TABLE, bind
from weft.runtime import execute
from weft.runtime.context import CONTEXT
from weft.schedule.build import build

PRIMITIVES = [op for op in TABLE.values() if op.kind != "leaf"]
ABILITIES = (Timing, WarmCalls, Measuring, ReadsCode)


@pytest.fixture
def on_numpy() -> Iterator[None]:
    """Programs are compiled for the device of this folder; random numbers, the only state of all programs, begin anew there."""
    device = NumpyDevice()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute, "get_device", lambda name="cpu": device)
        for name in ("max_eager_bytes", "compile_threshold"):  # no eager work of the CPU, nothing node by node
            patch.setattr(CONTEXT, name, 0)
        wf.random.seed(0)
        state._step.cache_clear()  # it lies on the device that has the same name
        yield
    wf.random.seed(1)
    state._step.cache_clear()


def test_who_can_what() -> None:
    device: Device = NumpyDevice()
    assert not any(isinstance(device, ability) for ability in ABILITIES)
    assert all(isinstance(get_device(), ability) for ability in ABILITIES)


@pytest.mark.parametrize("op", PRIMITIVES, ids=lambda op: op.name)
def test_primitives(op, rng: np.random.Generator) -> None:
    device = NumpyDevice()
    for s in draw_samples(op, rng):
        nodes = oracle.leaves(s.arrays)
        graph = Graph(nodes, [bind(op, *nodes, **s.params)])
        run = device.compile(build(graph, device.target))
        (got,) = run([device.upload(a) for a in s.arrays])
        (want,) = interpret(graph, s.arrays)
        node = graph.outputs[0]
        result = device.download(got, node.shape, node.dtype)
        assert result.shape == want.shape
        if oracle.is_float(node.dtype):
            oracle.assert_close(result, want, node.dtype, terms=64, ulps=16)
        else:
            np.testing.assert_array_equal(result, want)


def test_loops_whose_steps_depend_on_values(on_numpy: None) -> None:
    for _ in range(6):
        seed = random.randrange(1 << 40)
        f = program(seed)
        print(f"seed {seed}: {f.text}")  # type: ignore[attr-defined]  # shown if the test fails
        rng = np.random.default_rng(seed)
        a, rows = rng.standard_normal(3), rng.standard_normal((2, 3))
        np.testing.assert_allclose(f(wf, wf.array(a), wf.array(rows)).numpy(), f(Python, a, rows), rtol=1e-9, atol=1e-9)
        wf.grad(lambda a, f=f, rows=rows: f(wf, a, wf.array(rows)).sum() + a.sum())(wf.array(a)).numpy()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_loops(on_numpy: None, length: int, reverse: bool) -> None:
    xs = np.random.default_rng(length).normal(size=(length, 3)).astype(np.float32)

    def step(c: wf.Array, x: wf.Array) -> tuple[wf.Array, wf.Array]:
        return wf.sin(c) * x + 0.5, c + x

    def loop(c: wf.Array, xs: wf.Array) -> tuple:
        return wf.scan(step, c, xs, reverse=reverse)

    c, x = np.array([0.1, 0.2, 0.3], np.float32), xs
    last, ys = loop(wf.array(c), wf.array(x))
    want, rows = c.copy(), np.zeros_like(x)
    for t in reversed(range(length)) if reverse else range(length):
        rows[t], want = want + x[t], np.sin(want) * x[t] + np.float32(0.5)
    np.testing.assert_allclose(last.numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(ys.numpy(), rows, rtol=1e-5)
    slope = wf.grad(lambda c: loop(c, wf.array(x))[0].sum() + loop(c, wf.array(x))[1].sum())(wf.array(c))
    h = 1e-3
    along = h * np.eye(3, dtype=np.float32)[1]
    ends = [sum(float(v.sum()) for v in loop(wf.array(c + sign * along), wf.array(x))) for sign in (1, -1)]
    np.testing.assert_allclose(slope.numpy()[1], (ends[0] - ends[1]) / (2 * h), rtol=2e-2)


def test_programs_of_users(on_numpy: None) -> None:
    """A net that learns, jitted and not; writes, sorts, and an index out of range with its line."""
    rng = np.random.default_rng(0)
    x, t = wf.array(rng.normal(size=(16, 4)).astype(np.float32)), wf.array(rng.integers(0, 3, 16))
    net = wf.nn.Linear(4, 3)
    optimizer = wf.optim.Adam(0.1).init(net)

    @wf.jit
    def step(net: wf.nn.Module, optimizer: wf.optim.Optimizer) -> wf.Array:
        loss, slope = wf.value_and_grad(lambda net: wf.losses.cross_entropy(net(x), t))(net)
        optimizer.update(net, slope)
        return loss

    losses = [float(step(net, optimizer)) for _ in range(12)]
    assert losses[-1] < 0.7 * losses[0]
    a = wf.zeros((3, 4))
    a[1:, ::2] = 5
    a += 1
    want = np.zeros((3, 4), np.float32)
    want[1:, ::2] = 5
    np.testing.assert_array_equal(wf.sort(a, axis=1).numpy(), np.sort(want + 1, axis=1))
    with pytest.raises(IndexError, match=r"index 7 is out of bounds for axis 0 with size 3 \(.*test_numpy_device"):
        a[wf.array([0, 7])].numpy()
