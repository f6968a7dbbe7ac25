"""Rounding of the inputs of quantized layers, with a scale for each row, or one that was calibrated."""

from __future__ import annotations

import math
from typing import Any

from weft.array import Array
from weft.dtypes.formats import FLOATS, INT8, Format
from weft.dtypes.parse import parse_dtype
from weft.errors import DTypeError
from weft.functions.creation.fill import asarray
from weft.functions.dtype_info.dtype_info import astype
from weft.functions.elementwise.ufuncs import absolute
from weft.functions.indexing.where import where


def input_format(name: str, activations: Any) -> Format | None:
    """Return the format that inputs are rounded to, None for those that are left as they are."""
    if activations is None:
        return None
    form = parse_dtype(activations)
    if form is not INT8 and not (form in FLOATS and form.bits <= 8 and form.special in ("ieee", "fn", "fnuz", "finite")):
        raise DTypeError(f"{name}: activations={form} must be int8, a float dtype of 8 bits or fewer, or None")
    return form


def input_scale(name: str, form: Format | None, scale: Any) -> Array | None:
    """Return the scale of inputs that are rounded to ``form``, which must be one positive number."""
    if scale is None:
        return None
    if form is None:
        raise ValueError(f"{name}: scale={scale!r} is for activations=, which is None")
    number = asarray(scale, dtype="float32")
    if number.size != 1 or not 0 < float(number.reshape(())) < math.inf:
        raise ValueError(f"{name}: scale={scale!r} must be one positive and finite number")
    return number.reshape(())


def round_inputs(x: Array, form: Format, scale: Array | None, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Return float32 inputs rounded to ``form``, and the scale that they are to be multiplied by.

    scale : None: the largest magnitude over ``axes`` becomes the largest number
    """
    largest = float(127 if form is INT8 else form.largest)
    if scale is None:
        top = absolute(x).max(axis=axes, keepdims=True, initial=0.0)
        scale = where(top == 0, 1.0, top / largest)
    x = x / scale
    if form is INT8:  # symmetric
        x = where(x > largest, largest, where(x < -largest, -largest, x))
    return astype(x, form.numpy, rounding="nearest", saturate=True), scale


def split_digits(x: Array, axes: tuple[int, ...]) -> tuple[list[Array], Array]:
    """Return float32 numbers as three int8 digits, low to high, and a scale: x = scale * (d0 + 256 * d1 + 65536 * d2).

    The error is at most 2**-23.9 of the largest magnitude over ``axes``: a float32 sum of as many terms has a larger one.
    The largest sum is 127 * 65536, so that no rounding makes the last digit 128.
    """
    top = absolute(x).max(axis=axes, keepdims=True, initial=0.0)
    scale = where(top == 0, 1.0, top / 8323072.0)
    rest: Any = astype(x / scale, "int32", rounding="nearest", saturate=True)
    digits = []
    for _ in range(2):
        digit = ((rest + 128) & 255) - 128
        digits.append(digit.astype("int8"))
        rest = (rest - digit) >> 8
    return [*digits, rest.astype("int8")], scale
