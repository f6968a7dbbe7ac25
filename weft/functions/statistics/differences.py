"""Differences between neighbours, and functions made of them: gradient, trapezoid, interp, unwrap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import array_operands, exact_operands, operands
from weft.array.operations import no_complex
from weft.dtypes.formats import BOOL, COMPLEX, DEFAULT, FLOAT64, FLOATS, INT32, INT64, UINT32, UINT64
from weft.dtypes.parse import to_tuple
from weft.eager.peek import leaf, peek
from weft.errors import AxisError, DTypeError, ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.composed import imag, iscomplexobj, real
from weft.functions.elementwise.ufuncs import absolute, isnan, remainder, stop_gradient
from weft.functions.indexing.where import where
from weft.functions.numpy_compat.objects import shape as shape_of
from weft.functions.reductions.folds import cumulative_sum, sum
from weft.functions.shape.axes import concat
from weft.functions.sorting.sort_search import searchsorted
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, arrays, broadcast, cast, floating, node, op, reshaped, sliced
from weft.process.docstrings import complete_module


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
        value = op(name, sliced(value, axis, min(1, extent), extent), sliced(value, axis, 0, max(extent - 1, 0)))
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
    rows = [wrap(arguments.held(p, value.node.dtype, "ediff1d", "to_end")).reshape(-1) for p in parts if p is not None]
    return rows[0] if len(rows) == 1 else concat(rows)


def _steps(spacing: Any, extent: int, axis: int, like: Node) -> Array | None:
    """Return the distances between neighbours, or None if ``spacing`` is one number."""
    (values,) = arrays("gradient", varargs=spacing)
    if not values.ndim:
        return None
    if values.shape != (extent,):
        raise ShapeError(f"gradient: the coordinates of axis {axis} have shape {values.shape}; ({extent},) is needed")
    return diff(wrap(arguments.held(spacing, like.dtype, "gradient", "varargs")))


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
    requested = range(len(value.shape)) if axis is None else to_tuple(axis)
    arguments.axis_tuple(tuple(requested), len(value.shape), "gradient")  # raises for an axis that is missing or named twice
    axes = tuple(arguments.axis_index(a, len(value.shape), "gradient") for a in requested)
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError(f"gradient: {len(varargs)} distances are given for {len(axes)} axes; give one, or one for each")
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order={edge_order!r} must be 1 or 2")
    spacings = varargs if len(varargs) == len(axes) else (varargs or (1.0,)) * len(axes)
    slopes = tuple(_slopes_along(value, h, a, edge_order) for h, a in zip(spacings, axes, strict=True))
    return slopes[0] if len(axes) == 1 else slopes


def _slopes_along(value: Node, spacing: Any, axis: int, order: int) -> Array:
    extent, f = value.shape[axis], wrap(value)
    if extent < order + 1:
        raise ShapeError(f"gradient: axis {axis} of shape {value.shape} has fewer than {order + 1} elements")

    def at(start: int, stop: int) -> Array:
        return wrap(sliced(value, axis, start, stop))

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
        begin = (
            at(0, 1) * (-(2.0 * a + b) / (a * (a + b))) + at(1, 2) * ((a + b) / (a * b)) + at(2, 3) * (-a / (b * (a + b)))
        )
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
    high, low = (wrap(sliced(value, axis, *ends)) for ends in ((1, extent), (0, extent - 1)))
    return sum(width * (high + low) / 2.0, axis)


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
    x_node, xp_node, fp_node = (floating(n) for n in operands(x, xp, fp))
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
        raise no_complex("unwrap", value.dtype)
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
    later = wrap(sliced(x.node, axis, 1, extent)) + cumulative_sum(correction, axis).astype(x.dtype)
    first = reshaped(sliced(x.node, axis, 0, 1), tuple(1 if a == axis else n for a, n in enumerate(x.shape)))
    return concat([wrap(first), later], axis)


complete_module(globals())
