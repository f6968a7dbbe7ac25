"""Methods, events and states that cannot work are refused where they are made; failed solutions have NaN derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf


def decay(t: Any, y: Any, args: Any) -> Any:
    return -y


@pytest.mark.parametrize(("error", "match", "f"), [
    (TypeError, "g is 3", lambda: wf.ode.Event(3)),
    (ValueError, "direction is 2", lambda: wf.ode.Event(decay, direction=2)),
    (ValueError, "safety is -1", lambda: wf.ode.PI(safety=-1)),
    (ValueError, "least < 1", lambda: wf.ode.PI(least=2, most=0.5)),
    (ValueError, "iterations is 0", lambda: wf.ode.Kvaerno5(iterations=0)),
    (TypeError, "y0 is bfloat16", lambda: wf.ode.solve(decay, wf.ones(2, dtype="bfloat16"), [0.0, 1.0])),
    (ValueError, "atol", lambda: wf.ode.solve(decay, wf.ones(2), [0.0, 1.0], atol=wf.array([1e-6, -1.0]))),
    (TypeError, "solve: rtol must be a real number, not 'a'", lambda: wf.ode.solve(decay, wf.ones(2), [0.0, 1.0], rtol="a")),
    (TypeError, "solve: atol must be a real number, not None", lambda: wf.ode.solve(decay, wf.ones(2), [0.0, 1.0], atol=None)),
    (TypeError, "solve: rtol must be", lambda: wf.jit(lambda y: wf.ode.solve(decay, y, [0.0, 1.0], rtol=["a"]).ys)(wf.ones(2))),
    (ValueError, r"solve: atol has shape \(3,\), but .* the shape of the state, \(2,\)", lambda: wf.ode.solve(
        decay, wf.ones(2), [0.0, 1.0], atol=wf.ones(3))),
    (TypeError, "solve: dt0 must be a real number, not 'a'", lambda: wf.ode.solve(decay, wf.ones(2), [0.0, 1.0], dt0="a")),
    (TypeError, r"solve: dt0 has shape \(2,\)", lambda: wf.ode.solve(decay, wf.ones(2), [0.0, 1.0], dt0=wf.ones(2))),
    (TypeError, "event 0 returns", lambda: wf.ode.solve(decay, 1.0, [0.0, 1.0], events=wf.ode.Event(lambda t, y, a: y < 0.5))),
])
def test_refusals(error: type[Exception], match: str, f: Callable[[], Any]) -> None:
    with pytest.raises(error, match=match):
        f()


def test_forward_derivatives_of_backsolve_are_refused() -> None:
    def last(k: Any) -> Any:
        return wf.ode.solve(lambda t, y, k: -k * y, 1.0, [0.0, 1.0], args=k, adjoint=wf.ode.Backsolve()).ys[-1]

    with pytest.raises(TypeError, match="Backsolve"):
        wf.jvp(last, (1.0,), (1.0,))


def test_a_failed_solution_has_no_derivative() -> None:
    value, slope = wf.value_and_grad(lambda y: wf.ode.solve(decay, y, [0.0, 50.0], max_steps=3).ys[-1])(1.0)
    assert np.isnan(value) and np.isnan(slope)


def test_times_that_turn_back_in_jit() -> None:
    status = wf.jit(lambda ts: wf.ode.solve(decay, 1.0, ts).status)
    assert int(status(wf.array([0.0, 0.5, 1.0]))) == 0
    assert int(status(wf.array([0.0, 1.0, 0.5]))) == 3


def test_second_derivative_of_an_event() -> None:
    def landing(height: Any) -> Any:
        ground = wf.ode.Event(lambda t, y, args: y[0])
        return wf.ode.solve(lambda t, y, args: (y[1], -9.81), (height, 0.0), [0.0, 10.0], events=ground).t_event

    height = wf.array(20.0, dtype="float64")
    want = -0.25 * np.sqrt(2 / 9.81) * 20.0**-1.5
    np.testing.assert_allclose(float(wf.grad(wf.grad(landing))(height)), want, rtol=1e-4)
