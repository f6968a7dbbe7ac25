"""Settings that a user chooses for the whole process: how exactly float32 is multiplied, and in which order a scatter adds.

Both are permissions, which devices may leave unused. A product created under another precision than float32 has it as a
parameter, and so have its derivatives; a scatter has its mode.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from weft.dtypes.formats import FLOAT32, FLOATS, Format

T = TypeVar("T")


class Choice(Generic[T]):
    """A process-wide setting. Its ``value`` applies to operations that are created afterwards."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value


PRECISIONS = ("float32", "tf32", "tf32x3")
MATMUL_PRECISION = Choice("float32")  # the precision of new products
ADD, ADD_UNORDERED = "add", "add_unordered"
ADD_MODES = (ADD, ADD_UNORDERED)
DETERMINISM = Choice(True)  # whether every run must produce the same bits


def current_precision(dtype: Format) -> dict[str, Any]:
    """Return the precision parameter of a new product of ``dtype``."""
    return {} if dtype is not FLOAT32 else precision_params(MATMUL_PRECISION.value)


def precision_params(precision: str) -> dict[str, Any]:
    """Return a precision as a parameter; {} for float32."""
    return {} if precision == "float32" else {"precision": precision}


def scatter_add_mode(dtype: Format) -> str:
    """Return the mode of a new scatter that adds numbers of ``dtype``. For integers any order has the same result."""
    return ADD if DETERMINISM.value or dtype not in FLOATS else ADD_UNORDERED
