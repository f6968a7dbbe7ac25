"""What NumPy's random functions take besides numbers, and what they refuse."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import DTypeError


@pytest.mark.parametrize("shuffle", [wf.random.shuffle, wf.random.default_rng(3).shuffle], ids=["hidden", "generator"])
def test_shuffle_in_place(shuffle: Any) -> None:
    twenty = range(20)
    for x in (list(twenty), deque(twenty), np.arange(20), wf.arange(20), [[k] for k in twenty], [str(k) for k in twenty]):
        before = list(x)
        shuffle(x)
        assert list(x) != before and sorted(map(str, x)) == sorted(map(str, before))
    rows = np.arange(12).reshape(2, 6)
    shuffle(rows, 1)
    assert sorted(rows.T.tolist()) == np.arange(12).reshape(2, 6).T.tolist()
    for x in ((1, 2), "ab", {1: 2}, 3):
        with pytest.raises(DTypeError, match="shuffle: x must be an array or a list, not a"):
            shuffle(x)


def test_the_same_order_for_all_kinds() -> None:
    found = []
    for x in (list(range(9)), np.arange(9), wf.arange(9)):
        wf.random.seed(4)
        wf.random.shuffle(x)
        found.append(list(map(int, x)))
    wf.random.seed(4)
    assert found == [wf.random.permutation(9).tolist()] * 3


@pytest.mark.parametrize("source", [wf.random, wf.random.default_rng(1), wf.random.RandomState(1)], ids=["hidden", "new", "old"])
def test_texts_and_objects(source: Any) -> None:
    names = ["a", "bc", "d"]
    one = source.choice(names)
    assert type(one) is np.str_ and one in names
    several = source.choice(names, (2, 4), p=[0.5, 0.5, 0.0])
    assert type(several) is np.ndarray and several.shape == (2, 4) and set(several.ravel()) <= {"a", "bc"}
    assert sorted(source.choice(tuple(names), 3, replace=False)) == names
    order = source.permutation(names)
    assert type(order) is np.ndarray and order.dtype == np.dtype("<U2") and sorted(order) == names
    things = [None, {1: 2}, 3]
    assert source.choice(things) in things
    assert source.choice(np.array(["2020-01-01"], "datetime64[D]")) == np.datetime64("2020-01-01")


def test_dimensions() -> None:
    rows = [[1, 2], [3, 4]]
    for choice in (wf.random.choice, wf.random.RandomState(0).choice):
        with pytest.raises(ValueError, match=r"choice: a has shape \(2, 2\), but must have one dimension"):
            choice(rows)
    assert wf.random.choice(rows, axis=0).tolist() in rows
    assert wf.random.default_rng(0).choice(rows, shuffle=False).tolist() in rows
    for count in (np.int64(5), np.array(5), wf.array([5])[0]):
        assert 0 <= int(wf.random.choice(count)) < 5 and wf.random.permutation(count).shape == (5,)


def test_bools() -> None:
    rng = wf.random.default_rng(0)
    x = rng.integers(0, 2, 50, dtype=bool)
    assert x.dtype == np.bool_ and 0 < int(x.sum()) < 50
    assert rng.integers(0, 1, dtype=bool, endpoint=True).dtype == np.bool_
    wf.random.seed(6)
    want = wf.random.randint(2, size=50).tolist()
    wf.random.seed(6)
    assert wf.random.randint(0, 2, 50, dtype=bool).tolist() == [n == 1 for n in want]
    with pytest.raises(ValueError, match="do not fit into bool"):
        rng.integers(0, 3, dtype=bool)


def test_seeds() -> None:
    wf.random.seed()
    first = wf.random.random(3).tolist()
    wf.random.seed(None)
    assert wf.random.random(3).tolist() != first
    for seed in ([1, 2], np.array([1, 2]), np.random.SeedSequence([1, 2])):
        wf.random.seed(seed)
        assert wf.random.random(3).tolist() == wf.random.default_rng([1, 2]).random(3).tolist()


NUMBERS = (-1.0, 0.0, 0.5, 1.0, 2.0)


@pytest.mark.parametrize("name, parameters", [
    ("normal", 2), ("exponential", 1), ("laplace", 2), ("logistic", 2), ("gumbel", 2), ("lognormal", 2), ("rayleigh", 1),
    ("weibull", 1), ("pareto", 1), ("power", 1), ("wald", 2), ("geometric", 1), ("triangular", 3), ("gamma", 2),
    ("standard_gamma", 1), ("beta", 2), ("chisquare", 1), ("poisson", 1), ("vonmises", 2), ("standard_t", 1),
])
def test_refused_as_in_numpy(name: str, parameters: int) -> None:
    ours, theirs = (getattr(library.random.default_rng(0), name) for library in (wf, np))
    for values in np.stack(np.meshgrid(*[NUMBERS] * parameters), -1).reshape(-1, parameters).tolist():
        for given in (values, [[x, x] for x in values], [np.array(x) for x in values]):
            try:
                theirs(*given)
                refused = False
            except ValueError:
                refused = True
            if refused:
                with pytest.raises(ValueError, match=name):
                    ours(*given)
            else:
                ours(*given)
        if refused:  # told of arrays that have values, too
            with pytest.raises(ValueError, match=name):
                ours(*[wf.array([x]) for x in values])


def test_what_is_not_known_is_not_refused() -> None:
    assert wf.jit(lambda scale: wf.random.normal(0.0, scale, 3))(wf.array(-1.0)).shape == (3,)
    with pytest.raises(ValueError, match="normal: scale=-1 must not be negative"):
        wf.jit(lambda: wf.random.normal(0.0, -1))()


@pytest.mark.parametrize("p", [[0.5, 0.7, -0.2], [0.5, float("nan"), 0.5]])
def test_chances(p: list[float]) -> None:
    for size in (None, 3):
        with pytest.raises(ValueError, match="choice: p has numbers that are negative or NaN"):
            wf.random.choice(3, size, p=p)


@pytest.mark.parametrize("count", [3, 50_000])
def test_no_chances(count: int) -> None:
    """Elements without a chance are never chosen, neither where the weights are few nor where they are large or pending."""
    one = np.zeros(count)
    one[1] = 2.0
    for p in (np.zeros(count), wf.zeros(count) * 2, wf.zeros(count)):
        for size in (None, 3):
            with pytest.raises(ValueError, match=f"choice: 0 of the {count} numbers in p are above 0, but 1 elements are chosen"):
                wf.random.choice(count, size, p=p)
    for size in (2, (2, 1)):
        with pytest.raises(ValueError, match=f"choice: 1 of the {count} numbers in p are above 0, but 2 elements are chosen"):
            wf.random.choice(count, size, replace=False, p=one)
    with pytest.raises(ValueError, match="choice: p or its sum is infinite"):
        wf.random.choice(count, 5, p=one / 0.0 if one[0] else np.where(one, np.inf, one))
    assert wf.random.choice(count, 5, p=one).tolist() == [1] * 5
    assert wf.random.choice(count, 0, replace=False, p=one).shape == (0,)


def test_choice_among_nothing() -> None:
    for options in ({"key": wf.random.key(1)}, {}, {"replace": False}):
        assert wf.random.choice(0, size=(0,), **options).shape == (0,)
        for of, error in ((wf.random.choice, ValueError), (np.random.choice, ValueError)):
            given = {k: v for k, v in options.items() if k != "key" or of is wf.random.choice}
            with pytest.raises(error, match="choice: p is empty" if of is wf.random.choice else "probabilities"):
                of(0, size=(0,), p=[], **given)


def test_a_width_beyond_the_dtype() -> None:
    """Both bounds are numbers of the dtype, their difference is not."""
    for form in (wf.float16, wf.float32, wf.float64):
        most = float(wf.finfo(form).max)
        with pytest.raises(ValueError, match="uniform: high - low is .*: draw in a wider dtype"):
            wf.random.uniform(-most, most, size=3, dtype=form)
        assert np.isfinite(wf.random.uniform(-most / 2, most / 2, size=100, dtype=form).numpy().astype(np.float64)).all()
