"""Elements at indices: taken, gathered, scattered; and arrays of indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.array import Array, ndarray, wrap
from weft.array.convert import numpy_node
from weft.array.indexing import check_bounds, check_pending_indices
from weft.array.operations import is_nonzero
from weft.dtypes.formats import BOOL, DEFAULT, INT64
from weft.dtypes.parse import check_like, layout, parse_dtype, to_tuple
from weft.errors import DTypeError, ShapeError, short
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, arrays, broadcast, cast, node, number, op, reshape_node, try_numpy, wrap_result
from weft.graph.primitives.settings import ADD, scatter_add_mode
from weft.process.docstrings import complete_module
from weft.runtime.context import CONTEXT


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
    return wrap_result(arguments.take_slices(value, index, axis), out, "take")


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
        value, axis = reshape_node(value, (value.size,)), 0
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
    updates = broadcast(arguments.convert_for_write(values, value.dtype, "put_along_axis", "values"), shape)
    check_pending_indices(places)
    result = op("scatter", value, updates, *places, axes=tuple(range(len(shape))), mode="set")
    arr[...] = wrap(reshape_node(result, arr.shape))


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
    return wrap(op("gather", value, *_bound_indices("gather", value, indices, places, where, mode), axes=where))


def _bound_indices(
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
    values = arguments.convert_for_write(updates, value.dtype, function, "updates")
    if arguments.broadcast_shapes(function, values.shape, shape) != shape:
        raise ShapeError(f"{function}: updates have shape {values.shape}, but the indexed slices have shape {shape}")
    places = _bound_indices(function, value, index_arrays, places, where, mode)
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
    count = arguments.check_int(num_classes, "one_hot", "num_classes")
    if count < 1:
        raise ShapeError(f"one_hot: num_classes={count} must be at least 1")
    classes = op("iota", shape=(1,) * len(labels.shape) + (count,), dtype=INT64, axis=len(labels.shape))
    hit = op("equal", reshape_node(cast(labels, INT64), (*labels.shape, 1)), classes)
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
    return tuple(wrap(numpy_node(i)) for i in np.nonzero(wrap(is_nonzero(value)).numpy()))


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
    return wrap(numpy_node(np.argwhere(wrap(is_nonzero(node(a, "argwhere", "a"))).numpy())))


def flatnonzero(a: Any) -> Array:
    """Return the indices of the nonzero elements of the flattened array. Computes at once.

    Returns
    -------
    (K,) int64 Array

    >>> wf.flatnonzero(wf.array([[0, 5], [7, 0]])).tolist()
    [1, 2]
    """
    return wrap(numpy_node(np.flatnonzero(wrap(is_nonzero(node(a, "flatnonzero", "a"))).numpy())))


def extract(condition: Any, arr: Any) -> Array:
    """Return the elements of ``arr`` at which the condition holds, in one dimension. Computes at once.

    Parameters
    ----------
    condition : array_like
        With as many elements as ``arr``.

    Returns
    -------
    (K,) Array

    >>> arr = wf.array([1, 5, 7])
    >>> wf.extract(arr > 2, arr).tolist()
    [5, 7]
    """
    mask = wrap(is_nonzero(node(condition, "extract", "condition"))).numpy()
    return take(arr, np.flatnonzero(mask))


def indices(dimensions: Any, dtype: Any = None, sparse: bool = False) -> Any:
    """Return the coordinates of every element of a grid.

    Parameters
    ----------
    dimensions : int, or iterable of int
        The shape of the grid.
    dtype : dtype, optional
        int64 by default.
    sparse : bool
        Return a tuple of arrays that broadcast to the grid instead of one array.

    Returns
    -------
    (number of dimensions, *dimensions) Array, or a tuple of Arrays

    Raises
    ------
    ShapeError, DTypeError
        An extent is negative; the dtype is unknown.

    >>> wf.indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    shape = arguments.shape_tuple(dimensions, "indices", "dimensions")
    form = INT64 if dtype is None else parse_dtype(dtype)
    lines = []
    for axis in range(len(shape)):
        thin = tuple(n if a == axis else 1 for a, n in enumerate(shape))
        lines.append(cast(op("iota", shape=thin, dtype=INT64, axis=axis), form))
    if sparse:
        return tuple(wrap(line) for line in lines)
    if not lines:
        return wrap(cast(node(np.zeros((0,)), "indices"), form))
    rows = [reshape_node(broadcast(line, shape), (1, *shape)) for line in lines]
    return wrap(rows[0] if len(rows) == 1 else op("concat", *rows, axis=0))


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = None, like: Any = None, **kwargs: Any) -> Any:
    """Call a function once with the coordinates of a grid, as arrays, and return its result.

    Parameters
    ----------
    function : callable
        Takes one array per dimension.
    shape : tuple of int
    dtype : dtype, optional
        The dtype of the coordinates; float32 by default.
    kwargs
        Passed to the function.
    like : array, optional
        Ignored: the coordinates are always Arrays.

    Returns
    -------
    the result of ``function``

    Raises
    ------
    ShapeError, DTypeError
        An extent is negative; the dtype is unknown, or ``function`` is not callable.

    >>> wf.fromfunction(lambda i, j: i + j, (2, 2), dtype=int).tolist()
    [[0, 1], [1, 2]]
    """
    check_like(like, "fromfunction")
    if not callable(function):
        raise DTypeError(f"fromfunction: function must be callable, not {type(function).__name__}")
    return function(*indices(shape, float if dtype is None else dtype), **kwargs)


def ix_(*args: Any) -> tuple[Array, ...]:
    """Return index arrays for a block of an array: each vector along an axis of its own. Masks are computed at once.

    Parameters
    ----------
    args : (N,) array
        Of integers or bools.

    Returns
    -------
    tuple of Array
        They broadcast with each other.

    Raises
    ------
    ShapeError, TraceError
        An argument is no vector; a mask is given inside a traced function.

    >>> wf.arange(9).reshape(3, 3)[wf.ix_([0, 2], [1, 2])].tolist()
    [[1, 2], [7, 8]]
    """
    out = []
    for k, argument in enumerate(args):
        value = node(argument, "ix_", f"args[{k}]")
        if len(value.shape) != 1:
            raise ShapeError(f"ix_: args[{k}] has shape {value.shape}; a vector is needed")
        if value.dtype == BOOL:
            value = arguments.from_numpy(np.flatnonzero(wrap(value).numpy())).node
        elif not value.size:
            value = cast(value, INT64)
        out.append(wrap(reshape_node(value, tuple(value.size if a == k else 1 for a in range(len(args))))))
    return tuple(out)


def _triangle(function: str, upper: bool, n: Any, m: Any, k: int) -> tuple[Array, Array]:
    rows, columns = arguments.shape_tuple((n, m), function, "n, m")
    k = max(-rows - 1, min(arguments.check_int(k, function, "k"), columns + 1))  # all diagonals outside have the same effect
    mask = ~np.tri(rows, columns, k - 1, dtype=bool) if upper else np.tri(rows, columns, k, dtype=bool)
    first, second = np.nonzero(mask)
    return arguments.from_numpy(first), arguments.from_numpy(second)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the rows and columns of the elements on and below a diagonal.

    Parameters
    ----------
    n : int
        The number of rows.
    k : int
        The last diagonal that is included.
    m : int, optional
        The number of columns; by default ``n``.

    Returns
    -------
    two (K,) Arrays of int64

    Raises
    ------
    ShapeError
        An extent is negative.

    >>> [i.tolist() for i in wf.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle("tril_indices", False, n, n if m is None else m, k)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the rows and columns of the elements on and above a diagonal.

    Parameters
    ----------
    k : int
        The first diagonal that is included.

    >>> [i.tolist() for i in wf.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle("triu_indices", True, n, n if m is None else m, k)


def _extents(function: str, arr: Any) -> tuple[int, int]:
    (value,) = arrays(function, arr=arr)
    if value.ndim != 2:
        raise ShapeError(f"{function}: arr has shape {value.shape}; a matrix is needed")
    rows, columns = value.shape
    return rows, columns


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """Return :func:`tril_indices` for a matrix.

    Parameters
    ----------
    arr : (M, N) array

    Raises
    ------
    ShapeError
        ``arr`` is no matrix.

    >>> [i.tolist() for i in wf.tril_indices_from(wf.ones((2, 2)))]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle("tril_indices_from", False, *_extents("tril_indices_from", arr), k)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """Return :func:`triu_indices` for a matrix.

    Parameters
    ----------
    k : int
        The first diagonal that is included.

    >>> [i.tolist() for i in wf.triu_indices_from(wf.ones((2, 2)))]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle("triu_indices_from", True, *_extents("triu_indices_from", arr), k)


def mask_indices(n: int, mask_func: Callable[..., Any], k: Any = 0) -> tuple[Array, Array]:
    """Return the rows and columns of the elements that a function such as :func:`triu` does not set to zero.

    Parameters
    ----------
    n : int
        The extent of the square matrix.
    mask_func : callable
        Called with a matrix of ones and ``k``.
    k : any

    Raises
    ------
    ShapeError, DTypeError
        The extent is negative; ``mask_func`` is not callable.

    >>> [i.tolist() for i in wf.mask_indices(2, wf.triu)]
    [[0, 0, 1], [0, 1, 1]]
    """
    (extent,) = arguments.shape_tuple(arguments.check_int(n, "mask_indices", "n"), "mask_indices", "n")
    if not callable(mask_func):
        raise DTypeError(f"mask_indices: mask_func must be a function of an array and k, not {short(mask_func)}")
    ones = arguments.from_numpy(np.ones((extent, extent), np.int64))
    first, second = np.nonzero(arguments.read_now(mask_func(ones, k), "mask_indices"))
    return arguments.from_numpy(first), arguments.from_numpy(second)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array whose ``ndim`` dimensions all have extent ``n``.

    Parameters
    ----------
    n, ndim : int

    Returns
    -------
    tuple of (n,) Arrays of int64

    Raises
    ------
    ShapeError
        An extent is negative.

    >>> [i.tolist() for i in wf.diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    line = op("iota", shape=arguments.shape_tuple(n, "diag_indices", "n"), dtype=INT64, axis=0)
    return (wrap(line),) * arguments.check_int(ndim, "diag_indices", "ndim")


def diag_indices_from(arr: Any) -> tuple[Array, ...]:
    """Return :func:`diag_indices` for an array.

    Parameters
    ----------
    arr : array of two or more dimensions of equal extent

    Raises
    ------
    ShapeError
        ``arr`` has fewer dimensions, or different extents.

    >>> [i.tolist() for i in wf.diag_indices_from(wf.ones((2, 2)))]
    [[0, 1], [0, 1]]
    """
    (value,) = arrays("diag_indices_from", arr=arr)
    if value.ndim < 2 or len(set(value.shape)) != 1:
        raise ShapeError(f"diag_indices_from: arr has shape {value.shape}; two or more dimensions of one extent are needed")
    return diag_indices(value.shape[0], value.ndim)


def _extents_and_strides(function: str, shape: Any, order: str) -> tuple[tuple[int, ...], list[int]]:
    """Return the extents, and the distance between neighbours along each axis in the flattened array."""
    order = layout(order, function, "CF")
    extents = arguments.shape_tuple(shape, function)
    if math.prod(extents) > INT64.greatest:
        raise ValueError(f"{function}: an array of shape {extents} has more elements than int64 can count")
    steps = [math.prod(extents[k + 1 :] if order == "C" else extents[:k]) for k in range(len(extents))]
    return extents, steps


def _check_places(function: str, argument: str, indices: Any, size: int, axis: int, mode: str) -> Any:
    """Return indices checked to lie between 0 and ``size - 1``; negative ones do not count from the end."""
    index = arguments.integer_node(indices, function, argument, bools=True)
    if mode != "raise":
        return wrap(cast(check_bounds(function, indices, index, size, axis, mode), INT64))
    if isinstance(indices, Array) and (index.value is None or CONTEXT.trace is not None):  # checked when the result is computed
        return wrap(op("in_bounds", cast(index, INT64), extent=size, axis=axis, from_end=False))
    content = wrap(index).numpy()
    wrong = content[(content < 0) | (content >= size)]
    if wrong.size:
        raise ValueError(f"{function}: {argument} holds {wrong.flat[0]}, which is not from 0 to {size - 1}")
    return wrap(cast(index, INT64))


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Array, ...]:
    """Convert indices of the flattened array into indices along each dimension.

    Parameters
    ----------
    indices : array of integers
    shape : tuple of int
    order : "C" or "F"
        Whether the last ("C") or the first ("F") dimension runs fastest in the flattened array.

    Returns
    -------
    tuple of Arrays of int64, one per dimension

    Raises
    ------
    ValueError, DTypeError, ShapeError
        An index is out of range, or another ``order``; the indices are no integers; an extent is negative.
    IndexError
        An index of a pending Array is out of range; raised when the result is computed.

    >>> [int(i) for i in wf.unravel_index(5, (2, 3))]
    [1, 2]
    """
    extents, steps = _extents_and_strides("unravel_index", shape, order)
    flat = _check_places("unravel_index", "indices", indices, math.prod(extents), 0, "raise")
    return tuple(flat // step % extent for extent, step in zip(extents, steps, strict=True))


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Array:
    """Convert indices along each dimension into indices of the flattened array.

    Parameters
    ----------
    multi_index : tuple of arrays of integers
        One per dimension.
    dims : tuple of int
    mode : "raise", "clip" or "wrap", or a tuple of these
        As in :func:`take`.

    Returns
    -------
    Array of int64

    >>> wf.ravel_multi_index(([0, 1], [2, 0]), (2, 3)).tolist()
    [2, 3]
    """
    extents, steps = _extents_and_strides("ravel_multi_index", dims, order)
    index_arrays = tuple(arguments.as_list(multi_index, "ravel_multi_index", "multi_index"))
    if len(index_arrays) != len(extents):
        raise ShapeError(f"ravel_multi_index: {len(index_arrays)} index arrays are given for {len(extents)} dimensions")
    modes = mode if isinstance(mode, tuple) else (mode,) * len(extents)
    total: Any = wrap(number(0, INT64))
    for k, (index, how) in enumerate(zip(index_arrays, modes, strict=True)):
        total = total + _check_places("ravel_multi_index", f"multi_index[{k}]", index, extents[k], k, how) * steps[k]
    return total


complete_module(
    globals(), (take_along_axis, put_along_axis), (gather, scatter_add), (scatter_add, scatter_set), (nonzero, argwhere),
    (argwhere, flatnonzero, extract), (tril_indices, triu_indices, tril_indices_from, mask_indices), (tril_indices_from,
    triu_indices_from), (diag_indices, diag_indices_from),
    (unravel_index, ravel_multi_index),
)
