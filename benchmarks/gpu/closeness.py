"""Errors of computed numbers in units of the bounds that the tests use for their formats."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from weft.dtypes.formats import FROM_NUMPY

_FLOAT32 = 2.0**-24


def bound(dtype: np.dtype, terms: int = 1, ulps: float = 16.0) -> float:
    """Return the allowed relative error of a sum of ``terms`` numbers. Rounding errors grow as the square root of their number.
    Narrow formats are summed in float32."""
    one = float(ml_dtypes.finfo(dtype).eps) / 2
    return 2 * ulps * (one + min(one, _FLOAT32) * math.sqrt(max(terms, 1)))


def apart(actual: Any, expected: Any, terms: int = 1, ulps: float = 16.0, scale: float | None = None) -> float:
    """Return the largest error in units of its bound: at most 1 is right, infinity if shape, kind, NaNs or infinities differ.

    actual : in the computed format
    expected : the same numbers in a wider format
    terms : how many numbers each element adds up; if several, the error is relative to the largest element
    scale : size to which the error is relative instead
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape:
        return math.inf
    if not is_float(actual.dtype):
        return 0.0 if np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "c") else math.inf
    info = ml_dtypes.finfo(actual.dtype)
    with np.errstate(all="ignore"):
        got, want = actual.astype(np.float64), expected.astype(np.float64)
        beyond = np.abs(want) > float(info.max) * (1 + float(info.eps) / 2)
        want = np.where(beyond, np.copysign(np.inf, want), want)
        plain = np.isfinite(want)
        if not np.array_equal(got[~plain], want[~plain], equal_nan=True) or not np.isfinite(got[plain]).all():
            return math.inf
        got, want = got[plain], want[plain]
        relative = bound(actual.dtype, terms, ulps)
        size = scale if scale is not None else float(np.max(np.abs(want), initial=0.0)) if terms > 1 else 0.0
        allowed = relative * (np.abs(want) + size) + float(info.smallest_subnormal)
        return float(np.max(np.abs(got - want) / allowed, initial=0.0))


def is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype in FROM_NUMPY and FROM_NUMPY[dtype].kind == "float"


def told(worst: float) -> dict[str, Any]:
    """Return the entries of a row for the largest error."""
    return {"worst": worst, "right": worst <= 1.0}
