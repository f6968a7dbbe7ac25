"""minimize beside SciPy on random problems, and its contracts: callbacks, ends, traces, trees, bounds, bad input."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import weft as wf
from weft.errors import DTypeError, ShapeError, TraceError

LINE = [("L-BFGS", "L-BFGS-B"), ("BFGS", "BFGS")]


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def quadratic(seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return a convex quadratic, its minimum, and a start."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    a = q @ np.diag(10 ** rng.uniform(-1, 1.5, n)) @ q.T
    best, start = rng.standard_normal((2, n))
    matrix = wf.array(a)
    return (lambda x: 0.5 * ((x - wf.array(best)) @ (matrix @ (x - wf.array(best)))) + 2), best, start


def logistic(seed: int) -> tuple[Any, Any, np.ndarray]:
    """Return a regularised logistic regression for weft and for NumPy, and a start."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    x = rng.standard_normal((60, n))
    sign = np.where(x @ rng.standard_normal(n) + 0.5 * rng.standard_normal(60) > 0, 1.0, -1.0)

    def loss(xp: Any, to: Any) -> Any:
        return lambda w: (xp.log1p(xp.exp(-to(sign) * (to(x) @ w)))).mean() + 0.01 * (w * w).sum()

    return loss(wf, wf.array), loss(np, np.asarray), np.zeros(n)


def of_scipy(loss: Any, start: np.ndarray, method: str, **options: Any) -> Any:
    """Minimise with SciPy and weft's gradient."""
    both = wf.jit(wf.value_and_grad(loss))

    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = both(wf.array(x))
        return float(value), slope.numpy()

    return scipy.optimize.minimize(function, start, jac=True, method=method, **options)


@pytest.mark.parametrize(("method", "theirs"), LINE)
@pytest.mark.parametrize("seed", range(4))
def test_quadratics(method: str, theirs: str, seed: int) -> None:
    loss, best, start = quadratic(seed)
    got = wf.optim.minimize(loss, wf.array(start), method)
    want = of_scipy(loss, start, theirs)
    np.testing.assert_allclose(got.params.numpy(), best, atol=1e-3)
    assert got.converged
    assert got.loss == pytest.approx(2, abs=1e-7)
    assert got.evaluations <= 2 * want.nfev + 8


@pytest.mark.parametrize(("method", "theirs"), LINE)
@pytest.mark.parametrize("n", [2, 5, 30])
def test_rosenbrock(method: str, theirs: str, n: int) -> None:
    rng = np.random.default_rng(n)
    start = np.ones(n) + 0.3 * rng.standard_normal(n)
    got = wf.optim.minimize(rosenbrock, wf.array(start), method)
    want = of_scipy(rosenbrock, start, theirs)
    np.testing.assert_allclose(got.params.numpy(), np.ones(n), atol=1e-4)
    assert got.converged
    assert got.loss < 1e-8
    assert got.evaluations <= 1.6 * want.nfev + 8
    assert got.steps <= got.evaluations


@pytest.mark.parametrize(("method", "theirs"), LINE)
@pytest.mark.parametrize("seed", range(3))
def test_logistic_regression(method: str, theirs: str, seed: int) -> None:
    loss, same, start = logistic(seed)
    got = wf.optim.minimize(loss, wf.array(start), method)
    want = scipy.optimize.minimize(same, start, method=theirs, tol=1e-10)
    assert got.loss == pytest.approx(want.fun, abs=1e-8)
    np.testing.assert_allclose(got.params.numpy(), want.x, atol=1e-3)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("method", ["L-BFGS", "BFGS", "Gauss-Newton", "LM"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtypes(method: str, dtype: str) -> None:
    """A run ends by itself at what the dtype resolves, and its results have the dtype of the parameters."""
    t = wf.linspace(0, 3, 20, dtype=dtype)
    goal = 2 * wf.exp(-t) + 0.1 * wf.cos(9 * t)
    squares = method in ("Gauss-Newton", "LM")

    def loss(p: Any) -> Any:
        r = p["a"] * wf.exp(p["k"] * t) - goal
        return r if squares else 0.5 * (r * r).sum()

    got = wf.optim.minimize(loss, {"a": wf.ones((), dtype=dtype), "k": wf.zeros((), dtype=dtype)}, method)
    assert got.converged, got.message
    assert got.params["a"].dtype == got.best_params["k"].dtype == np.dtype(dtype)

    def residuals(p: np.ndarray) -> np.ndarray:
        return p[0] * np.exp(p[1] * t.numpy().astype("float64")) - goal.numpy().astype("float64")

    want = scipy.optimize.least_squares(residuals, [1.0, 0.0], xtol=1e-14, ftol=1e-14, gtol=1e-14)
    assert got.loss == pytest.approx(want.cost, rel=1e-4 if dtype == "float32" else 1e-8)


# name, function of (wf or np, parameters, t), parameters, a distant start (as in NIST's collection)
CURVES = [
    ("misra", lambda k, p, t: p[0] * (1 - k.exp(-p[1] * t)), [239.0, 0.055], [500.0, 0.1]),
    ("chwirut", lambda k, p, t: k.exp(-p[0] * t) / (p[1] + p[2] * t), [0.19, 0.0061, 0.0105], [0.1, 0.01, 0.02]),
    ("logistic", lambda k, p, t: p[0] / (1 + k.exp(p[1] - p[2] * t)), [72.0, 2.6, 0.067], [100.0, 1.0, 0.1]),
    ("two", lambda k, p, t: p[0] * k.exp(-p[1] * t) + p[2] * k.exp(-p[3] * t), [3.0, 0.9, 1.5, 0.1], [2.0, 1.3, 1.0, 0.3]),
]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("name", "curve", "true", "start"), CURVES, ids=[c[0] for c in CURVES])
def test_least_squares(name: str, curve: Any, true: list[float], start: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.5, 60 if name != "two" else 20, 40))
    y = curve(np, true, t) * (1 + 0.01 * rng.standard_normal(40))
    want = scipy.optimize.least_squares(
        lambda p: curve(np, p, t) - y, start, method="lm", xtol=1e-14, ftol=1e-14, gtol=1e-14, x_scale="jac"
    )
    x, goal = wf.array(t), wf.array(y)
    got = wf.optim.minimize(lambda p: curve(wf, p, x) - goal, wf.array(np.array(start)), wf.optim.LevenbergMarquardt())
    assert got.converged, got.message
    assert got.loss == pytest.approx(want.cost, rel=1e-9)
    np.testing.assert_allclose(got.params.numpy(), want.x, rtol=1e-5)
    assert got.evaluations <= 3 * want.nfev + 10
    near = wf.array(np.array(true) * (1 + 0.05 * rng.standard_normal(len(true))))
    got = wf.optim.minimize(lambda p: curve(wf, p, x) - goal, near, "Gauss-Newton")
    assert got.converged, got.message
    assert got.loss == pytest.approx(want.cost, rel=1e-9)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("method", ["L-BFGS", "BFGS"])
@pytest.mark.parametrize("seed", range(5))
def test_bounds(method: str, seed: int) -> None:
    loss, best, start = quadratic(seed)
    rng = np.random.default_rng(seed)
    lower = best + rng.uniform(-1, 0.5, len(best))
    upper = lower + rng.uniform(0.1, 2, len(best))
    got = wf.optim.minimize(loss, wf.array(start), method, bounds=(wf.array(lower), upper))
    want = of_scipy(loss, start, "L-BFGS-B", bounds=list(zip(lower, upper, strict=True)), tol=1e-12)
    x = got.params.numpy()
    assert (x >= lower).all() and (x <= upper).all()
    assert got.converged, got.message
    assert got.loss == pytest.approx(want.fun, abs=1e-7)


def test_bounds_of_trees() -> None:
    def loss(p: Any) -> Any:
        return ((p["a"] - 3) ** 2).sum() + (p["b"][0] + 5) ** 2

    start = {"a": wf.zeros((2, 2)), "b": [wf.array(1.0)]}
    got = wf.optim.minimize(loss, start, bounds=(None, {"a": wf.array([1.0, 9.0]), "b": [0.5]}))
    np.testing.assert_allclose(got.params["a"].numpy(), [[1, 3], [1, 3]], atol=1e-4)
    assert float(got.params["b"][0]) == pytest.approx(-5, abs=1e-4)
    got = wf.optim.minimize(loss, start, bounds=(-1, 0.25))
    np.testing.assert_allclose(got.params["a"].numpy(), np.full((2, 2), 0.25))
    assert float(got.params["b"][0]) == -1
    for method in (wf.optim.Adam(), "Gauss-Newton", "LM"):
        with pytest.raises(ValueError, match="has no bounds: take method='L-BFGS'"):
            wf.optim.minimize(loss, start, method, bounds=(0, 1))
    for bounds, error, text in (
        ((2, 1), ValueError, "a lower bound is above"), (([1], None), ValueError, "the lower bound has the structure"),
        (1.0, TypeError, "bounds must be"), ((None, {"a": wf.ones(3), "b": [1]}), ValueError, "the upper bound .* broadcasts"),
    ):
        with pytest.raises(error, match=text):
            wf.optim.minimize(loss, start, bounds=bounds)


OPTIMIZERS = [
    lambda: wf.optim.Adam(0.05), lambda: wf.optim.SGD(0.01, momentum=0.9), lambda: wf.optim.Eve(0.02),
    lambda: wf.optim.SAM(wf.optim.SGD(0.02)), lambda: wf.optim.AdamW(0.03, groups={"*bias": {"lr": 0.01}}),
]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("each", [1, 7])
def test_optimizers_as_in_a_python_loop(make: Any, each: int) -> None:
    """Parameters and losses have the bits of value_and_grad and update in a loop, in one call or many."""
    wf.random.seed(3)
    net = wf.nn.Sequential(wf.nn.Linear(3, 5), wf.nn.Tanh(), wf.nn.Linear(5, 1))
    before = [p.numpy().copy() for p in net.parameters().values()]
    x = wf.random.normal(size=(32, 3))
    y = (x**2).sum(axis=1, keepdims=True)

    def loss(net: Any, batch: Any) -> Any:
        return wf.losses.mse(net(batch[0]), batch[1])

    seen: list[tuple[int, float, float]] = []
    result = wf.optim.minimize(
        loss, net, make(), steps=21, data=(x, y), every=each,
        callback=lambda k, params, value: seen.append((k, value, float(loss(params, (x, y))))),
    )
    assert all((a == p.numpy()).all() for a, p in zip(before, net.parameters().values(), strict=True))
    optimizer, losses = make(), []

    @wf.jit
    def step() -> Any:
        value, slope = wf.value_and_grad(loss)(net, (x, y))
        optimizer.update(net, slope, loss=value, gradient_at=lambda: wf.grad(loss)(net, (x, y)))
        return value

    for _ in range(21):
        step()
        losses.append(float(loss(net, (x, y))))
    assert [k for k, _, _ in seen] == list(range(each, 22, each))
    np.testing.assert_allclose([a for _, a, _ in seen], [b for _, _, b in seen], rtol=1e-6)
    np.testing.assert_allclose([a for _, a, _ in seen], losses[each - 1 :: each], rtol=1e-5)
    assert result.steps == 21 and not result.converged and result.message == "all 21 steps are done"
    assert result.best_loss == pytest.approx(min(*losses, float(loss(result.best_params, (x, y)))), rel=1e-5)
    for p, q in zip(result.params.parameters().values(), net.parameters().values(), strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["SantaE", "SantaSSS"])
def test_defaults_of_santa_lower_a_mean_loss(name: str) -> None:
    """By the median of three runs: one run in some hundreds ends in a bad place, since Santa samples."""
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    rng = np.random.default_rng(seed)
    wf.random.seed(seed)
    x = wf.array(rng.standard_normal((100, 5)).astype("f"))
    y = wf.sin(x @ wf.arange(5.0))[:, None]
    loss = lambda p: ((wf.tanh(x @ p["a"]) @ p["b"] + p["c"] - y) ** 2).mean()  # noqa: E731
    lowered = []
    for _ in range(3):
        start = {"a": wf.array(0.4 * rng.standard_normal((5, 16)).astype("f")), "b": wf.zeros((16, 1)), "c": wf.array(1.0)}
        result = wf.optim.minimize(loss, start, name, steps=300)
        assert result.steps == 300
        lowered.append(result.loss / float(loss(start)))
    assert np.median(lowered) < 0.8


@pytest.mark.parametrize("method", ["L-BFGS", "BFGS", "Gauss-Newton", "LM", "Adam"])
def test_callback(method: str) -> None:
    """A callback gets the parameters of the loss it gets, changes nothing, and ends the run by True."""
    squares = method in ("Gauss-Newton", "LM")
    start = wf.array(np.full(4, -0.7))

    def residuals(x: Any) -> Any:
        return wf.concatenate([10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]])

    def loss(x: Any) -> Any:
        r = residuals(x)
        return r if squares else 0.5 * (r * r).sum()

    seen: list[Any] = []
    quiet = wf.optim.minimize(loss, start, method, steps=40)
    loud = wf.optim.minimize(loss, start, method, steps=40, callback=lambda *row: seen.append(row))
    assert quiet.loss == loud.loss and (quiet.params == loud.params).all() and quiet.evaluations == loud.evaluations
    assert [k for k, _, _ in seen] == list(range(1, loud.steps + 1))
    for _, params, value in seen:
        assert 0.5 * float((residuals(params) ** 2).sum()) == pytest.approx(value, rel=1e-12, abs=1e-25)
    assert seen[-1][2] == loud.loss and min(v for _, _, v in seen) == loud.best_loss
    few: list[Any] = []
    again = wf.optim.minimize(loss, start, method, steps=40, every=3, callback=lambda k, *_: few.append(k))
    assert again.loss == loud.loss
    assert few == [k for k in range(1, again.steps + 1) if k % 3 == 0 or k == again.steps]
    ended = wf.optim.minimize(loss, start, method, callback=lambda k, *_: k == 2)
    assert ended.steps == 2 and not ended.converged and "the callback ended the run after 2 steps" in ended.message
    assert ended.loss == seen[1][2] and (ended.params == seen[1][1]).all()
    with pytest.raises(ZeroDivisionError):
        wf.optim.minimize(loss, start, method, callback=lambda *_: 1 / 0)


@pytest.mark.parametrize("method", ["L-BFGS", "BFGS", "Gauss-Newton", "LM", "Adam"])
def test_traces(method: str) -> None:
    """How often the loss is called does not depend on the number of steps."""
    calls = []
    for steps in (1, 50):
        count = itertools.count()

        def loss(x: Any, count: Any = count) -> Any:
            next(count)
            r = wf.concatenate([10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]])
            return r if method in ("Gauss-Newton", "LM") else 0.5 * (r * r).sum()

        wf.optim.minimize(loss, wf.array(np.full(5, -0.7)), method, steps=steps)
        calls.append(next(count))
    assert calls[0] == calls[1] <= 6


def test_one_method_after_another() -> None:
    start = {"x": -1.2, "y": wf.array(1.0)}

    def loss(p: Any) -> Any:
        return 100 * (p["y"] - p["x"] ** 2) ** 2 + (1 - p["x"]) ** 2

    adam = wf.optim.Adam(0.02)
    rough = wf.optim.minimize(loss, start, adam, steps=100)
    more = wf.optim.minimize(loss, rough.params, adam, steps=100)
    assert int(adam.step_count) == 200
    whole = wf.optim.minimize(loss, start, wf.optim.Adam(0.02), steps=200)
    assert more.loss == whole.loss
    fine = wf.optim.minimize(loss, more.best_params, "bfgs")
    assert fine.loss < 1e-7 < more.best_loss < float(loss({"x": -1.2, "y": wf.array(1.0)}))
    assert isinstance(fine.params["x"], wf.Scalar) and not isinstance(fine.params["y"], wf.Scalar)


@dataclass
class Point:
    x: Any
    rest: Any


@pytest.mark.parametrize("method", ["L-BFGS", "Adam"])
def test_trees(method: str) -> None:
    """Parameters may be trees of floats, NumPy arrays and modules. Other leaves stay; a shared array is one variable."""
    shared = wf.ones(3)
    optimizer: Any = wf.optim.Adam(0.1) if method == "Adam" else method
    start = Point(shared, (2.0, {"n": 3, "again": shared, "m": np.float32(1), "net": wf.nn.Linear(2, 1)}))

    def loss(p: Point) -> Any:
        rest = p.rest[1]
        net = rest["net"]
        total = ((p.x - 1) ** 2).sum() + ((rest["again"] - 3) ** 2).sum() + (p.rest[0] - rest["n"]) ** 2
        return total + (rest["m"] + 1) ** 2 + ((net.weight - 4) ** 2).sum() + (net.bias**2).sum()

    got = wf.optim.minimize(loss, start, optimizer, steps=600).params
    np.testing.assert_allclose(got.x.numpy(), np.full(3, 2.0), atol=2e-3)
    assert got.x is got.rest[1]["again"]
    assert type(got.rest[1]["n"]) is int and float(got.rest[0]) == pytest.approx(3, abs=2e-3)
    np.testing.assert_allclose(got.rest[1]["net"].weight.numpy(), np.full((1, 2), 4.0), atol=2e-3)
    assert float(shared[0]) == 1 and start.rest[0] == 2
    assert float(wf.optim.minimize(lambda x: (x - 2) ** 2, 1.0, optimizer, steps=900).params) == pytest.approx(2, abs=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_parameters(dtype: str) -> None:
    for method in ("L-BFGS", wf.optim.Adam(0.1)):
        got = wf.optim.minimize(lambda x: ((x.astype("float32") - 2) ** 2).sum(), wf.ones(3, dtype=dtype), method, steps=200)
        assert got.params.dtype == wf.ones(1, dtype=dtype).dtype
        np.testing.assert_allclose(got.params.astype("float32").numpy(), np.full(3, 2.0), atol=0.02)


def test_data() -> None:
    x = np.random.default_rng(0).standard_normal((64, 3)).astype("float32")
    y = x @ np.array([1.0, -2.0, 0.5], "float32")

    def loss(w: Any, batch: Any) -> Any:
        return ((batch[0] @ w - batch[1]) ** 2).mean()

    for method in ("L-BFGS", "BFGS", wf.optim.Adam(0.1)):
        got = wf.optim.minimize(loss, wf.zeros(3), method, data=(x, y), steps=300)
        np.testing.assert_allclose(got.params.numpy(), [1, -2, 0.5], atol=1e-3)
    batches = [(x[k : k + 16], y[k : k + 16]) for k in range(0, 64, 16)]
    for data in (wf.data.Loader((x, y), 16, seed=1), batches):
        got = wf.optim.minimize(loss, wf.zeros(3), wf.optim.Adam(0.1), data=data, steps=300)
        np.testing.assert_allclose(got.params.numpy(), [1, -2, 0.5], atol=1e-2)
        assert (got.steps, got.evaluations) == (300, 301)
    got = wf.optim.minimize(loss, wf.zeros(3), wf.optim.Adam(0.1), data=iter(batches))
    assert got.steps == 3 and got.message == "the data ended after 3 steps"
    with pytest.raises(ValueError, match="data is an iterable of batches, whose losses differ"):
        wf.optim.minimize(loss, wf.zeros(3), "BFGS", data=batches)
    with pytest.raises(ValueError, match="data has no batch"):
        wf.optim.minimize(loss, wf.zeros(3), "Adam", data=[])


def test_aux() -> None:
    def loss(x: Any, batch: Any) -> Any:
        return ((x - batch) ** 2).sum(), {"x": x + 1}

    for method in ("BFGS", wf.optim.SGD(0.4)):
        got = wf.optim.minimize(loss, wf.zeros(2), method, data=wf.ones(2), has_aux=True, steps=30)
        assert (got.aux["x"] == got.params + 1).all()
    with pytest.raises(TypeError, match=r"must return \(loss, aux\)"):
        wf.optim.minimize(lambda x: x.sum(), wf.zeros(2), has_aux=True)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("method", ["L-BFGS", "BFGS", "LM", "Gauss-Newton", "Adam"])
def test_not_finite(method: str) -> None:
    def loss(x: Any) -> Any:
        return wf.log(x) ** 2 + wf.sqrt(x)

    with pytest.warns(RuntimeWarning, match="minimize: the loss is nan at step 0"):
        got = wf.optim.minimize(loss, wf.array([-1.0]), method, steps=30)
    assert got.message == "the loss is nan at step 0" and not got.converged and got.steps == 0
    got = wf.optim.minimize(loss, wf.array([3.0]), method, steps=30)  # a long step would leave the domain
    assert np.isfinite(got.best_loss) and got.best_loss < float(loss(wf.array(3.0)))


def test_not_finite_later() -> None:
    """The best parameters remain, and the step is named."""
    with pytest.warns(RuntimeWarning, match="minimize: the loss is nan at step 3"):
        got = wf.optim.minimize(lambda x: wf.sqrt(x - 0.65).sum() + x.sum(), wf.array([1.0]), wf.optim.Adam(0.125), steps=9)
    assert got.message == "the loss is nan at step 3" and got.steps == 3 and not got.converged
    assert np.isfinite(got.best_loss) and 0.65 < float(got.best_params[0]) < 0.8


@pytest.mark.parametrize("method", ["L-BFGS", "BFGS"])
def test_search_that_fails(method: str) -> None:
    """Where the gradient is wrong no point along it is lower: a message, no exception."""
    got = wf.optim.minimize(lambda x: (x - 2 * wf.stop_gradient(x)).sum() ** 2 + x.sum(), wf.array([1.0, 5.0]), method)
    assert not got.converged
    assert "found no lower loss than" in got.message


def test_ends() -> None:
    start = wf.array(np.full(3, -1.0))
    got = wf.optim.minimize(rosenbrock, start, steps=0)
    assert got.steps == 0 and got.evaluations == 1 and (got.params == start).all() and got.loss == float(rosenbrock(start))
    got = wf.optim.minimize(rosenbrock, wf.ones(3), steps=5)
    assert got.steps == 0 and got.converged and got.message == "the gradient is within tol after 0 steps"
    rough, fine = [wf.optim.minimize(rosenbrock, start, tol=tol) for tol in (1.0, 1e-8)]
    assert rough.steps < fine.steps and fine.loss < 1e-15
    got = wf.optim.minimize(lambda x: ((x - 1) ** 2).sum(), start, wf.optim.SGD(0.25), tol=1e-4)
    assert got.converged and 10 < got.steps < 30
    with pytest.raises(AttributeError):
        got.loss = 3.0  # type: ignore[misc]


@pytest.mark.parametrize("method", ["L-BFGS", "BFGS"])
def test_a_loss_that_no_longer_changes_is_told_from_a_small_gradient(method: str) -> None:
    start = wf.ones(3)
    got = wf.optim.minimize(lambda x: 1e8 + x.sum() + (x**4).sum(), start, method)
    assert got.converged and got.gradient_size > 0.1
    assert f"the loss no longer changes in float32 after {got.steps} steps; the gradient's largest element is" in got.message
    got = wf.optim.minimize(lambda x: ((x - 2) ** 2).sum(), start, method, bounds=(None, 1.5))
    assert got.converged and got.gradient_size <= 1e-5 and "within tol" in got.message and (got.params == 1.5).all()
    for optimizer in (method, wf.optim.SGD(0.1)):
        got = wf.optim.minimize(lambda x: (x**2 / 2).sum(), wf.array([1.0, -2.0]), optimizer, steps=0)
        assert got.gradient_size == 2.0


def test_interrupt() -> None:
    """Ctrl-C ends a run soon, with a complete step."""
    def press() -> None:
        time.sleep(1.5)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    got = wf.optim.minimize(
        lambda x: wf.sin(x).sum() * 1e-9 + (x**2).sum(), wf.ones(1000), wf.optim.SGD(1e-7), steps=10**9,
    )
    thread.join()
    assert got.interrupted and got.message == f"Ctrl-C ended the run after {got.steps} steps" and 0 < got.steps < 10**9
    assert got.loss == pytest.approx(float(wf.sin(got.params).sum() * 1e-9 + (got.params**2).sum()), rel=1e-5)


def test_progress(capsys: Any, monkeypatch: Any) -> None:
    got = wf.optim.minimize(rosenbrock, wf.zeros(3), progress=True)
    last = f"step {got.steps}/1000  loss {got.loss:.6g}"
    assert not got.interrupted and capsys.readouterr().out == f"{last}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    wf.optim.minimize(rosenbrock, wf.zeros(3), steps=got.steps, progress=True)
    shown = capsys.readouterr().out.split("\r")
    assert all(re.match(r"\[=* *\] step \d+/\d+  loss ", line) and line.index("]") == 31 for line in shown[1:])
    assert shown[-1].startswith(f"[{30 * '='}] ") and shown[-1].endswith("\n") and "\n" not in shown[-2]


@pytest.mark.parametrize(("arguments", "error", "text"), [
    (dict(method="newton"), ValueError, "there is no method 'newton'; there are AMSBound, .*BFGS"),
    (dict(method=wf.optim.BFGS), TypeError, r"give an instance, BFGS\(...\)"),
    (dict(method=3), TypeError, "method is 3, but must be a name, an Optimizer"),
    (dict(steps=-1), ValueError, "steps is -1"), (dict(steps=2.5), ValueError, "steps is 2.5"),
    (dict(every=0), ValueError, "every is 0"), (dict(tol=-1), ValueError, "tol is -1"),
    (dict(callback=3), TypeError, "callback is 3"),
    (dict(loss=3), TypeError, "loss is 3"), (dict(loss=lambda x: x), ShapeError, "the loss has shape"),
    (dict(loss=lambda x: None), TypeError, "the loss returns NoneType"), (dict(data=3), TypeError, "data is 3"),
    (dict(loss=lambda x: (x + 1j).sum()), DTypeError, "is complex64, but must be real"),
    (dict(loss=lambda x: float(x.sum())), TraceError, "float"), (dict(params={"n": 3}), DTypeError, "nothing to change"),
    (dict(params=wf.ones(2, dtype="complex64")), DTypeError, "complex64, but must be real"),
])
@pytest.mark.parametrize("first_order", [False, True])
def test_bad_input(arguments: dict[str, Any], error: type[Exception], text: str, first_order: bool) -> None:
    usual: dict[str, Any] = dict(loss=lambda x: (x * x).sum(), params=wf.ones(2))
    if first_order:
        usual["method"] = "adam"
    both = usual | arguments
    with pytest.raises(error, match=text):
        wf.optim.minimize(both.pop("loss"), both.pop("params"), **both)


@pytest.mark.parametrize("make", [
    lambda: wf.optim.BFGS(armijo=0.9, curvature=0.1), lambda: wf.optim.LBFGS(history=0),
    lambda: wf.optim.GaussNewton(evaluations=0),
    lambda: wf.optim.LevenbergMarquardt(damping=0), lambda: wf.optim.LevenbergMarquardt(evaluations=1.5),
])
def test_bad_options(make: Any) -> None:
    with pytest.raises(ValueError, match="but must be|must hold|must be positive"):
        make()


def test_scipy_with_the_gradient_of_weft() -> None:
    """The line of the guide."""
    value_and_grad = wf.jit(wf.value_and_grad(rosenbrock))
    result = scipy.optimize.minimize(lambda x: [np.asarray(v) for v in value_and_grad(wf.array(x))], np.zeros(4), jac=True)
    assert result.success and np.allclose(result.x, 1, atol=1e-4)


@pytest.mark.parametrize("method", ["LM", "Gauss-Newton"])
@pytest.mark.parametrize("adjoint", [None, wf.ode.Backsolve()])
def test_least_squares_through_a_solver(method: str, adjoint: Any) -> None:
    """The Jacobian takes forward mode where it can; Backsolve has derivatives in reverse only."""
    ts = np.linspace(0, 2, 21)

    def residuals(rate: Any) -> Any:
        solution = wf.ode.solve(lambda t, y, rate: -rate * y, 1.0, ts, args=rate, rtol=1e-6, adjoint=adjoint)
        return solution.ys - np.exp(-1.5 * ts).astype("float32")

    got = wf.optim.minimize(residuals, wf.array(1.0), method)
    assert float(got.params) == pytest.approx(1.5, rel=1e-4)


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 4)])
def test_jacobian_of_residuals(shape: tuple[int, int], rng: np.random.Generator) -> None:
    """Forward mode and reverse mode: the same matrix, and the residuals."""
    from weft.optim.least_squares import residuals_and_jacobian
    from weft.optim.objective import Objective

    m, x = wf.asarray(rng.normal(size=shape)), wf.asarray(rng.normal(size=shape[1]))
    objective = Objective(None, lambda x: wf.sin(m @ x), None, None, 0.0)  # type: ignore[arg-type]
    r, jacobian = residuals_and_jacobian(objective, x)
    want = np.sin(m.numpy() @ x.numpy())
    np.testing.assert_allclose(r, want, rtol=1e-12)
    np.testing.assert_allclose(jacobian, np.cos(m.numpy() @ x.numpy())[:, None] * m.numpy(), rtol=1e-12)


@pytest.mark.parametrize("method", ["LM", "Gauss-Newton"])
def test_no_residuals(method: str) -> None:
    for loss, found in ((lambda p: None, "None"), (lambda p: p[:0], "no elements")):
        with pytest.raises(ShapeError, match=f"returns {found}"):
            wf.optim.minimize(loss, wf.ones(2), method)


def test_bounds_as_in_scipy_are_refused() -> None:
    with pytest.raises(TypeError, match="tuple \\(lower, upper\\)"):
        wf.optim.minimize(lambda p: (p**2).sum(), wf.ones(2), bounds=[(0, 1), (0, 10)])


@pytest.mark.parametrize("method", ["SGD", "Adam", "BFGS", "L-BFGS"])
def test_what_a_callback_writes_does_not_change_the_run(method: str) -> None:
    def spoil(step: int, p: Any, loss: float) -> None:
        p[...] = 50.0

    found = [wf.optim.minimize(lambda p: ((p - 3) ** 2).sum(), wf.zeros(2), method, steps=5, callback=c) for c in (None, spoil)]
    assert found[0].loss == found[1].loss and found[0].params.tolist() == found[1].params.tolist()
