"""Which dtypes there are, sorted by kind. NumPy calls bfloat16 a void, so ``dtype.kind`` alone does not tell."""

from __future__ import annotations

import ml_dtypes
import numpy as np

BOOL = np.dtype(np.bool_)
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
FLOAT16, FLOAT32, FLOAT64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

SIGNED = frozenset(map(np.dtype, (np.int8, np.int16, np.int32, np.int64)))
UNSIGNED = frozenset(map(np.dtype, (np.uint8, np.uint16, np.uint32, np.uint64)))
INTEGERS = SIGNED | UNSIGNED
FLOATS = frozenset((FLOAT16, BFLOAT16, FLOAT32, FLOAT64))
NARROW = frozenset((FLOAT16, BFLOAT16))  # storage only: computed in float32 and rounded
NUMBERS = INTEGERS | FLOATS
BITS = INTEGERS | {BOOL}
ALL = NUMBERS | {BOOL}

_WORDS = {
    BITS: "bool or an integer dtype", INTEGERS: "an integer dtype", FLOATS: "a float dtype",
    NUMBERS: "an integer or float dtype", ALL: "bool, an integer or a float dtype", frozenset((BOOL,)): "bool",
}


def words(dtypes: frozenset[np.dtype]) -> str:
    """The set in words, for messages."""
    return _WORDS.get(dtypes) or "one of " + ", ".join(sorted(d.name for d in dtypes))


def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype that sums of ``dtype`` are kept in: float32 for float16 and bfloat16, else itself."""
    return FLOAT32 if dtype in NARROW else dtype


def lowest(dtype: np.dtype) -> float | int | bool:
    """The identity of max: minus infinity, the least integer, False."""
    if dtype == BOOL:
        return False
    return -np.inf if dtype in FLOATS else int(np.iinfo(dtype).min)
