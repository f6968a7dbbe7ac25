"""Number formats: which dtypes weft has, and how their bits lie. One table, which everything that knows widths asks.

NumPy calls bfloat16 a void, so ``dtype.kind`` alone does not tell what a dtype is.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np


class Format:
    """How numbers of a dtype lie in memory.

    kind : "bool", "signed", "unsigned" or "float"
    bits : of an element in memory
    mantissa, exponent : stored bits of each, for floats
    code : what weight files (safetensors) call it
    """

    __slots__ = ("bits", "code", "dtype", "exponent", "kind", "mantissa")

    def __init__(self, dtype: np.dtype, kind: str, bits: int, code: str, mantissa: int = 0, exponent: int = 0) -> None:
        self.dtype, self.kind, self.bits, self.code, self.mantissa, self.exponent = dtype, kind, bits, code, mantissa, exponent

    @property
    def bias(self) -> int:
        """What is added to a float's exponent before it is stored."""
        return 2 ** (self.exponent - 1) - 1

    @property
    def integer(self) -> np.dtype:
        """The signed integers of the same width: what the bits are as a number."""
        return np.dtype(f"i{self.bits // 8}")

    @property
    def narrow(self) -> bool:
        """Whether it is for storage only: computed in float32 and rounded."""
        return self.kind == "float" and self.bits < 32


FORMATS: dict[np.dtype, Format] = {
    f.dtype: f for f in (
        Format(np.dtype(np.bool_), "bool", 8, "BOOL"),
        *(Format(np.dtype(f"i{n}"), "signed", 8 * n, f"I{8 * n}") for n in (1, 2, 4, 8)),
        *(Format(np.dtype(f"u{n}"), "unsigned", 8 * n, f"U{8 * n}") for n in (1, 2, 4, 8)),
        Format(np.dtype(np.float16), "float", 16, "F16", 10, 5),
        Format(np.dtype(ml_dtypes.bfloat16), "float", 16, "BF16", 7, 8),
        Format(np.dtype(np.float32), "float", 32, "F32", 23, 8),
        Format(np.dtype(np.float64), "float", 64, "F64", 52, 11),
    )
}


def of_kind(*kinds: str) -> tuple[np.dtype, ...]:
    """The dtypes of some kinds, in the table's order."""
    return tuple(d for d, f in FORMATS.items() if f.kind in kinds)


(BOOL,) = of_kind("bool")
INT8, INT16, INT32, INT64 = of_kind("signed")
UINT8, UINT16, UINT32, UINT64 = of_kind("unsigned")
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = of_kind("float")
FLOATS = frozenset(of_kind("float"))
NARROW = frozenset(d for d, f in FORMATS.items() if f.narrow)


def converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """NumPy's astype, but float64 is rounded to bfloat16 once: ml_dtypes rounds to float32 on the way."""
    if x.dtype != FLOAT64 or dtype != BFLOAT16:
        return x.astype(dtype)
    with np.errstate(all="ignore"):
        near = np.asarray(x.astype(np.float32))
    back = near.astype(np.float64)
    bits = near.view(np.int32) - (abs(back) > abs(x))  # towards zero; then the last bit says that something was cut off
    odd = np.where((back != x) & np.isfinite(x), bits | 1, near.view(np.int32))
    return odd.astype(np.int32).view(np.float32).astype(dtype)
