"""What is particular to a special function; that they are near their references, tests of the whole table show."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

import weft as wf
from weft.dtypes.formats import EVERY


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64"])
def test_erfc_at_its_edges(dtype: str) -> None:
    x = wf.array([0.0, -0.0, math.inf, -math.inf, 1000.0, -1000.0], dtype=dtype)
    if EVERY[dtype].finite:
        x = wf.array([0.0, -0.0, 400.0, -400.0, 448.0, -448.0], dtype=dtype)
    assert wf.erfc(x).tolist() == [1.0, 1.0, 0.0, 2.0, 0.0, 2.0]
    assert wf.isnan(wf.erfc(wf.array([math.nan], dtype=dtype))).all()
    assert wf.erfc(wf.array([1, 0])).dtype == "float32"


@pytest.mark.parametrize("dtype, last", [("float32", 10.06), ("float64", 27.23)])
def test_erfc_underflows_gradually(dtype: str, last: float) -> None:
    """Denormal results are off by one of their units; then it is 0."""
    x = np.linspace(last - 1.2, last + 0.2, 5000).astype(dtype)
    got = wf.erfc(wf.array(x)).numpy()
    want = np.array([math.erfc(v) for v in x.astype(float)])
    small = want < np.finfo(dtype).tiny
    assert 1000 < small.sum() and got[-1] == 0 and (np.diff(got[small]) <= 0).all()
    assert (np.abs(got[small] - want[small]) <= 1.5 * np.finfo(dtype).smallest_subnormal).all()


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64"])
def test_erfcx_at_its_edges(dtype: str) -> None:
    assert wf.erfcx(wf.array([0.0, -0.0], dtype=dtype)).tolist() == [1.0, 1.0]
    if not EVERY[dtype].finite:
        x = wf.array([math.inf, -math.inf, -1000.0], dtype=dtype)
        assert wf.erfcx(x).tolist() == [0.0, math.inf, math.inf]
    assert wf.isnan(wf.erfcx(wf.array([math.nan], dtype=dtype))).all()
    assert wf.erfcx(wf.array([1, 0])).dtype == "float32"


@pytest.mark.parametrize("dtype, last, ulps", [("float16", 3.2, 0.51), ("float32", 9.3, 3.0), ("float64", 3.0, 12.0)])
def test_erfcx_is_scipys(dtype: str, last: float, ulps: float, rng: np.random.Generator) -> None:
    """SciPy's float64 is off by 8 ulp, and by hundreds where the square of a negative number is large."""
    positive = np.exp(rng.uniform(-40, math.log(wf.finfo(dtype).max), 5000))
    x = np.concatenate([rng.uniform(-last, 30, 5000), positive]).astype(dtype)
    want = scipy.special.erfcx(x.astype(float))
    unit = np.spacing(np.maximum(np.abs(want.astype(dtype)), wf.finfo(dtype).smallest_normal)).astype(float)
    assert (np.abs(wf.erfcx(wf.array(x)).numpy().astype(float) - want) <= ulps * unit).all()


@pytest.mark.parametrize("dtype, least", [("float32", "-0x1.2c3cbcp+3"), ("float64", "-0x1.aa0f4d2e063cep+4")])
def test_erfcx_overflows_at_the_last_number(dtype: str, least: str) -> None:
    ends = np.array([float.fromhex(least)], dtype)
    ends = np.append(ends, np.nextafter(ends, np.array(-np.inf, dtype)))
    assert wf.isfinite(wf.erfcx(wf.array(ends))).tolist() == [True, False]


@pytest.mark.parametrize("dtype, tolerance", [("float16", 1e-3), ("float32", 2e-5), ("float64", 5e-13)])
def test_gradients_of_erfcx_keep_their_digits(dtype: str, tolerance: float) -> None:
    """``2 x erfcx(x) - 2 / sqrt(pi)`` loses all digits where x is large."""
    x = wf.array([-2.0, -0.5, 0.0, 1.0, 4.0, 5.75, 6.25, 9.75, 10.25, 100.0], dtype=dtype)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    want = []
    for v in x.tolist():  # erfcx(x) is the integral of 2 / sqrt(pi) exp(-t * t - 2 x t) over t > 0
        half = 15 / (1 + max(v, 0))
        t = half * (nodes + 1)
        want.append(-4 / math.sqrt(math.pi) * half * (weights * t * np.exp(-t * t - 2 * v * t)).sum())
    slope = wf.grad(lambda x: wf.erfcx(x).sum())
    np.testing.assert_allclose(slope(x).numpy().astype(float), want, rtol=tolerance)
    assert slope(wf.array([math.inf, -math.inf], dtype=dtype)).tolist() == [0.0, -math.inf]
