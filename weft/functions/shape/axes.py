"""Other shapes and orders of axes, broadcasting, joining, splitting and repeating.

Results are views where NumPy's are: writing to ``wf.reshape(x, ...)`` writes to ``x``.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, ndarray, wrap, wrap_array, wrap_like
from weft.array.convert import array_operands, exact_operands, iterate_items, number_node, numpy_node, promote_operands
from weft.array.indexing import resolve_scalar_indices
from weft.dtypes.formats import INT64
from weft.dtypes.parse import parse_dtype, to_tuple
from weft.errors import AxisError, DTypeError, ShapeError, rename_error
from weft.functions.support import arguments
from weft.functions.support.arguments import Axis, Node, arrays, broadcast, cast, node, op, reshape_node, slice_node, try_numpy
from weft.functions.support.arguments import broadcast_shapes as _broadcast_shapes
from weft.process.docstrings import complete_module
from weft.runtime.traced_int import TRACED_TYPES, TracedInt, compute_traced


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
    return _broadcast_shapes("broadcast_shapes", *(arguments.shape_tuple(s, "broadcast_shapes") for s in shapes))


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
    value, extents = node(array, "broadcast_to", "array"), arguments.shape_tuple(shape, "broadcast_to")
    if _broadcast_shapes("broadcast_to", value.shape, extents) != extents:
        raise ShapeError(f"broadcast_to: array has shape {value.shape}, which does not broadcast to {extents}")
    return wrap_array(broadcast(value, extents))


def broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Array, ...]:
    """Return arrays broadcast to their common shape.

    Parameters
    ----------
    arrays : array_like

    Returns
    -------
    tuple of Array
        With one shape, each with its own dtype.

    >>> [x.shape for x in wf.broadcast_arrays(wf.ones((2, 1)), wf.ones(3))]
    [(2, 3), (2, 3)]
    """
    nodes = [node(x, "broadcast_arrays", f"arrays[{k}]") for k, x in enumerate(arrays)]
    shape = _broadcast_shapes("broadcast_arrays", *(n.shape for n in nodes))
    return tuple(wrap_array(broadcast(n, shape)) for n in nodes)


def _array(x: Any, function: str, argument: str = "a") -> Array:
    return x if isinstance(x, Array) else wrap_array(node(x, function, argument))


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
    return wrap_like(out, out.node) if copy else out


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
    reordered = value._transpose_to_order(order, "ravel", "CFAK") if order != "C" else None
    value = value if reordered is None else reordered
    return value.reshape((value.size,)) if value._is_contiguous() else value.flatten()


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
    return value.transpose() if axes is None else value.transpose(tuple(arguments.as_list(axes, "transpose", "axes")))


def permute_dims(a: Any, axes: Sequence[int]) -> Array:
    """Return a view with the axes in the order ``axes``.

    Parameters
    ----------
    axes : sequence of int
        Axis ``axes[i]`` of ``a`` becomes axis i.

    >>> wf.permute_dims(wf.ones((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return transpose(a, arguments.as_list(axes, "permute_dims", "axes"))


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
        return wrap(reshape_node(_roll(reshape_node(value, (value.size,)), by, 0), value.shape))
    axes = to_tuple(axis)
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    axes = axes * len(shifts) if len(axes) == 1 else axes
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: shift={shift!r} and axis={axis!r} have different lengths")
    for by, a in zip(shifts, axes, strict=True):
        value = _roll(value, _to_shift(by), arguments.axis_index(a, len(value.shape), "roll"))
    return wrap(value)


def _to_shift(n: Any) -> Any:
    """Return a shift as an int, or as a traced int."""
    return compute_traced(operator.index, n) if type(n) in TRACED_TYPES else arguments.check_int(n, "roll", "shift")


def _roll(value: Node, shift: Any, axis: int) -> Node:
    extent = value.shape[axis]
    cut: Any = (-shift) % extent if extent else 0
    if type(cut) is TracedInt:
        place = op("add", op("iota", shape=(extent,), dtype=INT64, axis=0), number_node(cut, INT64))
        beyond = op("greater_equal", place, arguments.number(extent, INT64))
        place = op("where", beyond, op("subtract", place, arguments.number(extent, INT64)), place)
        return arguments.take_slices(value, place, axis)
    if cut == 0:
        return value
    return op("concat", slice_node(value, axis, cut, extent), slice_node(value, axis, 0, cut), axis=axis)


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Array:
    """Return a view rotated by quarter turns in the plane of two axes, from the first towards the second.

    Parameters
    ----------
    m : array with two or more dimensions
    k : int
        The number of quarter turns; negative ones turn the other way.
    axes : (int, int)

    Raises
    ------
    AxisError, ShapeError
        An axis does not exist, or is given twice; ``axes`` are not two.

    >>> wf.rot90(wf.array([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    (value,) = arrays("rot90", m=m)
    pair = arguments.as_list(axes, "rot90", "axes")
    if len(pair) != 2:
        raise ShapeError(f"rot90: axes={axes!r} must be two axes")
    first, second = (arguments.axis_index(a, value.ndim, "rot90", "axes") for a in pair)
    if first == second:
        raise AxisError(f"rot90: axes={axes!r} are the same axis")
    turns = arguments.check_int(k, "rot90", "k") % 4
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


MAX_PARTS = 1 << 20  # more parts than this and than elements are refused: most of them would be empty


def _nodes(
    arrays: Any, function: str, dtype: Any = None, casting: str = "same_kind", out: Any = None, numbers_are_weak: bool = False,
) -> tuple[Node, ...]:
    """Return the arrays as nodes of one dtype. numbers_are_weak : whether Python numbers take the dtype of the arrays"""
    promote = promote_operands if numbers_are_weak else array_operands
    if out is not None:
        if dtype is not None:
            raise TypeError(f"{function}: out has a dtype of its own; give out or dtype, not both")
        dtype = getattr(out, "dtype", None)
    if isinstance(arrays, Array):
        arrays = list(arrays)
    if not isinstance(arrays, (tuple, list, np.ndarray)):
        raise DTypeError(f"{function}: a sequence of arrays is needed, not {type(arrays).__name__}")
    if len(arrays) == 0:
        raise ShapeError(f"{function}: there is nothing to join; give at least one array")
    if dtype is None and casting == "same_kind":
        return promote(*arrays)
    operands = [x if arguments.is_number(x) or type(x) is complex else node(x, function, "arrays") for x in arrays]
    form = promote(*operands)[0].dtype if dtype is None else parse_dtype(dtype)
    return tuple([
        arguments.cast_by(casting, n, form, function, f"arrays[{k}]") if isinstance(n, Node) else cast(node(n, function), form)
        for k, n in enumerate(operands)
    ])


def _join(join: Any, arrays: Any, *axis: Any) -> Array | None:
    """Return what NumPy makes of small arrays; None if they have to be joined otherwise."""
    result = arguments.join_in_numpy(join, arrays, *axis)
    return try_numpy(join, arrays, **dict(zip(("axis",), axis, strict=False))) if result is None else result


def concat(
    arrays: Any, /, axis: int | None = 0, out: Array | None = None, dtype: Any = None, casting: str = "same_kind",
) -> Array:
    """Join arrays along an existing axis.

    Parameters
    ----------
    arrays : sequence of arrays
        With equal extents along the other axes; dtypes are promoted.
    axis : int, optional
        None: flatten the arrays first; Python numbers among them take the dtype of the arrays.
    dtype : dtype, optional
        The dtype of the result.
    casting : str
        The conversions to ``dtype``, or to that of ``out``, that are allowed: "no", "equiv", "safe", "same_kind" or "unsafe".

    Returns
    -------
    Array
        With the promoted dtype.

    Raises
    ------
    ShapeError, AxisError, DTypeError
        The extents differ, or there is no array; the axis does not exist; ``arrays`` is no sequence, or the dtype is unknown or
        not allowed by ``casting``.
    TypeError
        Both ``out`` and ``dtype`` are given.

    >>> wf.concat([wf.ones(2), wf.zeros(1)]).tolist()
    [1.0, 1.0, 0.0]
    """
    if out is None and dtype is None and (result := _join(np.concatenate, arrays, axis)) is not None:
        return result
    nodes = _nodes(arrays, "concat", dtype, casting, out, numbers_are_weak=axis is None)
    if axis is None:
        nodes, axis = tuple(reshape_node(n, (n.size,)) for n in nodes), 0
    axis = arguments.axis_index(axis, len(nodes[0].shape), "concat")
    first = nodes[0].shape
    for k, n in enumerate(nodes):
        if len(n.shape) != len(first) or any(a != axis and x != y for a, (x, y) in enumerate(zip(first, n.shape, strict=False))):
            raise ShapeError(f"concat: arrays[0] has shape {first} and arrays[{k}] {n.shape}: only axis {axis} may differ")
    return arguments.wrap_result(nodes[0] if len(nodes) == 1 else op("concat", *nodes, axis=axis), out, "concat")


def stack(
    arrays: Any, axis: int = 0, out: Array | None = None, dtype: Any = None, casting: str = "same_kind",
) -> Array:
    """Join arrays of equal shape along a new axis.

    Parameters
    ----------
    arrays : sequence of arrays
        With equal shapes; dtypes are promoted.
    axis : int
        The position of the new axis in the result.

    >>> wf.stack([wf.ones(2), wf.zeros(2)], axis=1).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    if out is None and dtype is None and (result := _join(np.stack, arrays, axis)) is not None:
        return result
    nodes = _nodes(arrays, "stack", dtype, casting, out)
    shape = nodes[0].shape
    for k, n in enumerate(nodes):
        if n.shape != shape:
            raise ShapeError(f"stack: arrays[0] has shape {shape} and arrays[{k}] {n.shape}: they must be equal")
    place = arguments.axis_index(axis, len(shape) + 1, "stack")
    rows = tuple(reshape_node(n, (*shape[:place], 1, *shape[place:])) for n in nodes)
    return arguments.wrap_result(rows[0] if len(rows) == 1 else op("concat", *rows, axis=place), out, "stack")


def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Array:
    """Join arrays along axis 0; vectors are rows.

    Parameters
    ----------
    tup : sequence of arrays

    Returns
    -------
    Array with two or more dimensions

    >>> wf.vstack([wf.ones(2), wf.zeros(2)]).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    if dtype is None and (result := _join(np.vstack, tup)) is not None:
        return result
    rows = [wrap(n if len(n.shape) > 1 else reshape_node(n, (1, n.size))) for n in _nodes(tup, "vstack", dtype, casting)]
    return _concat("vstack", rows, 0)


def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Array:
    """Join arrays along axis 1, vectors along axis 0.

    Returns
    -------
    Array with one or more dimensions

    >>> wf.hstack([wf.ones(2), wf.zeros(1)]).tolist()
    [1.0, 1.0, 0.0]
    """
    if dtype is None and (result := _join(np.hstack, tup)) is not None:
        return result
    parts = [wrap(n if n.shape else reshape_node(n, (1,))) for n in _nodes(tup, "hstack", dtype, casting)]
    return _concat("hstack", parts, 0 if parts[0].ndim == 1 else 1)


def _concat(function: str, parts: list[Array], axis: int) -> Array:
    try:
        return concat(parts, axis)
    except (ShapeError, DTypeError, AxisError) as error:
        raise rename_error(error, function) from None


def _parts(function: str, x: Any, sections: Any, axis: int, even: bool) -> list[Array]:
    value = x if isinstance(x, Array) else wrap(node(x, function, "ary"))
    axis = arguments.axis_index(axis, value.ndim, function)
    extent = value.shape[axis]
    sections = resolve_scalar_indices(sections)
    if isinstance(sections, tuple | list | range) or getattr(sections, "shape", ()) != ():
        cuts = [arguments.check_int(c, function, "indices_or_sections") for c in to_tuple(sections)]
        edges = [0, *cuts, extent]
    else:
        count = arguments.check_int(sections, function, "indices_or_sections")
        if count < 1:
            raise ShapeError(f"{function}: sections={count} must be at least 1")
        if count >= 1 << 31:
            raise MemoryError(f"{function}: a list of {count:,} arrays does not fit into memory")
        if even and extent % count:
            raise ShapeError(f"{function}: {count} equal parts do not divide axis {axis} of {value.shape}; use wf.array_split")
        if count > max(extent, MAX_PARTS):
            raise ShapeError(f"{function}: sections={count}, but axis {axis} of {value.shape} has {extent} elements to divide")
        size, more = divmod(extent, count)
        edges = [k * size + min(k, more) for k in range(count + 1)]
    head = (slice(None),) * axis
    return [value[(*head, slice(low, high))] for low, high in zip(edges[:-1], edges[1:], strict=True)]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Split an array along an axis into equal parts or at given positions; the parts are views.

    Parameters
    ----------
    indices_or_sections : int or sequence of int
        The number of equal parts, or the positions of the cuts.
    axis : int

    Raises
    ------
    ShapeError, AxisError
        The array has too few dimensions, or the extent cannot be divided evenly; the axis does not exist.
    MemoryError
        There would be 2**31 parts or more.

    >>> [p.tolist() for p in wf.split(wf.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    return _parts("split", ary, indices_or_sections, axis, True)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Split an array along an axis into parts whose lengths differ by at most one, or at given positions; the parts are views.

    Raises
    ------
    ShapeError, AxisError
        The number of parts is below 1, or far above the extent; the axis does not exist.

    >>> [p.tolist() for p in wf.array_split(wf.arange(3), 2)]
    [[0, 1], [2]]
    """
    return _parts("array_split", ary, indices_or_sections, axis, False)


def unstack(x: Any, /, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices along an axis, without that axis; the slices are views.

    Parameters
    ----------
    axis : int

    Returns
    -------
    tuple of Array, with one dimension fewer

    >>> [p.tolist() for p in wf.unstack(wf.array([[1, 2], [3, 4]]), axis=1)]
    [[1, 3], [2, 4]]
    """
    value = x if isinstance(x, Array) else wrap(node(x, "unstack"))
    axis = arguments.axis_index(axis, value.ndim, "unstack")
    return tuple(value[(slice(None),) * axis + (k,)] for k in range(value.shape[axis]))


def tile(A: Any, reps: Any) -> Array:
    """Return ``A`` repeated along its axes.

    Parameters
    ----------
    A : array
    reps : int, or iterable of int
        The repetitions along each axis, aligned at the last axis; additional ones make new axes in front.

    Raises
    ------
    ShapeError, DTypeError
        A number of repetitions is negative; it is no integer.

    >>> wf.tile(wf.array([1, 2]), 2).tolist()
    [1, 2, 1, 2]
    """
    value, counts = node(A, "tile", "A"), arguments.shape_tuple(reps, "tile", "reps")
    ndim = max(len(counts), len(value.shape))
    counts = (1,) * (ndim - len(counts)) + counts
    shape = (1,) * (ndim - len(value.shape)) + value.shape
    apart = tuple(n for extent in shape for n in (1, extent))
    wide = tuple(n for count, extent in zip(counts, shape, strict=True) for n in (count, extent))
    spread = broadcast(reshape_node(value, apart), wide)
    return wrap(reshape_node(spread, tuple(c * n for c, n in zip(counts, shape, strict=True))))


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Array:
    """Return an array with each element repeated.

    Parameters
    ----------
    repeats : int or sequence of int
        For all elements, or one number per element; an array is computed at once, since the shape depends on it.
    axis : int, optional
        None: use the flattened array.

    Returns
    -------
    Array
        With the shape of ``a``, but longer along the axis.

    Raises
    ------
    ShapeError, DTypeError, AxisError
        ``repeats`` is negative or has another length than the axis; it holds no integers; the axis does not exist.

    >>> wf.repeat(wf.array([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    if type(repeats) is int and type(a) is ndarray:
        if (result := try_numpy(np.repeat, a, repeats, most=a.size * repeats, axis=axis)) is not None:
            return result
    value = node(a, "repeat", "a")
    value, axis = arguments.flat_axis(value, axis, "repeat", numbers=True)
    extent = value.shape[axis]
    if isinstance(repeats, (tuple, list, np.ndarray, Array)) and node(repeats, "repeat", "repeats").size != 1:
        counts = wrap(arguments.integer_node(repeats, "repeat", "repeats", bools=True)).numpy()
        if counts.shape != (extent,) or (counts < 0).any():
            raise ShapeError(f"repeat: repeats {counts.shape} must be {extent} numbers >= 0, one for each place of axis {axis}")
        return wrap(arguments.take_slices(value, numpy_node(np.repeat(np.arange(extent), counts)), axis))
    if not isinstance(repeats, int):
        repeats = [x * 1 for x in arguments.read_now(repeats, "repeat", "repeats").reshape(-1).tolist()]  # NumPy takes bools
    (count,) = arguments.shape_tuple(repeats, "repeat", "repeats")
    head, tail = value.shape[: axis + 1], value.shape[axis + 1 :]
    apart = broadcast(reshape_node(value, (*head, 1, *tail)), (*head, count, *tail))
    return wrap(reshape_node(apart, (*head[:-1], extent * count, *tail)))


def column_stack(tup: Any) -> Array:
    """Join vectors as the columns of a matrix, and matrices along axis 1.

    >>> wf.column_stack([wf.array([1, 2]), wf.array([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    parts = [wrap(n) for n in exact_operands(*_sequence("column_stack", tup))]
    return concat([p if p.ndim > 1 else p.reshape(-1, 1) for p in parts], 1)


def _sequence(function: str, argument: Any) -> list[Any]:
    if not hasattr(argument, "__iter__"):
        raise DTypeError(f"{function}: a sequence of arrays is needed, not {type(argument).__name__}")
    return list(argument)


def dstack(tup: Any) -> Array:
    """Join arrays along a third axis.

    Returns
    -------
    Array with three or more dimensions

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
        raise ShapeError("block: an empty list is no row; every list needs at least one block")
    if len(depths) != 1:
        raise ShapeError("block: lists are nested to different depths")
    return 1 + depths.pop()


def block(arrays: Any) -> Array:
    """Assemble an array from blocks that are arranged as nested lists.

    Parameters
    ----------
    arrays : nested lists of arrays
        The innermost lists run along the last axis.

    Raises
    ------
    ShapeError, TypeError
        Blocks do not fit, a list is empty, or lists are nested to different depths; a tuple is given.

    >>> wf.block([[wf.eye(1), wf.zeros((1, 2))], [wf.ones((1, 3))]]).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """
    depth = _depth(arrays)
    blocks = exact_operands(*(iterate_items(arrays) if isinstance(arrays, list) else (arrays,)))
    ndim = max([depth, *(len(n.shape) for n in blocks)])
    left = iter(blocks)

    def put(rows: Any, level: int) -> Array:
        if not isinstance(rows, list):
            value = wrap(next(left))
            return value.reshape((1,) * (ndim - value.ndim) + value.shape)
        return concat([put(r, level + 1) for r in rows], ndim - depth + level)

    return put(arrays, 0)


def _split_with_rank(function: str, x: Any, sections: Any, axis: int, least: int) -> list[Array]:
    (value,) = arrays(function, ary=x)
    if value.ndim < least:
        raise ShapeError(f"{function}: ary has shape {value.shape}; at least {least} dimensions are needed")
    return split(value, sections, axis=axis)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Split an array along axis 1, a vector along axis 0; the parts are views.

    >>> [p.tolist() for p in wf.hsplit(wf.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    (value,) = arrays("hsplit", ary=ary)
    return _split_with_rank("hsplit", value, indices_or_sections, 1 if value.ndim > 1 else 0, 1)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Split an array with two or more dimensions along axis 0; the parts are views.

    >>> [p.tolist() for p in wf.vsplit(wf.arange(4).reshape(2, 2), 2)]
    [[[0, 1]], [[2, 3]]]
    """
    return _split_with_rank("vsplit", ary, indices_or_sections, 0, 2)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Split an array with three or more dimensions along axis 2; the parts are views.

    >>> [p.tolist() for p in wf.dsplit(wf.arange(2).reshape(1, 1, 2), 2)]
    [[[[0]]], [[[1]]]]
    """
    return _split_with_rank("dsplit", ary, indices_or_sections, 2, 3)


def atleast_1d(*arrays: Any) -> Any:
    """Return arrays with at least one dimension.

    Parameters
    ----------
    arrays : array_like

    Returns
    -------
    Array
        Unchanged if it has the dimensions. For several arrays: a tuple.

    >>> wf.atleast_1d(3.0).shape
    (1,)
    """
    if len(arrays) != 1:
        return tuple([atleast_1d(x) for x in arrays])
    value = _array(arrays[0], "atleast_1d")
    return value if value.ndim else value.reshape((1,))


def atleast_2d(*arrays: Any) -> Any:
    """Return arrays with at least two dimensions; new ones are in front.

    >>> wf.atleast_2d(wf.ones(3)).shape
    (1, 3)
    """
    if len(arrays) != 1:
        return tuple([atleast_2d(x) for x in arrays])
    value = _array(arrays[0], "atleast_2d")
    return value if value.ndim >= 2 else value.reshape((1,) * (2 - value.ndim) + value.shape)


def atleast_3d(*arrays: Any) -> Any:
    """Return arrays with at least three dimensions, as NumPy does: shape (N,) becomes (1, N, 1) and (M, N) becomes (M, N, 1).

    >>> wf.atleast_3d(wf.ones(3)).shape
    (1, 3, 1)
    """
    if len(arrays) != 1:
        return tuple([atleast_3d(x) for x in arrays])
    value = _array(arrays[0], "atleast_3d")
    shape = {0: (1, 1, 1), 1: (1, *value.shape, 1), 2: (*value.shape, 1)}
    return value if value.ndim >= 3 else value.reshape(shape[value.ndim])


complete_module(
    globals(), (broadcast_shapes, broadcast_arrays), (broadcast_to, reshape), (expand_dims, squeeze), (transpose, permute_dims,
    matrix_transpose, swapaxes, moveaxis, rollaxis, rot90), (flip, flipud, fliplr, unstack), (concat, stack, vstack), (vstack,
    hstack, column_stack, dstack), (split, array_split, hsplit, vsplit, dsplit), (atleast_1d, atleast_2d, atleast_3d),
)
concatenate = arguments.alias(concat, "concatenate")
row_stack = arguments.alias(vstack, "row_stack")  # copies the completed docstring
