"""``shares_memory`` and ``may_share_memory`` of random views, of weft and of NumPy, against NumPy's answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf


def view(rng: np.random.Generator, x: Any, y: Any) -> tuple[Any, Any]:
    """The same random view of two arrays."""
    for _ in range(rng.integers(3)):
        key = []
        for n in x.shape:
            a, b = sorted(rng.integers(0, n + 1, 2).tolist())
            key.append(slice(a, b, int(rng.integers(1, 4))))
        x, y = x[tuple(key)], y[tuple(key)]
        if rng.random() < 0.3:
            x, y = x.T, y.T
    return x, y


@pytest.mark.parametrize("seed", range(40))
def test_as_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 6, rng.integers(1, 3)).tolist())
    theirs, ours = np.zeros(shape), wf.zeros(shape, "float64")
    np.asarray(ours)
    for _ in range(10):
        (a, x), (b, y) = view(rng, theirs, ours), view(rng, theirs, ours)
        assert wf.shares_memory(x, y) == np.shares_memory(a, b)
        assert wf.may_share_memory(x, y) == np.may_share_memory(a, b)
        assert not np.shares_memory(x, np.zeros(shape)) and not wf.shares_memory(x, y + 1)
        if x.size:
            assert np.shares_memory(np.asarray(x), x) and np.may_share_memory(np.asarray(x), x) and wf.shares_memory(x, x)


def test_nothing_is_computed() -> None:
    big = wf.ones((3000, 3000))
    pending, before = big + 1, wf.counters()
    assert not wf.shares_memory(pending, big) and wf.may_share_memory(pending[1:], pending)
    after = wf.counters()
    assert {k: after[k] - before[k] for k in ("compiles", "kernels", "numpy_calls")} == {
        "compiles": 0, "kernels": 0, "numpy_calls": 0,
    }
