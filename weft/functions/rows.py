"""Arrays beside each other in more ways: columns, depth, blocks; and taken apart again."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.array.convert import exact_operands, leaves
from weft.errors import DTypeError, ShapeError
from weft.functions.atleast import atleast_3d
from weft.functions.common import alias, arrays
from weft.functions.joining import concat, split, vstack


def column_stack(tup: Any) -> Array:
    """Vectors as the columns of a matrix; matrices beside each other.

    Parameters
    ----------
    tup : sequence of arrays

    Returns
    -------
    Array with two or more dimensions

    Raises
    ------
    ShapeError, DTypeError
        Extents differ, or there is no array; no sequence.

    Examples
    --------
    >>> import weft as wf
    >>> wf.column_stack([wf.array([1, 2]), wf.array([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    parts = [wrap(n) for n in exact_operands(*_sequence("column_stack", tup))]
    return concat([p if p.ndim > 1 else p.reshape(-1, 1) for p in parts], 1)


def _sequence(function: str, given: Any) -> list[Any]:
    if not hasattr(given, "__iter__"):
        raise DTypeError(f"{function}: a sequence of arrays is needed, not {type(given).__name__}")
    return list(given)


def dstack(tup: Any) -> Array:
    """Arrays behind each other, along a third axis.

    Parameters
    ----------
    tup : sequence of arrays

    Returns
    -------
    Array with three or more dimensions

    Raises
    ------
    ShapeError, DTypeError
        Extents differ, or there is no array; no sequence.

    Examples
    --------
    >>> import weft as wf
    >>> wf.dstack([wf.array([1, 2]), wf.array([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return concat([atleast_3d(wrap(n)) for n in exact_operands(*_sequence("dstack", tup))], 2)


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        if isinstance(arrays, tuple):
            raise TypeError("block: rows are lists, not tuples")
        return 0
    depths = {_depth(a) for a in arrays}
    if not depths:
        raise ShapeError("block: an empty list is no row")
    if len(depths) != 1:
        raise ShapeError("block: lists are nested to different depths")
    return 1 + depths.pop()


def block(arrays: Any) -> Array:
    """An array put together from blocks, as nested lists lay them out.

    Parameters
    ----------
    arrays : nested lists of arrays
        The innermost lists run along the last axis.

    Returns
    -------
    Array

    Raises
    ------
    ShapeError, TypeError
        Blocks that do not fit, empty lists, or lists nested to different depths; tuples.

    Examples
    --------
    >>> import weft as wf
    >>> wf.block([[wf.eye(1), wf.zeros((1, 2))], [wf.ones((1, 3))]]).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """
    depth = _depth(arrays)
    blocks = exact_operands(*(leaves(arrays) if isinstance(arrays, list) else (arrays,)))
    ndim = max([depth, *(len(n.shape) for n in blocks)])
    left = iter(blocks)

    def put(rows: Any, level: int) -> Array:
        if not isinstance(rows, list):
            found = wrap(next(left))
            return found.reshape((1,) * (ndim - found.ndim) + found.shape)
        return concat([put(r, level + 1) for r in rows], ndim - depth + level)

    return put(arrays, 0)


def _apart(function: str, x: Any, sections: Any, axis: int, least: int) -> list[Array]:
    (value,) = arrays(function, ary=x)
    if value.ndim < least:
        raise ShapeError(f"{function}: ary has shape {value.shape}; at least {least} dimensions are needed")
    return split(value, sections, axis=axis)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Parts beside each other: along axis 1, of vectors along their only one.

    Parameters
    ----------
    ary : array
    indices_or_sections : int or sequence of int
        As in :func:`split`.

    Returns
    -------
    list of Array

    Raises
    ------
    ShapeError
        No dimension, or one that cannot be divided evenly.

    Examples
    --------
    >>> import weft as wf
    >>> [p.tolist() for p in wf.hsplit(wf.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    (value,) = arrays("hsplit", ary=ary)
    return _apart("hsplit", value, indices_or_sections, 1 if value.ndim > 1 else 0, 1)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Parts below each other: along axis 0.

    Parameters
    ----------
    ary : array with two or more dimensions
    indices_or_sections : as in :func:`split`

    Returns
    -------
    list of Array

    Raises
    ------
    ShapeError
        Fewer dimensions, or one that cannot be divided evenly.

    Examples
    --------
    >>> import weft as wf
    >>> [p.tolist() for p in wf.vsplit(wf.arange(4).reshape(2, 2), 2)]
    [[[0, 1]], [[2, 3]]]
    """
    return _apart("vsplit", ary, indices_or_sections, 0, 2)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Parts behind each other: along axis 2.

    Parameters
    ----------
    ary : array with three or more dimensions
    indices_or_sections : as in :func:`split`

    Returns
    -------
    list of Array

    Raises
    ------
    ShapeError
        Fewer dimensions, or one that cannot be divided evenly.

    Examples
    --------
    >>> import weft as wf
    >>> [p.tolist() for p in wf.dsplit(wf.arange(2).reshape(1, 1, 2), 2)]
    [[[[0]]], [[[1]]]]
    """
    return _apart("dsplit", ary, indices_or_sections, 2, 3)


row_stack = alias(vstack, "row_stack")
row_stack.__module__ = __name__  # where pickle looks for it
