"""Samples of random_bits: any key and base, counters that pass 32 bits, shapes that end inside a block of four."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tests.kernel.samples.sample import ErrorSample, Sample
from weft.errors import DTypeError, ShapeError


def random_bits(rng: np.random.Generator) -> Iterable[Sample]:
    def make(shape: tuple[int, ...], tag: str = "usual", base: int = 0) -> Sample:
        key = np.array(rng.integers(0, 2**63), np.uint64)
        return Sample((key, np.array(base, np.uint64)), {"shape": shape}, tag)

    yield make((0, 3), "zero")
    yield make((1, 1), "one")
    yield make((7, 13), "prime", 5)
    yield make((3, 1, 5), "usual", 2**32 - 2)
    yield make((4, 8), "special", 2**64 - 3)
    for shape in ((0, 3), (1, 1), (7, 13), (3, 1, 5), (4, 8), (2, 80)):
        sample = make(shape, "usual", 2**64 - 3)
        yield Sample(sample.arrays, {"shape": shape, "bits": 16}, "usual")


def random_errors() -> Iterable[ErrorSample]:
    one = np.array(1, np.uint64)
    yield ErrorSample((one.astype(np.int64), one), {"shape": (3,)}, DTypeError, r"random_bits: key is int64, but must be uint64")
    yield ErrorSample((one, np.ones(2, np.uint64)), {"shape": (3,)}, ShapeError, r"random_bits: base \(2,\) must have shape \(\)")
    yield ErrorSample((one, one), {"shape": (-3,)}, ShapeError, r"random_bits: shape \(-3,\) has a negative extent")
