"""Norms, powers, chains of products, and the functions of wf.linalg that have other arguments than those of wf."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import operands
from weft.array.operations import matmul as product
from weft.dtypes.formats import FLOAT64, INEXACT, Format
from weft.dtypes.parse import to_tuple
from weft.errors import ShapeError, name_called_function, short
from weft.functions.creation.fill import eye
from weft.functions.linalg.products import dot, line_of, sum_of
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, broadcast, cast, finish, floating, node, number, op, reduced, reshaped, sliced
from weft.graph.primitives.linear_algebra import MatrixError
from weft.process.docstrings import complete_module


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
        return reduced("reduce_sum", cast(op("not_equal", value, number(0, value.dtype)), value.dtype.part), axes, keepdims)
    if ord == 1:
        return reduced("reduce_sum", op("abs", value), axes, keepdims)
    if math.isinf(ord):
        return _extreme(op("abs", value), axes, keepdims, bool(ord > 0))
    degree = float(ord)
    return arguments.norm_root(reduced("reduce_sum", arguments.powers(value, degree), axes, keepdims), degree)


def _extreme(sizes: Node, axes: tuple[int, ...], keepdims: bool, largest: bool) -> Node:
    """Return the largest or smallest magnitude; the largest of none is 0."""
    if largest and 0 in [sizes.shape[a] for a in axes]:
        shape = tuple(1 if a in axes else n for a, n in enumerate(sizes.shape) if keepdims or a not in axes)
        return broadcast(number(0, sizes.dtype), shape)
    return reduced("reduce_max" if largest else "reduce_min", sizes, axes, keepdims)


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
    return reshaped(out, tuple(n for a, n in enumerate(out.shape) if a not in (row, column)))


def _singular_value_norm(value: Node, row: int, column: int, keepdims: bool, ord: Any) -> Node:
    """Return the sum, the largest or the smallest of the singular values."""
    rest = [a for a in range(len(value.shape)) if a not in (row, column)]
    values = op("svdvals", arguments.permuted(value, (*rest, row, column)))
    along = (len(rest),)
    result = reduced("reduce_sum", values, along) if ord == "nuc" else _extreme(values, along, False, ord == 2)
    return reshaped(result, tuple(1 if a in (row, column) else n for a, n in enumerate(value.shape))) if keepdims else result


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


# ---- diagonals of the last two axes, as in numpy.linalg


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
    value, times = node(a, "matrix_power", "a"), arguments.whole(n, "matrix_power", "n")
    if len(value.shape) < 2 or value.shape[-1] != value.shape[-2]:
        raise MatrixError(f"matrix_power: a has shape {value.shape}; a square matrix, or a stack of them, is needed.")
    if times <= 0:
        if not times:
            return wrap(broadcast(eye(value.shape[-1], dtype=value.dtype.numpy).node, value.shape))
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
    operand_list = arguments.several(arrays, "multi_dot", "arrays")
    nodes = list(operands(*operand_list)) if len(operand_list) > 1 else []
    if not nodes:
        raise ValueError("multi_dot: at least two arrays are needed")
    if len(nodes) == 2:
        return dot(wrap(nodes[0]), wrap(nodes[1]), out=out)
    ends = [len(nodes[0].shape) == 1, len(nodes[-1].shape) == 1]
    if ends[0]:
        nodes[0] = reshaped(nodes[0], (1, *nodes[0].shape))
    if ends[1]:
        nodes[-1] = reshaped(nodes[-1], (*nodes[-1].shape, 1))
    if any(len(n.shape) != 2 for n in nodes):
        raise MatrixError(f"multi_dot: matrices are needed, not shapes {', '.join(str(n.shape) for n in nodes)}.")
    result = _multiply_chain(nodes)
    return finish(reshaped(result, tuple(n for n, end in zip(result.shape, ends, strict=True) if not end)), out, "multi_dot")


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
    a, b = operands(x1, x2)
    for value, name in ((a, "x1"), (b, "x2")):
        if value.shape[arguments.axis_index(axis, len(value.shape), "cross")] != 3:
            raise ShapeError(f"cross: {name} has shape {value.shape}; 3 elements along axis {axis} are needed")
    forward = op("multiply", _rotate(a, axis, 1), _rotate(b, axis, 2))
    return wrap(op("subtract", forward, op("multiply", _rotate(a, axis, 2), _rotate(b, axis, 1))))


def _rotate(value: Node, axis: int, by: int) -> Node:
    """Rotate the elements along an axis by ``by`` positions."""
    at = axis % len(value.shape)
    return op("concat", sliced(value, at, by, 3), sliced(value, at, 0, by), axis=at)


complete_module(globals(), (vector_norm, matrix_norm, norm), (diagonal, trace))
