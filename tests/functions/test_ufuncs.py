"""Element-wise functions as ufuncs: folds, running folds, outer, at, and calls with ``where=`` and ``dtype=``."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

X = np.array([[3, 1, 2, 5, 4], [1, 2, 2, 1, 6], [7, 3, 1, 1, 2]])
FOLDS = ("add", "multiply", "maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or", "logical_xor", "bitwise_and",
         "bitwise_or", "bitwise_xor", "logaddexp", "hypot", "subtract", "floor_divide")


def same(found: wf.Array, want: np.ndarray) -> None:
    want = np.asarray(want)
    assert isinstance(found, wf.Array) and found.shape == want.shape
    assert found.dtype.kind == want.dtype.kind
    np.testing.assert_allclose(found.numpy(), want, rtol=2e-6)


@pytest.mark.parametrize("name", FOLDS)
def test_folds_as_numpys(name: str) -> None:
    ours, theirs, a = getattr(wf, name), getattr(np, name), wf.array(X)
    assert (ours.nin, ours.nout, ours.nargs) == (2, 1, 3)
    for axis in (0, 1, -1):
        same(ours.reduce(a, axis=axis), theirs.reduce(X, axis=axis))
        same(ours.reduce(a, axis=axis, keepdims=True), theirs.reduce(X, axis=axis, keepdims=True))
        same(ours.accumulate(a, axis), theirs.accumulate(X, axis))
        same(ours.reduceat(a, [0, 2, 1], axis), theirs.reduceat(X, [0, 2, 1], axis))
    same(ours.outer(a, a[0]), theirs.outer(X, X[0]))
    if name not in ("subtract", "floor_divide"):
        same(ours.reduce(a, axis=None), theirs.reduce(X, axis=None))
        same(wf.jit(lambda x: ours.reduce(x))(a), theirs.reduce(X))
    if theirs.identity is not None and ours.identity is not None and name not in ("subtract", "floor_divide"):
        assert ours.identity == theirs.identity
        same(ours.reduce(a[:0]), theirs.reduce(X[:0]))


def test_folds_have_derivatives() -> None:
    x = wf.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert wf.grad(lambda v: wf.multiply.reduce(v))(x).tolist() == [120.0, 60.0, 40.0, 30.0, 24.0]
    assert wf.grad(lambda v: wf.maximum.accumulate(v).sum())(x).tolist() == [1.0] * 5


def test_at_adds_up() -> None:
    for name in ("add", "subtract", "multiply", "maximum"):
        ours, theirs = wf.ones(4), np.ones(4, "float32")
        getattr(wf, name).at(ours, [0, 0, 2], 3.0)
        getattr(np, name).at(theirs, [0, 0, 2], 3.0)
        np.testing.assert_array_equal(ours.numpy(), theirs)
    ours = wf.array([1.0, 4.0])
    wf.sqrt.at(ours, [1])
    assert ours.tolist() == [1.0, 2.0]


def test_where_and_dtype() -> None:
    x, mask = wf.array([4.0, 9.0, 16.0]), np.array([True, False, True])
    out = wf.full(3, -1.0)
    assert wf.sqrt(x, out=out, where=mask) is out and out.tolist() == [2.0, -1.0, 4.0]
    assert wf.sqrt(x, where=mask).tolist() == [2.0, 0.0, 4.0]
    assert wf.add(x, 1, where=mask).tolist() == [5.0, 0.0, 17.0]
    found = wf.add([1, 2], [3, 4], dtype="float64")
    assert found.dtype == wf.float64 and found.tolist() == [4.0, 6.0]
    assert wf.less(x, 5, dtype=bool).tolist() == [True, False, False]
    with pytest.raises(wf.errors.DTypeError, match=r"^less: operands of .* give bool, not dtype=float64; cast the result"):
        wf.less(x, 5, dtype="float64")
    assert wf.add(x, x, dtype="int32", casting="unsafe").dtype == wf.int32
    with pytest.raises(wf.errors.DTypeError, match=r"^add: dtype=int32 cannot hold operands of float32.*casting='unsafe'"):
        wf.add(x, x, dtype="int32")
    with pytest.raises(ValueError, match="^add: casting='any'"):
        wf.add(x, x, dtype="int32", casting="any")


def test_refusals() -> None:
    a = wf.ones((2, 3))
    with pytest.raises(wf.errors.ShapeError, match=r"^maximum\.reduce: .*\(0, 3\) has no element along axis=0"):
        wf.maximum.reduce(a[:0])
    with pytest.raises(ValueError, match=r"^maximum\.reduce: where= needs initial="):
        wf.maximum.reduce(a, where=a > 0)
    with pytest.raises(ValueError, match=r"^subtract\.reduce: axis=.* must be one axis"):
        wf.subtract.reduce(a, axis=None)
    with pytest.raises(IndexError, match=r"^add\.reduceat: index 5 is out of bounds for axis 0 with size 2"):
        wf.add.reduceat(a, [5])
    with pytest.raises(wf.errors.AxisError, match=r"^add\.accumulate: axis=2"):
        wf.add.accumulate(a, 2)
    with pytest.raises(wf.errors.DTypeError, match=r"^add\.at: the array must be a weft Array, not ndarray"):
        wf.add.at(np.ones(2), [0], 1)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_initial_and_where(name: str) -> None:
    x, mask = X.astype("float32"), X > 1
    ours, theirs, a = getattr(wf, name), getattr(np, name), wf.array(x)
    for axis in (None, 0, 1):
        same(ours(a, axis=axis, initial=2.5), theirs(x, axis=axis, initial=2.5))
        same(ours(a, axis=axis, initial=2.5, where=mask, keepdims=True), theirs(x, axis=axis, initial=2.5, where=mask,
        keepdims=True))
        same(ours(a[:0], axis=axis, initial=3), theirs(x[:0], axis=axis, initial=3))
    assert getattr(a, name)(initial=100.0).tolist() == theirs(x, initial=100.0)
    if name in ("max", "min"):
        with pytest.raises(ValueError, match=f"^{name}: where= needs initial="):
            ours(a, where=mask)


@pytest.mark.parametrize("name", ["mean", "var", "std", "any", "all"])
def test_where(name: str) -> None:
    x, mask = X.astype("float32"), X > 1
    for axis in (None, 0, 1):
        got = getattr(wf, name)(wf.array(x), axis=axis, where=mask)
        np.testing.assert_allclose(got.numpy(), getattr(np, name)(x, axis=axis, where=mask), rtol=1e-5)


def test_keywords_of_creation() -> None:
    assert wf.array([1, 2], ndmin=3).shape == (1, 1, 2) and wf.zeros(2, order="F").shape == (2,)
    assert wf.ones_like(wf.ones(2), shape=(3,)).shape == (3,) and wf.full_like(wf.ones(2), 4, order="C").tolist() == [4.0, 4.0]
    assert wf.unique([[1, 2], [1, 2], [3, 4]], axis=0).tolist() == [[1, 2], [3, 4]]
    assert wf.sort([3, 1], kind="stable").tolist() == [1, 3] and wf.unique([wf.nan, wf.nan], equal_nan=False).shape == (2,)
    for make in (wf.zeros, wf.ones, wf.empty, wf.arange):
        assert make(2, device="cpu").shape == (2,)
        with pytest.raises(ValueError, match=f"^{make.__name__}: no device 'tpu'; there are 'cpu', 'gpu-sim' and 'gpu'"):
            make(2, device="tpu")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
def test_running_folds_of_what_is_not_normal(name: str, dtype: str, rng: np.random.Generator) -> None:
    """Zeros of both signs, infinities, NaN, and numbers that leave the range on the way and would come back."""
    values = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 60000.0, 2.0**-14], dtype)
    ours, theirs = getattr(wf, name), getattr(np, name)
    for shape, axis in (((1,), 0), ((40,), 0), ((5, 9), 1), ((9, 5), 0), ((2, 1, 4), 1)):
        for some in (values, values[:4], values[-3:]):
            x = rng.choice(some, shape)
            with np.errstate(all="ignore"):
                want = theirs.accumulate(x.astype("float32") if dtype == "float16" else x, axis).astype(dtype)
            for f in (ours.accumulate, wf.jit(lambda x, axis=axis: ours.accumulate(x, axis))):
                found = (f(wf.array(x), axis) if f is ours.accumulate else f(wf.array(x))).numpy()
                np.testing.assert_array_equal(found, want)
                if name in ("add", "multiply"):  # of extremes NumPy leaves signs of zeros open
                    signed = ~np.isnan(want)
                    np.testing.assert_array_equal(np.signbit(found)[signed], np.signbit(want)[signed])


def test_reduceat_leaves_single_elements_as_they_are() -> None:
    x = np.array([complex(np.inf, 0), 1 + 1j], np.complex64)
    np.testing.assert_array_equal(wf.multiply.reduceat(wf.array(x), [0, 1]).numpy(), np.multiply.reduceat(x, [0, 1]))
