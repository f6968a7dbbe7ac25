"""Solvers: orders of convergence on random problems, and errors against SciPy on problems of the literature."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import weft as wf
from tests.ode.problems import NONSTIFF, STIFF, Problem, draw_linear, draw_nonlinear
from weft import ode

FIXED = ode.ConstantSteps()
EXPLICIT = [
    ode.Euler(), ode.Heun(), ode.Midpoint(), ode.Ralston(), ode.RK4(), ode.Bosh3(), ode.Dopri5(), ode.Tsit5(), ode.Dopri8(),
]
IMPLICIT = [ode.ImplicitEuler(iterations=12), ode.Kvaerno3(iterations=12), ode.Kvaerno5(iterations=12)]
COARSEST = {1: 32, 2: 16, 3: 8, 4: 4, 5: 3, 8: 1}  # steps of the longest step size, by order


def name(x: Any) -> str:
    return type(x).__name__ if not isinstance(x, Problem) else x.name


def slopes(errors: list[float]) -> list[float]:
    return [math.log2(a / b) for a, b in zip(errors, errors[1:], strict=False)]


@pytest.mark.drawn(6)
@pytest.mark.parametrize("solver", EXPLICIT + IMPLICIT, ids=name)
@pytest.mark.parametrize("draw", [draw_linear, draw_nonlinear])
def test_order(solver: Any, draw: Any) -> None:
    """The error of a trajectory, over six drawn problems; one problem alone may meet a change of sign of its error."""
    seed = random.randrange(1 << 40)
    print("seed", seed)  # shown if the test fails
    rng = np.random.default_rng(seed)
    coarsest, refinements = COARSEST[solver.order] * (1 + (solver in IMPLICIT)), 4  # Newton's method fails on long steps
    squares = np.zeros(refinements)
    for problem in [draw(rng) for _ in range(6)]:
        want = problem.reference(np.linspace(0, problem.end, coarsest + 1))
        for k in range(refinements):
            grid = np.linspace(0, problem.end, (coarsest << k) + 1)
            got = ode.solve(problem.slope, wf.array(problem.y0, dtype="float64"), grid, solver=solver, control=FIXED,
                            rtol=1e-9, atol=1e-12)
            squares[k] += float(np.mean((np.asarray(got.ys)[:: 1 << k] - want) ** 2))
            assert int(got.steps) == coarsest << k
    errors = [float(e) for e in np.sqrt(squares / 6) if e > 1e-12]  # below, the error of the reference counts
    assert len(errors) > 1
    assert max(slopes(errors)) > solver.order - 0.5, errors


@pytest.mark.drawn(3)
@pytest.mark.parametrize("solver", EXPLICIT + IMPLICIT, ids=name)
def test_order_inside_of_steps(solver: Any) -> None:
    """Times inside of steps have the order of the polynomial, and cost no steps."""
    order = min(solver.order, {4: 4, 6: 7, 3: 3}[solver.degree])
    seed = random.randrange(1 << 40)
    print("seed", seed)
    rng = np.random.default_rng(seed)
    coarsest, squares = COARSEST[solver.order] * (1 + (solver in IMPLICIT)), np.zeros(4)
    for problem in [draw_nonlinear(rng) for _ in range(4)]:
        times = np.sort(np.r_[0, rng.uniform(0, problem.end, 5), problem.end])
        want = problem.reference(times)
        for k in range(4):
            got = ode.solve(
                problem.slope, wf.array(problem.y0, dtype="float64"), times, solver=solver, control=FIXED,
                dt0=problem.end / (coarsest << k), rtol=1e-9, atol=1e-12,
            )
            assert int(got.steps) == coarsest << k
            squares[k] += float(np.mean((np.asarray(got.ys) - want) ** 2))
    errors = [float(e) for e in np.sqrt(squares / 4) if e > 1e-12]
    assert max(slopes(errors)) > order - 0.7, errors


@pytest.mark.parametrize("solver", [ode.SymplecticEuler(), ode.Leapfrog()], ids=name)
def test_symplectic(solver: Any) -> None:
    """The order on a random pendulum, and an energy that does not drift."""
    rng = np.random.default_rng()
    q, p, g = rng.uniform(0.5, 1.5), rng.uniform(-0.5, 0.5), rng.uniform(0.5, 2)
    pair = (lambda t, p, g: p, lambda t, q, g: -g * wf.sin(q))
    want = solve_ivp(lambda t, y: [y[1], -g * np.sin(y[0])], (0, 2), [q, p], method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    start = wf.array([q], dtype="float64"), wf.array([p], dtype="float64")
    errors = []
    for k in range(3):
        got = ode.solve(pair, start, [0.0, 1.0, 2.0], args=float(g), solver=solver, dt0=0.05 / 2**k)
        errors.append(float(np.hypot(*[np.asarray(x)[-1, 0] - w for x, w in zip(got.ys, want, strict=True)])))
    assert max(slopes(errors)) > solver.order - 0.3, errors
    times = np.arange(0, 500, 5.0)
    far = ode.solve(pair, start, times, args=float(g), solver=solver, dt0=0.05, max_steps=20000)
    energy = np.asarray(far.ys[1])[:, 0] ** 2 / 2 - g * np.cos(np.asarray(far.ys[0])[:, 0])
    assert np.abs(energy - energy[0]).max() < 0.1
    assert abs(np.polyfit(times, energy, 1)[0]) < 1e-4


@pytest.mark.drawn(10)
@pytest.mark.parametrize("problem", NONSTIFF, ids=name)
@pytest.mark.parametrize("solver", [s for s in EXPLICIT if s.error_order > 2] + [ode.Kvaerno5()], ids=name)
def test_literature(problem: Problem, solver: Any) -> None:
    times = np.linspace(0, problem.end, 7)
    want = problem.reference(times)
    size = np.abs(want).max()
    for tolerance in (1e-4, 1e-7) if solver.order > 3 else (1e-4,):
        got = ode.solve(
            problem.slope, wf.array(problem.y0, dtype="float64"), times, solver=solver, rtol=tolerance, atol=tolerance,
            max_steps=100_000,
        )
        error = np.abs(np.asarray(got.ys) - want).max() / size
        assert error < 3e3 * tolerance, (problem.name, tolerance, error)
        assert int(got.status) == 0 and int(got.steps) == int(got.accepted) + int(got.rejected)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("problem", STIFF, ids=name)
@pytest.mark.parametrize("solver", [ode.Kvaerno3(), ode.Kvaerno5()], ids=name)
def test_stiff(problem: Problem, solver: Any) -> None:
    times = np.r_[0, np.geomspace(problem.end / 100, problem.end, 5)]
    want = problem.reference(times)
    start = wf.array(problem.y0, dtype="float64")
    got = ode.solve(problem.slope, start, times, solver=solver, rtol=1e-5, atol=wf.array([1e-7, 1e-10, 1e-7][: len(problem.y0)]))
    np.testing.assert_allclose(np.asarray(got.ys), want, rtol=1e-2, atol=1e-6)
    assert int(got.steps) < 1500  # an explicit solver needs more than 10,000 for either


def test_large_implicit_system() -> None:
    """More than eight elements: LAPACK inverts, and Python drives the loop."""
    n = 12
    a = -2 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
    start = np.sin(np.pi * np.arange(1, n + 1) / (n + 1))
    rate = 2 - 2 * np.cos(np.pi / (n + 1))
    heat = wf.array(100 * a)
    got = ode.solve(lambda t, y, args: heat @ y, wf.array(start), [0.0, 0.1, 1.0], solver=ode.Kvaerno5(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.asarray(got.ys[1]), start * np.exp(-100 * rate * 0.1), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("pcoeff, icoeff", [(0.0, 1.0), (0.4, 0.3), (0.2, 0.65)])
def test_controls(pcoeff: float, icoeff: float) -> None:
    problem = NONSTIFF[0]
    times = np.linspace(0, problem.end, 3)
    got = ode.solve(
        problem.slope, wf.array(problem.y0, dtype="float64"), times, rtol=1e-7, atol=1e-7, control=ode.PI(pcoeff, icoeff),
    )
    np.testing.assert_allclose(np.asarray(got.ys), problem.reference(times), rtol=1e-4)
    assert int(got.steps) < 150


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_inverse(n: int) -> None:
    from weft.ode.implicit import invert

    for _ in range(5):
        a = np.random.default_rng().standard_normal((n, n))
        a[0, 0] = 0 if n > 1 else a[0, 0]  # needs a pivot
        np.testing.assert_allclose(np.asarray(invert(wf.array(a))) @ a, np.eye(n), atol=1e-7 * np.linalg.cond(a))
