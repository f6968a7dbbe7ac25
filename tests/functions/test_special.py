"""What is particular to a special function; that they are near their references, tests of the whole table show."""

from __future__ import annotations

import math

import numpy as np
import pytest

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
