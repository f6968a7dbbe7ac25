"""Write log: a function's writes to outside arrays are undone if the function, its gradient or the computation of a value fails.

The function of a gradient and the update of an optimizer write immediately, because later lines read the arrays. The log keeps
the previous content of each written array and restores it on any exception: Python's, Ctrl-C, and errors of values that are
only computed at the end (the graph of a gradient is walked first). Nested logs restore their own part.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import Any

from weft.eager.materialise import proven
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
        if log.held and not CONTEXT.transform_depth and (written := log.written()):
            proven([*written, *[a.node for a in arrays_in(out)]])
    except BaseException:
        log.give_back()
        raise
    if outer is not None and log.held:
        outer.take(log)
    return out


class _WriteLog:
    """The contents of cells before they were written, by id, as seen by ``trace`` (None outside traces)."""

    __slots__ = ("held", "trace")

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        self.held: dict[int, tuple[Any, Node | None]] = {}  # a weak reference, and the node; None: the trace had none

    def note(self, cell: Cell) -> None:
        """Record the content of a cell before its first write."""
        trace = self.trace
        if CONTEXT.trace is not trace:
            return  # an inner trace writes its cells here when it is over
        entry = self.held.get(id(cell))
        if entry is None or entry[0]() is not cell:
            own = trace is None or trace.owns(cell)
            node = cell._node if own else trace.nodes.get(id(cell))
            self.held[id(cell)] = weakref.ref(cell), node

    def take(self, later: _WriteLog) -> None:
        """Add the records of an inner log that is over."""
        if later.trace is not self.trace:
            return
        for key, note in later.held.items():
            entry = self.held.get(key)
            if entry is None or entry[0]() is not note[0]():
                self.held[key] = note

    def written(self) -> list[Node]:
        """Return the current nodes of the cells whose content has changed."""
        cells = [(ref(), node) for ref, node in self.held.values()]
        return [cell._node for cell, node in cells if cell is not None and cell._node is not node]

    def give_back(self) -> None:
        """Restore the recorded contents."""
        for ref, node in self.held.values():
            cell = ref()
            if cell is None:
                continue
            if self.trace is None:
                cell._node = node
            else:
                self.trace.unwrite(cell, node)
