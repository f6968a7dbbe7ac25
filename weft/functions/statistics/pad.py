"""Padding: numbers, repeated elements, or statistics of elements around an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.array import Array, wrap, wrap_array
from weft.array.convert import convert_checked, number_node, numpy_node, warn_of_overflow
from weft.dtypes.formats import BOOL, FLOAT64, INEXACT, INT64, INTEGERS
from weft.dtypes.rounding import rounded_number
from weft.errors import ShapeError
from weft.functions.reductions.folds import mean
from weft.functions.shape.axes import moveaxis
from weft.functions.statistics.samples import median
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, broadcast, cast, node, op, reduce_node, reshape_node, slice_node
from weft.process.docstrings import complete_module
from weft.runtime.context import CONTEXT

_REPEATING_MODES = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS = ("maximum", "mean", "median", "minimum")
MODES = ("constant", "empty", "linear_ramp", *_REPEATING_MODES, *_STATISTICS)
_DEFAULTS = {"constant_values": 0, "end_values": 0, "stat_length": None, "reflect_type": "even"}
_OPTIONS = {
    "constant": ("constant_values",), "linear_ramp": ("end_values",), **dict.fromkeys(_STATISTICS, ("stat_length",)),
    "reflect": ("reflect_type",), "symmetric": ("reflect_type",),
}


def _parse_widths(argument: Any, ndim: int) -> list[tuple[int, int]]:
    """Return the widths before and after each axis, from any form of ``pad_width``."""
    if isinstance(argument, dict):
        rows_of = {arguments.axis_index(axis, ndim, "pad", "pad_width"): width for axis, width in argument.items()}
        argument = [rows_of.get(axis, (0, 0)) for axis in range(ndim)]
        argument = [row if isinstance(row, (tuple, list)) else (row, row) for row in argument]
    if isinstance(argument, (Array, np.ndarray, range)):
        argument = argument.tolist() if not isinstance(argument, range) else list(argument)
    rows: Sequence[Any]
    if not isinstance(argument, (tuple, list)):
        rows = [(argument, argument)]
    elif all(not isinstance(r, (tuple, list)) for r in argument):
        rows = [argument]
    else:
        rows = [r if isinstance(r, (tuple, list)) else (r,) for r in argument]
    rows = list(rows) * ndim if len(rows) == 1 else rows
    pairs = [
        (
            arguments.check_int(r[0], "pad", "pad_width"), arguments.check_int(r[-1], "pad", "pad_width")
        ) for r in rows if len(r) in (1, 2)
    ]
    if len(pairs) != ndim or len(rows) != ndim or any(n < 0 for pair in pairs for n in pair):
        raise ShapeError(f"pad: pad_width={argument!r} must be a width >= 0, (before, after), or a pair for each of {ndim} axes")
    return pairs


def pad(
    array: Any, pad_width: Any, mode: str | Callable[..., Any] = "constant", constant_values: Any = 0, *, end_values: Any = 0,
    stat_length: Any = None, reflect_type: str = "even", **kwargs: Any,
) -> Array:
    """Add elements before and after an array along each axis.

    Parameters
    ----------
    array : array
    pad_width : int, (before, after), one such pair an axis, or a dict from axes to these
    mode : str or function
        "constant"; repeated elements: "edge", "reflect", "symmetric", "wrap"; statistics: "maximum", "mean", "median", "minimum";
        "linear_ramp", from the edge to ``end_values``; "empty": zeros. A function is called as ``mode(vector, (before, after),
        axis, kwargs)`` for each vector along each axis, padded with zeros, and writes into it.
    constant_values, end_values : number, (before, after), or one such pair an axis
        0 by default. A constant may be an Array without dimensions.
    stat_length : int, (before, after), or one such pair an axis, optional
        The number of elements from the edge that a statistic covers; None for all.
    reflect_type : "even" or "odd"
        For "reflect" and "symmetric"; "odd" subtracts the reflected elements from twice the edge.
    kwargs : any
        Passed to a function.

    Returns
    -------
    Array of the dtype of ``array``

    Raises
    ------
    ShapeError, ValueError
        Widths do not fit; there is no element to repeat; ``mode`` or ``reflect_type`` is unknown; an argument does not belong to
        the mode.

    >>> wf.pad(wf.array([1, 2]), (1, 2)).tolist()
    [0, 1, 2, 0, 0]
    >>> wf.pad(wf.array([1, 2, 3]), 2, mode="reflect").tolist()
    [3, 2, 1, 2, 3, 2, 1]
    """
    value = node(array, "pad", "array")
    ndim = len(value.shape)
    widths = _parse_widths(pad_width, ndim)
    options = (constant_values, end_values, stat_length, reflect_type)
    options_set = {name: x for (name, default), x in zip(_DEFAULTS.items(), options, strict=True) if x is not default}
    if callable(mode):
        return _pad_by_function(value, widths, mode, options_set | kwargs)
    if mode not in MODES:
        raise ValueError(f"pad: mode={mode!r} must be a function or one of {', '.join(map(repr, MODES))}")
    for name in [*kwargs, *options_set]:
        if name not in _OPTIONS.get(mode, ()):
            raise ValueError(f"pad: mode={mode!r} takes no argument {name!r}")
    if reflect_type not in ("even", "odd"):
        raise ValueError(f"pad: reflect_type={reflect_type!r} must be 'even' or 'odd'")
    if mode == "empty":
        return wrap(_pad_constant(value, widths, 0))
    if mode == "constant" and not isinstance(constant_values, tuple | list | np.ndarray):
        return wrap(_pad_constant(value, widths, constant_values))
    if mode in _REPEATING_MODES:
        return wrap((_pad_odd if reflect_type == "odd" else _pad_repeated)(value, widths, mode))
    if mode == "constant":
        for axis, (pair, fills) in enumerate(zip(widths, _parse_pairs("constant_values", constant_values, ndim), strict=True)):
            for width, fill, first in zip(pair, fills, (True, False), strict=True):
                one = [((width, 0) if first else (0, width)) if a == axis else (0, 0) for a in range(ndim)]
                value = _pad_constant(value, one, fill)
        return wrap(value)
    ends = _parse_pairs("end_values", end_values, ndim)
    lengths = [(None, None)] * ndim if stat_length is None else _parse_pairs("stat_length", stat_length, ndim)
    for axis, pair in enumerate(widths):
        if not any(pair):
            continue
        if not value.shape[axis]:
            raise ShapeError(f"pad: axis {axis} of shape {value.shape} has no element that mode={mode!r} could read")
        sides = [
            _ramp(value, axis, pair[k], ends[axis][k], k == 0) if mode == "linear_ramp"
            else _statistic(value, axis, pair[k], mode, lengths[axis][k], k == 0) for k in (0, 1)
        ]
        value = op("concat", sides[0], value, sides[1], axis=axis)
    return wrap(value)


def _parse_pairs(argument: str, value: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Return a pair for each axis."""
    try:
        pairs = np.broadcast_to(np.asarray(value), (ndim, 2))
    except ValueError:
        expected = f"must be a number, (before, after), or a pair for each of {ndim} axes"
        raise ShapeError(f"pad: {argument}={value!r} {expected}") from None
    return [(a, b) for a, b in pairs.tolist()]


def _pad_repeated(value: Node, widths: list[tuple[int, int]], mode: str) -> Node:
    for axis, (low, high) in enumerate(widths):
        extent = value.shape[axis]
        if not (low or high):
            continue
        if not extent:
            raise ShapeError(f"pad: axis {axis} of shape {value.shape} has no element that mode={mode!r} could repeat")
        place = np.pad(np.arange(extent), (low, high), mode=mode)  # type: ignore[call-overload]
        value = arguments.take_slices(value, numpy_node(place), axis)
    return value


def _pad_odd(value: Node, widths: list[tuple[int, int]], mode: str) -> Node:
    """Pad with twice the edge minus the reflected elements.

    A side longer than the array reflects the padded array again, in whole periods, as in NumPy.
    """
    edge = int(mode == "symmetric")  # 1: the edge itself is reflected as well
    for axis, (low, high) in enumerate(widths):
        extent = value.shape[axis]
        if not (low or high):
            continue
        if extent < 2:
            value = _pad_repeated(value, [(low, high) if a == axis else (0, 0) for a in range(len(widths))], "edge")
            continue
        period = extent if edge else extent - 1
        while low or high:
            have = value.shape[axis] - (1 - edge)
            whole_periods = have // period * period
            for first, count in ((True, min(whole_periods, low)), (False, min(whole_periods, high))):
                if count:
                    value = _add_odd_reflection(value, axis, first, count, edge)
            low, high = low - min(whole_periods, low), high - min(whole_periods, high)
    return value


def _add_odd_reflection(value: Node, axis: int, first: bool, count: int, edge: int) -> Node:
    """Add ``count`` elements at one end: twice the edge minus the reflected elements."""
    last = count - edge if first else value.shape[axis] - 2 + edge  # the reflected slice starts here and runs backwards
    begin, step = ([x if a == axis else other for a in range(len(value.shape))] for x, other in ((last, 0), (-1, 1)))
    shape = tuple([count if a == axis else n for a, n in enumerate(value.shape)])
    part = op("slice", value, start=tuple(begin), step=tuple(step), shape=shape)
    within = INT64 if value.dtype is BOOL else value.dtype
    twice = op("multiply", cast(_edge(value, axis, first), within), number_node(2, within))
    new = cast(op("subtract", twice, cast(part, within)), value.dtype)
    return op("concat", *((new, value) if first else (value, new)), axis=axis)


def _pad_by_function(value: Node, widths: list[tuple[int, int]], write: Callable[..., Any], kwargs: dict[str, Any]) -> Array:
    """Pad with zeros and let ``write`` fill each vector along each axis."""
    padded = wrap_array(_pad_constant(value, widths, 0))
    for axis in range(padded.ndim):
        lines = moveaxis(padded, axis, -1)
        for place in np.ndindex(lines.shape[:-1]):
            write(lines[(*place, ...)], widths[axis], axis, kwargs)
    return padded


def _edge(value: Node, axis: int, first: bool, count: int = 1) -> Node:
    extent = value.shape[axis]
    return slice_node(value, axis, 0, count) if first else slice_node(value, axis, extent - count, extent)


def _ramp(value: Node, axis: int, width: int, end: Any, first: bool) -> Node:
    """Return even steps from the end value (outermost) to the edge; integers are rounded down."""
    dtype = value.dtype if value.dtype in INEXACT else FLOAT64
    edge, last = cast(_edge(value, axis, first), dtype), arguments.convert_for_write(end, dtype, "pad", "end_values")
    steps = np.arange(width) / max(width, 1)
    shape = [width if a == axis else 1 for a in range(len(value.shape))]
    part = cast(numpy_node((steps if first else steps[::-1]).reshape(shape)), dtype)
    values = op("add", op("multiply", op("subtract", edge, last), part), last)
    return cast(op("floor", values) if value.dtype in INTEGERS else values, value.dtype)


def _statistic(value: Node, axis: int, width: int, mode: str, length: Any, first: bool) -> Node:
    count = value.shape[axis] if length is None else arguments.check_int(length, "pad", "stat_length")
    if count < 1:
        raise ValueError(f"pad: stat_length={length!r} must be at least 1")
    part = _edge(value, axis, first, min(count, value.shape[axis]))
    if mode in ("maximum", "minimum"):
        line = reduce_node(f"reduce_{mode[:3]}", part, (axis,), True)
    else:
        is_exact = part.dtype not in INEXACT
        exact = wrap(cast(part, FLOAT64) if is_exact else part)
        line = (mean if mode == "mean" else median)(exact, axis=axis, keepdims=True).node
        line = cast(op("round", line) if is_exact and part.dtype is not BOOL else line, value.dtype)
    return broadcast(line, tuple(width if a == axis else n for a, n in enumerate(line.shape)))


def _pad_constant(value: Node, widths: list[tuple[int, int]], fill: Any) -> Node:
    if value.dtype.kind == "signed" and fill is not None:
        known = CONTEXT.trace is None and isinstance(fill, Array) and not fill.shape
        convert_checked(fill[()] if known else fill, value.dtype)  # raises if the value does not fit, as element assignment does
    low, high = (tuple(w[side] for w in widths) for side in (0, 1))
    if arguments.is_number(fill) or isinstance(fill, np.generic):
        warn_of_overflow(fill, value.dtype)
        with np.errstate(over="ignore"):
            content, custom = np.asarray(fill), value.dtype.custom
            known = rounded_number(content.item(), value.dtype) if custom else content.astype(value.dtype.numpy).item()
        return op("pad", value, low=low, high=high, value=known)
    inside = arguments.convert_for_write(fill, value.dtype, "pad", "constant_values")
    if inside.size != 1:
        raise ShapeError(f"pad: constant_values has shape {inside.shape}; one number is needed")
    inside = reshape_node(inside, ())
    mask = op("pad", broadcast(number_node(True, BOOL), value.shape), low=low, high=high, value=False)
    return op("where", mask, op("pad", value, low=low, high=high, value=0), inside)


complete_module(globals())
