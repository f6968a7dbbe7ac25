"""Zeros of polynomials, and polynomials as objects under NumPy's older name ``poly1d``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.array import Array, Scalar
from weft.array.indexing import as_ints
from weft.dtypes.formats import DEFAULT, FLOAT32, FLOAT64, FROM_NUMPY
from weft.errors import ShapeError
from weft.functions.common import looked, of_numpy
from weft.functions.creation import asarray
from weft.functions.polynomials import poly, polyadd, polyder, polydiv, polyint, polymul, polysub, polyval


def roots(p: Any) -> Array:
    """Where a polynomial is zero; computes at once, in NumPy, for how many there are and whether they are real depends on ``p``.

    Parameters
    ----------
    p : (N,) array
        Coefficients, the highest power first.

    Returns
    -------
    (M,) Array
        Real where all zeros are, else complex.

    Raises
    ------
    ShapeError, TraceError
        ``p`` is no vector; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.roots([1.0, -3.0, 2.0]).tolist()
    [2.0, 1.0]
    """
    known = np.atleast_1d(looked(p, "roots", "p"))
    if known.ndim != 1:
        raise ShapeError(f"roots: p has shape {known.shape}; a vector of coefficients is needed")
    wide = known.astype(np.complex128 if known.dtype.kind == "c" else np.float64)
    narrow = known.dtype in (np.float32, np.complex64) if DEFAULT.wide else known.dtype not in (np.float64, np.complex128)
    return of_numpy(np.roots(wide), FLOAT32 if narrow else FLOAT64)


class poly1d:  # noqa: N801  NumPy's name
    """A polynomial that can be called, added, multiplied, divided and derived: NumPy's older class.

    Parameters
    ----------
    c_or_r : (N,) array, number or poly1d
        Coefficients, the highest power first; leading zeros are left out, so they are looked at.
    r : bool
        They are zeros instead.
    variable : str, optional
        What it is called in print.

    Raises
    ------
    ShapeError, TraceError
        No vector; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> p = wf.poly1d([1, 2, 3])
    >>> int(p(2)), (p * p).coeffs.tolist(), p.deriv().coeffs.tolist()
    (11, [1, 4, 10, 12, 9], [2, 2])
    """

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000  # arrays leave operators to it
    __array_ufunc__ = None
    coeffs: Array
    variable: str

    def __init__(self, c_or_r: Any, r: bool = False, variable: str | None = None) -> None:
        if isinstance(c_or_r, poly1d):
            self.coeffs, self.variable = c_or_r.coeffs, variable or c_or_r.variable
            return
        given = poly(c_or_r) if r else asarray(c_or_r)
        if given.ndim > 1:
            raise ShapeError(f"poly1d: c_or_r has shape {given.shape}; a vector of coefficients is needed")
        given = given.reshape(-1)
        first = np.flatnonzero(looked(given, "poly1d", "c_or_r"))
        self.coeffs = given[int(first[0]):] + 0 if first.size else given[:0].sum().reshape(1).astype(given.dtype)
        self.variable = variable or "x"

    @property
    def order(self) -> int:
        """The highest power."""
        return self.coeffs.size - 1

    o = order

    @property
    def roots(self) -> Array:
        """Where it is zero, as :func:`roots`."""
        return roots(self.coeffs)

    r = roots

    @property
    def c(self) -> Array:
        """The coefficients, as ``coeffs``, ``coef`` and ``coefficients``."""
        return self.coeffs

    coef = coefficients = c

    def __call__(self, val: Any) -> Any:
        return polyval(self.coeffs, val)

    def deriv(self, m: int = 1) -> poly1d:
        """The derivative, ``m`` times."""
        return poly1d(polyder(self.coeffs, m))

    def integ(self, m: int = 1, k: Any = 0) -> poly1d:
        """The integral, ``m`` times, with constants ``k``."""
        return poly1d(polyint(self.coeffs, m, k))

    def __getitem__(self, power: int) -> Any:
        """The coefficient of a power; 0 where there is none."""
        return self.coeffs[self.order - power] if 0 <= power <= self.order else type(self.coeffs.item(0))(0)

    def __setitem__(self, power: int, value: Any) -> None:
        if power < 0:
            raise ValueError(f"poly1d: the power {power} must not be negative")
        line = looked(self.coeffs, "poly1d")
        line = np.concatenate([np.zeros(max(power - self.order, 0), line.dtype), line])
        line[line.size - 1 - power] = value
        self.coeffs = asarray(line)

    def __len__(self) -> int:
        return self.order

    def __iter__(self) -> Iterator[Any]:
        return iter(self.coeffs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.coeffs.numpy(), dtype)

    def __eq__(self, other: object) -> Any:
        mine, others = self.coeffs.numpy(), poly1d(other).coeffs.numpy() if _is_line(other) else None
        return others is not None and mine.shape == others.shape and bool((mine == others).all())

    def __neg__(self) -> poly1d:
        return poly1d(-self.coeffs)

    def __pos__(self) -> poly1d:
        return self

    def __add__(self, other: Any) -> poly1d:
        return poly1d(polyadd(self.coeffs, poly1d(other).coeffs))

    def __sub__(self, other: Any) -> poly1d:
        return poly1d(polysub(self.coeffs, poly1d(other).coeffs))

    def __rsub__(self, other: Any) -> poly1d:
        return poly1d(polysub(poly1d(other).coeffs, self.coeffs))

    def __mul__(self, other: Any) -> poly1d:
        return poly1d(self.coeffs * other if _is_number(other) else polymul(self.coeffs, poly1d(other).coeffs))

    def __truediv__(self, other: Any) -> Any:
        if _is_number(other):
            return poly1d(self.coeffs / other)
        quotient, rest = polydiv(self.coeffs, poly1d(other).coeffs)
        return poly1d(quotient), poly1d(rest)

    def __rtruediv__(self, other: Any) -> Any:
        return poly1d(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, times: int) -> poly1d:
        times = as_ints(times)
        if isinstance(times, bool) or not isinstance(times, int) or times < 0:
            raise ValueError(f"poly1d: the power {times!r} must be an integer that is not negative")
        found = poly1d(np.ones(1, self.coeffs.dtype))
        for _ in range(times):
            found = found * self
        return found

    def __repr__(self) -> str:
        return f"poly1d({np.array2string(self.coeffs.numpy(), separator=', ')})"

    def __str__(self) -> str:
        return str(np.poly1d(self.coeffs.numpy(), variable=self.variable))


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float | complex | np.generic | Scalar) and (not hasattr(x, "dtype") or x.dtype in FROM_NUMPY)


def _is_line(x: Any) -> bool:
    return isinstance(x, poly1d | Array | np.ndarray | list | tuple) or _is_number(x)


__all__ = ["poly1d", "roots"]
