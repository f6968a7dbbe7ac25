"""What ``wf.float32(x)`` and its kin give."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import is_argument
from weft.dtypes.formats import FLOATS, FROM_NUMPY
from weft.eager import implementations
from weft.functions.casting import astype
from weft.functions.creation import array, asarray
from weft.graph.primitives.table import input_leaf
from weft.runtime.context import LOCAL


def scalar_of(dtype: np.dtype, x: Any, imag: Any = None) -> Array:
    """A number in a dtype; of what has dimensions an array."""
    if imag is not None:
        if dtype.kind != "c":
            raise TypeError(f"{dtype.name}: one number is taken, not two; complex64(real, imag) takes two")
        x = asarray(x) + 1j * asarray(imag)
    form = FROM_NUMPY[dtype]
    if LOCAL.small and form in FLOATS and is_argument(x, form) and abs(x) <= min(65504, form.reach):  # as elements have
        return wrap(input_leaf((), form, implementations.number(x, form)))
    if x is None or isinstance(x, str | bytes):
        x = array(x, dtype)
    found = astype(x, dtype)
    return found if found.ndim else found[()]
