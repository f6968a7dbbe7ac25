"""What a solver is: a start and a step of states that are one array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from weft.array import Array
from weft.functions.creation.fill import zeros
from weft.functions.elementwise.ufuncs import sqrt

Slope = Callable[[Any, Any], Array]  # (t, y) -> dy/dt, of the shape of y


class Step(NamedTuple):
    """The result of one step.

    y, slope : the state at the end of the step and its derivative there
    polynomial : arrays p1, p2, ...; at the part x of the step the state is y + x * (p1 + x * (p2 + ...))
    error : an estimate of the error of ``y``; None if the method has none
    converged : bool, whether the equations of an implicit method are solved; None for explicit methods
    """

    y: Array
    slope: Array
    polynomial: Sequence[Array]
    error: Array | None = None
    converged: Array | None = None


class Solver(Protocol):
    """A method of integration.

    order : of the method
    error_order : the power of the step size in the estimate of the error, 0 if the method has none
    evaluations : of f in a step
    degree : of the polynomials
    """

    @property
    def order(self) -> int: ...
    @property
    def error_order(self) -> int: ...
    @property
    def evaluations(self) -> int: ...
    @property
    def degree(self) -> int: ...

    def start(self, f: Any, t: Array, y: Array) -> Array:
        """Return the derivative at the first time."""

    def step(self, f: Any, t: Array, h: Array, y: Array, slope: Array, scale: Any) -> Step:
        """Return the step from ``t`` to ``t + h``. scale : the error of each element that counts as 1"""


def combine(factors: Sequence[float], arrays: Sequence[Array]) -> Any:
    """Return the sum of the products, without those that are zero."""
    terms = [x if c == 1 else x * c for c, x in zip(factors, arrays, strict=False) if c]
    return sum(terms[1:], terms[0]) if terms else 0.0


def norm(x: Array) -> Array:
    """Return the root of the mean square; 0 for no elements."""
    return sqrt((x * x).mean()) if x.size else zeros((), dtype=x.dtype)


def evaluate(y: Array, polynomial: Sequence[Array], part: Any) -> Array:
    """Return the state at a part of the step, see :class:`Step`."""
    total = polynomial[-1]
    for factor in reversed(polynomial[:-1]):
        total = total * part + factor
    return y + total * part


def hermite(h: Array, y: Array, slope: Array, end: Array, end_slope: Array) -> list[Array]:
    """Return the cubic polynomial with these states and derivatives at both ends of a step."""
    rise, first, last = end - y, h * slope, h * end_slope
    return [first, 3 * rise - 2 * first - last, first + last - 2 * rise]
