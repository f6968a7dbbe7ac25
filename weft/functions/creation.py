"""New arrays: from data, filled, and counted up."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.convert import number_node
from weft.dtypes import as_dtype
from weft.errors import DTypeError, ShapeError
from weft.functions.common import (
    FLOAT32,
    FLOAT64,
    INT64,
    Shape,
    broadcast,
    cast,
    is_float,
    node,
    op,
    reshaped,
    shape_tuple,
)

_NUMBERS = (bool, int, float)


def array(obj: Any, /, dtype: Any = None, copy: bool = True) -> Array:
    """An array with a copy of ``obj``.

    Parameters
    ----------
    obj : array, NumPy array, number or nested lists
        NumPy arrays and scalars keep their dtype; Python floats become float32, integers int64, bools bool.
    dtype : dtype, optional
    copy : bool
        False: an Array of that dtype is handed back as it is (:func:`asarray`).

    Raises
    ------
    DTypeError
        What cannot be an array: ragged lists, text, unknown dtypes.

    Examples
    --------
    >>> import weft as wf
    >>> wf.array([[1, 2], [3, 4]], dtype=wf.float32).shape
    (2, 2)
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(obj, Array) and not copy and wanted in (None, obj.dtype):
        return obj
    if wanted is not None and not isinstance(obj, Array):
        if type(obj) in _NUMBERS:
            cut = type(obj) is float and not is_float(wanted)
            return wrap(cast(node(obj, "array", "obj"), wanted) if cut else number_node(obj, wanted))
        if isinstance(obj, (list, tuple)) and is_float(wanted):  # straight to it: no detour over float32
            plain = _plain(obj)
            obj = obj if plain is None else plain
    if isinstance(obj, (range, memoryview)):
        obj = np.asarray(obj)
    found = node(obj, "array", "obj")
    return wrap(found if wanted is None else cast(found, wanted))


def _plain(obj: Any) -> np.ndarray | None:
    """Nested lists without Arrays as NumPy reads them, or None."""
    items = list(obj)
    while items:
        item = items.pop()
        if isinstance(item, (list, tuple)):
            items.extend(item)
        elif isinstance(item, Array):
            return None
    try:
        return np.asarray(obj)
    except ValueError:
        return None


def asarray(obj: Any, /, dtype: Any = None, copy: bool | None = None) -> Array:
    """``obj`` as an array; an Array of that dtype is handed back as it is. Parameters as :func:`array`.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.ones(3)
    >>> wf.asarray(x) is x
    True
    """
    return array(obj, dtype, copy=bool(copy))


def from_dlpack(x: Any, /) -> Array:
    """An array with a copy of what another library's array holds.

    Examples
    --------
    >>> import weft as wf, numpy as np
    >>> wf.from_dlpack(np.arange(3.0)).tolist()
    [0.0, 1.0, 2.0]
    """
    if not hasattr(x, "__dlpack__"):
        raise DTypeError(f"from_dlpack: a {type(x).__name__} has no __dlpack__; use wf.asarray")
    return wrap(node(np.from_dlpack(x), "from_dlpack"))


def _filled(value: Any, shape: Any, dtype: Any, function: str, default: np.dtype = FLOAT32) -> Array:
    wanted = default if dtype is None else as_dtype(dtype)
    return wrap(broadcast(number_node(value, wanted), shape_tuple(shape, function)))


def zeros(shape: Any, dtype: Any = None) -> Array:
    """An array of zeros, float32 unless told otherwise.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype, optional

    Raises
    ------
    ShapeError
        A negative extent.

    Examples
    --------
    >>> import weft as wf
    >>> wf.zeros((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return _filled(0, shape, dtype, "zeros")


def ones(shape: Any, dtype: Any = None) -> Array:
    """An array of ones; parameters as :func:`zeros`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ones(2, dtype=wf.int32).tolist()
    [1, 1]
    """
    return _filled(1, shape, dtype, "ones")


def empty(shape: Any, dtype: Any = None) -> Array:
    """An array to be written to; it holds zeros. Parameters as :func:`zeros`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.empty((2, 3)).shape
    (2, 3)
    """
    return _filled(0, shape, dtype, "empty")


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Array:
    """An array filled with a number (or with an array that broadcasts to ``shape``).

    Examples
    --------
    >>> import weft as wf
    >>> wf.full((2,), 7).tolist()
    [7, 7]
    """
    value = array(fill_value, dtype).node
    extents = shape_tuple(shape, "full")
    return wrap(broadcast(value, extents))


def _like(x: Any, function: str, dtype: Any, shape: Any) -> tuple[Shape, np.dtype]:
    found = node(x, function)
    return (found.shape if shape is None else shape_tuple(shape, function)), (found.dtype if dtype is None else as_dtype(dtype))


def zeros_like(x: Any, /, dtype: Any = None, shape: Any = None) -> Array:
    """Zeros in the shape and dtype of ``x``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.zeros_like(wf.array([1, 2])).tolist()
    [0, 0]
    """
    return zeros(*_like(x, "zeros_like", dtype, shape))


def ones_like(x: Any, /, dtype: Any = None, shape: Any = None) -> Array:
    """Ones in the shape and dtype of ``x``.

    Parameters
    ----------
    x : array_like
    dtype, shape : default those of ``x``

    Returns
    -------
    Array

    Examples
    --------
    >>> import weft as wf
    >>> wf.ones_like(wf.array([1, 2])).tolist()
    [1, 1]
    """
    return ones(*_like(x, "ones_like", dtype, shape))


def empty_like(x: Any, /, dtype: Any = None, shape: Any = None) -> Array:
    """An array to be written to, in the shape and dtype of ``x``; it holds zeros.

    Parameters
    ----------
    x : array_like
    dtype, shape : default those of ``x``

    Returns
    -------
    Array

    Examples
    --------
    >>> import weft as wf
    >>> wf.empty_like(wf.array([1, 2])).shape
    (2,)
    """
    return zeros_like(x, dtype, shape)


def full_like(x: Any, /, fill_value: Any, dtype: Any = None, shape: Any = None) -> Array:
    """A filled array in the shape and dtype of ``x``.

    Parameters
    ----------
    x : array_like
    fill_value : number
    dtype, shape : default those of ``x``

    Returns
    -------
    Array

    Examples
    --------
    >>> import weft as wf
    >>> wf.full_like(wf.array([1, 2]), 5).tolist()
    [5, 5]
    """
    extents, wanted = _like(x, "full_like", dtype, shape)
    return full(extents, fill_value, wanted)


def arange(start: Any, /, stop: Any = None, step: Any = 1, dtype: Any = None) -> Array:
    """Numbers from ``start`` (0 where it is the only one given) up to and without ``stop``.

    Parameters
    ----------
    start, stop, step : number
    dtype : dtype, optional
        int64 for integers, else float32.

    Examples
    --------
    >>> import weft as wf
    >>> wf.arange(2, 8, 3).tolist()
    [2, 5]
    """
    if stop is None:
        start, stop = 0, start
    given = [x.item() if isinstance(x, (Array, np.generic, np.ndarray)) else x for x in (start, stop, step)]
    if not all(type(x) in _NUMBERS for x in given):
        raise DTypeError(f"arange: start, stop and step must be numbers, not {start!r}, {stop!r}, {step!r}")
    first, last, by = given
    if by == 0:
        raise ValueError("arange: step must not be 0")
    integers = all(type(x) is not float for x in given)
    count = max(0, -((first - last) // by) if integers else math.ceil((last - first) / by))
    wanted = (INT64 if integers else FLOAT32) if dtype is None else as_dtype(dtype)
    if first == 0 and by == 1:
        return wrap(cast(op("iota", shape=(count,), dtype=INT64, axis=0), wanted))
    within = INT64 if integers else FLOAT64
    place = op("iota", shape=(count,), dtype=within, axis=0)
    scaled = op("multiply", place, number_node(int(by) if integers else float(by), within))
    return wrap(cast(op("add", scaled, number_node(int(first) if integers else float(first), within)), wanted))


def linspace(start: Any, stop: Any, /, num: int = 50, endpoint: bool = True, dtype: Any = None) -> Array:
    """``num`` numbers at equal distances from ``start`` to ``stop``, computed in float64, float32 unless told otherwise.

    Parameters
    ----------
    start, stop : number
    num : int
    endpoint : bool
        Whether ``stop`` is the last of them.
    dtype : dtype, optional

    Examples
    --------
    >>> import weft as wf
    >>> wf.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    count = operator.index(num)
    if count < 0:
        raise ShapeError(f"linspace: num={count} must not be negative")
    wanted = FLOAT32 if dtype is None else as_dtype(dtype)
    first, last = float(start), float(stop)
    gaps = count - 1 if endpoint else count
    place = op("iota", shape=(count,), dtype=FLOAT64, axis=0)
    by = (last - first) / gaps if gaps > 0 else 0.0
    values = op("add", op("multiply", place, number_node(by, FLOAT64)), number_node(first, FLOAT64))
    if endpoint and count > 1:
        values = op("where", op("equal", place, number_node(count - 1, FLOAT64)), number_node(last, FLOAT64), values)
    if not is_float(wanted):
        values = op("floor", values)
    return wrap(cast(values, wanted))


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Array, ...]:
    """The coordinates of a grid, one array a dimension.

    Parameters
    ----------
    *arrays : 1-D arrays
    indexing : "xy" or "ij"
        "xy": the first array runs along axis 1, as in pictures.

    Examples
    --------
    >>> import weft as wf
    >>> x, y = wf.meshgrid(wf.arange(2), wf.arange(3))
    >>> x.tolist()
    [[0, 1], [0, 1], [0, 1]]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing={indexing!r} must be 'xy' or 'ij'")
    nodes = [node(x, "meshgrid", f"arrays[{k}]") for k, x in enumerate(arrays)]
    for k, found in enumerate(nodes):
        if len(found.shape) > 1:
            raise ShapeError(f"meshgrid: arrays[{k}] has shape {found.shape}; arrays of one dimension are needed")
    places = list(range(len(nodes)))
    if indexing == "xy" and len(nodes) > 1:
        places[:2] = 1, 0
    extents = [0] * len(nodes)
    for place, found in zip(places, nodes, strict=True):
        extents[place] = found.size
    out = []
    for place, found in zip(places, nodes, strict=True):
        line = reshaped(found, tuple(found.size if a == place else 1 for a in range(len(nodes))))
        out.append(wrap(broadcast(line, tuple(extents))))
    return tuple(out)


def astype(x: Any, dtype: Any, /, copy: bool = True) -> Array:
    """``x`` in another dtype; with ``copy=False`` an Array of that dtype is handed back.

    Examples
    --------
    >>> import weft as wf
    >>> wf.astype(wf.array([1.9, -1.9]), wf.int32).tolist()
    [1, -1]
    """
    return array(x, dtype, copy)


def copy(x: Any, /) -> Array:
    """An array of its own with the content of ``x``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.copy(wf.ones(2)).tolist()
    [1.0, 1.0]
    """
    return wrap(node(x, "copy"))
