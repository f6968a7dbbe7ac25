"""Casts that round otherwise than to nearest: against the neighbours that ml_dtypes' numbers are, and by statistics."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.dtypes.formats import BFLOAT16, FLOAT16, FLOAT64, FLOATS, FORMATS, Format
from weft.errors import DTypeError

NARROW = sorted((f for f in FLOATS if f.narrow), key=str)
everyone = pytest.mark.parametrize("form", NARROW, ids=str)


def numbers(form: Format) -> np.ndarray:
    """All finite numbers of a format, in order."""
    with np.errstate(all="ignore"):
        codes = np.arange(2**form.bits, dtype=np.uint32).astype(f"u{form.bytes}").view(form.numpy).astype(np.float64)
    return np.unique(codes[np.isfinite(codes)])


def samples(form: Format, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Normal and subnormal numbers of the format, what it holds exactly, and what is too large or too small for it."""
    least = 2.0 ** (1 - form.bias - form.mantissa)
    own = numbers(form)
    spread = np.concatenate([
        rng.normal(size=300) * np.exp2(rng.integers(max(-20, 1 - form.bias), min(form.bias, 20), 300)),
        rng.uniform(-1, 1, 200) * least * 2**form.mantissa, rng.uniform(-1, 1, 50) * least, rng.choice(own, 100),
        np.array([0.0, -0.0, form.largest, -form.largest, own[own > 0][0]]),
    ])
    return spread.astype(dtype)


def neighbours(x: np.ndarray, form: Format) -> tuple[np.ndarray, np.ndarray]:
    own = numbers(form)
    wide = x.astype(np.float64)
    at = np.searchsorted(own, wide, side="right") - 1
    low = np.where(at < 0, -np.inf, own[np.maximum(at, 0)])
    high = np.where(low == wide, wide, np.append(own, np.inf)[at + 1])
    return low, high


@everyone
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_directed(form: Format, source: str) -> None:
    x = samples(form, source, np.random.default_rng())
    if form.bias == 127:
        x = x[(np.abs(x) >= 2.0**-126) | (x == 0)]  # NumPy's float32 of smaller ones is the machine's matter
    low, high = neighbours(x, form)
    wanted = {"down": low, "up": high, "toward zero": np.where(x < 0, high, low)}
    for way, want in wanted.items():
        for cast in (lambda a, w=way: a.astype(form.name, rounding=w), wf.jit(lambda a, w=way: a.astype(form.name, rounding=w))):
            got = cast(wf.array(x))
            assert got.dtype == form.numpy
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(got.numpy().astype("f8"), want.astype(form.numpy).astype("f8"), err_msg=way)
            np.testing.assert_array_equal(np.signbit(got.numpy()), np.signbit(x))


@everyone
def test_too_large_and_special(form: Format) -> None:
    large = 1e30 if form is not BFLOAT16 else 3.4e38
    x = wf.array([large, -large, 3.4e38, np.inf, -np.inf, np.nan])
    most, beyond = form.largest, np.nan if form.finite else np.inf
    ways = ("toward zero", "up", "down", "stochastic")
    got = {way: x.astype(form.name, rounding=way).astype("float64").numpy() for way in ways}
    np.testing.assert_array_equal(got["toward zero"], [most, -most, most, beyond, -beyond, np.nan])
    np.testing.assert_array_equal(got["up"], [beyond, -most, beyond, beyond, -beyond, np.nan])
    np.testing.assert_array_equal(got["down"], [most, -beyond, most, beyond, -beyond, np.nan])
    np.testing.assert_array_equal(got["stochastic"][3:], [beyond, -beyond, np.nan])
    if form is not BFLOAT16:
        np.testing.assert_array_equal(got["stochastic"][:3], [beyond, -beyond, beyond])


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
    assert (np.abs(z) <= 6 * error).all()
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
    with pytest.raises(ValueError, match="astype: rounding='odd' must be one of 'nearest', 'stochastic'"):
        x.astype("float16", rounding="odd")
    with pytest.raises(DTypeError, match="rounding='up' is for casts to floats, not of float32 to int32"):
        x.astype("int32", rounding="up")
    with pytest.raises(DTypeError, match="not of complex64 to float16"):
        wf.array([1j]).astype("float16", rounding="stochastic")
    for name in FORMATS:
        assert FORMATS[name].kind != "float" or wf.ones(2).astype(name, rounding="nearest").dtype == FORMATS[name].numpy
