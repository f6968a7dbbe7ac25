"""Loops with steps in NumPy: values and derivatives beside NumPy's loops, bits beside Python's; what people write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.transforms.walked_loops import BODIES, Case, drawn
from weft.devices import get_device
from weft.graph.interpret import interpret
from weft.runtime.execute import copy_structure
from weft.schedule.build import build
from weft.schedule.program import HostCall, Loop, find_hosts


def same(got: Any, want: Any) -> None:
    assert (np.asarray(got) == np.asarray(want)).all() and got.shape == want.shape


@pytest.mark.parametrize("steps", [0, 1, 2, 17])
@pytest.mark.parametrize("body", BODIES)
def test_values_are_numpy_s_and_bits_those_of_a_python_loop(body: str, steps: int) -> None:
    case = drawn(body, steps)
    arrays = case.arrays()
    given = [wf.array(a) for a in arrays]
    want = case.looped(np, *arrays)
    lazily, jitted = case.scanned(wf, *given), wf.jit(lambda *g: case.scanned(wf, *g))(*given)
    for found in (lazily, jitted):
        np.testing.assert_allclose(found[0].numpy(), want[0], rtol=1e-9, atol=1e-9)
        if case.steps:
            np.testing.assert_allclose(found[1].numpy(), want[1], rtol=1e-9, atol=1e-9)
        else:
            once = replace(case, steps=1)
            assert found[1].shape == (0, *once.looped(np, *once.arrays())[1].shape[1:])
    if case.steps:
        written_out = lambda *g: case.looped(wf, *g)  # noqa: E731
        for other in (written_out(*given), wf.jit(written_out)(*given)):
            for found in (lazily, jitted):
                for g, o in zip(found, other, strict=True):
                    same(g, o)


def along(f: Callable[..., Any], arrays: list[np.ndarray], ways: list[np.ndarray], step: float = 1e-6) -> float:
    """The slope of a function of arrays along one way, by central differences."""
    ends = [float(f(*[a + sign * step * w for a, w in zip(arrays, ways, strict=True)])) for sign in (1, -1)]
    return (ends[0] - ends[1]) / (2 * step)


@pytest.mark.drawn(20)
@pytest.mark.parametrize("steps", [1, 2, 17])
@pytest.mark.parametrize("body", BODIES)
def test_gradients_are_central_differences(body: str, steps: int) -> None:
    case = drawn(body, steps)
    arrays = list(case.arrays())

    def loss(np: Any, looped: Callable, *given: Any) -> Any:
        c, y = looped(np, *given)
        return (np.sin(c) * c).sum() + np.cos(y).sum()

    f = wf.grad(lambda *g: loss(wf, case.scanned, *g), argnums=(0, 1, 2))
    given = [wf.array(a) for a in arrays]
    slopes = wf.jit(f)(*given)
    for lazily, jitted in zip(f(*given), slopes, strict=True):
        same(lazily, jitted)
    for k in range(3):
        ways = [np.random.default_rng().normal(size=a.shape) if i == k else np.zeros_like(a) for i, a in enumerate(arrays)]
        want = along(lambda *g: loss(np, case.looped, *g), arrays, ways)
        scale = 1 + np.abs(slopes[k].numpy()).sum()
        assert abs(float((slopes[k] * ways[k]).sum()) - want) < 2e-6 * scale, k


@pytest.mark.parametrize("steps", [2, 3])
@pytest.mark.parametrize("body", BODIES)
def test_vmap_is_a_loop_over_examples(body: str, steps: int) -> None:
    case = drawn(body, steps, batched=False)
    many = [case.arrays() for _ in range(3)]
    c, x = np.stack([m[1] for m in many]), np.stack([m[2] for m in many], axis=1)
    f = wf.vmap(lambda c, x: case.scanned(wf, wf.array(many[0][0]), c, x), in_axes=(0, 1))
    for found in (f(wf.array(c), wf.array(x)), wf.jit(f)(wf.array(c), wf.array(x))):
        for k in range(3):
            for g, w in zip(found, case.looped(np, many[0][0], c[k], x[:, k]), strict=True):
                np.testing.assert_allclose(g.numpy()[k], w, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("body", ["solve", "eigh", "several"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_reference_agrees_and_dtypes_stay(body: str, dtype: str) -> None:
    case = Case(body, 3, 3, (2,), False)
    arrays = case.arrays(dtype)
    traced = wf.jit(lambda *g: case.scanned(wf, *g)).trace(*map(wf.array, arrays))
    by_shape = {a.shape: a for a in arrays}
    want = interpret(traced.graph, [by_shape[n.shape] for n in traced.graph.inputs])
    for g, w in zip(case.scanned(wf, *map(wf.array, arrays)), want, strict=True):
        assert g.dtype == w.dtype == dtype
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-3 if dtype == "float32" else 1e-10, atol=1e-4)


def test_second_derivatives() -> None:
    case = Case("solve", 3, 2, (), False)
    a, c, xs = map(wf.array, case.arrays())
    f = lambda a: (case.scanned(wf, a, c, xs)[0] ** 2).sum()  # noqa: E731
    way = np.random.default_rng().normal(size=a.shape)
    bent = wf.jit(wf.grad(lambda a: (wf.grad(f)(a) * way).sum()))(a).numpy()
    for at in np.ndindex(*a.shape):
        unit = np.zeros(a.shape)
        unit[at] = 1e-6
        ends = [float((wf.grad(f)(a + sign * unit) * way).sum()) for sign in (1, -1)]
        np.testing.assert_allclose(bent[at], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)


# ---- what people write


def kalman(np: Any, f: Any, h: Any, q: Any, r: Any, x: Any, p: Any, z: Any) -> tuple[Any, ...]:
    """One step of a Kalman filter: state and covariance, and minus the logarithm of what was seen."""
    x, p = f @ x, f @ p @ f.T + q
    s, e = h @ p @ h.T + r, z - h @ x
    gain = np.linalg.solve(s, h @ p).T
    return x + gain @ e, p - gain @ h @ p, (e @ np.linalg.solve(s, e) + np.linalg.slogdet(s)[1]) / 2


@pytest.mark.parametrize("steps", [1, 40])
def test_a_kalman_filter(steps: int) -> None:
    rng = np.random.default_rng()
    f, h = np.eye(4) + np.eye(4, k=2) * 0.1, np.eye(2, 4)
    q, r, zs = np.eye(4) * 0.01, np.eye(2) * 0.2, rng.normal(size=(steps, 2)).cumsum(0)

    def by_numpy(noise: np.ndarray) -> tuple[float, np.ndarray]:
        x, p, total, path = np.zeros(4), np.eye(4), 0.0, []
        for z in zs:
            x, p, cost = kalman(np, f, h, q * noise, r, x, p, z)
            total, path = total + cost, [*path, x]
        return total, np.stack(path)

    def by_weft(noise: Any) -> tuple[Any, Any]:
        g = [wf.array(a) for a in (f, h, q, r)]

        def step(carry: tuple, z: Any) -> tuple:
            x, p, cost = kalman(wf, g[0], g[1], g[2] * noise, g[3], *carry, z)
            return (x, p), (cost, x)

        _, (costs, path) = wf.scan(step, (wf.zeros(4, dtype="float64"), wf.eye(4, dtype="float64")), wf.array(zs))
        return costs.sum(), path

    for run in (by_weft, wf.jit(by_weft)):
        for g, w in zip(run(wf.array(1.5)), by_numpy(np.array(1.5)), strict=True):
            np.testing.assert_allclose(np.asarray(g), w, rtol=1e-5)
    noise = wf.array(1.5, dtype="float64")
    slope = float(wf.jit(wf.grad(lambda n: by_weft(n)[0]))(noise))
    np.testing.assert_allclose(slope, along(lambda n: by_numpy(n)[0], [np.array(1.5)], [np.array(1.0)]), rtol=1e-6, atol=1e-7)


def test_implicit_steps_by_newton_in_a_loop_in_a_loop() -> None:
    """Backward Euler of a stiff equation: the Newton iterations are a loop of their own."""

    def slope(np: Any, u: Any, k: Any) -> Any:
        return np.stack([u[1], k * (1 - u[0] * u[0]) * u[1] - u[0]])

    def residual(np: Any, u: Any, before: Any, k: Any) -> Any:
        return u - before - 0.05 * slope(np, u, k)

    def bent(np: Any, u: Any, k: Any) -> Any:
        rows = [np.stack([u[0] * 0 + 1, u[0] * 0 - 0.05]),
                np.stack([0.05 * (2 * k * u[0] * u[1] + 1), 1 - 0.05 * k * (1 - u[0] * u[0])])]
        return np.stack(rows)

    def path(k: Any) -> Any:
        def step(u: Any, _: None) -> tuple:
            newton = lambda _, v: v - wf.linalg.solve(bent(wf, v, k), residual(wf, v, u, k))  # noqa: E731
            v = wf.fori_loop(0, 4, newton, u)
            return v, v[0]

        return wf.scan(step, wf.array([2.0, 0.0], dtype="float64"), length=20)[1]

    def path_numpy(k: Any) -> np.ndarray:
        u, out = np.array([2.0, 0.0]), []
        for _ in range(20):
            v = u
            for _ in range(4):
                v = v - np.linalg.solve(bent(np, v, k), residual(np, v, u, k))
            u, out = v, [*out, v[0]]
        return np.stack(out)

    k = wf.array(5.0, dtype="float64")
    np.testing.assert_allclose(wf.jit(path)(k).numpy(), path_numpy(5.0), rtol=1e-10)
    want = along(lambda k: (path_numpy(k) ** 2).sum(), [np.array(5.0)], [np.array(1.0)])
    np.testing.assert_allclose(float(wf.jit(wf.grad(lambda k: (path(k) ** 2).sum()))(k)), want, rtol=1e-5)


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_native_loop_in_a_walked_one_and_native_loops_stay_native(steps: int) -> None:
    def step(c: Any, x: Any) -> tuple:
        c = wf.fori_loop(0, 3, lambda i, v: wf.sin(v) + x, c)
        return wf.linalg.inv(c), c

    r = np.random.default_rng()
    c, xs = r.normal(size=(2, 2)) + 4 * np.eye(2), r.normal(size=(steps, 2, 2)) + np.eye(2) * 3
    last, ys = wf.jit(lambda c, xs: wf.scan(step, c, xs))(wf.array(c), wf.array(xs))
    for t in range(steps):
        for _ in range(3):
            c = np.sin(c) + xs[t]
        np.testing.assert_allclose(ys.numpy()[t], c, rtol=1e-8, atol=1e-10)
        c = np.linalg.inv(c)
    np.testing.assert_allclose(last.numpy(), c, rtol=1e-8, atol=1e-10)
    if steps:
        traced = wf.jit(lambda c, xs: wf.scan(step, c, xs)).trace(wf.array(c), wf.array(xs))
        (outer,) = (s for s in build(copy_structure(traced.graph)).steps if isinstance(s, Loop))
        (inner,) = (s for s in outer.body.steps if isinstance(s, Loop))
        assert [h.name for h in find_hosts(outer.body)] == ["inv"] and not find_hosts(inner.body)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_waves_by_fourier_transforms(dtype: str) -> None:
    """Complex numbers are carried and stacked, and derivatives go through: a Schroedinger equation by split steps."""
    n, r = 8, np.random.default_rng()
    phase = np.exp(-0.1j * np.fft.fftfreq(n) ** 2).astype(dtype)
    u = (r.normal(size=n) + 1j * r.normal(size=n)).astype(dtype)
    v = r.normal(size=n).astype(u.real.dtype)

    def waves(np: Any, u: Any, v: Any, steps: int) -> tuple[Any, Any]:
        def step(u: Any, _: None) -> tuple:
            u = np.fft.ifft(phase_(np) * np.fft.fft(u * np.exp(1j * v)))
            return u, np.abs(u)

        if hasattr(np, "scan"):
            return np.scan(step, u, length=steps)
        ys = []
        for _ in range(steps):
            u, y = step(u, None)
            ys.append(y)
        return u, np.stack(ys)

    def phase_(np: Any) -> Any:
        return np.array(phase)

    tight = 1e-4 if dtype == "complex64" else 1e-10
    for steps in (1, 6):
        found = wf.jit(lambda u, v, s=steps: waves(wf, u, v, s))(wf.array(u), wf.array(v))
        for g, w in zip(found, waves(np, u, v, steps), strict=True):
            assert g.dtype == w.dtype
            np.testing.assert_allclose(g.numpy(), w, rtol=tight, atol=tight)
    assert wf.scan(lambda u, _: (wf.fft.fft(u), u), wf.array(u), length=0)[1].shape == (0, n)
    if dtype == "complex128":
        loss = lambda np: lambda u, v: (waves(np, u, v, 4)[1] ** 3).sum()  # noqa: E731
        du, dv = wf.jit(wf.grad(loss(wf), argnums=(0, 1)))(wf.array(u), wf.array(v))
        size = r.uniform(0.5, 2, size=n)  # along the gradient's own signs: what differences give is no sum that cancels
        way, turn = size * np.sign(dv.numpy()), size * np.conj(du.numpy()) / abs(du.numpy())
        want = along(loss(np), [u, v], [np.zeros(n, dtype), way])
        np.testing.assert_allclose(float((dv * way).sum()), want, rtol=1e-6)
        want = along(loss(np), [u, v], [turn, np.zeros(n)])
        np.testing.assert_allclose(float(wf.real((du * turn).sum())), want, rtol=1e-6)


def test_a_first_carry_that_is_a_complex_number_of_python() -> None:
    x = np.random.default_rng().normal(size=5)
    for dtype in ("float32", "float64"):
        last, ys = wf.scan(lambda c, x: (c * x, c), 1j, wf.array(x.astype(dtype)))
        assert last.dtype == ys.dtype == {"float32": wf.complex64, "float64": wf.complex128}[dtype]
        np.testing.assert_allclose(np.asarray(last), 1j * x.prod(), rtol=1e-5)


def test_complex_numbers_that_a_native_loop_only_carries() -> None:
    z, x = np.array([1 + 2j, 3 - 1j]), np.random.default_rng().normal(size=(5, 2))
    f = lambda z, x: wf.scan(lambda c, x: ((c[0], c[1] + x), (c[0], c[1])), (z, wf.zeros(2, dtype="float64")), x)  # noqa: E731
    (kept, total), (zs, sums) = wf.jit(f)(wf.array(z), wf.array(x))
    np.testing.assert_array_equal(kept.numpy(), z)
    np.testing.assert_array_equal(zs.numpy(), np.stack([z] * 5))
    np.testing.assert_allclose(total.numpy(), x.sum(0))
    assert sums.shape == (5, 2)


# ---- fit


def test_fit_through_a_loop_that_solves() -> None:
    class Implicit(wf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = wf.array([[0.0, 0.3], [-0.3, 0.0]])

        def forward(self, x: Any) -> Any:
            m = wf.eye(2) - self.w
            return wf.scan(lambda h, _: (wf.linalg.solve(m, h), None), x.T, length=3)[0].T

    r = np.random.default_rng(0)
    x = r.normal(size=(64, 2)).astype("float32")
    want = np.linalg.inv(np.linalg.matrix_power(np.eye(2) - np.array([[0.1, 0.2], [-0.1, 0.05]]), 3))
    model = Implicit()
    history = wf.train.fit(model, x, (x @ want.T).astype("float32"), epochs=60, batch_size=16, loss=wf.losses.mse,
                           optimizer=wf.optim.Adam(0.02), show=False)
    assert history.epochs[-1].loss < 1e-3 * history.epochs[0].loss


# ---- what is told of them


def test_explain_and_profile_say_that_a_loop_is_walked_and_why(capsys: pytest.CaptureFixture) -> None:
    case = Case("several", 6, 3, (), False)
    arrays = [wf.array(a) for a in case.arrays()]
    found = wf.explain(lambda *g: case.scanned(wf, *g), *arrays)
    text = str(found)
    assert "native loop" not in text
    assert {"solve", "sort", "inv"} <= set(found.host)
    assert "a loop of 6 steps is walked from Python, for NumPy computes " in text
    assert all(name in text.split("for NumPy computes ")[1].splitlines()[0] for name in ("solve", "sort", "inv"))

    def two(*g: Any) -> Any:
        return wf.scan(lambda c, _: (wf.sin(c), None), g[1], length=9)[0], case.scanned(wf, *g)

    both = str(wf.explain(two, *arrays))
    assert "some in native loops of 9 steps" in both and "a loop of 6 steps is walked" in both
    wf.profile(wf.jit(lambda *g: case.scanned(wf, *g)), *arrays)
    assert "walked from Python, for NumPy computes" in capsys.readouterr().out


@pytest.mark.parametrize("body", BODIES)
def test_loops_are_walked_where_they_must_be_and_only_there(body: str) -> None:
    case = Case(body, 4, 3, (), False)
    traced = wf.jit(lambda *g: case.scanned(wf, *g)).trace(*map(wf.array, case.arrays()))
    (loop,) = (s for s in build(copy_structure(traced.graph)).steps if isinstance(s, Loop))
    assert any(isinstance(s, HostCall) for s in loop.body.steps)
    f = wf.jit(lambda c: wf.scan(lambda c, _: (wf.sin(c), c), c, length=50))
    wf.eval(f(wf.ones(3)))
    before = get_device("cpu").counters()["entries"]
    wf.eval(f(wf.ones(3)))
    assert get_device("cpu").counters()["entries"] - before == 1
