"""Indices of grids, triangles and diagonals, and conversion between flat and multi-dimensional indices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.indexing import check_bounds
from weft.dtypes.formats import BOOL, INT64
from weft.dtypes.parse import check_like, layout, parse_dtype
from weft.errors import DTypeError, ShapeError, short
from weft.functions.support import arguments
from weft.functions.support.arguments import arrays, broadcast, cast, node, number, op, reshaped
from weft.process.docstrings import complete_module
from weft.runtime.context import CONTEXT


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
    rows = [reshaped(broadcast(line, shape), (1, *shape)) for line in lines]
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
        out.append(wrap(reshaped(value, tuple(value.size if a == k else 1 for a in range(len(args))))))
    return tuple(out)


def _triangle(function: str, upper: bool, n: Any, k: int, m: Any) -> tuple[Array, Array]:
    rows, columns = arguments.shape_tuple((n, n if m is None else m), function, "n, m")
    k = max(-rows - 1, min(arguments.whole(k, function, "k"), columns + 1))  # all diagonals outside have the same effect
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
    return _triangle("tril_indices", False, n, k, m)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the rows and columns of the elements on and above a diagonal.

    Parameters
    ----------
    k : int
        The first diagonal that is included.

    >>> [i.tolist() for i in wf.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle("triu_indices", True, n, k, m)


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
    rows, columns = _extents("tril_indices_from", arr)
    return _triangle("tril_indices_from", False, rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """Return :func:`triu_indices` for a matrix.

    Parameters
    ----------
    arr : (M, N) array
    k : int
        The first diagonal that is included.

    Raises
    ------
    ShapeError
        ``arr`` is no matrix.

    >>> [i.tolist() for i in wf.triu_indices_from(wf.ones((2, 2)))]
    [[0, 0, 1], [0, 1, 1]]
    """
    rows, columns = _extents("triu_indices_from", arr)
    return _triangle("triu_indices_from", True, rows, k, columns)


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
    (extent,) = arguments.shape_tuple(arguments.whole(n, "mask_indices", "n"), "mask_indices", "n")
    if not callable(mask_func):
        raise DTypeError(f"mask_indices: mask_func must be a function of an array and k, not {short(mask_func)}")
    ones = arguments.from_numpy(np.ones((extent, extent), np.int64))
    first, second = np.nonzero(arguments.looked(mask_func(ones, k), "mask_indices"))
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
    return (wrap(line),) * arguments.whole(ndim, "diag_indices", "ndim")


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
    index_arrays = tuple(arguments.several(multi_index, "ravel_multi_index", "multi_index"))
    if len(index_arrays) != len(extents):
        raise ShapeError(f"ravel_multi_index: {len(index_arrays)} index arrays are given for {len(extents)} dimensions")
    modes = mode if isinstance(mode, tuple) else (mode,) * len(extents)
    total: Any = wrap(number(0, INT64))
    for k, (index, how) in enumerate(zip(index_arrays, modes, strict=True)):
        total = total + _check_places("ravel_multi_index", f"multi_index[{k}]", index, extents[k], k, how) * steps[k]
    return total


complete_module(
    globals(), (tril_indices, triu_indices, tril_indices_from, triu_indices_from, mask_indices), (diag_indices,
    diag_indices_from), (unravel_index, ravel_multi_index),
)
