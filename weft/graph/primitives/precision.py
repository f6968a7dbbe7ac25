"""Precision of float32 products and convolutions: a permission, which devices may leave unused.

A product created under another precision than float32 has it as a parameter, and so have its derivatives.
"""

from __future__ import annotations

from typing import Any

from weft.dtypes.formats import FLOAT32, Format
from weft.graph.primitives.choice import Choice

PRECISIONS = ("float32", "tf32", "tf32x3")
MATMUL_PRECISION = Choice("float32")  # the precision of new products


def asked(dtype: Format) -> dict[str, Any]:
    """Return the precision parameter of a new product of ``dtype``."""
    return {} if dtype is not FLOAT32 else given(MATMUL_PRECISION.value)


def given(precision: str) -> dict[str, Any]:
    """Return a precision as a parameter; {} for float32."""
    return {} if precision == "float32" else {"precision": precision}
