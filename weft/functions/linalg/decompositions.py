"""Norms, powers, solving, inverses, determinants, factorisations and eigenvalues: functions of numpy.linalg, most by LAPACK."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import exact_operands, promote_operands
from weft.array.operations import matmul as product
from weft.dtypes.formats import COMPLEX, FLOAT64, INEXACT, INT64, Format
from weft.dtypes.parse import to_tuple
from weft.eager.materialise import can_compute, read_array
from weft.errors import DTypeError, ShapeError, name_called_function, short
from weft.functions.creation.fill import eye
from weft.functions.elementwise.ufuncs import equal, isnan
from weft.functions.indexing.where import where
from weft.functions.linalg.products import dot, line_of, sum_of
from weft.functions.support import arguments
from weft.functions.support.arguments import (
    Node,
    cast,
    floating,
    node,
    number,
    op,
    permute_node,
    reduce_node,
    reshape_node,
    slice_node,
)
from weft.graph.primitives.linear_algebra import MatrixError, check, qr_parts, svd_parts, transpose, unpack
from weft.process.docstrings import complete_module

SlogdetResult = namedtuple("SlogdetResult", "sign logabsdet")
LstsqResult = namedtuple("LstsqResult", "x residuals rank s")
EighResult = namedtuple("EighResult", "eigenvalues eigenvectors")
EigResult = namedtuple("EigResult", "eigenvalues eigenvectors")
QRResult = namedtuple("QRResult", "Q R")
SVDResult = namedtuple("SVDResult", "U S Vh")


def _real(value: Node) -> Node:
    return op("real", value) if value.dtype in COMPLEX else value


def _cast_for_norm(x: Any) -> tuple[Node, Format]:
    """Cast the operand to the dtype its norm is computed in, as for means; return it and the dtype of the result."""
    value = node(x, "norm")
    result = floating(value).dtype
    return cast(value, FLOAT64 if value.dtype not in INEXACT else result.computed), result.part


def vector_norm(x: Any, /, *, axis: arguments.Axis = None, keepdims: bool = False, ord: float = 2) -> Array:
    """Compute the norm of vectors: the ``ord``-th root of the sum of ``abs(x) ** ord``.

    Parameters
    ----------
    axis : int or tuple of int, optional
        The axes of the vectors; None for all elements.
    ord : number
        Also ``wf.inf`` (the largest), ``-wf.inf`` (the smallest) and 0 (the number of elements that are not zero).

    Returns
    -------
    Array of floats, without the reduced axes

    Raises
    ------
    AxisError, ValueError
        ``x`` has no such axis; ``ord`` is not a norm of vectors.

    >>> wf.linalg.vector_norm(wf.array([3.0, 4.0])).tolist()
    5.0
    """
    value, result = _cast_for_norm(x)
    return wrap(cast(_vector_norm(value, arguments.axis_tuple(axis, len(value.shape), "norm"), keepdims, ord), result))


def _vector_norm(value: Node, axes: tuple[int, ...], keepdims: bool, ord: Any) -> Node:
    if not isinstance(ord, int | float | np.number):
        raise ValueError(name_called_function(f"norm: ord={short(ord)} is not a norm of vectors"))
    if ord == 0:
        return reduce_node("reduce_sum", cast(op("not_equal", value, number(0, value.dtype)), value.dtype.part), axes, keepdims)
    if ord == 1:
        return reduce_node("reduce_sum", op("abs", value), axes, keepdims)
    if math.isinf(ord):
        return _extreme(op("abs", value), axes, keepdims, bool(ord > 0))
    degree = float(ord)
    return arguments.norm_root(reduce_node("reduce_sum", arguments.powers(value, degree), axes, keepdims), degree)


def _extreme(sizes: Node, axes: tuple[int, ...], keepdims: bool, largest: bool) -> Node:
    """Return the largest or smallest magnitude; the largest of none is 0."""
    if largest and 0 in [sizes.shape[a] for a in axes]:
        shape = tuple(1 if a in axes else n for a, n in enumerate(sizes.shape) if keepdims or a not in axes)
        return arguments.broadcast(number(0, sizes.dtype), shape)
    return reduce_node("reduce_max" if largest else "reduce_min", sizes, axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Compute the norm of the matrices in the last two axes.

    Parameters
    ----------
    x : (..., M, N)
    ord : "fro", "nuc", 1, -1, 2, -2, ``wf.inf`` or ``-wf.inf``
        The root of the sum of squares ("fro"); the sum ("nuc"), the largest (2) or the smallest (-2) of the singular values; the
        largest or smallest sum of absolute values in a column (1, -1) or a row (the infinities).

    Returns
    -------
    (...) Array of floats

    Raises
    ------
    ShapeError, ValueError
        ``x`` has fewer than two dimensions; ``ord`` is not a norm of matrices.

    >>> wf.linalg.matrix_norm(wf.array([[1.0, 2.0], [3.0, 4.0]]), ord=1).tolist()
    6.0
    """
    value, result = _cast_for_norm(x)
    if len(value.shape) < 2:
        raise ShapeError(f"norm: x has shape {value.shape}; a matrix or a stack of matrices is needed")
    return wrap(cast(_matrix_norm(value, len(value.shape) - 2, len(value.shape) - 1, keepdims, ord), result))


def _matrix_norm(value: Node, row: int, column: int, keepdims: bool, ord: Any) -> Node:
    if ord == "fro":
        return _vector_norm(value, tuple(sorted((row, column))), keepdims, 2)
    if ord in ("nuc", 2, -2):
        return _singular_value_norm(value, row, column, keepdims, ord)
    if ord not in (1, -1, math.inf, -math.inf):
        message = f"norm: ord={short(ord)} is not a norm of matrices; use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        raise ValueError(name_called_function(message))
    summing, over = (row, column) if abs(ord) == 1 else (column, row)
    sums = op("reduce_sum", op("abs", value), axes=(summing,), keepdims=True)
    out = _extreme(sums, (over,), True, ord > 0)
    if keepdims:
        return out
    return reshape_node(out, tuple(n for a, n in enumerate(out.shape) if a not in (row, column)))


def _singular_value_norm(value: Node, row: int, column: int, keepdims: bool, ord: Any) -> Node:
    """Return the sum, the largest or the smallest of the singular values."""
    rest = [a for a in range(len(value.shape)) if a not in (row, column)]
    values = op("svdvals", arguments.permute_node(value, (*rest, row, column)))
    along = (len(rest),)
    result = reduce_node("reduce_sum", values, along) if ord == "nuc" else _extreme(values, along, False, ord == 2)
    return reshape_node(result, tuple(1 if a in (row, column) else n for a, n in enumerate(value.shape))) if keepdims else result


def norm(x: Any, ord: Any = None, axis: arguments.Axis = None, keepdims: bool = False) -> Array:
    """Compute NumPy's norm: of vectors along one axis, of matrices in two, of all elements without ``axis`` and ``ord``.

    Parameters
    ----------
    ord : optional
        As for :func:`vector_norm` along one axis, as for :func:`matrix_norm` in two; None for the root of the sum of squares.
    axis : int or pair of int, optional

    Raises
    ------
    ShapeError, AxisError, ValueError
        There are more than two axes, or one that ``x`` lacks; ``ord`` is unknown.

    >>> wf.linalg.norm(wf.array([[3.0, 4.0], [6.0, 8.0]]), axis=1).tolist()
    [5.0, 10.0]
    """
    value, result = _cast_for_norm(x)
    ndim = len(value.shape)
    if axis is None and ord is None:
        return wrap(cast(_vector_norm(value, tuple(range(ndim)), keepdims, 2), result))
    requested = tuple(range(ndim)) if axis is None else to_tuple(axis)
    places = tuple(arguments.axis_index(a, ndim, "norm") for a in requested)
    if len(places) == 1:
        return wrap(cast(_vector_norm(value, places, keepdims, 2 if ord is None else ord), result))
    if len(places) != 2 or places[0] == places[1]:
        raise ShapeError(f"norm: axis={axis!r} of shape {value.shape} must name one axis (vectors) or two (matrices)")
    return wrap(cast(_matrix_norm(value, *places, keepdims, "fro" if ord is None else ord), result))


def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """Return the diagonals of the matrices in the last two axes.

    Parameters
    ----------
    x : (..., M, N)
    offset : int
        Positive: a diagonal to the right of the main one.

    Returns
    -------
    Array with the diagonal along its last axis

    Raises
    ------
    ShapeError
        ``x`` has fewer than two dimensions.

    >>> wf.linalg.diagonal(wf.array([[[1, 2], [3, 4]]])).tolist()
    [[1, 4]]
    """
    return wrap(line_of("diagonal", x, offset, -2, -1))


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """Sum the diagonals of the matrices in the last two axes.

    Parameters
    ----------
    dtype : dtype, optional
        The dtype of the result; by default as for :func:`weft.sum`.

    Returns
    -------
    (...) Array

    Raises
    ------
    ShapeError, DTypeError
        ``x`` has fewer than two dimensions; ``dtype`` is unknown.

    >>> wf.linalg.trace(wf.array([[[1, 2], [3, 4]]])).tolist()
    [5]
    """
    return wrap(sum_of("trace", x, offset, -2, -1, dtype))


def matrix_power(a: Any, n: int) -> Array:
    """Raise square matrices to an integer power; negative powers use the inverse.

    Parameters
    ----------
    a : (..., M, M)
    n : int

    Returns
    -------
    Array of the shape of ``a``

    Raises
    ------
    LinAlgError, TypeError
        ``a`` is not a square matrix; ``n`` is not an integer.

    >>> wf.linalg.matrix_power(wf.array([[1, 1], [0, 1]]), 5).tolist()
    [[1, 5], [0, 1]]
    """
    value, times = node(a, "matrix_power", "a"), arguments.check_int(n, "matrix_power", "n")
    if len(value.shape) < 2 or value.shape[-1] != value.shape[-2]:
        raise MatrixError(f"matrix_power: a has shape {value.shape}; a square matrix, or a stack of them, is needed.")
    if times <= 0:
        if not times:
            return wrap(arguments.broadcast(eye(value.shape[-1], dtype=value.dtype.numpy).node, value.shape))
        value, times = op("inv", floating(value)), -times
    while not times & 1:  # exponentiation by squaring
        value, times = product(value, value), times >> 1
    result = value
    while times := times >> 1:
        value = product(value, value)
        if times & 1:
            result = product(result, value)
    return wrap(result)


def multi_dot(arrays: Sequence[Any], *, out: Array | None = None) -> Array:
    """Multiply several matrices in the order that takes the fewest multiplications.

    Parameters
    ----------
    arrays : two matrices or more
        The first and the last may be vectors.

    Raises
    ------
    ValueError, ShapeError
        There are fewer than two arrays; shapes do not fit.

    >>> wf.linalg.multi_dot([wf.ones((2, 9)), wf.ones((9, 1)), wf.ones((1, 3))]).tolist()
    [[9.0, 9.0, 9.0], [9.0, 9.0, 9.0]]
    """
    operand_list = arguments.as_list(arrays, "multi_dot", "arrays")
    nodes = list(promote_operands(*operand_list)) if len(operand_list) > 1 else []
    if not nodes:
        raise ValueError("multi_dot: at least two arrays are needed")
    if len(nodes) == 2:
        return dot(wrap(nodes[0]), wrap(nodes[1]), out=out)
    ends = [len(nodes[0].shape) == 1, len(nodes[-1].shape) == 1]
    if ends[0]:
        nodes[0] = reshape_node(nodes[0], (1, *nodes[0].shape))
    if ends[1]:
        nodes[-1] = reshape_node(nodes[-1], (*nodes[-1].shape, 1))
    if any(len(n.shape) != 2 for n in nodes):
        raise MatrixError(f"multi_dot: matrices are needed, not shapes {', '.join(str(n.shape) for n in nodes)}.")
    result = _multiply_chain(nodes)
    shape = tuple(n for n, end in zip(result.shape, ends, strict=True) if not end)
    return arguments.wrap_result(reshape_node(result, shape), out, "multi_dot")


def _multiply_chain(nodes: list[Node]) -> Node:
    """Multiply a chain of matrices in the cheapest order, found by dynamic programming over spans of matrices."""
    extents = [n.shape[0] for n in nodes] + [nodes[-1].shape[1]]
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(nodes))}
    for span in range(1, len(nodes)):
        for i in range(len(nodes) - span):
            j = i + span
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + extents[i] * extents[k + 1] * extents[j + 1], k) for k in range(i, j)
            )

    def multiply(i: int, j: int) -> Node:
        return nodes[i] if i == j else product(multiply(i, best[i, j][1]), multiply(best[i, j][1] + 1, j))

    return multiply(0, len(nodes) - 1)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """Compute cross products of vectors in three dimensions.

    Parameters
    ----------
    x1, x2 : array_like with 3 elements along ``axis``; the other axes broadcast
    axis : int

    Raises
    ------
    ShapeError, AxisError
        An operand does not have 3 elements along ``axis``; it has no such axis.

    >>> wf.linalg.cross(wf.array([1, 0, 0]), wf.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    a, b = promote_operands(x1, x2)
    for value, name in ((a, "x1"), (b, "x2")):
        if value.shape[arguments.axis_index(axis, len(value.shape), "cross")] != 3:
            raise ShapeError(f"cross: {name} has shape {value.shape}; 3 elements along axis {axis} are needed")
    forward = op("multiply", _rotate(a, axis, 1), _rotate(b, axis, 2))
    return wrap(op("subtract", forward, op("multiply", _rotate(a, axis, 2), _rotate(b, axis, 1))))


def _rotate(value: Node, axis: int, by: int) -> Node:
    """Rotate the elements along an axis by ``by`` positions."""
    at = axis % len(value.shape)
    return op("concat", slice_node(value, at, by, 3), slice_node(value, at, 0, by), axis=at)


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

    >>> wf.linalg.solve(wf.array([[2.0, 0.0], [0.0, 4.0]]), wf.array([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    left, right = promote_operands(*(wrap(floating(n)) for n in exact_operands(a, b)))
    vector = len(right.shape) == 1
    if vector:
        check("solve", left, True, "a")
        if right.shape[0] != left.shape[-1]:
            raise ShapeError(f"solve: a {left.shape} and b {right.shape} do not fit: b must have as many elements as a has rows.")
        right = reshape_node(right, (*right.shape, 1))
    solution = op("solve", left, right)
    return wrap(reshape_node(solution, solution.shape[:-1]) if vector else solution)


def inv(a: Any) -> Array:
    """Compute the inverses of square matrices.

    Parameters
    ----------
    a : (..., M, M)

    Raises
    ------
    LinAlgError, DTypeError
        ``a`` is not a square matrix, or (when it is computed) is singular; LAPACK lacks the dtype.

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

    >>> wf.linalg.slogdet(wf.eye(3) * 1e-20).sign.tolist()
    1.0
    """
    value = matrix(a, "slogdet")
    sign, log = unpack(op("slogdet", value), (), ())
    return SlogdetResult(wrap(sign), wrap(_real(log)))


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

    >>> a, b = wf.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]), wf.array([1.0, 3.0, 5.0])
    >>> wf.round(wf.linalg.lstsq(a, b).x, 3).tolist()
    [2.0, 1.0]
    """
    left, right = promote_operands(*(wrap(floating(n)) for n in exact_operands(a, b)))
    if not (rcond is None or isinstance(rcond, int | float | np.number)):
        raise DTypeError(f"lstsq: rcond must be a number, not {short(rcond)}")
    if len(left.shape) != 2 or len(right.shape) not in (1, 2):
        raise MatrixError(f"lstsq: a {left.shape} must be a matrix, b {right.shape} a vector or a matrix.")
    m, n = left.shape
    if right.shape[0] != m:
        raise MatrixError(f"lstsq: a {left.shape} and b {right.shape} do not fit: both must have as many rows.")
    check("lstsq", left)
    columns = reshape_node(right, (m, 1)) if len(right.shape) == 1 else right
    u, s, vh = unpack(op("svd", left, full=False), *svd_parts(left.shape, False))
    real = _real(s)
    if rcond is not None and not 0 < rcond < 1:
        rcond = 2.0 ** -(real.dtype.mantissa + 1)  # LAPACK's replacement: half the machine epsilon
    threshold = number(_default_rtol(left) if rcond is None else rcond, real.dtype)
    largest = slice_node(real, 0, 0, 1) if real.size else real
    is_counted = op("greater", real, op("multiply", largest, threshold)) if real.size else op("greater", real, real)
    divisor = op("where", is_counted, s, number(1, s.dtype))
    inner = product(permute_node(arguments.conjugate(u), (1, 0)), columns)
    inner = op("where", reshape_node(is_counted, (
        *is_counted.shape, 1
    )), op("divide", inner, reshape_node(divisor, (*s.shape, 1))),
               number(0, inner.dtype))
    x = product(permute_node(arguments.conjugate(vh), (1, 0)), inner)
    rank = op("reduce_sum", cast(is_counted, INT64), axes=(0,), keepdims=False)
    residual = op("abs", op("subtract", columns, product(left, x)))
    residuals = op("reduce_sum", op("square", residual), axes=(0,), keepdims=False)
    if m <= n or (can_compute(rank) and int(read_array(rank, free=True)) < n):
        residuals = slice_node(residuals, 0, 0, 0)
    return LstsqResult(wrap(reshape_node(x, (n,)) if len(right.shape) == 1 else x), wrap(residuals), wrap(rank), wrap(real))


def expm(x: Any, /) -> Array:
    """Compute the exponentials of square matrices by ``scipy.linalg.expm``.

    Parameters
    ----------
    x : (..., M, M)

    Returns
    -------
    Array of the shape of ``x``

    Raises
    ------
    ImportError
        SciPy is not installed: ``pip install 'weft-array[scipy]'``.

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

    >>> wf.linalg.tensorsolve(wf.eye(6).reshape(2, 3, 6), wf.ones((2, 3))).shape
    (6,)
    """
    left, right = promote_operands(*(wrap(floating(n)) for n in exact_operands(a, b)))
    if axes is not None:
        moved = arguments.axis_tuple(axes, len(left.shape), "tensorsolve", "axes")
        left = permute_node(left, [*(d for d in range(len(left.shape)) if d not in moved), *moved])
    shape = left.shape[len(right.shape):]
    if left.size != right.size * math.prod(shape) or math.prod(shape) != right.size:
        raise MatrixError(f"tensorsolve: a {left.shape} and b {right.shape} do not fit: as a matrix a must be square.")
    n = right.size
    return wrap(reshape_node(op("solve", reshape_node(left, (n, n)), reshape_node(right, (n, 1))), shape))


def tensorinv(a: Any, ind: int = 2) -> Array:
    """Compute the inverse of an array for the products summed over ``ind`` axes.

    Parameters
    ----------
    ind : int
        The number of first axes that form the rows.

    Returns
    -------
    Array : the last axes of ``a``, then the first

    Raises
    ------
    ValueError, LinAlgError
        ``ind`` is not positive; the numbers of rows and columns differ.

    >>> wf.linalg.tensorinv(wf.eye(6).reshape(2, 3, 6)).shape
    (6, 2, 3)
    """
    if arguments.check_int(ind, "tensorinv", "ind") <= 0:
        raise ValueError(f"tensorinv: ind={ind} must be positive")
    value = matrix(a, "tensorinv")
    rows, columns = value.shape[:ind], value.shape[ind:]
    n = math.prod(rows)
    if n != math.prod(columns):
        raise MatrixError(f"tensorinv: a {value.shape} with ind={ind} is not square: {n} rows and {math.prod(columns)} columns.")
    return wrap(reshape_node(op("inv", reshape_node(value, (n, n))), (*columns, *rows)))


def cholesky(a: Any, *, upper: bool = False) -> Array:
    """Return the triangular matrices L for which ``L @ L.T`` (conjugated) is ``a``.

    Parameters
    ----------
    a : (..., M, M), symmetric (Hermitian) and positive definite
        Only one triangle is read: the lower one, or the upper one with ``upper``. The derivative is that of symmetric matrices.
    upper : bool
        Return the conjugate transposes of L.

    Raises
    ------
    LinAlgError, DTypeError
        ``a`` is not a square matrix, or (when it is computed) not positive definite; LAPACK lacks the dtype.

    >>> wf.linalg.cholesky(wf.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    value = matrix(a, "cholesky")
    check("cholesky", value, True)
    if not upper:
        return wrap(op("cholesky", value))
    return wrap(transpose(arguments.conjugate(op("cholesky", transpose(arguments.conjugate(value))))))


def qr(a: Any, mode: str = "reduced") -> Any:
    """Factorise ``a`` into orthonormal columns Q and triangular R.

    Parameters
    ----------
    a : (..., M, N)
    mode : "reduced", "complete", "r" or "raw"
        K = min(M, N) columns; all M columns (not differentiable if M > N); R alone; or LAPACK's own result, computed immediately:
        its transposed array and the factors of its reflectors.

    Returns
    -------
    (Q, R) : (..., M, K) and (..., K, N) Arrays

    Raises
    ------
    LinAlgError, ValueError, DTypeError
        ``a`` is not a matrix; ``mode`` is unknown; LAPACK lacks the dtype.

    >>> q, r = wf.linalg.qr(wf.array([[0.0, 2.0], [3.0, 4.0]]))
    >>> wf.round(q @ r, 3).tolist()
    [[0.0, 2.0], [3.0, 4.0]]
    """
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"qr: mode={mode!r} must be 'reduced', 'complete', 'r' or 'raw'")
    value = matrix(a, "qr")
    check("qr", value)
    if mode == "raw":
        parts: Any = np.linalg.qr(wrap(value).numpy(), mode="raw")
        return arguments.from_numpy(parts[0]), arguments.from_numpy(parts[1])
    form = "reduced" if mode == "r" else mode
    q, r = unpack(op("qr", value, mode=form), *qr_parts(value.shape, form))
    return wrap(r) if mode == "r" else QRResult(wrap(q), wrap(r))


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Compute the singular values S and the vectors U and Vh: ``U @ diag(S) @ Vh`` is ``a``.

    Parameters
    ----------
    a : (..., M, N)
    full_matrices : bool
        Make U and Vh square (not differentiable unless M is N); else they have K = min(M, N) vectors.
    compute_uv : bool
        False: return the singular values alone, as :func:`svdvals`.

    Returns
    -------
    (U, S, Vh) : (..., M, M), (..., K) and (..., N, N) Arrays
        The singular values fall; the signs of vectors are LAPACK's choice.

    Raises
    ------
    LinAlgError, DTypeError
        The argument is not a matrix, or (when it is computed) does not converge; LAPACK lacks the dtype.

    >>> wf.linalg.svd(wf.array([[0.0, 2.0], [3.0, 0.0]])).S.tolist()
    [3.0, 2.0]
    """
    if not compute_uv:
        return svdvals(a)
    value = matrix(a, "svd")
    check("svd", value)
    full = bool(full_matrices) and value.shape[-1] != value.shape[-2]
    u, s, vh = unpack(op("svd", value, full=full), *svd_parts(value.shape, full))
    return SVDResult(wrap(u), wrap(_real(s)), wrap(vh))


def svdvals(x: Any, /) -> Array:
    """Compute the singular values of matrices, in falling order.

    Parameters
    ----------
    x : (..., M, N)

    Returns
    -------
    (..., min(M, N)) Array of floats

    >>> wf.linalg.svdvals(wf.array([[0.0, 2.0], [3.0, 0.0]])).tolist()
    [3.0, 2.0]
    """
    return wrap(op("svdvals", matrix(x, "svdvals", "x")))


def _reads_lower(function: str, triangle: str) -> bool:
    if triangle not in ("L", "U", "l", "u"):
        raise ValueError(f"{function}: UPLO={triangle!r} must be 'L' or 'U'")
    return triangle in "Ll"


def eigh(a: Any, UPLO: str = "L") -> EighResult:  # noqa: N803  NumPy's name
    """Compute eigenvalues and eigenvectors of symmetric (Hermitian) matrices.

    Parameters
    ----------
    a : (..., M, M)
        Symmetric: only one triangle is read, as in NumPy. The derivative is that of symmetric matrices; eigenvectors of equal
        eigenvalues are not unique and have no derivative.
    UPLO : "L" or "U"
        The triangle that is read.

    Returns
    -------
    (eigenvalues, eigenvectors) : (..., M) and (..., M, M) Arrays
        The eigenvalues rise; the vectors are columns, whose signs are LAPACK's choice.

    Raises
    ------
    LinAlgError, ValueError, DTypeError
        ``a`` is not a square matrix, or (when it is computed) does not converge; ``UPLO`` is unknown; LAPACK lacks the dtype.

    >>> wf.linalg.eigh(wf.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    value = matrix(a, "eigh")
    check("eigh", value, True)
    n = value.shape[-1]
    w, v = unpack(op("eigh", value, lower=_reads_lower("eigh", UPLO)), (n,), (n, n))
    return EighResult(wrap(_real(w)), wrap(v))


def eigvalsh(a: Any, UPLO: str = "L") -> Array:  # noqa: N803
    """Compute the eigenvalues of symmetric (Hermitian) matrices, in rising order.

    Returns
    -------
    (..., M) Array of floats

    >>> wf.linalg.eigvalsh(wf.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    return wrap(op("eigvalsh", matrix(a, "eigvalsh"), lower=_reads_lower("eigvalsh", UPLO)))


def eig(a: Any) -> EigResult:
    """Compute eigenvalues and eigenvectors of square matrices. Both are always complex: a dtype cannot depend on values.

    Parameters
    ----------
    a : (..., M, M)

    Returns
    -------
    (eigenvalues, eigenvectors) : (..., M) and (..., M, M) complex Arrays
        The vectors are columns of length 1.

    Raises
    ------
    LinAlgError, DTypeError
        ``a`` is not a square matrix, or (when it is computed) does not converge; LAPACK lacks the dtype.

    >>> wf.linalg.eig(wf.array([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.tolist()
    [1j, -1j]
    """
    value = matrix(a, "eig")
    check("eig", value, True)
    n = value.shape[-1]
    w, v = unpack(op("eig", value), (n,), (n, n))
    return EigResult(wrap(w), wrap(v))


def eigvals(a: Any) -> Array:
    """Compute the eigenvalues of square matrices. They are always complex.

    Returns
    -------
    (..., M) complex Array

    >>> wf.linalg.eigvals(wf.array([[2.0, 1.0], [0.0, 1.0]])).tolist()
    [(2+0j), (1+0j)]
    """
    return wrap(op("eigvals", matrix(a, "eigvals")))


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """Compute the ranks of matrices: the numbers of singular values that are not negligible.

    Parameters
    ----------
    A : (..., M, N) or a vector
        The rank of a vector is 1, or 0 if it is zero.
    tol, rtol : number or (...) array, optional
        Values up to ``tol``, or up to ``rtol`` times the largest, are negligible. By default ``rtol`` is max(M, N) times the
        machine epsilon of the dtype.

    Returns
    -------
    (...) Array of int64

    >>> wf.linalg.matrix_rank(wf.array([[1.0, 2.0], [2.0, 4.0]])).tolist()
    1
    """
    value = matrix(A, "matrix_rank")
    if len(value.shape) < 2:
        nonzero = op("not_equal", value, number(0, value.dtype))
        axes = tuple(range(len(value.shape)))
        return wrap(reduce_node("reduce_max", cast(nonzero, INT64), axes) if value.size else number(0, INT64))
    values = op("svdvals", value)
    last = len(values.shape) - 1
    if not values.shape[-1]:
        return wrap(reduce_node("reduce_sum", cast(values, INT64), (last,)))
    if tol is None:
        relative = _default_rtol(value) if rtol is None else rtol
        bound = op("multiply", reduce_node("reduce_max", values, (last,), True), _column(relative, values, last))
    else:
        bound = _column(tol, values, last)
    return wrap(reduce_node("reduce_sum", cast(op("greater", values, bound), INT64), (last,)))


def _column(tolerance: Any, values: Node, last: int) -> Node:
    column = cast(node(tolerance, "matrix_rank", "tol"), values.dtype)
    return reshape_node(column, (*column.shape, 1)) if column.shape else column


def cond(x: Any, p: Any = None) -> Array:
    """Compute condition numbers of matrices: the largest factor by which a relative error in ``b`` grows in ``solve(x, b)``.

    Parameters
    ----------
    x : (..., M, N); square unless ``p`` is None, 2 or -2
    p : optional
        The norm (:func:`norm`); None and 2: the largest singular value divided by the smallest, -2: the reciprocal.

    Returns
    -------
    (...) Array of floats, infinite for singular matrices

    Raises
    ------
    LinAlgError, ShapeError, ValueError, DTypeError
        ``x`` is not a matrix, or not square for other norms; it has no elements; ``p`` is unknown; LAPACK lacks the dtype.

    >>> wf.linalg.cond(wf.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
    2.0
    """
    value = matrix(x, "cond", "x")
    check("cond", value, p not in (None, 2, -2))
    if 0 in value.shape[-2:]:
        raise ShapeError(f"cond: x has shape {value.shape}; a matrix without elements has no condition")
    if p in (None, 2, -2):
        values = op("svdvals", value)
        last = len(values.shape) - 1
        high, low = (reduce_node(f"reduce_{name}", values, (last,)) for name in ("max", "min"))
        ratio = op("divide", low, high) if p == -2 else op("divide", high, low)
    else:
        sign, _ = slogdet(wrap(value))
        singular = equal(sign, 0)  # inv would raise
        regular = where(singular[..., None, None], eye(value.shape[-1], dtype=value.dtype.numpy), wrap(value))
        ratio = where(singular, np.inf, norm(wrap(value), ord=p, axis=(-2, -1)) * norm(inv(regular), ord=p, axis=(-2, -1))).node
    result = wrap(ratio)
    return where(isnan(result) & ~isnan(wrap(value)).any(axis=(-2, -1)), np.inf, result)  # 0 / 0, and infinity times 0


complete_module(
    globals(), (vector_norm, matrix_norm, norm), (diagonal, trace), (matrix_power, inv, cholesky), (inv, det), (det, slogdet,
    expm), (svd, svdvals, matrix_rank), (eigh, eigvalsh), (eig, eigvals),
)
