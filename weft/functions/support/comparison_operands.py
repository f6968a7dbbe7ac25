"""Operands of what looks for numbers among numbers, as isin and searchsorted do: none of them becomes another number before."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.convert import NUMBERS, common, in_dtype
from weft.dtypes.formats import (
    COMPLEX128,
    DEFAULT,
    FLOAT64,
    FLOATS,
    INEXACT,
    INTEGERS,
    Format,
    compared,
    converted,
    promote,
    weak_compared,
)
from weft.graph.node import Node
from weft.runtime.traced_int import Given, is_int


def by_value(x: Any, y: Any) -> tuple[Any, Any]:
    """Operands for a comparison, which says itself in which dtype: nodes, and beside integers Python's integers, which may be
    larger than any that an array holds.

    NumPy makes arrays of numbers and lists first, so a narrow dtype beside them does not round them. Here they have the digits of
    the default dtype, by which 0.1 is found where it was written as float32, and those of float64 where the default makes an
    infinity or a zero of a number, or another one of an integer.
    """
    (a, b), dtype = common((x, y), compared, weak_compared)
    return _kept(a, dtype), _kept(b, dtype)


def _kept(x: Any, dtype: Format) -> Any:
    if type(x) is Node or (is_int(x) and (dtype in INTEGERS or dtype.alone)):
        return x
    if dtype not in INEXACT or dtype.alone:
        return in_dtype(x, dtype)
    wide = promote(dtype, DEFAULT.real)
    exact = FLOAT64 if wide in FLOATS else COMPLEX128
    if wide is not exact and (type(x) is Given or (type(x) in (*NUMBERS, np.ndarray) and _loses(x, wide))):
        wide = exact
    return in_dtype(x, wide)


def _loses(x: Any, dtype: Format) -> bool:
    """Whether ``dtype`` makes infinities or zeros of numbers, or another one of an integer."""
    if type(x) is int:
        return abs(x) > 65504 and (abs(x) > dtype.largest or int(np.asarray(x, dtype.part.numpy)) != x)
    if type(x) is float and _safe(x):
        return False
    parts = np.asarray(x, np.complex128 if dtype.part is not dtype else np.float64).reshape(-1).view(np.float64)
    if parts.size <= 16 and all([_safe(part) for part in parts.tolist()]):
        return False
    with np.errstate(all="ignore"):
        found = converted(parts, dtype.part.numpy)
    return bool(((np.isfinite(parts) & ~np.isfinite(found)) | ((parts != 0) & (found == 0))).any())


def _safe(x: float) -> bool:
    """Whether all floats of 16 bits and more have a number near this one."""
    return x == 0 or 1e-4 < abs(x) <= 65504
