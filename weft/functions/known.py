"""Small arrays that are known now, for NumPy to go on with at once: where it is exact, it has the bits of kernels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from weft import execute, small
from weft.cell import LOCAL
from weft.devices.base import ELSEWHERE
from weft.formats import Format
from weft.graph.node import Node, Shape
from weft.graph.primitives.table import SCALAR, input_leaf


def at_hand(*nodes: Node) -> list[np.ndarray] | None:
    """What small arrays hold, to be read for a moment; None where one has no value or nothing is computed at once."""
    if not small.wanted() or any([n.value is None or n.nbytes > LOCAL.at_once or n.op is SCALAR for n in nodes]):
        return None
    if ELSEWHERE and not execute.fetched(*nodes):
        return None
    return [execute.memory(n.value, n.shape, n.dtype) for n in nodes]


def leaf(x: np.ndarray, dtype: Format) -> Node:
    """A content, of the format that NumPy's dtype is."""
    return input_leaf(x.shape, dtype, execute.to_buffer(x))


def made(shape: Shape, dtype: Format, make: Callable[[], np.ndarray]) -> Node | None:
    """What NumPy makes of nothing, if it is small and anything is computed at once; nothing empty, whose extents may be large."""
    if not 0 < math.prod(shape) * dtype.bytes <= LOCAL.at_once or not small.able():
        return None
    with np.errstate(all="ignore"):
        return leaf(make(), dtype)
