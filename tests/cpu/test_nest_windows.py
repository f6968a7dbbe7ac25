"""Windows in vectors: pairs of loads at stride 2, axes inside the lanes, ends that repeat elements or are stored in pieces."""

from __future__ import annotations

import numpy as np
import pytest
from cross import TABLE, bind, leaf, run_both
from harness import isas

from weft.dtypes.formats import FLOAT32

# size, window, stride, padding: rows longer and shorter than a vector, gaps, overlap, padding
WINDOWS = [
    (28, 2, 2, 0), (14, 2, 2, 0), (7, 2, 2, 0), (6, 2, 2, 0), (37, 2, 2, 1), (29, 3, 2, 1), (20, 3, 1, 1), (32, 4, 4, 0),
    (40, 1, 2, 0), (18, 2, 3, 1), (66, 2, 2, 0), (9, 5, 2, 2),
]


def place(window: int, stride: int, padding: int) -> dict:
    return {"window": (window, window), "stride": (stride, stride), "padding": ((padding, padding),) * 2}


def check(inputs, arrays, outputs, exact=True, isa=None):
    for _, got, want in run_both(inputs, arrays, outputs, isa):
        for g, w in zip(got, want, strict=True):
            if exact:
                np.testing.assert_array_equal(g, w)
            else:
                np.testing.assert_allclose(g.astype(float), w.astype(float), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32"])
@pytest.mark.parametrize("case", WINDOWS)
def test_largest_and_its_place(rng, case, dtype):
    size, *rest = case
    x = (rng.normal(size=(2, 3, size, size)) * 20).astype(dtype)
    if dtype == "float32":
        x[0, 1].flat[::5] = np.nan
    n, params = leaf(x), place(*rest)
    check([n], [x], [bind(TABLE["reduce_window"], n, kind=k, **params) for k in ("max", "argmax")])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8", "float16"])
@pytest.mark.parametrize("width", [4, 7, 8])
def test_one_more_than_a_vector(rng, dtype, width):
    """Padding on every side: the last vector's guards are known while the text is written, but for one bit of the row."""
    x = (rng.normal(size=(1, 2, 2, width)) * 20).astype(dtype)
    n, params = leaf(x), {"window": (2, 2, 2), "stride": (1, 1, 1), "padding": ((1, 1),) * 3}
    check([n], [x], [bind(TABLE["reduce_window"], n, kind="max", **params)])
    padded = bind(TABLE["pad"], n, low=(0, 1, 1, 1), high=(0, 1, 0, 1), value=3)
    turned = bind(TABLE["slice"], padded, start=(0, 0, 0, width + 1), step=(1, 1, 1, -1), shape=padded.shape)
    check([n], [x], [bind(TABLE["add"], padded, turned)])


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 30])
def test_gradient_of_one_padded_row(rng, size, stride, isa):
    """The guard that all stores share moves with the axis inside the lanes."""
    window, padding = max(2, stride), 1
    count = (size + 2 * padding - window) // stride + 1
    if count < 1:
        return
    g = rng.normal(size=(2, 5, count)).astype(np.float32)
    at = rng.integers(0, window, g.shape).astype(np.int32)
    inputs = [leaf(g), leaf(at)]
    out = bind(TABLE["window_gather"], *inputs, size=(size,), window=(window,), stride=(stride,), padding=((padding, padding),))
    check(inputs, [g, at], [out, bind(TABLE["square"], out)], isa=isas()[isa])


@pytest.mark.parametrize("padding", [0, 1])
def test_gradient_of_one_window(rng, padding):
    """Of one window, each element has one term, and -0.0 becomes 0.0, as if terms of other windows were added."""
    size = tuple(int(n) for n in rng.integers(2, 20, 2))
    window = tuple(n + 2 * padding for n in size)
    g = np.where(rng.random((3, 17, 1, 1)) < 0.5, rng.normal(size=(3, 17, 1, 1)), -0.0).astype(np.float32)
    at = rng.integers(0, window[0] * window[1], g.shape).astype(np.int32)
    inputs = [leaf(g), leaf(at)]
    place = {"window": window, "stride": (1, 1), "padding": ((padding, padding),) * 2, "size": size}
    for k in (1, 2):
        out = bind(TABLE["window_gather"], *inputs[:k], **place)
        for _, (got,), (want,) in run_both(inputs[:k], [g, at][:k], [out]):
            np.testing.assert_array_equal(got.view(np.int32), want.view(np.int32))
            assert not np.signbit(got[got == 0]).any()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("isa", isas())
def test_stores_at_stride_2(rng, dtype, isa):
    """Gradients of windows at stride 2, any extent: both ends of a row, whole vectors and their rest."""
    for _ in range(3):
        size, window, padding = int(rng.integers(3, 80)), int(rng.integers(2, 4)), int(rng.integers(0, 2))
        params = place(window, 2, padding)
        count = (size + 2 * padding - window) // 2 + 1
        g = (rng.normal(size=(2, count, count)) * 20).astype(dtype)
        at = rng.integers(0, window**2, g.shape).astype(np.int32)
        inputs = [leaf(g), leaf(at)]
        out = bind(TABLE["window_gather"], *inputs, size=(size, size), **params)
        check(inputs, [g, at], [out], exact=dtype[0] == "i", isa=isas()[isa])


@pytest.mark.parametrize("case", WINDOWS)
@pytest.mark.parametrize("masked", [False, True])
def test_gradient_through_a_mask(rng, case, masked):
    """What pooling after a ReLU asks for: the gathered gradient where a bool image allows it, bool results as well."""
    size, *rest = case
    params = place(*rest)
    out = tuple((size + 2 * rest[2] - rest[0]) // rest[1] + 1 for _ in range(2))
    g = rng.normal(size=(2, 3, *out)).astype(np.float32)
    at = rng.integers(0, rest[0] ** 2, g.shape).astype(np.int32)
    mask = rng.random((2, 3, size, size)) < 0.5
    inputs = [leaf(a) for a in (g, at, mask)]
    back = bind(TABLE["window_gather"], *inputs[:2], size=(size, size), **params)
    if masked:
        zero = bind(TABLE["multiply"], back, back)
        back = bind(TABLE["where"], inputs[2], back, zero)
        more = bind(TABLE["logical_and"], bind(TABLE["less"], back, zero), inputs[2])
        check(inputs, [g, at, mask], [back, more], exact=False)
    else:
        check(inputs, [g, at, mask], [back], exact=False)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16", "float32", "float64"])
@pytest.mark.parametrize("width", [3, 7, 9, 14, 30])
def test_rows_with_ends(rng, dtype, width):
    """Every second and every element of short rows, divided: lanes past the end must be harmless."""
    a = (rng.integers(1, 90, (5, 6, 2 * width)) % (2 if dtype == "bool" else 99)).astype(dtype)
    b = rng.integers(1, 9, (6, width)).astype(dtype)
    x, y = leaf(a), leaf(b)
    op = "logical_xor" if dtype == "bool" else "floor_divide"
    halves = [bind(TABLE["slice"], x, start=(0, 0, s), step=(1, 1, 2), shape=(5, 6, width)) for s in (0, 1)]
    wide = bind(TABLE["broadcast_to"], y, shape=(5, 6, width))
    check([x, y], [a, b], [bind(TABLE[op], h, wide) for h in halves])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int16", "bool"])
@pytest.mark.parametrize("shape", [(8, 16), (16, 8), (37, 21), (3, 40, 9), (2, 17, 30), (1, 64, 64), (5, 4, 33)])
def test_transposed(rng, shape, dtype):
    """Squares turned in registers: whole ones, ends that repeat, and ends that may not (an input in the result's place)."""
    a = (rng.normal(size=shape) * 9).astype(dtype)
    b = (rng.normal(size=(*shape[:-2], shape[-1], shape[-2])) * 9).astype(dtype)
    x, y = leaf(a), leaf(b)
    turned = bind(TABLE["permute"], x, axes=(*range(len(shape) - 2), len(shape) - 1, len(shape) - 2))
    op = "logical_xor" if dtype == "bool" else "subtract"
    check([x, y], [a, b], [bind(TABLE[op], turned, y)])
    check([x, y], [a, b], [bind(TABLE["equal"], turned, y), bind(TABLE["cast"], turned, dtype=FLOAT32)])


@pytest.mark.parametrize("padding", [0, 1])
def test_large_gradients(rng, padding):
    """Pairs of stores at stride 2 that bypass the caches together."""
    size = (800, 32 * int(rng.integers(30, 33)))
    g = rng.integers(-9, 10, (3, size[0] // 2, size[1] // 2)).astype(np.float32)
    at = rng.integers(0, 9, g.shape).astype(np.int32)
    inputs = [leaf(g), leaf(at)]
    place = {"window": (3, 3), "stride": (2, 2), "padding": ((padding, 1 - padding),) * 2, "size": size}
    check(inputs, [g, at], [bind(TABLE["window_gather"], *inputs, **place)])


@pytest.mark.parametrize("shape", [(3000, 800), (2101, 1003)])
def test_large_results(rng, shape):
    """Results stored past the caches."""
    a = rng.normal(size=shape).astype(np.float32)
    x = leaf(a)
    total = bind(TABLE["broadcast_to"], bind(TABLE["reduce_sum"], x, axes=(0,), keepdims=True), shape=shape)
    check([x], [a], [bind(TABLE["subtract"], x, total)], exact=False)
    check([x], [a], [bind(TABLE["negative"], bind(TABLE["permute"], x, axes=(1, 0)))])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16"])
def test_guards_of_narrow_dtypes(rng, dtype):
    """Masks known at run time only: one function a module loads what they allow, contiguous or gathered."""
    a = (rng.integers(0, 90, (5, 67)) % (2 if dtype == "bool" else 99)).astype(dtype)
    i = rng.integers(0, 67, 71)
    x, at = leaf(a), leaf(i)
    rolled = bind(TABLE["concat"], *(
        bind(TABLE["slice"], x, start=(0, s), step=(1, 1), shape=(5, n)) for s, n in ((44, 23), (0, 44))
    ), axis=1)
    padded = bind(TABLE["pad"], bind(TABLE["gather"], x, at, axes=(1,)), low=(0, 3), high=(1, 2), value=1)
    check([x, at], [a, i], [bind(TABLE["not_equal"], rolled, x), rolled, padded])


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_guards_beside_functions_that_are_rarely_the_librarys(rng, dtype):
    """Both ask whether some lane wants something: of one module, LLVM is told of that intrinsic once."""
    y = rng.normal(size=(9, 70)).astype("f")
    a = (rng.integers(0, 2, (9, 33)) if dtype == "bool" else rng.normal(size=(9, 1))).astype(dtype)
    x, z = leaf(a), leaf(y)
    wide = x if dtype == "bool" else bind(TABLE["broadcast_to"], x, shape=(9, 33))
    padded = bind(TABLE["pad"], wide, low=(0, 5), high=(0, 32), value=0)
    sine = bind(TABLE["sin"], z)
    check([x, z], [a, y], [bind(TABLE["where"], padded, sine, z) if dtype == "bool" else bind(TABLE["add"], padded, sine)], False)


def test_sums_of_long_rows(rng):
    """Rows of a large array that is not read in memory order, prefetched past their ends."""
    shape = (int(rng.integers(10, 14)), 24, int(rng.integers(2048, 2200)))
    a = rng.integers(-9, 10, shape).astype(np.float32)
    x = leaf(a)
    product = bind(TABLE["multiply"], x, x)
    check([x], [a], [bind(TABLE["reduce_sum"], n, axes=(0, 2), keepdims=False) for n in (x, product)])
