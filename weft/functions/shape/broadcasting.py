"""Broadcasting: shapes that fit each other by NumPy's rules."""

from __future__ import annotations

from typing import Any

from weft.array import Array, own
from weft.errors import ShapeError
from weft.functions.support.arguments import Shape, broadcast, node, shape_tuple
from weft.functions.support.arguments import broadcast_shapes as _broadcast_shapes


def broadcast_shapes(*shapes: Any) -> Shape:
    """The shape that shapes broadcast to.

    Parameters
    ----------
    shapes : tuples of int

    Returns
    -------
    tuple of int

    Raises
    ------
    ShapeError
        They do not broadcast.

    Examples
    --------
    >>> import weft as wf
    >>> wf.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return _broadcast_shapes("broadcast_shapes", *(shape_tuple(s, "broadcast_shapes") for s in shapes))


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Array:
    """``array`` repeated to a shape it broadcasts to; nothing is copied until it must be.

    Parameters
    ----------
    array : array_like
    shape : int or tuple of int
    subok : bool
        Does nothing: there are no other classes of arrays.

    Returns
    -------
    Array of that shape

    Raises
    ------
    ShapeError
        It does not broadcast to that shape.

    Examples
    --------
    >>> import weft as wf
    >>> wf.broadcast_to(wf.array([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    value, wanted = node(array, "broadcast_to", "array"), shape_tuple(shape, "broadcast_to")
    if _broadcast_shapes("broadcast_to", value.shape, wanted) != wanted:
        raise ShapeError(f"broadcast_to: array has shape {value.shape}, which does not broadcast to {wanted}")
    return own(broadcast(value, wanted))


def broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Array, ...]:
    """Arrays brought to the one shape they broadcast to.

    Parameters
    ----------
    arrays : array_like, of shapes that broadcast
    subok : as in :func:`broadcast_to`

    Returns
    -------
    tuple of Array : of one shape, each of its own dtype

    Raises
    ------
    ShapeError
        The shapes do not broadcast.

    Examples
    --------
    >>> import weft as wf
    >>> [x.shape for x in wf.broadcast_arrays(wf.ones((2, 1)), wf.ones(3))]
    [(2, 3), (2, 3)]
    """
    nodes = [node(x, "broadcast_arrays", f"arrays[{k}]") for k, x in enumerate(arrays)]
    shape = _broadcast_shapes("broadcast_arrays", *(n.shape for n in nodes))
    return tuple(own(broadcast(n, shape)) for n in nodes)
