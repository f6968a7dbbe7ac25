"""Symplectic methods for positions q and momenta p with dq/dt = f_q(t, p) and dp/dt = f_p(t, q)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from weft.array import Array
from weft.functions.shape.axes import concat
from weft.ode.steps import Slope, Step, hermite


class PairOfSlopes(NamedTuple):
    """The derivatives of positions and momenta, and the number of positions in the state."""

    q: Slope
    p: Slope
    size: int


@dataclass(frozen=True)
class Symplectic:
    """A symplectic method. It has no estimate of the error."""

    order = 0
    error_order = 0
    evaluations = 2
    degree = 3

    def start(self, f: PairOfSlopes, t: Array, y: Array) -> Array:
        """Return the derivative at the first time."""
        return concat([f.q(t, y[f.size :]), f.p(t, y[: f.size])])


class SymplecticEuler(Symplectic):
    """The symplectic Euler method, of order 1: momenta first, then positions.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ode.SymplecticEuler().order
    1
    """

    order = 1

    def step(self, f: PairOfSlopes, t: Array, h: Array, y: Array, slope: Array, scale: object) -> Step:
        """Return the step from ``t`` to ``t + h``."""
        width = h.astype(y.dtype)
        q, p = y[: f.size], y[f.size :]
        p = p + width * slope[f.size :]
        speed = f.q(t + h, p)
        q = q + width * speed
        end, end_slope = concat([q, p]), concat([speed, f.p(t + h, q)])
        return Step(end, end_slope, hermite(width, y, slope, end, end_slope))


class Leapfrog(Symplectic):
    """The method of Störmer and Verlet, of order 2: half a step of the momenta, a step of the positions, half a step again.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ode.Leapfrog().order
    2
    """

    order = 2

    def step(self, f: PairOfSlopes, t: Array, h: Array, y: Array, slope: Array, scale: object) -> Step:
        """Return the step from ``t`` to ``t + h``."""
        width = h.astype(y.dtype)
        q, p = y[: f.size], y[f.size :]
        p = p + width / 2 * slope[f.size :]
        q = q + width * f.q(t + h / 2, p)
        force = f.p(t + h, q)
        p = p + width / 2 * force
        end, end_slope = concat([q, p]), concat([f.q(t + h, p), force])
        return Step(end, end_slope, hermite(width, y, slope, end, end_slope))
