"""New arrays: from data, and filled."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from weft.array import Array, Scalar, like, own
from weft.convert import number_node, shared_node
from weft.dlpack import shared, taken
from weft.errors import DTypeError
from weft.formats import DEFAULT, Format
from weft.functions.common import (
    Shape,
    broadcast,
    cast,
    held,
    made_on,
    node,
    shape_tuple,
)
from weft.spelling import spelled


def array(
    obj: Any, /, dtype: Any = None, copy: bool | None = True, order: Any = None, subok: bool = False, ndmin: int = 0, *,
    device: Any = None,
) -> Array:
    """An array with a copy of ``obj``.

    Parameters
    ----------
    obj : array, NumPy array, number or nested lists
        NumPy arrays and scalars keep their dtype; Python floats become float32, integers int64, bools bool.
    dtype : dtype, optional
    copy : bool
        False: an Array of that dtype is handed back as it is (:func:`asarray`).
    order, subok
        Do nothing: arrays of weft lie row by row, and there are no other classes of them.
    ndmin : int
        The least number of dimensions; more of extent 1 are put in front.
    device : str, optional
        Where it is to lie, such as "cpu" or "gpu"; by default where it is made.

    Returns
    -------
    Array
        Of the shape of ``obj``, with memory of its own.

    Raises
    ------
    DTypeError
        What cannot be an array: ragged lists, text, unknown dtypes.
    ValueError, OverflowError
        A NaN, an infinity or a number out of range that integers are to hold.

    Examples
    --------
    >>> import weft as wf
    >>> wf.array([[1, 2], [3, 4]], dtype=wf.float32).shape
    (2, 2)
    """
    if device is not None:
        return made_on("array", device, array, obj, dtype, copy, order, subok, ndmin)
    wanted = None if dtype is None else spelled(dtype)
    if ndmin:
        found = array(obj, dtype, copy)
        return found if found.ndim >= ndmin else found.reshape((1,) * (ndmin - found.ndim) + found.shape)
    if isinstance(obj, Array) and not copy and not obj.weak and (wanted is None or wanted is obj.node.dtype):
        return own(obj.node) if type(obj) is Scalar else obj
    if isinstance(obj, memoryview):
        obj = np.asarray(obj)
    return own(node(obj, "array", "obj") if wanted is None else held(obj, wanted, "array", "obj"))


def asarray(obj: Any, /, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None) -> Array:
    """``obj`` as an array; an Array of that dtype is handed back as it is.

    Parameters
    ----------
    obj, dtype, order, device : as in :func:`array`
    copy : bool, optional
        True: always a copy. False: never one; what is not an Array of that dtype is refused.
    device : str, optional
        Where it is to lie, such as "cpu" or "gpu"; by default where it is made.

    Returns
    -------
    Array

    Raises
    ------
    DTypeError
        As :func:`array`.
    ValueError
        With ``copy=False``, where a copy is needed; an unknown device.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.ones(3)
    >>> wf.asarray(x) is x
    True
    """
    if device is not None:
        found = made_on("asarray", device, asarray, obj, dtype, order)
        if copy is False and found is not obj:
            raise ValueError("asarray: with copy=False only an Array of the dtype that lies on this device can be taken")
        return array(found) if copy and found is obj else found
    if copy is False and not (isinstance(obj, Array) and (dtype is None or spelled(dtype) is obj.node.dtype)):
        raise ValueError("asarray: with copy=False only an Array of the dtype can be taken: arrays of weft have their own memory")
    return array(obj, dtype, copy=bool(copy))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array with a copy of what another library's array holds, or with ``copy=False`` over its memory.

    Parameters
    ----------
    x : object with ``__dlpack__``
        On the CPU, such as a NumPy array or a PyTorch tensor.
    device : str, optional
        Where it is to lie, such as "cpu" or "gpu"; by default where it is made.
    copy : bool, optional
        False: the memory is shared, which has to lie row by row. weft never writes to it (what is written into the Array goes to
        memory of its own); while the Array lives, nobody else should: what is not computed yet would see it.

    Returns
    -------
    Array of its shape and dtype

    Raises
    ------
    DTypeError
        ``x`` has no ``__dlpack__``.
    BufferError, ValueError
        With ``copy=False``, where a copy is needed; an unknown device.

    Examples
    --------
    >>> import weft as wf, numpy as np
    >>> wf.from_dlpack(np.arange(3.0)).tolist()
    [0.0, 1.0, 2.0]
    """
    if not hasattr(x, "__dlpack__"):
        raise DTypeError(f"from_dlpack: a {type(x).__name__} has no __dlpack__; use wf.asarray")
    if device is not None:
        return made_on("from_dlpack", device, partial(from_dlpack, copy=copy), x)
    if copy is False:
        return own(x.node if isinstance(x, Array) else shared_node(shared(x)))
    return own(node(taken(x), "from_dlpack"))


def _filled(value: Any, shape: Any, dtype: Any, function: str, device: Any) -> Array:
    if device is not None:
        return made_on(function, device, _filled, value, shape, dtype, function, None)
    if isinstance(dtype, int | np.integer) and isinstance(shape, int | np.integer):
        raise DTypeError(f"{function}: {dtype} is no dtype; the shape is one argument, wf.{function}(({shape}, {dtype}))")
    wanted = DEFAULT.real if dtype is None else spelled(dtype)
    return own(broadcast(number_node(value, wanted), shape_tuple(shape, function)))


def zeros(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None) -> Array:
    """An array of zeros, float32 unless told otherwise.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype, optional
        float32 by default.
    order : any
        Does nothing: arrays of weft lie row by row.
    device : str, optional
        Where it is to lie, such as "cpu" or "gpu"; by default where it is made.

    Returns
    -------
    Array of that shape

    Raises
    ------
    ShapeError, DTypeError, ValueError
        Another device; a negative extent; a shape that is no integers, or an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.zeros((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return _filled(0, shape, dtype, "zeros", device)


def ones(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None) -> Array:
    """An array of ones, float32 unless told otherwise.

    Parameters
    ----------
    shape, dtype, order, device : as in :func:`zeros`

    Returns
    -------
    Array of that shape

    Raises
    ------
    ShapeError, DTypeError, ValueError
        As :func:`zeros`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ones(2, dtype=wf.int32).tolist()
    [1, 1]
    """
    return _filled(1, shape, dtype, "ones", device)


def empty(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None) -> Array:
    """An array to be written to; it holds zeros.

    Parameters
    ----------
    shape, dtype, order, device : as in :func:`zeros`

    Returns
    -------
    Array of that shape

    Raises
    ------
    ShapeError, DTypeError, ValueError
        As :func:`zeros`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.empty((2, 3)).shape
    (2, 3)
    """
    return _filled(0, shape, dtype, "empty", device)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = None, *, device: Any = None) -> Array:
    """An array filled with a number, or with an array that broadcasts.

    Parameters
    ----------
    shape : int or tuple of int
    fill_value : number or array
    dtype : dtype, optional
        By default that of :func:`array` of ``fill_value``.
    order, device : as in :func:`zeros`

    Returns
    -------
    Array of that shape

    Raises
    ------
    ShapeError, DTypeError, ValueError
        As :func:`zeros`; a ``fill_value`` that does not broadcast to ``shape``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.full((2,), 7).tolist()
    [7, 7]
    """
    if device is not None:
        return made_on("full", device, full, shape, fill_value, dtype)
    value = array(fill_value, dtype).node
    extents = shape_tuple(shape, "full")
    return own(broadcast(value, extents))


def _like(x: Any, function: str, dtype: Any, shape: Any) -> tuple[Shape, Format]:
    found = node(x, function)
    return (found.shape if shape is None else shape_tuple(shape, function)), (found.dtype if dtype is None else spelled(dtype))


def zeros_like(
    x: Any, /, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *, device: Any = None,
) -> Array:
    """Zeros in the shape and dtype of ``x``.

    Parameters
    ----------
    x : array_like
    dtype, shape : default those of ``x``
    order, subok, device : as in :func:`array`

    Returns
    -------
    Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        As :func:`zeros`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.zeros_like(wf.array([1, 2])).tolist()
    [0, 0]
    """
    if device is not None:
        return made_on("zeros_like", device, zeros_like, x, dtype, order, subok, shape)
    return zeros(*_like(x, "zeros_like", dtype, shape))


def ones_like(
    x: Any, /, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *, device: Any = None,
) -> Array:
    """Ones in the shape and dtype of ``x``.

    Parameters
    ----------
    x, dtype, order, subok, shape, device : as in :func:`zeros_like`

    Returns
    -------
    Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        As :func:`zeros`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ones_like(wf.array([1, 2])).tolist()
    [1, 1]
    """
    if device is not None:
        return made_on("ones_like", device, ones_like, x, dtype, order, subok, shape)
    return ones(*_like(x, "ones_like", dtype, shape))


def empty_like(
    x: Any, /, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *, device: Any = None,
) -> Array:
    """An array to be written to, in the shape and dtype of ``x``; it holds zeros.

    Parameters
    ----------
    x, dtype, order, subok, shape, device : as in :func:`zeros_like`

    Returns
    -------
    Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        As :func:`zeros`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.empty_like(wf.array([1, 2])).shape
    (2,)
    """
    if device is not None:
        return made_on("empty_like", device, empty_like, x, dtype, order, subok, shape)
    return zeros_like(x, dtype, shape=shape)


def full_like(
    x: Any, /, fill_value: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Array:
    """A filled array in the shape and dtype of ``x``.

    Parameters
    ----------
    x, dtype, order, subok, shape, device : as in :func:`zeros_like`
    fill_value : number or array

    Returns
    -------
    Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        As :func:`full`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.full_like(wf.array([1, 2]), 5).tolist()
    [5, 5]
    """
    if device is not None:
        return made_on("full_like", device, full_like, x, fill_value, dtype, order, subok, shape)
    extents, wanted = _like(x, "full_like", dtype, shape)
    return full(extents, fill_value, wanted)


def astype(x: Any, dtype: Any, /, copy: bool = True, *, device: Any = None) -> Array:
    """``x`` in another dtype.

    Parameters
    ----------
    x : array_like
    dtype : dtype
    copy : bool
        False: an Array of that dtype is handed back as it is.
    device : str, optional
        Where it is to lie, such as "cpu" or "gpu"; by default where it is made.

    Returns
    -------
    Array of the shape of ``x``

    Raises
    ------
    DTypeError, ValueError
        An unknown dtype; complex numbers as real ones, whose imaginary parts would be lost (take ``wf.real(x)``); an unknown
        device.

    Examples
    --------
    >>> import weft as wf
    >>> wf.astype(wf.array([1.9, -1.9]), wf.int32).tolist()
    [1, -1]
    """
    if device is not None:
        return made_on("astype", device, astype, x, dtype, copy)
    wanted = spelled(dtype)
    if not isinstance(x, Array) or x.weak:
        return like(x, held(x, wanted, "astype", "x"))
    found = x.node
    return like(x, cast(found, wanted)) if copy or found.dtype != wanted else x


def copy(x: Any, /) -> Array:
    """An array of its own with the content of ``x``.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Array of the shape and dtype of ``x``; of a Scalar, a Scalar: ``wf.array(x)`` is an array that can be written to

    Examples
    --------
    >>> import weft as wf
    >>> wf.copy(wf.ones(2)).tolist()
    [1.0, 1.0]
    """
    return like(x, node(x, "copy"))
