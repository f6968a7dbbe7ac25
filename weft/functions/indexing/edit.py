"""Functions that append, delete, insert, choose or overwrite elements."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import array_operands, numpy_node, promote_operands, read_operands
from weft.array.indexing import broadcast_value, check_bounds, check_pending_indices, number_fits
from weft.dtypes.formats import BOOL, DEFAULT, FROM_NUMPY, INT64, Format, holds, promote, same_kind, weak
from weft.eager.native import NATIVE_ELEMENTS
from weft.errors import DTypeError, ShapeError
from weft.functions.creation.fill import zeros_like
from weft.functions.indexing.take_scatter import take
from weft.functions.indexing.where import where
from weft.functions.shape.axes import concat
from weft.functions.support import arguments
from weft.functions.support.arguments import (
    Node,
    arrays,
    broadcast,
    cast,
    node,
    number,
    op,
    permute_node,
    reshape_node,
    wrap_result,
)
from weft.process.docstrings import complete_module
from weft.runtime.context import CONTEXT


def append(arr: Any, values: Any, axis: int | None = None) -> Array:
    """Return ``arr`` followed by ``values``.

    Parameters
    ----------
    arr, values : array
    axis : int, optional
        None: both are flattened.

    Raises
    ------
    ShapeError, AxisError
        The extents differ; the axis does not exist.

    >>> wf.append(wf.array([1, 2]), [3, 4]).tolist()
    [1, 2, 3, 4]
    """
    if axis is None and (result := _append_in_numpy(arr, values)) is not None:
        return result
    return concat(array_operands(arr, values), axis)


def _append_in_numpy(arr: Any, values: Any) -> Any:
    """Return a small array followed by an array, or by a number, of the same dtype; None for every case that is not plain."""
    show = NATIVE_ELEMENTS.show
    if (first := show(arr)) is None or first.nbytes > CONTEXT.eager_limit:
        return None
    dtype = FROM_NUMPY[first.dtype]
    if isinstance(values, Array):
        second = show(values)
    elif dtype is (DEFAULT.real if type(values) is float else INT64) and number_fits(values, dtype):
        second = np.array((values,), dtype.numpy)
    else:
        return None
    if second is None or second.dtype != first.dtype:
        return None
    return NATIVE_ELEMENTS.take(np.concatenate((first, second), None), dtype)


def _positions(function: str, obj: Any, axis: int, extent: int, last: int) -> np.ndarray:
    """Return the positions along one axis that ``obj`` selects, computed at once; ``last`` is the largest one that is allowed."""
    if isinstance(obj, slice):
        return np.arange(extent)[obj]
    selector = node(obj, function, "obj")
    if selector.dtype == BOOL and len(selector.shape) == 1:
        if selector.shape[0] != extent:
            raise ShapeError(f"{function}: the mask obj has shape {selector.shape}, the axis has {extent} elements")
        return np.flatnonzero(wrap(selector).numpy())
    places = wrap(arguments.integer_node(selector, function, "obj")).numpy()
    bad = places[(places < -extent) | (places > last)]
    if bad.size:
        raise IndexError(f"{function}: index {bad.flat[0]} is out of bounds for axis {axis} with size {extent}")
    return np.asarray(places, np.int64)


def delete(arr: Any, obj: Any, axis: int | None = None) -> Array:
    """Return ``arr`` without some slices along an axis.

    Parameters
    ----------
    obj : int, slice, or array of integers or bools
        The slices to delete; computed at once, since the shape depends on it.
    axis : int, optional
        None: use the flattened array.

    Raises
    ------
    IndexError, AxisError, ShapeError, DTypeError, TraceError
        A position is out of range; the axis does not exist; shapes do not fit; ``obj`` holds no integers; the content of ``obj``
        is not available inside a traced function.

    >>> wf.delete(wf.array([1, 2, 3]), 1).tolist()
    [1, 3]
    """
    value = node(arr, "delete", "arr")
    value, axis = arguments.flat_axis(value, axis, "delete")
    extent = value.shape[axis]
    gone = _positions("delete", obj, axis, extent, extent - 1)
    return wrap(arguments.take_slices(value, numpy_node(np.delete(np.arange(extent), gone)), axis))


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Array:
    """Return ``arr`` with ``values`` inserted in front of some positions.

    Parameters
    ----------
    obj : int, slice, or array of integers or bools
        The positions in ``arr``; computed at once, since the shape depends on it.
    values : array
        Converted to the dtype of ``arr``.

    >>> wf.insert(wf.array([1, 2, 3]), 1, 9).tolist()
    [1, 9, 2, 3]
    """
    value = node(arr, "insert", "arr")
    value, axis = arguments.flat_axis(value, axis, "insert")
    extent, shape = value.shape[axis], value.shape
    at = _positions("insert", obj, axis, extent, extent)
    if at.ndim > 1:
        raise ShapeError(f"insert: obj has shape {at.shape}; a number or one dimension is needed")
    inserted, count = arguments.convert_for_write(values, value.dtype, "insert", "values"), at.size
    if count == 1:  # all values along the axis are inserted here
        inserted = reshape_node(inserted, (1,) * (len(shape) - len(inserted.shape)) + inserted.shape)
        if not at.ndim:  # if obj is a number, the first axis of values is the axis of insertion, as in NumPy
            inserted = permute_node(inserted, (*range(1, axis + 1), 0, *range(axis + 1, len(inserted.shape))))
        count = inserted.shape[axis]
        at = np.full(count, at.item())
    wide = (*shape[:axis], count, *shape[axis + 1 :])
    try:
        inserted = broadcast_value(inserted, wide)
    except ShapeError:
        raise ShapeError(f"insert: values have shape {inserted.shape}, but the inserted slices have shape {wide}") from None
    order = np.insert(np.arange(extent), at, np.arange(extent, extent + count))
    return wrap(arguments.take_slices(op("concat", value, inserted, axis=axis), numpy_node(order), axis))


def resize(a: Any, new_shape: Any) -> Array:
    """Return the elements in another shape, repeated if there are too few.

    Parameters
    ----------
    new_shape : int or tuple of int

    Returns
    -------
    Array of that shape

    Raises
    ------
    ShapeError
        An extent is negative.

    >>> wf.resize(wf.array([1, 2]), (2, 3)).tolist()
    [[1, 2, 1], [2, 1, 2]]
    """
    value, shape = node(a, "resize", "a"), arguments.shape_tuple(new_shape, "resize", "new_shape")
    count = math.prod(shape)
    line = reshape_node(value, (value.size,))
    if not value.size:
        return wrap(broadcast(cast(node(0, "resize"), value.dtype), shape))
    times = -(-count // value.size)
    long_ = reshape_node(broadcast(reshape_node(line, (1, value.size)), (times, value.size)), (times * value.size,))
    return wrap(reshape_node(op("slice", long_, start=(0,), step=(1,), shape=(count,)), shape))


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Array:
    """Return an array without leading and trailing zeros. Computes at once.

    Parameters
    ----------
    filt : array
    trim : "f", "b" or "fb"
        Remove zeros at the front, at the back, or both.
    axis : int or tuple of int, optional
        None: along all axes.

    Raises
    ------
    ValueError, TraceError
        Another ``trim``; called inside a traced function.

    >>> wf.trim_zeros(wf.array([0, 1, 2, 0])).tolist()
    [1, 2]
    """
    if not isinstance(trim, str) or trim.lower() not in ("f", "b", "fb", "bf"):
        raise ValueError(f"trim_zeros: trim={trim!r} must be 'f', 'b' or 'fb'")
    (value,) = arrays("trim_zeros", filt=filt)
    content = arguments.read_now(value, "trim_zeros", "filt")
    axes = range(content.ndim) if axis is None else arguments.axis_tuple(axis, content.ndim, "trim_zeros")
    index: list[Any] = [slice(None)] * content.ndim
    places = np.nonzero(content) if content.ndim else ()
    for a in axes:
        low, high = (int(places[a].min()), int(places[a].max()) + 1) if places[a].size else (0, 0)
        index[a] = slice(low if "f" in trim.lower() else 0, high if "b" in trim.lower() or not high else None)
    return value[tuple(index)]



def _check_target(function: str, x: Any, argument: str) -> Array:
    """Return ``x``, an argument that is written to; raise DTypeError if it is not a weft Array."""
    if not isinstance(x, Array):
        raise DTypeError(f"{function}: {argument} must be a weft Array, not {type(x).__name__}: it is written to")
    return x


def fill_diagonal(a: Array, val: Any, wrap: bool = False) -> None:
    """Write into the main diagonal of an array.

    Parameters
    ----------
    a : Array with two or more dimensions
        Modified in place; more than two dimensions must have the same extent.
    val : number or array
        Repeated along the diagonal.
    wrap : bool
        Whether the diagonal of a matrix with more rows than columns starts again below each square.

    Raises
    ------
    DTypeError, ShapeError
        ``a`` is no weft Array; it has no diagonal.

    >>> x = wf.zeros((2, 2))
    >>> wf.fill_diagonal(x, 5)
    >>> x.tolist()
    [[5.0, 0.0], [0.0, 5.0]]
    """
    shape = _check_target("fill_diagonal", a, "a").shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) != 1):
        raise ShapeError(f"fill_diagonal: a has shape {shape}; a matrix, or dimensions of one extent are needed")
    step = shape[1] + 1 if len(shape) == 2 else 1 + int(np.cumprod(shape[:-1]).sum())
    stop = None if len(shape) > 2 or wrap else shape[1] * shape[1]
    places = np.arange(math.prod(shape))[:stop:step]
    values = arguments.convert_for_write(val, a.node.dtype, "fill_diagonal", "val")
    if 0 in values.shape:
        return
    line = resize(values, places.size) if values.shape else wrap_result(values)
    index = np.unravel_index(places, shape)
    if places.size:
        a[index] = line


def copyto(dst: Array, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write ``src`` into ``dst``.

    Parameters
    ----------
    dst : Array
        Modified in place.
    src : array or number
        Broadcasts to ``dst``.
    casting : "no", "equiv", "safe", "same_kind" or "unsafe"
        The conversions that are allowed.
    where : bool or array of bools
        The elements to write.

    Raises
    ------
    DTypeError, ShapeError, ValueError
        ``dst`` is no weft Array, or ``casting`` forbids the conversion; shapes do not broadcast; another ``casting``.

    >>> x = wf.zeros(3)
    >>> wf.copyto(x, [1.0, 2.0, 3.0], where=[True, False, True])
    >>> x.tolist()
    [1.0, 0.0, 3.0]
    """
    target_form = _check_target("copyto", dst, "dst").node.dtype
    source = _casting_dtype(node(src, "copyto", "src") if src is None else src, target_form)
    if not arguments.may_cast(source, target_form, casting, "copyto"):
        operand = repr(src) if type(src) in (int, float, complex) else source.name
        raise DTypeError(f"copyto: src is {operand}, dst {target_form.name}: casting={casting!r} does not allow this conversion")
    values = arguments.convert_for_write(src, target_form, "copyto", "src")
    if where is True:
        dst[...] = wrap(values)
    else:
        _write_masked(dst, where, wrap(values), "copyto", "where")


def _write_masked(target: Array, mask: Any, values: Array, function: str, argument: str) -> None:
    """Write ``values`` into ``target`` where the mask is true."""
    condition = cast(node(mask, function, argument), BOOL)
    if arguments.broadcast_shapes(function, target.shape, condition.shape, values.shape) != target.shape:
        raise ShapeError(f"{function}: shapes {condition.shape} and {values.shape} do not broadcast to {target.shape}")
    target[...] = where(wrap(condition), values, target)


def _casting_dtype(x: Any, dtype: Format) -> Format:
    """Return the format that counts in the check of ``casting`` for a write into ``dtype``.

    As in NumPy, a Python number of the same kind counts as ``dtype``, an int also if ``dtype`` is unsigned. A list of Python
    floats counts as ``dtype`` if that is at least as wide as the default.
    """
    kind = type(x)
    (operand,), form = read_operands((x,), promote, weak)
    if kind in (int, float, complex):
        return dtype if same_kind(form, dtype) or (kind is int and dtype.kind == "unsigned") else form
    return dtype if type(operand) is np.ndarray and holds(dtype, form) else form


def _convert_safely(x: Any, dtype: Format, function: str, argument: str) -> Node:
    """Convert values for a masked write. Like NumPy, refuse arrays whose numbers ``dtype`` may not hold; Scalars count as
    numbers."""
    operand: Any = x
    array = isinstance(x, Array | np.ndarray) and not getattr(operand, "is_value", False)
    source = node(x, function, argument).dtype if array or bool(getattr(operand, "shape", ())) else dtype
    if not arguments.may_cast(source, dtype, "safe", function):
        raise DTypeError(f"{function}: {argument} has dtype {source}, which {dtype} cannot hold safely; cast with .astype first")
    return arguments.convert_for_write(x, dtype, function, argument)


def putmask(a: Array, mask: Any, values: Any) -> None:
    """Write the elements of ``values`` at the same positions where a mask is true; ``values`` are repeated if there are too few.

    Parameters
    ----------
    a : Array
        Modified in place.
    mask : array of bools
        With as many elements as ``a``.
    values : array or number

    Raises
    ------
    DTypeError, ShapeError
        ``a`` is no weft Array, or cannot hold ``values`` safely; the mask has another size.

    >>> x = wf.arange(4)
    >>> wf.putmask(x, x > 1, 0)
    >>> x.tolist()
    [0, 1, 0, 0]
    """
    shape = _check_target("putmask", a, "a").shape
    condition = cast(node(mask, "putmask", "mask"), BOOL)
    if math.prod(condition.shape) != a.size:
        raise ShapeError(f"putmask: mask has shape {condition.shape}, a has shape {shape}")
    updates = _convert_safely(values, a.node.dtype, "putmask", "values")
    if updates.size and a.size:
        _write_masked(a, wrap(reshape_node(condition, shape)), resize(wrap(updates), shape), "putmask", "mask")


def place(arr: Array, mask: Any, vals: Any) -> None:
    """Write ``vals`` one after the other where a mask is true, starting again from the first if there are too few.

    Parameters
    ----------
    arr : Array
        Modified in place.
    mask : array of bools
        With as many elements as ``arr``.
    vals : array

    Raises
    ------
    DTypeError, ShapeError, ValueError
        ``arr`` is no weft Array, or cannot hold ``vals`` safely; the mask has another size; ``vals`` is empty and a mask element
        is true.

    >>> x = wf.arange(4)
    >>> wf.place(x, x > 0, [7, 8])
    >>> x.tolist()
    [0, 7, 8, 7]
    """
    shape = _check_target("place", arr, "arr").shape
    condition = cast(node(mask, "place", "mask"), BOOL)
    if math.prod(condition.shape) != arr.size:
        raise ShapeError(f"place: mask has shape {condition.shape}, arr has shape {shape}")
    updates = _convert_safely(vals, arr.node.dtype, "place", "vals")
    if not updates.size:
        if arr.size and wrap(condition).numpy().any():
            raise ValueError("place: vals is empty, but the mask selects elements to write")
        return
    flat = cast(reshape_node(condition, (arr.size,)), INT64)
    count = op("subtract", op("cumulative_sum", flat, axis=0), cast(node(1, "place"), INT64))
    turn = op("remainder", op("maximum", count, cast(node(0, "place"), INT64)), cast(node(updates.size, "place"), INT64))
    line = op("gather", reshape_node(updates, (updates.size,)), turn, axes=(0,))
    _write_masked(arr, wrap(reshape_node(condition, shape)), wrap(reshape_node(line, shape)), "place", "mask")


def put(a: Array, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write into elements of the flattened array; values are repeated if there are too few.

    Parameters
    ----------
    ind : array of integers
        Negative ones count from the end. Bools are 0 and 1, as in NumPy; ``a[mask] = v`` takes masks.
    v : array or number
    mode : "raise", "clip" or "wrap"
        As in :func:`take`.

    Raises
    ------
    DTypeError, ValueError, IndexError
        ``a`` is no weft Array, or ``ind`` holds no integers; another ``mode``; an index is out of range.

    >>> x = wf.arange(4)
    >>> wf.put(x, [0, -1], 9)
    >>> x.tolist()
    [9, 1, 2, 9]
    """
    value = _check_target("put", a, "a").node
    index = arguments.integer_node(ind, "put", "ind", bools=True)
    updates = arguments.convert_for_write(v, value.dtype, "put", "v")
    if not index.size or not updates.size:
        return
    places = check_bounds("put", ind, reshape_node(index, (index.size,)), value.size, 0, mode)
    check_pending_indices([places])
    repeated = resize(wrap(updates), index.size).node
    flat = op("scatter", reshape_node(value, (value.size,)), repeated, places, axes=(0,), mode="set")
    a[...] = wrap(reshape_node(flat, value.shape))


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Array:
    """Return, for each element, the element of the first choice whose condition holds.

    Parameters
    ----------
    condlist : sequence of arrays of bools
    choicelist : sequence of arrays
        As many as conditions.
    default : number or array
        Used where no condition holds.

    Returns
    -------
    Array of the shape that all broadcast to, and the dtype they promote to

    Raises
    ------
    ShapeError, DTypeError
        There is no condition, the numbers of conditions and choices differ, or shapes do not broadcast; a condition is not bool.

    >>> x = wf.arange(5)
    >>> wf.select([x < 2, x > 2], [x, x * 10], -1).tolist()
    [0, 1, -1, 30, 40]
    """
    conditions, choices = arguments.as_list(condlist, "select", "condlist"), arguments.as_list(choicelist, "select", "choicelist")
    if len(conditions) != len(choices) or not conditions:
        raise ShapeError(f"select: {len(conditions)} conditions and {len(choices)} choices; give equally many, and at least one")
    for k, c in enumerate(conditions):
        if node(c, "select", f"condlist[{k}]").dtype != BOOL:
            raise DTypeError(f"select: condlist[{k}] must hold bools, but has dtype {node(c, 'select').dtype}")
    *values, last = promote_operands(*choices, default)
    result = wrap(last)
    for condition, value in zip(reversed(conditions), reversed(values), strict=True):
        result = where(condition, wrap(value), result)
    return result


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Evaluate a function that is defined in pieces. Every piece is computed for all elements. If several conditions hold, the
    last one counts.

    Parameters
    ----------
    condlist : array of bools, or a sequence of them
    funclist : sequence of callables and numbers
        One per condition, and optionally one more for elements without a true condition (0 by default). A callable receives all
        of ``x``; an array of numbers has one per selected element.
    args, kw
        Passed to the callables.

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    ShapeError, IndexError
        The number of functions does not fit; a condition has another shape than ``x``.

    >>> x = wf.array([-2.0, 3.0])
    >>> wf.piecewise(x, [x < 0, x >= 0], [-1, lambda x: x * x]).tolist()
    [-1.0, 9.0]
    """
    (value,) = arrays("piecewise", x=x)
    listed = isinstance(condlist, list | tuple) or getattr(condlist, "ndim", 0) > 0
    many = listed and len(condlist) > 0 and (np.ndim(condlist[0]) > 0 or not value.ndim)
    conditions = [cast(node(c, "piecewise", "condlist"), BOOL) for c in (condlist if many else [condlist])]
    pieces = arguments.as_list(funclist, "piecewise", "funclist")
    if len(pieces) not in (len(conditions), len(conditions) + 1):
        raise ShapeError(f"piecewise: {len(pieces)} functions are given for {len(conditions)} conditions; as many, or one more")

    def evaluate(piece: Any) -> Any:
        return piece(value, *args, **kw) if callable(piece) else piece

    masks = []
    for k, c in enumerate(conditions):
        if c.shape != value.shape[: len(c.shape)]:
            raise IndexError(f"piecewise: condlist[{k}] has shape {c.shape}, but x has shape {value.shape}")
        masks.append(reshape_node(c, (*c.shape, *(1 for _ in value.shape[len(c.shape) :]))))
    if len(pieces) > len(conditions):
        any_mask = functools.reduce(partial(op, "logical_or"), masks, number(False, BOOL))
        masks.append(op("logical_not", any_mask))
    result = zeros_like(value)
    for mask, piece in zip(masks, pieces, strict=True):
        part = arguments.convert_for_write(evaluate(piece), value.node.dtype, "piecewise", "funclist")
        if part.shape in ((), value.shape) and (callable(piece) or not part.shape):
            result = where(wrap(mask), wrap(part), result)
        else:  # one number per selected element
            result[wrap(broadcast(mask, value.shape))] = wrap(part)
    return result


def choose(a: Any, choices: Any, out: Array | None = None, mode: str = "raise") -> Array:
    """Return, for each element of ``a``, the element of the choice with that number.

    Parameters
    ----------
    a : array of integers
    choices : sequence of arrays
        They broadcast with ``a``.
    mode : "raise", "clip" or "wrap"
        The treatment of numbers out of range, as in :func:`take`.

    Raises
    ------
    DTypeError, ShapeError, ValueError, IndexError
        ``a`` holds no integers; there is no choice, or shapes do not broadcast; another ``mode``, or a negative number; a number
        is out of range.

    >>> wf.choose(wf.array([1, 0, 1]), [[1, 2, 3], [10, 20, 30]]).tolist()
    [10, 2, 30]
    """
    index = arguments.integer_node(a, "choose", "a", bools=True)
    values = promote_operands(*list(choices)) if len(choices) else ()
    if not values:
        raise ShapeError("choose: choices is empty; give at least one array")
    if not isinstance(a, Array) and mode == "raise" and np.less(np.asarray(a), 0).any():
        raise ValueError("choose: a holds a negative number")
    if mode == "raise" and index.dtype.kind == "signed":  # negative numbers are out of range
        index = op("where", op("less", index, number(0, index.dtype)), number(len(values), index.dtype), index)
    shape = arguments.broadcast_shapes("choose", index.shape, *(v.shape for v in values))
    index = broadcast(check_bounds("choose", a, index, len(values), 0, mode), shape)
    result = broadcast(values[0], shape)
    for k, value in enumerate(values[1:], 1):
        result = op("where", op("equal", index, cast(node(k, "choose"), index.dtype)), value, result)
    return wrap_result(result, out, "choose")


def compress(condition: Any, a: Any, axis: int | None = None, out: Array | None = None) -> Array:
    """Return the slices along an axis where a condition holds. The condition is computed at once, since the shape depends on it.

    Parameters
    ----------
    condition : (N,) array of bools
        May be shorter than the axis.
    axis : int, optional
        None: use the flattened array.

    Raises
    ------
    ShapeError, AxisError, IndexError, TraceError
        ``condition`` is no vector; the axis does not exist; a true element lies beyond the end; the content of ``condition`` is
        not available inside a traced function.

    >>> wf.compress([True, False, True], wf.array([1, 2, 3])).tolist()
    [1, 3]
    """
    mask = arguments.read_now(condition, "compress", "condition")
    if mask.ndim != 1:
        raise ShapeError(f"compress: condition has shape {mask.shape}; a vector is needed")
    return take(a, np.flatnonzero(mask), axis, out)


complete_module(globals(), (delete, insert), (putmask, place, put))
