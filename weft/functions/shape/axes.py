"""Reshape, and the order and number of axes.

Results are views where NumPy's are: writing to ``wf.reshape(x, ...)`` writes to ``x``.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, like, own, wrap
from weft.array.convert import number_node
from weft.dtypes.formats import INT64
from weft.dtypes.parse import to_tuple
from weft.errors import AxisError, DTypeError, ShapeError
from weft.functions.support.arguments import (
    Axis,
    Node,
    arrays,
    axis_index,
    axis_tuple,
    node,
    number,
    op,
    permuted,
    reshaped,
    several,
    sliced,
    whole,
)
from weft.functions.support.try_numpy import by_numpy
from weft.runtime.traced_int import GIVEN, Given, computed


def _array(x: Any, function: str, argument: str = "a") -> Array:
    return x if isinstance(x, Array) else own(node(x, function, argument))


# ---- another shape


def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    """The same elements in another shape: a view where NumPy has one, else a copy (as of a transpose).

    Parameters
    ----------
    a : array
    shape : int or tuple of int
        One extent may be -1: what is left over.
    order : "C", "F" or "A"
        Read and written row by row, or ("F", and "A" of what lies so) column by column.
    copy : bool, optional
        True: always a copy; False: never.

    Returns
    -------
    Array of that shape

    Raises
    ------
    ShapeError, ValueError
        The numbers of elements differ; a copy is needed and ``copy`` is False.

    Examples
    --------
    >>> import weft as wf
    >>> wf.reshape(wf.arange(4), (2, -1)).tolist()
    [[0, 1], [2, 3]]
    """
    value = _array(a, "reshape")
    out = value.reshape(shape, order=order)
    if copy is False and isinstance(a, Array) and out.cell is not a.cell:
        raise ValueError(f"reshape: elements of shape {value.shape} cannot be seen in shape {out.shape} without a copy")
    return like(out, out.node) if copy else out


def ravel(a: Any, order: str = "C") -> Array:
    """All elements in one dimension: a view where they lie one after the other, else a copy, as in NumPy.

    Parameters
    ----------
    a : array_like
    order : "C", "F", "A" or "K"

    Returns
    -------
    (a.size,) Array

    Examples
    --------
    >>> import weft as wf
    >>> wf.ravel(wf.array([[1, 2], [3, 4]])).tolist()
    [1, 2, 3, 4]
    """
    value = _array(a, "ravel")
    turned = value._turned(order, "ravel", "CFAK") if order != "C" else None
    value = value if turned is None else turned
    return value.reshape((value.size,)) if value._in_order() else value.flatten()


def expand_dims(a: Any, axis: Any) -> Array:
    """New axes of extent 1, at these places of the result: a view.

    Parameters
    ----------
    a : array_like
    axis : int or tuple of int
        Where the new dimensions stand in the result.

    Returns
    -------
    Array with a dimension of length 1 more for each

    Raises
    ------
    AxisError, DTypeError
        An axis out of range; no integer.

    Examples
    --------
    >>> import weft as wf
    >>> wf.expand_dims(wf.ones(3), (0, -1)).shape
    (1, 3, 1)
    """
    value = _array(a, "expand_dims")
    if axis is None:
        raise DTypeError("expand_dims: axis must be an integer or a tuple of integers, not None")
    axis = to_tuple(axis)
    places = axis_tuple(axis, value.ndim + len(axis), "expand_dims")
    extents = iter(value.shape)
    return value.reshape(tuple(1 if a in places else next(extents) for a in range(value.ndim + len(places))))


def squeeze(a: Any, axis: Axis = None) -> Array:
    """Without axes of extent 1 (all of them, or those named): a view.

    Parameters
    ----------
    a : array_like
    axis : int or tuple of int, optional
        None: all of length 1.

    Returns
    -------
    Array without these dimensions

    Raises
    ------
    AxisError, ShapeError
        An axis out of range, or longer than 1.

    Examples
    --------
    >>> import weft as wf
    >>> wf.squeeze(wf.ones((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    value = _array(a, "squeeze")
    shape = value.shape
    if not shape and type(axis) is int and axis in (0, -1):
        return value
    axes = tuple(a for a, n in enumerate(shape) if n == 1) if axis is None else axis_tuple(axis, len(shape), "squeeze")
    wrong = [a for a in axes if shape[a] != 1]
    if wrong:
        raise ShapeError(f"squeeze: axis {wrong[0]} has extent {shape[wrong[0]]}, not 1 (shape {shape})")
    return value.reshape(tuple(n for a, n in enumerate(shape) if a not in axes))


# ---- axes in another order


def transpose(a: Any, axes: Sequence[int] | None = None) -> Array:
    """The axes in another order (reversed by default): a view.

    Parameters
    ----------
    a : array
    axes : sequence of int, optional
        Axis ``axes[i]`` of ``a`` becomes axis i.

    Returns
    -------
    Array, a view

    Raises
    ------
    AxisError
        ``axes`` is not a permutation.

    Examples
    --------
    >>> import weft as wf
    >>> wf.transpose(wf.ones((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    value = _array(a, "transpose")
    return value.transpose() if axes is None else value.transpose(tuple(several(axes, "transpose", "axes")))


def permute_dims(a: Any, axes: Sequence[int]) -> Array:
    """The axes in the order ``axes``: a view.

    Parameters
    ----------
    a, axes : as in :func:`transpose`

    Returns
    -------
    Array, a view

    Raises
    ------
    AxisError
        ``axes`` is not a permutation.

    Examples
    --------
    >>> import weft as wf
    >>> wf.permute_dims(wf.ones((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return transpose(a, several(axes, "permute_dims", "axes"))


def matrix_transpose(x: Any, /) -> Array:
    """The last two axes exchanged: a view.

    Parameters
    ----------
    x : (..., M, N)

    Returns
    -------
    (..., N, M), a view

    Raises
    ------
    AxisError
        ``x`` has fewer than two dimensions.

    Examples
    --------
    >>> import weft as wf
    >>> wf.matrix_transpose(wf.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    return _array(x, "matrix_transpose").mT


def swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    """Two axes exchanged: a view.

    Parameters
    ----------
    a : array_like
    axis1, axis2 : int

    Returns
    -------
    Array, a view

    Raises
    ------
    AxisError
        An axis out of range.

    Examples
    --------
    >>> import weft as wf
    >>> wf.swapaxes(wf.ones((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    value = _array(a, "swapaxes")
    a, b = axis_index(axis1, value.ndim, "swapaxes", "axis1"), axis_index(axis2, value.ndim, "swapaxes", "axis2")
    order = list(range(value.ndim))
    order[a], order[b] = b, a
    return value.transpose(tuple(order))


def moveaxis(a: Any, source: Axis, destination: Axis) -> Array:
    """Axes moved to new places, the others keeping their order: a view.

    Parameters
    ----------
    a : array_like
    source, destination : int or tuples of int of one length

    Returns
    -------
    Array, a view

    Raises
    ------
    AxisError
        An axis out of range, or not as many places as axes.

    Examples
    --------
    >>> import weft as wf
    >>> wf.moveaxis(wf.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    value = _array(a, "moveaxis")
    given = [to_tuple(a) for a in (source, destination)]
    for axes, name in zip(given, ("source", "destination"), strict=True):
        axis_tuple(axes, value.ndim, "moveaxis", name)
    if len(given[0]) != len(given[1]):
        raise AxisError(f"moveaxis: source={source} and destination={destination} name different numbers of axes")
    moved, places = ([axis_index(a, value.ndim) for a in axes] for axes in given)
    order = [a for a in range(value.ndim) if a not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return value.transpose(tuple(order))


def flip(m: Any, axis: Axis = None) -> Array:
    """The elements in reverse order along axes (all by default): a view.

    Parameters
    ----------
    m : array_like
    axis : int or tuple of int, optional

    Returns
    -------
    Array of the shape of ``m``

    Raises
    ------
    AxisError
        An axis out of range.

    Examples
    --------
    >>> import weft as wf
    >>> wf.flip(wf.array([[1, 2], [3, 4]]), axis=1).tolist()
    [[2, 1], [4, 3]]
    """
    value = _array(m, "flip", "m")
    axes = axis_tuple(axis, value.ndim, "flip")
    return value[tuple(slice(None, None, -1) if a in axes else slice(None) for a in range(value.ndim))]


def flipud(m: Any) -> Array:
    """The rows in reverse order: ``flip(m, 0)``.

    Parameters
    ----------
    m : array_like

    Returns
    -------
    Array of the shape of ``m``

    Raises
    ------
    AxisError
        ``m`` has no dimension.

    Examples
    --------
    >>> import weft as wf
    >>> wf.flipud(wf.array([1, 2])).tolist()
    [2, 1]
    """
    return flip(m, 0)


def fliplr(m: Any) -> Array:
    """The columns in reverse order: ``flip(m, 1)``.

    Parameters
    ----------
    m : array_like

    Returns
    -------
    Array of the shape of ``m``

    Raises
    ------
    AxisError
        ``m`` has fewer than two dimensions.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fliplr(wf.array([[1, 2]])).tolist()
    [[2, 1]]
    """
    return flip(m, 1)


def roll(a: Any, shift: Any, axis: Any = None) -> Array:
    """The elements moved round along axes; what leaves at the end enters at the beginning.

    Parameters
    ----------
    a : array
    shift : int or tuple of int
    axis : int or tuple of int, optional
        None: in the flattened array, by all shifts together.

    Returns
    -------
    Array of the shape and dtype of ``a``

    Raises
    ------
    ShapeError, AxisError
        Not as many shifts as axes; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.roll(wf.arange(4), 1).tolist()
    [3, 0, 1, 2]
    """
    if (found := by_numpy(np.roll, a, shift, axis=axis)) is not None:
        return found
    value = node(a, "roll", "a")
    shifts = to_tuple(shift)
    if axis is None:
        by = sum([_shift(n) for n in shifts])
        return wrap(reshaped(_rolled(reshaped(value, (value.size,)), by, 0), value.shape))
    axes = to_tuple(axis)
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    axes = axes * len(shifts) if len(axes) == 1 else axes
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: shift={shift!r} and axis={axis!r} have different lengths")
    for by, a in zip(shifts, axes, strict=True):
        value = _rolled(value, _shift(by), axis_index(a, len(value.shape), "roll"))
    return wrap(value)


def _shift(n: Any) -> Any:
    """A shift as an int, a run-time number of one that is such."""
    return computed(operator.index, n) if type(n) in GIVEN else whole(n, "roll", "shift")


def _rolled(value: Node, shift: Any, axis: int) -> Node:
    extent = value.shape[axis]
    cut: Any = (-shift) % extent if extent else 0
    if type(cut) is Given:
        place = op("add", op("iota", shape=(extent,), dtype=INT64, axis=0), number_node(cut, INT64))
        beyond = op("greater_equal", place, number(extent, INT64))
        place = op("where", beyond, op("subtract", place, number(extent, INT64)), place)
        found = op("gather", value, place, axes=(axis,))  # with the axis in front
        return permuted(found, (*range(1, axis + 1), 0, *range(axis + 1, len(value.shape))))
    if cut == 0:
        return value
    return op("concat", sliced(value, axis, cut, extent), sliced(value, axis, 0, cut), axis=axis)


# ---- broadcasting


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
