"""weft's errors: subclasses of Python's own, raised at the user's line, naming argument, shapes, dtypes and the fix."""

import reprlib
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["AxisError", "DTypeError", "DataError", "LabelError", "ShapeError", "TraceError"]

_PACKAGE = str(Path(__file__).parent)


class ShapeError(ValueError):
    """Shapes that do not fit together."""


class DTypeError(TypeError):
    """A dtype that is unknown or does not fit."""


class AxisError(np.exceptions.AxisError):
    """An axis that the array does not have: NumPy's error, an IndexError and a ValueError."""


class LabelError(IndexError, ValueError):
    """A label that is none of the classes."""


class DataError(ValueError):
    """Data or weight files that are missing, damaged or do not fit."""


class DeviceError(RuntimeError):
    """A device cannot be used here; the sentence says what is missing, and what to do."""


class TraceError(TypeError):
    """The content of an array was needed where only its shape and dtype are known."""


# What a run can raise by itself. Other exceptions come from outside, such as a signal's handler, and are never passed over.
OF_RUNS = (ValueError, TypeError, IndexError, ArithmeticError, MemoryError, RuntimeError)


def short(value: Any) -> str:
    """What a user gave, for a message: its text, of long ones the beginning."""
    return reprlib.repr(value)


def gib(nbytes: int) -> str:
    """A number of bytes, for messages about memory: ``17.2 GiB``."""
    return f"{nbytes >> 30:,} GiB" if nbytes >= 100 << 30 else f"{nbytes / (1 << 30):.3g} GiB"


def seconds(s: float) -> str:
    """A time, for messages: ``1.32 ms``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if s >= size:
            return f"{s / size:.3g} {unit}" if s < 999.5 * size else f"{s / size:.0f} {unit}"
    return f"{s * 1e9:.2g} ns" if s < 1e-8 else f"{s * 1e9:.0f} ns"


def out_of_bounds(index: int, axis: int, size: int, where: str = "") -> IndexError:
    """NumPy's error of an index out of range; ``where``: the user's line."""
    return IndexError(f"index {index} is out of bounds for axis {axis} with size {size}" + (f" ({where})" if where else ""))


def renamed(error: Exception, name: str, **arguments: str) -> Exception:
    """A primitive's error as that of the function ``name`` that the user called, with that one's names of its arguments."""
    inner, colon, text = str(error).partition(": ")
    if not colon or not inner.isidentifier():
        return error
    for old, new in arguments.items():
        text = text.replace(f"{old} ", f"{new} ")
    return type(error)(f"{name}: {text}")


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """A warning at the user's line."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    where = frame.f_globals
    warnings.warn_explicit(
        message, category, frame.f_code.co_filename, frame.f_lineno, where.get("__name__"),
        where.setdefault("__warningregistry__", {}),
    )
