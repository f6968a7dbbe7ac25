"""Arrays that count: evenly spaced numbers, and the coordinates of grids."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import common, number_node
from weft.dtypes.formats import (
    COMPLEX,
    COMPLEX128,
    DEFAULT,
    FLOAT64,
    FLOATS,
    INEXACT,
    INT64,
    INTEGERS,
    Format,
    complexed,
    promote,
    weak,
)
from weft.dtypes.parse import liked, spelled
from weft.eager.peek import made
from weft.errors import DTypeError, ShapeError, short
from weft.functions.support.arguments import (
    NUMBERS,
    Node,
    axis_index,
    broadcast,
    broadcast_shapes,
    cast,
    held,
    made_on,
    node,
    op,
    permuted,
    reshaped,
    seen,
    whole,
)
from weft.functions.support.unbound import unbound
from weft.runtime.traced_int import asked, computed


@unbound
def arange(
    start: Any = None, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None, like: Any = None,
) -> Array:
    """Numbers from ``start`` up to and without ``stop``. A single number is ``stop``, and ``start`` is 0.

    Parameters
    ----------
    start, stop, step : number
    dtype : dtype, optional
        int64 for integers, else float32.
    device : str, optional
        Where it is to lie, such as "cpu" or "gpu"; by default where it is made.
    like : as in :func:`zeros`

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
    liked(like, "arange")
    if device is not None:
        return made_on("arange", device, arange, start, stop, step, dtype)
    if stop is None:
        start, stop = None, start
    start, step = 0 if start is None else start, 1 if step is None else step
    first, last, by = start, stop, step
    integers = type(first) is type(last) is type(by) is int
    if not integers:
        for x in (start, stop, step):
            if isinstance(x, (Array, np.ndarray)) and x.size != 1:
                raise DTypeError(f"arange: start, stop and step must be numbers, not an array of shape {x.shape}")
        given = [x.item() if isinstance(x, (Array, np.generic, np.ndarray)) else asked(x) for x in (start, stop, step)]
        if not all(type(x) in NUMBERS for x in given):
            raise DTypeError(f"arange: start, stop and step must be numbers, not {start!r}, {stop!r}, {step!r}")
        first, last, by = given
        if not all(map(math.isfinite, given)):
            raise ValueError(f"arange: start={first}, stop={last} and step={by} must be finite")
        integers = all(type(x) is not float for x in given)
    if by == 0:
        raise ValueError("arange: step must not be 0")
    count = max(0, -((first - last) // by) if integers else math.ceil((last - first) / by))
    wanted = (INT64 if integers else DEFAULT.real) if dtype is None else spelled(dtype)
    if wanted in INTEGERS and not integers and max(map(abs, (first, first + by, first + count * by))) < 2**62:
        start = int(first)  # as NumPy, which casts the first two numbers and repeats their difference
        first, by, integers = start, int(first + by) - start, True
    if not wanted.narrow and (integers or wanted in FLOATS):
        found = made((count,), wanted, lambda line: np.copyto(line, np.arange(count) * by + first, casting="unsafe"))
        if found is not None:
            return wrap(found)
    if first == 0 and by == 1:
        return wrap(cast(op("iota", shape=(count,), dtype=INT64, axis=0), wanted))
    within = INT64 if integers else FLOAT64
    place = op("iota", shape=(count,), dtype=within, axis=0)
    scaled = op("multiply", place, number_node(int(by) if integers else float(by), within))
    return wrap(cast(op("add", scaled, number_node(int(first) if integers else float(first), within)), wanted))


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *,
    device: Any = None,
) -> Any:
    """``num`` numbers at equal distances from ``start`` to ``stop``, computed in float64, float32 unless told otherwise.

    Parameters
    ----------
    start, stop : number or array
    num : int
    endpoint : bool
        Whether ``stop`` is the last of them.
    retstep : bool
        Also the distance.
    dtype : dtype, optional
    axis : int
        Where the numbers run, where start and stop are arrays.
    device : str, optional
        Where it is to lie, such as "cpu" or "gpu"; by default where it is made.

    Returns
    -------
    (num,) Array, or (num, ...) for arrays; with ``retstep`` a pair of it and the distance

    Raises
    ------
    ShapeError, DTypeError, AxisError, ValueError
        A negative ``num``; an unknown dtype; no such axis; another device.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if device is not None:
        return made_on("linspace", device, linspace, start, stop, num, endpoint, retstep, dtype, axis)
    count = whole(num, "linspace", "num")
    if count < 0:
        raise ShapeError(f"linspace: num={count} must not be negative")
    varied = _complex(start, stop)
    if varied or (dtype is not None and spelled(dtype) in COMPLEX):
        kept = complexed(_between(start, stop)) if dtype is None else spelled(dtype)
        return _complex_line(start, stop, count, endpoint, kept, retstep, axis)
    gaps = count - 1 if endpoint else count
    shapes = [() if isinstance(x, NUMBERS) else np.shape(x) for x in (start, stop)]
    if shapes == [(), ()] and not any([getattr(x, "weak", False) for x in (start, stop)]):
        axis_index(axis, 1, "linspace")
        wanted = _between(start, stop) if dtype is None else spelled(dtype)
        first, last = computed(float, start), computed(float, stop)
        by = (last - first) / gaps if gaps > 0 else 0.0
        values = _line(first, last, by, count, endpoint and count > 1)
        step: Any = by if gaps > 0 else math.nan
    else:
        have = common((start, stop), promote, weak)[1]
        wanted = (have if have in FLOATS else DEFAULT.real) if dtype is None else spelled(dtype)
        a, b = (held(x, FLOAT64, "linspace", name) for x, name in ((start, "start"), (stop, "stop")))
        shape = broadcast_shapes("linspace", a.shape, b.shape)
        low, high = (reshaped(broadcast(n, shape), (1, *shape)) for n in (a, b))
        wide = op("divide", op("subtract", high, low), number_node(float(max(gaps, 1)), FLOAT64))
        place = op("iota", shape=(count,) + (1,) * len(shape), dtype=FLOAT64, axis=0)
        values = op("add", op("multiply", place, wide), low)
        if endpoint and count > 1:
            values = op("where", op("equal", place, number_node(count - 1, FLOAT64)), high, values)
        step = wrap(cast(reshaped(wide, shape), wanted if wanted in FLOATS else DEFAULT.real))
        where_to = axis_index(axis, len(shape) + 1, "linspace")
        values = permuted(values, (*range(1, where_to + 1), 0, *range(where_to + 1, len(shape) + 1)))
    if wanted not in FLOATS:
        values = op("floor", values)
    found = wrap(cast(values, wanted))
    return (found, step) if retstep else found


def _line(first: float, last: float, by: float, count: int, closed: bool) -> Node:
    """Numbers at equal distances in float64; closed: ends at ``last``."""

    def fill(line: np.ndarray) -> None:
        with np.errstate(all="ignore"):
            np.multiply(np.arange(count), by, line)
            line += first
        if closed:
            line[-1] = last

    found = made((count,), FLOAT64, fill)
    if found is not None:
        return found
    place = op("iota", shape=(count,), dtype=FLOAT64, axis=0)
    values = op("add", op("multiply", place, number_node(by, FLOAT64)), number_node(first, FLOAT64))
    if not closed:
        return values
    return op("where", op("equal", place, number_node(count - 1, FLOAT64)), number_node(last, FLOAT64), values)


def _complex(*given: Any) -> bool:
    """Whether one of them is complex, a number or an array."""
    return any(isinstance(x, complex) or (not isinstance(x, NUMBERS) and node(x, "linspace").dtype in COMPLEX) for x in given)


def _between(*given: Any) -> Format:
    """What lies between ends that are no arrays, or complex: the default; where that is float64, what all have together."""
    if not DEFAULT.wide:
        return FLOAT64 if _wide(*given) else DEFAULT.real
    have = common(given, promote, weak)[1]
    return have if have in INEXACT else DEFAULT.real


def _wide(*given: Any) -> bool:
    """Whether one is an array of 64-bit floats, or of their complex numbers."""
    return any(getattr(x, "dtype", None) in (np.float64, np.complex128) and np.ndim(x) for x in given)


def _complex_line(start: Any, stop: Any, num: int, endpoint: bool, wanted: Format, retstep: bool, axis: int) -> Any:
    """The real and the imaginary parts, each a line."""
    parts = []
    plain = [x if isinstance(x, NUMBERS) or type(x) is complex else wrap(node(x, "linspace")) for x in (start, stop)]
    for of in ("real", "imag"):
        low, high = (getattr(x, of) for x in plain)
        parts.append(linspace(low, high, num, endpoint, True, FLOAT64, axis))
    (a, step), (b, turn) = parts
    found = wrap(cast(op("complex", a.node, b.node), wanted))
    if not retstep:
        return found
    return found, complex(step, turn) if isinstance(step, float) else wrap(cast(op("complex", step.node, turn.node), wanted))


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0,
) -> Array:
    """Numbers from ``base**start`` to ``base**stop``, each the same factor larger than the one before it.

    Parameters
    ----------
    start, stop : number or array
        The exponents.
    num, endpoint, dtype, axis : as in :func:`linspace`
    base : number or array
        An array broadcasts with ``start`` and ``stop``.

    Returns
    -------
    (num,) Array, or (num, ...) for arrays

    Raises
    ------
    ShapeError, DTypeError, AxisError
        As :func:`linspace`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    within = COMPLEX128 if _complex(start, stop, base) else FLOAT64
    first, last, root = start, stop, held(base, within, "logspace", "base")
    if root.shape:  # its axes are those of start and stop, beside the one along which the numbers run
        nodes = [held(x, within, "logspace", name) for x, name in ((start, "start"), (stop, "stop"))]
        ndim = len(broadcast_shapes("logspace", *(n.shape for n in nodes), root.shape))
        first, last, wide = (wrap(reshaped(n, (1,) * (ndim - len(n.shape)) + n.shape)) for n in (*nodes, root))
        axis = axis_index(axis, ndim + 1, "logspace")
        root = reshaped(wide.node, (*wide.shape[:axis], 1, *wide.shape[axis:]))
    exponents = linspace(first, last, num, endpoint, False, within, axis)
    found = op("pow", root, exponents.node)
    return _rounded(found, (start, stop, base), _between(start, stop, base).numpy if dtype is None and DEFAULT.wide else dtype)


def _rounded(found: Node, given: Any, dtype: Any) -> Array:
    """From float64 to what was asked for, or what the ends make."""
    wanted = FLOAT64 if _wide(*given) else DEFAULT.real
    wanted = spelled(dtype) if dtype is not None else complexed(wanted) if found.dtype in COMPLEX else wanted
    return wrap(cast(found, wanted))


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Array:
    """Numbers from ``start`` to ``stop``, each the same factor larger than the one before it.

    Parameters
    ----------
    start, stop : number or array
        Not zero, and of one sign, or complex.
    num, endpoint, dtype, axis : as in :func:`linspace`

    Returns
    -------
    (num,) Array, or (num, ...) for arrays

    Raises
    ------
    ValueError, ShapeError, DTypeError, AxisError
        A zero; as :func:`linspace`.

    Examples
    --------
    >>> import weft as wf
    >>> [round(x, 4) for x in wf.geomspace(1, 1000, 4).tolist()]
    [1.0, 10.0, 100.0, 1000.0]
    """
    within = COMPLEX128 if _complex(start, stop) or (dtype is not None and spelled(dtype) in COMPLEX) else FLOAT64
    low, high = (held(x, within, "geomspace", name) for x, name in ((start, "start"), (stop, "stop")))
    for name, x in (("start", low), ("stop", high)):
        known = seen(x, "geomspace", name)
        if known is not None and not known.all():
            raise ValueError(f"geomspace: {name} must not be zero, but is {short(start if x is low else stop)}")
    sign = op("sign", low)  # the logarithms of complex numbers are those of the angles from the first on
    first, last = (wrap(op("log10", op("divide", n, sign))) for n in (low, high))
    found = op("multiply", logspace(first, last, num, endpoint, 10.0, within).node, sign)
    count = found.shape[0]
    place = reshaped(op("iota", shape=(count,), dtype=INT64, axis=0), (count,) + (1,) * (len(found.shape) - 1))
    found = op("where", op("equal", place, number_node(0, INT64)), low, found)
    if endpoint and count > 1:
        found = op("where", op("equal", place, number_node(count - 1, INT64)), high, found)
    where_to = axis_index(axis, len(found.shape), "geomspace")
    found = permuted(found, (*range(1, where_to + 1), 0, *range(where_to + 1, len(found.shape))))
    return _rounded(found, (start, stop), dtype)


def meshgrid(*arrays: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    """The coordinates of a grid, one array a dimension.

    Parameters
    ----------
    *arrays : arrays
        Each in one dimension; those of more are flattened.
    copy : bool
        Does nothing: the results are no views.
    sparse : bool
        Leave them as long as they are along one axis each, so that they broadcast to the grid.
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
        out.append(wrap(line if sparse else broadcast(line, tuple(extents))))
    return tuple(out)
