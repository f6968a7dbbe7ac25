"""Samples of host primitives."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tests.kernel.samples.arrays import numbers, special, strided
from tests.kernel.samples.sample import ErrorSample, Sample
from weft.dtypes.formats import INT32
from weft.errors import AxisError


def argsort(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample((numbers(rng, (0, 3)),), {"axis": 0}, "zero")
    yield Sample((numbers(rng, (1, 1)),), {"axis": 1}, "one")
    yield Sample((numbers(rng, (7, 13)),), {"axis": 1}, "prime")
    yield Sample((numbers(rng, (7, 13)),), {"axis": 0}, "prime")
    yield Sample((numbers(rng, (3, 1, 5)),), {"axis": 2}, "broadcast")
    yield Sample((strided(rng, (3, 5)),), {"axis": 1}, "strided")
    yield Sample((special((3, 4)),), {"axis": 1}, "special")
    yield Sample((numbers(rng, (3, 40), INT32),), {"axis": 1})


def argsort_errors() -> Iterable[ErrorSample]:
    yield ErrorSample((np.ones((2, 3), np.float32),), {"axis": 2}, AxisError, r"argsort: axis 2 is out of range")


def sort(rng: np.random.Generator) -> Iterable[Sample]:
    yield from argsort(rng)
    yield Sample((numbers(rng, (4, 9)),), {"axis": 1}, "usual")


def sort_errors() -> Iterable[ErrorSample]:
    yield ErrorSample((np.ones((2, 3), np.float32),), {"axis": 2}, AxisError, r"sort: axis 2 is out of range")
