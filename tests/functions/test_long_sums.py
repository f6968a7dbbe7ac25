"""Sums of many elements stay accurate: no further from float64 than twice NumPy's, whatever adds them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "matrices": lambda a, b: a @ b,
    "b transposed": lambda a, b: a @ b.T.copy().T,
    "a transposed": lambda a, b: a.T.copy().T @ b,
    "matrix and vector": lambda a, b: (a @ b[:, 0])[:, None],
    "vector and matrix": lambda a, b: (a[0] @ b)[None],
    "a batch": lambda a, b: (a[None] @ b[None])[0],
}


def rms(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(error))))


@pytest.mark.drawn(14)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("k", [10, 64, 100, 300, 2000, 30_001, 1_000_000])
def test_products(way: str, k: int) -> None:
    rng = np.random.default_rng()
    n, draws = (24, 1) if k < 100_000 else (4, 5)  # of four numbers the mean error would be a matter of luck
    for normal in (False, True):
        f, draw = WAYS[way], rng.standard_normal if normal else rng.random
        errors: list[tuple[np.ndarray, np.ndarray]] = []
        for _ in range(draws):
            a, b = draw((n, k)).astype(np.float32), draw((k, n)).astype(np.float32)
            exact = f(a.astype(np.float64), b.astype(np.float64))
            scale = np.sqrt(k) if normal else np.abs(exact)
            errors.append(((f(wf.array(a), wf.array(b)).numpy() - exact) / scale, (f(a, b) - exact) / scale))
        ours, theirs = (rms(np.stack(each)) for each in zip(*errors, strict=True))
        assert 0 < ours <= 2 * theirs + 2.0**-24, (ours, theirs)
        assert ours < 4e-7  # a chain of a million was off by 1e-4


@pytest.mark.parametrize("k", [33, 1000, 100_003, 3_000_000])
def test_products_of_two_vectors(k: int) -> None:
    rng = np.random.default_rng()
    ours, theirs = [], []
    for _ in range(20 if k < 10**6 else 8):
        a, b = rng.random((2, k), dtype=np.float32)
        exact = np.dot(a.astype(np.float64), b.astype(np.float64))
        ours.append(float(wf.array(a) @ wf.array(b)) / exact - 1)
        theirs.append(float(a @ b) / exact - 1)
    assert rms(np.array(ours)) <= 2 * rms(np.array(theirs)) + 2.0**-24


def test_halves_are_summed_in_float32() -> None:
    a = np.random.default_rng().random((3, 200_000)).astype(np.float16)
    exact = a.astype(np.float64) @ a.astype(np.float64).T
    got = (wf.array(a) / 256 @ (wf.array(a) / 256).T).numpy() * np.float64(65536)
    assert np.max(np.abs(got / exact - 1)) < 1.1e-3  # float16 itself, once


def test_products_in_loops() -> None:
    """The same bits as outside of one."""
    rng = np.random.default_rng()
    a, b = (wf.array(rng.random(s, dtype=np.float32)) for s in ((5, 2000), (2000, 6)))
    _, inside = wf.scan(lambda c, x: (c, x @ b), 0.0, wf.stack([a, a * 2]))
    assert inside[0].numpy().tobytes() == (a @ b).numpy().tobytes()


@pytest.mark.parametrize("shape", [(1, 2, 300_000), (40, 3, 50, 40)])
def test_gradients_of_kernels(shape: tuple[int, ...]) -> None:
    """Summed over all images and positions; one long row as well."""
    rng = np.random.default_rng()
    x = rng.random(shape, dtype=np.float32)
    conv = wf.nn.conv1d if x.ndim == 3 else wf.nn.conv2d
    w = wf.array(rng.random((2, shape[1], *(3,) * (x.ndim - 2)), dtype=np.float32))
    g = rng.random(conv(wf.array(x), w).shape, dtype=np.float32)
    slope = wf.grad(lambda w: (conv(wf.array(x), w) * wf.array(g)).sum())(w).numpy()
    axes = (0, *range(2, x.ndim))
    for at in np.ndindex(*(3,) * (x.ndim - 2)):
        part = x[(slice(None), slice(None), *(slice(i, i + n) for i, n in zip(at, g.shape[2:], strict=True)))]
        exact = np.tensordot(g.astype(np.float64), part.astype(np.float64), (axes, axes))
        theirs = np.tensordot(g, part, (axes, axes))
        error = slope[(slice(None), slice(None), *at)] / exact - 1
        assert rms(error) <= 2 * rms(theirs / exact - 1) + 2.0**-24


@pytest.mark.parametrize("shape,axis", [((20_000_000,), None), ((3, 2_000_000), 1), ((400_000, 5), 0), ((300_000, 2, 9), (0, 2))])
def test_sums(shape: tuple[int, ...], axis: Any) -> None:
    x = np.random.default_rng().random(shape, dtype=np.float32)
    error = wf.array(x).sum(axis=axis).numpy() / x.sum(axis=axis, dtype=np.float64) - 1
    assert np.max(np.abs(error)) < 2e-7
