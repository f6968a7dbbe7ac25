"""Arrays that count: evenly spaced numbers, and the coordinates of grids."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.convert import number_node
from weft.errors import DTypeError, ShapeError
from weft.formats import COMPLEX, COMPLEX64, FLOAT32, FLOAT64, FLOATS, INT64, Format
from weft.functions.common import NUMBERS, broadcast, cast, node, on_cpu, op, reshaped
from weft.given import asked
from weft.spelling import spelled


def arange(start: Any, /, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None) -> Array:
    """Numbers from ``start`` (0 where it is the only one given) up to and without ``stop``.

    Parameters
    ----------
    start, stop, step : number
    dtype : dtype, optional
        int64 for integers, else float32.
    device : "cpu", optional

    Returns
    -------
    (ceil((stop - start) / step),) Array, empty where that is negative

    Raises
    ------
    DTypeError, ValueError
        Arguments that are no numbers, or an unknown dtype; a step of 0.

    Examples
    --------
    >>> import weft as wf
    >>> wf.arange(2, 8, 3).tolist()
    [2, 5]
    """
    on_cpu("arange", device)
    if stop is None:
        start, stop = 0, start
    given = [x.item() if isinstance(x, (Array, np.generic, np.ndarray)) else asked(x) for x in (start, stop, step)]
    if not all(type(x) in NUMBERS for x in given):
        raise DTypeError(f"arange: start, stop and step must be numbers, not {start!r}, {stop!r}, {step!r}")
    first, last, by = given
    if by == 0:
        raise ValueError("arange: step must not be 0")
    integers = all(type(x) is not float for x in given)
    count = max(0, -((first - last) // by) if integers else math.ceil((last - first) / by))
    wanted = (INT64 if integers else FLOAT32) if dtype is None else spelled(dtype)
    if first == 0 and by == 1:
        return wrap(cast(op("iota", shape=(count,), dtype=INT64, axis=0), wanted))
    within = INT64 if integers else FLOAT64
    place = op("iota", shape=(count,), dtype=within, axis=0)
    scaled = op("multiply", place, number_node(int(by) if integers else float(by), within))
    return wrap(cast(op("add", scaled, number_node(int(first) if integers else float(first), within)), wanted))


def linspace(start: Any, stop: Any, /, num: int = 50, endpoint: bool = True, dtype: Any = None, *, device: Any = None) -> Array:
    """``num`` numbers at equal distances from ``start`` to ``stop``, computed in float64, float32 unless told otherwise.

    Parameters
    ----------
    start, stop : number
    num : int
    endpoint : bool
        Whether ``stop`` is the last of them.
    dtype : dtype, optional
    device : "cpu", optional

    Returns
    -------
    (num,) Array

    Raises
    ------
    ShapeError, DTypeError
        A negative ``num``; an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    on_cpu("linspace", device)
    count = operator.index(num)
    if count < 0:
        raise ShapeError(f"linspace: num={count} must not be negative")
    varied = isinstance(start, complex) or isinstance(stop, complex)
    wanted = (COMPLEX64 if varied else FLOAT32) if dtype is None else spelled(dtype)
    if varied or wanted in COMPLEX:
        return _complex_line(complex(start), complex(stop), num, endpoint, wanted)
    first, last = float(start), float(stop)
    gaps = count - 1 if endpoint else count
    place = op("iota", shape=(count,), dtype=FLOAT64, axis=0)
    by = (last - first) / gaps if gaps > 0 else 0.0
    values = op("add", op("multiply", place, number_node(by, FLOAT64)), number_node(first, FLOAT64))
    if endpoint and count > 1:
        values = op("where", op("equal", place, number_node(count - 1, FLOAT64)), number_node(last, FLOAT64), values)
    if wanted not in FLOATS:
        values = op("floor", values)
    return wrap(cast(values, wanted))


def _complex_line(start: complex, stop: complex, num: int, endpoint: bool, wanted: Format) -> Array:
    parts = [linspace(a, b, num, endpoint, FLOAT64).node for a, b in ((start.real, stop.real), (start.imag, stop.imag))]
    return wrap(cast(op("complex", *parts), wanted))


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Array, ...]:
    """The coordinates of a grid, one array a dimension.

    Parameters
    ----------
    *arrays : arrays
        Each in one dimension; those of more are flattened.
    indexing : "xy" or "ij"
        "xy": the first array runs along axis 1, as in pictures.

    Returns
    -------
    tuple of Array
        Each of the shape of the grid: the lengths of the arrays, the first two exchanged for "xy".

    Raises
    ------
    ValueError
        Another ``indexing``.

    Examples
    --------
    >>> import weft as wf
    >>> x, y = wf.meshgrid(wf.arange(2), wf.arange(3))
    >>> x.tolist()
    [[0, 1], [0, 1], [0, 1]]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing={indexing!r} must be 'xy' or 'ij'")
    nodes = [node(x, "meshgrid", f"arrays[{k}]") for k, x in enumerate(arrays)]
    places = list(range(len(nodes)))
    if indexing == "xy" and len(nodes) > 1:
        places[:2] = 1, 0
    extents = [0] * len(nodes)
    for place, found in zip(places, nodes, strict=True):
        extents[place] = found.size
    out = []
    for place, found in zip(places, nodes, strict=True):
        line = reshaped(found, tuple(found.size if a == place else 1 for a in range(len(nodes))))
        out.append(wrap(broadcast(line, tuple(extents))))
    return tuple(out)
