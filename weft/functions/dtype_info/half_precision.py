"""float16 and bfloat16 are storage: what takes several operations is computed in float32, and rounded once."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.dtypes.formats import floating
from weft.functions.creation.fill import asarray


def widened(x: Any) -> Array:
    """``x`` as an Array of float32 or float64: integers, bools, float16 and bfloat16 become float32."""
    x = asarray(x)
    have = x.node.dtype
    wide = floating(have).computed
    return x if wide is have else x.astype(wide)


def narrowed(y: Array, like: Array) -> Array:
    """``y`` in the dtype of ``like`` where that is float16 or bfloat16."""
    return y.astype(like.dtype) if like.node.dtype.narrow else y
