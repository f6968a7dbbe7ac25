"""How exactly products and convolutions of float32 have to be computed: a permission, which devices may leave unused.

A product that was asked for under another precision than float32 has it as a parameter, and so have its derivatives.
"""

from __future__ import annotations

from typing import Any

from weft.dtypes.formats import FLOAT32, Format
from weft.graph.primitives.choice import Choice

PRECISIONS = ("float32", "tf32", "tf32x3")
MATMUL = Choice("float32")  # what products are asked for with


def asked(dtype: Format) -> dict[str, Any]:
    """The parameter of a product of ``dtype`` that a user asks for now."""
    return {} if dtype is not FLOAT32 else given(MATMUL.value)


def given(precision: str) -> dict[str, Any]:
    """A precision as a parameter; float32 is none."""
    return {} if precision == "float32" else {"precision": precision}
