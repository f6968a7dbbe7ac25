"""How many elements lie in which bin. Bins that are not given depend on the elements: these are looked at then."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import common, numpy_node
from weft.array.indexing import as_ints
from weft.dtypes.formats import BOOL, COMPLEX, DEFAULT, FLOAT64, FLOATS, INT64, INTEGERS, UINT64, promote, weak
from weft.errors import DTypeError, ShapeError, said_by
from weft.functions.indexing.where import where
from weft.functions.reductions.folds import sum
from weft.functions.sorting.sort_search import searchsorted
from weft.functions.statistics.differences import diff
from weft.functions.support.arguments import (
    Node,
    arrays,
    broadcast,
    cast,
    looked,
    node,
    number,
    of_numpy,
    op,
    real_number,
    reshaped,
    several,
    whole,
)
from weft.graph.primitives.meeting import adding


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Array:
    """How often each of the numbers 0, 1, 2, ... occurs; the largest is looked at.

    Parameters
    ----------
    x : (N,) array of integers
        None below zero.
    weights : (N,) array, optional
        What each of them adds, in place of 1.
    minlength : int
        The result is at least so long.

    Returns
    -------
    Array of int64, of float32 or float64 with ``weights``

    Raises
    ------
    ShapeError, DTypeError, ValueError, TraceError
        Not one dimension, or as many weights as elements; no integers; a negative number; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.bincount(wf.array([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    value = node(x, "bincount")
    if len(value.shape) != 1:
        raise ShapeError(f"bincount: x has shape {value.shape}; a vector is needed")
    if value.dtype not in INTEGERS and value.dtype != BOOL and (value.size or isinstance(x, Array)):
        raise DTypeError(f"bincount: x must hold integers, but has dtype {value.dtype}; cast with .astype('int64')")
    least = whole(minlength, "bincount", "minlength")
    if least < 0:
        raise ValueError(f"bincount: minlength={least} must not be negative")
    known = looked(wrap(value), "bincount")
    if value.size and known.min() < 0:
        raise ValueError(f"bincount: x holds the negative number {known.min()}")
    length = max(least, int(known.max()) + 1 if value.size else 0)
    if weights is None:
        return wrap(numpy_node(np.bincount(known.astype(np.int64), minlength=length)))
    added = node(weights, "bincount", "weights")
    if added.shape != value.shape:
        raise ShapeError(f"bincount: weights have shape {added.shape}, x has shape {value.shape}")
    return wrap(_counted(cast(value, INT64), _weighed(added), length))


def _weighed(added: Node) -> Node:
    """Weights in the dtype that they are summed in."""
    return added if added.dtype is FLOAT64 else cast(added, DEFAULT.real)


def _counted(place: Node, added: Node, length: int) -> Node:
    zeros = broadcast(number(0, added.dtype), (length,))
    return op("scatter", zeros, added, place, axes=(0,), mode=adding(added.dtype)) if length else zeros


def digitize(x: Any, bins: Any, right: bool = False) -> Array:
    """In which bin each element lies: 0 in front of the first edge, ``len(bins)`` behind the last.

    Parameters
    ----------
    x : array
    bins : (N,) array
        Rising or falling; they are looked at.
    right : bool
        Whether the edges belong to the bins in front of them.

    Returns
    -------
    Array of int64, of the shape of ``x``

    Raises
    ------
    DTypeError, ShapeError, ValueError, TraceError
        Complex numbers; ``bins`` are no vector; they rise and fall; they are not known inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.digitize(wf.array([0.5, 1.0, 9.0]), [0.0, 1.0, 2.0]).tolist()
    [1, 2, 3]
    """
    if common((node(x, "digitize") if x is None else x,), promote, weak)[1] in COMPLEX:
        raise DTypeError("digitize: x is complex, and has no order; take wf.real(x), wf.imag(x) or wf.abs(x)")
    found = common((bins,), promote, weak)[0][0] if isinstance(bins, list | tuple) else None
    edges = found if isinstance(found, np.ndarray) else looked(bins, "digitize", "bins")  # a list of floats: as they are written
    if edges.ndim != 1:
        raise ShapeError(f"digitize: bins have shape {edges.shape}; a vector is needed")
    if edges.dtype.kind == "f" and np.isnan(edges).any():  # NumPy's own way through what has no order
        known = looked(x, "digitize")
        with said_by("digitize"):
            return of_numpy(np.digitize(known, edges, right))
    falls = edges.size > 0 and bool(edges[0] > edges[-1])
    if (edges[1:] > edges[:-1] if falls else edges[1:] < edges[:-1]).any():
        raise ValueError("digitize: bins must rise or fall")
    if not falls:
        return searchsorted(bins, x, side="left" if right else "right")
    rising = bins[::-1] if isinstance(bins, list | tuple) else edges[::-1]
    return len(edges) - searchsorted(rising, x, side="left" if right else "right")


def _bounds(function: str, range: Any) -> tuple[float, float]:
    ends = [real_number(b, function, "range") for b in several(range, function, "range")]
    if len(ends) != 2:
        raise ValueError(f"{function}: range={range!r} must be two finite numbers, the smaller one first")
    low, high = map(float, ends)
    if not (np.isfinite(low) and np.isfinite(high)) or low > high:
        raise ValueError(f"{function}: range={range!r} must be two finite numbers, the smaller one first")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _edges(function: str, a: Node, bins: Any, range: Any, weights: Any) -> np.ndarray:
    """The edges of bins in the dtype in which elements are compared with them."""
    exact = a.dtype.numpy if a.dtype in FLOATS and not a.dtype.narrow else np.dtype(np.float64)
    if isinstance(bins, str):
        known = looked(wrap(a), function, "a")
        with said_by(function):
            return np.histogram_bin_edges(known, bins, range, weights)
    bins = as_ints(bins)
    if isinstance(bins, list | tuple) or getattr(bins, "shape", ()) != ():
        edges = looked(bins, function, "bins")
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
        low, high = _bounds(function, range)
    elif not a.size:
        low, high = 0.0, 1.0
    else:
        known = looked(wrap(a), function, "a")
        low, high = _bounds(function, (known.min(), known.max()))
    return np.linspace(low, high, count + 1).astype(exact)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """The edges that :func:`histogram` divides by.

    Parameters
    ----------
    a, bins, range, weights : as in :func:`histogram`

    Returns
    -------
    (number of bins + 1,) Array

    Raises
    ------
    ValueError, DTypeError, TraceError
        As :func:`histogram`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.histogram_bin_edges(wf.array([0.0, 4.0]), bins=2).tolist()
    [0.0, 2.0, 4.0]
    """
    value = node(a, "histogram_bin_edges", "a")
    return of_numpy(_edges("histogram_bin_edges", value, bins, range, weights), _like(value))


def _like(value: Node) -> Any:
    if DEFAULT.wide and value.dtype in FLOATS:
        return value.dtype
    return FLOAT64 if value.dtype in (FLOAT64, UINT64) else DEFAULT.real


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None,
) -> tuple[Array, Array]:
    """How many elements lie in each bin; the last bin has its upper edge.

    Parameters
    ----------
    a : array
        Flattened.
    bins : int, (N + 1,) array, or str
        How many of one width, their edges, or one of NumPy's rules ("auto", "fd", "sturges", ...).
    range : (low, high), optional
        None: from the least to the largest element, which are looked at.
    density : bool
        Divide by the widths and the total, so that the area is 1.
    weights : array, optional
        What each element adds, in place of 1.

    Returns
    -------
    (N,) Array of int64, or of floats, and (N + 1,) Array : the counts and the edges

    Raises
    ------
    ValueError, ShapeError, DTypeError, TraceError
        Edges that fall, no bin, or a range without numbers; weights that do not fit; bins that are nothing of these; what is
        looked at is not known inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> counts, edges = wf.histogram(wf.array([0.0, 1.0, 1.0, 4.0]), bins=2)
    >>> counts.tolist(), edges.tolist()
    ([3, 1], [0.0, 2.0, 4.0])
    """
    value = node(a, "histogram", "a")
    if value.dtype in COMPLEX and range is None and not np.ndim(bins):
        raise DTypeError("histogram: a is complex, and has no least element; give edges, or take wf.real(a) or wf.abs(a)")
    edges = _edges("histogram", value, bins, range, weights)
    count = len(edges) - 1
    x, line = wrap(reshaped(value, (value.size,))), wrap(numpy_node(edges))
    place = searchsorted(line, x, side="right") - 1
    place = where(x == line[-1:], count - 1, place)
    inside = (place >= 0) & (place < count) & (x <= line[-1:])
    truths = False
    if weights is None:
        added: Any = wrap(cast(inside.node, INT64))
    else:
        (added,) = arrays("histogram", weights=weights)
        if added.shape != value.shape:
            raise ShapeError(f"histogram: weights have shape {added.shape}, a has shape {value.shape}")
        truths = added.node.dtype == BOOL
        if truths:
            added = added.astype("int64")
        added = where(inside, added.reshape(-1), 0)
    counts = wrap(_counted(where(inside, place, 0).node, added.node, count))
    shown = of_numpy(edges, _like(value))
    if truths:
        counts = counts.astype("bool")  # NumPy counts in the dtype of the weights
    if density:
        counts = counts / diff(shown) / sum(counts)
    return counts, shown


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None,
) -> tuple[Array, Array, Array]:
    """How many points of a plane lie in each bin; computes at once, in NumPy.

    Parameters
    ----------
    x, y : (N,) array
    bins : int, (N + 1,) array, or a pair of these
    range : pair of (low, high), optional
    density, weights : as in :func:`histogram`

    Returns
    -------
    three Arrays of floats : the counts, x along the first axis, and the edges of both

    Raises
    ------
    ValueError, TraceError
        What NumPy refuses; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.histogram2d(wf.array([0.0, 1.0]), wf.array([0.0, 1.0]), bins=2)[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _in_numpy("histogram2d", np.histogram2d, (x, y), bins, range, density, weights)


def _in_numpy(function: str, ask: Any, points: Any, bins: Any, range: Any, density: Any, weights: Any) -> Any:
    known = [looked(p, function) for p in points]
    like = FLOAT64 if any(k.dtype == np.float64 for k in known) else DEFAULT.real
    if isinstance(bins, Sequence | Array):
        bins = [looked(b, function, "bins") if isinstance(b, Array) else b for b in bins]
    weights = None if weights is None else looked(weights, function, "weights")
    with said_by(function):
        found = ask(*known, bins=bins, range=range, density=density, weights=weights)
    return tuple(tuple(of_numpy(e, like) for e in f) if isinstance(f, tuple | list) else of_numpy(f, like) for f in found)


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None,
) -> tuple[Array, tuple[Array, ...]]:
    """How many points of a space lie in each bin; computes at once, in NumPy.

    Parameters
    ----------
    sample : (N, D) array
    bins : int, or a sequence of D numbers or edges
    range : sequence of D pairs (low, high), optional
    density, weights : as in :func:`histogram`

    Returns
    -------
    Array with D dimensions, and a tuple of D Arrays : the counts and the edges

    Raises
    ------
    ValueError, TraceError
        What NumPy refuses; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.histogramdd(wf.array([[0.0, 0.0], [1.0, 1.0]]), bins=2)[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if isinstance(sample, Array | np.ndarray):
        points = sample
    else:
        columns = [looked(s, "histogramdd", "sample") for s in several(sample, "histogramdd", "sample")]
        with said_by("histogramdd"):
            points = np.transpose(columns)
    return _in_numpy("histogramdd", np.histogramdd, (points,), bins, range, density, weights)
