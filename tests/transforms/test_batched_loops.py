"""Loops under vmap over short rows: each example ends by itself, whatever the others do, and the batch is the last dimension."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.graph.loops import SCAN, every
from weft.graph.node import Graph

SIZES = [1, 2, 7, 8, 9, 63, 64, 65, 200]


def draw_step(rng: random.Random, rows: int) -> Any:
    """Return a random function (x[rows], s, c) -> (x, s) of a vector, a number and a constant vector."""
    kinds = [rng.randrange(7) for _ in range(rng.randint(1, 4))]
    places = [rng.randrange(rows) for _ in kinds]

    def step(x: Any, s: Any, c: Any) -> Any:
        for kind, k in zip(kinds, places, strict=True):
            if kind == 0:
                x = wf.stack([wf.sin(x[j] - x[j - 1]) + x[k] * 0.1 for j in range(rows)])
            elif kind == 1:
                x = x * 0.9 + c[k] * 0.1
            elif kind == 2:
                s = s + (x * c).mean()
            elif kind == 3:
                x = x - s * x[::-1] * 0.1
            elif kind == 4:
                x = wf.where(x > x.max() * 0.9, x * 0.5, x)
            elif kind == 5:
                x = wf.outer(x, c).sum(axis=1) * 0.3 + wf.concat([x[k:], x[:k]])
            else:
                x = wf.tanh(x.reshape(rows, 1) + c.reshape(1, rows)).mean(axis=0)
        return x, s * 0.5

    return step


@pytest.mark.parametrize("part", range(4))
def test_random_loops(part: int) -> None:
    for _ in range(3):
        seed = random.randrange(1 << 40)
        print(f"seed {seed}")
        rng, values = random.Random(seed), np.random.default_rng(seed)
        rows, count = rng.randint(1, 5), rng.choice(SIZES)
        step = draw_step(rng, rows)
        steps = values.integers(0, rng.choice([1, 4, 40]), count)  # examples that end at once, and some that take many steps
        x, c = values.standard_normal((count, rows)), values.standard_normal((count, rows))
        x[values.random(count) < 0.1, 0] = np.nan  # failed examples do not disturb the others
        c_axis, result = rng.choice([0, 1, None]), rng.choice(["last", "rows", "both"])

        def one(n: Any, x: Any, c: Any, step: Any = step, result: str = result) -> Any:
            def body(v: Any) -> Any:
                k, x, s = v
                return (k + 1, *step(x, s, c))

            _, y, s = wf.while_loop(lambda v: v[0] < n, body, (0, x, x.sum() * 0.1), max_steps=50)
            if result == "last":
                return y, s

            def inner(v: Any, row: Any) -> Any:
                x, s = step(v, row[0], c)
                return x, x + s

            y, stacked = wf.scan(inner, y, wf.outer(c, x))
            return (stacked,) if result == "rows" else (y, s, stacked)

        given = (wf.array(steps), wf.array(x), wf.array(c if c_axis == 0 else c.T if c_axis == 1 else c[0]))
        mapped = wf.jit(wf.vmap(one, in_axes=(0, 0, c_axis)))
        got = mapped(*given)
        alone = wf.jit(one)
        for k in {0, count - 1, *values.integers(0, count, 6).tolist()}:
            want = alone(given[0][k], given[1][k], given[2] if c_axis is None else wf.array(c[k]))
            for g, w in zip(got, want, strict=True):
                np.testing.assert_allclose(g.numpy()[k], w.numpy(), rtol=1e-12, atol=1e-12)
        mapped(*given)
        assert (mapped.traces, alone.traces) == (1, 1)


def test_gradients() -> None:
    rng = random.Random(seed := random.randrange(1 << 40))
    print(f"seed {seed}")
    values = np.random.default_rng(seed)
    for count in (1, 9):
        step = draw_step(rng, 3)
        steps, x, c = wf.array(values.integers(0, 9, count)), wf.array(values.standard_normal((count, 3))), wf.ones(3)

        def one(x: Any, n: Any, step: Any = step, c: Any = c) -> Any:
            out = wf.while_loop(lambda v: v[0] < n, lambda v: (v[0] + 1, *step(v[1], v[2], c)), (0, x, x[0]), max_steps=10)
            return (out[1] ** 2).sum() + out[2]

        each = np.stack([wf.grad(one)(x[k], steps[k]).numpy() for k in range(count)])
        for mapped in (wf.vmap(wf.grad(one)), wf.grad(lambda x, n, one=one: wf.vmap(one)(x, n).sum())):
            np.testing.assert_allclose(wf.jit(mapped)(x, steps).numpy(), each, rtol=1e-10, atol=1e-12)


def test_no_examples() -> None:
    def one(x: Any) -> Any:
        return wf.while_loop(lambda v: v.sum() < 10, lambda v: wf.stack([v[1], v[0] + 1]), x, max_steps=20)

    assert wf.jit(wf.vmap(one))(wf.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize(("rows", "last"), [(3, True), (64, False)])
def test_where_the_batch_lies(rows: int, last: bool) -> None:
    """Behind short rows, so that vectors lie along the batch; in front of long ones."""
    def one(x: Any) -> Any:
        return wf.while_loop(lambda v: v.max() < 10, lambda v: v * 1.5 + 0.1, x, max_steps=20)

    seen = []

    @wf.jit
    def f(x: Any) -> Any:
        out = wf.vmap(one)(x)
        loops = [n for n in every(Graph([], [out.node])) if n.op is SCAN]
        seen.extend(n.shape for s in loops for n in s.params["body"].graph.inputs if len(n.shape) == 2)
        return out

    f(wf.ones((20, rows)))
    assert seen and all(shape == ((rows, 20) if last else (20, rows)) for shape in seen)


def draw_guarded(rng: random.Random, table: Any) -> Any:
    """Return a random function (n, x) -> (n, x), n > 0, that hangs, raises, or has infinite derivatives for other n."""
    kinds = [rng.randrange(5) for _ in range(rng.randint(1, 3))]

    def step(n: Any, x: Any) -> Any:
        for kind in kinds:
            if kind == 0:  # never ends for n <= 0
                x = x + 0.1 * wf.while_loop(lambda s: s < 8.0, lambda s: s * 2.0, n * 1.0, max_steps=200)
            elif kind == 1:
                x = x * 0.5 + table[n - 1]
            elif kind == 2:
                x = x + wf.linalg.solve(wf.eye(2) * n, wf.ones(2) * x).sum() * 0.1
            elif kind == 3:
                x = x * 0.3 + wf.log(n * 1.0) + wf.sqrt(wf.abs(x) + n - 0.5)
            else:
                x = wf.cond(n > 2, lambda n, x: x / (n - 2.0), lambda n, x: x * 0.7, n, x)
        return n - 1, x

    return step


@pytest.mark.parametrize("part", range(3))
def test_examples_that_have_ended_are_not_computed(part: int) -> None:
    """Bodies of loops and branches see only values of examples that take the step: no error, no endless loop, no NaN gradient."""
    for _ in range(2):
        seed = random.randrange(1 << 40)
        print(f"seed {seed}")
        rng, values = random.Random(seed), np.random.default_rng(seed)
        step, count = draw_guarded(rng, wf.array(values.standard_normal(6))), rng.choice([1, 2, 7, 9])

        def loop(n: Any, x: Any, step: Any = step) -> Any:
            return wf.while_loop(lambda v: v[0] > 0, lambda v: step(*v), (n, x), max_steps=7)[1]

        def branch(n: Any, x: Any, step: Any = step) -> Any:
            return wf.cond(n > 0, lambda n, x: step(n, x)[1], lambda n, x: x * 2.0, n, x)

        n, x = values.integers(-1, 7, count), values.standard_normal(count)
        for f in (loop, branch):
            want = np.array([float(f(wf.array(n[k]), wf.array(x[k]))) for k in range(count)])
            assert_close(wf.vmap(f)(wf.array(n), wf.array(x)).numpy(), want)
            assert_close(wf.jit(wf.vmap(f))(wf.array(n), wf.array(x)).numpy(), want)
            slopes = [float(wf.grad(lambda x, k=k, n=n, f=f: f(wf.array(n[k]), x))(wf.array(x[k]))) for k in range(count)]
            assert_close(wf.vmap(wf.grad(f, argnums=1))(wf.array(n), wf.array(x)).numpy(), np.array(slopes))
            of_all = wf.grad(lambda x, n=n, f=f: wf.vmap(f)(wf.array(n), x).sum())
            assert_close(of_all(wf.array(x)).numpy(), np.array(slopes))


def draw_infinite(rng: random.Random) -> Any:
    """Return a random function (n, x[rows], w[rows, rows]) -> x that is finite for n > 0, and infinite or NaN for others."""
    kinds = [rng.randrange(5) for _ in range(rng.randint(1, 3))]

    def step(n: Any, x: Any, w: Any) -> Any:
        for kind in kinds:
            if kind == 0:
                x = wf.tanh(w @ x / n)
            elif kind == 1:
                x = x * wf.sqrt(n - 0.5 * w[0, 0] ** 2) * 0.5
            elif kind == 2:
                x = x + wf.log(n * w.diagonal() ** 2).mean() * 0.1
            elif kind == 3:
                x = x * wf.exp(1000.0 * (1 - n) * w[-1, -1] ** 2)
            else:
                x = wf.where(n > 0, x / (wf.abs(x).sum() + n - 1), w[0])
        return x

    return step


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_gradients_of_examples_that_have_ended(rows: int) -> None:
    """What the body would compute for ended examples is infinite, and adds nothing to gradients by x and by shared weights."""
    for _ in range(2):
        seed = random.randrange(1 << 40)
        print(f"seed {seed}")
        rng, values = random.Random(seed), np.random.default_rng(seed)
        step, count = draw_infinite(rng), rng.choice([2, 7, 9])
        n = wf.array(np.append(values.integers(0, 5, count - 1), 4))
        x, w = values.standard_normal((count, rows)), values.uniform(0.5, 1.0, (rows, rows)) / np.sqrt(rows)

        def total(x: Any, w: Any, n: Any = n, step: Any = step) -> Any:
            def one(n: Any, x: Any) -> Any:
                return wf.while_loop(lambda v: v[0] > 0, lambda v: (v[0] - 1, step(*v, w)), (n, x), max_steps=6)[1]

            return wf.sin(wf.vmap(one)(n, x)).sum()

        directions = values.standard_normal(x.shape), values.standard_normal(w.shape)
        expected = []
        for d_x, d_w in ((directions[0], 0.0), (0.0, directions[1])):
            high, low = [float(total(wf.array(x + s * d_x), wf.array(w + s * d_w))) for s in (1e-6, -1e-6)]
            expected.append((high - low) / 2e-6)
        for f in (wf.grad(total, (0, 1)), wf.jit(wf.grad(total, (0, 1)))):
            slopes = [(s.numpy() * d).sum() for s, d in zip(f(wf.array(x), wf.array(w)), directions, strict=True)]
            np.testing.assert_allclose(slopes, expected, rtol=1e-4, atol=1e-6)


def assert_close(result: Any, expected: Any) -> None:
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9)
