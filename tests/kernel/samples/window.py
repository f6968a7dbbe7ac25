"""Samples of reduce_window and window_gather."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.kernel.samples.arrays import numbers, special, strided
from tests.kernel.samples.sample import ErrorSample, Sample
from weft.dtypes.formats import INT32
from weft.errors import DTypeError, ShapeError


def _at(window: tuple[int, ...], stride: tuple[int, ...], *padding: tuple[int, int]) -> dict[str, Any]:
    return {"window": window, "stride": stride, "padding": padding or ((0, 0),) * len(window)}


def windows(rng: np.random.Generator) -> Iterable[Sample]:
    for kind in ("sum", "max", "argmax"):
        def at(*args: Any, kind: str = kind) -> dict[str, Any]:
            return {"kind": kind, **_at(*args)}

        yield Sample((numbers(rng, (0, 4, 4)),), at((2, 2), (2, 2)), "zero")
        yield Sample((numbers(rng, (1, 1, 1)),), at((1, 1), (1, 1)), "one")
        yield Sample((numbers(rng, (2, 7, 13)),), at((3, 2), (2, 3), (1, 1), (0, 1)), "prime")
        yield Sample((numbers(rng, (2, 1, 6, 6)),), at((2, 2), (2, 2)), "broadcast")
        yield Sample((np.round(numbers(rng, (2, 6, 6))),), at((3, 3), (1, 1), (1, 1), (1, 1)))  # equal elements
        yield Sample((strided(rng, (3, 5)),), at((2,), (1,)), "strided")
        yield Sample((special((2, 5, 6)),), at((2, 2), (1, 1), (1, 0), (0, 1)), "special")
        yield Sample((numbers(rng, (2, 9), INT32),), at((3,), (2,), (2, 2)))
        yield Sample((numbers(rng, (2, 4, 5, 6)),), at((2, 3, 2), (1, 2, 2)))


def window_errors() -> Iterable[ErrorSample]:
    x = np.ones((2, 4, 4), np.float32)
    large, wide = _at((5, 5), (1, 1)), _at((2, 2), (1, 1), (2, 0), (0, 0))
    yield ErrorSample((x,), {"kind": "max", **large}, ShapeError, r"reduce_window: the window \(5, 5\) is larger than x \(4, 4\)")
    yield ErrorSample((x,), {"kind": "max", **_at((2, 2), (1,))}, ShapeError, r"reduce_window: .*must have one entry a dimension")
    yield ErrorSample((x,), {"kind": "max", **_at((2, 2), (0, 1))}, ShapeError, r"reduce_window: .*must be >= 1")
    yield ErrorSample((x,), {"kind": "max", **wide}, ShapeError, r"reduce_window: padding .* smaller than")
    yield ErrorSample((x,), {"kind": "mean", **_at((2, 2), (1, 1))}, ValueError, r"reduce_window: kind 'mean' must be")
    yield ErrorSample((x > 0,), {"kind": "max", **_at((2, 2), (1, 1))}, DTypeError, r"reduce_window: x is bool")


def gathers(rng: np.random.Generator) -> Iterable[Sample]:
    cases: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = [
        ((0, 2, 2), (4, 4), _at((2, 2), (2, 2)), "zero"),
        ((1, 1, 1), (1, 1), _at((1, 1), (1, 1)), "one"),
        ((2, 4, 5), (7, 13), _at((3, 2), (2, 3), (1, 1), (0, 1)), "prime"),
        ((2, 1, 3, 3), (6, 6), _at((2, 2), (2, 2)), "broadcast"),
        ((2, 6, 6), (6, 6), _at((3, 3), (1, 1), (1, 1), (1, 1)), "usual"),
        ((2, 1, 1), (5, 4), _at((5, 4), (1, 1)), "prime"),  # one window
        ((2, 1, 3), (3, 7), _at((4, 3), (2, 2), (1, 0), (0, 0)), "prime"),  # one window along one axis, an element in none
    ]
    for shape, size, at, tag in cases:
        g = numbers(rng, shape)
        yield Sample((g,), {**at, "size": size}, tag)
        position = rng.integers(0, int(np.prod(at["window"])), shape).astype(np.int32)
        yield Sample((g, position), {**at, "size": size}, tag)
    yield Sample((strided(rng, (3, 4)),), {**_at((2,), (1,)), "size": (5,)}, "strided")
    yield Sample((special((2, 3, 4)),), {**_at((2, 2), (2, 2)), "size": (6, 8)}, "special")


def gather_errors() -> Iterable[ErrorSample]:
    g, at = np.ones((2, 2, 2), np.float32), {**_at((2, 2), (2, 2)), "size": (4, 4)}
    yield ErrorSample((g[:, :1],), at, ShapeError, r"window_gather: g \(2, 1, 2\) must end in \(2, 2\)")
    yield ErrorSample((g, g), at, DTypeError, r"window_gather: position is float32")
    yield ErrorSample((g, np.ones((2, 2), np.int32)), at, ShapeError, r"window_gather: position \(2, 2\) must have")
