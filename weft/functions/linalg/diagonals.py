"""Diagonals of matrices: read, summed, and made into matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, ndarray, wrap
from weft.dtypes.formats import INT64, summed
from weft.dtypes.parse import parse_dtype
from weft.errors import ShapeError
from weft.functions.creation.matrices import diagonal_number
from weft.functions.support.arguments import Node, axis_index, cast, finish, node, number, op, permuted, reshaped, sliced, whole
from weft.functions.support.try_numpy import try_numpy
from weft.process.docstrings import complete_docs, complete_each


def line_of(function: str, x: Any, offset: int, axis1: int, axis2: int) -> Node:
    """Return the diagonals of the matrices in two axes, along a new last axis."""
    value = node(x, function, "a")
    ndim = len(value.shape)
    if ndim < 2:
        raise ShapeError(f"{function}: the array has shape {value.shape}; a matrix or a stack of matrices is needed")
    first, second = axis_index(axis1, ndim, function, "axis1"), axis_index(axis2, ndim, function, "axis2")
    if first == second:
        raise ShapeError(f"{function}: axis1={axis1} and axis2={axis2} are the same axis")
    value = permuted(value, (*(a for a in range(ndim) if a not in (first, second)), first, second))
    rows, columns = value.shape[-2:]
    lead, k = value.shape[:-2], whole(offset, function, "offset")
    count = max(0, min(rows + min(k, 0), columns - max(k, 0)))
    if count == 0:
        return sliced(reshaped(value, (*lead, rows * columns)), ndim - 2, 0, 0)
    flat = reshaped(value, (*lead, rows * columns))  # neighbours on the diagonal are columns + 1 apart
    begin = k if k >= 0 else -k * columns
    zeros = (0,) * len(lead)
    return op("slice", flat, start=(*zeros, begin), step=(*(1 for _ in lead), columns + 1), shape=(*lead, count))


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonal of matrices, along a new last axis.

    Parameters
    ----------
    a : array_like with two or more dimensions
    offset : int
        Positive: a diagonal to the right of the main one.
    axis1, axis2 : int
        The axes of the matrices.

    Returns
    -------
    Array with the diagonal along its last axis

    Raises
    ------
    ShapeError, AxisError
        ``a`` has fewer than two dimensions, or both axes are the same; ``a`` has no such axis.

    Examples
    --------
    >>> wf.diagonal(wf.array([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return wrap(line_of("diagonal", a, offset, axis1, axis2))


def diag(v: Any, k: int = 0) -> Array:
    """Return the k-th diagonal of a matrix, or the matrix with a vector on its k-th diagonal.

    Parameters
    ----------
    v : (N,) or (M, N)
    k : int
        Positive: a diagonal to the right of the main one.

    Returns
    -------
    (N + abs(k), N + abs(k)) Array for a vector, the diagonal for a matrix

    Raises
    ------
    ShapeError
        ``v`` is neither a vector nor a matrix.

    Examples
    --------
    >>> wf.diag(wf.array([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    if type(v) is ndarray and type(k) is int:
        result = try_numpy(np.diag, v, k, most=v.size if v.ndim > 1 else (v.size + abs(k)) ** 2)
        if result is not None:
            return result
    value = node(v, "diag", "v")
    if len(value.shape) == 2:
        return wrap(line_of("diag", v, k, 0, 1))
    if len(value.shape) != 1:
        raise ShapeError(f"diag: v has shape {value.shape}; a vector or a matrix is needed")
    k = whole(k, "diag", "k")
    extent = value.size + abs(k)
    line = op("pad", value, low=(0,), high=(abs(k),), value=0)
    line = reshaped(line, (extent, 1) if k >= 0 else (1, extent))
    return wrap(op("where", op("equal", diagonal_number(extent, extent), number(k, INT64)), line, number(0, value.dtype)))


def diagflat(v: Any, k: int = 0) -> Array:
    """Return the matrix with the elements of a flattened array on its k-th diagonal.

    Parameters
    ----------
    v : array
    k : int
        Positive: a diagonal to the right of the main one.

    Returns
    -------
    (v.size + abs(k), v.size + abs(k)) Array

    Examples
    --------
    >>> wf.diagflat([[1, 2]]).tolist()
    [[1, 0], [0, 2]]
    """
    value = node(v, "diagflat", "v")
    return diag(wrap(reshaped(value, (value.size,))), k)


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Array | None = None,
) -> Array:
    """Sum the diagonal of matrices.

    Parameters
    ----------
    dtype : dtype, optional
        The dtype of the result; by default as for :func:`weft.sum`.
    out : Array, optional
        The array that the result is written to.

    Returns
    -------
    Array without the two axes

    Raises
    ------
    ShapeError, AxisError, DTypeError
        As :func:`diagonal`; ``dtype`` is unknown.

    Examples
    --------
    >>> wf.trace(wf.array([[1, 2], [3, 4]])).tolist()
    5
    """
    return finish(sum_of("trace", a, offset, axis1, axis2, dtype), out, "trace")


def sum_of(function: str, x: Any, offset: int, axis1: int, axis2: int, dtype: Any) -> Node:
    """Return the sums of the diagonals of the matrices in two axes."""
    line = line_of(function, x, offset, axis1, axis2)
    line = cast(line, summed(line.dtype) if dtype is None else parse_dtype(dtype))
    return op("reduce_sum", line, axes=(len(line.shape) - 1,), keepdims=False)


complete_each(diag, diagflat)
complete_docs(diagonal, trace)
