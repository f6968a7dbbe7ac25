"""Parse what users write for a dtype, an order, a shape or axes.

Arguments of functions refuse the other byte order; readers of memory accept it and convert.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, COMPLEX64, COMPLEX128, DEFAULT, EVERY, FLOAT32, FLOAT64, FROM_NUMPY, INT64, Format, named
from weft.dtypes.scalar_types import CLASSES
from weft.errors import DTypeError, TraceError, name_argument, short
from weft.process.name_errors import suggest

_COMMON_NAMES: dict[Any, Format] = {
    **EVERY, **FROM_NUMPY, **{f.numpy.type: f for f in EVERY.values()}, **{f: f for f in EVERY.values()},
    int: INT64, bool: BOOL,
}
_FORMAT_OF_NAME: dict[Format, dict[Any, Format]] = {  # by the default format of floats
    real: {**_COMMON_NAMES, float: real, "float": real, complex: pair, "complex": pair}
    for real, pair in ((FLOAT32, COMPLEX64), (FLOAT64, COMPLEX128))
}


# by id, since hashing such a class calls Python; the classes live as long as the module
_FORMAT_OF_CLASS = {id(kind): form for form, kind in CLASSES.items()}


def parse_dtype(dtype: Any) -> Format:
    """Return the format of a dtype, scalar type, name or Python type; raise DTypeError if weft does not have it."""
    if (form := _FORMAT_OF_CLASS.get(id(dtype))) is not None:
        return form
    try:
        return _FORMAT_OF_NAME[DEFAULT.real][dtype]
    except (KeyError, TypeError):
        pass
    if (form := _custom(dtype)) is not None:
        return form
    numpy_dtype = stored(dtype)
    if not numpy_dtype.isnative:
        raise DTypeError(
            f"{name_argument(dtype)}weft holds no numbers in the other byte order, {numpy_dtype.str!r}: use {numpy_dtype.name!r} "
            f"here. To write this order: numpy.asarray(x).astype({numpy_dtype.str!r}); frombuffer, fromfile and asarray read it"
        )
    return FROM_NUMPY[numpy_dtype]


def _custom(dtype: Any) -> Format | None:
    """Return the format of a user's dtype, or of its name."""
    if isinstance(dtype, Format):
        return dtype
    if isinstance(dtype, str):
        try:
            return named(dtype)
        except (KeyError, ValueError):
            return None
    if isinstance(dtype, np.dtype) and dtype.names is not None:
        return _custom(dtype.names[0])  # in a process that has not made it yet
    cell = getattr(dtype, "cell", None)
    return None if cell is None else FROM_NUMPY.get(cell)


def stored(dtype: Any) -> np.dtype:
    """Return the NumPy dtype of elements in foreign memory: as :func:`parse_dtype`, but in either byte order."""
    try:
        return _FORMAT_OF_NAME[DEFAULT.real][dtype].numpy
    except (KeyError, TypeError):
        pass
    if (form := _custom(dtype)) is not None:
        return form.numpy
    try:
        numpy_dtype = np.dtype(dtype)
    except TypeError:
        if isinstance(dtype, bool):
            fix = "is not a dtype; if it means keepdims, write keepdims="
            raise DTypeError(f"{name_argument(dtype)}{dtype} {fix}{dtype}") from None
        if close := _suggest_dtype(dtype):
            raise DTypeError(f"{name_argument(dtype)}{dtype!r} is not a dtype. Did you mean {close!r}?") from None
        if not isinstance(dtype, str | type):
            raise DTypeError(f"{name_argument(dtype)}{short(dtype)} is not a dtype such as 'float32'") from None
        raise DTypeError(f"{name_argument(dtype)}{dtype!r} is not a dtype; weft has {', '.join(EVERY)}") from None
    if numpy_dtype.newbyteorder("=") in FROM_NUMPY:
        return numpy_dtype
    raise DTypeError(f"{name_argument(dtype)}weft has no dtype {numpy_dtype.name!r}; it has {', '.join(EVERY)}")


_ABBREVIATED = {"f": "float", "fp": "float", "bf": "bfloat", "i": "int", "s": "int", "u": "uint", "c": "complex"}


def _suggest_dtype(dtype: Any) -> str:
    """Return the dtype that a text such as "f32", "torch.float32" or "flaot32" may mean, or ""."""
    if not isinstance(dtype, str) and type(dtype).__module__.partition(".")[0] != "torch":
        return ""
    name = str(dtype).rpartition(".")[2].lower()
    letters = name.rstrip("0123456789")
    full = _ABBREVIATED.get(letters, letters) + name[len(letters) :]
    return full if full in EVERY else suggest(full, EVERY)


def parse_any_byte_order(dtype: Any) -> Format:
    """Return the format of a dtype in either byte order, for questions about a dtype and for new arrays."""
    return FROM_NUMPY[stored(dtype).newbyteorder("=")]


def format_of(x: Any) -> Format:
    """Return the format of an array or a scalar, or the format that a dtype or a class of numbers means."""
    return parse_any_byte_order(x if isinstance(x, type) else getattr(x, "dtype", x))  # np.float32 is a class with a dtype


def layout(order: Any, function: str, words: str = "CFAK") -> str:
    """Return NumPy's ``order`` as one of the letters ``words``; None is "C". Refuse others."""
    if order is None:
        return "C"
    if type(order) is not str:
        raise DTypeError(f"{function}: order must be one of {_quoted(words)}, not {order!r}")
    if len(order) != 1 or order.upper() not in words:
        raise ValueError(f"{function}: order={order!r} must be one of {_quoted(words)}")
    return order.upper()


def _quoted(words: str) -> str:
    return ", ".join(map(repr, words))


def to_tuple(value: Any) -> tuple[Any, ...]:
    """Return one object as a tuple of one; return the items of a sequence, an array or an iterator as a tuple."""
    if type(value) in (tuple, list):
        return tuple(value)
    single = not hasattr(value, "__iter__") or isinstance(value, str | bytes | set | dict) or getattr(value, "shape", None) == ()
    return (value,) if single else tuple(value)


def read_integers(value: Any, what: str) -> tuple[int, ...]:
    """Return an integer, or several as in :func:`to_tuple`; ``what`` names the argument in the error."""
    try:
        items = to_tuple(value)
        return tuple([operator.index(x if type(x) is not bool else None) for x in items])  # type: ignore[arg-type]
    except TraceError:
        raise
    except TypeError:
        raise DTypeError(f"{what} must be an integer or a tuple of integers, not {short(value)}") from None


def check_like(like: Any, function: str) -> None:
    """Check NumPy's ``like=`` argument, which weft ignores: it must be an array."""
    if like is not None and not hasattr(type(like), "__array_function__"):
        raise DTypeError(f"{function}: like must be an array, not {type(like).__name__}")
