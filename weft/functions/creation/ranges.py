"""Evenly spaced numbers, and the coordinates of grids."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import common, number_node
from weft.dtypes import formats
from weft.dtypes.formats import COMPLEX, COMPLEX128, DEFAULT, FLOAT64, FLOATS, INEXACT, INT64, INTEGERS, Format
from weft.dtypes.parse import check_like, parse_dtype
from weft.eager.peek import made
from weft.errors import DTypeError, ShapeError, short
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, broadcast, cast, node, op, permuted, reshaped
from weft.functions.support.unbound import unbound
from weft.process.docstrings import complete_docs
from weft.runtime.traced_int import asked, computed


@unbound
def arange(
    start: Any = None, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None, like: Any = None,
) -> Array:
    """Return the numbers from ``start`` up to, but not including, ``stop``. A single argument is ``stop``; ``start`` is then 0.

    Parameters
    ----------
    start, stop, step : number
    dtype : dtype, optional
        int64 if all arguments are integers, else float32.
    device : str, optional
        The device of the result, such as "cpu" or "gpu"; by default the current one.
    like : array, optional
        Ignored: the result is always an Array.

    Returns
    -------
    (ceil((stop - start) / step),) Array
        Empty if that is negative.

    Raises
    ------
    DTypeError, ValueError
        An argument is no number, or the dtype is unknown; an argument is not finite, the step is 0, or the device is unknown.

    Examples
    --------
    >>> import weft as wf
    >>> wf.arange(2, 8, 3).tolist()
    [2, 5]
    """
    check_like(like, "arange")
    if device is not None:
        return arguments.create_on_device("arange", device, arange, start, stop, step, dtype)
    if stop is None:
        start, stop = None, start
    start, step = 0 if start is None else start, 1 if step is None else step
    first, last, by = start, stop, step
    integers = type(first) is type(last) is type(by) is int
    if not integers:
        for x in (start, stop, step):
            if isinstance(x, (Array, np.ndarray)) and x.size != 1:
                raise DTypeError(f"arange: start, stop and step must be numbers, not an array of shape {x.shape}")
        numbers = [x.item() if isinstance(x, (Array, np.generic, np.ndarray)) else asked(x) for x in (start, stop, step)]
        if not all(type(x) in arguments.NUMBERS for x in numbers):
            raise DTypeError(f"arange: start, stop and step must be numbers, not {start!r}, {stop!r}, {step!r}")
        first, last, by = numbers
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"arange: start={first}, stop={last} and step={by} must be finite")
        integers = all(type(x) is not float for x in numbers)
    if by == 0:
        raise ValueError("arange: step must not be 0")
    count = max(0, -((first - last) // by) if integers else math.ceil((last - first) / by))
    form = (INT64 if integers else DEFAULT.real) if dtype is None else parse_dtype(dtype)
    if form in INTEGERS and not integers and max(map(abs, (first, first + by, first + count * by))) < 2**62:
        start = int(first)  # like NumPy: cast the first two numbers and repeat their difference
        first, by, integers = start, int(first + by) - start, True
    if not form.narrow and (integers or form in FLOATS):
        result = made((count,), form, lambda line: np.copyto(line, np.arange(count) * by + first, casting="unsafe"))
        if result is not None:
            return wrap(result)
    if first == 0 and by == 1:
        return wrap(cast(op("iota", shape=(count,), dtype=INT64, axis=0), form))
    work_form = INT64 if integers else FLOAT64
    place = op("iota", shape=(count,), dtype=work_form, axis=0)
    scaled = op("multiply", place, number_node(int(by) if integers else float(by), work_form))
    return wrap(cast(op("add", scaled, number_node(int(first) if integers else float(first), work_form)), form))


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *,
    device: Any = None,
) -> Any:
    """Return ``num`` evenly spaced numbers from ``start`` to ``stop``, computed in float64.

    Parameters
    ----------
    start, stop : number or array
    num : int
        The number of samples.
    endpoint : bool
        Whether ``stop`` is the last sample.
    retstep : bool
        Also return the spacing.
    dtype : dtype, optional
        float32 by default; float64 if ``start`` or ``stop`` is an array of float64.
    axis : int
        The axis of the result along which the samples run, if ``start`` or ``stop`` is an array.
    device : str, optional
        The device of the result, such as "cpu" or "gpu"; by default the current one.

    Returns
    -------
    (num,) Array, or (num, ...) for arrays
        With ``retstep`` of :func:`linspace` a pair of it and the spacing.

    Raises
    ------
    ShapeError, DTypeError, AxisError, ValueError
        ``num`` is negative; the dtype is unknown; the axis does not exist; the device is unknown.

    Examples
    --------
    >>> wf.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if device is not None:
        return arguments.create_on_device("linspace", device, linspace, start, stop, num, endpoint, retstep, dtype, axis)
    count = arguments.whole(num, "linspace", "num")
    if count < 0:
        raise ShapeError(f"linspace: num={count} must not be negative")
    is_complex = _has_complex(start, stop)
    if is_complex or (dtype is not None and parse_dtype(dtype) in COMPLEX):
        form = formats.complex_format(_default_format(start, stop)) if dtype is None else parse_dtype(dtype)
        return _complex_line(start, stop, count, endpoint, form, retstep, axis)
    gaps = count - 1 if endpoint else count
    shapes = [() if isinstance(x, arguments.NUMBERS) else np.shape(x) for x in (start, stop)]
    if shapes == [(), ()] and not any([getattr(x, "weak", False) for x in (start, stop)]):
        arguments.axis_index(axis, 1, "linspace")
        result_form = _default_format(start, stop) if dtype is None else parse_dtype(dtype)
        first, last = computed(float, start), computed(float, stop)
        by = (last - first) / gaps if gaps > 0 else 0.0
        values = _evenly_spaced(first, last, by, count, endpoint and count > 1)
        step: Any = by if gaps > 0 else math.nan
    else:
        promoted = common((start, stop), formats.promote, formats.weak)[1]
        result_form = (promoted if promoted in FLOATS else DEFAULT.real) if dtype is None else parse_dtype(dtype)
        a, b = (arguments.held(x, FLOAT64, "linspace", name) for x, name in ((start, "start"), (stop, "stop")))
        shape = arguments.broadcast_shapes("linspace", a.shape, b.shape)
        low, high = (reshaped(broadcast(n, shape), (1, *shape)) for n in (a, b))
        wide = op("divide", op("subtract", high, low), number_node(float(max(gaps, 1)), FLOAT64))
        place = op("iota", shape=(count,) + (1,) * len(shape), dtype=FLOAT64, axis=0)
        values = op("add", op("multiply", place, wide), low)
        if endpoint and count > 1:
            values = op("where", op("equal", place, number_node(count - 1, FLOAT64)), high, values)
        step = wrap(cast(reshaped(wide, shape), result_form if result_form in FLOATS else DEFAULT.real))
        where_to = arguments.axis_index(axis, len(shape) + 1, "linspace")
        values = permuted(values, (*range(1, where_to + 1), 0, *range(where_to + 1, len(shape) + 1)))
    if result_form not in FLOATS:
        values = op("floor", values)
    result = wrap(cast(values, result_form))
    return (result, step) if retstep else result


def _evenly_spaced(first: float, last: float, by: float, count: int, closed: bool) -> Node:
    """Return ``count`` evenly spaced float64 numbers; with ``closed`` the last one is exactly ``last``."""

    def fill(line: np.ndarray) -> None:
        with np.errstate(all="ignore"):
            np.multiply(np.arange(count), by, line)
            line += first
        if closed:
            line[-1] = last

    leaf = made((count,), FLOAT64, fill)
    if leaf is not None:
        return leaf
    place = op("iota", shape=(count,), dtype=FLOAT64, axis=0)
    values = op("add", op("multiply", place, number_node(by, FLOAT64)), number_node(first, FLOAT64))
    if not closed:
        return values
    return op("where", op("equal", place, number_node(count - 1, FLOAT64)), number_node(last, FLOAT64), values)


def _has_complex(*operands: Any) -> bool:
    """Return whether an argument is a complex number or array."""
    numbers = arguments.NUMBERS
    return any(isinstance(x, complex) or (not isinstance(x, numbers) and node(x, "linspace").dtype in COMPLEX) for x in operands)


def _default_format(*operands: Any) -> Format:
    """Return the default format of the result: complex, or promoted from the arguments if the default float is float64."""
    if not DEFAULT.wide:
        return FLOAT64 if _has_64_bit_array(*operands) else DEFAULT.real
    promoted = common(operands, formats.promote, formats.weak)[1]
    return promoted if promoted in INEXACT else DEFAULT.real


def _has_64_bit_array(*operands: Any) -> bool:
    """Return whether an argument is an array of float64 or complex128."""
    return any(getattr(x, "dtype", None) in (np.float64, np.complex128) and np.ndim(x) for x in operands)


def _complex_line(start: Any, stop: Any, num: int, endpoint: bool, form: Format, retstep: bool, axis: int) -> Any:
    """Return complex samples: real and imaginary parts are computed separately."""
    parts = []
    plain = [x if isinstance(x, arguments.NUMBERS) or type(x) is complex else wrap(node(x, "linspace")) for x in (start, stop)]
    for of in ("real", "imag"):
        low, high = (getattr(x, of) for x in plain)
        parts.append(linspace(low, high, num, endpoint, True, FLOAT64, axis))
    (a, step), (b, turn) = parts
    result = wrap(cast(op("complex", a.node, b.node), form))
    if not retstep:
        return result
    return result, complex(step, turn) if isinstance(step, float) else wrap(cast(op("complex", step.node, turn.node), form))


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0,
) -> Array:
    """Return numbers from ``base**start`` to ``base**stop``, evenly spaced on a logarithmic scale.

    Parameters
    ----------
    start, stop : number or array
        The exponents.
    base : number or array
        An array broadcasts with ``start`` and ``stop``.

    Examples
    --------
    >>> wf.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    work_form = COMPLEX128 if _has_complex(start, stop, base) else FLOAT64
    first, last, root = start, stop, arguments.held(base, work_form, "logspace", "base")
    if root.shape:  # base broadcasts with start and stop; the samples run along an axis of their own
        nodes = [arguments.held(x, work_form, "logspace", name) for x, name in ((start, "start"), (stop, "stop"))]
        ndim = len(arguments.broadcast_shapes("logspace", *(n.shape for n in nodes), root.shape))
        first, last, wide = (wrap(reshaped(n, (1,) * (ndim - len(n.shape)) + n.shape)) for n in (*nodes, root))
        axis = arguments.axis_index(axis, ndim + 1, "logspace")
        root = reshaped(wide.node, (*wide.shape[:axis], 1, *wide.shape[axis:]))
    exponents = linspace(first, last, num, endpoint, False, work_form, axis)
    powers = op("pow", root, exponents.node)
    if dtype is None and DEFAULT.wide:
        dtype = _default_format(start, stop, base).numpy
    return _cast_samples(powers, (start, stop, base), dtype)


def _cast_samples(samples: Node, ends: Any, dtype: Any) -> Array:
    """Convert the computed numbers to ``dtype``, or to the format that the arguments imply."""
    form = FLOAT64 if _has_64_bit_array(*ends) else DEFAULT.real
    form = parse_dtype(dtype) if dtype is not None else formats.complex_format(form) if samples.dtype in COMPLEX else form
    return wrap(cast(samples, form))


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Array:
    """Return numbers from ``start`` to ``stop``, each a constant multiple of the previous one.

    Parameters
    ----------
    start, stop : number or array
        Not zero; both of the same sign, or complex.

    Raises
    ------
    ValueError, ShapeError, DTypeError, AxisError
        ``start`` or ``stop`` is zero; ``num`` is negative; the dtype is unknown; the axis does not exist.

    Examples
    --------
    >>> [round(x, 4) for x in wf.geomspace(1, 1000, 4).tolist()]
    [1.0, 10.0, 100.0, 1000.0]
    """
    work_form = COMPLEX128 if _has_complex(start, stop) or (dtype is not None and parse_dtype(dtype) in COMPLEX) else FLOAT64
    low, high = (arguments.held(x, work_form, "geomspace", name) for x, name in ((start, "start"), (stop, "stop")))
    for name, x in (("start", low), ("stop", high)):
        content = arguments.seen(x, "geomspace", name)
        if content is not None and not content.all():
            raise ValueError(f"geomspace: {name} must not be zero, but is {short(start if x is low else stop)}")
    sign = op("sign", low)  # dividing by it makes the first number positive, and real if it was complex
    first, last = (wrap(op("log10", op("divide", n, sign))) for n in (low, high))
    samples = op("multiply", logspace(first, last, num, endpoint, 10.0, work_form).node, sign)
    count = samples.shape[0]
    place = reshaped(op("iota", shape=(count,), dtype=INT64, axis=0), (count,) + (1,) * (len(samples.shape) - 1))
    samples = op("where", op("equal", place, number_node(0, INT64)), low, samples)
    if endpoint and count > 1:
        samples = op("where", op("equal", place, number_node(count - 1, INT64)), high, samples)
    where_to = arguments.axis_index(axis, len(samples.shape), "geomspace")
    samples = permuted(samples, (*range(1, where_to + 1), 0, *range(where_to + 1, len(samples.shape))))
    return _cast_samples(samples, (start, stop), dtype)


def meshgrid(*arrays: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    """Return the coordinates of a grid, one array per dimension.

    Parameters
    ----------
    *arrays : arrays
        One-dimensional; others are flattened.
    copy : bool
        Ignored: the results are no views.
    sparse : bool
        Return each array with extent 1 along all other axes, so that the arrays broadcast to the grid.
    indexing : "xy" or "ij"
        "xy": the first array runs along axis 1, as in pictures.

    Returns
    -------
    tuple of Array
        Each with the shape of the grid: the lengths of the arrays, with the first two exchanged for "xy".

    Raises
    ------
    ValueError
        ``indexing`` is something else.

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
    for place, value in zip(places, nodes, strict=True):
        extents[place] = value.size
    out = []
    for place, value in zip(places, nodes, strict=True):
        line = reshaped(value, tuple(value.size if a == place else 1 for a in range(len(nodes))))
        out.append(wrap(line if sparse else broadcast(line, tuple(extents))))
    return tuple(out)


complete_docs(linspace, logspace, geomspace)
