"""``wf.testing``: NumPy's functions, given weft's arrays, say what they say of NumPy's."""

import collections
import inspect
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf

COMPARING = (
    "assert_equal", "assert_array_equal", "assert_allclose", "assert_almost_equal", "assert_array_almost_equal",
    "assert_array_less",
)
FORMS = {
    "alone": lambda x: x, "list": lambda x: [x, x], "tuple": lambda x: (x, [x]), "dict": lambda x: {"a": x, "b": {"c": (x, 1)}},
    "scalar": lambda x: x[0], "of a list": lambda x: list(x), "row": lambda x: x[None],
}


def verdict(module: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    try:
        getattr(module, name)(*args, **kwargs)
    except (AssertionError, TypeError, ValueError) as error:
        return type(error), str(error)
    return None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", COMPARING)
def test_the_verdict_is_numpys(name: str, form: str) -> None:
    if form in ("dict", "list", "tuple") and name not in ("assert_equal",):
        form = "alone"  # the others make one array of what they are given
    rng = np.random.default_rng()
    for dtype in ("float32", "float64", "int32", "bool", "complex64", "bfloat16", "float8_e5m2"):
        if dtype == "complex64" and name == "assert_array_less":
            continue
        kind = getattr(wf, dtype).dtype
        x = (rng.normal(size=6) * 3).astype(kind)
        if kind.kind not in "ib":
            x[3] = np.nan
        for y in (x.copy(), np.where(np.arange(6) == 1, x + x.dtype.type(2), x).astype(kind), x[:4], x[::-1].copy()):
            told = [v.astype("float32") if kind.isbuiltin == 2 else v for v in (x, y)]
            want = verdict(np.testing, name, *map(FORMS[form], told))
            ours = [wf.asarray(v) for v in (x, y)]
            for a, b in ((ours[0], ours[1]), (x, ours[1]), (ours[0], y)):
                found = verdict(wf.testing, name, FORMS[form](a), FORMS[form](b))
                assert (found and found[0]) == (want and want[0]), (dtype, found, want)
            if kind.isbuiltin == 1:
                assert verdict(wf.testing, name, FORMS[form](ours[0]), FORMS[form](ours[1])) == want


def test_dtypes_count_where_it_is_strict() -> None:
    x = wf.arange(3.0)
    wf.testing.assert_array_equal(x, x.astype("bfloat16"))
    for other in ("float64", "bfloat16", "float8_e5m2"):
        for a, b in ((x, x.astype(other)), (x.astype(other), x.numpy()), (x.astype(other), x.astype("float16"))):
            with pytest.raises(AssertionError):
                wf.testing.assert_array_equal(a, b, strict=True)
        wf.testing.assert_array_equal(x.astype(other), actual_of(x.astype(other)), strict=True)
    narrow = x.astype("bfloat16")
    with pytest.raises(TypeError):  # not a verdict about float32's ulps
        wf.testing.assert_array_max_ulp(narrow, narrow)
    wf.testing.assert_array_max_ulp(x, x + np.spacing(x.numpy()), maxulp=1)
    wf.testing.assert_array_almost_equal_nulp(x, x)
    assert wf.testing.assert_array_equal(x, desired=x, err_msg="here") is None


def actual_of(x: Any) -> np.ndarray:
    found = x.numpy()
    assert found.dtype.type is ml_dtypes.bfloat16 or found.dtype.isbuiltin in (1, 2)
    return found


def test_the_rest_is_handed_on() -> None:
    x = wf.ones(2)
    seen = []
    wf.testing.assert_raises(ValueError, lambda a: seen.append(type(a)) or a + wf.ones(3), x)
    assert seen == [wf.ndarray]
    for name in np.testing.__all__:
        if name.startswith("assert_") and inspect.isfunction(getattr(np.testing, name)):
            assert inspect.signature(getattr(wf.testing, name)) == inspect.signature(getattr(np.testing, name))
        else:
            getattr(wf.testing, name)
    pair = collections.namedtuple("pair", "a b")
    wf.testing.assert_equal(pair(x, 2), pair(x.numpy(), 2))
    wf.testing.assert_(wf.array(True)[()])
    with pytest.raises(AssertionError, match="key='b'"):
        wf.testing.assert_equal({"a": x, "b": x}, {"a": x, "b": x + 1})


@pytest.mark.parametrize("module", [wf, wf.testing, wf.linalg, wf.fft, wf.random, wf.emath], ids=lambda m: m.__name__)
def test_functions_may_be_pickled(module: Any) -> None:
    """By their names, as Python's functions are."""
    named = {name: getattr(module, name) for name in dir(module) if name[0] != "_"}
    functions = {name: f for name, f in named.items() if inspect.isroutine(f)}
    assert len(functions) > 5
    for name, f in functions.items():
        assert pickle.loads(pickle.dumps(f)) is f, name
