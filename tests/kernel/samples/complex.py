"""Samples of what takes complex numbers apart and puts them together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tests.kernel.samples.arrays import numbers, special, strided
from tests.kernel.samples.sample import ErrorSample, Sample
from weft.dtypes.formats import COMPLEX64, FLOAT64
from weft.errors import DTypeError, ShapeError


def complexes(rng: np.random.Generator, shape: tuple[int, ...], wide: bool = False) -> np.ndarray:
    """Random complex numbers around zero."""
    found = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return np.asarray(found, np.complex128 if wide else np.complex64)


def one(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample((complexes(rng, (0, 3)),), tag="zero")
    yield Sample((complexes(rng, (1, 1)),), tag="one")
    yield Sample((complexes(rng, (7, 13)),), tag="prime")
    yield Sample((complexes(rng, (3, 1, 5), True),), tag="broadcast")
    yield Sample((complexes(rng, (5, 6)).T[::2],), tag="strided")
    yield Sample((np.array([1j, -1j, np.inf, 1j * np.inf, np.nan, -0.0], np.complex64),), tag="special")
    yield Sample((complexes(rng, (2, 3), True),))


def one_errors(name: str) -> Iterable[ErrorSample]:
    yield ErrorSample((np.ones(3, np.float32),), {}, DTypeError, rf"{name}: x is float32, but must be complex64 or complex128")


real = imag = conj = one


def real_errors() -> Iterable[ErrorSample]:
    return one_errors("real")


def imag_errors() -> Iterable[ErrorSample]:
    return one_errors("imag")


def conj_errors() -> Iterable[ErrorSample]:
    return one_errors("conj")


def complex(rng: np.random.Generator) -> Iterable[Sample]:  # noqa: A001  the primitive's name
    yield Sample((numbers(rng, (0, 3)), numbers(rng, (0, 3))), tag="zero")
    yield Sample((numbers(rng, (1, 1)), numbers(rng, (1, 1))), tag="one")
    yield Sample((numbers(rng, (7, 13)), numbers(rng, (7, 13))), tag="prime")
    yield Sample((numbers(rng, (4, 1), FLOAT64), numbers(rng, (3, 1, 5), FLOAT64)), tag="broadcast")
    yield Sample((strided(rng, (3, 5)), strided(rng, (3, 5))), tag="strided")
    yield Sample((special((12,)), special((12,), turn=3)), tag="special")
    yield Sample((numbers(rng, ()), numbers(rng, (2, 3))))


def complex_errors() -> Iterable[ErrorSample]:
    x = np.ones(3, np.float32)
    yield ErrorSample((x, x.astype(np.float64)), {}, DTypeError, r"complex: dtypes differ: x1 float32, x2 float64")
    yield ErrorSample((x, np.ones(4, np.float32)), {}, ShapeError, r"complex: shapes do not broadcast: x1 \(3,\), x2 \(4,\)")
    yield ErrorSample((x.astype(np.int32), x), {}, DTypeError, r"complex: x1 is int32")


def constants(rng: np.random.Generator) -> Iterable[Sample]:
    for tag, value in (("zero", 0), ("one", 1j), ("prime", 3 - 2j), ("usual", complexes(rng, (), True)[()])):
        yield Sample((), {"value": COMPLEX64.numpy.type(value)}, tag)
    yield Sample((), {"value": np.complex128(2.5j)})


def constants_errors() -> Iterable[ErrorSample]:
    yield ErrorSample((), {"value": 1.5}, DTypeError, r"complex_constant: value 1.5 must be a complex number")
