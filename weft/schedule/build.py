"""Compilation of a graph to a Program: kernels in order, the slots they share, memory, and donation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from weft.dtypes.formats import UINT8
from weft.graph.calls import inline
from weft.graph.decompose import decompose
from weft.graph.hoist_checks import hoist_checks
from weft.graph.loops import prune_loops
from weft.graph.node import Graph, Node, Shape
from weft.graph.primitives.table import SCALAR
from weft.graph.ranges import remove_certain_checks
from weft.graph.simplify import simplify
from weft.kernel.hazards import copies
from weft.kernel.ir import Kernel
from weft.kernel.target import CPU, Target
from weft.schedule import index_checks, overlap
from weft.schedule.arena import arena
from weft.schedule.fuse import FusedGroup, fuse
from weft.schedule.fusion_graph import FusionGraph, strip
from weft.schedule.kernel_info import describe_kernel
from weft.schedule.order import order_kernels
from weft.schedule.program import Call, Carry, Copy, HostCall, Loop, Program, Slot, Step, root

Prepare: TypeAlias = Callable[[Kernel], Any]
_FARTHEST = 64  # operations; greater distances between an input and an output count as equal


def build(graph: Graph, target: Target = CPU, prepare: Prepare | None = None) -> Program:
    """The Program that computes a graph's outputs.

    Parameters
    ----------
    graph : Graph
        Its ``inputs`` are the Program's inputs, in order: buffers, and numbers for ``scalar`` leaves.
    prepare : function, optional
        Called with each kernel, before the Program is complete.

    Returns
    -------
    Program
        ``info`` has one KernelInfo for each Call, in order.

    Examples
    --------
    >>> from weft.dtypes.formats import FLOAT32
    >>> from weft.graph.node import Graph
    >>> from weft.graph.primitives import TABLE, bind, input_leaf
    >>> x = input_leaf((4, 8), FLOAT32)
    >>> total = bind(TABLE["reduce_sum"], x, axes=(0, 1), keepdims=False)
    >>> len(build(Graph([x], [bind(TABLE["divide"], x, total)])).steps)
    1
    """
    return build_with_groups(graph, target, prepare)[0]


def build_with_groups(graph: Graph, target: Target = CPU, prepare: Prepare | None = None) -> tuple[Program, list[FusedGroup]]:
    """Return :func:`build`'s result and, in order, the group of nodes behind each step. Copies at the end have none."""
    small = simplify(decompose(inline(graph), target.chains))
    apart = hoist_checks(remove_certain_checks(small))
    return _schedule(prune_loops(small if apart is small else simplify(apart)), target, prepare, inside=False)


def _schedule(graph: Graph, target: Target, prepare: Prepare | None, inside: bool) -> tuple[Program, list[FusedGroup]]:
    """Return the Program of a simplified graph.

    ``inside``: the graph is a loop body. It may write over its inputs although a check may fail later, because arrays outside
    the loop do not change before the loop has ended.
    """
    if target.splits_effects:
        graph = overlap.split_effects(graph)
    view, fused = fuse(graph, target)
    fused = order_kernels(view, overlap.begin_early(fused))
    if target.channels_last:
        from weft.schedule.layout import choose_layouts  # the CPU never needs it

        fused = choose_layouts(view, fused, target)
    if prepare is not None:
        for f in fused:
            if f.kernel is not None:
                prepare(f.kernel)
    slots = _Slots(view)
    steps: list[Step] = []
    info = []
    lines: dict[Any, str] = {}
    for k, f in enumerate(fused):
        if f.kernel is None:
            node = f.nodes[0]
            if node.op.kind == "loop":
                steps.append(_loop(slots, f, prepare))
                continue
            op = node.op
            assert op.reference is not None
            args = tuple([slots.slot_of(i, i.shape) for i in node.inputs])
            out = slots.slot_of(node, node.shape)
            flops = 0 if op.cost is None else op.cost(node).flops
            params = {**node.params, "at_once": True} if overlap.is_at_once(fused, k) else node.params
            steps.append(HostCall(
                op.name, op.reference, args, out, params, op.raises, node.source_line, flops, op.on_device,
            ))
            continue
        ids = [slots.slot_of(n, shape) for n, shape in f.inputs] + [slots.slot_of(n, n.shape) for n in f.outputs]
        numbers = tuple([slots.position[n] for n in f.scalars])
        steps.append(Call(f.kernel, tuple(ids), numbers, tuple([index_checks.site(n) for n in f.sites])))
        info.append(describe_kernel(f, lines))
    steps += slots.copies()
    table, size = slots.finish(steps, fused)
    program = Program(
        tuple([(n.shape, n.dtype) for n in graph.inputs]), tuple([(n.shape, n.dtype) for n in graph.outputs]), table,
        tuple(steps), size, _donations(graph, table, steps, fused, inside), tuple(info),
    )
    return program, fused


def _loop(slots: _Slots, fused: FusedGroup, prepare: Prepare | None) -> Loop:
    """Return a scan as a step. Its body is a Program of its own."""
    (scan,) = fused.nodes
    body: Graph = scan.params["body"].graph
    target = slots.view.target
    program = _schedule(prune_loops(simplify(decompose(body, target.chains))), target, prepare, inside=True)[0]
    n, xs, total = scan.params["carries"], scan.params["xs"], len(body.outputs)
    length = scan.params["length"]
    in_place = set(program.donate)
    result_slots = {f.params["index"]: slots.slot_of(f, f.shape) for f in fused.outputs}
    inputs = [slots.slot_of(i, i.shape) for i in scan.inputs]
    count = inputs.pop() if scan.params["counted"] else -1
    carries = []
    for k, node in enumerate(body.outputs[:n]):
        last = result_slots[k] if k in result_slots else slots.add("arena", node.shape, node.dtype)
        tape = result_slots.get(total + k, -1)
        swaps = tape < 0 and length > 1 and (k, k) not in in_place
        spare = slots.add("arena", node.shape, node.dtype) if swaps else -1
        carries.append(Carry(inputs[k], last, spare, tape))
    ys = tuple([result_slots[k] for k in range(n, total)])
    arena = slots.add("arena", (program.arena,), UINT8) if program.arena else -1
    return Loop(
        program, length, scan.params["reverse"], tuple(carries), tuple(inputs[n : n + xs]), tuple(inputs[n + xs :]), ys, arena,
        count, scan.params["until"],
    )


class _Slots:
    """Slots, created on demand: one for each memory, and an alias for each other shape under which the memory is read."""

    def __init__(self, view: FusionGraph) -> None:
        self.view = view
        graph = view.graph
        self.slots: list[Slot] = []
        self.memory: dict[Node, int] = {}
        self.by_shape: dict[tuple[int, Shape], int] = {}
        self.position: dict[Node, int] = {}
        for k, node in enumerate(graph.inputs):
            self.position.setdefault(node, k)
            slot = self.add("input", node.shape, node.dtype, position=k)
            if node.op is not SCALAR:  # a number has no memory: where memory is needed, a kernel stores it
                self.memory.setdefault(node, slot)
        self.waiting: list[tuple[Node, int]] = []
        for k, node in enumerate(graph.outputs):
            slot = self.add("output", node.shape, node.dtype, position=k)
            base = strip(node)
            if base in self.memory or not view.is_real(base):
                if node.size:
                    self.waiting.append((base, slot))
            else:
                self.memory[base] = slot

    def add(self, kind: str, shape: Shape, dtype: Any, **rest: int) -> int:
        """Append a slot and return its number."""
        slot = Slot(len(self.slots), kind, shape, dtype, **rest)
        self.slots.append(slot)
        if kind != "alias":
            self.by_shape[slot.id, shape] = slot.id
        return slot.id

    def slot_of(self, node: Node, shape: Shape) -> int:
        """Return the slot of the memory below a node, under a shape."""
        base = strip(node)
        if base not in self.memory:
            self.memory[base] = self.add("arena", base.shape, base.dtype)
        root = self.memory[base]
        if (root, shape) not in self.by_shape:
            self.by_shape[root, shape] = self.add("alias", shape, node.dtype, of=root)
        return self.by_shape[root, shape]

    def copies(self) -> list[Step]:
        """Return the copies to outputs that are an input or another output."""
        return [Copy(self.memory[base], target) for base, target in self.waiting]

    def finish(self, steps: list[Step], fused: list[FusedGroup]) -> tuple[tuple[Slot, ...], int]:
        """Return all slots, with their offsets in the arena, and the arena's size."""
        lives: dict[int, tuple[int, int]] = {}
        for k, step in enumerate(steps):
            for i in (*step.reads, *step.writes):
                slot = root(self.slots, i)
                if slot.kind == "arena":
                    lives[slot.id] = (lives[slot.id][0] if slot.id in lives else k, k)
        merged, ends = self._merge_slots(steps, fused, lives)
        roots = list(lives)
        offsets, size = arena([self.slots[r].nbytes for r in roots], [lives[r] for r in roots])
        place = dict(zip(roots, offsets, strict=True))
        table = []
        for s in self.slots:
            owner = root(self.slots, s.id).id
            owner = merged.get(owner, owner)
            if owner in ends:
                s = replace(s, kind="alias", of=ends[owner])
            elif s.kind == "arena":
                s = replace(s, offset=place.get(owner, 0))
            table.append(s)
        return tuple(table), size

    def _merge_slots(
        self, steps: list[Step], fused: list[FusedGroup], lives: dict[int, tuple[int, int]]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Map each temporary to the memory it can take over: to the first temporary there, or to an output.

        A temporary takes over the memory of one whose last reader is the kernel that writes the temporary. Thus several writes
        to one array in a row change one memory; if the last of them produces an output by copying the temporary, the chain uses
        the memory of the output. Any other output keeps its own memory, which may be a donated input. Afterwards ``lives``
        contains only the first temporary of each chain, with the lifetime of the chain, and no temporary that uses the memory
        of an output.
        """
        first: dict[int, int] = {}
        ends: dict[int, int] = {}
        for k, (step, f) in enumerate(zip(steps, fused, strict=False)):  # copies at the end belong to no kernel
            if not isinstance(step, Call):
                continue
            count = len(step.kernel.inputs)
            roots = [root(self.slots, a).id for a in step.args]
            used: set[int] = set()
            for i, o in f.pairs:
                a, b = roots[i], roots[count + o]
                head = first.get(a, a)
                if head not in lives or roots.count(a) > 1 or used & {a, b} or lives[head][1] != k:
                    continue
                if self.slots[a].nbytes != self.slots[b].nbytes:
                    continue
                if b in lives and lives[b][0] == k:
                    first[b] = head
                    lives[head] = lives[head][0], lives.pop(b)[1]
                    used |= {a, b}
                elif self.slots[b].kind == "output" and b not in ends.values() and (i, o) in copies(step.kernel):
                    ends[head] = b
                    del lives[head]
                    used |= {a, b}
        return first, ends


def _donations(
    graph: Graph, slots: tuple[Slot, ...], steps: list[Step], fused: list[FusedGroup], inside: bool
) -> tuple[tuple[int, int], ...]:
    """Return the (input, output) pairs that may share memory; pairs with the fewest operations between them come first."""

    last: dict[int, int] = {}
    first: dict[int, int] = {}  # memory -> the step that first writes it
    for k, step in enumerate(steps):
        for i in step.writes:
            first.setdefault(root(slots, i).id, k)
        for i in step.reads:
            if root(slots, i).kind == "input":
                last[root(slots, i).position] = k
    pairs: list[tuple[int, int, int]] = []  # (distance, input, output)
    sites: list[tuple[int, int, int]] = []  # (step, input, output as its kernel numbers them)
    for k, (step, f) in enumerate(zip(steps, fused, strict=False)):
        if isinstance(step, Loop):
            for c in step.in_place:
                source, target = root(slots, step.carries[c].init), root(slots, step.carries[c].result)
                once = sum(root(slots, i).id == source.id for i in step.reads) == 1
                if source.kind == "input" and target.kind == "output" and last[source.position] == k == first[target.id] and once:
                    pairs.append((1, source.position, target.position))
                    sites.append((k, c, c))
        if not isinstance(step, Call):
            continue
        count = len(step.kernel.inputs)
        candidates: dict[int, list[tuple[int, int]]] = {}  # output of the kernel -> (its input, the Program's input)
        for i, o in f.pairs:
            source, target = root(slots, step.args[i]), root(slots, step.args[count + o])
            if source.kind != "input" or target.kind != "output" or not last[source.position] == k == first[target.id]:
                continue
            if sum(root(slots, a).id == source.id for a in step.reads) == 1:
                candidates.setdefault(o, []).append((i, source.position))
        for o, sources in candidates.items():
            away = _input_distances(f.outputs[o], {graph.inputs[position] for _, position in sources})
            for i, position in sources:
                pairs.append((away.get(graph.inputs[position], _FARTHEST), position, root(slots, step.args[count + o]).position))
                sites.append((k, i, o))
    if not inside:
        pairs = [p for p, is_safe in zip(pairs, index_checks.safe(steps, fused, sites), strict=True) if is_safe]
    return tuple([(i, o) for _, i, o in sorted(pairs)])


def _input_distances(node: Node, sources: set[Node]) -> dict[Node, int]:
    """Return the number of operations between an output and each of the ``sources`` nearer than ``_FARTHEST``."""
    seen, level, distance = {node}, {node}, 0
    result: dict[Node, int] = {}
    while level and distance < _FARTHEST and len(result) < len(sources):
        distance += 1
        level = {i for n in level for i in n.inputs} - seen
        seen |= level
        for i in level & sources:
            result[i] = distance
    return result
