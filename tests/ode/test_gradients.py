"""Gradients through solvers: against central differences, of both adjoints, to states, times, arguments and modules."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.ode.problems import NONSTIFF
from weft import ode
from weft.errors import TraceError
from weft.ode import drive

FIXED = {"dt0": 0.02, "control": ode.ConstantSteps()}
SOLVERS = [
    (ode.Tsit5(), {}), (ode.Dopri5(), {}), (ode.Dopri8(), {}), (ode.Bosh3(), {}), (ode.Kvaerno3(iterations=8), {}),
    (ode.Kvaerno5(iterations=8), {}), (ode.RK4(), {"dt0": 0.02}), (ode.RK4(), {}), (ode.Heun(), FIXED),
    (ode.ImplicitEuler(iterations=12), FIXED),
]


def central(f: Callable[[Any], Any], x: np.ndarray, step: float) -> np.ndarray:
    """Return the gradient of f by central differences."""
    out = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[k] = step
        out[k] = (float(f(wf.array(x + e))) - float(f(wf.array(x - e)))) / (2 * step)
    return out


def loss_of(solver: Any, options: dict[str, Any], adjoint: Any = None) -> Callable[..., Any]:
    """Return a function of state, arguments and times: a loss of a random-looking nonlinear problem."""
    def f(t: Any, y: Any, args: Any) -> Any:
        w, b = args
        return wf.tanh(y @ w) - 0.5 * y + b * wf.cos(t)

    def loss(y: Any, args: Any, ts: Any) -> Any:
        tolerance = 1e-7 if solver.order <= 3 else 1e-9
        out = ode.solve(
            f, y, ts, args=args, solver=solver, rtol=tolerance, atol=tolerance, adjoint=adjoint, max_steps=1000, **options,
        )
        return (out.ys * wf.sin(wf.arange(out.ys.size).reshape(out.ys.shape))).sum()

    return loss


@pytest.mark.drawn(8)
@pytest.mark.parametrize("most", [0, 1 << 40])
@pytest.mark.parametrize("solver, options", SOLVERS)
def test_against_central_differences(solver: Any, options: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "MAX_MASKED", most)
    rng = np.random.default_rng()
    y, w, b = rng.uniform(-1, 1, 2), rng.uniform(-1, 1, (2, 2)), rng.uniform(-1, 1, 2)
    ts = np.array([0.1, 0.45, 1.0])
    loss = loss_of(solver, options)
    d_y, (d_w, d_b), d_ts = wf.jit(wf.grad(loss, (0, 1, 2)))(wf.array(y), (wf.array(w), wf.array(b)), wf.array(ts))
    # steps that change with the argument give differences a noise of the tolerance by the step of the differences
    step, close = (1e-3, dict(rtol=1e-3, atol=1e-3)) if solver.order <= 3 else (1e-4, dict(rtol=1e-4, atol=1e-4))
    jitted = wf.jit(loss)
    start, times, held = wf.array(y), wf.array(ts), (wf.array(w), wf.array(b))
    np.testing.assert_allclose(np.asarray(d_y), central(lambda x: jitted(x, held, times), y, step), **close)
    np.testing.assert_allclose(np.asarray(d_w), central(lambda x: jitted(start, (x, held[1]), times), w, step), **close)
    np.testing.assert_allclose(np.asarray(d_b), central(lambda x: jitted(start, (held[0], x), times), b, step), **close)
    if not options and solver.error_order:  # constant steps depend on times by more than the solution does
        np.testing.assert_allclose(np.asarray(d_ts), central(lambda x: jitted(start, held, x), ts, step), rtol=3e-2, atol=3e-3)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("solver, options", [SOLVERS[0], SOLVERS[2], SOLVERS[5], (ode.RK4(), {"dt0": 0.005})])
@pytest.mark.parametrize("jit", [False, True])
def test_adjoints_agree(solver: Any, options: dict[str, Any], jit: bool) -> None:
    rng = np.random.default_rng()
    y, args = wf.array(rng.uniform(-1, 1, 2)), (wf.array(rng.uniform(-1, 1, (2, 2))), wf.array(rng.uniform(-1, 1, 2)))
    for ts in ([0.1, 0.45, 0.45, 1.0], [1.0, 0.3]):
        results = []
        for adjoint in (None, ode.Backsolve()):
            f = wf.value_and_grad(loss_of(solver, options, adjoint), (0, 1, 2))
            results.append((wf.jit(f) if jit else f)(y, args, wf.array(ts, dtype="float64")))
        for a, b in zip(*[wf.tree_leaves(r) for r in results], strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)


def test_backsolve_under_vmap_and_twice() -> None:
    rng = np.random.default_rng()
    rows = wf.array(rng.uniform(-1, 1, (3, 2)))
    args = wf.array(rng.uniform(-1, 1, (2, 2))), wf.array([0.1, -0.2], dtype="float64")
    ts = wf.array([0.0, 0.5, 1.0], dtype="float64")
    found = []
    for adjoint in (None, ode.Backsolve()):
        loss = loss_of(ode.Tsit5(), {}, adjoint)
        total = lambda rows, args, loss=loss: wf.vmap(lambda y: loss(y, args, ts))(rows).sum()  # noqa: E731
        many = wf.vmap(wf.grad(lambda y, loss=loss: loss(y, args, ts)))(rows)
        second = wf.grad(lambda y, loss=loss: (wf.grad(lambda y: loss(y, args, ts))(y) ** 2).sum())(rows[0])
        found.append(wf.tree_leaves((wf.grad(total, (0, 1))(rows, args), many, second)))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)


def test_closures() -> None:
    """Gradients flow to arrays that f reads; Backsolve refuses them."""
    def loss(rate: Any, adjoint: Any = None, closed: bool = True) -> Any:
        f = (lambda t, y, args: -rate * y) if closed else (lambda t, y, args: -args * y)
        return ode.solve(f, 1.0, [0.0, 2.0], args=rate, rtol=1e-6, adjoint=adjoint).ys[-1]

    rate = wf.array(0.7)
    np.testing.assert_allclose(float(wf.grad(loss)(rate)), -2 * np.exp(-1.4), rtol=1e-4)
    np.testing.assert_allclose(float(wf.grad(lambda r: loss(r, ode.Backsolve(), False))(rate)), -2 * np.exp(-1.4), rtol=1e-4)
    with pytest.raises(TraceError, match="pass the array in args, or use adjoint=None"):
        wf.grad(lambda r: loss(r, ode.Backsolve()))(rate)
    np.testing.assert_allclose(float(loss(rate, ode.Backsolve())), np.exp(-1.4), rtol=1e-4)  # without a gradient


def test_chaos_has_a_finite_gradient_although_steps_are_rejected() -> None:
    problem = NONSTIFF[0]
    value = lambda y: ode.solve(problem.slope, y, [0.0, 2.0], max_steps=300).ys[-1].sum()  # noqa: E731
    start = wf.array(problem.y0)
    assert int(ode.solve(problem.slope, start, [0.0, 2.0]).rejected) > 0
    assert np.isfinite(np.asarray(wf.grad(value)(start))).all()


@pytest.mark.drawn(3)
@pytest.mark.parametrize("most", [0, 1 << 40])
@pytest.mark.parametrize("solver", [ode.Tsit5(), ode.Dopri8(), ode.Kvaerno5(iterations=8)], ids=lambda s: type(s).__name__)
def test_gradients_although_a_rejected_step_overflows(solver: Any, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step is far too long. With and without other examples beside it, whose steps differ."""
    monkeypatch.setattr(drive, "MAX_MASKED", most)
    print(f"seed {(seed := random.randrange(1 << 40))}")
    rng = np.random.default_rng(seed)
    y, a, first = rng.uniform(0.9, 1.6, (3, 2)), rng.uniform(0.5, 1.0, 2), float(rng.uniform(1.5, 4.0))

    def solve(y: Any, a: Any) -> Any:
        def f(t: Any, y: Any, a: Any) -> Any:
            return a * wf.exp(y * y) - y * wf.exp(3.0 * y) + 0.1 * y[::-1]

        return ode.solve(f, y, [0.0, 0.5, 2.0], args=a, solver=solver, dt0=first, rtol=1e-9, atol=1e-9, max_steps=400)

    def many(y: Any, a: Any) -> Any:
        return wf.vmap(lambda y: solve(y, a).ys[1:].sum())(y).sum()

    assert int(solve(wf.array(y[0]), wf.array(a)).rejected) > 0
    for f, start in ((lambda y, a: solve(y, a).ys[1:].sum(), y[0]), (many, y)):
        jitted = wf.jit(f)
        d_y, d_a = wf.jit(wf.grad(f, (0, 1)))(wf.array(start), wf.array(a))
        by_y = central(lambda y, f=jitted: f(y, wf.array(a)), start, 1e-4)
        by_a = central(lambda a, f=jitted, start=start: f(wf.array(start), a), a, 1e-4)
        np.testing.assert_allclose(d_y.numpy(), by_y, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(d_a.numpy(), by_a, rtol=1e-3, atol=1e-4)


def test_gradient_is_finite_although_newtons_method_diverges_in_a_rejected_step() -> None:
    """Robertson's reaction with rates of which the gradient was NaN: the corrections of a rejected step overflowed."""
    def f(t: Any, y: Any, rates: Any) -> Any:
        a, b, c = y
        first, last = rates[2] * b * c - rates[0] * a, rates[1] * b * b
        return wf.stack([first, -first - last, last])

    def solve(logs: Any) -> Any:
        start, ts = wf.array([1.0, 0.0, 0.0], dtype="float64"), np.concatenate([[0.0], np.logspace(-5, 5, 60)])
        return ode.solve(f, start, ts, args=wf.exp(logs), solver=ode.Kvaerno5(), rtol=1e-6, atol=1e-10)

    logs = np.array([-3.08786456, 17.33245207, 9.44181363])
    assert int(solve(wf.array(logs)).rejected) > 0
    got = wf.jacrev(lambda logs: solve(logs).ys[40, 0])(wf.array(logs)).numpy()
    np.testing.assert_allclose(got, central(lambda logs: solve(logs).ys[40, 0], logs, 1e-3), rtol=1e-2)


@pytest.mark.parametrize("adjoint", [None, ode.Backsolve()])
def test_neural_ode_learns(adjoint: Any) -> None:
    """A net learns a spiral; one trace, and the weights of the caller's net change."""
    ts = np.linspace(0, 1, 9)
    want = ode.solve(lambda t, y, a: wf.stack([-0.5 * y[0] + 2 * y[1], -2 * y[0] - 0.5 * y[1]]), wf.array([1.0, 0.0]), ts).ys
    wf.random.seed(0)
    net = wf.nn.Sequential(wf.nn.Linear(2, 16), wf.nn.Tanh(), wf.nn.Linear(16, 2))
    model = wf.nn.NeuralODE(net, ts=ts, adjoint=adjoint, max_steps=200)
    optimizer = wf.optim.Adam(0.02).init(model)

    @wf.jit
    def step(y: Any) -> Any:
        loss, slope = wf.value_and_grad(lambda m: ((m(y) - want) ** 2).mean())(model)
        optimizer.update(model, slope)
        return loss

    losses = [float(step(wf.array([1.0, 0.0]))) for _ in range(200)]
    assert losses[-1] < 0.02 * losses[0] and step.traces == 1
    assert wf.nn.NeuralODE(net, takes_time=False)(wf.ones((4, 2))).shape == (4, 2)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("loop", ["scan", "while_loop"])
def test_adjoint_solutions_in_loops_read_arrays_from_outside(loop: str, jitted: bool) -> None:
    weights = np.random.default_rng(3).uniform(0.5, 1.5, 2)

    def solved(adjoint: Any, weights: Any, rate: Any) -> Any:
        w = wf.tanh(wf.array(weights)) * 2

        def one(y: Any) -> Any:
            f = lambda t, y, rate: -y * w * rate  # noqa: E731
            return ode.solve(f, y * rate, [0.0, 0.7], args=rate, rtol=1e-7, atol=1e-9, adjoint=adjoint).ys[-1]

        if loop == "scan":
            return wf.scan(lambda y, _: (one(y), None), wf.ones(2, dtype="float64"), None, length=3)[0].sum()
        start = 0.0, wf.ones(2, dtype="float64")
        return wf.while_loop(lambda s: s[0] < 3.0, lambda s: (s[0] + 1, one(s[1])), start, max_steps=5)[1].sum()

    slopes = []
    for adjoint in (None, ode.Backsolve()):
        grad = wf.grad(solved, argnums=2)
        grad = wf.jit(grad, static_argnums=0) if jitted else grad
        slopes.append(float(grad(adjoint, wf.array(weights), wf.array(0.8, "float64"))))
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-5)
