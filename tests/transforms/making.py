"""Arrays for these tests, made without the functions above the array layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap_array
from weft.array.convert import as_node


def array(x: Any, dtype: Any = None) -> Array:
    return wrap_array(as_node(np.asarray(x, dtype) if dtype is not None else x))


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng().normal(size=shape).astype(dtype)


def slope(f: Any, x: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    """Central differences of a function of a float64 NumPy array, through weft."""
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += eps
        down[i] -= eps
        out[i] = (float(f(array(up))) - float(f(array(down)))) / (2 * eps)
    return out
