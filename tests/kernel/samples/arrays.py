"""Arrays of samples: random numbers, special numbers, odd strides."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, FLOAT32, INTEGERS, Format
from weft.graph.primitives.kinds import UNSIGNED

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


def wide_formats(allowed: frozenset[Format]) -> frozenset[Format]:
    """Without narrow floats, in which tests repeat the samples of float32."""
    return frozenset(f for f in allowed if not f.narrow)


