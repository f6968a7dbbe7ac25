"""Elements put in, left out and exchanged: new arrays from append to resize, and writes into arrays that are there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import array_operands, common, numpy_node
from weft.array.indexing import bounded, fitted, refuse_at_once
from weft.dtypes.formats import BOOL, INT64, Format, holds, promote, same_kind, weak
from weft.errors import DTypeError, ShapeError
from weft.functions.indexing.where import where
from weft.functions.shape.join_split import concat
from weft.functions.support.arguments import (
    Node,
    arrays,
    axis_index,
    axis_tuple,
    broadcast,
    broadcast_shapes,
    cast,
    held,
    integer_node,
    looked,
    may_cast,
    node,
    op,
    permuted,
    reshaped,
    shape_tuple,
)


def append(arr: Any, values: Any, axis: int | None = None) -> Array:
    """``arr`` with ``values`` behind it.

    Parameters
    ----------
    arr, values : array
    axis : int, optional
        None: both are flattened.

    Returns
    -------
    Array

    Raises
    ------
    ShapeError, AxisError
        Extents differ; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.append(wf.array([1, 2]), [3, 4]).tolist()
    [1, 2, 3, 4]
    """
    return concat(array_operands(arr, values), axis)


def _positions(function: str, obj: Any, axis: int, extent: int, last: int) -> np.ndarray:
    """Return the positions that an index along one axis names, which must be known; ``last`` is the largest that is allowed."""
    if isinstance(obj, slice):
        return np.arange(extent)[obj]
    found = node(obj, function, "obj")
    if found.dtype == BOOL and len(found.shape) == 1:
        if found.shape[0] != extent:
            raise ShapeError(f"{function}: the mask obj has shape {found.shape}, the axis has {extent} elements")
        return np.flatnonzero(wrap(found).numpy())
    places = wrap(integer_node(found, function, "obj")).numpy()
    bad = places[(places < -extent) | (places > last)]
    if bad.size:
        raise IndexError(f"{function}: index {bad.flat[0]} is out of bounds for axis {axis} with size {extent}")
    return np.asarray(places, np.int64)


def _taken(value: Node, places: np.ndarray, axis: int) -> Array:
    got = op("gather", value, numpy_node(places), axes=(axis,))
    return wrap(permuted(got, (*range(1, axis + 1), 0, *range(axis + 1, len(got.shape)))))


def delete(arr: Any, obj: Any, axis: int | None = None) -> Array:
    """``arr`` without some slices along an axis.

    Parameters
    ----------
    arr : array
    obj : int, slice, or array of integers or bools
        Which ones; it is looked at, since the shape depends on it.
    axis : int, optional
        None: of the flattened array.

    Returns
    -------
    Array

    Raises
    ------
    IndexError, AxisError, ShapeError, DTypeError, TraceError
        A position out of range; no such axis; a mask of another length; no integers; ``obj`` is not known inside a traced
        function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.delete(wf.array([1, 2, 3]), 1).tolist()
    [1, 3]
    """
    value = node(arr, "delete", "arr")
    if axis is None:
        value, axis = reshaped(value, (value.size,)), 0
    axis = axis_index(axis, len(value.shape), "delete")
    extent = value.shape[axis]
    gone = _positions("delete", obj, axis, extent, extent - 1)
    return _taken(value, np.delete(np.arange(extent), gone), axis)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Array:
    """``arr`` with ``values`` in front of some positions.

    Parameters
    ----------
    arr : array
    obj : int, slice, or array of integers or bools
        In front of which positions of ``arr``; looked at, since the shape depends on it.
    values : array
        In the dtype of ``arr``.
    axis : int, optional
        None: of the flattened array.

    Returns
    -------
    Array

    Raises
    ------
    IndexError, AxisError, ShapeError, DTypeError, TraceError
        A position out of range; no such axis; values that do not fit; no integers; ``obj`` is not known inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.insert(wf.array([1, 2, 3]), 1, 9).tolist()
    [1, 9, 2, 3]
    """
    value = node(arr, "insert", "arr")
    if axis is None:
        value, axis = reshaped(value, (value.size,)), 0
    axis = axis_index(axis, len(value.shape), "insert")
    extent, shape = value.shape[axis], value.shape
    at = _positions("insert", obj, axis, extent, extent)
    if at.ndim > 1:
        raise ShapeError(f"insert: obj has shape {at.shape}; a number or one dimension is needed")
    given, count = held(values, value.dtype, "insert", "values"), at.size
    if count == 1:  # as many are inserted as there are values along the axis
        given = reshaped(given, (1,) * (len(shape) - len(given.shape)) + given.shape)
        if not at.ndim:  # NumPy takes the first axis of values for the one along which a number of a place inserts
            given = permuted(given, (*range(1, axis + 1), 0, *range(axis + 1, len(given.shape))))
        count = given.shape[axis]
        at = np.full(count, at.item())
    wide = (*shape[:axis], count, *shape[axis + 1 :])
    try:
        given = fitted(given, wide)
    except ShapeError:
        raise ShapeError(f"insert: values have shape {given.shape}, but the inserted slices have shape {wide}") from None
    order = np.insert(np.arange(extent), at, np.arange(extent, extent + count))
    return _taken(op("concat", value, given, axis=axis), order, axis)


def resize(a: Any, new_shape: Any) -> Array:
    """The elements in another shape, repeated where they are too few.

    Parameters
    ----------
    a : array
    new_shape : int or tuple of int

    Returns
    -------
    Array of that shape

    Raises
    ------
    ShapeError
        A negative extent.

    Examples
    --------
    >>> import weft as wf
    >>> wf.resize(wf.array([1, 2]), (2, 3)).tolist()
    [[1, 2, 1], [2, 1, 2]]
    """
    value, shape = node(a, "resize", "a"), shape_tuple(new_shape, "resize", "new_shape")
    count = math.prod(shape)
    line = reshaped(value, (value.size,))
    if not value.size:
        return wrap(broadcast(cast(node(0, "resize"), value.dtype), shape))
    times = -(-count // value.size)
    long_ = reshaped(broadcast(reshaped(line, (1, value.size)), (times, value.size)), (times * value.size,))
    return wrap(reshaped(op("slice", long_, start=(0,), step=(1,), shape=(count,)), shape))


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Array:
    """Without the zeros in front and behind; computes at once.

    Parameters
    ----------
    filt : array
    trim : "f", "b" or "fb"
        In front, behind, or both.
    axis : int or tuple of int, optional
        None: along all axes.

    Returns
    -------
    Array

    Raises
    ------
    ValueError, TraceError
        Another ``trim``; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.trim_zeros(wf.array([0, 1, 2, 0])).tolist()
    [1, 2]
    """
    if not isinstance(trim, str) or trim.lower() not in ("f", "b", "fb", "bf"):
        raise ValueError(f"trim_zeros: trim={trim!r} must be 'f', 'b' or 'fb'")
    (value,) = arrays("trim_zeros", filt=filt)
    known = looked(value, "trim_zeros", "filt")
    axes = range(known.ndim) if axis is None else axis_tuple(axis, known.ndim, "trim_zeros")
    index: list[Any] = [slice(None)] * known.ndim
    places = np.nonzero(known) if known.ndim else ()
    for a in axes:
        low, high = (int(places[a].min()), int(places[a].max()) + 1) if places[a].size else (0, 0)
        index[a] = slice(low if "f" in trim.lower() else 0, high if "b" in trim.lower() or not high else None)
    return value[tuple(index)]


# ---- written in place

def _target(function: str, x: Any, argument: str) -> Array:
    if not isinstance(x, Array):
        raise DTypeError(f"{function}: {argument} must be a weft Array, not {type(x).__name__}: it is written to")
    return x


def fill_diagonal(a: Array, val: Any, wrap: bool = False) -> None:
    """Write into the main diagonal.

    Parameters
    ----------
    a : Array with two or more dimensions
        Written to; more than two need one extent.
    val : number or array
        Repeated along the diagonal.
    wrap : bool
        Of a matrix with more rows than columns: begin anew below each square.

    Raises
    ------
    DTypeError, ShapeError
        ``a`` is no weft Array, or has no diagonal.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.zeros((2, 2))
    >>> wf.fill_diagonal(x, 5)
    >>> x.tolist()
    [[5.0, 0.0], [0.0, 5.0]]
    """
    shape = _target("fill_diagonal", a, "a").shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) != 1):
        raise ShapeError(f"fill_diagonal: a has shape {shape}; a matrix, or dimensions of one extent are needed")
    step = shape[1] + 1 if len(shape) == 2 else 1 + int(np.cumprod(shape[:-1]).sum())
    stop = None if len(shape) > 2 or wrap else shape[1] * shape[1]
    places = np.arange(math.prod(shape))[:stop:step]
    given = held(val, a.node.dtype, "fill_diagonal", "val")
    if 0 in given.shape:
        return  # nothing is written
    line = resize(_of(given), places.size) if given.shape else _of(given)
    index = np.unravel_index(places, shape)
    if places.size:
        a[index] = line


def _of(found: Node) -> Array:
    return wrap(found)


def copyto(dst: Array, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write ``src`` into ``dst``.

    Parameters
    ----------
    dst : Array
        Written to.
    src : array or number
        Broadcasts to ``dst``.
    casting : "no", "equiv", "safe", "same_kind" or "unsafe"
        Which dtypes of ``src`` pass.
    where : bool or array of bools
        Where to write.

    Raises
    ------
    DTypeError, ShapeError, ValueError
        ``dst`` is no weft Array, or a dtype that does not pass; ``src`` does not broadcast; another ``casting``.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.zeros(3)
    >>> wf.copyto(x, [1.0, 2.0, 3.0], where=[True, False, True])
    >>> x.tolist()
    [1.0, 0.0, 3.0]
    """
    have = _target("copyto", dst, "dst").node.dtype
    given = _dtype(node(src, "copyto", "src") if src is None else src, have)
    if not may_cast(given, have, casting, "copyto"):
        what = repr(src) if type(src) in (int, float, complex) else given.name
        raise DTypeError(f"copyto: src is {what}, dst {have.name}: casting={casting!r} does not allow that")
    new = held(src, have, "copyto", "src")
    if where is True:
        dst[...] = _of(new)
    else:
        _masked(dst, where, _of(new), "copyto", "where")


def _masked(target: Array, mask: Any, values: Array, function: str, argument: str) -> None:
    chosen = cast(node(mask, function, argument), BOOL)
    if broadcast_shapes(function, target.shape, chosen.shape, values.shape) != target.shape:
        raise ShapeError(f"{function}: shapes {chosen.shape} and {values.shape} do not broadcast to {target.shape}")
    target[...] = where(_of(chosen), values, target)


def _dtype(x: Any, dtype: Format) -> Format:
    """The dtype of what is to be written into ``dtype``; Python's numbers of its kind have that one, as in NumPy, and an integer
    may be unsigned, too. A list of Python's floats has it where it is as wide as the default."""
    kind = type(x)
    (found,), own = common((x,), promote, weak)
    if kind in (int, float, complex):
        return dtype if same_kind(own, dtype) or (kind is int and dtype.kind == "unsigned") else own
    return dtype if type(found) is np.ndarray and holds(dtype, own) else own


def _safely(x: Any, dtype: Format, function: str, argument: str) -> Node:
    """What is written where a mask says; as in NumPy an array only where no number of its dtype is lost. Scalars count as numbers
    there."""
    given: Any = x
    array = isinstance(x, Array | np.ndarray) and not getattr(given, "is_value", False)
    have = node(x, function, argument).dtype if array or bool(getattr(given, "shape", ())) else dtype
    if not may_cast(have, dtype, "safe", function):
        raise DTypeError(f"{function}: {argument} has dtype {have}, which {dtype} cannot hold safely; cast with .astype first")
    return held(x, dtype, function, argument)


def putmask(a: Array, mask: Any, values: Any) -> None:
    """Write where a mask is true, each place the value at its own place; ``values`` are repeated where too few.

    Parameters
    ----------
    a : Array
        Written to.
    mask : array of bools of the shape of ``a``
    values : array or number

    Raises
    ------
    DTypeError, ShapeError
        ``a`` is no weft Array; a mask of another shape.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.arange(4)
    >>> wf.putmask(x, x > 1, 0)
    >>> x.tolist()
    [0, 1, 0, 0]
    """
    shape = _target("putmask", a, "a").shape
    chosen = cast(node(mask, "putmask", "mask"), BOOL)
    if math.prod(chosen.shape) != a.size:
        raise ShapeError(f"putmask: mask has shape {chosen.shape}, a has shape {shape}")
    given = _safely(values, a.node.dtype, "putmask", "values")
    if given.size and a.size:
        _masked(a, _of(reshaped(chosen, shape)), resize(_of(given), shape), "putmask", "mask")


def place(arr: Array, mask: Any, vals: Any) -> None:
    """Write ``vals`` one after the other where a mask is true, again from the first where they are too few.

    Parameters
    ----------
    arr : Array
        Written to.
    mask : array of bools, as many as ``arr`` has elements
    vals : array

    Raises
    ------
    DTypeError, ShapeError, ValueError
        ``arr`` is no weft Array; a mask of another size; no value for a place.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.arange(4)
    >>> wf.place(x, x > 0, [7, 8])
    >>> x.tolist()
    [0, 7, 8, 7]
    """
    shape = _target("place", arr, "arr").shape
    chosen = cast(node(mask, "place", "mask"), BOOL)
    if math.prod(chosen.shape) != arr.size:
        raise ShapeError(f"place: mask has shape {chosen.shape}, arr has shape {shape}")
    given = _safely(vals, arr.node.dtype, "place", "vals")
    if not given.size:
        if arr.size and wrap(chosen).numpy().any():
            raise ValueError("place: vals is empty, but there are places to write to")
        return
    flat = cast(reshaped(chosen, (arr.size,)), INT64)
    count = op("subtract", op("cumulative_sum", flat, axis=0), cast(node(1, "place"), INT64))
    turn = op("remainder", op("maximum", count, cast(node(0, "place"), INT64)), cast(node(given.size, "place"), INT64))
    line = op("gather", reshaped(given, (given.size,)), turn, axes=(0,))
    _masked(arr, _of(reshaped(chosen, shape)), _of(reshaped(line, shape)), "place", "mask")


def put(a: Array, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write at places of the flattened array; values are repeated where too few.

    Parameters
    ----------
    a : Array
        Written to.
    ind : array of integers
        Negative ones count from the end. Bools are 0 and 1, as in NumPy; ``a[mask] = v`` takes masks.
    v : array or number
    mode : "raise", "clip" or "wrap"
        As in :func:`take`.

    Raises
    ------
    DTypeError, ValueError, IndexError
        ``a`` is no weft Array, or ``ind`` holds no integers; another ``mode``; an index out of range.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.arange(4)
    >>> wf.put(x, [0, -1], 9)
    >>> x.tolist()
    [9, 1, 2, 9]
    """
    value = _target("put", a, "a").node
    index = integer_node(ind, "put", "ind", bools=True)
    given = held(v, value.dtype, "put", "v")
    if not index.size or not given.size:
        return
    places = bounded("put", ind, reshaped(index, (index.size,)), value.size, 0, mode)
    refuse_at_once([places])
    new = resize(wrap(given), index.size).node
    flat = op("scatter", reshaped(value, (value.size,)), new, places, axes=(0,), mode="set")
    a[...] = wrap(reshaped(flat, value.shape))
