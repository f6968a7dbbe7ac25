"""Nothing is lost on the way: float64 stays float64, integers keep their digits, and what integers cannot hold is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft as wf
from weft.dtypes.api import INTEGERS

EXACT = [0.1, 1 / 3, 1e-40, 2.0**60 + 2.0**20]  # what float32 does not hold


def exact(x: wf.Array) -> list[float]:
    assert x.dtype == wf.float64
    return x.numpy().ravel().tolist()


WAYS = {
    "written": lambda v: wf.zeros(4, dtype="float64").__setitem__(slice(None), v),
    "added": lambda v: wf.zeros(4, dtype="float64") + v,
    "reflected": lambda v: v + wf.zeros(4, dtype="float64"),
    "function": lambda v: wf.add(v, wf.zeros(4, dtype="float64")),
    "ufunc": lambda v: np.add(wf.zeros(4, dtype="float64"), v),
    "maximum": lambda v: wf.maximum(wf.zeros(4, dtype="float64"), v),
    "where": lambda v: wf.where(wf.ones(4) > 0, v, wf.zeros(4, dtype="float64")),
    "clip": lambda v: wf.clip(wf.zeros(4, dtype="float64"), v, None),
    "made": lambda v: wf.array(v, dtype="float64"),
    "asarray": lambda v: wf.asarray(v, dtype=wf.float64),
    "full": lambda v: wf.full((4,), v, dtype="double"),
    "full_like": lambda v: wf.full_like(wf.zeros(4, dtype="float64"), v),
    "joined": lambda v: wf.concat([wf.zeros(0, dtype="float64"), v]),
    "stacked": lambda v: wf.stack([wf.zeros(4, dtype="float64"), v])[1],
    "in a list": lambda v: wf.array([wf.zeros(4, dtype="float64"), v])[1],
    "nested": lambda v: wf.array([[wf.array(0.0, dtype="float64"), *v[1:]], v])[1],
    "product": lambda v: wf.eye(4, dtype="float64") @ v,
    "dot": lambda v: wf.eye(4, dtype="float64").dot(v),
    "einsum": lambda v: wf.einsum("ij,j->i", wf.eye(4, dtype="float64"), v),
    "scattered": lambda v: wf.scatter_set(wf.zeros(4, dtype="float64"), [0, 1, 2, 3], v),
    "scatter_add": lambda v: wf.scatter_add(wf.zeros(4, dtype="float64"), [0, 1, 2, 3], v),
    "weights": lambda v: wf.average(wf.eye(4, dtype="float64"), axis=1, weights=v) * sum(v),
    "one by one": lambda v: wf.stack([wf.array(0.0, dtype="float64") + x for x in v]),
}


@pytest.mark.parametrize("way", WAYS)
def test_python_floats_become_float64_at_once(way):
    if way == "written":
        for write in (
            lambda a: a.__setitem__(slice(None), EXACT), lambda a: a.__setitem__([0, 1, 2, 3], EXACT),
            lambda a: a.__setitem__(..., tuple(EXACT)),
            lambda a: [a.__setitem__(k, v) for k, v in enumerate(EXACT)], lambda a: np.add.at(a, [0, 1, 2, 3], EXACT),
            lambda a: wf.put_along_axis(a, np.arange(4), EXACT, axis=0), lambda a: a.__iadd__(EXACT),
        ):
            a = wf.zeros(4, dtype="float64")
            write(a)
            assert exact(a) == EXACT
        return
    np.testing.assert_allclose(exact(WAYS[way](list(EXACT))), EXACT, rtol=1e-15)


def test_lists_alone_and_beside_others_keep_the_default():
    assert wf.array([0.1]).dtype == (wf.zeros(1) + [0.1]).dtype == (wf.array([1, 2]) + [0.1, 0.2]).dtype == wf.float32
    assert (wf.zeros(1, dtype="float16") + [0.1]).dtype == wf.float32 and (wf.ones(1, dtype="int8") + [1]).dtype == wf.int64
    assert wf.array([np.float64(0.1)]).dtype == wf.float64 and wf.array([0.1, wf.array(1.0)]).dtype == wf.float32


@pytest.mark.parametrize("inside", [lambda f: f, wf.jit], ids=["lazily", "jit"])
def test_a_float_argument_in_float64(inside):
    def f(a, k):
        b = a * 0
        b[0] = k
        return wf.stack([b[0], (a + k)[0], (-k * a)[0] * -1, (k * 3 * a)[0] / 3])

    np.testing.assert_allclose(exact(inside(f)(wf.ones(2, dtype="float64"), 0.1)), [0.1, 1.1, 0.1, 0.1], rtol=1e-15)


def test_float_means_float32_however_it_is_spelt():
    for spelt in (float, "float", np.float32, "float32", "f4", "f", "single"):
        assert wf.zeros(1, dtype=spelt).dtype == wf.float32
    for spelt in (np.float64, "float64", "f8", "d", "double", np.dtype("double")):
        assert wf.zeros(1, dtype=spelt).dtype == wf.float64
    for spelt in (int, "int", "int64", "i8"):
        assert wf.zeros(1, dtype=spelt).dtype == wf.int64
    assert wf.zeros(1, dtype=bool).dtype == wf.zeros(1, dtype="bool").dtype == wf.bool


def test_a_parameter_is_not_rounded_unasked():
    net = wf.nn.Linear(2, 3)
    held = net.weight
    for wide in (np.full((3, 2), 0.1), wf.full((3, 2), 0.1, dtype="float64")):
        with pytest.raises(wf.errors.DTypeError, match="Linear.weight is float32.*float64 would be rounded.*astype"):
            net.weight = wide
    net.weight = np.full((3, 2), 0.1).astype("float32")
    net.bias = np.arange(3)
    assert net.weight is held and net.bias.tolist() == [0.0, 1.0, 2.0]
    net.astype("float64")
    net.weight = np.full((3, 2), 0.1)
    assert exact(net.weight) == [0.1] * 6
    half = wf.nn.Linear(2, 3).astype("bfloat16")
    with pytest.raises(wf.errors.DTypeError, match="float32 would be rounded"):
        half.weight = np.ones((3, 2), np.float32)


# ---- integers

def test_means_of_integers_keep_their_digits():
    rng = np.random.default_rng()
    for dtype in sorted(d.name for d in INTEGERS):
        limits = wf.iinfo(dtype)
        if limits.bits < 8:
            a = wf.array(rng.integers(limits.min, limits.max, (3, 1000), endpoint=True)).astype(dtype)
            for axis in (None, 0, 1):
                want = a.numpy().astype(float).mean(axis=axis)
                np.testing.assert_allclose(a.mean(axis=axis).numpy(), want, rtol=1e-6, atol=1e-6)
            continue
        x = rng.integers(limits.min // 2, limits.max // 2, (3, 1000), dtype=dtype, endpoint=True)
        y = (x.astype(object) // 1000 + limits.max // 3).astype(dtype)  # all near one large number
        for z in (x, y):
            a = wf.array(z)
            for axis in (None, 0, 1):
                np.testing.assert_allclose(a.mean(axis=axis).numpy(), z.mean(axis=axis), rtol=1e-7)
                assert a.mean(axis=axis).dtype == a.var(axis=axis).dtype == wf.float32
                np.testing.assert_allclose(a.var(axis=axis).numpy(), z.var(axis=axis), rtol=1e-6)
                np.testing.assert_allclose(a.std(axis=axis).numpy(), z.std(axis=axis), rtol=1e-6)
    close = np.array([2**24 + 1, 2**24 + 1, 2**24 + 3])
    assert float(wf.array(close).var()) == pytest.approx(close.var(), rel=1e-6)
    assert float(wf.average(wf.array(close) - 2**24, weights=[1, 1, 2])) == 2.0
    assert wf.array(np.arange(10**6) % 7 == 3).mean() == np.float32((np.arange(10**6) % 7 == 3).mean())


def test_half_floats_are_averaged_in_float32():
    ones = wf.ones(70_000, dtype="float16")
    assert ones.mean() == 1 and wf.mean(ones) == 1 and ones.var() == 0 and ones.std() == 0 and wf.average(ones, weights=ones) == 1
    assert wf.linalg.norm(ones) == np.float16(70_000**0.5) and ones.mean().dtype == wf.float16
    images = wf.ones((1, 1, 256, 256), dtype="float16")
    assert wf.nn.GlobalAvgPool2d()(images).item() == 1 and wf.nn.AdaptiveAvgPool2d(1)(images).item() == 1
    assert wf.nn.avg_pool2d(images, 256).item() == 1


def test_uint64_with_signed_integers():
    big, less = np.array([2**63 + 5, 3, 0], np.uint64), np.array([-1, 3, 7], np.int64)
    a, b = wf.array(big), wf.array(less)
    assert (a + b).dtype == (a * b).dtype == (a / b).dtype == wf.concat([a, b]).dtype == wf.float64
    np.testing.assert_array_equal((a + b).numpy(), big + less)
    for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        np.testing.assert_array_equal(getattr(wf, name)(a, b).numpy(), getattr(np, name)(big, less), err_msg=name)
        np.testing.assert_array_equal(getattr(wf, name)(b, a).numpy(), getattr(np, name)(less, big), err_msg=name)
    with pytest.raises(wf.errors.DTypeError, match="integers are needed.*float64"):
        a & b


def test_comparisons_are_as_exact_as_numpys():
    n = 2**24
    a = wf.array([n, n + 1, n + 2])
    assert (a == float(n + 1)).tolist() == [False, True, False] and (a > n + 0.5).tolist() == [False, True, True]
    assert (a == wf.array([n + 1.0], dtype="float32")).tolist() == [True, False, False]  # float32 holds n, not n + 1
    assert wf.isclose(a, n + 1, rtol=0, atol=0.5).tolist() == [False, True, False] and not wf.array_equal(a, [float(n)] * 3)
    small = wf.array([0, 200, 255], dtype="uint8")
    for number, below in ((300, True), (-1, False), (2**70, True)):
        assert (small < number).tolist() == [below] * 3 and (small != number).all() and not (small == number).any()
        assert (number >= small).tolist() == [below] * 3 and wf.jit(lambda x, k=number: x < k)(small).tolist() == [below] * 3
    assert wf.clip(small, -5, 300).tolist() == [0, 200, 255] and small.clip(100, 1000).tolist() == [100, 200, 255]
    for low, high in ((300, None), (None, -1)):
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            small.clip(low, high)
    with pytest.raises(OverflowError, match="300.*uint8"):
        small + 300


def test_searches_compare_as_comparisons_do():
    edges = [0, 1, 127, 128, 255, 2**24, 2**24 + 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -1, -128, -(2**63)]
    dtypes = [np.dtype(d) for d in ("u1", "i1", "i4", "i8", "u8", "f4", "f8")]
    fits = {d: [e for e in edges if d.kind == "f" or np.iinfo(d).min <= e <= np.iinfo(d).max] for d in dtypes}
    held = {d: np.unique(np.array(fits[d], d)) for d in dtypes}
    for x, y in itertools.product(held.values(), repeat=2):
        a, b, say = wf.array(x), wf.array(y), f"{x.dtype} {y.dtype}"
        compared = (a[:, None] == b).numpy()
        np.testing.assert_array_equal(wf.isin(a, b).numpy(), compared.any(axis=1), err_msg=say)
        np.testing.assert_array_equal(wf.searchsorted(b, a).numpy(), (a[:, None] > b).numpy().sum(axis=1), err_msg=say)
        if {x.dtype, y.dtype} != {np.dtype("i8"), np.dtype("u8")}:  # there NumPy's go through float64
            np.testing.assert_array_equal(wf.isin(a, b).numpy(), np.isin(x, y), err_msg=say)
            np.testing.assert_array_equal(wf.searchsorted(b, a, side="right").numpy(), np.searchsorted(y, x, side="right"), say)
        assert wf.array_equal(a, b) == (len(x) == len(y) and bool(compared.diagonal().all()))
    for dtype in dtypes[:5]:
        a = wf.array(held[dtype])
        for number in (-(2**63) - 1, -129, 300, 2**64):
            within = number in held[dtype].tolist()
            assert wf.isin(a, number).any() == within and wf.isin(a, number, invert=True).all() != within
            assert wf.searchsorted(a, number) == sum(k < number for k in held[dtype].tolist())
            assert not wf.array_equal(a, number) and not wf.array_equal(a[0], number) and not wf.array_equal(number, a)
    x = wf.array([0.1, 0.3], dtype="float64")
    assert wf.isin(x, [0.1, 0.3]).all() and wf.searchsorted(x, [0.1, 0.3], side="right").tolist() == [1, 2]


def test_integers_that_only_two_dtypes_hold():
    for numbers in ([1, 2**63], [2**53 - 1, 2**63], [[-1], [2**63]]):
        a = wf.array(numbers)
        assert a.dtype == np.array(numbers).dtype == wf.float64 and a.tolist() == np.array(numbers).tolist()
    assert wf.array([]).dtype == wf.array([1, 0.5]).dtype == wf.array([True, 0.5]).dtype == wf.float32
    assert wf.array([2**63]).dtype == wf.uint64


REFUSED = {
    "element": lambda a, v: a.__setitem__(0, v), "all": lambda a, v: a.__setitem__(..., v),
    "list": lambda a, v: a.__setitem__(slice(None), [v, 1]),
    "fill": lambda a, v: a.fill(v), "mask": lambda a, v: a.__setitem__(a > 0, v),
    "numpy": lambda a, v: a.__setitem__(0, np.float64(v)),
    "made": lambda a, v: wf.array(v, dtype=a.dtype), "of a list": lambda a, v: wf.array([1.0, v], dtype=a.dtype),
    "full": lambda a, v: wf.full(3, v, dtype=a.dtype), "scatter": lambda a, v: wf.scatter_set(a, [0], v),
    "at": lambda a, v: np.add.at(a, [0], v),
    "along": lambda a, v: wf.put_along_axis(a, np.array([0]), v, axis=0),
}


@pytest.mark.parametrize("way", REFUSED)
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint32"])
def test_integers_hold_no_nan_and_no_infinity(way, dtype):
    for value, error in ((np.nan, ValueError), (np.inf, OverflowError), (-np.inf, OverflowError), (1e30, OverflowError)):
        a = wf.array([5, 6]).astype(dtype)
        with pytest.raises(error):
            REFUSED[way](a, value)
        assert a.tolist() == [5, 6]
    a = wf.array([5, 6]).astype(dtype)
    a[0] = 7.9
    assert a.tolist() == [7, 6] and wf.array([1.9, 2.1], dtype=dtype).tolist() == [1, 2] and wf.array(np.nan, dtype=bool)


def test_integers_have_no_negative_powers():
    a = wf.array([2, 3])
    known = wf.array([1, -1])
    for power in (
        lambda: a**-1, lambda: wf.pow(a, -1), lambda: np.power(a, -2), lambda: 2**known, lambda: a**known,
        lambda: a ** np.array([1, -1]),
    ):
        with pytest.raises(ValueError, match="negative integer powers are not allowed.*float32"):
            power()
    with pytest.raises(ValueError, match="negative integer powers"):
        a **= -1
    with pytest.raises(ValueError, match="negative integer powers"):
        wf.jit(lambda x: x**-3)(a)
    assert a.tolist() == [2, 3] and (a**2).tolist() == [4, 9] and (a**-1.0).dtype == wf.float32 and (a**0).tolist() == [1, 1]
    assert (a**2.0).dtype == wf.float32 and (a.astype(float) ** -1).tolist() == [0.5, np.float32(1) / 3]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_rounding_integers_to_tens(dtype):
    limits = np.iinfo(dtype)
    x = np.array([*range(120), limits.max - 9, limits.min + 9], dtype)
    for digits in (-1, -2):
        exact = np.array([round(int(v), digits) for v in x], object)
        fits = (exact >= limits.min) & (exact <= limits.max)
        for got in (wf.round(x, digits), wf.array(x).round(digits), np.round(wf.array(x), digits)):
            assert got.dtype == dtype and (got.numpy()[fits] == exact[fits]).all()
    assert wf.array(x).round(-19).any() == (dtype == "uint64") and wf.round(x, 2).tolist() == x.tolist()


def test_numbers_of_the_last_two_axes():
    x = np.arange(24).reshape(2, 3, 4)
    a = wf.array(x)
    np.testing.assert_array_equal(wf.linalg.diagonal(a, offset=1).numpy(), np.linalg.diagonal(x, offset=1))
    np.testing.assert_array_equal(wf.linalg.trace(a).numpy(), np.linalg.trace(x))
    np.testing.assert_array_equal(np.linalg.trace(a, dtype="int32").numpy(), np.linalg.trace(x))
    np.testing.assert_array_equal(wf.diagonal(a).numpy(), x.diagonal())
    np.testing.assert_array_equal(a.trace(1, 1, 2).numpy(), x.trace(1, 1, 2))


def test_products_of_floats_as_numpys():
    """In order: sums of parts may meet in any, but a part that is 0 beside one that is infinite makes NaN of a number."""
    rng = np.random.default_rng()
    for shape, axis in (((40,), None), ((3, 70), 1), ((70, 3), 0), ((2, 33, 8), (1, 2)), ((5000,), 0)):
        x = rng.choice([1e30, 1e-30, 1.5, 0.7], shape).astype(np.float32)
        x.flat[rng.integers(x.size)] = np.inf
        axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        free = tuple(n for a, n in enumerate(shape) if a not in axes)
        flat = np.moveaxis(x, axes, range(-len(axes), 0)).reshape((*free, -1))
        with np.errstate(all="ignore"):
            want = np.multiply.accumulate(flat, axis=-1)[..., -1]
        for a in (wf.array(x), wf.array(x) * 1):
            np.testing.assert_array_equal(a.prod(axis=axis).numpy(), want)


def test_bool_products_of_many():
    """A sum of 256 ones is 0 in 8 bits, and no truth is lost for that."""
    a = wf.ones((2, 256), dtype=bool)
    both = wf.matmul(a, a.T), wf.dot(a, a.T), wf.inner(a, a), np.matmul(a, a.T), wf.vecdot(a, a), wf.tensordot(a, a, ((1,), (1,)))
    for found in (a @ a.T, *both):
        assert found.dtype == wf.bool and found.all()


# ---- a float argument of a traced function is exactly the float

def plain(x):
    """What two calls must have in common: kinds, dtypes, shapes, bits."""
    if isinstance(x, tuple | list):
        return [plain(v) for v in x]
    if isinstance(x, wf.Array):
        return type(x).__name__, x.dtype, x.shape, x.numpy().tobytes()
    return type(x).__name__, x


def put(a, index, value):
    a = a.copy()
    a[index] = value
    return a


def added(a, index, value):
    a = a.copy()
    np.add.at(a, index, value)
    return a


KEY = wf.random.key(3)
EXPRESSIONS = {  # of the float s, the list [s, t], an array z of two and a square of them
    **{f"made {d}": lambda s, v, z, m, d=d: (
        wf.array(s, dtype=d), wf.asarray(s, dtype=d), wf.array(v, dtype=d), wf.array([v], dtype=d),
    ) for d in ("float64", "float32", "float16", "bfloat16", "int32", "int64", "bool")},
    "made like": lambda s, v, z, m: (wf.array(s, dtype=z.dtype), wf.full((2,), s, dtype=z.dtype), wf.full_like(z, s)),
    "made alone": lambda s, v, z, m: (wf.array(s), wf.array(v), wf.full((2,), s), wf.stack([v, v]), wf.asarray([s])),
    "operators": lambda s, v, z, m: (
        z + s, s - z, z * s, s / z, z**s, s**z, z // s, s % z, z < s, s >= z, z == s, -s * z, abs(s) * z,
    ),
    "with lists": lambda s, v, z, m: (z + v, v - z, z * v, z / v, z**v, z < v, [s, 1] * z, z + (s, True), z + [v, v]),
    "functions": lambda s, v, z, m: (
        wf.add(z, v), wf.maximum(s, z), wf.minimum(z, v), wf.hypot(z, s), wf.atan2(s, z), wf.copysign(z, s),
    ),
    "numpy": lambda s, v, z, m: (np.add(z, s), np.multiply(v, z), np.maximum(z, v), np.hypot(s, z)),
    "numbers": lambda s, v, z, m: (
        (s + 1) * z, (2 - s) / 3 * z, s * s * z, -s * z, (s + 1e8) * z, s // 0.3 * z, s % 0.3 * z, +s * z,
    ),
    "where": lambda s, v, z, m: (wf.where(z > 0, s, z), wf.where(z > 0, z, v), wf.clip(z, s, None), z.clip(None, v)),
    "joined": lambda s, v, z, m: (
        wf.concatenate([z, [s]]), wf.concatenate([v, z]), wf.stack([z, v]), wf.vstack([z, v]), wf.hstack([v, z]),
        wf.array([z, v]), wf.array([z[0], s]), wf.pad(z, 1, constant_values=s),
    ),
    "products": lambda s, v, z, m: (
        z @ v, v @ m, m @ v, wf.dot(m, v), wf.outer(z, v), wf.inner(z, v), wf.einsum("ij,j", m, v), np.dot(m, v),
    ),
    "written": lambda s, v, z, m: (
        put(z, 0, s), put(z, slice(None), v), put(z, ..., v), put(z, [1], [s]), put(z, [0, 1], v), put(z, z > 0, s), put(m, 1, v),
        put(m, (slice(None), [1, 0]), [v, v]), put(z, slice(None), s),
    ),
    "scattered": lambda s, v, z, m: (
        added(z, [0, 0], v), added(z, [1], s), wf.scatter_add(z, [0, 1], v), wf.scatter_set(z, [1], [s]),
    ),
    "in place": lambda s, v, z, m: (z.copy().__iadd__(s), z.copy().__imul__(v), z.copy().__itruediv__(s)),
    "random": lambda s, v, z, m: (
        wf.random.normal(s, s, size=3, key=KEY, dtype=z.dtype), wf.random.uniform(-s, s, size=3, key=KEY, dtype=z.dtype),
    ),
    "averages": lambda s, v, z, m: (
        wf.average(z, weights=v), wf.average(m, axis=0, weights=v), wf.linspace(0, 1, 3, dtype=z.dtype) * s,
    ),
    "returned": lambda s, v, z, m: (s, s + 1e8, -s, s * s, [s, [s / 3]], v, z),
    "ufuncs": lambda s, v, z, m: (np.sqrt(s) * z, np.add(s, 1) * z, np.multiply(s, s) * z, np.abs(s) * z, np.negative(s) * z),
}
CLOSE = {  # functions that NumPy computes lazily and weft in jit: equal but for the last digits of float64
    "exp": lambda s, v, z: (np.exp(s) * z, np.log(s) + z, np.tanh(s) - z, np.sin(s) * z, np.power(s, 0.3) * z),
    "rounded": lambda s, v, z: (round(s, 2) * z, round(s, 1) + z, z - round(s * 100, -1)),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_float_argument_is_exactly_the_float(name, dtype):
    rng = np.random.default_rng()
    f = EXPRESSIONS[name]
    z, m = (wf.array(rng.uniform(0.5, 2, shape), dtype=dtype) for shape in ((2,), (2, 2)))
    jitted = wf.jit(lambda s, v: f(s, v, z, m))
    for _ in range(3):
        s, t = rng.uniform(0.1, 2, 2).tolist()
        assert plain(jitted(s, [s, t])) == plain(f(s, [s, t], z, m)), (s, t)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", CLOSE)
def test_functions_of_a_float_argument_are_computed_in_float64(name, dtype):
    rng = np.random.default_rng()
    z = wf.array(rng.uniform(0.5, 2, 2), dtype=dtype)
    s, t = rng.uniform(0.1, 2, 2).tolist()
    lazily, jitted = (inside(lambda s, v: CLOSE[name](s, v, z))(s, [s, t]) for inside in (lambda f: f, wf.jit))
    for a, b in zip(lazily, jitted, strict=True):
        assert a.dtype == b.dtype
        bound = 4 * float(wf.finfo(a.dtype).eps)
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=bound, atol=bound)


def test_a_float_that_is_returned_may_be_given_again():
    """Without a new trace, and without making float64 of what it meets."""
    step = wf.jit(lambda s, x: (s * 0.9, x * s))
    s, x, want = 0.1, wf.ones(2), 0.1
    for _ in range(4):
        s, x = step(s, x)
        want = want * 0.9
        assert type(s) is float and s == want and x.dtype == wf.float32
    assert step.traces == 1
    assert type(wf.jit(lambda s: s + 1)(1e8 + 1)) is float and wf.jit(lambda s: s + 1)(1e8 + 1) == 1e8 + 2
    assert wf.jit(lambda s: wf.jit(lambda r: r / 3)(s) * 3)(0.1) == 0.1 / 3 * 3


def test_integers_get_a_float_argument_whole():
    i = wf.array([1, 2])
    large = 2.0**53 - 1

    @wf.jit
    def integers(s):
        return put(i, 0, s), put(i, slice(None), [s, 1]), wf.array(s, dtype="int64"), wf.full((1,), s, dtype="int64")

    got = integers(large)
    assert [a.tolist() for a in got] == [[int(large), 2], [int(large), 1], int(large), [int(large)]]
