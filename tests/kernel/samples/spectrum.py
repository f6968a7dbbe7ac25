"""Samples of Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.kernel.samples.arrays import numbers, strided
from tests.kernel.samples.complex import complexes
from tests.kernel.samples.sample import ErrorSample, Sample
from weft.errors import AxisError, DTypeError, ShapeError

HUGE = np.array([[1, np.inf, 0], [np.nan, 2, 3]])


def fft(rng: np.random.Generator) -> Iterable[Sample]:
    def params(*axes: int, inverse: bool = False, norm: str = "backward") -> dict[str, Any]:
        return {"axes": axes, "inverse": inverse, "norm": norm}

    yield Sample((complexes(rng, (0, 3)),), params(1), "zero")
    yield Sample((complexes(rng, (1, 1)),), params(0, inverse=True), "one")
    yield Sample((complexes(rng, (7, 13)),), params(0, 1), "prime")
    yield Sample((complexes(rng, (3, 1, 5), True),), params(2, inverse=True, norm="ortho"), "broadcast")
    yield Sample((complexes(rng, (5, 6)).T[::2],), params(1, norm="forward"), "strided")
    yield Sample((HUGE.astype(np.complex64),), params(1), "special")
    yield Sample((complexes(rng, (2, 4), True),), params(1, 0, inverse=True, norm="forward"))


def fft_errors() -> Iterable[ErrorSample]:
    good = {"axes": (0,), "inverse": False, "norm": "backward"}
    x = np.ones((2, 0), np.complex64)
    yield ErrorSample((np.ones(3, np.float32),), good, DTypeError, r"fft: x is float32, but must be complex64 or complex128")
    yield ErrorSample((x,), {**good, "axes": (2,)}, AxisError, r"fft: axis 2 is out of range")
    yield ErrorSample((x,), {**good, "axes": (1,)}, ShapeError, r"fft: x \(2, 0\) has no elements along axis 1")
    yield ErrorSample((x,), {**good, "norm": "none"}, ValueError, r"fft: norm 'none' must be 'backward', 'ortho' or 'forward'")


def rfft(rng: np.random.Generator) -> Iterable[Sample]:
    def params(axis: int, norm: str = "backward") -> dict[str, Any]:
        return {"axis": axis, "norm": norm}

    yield Sample((numbers(rng, (0, 3)),), params(1), "zero")
    yield Sample((numbers(rng, (1, 1)),), params(0), "one")
    yield Sample((numbers(rng, (7, 13)),), params(0, "ortho"), "prime")
    yield Sample((numbers(rng, (3, 1, 5)),), params(2, "forward"), "broadcast")
    yield Sample((strided(rng, (3, 6)),), params(1), "strided")
    yield Sample((HUGE.astype(np.float32),), params(1), "special")
    yield Sample((numbers(rng, (2, 4)),), params(1))


def rfft_errors() -> Iterable[ErrorSample]:
    good, x = {"axis": 0, "norm": "backward"}, np.ones((2, 0), np.float32)
    yield ErrorSample((np.ones(3, np.complex64),), good, DTypeError, r"rfft: x is complex64")
    yield ErrorSample((x,), {**good, "axis": 2}, AxisError, r"rfft: axis 2 is out of range")
    yield ErrorSample((x,), {**good, "axis": 1}, ShapeError, r"rfft: x \(2, 0\) has no elements along axis 1")


def irfft(rng: np.random.Generator) -> Iterable[Sample]:
    def params(axis: int, n: int, norm: str = "backward") -> dict[str, Any]:
        return {"axis": axis, "n": n, "norm": norm}

    yield Sample((complexes(rng, (0, 3)),), params(1, 4), "zero")
    yield Sample((complexes(rng, (1, 1)),), params(0, 1), "one")
    yield Sample((complexes(rng, (7, 13)),), params(0, 13, "ortho"), "prime")
    yield Sample((complexes(rng, (3, 1, 5), True),), params(2, 8, "forward"), "broadcast")
    yield Sample((complexes(rng, (5, 6)).T[::2],), params(1, 9), "strided")
    yield Sample((HUGE.astype(np.complex64),), params(1, 5), "special")
    yield Sample((complexes(rng, (2, 4), True),), params(1, 6))


def irfft_errors() -> Iterable[ErrorSample]:
    good, x = {"axis": 0, "n": 4, "norm": "backward"}, np.ones((3, 2), np.complex64)
    yield ErrorSample((x.real.astype(np.float32),), good, DTypeError, r"irfft: x is float32, but must be complex64")
    yield ErrorSample((x,), {**good, "n": 6}, ShapeError, r"irfft: x \(3, 2\) has 3 elements along axis 0, but n=6 needs 4")
    yield ErrorSample((x,), {**good, "axis": -1}, AxisError, r"irfft: axis -1 is out of range")
