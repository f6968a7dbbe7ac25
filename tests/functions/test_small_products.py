"""Products of 8-bit numbers that add up in wider formats: ``matmul(dtype=)``."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.errors import DTypeError

SHAPES = [((1, 1), (1, 1)), ((5, 7), (7, 3)), ((33, 65), (65, 17)), ((2, 9, 40), (40, 8)), ((3, 9, 40), (3, 40, 8)),
          ((40,), (40, 9)),
          ((9, 40), (40,)), ((40,), (40,)), ((3, 0), (0, 2)), ((0, 4), (4, 2)), ((300, 300), (300, 200))]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bool"])
def test_integers_are_exact_in_int32(dtype: str) -> None:
    rng = np.random.default_rng()
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for a_shape, b_shape in SHAPES:
        x, y = (rng.integers(low, high, s, dtype="int64", endpoint=True).astype(dtype) for s in (a_shape, b_shape))
        want = x.astype("int32") @ y.astype("int32")
        for got in (wf.matmul(wf.array(x), wf.array(y), dtype="int32"),
                    wf.jit(lambda a, b: wf.matmul(a, b, dtype=wf.int32))(wf.array(x), wf.array(y)),
                    np.matmul(wf.array(x), wf.array(y), dtype="int32")):
            assert got.dtype == np.int32 and got.shape == want.shape
            np.testing.assert_array_equal(np.asarray(got), want)


def test_the_extremes_do_not_wrap() -> None:
    low = wf.full((4, 1000), -128, dtype="int8")
    assert (wf.matmul(low, low.T, dtype="int32") == 16_384_000).all()
    assert (wf.jit(lambda a: wf.matmul(a, a.T, dtype="int32") // 1000)(low) == 16_384).all()
    assert (low @ low.T).dtype == wf.int8 and (low @ low.T == 0).all()  # which does


def test_no_array_of_the_wide_dtype_is_made() -> None:
    a = wf.zeros((64, 64), dtype="int8")
    told = str(wf.explain(wf.jit(lambda x, y: wf.matmul(x, y, dtype="int32")), a, a))
    assert "1 kernel" in told, told


def test_8_bit_floats_of_both_kinds_meet() -> None:
    rng = np.random.default_rng()
    x, y = rng.normal(size=(6, 50)), rng.normal(size=(50, 4))
    a, b = wf.array(x).astype("float8_e4m3fn"), wf.array(y).astype("float8_e5m2")
    got = wf.matmul(a, b, dtype="float32")
    assert got.dtype == wf.float32
    want = a.numpy().astype("f8") @ b.numpy().astype("f8")
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-5)
    g = wf.grad(lambda a: wf.matmul(a, b, dtype="float32").sum())(a)
    assert g.dtype == a.dtype
    out = wf.zeros((6, 4))
    assert wf.matmul(a, b, out, dtype="float32") is out and out.tolist() == got.tolist()


def test_what_cannot_be_held_is_refused() -> None:
    with pytest.raises(DTypeError, match="matmul: x2 is float32, not cast to int32 by casting=.same_kind.; cast it with .astype"):
        wf.matmul(wf.ones((2, 2), dtype="int8"), wf.ones((2, 2)), dtype="int32")
    with pytest.raises(DTypeError, match="'int7' is not a dtype"):
        wf.matmul(wf.ones((2, 2)), wf.ones((2, 2)), dtype="int7")
    with pytest.raises(wf.errors.ShapeError, match="matmul: shapes"):
        wf.matmul(wf.ones((2, 3), dtype="int8"), wf.ones((2, 3), dtype="int8"), dtype="int32")
