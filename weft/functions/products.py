"""Running sums and products."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.dtypes.formats import BOOL, INT64, summed
from weft.dtypes.parse import spelled
from weft.functions.common import axis_index, cast, finish, node, op, reshaped, widened


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
