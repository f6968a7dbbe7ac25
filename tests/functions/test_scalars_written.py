"""Scalars that are written into arrays of other dtypes, or listed for them: what NumPy refuses is refused, the rest is cast."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from tests.functions.cases import INTEGERS

REALS = (*INTEGERS, "bool", "float16", "float32", "float64", "bfloat16")


def changed(x: Any, write: Callable[[Any], Any]) -> Any:
    write(x)
    return x


WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a[1]": lambda xp, a, x: a.__setitem__(1, x), "a[-1]": lambda xp, a, x: a.__setitem__(-1, x),
    "a[...]": lambda xp, a, x: a.__setitem__(..., x), "a[:]": lambda xp, a, x: a.__setitem__(slice(None), x),
    "a[1:]": lambda xp, a, x: a.__setitem__(slice(1, None), x), "a[1:][0]": lambda xp, a, x: a[1:].__setitem__(0, x),
    "a[()] of a view": lambda xp, a, x: a[1:2].reshape(()).__setitem__((), x), "fill": lambda xp, a, x: a.fill(x),
    "a[[0, 2]]": lambda xp, a, x: a.__setitem__([0, 2], x), "mask": lambda xp, a, x: a.__setitem__(a == 0, x),
    "a[:2] = [x, 1]": lambda xp, a, x: a.__setitem__(slice(0, 2), [x, 1]), "list": lambda xp, a, x: xp.array([x], dtype=a.dtype),
    "list of two": lambda xp, a, x: xp.array([x, x], dtype=a.dtype),
    "beside 1": lambda xp, a, x: xp.array([[1], [x]], dtype=a.dtype),
    "array": lambda xp, a, x: xp.array(x, dtype=a.dtype), "asarray": lambda xp, a, x: xp.asarray(x, dtype=a.dtype),
    "full": lambda xp, a, x: xp.full(2, x, dtype=a.dtype), "full_like": lambda xp, a, x: xp.full_like(a, x),
    "put": lambda xp, a, x: xp.put(a, [0], x), "place": lambda xp, a, x: xp.place(a, xp.array([True, False, True]), [x]),
    "copyto": lambda xp, a, x: xp.copyto(a, x, casting="unsafe"), "pad": lambda xp, a, x: xp.pad(a, 1, constant_values=x),
}

LOOKED = set(WAYS) - {"a[[0, 2]]", "mask", "array", "asarray", "full", "full_like", "put", "copyto", "pad"}


def numbers(dtype: str, limits: list[int], rng: np.random.Generator) -> list[Any]:
    """NumPy's scalars of a dtype: those near the limits of another, small ones, and what no integer is."""
    if dtype == "bool":
        return [np.False_, np.True_]
    near = [k + d for k in limits for d in (-1, 0, 1)] + rng.integers(-400, 400, 3).tolist() + [0, 1, -1]
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return [np.dtype(dtype).type(k) for k in near if info.min <= k <= info.max]
    form: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype).type
    with np.errstate(over="ignore"):
        return [form(k) for k in [*map(float, near), 2.7, -0.5, 127.5, -128.5, 1e30, np.nan, np.inf, -np.inf]]


def outcome(xp: Any, target: str, way: str, x: Any) -> Any:
    a = xp.zeros(3, dtype=target)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = WAYS[way](xp, a, x)
            return np.asarray(a if found is None else found)
    except (OverflowError, ValueError) as error:
        return type(error)


def meant(target: str, way: str, x: Any) -> Any:
    """What NumPy does, with bfloat16 as a float32, for ml_dtypes knows no infinite ones; and what lies beyond an integer is what
    weft's astype gives, for NumPy's differs among machines. Unsigned integers are given no float that 64 bits do not hold."""
    if target.startswith("u") and way in LOOKED and not isinstance(x, np.integer | np.bool_):
        if not -(2.0**63) <= float(x) < 2.0**64:
            return ValueError if x != x else OverflowError
    want = outcome(np, target, way, np.float32(x) if isinstance(x, ml_dtypes.bfloat16) else x)
    if isinstance(want, type) or isinstance(x, np.integer | np.bool_):
        return want
    return outcome(np, target, way, wf.array(x).astype(target).numpy()[()])


@pytest.mark.drawn(70)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", (*INTEGERS, "bool"))
def test_every_number_in_every_way(target: str, way: str, rng: np.random.Generator) -> None:
    """Scalars of weft, and NumPy's own, which are the same to arrays of weft."""
    info = np.iinfo(np.uint8 if target == "bool" else target)
    refused = 0
    for dtype in REALS:
        given = numbers(dtype, [int(info.min), int(info.max)], rng)
        for x in [given[k] for k in rng.permutation(len(given))[:6]]:
            want = meant(target, way, x)
            for ours in (wf.array(x)[()], x):
                got = outcome(wf, target, way, ours)
                where = f"{way}: {dtype}({x}) into {target}, as {type(ours).__name__}"
                if isinstance(want, type):
                    assert got is want, where
                    refused += 1
                else:
                    assert not isinstance(got, type) and got.dtype == want.dtype, where
                    np.testing.assert_array_equal(got, want, where)
    assert not refused or ((way in LOOKED or way == "pad") and np.dtype(target).kind in "iu")


def test_arrays_without_dimensions_are_cast() -> None:
    """They are no scalars, of either library."""
    for x in (wf.array(300), np.array(300), wf.array(300.5)):
        a = wf.zeros(3, dtype="int8")
        a[0], a[1:2] = x, x
        a[2:] = wf.array([x], dtype="int8")
        assert a.tolist() == [44] * 3


def test_pending_numbers_are_looked_at_and_nothing_is_written() -> None:
    large = wf.full(300_000, 200, dtype="int64")
    for size in (3, 300_000):
        a = wf.ones(size, dtype="int8")
        for write in (
            lambda a=a: a.__setitem__(0, large.sum()), lambda a=a: a.__setitem__(..., (large * 2).max()),
            lambda a=a: a.fill(wf.float32(1) / wf.zeros(2)[0]), lambda a=a: a.__setitem__(slice(1, 3), [1, large[7]]),
        ):
            with pytest.raises(OverflowError):
                write()
            assert (a == 1).all()
        a[0] = (large - 100).min()
        assert a[0] == 100


def test_the_sentence_is_that_of_python_numbers() -> None:
    a = wf.zeros(3, dtype="int8")
    for x in (300, wf.int64(300), np.int64(300), wf.float32(300.5), wf.bfloat16(300)):
        for call, name in (
            (lambda x=x: a.__setitem__(0, x), ""), (lambda x=x: a.fill(x), "fill: value: "),
            (lambda x=x: wf.array([1, x], dtype="int8"), r"array: object\[1\]: "),
        ):
            with pytest.raises(OverflowError, match=f"^{name}the Python integer 300 is out of bounds for int8; cast the array"):
                call()
    for x in (wf.float64("nan"), wf.bfloat16("nan")):
        with pytest.raises(ValueError, match=r"^fill: value: nan cannot be held by int8: integers have no NaN"):
            a.fill(x)
    assert a.tolist() == [0] * 3


def test_traces_look_at_nothing_and_gradients_do() -> None:
    def kept(x: wf.Array) -> wf.Array:
        a = wf.zeros(2, dtype="int8")
        a[0] = x.sum()
        a[1:] = [x[0]]
        return (a * x[0]).sum()

    many, few = wf.array([300.0, 2.0]), wf.array([30.0, 2.0])
    assert wf.jit(kept)(few) == kept(few) == wf.vmap(kept)(few[None])[0]
    assert wf.jit(kept)(many).dtype == wf.float32  # whatever it is
    np.testing.assert_array_equal(wf.grad(kept)(few), [62.0, 0.0])
    with pytest.raises(OverflowError, match="302 is out of bounds for int8"):
        wf.grad(kept)(many)


@pytest.mark.parametrize("value", [[1, 2], (3,), [], np.ones(2), np.ones((1, 1)), "array"])
def test_fill_takes_one_number(value: Any) -> None:
    given = wf.ones(1) if isinstance(value, str) else value
    with pytest.raises(ValueError):
        np.zeros((2, 2)).fill(np.ones(1) if isinstance(value, str) else value)
    with pytest.raises(ValueError, match=r"^fill: value has shape \(.*\); one number is needed"):
        wf.zeros((2, 2)).fill(given)
    for fine in (2, 2.5, True, wf.float32(2), wf.array(2), np.array(2)):
        a = wf.zeros((2, 2))
        a.fill(fine)
        assert (a == float(fine)).all()
