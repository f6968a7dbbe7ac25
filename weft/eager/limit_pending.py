"""Compute pending work when much of it has gathered."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from weft.errors import OF_RUNS
from weft.graph.node import Node, topological
from weft.graph.primitives.table import is_placeholder
from weft.runtime.context import LOCAL
from weft.runtime.pending import FIRST, MOST_BYTES, MOST_NODES, _keep, _nbytes, _pending, _sweep

ENOUGH = MOST_NODES // 2  # from here on a graph is cut where the last one was cut, so that turns of a loop give the same graph
TURNS, SHORT = 16, 128  # of what a loop has written so often that a line stands so often in it, from so many nodes on
EVERY = 256  # Arrays made, at most, between two looks at how much is pending


def enlist(held: weakref.ref, node: Node) -> None:
    """Note that an Array has the pending content ``node``."""
    handles = LOCAL.handles
    handles.append(held)
    if len(handles) >= handles.limit:
        cut(node)


def cut(node: Node) -> None:
    """See how much is pending in this thread, ``node`` being the latest; compute it where that is too much."""
    handles = LOCAL.handles
    if LOCAL.inside:
        _sweep(handles)
        handles.limit = 2 * len(handles) + EVERY
        return
    where = node.where
    line = None if where is None else where[:2]
    known = handles.waits and line == handles.line
    if handles.waits and not known and len(handles) < handles.until:
        return
    since = len(handles) - handles.counted
    _sweep(handles)
    handles.counted = len(handles)
    waiting = [n for n in map(_pending, handles) if n is not None]
    order = topological(waiting)
    handles.waits = False
    if known:
        return _compute(waiting, order, line)
    pending = [n for n in order if n.value is None]
    total = _nbytes(pending)
    turns = _turns(pending)
    enough, most = (SHORT, ENOUGH) if turns else (ENOUGH, MOST_NODES)
    if len(pending) >= most or (len(pending) >= enough and handles.line is None):
        _compute(waiting, order, line)
    elif total >= MOST_BYTES and (total := _nbytes([n for n in topological((node,)) if n.value is None])) >= MOST_BYTES:
        _compute([node], topological([node]), line)
    else:  # again when half of what is left may be used up; where what is pending does not grow, seldom
        rate = (len(pending) - handles.known) / max(1, since)  # nodes an Array
        handles.known = len(pending)
        handles.waits = rate > 0.1 and len(pending) >= enough
        room = (MOST_BYTES - total) * (len(pending) + 1) // (total + 1) // 2
        more = SHORT - len(pending) if len(pending) < SHORT else ((most if handles.waits else enough) - len(pending)) // 2
        left = min(more, room)
        soon = max(FIRST, min(EVERY, int(left / rate))) if rate > 0.1 else max(EVERY, min(4 * EVERY, 4 * len(pending)))
        handles.until = len(handles) + soon
        handles.limit = len(handles) if handles.waits else handles.until


def _turns(pending: Sequence[Node]) -> bool:
    """Whether several turns of a loop are pending."""
    if len(pending) < SHORT:
        return False
    lines = Counter([n.where[:2] for n in pending if n.where is not None])
    return bool(lines) and max(lines.values()) >= TURNS


def _known(nodes: list[Node], order: Sequence[Node]) -> list[Node]:
    """Those that rest on no placeholder: an Array that a trace left behind has no content, now or ever."""
    if not any(map(is_placeholder, order)):
        return nodes
    unknown: set[Node] = set()
    for n in order:
        if is_placeholder(n) or (n.value is None and any(i in unknown for i in n.inputs)):
            unknown.add(n)
    return [n for n in nodes if n not in unknown]


def _computed(nodes: Sequence[Node], order: Sequence[Node] | None = None) -> list[Node]:
    """Compute these; what fails is given back. Nobody asked for it yet: whoever does will hear why, and it is not tried again."""
    try:
        compute[0](nodes, order)
    except OF_RUNS:
        half = len(nodes) // 2
        return [*_computed(nodes[:half]), *_computed(nodes[half:])] if half else list(nodes)
    return []


def _compute(waiting: list[Node], order: Sequence[Node], line: Any) -> None:
    """Compute what waits, ``order`` being all that is behind it. Here the next turn of a loop is cut, too."""
    nodes = _known(waiting, order)
    handles = LOCAL.handles
    handles.limit = len(handles) + EVERY
    handles.line = line
    failed = _computed(nodes, order if len(nodes) == len(waiting) else None)
    _sweep(handles)
    if failed:
        _keep(handles, 0, [ref for ref in handles if _pending(ref) not in failed])
    handles.limit, handles.known = len(handles) + FIRST, 0


compute: list[Callable[[Sequence[Node], Sequence[Node] | None], Any]] = []  # look.py's own: it imports this file
