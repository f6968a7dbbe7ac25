"""Taking, gathering, scattering, triangles, sorting and searching against NumPy."""

from typing import Any

import numpy as np
import pytest

import weft as wf
from tests import oracle
from tests.functions.cases import check, draw

RNG = np.random.default_rng()


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
@pytest.mark.parametrize("shape, axis", [((6,), None), ((6,), 0), ((3, 4), None), ((3, 4), 1), ((3, 4), -2), ((2, 3, 4), 1)])
@pytest.mark.parametrize("index", [(), (3,), (2, 2), (0,)])
def test_take(shape: tuple, axis: object, index: tuple, dtype: str) -> None:
    x = draw(shape, dtype)
    extent = x.size if axis is None else shape[axis]
    places = RNG.integers(-extent, extent, index)
    check(wf.take(x, places, axis=axis), np.take(x, places, axis=axis), dtype=x.dtype)
    check(wf.take(x, places.astype(np.int8), axis=axis), np.take(x, places, axis=axis))


def test_take_writes_out() -> None:
    x = np.arange(5.0, dtype=np.float32)
    assert wf.take(x, [7, -9], mode="clip").tolist() == [4.0, 0.0]
    out = wf.zeros(2)
    assert wf.take(x, [1, 2], out=out) is out and out.tolist() == [1.0, 2.0]
    assert wf.take(x, []).shape == (0,)


@pytest.mark.parametrize("shape, axis", [((6,), 0), ((3, 4), 0), ((3, 4), -1), ((2, 3, 4), 1), ((3, 4), None)])
def test_along_axis(shape: tuple, axis: object) -> None:
    x = draw(shape, "float32")
    flat = axis is None
    index = RNG.integers(
        0,
        x.size if flat else shape[axis],
        (5,) if flat else tuple(2 if a == axis % len(shape) else n for a, n in enumerate(shape)),
    )
    check(wf.take_along_axis(x, index, axis=axis), np.take_along_axis(x, index, axis=axis))
    if not flat:
        ours, theirs = wf.array(x), x.copy()
        order = np.argsort(draw(shape, "float32"), axis=axis)  # each place once
        values = draw(shape, "float32")
        wf.put_along_axis(ours, order, values, axis=axis)
        np.put_along_axis(theirs, order, values, axis=axis)
        check(ours, theirs)


def test_along_axis_broadcasts() -> None:
    x = draw((3, 4), "float32")
    index = np.array([[1, 0, 1]])
    check(wf.take_along_axis(x, index, axis=1), np.take_along_axis(x, np.broadcast_to(index, (3, 3)), axis=1))


def test_gather() -> None:
    x = draw((3, 4, 5), "float32")
    i, j = RNG.integers(0, 3, (2, 1)), RNG.integers(-4, 4, (6,))
    check(wf.gather(x, i), x[i])
    check(wf.gather(x, i, j), x[i, j])
    check(wf.gather(x, j, axes=1), np.moveaxis(x[:, j], 0, 1))
    check(wf.gather(x, j, i, axes=(1, 0)), x[i, j])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_scatter_add(dtype: str) -> None:
    x, i, j = draw((5, 4), dtype), RNG.integers(0, 5, 20), RNG.integers(-4, 4, 20)
    rows, points = draw((20, 4), dtype), draw((20,), dtype)
    want = x.copy()
    np.add.at(want, i, rows)
    check(wf.scatter_add(x, i, rows), want, rtol=1e-5, atol=1e-5, dtype=x.dtype)
    want = x.copy()
    np.add.at(want, (i, j), points)
    check(wf.scatter_add(x, (i, j), points), want, rtol=1e-5, atol=1e-5)
    want = x.copy()
    np.add.at(want, (slice(None), j), np.ones((5, 20), dtype))
    check(wf.scatter_add(x, j, 1, axes=1), want, rtol=1e-5, atol=1e-5)
    check(wf.scatter_add(x, np.zeros(0, np.int64), rows[:0]), x)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("n", [1, 3, 700])
def test_bools_are_added_as_numpy_adds_them(n: int, traced: bool) -> None:
    """The sum of bools is whether any of them is true, however often one place is named."""
    rng = oracle.rng()
    x, v = rng.random(5) < 0.3, rng.random(n) < 0.2
    for index in (rng.integers(-5, 5, n), (rng.integers(0, 5, n),), slice(0, 1)):
        given = v[0] if isinstance(index, slice) else v
        want = x.copy()
        np.add.at(want, index, given)

        def f(a: wf.Array, index: Any = index, given: Any = given) -> wf.Array:
            a = a.copy()
            np.add.at(a, index, given)  # type: ignore[call-overload]
            return a

        found = (wf.jit(f) if traced else f)(wf.array(x))
        assert found.dtype == bool and found.tolist() == want.tolist()
    with pytest.raises(TypeError):
        np.subtract.at(wf.array(x), [0], True)  # type: ignore[call-overload]


def test_scatter_set() -> None:
    x = draw((5, 4), "float32")
    i = RNG.permutation(5)[:3]
    want = x.copy()
    want[i] = 2.0
    check(wf.scatter_set(x, i, 2.0), want)


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 3, 3), (0, 3), (1, 1)])
@pytest.mark.parametrize("k", [-5, -1, 0, 1, 2])
def test_triangles(shape: tuple, k: int) -> None:
    for dtype in ("float32", "bool"):
        x = draw(shape, dtype)
        check(wf.tril(x, k), np.tril(x, k), dtype=x.dtype)
        check(wf.triu(x, k), np.triu(x, k), dtype=x.dtype)


def test_one_hot() -> None:
    labels = RNG.integers(0, 5, (3, 4))
    check(wf.one_hot(labels, 5), np.eye(5, dtype=np.float32)[labels], dtype=np.dtype(np.float32))
    check(wf.one_hot(labels.astype(np.uint8), 5, dtype=wf.int32), np.eye(5, dtype=np.int32)[labels], dtype=np.dtype(np.int32))
    assert wf.one_hot([7, -1], 3).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("shape", [(7,), (3, 4), (0,), (2, 3, 2)])
def test_concrete(shape: tuple) -> None:
    x = draw(shape, "int32")
    for f, w in zip(wf.nonzero(x), np.nonzero(x), strict=True):
        check(f, w)
    check(wf.argwhere(x), np.argwhere(x))
    check(wf.flatnonzero(x), np.flatnonzero(x))
    check(wf.extract(x > 0, x), np.extract(x > 0, x))


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16"])
@pytest.mark.parametrize("shape, axis", [((9,), -1), ((9,), None), ((3, 7), 0), ((3, 7), -1), ((3, 7), None), ((0, 3), 0)])
def test_sorting(shape: tuple, axis: object, dtype: str) -> None:
    x = draw(shape, dtype)
    check(wf.sort(x, axis=axis), np.sort(x, axis=axis), dtype=x.dtype)
    check(wf.argsort(x, axis=axis), np.argsort(x, axis=axis, kind="stable"), dtype=np.dtype(np.int64))
    line = -1 if axis is None else axis
    wide = x.astype(np.float64).ravel() if axis is None else x.astype(np.float64)
    check(wf.argsort(x, axis=axis, descending=True), np.argsort(-wide, axis=line, kind="stable"))
    check(wf.sort(x, axis=axis, descending=True), -np.sort(-wide, axis=line))


@pytest.mark.parametrize("side", ["left", "right"])
def test_searching(side: str) -> None:
    a, v = np.sort(draw((20,), "int32")), draw((3, 5), "int32")
    check(wf.searchsorted(a, v, side=side), np.searchsorted(a, v, side=side))
    mixed = RNG.permutation(a)
    order = np.argsort(mixed)
    check(wf.searchsorted(mixed, v, side=side, sorter=order), np.searchsorted(mixed, v, side=side, sorter=order))
    for dtype in ("float16", "float32", "float64"):  # NaN stands behind all numbers
        last = np.sort(np.array([3, 1, 2, np.inf, -np.inf, np.nan, np.nan], dtype))
        asked = np.array([np.nan, 1, np.inf, -np.inf, 5, -7], dtype)
        check(wf.searchsorted(last, asked, side=side), np.searchsorted(last, asked, side=side))
        check(wf.searchsorted(last[:-2], asked, side=side), np.searchsorted(last[:-2], asked, side=side))
        check(wf.searchsorted(last, np.nan, side=side), np.searchsorted(last, np.nan, side=side))
    check(wf.isin(v, a[:5]), np.isin(v, a[:5]))
    check(wf.isin(v, a[:5], invert=True), np.isin(v, a[:5], invert=True))


@pytest.mark.parametrize("index", [
    "[:, K, ..., K]", "[:, 0, ..., K]", "[None, K, ..., K, K]", "[:, M, ..., K]", "[K, ..., K, :]", "[K, K, ...]", "[..., K, K]",
    "[:, K, K, ...]", "[0, ..., 0, K]", "[:, ..., 0, 0]", "[0, 0, 0, ...]", "[K, None, ..., K, 1]", "[1, :, ..., K]",
])
def test_an_ellipsis_keeps_index_arrays_apart(index: str) -> None:
    """Also one that stands for no dimension: then theirs come first."""
    x, names = draw((3, 3, 3), "float32"), {"K": np.array([0, 1, 2]), "M": np.array([True, True, True])}
    want = eval("x" + index, {"x": x, **names})  # noqa: S307
    check(eval("x" + index, {"x": wf.array(x), **names}), want)  # noqa: S307
    check(wf.jit(lambda x: eval("x" + index, {"x": x, **names}))(wf.array(x)), want)  # noqa: S307
    value, ours = draw(want.shape, "float32"), wf.array(x)
    exec(f"x{index} = v", {"x": x, "v": value, **names})  # noqa: S102
    exec(f"x{index} = v", {"x": ours, "v": value, **names})  # noqa: S102
    check(ours, x)


@pytest.mark.parametrize("index", [slice(0, 2), ..., (slice(None), 1), (0, 0), (slice(None), [0, 0])])
def test_ufuncs_at(index: object) -> None:
    def both(a: object) -> object:
        np.add.at(a, index, 1.5)  # type: ignore[call-overload]
        np.subtract.at(a, index, 0.5)  # type: ignore[call-overload]
        return a

    x = draw((3, 4), "float32")
    want = both(x.copy())
    check(both(wf.array(x)), want)
    check(wf.jit(both)(wf.array(x)), want)


def test_index_arrays_that_do_not_fit_together() -> None:
    with pytest.raises(IndexError, match=r"shapes \(2,\), \(3,\) do not broadcast"):
        wf.zeros((3, 3))[wf.array([0, 1]), wf.array([0, 1, 2])]
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 1 with size 4"):  # though nothing would be read
        wf.zeros((3, 4))[1:1, wf.array([7])]


def test_unique() -> None:
    x = draw((4, 6), "int32")
    check(wf.unique(x), np.unique(x))
    for f, w in zip(wf.unique_all(x), np.unique_all(x), strict=True):
        check(f, w)
    check(wf.unique_counts(x).counts, np.unique_counts(x).counts)
    check(wf.unique_inverse(x).inverse_indices, np.unique_inverse(x).inverse_indices)
    values, counts = wf.unique(x, return_counts=True)
    check(counts, np.unique(x, return_counts=True)[1])
    check(values, wf.unique_values(x).numpy())


ERRORS = [
    (lambda x: wf.take(x, 1.5), wf.errors.DTypeError, "take: indices must hold integers.*float32"),
    (lambda x: wf.take(x, 0, axis=3), wf.errors.AxisError, "take: axis=3"),
    (lambda x: wf.take(x[:0], 0, axis=0), IndexError, r"axis 0 with size 0"),
    (lambda x: wf.take_along_axis(x, [0]), wf.errors.ShapeError, "as many dimensions"),
    (lambda x: wf.put_along_axis(x, [[0]], 1), wf.errors.DTypeError, "arr must be a weft Array"),
    (lambda x: wf.scatter_add(x, [0, 1], np.ones((3, 4))), wf.errors.ShapeError, r"scatter_add.*\(3, 4\).*\(2, 4\)"),
    (lambda x: wf.gather(x, [True]), wf.errors.DTypeError, "gather: indices.*bool"),
    (lambda x: wf.tril(x[0, 0]), wf.errors.ShapeError, "tril: m has no dimensions"),
    (lambda x: wf.one_hot([1], 0), wf.errors.ShapeError, "num_classes=0"),
    (lambda x: wf.one_hot([1.5], 2), wf.errors.DTypeError, "one_hot"),
    (lambda x: wf.nonzero(3.0), wf.errors.ShapeError, "nonzero"),
    (lambda x: wf.sort(x, axis=2), wf.errors.AxisError, "sort: axis=2"),
    (lambda x: wf.searchsorted(x, 1.0), wf.errors.ShapeError, "a vector is needed"),
    (lambda x: wf.searchsorted(x[0], 1.0, side="middle"), ValueError, "side='middle'"),
]


@pytest.mark.parametrize("call, error, match", ERRORS)
def test_errors(call: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(draw((3, 4), "float32"))


def test_elements_of_bools_take_arrays_of_one_element(rng: np.random.Generator) -> None:
    for _ in range(30):
        shape = [(), (1,), (1, 1), (2,), (0,)][rng.integers(5)]
        value = rng.integers(-1, 2, shape).astype(str(rng.choice(["bool", "int8", "float32"])))
        dtype, index = str(rng.choice(["bool", "int32"])), int(rng.integers(-3, 3))

        def write(x: Any, value: Any, index: int = index) -> Any:
            x[index] = value
            return x

        given = (value, wf.array(value))
        try:
            want = write(np.zeros(3, dtype), value).tolist()
        except ValueError:
            for one in given:
                with pytest.raises(ValueError, match="an element is set with one number, not with an array of shape"):
                    write(wf.zeros(3, dtype=dtype), one)
        else:
            assert [write(wf.zeros(3, dtype=dtype), one).tolist() for one in given] == [want, want]
            assert wf.jit(write)(wf.zeros(3, dtype=dtype), wf.array(value)).tolist() == want
