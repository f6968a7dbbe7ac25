"""Samples of attention and of its gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.kernel.samples.arrays import numbers, special, strided
from tests.kernel.samples.sample import ErrorSample, Sample
from weft.errors import DTypeError, ShapeError
from weft.graph.node import Shape

F = np.float32


def _params(result: str = "out", scale: float = 0.5, causal: bool = False, keep: float | None = None) -> dict[str, Any]:
    return {"result": result, "scale": scale, "causal": causal, "keep": keep}


def _triple(rng: np.random.Generator, q: Shape, s: int, f: int, lead: Shape | None = None) -> list[np.ndarray]:
    """query of a shape, s keys and values of f numbers."""
    lead = q[:-2] if lead is None else lead
    return [numbers(rng, shape) for shape in (q, (*lead, s, q[-1]), (*lead, s, f))]


def _seeds(rng: np.random.Generator) -> list[np.ndarray]:
    return [np.array(rng.integers(0, 2**63), np.uint64), np.array(5, np.uint64)]


def attention(rng: np.random.Generator) -> Iterable[Sample]:
    for result in ("out", "lse"):
        yield Sample(tuple(_triple(rng, (0, 3), 2, 4)), _params(result), "zero")
        yield Sample(tuple(_triple(rng, (3, 2), 0, 4)), _params(result), "zero")
        yield Sample(tuple(_triple(rng, (1, 1), 1, 1)), _params(result, causal=True), "one")
        yield Sample(tuple(_triple(rng, (2, 7, 5), 13, 3)), _params(result), "prime")
        yield Sample(tuple(_triple(rng, (2, 3, 5, 4), 6, 3, (2, 1))), _params(result, causal=True), "broadcast")
    q, k, v = _triple(rng, (2, 3, 4), 5, 2)
    bias, allowed = numbers(rng, (1, 3, 5)), rng.random((2, 1, 5)) < 0.6
    allowed[0] = False  # attends to nothing
    yield Sample((q, k, v, bias, allowed), _params(causal=True))
    yield Sample((q, k, v, allowed, *_seeds(rng)), _params(keep=0.75))
    yield Sample(tuple(strided(rng, s) for s in ((3, 4), (5, 4), (5, 2))), _params(), "strided")
    yield Sample((special((4, 3), largest=10), numbers(rng, (5, 3)), numbers(rng, (5, 2))), _params(), "special")


def _lse(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The logarithm of each row's sum of exp(scores), as the forward pass gives it: weights are at most 1."""
    with np.errstate(all="ignore"):
        found = np.log(np.exp(0.5 * q @ np.swapaxes(k, -1, -2)).sum(-1))
    return np.where(np.isfinite(found), found, 3).astype(F)


def gradient(rng: np.random.Generator) -> Iterable[Sample]:
    def given(shape: Shape, s: int, f: int, lead: Shape | None = None, **own: np.ndarray) -> list[np.ndarray]:
        q, k, v = _triple(rng, shape, s, f, lead)
        q = own.get("query", q)
        return [q, k, v, own.get("cotangent", numbers(rng, (*shape[:-1], f))), _lse(q, k), numbers(rng, shape[:-1])]

    for result in ("query", "key", "value"):
        yield Sample(tuple(given((0, 3), 2, 4)), _params(result), "zero")
        yield Sample(tuple(given((1, 1), 1, 1)), _params(result, causal=True), "one")
        yield Sample(tuple(given((7, 5), 13, 3)), _params(result), "prime")
        yield Sample(tuple(given((2, 3, 5, 4), 6, 3, (2, 1))), _params(result, causal=True), "broadcast")
        bias, allowed = numbers(rng, (1, 3, 5)), rng.random((2, 1, 5)) < 0.6
        yield Sample((*given((2, 3, 4), 5, 2), bias, allowed, *_seeds(rng)), _params(result, keep=0.75))
        yield Sample(tuple(given((3, 4), 5, 2, cotangent=strided(rng, (3, 2)))), _params(result), "strided")
        yield Sample(tuple(given((4, 3), 5, 2, query=special((4, 3), largest=10))), _params(result), "special")


def errors() -> Iterable[ErrorSample]:
    a = np.ones((2, 3, 4), F)
    p = _params()
    yield ErrorSample((a, a[..., :3], a), p, ShapeError, r"attention: query \(2, 3, 4\), key \(2, 3, 3\)")
    yield ErrorSample((a, a[:, :0, :], a), p, ShapeError, r"key \(2, 0, 4\), value \(2, 3, 4\) must be")
    yield ErrorSample((a, a, a.astype(np.float64)), p, DTypeError, r"dtypes differ: query float32, key float32, value float64")
    yield ErrorSample((a, a, a, np.ones((1, 2, 3), F)), p, ShapeError, r"a mask of shape \(1, 2, 3\) does not broadcast")
    yield ErrorSample((a, a, a, np.ones((1, 3, 3), int)), p, DTypeError, r"a mask is int64, but must be bool or float")
    yield ErrorSample((a[..., :0], a[..., :0], a), p, ShapeError, r"have no elements to multiply")


def gradient_errors() -> Iterable[ErrorSample]:
    a, row = np.ones((2, 3, 4), F), np.ones((2, 3), F)
    p = _params("query")
    yield ErrorSample((a, a, a, a, row, row[:1]), p, ShapeError, r"attention_gradient: delta is float32\(1, 3\), but must be")
