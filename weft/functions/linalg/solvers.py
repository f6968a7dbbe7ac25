"""Systems of equations, inverses, determinants and functions of matrices: ``wf.linalg``, through LAPACK."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import exact_operands, operands
from weft.array.matrix_products import matmul as product
from weft.dtypes.formats import INT64
from weft.eager.materialise import known, look
from weft.errors import DTypeError, ShapeError, short
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, cast, floating, node, number, op, permuted, reshaped
from weft.functions.support.arguments import sliced as part
from weft.graph.primitives.linear_algebra import MatrixError, check, svd_parts, unpacked
from weft.process.docstrings import complete_docs, complete_each


class SlogdetResult(NamedTuple):
    """The result of :func:`slogdet`."""

    sign: Array
    logabsdet: Array


class LstsqResult(NamedTuple):
    """The result of :func:`lstsq`."""

    x: Array
    residuals: Array
    rank: Array
    s: Array


def matrix(x: Any, function: str, argument: str = "a") -> Node:
    """Return an operand as LAPACK takes it: integers become float32."""
    return floating(node(x, function, argument))


def solve(a: Any, b: Any) -> Array:
    """Solve ``a @ x == b`` for ``x``.

    Parameters
    ----------
    a : (..., M, M)
    b : (M,) or (..., M, K)
        One right-hand side, or several as columns.

    Returns
    -------
    Array of the shape of ``b``, with broadcast leading extents

    Raises
    ------
    ShapeError, LinAlgError, DTypeError
        The shapes do not fit; ``a`` is not a square matrix, or (when it is computed) is singular; LAPACK lacks the dtype.

    Examples
    --------
    >>> wf.linalg.solve(wf.array([[2.0, 0.0], [0.0, 4.0]]), wf.array([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    left, right = operands(*(wrap(floating(n)) for n in exact_operands(a, b)))
    vector = len(right.shape) == 1
    if vector:
        check("solve", left, True, "a")
        if right.shape[0] != left.shape[-1]:
            raise ShapeError(f"solve: a {left.shape} and b {right.shape} do not fit: b must have as many elements as a has rows.")
        right = reshaped(right, (*right.shape, 1))
    solution = op("solve", left, right)
    return wrap(reshaped(solution, solution.shape[:-1]) if vector else solution)


def inv(a: Any) -> Array:
    """Compute the inverses of square matrices.

    Parameters
    ----------
    a : (..., M, M)

    Returns
    -------
    Array of the shape of ``a``

    Raises
    ------
    LinAlgError, DTypeError
        ``a`` is not a square matrix, or (when it is computed) is singular; LAPACK lacks the dtype.

    Examples
    --------
    >>> wf.linalg.inv(wf.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return wrap(op("inv", matrix(a, "inv")))


def det(a: Any) -> Array:
    """Compute the determinants of square matrices.

    Returns
    -------
    (...) Array

    Raises
    ------
    LinAlgError, DTypeError
        The argument is not a square matrix; LAPACK lacks the dtype.

    Examples
    --------
    >>> wf.linalg.det(wf.array([[2.0, 1.0], [0.0, 4.0]])).tolist()
    8.0
    """
    return wrap(op("det", matrix(a, "det")))


def slogdet(a: Any) -> SlogdetResult:
    """Compute signs and logarithms of absolute values of determinants, which neither overflow nor underflow.

    Returns
    -------
    (sign, logabsdet) : (...) Arrays
        The sign of a complex determinant is a number of absolute value 1; the sign for a singular matrix is 0.

    Examples
    --------
    >>> wf.linalg.slogdet(wf.eye(3) * 1e-20).sign.tolist()
    1.0
    """
    value = matrix(a, "slogdet")
    sign, log = unpacked(op("slogdet", value), (), ())
    return SlogdetResult(wrap(sign), wrap(op("real", log) if log.dtype is not log.dtype.part else log))


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """Compute the pseudo-inverses of matrices (Moore and Penrose).

    Parameters
    ----------
    a : (..., M, N)
    rcond, rtol : number or (...) array, optional
        Singular values below this multiple of the largest count as 0; by default max(M, N) times the machine epsilon of the
        dtype. Both names have the same meaning.
    hermitian : bool
        Has no effect.

    Returns
    -------
    (..., N, M) Array

    Raises
    ------
    LinAlgError, ShapeError, DTypeError
        ``a`` is not a matrix; the tolerance does not broadcast; LAPACK lacks the dtype.

    Examples
    --------
    >>> wf.linalg.pinv(wf.array([[2.0], [0.0]])).tolist()
    [[0.5, 0.0]]
    """
    value = matrix(a, "pinv")
    check("pinv", value)
    bound = rcond if rtol is None else rtol
    dtype = value.dtype.part
    tolerance = number(_default_rtol(value), dtype) if bound is None else cast(node(bound, "pinv", "rcond"), dtype)
    return wrap(op("pinv", value, tolerance))


def _default_rtol(value: Node) -> float:
    """Return the default tolerance."""
    return max(value.shape[-2:]) * 2.0**-value.dtype.part.mantissa


def lstsq(a: Any, b: Any, rcond: float | None = None) -> LstsqResult:
    """Find the ``x`` for which ``a @ x`` is closest to ``b``; the shortest one if there are several.

    Parameters
    ----------
    a : (M, N)
    b : (M,) or (M, K)
    rcond : float, optional
        Singular values up to this multiple of the largest count as 0; by default max(M, N) times the machine epsilon of the
        dtype. As in NumPy, a value that is not between 0 and 1, such as -1, is replaced by half of that epsilon.

    Returns
    -------
    (x, residuals, rank, s) : (N,) or (N, K), (K,), () and (min(M, N),) Arrays
        The solution, the sums of squared residuals, the rank and the singular values of ``a``. As in NumPy, ``residuals`` is
        empty if M <= N or (known outside of traced functions only) ``a`` does not have full rank.

    Raises
    ------
    LinAlgError, ShapeError, DTypeError
        An operand is not a matrix, or the numbers of rows differ; LAPACK lacks the dtype.

    Examples
    --------
    >>> a, b = wf.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]), wf.array([1.0, 3.0, 5.0])
    >>> wf.round(wf.linalg.lstsq(a, b).x, 3).tolist()
    [2.0, 1.0]
    """
    left, right = operands(*(wrap(floating(n)) for n in exact_operands(a, b)))
    if not (rcond is None or isinstance(rcond, int | float | np.number)):
        raise DTypeError(f"lstsq: rcond must be a number, not {short(rcond)}")
    if len(left.shape) != 2 or len(right.shape) not in (1, 2):
        raise MatrixError(f"lstsq: a {left.shape} must be a matrix, b {right.shape} a vector or a matrix.")
    m, n = left.shape
    if right.shape[0] != m:
        raise MatrixError(f"lstsq: a {left.shape} and b {right.shape} do not fit: both must have as many rows.")
    check("lstsq", left)
    columns = reshaped(right, (m, 1)) if len(right.shape) == 1 else right
    u, s, vh = unpacked(op("svd", left, full=False), *svd_parts(left.shape, False))
    real = op("real", s) if s.dtype is not s.dtype.part else s
    if rcond is not None and not 0 < rcond < 1:
        rcond = 2.0 ** -(real.dtype.mantissa + 1)  # LAPACK's replacement: half the machine epsilon
    threshold = number(_default_rtol(left) if rcond is None else rcond, real.dtype)
    largest = part(real, 0, 0, 1) if real.size else real
    is_counted = op("greater", real, op("multiply", largest, threshold)) if real.size else op("greater", real, real)
    divisor = op("where", is_counted, s, number(1, s.dtype))
    inner = product(permuted(arguments.conjugate(u), (1, 0)), columns)
    inner = op("where", reshaped(is_counted, (*is_counted.shape, 1)), op("divide", inner, reshaped(divisor, (*s.shape, 1))),
               number(0, inner.dtype))
    x = product(permuted(arguments.conjugate(vh), (1, 0)), inner)
    rank = op("reduce_sum", cast(is_counted, INT64), axes=(0,), keepdims=False)
    residual = op("abs", op("subtract", columns, product(left, x)))
    residuals = op("reduce_sum", op("square", residual), axes=(0,), keepdims=False)
    if m <= n or (known(rank) and int(look(rank, free=True)) < n):
        residuals = part(residuals, 0, 0, 0)
    return LstsqResult(wrap(reshaped(x, (n,)) if len(right.shape) == 1 else x), wrap(residuals), wrap(rank), wrap(real))


def expm(x: Any, /) -> Array:
    """Compute the exponentials of square matrices, as ``scipy.linalg.expm``.

    Parameters
    ----------
    x : (..., M, M)

    Returns
    -------
    Array of the shape of ``x``

    Examples
    --------
    >>> wf.linalg.expm(wf.array([[0.0, 3.0], [0.0, 0.0]])).tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    """
    return wrap(op("expm", matrix(x, "expm", "x")))


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Array:
    """Find the ``x`` for which the sum of products of ``a`` and ``x``, over all axes of ``x``, is ``b``.

    Parameters
    ----------
    a : array whose first axes are those of ``b``
    b : array
    axes : tuple of int, optional
        Axes of ``a`` that are moved to its end first.

    Returns
    -------
    Array of the shape of the last axes of ``a``

    Raises
    ------
    LinAlgError, AxisError
        The rows and columns of ``a`` differ in number; ``a`` has no such axis.

    Examples
    --------
    >>> wf.linalg.tensorsolve(wf.eye(6).reshape(2, 3, 6), wf.ones((2, 3))).shape
    (6,)
    """
    left, right = operands(*(wrap(floating(n)) for n in exact_operands(a, b)))
    if axes is not None:
        moved = arguments.axis_tuple(axes, len(left.shape), "tensorsolve", "axes")
        left = permuted(left, [*(d for d in range(len(left.shape)) if d not in moved), *moved])
    shape = left.shape[len(right.shape):]
    if left.size != right.size * math.prod(shape) or math.prod(shape) != right.size:
        raise MatrixError(f"tensorsolve: a {left.shape} and b {right.shape} do not fit: as a matrix a must be square.")
    n = right.size
    return wrap(reshaped(op("solve", reshaped(left, (n, n)), reshaped(right, (n, 1))), shape))


def tensorinv(a: Any, ind: int = 2) -> Array:
    """Compute the inverse of an array for the products summed over ``ind`` axes.

    Parameters
    ----------
    a : array
    ind : int
        The number of first axes that form the rows.

    Returns
    -------
    Array : the last axes of ``a``, then the first

    Raises
    ------
    ValueError, LinAlgError
        ``ind`` is not positive; the numbers of rows and columns differ.

    Examples
    --------
    >>> wf.linalg.tensorinv(wf.eye(6).reshape(2, 3, 6)).shape
    (6, 2, 3)
    """
    if arguments.whole(ind, "tensorinv", "ind") <= 0:
        raise ValueError(f"tensorinv: ind={ind} must be positive")
    value = matrix(a, "tensorinv")
    rows, columns = value.shape[:ind], value.shape[ind:]
    n = math.prod(rows)
    if n != math.prod(columns):
        raise MatrixError(f"tensorinv: a {value.shape} with ind={ind} is not square: {n} rows and {math.prod(columns)} columns.")
    return wrap(reshaped(op("inv", reshaped(value, (n, n))), (*columns, *rows)))


complete_each(solve, pinv, lstsq, tensorsolve, tensorinv)
complete_docs(inv, det)
complete_docs(det, slogdet, expm)
