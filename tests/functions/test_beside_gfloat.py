"""Every code and every rounding of every format of at most 16 bits, beside gfloat's."""

from __future__ import annotations

import gfloat
import numpy as np
import pytest

import weft as wf
from tests import oracle
from weft.dtypes.formats import FLOATS, Format
from weft.dtypes.parse import parse_dtype
from weft.graph.node import Graph
from weft.graph.primitives import TABLE, bind
from weft.runtime import execute

MODES = {
    "nearest": gfloat.RoundMode.TiesToEven, "nearest away": gfloat.RoundMode.TiesToAway, "up": gfloat.RoundMode.TowardPositive,
    "down": gfloat.RoundMode.TowardNegative, "toward zero": gfloat.RoundMode.TowardZero,
}
NAMED = sorted((f for f in FLOATS if f.bits <= 16 and not f.custom), key=str)
every = pytest.mark.parametrize("form", NAMED, ids=str)


def info_of(form: Format) -> gfloat.FormatInfo:
    """Return gfloat's description of a format."""
    nans = {"ieee": 2**form.mantissa - 1, "fn": 1, "scale": 1}.get(form.special, 0)
    return gfloat.FormatInfo(
        str(form), form.bits, form.mantissa + 1, bias=form.bias, is_signed=form.special != "scale",
        domain=gfloat.Domain.Extended if form.special == "ieee" else gfloat.Domain.Finite,
        has_nz=form.special not in ("fnuz", "scale"), num_high_nans=nans,
        has_subnormals=form.subnormals and form.special != "scale", is_twos_complement=False,
    )


def made(rng: np.random.Generator) -> Format:
    """Return a format of random digits, bias and special numbers."""
    exponent = int(rng.integers(1, 9))
    mantissa = int(rng.integers(exponent == 1, 8))  # one exponent bit alone cannot also be NaN
    infinities = bool(rng.random() < 0.4) and exponent > 1 and mantissa > 0
    bias = int(2 ** (exponent - 1) - 1 + rng.integers(-2, 3)) if exponent < 8 else None
    nans = infinities or bool(rng.random() < 0.5)
    return parse_dtype(wf.float_dtype(exponent, mantissa, bias, infinities=infinities, nans=nans))


def numbers(form: Format) -> np.ndarray:
    """Return the number of each code, in the order of codes."""
    return wf.arange(2**form.bits).astype(f"uint{8 * form.bytes}").view(form.numpy).astype("float64").numpy()


def check_codes(form: Format) -> None:
    want = gfloat.decode_ndarray(info_of(form), np.arange(2**form.bits))
    got = numbers(form)
    np.testing.assert_array_equal(got, want, err_msg=str(form))
    held = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[held]), np.signbit(want[held]), err_msg=str(form))


def check_roundings(form: Format, rng: np.random.Generator) -> None:
    """Check numbers of the format, the middles between them and their neighbours, and numbers beyond, as float32 and float64."""
    own = np.unique(numbers(form))
    own = own[np.isfinite(own)]
    own = rng.choice(own, 1000, replace=False) if len(own) > 1000 else own
    order = np.sort(own)
    middles = (order[1:] + order[:-1]) / 2
    with np.errstate(over="ignore"):
        spread = [np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf), middles * (1 + 1e-5)]
        spread.append(own * rng.uniform(0.9, 1.1, len(own)))
        beyond = form.largest * np.array([1.01, 1.4, 2.0, -1.01, -1.4, -2.0])
    x = np.concatenate([own, middles, *spread, beyond, [0.0, -0.0]])
    special = np.array([np.inf, -np.inf] if form.special != "finite" else [])
    for source in ("float32", "float64"):
        with np.errstate(over="ignore"):
            values = np.concatenate([x, special]).astype(source).astype(np.float64)
        if source == "float32":
            values = values[(np.abs(values) >= 2.0**-126) | (values == 0)]  # smaller float32 numbers may become 0
        if form.special == "scale":  # no number of which is even: ties go up, in gfloat to even exponents
            values = values[(values >= order[0]) & ~np.isin(values, middles)]
        for mode, how in MODES.items():
            for saturate in (True,) if form.special == "finite" else (False, True):
                with np.errstate(all="ignore"):
                    want = gfloat.round_ndarray(info_of(form), values, how, saturate)
                got = wf.array(values.astype(source)).astype(form.numpy, rounding=mode, saturate=saturate)
                message = f"{form}, {source}, {mode}, saturate={saturate}"
                np.testing.assert_array_equal(got.astype("float64").numpy(), want, err_msg=message)


@every
def test_codes(form: Format) -> None:
    check_codes(form)


@every
def test_roundings(form: Format, rng: np.random.Generator) -> None:
    check_roundings(form, rng)


def check_chance(form: Format, rng: np.random.Generator) -> None:
    """Check stochastic rounding with given words: as many bits as are cut off, or the first of them and half of the next."""
    own = numbers(form)
    own = own[np.isfinite(own)]
    x = rng.choice(own, 500) * rng.uniform(-1.0, 1.0, 500)
    x = x[(np.abs(x) >= 2.0**-126) & (np.abs(x) < 2.0**126)].astype(np.float32)
    words = rng.integers(0, 1 << 32, x.shape, dtype=np.uint32)
    leaves, arrays = oracle.leaves((x, words)), [execute.to_buffer(x), execute.to_buffer(words)]
    for bits, way in ((32, gfloat.RoundMode.StochasticFastest), (8, gfloat.RoundMode.StochasticFast)):
        node = bind(TABLE["round_stochastic"], *leaves, dtype=form, bits=bits)
        (got,) = execute.run(Graph(leaves, [node]), arrays)
        drawn = (words >> np.uint32(32 - bits)).astype(np.int64)
        want = gfloat.round_ndarray(info_of(form), x.astype(np.float64), way, True, drawn, bits)
        found = wf.array(execute.to_numpy(got, node.shape, node.dtype)).astype("float64").numpy()
        np.testing.assert_array_equal(found, want, err_msg=f"{form}, {bits} bits")


@pytest.mark.parametrize("form", [f for f in NAMED if f.special != "scale"], ids=str)
def test_stochastic_rounding(form: Format, rng: np.random.Generator) -> None:
    check_chance(form, rng)


def test_made_formats() -> None:
    for seed in np.random.default_rng().integers(10**6, size=12):
        print("seed", seed)
        rng = np.random.default_rng(seed)
        form = made(rng)
        print(form)
        check_codes(form)
        check_roundings(form, rng)
        check_chance(form, rng)
