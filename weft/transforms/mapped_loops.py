"""map: a function of one example as a loop over many. associative_scan: running results of an associative function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.errors import AxisError, ShapeError
from weft.graph.node import Node
from weft.graph.primitives.call import call, flip, slice_axis
from weft.transforms.control import scan
from weft.transforms.tree import flatten_value, unflatten
from weft.transforms.vmap import vmap


def map(f: Callable[[Any], Any], xs: Any, batch_size: int | None = None) -> Any:  # noqa: A001  the field's name
    """Return the results of ``f`` for each part of ``xs`` along the first axis, stacked. They are computed one after another.

    :func:`vmap` computes all at once, which is faster and needs the memory of all.

    Parameters
    ----------
    f : function of an Array or a tree, as the function of :func:`scan`
    xs : tree of Arrays with equal first extents
    batch_size : int, the number of examples that are computed at once, by :func:`vmap`; None: one

    Returns
    -------
    tree like the result of ``f``, with the examples as first axis

    Raises
    ------
    ShapeError
        The first extents differ, or an array has no axes.
    ValueError
        ``batch_size`` is not a positive int.

    Examples
    --------
    >>> import weft as wf
    >>> wf.map(lambda row: row.sum(), wf.array([[1.0, 2.0], [3.0, 4.0]]))
    array([3., 7.], dtype=float32)
    """
    if batch_size is None:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"map: batch_size is {batch_size!r}, but must be a positive int")
    leaves, structure = _nodes(xs)
    count = leaves[0].shape[0] if leaves and leaves[0].shape else 0
    whole = count // batch_size * batch_size
    mapped = vmap(f)
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
    ShapeError, AxisError
        The extents differ, there is no such axis, or ``f`` changes a shape.

    Examples
    --------
    >>> import weft as wf
    >>> wf.associative_scan(wf.maximum, wf.array([1.0, 3.0, 2.0, 5.0]))
    array([1., 3., 3., 5.], dtype=float32)
    """
    nodes, structure = _nodes(xs)
    for n in nodes:
        if not -len(n.shape) <= axis < len(n.shape):
            raise AxisError(f"associative_scan: xs has an array of shape {n.shape}, which has no axis {axis}")
    axes = [axis % len(n.shape) for n in nodes]
    extents = sorted({n.shape[a] for n, a in zip(nodes, axes, strict=True)})
    if len(extents) > 1:
        raise ShapeError(f"associative_scan: the extents of xs along axis {axis} differ: {extents}")

    def combine(a: list[Node], b: list[Node]) -> list[Node]:
        out, tree = _nodes(f(_tree(a, structure), _tree(b, structure)))
        if tree != structure or [n.shape for n in out] != [n.shape for n in a]:
            raise ShapeError(
                f"associative_scan: f returns {[n.shape for n in out]} for operands of shapes {[n.shape for n in a]}; it must "
                "keep structure and shapes"
            )
        return out

    turned = [flip(n, (a,)) if reverse else n for n, a in zip(nodes, axes, strict=True)]
    out = _running(combine, turned, axes) if extents and extents[0] > 1 else turned
    return _tree([flip(n, (a,)) if reverse else n for n, a in zip(out, axes, strict=True)], structure)


def _running(combine: Callable[[list[Node], list[Node]], list[Node]], xs: list[Node], axes: list[int]) -> list[Node]:
    """Combine neighbours, find the running results of the pairs, and derive those of the elements between them."""
    n = xs[0].shape[axes[0]]
    if n == 1:
        return xs

    def every_second(nodes: list[Node], start: int, stop: int) -> list[Node]:
        return [_strided(x, a, start, stop) for x, a in zip(nodes, axes, strict=True)]

    def part(nodes: list[Node], start: int, stop: int) -> list[Node]:
        return [slice_axis(x, a, start, stop) for x, a in zip(nodes, axes, strict=True)]

    odd = _running(combine, combine(every_second(xs, 0, n - 1), every_second(xs, 1, n)), axes)
    first = part(xs, 0, 1)
    even = first
    if n > 2:
        later = combine(part(odd, 0, (n - 1) // 2), every_second(xs, 2, n))
        even = [call.concat(a, b, axis=d) for a, b, d in zip(first, later, axes, strict=True)]
    return [_interleave(a, b, d) for a, b, d in zip(even, odd, axes, strict=True)]


def _strided(x: Node, axis: int, start: int, stop: int) -> Node:
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


def _nodes(tree: Any) -> tuple[list[Node], Any]:
    leaves, structure = flatten_value(tree)
    return [as_node(x) for x in leaves], structure


def _tree(nodes: list[Node], structure: Any) -> Any:
    arrays: list[Array] = [wrap(n) for n in nodes]
    return unflatten(structure, arrays)
