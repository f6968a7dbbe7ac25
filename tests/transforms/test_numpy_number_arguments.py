"""NumPy's bools and floats as arguments of jitted functions: results are those without jit, floats take no new traces."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft as wf

FLOATS = (np.float16, np.float32, np.float64)
FUNCTIONS: tuple[Any, ...] = (  # of an array and a number; the second: traces beyond the first, for any number of values
    (lambda x, t: x * t, 0), (lambda x, t: t - x, 0), (lambda x, t: x * (2 if t > 1 else 3), 1),
    (lambda x, t: (t, t + 1, t * 2), 0),
    (lambda x, t: wf.where(x > t, x, t), 0), (lambda x, t: x + np.cos(t), 0), (lambda x, t: x + wf.sin(t), 0),
    (lambda x, t: x * max(t, 1), 1), (lambda x, t: t if t else x, 1), (lambda x, t: (t.dtype.name, t.shape, -t, abs(t)), 0),
    (lambda x, t: wf.fori_loop(0, 3, lambda i, v: v + t, x * t), 0), (lambda x, t: wf.array([t, 1.0]) + t, 0),
    (lambda x, t: {"x": x.sum() * t, "t": [t / 3]}, 0), (lambda x, t: wf.vmap(lambda row: row * t)(x), 0),
    (lambda x, t: wf.grad(lambda v: (v * v * t).sum())(x), 0), (lambda x, t: wf.grad(lambda s: (x * s * s).sum())(t), 0),
    (lambda x, t: x * t.astype("float32"), None), (lambda x, t: x * float(t), None), (lambda x, t: f"{t:.3f}", None),
    (lambda x, t: x + math.floor(t), 0), (lambda x, t: (t > 1, t == 1), 0), (lambda x, t: x ** t, 0),
)


def same(found: Any, want: Any) -> None:
    if isinstance(want, dict):
        assert list(found) == list(want)
        found, want = list(found.values()), list(want.values())
    if isinstance(want, tuple | list):
        assert type(found) is type(want) and len(found) == len(want)
        for a, b in zip(found, want, strict=True):
            same(a, b)
        return
    assert type(found) is type(want)
    if isinstance(want, str):
        assert found == want
        return
    assert getattr(found, "dtype", None) == getattr(want, "dtype", None)
    np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-3 if found.dtype == "float16" else 1e-5)


@pytest.mark.parametrize("k", range(len(FUNCTIONS)))
def test_floats(k: int) -> None:
    rng = np.random.default_rng()
    function, more = FUNCTIONS[k]
    for kind in FLOATS:
        jitted = wf.jit(function)
        x = wf.array(rng.random(4), rng.choice(["float32", "float64", "float16"]))
        values = [kind(v) for v in (*rng.normal(1, 2, 6).round(2), 0.0, 1.0)]
        for t in values:
            want = function(x, t)
            for _ in range(2):
                same(jitted(x, t), want)
        if more is not None:
            assert jitted.traces <= 1 + more, values


@pytest.mark.parametrize("seed", range(20))
def test_edges_of_floats(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jitted = wf.jit(lambda x, t: (x * t, 1 / (x + t), t))
    for _ in range(12):
        t = rng.choice(FLOATS)(rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 6e4, 1e-7]))
        x = wf.ones(2)
        for found, want in zip(jitted(x, t), (x * t, 1 / (x + t), t), strict=True):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(want))
            assert found.dtype == want.dtype and (np.signbit(found) == np.signbit(want)).all()
    assert jitted.traces <= len(FLOATS)


@pytest.mark.parametrize("seed", range(20))
def test_bools(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.choice([2, 3, 5], 2)
    functions: list[Any] = [
        lambda x, flag: x * (first if flag else second), lambda x, flag: x[first - 2 :] if not flag else x, lambda x, flag: flag,
        lambda x, flag: x * flag, lambda x, flag: ~flag & (x > first), lambda x, flag: wf.where(flag, x, -x),
        lambda x, flag: x.sum(keepdims=flag), lambda x, flag: [x for _ in range(2) if flag],
    ]
    x = wf.array(rng.normal(size=4), "float32")
    for function in functions:
        jitted = wf.jit(function)
        for value in rng.random(6) < 0.5:
            assert type(value) is np.bool_
            same(jitted(x, value), function(x, value))
        assert jitted.traces <= 2
        same(wf.jit(lambda d, f=function: f(d["x"], d["flag"]))({"x": x, "flag": value}), function(x, value))
        same(wf.jit(function, static_argnums=1)(x, value), function(x, value))


def test_gradients_by_numpy_numbers() -> None:
    for kind in FLOATS:
        for f in (wf.grad(lambda t: t * t), wf.jit(wf.grad(lambda t: t * t))):
            found = f(kind(3))
            assert float(found) == 6 and found.dtype == kind
    with pytest.raises(TypeError, match="must be float"):
        wf.grad(lambda t: t * t)(np.int64(3))
