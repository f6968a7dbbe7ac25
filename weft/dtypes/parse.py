"""Spelling: what users write where a dtype is asked for, as the format it means."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, COMPLEX64, COMPLEX128, DEFAULT, EVERY, FLOAT32, FLOAT64, FROM_NUMPY, INT64, Format
from weft.errors import DTypeError, TraceError, short, told

_WORDS: dict[Any, Format] = {
    **EVERY, **FROM_NUMPY, **{f.numpy.type: f for f in EVERY.values()}, **{f: f for f in EVERY.values()},
    int: INT64, bool: BOOL,
}
_SPELLED: dict[Format, dict[Any, Format]] = {  # by the default
    real: {**_WORDS, float: real, "float": real, complex: pair, "complex": pair}
    for real, pair in ((FLOAT32, COMPLEX64), (FLOAT64, COMPLEX128))
}


def spelled(dtype: Any) -> Format:
    """The format that a dtype, scalar type, name or Python type means; DTypeError for what weft does not have."""
    try:
        return _SPELLED[DEFAULT.real][dtype]
    except (KeyError, TypeError):
        pass
    found = stored(dtype)
    if not found.isnative:
        raise DTypeError(
            f"{told(dtype)}weft holds no numbers in the other byte order, {found.str!r}: give {found.name!r} here; "
            f"numpy.asarray(x).astype({found.str!r}) makes bytes to write in that order; frombuffer, fromfile and asarray read it"
        )
    return FROM_NUMPY[found]


def stored(dtype: Any) -> np.dtype:
    """The same as NumPy's dtype for who reads memory: with the order in which the bytes of a number lie there."""
    try:
        return _SPELLED[DEFAULT.real][dtype].numpy
    except (KeyError, TypeError):
        pass
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise DTypeError(f"{told(dtype)}{dtype!r} is not a dtype; weft has {', '.join(EVERY)}") from None
    if found.newbyteorder("=") in FROM_NUMPY:
        return found
    raise DTypeError(f"{told(dtype)}weft has no dtype {found.name!r}; it has {', '.join(EVERY)}")


def of_any_order(dtype: Any) -> Format:
    """The same for who asks what kind of numbers they are, or makes new ones of them, in whatever order their bytes lie."""
    return FROM_NUMPY[stored(dtype).newbyteorder("=")]


def format_of(x: Any) -> Format:
    """Return the format of an array or a scalar, or the format that a dtype or a class of numbers means."""
    return of_any_order(x if isinstance(x, type) else getattr(x, "dtype", x))  # np.float32 is a class with a dtype


def layout(order: Any, function: str, words: str = "CFAK") -> str:
    """NumPy's word for how memory lies, as one of these letters; None is C. Another one is refused."""
    if order is None:
        return "C"
    if type(order) is not str:
        raise DTypeError(f"{function}: order must be one of {_quoted(words)}, not {order!r}")
    if len(order) != 1 or order.upper() not in words:
        raise ValueError(f"{function}: order={order!r} must be one of {_quoted(words)}")
    return order.upper()


def _quoted(words: str) -> str:
    return ", ".join(map(repr, words))


def to_tuple(given: Any) -> tuple[Any, ...]:
    """Return one thing, or several in a sequence, an array of NumPy or of weft, or an iterator, as a tuple."""
    if type(given) in (tuple, list):
        return tuple(given)
    one = not hasattr(given, "__iter__") or isinstance(given, str | bytes | set | dict) or getattr(given, "shape", None) == ()
    return (given,) if one else tuple(given)


def read_integers(given: Any, what: str) -> tuple[int, ...]:
    """Return an integer, or several as :func:`to_tuple` does; ``what`` names the argument in the error."""
    try:
        return tuple(map(operator.index, to_tuple(given)))
    except TraceError:
        raise
    except TypeError:
        raise DTypeError(f"{what} must be an integer or a tuple of integers, not {short(given)}") from None


def liked(like: Any, function: str) -> None:
    """NumPy's ``like=``, by which it asks other libraries for their arrays: those of weft are weft's whatever it is."""
    if like is not None and not hasattr(type(like), "__array_function__"):
        raise DTypeError(f"{function}: like must be an array, not {type(like).__name__}")
