"""Sums, products, extremes, means and variances along axes.

``axis`` is None (all axes), an integer or a tuple. Integers are summed in 64 bits, as in NumPy. They are averaged in float64 and
rounded to float32 once; float16 and bfloat16 are averaged in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, ndarray, wrap
from weft.array.convert import convert_operand, read_operands
from weft.dtypes import formats
from weft.dtypes.formats import (
    BOOL,
    COMPLEX,
    FLOAT32,
    FLOAT64,
    FLOATS,
    FROM_NUMPY,
    INEXACT,
    INT64,
    INTEGERS,
    Format,
    floating,
    holds,
    promote,
    summed,
    weak,
)
from weft.dtypes.parse import parse_dtype, to_tuple
from weft.eager.apply import bind
from weft.eager.native import NATIVE_ELEMENTS, NativeShaped, call_after_views
from weft.eager.peek import leaf, peek
from weft.eager.policy import MAX_WORK
from weft.errors import AxisError, DTypeError, ShapeError, name_called_function, rename_error
from weft.functions.support import arguments
from weft.functions.support.arguments import (
    Axis,
    Shape,
    broadcast,
    cast,
    node,
    number,
    op,
    reduce_node,
    reshape_node,
    wrap_result,
)
from weft.graph.node import Node
from weft.graph.primitives.rules import broadcast as two_shapes
from weft.graph.primitives.rules import memoise
from weft.graph.primitives.table import TABLE
from weft.process.docstrings import complete_module
from weft.runtime.context import CONTEXT


def _sum_dtype(value: Node, dtype: Any, out: Any = None) -> Format:
    if dtype is not None:
        return parse_dtype(dtype)
    return summed(value.dtype) if out is None else arguments.accumulation_format(value.dtype, out)


_FOLDS: dict[str, tuple[str, Any]] = {  # how two results combine, and the result of no element
    "sum": ("add", 0), "prod": ("multiply", 1), "max": ("maximum", None), "min": ("minimum", None), "any": ("logical_or", False),
    "all": ("logical_and", True),
}


def _fold(
    function: str, x: Any, axis: Axis, keepdims: bool, out: Array | None, dtype: Any = None, initial: Any = None,
    where: Any = True,
) -> Array:
    """Fold along axes, from an initial value, over the elements that a mask selects. A sum of bools is any, a product is all."""
    is_plain = initial is None and where is True
    if is_plain and out is None and dtype is None and not keepdims and function in _NUMPY_FOLDS:
        if (result := _fold_in_numpy(function, x, axis, None)) is not None:
            return result
    value = node(x, function, "a")
    combine, nothing = _FOLDS[function]
    if function in ("any", "all"):
        value = cast(value, BOOL)
    elif nothing is not None:
        value = cast(value, _sum_dtype(value, dtype, out))
    elif not is_plain:
        value = cast(value, arguments.accumulation_format(value.dtype, out))
    primitive = f"reduce_{function}"
    if value.dtype is BOOL:
        is_any = function in ("sum", "max", "any")
        primitive, combine = ("reduce_max", "logical_or") if is_any else ("reduce_min", "logical_and")
    start = nothing if initial is None else initial
    if start is None and not is_plain:
        raise ValueError(name_called_function(f"{function}: where= needs initial=, since a {function} of nothing is not defined"))
    axes = arguments.reduction_axes(axis, value.shape, function)
    is_empty = 0 in [value.shape[a] for a in axes]
    if is_empty and start is None:
        raise ShapeError(f"{function}: an array of shape {value.shape} has no element along axis={axis}")
    if is_plain and not (is_empty and value.dtype is BOOL):
        return wrap_result(reduce_node(primitive, value, axes, keepdims), out, function)
    initial_node = arguments.convert_for_write(start, value.dtype, function, "initial")
    if where is not True:
        mask = cast(node(where, function, "where"), BOOL)
        neutral = initial_node if nothing is None else number(nothing, value.dtype)
        value = op("where", broadcast(mask, value.shape), value, neutral)
    if is_empty and (nothing is None or value.dtype is BOOL):
        shape = tuple(1 if a in axes else n for a, n in enumerate(value.shape) if keepdims or a not in axes)
        return wrap_result(broadcast(initial_node, shape), out, function)
    result = reduce_node(primitive, value, axes, keepdims)
    return wrap_result(result if function in ("any", "all") else op(combine, result, initial_node), out, function)


_NUMPY_FOLDS = {  # function -> NumPy's method, and the dtypes for which it has the bits of a kernel
    **{name: (getattr(np.ndarray, name), frozenset(form.numpy for form in (*INTEGERS, FLOAT32, FLOAT64)))
       for name in ("max", "min", "argmax", "argmin")},
    **{name: (getattr(np.ndarray, name), frozenset((BOOL.numpy,))) for name in ("any", "all")},
}


@memoise
def _reduced_params(axis: int, shape: Shape) -> dict[str, Any]:
    """Return the params of the result of a reduction along one axis; messages about shapes that do not broadcast name it."""
    return {"reduced": ((axis % len(shape),), shape)}


def _fold_in_numpy(function: str, x: Any, axis: Axis, dtype: Format | None) -> Any:
    """Return a fold of a small array by NumPy's method; None for every case that is not plain. dtype : of the result, None for
    that of the array. NumPy does not order the signs of zeros, so extremes that are zero are computed elsewhere."""
    show, (fold, dtypes) = NATIVE_ELEMENTS.show, _NUMPY_FOLDS[function]
    if type(axis) not in _AXIS_TYPES or (view := show(x)) is None or view.dtype not in dtypes or view.size not in _FOLDED_SIZES:
        return None
    try:
        result = fold(view, axis)
    except ValueError:  # the caller raises it in weft's words
        return None
    if dtype is None:
        dtype = FROM_NUMPY[view.dtype]
        if dtype.kind == "float" and not result.all():
            return None
    array = NATIVE_ELEMENTS.take(result, dtype)
    if array is not None and result.shape:
        array._node.params = _reduced_params(axis, view.shape)
    return array


_FOLDED_SIZES = range(1, MAX_WORK + 1)


def sum(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:
    """Compute the sum along axes.

    Parameters
    ----------
    axis : int or tuple of int, optional
        The reduced axes; None for all.
    dtype : dtype, optional
        The dtype of the result; by default 64-bit integers for integers and bools, else the dtype of ``a``.
    initial : number, optional
        The value to start from.
    where : array of bools, optional
        The elements to include.

    Returns
    -------
    Array
        Without the reduced axes; of shape () for all axes.

    Raises
    ------
    AxisError, DTypeError
        ``a`` has no such axis, or one is named twice; ``dtype`` is unknown.

    >>> wf.sum(wf.array([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
    [4.0, 6.0]
    """
    if (
        dtype is not None or out is not None or initial is not None or where is not True or type(axis) not in _AXIS_TYPES
        or type(keepdims) is not bool
    ):
        return _fold("sum", a, axis, keepdims, out, dtype, initial, where)
    if (shaped := _SUMS.get((axis, keepdims))) is None:
        shaped = _SUMS[axis, keepdims] = NativeShaped(lambda value: _sum_node(value, axis, keepdims))
    native = shaped.call
    if (result := native(a)) is None:
        result = call_after_views(native, a)
    if result is None:
        result = _fold("sum", a, axis, keepdims, out, dtype)
        if isinstance(a, Array):
            shaped.count_call(result.node, a.node)
    return result


_SUMS: dict[tuple[Any, bool], NativeShaped] = {}
_AXIS_TYPES = (type(None), int)


def _sum_node(value: Node, axis: Axis, keepdims: bool) -> Node:
    return reduce_node(
        "reduce_sum", cast(value, _sum_dtype(value, None)), arguments.reduction_axes(axis, value.shape, "sum"), keepdims
    )


def prod(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:
    """Compute the product along axes.

    >>> wf.prod(wf.array([[1, 2], [3, 4]]), axis=1).tolist()
    [2, 12]
    """
    return _fold("prod", a, axis, keepdims, out, dtype, initial, where)


def max(
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Array:
    """Return the largest element along axes; NaN if an element is NaN.

    Parameters
    ----------
    initial : number, optional
        The smallest possible result; required with ``where``.

    Returns
    -------
    Array
        Of the dtype of ``a``, without the reduced axes.

    Raises
    ------
    ShapeError, AxisError, ValueError
        There is no element; ``a`` has no such axis; ``where`` is given without ``initial``.

    >>> wf.max(wf.array([[1.0, 5.0], [3.0, 4.0]]), axis=0).tolist()
    [3.0, 5.0]
    """
    return _fold("max", a, axis, keepdims, out, None, initial, where)


def min(
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Array:
    """Return the smallest element along axes; NaN if an element is NaN.

    Parameters
    ----------
    initial : number, optional
        The largest possible result; required with ``where``.

    >>> wf.min(wf.array([[1.0, 5.0], [3.0, 4.0]]), axis=1).tolist()
    [1.0, 3.0]
    """
    return _fold("min", a, axis, keepdims, out, None, initial, where)


def ptp(a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Compute the difference of the largest and the smallest element along axes.

    Raises
    ------
    ShapeError, AxisError
        There is no element; ``a`` has no such axis.

    >>> wf.ptp(wf.array([1.0, 5.0, 3.0])).tolist()
    4.0
    """
    try:
        high, low = node(max(a, axis, keepdims=keepdims), "ptp"), node(min(a, axis, keepdims=keepdims), "ptp")
    except (ShapeError, AxisError) as error:
        raise rename_error(error, "ptp") from None
    high, low = (cast(n, arguments.accumulation_format(n.dtype, out)) for n in (high, low))
    return wrap_result(op("subtract", high, low), out, "ptp")


def all(
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True,
) -> Array:
    """Return whether all elements along axes are true (not zero); True if there are none.

    Returns
    -------
    Array of bool, without the reduced axes

    Raises
    ------
    AxisError
        ``a`` has no such axis.

    >>> wf.all(wf.array([[1, 0], [1, 1]]), axis=1).tolist()
    [False, True]
    """
    return _fold("all", a, axis, keepdims, out, where=where)


def any(
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True,
) -> Array:
    """Return whether an element along axes is true (not zero); False if there are none.

    >>> wf.any(wf.array([[0, 0], [1, 0]]), axis=1).tolist()
    [False, True]
    """
    return _fold("any", a, axis, keepdims, out, where=where)


def count_nonzero(a: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """Count the elements along axes that are not zero.

    Returns
    -------
    Array of int64, without the reduced axes

    >>> wf.count_nonzero(wf.array([1.0, 0.0, 2.0])).tolist()
    2
    """
    value = node(a, "count_nonzero", "a")
    elements = None if axis is not None or keepdims is not False or value.dtype.narrow else peek(value)
    if elements is not None:
        return wrap(leaf(np.asarray(np.count_nonzero(elements[0])), INT64))
    return sum(cast(value, BOOL), axis, INT64, None, keepdims)


def _find_index(function: str, x: Any, axis: int | None, keepdims: bool, out: Array | None) -> Array:
    value = node(x, function, "a")
    if axis is not None and (value.shape or type(axis) is not int):
        axis = arguments.axis_index(axis, len(value.shape), function)
    axes = arguments.reduction_axes(axis, value.shape, function)
    if 0 in value.shape and 0 in (value.shape[a] for a in axes):
        raise ShapeError(f"{function}: an array of shape {value.shape} has no element along axis={axis}")
    if out is not None and not holds(INT64, arguments.accumulation_format(INT64, out)):
        raise DTypeError(f"{function}: out has dtype {arguments.accumulation_format(INT64, out)}; indices are int64")
    if not axes:
        return wrap_result(number(0, INT64), out, function)
    return wrap_result(reduce_node(function, value, axes, keepdims), out, function)


def _find_natively(function: str, x: Any, axis: int | None) -> Any:
    """Return the index of an extreme of a small array, or None if neither native code nor NumPy serves the arguments."""
    native = NATIVE_ELEMENTS.extreme
    if (result := native(x, axis, function == "argmin", INT64)) is None:
        return _fold_in_numpy(function, x, axis, INT64)
    if result._node.shape:
        result._node.params = _reduced_params(axis, x.node.shape)
    return result


def argmax(a: Any, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Return the index of the largest element: the first of equal ones; NaN counts as largest.

    Parameters
    ----------
    axis : int, optional
        None: the index in the flattened array.
    keepdims : bool
        Keep the axis with extent 1.

    Returns
    -------
    Array of int64, without the axis

    Raises
    ------
    ShapeError, AxisError, DTypeError
        There is no element; ``a`` has no such axis; ``out`` cannot hold int64.

    >>> wf.argmax(wf.array([[1.0, 5.0], [3.0, 3.0]]), axis=1).tolist()
    [1, 0]
    """
    if out is None and not keepdims and (result := _find_natively("argmax", a, axis)) is not None:
        return result
    return _find_index("argmax", a, axis, keepdims, out)


def argmin(a: Any, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Return the index of the smallest element: the first of equal ones; NaN counts as smallest.

    >>> wf.argmin(wf.array([[1.0, 5.0], [3.0, 3.0]]), axis=0).tolist()
    [0, 1]
    """
    if out is None and not keepdims and (result := _find_natively("argmin", a, axis)) is not None:
        return result
    return _find_index("argmin", a, axis, keepdims, out)


def _accumulate(
    function: str, x: Any, axis: int | None, dtype: Any, out: Any, flat: bool, include_initial: bool = False,
) -> Array:
    """Compute a cumulative sum or product; ``flat``: without ``axis``, an array of several dimensions is flattened."""
    value = node(x, function, "a")
    form = _sum_dtype(value, dtype, out)
    if axis is None and len(value.shape) > 1 and not flat:
        raise ValueError(f"{function}: x has shape {value.shape}: with more than one dimension, axis= must be given")
    value = cast(cast(value, BOOL), INT64) if form == BOOL else cast(value, form.computed)
    if axis is None or not value.shape:
        value, axis = reshape_node(value, (value.size,)), 0 if axis is None else axis
    axis = arguments.axis_index(axis, len(value.shape), function)
    sums = function.endswith("sum")
    value = op("cumulative_sum" if sums else "cumulative_prod", value, axis=axis)
    if include_initial:
        low = tuple(int(a == axis) for a in range(len(value.shape)))
        value = op("pad", value, low=low, high=(0,) * len(low), value=int(not sums))
    return wrap_result(cast(value, form), out, function)


def cumulative_sum(
    x: Any, /, axis: int | None = None, dtype: Any = None, out: Array | None = None, *, include_initial: bool = False
) -> Array:
    """Compute the cumulative sum along an axis.

    Parameters
    ----------
    axis : int, optional
        May be omitted for one dimension.
    dtype : dtype, optional
        The dtype of the result; by default as for :func:`sum`.
    include_initial : bool
        Begin with the neutral element (0 for sums, 1 for products), which makes the axis one longer.

    Returns
    -------
    Array
        Of the shape of ``x`` and the dtype of :func:`sum`.

    Raises
    ------
    AxisError, DTypeError, ValueError
        ``x`` has no such axis; ``dtype`` is unknown; ``axis`` is missing for several dimensions.

    >>> wf.cumulative_sum(wf.array([1, 2, 3])).tolist()
    [1, 3, 6]
    """
    return _accumulate("cumulative_sum", x, axis, dtype, out, False, include_initial)


def cumulative_prod(
    x: Any, /, axis: int | None = None, dtype: Any = None, out: Array | None = None, *, include_initial: bool = False
) -> Array:
    """Compute the cumulative product along an axis.

    >>> wf.cumulative_prod(wf.array([1, 2, 3, 4])).tolist()
    [1, 2, 6, 24]
    """
    return _accumulate("cumulative_prod", x, axis, dtype, out, False, include_initial)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Array | None = None) -> Array:
    """Compute the cumulative sum along an axis, or of the flattened array without one.

    Parameters
    ----------
    axis : int, optional
        None: the array is flattened.

    Returns
    -------
    Array
        Of the shape of ``a`` (flattened without ``axis``) and the dtype of :func:`sum`.

    Raises
    ------
    AxisError, DTypeError
        ``a`` has no such axis; ``dtype`` is unknown.

    >>> wf.cumsum(wf.array([[1, 2], [3, 4]])).tolist()
    [1, 3, 6, 10]
    """
    return _accumulate("cumsum", a, axis, dtype, out, True)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Array | None = None) -> Array:
    """Compute the cumulative product along an axis, or of the flattened array without one.

    >>> wf.cumprod(wf.array([1, 2, 3, 4])).tolist()
    [1, 2, 6, 24]
    """
    return _accumulate("cumprod", a, axis, dtype, out, True)


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
        count = reduce_node("reduce_sum", cast(mask, value.dtype), axes, keepdims)
        total = reduce_node("reduce_sum", op("where", mask, value, number(0, value.dtype)), axes, keepdims)
        return bind(TABLE["divide"], total, count)
    total = reduce_node("reduce_sum", value, axes, keepdims)
    return bind(TABLE["divide"], total, number(arguments.extent_of(value.shape, axes), total.dtype))


def _integer_mean(value: Node, axis: Axis, dtype: Format, keepdims: bool, where: Any) -> Node:
    """Compute a mean in an integer dtype: the sum, which may overflow as in NumPy, divided by the count."""
    axes, mask, value = arguments.reduction_axes(axis, value.shape, "mean"), _read_mask("mean", where, value), cast(value, dtype)
    counted = value if mask is None else op("where", mask, value, number(0, dtype))
    total = cast(cast(reduce_node("reduce_sum", counted, axes, keepdims), dtype), FLOAT64)
    count = number(arguments.extent_of(value.shape, axes), FLOAT64)
    if mask is not None:
        count = reduce_node("reduce_sum", cast(mask, FLOAT64), axes, keepdims)
    return cast(bind(TABLE["divide"], total, count), dtype)


def _count_if_native(a: Any, axis: Any, keepdims: Any) -> int:
    """Return the number of averaged elements if the native sum can compute this mean directly, else 0."""
    if type(a) is not ndarray or a._base is not None or type(keepdims) is not bool:
        return 0
    content = a._node
    if content.value is None or content.dtype not in (formats.FLOAT32, FLOAT64) or content.nbytes > CONTEXT.eager_limit:
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
    axis : int or tuple of int, optional
        The reduced axes; None for all.
    dtype : float or integer dtype, optional
        By default the dtype of ``a``, and float32 for integers and bools. With an integer dtype the elements are summed in it and
        the quotient is truncated towards zero, as in NumPy.
    where : array of bools, optional
        The elements to include.

    Returns
    -------
    Array without the reduced axes; NaN where there is no element

    Raises
    ------
    AxisError, DTypeError
        ``a`` has no such axis; ``dtype`` cannot hold a mean.

    >>> wf.mean(wf.array([[1, 2], [3, 4]]), axis=0).tolist()
    [2.0, 3.0]
    """
    if dtype is None and out is None and where is True and (count := _count_if_native(a, axis, keepdims)):
        return sum(a, axis, keepdims=keepdims) / count
    if dtype is not None and parse_dtype(dtype) in INTEGERS:
        return wrap_result(_integer_mean(node(a, "mean", "a"), axis, parse_dtype(dtype), bool(keepdims), where), out, "mean")
    value, result = _cast_for_mean("mean", node(a, "mean", "a"), dtype, out)
    shape = value.shape
    axes = arguments.axis_tuple(axis, len(shape), "mean") if where is True else arguments.reduction_axes(axis, shape, "mean")
    arguments.warn_of_empty_mean("mean", shape, arguments.extent_of(shape, axes))
    mean_node = _mean_node(value, axes, arguments.flag(keepdims, "mean"), _read_mask("mean", where, value))
    return wrap_result(cast(mean_node, result), out, "mean")


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
        raise ShapeError(f"{function}: mean has shape {centre.shape}, which does not fit a {shape}: make it with keepdims=True")
    distance = arguments.magnitude(bind(TABLE["subtract"], value, centre))
    if mask is not None:
        zero = number(0, distance.dtype)
        total = reduce_node("reduce_sum", op("where", mask, op("square", distance), zero), axes, keepdims)
        count = reduce_node("reduce_sum", cast(mask, distance.dtype), axes, keepdims)
        return op("divide", total, op("maximum", op("subtract", count, number(ddof, distance.dtype)), zero)), result
    total = reduce_node("reduce_sum", bind(TABLE["square"], distance), axes, keepdims)
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

    >>> wf.var(wf.array([1.0, 3.0])).tolist()
    1.0
    """
    value, result = _variance("var", a, axis, dtype, arguments.check_ddof("var", ddof, correction), keepdims, where, out, mean)
    return wrap_result(cast(value, result), out, "var")


def std(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0, keepdims: bool = False,
    *, where: Any = True, mean: Any = None, correction: float | None = None,
) -> Array:
    """Compute the standard deviation along axes: the square root of :func:`var`.

    >>> wf.std(wf.array([1.0, 5.0])).tolist()
    2.0
    """
    value, result = _variance("std", a, axis, dtype, arguments.check_ddof("std", ddof, correction), keepdims, where, out, mean)
    return wrap_result(cast(arguments.norm_root(value), result), out, "std")


def weights_along(function: str, weight: Node, shape: Shape, axis: Axis) -> Node:
    """Reshape weights to broadcast with an array of ``shape``: they have its shape, or that of the named axes."""
    if weight.shape == shape:
        return weight
    if axis is None:
        raise TypeError(f"{function}: weights have shape {weight.shape}, a has shape {shape}: weights of some axes need axis=")
    axes = [arguments.axis_index(k, len(shape), function) for k in to_tuple(axis)]
    if weight.shape != tuple(shape[k] for k in axes):
        raise ShapeError(f"{function}: weights have shape {weight.shape}; that of a, {shape}, or of its axis={axis} is needed")
    turned = arguments.permute_node(weight, sorted(range(len(axes)), key=axes.__getitem__))
    return reshape_node(turned, tuple(n if k in axes else 1 for k, n in enumerate(shape)))


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
    pair, dtype = read_operands((a, weights), promote, weak)
    value, weight = (n if isinstance(n, Node) else convert_operand(n, dtype) for n in pair)
    result = floating(dtype)
    within = _mean_dtype(dtype, result)
    value, weight = cast(value, within), cast(weight, within)
    axes = arguments.axis_tuple(axis, len(value.shape), "average")
    weight = op("broadcast_to", weights_along("average", weight, value.shape, axis), shape=value.shape)
    total = reduce_node("reduce_sum", op("multiply", value, weight), axes, keepdims)
    count = reduce_node("reduce_sum", weight, axes, keepdims)
    averaged = wrap(cast(op("divide", total, count), result))
    return (averaged, wrap(cast(count, result))) if returned else averaged


def logsumexp(a: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """Compute the logarithm of the sum of exponentials along axes, ``log(sum(exp(a)))``, without overflow.

    Parameters
    ----------
    a : array of floats; integers and bools become float32
    axis : int or tuple of ints, optional
        None: all axes.

    Returns
    -------
    Array
        Of the float dtype of ``a``, without the reduced axes; float16 and bfloat16 are computed in float32. -inf where there is
        no element or every element is -inf; the gradient of such elements is 0.

    Raises
    ------
    DTypeError, AxisError
        ``a`` is complex; it has no such axis.

    >>> round(float(wf.logsumexp(wf.array([1000.0, 1000.0]))), 2)
    1000.69
    """
    given = node(a, "logsumexp", "a")
    if given.dtype in COMPLEX:
        raise DTypeError(f"logsumexp: a must be real, not {given.dtype}")
    dtype = floating(given.dtype)
    value = cast(given, dtype.computed)
    axes = arguments.reduction_axes(axis, value.shape, "logsumexp")
    keepdims = arguments.flag(keepdims, "logsumexp")
    zero, one, lowest = (number(x, value.dtype) for x in (0.0, 1.0, -np.inf))
    if 0 in [value.shape[k] for k in axes]:
        kept = tuple(1 if k in axes else n for k, n in enumerate(value.shape) if keepdims or k not in axes)
        return wrap(cast(broadcast(lowest, kept), dtype))
    top = op("stop_gradient", reduce_node("reduce_max", value, axes, True))  # the shift cancels, so it needs no derivative
    top = op("where", op("isfinite", top), top, zero)
    total = reduce_node("reduce_sum", op("exp", op("subtract", value, top)), axes, True)
    is_zero = op("equal", total, zero)
    result = op("add", top, op("log", op("where", is_zero, one, total)))
    result = op("where", is_zero, lowest, result)
    if not keepdims:
        result = reshape_node(result, tuple(n for k, n in enumerate(value.shape) if k not in axes))
    return wrap(cast(result, dtype))


complete_module(
    globals(), (sum, prod, max, all), (max, min, ptp), (all, any, count_nonzero), (argmax, argmin), (cumulative_sum,
    cumulative_prod, cumsum), (cumsum, cumprod), (mean, var, average), (var, std),
)
amax, amin = arguments.alias(max, "amax"), arguments.alias(min, "amin")
