"""What a function writes outside: all of it or, where the function, the gradient or what was written fails, nothing.

A gradient's function, and an optimizer's update, write as they go, for later lines read that. So what arrays held before is
remembered meanwhile, and given back by whatever is raised: errors of Python, those of what is computed when all is over (nothing
can be, until the graph of a gradient has been walked), Ctrl-C. One within another takes back its own part.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import Any

from weft.eager.materialise import proven
from weft.graph.node import Node
from weft.runtime.cell import UNDO, Cell
from weft.runtime.context import LOCAL
from weft.transforms.tree import arrays_in


def landed(f: Callable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``f(*args, **kwargs)``, which has written all or nothing when this is over."""
    me = get_ident()
    outer = UNDO.get(me)
    mine = UNDO[me] = _Noted(LOCAL.trace)
    try:
        try:
            out = f(*args, **kwargs)
        finally:
            if outer is None:
                UNDO.pop(me, None)
            else:
                UNDO[me] = outer
        if mine.held and not LOCAL.inside and (written := mine.written()):
            proven([*written, *[a.node for a in arrays_in(out)]])
    except BaseException:
        mine.give_back()
        raise
    if outer is not None and mine.held:
        outer.take(mine)
    return out


class _Noted:
    """What cells held before they were written, as one trace sees them (``trace``; None outside), by the cell's id."""

    __slots__ = ("held", "trace")

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        self.held: dict[int, tuple[Any, Node | None]] = {}  # a weak reference, and the node; None: the trace knew of none

    def note(self, cell: Cell) -> None:
        """Remember what the cell holds, if it is about to be written for the first time."""
        trace = self.trace
        if LOCAL.trace is not trace:
            return  # what is written in a trace further inside lands here when that is over
        known = self.held.get(id(cell))
        if known is None or known[0]() is not cell:
            own = trace is None or trace.owns(cell)
            node = cell._node if own else trace.nodes.get(id(cell))
            self.held[id(cell)] = weakref.ref(cell), node

    def take(self, later: _Noted) -> None:
        """Remember what was remembered in something inside that is over."""
        if later.trace is not self.trace:
            return
        for key, note in later.held.items():
            known = self.held.get(key)
            if known is None or known[0]() is not note[0]():
                self.held[key] = note

    def written(self) -> list[Node]:
        """What cells hold now that held something else."""
        cells = [(ref(), node) for ref, node in self.held.values()]
        return [cell._node for cell, node in cells if cell is not None and cell._node is not node]

    def give_back(self) -> None:
        """Let all cells hold what they held."""
        for ref, node in self.held.values():
            cell = ref()
            if cell is None:
                continue
            if self.trace is None:
                cell._node = node
            else:
                self.trace.unwrite(cell, node)
