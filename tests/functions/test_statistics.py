"""Sums, extremes, averages against NumPy: axes, keepdims, dtypes, empty arrays, out=, errors."""

import numpy as np
import pytest

import weft as wf
from tests.functions.cases import FLOATS, INTEGERS, check, draw, dtype_of

AXES = [
    ((), None),
    ((6,), 0),
    ((3, 4), None),
    ((3, 4), 0),
    ((3, 4), -1),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), (-1, 0)),
    ((2, 3, 4), 1),
]
EMPTY = [((0,), None), ((3, 0), 1), ((3, 0), 0), ((0, 2), (0, 1))]
SUMMING = ("sum", "prod")
EXTREME = ("max", "min", "ptp")
MOMENTS = ("mean", "var", "std")
TRUTH = ("any", "all", "count_nonzero")


def numpys(name: str, x: np.ndarray, **kwargs: object) -> np.ndarray:
    return np.asarray(getattr(np, name)(x, **kwargs))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape, axis", AXES + EMPTY)
@pytest.mark.parametrize("name", SUMMING + MOMENTS + TRUTH)
def test_over_axes(name: str, shape: tuple, axis: object, keepdims: bool) -> None:
    x = draw(shape, "float64", 0.3, 1.5)
    if name in TRUTH:
        x = x * draw(shape, "bool")
    with np.errstate(all="ignore"), pytest.MonkeyPatch.context():
        if name in MOMENTS and 0 in shape:
            count = x.size // max(1, numpys("sum", x, axis=axis).size)
            if count == 0:
                got = getattr(wf, name)(x, axis=axis, keepdims=keepdims).numpy()
                assert np.isnan(got).all() and got.shape == numpys("sum", x, axis=axis, keepdims=keepdims).shape
                return
        want = numpys(name, x, axis=axis, keepdims=keepdims)
    check(getattr(wf, name)(x, axis=axis, keepdims=keepdims), want, dtype=want.dtype)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape, axis", AXES)
@pytest.mark.parametrize("name", EXTREME)
def test_extremes(name: str, shape: tuple, axis: object, keepdims: bool) -> None:
    for dtype in ("float32", "int64", "uint8", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        x = draw(shape, dtype)
        check(
            getattr(wf, name)(x, axis=axis, keepdims=keepdims),
            numpys(name, x, axis=axis, keepdims=keepdims),
            dtype=dtype_of(dtype),
        )


@pytest.mark.parametrize("name", SUMMING)
@pytest.mark.parametrize("dtype", INTEGERS + ("bool",))
def test_sums_of_integers(name: str, dtype: str) -> None:
    x = draw((4, 3), dtype, 0, 1)
    want = numpys(name, x, axis=0)
    check(getattr(wf, name)(x, axis=0), want, dtype=want.dtype)


@pytest.mark.parametrize("dtype", ["int32", "float32", "bool", "uint8"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums_as_truths(axis: int | None, dtype: str) -> None:
    """As NumPy's: whether one is not zero; products: whether all are."""
    for x in (np.array([[0, 2, 0], [0, 0, 1]]).astype(dtype), np.ones((2, 0), dtype), np.ones((3, 4), dtype)):
        for name in ("sum", "prod", "cumsum"):
            check(getattr(wf, name)(wf.array(x), axis=axis, dtype=bool), getattr(np, name)(x, axis=axis, dtype=bool))
            check(getattr(wf.array(x), name)(axis=axis, dtype=bool), getattr(x, name)(axis=axis, dtype=bool))


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("dtype", FLOATS + ("int8", "uint32", "bool"))
def test_moments_dtypes(name: str, dtype: str) -> None:
    x = draw((5, 8), dtype)
    result = dtype_of(dtype) if dtype in FLOATS else np.dtype(np.float32)
    want = numpys(name, x.astype(np.float64), axis=1)
    rtol = {"float64": 1e-12, "float16": 2e-3, "bfloat16": 1.6e-2, "float8_e4m3fn": 0.13, "float8_e5m2": 0.26}.get(dtype, 3e-6)
    check(getattr(wf, name)(x, axis=1), want, rtol=rtol, atol=rtol, dtype=result)


def test_means_of_half_precision_do_not_overflow() -> None:
    x = np.full(4096, 1000.0, np.float16)
    check(wf.mean(x), np.asarray(1000.0, np.float16), dtype=np.dtype(np.float16))


@pytest.mark.parametrize("correction", [0, 1, 2.5, 9])
def test_corrections(correction: float) -> None:
    x = draw((4, 6), "float64")
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning) if correction == 9 else np.errstate():
        want = np.var(x, axis=1, ddof=correction), np.std(x, axis=1, ddof=correction)
    for found in (wf.var(x, axis=1, ddof=correction), wf.var(x, axis=1, correction=correction)):
        check(found, want[0])
    check(wf.std(x, axis=1, correction=correction), want[1])


def test_dtype_argument() -> None:
    x = draw((4, 6), "float32")
    check(wf.sum(x, dtype="float64"), x.sum(dtype=np.float64), rtol=1e-12, dtype=np.dtype(np.float64))
    check(wf.mean(x, axis=0, dtype=wf.float64), x.mean(0, dtype=np.float64), dtype=np.dtype(np.float64))
    check(
        wf.sum(draw((5,), "bool", seed=1), dtype=wf.int8), draw((5,), "bool", seed=1).sum(dtype=np.int8), dtype=np.dtype(np.int8)
    )


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape, axis", [((6,), None), ((6,), -1), ((3, 4), None), ((3, 4), 0), ((2, 3, 4), 1)])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(name: str, shape: tuple, axis: object, keepdims: bool) -> None:
    for dtype in ("float32", "int8", "uint64", "bool"):
        x = draw(shape, dtype)
        check(
            getattr(wf, name)(x, axis=axis, keepdims=keepdims),
            numpys(name, x, axis=axis, keepdims=keepdims),
            dtype=np.dtype(np.int64),
        )
    x = draw(shape, "float32")
    x.flat[[2, 4]] = np.nan
    check(getattr(wf, name)(x, axis=axis), numpys(name, x, axis=axis))
    assert getattr(wf, name)(3.0).tolist() == 0


@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_wins(name: str) -> None:
    x = draw((4, 6), "float32")
    x[1, 2] = np.nan
    check(getattr(wf, name)(x, axis=1), numpys(name, x, axis=1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", "bool", "float16"])
@pytest.mark.parametrize("shape, axis", [((5,), None), ((5,), 0), ((3, 4), None), ((3, 4), 1), ((3, 4), -2), ((0, 3), 0)])
def test_cumulative_sum(shape: tuple, axis: object, dtype: str) -> None:
    x = draw(shape, dtype)
    want = np.cumsum(x.astype(np.float64) if dtype == "float16" else x, axis=axis)
    check(
        (wf.cumsum if axis is None else wf.cumulative_sum)(x, axis=axis),
        want,
        atol=1e-5 if dtype != "float16" else 1e-2,
        dtype=None if dtype == "float16" else want.dtype,
    )
    if axis is not None:
        longer = np.insert(want, 0, 0, axis=axis)
        check(wf.cumulative_sum(x, axis=axis, include_initial=True), longer, atol=1e-5 if dtype != "float16" else 1e-2)
    elif len(shape) > 1:
        with pytest.raises(ValueError, match=r"^cumulative_sum: x has shape \(3, 4\): .*axis= must be given"):
            wf.cumulative_sum(x)


def test_average() -> None:
    x, w, rows = draw((3, 4), "float64"), draw((3, 4), "float64", 1, 2), draw((3,), "float64", 1, 2)
    check(wf.average(x), np.average(x))
    check(wf.average(x, axis=1, weights=w), np.average(x, axis=1, weights=w))
    check(wf.average(x, axis=0, weights=rows, keepdims=True), np.average(x, axis=0, weights=rows, keepdims=True))
    check(wf.average(x, weights=w), np.average(x, weights=w))
    with pytest.raises(wf.errors.ShapeError, match=r"average: weights have shape \(4,\).*\(3, 4\)"):
        wf.average(x, axis=0, weights=w[0])


@pytest.mark.parametrize("name", [*SUMMING, *EXTREME, *MOMENTS, "any", "all", "argmax"])
def test_out(name: str) -> None:
    x = draw((3, 4), "float32")
    want = numpys(name, x, axis=1)
    out = wf.zeros(3, dtype=want.dtype)
    assert getattr(wf, name)(x, axis=1, out=out) is out
    check(out, want, rtol=3e-6, atol=1e-6)
    with pytest.raises(wf.errors.ShapeError, match=f"{name}: out has shape"):
        getattr(wf, name)(x, axis=1, out=wf.zeros(4, dtype=want.dtype))


ERRORS = [
    (lambda x: wf.sum(x, axis=2), wf.errors.AxisError, "sum: axis=2, but the array has axes -2 to 1"),
    (lambda x: wf.mean(x, axis=(0, -2)), wf.errors.AxisError, "mean: axis=.*twice"),
    (lambda x: wf.max(x[:0]), wf.errors.ShapeError, r"max: .*\(0, 4\).*no element"),
    (lambda x: wf.argmin(x[:0], axis=0), wf.errors.ShapeError, r"argmin: .*\(0, 4\).*no element"),
    (lambda x: wf.argmax(x, axis=5), wf.errors.AxisError, "argmax: axis=5"),
    (lambda x: wf.sum(x, dtype="nonsense"), wf.errors.DTypeError, "nonsense"),
    (lambda x: wf.mean(x, dtype=wf.bool), wf.errors.DTypeError, "cannot hold a mean"),
    (lambda x: wf.sum(x, axis=1.5), wf.errors.DTypeError, "sum: axis must be an integer, not 1.5"),
    (lambda x: wf.sum(3.0, axis=1), wf.errors.AxisError, "the array has no axes"),
    (lambda x: wf.subtract(x, wf.mean(x, axis=1)), wf.errors.ShapeError, "keepdims=True"),
]


@pytest.mark.parametrize("call, error, match", ERRORS)
def test_errors(call: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(draw((3, 4), "float32"))


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin", "cumsum"])
def test_methods_agree(name: str) -> None:
    x = wf.array(draw((3, 4), "float32"))
    check(getattr(x, name)(axis=1), getattr(wf, name)(x, axis=1).numpy(), rtol=0)


@pytest.mark.parametrize("shape, axes", [((2, 0, 2, 0), (1, 3)), ((0, 2, 0), (0, 2)), ((2, 3, 2, 0), (1, 3)), ((2, 0, 2), (1,))])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_sum_of_nothing_is_zero(shape: tuple, axes: tuple, dtype: str) -> None:
    x, want = wf.zeros(shape, dtype=dtype), np.zeros(shape, dtype).sum(axis=axes)
    for _ in range(4):  # in memory that held something else
        wf.full(want.shape, 7, dtype=dtype).numpy()
        check(wf.sum(x, axis=axes), want)
        check(wf.sum(x + 0, axis=axes), want)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_means_in_integers_as_numpys(dtype: str, axis: int | tuple | None) -> None:
    rng = np.random.default_rng()
    for source in ("float32", "float64", "int16", "uint8", "bool"):
        x = rng.normal(size=(4, 7)) * 20
        x = (x if source[0] in "fi" and dtype[0] == "i" else np.abs(x)).astype(source)
        where = rng.random(x.shape) > 0.2
        where[0] = where[:, 0] = True
        for keepdims in (False, True):
            for mask in (True, where):
                want = np.mean(x, axis=axis, dtype=dtype, keepdims=keepdims, where=mask)
                check(wf.mean(wf.array(x), axis=axis, dtype=dtype, keepdims=keepdims, where=mask), want, dtype=np.dtype(dtype))
    assert wf.array([1, 2, 4]).mean(dtype=int) == 2 and wf.array([-1.9, -2.9]).mean(dtype="int8") == -1


@pytest.mark.parametrize("name", ["mean", "var", "std", "nanmean", "nanvar", "nanstd"])
def test_the_dtype_that_is_asked_for(name: str) -> None:
    """It is that of the result, a complex one too, though what is spread around a mean is real without being asked for."""
    x = np.array([[1, 0, 3], [1, 2, 1]])
    with wf.default_dtype("float64"):
        for own in ("bool", "int64", "float32", "float64", "complex64", "complex128"):
            for dtype in (None, "float32", "float64", "complex64", "complex128"):
                if own.startswith("complex") and dtype is not None and dtype.startswith("float"):
                    continue  # weft refuses to drop imaginary parts
                found = getattr(wf, name)(wf.array(x.astype(own)), axis=1, dtype=dtype)
                want = getattr(np, name)(x.astype(own), axis=1, dtype=dtype)
                assert found.dtype == want.dtype, (own, dtype)
                np.testing.assert_allclose(found.numpy(), want, rtol=1e-5)
