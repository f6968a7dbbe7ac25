"""weft's errors: subclasses of Python's own, raised at the user's line, naming argument, shapes, dtypes and the fix."""

import contextlib
import inspect
import os
import reprlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["AxisError", "DTypeError", "DataError", "EmptyError", "LabelError", "ShapeError", "TraceError"]

PACKAGE = os.path.join(os.path.dirname(__file__), "")  # ends in a separator: weft_demo.py beside the folder is the user's
_OWN: dict[str, bool] = {}  # file name -> whether it lies in the package
_FUNCTIONS = os.path.join(PACKAGE, "functions", "")
_OPERATORS = os.path.join(PACKAGE, "array", "operators.py")


class ShapeError(ValueError):
    """Shapes that do not fit together."""

    def __init__(self, message: str = "") -> None:
        super().__init__(as_called(message))


class EmptyError(ShapeError, IndexError):
    """There is no element where one is needed."""


class DTypeError(TypeError):
    """A dtype that is unknown or does not fit."""

    def __init__(self, message: str = "") -> None:
        super().__init__(as_called(message))


class AxisError(np.exceptions.AxisError):
    """An axis that the array does not have: NumPy's error, an IndexError and a ValueError."""

    def __init__(self, message: str = "") -> None:
        super().__init__(as_called(message))


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


def out_of_bounds(index: int, axis: int, size: int, where: str = "", function: str = "") -> IndexError:
    """NumPy's error of an index out of range; ``where``: the user's line, ``function``: what was called there, if it is known."""
    text = f"index {index} is out of bounds for axis {axis} with size {size}"
    return IndexError((f"{function}: " if function else "") + text + (f" ({where})" if where else ""))


def is_own(file: str) -> bool:
    """Return whether a code object's file lies in weft's own package, however the path to it is spelled."""
    own = _OWN.get(file)
    if own is None:
        own = _OWN[file] = file.startswith(PACKAGE) and os.path.normpath(file).startswith(os.path.normpath(PACKAGE) + os.sep)
    return own


def _called(frame: Any) -> tuple[str, Any]:
    """The name of the function of weft that the user's line called, and its frame; empty where it has no name of its own."""
    called = None
    while frame is not None and is_own(frame.f_code.co_filename):
        called, frame = frame, frame.f_back
    if called is None or called.f_code.co_filename == _OPERATORS:  # a + b calls no function that has a name
        return "", None
    name = type(called.f_locals["self"]).__name__ if called.f_code.co_name == "__init__" else called.f_code.co_name
    return ("", None) if name[0] in "_<" else (name, called)


def as_called(message: str) -> str:
    """A message that begins with the name of a function, with the one that the user called: many are made of others."""
    head, colon, text = message.partition(": ")
    if not colon or not head.isidentifier():
        return message
    function, called = _called(sys._getframe(2))
    ours = function and called.f_code.co_filename.startswith(_FUNCTIONS)
    return f"{function}: {text}" if ours else message


def place_of(value: Any) -> tuple[str, str]:
    """(function, argument): what of weft the user called, and which of its arguments ``value`` is; empty where that is not known.

    For errors that are found far below the function that was called, as in what every function does with its operands.
    """
    function, called = _called(sys._getframe(1))
    if not function:
        return "", ""
    code = called.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    for name in code.co_varnames[:count]:
        held = called.f_locals.get(name)
        if held is value:
            return function, name
        if isinstance(held, list | tuple):
            for k, item in enumerate(held):
                if item is value:
                    return function, f"{name}[{k}]"
    return function, ""


def told(value: Any) -> str:
    """The beginning of a message about ``value``: "function: argument: ", as far as these are known."""
    function, argument = place_of(value)
    return f"{function}: {argument}: " if argument else f"{function}: " if function else ""


def renamed(error: Exception, name: str, **arguments: str) -> Exception:
    """A primitive's error as that of the function ``name`` that the user called, with that one's names of its arguments."""
    inner, colon, text = str(error).partition(": ")
    if not colon or not inner.isidentifier():
        return error
    for old, new in arguments.items():
        text = text.replace(f"{old} ", f"{new} ")
    return type(error)(f"{name}: {text}")


@contextlib.contextmanager
def said_by(function: str) -> Iterator[None]:
    """What NumPy refuses inside, in the name of the function of weft that hands its work over."""
    try:
        yield
    except (TypeError, ValueError, IndexError) as error:
        kind = next(k for k in (TypeError, ValueError, IndexError) if isinstance(error, k))
        raise kind(f"{function}: {error}") from None


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """A warning at the user's line."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
    where = frame.f_globals
    warnings.warn_explicit(
        message, category, frame.f_code.co_filename, frame.f_lineno, where.get("__name__") or "<string>",
        where.setdefault("__warningregistry__", {}),
    )
