"""Sorting, partitions, searching and sets.

NumPy sorts between kernels. Functions whose result has a shape that depends on values (``unique``, sets) compute at once.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Literal

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import as_node, common, numpy_node, operands
from weft.array.indexing import bounded
from weft.dtypes.formats import BOOL, INEXACT, INT64, promote, weak
from weft.dtypes.parse import spelled
from weft.eager.peek import at_hand, leaf
from weft.errors import DTypeError, ShapeError, short
from weft.functions.elementwise.ufuncs import equal, isnan, less, less_equal
from weft.functions.indexing.take_scatter import take_along_axis
from weft.functions.support.arguments import (
    Node,
    arrays,
    axis_index,
    cast,
    integer_node,
    looked,
    node,
    number,
    of_numpy,
    op,
    reshaped,
    several,
)
from weft.functions.support.binary_search import MAX_COMPARED, count_leading
from weft.functions.support.comparison_operands import by_value
from weft.runtime.traced_int import is_int


def argsort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, descending: bool = False, stable: Any = True,
) -> Array:
    """The indices that sort ``a`` along an axis: int64; equal elements keep their order, NaN comes last.

    Parameters
    ----------
    a : array
    axis : int, optional
        None: of the flattened array.
    descending : bool
    kind, order, stable
        Do nothing: sorting is stable always, and there are no fields.

    Returns
    -------
    Array of int64, of the shape of ``a``

    Raises
    ------
    AxisError
        No such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.argsort(wf.array([3.0, 1.0, 2.0])).tolist()
    [1, 2, 0]
    """
    value = node(a, "argsort", "a")
    if axis is None or (not value.shape and axis in (0, -1)):
        value, axis = reshaped(value, (value.size,)), 0
    return wrap(_argsort(value, axis_index(axis, len(value.shape), "argsort"), descending))


def _argsort(value: Node, axis: int, descending: bool) -> Node:
    if not descending:
        return op("argsort", value, axis=axis)
    # the last of equals first, and all of it turned round: equal elements keep their order
    place = op("argsort", _turned(value, axis), axis=axis)
    return _turned(op("subtract", number(max(value.shape[axis] - 1, 0), INT64), place), axis)


def _turned(x: Node, axis: int) -> Node:
    start = tuple(n - 1 if a == axis and n else 0 for a, n in enumerate(x.shape))
    step = tuple(-1 if a == axis else 1 for a in range(len(x.shape)))
    return op("slice", x, start=start, step=step, shape=x.shape)


def sort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, descending: bool = False, stable: Any = True,
) -> Array:
    """``a`` sorted along an axis; NaN comes last.

    Parameters
    ----------
    a, axis, kind, order, descending, stable : as in :func:`argsort`

    Returns
    -------
    Array of the shape and dtype of ``a``

    Raises
    ------
    AxisError
        No such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.sort(wf.array([3.0, 1.0, 2.0]), descending=True).tolist()
    [3.0, 2.0, 1.0]
    """
    value = node(a, "sort", "a")
    if axis is None:
        value, axis = reshaped(value, (value.size,)), 0
    axis = axis_index(axis, len(value.shape), "sort")
    if 0 in value.shape:
        return wrap(value)
    up = op("sort", value, axis=axis)
    return wrap(_turned(up, axis) if descending else up)


def searchsorted(a: Any, v: Any, side: Literal["left", "right"] = "left", sorter: Any = None) -> Array:
    """Return where elements of ``v`` would stand in the sorted vector ``a``, by binary search: int64.

    Parameters
    ----------
    a : 1-D array, ascending
    v : array
    side : "left" or "right"
        Before or behind elements that are equal.
    sorter : 1-D array of integers, optional
        The indices that sort ``a``, one an element, where it is not sorted. Negative ones are out of range.

    Returns
    -------
    Array of int64, of the shape of ``v``

    Raises
    ------
    ShapeError, ValueError, IndexError
        ``a`` is no vector, or ``sorter`` has another shape; another ``side``; a ``sorter`` with indices out of range.

    Examples
    --------
    >>> import weft as wf
    >>> wf.searchsorted(wf.array([1.0, 2.0, 3.0]), [2.0, 9.0]).tolist()
    [1, 3]
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side={side!r} must be 'left' or 'right'")
    line, value = by_value(a, v)
    line = line if type(line) is Node else node(line, "searchsorted", "a")
    if len(line.shape) != 1:
        raise ShapeError(f"searchsorted: a has shape {line.shape}; a vector is needed")
    if sorter is not None:
        order = integer_node(sorter, "searchsorted", "sorter")
        if order.shape != line.shape:
            raise ShapeError(f"searchsorted: sorter has shape {order.shape}, a {line.shape}; a place for each element is needed")
        places = bounded("searchsorted", sorter, order, line.shape[0], 0, from_end=False)
        line = op("gather", line, places, axes=(0,))
    known = _at_hand(line, value)
    if known is not None:
        return wrap(leaf(np.asarray(known[0].searchsorted(known[1], side)), INT64))
    if line.size <= MAX_COMPARED:
        passed = _is_passed(line, _column(value), side)
        return wrap(op("reduce_sum", cast(passed, INT64), axes=(len(passed.shape) - 1,), keepdims=False))
    at = wrap(value) if type(value) is Node else value
    return wrap(count_leading(line.size, lambda place: _is_passed(op("gather", line, place, axes=(0,)), at, side)))


def _at_hand(x: Any, y: Any) -> list[np.ndarray] | None:
    """Return the contents of two small arrays that NumPy compares as kernels do: of other pairs of dtypes it makes floats."""
    fits = type(x) is Node and type(y) is Node and x.dtype is y.dtype and x.dtype.numpy.kind in "biuf"
    return at_hand(x, y) if fits else None


def _is_passed(elements: Node, at: Any, side: str) -> Node:
    """Return whether each element stands in front of ``at``; NaN stands behind all numbers."""
    passed: Any = (less if side == "left" else less_equal)(wrap(elements), at)
    if isinstance(at, Array) and at.node.dtype in INEXACT:
        last = isnan(at)
        passed = passed | (last & ~isnan(wrap(elements)) if side == "left" else last)
    return passed.node


def _column(x: Any) -> Any:
    return wrap(reshaped(x, (*x.shape, 1))) if type(x) is Node else x


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None,
) -> Array:
    """Return whether each element of ``element`` is one of ``test_elements``, which are sorted unless they are few.

    Parameters
    ----------
    element, test_elements : array_like
    assume_unique, kind
        Do nothing.
    invert : whether to ask for those that are not

    Returns
    -------
    bool Array of the shape of ``element``

    Raises
    ------
    DTypeError
        An operand that is no array.

    Examples
    --------
    >>> import weft as wf
    >>> wf.isin(wf.array([1, 2, 3]), [3, 1]).tolist()
    [True, False, True]
    """
    a, b = by_value(element, test_elements)
    a = a if type(a) is Node or type(b) is Node else node(a, "isin", "element")
    known = _at_hand(a, b)
    if known is not None:
        return wrap(leaf(np.isin(known[0], known[1], invert=invert), BOOL))
    if type(b) is Node and b.size > MAX_COMPARED:
        hits = _is_in_sorted(wrap(a) if type(a) is Node else a, op("sort", reshaped(b, (b.size,)), axis=0))
        return wrap(op("logical_not", hits) if invert else hits)
    hits = equal(_column(a), wrap(reshaped(b, (b.size,))) if type(b) is Node else b).node
    count = op("reduce_sum", cast(hits, INT64), axes=(len(hits.shape) - 1,), keepdims=False)
    return wrap(op("equal" if invert else "not_equal", count, number(0, INT64)))


def _is_in_sorted(at: Any, line: Node) -> Node:
    """Return whether each number stands in the sorted vector ``line``."""
    def read(place: Node) -> Array:
        return wrap(op("gather", line, place, axes=(0,)))

    place = count_leading(line.size, lambda place: less(read(place), at).node)
    return equal(read(op("minimum", place, number(line.size - 1, INT64))), at).node


UniqueAll = namedtuple("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = namedtuple("UniqueCounts", "values counts")
UniqueInverse = namedtuple("UniqueInverse", "values inverse_indices")


def _unique(x: Any, function: str, **asked: Any) -> Any:
    found = np.unique(wrap(node(x, function, "ar" if function == "unique" else "x")).numpy(), **asked)  # type: ignore[call-overload]
    return tuple(wrap(numpy_node(f)) for f in found) if isinstance(found, tuple) else wrap(numpy_node(found))


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None, *,
    equal_nan: bool = True, sorted: bool = True,
) -> Any:
    """The different elements, sorted; computes at once.

    Parameters
    ----------
    ar : array
    return_index, return_inverse, return_counts : bool
        Add where each stands first, which of them each element is, and how many there are: a tuple then.
    axis : int, optional
        Of the slices that are compared; None: of the flattened array.
    equal_nan : bool
        Whether NaN are one element.
    sorted : bool
        Does nothing: they are sorted always.

    Returns
    -------
    (K,) Array (with ``axis``: of the shape of ``ar`` but along it), or a tuple of it and the arrays of int64 asked for

    Raises
    ------
    TraceError, AxisError
        Inside a traced function: the shape of the result depends on values; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.unique(wf.array([3, 1, 3])).tolist()
    [1, 3]
    """
    if axis is not None:
        axis = axis_index(axis, len(node(ar, "unique", "ar").shape), "unique")
    asked: Any = dict(return_index=return_index, return_inverse=return_inverse, return_counts=return_counts)
    return _unique(ar, "unique", axis=axis, equal_nan=equal_nan, **asked)


def unique_values(x: Any, /) -> Array:
    """The different elements, sorted; computes at once.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    (K,) Array, sorted

    Raises
    ------
    TraceError
        As :func:`unique`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.unique_values(wf.array([3, 1, 3])).tolist()
    [1, 3]
    """
    return _unique(x, "unique_values", equal_nan=False)


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements and how many there are of each.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    UniqueCounts : values (K,), sorted; counts (K,) int64

    Raises
    ------
    TraceError
        As :func:`unique`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.unique_counts(wf.array([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    return UniqueCounts(*_unique(x, "unique_counts", return_counts=True, equal_nan=False))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements, and which of them each element of ``x`` is.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    UniqueInverse : values (K,), sorted; inverse_indices of the shape of ``x``, int64

    Raises
    ------
    TraceError
        As :func:`unique`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.unique_inverse(wf.array([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    return UniqueInverse(*_unique(x, "unique_inverse", return_inverse=True, equal_nan=False))


def unique_all(x: Any, /) -> UniqueAll:
    """The different elements, where each stands first, which of them each element is, and how many there are.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    UniqueAll : values, indices, inverse_indices and counts; the indices int64

    Raises
    ------
    TraceError
        As :func:`unique`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.unique_all(wf.array([3, 1, 3])).indices.tolist()
    [1, 0]
    """
    asked = dict(return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    return UniqueAll(*_unique(x, "unique_all", **asked))


def _checked(function: str, a: Any, kth: Any, axis: int | None) -> tuple[Array, int]:
    """The array, flattened without an axis, and the axis; each ``kth`` must be one of its places."""
    value = node(a, function, "a")
    if axis is None or (not value.shape and axis in (0, -1)):
        value, axis = reshaped(value, (value.size,)), 0
    axis = axis_index(axis, len(value.shape), function)
    extent = value.shape[axis]
    known = looked(kth, function, "kth").reshape(-1)
    if known.dtype.kind not in "iu":
        raise DTypeError(f"{function}: kth must be integers, not {short(kth)}")
    bad = known[(known < -extent) | (known >= extent)]
    if bad.size and value.size:
        raise ValueError(f"{function}: kth={bad[0]} is out of bounds for axis {axis} with size {extent}")
    return wrap(value), axis


def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Array:
    """``a`` so ordered that the element at ``kth`` is where a sort would put it, smaller ones in front: here, sorted.

    Parameters
    ----------
    a : array
    kth : int or sequence of int
    axis : int, optional
        None: of the flattened array.
    kind, order
        Do nothing: all is sorted, and there are no fields.

    Returns
    -------
    Array of the shape and dtype of ``a``

    Raises
    ------
    ValueError, AxisError
        ``kth`` out of range; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.partition(wf.array([3, 1, 2]), 0).tolist()[0]
    1
    """
    return sort(*_checked("partition", a, kth, axis))


def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Array:
    """The indices that :func:`partition` orders by.

    Parameters
    ----------
    a, kth, axis, kind, order : as in :func:`partition`

    Returns
    -------
    Array of int64, of the shape of ``a``

    Raises
    ------
    ValueError, AxisError
        As :func:`partition`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.argpartition(wf.array([3, 1, 2]), 0).tolist()[0]
    1
    """
    return argsort(*_checked("argpartition", a, kth, axis))


def lexsort(keys: Any, axis: int = -1) -> Array:
    """The indices that sort by several keys: the last one first, the one before it where that is equal, and so on.

    Parameters
    ----------
    keys : (K, ...) array, or a sequence of K arrays of one shape
    axis : int
        Of a key.

    Returns
    -------
    Array of int64, of the shape of a key

    Raises
    ------
    ShapeError, AxisError
        No key, or keys of different shapes; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.lexsort(([2, 1, 0], [5, 4, 5])).tolist()
    [1, 2, 0]
    """
    rows = several(keys, "lexsort", "keys")
    if not rows:
        raise ShapeError("lexsort: there is no key")
    parts = [arrays("lexsort", **{f"keys[{k}]": row})[0] for k, row in enumerate(rows)]
    shape = parts[0].shape
    for k, p in enumerate(parts):
        if p.shape != shape:
            raise ShapeError(f"lexsort: keys[0] has shape {shape} and keys[{k}] {p.shape}: they must be equal")
    if not shape:
        return wrap(node(np.int64(0), "lexsort"))
    axis = axis_index(axis, len(shape), "lexsort")
    order = wrap(op("argsort", parts[0].node, axis=axis))
    for p in parts[1:]:
        order = take_along_axis(order, argsort(take_along_axis(p, order, axis), axis), axis)
    return order


def _to_compare(function: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Both flattened, with the digits that they are compared by."""
    x, y = (looked(n, function, name).reshape(-1) for n, name in zip(by_value(a, b), ("ar1", "ar2"), strict=True))
    return x, y


def _in_both(x: Any, a: Any, b: Any) -> Array:
    """Elements of one of two arrays, or of both, in the dtype for both."""
    given = [as_node(n) if is_int(n) and n > INT64.greatest else n for n in (a, b)]
    dtype = common(given, promote, lambda kind, form: promote(form, spelled(kind)))[1]
    return wrap(cast(of_numpy(x).node, dtype))


def union1d(ar1: Any, ar2: Any) -> Array:
    """What is in one of the two, sorted; computes at once.

    Parameters
    ----------
    ar1, ar2 : array
        Flattened.

    Returns
    -------
    (K,) Array

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.union1d(wf.array([3, 1]), [1, 2]).tolist()
    [1, 2, 3]
    """
    x, y = operands(ar1, ar2)
    return of_numpy(np.union1d(wrap(x).numpy(), wrap(y).numpy()))


def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """What is in both, sorted; computes at once.

    Parameters
    ----------
    ar1, ar2 : array
        Flattened.
    assume_unique : bool
        That none of them holds anything twice.
    return_indices : bool
        Also where each stands first in both.

    Returns
    -------
    (K,) Array, or a tuple of it and two of int64

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.intersect1d(wf.array([3, 1, 2]), [1, 3]).tolist()
    [1, 3]
    """
    x, y = _to_compare("intersect1d", ar1, ar2)
    if not return_indices:
        return _in_both(np.intersect1d(x, y, assume_unique), ar1, ar2)
    nothing = np.zeros(0, np.int64)
    found, *places = np.intersect1d(x, y, assume_unique, True) if x.size and y.size else (x[:0], nothing, nothing)
    return _in_both(found, ar1, ar2), *map(of_numpy, places)


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """What is in the first and not in the second, sorted; computes at once.

    Parameters
    ----------
    ar1, ar2, assume_unique : as in :func:`intersect1d`

    Returns
    -------
    (K,) Array of the dtype of ``ar1``

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.setdiff1d(wf.array([3, 1, 2]), [1]).tolist()
    [2, 3]
    """
    found = of_numpy(np.setdiff1d(*_to_compare("setdiff1d", ar1, ar2), assume_unique))
    return wrap(cast(found.node, common((ar1,), promote, weak)[1]))


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """What is in just one of the two, sorted; computes at once.

    Parameters
    ----------
    ar1, ar2, assume_unique : as in :func:`intersect1d`

    Returns
    -------
    (K,) Array

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.setxor1d(wf.array([3, 1]), [1, 2]).tolist()
    [2, 3]
    """
    return _in_both(np.setxor1d(*_to_compare("setxor1d", ar1, ar2), assume_unique), ar1, ar2)
