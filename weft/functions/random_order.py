"""Random order and random choices: what is there already, drawn by a sort of random bits or by counting."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.errors import DTypeError, ShapeError
from weft.formats import FLOAT64, INT64, UINT64
from weft.functions.common import (
    Node,
    Shape,
    axis_index,
    cast,
    floating,
    node,
    number,
    op,
    permuted,
    shape_tuple,
)
from weft.functions.random_state import Words, high_product, unit_interval, wide, words_of


def _order(words: Words, count: int) -> Node:
    return op("argsort", wide(words, (count,)), axis=0)


def permutation(x: Any, axis: int = 0, *, key: Any = None) -> Array:
    """The numbers below ``x`` in random order, or the slices of an array along an axis; a sort of random bits.

    Parameters
    ----------
    x : int or array
    axis : int
        Along which slices of an array change places.
    key : Array, optional
        Draw from this key and not from the hidden state.

    Returns
    -------
    Array
        (x,) of int64 for a number, else of the shape and dtype of ``x``.

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
    words = words_of(key, "permutation")
    if isinstance(x, (int, np.integer)):
        return wrap(_order(words, shape_tuple(x, "permutation", "x")[0]))
    value = node(x, "permutation")
    axis = axis_index(axis, len(value.shape), "permutation")
    got = op("gather", value, _order(words, value.shape[axis]), axes=(axis,))
    return wrap(permuted(got, (*range(1, axis + 1), 0, *range(axis + 1, len(got.shape)))))


def shuffle(x: Array, axis: int = 0, *, key: Any = None) -> None:
    """Put the slices of ``x`` along an axis in random order, in place.

    Parameters
    ----------
    x : Array
        Written to.
    axis, key : as in :func:`permutation`

    Raises
    ------
    DTypeError, AxisError
        ``x`` is no weft Array, or no key; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.arange(4)
    >>> wf.random.shuffle(x)
    >>> sorted(x.tolist())
    [0, 1, 2, 3]
    """
    if not isinstance(x, Array):
        raise DTypeError(f"shuffle: x must be a weft Array, not {type(x).__name__}: it is written to; see permutation")
    x[...] = permutation(x, axis, key=key)


def choice(a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, *, key: Any = None) -> Array:
    """Elements of ``a`` (or numbers below it) chosen at random.

    Parameters
    ----------
    a : int or array
    size : int or tuple of int, optional
    replace : bool
        Whether an element may be chosen more than once.
    p : array, optional
        The probabilities; they are scaled to a sum of 1. Without replacement they hold for each choice among the rest.
    axis : int
        Along which slices of ``a`` are chosen.
    key : Array, optional

    Returns
    -------
    Array
        Of the shape ``size``; slices of an array have their other axes besides.

    Raises
    ------
    ValueError, ShapeError, AxisError, DTypeError
        Too few elements; ``p`` of another shape; no such axis; no key.

    Examples
    --------
    >>> import weft as wf
    >>> sorted(wf.random.choice(3, size=3, replace=False).tolist())
    [0, 1, 2]
    """
    value = None if isinstance(a, (int, np.integer)) else node(a, "choice", "a")
    if value is not None:
        axis = axis_index(axis, len(value.shape), "choice")
    count = operator.index(a) if value is None else value.shape[axis]
    shape = () if size is None else shape_tuple(size, "choice", "size")
    total = math.prod(shape)
    if count < 1 and total:
        raise ValueError("choice: a has no element to choose")
    if not replace and total > count:
        raise ValueError(f"choice: {total} different elements of {count} cannot be chosen; use replace=True")
    weights = None if p is None else floating(node(p, "choice", "p"))
    if weights is not None and weights.shape != (count,):
        raise ShapeError(f"choice: p has shape {weights.shape}, but there are {count} elements to choose from")
    index = _chosen(words_of(key, "choice"), count, shape, replace, weights)
    if value is None:
        return wrap(index)
    got, lead = op("gather", value, index, axes=(axis,)), len(shape)
    return wrap(permuted(got, (*range(lead, lead + axis), *range(lead), *range(lead + axis, len(got.shape)))))


def _chosen(words: Words, count: int, shape: Shape, replace: bool, weights: Node | None) -> Node:
    total = math.prod(shape)
    if weights is None and replace:
        return cast(high_product(wide(words, shape), number(count, UINT64), count < 2**32), INT64)
    if weights is not None and replace:
        running = op("cumulative_sum", cast(weights, FLOAT64), axis=0)
        last = op("slice", running, start=(count - 1,), step=(1,), shape=(1,))
        place = op("multiply", unit_interval(words, (*shape, 1), FLOAT64), last)
        passed = op("reduce_sum", cast(op("greater_equal", place, running), INT64), axes=(len(shape),), keepdims=False)
        return op("minimum", passed, number(count - 1, INT64))  # rounding may carry a place to the end
    if weights is None:
        order = _order(words, count)
    else:  # the largest of log p + Gumbel noise: choices one after the other
        unit = op("subtract", number(1.0, FLOAT64), unit_interval(words, (count,), FLOAT64))
        noise = op("log", op("negative", op("log", unit)))
        order = op("argsort", op("subtract", noise, op("log", cast(weights, FLOAT64))), axis=0)
    first = op("slice", order, start=(0,), step=(1,), shape=(total,))
    return first if shape == (total,) else op("reshape", first, shape=shape)
