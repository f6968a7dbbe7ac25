"""dtypes: names, promotion, Python numbers, limits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from weft.dtypes import api as d
from weft.errors import DTypeError


@np.errstate(invalid="ignore", over="ignore")
def is_cast_exact(narrow, wide):
    """Return whether a cast from one float format to another changes no number, -0.0 and infinity included."""
    patterns = np.arange(2 ** min(16, d.finfo(narrow).bits)) << max(0, d.finfo(narrow).bits - 16)
    numbers = patterns.astype(f"u{narrow.itemsize}").view(narrow).astype(np.float64)
    numbers = numbers[~np.isnan(numbers)]
    cast = numbers.astype(wide).astype(np.float64)
    return bool(((cast == numbers) & (np.signbit(cast) == np.signbit(numbers))).all())


def test_promotion_is_numpys_but_for_float64_out_of_integers_and_floats():
    for a in d.ALL:
        for b in d.ALL:
            if a != b and d.is_float(a) and d.is_float(b) and 1 in (a.itemsize, b.itemsize):
                for pair in ((a, b), (b, a)):
                    named = f"^{pair[0].name} and {pair[1].name}"
                    with pytest.raises(DTypeError, match=f"{named} do not mix: .* Cast the float[468]_.*"):
                        d.promote(*pair)
                    assert d.can_cast(*pair) == is_cast_exact(*pair)
                continue
            got = d.promote(a, b)
            assert got == d.promote(b, a) and got in d.ALL
            if any(x.isbuiltin != 1 for x in (a, b)):
                continue
            want = np.promote_types(a, b)
            if want == np.float64 and np.float64 not in (a, b) and "f" in a.kind + b.kind:
                want = np.dtype(np.float32)
            assert got == want, (a, b)
    assert d.promote(d.uint64, d.int8) == d.float64  # float32 holds neither
    assert d.promote(d.bfloat16, d.float16) == d.float32 and d.promote(d.bfloat16, d.int8) == d.bfloat16
    assert d.promote(d.bfloat16, d.int32) == d.float32 and d.promote(d.bfloat16, d.float64) == d.float64
    for form in (d.float8_e4m3fn, d.float8_e5m2):  # with integers, as floats of 16 bits
        assert d.promote(form, d.int8) == d.promote(d.uint8, form) == d.promote(form, d.bool) == form
        assert d.promote(form, d.int16) == d.promote(d.uint64, form) == d.float32


def test_as_dtype():
    assert d.as_dtype("bfloat16") == np.dtype(ml_dtypes.bfloat16) and d.as_dtype(float) == np.float32
    assert d.as_dtype("float") == d.as_dtype(float) and d.as_dtype("float64") == d.as_dtype("double") == np.float64
    assert d.as_dtype("int") == d.as_dtype(int) == np.int64 and d.as_dtype("bool") == d.as_dtype(bool)
    assert d.as_dtype(int) == np.int64 and d.as_dtype(bool) == np.bool_ and d.as_dtype(np.int16) == np.int16
    assert np.zeros(2, d.float32).dtype == np.float32
    with pytest.raises(DTypeError, match="no numbers in the other byte order"):
        d.as_dtype(">f4")
    for wrong, text in (
        ("clongdouble", "weft has no dtype"), ("float128x", "Did you mean 'float32'"), (object, "weft has no dtype 'object'"),
        ("U3", "weft has no dtype 'str96'"), (3.5, "3.5 is not a dtype such as 'float32'"),
    ):
        with pytest.raises(DTypeError, match=text):
            d.as_dtype(wrong)


def test_result_type_and_friends():
    assert d.result_type(d.int32, 2.0) == d.float32 and d.result_type(d.float16, 2.0, True) == d.float16
    assert d.result_type(np.zeros(2, np.int8), 3) == d.int8 and d.result_type(1, 2.0) == d.float32
    assert d.can_cast(d.int8, d.int32) and not d.can_cast(d.float32, d.int64) and d.can_cast(d.uint8, d.int16)
    assert d.isdtype(d.bfloat16, "real floating") and d.isdtype(d.uint8, ("bool", "unsigned integer"))
    assert not d.isdtype(d.float32, d.float64) and d.isdtype(d.int64, "integral") and not d.isdtype(d.float32, "complex floating")
    assert d.finfo("float32").eps == np.finfo(np.float32).eps and float(d.finfo(d.bfloat16).eps) == 2.0**-7
    assert d.iinfo("uint8").max == 255
    with pytest.raises(DTypeError, match="use iinfo"):
        d.finfo(d.int8)
    with pytest.raises(DTypeError, match="use finfo"):
        d.iinfo(d.float32)
    with pytest.raises(DTypeError, match="unknown kind"):
        d.isdtype(d.int8, "whole")
