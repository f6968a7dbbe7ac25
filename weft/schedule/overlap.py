"""Effects beside the kernels of a program: each begins as early as its operands are known, and is waited for late.

The turns of effects fix their order, so all ranks of a job begin them in the order of the program. An effect that is not split,
and the end of the program, come after all effects before them.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

from weft.dtypes.formats import INT32
from weft.graph.node import Graph, Node
from weft.schedule.fuse import FusedGroup
from weft.schedule.fusion_graph import strip

_NUMBERS = count()  # of beginnings: each place in a program has its own


def split_effects(graph: Graph) -> Graph:
    """Return the graph with two nodes in place of each effect whose result is read: one begins it, one waits for it."""
    if not any([n.op.halves for n in graph.order]):
        return graph
    read = {i for n in graph.order if n.op.name != "turn" for i in n.inputs} | {*graph.outputs}
    done: dict[Node, Node] = {n: n for n in graph.inputs}
    begun: dict[Node, Node] = {}  # effect -> its beginning; turn -> the turn after beginnings
    open_waits: dict[Node, list[Node]] = {}  # for keys and values of ``begun``: the waits that end what has begun before

    for node in graph.order:
        if node in done:
            continue
        if node.op.halves and node in read:
            turn, (begin, wait) = node.inputs[-1], node.op.halves
            operands = *[done[i] for i in node.inputs[:-1]], begun.get(turn, done[turn])
            params = {**node.params, "number": next(_NUMBERS)}
            first = begun[node] = Node(begin, operands, params, (), INT32, node.source_line)
            done[node] = Node(wait, (first,), {}, node.shape, node.dtype, node.source_line)
            open_waits[node] = [*open_waits.get(turn, ()), done[node]]
        elif node.op.name == "turn" and any([i in begun for i in node.inputs]):
            after = tuple([begun.get(i, done[i]) for i in node.inputs])
            begun[node] = after[0] if len(after) == 1 else node.on(after)
            open_waits[node] = [w for i in node.inputs for w in open_waits.get(i, ())]
            rest = [done[i] for i in node.inputs if i not in begun]
            done[node] = node.on((*dict.fromkeys([*open_waits[node], *rest]),))
        else:
            done[node] = node.on(tuple([done[i] for i in node.inputs]))
    return Graph(graph.inputs, [done[o] for o in graph.outputs])


def begin_early(fused: list[FusedGroup]) -> list[FusedGroup]:
    """Return kernels in an order in which each beginning comes as early as possible.

    First comes what the first beginning depends on, then what the second one depends on, and so on. A wait comes when nothing
    else can run that is needed as early, after kernels that no beginning depends on.
    """
    timing = [f.nodes[0].op.timing if f.kernel is None else "" for f in fused]
    if "early" not in timing:
        return fused
    writer = {n: k for k, f in enumerate(fused) for n in f.outputs}
    before = [{writer[b] for n, _ in f.inputs if (b := strip(n)) in writer} - {k} for k, f in enumerate(fused)]
    after: list[list[int]] = [[] for _ in fused]
    number = [0] * len(fused)  # of beginnings that a kernel depends on
    for k, those in enumerate(before):  # fused is in a valid order
        for w in those:
            after[w].append(k)
            number[k] = max(number[k], number[w] + (timing[w] == "early"))
    never = len(fused)
    goal = [number[k] if when == "early" else never for k, when in enumerate(timing)]  # the first beginning that depends on it
    for k in reversed(range(len(fused))):
        goal[k] = min([goal[k], *[goal[a] for a in after[k]]])
    near: list[tuple[int, int, int]] = []  # (goal, number, kernel), of what a beginning depends on
    rest: list[tuple[int, int, int]] = []
    waits: list[tuple[int, int, int]] = []
    need = [len(those) for those in before]
    out: list[FusedGroup] = []
    fresh = [k for k, n in enumerate(need) if not n]
    while len(out) < len(fused):
        for k in fresh:
            heappush(waits if timing[k] == "late" else near if goal[k] < never else rest, (goal[k], number[k], k))
        is_near = near and (not waits or near[0][0] <= waits[0][0])
        k = heappop(near if is_near else rest or waits or near)[2]
        out.append(fused[k])
        for a in after[k]:
            need[a] -= 1
        fresh = [a for a in after[k] if not need[a]]
    return out


def is_at_once(fused: list[FusedGroup], k: int) -> bool:
    """Return whether the next step waits for what step ``k`` begins, so that nothing goes on beside it."""
    (node,) = fused[k].nodes
    return k + 1 < len(fused) and fused[k + 1].nodes[0].op.timing == "late" and fused[k + 1].nodes[0].inputs == (node,)
