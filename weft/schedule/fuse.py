"""Fusion: from a graph to kernels, and for each boundary between two kernels why it is there."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from weft.graph.node import Graph, Node, Shape
from weft.kernel.ir import Kernel
from weft.kernel.target import CPU, Target
from weft.schedule import reasons
from weft.schedule.fusion_graph import View
from weft.schedule.group_cache import Forms
from weft.schedule.groups import Group, Grouping, Refusal
from weft.schedule.lower_index import SMALLER
from weft.schedule.reasons import Boundary


@dataclass(frozen=True, slots=True)
class Fused:
    """One kernel, or (``kernel`` None) one host node, or a loop with the results of it that are read.

    inputs: (node whose memory is read, shape it is read under); outputs: the nodes stored; scalars: leaves that
    are run-time arguments; boundaries: the edges from its nodes to later kernels; sites, covered, pairs, bytes: see Lowered.
    """

    kernel: Kernel | None
    nodes: tuple[Node, ...]
    inputs: tuple[tuple[Node, Shape], ...]
    outputs: tuple[Node, ...]
    scalars: tuple[Node, ...]
    boundaries: tuple[Refusal, ...]
    sites: tuple[Node, ...] = ()
    covered: frozenset[Node] = frozenset()
    pairs: tuple[tuple[int, int], ...] = ()
    bytes: int = 0


def fuse(graph: Graph, target: Target = CPU) -> tuple[View, list[Fused]]:
    """Kernels in an order in which they can run.

    The analysis of structure.py says which nodes belong together; building the kernel is the proof. Where it
    fails (rare: an index the analysis cannot see), the group is cut at its last edge and grouped again.
    """
    with _DEEP.lock:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, 20_000))  # expressions are expanded recursively, a few calls an operation
        try:
            return _fuse(View(graph, target))
        finally:
            sys.setrecursionlimit(limit)


class _Deep:
    """The interpreter's limit is every thread's: one at a time raises it and puts it back."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)  # the thread that holds it does not exist there

    def renew(self) -> None:
        self.lock = threading.RLock()


_DEEP = _Deep()


def _fuse(view: View) -> tuple[View, list[Fused]]:
    banned = _read_first(view)
    forms = Forms(view)
    while True:
        grouping = Grouping(view, forms, banned)
        refusals: dict[Group, list[Refusal]] = {}
        for refusal in grouping.refusals():
            refusals.setdefault(grouping.of[refusal.producer], []).append(refusal)
        out = []
        try:
            for group in grouping.groups():
                if group.nodes[0].op.kind != "result":  # a result of a loop is stored by the loop
                    out.append(_build(view, grouping, group, tuple(refusals.get(group, ()))))
            return view, out
        except _Unbuilt as failed:
            banned.update(_cut(view, failed.nodes, failed.reason, banned))


def _read_first(view: View) -> dict[tuple[Node, Node], str]:
    """Return edges to keep apart, so that a small write can be made in place: from what reads a few elements of its array to
    what rests on the write.

    ``t[i], t[j] = t[j], t[i]``: if the element that was read first were read by the kernel of the second write, then the first
    write would have to leave the array as it was, and copy it.
    """
    bases: dict[Node, list[Node]] = {}
    for node in view.real:
        if node.op.kind in ("scatter", "write") and SMALLER * node.inputs[1].size <= node.size:
            base = view.memory(node.inputs[0])
            if base is not None and view.readers[node]:
                bases.setdefault(base, []).append(node)
    banned: dict[tuple[Node, Node], str] = {}
    if not bases:
        return banned
    after: dict[Node, set[Node]] = {}
    for node in view.real:
        for base in view.memory_below(node) & bases.keys():
            for write in bases[base]:
                if node is write:
                    continue
                if write not in after:
                    after[write] = _resting(view, write)
                late = after[write]
                if node not in late:
                    edges = [(a, b) for a in _resting(view, node) - late for b in view.readers[a] if b in late]
                    if all(SMALLER * a.size <= base.size for a, _ in edges):
                        banned.update(dict.fromkeys(edges, reasons.READ_FIRST))
    return banned


def _resting(view: View, node: Node) -> set[Node]:
    """Return the real nodes that rest on a node."""
    found, stack = {node}, [node]
    while stack:
        fresh = [n for n in view.readers[stack.pop()] if n not in found]
        found.update(fresh)
        stack += fresh
    return found


class _Unbuilt(Exception):
    """A group that the analysis allowed and that has no kernel."""

    def __init__(self, nodes: tuple[Node, ...], reason: str) -> None:
        super().__init__(reason)
        self.nodes = nodes
        self.reason = reason


def _cut(view: View, nodes: tuple[Node, ...], reason: str, banned: Mapping) -> dict[tuple[Node, Node], str]:
    """Edges to keep apart from now on: those into the last node, or all of them where that was tried."""
    members = set(nodes)
    for some in ((nodes[-1],), nodes):
        edges = {(p, n): reason for n in some for p in view.sources[n] if p in members and (p, n) not in banned}
        if edges:
            return edges
    raise AssertionError(f"no kernel for {nodes}: {reason}")


def _build(view: View, grouping: Grouping, group: Group, away: tuple[Refusal, ...]) -> Fused:
    """``away``: the edges from the group to others."""
    nodes = tuple(group.nodes)
    members = frozenset(nodes)
    stored = grouping.stored(group.nodes, members)
    if nodes[0].op.kind == "host":
        return Fused(None, nodes, tuple((i, i.shape) for i in nodes[0].inputs), nodes, (), away)
    if nodes[0].op.kind == "loop":
        (scan,) = nodes
        return Fused(None, nodes, tuple((i, i.shape) for i in scan.inputs), tuple(view.readers[scan]), (), away)
    try:
        made = grouping.forms.lowered(nodes, stored)
    except Boundary as boundary:
        raise _Unbuilt(nodes, boundary.reason) from boundary
    return Fused(
        made.kernel, nodes, made.inputs, made.outputs, made.scalars, away, made.sites, made.covered, made.pairs, made.bytes
    )
