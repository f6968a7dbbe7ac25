"""Functions of any size: the bits of the kernels that are compiled for one, and no memory but what was asked for."""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from harness import Compiled, compile_ir, isas
from test_gemm import Compiled as CompiledProduct
from test_gemm import product as product_kernel

import weft as wf
from tests.kernel.samples.table import draw_samples
from weft.devices import get_device
from weft.devices.base import EagerDevice
from weft.devices.cpu.dynamic_kernels import SCRATCH_BYTES_PER_STEP
from weft.devices.cpu.dynamic_kernels.elementwise import elementwise_text
from weft.devices.cpu.dynamic_kernels.product import product_text
from weft.devices.cpu.dynamic_kernels.sums import sum_text
from weft.devices.cpu.native.dynamic_calls import _elementwise_kernel as each_kernel
from weft.devices.cpu.nest.kernel import generate_loops
from weft.dtypes.formats import FORMATS, FROM_NUMPY
from weft.dtypes.rounding import convert_array
from weft.graph.primitives import TABLE
from weft.kernel.summation import product_order, reduce_last, running, shape_reduction_order, spans
from weft.kernel.target import CPU

DEVICE: Any = get_device()
BFLOAT16, FLOAT16, FLOAT32, FLOAT64 = (FORMATS[name].numpy for name in ("bfloat16", "float16", "float32", "float64"))
FLOAT8 = tuple(f.numpy for f in FORMATS.values() if f.alone)
CANARY = 0xA5


def wild(rng, shape: tuple[int, ...], dtype: np.dtype = FLOAT32) -> np.ndarray:
    """Numbers of very different sizes, some zeros of both signs, a few that are denormal."""
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape)
    x = np.where(rng.random(shape) < 0.05, rng.choice([0.0, -0.0, 1e-40], shape), x)
    return np.asarray(convert_array(np.asarray(x), dtype))


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits, but that a NaN is a NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind in "iub":
        assert got.tobytes() == want.tobytes()
        return
    if want.dtype.kind == "c":
        same(got.real, want.real)
        same(got.imag, want.imag)
        return
    nan = np.isnan(want.astype(np.float64))
    assert (np.isnan(got.astype(np.float64)) == nan).all()
    integer = f"u{want.dtype.itemsize}"
    differ = np.flatnonzero((np.ascontiguousarray(got).view(integer) != np.ascontiguousarray(want).view(integer)) & ~nan)
    assert not differ.size, f"{differ.size} of {want.size} differ, the first at {differ[0]}"


class Guarded:
    """Memory for some elements with bytes before and behind that must stay; ``off``: elements it begins after a cache line."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, off: int = 0) -> None:
        self.nbytes = math.prod(shape) * dtype.itemsize
        self.raw = np.full(self.nbytes + 512, CANARY, np.uint8)
        self.start = 128 + -self.raw.ctypes.data % 64 + off * dtype.itemsize
        self.array = self.raw[self.start : self.start + self.nbytes].view(dtype).reshape(shape)
        self.address = self.raw.ctypes.data + self.start

    def checked(self) -> np.ndarray:
        assert (self.raw[: self.start] == CANARY).all() and (self.raw[self.start + self.nbytes :] == CANARY).all()
        return self.array


def strides(x: np.ndarray) -> tuple[int, ...]:
    return tuple(s // x.itemsize for s in x.strides)


def laid_out(x: np.ndarray, way: str) -> np.ndarray:
    """The same numbers elsewhere: along the other axis, apart, backwards."""
    m, n = x.shape
    if way == "turned":
        return np.asfortranarray(x)
    if way == "apart":
        wide = np.full((2 * m + 1, 3 * n + 2), np.nan, x.dtype)
        wide[1::2, 1 : 1 + 3 * n : 3] = x
        return wide[1::2, 1 : 1 + 3 * n : 3]
    if way == "part":
        wide = np.full((m, n + 5), np.nan, x.dtype)
        wide[:, 2 : 2 + n] = x
        return wide[:, 2 : 2 + n]
    return np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1] if way == "backwards" else x


@cache
def compiled_product() -> Any:
    return wf.jit(lambda a, b: a @ b)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (m, k), n = a.shape, b.shape[1]
    out = Guarded((m, n), a.dtype)
    prepared = DEVICE.dynamic_kernels.product(FROM_NUMPY[a.dtype], m, n, k, *strides(a), *strides(b))
    prepared(a.ctypes.data, b.ctypes.data, out.address)
    return out.checked()


def test_the_device_has_it() -> None:
    assert isinstance(DEVICE, EagerDevice)


WAYS = [
    ("rows", "rows"), ("turned", "turned"), ("apart", "backwards"), ("part", "part"), ("backwards", "apart"), ("rows", "turned"),
]
SHAPES = [
    (1, 1, 1), (2, 2, 1), (1, 1, 31), (1, 1, 33), (1, 1, 4095), (1, 1, 4097), (1, 1, 13_001), (1, 2, 3), (1, 17, 4), (3, 1, 5),
    (1, 33, 127), (9, 1, 513), (1, 70, 511), (17, 1, 1700), (2, 2, 127), (2, 3, 129), (3, 2, 80), (5, 31, 81), (7, 33, 200),
    (4, 15, 201), (13, 64, 401), (64, 5, 128), (40, 2, 33), (33, 47, 385), (6, 9, 9000), (3, 16, 640), (130, 70, 131),
    (2, 500, 32), (100, 1, 65),
]


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_products(dtype: np.dtype, rng) -> None:
    for m, n, k in [*SHAPES, *(tuple(rng.integers(1, top, 3)) for top in (6, 40, 40, 150))]:
        a, b = wild(rng, (m, k), dtype), wild(rng, (k, n), dtype)
        want = compiled_product()(wf.array(a), wf.array(b)).numpy()
        for way_a, way_b in WAYS:
            same(product(laid_out(a, way_a), laid_out(b, way_b)), want)


def test_products_of_what_is_not_finite(rng) -> None:
    for m, n, k in [(1, 1, 40), (1, 20, 9), (20, 1, 9), (9, 18, 70), (33, 3, 200)]:
        a, b = wild(rng, (m, k)), wild(rng, (k, n))
        a[rng.integers(m), rng.integers(k)], b[rng.integers(k), rng.integers(n)] = np.inf, np.nan
        b[rng.integers(k), rng.integers(n)] = -np.inf
        want = compiled_product()(wf.array(a), wf.array(b)).numpy()
        same(product(a, b), want)
        same(product(a, laid_out(b, "turned")), want)
    tiny = np.full((3, 5), -1e-30, np.float32)  # a product that underflows is a negative zero, which later zeros undo
    for k in (1, 2, 3, 5):
        for n in (1, 4):
            a, b = tiny[:, :k], -tiny[:1, :1] * np.ones((k, n), np.float32)
            want = compiled_product()(wf.array(a), wf.array(b)).numpy()
            same(product(a, b), want)
            assert np.signbit(want).all() == (n > 1 or k in (1, 5))  # chains that take nothing are 0


def test_products_that_are_empty_or_repeat(rng) -> None:
    for m, n, k in [(3, 4, 0), (1, 4, 0), (1, 1, 0), (0, 4, 3), (4, 0, 3), (1, 0, 2)]:
        same(product(wild(rng, (m, k)), wild(rng, (k, n))), np.zeros((m, n), np.float32))
    for m, n, k in [(5, 6, 7), (1, 20, 33), (20, 1, 33), (1, 1, 50)]:
        a, b = (np.broadcast_to(wild(rng, shape), full) for shape, full in (((m, 1), (m, k)), ((1, n), (k, n))))
        same(product(a, b), compiled_product()(wf.array(a), wf.array(b)).numpy())


@pytest.mark.parametrize("m,n,k", [(3, 5, 40), (1, 9, 20), (1, 1, 70), (12, 2, 130)])
def test_batches(m: int, n: int, k: int, rng) -> None:
    a, b = wild(rng, (4, m, k)), wild(rng, (4, k, n))
    for shared in (False, True):
        right = b[:1] if shared else b
        out = Guarded((4, m, n), FLOAT32)
        prepared = DEVICE.dynamic_kernels.product(FROM_NUMPY[FLOAT32], m, n, k, k, 1, n, 1, 4, m * k, 0 if shared else k * n)
        prepared(a.ctypes.data, right.ctypes.data, out.address)
        batched = wf.jit(lambda x, y: wf.matmul(x, y))(wf.array(a), wf.array(np.broadcast_to(right, b.shape)))
        same(out.checked(), batched.numpy())


@pytest.mark.drawn(5)
@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16, *FLOAT8], ids=str)
def test_narrow_products(dtype: np.dtype, rng) -> None:
    """The caller widens the operands and rounds the result."""
    for m, n, k in [(5, 7, 200), (1, 30, 130), (1, 1, 300), (20, 33, 41)]:
        a, b = wild(rng, (m, k), dtype), wild(rng, (k, n), dtype)
        with np.errstate(over="ignore"):
            got = product(a.astype(np.float32), b.astype(np.float32)).astype(dtype)
        same(got, compiled_product()(wf.array(a), wf.array(b)).numpy())


def test_an_order_that_is_given(rng) -> None:
    """Sums over several axes have blocks of their own."""
    a, b = wild(rng, (6, 30, 50)), wild(rng, (30, 50, 7))
    want = wf.jit(lambda x, y: wf.tensordot(x, y, 2))(wf.array(a), wf.array(b)).numpy()
    order = product_order(6, 7, (30, 50))
    assert order != product_order(6, 7, (1500,))
    out = Guarded((6, 7), FLOAT32)
    prepared = DEVICE.dynamic_kernels.product(FROM_NUMPY[FLOAT32], 6, 7, 1500, 1500, 1, 7, 1, order=order)
    prepared(a.ctypes.data, b.ctypes.data, out.address)
    same(out.checked(), want)


REDUCED = [
    ((1,), (0,)), ((10,), (0,)), ((31,), (0,)), ((32,), (0,)), ((33,), (0,)), ((4095,), (0,)), ((4097,), (0,)), ((30_000,), (0,)),
    ((63, 5), (0,)), ((65, 1), (0,)), ((300, 100), (0,)), ((1, 9), (0,)), ((300, 33), (1,)), ((7, 20), (1,)), ((5, 200), (0, 1)),
    ((3, 40, 5), (1,)), ((4, 3, 50), (0, 2)), ((2, 3, 4, 31), (1, 2, 3)), ((70, 2, 1), (0, 2)), ((6, 130, 17), (0, 1)),
    ((500, 3, 2), (1, 2)),
]


def summed(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    if all(x.shape[d] == 1 for d in axes):  # where nothing is added, the graph has no sum
        return x.reshape(-1)
    found, order = spans(x.shape, axes), shape_reduction_order(x.shape, axes)
    kept = [d for d in range(x.ndim) if d not in axes]
    if found is None:
        x = np.ascontiguousarray(x.transpose(*kept, *axes))
        inner = math.prod(x.shape[len(kept) :])
        found = x.size // inner, inner, 1
    outer, k, inner = found
    out = Guarded((outer, inner), x.dtype)
    DEVICE.dynamic_kernels.sum(FROM_NUMPY[x.dtype], outer, inner, k, k * inner, 1, inner, order)(x.ctypes.data, out.address)
    return out.checked().reshape(-1)


@cache
def jitted(name: str, axes: Any) -> Any:
    functions = {
        "sum": wf.sum, "prod": wf.prod, "max": wf.max, "min": wf.min,
        "cumulative_max": wf.maximum.accumulate, "cumulative_min": wf.minimum.accumulate,
    }
    if name in functions:
        return wf.jit(lambda x: functions[name](x, axis=axes))
    return wf.jit(lambda x: getattr(wf, name)(x, axis=axes))


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_sums(dtype: np.dtype, rng) -> None:
    for shape, axes in REDUCED:
        x = wild(rng, shape, dtype)
        want = jitted("sum", axes)(wf.array(x)).numpy()
        same(summed(x, axes), want.reshape(-1))
        kept = [d for d in range(x.ndim) if d not in axes]
        flat = x.transpose(*kept, *axes).reshape([shape[d] for d in kept] + [-1])
        if flat.shape[-1] > 1:
            same(reduce_last(flat, "sum", dtype, shape_reduction_order(shape, axes)), want)  # the order's definition


def test_sums_along_strides(rng) -> None:
    for n, k, order in [
        (5, 200, shape_reduction_order((5, 200), (1,))),
        (7, 300, shape_reduction_order((300, 7), (0,))),
        (9, 20, shape_reduction_order((9, 20), (1,))),
    ]:
        x = wild(rng, (n, k))
        out, dense = Guarded((n,), FLOAT32), Guarded((n,), FLOAT32)
        wide = laid_out(x, "apart")
        DEVICE.dynamic_kernels.sum(FROM_NUMPY[FLOAT32], 1, n, k, 0, *strides(wide), order)(wide.ctypes.data, out.address)
        DEVICE.dynamic_kernels.sum(FROM_NUMPY[FLOAT32], n, 1, k, k, 1, 1, order)(x.ctypes.data, dense.address)
        same(out.checked(), dense.checked())


def test_sums_of_what_is_not_finite() -> None:
    for n in (1, 7, 40, 5000):
        x = np.full(n, -0.0, np.float32)
        same(summed(x, (0,)), jitted("sum", (0,))(wf.array(x)).numpy().reshape(-1))
        x[n // 2] = np.inf
        same(summed(x, (0,)), np.array([np.inf], np.float32))
        x[n // 3] = np.nan
        assert np.isnan(summed(x, (0,))).all()
    out = Guarded((4,), FLOAT32)
    DEVICE.dynamic_kernels.sum(
        FROM_NUMPY[FLOAT32], 1, 4, 0, 0, 1, 4, shape_reduction_order((0, 4), (0,))
    )(out.address, out.address)
    same(out.checked(), np.zeros(4, np.float32))


@pytest.mark.drawn(5)
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT16, BFLOAT16, *FLOAT8, np.dtype(np.int64)], ids=str)
def test_other_reductions_in_numpy(dtype: np.dtype, rng) -> None:
    """What NumPy can say with the same bits: ``kernel/summation.py``."""
    wide = FLOAT32 if FROM_NUMPY[dtype].narrow else dtype
    for shape, axes in [((40,), (0,)), ((6, 33), (0,)), ((6, 33), (1,)), ((3, 4, 9), (0, 2)), ((3, 1), (1,))]:
        x = wild(rng, shape, dtype) if dtype.kind != "i" else rng.integers(-5, 5, shape).astype(dtype)
        if dtype.kind != "i":
            x[x > 2] = 0.0
            x[..., 0] = -0.0
        kept = [d for d in range(x.ndim) if d not in axes]
        flat = x.transpose(*kept, *axes).reshape([shape[d] for d in kept] + [-1]).astype(wide)
        for monoid in ("prod", "max", "min", "argmax", "argmin"):
            if monoid[0] == "a" and len(axes) > 1:
                continue
            order = shape_reduction_order(shape, axes) if monoid != "prod" else shape_reduction_order((1, flat.shape[-1]), (1,))
            got = reduce_last(flat, monoid, wide, order)
            want = jitted(monoid, axes[0] if monoid[0] == "a" else axes)(wf.array(x)).numpy()
            same(np.asarray(got).astype(want.dtype), want)
        for axis in range(x.ndim):
            for monoid in ("sum", "prod", "max", "min"):
                want = jitted(f"cumulative_{monoid}", axis)(wf.array(x)).numpy()
                got = np.moveaxis(running(np.moveaxis(x.astype(wide), axis, -1), monoid, wide), -1, axis)
                same(got.astype(want.dtype), want)


# but for what checks indices, and tells a kernel's run
INEXACT = sorted(name for name, op in TABLE.items() if op.kind == "elementwise" and not op.exact and name != "in_bounds")


def operands(rng, name: str, count: int, dtype: np.dtype) -> list[np.ndarray]:
    """From where it means something and from where it does not."""
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 0.5, 2.0, 88.8, -104.0, 1e30, 1e-5, 710.0, 65504.0]
    sample = next(s for s in draw_samples(TABLE[name], rng) if s.tag == "usual")
    out = []
    for array in sample.arrays:
        usual = rng.uniform(-3, 3, count) + 0 * np.asarray(array, np.float64).reshape(-1)[0]
        x = np.where(rng.random(count) < 0.4, rng.choice(special, count), usual)
        with np.errstate(all="ignore"):
            out.append(convert_array(x, dtype))
    return out


@cache
def compiled_each(name: str) -> Any:
    functions = {"pow": lambda x, y: x**y}
    return wf.jit(functions.get(name) or getattr(wf, name))


@pytest.mark.parametrize("name", INEXACT)
def test_functions(name: str, rng, some) -> None:
    for dtype in (FLOAT32, FLOAT64, FLOAT16, BFLOAT16, *some(FLOAT8, 2)):
        given = operands(rng, name, 67, dtype)
        want = compiled_each(name)(*map(wf.array, given)).numpy()
        run = DEVICE.dynamic_kernels.elementwise(TABLE[name], (FROM_NUMPY[dtype],) * len(given))
        assert run is DEVICE.dynamic_kernels.elementwise(TABLE[name], (FROM_NUMPY[dtype],) * len(given))
        for count in (0, 1, 3, 15, 16, 17, 31, 33, 67):
            off = count % 5
            inside = [Guarded((count,), dtype, off + k) for k in range(len(given))]
            for guarded, x in zip(inside, given, strict=True):
                guarded.array[:] = x[67 - count :]
            out = Guarded((count,), dtype, off)
            run(count, out.address, *(word for x in inside for word in (x.address, 1)))
            same(out.checked(), want[67 - count :])
        if len(given) == 2:
            for which in (0, 1):
                out, (x, y) = Guarded((67,), dtype), list(given)
                one = (x, y)[which][:1].copy()
                full = [np.repeat(one, 67) if k == which else g for k, g in enumerate((x, y))]
                arrays = [one if k == which else g for k, g in enumerate((x, y))]
                run(67, out.address, *(w for k, g in enumerate(arrays) for w in (g.ctypes.data, int(k != which))))
                same(out.checked(), compiled_each(name)(*map(wf.array, full)).numpy())


def test_exact_primitives_too(rng) -> None:
    """Where NumPy differs: casts out of range, extremes of zeros, remainders, selections."""
    x, y = wild(rng, (50,)), wild(rng, (50,))
    x[:4], y[:4] = (0.0, -0.0, np.nan, 3e9), (-0.0, 0.0, 1.0, -2.0)
    cases: list[tuple[str, tuple[np.ndarray, ...], dict[str, Any], Any]] = [
        ("maximum", (x, y), {}, wf.maximum), ("remainder", (x, y), {}, wf.remainder), ("where", (x > y, x, y), {}, wf.where),
        ("less", (x, y), {}, wf.less), ("cast", (np.abs(x),), {"dtype": FORMATS["uint32"]}, lambda a: a.astype("uint32")),
        ("cast", (x,), {"dtype": FORMATS["float64"]}, lambda a: a.astype("float64")),
        ("cast", (x,), {"dtype": FORMATS["int8"]}, lambda a: a.astype("int8")),
    ]
    for name, given, params, function in cases:
        want = wf.jit(function)(*map(wf.array, given)).numpy()
        out = Guarded(want.shape, want.dtype, 1)
        run = DEVICE.dynamic_kernels.elementwise(TABLE[name], tuple(FROM_NUMPY[g.dtype] for g in given), **params)
        run(50, out.address, *(word for g in given for word in (g.ctypes.data, 1)))
        same(out.checked(), want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int32", "int64", "bool"])
def test_several_vectors_at_once(dtype: str, rng) -> None:
    """Counts around whole numbers of vectors; each operand an array, one number, or the memory of the result."""
    kind = FORMATS[dtype]
    name = "multiply" if kind.kind != "bool" else "bitwise_xor"
    run = DEVICE.dynamic_kernels.elementwise(TABLE[name], (kind, kind))
    for count in {1, *(k + d for k in (16, 32, 64, 128, 256, 512, 640) for d in (-1, 0, 1))}:
        for ones in ((1, 1), (0, 1), (1, 0), (0, 0)):
            x, y = ((rng.normal(size=count if one else 1) * 3).astype(kind.numpy) for one in ones)
            with np.errstate(all="ignore"):
                want = np.broadcast_to((x ^ y) if dtype == "bool" else (x * y), count)
            out = Guarded((count,), kind.numpy)
            run(count, out.address, x.ctypes.data, ones[0], y.ctypes.data, ones[1])
            same(out.checked(), want)
            if ones[0]:
                out.array[...] = x
                run(count, out.address, out.address, 1, y.ctypes.data, ones[1])
                same(out.checked(), want)


def test_what_is_refused() -> None:
    run = DEVICE.dynamic_kernels.elementwise(TABLE["exp"], (FROM_NUMPY[FLOAT32],))
    with pytest.raises(TypeError):
        run(1, "there", 0, 1)
    index = (FORMATS["int64"],)
    with pytest.raises(TypeError, match="reduce_sum is not an elementwise primitive"):
        DEVICE.dynamic_kernels.elementwise(TABLE["reduce_sum"], index)
    with pytest.raises(TypeError, match="in_bounds is not an elementwise primitive"):  # its fault belongs to a run
        DEVICE.dynamic_kernels.elementwise(TABLE["in_bounds"], index, extent=3, axis=0, from_end=True)


def test_calls_are_counted_and_large_ones_release_the_lock(rng) -> None:
    before = DEVICE.counters()
    x, out = wild(rng, (100_000,)), Guarded((100_000,), FLOAT32)
    run = DEVICE.dynamic_kernels.elementwise(TABLE["exp"], (FROM_NUMPY[FLOAT32],))
    run(100_000, out.address, x.ctypes.data, 1)
    run(10, out.address, x.ctypes.data, 1)
    after = DEVICE.counters()
    assert after["sized_calls"] - before["sized_calls"] == 2 and after["kernels"] == before["kernels"]


@pytest.mark.parametrize("isa", [*isas()])
def test_every_machine(isa: str, rng) -> None:
    """The same as the kernels that are compiled for it, here and with narrower registers, or without fused multiplication."""
    target = isas()[isa]

    @cache
    def loaded(text: str) -> Any:
        return compile_ir(text, target)

    def run(text: str, symbol: str, *words: int) -> None:
        engine = loaded(text)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address(symbol))(np.array(words, np.int64).ctypes.data)

    for dtype in (FLOAT32, FLOAT64):
        texts = [product_text(FROM_NUMPY[dtype], target, CPU.orders, in_lanes) for in_lanes in (False, True)]
        for m, n, k in [(7, 19, 140), (19, 3, 60), (1, 21, 70), (13, 1, 600), (1, 1, 333)]:
            a, b, want, out = wild(rng, (m, k), dtype), wild(rng, (k, n), dtype), np.empty((m, n), dtype), Guarded((m, n), dtype)
            CompiledProduct(product_kernel(m, n, k, FROM_NUMPY[dtype]), target)(a, b, want)
            order, room = product_order(m, n, (k,)), np.empty(k * SCRATCH_BYTES_PER_STEP, np.uint8)
            for right, steps in ((b, (n, 1)), (np.ascontiguousarray(b.T), (1, k))):
                places = a.ctypes.data, right.ctypes.data, out.address
                out.array[...] = 0
                run(texts[order.lanes > 1], "weft_product", 0, *places, 1, 0, 0, m, n, k, k, 1, *steps, order.lanes, order.block,
                    room.ctypes.data)
                same(out.checked(), want)
        for shape, axes in [((3, 700), (1,)), ((130, 21), (0,)), ((9, 8), (1,))]:
            x, order = wild(rng, shape, dtype), shape_reduction_order(shape, axes)
            outer, k, inner = spans(shape, axes) or (0, 0, 0)
            out = Guarded((outer, inner), dtype)
            text = sum_text(FROM_NUMPY[dtype], target, CPU.orders)
            run(text, "weft_sum", 0, x.ctypes.data, out.address, outer, k * inner, inner, 1, k, inner, order.lanes, order.block)
            same(out.checked().reshape(-1), reduce_last(x if axes == (1,) else x.T, "sum", dtype, order))
        kernel = each_kernel(TABLE["tanh"], (FROM_NUMPY[dtype],), {})
        x, want, out = wild(rng, (16,), dtype), np.empty(16, dtype), Guarded((11,), dtype)
        Compiled(generate_loops(kernel, target), kernel, target)([x], [want])
        run(elementwise_text(kernel, target), "weft_each", 11, out.address, x.ctypes.data, 1)
        same(out.checked(), want[:11])
        kernel, count = each_kernel(TABLE["add"], (FROM_NUMPY[dtype],) * 2, {}), 4 * 16 + 5
        x, y, out = wild(rng, (count,), dtype), wild(rng, (1,), dtype), Guarded((count,), dtype)
        run(elementwise_text(kernel, target, 4), "weft_each", count, out.address, x.ctypes.data, 1, y.ctypes.data, 0)
        same(out.checked(), x + y)
