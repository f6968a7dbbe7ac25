"""Trace: the record that a transform keeps while it calls the user's function.

A trace does not change cells from outside: it stores the node that a read returns and the node of the last write, and the
transform writes the cells when the trace is over. Cells made inside belong to the trace and hold their nodes themselves.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from weft.array import Array
from weft.dtypes.formats import Format
from weft.graph.node import Node
from weft.graph.primitives.table import input_leaf, scalar_leaf
from weft.process.completion import complete_message
from weft.runtime.cell import Cell
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import Tape


def leave_traces() -> None:
    """Leave all traces and gradients of this thread."""
    CONTEXT.trace, CONTEXT.variables = None, frozenset()
    CONTEXT.transform_depth = CONTEXT.retain_graph = CONTEXT.custom_rules = 0


def leave_traces_on_interrupt(transform: Callable) -> Callable:
    """Decorate a function that enters traces: the outermost call leaves all of them if Ctrl-C ends it.

    Ctrl-C may come within ``Trace.__enter__`` or ``Trace.__exit__``, which then do not restore the context.
    """

    @functools.wraps(transform)
    def call(*args: Any, **kwargs: Any) -> Any:
        if CONTEXT.transform_depth:
            return transform(*args, **kwargs)
        try:
            return transform(*args, **kwargs)
        except BaseException as error:
            if not isinstance(error, Exception):
                leave_traces()
            raise

    return call


class Trace:
    """Base class: reads fall through to the enclosing trace, writes are recorded in ``nodes`` and ``written_cells``."""

    read_error = ""  # the traced function in an error message, if values cannot be read
    fixes_numbers = False
    carries_turns = True  # whether effects inside take their turns from the cell: see ``effect_order.py``
    tape: Any = None  # the ``Tape`` of run-time numbers

    def __init__(self, f: Any = None) -> None:
        self.source_line = None if f is None else (getattr(f, "__code__", None), -1)  # where ``f`` begins, for error messages
        self.parent: Trace | None = None
        self.nodes: dict[int, Node] = {}
        self.written_cells: dict[int, Cell] = {}
        self.made_arrays: list[weakref.ref] = []  # arrays made in the trace
        self.sets_attributes = True  # whether each call sets the attributes that the function sets in the trace
        self.one_call_only = False  # whether the trace is valid for this call only
        self.forgetful: set[int] = set()  # ids of layers whose state was reset in the trace

    def __enter__(self) -> Any:
        self.parent = CONTEXT.trace
        CONTEXT.trace = self
        CONTEXT.transform_depth += 1
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        CONTEXT.trace = self.parent
        CONTEXT.transform_depth -= 1
        if isinstance(error, TypeError):
            complete_message(error)

    def read(self, cell: Cell) -> Node:
        if self.owns(cell):
            return cell._node
        node = self.nodes.get(id(cell))
        return node if node is not None else self.outer(cell)

    def outer(self, cell: Cell) -> Node:
        """Return the node of the cell in the enclosing trace, or its own node if there is none."""
        parent = self.parent
        return cell._node if parent is None or parent.owns(cell) else parent.read(cell)

    def owns(self, cell: Cell) -> bool:
        """Return whether the cell was made in this trace, or in an inner trace that has ended."""
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
        self.written_cells[id(cell)] = cell

    def unwrite(self, cell: Cell, node: Node | None) -> None:
        """Restore ``node`` as the content of the cell in this trace; None if the trace had no node of the cell."""
        if self.owns(cell) and node is not None:
            cell._node = node
        elif node is not None:
            self.nodes[id(cell)] = node
        else:
            self.nodes.pop(id(cell), None)
            self.written_cells.pop(id(cell), None)

    def scalar(self, leaf: Node, dtype: Format) -> Node:
        """Return the run-time number of the float64 leaf ``leaf`` in ``dtype``."""
        assert self.parent is not None
        return self.parent.scalar(leaf, dtype)


class JitTrace(Trace):
    """The trace of ``jit``: cells from outside become inputs of the program when they are read."""

    read_error = "a function traced by wf.jit"
    fixes_numbers = True

    tape: Tape

    def __init__(self, leaves: int, f: Any = None) -> None:
        super().__init__()
        self.sets_attributes = str(getattr(f, "__module__", "")).partition(".")[0] != "weft"
        self.tape = Tape(leaves)
        self.captured_cells: list[tuple[Array, Node]] = []  # cells and their placeholders
        self.scalars: dict[Node, dict[Format, Node]] = {}

    def outer(self, cell: Cell) -> Node:
        node = self.nodes[id(cell)] = input_leaf(cell._node.shape, cell._node.dtype)
        self.captured_cells.append((cell, node))  # type: ignore[arg-type]
        return node

    def scalar(self, leaf: Node, dtype: Format) -> Node:
        """Return the leaf of a float argument for ``dtype``. One leaf per dtype saves casts inside kernels."""
        leaves = self.scalars.setdefault(leaf, {leaf.dtype: leaf})
        if dtype not in leaves:
            leaves[dtype] = scalar_leaf(None, dtype)
        return leaves[dtype]


class VmapTrace(Trace):
    """The trace of ``vmap``: its arrays are placeholders of one example, without values."""

    read_error = "a function under wf.vmap"

    def __init__(self, f: Any) -> None:
        super().__init__(f)
        self.cells_read: set[int] = set()  # ids of cells from outside that were read

    def outer(self, cell: Cell) -> Node:
        self.cells_read.add(id(cell))
        return super().outer(cell)
