"""Sets of dtypes that rules allow, and what primitives ask of a dtype. The dtypes themselves are in ``weft/formats.py``."""

from __future__ import annotations

import numpy as np

from weft.formats import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    INT64,
    NARROW,
    UINT32,
    UINT64,
    of_kind,
)

__all__ = [
    "ALL", "BFLOAT16", "BITS", "BOOL", "FLOAT16", "FLOAT32", "FLOAT64", "FLOATS", "INT32", "INT64", "INTEGERS", "NARROW",
    "NUMBERS", "SIGNED", "UINT32", "UINT64", "UNSIGNED", "accumulator", "lowest", "words",
]

SIGNED, UNSIGNED = frozenset(of_kind("signed")), frozenset(of_kind("unsigned"))
INTEGERS = SIGNED | UNSIGNED
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
