"""Sums, means and extremes of the elements that are not NaN; a complex number is NaN where one of its parts is."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import BOOL, COMPLEX, FLOAT32, INEXACT
from weft.dtypes.parse import spelled
from weft.errors import ShapeError
from weft.functions.elementwise.ufuncs import isnan
from weft.functions.indexing.where import where as choose
from weft.functions.reductions.folds import all, argmax, argmin, cumprod, cumsum, max, min, prod, sum
from weft.functions.support.arguments import (
    Axis,
    arrays,
    axes_of,
    cast,
    extent_of,
    finish,
    floating,
    freedom_lost,
    held,
    is_number,
    magnitude,
    node,
    norm_root,
    op,
    warn_of_empty_mean,
    warn_of_freedom,
    widened,
)
from weft.graph.primitives.rules import broadcast as two_shapes


def _without(function: str, x: Any, stand_in: float) -> Array:
    """``x`` with a number in place of each NaN; in float32 where its format has no infinity that is asked for."""
    (value,) = arrays(function, a=x)
    if value.node.dtype not in INEXACT:
        return value
    if value.node.dtype.finite and np.isinf(stand_in):
        value = wrap(cast(value.node, FLOAT32))
    number = complex(stand_in, stand_in) if value.node.dtype in COMPLEX and np.isinf(stand_in) else stand_in
    return choose(isnan(value), number, value)


def _none_left(value: Array, axis: Axis, keepdims: bool, where: Any = True) -> Array | None:
    """Whether all elements along axes are NaN; None where none can be."""
    return all(isnan(value), axis, keepdims=keepdims, where=where) if value.node.dtype in INEXACT else None


def nansum(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:
    """Sum of the elements that are not NaN.

    Parameters
    ----------
    a, axis, dtype, out, keepdims, initial, where : as in :func:`sum`

    Returns
    -------
    Array without the axes; 0 where all are NaN

    Raises
    ------
    AxisError, DTypeError
        As :func:`sum`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nansum(wf.array([1.0, wf.nan, 2.0])).tolist()
    3.0
    """
    return sum(_without("nansum", a, 0.0), axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:
    """Product of the elements that are not NaN.

    Parameters
    ----------
    a, axis, dtype, out, keepdims, initial, where : as in :func:`sum`

    Returns
    -------
    Array without the axes; 1 where all are NaN

    Raises
    ------
    AxisError, DTypeError
        As :func:`sum`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nanprod(wf.array([3.0, wf.nan, 2.0])).tolist()
    6.0
    """
    return prod(_without("nanprod", a, 1.0), axis, dtype, out, keepdims, initial, where)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Array | None = None) -> Array:
    """Running sum in which a NaN adds nothing.

    Parameters
    ----------
    a, axis, dtype, out : as in :func:`cumsum`

    Returns
    -------
    Array

    Raises
    ------
    AxisError, DTypeError
        As :func:`cumsum`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nancumsum(wf.array([1.0, wf.nan, 2.0])).tolist()
    [1.0, 1.0, 3.0]
    """
    return cumsum(_without("nancumsum", a, 0.0), axis, dtype, out)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Array | None = None) -> Array:
    """Running product in which a NaN counts as 1.

    Parameters
    ----------
    a, axis, dtype, out : as in :func:`cumsum`

    Returns
    -------
    Array

    Raises
    ------
    AxisError, DTypeError
        As :func:`cumsum`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nancumprod(wf.array([2.0, wf.nan, 3.0])).tolist()
    [2.0, 2.0, 6.0]
    """
    return cumprod(_without("nancumprod", a, 1.0), axis, dtype, out)


def _extreme(function: str, a: Any, axis: Axis, out: Any, keepdims: bool, initial: Any, where: Any) -> Array:
    (value,) = arrays(function, a=a)
    fold, none = (max, -np.inf) if function == "nanmax" else (min, np.inf)
    floats = value.node.dtype in INEXACT
    unknown = initial is not None and floats and (not is_number(initial) or initial != initial)
    begun = wrap(held(initial, value.node.dtype, function, "initial")) if unknown else None
    first = initial if begun is None else _without(function, begun, none)  # a NaN there counts no more than among the elements
    found = fold(_without(function, value, none), axis, keepdims=keepdims, initial=first, where=where)
    none_left = _none_left(value, axis, keepdims, where) if initial is None or unknown else None
    if none_left is not None and begun is not None:
        none_left = none_left & isnan(begun)
    whole = found if none_left is None else choose(none_left, np.nan if begun is None else begun, found)
    return finish(cast(whole.node, value.node.dtype), out, function)


def nanmax(
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Array:
    """Largest of the elements that are not NaN.

    Parameters
    ----------
    a, axis, out, keepdims, initial, where : as in :func:`max`

    Returns
    -------
    Array without the axes; NaN where all are

    Raises
    ------
    ShapeError, AxisError
        As :func:`max`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nanmax(wf.array([1.0, wf.nan])).tolist()
    1.0
    """
    return _extreme("nanmax", a, axis, out, keepdims, initial, where)


def nanmin(
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Array:
    """Smallest of the elements that are not NaN.

    Parameters
    ----------
    a, axis, out, keepdims, initial, where : as in :func:`max`

    Returns
    -------
    Array without the axes; NaN where all are

    Raises
    ------
    ShapeError, AxisError
        As :func:`min`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nanmin(wf.array([1.0, wf.nan])).tolist()
    1.0
    """
    return _extreme("nanmin", a, axis, out, keepdims, initial, where)


def _place(function: str, a: Any, axis: int | None, out: Any, keepdims: bool) -> Array:
    (value,) = arrays(function, a=a)
    none_left = _none_left(value, axis, False)
    if none_left is not None and bool(none_left.any()):
        raise ValueError(f"{function}: all elements of a slice are NaN")
    fold, none = (argmax, -np.inf) if function == "nanargmax" else (argmin, np.inf)
    return fold(_without(function, value, none), axis, out, keepdims)


def nanargmax(a: Any, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Where the largest of the elements that are not NaN is; looks whether there is one.

    Parameters
    ----------
    a, axis, out, keepdims : as in :func:`argmax`

    Returns
    -------
    Array of int64, without the axis

    Raises
    ------
    ValueError, AxisError, TraceError
        All are NaN; no such axis; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nanargmax(wf.array([wf.nan, 1.0, 3.0])).tolist()
    2
    """
    return _place("nanargmax", a, axis, out, keepdims)


def nanargmin(a: Any, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Where the smallest of the elements that are not NaN is; looks whether there is one.

    Parameters
    ----------
    a, axis, out, keepdims : as in :func:`argmax`

    Returns
    -------
    Array of int64, without the axis

    Raises
    ------
    ValueError, AxisError, TraceError
        As :func:`nanargmax`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nanargmin(wf.array([wf.nan, 1.0, 3.0])).tolist()
    1
    """
    return _place("nanargmin", a, axis, out, keepdims)


def _moments(
    function: str, a: Any, axis: Axis, dtype: Any, ddof: float | None, keepdims: bool, where: Any, out: Any,
    known: Any = None,
) -> Array:
    """The mean (``ddof`` is None) or the variance, in the dtype of the result."""
    value = floating(node(a, function, "a"))
    result = spelled(dtype) if dtype is not None else widened(value.dtype, out)
    x = wrap(cast(value, result.computed))
    of = extent_of(x.shape, axes_of(axis, x.shape, function))
    warn_of_empty_mean(function, x.shape, of) if ddof is None else warn_of_freedom(function, of, ddof)
    there = ~isnan(x) if where is True else ~isnan(x) & wrap(cast(node(where, function, "where"), BOOL))
    count = sum(there, axis, keepdims=True).astype(x.node.dtype.part.numpy)
    if known is None:
        mean = sum(choose(there, x, 0.0), axis, keepdims=True) / count
    else:
        mean = wrap(cast(node(known, function, "mean"), x.node.dtype))
        if two_shapes(mean.shape, x.shape) != x.shape:
            raise ShapeError(f"{function}: mean has shape {mean.shape}, not that of a {x.shape} with keepdims=True")
    found = mean
    if ddof is not None:
        freedom = count - ddof
        far = choose(there, x - mean, 0.0)
        total = sum(wrap(magnitude(far.node)) ** 2, axis, keepdims=True)
        found = choose(freedom > 0, total / choose(freedom > 0, freedom, 1.0), np.nan)
        result = result.part if dtype is None else result
    if not keepdims:
        shape = sum(there, axis).shape
        found = found.reshape(shape)
    return wrap(cast(found.node, result))


def nanmean(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True,
) -> Array:
    """Mean of the elements that are not NaN.

    Parameters
    ----------
    a, axis, dtype, out, keepdims, where : as in :func:`mean`

    Returns
    -------
    Array without the axes; NaN where all are

    Raises
    ------
    AxisError, DTypeError
        As :func:`mean`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nanmean(wf.array([1.0, wf.nan, 3.0])).tolist()
    2.0
    """
    return finish(_moments("nanmean", a, axis, dtype, None, keepdims, where, out).node, out, "nanmean")


def nanvar(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0, keepdims: bool = False, *,
    where: Any = True, mean: Any = None, correction: float | None = None,
) -> Array:
    """Variance of the elements that are not NaN.

    Parameters
    ----------
    a, axis, dtype, out, ddof, keepdims, where, mean, correction : as in :func:`var`

    Returns
    -------
    Array without the axes; NaN where no more than ``ddof`` are left

    Raises
    ------
    AxisError, DTypeError
        As :func:`mean`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nanvar(wf.array([1.0, wf.nan, 3.0])).tolist()
    1.0
    """
    less = freedom_lost("nanvar", ddof, correction)
    return finish(_moments("nanvar", a, axis, dtype, less, keepdims, where, out, mean).node, out, "nanvar")


def nanstd(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0, keepdims: bool = False, *,
    where: Any = True, mean: Any = None, correction: float | None = None,
) -> Array:
    """Standard deviation of the elements that are not NaN.

    Parameters
    ----------
    a, axis, dtype, out, ddof, keepdims, where, mean, correction : as in :func:`var`

    Returns
    -------
    Array without the axes; NaN where no more than ``ddof`` are left

    Raises
    ------
    AxisError, DTypeError
        As :func:`mean`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nanstd(wf.array([1.0, wf.nan, 5.0])).tolist()
    2.0
    """
    less = freedom_lost("nanstd", ddof, correction)
    square = _moments("nanstd", a, axis, dtype, less, keepdims, where, out, mean).node
    root = norm_root(op("real", square) if square.dtype in COMPLEX else square)  # complex where dtype= says so
    return finish(cast(root, square.dtype), out, "nanstd")
