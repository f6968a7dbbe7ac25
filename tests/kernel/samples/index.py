"""Samples of gather, scatter, in_bounds and last_equal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.kernel.samples.arrays import numbers, special, strided
from tests.kernel.samples.sample import ErrorSample, Sample
from weft.dtypes.formats import BOOL, FROM_NUMPY, INT32
from weft.errors import AxisError, DTypeError, ShapeError
from weft.graph.primitives.settings import ADD_MODES


def _cases(rng: np.random.Generator) -> Iterable[tuple[np.ndarray, tuple[np.ndarray, ...], tuple[int, ...], str]]:
    """(x, indices, axes, tag)"""

    def at(shape: tuple[int, ...], n: int, dtype: Any = np.int64) -> np.ndarray:
        return rng.integers(-n, n, shape).astype(dtype)

    yield numbers(rng, (4, 3)), (at((0,), 4),), (0,), "zero"
    yield numbers(rng, (1, 1)), (np.array([0]),), (0,), "one"
    yield numbers(rng, (7, 13)), (at((5,), 7),), (0,), "prime"
    yield numbers(rng, (7, 13)), (at((3, 5), 13, np.int32),), (1,), "prime"
    yield numbers(rng, (7, 5, 3)), (at((4, 1), 7), at((2,), 3)), (0, 2), "broadcast"
    yield numbers(rng, (4, 3)), (np.array(2),), (0,), "broadcast"
    yield strided(rng, (5, 4)), (at((6, 2), 5)[:, 0], at((6,), 4)[::-1]), (0, 1), "strided"
    yield special((3, 4)), (at((5,), 3),), (0,), "special"
    yield numbers(rng, (4, 3)), (np.array([9, -9, 1, 3]),), (0,), "usual"  # out of range: clamped
    yield numbers(rng, (4, 3), INT32), (at((6,), 4, np.uint8) % 4,), (0,), "usual"


def gather(rng: np.random.Generator) -> Iterable[Sample]:
    for x, indices, axes, tag in _cases(rng):
        yield Sample((x, *indices), {"axes": axes}, tag)
    yield Sample((numbers(rng, (4, 3), BOOL), np.array([1, 2])), {"axes": (1,)})


def scatter(rng: np.random.Generator) -> Iterable[Sample]:
    for mode in (*ADD_MODES, "set"):
        for x, indices, axes, tag in _cases(rng):
            shape = np.broadcast_shapes(*(i.shape for i in indices)) + tuple(n for d, n in enumerate(x.shape) if d not in axes)
            yield Sample((x, numbers(rng, shape, FROM_NUMPY[x.dtype]), *indices), {"axes": axes, "mode": mode}, tag)
    yield from _own(rng)


def _own(rng: np.random.Generator) -> Iterable[Sample]:
    """Scatters that write no element twice, some of them out of range."""

    def rows(count: int, n: int, low: int = 0) -> np.ndarray:
        return rng.permutation(np.arange(low, n))[:count]

    for x, indices, axes, tag in (
        (numbers(rng, (4, 3)), (rows(0, 4),), (0,), "zero"),
        (numbers(rng, (1, 1)), (np.array([0]),), (0,), "one"),
        (numbers(rng, (7, 13)), (rows(5, 11),), (0,), "prime"),
        (numbers(rng, (7, 13)), (rows(13, 13).astype(np.int32),), (1,), "prime"),
        (numbers(rng, (7, 5, 3)), (rows(4, 9).reshape(4, 1), rows(2, 5)), (0, 2), "broadcast"),
        (strided(rng, (5, 4)), (rows(10, 8)[::2],), (0,), "strided"),
        (special((3, 4)), (rows(3, 5),), (0,), "special"),
        (numbers(rng, (6, 3)), (np.array([-1, 9, 2, -7, 0]),), (0,), "usual"),
        (numbers(rng, (4, 3), INT32), (np.array([3, 200, 1], np.uint8),), (0,), "usual"),
    ):
        shape = np.broadcast_shapes(*(i.shape for i in indices)) + tuple(n for d, n in enumerate(x.shape) if d not in axes)
        yield Sample((x, numbers(rng, shape, FROM_NUMPY[x.dtype]), *indices), {"axes": axes, "mode": "own"}, tag)


def in_bounds(rng: np.random.Generator) -> Iterable[Sample]:
    """Indices in range; what others do is the matter of tests of their own."""
    yield Sample((rng.integers(-9, 5, 1),), {"extent": 9, "axis": 0, "from_end": True}, "one")
    for shape, n, dtype, tag in (
        ((0,), 3, np.int64, "zero"), ((13, 7), 11, np.int32, "prime"), ((5,), 100, np.int8, "usual"),
    ):
        yield Sample((rng.integers(-n, n, shape).astype(dtype),), {"extent": n, "axis": 0, "from_end": True}, tag)
    yield Sample((np.broadcast_to(np.int64(-2), (7,)),), {"extent": 5, "axis": 1, "from_end": True}, "broadcast")
    yield Sample((rng.integers(-50, 50, 200)[::2],), {"extent": 50, "axis": 0, "from_end": True}, "strided")
    yield Sample((np.array([-(2**62), 2**62 - 1, 0]),), {"extent": 2**62, "axis": 0, "from_end": True}, "special")
    for unsigned in (np.uint8, np.uint64):
        yield Sample((rng.integers(0, 200, 70).astype(unsigned),), {"extent": 200, "axis": 0, "from_end": True})
    yield Sample((rng.integers(0, 7, 70),), {"extent": 7, "axis": 0, "from_end": False})


def in_bounds_errors() -> Iterable[ErrorSample]:
    yield ErrorSample((_X[0],), {"extent": 3, "axis": 0, "from_end": True}, DTypeError, r"in_bounds: x is float32")
    none = {"extent": 0, "axis": 2, "from_end": True}
    yield ErrorSample((_I,), none, IndexError, r"every index is out of bounds for axis 2 with size 0")


def last_equal(rng: np.random.Generator) -> Iterable[Sample]:
    for n, extent, dtype, tag in ((0, 3, np.int64, "zero"), (1, 1, np.int64, "one"), (13, 7, np.int32, "prime")):
        yield Sample((rng.integers(-extent, extent, n).astype(dtype),), {"extent": extent}, tag)
    yield Sample((rng.integers(0, 50, 200)[::2],), {"extent": 50}, "strided")
    yield Sample((np.broadcast_to(np.int64(2), (7,)),), {"extent": 5}, "broadcast")
    yield Sample((np.array([np.iinfo(np.int64).min, 0, np.iinfo(np.int64).max, 3]),), {"extent": 4}, "special")
    yield Sample((np.array([9, -9, 3, -1, 0], np.int64),), {"extent": 4}, "usual")  # out of range: clamped
    yield Sample((rng.integers(0, 200, 500).astype(np.uint8),), {"extent": 200}, "usual")


def last_equal_errors() -> Iterable[ErrorSample]:
    yield ErrorSample((_X,), {"extent": 3}, ShapeError, r"last_equal: x \(4, 3\) must have one dimension")
    yield ErrorSample((_X[0],), {"extent": 3}, DTypeError, r"last_equal: x is float32")
    yield ErrorSample((_I,), {"extent": 0}, ShapeError, r"last_equal: extent 0 must be at least 1")


_X, _I = np.ones((4, 3), np.float32), np.array([0, 1])


def gather_errors() -> Iterable[ErrorSample]:
    yield ErrorSample((_X, _X), {"axes": (0,)}, DTypeError, r"gather: indices\[0\] is float32, but must be an integer dtype")
    yield ErrorSample((_X, _I), {"axes": (2,)}, AxisError, r"gather: axes \(2,\) is out of range")
    yield ErrorSample((_X, _I), {"axes": (0, 1)}, ShapeError, r"gather: 1 index arrays for axes \(0, 1\)")
    three = np.array([0, 1, 2])
    yield ErrorSample((_X, _I, three), {"axes": (0, 1)}, ShapeError, r"gather: .*indices\[0\] \(2,\), indices\[1\] \(3,\)")
    yield ErrorSample((_X[:0], _I), {"axes": (0,)}, IndexError, r"gather: x \(0, 3\) has no elements along axes \(0,\)")


def scatter_errors() -> Iterable[ErrorSample]:
    at: dict[str, Any] = {"axes": (0,), "mode": "add"}
    yield ErrorSample((_X, _X, _I), at, ShapeError, r"scatter: updates \(4, 3\) must have shape \(2, 3\)")
    yield ErrorSample((_X, _X[:2].astype(np.float64), _I), at, DTypeError, r"scatter: dtypes differ: x float32, updates float64")
    yield ErrorSample((_X, _X[:2], _I), {"axes": (0,), "mode": "mul"}, ValueError, r"scatter: mode 'mul' must be")
    yield ErrorSample((_X > 0, _X[:2] > 0, _I), at, DTypeError, r"scatter: x is bool")
