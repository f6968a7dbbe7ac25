"""Loops with steps in NumPy on gpu-sim, and on the device ``gpu`` over a driver without a card: results beside the CPU's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.transforms import test_walked_loops
from tests.transforms.dynamic_programs import Python, program
from tests.transforms.walked_loops import BODIES, Case, drawn
from weft.devices import get_device

pytest.importorskip("triton")


@pytest.fixture(params=["gpu-sim", "gpu"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Under its name; "gpu" stands over the stub while the test lasts."""
    if request.param == "gpu-sim":
        yield get_device("gpu-sim")
        return
    from tests.cuda.stub import made
    from tests.cuda.test_launcher import standing

    stub, _ = made()
    with standing(stub, monkeypatch):
        yield stub


def both(case: Case, device: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """What a case and its derivatives give on the CPU, and there."""
    arrays = case.arrays()

    def run() -> list[np.ndarray]:
        given = [wf.array(a) for a in arrays]
        last, ys = wf.jit(lambda *g: case.scanned(wf, *g))(*given)
        loss = wf.grad(lambda *g: sum((wf.sin(r) * r).sum() for r in case.scanned(wf, *g)), argnums=(0, 1, 2))
        return [last.numpy(), ys.numpy(), *[s.numpy() for s in loss(*given)]]

    here = run()
    with wf.device(device.name):
        before = device.launches
        there = run()
    assert device.launches > before or not case.steps or case.body == "inv first and last"
    return list(zip(here, there, strict=True))


@pytest.mark.drawn(12)
@pytest.mark.parametrize("body", BODIES)
def test_results_are_those_of_the_cpu(body: str, device: Any) -> None:
    for steps in (0, 1, 2) if body == "several" else (3,):
        case = drawn(body, steps)
        for here, there in both(case, device):
            np.testing.assert_allclose(there, here, rtol=1e-7, atol=1e-9, err_msg=str(case))


def test_loops_whose_steps_depend_on_values(device: Any) -> None:
    for _ in range(4):
        seed = random.randrange(1 << 40)
        f = program(seed)
        print(f"seed {seed}: {f.text}")  # type: ignore[attr-defined]  # shown if the test fails
        rng = np.random.default_rng(seed)
        a, rows = rng.standard_normal(3), rng.standard_normal((2, 3))

        def slope(a: Any, f: Any = f, rows: Any = rows) -> Any:
            return wf.jit(wf.grad(lambda a: f(wf, a, wf.array(rows)).sum() + a.sum()))(a)

        here = slope(wf.array(a)).numpy()
        with wf.device(device.name):
            np.testing.assert_allclose(f(wf, wf.array(a), wf.array(rows)).numpy(), f(Python, a, rows), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(slope(wf.array(a)).numpy(), here, rtol=1e-9, atol=1e-9)


def test_refusals_and_wrong_indices_name_the_line(device: Any) -> None:
    def f(c: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> tuple:
            return wf.linalg.solve(x, wf.tanh(c)), table[wf.argsort(c)[0] + count]

        return wf.scan(step, c, xs)

    xs = np.stack([np.eye(3)] * 4)
    xs[2] = 0
    with wf.device(device.name):
        table, count = wf.arange(4.0), wf.array(1)
        for run in (f, wf.jit(f)):
            with pytest.raises(np.linalg.LinAlgError, match=r"Singular matrix \(.*test_walked.py:\d+\)"):
                run(wf.ones(3, dtype="float64"), wf.array(xs))[0].numpy()
        xs[2] = np.eye(3)
        good = wf.jit(f)(wf.ones(3, dtype="float64"), wf.array(xs))[1]
        np.testing.assert_array_equal(good.numpy(), [1, 1, 1, 1])
        count += 7
        with pytest.raises(IndexError, match=r"index 8 is out of bounds for axis 0 with size 4 \(.*test_walked.py:\d+\)"):
            wf.jit(f)(wf.ones(3, dtype="float64"), wf.array(xs))[1].numpy()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_in_loops(dtype: str, device: Any) -> None:
    with wf.device(device.name):
        test_walked_loops.test_waves_by_fourier_transforms(dtype)


def test_a_kalman_filter_there(device: Any) -> None:
    with wf.device(device.name):
        test_walked_loops.test_a_kalman_filter(6)


def test_state_that_a_walked_loop_updates(device: Any) -> None:
    """Often enough that another loop's launches would be replayed from a graph."""
    with wf.device(device.name):
        state = wf.ones(40)

        @wf.jit
        def run(m: Any) -> Any:
            def step(_: None, x: Any) -> tuple:
                state[...] = state * 0.5 + wf.linalg.inv(x)[0, 0]
                return None, state.sum()

            return wf.scan(step, None, m)[1]

        want = np.ones(40)
        for k in range(5):
            ys = run(wf.eye(2) * wf.array([1.0, 2.0, 4.0 + k])[:, None, None])
            for x in (1.0, 2.0, 4.0 + k):
                want = want * 0.5 + 1 / x
        np.testing.assert_allclose(state.numpy(), want, rtol=1e-6)
        np.testing.assert_allclose(ys.numpy()[-1], want.sum(), rtol=1e-6)
