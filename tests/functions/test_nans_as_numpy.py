"""Functions that leave NaN out, medians and quantiles, drawn at random against NumPy: real and complex, with every argument."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft as wf

FOLDS = ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nanmedian", "median", "nancumsum", "nancumprod",
         "nanargmax", "nanargmin")
DTYPES = ("int64", "uint8", "float32", "float64", "complex64", "complex128")
SHAPES = ((), (1,), (5,), (0,), (3, 4), (1, 3), (3, 0), (2, 3, 2))
METHODS = ("linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf", "hazen", "closest_observation")


def content(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Small numbers, a third of them NaN; all of a row now and then."""
    found = np.asarray(rng.integers(0, 4, shape).astype(dtype))
    if found.dtype.kind in "fc":
        found += rng.integers(-3, 1, shape)
    if found.dtype.kind == "c":
        found += 1j * rng.integers(-3, 4, shape)
    if found.dtype.kind in "fc" and rng.random() < 0.8:
        hole = rng.random(shape) < (0.35 if rng.random() < 0.8 else 1)
        found = np.where(hole, [np.nan, complex(np.nan, 1), complex(2, np.nan)][rng.integers(3)]
                         if found.dtype.kind == "c" else np.nan, found).astype(dtype)
    return found


def outcome(f: Any, *args: Any, **known: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(f(*args, **known))
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            return error


def same(got: Any, want: Any, context: Any) -> None:
    """One kind of dtype, one shape, equal numbers; what is NaN is NaN in both, whichever part of a complex number it is in."""
    if isinstance(got, Exception) or isinstance(want, Exception):
        assert isinstance(got, Exception) and isinstance(want, Exception), (context, got, want)
        return
    assert (got.dtype.kind, got.shape) == (want.dtype.kind, want.shape), (context, got, want)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=str((context, got, want)))
    np.testing.assert_allclose(np.nan_to_num(got[~np.isnan(got)]), np.nan_to_num(want[~np.isnan(want)]), rtol=1e-5, atol=1e-5,
                               err_msg=str((context, got, want)))


@pytest.mark.parametrize("name", FOLDS)
def test_folds(name: str, rng: np.random.Generator) -> None:
    for _ in range(150):
        x = content(rng, SHAPES[rng.integers(len(SHAPES))], DTYPES[rng.integers(len(DTYPES))])
        axes: list[Any] = [None, *range(-x.ndim, x.ndim)]
        given: dict[str, Any] = {"axis": axes[rng.integers(len(axes))]}
        if "cum" not in name and rng.random() < 0.3:
            given["keepdims"] = True
        if name in FOLDS[:7] and rng.random() < 0.3:
            given["where"] = np.asarray(rng.random(x.shape) < 0.7)
        if name in FOLDS[:4] and (rng.random() < 0.3 or ("where" in given and name in FOLDS[2:4])):
            odd = np.nan if name in FOLDS[2:4] and x.dtype.kind in "fc" else 3
            given["initial"] = [2, odd, x.dtype.type(odd)][rng.integers(3)]
        if name in ("nanvar", "nanstd") and rng.random() < 0.3:
            given["ddof"] = 1
        want = outcome(getattr(np, name), x, **given)
        if name == "nanmedian" and not isinstance(want, Exception) and want.dtype.kind == "c":
            want = np.asarray(outcome(lambda v, name=name, given=given: getattr(np, name)(v, **given), x))
        same(outcome(getattr(wf, name), wf.array(x), **given), want, (name, x.dtype, x.tolist(), given))


@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
def test_quantiles(name: str, rng: np.random.Generator) -> None:
    for _ in range(120):
        shape = SHAPES[rng.integers(len(SHAPES))]
        x = content(rng, shape, (*DTYPES, "bool")[rng.integers(len(DTYPES) + 1)])
        if not x.size:
            continue  # NumPy's answers to nothing differ from method to method
        q = [0.5, [0.0, 0.3, 1.0], [[0.25], [0.75]]][rng.integers(3)]
        q = (np.asarray(q) * 100).tolist() if "percentile" in name else q
        axes: list[Any] = [None, *range(-x.ndim, x.ndim)]
        given = {"axis": axes[rng.integers(len(axes))], "method": METHODS[rng.integers(len(METHODS))],
                 "keepdims": bool(rng.random() < 0.3)}
        want = outcome(getattr(np, name), x, q, **given)
        same(outcome(getattr(wf, name), wf.array(x), q, **given), want, (name, x.dtype, x.tolist(), q, given))


@pytest.mark.parametrize("name", ["fmax", "fmin", "maximum", "minimum"])
def test_pairs_of_complex_numbers(name: str, rng: np.random.Generator) -> None:
    for dtype in ("complex64", "complex128", "float32"):
        x, y = content(rng, (40,), dtype), content(rng, (40,), dtype)
        same(outcome(getattr(wf, name), wf.array(x), wf.array(y)), getattr(np, name)(x, y), (name, x, y))


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanvar", "nanmedian"])
def test_derivatives_leave_nan_out(name: str, rng: np.random.Generator) -> None:
    x = rng.permutation(9).astype(float) + 0.5
    x[[1, 4]] = np.nan
    mask = np.ones(9, bool)
    mask[2] = False
    given = {} if name == "nanmedian" else {"where": mask}
    found = wf.grad(lambda v: getattr(wf, name)(v, **given))(wf.array(x)).numpy()
    for k in range(9):
        step = np.zeros(9)
        step[k] = 1e-6
        want = 0.0 if np.isnan(x[k]) else (getattr(np, name)(x + step, **given) - getattr(np, name)(x - step, **given)) / 2e-6
        assert abs(found[k] - want) <= 1e-5 * max(1.0, abs(want)), (name, k, found, want)
