"""Line searches, as native loops: strong Wolfe conditions, and backtracking along a path that bounds project."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.array import Array
from weft.functions.creation.fill import full, zeros
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import isfinite, maximum, minimum, sign, sqrt
from weft.functions.indexing.where import where
from weft.optim.objective import epsilon
from weft.transforms.control import while_loop

Function = Callable[[Array], tuple[Array, Array]]  # returns the loss and its gradient at a vector

NOISE = 10  # rounding of a loss, in units of its last place, that a comparison of two losses allows for
FLAT = 100  # a search that promises a fall of at most this many times the rounding is decided by slopes
WIDEN = 4.0  # the largest factor by which the first stage lengthens an interval
MARGIN = 0.1  # part of an interval, at each end, in which no trial is made


@dataclass(frozen=True)
class Point:
    """The result of a search: a point with a lower loss, or the starting point if none was found."""

    x: Array
    loss: Array
    gradient: Array
    evaluations: Array
    is_found: Array


@dataclass(frozen=True)
class _Search:
    """The carry of :func:`strong_wolfe`. Lengths, losses and slopes at the better and at the other end of the interval.

    The other end is infinite until an interval is known that contains acceptable lengths.
    """

    trial: Array
    low: Array
    low_loss: Array
    low_slope: Array
    low_gradient: Array
    high: Array
    high_loss: Array
    high_slope: Array
    count: Array
    is_done: Array


def strong_wolfe(
    function: Function, x: Array, loss: Array, gradient: Array, direction: Array, first: Array, armijo: float, curvature: float,
    most: int,
) -> Point:
    """Return a point on the line from ``x`` along ``direction`` that satisfies the strong Wolfe conditions.

    These are algorithms 3.5 and 3.6 of Nocedal and Wright, Numerical optimization, 2nd edition, as one loop: the first stage is
    the second one with an interval that has no end. Where two losses differ by rounding only, their slopes decide (the
    approximate Wolfe condition of Hager and Zhang, SIAM J. Optim. 16, 2005). A loss that is not finite counts as too high.

    first : the length that is tried first
    most : number of evaluations; after it, the best length found is returned if the loss is lower there
    """
    slope = gradient @ direction
    noise = NOISE * epsilon(x) * absolute(loss)
    near = -first * slope <= FLAT * noise

    def body(s: _Search) -> _Search:
        a = s.trial
        value, there = function(x + a * direction)
        tilt = there @ direction
        is_flat = near & (value <= loss + noise) & (tilt <= (2 * armijo - 1) * slope)
        sufficient = isfinite(value) & isfinite(tilt) & ((value <= loss + armijo * a * slope) | is_flat)
        is_high = ~sufficient | (value > s.low_loss + noise)
        is_good = ~is_high & (absolute(tilt) <= -curvature * slope)
        turns = tilt * (s.high - s.low) >= 0
        high, high_loss, high_slope = [
            where(is_high, new, where(turns, low, old))
            for new, low, old in ((a, s.low, s.high), (value, s.low_loss, s.high_loss), (tilt, s.low_slope, s.high_slope))
        ]
        low, low_loss, low_slope, low_gradient = [
            where(is_high, old, new)
            for old, new in ((s.low, a), (s.low_loss, value), (s.low_slope, tilt), (s.low_gradient, there))
        ]
        trial = where(
            isfinite(high),
            _trial_inside(low, low_loss, low_slope, high, high_loss, high_slope),
            _trial_beyond(s.low, s.low_loss, s.low_slope, a, value, tilt),
        )
        return _Search(trial, low, low_loss, low_slope, low_gradient, high, high_loss, high_slope, s.count + 1, is_good)

    nothing, infinite = zeros((), dtype=x.dtype), full((), float("inf"), dtype=x.dtype)
    start = _Search(
        first, nothing, loss, slope, gradient, infinite, nothing, nothing, zeros((), dtype="int64"), zeros((), dtype="bool"),
    )
    end = while_loop(lambda s: ~s.is_done & (s.count < most), body, start)
    found = (end.low > 0) & (near | (end.low_loss < loss))
    return Point(
        where(found, x + end.low * direction, x), where(found, end.low_loss, loss), where(found, end.low_gradient, gradient),
        end.count, found,
    )


def projected_search(
    function: Function, x: Array, loss: Array, gradient: Array, direction: Array, first: Array, armijo: float, most: int,
    project: Callable[[Array], Array],
) -> Point:
    """Return a point with a sufficiently lower loss on the path ``project(x + a * direction)``, shortening ``a`` from ``first``.

    D. P. Bertsekas, Projected Newton methods for optimization problems with simple constraints, SIAM J. Control Optim. 20, 1982.
    """
    noise = NOISE * epsilon(x) * absolute(loss)

    def body(s: tuple[Any, ...]) -> tuple[Any, ...]:
        a, _, _, _, count, _ = s
        point = project(x + a * direction)
        value, there = function(point)
        change = gradient @ (point - x)
        good = isfinite(value) & (change < 0) & ((value <= loss + armijo * change) | (value <= loss + noise) & (count > 3))
        parabola = a * change / (2 * (change - (value - loss)))
        shorter = minimum(maximum(where(isfinite(parabola), parabola, 0.5 * a), 0.1 * a), 0.5 * a)
        return shorter, point, value, there, count + 1, good

    start = (first, x, loss, gradient, zeros((), dtype="int64"), zeros((), dtype="bool"))
    _, point, value, there, count, good = while_loop(lambda s: ~s[5] & (s[4] < most), body, start)
    return Point(where(good, point, x), where(good, value, loss), where(good, there, gradient), count, good)


def _cubic(a: Array, fa: Array, sa: Array, b: Array, fb: Array, sb: Array) -> Array:
    """Return the minimum of the cubic with these values and slopes at ``a`` and ``b`` (Nocedal and Wright, equation 3.59)."""
    d = sa + sb - 3 * (fa - fb) / (a - b)
    root = sign(b - a) * sqrt(maximum(d * d - sa * sb, 0.0))
    return b - (b - a) * (sb + root - d) / (sb - sa + 2 * root)


def _trial_inside(a: Array, fa: Array, sa: Array, b: Array, fb: Array, sb: Array) -> Array:
    """Return the next trial in the interval from ``a`` to ``b``: the cubic's minimum, or the middle if that is not finite."""
    t = _cubic(a, fa, sa, b, fb, sb)
    edge = MARGIN * absolute(b - a)
    t = where(isfinite(t), t, 0.5 * (a + b))
    return minimum(maximum(t, minimum(a, b) + edge), maximum(a, b) - edge)


def _trial_beyond(a: Array, fa: Array, sa: Array, b: Array, fb: Array, sb: Array) -> Array:
    """Return the next trial above ``b``, where the loss still falls: the cubic's minimum, within limits."""
    t = _cubic(a, fa, sa, b, fb, sb)
    least, largest = b + MARGIN * (b - a), b + WIDEN * (b - a)
    return where(isfinite(t) & (t > b), minimum(maximum(t, least), largest), largest)
