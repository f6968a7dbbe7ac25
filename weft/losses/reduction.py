"""What the losses share: operands of one shape, and the reduction at the end."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.convert import operands
from weft.errors import ShapeError


def pair(name: str, prediction: Any, target: Any) -> tuple[Array, Array]:
    """Both as Arrays of the dtype of the prediction; shapes must be equal (a (N,) target against (N, 1) is a usual slip)."""
    (p,), (t,) = operands(prediction), operands(target)
    if p.shape != t.shape:
        raise ShapeError(f"{name}: prediction {p.shape} and target {t.shape} differ in shape")
    a, b = wrap(p), wrap(t)
    if a.dtype.kind in "iub":
        a = a.astype("float32")
    return a, b if a.dtype == b.dtype else b.astype(a.dtype)


def reduced(name: str, x: Array, reduction: str) -> Array:
    """``x`` itself, its sum or its mean."""
    if reduction == "mean":
        return x.mean()
    if reduction == "sum":
        return x.sum()
    if reduction != "none":
        raise ValueError(f'{name}: reduction must be "mean", "sum" or "none", not {reduction!r}')
    return x
