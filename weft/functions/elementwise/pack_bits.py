"""Bits packed into bytes, and taken apart again."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import numpy_node
from weft.dtypes.formats import BOOL, INTEGERS, UINT8
from weft.errors import DTypeError
from weft.functions.support.arguments import Node, axis_index, cast, node, number, op, reshaped, whole


def _line(function: str, value: Node, axis: int | None) -> tuple[Node, int]:
    if axis is None or not value.shape:
        return reshaped(value, (value.size,)), 0
    return value, axis_index(axis, len(value.shape), function)


def _shifts(function: str, bitorder: str, shape: tuple[int, ...]) -> Node:
    if bitorder not in ("big", "little"):
        raise ValueError(f"{function}: bitorder={bitorder!r} must be 'big' or 'little'")
    order = np.arange(8, dtype=np.uint8)
    return reshaped(numpy_node(order[::-1] if bitorder == "big" else order), shape)


def packbits(a: Any, /, axis: int | None = None, bitorder: str = "big") -> Array:
    """Eight truths a byte, along an axis; zeros fill up the last.

    Parameters
    ----------
    a : array of bools or integers
    axis : int, optional
        None: of the flattened array.
    bitorder : "big" or "little"
        Whether the first of eight is the highest bit.

    Returns
    -------
    Array of uint8

    Raises
    ------
    DTypeError, AxisError, ValueError
        Floats; no such axis; another ``bitorder``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.packbits(wf.array([True, False, True])).tolist()
    [160]
    """
    value = node(a, "packbits", "a")
    if value.dtype not in INTEGERS and value.dtype != BOOL:
        raise DTypeError(f"packbits: a must hold bools or integers, but has dtype {value.dtype}")
    value, axis = _line("packbits", value, axis)
    shape = value.shape
    count = -(-shape[axis] // 8)
    high = tuple(8 * count - n if k == axis else 0 for k, n in enumerate(shape))
    bits = op("pad", cast(cast(value, BOOL), UINT8), low=(0,) * len(shape), high=high, value=0)
    rows = reshaped(bits, (*shape[:axis], count, 8, *shape[axis + 1 :]))
    by = _shifts("packbits", bitorder, (8,) + (1,) * (len(shape) - axis - 1))
    return wrap(cast(op("reduce_sum", op("bitwise_left_shift", rows, by), axes=(axis + 1,), keepdims=False), UINT8))


def unpackbits(a: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """The bits of bytes, one an element, along an axis.

    Parameters
    ----------
    a : array of uint8
    axis : int, optional
        None: of the flattened array.
    count : int, optional
        How many bits of the axis; negative ones are left out at the end, more than there are is filled up with zeros.
    bitorder : "big" or "little"
        Whether the highest bit comes first.

    Returns
    -------
    Array of uint8, zeros and ones

    Raises
    ------
    DTypeError, AxisError, ValueError
        No bytes; no such axis; another ``bitorder``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.unpackbits(wf.array([160], dtype="uint8"), count=3).tolist()
    [1, 0, 1]
    """
    value = node(a, "unpackbits", "a")
    if value.dtype != UINT8:
        raise DTypeError(f"unpackbits: a must hold uint8, but has dtype {value.dtype}")
    value, axis = _line("unpackbits", value, axis)
    shape = value.shape
    apart = reshaped(value, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    by = _shifts("unpackbits", bitorder, (8,) + (1,) * (len(shape) - axis - 1))
    bits = op("bitwise_and", op("bitwise_right_shift", apart, by), number(1, UINT8))
    extent = 8 * shape[axis]
    found = wrap(reshaped(bits, (*shape[:axis], extent, *shape[axis + 1 :])))
    if count is None:
        return found
    wanted = whole(count, "unpackbits", "count")
    if wanted < -extent:
        raise ValueError(f"unpackbits: count={wanted} takes away more than the {extent} bits along axis {axis}")
    wanted = extent + wanted if wanted < 0 else wanted
    if wanted > extent:
        high = tuple(wanted - extent if k == axis else 0 for k in range(len(shape)))
        return wrap(op("pad", found.node, low=(0,) * len(shape), high=high, value=0))
    return found[(slice(None),) * axis + (slice(0, wanted),)]
