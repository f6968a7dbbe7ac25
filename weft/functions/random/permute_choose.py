"""Random order and random choices: what is there already, drawn by a sort of random bits or by counting."""

from __future__ import annotations

import math
import operator
from collections.abc import MutableSequence
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import FLOAT64, INT64
from weft.eager.materialise import look
from weft.eager.peek import at_hand, leaf
from weft.errors import DTypeError, ShapeError, as_called
from weft.functions.random.state import drawn, drawn_word, integer, integers_of, unit_interval, wide, words_of
from weft.functions.support.arguments import Node, Shape, axis_index, cast, floating, node, number, op, permuted, shape_tuple
from weft.functions.support.binary_search import count_leading
from weft.kernel.summation import running
from weft.runtime.context import LOCAL


def _order(key: Any, function: str, count: int) -> Node:
    bits = wide(words_of(key, function), (count,))
    known = at_hand(bits)
    return op("argsort", bits, axis=0) if known is None else leaf(np.argsort(known[0], kind="stable"), INT64)


def _count(x: Any) -> int | None:
    """The number that an argument is, if it is no array."""
    if isinstance(x, Array | np.ndarray) and not x.ndim and x.dtype.kind in "iu":
        return operator.index(x)  # type: ignore[arg-type]
    return operator.index(x) if isinstance(x, (int, np.integer)) else None


def _slices(x: Any, function: str, argument: str) -> Node | np.ndarray:
    """What is chosen from or put in order: an array, or what only NumPy can hold, texts and objects of any kind."""
    try:
        return node(x, function, argument)
    except (TypeError, ValueError):
        found = _objects(x)
        if found is None:
            raise
        return found


def _objects(x: Any) -> np.ndarray | None:
    if not isinstance(x, list | tuple | np.ndarray):
        return None
    try:
        found = np.asarray(x)
    except ValueError:  # of rows of different lengths
        return None
    return found if found.dtype.kind in "OUSTMm" else None


def permutation(x: Any, axis: int = 0, *, key: Any = None) -> Any:
    """The numbers below ``x`` in random order, or the slices of an array along an axis; a sort of random bits.

    Parameters
    ----------
    x : int or array
        A list of texts or of other objects, too.
    axis : int
        Along which slices of an array change places.
    key : Array, optional
        Draw from this key and not from the hidden state.

    Returns
    -------
    Array
        (x,) of int64 for a number, else of the shape and dtype of ``x``; of texts and other objects a NumPy array.

    Raises
    ------
    AxisError, ShapeError, DTypeError
        No such axis; a negative number; no key.

    Examples
    --------
    >>> import weft as wf
    >>> sorted(wf.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """
    count = _count(x)
    if count is not None:
        return wrap(_order(key, "permutation", shape_tuple(count, "permutation", "x")[0]))
    value = _slices(x, "permutation", "x")
    axis = axis_index(axis, len(value.shape), "permutation")
    order = _order(key, "permutation", value.shape[axis])
    if isinstance(value, np.ndarray):
        return np.take(value, wrap(order).numpy(), axis)
    return wrap(_taken(value, order, axis))


def _taken(value: Node, index: Node, axis: int) -> Node:
    """Slices of an array, where its axis was."""
    lead, rest = len(index.shape), value.nbytes // max(1, value.shape[axis])
    known = at_hand(value, index) if rest * index.size <= LOCAL.at_once else None
    if known is not None:
        return leaf(np.asarray(known[0].take(known[1], axis)), value.dtype)
    got = op("gather", value, index, axes=(axis,))
    return permuted(got, (*range(lead, lead + axis), *range(lead), *range(lead + axis, len(got.shape))))


def shuffle(x: Any, axis: int = 0, *, key: Any = None) -> None:
    """Put the slices of ``x`` along an axis in random order, in place.

    Parameters
    ----------
    x : Array, NumPy array or list
        Written to.
    axis, key : as in :func:`permutation`

    Raises
    ------
    DTypeError, AxisError
        ``x`` is nothing that can be written to, or no key; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.arange(4)
    >>> wf.random.shuffle(x)
    >>> sorted(x.tolist())
    [0, 1, 2, 3]
    """
    if isinstance(x, Array):
        x[...] = permutation(x, axis, key=key)
    elif isinstance(x, np.ndarray):
        x[...] = np.take(x, _places(key, x.shape[axis_index(axis, x.ndim, "shuffle")]), axis)
    elif isinstance(x, MutableSequence):
        before = list(x)
        for k, place in enumerate(_places(key, len(before))):
            x[k] = before[place]
    else:
        raise DTypeError(f"shuffle: x must be an array or a list, not a {type(x).__name__}: it is written to; see permutation")


def _places(key: Any, count: int) -> list[int]:
    found: list[int] = permutation(count, key=key).tolist()
    return found


def choice(
    a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int | None = None, *, key: Any = None
) -> Any:
    """Elements of ``a`` (or numbers below it) chosen at random.

    Parameters
    ----------
    a : int or array
        A list of texts or of other objects, too.
    size : int or tuple of int, optional
    replace : bool
        Whether an element may be chosen more than once.
    p : array, optional
        The probabilities; they are scaled to a sum of 1. Without replacement they hold for each choice among the rest.
    axis : int, optional
        Along which slices of ``a`` are chosen; to be said where it has several dimensions.
    key : Array, optional

    Returns
    -------
    Array
        Of the shape ``size``; slices of an array have their other axes besides. Of texts and other objects one of them, or
        a NumPy array.

    Raises
    ------
    ValueError, ShapeError, AxisError, DTypeError
        Too few elements, or too few with a chance; several dimensions and no axis; ``p`` of another shape, or with numbers that
        are negative, NaN or infinite; no such axis; no key. In ``wf.jit``, gradients and the like what ``p`` holds is not looked
        at.

    Examples
    --------
    >>> import weft as wf
    >>> sorted(wf.random.choice(3, size=3, replace=False).tolist())
    [0, 1, 2]
    """
    number = _count(a)
    value = None if number is not None else _slices(a, "choice", "a")
    if value is not None:
        if axis is None and len(value.shape) != 1:
            raise ValueError(as_called(f"choice: a has shape {value.shape}, but must have one dimension; axis=0 chooses rows"))
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
        raise ValueError("choice: p is empty; among its numbers must be one above 0")
    index = _chosen(key, count, shape, replace, weights)
    if value is None or axis is None:
        return wrap(index)
    if isinstance(value, np.ndarray):
        return np.take(value, wrap(index).numpy(), axis)
    return wrap(_taken(value, index, axis))


def _chosen(key: Any, count: int, shape: Shape, replace: bool, weights: Node | None) -> Node:
    total = math.prod(shape)
    if weights is None and replace:
        word = None if shape else drawn_word(key, "choice")
        if word is not None:
            return integer(word * count >> 64, INT64)
        return integers_of(wide(words_of(key, "choice"), shape), count, 0, INT64)
    if weights is not None and not LOCAL.inside:
        _check_chances(look(weights), total if not replace else min(total, 1))
    if weights is not None and replace:
        return _by_chance(drawn(unit_interval, key, "choice", shape, FLOAT64).node, weights, count)
    if weights is None:
        order = _order(key, "choice", count)
    else:  # the largest of log p + Gumbel noise: choices one after the other
        unit = op("subtract", number(1.0, FLOAT64), unit_interval(words_of(key, "choice"), (count,), FLOAT64))
        noise = op("log", op("negative", op("log", unit)))
        order = op("argsort", op("subtract", noise, op("log", cast(weights, FLOAT64))), axis=0)
    first = op("slice", order, start=(0,), step=(1,), shape=(total,))
    return first if shape == (total,) else op("reshape", first, shape=shape)


def _check_chances(p: np.ndarray, least: int) -> None:
    """Refuse weights by which nothing can be chosen; least: how many elements must have a chance."""
    if not (p >= 0).all():
        raise ValueError("choice: p has numbers that are negative or NaN")
    some = np.count_nonzero(p)
    if some < least:
        raise ValueError(f"choice: {some} of the {p.size} numbers in p are above 0, but {least} have to be: so many are chosen")
    if not np.isfinite(p.sum(dtype=np.float64)):
        raise ValueError("choice: p has infinite numbers, or its sum is")


def _by_chance(unit: Node, weights: Node, count: int) -> Node:
    """How many of the running sums of the weights each number passes."""
    known = at_hand(unit, weights)
    if known is not None:
        added = running(known[1].astype(np.float64), "sum", np.dtype(np.float64))
        found = np.minimum(added.searchsorted(known[0] * added[-1], "right"), count - 1)  # rounding may carry a place to the end
        return leaf(found, INT64) if unit.shape else integer(int(found), INT64)
    sums = op("cumulative_sum", cast(weights, FLOAT64), axis=0)
    last = op("slice", sums, start=(count - 1,), step=(1,), shape=(1,))
    place = op("multiply", unit, op("reshape", last, shape=()))
    passed = count_leading(count, lambda at: op("less_equal", op("gather", sums, at, axes=(0,)), place))
    return op("minimum", passed, number(count - 1, INT64))
