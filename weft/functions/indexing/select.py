"""Functions that choose elements among several arrays: select, piecewise, choose, compress."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import operands
from weft.array.indexing import check_bounds
from weft.dtypes.formats import BOOL
from weft.errors import DTypeError, ShapeError
from weft.functions.creation.fill import zeros_like
from weft.functions.indexing.take_scatter import take
from weft.functions.indexing.where import where
from weft.functions.support import arguments
from weft.functions.support.arguments import arrays, broadcast, cast, finish, node, number, op, reshaped
from weft.process.docstrings import complete_each


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Array:
    """Return, for each element, the element of the first choice whose condition holds.

    Parameters
    ----------
    condlist : sequence of arrays of bools
    choicelist : sequence of arrays
        As many as conditions.
    default : number or array
        Used where no condition holds.

    Returns
    -------
    Array of the shape that all broadcast to, and the dtype they promote to

    Raises
    ------
    ShapeError, DTypeError
        There is no condition, the numbers of conditions and choices differ, or shapes do not broadcast; a condition is not bool.

    Examples
    --------
    >>> x = wf.arange(5)
    >>> wf.select([x < 2, x > 2], [x, x * 10], -1).tolist()
    [0, 1, -1, 30, 40]
    """
    conditions, choices = arguments.several(condlist, "select", "condlist"), arguments.several(choicelist, "select", "choicelist")
    if len(conditions) != len(choices) or not conditions:
        raise ShapeError(f"select: {len(conditions)} conditions and {len(choices)} choices; give equally many, and at least one")
    for k, c in enumerate(conditions):
        if node(c, "select", f"condlist[{k}]").dtype != BOOL:
            raise DTypeError(f"select: condlist[{k}] must hold bools, but has dtype {node(c, 'select').dtype}")
    *values, last = operands(*choices, default)
    result = wrap(last)
    for condition, value in zip(reversed(conditions), reversed(values), strict=True):
        result = where(condition, wrap(value), result)
    return result


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Evaluate a function that is defined in pieces. Every piece is computed everywhere; of several true conditions the last
    counts.

    Parameters
    ----------
    x : array
    condlist : array of bools, or a sequence of them
    funclist : sequence of callables and numbers
        One per condition, and optionally one more for elements without a true condition (0 by default). A callable receives all
        of ``x``; an array of numbers has one per selected element.
    args, kw
        Passed to the callables.

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    ShapeError, IndexError
        The number of functions does not fit; a condition has another shape than ``x``.

    Examples
    --------
    >>> x = wf.array([-2.0, 3.0])
    >>> wf.piecewise(x, [x < 0, x >= 0], [-1, lambda x: x * x]).tolist()
    [-1.0, 9.0]
    """
    (value,) = arrays("piecewise", x=x)
    listed = isinstance(condlist, list | tuple) or getattr(condlist, "ndim", 0) > 0
    many = listed and len(condlist) > 0 and (np.ndim(condlist[0]) > 0 or not value.ndim)
    conditions = [cast(node(c, "piecewise", "condlist"), BOOL) for c in (condlist if many else [condlist])]
    pieces = arguments.several(funclist, "piecewise", "funclist")
    if len(pieces) not in (len(conditions), len(conditions) + 1):
        raise ShapeError(f"piecewise: {len(pieces)} functions are given for {len(conditions)} conditions; as many, or one more")

    def evaluate(piece: Any) -> Any:
        return piece(value, *args, **kw) if callable(piece) else piece

    masks = []
    for k, c in enumerate(conditions):
        if c.shape != value.shape[: len(c.shape)]:
            raise IndexError(f"piecewise: condlist[{k}] has shape {c.shape}, but x has shape {value.shape}")
        masks.append(reshaped(c, (*c.shape, *(1 for _ in value.shape[len(c.shape) :]))))
    if len(pieces) > len(conditions):
        any_mask = functools.reduce(partial(op, "logical_or"), masks, number(False, BOOL))
        masks.append(op("logical_not", any_mask))
    result = zeros_like(value)
    for mask, piece in zip(masks, pieces, strict=True):
        part = arguments.held(evaluate(piece), value.node.dtype, "piecewise", "funclist")
        if part.shape in ((), value.shape) and (callable(piece) or not part.shape):
            result = where(wrap(mask), wrap(part), result)
        else:  # one number per selected element
            result[wrap(broadcast(mask, value.shape))] = wrap(part)
    return result


def choose(a: Any, choices: Any, out: Array | None = None, mode: str = "raise") -> Array:
    """Return, for each element of ``a``, the element of the choice with that number.

    Parameters
    ----------
    a : array of integers
    choices : sequence of arrays
        They broadcast with ``a``.
    out : Array, optional
        Receives the result.
    mode : "raise", "clip" or "wrap"
        The treatment of numbers out of range, as in :func:`take`.

    Raises
    ------
    DTypeError, ShapeError, ValueError, IndexError
        ``a`` holds no integers; there is no choice, or shapes do not broadcast; another ``mode``, or a negative number; a number
        is out of range.

    Examples
    --------
    >>> wf.choose(wf.array([1, 0, 1]), [[1, 2, 3], [10, 20, 30]]).tolist()
    [10, 2, 30]
    """
    index = arguments.integer_node(a, "choose", "a", bools=True)
    values = operands(*list(choices)) if len(choices) else ()
    if not values:
        raise ShapeError("choose: choices is empty; give at least one array")
    if not isinstance(a, Array) and mode == "raise" and np.less(np.asarray(a), 0).any():
        raise ValueError("choose: a holds a negative number")
    if mode == "raise" and index.dtype.kind == "signed":  # negative numbers are out of range
        index = op("where", op("less", index, number(0, index.dtype)), number(len(values), index.dtype), index)
    shape = arguments.broadcast_shapes("choose", index.shape, *(v.shape for v in values))
    index = broadcast(check_bounds("choose", a, index, len(values), 0, mode), shape)
    result = broadcast(values[0], shape)
    for k, value in enumerate(values[1:], 1):
        result = op("where", op("equal", index, cast(node(k, "choose"), index.dtype)), value, result)
    return finish(result, out, "choose")


def compress(condition: Any, a: Any, axis: int | None = None, out: Array | None = None) -> Array:
    """Return the slices along an axis where a condition holds. The condition is computed at once, since the shape depends on it.

    Parameters
    ----------
    condition : (N,) array of bools
        May be shorter than the axis.
    a : array
    axis : int, optional
        None: use the flattened array.
    out : Array, optional
        Receives the result.

    Raises
    ------
    ShapeError, AxisError, IndexError, TraceError
        ``condition`` is no vector; the axis does not exist; a true element lies beyond the end; the content of ``condition`` is
        not available inside a traced function.

    Examples
    --------
    >>> wf.compress([True, False, True], wf.array([1, 2, 3])).tolist()
    [1, 3]
    """
    mask = arguments.looked(condition, "compress", "condition")
    if mask.ndim != 1:
        raise ShapeError(f"compress: condition has shape {mask.shape}; a vector is needed")
    return take(a, np.flatnonzero(mask), axis, out)


complete_each(select, piecewise, choose, compress)
