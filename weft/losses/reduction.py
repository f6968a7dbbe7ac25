"""What the losses share: operands of one shape, and the reduction at the end."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.dtype_info.half_precision import narrowed, widened


def pair(name: str, prediction: Any, target: Any) -> tuple[Array, Array, Array]:
    """(prediction, target, prediction as given): the first two of one dtype, float32 for 16-bit floats.

    Shapes must be equal (a (N,) target against (N, 1) is a usual slip).
    """
    given, target = asarray(prediction), asarray(target)
    if given.shape != target.shape:
        raise ShapeError(f"{name}: prediction {given.shape} and target {target.shape} differ in shape")
    wide = widened(given)
    return wide, target if target.dtype == wide.dtype else target.astype(wide.dtype), given


def reduced(name: str, x: Array, reduction: str, like: Array) -> Array:
    """``x`` itself, its sum or its mean, in the dtype of ``like`` where that has 16 bits."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'{name}: reduction must be "mean", "sum" or "none", not {reduction!r}')
    return narrowed(x if reduction == "none" else x.mean() if reduction == "mean" else x.sum(), like)
