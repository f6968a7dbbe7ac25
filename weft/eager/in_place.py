"""Writing in place to memory that has no other reference.

A write touches only the elements that it writes if nothing else refers to node and buffer. The reference counts of an object
that is certainly unshared are measured at start, so that no count of a Python version is written down. A view remembers the
node that it was read from by a weak reference, which is no reference in this sense.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.dtypes.formats import FLOAT32
from weft.eager.materialise import materialise
from weft.eager.native import NATIVE_ELEMENTS, not_available
from weft.eager.policy import is_enabled
from weft.graph.node import Node
from weft.graph.primitives.table import INPUT, SCALAR, input_leaf
from weft.runtime import execute
from weft.runtime.cell import NODES_BEING_WRITTEN
from weft.runtime.context import CONTEXT


def write_if_unshared(cell: Any, write: Callable[[np.ndarray], bool]) -> bool:
    """Call ``write(memory)`` on a cell's buffer if nothing else refers to it, else on a copy if the buffer is small. Return
    whether it wrote. A pending content is computed first.

    Only the written part is touched, however large the array is. Meanwhile the cell holds a leaf without a value; a thread that
    reads it waits for ``WRITE_LOCK`` (the caller holds it). Since the cell no longer leads to the buffer, no thread can take a
    new reference to it, and earlier views are read again from the new leaf. It does nothing where eager work is off.
    """
    if not is_enabled():
        return False
    before = cell._node
    native = NATIVE_ELEMENTS.open
    if before.value is not None and native is not not_available:
        after = Node(INPUT, (), before.params, before.shape, before.dtype)
        del before
        opened: list[Any] = [None]  # a returned array would be lost if a signal came before it is stored
        NODES_BEING_WRITTEN.add(after)
        try:
            if native(cell, after, opened):
                return write(opened[0])
        finally:
            if (memory := opened[0]) is not None:
                after.value = memory.base
            NODES_BEING_WRITTEN.discard(after)
        before = cell._node
    if before.value is None:
        materialise((before,))
    if before.op is SCALAR or (DEVICE_OF_BUFFER_TYPE and not execute.move_if_small(before)):
        return False
    shape, dtype = before.shape, before.dtype
    after, buffer, written = Node(INPUT, (), before.params, shape, dtype), before.value, False
    NODES_BEING_WRITTEN.add(after)
    cell._node = after
    try:
        memory = None
        if _count_references(before, buffer) == _SOLE_OWNER:
            memory = execute.eager_device().writable(buffer, shape, dtype)
        if memory is None and before.nbytes <= CONTEXT.max_eager_bytes:
            buffer = execute.to_buffer(execute.eager_device().memory(buffer, shape, dtype))
            memory = execute.eager_device().writable(buffer, shape, dtype)
        written = memory is not None and write(memory)
    finally:
        if written:
            after.value = buffer
        else:
            cell._node = before
            if _count_references(after) != _UNSHARED_COUNT:  # another thread took the new leaf, so it needs a buffer of its own
                after.value = execute.to_buffer(execute.eager_device().memory(before.value, shape, dtype))
        NODES_BEING_WRITTEN.discard(after)
    return written


def _count_references(*objects: Any) -> tuple[int, ...]:
    """Return the reference counts of objects, as a map sees them. They differ between Python versions."""
    return tuple(map(getrefcount, objects))


def _count_unshared() -> tuple[int, ...]:
    """Return the count of a leaf that only a variable and a set refer to."""
    leaf = input_leaf((), FLOAT32)
    owners = {leaf}
    return _count_references(leaf) if owners else ()


def _count_sole_owner() -> tuple[int, ...]:
    """Return the counts of a node and its buffer, without other references."""
    node = input_leaf((), FLOAT32, object())
    buffer = node.value
    return _count_references(node, buffer)


_UNSHARED_COUNT, _SOLE_OWNER = _count_unshared(), _count_sole_owner()
