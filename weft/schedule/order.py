"""In which order kernels run: a kernel that could write over an input comes after the other readers of it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from weft.graph.node import Node
from weft.schedule.fuse import Fused
from weft.schedule.view import View, strip


def ordered(view: View, fused: list[Fused]) -> list[Fused]:
    """The same kernels; updates of a parameter after everything that still reads it, where no circle arises."""
    writer = {n: k for k, f in enumerate(fused) for n in f.outputs}
    before: list[set[int]] = []
    for k, f in enumerate(fused):
        before.append({writer[b] for n, _ in f.inputs if (b := strip(n)) in writer and writer[b] != k})
    wished: list[set[int]] = [set() for _ in fused]  # kernels that should come before, but need not
    for readers, last in _updates(view, fused, before):
        wished[last] |= readers - before[last] - {last}
    after: list[list[int]] = [[] for _ in fused]
    wishing: list[list[int]] = [[] for _ in fused]
    for k in range(len(fused)):
        for w in before[k]:
            after[w].append(k)
        for w in wished[k]:
            wishing[w].append(k)
    need, wish = [len(b) for b in before], [len(w) for w in wished]
    ready = [k for k, n in enumerate(need) if not n]  # in order: a heap already
    willing = [k for k in ready if not wish[k]]
    done = [False] * len(fused)
    out = []
    while ready:
        k = heapq.heappop(willing or ready)  # where wishes form a circle, the first kernel that can run does
        if done[k]:
            continue
        done[k] = True
        out.append(fused[k])
        for a in after[k]:
            need[a] -= 1
            if not need[a]:
                heapq.heappush(ready, a)
                if not wish[a]:
                    heapq.heappush(willing, a)
        for a in wishing[k]:
            wish[a] -= 1
            if not wish[a] and not need[a]:
                heapq.heappush(willing, a)
    return out


def _updates(view: View, fused: list[Fused], before: list[set[int]]) -> Iterator[tuple[set[int], int]]:
    """For each input that a kernel may write over: its readers, and that one of them which should come last.

    It is the first that gives a result of the input's shape and dtype and before which all other readers can run.
    """
    ancestors: list[int] = []  # sets of kernels, as bits
    for b in before:  # fused is in a valid order
        mask = 0
        for w in b:
            mask |= ancestors[w] | (1 << w)
        ancestors.append(mask)
    readers: dict[Node, list[int]] = {}
    for k, f in enumerate(fused):
        for n, _ in f.inputs:
            base = strip(n)
            if base in view.given:
                readers.setdefault(base, []).append(k)
    outputs = {strip(o) for o in view.graph.outputs}
    for base, who in readers.items():
        inside = 0
        for r in who:
            inside |= ancestors[r]
        for u in who:
            same = any(n in outputs and n.shape == base.shape and n.dtype == base.dtype for n in fused[u].outputs)
            if same and not inside >> u & 1:
                yield set(who), u
                break
