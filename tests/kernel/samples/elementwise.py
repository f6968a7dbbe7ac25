"""Samples of element-wise primitives."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tests.kernel.samples.arrays import numbers, special, strided, wide_formats
from tests.kernel.samples.sample import ErrorSample, Sample
from weft.dtypes.formats import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    FORMATS,
    INT8,
    INT32,
    INT64,
    INTEGERS,
    UINT8,
    UINT32,
    UINT64,
    Format,
)
from weft.dtypes.rounding import DIRECTED
from weft.errors import DTypeError, ShapeError
from weft.graph.node import Domain


def elementwise(domain: Domain, rng: np.random.Generator) -> Iterable[Sample]:
    arity, allowed, floats, integers = domain
    main = FLOAT32 if FLOAT32 in allowed else INT32 if INT32 in allowed else BOOL

    def make(*shapes: tuple[int, ...], dtype: Format = main, tag: str = "usual") -> Sample:
        return Sample(tuple(numbers(rng, s, dtype, floats) for s in shapes), tag=tag)

    yield make(*((0, 3),) * arity, tag="zero")
    yield make(*((1, 1),) * arity, tag="one")
    yield make(*((7, 13),) * arity, tag="prime")
    yield make(*((3, 1, 5), (4, 1))[:arity], tag="broadcast")
    if arity == 2:
        yield make((), (5,), tag="broadcast")
    yield Sample(tuple(strided(rng, (3, 5), main, domain=floats) for _ in range(arity)), tag="strided")
    if main in FLOATS:
        if arity == 1:
            yield Sample((special((12,)),), tag="special")
        else:
            yield Sample((special((12, 1)), special((12,))), tag="special")
    else:
        info = np.array([0, 1, -1, 7, 2**31 - 1, -(2**31)], np.int64).astype(main.numpy)
        yield Sample((info[:, None], info)[2 - arity:], tag="special")
    for dtype in sorted(wide_formats(allowed) - {main}, key=lambda t: t.name):
        whole = integers if dtype in INTEGERS else floats
        yield Sample(tuple(numbers(rng, (5, 4), dtype, whole) for _ in range(arity)))
    yield make(*((2, 3),) * arity)


def elementwise_errors(name: str, domain: Domain) -> Iterable[ErrorSample]:
    arity, allowed = domain.operands, domain.dtypes
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


def roundings(rng: np.random.Generator) -> Iterable[Sample]:
    forms = [f for f in FORMATS.values() if f.kind == "float" and f.narrow and f.special != "scale"]
    for shape, tag in (((0, 3), "zero"), ((1, 1), "one"), ((7, 13), "prime"), ((3, 1, 5), "broadcast")):
        form, mode = forms[rng.integers(len(forms))], DIRECTED[rng.integers(len(DIRECTED))]
        yield Sample((numbers(rng, shape, domain=(-2, 2)),), {"dtype": form, "mode": mode}, tag)
    yield Sample((strided(rng, (3, 5)),), {"dtype": BFLOAT16, "mode": "up"}, "strided")
    yield Sample((special((12,)),), {"dtype": FLOAT16, "mode": "away_ties"}, "special")
    yield Sample((numbers(rng, (4, 5), FLOAT64),), {"dtype": FLOAT32, "mode": "down"})


def rounding_errors() -> Iterable[ErrorSample]:
    yield ErrorSample((np.ones(3, np.int32),), {"dtype": FLOAT16, "mode": "up"}, DTypeError, r"round_to: .*int32")


def stochastic(rng: np.random.Generator) -> Iterable[Sample]:
    def make(shape: tuple[int, ...], form: Format, bits: int = 32, tag: str = "") -> Sample:
        words = rng.integers(0, 2**32, shape, dtype=np.uint32)
        return Sample((numbers(rng, shape, domain=(-2, 2)), words), {"dtype": form, "bits": bits}, tag)

    yield make((0, 3), FLOAT16, tag="zero")
    yield make((1, 1), BFLOAT16, 8, "one")
    yield make((7, 13), FORMATS["float8_e4m3fn"], tag="prime")
    yield make((3, 1, 5), FORMATS["float6_e3m2fn"], 16, "broadcast")
    words = rng.integers(0, 2**32, 15, dtype=np.uint32)
    yield Sample((strided(rng, (3, 5)), words.reshape(3, 5)), {"dtype": BFLOAT16, "bits": 32}, "strided")
    yield Sample((special((12,)), words[:12]), {"dtype": FLOAT16, "bits": 32}, "special")


def stochastic_errors() -> Iterable[ErrorSample]:
    x, p = np.ones(3, np.float32), {"dtype": FLOAT16, "bits": 32}
    yield ErrorSample((x, np.ones(3, np.int32)), p, DTypeError, r"round_stochastic: .*int32")
    yield ErrorSample((x, np.ones(4, np.uint32)), p, ShapeError, r"round_stochastic: shapes do not broadcast")


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


