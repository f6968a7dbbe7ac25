"""Fusion: from a graph to kernels, and for each boundary between two kernels why it is there."""

from __future__ import annotations

from dataclasses import dataclass

from weft.graph.node import Graph, Node, Shape
from weft.schedule.groups import Group, Grouping, Refusal
from weft.schedule.kernel import Kernel
from weft.schedule.lower import lower
from weft.schedule.reasons import Boundary
from weft.schedule.structure import Structure
from weft.schedule.view import View


@dataclass(frozen=True, slots=True)
class Fused:
    """One kernel, or (``kernel`` None) one host node.

    inputs: (node whose memory is read, shape it is read under); outputs: the nodes stored; scalars: leaves that
    are run-time arguments; boundaries: the edges from its nodes to later kernels.
    """

    kernel: Kernel | None
    nodes: tuple[Node, ...]
    inputs: tuple[tuple[Node, Shape], ...]
    outputs: tuple[Node, ...]
    scalars: tuple[Node, ...]
    boundaries: tuple[Refusal, ...]


def fuse(graph: Graph) -> tuple[View, list[Fused]]:
    """Kernels in an order in which they can run.

    The analysis of structure.py says which nodes belong together; building the kernel is the proof. Where it
    fails (rare: an index the analysis cannot see), the group is cut at its last edge and grouped again.
    """
    view = View(graph)
    banned: frozenset[tuple[Node, Node]] = frozenset()
    built: dict[tuple[tuple[Node, ...], tuple[Node, ...]], object] = {}
    while True:
        grouping = Grouping(view, banned)
        groups = grouping.groups()
        refusals = grouping.refusals()
        out, failed = [], None
        for group in groups:
            made = _build(view, grouping, group, refusals, built)
            if made is None:
                failed = group
                break
            out.append(made)
        if failed is None:
            return view, out
        members = set(failed.nodes)
        last = failed.nodes[-1]
        cut = {(p, last) for p in view.sources[last] if p in members} or {
            (p, n) for n in failed.nodes for p in view.sources[n] if p in members
        }
        if not cut or cut <= banned:
            cut = {(p, n) for n in failed.nodes for p in view.sources[n] if p in members} - banned
        if not cut:
            raise AssertionError(f"no kernel for {failed.nodes}")
        banned |= cut


def _build(view: View, grouping: Grouping, group: Group, refusals: list[Refusal], built: dict) -> Fused | None:
    nodes = tuple(group.nodes)
    members = frozenset(nodes)
    away = tuple(r for r in refusals if r.producer in members)
    stored = grouping.stored(group.nodes, members)
    if nodes[0].op.kind == "host":
        return Fused(None, nodes, tuple((i, i.shape) for i in nodes[0].inputs), nodes, (), away)
    key = (nodes, tuple(stored))
    if key not in built:
        try:
            built[key] = lower(view, Structure(view, group.nodes, stored))
        except Boundary as boundary:
            if len(nodes) == 1:
                raise AssertionError(f"{nodes[0]!r} has no kernel: {boundary.reason}") from boundary
            return None
    made = built[key]
    return Fused(made.kernel, nodes, made.inputs, made.outputs, made.scalars, away)  # type: ignore[attr-defined]
