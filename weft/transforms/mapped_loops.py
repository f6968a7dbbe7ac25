"""map: a function of one example as a loop over many. associative_scan: running results of an associative function."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.errors import AxisError, DTypeError, ShapeError, short
from weft.graph.node import Node
from weft.graph.primitives.call import call, flip, slice_axis
from weft.runtime.traced_int import TRACED_TYPES
from weft.transforms.control import scan
from weft.transforms.tree import flatten_value, unflatten
from weft.transforms.vmap import vmap

_NONE = "none"  # the structure of None

def map(f: Callable[[Any], Any], xs: Any, batch_size: int | None = None) -> Any:  # noqa: A001  the field's name
    """Return the results of ``f`` for each part of ``xs`` along the first axis, stacked. They are computed one after another.

    :func:`vmap` computes all at once, which is faster and needs the memory of all.

    Parameters
    ----------
    f : function of an Array or a tree, as the function of :func:`scan`
    xs : tree of Arrays with equal first extents
    batch_size : int, the number of examples that are computed at once, by :func:`vmap`; None: one. Random numbers without a key
        are then drawn once for each batch, as in :func:`vmap`; for other numbers in each example, map over keys too:
        ``wf.map(f, (xs, wf.random.split(key, len(xs))), batch_size)``

    Returns
    -------
    tree like the result of ``f``, with the examples as first axis

    Raises
    ------
    ShapeError, AxisError, TypeError
        The first extents differ, or an array has no axes; ``xs`` or the result of ``f`` is not a tree of arrays.
    ValueError
        ``batch_size`` is not a positive int.

    Examples
    --------
    >>> import weft as wf
    >>> wf.map(lambda row: row.sum(), wf.array([[1.0, 2.0], [3.0, 4.0]]))
    array([3., 7.], dtype=float32)
    """
    _check_function("map", f, "(x) of one example")
    leaves, structure = _rows("map", xs, 0)

    def checked(x: Any) -> Any:
        out = f(x)
        _nodes(out, "map: f returns")
        return out

    if batch_size is None:
        return scan(lambda _, x: (None, checked(x)), None, xs)[1]
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
        raise ValueError(f"map: batch_size is {short(batch_size)}, but must be a positive int")
    count = leaves[0].shape[0]
    whole = count // batch_size * batch_size
    mapped = vmap(checked)
    parts = []
    if whole:
        grouped = [call.reshape(_cut(x, 0, whole), shape=(whole // batch_size, batch_size, *x.shape[1:])) for x in leaves]
        out, tree = _nodes(scan(lambda _, x: (None, mapped(x)), None, _tree(grouped, structure))[1])
        parts.append([call.reshape(y, shape=(whole, *y.shape[2:])) for y in out])
    if whole < count or not count:
        out, tree = _nodes(mapped(_tree([_cut(x, whole, count) for x in leaves], structure)))
        parts.append(out)
    return _tree([call.concat(*p, axis=0) if len(p) > 1 else p[0] for p in zip(*parts, strict=True)], tree)


def associative_scan(f: Callable[[Any, Any], Any], xs: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Return running results of an associative function: ``x0``, ``f(x0, x1)``, ``f(f(x0, x1), x2)``, ...

    The work is about twice that of a loop, in about ``2 log2(n)`` operations on whole arrays. For a function that is not
    associative, use :func:`scan`. The method is that of Blelloch, "Prefix sums and their applications" (1990).

    Parameters
    ----------
    f : function (a, b) of two trees like ``xs``, of any extent along ``axis``: it combines corresponding parts
    xs : tree of Arrays with equal extents along ``axis``
    reverse : combine from the last part to the first
    axis : int

    Returns
    -------
    tree like ``xs``

    Raises
    ------
    ShapeError, AxisError, DTypeError, TypeError
        The extents differ, there is no such axis, ``xs`` is not a tree of arrays, or ``f`` changes structure, shape or dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.associative_scan(wf.maximum, wf.array([1.0, 3.0, 2.0, 5.0]))
    array([1., 3., 3., 5.], dtype=float32)
    """
    _check_function("associative_scan", f, "(a, b) of two trees like xs")
    if isinstance(axis, bool) or not hasattr(type(axis), "__index__"):
        raise TypeError(f"associative_scan: axis is {short(axis)} ({type(axis).__name__}), but must be an int")
    axis = operator.index(axis)
    nodes, structure = _rows("associative_scan", xs, axis)
    axes = [axis % len(n.shape) for n in nodes]
    count = nodes[0].shape[axes[0]]

    def combine(a: list[Node], b: list[Node]) -> list[Node]:
        out, tree = _nodes(f(_tree(a, structure), _tree(b, structure)), "associative_scan: f returns")
        if tree != structure:
            raise ShapeError(
                f"associative_scan: f returns {_structure_text(tree)} for operands that are {_structure_text(structure)}: it "
                "must return a tree like its operands"
            )
        for k, (n, m) in enumerate(zip(out, a, strict=True)):
            if n.shape != m.shape or n.dtype != m.dtype:
                leaf = f", leaf {k}," if structure is not None else ""
                raise (DTypeError if n.shape == m.shape else ShapeError)(
                    f"associative_scan: the result of f{leaf} has shape {n.shape} and dtype {n.dtype.name}, but must be like "
                    f"its operands, {m.shape} and {m.dtype.name}"
                )
        return out

    turned = [flip(n, (a,)) if reverse else n for n, a in zip(nodes, axes, strict=True)]
    out = _running(combine, turned, axes) if count > 1 else turned
    return _tree([flip(n, (a,)) if reverse else n for n, a in zip(out, axes, strict=True)], structure)


def _running(combine: Callable[[list[Node], list[Node]], list[Node]], xs: list[Node], axes: list[int]) -> list[Node]:
    """Combine neighbours, find the running results of the pairs, and derive those of the elements between them."""
    n = xs[0].shape[axes[0]]
    if n == 1:
        return xs

    def every_second(nodes: list[Node], start: int, stop: int) -> list[Node]:
        return [_every_second(x, a, start, stop) for x, a in zip(nodes, axes, strict=True)]

    def part(nodes: list[Node], start: int, stop: int) -> list[Node]:
        return [slice_axis(x, a, start, stop) for x, a in zip(nodes, axes, strict=True)]

    odd = _running(combine, combine(every_second(xs, 0, n - 1), every_second(xs, 1, n)), axes)
    first = part(xs, 0, 1)
    even = first
    if n > 2:
        later = combine(part(odd, 0, (n - 1) // 2), every_second(xs, 2, n))
        even = [call.concat(a, b, axis=d) for a, b, d in zip(first, later, axes, strict=True)]
    return [_interleave(a, b, d) for a, b, d in zip(even, odd, axes, strict=True)]


def _every_second(x: Node, axis: int, start: int, stop: int) -> Node:
    """Return every second part along an axis."""
    part = slice_axis(x, axis, start, stop)
    step = tuple([2 if d == axis else 1 for d in range(len(x.shape))])
    shape = tuple([-(-n // s) for n, s in zip(part.shape, step, strict=True)])
    return call.slice(part, start=(0,) * len(shape), step=step, shape=shape)


def _interleave(a: Node, b: Node, axis: int) -> Node:
    """Return the parts of ``a`` and ``b`` along an axis in turns. ``a`` has as many as ``b`` or one more."""
    count, total = b.shape[axis], a.shape[axis] + b.shape[axis]
    pair = [call.reshape(x, shape=(*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])) for x in (slice_axis(a, axis, 0, count), b)]
    joined = call.concat(*pair, axis=axis + 1)
    joined = call.reshape(joined, shape=(*a.shape[:axis], 2 * count, *a.shape[axis + 1 :]))
    return joined if total == 2 * count else call.concat(joined, slice_axis(a, axis, count, count + 1), axis=axis)


def _cut(x: Node, start: int, stop: int) -> Node:
    return slice_axis(x, 0, start, stop)


def _check_function(function: str, f: Any, arguments: str) -> None:
    if not callable(f):
        raise TypeError(f"{function}: f is {short(f)} ({type(f).__name__}), but must be a function {arguments}")


def _rows(function: str, xs: Any, axis: int) -> tuple[list[Node], Any]:
    """Return the arrays and the structure of ``xs``; raise if the arrays do not have equal extents along ``axis``."""
    nodes, structure = _nodes(xs, f"{function}: xs is") if xs is not None else ([], None)
    if not nodes:
        raise ShapeError(f"{function}: xs is {short(xs)}, but must be an array or a tree with at least one")
    for k, n in enumerate(nodes):
        if not -len(n.shape) <= axis < len(n.shape):
            leaf = f", leaf {k}," if structure is not None else ""
            what = f"has shape {n.shape}, which has no axis {axis}" if n.shape else "is one number, which has no axes"
            raise AxisError(f"{function}: xs{leaf} {what}")
    if len({n.shape[axis] for n in nodes}) > 1:
        shapes = ", ".join([str(n.shape) for n in nodes])
        raise ShapeError(f"{function}: the arrays of xs have shapes {shapes}: their extents along axis {axis} must be equal")
    return nodes, structure


def _nodes(tree: Any, what: str = "") -> tuple[list[Node], Any]:
    """Return the arrays and the structure of a tree; None is a tree without arrays. what : begins the message of an error"""
    if tree is None:
        return [], _NONE
    leaves, structure = flatten_value(tree)
    for k, x in enumerate(leaves):
        if what and not (isinstance(x, Array | np.ndarray | np.generic | int | float | complex) or type(x) in TRACED_TYPES):
            inside = "" if structure is None else f" a tree whose leaf {k} is"
            raise TypeError(f"{what}{inside} {short(x)} ({type(x).__name__}), but must be an array or a tree of arrays")
    return [as_node(x) for x in leaves], structure


def _structure_text(structure: Any) -> str:
    return "one array" if structure is None else "None" if structure is _NONE else str(structure)


def _tree(nodes: list[Node], structure: Any) -> Any:
    if structure is _NONE:
        return None
    arrays: list[Array] = [wrap(n) for n in nodes]
    return unflatten(structure, arrays)
