"""Stores of a kernel under construction."""

from __future__ import annotations

from weft.graph.node import Node
from weft.kernel.index import Guard, Index
from weft.kernel.ir import Value


class Pending:
    """A store whose buffer has no number yet."""

    __slots__ = ("guard", "index", "mode", "node", "value")

    def __init__(self, node: Node, index: Index, guard: tuple[Guard, ...], value: Value, mode: str = "set") -> None:
        self.node = node
        self.index = index
        self.guard = guard
        self.value = value
        self.mode = mode
