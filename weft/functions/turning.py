"""Axes turned: quarter turns, and NumPy's older way of moving an axis."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.errors import AxisError, ShapeError
from weft.functions.common import arrays, axis_index, several, whole
from weft.functions.manipulation import flip, moveaxis, swapaxes


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Array:
    """Turned by quarters in the plane of two axes, from the first towards the second: a view.

    Parameters
    ----------
    m : array with two or more dimensions
    k : int
        How many quarters; below zero the other way.
    axes : (int, int)

    Returns
    -------
    Array

    Raises
    ------
    AxisError, ShapeError
        No such axes, or twice the same; not two.

    Examples
    --------
    >>> import weft as wf
    >>> wf.rot90(wf.array([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    (value,) = arrays("rot90", m=m)
    pair = several(axes, "rot90", "axes")
    if len(pair) != 2:
        raise ShapeError(f"rot90: axes={axes!r} must be two")
    first, second = (axis_index(a, value.ndim, "rot90", "axes") for a in pair)
    if first == second:
        raise AxisError(f"rot90: axes={axes!r} are the same axis")
    turns = whole(k, "rot90", "k") % 4
    if turns == 0:
        return value[...]
    if turns == 2:
        return flip(value, (first, second))
    return swapaxes(flip(value, second), first, second) if turns == 1 else flip(swapaxes(value, first, second), second)


def rollaxis(a: Any, axis: int, start: int = 0) -> Array:
    """An axis moved in front of another one: a view. :func:`moveaxis` is easier to read.

    Parameters
    ----------
    a : array
    axis : int
    start : int
        In front of which axis it is to stand.

    Returns
    -------
    Array, a view

    Raises
    ------
    AxisError
        No such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.rollaxis(wf.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    (value,) = arrays("rollaxis", a=a)
    place = axis_index(axis, value.ndim, "rollaxis")
    first = axis_index(start, value.ndim + 1, "rollaxis", "start") if start >= 0 else start + value.ndim
    return moveaxis(value, place, first - 1 if place < first else first)
