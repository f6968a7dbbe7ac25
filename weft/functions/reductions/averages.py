"""Means, variances and standard deviations along axes.

Integers are averaged in float64, as in NumPy, and rounded to float32 once; float16 and bfloat16 are averaged in float32.
"""

from __future__ import annotations

from typing import Any

from weft.array import Array, ndarray, wrap
from weft.array.convert import common, convert_operand
from weft.dtypes.formats import BOOL, FLOAT32, FLOAT64, FLOATS, INEXACT, INTEGERS, Format, floating, promote, weak
from weft.dtypes.parse import parse_dtype, to_tuple
from weft.eager.apply import bind
from weft.errors import DTypeError, ShapeError
from weft.functions.reductions.folds import sum
from weft.functions.support import arguments
from weft.functions.support.arguments import Axis, Shape, broadcast, cast, finish, node, number, op, permuted, reduced, reshaped
from weft.graph.node import Node
from weft.graph.primitives.rules import broadcast as two_shapes
from weft.graph.primitives.table import TABLE
from weft.process.docstrings import complete_docs
from weft.runtime.context import CONTEXT


def _cast_for_mean(function: str, value: Node, dtype: Any, out: Any) -> tuple[Node, Format]:
    """Cast the operand to the dtype a mean is computed in; return it and the dtype of the result."""
    result = floating(value.dtype) if out is None else floating(arguments.accumulation_format(value.dtype, out))
    if dtype is not None:
        result = parse_dtype(dtype)
        if result not in INEXACT:
            raise DTypeError(f"{function}: dtype={result} cannot hold a mean; use a float dtype")
    return cast(value, _mean_dtype(value.dtype, result)), result


def _mean_dtype(have: Format, result: Format) -> Format:
    """Return the dtype in which a mean of ``have`` with the given result dtype is computed."""
    return FLOAT64 if have not in INEXACT and result in FLOATS else result.computed


def _read_mask(function: str, where: Any, value: Node) -> Node | None:
    """Return the mask broadcast to the operand's shape, or None if all elements are included."""
    return None if where is True else broadcast(cast(node(where, function, "where"), BOOL), value.shape)


def _mean_node(value: Node, axes: tuple[int, ...], keepdims: bool, mask: Node | None = None) -> Node:
    if mask is not None:
        count = reduced("reduce_sum", cast(mask, value.dtype), axes, keepdims)
        total = reduced("reduce_sum", op("where", mask, value, number(0, value.dtype)), axes, keepdims)
        return bind(TABLE["divide"], total, count)
    total = reduced("reduce_sum", value, axes, keepdims)
    return bind(TABLE["divide"], total, number(arguments.extent_of(value.shape, axes), total.dtype))


def _integer_mean(value: Node, axis: Axis, dtype: Format, keepdims: bool, where: Any) -> Node:
    """Compute a mean in an integer dtype: the sum, which may overflow as in NumPy, divided by the count."""
    axes, mask, value = arguments.reduction_axes(axis, value.shape, "mean"), _read_mask("mean", where, value), cast(value, dtype)
    counted = value if mask is None else op("where", mask, value, number(0, dtype))
    total = cast(cast(reduced("reduce_sum", counted, axes, keepdims), dtype), FLOAT64)
    count = number(arguments.extent_of(value.shape, axes), FLOAT64)
    if mask is not None:
        count = reduced("reduce_sum", cast(mask, FLOAT64), axes, keepdims)
    return cast(bind(TABLE["divide"], total, count), dtype)


def _count_if_native(a: Any, axis: Any, keepdims: Any) -> int:
    """Return the number of averaged elements if the native sum can compute this mean directly, else 0."""
    if type(a) is not ndarray or a._base is not None or type(keepdims) is not bool:
        return 0
    content = a._node
    if content.value is None or content.dtype not in (FLOAT32, FLOAT64) or content.nbytes > CONTEXT.eager_limit:
        return 0
    if axis is None:
        return content.size
    shape = content.shape
    return shape[axis] if type(axis) is int and -len(shape) <= axis < len(shape) else 0


def mean(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True,
) -> Array:
    """Compute the arithmetic mean along axes.

    Parameters
    ----------
    a : array
    axis : int or tuple of int, optional
        The reduced axes; None for all.
    dtype : float or integer dtype, optional
        By default the dtype of ``a``, and float32 for integers and bools. With an integer dtype the elements are summed in it and
        the quotient is truncated towards zero, as in NumPy.
    out : Array, optional
        The array that the result is written to.
    keepdims : bool
        Keep the reduced axes with extent 1.
    where : array of bools, optional
        The elements to include.

    Returns
    -------
    Array without the reduced axes; NaN where there is no element

    Raises
    ------
    AxisError, DTypeError
        ``a`` has no such axis; ``dtype`` cannot hold a mean.

    Examples
    --------
    >>> wf.mean(wf.array([[1, 2], [3, 4]]), axis=0).tolist()
    [2.0, 3.0]
    """
    if dtype is None and out is None and where is True and (count := _count_if_native(a, axis, keepdims)):
        return sum(a, axis, keepdims=keepdims) / count
    if dtype is not None and parse_dtype(dtype) in INTEGERS:
        return finish(_integer_mean(node(a, "mean", "a"), axis, parse_dtype(dtype), bool(keepdims), where), out, "mean")
    value, result = _cast_for_mean("mean", node(a, "mean", "a"), dtype, out)
    axes = (
        arguments.axis_tuple(axis, len(value.shape), "mean")
        if where is True
        else arguments.reduction_axes(axis, value.shape, "mean")
    )
    arguments.warn_of_empty_mean("mean", value.shape, arguments.extent_of(value.shape, axes))
    mean_node = _mean_node(value, axes, arguments.flag(keepdims, "mean"), _read_mask("mean", where, value))
    return finish(cast(mean_node, result), out, "mean")


def _variance(
    function: str, x: Any, axis: Axis, dtype: Any, ddof: float, keepdims: bool, where: Any, out: Any, given_mean: Any = None,
) -> tuple[Node, Format]:
    value, result = _cast_for_mean(function, node(x, function, "a"), dtype, out)
    result = result.part if dtype is None else result
    shape = value.shape
    axes = arguments.axis_tuple(axis, len(shape), function) if where is True else arguments.reduction_axes(axis, shape, function)
    arguments.warn_of_freedom(function, arguments.extent_of(shape, axes), ddof)
    mask = _read_mask(function, where, value)
    centre = _mean_node(value, axes, True, mask) if given_mean is None else cast(node(given_mean, function, "mean"), value.dtype)
    if given_mean is not None and two_shapes(centre.shape, shape) != shape:
        raise ShapeError(
            f"{function}: mean has shape {centre.shape}, which does not fit a {shape}: make it with keepdims=True"
        )
    distance = arguments.magnitude(bind(TABLE["subtract"], value, centre))
    if mask is not None:
        zero = number(0, distance.dtype)
        total = reduced("reduce_sum", op("where", mask, op("square", distance), zero), axes, keepdims)
        count = reduced("reduce_sum", cast(mask, distance.dtype), axes, keepdims)
        return op("divide", total, op("maximum", op("subtract", count, number(ddof, distance.dtype)), zero)), result
    total = reduced("reduce_sum", bind(TABLE["square"], distance), axes, keepdims)
    freedom = arguments.extent_of(shape, axes) - ddof
    return bind(TABLE["divide"], total, number(freedom if freedom > 0 else 0, total.dtype)), result


def var(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0, keepdims: bool = False,
    *, where: Any = True, mean: Any = None, correction: float | None = None,
) -> Array:
    """Compute the variance along axes: the mean squared distance from the mean, in two passes.

    Parameters
    ----------
    dtype : float or complex dtype, optional
        By default the dtype of ``a``, and float32 for integers and bools.
    ddof, correction : float
        Subtracted from the count before the division: 1 for the estimate from a sample. Both names have the same meaning.
    mean : array, optional
        The known means along the axes, computed with ``keepdims=True``.

    Returns
    -------
    Array without the reduced axes

    Raises
    ------
    AxisError, DTypeError, ShapeError
        As :func:`mean`; ``mean`` does not fit ``a``.

    Examples
    --------
    >>> wf.var(wf.array([1.0, 3.0])).tolist()
    1.0
    """
    value, result = _variance("var", a, axis, dtype, arguments.check_ddof("var", ddof, correction), keepdims, where, out, mean)
    return finish(cast(value, result), out, "var")


def std(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0, keepdims: bool = False,
    *, where: Any = True, mean: Any = None, correction: float | None = None,
) -> Array:
    """Compute the standard deviation along axes: the square root of :func:`var`.

    Examples
    --------
    >>> wf.std(wf.array([1.0, 5.0])).tolist()
    2.0
    """
    value, result = _variance("std", a, axis, dtype, arguments.check_ddof("std", ddof, correction), keepdims, where, out, mean)
    return finish(cast(arguments.norm_root(value), result), out, "std")


def weights_along(function: str, weight: Node, shape: Shape, axis: Axis) -> Node:
    """Reshape weights to broadcast with an array of ``shape``: they have its shape, or that of the named axes."""
    if weight.shape == shape:
        return weight
    if axis is None:
        raise TypeError(f"{function}: weights have shape {weight.shape}, a has shape {shape}: weights of some axes need axis=")
    axes = [arguments.axis_index(k, len(shape), function) for k in to_tuple(axis)]
    if weight.shape != tuple(shape[k] for k in axes):
        raise ShapeError(f"{function}: weights have shape {weight.shape}; that of a, {shape}, or of its axis={axis} is needed")
    turned = permuted(weight, sorted(range(len(axes)), key=axes.__getitem__))
    return reshaped(turned, tuple(n if k in axes else 1 for k, n in enumerate(shape)))


def average(
    a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False,
) -> Any:
    """Compute the weighted mean along axes.

    Parameters
    ----------
    weights : array, optional
        Of the shape of ``a``, or of the axes named by ``axis``. None: :func:`mean`.
    returned : bool
        Return the sum of the weights as well.

    Returns
    -------
    Array without the reduced axes, or a pair of it and the sums of the weights

    Raises
    ------
    ShapeError, TypeError, AxisError
        ``weights`` has another shape, or the shape of some axes without ``axis``; ``a`` has no such axis.

    Examples
    --------
    >>> wf.average(wf.array([1.0, 4.0]), weights=wf.array([2.0, 1.0])).tolist()
    2.0
    """
    if weights is None:
        averaged = mean(a, axis, keepdims=keepdims)
        if not returned:
            return averaged
        shape = node(a, "average", "a").shape
        total_weight = number(arguments.extent_of(shape, arguments.axis_tuple(axis, len(shape), "average")), averaged.node.dtype)
        return averaged, wrap(broadcast(total_weight, averaged.shape))
    pair, dtype = common((a, weights), promote, weak)
    value, weight = (n if isinstance(n, Node) else convert_operand(n, dtype) for n in pair)
    result = floating(dtype)
    within = _mean_dtype(dtype, result)
    value, weight = cast(value, within), cast(weight, within)
    axes = arguments.axis_tuple(axis, len(value.shape), "average")
    weight = op("broadcast_to", weights_along("average", weight, value.shape, axis), shape=value.shape)
    total = reduced("reduce_sum", op("multiply", value, weight), axes, keepdims)
    count = reduced("reduce_sum", weight, axes, keepdims)
    averaged = wrap(cast(op("divide", total, count), result))
    return (averaged, wrap(cast(count, result))) if returned else averaged


complete_docs(mean, var, average)
complete_docs(var, std)
