"""Differences between neighbours, and what is made of them: gradients, areas, lines between points, angles unwound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import array_operands, exact_operands, operands
from weft.array.operations import no_complex
from weft.dtypes.formats import BOOL, COMPLEX, DEFAULT, FLOAT64, FLOATS, INT32, INT64, UINT32, UINT64
from weft.dtypes.parse import to_tuple
from weft.eager.peek import at_hand, leaf
from weft.errors import AxisError, DTypeError, ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.complex import imag, iscomplexobj, real
from weft.functions.elementwise.ufuncs import absolute, isnan, remainder, stop_gradient
from weft.functions.indexing.where import where
from weft.functions.numpy_compat.array_queries import shape as shape_of
from weft.functions.reductions.folds import cumulative_sum, sum
from weft.functions.shape.join_split import concat
from weft.functions.sorting.sort_search import searchsorted
from weft.functions.support.arguments import (
    Node,
    arrays,
    axis_index,
    axis_tuple,
    broadcast,
    cast,
    floating,
    held,
    may_cast,
    node,
    op,
    real_number,
    reshaped,
    sliced,
    whole,
)


def _beside(x: Node, more: Any, axis: int, first: bool) -> Node:
    """``x`` with more in front of it, or behind; a number is a slice of it."""
    a, b = array_operands(wrap(x), more)
    if not b.shape:
        b = broadcast(b, tuple(1 if d == axis else n for d, n in enumerate(a.shape)))
    return concat([wrap(b), wrap(a)] if first else [wrap(a), wrap(b)], axis).node


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """Each element less the one before it, ``n`` times over; of bools: whether they differ.

    Parameters
    ----------
    a : array
    n : int
    axis : int
    prepend, append : number or array, optional
        What stands before and behind ``a`` along the axis.

    Returns
    -------
    Array, along the axis ``n`` shorter

    Raises
    ------
    ValueError, ShapeError, AxisError
        ``n`` is negative; ``a`` has no dimension, or what is put beside it does not fit; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.diff(wf.array([1, 4, 9, 16])).tolist()
    [3, 5, 7]
    """
    value, times = node(a, "diff", "a"), whole(n, "diff", "n")
    if times < 0:
        raise ValueError(f"diff: n={times} must not be negative")
    if not value.shape:
        raise ShapeError("diff: a has no dimensions; an array of at least one is needed")
    axis = axis_index(axis, len(value.shape), "diff")
    if not times:
        return wrap(value)
    for more, first in ((prepend, True), (append, False)):
        if more is not None:
            value = _beside(value, more, axis, first)
    name = "logical_xor" if value.dtype == BOOL else "subtract"
    for _ in range(min(times, value.shape[axis])):  # then nothing is left
        extent = value.shape[axis]
        value = op(name, sliced(value, axis, min(1, extent), extent), sliced(value, axis, 0, max(extent - 1, 0)))
    return wrap(value)


def _no_bools(function: str, argument: str, value: Node) -> None:
    if value.dtype == BOOL:
        raise DTypeError(f"{function}: {argument} is bool, and bools have no difference; cast with .astype('int8')")


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    """Differences between neighbours of the flattened array.

    Parameters
    ----------
    ary : array
    to_end, to_begin : array, optional
        What stands behind and in front of them.

    Returns
    -------
    Array with one dimension, of the dtype of ``ary``

    Raises
    ------
    DTypeError
        Bools.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ediff1d(wf.array([1, 2, 4]), to_begin=0).tolist()
    [0, 1, 2]
    """
    (value,) = arrays("ediff1d", ary=ary)
    _no_bools("ediff1d", "ary", value.node)
    parts = [to_begin, diff(value.reshape(-1)), to_end]
    for name, more in (("to_begin", to_begin), ("to_end", to_end)):
        have = value.node.dtype if more is None or isinstance(more, int) else node(more, "ediff1d", name).dtype
        if not may_cast(have, value.node.dtype, "same_kind", "ediff1d"):
            raise DTypeError(f"ediff1d: {name} is {have}, which {value.node.dtype} of ary cannot hold; cast one of them")
    rows = [wrap(held(p, value.node.dtype, "ediff1d", "to_end")).reshape(-1) for p in parts if p is not None]
    return rows[0] if len(rows) == 1 else concat(rows)


def _steps(spacing: Any, extent: int, axis: int, like: Node) -> Array | None:
    """Distances between neighbours where they differ; None of one number."""
    (given,) = arrays("gradient", varargs=spacing)
    if not given.ndim:
        return None
    if given.shape != (extent,):
        raise ShapeError(f"gradient: the coordinates of axis {axis} have shape {given.shape}; ({extent},) is needed")
    return diff(wrap(held(spacing, like.dtype, "gradient", "varargs")))


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Slopes along axes: from both neighbours inside, from one side at the edges.

    Parameters
    ----------
    f : array
    varargs : number or array
        The distance between elements, or their coordinates: one for all axes, or one for each.
    axis : int or tuple of int, optional
        None: all of them.
    edge_order : 1 or 2
        How exact the edges are.

    Returns
    -------
    Array of the shape of ``f``, or a tuple of them, one an axis

    Raises
    ------
    ShapeError, AxisError, DTypeError, TypeError, ValueError
        Bools; too few elements, or coordinates that do not fit; no such axis; distances that do not fit; another ``edge_order``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.gradient(wf.array([1.0, 2.0, 4.0, 7.0])).tolist()
    [1.0, 1.5, 2.5, 3.0]
    """
    value = node(f, "gradient", "f")
    _no_bools("gradient", "f", value)
    value = floating(value)
    named = range(len(value.shape)) if axis is None else to_tuple(axis)
    axis_tuple(tuple(named), len(value.shape), "gradient")  # refuses what is no axis, or named twice
    axes = tuple(axis_index(a, len(value.shape), "gradient") for a in named)
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError(f"gradient: {len(varargs)} distances are given for {len(axes)} axes; give one, or one for each")
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order={edge_order!r} must be 1 or 2")
    spacings = varargs if len(varargs) == len(axes) else (varargs or (1.0,)) * len(axes)
    found = tuple(_slope(value, h, a, edge_order) for h, a in zip(spacings, axes, strict=True))
    return found[0] if len(axes) == 1 else found


def _slope(value: Node, spacing: Any, axis: int, order: int) -> Array:
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
    """The area below a line through points.

    Parameters
    ----------
    y : array
        The heights.
    x : array, optional
        Where they stand; None: ``dx`` apart.
    dx : number
    axis : int

    Returns
    -------
    Array without the axis

    Raises
    ------
    AxisError, ShapeError
        No such axis; ``x`` that does not fit.

    Examples
    --------
    >>> import weft as wf
    >>> wf.trapezoid(wf.array([1.0, 2.0, 3.0])).tolist()
    4.0
    """
    if x is not None:
        y, x = map(wrap, exact_operands(y, x))
    value = node(y, "trapezoid", "y")
    axis = axis_index(axis, len(value.shape), "trapezoid")
    wide: Any = dx if isinstance(dx, list | tuple) else real_number(dx, "trapezoid", "dx")
    if x is not None:
        wide = diff(x, axis=-1 if x.ndim == 1 else axis)
        if x.ndim == 1:
            wide = wide.reshape((-1,) + (1,) * (len(value.shape) - axis - 1))
    extent = value.shape[axis]
    if not extent:
        return sum(wrap(floating(value)), axis)
    high, low = (wrap(sliced(value, axis, *ends)) for ends in ((1, extent), (0, extent - 1)))
    return sum(wide * (high + low) / 2.0, axis)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None) -> Array:
    """Heights of the line through the points (``xp``, ``fp``).

    Parameters
    ----------
    x : array
    xp : (N,) ascending
    fp : (N,)
    left, right : number, optional
        What stands outside; None: the first and the last height.
    period : number, optional
        The line goes on after this length; ``xp`` may then be in any order.

    Returns
    -------
    Array of the shape of ``x``; float64 where one of the three is, else float32

    Raises
    ------
    ShapeError, ValueError, DTypeError
        ``xp`` and ``fp`` are no vectors of one length, or empty; ``period`` is 0; complex places.

    Examples
    --------
    >>> import weft as wf
    >>> wf.interp(wf.array([0.5, 5.0]), [0.0, 1.0], [10.0, 20.0]).tolist()
    [15.0, 20.0]
    """
    for given, name in ((x, "x"), (xp, "xp")):
        if iscomplexobj(given):
            raise DTypeError(f"interp: {name} is {node(given, 'interp').dtype}; places must be real: take wf.real({name})")
    if iscomplexobj(fp):
        re, im = [
            interp(x, xp, part(fp), None if left is None else part(left), None if right is None else part(right), period)
            for part in (real, imag)
        ]
        there = asarray(x) if period is None else remainder(asarray(x), abs(float(period)))  # of infinities this is NaN
        known = im if shape_of(xp) == (1,) and period is None else where(isnan(there), 0, im)
        return wrap(op("complex", re.node, known.node))
    if period is not None:
        if real_number(period, "interp", "period") == 0:
            raise ValueError("interp: period must not be 0")
        x, xp = (_within_period(v, abs(float(period))) for v in (x, xp))
    at, place, height = (floating(n) for n in operands(x, xp, fp))
    if DEFAULT.wide:  # then as in NumPy, which computes in float64
        at, place, height = (cast(n, FLOAT64) for n in (at, place, height))
    if place.shape != height.shape or len(place.shape) != 1:
        raise ShapeError(f"interp: xp has shape {place.shape} and fp {height.shape}; two vectors of one length are needed")
    if not place.size:
        raise ValueError("interp: xp and fp are empty")
    dtype, q, points, values = at.dtype, wrap(at), wrap(place), wrap(height)
    if dtype is not FLOAT64:
        q, points, values = (v.astype(dtype.computed.name) for v in (q, points, values))
    if period is not None:
        whole = abs(float(period))
        q, points, left, right = remainder(q, whole), remainder(points, whole), None, None
        order = wrap(op("argsort", points.node, axis=0))
        points, values = points[order], values[order]
        points = concat([points[-1:] - whole, points, points[:1] + whole])
        values = concat([values[-1:], values, values[:1]])
    plain = left is right is None and not dtype.narrow and height.dtype is dtype
    known = at_hand(q.node, points.node, values.node) if plain else None
    if known is None:
        behind = searchsorted(points, q, side="right")
        return _between(_LATER, behind, q, points, values, left, right).astype(dtype.name)
    with np.errstate(all="ignore"):
        lines = _between(_NOW, known[1].searchsorted(known[0], "right"), *known)
    return wrap(leaf(np.asarray(lines), dtype))


def _within_period(x: Any, period: float) -> Any:
    """Return integers, which the dtype of the result may not hold, within a period that is an integer, and others as they are."""
    found = node(x, "interp")
    exact = found.dtype in (INT32, UINT32, INT64, UINT64) and period.is_integer() and period <= INT32.greatest
    return remainder(wrap(found), int(period)) if exact else x


class _NOW:
    """What :func:`_between` asks, of NumPy's arrays."""

    where, isnan, clip, take = (staticmethod(f) for f in (np.where, np.isnan, np.clip, np.take))
    constant = staticmethod(np.asarray)


class _LATER:
    """The same of arrays that are not there yet."""

    where, isnan, constant = staticmethod(where), staticmethod(isnan), staticmethod(stop_gradient)

    @staticmethod
    def clip(x: Array, low: int, high: int) -> Array:
        return wrap(op("minimum", op("maximum", x.node, node(low, "interp")), node(high, "interp")))

    @staticmethod
    def take(x: Array, places: Array) -> Array:
        return wrap(op("gather", x.node, places.node, axes=(0,)))


def _between(xp: Any, behind: Any, q: Any, points: Any, values: Any, left: Any = None, right: Any = None) -> Any:
    """The straight lines between points, of NumPy's arrays or of weft's: each operation is rounded once.

    behind : how many points are not beyond each place
    """
    low = xp.clip(behind - 1, 0, max(points.size - 2, 0))
    high = xp.clip(low + 1, 0, points.size - 1)
    x0, x1, y0, y1 = xp.take(points, low), xp.take(points, high), xp.take(values, low), xp.take(values, high)
    wide = x1 - x0
    slope = (y1 - y0) / xp.where(wide == 0, wide.dtype.type(1), wide)
    inside = y0 + (q - x0) * slope
    other = y1 + (q - x1) * slope  # as NumPy's, where a height is infinite
    other = xp.where(q == x0, y0, xp.where(xp.isnan(other) & (y0 == y1), y0, other))
    inside = xp.where(q == x1, y1, xp.where(xp.isnan(inside), xp.constant(other), inside))
    found = xp.where(q < points[0], values[0] if left is None else left, inside)
    found = xp.where(q > points[-1], values[-1] if right is None else right, found)
    return xp.where(xp.isnan(q), values[0] if points.size == 1 else q, found)  # NumPy's one point is everywhere that no side is


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Array:
    """Angles without jumps: where neighbours differ by more than half a ``period``, whole periods are added.

    Parameters
    ----------
    p : array
    discont : number, optional
        Only jumps above this count; at least half a period.
    axis : int
    period : number

    Returns
    -------
    Array of the shape of ``p``

    Raises
    ------
    AxisError
        No such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.unwrap(wf.array([0, 1, 5, 6]), period=4).tolist()
    [0, 1, 1, 2]
    """
    value = node(p, "unwrap", "p")
    if not value.shape:
        raise AxisError(f"unwrap: axis={axis}, but the array has no axes")
    axis = axis_index(axis, len(value.shape), "unwrap")
    if value.dtype in COMPLEX:
        raise no_complex("unwrap", value.dtype)
    real_number(period, "unwrap", "period")
    whole = isinstance(period, int) and value.dtype not in FLOATS
    if not value.shape[axis]:
        return wrap(value if whole else floating(value))
    x = wrap(value if whole else floating(value))
    half: Any = period // 2 if whole else period / 2
    apart = diff(wrap(value), axis=axis).astype(x.dtype)
    turned = remainder(apart + half, period) - half
    if not whole or period % 2 == 0:  # a jump of just half a period keeps its direction
        turned = where((turned == -half) & (apart > 0), half, turned)
    limit = half if discont is None else real_number(discont, "unwrap", "discont")
    more = where(absolute(apart) < limit, 0, turned - apart)
    extent = x.shape[axis]
    later = wrap(sliced(x.node, axis, 1, extent)) + cumulative_sum(more, axis).astype(x.dtype)
    first = reshaped(sliced(x.node, axis, 0, 1), tuple(1 if a == axis else n for a, n in enumerate(x.shape)))
    return concat([wrap(first), later], axis)
