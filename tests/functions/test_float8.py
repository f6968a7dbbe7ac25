"""8-bit floats: casts have ml_dtypes' bits (from float64 those of one rounding) however they are made; what they mix with."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from tests import oracle
from weft.dtypes.formats import FORMATS, Format, formats_of_kind, holds
from weft.dtypes.rounding import convert_array
from weft.errors import DTypeError

SMALL = [f for f in FORMATS.values() if f.alone]
EIGHT = [f for f in SMALL if f.bits == 8 and f.special != "scale"]  # those with negative numbers and NaN
both = pytest.mark.parametrize("form", EIGHT, ids=str)


def ways(f: Callable[[wf.Array], wf.Array], x: np.ndarray) -> Iterator[np.ndarray]:
    """What is computed at once, lazily, compiled, and with denormal numbers flushed."""
    yield f(wf.array(x)).numpy()
    yield wf.jit(f)(wf.array(x)).numpy()
    large = np.resize(x, (1 << 17) + 3)  # too many elements to be computed at once
    yield f(wf.array(large)).numpy()[: x.size]
    with wf.flush_denormals():
        yield wf.jit(f)(wf.array(x)).numpy()


def codes(form: Format) -> np.ndarray:
    return np.arange(256, dtype=np.uint8).view(form.numpy)


def between(form: Format) -> np.ndarray:
    """The numbers of a format, the middles of neighbours, what lies next to both in float32, larger and special ones."""
    wide = codes(form).astype(np.float32)
    own = np.unique(wide[np.isfinite(wide)])
    step = own[-1] - own[-2]
    more = np.array([own[-1] + step / 2, own[-1] + step, 1e30, np.inf], np.float32)
    middles = np.concatenate([own, (own[1:] + own[:-1]) / 2, more, -more])
    beside = [np.nextafter(middles, np.float32(end)) for end in (np.inf, -np.inf)]
    return np.concatenate([middles, *beside, np.array([np.nan, -0.0], np.float32)])


@both
def test_casts_have_ml_dtypes_bits(form: Format) -> None:
    x = between(form)
    for source in ("float32", "float16", "bfloat16"):
        with np.errstate(all="ignore"):
            given = oracle.in_format(x, FORMATS[source].numpy)
            want = given.astype(form.numpy)
        for got in ways(lambda a: a.astype(form.name), given):
            assert got.dtype == form.numpy and got.tobytes() == want.tobytes(), source


@both
def test_all_codes_come_back(form: Format) -> None:
    x = codes(form)
    for target in ("float32", "float64", "float16", "bfloat16"):
        want = oracle.in_format(x, FORMATS[target].numpy)
        for got in ways(lambda a, t=target: a.astype(t), x):  # type: ignore[misc]
            np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
            np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    canonical = x[~np.isnan(x.astype("f4"))]
    for got in ways(lambda a: a.astype("float32").astype(form.name), canonical):
        assert got.tobytes() == canonical.tobytes()


@both
def test_float64_is_rounded_once(form: Format) -> None:
    """Just beside the middle of two neighbours, where float32 would be the middle itself."""
    wide = codes(form).astype(np.float64)
    own = np.unique(wide[np.isfinite(wide)])
    middle = (own[1:] + own[:-1]) / 2
    keep = np.float32(middle) != 0
    middle, low, high = middle[keep], own[:-1][keep], own[1:][keep]
    for x, want in ((np.nextafter(middle, -np.inf), low), (np.nextafter(middle, np.inf), high)):
        for got in ways(lambda a: a.astype(form.name), x):
            np.testing.assert_array_equal(got.astype(np.float64), want)
        assert [float(wf.array(v, dtype=form.name)) for v in x[:20].tolist()] == want[:20].tolist()
        np.testing.assert_array_equal(convert_array(x, form.numpy).astype(np.float64), want)


@both
def test_integers_and_bools(form: Format) -> None:
    for dtype in ("int8", "uint8", "int32", "uint64", "bool"):
        info = np.iinfo(dtype) if dtype != "bool" else np.iinfo("uint8")
        x = np.unique(np.concatenate([np.arange(max(info.min, -600), min(info.max, 600)), [info.min, info.max]])).astype(dtype)
        with np.errstate(all="ignore"):
            want = x.astype("f4").astype(form.numpy)
        for got in ways(lambda a: a.astype(form.name), x):
            assert got.tobytes() == want.tobytes()
    x = np.array([0, 1.75, -2, 12], form.numpy)
    for got in ways(lambda a: a.astype("int32"), x):
        assert got.tolist() == [0, 1, -2, 12]


@pytest.mark.parametrize("form", [*EIGHT, FORMATS["bfloat16"], FORMATS["float16"]], ids=str)
def test_what_an_integer_cannot_hold_is_one_number(form: Format) -> None:
    """From all formats, however it is cast, and in the NumPy that a primitive has for itself."""
    x = np.array([np.nan, np.inf, -np.inf, 2.5, -1.5], np.float32).astype(form.numpy)
    for dtype in ("int32", "int64"):
        want = [np.iinfo(dtype).min if not np.isfinite(v) else int(v) for v in x.astype(np.float64)]
        with np.errstate(all="ignore"):
            assert convert_array(x, np.dtype(dtype)).tolist() == want
        for got in ways(lambda a, dtype=dtype: a.astype(dtype), x):
            assert got.tolist() == want


@both
def test_each_operation_is_rounded(form: Format) -> None:
    """Also inside a kernel, as NumPy with ml_dtypes does it by arrays."""
    x, y = (np.array(oracle.random(oracle.rng(), (700,), form)) for _ in range(2))
    want = ((x * y).astype(form.numpy) + x).astype(form.numpy) - np.sqrt(abs(y)).astype(form.numpy)
    for f in (lambda a, b: a * b + a - wf.sqrt(abs(b)), wf.jit(lambda a, b: a * b + a - wf.sqrt(abs(b)))):
        got = f(wf.array(x), wf.array(y)).numpy()
        assert got.dtype == form.numpy and got.tobytes() == want.astype(form.numpy).tobytes()


@pytest.mark.parametrize("form", [f for f in EIGHT if f.largest >= 240], ids=str)
def test_sums_and_products_add_up_in_float32(form: Format) -> None:
    x, y = oracle.random(oracle.rng(), (9, 300), form), oracle.random(oracle.rng(), (300, 17), form)
    a, b = wf.array(x), wf.array(y)
    exact = x.astype("f8") @ y.astype("f8")
    for product in (a @ b, wf.jit(wf.matmul)(a, b)):
        assert product.dtype == form.numpy
        near = np.abs(product.numpy().astype("f8") - exact) <= 1.01 * oracle.EPS[form.numpy] * np.abs(exact) + 1e-3
        assert near.all()
    wide = wf.jit(lambda a, b: a.astype("float32") @ b.astype("float32"))(a, b)
    np.testing.assert_allclose(wide.numpy(), exact, rtol=1e-5, atol=1e-4)
    ones = wf.ones(64, dtype=form.name)
    assert float(ones.sum()) == float(ones @ ones) == 64  # an 8-bit sum of ones would stop at 16, or at 8
    assert float(ones.mean()) == 1 and ones.cumsum().dtype == form.numpy


@both
@pytest.mark.parametrize("name", ["nanmax", "nanmin", "nanargmax", "nanargmin"])
def test_what_is_nan_is_left_out(form: Format, name: str) -> None:
    """Also where a format has no infinity to put in its place."""
    largest = float(wf.finfo(form.name).max)
    samples = [[np.nan, -largest, 1, np.nan, 2, -1], [largest, np.nan], [3],
               [np.nan, np.nan, largest, -largest], [np.nan, -largest]]
    for x in samples:
        given = np.array(x).astype(form.numpy)
        want = getattr(np, name)(np.array(x))
        found = getattr(wf, name)(wf.array(given))
        assert found.dtype == (np.int64 if "arg" in name else form.numpy) and float(found) == want, x
        if "arg" not in name:
            rows = wf.jit(lambda a: getattr(wf, name)(a, axis=1))(wf.array(np.stack([given, given])))
            assert rows.dtype == form.numpy and rows.astype("float32").tolist() == [want] * 2
            assert np.isnan(float(getattr(wf, name)(wf.array(np.full(3, np.nan).astype(form.numpy)))))


@both
def test_gradients_flow_through_casts(form: Format) -> None:
    w = wf.array([0.3, -1.2, 2.0])
    g = wf.grad(lambda w: (w.astype(form.name).astype("float32") ** 2).sum())(w)
    near = 2 * w.numpy().astype(form.numpy).astype("f4")
    assert g.dtype == np.float32
    np.testing.assert_allclose(g.numpy(), near.astype(form.numpy).astype("f4"), rtol=0)


@both
def test_other_floats_are_refused(form: Format) -> None:
    x = wf.ones(3, dtype=form.name)
    for other in formats_of_kind("float"):
        if other is form:
            continue
        y = wf.ones(3, dtype=other.name)
        for call in (operator.add, operator.mul, operator.matmul, operator.eq, wf.result_type, lambda *a: wf.concat(a),
                     lambda a, b: wf.where(a > 0, a, b)):
            for pair in ((x, y), (y, x)):
                with pytest.raises(DTypeError, match=r"do not mix: .* Cast the float\w+ operand with astype\('b?float"):
                    call(*pair)
        assert wf.can_cast(form.name, other.name) == holds(other, form)
    assert (x + 1).dtype == (x * 0.5).dtype == (x + True).dtype == (x + wf.ones(3, dtype="int8")).dtype == form.numpy
    assert (x + wf.arange(3)).dtype == wf.float32 and wf.add(x, x, out=wf.zeros(3)).tolist() == [2.0, 2.0, 2.0]
    y = wf.zeros(3)
    y[:] = x
    assert y.tolist() == [1.0, 1.0, 1.0]


def test_numbers_beyond_a_format_without_infinities() -> None:
    x = wf.array([1.0, -448.0, 448.0, np.nan], dtype="float8_e4m3fn")

    def compared(a: wf.Array, n: float) -> tuple[wf.Array, ...]:
        return a < n, a == n, n <= a, a > -n

    for number in (449, 1000, 70_000, 1e10, np.inf):
        for f in (compared, wf.jit(compared, static_argnums=1)):
            less, equal, above, more = f(x, number)
            assert less.tolist() == more.tolist() == [True, True, True, False]
            assert not equal.any() and not above.any()
    with pytest.warns(RuntimeWarning, match="number 1000.0 overflows float8_e4m3fn, whose largest is 448: it becomes NaN"):
        assert wf.isnan(x + 1000.0).all()
    with pytest.warns(RuntimeWarning, match="overflows float8_e5m2, whose largest is 57344: it becomes infinite"):
        assert wf.isinf(wf.ones(2, dtype="float8_e5m2") + 1e6).all()
    assert wf.max(wf.array([-448.0, -416.0], dtype="float8_e4m3fn")) == -416
    pooled = wf.nn.max_pool2d(wf.full((1, 1, 4, 4), -3.0, dtype="float8_e4m3fn"), 3, stride=2, padding=1)
    assert (pooled == -3).all()  # what surrounds the image is the least number, not NaN


@both
def test_weights_are_kept_in_them(form: Format, tmp_path: Path) -> None:
    net = wf.nn.Linear(5, 3)
    net.save(tmp_path / "w", dtype=form.name)
    found = wf.io.load(tmp_path / "w")
    assert found["weight"].dtype == form.numpy
    np.testing.assert_array_equal(found["weight"].numpy(), net.weight.numpy().astype(form.numpy))
    small = wf.nn.Linear(5, 3).astype(form.name)
    assert small(wf.ones((2, 5), dtype=form.name)).dtype == form.numpy


@pytest.mark.parametrize("form", [*EIGHT, FORMATS["bfloat16"], FORMATS["float16"]], ids=str)
def test_sorting_puts_nan_last(form: Format) -> None:
    """As in float32: ml_dtypes' comparisons leave arrays with NaN unsorted."""
    x = oracle.random(oracle.rng(), (50,), form)
    x[[3, 20, 31]] = np.nan
    wide = np.sort(x.astype("f4"))
    np.testing.assert_array_equal(wf.sort(wf.array(x)).numpy().astype("f4"), wide)
    np.testing.assert_array_equal(wf.jit(wf.sort)(wf.array(x)).numpy().astype("f4"), wide)
    order = wf.argsort(wf.array(x)).numpy()
    np.testing.assert_array_equal(x[order].astype("f4"), wide)
    assert order.tolist() == np.argsort(x.astype("f4"), kind="stable").tolist()


@pytest.mark.parametrize("form", SMALL, ids=str)
def test_padding_that_the_format_lacks(form: Format, rng: np.random.Generator) -> None:
    """float8_e8m0fnu has neither 0 nor negative numbers, which windows meet beyond the edges."""
    x = wf.array(np.exp2(rng.integers(-1, 2, (2, 2, 7, 6))).astype("float32"))
    w = wf.array(np.exp2(rng.integers(-1, 1, (3, 2, 2, 2))).astype("float32"))
    for f in (
        lambda x: wf.nn.max_pool2d(x, 3, stride=2, padding=1), lambda x: wf.nn.avg_pool2d(x, 2, padding=1),
        lambda x: wf.nn.conv2d(x, w.astype(x.dtype), padding=1),
    ):
        got, want = wf.jit(f)(x.astype(form.numpy)), f(x).astype(form.numpy)
        np.testing.assert_array_equal(got.astype("float32").numpy(), want.astype("float32").numpy())
    slope = wf.jit(wf.grad(lambda x: wf.nn.avg_pool2d(x, 2, padding=1).astype("float32").sum()))(x.astype(form.numpy))
    assert slope.dtype == form.numpy and np.isfinite(slope.astype("float32").numpy()).all()


@pytest.mark.parametrize("base", ["uint8", "int8"])
@pytest.mark.parametrize("form", [f for f in SMALL if f.bits < 8], ids=str)
def test_bytes_viewed_as_numbers_of_fewer_bits(form: Format, base: str, rng: np.random.Generator) -> None:
    """The high bits of a byte are ignored by reads and kept by writes."""
    raw, low = rng.integers(0, 256, 40, np.uint8), (1 << form.bits) - 1
    want = (raw & low).view(form.numpy)
    a = wf.array(raw.view(base))
    b = a.view(form)
    np.testing.assert_array_equal(b.numpy().view(np.uint8), want.view(np.uint8))
    np.testing.assert_array_equal((b == b[3]).numpy(), want == want[3])
    for got in ways(lambda bytes: bytes.view(form) + bytes.view(form), raw.view(base)):
        np.testing.assert_array_equal(got.astype(np.float32), (want + want).astype(np.float32))
    b[3] = 1.5
    raw[3] = raw[3] & ~np.uint8(low) | np.asarray(1.5, form.numpy).view(np.uint8)
    np.testing.assert_array_equal(a.numpy(), raw.view(base))


@pytest.mark.parametrize("base", ["float32", "int16", "float64", "complex64", "bfloat16"])
@pytest.mark.parametrize("form", [f for f in SMALL if f.bits < 8], ids=str)
def test_wider_elements_viewed_as_numbers_of_fewer_bits(form: Format, base: str, rng: np.random.Generator) -> None:
    """Views of elements of several bytes ignore and keep the high bits of each byte."""
    raw, low = rng.integers(0, 256, 32, np.uint8), np.uint8((1 << form.bits) - 1)
    a = wf.array(raw.view(wf.zeros(0, base).dtype))
    b = a.view(form)
    for _ in range(4):
        start, value = rng.integers(0, 32), float(rng.integers(0, 3))
        end = rng.integers(start, 33)
        if rng.random() < 0.5:
            b[start:end] = value
        else:
            end = start + 1
            b[start] = value
        raw[start:end] = raw[start:end] & ~low | np.asarray(value, form.numpy).view(np.uint8)
        want = (raw & low).view(form.numpy)
        assert a.numpy().tobytes() == raw.tobytes()
        assert b.numpy().tobytes() == want.tobytes() and float(b.max()) == want.astype(np.float32).max()
        np.testing.assert_array_equal((b == b[3]).numpy(), want == want[3])
