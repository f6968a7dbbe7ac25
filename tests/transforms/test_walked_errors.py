"""Loops with steps in NumPy: what is refused, at which line, and what stays; interruptions and threads."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.transforms.walked_loops import Case


def singular_at(step: int, steps: int = 5) -> np.ndarray:
    xs = np.stack([np.eye(3) * 2] * steps)
    xs[step] = 0
    return xs


def refusing(c: Any, xs: Any) -> Any:
    def step(c: Any, x: Any) -> tuple:
        y = wf.tanh(c)
        return wf.linalg.solve(x, y), y  # refused here

    return wf.scan(step, c, xs)[0]


def also_refusing(c: Any, xs: Any) -> Any:
    """The same program from other lines."""
    return wf.scan(lambda c, x: (wf.linalg.solve(x, wf.tanh(c)), wf.tanh(c)), c, xs)[0]  # and here


def line_of(mark: str) -> int:
    with open(__file__) as file:
        return next(k for k, line in enumerate(file, 1) if line.rstrip().endswith(f"# {mark}"))


@pytest.mark.parametrize("step", [0, 2, 4])
def test_what_numpy_refuses_is_told_at_the_user_s_line(step: int) -> None:
    c, xs = wf.ones(3, dtype="float64"), wf.array(singular_at(step))
    for f, mark in ((refusing, "refused here"), (also_refusing, "and here")):
        slope = wf.jit(wf.grad(lambda c, xs, f=f: f(c, xs).sum()))
        for run in (f, wf.jit(f), slope, lambda c, xs, f=f: wf.vmap(f)(c[None], xs[None])):
            with pytest.raises(np.linalg.LinAlgError) as caught:
                run(c, xs).numpy()
            assert str(caught.value) == f"Singular matrix ({__file__}:{line_of(mark)})"
    np.testing.assert_array_equal(c.numpy(), np.ones(3))
    good = wf.array(np.stack([np.eye(3) * 2] * 5))
    assert np.isfinite(wf.jit(refusing)(c, good).numpy()).all()


def test_a_call_that_is_refused_has_changed_nothing() -> None:
    """What a loop writes outside is as it was, also where it lies in the memory that the loop would write."""
    state, count = wf.ones((3, 2000), dtype="float64"), wf.zeros((), dtype="int64")

    @wf.jit
    def run(xs: Any) -> Any:
        def step(_: None, x: Any) -> tuple:
            state[...] = state * 2 + 1
            count[...] = count + 1
            return None, wf.linalg.inv(x).sum()

        return wf.scan(step, None, xs)[1]

    good = wf.array(np.stack([np.eye(3) * 2] * 5))
    for _ in range(2):
        before = state.numpy().copy(), int(count)
        for k in (0, 3, 4):
            with pytest.raises(np.linalg.LinAlgError, match=r"Singular matrix \(.*test_walked_errors.py:\d+\)"):
                wf.eval(run(wf.array(singular_at(k))))
            np.testing.assert_array_equal(state.numpy(), before[0])
            assert int(count) == before[1]
        wf.eval(run(good))
        assert int(count) == before[1] + 5
        np.testing.assert_array_equal(state.numpy(), before[0] * 32 + 31)


def test_indices_out_of_range_between_steps_in_numpy() -> None:
    """The numbers of checked indices are right before, in and behind a walked loop."""
    nothing, table, other = wf.zeros(3, dtype="int64"), wf.arange(5.0), wf.arange(7.0)

    def f(c: Any, i: Any, k: Any) -> Any:
        c = c + nothing[k]  # before the loop

        def step(c: Any, _: None) -> tuple:
            first = table[c]  # from the first table
            order = wf.argsort(-first)
            return c + 1 + order * 0, other[c * 2].sum()  # from the second one

        c, ys = wf.scan(step, c, length=3)
        return ys.sum() + table[i]  # behind the loop

    jitted = wf.jit(f)
    assert float(jitted(wf.array([0, 1]), wf.array(1), wf.array(2))) == 0 + 2 + 2 + 4 + 4 + 6 + 1
    for start, i, k, wrong, size, mark in (
        (3, 1, 0, 8, 7, "from the second one"), (9, 1, 0, 9, 5, "from the first table"), (0, 6, 0, 6, 5, "behind the loop"),
        (0, 1, 3, 3, 3, "before the loop"),
    ):
        told = rf"index {wrong} is out of bounds for axis 0 with size {size} \(.*:{line_of(mark)}\)"
        with pytest.raises(IndexError, match=told):
            float(jitted(wf.array([start, 0]), wf.array(i), wf.array(k)))


def test_a_walked_loop_can_be_interrupted() -> None:
    state = wf.ones(2, dtype="float64")

    @wf.jit
    def f(x: Any) -> Any:
        def step(v: Any, _: None) -> tuple:
            state[...] = state + 1
            return wf.linalg.inv(v) + 0.1, None

        return wf.scan(step, x, length=10**8)[0]

    x = wf.eye(2)
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        wf.eval(f(x))
    np.testing.assert_array_equal(state.numpy(), [1.0, 1.0])
    np.testing.assert_array_equal(x.numpy(), np.eye(2))
    np.testing.assert_allclose(refusing(wf.ones(3), 2 * wf.ones((1, 3, 3)) + wf.eye(3)).shape, (3,))


def test_threads_run_one_walked_loop_at_once() -> None:
    case = Case("several", 600, 4, (), False)
    arrays = [wf.array(a) for a in case.arrays()]
    f = wf.jit(lambda *g: case.scanned(wf, *g)[1])
    want, found = f(*arrays).numpy(), []
    threads = [threading.Thread(target=lambda: found.append(f(*arrays).numpy())) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4 and all((g == want).all() for g in found)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    """Kernels between the steps in NumPy share their work."""
    r = np.random.default_rng(3)
    a, c, xs = np.eye(40) * 3 + r.normal(size=(40, 40)) / 20, r.normal(size=(40, 3000)), r.normal(size=(3, 1))
    a, c, xs = wf.array(a), wf.array(c), wf.array(xs)
    f = wf.jit(lambda a, c, xs: wf.scan(lambda c, x: (wf.tanh(wf.linalg.inv(a + x) @ c), c.sum()), c, xs))
    before = wf.get_num_threads()
    try:
        wf.set_num_threads(1)
        want = [y.numpy() for y in f(a, c, xs)]
        wf.set_num_threads(threads)
        for g, w in zip(f(a, c, xs), want, strict=True):
            np.testing.assert_array_equal(g.numpy(), w)
    finally:
        wf.set_num_threads(before)
