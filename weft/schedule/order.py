"""In which order kernels run: a kernel that could write over an input comes after the other readers of it, and after checks."""

from __future__ import annotations

import heapq
from collections.abc import Collection

from weft.graph.node import Node
from weft.kernel.hazards import copies
from weft.schedule.fuse import Fused
from weft.schedule.fusion_graph import View, strip


def ordered(view: View, fused: list[Fused]) -> list[Fused]:
    """The same kernels; updates of a parameter after all that reads it or checks indices, where that is no circle."""
    writer = {n: k for k, f in enumerate(fused) for n in f.outputs}
    before: list[set[int]] = []
    for k, f in enumerate(fused):
        before.append({writer[b] for n, _ in f.inputs if (b := strip(n)) in writer and writer[b] != k})
    wished = _wishes(view, fused, before)  # kernels, and gates, that should come before, but need not
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
    return out


def _wishes(view: View, fused: list[Fused], before: list[set[int]]) -> list[set[int]]:
    """For each kernel those that should come before it; and two more rows, for gates: what many wait for, said once.

    An input that a kernel may write over is read by all others first. And what checks indices comes before what may write over
    an input, for then nothing has changed where an index is out of range: updates that check none wait for those that do.
    """
    ancestors: list[int] = []  # sets of kernels, as bits
    for b in before:  # fused is in a valid order
        mask = 0
        for w in b:
            mask |= ancestors[w] | (1 << w)
        ancestors.append(mask)
    updates = _updates(view, fused, ancestors)
    wished: list[set[int]] = [set() for _ in fused]
    for last, readers in updates.items():
        wished[last] |= readers - before[last] - {last}
    for plain in (False, True):
        behind = [u for u in updates if not (plain and fused[u].sites)]
        held = _bits(behind)
        checks = {k for k, f in enumerate(fused) if f.sites and not (held >> k & 1 or ancestors[k] & held)}
        wished.append(checks)
        if checks:
            for u in behind:
                wished[u].add(len(wished) - 1)
    return wished


def _bits(numbers: Collection[int]) -> int:
    mask = 0
    for k in numbers:
        mask |= 1 << k
    return mask


def _copies(f: Fused) -> list[tuple[int, int]]:
    """Return the (input, output) pairs that may be one memory, and of which the output is a copy that is then changed."""
    assert f.kernel is not None
    return [pair for pair in copies(f.kernel) if pair in f.pairs] if f.pairs else []


def _updates(view: View, fused: list[Fused], ancestors: list[int]) -> dict[int, set[int]]:
    """The kernels that may write over an input and should be the last of its readers, with these.

    Of each input it is the first that gives a result of the input's shape and dtype and before which all other readers can run.
    The same holds of a temporary that a kernel copies and then changes.
    """
    copying = {(strip(f.inputs[i][0]), k) for k, f in enumerate(fused) if f.kernel for i, o in _copies(f)}
    copied = {base for base, _ in copying}
    readers: dict[Node, list[int]] = {}
    for k, f in enumerate(fused):
        for n, _ in f.inputs:
            base = strip(n)
            if base in view.given or base in copied:
                readers.setdefault(base, []).append(k)
    outputs = {strip(o) for o in view.graph.outputs}
    found: dict[int, set[int]] = {}
    for base, who in readers.items():
        inside = 0
        for r in who:
            inside |= ancestors[r]
        for u in who:
            same = any(n in outputs and n.shape == base.shape and n.dtype == base.dtype for n in fused[u].outputs)
            if ((same and base in view.given) or (base, u) in copying) and not inside >> u & 1:
                found.setdefault(u, set()).update(who)
                break
    return found
