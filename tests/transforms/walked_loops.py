"""Scans with steps in NumPy, grown from a seed: each body is written once, for weft and for NumPy's loop beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def spd(a: Any, x: Any) -> Any:
    """Symmetric, positive definite."""
    s = a + x * x
    return s @ s.swapaxes(-1, -2) + 1.0


def expm(np: Any, a: Any) -> Any:
    if hasattr(np.linalg, "expm"):
        return np.linalg.expm(a)
    from scipy.linalg import expm

    return expm(a) if a.size else a


# (np, constant a (n, n), carry c (..., n, 2), slice x (..., n, n)) -> the carry after the step and what it gives out
BODIES: dict[str, Callable[[Any, Any, Any, Any], tuple[Any, Any]]] = {
    "solve": lambda np, a, c, x: (np.tanh(np.linalg.solve(a + x, c)) + 0.5, c * 2),
    "inv": lambda np, a, c, x: (np.linalg.inv(a + x) @ c, np.sin(c).sum(-1)),
    "inv first and last": lambda np, a, c, x: (np.linalg.inv(a) @ c, np.linalg.inv(a + x)),
    "det": lambda np, a, c, x: (c / (1 + np.linalg.det(a + x) ** 2)[..., None, None], c + 1),
    "slogdet": lambda np, a, c, x: (np.cos(c) + np.linalg.slogdet(a + x)[1][..., None, None], c[..., 0]),
    "cholesky": lambda np, a, c, x: (np.tanh(0.1 * np.linalg.cholesky(spd(a, x)) @ c), c[..., 0, :] + 0.0),
    "eigh": lambda np, a, c, x: (c * 0.5 + np.linalg.eigvalsh(spd(a, x))[..., None], c.sum((-1, -2))),
    "eigenvectors": lambda np, a, c, x: ((lambda e: np.tanh((e[1] * e[0][..., None, :]) @ c / 50))(np.linalg.eigh(spd(a, x))), c),
    "qr": lambda np, a, c, x: ((lambda f: np.tanh(f[0] @ f[1] @ c / 5))(np.linalg.qr(a + x)), c * c),
    "svd": lambda np, a, c, x: (np.tanh(c) + np.linalg.svd(a + x, compute_uv=False)[..., None], c - 1),
    "pinv": lambda np, a, c, x: (np.tanh(np.linalg.pinv(a + x) @ c), c.mean()),
    "expm": lambda np, a, c, x: (np.tanh(expm(np, a * 0.1 + x) @ c), x @ c),
    "sort": lambda np, a, c, x: (np.sort(np.sin(a @ c / 5) + x.sum((-1, -2))[..., None, None], axis=-2), c),
    "argsort": lambda np, a, c, x: (np.take_along_axis(a @ np.sin(c) / 5, np.argsort(c, axis=-2), axis=-2), c * x[..., :1]),
    "fft": lambda np, a, c, x: (np.real(np.fft.ifft(np.fft.fft(c, axis=-2) * 0.5j, axis=-2)) + a @ np.sin(c) / 10, c),
    "several": lambda np, a, c, x: (
        np.linalg.solve(spd(a, x), np.sort(np.sin(c), axis=-2)), np.linalg.inv(a + x) @ (c + np.linalg.det(a))),
}


@dataclass(frozen=True)
class Case:
    body: str
    steps: int
    n: int
    batch: tuple[int, ...]
    reverse: bool

    def arrays(self, dtype: str = "float64") -> Arrays:
        """The constant, the first carry, and what the loop goes along."""
        r = np.random.default_rng()
        a = r.normal(size=(self.n, self.n)) / 4 + np.diag(1.5 + np.arange(self.n))  # far from singular, values apart
        c, x = r.normal(size=(*self.batch, self.n, 2)), r.normal(size=(self.steps, *self.batch, self.n, self.n)) / 10
        return a.astype(dtype), c.astype(dtype), x.astype(dtype)

    def looped(self, np: Any, a: Any, c: Any, xs: Any) -> tuple[Any, Any]:
        """The steps as a Python loop."""
        ys: list[Any] = []
        for t in range(self.steps)[:: -1 if self.reverse else 1]:
            c, y = BODIES[self.body](np, a, c, xs[t])
            ys.append(y)
        return c, np.stack(ys[::-1] if self.reverse else ys) if ys else None

    def scanned(self, wf: Any, a: Any, c: Any, xs: Any) -> tuple[Any, Any]:
        return wf.scan(lambda c, x: BODIES[self.body](wf, a, c, x), c, xs, reverse=self.reverse)


def drawn(body: str, steps: int, batched: bool = True) -> Case:
    """Sizes are fresh at every run."""
    r = np.random.default_rng()
    batch = ((), (3,), (2, 1))[r.integers(3)] if batched else ()
    return Case(body, steps, int(r.integers(1, 6)), batch, bool(r.integers(2)))
