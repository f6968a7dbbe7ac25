"""Samples: the arrays that tests call primitives with, drawn fresh from a seed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from weft.dtypes.formats import INT8, UINT8, Format
from weft.errors import AxisError, DTypeError, ShapeError
from weft.graph.node import ErrorSample, Sample
from weft.graph.primitives.kinds import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    UINT32,
    UINT64,
    UNSIGNED,
)

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-40, 3e38, -7.0)


def numbers(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: Format = FLOAT32, domain: tuple[float, float] = (-3.0, 3.0)
) -> np.ndarray:
    """Random numbers of a domain; integers of the same domain, at least one wide."""
    low, high = domain
    if dtype == BOOL:
        return rng.random(shape) < 0.5
    if dtype in INTEGERS:
        low = max(low, 0) if dtype in UNSIGNED else low
        return rng.integers(int(np.floor(low)), int(np.ceil(high)) + 1, shape).astype(dtype.numpy)
    return rng.uniform(low, high, shape).astype(dtype.numpy)


def special(shape: tuple[int, ...], dtype: Format = FLOAT32, turn: int = 0, largest: float = np.inf) -> np.ndarray:
    """NaN, infinities, both zeros, subnormals and large numbers.

    ``largest`` leaves out finite numbers above it: where products overflow, the order of a sum decides what comes out.
    """
    values = np.array([v for v in SPECIAL if not largest < abs(v) < np.inf], np.float64)
    return np.resize(np.roll(values, turn), shape).astype(dtype.numpy)


def strided(rng: np.random.Generator, shape: tuple[int, ...], dtype: Format = FLOAT32, **more: Any) -> np.ndarray:
    """An array of odd strides: every second element of the last axis, axes stored in reverse order."""
    wide = numbers(rng, (*shape[:-1], shape[-1] * 2)[::-1], dtype, **more)
    return wide.T[..., ::2]


def _wide(allowed: frozenset[Format]) -> frozenset[Format]:
    """Without narrow floats, in which tests repeat the samples of float32."""
    return frozenset(f for f in allowed if not f.narrow)


def elementwise(
    arity: int, allowed: frozenset[Format], domain: tuple[float, float], integers: tuple[float, float],
    rng: np.random.Generator,
) -> Iterable[Sample]:
    main = FLOAT32 if FLOAT32 in allowed else INT32 if INT32 in allowed else BOOL

    def make(*shapes: tuple[int, ...], dtype: Format = main, tag: str = "usual") -> Sample:
        return Sample(tuple(numbers(rng, s, dtype, domain) for s in shapes), tag=tag)

    yield make(*((0, 3),) * arity, tag="zero")
    yield make(*((1, 1),) * arity, tag="one")
    yield make(*((7, 13),) * arity, tag="prime")
    yield make(*((3, 1, 5), (4, 1))[:arity], tag="broadcast")
    if arity == 2:
        yield make((), (5,), tag="broadcast")
    yield Sample(tuple(strided(rng, (3, 5), main, domain=domain) for _ in range(arity)), tag="strided")
    if main in FLOATS:
        if arity == 1:
            yield Sample((special((12,)),), tag="special")
        else:
            yield Sample((special((12, 1)), special((12,))), tag="special")
    else:
        info = np.array([0, 1, -1, 7, 2**31 - 1, -(2**31)], np.int64).astype(main.numpy)
        yield Sample((info[:, None], info)[2 - arity:], tag="special")
    for dtype in sorted(_wide(allowed) - {main}, key=lambda t: t.name):
        whole = integers if dtype in INTEGERS else domain
        yield Sample(tuple(numbers(rng, (5, 4), dtype, whole) for _ in range(arity)))
    yield make(*((2, 3),) * arity)


def elementwise_errors(name: str, arity: int, allowed: frozenset[Format]) -> Iterable[ErrorSample]:
    good = FLOAT32 if FLOAT32 in allowed else INT32
    a = np.ones((2, 3), good.numpy)
    if arity == 2:
        yield ErrorSample((a, np.ones((2, 4), good.numpy)), {}, ShapeError, rf"{name}: .*x1 \(2, 3\), x2 \(2, 4\)")
        other = next(t for t in (FLOAT64, INT64) if t in allowed)
        yield ErrorSample((a, a.astype(other.numpy)), {}, DTypeError, rf"{name}: .*{good.name}.*{other.name}.*astype")
    for bad in [f for f in (BOOL, FLOAT32, INT32) if f not in allowed][:1]:
        yield ErrorSample((a.astype(bad.numpy),) * arity, {}, DTypeError, rf"{name}: x1? is {bad.name}.* must be .*astype")


def where(rng: np.random.Generator) -> Iterable[Sample]:
    def make(c: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...], tag: str = "usual", dtype: Format = FLOAT32) -> Sample:
        return Sample((rng.random(c) < 0.5, numbers(rng, x, dtype), numbers(rng, y, dtype)), tag=tag)

    yield make((0, 3), (0, 3), (0, 3), "zero")
    yield make((1, 1), (1, 1), (1, 1), "one")
    yield make((7, 13), (7, 13), (7, 13), "prime")
    yield make((4, 1), (3, 1, 5), (5,), "broadcast")
    yield make((5,), (), (2, 5), "broadcast")
    yield Sample((strided(rng, (3, 5), BOOL), strided(rng, (3, 5)), strided(rng, (3, 5))), tag="strided")
    yield Sample((rng.random((12,)) < 0.5, special((12,)), special((12,), turn=3)), tag="special")
    yield make((2, 3), (2, 3), (2, 3))
    yield make((2, 3), (2, 3), (2, 3), dtype=INT32)
    yield make((2, 3), (2, 3), (2, 3), dtype=BOOL)


def where_errors() -> Iterable[ErrorSample]:
    a, c = np.ones((2, 3), np.float32), np.ones((2, 3), bool)
    yield ErrorSample((a, a, a), {}, DTypeError, r"where: condition is float32, but must be bool")
    yield ErrorSample((c, a, a.astype(np.float64)), {}, DTypeError, r"where: dtypes differ: x1 float32, x2 float64")
    yield ErrorSample((c, a, np.ones((4,), np.float32)), {}, ShapeError, r"where: .*x1 \(2, 3\), x2 \(4,\)")


def casts(rng: np.random.Generator) -> Iterable[Sample]:
    f64 = {"dtype": FLOAT64}
    yield Sample((numbers(rng, (0, 3)),), f64, "zero")
    yield Sample((numbers(rng, (1, 1)),), f64, "one")
    yield Sample((numbers(rng, (7, 13)),), {"dtype": FLOAT16}, "prime")
    yield Sample((numbers(rng, (3, 1, 5)),), {"dtype": BFLOAT16}, "broadcast")
    yield Sample((strided(rng, (3, 5)),), f64, "strided")
    yield Sample((special((12,)),), {"dtype": FLOAT16}, "special")
    yield Sample((special((12,)),), {"dtype": BOOL}, "special")
    yield Sample((numbers(rng, (4, 5), domain=(-100, 100)),), {"dtype": INT32})
    yield Sample((numbers(rng, (4, 5), INT32, (-1000, 1000)),), {"dtype": UINT8})
    yield Sample((numbers(rng, (4, 5), BOOL),), {"dtype": FLOAT32})
    yield Sample((numbers(rng, (4, 5), UINT64, (0, 9)),), {"dtype": FLOAT32})


def cast_errors() -> Iterable[ErrorSample]:
    x = np.ones(3, np.float32)
    yield ErrorSample((x,), {"dtype": np.dtype(np.complex64)}, DTypeError, r"cast: dtype .*complex64.* not one of")
    yield ErrorSample((x,), {"dtype": "float7"}, DTypeError, r"cast: dtype 'float7'")


def bitcasts(rng: np.random.Generator) -> Iterable[Sample]:
    to = {"dtype": INT32}
    yield Sample((numbers(rng, (0, 3)),), to, "zero")
    yield Sample((numbers(rng, (1, 1)),), to, "one")
    yield Sample((numbers(rng, (7, 13)),), to, "prime")
    yield Sample((numbers(rng, (3, 1, 5)),), to, "broadcast")
    yield Sample((strided(rng, (3, 5)),), to, "strided")
    yield Sample((special((12,)),), {"dtype": UINT32}, "special")
    yield Sample((numbers(rng, (4,), INT32, (0, 10**9)),), {"dtype": FLOAT32})


def bitcast_errors() -> Iterable[ErrorSample]:
    x = np.ones(3, np.float32)
    yield ErrorSample((x,), {"dtype": FLOAT64}, DTypeError, r"bitcast: x is float32 .*float64.*widths must be equal")
    yield ErrorSample((x.astype(bool),), {"dtype": INT8}, DTypeError, r"bitcast: x is bool")
    yield ErrorSample((x.astype(np.int8),), {"dtype": BOOL}, DTypeError, r"bitcast: x is int8 and dtype is bool")


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
    for dtype in sorted(_wide(allowed) - {FLOAT32}, key=lambda t: t.name):
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
    for dtype in sorted(_wide(allowed) - {FLOAT32}, key=lambda t: t.name):
        yield Sample((numbers(rng, (3, 4), dtype),), {"axis": 0})


def cumulative_errors(name: str, allowed: frozenset[Format]) -> Iterable[ErrorSample]:
    x = np.ones((2, 3), np.float32)
    yield ErrorSample((x,), {"axis": 2}, AxisError, rf"{name}: axis 2 is out of range for an array of 2 dim")
    if BOOL not in allowed:
        yield ErrorSample((x > 0,), {"axis": 0}, DTypeError, rf"{name}: x is bool.*astype")
