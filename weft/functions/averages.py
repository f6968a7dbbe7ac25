"""Means, variances and deviations along axes.

Means of integers are averaged in float64, as NumPy does, and rounded to float32 once; float16 and bfloat16 are averaged in
float32.
"""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.bind import bind
from weft.convert import common, in_dtype
from weft.errors import DTypeError, ShapeError
from weft.formats import BOOL, FLOAT64, FLOATS, INEXACT, Format, floating, promote, weak
from weft.functions.common import (
    Axis,
    axis_tuple,
    broadcast,
    cast,
    extent_of,
    finish,
    magnitude,
    node,
    number,
    op,
    reduced,
    reshaped,
    widened,
)
from weft.graph.node import Node
from weft.graph.primitives.table import TABLE
from weft.spelling import spelled


def _working(function: str, value: Node, dtype: Any, out: Any) -> tuple[Node, Format]:
    """The operand in the dtype a mean is computed in, and the dtype of the result."""
    result = floating(value.dtype) if out is None else floating(widened(value.dtype, out))
    if dtype is not None:
        result = spelled(dtype)
        if result not in INEXACT:
            raise DTypeError(f"{function}: dtype={result} cannot hold a mean; use a float dtype")
    return cast(value, _within(value.dtype, result)), result


def _within(have: Format, result: Format) -> Format:
    """What means of ``have`` that are to be ``result`` are computed in."""
    return FLOAT64 if have not in INEXACT and result in FLOATS else result.computed


def _mask(function: str, where: Any, value: Node) -> Node | None:
    """Which elements count, in the shape of all; None for all of them."""
    return None if where is True else broadcast(cast(node(where, function, "where"), BOOL), value.shape)


def _mean(value: Node, axes: tuple[int, ...], keepdims: bool, mask: Node | None = None) -> Node:
    if mask is not None:
        count = reduced("reduce_sum", cast(mask, value.dtype), axes, keepdims)
        total = reduced("reduce_sum", op("where", mask, value, number(0, value.dtype)), axes, keepdims)
        return bind(TABLE["divide"], total, count)
    total = reduced("reduce_sum", value, axes, keepdims)
    return bind(TABLE["divide"], total, number(extent_of(value.shape, axes), total.dtype))


def mean(
    x: Any, /, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True,
) -> Array:
    """Arithmetic mean along axes.

    Parameters
    ----------
    x : array
    axis : int or tuple of int, optional
        None: all of them.
    dtype : float dtype, optional
        By default that of ``x``, and float32 for integers and bools.
    out : Array, optional
    keepdims : bool
        Keep the axes with extent 1.
    where : array of bools, optional
        Which elements count.

    Returns
    -------
    Array without the axes; NaN where there is no element

    Raises
    ------
    AxisError, DTypeError
        The array has no such axis; a dtype that cannot hold a mean.

    Examples
    --------
    >>> import weft as wf
    >>> wf.mean(wf.array([[1, 2], [3, 4]]), axis=0).tolist()
    [2.0, 3.0]
    """
    value, result = _working("mean", node(x, "mean"), dtype, out)
    axes = axis_tuple(axis, len(value.shape), "mean")
    return finish(cast(_mean(value, axes, bool(keepdims), _mask("mean", where, value)), result), out, "mean")


def _variance(
    function: str, x: Any, axis: Axis, dtype: Any, ddof: float, keepdims: bool, where: Any, out: Any,
) -> tuple[Node, Format]:
    value, result = _working(function, node(x, function), dtype, out)
    axes = axis_tuple(axis, len(value.shape), function)
    mask = _mask(function, where, value)
    distance = magnitude(bind(TABLE["subtract"], value, _mean(value, axes, True, mask)))
    if mask is not None:
        zero = number(0, distance.dtype)
        total = reduced("reduce_sum", op("where", mask, op("square", distance), zero), axes, keepdims)
        count = reduced("reduce_sum", cast(mask, distance.dtype), axes, keepdims)
        return op("divide", total, op("maximum", op("subtract", count, number(ddof, distance.dtype)), zero)), result.part
    total = reduced("reduce_sum", bind(TABLE["square"], distance), axes, keepdims)
    freedom = extent_of(value.shape, axes) - ddof
    return bind(TABLE["divide"], total, number(freedom if freedom > 0 else 0, total.dtype)), result.part


def var(
    x: Any, /, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0, keepdims: bool = False,
    *, where: Any = True, correction: float | None = None,
) -> Array:
    """Variance along axes: the mean squared distance from the mean, in two passes.

    Parameters
    ----------
    x, axis, dtype, out, keepdims, where : as in :func:`mean`
    ddof, correction : float
        Taken from the count before dividing: 1 for the estimate from a sample. Two names for one thing.

    Returns
    -------
    Array without the axes

    Raises
    ------
    AxisError, DTypeError
        As :func:`mean`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.var(wf.array([1.0, 3.0])).tolist()
    1.0
    """
    value, result = _variance("var", x, axis, dtype, ddof if correction is None else correction, keepdims, where, out)
    return finish(cast(value, result), out, "var")


def std(
    x: Any, /, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0, keepdims: bool = False,
    *, where: Any = True, correction: float | None = None,
) -> Array:
    """Standard deviation along axes: the root of :func:`var`.

    Parameters
    ----------
    x, axis, dtype, out, ddof, keepdims, where, correction : as in :func:`var`

    Returns
    -------
    Array without the axes

    Raises
    ------
    AxisError, DTypeError
        As :func:`mean`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.std(wf.array([1.0, 5.0])).tolist()
    2.0
    """
    value, result = _variance("std", x, axis, dtype, ddof if correction is None else correction, keepdims, where, out)
    return finish(cast(op("sqrt", value), result), out, "std")


def average(
    x: Any, /, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False,
) -> Any:
    """Weighted mean along axes.

    Parameters
    ----------
    x : array
    axis : int or tuple of int, optional
    weights : array, optional
        Of the shape of ``x``, or of one axis when ``axis`` is a number. None: :func:`mean`.
    returned : bool
        Also the sum of the weights.
    keepdims : bool

    Returns
    -------
    Array without the axes, or a pair of it and one of its shape

    Raises
    ------
    ShapeError, AxisError
        Weights of another shape; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.average(wf.array([1.0, 4.0]), weights=wf.array([2.0, 1.0])).tolist()
    2.0
    """
    if weights is None:
        found = mean(x, axis, keepdims=keepdims)
        if not returned:
            return found
        shape = node(x, "average").shape
        every = number(extent_of(shape, axis_tuple(axis, len(shape), "average")), found.node.dtype)
        return found, wrap(broadcast(every, found.shape))
    pair, dtype = common((x, weights), promote, weak)
    value, weight = (n if isinstance(n, Node) else in_dtype(n, dtype) for n in pair)
    result = floating(dtype)
    within = _within(dtype, result)
    value, weight = cast(value, within), cast(weight, within)
    axes = axis_tuple(axis, len(value.shape), "average")
    if weight.shape != value.shape:
        if len(axes) != 1 or weight.shape != (value.shape[axes[0]],):
            raise ShapeError(f"average: weights have shape {weight.shape}; x has shape {value.shape}, averaged over axis={axis}")
        weight = reshaped(weight, tuple(n if a == axes[0] else 1 for a, n in enumerate(value.shape)))
    weight = op("broadcast_to", weight, shape=value.shape)
    total = reduced("reduce_sum", op("multiply", value, weight), axes, keepdims)
    count = reduced("reduce_sum", weight, axes, keepdims)
    found = wrap(cast(op("divide", total, count), result))
    return (found, wrap(cast(count, result))) if returned else found
