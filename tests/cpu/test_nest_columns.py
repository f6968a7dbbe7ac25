"""Tall sums in blocks of rows, sums over short rows: against the evaluator, and bit for bit whatever the threads."""

from __future__ import annotations

import numpy as np
import pytest
from cross import TABLE, bind, leaf, run_both


def agree(inputs, arrays, outputs, bound):
    for _, got, want in run_both(inputs, arrays, outputs):
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g.astype(float), w.astype(float), rtol=bound, atol=bound * 100)


@pytest.mark.parametrize("shape", [(40000, 4), (40001, 3), (20000, 10), (9000, 16),
                                   (5000, 64), (4099, 131), (2100, 500), (70000, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
def test_tall(rng, shape, dtype):
    a = (rng.normal(size=shape) * 20).astype(dtype)
    x = leaf(a)
    total = bind(TABLE["reduce_sum"], x, axes=(0,), keepdims=False)
    most = bind(TABLE["reduce_max"], x, axes=(0,), keepdims=False)
    agree([x], [a], [total, most, bind(TABLE["multiply"], total, total)], 1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("shape", [(64, 3, 7, 7), (5, 40, 7, 7), (30, 2, 9, 13), (3, 8, 28, 28), (2, 1, 5, 5),
                                   (200, 2, 3, 11), (70, 3, 10, 10)])
def test_short_rows(rng, shape):
    a, b = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    x, y = leaf(a), leaf(b)
    axes = (0, 2, 3)
    outputs = [bind(TABLE["reduce_sum"], v, axes=axes, keepdims=False) for v in (x, bind(TABLE["multiply"], x, y))]
    outputs.append(bind(TABLE["reduce_min"], y, axes=axes, keepdims=False))
    agree([x, y], [a, b], outputs, 1e-5)


def test_running_sums(rng):
    a = rng.normal(size=(70, 300))
    x = leaf(a)
    agree([x], [a], [bind(TABLE["cumulative_sum"], x, axis=1), bind(TABLE["cumulative_sum"], x, axis=0)], 1e-12)
