"""Matrices made of their diagonals: eye and triangles."""

from __future__ import annotations

import operator
from typing import Any

from weft.array import Array, wrap
from weft.convert import number_node
from weft.formats import DEFAULT, INT64
from weft.functions.common import Node, cast, made_on, op, shape_tuple
from weft.spelling import spelled


def diagonal_number(rows: int, columns: int) -> Node:
    """Column less row, as int64, for every place of a matrix."""
    column = op("iota", shape=(1, columns), dtype=INT64, axis=1)
    return op("subtract", column, op("iota", shape=(rows, 1), dtype=INT64, axis=0))


def eye(n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: Any = None, *, device: Any = None) -> Array:
    """Ones on a diagonal, zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols : int
        ``n_cols`` is ``n_rows`` where it is left out.
    k : int
        Which diagonal: above the main one when positive.
    dtype : dtype, optional
        float32 by default.
    device : str, optional
        Where it is to lie, such as "cpu" or "gpu"; by default where it is made.

    Returns
    -------
    (n_rows, n_cols) Array

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
    if device is not None:
        return made_on("eye", device, eye, n_rows, n_cols, k, dtype)
    rows, columns = shape_tuple((n_rows, n_rows if n_cols is None else n_cols), "eye", "n_rows, n_cols")
    hit = op("equal", diagonal_number(rows, columns), _diagonal(rows, columns, k))
    return wrap(cast(hit, DEFAULT.real if dtype is None else spelled(dtype)))


def identity(n: int, dtype: Any = None) -> Array:
    """The identity matrix: :func:`eye` of ``n`` rows and columns.

    Parameters
    ----------
    n : int
    dtype : dtype, optional

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
    return eye(n, dtype=dtype)


def lower_mask(rows: int, columns: int, k: int) -> Node:
    """Where a matrix is on or below its k-th diagonal."""
    return op("less_equal", diagonal_number(rows, columns), _diagonal(rows, columns, k))


def _diagonal(rows: int, columns: int, k: int) -> Node:
    """The number of a diagonal; of those outside of the matrix one says as much as the other."""
    return number_node(max(-rows, min(operator.index(k), columns)), INT64)


def tri(n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: Any = None) -> Array:
    """Ones on and below a diagonal, zeros above it.

    Parameters
    ----------
    n_rows, n_cols, k, dtype : as in :func:`eye`

    Returns
    -------
    (n_rows, n_cols) Array

    Raises
    ------
    ShapeError, DTypeError
        A negative extent; an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.tri(2, 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    rows, columns = shape_tuple((n_rows, n_rows if n_cols is None else n_cols), "tri", "n_rows, n_cols")
    return wrap(cast(lower_mask(rows, columns, k), DEFAULT.real if dtype is None else spelled(dtype)))
