"""Arrays made from data, and filled arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from weft.array import Array, Scalar, own
from weft.array.assignment import assigned
from weft.array.convert import is_foreign, number_node, refuse_subclass, shared_node
from weft.dtypes.formats import DEFAULT, Format
from weft.dtypes.parse import check_like, layout, parse_dtype
from weft.eager.peek import made
from weft.errors import DTypeError, ShapeError
from weft.functions.support.arguments import Shape, broadcast, check_device, create_on_device, node, shape_tuple, whole
from weft.functions.support.unbound import unbound
from weft.interop.dlpack import shared, taken
from weft.process.docstrings import complete_docs

MAX_NDIM = 64  # as NumPy's


@unbound
def array(
    object: Any, dtype: Any = None, copy: bool | None = True, order: Any = None, subok: bool = False, ndmin: int = 0, *,
    device: Any = None, ndmax: int = 64, like: Any = None,
) -> Array:
    """Return a new array with a copy of ``object``.

    Parameters
    ----------
    object : array, NumPy array, number or nested lists
        NumPy arrays and scalars keep their dtype; Python floats become float32, integers int64, bools bool.
    dtype : dtype, optional
    copy : bool, optional
        None: an Array that already has ``dtype`` is returned unchanged, as by :func:`asarray`. False: the same, and anything that
        would have to be copied is refused.
    order, subok
        Ignored: weft's arrays are stored in row-major order and have no subclasses.
    ndmin : int
        The smallest number of dimensions; missing ones are added in front, with extent 1.
    ndmax : int
        The largest number of dimensions; deeper nesting is refused.
    device : str, optional
        The device of the result, such as "cpu" or "gpu"; by default the current one.
    like : array, optional
        Ignored: the result is always an Array.

    Returns
    -------
    Array
        With the shape of ``object``.

    Raises
    ------
    DTypeError
        ``object`` cannot become an array (ragged lists, text), or ``dtype`` is unknown.
    ShapeError
        ``object`` has more than ``ndmax`` dimensions.
    ValueError, OverflowError
        An integer dtype cannot hold a NaN, an infinity or a large number; ``copy=False`` and a copy is needed; ``ndmin`` or
        ``ndmax`` is out of range; the device is unknown.

    Examples
    --------
    >>> import weft as wf
    >>> wf.array([[1, 2], [3, 4]], dtype=wf.float32).shape
    (2, 2)
    """
    check_like(like, "array")
    layout(order, "array")
    if device is not None:
        return create_on_device("array", device, partial(array, ndmax=ndmax), object, dtype, copy, order, subok, ndmin)
    form = None if dtype is None else parse_dtype(dtype)
    if ndmax != MAX_NDIM:
        if not 0 <= whole(ndmax, "array", "ndmax") <= MAX_NDIM:
            raise ValueError(f"array: ndmax={ndmax} must be from 0 to {MAX_NDIM}, as many as NumPy's arrays have")
        result = array(object, dtype, copy, ndmin=ndmin)
        if result.ndim > ndmax:
            raise ShapeError(f"array: object has shape {result.shape}, more dimensions than ndmax={ndmax}")
        return result
    if ndmin != 0 and whole(ndmin, "array", "ndmin") > 0:
        if ndmin > MAX_NDIM:
            raise ValueError(f"array: ndmin={ndmin} is more than the {MAX_NDIM} dimensions that NumPy's arrays have at most")
        result = array(object, dtype, copy)
        return result if result.ndim >= ndmin else result.reshape((1,) * (ndmin - result.ndim) + result.shape)
    if isinstance(object, Array) and not copy and not object.weak and (form is None or form is object.node.dtype):
        return own(object.node) if type(object) is Scalar else object
    if copy is False:
        raise ValueError("array: copy=False needs an Array that already has the dtype; leave it out to copy other objects")
    if isinstance(object, memoryview):
        object = np.asarray(object)
    return own(node(object, "array", "object") if form is None else assigned(object, form))


@unbound
def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None, like: Any = None,
) -> Array:
    """Return ``a`` as an array; an Array that already has the dtype is returned unchanged.

    Parameters
    ----------
    a : array, NumPy array, number or nested lists
    device : str, optional
        The device of the result, such as "cpu" or "gpu"; by default an existing array stays on its device.
    copy : bool, optional
        True: always copy. False: never copy; only an Array of this dtype, or another library's array on a GPU, is accepted. By
        default another library's GPU array shares its memory, as with :func:`from_dlpack`; everything else is copied.

    Returns
    -------
    Array
        With the shape of ``a``.

    Raises
    ------
    DTypeError
        ``a`` cannot become an array (ragged lists, text), or ``dtype`` is unknown.
    ValueError, OverflowError
        An integer dtype cannot hold a NaN, an infinity or a large number; ``copy=False`` and a copy is needed; the device is
        unknown.

    Examples
    --------
    >>> x = wf.ones(3)
    >>> wf.asarray(x) is x
    True
    """
    check_like(like, "asarray")
    layout(order, "asarray")
    if not isinstance(a, _NO_CARDS) and is_foreign(a):
        from weft.interop.cuda_exchange import is_on_cuda

        if is_on_cuda(a):
            return _shared_on_a_card(a, dtype, device, copy)
    if device is not None:
        result = create_on_device("asarray", device, asarray, a, dtype, order)
        if copy is False and result is not a:
            raise ValueError("asarray: copy=False needs an Array of this dtype on this device; leave it out to allow a copy")
        return array(result) if copy and result is a else result
    if copy is False and not (isinstance(a, Array) and (dtype is None or parse_dtype(dtype) is a.node.dtype)):
        raise ValueError("asarray: copy=False needs an Array that already has the dtype; leave it out to copy other objects")
    return array(a, dtype, copy=True if copy else None)


_NO_CARDS = (Array, np.ndarray, list, tuple, int, float)


def _shared_on_a_card(obj: Any, dtype: Any, device: Any, copy: bool | None) -> Array:
    """Return another library's array on a GPU as an Array, without a copy if dtype and device allow it."""
    from weft.interop.cuda_exchange import import_node

    shared_array = own(import_node(obj, "asarray", copy))
    form = shared_array.node.dtype if dtype is None else parse_dtype(dtype)
    target = shared_array.device if device is None else check_device("asarray", device)
    if copy is False and (form is not shared_array.node.dtype or target != shared_array.device):
        raise ValueError(
            f"asarray: with copy=False the array keeps dtype {shared_array.dtype} and device {shared_array.device}, "
            f"but {form} on {target} is needed; leave out copy"
        )
    is_unchanged = form is shared_array.node.dtype and target == shared_array.device
    return shared_array if is_unchanged else create_on_device("asarray", target, asarray, shared_array, form.numpy)


@unbound
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Return another library's array as an Array: by default a copy on the CPU, and shared memory on a GPU.

    Parameters
    ----------
    x : object with ``__dlpack__``
        On the CPU, such as a NumPy array or a PyTorch tensor, or on a GPU: then the result is on the GPU, too.
    device : str, optional
        The device of the result, such as "cpu" or "gpu"; by default the one of ``x``.
    copy : bool, optional
        False: share the memory, which must be in row-major order. weft never writes into shared memory: a write to the Array goes
        to new memory. While the Array exists, the other library must not write either, since pending operations would read the
        new values. True: copy. None: share GPU memory (copied on the GPU if it is not in row-major order) and copy CPU memory.

    Returns
    -------
    Array
        With the shape and dtype of ``x``.

    Raises
    ------
    DTypeError
        ``x`` has no ``__dlpack__``.
    BufferError, ValueError
        ``copy=False`` and a copy is needed; the device is unknown.

    Examples
    --------
    >>> import weft as wf, numpy as np
    >>> wf.from_dlpack(np.arange(3.0)).tolist()
    [0.0, 1.0, 2.0]
    """
    if not hasattr(x, "__dlpack__"):
        raise DTypeError(f"from_dlpack: a {type(x).__name__} has no __dlpack__; use wf.asarray")
    if isinstance(x, Array):
        return own(x.node) if device is None else create_on_device("from_dlpack", device, from_dlpack, x)
    refuse_subclass(x)
    from weft.interop.cuda_exchange import import_node, is_on_cuda

    if is_on_cuda(x):
        shared_array = own(import_node(x, "from_dlpack", copy))
        result = shared_array if device is None else create_on_device("from_dlpack", device, asarray, shared_array)
        if copy is False and result is not shared_array:
            raise BufferError(
                f"from_dlpack: with copy=False the result shares memory on {shared_array.device} and cannot be on {device}"
            )
        return result
    if device is not None:
        return create_on_device("from_dlpack", device, partial(from_dlpack, copy=copy), x)
    return own(shared_node(shared(x)) if copy is False else node(taken(x), "from_dlpack"))


def _filled(value: Any, shape: Any, dtype: Any, order: Any, function: str, device: Any, like: Any) -> Array:
    if like is not None:
        check_like(like, function)
    if order is not None:
        layout(order, function, "CF")
    if device is not None:
        return create_on_device(function, device, _filled, value, shape, dtype, order, function, None, like)
    if dtype is not None and isinstance(dtype, int | np.integer) and isinstance(shape, int | np.integer):
        raise DTypeError(f"{function}: {dtype} is no dtype; the shape is one argument, wf.{function}(({shape}, {dtype}))")
    form = DEFAULT.real if dtype is None else parse_dtype(dtype)
    extents = shape_tuple(shape, function)
    filled = made(extents, form, lambda memory: memory.fill(value))
    return own(broadcast(number_node(value, form), extents) if filled is None else filled)


@unbound
def zeros(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None) -> Array:
    """Return an array of zeros.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype, optional
        float32 by default.
    order : str, optional
        Ignored: weft's arrays are stored in row-major order.
    device : str, optional
        The device of the result, such as "cpu" or "gpu"; by default the current one.
    like : array, optional
        Ignored: the result is always an Array.

    Returns
    -------
    Array
        With this shape.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        An extent is negative; the shape holds no integers, or the dtype is unknown; the device is unknown.

    Examples
    --------
    >>> import weft as wf
    >>> wf.zeros((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return _filled(0, shape, dtype, order, "zeros", device, like)


def ones(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None) -> Array:
    """Return an array of ones.

    Examples
    --------
    >>> wf.ones(2, dtype=wf.int32).tolist()
    [1, 1]
    """
    return _filled(1, shape, dtype, order, "ones", device, like)


@unbound
def empty(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None) -> Array:
    """Return an array to be overwritten. weft fills it with zeros.

    Examples
    --------
    >>> wf.empty((2, 3)).shape
    (2, 3)
    """
    return _filled(0, shape, dtype, order, "empty", device, like)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None) -> Array:
    """Return an array filled with a number, or with an array that broadcasts.

    Parameters
    ----------
    fill_value : number or array
        Must broadcast to ``shape``.
    dtype : dtype, optional
        By default the dtype that :func:`array` gives ``fill_value``.

    Examples
    --------
    >>> wf.full((2,), 7).tolist()
    [7, 7]
    """
    check_like(like, "full")
    layout(order, "full", "CF")
    if device is not None:
        return create_on_device("full", device, full, shape, fill_value, dtype)
    value = array(fill_value, dtype).node
    extents = shape_tuple(shape, "full")
    return own(broadcast(value, extents))


def _like(x: Any, function: str, dtype: Any, shape: Any) -> tuple[Shape, Format]:
    source = node(x, function, "prototype" if function == "empty_like" else "a")
    return (source.shape if shape is None else shape_tuple(shape, function)), (
        source.dtype if dtype is None else parse_dtype(dtype)
    )


def zeros_like(
    a: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *, device: Any = None,
) -> Array:
    """Return zeros with the shape and dtype of ``a``.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional
        By default that of the given array.
    order, subok
        Ignored: weft's arrays are stored in row-major order and have no subclasses.
    shape : int or tuple of int, optional
        By default that of the given array.
    device : str, optional
        The device of the result, such as "cpu" or "gpu"; by default the current one.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        An extent is negative; the shape holds no integers, or the dtype is unknown; the device is unknown.

    Examples
    --------
    >>> wf.zeros_like(wf.array([1, 2])).tolist()
    [0, 0]
    """
    layout(order, "zeros_like")
    if device is not None:
        return create_on_device("zeros_like", device, zeros_like, a, dtype, order, subok, shape)
    return zeros(*_like(a, "zeros_like", dtype, shape))


def ones_like(
    a: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *, device: Any = None,
) -> Array:
    """Return ones with the shape and dtype of ``a``.

    Examples
    --------
    >>> wf.ones_like(wf.array([1, 2])).tolist()
    [1, 1]
    """
    layout(order, "ones_like")
    if device is not None:
        return create_on_device("ones_like", device, ones_like, a, dtype, order, subok, shape)
    return ones(*_like(a, "ones_like", dtype, shape))


def empty_like(
    prototype: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *, device: Any = None,
) -> Array:
    """Return an array to be overwritten, with the shape and dtype of ``prototype``. weft fills it with zeros.

    Parameters
    ----------
    prototype : array_like

    Examples
    --------
    >>> wf.empty_like(wf.array([1, 2])).shape
    (2,)
    """
    layout(order, "empty_like")
    if device is not None:
        return create_on_device("empty_like", device, empty_like, prototype, dtype, order, subok, shape)
    return zeros_like(prototype, dtype, shape=shape)


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Array:
    """Return an array with the shape and dtype of ``a``, filled with a number or with an array that broadcasts.

    Parameters
    ----------
    fill_value : number or array
        Must broadcast to the shape.

    Examples
    --------
    >>> wf.full_like(wf.array([1, 2]), 5).tolist()
    [5, 5]
    """
    layout(order, "full_like")
    if device is not None:
        return create_on_device("full_like", device, full_like, a, fill_value, dtype, order, subok, shape)
    extents, form = _like(a, "full_like", dtype, shape)
    return full(extents, fill_value, form)


complete_docs(array, asarray)
complete_docs(zeros, ones, empty, full)
complete_docs(zeros_like, ones_like, empty_like, full_like)
