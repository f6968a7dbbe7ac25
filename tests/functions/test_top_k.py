"""The largest elements and the logarithm of sums of exponentials: shapes and axes, equal elements, NaN, infinities, dtypes."""

from functools import partial

import numpy as np
import pytest
from scipy.special import logsumexp

import weft as wf
from weft.errors import AxisError, DTypeError, ShapeError


def test_top_k_is_the_head_of_a_sort(rng: np.random.Generator) -> None:
    for _ in range(12):
        shape = tuple(rng.integers(1, 6, rng.integers(1, 4)))
        dtype = rng.choice(["float32", "float64", "int32", "uint8", "bfloat16"])
        x, axis = wf.array(rng.integers(0, 9, shape)).astype(dtype), int(rng.integers(-len(shape), len(shape)))
        k, largest = int(rng.integers(0, shape[axis] + 1)), bool(rng.integers(2))
        search = partial(wf.top_k, k=k, axis=axis, largest=largest)
        values, places = (wf.jit(search) if rng.random() < 0.5 else search)(x)
        order = np.argsort((-1 if largest else 1) * x.astype("float64").numpy(), axis=axis, kind="stable").take(range(k), axis)
        np.testing.assert_array_equal(places.numpy(), order)
        assert values.dtype == x.dtype and places.dtype == np.int64
        want = np.take_along_axis(x.astype("float64").numpy(), order, axis)
        np.testing.assert_array_equal(values.astype("float64").numpy(), want)


def test_top_k_of_nan_and_its_gradient() -> None:
    x = wf.array([1.0, np.nan, 5.0, 5.0])
    assert wf.top_k(x, 2)[1].tolist() == [1, 2] and wf.top_k(x, 3, largest=False)[1].tolist() == [0, 2, 3]
    slope = wf.grad(lambda x: (wf.top_k(x, 2)[0] * wf.array([1.0, 2.0])).sum())(wf.array([1.0, 7.0, 5.0]))
    assert slope.tolist() == [0.0, 1.0, 2.0]
    both = wf.vmap(lambda x: wf.top_k(x, 1))(wf.array([[1.0, 3.0], [4.0, 2.0]]))
    assert [a.tolist() for a in both] == [[[3.0], [4.0]], [[1], [0]]]
    assert wf.top_k(wf.array([[1, 2], [9, 4]]), 2, axis=None)[0].tolist() == [9, 4]
    for bad, error in ((4, ShapeError), (-1, ShapeError), (1.5, DTypeError)):
        with pytest.raises(error, match="top_k: k"):
            wf.top_k(wf.ones(3), bad)
    with pytest.raises(AxisError, match="top_k"):
        wf.top_k(wf.ones(3), 1, axis=1)


def test_logsumexp(rng: np.random.Generator) -> None:
    for _ in range(12):
        shape = tuple(rng.integers(1, 6, rng.integers(1, 4)))
        x, kept = rng.normal(size=shape) * 400, rng.random() < 0.5
        axis = (None, 0, -1, tuple(range(len(shape)))[:2])[rng.integers(4)]
        got = wf.logsumexp(wf.array(x), axis=axis, keepdims=kept)
        np.testing.assert_allclose(got.numpy(), logsumexp(x, axis=axis, keepdims=kept), rtol=1e-14)
    inf = np.inf
    rows = wf.array([[-inf, -inf], [inf, 0.0], [-inf, 2.0], [inf, -inf], [np.nan, 0.0]])
    np.testing.assert_array_equal(wf.logsumexp(rows, axis=1).numpy(), np.array([-inf, inf, 2.0, inf, np.nan], np.float32))
    np.testing.assert_array_equal(wf.logsumexp(wf.zeros((0, 3)), axis=0).numpy(), [-inf] * 3)
    assert wf.logsumexp(wf.zeros((2, 0)), axis=1, keepdims=True).shape == (2, 1)
    slope = wf.grad(lambda x: wf.logsumexp(x, axis=1).sum())(rows[:4:2]).numpy()
    np.testing.assert_array_equal(slope, [[0, 0], [0, 1]])
    for dtype, result in (("int8", "float32"), ("bool", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16")):
        assert wf.logsumexp(wf.ones(4, dtype=dtype)).dtype.name == result
    with pytest.raises(DTypeError, match="must be real"):
        wf.logsumexp(wf.array([1j]))
