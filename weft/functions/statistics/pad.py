"""More elements around arrays: numbers, repetitions of what is there, or what sums it up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.array import Array, own, wrap
from weft.array.assignment import stored
from weft.array.convert import number_node, numpy_node, warn_of_overflow
from weft.dtypes.formats import BOOL, FLOAT64, INEXACT, INT64, INTEGERS
from weft.errors import ShapeError
from weft.functions.reductions.averages import mean
from weft.functions.shape.axes import moveaxis
from weft.functions.statistics.quantiles import median
from weft.functions.support.arguments import (
    Node,
    axis_index,
    broadcast,
    cast,
    held,
    is_number,
    node,
    op,
    permuted,
    reduced,
    reshaped,
    sliced,
    whole,
)
from weft.runtime.context import LOCAL

_REPEATING = ("edge", "reflect", "symmetric", "wrap")
_SUMMING = ("maximum", "mean", "median", "minimum")
MODES = ("constant", "empty", "linear_ramp", *_REPEATING, *_SUMMING)
_DEFAULTS = {"constant_values": 0, "end_values": 0, "stat_length": None, "reflect_type": "even"}
_OPTIONS = {
    "constant": ("constant_values",), "linear_ramp": ("end_values",), **dict.fromkeys(_SUMMING, ("stat_length",)),
    "reflect": ("reflect_type",), "symmetric": ("reflect_type",),
}


def _widths(given: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(given, dict):
        rows_of = {axis_index(axis, ndim, "pad", "pad_width"): width for axis, width in given.items()}
        given = [rows_of.get(axis, (0, 0)) for axis in range(ndim)]
        given = [row if isinstance(row, (tuple, list)) else (row, row) for row in given]
    if isinstance(given, (Array, np.ndarray, range)):
        given = given.tolist() if not isinstance(given, range) else list(given)
    rows: Sequence[Any]
    if not isinstance(given, (tuple, list)):
        rows = [(given, given)]
    elif all(not isinstance(r, (tuple, list)) for r in given):
        rows = [given]
    else:
        rows = [r if isinstance(r, (tuple, list)) else (r,) for r in given]
    rows = list(rows) * ndim if len(rows) == 1 else rows
    found = [(whole(r[0], "pad", "pad_width"), whole(r[-1], "pad", "pad_width")) for r in rows if len(r) in (1, 2)]
    if len(found) != ndim or len(rows) != ndim or any(n < 0 for pair in found for n in pair):
        raise ShapeError(f"pad: pad_width={given!r} must be a width >= 0, (before, after), or a pair for each of {ndim} axes")
    return found


def pad(
    array: Any, pad_width: Any, mode: str | Callable[..., Any] = "constant", constant_values: Any = 0, *, end_values: Any = 0,
    stat_length: Any = None, reflect_type: str = "even", **kwargs: Any,
) -> Array:
    """More elements before and after, along each axis.

    Parameters
    ----------
    array : array
    pad_width : int, (before, after), one such pair an axis, or a dict from axes to these
    mode : str or function
        "constant"; what is there repeated: "edge", "reflect", "symmetric", "wrap"; what sums it up: "maximum", "mean", "median",
        "minimum"; "linear_ramp", from the edge to ``end_values``; "empty": zeros. A function is called as ``mode(vector,
        (before, after), axis, kwargs)`` for each vector along each axis, padded with zeros, and writes into it.
    constant_values, end_values : number, (before, after), or one such pair an axis
        0 by default. An Array without dimensions may be a constant, too.
    stat_length : int, (before, after), or one such pair an axis, optional
        How many elements from the edge on are summed up; None: all of them.
    reflect_type : "even" or "odd"
        Of "reflect" and "symmetric"; "odd" takes what is reflected from twice the edge.
    kwargs : any
        For a function.

    Returns
    -------
    Array of the dtype of ``array``

    Raises
    ------
    ShapeError, ValueError
        Widths that do not fit; nothing to repeat; another ``mode`` or ``reflect_type``; an argument that is not for this mode.

    Examples
    --------
    >>> import weft as wf
    >>> wf.pad(wf.array([1, 2]), (1, 2)).tolist()
    [0, 1, 2, 0, 0]
    >>> wf.pad(wf.array([1, 2, 3]), 2, mode="reflect").tolist()
    [3, 2, 1, 2, 3, 2, 1]
    """
    value = node(array, "pad", "array")
    ndim = len(value.shape)
    widths = _widths(pad_width, ndim)
    options = (constant_values, end_values, stat_length, reflect_type)
    given = {name: x for (name, default), x in zip(_DEFAULTS.items(), options, strict=True) if x is not default}
    if callable(mode):
        return _by_function(value, widths, mode, given | kwargs)
    if mode not in MODES:
        raise ValueError(f"pad: mode={mode!r} must be a function or one of {', '.join(map(repr, MODES))}")
    for name in [*kwargs, *given]:
        if name not in _OPTIONS.get(mode, ()):
            raise ValueError(f"pad: mode={mode!r} takes no argument {name!r}")
    if reflect_type not in ("even", "odd"):
        raise ValueError(f"pad: reflect_type={reflect_type!r} must be 'even' or 'odd'")
    if mode == "empty":
        return wrap(_constant(value, widths, 0))
    if mode == "constant" and not isinstance(constant_values, tuple | list | np.ndarray):
        return wrap(_constant(value, widths, constant_values))
    if mode in _REPEATING:
        return wrap((_reflected_oddly if reflect_type == "odd" else _repeated)(value, widths, mode))
    if mode == "constant":
        for axis, (pair, fills) in enumerate(zip(widths, _pairs("constant_values", constant_values, ndim), strict=True)):
            for width, fill, first in zip(pair, fills, (True, False), strict=True):
                one = [((width, 0) if first else (0, width)) if a == axis else (0, 0) for a in range(ndim)]
                value = _constant(value, one, fill)
        return wrap(value)
    ends = _pairs("end_values", end_values, ndim)
    lengths = [(None, None)] * ndim if stat_length is None else _pairs("stat_length", stat_length, ndim)
    for axis, pair in enumerate(widths):
        if not any(pair):
            continue
        if not value.shape[axis]:
            raise ShapeError(f"pad: axis {axis} of shape {value.shape} has no element that mode={mode!r} could read")
        sides = [
            _ramp(value, axis, pair[k], ends[axis][k], k == 0) if mode == "linear_ramp"
            else _summed_up(value, axis, pair[k], mode, lengths[axis][k], k == 0) for k in (0, 1)
        ]
        value = op("concat", sides[0], value, sides[1], axis=axis)
    return wrap(value)


def _pairs(argument: str, given: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A pair for each axis."""
    try:
        found = np.broadcast_to(np.asarray(given), (ndim, 2))
    except ValueError:
        must = f"must be a number, (before, after), or a pair for each of {ndim} axes"
        raise ShapeError(f"pad: {argument}={given!r} {must}") from None
    return [(a, b) for a, b in found.tolist()]


def _repeated(value: Node, widths: list[tuple[int, int]], mode: str) -> Node:
    for axis, (low, high) in enumerate(widths):
        extent = value.shape[axis]
        if not (low or high):
            continue
        if not extent:
            raise ShapeError(f"pad: axis {axis} of shape {value.shape} has no element that mode={mode!r} could repeat")
        place = np.pad(np.arange(extent), (low, high), mode=mode)  # type: ignore[call-overload]
        got = op("gather", value, numpy_node(place), axes=(axis,))
        value = permuted(got, (*range(1, axis + 1), 0, *range(axis + 1, len(got.shape))))
    return value


def _reflected_oddly(value: Node, widths: list[tuple[int, int]], mode: str) -> Node:
    """Reflect at the edges, and take what is reflected from twice the edge. Where a side is longer than the array, what has
    been made is reflected again, in whole periods, as NumPy does."""
    edge = int(mode == "symmetric")  # the edge itself is reflected, too
    for axis, (low, high) in enumerate(widths):
        extent = value.shape[axis]
        if not (low or high):
            continue
        if extent < 2:
            value = _repeated(value, [(low, high) if a == axis else (0, 0) for a in range(len(widths))], "edge")
            continue
        period = extent if edge else extent - 1
        while low or high:
            have = value.shape[axis] - (1 - edge)
            whole_periods = have // period * period
            for first, count in ((True, min(whole_periods, low)), (False, min(whole_periods, high))):
                if count:
                    value = _with_odd_reflection(value, axis, first, count, edge)
            low, high = low - min(whole_periods, low), high - min(whole_periods, high)
    return value


def _with_odd_reflection(value: Node, axis: int, first: bool, count: int, edge: int) -> Node:
    """``value`` with ``count`` elements more at one end: twice the edge minus what is reflected there."""
    last = count - edge if first else value.shape[axis] - 2 + edge  # the element that comes first, read backwards
    begin, step = ([x if a == axis else other for a in range(len(value.shape))] for x, other in ((last, 0), (-1, 1)))
    shape = tuple([count if a == axis else n for a, n in enumerate(value.shape)])
    part = op("slice", value, start=tuple(begin), step=tuple(step), shape=shape)
    within = INT64 if value.dtype is BOOL else value.dtype
    twice = op("multiply", cast(_edge(value, axis, first), within), number_node(2, within))
    new = cast(op("subtract", twice, cast(part, within)), value.dtype)
    return op("concat", *((new, value) if first else (value, new)), axis=axis)


def _by_function(value: Node, widths: list[tuple[int, int]], write: Callable[..., Any], kwargs: dict[str, Any]) -> Array:
    """Each vector along each axis, padded with zeros, as a function leaves it."""
    padded = own(_constant(value, widths, 0))
    for axis in range(padded.ndim):
        lines = moveaxis(padded, axis, -1)
        for place in np.ndindex(lines.shape[:-1]):
            write(lines[(*place, ...)], widths[axis], axis, kwargs)
    return padded


def _edge(value: Node, axis: int, first: bool, count: int = 1) -> Node:
    extent = value.shape[axis]
    return sliced(value, axis, 0, count) if first else sliced(value, axis, extent - count, extent)


def _spread(line: Node, axis: int, width: int) -> Node:
    return broadcast(line, tuple(width if a == axis else n for a, n in enumerate(line.shape)))


def _ramp(value: Node, axis: int, width: int, end: Any, first: bool) -> Node:
    """Even steps from the end value, which is the outermost, to the edge; integers are rounded down."""
    dtype = value.dtype if value.dtype in INEXACT else FLOAT64
    edge, last = cast(_edge(value, axis, first), dtype), held(end, dtype, "pad", "end_values")
    steps = np.arange(width) / max(width, 1)
    shape = [width if a == axis else 1 for a in range(len(value.shape))]
    part = cast(numpy_node((steps if first else steps[::-1]).reshape(shape)), dtype)
    found = op("add", op("multiply", op("subtract", edge, last), part), last)
    return cast(op("floor", found) if value.dtype in INTEGERS else found, value.dtype)


def _summed_up(value: Node, axis: int, width: int, mode: str, length: Any, first: bool) -> Node:
    count = value.shape[axis] if length is None else whole(length, "pad", "stat_length")
    if count < 1:
        raise ValueError(f"pad: stat_length={length!r} must be at least 1")
    part = _edge(value, axis, first, min(count, value.shape[axis]))
    if mode in ("maximum", "minimum"):
        line = reduced(f"reduce_{mode[:3]}", part, (axis,), True)
    else:
        exactly = part.dtype not in INEXACT
        exact = wrap(cast(part, FLOAT64) if exactly else part)
        line = (mean if mode == "mean" else median)(exact, axis=axis, keepdims=True).node
        line = cast(op("round", line) if exactly and part.dtype is not BOOL else line, value.dtype)
    return _spread(line, axis, width)


def _constant(value: Node, widths: list[tuple[int, int]], fill: Any) -> Node:
    if value.dtype.kind == "signed" and fill is not None:
        known = LOCAL.trace is None and isinstance(fill, Array) and not fill.shape
        stored(fill[()] if known else fill, value.dtype)  # what does not fit is refused, as where elements are assigned to
    low, high = (tuple(w[side] for w in widths) for side in (0, 1))
    if is_number(fill) or isinstance(fill, np.generic):
        warn_of_overflow(fill, value.dtype)
        with np.errstate(over="ignore"):
            known = np.asarray(fill).astype(value.dtype.numpy).item()
        return op("pad", value, low=low, high=high, value=known)
    inside = held(fill, value.dtype, "pad", "constant_values")
    if inside.size != 1:
        raise ShapeError(f"pad: constant_values has shape {inside.shape}; one number is needed")
    inside = reshaped(inside, ())
    mask = op("pad", broadcast(number_node(True, BOOL), value.shape), low=low, high=high, value=False)
    return op("where", mask, op("pad", value, low=low, high=high, value=0), inside)
