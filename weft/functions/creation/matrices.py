"""Matrices made of their diagonals: eye and triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, ndarray, wrap
from weft.array.convert import number_node
from weft.dtypes.formats import DEFAULT, INT64
from weft.dtypes.parse import layout, liked, spelled
from weft.eager.peek import made
from weft.errors import ShapeError
from weft.functions.support.arguments import Node, cast, made_on, node, number, op, shape_tuple, whole
from weft.functions.support.try_numpy import by_numpy


def diagonal_number(rows: int, columns: int) -> Node:
    """Column less row, as int64, for every place of a matrix."""
    column = op("iota", shape=(1, columns), dtype=INT64, axis=1)
    return op("subtract", column, op("iota", shape=(rows, 1), dtype=INT64, axis=0))


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None,
) -> Array:
    """Ones on a diagonal, zeros elsewhere.

    Parameters
    ----------
    N, M : int
        ``M`` is ``N`` where it is left out.
    k : int
        Which diagonal: above the main one when positive.
    dtype : dtype, optional
        float32 by default.
    order : any
        Does nothing: arrays of weft lie row by row.
    device : str, optional
        Where it is to lie, such as "cpu" or "gpu"; by default where it is made.
    like : as in :func:`zeros`

    Returns
    -------
    (N, M) Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        A negative extent; an unknown dtype or device.

    Examples
    --------
    >>> import weft as wf
    >>> wf.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    liked(like, "eye")
    layout(order, "eye", "CF")
    if device is not None:
        return made_on("eye", device, eye, N, M, k, dtype)
    rows, columns = shape_tuple((N, N if M is None else M), "eye", "N, M")
    wanted, at = DEFAULT.real if dtype is None else spelled(dtype), _within(rows, columns, k)
    found = made((rows, columns), wanted, lambda memory: np.copyto(memory, np.eye(rows, columns, at, wanted.numpy)))
    if found is None:
        found = cast(op("equal", diagonal_number(rows, columns), number_node(at, INT64)), wanted)
    return wrap(found)


def identity(n: int, dtype: Any = None, *, like: Any = None) -> Array:
    """The identity matrix: :func:`eye` of ``n`` rows and columns.

    Parameters
    ----------
    n : int
    dtype : dtype, optional
    like : as in :func:`zeros`

    Returns
    -------
    (n, n) Array

    Raises
    ------
    ShapeError, DTypeError
        A negative extent; an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.identity(1).tolist()
    [[1.0]]
    """
    liked(like, "identity")
    return eye(whole(n, "identity", "n"), dtype=dtype)


def lower_mask(rows: int, columns: int, k: int) -> Node:
    """Where a matrix is on or below its k-th diagonal."""
    return op("less_equal", diagonal_number(rows, columns), number_node(_within(rows, columns, k), INT64))


def _within(rows: int, columns: int, k: int) -> int:
    """The number of a diagonal; of those outside of the matrix one says as much as the other."""
    return max(-rows, min(whole(k, "eye", "k"), columns))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None, *, like: Any = None) -> Array:
    """Ones on and below a diagonal, zeros above it.

    Parameters
    ----------
    N, M, k, dtype, like : as in :func:`eye`; a negative ``N`` or ``M`` counts as 0

    Returns
    -------
    (N, M) Array

    Raises
    ------
    DTypeError
        What is no integer; an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.tri(2, 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    liked(like, "tri")
    rows, columns = (max(0, whole(n, "tri", "N, M")) for n in (N, N if M is None else M))
    return wrap(cast(lower_mask(rows, columns, k), DEFAULT.real if dtype is None else spelled(dtype)))


def _triangle(function: str, x: Any, k: int, lower: bool) -> Array:
    if type(x) is ndarray and x.ndim > 1 and (found := by_numpy(np.tril if lower else np.triu, x, k)) is not None:
        return found
    value = node(x, function, "m")
    if not value.shape:
        raise ShapeError(f"{function}: m has no dimensions; a vector, a matrix or a stack of matrices is needed")
    rows, columns = (value.shape * 2)[-2:] if len(value.shape) == 1 else value.shape[-2:]
    mask = lower_mask(rows, columns, whole(k, function, "k") - (not lower))
    zero = number(0, value.dtype)
    return wrap(op("where", mask, value, zero) if lower else op("where", mask, zero, value))


def tril(m: Any, k: int = 0) -> Array:
    """``m`` on and below the k-th diagonal, zeros above it.

    Parameters
    ----------
    m : (..., M, N) or (N,)
        A vector is repeated as the rows of a square matrix, as in NumPy.
    k : int
        The last diagonal to stay; above 0 to the right of the main one.

    Returns
    -------
    Array of the shape and dtype of ``m``

    Raises
    ------
    ShapeError
        ``m`` has no dimensions.

    Examples
    --------
    >>> import weft as wf
    >>> wf.tril(wf.ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _triangle("tril", m, k, True)


def triu(m: Any, k: int = 0) -> Array:
    """``m`` on and above the k-th diagonal, zeros below it.

    Parameters
    ----------
    m : (..., M, N) or (N,)
        As in :func:`tril`.
    k : int
        The first diagonal to stay; above 0 to the right of the main one.

    Returns
    -------
    Array of the shape and dtype of ``m``

    Raises
    ------
    ShapeError
        ``m`` has no dimensions.

    Examples
    --------
    >>> import weft as wf
    >>> wf.triu(wf.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _triangle("triu", m, k, False)
