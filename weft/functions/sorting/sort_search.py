"""Sorting, partitions, searching and sets.

NumPy sorts between kernels. Functions whose result has a shape that depends on values (``unique``, sets) compute at once.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Literal

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import as_node, numpy_node, promote_operands, read_operands
from weft.array.indexing import check_bounds
from weft.dtypes.api import is_integer
from weft.dtypes.formats import BOOL, INEXACT, INT64, promote, weak
from weft.dtypes.parse import parse_dtype
from weft.eager.peek import leaf, peek
from weft.errors import DTypeError, ShapeError, short
from weft.functions.elementwise.ufuncs import equal, isnan, less, less_equal
from weft.functions.indexing.take_scatter import take_along_axis
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, cast, count_leading, lossless_operands, node, number, op, reshape_node
from weft.process.docstrings import complete_module
from weft.runtime.traced_int import is_int


def argsort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, descending: bool = False, stable: Any = True,
) -> Array:
    """Return the indices that sort ``a`` along an axis. The sort is stable; NaN comes last.

    Parameters
    ----------
    axis : int, optional
        None: sort the flattened array.
    descending : bool
        Whether the largest elements come first.
    kind, order, stable
        Ignored: sorting is always stable, and there are no fields.

    Returns
    -------
    int64 Array of the shape of ``a``

    Raises
    ------
    AxisError
        The axis does not exist.

    >>> wf.argsort(wf.array([3.0, 1.0, 2.0])).tolist()
    [1, 2, 0]
    """
    value = node(a, "argsort", "a")
    return wrap(_argsort(*arguments.flat_axis(value, axis, "argsort", numbers=True), descending))


def _argsort(value: Node, axis: int, descending: bool) -> Node:
    if not descending:
        return op("argsort", value, axis=axis)
    # sorting the reversed array and reversing the result keeps the order of equal elements
    place = op("argsort", _reverse(value, axis), axis=axis)
    return _reverse(op("subtract", number(max(value.shape[axis] - 1, 0), INT64), place), axis)


def _reverse(x: Node, axis: int) -> Node:
    start = tuple(n - 1 if a == axis and n else 0 for a, n in enumerate(x.shape))
    step = tuple(-1 if a == axis else 1 for a in range(len(x.shape)))
    return op("slice", x, start=start, step=step, shape=x.shape)


def sort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, descending: bool = False, stable: Any = True,
) -> Array:
    """Return ``a`` sorted along an axis. The sort is stable; NaN comes last.

    Returns
    -------
    Array of the shape and dtype of ``a``

    >>> wf.sort(wf.array([3.0, 1.0, 2.0]), descending=True).tolist()
    [3.0, 2.0, 1.0]
    """
    value = node(a, "sort", "a")
    value, axis = arguments.flat_axis(value, axis, "sort")
    if 0 in value.shape:
        return wrap(value)
    ascending = op("sort", value, axis=axis)
    return wrap(_reverse(ascending, axis) if descending else ascending)


def top_k(a: Any, k: int, axis: int | None = -1, largest: bool = True) -> tuple[Array, Array]:
    """Return the ``k`` largest elements along an axis, the largest first, and their indices.

    Parameters
    ----------
    k : int, from 0 to the extent of the axis
    axis : int, optional
        None: search the flattened array.
    largest : bool
        False: the smallest elements, the smallest first.

    Returns
    -------
    tuple of two Arrays
        Values of the dtype of ``a``, and int64 indices, both with ``k`` elements along the axis. Of equal elements the one with
        the lower index comes first. NaN counts as larger than any number. The values have a gradient.

    Raises
    ------
    ShapeError, AxisError, DTypeError
        ``k`` is out of range; the axis does not exist; ``k`` is no integer.

    >>> values, indices = wf.top_k(wf.array([3.0, 1.0, 2.0]), 2)
    >>> values.tolist(), indices.tolist()
    ([3.0, 2.0], [0, 2])
    """
    value, axis = arguments.flat_axis(node(a, "top_k", "a"), axis, "top_k", numbers=True)
    count, extent = arguments.check_int(k, "top_k", "k"), value.shape[axis]
    if not 0 <= count <= extent:
        raise ShapeError(f"top_k: k={count} must be from 0 to {extent}, the extent of axis {axis} of a {value.shape}")
    places = wrap(arguments.slice_node(_argsort(value, axis, arguments.flag(largest, "top_k", "largest")), axis, 0, count))
    return take_along_axis(wrap(value), places, axis), places


def searchsorted(a: Any, v: Any, side: Literal["left", "right"] = "left", sorter: Any = None) -> Array:
    """Return the positions at which the elements of ``v`` would be inserted into the sorted vector ``a``, by binary search.

    Parameters
    ----------
    a : 1-D array, ascending
    side : "left" or "right"
        Whether the position is before or after elements that are equal.
    sorter : 1-D array of integers, optional
        The indices that sort ``a`` if it is not sorted, one per element. Negative ones are out of range.

    Returns
    -------
    int64 Array of the shape of ``v``

    Raises
    ------
    ShapeError, ValueError, IndexError
        ``a`` is no vector, or ``sorter`` has another shape; another ``side``; an index in ``sorter`` is out of range.

    >>> wf.searchsorted(wf.array([1.0, 2.0, 3.0]), [2.0, 9.0]).tolist()
    [1, 3]
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side={side!r} must be 'left' or 'right'")
    line, value = lossless_operands(a, v)
    line = line if type(line) is Node else node(line, "searchsorted", "a")
    if len(line.shape) != 1:
        raise ShapeError(f"searchsorted: a has shape {line.shape}; a vector is needed")
    if sorter is not None:
        order = arguments.integer_node(sorter, "searchsorted", "sorter")
        if order.shape != line.shape:
            raise ShapeError(f"searchsorted: sorter has shape {order.shape}, a {line.shape}; a place for each element is needed")
        places = check_bounds("searchsorted", sorter, order, line.shape[0], 0, from_end=False)
        line = op("gather", line, places, axes=(0,))
    if (contents := _peek_comparable(line, value)) is not None:
        return wrap(leaf(np.asarray(contents[0].searchsorted(contents[1], side)), INT64))
    if line.size <= arguments.MAX_COMPARED:
        passed = _is_before(line, _column(value), side)
        return wrap(op("reduce_sum", cast(passed, INT64), axes=(len(passed.shape) - 1,), keepdims=False))
    values = wrap(value) if type(value) is Node else value
    return wrap(count_leading(line.size, lambda place: _is_before(op("gather", line, place, axes=(0,)), values, side)))


def _peek_comparable(x: Any, y: Any) -> list[np.ndarray] | None:
    """Return the contents of two small arrays of equal dtype, which NumPy compares without a conversion to float; else None."""
    is_comparable = type(x) is Node and type(y) is Node and x.dtype is y.dtype and x.dtype.numpy.kind in "biuf"
    return peek(x, y) if is_comparable else None


def _is_before(elements: Node, at: Any, side: str) -> Node:
    """Return whether each element comes before ``at`` in sorted order; NaN comes after all numbers."""
    passed: Any = (less if side == "left" else less_equal)(wrap(elements), at)
    if isinstance(at, Array) and at.node.dtype in INEXACT:
        last = isnan(at)
        passed = passed | (last & ~isnan(wrap(elements)) if side == "left" else last)
    return passed.node


def _column(x: Any) -> Any:
    return wrap(reshape_node(x, (*x.shape, 1))) if type(x) is Node else x


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None,
) -> Array:
    """Return whether each element of ``element`` is one of ``test_elements``. More than 32 test elements are sorted first.

    Parameters
    ----------
    element, test_elements : array_like
    assume_unique, kind
        Ignored.
    invert : bool
        Whether to return the opposite.

    Returns
    -------
    bool Array of the shape of ``element``

    Raises
    ------
    DTypeError
        An operand is no array.

    >>> wf.isin(wf.array([1, 2, 3]), [3, 1]).tolist()
    [True, False, True]
    """
    a, b = lossless_operands(element, test_elements)
    a = a if type(a) is Node or type(b) is Node else node(a, "isin", "element")
    if (contents := _peek_comparable(a, b)) is not None:
        return wrap(leaf(np.isin(contents[0], contents[1], invert=invert), BOOL))
    if type(b) is Node and b.size > arguments.MAX_COMPARED:
        hits = _is_in_sorted(wrap(a) if type(a) is Node else a, op("sort", reshape_node(b, (b.size,)), axis=0))
        return wrap(op("logical_not", hits) if invert else hits)
    hits = equal(_column(a), wrap(reshape_node(b, (b.size,))) if type(b) is Node else b).node
    count = op("reduce_sum", cast(hits, INT64), axes=(len(hits.shape) - 1,), keepdims=False)
    return wrap(op("equal" if invert else "not_equal", count, number(0, INT64)))


def _is_in_sorted(at: Any, line: Node) -> Node:
    """Return whether each number is an element of the sorted vector ``line``."""
    def read(place: Node) -> Array:
        return wrap(op("gather", line, place, axes=(0,)))

    place = count_leading(line.size, lambda place: less(read(place), at).node)
    return equal(read(op("minimum", place, number(line.size - 1, INT64))), at).node


UniqueAll = namedtuple("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = namedtuple("UniqueCounts", "values counts")
UniqueInverse = namedtuple("UniqueInverse", "values inverse_indices")


def _unique(x: Any, function: str, **options: Any) -> Any:
    value = node(x, function, "ar" if function == "unique" else "x")
    result = np.unique(_read_sortable(value), **options)  # type: ignore[call-overload]
    elements, *more = map(numpy_node, result if isinstance(result, tuple) else (result,))
    return (wrap(cast(elements, value.dtype)), *map(wrap, more)) if more else wrap(cast(elements, value.dtype))


def _read_sortable(value: Node) -> np.ndarray:
    """Return the content in a format that NumPy sorts: it puts NaN of small floats anywhere, and has no formats of users."""
    return wrap(cast(value, value.dtype.computed)).numpy()


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None, *,
    equal_nan: bool = True, sorted: bool = True,
) -> Any:
    """Return the distinct elements, sorted. Computes at once.

    Parameters
    ----------
    ar : array
    return_index, return_inverse, return_counts : bool
        Also return the first position of each distinct element, the indices that rebuild ``ar``, and the counts.
    axis : int, optional
        Compare slices along this axis; None: compare the elements of the flattened array.
    equal_nan : bool
        Whether all NaN count as one element.
    sorted : bool
        Ignored: the result is always sorted.

    Returns
    -------
    (K,) Array, or a tuple of it and the requested int64 arrays
        With ``axis`` the result has the shape of ``ar`` except along it.

    Raises
    ------
    TraceError, AxisError
        Called inside a traced function, since the shape of the result depends on values; the axis does not exist.

    >>> wf.unique(wf.array([3, 1, 3])).tolist()
    [1, 3]
    """
    if axis is not None:
        axis = arguments.axis_index(axis, len(node(ar, "unique", "ar").shape), "unique")
    options: Any = dict(return_index=return_index, return_inverse=return_inverse, return_counts=return_counts)
    return _unique(ar, "unique", axis=axis, equal_nan=equal_nan, **options)


def unique_values(x: Any, /) -> Array:
    """Return the distinct elements, sorted. Computes at once.

    Returns
    -------
    (K,) Array, sorted

    Raises
    ------
    TraceError
        Called inside a traced function, since the shape of the result depends on values.

    >>> wf.unique_values(wf.array([3, 1, 3])).tolist()
    [1, 3]
    """
    return _unique(x, "unique_values", equal_nan=False)


def unique_counts(x: Any, /) -> UniqueCounts:
    """Return the distinct elements, sorted, and the number of occurrences of each. Computes at once.

    Returns
    -------
    UniqueCounts
        ``values`` (K,) and ``counts`` (K,) int64.

    >>> wf.unique_counts(wf.array([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    return UniqueCounts(*_unique(x, "unique_counts", return_counts=True, equal_nan=False))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """Return the distinct elements, sorted, and the indices that rebuild ``x`` from them. Computes at once.

    Returns
    -------
    UniqueInverse
        ``values`` (K,), and ``inverse_indices`` with the shape of ``x``, int64.

    >>> wf.unique_inverse(wf.array([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    return UniqueInverse(*_unique(x, "unique_inverse", return_inverse=True, equal_nan=False))


def unique_all(x: Any, /) -> UniqueAll:
    """Return the distinct elements, sorted, their first positions, the indices that rebuild ``x``, and the counts. Computes at
    once.

    Returns
    -------
    UniqueAll
        ``values``, ``indices``, ``inverse_indices`` and ``counts``; all but the first are int64.

    >>> wf.unique_all(wf.array([3, 1, 3])).indices.tolist()
    [1, 0]
    """
    options = dict(return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    return UniqueAll(*_unique(x, "unique_all", **options))


def _check_kth(function: str, a: Any, kth: Any, axis: int | None) -> tuple[Array, int]:
    """Return the array, flattened if ``axis`` is None, and the axis. Check that each ``kth`` is a position along it."""
    value = node(a, function, "a")
    value, axis = arguments.flat_axis(value, axis, function, numbers=True)
    extent = value.shape[axis]
    positions = arguments.read_now(kth, function, "kth").reshape(-1)
    if not is_integer(positions.dtype):
        raise DTypeError(f"{function}: kth must be integers, not {short(kth)}")
    bad = positions[(positions < -extent) | (positions >= extent)]
    if bad.size and value.size:
        raise ValueError(f"{function}: kth={bad[0]} is out of bounds for axis {axis} with size {extent}")
    return wrap(value), axis


def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Array:
    """Return ``a`` with the element of each position ``kth`` where sorting would put it; weft sorts the whole axis.

    Parameters
    ----------
    kth : int or sequence of int
    axis : int, optional
        None: use the flattened array.
    kind, order
        Ignored: the axis is sorted, and there are no fields.

    Returns
    -------
    Array of the shape and dtype of ``a``

    Raises
    ------
    ValueError, AxisError
        ``kth`` is out of range; the axis does not exist.
    DTypeError
        ``kth`` holds no integers.

    >>> wf.partition(wf.array([3, 1, 2]), 0).tolist()[0]
    1
    """
    return sort(*_check_kth("partition", a, kth, axis))


def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Array:
    """Return the indices that :func:`partition` orders by.

    Returns
    -------
    int64 Array of the shape of ``a``

    >>> wf.argpartition(wf.array([3, 1, 2]), 0).tolist()[0]
    1
    """
    return argsort(*_check_kth("argpartition", a, kth, axis))


def lexsort(keys: Any, axis: int = -1) -> Array:
    """Return the indices that sort by several keys: by the last one, then by the one before it among equal elements, and so on.

    Parameters
    ----------
    keys : (K, ...) array, or a sequence of K arrays of equal shape
    axis : int
        The axis of each key that is sorted.

    Returns
    -------
    int64 Array of the shape of a key

    Raises
    ------
    ShapeError, AxisError
        There is no key, or shapes differ; the axis does not exist.

    >>> wf.lexsort(([2, 1, 0], [5, 4, 5])).tolist()
    [1, 2, 0]
    """
    rows = arguments.as_list(keys, "lexsort", "keys")
    if not rows:
        raise ShapeError("lexsort: keys is empty; give at least one key")
    parts = [arguments.arrays("lexsort", **{f"keys[{k}]": row})[0] for k, row in enumerate(rows)]
    shape = parts[0].shape
    for k, p in enumerate(parts):
        if p.shape != shape:
            raise ShapeError(f"lexsort: keys[0] has shape {shape} and keys[{k}] {p.shape}: they must be equal")
    if not shape:
        return wrap(node(np.int64(0), "lexsort"))
    axis = arguments.axis_index(axis, len(shape), "lexsort")
    order = wrap(op("argsort", parts[0].node, axis=axis))
    for p in parts[1:]:
        order = take_along_axis(order, argsort(take_along_axis(p, order, axis), axis), axis)
    return order


def _read_operands(function: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Return both arrays, flattened, with the precision in which they are compared."""
    x, y = (
        _read_sortable(node(n, function, name)).reshape(-1)
        for n, name in zip(lossless_operands(a, b), ("ar1", "ar2"), strict=True)
    )
    return x, y


def _to_promoted(x: Any, a: Any, b: Any) -> Array:
    """Convert elements of two arrays to the promoted dtype of both."""
    operands = [as_node(n) if is_int(n) and n > INT64.greatest else n for n in (a, b)]
    dtype = read_operands(operands, promote, lambda kind, form: promote(form, parse_dtype(kind)))[1]
    return wrap(cast(arguments.from_numpy(x).node, dtype))


def union1d(ar1: Any, ar2: Any) -> Array:
    """Return the elements that are in at least one of two arrays, sorted. Computes at once.

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
        Called inside a traced function.

    >>> wf.union1d(wf.array([3, 1]), [1, 2]).tolist()
    [1, 2, 3]
    """
    x, y = promote_operands(ar1, ar2)
    return wrap(cast(arguments.from_numpy(np.union1d(_read_sortable(x), _read_sortable(y))).node, x.dtype))


def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """Return the elements that are in both arrays, sorted. Computes at once.

    Parameters
    ----------
    assume_unique : bool
        Whether the elements of each array are known to be distinct.
    return_indices : bool
        Also return the first position of each element in both arrays.

    Returns
    -------
    (K,) Array, or a tuple of it and two int64 Arrays

    >>> wf.intersect1d(wf.array([3, 1, 2]), [1, 3]).tolist()
    [1, 3]
    """
    x, y = _read_operands("intersect1d", ar1, ar2)
    if not return_indices:
        return _to_promoted(np.intersect1d(x, y, assume_unique), ar1, ar2)
    nothing = np.zeros(0, np.int64)
    common_elements, *places = np.intersect1d(x, y, assume_unique, True) if x.size and y.size else (x[:0], nothing, nothing)
    return _to_promoted(common_elements, ar1, ar2), *map(arguments.from_numpy, places)


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """Return the elements of ``ar1`` that are not in ``ar2``, sorted. Computes at once.

    Parameters
    ----------
    assume_unique : bool
        Whether the elements of each array are known to be distinct.

    Returns
    -------
    (K,) Array of the dtype of ``ar1``

    >>> wf.setdiff1d(wf.array([3, 1, 2]), [1]).tolist()
    [2, 3]
    """
    result = arguments.from_numpy(np.setdiff1d(*_read_operands("setdiff1d", ar1, ar2), assume_unique))
    return wrap(cast(result.node, read_operands((ar1,), promote, weak)[1]))


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """Return the elements that are in exactly one of the arrays, sorted. Computes at once.

    Parameters
    ----------
    assume_unique : bool
        Whether the elements of each array are known to be distinct.

    >>> wf.setxor1d(wf.array([3, 1]), [1, 2]).tolist()
    [2, 3]
    """
    return _to_promoted(np.setxor1d(*_read_operands("setxor1d", ar1, ar2), assume_unique), ar1, ar2)


complete_module(
    globals(), (argsort, sort, top_k), (unique_values, unique_counts, unique_inverse, unique_all), (partition, argpartition),
    (union1d, intersect1d, setdiff1d, setxor1d),
)
