"""In which order kernels run: a kernel that could write over an input comes after the other readers of it, and after checks."""

from __future__ import annotations

import heapq

from weft.graph.node import Node
from weft.schedule.fuse import Fused
from weft.schedule.view import View, strip


def ordered(view: View, fused: list[Fused]) -> list[Fused]:
    """The same kernels; updates of a parameter after everything that still reads it, where no circle arises."""
    writer = {n: k for k, f in enumerate(fused) for n in f.outputs}
    before: list[set[int]] = []
    for k, f in enumerate(fused):
        before.append({writer[b] for n, _ in f.inputs if (b := strip(n)) in writer and writer[b] != k})
    readers: dict[Node, list[int]] = {}
    for k, f in enumerate(fused):
        for n, _ in f.inputs:
            base = strip(n)
            if base in view.given:
                readers.setdefault(base, []).append(k)
    outputs = {strip(o) for o in view.graph.outputs}
    ancestors: list[int] = []
    for k in range(len(fused)):  # fused is in a valid order
        mask = 0
        for w in before[k]:
            mask |= ancestors[w] | (1 << w)
        ancestors.append(mask)
    extra: list[tuple[int, int]] = []
    updates: dict[int, None] = {}
    for base, who in readers.items():
        for u in who:
            if any(n in outputs and n.shape == base.shape and n.dtype == base.dtype for n in fused[u].outputs):
                extra += [(r, u) for r in who if r != u]
                updates[u] = None
    # what checks indices comes before what may overwrite an input: then nothing has changed where one is out of range
    extra += [(c, u) for c, f in enumerate(fused) if f.sites for u in updates if u != c]
    edges = [set(b) for b in before]
    for r, u in extra:
        if not ancestors[r] >> u & 1 and not _reaches(edges, u, r):
            edges[u].add(r)
    after: list[list[int]] = [[] for _ in fused]
    waiting = [len(e) for e in edges]
    for k, e in enumerate(edges):
        for w in e:
            after[w].append(k)
    heap = [k for k, w in enumerate(waiting) if not w]
    heapq.heapify(heap)
    out = []
    while heap:
        k = heapq.heappop(heap)
        out.append(fused[k])
        for a in after[k]:
            waiting[a] -= 1
            if not waiting[a]:
                heapq.heappush(heap, a)
    return out


def _reaches(edges: list[set[int]], first: int, last: int) -> bool:
    """Whether ``last`` runs after ``first`` by the edges so far."""
    seen: set[int] = set()
    stack = [last]
    while stack:
        k = stack.pop()
        if k == first:
            return True
        if k not in seen:
            seen.add(k)
            stack.extend(edges[k])
    return False
