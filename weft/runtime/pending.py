"""Pending work of a thread: which pending nodes a run must compute too, and how much is pending.

Every Array whose content is pending is in a list of its thread, in order of creation. Dead and materialised entries are swept out
from time to time. Each thread handles only its own list: another thread's gradient may be walking its graphs.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence, Set
from math import prod
from sys import getrefcount

from weft.graph.node import Node, topological_order
from weft.graph.primitives.table import INPUT, is_placeholder
from weft.runtime.context import CONTEXT, PendingList

MAX_NODES = 2000  # pending in a thread
MAX_BYTES = 256 << 20  # pending in one graph
FIRST_CHECK = 32  # Arrays created before the first check of the pending amount


def has_live_array(node: Node) -> bool:
    """Return whether a live Array refers to this pending node, so that its value may be read later."""
    holder = node.holder
    if holder is None or node.op.kind in ("leaf", "loop"):
        return False
    cell = holder()
    return cell is not None and cell._node is node


def find_node(ref: weakref.ref) -> Node | None:
    cell = ref()
    node = None if cell is None else cell._node
    return node if node is not None and node.value is None and node.op is not INPUT else None


def keep(handles: PendingList, begin: int, kept: list[weakref.ref]) -> None:
    """Replace the list from ``begin`` on by ``kept``; shift the thresholds that refer to the length."""
    removed = len(handles) - begin - len(kept)
    handles[begin:] = kept
    handles.swept_length = len(handles)
    handles.limit -= removed
    handles.until -= removed
    handles.counted_length -= removed


def sweep(handles: PendingList) -> None:
    handles.new_entries = 0
    keep(handles, 0, [*{id(ref): ref for ref in handles if find_node(ref) is not None}.values()])  # without duplicates


def reset_thresholds() -> None:
    """Reset the thresholds if nothing is pending any more. The iterations of a loop that reads a value are then all cut at the
    same places."""
    handles = CONTEXT.pending
    if len(handles) <= 2 * FIRST_CHECK and not any([find_node(ref) is not None for ref in handles]):
        keep(handles, 0, [])
        handles.limit, handles.waits = FIRST_CHECK, False
        handles.swept_length = handles.new_entries = handles.counted_length = handles.node_count = handles.until = 0


def _sweep_requested(requested: Set[Node]) -> PendingList:
    """Return the list without dead and requested entries: its new end is swept, and all of it once it has doubled."""
    handles = CONTEXT.pending
    begin = handles.swept_length
    handles.new_entries += len(handles) - begin
    if handles.new_entries > begin:
        begin = handles.new_entries = 0
    keep(handles, begin, [ref for ref in handles[begin:] if (node := find_node(ref)) is not None and node not in requested])
    return handles


def find_dependents(order: Sequence[Node], requested: Sequence[Node]) -> list[Node]:
    """Return the pending nodes of live Arrays that read nodes which a run of ``order`` computes and drops. The run computes them
    too; otherwise it would be repeated for them.

    A node with such readers has more references than the graph itself accounts for. The list is then searched, the latest entries
    first, until all references are accounted for.
    """
    wanted = {*requested}
    handles = _sweep_requested(wanted)
    if len(handles) <= FIRST_CHECK and not any([(node := find_node(ref)) is not None and node not in wanted for ref in handles]):
        return []
    search = _Search(handles)
    search.add(order, wanted)
    dependents: list[Node] = []
    spare = 2 * MAX_NODES  # nodes that may be visited without a result
    for ref in reversed(handles):
        if search.loose <= 0 or spare < 0:
            break
        node = find_node(ref)
        if node is None or node in search.reads:
            continue
        fresh = search.walk(node)
        if search.reads[node] is True and search.nbytes(fresh) <= MAX_BYTES:
            search.add(fresh, {node})
            dependents.append(node)
        else:
            spare -= len(fresh)
    return dependents


class _Search:
    """A graph that grows by the nodes that share inputs with it.

    reads: for every visited node, True if a run computes it or it reads such a node, False if not, None if it depends on a
    placeholder of a trace that has ended. loose: references to dropped nodes of the graph from outside of the graph.
    """

    def __init__(self, handles: PendingList) -> None:
        self.handles = handles
        self.owners: dict[Node, weakref.ref] | None = None
        self.reads: dict[Node, bool | None] = {}
        self.edges: dict[Node, int] = {}
        self.counted_nodes: set[Node] = set()
        self.bytes = 0
        self.loose = 0

    def add(self, nodes: Sequence[Node], kept: set[Node]) -> None:
        self._link(nodes)
        reads, edges = self.reads, self.edges
        for n, count in zip(nodes, [*map(getrefcount, nodes)], strict=True):  # before a variable adds a reference
            outside = count - edges[n] - _OWN_REFERENCES
            if outside > 0 and reads[n] and n not in kept and not self.has_live_array(n):
                self.loose += outside
                self.counted_nodes.add(n)

    def has_live_array(self, node: Node) -> bool:
        """Return whether a live Array refers to the node. ``node.holder`` is the last Array that took it, which may have been a
        copy and be dead."""
        if has_live_array(node):
            return True
        if self.owners is None:
            self.owners = {n: ref for ref in self.handles if (n := find_node(ref)) is not None}
        if node in self.owners:
            node.holder = self.owners[node]
            return True
        return False

    def _link(self, nodes: Sequence[Node]) -> None:
        reads, edges, counted = self.reads, self.edges, self.counted_nodes
        for n in nodes:
            edges[n] = 0
            reads[n] = n.value is None and bool(n.inputs)
        for n in nodes:
            for i in n.inputs:
                edges[i] = edges.get(i, 0) + 1
                if i in counted:
                    self.loose -= 1

    def walk(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes behind ``node`` that were not visited yet, and classify them in ``reads``."""
        reads = self.reads
        fresh = topological_order((node,), stop=reads.keys())
        fresh = tuple([n for n in fresh if n not in reads])
        for n in fresh:
            below = [reads[i] for i in n.inputs]
            unknown = is_placeholder(n)
            reads[n] = None if unknown or None in below else True in below
        return fresh

    def nbytes(self, nodes: Sequence[Node]) -> int:
        self.bytes += nbytes([n for n in nodes if n.value is None])
        return self.bytes


def _own_references() -> int:
    """Return the value of getrefcount in :meth:`_Search.add` for a node without other references."""
    nodes = (Node(INPUT, (), {}, (), None),)  # type: ignore[arg-type]
    reads, edges = dict.fromkeys(nodes), dict.fromkeys(nodes)
    (count,) = map(getrefcount, nodes)
    del reads, edges
    return count


_OWN_REFERENCES = _own_references()


def nbytes(nodes: Sequence[Node]) -> int:
    """Return the total bytes of nodes. Counting shapes first is faster, since few shapes occur."""
    kinds = Counter([(n.shape, n.dtype) for n in nodes])
    return sum([prod(shape) * dtype.bytes * count for (shape, dtype), count in kinds.items()])
