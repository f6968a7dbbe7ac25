"""Lists of Python's numbers beside scalars and arrays have NumPy's dtypes: each number counts as the array it would be alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.functions.cases import INTEGERS
from weft.runtime.context import CONTEXT

DTYPES = (*INTEGERS, "bool", "float16", "float32", "float64")
LARGE = (2**31, 70_000, -300, 16_777_217, 2**53 + 1, 2**63)


def number(rng: np.random.Generator) -> Any:
    """One of Python's numbers, or one with a dtype."""
    kind = rng.integers(8)
    if kind == 0:
        return bool(rng.integers(2))
    if kind == 1:
        return int(rng.integers(-3, 300))
    if kind == 2:
        return LARGE[rng.integers(len(LARGE))]
    if kind == 3:
        return float(rng.normal())
    return np.asarray(rng.integers(0, 100)).astype(str(rng.choice(DTYPES)))[()]


def nested(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Lists of numbers that have a shape, some of whose parts are arrays."""
    if not shape:
        return number(rng)
    if rng.random() < 0.25:
        return rng.integers(0, 100, shape).astype(str(rng.choice(DTYPES)))
    return [nested(rng, shape[1:]) for _ in range(shape[0])]


def mapped(f: Any, x: Any) -> Any:
    return [mapped(f, part) for part in x] if isinstance(x, list) else f(x)


def leaves(x: Any) -> Iterator[Any]:
    for part in x:
        yield from leaves(part) if isinstance(part, list) else (part,)


def ours(x: Any) -> Any:
    """What has a dtype as weft's."""
    return wf.array(x) if isinstance(x, np.ndarray) else wf.array(x)[()] if isinstance(x, np.generic) else x


def given(rng: np.random.Generator) -> list[Any]:
    """A list with something in it that has a dtype."""
    while True:
        shape = (*rng.integers(1, 4, rng.integers(0, 3)).tolist(), int(rng.integers(0, 4)))
        x = nested(rng, shape)
        if isinstance(x, list) and any(isinstance(leaf, np.generic | np.ndarray) for leaf in leaves(x)):
            return x


@pytest.fixture
def wide() -> Iterator[None]:
    with wf.default_dtype("float64"):
        yield


def same(got: wf.Array, want: np.ndarray, text: str) -> None:
    assert got.dtype == want.dtype and got.shape == want.shape, text
    np.testing.assert_array_equal(got.numpy(), want, text)


def test_arrays_of_lists(rng: np.random.Generator, wide: None) -> None:
    for _ in range(300):
        x = given(rng)
        same(wf.array(mapped(ours, x)), np.array(x), str(x))


def test_joined(rng: np.random.Generator, wide: None) -> None:
    """What joins makes arrays of what it is given, lists and numbers."""
    for _ in range(60):
        x = [number(rng) for _ in range(3)]
        for name in ("stack", "hstack", "vstack", "column_stack", "block"):
            same(getattr(wf, name)(mapped(ours, x)), getattr(np, name)(x), f"{name}: {x}")
        lists = [[number(rng) for _ in range(rng.integers(1, 3))] for _ in range(3)]
        for name in ("concatenate", "hstack"):
            same(getattr(wf, name)(mapped(ours, lists)), getattr(np, name)(lists), f"{name}: {lists}")


def test_traced(rng: np.random.Generator, wide: None) -> None:
    """Dtypes and shapes are the same where no value is known: of arrays, scalars, floats and ints that are arguments."""
    for _ in range(12):
        x = given(rng)
        found: list[Any] = []
        form = mapped(lambda leaf, found=found: found.append(leaf) or len(found) - 1, x)  # type: ignore[func-returns-value]
        f = wf.jit(lambda *args, form=form: wf.array(mapped(lambda k: args[k], form)))
        same(f(*map(ours, found)), np.array(x), str(x))


@pytest.mark.parametrize("dtype", (*DTYPES, "bfloat16", "complex64"))
def test_float32_is_the_default(dtype: str) -> None:
    """By default floats are float32, and mix as arrays do."""
    one = wf.ones((), dtype=dtype)[()]
    for x in (True, 3, 0.1, 1j, -1):
        want = wf.result_type(dtype, wf.array(x).dtype)
        for got in (wf.array([one, x]), wf.array([[x], [one]]), wf.stack([x, one]), wf.jit(lambda y, x=x: wf.array([y, x]))(one)):
            assert got.dtype == want, (dtype, x)
    with wf.default_dtype("float64"):
        assert float(wf.array([one, 0.1])[1].real) == 0.1


def test_no_digit_is_lost_on_the_way() -> None:
    wide = wf.float64(1)
    for got in (wf.array([wide, 0.1]), wf.stack([0.1, wide]), wf.r_[wf.ones(1, dtype="float64"), 0.1], wf.array([[0.1], [wide]])):
        assert got.dtype == wf.float64 and 0.1 in got.ravel().tolist()
    assert wf.array([wf.uint8(1), 2**63]).tolist() == [1, 2**63]
    with pytest.raises(OverflowError, match=r"^array: object\[1\]: the Python integer 18446744073709551616 is out of bounds"):
        wf.array([wf.int8(1), 2**64])
    with pytest.raises(OverflowError, match="-1 is out of bounds for uint8"):
        wf.r_[wf.ones(2, dtype="uint8"), -1]  # where a number takes the dtype of the arrays, as in NumPy


def test_narrow_floats_are_refused() -> None:
    with pytest.raises(wf.errors.DTypeError, match="float8_e5m2 and float32 do not mix"):
        wf.array([wf.float8_e5m2(1), 0.5])
    assert wf.array([wf.float8_e5m2(1), True]).dtype == wf.float8_e5m2


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "bool", "complex64"])
def test_lists_without_elements(dtype: str) -> None:
    """They have a shape, and no say in the dtype."""
    def lists(xp: Any) -> list[Any]:
        none, thin = xp.zeros(0, dtype=dtype), xp.zeros((1, 0), dtype=dtype)
        return [[none, []], [[], none], [[[]], thin], [[[], []], [none, []]], [(), none, []], [[[], none], [[], []]]]

    for a, b in zip(lists(wf), lists(np), strict=True):
        same(wf.array(a), np.array(b), str(b))
        assert wf.jit(lambda a=a: wf.array(a))().shape == np.array(b).shape
    for bad in ([wf.ones(1), []], [[], [wf.float32(1)]], [[[]], wf.zeros(0)]):
        with pytest.raises(wf.errors.ShapeError, match="different shapes"):
            wf.array(bad)


def test_derivatives_go_through_lists() -> None:
    """Of lists of scalars alone, too, whose values are there."""
    x = wf.float32(2.0)
    for f, slope in (
        (lambda s: wf.array([s, s * s]).sum(), 5.0), (lambda s: wf.array([s, s]).sum(), 2.0),
        (lambda s: wf.stack([s, 1, s]).sum(), 2.0), (lambda s: wf.array([s, s], dtype="float64").sum(), 2.0),
        (lambda s: (wf.array([[s, 0.5]]) ** 2).sum(), 4.0),
    ):
        assert float(wf.grad(f)(x)) == slope
        assert float(wf.jit(wf.grad(f))(x)) == slope
    assert math.isclose(float(wf.grad(lambda s: wf.array([s, 2]) @ wf.array([s, 1.0]))(x)), 4.0)


def of_one_dtype(rng: np.random.Generator, base: np.ndarray, ours: wf.Array) -> tuple[Any, Any]:
    """A list of parts of an array, views and not, nested or not, sometimes with one that does not fit: NumPy's and weft's."""
    makes = [
        lambda a, k: a[k], lambda a, k: a[k, 1], lambda a, k: a[:, k], lambda a, k: a[k] + a[0], lambda a, k: a[k : k + 1],
        lambda a, k: a.T[k], lambda a, k: a[0].copy(), lambda a, k: a[k].reshape(2, -1), lambda a, k: a[k, :0],
    ]
    make, count = makes[rng.integers(len(makes))], int(rng.integers(1, 7))
    places = [int(rng.integers(base.shape[0])) for _ in range(count)]
    parts = [[make(a, k) for k in places] for a in (base, ours)]
    if rng.random() < 0.3:
        parts = [[[p, p] for p in given] for given in parts]
    if rng.random() < 0.1:
        odd = base[0, :2].astype("float64") if base.dtype.kind != "c" else base[0, :2]
        parts[0].append(odd)
        parts[1].append(wf.array(odd))
    return parts[0], parts[1]


@pytest.mark.parametrize("limit", [0, 16, 128 << 10])
def test_lists_of_parts_of_an_array(limit: int, rng: np.random.Generator, wide: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied at once where all is small and has a value, else stacked; what is written later is not seen in them."""
    monkeypatch.setattr(CONTEXT, "max_eager_bytes", limit)
    for _ in range(60):
        base = rng.integers(-9, 9, (4, 4)).astype(rng.choice(["int64", "float32", "bool", "complex64", "uint8"]))
        ours = wf.array(base)
        theirs, mine = of_one_dtype(rng, base, ours)
        try:
            want = np.array(theirs)
        except ValueError:  # they do not fit
            with pytest.raises(wf.errors.ShapeError):
                wf.array(mine)
            continue
        made = wf.array(mine)
        same(made, want, str(theirs))
        ours[...] = 0
        same(made, want, str(theirs))


def test_long_lists_compile_nothing(rng: np.random.Generator) -> None:
    base = rng.standard_normal((3000, 4)).astype("float32")
    x = wf.array(base)
    before = wf.devices.counters()
    for shape, make in (((3000, 4), lambda: [x[k] for k in range(3000)]), ((3000, 2), lambda: [[r[0], r[1]] for r in x]),
                        ((3000, 4), lambda: wf.stack([x[k] for k in range(3000)])), ((3000, 4), lambda: wf.vstack([*x])),
                        ((12000,), lambda: wf.concatenate([*x])), ((3000, 2), lambda: [[r[0], 1.5] for r in x])):
        assert wf.array(make()).shape == shape
    after = wf.devices.counters()
    assert (after["compiles"], after["cache_hits"]) == (before["compiles"], before["cache_hits"])
