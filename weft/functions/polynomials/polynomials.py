"""Polynomials as coefficients, highest power first, and as ``poly1d`` objects; their roots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.array import Array, Scalar, wrap
from weft.array.convert import exact_operands, operands
from weft.array.indexing import as_ints
from weft.dtypes.formats import COMPLEX, DEFAULT, FLOAT32, FLOAT64, FROM_NUMPY, INT64, complexed, promote
from weft.errors import ShapeError, said_by
from weft.functions.creation.fill import asarray
from weft.functions.linalg.factorise import eigvals
from weft.functions.polynomials.convolve_windows import convolve
from weft.functions.shape.join_split import concat
from weft.functions.support.arguments import (
    Node,
    arrays,
    broadcast,
    floating,
    held,
    looked,
    node,
    number,
    of_numpy,
    op,
    reshaped,
    seen,
    sliced,
    whole,
)

MAX_INTEGRALS = 1000  # NumPy's polyint calls itself once for each, and its recursion ends there

def _line(function: str, x: Any, argument: str = "p") -> Node:
    """Coefficients as a vector; one number is a constant polynomial."""
    value = node(getattr(x, "coeffs", x), function, argument)
    if len(value.shape) > 1:
        raise ShapeError(f"{function}: {argument} has shape {value.shape}; a vector of coefficients is needed")
    return value if value.shape else reshaped(value, (1,))


def _as_given(found: Array, *operands: Any) -> Any:
    """Return coefficients as a ``poly1d`` if one of the operands is one, else as an array."""
    kind = next((type(x) for x in operands if hasattr(x, "coeffs")), None)
    return found if kind is None else kind(found)


def _wide(x: np.ndarray) -> np.ndarray:
    """For NumPy to compute with."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def polyval(p: Any, x: Any) -> Any:
    """A polynomial at the places ``x``, by Horner's rule.

    Parameters
    ----------
    p : (N,) array or poly1d
        The highest power first.
    x : array or poly1d

    Returns
    -------
    Array of the shape of ``x``; of a poly1d the polynomial of polynomials

    Raises
    ------
    ShapeError
        ``p`` is no vector.

    Examples
    --------
    >>> import weft as wf
    >>> wf.polyval([3, 0, 1], wf.array([2, 5])).tolist()
    [13, 76]
    """
    if hasattr(x, "coeffs"):
        found = x * 0
        for k in range(_line("polyval", p).size):
            found = found * x + wrap(_line("polyval", p))[k]
        return found
    p, x = map(wrap, exact_operands(p, x))
    if not _line("polyval", p).size:
        return wrap(op("multiply", node(x, "polyval"), number(0, node(x, "polyval").dtype)))
    line, at = operands(wrap(_line("polyval", p)), wrap(node(x, "polyval")))
    found = op("multiply", at, number(0, at.dtype))
    for k in range(line.size):
        found = op("add", op("multiply", found, at), reshaped(sliced(line, 0, k, k + 1), ()))
    return wrap(found)


def _sides(function: str, a: Any, b: Any) -> tuple[Node, Node]:
    """Two polynomials of one length, zeros in front of the shorter."""
    a, b = exact_operands(a, b)
    x, y = operands(wrap(_line(function, a, "a1")), wrap(_line(function, b, "a2")))
    long_ = max(x.size, y.size)
    first, second = (op("pad", n, low=(long_ - n.size,), high=(0,), value=0) if n.size < long_ else n for n in (x, y))
    return first, second


def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials.

    Parameters
    ----------
    a1, a2 : (N,) array or poly1d

    Returns
    -------
    Array with one dimension, or poly1d where an operand is one

    Raises
    ------
    ShapeError
        No vectors.

    Examples
    --------
    >>> import weft as wf
    >>> wf.polyadd([1, 2], [9, 5, 4]).tolist()
    [9, 6, 6]
    """
    return _as_given(wrap(op("add", *_sides("polyadd", a1, a2))), a1, a2)


def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials.

    Parameters
    ----------
    a1, a2 : (N,) array or poly1d

    Returns
    -------
    Array with one dimension, or poly1d where an operand is one

    Raises
    ------
    ShapeError
        No vectors.

    Examples
    --------
    >>> import weft as wf
    >>> wf.polysub([2, 10, 2], [3, 10, 4]).tolist()
    [-1, 0, -2]
    """
    return _as_given(wrap(op("subtract", *_sides("polysub", a1, a2))), a1, a2)


def polymul(a1: Any, a2: Any) -> Any:
    """The product of two polynomials. Leading zeros are left out: they are looked at, and stay inside of traced functions.

    Parameters
    ----------
    a1, a2 : (N,) array or poly1d

    Returns
    -------
    Array with one dimension, or poly1d where an operand is one

    Raises
    ------
    ShapeError
        No vectors, or empty ones.

    Examples
    --------
    >>> import weft as wf
    >>> wf.polymul([1, 2, 3], [9, 5, 1]).tolist()
    [9, 23, 38, 17, 3]
    """
    x, y = exact_operands(a1, a2)
    return _as_given(convolve(_led("polymul", x, "a1"), _led("polymul", y, "a2")), a1, a2)


def _led(function: str, x: Any, argument: str) -> Array:
    """Coefficients without zeros in front, but for the one of nothing else."""
    line = wrap(_line(function, x, argument))
    if not line.size:
        return wrap(broadcast(number(0, line.node.dtype), (1,)))
    known = seen(line, function, argument)
    if known is None or not known.size or known[0] != 0:
        return line
    first = np.flatnonzero(known)
    return line[int(first[0]) if first.size else known.size - 1:]


def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """The quotient and the rest of two polynomials; computes at once, since leading zeros of the rest are left out.

    Parameters
    ----------
    u, v : (N,) array or poly1d

    Returns
    -------
    two Arrays with one dimension, or poly1d where an operand is one

    Raises
    ------
    ShapeError, TraceError
        No vectors; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> [x.tolist() for x in wf.polydiv([3.0, 5.0, 2.0], [2.0, 1.0])]
    [[1.5, 1.75], [0.25]]
    """
    above, below = exact_operands(u, v)
    over, under = operands(wrap(_line("polydiv", above, "u")), wrap(_line("polydiv", below, "v")))
    dtype = floating(over).dtype
    found = np.polydiv(*(_wide(wrap(n).numpy()) for n in (over, under)))
    quotient, rest = (_as_given(of_numpy(x, dtype), u, v) for x in found)
    return quotient, rest


def _times(function: str, m: Any) -> int:
    count = whole(m, function, "m")
    if count < 0:
        raise ValueError(f"{function}: m={count} must not be negative")
    return count


def polyder(p: Any, m: int = 1) -> Any:
    """The derivative of a polynomial, ``m`` times over.

    Parameters
    ----------
    p : (N,) array or poly1d
    m : int

    Returns
    -------
    Array with one dimension, ``m`` shorter, or poly1d of a poly1d

    Raises
    ------
    ShapeError, ValueError
        ``p`` is no vector; ``m`` is negative.

    Examples
    --------
    >>> import weft as wf
    >>> wf.polyder([1, 1, 1, 1]).tolist()
    [3, 2, 1]
    """
    line = wrap(_line("polyder", p))
    for _ in range(min(_times("polyder", m), line.size)):  # then nothing is left
        powers = np.arange(line.size - 1, 0, -1)
        line = line[:-1] * (powers if DEFAULT.wide or line.dtype.kind in "biu" else powers.astype(line.dtype))
    return _as_given(line, p)


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The integral of a polynomial, ``m`` times over.

    Parameters
    ----------
    p : (N,) array or poly1d
    m : int
    k : number or (m,) array, optional
        The constants, in the order in which they are used; zero by default.

    Returns
    -------
    Array of floats with one dimension, ``m`` longer, or poly1d of a poly1d

    Raises
    ------
    ShapeError, ValueError
        ``p`` is no vector; ``m`` is negative or above 1000, where NumPy's recursion ends; or there are not as many constants.

    Examples
    --------
    >>> import weft as wf
    >>> wf.polyint([3.0, 2.0, 1.0]).tolist()
    [1.0, 1.0, 1.0, 0.0]
    """
    line, count = wrap(_line("polyint", p)), _times("polyint", m)
    if count > MAX_INTEGRALS:
        raise ValueError(f"polyint: m={count} is more than {MAX_INTEGRALS}")
    constants = [0.0] * count
    if k is not None:
        given = looked(k, "polyint", "k").reshape(-1).tolist()
        constants = given * count if len(given) == 1 else given
        if len(constants) < count:
            raise ValueError(f"polyint: {len(constants)} constants are given for m={count}")
    for c in constants[:count]:
        line = wrap(floating(line.node))
        powers = np.arange(line.size, 0, -1)
        line = line / (powers if DEFAULT.wide else powers.astype(line.dtype))
        kept = complexed(line.node.dtype) if isinstance(c, complex) else line.node.dtype
        line = concat([line, wrap(number(c, kept)).reshape(1)])
    return _as_given(line, p)


def poly(seq_of_zeros: Any) -> Array:
    """The polynomial that has these zeros.

    Parameters
    ----------
    seq_of_zeros : (N,) or (N, N) array
        Of a matrix the eigenvalues are taken: the result is its characteristic polynomial.

    Returns
    -------
    (N + 1,) Array of floats, the first of them 1; of no zeros the number 1. Of complex zeros it is complex, unless each has its
    conjugate among them: whether that is so is looked at, and not known inside of traced functions

    Raises
    ------
    ShapeError
        Neither a vector nor a square matrix with elements.

    Examples
    --------
    >>> import weft as wf
    >>> wf.poly([1.0, 2.0]).tolist()
    [1.0, -3.0, 2.0]
    """
    given = wrap(floating(node(seq_of_zeros, "poly", "seq_of_zeros")))
    if given.ndim > 1 and (given.ndim > 2 or given.shape[0] != given.shape[1] or not given.size):
        raise ShapeError(f"poly: seq_of_zeros has shape {given.shape}; a vector or a square matrix with elements is needed")
    zeros = eigvals(given) if given.ndim == 2 else given.reshape(-1)
    if not zeros.size:
        return wrap(number(1, zeros.node.dtype))
    one = wrap(number(1, zeros.node.dtype)).reshape(1)
    found = one
    for k in range(zeros.size):
        found = convolve(found, concat([one, -zeros[k : k + 1]]))
    real_matrix = given.ndim == 2 and given.node.dtype not in COMPLEX  # its complex eigenvalues come in pairs
    return wrap(op("real", found.node)) if real_matrix or _paired(zeros) else found


def _paired(zeros: Array) -> bool:
    """Whether complex zeros are known to come in pairs of conjugates."""
    known = seen(zeros, "poly") if zeros.node.dtype in COMPLEX else None
    return known is not None and bool((np.sort(known) == np.sort(known.conj())).all())


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Array:  # noqa: N803  NumPy's name
    """The powers of a vector's elements, one power a column.

    Parameters
    ----------
    x : (M,) array
    N : int, optional
        How many powers; None: as many as elements.
    increasing : bool
        The lowest power first.

    Returns
    -------
    (M, N) Array

    Raises
    ------
    ShapeError
        ``x`` is no vector, or ``N`` is negative.

    Examples
    --------
    >>> import weft as wf
    >>> wf.vander([1, 2, 3], 3).tolist()
    [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    """
    (line,) = arrays("vander", x=x)
    if line.ndim != 1:
        raise ShapeError(f"vander: x has shape {line.shape}; a vector is needed")
    count = line.size if N is None else whole(N, "vander", "N")
    if count < 0:
        raise ShapeError(f"vander: N={count} must not be negative")
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    value = line.astype(promote(line.node.dtype, INT64).name)
    return value[:, None] ** powers.astype(value.dtype)


def polyfit(x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """The polynomial that is nearest to points, by least squares; computes at once in float64, by NumPy.

    Parameters
    ----------
    x : (M,) array
    y : (M,) or (M, K) array
    deg : int
        The highest power.
    rcond : float, optional
        What is smaller than the largest singular value by this factor does not count.
    full : bool
        Also residuals, rank, singular values and ``rcond``.
    w : (M,) array, optional
        Weights of the points.
    cov : bool or "unscaled"
        Also the covariances of the coefficients.

    Returns
    -------
    (deg + 1,) or (deg + 1, K) Array, or a tuple that begins with it

    Raises
    ------
    TypeError, ValueError, TraceError
        Shapes that do not fit, or a negative degree; too few points for ``cov``; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> [round(c, 4) for c in wf.polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1).tolist()]
    [2.0, 1.0]
    """
    x, y = exact_operands(x, y)
    known = [looked(v, "polyfit", name) for name, v in (("x", x), ("y", y))]
    weights = None if w is None else looked(held(w, FLOAT64, "polyfit", "w"), "polyfit")
    like = FLOAT64 if any(k.dtype in (np.float64, np.complex128) for k in known) else DEFAULT.real
    ask: Any = np.polyfit
    with said_by("polyfit"):
        found = ask(*(_wide(k) for k in known), deg, rcond, full, weights, cov)
    if not isinstance(found, tuple):
        return of_numpy(found, like)
    return tuple(of_numpy(f, like) if isinstance(f, np.ndarray) else f for f in found)


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
