"""Order of kernels: a kernel that may write over an input runs after the input's other readers and after index checks.

A kernel that frees more temporary memory than it takes runs as soon as it can: the gradient of a layer's weights, which is the
last reader of the layer's input, does not wait for those of all layers before it.

A kernel that reads a few elements of an array runs before a kernel that writes the array, so that ``t[i], t[j] = t[j], t[i]``
copies nothing.
"""

from __future__ import annotations

import heapq

from weft.graph.node import Node
from weft.kernel.hazards import copies
from weft.schedule.fuse import FusedGroup
from weft.schedule.fusion_graph import FusionGraph, strip


def order_kernels(view: FusionGraph, fused: list[FusedGroup]) -> list[FusedGroup]:
    """Return the kernels in an order in which they can run.

    Updates of a parameter come after all kernels that read it or check indices, unless that would form a cycle.
    """
    writer = {n: k for k, f in enumerate(fused) for n in f.outputs}
    before: list[set[int]] = []
    for k, f in enumerate(fused):
        before.append({writer[b] for n, _ in f.inputs if (b := strip(n)) in writer and writer[b] != k})
    wished = _wishes(view, fused, before)  # kernels and gates that should come before, but need not
    after: list[list[int]] = [[] for _ in fused]
    wishing: list[list[int]] = [[] for _ in wished]
    for k, those in enumerate(before):
        for w in those:
            after[w].append(k)
    for k, those in enumerate(wished):
        for w in those:
            wishing[w].append(k)
    need, wish = [len(b) for b in before], [len(w) for w in wished]
    ready = [k for k, n in enumerate(need) if not n]  # in order: a heap already
    willing = [k for k in ready if not wish[k]]
    memory = _Temporaries(view, fused)
    freeing: list[int] = []  # kernels among the willing ones that free memory
    emitted = [False] * len(fused)
    out = []
    while ready:
        k = heapq.heappop(freeing or willing or ready)  # where wishes form a cycle, the first kernel that can run does
        if emitted[k]:
            continue
        emitted[k] = True
        freeing += [r for r in memory.run(k) if not need[r] and not wish[r] and memory.frees(r)]
        out.append(fused[k])
        for a in after[k]:
            need[a] -= 1
            if not need[a]:
                heapq.heappush(ready, a)
                if not wish[a]:
                    heapq.heappush(willing, a)
                    freeing += [a] if memory.frees(a) else []
        fulfilled = [k]
        for w in fulfilled:
            for a in wishing[w]:
                wish[a] -= 1
                if wish[a]:
                    continue
                if a >= len(fused):
                    fulfilled.append(a)
                elif not need[a]:
                    heapq.heappush(willing, a)
                    freeing += [a] if memory.frees(a) else []
        heapq.heapify(freeing)
    return out


class _Temporaries:
    """The temporaries and their readers that have not run yet.

    A temporary is written by one kernel, read by others, and not returned.
    """

    def __init__(self, view: FusionGraph, fused: list[FusedGroup]) -> None:
        self.written_nodes = [[n for n in map(strip, f.outputs) if n not in view.outputs] for f in fused]
        own = {n for nodes in self.written_nodes for n in nodes}
        self.read = [{b for n, _ in f.inputs if (b := strip(n)) in own} for f in fused]
        self.readers: dict[Node, set[int]] = {n: set() for n in own}
        for k, nodes in enumerate(self.read):
            for n in nodes:
                self.readers[n].add(k)

    def run(self, k: int) -> list[int]:
        """Note that a kernel runs. Return the kernels that have become the only readers of a temporary."""
        for n in self.read[k]:
            self.readers[n].discard(k)
        return [next(iter(self.readers[n])) for n in self.read[k] if len(self.readers[n]) == 1]

    def frees(self, k: int) -> bool:
        """Return whether less temporary memory is in use after a kernel than before it."""
        freed = sum([n.nbytes for n in self.read[k] if self.readers[n] == {k}])
        return freed > sum([n.nbytes for n in self.written_nodes[k]])


def _wishes(view: FusionGraph, fused: list[FusedGroup], before: list[set[int]]) -> list[set[int]]:
    """Return for each kernel the kernels that should run before it; two more rows are gates.

    A gate collects what many kernels wait for. All other readers of an input run before a kernel that may write over it.
    Kernels that check indices run before kernels that may write over an input, so that nothing has changed when an index is out
    of range. Updates without checks wait for updates with them.
    """
    ancestors: list[int] = []  # sets of kernels, as bits
    for b in before:  # fused is in a valid order
        mask = 0
        for w in b:
            mask |= ancestors[w] | (1 << w)
        ancestors.append(mask)
    updates = _updates(view, fused, ancestors)
    wished: list[set[int]] = [set() for _ in fused]
    for update, readers in updates.items():
        wished[update] |= readers - before[update] - {update}
    for plain in (False, True):
        behind = [u for u in updates if not (plain and fused[u].sites)]
        updating = sum([1 << u for u in behind])
        checks = {k for k, f in enumerate(fused) if f.sites and not (updating >> k & 1 or ancestors[k] & updating)}
        wished.append(checks)
        if checks:
            for u in behind:
                wished[u].add(len(wished) - 1)
    return wished


def _copies(f: FusedGroup) -> list[tuple[int, int]]:
    """Return the (input, output) pairs that may share memory and whose output is a changed copy of the input."""
    assert f.kernel is not None
    return [pair for pair in copies(f.kernel) if pair in f.pairs] if f.pairs else []


def _updates(view: FusionGraph, fused: list[FusedGroup], ancestors: list[int]) -> dict[int, set[int]]:
    """Map each kernel that may write over an input, and should be its last reader, to all readers of the input.

    For each input it is the first reader that produces a result of the input's shape and dtype and that no other reader depends
    on. The same holds for a temporary that a kernel copies and then changes.
    """
    copying = {(strip(f.inputs[i][0]), k) for k, f in enumerate(fused) if f.kernel for i, o in _copies(f)}
    copied = {base for base, _ in copying}
    readers: dict[Node, list[int]] = {}
    for k, f in enumerate(fused):
        for n, _ in f.inputs:
            base = strip(n)
            if base in view.graph_inputs or base in copied:
                readers.setdefault(base, []).append(k)
    outputs = {strip(o) for o in view.graph.outputs}
    result: dict[int, set[int]] = {}
    for base, kernels in readers.items():
        inside = 0
        for r in kernels:
            inside |= ancestors[r]
        for u in kernels:
            same = any(n in outputs and n.shape == base.shape and n.dtype == base.dtype for n in fused[u].outputs)
            if ((same and base in view.graph_inputs) or (base, u) in copying) and not inside >> u & 1:
                result.setdefault(u, set()).update(kernels)
                break
    return result
