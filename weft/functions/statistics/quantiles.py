"""Medians, percentiles and quantiles, also weighted.

The elements are sorted along the axes and interpolated between two neighbours. Functions whose names begin with ``nan`` skip NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import BOOL, COMPLEX, DEFAULT, FLOAT64, FLOATS, INEXACT, promote
from weft.errors import DTypeError, EmptyError
from weft.functions.elementwise.ufuncs import ceil, floor, isnan, less, maximum, minimum, rint
from weft.functions.indexing.take_scatter import take_along_axis
from weft.functions.indexing.where import where
from weft.functions.reductions.folds import cumsum, sum, weights_along
from weft.functions.sorting.sort_search import argsort
from weft.functions.support import arguments
from weft.functions.support.arguments import Axis, Node, arrays, broadcast, cast, finish, floating, node, op, permuted, reshaped
from weft.process.docstrings import complete_module
from weft.runtime.context import CONTEXT

# method -> (a, b): the quantile q of n elements is at index n q + a + q (1 - a - b) - 1 (R. J. Hyndman and Y. Fan,
# Sample Quantiles in Statistical Packages, The American Statistician 50, 1996)
_CONTINUOUS = {
    "linear": (1.0, 1.0), "interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
}


def _closest_observation(q: Any, n: Any) -> tuple[Any, Any]:
    place = n * q - 1.5
    low: Any = floor(place)
    return low, where((place == low) & (low % 2 == 1), 0.0, 1.0)


_INDEX_RULES: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {  # (q, n) -> (lower index, fraction of the way to the next)
    "lower": lambda q, n: (floor((n - 1) * q), 0.0),
    "higher": lambda q, n: (ceil((n - 1) * q), 0.0),
    "nearest": lambda q, n: (rint((n - 1) * q), 0.0),
    "midpoint": lambda q, n: (floor((n - 1) * q), where((n - 1) * q == floor((n - 1) * q), 0.0, 0.5)),
    "inverted_cdf": lambda q, n: (ceil(n * q - 1), 0.0),
    "averaged_inverted_cdf": lambda q, n: (floor(n * q - 1), where(n * q == floor(n * q), 0.5, 1.0)),
    "closest_observation": _closest_observation,
}
_DISCRETE = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")  # results are elements
METHODS = (*_CONTINUOUS, *_INDEX_RULES)


def _index_and_fraction(method: str, q: Array, n: Any) -> tuple[Any, Any]:
    if method in _INDEX_RULES:
        return _INDEX_RULES[method](q, n)
    a, b = _CONTINUOUS[method]
    place = n * q + (a + q * (1 - a - b)) - 1
    return floor(place), place - floor(place)


def _sorted_rows(function: str, x: Any, axis: Axis, whole: bool = False) -> tuple[Array, tuple[int, ...], tuple[int, ...]]:
    """Return the elements sorted along a last axis, the shape of the other axes, and the shape with the reduced axes kept.

    ``whole``: integers may stay integers, because no element is interpolated from two.
    """
    value = node(x, function, "a")
    axes = arguments.axis_tuple(axis, len(value.shape), function)
    rest = tuple(a for a in range(len(value.shape)) if a not in axes)
    lead = tuple(value.shape[a] for a in rest)
    value = value if whole and (value.size or 0 in lead) else floating(value)
    kept = tuple(1 if a in axes else n for a, n in enumerate(value.shape))
    row = reshaped(permuted(value, rest + axes), (*lead, math.prod(value.shape[a] for a in axes)))
    return wrap(op("sort", row, axis=len(lead)) if row.size else row), lead, kept


def _fractions(function: str, q: Any, scale: float) -> Array:
    (fractions,) = arrays(function, q=q)
    result = wrap(cast(fractions.node, FLOAT64))
    if arguments.is_number(q) or isinstance(q, np.ndarray | list | tuple):  # for an Array only the index is clipped
        values = np.asarray(q)
        if not ((values >= 0) & (values <= scale)).all():
            raise ValueError(f"{function}: q={q!r} must be from 0 to {scale:g}")
        result = wrap(node(np.asarray(q, np.float64), function, "q"))
    return result if scale == 1 else result / scale


def _quantiles(
    function: str, x: Any, q: Any, axis: Axis, out: Any, method: str, keepdims: bool, scale: float, skip: bool,
    weights: Any = None,
) -> Array:
    if method not in METHODS:
        raise ValueError(f"{function}: method={method!r} must be one of {', '.join(map(repr, METHODS))}")
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"{function}: weights= needs method='inverted_cdf', not {method!r}")
    form = node(x, function, "a").dtype
    if form in COMPLEX:
        raise DTypeError(f"{function}: a is {form}, and complex numbers have no order; take wf.real(x), wf.imag(x) or wf.abs(x)")
    fractions = _fractions(function, q, scale)
    rows, lead, kept = _sorted_rows(function, x, axis, method in _DISCRETE)
    if form == BOOL and method not in _DISCRETE and (rows.size if skip else rows.shape[-1]):
        raise DTypeError(f"{function}: bools cannot be interpolated; cast with .astype('float32')")
    if DEFAULT.wide and type(q) not in arguments.NUMBERS and method not in _DISCRETE:
        q_node = node(q, function, "q") if scale == 1 else floating(node(q, function, "q"))
        rows = rows.astype(promote(form, q_node.dtype).numpy) if q_node.dtype in FLOATS else rows
    line = fractions.reshape(-1)
    count: Any = rows.shape[-1]
    if skip:
        count = sum(~isnan(rows), axis=-1, keepdims=True)
    if not rows.shape[-1]:
        if not skip and 0 not in lead and line.size:
            shape = kept if keepdims else lead
            raise EmptyError(f"{function}: a has no elements along axis={axis} to compute a result of shape {shape} from")
        if skip:
            arguments.warn_of_empty_mean(function, node(x, function).shape, 0)
        rows = wrap(floating(rows.node)) if skip else rows
        fill = node(np.nan if rows.node.dtype in INEXACT else 0, function)  # integers: the result has no elements
        result = wrap(op("broadcast_to", fill, shape=(*lead, line.size))).astype(rows.dtype)
    elif weights is not None:
        axes = arguments.axis_tuple(axis, len(node(x, function, "a").shape), function)
        result = _weighted_quantiles(function, x, line, axes, axis, weights, skip)
    else:
        n = count.astype("float64") if skip else float(count)
        low, part = _index_and_fraction(method, line, n)
        if not skip:
            low = low.reshape((1,) * len(lead) + (-1,))
            part = part if isinstance(part, float) else part.reshape((1,) * len(lead) + (-1,))
        last = n - 1
        below, above = (minimum(maximum(k, 0.0), maximum(last, 0.0)).astype("int64") for k in (low, low + 1))
        a = take_along_axis(rows, below, mode="clip")
        if isinstance(part, float):
            result = a
        else:
            b, part = take_along_axis(rows, above, mode="clip"), part.astype(rows.dtype)
            if rows.node.dtype not in INEXACT:  # closest_observation
                result = where(part == 0, a, b)
            else:
                interpolated = where(part < 0.5, a + (b - a) * part, b - (b - a) * (1 - part))  # from the nearer end, as NumPy
                result = where(part == 0, a, where(a == b, a, interpolated))  # inf - inf would be NaN
        end = rows[..., :1] if skip else rows[..., -1:]  # NaN is sorted last
        result = where(isnan(end), end, result) if rows.node.dtype in INEXACT else result
    moved = permuted(result.node, (len(lead), *range(len(lead))))
    shape = fractions.shape + (kept if keepdims else lead)
    return finish(reshaped(moved, shape), out, function)


def quantile(
    a: Any, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Array:
    """Compute the number below which a fraction ``q`` of the elements lies.

    Parameters
    ----------
    q : number or array
        From 0 to 1; the range is not checked for an Array.
    axis : int or tuple of int, optional
        The reduced axes; None for all.
    overwrite_input : bool
        Has no effect: ``a`` is never changed.
    method : str
        The interpolation between two elements: "linear", "lower", "higher", "nearest", "midpoint", or one of the nine methods of
        Hyndman and Fan under NumPy's names ("hazen", "weibull", "median_unbiased", ...).
    weights : array, optional
        The weight of each element: of the shape of ``a``, or of the axes named by ``axis``. Only with ``method="inverted_cdf"``.

    Returns
    -------
    Array
        Of the shape of ``q``, followed by that of ``a`` without the reduced axes. NaN where an element is NaN.

    Raises
    ------
    ValueError, AxisError, EmptyError, DTypeError
        ``q`` is out of range, or ``method`` is unknown; weights are negative or all zero; ``a`` has no such axis; it has no
        elements; it holds bools or complex numbers.

    >>> wf.quantile(wf.array([1.0, 2.0, 3.0, 5.0]), [0.0, 0.5]).tolist()
    [1.0, 2.5]
    """
    return _quantiles("quantile", a, q, axis, out, method, keepdims, 1.0, False, weights)


def percentile(
    a: Any, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Array:
    """Compute :func:`quantile` with ``q`` in percent.

    Parameters
    ----------
    q : number or array
        From 0 to 100; the range is not checked for an Array.

    >>> wf.percentile(wf.array([1.0, 2.0, 3.0]), 25).tolist()
    1.5
    """
    return _quantiles("percentile", a, q, axis, out, method, keepdims, 100.0, False, weights)


def _median(function: str, a: Any, axis: Axis, out: Any, keepdims: bool, skip: bool = False) -> Array:
    rows, lead, kept = _sorted_rows(function, a, axis)
    n = rows.shape[-1]
    wide = arguments.accumulation_format(rows.node.dtype, out).numpy
    if not n:
        arguments.warn_of_empty_mean(function, node(a, function).shape, n)
        middle = wrap(op("broadcast_to", node(np.nan, function), shape=lead)).astype(rows.dtype)
    else:
        last: Any = n - 1
        if skip:  # NaN is sorted last
            last = maximum(sum(~isnan(rows), axis=-1, keepdims=True) - 1, 0)
        ends: Any = (last // 2, (last + 1) // 2)
        low, high = (take_along_axis(rows, k, axis=-1)[..., 0] if skip else rows[..., k] for k in ends)
        end = rows[..., 0] if skip else rows[..., -1]
        middle = where(isnan(end), end, where(low == high, low, low.astype(wide) / 2 + high.astype(wide) / 2))
    result: Node = middle.node
    return finish(reshaped(result, kept if keepdims else lead), out, function)


def median(
    a: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False, keepdims: bool = False,
) -> Array:
    """Return the middle one of the sorted elements, or the mean of the middle two.

    Returns
    -------
    Array without the reduced axes; NaN where an element is NaN, or there is none

    Raises
    ------
    AxisError
        ``a`` has no such axis.

    >>> wf.median(wf.array([3.0, 1.0, 2.0, 10.0])).tolist()
    2.5
    """
    return _median("median", a, axis, out, keepdims)


def nanquantile(
    a: Any, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Array:
    """Compute :func:`quantile` of the elements that are not NaN; NaN if all are NaN.

    >>> wf.nanquantile(wf.array([1.0, wf.nan, 3.0]), 0.5).tolist()
    2.0
    """
    return _quantiles("nanquantile", a, q, axis, out, method, keepdims, 1.0, True, weights)


def nanpercentile(
    a: Any, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Array:
    """Compute :func:`percentile` of the elements that are not NaN; NaN if all are NaN.

    >>> wf.nanpercentile(wf.array([1.0, wf.nan, 3.0]), 50).tolist()
    2.0
    """
    return _quantiles("nanpercentile", a, q, axis, out, method, keepdims, 100.0, True, weights)


def nanmedian(
    a: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False, keepdims: bool = False,
) -> Array:
    """Compute :func:`median` of the elements that are not NaN; NaN if all are NaN.

    >>> wf.nanmedian(wf.array([1.0, wf.nan, 3.0])).tolist()
    2.0
    """
    return _median("nanmedian", a, axis, out, keepdims, skip=True)


def _weighted_quantiles(
    function: str, a: Any, line: Array, axes: tuple[int, ...], axis: Axis, weights: Any, skip: bool,
) -> Array:
    """Return the smallest elements up to which the weights reach the fractions ``line``; ``skip``: NaN have weight 0."""
    value = node(a, function, "a")
    weight = broadcast(weights_along(function, node(weights, function, "weights"), value.shape, axis), value.shape)
    _check_weights(function, weight, value if skip and value.dtype in INEXACT else None, axes)
    rest = tuple(k for k in range(len(value.shape)) if k not in axes)
    lead = tuple(value.shape[k] for k in rest)
    shape = (*lead, math.prod(value.shape[k] for k in axes))
    row, mass = (wrap(reshaped(permuted(n, rest + axes), shape)) for n in (value, weight))
    order = argsort(row)
    row, mass = take_along_axis(row, order), take_along_axis(mass, order).astype("float64")
    missing = isnan(row) if value.dtype in INEXACT else None
    last: Any = shape[-1] - 1
    if skip and missing is not None:
        mass = where(missing, 0.0, mass)
        last = maximum(sum(~missing, axis=-1, keepdims=True) - 1, 0)
    part = cumsum(mass, axis=-1)
    part = part / part[..., -1:]
    part = where(part == 0, -1.0, part)  # elements of weight 0 are never a quantile, not even for q = 0
    place = sum(less(part[..., None], line), axis=-2)
    chosen = take_along_axis(row, minimum(place, last), mode="clip")
    if missing is None:
        return chosen
    is_nan = missing[..., :1] if skip else missing[..., -1:]  # NaN is sorted last
    return where(is_nan, np.nan, chosen).astype(chosen.dtype)


def _check_weights(function: str, weight: Node, value: Node | None, axes: tuple[int, ...]) -> None:
    """Raise ValueError for weights that are negative or sum to 0 (not in a trace). Elements of ``value`` that are NaN weigh 0."""
    if CONTEXT.trace is not None:
        return
    values = wrap(weight).numpy()
    if (values < 0).any():
        raise ValueError(f"{function}: weights hold {values[values < 0].flat[0]}; they must not be negative")
    included = np.ones(values.shape, bool) if value is None else ~np.isnan(wrap(value).numpy())
    total = np.sum(values, axis=axes, dtype=np.float64, where=included)
    if not (np.isfinite(total) & (total > 0) | ~included.any(axis=axes)).all():
        raise ValueError(f"{function}: weights sum to {np.asarray(total).flat[0]}; they must be finite, and not all zero")


complete_module(globals(), (quantile, percentile, nanquantile, median), (percentile, nanpercentile), (median, nanmedian))
