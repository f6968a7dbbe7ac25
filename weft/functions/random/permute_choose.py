"""Random permutations and choices, by sorting random bits or by counting."""

from __future__ import annotations

import math
import operator
from collections.abc import MutableSequence
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import FLOAT64, INT64
from weft.eager.materialise import look
from weft.eager.peek import leaf, peek
from weft.errors import DTypeError, ShapeError, name_called_function
from weft.functions.random.state import draw_int, drawn, integer, open_words, scale_to_range, uniform_node, wide
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, axis_index, cast, floating, gathered, node, number, op, shape_tuple
from weft.kernel.summation import running
from weft.process.docstrings import complete_module
from weft.runtime.context import CONTEXT


def _random_order(key: Any, function: str, count: int) -> Node:
    bits = wide(open_words(key, function), (count,))
    known_bits = peek(bits)
    return op("argsort", bits, axis=0) if known_bits is None else leaf(np.argsort(known_bits[0], kind="stable"), INT64)


def _as_count(x: Any) -> int | None:
    """Return an integer, also one in an array without dimensions, as int; None for other arguments."""
    if isinstance(x, Array | np.ndarray) and not x.ndim and x.dtype.kind in "iu":
        return operator.index(x)  # type: ignore[arg-type]
    return operator.index(x) if isinstance(x, (int, np.integer)) else None


def _read_slices(x: Any, function: str, argument: str) -> Node | np.ndarray:
    """Return the array to choose from or permute: a node, or a NumPy array of strings and other objects that weft cannot hold."""
    try:
        return node(x, function, argument)
    except (TypeError, ValueError):
        objects = _object_array(x)
        if objects is None:
            raise
        return objects


def _object_array(x: Any) -> np.ndarray | None:
    if not isinstance(x, list | tuple | np.ndarray):
        return None
    try:
        array = np.asarray(x)
    except ValueError:  # rows of different lengths
        return None
    return array if array.dtype.kind in "OUSTMm" else None


def permutation(x: Any, axis: int = 0, *, key: Any = None) -> Any:
    """Return the integers below ``x``, or the slices of an array along an axis, in random order.

    Parameters
    ----------
    x : int or array
        A list of strings or other objects is possible as well.
    axis : int
        The axis along which slices of an array are permuted.

    Returns
    -------
    Array
        (x,) of int64 for a number, else of the shape and dtype of ``x``; for strings and other objects a NumPy array.

    Raises
    ------
    AxisError, ShapeError, DTypeError
        ``x`` has no such axis; it is a negative number; ``key`` is not a key.

    >>> sorted(wf.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """
    if (count := _as_count(x)) is not None:
        return wrap(_random_order(key, "permutation", shape_tuple(count, "permutation", "x")[0]))
    value = _read_slices(x, "permutation", "x")
    axis = axis_index(axis, len(value.shape), "permutation")
    order = _random_order(key, "permutation", value.shape[axis])
    if isinstance(value, np.ndarray):
        return np.take(value, wrap(order).numpy(), axis)
    return wrap(_take_slices(value, order, axis))


def _take_slices(value: Node, index: Node, axis: int) -> Node:
    """Take slices along an axis; the dimensions of ``index`` replace that axis."""
    rest = value.nbytes // max(1, value.shape[axis])
    if (operands := peek(value, index) if rest * index.size <= CONTEXT.max_eager_bytes else None) is not None:
        return leaf(np.asarray(operands[0].take(operands[1], axis)), value.dtype)
    return gathered(value, index, axis)


def shuffle(x: Any, axis: int = 0, *, key: Any = None) -> None:
    """Permute the slices of ``x`` along an axis in place.

    Parameters
    ----------
    x : Array, NumPy array or list
        Written in place.
    axis : int
        The axis along which slices of an array are permuted.

    Raises
    ------
    DTypeError, AxisError
        ``x`` cannot be written in place, or ``key`` is not a key; ``x`` has no such axis.

    >>> x = wf.arange(4)
    >>> wf.random.shuffle(x)
    >>> sorted(x.tolist())
    [0, 1, 2, 3]
    """
    if isinstance(x, Array):
        x[...] = permutation(x, axis, key=key)
    elif isinstance(x, np.ndarray):
        x[...] = np.take(x, _random_places(key, x.shape[axis_index(axis, x.ndim, "shuffle")]), axis)
    elif isinstance(x, MutableSequence):
        before = list(x)
        for k, place in enumerate(_random_places(key, len(before))):
            x[k] = before[place]
    else:
        raise DTypeError(f"shuffle: x must be an array or a list, not a {type(x).__name__}: it is written to; see permutation")


def _random_places(key: Any, count: int) -> list[int]:
    places: list[int] = permutation(count, key=key).tolist()
    return places


def choice(
    a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int | None = None, *, key: Any = None
) -> Any:
    """Choose elements of ``a``, or integers below it, at random.

    Parameters
    ----------
    a : int or array
        A list of strings or other objects is possible as well.
    size : int or tuple of int, optional
        The shape of the choices; one element by default.
    replace : bool
        Whether an element may be chosen more than once.
    p : array, optional
        The probabilities, scaled to a sum of 1. Without replacement they apply to each choice among the remaining elements.
    axis : int, optional
        The axis along which slices of ``a`` are chosen; required if ``a`` has several dimensions.

    Returns
    -------
    Array
        Of the shape ``size``, followed by the other axes of ``a`` for slices. For strings and other objects one of them, or a
        NumPy array.

    Raises
    ------
    ValueError, ShapeError, AxisError, DTypeError
        There are too few elements, or too few of positive probability; ``a`` has several dimensions and no ``axis`` is given;
        ``p`` has another shape, or negative, NaN or infinite elements (not checked in ``wf.jit``, gradients and the like); ``a``
        has no such axis; ``key`` is not a key.

    >>> sorted(wf.random.choice(3, size=3, replace=False).tolist())
    [0, 1, 2]
    """
    number = _as_count(a)
    value = None if number is not None else _read_slices(a, "choice", "a")
    if value is not None:
        if axis is None and len(value.shape) != 1:
            raise ValueError(
                name_called_function(f"choice: a has shape {value.shape}, but must have one dimension; axis=0 chooses rows")
            )
        axis = axis_index(axis or 0, len(value.shape), "choice")
    count = number if value is None else value.shape[axis or 0]
    assert count is not None
    shape = () if size is None else shape_tuple(size, "choice", "size")
    total = math.prod(shape)
    if count < 1 and total:
        raise ValueError("choice: a has no element to choose")
    if not replace and total > count:
        raise ValueError(f"choice: {total} different elements of {count} cannot be chosen; use replace=True")
    weights = None if p is None else floating(node(p, "choice", "p"))
    if weights is not None and weights.shape != (count,):
        raise ShapeError(f"choice: p has shape {weights.shape}, but there are {count} elements to choose from")
    if weights is not None and count < 1:
        raise ValueError("choice: p is empty; at least one element must be above 0")
    index = _choose_indices(key, count, shape, replace, weights)
    if value is None or axis is None:
        return wrap(index)
    if isinstance(value, np.ndarray):
        return np.take(value, wrap(index).numpy(), axis)
    return wrap(_take_slices(value, index, axis))


def _choose_indices(key: Any, count: int, shape: arguments.Shape, replace: bool, weights: Node | None) -> Node:
    total = math.prod(shape)
    if weights is None and replace:
        if (word := None if shape else draw_int(key, "choice")) is not None:
            return integer(word * count >> 64, INT64)
        return scale_to_range(wide(open_words(key, "choice"), shape), count, 0, INT64)
    if weights is not None and not CONTEXT.transform_depth:
        _check_weights(look(weights), total if not replace else min(total, 1))
    if weights is not None and replace:
        return _choose_by_weight(drawn(uniform_node, key, "choice", shape, FLOAT64).node, weights, count)
    if weights is None:
        order = _random_order(key, "choice", count)
    else:  # the largest values of log p + Gumbel noise are successive choices without replacement
        unit = op("subtract", number(1.0, FLOAT64), uniform_node(open_words(key, "choice"), (count,), FLOAT64))
        noise = op("log", op("negative", op("log", unit)))
        order = op("argsort", op("subtract", noise, op("log", cast(weights, FLOAT64))), axis=0)
    first = op("slice", order, start=(0,), step=(1,), shape=(total,))
    return first if shape == (total,) else op("reshape", first, shape=shape)


def _check_weights(p: np.ndarray, least: int) -> None:
    """Raise ValueError for weights by which nothing can be chosen; ``least``: how many elements need a positive one."""
    if not (p >= 0).all():
        raise ValueError("choice: p has numbers that are negative or NaN")
    count = np.count_nonzero(p)
    if count < least:
        raise ValueError(f"choice: {count} of the {p.size} numbers in p are above 0, but {least} elements are chosen")
    if not np.isfinite(p.sum(dtype=np.float64)):
        raise ValueError("choice: p or its sum is infinite")


def _choose_by_weight(unit: Node, weights: Node, count: int) -> Node:
    """Return the number of running sums of the weights that each random number exceeds."""
    operands = peek(unit, weights)
    if operands is not None:
        sums_now = running(operands[1].astype(np.float64), "sum", np.dtype(np.float64))
        index = np.minimum(sums_now.searchsorted(operands[0] * sums_now[-1], "right"), count - 1)  # rounding may give `count`
        return leaf(index, INT64) if unit.shape else integer(int(index), INT64)
    sums = op("cumulative_sum", cast(weights, FLOAT64), axis=0)
    last = op("slice", sums, start=(count - 1,), step=(1,), shape=(1,))
    target = op("multiply", unit, op("reshape", last, shape=()))
    passed = arguments.count_leading(count, lambda at: op("less_equal", op("gather", sums, at, axes=(0,)), target))
    return op("minimum", passed, number(count - 1, INT64))


complete_module(globals(), (permutation, choice))
