"""Numbers that stand in texts, and None, wherever NumPy takes them: its answers, and its types of errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

pytestmark = pytest.mark.filterwarnings("ignore:overflow")
DTYPES = ("bool", "int8", "uint8", "int64", "float16", "float32", "float64", "complex64")
WORDS = ("", "False", "x", "1_0", "1+2j", b"7", None, "nan", "-inf", "1e400", "300", " 7 ")


def _filled(xp: Any, d: str, x: Any, put: Callable[[Any], None]) -> Any:
    made = xp.zeros((2, 2), dtype=d)
    put(made)
    return made


WAYS: dict[str, Callable[[Any, str, Any], Any]] = {
    "scalar": lambda xp, d, x: getattr(xp, d)(x),
    "array": lambda xp, d, x: xp.array(x, dtype=d),
    "asarray": lambda xp, d, x: xp.asarray(x, d),
    "list": lambda xp, d, x: xp.array([[x, 1], [2, x]], dtype=d),
    "element": lambda xp, d, x: _filled(xp, d, x, lambda a: a.__setitem__((0, 1), x)),
    "row": lambda xp, d, x: _filled(xp, d, x, lambda a: a.__setitem__(1, x)),
    "row of texts": lambda xp, d, x: _filled(xp, d, x, lambda a: a.__setitem__(0, [x, "1"])),
    "view": lambda xp, d, x: _filled(xp, d, x, lambda a: a[:, 0].__setitem__(slice(None), x)),
    "mask": lambda xp, d, x: _filled(xp, d, x, lambda a: a.__setitem__(a == 0, x)),
    "list of indices": lambda xp, d, x: _filled(xp, d, x, lambda a: a.__setitem__([1], x)),
    "all": lambda xp, d, x: _filled(xp, d, x, lambda a: a.fill(x)),
}


def answer(way: str, xp: Any, dtype: str, x: Any) -> Any:
    try:
        return np.asarray(WAYS[way](xp, dtype, x))
    except (ValueError, TypeError, OverflowError) as error:
        return next(k for k in (ValueError, TypeError, OverflowError) if isinstance(error, k))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_texts_and_none_as_numpy_reads_them(dtype: str, way: str) -> None:
    rng = np.random.default_rng()
    drawn = [*rng.integers(-200, 300, 3), *rng.normal(size=2).round(3), *rng.normal(size=2) * 1e30]
    for x in (*WORDS, *map(str, drawn), *(str(n).encode() for n in drawn[:2])):
        ours, theirs = answer(way, wf, dtype, x), answer(way, np, dtype, x)
        if isinstance(theirs, type) or isinstance(ours, type):
            assert ours is theirs, x
            continue
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, x
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_formats_that_numpy_cannot_read(dtype: str) -> None:
    for x in ("1.5", "nan", None, "-2", b"0.25"):
        want = np.asarray(x, np.float64).astype(getattr(wf, dtype).dtype)
        for way in WAYS:
            found = np.asarray(answer(way, wf, dtype, x)).astype(float)
            assert found.size and np.isnan(found).any() == np.isnan(want.astype(float)) and (np.isnan(want) or want in found), way
    for way in WAYS:  # ml_dtypes' own constructors crash on ""
        assert answer(way, wf, dtype, "") is answer(way, wf, dtype, "x") is ValueError, way


def test_what_cannot_be_read_is_said() -> None:
    a = wf.zeros(2, dtype=int)
    for refused, error, said in (
        (lambda: wf.array("q", dtype=int), ValueError, r"^array: object: 'q' cannot be held by int64: the text is not a number"),
        (lambda: a.__setitem__(0, "7.5"), ValueError, "'7.5' cannot be held by int64: the text is not a number of this dtype"),
        (lambda: a.__setitem__(0, None), TypeError, "None cannot be held by int64: None becomes NaN, which only floats have"),
        (lambda: wf.array("1.5"), TypeError, "cannot make an array of '1.5' (a str)"),  # without a dtype it is a text
        (lambda: wf.array(None), TypeError, "array: object is None"),
    ):
        with pytest.raises(error, match=said.replace("(", r"\(").replace(")", r"\)")):
            refused()
    assert a.tolist() == [0, 0]
