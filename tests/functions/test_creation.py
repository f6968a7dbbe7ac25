"""New arrays against NumPy: values, dtypes, errors."""

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from tests.functions.cases import FLOATS, INTEGERS, check, draw, dtype_of

DATA = [  # what is given, what NumPy makes of it, weft's dtype
    (1.5, "float32"),
    (2, "int64"),
    (True, "bool"),
    ([1.0, 2.5], "float32"),
    ([[1, 2], [3, 4]], "int64"),
    ([True, False], "bool"),
    ([1, 2.5], "float32"),
    ([True, 2], "int64"),
    ([], "float32"),
    ([[], []], "float32"),
    ((1.0, (2.0)), "float32"),
    (np.float64(1.5), "float64"),
    (np.arange(3.0), "float64"),
    (np.float16([1, 2]), "float16"),
    ([np.float64(1), 2.0], "float64"),
    (np.arange(6, dtype=np.int8).reshape(2, 3).T, "int8"),
    (np.arange(8)[::-2], "int64"),
    (np.zeros((0, 3), np.uint16), "uint16"),
    (np.arange(3, dtype=">i4"), "int32"),
    (range(3), "int64"),
]


@pytest.mark.parametrize("data, dtype", DATA, ids=[repr(d)[:30] for d, _ in DATA])
def test_array(data: object, dtype: str) -> None:
    check(wf.array(data), np.asarray(data), dtype=dtype_of(dtype), rtol=0)
    check(wf.asarray(data), np.asarray(data), dtype=dtype_of(dtype), rtol=0)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + ("bool",))
def test_dtypes(dtype: str) -> None:
    wanted = dtype_of(dtype)
    x = draw((3, 4), dtype)
    check(wf.array(x), x, dtype=wanted)
    check(wf.array([[0, 1], [1, 3]], dtype=dtype), np.array([[0, 1], [1, 3]]).astype(wanted), dtype=wanted)
    check(wf.array(1.7, dtype=dtype), np.asarray(1.7).astype(wanted), dtype=wanted)
    check(wf.zeros((2, 3), dtype=dtype), np.zeros((2, 3), wanted), dtype=wanted)
    check(wf.ones(4, dtype=dtype), np.ones(4, wanted), dtype=wanted)
    check(wf.full((2,), 3, dtype=dtype), np.full((2,), 3).astype(wanted), dtype=wanted)
    for name in ("zeros_like", "ones_like"):
        check(getattr(wf, name)(x), getattr(np, name)(x), dtype=wanted)
        check(
            getattr(wf, name)(wf.array(x), dtype=wf.int16, shape=(5,)),
            getattr(np, name)(x, dtype=np.int16, shape=(5,)),
            dtype=wf.int16,
        )
    check(wf.full_like(x, 1), np.full_like(x, 1), dtype=wanted)
    check(wf.eye(3, 4, k=1, dtype=dtype), np.eye(3, 4, 1).astype(wanted), dtype=wanted)


def test_lists_of_float64_lose_nothing() -> None:
    assert wf.array([0.1, 1e300], dtype=wf.float64).tolist() == [0.1, 1e300]
    assert wf.array(0.1, dtype=wf.float64).tolist() == 0.1
    assert wf.array([2**62 + 1], dtype=wf.int64).tolist() == [2**62 + 1]


def test_lists_of_arrays() -> None:
    x, y = wf.array([1.0, 2.0]), wf.array([3, 4])
    check(wf.array([x, y]), [[1, 2], [3, 4]], dtype=np.dtype(np.float32))
    check(wf.array([x.sum(), 2.0, y[0]]), [3, 2, 3], dtype=np.dtype(np.float32))
    check(wf.array([[x, x], [y, y]], dtype=wf.float64), [[[1, 2]] * 2, [[3, 4]] * 2], dtype=np.dtype(np.float64))


def test_copies() -> None:
    data = np.arange(3.0)
    x = wf.array(data)
    data[0] = 9
    assert x.tolist() == [0, 1, 2]
    y, z = wf.array(x), wf.asarray(x)
    assert z is x and y is not x and wf.array(x, copy=False) is x and wf.asarray(x, copy=True) is not x
    y[0] = 5.0
    assert x.tolist() == [0, 1, 2]
    assert wf.asarray(x, dtype=wf.float32).dtype == wf.float32
    assert wf.astype(x, wf.float64, copy=False) is x and wf.astype(x, wf.int32).dtype == wf.int32
    new = wf.zeros(3)
    new[1] = 4.0
    assert new.tolist() == [0, 4, 0] and wf.zeros(3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("args", [(5,), (0,), (-2,), (2, 7), (2, 9, 3), (9, 2, -3), (2, 2), (7, 2), (-3, 3)])
def test_arange_of_integers(args: tuple) -> None:
    check(wf.arange(*args), np.arange(*args), dtype=np.dtype(np.int64))
    check(wf.arange(*args, dtype=wf.float32), np.arange(*args, dtype=np.float32), dtype=np.dtype(np.float32))


@pytest.mark.parametrize("args", [(5.0,), (0.5, 3), (0, 1, 0.1), (1, 0, -0.25), (3.0, 1.0), (0.0, 0.35, 0.05)])
def test_arange_of_floats(args: tuple) -> None:
    check(wf.arange(*args), np.arange(*args), rtol=1e-6, dtype=np.dtype(np.float32))
    check(wf.arange(*args, dtype=wf.float64), np.arange(*args), rtol=1e-14, atol=1e-15, dtype=np.dtype(np.float64))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32"])
def test_arange_of_floats_in_another_dtype(dtype: str, rng: np.random.Generator) -> None:
    """NumPy casts the first two numbers and repeats their difference."""
    for _ in range(40):
        start, step = (float(x) for x in rng.choice([-2.5, -1.0, -0.75, -0.5, 0.5, 0.25, 1.0, 1.5, 3.0], 2))
        stop = start + step * float(rng.uniform(-1, 9))
        want = np.arange(start, stop, step, dtype=dtype)
        check(wf.arange(start, stop, step, dtype=dtype), want, dtype=want.dtype)
        late = wf.jit(lambda x: x + wf.arange(start, stop, step, dtype=dtype))(wf.zeros((), dtype=dtype))  # noqa: B023
        check(late, want, dtype=want.dtype)


@pytest.mark.parametrize("num", [0, 1, 2, 7, 50])
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace(num: int, endpoint: bool) -> None:
    for start, stop in ((0, 1), (-2.5, 7), (3, -1), (1, 1)):
        want = np.linspace(start, stop, num, endpoint=endpoint)
        check(wf.linspace(start, stop, num, endpoint=endpoint), want, rtol=2e-7, atol=1e-7, dtype=np.dtype(np.float32))
        check(wf.linspace(start, stop, num, endpoint=endpoint, dtype=wf.float64), want, rtol=1e-14, atol=1e-15)
    assert wf.linspace(0.1, 0.7, 3, dtype=wf.float64).tolist()[-1] == 0.7


def test_matrices() -> None:
    for args in ((3,), (3, 4), (0, 2)):
        for k in (-1, 0, 2):
            check(wf.eye(*args, k=k), np.eye(*args, k=k), dtype=np.dtype(np.float32))
            check(wf.tri(*args, k=k), np.tri(*args, k=k), dtype=np.dtype(np.float32))
    check(wf.identity(3), np.identity(3))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing: str) -> None:
    xs = [draw((n,), d) for n, d in ((3, "float32"), (4, "int8"), (2, "float64"))]
    for count in (0, 1, 2, 3):
        found, want = wf.meshgrid(*xs[:count], indexing=indexing), np.meshgrid(*xs[:count], indexing=indexing)
        assert len(found) == len(want)
        for f, w in zip(found, want, strict=True):
            check(f, w, dtype=w.dtype)


def test_other_libraries() -> None:
    x = np.arange(6.0).reshape(2, 3)
    check(wf.from_dlpack(x), x, dtype=np.dtype(np.float64))
    check(wf.asarray(memoryview(x.copy())), x)
    back = np.from_dlpack(wf.array(x))
    np.testing.assert_array_equal(back, x)
    check(wf.array(ml_dtypes.bfloat16(1.5)), 1.5, dtype=dtype_of("bfloat16"))
    np.testing.assert_array_equal(np.asarray(wf.array(x)), x)


def nest(depth: int) -> list:
    out: list = [1.0]
    for _ in range(depth - 1):
        out = [out]
    return out


ENDLESS: list = [1.0]
ENDLESS.append(ENDLESS)
ENDLESS_ARRAYS: list = [wf.ones(2)]
ENDLESS_ARRAYS.append([ENDLESS_ARRAYS])

ERRORS = [
    *((call, wf.errors.ShapeError, "contains itself") for x in (ENDLESS, ENDLESS_ARRAYS, nest(3000)) for call in (
        lambda x=x: wf.array(x), lambda x=x: wf.asarray(x, dtype="int32"), lambda x=x: wf.zeros(2).__setitem__(slice(None), x),
        lambda x=x: wf.zeros(2) + x, lambda x=x: wf.stack(x), lambda x=x: wf.append(wf.zeros(2), x),
    )),
    (lambda: wf.array(nest(65)), wf.errors.ShapeError, "nested in more than 64 lists"),
    (lambda: wf.array([[1, 2], [3]]), wf.errors.ShapeError, "different lengths"),
    (lambda: wf.array([[1, 2], [3]], dtype=wf.float32), wf.errors.ShapeError, "different lengths"),
    (lambda: wf.array("text"), wf.errors.DTypeError, "text"),
    (lambda: wf.array(None), wf.errors.DTypeError, "None"),
    (lambda: wf.array(np.ones(2, np.clongdouble)), wf.errors.DTypeError, "cannot be held"),
    (lambda: wf.array(["a"]), wf.errors.DTypeError, "array"),
    (lambda: wf.zeros(3, dtype="nonsense"), wf.errors.DTypeError, "nonsense"),
    (lambda: wf.zeros(3, dtype="clongdouble"), wf.errors.DTypeError, "weft has"),
    (lambda: wf.zeros((2, -1)), wf.errors.ShapeError, r"zeros: shape=\(2, -1\).*negative"),
    (lambda: wf.ones("ab"), wf.errors.DTypeError, "ones: shape must be an integer or a tuple"),
    (lambda: wf.ones(2.5), wf.errors.DTypeError, "ones: shape"),
    (lambda: wf.ones(2, 3), wf.errors.DTypeError, r"ones: 3 is no dtype; the shape is one argument, wf.ones\(\(2, 3\)\)"),
    (lambda: wf.zeros((2,), 3), wf.errors.DTypeError, "3 is not a dtype such as"),
    (lambda: wf.full((2, 3), [1, 2]), wf.errors.ShapeError, "broadcast"),
    (lambda: wf.arange("a"), wf.errors.DTypeError, "arange"),
    (lambda: wf.arange(0, 5, 0), ValueError, "step must not be 0"),
    (lambda: wf.linspace(0, 1, -1), wf.errors.ShapeError, "num=-1"),
    (lambda: wf.meshgrid([1], indexing="yx"), ValueError, "indexing='yx'"),
    (lambda: wf.from_dlpack([1]), wf.errors.DTypeError, "list has no __dlpack__"),
    (lambda: wf.full(2, 300, dtype=wf.int8), OverflowError, "300 is out of bounds for int8"),
]


@pytest.mark.parametrize("call, error, match", ERRORS)
def test_errors(call: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


DEVICE = {  # each with options that change the result
    "eye": lambda **k: wf.eye(2, 3, k=1, dtype="int32", **k), "zeros": lambda **k: wf.zeros((2, 1), "int8", **k),
    "ones": lambda **k: wf.ones(3, "float16", **k), "empty": lambda **k: wf.empty((0, 2), "int8", **k),
    "full": lambda **k: wf.full((2,), 7, "uint8", **k),
    "zeros_like": lambda **k: wf.zeros_like(wf.ones(2), "int8", shape=(3,), **k),
    "ones_like": lambda **k: wf.ones_like(wf.ones(2), "int8", shape=(3,), **k),
    "full_like": lambda **k: wf.full_like(wf.ones(2), 5, "int16", shape=(1, 2), **k),
    "arange": lambda **k: wf.arange(1, 8, 3, "int16", **k),
    "linspace": lambda **k: wf.linspace(0, 1, 3, False, dtype="float64", **k),
    "array": lambda **k: wf.array([1, 2], "int8", ndmin=2, **k), "asarray": lambda **k: wf.asarray([1, 2], "int8", **k),
    "astype": lambda **k: wf.astype(wf.ones(2), "int8", **k), "fftfreq": lambda **k: wf.fft.fftfreq(5, 0.5, dtype="float64", **k),
    "from_dlpack": lambda **k: wf.from_dlpack(np.arange(3), **k),
}


@pytest.mark.parametrize("name", DEVICE)
def test_a_device_changes_nothing_else(name):
    found, want = DEVICE[name](device="cpu"), DEVICE[name]()
    assert found.device == "cpu" and found.dtype == want.dtype and found.shape == want.shape
    np.testing.assert_array_equal(found.numpy(), want.numpy())


def test_diagonals_outside_of_a_matrix():
    for k in (-(2**70), -4, -3, 3, 4, 2**63):
        np.testing.assert_array_equal(wf.eye(2, 3, k=k).numpy(), np.eye(2, 3, k=k))
        np.testing.assert_array_equal(wf.tri(2, 3, k).numpy(), np.tri(2, 3, max(-9, min(k, 9))))
