"""The write log, which undoes a function's writes to outside arrays if the function, its gradient or a computation fails.

The function of a gradient and the update of an optimizer write immediately, because later lines read the arrays. The log keeps
the previous content of each written array and restores it on any exception: Python's, Ctrl-C, and errors of values that are
only computed at the end (the graph of a gradient is walked first). Nested logs restore their own part.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import Any

from weft.eager.materialise import compute_fallible
from weft.graph.node import Node
from weft.runtime.cell import WRITE_LOGS, Cell
from weft.runtime.context import CONTEXT
from weft.transforms.tree import arrays_in


def call_atomically(f: Callable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return ``f(*args, **kwargs)``; if it raises, restore every array that it wrote."""
    me = get_ident()
    outer = WRITE_LOGS.get(me)
    log = WRITE_LOGS[me] = _WriteLog(CONTEXT.trace)
    try:
        try:
            out = f(*args, **kwargs)
        finally:
            if outer is None:
                WRITE_LOGS.pop(me, None)
            else:
                WRITE_LOGS[me] = outer
        if log.records and not CONTEXT.transform_depth and (written := log.changed_nodes()):
            compute_fallible([*written, *[a.node for a in arrays_in(out)]])
    except BaseException:
        log.restore()
        raise
    if outer is not None and log.records:
        outer.add_log(log)
    return out


class _WriteLog:
    """The contents that cells had before they were written, as seen by ``trace`` (None outside traces)."""

    __slots__ = ("records", "trace")

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        # id of a cell -> (weak reference, node before the write; None if the trace had none)
        self.records: dict[int, tuple[Any, Node | None]] = {}

    def record(self, cell: Cell) -> None:
        """Record the content of a cell before its first write."""
        trace = self.trace
        if CONTEXT.trace is not trace:
            return  # an inner trace writes its cells when it ends, and they are recorded then
        entry = self.records.get(id(cell))
        if entry is None or entry[0]() is not cell:
            own = trace is None or trace.owns(cell)
            node = cell._node if own else trace.nodes.get(id(cell))
            self.records[id(cell)] = weakref.ref(cell), node

    def add_log(self, later: _WriteLog) -> None:
        """Add the records of an inner log whose function has returned."""
        if later.trace is not self.trace:
            return
        for key, note in later.records.items():
            entry = self.records.get(key)
            if entry is None or entry[0]() is not note[0]():
                self.records[key] = note

    def changed_nodes(self) -> list[Node]:
        """Return the current nodes of the cells whose content has changed."""
        cells = [(ref(), node) for ref, node in self.records.values()]
        return [cell._node for cell, node in cells if cell is not None and cell._node is not node]

    def restore(self) -> None:
        """Restore the recorded contents."""
        for ref, node in self.records.values():
            cell = ref()
            if cell is None:
                continue
            if self.trace is None:
                cell._node = node
            else:
                self.trace.unwrite(cell, node)
