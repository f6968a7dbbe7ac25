"""Differences, slopes, integrals and interpolation of samples; their histograms and quantiles."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import array_operands, exact_operands, numpy_node, promote_operands, read_operands
from weft.array.indexing import resolve_scalar_indices
from weft.array.operations import complex_error
from weft.dtypes import formats
from weft.dtypes.formats import BOOL, COMPLEX, DEFAULT, FLOAT64, FLOATS, INEXACT, INT32, INT64, UINT32, UINT64, promote, weak
from weft.dtypes.parse import to_tuple
from weft.eager.peek import leaf, peek
from weft.errors import AxisError, DTypeError, EmptyError, ShapeError, name_numpy_errors
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.compositions import imag, iscomplexobj, real
from weft.functions.elementwise.ufuncs import absolute, ceil, floor, isnan, less, maximum, minimum, remainder, rint, stop_gradient
from weft.functions.indexing.take_scatter import take_along_axis
from weft.functions.indexing.where import where
from weft.functions.numpy_compat.objects import shape as shape_of
from weft.functions.reductions.folds import cumsum, cumulative_sum, sum, weights_along
from weft.functions.shape.axes import concat
from weft.functions.sorting.sort_search import argsort, searchsorted
from weft.functions.support import arguments
from weft.functions.support.arguments import (
    Axis,
    Node,
    arrays,
    broadcast,
    cast,
    floating,
    node,
    op,
    permute_node,
    reshape_node,
    slice_node,
)
from weft.graph.primitives.settings import scatter_add_mode
from weft.process.docstrings import complete_module
from weft.runtime.context import CONTEXT


def _extend(x: Node, more: Any, axis: int, first: bool) -> Node:
    """Concatenate ``more`` before or after ``x`` along an axis; a number becomes a slice of that value."""
    a, b = array_operands(wrap(x), more)
    if not b.shape:
        b = broadcast(b, tuple(1 if d == axis else n for d, n in enumerate(a.shape)))
    return concat([wrap(b), wrap(a)] if first else [wrap(a), wrap(b)], axis).node


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """Compute the differences of successive elements, ``n`` times; of bools, whether they differ.

    Parameters
    ----------
    n : int
        How often the difference is taken.
    axis : int
    prepend, append : number or array, optional
        Values put before and after ``a`` along the axis.

    Returns
    -------
    Array, shorter by ``n`` along the axis

    Raises
    ------
    ValueError, ShapeError, AxisError
        ``n`` is negative; ``a`` has no dimensions, or ``prepend`` or ``append`` does not fit; ``a`` has no such axis.

    >>> wf.diff(wf.array([1, 4, 9, 16])).tolist()
    [3, 5, 7]
    """
    value, times = node(a, "diff", "a"), arguments.count_from_zero(n, "diff", "n", ValueError)
    if not value.shape:
        raise ShapeError("diff: a has no dimensions; an array of at least one is needed")
    axis = arguments.axis_index(axis, len(value.shape), "diff")
    if not times:
        return wrap(value)
    for more, first in ((prepend, True), (append, False)):
        if more is not None:
            value = _extend(value, more, axis, first)
    name = "logical_xor" if value.dtype == BOOL else "subtract"
    for _ in range(min(times, value.shape[axis])):  # then the axis is empty
        extent = value.shape[axis]
        value = op(name, slice_node(value, axis, min(1, extent), extent), slice_node(value, axis, 0, max(extent - 1, 0)))
    return wrap(value)


def _refuse_bools(function: str, argument: str, value: Node) -> None:
    if value.dtype == BOOL:
        raise DTypeError(f"{function}: {argument} is bool, and bools have no difference; cast with .astype('int8')")


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    """Compute the differences of successive elements of the flattened array.

    Parameters
    ----------
    to_end, to_begin : array, optional
        Values put after and before the differences.

    Returns
    -------
    Array with one dimension, of the dtype of ``ary``

    Raises
    ------
    DTypeError
        ``ary`` is bool, or cannot hold ``to_end`` or ``to_begin``.

    >>> wf.ediff1d(wf.array([1, 2, 4]), to_begin=0).tolist()
    [0, 1, 2]
    """
    (value,) = arrays("ediff1d", ary=ary)
    _refuse_bools("ediff1d", "ary", value.node)
    parts = [to_begin, diff(value.reshape(-1)), to_end]
    for name, more in (("to_begin", to_begin), ("to_end", to_end)):
        have = value.node.dtype if more is None or isinstance(more, int) else node(more, "ediff1d", name).dtype
        if not arguments.may_cast(have, value.node.dtype, "same_kind", "ediff1d"):
            raise DTypeError(f"ediff1d: {name} is {have}, which {value.node.dtype} of ary cannot hold; cast one of them")
    nodes = [arguments.convert_for_write(p, value.node.dtype, "ediff1d", "to_end") for p in parts if p is not None]
    rows = [wrap(n).reshape(-1) for n in nodes]
    return rows[0] if len(rows) == 1 else concat(rows)


def _steps(spacing: Any, extent: int, axis: int, like: Node) -> Array | None:
    """Return the distances between neighbours, or None if ``spacing`` is one number."""
    (values,) = arrays("gradient", varargs=spacing)
    if not values.ndim:
        return None
    if values.shape != (extent,):
        raise ShapeError(f"gradient: the coordinates of axis {axis} have shape {values.shape}; ({extent},) is needed")
    return diff(wrap(arguments.convert_for_write(spacing, like.dtype, "gradient", "varargs")))


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Compute slopes along axes: from both neighbours inside, one-sided at the edges.

    Parameters
    ----------
    f : array
    varargs : number or array
        The distance between elements, or their coordinates: one for all axes, or one for each.
    axis : int or tuple of int, optional
        None for all.
    edge_order : 1 or 2
        The order of accuracy at the edges.

    Returns
    -------
    Array of the shape of ``f``, or a tuple of them, one per axis

    Raises
    ------
    ShapeError, AxisError, DTypeError, TypeError, ValueError
        There are too few elements, or coordinates do not fit; ``f`` has no such axis; it is bool; the number of distances differs
        from that of the axes; ``edge_order`` is not 1 or 2.

    >>> wf.gradient(wf.array([1.0, 2.0, 4.0, 7.0])).tolist()
    [1.0, 1.5, 2.5, 3.0]
    """
    value = node(f, "gradient", "f")
    _refuse_bools("gradient", "f", value)
    value = floating(value)
    dtype, value = value.dtype, cast(value, value.dtype.computed) if value.dtype.alone else value
    requested = range(len(value.shape)) if axis is None else to_tuple(axis)
    arguments.axis_tuple(tuple(requested), len(value.shape), "gradient")  # raises for an axis that is missing or named twice
    axes = tuple(arguments.axis_index(a, len(value.shape), "gradient") for a in requested)
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError(f"gradient: {len(varargs)} distances are given for {len(axes)} axes; give one, or one for each")
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order={edge_order!r} must be 1 or 2")
    spacings = varargs if len(varargs) == len(axes) else (varargs or (1.0,)) * len(axes)
    slopes = tuple(wrap(cast(_slopes_along(value, h, a, edge_order).node, dtype)) for h, a in zip(spacings, axes, strict=True))
    return slopes[0] if len(axes) == 1 else slopes


def _slopes_along(value: Node, spacing: Any, axis: int, order: int) -> Array:
    extent, f = value.shape[axis], wrap(value)
    if extent < order + 1:
        raise ShapeError(f"gradient: axis {axis} of shape {value.shape} has fewer than {order + 1} elements")

    def at(start: int, stop: int) -> Array:
        return wrap(slice_node(value, axis, start, stop))

    steps, lines = _steps(spacing, extent, axis, value), len(value.shape) - axis - 1
    if steps is None:
        h = wrap(cast(node(spacing, "gradient"), value.dtype)) if isinstance(spacing, Array) else spacing
        inside = (at(2, extent) - at(0, extent - 2)) / (2.0 * h)
        first = last = lower = upper = h
    else:
        steps = steps.reshape((-1,) + (1,) * lines)
        lower, upper = steps[:-1], steps[1:]
        inside = (
            at(0, extent - 2) * (-upper / (lower * (lower + upper))) + at(1, extent - 1) * ((upper - lower) / (lower * upper))
            + at(2, extent) * (lower / (upper * (lower + upper)))
        )
        first, last = steps[:1], steps[-1:]
    if order == 1:
        begin, end = (at(1, 2) - at(0, 1)) / first, (at(extent - 1, extent) - at(extent - 2, extent - 1)) / last
    else:
        a, b = (first, steps[1:2]) if steps is not None else (first, first)
        c, d = (steps[-2:-1], last) if steps is not None else (last, last)
        begin = (at(0, 1) * (-(2.0 * a + b) / (a * (a + b))) + at(1, 2) * ((a + b) / (a * b)) + at(2, 3) * (-a / (b * (a + b))))
        end = (
            at(extent - 3, extent - 2) * (d / (c * (c + d))) + at(extent - 2, extent - 1) * (-(d + c) / (c * d))
            + at(extent - 1, extent) * ((2.0 * d + c) / (d * (c + d)))
        )
    return concat([begin, inside, end], axis).astype(f.dtype)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """Integrate along an axis by the trapezoidal rule.

    Parameters
    ----------
    y : array
        The function values.
    x : array, optional
        Their coordinates; None: values are ``dx`` apart.
    dx : number
    axis : int

    Returns
    -------
    Array without the axis

    Raises
    ------
    AxisError, ShapeError
        ``y`` has no such axis; ``x`` does not fit.

    >>> wf.trapezoid(wf.array([1.0, 2.0, 3.0])).tolist()
    4.0
    """
    if x is not None:
        y, x = map(wrap, exact_operands(y, x))
    value = node(y, "trapezoid", "y")
    axis = arguments.axis_index(axis, len(value.shape), "trapezoid")
    width: Any = dx if isinstance(dx, list | tuple) else arguments.check_real(dx, "trapezoid", "dx")
    if x is not None:
        width = diff(x, axis=-1 if x.ndim == 1 else axis)
        if x.ndim == 1:
            width = width.reshape((-1,) + (1,) * (len(value.shape) - axis - 1))
    extent = value.shape[axis]
    if not extent:
        return sum(wrap(floating(value)), axis)
    dtype, value = floating(value).dtype, cast(value, value.dtype.computed) if value.dtype.alone else value
    width = width.astype(dtype.computed) if dtype.alone and isinstance(width, Array) else width
    high, low = (wrap(slice_node(value, axis, *ends)) for ends in ((1, extent), (0, extent - 1)))
    result = sum(width * (high + low) / 2.0, axis)
    return result.astype(dtype) if dtype.alone else result


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None) -> Array:
    """Interpolate linearly between the points (``xp``, ``fp``).

    Parameters
    ----------
    x : array
        The coordinates to evaluate at.
    xp : (N,) ascending
        The coordinates of the points.
    fp : (N,)
        Their values, possibly complex.
    left, right : number, optional
        The values before the first and after the last point; by default those of these points.
    period : number, optional
        The period of the coordinates; ``xp`` may then be in any order.

    Returns
    -------
    Array of the shape of ``x``; float64 if one of the three is, else float32

    Raises
    ------
    ShapeError, ValueError, DTypeError
        ``xp`` and ``fp`` are not vectors of one length, or are empty; ``period`` is 0; ``x`` or ``xp`` is complex.

    >>> wf.interp(wf.array([0.5, 5.0]), [0.0, 1.0], [10.0, 20.0]).tolist()
    [15.0, 20.0]
    """
    for operand, name in ((x, "x"), (xp, "xp")):
        if iscomplexobj(operand):
            raise DTypeError(f"interp: {name} is {node(operand, 'interp').dtype}; coordinates must be real: take wf.real({name})")
    if iscomplexobj(fp):
        re, im = [
            interp(x, xp, part(fp), None if left is None else part(left), None if right is None else part(right), period)
            for part in (real, imag)
        ]
        coordinates = asarray(x) if period is None else remainder(asarray(x), abs(float(period)))  # NaN for infinities
        imaginary = im if shape_of(xp) == (1,) and period is None else where(isnan(coordinates), 0, im)
        return wrap(op("complex", re.node, imaginary.node))
    if period is not None:
        if arguments.check_real(period, "interp", "period") == 0:
            raise ValueError("interp: period must not be 0")
        x, xp = (_within_period(v, abs(float(period))) for v in (x, xp))
    x_node, xp_node, fp_node = (floating(n) for n in promote_operands(x, xp, fp))
    if DEFAULT.wide:  # NumPy computes in float64
        x_node, xp_node, fp_node = (cast(n, FLOAT64) for n in (x_node, xp_node, fp_node))
    if xp_node.shape != fp_node.shape or len(xp_node.shape) != 1:
        raise ShapeError(f"interp: xp has shape {xp_node.shape} and fp {fp_node.shape}; two vectors of one length are needed")
    if not xp_node.size:
        raise ValueError("interp: xp and fp are empty")
    dtype, q, points, values = x_node.dtype, wrap(x_node), wrap(xp_node), wrap(fp_node)
    if dtype is not FLOAT64:
        q, points, values = (v.astype(dtype.computed.name) for v in (q, points, values))
    if period is not None:
        whole = abs(float(period))
        q, points, left, right = remainder(q, whole), remainder(points, whole), None, None
        order = wrap(op("argsort", points.node, axis=0))
        points, values = points[order], values[order]
        points = concat([points[-1:] - whole, points, points[:1] + whole])
        values = concat([values[-1:], values, values[:1]])
    plain = left is right is None and not dtype.narrow and fp_node.dtype is dtype
    if (content := peek(q.node, points.node, values.node) if plain else None) is None:
        count_below = searchsorted(points, q, side="right")
        return _interpolate(_ArrayFunctions, count_below, q, points, values, left, right).astype(dtype.name)
    with np.errstate(all="ignore"):
        result = _interpolate(_NumPyFunctions, content[1].searchsorted(content[0], "right"), *content)
    return wrap(leaf(np.asarray(result), dtype))


def _within_period(x: Any, period: float) -> Any:
    """Reduce integers by an integer period, since the dtype of the result may not hold them; return other operands unchanged."""
    value = node(x, "interp")
    is_reduced = value.dtype in (INT32, UINT32, INT64, UINT64) and period.is_integer() and period <= INT32.greatest
    return remainder(wrap(value), int(period)) if is_reduced else x


class _NumPyFunctions:
    """The functions that :func:`_interpolate` calls, for NumPy arrays."""

    where, isnan, clip, take = (staticmethod(f) for f in (np.where, np.isnan, np.clip, np.take))
    constant = staticmethod(np.asarray)


class _ArrayFunctions:
    """The same functions for pending arrays."""

    where, isnan, constant = staticmethod(where), staticmethod(isnan), staticmethod(stop_gradient)

    @staticmethod
    def clip(x: Array, low: int, high: int) -> Array:
        return wrap(op("minimum", op("maximum", x.node, node(low, "interp")), node(high, "interp")))

    @staticmethod
    def take(x: Array, places: Array) -> Array:
        return wrap(op("gather", x.node, places.node, axes=(0,)))


def _interpolate(xp: Any, count_below: Any, q: Any, points: Any, values: Any, left: Any = None, right: Any = None) -> Any:
    """Evaluate the lines between points, for arrays of NumPy or weft, with every operation rounded once.

    ``count_below``: for each coordinate, the number of points that are not greater.
    """
    low = xp.clip(count_below - 1, 0, max(points.size - 2, 0))
    high = xp.clip(low + 1, 0, points.size - 1)
    x0, x1, y0, y1 = xp.take(points, low), xp.take(points, high), xp.take(values, low), xp.take(values, high)
    width = x1 - x0
    slope = (y1 - y0) / xp.where(width == 0, width.dtype.type(1), width)
    inside = y0 + (q - x0) * slope
    from_right = y1 + (q - x1) * slope  # NumPy's second attempt, for infinite values
    from_right = xp.where(q == x0, y0, xp.where(xp.isnan(from_right) & (y0 == y1), y0, from_right))
    inside = xp.where(q == x1, y1, xp.where(xp.isnan(inside), xp.constant(from_right), inside))
    result = xp.where(q < points[0], values[0] if left is None else left, inside)
    result = xp.where(q > points[-1], values[-1] if right is None else right, result)
    return xp.where(xp.isnan(q), values[0] if points.size == 1 else q, result)  # NaN, except for one point, as in NumPy


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Array:
    """Remove jumps of angles: where neighbours differ by more than half a ``period``, add whole periods.

    Parameters
    ----------
    p : array
    discont : number, optional
        Only jumps larger than this count; at least half a period.
    axis : int
    period : number

    Returns
    -------
    Array of the shape of ``p``

    Raises
    ------
    AxisError, DTypeError
        ``p`` has no such axis; it is complex.

    >>> wf.unwrap(wf.array([0, 1, 5, 6]), period=4).tolist()
    [0, 1, 1, 2]
    """
    value = node(p, "unwrap", "p")
    if not value.shape:
        raise AxisError(f"unwrap: axis={axis}, but the array has no axes")
    axis = arguments.axis_index(axis, len(value.shape), "unwrap")
    if value.dtype in COMPLEX:
        raise complex_error("unwrap", value.dtype)
    arguments.check_real(period, "unwrap", "period")
    is_integer = isinstance(period, int) and value.dtype not in FLOATS
    if not value.shape[axis]:
        return wrap(value if is_integer else floating(value))
    x = wrap(value if is_integer else floating(value))
    half: Any = period // 2 if is_integer else period / 2
    differences = diff(wrap(value), axis=axis).astype(x.dtype)
    wrapped = remainder(differences + half, period) - half
    if not is_integer or period % 2 == 0:  # a jump of exactly half a period keeps its direction
        wrapped = where((wrapped == -half) & (differences > 0), half, wrapped)
    limit = half if discont is None else arguments.check_real(discont, "unwrap", "discont")
    correction = where(absolute(differences) < limit, 0, wrapped - differences)
    extent = x.shape[axis]
    later = wrap(slice_node(x.node, axis, 1, extent)) + cumulative_sum(correction, axis).astype(x.dtype)
    first = reshape_node(slice_node(x.node, axis, 0, 1), tuple(1 if a == axis else n for a, n in enumerate(x.shape)))
    return concat([wrap(first), later], axis)


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Array:
    """Count how often each of the integers 0, 1, 2, ... occurs. The elements are computed to find the largest.

    Parameters
    ----------
    x : (N,) array of integers
        Not negative.
    weights : (N,) array, optional
        The amount that each element adds instead of 1.
    minlength : int
        The minimum length of the result.

    Returns
    -------
    Array of int64; of float32 or float64 with ``weights``

    Raises
    ------
    ShapeError, DTypeError, ValueError, TraceError
        ``x`` is not a vector, or ``weights`` has another shape; ``x`` does not hold integers; one is negative; inside a traced
        function.

    >>> wf.bincount(wf.array([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    value = node(x, "bincount")
    if len(value.shape) != 1:
        raise ShapeError(f"bincount: x has shape {value.shape}; a vector is needed")
    if value.dtype not in formats.INTEGERS and value.dtype != BOOL and (value.size or isinstance(x, Array)):
        raise DTypeError(f"bincount: x must hold integers, but has dtype {value.dtype}; cast with .astype('int64')")
    least = arguments.count_from_zero(minlength, "bincount", "minlength", ValueError)
    elements = arguments.read_now(wrap(value), "bincount")
    if value.size and elements.min() < 0:
        raise ValueError(f"bincount: x holds the negative number {elements.min()}")
    length = max(least, int(elements.max()) + 1 if value.size else 0)
    if weights is None:
        return wrap(numpy_node(np.bincount(elements.astype(np.int64), minlength=length)))
    amounts = node(weights, "bincount", "weights")
    if amounts.shape != value.shape:
        raise ShapeError(f"bincount: weights have shape {amounts.shape}, x has shape {value.shape}")
    return wrap(_scatter_counts(cast(value, INT64), amounts if amounts.dtype is FLOAT64 else cast(amounts, DEFAULT.real), length))


def _scatter_counts(place: Node, added: Node, length: int) -> Node:
    zeros = broadcast(arguments.number(0, added.dtype), (length,))
    return op("scatter", zeros, added, place, axes=(0,), mode=scatter_add_mode(added.dtype)) if length else zeros


def digitize(x: Any, bins: Any, right: bool = False) -> Array:
    """Return the bin of each element: 0 before the first edge, ``len(bins)`` after the last.

    Parameters
    ----------
    bins : (N,) array
        Rising or falling edges. They are computed.
    right : bool
        Whether an edge belongs to the bin before it.

    Returns
    -------
    Array of int64, of the shape of ``x``

    Raises
    ------
    DTypeError, ShapeError, ValueError, TraceError
        ``x`` is complex; ``bins`` is not a vector; it neither rises nor falls; it is not known inside a traced function.

    >>> wf.digitize(wf.array([0.5, 1.0, 9.0]), [0.0, 1.0, 2.0]).tolist()
    [1, 2, 3]
    """
    if read_operands((node(x, "digitize") if x is None else x,), promote, weak)[1] in COMPLEX:
        raise DTypeError("digitize: x is complex, and has no order; take wf.real(x), wf.imag(x) or wf.abs(x)")
    # float lists stay float64
    promoted = read_operands((bins,), promote, weak)[0][0] if isinstance(bins, list | tuple) else None
    edges = promoted if isinstance(promoted, np.ndarray) else arguments.read_now(bins, "digitize", "bins")
    if edges.ndim != 1:
        raise ShapeError(f"digitize: bins have shape {edges.shape}; a vector is needed")
    if edges.dtype.kind == "f" and np.isnan(edges).any():  # NaN edges: NumPy's binary search defines the result
        elements = arguments.read_now(x, "digitize")
        with name_numpy_errors("digitize"):
            return arguments.from_numpy(np.digitize(elements, edges, right))
    is_falling = edges.size > 0 and bool(edges[0] > edges[-1])
    if (edges[1:] > edges[:-1] if is_falling else edges[1:] < edges[:-1]).any():
        raise ValueError("digitize: bins must rise or fall")
    if not is_falling:
        return searchsorted(bins, x, side="left" if right else "right")
    rising = bins[::-1] if isinstance(bins, list | tuple) else edges[::-1]
    return len(edges) - searchsorted(rising, x, side="left" if right else "right")


def _parse_range(function: str, range: Any) -> tuple[float, float]:
    ends = [arguments.check_real(b, function, "range") for b in arguments.as_list(range, function, "range")]
    low, high = map(float, ends) if len(ends) == 2 else (np.nan, np.nan)
    if not (np.isfinite(low) and np.isfinite(high)) or low > high:
        raise ValueError(f"{function}: range={range!r} must be two finite numbers, the smaller one first")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _find_edges(function: str, a: Node, bins: Any, range: Any, weights: Any) -> np.ndarray:
    """Return the bin edges in the dtype in which elements are compared with them."""
    float_dtype = a.dtype.numpy if a.dtype in FLOATS and not a.dtype.narrow else np.dtype(np.float64)
    if isinstance(bins, str):
        if weights is not None:
            raise TypeError(f"{function}: bins={bins!r} counts elements without weights; give the number of bins, or their edges")
        elements = arguments.read_now(wrap(a), function, "a")
        with name_numpy_errors(function):
            return np.histogram_bin_edges(elements, bins, range)
    bins = resolve_scalar_indices(bins)
    if isinstance(bins, list | tuple) or getattr(bins, "shape", ()) != ():
        edges = _read_edges(function, a, bins)
        if edges.ndim != 1 or (edges[1:] < edges[:-1]).any():
            raise ValueError(f"{function}: the edges of bins must be a vector that rises")
        return edges
    try:
        count = operator.index(bins)
    except TypeError:
        raise DTypeError(f"{function}: bins must be a number, edges or the name of a rule, not {bins!r}") from None
    if count < 1:
        raise ValueError(f"{function}: bins={count} must be at least 1")
    if range is not None:
        low, high = _parse_range(function, range)
    elif not a.size:
        low, high = 0.0, 1.0
    else:
        elements = arguments.read_now(wrap(a), function, "a")
        low, high = _parse_range(function, (elements.min(), elements.max()))
    return np.linspace(low, high, count + 1).astype(float_dtype)


def _read_edges(function: str, a: Node, bins: Any) -> np.ndarray:
    """Return edges that the user gave. Arrays keep their dtype; lists of floats are float64 beside float64, as in operators."""
    promoted = read_operands((bins,), promote, weak)[0][0] if isinstance(bins, list | tuple) else None
    if isinstance(promoted, np.ndarray) and promoted.dtype == np.float64:
        return promoted.astype(FLOAT64.numpy if a.dtype in (FLOAT64, UINT64) else DEFAULT.real.numpy)
    return arguments.read_now(bins, function, "bins")


def _result_edges(edges: np.ndarray, value: Node, bins: Any) -> Array:
    """Return edges as an Array: in their own dtype if the user gave them, else in that of the result."""
    is_given = not isinstance(bins, str) and np.ndim(bins) > 0
    return arguments.from_numpy(edges, None if is_given else _edge_dtype(value))


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """Return the bin edges that :func:`histogram` uses. Edges that are given keep their dtype.

    Returns
    -------
    (number of bins + 1,) Array

    >>> wf.histogram_bin_edges(wf.array([0.0, 4.0]), bins=2).tolist()
    [0.0, 2.0, 4.0]
    """
    value = _comparable(node(a, "histogram_bin_edges", "a"), bins)
    return _result_edges(_find_edges("histogram_bin_edges", value, bins, range, weights), value, bins)


def _comparable(value: Node, bins: Any) -> Node:
    """Return elements of a dtype that does not promote as the wider floats that compute them, unless the edges keep it too."""
    same = isinstance(bins, Array) and bins.node.dtype is value.dtype and not value.dtype.custom
    if same or not value.dtype.alone:
        return value
    return cast(value, value.dtype.computed)


def _edge_dtype(value: Node) -> Any:
    if DEFAULT.wide and value.dtype in FLOATS:
        return value.dtype
    return FLOAT64 if value.dtype in (FLOAT64, UINT64) else DEFAULT.real


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None,
) -> tuple[Array, Array]:
    """Count the elements in each bin; the last bin includes its upper edge.

    Parameters
    ----------
    a : array
        Flattened.
    bins : int, (N + 1,) array, or str
        The number of bins of equal width, their edges, or one of NumPy's rules ("auto", "fd", "sturges", ...).
    range : (low, high), optional
        None: from the smallest to the largest element, which are computed.
    density : bool
        Divide by the widths and the total, so that the area is 1.
    weights : array, optional
        The amount that each element adds instead of 1.

    Returns
    -------
    (N,) Array of int64 or floats, and (N + 1,) Array : the counts and the edges. Edges that are given keep their dtype.

    Raises
    ------
    ValueError, ShapeError, DTypeError, TypeError, TraceError
        Edges fall, there is no bin, or ``range`` is not finite; ``weights`` has another shape; ``bins`` is none of these; it is a
        rule, beside ``weights``; computed elements are not known inside a traced function.

    >>> counts, edges = wf.histogram(wf.array([0.0, 1.0, 1.0, 4.0]), bins=2)
    >>> counts.tolist(), edges.tolist()
    ([3, 1], [0.0, 2.0, 4.0])
    """
    value = node(a, "histogram", "a")
    if value.dtype in COMPLEX and range is None and not np.ndim(bins):
        raise DTypeError("histogram: a is complex, and has no least element; give edges, or take wf.real(a) or wf.abs(a)")
    value = _comparable(value, bins)
    edges = _find_edges("histogram", value, bins, range, weights)
    count = len(edges) - 1
    x, line = wrap(reshape_node(value, (value.size,))), wrap(numpy_node(edges))
    place = searchsorted(line, x, side="right") - 1
    place = where(x == line[-1:], count - 1, place)
    inside = (place >= 0) & (place < count) & (x <= line[-1:])
    weights_are_bool = False
    if weights is None:
        amounts: Any = wrap(cast(inside.node, INT64))
    else:
        (amounts,) = arrays("histogram", weights=weights)
        if amounts.shape != value.shape:
            raise ShapeError(f"histogram: weights have shape {amounts.shape}, a has shape {value.shape}")
        weights_are_bool = amounts.node.dtype == BOOL
        if weights_are_bool:
            amounts = amounts.astype("int64")
        amounts = where(inside, amounts.reshape(-1), 0)
    counts = wrap(_scatter_counts(where(inside, place, 0).node, amounts.node, count))
    edge_array = _result_edges(edges, value, bins)
    if weights_are_bool:
        counts = counts.astype("bool")  # NumPy counts in the dtype of the weights
    if density:
        widths = diff(edge_array)
        counts = counts / (widths.astype(DEFAULT.real.numpy) if widths.node.dtype.narrow else widths) / sum(counts)
    return counts, edge_array


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None,
) -> tuple[Array, Array, Array]:
    """Count the points of a plane in each bin. NumPy computes immediately.

    Parameters
    ----------
    x, y : (N,) array
        The coordinates of the points.
    bins : int, (N + 1,) array, or a pair of these
    range : pair of (low, high), optional

    Returns
    -------
    three Arrays of floats : the counts, with x along the first axis, and the edges of both

    Raises
    ------
    ValueError, TraceError
        NumPy refuses the arguments; inside a traced function.

    >>> wf.histogram2d(wf.array([0.0, 1.0]), wf.array([0.0, 1.0]), bins=2)[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _call_numpy("histogram2d", np.histogram2d, (x, y), bins, range, density, weights)


def _call_numpy(function: str, function_of_numpy: Any, points: Any, bins: Any, range: Any, density: Any, weights: Any) -> Any:
    operands = [arguments.read_now(p, function) for p in points]
    like = FLOAT64 if any(k.dtype == np.float64 for k in operands) else DEFAULT.real
    given = bins
    if isinstance(bins, Sequence | Array):
        bins = [arguments.read_now(b, function, "bins") if isinstance(b, Array) else b for b in bins]
    weights = None if weights is None else arguments.read_now(weights, function, "weights")
    with name_numpy_errors(function):
        counts, *edges = function_of_numpy(*operands, bins=bins, range=range, density=density, weights=weights)
    nested = len(edges) == 1 and isinstance(edges[0], tuple | list)
    arrays = [arguments.from_numpy(e, None if _is_given(given, k) else like) for k, e in enumerate(edges[0] if nested else edges)]
    return (arguments.from_numpy(counts, like), tuple(arrays)) if nested else (arguments.from_numpy(counts, like), *arrays)


def _is_given(bins: Any, axis: int) -> bool:
    """Return whether the edges of an axis are an array that the user gave, whose dtype NumPy keeps."""
    if isinstance(bins, Array | np.ndarray) and bins.ndim == 1 and len(bins) > 2:
        return True  # histogram2d: the edges of both axes
    item = bins[axis] if isinstance(bins, Sequence | Array | np.ndarray) and len(bins) > axis else None
    return isinstance(item, Array | np.ndarray) and item.ndim == 1


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None,
) -> tuple[Array, tuple[Array, ...]]:
    """Count the points of a space in each bin. NumPy computes immediately.

    Parameters
    ----------
    sample : (N, D) array
    bins : int, or a sequence of D numbers or edges
    range : sequence of D pairs (low, high), optional

    Returns
    -------
    Array with D dimensions, and a tuple of D Arrays : the counts and the edges

    >>> wf.histogramdd(wf.array([[0.0, 0.0], [1.0, 1.0]]), bins=2)[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if isinstance(sample, Array | np.ndarray):
        points = sample
    else:
        columns = [arguments.read_now(s, "histogramdd", "sample") for s in arguments.as_list(sample, "histogramdd", "sample")]
        with name_numpy_errors("histogramdd"):
            points = np.transpose(columns)
    return _call_numpy("histogramdd", np.histogramdd, (points,), bins, range, density, weights)


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
    row = reshape_node(permute_node(value, rest + axes), (*lead, math.prod(value.shape[a] for a in axes)))
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
    if form.alone:
        wide = wrap(cast(node(x, function, "a"), form.computed))
        result = _quantiles(function, wide, q, axis, None, method, keepdims, scale, skip, weights)
        return arguments.wrap_result(cast(result.node, form), out, function)
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
    count: Any = sum(~isnan(rows), axis=-1, keepdims=True) if skip else rows.shape[-1]
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
    moved = permute_node(result.node, (len(lead), *range(len(lead))))
    shape = fractions.shape + (kept if keepdims else lead)
    return arguments.wrap_result(reshape_node(moved, shape), out, function)


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
    form = arguments.accumulation_format(rows.node.dtype, out)
    wide = form.computed if form.alone else form
    if not n:
        arguments.warn_of_empty_mean(function, node(a, function).shape, n)
        middle = wrap(op("broadcast_to", node(np.nan, function), shape=lead)).astype(rows.dtype)
    else:
        last: Any = maximum(sum(~isnan(rows), axis=-1, keepdims=True) - 1, 0) if skip else n - 1  # NaN is sorted last
        ends: Any = (last // 2, (last + 1) // 2)
        low, high = (take_along_axis(rows, k, axis=-1)[..., 0] if skip else rows[..., k] for k in ends)
        end = rows[..., 0] if skip else rows[..., -1]
        middle = where(isnan(end), end, where(low == high, low, (low.astype(wide) / 2 + high.astype(wide) / 2).astype(form)))
    result: Node = middle.node
    return arguments.wrap_result(reshape_node(result, kept if keepdims else lead), out, function)


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
    row, mass = (wrap(reshape_node(permute_node(n, rest + axes), shape)) for n in (value, weight))
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


complete_module(
    globals(), (histogram, histogram_bin_edges, histogram2d), (histogram2d, histogramdd), (quantile, percentile, nanquantile,
    median), (percentile, nanpercentile), (median, nanmedian),
)
