"""Write in place to memory that nothing else refers to."""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from weft.devices.base import ELSEWHERE
from weft.dtypes.formats import FLOAT32
from weft.eager.materialise import materialise
from weft.graph.node import Node
from weft.graph.primitives.table import INPUT, SCALAR, input_leaf
from weft.runtime import execute
from weft.runtime.cell import BEING_WRITTEN
from weft.runtime.context import LOCAL

# ---- writes


def in_own_memory(cell: Any, write: Callable[[np.ndarray], bool]) -> bool:
    """Call ``write(memory)`` on what a cell holds (computed, if it was pending), where nobody else holds that, or on a small copy
    of it. Return whether it wrote.

    So only what is written is touched, however large the array is. Who reads meanwhile in another thread finds a leaf that gets
    its content when the write is done, and looks wait for that: to be called under ``WRITING``, where anything is computed at
    once. Nobody can get at the memory once it is known that nobody has it, and whoever followed a view of it before follows it
    again.
    """
    if LOCAL.trace is not None:
        return False
    before = cell._node
    if before.value is None:
        materialise((before,))
    if before.op is SCALAR or (ELSEWHERE and not execute.fetched(before)):
        return False
    shape, dtype = before.shape, before.dtype
    after, buffer, done = Node(INPUT, (), before.params, shape, dtype), before.value, False
    BEING_WRITTEN.add(after)
    cell._node = after
    try:
        memory = None
        if _holders(before, buffer) == _ALONE:
            memory = execute.writable(buffer, shape, dtype)
        if memory is None and before.nbytes <= LOCAL.at_once:
            buffer = execute.to_buffer(execute.memory(buffer, shape, dtype))
            memory = execute.writable(buffer, shape, dtype)
        done = memory is not None and write(memory)
    finally:
        if done:
            after.value = buffer
        else:  # which others hold
            cell._node = before
            if _held(after) != _UNHELD:  # a node has a buffer of its own
                after.value = execute.to_buffer(execute.memory(before.value, shape, dtype))
        BEING_WRITTEN.discard(after)
    return done


def _held(leaf: Node) -> int:
    (count,) = map(getrefcount, [leaf])
    return count


def _unheld() -> int:
    """What :func:`_held` tells of a leaf that only a variable and a set hold."""
    leaf = input_leaf((), FLOAT32)
    held = {leaf}
    return _held(leaf) if held else 0


def _holders(node: Node, buffer: Any) -> tuple[int, ...]:
    """What getrefcount tells, over map, of a node and of its buffer."""
    return tuple(map(getrefcount, (node, buffer)))


def _alone() -> tuple[int, ...]:
    """The same of a node that only a variable holds, and a buffer that only its node and a variable hold; Pythons differ."""
    node = input_leaf((), FLOAT32, object())
    buffer = node.value
    return _holders(node, buffer)


_UNHELD, _ALONE = _unheld(), _alone()
