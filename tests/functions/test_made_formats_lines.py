"""Functions of arrays of made formats: as with the same numbers in a format of ml_dtypes, and as float64 rounded."""

from __future__ import annotations

import os
import random
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft as wf
from tests.functions.library_lines import LibraryLines
from tests.functions.lines import Lines
from tests.functions.test_made_formats import draw, numbers
from tests.functions.test_random_programs import Refused, run
from tests.fuzz.elementwise import BINARY, COMPARE, UNARY
from weft.dtypes import formats
from weft.dtypes.formats import EVERY, Format
from weft.dtypes.parse import parse_dtype

COUNT = int(os.environ.get("WEFT_EXAMPLES", "300"))
# NumPy prints float32 and small floats in two ways
AS_TEXT = re.compile(r"array_str|array_repr|array2string")


def twin(name: str) -> Format:
    """Return a made format with the numbers of one that weft has."""
    f = EVERY[name]
    key = f.exponent, f.mantissa, f.bias, f.special, f.saturate, f.subnormals
    label = f"float_e{f.exponent}m{f.mantissa}b{f.bias}_{f.special}"
    return EVERY.get(label) or formats._make(label, *key)


class OwnLines:
    """Draws lines about arrays of one small format, with few others beside them."""

    dtype = ""

    def leaf(self, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> np.ndarray:
        if dtype is None and self.chance(80) or dtype in ("float32", "float64", "complex64", "complex128"):  # type: ignore[attr-defined]
            dtype = self.dtype
        return super().leaf(shape, dtype)  # type: ignore[misc]


class Plain(OwnLines, Lines): ...


class Library(OwnLines, LibraryLines): ...


def find_difference(got: Any, want: Any, own: Format, made: Format) -> str:
    """Return how two results differ; "" if they do not."""
    if isinstance(want, Refused) or isinstance(got, Refused):
        equal = isinstance(want, Refused) and isinstance(got, Refused)
        if isinstance(got, Refused) and "cannot hold safely" in str(got.error):  # ml_dtypes calls casts safe that are not
            return ""
        return "" if equal and type(got.error) is type(want.error) else f"{got!r} for {want!r}"  # type: ignore[union-attr]
    if isinstance(want, tuple | list):
        if not isinstance(got, tuple | list) or len(got) != len(want):
            return f"{got!r} for {want!r}"
        return next((text for g, w in zip(got, want, strict=True) if (text := find_difference(g, w, own, made))), "")
    if isinstance(want, wf.Array):
        dtype = wf.dtypes.public_dtype(made) if want.dtype == own.numpy else want.dtype
        if not isinstance(got, wf.Array) or got.dtype != dtype or got.shape != want.shape:
            return f"{got!r} for {want!r}"
        a, b = (x.numpy().astype(complex if x.dtype in ("complex64", "complex128") else "f8") for x in (got, want))
        signs = np.signbit(np.where(np.isnan(a), 1, a.real)), np.signbit(np.where(np.isnan(b), 1, b.real))
        return "" if np.array_equal(a, b, equal_nan=True) and np.array_equal(*signs) else f"{got!r} for {want!r}"
    if isinstance(want, np.dtype):
        return "" if got == (wf.dtypes.public_dtype(made) if want == own.numpy else want) else f"{got!r} for {want!r}"
    if isinstance(want, float | complex) and want != want:
        return "" if got != got else f"{got!r} for {want!r}"
    return "" if type(got) is type(want) and repr(got) == repr(want).replace(own.name, made.name) else f"{got!r} for {want!r}"


@pytest.mark.parametrize("lines", [Plain, Library])
def test_lines(lines: Any) -> None:
    @settings(max_examples=COUNT, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        maker = lines(data)
        name = maker.dtype = maker.pick(("float8_e5m2", "float8_e4m3fn"))
        own, made = EVERY[name], twin(name)
        maker.fresh(maker.leaf())
        line = maker.line()
        if AS_TEXT.search(line):
            return
        spaces = [{"np": wf, **{n: wf.array(a) for n, a in maker.arrays.items()}} for _ in range(2)]
        spaces[1] |= {
            n: wf.array(a).view("uint8").view(made.name) for n, a in maker.arrays.items() if a.dtype == own.numpy
        }
        want, got = (run(text, space) for text, space in zip((line, line.replace(name, made.name)), spaces, strict=True))
        difference = find_difference(got, want, own, made)
        assert not difference, f"{line}: {difference}, with {maker.arrays}"

    check()


def places(form: Format, x: np.ndarray) -> np.ndarray:
    """Return the place of each number in the line of a format's numbers; infinities are at its ends."""
    line = np.unique(np.array([*numbers(form).values()]))
    return np.searchsorted(line, np.clip(x, line[0], line[-1]))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("part", range(4))
def test_functions_of_elements_are_those_of_float64_rounded(part: int) -> None:
    seed = random.randrange(1 << 40)
    print(f"seed {seed}")
    rng, values = random.Random(seed), np.random.default_rng(seed)
    dtype = draw(rng)
    form = parse_dtype(dtype)
    x, y = (values.choice([*numbers(form).values()], 60) for _ in range(2))
    pairs = [(wf.array(a).astype(dtype), wf.array(a)) for a in (x, y)]
    calls = [
        *[(name, 1) for name in UNARY if name != "identity"], *[(name, 2) for name in (*BINARY, *COMPARE) if name != "nextafter"],
        *[(name, 0) for name in ("max", "min", "argmax", "argmin", "sort")],
    ]
    for name, arity in calls:
        f = getattr(wf, name)
        ours, wide = ([pair[k] for pair in pairs[:arity or 1]] for k in (0, 1))
        if arity == 0:
            ours, wide = ([a.reshape(6, 10)] for a in (*ours, *wide))
        for got in (f(*ours), wf.jit(f)(*ours)):
            want = f(*wide)
            if want.dtype != "float64":
                assert got.dtype == want.dtype, (name, dtype)
                np.testing.assert_array_equal(got.numpy(), want.numpy(), err_msg=f"{name} {dtype}")
                continue
            assert got.dtype == dtype, (name, dtype)
            got, want = got.numpy().astype("f8"), want.astype(dtype).numpy().astype("f8")
            if form.special not in ("finite", "fixed"):
                np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=f"{name} {dtype}")
            known = ~(np.isnan(got) | np.isnan(want))
            off = np.abs(places(form, got[known]) - places(form, want[known]))
            assert off.max(initial=0) <= 1, (name, dtype, [a[known.reshape(a.shape)][off.argmax()] for a in wide])
