"""Matrices with ones on diagonals or in triangles, and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, ndarray, wrap
from weft.array.convert import number_node
from weft.dtypes.formats import DEFAULT, INT64
from weft.dtypes.parse import check_like, layout, parse_dtype
from weft.eager.peek import made
from weft.errors import ShapeError
from weft.functions.support.arguments import Node, cast, create_on_device, node, number, op, shape_tuple, whole
from weft.functions.support.try_numpy import try_numpy
from weft.process.docstrings import complete_docs


def diagonal_number(rows: int, columns: int) -> Node:
    """Return column minus row of each element of a matrix, as int64."""
    column = op("iota", shape=(1, columns), dtype=INT64, axis=1)
    return op("subtract", column, op("iota", shape=(rows, 1), dtype=INT64, axis=0))


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None,
) -> Array:
    """Return a matrix with ones on one diagonal and zeros elsewhere.

    Parameters
    ----------
    N, M : int
        The number of rows and of columns; ``M`` is ``N`` by default.
    k : int
        The diagonal: 0 is the main one, positive numbers are above it.
    dtype : dtype, optional
        float32 by default.
    order : str, optional
        Ignored: weft's arrays are stored in row-major order.
    device : str, optional
        The device of the result, such as "cpu" or "gpu"; by default the current one.
    like : array, optional
        Ignored: the result is always an Array.

    Returns
    -------
    (N, M) Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        An extent is negative; an argument is no integer, or the dtype is unknown; the device is unknown.

    Examples
    --------
    >>> wf.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check_like(like, "eye")
    layout(order, "eye", "CF")
    if device is not None:
        return create_on_device("eye", device, eye, N, M, k, dtype)
    rows, columns = shape_tuple((N, N if M is None else M), "eye", "N, M")
    form, at = DEFAULT.real if dtype is None else parse_dtype(dtype), _clamp_diagonal(rows, columns, k)
    result = made((rows, columns), form, lambda memory: np.copyto(memory, np.eye(rows, columns, at, form.numpy)))
    if result is None:
        result = cast(op("equal", diagonal_number(rows, columns), number_node(at, INT64)), form)
    return wrap(result)


def identity(n: int, dtype: Any = None, *, like: Any = None) -> Array:
    """Return the identity matrix with ``n`` rows.

    Parameters
    ----------
    n : int

    Returns
    -------
    (n, n) Array

    Examples
    --------
    >>> wf.identity(1).tolist()
    [[1.0]]
    """
    check_like(like, "identity")
    return eye(whole(n, "identity", "n"), dtype=dtype)


def lower_mask(rows: int, columns: int, k: int) -> Node:
    """Return a mask of the elements on or below the k-th diagonal."""
    return op("less_equal", diagonal_number(rows, columns), number_node(_clamp_diagonal(rows, columns, k), INT64))


def _clamp_diagonal(rows: int, columns: int, k: int) -> int:
    """Return ``k`` limited to the matrix: all diagonals outside of it have the same effect."""
    return max(-rows, min(whole(k, "eye", "k"), columns))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None, *, like: Any = None) -> Array:
    """Return a matrix with ones on and below a diagonal and zeros above it. A negative ``N`` or ``M`` counts as 0.

    Raises
    ------
    DTypeError
        An argument is no integer, or the dtype is unknown.

    Examples
    --------
    >>> wf.tri(2, 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    check_like(like, "tri")
    rows, columns = (max(0, whole(n, "tri", "N, M")) for n in (N, N if M is None else M))
    return wrap(cast(lower_mask(rows, columns, k), DEFAULT.real if dtype is None else parse_dtype(dtype)))


def _triangle(function: str, x: Any, k: int, lower: bool) -> Array:
    if type(x) is ndarray and x.ndim > 1 and (result := try_numpy(np.tril if lower else np.triu, x, k)) is not None:
        return result
    value = node(x, function, "m")
    if not value.shape:
        raise ShapeError(f"{function}: m has no dimensions; a vector, a matrix or a stack of matrices is needed")
    rows, columns = (value.shape * 2)[-2:] if len(value.shape) == 1 else value.shape[-2:]
    mask = lower_mask(rows, columns, whole(k, function, "k") - (not lower))
    zero = number(0, value.dtype)
    return wrap(op("where", mask, value, zero) if lower else op("where", mask, zero, value))


def tril(m: Any, k: int = 0) -> Array:
    """Return ``m`` with zeros above the k-th diagonal.

    Parameters
    ----------
    m : (..., M, N) or (N,)
        A vector is repeated as the rows of a square matrix, as in NumPy.
    k : int
        The last diagonal that is kept: 0 is the main one, positive numbers are above it.

    Returns
    -------
    Array of the shape and dtype of ``m``

    Raises
    ------
    ShapeError
        ``m`` has no dimensions.

    Examples
    --------
    >>> wf.tril(wf.ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _triangle("tril", m, k, True)


def triu(m: Any, k: int = 0) -> Array:
    """Return ``m`` with zeros below the k-th diagonal.

    Parameters
    ----------
    k : int
        The first diagonal that is kept: 0 is the main one, positive numbers are above it.

    Examples
    --------
    >>> wf.triu(wf.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _triangle("triu", m, k, False)


complete_docs(eye, identity, tri)
complete_docs(tril, triu)
