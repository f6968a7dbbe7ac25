"""Computation of float16 and bfloat16 in float32, with one rounding at the end."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.dtypes.formats import floating
from weft.functions.creation.fill import asarray


def to_compute_dtype(x: Any) -> Array:
    """Return ``x`` as an Array of float32 or float64: integers, bools, float16 and bfloat16 become float32."""
    x = asarray(x)
    form = x.node.dtype
    wide = floating(form).computed
    return x if wide is form else x.astype(wide)


def to_storage_dtype(y: Array, like: Array) -> Array:
    """Return ``y`` in the dtype of ``like`` if that is a storage-only float, else unchanged."""
    return y.astype(like.dtype) if like.node.dtype.narrow else y
