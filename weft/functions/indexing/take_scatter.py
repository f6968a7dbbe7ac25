"""Read and write elements by integer indices, one-hot vectors, and indices of nonzero elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, ndarray, wrap
from weft.array.convert import numpy_node
from weft.array.indexing import check_bounds, check_pending_indices
from weft.array.operations import truth
from weft.dtypes.formats import DEFAULT, INT64
from weft.dtypes.parse import parse_dtype, to_tuple
from weft.errors import DTypeError, ShapeError
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, broadcast, cast, finish, node, op, reshaped, try_numpy
from weft.graph.primitives.meeting import ADD, scatter_add_mode
from weft.process.docstrings import complete_module


def take(a: Any, indices: Any, axis: int | None = None, out: Array | None = None, mode: str = "raise") -> Array:
    """Return the elements of ``a`` at indices along an axis.

    Parameters
    ----------
    indices : array of integers, of any shape
        Negative ones count from the end.
    axis : int, optional
        None: index the flattened array.
    mode : "raise", "clip" or "wrap"
        The treatment of indices out of range: raise IndexError when they are read, use the nearest end (negative ones become 0),
        or take the remainder.

    Returns
    -------
    Array
        The axis is replaced by the shape of ``indices``.

    Raises
    ------
    DTypeError, AxisError, ValueError
        The indices are no integers; the axis does not exist; another ``mode``.
    IndexError
        An index is out of range. Raised at once if ``indices`` is no Array, else when the result is computed.

    >>> wf.take(wf.array([[1, 2], [3, 4]]), [1, 0], axis=1).tolist()
    [[2, 1], [4, 3]]
    """
    if out is None and mode == "raise" and type(a) is type(indices) is ndarray:
        result = try_numpy(np.take, a, indices, most=indices.size * (1 if axis is None else a.size), axis=axis)
        if result is not None:
            return result
    value, index = node(a, "take", "a"), arguments.integer_node(indices, "take", bools=True)
    value, axis = arguments.flat_axis(value, axis, "take", numbers=True)
    index = check_bounds("take", indices, index, value.shape[axis], axis, mode)
    return finish(arguments.gathered(value, index, axis), out, "take")


def _full_indices(
    function: str, value: Node, indices: Any, axis: int | None, mode: str,
) -> tuple[Node, list[Node], tuple[int, ...]]:
    """Return the array (flat if ``axis`` is None), one index array per axis, and the shape of the result.

    The index array of ``axis`` is ``indices``; along every other axis each element keeps its own index.
    """
    index = arguments.integer_node(indices, function)
    if axis is None:
        if len(index.shape) != 1:
            raise ShapeError(f"{function}: indices have shape {index.shape}; with axis=None they need one dimension")
        value, axis = reshaped(value, (value.size,)), 0
    axis = arguments.axis_index(axis, len(value.shape), function)
    if len(index.shape) != len(value.shape):
        raise ShapeError(f"{function}: indices {index.shape} must have as many dimensions as arr {value.shape}")
    other_extents = (tuple(1 if a == axis else n for a, n in enumerate(x.shape)) for x in (value, index))
    shape = list(arguments.broadcast_shapes(function, *other_extents))
    shape[axis] = index.shape[axis]
    index = check_bounds(function, indices, index, value.shape[axis], axis, mode)
    places = []
    for a in range(len(shape)):
        if a == axis:
            places.append(broadcast(index, tuple(shape)))
            continue
        line = op("iota", shape=tuple(n if b == a else 1 for b, n in enumerate(value.shape)), dtype=INT64, axis=a)
        places.append(line)
    return value, places, tuple(shape)


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1, mode: str = "raise") -> Array:
    """Return, for each element of ``indices``, the element of ``arr`` at that index along the axis.

    Parameters
    ----------
    indices : array of integers
        With as many dimensions as ``arr``; the other ones broadcast.
    axis : int, optional
        None: index the flattened array; ``indices`` must have one dimension.
    mode : "raise", "clip" or "wrap"
        As in :func:`take`.

    Returns
    -------
    Array
        With the shape of ``indices``, broadcast with ``arr`` along the other axes.

    Raises
    ------
    DTypeError, ShapeError, AxisError, ValueError
        The indices are no integers; they have another number of dimensions; the axis does not exist; another ``mode``.
    IndexError
        An index is out of range, as in :func:`take`.

    >>> arr = wf.array([[3, 1, 2], [6, 5, 4]])
    >>> wf.take_along_axis(arr, wf.argsort(arr, axis=1), axis=1).tolist()
    [[1, 2, 3], [4, 5, 6]]
    """
    value, places, _ = _full_indices("take_along_axis", node(arr, "take_along_axis", "arr"), indices, axis, mode)
    return wrap(op("gather", value, *places, axes=tuple(range(len(value.shape)))))


def put_along_axis(arr: Array, indices: Any, values: Any, axis: int | None = -1, mode: str = "raise") -> None:
    """Write ``values`` into the elements of ``arr`` that :func:`take_along_axis` would read.

    Parameters
    ----------
    arr : Array
        Modified in place.
    indices : array of integers
        With as many dimensions as ``arr``; if an element occurs repeatedly, the last value counts.
    values : array or number
        Broadcasts to the shape of ``indices``.

    Raises
    ------
    DTypeError, ShapeError, AxisError, ValueError, IndexError
        As in :func:`take_along_axis`; ``arr`` is no weft Array.

    >>> arr = wf.zeros((2, 3))
    >>> wf.put_along_axis(arr, wf.array([[0], [2]]), 1.0, axis=1)
    >>> arr.tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if not isinstance(arr, Array):
        raise DTypeError(f"put_along_axis: arr must be a weft Array, not {type(arr).__name__}: it is written to")
    value, places, shape = _full_indices("put_along_axis", arr.node, indices, axis, mode)
    updates = broadcast(arguments.held(values, value.dtype, "put_along_axis", "values"), shape)
    check_pending_indices(places)
    result = op("scatter", value, updates, *places, axes=tuple(range(len(shape))), mode="set")
    arr[...] = wrap(reshaped(result, arr.shape))


def gather(x: Any, *indices: Any, axes: Any = None, mode: str = "raise") -> Array:
    """Return slices of ``x`` at integer indices, which broadcast with each other.

    Parameters
    ----------
    *indices : arrays of integers
        Negative ones count from the end.
    axes : tuple of int, optional
        The axes that are indexed; by default the first ones.
    mode : "raise", "clip" or "wrap"
        As in :func:`take`.

    Returns
    -------
    Array
        The shape of the indices, followed by the shape of ``x`` without ``axes``.

    Raises
    ------
    DTypeError, AxisError, ShapeError, ValueError
        The indices are no integers; an axis does not exist; shapes do not broadcast; another ``mode``.
    IndexError
        An index is out of range, as in :func:`take`.

    >>> wf.gather(wf.array([[1, 2], [3, 4]]), [1, 1, 0]).tolist()
    [[3, 4], [3, 4], [1, 2]]
    """
    value = node(x, "gather")
    places = [arguments.integer_node(i, "gather", f"indices[{k}]") for k, i in enumerate(indices)]
    where = _axes(value, places, axes, "gather")
    return wrap(op("gather", value, *_bounded("gather", value, indices, places, where, mode), axes=where))


def _bounded(
    function: str, value: Node, indices: Sequence[Any], places: list[Node], axes: tuple[int, ...], mode: str,
) -> list[Node]:
    """Return the indices checked or adjusted according to ``mode``."""
    if len(places) != len(axes):
        return places  # the primitive raises the error
    return [check_bounds(function, i, p, value.shape[a], a, mode) for i, p, a in zip(indices, places, axes, strict=True)]


def _axes(value: Node, places: list[Node], axes: Any, function: str) -> tuple[int, ...]:
    axis_numbers = tuple(range(len(places))) if axes is None else to_tuple(axes)
    return tuple(arguments.axis_index(a, len(value.shape), function, "axes") for a in axis_numbers)


def _scatter(function: str, how: str, x: Any, indices: Any, updates: Any, axes: Any, mode: str) -> Array:
    value = node(x, function)
    index_arrays = indices if isinstance(indices, tuple) else (indices,)
    places = [arguments.integer_node(i, function, f"indices[{k}]") for k, i in enumerate(index_arrays)]
    where = _axes(value, places, axes, function)
    lead = arguments.broadcast_shapes(function, *(p.shape for p in places))
    shape = lead + tuple(n for a, n in enumerate(value.shape) if a not in where)
    values = arguments.held(updates, value.dtype, function, "updates")
    if arguments.broadcast_shapes(function, values.shape, shape) != shape:
        raise ShapeError(f"{function}: updates have shape {values.shape}, but the indexed slices have shape {shape}")
    places = _bounded(function, value, index_arrays, places, where, mode)
    how = scatter_add_mode(value.dtype) if how == ADD else how
    return wrap(op("scatter", value, broadcast(values, shape), *places, axes=where, mode=how))


def scatter_add(x: Any, indices: Any, updates: Any, /, axes: Any = None, mode: str = "raise") -> Array:
    """Return a copy of ``x`` with ``updates`` added at the indices; repeated indices accumulate.

    Parameters
    ----------
    indices : array of integers, or a tuple of them
        One array per axis in ``axes``. Negative ones count from the end.
    updates : array
        Broadcasts to the shape of the indices followed by the shape of ``x`` without ``axes``.

    Returns
    -------
    Array of the shape and dtype of ``x``

    >>> wf.scatter_add(wf.zeros(3), [0, 2, 2], 1.0).tolist()
    [1.0, 0.0, 2.0]
    """
    return _scatter("scatter_add", ADD, x, indices, updates, axes, mode)


def scatter_set(x: Any, indices: Any, updates: Any, /, axes: Any = None, mode: str = "raise") -> Array:
    """Return a copy of ``x`` with ``updates`` written at the indices; of repeated indices the last one counts.

    Parameters
    ----------
    indices : array of integers, or a tuple of them
        One array per axis in ``axes``. Negative ones count from the end.
    updates : array
        Broadcasts to the shape of the indices followed by the shape of ``x`` without ``axes``.

    Returns
    -------
    Array of the shape and dtype of ``x``

    >>> wf.scatter_set(wf.zeros(3), [0, 2], 5.0).tolist()
    [5.0, 0.0, 5.0]
    """
    return _scatter("scatter_set", "set", x, indices, updates, axes, mode)


def one_hot(x: Any, num_classes: int, /, dtype: Any = None) -> Array:
    """Return 1 at the class and 0 elsewhere along a new last axis; a class out of range gives zeros.

    Parameters
    ----------
    x : array_like of integers
    num_classes : int
    dtype : dtype, optional
        float32 by default.

    Returns
    -------
    (*x.shape, num_classes) Array

    Raises
    ------
    DTypeError, ShapeError
        ``x`` holds no integers; ``num_classes`` is below 1.

    >>> wf.one_hot(wf.array([0, 2]), 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    labels = arguments.integer_node(x, "one_hot", "x")
    count = arguments.whole(num_classes, "one_hot", "num_classes")
    if count < 1:
        raise ShapeError(f"one_hot: num_classes={count} must be at least 1")
    classes = op("iota", shape=(1,) * len(labels.shape) + (count,), dtype=INT64, axis=len(labels.shape))
    hit = op("equal", reshaped(cast(labels, INT64), (*labels.shape, 1)), classes)
    return wrap(cast(hit, DEFAULT.real if dtype is None else parse_dtype(dtype)))


def nonzero(a: Any) -> tuple[Array, ...]:
    """Return the indices of the nonzero elements. Computes at once.

    Returns
    -------
    tuple of (K,) int64 Arrays, one per axis

    Raises
    ------
    TraceError, ShapeError
        Called inside a traced function, since the shape depends on values; ``a`` has no dimensions.

    >>> wf.nonzero(wf.array([0, 5, 7]))[0].tolist()
    [1, 2]
    """
    value = node(a, "nonzero", "a")
    if not value.shape:
        raise ShapeError("nonzero: a has no dimensions; reshape it to (1,) first")
    return tuple(wrap(numpy_node(i)) for i in np.nonzero(wrap(truth(value)).numpy()))


def argwhere(a: Any) -> Array:
    """Return the indices of the nonzero elements as the rows of a matrix. Computes at once.

    Returns
    -------
    (K, a.ndim) int64 Array

    Raises
    ------
    TraceError
        Called inside a traced function, since the shape depends on values.

    >>> wf.argwhere(wf.array([[0, 5], [7, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    return wrap(numpy_node(np.argwhere(wrap(truth(node(a, "argwhere", "a"))).numpy())))


def flatnonzero(a: Any) -> Array:
    """Return the indices of the nonzero elements of the flattened array. Computes at once.

    Returns
    -------
    (K,) int64 Array

    Raises
    ------
    TraceError
        Called inside a traced function, since the shape depends on values.

    >>> wf.flatnonzero(wf.array([[0, 5], [7, 0]])).tolist()
    [1, 2]
    """
    return wrap(numpy_node(np.flatnonzero(wrap(truth(node(a, "flatnonzero", "a"))).numpy())))


def extract(condition: Any, arr: Any) -> Array:
    """Return the elements of ``arr`` at which the condition holds, in one dimension. Computes at once.

    Parameters
    ----------
    condition : array_like
        With as many elements as ``arr``.

    Returns
    -------
    (K,) Array

    Raises
    ------
    TraceError
        Called inside a traced function, since the shape depends on values.

    >>> arr = wf.array([1, 5, 7])
    >>> wf.extract(arr > 2, arr).tolist()
    [5, 7]
    """
    mask = wrap(truth(node(condition, "extract", "condition"))).numpy()
    return take(arr, np.flatnonzero(mask))


complete_module(
    globals(), (take_along_axis, put_along_axis), (gather, scatter_add, scatter_set), (nonzero, argwhere, flatnonzero, extract),
)
