"""Initial value problems: for weft, for NumPy, and random ones. References are SciPy's DOP853 and Radau at small tolerances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

import weft as wf


class Problem(NamedTuple):
    """f(k, t, y) with the functions of ``k``, weft or NumPy; y is a list of numbers, and so is the result."""

    name: str
    f: Callable[[Any, Any, Any], list[Any]]
    y0: list[float]
    end: float
    stiff: bool = False

    def slope(self, t: Any, y: Any, args: Any = None) -> Any:
        return wf.stack(self.f(wf, t, [y[k] for k in range(len(self.y0))]))

    def reference(self, times: np.ndarray) -> np.ndarray:
        options = dict(method="Radau", rtol=1e-11, atol=1e-14) if self.stiff else dict(method="DOP853", rtol=1e-13, atol=1e-14)
        span = float(times[0]), float(times[-1])
        return solve_ivp(lambda t, y: [float(x) for x in self.f(np, t, y)], span, self.y0, t_eval=times, **options).y.T


def lorenz(k: Any, t: Any, y: Any) -> list[Any]:
    return [10.0 * (y[1] - y[0]), y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]


def van_der_pol(mu: float) -> Callable[[Any, Any, Any], list[Any]]:
    return lambda k, t, y: [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]]


def robertson(k: Any, t: Any, y: Any) -> list[Any]:
    first, last = 1e4 * y[1] * y[2] - 0.04 * y[0], 3e7 * y[1] * y[1]
    return [first, -first - last, last]


def kepler(k: Any, t: Any, y: Any) -> list[Any]:
    cube = (y[0] ** 2 + y[1] ** 2) ** 1.5
    return [y[2], y[3], -y[0] / cube, -y[1] / cube]


NONSTIFF = [
    Problem("lorenz", lorenz, [1.0, 1.0, 1.0], 2.0),
    Problem("van der pol", van_der_pol(1.0), [2.0, 0.0], 10.0),
    Problem("detest a1", lambda k, t, y: [-y[0]], [1.0], 20.0),
    Problem("detest a3", lambda k, t, y: [y[0] * k.cos(t)], [1.0], 20.0),
    Problem("detest a5", lambda k, t, y: [(y[0] - t) / (y[0] + t)], [4.0], 20.0),
    Problem("detest b1", lambda k, t, y: [2 * (y[0] - y[0] * y[1]), y[0] * y[1] - y[1]], [1.0, 3.0], 20.0),
    Problem("detest b5", lambda k, t, y: [y[1] * y[2], -y[0] * y[2], -0.51 * y[0] * y[1]], [0.0, 1.0, 1.0], 20.0),
    Problem("detest d3", kepler, [0.5, 0.0, 0.0, 3**0.5], 20.0),
]
STIFF = [
    Problem("robertson", robertson, [1.0, 0.0, 0.0], 400.0, stiff=True),
    Problem("van der pol", van_der_pol(100.0), [2.0, 0.0], 100.0, stiff=True),
]


def draw_linear(rng: np.random.Generator) -> Problem:
    """Return a random linear problem with a forcing."""
    n = int(rng.integers(1, 4))
    a, force, rate = rng.uniform(-1, 1, (n, n)), rng.uniform(-1, 1, n), float(rng.uniform(1, 2))

    def f(k: Any, t: Any, y: Any) -> list[Any]:
        return [sum(float(a[i, j]) * y[j] for j in range(n)) + float(force[i]) * k.sin(rate * t) for i in range(n)]

    return Problem("linear", f, list(rng.uniform(-1, 1, n)), 1.0)


def draw_nonlinear(rng: np.random.Generator) -> Problem:
    """Return random coupled oscillators with products and a dependence on time; no solution blows up before the end."""
    n = int(rng.integers(1, 4))
    a, b = rng.uniform(-1, 1, (n, n)), rng.uniform(-1, 1, (n, n))

    def f(k: Any, t: Any, y: Any) -> list[Any]:
        return [
            sum(float(a[i, j]) * k.sin(y[j] + t) for j in range(n)) + sum(float(b[i, j]) * y[i] * y[j] for j in range(n)) * 0.2
            for i in range(n)
        ]

    return Problem("nonlinear", f, list(rng.uniform(-1, 1, n)), 1.0)
