"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import FLOAT64, INEXACT, Format
from weft.dtypes.parse import to_tuple
from weft.errors import ShapeError, as_called, short
from weft.functions.support.arguments import (
    Axis,
    Node,
    axis_index,
    axis_tuple,
    broadcast,
    cast,
    floating,
    node,
    norm_root,
    number,
    op,
    permuted,
    powers,
    reduced,
    reshaped,
)


def _working(x: Any) -> tuple[Node, Format]:
    """The operand in the dtype that its norm is computed in, and the dtype of the result: as means have them."""
    value = node(x, "norm")
    result = floating(value).dtype
    return cast(value, FLOAT64 if value.dtype not in INEXACT else result.computed), result.part


def vector_norm(x: Any, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Array:
    """Norm of vectors: the ``ord``-th root of the sum of ``abs(x) ** ord``.

    Parameters
    ----------
    x : array
    axis : int or tuple of int, optional
        What is a vector; None: all elements.
    keepdims : bool
    ord : number
        Also ``wf.inf`` (largest), ``-wf.inf`` (smallest) and 0 (how many are not zero).

    Returns
    -------
    Array of floats, without the axes

    Raises
    ------
    AxisError, ValueError
        No such axis; an ``ord`` that is no norm of vectors.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linalg.vector_norm(wf.array([3.0, 4.0])).tolist()
    5.0
    """
    value, result = _working(x)
    return wrap(cast(_vector_norm(value, axis_tuple(axis, len(value.shape), "norm"), keepdims, ord), result))


def _vector_norm(value: Node, axes: tuple[int, ...], keepdims: bool, ord: Any) -> Node:
    if not isinstance(ord, int | float | np.number):
        raise ValueError(as_called(f"norm: ord={short(ord)} is not a norm of vectors"))
    if ord == 0:
        return reduced("reduce_sum", cast(op("not_equal", value, number(0, value.dtype)), value.dtype.part), axes, keepdims)
    if ord == 1:
        return reduced("reduce_sum", op("abs", value), axes, keepdims)
    if math.isinf(ord):
        return _extreme(op("abs", value), axes, keepdims, bool(ord > 0))
    degree = float(ord)
    return norm_root(reduced("reduce_sum", powers(value, degree), axes, keepdims), degree)


def _extreme(sizes: Node, axes: tuple[int, ...], keepdims: bool, largest: bool) -> Node:
    """The largest or the smallest of sizes; the largest of none is 0."""
    if largest and 0 in [sizes.shape[a] for a in axes]:
        shape = tuple(1 if a in axes else n for a, n in enumerate(sizes.shape) if keepdims or a not in axes)
        return broadcast(number(0, sizes.dtype), shape)
    return reduced("reduce_max" if largest else "reduce_min", sizes, axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Norm of the matrices in the last two axes.

    Parameters
    ----------
    x : (..., M, N)
    keepdims : bool
    ord : "fro", "nuc", 1, -1, 2, -2, ``wf.inf`` or ``-wf.inf``
        The root of the sum of squares; the sum of the singular values, the largest (2) or the smallest (-2); the largest or
        smallest sum of a column (1, -1) or of a row (the infinities).

    Returns
    -------
    (...) Array of floats

    Raises
    ------
    ShapeError, ValueError
        ``x`` holds no matrix; an ``ord`` that is no norm of matrices.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linalg.matrix_norm(wf.array([[1.0, 2.0], [3.0, 4.0]]), ord=1).tolist()
    6.0
    """
    value, result = _working(x)
    if len(value.shape) < 2:
        raise ShapeError(f"norm: x has shape {value.shape}; a matrix or a stack of matrices is needed")
    return wrap(cast(_matrix_norm(value, len(value.shape) - 2, len(value.shape) - 1, keepdims, ord), result))


def _matrix_norm(value: Node, row: int, column: int, keepdims: bool, ord: Any) -> Node:
    if ord == "fro":
        return _vector_norm(value, tuple(sorted((row, column))), keepdims, 2)
    if ord in ("nuc", 2, -2):
        return _of_singular_values(value, row, column, keepdims, ord)
    if ord not in (1, -1, math.inf, -math.inf):
        what = f"norm: ord={short(ord)} is not a norm of matrices; use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        raise ValueError(as_called(what))
    summing, over = (row, column) if abs(ord) == 1 else (column, row)
    sums = op("reduce_sum", op("abs", value), axes=(summing,), keepdims=True)
    out = _extreme(sums, (over,), True, ord > 0)
    if keepdims:
        return out
    return reshaped(out, tuple(n for a, n in enumerate(out.shape) if a not in (row, column)))


def _of_singular_values(value: Node, row: int, column: int, keepdims: bool, ord: Any) -> Node:
    """Their sum, the largest, or the smallest."""
    rest = [a for a in range(len(value.shape)) if a not in (row, column)]
    values = op("svdvals", permuted(value, (*rest, row, column)))
    along = (len(rest),)
    found = reduced("reduce_sum", values, along) if ord == "nuc" else _extreme(values, along, False, ord == 2)
    return reshaped(found, tuple(1 if a in (row, column) else n for a, n in enumerate(value.shape))) if keepdims else found


def norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """NumPy's norm: of vectors along one axis, of matrices in two, of all elements without ``axis`` and ``ord``.

    Parameters
    ----------
    x : array
    ord : optional
        As in :func:`vector_norm` along one axis, as in :func:`matrix_norm` in two; None: the root of the sum of squares.
    axis : int or pair of int, optional
    keepdims : bool

    Returns
    -------
    Array of floats, without the axes

    Raises
    ------
    ShapeError, AxisError, ValueError
        Three or more axes, or one that ``x`` lacks; no norm.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linalg.norm(wf.array([[3.0, 4.0], [6.0, 8.0]]), axis=1).tolist()
    [5.0, 10.0]
    """
    value, result = _working(x)
    ndim = len(value.shape)
    if axis is None and ord is None:
        return wrap(cast(_vector_norm(value, tuple(range(ndim)), keepdims, 2), result))
    given = tuple(range(ndim)) if axis is None else to_tuple(axis)
    places = tuple(axis_index(a, ndim, "norm") for a in given)
    if len(places) == 1:
        return wrap(cast(_vector_norm(value, places, keepdims, 2 if ord is None else ord), result))
    if len(places) != 2 or places[0] == places[1]:
        raise ShapeError(f"norm: axis={axis!r} of shape {value.shape} must name one axis (vectors) or two (matrices)")
    return wrap(cast(_matrix_norm(value, *places, keepdims, "fro" if ord is None else ord), result))
