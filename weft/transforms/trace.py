"""Trace: what a transform keeps while it calls the user's function.

Cells from outside are not touched by a trace. Reading one gives what the trace knows of it; writing one is recorded
and lands when the trace is over. Cells made inside belong to the trace and hold their nodes themselves.
"""

from __future__ import annotations

import weakref
from typing import Any

from weft.array import Array
from weft.dtypes.formats import Format
from weft.graph.node import Node
from weft.graph.primitives.table import input_leaf, scalar_leaf
from weft.runtime.cell import Cell
from weft.runtime.context import LOCAL
from weft.runtime.traced_int import Tape


class Trace:
    """The base: reads fall through to the trace outside, writes stay here until :meth:`land`."""

    looks = ""
    fixes_numbers = False
    where: Any = None  # the user's line where what is traced begins, if a look may have to name it
    tape: Any = None  # of the numbers that each call tells

    def __init__(self) -> None:
        self.parent: Trace | None = None
        self.nodes: dict[int, Node] = {}
        self.written: dict[int, Cell] = {}
        self.made: list[weakref.ref] = []  # handles made in the trace
        self.once = False  # whether it made something that other calls find as it is, or anew
        self.forgetful: set[int] = set()  # by id: layers that forgot their state in it

    def __enter__(self) -> Any:
        self.parent = LOCAL.trace
        LOCAL.trace = self
        LOCAL.inside += 1
        return self

    def __exit__(self, *exc: object) -> None:
        LOCAL.trace = self.parent
        LOCAL.inside -= 1

    def read(self, cell: Cell) -> Node:
        if self.owns(cell):
            return cell._node
        node = self.nodes.get(id(cell))
        return node if node is not None else self.outer(cell)

    def outer(self, cell: Cell) -> Node:
        """What the cell holds outside this trace."""
        parent = self.parent
        return cell._node if parent is None or parent.owns(cell) else parent.read(cell)

    def owns(self, cell: Cell) -> bool:
        """Whether the cell was made in this trace, or in one inside it that has ended."""
        trace = cell._trace
        while trace is not None:
            if trace is self:
                return True
            trace = trace.parent
        return False

    def write(self, cell: Cell, node: Node) -> None:
        if self.owns(cell):
            cell._node = node
            return
        self.nodes[id(cell)] = node
        self.written[id(cell)] = cell

    def unwrite(self, cell: Cell, node: Node | None) -> None:
        """Take back what was written since the trace knew ``node`` of the cell; None: nothing."""
        if self.owns(cell) and node is not None:
            cell._node = node
        elif node is not None:
            self.nodes[id(cell)] = node
        else:
            self.nodes.pop(id(cell), None)
            self.written.pop(id(cell), None)

    def scalar(self, leaf: Node, dtype: Format) -> Node:
        """A run-time number, given as a float64 leaf, in another dtype."""
        assert self.parent is not None
        return self.parent.scalar(leaf, dtype)


class JitTrace(Trace):
    """Outside cells become inputs of the program when they are read."""

    looks = "a function traced by wf.jit"
    fixes_numbers = True

    tape: Tape

    def __init__(self, leaves: int) -> None:
        super().__init__()
        self.tape = Tape(leaves)
        self.captured: list[tuple[Array, Node]] = []  # cell, placeholder
        self.scalars: dict[Node, dict[Format, Node]] = {}

    def read(self, cell: Cell) -> Node:
        if self.owns(cell):
            return cell._node
        node = self.nodes.get(id(cell))
        if node is None:
            outside = cell._node
            node = input_leaf(outside.shape, outside.dtype)
            self.nodes[id(cell)] = node
            self.captured.append((cell, node))  # type: ignore[arg-type]
        return node

    def scalar(self, leaf: Node, dtype: Format) -> Node:
        """A leaf of its own for each dtype that a float argument is used in: no cast inside kernels."""
        leaves = self.scalars.setdefault(leaf, {leaf.dtype: leaf})
        if dtype not in leaves:
            leaves[dtype] = scalar_leaf(None, dtype)
        return leaves[dtype]


class VmapTrace(Trace):
    """One example stands for all: contents are not known."""

    looks = "a function under wf.vmap"

    def __init__(self, f: Any) -> None:
        super().__init__()
        self.where = getattr(f, "__code__", None), -1
        self.seen: set[int] = set()  # cells from outside that were read

    def outer(self, cell: Cell) -> Node:
        self.seen.add(id(cell))
        return super().outer(cell)
