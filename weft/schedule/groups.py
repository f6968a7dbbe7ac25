"""Grouping: merge nodes along the edges of the graph while one kernel can compute them.

An element-wise result that only one other kernel reads is computed in that kernel if this reads no more memory: the square of a
gradient, for the norm, is never stored. Reductions down many rows stay separate from groups that store other arrays.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import NamedTuple

from weft.graph.node import Node
from weft.schedule import reasons
from weft.schedule.fusion_graph import FusionGraph
from weft.schedule.group_cache import GroupCache
from weft.schedule.group_structure import chain_key, is_tally, reduces

MOST_RESULTS = 256  # elements of an array that is joined from results of tallies


class Group:
    """The nodes of one kernel, in topological order.

    before: groups whose results it reads; after: groups that read its results. simple: all nodes are element-wise. single: the
    group is simple and has one element. shape: the common shape if all nodes are element-wise or the product, else None.
    weight: number of nodes, where costly ones count several times.
    """

    __slots__ = ("after", "before", "nodes", "number", "shape", "simple", "single", "weight")

    def __init__(self, number: int, node: Node, weight: int) -> None:
        self.number = number
        self.nodes = [node]
        self.before: set[Group] = set()
        self.after: set[Group] = set()
        self.simple = node.op.kind == "elementwise"
        self.single = self.simple and node.size == 1
        self.shape = node.shape if self.simple or node.op.contracts else None
        self.weight = weight


class UnfusedEdge(NamedTuple):
    """An edge between two kernels, and the reason why they were not merged."""

    producer: Node
    consumer: Node
    reason: str


class Grouping:
    """The groups of a graph, and the reasons at the edges between them."""

    def __init__(self, view: FusionGraph, forms: GroupCache, banned: Mapping[tuple[Node, Node], str]) -> None:
        self.view = view
        self.forms = forms
        self.limits = view.target.fusion
        self.of: dict[Node, Group] = {}
        self.reasons: dict[tuple[Node, Node], str] = {}
        self.banned_edges = banned
        for k, node in enumerate(view.real):
            group = self.of[node] = Group(k, node, self._weight(node))
            for p in view.sources[node]:
                other = self.of[p]
                if other is not group:
                    group.before.add(other)
                    other.after.add(group)
            moved = 0  # operands of a long concatenation that would be computed at too many positions
            for p in view.sources[node]:
                if moved > 2 * self.limits.views:
                    self.reasons[p, node] = reasons.TOO_MANY_POSITIONS
                elif not self._try(p, node):
                    moved += self.reasons[p, node] == reasons.TOO_MANY_POSITIONS
        self._merge_siblings()
        if view.target.tallies:
            self._merge_tallies()
        self._hand_over()

    def _weight(self, node: Node) -> int:
        return self.limits.heavy if node.op.heavy else 1

    def stored_nodes(self, nodes: list[Node], members: frozenset[Node] | set[Node]) -> list[Node]:
        """Return the nodes that other groups read or that the graph returns."""
        view = self.view
        return [n for n in nodes if n in view.outputs or not members.issuperset(view.readers[n])]

    def groups(self) -> list[Group]:
        """Return the groups in an order in which they can run."""
        unique = list(dict.fromkeys(self.of[n] for n in self.view.real))
        waiting = {g: len(g.before) for g in unique}
        ready = [g for g in unique if not waiting[g]]
        out = []
        heap = [(self.view.number[g.nodes[-1]], k, g) for k, g in enumerate(ready)]
        heapq.heapify(heap)
        k = len(heap)
        while heap:
            g = heapq.heappop(heap)[2]
            out.append(g)
            for a in g.after:
                waiting[a] -= 1
                if not waiting[a]:
                    k += 1
                    heapq.heappush(heap, (self.view.number[a.nodes[-1]], k, a))
        return out

    def _try(self, producer: Node, consumer: Node) -> bool:
        """Merge the groups of two nodes if they can be merged, else record the reason. Return whether they are one group."""
        a, b = self.of[producer], self.of[consumer]
        if a is b:
            return True
        reason = self._reason_against(a, b, producer, consumer)
        if reason is None:
            self._merge(a, b)
            return True
        self.reasons[producer, consumer] = reason
        return False

    def _reason_against(self, a: Group, b: Group, producer: Node, consumer: Node) -> str | None:
        """Return why two groups cannot be merged along an edge, or None if they can."""
        if (producer, consumer) in self.banned_edges:
            return self.banned_edges[producer, consumer]
        if producer.op.kind == "host" or consumer.op.kind == "host":
            return reasons.HOST
        if producer.op.outside_kernels or consumer.op.outside_kernels:
            return reasons.LOOP
        if a.weight + b.weight > self.limits.largest:
            return reasons.TOO_LARGE
        return self._analyse(a, b) or (reasons.CYCLE if self._path(a, b) else None)

    def _analyse(self, a: Group, b: Group) -> str | None:
        """Return why the analysis refuses to merge two groups, or None if it does not."""
        if a.shape is not None and a.shape == b.shape and b.simple and a.single == b.single and len(b.nodes) == 1 and all(
            self.view.leaf(i) or (self.view.is_real(i) and i.shape == a.shape) for i in b.nodes[0].inputs
        ):
            return None  # the usual case, decided without the analysis
        nodes = sorted([*a.nodes, *b.nodes], key=self.view.number.__getitem__)
        members = frozenset(nodes)
        stored = self.stored_nodes(nodes, members)
        if a.single and not b.single and any(n in a.nodes for n in stored):
            return reasons.SINGLE
        return self.forms.refuses(nodes, stored)

    def _path(self, a: Group, b: Group) -> bool:
        """Return whether a path through another group connects a to b, so that merging them would form a cycle.

        The search alternates between both ends and stops when either end has no groups left to visit.
        """
        up, down = [g for g in b.before if g is not a], [g for g in a.after if g is not b]
        above, below = set(up), set(down)
        while up and down:
            g = up.pop()
            if g in below:
                return True
            fresh = g.before - above
            above |= fresh
            up += fresh
            g = down.pop()
            if g in above:
                return True
            fresh = g.after - below
            below |= fresh
            down += fresh
        return False

    def _are_dependent(self, a: Group, b: Group) -> bool:
        """Return whether one of two groups depends on the other."""
        return any(first in last.before or self._path(first, last) for first, last in ((a, b), (b, a)))

    def _merge(self, a: Group, b: Group) -> None:
        number = self.view.number
        a.nodes = sorted([*a.nodes, *b.nodes], key=number.__getitem__)
        a.simple = a.simple and b.simple
        a.single = a.single and b.single
        a.shape = a.shape if a.shape == b.shape else None
        a.weight += b.weight
        a.before |= b.before
        a.after |= b.after
        for g in b.before:
            g.after.discard(b)
            g.after.add(a)
        for g in b.after:
            g.before.discard(b)
            g.before.add(a)
        for g in (a, b):
            a.before.discard(g)
            a.after.discard(g)
        for n in b.nodes:
            self.of[n] = a

    def _merge_siblings(self) -> None:
        """Merge reductions of the same memory over the same axes, and results of the same chain of products."""
        seen: dict[tuple, Node] = {}
        for node in self.view.real:
            if not reduces(node) and node.op.kind != "window" and not node.op.chains:
                continue
            p = node.params
            if node.op.chains:
                key = chain_key(node)
            else:
                key = (node.inputs[0], (p["window"], p["stride"], p["padding"]) if node.op.kind == "window" else p["axes"])
            first = seen.setdefault(key, node)
            a, b = self.of[first], self.of[node]
            if a is b or a.weight + b.weight > self.limits.largest or self._are_dependent(a, b):
                continue
            if self._analyse(a, b) is None:
                self._merge(a, b)

    def _merge_tallies(self) -> None:
        """Merge order-free reductions of a whole array with the element-wise kernels and reductions that read the same array."""
        tallies = [n for n in self.view.real if is_tally(n) and reduces(n)]
        if not tallies:
            return
        order = {n: k for k, n in enumerate(self.view.graph.order)}
        reads: dict[Node, list[Node]] = {}
        readers: dict[Node, list[Node]] = {}
        for node in self.view.real:
            if node.op.kind == "elementwise" or is_tally(node):
                shape = (node.inputs[0] if is_tally(node) else node).shape
                reads[node] = sorted([m for m in self.view.memory_below(node) if m.shape == shape], key=order.__getitem__)
                for array in reads[node]:
                    readers.setdefault(array, []).append(node)
        for node in tallies:
            arrays = dict.fromkeys(array for n in self.of[node].nodes for array in reads.get(n, ()))
            for other in dict.fromkeys(n for array in arrays if array.size == node.inputs[0].size for n in readers[array]):
                a, b = self.of[node], self.of[other]
                if a is b or a.weight + b.weight > self.limits.largest:
                    continue
                if not all(n.op.kind == "elementwise" or is_tally(n) or _is_record(n) for n in (*a.nodes, *b.nodes)):
                    continue
                if not self._are_dependent(a, b) and self._analyse(a, b) is None:
                    self._merge(a, b)

    def _hand_over(self) -> None:
        """Move element-wise results that only one other kernel reads into that kernel, if it reads no more memory then.

        The result is not stored any more. For example, the square of a gradient (for the norm of all gradients) is not a second
        result of the kernel that computes the gradient.
        """
        moved = False
        for node in reversed(self.view.real):
            a = self.of[node]
            if node.op.kind != "elementwise" or node.op.heavy or len(a.nodes) == 1 or node in self.view.outputs:
                continue
            homes = {self.of[r] for r in self.view.readers[node]}
            if len(homes) == 1 and a not in homes:
                moved = self._move_node(node, a, homes.pop()) or moved
        if moved:
            unique = set(self.of.values())
            for g in unique:
                g.before = {self.of[p] for n in g.nodes for p in self.view.sources[n]} - {g}
                g.after = set()
            for g in unique:
                for p in g.before:
                    p.after.add(g)

    def _move_node(self, node: Node, a: Group, b: Group) -> bool:
        """Move a node, and what only it reads, from a to b if that saves memory traffic. Return whether it was moved."""
        view = self.view
        nodes = self._with_operands(node, a)
        weight = sum(self._weight(n) for n in nodes)
        if nodes.issuperset(a.nodes) or b.nodes[0].op.outside_kernels or b.weight + weight > self.limits.largest:
            return False
        if any(n in edge for edge in self.banned_edges for n in nodes):
            return False
        if any(self.of[p] is a and p not in view.outputs and all(r in nodes or self.of[r] is a for r in view.readers[p])
               for n in nodes for p in view.sources[n] if p not in nodes):
            return False  # it would be stored for these nodes only
        present = {m for n in b.nodes for m in view.memory_below(n)}
        memory = {m for n in nodes for m in view.memory_below(n)} - nodes
        if sum(m.nbytes for m in memory if m not in present) > node.nbytes:
            return False
        rest = [n for n in a.nodes if n not in nodes]
        more = sorted([*b.nodes, *nodes], key=view.number.__getitem__)
        if any(self.forms.refuses(nodes, self.stored_nodes(nodes, frozenset(nodes))) for nodes in (rest, more)):
            return False
        a.nodes, b.nodes = rest, more
        a.weight, b.weight = a.weight - weight, b.weight + weight
        a.shape = b.shape = None
        self.of.update(dict.fromkeys(nodes, b))
        reason = next((r for n in nodes for r in self._reasons_below(n) if r in reasons.OF_PRODUCTS), reasons.CHEAP_FROM_STORED)
        self.reasons.update({(p, n): reason for n in nodes for p in view.sources[n] if self.of[p] is a})
        return True

    def _reasons_below(self, node: Node) -> list[str]:
        """Return why readers of a node are in other groups."""
        return [self.reasons[node, r] for r in self.view.readers[node] if (node, r) in self.reasons]

    def _with_operands(self, node: Node, group: Group) -> set[Node]:
        """Return a node and the cheap element-wise operands that only it and they read, in its group."""
        nodes = {node}
        for n in reversed(group.nodes):
            if n.op.kind == "elementwise" and not n.op.heavy and n not in self.view.outputs and self.view.readers[n]:
                if nodes.issuperset(self.view.readers[n]):
                    nodes.add(n)
        return nodes

    def refusals(self) -> list[UnfusedEdge]:
        """Return every edge between two kernels with its reason, and a cycle only where no other reason exists."""
        out = []
        for consumer in self.view.real:
            for producer in self.view.sources[consumer]:
                if self.of[producer] is not self.of[consumer]:
                    reason = self.reasons.get((producer, consumer)) or reasons.NO_COMMON_OPERATION
                    out.append(UnfusedEdge(producer, consumer, reason))
        explained = {(r.producer, self.of[r.consumer]) for r in out if r.reason != reasons.CYCLE}
        return [r for r in out if r.reason != reasons.CYCLE or (r.producer, self.of[r.consumer]) not in explained]




def _is_record(node: Node) -> bool:
    """Return whether a node joins a few numbers, such as the results of tallies."""
    return node.op.kind == "shape" and node.size <= MOST_RESULTS
