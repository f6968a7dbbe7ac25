"""Running products, and running folds in general: by doubling, so that a row of n elements takes log2(n) steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array import Array
from weft.formats import BOOL, INT64, summed
from weft.functions.common import Node, axis_index, cast, finish, node, op, reshaped, sliced
from weft.spelling import spelled


def running(value: Node, axis: int, join: Callable[[Node, Node], Node]) -> Node:
    """Each element joined with all before it along an axis; ``join`` must not mind how it is grouped."""
    extent, by = value.shape[axis], 1
    while by < extent:
        both = join(sliced(value, axis, 0, extent - by), sliced(value, axis, by, extent))
        value = op("concat", sliced(value, axis, 0, by), both, axis=axis)
        by *= 2
    return value


def cumulative_prod(
    x: Any, /, axis: int | None = None, dtype: Any = None, out: Array | None = None, *, include_initial: bool = False
) -> Array:
    """Running product along an axis.

    Parameters
    ----------
    x : array
    axis : int, optional
        None: of the flattened array.
    dtype, out : as in :func:`sum`
    include_initial : bool
        Begin with a one; the axis is one longer then.

    Returns
    -------
    Array
        Of the shape of ``x`` (flattened without ``axis``), and of the dtype of :func:`prod`.

    Raises
    ------
    AxisError, DTypeError
        The array has no such axis; an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.cumulative_prod(wf.array([1, 2, 3, 4])).tolist()
    [1, 2, 6, 24]
    """
    value = node(x, "cumulative_prod")
    wanted = summed(value.dtype) if dtype is None else spelled(dtype)
    value = cast(cast(value, BOOL), INT64) if wanted == BOOL else cast(value, wanted.computed)
    if axis is None or not value.shape:
        value, axis = reshaped(value, (value.size,)), 0 if axis is None else axis
    axis = axis_index(axis, len(value.shape), "cumulative_prod")
    value = running(value, axis, lambda a, b: op("multiply", a, b))
    if include_initial:
        low = tuple(int(a == axis) for a in range(len(value.shape)))
        value = op("pad", value, low=low, high=(0,) * len(low), value=1)
    return finish(cast(value, wanted), out, "cumulative_prod")


cumprod = cumulative_prod
