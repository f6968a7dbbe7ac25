"""What is held and not computed yet: who else needs what a look computes, and when a pending graph is computed unasked.

Every Array whose content is pending is in a list of its thread, in the order in which they were made. Arrays that died or
were computed since are swept out now and then. Other threads' Arrays are theirs: a gradient may be walking their graphs.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Sequence, Set
from math import prod
from sys import getrefcount
from typing import Any

from weft.errors import OF_RUNS
from weft.graph.node import Node, topological
from weft.graph.primitives.table import INPUT, is_placeholder
from weft.runtime.context import LOCAL, Handles

MOST_NODES = 2000  # pending at once
MOST_BYTES = 256 << 20  # of one graph
ENOUGH = MOST_NODES // 2  # from here on a graph is cut where the last one was cut, so that turns of a loop give the same graph
TURNS, SHORT = 16, 128  # of what a loop has written so often that a line stands so often in it, from so many nodes on
FIRST, EVERY = 32, 256  # Arrays made before the first, and at most between two, looks at how much is pending


def holds(node: Node) -> bool:
    """Whether a living Array holds this pending node (it may be asked for later)."""
    holder = node.holder
    if holder is None or node.op.kind in ("leaf", "loop"):
        return False
    cell = holder()
    return cell is not None and cell._node is node


def enlist(held: weakref.ref, node: Node) -> None:
    """Note that an Array has the pending content ``node``."""
    handles = LOCAL.handles
    handles.append(held)
    if len(handles) >= handles.limit:
        cut(node)


def _pending(ref: weakref.ref) -> Node | None:
    cell = ref()
    node = None if cell is None else cell._node
    return node if node is not None and node.value is None and node.op is not INPUT else None


def _keep(handles: Handles, begin: int, kept: list[weakref.ref]) -> None:
    """Sweep the list from ``begin`` on; what was said about its length is said about what comes from now on."""
    gone = len(handles) - begin - len(kept)
    handles[begin:] = kept
    handles.swept = len(handles)
    handles.limit -= gone
    handles.until -= gone
    handles.counted -= gone


def _sweep(handles: Handles) -> None:
    handles.came = 0
    _keep(handles, 0, [*{id(ref): ref for ref in handles if _pending(ref) is not None}.values()])  # each Array once


def settled() -> None:
    """After a look: where nothing is pending any more, what follows is counted from here, so that every turn of a loop that
    looks is cut at the same places."""
    handles = LOCAL.handles
    if len(handles) <= 2 * FIRST and not any([_pending(ref) is not None for ref in handles]):
        _keep(handles, 0, [])
        handles.limit, handles.waits = FIRST, False
        handles.swept = handles.came = handles.counted = handles.known = handles.until = 0


def _others(asked: Set[Node]) -> Handles:
    """The list, swept at its end, and as a whole once as much has come as was there."""
    handles = LOCAL.handles
    begin = handles.swept
    if not begin:  # the usual case: nothing but what is asked for has come since, and intermediate results
        for ref in handles:
            cell = ref()
            if cell is not None and cell._node.value is None and cell._node not in asked:
                break
        else:
            _keep(handles, 0, [])
            return handles
    handles.came += len(handles) - begin
    if handles.came > begin:
        begin = handles.came = 0
    _keep(handles, begin, [ref for ref in handles[begin:] if (node := _pending(ref)) is not None and node not in asked])
    return handles


def sharing(order: Sequence[Node], asked: Sequence[Node]) -> list[Node]:
    """Held pending nodes that read what a run of ``order`` computes and would not keep: they are computed with it, or it
    would be computed again for them.

    Such readers show in the number of references to a node: it is more than the graph's own. Then the list is searched, the
    latest first, until all references are accounted for.
    """
    wanted = {*asked}
    handles = _others(wanted)
    if len(handles) <= FIRST and not any([(node := _pending(ref)) is not None and node not in wanted for ref in handles]):
        return []
    search = _Search(handles)
    search.add(order, wanted)
    found: list[Node] = []
    spare = 2 * MOST_NODES  # that may be visited in vain
    for ref in reversed(handles):
        if search.loose <= 0 or spare < 0:
            break
        node = _pending(ref)
        if node is None or node in search.reads:
            continue
        fresh = search.walk(node)
        if search.reads[node] is True and search.nbytes(fresh) <= MOST_BYTES:
            search.add(fresh, {node})
            found.append(node)
        else:
            spare -= len(fresh)
    return found


class _Search:
    """A graph that grows by what shares nodes with it.

    reads: of every node that was seen, whether it is to be computed and belongs to the graph or reads what does; None where
    it rests on what is not known (a placeholder of a trace that has ended). loose: references to nodes of the graph, not
    kept, by others than its own nodes.
    """

    def __init__(self, handles: Handles) -> None:
        self.handles = handles
        self.owners: dict[Node, weakref.ref] | None = None
        self.reads: dict[Node, bool | None] = {}
        self.edges: dict[Node, int] = {}
        self.counted: set[Node] = set()
        self.bytes = 0
        self.loose = 0

    def add(self, nodes: Sequence[Node], kept: set[Node]) -> None:
        self._link(nodes)
        reads, edges = self.reads, self.edges
        for n, count in zip(nodes, [*map(getrefcount, nodes)], strict=True):  # before a variable here is one more reference
            others = count - edges[n] - _OWN
            if others > 0 and reads[n] and n not in kept and not self.holds(n):
                self.loose += others
                self.counted.add(n)

    def holds(self, node: Node) -> bool:
        """Whether a living Array holds the node, be it not the last that took it: that may have been a copy, and gone."""
        if holds(node):
            return True
        if self.owners is None:
            self.owners = {n: ref for ref in self.handles if (n := _pending(ref)) is not None}
        if node in self.owners:
            node.holder = self.owners[node]
            return True
        return False

    def _link(self, nodes: Sequence[Node]) -> None:
        reads, edges, counted = self.reads, self.edges, self.counted
        for n in nodes:
            edges[n] = 0
            reads[n] = n.value is None and bool(n.inputs)
        for n in nodes:
            for i in n.inputs:
                edges[i] = edges.get(i, 0) + 1
                if i in counted:
                    self.loose -= 1

    def walk(self, node: Node) -> tuple[Node, ...]:
        """What was not seen of the graph behind a node."""
        reads = self.reads
        fresh = topological((node,), stop=reads.keys())
        fresh = tuple([n for n in fresh if n not in reads])
        for n in fresh:
            below = [reads[i] for i in n.inputs]
            unknown = is_placeholder(n)
            reads[n] = None if unknown or None in below else True in below
        return fresh

    def nbytes(self, nodes: Sequence[Node]) -> int:
        self.bytes += _nbytes([n for n in nodes if n.value is None])
        return self.bytes


def _own() -> int:
    """What getrefcount tells in :meth:`_Search.add` of a node that nobody else has."""
    nodes = (Node(INPUT, (), {}, (), None),)  # type: ignore[arg-type]
    reads, edges = dict.fromkeys(nodes), dict.fromkeys(nodes)
    (count,) = map(getrefcount, nodes)
    del reads, edges
    return count


_OWN = _own()


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


def _nbytes(nodes: Sequence[Node]) -> int:
    """Bytes of all; most are of a few shapes."""
    kinds = Counter([(n.shape, n.dtype) for n in nodes])
    return sum([prod(shape) * dtype.bytes * count for (shape, dtype), count in kinds.items()])


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
