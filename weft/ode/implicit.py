"""Implicit methods for stiff equations: Newton's method with the Jacobian of the step's start.

A step computes one Jacobian by reverse derivatives and one inverse of ``1 - h * diagonal * Jacobian``, which all stages use. Each
stage takes a fixed number of iterations; a step whose last corrections are too large for the tolerance is rejected. States of at
most ``MAX_UNROLLED_SIZE`` elements are inverted by array code, so the loop stays native. Larger ones use LAPACK, so Python
drives the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from weft.array import Array
from weft.functions.creation.fill import arange, eye, zeros
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import equal, less, maximum, stop_gradient
from weft.functions.indexing.where import where
from weft.functions.linalg.decompositions import inv
from weft.functions.shape.axes import concat
from weft.ode import tableaus
from weft.ode.runge_kutta import RungeKutta
from weft.ode.steps import Slope, Step, combine, norm
from weft.ode.tableaus import Tableau
from weft.transforms.grad import vjp
from weft.transforms.vmap import vmap

MAX_UNROLLED_SIZE = 8
DIVERGENCE_GROWTH = 2  # growth of a correction at which the iterations end, as in CVODE
CONVERGENCE_TOLERANCE = 0.05  # the largest last correction of a stage, in units of the tolerance


@dataclass(frozen=True)
class ImplicitRungeKutta(RungeKutta):
    """A singly diagonally implicit method whose first stage is explicit.

    Parameters
    ----------
    iterations : int, of Newton's method in each stage

    Raises
    ------
    ValueError
        ``iterations`` is not an int of at least 1.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ode.Kvaerno5(iterations=3).evaluations
    18
    """

    tableau: ClassVar[Tableau]
    iterations: int = 4

    def __post_init__(self) -> None:
        if isinstance(self.iterations, bool) or not isinstance(self.iterations, int) or self.iterations < 1:
            raise ValueError(f"{type(self).__name__}: iterations is {self.iterations!r}, but must be an int of at least 1")

    @property
    def evaluations(self) -> int:
        """Return the number of evaluations of f in a step, without those of the Jacobian."""
        return len(self.tableau.a) * self.iterations

    def step(self, f: Slope, t: Array, h: Array, y: Array, slope: Array, scale: object) -> Step:
        """Return the step from ``t`` to ``t + h``."""
        table, slopes, width = self.tableau, [slope], h.astype(y.dtype)
        own = width * table.diagonal
        solve = stop_gradient(invert(eye(y.size, dtype=y.dtype) - own * jacobian(f, t, y)))
        worst = zeros((), dtype=y.dtype)
        for row, c, guess in zip(table.a, table.c, table.predictor, strict=True):
            start = y + width * combine(row, slopes)
            k, before = combine(guess, slopes), None
            for _ in range(self.iterations):
                residual = f(t + c * h, start + own * k) - k
                change = (solve @ residual.reshape(-1)).reshape(y.shape)
                size = stop_gradient(norm(own * change / scale))
                if before is not None:  # the error of a diverging step stays finite, and the next step depends on it
                    change = where(size <= DIVERGENCE_GROWTH * before, change, 0.0)
                    size = where(size <= DIVERGENCE_GROWTH * before, size, before)
                k, before = k + change, size
            worst = maximum(worst, size)
            end = start + own * k
            slopes.append(k)
        polynomial = [width * combine(column, slopes) for column in zip(*table.polynomials, strict=True)]
        return Step(end, slopes[-1], polynomial, width * combine(table.error, slopes), less(worst, CONVERGENCE_TOLERANCE))


def jacobian(f: Slope, t: Array, y: Array) -> Array:
    """Return the matrix of the derivatives of the elements of f (rows) by those of y (columns)."""
    _, pull = vjp(lambda flat: f(t, flat.reshape(y.shape)).reshape(-1), y.reshape(-1))
    return vmap(pull)(eye(y.size, dtype=y.dtype))[0]


def invert(a: Array) -> Array:
    """Return the inverse of a matrix; small ones by Gauss-Jordan elimination with row pivots, in array code."""
    n = a.shape[0]
    if n > MAX_UNROLLED_SIZE:
        return inv(a)
    rows = concat([a, eye(n, dtype=a.dtype)], axis=1)
    place = arange(n)
    for k in range(n):
        size = where(place < k, -1.0, absolute(rows[:, k]))
        chosen = equal(place, size.argmax()).reshape(n, 1)
        pivot = where(chosen, rows, 0.0).sum(axis=0)
        swapped = where(chosen, rows[k], rows)
        pivot = pivot / pivot[k]
        rows = where(equal(place, k).reshape(n, 1), pivot, swapped - swapped[:, k : k + 1] * pivot)
    return rows[:, n:]


class ImplicitEuler(ImplicitRungeKutta):
    """The implicit Euler method, of order 1; half of the change of the derivative estimates the error.

    Parameters
    ----------
    iterations : int, of Newton's method in each stage

    Raises
    ------
    ValueError
        ``iterations`` is not an int of at least 1.
    """

    tableau = tableaus.IMPLICIT_EULER


class Kvaerno3(ImplicitRungeKutta):
    """Kvaerno's pair of orders 3 and 2, A-stable and L-stable.

    Parameters
    ----------
    iterations : int, of Newton's method in each stage

    Raises
    ------
    ValueError
        ``iterations`` is not an int of at least 1.
    """

    tableau = tableaus.KVAERNO3


@dataclass(frozen=True)
class Kvaerno5(ImplicitRungeKutta):
    """Kvaerno's pair of orders 5 and 4, A-stable and L-stable. One of its stages lies behind the end of the step.

    Parameters
    ----------
    iterations : int, of Newton's method in each stage

    Raises
    ------
    ValueError
        ``iterations`` is not an int of at least 1.
    """

    tableau = tableaus.KVAERNO5
    iterations: int = 6  # with 4, a fifth to a half of the steps of stiff problems do not converge
