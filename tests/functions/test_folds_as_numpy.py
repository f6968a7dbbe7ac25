"""Folds drawn at random against NumPy: ``wf.add.reduce`` and its like, ``sum`` and its like, with every argument they take."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

GROUPED = ("add", "multiply", "maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or", "logical_xor", "bitwise_and",
           "bitwise_or", "bitwise_xor", "logaddexp", "logaddexp2", "hypot")
LEFT = ("subtract", "divide", "floor_divide", "remainder", "power", "arctan2", "copysign", "heaviside", "fmod")
FUNCTIONS = ("sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "ptp", "cumsum", "cumprod", "argmax", "argmin")
DTYPES = ("bool", "uint8", "int8", "int64", "uint64", "float32", "float64", "complex128")
SHAPES = ((), (1,), (4,), (0,), (3, 4), (1, 3), (0, 3), (3, 0), (2, 3, 2))
DRAWS = 120
KINDS = "buifc"


def content(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Whole numbers, of which sums and products are exact."""
    found = rng.integers(0 if dtype[0] in "bu" else -3, 4, shape)
    return (found + 1j * rng.integers(-3, 4, shape) if dtype == "complex128" else found).astype(dtype)


def options(rng: np.random.Generator, name: str, x: np.ndarray, method: bool) -> dict[str, Any]:
    """Arguments of a fold, each there or not."""
    axes: list[Any] = [0, -1, None, (), tuple(range(min(x.ndim, 2)))]
    found: dict[str, Any] = {"axis": axes[rng.integers(len(axes) - (2 if name.startswith(("arg", "cum")) else 0))]}
    if not x.ndim and name in ("mean", "var", "std"):  # NumPy lets 0 and -1 pass in some calls, not in others
        found["axis"] = None
    places = name.startswith(("arg", "cum"))
    if not name.startswith("cum") and rng.random() < 0.3:
        found["keepdims"] = True
    if not places and name != "ptp" and rng.random() < 0.4:
        found["where"] = rng.random(x.shape[rng.integers(x.ndim + 1):]) < 0.6
    if (method or name in ("sum", "prod", "max", "min")) and rng.random() < 0.4:
        found["initial"] = [1, 2, 0, 2.5, True][rng.integers(5)]
    if rng.random() < 0.25:
        found["out"] = DTYPES[rng.integers(len(DTYPES))]
    if (method or name in ("sum", "prod", "cumsum", "cumprod")) and "out" not in found and rng.random() < 0.2:
        found["dtype"] = ("int64", "float64", "bool", "complex128")[rng.integers(4)]
    return found


def outcome(xp: Any, f: Callable[..., Any], x: np.ndarray, given: dict[str, Any], shape: tuple[int, ...]) -> Any:
    """The result as a NumPy array, or None where the call is refused."""
    known = dict(given)
    if "out" in known:
        known["out"] = xp.zeros(shape, dtype=known["out"])
    if "where" in known and xp is wf:
        known["where"] = wf.array(known["where"])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        try:
            return np.asarray(f(wf.array(x) if xp is wf else x, **known))
        except (TypeError, ValueError, IndexError, OverflowError, np.exceptions.ComplexWarning) as error:
            return error


def compare(name: str, ours: Callable[..., Any], theirs: Callable[..., Any], x: np.ndarray, given: dict[str, Any]) -> None:
    plain = outcome(np, theirs, x, {k: v for k, v in given.items() if k in ("axis", "keepdims")}, ())
    shape = plain.shape if isinstance(plain, np.ndarray) else x.shape[1:]
    want, got = outcome(np, theirs, x, given, shape), outcome(wf, ours, x, given, shape)
    if isinstance(want, np.exceptions.ComplexWarning):
        return
    context = (name, x.dtype, x.tolist(), given, want, got)
    if isinstance(got, wf.errors.DTypeError) and "out has dtype" in str(got):  # NumPy's folds cast to out whatever it is
        assert isinstance(want, Exception) or not np.can_cast(np.result_type(x, given["out"]), given["out"], "same_kind") or (
            isinstance(plain, Exception) or KINDS.index(plain.dtype.kind) > KINDS.index(np.dtype(given["out"]).kind)), context
        return
    if isinstance(want, Exception) or isinstance(got, Exception):
        assert isinstance(want, Exception) and isinstance(got, Exception), context
        return
    assert got.shape == want.shape, context
    assert got.dtype.kind == want.dtype.kind, context
    if "out" in given:
        assert got.dtype == want.dtype, context
    if want.dtype == np.float16:  # of small integers, where weft makes float32
        want = outcome(np, theirs, x.astype(np.int64), given, shape)
    rtol = 1e-12 if got.dtype in (np.float64, np.complex128) and given.get("out") else 3e-6
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-6, err_msg=str(context))


@pytest.mark.parametrize("name", [*GROUPED, *LEFT])
def test_methods_of_ufuncs(name: str, rng: np.random.Generator) -> None:
    ours, theirs = getattr(wf, name), getattr(np, name)
    for _ in range(DRAWS):
        x = content(rng, SHAPES[rng.integers(len(SHAPES))], DTYPES[rng.integers(len(DTYPES))])
        compare(f"{name}.reduce", ours.reduce, theirs.reduce, x, options(rng, name, x, True))
        given = {"axis": int(rng.integers(-1, 1))}
        if rng.random() < 0.2:
            given["dtype"] = "float64"
        compare(f"{name}.accumulate", ours.accumulate, theirs.accumulate, x, given)
        if x.ndim and x.shape[0]:
            where = rng.integers(0, x.shape[0], 3).tolist()
            compare(f"{name}.reduceat", lambda v, ours=ours, at=where: ours.reduceat(v, at),
                    lambda v, theirs=theirs, at=where: theirs.reduceat(v, at), x, {})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, rng: np.random.Generator) -> None:
    for _ in range(2 * DRAWS):
        x = content(rng, SHAPES[rng.integers(len(SHAPES))], DTYPES[rng.integers(len(DTYPES))])
        compare(name, getattr(wf, name), getattr(np, name), x, options(rng, name, x, False))


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "logaddexp", "hypot"])
def test_derivatives_and_jit_with_initial_and_where(name: str, rng: np.random.Generator) -> None:
    """What a mask leaves out has no derivative, and what a fold begins with counts once: against central differences."""
    ours, theirs = getattr(wf, name).reduce, getattr(np, name).reduce
    for shape in ((1,), (4,), (3, 2), (2, 5)):
        x, mask = rng.uniform(0.5, 3.0, shape), rng.random(shape) < 0.6
        for axis in (0, None):
            def f(v: wf.Array, axis: int | None = axis, mask: np.ndarray = mask) -> wf.Array:
                return ours(v, axis=axis, initial=1.5, where=mask).sum()

            want = theirs(x, axis=axis, initial=1.5, where=mask).sum()
            assert abs(float(wf.jit(f)(wf.array(x))) - want) < 1e-9
            step = np.zeros(shape)
            slopes = np.zeros(shape)
            for place in np.ndindex(shape):
                step[place] = 1e-6
                ends = [theirs(x + s * step, axis=axis, initial=1.5, where=mask).sum() for s in (1, -1)]
                slopes[place] = (ends[0] - ends[1]) / 2e-6
                step[place] = 0
            np.testing.assert_allclose(wf.grad(f)(wf.array(x)).numpy(), slopes, atol=1e-6)
