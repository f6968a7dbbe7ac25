"""What looks for numbers among numbers, beside NumPy: narrow arrays do not round Python's numbers, nor lists of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "isin": lambda xp, a, v: xp.isin(a, v), "not isin": lambda xp, a, v: xp.isin(a, v, invert=True),
    "isin of it": lambda xp, a, v: xp.isin(v, a),
    "searchsorted": lambda xp, a, v: xp.searchsorted(a, v), "right": lambda xp, a, v: xp.searchsorted(a, v, side="right"),
    "sorter": lambda xp, a, v: xp.searchsorted(a, v, sorter=xp.asarray(list(range(a.shape[0])))),
    "digitize": lambda xp, a, v: xp.digitize(v, a), "digitize falling": lambda xp, a, v: xp.digitize(v, a[::-1], right=True),
    "array_equal": lambda xp, a, v: xp.array_equal(a[0], v), "array_equiv": lambda xp, a, v: xp.array_equiv(a, v),
    "array_equal of lists": lambda xp, a, v: xp.array_equal(a, v if isinstance(v, list) else [v]),
    "intersect1d": lambda xp, a, v: xp.intersect1d(a, v), "setdiff1d": lambda xp, a, v: xp.setdiff1d(a, v),
    "setdiff1d of it": lambda xp, a, v: xp.setdiff1d(v, a).shape, "setxor1d": lambda xp, a, v: xp.setxor1d(a, v).shape,
    "places": lambda xp, a, v: xp.intersect1d(a, v, return_indices=True)[1:],
}
LISTED = {  # whose array may be a list as well, beside an array of numbers
    "searchsorted": lambda xp, a, v: xp.searchsorted(v, a), "digitize": lambda xp, a, v: xp.digitize(a, v),
    "digitize falling": lambda xp, a, v: xp.digitize(a, v[::-1]),
}


def numbers(dtype: str, rng: np.random.Generator) -> tuple[np.ndarray, list[Any]]:
    """An array of the dtype, sorted, and numbers near its own, none of them a fraction that only float64 has."""
    if np.dtype(dtype).kind == "f":
        info = np.finfo(dtype)
        bits = info.nmant + 1
        own = [0.0, 1.0, 1.5, 2.0**bits, -(2.0**bits), np.inf, -np.inf, float(info.smallest_subnormal), float(info.max)]
        near = [2**bits + 1, -(2**bits) - 1, 2**bits - 1, 1e-320, -1e-320, 1e300, -1e300, 0, 1, 1.5, 3, np.inf, True, 2**62]
    else:
        limits = np.iinfo(dtype)
        own = [0, 1, 2, limits.max, limits.min, limits.max - 1]
        near = [0, 1, 2, -1, int(limits.max), int(limits.min), 0.5, 1e-320, 1e300, -1e300, True]
        near += [int(limits.max) + 1, int(limits.min) - 1] if limits.bits < 64 else []
    chosen = rng.choice(len(own), 4, replace=False)
    return np.sort(np.array([own[k] for k in chosen], dtype)), near


def outcome(f: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = f()
        return [np.asarray(x).tolist() for x in found] if isinstance(found, tuple) else np.asarray(found).tolist()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "uint64"])
def test_as_numpy(dtype: str) -> None:
    rng = np.random.default_rng()
    for _ in range(3):
        known, near = numbers(dtype, rng)
        given = [near[k] for k in rng.choice(len(near), 3, replace=False)]
        for value in (*given, given[:2], [x for x in given if type(x) is int]):
            if isinstance(value, list) and (not value or np.asarray(value).dtype.kind not in "biuf"):
                continue
            if isinstance(value, list) and {int, float} <= {type(x) for x in value}:  # floats are all that such a list is
                continue
            for way, f in WAYS.items():
                got = outcome(lambda: f(wf, wf.array(known), value))  # noqa: B023  called at once
                want = outcome(lambda: f(np, known, value))  # noqa: B023
                assert got == want, (way, known, value, got, want)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_lists_to_look_in(dtype: str) -> None:
    rng = np.random.default_rng()
    known, near = numbers(dtype, rng)
    for kind in (int, float):
        values = sorted(x for x in near if type(x) is kind and abs(x) < 1e301 and abs(x) < 2**62)
        for way, f in LISTED.items():
            got = outcome(lambda: f(wf, wf.array(known), values))  # noqa: B023  called at once
            assert got == outcome(lambda: f(np, known, values)), (way, known, values)  # noqa: B023


@pytest.mark.parametrize("way", ["isin", "array_equal of lists", "array_equiv"])
def test_what_was_written_is_found(way: str) -> None:
    """A fraction beside float32, the default, counts as float32, beside float64 as float64."""
    for dtype in ("float32", "float64"):
        for value in (0.1, -1e30 / 3, [0.1]):
            a = wf.array([value] if isinstance(value, float) else value, dtype=dtype)
            assert outcome(lambda: WAYS[way](wf, a, value)) in (True, [True])  # noqa: B023  called at once
    assert wf.setdiff1d(wf.array([0.1], dtype="float64"), [0.1]).size == 0


def test_nothing_in_common() -> None:
    for a, b in ((wf.zeros(0), wf.ones(2)), (wf.ones(2), [])):
        assert [x.tolist() for x in wf.intersect1d(a, b, return_indices=True)] == [[], [], []]


def test_traced() -> None:
    x = wf.array([2.0**24, 1.0], dtype="float32")
    for k in (2**24 + 1, 2**24, 1, 10**6):
        assert wf.jit(lambda a, k: wf.isin(a, k))(x, k).tolist() == wf.isin(x, k).tolist() == np.isin(x.numpy(), k).tolist()
        assert wf.jit(lambda a: wf.isin(a, k))(x).tolist() == np.isin(x.numpy(), k).tolist()  # noqa: B023  called at once
    line = wf.array([0.0, 1.0], dtype="float16")
    assert wf.jit(lambda a, t: wf.searchsorted(a, t))(line, 1e-30) == 1
