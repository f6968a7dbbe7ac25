"""New arrays: from data, and filled."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from weft.array import Array, Scalar, own
from weft.array.assignment import assigned
from weft.array.convert import is_foreign, number_node, refuse_subclass, shared_node
from weft.dtypes.formats import DEFAULT, Format
from weft.dtypes.parse import layout, liked, spelled
from weft.eager.peek import made
from weft.errors import DTypeError, ShapeError
from weft.functions.support.arguments import Shape, broadcast, made_on, named_device, node, shape_tuple, whole
from weft.functions.support.unbound import unbound
from weft.interop.dlpack import shared, taken

MAX_NDIM = 64  # as NumPy's


@unbound
def array(
    object: Any, dtype: Any = None, copy: bool | None = True, order: Any = None, subok: bool = False, ndmin: int = 0, *,
    device: Any = None, ndmax: int = 64, like: Any = None,
) -> Array:
    """An array with a copy of ``object``.

    Parameters
    ----------
    object : array, NumPy array, number or nested lists
        NumPy arrays and scalars keep their dtype; Python floats become float32, integers int64, bools bool.
    dtype : dtype, optional
    copy : bool, optional
        None: an Array of that dtype is handed back as it is (:func:`asarray`). False: so it is, and what else is given refused.
    order, subok
        Do nothing: arrays of weft lie row by row, and there are no other classes of them.
    ndmin, ndmax : int
        The least number of dimensions; more of extent 1 are put in front. The largest: what is nested deeper is refused.
    device : str, optional
        Where it is to lie, such as "cpu" or "gpu"; by default where it is made.
    like : array, optional
        Does nothing: arrays of weft are what these functions make.

    Returns
    -------
    Array
        Of the shape of ``object``, with memory of its own.

    Raises
    ------
    DTypeError
        What cannot be an array: ragged lists, text, unknown dtypes.
    ValueError, OverflowError
        A NaN, an infinity or a number out of range that integers are to hold; with ``copy=False``, where a copy is needed.

    Examples
    --------
    >>> import weft as wf
    >>> wf.array([[1, 2], [3, 4]], dtype=wf.float32).shape
    (2, 2)
    """
    liked(like, "array")
    layout(order, "array")
    if device is not None:
        return made_on("array", device, partial(array, ndmax=ndmax), object, dtype, copy, order, subok, ndmin)
    wanted = None if dtype is None else spelled(dtype)
    if ndmax != MAX_NDIM:
        if not 0 <= whole(ndmax, "array", "ndmax") <= MAX_NDIM:
            raise ValueError(f"array: ndmax={ndmax} must be from 0 to {MAX_NDIM}, as many as NumPy's arrays have")
        found = array(object, dtype, copy, ndmin=ndmin)
        if found.ndim > ndmax:
            raise ShapeError(f"array: object has shape {found.shape}, more dimensions than ndmax={ndmax}")
        return found
    if ndmin != 0 and whole(ndmin, "array", "ndmin") > 0:
        if ndmin > MAX_NDIM:
            raise ValueError(f"array: ndmin={ndmin} is more than the {MAX_NDIM} dimensions that NumPy's arrays have at most")
        found = array(object, dtype, copy)
        return found if found.ndim >= ndmin else found.reshape((1,) * (ndmin - found.ndim) + found.shape)
    if isinstance(object, Array) and not copy and not object.weak and (wanted is None or wanted is object.node.dtype):
        return own(object.node) if type(object) is Scalar else object
    if copy is False:
        raise ValueError("array: with copy=False only an Array of the dtype can be taken: arrays of weft have their own memory")
    if isinstance(object, memoryview):
        object = np.asarray(object)
    return own(node(object, "array", "object") if wanted is None else assigned(object, wanted))


@unbound
def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None, like: Any = None,
) -> Array:
    """``a`` as an array; an Array of that dtype is handed back as it is.

    Parameters
    ----------
    a, dtype, order, device, like : as in :func:`array`
    copy : bool, optional
        True: always a copy. False: never one; what is not an Array of that dtype is refused, but for what other libraries have
        on a card. That is shared unless told otherwise, as by :func:`from_dlpack`.
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
    liked(like, "asarray")
    layout(order, "asarray")
    if not isinstance(a, _NO_CARDS) and is_foreign(a):
        from weft.interop.cuda_exchange import lies_on_a_card

        if lies_on_a_card(a):
            return _shared_on_a_card(a, dtype, device, copy)
    if device is not None:
        found = made_on("asarray", device, asarray, a, dtype, order)
        if copy is False and found is not a:
            raise ValueError("asarray: with copy=False only an Array of the dtype that lies on this device can be taken")
        return array(found) if copy and found is a else found
    if copy is False and not (isinstance(a, Array) and (dtype is None or spelled(dtype) is a.node.dtype)):
        raise ValueError("asarray: with copy=False only an Array of the dtype can be taken: arrays of weft have their own memory")
    return array(a, dtype, copy=True if copy else None)


_NO_CARDS = (Array, np.ndarray, list, tuple, int, float)


def _shared_on_a_card(obj: Any, dtype: Any, device: Any, copy: bool | None) -> Array:
    """What another library has on a card, over its memory where that can be."""
    from weft.interop.cuda_exchange import card_node

    found = own(card_node(obj, "asarray", copy))
    wanted = found.node.dtype if dtype is None else spelled(dtype)
    there = found.device if device is None else named_device("asarray", device)
    if copy is False and (wanted is not found.node.dtype or there != found.device):
        raise ValueError(
            f"asarray: with copy=False the array stays what it is, of dtype {found.dtype} on {found.device}; it is asked for as "
            f"{wanted} on {there}"
        )
    same = wanted is found.node.dtype and there == found.device
    return found if same else made_on("asarray", there, asarray, found, wanted.numpy)


@unbound
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of what another library's array holds: a copy, or over its memory, with ``copy=False`` or where that is a card's.

    Parameters
    ----------
    x : object with ``__dlpack__``
        On the CPU, such as a NumPy array or a PyTorch tensor, or on a card: then the array lies there, too.
    device : str, optional
        Where it is to lie, such as "cpu" or "gpu"; by default where it is made.
    copy : bool, optional
        False: the memory is shared, which has to lie row by row. weft never writes to it (what is written into the Array goes to
        memory of its own); while the Array lives, nobody else should: what is not computed yet would see it. True: a copy. By
        default a card's memory is shared, and copied on the card where it does not lie row by row; that of the CPU is copied.

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
    if isinstance(x, Array):
        return own(x.node) if device is None else made_on("from_dlpack", device, from_dlpack, x)
    refuse_subclass(x)
    from weft.interop.cuda_exchange import card_node, lies_on_a_card

    if lies_on_a_card(x):
        found = own(card_node(x, "from_dlpack", copy))
        made = found if device is None else made_on("from_dlpack", device, asarray, found)
        if copy is False and made is not found:
            raise BufferError(f"from_dlpack: with copy=False the memory is shared, which lies on {found.device}, not {device}")
        return made
    if device is not None:
        return made_on("from_dlpack", device, partial(from_dlpack, copy=copy), x)
    return own(shared_node(shared(x)) if copy is False else node(taken(x), "from_dlpack"))


def _filled(value: Any, shape: Any, dtype: Any, order: Any, function: str, device: Any, like: Any) -> Array:
    if like is not None:
        liked(like, function)
    if order is not None:
        layout(order, function, "CF")
    if device is not None:
        return made_on(function, device, _filled, value, shape, dtype, order, function, None, like)
    if dtype is not None and isinstance(dtype, int | np.integer) and isinstance(shape, int | np.integer):
        raise DTypeError(f"{function}: {dtype} is no dtype; the shape is one argument, wf.{function}(({shape}, {dtype}))")
    wanted = DEFAULT.real if dtype is None else spelled(dtype)
    extents = shape_tuple(shape, function)
    found = made(extents, wanted, lambda memory: memory.fill(value))
    return own(broadcast(number_node(value, wanted), extents) if found is None else found)


@unbound
def zeros(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None) -> Array:
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
    like : array, optional
        Does nothing: arrays of weft are what these functions make.

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
    return _filled(0, shape, dtype, order, "zeros", device, like)


def ones(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None) -> Array:
    """An array of ones, float32 unless told otherwise.

    Parameters
    ----------
    shape, dtype, order, device, like : as in :func:`zeros`

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
    return _filled(1, shape, dtype, order, "ones", device, like)


@unbound
def empty(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None) -> Array:
    """An array to be written to; it holds zeros.

    Parameters
    ----------
    shape, dtype, order, device, like : as in :func:`zeros`

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
    return _filled(0, shape, dtype, order, "empty", device, like)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None) -> Array:
    """An array filled with a number, or with an array that broadcasts.

    Parameters
    ----------
    shape : int or tuple of int
    fill_value : number or array
    dtype : dtype, optional
        By default that of :func:`array` of ``fill_value``.
    order, device, like : as in :func:`zeros`

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
    liked(like, "full")
    layout(order, "full", "CF")
    if device is not None:
        return made_on("full", device, full, shape, fill_value, dtype)
    value = array(fill_value, dtype).node
    extents = shape_tuple(shape, "full")
    return own(broadcast(value, extents))


def _like(x: Any, function: str, dtype: Any, shape: Any) -> tuple[Shape, Format]:
    found = node(x, function, "prototype" if function == "empty_like" else "a")
    return (found.shape if shape is None else shape_tuple(shape, function)), (found.dtype if dtype is None else spelled(dtype))


def zeros_like(
    a: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *, device: Any = None,
) -> Array:
    """Zeros in the shape and dtype of ``a``.

    Parameters
    ----------
    a : array_like
    dtype, shape : default those of ``a``
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
    layout(order, "zeros_like")
    if device is not None:
        return made_on("zeros_like", device, zeros_like, a, dtype, order, subok, shape)
    return zeros(*_like(a, "zeros_like", dtype, shape))


def ones_like(
    a: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *, device: Any = None,
) -> Array:
    """Ones in the shape and dtype of ``a``.

    Parameters
    ----------
    a, dtype, order, subok, shape, device : as in :func:`zeros_like`

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
    layout(order, "ones_like")
    if device is not None:
        return made_on("ones_like", device, ones_like, a, dtype, order, subok, shape)
    return ones(*_like(a, "ones_like", dtype, shape))


def empty_like(
    prototype: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *, device: Any = None,
) -> Array:
    """An array to be written to, in the shape and dtype of ``prototype``; it holds zeros.

    Parameters
    ----------
    prototype, dtype, order, subok, shape, device : as in :func:`zeros_like`

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
    layout(order, "empty_like")
    if device is not None:
        return made_on("empty_like", device, empty_like, prototype, dtype, order, subok, shape)
    return zeros_like(prototype, dtype, shape=shape)


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Array:
    """A filled array in the shape and dtype of ``a``.

    Parameters
    ----------
    a, dtype, order, subok, shape, device : as in :func:`zeros_like`
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
    layout(order, "full_like")
    if device is not None:
        return made_on("full_like", device, full_like, a, fill_value, dtype, order, subok, shape)
    extents, wanted = _like(a, "full_like", dtype, shape)
    return full(extents, fill_value, wanted)
