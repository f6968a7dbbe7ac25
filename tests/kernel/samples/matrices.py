"""Samples of primitives on matrices: well conditioned, since their derivatives are compared with differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tests.kernel.samples.sample import ErrorSample, Sample
from weft.errors import DTypeError, ShapeError
from weft.graph.primitives.linear_algebra import MatrixError, matrix_argument

Make = Callable[..., np.ndarray]


def general(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Matrices with singular values from 1 on, about 0.7 apart."""
    *lead, m, n = shape
    k = min(m, n)
    u, v = (np.linalg.qr(rng.normal(size=(*lead, d, d)))[0] for d in (m, n))
    values = 1 + 0.7 * np.arange(k) + rng.uniform(0, 0.2, k)
    return np.asarray((u[..., :, :k] * values) @ v[..., :k, :], np.float32)


def positive(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Symmetric matrices with such eigenvalues."""
    *lead, _, n = shape
    q = np.linalg.qr(rng.normal(size=(*lead, n, n)))[0]
    found = (q * (1 + 0.7 * np.arange(n) + rng.uniform(0, 0.2, n))) @ np.swapaxes(q, -1, -2)
    return np.asarray((found + np.swapaxes(found, -1, -2)) / 2, np.float32)


def small(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return np.asarray(rng.uniform(-0.6, 0.6, shape), np.float32)


def ordered(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Matrices with real eigenvalues, about 0.7 apart, that are not symmetric."""
    *lead, _, n = shape
    v = np.eye(n) + rng.uniform(-0.3, 0.3, (*lead, n, n)) / max(n, 1)
    return np.asarray((v * (1 + 0.7 * np.arange(n))) @ np.linalg.inv(v), np.float32)


def _samples(
    rng: np.random.Generator, make: Make, params: dict[str, Any], square: bool = True, more: Callable[..., tuple] = lambda x: (),
) -> Iterable[Sample]:
    def one(shape: tuple[int, ...], tag: str = "usual", change: Callable[..., Any] = lambda x: x) -> Sample:
        x = change(make(rng, *shape))
        return Sample((x, *more(x)), params, tag)

    yield one((0, 3, 3), "zero")
    yield one((0, 0), "zero")
    yield one((1, 1), "one")
    yield one((5, 5), "prime")
    yield one((2, 1, 3, 3), "broadcast")
    yield one((3, 3), "strided", lambda x: np.asfortranarray(x) if x.ndim == 2 else x)
    yield one((2, 2), "special", lambda x: np.diag(np.array([2, -0.0 if not square else 2], np.float32)))
    yield one((2, 3, 3))
    if not square:
        yield one((4, 2))
        yield one((3, 2, 3))


def _errors(name: str, square: bool = True, **params: Any) -> Iterable[ErrorSample]:
    x, a = np.ones((2, 3), np.float32), matrix_argument(name)
    yield ErrorSample((x[0],), params, MatrixError, rf"{name}: {a} has shape \(3,\); a matrix or a stack")
    if square:
        yield ErrorSample((x,), params, MatrixError, rf"{name}: {a} has shape \(2, 3\); .*a square matrix")
    yield ErrorSample((np.eye(2, dtype=np.float16),), params, DTypeError, rf"{name}: {a} is float16, but must be one of .*float3")
    yield ErrorSample((np.eye(2, dtype=np.int64),), params, DTypeError, rf"{name}: {a} is int64, but must be one of")


def _of(name: str, make: Make, square: bool = True, **params: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return lambda rng: _samples(rng, make, params, square), lambda: _errors(name, square, **params)


inv, inv_errors = _of("inv", general)
det, det_errors = _of("det", general)
cofactors, cofactors_errors = _of("cofactors", general)
slogdet, slogdet_errors = _of("slogdet", general)
expm, expm_errors = _of("expm", small)
cholesky, cholesky_errors = _of("cholesky", positive)
eigh, eigh_errors = _of("eigh", positive, lower=True)
eigvalsh, eigvalsh_errors = _of("eigvalsh", positive, lower=False)
svd, svd_errors = _of("svd", general, False, full=False)
svdvals, svdvals_errors = _of("svdvals", general, False)
qr, qr_errors = _of("qr", general, False, mode="reduced")
eig, eig_errors = _of("eig", ordered)
eigvals, eigvals_errors = _of("eigvals", ordered)


def solve(rng: np.random.Generator) -> Iterable[Sample]:
    def right(x: np.ndarray) -> tuple[np.ndarray]:
        return (np.asarray(rng.normal(size=(*x.shape[:-1], 2)), np.float32),)

    yield from _samples(rng, general, {}, True, right)
    yield Sample((general(rng, 2, 1, 3, 3), np.asarray(rng.normal(size=(4, 3, 2)), np.float32)), tag="broadcast")


def solve_errors() -> Iterable[ErrorSample]:
    a, b = np.eye(3, dtype=np.float32), np.ones((3, 2), np.float32)
    yield ErrorSample((b, b), {}, MatrixError, r"solve: a has shape \(3, 2\); .*a square matrix")
    yield ErrorSample((a, b[0]), {}, MatrixError, r"solve: b has shape \(2,\); a matrix")
    yield ErrorSample((a, b[:2]), {}, ShapeError, r"solve: a \(3, 3\) and b \(2, 2\) do not fit: b must have as many rows")
    yield ErrorSample((a, b.astype(np.float64)), {}, DTypeError, r"solve: dtypes differ: a float32, b float64")


def pinv(rng: np.random.Generator) -> Iterable[Sample]:
    yield from _samples(rng, general, {}, False, lambda x: (np.float32(1e-3) * np.ones((), np.float32),))


def pinv_errors() -> Iterable[ErrorSample]:
    x, r = np.ones((4, 2, 3), np.float32), np.ones((), np.float32)
    yield ErrorSample((x[0, 0], r), {}, MatrixError, r"pinv: a has shape \(3,\)")
    wide = np.ones(3, np.float32)
    yield ErrorSample((x, wide), {}, ShapeError, r"pinv: rcond has shape \(3,\), which does not broadcast to \(4,\)")
    yield ErrorSample((x.astype(np.float16), r), {}, DTypeError, r"pinv: a is float16")
