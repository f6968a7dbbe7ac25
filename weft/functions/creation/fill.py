"""Arrays from other objects, of one number, of evenly spaced numbers, and matrices of zeros and ones."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from weft.array import Array, Scalar, ndarray, wrap, wrap_array
from weft.array.convert import (
    convert_assigned,
    is_foreign,
    number_node,
    read_operands,
    refuse_subclass,
    shared_node,
)
from weft.dtypes import formats
from weft.dtypes.formats import COMPLEX, COMPLEX128, DEFAULT, FLOAT64, FLOATS, INEXACT, INT64, INTEGERS, Format
from weft.dtypes.parse import check_like, layout, parse_dtype
from weft.eager.native import NATIVE_ELEMENTS
from weft.eager.peek import fill_leaf
from weft.errors import DTypeError, ShapeError, short
from weft.functions.support import arguments
from weft.functions.support.arguments import (
    broadcast,
    cast,
    check_int,
    create_on_device,
    node,
    op,
    reshape_node,
    shape_tuple,
    unbound,
)
from weft.interop.dlpack import import_array, shared
from weft.process.docstrings import complete_module
from weft.runtime.traced_int import compute_traced, make_static

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
    ndmin : int
        The smallest number of dimensions; missing ones are added in front, with extent 1.
    ndmax : int
        The largest number of dimensions; deeper nesting is refused.

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

    >>> wf.array([[1, 2], [3, 4]], dtype=wf.float32).shape
    (2, 2)
    """
    if type(object) is list and dtype is None and device is None and like is None and order is None and not ndmin:
        if copy is not False and ndmax == MAX_NDIM:
            native = NATIVE_ELEMENTS.join_numbers
            if (result := native(object, DEFAULT.real, INT64)) is not None:
                return result
    check_like(like, "array")
    layout(order, "array")
    if device is not None:
        return create_on_device("array", device, partial(array, ndmax=ndmax), object, dtype, copy, order, subok, ndmin)
    form = None if dtype is None else parse_dtype(dtype)
    if ndmax != MAX_NDIM:
        if not 0 <= check_int(ndmax, "array", "ndmax") <= MAX_NDIM:
            raise ValueError(f"array: ndmax={ndmax} must be from 0 to {MAX_NDIM}, as many as NumPy's arrays have")
        result = array(object, dtype, copy, ndmin=ndmin)
        if result.ndim > ndmax:
            raise ShapeError(f"array: object has shape {result.shape}, more dimensions than ndmax={ndmax}")
        return result
    if ndmin != 0 and check_int(ndmin, "array", "ndmin") > 0:
        if ndmin > MAX_NDIM:
            raise ValueError(f"array: ndmin={ndmin} is more than the {MAX_NDIM} dimensions that NumPy's arrays have at most")
        result = array(object, dtype, copy)
        return result if result.ndim >= ndmin else result.reshape((1,) * (ndmin - result.ndim) + result.shape)
    if isinstance(object, Array) and not copy and not object.weak and (form is None or form is object.node.dtype):
        return wrap_array(object.node) if type(object) is Scalar else object
    if copy is False:
        raise ValueError("array: copy=False needs an Array that already has the dtype; leave it out to copy other objects")
    if isinstance(object, memoryview):
        object = np.asarray(object)
    return wrap_array(node(object, "array", "object") if form is None else convert_assigned(object, form))


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

    shared_array = wrap_array(import_node(obj, "asarray", copy))
    form = shared_array.node.dtype if dtype is None else parse_dtype(dtype)
    target = shared_array.device if device is None else arguments.check_device("asarray", device)
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

    >>> import weft as wf, numpy as np
    >>> wf.from_dlpack(np.arange(3.0)).tolist()
    [0.0, 1.0, 2.0]
    """
    if not hasattr(x, "__dlpack__"):
        raise DTypeError(f"from_dlpack: a {type(x).__name__} has no __dlpack__; use wf.asarray")
    if isinstance(x, Array):
        return wrap_array(x.node) if device is None else create_on_device("from_dlpack", device, from_dlpack, x)
    refuse_subclass(x)
    from weft.interop.cuda_exchange import import_node, is_on_cuda

    if is_on_cuda(x):
        shared_array = wrap_array(import_node(x, "from_dlpack", copy))
        result = shared_array if device is None else create_on_device("from_dlpack", device, asarray, shared_array)
        if copy is False and result is not shared_array:
            raise BufferError(
                f"from_dlpack: with copy=False the result shares memory on {shared_array.device} and cannot be on {device}"
            )
        return result
    if device is not None:
        return create_on_device("from_dlpack", device, partial(from_dlpack, copy=copy), x)
    return wrap_array(shared_node(shared(x)) if copy is False else node(import_array(x), "from_dlpack"))


def _fill(value: Any, shape: Any, dtype: Any, order: Any, function: str, device: Any, like: Any) -> Array:
    if type(shape) is not tuple or order is not None or device is not None or like is not None:
        if like is not None:
            check_like(like, function)
        if dtype is not None and isinstance(shape, (int, np.integer)) and isinstance(dtype, (int, np.integer)):
            given = ", ".join(map(str, [shape, dtype] + [order] * isinstance(order, int)))
            raise DTypeError(f"{function}: {dtype} is no dtype; the shape is one argument, wf.{function}(({given}))")
        if order is not None:
            layout(order, function, "CF")
        if device is not None:
            return create_on_device(function, device, _fill, value, shape, dtype, order, function, None, like)
    form = DEFAULT.real if dtype is None else parse_dtype(dtype)
    native = NATIVE_ELEMENTS.full
    if (result := native(shape, form, value)) is not None:
        return result
    extents = shape_tuple(shape, function)
    filled = fill_leaf(extents, form, lambda memory: memory.fill(value))
    return wrap_array(broadcast(number_node(value, form), extents) if filled is None else filled)


@unbound
def zeros(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None) -> Array:
    """Return an array of zeros.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype, optional
        float32 by default.

    Returns
    -------
    Array
        With this shape.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        An extent is negative; the shape holds no integers, or the dtype is unknown; the device is unknown.

    >>> wf.zeros((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return _fill(0, shape, dtype, order, "zeros", device, like)


def ones(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None) -> Array:
    """Return an array of ones.

    >>> wf.ones(2, dtype=wf.int32).tolist()
    [1, 1]
    """
    return _fill(1, shape, dtype, order, "ones", device, like)


@unbound
def empty(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None) -> Array:
    """Return an array to be overwritten. weft fills it with zeros.

    >>> wf.empty((2, 3)).shape
    (2, 3)
    """
    return _fill(0, shape, dtype, order, "empty", device, like)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None) -> Array:
    """Return an array filled with a number, or with an array that broadcasts.

    Parameters
    ----------
    fill_value : number or array
        Must broadcast to ``shape``.
    dtype : dtype, optional
        By default the dtype that :func:`array` gives ``fill_value``.

    >>> wf.full((2,), 7).tolist()
    [7, 7]
    """
    check_like(like, "full")
    layout(order, "full", "CF")
    if device is not None:
        return create_on_device("full", device, full, shape, fill_value, dtype)
    value = array(fill_value, dtype).node
    extents = shape_tuple(shape, "full")
    return wrap_array(broadcast(value, extents))


def _fill_like(fill: Any, function: str, x: Any, dtype: Any, order: Any, shape: Any, device: Any = None) -> Array:
    layout(order, function)
    if device is not None:
        return create_on_device(function, device, _fill_like, fill, function, x, dtype, order, shape)
    source = node(x, function, "prototype" if function == "empty_like" else "a")
    extents = source.shape if shape is None else shape_tuple(shape, function)
    return fill(extents, source.dtype if dtype is None else parse_dtype(dtype))


def zeros_like(
    a: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *, device: Any = None,
) -> Array:
    """Return zeros with the shape and dtype of ``a``.

    Parameters
    ----------
    dtype : dtype, optional
        By default that of the given array.
    shape : int or tuple of int, optional
        By default that of the given array.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        An extent is negative; the shape holds no integers, or the dtype is unknown; the device is unknown.

    >>> wf.zeros_like(wf.array([1, 2])).tolist()
    [0, 0]
    """
    return _fill_like(zeros, "zeros_like", a, dtype, order, shape, device)


def ones_like(
    a: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *, device: Any = None,
) -> Array:
    """Return ones with the shape and dtype of ``a``.

    >>> wf.ones_like(wf.array([1, 2])).tolist()
    [1, 1]
    """
    return _fill_like(ones, "ones_like", a, dtype, order, shape, device)


def empty_like(
    prototype: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *, device: Any = None,
) -> Array:
    """Return an array to be overwritten, with the shape and dtype of ``prototype``. weft fills it with zeros.

    Parameters
    ----------
    prototype : array_like

    >>> wf.empty_like(wf.array([1, 2])).shape
    (2,)
    """
    return _fill_like(zeros, "empty_like", prototype, dtype, order, shape, device)


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = None, subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Array:
    """Return an array with the shape and dtype of ``a``, filled with a number or with an array that broadcasts.

    Parameters
    ----------
    fill_value : number or array
        Must broadcast to the shape.

    >>> wf.full_like(wf.array([1, 2]), 5).tolist()
    [5, 5]
    """
    return _fill_like(lambda extents, form: full(extents, fill_value, form), "full_like", a, dtype, order, shape, device)


def diagonal_number(rows: int, columns: int) -> arguments.Node:
    """Return column minus row of each element of a matrix, as int64."""
    column = op("iota", shape=(1, columns), dtype=INT64, axis=1)
    return op("subtract", column, op("iota", shape=(rows, 1), dtype=INT64, axis=0))


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None, order: Any = None, *, device: Any = None, like: Any = None,
) -> Array:
    """Return a matrix with ones on one diagonal and zeros elsewhere.

    Parameters
    ----------
    N, M : int
        The number of rows and of columns; ``M`` is ``N`` by default.
    k : int
        The diagonal: 0 is the main one, positive numbers are above it.
    dtype : dtype, optional
        float32 by default.

    Returns
    -------
    (N, M) Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        An extent is negative; an argument is no integer, or the dtype is unknown; the device is unknown.

    >>> wf.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check_like(like, "eye")
    layout(order, "eye", "CF")
    if device is not None:
        return create_on_device("eye", device, eye, N, M, k, dtype)
    if isinstance(N, tuple | list):
        separate = f"wf.eye({', '.join(map(str, N))})"
        raise DTypeError(f"eye: N must be an integer, not {N}; the extents are arguments of their own, {separate}")
    rows, columns = shape_tuple((N, N if M is None else M), "eye", "N, M")
    form, at = DEFAULT.real if dtype is None else parse_dtype(dtype), _clamp_diagonal(rows, columns, k)
    result = fill_leaf((rows, columns), form, lambda memory: np.copyto(memory, np.eye(rows, columns, at, form.numpy)))
    if result is None:
        result = cast(op("equal", diagonal_number(rows, columns), number_node(at, INT64)), form)
    return wrap(result)


def identity(n: int, dtype: Any = None, *, like: Any = None) -> Array:
    """Return the identity matrix with ``n`` rows.

    Parameters
    ----------
    n : int

    Returns
    -------
    (n, n) Array

    >>> wf.identity(1).tolist()
    [[1.0]]
    """
    check_like(like, "identity")
    return eye(check_int(n, "identity", "n"), dtype=dtype)


def lower_mask(rows: int, columns: int, k: int) -> arguments.Node:
    """Return a mask of the elements on or below the k-th diagonal."""
    return op("less_equal", diagonal_number(rows, columns), number_node(_clamp_diagonal(rows, columns, k), INT64))


def _clamp_diagonal(rows: int, columns: int, k: int) -> int:
    """Return ``k`` limited to the matrix: all diagonals outside of it have the same effect."""
    return max(-rows, min(check_int(k, "eye", "k"), columns))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None, *, like: Any = None) -> Array:
    """Return a matrix with ones on and below a diagonal and zeros above it. A negative ``N`` or ``M`` counts as 0.

    Raises
    ------
    DTypeError
        An argument is no integer, or the dtype is unknown.

    >>> wf.tri(2, 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    check_like(like, "tri")
    rows, columns = (max(0, check_int(n, "tri", "N, M")) for n in (N, N if M is None else M))
    return wrap(cast(lower_mask(rows, columns, k), DEFAULT.real if dtype is None else parse_dtype(dtype)))


def _triangle(function: str, x: Any, k: int, lower: bool) -> Array:
    if type(x) is ndarray and x.ndim > 1 and (result := arguments.try_numpy(np.tril if lower else np.triu, x, k)) is not None:
        return result
    value = node(x, function, "m")
    if not value.shape:
        raise ShapeError(f"{function}: m has no dimensions; a vector, a matrix or a stack of matrices is needed")
    rows, columns = (value.shape * 2)[-2:] if len(value.shape) == 1 else value.shape[-2:]
    mask = lower_mask(rows, columns, check_int(k, function, "k") - (not lower))
    zero = arguments.number(0, value.dtype)
    return wrap(op("where", mask, value, zero) if lower else op("where", mask, zero, value))


def tril(m: Any, k: int = 0) -> Array:
    """Return ``m`` with zeros above the k-th diagonal.

    Parameters
    ----------
    m : (..., M, N) or (N,)
        A vector is repeated as the rows of a square matrix, as in NumPy.
    k : int
        The last diagonal that is kept: 0 is the main one, positive numbers are above it.

    Returns
    -------
    Array of the shape and dtype of ``m``

    Raises
    ------
    ShapeError
        ``m`` has no dimensions.

    >>> wf.tril(wf.ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _triangle("tril", m, k, True)


def triu(m: Any, k: int = 0) -> Array:
    """Return ``m`` with zeros below the k-th diagonal.

    Parameters
    ----------
    k : int
        The first diagonal that is kept: 0 is the main one, positive numbers are above it.

    >>> wf.triu(wf.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _triangle("triu", m, k, False)


@unbound
def arange(
    start: Any = None, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None, like: Any = None,
) -> Array:
    """Return the numbers from ``start`` up to, but not including, ``stop``. A single argument is ``stop``; ``start`` is then 0.

    Parameters
    ----------
    start, stop, step : number
    dtype : dtype, optional
        int64 if all arguments are integers, else float32.

    Returns
    -------
    (ceil((stop - start) / step),) Array
        Empty if that is negative.

    Raises
    ------
    DTypeError, ValueError
        An argument is no number, or the dtype is unknown; an argument is not finite, the step is 0, or the device is unknown.

    >>> wf.arange(2, 8, 3).tolist()
    [2, 5]
    """
    check_like(like, "arange")
    if device is not None:
        return arguments.create_on_device("arange", device, arange, start, stop, step, dtype)
    if stop is None:
        start, stop = None, start
    start, step = 0 if start is None else start, 1 if step is None else step
    first, last, by = start, stop, step
    integers = type(first) is type(last) is type(by) is int
    if not integers:
        for x in (start, stop, step):
            if isinstance(x, (Array, np.ndarray)) and x.size != 1:
                raise DTypeError(f"arange: start, stop and step must be numbers, not an array of shape {x.shape}")
        numbers = [x.item() if isinstance(x, (Array, np.generic, np.ndarray)) else make_static(x) for x in (start, stop, step)]
        if not all(type(x) in arguments.NUMBERS for x in numbers):
            raise DTypeError(f"arange: start, stop and step must be numbers, not {start!r}, {stop!r}, {step!r}")
        first, last, by = numbers
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"arange: start={first}, stop={last} and step={by} must be finite")
        integers = all(type(x) is not float for x in numbers)
    if by == 0:
        raise ValueError("arange: step must not be 0")
    count = max(0, -((first - last) // by) if integers else math.ceil((last - first) / by))
    form = (INT64 if integers else DEFAULT.real) if dtype is None else parse_dtype(dtype)
    if form in INTEGERS and not integers and max(map(abs, (first, first + by, first + count * by))) < 2**62:
        start = int(first)  # like NumPy: cast the first two numbers and repeat their difference
        first, by, integers = start, int(first + by) - start, True
    if not form.narrow and (integers or form in FLOATS):
        result = fill_leaf((count,), form, lambda line: np.copyto(line, np.arange(count) * by + first, casting="unsafe"))
        if result is not None:
            return wrap(result)
    if first == 0 and by == 1:
        return wrap(cast(op("iota", shape=(count,), dtype=INT64, axis=0), form))
    work_form = INT64 if integers else FLOAT64
    place = op("iota", shape=(count,), dtype=work_form, axis=0)
    scaled = op("multiply", place, number_node(int(by) if integers else float(by), work_form))
    return wrap(cast(op("add", scaled, number_node(int(first) if integers else float(first), work_form)), form))


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *,
    device: Any = None,
) -> Any:
    """Return ``num`` evenly spaced numbers from ``start`` to ``stop``, computed in float64.

    Parameters
    ----------
    start, stop : number or array
    num : int
        The number of samples.
    endpoint : bool
        Whether ``stop`` is the last sample.
    retstep : bool
        Also return the spacing.
    dtype : dtype, optional
        float32 by default; float64 if ``start`` or ``stop`` is an array of float64.
    axis : int
        The axis of the result along which the samples run, if ``start`` or ``stop`` is an array.

    Returns
    -------
    (num,) Array, or (num, ...) for arrays
        With ``retstep`` of :func:`linspace` a pair of it and the spacing.

    Raises
    ------
    ShapeError, DTypeError, AxisError, ValueError
        ``num`` is negative; the dtype is unknown; the axis does not exist; the device is unknown.

    >>> wf.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if device is not None:
        return arguments.create_on_device("linspace", device, linspace, start, stop, num, endpoint, retstep, dtype, axis)
    count = arguments.count_from_zero(num, "linspace", "num")
    is_complex = _has_complex(start, stop)
    if is_complex or (dtype is not None and parse_dtype(dtype) in COMPLEX):
        form = formats.complex_format(_default_format(start, stop)) if dtype is None else parse_dtype(dtype)
        return _complex_line(start, stop, count, endpoint, form, retstep, axis)
    gaps = count - 1 if endpoint else count
    shapes = [() if isinstance(x, arguments.NUMBERS) else np.shape(x) for x in (start, stop)]
    if shapes == [(), ()] and not any([getattr(x, "weak", False) for x in (start, stop)]):
        arguments.axis_index(axis, 1, "linspace")
        result_form = _default_format(start, stop) if dtype is None else parse_dtype(dtype)
        first, last = compute_traced(float, start), compute_traced(float, stop)
        by = (last - first) / gaps if gaps > 0 else 0.0
        values = _evenly_spaced(first, last, by, count, endpoint and count > 1)
        step: Any = by if gaps > 0 else math.nan
    else:
        promoted = read_operands((start, stop), formats.promote, formats.weak)[1]
        result_form = (promoted if promoted in FLOATS else DEFAULT.real) if dtype is None else parse_dtype(dtype)
        a, b = (arguments.convert_for_write(x, FLOAT64, "linspace", name) for x, name in ((start, "start"), (stop, "stop")))
        shape = arguments.broadcast_shapes("linspace", a.shape, b.shape)
        low, high = (reshape_node(broadcast(n, shape), (1, *shape)) for n in (a, b))
        wide = op("divide", op("subtract", high, low), number_node(float(max(gaps, 1)), FLOAT64))
        place = op("iota", shape=(count,) + (1,) * len(shape), dtype=FLOAT64, axis=0)
        values = op("add", op("multiply", place, wide), low)
        if endpoint and count > 1:
            values = op("where", op("equal", place, number_node(count - 1, FLOAT64)), high, values)
        step = wrap(cast(reshape_node(wide, shape), result_form if result_form in FLOATS else DEFAULT.real))
        where_to = arguments.axis_index(axis, len(shape) + 1, "linspace")
        values = arguments.permute_node(values, (*range(1, where_to + 1), 0, *range(where_to + 1, len(shape) + 1)))
    if result_form not in FLOATS:
        values = op("floor", values)
    result = wrap(cast(values, result_form))
    return (result, step) if retstep else result


def _evenly_spaced(first: float, last: float, by: float, count: int, closed: bool) -> arguments.Node:
    """Return ``count`` evenly spaced float64 numbers; with ``closed`` the last one is exactly ``last``."""

    def fill(line: np.ndarray) -> None:
        with np.errstate(all="ignore"):
            np.multiply(np.arange(count), by, line)
            line += first
        if closed:
            line[-1] = last

    if (leaf := fill_leaf((count,), FLOAT64, fill)) is not None:
        return leaf
    place = op("iota", shape=(count,), dtype=FLOAT64, axis=0)
    values = op("add", op("multiply", place, number_node(by, FLOAT64)), number_node(first, FLOAT64))
    if not closed:
        return values
    return op("where", op("equal", place, number_node(count - 1, FLOAT64)), number_node(last, FLOAT64), values)


def _has_complex(*operands: Any) -> bool:
    """Return whether an argument is a complex number or array."""
    numbers = arguments.NUMBERS
    return any(isinstance(x, complex) or (not isinstance(x, numbers) and node(x, "linspace").dtype in COMPLEX) for x in operands)


def _default_format(*operands: Any) -> Format:
    """Return the default format of the result: complex, or promoted from the arguments if the default float is float64."""
    if not DEFAULT.wide:
        return FLOAT64 if _has_64_bit_array(*operands) else DEFAULT.real
    promoted = read_operands(operands, formats.promote, formats.weak)[1]
    return promoted if promoted in INEXACT else DEFAULT.real


def _has_64_bit_array(*operands: Any) -> bool:
    """Return whether an argument is an array of float64 or complex128."""
    return any(getattr(x, "dtype", None) in (np.float64, np.complex128) and np.ndim(x) for x in operands)


def _complex_line(start: Any, stop: Any, num: int, endpoint: bool, form: Format, retstep: bool, axis: int) -> Any:
    """Return complex samples: real and imaginary parts are computed separately."""
    parts = []
    plain = [x if isinstance(x, arguments.NUMBERS) or type(x) is complex else wrap(node(x, "linspace")) for x in (start, stop)]
    for of in ("real", "imag"):
        low, high = (getattr(x, of) for x in plain)
        parts.append(linspace(low, high, num, endpoint, True, FLOAT64, axis))
    (a, step), (b, turn) = parts
    result = wrap(cast(op("complex", a.node, b.node), form))
    if not retstep:
        return result
    return result, complex(step, turn) if isinstance(step, float) else wrap(cast(op("complex", step.node, turn.node), form))


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0,
) -> Array:
    """Return numbers from ``base**start`` to ``base**stop``, evenly spaced on a logarithmic scale.

    Parameters
    ----------
    start, stop : number or array
        The exponents.
    base : number or array
        An array broadcasts with ``start`` and ``stop``.

    >>> wf.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    work_form = COMPLEX128 if _has_complex(start, stop, base) else FLOAT64
    first, last, root = start, stop, arguments.convert_for_write(base, work_form, "logspace", "base")
    if root.shape:  # base broadcasts with start and stop; the samples run along an axis of their own
        nodes = [arguments.convert_for_write(x, work_form, "logspace", name) for x, name in ((start, "start"), (stop, "stop"))]
        ndim = len(arguments.broadcast_shapes("logspace", *(n.shape for n in nodes), root.shape))
        first, last, wide = (wrap(reshape_node(n, (1,) * (ndim - len(n.shape)) + n.shape)) for n in (*nodes, root))
        axis = arguments.axis_index(axis, ndim + 1, "logspace")
        root = reshape_node(wide.node, (*wide.shape[:axis], 1, *wide.shape[axis:]))
    exponents = linspace(first, last, num, endpoint, False, work_form, axis)
    powers = op("pow", root, exponents.node)
    if dtype is None and DEFAULT.wide:
        dtype = _default_format(start, stop, base).numpy
    return _cast_samples(powers, (start, stop, base), dtype)


def _cast_samples(samples: arguments.Node, ends: Any, dtype: Any) -> Array:
    """Convert the computed numbers to ``dtype``, or to the format that the arguments imply."""
    form = FLOAT64 if _has_64_bit_array(*ends) else DEFAULT.real
    form = parse_dtype(dtype) if dtype is not None else formats.complex_format(form) if samples.dtype in COMPLEX else form
    return wrap(cast(samples, form))


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Array:
    """Return numbers from ``start`` to ``stop``, each a constant multiple of the previous one.

    Parameters
    ----------
    start, stop : number or array
        Not zero; both of the same sign, or complex.

    Raises
    ------
    ValueError, ShapeError, DTypeError, AxisError
        ``start`` or ``stop`` is zero; ``num`` is negative; the dtype is unknown; the axis does not exist.

    >>> [round(x, 4) for x in wf.geomspace(1, 1000, 4).tolist()]
    [1.0, 10.0, 100.0, 1000.0]
    """
    work_form = COMPLEX128 if _has_complex(start, stop) or (dtype is not None and parse_dtype(dtype) in COMPLEX) else FLOAT64
    low, high = (arguments.convert_for_write(x, work_form, "geomspace", name) for x, name in ((start, "start"), (stop, "stop")))
    for name, x in (("start", low), ("stop", high)):
        content = arguments.read_if_known(x, "geomspace", name)
        if content is not None and not content.all():
            raise ValueError(f"geomspace: {name} must not be zero, but is {short(start if x is low else stop)}")
    sign = op("sign", low)  # dividing by it makes the first number positive, and real if it was complex
    first, last = (wrap(op("log10", op("divide", n, sign))) for n in (low, high))
    samples = op("multiply", logspace(first, last, num, endpoint, 10.0, work_form).node, sign)
    count = samples.shape[0]
    place = reshape_node(op("iota", shape=(count,), dtype=INT64, axis=0), (count,) + (1,) * (len(samples.shape) - 1))
    samples = op("where", op("equal", place, number_node(0, INT64)), low, samples)
    if endpoint and count > 1:
        samples = op("where", op("equal", place, number_node(count - 1, INT64)), high, samples)
    where_to = arguments.axis_index(axis, len(samples.shape), "geomspace")
    samples = arguments.permute_node(samples, (*range(1, where_to + 1), 0, *range(where_to + 1, len(samples.shape))))
    return _cast_samples(samples, (start, stop), dtype)


def meshgrid(*arrays: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    """Return the coordinates of a grid, one array per dimension.

    Parameters
    ----------
    *arrays : arrays
        One-dimensional; others are flattened.
    copy : bool
        Ignored: the results are no views.
    sparse : bool
        Return each array with extent 1 along all other axes, so that the arrays broadcast to the grid.
    indexing : "xy" or "ij"
        "xy": the first array runs along axis 1, as in pictures.

    Returns
    -------
    tuple of Array
        Each with the shape of the grid: the lengths of the arrays, with the first two exchanged for "xy".

    Raises
    ------
    ValueError
        ``indexing`` is something else.

    >>> x, y = wf.meshgrid(wf.arange(2), wf.arange(3))
    >>> x.tolist()
    [[0, 1], [0, 1], [0, 1]]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing={indexing!r} must be 'xy' or 'ij'")
    nodes = [node(x, "meshgrid", f"arrays[{k}]") for k, x in enumerate(arrays)]
    places = list(range(len(nodes)))
    if indexing == "xy" and len(nodes) > 1:
        places[:2] = 1, 0
    extents = [0] * len(nodes)
    for place, value in zip(places, nodes, strict=True):
        extents[place] = value.size
    out = []
    for place, value in zip(places, nodes, strict=True):
        line = reshape_node(value, tuple(value.size if a == place else 1 for a in range(len(nodes))))
        out.append(wrap(line if sparse else broadcast(line, tuple(extents))))
    return tuple(out)


complete_module(
    globals(), (array, asarray), (zeros, ones, empty, full), (zeros_like, ones_like, empty_like, full_like), (eye, identity,
    tri), (tril, triu), (linspace, logspace, geomspace),
)
