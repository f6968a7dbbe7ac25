"""``wf.lib.stride_tricks``: sliding windows and strided reads, as copies that fuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, Scalar, wrap
from weft.array.views import view_node
from weft.dtypes.formats import INT64
from weft.dtypes.parse import to_tuple
from weft.errors import ShapeError
from weft.functions.shape.axes import broadcast_arrays, broadcast_shapes, broadcast_to
from weft.functions.support.arguments import Node, arrays, axis_index, check_int, number, op, reshape_node, shape_tuple
from weft.process.docstrings import complete_module

__all__ = ["as_strided", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "sliding_window_view"]


def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False,
) -> Array:
    """Return every window of a given shape: the first dimensions are its position, the last ones its elements.

    Parameters
    ----------
    window_shape : int or tuple of int
    axis : int or tuple of int, optional
        The axes along which the windows slide; by default all of them, in order.
    writeable : bool
        Must be False: the result is a copy.

    Returns
    -------
    Array

    Raises
    ------
    ShapeError, AxisError, ValueError
        ``window_shape`` and ``axis`` have different lengths, or the window is larger than the array; the axis does not exist;
        ``writeable=True``.

    >>> wf.lib.stride_tricks.sliding_window_view(wf.arange(5), 3).tolist()
    [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    """
    (value,) = arrays("sliding_window_view", x=x)
    if writeable:
        raise ValueError("sliding_window_view: writeable must be False: windows are copies and share no elements with x")
    window = shape_tuple(window_shape, "sliding_window_view", "window_shape")
    axis_numbers = range(value.ndim) if axis is None else to_tuple(axis)
    axes = [axis_index(a, value.ndim, "sliding_window_view") for a in axis_numbers]
    if len(axes) != len(window):
        raise ShapeError(f"sliding_window_view: window_shape={window} has {len(window)} extents, but there are {len(axes)} axes")
    lead = list(value.shape)
    for a, n in zip(axes, window, strict=True):
        if n > lead[a]:
            raise ShapeError(f"sliding_window_view: window_shape={window} is larger than x {value.shape}")
        lead[a] -= n - 1
    ndim = value.ndim + len(window)
    places = []
    for a in range(value.ndim):
        place = _steps_along(lead[a], a, ndim, 1)
        for k, along in enumerate(axes):
            if along == a:
                place = op("add", place, _steps_along(window[k], value.ndim + k, ndim, 1))
        places.append(place)
    return wrap(op("gather", value.node, *places, axes=tuple(range(value.ndim)))) if places else value


def _steps_along(extent: int, axis: int, ndim: int, step: int) -> Node:
    """Return 0, step, 2 step, ... along an axis."""
    line = op("iota", shape=tuple(extent if d == axis else 1 for d in range(ndim)), dtype=INT64, axis=axis)
    return line if step == 1 else op("multiply", line, number(step, INT64))


def as_strided(
    x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True, *, check_bounds: Any = None,
) -> Array:
    """Return a copy of the elements at the given strides in the memory of ``x``, counted from its first element.

    Parameters
    ----------
    shape : int or tuple of int, optional
        That of ``x`` by default.
    strides : tuple of int, optional
        In bytes, like ``x.strides``; those of ``x`` by default.
    subok, writeable, check_bounds
        Ignored: writing to the result does not change ``x``, and bounds are always checked.

    Returns
    -------
    Array of that shape

    Raises
    ------
    ShapeError, ValueError
        ``shape`` and ``strides`` have different lengths; strides are no multiples of the item size, or lead outside of the
        memory.

    >>> x = wf.arange(4)
    >>> wf.lib.stride_tricks.as_strided(x, (3, 2), (8, 8)).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    (value,) = arrays("as_strided", x=x)
    extents = value.shape if shape is None else shape_tuple(shape, "as_strided")
    byte_strides = value.strides if strides is None else strides if isinstance(strides, tuple | list | np.ndarray) else (strides,)
    steps = tuple(check_int(s, "as_strided", "strides") for s in byte_strides)
    if len(steps) != len(extents):
        raise ShapeError(f"as_strided: strides={steps} and shape={extents} must have an entry for each dimension")
    wide = value.itemsize
    if any(s % wide for s in steps):
        raise ValueError(f"as_strided: strides={steps} must be multiples of {wide}, the bytes of {value.dtype}")
    memory, first = _memory(value)
    ends = [(n - 1) * (s // wide) for n, s in zip(extents, steps, strict=True)]
    low, high = first + sum(min(e, 0) for e in ends), first + sum(max(e, 0) for e in ends)
    if 0 not in extents and not 0 <= low <= high < memory.size:
        raise ValueError(
            f"as_strided: shape={extents} with strides={steps} reads elements {low} to {high} of {memory.size} in the memory of x"
        )
    place = op("broadcast_to", number(first, INT64), shape=extents)
    for axis, (n, s) in enumerate(zip(extents, steps, strict=True)):
        place = op("add", place, _steps_along(n, axis, len(extents), s // wide))
    return wrap(op("gather", memory, place, axes=(0,)))


def _memory(value: Array) -> tuple[Node, int]:
    """Return the elements of the memory that a view shows, flattened, and the index of the view's first element."""
    cell = value.cell
    node = cell.node
    if cell is value or isinstance(value, Scalar) or any(name not in ("slice", "permute", "reshape") for name, _ in value._path):
        return reshape_node(value.node, (value.size,)), 0
    numbers = wrap(op("iota", shape=(math.prod(node.shape),), dtype=INT64, axis=0)).reshape(node.shape)
    elements = wrap(view_node(numbers.node, value._path)).numpy()
    return reshape_node(node, (node.size,)), int(elements.flat[0]) if elements.size else 0


complete_module(globals())
