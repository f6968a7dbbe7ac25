"""Call NumPy where operands are small and its result has the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, ndarray, own, wrap
from weft.devices.base import ELSEWHERE
from weft.dtypes.formats import FROM_NUMPY
from weft.eager.peek import leaf
from weft.graph.primitives.table import SCALAR
from weft.runtime import execute
from weft.runtime.context import LOCAL

_MANY = 64  # arrays in a list
LEAST_RISKY = 1 << 30  # integers from here on are not given to NumPy's C code


def by_numpy(numpys: Callable[..., Any], *args: Any, most: float | None = None, **options: Any) -> Array | None:
    """What a function of NumPy's gives that moves elements, or rounds once: of small arrays that are there, and integers. None of
    others, and of what it refuses.

    most : how many elements the result may have; by default no more than were given. Of a list of many arrays it may have more:
        a graph of as many operands takes longer than their copies

    NumPy's C code negates and adds integers without a check (``diag(x, -2**31)`` of NumPy 2.4 ends the process), so an integer
    that is large as an argument or as ``axis`` is left to the caller.
    """
    axis = options.get("axis")
    if not LOCAL.small or (type(axis) is int and abs(axis) >= LEAST_RISKY):
        return None
    given: list[Any] = []
    size = 0
    for x in args:
        kind = type(x)
        if kind is ndarray:
            seen = _seen(x)
            if seen is None:
                return None
            size += seen.size
            given.append(seen)
        elif kind is int and abs(x) < LEAST_RISKY:
            given.append(x)
        elif kind in (list, tuple) and x and all([type(part) is ndarray for part in x]):
            parts = [_seen(part) for part in x]
            if any([part is None for part in parts]) or len({part.dtype for part in parts}) > 1:
                return None
            sizes = [part.size for part in parts]
            size += sum(sizes) if len(sizes) < _MANY else max(sizes)
            given.append(parts)
        else:
            return None
    if 8 * (size if most is None else most) > LOCAL.small:
        return None
    try:
        with np.errstate(all="ignore"):
            found = numpys(*given, **options)
    except (TypeError, ValueError, IndexError):
        return None
    node = leaf(found, FROM_NUMPY[found.dtype])
    return wrap(node) if isinstance(found, np.generic) else own(node)


def _seen(x: Any) -> Any:
    """What an array holds, to be read for a moment; None where it is not there."""
    node = x.cell._node
    if node.value is None or node.op is SCALAR or (ELSEWHERE and not execute.fetched(node)):
        return None
    return x._shown(execute.memory(node.value, node.shape, node.dtype))
