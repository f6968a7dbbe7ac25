"""Whole functions in compiled kernels against NumPy in float64; gradients against central differences of compiled float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft as wf

BOUND = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 5e-5, "float64": 1e-11}


def attention(xp, q, k, v):
    s = xp.matmul(q, xp.permute_dims(k, (0, 2, 1))) / 4
    s = xp.where(xp.arange(s.shape[1]).reshape((-1, 1)) >= xp.arange(s.shape[2]), s, -3e4)
    e = xp.exp(s - s.max(axis=-1, keepdims=True))
    return xp.matmul(e / e.sum(axis=-1, keepdims=True), v)


def batch_norm(xp, x, scale, shift):
    mean, var = x.mean(axis=(0, 2, 3), keepdims=True), x.var(axis=(0, 2, 3), keepdims=True)
    return (x - mean) / xp.sqrt(var + 1e-5) * scale.reshape((1, -1, 1, 1)) + shift.reshape((1, -1, 1, 1))


def gru(xp, x, h, w, u):
    for t in range(x.shape[0]):
        z, r, n = (xp.matmul(x[t], w[i]) + xp.matmul(h, u[i]) for i in range(3))
        z, r = 1 / (1 + xp.exp(-z)), 1 / (1 + xp.exp(-r))
        h = (1 - z) * xp.tanh(n * r) + z * h
    return h


def pairwise(xp, a, b):
    return xp.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=-1) + 1e-3)


def nearest(xp, a, b):
    d = ((a[:, None] - b[None]) ** 2).sum(axis=-1)
    return xp.take(b, d.argmin(axis=1), axis=0) * 2


def windows(xp, x):
    return (x[:, :-2] + 2 * x[:, 1:-1] + x[:, 2:])[::-1, ::2] / 4


def heat(xp, u):
    for _ in range(3):
        inner = u[1:-1, 1:-1] + 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
        u = xp.concat([u[:1], xp.concat([u[1:-1, :1], inner, u[1:-1, -1:]], axis=1), u[-1:]])
    return u


def logistic(xp, x, w, y):
    z = xp.matmul(x, w)
    return (xp.maximum(z, 0) - z * y + xp.log1p(xp.exp(-xp.abs(z)))).mean()


def polynomial(xp, x):
    out = x * 0
    for c in (0.1, -0.2, 0.3, 0.4, -0.5):
        out = out * x + c
    return xp.cumulative_sum(out, axis=1) / (1 + xp.arange(x.shape[1]))


def centred_gram(xp, x):
    c = x - x.mean(axis=0)
    return xp.matmul(c.T, c) / (x.shape[0] - 1)


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "attention": (attention, [(3, 17, 16), (3, 23, 16), (3, 23, 9)]),
    "batch norm": (batch_norm, [(5, 7, 6, 3), (7,), (7,)]),
    "gru": (gru, [(4, 9, 5), (9, 11), (3, 5, 11), (3, 11, 11)]),
    "pairwise distances": (pairwise, [(19, 6), (37, 6)]),
    "nearest": (nearest, [(19, 6), (7, 6)]),
    "windows": (windows, [(13, 40)]),
    "heat": (heat, [(21, 18)]),
    "logistic": (logistic, [(41, 13), (13,), (41,)]),
    "polynomial": (polynomial, [(9, 33)]),
    "covariance": (centred_gram, [(67, 21)]),
    "one element": (polynomial, [(1, 1)]),
    "one row": (windows, [(1, 5)]),
    "no rows": (polynomial, [(0, 7)]),
}
NOT_SMOOTH = {"nearest", "no rows", "one row"}


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str, dtype: str) -> None:
    f, shapes = FUNCTIONS[name]
    rng = np.random.default_rng()
    args = [wf.array(rng.normal(size=s)).astype(dtype) for s in shapes]
    wide = [a.numpy().astype(np.float64) for a in args]
    want = np.asarray(f(np, *wide))
    assert want.size == 0 or np.abs(want).max() > 0
    if name == "nearest" and dtype in ("float16", "bfloat16"):
        d = ((wide[0][:, None] - wide[1][None]) ** 2).sum(-1)
        d.sort(axis=1)
        if (d[:, 1] - d[:, 0]).min() < 0.2:  # a near tie may go either way
            return
    for g in (lambda *a: f(wf, *a), wf.jit(lambda *a: f(wf, *a))):
        got = g(*args)
        integers = f is polynomial and args[0].dtype.itemsize == 2  # half-width floats with int64 are float32
        assert got.dtype == (np.float32 if integers else args[0].dtype) and got.shape == want.shape
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=BOUND[dtype], atol=BOUND[dtype] * scale)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in NOT_SMOOTH])
def test_gradients(name: str) -> None:
    f, shapes = FUNCTIONS[name]
    rng = np.random.default_rng()
    values = [rng.normal(size=s) for s in shapes]
    weight = rng.normal(size=np.shape(f(np, *values)))
    differences(lambda *a: (f(wf, *a) * wf.array(weight)).sum(), values, rng)


def differences(f: Callable[..., Any], values: list[np.ndarray], rng: np.random.Generator, message: str = "") -> None:
    """Compiled gradients along a random direction, and of single elements, against central differences."""
    loss = wf.jit(f)
    slopes = [s.numpy() for s in wf.jit(wf.grad(f, argnums=tuple(range(len(values)))))(*map(wf.array, values))]
    for k, v in enumerate(values):
        assert slopes[k].shape == v.shape and slopes[k].dtype == np.float64
        for single in (False, True):
            step = rng.normal(size=v.shape)
            if single:
                step = np.where(np.arange(v.size).reshape(v.shape) == rng.integers(v.size), 1.0, 0.0)
            ends = []
            for h in (1e-5, -1e-5):
                moved = list(values)
                moved[k] = v + h * step
                ends.append(float(loss(*map(wf.array, moved))))
            want = (ends[0] - ends[1]) / 2e-5
            scale = float(np.abs(slopes[k] * step).sum()) + abs(ends[0]) * 1e-3
            assert (slopes[k] * step).sum() == pytest.approx(want, rel=1e-5, abs=1e-6 * (1 + scale)), (message, k)


def same(xp, a, b):
    """``b`` brought to the shape of ``a``: broadcast where it fits, else its sum."""
    if all(m in (1, n) for m, n in zip(b.shape[::-1], a.shape[::-1], strict=False)) and b.ndim <= a.ndim:
        return b
    return xp.tanh(b.sum())


def softmax(xp, a, b, n):
    e = xp.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def axis(a, n):
    return n % a.ndim


ANY: dict[str, Callable[..., Any]] = {  # of (xp, a, b, n): smooth and tame in a and b, of any shape with 1 to 4 dimensions
    "add": lambda xp, a, b, n: a + same(xp, a, b), "multiply": lambda xp, a, b, n: xp.tanh(a) * same(xp, a, b),
    "divide": lambda xp, a, b, n: a / (1 + same(xp, a, b) ** 2), "sin": lambda xp, a, b, n: xp.sin(a),
    "exp": lambda xp, a, b, n: xp.exp(-a * a),
    "log": lambda xp, a, b, n: xp.log(1 + a * a), "sqrt": lambda xp, a, b, n: xp.sqrt(0.1 + a * a),
    "sum": lambda xp, a, b, n: xp.tanh(a.sum(axis=axis(a, n), keepdims=True)),
    "mean": lambda xp, a, b, n: a - a.mean(axis=axis(a, n), keepdims=True),
    "var": lambda xp, a, b, n: a / xp.sqrt(0.1 + a.var(axis=axis(a, n), keepdims=True)),
    "drop": lambda xp, a, b, n: a.sum(axis=axis(a, n)) / a.shape[axis(a, n)] if a.ndim > 1 else a,
    "max": lambda xp, a, b, n: a - a.max(axis=axis(a, n), keepdims=True), "min": lambda xp, a, b, n: a * xp.tanh(a.min()),
    "softmax": softmax,
    "cumsum": lambda xp, a, b, n: xp.tanh(xp.cumulative_sum(a, axis=axis(a, n))),
    "flat": lambda xp, a, b, n: a.reshape((-1,)), "rows": lambda xp, a, b, n: a.reshape((a.shape[0], -1)),
    "lift": lambda xp, a, b, n: a[None] if a.ndim < 4 else a[0],
    "wide": lambda xp, a, b, n: xp.broadcast_to(a, (2, *a.shape)) if a.ndim < 3 else a,
    "turn": lambda xp, a, b, n: xp.permute_dims(a, tuple(np.roll(range(a.ndim), n))),
    "flip": lambda xp, a, b, n: xp.flip(a, axis=axis(a, n)),
    "roll": lambda xp, a, b, n: xp.roll(a, n, axis=axis(a, n)), "every other": lambda xp, a, b, n: a[..., ::2],
    "from the end": lambda xp, a, b, n: a[::-1], "head": lambda xp, a, b, n: a[: max(1, a.shape[0] - 1)],
    "pad": lambda xp, a, b, n: xp.pad(a, [(n % 2, 1)] + [(0, 0)] * (a.ndim - 1)) if a.size < 400 else a,
    "concat": lambda xp, a, b, n: xp.concat([a, xp.sin(a), a[:1]], axis=0) if a.size < 400 else a,
    "stack": lambda xp, a, b, n: xp.stack([a, a * same(xp, a, b)], axis=n % (a.ndim + 1)) if a.ndim < 4 and a.size < 400 else a,
    "repeat": lambda xp, a, b, n: xp.repeat(a, 2, axis=axis(a, n)) if a.size < 400 else a,
    "take": lambda xp, a, b, n: xp.take(a, xp.asarray([0, n, a.shape[0] - 1, 0]) % a.shape[0], axis=0),
    "index": lambda xp, a, b, n: a[xp.asarray([[0, n], [n, 0]]) % a.shape[0]] if a.ndim < 4 else a,
    "where": lambda xp, a, b, n: xp.where(a > 0.3, a, 0.5 * same(xp, a, b) + 0.1 * a),
    "clip": lambda xp, a, b, n: xp.clip(a, -0.9, 0.8),
    "matmul": lambda xp, a, b, n: xp.matmul(a, xp.swapaxes(xp.sin(a), -1, -2)) / a.shape[-1] if a.ndim > 1 else a * a,
    "gram": lambda xp, a, b, n: xp.matmul(xp.swapaxes(a, -1, -2), a)[..., :5, :5] / a.shape[-2] if a.ndim > 1 else a,
    "outer": lambda xp, a, b, n: a.reshape((-1, 1))[:9] * b.reshape((-1,))[:7],
    "dot": lambda xp, a, b, n: xp.tanh((a * same(xp, a, b)).sum()) * a,
    "einsum": lambda xp, a, b, n: xp.einsum("...i,...i->...", a, xp.cos(a))[..., None] + 0 * a[..., :1],
    "tile": lambda xp, a, b, n: xp.tile(a, (2,) + (1,) * (a.ndim - 1)) if a.size < 400 else a,
}
recipes = st.lists(
    st.tuples(st.sampled_from(sorted(ANY)), st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=7
)
shapes = st.sampled_from([
    ((3, 4), (4,)), ((1, 5), (2, 1)), ((7,), (7,)), ((2, 3, 4), (3, 1)), ((1,), (1,)), ((5, 17), (5, 17)), ((2, 2, 3, 3), (9,)),
])


def walk(xp: Any, recipe: list[tuple[str, int, int, int]], a: Any, b: Any) -> Any:
    stack = [a, b]
    for name, i, j, n in recipe:
        stack.append(ANY[name](xp, stack[-1 - i % len(stack)], stack[-1 - j % len(stack)], n))
    return stack[-1], stack[-1 - len(recipe) // 2]


@settings(max_examples=40, deadline=None)
@given(recipes, shapes, st.integers(0, 2**31))
def test_random_functions(recipe: list, shape: tuple, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.uniform(-1.5, 1.5, s) for s in shape]
    want = walk(np, recipe, *values)
    found = walk(wf, recipe, *map(wf.array, values))
    jitted = wf.jit(lambda a, b: walk(wf, recipe, a, b))(*map(wf.array, values))
    for w, g, h in zip(want, found, jitted, strict=True):
        assert g.shape == w.shape and g.dtype == np.float64
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(g.numpy(), h.numpy())


@settings(max_examples=15, deadline=None)
@given(recipes, shapes, st.integers(0, 2**31))
def test_random_gradients(recipe: list, shape: tuple, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.uniform(-1.5, 1.5, s) for s in shape]
    weights = [rng.normal(size=w.shape) for w in walk(np, recipe, *values)]

    def loss(a, b):
        one, two = walk(wf, recipe, a, b)
        return (one * weights[0]).sum() + (two * weights[1]).sum()

    differences(loss, values, rng, str(recipe))
