"""weft's errors: subclasses of Python's, raised at the user's line; messages name argument, shapes, dtypes and the fix."""

import contextlib
import inspect
import os
import reprlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = [
    "AxisError", "CollectiveError", "DTypeError", "DataError", "EmptyError", "LabelError", "ShapeError", "SolverError",
    "TraceError", "show_own_frames",
]

PACKAGE = os.path.join(os.path.dirname(__file__), "")  # ends in a separator, so that a sibling weft_demo.py does not match
_IS_OWN_FILE: dict[str, bool] = {}  # file name -> whether it is in the package
_FUNCTIONS = os.path.join(PACKAGE, "functions", "")
_OPERATORS = os.path.join(PACKAGE, "array", "operators.py")


class ShapeError(ValueError):
    """Shapes do not fit together."""

    def __init__(self, message: str = "") -> None:
        super().__init__(name_called_function(message))


class EmptyError(ShapeError, IndexError):
    """An element is needed, but there is none."""


class DTypeError(TypeError):
    """A dtype is unknown or does not fit."""

    def __init__(self, message: str = "") -> None:
        super().__init__(name_called_function(message))


class AxisError(np.exceptions.AxisError):
    """The array does not have this axis; NumPy's error, an IndexError and a ValueError."""

    def __init__(self, message: str = "") -> None:
        super().__init__(name_called_function(message))


class LabelError(IndexError, ValueError):
    """A label is not one of the classes."""


class DataError(ValueError):
    """Data or weight files are missing, damaged or do not fit."""


class DeviceError(RuntimeError):
    """A device cannot be used here; the message names the cause and the remedy."""


class SolverError(RuntimeError):
    """A differential equation cannot be solved further. ``t`` and ``y`` are the last time and state."""

    def __init__(self, message: str = "", t: float | None = None, y: Any = None) -> None:
        super().__init__(message)
        self.t, self.y = t, y


class CollectiveError(RuntimeError):
    """Ranks do not meet: one is gone, comes too late, or asks for something else. ``code`` is the exit code of the job."""

    def __init__(self, message: str = "", code: int = 70) -> None:
        super().__init__(message)
        self.code = code


class TraceError(TypeError):
    """The content of an array is needed, but only its shape and dtype are known."""


_SHOWS_OWN_FRAMES = os.environ.get("WEFT_TRACEBACK") == "full"


def show_own_frames(shown: bool = True) -> None:
    """Show weft's own frames in tracebacks, which are hidden by default; the variable ``WEFT_TRACEBACK=full`` does so too.

    Frames are hidden where Python or IPython displays an error. The error itself keeps its traceback, for debuggers and logs.

    Parameters
    ----------
    shown : bool

    Examples
    --------
    >>> import weft as wf
    >>> wf.errors.show_own_frames(False)
    """
    global _SHOWS_OWN_FRAMES
    _SHOWS_OWN_FRAMES = bool(shown)


def shows_own_frames() -> bool:
    """Return whether tracebacks show weft's own frames."""
    return _SHOWS_OWN_FRAMES


# Exceptions of a run itself. Others, such as a signal handler's, come from outside and are never suppressed.
RUN_ERRORS = (ValueError, TypeError, IndexError, ArithmeticError, MemoryError, RuntimeError)


def short(value: Any) -> str:
    """Return the text of a value for a message, abbreviated if it is long."""
    return " ".join(reprlib.repr(value).split("\n"))


def need_function(where: str, value: Any, fix: str) -> None:
    """Raise TypeError if a value is not callable. where : function and argument. fix : what to write"""
    if not callable(value):
        raise TypeError(f"{where} is {short(value)}, but must be a function: {fix}")


def format_bytes(nbytes: int) -> str:
    """Format a number of bytes for messages: ``17.2 GiB``."""
    return f"{nbytes >> 30:,} GiB" if nbytes >= 100 << 30 else f"{nbytes / (1 << 30):.3g} GiB"


def seconds(s: float) -> str:
    """Format a time for messages: ``1.32 ms``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if s >= size:
            return f"{s / size:.3g} {unit}" if s < 999.5 * size else f"{s / size:.0f} {unit}"
    return f"{s * 1e9:.2g} ns" if s < 1e-8 else f"{s * 1e9:.0f} ns"


def amount(n: float) -> str:
    """Return a number with a metric prefix, to be followed by a unit: ``1.3 G``."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= size:
            return f"{n / size:.3g} {unit}" if n < 999.5 * size else f"{n / size:.0f} {unit}"
    return f"{n:.0f} "


def index_error(index: int, axis: int | str, size: int, where: str = "", function: str = "") -> IndexError:
    """Return NumPy's error for an index out of range; ``where`` is the user's line, ``function`` the function called there.

    axis : int; or the name of values that must be from 0 to ``size - 1`` and are no indices of the user, for another message
    """
    text = f"index {index} is out of bounds for axis {axis} with size {size}"
    if isinstance(axis, str):
        text = f"{axis} must be from 0 to {size - 1}, not {index}"
    return IndexError((f"{function}: " if function else "") + text + (f" ({where})" if where else ""))


def is_own_file(file: str) -> bool:
    """Return whether a code object's file is in weft's package, however its path is spelled."""
    own = _IS_OWN_FILE.get(file)
    if own is None:
        own = _IS_OWN_FILE[file] = file.startswith(PACKAGE) and os.path.normpath(file).startswith(
            os.path.normpath(PACKAGE) + os.sep
        )
    return own


def _find_call(frame: Any) -> tuple[str, Any]:
    """Return the name and frame of weft's function that the user's line called, or ``("", None)`` if it has no public name."""
    called = None
    while frame is not None and is_own_file(frame.f_code.co_filename):
        if frame.f_code.co_name != "_check_and_call":  # the decorator of weft.process.keyword_checks
            called = frame
        frame = frame.f_back
    if called is None or called.f_code.co_filename == _OPERATORS:  # a + b calls no named function
        return "", None
    name = type(called.f_locals["self"]).__name__ if called.f_code.co_name == "__init__" else called.f_code.co_name
    return ("", None) if name[0] in "_<" else (name, called)


def name_called_function(message: str) -> str:
    """Replace the function name at the beginning of a message by the function that the user called.

    Functions call each other, so the function that raises is often another one.
    """
    head, colon, text = message.partition(": ")
    if not colon or not head.isidentifier():
        return message
    function, called = _find_call(sys._getframe(2))
    ours = function and called.f_code.co_filename.startswith(_FUNCTIONS)
    return f"{function}: {text}" if ours else message


def find_argument(value: Any) -> tuple[str, str]:
    """Return which function of weft the user called and which of its arguments ``value`` is; "" for what is unknown.

    For errors that are raised far below that function, as in the conversion of operands.
    """
    function, called = _find_call(sys._getframe(1))
    if not function:
        return "", ""
    code = called.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    for name in sorted(code.co_varnames[:count], key="shape".__eq__):  # a shape that is the same small integer as a number
        argument = called.f_locals.get(name)
        if argument is value:
            return function, name
        if isinstance(argument, list | tuple):
            for k, item in enumerate(argument):
                if item is value:
                    return function, f"{name}[{k}]"
    return function, ""


def name_argument(value: Any) -> str:
    """Return the beginning of a message about ``value``: "function: argument: ", as far as they are known."""
    function, argument = find_argument(value)
    return f"{function}: {argument}: " if argument else f"{function}: " if function else ""


def rename_error(error: Exception, name: str, **arguments: str) -> Exception:
    """Return a primitive's error with the name of the function that the user called, and with that function's argument names."""
    inner, colon, text = str(error).partition(": ")
    if not colon or not inner.isidentifier():
        return error
    for old, new in arguments.items():
        text = text.replace(f"{old} ", f"{new} ")
    return type(error)(f"{name}: {text}")


@contextlib.contextmanager
def name_numpy_errors(function: str) -> Iterator[None]:
    """Raise NumPy's errors inside the ``with`` block in the name of weft's function."""
    try:
        yield
    except (TypeError, ValueError, IndexError) as error:
        kind = next(k for k in (TypeError, ValueError, IndexError) if isinstance(error, k))
        raise kind(f"{function}: {error}") from None


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Issue a warning at the user's line."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and is_own_file(frame.f_code.co_filename):
        frame = frame.f_back
    where = frame.f_globals
    warnings.warn_explicit(
        message, category, frame.f_code.co_filename, frame.f_lineno, where.get("__name__") or "<string>",
        where.setdefault("__warningregistry__", {}),
    )
