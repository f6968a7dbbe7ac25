"""Sums, products, extremes, their positions, and running totals.

``axis`` is None (all axes), an integer or a tuple. Integers are summed in 64 bits, as in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import BOOL, INT64, Format, holds, summed
from weft.dtypes.parse import spelled
from weft.eager.native import Shaped, asked_again
from weft.eager.peek import at_hand, leaf
from weft.errors import AxisError, DTypeError, ShapeError, as_called, renamed
from weft.functions.support.arguments import (
    Axis,
    alias,
    axes_of,
    axis_index,
    broadcast,
    cast,
    finish,
    held,
    node,
    number,
    op,
    reduced,
    reshaped,
    widened,
)
from weft.graph.node import Node


def _sum_dtype(value: Node, dtype: Any, out: Any = None) -> Format:
    if dtype is not None:
        return spelled(dtype)
    return summed(value.dtype) if out is None else widened(value.dtype, out)


def _fold(
    function: str, x: Any, axis: Axis, keepdims: bool, out: Array | None, dtype: Any = None, additive: bool = False,
    initial: Any = None, where: Any = True,
) -> Array:
    value = node(x, function, "a")
    if initial is not None or where is not True:
        return _begun(function, value, axis, keepdims, out, dtype, initial, where)
    axes = axes_of(axis, value.shape, function)
    if additive and _sum_dtype(value, dtype, out) == BOOL:  # a sum of truths says whether one holds, a product whether all do
        return _truth("any" if function == "sum" else "all", value, axis, keepdims, out)
    if additive:
        value = cast(value, _sum_dtype(value, dtype, out))
    elif 0 in value.shape and 0 in (value.shape[a] for a in axes):
        raise ShapeError(f"{function}: an array of shape {value.shape} has no element along axis={axis}")
    return finish(reduced(f"reduce_{function}", value, axes, keepdims), out, function)


_NEUTRAL: dict[str, Any] = {"sum": 0, "prod": 1}
_OF_TRUTHS = {
    "sum": ("reduce_max", "logical_or"), "max": ("reduce_max", "logical_or"), "prod": ("reduce_min", "logical_and"),
    "min": ("reduce_min", "logical_and"),
}
_JOIN = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}


def _begun(
    function: str, value: Node, axis: Axis, keepdims: bool, out: Array | None, dtype: Any, initial: Any, where: Any,
) -> Array:
    """With a number to begin with, and without the elements that a mask leaves out."""
    value = cast(value, _sum_dtype(value, dtype, out) if function in _NEUTRAL else widened(value.dtype, out))
    begin = _NEUTRAL.get(function) if initial is None else initial
    if begin is None:
        raise ValueError(as_called(f"{function}: where= needs initial=, since a {function} of nothing is not defined"))
    first = held(begin, value.dtype, function, "initial")
    if where is not True:
        mask = cast(node(where, function, "where"), BOOL)
        neutral = number(_NEUTRAL[function], value.dtype) if function in _NEUTRAL else first
        value = op("where", broadcast(mask, value.shape), value, neutral)
    axes = axes_of(axis, value.shape, function)
    if (function not in _NEUTRAL or value.dtype is BOOL) and 0 in [value.shape[a] for a in axes]:
        shape = tuple(1 if a in axes else n for a, n in enumerate(value.shape) if keepdims or a not in axes)
        return finish(broadcast(first, shape), out, function)
    fold, join = _OF_TRUTHS[function] if value.dtype is BOOL else (f"reduce_{function}", _JOIN[function])
    return finish(op(join, reduced(fold, value, axes, keepdims), first), out, function)


def sum(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:
    """Sum along axes.

    Parameters
    ----------
    a : array
    axis : int or tuple of int, optional
        None: all of them.
    dtype : dtype, optional
        Of the sum; by default 64-bit integers for integers and bools, else the dtype of ``a``.
    out : Array, optional
    keepdims : bool
        Keep the summed axes with extent 1.
    initial : number, optional
        What to begin with.
    where : array of bools, optional
        Which elements count.

    Returns
    -------
    Array
        Without the summed axes; all elements give shape ().

    Raises
    ------
    AxisError, DTypeError
        The array has no such axis, or one is named twice; an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.sum(wf.array([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
    [4.0, 6.0]
    """
    if (
        dtype is not None or out is not None or initial is not None or where is not True or type(axis) not in _ONE
        or type(keepdims) is not bool
    ):
        return _fold("sum", a, axis, keepdims, out, dtype, True, initial, where)
    shaped = _SUMS.get((axis, keepdims))
    if shaped is None:
        shaped = _SUMS[axis, keepdims] = Shaped(lambda value: _summed(value, axis, keepdims))
    native = shaped.call
    found = native(a)
    if found is None:
        found = asked_again(native, a)
    if found is None:
        found = _fold("sum", a, axis, keepdims, out, dtype, additive=True)
        if isinstance(a, Array):
            shaped.did(found.node, a.node)
    return found


_SUMS: dict[tuple[Any, bool], Shaped] = {}
_ONE = (type(None), int)


def _summed(value: Node, axis: Axis, keepdims: bool) -> Node:
    return reduced("reduce_sum", cast(value, _sum_dtype(value, None)), axes_of(axis, value.shape, "sum"), keepdims)


def prod(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:
    """Product along axes.

    Parameters
    ----------
    a, axis, dtype, out, keepdims, initial, where : as in :func:`sum`

    Returns
    -------
    Array : shape and dtype as those of :func:`sum`

    Raises
    ------
    AxisError, DTypeError
        As :func:`sum`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.prod(wf.array([[1, 2], [3, 4]]), axis=1).tolist()
    [2, 12]
    """
    return _fold("prod", a, axis, keepdims, out, dtype, True, initial, where)


def max(
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Array:
    """Largest element along axes; NaN if one of them is NaN.

    Parameters
    ----------
    a, axis, out, keepdims, initial, where : as in :func:`sum`; ``where`` needs an ``initial``

    Returns
    -------
    Array
        Of the dtype of ``a``, without the axes.

    Raises
    ------
    ShapeError, AxisError, ValueError
        There is no element; no such axis; ``where`` without ``initial``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.max(wf.array([[1.0, 5.0], [3.0, 4.0]]), axis=0).tolist()
    [3.0, 5.0]
    """
    return _fold("max", a, axis, keepdims, out, None, False, initial, where)


def min(
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Array:
    """Smallest element along axes; NaN if one of them is NaN.

    Parameters
    ----------
    a, axis, out, keepdims, initial, where : as in :func:`sum`; ``where`` needs an ``initial``

    Returns
    -------
    Array
        Of the dtype of ``a``, without the axes.

    Raises
    ------
    ShapeError, AxisError, ValueError
        There is no element; no such axis; ``where`` without ``initial``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.min(wf.array([[1.0, 5.0], [3.0, 4.0]]), axis=1).tolist()
    [1.0, 3.0]
    """
    return _fold("min", a, axis, keepdims, out, None, False, initial, where)


def ptp(a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Largest less smallest element along axes.

    Parameters
    ----------
    a, axis, out, keepdims : as in :func:`sum`

    Returns
    -------
    Array
        Of the dtype of ``a``, without the axes.

    Raises
    ------
    ShapeError, AxisError
        There is no element, or no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ptp(wf.array([1.0, 5.0, 3.0])).tolist()
    4.0
    """
    try:
        high, low = node(max(a, axis, keepdims=keepdims), "ptp"), node(min(a, axis, keepdims=keepdims), "ptp")
    except (ShapeError, AxisError) as error:
        raise renamed(error, "ptp") from None
    high, low = (cast(n, widened(n.dtype, out)) for n in (high, low))
    return finish(op("subtract", high, low), out, "ptp")


def _truth(function: str, x: Any, axis: Axis, keepdims: bool, out: Array | None, where: Any = True) -> Array:
    value = cast(node(x, function, "a"), BOOL)
    if where is not True:
        mask = cast(node(where, function, "where"), BOOL)
        value = op("where", broadcast(mask, value.shape), value, number(function == "all", BOOL))
    axes = axes_of(axis, value.shape, function)
    if 0 in (value.shape[a] for a in axes):  # all of nothing is true, any of nothing is false
        shape = tuple(1 if a in axes else n for a, n in enumerate(value.shape) if keepdims or a not in axes)
        return finish(op("broadcast_to", number(function == "all", BOOL), shape=shape), out, function)
    name = "reduce_min" if function == "all" else "reduce_max"
    return finish(reduced(name, value, axes, keepdims), out, function)


def all(
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True,
) -> Array:
    """Whether all elements along axes are true (not zero); of no elements: True.

    Parameters
    ----------
    a, axis, out, keepdims, where : as in :func:`sum`

    Returns
    -------
    Array of bool, without the axes

    Raises
    ------
    AxisError
        The array has no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.all(wf.array([[1, 0], [1, 1]]), axis=1).tolist()
    [False, True]
    """
    return _truth("all", a, axis, keepdims, out, where)


def any(
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True,
) -> Array:
    """Whether an element along axes is true (not zero); of no elements: False.

    Parameters
    ----------
    a, axis, out, keepdims, where : as in :func:`sum`

    Returns
    -------
    Array of bool, without the axes

    Raises
    ------
    AxisError
        The array has no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.any(wf.array([[0, 0], [1, 0]]), axis=1).tolist()
    [False, True]
    """
    return _truth("any", a, axis, keepdims, out, where)


def count_nonzero(a: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements along axes are not zero.

    Parameters
    ----------
    a, axis, keepdims : as in :func:`sum`

    Returns
    -------
    Array of int64, without the axes

    Raises
    ------
    AxisError
        The array has no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.count_nonzero(wf.array([1.0, 0.0, 2.0])).tolist()
    2
    """
    value = node(a, "count_nonzero", "a")
    known = None if axis is not None or keepdims is not False or value.dtype.narrow else at_hand(value)
    if known is not None:
        return wrap(leaf(np.asarray(np.count_nonzero(known[0])), INT64))
    return sum(cast(value, BOOL), axis, INT64, None, keepdims)


def _place(function: str, x: Any, axis: int | None, keepdims: bool, out: Array | None) -> Array:
    value = node(x, function, "a")
    if axis is not None and (value.shape or type(axis) is not int):
        axis = axis_index(axis, len(value.shape), function)
    axes = axes_of(axis, value.shape, function)
    if 0 in value.shape and 0 in (value.shape[a] for a in axes):
        raise ShapeError(f"{function}: an array of shape {value.shape} has no element along axis={axis}")
    if out is not None and not holds(INT64, widened(INT64, out)):
        raise DTypeError(f"{function}: out has dtype {widened(INT64, out)}; places are int64")
    if not axes:
        return finish(number(0, INT64), out, function)
    return finish(reduced(function, value, axes, keepdims), out, function)


def argmax(a: Any, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Where the largest element is: the first of equals; a NaN counts as largest.

    Parameters
    ----------
    a : array
    axis : int, optional
        None: the position in the flattened array.
    out : Array, optional
    keepdims : bool

    Returns
    -------
    Array of int64, without the axis

    Raises
    ------
    ShapeError, AxisError
        There is no element, or no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.argmax(wf.array([[1.0, 5.0], [3.0, 3.0]]), axis=1).tolist()
    [1, 0]
    """
    return _place("argmax", a, axis, keepdims, out)


def argmin(a: Any, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Where the smallest element is: the first of equals; a NaN counts as smallest.

    Parameters
    ----------
    a, axis, out, keepdims : as in :func:`argmax`

    Returns
    -------
    Array of int64, without the axis

    Raises
    ------
    ShapeError, AxisError
        There is no element, or no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.argmin(wf.array([[1.0, 5.0], [3.0, 3.0]]), axis=0).tolist()
    [0, 1]
    """
    return _place("argmin", a, axis, keepdims, out)


amax, amin = alias(max, "amax"), alias(min, "amin")


def _running(
    function: str, x: Any, axis: int | None, dtype: Any, out: Any, flat: bool, begun: bool = False,
) -> Array:
    """flat : whether without an axis more than one dimension is one line"""
    value = node(x, function, "a")
    wanted = spelled(dtype) if dtype is not None else summed(value.dtype) if out is None else widened(value.dtype, out)
    if axis is None and len(value.shape) > 1 and not flat:
        raise ValueError(f"{function}: x has shape {value.shape}: of more than one dimension, axis= must be named")
    value = cast(cast(value, BOOL), INT64) if wanted == BOOL else cast(value, wanted.computed)
    if axis is None or not value.shape:
        value, axis = reshaped(value, (value.size,)), 0 if axis is None else axis
    axis = axis_index(axis, len(value.shape), function)
    sums = function.endswith("sum")
    value = op("cumulative_sum" if sums else "cumulative_prod", value, axis=axis)
    if begun:
        low = tuple(int(a == axis) for a in range(len(value.shape)))
        value = op("pad", value, low=low, high=(0,) * len(low), value=int(not sums))
    return finish(cast(value, wanted), out, function)


def cumulative_sum(
    x: Any, /, axis: int | None = None, dtype: Any = None, out: Array | None = None, *, include_initial: bool = False
) -> Array:
    """Running sum along an axis.

    Parameters
    ----------
    x : array
    axis : int, optional
        May be left out where there is one dimension.
    dtype, out : as in :func:`sum`
    include_initial : bool
        Begin with a zero; the axis is one longer then.

    Returns
    -------
    Array
        Of the shape of ``x``, and of the dtype of :func:`sum`.

    Raises
    ------
    AxisError, DTypeError, ValueError
        The array has no such axis; an unknown dtype; no ``axis`` among several.

    Examples
    --------
    >>> import weft as wf
    >>> wf.cumulative_sum(wf.array([1, 2, 3])).tolist()
    [1, 3, 6]
    """
    return _running("cumulative_sum", x, axis, dtype, out, False, include_initial)


def cumulative_prod(
    x: Any, /, axis: int | None = None, dtype: Any = None, out: Array | None = None, *, include_initial: bool = False
) -> Array:
    """Running product along an axis.

    Parameters
    ----------
    x, axis, dtype, out : as in :func:`cumulative_sum`
    include_initial : bool
        Begin with a one; the axis is one longer then.

    Returns
    -------
    Array
        Of the shape of ``x``, and of the dtype of :func:`prod`.

    Raises
    ------
    AxisError, DTypeError, ValueError
        As :func:`cumulative_sum`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.cumulative_prod(wf.array([1, 2, 3, 4])).tolist()
    [1, 2, 6, 24]
    """
    return _running("cumulative_prod", x, axis, dtype, out, False, include_initial)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Array | None = None) -> Array:
    """Running sum along an axis; without one, of the flattened array.

    Parameters
    ----------
    a : array
    axis : int, optional
    dtype, out : as in :func:`sum`

    Returns
    -------
    Array
        Of the shape of ``a`` (flattened without ``axis``), and of the dtype of :func:`sum`.

    Raises
    ------
    AxisError, DTypeError
        The array has no such axis; an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.cumsum(wf.array([[1, 2], [3, 4]])).tolist()
    [1, 3, 6, 10]
    """
    return _running("cumsum", a, axis, dtype, out, True)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Array | None = None) -> Array:
    """Running product along an axis; without one, of the flattened array.

    Parameters
    ----------
    a, axis, dtype, out : as in :func:`cumsum`

    Returns
    -------
    Array
        Of the shape of ``a`` (flattened without ``axis``), and of the dtype of :func:`prod`.

    Raises
    ------
    AxisError, DTypeError
        As :func:`cumsum`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.cumprod(wf.array([1, 2, 3, 4])).tolist()
    [1, 2, 6, 24]
    """
    return _running("cumprod", a, axis, dtype, out, True)
