"""Samples of the primitives that only move data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.kernel.samples.arrays import numbers, special, strided
from tests.kernel.samples.sample import ErrorSample, Sample
from weft.dtypes.formats import BOOL, FLOAT32, INT32, INT64
from weft.errors import AxisError, DTypeError, ShapeError

_X = np.ones((2, 3), np.float32)
Rng = np.random.Generator
Samples = Iterable[Sample]
ErrorSamples = Iterable[ErrorSample]


def _error(params: dict[str, Any], error: type[Exception], match: str, *arrays: np.ndarray) -> ErrorSample:
    return ErrorSample(arrays or (_X,), params, error, match)


def reshape(rng: Rng) -> Samples:
    yield Sample((numbers(rng, (0, 3)),), {"shape": (3, 0, 2)}, "zero")
    yield Sample((numbers(rng, (1, 1)),), {"shape": ()}, "one")
    yield Sample((numbers(rng, (7, 13)),), {"shape": (13, 7)}, "prime")
    yield Sample((numbers(rng, (3, 1, 5)),), {"shape": (1, 15)}, "broadcast")
    yield Sample((strided(rng, (3, 4)),), {"shape": (2, 6)}, "strided")
    yield Sample((special((3, 4)),), {"shape": (12,)}, "special")
    yield Sample((numbers(rng, (3, 4), BOOL),), {"shape": (4, 3)})


def reshape_errors() -> ErrorSamples:
    yield _error({"shape": (4, 2)}, ShapeError, r"reshape: x \(2, 3\) has 6 elements, and shape \(4, 2\) would have 8")
    yield _error({"shape": (-2, -3)}, ShapeError, r"reshape: shape \(-2, -3\) has a negative extent")


def recompute(rng: Rng) -> Samples:
    yield Sample((numbers(rng, (0, 3)),), {}, "zero")
    yield Sample((numbers(rng, (1, 1)),), {}, "one")
    yield Sample((numbers(rng, (7, 13)),), {}, "prime")
    yield Sample((numbers(rng, (3, 1, 5)),), {}, "broadcast")
    yield Sample((strided(rng, (3, 4)),), {}, "strided")
    yield Sample((special((3, 4)),), {}, "special")
    yield Sample((numbers(rng, (2, 3), INT32),))


def recompute_errors() -> ErrorSamples:
    return ()


def permute(rng: Rng) -> Samples:
    yield Sample((numbers(rng, (0, 3)),), {"axes": (1, 0)}, "zero")
    yield Sample((numbers(rng, (1, 1)),), {"axes": (1, 0)}, "one")
    yield Sample((numbers(rng, (7, 13)),), {"axes": (1, 0)}, "prime")
    yield Sample((numbers(rng, (3, 1, 5)),), {"axes": (2, 0, 1)}, "broadcast")
    yield Sample((strided(rng, (3, 4)),), {"axes": (1, 0)}, "strided")
    yield Sample((special((3, 4)),), {"axes": (1, 0)}, "special")
    yield Sample((numbers(rng, (2, 3, 4, 5), INT32),), {"axes": (3, 1, 0, 2)})


def permute_errors() -> ErrorSamples:
    yield _error({"axes": (0, 2)}, AxisError, r"permute: axes \(0, 2\) is out of range for an array of 2 dim")
    yield _error({"axes": (0, 0)}, AxisError, r"permute: axes \(0, 0\) names an axis twice")
    yield _error({"axes": (1,)}, ShapeError, r"permute: axes \(1,\) must name each of the 2 dimensions of x \(2, 3\)")


def broadcast_to(rng: Rng) -> Samples:
    yield Sample((numbers(rng, (1, 3)),), {"shape": (0, 3)}, "zero")
    yield Sample((numbers(rng, (1, 1)),), {"shape": (1, 1)}, "one")
    yield Sample((numbers(rng, (13,)),), {"shape": (7, 13)}, "prime")
    yield Sample((numbers(rng, (3, 1, 5)),), {"shape": (2, 3, 4, 5)}, "broadcast")
    yield Sample((numbers(rng, ()),), {"shape": (2, 3)}, "broadcast")
    yield Sample((strided(rng, (3, 4)),), {"shape": (2, 3, 4)}, "strided")
    yield Sample((special((12,)),), {"shape": (2, 12)}, "special")
    yield Sample((numbers(rng, (3, 1), BOOL),), {"shape": (3, 4)})


def broadcast_errors() -> ErrorSamples:
    yield _error({"shape": (2, 4)}, ShapeError, r"broadcast_to: x \(2, 3\) does not broadcast to shape \(2, 4\)")
    yield _error({"shape": (3,)}, ShapeError, r"broadcast_to: x \(2, 3\) does not broadcast to shape \(3,\)")


def slice_(rng: Rng) -> Samples:
    def of(start: tuple[int, ...], step: tuple[int, ...], shape: tuple[int, ...]) -> dict[str, Any]:
        return {"start": start, "step": step, "shape": shape}

    yield Sample((numbers(rng, (4, 3)),), of((0, 0), (1, 1), (0, 3)), "zero")
    yield Sample((numbers(rng, (1, 1)),), of((0, 0), (1, 1), (1, 1)), "one")
    yield Sample((numbers(rng, (7, 13)),), of((2, 1), (1, 1), (4, 11)), "prime")
    yield Sample((numbers(rng, (7, 13)),), of((6, 12), (-2, -3), (4, 5)), "prime")
    yield Sample((numbers(rng, (3, 1, 5)),), of((2, 0, 4), (-1, 1, -1), (3, 1, 4)), "broadcast")
    yield Sample((strided(rng, (3, 5)),), of((0, 1), (1, 2), (3, 2)), "strided")
    yield Sample((special((3, 4)),), of((1, 0), (1, 1), (2, 4)), "special")
    yield Sample((numbers(rng, (5, 4), INT32),), of((4, 1), (-1, 1), (5, 1)))


def slice_errors() -> ErrorSamples:
    yield _error({"start": (0, 0), "step": (1, 1), "shape": (2, 4)}, ShapeError, r"slice: .*shape \(2, 4\) leave x \(2, 3\)")
    yield _error({"start": (0, 0), "step": (1, 0), "shape": (2, 2)}, ShapeError, r"slice: .*steps must not be 0")
    yield _error({"start": (0,), "step": (1,), "shape": (2,)}, ShapeError, r"slice: .* an entry for each dimension of x \(2, 3\)")


def pad(rng: Rng) -> Samples:
    yield Sample((numbers(rng, (0, 3)),), {"low": (0, 1), "high": (0, 0), "value": 0}, "zero")
    yield Sample((numbers(rng, (0, 3)),), {"low": (2, 1), "high": (0, 0), "value": 1}, "zero")
    yield Sample((numbers(rng, (1, 1)),), {"low": (1, 0), "high": (2, 1), "value": 3}, "one")
    yield Sample((numbers(rng, (7, 13)),), {"low": (3, 0), "high": (0, 5), "value": 0}, "prime")
    yield Sample((numbers(rng, (3, 1, 5)),), {"low": (0, 1, 2), "high": (1, 1, 0), "value": -1}, "broadcast")
    yield Sample((strided(rng, (3, 4)),), {"low": (1, 1), "high": (1, 1), "value": 0}, "strided")
    yield Sample((special((3, 4)),), {"low": (1, 1), "high": (1, 1), "value": float("-inf")}, "special")
    yield Sample((numbers(rng, (3, 4), INT32),), {"low": (0, 0), "high": (2, 2), "value": 7})


def pad_errors() -> ErrorSamples:
    yield _error({"low": (1,), "high": (1,), "value": 0}, ShapeError, r"pad: .* an entry for each dimension of x \(2, 3\)")
    yield _error({"low": (-1, 0), "high": (0, 0), "value": 0}, ShapeError, r"pad: low \(-1, 0\).* not be negative: slice x")


def concat(rng: Rng) -> Samples:
    yield Sample((numbers(rng, (0, 3)), numbers(rng, (2, 3))), {"axis": 0}, "zero")
    yield Sample((numbers(rng, (1, 1)),), {"axis": 1}, "one")
    yield Sample((numbers(rng, (7, 13)), numbers(rng, (7, 3)), numbers(rng, (7, 11))), {"axis": 1}, "prime")
    yield Sample((numbers(rng, (3, 1, 5)), numbers(rng, (3, 4, 5))), {"axis": 1}, "broadcast")
    yield Sample((strided(rng, (3, 4)), strided(rng, (2, 4))), {"axis": 0}, "strided")
    yield Sample((special((3, 4)), special((3, 4), turn=2)), {"axis": 0}, "special")
    yield Sample((numbers(rng, (3, 4), BOOL), numbers(rng, (3, 4), BOOL)), {"axis": 1})


def concat_errors() -> ErrorSamples:
    other = np.ones((3, 4), np.float32)
    yield _error({"axis": 0}, ShapeError, r"concat: arrays\[0\] \(2, 3\) and arrays\[1\] \(3, 4\) .* axis 0", _X, other)
    yield _error({"axis": 2}, AxisError, r"concat: axis 2 is out of range", _X, _X)
    whole = _X.astype(np.int32)
    yield _error({"axis": 0}, DTypeError, r"concat: dtypes differ: arrays\[0\] float32, arrays\[1\] int32", _X, whole)


def iota(rng: Rng) -> Samples:
    yield Sample((), {"shape": (0, 3), "dtype": INT64, "axis": 0}, "zero")
    yield Sample((), {"shape": (1, 1), "dtype": INT64, "axis": 1}, "one")
    yield Sample((), {"shape": (7, 13), "dtype": FLOAT32, "axis": 1}, "prime")
    yield Sample((), {"shape": (3, 4, 5), "dtype": INT32, "axis": 1})


def iota_errors() -> ErrorSamples:
    yield ErrorSample((), {"shape": (3,), "dtype": INT64, "axis": 1}, AxisError, r"iota: axis 1 is out of range")
    yield ErrorSample((), {"shape": (3,), "dtype": BOOL, "axis": 0}, DTypeError, r"iota: dtype bool")
    yield ErrorSample((), {"shape": (-3,), "dtype": INT64, "axis": 0}, ShapeError, r"iota: shape \(-3,\) has a negative")


def unpack_nibbles(rng: Rng) -> Samples:
    for shape, tag in (((0, 3), "zero"), ((1, 1), "one"), ((7, 13), "prime"), ((3, 1, 5), "broadcast"), ((2, 4, 16), "usual")):
        yield Sample((rng.integers(0, 256, shape, dtype=np.uint8),), {}, tag)
    yield Sample((rng.integers(0, 256, (4, 3), dtype=np.uint8).T,), {}, "strided")
    yield Sample((np.array([0, 15, 16, 240, 255], np.uint8),), {}, "special")


def unpack_nibbles_errors() -> ErrorSamples:
    yield _error({}, DTypeError, r"unpack_nibbles: .*float32", _X)
    yield _error({}, ShapeError, r"unpack_nibbles: x has no dimensions", np.array(3, np.uint8))


def slice_set(rng: Rng) -> Samples:
    def of(start: tuple[int, ...], step: tuple[int, ...]) -> dict[str, Any]:
        return {"start": start, "step": step}

    yield Sample((numbers(rng, (4, 3)), numbers(rng, (0, 3))), of((0, 0), (1, 1)), "zero")
    yield Sample((numbers(rng, (1, 1)), numbers(rng, (1, 1))), of((0, 0), (1, 1)), "one")
    yield Sample((numbers(rng, (7, 13)), numbers(rng, (3, 5))), of((1, 2), (2, 2)), "prime")
    yield Sample((numbers(rng, (7, 13)), numbers(rng, (4, 5))), of((6, 12), (-2, -3)), "prime")
    yield Sample((numbers(rng, (3, 1, 5)), numbers(rng, (2, 1, 5))), of((1, 0, 0), (1, 1, 1)), "broadcast")
    yield Sample((strided(rng, (3, 4)), strided(rng, (2, 2))), of((1, 0), (1, 2)), "strided")
    yield Sample((special((3, 4)), special((2, 2), turn=2)), of((1, 0), (1, 2)), "special")
    yield Sample((numbers(rng, (3, 4), INT32), numbers(rng, (3, 1), INT32)), of((0, 3), (1, 1)))


def slice_set_errors() -> ErrorSamples:
    at = {"start": (1, 0), "step": (1, 1)}
    yield _error(at, ShapeError, r"slice_set: .*shape \(2, 3\) leave x \(2, 3\)", _X, _X)
    yield _error(at, DTypeError, r"slice_set: dtypes differ: x float32, value int32", _X, _X.astype(np.int32))
