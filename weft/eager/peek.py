"""Access to small arrays as NumPy arrays, without a copy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.dtypes.formats import Format
from weft.eager.policy import can_run_now
from weft.eager.tiers import content
from weft.graph.node import Node, Shape
from weft.graph.primitives.table import SCALAR, input_leaf
from weft.runtime import execute
from weft.runtime.context import CONTEXT


def peek(*nodes: Node) -> list[np.ndarray] | None:
    """Return read-only NumPy views of small materialised nodes, for immediate use. Return None if one is pending or eager work is
    off."""
    return [content(n) for n in nodes] if can_run_now(max([n.nbytes for n in nodes]), *nodes) else None


def memory_of(node: Node) -> np.ndarray | None:
    """Return a read-only NumPy view of a materialised node of any size, for immediate use; None if the node is pending or a
    number, or if eager work is off."""
    if (
        node.value is None
        or node.op is SCALAR
        or not CONTEXT.eager_limit
        or (DEVICE_OF_BUFFER_TYPE and not execute.move_if_small(node))
    ):
        return None
    return execute.eager_device().memory(node.value, node.shape, node.dtype)


def leaf(x: Any, dtype: Format) -> Node:
    """Return a leaf with the content of a NumPy array whose dtype is that of ``dtype``."""
    return input_leaf(x.shape, dtype, execute.to_buffer(x))


def fill_leaf(shape: Shape, dtype: Format, fill: Callable[[np.ndarray], Any]) -> Node | None:
    """Return a leaf of memory that ``fill`` has written. Return None if it is not small or eager work is off, for empty
    arrays, whose other extents may be large, and for formats that NumPy cannot write."""
    nbytes = math.prod(shape) * dtype.bytes
    if not 0 < nbytes <= CONTEXT.eager_limit or dtype.custom:
        return None
    device = execute.eager_device()
    buffer = device.allocate(nbytes)
    fill(device.memory(buffer, shape, dtype))
    return input_leaf(shape, dtype, buffer)
