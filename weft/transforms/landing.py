"""What the function of a gradient writes outside: all of it or, where that or what the gradient gives fails, nothing.

Such writes land at once, for later lines of the function read them, but nothing can be computed before the graph has been
walked. So what arrays held is remembered meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import get_ident
from typing import Any

from weft.cell import LOCAL, UNDO
from weft.errors import OF_RUNS
from weft.graph.node import Node
from weft.look import proven
from weft.transforms.tree import arrays_in

Noted = dict[int, tuple[Any, Node]]  # by a cell's id: a weak reference to it, and what it held


def landed(f: Callable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``f(*args, **kwargs)``, which calls a user's function to take its derivative; in traces and gradients as it is."""
    me = get_ident()
    if LOCAL.inside or me in UNDO:
        return f(*args, **kwargs)
    noted = UNDO[me] = {}
    try:
        try:
            out = f(*args, **kwargs)
        finally:
            UNDO.pop(me, None)
    except Exception:  # what lines before wrote stays, unless that fails, too
        with suppress(*OF_RUNS):
            _settle(noted, ())
        raise
    _settle(noted, out)
    return out


def set_aside() -> Noted | None:
    """Remember no writes for now: parameters get variables in their place, and their nodes back."""
    return UNDO.pop(get_ident(), None)


def note_again(aside: Noted | None) -> None:
    """Go on with what was set aside."""
    if aside is not None:
        UNDO[get_ident()] = aside


def _settle(noted: Noted, given: Any) -> None:
    if not noted:
        return
    held = [(ref(), node) for ref, node in noted.values()]
    written = [(cell, node) for cell, node in held if cell is not None and cell._node is not node]
    if not written:
        return
    try:
        proven([*[cell._node for cell, _ in written], *[a.node for a in arrays_in(given)]])
    except BaseException:
        for cell, node in written:
            cell._node = node
        raise
