"""Loop nests: values against NumPy in float64, shapes with ones and primes, layouts, guards, indices, random bits."""

from __future__ import annotations

import numpy as np
import pytest
from harness import acc, access, as_affine, buffers, compile_kernel, const, fresh, load, op
from nest_cases import COLUMNS, F32, ROWS, add, normalise, share, softmax, square_plus

from tests.kernel.evaluate import evaluate
from weft.dtypes.formats import BOOL, FLOAT64, FLOATS, INT64, UINT32
from weft.dtypes.parse import parse_dtype
from weft.kernel.ir import Affine, Axis, Contraction, Kernel, Phase, Reduction, Stage, Store, Value, axis_index
from weft.kernel.summation import product_order
from weft.kernel.target import Order

COLUMN_CASES = [
    *((s, a) for s in [(1, 1), (1, 7), (5, 3), (37, 101), (128, 10), (3, 4096), (301, 64), (513, 1024)] for a in (0, 1)),
    ((3, 50, 37), 1), ((4, 130, 64), 1), ((4000, 70), 0), ((200, 1100), 0), ((9, 70, 2051), 1),
]
BIT_CASES = [
    ((37, 101), 0), ((37, 101), 1), ((513, 1024), 0), ((3, 50, 37), 1), ((5, 9000), 1), ((130, 1101), 0), ((40, 200), 0),
]
F64 = FLOAT64
SHAPES = [(1, 1), (1, 7), (5, 3), (37, 101), (128, 10), (3, 4096), (301, 64), (70, 33), (513, 1024), (7, 10007)]


def run(kernel: Kernel, *arrays: np.ndarray, scalars=()) -> list[np.ndarray]:
    out = [fresh(b.dtype, b.shape) for b in kernel.outputs]
    compile_kernel(kernel)(list(arrays), out, scalars)
    return out


def store_all(value: Value, out, axes, *index) -> tuple[Phase, ...]:
    return (Phase(tuple(axes), (Stage((), (), (Store(access(out, *(index or axes)), value),)),)),)


def close(got: np.ndarray, exact: np.ndarray, bound: float) -> None:
    assert got.any() or not np.any(exact)
    np.testing.assert_allclose(got.astype(np.float64), exact, rtol=bound, atol=bound * float(np.abs(exact).max(initial=0)))


def same_bits(kernel: Kernel, arrays, scalars=()) -> None:
    expected, _ = evaluate(kernel, arrays, list(scalars))
    for got, want in zip(run(kernel, *arrays, scalars=scalars), expected, strict=True):
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax_over_rows(shape, dtype, rng):
    x = rng.normal(size=shape).astype(dtype)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    close(
        run(softmax(*shape, dtype=parse_dtype(dtype)), x)[0], e / e.sum(1, keepdims=True), 1e-6 if dtype == np.float32 else 1e-14
    )


@pytest.mark.parametrize("shape,axis", COLUMN_CASES)
def test_normalise_over_each_axis(shape, axis, rng):
    x = (rng.normal(size=shape) * 3 + 1).astype(np.float32)
    y = x.astype(np.float64)
    exact = (y - y.mean(axis, keepdims=True)) / np.sqrt(y.var(axis, keepdims=True) + 1e-5)
    got = run(normalise(shape, axis), x)[0]
    np.testing.assert_allclose(got, exact, atol=2e-5, rtol=2e-4 if shape[axis] > 1 else 1)


@pytest.mark.parametrize("shape,axis", BIT_CASES)
def test_reductions_have_the_bits_that_the_order_promises(shape, axis, rng):
    same_bits(normalise(shape, axis), [rng.normal(size=shape).astype(np.float32)])


@pytest.mark.parametrize("shape", [*SHAPES, (700, 1001)])
def test_share_of_the_whole(shape, rng):
    x = rng.uniform(0.1, 1, size=shape).astype(np.float32)
    close(run(share(*shape), x)[0], x / x.astype(np.float64).sum(), 2e-6)
    same_bits(share(*shape), [x])


@pytest.mark.parametrize("shape", SHAPES)
def test_maps(shape, rng):
    x = rng.normal(size=shape).astype(np.float32)
    close(run(square_plus(*shape), x)[0], x.astype(np.float64) ** 2 + 1.5, 1e-6)


def test_in_place(rng):
    x = rng.normal(size=(37, 101)).astype(np.float32)
    for kernel in (square_plus(37, 101), softmax(37, 101), normalise((37, 101), 0), share(37, 101)):
        expected = run(kernel, x)[0]
        y = x.copy()
        compile_kernel(kernel)([y], [y])
        assert y.tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", [(3, 5, 7), (4, 28, 28), (2, 3, 64), (6, 30, 41), (2, 100, 90)])
@pytest.mark.parametrize("monoid", ["sum", "max"])
def test_reductions_over_two_axes_around_a_kept_one(shape, monoid, rng):
    """Batch norm's statistics: x[n, c, s] over n and s; the rows of s begin anywhere in the lanes."""
    x, y = buffers((F32, shape), (F32, (shape[1],)))
    n, c, s = (Axis(i, e) for i, e in enumerate(shape))
    stages = (Stage((n, s), (add(0, (n, s), load(x, n, c, s), ROWS, monoid),)),
              Stage((), (), (Store(access(y, c), acc(0, F32)),)))
    kernel = Kernel("stats", (Phase((c,), stages),), (x,), (y,))
    same_bits(kernel, [rng.normal(size=shape).astype(np.float32)])


@pytest.mark.drawn(56)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8, bool])
@pytest.mark.parametrize("monoid", ["argmax", "argmin", "max", "min"])
@pytest.mark.parametrize("n", [1, 9, 100, 5000])
def test_extremes(dtype, monoid, n, rng):
    d = parse_dtype(dtype)
    data = rng.integers(0, 5, size=(6, n))
    x = data.astype(dtype)
    if d in FLOATS and n > 1:
        x[2, n // 2] = np.nan
        x[3] = -np.inf
        x[4] = np.inf
    result = INT64 if "arg" in monoid else d
    a, b = buffers((d, x.shape), (result, (6,)))
    r, c = Axis(0, 6), Axis(1, n)
    order = ROWS if n >= 32 else Order(1, 4096)
    stages = (Stage((c,), (add(0, (c,), load(a, r, c), order, monoid, dtype=result),)),
              Stage((), (), (Store(access(b, r), acc(0, result)),)))
    got = run(Kernel("extreme", (Phase((r,), stages),), (a,), (b,)), x)[0]
    np.testing.assert_array_equal(got, getattr(np, monoid)(x, axis=1))
    whole = (Stage((r, c), (add(0, (r, c), load(a, r, c), ROWS, monoid, dtype=result),)),)
    (one,) = buffers((result, ()))
    one = type(one)(1, one.dtype, ())
    out = (Phase((), (Stage((), (), (Store(access(one), acc(0, result)),)),)),)
    got = run(Kernel("extreme", (Phase((), whole), *out), (a,), (one,)), x)[0]
    np.testing.assert_array_equal(got, getattr(np, monoid)(x))


@pytest.mark.parametrize("size", [(4, 6), (7, 9), (28, 28), (1, 2)])
def test_max_pool_with_position(size, rng):
    h, w = size
    oh, ow = max(h // 2, 1), max(w // 2, 1)
    kh, kw = min(2, h), min(2, w)
    x, y, p = buffers((F32, (3, h, w)), (F32, (3, oh, ow)), (np.int32, (3, oh, ow)))
    c, i, j, a, b = Axis(0, 3), Axis(1, oh), Axis(2, ow), Axis(3, kh), Axis(4, kw)
    at = load(x, c, axis_index(i, 2).plus(axis_index(a)), axis_index(j, 2).plus(axis_index(b)))
    order = Order(1, 4096)
    stages = (
        Stage((a, b), (add(0, (a, b), at, order, "max"), add(1, (a, b), at, order, "argmax", dtype=np.int32))),
        Stage((), (), (Store(access(y, c, i, j), acc(0, F32)), Store(access(p, c, i, j), acc(1, np.int32)))),
    )
    kernel = Kernel("pool", (Phase((c, i, j), stages),), (x,), (y, p))
    same_bits(kernel, [rng.integers(0, 4, size=(3, h, w)).astype(np.float32)])


def test_padding_by_guards(rng):
    x, y = buffers((F32, (5, 11)), (F32, (9, 40)))
    i, j = Axis(0, 9), Axis(1, 40)
    row, column = axis_index(i).plus(Affine(-2)), axis_index(j).plus(Affine(-3))
    value = load(x, row, column, guard=((row, 0, 5), (column, 0, 11)), fill=2.5)
    data = rng.normal(size=(5, 11)).astype(np.float32)
    got = run(Kernel("pad", store_all(value, y, (i, j)), (x,), (y,)), data)[0]
    np.testing.assert_array_equal(got, np.pad(data, ((2, 2), (3, 26)), constant_values=2.5))


def test_guarded_stores_leave_the_rest(rng):
    x, y = buffers((F32, (5, 40)), (F32, (5, 30)))
    i, j = Axis(0, 5), Axis(1, 40)
    place = axis_index(j).plus(Affine(-6))
    phases = (Phase((i, j), (Stage((), (), (Store(access(y, i, place, guard=((place, 0, 30),)), load(x, i, j)),)),)),)
    data = rng.normal(size=(5, 40)).astype(np.float32)
    np.testing.assert_array_equal(run(Kernel("cut", phases, (x,), (y,)), data)[0], data[:, 6:36])


@pytest.mark.parametrize("step", [-3, -2, -1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8, bool, np.float16])
def test_strided_and_reversed_access(step, dtype, rng):
    n = 45
    length = (n - 1) * abs(step) + 1
    x, y = buffers((dtype, (2, length)), (dtype, (2, n)))
    i, j = Axis(0, 2), Axis(1, n)
    at = axis_index(j, step).plus(Affine(length - 1 if step < 0 else 0))
    data = (rng.integers(0, 2, size=(2, length)) if dtype is bool else rng.normal(size=(2, length)) * 50).astype(dtype)
    got = run(Kernel("step", store_all(load(x, i, at), y, (i, j)), (x,), (y,)), data)[0]
    np.testing.assert_array_equal(got, data[:, ::step])


def test_transpose(rng):
    x, y = buffers((F32, (33, 70)), (F32, (70, 33)))
    i, j = Axis(0, 70), Axis(1, 33)
    data = rng.normal(size=(33, 70)).astype(np.float32)
    np.testing.assert_array_equal(run(Kernel("t", store_all(load(x, j, i), y, (i, j)), (x,), (y,)), data)[0], data.T)


@pytest.mark.parametrize("itype", [np.int32, np.int64, np.uint8])
def test_gather_rows_and_elements(itype, rng):
    table, index, y, z = buffers((F32, (50, 19)), (itype, (33,)), (F32, (33, 19)), (F32, (33,)))
    i, j, k = Axis(0, 33), Axis(1, 19), Axis(2, 33)
    row = load(index, i)
    first = store_all(load(table, as_affine(row), j), y, (i, j))
    second = store_all(load(table, as_affine(load(index, k)), 3), z, (k,))
    t, at = rng.normal(size=(50, 19)).astype(np.float32), rng.integers(0, 50, 33).astype(itype)
    got, one = run(Kernel("take", (*first, *second), (table, index), (y, z)), t, at)
    np.testing.assert_array_equal(got, t[at])
    np.testing.assert_array_equal(one, t[at, 3])


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16])
@pytest.mark.parametrize("width", [1, 3, 16, 21])
def test_scatter_add_runs_in_order(dtype, width, rng):
    base, up, index, y = buffers((dtype, (7, width)), (dtype, (60, width)), (np.int64, (60,)), (dtype, (7, width)))
    i, j, a, b = Axis(0, 7), Axis(1, width), Axis(2, 60), Axis(3, width)
    copy = store_all(load(base, i, j), y, (i, j))
    place = access(y, as_affine(load(index, a)), b)
    phases = (*copy, Phase((), (Stage((a, b), (), (Store(place, load(up, a, b), "add"),)),)))
    data = [(rng.normal(size=s) * 9).astype(dtype) for s in ((7, width), (60, width))]
    same_bits(Kernel("scatter", phases, (base, up, index), (y,)), [*data, rng.integers(0, 7, 60)])


def test_philox_matches_its_definition(rng):
    key, base, y = buffers((np.uint64, ()), (np.uint64, ()), (np.uint32, (5, 37)))
    i, j = Axis(0, 5), Axis(1, 37)
    flat = op("cast", Value("index", (), INT64, axis_index(i, 37).plus(axis_index(j))), dtype=np.uint64)
    value = Value("philox", (load(key), load(base), flat), UINT32)
    kernel = Kernel("bits", store_all(value, y, (i, j)), (key, base), (y,))
    same_bits(kernel, [np.array(v, np.uint64) for v in rng.integers(0, 2**63, 2)])
    # Random123's known answers: counter 0 key 0
    got = run(kernel, np.array(0, np.uint64), np.array(0, np.uint64))[0]
    assert [hex(v) for v in got.reshape(-1)[:4]] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


def test_running_sum(rng):
    x, y = buffers((F32, (5, 40)), (F32, (5, 40)))
    i, j = Axis(0, 5), Axis(1, 40)
    r = Reduction(0, (j,), "sum", load(x, i, j), F32, F32, Order(1, 40), running=True)
    kernel = Kernel("running", (Phase((i,), (Stage((j,), (r,), (Store(access(y, i, j), acc(0, F32)),)),)),), (x,), (y,))
    same_bits(kernel, [rng.normal(size=(5, 40)).astype(np.float32)])


def test_carried_reduction_is_read_by_the_next_phase(rng):
    x, y = buffers((F32, (200, 9)), (F32, (200, 9)))
    r, c, c2, r3 = Axis(0, 200), Axis(1, 9), Axis(2, 9), Axis(3, 200)
    del c2
    carried = Reduction(0, (r,), "sum", load(x, r, c), F32, F32, COLUMNS, True)
    out = Stage((), (), (Store(access(y, r3, c), op("sub", load(x, r3, c), acc(0, F32))),))
    kernel = Kernel("carried", (Phase((r,), (Stage((c,), (carried,)),)), Phase((r3, c), (out,))), (x,), (y,))
    data = rng.normal(size=(200, 9)).astype(np.float32)
    close(run(kernel, data)[0], data - data.astype(np.float64).sum(0), 1e-5)


@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (3, 5, 7), (17, 33, 64), (40, 10, 100)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_contraction_without_a_template(m, n, k, dtype, rng):
    a, b, bias, y = buffers((dtype, (m, k)), (dtype, (k, n)), (dtype, (n,)), (dtype, (m, n)))
    i, j, p = Axis(0, m), Axis(1, n), Axis(2, k)
    out = op("max", op("add", acc(0, dtype), load(bias, j)), const(0, dtype))
    c = Contraction(0, (), (i,), (j,), (p,), load(a, i, p), load(b, p, j), parse_dtype(dtype), product_order(m, n, (k,)),
                    (Store(access(y, i, j), out),))
    data = [(rng.normal(size=s) * 5).astype(dtype) for s in ((m, k), (k, n), (n,))]
    kernel = Kernel("product", (Phase((), (c,)),), (a, b, bias), (y,))
    exact = np.maximum(data[0].astype(np.float64) @ data[1].astype(np.float64) + data[2], 0)
    magnitude = np.abs(data[0]).astype(np.float64) @ np.abs(data[1]) + np.abs(data[2])
    bound = 4 * np.finfo(dtype).eps if np.issubdtype(dtype, np.floating) else 0  # roundings of a sum add up like a random walk
    assert np.all(np.abs(run(kernel, *data)[0] - exact) <= bound * magnitude)


def test_empty_extents():
    x, y = buffers((F32, (0, 5)), (F32, (0, 5)))
    i, j = Axis(0, 0), Axis(1, 5)
    run(Kernel("empty", store_all(op("exp", load(x, i, j)), y, (i, j)), (x,), (y,)), np.empty((0, 5), np.float32))
    x, y = buffers((F32, (3, 0)), (F32, (3,)))
    r, c = Axis(0, 3), Axis(1, 0)
    stages = (Stage((c,), (add(0, (c,), load(x, r, c), ROWS),)), Stage((), (), (Store(access(y, r), acc(0, F32)),)))
    assert (run(Kernel("empty", (Phase((r,), stages),), (x,), (y,)), np.empty((3, 0), np.float32))[0] == 0).all()


def test_scalars_are_arguments(rng):
    x, y = buffers((F32, (70,)), (F32, (70,)))
    i = Axis(0, 70)
    s = Value("scalar", (), F32, 1)
    flag = Value("scalar", (), BOOL, 0)
    value = op("select", flag, op("mul", load(x, i), s), load(x, i), dtype=F32)
    kernel = Kernel("scale", store_all(value, y, (i,)), (x,), (y,), (BOOL, F32))
    data = rng.normal(size=70).astype(np.float32)
    np.testing.assert_array_equal(run(kernel, data, scalars=(True, 2.5))[0], data * np.float32(2.5))
    np.testing.assert_array_equal(run(kernel, data, scalars=(False, 2.5))[0], data)
