"""Derivatives where formulas divide by zero or lose all digits: norms and deviations of nothing but zeros, sinc and i0 near 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

rng = np.random.default_rng()

# functions of rows, with the gradient of each where no row is degenerate
NORMS: dict[str, Callable[[Any], Any]] = {
    **{f"norm {p}": lambda x, p=p: wf.linalg.vector_norm(x, axis=1, ord=p) for p in (0.5, 1, 1.5, 2, 2.5, 3, wf.inf)},
    "norm": lambda x: wf.linalg.norm(x, axis=1),
    "fro": lambda x: wf.linalg.matrix_norm(x.reshape((-1, 2, 2))),
    "global_norm": lambda x: wf.stack([wf.optim.global_norm({"a": row[:1], "b": row[1:]}) for row in x]),
    "lp_pool1d 2": lambda x: wf.nn.lp_pool1d(x[:, None], 2, 4).reshape(-1),
    "lp_pool1d 1.5": lambda x: wf.nn.lp_pool1d(x[:, None], 1.5, 4).reshape(-1),
    "lp_pool1d inf": lambda x: wf.nn.lp_pool1d(x[:, None], wf.inf, 4).reshape(-1),
    "hypot": lambda x: wf.hypot(x[:, 0] + x[:, 1], x[:, 2] - x[:, 3]),
    "abs complex": lambda x: abs(x[:, 0] + 1j * x[:, 3]),
    "arctan2": lambda x: wf.arctan2(x[:, 0] + x[:, 1], x[:, 2] - x[:, 3]),
}
DEVIATIONS: dict[str, Callable[[Any], Any]] = {
    "std": lambda x: wf.std(x, axis=1),
    "sample std": lambda x: wf.std(x, axis=1, ddof=1),
    "some std": lambda x: wf.std(x, axis=1, where=wf.array([True, True, False, True])),
    "nanstd": lambda x: wf.nanstd(x, axis=1),
}


@pytest.mark.drawn(30)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [*NORMS, *DEVIATIONS])
def test_what_is_degenerate_has_slopes_of_zero_and_the_rest_its_own(name: str, dtype: str, compiled: bool) -> None:
    function = {**NORMS, **DEVIATIONS}[name]
    rows = rng.normal(size=(7, 4)).astype(dtype)
    degenerate = rng.random(7) < 0.5
    degenerate[:2] = True, False
    rows[degenerate] = 0 if name in NORMS else rng.integers(-8, 8, (int(degenerate.sum()), 1))
    first: Any = wf.grad(lambda x: function(x).sum())
    second: Any = wf.grad(lambda x: (first(x) * wf.cos(wf.arange(28.0, dtype=dtype).reshape((7, 4)))).sum())
    both = [wf.jit(d) if compiled else d for d in (first, second)]
    slopes, bends = (d(wf.array(rows)).numpy() for d in both)
    assert (abs(slopes[degenerate]) < 1e-5).all() and np.isfinite(bends).all()
    alone = [d(wf.array(rows * 1.0)) for d in both]
    for d, found in zip(both, (slopes, bends), strict=True):
        shifted = rows.copy()
        shifted[degenerate] = rng.normal(size=4)  # the other rows' derivatives do not depend on these
        np.testing.assert_array_equal(found[~degenerate], d(wf.array(shifted)).numpy()[~degenerate])
    assert all(np.array_equal(a.numpy(), b) for a, b in zip(alone, (slopes, bends), strict=True))


def _sinc(x: np.ndarray, order: int) -> np.ndarray:
    """The derivative of sinc: that of ``cos(pi x t)``, averaged over t from 0 to 1."""
    at, weights = np.polynomial.legendre.leggauss(64)
    t, weights = (at + 1) / 2, weights / 2
    turned = np.cos(math.pi * x[:, None] * t + order * math.pi / 2)
    return ((math.pi * t) ** order * turned * weights).sum(1)


def _i0(x: np.ndarray, order: int) -> np.ndarray:
    cosines = np.cos((np.arange(200) + 0.5) * math.pi / 200)
    return (np.exp(x[:, None] * cosines) * cosines**order).mean(1)


@pytest.mark.parametrize("dtype,bound", [("float32", 2e-6), ("float64", 1e-14)])
@pytest.mark.parametrize("name,reference", [("sinc", _sinc), ("i0", _i0)])
def test_derivatives_near_zero(name: str, reference: Callable[..., np.ndarray], dtype: str, bound: float) -> None:
    edges = np.array([0, -0.0, 1 / math.pi, -1 / math.pi, 0.318, 0.319, 1e-30, 1])
    x = np.concatenate([edges, rng.normal(size=40), 10.0 ** rng.uniform(-9, 0, 40)]).astype(dtype)
    derivative: Any = getattr(wf, name)
    for order in range(4):
        want = reference(x.astype("float64"), order)
        assert (abs(derivative(wf.array(x)).numpy() - want) <= bound * 4**order * (1 + abs(want))).all(), order
        derivative = wf.grad(lambda x, f=derivative: f(x).sum())


def test_spacing_is_flat() -> None:
    assert (wf.grad(lambda x: wf.spacing(x).sum())(wf.array([1.0, 0.0, -3.0])).numpy() == 0).all()
