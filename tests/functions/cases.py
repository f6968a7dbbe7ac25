"""Random data and comparisons that the function tests share."""

from __future__ import annotations

import numpy as np

import weft as wf
from weft.dtypes.formats import EVERY

FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SHAPES = ((), (1,), (7,), (3, 4), (2, 1, 5), (0,), (3, 0, 2))
RTOL = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2, "float8_e4m3fn": 0.13, "float8_e5m2": 0.26}


def dtype_of(name: str) -> np.dtype:
    return EVERY[name].numpy


def draw(shape: tuple[int, ...], dtype: str, low: float = -3.0, high: float = 3.0, seed: int | None = None) -> np.ndarray:
    """Fresh data: integers from a few values (so that some are equal), floats spread out."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype in INTEGERS:
        floor = max(int(low * 3), 0 if dtype.startswith("u") else -100)
        return np.asarray(rng.integers(floor, int(high * 3) + 1, shape)).astype(dtype)
    return np.asarray(rng.uniform(low, high, shape)).astype(dtype_of(dtype))


def expected_dtype(dtype: np.dtype, *operands: np.ndarray) -> np.dtype:
    """NumPy's dtype, with float64 made of integers and smaller floats replaced by float32."""
    wide = any(o.dtype == np.float64 for o in operands) or all(o.dtype.kind in "iu" for o in operands)
    return np.dtype(np.float32) if dtype == np.float64 and not wide else dtype


def check(
    found: object, want: np.ndarray, *, rtol: float | None = None, atol: float = 0.0, dtype: np.dtype | None = None
) -> None:
    """Shape, dtype and values, NaN equal to NaN."""
    assert isinstance(found, wf.Array), type(found)
    got = found.numpy()
    want = np.asarray(want)
    assert got.shape == want.shape, (got.shape, want.shape)
    if dtype is not None:
        assert got.dtype == dtype, (got.dtype, dtype)
    if rtol is None:
        rtol = RTOL.get(got.dtype.name, 0.0)
    if got.dtype.kind in "biu" and rtol == 0.0:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True)
