"""solve: times, trees, events, transformations, bad input."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.ode.problems import NONSTIFF, draw_nonlinear
from weft import ode
from weft.errors import DTypeError, ShapeError, SolverError
from weft.ode import drive

LORENZ = NONSTIFF[0]
SOLVERS = [ode.Tsit5(), ode.Dopri8(), ode.Bosh3(), ode.Kvaerno5()]


@pytest.fixture(params=[0, 1 << 40], ids=["by intervals", "masked"])
def both_ways(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a test with both ways to compute the states at the times."""
    monkeypatch.setattr(drive, "MAX_MASKED", request.param)
    yield


def lorenz(times: Any, **options: Any) -> ode.Solution:
    return ode.solve(LORENZ.slope, wf.array(LORENZ.y0, dtype="float64"), times, **{"rtol": 1e-7, "atol": 1e-7, **options})


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_times_cost_no_steps(both_ways: None, solver: Any) -> None:
    rng = np.random.default_rng()
    few = lorenz([0.0, 2.0], solver=solver)
    times = np.sort(np.r_[0, rng.uniform(0, 2, 40), 2])
    many = lorenz(times, solver=solver)
    assert int(few.steps) == int(many.steps) and int(few.evaluations) == int(many.evaluations)
    np.testing.assert_array_equal(np.asarray(few.ys[-1]), np.asarray(many.ys[-1]))
    tolerance = 1e-2 if solver.degree == 3 else 1e-4
    np.testing.assert_allclose(np.asarray(many.ys), LORENZ.reference(times), rtol=tolerance, atol=tolerance)


def test_both_ways_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    times = np.linspace(0, 2, 31)

    def value(y: Any) -> Any:
        return (ode.solve(LORENZ.slope, y, times, rtol=1e-5, max_steps=300).ys ** 2).mean()

    y, results = wf.array(LORENZ.y0, dtype="float64"), []
    for most in (0, 1 << 40):
        monkeypatch.setattr(drive, "MAX_MASKED", most)
        results.append([np.asarray(x) for x in wf.value_and_grad(value)(y)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)


def test_backwards_in_time(both_ways: None) -> None:
    problem = draw_nonlinear(np.random.default_rng())
    start = wf.array(problem.y0, dtype="float64")
    there = ode.solve(problem.slope, start, [0.0, 0.4, 1.0], rtol=1e-9, atol=1e-9)
    back = ode.solve(problem.slope, there.ys[-1], [1.0, 0.4, 0.0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.asarray(back.ys), np.asarray(there.ys)[::-1], rtol=1e-5, atol=1e-6)


def test_repeated_times(both_ways: None) -> None:
    decay = lambda t, y, args: -y  # noqa: E731
    got = ode.solve(decay, 1.0, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(got.ys), np.exp([0.0, 0, -1, -1, -2, -2]), rtol=1e-5)
    for times in ([3.0], [3.0, 3.0]):
        one = ode.solve(decay, wf.array([1.0, 2.0]), times)
        np.testing.assert_array_equal(np.asarray(one.ys), [[1, 2]] * len(times))
        assert int(one.steps) == int(one.status) == 0
        fixed = ode.solve(decay, wf.array([1.0, 2.0]), times, solver=ode.RK4())
        np.testing.assert_array_equal(np.asarray(fixed.ys), [[1, 2]] * len(times))


@dataclasses.dataclass
class Pair:
    first: Any
    second: Any


def test_trees() -> None:
    """Nested trees, a dataclass, numbers; leaves keep their shapes and dtypes; sums of leaves of two dtypes are in the wider."""
    start = {"a": wf.ones((2, 3)), "b": (1.0, wf.array([2.0], dtype="float64")), "c": Pair(wf.ones(()), 3)}

    def f(t: Any, y: Any, args: Any) -> Any:
        assert y["a"].shape == (2, 3) and y["c"].second.shape == ()
        return {"a": -y["a"] * args["rate"], "b": (-y["b"][0], -y["b"][1]), "c": Pair(-y["c"].first, 0.0 * y["c"].second)}

    got = ode.solve(f, start, [0.0, 1.0], args={"rate": 2.0}, rtol=1e-6).ys
    np.testing.assert_allclose(np.asarray(got["a"][1]), np.full((2, 3), np.exp(-2)), rtol=1e-4)
    np.testing.assert_allclose(float(got["b"][0][1]), np.exp(-1), rtol=1e-4)
    assert got["b"][1].dtype == np.float64 and got["a"].dtype == np.float32 and got["b"][1].shape == (2, 1)
    assert float(got["c"].second[1]) == 3 and isinstance(got["c"], Pair)


def test_save() -> None:
    got = ode.solve(lambda t, y, a: (y[1], -y[0]), (1.0, 0.0), [0.0, 1.0, 2.0], rtol=1e-6,
                    save=lambda t, y, a: {"energy": y[0] ** 2 + y[1] ** 2, "t": 2 * t})
    np.testing.assert_allclose(np.asarray(got.ys["energy"]), 1, rtol=1e-4)
    np.testing.assert_array_equal(np.asarray(got.ys["t"]), [0, 2, 4])


@pytest.mark.drawn(5)
@pytest.mark.parametrize("solver", SOLVERS + [ode.RK4()], ids=lambda s: type(s).__name__)
def test_jit_has_the_same_bits(both_ways: None, solver: Any) -> None:
    times = np.linspace(0, 1, 5)
    options: dict[str, Any] = {"dt0": 0.02} if not solver.error_order else {}

    def f(y: Any, rate: Any) -> Any:
        s = ode.solve(lambda t, y, r: LORENZ.slope(t, y) * r, y, times, args=rate, solver=solver, **options)
        return s.ys, s.steps

    jitted = wf.jit(f)
    for k in range(4):
        y = wf.array([1.0 + k, 1.0, 0.5], dtype="float64")
        for a, b in zip(f(y, wf.array(1.0 - 0.1 * k)), jitted(y, wf.array(1.0 - 0.1 * k)), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert jitted.traces == 1


@pytest.mark.drawn(3)
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_vmap(both_ways: None, solver: Any) -> None:
    """Each example has steps of its own: its bits are those that it has alone, in value and gradient."""
    rng = np.random.default_rng()
    rows = wf.array(rng.normal(size=(4, 2)) * np.array([[0.1], [1.0], [3.0], [5.0]]))

    def value(y: Any) -> Any:
        f = lambda t, y, args: wf.stack([y[1], -(y[0] ** 3)])  # noqa: E731
        s = ode.solve(f, y, [0.0, 0.3, 1.0], rtol=1e-5, solver=solver, max_steps=800)
        return s.ys.sum(), s.steps

    total, steps = wf.vmap(value)(rows)
    assert len(set(np.asarray(steps).tolist())) > 1
    slope = wf.vmap(wf.grad(lambda y: value(y)[0]))(rows)
    other = wf.grad(lambda rows: wf.vmap(value)(rows)[0].sum())(rows)
    for k in range(4):
        alone, count = value(rows[k])
        np.testing.assert_allclose(float(total[k]), float(alone), rtol=1e-12)
        assert int(count) == int(steps[k])
        want = np.asarray(wf.grad(lambda y: value(y)[0])(rows[k]))
        np.testing.assert_allclose(np.asarray(slope[k]), want, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(np.asarray(other[k]), want, rtol=1e-9, atol=1e-12)


def test_event_of_a_falling_ball(both_ways: None) -> None:
    rng = np.random.default_rng()
    height, times = float(rng.uniform(1, 20)), [0.0, 0.1, 5.0, 10.0]
    fall = lambda t, y, g: (y[1], -g)  # noqa: E731
    start = wf.array(height, dtype="float64"), wf.array(0.0, dtype="float64")
    ground = ode.Event(lambda t, y, g: y[0])
    got = ode.solve(fall, start, times, args=9.81, events=ground, rtol=1e-8, atol=1e-8)
    want = np.sqrt(2 * height / 9.81)
    assert int(got.status) == 1
    np.testing.assert_allclose(float(got.t_event), want, rtol=1e-6)
    np.testing.assert_allclose(float(got.y_event[1]), -9.81 * want, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(got.ys[0]), [height, height - 9.81 * 0.005, 0, 0], atol=1e-5)
    np.testing.assert_array_equal(np.asarray(got.ys[1][2:]), [float(got.y_event[1])] * 2)

    def hit(height: Any) -> Any:
        return ode.solve(fall, (height, height * 0), times, args=9.81, events=ground, rtol=1e-8, atol=1e-8).t_event

    np.testing.assert_allclose(float(wf.grad(hit)(start[0])), want / (2 * height), rtol=1e-5)
    np.testing.assert_allclose(float(wf.jit(wf.grad(hit))(start[0])), want / (2 * height), rtol=1e-5)
    heights = np.array([1.0, 2.0, 40.0])
    np.testing.assert_allclose(np.asarray(wf.vmap(hit)(wf.array(heights))), np.sqrt(2 * heights / 9.81), rtol=1e-6)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("direction, want", [(0, np.pi / 2), (-1, np.pi / 2), (1, 3 * np.pi / 2)])
@pytest.mark.parametrize("backwards", [False, True])
def test_directions_of_events(direction: int, want: float, backwards: bool) -> None:
    sign = -1.0 if backwards else 1.0
    wave = lambda t, y, a: (y[1], -y[0])  # noqa: E731
    events = [ode.Event(lambda t, y, a: y[0], direction=direction), ode.Event(lambda t, y, a: y[0] - 5.0),
              ode.Event(lambda t, y, a: y[0] - 0.5, terminal=False)]
    one, zero = wf.array(1.0, dtype="float64"), wf.array(0.0, dtype="float64")
    got = ode.solve(wave, (one, zero), [0.0, sign * 9.0], events=events, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(float(got.t_event[0]), sign * want, rtol=1e-6)
    assert np.isnan(float(got.t_event[1])) and np.isnan(float(got.y_event[1][0]))
    np.testing.assert_allclose(float(got.t_event[2]), sign * np.pi / 3, rtol=1e-6)
    none = ode.solve(wave, (one, zero), [0.0, sign * 1.0], events=events[0])
    assert int(none.status) == 0 and np.isnan(float(none.t_event[0] if isinstance(none.t_event, tuple) else none.t_event))


@pytest.mark.parametrize("solver", [ode.Tsit5(), ode.Euler(), ode.Kvaerno5(), ode.Dopri8()])
def test_states_without_elements(solver: Any) -> None:
    options: dict[str, Any] = {} if solver.error_order else {"control": ode.ConstantSteps()}
    for shape in ((0,), (3, 0)):
        solution = ode.solve(lambda t, y, rate: -rate * y, wf.ones(shape), [0.0, 0.5, 1.0], args=2.0, solver=solver, **options)
        assert solution.ys.shape == (3, *shape) and solution.status == 0
        slope = wf.jit(wf.grad(lambda y: ode.solve(lambda t, y, _: -y, y, [0.0, 1.0], solver=solver, **options).ys.sum()))
        assert slope(wf.ones(shape)).shape == shape


def test_failures() -> None:
    """Outside of transformations an error with the last time and state; inside, a status and NaN."""
    cases = [
        (lambda y: ode.solve(lambda t, y, a: y * y, y, [0.0, 0.5, 2.0]), 3),  # not defined from t = 1 on
        (lambda y: ode.solve(lambda t, y, a: y * float("nan"), y, [0.0, 0.5, 2.0]), 3),
        (lambda y: ode.solve(lambda t, y, a: -y, y * float("nan"), [0.0, 0.5, 2.0]), 3),
        (lambda y: ode.solve(lambda t, y, a: wf.sin(100 * t) + y, y, [0.0, 1e-4, 2.0], max_steps=5), 2),
        (lambda y: ode.solve(lambda t, y, a: y * y, y, [0.0, 0.5, 40.0], solver=ode.RK4(), dt0=0.1), 3),
        (lambda y: ode.solve(lambda t, y, a: y ** 3 * 50, y, [0.0, 50.0, 1e3], solver=ode.RK4()), 3),
    ]
    for k, (f, status) in enumerate(cases):
        with pytest.raises(SolverError, match="stopped at t =") as caught:
            f(wf.array(1.0))
        assert caught.value.t is not None and caught.value.y.shape == ()
        got = wf.jit(f)(wf.array(1.0))
        assert int(got.status) == status, k
        assert not np.isfinite(np.asarray(got.ys[-1])), k
    blown = wf.jit(cases[0][0])(wf.array(1.0))
    np.testing.assert_allclose(np.asarray(blown.ys[1]), 2, rtol=1e-2)


def test_float32_and_number_of_evaluations() -> None:
    def f(t: Any, y: Any, args: Any) -> Any:
        assert y.dtype == t.dtype == np.float32
        return -y

    for times in ([0.0, 1.0], np.array([0.0, 1.0]), wf.array([0, 1])):
        got = ode.solve(f, wf.ones(3), times)
        assert got.ys.dtype == np.float32
    assert int(got.evaluations) == 2 + 6 * int(got.steps)


def test_bad_input() -> None:
    y = wf.ones(3)
    decay = lambda t, y, args: -y  # noqa: E731
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        (dict(f=lambda t, y, a: y[:2]), ShapeError, r"f returns an array of shape \(2,\) where y0 has \(3,\)"),
        (dict(f=lambda t, y, a: (y, y)), TypeError, "f returns .* but must return a tree like y0: one array"),
        (dict(f=3), TypeError, "f is 3"),
        (dict(ts=[0.0, 2.0, 1.0]), ValueError, r"ts turns back: ts\[1\] is 2 and ts\[2\] is 1"),
        (dict(ts=wf.array([0.0, 2.0, 1.0])), ValueError, "ts turns back"),
        (dict(ts=[2.0, 1.0, 1.5]), ValueError, "ts turns back"),
        (dict(ts=[0.0, float("nan")]), ValueError, "not finite"),
        (dict(ts=[]), ShapeError, "at least one time"),
        (dict(ts=wf.ones((2, 2))), ShapeError, r"ts has shape \(2, 2\)"),
        (dict(rtol=0.0), ValueError, "rtol is 0.0"),
        (dict(atol=-1.0), ValueError, "atol is -1.0"),
        (dict(solver="tsit5"), TypeError, "solver is 'tsit5'"),
        (dict(solver=ode.Tsit5), TypeError, "solver is"),
        (dict(solver=ode.RK4(), control=ode.PI()), ValueError, "RK4 does not estimate its error"),
        (dict(control=3), TypeError, "control is 3"),
        (dict(max_steps=0), ValueError, "max_steps is 0"),
        (dict(max_steps=1.5), ValueError, "max_steps is 1.5"),
        (dict(adjoint=True), TypeError, "adjoint is True"),
        (dict(events=[3]), TypeError, "events must be"),
        (dict(events=ode.Event(lambda t, y, a: y)), ShapeError, r"g of events\[0\] returns an array of shape \(3,\)"),
        (dict(events=ode.Event(lambda t, y, a: y[0]), solver=ode.RK4()), ValueError, "events need steps"),
        (dict(events=ode.Event(lambda t, y, a: y[0]), adjoint=ode.Backsolve()), ValueError, "Backsolve"),
        (dict(solver=ode.Leapfrog(), dt0=0.1), TypeError, "f must be a pair"),
        (dict(solver=ode.Leapfrog(), dt0=0.1, f=(decay, decay)), TypeError, "y0 must be a pair"),
        (dict(solver=ode.Leapfrog(), dt0=0.1, f=(decay, decay), y0=(y, wf.ones(2))), ShapeError, "positions in y0"),
        (dict(y0=y + 1j), DTypeError, "complex"),
        (dict(y0="x"), TypeError, "y0, leaf 0"),
        (dict(y0={}), ShapeError, "empty tree"),
        (dict(dt0=-0.1), ValueError, "dt0 is -0.1"),
    ]
    for options, kind, message in cases:
        with pytest.raises(kind, match=message) as caught:
            ode.solve(**{"f": decay, "y0": y, "ts": [0.0, 1.0], **options})
        assert any(frame.filename == __file__ for frame in traceback.extract_tb(caught.value.__traceback__))
