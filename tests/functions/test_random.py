"""Random numbers: the definition of the bits, distributions, seeds and keys, jit and plain, errors."""

import math

import numpy as np
import pytest

import weft as wf
from weft.functions.random.state import _hash_seed
from weft.graph.primitives.philox import word

ROOM = 5.0  # standard errors: a wrong test in some million runs, seeds being fixed


def bits(seed: int, base: int, count: int) -> np.ndarray:
    """Element i: word i & 3 of Philox(key, base + (i >> 2))."""
    return word(np.uint64(_hash_seed(seed, "test")), np.uint64(base), np.arange(count))


def test_uniforms_are_the_top_bits() -> None:
    want = (bits(7, 0, 11) >> 8).astype(np.float32) * np.float32(2**-24)
    assert wf.random.uniform(size=11, key=wf.random.key(7)).tolist() == want.tolist()
    wf.random.seed(7)
    assert wf.random.random(11).tolist() == want.tolist()
    after = (bits(7, 3, 2) >> 8).astype(np.float32) * np.float32(2**-24)  # 11 words were 3 blocks
    assert wf.random.random(2).tolist() == after.tolist()


def test_a_state_is_taken_and_given_back() -> None:
    draw = wf.jit(lambda: wf.random.normal(size=5))
    draw()
    state = wf.random.get_state()
    first = [draw().tolist(), wf.random.uniform(size=3).tolist(), draw().tolist()]
    assert draw().tolist() not in first
    wf.random.set_state(state)
    assert [draw().tolist(), wf.random.uniform(size=3).tolist(), draw().tolist()] == first
    for bad in (3, (1,), (1, -1), (0, 2**64), "ab"):
        with pytest.raises(ValueError, match="set_state"):
            wf.random.set_state(bad)


def test_uniforms_of_other_dtypes() -> None:
    for dtype, keep in ((wf.float16, 11), (wf.bfloat16, 8), (wf.float8_e4m3fn, 4), (wf.float8_e5m2, 3)):
        want = (bits(3, 0, 9) >> (32 - keep)).astype(np.float64) * 2.0**-keep
        assert wf.random.random(9, key=wf.random.key(3), dtype=dtype).astype(wf.float64).tolist() == want.tolist()
    high, low = bits(3, 0, 5).astype(np.uint64), bits(3, 2, 5).astype(np.uint64)
    want = ((high << np.uint64(32) | low) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    assert wf.random.random(5, key=wf.random.key(3), dtype=wf.float64).tolist() == want.tolist()


def test_base_carries_into_the_upper_half() -> None:
    from weft.functions.random.state import _HIDDEN_STREAM

    wf.random.seed(1)
    _HIDDEN_STREAM.base[...] = wf.array(np.uint64(2**32 - 1))
    assert wf.random.random(8).tolist() == ((bits(1, 2**32 - 1, 8) >> 8).astype(np.float32) * np.float32(2**-24)).tolist()


MEANS = [  # draw, mean, standard deviation
    (lambda n: wf.random.uniform(size=n), 0.5, math.sqrt(1 / 12)),
    (lambda n: wf.random.uniform(-2.0, 4.0, size=n, dtype=wf.float64), 1.0, math.sqrt(3)),
    (lambda n: wf.random.normal(size=n), 0.0, 1.0),
    (lambda n: wf.random.normal(3.0, 2.0, size=n, dtype=wf.float64), 3.0, 2.0),
    (lambda n: wf.random.randn(n), 0.0, 1.0),
    (lambda n: wf.random.exponential(3.0, size=n), 3.0, 3.0),
    (lambda n: wf.random.bernoulli(0.3, size=n), 0.3, math.sqrt(0.21)),
    (lambda n: wf.random.integers(-3, 7, size=n), 1.5, math.sqrt(99 / 12)),
    (lambda n: wf.random.integers(0, np.full(n, 7)), 3.0, 2.0),
    (lambda n: wf.random.choice(4, size=n, p=[0.1, 0.2, 0.3, 0.4]), 2.0, 1.0),
    (lambda n: wf.random.choice(np.array([2.0, 4.0]), size=n), 3.0, 1.0),
]


@pytest.mark.parametrize("call, mean, deviation", MEANS)
def test_moments(call: object, mean: float, deviation: float) -> None:
    wf.random.seed(12)
    n = 40_000
    x = call(n).numpy().astype(np.float64)
    assert x.shape == (n,)
    assert abs(x.mean() - mean) < ROOM * deviation / math.sqrt(n)
    assert abs(x.std() / deviation - 1) < 0.03


def test_shape_of_distributions() -> None:
    from scipy import stats

    wf.random.seed(4)
    for x, name, args in (
        (wf.random.uniform(size=20_000), "uniform", ()),
        (wf.random.normal(size=20_000), "norm", ()),
        (wf.random.normal(size=20_000, dtype=wf.float64), "norm", ()),
        (wf.random.exponential(2.0, size=20_000), "expon", (0, 2)),
    ):
        assert stats.kstest(x.numpy().astype(np.float64), name, args).pvalue > 1e-4
    x = wf.random.integers(0, 10, size=20_000).numpy()
    assert stats.chisquare(np.bincount(x, minlength=10)).pvalue > 1e-4
    pairs = wf.random.random((20_000, 2)).numpy()
    assert abs(np.corrcoef(pairs.T)[0, 1]) < ROOM / math.sqrt(20_000)


@pytest.mark.parametrize(
    "low, high", [(0, 1), (-5, 6), (0, 2**31), (0, 2**32), (0, 2**32 + 1), (-(2**63), 2**63), (2**40, 2**62)]
)
def test_integers_range(low: int, high: int) -> None:
    x = wf.random.integers(low, high, size=2000, key=wf.random.key(5)).numpy()
    assert x.dtype == np.int64 and x.min() >= low and x.max() <= high - 1
    if high - low > 100:
        middle = (float(x.astype(np.float64).mean()) - low) / (high - low)
        assert abs(middle - 0.5) < ROOM * math.sqrt(1 / 12 / 2000)


def test_integers_exactly() -> None:
    high, low = bits(9, 0, 6).astype(object), bits(9, 2, 6).astype(object)
    wide = [int(h) << 32 | int(w) for h, w in zip(high, low, strict=True)]
    for width in (10, 2**32 - 1, 2**32, 2**50 + 3):
        assert wf.random.integers(width, size=6, key=wf.random.key(9)).tolist() == [(w * width) >> 64 for w in wide]
    assert wf.random.integers(3, 4, size=2, endpoint=True).dtype == wf.int64
    x = wf.random.integers(0, 255, size=500, dtype=wf.uint8, endpoint=True)
    assert x.dtype == wf.uint8 and int(x.max()) > 200


def test_sizes() -> None:
    for size, shape in ((None, ()), (3, (3,)), ((2, 3), (2, 3)), ((0, 4), (0, 4))):
        for draw in (wf.random.uniform, wf.random.normal, wf.random.exponential, wf.random.bernoulli):
            assert draw(size=size).shape == shape
        assert (
            wf.random.random(size).shape
            == wf.random.integers(5, size=size).shape
            == wf.random.choice(5, size=size).shape
            == shape
        )
    assert wf.random.normal(np.zeros((3, 1)), np.ones(4)).shape == (3, 4)
    assert wf.random.normal(np.zeros(4), size=(2, 4)).shape == (2, 4)


def test_permutations() -> None:
    wf.random.seed(3)
    x = wf.random.permutation(1000).numpy()
    assert sorted(x.tolist()) == list(range(1000)) and abs(np.corrcoef(x, np.arange(1000))[0, 1]) < 0.2
    rows = np.arange(12).reshape(3, 4)
    assert sorted(wf.random.permutation(rows).tolist()) == rows.tolist()
    assert sorted(wf.random.permutation(rows, axis=1).numpy().T.tolist()) == rows.T.tolist()
    y = wf.array(rows)
    wf.random.shuffle(y)
    assert sorted(y.tolist()) == rows.tolist()
    orders = {tuple(wf.random.permutation(3).tolist()) for _ in range(100)}
    assert len(orders) == 6


def test_choice() -> None:
    wf.random.seed(3)
    x = wf.random.choice(np.arange(20).reshape(4, 5), size=(2, 3), axis=1)
    assert x.shape == (4, 2, 3) and (np.diff(x.numpy()[:, 0, 0]) == 5).all()
    assert sorted(wf.random.choice(6, size=(2, 3), replace=False).numpy().ravel().tolist()) == list(range(6))
    counts = np.bincount(
        [wf.random.choice(3, size=1, replace=False, p=[0.0, 0.25, 0.75]).tolist()[0] for _ in range(200)], minlength=3
    )
    assert counts[0] == 0 and 20 < counts[1] < 85
    assert set(wf.random.choice(3, size=200, p=[0.5, 0.0, 0.5]).tolist()) == {0, 2}


def test_keys() -> None:
    key = wf.random.key(1)
    keys = wf.random.split(key, 5)
    assert keys.shape == (5,) and len({int(k) for k in keys} | {int(key)}) == 6
    draws = [wf.random.uniform(size=4, key=k).tolist() for k in keys]
    assert len({tuple(d) for d in draws}) == 5
    assert wf.random.uniform(size=4, key=keys[2]).tolist() == draws[2]
    wf.random.seed(2)
    before = wf.random.uniform(size=3).tolist()
    wf.random.seed(2)
    wf.random.uniform(size=100, key=key).numpy()  # keyed draws leave the hidden state alone
    assert wf.random.uniform(size=3).tolist() == before


def test_draws_differ_and_seeds_repeat() -> None:
    wf.random.seed(5)
    first = [wf.random.normal(size=5).tolist() for _ in range(3)]
    assert len({tuple(f) for f in first}) == 3
    wf.random.seed(5)
    assert [wf.random.normal(size=5).tolist() for _ in range(3)] == first
    wf.random.seed(6)
    assert wf.random.normal(size=5).tolist() != first[0]


def draws() -> tuple:
    return (
        wf.random.uniform(size=5),
        wf.random.normal(1.0, 2.0, size=(2, 3)),
        wf.random.integers(100, size=4),
        wf.random.permutation(6),
    )


def test_jit_draws_the_same_numbers() -> None:
    jitted = wf.jit(draws)
    for seed in (1, 2):
        wf.random.seed(seed)
        plain = [[x.tolist() for x in draws()] for _ in range(3)]
        wf.random.seed(seed)
        fast = [[x.tolist() for x in jitted()] for _ in range(3)]
        assert fast == plain
        wf.random.seed(seed)
        mixed = [[x.tolist() for x in f()] for f in (draws, jitted, draws)]
        assert mixed == plain
    assert plain[0] != plain[1]


def test_categorical(rng: np.random.Generator) -> None:
    """Draws are those of the running sums of float64, in eager code, jit and vmap, and have the probabilities of softmax."""
    count = 3000
    for _ in range(4):
        shape, dtype = tuple(rng.integers(1, 5, rng.integers(1, 4)).tolist()), str(rng.choice(["float32", "float64", "float16"]))
        axis, key = int(rng.integers(-len(shape), len(shape))), wf.random.key(int(rng.integers(2**32)))
        logits = wf.array(rng.normal(0, 1, shape).astype(dtype))
        logits[rng.random(shape) < 0.2] = -np.inf
        logits[(*[slice(None)] * (axis % len(shape)), 0)] = 0.5
        rows = tuple(np.delete(shape, axis).tolist())

        def draw(logits: wf.Array, key: wf.Array, size: tuple[int, ...] | None, axis: int = axis) -> wf.Array:
            return wf.random.categorical(logits, axis, size, key=key)

        for size in (None, (count, *rows)):
            weights = np.moveaxis(wf.exp(logits - logits.max(axis=axis, keepdims=True)).numpy(), axis, -1)
            sums = np.cumsum(weights, -1, dtype=np.float64)
            goal = wf.random.uniform(size=rows if size is None else size, key=key, dtype="float64").numpy() * sums[..., -1]
            want = (sums <= goal[..., None]).sum(-1)
            found = draw(logits, key, size)
            assert found.dtype == np.int64 and found.tolist() == want.tolist()
            assert wf.jit(lambda x, k, size=size, draw=draw: draw(x, k, size))(logits, key).tolist() == want.tolist()
        keys = wf.random.split(key, 3)
        each = [draw(logits, k, None).tolist() for k in keys]
        assert wf.vmap(lambda k, x=logits, draw=draw: draw(x, k, None))(keys).tolist() == each
        drawn, p = found.numpy().reshape(count, -1), (weights / weights.sum(-1, keepdims=True)).reshape(-1, shape[axis])
        for row, chances in zip(drawn.T, p.astype(np.float64), strict=True):
            counts, is_common = np.bincount(row, minlength=len(chances)), chances * count > 15
            assert not counts[chances == 0].any()
            merged = [[*x[is_common], x[~is_common].sum()] for x in (counts, chances * count)]
            statistic = sum((n - m) ** 2 / m for n, m in zip(*merged, strict=True) if m > 15)
            free, t = is_common.sum(), 25.0  # a chi-square is above this with probability exp(-t) at most (Laurent and Massart)
            assert statistic < free + 2 * math.sqrt(free * t) + 2 * t


def test_draws_that_each_term_of_a_sum_reads(rng: np.random.Generator) -> None:
    """The draw does not depend on the loop of the sum, so its words are computed before that loop."""
    key = wf.random.key(int(rng.integers(2**32)))
    for _ in range(6):
        shape = tuple(rng.integers(1, 9, 2).tolist()) if rng.random() < 0.5 else (int(rng.integers(1, 100)),)
        terms = int(rng.integers(2, 8))
        dtype = str(rng.choice(["float64", "float32", "float16"]))
        x = rng.integers(-8, 8, (terms, *shape)).astype(dtype)

        def draw(shape: tuple[int, ...] = shape, dtype: str = dtype) -> wf.Array:
            return wf.random.uniform(size=shape, key=key, dtype=dtype)

        found = wf.jit(lambda x, draw=draw: (wf.moveaxis(x, 0, -1) > 8 * draw()[..., None]).sum(axis=-1))(wf.array(x))
        assert found.tolist() == (x > 8 * draw().numpy()).sum(axis=0).tolist(), (shape, terms, dtype)


def test_jit_with_keys_and_seed_inside() -> None:
    jitted = wf.jit(lambda key: wf.random.normal(size=3, key=key))
    keys = wf.random.split(wf.random.key(0), 2)
    assert [jitted(k).tolist() for k in keys] == [wf.random.normal(size=3, key=k).tolist() for k in keys]

    @wf.jit
    def seeded() -> wf.Array:
        wf.random.seed(3)
        return wf.random.uniform(size=2)

    assert seeded().tolist() == seeded().tolist()
    after = wf.random.uniform(size=2).tolist()
    wf.random.seed(3)
    wf.random.uniform(size=2)
    assert wf.random.uniform(size=2).tolist() == after


def test_vmap_over_keys() -> None:
    keys = wf.random.split(wf.random.key(0), 3)
    found = wf.vmap(lambda key: wf.random.uniform(size=5, key=key))(keys)
    assert found.tolist() == [wf.random.uniform(size=5, key=k).tolist() for k in keys]


def test_gradient_passes_through_parameters() -> None:
    key = wf.random.key(4)
    noise = wf.random.normal(size=6, key=key).numpy().astype(np.float64)
    gradient = wf.grad(lambda scale: wf.sum(wf.random.normal(wf.array(0.0), scale, size=6, key=key)))(wf.array(2.0))
    np.testing.assert_allclose(float(gradient), noise.sum(), rtol=1e-4, atol=1e-4)


def test_many_draws_build_no_chain() -> None:
    from weft.functions.random.state import _HIDDEN_STREAM

    for _ in range(50):
        wf.random.uniform(size=3)
    assert _HIDDEN_STREAM.base.node.value is not None


ERRORS = [
    (lambda: wf.random.seed(-1), ValueError, "seed -1 must not be negative"),
    (lambda: wf.random.seed(1.5), wf.errors.DTypeError, "seed must be an integer"),
    (lambda: wf.random.uniform(size=-1), wf.errors.ShapeError, "uniform: size="),
    (lambda: wf.random.uniform(size=3, dtype=wf.int32), wf.errors.DTypeError, "random.integers"),
    (lambda: wf.random.normal(np.zeros(3), size=(2, 2)), wf.errors.ShapeError, r"normal.*\(3,\)"),
    (lambda: wf.random.uniform(size=3, key=7), wf.errors.DTypeError, "uniform: key has dtype int64.*random.key"),
    (lambda: wf.random.uniform(size=3, key=wf.random.split(wf.random.key(1))), wf.errors.DTypeError, "vmap"),
    (lambda: wf.random.integers(3, 3), ValueError, "no integer from low=3 to high=3"),
    (lambda: wf.random.integers(0, 300, dtype=wf.int8), ValueError, "do not fit into int8"),
    (lambda: wf.random.integers(5, dtype=wf.float32), wf.errors.DTypeError, "integer dtype"),
    (lambda: wf.random.bernoulli(1.5), ValueError, "p=1.5"),
    (lambda: wf.random.categorical(wf.zeros((2, 3)), size=(2, 4)), wf.errors.ShapeError, "size=.2, 4. does not fit .* axis 1"),
    (lambda: wf.random.categorical(wf.zeros((2, 3)), size=(1,)), wf.errors.ShapeError, "size=.1,. does not fit .*without axis 1"),
    (lambda: wf.random.categorical(3.0), wf.errors.AxisError, "categorical: axis=-1, but the array has no axes"),
    (lambda: wf.random.categorical([0.0, np.nan]), ValueError, "categorical: logits has NaN, inf, or a row of -inf"),
    (lambda: wf.random.categorical([[-np.inf] * 2, [0.0, 1.0]]), ValueError, "categorical: logits has NaN, inf, or a row of"),
    (lambda: wf.random.categorical(wf.ones(2) * 1j), wf.errors.DTypeError, "categorical: logits must be real numbers"),
    (lambda: wf.random.choice(2, p=wf.ones(2) * 1j), wf.errors.DTypeError, "choice: p must be real numbers, not complex64"),
    (lambda: wf.random.choice(3, size=4, replace=False), ValueError, "4 different elements of 3"),
    (lambda: wf.random.choice(3, size=4, p=[0.5, 0.5]), wf.errors.ShapeError, "choice: p has shape"),
    (lambda: wf.random.choice(0, size=1), ValueError, "no element"),
]


@pytest.mark.parametrize("call, error, match", ERRORS)
def test_errors(call: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()
