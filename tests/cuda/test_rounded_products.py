"""Products whose sums and operands are rounded, on gpu-sim, against the loops of NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.functions.test_accumulators import convolution, draw, product, rounded, same

pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    with wf.device("gpu-sim"):
        yield


@pytest.mark.parametrize("m,k,n", [(18, 9, 21), (1, 12, 5), (3, 1, 4), (1, 7, 1)])
@pytest.mark.parametrize("form,every", [("float16", 1), ("bfloat16", 4), ("float8_e5m2", 1)])
def test_products(m: int, k: int, n: int, form: str, every: int, rng: np.random.Generator) -> None:
    a, b = draw(rng, (m, k), form), draw(rng, (k, n), form)
    got = wf.jit(lambda x, y: wf.matmul(x, y, accumulate=form, every=every))(wf.array(a), wf.array(b))
    assert same(got, product(a, b, form, every))


def test_batches_epilogues_and_operands(rng: np.random.Generator) -> None:
    a, b = draw(rng, (2, 5, 8), None), draw(rng, (2, 8, 6), None)

    def f(x: Any, y: Any) -> Any:
        return wf.maximum(wf.matmul(x, y, operands="float8_e4m3fn", accumulate="float16", every=3) * 0.5, 0)

    want = product(rounded(a, "float8_e4m3fn"), rounded(b, "float8_e4m3fn"), "float16", 3)
    assert same(wf.jit(f)(wf.array(a), wf.array(b)), np.maximum(want * np.float32(0.5), 0))


def test_convolutions(rng: np.random.Generator) -> None:
    x, w = draw(rng, (1, 2, 4, 5), None), draw(rng, (3, 2, 2, 2), None)
    got = wf.nn.conv2d(wf.array(x), wf.array(w), padding=1, accumulate="float16", every=3)
    assert same(got, convolution(x, w, "float16", 3, 1, 1, 1))
