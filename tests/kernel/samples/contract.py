"""Samples of products and convolutions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.kernel.samples.arrays import numbers, special, strided
from tests.kernel.samples.sample import ErrorSample, Sample
from weft.dtypes.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32
from weft.errors import AxisError, DTypeError, ShapeError


def _pair(contract: Any, batch: Any = ((), ())) -> dict[str, Any]:
    return {"contract": contract, "batch": batch}


def products(rng: np.random.Generator) -> Iterable[Sample]:
    plain = _pair(((1,), (0,)))

    def make(a: tuple[int, ...], b: tuple[int, ...], params: dict[str, Any], tag: str = "usual", dtype: Any = FLOAT32) -> Sample:
        return Sample((numbers(rng, a, dtype), numbers(rng, b, dtype)), params, tag)

    yield make((0, 3), (3, 4), plain, "zero")
    yield make((3, 0), (0, 4), plain, "zero")
    yield make((1, 1), (1, 1), plain, "one")
    yield make((7, 13), (13, 11), plain, "prime")
    yield make((13, 7), (13, 11), _pair(((0,), (0,))), "prime")
    yield make((7, 13), (11, 13), _pair(((1,), (1,))), "prime")
    yield make((13, 7), (11, 13), _pair(((0,), (1,))), "prime")
    yield make((5,), (5,), _pair(((0,), (0,))))
    yield make((3,), (4,), _pair(((), ())))
    yield make((2, 5, 3), (2, 3, 4), _pair(((2,), (1,)), ((0,), (0,))), "broadcast")
    yield make((5, 2, 3, 1), (4, 3, 2), _pair(((2,), (1,)), ((1,), (2,))), "broadcast")
    yield make((2, 3, 4, 5), (5, 3, 6), _pair(((3, 1), (0, 1))))
    yield make((2, 3, 4, 5), (3, 5, 6), _pair(((3, 1), (1, 0))))
    yield Sample((strided(rng, (3, 4)), strided(rng, (4, 5))), plain, "strided")
    yield Sample((special((3, 4), largest=100), numbers(rng, (4, 5))), plain, "special")
    yield make((3, 4), (4, 5), plain, dtype=FLOAT64)
    yield make((3, 40), (40, 5), plain, dtype=FLOAT16)
    yield make((3, 40), (40, 5), plain, dtype=BFLOAT16)
    yield Sample((rng.integers(-(2**30), 2**30, (3, 4)).astype(np.int32), numbers(rng, (4, 5), INT32)), plain)


def product_errors() -> Iterable[ErrorSample]:
    a = np.ones((2, 3), np.float32)
    yield ErrorSample((a, a), _pair(((1,), (0,))), ShapeError, r"dot_general: a \(2, 3\) and b \(2, 3\): contracted axis 1 .*3 ")
    yield ErrorSample((a, a), _pair(((1,), (1,)), ((0,), ())), ShapeError, r"dot_general: batch axes .* must pair up")
    yield ErrorSample((a, a), _pair(((2,), (1,))), AxisError, r"dot_general: axes of a \(2,\) is out of range")
    yield ErrorSample((a, a), _pair(((1,), (1,)), ((1,), (0,))), AxisError, r"dot_general: axes of a \(1, 1\) names .* twice")
    b = a.astype(np.float64)
    yield ErrorSample((a, b), _pair(((1,), (1,))), DTypeError, r"dot_general: dtypes differ: a float32, b float64")
    yield ErrorSample((a > 0, a > 0), _pair(((1,), (1,))), DTypeError, r"dot_general: a is bool")


def conv_params(
    spatial: int, stride: Any = 1, padding: Any = 0, lhs_dilation: Any = 1, rhs_dilation: Any = 1, groups: int = 1,
    dims: Any = None,
) -> dict[str, Any]:
    """Parameters with plain numbers repeated for each spatial dimension."""

    def each(v: Any) -> tuple[Any, ...]:
        return v if isinstance(v, tuple) else (v,) * spatial

    plain = tuple(range(spatial + 2))
    pads = tuple(p if isinstance(p, tuple) else (p, p) for p in each(padding))
    return {
        "stride": each(stride), "padding": pads, "lhs_dilation": each(lhs_dilation), "rhs_dilation": each(rhs_dilation),
        "groups": groups, "dims": dims or (plain, plain, plain),
    }


def convolutions(rng: np.random.Generator) -> Iterable[Sample]:
    def make(x: tuple[int, ...], w: tuple[int, ...], tag: str = "usual", dtype: Any = FLOAT32, **params: Any) -> Sample:
        return Sample((numbers(rng, x, dtype), numbers(rng, w, dtype)), conv_params(len(x) - 2, **params), tag)

    yield make((0, 2, 5, 5), (3, 2, 3, 3), "zero")
    yield make((1, 1, 1, 1), (1, 1, 1, 1), "one")
    yield make((2, 3, 7, 11), (5, 3, 3, 3), "prime", padding=1)
    yield make((2, 3, 7, 11), (5, 3, 3, 2), "prime", stride=(2, 3), padding=((1, 0), (2, 1)))
    yield make((1, 2, 8, 8), (2, 2, 3, 3), "broadcast", stride=2)  # rows and columns that no window reaches
    yield make((1, 2, 6, 6), (2, 2, 3, 3), rhs_dilation=2, padding=1)
    yield make((1, 2, 4, 4), (2, 2, 3, 3), lhs_dilation=(2, 3), stride=(3, 2), padding=2)
    yield make((2, 4, 5, 5), (6, 2, 3, 3), groups=2, padding=1)
    yield make((2, 4, 5, 5), (4, 1, 3, 3), groups=4, stride=2, padding=1)
    yield make((2, 3, 9), (4, 3, 3), stride=2, padding=1)
    yield make((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), padding=1)
    yield make((1, 2, 5, 5), (2, 2, 2, 2), padding=((-1, 1), (0, -2)))
    yield make((2, 6, 5, 3), (3, 3, 3, 4), dims=((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)), padding=1)
    yield Sample((strided(rng, (2, 2, 5, 4)), strided(rng, (3, 2, 3, 2))), conv_params(2), "strided")
    yield Sample((special((1, 2, 5, 4), largest=100), numbers(rng, (3, 2, 3, 2))), conv_params(2), "special")
    yield make((1, 2, 5, 5), (2, 2, 3, 3), dtype=BFLOAT16)


def convolution_errors() -> Iterable[ErrorSample]:
    x, w = np.ones((2, 3, 5, 5), np.float32), np.ones((4, 3, 3, 3), np.float32)
    yield ErrorSample((x, w[:, :2]), conv_params(2), ShapeError, r"conv_general: x .* has 3 channels and w \(4, 2, 3, 3\)")
    yield ErrorSample((x[:, :, :2], w), conv_params(2), ShapeError, r"conv_general: the window of w .* is larger than x")
    yield ErrorSample((x, w), conv_params(1), ShapeError, r"conv_general: dims of x .* must name 4")
    yield ErrorSample((x, w), conv_params(2, stride=0), ShapeError, r"conv_general: stride \(0, 0\).*>= 1")
    yield ErrorSample((x, w.astype(np.float64)), conv_params(2), DTypeError, r"conv_general: dtypes differ: x float32, w float64")
    yield ErrorSample((x[0], w), conv_params(2), ShapeError, r"conv_general: x \(3, 5, 5\) and w .* must both have")
