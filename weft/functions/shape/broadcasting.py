"""Broadcasting: shapes that fit each other by NumPy's rules."""

from __future__ import annotations

from typing import Any

from weft.array import Array, own
from weft.errors import ShapeError
from weft.functions.support.arguments import Shape, broadcast, node, shape_tuple
from weft.functions.support.arguments import broadcast_shapes as _broadcast_shapes
from weft.process.docstrings import complete_docs


def broadcast_shapes(*shapes: Any) -> Shape:
    """Return the shape that shapes broadcast to.

    Parameters
    ----------
    shapes : tuples of int

    Returns
    -------
    tuple of int

    Raises
    ------
    ShapeError
        The shapes do not broadcast.

    Examples
    --------
    >>> import weft as wf
    >>> wf.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return _broadcast_shapes("broadcast_shapes", *(shape_tuple(s, "broadcast_shapes") for s in shapes))


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Array:
    """Return ``array`` broadcast to a shape, without a copy.

    Parameters
    ----------
    array : array_like
    shape : int or tuple of int
    subok : bool
        Ignored: weft's arrays have no subclasses.

    Returns
    -------
    Array of that shape

    Raises
    ------
    ShapeError
        The array does not broadcast to that shape.

    Examples
    --------
    >>> wf.broadcast_to(wf.array([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    value, extents = node(array, "broadcast_to", "array"), shape_tuple(shape, "broadcast_to")
    if _broadcast_shapes("broadcast_to", value.shape, extents) != extents:
        raise ShapeError(f"broadcast_to: array has shape {value.shape}, which does not broadcast to {extents}")
    return own(broadcast(value, extents))


def broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Array, ...]:
    """Return arrays broadcast to their common shape.

    Parameters
    ----------
    arrays : array_like

    Returns
    -------
    tuple of Array
        With one shape, each with its own dtype.

    Raises
    ------
    ShapeError
        The shapes do not broadcast.

    Examples
    --------
    >>> [x.shape for x in wf.broadcast_arrays(wf.ones((2, 1)), wf.ones(3))]
    [(2, 3), (2, 3)]
    """
    nodes = [node(x, "broadcast_arrays", f"arrays[{k}]") for k, x in enumerate(arrays)]
    shape = _broadcast_shapes("broadcast_arrays", *(n.shape for n in nodes))
    return tuple(own(broadcast(n, shape)) for n in nodes)


complete_docs(broadcast_to, broadcast_arrays)
