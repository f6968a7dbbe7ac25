"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import FLOAT64, INEXACT, Format
from weft.dtypes.parse import to_tuple
from weft.errors import ShapeError, name_called_function, short
from weft.functions.support import arguments
from weft.functions.support.arguments import Axis, Node, broadcast, cast, floating, node, number, op, permuted, reduced, reshaped
from weft.process.docstrings import complete_docs


def _cast_for_norm(x: Any) -> tuple[Node, Format]:
    """Cast the operand to the dtype its norm is computed in, as for means; return it and the dtype of the result."""
    value = node(x, "norm")
    result = floating(value).dtype
    return cast(value, FLOAT64 if value.dtype not in INEXACT else result.computed), result.part


def vector_norm(x: Any, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Array:
    """Compute the norm of vectors: the ``ord``-th root of the sum of ``abs(x) ** ord``.

    Parameters
    ----------
    x : array
    axis : int or tuple of int, optional
        The axes of the vectors; None for all elements.
    keepdims : bool
        Keep the reduced axes with extent 1.
    ord : number
        Also ``wf.inf`` (the largest), ``-wf.inf`` (the smallest) and 0 (the number of elements that are not zero).

    Returns
    -------
    Array of floats, without the reduced axes

    Raises
    ------
    AxisError, ValueError
        ``x`` has no such axis; ``ord`` is not a norm of vectors.

    Examples
    --------
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

    Examples
    --------
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
    values = op("svdvals", permuted(value, (*rest, row, column)))
    along = (len(rest),)
    result = reduced("reduce_sum", values, along) if ord == "nuc" else _extreme(values, along, False, ord == 2)
    return reshaped(result, tuple(1 if a in (row, column) else n for a, n in enumerate(value.shape))) if keepdims else result


def norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
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

    Examples
    --------
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


complete_docs(vector_norm, matrix_norm, norm)
