"""Samples of reductions and running folds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.kernel.samples.arrays import numbers, special, strided, wide_formats
from tests.kernel.samples.sample import ErrorSample, Sample
from weft.dtypes.formats import BOOL, FLOAT32, INT32, Format
from weft.errors import AxisError, DTypeError, ShapeError


def reductions(allowed: frozenset[Format], identity: bool, rng: np.random.Generator) -> Iterable[Sample]:
    def make(
        shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool, tag: str = "usual", dtype: Any = FLOAT32
    ) -> Sample:
        # few distinct numbers, so that extremes have equals; near 1, so that products stay finite
        values = numbers(rng, shape, INT32, (-4, 4)) / 4 if dtype == FLOAT32 else numbers(rng, shape, dtype)
        return Sample((values.astype(dtype.numpy),), {"axes": axes, "keepdims": keepdims}, tag)

    yield make((0, 3) if not identity else (3, 0), (1,), False, "zero")
    yield make((1, 1), (0, 1), False, "one")
    yield make((7, 13), (1,), True, "prime")
    yield make((7, 13), (0,), False, "prime")
    yield make((3, 1, 5), (0, 2), False, "broadcast")
    yield make((3, 4, 5), (1,), True)
    yield make((2, 3), (), False)
    yield Sample((strided(rng, (3, 5)),), {"axes": (1,), "keepdims": False}, "strided")
    for k in range(3):
        yield Sample((special((3, 4), turn=k),), {"axes": (1,), "keepdims": False}, "special")
    for dtype in sorted(wide_formats(allowed) - {FLOAT32}, key=lambda t: t.name):
        yield make((3, 4), (0,), False, dtype=dtype)


def reduction_errors(name: str, allowed: frozenset[Format], identity: bool) -> Iterable[ErrorSample]:
    x = np.ones((2, 3), np.float32)
    yield ErrorSample((x,), {"axes": (2,), "keepdims": False}, AxisError, rf"{name}: axes \(2,\) is out of range")
    yield ErrorSample((x,), {"axes": (0, 0), "keepdims": False}, AxisError, rf"{name}: axes \(0, 0\) names an axis twice")
    if BOOL not in allowed:
        yield ErrorSample((x > 0,), {"axes": (0,), "keepdims": False}, DTypeError, rf"{name}: x is bool.*astype")
    if not identity:
        yield ErrorSample((x[:0],), {"axes": (0,), "keepdims": False}, ShapeError, rf"{name}: x \(0, 3\) has no elements")


def cumulative(allowed: frozenset[Format], rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample((numbers(rng, (0, 3)),), {"axis": 0}, "zero")
    yield Sample((numbers(rng, (1, 1)),), {"axis": 0}, "one")
    yield Sample((numbers(rng, (7, 13)),), {"axis": 1}, "prime")
    yield Sample((numbers(rng, (3, 1, 5)),), {"axis": 1}, "broadcast")
    yield Sample((strided(rng, (3, 5)),), {"axis": 0}, "strided")
    for k in range(3):
        yield Sample((special((3, 4), turn=k),), {"axis": 1}, "special")
    for dtype in sorted(wide_formats(allowed) - {FLOAT32}, key=lambda t: t.name):
        yield Sample((numbers(rng, (3, 4), dtype),), {"axis": 0})
    for dtype in sorted(wide_formats(allowed), key=lambda t: t.name):
        yield Sample((numbers(rng, (97,), dtype),), {"axis": 0}, "one axis")


def cumulative_errors(name: str, allowed: frozenset[Format]) -> Iterable[ErrorSample]:
    x = np.ones((2, 3), np.float32)
    yield ErrorSample((x,), {"axis": 2}, AxisError, rf"{name}: axis 2 is out of range for an array of 2 dim")
    if BOOL not in allowed:
        yield ErrorSample((x > 0,), {"axis": 0}, DTypeError, rf"{name}: x is bool.*astype")
