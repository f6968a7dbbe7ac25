"""What is held and not computed yet: who else needs what a look computes, and when a pending graph is computed unasked.

Every Array whose content is pending is in a list of its thread, in the order in which they were made. Arrays that died or
were computed since are swept out now and then. Other threads' Arrays are theirs: a gradient may be walking their graphs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

from weft.cell import LOCAL
from weft.graph.node import Node, topological
from weft.graph.primitives.table import INPUT

MOST_NODES = 2000  # pending at once
MOST_BYTES = 256 << 20  # of one graph
ENOUGH = MOST_NODES // 2  # from here on a graph is cut where one was cut before
FIRST, EVERY = 32, 256  # Arrays made before the first, and at most between two, looks at how much is pending
_LINES: set[tuple[int, int]] = set()  # where graphs were cut: so that the next turn of a loop gives the same graph
_FEW = 16


def holds(node: Node) -> bool:
    """Whether a living Array holds this pending node (it may be asked for later)."""
    holder = node.holder
    if holder is None or node.op.kind == "leaf" or node.op.name == "scan":
        return False
    cell = holder()
    return cell is not None and cell._node is node


def enlist(held: weakref.ref, node: Node) -> None:
    """Note that an Array has the pending content ``node``."""
    handles = LOCAL.handles
    handles.append(held)
    if len(handles) >= LOCAL.limit:
        cut(node)


def _pending(ref: weakref.ref) -> Node | None:
    cell = ref()
    node = None if cell is None else cell._node
    return node if node is not None and node.value is None and node.op is not INPUT else None


def _sweep() -> list[weakref.ref]:
    handles = LOCAL.handles
    handles[:] = {node: ref for ref in handles if (node := _pending(ref)) is not None}.values()  # each node once
    LOCAL.swept = len(handles)
    return handles


def sharing(order: Sequence[Node], asked: Sequence[Node]) -> list[Node]:
    """Held pending nodes that read what a run of ``order`` computes and would not keep: they are computed with it, or it
    would be computed again for them.

    Such readers show in the number of references to a node: it is more than the graph's own. Then the list is searched, the
    latest first, until all references are accounted for.
    """
    handles = LOCAL.handles
    if len(handles) > 2 * LOCAL.swept + _FEW // 2:
        handles = _sweep()
    if len(handles) <= _FEW and all(n is None or n in asked for n in map(_pending, handles)):
        return []
    search = _Search()
    search.add(order, {*asked})
    found: list[Node] = []
    spare = 4 * len(order) + 4 * _FEW  # nodes that may be visited in vain
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

    def __init__(self) -> None:
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
            if others > 0 and reads[n] and n not in kept and not holds(n):
                self.loose += others
                self.counted.add(n)

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
            unknown = n.value is None and n.op.kind == "leaf" and n.op.name != "constant"
            reads[n] = None if unknown or None in below else True in below
        return fresh

    def nbytes(self, nodes: Sequence[Node]) -> int:
        self.bytes += sum([n.nbytes for n in nodes if n.value is None])
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
    local = LOCAL
    handles = local.handles
    if local.inside:
        if len(handles) > 2 * local.swept + EVERY:
            handles = _sweep()
        local.limit = len(handles) + EVERY
        return
    where = node.where
    line = (id(where[0]), where[1]) if where is not None else (0, 0)
    known = local.waits and line in _LINES
    if local.waits and not known and len(handles) < local.until:
        return
    handles = _sweep()
    waiting = _known([n for n in map(_pending, handles) if n is not None])
    pending = [n for n in topological(waiting) if n.value is None]
    local.waits = False
    total = sum([n.nbytes for n in pending])
    if known or len(pending) >= MOST_NODES:
        _compute(waiting, node, line)
    elif total >= MOST_BYTES and (total := sum([n.nbytes for n in topological((node,)) if n.value is None])) >= MOST_BYTES:
        _compute([node], node, line)
    elif len(pending) >= ENOUGH:
        local.waits = True
        local.limit, local.until = len(handles), len(handles) + min(EVERY, (MOST_NODES - len(pending)) // 2 + 1)
    else:
        most = min(ENOUGH - len(pending), (MOST_BYTES - total) * (len(pending) + 1) // (total + 1))
        local.limit = len(handles) + max(FIRST // 2, min(EVERY, most // 2))


def _known(nodes: list[Node]) -> list[Node]:
    """Those that rest on no placeholder: an Array that a trace left behind has no content, now or ever."""
    unknown: set[Node] = set()
    for n in topological(nodes):
        if n.value is None and (any(i in unknown for i in n.inputs) or (n.op.kind == "leaf" and n.op.name != "constant")):
            unknown.add(n)
    return [n for n in nodes if n not in unknown]


def _compute(nodes: list[Node], node: Node, line: tuple[int, int]) -> None:
    handles = LOCAL.handles
    LOCAL.limit = len(handles) + EVERY
    if len(_LINES) >= 64:
        _LINES.clear()
    _LINES.add(line)
    try:
        compute[0](nodes)
    except Exception:  # of something else than what is being written here: whoever asks for it will hear of it
        if nodes != [node]:
            compute[0]([node])
        else:
            raise
    _sweep()
    LOCAL.limit = len(handles) + FIRST


compute: list[Callable[[Sequence[Node]], Any]] = []  # look.py's own: it imports this file
