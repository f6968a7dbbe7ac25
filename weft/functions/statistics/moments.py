"""Covariances, and folds that skip NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import exact_operands, promote_operands
from weft.dtypes.formats import BOOL, COMPLEX, DEFAULT, FLOAT32, INEXACT, promote
from weft.dtypes.parse import parse_dtype
from weft.errors import ShapeError
from weft.functions.elementwise.compositions import clip, real
from weft.functions.elementwise.ufuncs import conj, isnan, sqrt
from weft.functions.indexing.where import where as choose
from weft.functions.linalg.products import diagonal, matmul
from weft.functions.reductions import folds
from weft.functions.reductions.folds import all, argmax, argmin, cumprod, cumsum, max, min, prod, sum
from weft.functions.support import arguments
from weft.functions.support.arguments import Axis, Node, arrays, cast, floating, node, op, reshape_node, wrap_result
from weft.graph.primitives.rules import broadcast as two_shapes
from weft.process.docstrings import complete_module


def _as_rows(function: str, x: Any, argument: str, rowvar: bool) -> Node:
    value = node(x, function, argument)
    if len(value.shape) > 2:
        raise ShapeError(f"{function}: {argument} has shape {value.shape}; a vector or a matrix is needed")
    if len(value.shape) < 2:
        return reshape_node(value, (1, value.size))
    return value if rowvar or value.shape[0] == 1 and argument == "y" else op("permute", value, axes=(1, 0))


def _read_weights(x: Any, argument: str, count: int, dtype: Any) -> Array:
    weights = arguments.convert_for_write(x, dtype, "cov", argument)
    if weights.shape != (count,):
        raise ShapeError(f"cov: {argument} has shape {weights.shape}; ({count},) is needed, one weight per observation")
    return wrap(weights)


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Array:
    """Compute the covariance matrix of variables.

    Parameters
    ----------
    m : (variables, observations) or (observations,) array
    y : array, optional
        Further variables.
    rowvar : bool
        False: the variables are columns.
    bias : bool
        Divide by the number of observations instead of one less.
    ddof : int, optional
        Divide by the number of observations minus ``ddof``.
    fweights, aweights : (observations,) array, optional
        The frequency and the weight of each observation.
    dtype : dtype, optional
        The dtype of the result.

    Returns
    -------
    (variables, variables) Array, without dimensions for one variable

    Raises
    ------
    ShapeError
        An argument has more than two dimensions; weights or observations do not fit.

    >>> wf.cov(wf.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if y is not None:
        m, y = exact_operands(m, y)
    rows = _as_rows("cov", m, "m", rowvar)
    if y is not None:
        more_rows = _as_rows("cov", y, "y", rowvar)
        rows, more_rows = promote_operands(wrap(rows), wrap(more_rows))
        if rows.shape[1] != more_rows.shape[1]:
            raise ShapeError(f"cov: m has {rows.shape[1]} observations and y {more_rows.shape[1]}")
        rows = op("concat", rows, more_rows, axis=0)
    keeps_dtype = rows.dtype in INEXACT and not DEFAULT.wide
    form = parse_dtype(dtype) if dtype is not None else rows.dtype if keeps_dtype else promote(rows.dtype, DEFAULT.real)
    x = wrap(cast(floating(rows), form.computed))
    count = x.shape[1]
    weights: Any = None
    if fweights is not None:
        weights = _read_weights(fweights, "fweights", count, x.node.dtype.part)
    if aweights is not None:
        more_weights = _read_weights(aweights, "aweights", count, x.node.dtype.part)
        weights = more_weights if weights is None else weights * more_weights
    less = arguments.check_real(ddof, "cov", "ddof") if ddof is not None else 0 if bias else 1
    total: Any = float(count) if weights is None else sum(weights)
    centre = (sum(x, axis=1, keepdims=True) if weights is None else sum(x * weights, axis=1, keepdims=True)) / total
    freedom = total - less if aweights is None else total - less * sum(weights * more_weights) / total
    if weights is None and freedom <= 0:
        arguments.warn_of_freedom("cov", count, less)
        freedom = 0.0
    distance = x - centre
    result = matmul(distance if weights is None else distance * weights, conj(distance).T) / freedom
    return wrap(cast(result.node if result.size != 1 else reshape_node(result.node, ()), form))


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Array:
    """Compute the correlation matrix of variables: covariances divided by standard deviations.

    Parameters
    ----------
    x : (variables, observations) or (observations,) array

    >>> wf.corrcoef(wf.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    both = cov(x, y, rowvar, dtype=dtype)
    if not both.ndim:
        return both / both
    deviation = sqrt(real(diagonal(both)))
    result = both / deviation[:, None] / deviation[None, :]
    if result.node.dtype in COMPLEX:
        return wrap(op("complex", *[clip(wrap(part), -1.0, 1.0).node for part in arguments.split_complex(result.node)]))
    return clip(result, -1.0, 1.0)


def _replace_nan(function: str, x: Any, stand_in: float) -> Array:
    """Replace each NaN by ``stand_in``; in float32 if the format lacks the infinity that stands in."""
    (value,) = arrays(function, a=x)
    if value.node.dtype not in INEXACT:
        return value
    if value.node.dtype.finite and np.isinf(stand_in):
        value = wrap(cast(value.node, FLOAT32))
    number = complex(stand_in, stand_in) if value.node.dtype in COMPLEX and np.isinf(stand_in) else stand_in
    return choose(isnan(value), number, value)


def _all_nan(value: Array, axis: Axis, keepdims: bool, where: Any = True) -> Array | None:
    """Return whether all elements along axes are NaN, or None if the dtype has no NaN."""
    return all(isnan(value), axis, keepdims=keepdims, where=where) if value.node.dtype in INEXACT else None


def nansum(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:
    """Compute the sum of the elements that are not NaN; 0 if all are NaN.

    >>> wf.nansum(wf.array([1.0, wf.nan, 2.0])).tolist()
    3.0
    """
    return sum(_replace_nan("nansum", a, 0.0), axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:
    """Compute the product of the elements that are not NaN; 1 if all are NaN.

    >>> wf.nanprod(wf.array([3.0, wf.nan, 2.0])).tolist()
    6.0
    """
    return prod(_replace_nan("nanprod", a, 1.0), axis, dtype, out, keepdims, initial, where)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Array | None = None) -> Array:
    """Compute the cumulative sum, with NaN counted as 0.

    >>> wf.nancumsum(wf.array([1.0, wf.nan, 2.0])).tolist()
    [1.0, 1.0, 3.0]
    """
    return cumsum(_replace_nan("nancumsum", a, 0.0), axis, dtype, out)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Array | None = None) -> Array:
    """Compute the cumulative product, with NaN counted as 1.

    >>> wf.nancumprod(wf.array([2.0, wf.nan, 3.0])).tolist()
    [2.0, 2.0, 6.0]
    """
    return cumprod(_replace_nan("nancumprod", a, 1.0), axis, dtype, out)


def _extreme(function: str, a: Any, axis: Axis, out: Any, keepdims: bool, initial: Any, where: Any) -> Array:
    (value,) = arrays(function, a=a)
    fold, identity = (max, -np.inf) if function == "nanmax" else (min, np.inf)
    floats = value.node.dtype in INEXACT
    may_be_nan = initial is not None and floats and (not arguments.is_number(initial) or initial != initial)
    initial_array = wrap(arguments.convert_for_write(initial, value.node.dtype, function, "initial")) if may_be_nan else None
    start = initial if initial_array is None else _replace_nan(function, initial_array, identity)  # a NaN is skipped here as well
    extreme = fold(_replace_nan(function, value, identity), axis, keepdims=keepdims, initial=start, where=where)
    all_nan = _all_nan(value, axis, keepdims, where) if initial is None or may_be_nan else None
    if all_nan is not None and initial_array is not None:
        all_nan = all_nan & isnan(initial_array)
    result = extreme if all_nan is None else choose(all_nan, np.nan if initial_array is None else initial_array, extreme)
    return wrap_result(cast(result.node, value.node.dtype), out, function)


def nanmax(
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Array:
    """Return the largest of the elements that are not NaN; NaN if all are NaN.

    >>> wf.nanmax(wf.array([1.0, wf.nan])).tolist()
    1.0
    """
    return _extreme("nanmax", a, axis, out, keepdims, initial, where)


def nanmin(
    a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Array:
    """Return the smallest of the elements that are not NaN; NaN if all are NaN.

    >>> wf.nanmin(wf.array([1.0, wf.nan])).tolist()
    1.0
    """
    return _extreme("nanmin", a, axis, out, keepdims, initial, where)


def _find_index(function: str, a: Any, axis: int | None, out: Any, keepdims: bool) -> Array:
    (value,) = arrays(function, a=a)
    all_nan = _all_nan(value, axis, False)
    if all_nan is not None and bool(all_nan.any()):
        raise ValueError(f"{function}: all elements of a slice are NaN")
    fold, identity = (argmax, -np.inf) if function == "nanargmax" else (argmin, np.inf)
    return fold(_replace_nan(function, value, identity), axis, out, keepdims)


def nanargmax(a: Any, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Return the index of the largest of the elements that are not NaN. The elements are computed to check that there is one.

    Raises
    ------
    ValueError, AxisError, TraceError
        All elements of a slice are NaN; ``a`` has no such axis; inside a traced function.

    >>> wf.nanargmax(wf.array([wf.nan, 1.0, 3.0])).tolist()
    2
    """
    return _find_index("nanargmax", a, axis, out, keepdims)


def nanargmin(a: Any, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Return the index of the smallest of the elements that are not NaN. The elements are computed to check that there is one.

    >>> wf.nanargmin(wf.array([wf.nan, 1.0, 3.0])).tolist()
    1
    """
    return _find_index("nanargmin", a, axis, out, keepdims)


def _moments(
    function: str, a: Any, axis: Axis, dtype: Any, ddof: float | None, keepdims: bool, where: Any, out: Any,
    given_mean: Any = None,
) -> Array:
    """Compute the mean (``ddof`` is None) or the variance, in the dtype of the result."""
    value = floating(node(a, function, "a"))
    result = parse_dtype(dtype) if dtype is not None else arguments.accumulation_format(value.dtype, out)
    x = wrap(cast(value, result.computed))
    count_all = arguments.extent_of(x.shape, arguments.reduction_axes(axis, x.shape, function))
    if ddof is None:
        arguments.warn_of_empty_mean(function, x.shape, count_all)
    else:
        arguments.warn_of_freedom(function, count_all, ddof)
    included = ~isnan(x) if where is True else ~isnan(x) & wrap(cast(node(where, function, "where"), BOOL))
    count = sum(included, axis, keepdims=True).astype(x.node.dtype.part.numpy)
    if given_mean is None:
        mean = sum(choose(included, x, 0.0), axis, keepdims=True) / count
    else:
        mean = wrap(cast(node(given_mean, function, "mean"), x.node.dtype))
        if two_shapes(mean.shape, x.shape) != x.shape:
            raise ShapeError(f"{function}: mean has shape {mean.shape}, which does not fit a {x.shape}: use keepdims=True")
    result_array = mean
    if ddof is not None:
        freedom = count - ddof
        distance = choose(included, x - mean, 0.0)
        total = sum(wrap(arguments.magnitude(distance.node)) ** 2, axis, keepdims=True)
        result_array = choose(freedom > 0, total / choose(freedom > 0, freedom, 1.0), np.nan)
        result = result.part if dtype is None else result
    if not keepdims:
        result_array = result_array.reshape(sum(included, axis).shape)
    return wrap(cast(result_array.node, result))


def nanmean(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True,
) -> Array:
    """Compute the mean of the elements that are not NaN; NaN if all are NaN.

    Parameters
    ----------
    dtype : dtype, optional
        By default the dtype of ``a``, and float32 for integers and bools.

    >>> wf.nanmean(wf.array([1.0, wf.nan, 3.0])).tolist()
    2.0
    """
    return wrap_result(_moments("nanmean", a, axis, dtype, None, keepdims, where, out).node, out, "nanmean")


def nanvar(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0, keepdims: bool = False, *,
    where: Any = True, mean: Any = None, correction: float | None = None,
) -> Array:
    """Compute the variance of the elements that are not NaN; NaN if no more than ``ddof`` are left.

    >>> wf.nanvar(wf.array([1.0, wf.nan, 3.0])).tolist()
    1.0
    """
    less = arguments.check_ddof("nanvar", ddof, correction)
    return wrap_result(_moments("nanvar", a, axis, dtype, less, keepdims, where, out, mean).node, out, "nanvar")


def nanstd(
    a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0, keepdims: bool = False, *,
    where: Any = True, mean: Any = None, correction: float | None = None,
) -> Array:
    """Compute the standard deviation of the elements that are not NaN; NaN if no more than ``ddof`` are left.

    >>> wf.nanstd(wf.array([1.0, wf.nan, 5.0])).tolist()
    2.0
    """
    less = arguments.check_ddof("nanstd", ddof, correction)
    square = _moments("nanstd", a, axis, dtype, less, keepdims, where, out, mean).node
    root = arguments.norm_root(op("real", square) if square.dtype in COMPLEX else square)  # complex if dtype= is
    return wrap_result(cast(root, square.dtype), out, "nanstd")


complete_module(
    globals(), (cov, corrcoef), (sum, nansum, nanprod), (cumsum, nancumsum, nancumprod), (max, nanmax), (min, nanmin), (argmax,
    nanargmax), (nanargmax, nanargmin), (folds.mean, nanmean), (folds.var, nanvar, nanstd),
)
