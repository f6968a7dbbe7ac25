"""The forms in which NumPy takes axes, shapes, counts and options, drawn at random: what it gives, weft gives, too."""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

Pair = namedtuple("Pair", "first second")
ONE: dict[str, Callable[[int], Any]] = {
    "int8": np.int8, "uint64": np.uint64, "0-d": np.array, "Scalar": wf.int64, "Array": wf.array,
    "computed": lambda k: wf.arange(9)[k],
}
MANY: dict[str, Callable[[tuple[int, ...]], Any]] = {
    "list": list, "array": np.array, "Array": lambda t: wf.array(list(t)), "NumPy's": lambda t: tuple(map(np.int64, t)),
    "Scalars": lambda t: [wf.int64(k) for k in t],
    "range": lambda t: range(t[0], t[1] + (step := 1 if t[1] > t[0] else -1), step) if abs(t[1] - t[0]) == 1 else t,
    "namedtuple": lambda t: Pair(*t),
}
NO_SEQUENCE = {"Scalar", "Array", "Scalars", "computed"}  # forms of weft's own, for which NumPy is given tuples and ints
WITH_ONE = """
    sum(x, K)|mean(x, axis=K)|argmax(x, K)|cumsum(x, K)|sort(x, K)|flip(x, K)|roll(x, K)|roll(x, 1, K)|repeat(x, K)
    repeat(x, 2, K)|tile(x, K)|expand_dims(x, K)|swapaxes(x, 0, K)|moveaxis(x, K, 0)|moveaxis(x, 0, K)
    concatenate([x, x], K)|stack([x, x], K)|split(x, K)|array_split(x, K)|diff(x, K)|diff(x, axis=K)|diag(v, K)
    diagonal(x, K)|trace(x, K)|eye(3, 4, K)|zeros(K)|full(K, 2.)|linspace(0, 1, K)|tri(3, 3, K)|tril(x, K)|rot90(x, K)
    take(x, K)|take(x, 1, K)|delete(v, K)|insert(v, K, 5)|partition(v, K)|pad(v, K)|median(x, K)|quantile(x, 0.5, K)
    average(x, K)|std(x, K)|var(x, ddof=K)|round(x, K)|vander(v, K)|polyder(v, K)|polyint(v, K)|hanning(K)|kaiser(K, 2)
    tril_indices(3, K)|fft.fft(x, K)|fft.fft(x, axis=K)|linalg.norm(x, axis=K)|unique(x, axis=K)|tensordot(x, x.T, K)
    gradient(x, axis=K)|trapezoid(x, axis=K)|bincount([0, 1], minlength=K)|indices((K, 2))|unravel_index(K, (2, 3))
    reshape(v, (K, 3))|resize(v, K)|histogram(v, K)|linspace(0, 1, 5, axis=K)|linalg.matrix_power(x[:, :2], K)
    random.normal(size=K).shape|random.rand(K).shape|random.permutation(K).shape|random.randint(0, 5, K).shape
    random.choice(5, K).shape|random.uniform(size=K).shape
"""
WITH_MANY = """
    sum(x, T)|max(x, axis=T)|flip(x, T)|moveaxis(x, T, U)|transpose(x, U)|roll(x, T, U)|rot90(x, 1, T)|expand_dims(x, T)
    zeros(S)|full(S, 1.)|reshape(x, S)|reshape(x.T, S)|tile(x, S)|pad(v, S)|tensordot(x, x, (T, T))|fft.fftn(x, S)
    fft.fft2(x, axes=T)|median(x, T)|linalg.norm(x, axis=T)|std(x, T)|average(x, T)|count_nonzero(x, T)|broadcast_to(v, S)
    resize(v, S)|split(arange(9.), S)|take(v, T)|delete(v, T)|insert(v, T, 5)|unravel_index(5, S)|indices(S)|einsum(x, T, U)
    ptp(x, T)|fft.fftshift(x, T)|apply_over_axes(sum, x, T)|random.normal(size=S).shape|random.randint(0, 9, S).shape
    random.standard_normal(S).shape|empty(S).shape|ones_like(v, shape=S)
"""
VALUES = {"T": (0, 1), "U": (1, 0), "S": (2, 3)}
x, v = np.arange(6, dtype="float32").reshape(2, 3), np.array([3, 1, 2], "float32")


def texts(lines: str) -> list[str]:
    return [text.strip() for line in lines.splitlines() for text in line.split("|") if text.strip()]


def call(xp: Any, text: str, **names: Any) -> Any:
    names.update({name: getattr(xp, name) for name in ("sum", "arange")}, xp=xp)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = eval("xp." + text, names)  # noqa: S307
    return [np.asarray(part) for part in found] if isinstance(found, tuple | list) else np.asarray(found)


def compare(text: str, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    try:
        want = call(np, text, x=x, v=v, **theirs)
    except (TypeError, ValueError, OverflowError, IndexError):
        return  # NumPy takes no such form here
    got = call(wf, text, x=wf.array(x), v=wf.array(v), **ours)
    for g, w in zip(*((r if isinstance(r, list) else [r]) for r in (got, want)), strict=True):
        assert g.shape == w.shape and np.allclose(g, w, rtol=1e-4, atol=1e-5, equal_nan=True), text


@pytest.mark.parametrize("form", ONE)
def test_integers(form: str) -> None:
    for text in texts(WITH_ONE):
        compare(text, {"K": 1 if form in NO_SEQUENCE else ONE[form](1)}, {"K": ONE[form](1)})


@pytest.mark.parametrize("form", MANY)
def test_sequences(form: str) -> None:
    for text in texts(WITH_MANY):
        names = {name: MANY[form](t) for name, t in VALUES.items()}
        compare(text, dict(VALUES) if form in NO_SEQUENCE else names, names)


def test_namedtuples_are_indices() -> None:
    theirs, ours = np.zeros((3, 3)), wf.zeros((3, 3))
    for a in (theirs, ours):
        a[Pair(1, 2)] = 5
        a[Pair(slice(1), 0)] += 1
        a[Pair([0, 2], [1, 1])] = 7
    assert ours.tolist() == theirs.tolist() and ours[Pair(1, 2)] == 5 and ours[Pair(0, ...)].shape == (3,)


@pytest.mark.parametrize("seed", range(30))
def test_paths_of_einsum(seed: int) -> None:
    """The path of ``einsum_path``, and paths drawn at random."""
    rng = np.random.default_rng(seed)
    letters, count = "abcd", int(rng.integers(1, 5))
    terms = ["".join(rng.choice(list(letters), rng.integers(1, 4), replace=False)) for _ in range(count)]
    sizes = dict(zip(letters, rng.integers(1, 4, 4).tolist(), strict=True))
    used = sorted(set("".join(terms)))
    text = f"{','.join(terms)}->{''.join(rng.permutation(used)[: rng.integers(len(used) + 1)])}"
    operands = [rng.integers(-3, 4, [sizes[c] for c in term]).astype("float64") for term in terms]
    path: list[Any] = ["einsum_path"]
    left = count
    while left > 1 or len(path) == 1:
        step = tuple(sorted(rng.choice(left, min(left, int(rng.integers(2, 4))), replace=False).tolist()))
        path.append(step)
        left += 1 - len(step)
    for how in (path, np.einsum_path(text, *operands)[0], wf.einsum_path(text, *operands)[0], True, False, ("greedy", 100)):
        got = wf.einsum(text, *map(wf.array, operands), optimize=how)
        np.testing.assert_allclose(got, np.einsum(text, *operands, optimize=False), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("p", [None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"])
def test_condition_numbers_of_singular_matrices(p: Any) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(-3, 4, (12, 3, 3)).astype("float64")
    rows[0] = 0
    rows[1, 2] = rows[1, 0] = rows[1, 1] = 0
    rows[2, 0, 0] = np.nan
    for a in (*rows[:3], rows, np.eye(3)):
        try:
            want = np.linalg.cond(a, p)
        except np.linalg.LinAlgError:
            continue  # the SVD of NaN
        got = np.asarray(wf.linalg.cond(wf.array(a), p))
        near = np.isfinite(want) & (want < 1e12)
        np.testing.assert_allclose(got[near], np.asarray(want)[near], rtol=1e-6)
        assert np.all(np.isnan(got) == np.isnan(want)) and np.all(got[~near & ~np.isnan(want)] > 1e12)


@pytest.mark.parametrize("seed", range(20))
def test_tolerances_that_are_arrays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(2, 3))
    b = a + rng.choice([0, 1e-9, 1e-3, 0.1, np.nan], a.shape)
    shapes = [(), (1,), (3,), (2, 1), (2, 3)]
    rtol, atol = (rng.choice([0, 1e-5, 1e-2, 1], shapes[rng.integers(len(shapes))]) for _ in range(2))
    for r, t in ((rtol, atol), (rtol.tolist(), 1e-8), (1e-5, atol), (np.float32(1e-2), 0)):
        for equal_nan in (False, True):
            got = wf.isclose(wf.array(a), wf.array(b), r, wf.array(t) if isinstance(t, np.ndarray) else t, equal_nan)
            assert np.array_equal(got, np.isclose(a, b, r, t, equal_nan))
            assert bool(wf.allclose(a, b, r, t, equal_nan)) == np.allclose(a, b, r, t, equal_nan)


def test_vectorize_decorates() -> None:
    for xp in (np, wf):
        @xp.vectorize(otypes=[float], doc="Half.")
        def half(a: float) -> float:
            return a / 2

        @xp.vectorize
        def twice(a: float) -> float:
            """Twice."""
            return a * 2

        @xp.vectorize(signature="(n)->()", otypes=["float64"])
        def norm(a: Any) -> Any:
            return (a * a).sum()

        assert half([1, 3]).tolist() == [0.5, 1.5] and half.__doc__ == "Half." and half([1]).dtype.kind == "f"
        assert twice([1, 3]).tolist() == [2, 6] and twice.__doc__ == "Twice."
        assert norm(xp.ones((2, 3))).tolist() == [3, 3]


EMPTY = "mean var std median nanmean nanvar nanstd nanmedian average quantile max argmax ptp sum prod".split()


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (1,), (2, 1), (2, 0, 3), (4, 3)])
def test_warnings_about_empty_means(name: str, shape: tuple[int, ...]) -> None:
    """NumPy's, which shapes alone decide: for the same calls, and beginning with the same words."""
    a = np.ones(shape)
    for axis in (None, 0, -1):
        for options in ({}, {"ddof": 1}) if name.endswith(("var", "std")) else ({"q": 0.5},) if name == "quantile" else ({},):
            said: list[Any] = []
            for xp, given in ((np, a), (wf, wf.array(a))):
                with warnings.catch_warnings(record=True) as met:
                    warnings.simplefilter("always")
                    try:
                        np.asarray(getattr(xp, name)(given, axis=axis, **options))
                    except ZeroDivisionError:
                        break  # of NumPy's average of no rows
                    except (ValueError, IndexError):
                        said.append("refused")
                        continue
                texts = {str(w.message) for w in met if "invalid value" not in str(w.message)}
                said.append({text.partition(":")[0].strip(".") for text in texts if issubclass(RuntimeWarning, met[0].category)})
            assert len(said) < 2 or said[0] == said[1], (axis, options)
