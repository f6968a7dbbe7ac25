"""Kernels that end in writes at other positions: scatter, strided partial writes, running folds.

A scatter copies its base and then writes. In place the copy changes nothing, and the CPU's code skips it if input and output
have one address, so an update costs what it touches. If it cannot be shown that an element is read before it is written in the
same iteration, the updates are computed in scratch in an earlier phase. A write of a small static part (``t[1] = x``) is
lowered like a scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from weft.graph.node import Node
from weft.graph.primitives.settings import ADD, ADD_UNORDERED
from weft.kernel.expressions import INT64, Machine
from weft.kernel.hazards import copies, in_place
from weft.kernel.index import ZERO, Index, broadcast
from weft.kernel.ir import Access, Affine, Axis, Buffer, Kernel, Phase, Reduction, Stage, Store, axis_index, size_of
from weft.kernel.summation import reduction_order
from weft.kernel.target import Order, Target
from weft.schedule.expand import Expander, Pending, Scope
from weft.schedule.group_structure import Structure, ends_kernel, reduces

Pairs = tuple[tuple[int, int], ...]
MIN_SIZE_RATIO = 4  # an update is kept in scratch if it is at least this many times smaller than its array


def phases(x: Expander, st: Structure) -> list[Phase]:
    """Return the phases of a group that ends in a write."""
    node = next(n for n in st.nodes if ends_kernel(n))
    return {
        "running": _lower_running, "board": _last_equal, "scatter": _lower_write, "write": _lower_write,
    }[node.op.kind](x, st, node)


def _lower_write(x: Expander, st: Structure, node: Node) -> list[Phase]:
    base, is_scatter = node.inputs[0], node.op.kind == "scatter"
    if is_scatter and node.params["mode"] == "own":
        return _scatter_rows(x, st)
    checks = _checks(x, node.inputs[2:]) if is_scatter else []
    copied = _copy_and_write(x, node, _small_chain(st, base), base)
    return [*checks, *copied, _scatter(x, node) if is_scatter else _write(x, node, node)]


def find_small_writes(st: Structure) -> list[Node]:
    """Return the writes in which a group ends, in order, if they change few elements of an array in memory, else [].

    They are lowered, like scatters, as a copy of the array followed by the writes. The copy is left out if the result takes
    over the memory of the array.
    """
    return _small_chain(st, st.stored_nodes[0]) if len(st.stored_nodes) == 1 else []


def _small_chain(st: Structure, base: Node) -> list[Node]:
    """Return the small writes, one after the other, that produce ``base`` from an array in memory.

    [] if ``base`` is anything else.
    """
    if not st.view.target.skips_copies or st.product is not None or st.splits or any(map(reduces, st.nodes)):
        return []
    out = []
    while base in st.members and base.op.kind == "write":
        out.append(base)
        base = base.inputs[0]
    stored = base not in st.members and (st.view.is_real(base) or st.view.is_stored(base))
    return out[::-1] if stored and MIN_SIZE_RATIO * sum(n.inputs[1].size for n in out) <= base.size else []


def lower_small_writes(x: Expander, writes: Sequence[Node]) -> list[Phase]:
    """Lower writes of static parts of one array. Each may read what the array contained before all of them."""
    return _copy_and_write(x, writes[-1], writes, writes[-1])


def _copy_and_write(x: Expander, stored: Node, writes: Sequence[Node], base: Node) -> list[Phase]:
    """Copy an array into the buffer of ``stored``, then make the writes there. Without writes, ``base`` is copied."""
    bottom = writes[0].inputs[0] if writes else base
    return [_copy(x, stored, bottom), *[_write(x, node, stored) for node in writes if node.inputs[1].size]]


def compute_updates_first(kernel: Kernel, pairs: Pairs, target: Target) -> tuple[Kernel, Pairs]:
    """Move the computation of updates before the writes, through scratch, if the result can then take over the array's memory.

    A loop that reads and writes one array then changes a few elements in each step and copies nothing. An update is worth its
    scratch only if it is much smaller than the array. Return the kernel and its pairs unchanged if that gains no pair.
    """
    copied = {pair: p for pair, p in copies(kernel).items() if pair not in pairs}
    if not copied:
        return kernel, pairs
    first = 1 + max(copied.values())
    writing: list[tuple[Phase, Stage]] = []
    for phase in kernel.phases[first:]:
        for stage in phase.stages:
            if not isinstance(stage, Stage) or stage.reductions or len(phase.stages) > 1:
                return kernel, pairs
            writing.append((phase, stage))
    least = min([prod(kernel.inputs[i].shape) for i, _ in copied])
    if not writing or MIN_SIZE_RATIO * sum(size_of((*phase.axes, *stage.axes)) for phase, stage in writing) > least:
        return kernel, pairs
    m, scratch = Machine(), list(kernel.scratch)
    before: list[Phase] = []

    def store_in_scratch(axes: tuple[Axis, ...], store: Store) -> Store:
        if store.value.op == "const":
            return store
        buffer = Buffer(len(scratch), store.value.dtype, tuple([a.extent for a in axes]), "kernel")
        place = Access(buffer, tuple([axis_index(a) if a.extent != 1 else ZERO for a in axes]))
        scratch.append(buffer)
        before.append(Phase(axes, (Stage((), (), (Store(place, store.value),)),)))
        return replace(store, value=m.load(place))

    after = [
        Phase(phase.axes, (replace(s, stores=tuple([store_in_scratch((*phase.axes, *s.axes), store) for store in s.stores])),))
        for phase, s in writing
    ]
    new = replace(kernel, phases=(*kernel.phases[:first], *before, *after), scratch=tuple(scratch))
    new_pairs = tuple(in_place(new, target.kept_orders))
    return (new, new_pairs) if set(copied) & set(new_pairs) else (kernel, pairs)


def _checks(x: Expander, indices: Sequence[Node]) -> list[Phase]:
    """Return phases that check the indices of a write before it starts. Each sums its indices; no phase reads the sums."""
    out = []
    for operand in indices:
        x.scope = Scope()
        axes = tuple([x.axis(n) for n in operand.shape if n != 1]) or (x.axis(1),)
        rest = iter(axes)
        before = len(x.sites)
        value = x.at(operand, tuple([ZERO if n == 1 else axis_index(next(rest)) for n in operand.shape]))
        if len(x.sites) == before:
            continue
        number, x.reductions = x.reductions, x.reductions + 1
        order = reduction_order(axes[-1].extent, last=True, orders=x.view.target.orders)
        out.append(Phase((), (Stage(axes, (Reduction(number, axes, "sum", value, INT64, INT64, order),)),)))
    x.checked_before |= set(x.sites)
    return out


def _loops(x: Expander, shape: tuple[int, ...]) -> tuple[tuple[Axis, ...], Index]:
    """Return loops over a shape and the index of its element."""
    axes = [x.axis(n) if n != 1 else None for n in shape]
    return tuple([a for a in axes if a is not None]), tuple([axis_index(a) if a is not None else ZERO for a in axes])


def _copy(x: Expander, node: Node, base: Node) -> Phase:
    """Lower a copy of ``base`` into the buffer of ``node``."""
    x.scope = Scope()
    axes, index = _loops(x, node.shape)
    return Phase(axes, (Stage((), (), (Pending(node, index, (), x.at(base, index)),)),))  # type: ignore[arg-type]


def _written_index(x: Expander, node: Node, at: Index) -> tuple[Index, list[tuple[Node, Index, int]]]:
    """Return where a scatter writes the update at ``at``, and (indices, index of the element read, extent) of each axis."""
    base, updates, *indices = node.inputs
    rank = len(updates.shape) - (len(base.shape) - len(indices))
    axes = node.params["axes"]
    positions = [(i, broadcast(at[:rank], i.shape), base.shape[a]) for a, i in zip(axes, indices, strict=True)]
    index = {a: x.position(operand, place, (), extent) for a, (operand, place, extent) in zip(axes, positions, strict=True)}
    rest = iter(at[rank:])
    return tuple([index[d] if d in index else next(rest) for d in range(len(base.shape))]), positions


def _scatter(x: Expander, node: Node) -> Phase:
    """Lower the additions or writes of a scatter."""
    x.scope = Scope()
    axes, at = _loops(x, node.inputs[1].shape)
    where, _ = _written_index(x, node, at)
    mode = node.params["mode"]
    if mode == ADD_UNORDERED and not x.view.target.fast_unordered:
        mode = ADD
    store = Pending(node, where, (), x.at(node.inputs[1], at), mode)
    return Phase((), (Stage(axes, (), (store,)),))  # type: ignore[arg-type]


def _scatter_rows(x: Expander, st: Structure) -> list[Phase]:
    """Lower scatters to the same rows of several arrays: a copy of each array, left out in place, then one loop over the rows."""
    ends = [n for n in st.nodes if ends_kernel(n)]
    copies = [_copy(x, n, n.inputs[0]) for n in ends]
    x.scope = Scope()
    axes, at = _loops(x, ends[0].inputs[1].shape)
    where, positions = _written_index(x, ends[0], at)
    guards = []
    for operand, place, extent in positions:
        counted = x.m.index(Affine(0, (), ((x.count_index(operand, place, (), extent), 1),)))
        guards.append((Affine(counted.attr) if counted.op == "const" else Affine(0, (), ((counted, 1),)), 0, extent))
    stores = [
        Pending(n, where, tuple(guards), x.at(n.inputs[1], at), "own") if n in ends else Pending(n, at, (), x.at(n, at))
        for n in st.stored_nodes
    ]
    return [*copies, Phase((), (Stage(axes, (), tuple(stores)),))]  # type: ignore[arg-type]


def _last_equal(x: Expander, st: Structure, node: Node) -> list[Phase]:
    """Lower last_equal: every index writes its number at its position on a board; the last one stays and is read.

    Positions that were not written are not read.
    """
    extent = node.params["extent"]
    if extent == 1:  # all are equal
        x.scope = Scope()
        axes, at = _loops(x, node.shape)
        last = Pending(node, at, (), x.m.index(Affine(node.shape[0] - 1)))
        return [Phase(axes, (Stage((), (), (last,)),))]  # type: ignore[arg-type]
    board = Buffer(0, node.dtype, (extent,), "kernel")
    x.scratch.append(board)
    phases = []
    for reading in (False, True):
        x.scope = Scope()
        axes, at = _loops(x, node.shape)
        place = Access(board, (x.position(node.inputs[0], at, (), extent),))
        value = x.m.load(place) if reading else x.m.index(at[0])
        store = Pending(node, at, (), value) if reading else Store(place, value)
        phases.append(Phase((), (Stage(axes, (), (store,)),)))  # type: ignore[arg-type]
    return phases


def _write(x: Expander, node: Node, stored: Node) -> Phase:
    """Lower one write into the buffer of ``stored``."""
    new = node.inputs[1]
    x.scope = Scope()
    axes, at = _loops(x, new.shape)
    where = tuple([Affine(s).plus(i, t) for i, s, t in zip(at, node.params["start"], node.params["step"], strict=True)])
    return Phase(axes, (Stage((), (), (Pending(stored, where, (), x.at(new, at)),)),))  # type: ignore[arg-type]


def _lower_running(x: Expander, st: Structure, node: Node) -> list[Phase]:
    """Lower a running fold: a loop along its axis inside loops over the others."""
    x.scope = Scope()
    axes = [x.axis(n) for n in node.shape]
    index = tuple([axis_index(a) for a in axes])
    run = axes.pop(node.params["axis"])
    value = x.at(node.inputs[0], index)
    reductions: list[Reduction] = []
    read = x.reduce(node, (run,), node.op.monoid, value, carried=False, into=reductions)
    r = reductions[0]
    running = Reduction(r.id, r.axes, r.monoid, r.value, r.accum, r.dtype, Order(1, max(1, run.extent)), running=True)
    store = Pending(node, index, (), read)
    return [Phase(tuple(axes), (Stage((run,), (running,), (store,)),))]  # type: ignore[arg-type]
