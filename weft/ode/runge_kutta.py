"""Explicit Runge-Kutta methods: each is a tableau."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from weft.array import Array
from weft.ode import tableaus
from weft.ode.steps import Slope, Step, combine
from weft.ode.tableaus import Tableau


@dataclass(frozen=True)
class RungeKutta:
    """An explicit Runge-Kutta method. Subclasses name its tableau.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ode.Tsit5().order, wf.ode.Dopri8().evaluations
    (5, 13)
    """

    tableau: ClassVar[Tableau]

    @property
    def order(self) -> int:
        """Return the order of the method."""
        return self.tableau.order

    @property
    def error_order(self) -> int:
        """Return the power of the step size in the estimate of the error, or 0 if there is none."""
        return self.tableau.error_order

    @property
    def evaluations(self) -> int:
        """Return the number of evaluations of f in a step."""
        return len(self.tableau.a)

    @property
    def degree(self) -> int:
        """Return the degree of the polynomials inside of steps."""
        return len(self.tableau.polynomials[0])

    def start(self, f: Slope, t: Array, y: Array) -> Array:
        """Return the derivative at the first time."""
        return f(t, y)

    def step(self, f: Slope, t: Array, h: Array, y: Array, slope: Array, scale: object) -> Step:
        """Return the step from ``t`` to ``t + h``."""
        slopes, width = [slope], h.astype(y.dtype)
        for row, c in zip(self.tableau.a, self.tableau.c, strict=True):
            end = y + width * combine(row, slopes)
            slopes.append(f(t + h if c == 1 else t + c * h, end))
        polynomial = [width * combine(column, slopes) for column in zip(*self.tableau.polynomials, strict=True)]
        error = width * combine(self.tableau.error, slopes) if self.error_order else None
        return Step(end, slopes[-1], polynomial, error)


class Euler(RungeKutta):
    """Euler's method, of order 1, without an estimate of the error."""

    tableau = tableaus.EULER


class Heun(RungeKutta):
    """Heun's method, of order 2, with Euler's for the estimate of the error."""

    tableau = tableaus.HEUN


class Midpoint(RungeKutta):
    """The midpoint method, of order 2, with Euler's for the estimate of the error."""

    tableau = tableaus.MIDPOINT


class Ralston(RungeKutta):
    """Ralston's method, of order 2, with Euler's for the estimate of the error."""

    tableau = tableaus.RALSTON


class RK4(RungeKutta):
    """The classical method of order 4, without an estimate of the error."""

    tableau = tableaus.RK4


class Bosh3(RungeKutta):
    """The pair of Bogacki and Shampine, of orders 3 and 2."""

    tableau = tableaus.BOSH3


class Dopri5(RungeKutta):
    """The pair of Dormand and Prince, of orders 5 and 4, with polynomials of degree 4 inside of steps."""

    tableau = tableaus.DOPRI5


class Tsit5(RungeKutta):
    """The pair of Tsitouras, of orders 5 and 4, with polynomials of degree 4 inside of steps."""

    tableau = tableaus.TSIT5


class Dopri8(RungeKutta):
    """The pair of Prince and Dormand, of orders 8 and 7, with polynomials of degree 6 inside of steps."""

    tableau = tableaus.DOPRI8
