"""Indices of grids, triangles and diagonals, between flat and many dimensions; all known from shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.indexing import bounded
from weft.dtypes.formats import BOOL, INT64
from weft.dtypes.parse import layout, liked, spelled
from weft.errors import DTypeError, ShapeError, short
from weft.functions.support.arguments import (
    arrays,
    broadcast,
    cast,
    integer_node,
    looked,
    node,
    number,
    of_numpy,
    op,
    reshaped,
    several,
    shape_tuple,
    whole,
)
from weft.runtime.context import LOCAL


def indices(dimensions: Any, dtype: Any = None, sparse: bool = False) -> Any:
    """The coordinates of every place of a grid.

    Parameters
    ----------
    dimensions : int, or iterable of int
        The shape of the grid.
    dtype : dtype, optional
        int64 by default.
    sparse : bool
        A tuple of arrays that broadcast to the grid, instead of one.

    Returns
    -------
    (number of dimensions, *dimensions) Array, or a tuple of Arrays

    Raises
    ------
    ShapeError, DTypeError
        A negative extent; an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    shape = shape_tuple(dimensions, "indices", "dimensions")
    wanted = INT64 if dtype is None else spelled(dtype)
    lines = []
    for axis in range(len(shape)):
        thin = tuple(n if a == axis else 1 for a, n in enumerate(shape))
        lines.append(cast(op("iota", shape=thin, dtype=INT64, axis=axis), wanted))
    if sparse:
        return tuple(wrap(line) for line in lines)
    if not lines:
        return wrap(cast(node(np.zeros((0,)), "indices"), wanted))
    rows = [reshaped(broadcast(line, shape), (1, *shape)) for line in lines]
    return wrap(rows[0] if len(rows) == 1 else op("concat", *rows, axis=0))


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = None, like: Any = None, **kwargs: Any) -> Any:
    """What a function gives for the coordinates of a grid: it is called once, with arrays.

    Parameters
    ----------
    function : callable
        Takes as many arrays as there are dimensions.
    shape : tuple of int
    dtype : dtype, optional
        Of the coordinates; float32 by default.
    kwargs
        Handed to the function.
    like : as in :func:`zeros`

    Returns
    -------
    what the function gives

    Raises
    ------
    ShapeError, DTypeError
        As :func:`indices`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fromfunction(lambda i, j: i + j, (2, 2), dtype=int).tolist()
    [[0, 1], [1, 2]]
    """
    liked(like, "fromfunction")
    if not callable(function):
        raise DTypeError(f"fromfunction: function must be callable, not {type(function).__name__}")
    return function(*indices(shape, float if dtype is None else dtype), **kwargs)


def ix_(*args: Any) -> tuple[Array, ...]:
    """Index arrays for a block of an array: vectors along axes of their own; masks are looked at.

    Parameters
    ----------
    args : (N,) array
        Of integers, or of bools.

    Returns
    -------
    tuple of Array, which broadcast with each other

    Raises
    ------
    ShapeError, TraceError
        No vectors; a mask inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.arange(9).reshape(3, 3)[wf.ix_([0, 2], [1, 2])].tolist()
    [[1, 2], [7, 8]]
    """
    out = []
    for k, given in enumerate(args):
        value = node(given, "ix_", f"args[{k}]")
        if len(value.shape) != 1:
            raise ShapeError(f"ix_: args[{k}] has shape {value.shape}; a vector is needed")
        if value.dtype == BOOL:
            value = of_numpy(np.flatnonzero(wrap(value).numpy())).node
        elif not value.size:
            value = cast(value, INT64)
        out.append(wrap(reshaped(value, tuple(value.size if a == k else 1 for a in range(len(args))))))
    return tuple(out)


def _triangle(function: str, upper: bool, n: Any, k: int, m: Any) -> tuple[Array, Array]:
    rows, columns = shape_tuple((n, n if m is None else m), function, "n, m")
    k = max(-rows - 1, min(whole(k, function, "k"), columns + 1))  # all diagonals outside of the matrix choose alike
    mask = ~np.tri(rows, columns, k - 1, dtype=bool) if upper else np.tri(rows, columns, k, dtype=bool)
    first, second = np.nonzero(mask)
    return of_numpy(first), of_numpy(second)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Rows and columns of the places on and below a diagonal.

    Parameters
    ----------
    n : int
        How many rows.
    k : int
        The last diagonal that counts.
    m : int, optional
        How many columns; None: as many as rows.

    Returns
    -------
    two (K,) Arrays of int64

    Raises
    ------
    ShapeError
        A negative extent.

    Examples
    --------
    >>> import weft as wf
    >>> [i.tolist() for i in wf.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle("tril_indices", False, n, k, m)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Rows and columns of the places on and above a diagonal.

    Parameters
    ----------
    n, k, m : as in :func:`tril_indices`, ``k`` the first diagonal that counts

    Returns
    -------
    two (K,) Arrays of int64

    Raises
    ------
    ShapeError
        A negative extent.

    Examples
    --------
    >>> import weft as wf
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
    """:func:`tril_indices` for a matrix.

    Parameters
    ----------
    arr : (M, N) array
    k : int

    Returns
    -------
    two (K,) Arrays of int64

    Raises
    ------
    ShapeError
        No matrix.

    Examples
    --------
    >>> import weft as wf
    >>> [i.tolist() for i in wf.tril_indices_from(wf.ones((2, 2)))]
    [[0, 1, 1], [0, 0, 1]]
    """
    rows, columns = _extents("tril_indices_from", arr)
    return _triangle("tril_indices_from", False, rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """:func:`triu_indices` for a matrix.

    Parameters
    ----------
    arr : (M, N) array
    k : int

    Returns
    -------
    two (K,) Arrays of int64

    Raises
    ------
    ShapeError
        No matrix.

    Examples
    --------
    >>> import weft as wf
    >>> [i.tolist() for i in wf.triu_indices_from(wf.ones((2, 2)))]
    [[0, 0, 1], [0, 1, 1]]
    """
    rows, columns = _extents("triu_indices_from", arr)
    return _triangle("triu_indices_from", True, rows, k, columns)


def mask_indices(n: int, mask_func: Callable[..., Any], k: Any = 0) -> tuple[Array, Array]:
    """Rows and columns of the places that a function such as :func:`triu` leaves.

    Parameters
    ----------
    n : int
        Of the square matrix.
    mask_func : callable
        Called with a matrix of ones and ``k``.
    k : any

    Returns
    -------
    two (K,) Arrays of int64

    Raises
    ------
    ShapeError, DTypeError
        A negative extent; no function.

    Examples
    --------
    >>> import weft as wf
    >>> [i.tolist() for i in wf.mask_indices(2, wf.triu)]
    [[0, 0, 1], [0, 1, 1]]
    """
    (extent,) = shape_tuple(whole(n, "mask_indices", "n"), "mask_indices", "n")
    if not callable(mask_func):
        raise DTypeError(f"mask_indices: mask_func must be a function of an array and k, not {short(mask_func)}")
    ones = of_numpy(np.ones((extent, extent), np.int64))
    first, second = np.nonzero(looked(mask_func(ones, k), "mask_indices"))
    return of_numpy(first), of_numpy(second)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array of ``ndim`` dimensions of one extent.

    Parameters
    ----------
    n, ndim : int

    Returns
    -------
    tuple of (n,) Arrays of int64

    Raises
    ------
    ShapeError
        A negative extent.

    Examples
    --------
    >>> import weft as wf
    >>> [i.tolist() for i in wf.diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    line = op("iota", shape=shape_tuple(n, "diag_indices", "n"), dtype=INT64, axis=0)
    return (wrap(line),) * whole(ndim, "diag_indices", "ndim")


def diag_indices_from(arr: Any) -> tuple[Array, ...]:
    """:func:`diag_indices` for an array.

    Parameters
    ----------
    arr : array of two or more dimensions of one extent

    Returns
    -------
    tuple of (N,) Arrays of int64

    Raises
    ------
    ShapeError
        Fewer dimensions, or different extents.

    Examples
    --------
    >>> import weft as wf
    >>> [i.tolist() for i in wf.diag_indices_from(wf.ones((2, 2)))]
    [[0, 1], [0, 1]]
    """
    (value,) = arrays("diag_indices_from", arr=arr)
    if value.ndim < 2 or len(set(value.shape)) != 1:
        raise ShapeError(f"diag_indices_from: arr has shape {value.shape}; two or more dimensions of one extent are needed")
    return diag_indices(value.shape[0], value.ndim)


def _order(function: str, shape: Any, order: str) -> tuple[tuple[int, ...], list[int]]:
    """The extents, and how far apart neighbours along each are in the flattened array."""
    order = layout(order, function, "CF")
    extents = shape_tuple(shape, function)
    if math.prod(extents) > INT64.greatest:
        raise ValueError(f"{function}: an array of shape {extents} has more elements than int64 can count")
    steps = [math.prod(extents[k + 1 :] if order == "C" else extents[:k]) for k in range(len(extents))]
    return extents, steps


def _places(function: str, argument: str, given: Any, size: int, axis: int, mode: str) -> Any:
    """Indices from 0 to ``size - 1``; here negative ones do not count from the end."""
    index = integer_node(given, function, argument, bools=True)
    if mode != "raise":
        return wrap(cast(bounded(function, given, index, size, axis, mode), INT64))
    if isinstance(given, Array) and (index.value is None or LOCAL.trace is not None):  # its numbers are told when they are read
        return wrap(op("in_bounds", cast(index, INT64), extent=size, axis=axis, from_end=False))
    known = wrap(index).numpy()
    wrong = known[(known < 0) | (known >= size)]
    if wrong.size:
        raise ValueError(f"{function}: {argument} holds {wrong.flat[0]}, which is not from 0 to {size - 1}")
    return wrap(cast(index, INT64))


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Array, ...]:
    """Places in a flattened array as indices of its dimensions.

    Parameters
    ----------
    indices : array of integers
    shape : tuple of int
    order : "C" or "F"
        Which dimension runs fastest in the flattened array: the last, or the first.

    Returns
    -------
    tuple of Arrays of int64, one a dimension

    Raises
    ------
    ValueError, DTypeError, ShapeError, IndexError
        Another ``order``, or an index out of range; no integers; a negative extent; an index of a pending Array out of range,
        when it is read.

    Examples
    --------
    >>> import weft as wf
    >>> [int(i) for i in wf.unravel_index(5, (2, 3))]
    [1, 2]
    """
    extents, steps = _order("unravel_index", shape, order)
    flat = _places("unravel_index", "indices", indices, math.prod(extents), 0, "raise")
    return tuple(flat // step % extent for extent, step in zip(extents, steps, strict=True))


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Array:
    """Indices of dimensions as places in the flattened array.

    Parameters
    ----------
    multi_index : tuple of arrays of integers
        One a dimension.
    dims : tuple of int
    mode : "raise", "clip" or "wrap", or a tuple of these
        As in :func:`take`.
    order : "C" or "F"
        As in :func:`unravel_index`.

    Returns
    -------
    Array of int64

    Raises
    ------
    ValueError, DTypeError, ShapeError, IndexError
        Another ``mode`` or ``order``, or an index out of range; no integers; not as many as dimensions; an index of a pending
        Array out of range, when it is read.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ravel_multi_index(([0, 1], [2, 0]), (2, 3)).tolist()
    [2, 3]
    """
    extents, steps = _order("ravel_multi_index", dims, order)
    given = tuple(several(multi_index, "ravel_multi_index", "multi_index"))
    if len(given) != len(extents):
        raise ShapeError(f"ravel_multi_index: {len(given)} index arrays are given for {len(extents)} dimensions")
    modes = mode if isinstance(mode, tuple) else (mode,) * len(extents)
    total: Any = wrap(number(0, INT64))
    for k, (index, how) in enumerate(zip(given, modes, strict=True)):
        total = total + _places("ravel_multi_index", f"multi_index[{k}]", index, extents[k], k, how) * steps[k]
    return total
