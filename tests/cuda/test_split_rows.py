"""Long rows cut among programs: positions of extremes and running folds, whatever lies at the seams of the pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests import oracle
from tests.cuda.resources import usage
from weft.devices.cuda import adapter, split_work
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.generate import generate
from weft.devices.cuda.target import GPU
from weft.dtypes.rounding import convert_array
from weft.schedule.build import build
from weft.schedule.program import calls

pytest.importorskip("triton")

KINDS = ("float32", "float64", "float16", "bfloat16", "float8_e5m2", "int8", "uint8", "int32", "int64", "uint64", "bool")
# rows that lie in memory as such and columns of it, at lengths around those of pieces, of tiles, and where cutting begins
SHAPES = [((n,), 0) for n in (2049, 3072, 3073, 5000)] + [((3, 4097), 1), ((2, 2, 2500), 2), ((2050, 5), 0), ((2, 3000, 3), 1)]


@pytest.fixture
def short() -> Iterator[None]:
    """Rows are cut that are much shorter than those that it pays for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_work, "LONG", (2048, 2048))
        patch.setattr(split_work, "MIN_COLUMNS", (1024, 512))
        yield


def launches(f: Any, *arguments: Any) -> list[Launch]:
    graph = wf.jit(f).trace(*arguments).graph
    return [launch for call in calls(build(graph, GPU)) for launch in generate(call.kernel).launches]


def is_cut(f: Any, *arguments: Any) -> bool:
    return any(launch.grid[1] > 1 for launch in launches(f, *arguments))


def there(f: Any, *arrays: np.ndarray) -> Any:
    """Computed on gpu-sim."""
    with wf.device("gpu-sim"):
        return wf.jit(f)(*map(wf.array, arrays)).numpy()


def drawn(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Few different numbers, so that the most extreme stands in many places."""
    x = rng.integers(0, 2 if kind == "bool" else 7, shape)
    return in_dtype(x - (3 if "float" in kind else 0), wf.array(0, dtype=kind).numpy().dtype)


def in_dtype(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers that are rounded once, or whole."""
    return np.asarray(convert_array(np.asarray(x, np.float64), dtype))


@pytest.mark.drawn(24)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_positions(shape: tuple[int, ...], axis: int, kind: str, short: None) -> None:
    """The first of equal ones; the first NaN; infinities alone; beside another reduction of the same rows."""
    rng = oracle.rng()
    x = drawn(rng, shape, kind)
    assert is_cut(lambda x: wf.argmax(x, axis=axis), wf.array(x))
    wide = x.astype(np.float64)
    samples = [x]
    if "float" in kind:
        with_nans, infinite = x.copy(), np.full_like(x, -np.inf)
        with_nans.reshape(-1)[rng.integers(x.size // 2, x.size, 4)] = np.nan
        samples += [with_nans, infinite]
    for x in samples:
        wide = x.astype(np.float64)
        for name in ("argmax", "argmin"):
            found = there(lambda x, name=name: getattr(wf, name)(x, axis=axis), x)
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, getattr(np, name)(wide, axis=axis))
    both = there(lambda x: wf.argmax(x, axis=axis) * 100 + wf.sum(x != 0, axis=axis), samples[0])
    wide = samples[0].astype(np.float64)
    np.testing.assert_array_equal(both, np.argmax(wide, axis=axis) * 100 + (wide != 0).sum(axis=axis))


@pytest.mark.drawn(24)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_running_sums(shape: tuple[int, ...], axis: int, kind: str, short: None) -> None:
    """Of small integers, which every format but the narrow floats adds up without rounding; these add up in float32."""
    x = drawn(oracle.rng(), shape, kind)
    assert len([x for x in launches(lambda x: wf.cumsum(x, axis=axis), wf.array(x)) if x.grid[1] > 1]) == 2
    want = np.cumsum(x.astype(np.float64), axis=axis)
    found = there(lambda x: wf.cumsum(x, axis=axis), x)
    assert found.dtype == wf.cumsum(wf.array(x), axis=axis).numpy().dtype
    np.testing.assert_array_equal(found, in_dtype(want, found.dtype))


@pytest.mark.drawn(24)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_running_extremes(name: str, shape: tuple[int, ...], axis: int, kind: str, short: None) -> None:
    """Few different numbers, zeros of both signs among them; NaN and infinities."""
    rng = oracle.rng()
    x = drawn(rng, shape, kind)
    f = getattr(wf, name).accumulate
    assert len([x for x in launches(lambda x: f(x, axis=axis), wf.array(x)) if x.grid[1] > 1]) == 2
    samples = [x]
    if "float" in kind:
        special = (x * rng.choice(np.array([-0.0, 1.0]), x.shape)).astype(x.dtype)
        special.reshape(-1)[rng.integers(x.size // 2, x.size, 3)] = np.nan
        samples += [special, np.where(rng.random(x.shape) < 0.1, x, -np.inf).astype(x.dtype)]
    for x in samples:
        here = f(wf.array(x), axis=axis).numpy()
        found = there(lambda x: f(x, axis=axis), x)
        assert found.dtype == here.dtype
        want = getattr(np, name).accumulate(x.astype(np.float64), axis=axis)
        for got in (found.astype(np.float64), here.astype(np.float64)):
            np.testing.assert_array_equal(got, want)
        zeros = want == 0
        np.testing.assert_array_equal(np.signbit(found.astype(np.float64))[zeros], np.signbit(here.astype(np.float64))[zeros])


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int64", "uint8"])
@pytest.mark.parametrize(("shape", "axis"), [((300,), 0), ((3, 70), 1), ((70, 5), 0), ((2, 30, 3), 1)], ids=str)
def test_running_products(shape: tuple[int, ...], axis: int, kind: str) -> None:
    """In order: what goes beyond the largest number on the way stays there, and what reaches 0."""
    rng = oracle.rng()
    x = drawn(rng, shape, kind) if "int" in kind else in_dtype(rng.choice([0.5, 1.0, -2.0, 4.0], shape), np.dtype(kind))
    found = there(lambda x: wf.cumprod(x, axis=axis), x)
    want = wf.cumprod(wf.array(x), axis=axis).numpy()
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_running_sums_of_any_numbers(kind: str, short: None) -> None:
    rng = oracle.rng()
    for shape, axis in SHAPES:
        x = in_dtype(rng.normal(size=shape), wf.array(0, dtype=kind).numpy().dtype)
        want = np.cumsum(x.astype(np.float64), axis=axis)
        found = there(lambda x, axis=axis: wf.cumsum(x, axis=axis), x).astype(np.float64)
        unit = 2.0 ** {"float64": -53, "float16": -11, "bfloat16": -8}.get(kind, -24)
        terms = np.cumsum(abs(x.astype(np.float64)), axis=axis)
        exact = 2.0 ** (-53 if kind == "float64" else -24)  # of what is added up, then one rounding
        assert (abs(found - want) <= 100 * exact * terms + unit * abs(want)).all()


def test_what_is_not_finite_stays_where_it_is(short: None) -> None:
    """An infinity or NaN in one piece reaches those behind it alone."""
    x = oracle.rng().normal(size=5000).astype(np.float32)
    x[2500] = np.inf
    x[4000] = np.nan
    found = there(lambda x: wf.cumsum(x), x)
    assert np.isfinite(found[:2500]).all() and (found[2500:4000] == np.inf).all() and np.isnan(found[4000:]).all()


STEPS = {
    "in place": lambda a: a.__setitem__(..., wf.cumsum(a, axis=0)),
    "backwards": lambda a: a.__setitem__(..., wf.cumsum(a[::-1], axis=0)),
    "to a part": lambda a: a.__setitem__(slice(1, None), wf.cumsum(a, axis=0)[:-1]),
    "shares": lambda a: a.__setitem__(..., wf.cumsum(a / abs(a).sum(axis=0), axis=0) - a),
    "so far": lambda a: a.__setitem__(..., wf.maximum.accumulate(a - wf.minimum.accumulate(a[::-1], axis=0), axis=0)),
    "of positions": lambda a: a.__setitem__(..., a + wf.argmax(a, axis=0) - wf.argmin(a[::-1], axis=0)),
    "twice": lambda a: a.__setitem__(..., wf.cumsum(wf.cumsum(a, axis=0) / 100, axis=0)),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("shape", [(5000,), (3000, 3)], ids=str)
def test_programs(name: str, shape: tuple[int, ...], short: None) -> None:
    """As on the CPU, where what is read may be written over."""
    x = oracle.rng().normal(size=shape).astype(np.float32)
    results = []
    for device in ("cpu", "gpu-sim"):
        with wf.device(device):
            a = wf.array(x)
            step = wf.jit(lambda a: STEPS[name](a))
            step(a)
            step(a)
            results.append(a.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=2e-5 * abs(results[0]).max())  # sums of sums cancel


def test_derivatives(short: None) -> None:
    x = oracle.rng().normal(size=(2, 3000)).astype(np.float32)
    found = there(wf.grad(lambda x: (wf.cumsum(x, axis=1) ** 2).mean()), x)
    sums = np.cumsum(x.astype(np.float64), axis=1)
    want = (np.cumsum(sums[:, ::-1], axis=1)[:, ::-1]) * 2 / x.size
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_compiled(capability: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    found = [
        launch for kind in ("float32", "bfloat16", "int64") for shape, axis in (((3, 100_000), 1), ((100_000, 3), 0))
        for f in (wf.argmax, wf.cumsum, wf.minimum.accumulate, wf.cumprod)
        for launch in launches(lambda x, f=f, axis=axis: f(x, axis=axis), wf.zeros(shape, dtype=kind))
    ]
    assert len([launch for launch in found if launch.grid[1] > 1]) >= 34
    for launch in {launch.text: launch for launch in found}.values():
        code = adapter.compile_launch(launch, capability)
        used = usage(code)
        assert used.registers * 32 * code.warps <= 65536 and code.scratch == 0 and used.stack == 0, launch.text
