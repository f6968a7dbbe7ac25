"""Spelling: what users write where a dtype is place_of for, as the format it means."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import DTypeError, place_of
from weft.formats import BOOL, COMPLEX64, COMPLEX128, DEFAULT, EVERY, FLOAT32, FLOAT64, FROM_NUMPY, INT64, Format

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
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise DTypeError(f"{_where(dtype)}{dtype!r} is not a dtype; weft has {', '.join(EVERY)}") from None
    native = found.newbyteorder("=")
    if native in FROM_NUMPY:
        return FROM_NUMPY[native]
    raise DTypeError(f"{_where(dtype)}weft has no dtype {found.name!r}; it has {', '.join(EVERY)}")


def _where(dtype: Any) -> str:
    """What was called, and its argument, as the beginning of a message."""
    function, argument = place_of(dtype)
    return f"{function}: {argument}: " if argument else f"{function}: " if function else ""
