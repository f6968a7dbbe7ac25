"""Effects: operations that act on other processes, such as a sum over the ranks of a job, in the order of the program.

An effect takes place once, in the program's order, whether or not its result is read. Its last operand is a *turn*: an int32 that
depends on the effect before it, so no pass can move an effect past another, merge two, or share one with a look at a value.
Functions get the first turn from a cell (``weft/transforms/effect_order.py``) and write the last one back, so the rules for
written arrays keep effects: a jitted function returns the turn, a loop carries it.

Derivative rules add effects while a graph is walked. :func:`collect_effects` gives them their turns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.dtypes.formats import INT32
from weft.graph.node import Graph, Node, Primitive, rebuild
from weft.graph.primitives.common import zero_vjp
from weft.graph.primitives.table import bind, constant


class _Walk(threading.local):
    """The effects that derivative rules have added in the running walk, in order; None outside of walks that collect them."""

    added: list[Node] | None = None
    turn: Node | None = None


_WALK = _Walk()


def turn_after(*nodes: Node) -> Node:
    """Return the turn of an effect that takes place after ``nodes`` are computed."""
    return bind(TURN, *nodes)


def first_turn() -> Node:
    """Return the turn of an effect that waits for no other."""
    return constant(0, INT32)


TURN = Primitive(
    "turn", "host", lambda *inputs: ((), INT32), lambda *arrays: np.zeros((), np.int32), None, zero_vjp,
    lambda inputs, dims: (turn_after(*inputs), None),  # one turn for all examples
)


@contextmanager
def collect_effects(turn: Node | None) -> Iterator[list[Node]]:
    """Give the list of the effects that derivative rules add inside; the first of them takes place at ``turn``."""
    before = _WALK.added, _WALK.turn
    _WALK.added, _WALK.turn = [], turn
    try:
        yield _WALK.added
    finally:
        _WALK.added, _WALK.turn = before


def add_effect(op: Primitive, *inputs: Node, **params: Any) -> Node:
    """Return an effect of a derivative rule, which takes place after those that the walk added before."""
    added = _WALK.added
    turn = turn_after(added[-1]) if added else _WALK.turn or first_turn()
    node = bind(op, *inputs, turn, **params)
    if added is not None:
        added.append(node)
    return node


def order_effects(nodes: Sequence[Node], operands: Iterable[Node]) -> list[Node]:
    """Return the results of a user's derivative rule for these operands, its effects behind those that the walk added before."""
    graph = Graph(list(operands), nodes)
    if not has_effects(graph.order):
        return list(nodes)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        return add_effect(node.op, *inputs[:-1], **node.params) if node.op.effect else node.on(inputs)

    return [*rebuild(graph, change).outputs]


def has_effects(order: Sequence[Node]) -> bool:
    """Return whether one of the nodes is an effect that has not taken place."""
    return any([n.op.effect and n.value is None for n in order])
