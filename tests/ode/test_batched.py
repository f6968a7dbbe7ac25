"""Solutions under vmap equal those of each example alone, although steps, failures and events differ."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import ode


def growth(t: Any, y: Any, rates: Any) -> Any:
    """A rotation whose speed differs by example, beside a number that may reach infinity before t = 1."""
    return wf.stack([-rates[0] * y[1], rates[0] * y[0], rates[1] * y[2] ** 2])


@pytest.mark.drawn(4)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40])
@pytest.mark.parametrize("solver", [ode.Tsit5(), ode.Kvaerno3()], ids=lambda s: type(s).__name__)
def test_examples_alone(count: int, solver: Any) -> None:
    print(f"seed {(seed := random.randrange(1 << 40))}")
    rng = np.random.default_rng(seed)
    rates = np.stack([10 ** rng.uniform(-1, 1.5, count), rng.choice([0.1, 0.5, 5.0], count)], axis=1)  # 5.0 has no solution at 1
    y0 = np.concatenate([rng.standard_normal((count, 2)), rng.uniform(0.5, 1.0, (count, 1))], axis=1)
    event = ode.Event(lambda t, y, args: y[0] - 0.2, terminal=bool(rng.integers(2))) if rng.integers(2) else None

    def one(y: Any, rates: Any) -> Any:
        s = ode.solve(growth, y, [0.0, 0.3, 1.0], args=rates, solver=solver, rtol=1e-5, atol=1e-7, events=event, max_steps=400)
        return s.ys, s.steps, s.status, *(() if event is None else (s.t_event, s.y_event))

    mapped, alone = wf.jit(wf.vmap(one)), wf.jit(one)
    got = mapped(wf.array(y0), wf.array(rates))
    assert all(g.shape[0] == count for g in got)
    for k in {*rng.integers(0, count, 5).tolist(), 0, count - 1} if count else ():
        want = alone(wf.array(y0[k]), wf.array(rates[k]))
        assert int(got[2][k]) == int(want[2])
        for number, (g, w) in enumerate(zip(got, want, strict=True)):
            if number != 1 or int(want[2]) < 2:  # near a pole the number of steps depends on the last bits
                np.testing.assert_allclose(g.numpy()[k], w.numpy(), rtol=1e-7, atol=1e-8)
    assert mapped.traces == 1


def test_gradients_alone() -> None:
    print(f"seed {(seed := random.randrange(1 << 40))}")
    rng = np.random.default_rng(seed)
    rates, y0 = np.stack([10 ** rng.uniform(-1, 1, 9), np.full(9, 0.3)], axis=1), rng.uniform(0.2, 1, (9, 3))

    def one(y: Any, rates: Any) -> Any:
        return (ode.solve(growth, y, [0.0, 1.0], args=rates, max_steps=60).ys[-1] ** 2).sum()

    got = wf.jit(wf.vmap(wf.grad(one, argnums=(0, 1))))(wf.array(y0), wf.array(rates))
    for k in range(9):
        for g, w in zip(got, wf.grad(one, argnums=(0, 1))(wf.array(y0[k]), wf.array(rates[k])), strict=True):
            np.testing.assert_allclose(g.numpy()[k], w.numpy(), rtol=1e-8, atol=1e-9)
