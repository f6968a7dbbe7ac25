"""Loops that write arrays from outside: the same bits as the loop written out, and updates in place."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.schedule.build import build
from weft.schedule.program import Loop

rng = np.random.default_rng()


def loops(f: Callable, *args: Any) -> tuple[Any, Loop]:
    program = build(wf.jit(f).trace(*args).graph)
    (loop,) = [s for s in program.steps if isinstance(s, Loop)]
    return program, loop


def numbers(tree: Any) -> list[np.ndarray]:
    return [a.numpy() for a in tree]


def learner(make: Callable[[], Any], start: np.ndarray) -> tuple[dict[str, wf.Array], Any, Callable]:
    p = {"w": wf.array(start)}
    optimizer = make().init(p)

    def step(total: Any, x: Any) -> tuple[Any, Any]:
        value, slope = wf.value_and_grad(lambda p: ((p["w"] * x - 1) ** 2).sum())(p)
        optimizer.update(p, slope)
        return total + value, value

    return p, optimizer, step


@pytest.mark.parametrize("jitted", [True, False])
@pytest.mark.parametrize("make", [lambda: wf.optim.Adam(0.1), lambda: wf.optim.SGD(0.05, 0.9), lambda: wf.optim.Nadam(0.1)])
def test_steps_of_an_optimizer(make: Callable, jitted: bool) -> None:
    start, xs = rng.normal(size=(3, 5)).astype("f"), rng.normal(size=(7, 3, 5)).astype("f")
    p, optimizer, step = learner(make, start)
    run = wf.jit(lambda xs: wf.scan(step, 0.0, xs)) if jitted else lambda xs: wf.scan(step, 0.0, xs)
    q, other, one = learner(make, start)
    one = wf.jit(one) if jitted else one
    for _ in range(3):
        total, values = run(wf.array(xs))
        wanted = [float(one(0.0, wf.array(x))[1]) for x in xs]
        np.testing.assert_allclose(values.numpy(), wanted, rtol=2e-6)
        assert float(total) == pytest.approx(sum(wanted), rel=1e-5)
    np.testing.assert_allclose(p["w"].numpy(), q["w"].numpy(), rtol=2e-5, atol=2e-6)
    assert float(optimizer.step_count) == 21 and list(optimizer.arrays()) == list(other.arrays())


def test_momentum_against_float64() -> None:
    start, xs = rng.normal(size=4), rng.normal(size=(9, 4))
    p, _, step = learner(lambda: wf.optim.SGD(0.05, 0.9), start)
    wf.scan(step, 0.0, wf.array(xs))
    w, v = start.copy(), np.zeros(4)
    for x in xs:
        v = 0.9 * v + 2 * (w * x - 1) * x
        w = w - 0.05 * v
    np.testing.assert_allclose(p["w"].numpy(), w, rtol=1e-12)


def test_an_update_works_in_its_own_memory() -> None:
    """A table that a step touches in a few rows is not copied from step to step, nor when the loop begins."""
    table = {"t": wf.array(rng.normal(size=(50, 4)).astype("f"))}
    optimizer = wf.optim.Adam(0.1, groups={"t": {"sparse": True}}).init(table)

    def step(_: Any, rows: Any) -> tuple[None, Any]:
        value, slope = wf.value_and_grad(lambda p: (p["t"][rows] ** 2).sum())(table)
        optimizer.update(table, slope)
        return None, value

    def run(rows: Any) -> Any:
        return wf.scan(step, None, rows)[1]

    rows = wf.array(rng.integers(0, 50, (6, 8)))
    program, loop = loops(run, rows)
    big = [k for k, (shape, _) in enumerate(loop.body.outputs) if shape == (50, 4)]
    assert len(big) == 3 and set(big) <= set(loop.in_place)
    inputs = {i for i, _ in program.donate}
    assert {k for k, (shape, _) in enumerate(program.inputs) if shape == (50, 4)} <= inputs
    found = wf.explain(run, rows)
    update = next(k for k in found.kernels if "sqrt" in k.name)
    assert update.bytes < 2 * 8 * 4 * 4 * 4 + 400  # rows, not tables


def test_what_a_loop_begins_with_stays() -> None:
    start = rng.normal(size=(2, 3)).astype("f")
    x = wf.array(start)

    def doubled(a: Any) -> Any:
        return wf.scan(lambda c, _: (c * 2 + a, None), a, length=3)[0]  # the first carry is a constant too

    np.testing.assert_allclose(doubled(x).numpy(), start * 15, rtol=1e-5)
    assert np.array_equal(x.numpy(), start)
    both = wf.jit(lambda a: wf.scan(lambda c, _: ((c[0] * 2, c[1] * 3), None), (a, a), length=4)[0])
    for _ in range(3):
        one, other = both(x)
        np.testing.assert_allclose(one.numpy(), start * 16, rtol=1e-6)
        np.testing.assert_allclose(other.numpy(), start * 81, rtol=1e-6)
        assert np.array_equal(x.numpy(), start)
    swapped = wf.jit(lambda a, b: wf.scan(lambda c, _: ((c[1] + 1, c[0] * 2), None), (a, b), length=5)[0])
    a, b = start, start + 1
    for _ in range(5):
        a, b = b + 1, a * 2
    for found, wanted in zip(swapped(x, x + 1), (a, b), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("jitted", [True, False])
def test_random_numbers_differ_from_step_to_step(jitted: bool) -> None:
    def run() -> Any:
        return wf.scan(lambda c, _: (c, wf.random.normal(size=(3,))), 0.0, length=4)[1]

    run = wf.jit(run) if jitted else run
    for _ in range(3):
        state = wf.random.get_state()
        found, after = run().numpy(), wf.random.get_state()
        wf.random.set_state(state)
        wanted = np.stack([wf.random.normal(size=(3,)).numpy() for _ in range(4)])
        assert np.array_equal(found, wanted) and wf.random.get_state() == after
    assert len(np.unique(found)) == 12


def test_running_means_of_a_layer() -> None:
    xs = rng.normal(size=(5, 8, 3)).astype("f")
    norm, other = wf.nn.BatchNorm1d(3), wf.nn.BatchNorm1d(3)
    ys = wf.scan(lambda _, x: (None, norm(x)), None, wf.array(xs))[1]
    wanted = np.stack([other(wf.array(x)).numpy() for x in xs])
    np.testing.assert_allclose(ys.numpy(), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(norm.running_mean.numpy(), other.running_mean.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(norm.running_var.numpy(), other.running_var.numpy(), rtol=1e-5)


def test_loops_in_loops_and_views_write_through() -> None:
    a = wf.array(np.arange(6.0).reshape(2, 3))
    row = a[1]

    def inner(c: Any, x: Any) -> tuple[Any, Any]:
        row[0] = row[0] + x
        return c, row.sum()

    def outer(c: Any, xs: Any) -> tuple[Any, Any]:
        a[0] *= 2.0
        return c, wf.scan(inner, 0.0, xs)[1]

    xs = rng.normal(size=(3, 4))
    found = wf.fori_loop(0, 1, lambda i, v: v + 0 * i, 0.0)
    _, sums = wf.scan(outer, found, wf.array(xs))
    b, wanted = np.arange(6.0).reshape(2, 3), np.zeros((3, 4))
    for i, line in enumerate(xs):
        b[0] *= 2
        for j, x in enumerate(line):
            b[1, 0] += x
            wanted[i, j] = b[1].sum()
    np.testing.assert_allclose(sums.numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(a.numpy(), b, rtol=1e-12)
    np.testing.assert_allclose(row.numpy(), b[1], rtol=1e-12)


@pytest.mark.parametrize("jitted", [True, False])
def test_derivatives_go_through_what_is_written(jitted: bool) -> None:
    xs = rng.normal(size=(4, 3))

    def loss(w: Any, xs: Any) -> Any:
        memory = wf.zeros(3, dtype="float64")

        def step(total: Any, x: Any) -> tuple[Any, None]:
            memory[...] = wf.tanh(memory * w + x)
            return total + (memory * memory).sum(), None

        return wf.scan(step, wf.zeros((), dtype="float64"), xs)[0]

    def plain(w: np.ndarray) -> float:
        memory, total = np.zeros(3), 0.0
        for x in xs:
            memory = np.tanh(memory * w + x)
            total += (memory * memory).sum()
        return total

    w = rng.normal(size=3)
    run = wf.value_and_grad(loss)
    value, slope = (wf.jit(run) if jitted else run)(wf.array(w), wf.array(xs))
    assert float(value) == pytest.approx(plain(w), rel=1e-12)
    wanted = [(plain(w + h) - plain(w - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-6, atol=1e-8)


def test_nothing_is_written_without_a_step() -> None:
    a = wf.array([1.0, 2.0])

    def step(c: Any, _: Any) -> tuple[Any, None]:
        a[...] = a + 1
        return c, None

    wf.scan(step, 0.0, length=0)
    assert a.tolist() == [1.0, 2.0]
    wf.scan(step, 0.0, length=2)
    assert a.tolist() == [3.0, 4.0]


def test_numbers_of_the_text_are_no_arrays_of_the_loop() -> None:
    """What is made of constants and counters alone is computed where it is read, not passed in."""
    _, loop = loops(lambda x: wf.scan(lambda c, r: (c + r * (wf.arange(4)[None, :] == 2) + wf.full((3, 4), 0.5), None),
                                      wf.zeros((3, 4)), x)[0], wf.ones((5, 3, 4)))
    assert len(loop.constants) == 0


@pytest.mark.parametrize("jitted", [False, True])
def test_places_that_exchange_arrays_stay_aliases(jitted: bool) -> None:
    seed = int(rng.integers(2**31))
    print("seed", seed)
    draw = random.Random(seed)
    sources = ["m.w", "o.h", "o.d['w']"]
    for _ in range(30):
        names = draw.sample(sources, draw.choice([1, 2, 3]))
        values = [draw.choice(sources) + draw.choice(["", "", "", " + 1", "[::-1]", "[::-1]"]) for _ in names]
        lines = [f"{', '.join(names)} = {', '.join(values)}"]
        if draw.random() < 0.5:
            lines.insert(draw.choice([0, 1]), f"{draw.choice(sources)} = {draw.choice(sources)}")
        written, steps = draw.choice(sources), draw.choice([1, 2, 3, 8, 25])
        results = []
        for native in (False, True):
            m, o = SimpleNamespace(w=wf.arange(3.0)), SimpleNamespace(h=wf.arange(3.0) + 3, d={"w": wf.arange(3.0) + 6})
            space = {"m": m, "o": o, "wf": wf, "steps": steps}
            exec(f"def body(c, x):\n    {'; '.join(lines)}\n    return c + 1, None\n", space)
            space["jit"] = wf.jit if jitted else lambda f: f
            loop = "wf.scan(body, wf.zeros(()), None, length=steps)" if native else "[body(0, k) for k in range(steps)]"
            exec(f"@jit\ndef run():\n    {loop}\n\nrun()\n{written}[0] = 50", space)
            results.append(np.stack([m.w.numpy(), o.h.numpy(), o.d["w"].numpy()]))
        np.testing.assert_array_equal(results[1], results[0], err_msg="; ".join([*lines, f"{steps} steps; {written}[0] = 50"]))
