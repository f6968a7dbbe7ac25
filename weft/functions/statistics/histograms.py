"""Histograms and bin counts. Bin edges that are not given depend on the elements, which are computed then."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import common, numpy_node
from weft.array.indexing import resolve_scalar_indices
from weft.dtypes.formats import BOOL, COMPLEX, DEFAULT, FLOAT64, FLOATS, INT64, INTEGERS, UINT64, promote, weak
from weft.errors import DTypeError, ShapeError, name_numpy_errors
from weft.functions.indexing.where import where
from weft.functions.reductions.folds import sum
from weft.functions.sorting.sort_search import searchsorted
from weft.functions.statistics.differences import diff
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, arrays, broadcast, cast, node, number, op, reshaped
from weft.graph.primitives.meeting import scatter_add_mode
from weft.process.docstrings import complete_module


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
    if value.dtype not in INTEGERS and value.dtype != BOOL and (value.size or isinstance(x, Array)):
        raise DTypeError(f"bincount: x must hold integers, but has dtype {value.dtype}; cast with .astype('int64')")
    least = arguments.count_from_zero(minlength, "bincount", "minlength", ValueError)
    elements = arguments.looked(wrap(value), "bincount")
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
    zeros = broadcast(number(0, added.dtype), (length,))
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
    if common((node(x, "digitize") if x is None else x,), promote, weak)[1] in COMPLEX:
        raise DTypeError("digitize: x is complex, and has no order; take wf.real(x), wf.imag(x) or wf.abs(x)")
    # float lists stay float64
    promoted = common((bins,), promote, weak)[0][0] if isinstance(bins, list | tuple) else None
    edges = promoted if isinstance(promoted, np.ndarray) else arguments.looked(bins, "digitize", "bins")
    if edges.ndim != 1:
        raise ShapeError(f"digitize: bins have shape {edges.shape}; a vector is needed")
    if edges.dtype.kind == "f" and np.isnan(edges).any():  # NaN edges: NumPy's binary search defines the result
        elements = arguments.looked(x, "digitize")
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
    ends = [arguments.check_real(b, function, "range") for b in arguments.several(range, function, "range")]
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
        elements = arguments.looked(wrap(a), function, "a")
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
        elements = arguments.looked(wrap(a), function, "a")
        low, high = _parse_range(function, (elements.min(), elements.max()))
    return np.linspace(low, high, count + 1).astype(float_dtype)


def _read_edges(function: str, a: Node, bins: Any) -> np.ndarray:
    """Return edges that the user gave. Arrays keep their dtype; lists of floats are float64 beside float64, as in operators."""
    promoted = common((bins,), promote, weak)[0][0] if isinstance(bins, list | tuple) else None
    if isinstance(promoted, np.ndarray) and promoted.dtype == np.float64:
        return promoted.astype(FLOAT64.numpy if a.dtype in (FLOAT64, UINT64) else DEFAULT.real.numpy)
    return arguments.looked(bins, function, "bins")


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
    value = node(a, "histogram_bin_edges", "a")
    return _result_edges(_find_edges("histogram_bin_edges", value, bins, range, weights), value, bins)


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
    edges = _find_edges("histogram", value, bins, range, weights)
    count = len(edges) - 1
    x, line = wrap(reshaped(value, (value.size,))), wrap(numpy_node(edges))
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
    operands = [arguments.looked(p, function) for p in points]
    like = FLOAT64 if any(k.dtype == np.float64 for k in operands) else DEFAULT.real
    given = bins
    if isinstance(bins, Sequence | Array):
        bins = [arguments.looked(b, function, "bins") if isinstance(b, Array) else b for b in bins]
    weights = None if weights is None else arguments.looked(weights, function, "weights")
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
        columns = [arguments.looked(s, "histogramdd", "sample") for s in arguments.several(sample, "histogramdd", "sample")]
        with name_numpy_errors("histogramdd"):
            points = np.transpose(columns)
    return _call_numpy("histogramdd", np.histogramdd, (points,), bins, range, density, weights)


complete_module(globals(), (histogram, histogram_bin_edges, histogram2d), (histogram2d, histogramdd))
