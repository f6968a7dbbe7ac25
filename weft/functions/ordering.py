"""Orders of other kinds: partitions, and rows ordered by several keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.errors import DTypeError, ShapeError, short
from weft.functions.common import arrays, axis_index, looked, node, op, reshaped, several
from weft.functions.indexing import take_along_axis
from weft.functions.sorting import argsort, sort


def _checked(function: str, a: Any, kth: Any, axis: int | None) -> tuple[Array, int]:
    """The array, flattened without an axis, and the axis; each ``kth`` must be one of its places."""
    value = node(a, function, "a")
    if axis is None or (not value.shape and axis in (0, -1)):
        value, axis = reshaped(value, (value.size,)), 0
    axis = axis_index(axis, len(value.shape), function)
    extent = value.shape[axis]
    known = looked(kth, function, "kth").reshape(-1)
    if known.dtype.kind not in "iu":
        raise DTypeError(f"{function}: kth must be integers, not {short(kth)}")
    bad = known[(known < -extent) | (known >= extent)]
    if bad.size and value.size:
        raise ValueError(f"{function}: kth={bad[0]} is out of bounds for axis {axis} with size {extent}")
    return wrap(value), axis


def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Array:
    """``a`` so ordered that the element at ``kth`` is where a sort would put it, smaller ones in front: here, sorted.

    Parameters
    ----------
    a : array
    kth : int or sequence of int
    axis : int, optional
        None: of the flattened array.
    kind, order
        Do nothing: all is sorted, and there are no fields.

    Returns
    -------
    Array of the shape and dtype of ``a``

    Raises
    ------
    ValueError, AxisError
        ``kth`` out of range; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.partition(wf.array([3, 1, 2]), 0).tolist()[0]
    1
    """
    return sort(*_checked("partition", a, kth, axis))


def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Array:
    """The indices that :func:`partition` orders by.

    Parameters
    ----------
    a, kth, axis, kind, order : as in :func:`partition`

    Returns
    -------
    Array of int64, of the shape of ``a``

    Raises
    ------
    ValueError, AxisError
        As :func:`partition`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.argpartition(wf.array([3, 1, 2]), 0).tolist()[0]
    1
    """
    return argsort(*_checked("argpartition", a, kth, axis))


def lexsort(keys: Any, axis: int = -1) -> Array:
    """The indices that sort by several keys: the last one first, the one before it where that is equal, and so on.

    Parameters
    ----------
    keys : (K, ...) array, or a sequence of K arrays of one shape
    axis : int
        Of a key.

    Returns
    -------
    Array of int64, of the shape of a key

    Raises
    ------
    ShapeError, AxisError
        No key, or keys of different shapes; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.lexsort(([2, 1, 0], [5, 4, 5])).tolist()
    [1, 2, 0]
    """
    rows = several(keys, "lexsort", "keys")
    if not rows:
        raise ShapeError("lexsort: there is no key")
    parts = [arrays("lexsort", **{f"keys[{k}]": row})[0] for k, row in enumerate(rows)]
    shape = parts[0].shape
    for k, p in enumerate(parts):
        if p.shape != shape:
            raise ShapeError(f"lexsort: keys[0] has shape {shape} and keys[{k}] {p.shape}: they must be equal")
    if not shape:
        return wrap(node(np.int64(0), "lexsort"))
    axis = axis_index(axis, len(shape), "lexsort")
    order = wrap(op("argsort", parts[0].node, axis=axis))
    for p in parts[1:]:
        order = take_along_axis(order, argsort(take_along_axis(p, order, axis), axis), axis)
    return order
