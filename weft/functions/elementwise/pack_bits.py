"""Packing of bools into the bits of bytes, and unpacking."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import numpy_node
from weft.dtypes.formats import BOOL, INTEGERS, UINT8
from weft.errors import DTypeError
from weft.functions.support.arguments import Node, axis_index, cast, node, number, op, reshaped, whole


def _flatten_without_axis(function: str, value: Node, axis: int | None) -> tuple[Node, int]:
    if axis is None or not value.shape:
        return reshaped(value, (value.size,)), 0
    return value, axis_index(axis, len(value.shape), function)


def _bit_shifts(function: str, bitorder: str, shape: tuple[int, ...]) -> Node:
    if bitorder not in ("big", "little"):
        raise ValueError(f"{function}: bitorder={bitorder!r} must be 'big' or 'little'")
    order = np.arange(8, dtype=np.uint8)
    return reshaped(numpy_node(order[::-1] if bitorder == "big" else order), shape)


def packbits(a: Any, /, axis: int | None = None, bitorder: str = "big") -> Array:
    """Pack eight bools or integers (true if not zero) into each byte along an axis; zeros fill the last byte.

    Parameters
    ----------
    a : array of bools or integers
    axis : int, optional
        None: the array is flattened.
    bitorder : "big" or "little"
        "big": the first of eight becomes the highest bit.

    Returns
    -------
    Array of uint8

    Raises
    ------
    DTypeError, AxisError, ValueError
        ``a`` holds floats; it has no such axis; ``bitorder`` is unknown.

    Examples
    --------
    >>> import weft as wf
    >>> wf.packbits(wf.array([True, False, True])).tolist()
    [160]
    """
    value = node(a, "packbits", "a")
    if value.dtype not in INTEGERS and value.dtype != BOOL:
        raise DTypeError(f"packbits: a must hold bools or integers, but has dtype {value.dtype}")
    value, axis = _flatten_without_axis("packbits", value, axis)
    shape = value.shape
    count = -(-shape[axis] // 8)
    high = tuple(8 * count - n if k == axis else 0 for k, n in enumerate(shape))
    bits = op("pad", cast(cast(value, BOOL), UINT8), low=(0,) * len(shape), high=high, value=0)
    rows = reshaped(bits, (*shape[:axis], count, 8, *shape[axis + 1 :]))
    shifts = _bit_shifts("packbits", bitorder, (8,) + (1,) * (len(shape) - axis - 1))
    return wrap(cast(op("reduce_sum", op("bitwise_left_shift", rows, shifts), axes=(axis + 1,), keepdims=False), UINT8))


def unpackbits(a: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """Unpack the bits of bytes along an axis, one per element.

    Parameters
    ----------
    a : array of uint8
    axis : int, optional
        None: the array is flattened.
    count : int, optional
        The number of bits returned along the axis; a negative number drops bits at the end, an excess is filled with zeros.
    bitorder : "big" or "little"
        "big": the highest bit comes first.

    Returns
    -------
    Array of uint8, zeros and ones

    Raises
    ------
    DTypeError, AxisError, ValueError
        ``a`` is not uint8; it has no such axis; ``bitorder`` is unknown, or ``count`` drops more bits than there are.

    Examples
    --------
    >>> import weft as wf
    >>> wf.unpackbits(wf.array([160], dtype="uint8"), count=3).tolist()
    [1, 0, 1]
    """
    value = node(a, "unpackbits", "a")
    if value.dtype != UINT8:
        raise DTypeError(f"unpackbits: a must hold uint8, but has dtype {value.dtype}")
    value, axis = _flatten_without_axis("unpackbits", value, axis)
    shape = value.shape
    separated = reshaped(value, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    shifts = _bit_shifts("unpackbits", bitorder, (8,) + (1,) * (len(shape) - axis - 1))
    bits = op("bitwise_and", op("bitwise_right_shift", separated, shifts), number(1, UINT8))
    extent = 8 * shape[axis]
    all_bits = wrap(reshaped(bits, (*shape[:axis], extent, *shape[axis + 1 :])))
    if count is None:
        return all_bits
    length = whole(count, "unpackbits", "count")
    if length < -extent:
        raise ValueError(f"unpackbits: count={length} takes away more than the {extent} bits along axis {axis}")
    length = extent + length if length < 0 else length
    if length > extent:
        high = tuple(length - extent if k == axis else 0 for k in range(len(shape)))
        return wrap(op("pad", all_bits.node, low=(0,) * len(shape), high=high, value=0))
    return all_bits[(slice(None),) * axis + (slice(0, length),)]
