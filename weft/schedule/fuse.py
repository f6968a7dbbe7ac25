"""Fusion: kernels of a graph, and the reason for each boundary between two kernels."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields

from weft.graph.node import Graph, Node
from weft.kernel.target import CPU, Target
from weft.schedule import reasons
from weft.schedule.fusion_graph import FusionGraph
from weft.schedule.group_cache import GroupCache
from weft.schedule.groups import Group, Grouping, UnfusedEdge
from weft.schedule.lower import LoweredKernel
from weft.schedule.lower_index import MIN_SIZE_RATIO
from weft.schedule.reasons import NotFusible


@dataclass(frozen=True, slots=True)
class FusedGroup(LoweredKernel[Node]):
    """One kernel, or (``kernel`` None) one host node or one loop, whose ``outputs`` are those of its results that are read.

    boundaries: edges from its nodes to later kernels.
    """

    nodes: tuple[Node, ...] = ()
    boundaries: tuple[UnfusedEdge, ...] = ()


def fuse(graph: Graph, target: Target = CPU) -> tuple[FusionGraph, list[FusedGroup]]:
    """Return the kernels of a graph in an order in which they can run.

    The analysis in ``group_structure`` decides which nodes belong together. If the kernel of a group cannot be built (rare: the
    analysis misses some index conflicts), the group is cut at its last edge and all nodes are grouped again.
    """
    with _LOCK:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, 20_000))  # expressions are expanded recursively, a few calls an operation
        try:
            return _fuse(FusionGraph(graph, target))
        finally:
            sys.setrecursionlimit(limit)


_LOCK = threading.RLock()  # serialises changes of the interpreter's recursion limit, which all threads share


def _renew_lock() -> None:
    global _LOCK
    _LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)  # the thread that holds the lock does not exist in the child


def _fuse(view: FusionGraph) -> tuple[FusionGraph, list[FusedGroup]]:
    """Group the nodes and build the kernels, again with more edges kept unfused whenever a kernel cannot be built."""
    banned = _edges_before_small_writes(view)
    forms = GroupCache(view)
    while True:
        grouping = Grouping(view, forms, banned)
        refusals: dict[Group, list[UnfusedEdge]] = {}
        for refusal in grouping.refusals():
            refusals.setdefault(grouping.of[refusal.producer], []).append(refusal)
        out = []
        for group in grouping.groups():
            try:
                if group.nodes[0].op.kind != "result":  # the loop stores its results
                    out.append(_build(view, grouping, group, tuple(refusals.get(group, ()))))
            except NotFusible as boundary:
                banned.update(_cut(view, tuple(group.nodes), boundary.reason, banned))
                break
        else:
            return view, out


def _edges_before_small_writes(view: FusionGraph) -> dict[tuple[Node, Node], str]:
    """Return edges to keep unfused so that small writes can be made in place.

    They lead from early readers of a few elements of the array to nodes that depend on the write. In ``t[i], t[j] = t[j],
    t[i]`` the element that is read first must not be read by the kernel of the second write. Otherwise the first write would
    have to copy the array.
    """
    bases: dict[Node, list[Node]] = {}
    for node in view.real:
        if node.op.kind in ("scatter", "write") and MIN_SIZE_RATIO * node.inputs[1].size <= node.size:
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
                    after[write] = _dependents(view, write)
                dependents = after[write]
                if node not in dependents:
                    edges = [(a, b) for a in _dependents(view, node) - dependents for b in view.readers[a] if b in dependents]
                    if all(MIN_SIZE_RATIO * a.size <= base.size for a, _ in edges):
                        banned.update(dict.fromkeys(edges, reasons.READ_FIRST))
    return banned


def _dependents(view: FusionGraph, node: Node) -> set[Node]:
    """Return the real nodes that depend on a node, including the node."""
    result, stack = {node}, [node]
    while stack:
        fresh = [n for n in view.readers[stack.pop()] if n not in result]
        result.update(fresh)
        stack += fresh
    return result


def _cut(view: FusionGraph, nodes: tuple[Node, ...], reason: str, banned: Mapping) -> dict[tuple[Node, Node], str]:
    """Return more edges to keep unfused: those into the group's last node, or all of its edges if that was tried before."""
    members = set(nodes)
    for consumers in ((nodes[-1],), nodes):
        edges = {(p, n): reason for n in consumers for p in view.sources[n] if p in members and (p, n) not in banned}
        if edges:
            return edges
    raise AssertionError(f"no kernel for {nodes}: {reason}")


def _build(view: FusionGraph, grouping: Grouping, group: Group, boundaries: tuple[UnfusedEdge, ...]) -> FusedGroup:
    """Return the kernel of a group. ``boundaries``: the edges from the group to others."""
    nodes = tuple(group.nodes)
    members = frozenset(nodes)
    stored = grouping.stored_nodes(group.nodes, members)
    if nodes[0].op.kind == "host":
        return FusedGroup(None, tuple((i, i.shape) for i in nodes[0].inputs), nodes, nodes=nodes, boundaries=boundaries)
    if nodes[0].op.kind == "loop":
        (scan,) = nodes
        inputs, outputs = tuple((i, i.shape) for i in scan.inputs), tuple(view.readers[scan])
        return FusedGroup(None, inputs, outputs, nodes=nodes, boundaries=boundaries)
    lowered = grouping.forms.lower(nodes, stored)
    shared = {field.name: getattr(lowered, field.name) for field in fields(lowered)}
    return FusedGroup(**shared, nodes=nodes, boundaries=boundaries)
