"""Kernels that end in a write at other positions: scatter, strided partial writes, running folds."""

from __future__ import annotations

from collections.abc import Sequence

from weft.graph.node import Node
from weft.graph.primitives.meeting import ADD, UNORDERED
from weft.kernel.index import ZERO, Index, broadcast
from weft.kernel.ir import Access, Affine, Axis, Buffer, Phase, Reduction, Stage, Store, along
from weft.kernel.summation import reduction_order
from weft.kernel.target import Order
from weft.kernel.values import INT64
from weft.schedule.expand import Expander, Scope
from weft.schedule.facts import ends_kernel
from weft.schedule.pending import Pending
from weft.schedule.structure import Structure


def phases(x: Expander, st: Structure) -> list[Phase]:
    node = next(n for n in st.nodes if ends_kernel(n))
    return {"running": _running, "board": _last_equal, "scatter": _scattered, "write": _written}[node.op.kind](x, st, node)


def _scattered(x: Expander, st: Structure, node: Node) -> list[Phase]:
    if node.params["mode"] == "own":
        return _rows(x, st)
    return [*_checks(x, node.inputs[2:]), _copy(x, node, node.inputs[0]), _scatter(x, node)]


def _written(x: Expander, st: Structure, node: Node) -> list[Phase]:
    return [_copy(x, node, node.inputs[0]), _write(x, node)]


def _checks(x: Expander, indices: Sequence[Node]) -> list[Phase]:
    """The indices of a write are checked before anything is written: their sum, which nobody reads."""
    out = []
    for operand in indices:
        x.scope = Scope()
        axes = tuple([x.axis(n) for n in operand.shape if n != 1]) or (x.axis(1),)
        rest = iter(axes)
        before = len(x.sites)
        value = x.at(operand, tuple([ZERO if n == 1 else along(next(rest)) for n in operand.shape]))
        if len(x.sites) == before:
            continue
        number, x.reductions = x.reductions, x.reductions + 1
        order = reduction_order(axes[-1].extent, last=True, orders=x.view.target.orders)
        out.append(Phase((), (Stage(axes, (Reduction(number, axes, "sum", value, INT64, INT64, order),)),)))
    x.checked |= set(x.sites)
    return out


def _loops(x: Expander, shape: tuple[int, ...]) -> tuple[tuple[Axis, ...], Index]:
    axes = [x.axis(n) if n != 1 else None for n in shape]
    return tuple([a for a in axes if a is not None]), tuple([along(a) if a is not None else ZERO for a in axes])


def _copy(x: Expander, node: Node, base: Node) -> Phase:
    x.scope = Scope()
    axes, index = _loops(x, node.shape)
    return Phase(axes, (Stage((), (), (Pending(node, index, (), x.at(base, index)),)),))  # type: ignore[arg-type]


def _scatter(x: Expander, node: Node) -> Phase:
    base, updates, *indices = node.inputs
    x.scope = Scope()
    axes, at = _loops(x, updates.shape)
    rank = len(updates.shape) - (len(base.shape) - len(indices))
    index: list[Affine | None] = [None] * len(base.shape)
    for axis, operand in zip(node.params["axes"], indices, strict=True):
        index[axis] = x.position(operand, broadcast(at[:rank], operand.shape), (), base.shape[axis])
    rest = iter(at[rank:])
    where = tuple([next(rest) if i is None else i for i in index])
    mode = node.params["mode"]
    if mode == UNORDERED and not x.view.target.unordered:
        mode = ADD
    store = Pending(node, where, (), x.at(updates, at), mode)
    return Phase((), (Stage(axes, (), (store,)),))  # type: ignore[arg-type]


def _rows(x: Expander, st: Structure) -> list[Phase]:
    """The same rows of several arrays: a copy of each (none where it is written in place), then one loop over the rows."""
    ends = [n for n in st.nodes if ends_kernel(n)]
    copies = [_copy(x, n, n.inputs[0]) for n in ends]
    base, updates, *indices = ends[0].inputs
    x.scope = Scope()
    axes, at = _loops(x, updates.shape)
    rank = len(updates.shape) - (len(base.shape) - len(indices))
    index: list[Affine | None] = [None] * len(base.shape)
    guards = []
    for axis, operand in zip(ends[0].params["axes"], indices, strict=True):
        place, extent = broadcast(at[:rank], operand.shape), base.shape[axis]
        index[axis] = x.position(operand, place, (), extent)
        counted = x.m.index(Affine(0, (), ((x.counted(operand, place, (), extent), 1),)))
        guards.append((Affine(counted.attr) if counted.op == "const" else Affine(0, (), ((counted, 1),)), 0, extent))
    rest = iter(at[rank:])
    where = tuple([next(rest) if i is None else i for i in index])
    stores = [
        Pending(n, where, tuple(guards), x.at(n.inputs[1], at), "own") if n in ends else Pending(n, at, (), x.at(n, at))
        for n in st.stored
    ]
    return [*copies, Phase((), (Stage(axes, (), tuple(stores)),))]  # type: ignore[arg-type]


def _last_equal(x: Expander, st: Structure, node: Node) -> list[Phase]:
    """Every index writes its number at its place on a board, the last one stays; what was not written is not read."""
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


def _write(x: Expander, node: Node) -> Phase:
    new = node.inputs[1]
    x.scope = Scope()
    axes, at = _loops(x, new.shape)
    where = tuple([Affine(s).plus(i, t) for i, s, t in zip(at, node.params["start"], node.params["step"], strict=True)])
    return Phase(axes, (Stage((), (), (Pending(node, where, (), x.at(new, at)),)),))  # type: ignore[arg-type]


def _running(x: Expander, st: Structure, node: Node) -> list[Phase]:
    x.scope = Scope()
    axes = [x.axis(n) for n in node.shape]
    index = tuple([along(a) for a in axes])
    run = axes.pop(node.params["axis"])
    value = x.at(node.inputs[0], index)
    reductions: list[Reduction] = []
    read = x.reduce(node, (run,), node.op.monoid, value, carried=False, into=reductions)
    r = reductions[0]
    done = Reduction(r.id, r.axes, r.monoid, r.value, r.accum, r.dtype, Order(1, max(1, run.extent)), running=True)
    store = Pending(node, index, (), read)
    return [Phase(tuple(axes), (Stage((run,), (done,), (store,)),))]  # type: ignore[arg-type]
