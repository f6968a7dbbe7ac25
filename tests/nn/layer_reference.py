"""What the tests of layers share: a function's value and gradient, compiled, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf


def check(
    f: Callable[..., Any], reference: Callable[..., np.ndarray], *arrays: np.ndarray, seed: int = 0, bound: float = 1e-11,
    slopes: float = 1e-6,
) -> None:
    """The value of ``f`` under jit against ``reference``, and its gradient to every array along a random direction.

    Directions sum all partial derivatives with random weights: one wrong element shows. Central differences are taken of
    the float64 reference, so that nothing more is compiled.
    """
    rng = np.random.default_rng(seed)
    want = np.asarray(reference(*arrays))
    weights = rng.normal(size=want.shape)
    fixed = wf.array(weights)

    @wf.jit
    def run(*xs: Any) -> Any:
        value, gradient = wf.value_and_grad(lambda *xs: _weighted(f(*xs), fixed), argnums=tuple(range(len(xs))))(*xs)
        return f(*xs), value, gradient

    got, total, gradients = run(*(wf.array(a) for a in arrays))
    assert got.dtype == np.float64 and got.shape == want.shape
    assert np.abs(want).max() > 0
    np.testing.assert_allclose(got.numpy(), want, rtol=bound, atol=bound * np.abs(want).max())
    np.testing.assert_allclose(float(total), (want * weights).sum(), rtol=1e-9, atol=1e-9)
    h = 1e-6
    for k, a in enumerate(arrays):
        assert np.isfinite(gradients[k].numpy()).all()
        for _ in range(2):
            step = rng.normal(size=a.shape)
            sides = [(reference(*arrays[:k], a + s * h * step, *arrays[k + 1:]) * weights).sum() for s in (1, -1)]
            numeric = (sides[0] - sides[1]) / (2 * h)
            scale = np.abs(gradients[k].numpy() * step).sum()
            assert abs((gradients[k].numpy() * step).sum() - numeric) <= slopes * (scale + 1e-3), (k, numeric)


def _weighted(y: Any, weights: Any) -> Any:
    return (y * weights).sum()
