"""Other shapes, other orders of axes, and broadcasting."""

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
from weft.functions.support import arguments
from weft.functions.support.arguments import Axis, Node, arrays, broadcast, node, number, op, reshaped, shape_tuple, sliced
from weft.functions.support.arguments import broadcast_shapes as _broadcast_shapes
from weft.process.docstrings import complete_module
from weft.runtime.traced_int import TRACED_TYPES, TracedInt, computed


def broadcast_shapes(*shapes: Any) -> arguments.Shape:
    """Return the shape that shapes broadcast to.

    Parameters
    ----------
    shapes : tuples of int

    Returns
    -------
    tuple of int

    Raises
    ------
    ShapeError
        The shapes do not broadcast.

    >>> wf.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return _broadcast_shapes("broadcast_shapes", *(shape_tuple(s, "broadcast_shapes") for s in shapes))


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Array:
    """Return ``array`` broadcast to a shape, without a copy.

    Parameters
    ----------
    array : array_like
    shape : int or tuple of int

    Returns
    -------
    Array of that shape

    Raises
    ------
    ShapeError
        The array does not broadcast to that shape.

    >>> wf.broadcast_to(wf.array([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    value, extents = node(array, "broadcast_to", "array"), shape_tuple(shape, "broadcast_to")
    if _broadcast_shapes("broadcast_to", value.shape, extents) != extents:
        raise ShapeError(f"broadcast_to: array has shape {value.shape}, which does not broadcast to {extents}")
    return own(broadcast(value, extents))


def broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Array, ...]:
    """Return arrays broadcast to their common shape.

    Parameters
    ----------
    arrays : array_like

    Returns
    -------
    tuple of Array
        With one shape, each with its own dtype.

    Raises
    ------
    ShapeError
        The shapes do not broadcast.

    >>> [x.shape for x in wf.broadcast_arrays(wf.ones((2, 1)), wf.ones(3))]
    [(2, 3), (2, 3)]
    """
    nodes = [node(x, "broadcast_arrays", f"arrays[{k}]") for k, x in enumerate(arrays)]
    shape = _broadcast_shapes("broadcast_arrays", *(n.shape for n in nodes))
    return tuple(own(broadcast(n, shape)) for n in nodes)


def _array(x: Any, function: str, argument: str = "a") -> Array:
    return x if isinstance(x, Array) else own(node(x, function, argument))


# ---- another shape


def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    """Return the same elements in another shape: a view if NumPy returns one, else a copy (as for a transposed array).

    Parameters
    ----------
    shape : int or tuple of int
        One extent may be -1; it is computed from the number of elements.
    order : "C", "F" or "A"
        Read and write elements in row-major ("C") or column-major ("F") order; "A" is "F" for arrays in column-major order.
    copy : bool, optional
        True: always copy. False: never copy.

    Returns
    -------
    Array of that shape

    Raises
    ------
    ShapeError, ValueError
        The numbers of elements differ; a copy is needed and ``copy`` is False.

    >>> wf.reshape(wf.arange(4), (2, -1)).tolist()
    [[0, 1], [2, 3]]
    """
    value = _array(a, "reshape")
    out = value.reshape(shape, order=order)
    if copy is False and isinstance(a, Array) and out.cell is not a.cell:
        raise ValueError(f"reshape: shape {value.shape} cannot be viewed as {out.shape} without a copy; leave out copy=False")
    return like(out, out.node) if copy else out


def ravel(a: Any, order: str = "C") -> Array:
    """Return all elements in one dimension: a view if they are contiguous, else a copy, as in NumPy.

    Parameters
    ----------
    order : "C", "F", "A" or "K"

    Returns
    -------
    (a.size,) Array

    >>> wf.ravel(wf.array([[1, 2], [3, 4]])).tolist()
    [1, 2, 3, 4]
    """
    value = _array(a, "ravel")
    reordered = value._turned(order, "ravel", "CFAK") if order != "C" else None
    value = value if reordered is None else reordered
    return value.reshape((value.size,)) if value._in_order() else value.flatten()


def expand_dims(a: Any, axis: Any) -> Array:
    """Return a view with new axes of extent 1.

    Parameters
    ----------
    axis : int or tuple of int
        The positions of the new axes in the result.

    Returns
    -------
    Array, a view

    Raises
    ------
    AxisError, DTypeError
        An axis is out of range; an axis is no integer.

    >>> wf.expand_dims(wf.ones(3), (0, -1)).shape
    (1, 3, 1)
    """
    value = _array(a, "expand_dims")
    if axis is None:
        raise DTypeError("expand_dims: axis must be an integer or a tuple of integers, not None")
    axis = to_tuple(axis)
    places = arguments.axis_tuple(axis, value.ndim + len(axis), "expand_dims")
    extents = iter(value.shape)
    return value.reshape(tuple(1 if a in places else next(extents) for a in range(value.ndim + len(places))))


def squeeze(a: Any, axis: Axis = None) -> Array:
    """Return a view without axes of extent 1.

    Parameters
    ----------
    axis : int or tuple of int, optional
        The axes to remove; by default all of extent 1.

    Raises
    ------
    AxisError, ShapeError
        An axis is out of range; its extent is not 1.

    >>> wf.squeeze(wf.ones((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    value = _array(a, "squeeze")
    shape = value.shape
    if not shape and type(axis) is int and axis in (0, -1):
        return value
    axes = tuple(a for a, n in enumerate(shape) if n == 1) if axis is None else arguments.axis_tuple(axis, len(shape), "squeeze")
    wrong = [a for a in axes if shape[a] != 1]
    if wrong:
        raise ShapeError(f"squeeze: axis {wrong[0]} has extent {shape[wrong[0]]}, not 1 (shape {shape})")
    return value.reshape(tuple(n for a, n in enumerate(shape) if a not in axes))


# ---- axes in another order


def transpose(a: Any, axes: Sequence[int] | None = None) -> Array:
    """Return a view with the axes in another order, reversed by default.

    Parameters
    ----------
    axes : sequence of int, optional
        Axis ``axes[i]`` of ``a`` becomes axis i.

    Returns
    -------
    Array, a view

    Raises
    ------
    AxisError
        An axis does not exist or is given twice, or ``axes`` is no permutation.

    >>> wf.transpose(wf.ones((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    value = _array(a, "transpose")
    return value.transpose() if axes is None else value.transpose(tuple(arguments.several(axes, "transpose", "axes")))


def permute_dims(a: Any, axes: Sequence[int]) -> Array:
    """Return a view with the axes in the order ``axes``.

    Parameters
    ----------
    axes : sequence of int
        Axis ``axes[i]`` of ``a`` becomes axis i.

    >>> wf.permute_dims(wf.ones((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return transpose(a, arguments.several(axes, "permute_dims", "axes"))


def matrix_transpose(x: Any, /) -> Array:
    """Return a view with the last two axes exchanged.

    Parameters
    ----------
    x : (..., M, N)

    Returns
    -------
    (..., N, M) Array, a view

    >>> wf.matrix_transpose(wf.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    return _array(x, "matrix_transpose").mT


def swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    """Return a view with two axes exchanged.

    Parameters
    ----------
    axis1, axis2 : int

    >>> wf.swapaxes(wf.ones((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    value = _array(a, "swapaxes")
    ndim = value.ndim
    a, b = arguments.axis_index(axis1, ndim, "swapaxes", "axis1"), arguments.axis_index(axis2, ndim, "swapaxes", "axis2")
    order = list(range(ndim))
    order[a], order[b] = b, a
    return value.transpose(tuple(order))


def moveaxis(a: Any, source: Axis, destination: Axis) -> Array:
    """Return a view with axes moved to other positions; the other axes keep their order.

    Parameters
    ----------
    source, destination : int or tuples of int of equal length

    Raises
    ------
    AxisError
        An axis is out of range; ``source`` and ``destination`` have different lengths.

    >>> wf.moveaxis(wf.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    value = _array(a, "moveaxis")
    axis_tuples = [to_tuple(a) for a in (source, destination)]
    for axes, name in zip(axis_tuples, ("source", "destination"), strict=True):
        arguments.axis_tuple(axes, value.ndim, "moveaxis", name)
    if len(axis_tuples[0]) != len(axis_tuples[1]):
        raise AxisError(f"moveaxis: source={source} and destination={destination} name different numbers of axes")
    sources, places = ([arguments.axis_index(a, value.ndim) for a in axes] for axes in axis_tuples)
    order = [a for a in range(value.ndim) if a not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return value.transpose(tuple(order))


def flip(m: Any, axis: Axis = None) -> Array:
    """Return a view with the elements in reverse order along axes.

    Parameters
    ----------
    axis : int or tuple of int, optional
        All axes by default.

    Returns
    -------
    Array of the shape of ``m``

    Raises
    ------
    AxisError
        The axis does not exist.

    >>> wf.flip(wf.array([[1, 2], [3, 4]]), axis=1).tolist()
    [[2, 1], [4, 3]]
    """
    value = _array(m, "flip", "m")
    axes = arguments.axis_tuple(axis, value.ndim, "flip")
    return value[tuple(slice(None, None, -1) if a in axes else slice(None) for a in range(value.ndim))]


def flipud(m: Any) -> Array:
    """Return a view with the rows in reverse order: ``flip(m, 0)``.

    >>> wf.flipud(wf.array([1, 2])).tolist()
    [2, 1]
    """
    return flip(m, 0)


def fliplr(m: Any) -> Array:
    """Return a view with the columns in reverse order: ``flip(m, 1)``.

    >>> wf.fliplr(wf.array([[1, 2]])).tolist()
    [[2, 1]]
    """
    return flip(m, 1)


def roll(a: Any, shift: Any, axis: Any = None) -> Array:
    """Return the elements shifted along axes; elements that leave at one end enter at the other.

    Parameters
    ----------
    shift : int or tuple of int
    axis : int or tuple of int, optional
        None: shift the flattened array by the sum of all shifts.

    Returns
    -------
    Array of the shape and dtype of ``a``

    Raises
    ------
    ShapeError, AxisError
        ``shift`` and ``axis`` have different lengths; the axis does not exist.

    >>> wf.roll(wf.arange(4), 1).tolist()
    [3, 0, 1, 2]
    """
    if (result := arguments.try_numpy(np.roll, a, shift, axis=axis)) is not None:
        return result
    value = node(a, "roll", "a")
    shifts = to_tuple(shift)
    if axis is None:
        by = sum([_to_shift(n) for n in shifts])
        return wrap(reshaped(_rolled(reshaped(value, (value.size,)), by, 0), value.shape))
    axes = to_tuple(axis)
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    axes = axes * len(shifts) if len(axes) == 1 else axes
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: shift={shift!r} and axis={axis!r} have different lengths")
    for by, a in zip(shifts, axes, strict=True):
        value = _rolled(value, _to_shift(by), arguments.axis_index(a, len(value.shape), "roll"))
    return wrap(value)


def _to_shift(n: Any) -> Any:
    """Return a shift as an int, or as a traced int."""
    return computed(operator.index, n) if type(n) in TRACED_TYPES else arguments.whole(n, "roll", "shift")


def _rolled(value: Node, shift: Any, axis: int) -> Node:
    extent = value.shape[axis]
    cut: Any = (-shift) % extent if extent else 0
    if type(cut) is TracedInt:
        place = op("add", op("iota", shape=(extent,), dtype=INT64, axis=0), number_node(cut, INT64))
        beyond = op("greater_equal", place, number(extent, INT64))
        place = op("where", beyond, op("subtract", place, number(extent, INT64)), place)
        return arguments.gathered(value, place, axis)
    if cut == 0:
        return value
    return op("concat", sliced(value, axis, cut, extent), sliced(value, axis, 0, cut), axis=axis)


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Array:
    """Return a view rotated by quarter turns in the plane of two axes, from the first towards the second.

    Parameters
    ----------
    m : array with two or more dimensions
    k : int
        The number of quarter turns; negative ones turn the other way.
    axes : (int, int)

    Returns
    -------
    Array, a view

    Raises
    ------
    AxisError, ShapeError
        An axis does not exist, or is given twice; ``axes`` are not two.

    >>> wf.rot90(wf.array([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    (value,) = arrays("rot90", m=m)
    pair = arguments.several(axes, "rot90", "axes")
    if len(pair) != 2:
        raise ShapeError(f"rot90: axes={axes!r} must be two axes")
    first, second = (arguments.axis_index(a, value.ndim, "rot90", "axes") for a in pair)
    if first == second:
        raise AxisError(f"rot90: axes={axes!r} are the same axis")
    turns = arguments.whole(k, "rot90", "k") % 4
    if turns == 0:
        return value[...]
    if turns == 2:
        return flip(value, (first, second))
    return swapaxes(flip(value, second), first, second) if turns == 1 else flip(swapaxes(value, first, second), second)


def rollaxis(a: Any, axis: int, start: int = 0) -> Array:
    """Return a view with one axis moved in front of another one. :func:`moveaxis` is easier to read.

    Parameters
    ----------
    axis : int
    start : int
        The axis in front of which ``axis`` is moved.

    >>> wf.rollaxis(wf.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    (value,) = arrays("rollaxis", a=a)
    place = arguments.axis_index(axis, value.ndim, "rollaxis")
    first = arguments.axis_index(start, value.ndim + 1, "rollaxis", "start") if start >= 0 else start + value.ndim
    return moveaxis(value, place, first - 1 if place < first else first)


complete_module(
    globals(), (broadcast_to, broadcast_arrays), (expand_dims, squeeze), (transpose, permute_dims, matrix_transpose, swapaxes,
    moveaxis, rollaxis), (flip, flipud, fliplr),
)
