"""Spelling: what users write where a dtype is asked for, as the format it means."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import DTypeError
from weft.formats import BOOL, COMPLEX64, EVERY, FLOAT32, FROM_NUMPY, INT64, Format

_SPELLED: dict[Any, Format] = {
    **EVERY, **FROM_NUMPY, **{f.numpy.type: f for f in EVERY.values()}, **{f: f for f in EVERY.values()},
    float: FLOAT32, "float": FLOAT32, complex: COMPLEX64, "complex": COMPLEX64, int: INT64, bool: BOOL,
}


def spelled(dtype: Any) -> Format:
    """The format that a dtype, scalar type, name or Python type means; DTypeError for what weft does not have."""
    try:
        return _SPELLED[dtype]
    except (KeyError, TypeError):
        pass
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise DTypeError(f"{dtype!r} is not a dtype; weft has {', '.join(EVERY)}") from None
    native = found.newbyteorder("=")
    if native in FROM_NUMPY:
        return FROM_NUMPY[native]
    raise DTypeError(f"weft has no dtype {found.name!r}; it has {', '.join(EVERY)}")
