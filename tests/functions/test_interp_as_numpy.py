"""``interp`` where heights are infinite, NaN, equal or complex: NumPy's answers in all ways; derivatives are those of lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf

ODD = (0.0, -2.0, 1.5, 1.5, np.inf, -np.inf, np.nan)


@pytest.fixture
def wide() -> Iterator[None]:
    with wf.default_dtype("float64"):
        yield


def points(rng: np.random.Generator, odd: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places between, at and beyond points that ascend, some of them NaN, and what stands at the points. Periods of 2.71 never
    bring two points to one place, of which NumPy would leave open which comes first."""
    xp = np.cumsum(rng.integers(1, 4, rng.integers(1, 7)) / 2)
    fp = rng.choice(ODD, xp.size) if odd else rng.normal(size=xp.size)
    between = rng.uniform(xp[0], xp[-1] + 1e-9, 6)
    return rng.permutation([*xp, *between, xp[0] - 1, xp[-1] + 1, np.nan]), xp, fp


def compared(args: tuple[Any, ...], options: dict[str, Any], text: str) -> None:
    """At once, compiled with all as arguments, compiled with what is known, and a number at a time."""
    want = np.interp(*args, **options)
    x, xp, fp = map(wf.array, args)
    each = wf.array([complex(wf.interp(v, xp, fp, **options)) for v in args[0]])
    later = wf.interp(wf.jit(lambda x: x + 0)(x), xp, fp, **options)
    for got in (
        wf.interp(x, xp, fp, **options), wf.jit(lambda *a: wf.interp(*a, **options))(x, xp, fp), later,
        wf.jit(lambda x: wf.interp(x, args[1], args[2], **options))(x), wf.interp(wf.tile(x, 3000), xp, fp, **options)[-x.size:],
    ):
        assert got.dtype == want.dtype, text
        np.testing.assert_allclose(got.numpy().view(float), want.view(float), rtol=1e-13, atol=1e-13, err_msg=text)
    if not np.iscomplexobj(want):
        np.testing.assert_allclose(each.real.numpy(), want, rtol=1e-13, atol=1e-13, err_msg=text)


@pytest.mark.parametrize("ends", ["none", "both", "period"])
def test_infinite_heights(ends: str, rng: np.random.Generator, wide: None) -> None:
    for _ in range(12):
        args = points(rng, True)
        options: dict[str, Any] = {"none": {}, "both": {"left": -7.0, "right": np.inf}, "period": {"period": 2.71}}[ends]
        compared(args, options, f"{args} {options}")


@pytest.mark.parametrize("ends", ["none", "both", "period"])
def test_complex_heights(ends: str, rng: np.random.Generator, wide: None) -> None:
    """Each part is a line of its own."""
    for k in range(6):
        x, xp, re = points(rng, k % 2 == 1)
        fp = np.empty(re.size, np.complex128)
        fp.real, fp.imag = re, rng.permutation(re)
        options: dict[str, Any] = {"none": {}, "both": {"left": 1 - 2j, "right": 3j}, "period": {"period": -2.71}}[ends]
        compared((x, xp, fp), options, f"{x} {xp} {fp}")


@pytest.mark.parametrize("period", [None, 2.71, -2.71, np.inf])
def test_infinite_places(period: float | None, rng: np.random.Generator, wide: None) -> None:
    """With a period they lie nowhere: NaN, and of complex heights 0 as the imaginary part."""
    for count in (1, 3):
        xp, re = np.cumsum(rng.integers(1, 4, count) / 2), rng.normal(size=count)
        x = np.array([np.inf, -np.inf, np.nan, xp[0]])
        with np.errstate(all="ignore"):
            compared((x, xp, re + 1j * rng.normal(size=count)), {"period": period}, f"{xp} {period}")
            compared((x, xp, re), {"period": period}, f"{xp} {period}")


def test_dtypes_of_complex_heights() -> None:
    line = [1j, 2.0]
    assert wf.interp(0.5, [0, 1], line).dtype == wf.complex64 and wf.interp(wf.float64(0.5), [0, 1], line).dtype == wf.complex128
    for bad in ((wf.ones(1) * 1j, [0, 1], line), (0.5, [0, 1j], line)):
        with pytest.raises(wf.errors.DTypeError, match=r"^interp: xp? is complex64; coordinates must be real"):
            wf.interp(*bad)


def test_derivatives_are_those_of_lines(rng: np.random.Generator) -> None:
    """Between points the slope, at a point that of the line behind it; an infinite height elsewhere changes nothing."""
    xp, fp = wf.array([0.0, 1.0, 2.0, 4.0]), wf.array([1.0, 3.0, 0.0, 5.0])
    x = wf.array([0.25, 1.0, 1.5, 3.0])
    for last in (5.0, np.inf):
        heights = wf.where(wf.arange(4) == 3, last, fp)
        f = wf.grad(lambda x, h: wf.interp(x, xp, h)[:3].sum(), (0, 1))  # noqa: B023
        for of in (f, wf.jit(f)):
            by_x, by_height = of(x, heights)
            np.testing.assert_allclose(by_x.numpy()[:3], [2.0, -3.0, -3.0], rtol=1e-6)
            np.testing.assert_allclose(by_height.numpy()[:3], [0.75, 1.75, 0.5], rtol=1e-6)
