"""Generators under NumPy's names: sequences that begin alike, distributions that are NumPy's, nothing lost by pickling or jit."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import weft as wf
from weft.errors import TraceError
from weft.functions.random import distributions

LAZY = {
    "laplace": (1, 2), "logistic": (1, 2), "gumbel": (1, 2), "lognormal": (0, 0.5), "standard_exponential": (), "rayleigh": (2,),
    "weibull": (2.0,), "pareto": (5.0,), "power": (3.0,), "triangular": (0, 0.2, 1), "wald": (1, 2), "geometric": (0.3,),
    "standard_cauchy": (),
}
AT_ONCE = {
    "gamma": (2, 3), "standard_gamma": (2,), "beta": (2, 3), "chisquare": (3,), "noncentral_chisquare": (3, 1), "f": (4, 9),
    "noncentral_f": (4, 9, 1), "standard_t": (8,), "vonmises": (0, 2), "poisson": (4,), "binomial": (10, 0.3),
    "negative_binomial": (3, 0.4), "hypergeometric": (9, 7, 5), "logseries": (0.6,), "zipf": (3.0,),
}
VECTORS = {"multinomial": (5, [0.2, 0.8]), "dirichlet": ([1.0, 2.0, 3.0],), "multivariate_normal": ([0.0, 1.0], [[1.0, 0.2],
        [0.2, 2.0]]), "multivariate_hypergeometric": ([3, 4, 5], 6)}


def test_every_distribution_is_here() -> None:
    assert {*LAZY, *AT_ONCE, *VECTORS, "bytes"} == set(distributions.DISTRIBUTIONS)


@pytest.mark.parametrize("name", [*LAZY, *AT_ONCE])
def test_quantiles_are_numpys(name: str) -> None:
    args = {**LAZY, **AT_ONCE}[name]
    found = getattr(wf.random.default_rng(11), name)(*args, size=40_000)
    want = getattr(np.random.default_rng(11), name)(*args, size=40_000)
    assert found.dtype == (np.int64 if want.dtype.kind == "i" else np.float32)
    ours, theirs = (np.quantile(x.astype(float), [0.05, 0.25, 0.5, 0.75, 0.95]) for x in (found.numpy(), want))
    np.testing.assert_allclose(ours, theirs, rtol=0.05, atol=0.05 * (theirs[3] - theirs[1]) + 1e-9)


@pytest.mark.parametrize("name", [*LAZY, *AT_ONCE, *VECTORS])
def test_equal_seeds_and_keys_give_equal_numbers(name: str) -> None:
    args = {**LAZY, **AT_ONCE, **VECTORS}[name]
    one, other = wf.random.default_rng(5), wf.random.default_rng(5)
    first, second = (getattr(g, name)(*args, size=6).numpy() for g in (one, other))
    np.testing.assert_array_equal(first, second)
    assert (getattr(one, name)(*args, size=6).numpy() != first).any()
    key = wf.random.key(3)
    draws = [getattr(wf.random, name)(*args, size=(2, 3), key=key).numpy() for _ in range(2)]
    np.testing.assert_array_equal(*draws)
    assert draws[0].shape[:2] == (2, 3)


def test_a_generator_leaves_the_hidden_state_alone() -> None:
    wf.random.seed(1)
    want = wf.random.normal(size=3).numpy()
    wf.random.seed(1)
    rng = wf.random.default_rng(2)
    rng.normal(size=3), rng.choice(5, 2), rng.permutation(4)
    np.testing.assert_array_equal(wf.random.normal(size=3).numpy(), want)
    assert wf.random.default_rng(rng) is rng


def test_copies_go_on_where_the_first_stands() -> None:
    rng = wf.random.default_rng(7)
    rng.random(5)
    others = [pickle.loads(pickle.dumps(rng)), copy.deepcopy(rng)]
    want = rng.random(4).numpy()
    for other in others:
        np.testing.assert_array_equal(other.random(4).numpy(), want)
    children = wf.random.default_rng(1).spawn(2)
    assert (children[0].random(4).numpy() != children[1].random(4).numpy()).any()


def test_under_jit_each_call_draws_on() -> None:
    rng, twin = wf.random.default_rng(3), wf.random.default_rng(3)
    draw = wf.jit(lambda: rng.laplace(size=3))
    for _ in range(2):
        np.testing.assert_allclose(draw().numpy(), twin.laplace(size=3).numpy(), rtol=1e-6)
    with pytest.raises(TraceError):
        wf.jit(lambda: rng.poisson(3.0, size=2))()


def test_orders() -> None:
    rng = wf.random.default_rng(4)
    listed, plain, array = list(range(20)), np.arange(20).reshape(10, 2), wf.arange(20)
    rng.shuffle(listed), rng.shuffle(plain), rng.shuffle(array)
    assert sorted(listed) == list(range(20)) and listed != list(range(20))
    assert sorted(map(tuple, plain.tolist())) == [(2 * k, 2 * k + 1) for k in range(10)]
    assert sorted(array.tolist()) == list(range(20))
    rows = rng.permuted(np.arange(12).reshape(3, 4), axis=1).numpy()
    assert (np.sort(rows, axis=1) == np.arange(12).reshape(3, 4)).all()
    assert sorted(rng.permuted(wf.arange(6)).tolist()) == list(range(6))
    out = wf.zeros(3)
    assert rng.random(out=out) is out and (out.numpy() > 0).all()
    assert len(rng.bytes(11)) == 11


def test_the_older_class() -> None:
    one, other = wf.random.RandomState(3), wf.random.RandomState(0)
    other.seed(3)
    np.testing.assert_array_equal(one.randn(2, 3).numpy(), other.randn(2, 3).numpy())
    state = one.get_state()
    first = one.rand(4).numpy()
    one.set_state(state)
    np.testing.assert_array_equal(one.rand(4).numpy(), first)
    assert one.rand().shape == () and one.randint(0, 5, (2, 2)).dtype == np.int64 and one.random_sample(2).shape == (2,)


def test_refusals() -> None:
    with pytest.raises(wf.errors.ShapeError, match=r"^laplace: shapes \(3,\), \(2,\) do not broadcast"):
        wf.random.laplace(wf.ones(3), size=2)
    with pytest.raises(wf.errors.DTypeError, match="^gumbel: dtype=int64 must be a float dtype"):
        wf.random.gumbel(dtype="int64")
    with pytest.raises(ValueError, match="must not be negative"):
        wf.random.default_rng(-1)
    with pytest.raises(TypeError, match="missing a required argument: 'shape'"):
        wf.random.gamma()
