"""The alias sampler: its table says the probabilities, and draws follow them."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.data.unigram import _alias_table
from weft.errors import DTypeError, ShapeError

rng = np.random.default_rng()


def chi_square(seen: np.ndarray, p: np.ndarray) -> float:
    """Standard deviations above the mean of the statistic; words that are expected seldom are taken together."""
    order = np.argsort(p)[::-1]
    seen, expected = seen[order].astype(float), (p * seen.sum())[order]
    assert not seen[expected == 0].any()
    cut = max(1, int((expected >= 10).sum()))
    seen = np.append(seen[:cut], seen[cut:].sum())
    expected = np.append(expected[:cut], expected[cut:].sum())
    keep = expected > 0
    degrees = max(keep.sum() - 1, 1)
    statistic = ((seen[keep] - expected[keep]) ** 2 / expected[keep]).sum()
    return (statistic - degrees) / np.sqrt(2 * degrees)


COUNTS = {
    "even": np.ones(64), "words": 1000 / np.arange(1, 2001), "one heavy": np.array([1, 500, 2, 3, 0, 4.0]),
    "two": np.array([0, 7, 0, 3.0]), "with zeros": np.where(np.arange(300) % 3, np.arange(300), 0.0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_table_holds_the_probabilities(name: str) -> None:
    p = COUNTS[name] ** 0.75 / (COUNTS[name] ** 0.75).sum()
    table = _alias_table(p)
    threshold, alias = (table >> np.uint64(32)).astype(float) / 2**32, (table & np.uint64(0xFFFFFFFF)).astype(int)
    found = threshold.copy()
    np.add.at(found, alias, 1 - threshold)
    assert np.abs(found / p.size - p).max() < 2.0**-31


@pytest.mark.parametrize("name", COUNTS)
def test_draws_follow_the_counts(name: str) -> None:
    wf.random.seed(7)
    sampler = wf.data.UnigramSampler(COUNTS[name])
    seen = np.bincount(sampler.sample((100, 2000)).numpy().reshape(-1), minlength=COUNTS[name].size)
    assert chi_square(seen, sampler.p) < 6
    flat = wf.data.UnigramSampler(COUNTS[name], power=0.0)
    seen, some = np.bincount(flat.sample(200_000).numpy(), minlength=flat.size), COUNTS[name] > 0
    assert chi_square(seen, some / some.sum()) < 6


@pytest.mark.parametrize("name", COUNTS)
def test_the_target_is_never_drawn_and_the_rest_keeps_its_shares(name: str) -> None:
    wf.random.seed(8)
    sampler = wf.data.UnigramSampler(COUNTS[name])
    draw = wf.jit(lambda target: sampler.sample((4, 50_000), without=target))
    targets = np.array([sampler.p.argmax(), sampler.p.argsort()[-2], 0, sampler.size - 1])
    for target, got in zip(targets, draw(wf.array(targets.reshape(4, 1))).numpy(), strict=True):
        p = sampler.p.copy()
        p[target] = 0
        assert chi_square(np.bincount(got, minlength=sampler.size), p / p.sum()) < 6, target


def test_a_key_draws_the_same_and_jit_draws_new_ones() -> None:
    sampler = wf.data.UnigramSampler(COUNTS["words"])
    key = wf.random.key(3)
    assert np.array_equal(sampler.sample(50, key=key).numpy(), sampler.sample(50, key=key).numpy())
    draw = wf.jit(lambda: sampler.sample((3, 20)))
    assert (draw().numpy() != draw().numpy()).any()
    target = wf.array([[1], [2]])
    assert sampler.sample(without=target).shape == (2, 1) and sampler.sample().shape == ()


def test_bad_calls() -> None:
    make = wf.data.UnigramSampler
    bad = (([[1, 2]], ShapeError), ([], ShapeError), (["a"], DTypeError), ([1, -1], ValueError), ([0, 0], ValueError))
    for counts, error in bad:
        with pytest.raises(error, match="UnigramSampler: counts"):
            make(counts)
    with pytest.raises(ValueError, match="only one word has a count"):
        make([0, 3]).sample(4, without=1)
    with pytest.raises(ShapeError, match="do(es)? not broadcast"):
        make([1, 3]).sample(4, without=wf.array([0, 1, 0]))
    with pytest.raises(DTypeError, match="must hold integers"):
        make([1, 3]).sample(4, without=1.0)
