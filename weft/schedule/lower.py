"""Construction of kernels: the phases, stages and stores of one group of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from weft.graph.node import Node, Shape
from weft.kernel.hazards import in_place
from weft.kernel.index import ZERO, Guard, Index, always_holds
from weft.kernel.ir import Access, Affine, Axis, Buffer, Chain, Contraction, Kernel, Phase, Stage, Store, axis_index
from weft.schedule import lower_attention, lower_index, lower_product, reasons
from weft.schedule.expand import EarlierReduction, Expander, Pending, Scope
from weft.schedule.fusion_graph import FusionGraph
from weft.schedule.group_structure import Structure, ends_kernel, is_tally
from weft.schedule.reasons import NotFusible
from weft.schedule.traffic import traffic

N = TypeVar("N")
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class LoweredKernel(Generic[N]):
    """A kernel and the nodes that its buffers stand for.

    inputs: (node whose memory is read, shape under which it is read). outputs: the nodes stored. scalars: leaves that are
    run-time arguments. sites: the indices that the kernel checks, by number; covered: those of which it checks every element.
    pairs: (input, output) that may share memory. bytes: read and written by the kernel. N is a node, or the number of a node.
    """

    kernel: Kernel | None
    inputs: tuple[tuple[N, Shape], ...]
    outputs: tuple[N, ...]
    scalars: tuple[N, ...] = ()
    sites: tuple[N, ...] = ()
    fully_checked: frozenset[N] = frozenset()
    pairs: tuple[tuple[int, int], ...] = ()
    bytes: int = 0

    def rename(self, name: Callable[[N], M]) -> LoweredKernel[M]:
        """Return the same kernel for other nodes."""
        return LoweredKernel(
            self.kernel, tuple([(name(n), shape) for n, shape in self.inputs]), tuple(map(name, self.outputs)),
            tuple(map(name, self.scalars)), tuple(map(name, self.sites)), frozenset(map(name, self.fully_checked)),
            self.pairs, self.bytes,
        )


def lower(view: FusionGraph, structure: Structure) -> LoweredKernel[Node]:
    """Return the kernel of a group. Raise NotFusible if it cannot be built although the analysis accepted the group."""
    x = Expander(view, structure)
    if structure.product is not None:
        phases = lower_product.phases(x, structure)
    elif structure.nodes[0].op.chains:
        phases = lower_attention.phases(x, structure)
    elif any(ends_kernel(n) for n in structure.nodes):
        phases = lower_index.phases(x, structure)
    elif writes := lower_index.find_small_writes(structure):
        phases = lower_index.lower_small_writes(x, writes)
    else:
        phases = []
        for p in range(1 + max(f.full for f in structure.facts.values())):
            phases += _phase(x, structure, p)
    return _finish(x, structure, phases)


def _finish(x: Expander, structure: Structure, phases: list[Phase]) -> LoweredKernel[Node]:
    """Assign buffers to the stores of all phases and return the kernel."""
    outputs = tuple(structure.stored_nodes)
    first = len(x.inputs)
    buffers = {n: Buffer(first + k, n.dtype, n.shape) for k, n in enumerate(outputs)}

    def place(s: Pending | Store) -> Store:
        if isinstance(s, Store):
            return s
        buffer = buffers[s.node]
        index = tuple([ZERO if n == 1 else i for i, n in zip(s.index, buffer.shape, strict=True)])
        return Store(Access(buffer, index, s.guard), s.value, s.mode)

    built = []
    for phase in phases:
        stages = []
        for stage in phase.stages:
            if isinstance(stage, Stage) and not (stage.reductions or stage.stores):
                continue
            stages.append(_resolve_stores(stage, place))
        built.append(Phase(phase.axes, tuple(stages)))
    kernel = Kernel(
        kernel_name(structure.nodes), tuple(built), tuple(x.inputs.values()), tuple(buffers.values()),
        tuple([n.dtype for n in x.scalars]), tuple(x.scratch),
    )
    pairs = tuple(in_place(kernel, x.view.target.kept_orders))
    if x.view.target.skips_copies:
        kernel, pairs = lower_index.compute_updates_first(kernel, pairs, x.view.target)
    return LoweredKernel(
        kernel, tuple(x.inputs), outputs, tuple(x.scalars), tuple(x.sites), frozenset(x.fully_checked), pairs, traffic(kernel)
    )


def _resolve_stores(stage: Stage | Contraction | Chain, place: Callable[[Pending | Store], Store]) -> Stage | Contraction | Chain:
    """Return a stage with Stores in place of open ones."""
    stores = tuple([place(s) for s in stage.stores])
    if isinstance(stage, Stage):
        return Stage(stage.axes, stage.reductions, stores)
    if isinstance(stage, Chain):
        outer = tuple([replace(o, stores=tuple([place(s) for s in o.stores])) for o in stage.outer])
        return replace(stage, outer=outer, stores=stores)
    return replace(stage, stores=stores)


def _phase(x: Expander, st: Structure, p: int) -> list[Phase]:
    """Return the phases at barrier level p: one over the shared axes, and one for each other domain."""
    stores = [n for n in st.stored_nodes if st.facts[n].full == p]
    fulls = [n for n in st.nodes if st.is_full(n) and st.facts[n].full == p + 1]
    shared = [st.find(t) for t in st.shared or () if t]
    shared_tokens = set(shared)
    within_s: list[Node] = []
    within_f: list[Node] = []
    if any(st.facts[n].needs for n in stores) or any(_reads_reduction(st, n) for n in fulls):
        within_s = [n for n in stores if st.facts[n].needs or shared_tokens <= set(st.tokens(n))]
        within_f = [n for n in fulls if _reads_reduction(st, n)]
    groups: dict[tuple, tuple[list[Node], list[Node]]] = {}
    for n in stores:
        if n not in within_s:
            key: tuple = tuple(t for t in st.tokens(n) if t)
            if len(set(key)) != len(key):
                key = (n,)  # one value along two dimensions needs loops of its own
            groups.setdefault(key, ([], []))[0].append(n)
    for n in fulls:
        if n not in within_f:
            groups.setdefault(_operand_tokens(st, n), ([], []))[1].append(n)
    if x.view.target.tallies:
        _join_loops(st, groups)
    out = [_plain_phase(x, st, some, reduced) for some, reduced in groups.values()]
    if within_s or within_f:
        out.append(_shared_phase(x, st, shared, within_s, within_f))
    return out


def _join_loops(st: Structure, groups: dict[tuple, tuple[list[Node], list[Node]]]) -> None:
    """Move reductions that may run in any order into loops of the same extents that read one of their arrays.

    groups: key of the loops -> the nodes stored and the reductions computed in them.
    """
    for key, (stores, fulls) in list(groups.items()):
        if stores or not all(map(is_tally, fulls)):
            continue
        operand = fulls[0].inputs[0]
        for other, (stored, reduced) in groups.items():
            first = stored[0] if stored else reduced[0].inputs[0]
            if other != key and all(map(is_tally, reduced)) and _have_equal_loops(st, key, operand, other, first):
                if any(st.arrays_below(a.inputs[0]) & st.arrays_below(b) for a in fulls for b in (*stored, first)):
                    reduced += fulls
                    del groups[key]
                    break


def _have_equal_loops(st: Structure, a: tuple, x: Node, b: tuple, y: Node) -> bool:
    """Return whether the loops with keys a and b, over the dimensions of x and y, may be the same loops."""
    if any(st.split_of(t) for key in (a, b) for t in key if isinstance(t, int)):
        return False
    own, others = (set(key) if all(isinstance(t, int) for t in key) else set() for key in (a, b))
    if own & others:
        return own == others
    plain = all(key[:1] == ("memory",) or all(isinstance(t, int) for t in key) for key in (a, b))
    return plain and [n for n in x.shape if n != 1] == [n for n in y.shape if n != 1]


def _reads_reduction(st: Structure, full: Node) -> bool:
    """Return whether the operand of a full reduction reads a reduction of the same phase."""
    below = st.read(full.inputs[0])
    return below is not None and below.needs is not None


def _operand_tokens(st: Structure, full: Node) -> tuple:
    """Return a key of the loops over a full reduction's operand: reductions with equal keys share a phase."""
    below = st.read(full.inputs[0])
    if below is None or full.op.kind == "window":
        return (full,) if full.op.kind == "window" else ("memory", full.inputs[0].shape, full.params["axes"])
    key = tuple(st.find(t) for t in below.dims if t)
    return key if len(set(key)) == len(key) and list(full.params["axes"]) == sorted(full.params["axes"]) else (full,)


class Domain:
    """The loops over what is stored outside shared axes: an Affine for each token, split where pooling needs it."""

    def __init__(self, x: Expander, st: Structure) -> None:
        self.x = x
        self.st = st
        self.at: dict[int, Affine] = {}
        self.axes: list[Axis] = []
        self.guards: dict[int, Guard] = {}

    def index(self, node: Node) -> tuple[Index, tuple[Guard, ...]]:
        """Return the index of the element of ``node``, and the guards of its store."""
        index, guards = [], []
        used: set[int] = set()
        tokens = self.st.tokens(node)
        for d, (token, extent) in enumerate(zip(tokens, node.shape, strict=True)):
            if not token:
                index.append(ZERO)
                continue
            key = token if token not in used else -d - 1
            used.add(token)
            if key not in self.at:
                self.add(key, extent, self.st.split_of(token))
            index.append(self.at[key])
            if key in self.guards:
                guards.append(self.guards[key])
        return tuple(index), tuple(guards)

    def add(self, token: int, extent: int, split: tuple[int, int] | None) -> None:
        """Add the loop of a token, or the two loops of a split dimension."""
        if split is None:
            axis = self.x.axis(extent)
            self.axes.append(axis)
            self.at[token] = axis_index(axis)
            return
        stride, low = split
        quotient, rest = self.x.axis((extent - 1 + low) // stride + 1), self.x.axis(stride)
        self.axes += [quotient, rest]
        position = axis_index(quotient, stride).plus(axis_index(rest)).plus(Affine(-low))
        self.at[token] = position
        if not always_holds((position, 0, extent), self.x.extents):
            self.guards[token] = (position, 0, extent)


def _plain_phase(x: Expander, st: Structure, stores: Sequence[Node], fulls: Sequence[Node]) -> Phase:
    """Build one loop nest without shared reductions that stores arrays, reduces to numbers, or both."""
    x.scope = Scope()
    domain = Domain(x, st)
    pending = []
    for n in stores:
        index, guards = domain.index(n)
        pending.append(Pending(n, index, guards, x.at(n, index, guards)))
    if not fulls:
        axes = tuple(domain.axes)
        if len(axes) and any(st.split_of(t) for n in stores for t in st.tokens(n) if t):
            axes = axes[:-2] + axes[:-3:-1]  # for the last split, the offsets in the window run outside the long loop
        return Phase(axes, (Stage((), (), tuple(pending)),))  # type: ignore[arg-type]
    reductions: list = []
    loops: tuple[Axis, ...] | None = tuple(domain.axes) if stores else None
    for n in fulls:
        index, loops = _operand_index(x, st, n, domain, loops)
        if n.op.kind == "window":
            axes = loops
            value, monoid = x.window_value(n, (ZERO,) * len(n.shape), tuple([axis_index(a) for a in loops]))
        else:
            by_dim = [next((a for a in loops if axis_index(a) == i), None) for i in index]
            axes = tuple([a for d in n.params["axes"] if (a := by_dim[d]) is not None])
            value, monoid = x.at(n.inputs[0], index), n.op.monoid
        if stores and x.view.target.tallies and is_tally(n):
            value, dtype = lower_product.expand_tally(x, value, n)
            part = x.reduce(n, axes, monoid, value, carried=False, into=reductions, dtype=dtype)
            x.complete[n] = lower_product.join_tally(x, n, [part])
        else:
            x.complete[n] = x.reduce(n, axes, monoid, value, carried=False, into=reductions)
    return Phase((), (Stage(loops or (), tuple(reductions), tuple(pending)),))  # type: ignore[arg-type]


def _operand_index(
    x: Expander, st: Structure, n: Node, domain: Domain, loops: tuple[Axis, ...] | None,
) -> tuple[Index, tuple[Axis, ...]]:
    """Return the index at which a full reduction reads its operand and the loops of its stage, creating them if None."""
    if n.op.kind == "window":
        return (), tuple([x.axis(w) for w in n.params["window"]])
    operand = n.inputs[0]
    below = st.read(operand)
    if loops is None:
        loops = tuple([x.axis(e) for e in operand.shape if e != 1])
        if below is not None:
            for t, a in zip([t for t in below.dims if t], loops, strict=True):
                domain.at[st.find(t)] = axis_index(a)
    if below is not None:
        for t, a in zip([st.find(t) for t in below.dims if t], loops, strict=True):
            domain.at.setdefault(t, axis_index(a))
        return tuple([domain.at[st.find(t)] if t else ZERO for t in below.dims]), loops
    own = iter(loops)
    return tuple([axis_index(next(own)) if e != 1 else ZERO for e in operand.shape]), loops


def _shared_phase(x: Expander, st: Structure, shared: list[int], stores: Sequence[Node], fulls: Sequence[Node]) -> Phase:
    """Build loops over the kept axes of reductions; inside, a stage for each depth of reduction, then the stores."""
    scope = x.scope = Scope()
    extents: dict[int, int] = {}
    for n in st.nodes:
        for t, e in zip(st.tokens(n), n.shape, strict=True):
            if t:
                extents[t] = e
    first = stores[0] if stores else fulls[0].inputs[0]
    facts = st.read(first)
    assert facts is not None
    ordered = [t for t in map(st.find, filter(None, facts.dims)) if t in shared]
    for token in [*ordered, *[t for t in shared if t not in ordered]]:
        if token not in scope.at:
            axis = x.axis(extents[token])
            scope.axes.append(axis)
            scope.at[token] = axis_index(axis)
    for n in fulls:
        below = st.read(n.inputs[0])
        assert below is not None
        if n.op.kind == "window":
            raise NotFusible(reasons.OTHER_INDEX)
        tokens = tuple([st.find(t) if t else 0 for t in below.dims])
        index, own, reductions, _ = _stage_index(x, tokens, n.inputs[0].shape, below.depth + 1)
        axes = tuple([own[d] for d in n.params["axes"] if d in own])
        value = x.at(n.inputs[0], index)
        if all(a in scope.axes for a in axes) and value.op != "acc":  # one number a row: computed with the row, summed at the end
            kept = Buffer(len(x.scratch), value.dtype, tuple([a.extent for a in axes]), "kernel")
            x.scratch.append(kept)
            place = Access(kept, tuple([ZERO if a.extent == 1 else axis_index(a) for a in axes]))
            x.stage(below.depth + 1, ())[2].append(Store(place, value))
            value, reductions = x.m.load(place), x.stage(below.depth + 2, ())[1]
        x.complete[n] = x.reduce(n, axes, n.op.monoid, value, carried=True, into=reductions)
    for n in stores:
        level = st.facts[n].depth + 1 if st.facts[n].needs else 1
        index, _, _, pending = _stage_index(x, st.tokens(n), n.shape, level)
        pending.append(Pending(n, index, (), x.at(n, index)))
    late_stores: list[Store] = []  # stores of reductions that later phases read
    for n, value in scope.accs.items():
        x.earlier_reductions.setdefault(
            n, EarlierReduction(tuple([scope.at[t] if t else ZERO for t in st.tokens(n)]), value, late_stores)
        )
    ordered_stages = sorted(scope.stages.items(), key=lambda item: item[0][0])
    stages = [Stage(axes, tuple(r), tuple(s)) for _, (axes, r, s) in ordered_stages]
    return Phase(tuple(scope.axes), (*stages, Stage((), (), late_stores)))  # type: ignore[arg-type]


def _stage_index(x: Expander, tokens: tuple[int, ...], shape: Shape, level: int):
    """Return (index, axis of each dimension, reductions, stores) over shared axes and the loops of one stage."""
    scope = x.scope
    free = tuple([e for t, e in zip(tokens, shape, strict=True) if t and t not in scope.at])
    axes, reductions, pending = x.stage(level, free)
    rest = iter(axes)
    index, own = [], {}
    by_id = {a.id: a for a in scope.axes}
    for d, t in enumerate(tokens):
        if not t:
            index.append(ZERO)
        elif t in scope.at:
            index.append(scope.at[t])
            own[d] = by_id[scope.at[t].terms[0][0]]
        else:
            own[d] = next(rest)
            index.append(axis_index(own[d]))
    return tuple(index), own, reductions, pending


_SHORT = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg", "maximum": "max", "minimum": "min",
    "reduce_sum": "sum", "reduce_prod": "prod", "reduce_max": "max", "reduce_min": "min", "reduce_window": "pool",
    "dot_general": "dot", "conv_general": "conv", "window_gather": "unpool", "cumulative_sum": "cumsum",
    "cumulative_prod": "cumprod", "cumulative_max": "cummax", "cumulative_min": "cummin",
    "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "equal": "eq", "not_equal": "ne",
    "broadcast_to": "broadcast", "random_bits": "random", "floor_divide": "floordiv", "remainder": "rem",
    "slice_set": "write", "root_of_squares": "sqrt", "reciprocal": "recip",
    "logical_and": "and", "logical_or": "or", "logical_not": "not",
}
_LONGEST = 5


def kernel_name(nodes: Sequence[Node]) -> str:
    """Return a name such as ``dot_add_max``: the operations in order, each once.

    Element-wise operations and moves are dropped first if there are more than ``_LONGEST``.
    """
    words: dict[str, bool] = {}
    for node in nodes:
        heavy = node.op.kind not in ("elementwise", "shape", "leaf")
        word = _SHORT.get(node.op.name, node.op.name)
        words[word] = words.get(word, False) or heavy
    while len(words) > _LONGEST:
        light = [w for w, heavy in words.items() if not heavy]
        del words[light[-1] if light else next(reversed(words))]
    return "_".join(words)
