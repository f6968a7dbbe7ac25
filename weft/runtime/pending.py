"""What is held and not computed yet: who else needs what a look computes, and when a pending graph is computed unasked.

Every Array whose content is pending is in a list of its thread, in the order in which they were made. Arrays that died or
were computed since are swept out now and then. Other threads' Arrays are theirs: a gradient may be walking their graphs.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence, Set
from math import prod
from sys import getrefcount

from weft.graph.node import Node, topological
from weft.graph.primitives.table import INPUT, is_placeholder
from weft.runtime.context import LOCAL, Handles

MOST_NODES = 2000  # pending at once
MOST_BYTES = 256 << 20  # of one graph
FIRST = 32  # Arrays made before the first look at how much is pending


def holds(node: Node) -> bool:
    """Whether a living Array holds this pending node (it may be asked for later)."""
    holder = node.holder
    if holder is None or node.op.kind in ("leaf", "loop"):
        return False
    cell = holder()
    return cell is not None and cell._node is node


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


def _nbytes(nodes: Sequence[Node]) -> int:
    """Bytes of all; most are of a few shapes."""
    kinds = Counter([(n.shape, n.dtype) for n in nodes])
    return sum([prod(shape) * dtype.bytes * count for (shape, dtype), count in kinds.items()])
