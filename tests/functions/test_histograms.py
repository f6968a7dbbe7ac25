"""Histograms beside NumPy's: rules of bins with weights, and the dtype of edges that the user gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf

DTYPES = ("float16", "float32", "float64", "int8", "int64", "uint64")


def draw_edges(rng: np.random.Generator) -> np.ndarray:
    dtype = str(rng.choice(DTYPES))
    count = int(rng.integers(3, 9))
    if "int" in dtype:
        return np.sort(rng.integers(0, 20, count)).astype(dtype)
    return np.sort(rng.normal(3, 5, count)).astype(dtype)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_edges_that_are_given(seed: int, wide: bool) -> None:
    rng = np.random.default_rng(seed)
    edges, weights = draw_edges(rng), rng.random(30) if rng.random() < 0.3 else None
    x = rng.normal(4, 6, 30).astype(rng.choice(DTYPES[:3])) if rng.random() < 0.7 else rng.integers(0, 20, 30)
    density = bool(rng.random() < 0.3) and np.histogram(x, edges)[0].sum() > 0
    want, line = np.histogram(x, edges, density=density, weights=weights)
    with wf.default_dtype("float64" if wide else "float32"):
        for given in (edges, wf.asarray(edges)):
            counts, found = wf.histogram(wf.asarray(x), given, density=density, weights=weights)
            assert found.dtype == line.dtype == wf.histogram_bin_edges(wf.asarray(x), given).dtype
            assert found.tolist() == line.tolist()
            np.testing.assert_allclose(counts.numpy(), want, rtol=2e-3 if edges.dtype == "float16" else 1e-5)


@pytest.mark.parametrize("seed", range(40))
def test_lists_of_edges_beside_float64(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.random(8)).tolist()
    x = rng.choice(edges, 50)  # elements that lie on the edges: float32 would round them to either side
    counts, line = wf.histogram(wf.array(x, "float64"), edges)
    assert counts.tolist() == np.histogram(x, edges)[0].tolist() and line.tolist() == edges
    assert wf.histogram(wf.array(x, "float32"), edges)[1].dtype == "float32"


@pytest.mark.parametrize("seed", range(20))
def test_edges_of_more_axes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(3, 5, (2, 40)).astype("float32")
    bins: list[Any] = []
    want = []
    for _ in range(2):
        kind, edges = int(rng.integers(0, 3)), draw_edges(rng)
        bins.append([4, edges.astype("float64").tolist(), wf.asarray(edges)][kind])
        want.append(["float32", "float32", edges.dtype][kind])
    given = [b.numpy() if isinstance(b, wf.Array) else b for b in bins]
    for found, numpys in (
        (wf.histogram2d(x, y, bins), np.histogram2d(x, y, given)),
        ((lambda counts, edges: (counts, *edges))(*wf.histogramdd(np.stack([x, y], 1), bins)), np.histogram2d(x, y, given)),
    ):
        assert [e.dtype for e in found[1:]] == want
        assert found[0].tolist() == numpys[0].tolist()
    edges = np.sort(rng.normal(3, 5, 6))
    assert {e.dtype for e in wf.histogram2d(x, y, edges)[1:]} == {np.dtype("float64")}


@pytest.mark.parametrize("rule", ["auto", "fd", "doane", "scott", "stone", "rice", "sturges", "sqrt"])
def test_rules_have_no_weights(rule: str) -> None:
    x = np.random.default_rng(0).normal(size=30).astype("float32")
    for weights in (wf.ones(30), np.ones(30), [1.0] * 30):
        with pytest.raises(TypeError):
            np.histogram(x, rule, weights=np.asarray(weights))
        for function in (wf.histogram, wf.histogram_bin_edges):
            with pytest.raises(TypeError, match=f"{function.__name__}: bins='{rule}' counts elements without weights"):
                function(wf.array(x), rule, weights=weights)
    assert wf.histogram(wf.array(x), rule)[0].tolist() == np.histogram(x, rule)[0].tolist()
