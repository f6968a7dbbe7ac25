"""Step sizes: by the estimate of the error, or constant."""

from __future__ import annotations

from dataclasses import dataclass

from weft.array import Array
from weft.functions.elementwise.compositions import clip
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import exp, log, maximum, minimum, sign, stop_gradient
from weft.functions.indexing.where import where
from weft.ode.steps import Slope, norm

MAX_ERROR = 1e10  # stands for errors that are not finite


@dataclass(frozen=True)
class PI:
    """Steps whose estimated errors are close to the tolerance.

    The next step is this one times ``safety * error**-((pcoeff + icoeff) / k) * previous**(pcoeff / k)``, where k is the power
    of the step size in the estimate of the error. ``error`` is in units of the tolerance, and ``previous`` is the error of the
    accepted step before. Steps with an error above 1 are rejected. Derivatives of the solution count step sizes as constants.

    Parameters
    ----------
    pcoeff, icoeff : float; ``pcoeff=0, icoeff=1`` is the classical control without memory
    safety : float
    least, most : float, the limits of the factor

    Raises
    ------
    ValueError
        A value is not positive, ``safety`` is above 1, or 1 does not lie between ``least`` and ``most``.

    References
    ----------
    Hairer, Nørsett and Wanner: Solving Ordinary Differential Equations I, chapter II.4. 1993.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ode.PI(pcoeff=0.4, icoeff=0.3).safety
    0.9
    """

    pcoeff: float = 0.0
    icoeff: float = 1.0
    safety: float = 0.9
    least: float = 0.2
    most: float = 10.0

    def __post_init__(self) -> None:
        for name in ("pcoeff", "icoeff", "safety", "least", "most"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or value < 0 or (value == 0 and name not in ("pcoeff", "icoeff")):
                raise ValueError(f"PI: {name} is {value!r}, but must be a positive number")
        if not self.least < 1 < self.most or self.safety > 1:
            raise ValueError(f"PI: the factor of a step lies between least < 1 and most > 1, and safety is at most 1, not {self}")

    def factor(self, error: Array, previous: Array | None, power: int) -> Array:
        """Return the factor of the step size. previous : None without ``pcoeff``"""
        change = self.safety * _power(maximum(error, 1e-10), -(self.pcoeff + self.icoeff) / power)
        if previous is not None:
            change = change * _power(maximum(previous, 1e-4), self.pcoeff / power)
        return clip(change, self.least, self.most)


@dataclass(frozen=True)
class ConstantSteps:
    """Constant steps: of size ``dt0`` if :func:`solve` gets it, else from each of the times ``ts`` to the next.

    Examples
    --------
    >>> import weft as wf
    >>> decay = lambda t, y, args: -y
    >>> wf.ode.solve(decay, 1.0, [0.0, 0.5, 1.0], solver=wf.ode.Euler(), control=wf.ode.ConstantSteps()).ys
    array([1.  , 0.5 , 0.25], dtype=float32)
    """


def _power(x: Array, exponent: float) -> Array:
    """Return a power of a positive number. It may be wrong in the last digits, and is computed in vectors, as ``**`` is not."""
    return exp(exponent * log(x))


def error_norm(error: Array, scale: Array) -> Array:
    """Return the size of an error in units of the tolerance; ``MAX_ERROR`` if it is not finite."""
    size = stop_gradient(norm(error / scale))
    return where(size < MAX_ERROR, size, MAX_ERROR)


def first_step(
    f: Slope, t: Array, end: Array, y: Array, slope: Array, scale: Array, power: int,
) -> Array:
    """Return the size of the first step, by the rule of Hairer, Nørsett and Wanner, chapter II.4."""
    low, high = norm(y / scale), norm(slope / scale)
    small = minimum(low, high) < 1e-5
    h = where(small, 1e-6, 0.01 * low / where(small, 1.0, high))
    h = minimum(h.astype(t.dtype), absolute(end - t))
    signed = sign(end - t) * h
    width = signed.astype(y.dtype)
    bend = norm((f(t + signed, y + width * slope) - slope) / scale) / where(width == 0, 1.0, absolute(width))
    steep = maximum(high, bend)
    flat = steep <= 1e-15
    other = where(flat, maximum(1e-6, 1e-3 * absolute(width)), _power(0.01 / where(flat, 1.0, steep), 1 / power))
    return stop_gradient(minimum(100 * h, other.astype(t.dtype)))
