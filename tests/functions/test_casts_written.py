"""What copyto, place, putmask, pad and ``a.flat`` write: what NumPy refuses is refused, the rest is NumPy's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.functions.cases import INTEGERS

DTYPES = (*INTEGERS, "bool", "float16", "float32", "float64", "complex64", "complex128")
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def outcome(f: Callable[[Any], Any], xp: Any) -> Any:
    """What is written, or that it is refused; no word of a library's own line."""
    with warnings.catch_warnings(), np.errstate(all="ignore" if xp is np else "warn"):
        warnings.simplefilter("ignore" if xp is np else "error")
        try:
            return np.asarray(f(xp))
        except (TypeError, ValueError, OverflowError):
            return "refused"


def values(rng: np.random.Generator) -> list[tuple[str, Any]]:
    """Small numbers in all the ways to write them; "array": to be made one of the library's."""
    found: list[tuple[str, Any]] = [("number", x) for x in (5, 1.5, 1j, True)]
    found += [("list", x) for x in ([1, 2], [True, False], [1j, 2])]
    for dtype in DTYPES:
        number = np.asarray(rng.integers(0, 2)).astype(dtype)
        found += [("scalar", number[()]), ("array", number), ("array", np.stack([number, number]))]
    return found


@pytest.mark.parametrize("target", DTYPES)
def test_casts(target: str, rng: np.random.Generator) -> None:
    with wf.default_dtype("float64"):  # what lists of floats are in NumPy
        _casts(target, rng)


def _casts(target: str, rng: np.random.Generator) -> None:
    for kind, value in values(rng):
        lost = np.iscomplexobj(value) and np.dtype(target).kind in "iuf"  # the imaginary part, which weft never drops
        for casting in CASTINGS:
            if (lost and casting == "unsafe") or (kind == "number" and casting == "equiv"):  # there NumPy's "no" takes more
                continue

            def copied(xp: Any, value: Any = value, kind: str = kind, casting: str = casting) -> Any:
                a = xp.zeros(2, dtype=target)
                xp.copyto(a, xp.asarray(value) if kind == "array" else value, casting=casting)
                return a

            np.testing.assert_array_equal(outcome(copied, wf), outcome(copied, np), f"copyto {target} {value!r} {casting}")
        if lost:
            continue
        for name in ("place", "putmask"):

            def masked(xp: Any, value: Any = value, kind: str = kind, name: str = name) -> Any:
                a = xp.zeros(2, dtype=target)
                getattr(xp, name)(a, xp.asarray([True, True]), xp.asarray(value) if kind == "array" else value)
                return a

            np.testing.assert_array_equal(outcome(masked, wf), outcome(masked, np), f"{name} {target} {value!r}")


@pytest.mark.parametrize("target", (*INTEGERS, "float32", "float64"))
def test_lists_written_to_flat(target: str, rng: np.random.Generator) -> None:
    """Repeated where they are too short, cut where they are too long: each number whole, and refused where it does not fit."""
    near: list[Any] = [0, 1, -1, 300, -129, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 0.5, 2.75, 1e39, True]
    if np.dtype(target).kind == "f":
        near = [x for x in near if abs(x) < 1e38]
    for _ in range(40):
        given = [near[k] for k in rng.integers(0, len(near), rng.integers(1, 7))]
        start, shape = int(rng.integers(0, 3)), [(5,), (2, 3), (2, 2, 1)][rng.integers(3)]

        def written(xp: Any, given: Any = given, start: int = start, shape: Any = shape) -> Any:
            a = xp.zeros(shape, dtype=target)
            a.flat[start:] = given
            return a

        np.testing.assert_array_equal(outcome(written, wf), outcome(written, np), f"{target} {start} {given}")


def test_flat_of_nothing_and_of_one() -> None:
    a = wf.ones(3)
    a.flat[1:] = []
    a.flat[1:] = wf.zeros(0)
    assert a.tolist() == [1.0] * 3
    with pytest.raises(ValueError, match=r"^flat: one element is written to, but the value has shape \(2,\)"):
        a.flat[0] = [5, 6]


def test_signs_of_zeros_around_complex_arrays(rng: np.random.Generator) -> None:
    """However often a width was compiled with another zero."""
    parts = (0.0, -0.0, 1.0)
    for dtype in ("complex64", "complex128", "float32"):
        x = np.ones(2, dtype)
        for _ in range(12):
            if dtype == "float32":
                pair: Any = tuple(float(p) for p in rng.choice(parts, 2))
            else:
                pair = tuple(complex(*rng.choice(parts, 2)) for _ in range(2))
            for fill in (pair, pair[0]):
                got, want = wf.pad(wf.array(x), 1, constant_values=fill).numpy(), np.pad(x, 1, constant_values=fill)
                assert got.tobytes() == want.tobytes(), (dtype, fill, got, want)


def test_pad_looks_at_arrays_without_dimensions() -> None:
    for bad, error in ((np.inf, OverflowError), (np.nan, ValueError), (300.0, OverflowError)):
        with pytest.raises((OverflowError, ValueError)) as told:
            wf.pad(wf.zeros(2, dtype="int8"), 1, constant_values=wf.array(bad))
        assert error in (OverflowError, told.type)
    assert wf.pad(wf.zeros(1, dtype="int8"), 1, constant_values=wf.array(3.5)).tolist() == [3, 0, 3]
    assert wf.jit(lambda v: wf.pad(wf.zeros(1, dtype="int8"), 1, constant_values=v))(wf.array(3.5)).tolist() == [3, 0, 3]


def test_the_sentence_of_floats_beyond_all_integers() -> None:
    for write in (lambda: wf.full_like(wf.array([1, 2]), 1e30), lambda: wf.zeros(2, dtype="int8").fill(1e30)):
        with pytest.raises(OverflowError, match=r"the Python float 1e\+30 is out of bounds for int(64|8); cast the array first$"):
            write()
