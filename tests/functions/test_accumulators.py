"""Formats of a product's operands and sums against loops that are written out, with the rounding of ml_dtypes."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from weft.dtypes.api import fixed_dtype, float_dtype
from weft.dtypes.parse import parse_dtype
from weft.dtypes.rounding import round_float32
from weft.errors import DTypeError

NAMED = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float6_e3m2fn", "float4_e2m1fn")
MADE = (float_dtype(5, 10, subnormals=False), float_dtype(6, 9), float_dtype(8, 10), fixed_dtype(16, 8))
F4 = np.float32


def rounded(x: np.ndarray, form: Any) -> np.ndarray:
    if not isinstance(form, str):
        return round_float32(x, parse_dtype(form))
    with np.errstate(all="ignore"):
        return x.astype(form if form == "float16" else getattr(ml_dtypes, form)).astype(F4)


def multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (a.astype(np.longdouble) * b.astype(np.longdouble) + c).astype(F4)


def product(a: np.ndarray, b: np.ndarray, form: Any, every: int | None = None) -> np.ndarray:
    """Return a @ b, (..., m, k) by (..., k, n), one product after the other."""
    total = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), F4)
    part = np.zeros_like(total)
    for k in range(a.shape[-1]):
        x, y = a[..., :, k, None], b[..., k, None, :]
        if every in (None, 1):
            total = rounded(multiply_add(x, y, total), form)
            continue
        part = multiply_add(x, y, part)
        if (k + 1) % every == 0 or k + 1 == a.shape[-1]:
            with np.errstate(all="ignore"):
                total = rounded(total + part, form)
            part = np.zeros_like(total)
    return total


def draw(rng: np.random.Generator, shape: tuple[int, ...], form: Any) -> np.ndarray:
    """Return numbers whose sums use the range of a format, and now and then leave it."""
    scale = 2.0 ** rng.integers(-4, 3) * min(1.0, parse_dtype(form).largest / 16) if form is not None else 1.0
    return (rng.normal(size=shape) * scale).astype(F4)


def laid_out(rng: np.random.Generator, x: np.ndarray) -> wf.Array:
    """Return an array with these numbers, as it is, as the transpose of another one, reversed, or as a part of one."""
    way = int(rng.integers(4))
    if way == 1:
        return wf.array(np.ascontiguousarray(x.swapaxes(-1, -2))).swapaxes(-1, -2)
    if way == 2:
        return wf.flip(wf.array(np.ascontiguousarray(x[..., ::-1])), axis=-1)
    return wf.pad(wf.array(x), [(0, 0)] * (x.ndim - 1) + [(1, 2)])[..., 1:-2] if way == 3 else wf.array(x)


def same(got: Any, want: np.ndarray) -> bool:
    got = np.asarray(got)
    return got.dtype == want.dtype and np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize("form", [*NAMED, *MADE], ids=str)
def test_products_are_written_loops(form: Any, rng: np.random.Generator) -> None:
    for _ in range(4):
        m, n = (int(rng.choice([1, 3, 7, 17, 33])) for _ in range(2))
        k, every = int(rng.choice([1, 2, 9, 31, 64, 150])), rng.choice([None, 1, 2, 5, 32, 200])
        every = None if every is None else int(every)
        batch = (3,) if rng.random() < 0.3 else ()
        a, b = draw(rng, (*batch, m, k), form), draw(rng, (*batch, k, n), form)
        operands = rng.choice([None, "bfloat16", "float8_e4m3fn"])
        x, y = (v if operands is None else rounded(v, str(operands)) for v in (a, b))
        f = wf.jit(lambda x, y: wf.matmul(x, y, operands=operands, accumulate=form, every=every))  # noqa: B023
        got = f(laid_out(rng, a), laid_out(rng, b))
        assert same(got, product(x, y, form, every)), (m, n, k, every, batch, operands)


def test_operands_alone(rng: np.random.Generator) -> None:
    for m, k, n in ((1, 40, 30), (30, 40, 1), (20, 70, 33), (1, 64, 1)):
        a, b = draw(rng, (m, k), None), draw(rng, (k, n), None)
        got = wf.matmul(wf.array(a), wf.array(b), operands="float8_e5m2")
        plain = wf.array(rounded(a, "float8_e5m2")) @ wf.array(rounded(b, "float8_e5m2"))
        assert same(got, plain.numpy())
        exact = wf.matmul(wf.array(a.astype(np.float64)), wf.array(b.astype(np.float64)), operands="float16")
        assert np.allclose(exact, a.astype(np.float16).astype(np.float64) @ b.astype(np.float16).astype(np.float64), rtol=1e-13)


def test_narrow_operands_and_results(rng: np.random.Generator) -> None:
    a, b = draw(rng, (5, 20), None).astype(ml_dtypes.bfloat16), draw(rng, (20, 6), None).astype(ml_dtypes.bfloat16)
    want = product(a.astype(F4), b.astype(F4), "float16", 3)
    got = wf.matmul(wf.array(a), wf.array(b), accumulate="float16", every=3)
    assert same(got, want.astype(ml_dtypes.bfloat16))
    wide = wf.matmul(wf.array(a), wf.array(b), dtype="float32", accumulate="float16", every=3)
    assert same(wide, want)


def test_one_kernel_with_an_epilogue_and_a_tally() -> None:
    a, b = wf.ones((40, 50)), wf.ones((50, 60))
    blocks = dict(operands="bfloat16", accumulate="bfloat16", every=8)
    for formats in (dict(operands="float8_e4m3fn"), dict(accumulate="float16"), blocks):
        def f(x: Any, y: Any, formats: Any = formats) -> Any:
            z = wf.maximum(wf.matmul(x, y, **formats) * 0.5 + 1, 0)
            return z.astype("bfloat16"), wf.abs(z).max()

        assert "1 kernel" in str(wf.explain(wf.jit(f), a, b))
        assert float(wf.jit(f)(a, b)[1]) == 26


@pytest.mark.parametrize("every", [None, 4])
def test_derivatives_add_up_alike(every: int | None, rng: np.random.Generator) -> None:
    a, b, g = draw(rng, (6, 20), None), draw(rng, (20, 9), None), draw(rng, (6, 9), None)

    def loss(a: Any, b: Any) -> Any:
        return (wf.matmul(a, b, operands="float8_e4m3fn", accumulate="float16", every=every) * wf.array(g)).sum()

    da, db = wf.grad(loss, argnums=(0, 1))(wf.array(a), wf.array(b))
    x, y = (rounded(v, "float8_e4m3fn") for v in (a, b))
    assert same(da, product(g, y.T, "float16", every)) and same(db, product(x.T, g, "float16", every))
    inner = wf.grad(lambda x: wf.matmul(x, wf.array(a[0]), accumulate="float8_e5m2") * 1.7)(wf.array(a[1]))
    assert same(inner, rounded(F4(1.7) * a[0], "float8_e5m2"))  # a sum of one product


def test_vmap_scan_and_jvp(rng: np.random.Generator) -> None:
    a, b = draw(rng, (4, 3, 7), None), draw(rng, (4, 7, 5), None)

    def f(x: Any, y: Any) -> Any:
        return wf.matmul(x, y, accumulate="float16", every=2)

    assert same(wf.vmap(f)(wf.array(a), wf.array(b)), product(a, b, "float16", 2))
    assert same(wf.vmap(f, in_axes=(0, None))(wf.array(a), wf.array(b[0])), product(a, b[:1], "float16", 2))
    assert same(wf.vmap(f, in_axes=(None, 0))(wf.array(a[0]), wf.array(b)), product(a[:1], b, "float16", 2))
    w, x0 = draw(rng, (5, 5), None) / 2, draw(rng, (2, 5), None)
    state, xs = wf.scan(lambda s, _: ((t := wf.matmul(s, wf.array(w), accumulate="bfloat16")), t), wf.array(x0), None, length=3)
    want = x0
    for step in range(3):
        want = product(want, w, "bfloat16")
        assert same(xs[step], want)
    assert same(state, want)

    def total(w: Any) -> Any:
        out, _ = wf.scan(lambda s, _: (wf.matmul(s, w, accumulate="float16"), None), wf.array(x0), None, length=2)
        return out.sum()

    first = product(x0, w, "float16")
    g = np.ones((2, 5), F4)
    want = product(first.T, g, "float16") + product(x0.T, product(g, w.T, "float16"), "float16")
    assert same(wf.grad(total)(wf.array(w)), want)


def test_not_finite_numbers_and_negative_zeros() -> None:
    odd = np.array([0xFFFFFFFF, 0x7FFFFFFF, 0x7F800001, 0x7F800000, 0xFF800000, 0x3F800000], np.uint32).view(F4)
    a, b = np.tile(odd[:, None], (1, 40)), np.ones((40, 20), F4)
    a[:, 1:] = 1
    for form, every in itertools.product(("float16", "bfloat16", "float8_e5m2"), (None, 7)):
        assert same(wf.matmul(wf.array(a), wf.array(b), accumulate=form, every=every), product(a, b, form, every))
    x = np.array([[-1e-30, 0.0]], F4)
    got = wf.matmul(wf.array(x), wf.array(np.array([[1e-30], [-1.0]], F4)), accumulate="float16", every=5).numpy()
    assert got[0, 0] == 0 and not np.signbit(got[0, 0])


@pytest.mark.parametrize("dtype", ["bool", "int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16"])
def test_sums_of_small_integers(dtype: str, rng: np.random.Generator) -> None:
    """Sums beyond int32 wrap."""
    largest = {"bool": 1}.get(dtype) or 2 ** (int(dtype.strip("uint")) - (dtype[0] == "i")) - 1
    least = -largest - 1 if dtype[0] == "i" else 0
    m, k, n = (int(n) for n in rng.integers(1, 40, size=3))
    a, b = rng.integers(least, largest + 1, size=(m, k)), rng.integers(least, largest + 1, size=(k, n))
    a[0], b[:, 0] = largest, largest
    x, y = wf.array(a).astype(dtype), wf.array(b).astype(dtype)
    want = (a @ b).astype(np.int32)
    for multiply in (wf.matmul, wf.jit(wf.matmul, static_argnames=("accumulate",))):
        got = multiply(x, y, accumulate="int32")
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got.numpy(), want)


def test_small_integers_of_two_dtypes(rng: np.random.Generator) -> None:
    """uint16 with a signed dtype is int32 already."""
    names = ("bool", "int4", "int8", "uint8", "int16", "uint16")
    for left, right in itertools.product(names, names):
        a, b = (wf.array(rng.integers(0, 2 if n == "bool" else 7, (3, 5))).astype(n) for n in (left, right))
        got = wf.matmul(a, b.T, accumulate="int32")
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got.numpy(), a.astype("int64").numpy() @ b.astype("int64").numpy().T)
        x, w = a.reshape((1, 3, 5)), b.reshape((1, 3, 5))
        np.testing.assert_array_equal(
            wf.nn.conv1d(x, w, accumulate="int32").numpy(), wf.nn.conv1d(x.astype("float32"), w.astype("float32")).numpy())
    with pytest.raises(DTypeError, match="whose common dtype int32 holds, not for int64"):
        wf.matmul(wf.ones((2, 2), dtype="uint32"), wf.ones((2, 2), dtype="int8"), accumulate="int32")


def test_operands_do_not_saturate() -> None:
    for name, want in (("float16", np.inf), ("float8_e4m3fn", np.nan), ("float4_e2m1fn", 6.0)):
        got = wf.matmul(wf.array([[1e6]]), wf.ones((1, 1)), operands=name)
        np.testing.assert_array_equal(got.numpy(), [[want]])
        np.testing.assert_array_equal(got.numpy(), wf.array([[1e6]]).astype(name).astype("float32").numpy())


def test_sums_of_bytes() -> None:
    a, b = wf.full((3, 700), -128, dtype="int8"), wf.full((700, 4), 255, dtype="uint8")
    got = wf.matmul(a, b, accumulate=wf.int32)
    assert got.dtype == np.int32 and (got == -128 * 255 * 700).all()
    assert "1 kernel" in str(wf.explain(wf.jit(lambda a, b: wf.matmul(a, b, accumulate="int32")), a, b))


def convolution(
    x: np.ndarray, w: np.ndarray, form: Any, every: int | None, stride: int, padding: int, dilation: int,
) -> np.ndarray:
    """Return a convolution of (N, C, H, W) as a product of its windows, in the order of channels and taps."""
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    n, c, kh, kw = x.shape[0], *w.shape[1:]
    oh, ow = ((e - dilation * (t - 1) - 1) // stride + 1 for e, t in ((x.shape[2], kh), (x.shape[3], kw)))
    windows = np.empty((n, oh, ow, c, kh, kw), F4)
    for i, j in itertools.product(range(oh), range(ow)):
        p, q = i * stride, j * stride
        windows[:, i, j] = x[:, :, p : p + dilation * (kh - 1) + 1 : dilation, q : q + dilation * (kw - 1) + 1 : dilation]
    return product(windows.reshape(n, oh, ow, -1), w.reshape(len(w), -1).T, form, every).transpose(0, 3, 1, 2)


def test_convolutions_are_written_loops(rng: np.random.Generator) -> None:
    for _ in range(8):
        form, every = str(rng.choice(NAMED[:4])), [None, 2, 5, 9][int(rng.integers(4))]
        kernel, stride, padding, dilation = (int(rng.choice(c)) for c in ((1, 2, 3), (1, 2), (0, 1), (1, 2)))
        x, w = draw(rng, (2, 3, 7, 9), form), draw(rng, (5, 3, kernel, kernel), form)
        want = convolution(x, w, form, every, stride, padding, dilation)
        options = dict(stride=stride, padding=padding, dilation=dilation, accumulate=form, every=every)
        assert same(wf.nn.conv2d(wf.array(x), wf.array(w), **options), want), options
        said = str(wf.explain(wf.jit(lambda x, w: wf.nn.conv2d(x, w, **options)), wf.array(x), wf.array(w)))  # noqa: B023
        assert "2 kernels" in said if kernel > 1 or padding else "1 kernel" in said


def test_gradients_of_convolutions(rng: np.random.Generator) -> None:
    """Those of a strided convolution leave out the zeros between its gradient's elements."""
    x, w = draw(rng, (2, 2, 6), None), draw(rng, (3, 2, 3), None)
    g = draw(rng, (2, 3, 2), None)

    def loss(x: Any, w: Any) -> Any:
        return (wf.nn.conv1d(x, w, stride=2, operands="bfloat16", accumulate="float16", every=2) * wf.array(g)).sum()

    dx, dw = wf.grad(loss, argnums=(0, 1))(wf.array(x), wf.array(w))
    a, b = rounded(x, "bfloat16"), rounded(w, "bfloat16")
    want_x, want_w = np.zeros_like(x), np.zeros_like(w)
    for image, channel, at in np.ndindex(*x.shape):
        terms = [
            (g[image, o, p], b[o, channel, at - 2 * p]) for o in range(3) for p in (0, 1) if 0 <= at - 2 * p < 3
        ]
        ours = sorted(terms, key=lambda t: 0)
        left, right = (np.array([t[side] for t in ours], F4)[None] for side in (0, 1))
        want_x[image, channel, at] = product(left, right.T, "float16", 2)[0, 0] if ours else 0
    for o, channel, tap in np.ndindex(*w.shape):
        left = np.array([[a[i, channel, 2 * p + tap] for i in range(2) for p in range(2)]], F4)
        right = np.array([[g[i, o, p] for i in range(2) for p in range(2)]], F4)
        want_w[o, channel, tap] = product(left, right.T, "float16", 2)[0, 0]
    assert same(dw, want_w)
    assert np.allclose(dx, want_x, rtol=2e-3, atol=2e-3)
    free = wf.grad(lambda x: (wf.nn.conv1d(x, wf.array(b), stride=2) * wf.array(g)).sum())(wf.array(x))
    assert np.allclose(dx, free, rtol=5e-3, atol=5e-3)


def test_layers_add_up_in_a_precision(rng: np.random.Generator) -> None:
    x, w = draw(rng, (4, 9), None), draw(rng, (5, 9), None)
    with wf.precision(weights="float8_e4m3fn", accumulate="float16", every=3):
        got = wf.nn.linear(wf.array(x), wf.array(w))
    assert same(got, product(x, rounded(w, "float8_e4m3fn").T, "float16", 3))
    with wf.precision(accumulate="float16"):
        twice = wf.nn.conv1d(wf.array(x[None]), wf.array(w[:, :4, None]))
        with pytest.raises(DTypeError, match="precision: numbers of float64 cannot be added up in float16"):
            wf.nn.linear(wf.array(x.astype(np.float64)), wf.array(w.astype(np.float64)))
    assert same(twice[0], product(w[:, :4], x, "float16"))
    layers = {"1": None, "*": dict(accumulate="float8_e5m2", every=2)}
    net = wf.nn.Sequential(wf.nn.Linear(9, 6, bias=False), wf.nn.Linear(6, 2, bias=False))
    with wf.precision(layers):
        got = net(wf.array(x))
    hidden = product(x, net[0].weight.numpy().T, "float8_e5m2", 2)
    assert same(got, (wf.array(hidden) @ net[1].weight.T).numpy())


def test_fit_in_a_precision() -> None:
    x = wf.random.normal(size=(64, 8))
    y = (x.sum(axis=1) > 0).astype("int32")
    net = wf.nn.Sequential(wf.nn.Linear(8, 16), wf.nn.ReLU(), wf.nn.Linear(16, 2))
    history = wf.train.fit(
        net, x, y, epochs=3, batch_size=16, show=False, precision=dict(accumulate="float16", every=4),
    )
    assert np.isfinite(history["loss"]).all()


@pytest.mark.parametrize("arguments,error,message", [
    (dict(accumulate="float64"), DTypeError, "accumulate=float64 is not narrower than float32"),
    (dict(accumulate="int8"), DTypeError, "accumulate: int8 cannot represent fractions"),
    (dict(accumulate="int32"), DTypeError, "is for bools and integers whose common dtype int32 holds, not for float32"),
    (dict(accumulate="float8_e8m0fnu"), DTypeError, "no negative numbers"),
    (dict(operands="int8"), DTypeError, "operands: int8 cannot represent fractions"),
    (dict(operands="float64"), DTypeError, "operands of float32 cannot represent the numbers of float64"),
    (dict(every=4), ValueError, "every=4 needs the format of the sums: accumulate="),
    (dict(accumulate="float16", every=0), ValueError, "every=0 must be at least 1"),
    (dict(accumulate="float16", every=1.5), DTypeError, "every must be an integer"),
    (dict(accumulate="float16", every=True), DTypeError, "every must be an integer, not True"),
])
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match="matmul: .*" + message if "every must" not in message else message):
        wf.matmul(wf.ones((2, 3)), wf.ones((3, 2)), **arguments)
    with pytest.raises(error, match=message):
        wf.nn.conv2d(wf.ones((1, 2, 3, 3)), wf.ones((1, 2, 2, 2)), **arguments)


def test_operands_that_cannot_be_rounded() -> None:
    wide = wf.ones((2, 2), dtype="float64")
    with pytest.raises(DTypeError, match="numbers of float64 cannot be added up in float16: .* Cast the operands"):
        wf.matmul(wide, wide, accumulate="float16")
    with pytest.raises(DTypeError, match="numbers of int32 cannot be added up in float16"):
        wf.matmul(wide.astype("int32"), wide.astype("int32"), accumulate="float16")
    with pytest.raises(DTypeError, match="operands of bfloat16 cannot represent the numbers of float16"):
        wf.matmul(wide.astype("bfloat16"), wide.astype("bfloat16"), operands="float16")
    with pytest.raises(ValueError, match="every=2 is for sums that are rounded; sums in int32 wrap"):
        wf.matmul(wide.astype("int8"), wide.astype("int8"), accumulate="int32", every=2)
