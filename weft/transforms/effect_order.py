"""The order of effects: a cell with the turn of the next one, which transforms treat like every array that a function writes.

So a jitted function runs its effects also if nothing reads their results, a loop carries the turn from step to step, and effects
outside of jit run where the transformed function returns. Outside of transforms an effect runs at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from weft.array import Array, wrap_array
from weft.array.convert import numpy_node
from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.eager.materialise import compute_fallible, read_array, values
from weft.graph.effects import collect_effects, first_turn, turn_after
from weft.graph.node import Graph, Node, Primitive
from weft.graph.primitives.table import bind, input_leaf
from weft.runtime import execute
from weft.runtime.cell import inside_trace
from weft.runtime.context import CONTEXT

_TURN: list[Array] = []  # the cell, made by the first effect of the process


def run_effect(op: Primitive, *inputs: Node, **params: Any) -> Node:
    """Return the result of an effect: computed now outside of transforms, else a node that takes its turn."""
    if not CONTEXT.transform_depth:
        op.rule(*inputs, first_turn(), **params)  # raises errors of shape and dtype
        result = _run_on_device(op, inputs, params)
        if result is not None:
            return result
        assert op.reference is not None
        return numpy_node(op.reference(*map(read_array, inputs), None, **params))
    cell = _cell()
    if CONTEXT.trace is not None and not CONTEXT.trace.carries_turns:
        return bind(op, *inputs, first_turn(), **params)
    node = bind(op, *inputs, cell.node, **params)
    cell._set(turn_after(node))
    return node


def _run_on_device(op: Primitive, inputs: Sequence[Node], params: dict[str, Any]) -> Node | None:
    """Return the result of an effect that runs in the memory of its operand's device, or None if that is the host's."""
    if op.on_device is None or not DEVICE_OF_BUFFER_TYPE:
        return None
    buffers = values(inputs)
    if type(buffers[0]) not in DEVICE_OF_BUFFER_TYPE:
        return None
    leaves = [input_leaf(node.shape, node.dtype, buffer) for node, buffer in zip(inputs, buffers, strict=True)]
    node = bind(op, *leaves, first_turn(), **params)
    with execute.on(execute.owner(buffers[0]).name):
        (result,) = execute.run(Graph(leaves, [node]), buffers)
    return input_leaf(node.shape, node.dtype, result)


def _cell() -> Array:
    if not _TURN:
        with inside_trace(None):  # it belongs to no trace
            _TURN.append(wrap_array(numpy_node(np.zeros((), np.int32))))
    return _TURN[0]


class _AddedEffects:
    """The effects that derivative rules added to a graph."""

    def __init__(self, added: list[Node]) -> None:
        self._added = added

    @property
    def last(self) -> list[Node]:
        """Return the turn after all of them, in a list that is empty if there are none."""
        return [turn_after(self._added[-1])] if self._added else []

    def keep(self, nodes: Sequence[Node]) -> list[Node]:
        """Let them take place although nothing may read them. ``nodes``: any, then the turn of ``last``. Return those before."""
        if not self._added:
            return list(nodes)
        cell = _cell()
        cell._set(turn_after(nodes[-1], cell.node))
        return list(nodes[:-1])

    def run(self, nodes: Sequence[Node]) -> list[Node]:
        """As :meth:`keep`; outside of transforms, let them take place now."""
        rest = self.keep(nodes)
        if self._added:
            compute_fallible([nodes[-1], *rest])
        return rest


@contextmanager
def _collect() -> Iterator[_AddedEffects]:
    with collect_effects(_TURN[0].node) as added:
        yield _AddedEffects(added)


_NONE = nullcontext(_AddedEffects([]))


def ordered_effects() -> AbstractContextManager[_AddedEffects]:
    """Collect the effects that derivative rules add inside. They take place after those that the function asked for.

    A process that has asked for none pays nothing.
    """
    return _collect() if _TURN else _NONE
