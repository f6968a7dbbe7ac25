"""Casts that round otherwise than to nearest: against the neighbours that ml_dtypes' numbers are, and by statistics."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.dtypes.formats import FLOAT16, FLOAT64, FLOATS, FORMATS, Format
from weft.errors import DTypeError

NARROW = sorted((f for f in FLOATS if f.narrow and not f.custom), key=str)
everyone = pytest.mark.parametrize("form", NARROW, ids=str)


def numbers(form: Format) -> np.ndarray:
    """All finite numbers of a format, in order."""
    with np.errstate(all="ignore"):
        codes = np.arange(2**form.bits, dtype=np.uint32).astype(f"u{form.bytes}").view(form.numpy).astype(np.float64)
    return np.unique(codes[np.isfinite(codes)])


def samples(form: Format, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Normal and subnormal numbers of the format, what it holds exactly, and what is too large or too small for it."""
    least = form.smallest_normal * 2.0**-form.mantissa
    own = numbers(form)
    spread = np.concatenate([
        rng.normal(size=300) * np.exp2(rng.integers(max(-20, 1 - form.bias), min(form.bias, 20), 300)),
        rng.uniform(-1, 1, 200) * form.smallest_normal, rng.uniform(-1, 1, 50) * least, rng.choice(own, 100),
        np.array([0.0, -0.0, form.largest, -form.largest, own[own > 0][0]]),
    ])
    if form.special == "scale":
        spread = np.maximum(np.abs(spread), own[0] * 1.5)
    return spread.astype(dtype)


def neighbours(x: np.ndarray, form: Format) -> tuple[np.ndarray, np.ndarray]:
    own = numbers(form)
    wide = x.astype(np.float64)
    at = np.searchsorted(own, wide, side="right") - 1
    low = np.where(at < 0, -np.inf, own[np.maximum(at, 0)])
    high = np.where(low == wide, wide, np.append(own, np.inf)[at + 1])
    return low, high


@pytest.mark.drawn(10)
@everyone
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_directed(form: Format, source: str) -> None:
    x = samples(form, source, np.random.default_rng())
    if form.bias == 127:
        x = x[(np.abs(x) >= 2.0**-126) | (x == 0)]  # NumPy's float32 of smaller ones is the machine's matter
    low, high = neighbours(x, form)
    own = numbers(form)
    beyond = own[-1] + (own[-1] - own[-2])  # the next number, if the exponent went on
    above, below = np.where(np.isinf(high), beyond, high) - x, x - np.where(np.isinf(low), -beyond, low)
    nearest = np.where((above < below) | (above == below) & (x > 0), high, low)
    wanted = {
        "down": low, "up": high, "toward zero": np.where(x < 0, high, low), "away from zero": np.where(x < 0, low, high),
        "nearest away": nearest,
    }
    if source == "float32" and form.special != "scale":  # ml_dtypes rounds ties of powers of two away
        with np.errstate(over="ignore"):
            wanted["nearest"] = x.astype(form.numpy).astype("f8")
    for way, want in wanted.items():
        for cast in (lambda a, w=way: a.astype(form.name, rounding=w), wf.jit(lambda a, w=way: a.astype(form.name, rounding=w))):
            got = cast(wf.array(x))
            assert got.dtype == form.numpy
            want = np.where(np.isinf(want), np.copysign(form.overflow, want), want)
            np.testing.assert_array_equal(got.numpy().astype("f8"), want, err_msg=way)
            signs = np.signbit(x) & (want != 0) if form.special == "fnuz" else np.signbit(x)
            held = ~np.isnan(want) | (form.special != "fnuz")  # whose NaN has no sign
            np.testing.assert_array_equal(np.signbit(got.numpy().astype("f8"))[held], signs[held])


@everyone
def test_too_large_and_special(form: Format) -> None:
    large = 1e30 if form.exponent < 8 else 3.4e38
    x = wf.array([large, -large, 3.4e38, np.inf, -np.inf, np.nan])
    most, beyond, nan = form.largest, form.overflow, np.nan if form.special != "finite" else 0.0
    low = (most, beyond) if form.special != "scale" else (np.nan, np.nan)
    ways = ("toward zero", "up", "down", "stochastic", "away from zero", "nearest away", "nearest")
    got = {way: x.astype(form.name, rounding=way).astype("float64").numpy() for way in ways}
    np.testing.assert_array_equal(got["toward zero"], [most, -low[0], most, beyond, -low[1], nan])
    np.testing.assert_array_equal(got["up"], [beyond, -low[0], beyond, beyond, -low[1], nan])
    np.testing.assert_array_equal(got["down"], [most, -low[1], most, beyond, -low[1], nan])
    np.testing.assert_array_equal(got["stochastic"][3:], [beyond, -low[1], nan])
    for way in ways[3:] if form.exponent < 8 else ways[4:5]:
        np.testing.assert_array_equal(got[way], [beyond, -low[1], beyond, beyond, -low[1], nan], err_msg=way)
    for way in (None, *ways):  # too large, and saturated
        np.testing.assert_array_equal(
            x.astype(form.name, rounding=way, saturate=True).astype("float64").numpy(), [most, -low[0], most, most, -low[0], nan],
        )


@everyone
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_stochastic_gives_neighbours_and_their_mean(form: Format, source: str) -> None:
    """Among normal and subnormal numbers alike. The mean of a number's casts is off by six standard errors once in 10**9 runs."""
    wf.random.seed(int(np.random.default_rng().integers(2**63)))
    x = samples(form, source, np.random.default_rng())
    x = x[np.abs(x) <= form.largest]
    low, high = neighbours(x, form)
    count = 400
    got = wf.broadcast_to(wf.array(x), (count, x.size)).astype(form.name, rounding="stochastic").numpy().astype("f8")
    assert ((got == low) | (got == high)).all()
    gap = np.where(high > low, high - low, 1)
    share = (x.astype("f8") - low) / gap
    error = np.sqrt(np.maximum(share * (1 - share), 1 / count) / count)
    z = ((got - low) / gap).mean(axis=0) - share
    assert (np.abs(z) <= 6 * error + 2.0**-31).all()
    rest = high > low
    assert abs(z[rest].sum()) <= 6 * np.sqrt((error[rest] ** 2).sum())  # nor are all of them a little low
    tiny = rest & (np.abs(x) < 2.0 ** (1 - form.bias))
    assert tiny.sum() > 100 and abs(z[tiny].sum()) <= 6 * np.sqrt((error[tiny] ** 2).sum())


def test_seeds_states_and_keys() -> None:
    x = wf.full((1000,), 1.03)

    def draw() -> list[float]:
        return x.astype("bfloat16", rounding="stochastic").tolist()

    wf.random.seed(7)
    first, second = draw(), draw()
    assert first != second
    wf.random.seed(7)
    assert [draw(), draw()] == [first, second]
    jitted = wf.jit(lambda a: a.astype("bfloat16", rounding="stochastic"))
    wf.random.seed(7)
    assert [jitted(x).tolist(), jitted(x).tolist()] == [first, second] and jitted.traces == 1
    keyed = [x.astype("bfloat16", rounding="stochastic", key=wf.random.key(k)).tolist() for k in (1, 1, 2)]
    assert keyed[0] == keyed[1] != keyed[2]
    state = wf.random.get_state()
    x.astype("bfloat16", rounding="up")
    assert wf.random.get_state() == state


def test_there_is_no_pass_of_its_own() -> None:
    """One kernel reads and writes the array; another counts the words that were taken."""
    x = wf.ones((300, 1000))
    for way, count in (("stochastic", 2), ("up", 1)):
        told = str(wf.explain(wf.jit(lambda a, w=way: (wf.tanh(a) * 2).astype("float16", rounding=w)), x))
        assert f"{count} kernel" in told and told.count(" M ") == 2, told  # flops and bytes of one


def test_loops_keep_what_nearest_loses() -> None:
    """A sum in 8 bits of what is less than half its last digit."""
    def run(rounding: str) -> float:
        def step(total: wf.Array, x: wf.Array) -> tuple[wf.Array, wf.Array]:
            wide = total.astype("float32") + x
            return wide.astype("float8_e4m3fn", rounding=rounding), wide

        total, _ = wf.scan(step, wf.full((500,), 16.0, dtype="float8_e4m3fn"), wf.full((40,), 0.25))
        return float(total.astype("float32").mean())

    wf.random.seed(1)
    assert run("nearest") == 16 and abs(run("stochastic") - 26) < 0.5


def test_gradients_are_those_of_a_cast() -> None:
    x = wf.array([0.3, -1.2, 700.0, 0.0, -0.0, np.inf])
    for way in ("stochastic", "toward zero", "up", "down"):
        g = wf.grad(lambda a, w=way: (a.astype("float16", rounding=w).astype("float32") * wf.arange(6.0)).sum())(x)
        assert g.dtype == np.float32 and g.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], way


def test_what_loses_nothing_and_what_is_refused() -> None:
    x = wf.array([1.5, -2.0])
    assert x.astype("float64", rounding="stochastic").tolist() == [1.5, -2.0]
    assert wf.array([1, 300], dtype="int32").astype("float16", rounding="up").tolist() == [1.0, 300.0]
    assert wf.array([2049], dtype="int32").astype("float16", rounding="up").tolist() == [2050.0]
    assert wf.array([1 + 2**-40], dtype="float64").astype("float32", rounding="up").tolist() == [1 + 2**-23]
    assert FLOAT16 in NARROW and FLOAT64 not in NARROW
    with pytest.raises(ValueError, match="astype: rounding='odd' must be one of 'nearest', 'nearest away'"):
        x.astype("float16", rounding="odd")
    with pytest.raises(DTypeError, match="are for casts to floats and integers, not of float32 to bool"):
        x.astype("bool", rounding="up")
    with pytest.raises(DTypeError, match="int64 is rounded to float64 first"):
        wf.array([2**53 + 1]).astype("float32", rounding="up")
    assert wf.array([2**60 + 2**36 + 1]).astype("float32", rounding="nearest").tolist() == [2.0**60 + 2**37]
    with pytest.raises(ValueError, match="bits=33 must be an integer from 1 to 32"):
        x.astype("int8", rounding="stochastic", bits=33)
    with pytest.raises(DTypeError, match="float4_e2m1fn has no value for numbers that are too large"):
        x.astype("float4_e2m1fn", saturate=False)
    with pytest.raises(DTypeError, match="not of complex64 to float16"):
        wf.array([1j]).astype("float16", rounding="stochastic")
    for name in FORMATS:
        assert FORMATS[name].kind != "float" or wf.ones(2).astype(name, rounding="nearest").dtype == FORMATS[name].numpy


@pytest.mark.parametrize("source", ["float32", "float64", "float16"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
def test_integers(source: str, target: str) -> None:
    rng = np.random.default_rng()
    limits = np.iinfo(target)
    x = np.concatenate([rng.normal(size=200) * 50, np.arange(-9, 9) / 2, [0.0, -0.0]])
    x = x.clip(max(limits.min, -128), 127).astype(source)
    low, high = np.floor(x), np.ceil(x)
    wanted = {
        "nearest": np.rint(x), "up": high, "down": low, "toward zero": np.trunc(x), None: np.trunc(x),
        "away from zero": np.where(x < 0, low, high), "nearest away": np.copysign(np.floor(np.abs(x.astype("f8")) + 0.5), x),
    }
    for way, want in wanted.items():
        for saturate in (None, True):
            got = wf.array(x).astype(target, rounding=way, saturate=saturate)
            assert got.dtype == target
            np.testing.assert_array_equal(got.numpy(), want.astype(target), err_msg=str(way))
    wf.random.seed(int(rng.integers(2**63)))
    many = wf.broadcast_to(wf.array(x), (400, x.size)).astype(target, rounding="stochastic").numpy().astype("f8")
    assert ((many == low) | (many == high)).all()
    share = (x - low).astype("f8")
    assert (np.abs((many - low).mean(axis=0) - share) <= 6 * np.sqrt(np.maximum(share * (1 - share), 1 / 400) / 400)).all()
    ends = np.array([np.inf, -np.inf, np.nan, 6e4, -6e4, float(limits.max), float(limits.min)], source)
    with np.errstate(invalid="ignore"):
        inside = [0 if e != e else max(min(int(e), limits.max), limits.min) if np.isfinite(e) else None for e in ends]
    inside = [(limits.max if e > 0 else limits.min) if i is None else i for i, e in zip(inside, ends, strict=True)]
    assert wf.array(ends).astype(target, saturate=True).tolist() == inside
    wide = np.array([300, -300, 5], "int64")
    assert wf.array(wide).astype(target, saturate=True).tolist() == wide.clip(limits.min, limits.max).tolist()


def test_few_random_bits() -> None:
    """The chance of rounding up is a multiple of 2**-bits, half a step off at most."""
    wf.random.seed(int(np.random.default_rng().integers(2**63)))
    x = wf.full((1 << 16,), 1 + 2.0**-7 * 0.3)  # 0.3 of the way between two bfloat16 numbers
    for bits, share in ((1, 0.5), (2, 0.25), (4, 5 / 16), (8, 77 / 256), (16, 0.3), (32, 0.3)):
        up = float((x.astype("bfloat16", rounding="stochastic", bits=bits) > 1.001).mean())
        assert abs(up - share) < 6 * 0.5 / 256, bits


def test_rows_of_a_batch_take_words_of_their_own() -> None:
    x = wf.full((64, 100), 1.003)
    rounded = wf.vmap(lambda row: row.astype("bfloat16", rounding="stochastic"))(x).numpy().astype("f4")
    assert len({row.tobytes() for row in rounded}) == 64
    again = wf.vmap(lambda row: row.astype("bfloat16", rounding="stochastic"))(x).numpy().astype("f4")
    assert not {row.tobytes() for row in rounded} & {row.tobytes() for row in again}
    whole = wf.vmap(lambda row: row.astype("int8", rounding="stochastic"))(x - 0.5).numpy()
    assert len({row.tobytes() for row in whole}) == 64 and abs(whole.mean() - 0.503) < 0.05
    keyed = wf.jit(wf.vmap(lambda row: row.astype("bfloat16", rounding="stochastic", key=wf.random.key(3))))
    assert (keyed(x).numpy() == keyed(x).numpy()).all() and len({row.tobytes() for row in keyed(x).numpy()}) == 64
