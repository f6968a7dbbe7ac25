"""Operands of functions that search for numbers among numbers (``isin``, ``searchsorted``), converted without loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.convert import NUMBERS, common, convert_operand
from weft.dtypes import formats
from weft.dtypes.formats import COMPLEX128, DEFAULT, FLOAT64, FLOATS, INEXACT, INTEGERS, Format
from weft.graph.node import Node
from weft.runtime.traced_int import TracedInt, is_int


def lossless_operands(x: Any, y: Any) -> tuple[Any, Any]:
    """Return both operands as nodes for a comparison, which chooses the dtype itself.

    A Python int beside integers stays an int, since it may exceed every dtype. NumPy makes arrays of numbers and lists first,
    so a narrow dtype of the other operand does not round them. Here they get the precision of the default dtype, so that 0.1
    matches an array that stores it as float32; they become float64 if the default dtype would turn a number into an infinity
    or a zero, or change an integer.
    """
    (a, b), dtype = common((x, y), formats.compared, formats.weak_compared)
    return _keep_value(a, dtype), _keep_value(b, dtype)


def _keep_value(x: Any, dtype: Format) -> Any:
    """Return an operand as a node whose dtype keeps its values, or unchanged if the comparison handles it."""
    if type(x) is Node or (is_int(x) and (dtype in INTEGERS or dtype.alone)):
        return x
    if dtype not in INEXACT or dtype.alone:
        return convert_operand(x, dtype)
    work_form = formats.promote(dtype, DEFAULT.real)
    widest = FLOAT64 if work_form in FLOATS else COMPLEX128
    if work_form is not widest and (type(x) is TracedInt or (type(x) in (*NUMBERS, np.ndarray) and _loses_value(x, work_form))):
        work_form = widest
    return convert_operand(x, work_form)


def _loses_value(x: Any, dtype: Format) -> bool:
    """Return whether ``dtype`` turns a number into an infinity or a zero, or changes an integer."""
    if type(x) is int:
        return abs(x) > 65504 and (abs(x) > dtype.largest or int(np.asarray(x, dtype.part.numpy)) != x)
    if type(x) is float and _fits_all_floats(x):
        return False
    parts = np.asarray(x, np.complex128 if dtype.part is not dtype else np.float64).reshape(-1).view(np.float64)
    if parts.size <= 16 and all([_fits_all_floats(part) for part in parts.tolist()]):
        return False
    with np.errstate(all="ignore"):
        rounded = formats.converted(parts, dtype.part.numpy)
    return bool(((np.isfinite(parts) & ~np.isfinite(rounded)) | ((parts != 0) & (rounded == 0))).any())


def _fits_all_floats(x: float) -> bool:
    """Return whether every float dtype of 16 bits or more has a number close to ``x``."""
    return x == 0 or 1e-4 < abs(x) <= 65504
