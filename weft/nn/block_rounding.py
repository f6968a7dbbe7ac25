"""Scales and codes of blocks.

The last axis of an array becomes an axis of blocks and ``format.block_axes`` axes of their elements. A scale is a number of the
format's scales; a factor is the float32 number by which a block's elements are multiplied: the scale, times that of the array if
there is one.

Power-of-two scales follow the OCP Microscaling specification: the exponent of a block's largest magnitude, minus that of the
largest element. Larger elements saturate. With "up", the next power of two is used where one would.
"""

from __future__ import annotations

import math
from typing import Any

from weft.array import Array, wrap
from weft.dtypes.block_formats import BlockFormat
from weft.dtypes.check import check_rounding
from weft.dtypes.formats import FLOATS
from weft.eager.apply import bind
from weft.errors import DTypeError
from weft.functions.dtype_info.dtype_info import astype
from weft.functions.elementwise.ufuncs import absolute, isfinite, stop_gradient
from weft.functions.indexing.where import where
from weft.functions.statistics.pad import pad
from weft.graph.primitives import TABLE


def check_format(function: str, format: Any, scale_rounding: Any, rounding: Any) -> BlockFormat:
    """Return a block format; raise an error if it or a rounding is not one."""
    if not isinstance(format, BlockFormat):
        raise DTypeError(
            f"{function}: format={format!r} must be a block format, such as wf.mxfp4 or wf.block_format('int8', 32)"
        )
    check_rounding(function, format.element, rounding, True)
    if scale_rounding not in (None, "floor", "up"):
        raise ValueError(f"{function}: scale_rounding={scale_rounding!r} must be 'floor' or 'up'")
    if scale_rounding is not None and not format.has_power_scales:
        raise ValueError(
            f"{function}: scale_rounding={scale_rounding!r} is for scales that are powers of two; those of {format} are "
            f"{format.scale}, and are rounded to nearest"
        )
    return format


def split_blocks(x: Array, format: BlockFormat) -> Array:
    """Return ``x`` in float32 with its last axis in blocks of ``format.block_shape``; zeros fill the last one."""
    extent = x.shape[-1]
    shape = format.block_shape(extent)
    more = math.prod(shape) - extent
    x = astype(x, "float32", copy=False)
    if more:
        x = pad(x, [(0, 0)] * (x.ndim - 1) + [(0, more)])
    return x.reshape((*x.shape[:-1], *shape))


def join_blocks(blocks: Array, format: BlockFormat, extent: int) -> Array:
    """Return the array of :func:`split_blocks`."""
    x = blocks.reshape((*blocks.shape[: -format.block_axes - 1], math.prod(blocks.shape[-format.block_axes - 1 :])))
    return x if x.shape[-1] == extent else x[..., :extent]


def tensor_scale(blocks: Array, format: BlockFormat) -> Array:
    """Return the scale of an array: it maps the largest finite magnitude to the largest element of the largest block scale."""
    size = absolute(blocks)
    top = where(isfinite(size), size, 0.0).max(initial=0.0)
    return where(top == 0, 1.0, top / (format.largest * format.scale.largest)).astype("float32")


def block_scales(blocks: Array, format: BlockFormat, scale_rounding: str | None, of_tensor: Array | None) -> Array:
    """Return the scale of each block. It is NaN if the block has a NaN or an infinity."""
    top = absolute(blocks).max(axis=tuple(range(-format.block_axes, 0)))
    if format.has_power_scales:
        bits = top.view("uint32")
        exponent = bits >> 23
        if scale_rounding == "up":
            digits = int((format.largest / 2.0**format.top_exponent - 1) * 2**23)
            exponent = exponent + ((bits & 0x7FFFFF) > digits)
        code = where(exponent > format.top_exponent, exponent - format.top_exponent, 0)
        return where(bits >= 0x7F800000, 255, code).astype("uint8").view("float8_e8m0fnu")
    scale = top / format.largest
    if of_tensor is not None:
        scale = scale / of_tensor
    return astype(where(isfinite(top), scale, float("nan")), format.scale.numpy, saturate=True)


def block_factors(scales: Array, of_tensor: Array | None, format: BlockFormat) -> Array:
    """Return the factor of each block, with axes for its elements."""
    factors = scales.astype("float32")
    return over_blocks(factors if of_tensor is None else factors * of_tensor, format)


def over_blocks(x: Array, format: BlockFormat) -> Array:
    """Return an array of one number for each block with axes for the elements."""
    return x.reshape((*x.shape, *(1,) * format.block_axes))


def encode(blocks: Array, scales: Array, of_tensor: Array | None, format: BlockFormat, rounding: str, key: Any) -> Array:
    """Return the elements of blocks, in the dtype of the format's elements."""
    if format.has_power_scales:  # the inverse of each scale is a normal number
        code = scales.view("uint8")
        inverse = ((254 - code.astype("uint32")) << 23).view("float32")
        x = blocks * over_blocks(where(code == 255, float("nan"), inverse), format)
    else:
        factors = block_factors(scales, of_tensor, format)
        x = blocks / where(factors == 0, float("inf"), factors)
    if format.element not in FLOATS:  # integers are symmetric
        x = where(x > format.largest, format.largest, where(x < -format.largest, -format.largest, x))
    return x.astype(format.element.numpy, rounding=rounding, saturate=True, key=key)


def decode(elements: Array, scales: Array, of_tensor: Array | None, format: BlockFormat) -> Array:
    """Return the float32 numbers of blocks of elements."""
    return elements.astype("float32") * block_factors(scales, of_tensor, format)


def pack_codes(elements: Array, format: BlockFormat) -> Array:
    """Return blocks of elements as they are stored, along one axis: 4-bit ones two a byte, integers plus 8."""
    if not format.is_packed:
        return elements.reshape((*elements.shape[:-2], elements.shape[-2] * elements.shape[-1]))
    bits = elements.view("uint8") if format.element in FLOATS else (elements + 8).view("uint8")
    packed = bits[..., 0, :] | (bits[..., 1, :] << 4)
    return packed.reshape((*packed.shape[:-3], math.prod(packed.shape[-3:])))


def nibbles(codes: Array, format: BlockFormat, extent: int) -> Array:
    """Return the stored 4-bit codes of an axis of ``extent`` elements as uint8, in blocks."""
    blocks, runs, _, half = format.block_shape(extent)
    bytes_ = codes.reshape((*codes.shape[:-1], blocks, runs, half))
    return wrap(bind(TABLE["unpack_nibbles"], bytes_.node))


def unpack_codes(codes: Array, format: BlockFormat, extent: int) -> Array:
    """Return the blocks of elements of :func:`pack_codes`."""
    if not format.is_packed:
        return codes.reshape((*codes.shape[:-1], *format.block_shape(extent)))
    bits = nibbles(codes, format, extent)
    return bits.view(format.element.numpy) if format.element in FLOATS else bits.view("int8") - 8


def rounded_blocks(x: Array, format: BlockFormat, scale_rounding: str | None, rounding: str, axis: int, key: Any = None) -> Array:
    """Return ``x`` rounded to the numbers of a block format, without a derivative."""
    moved = stop_gradient(x).swapaxes(axis, -1)
    blocks = split_blocks(moved, format)
    of_tensor = tensor_scale(blocks, format) if format.has_tensor_scale else None
    scales = block_scales(blocks, format, scale_rounding, of_tensor)
    out = decode(encode(blocks, scales, of_tensor, format, rounding, key), scales, of_tensor, format)
    return join_blocks(out, format, moved.shape[-1]).swapaxes(axis, -1).astype(x.dtype)
