"""Computation of pending work that nothing has read yet, once much of it has gathered.

A pending graph is computed at the line where the last one was computed: from 128 nodes on if several turns of a loop are
pending, else from 1,000. So each turn of a loop gives the same graphs, and they are compiled once. A read after which nothing
is pending starts the count again.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from weft.errors import RUN_ERRORS
from weft.graph.node import Node, topological_order
from weft.graph.primitives.table import is_placeholder
from weft.runtime.context import CONTEXT
from weft.runtime.pending import FIRST, MOST_BYTES, MOST_NODES, _keep, _nbytes, _pending, sweep

ENOUGH = MOST_NODES // 2  # from here on a graph is cut at the line of the last cut, so that a loop's graphs are equal
LOOP_REPEATS = 16  # a source line that occurs this often in a pending graph belongs to a loop ...
MIN_LOOP_NODES = 128  # ... if the graph has at least so many nodes; it is then cut at an iteration
EVERY = 256  # Arrays created, at most, between two counts of pending work


def add_pending(ref: weakref.ref, node: Node) -> None:
    """Add an Array with the pending content ``node`` to the thread's list."""
    handles = CONTEXT.pending
    handles.append(ref)
    if len(handles) >= handles.limit:
        cut(node)


def cut(node: Node) -> None:
    """Count the pending work of this thread, ``node`` being the latest, and compute it if there is too much."""
    handles = CONTEXT.pending
    if CONTEXT.transform_depth:
        sweep(handles)
        handles.limit = 2 * len(handles) + EVERY
        return
    where = node.where
    line = None if where is None else where[:2]
    same_line = handles.waits and line == handles.line
    if handles.waits and not same_line and len(handles) < handles.until:
        return
    since = len(handles) - handles.counted
    sweep(handles)
    handles.counted = len(handles)
    waiting = [n for n in map(_pending, handles) if n is not None]
    order = topological_order(waiting)
    handles.waits = False
    if same_line:
        return _compute(waiting, order, line)
    pending = [n for n in order if n.value is None]
    total = _nbytes(pending)
    in_loop = _has_iterations(pending)
    enough, most = (MIN_LOOP_NODES, ENOUGH) if in_loop else (ENOUGH, MOST_NODES)
    if len(pending) >= most or (len(pending) >= enough and handles.line is None):
        _compute(waiting, order, line)
    elif total >= MOST_BYTES and (total := _nbytes([n for n in topological_order((node,)) if n.value is None])) >= MOST_BYTES:
        _compute([node], topological_order([node]), line)
    else:  # count again when half of the rest may be used up; rarely if the pending work does not grow
        rate = (len(pending) - handles.known) / max(1, since)  # nodes per Array
        handles.known = len(pending)
        handles.waits = rate > 0.1 and len(pending) >= enough
        room = (MOST_BYTES - total) * (len(pending) + 1) // (total + 1) // 2
        more = (
            MIN_LOOP_NODES - len(pending) if len(pending) < MIN_LOOP_NODES
            else ((most if handles.waits else enough) - len(pending)) // 2
        )
        budget = min(more, room)
        distance = max(FIRST, min(EVERY, int(budget / rate))) if rate > 0.1 else max(EVERY, min(4 * EVERY, 4 * len(pending)))
        handles.until = len(handles) + distance
        handles.limit = len(handles) if handles.waits else handles.until


def _has_iterations(pending: Sequence[Node]) -> bool:
    """Return whether several iterations of a loop are pending."""
    if len(pending) < MIN_LOOP_NODES:
        return False
    lines = Counter([n.where[:2] for n in pending if n.where is not None])
    return bool(lines) and max(lines.values()) >= LOOP_REPEATS


def _without_placeholders(nodes: list[Node], order: Sequence[Node]) -> list[Node]:
    """Return the nodes that depend on no placeholder: an Array that outlives its trace has no content and never will."""
    if not any(map(is_placeholder, order)):
        return nodes
    unknown: set[Node] = set()
    for n in order:
        if is_placeholder(n) or (n.value is None and any(i in unknown for i in n.inputs)):
            unknown.add(n)
    return [n for n in nodes if n not in unknown]


def _try_to_compute(nodes: Sequence[Node], order: Sequence[Node] | None = None) -> list[Node]:
    """Compute nodes and return those that fail. Their error is raised when they are read; they are not tried here again."""
    try:
        compute[0](nodes, order)
    except RUN_ERRORS:
        half = len(nodes) // 2
        return [*_try_to_compute(nodes[:half]), *_try_to_compute(nodes[half:])] if half else list(nodes)
    return []


def _compute(waiting: list[Node], order: Sequence[Node], line: Any) -> None:
    """Compute the ``waiting`` nodes, ``order`` being the graph behind them. Later iterations of a loop are cut at the same
    ``line``."""
    nodes = _without_placeholders(waiting, order)
    handles = CONTEXT.pending
    handles.limit = len(handles) + EVERY
    handles.line = line
    failed = _try_to_compute(nodes, order if len(nodes) == len(waiting) else None)
    sweep(handles)
    if failed:
        _keep(handles, 0, [ref for ref in handles if _pending(ref) not in failed])
    handles.limit, handles.known = len(handles) + FIRST, 0


compute: list[Callable[[Sequence[Node], Sequence[Node] | None], Any]] = []  # materialise, which imports this module
