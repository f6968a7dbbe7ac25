"""What looks for numbers among numbers, beside NumPy: narrow arrays do not round Python's numbers, nor lists of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.graph.node import topological_order

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


SEARCHES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "left": lambda xp, a, v: xp.searchsorted(a, v), "right": lambda xp, a, v: xp.searchsorted(a, v, side="right"),
    "isin": lambda xp, a, v: xp.isin(v, a), "not isin": lambda xp, a, v: xp.isin(v, a, invert=True),
}
LENGTHS = (0, 1, 2, 3, 31, 32, 33, 34, 63, 64, 65, 127, 257, 1000)  # beside the length from which on is searched, and powers of 2


@pytest.mark.drawn(4)
@pytest.mark.parametrize("dtype", "bool float16 float32 float64 int8 uint8 int32 int64 uint64 complex64".split())
def test_lines_of_all_lengths(dtype: str, rng: np.random.Generator) -> None:
    """At once, compiled, and several lines at a time, with equal elements, infinities and NaN."""
    for length in LENGTHS:
        span = int(rng.choice([3, 100]))
        line, values = (rng.integers(0, 2 if dtype == "bool" else span, n).astype(dtype) for n in (length, 41))
        if line.dtype.kind in "fc":
            for x in (line, values):
                x[rng.random(x.size) < 0.1] = rng.choice([np.nan, np.inf, -np.inf])
        line = np.sort(line)
        for way, f in SEARCHES.items():
            if dtype == "complex64" and "isin" not in way and np.isnan(line).any():
                continue  # NaN beside a number in one of both parts has an order of NumPy's own
            want = f(np, line, values).tolist()
            a, v = wf.asarray(line), wf.asarray(values)
            step = wf.jit(lambda a, v: f(wf, a, v))  # noqa: B023  called at once
            assert f(wf, a, v).tolist() == step(a, v).tolist() == want, (way, line, values)
            assert f(wf, a, v[0]).tolist() == want[0], (way, line, values)
            if dtype != "complex64":
                rows = wf.vmap(lambda a, v: f(wf, a, v))(wf.stack([a, a]), wf.stack([v, v]))  # noqa: B023
                assert rows.tolist() == [want, want], (way, line, values)


@pytest.mark.parametrize(
    ("first", "second"), [("uint64", "int64"), ("int64", "uint64"), ("int64", "float32"), ("float16", "int32")],
)
def test_lines_of_another_dtype(first: str, second: str, rng: np.random.Generator) -> None:
    """Numbers are compared by value: beside 2**53 NumPy, which makes floats of them, finds neighbours equal."""
    for length in LENGTHS[1:]:
        line, values = np.sort(rng.integers(0, 50, length)).astype(first), rng.integers(0, 50, 20).astype(second)
        for way, f in SEARCHES.items():
            assert f(wf, wf.asarray(line), wf.asarray(values)).tolist() == f(np, line, values).tolist(), (way, line, values)
    if {first, second} == {"int64", "uint64"}:
        far = np.arange(2**60, 2**60 + 100)
        assert wf.searchsorted(wf.asarray(far.astype(first)), wf.asarray(far.astype(second))).tolist() == list(range(100))


@pytest.mark.usefixtures("lazy")
def test_nothing_is_as_large_as_all_with_all() -> None:
    """No node of a search has more elements than its operands have together."""
    a, v = wf.arange(1000.0), wf.arange(700.0)
    ways: dict[str, Callable[[Any, Any, Any], Any]] = {
        **SEARCHES, "interp": lambda xp, a, v: xp.interp(v, a, a), "periodic": lambda xp, a, v: xp.interp(v, a, a, period=3.0),
        "choice": lambda xp, a, v: xp.random.choice(a, size=700, p=a / a.sum(), key=xp.random.key(1)),
        "digitize": lambda xp, a, v: xp.digitize(v, np.arange(1000.0)),
        "histogram": lambda xp, a, v: xp.histogram(v, np.arange(1000.0)),
    }
    for way, f in ways.items():
        found = f(wf, a, v)
        node = (found[0] if isinstance(found, tuple) else found).node
        assert max(n.size for n in topological_order([node])) <= 1700, way
