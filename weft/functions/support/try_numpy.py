"""Call NumPy if the operands are small and its result has the same bits.

A call (``take``, ``stack``, ``outer``) costs NumPy's call and about 5 us.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, ndarray, own, wrap
from weft.dtypes.formats import FROM_NUMPY
from weft.eager.peek import leaf
from weft.eager.policy import can_run_now, is_enabled

_MANY = 64  # arrays in a list from which on a graph takes longer than their copies
RISKY_INT = 1 << 30  # integers of this size are not passed to NumPy's C code


def try_numpy(numpys: Callable[..., Any], *args: Any, most: float | None = None, **options: Any) -> Array | None:
    """Return NumPy's result for small materialised arrays and integers, or None if the function must compute it otherwise.

    ``numpys`` moves elements or rounds once, so its result has the same bits. ``most`` is the largest size of the result, by
    default that of the operands; a long list of arrays may have a larger result, because its graph would cost more than the
    copies.

    NumPy's C code negates and adds integers without a check (``diag(x, -2**31)`` of NumPy 2.4 ends the process), so calls with
    a large integer argument or ``axis`` return None.
    """
    axis = options.get("axis")
    if not is_enabled() or (type(axis) is int and abs(axis) >= RISKY_INT):
        return None
    operands: list[Any] = []
    size = 0
    for x in args:
        kind = type(x)
        if kind is ndarray:
            content = x._peek()
            if content is None:
                return None
            size += content.size
            operands.append(content)
        elif kind is int and abs(x) < RISKY_INT:
            operands.append(x)
        elif kind in (list, tuple) and x and all([type(part) is ndarray for part in x]):
            parts = [part._peek() for part in x]
            if any([part is None for part in parts]) or len({part.dtype for part in parts}) > 1:
                return None
            sizes = [part.size for part in parts]
            size += sum(sizes) if len(sizes) < _MANY else max(sizes)
            operands.append(parts)
        else:
            return None
    if not can_run_now(8 * (size if most is None else most)):
        return None
    try:
        with np.errstate(all="ignore"):
            result = numpys(*operands, **options)
    except (TypeError, ValueError, IndexError):
        return None
    node = leaf(result, FROM_NUMPY[result.dtype])
    return wrap(node) if isinstance(result, np.generic) else own(node)
