"""A kernel as LLVM functions: one body per part, and the entry that runs the bodies in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from weft.devices.cpu.emit import pairwise, reduce
from weft.devices.cpu.emit.affine import emit_guards
from weft.devices.cpu.emit.check import record_slot, return_if_fault
from weft.devices.cpu.emit.chunks import count_entry, run_chunks
from weft.devices.cpu.emit.emit import ValueEmitter
from weft.devices.cpu.emit.emitter import Env, key_of
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.merge_similar import merge_similar_functions
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import load_cell, store_cell
from weft.devices.cpu.emit.store import emit_fence
from weft.devices.cpu.emit.tally import TallyStates
from weft.devices.cpu.emit.text import Generated, Module
from weft.devices.cpu.nest.column_reductions import Slab, emit_blocks, emit_blocks_merge
from weft.devices.cpu.nest.loop_plan import NestPlan, plan_part
from weft.devices.cpu.nest.nest import Nest, ScratchLayout, vectors
from weft.devices.cpu.nest.prefetch import prefetch_rows
from weft.devices.cpu.nest.row_reductions import emit_row, reduce_block, reduce_moving_block, width_for
from weft.devices.cpu.nest.tiles import States, emit_stages
from weft.kernel.expressions import dependencies, roots, walk
from weft.kernel.hazards import in_place
from weft.kernel.ir import Axis, Kernel, Reduction, size_of
from weft.kernel.stages import Part, split
from weft.kernel.unroll import unroll

SCALAR_LANES = 4  # lanes of the states of tallies in scalar code, which uses the first one
MIN_SIMILAR_PARTS = 4  # least parts of a kernel in which similar ones are merged


def generate_loops(kernel: Kernel, isa: ISA) -> Generated:
    """Return the LLVM text of a kernel as loop nests. It is correct for every kernel, contractions included."""
    m = Module()
    symbol = f"weft_{kernel.name}"  # the prefix avoids names of C functions
    parts, scratch = split(unroll(kernel), tallies=True)
    may_repeat = not in_place(kernel)
    buffers = (*kernel.inputs, *kernel.outputs)
    layout = ScratchLayout({key_of(b): i for i, b in enumerate(buffers)}, kernel.scalars, len(buffers),
                    len(buffers) + len(kernel.scalars))
    for b in scratch:
        layout.offsets[key_of(b)] = layout.reserve(max(b.dtype.bytes * math.prod(b.shape), 1))
    entry = m.function(f"define void @{symbol}(ptr %context)")
    count_entry(m, entry)
    for i, part in enumerate(parts):
        if any(a.extent == 0 for a in part.shared):
            continue
        plan = plan_part(part, isa, may_repeat)
        name = f"{symbol}.{i}"
        emit_part(m, isa, layout, part, plan, name)
        copy_slots, differ = _match_copy(part, layout), ""
        if copy_slots is not None:  # nothing to do if the output aliases the input
            m.took("copy unless in place")
            source, target = (entry.argument(slot, "%context") for slot in copy_slots)
            differ = entry.let(f"icmp ne ptr {source}, {target}", "c")
        with entry.when(differ) if differ else nullcontext():
            run_chunks(m, entry, f"@{name}", plan.chunks, plan.parallel, "%context")
        if part.tallied or plan.kind in ("full", "blocks"):
            if part.tallied:
                emit_tally_merge(m, isa, layout, part, plan, f"{name}.merge")
            else:
                merge = emit_merge if plan.kind == "full" else emit_blocks_merge
                merge(m, isa, layout, part, plan.lanes, f"{name}.merge")
            entry.do(f"call void @{name}.merge(ptr %context, i64 0, i64 0)")
        if i + 1 < len(parts) and any(v.op == "check" and v.attr.site is not None for v in walk(roots(part.stages))):
            return_if_fault(entry, entry.argument(record_slot(kernel), "%context"))
    if len(parts) >= MIN_SIMILAR_PARTS:  # the phases of a strided gradient
        merge_similar_functions(m, r"\d+")
    return m.generated(symbol, layout.size, 0)


def _match_copy(part: Part, layout: ScratchLayout) -> tuple[int, int] | None:
    """Return the slots of an input and an output if the part only copies the input to the output, else None."""
    if len(part.stages) != 1 or part.stages[0].reductions or len(part.stages[0].stores) != 1 or part.exports:
        return None
    (store,) = part.stages[0].stores
    source, target = store.value.attr, store.access
    if store.value.op != "load" or store.mode != "set" or source.guard or target.guard or source.index != target.index:
        return None
    slots = tuple(layout.slots.get(key_of(a.buffer), -1) for a in (source, target))
    return None if source.buffer.dtype != target.buffer.dtype or -1 in slots else slots  # type: ignore[return-value]


def emit_part(m: Module, isa: ISA, layout: ScratchLayout, part: Part, plan: NestPlan, name: str) -> None:
    f = m.function(f"define internal void @{name}(ptr %context, i64 %chunk, i64 %worker)")
    n = Nest(f, m, isa, layout, part)
    marks = [("minor", plan.minor is not None), ("again", plan.may_repeat), ("in order", part.is_ordered)]
    kind = "scalar" if plan.kind == "tiles" and plan.axis is None else plan.kind
    m.took(" ".join([kind, *(word for word, holds in marks if holds)]))
    m.vectors = m.vectors or plan.kind != "tiles" or plan.axis is not None
    if part.tallied:
        _emit_tallied(n, plan)
    else:
        _EMITTERS[plan.kind](n, plan)
    if n.base.streamed:
        emit_fence(f, m)


def _tally_states(n: Nest, part: Part, plan: NestPlan) -> TallyStates:
    return TallyStates(n.m, n.isa, part.stages[0].reductions, SCALAR_LANES if plan.axis is None else plan.lanes)


def _emit_tallied(n: Nest, plan: NestPlan) -> None:
    """Emit a part with tallies. The variables of each unrolled vector are merged into the chunk's slot at the end."""
    n.m.took("tallies of a nest")
    states = _tally_states(n, n.part, plan)
    copies = [states.begin(n.f) for _ in range(plan.unroll)]
    slot = n.f.offset(n.scratch(n.layout.states(states.tallies[0], plan.chunks * states.size)), n.f.mul("%chunk", states.size))
    states.clear(n.f, slot)
    n.tally = lambda number, env: states.add(n.f, env, copies[number % len(copies)])
    _EMITTERS[plan.kind](n, plan)
    for cells in copies:
        states.merge_into(n.f, cells, slot)


def emit_tally_merge(m: Module, isa: ISA, layout: ScratchLayout, part: Part, plan: NestPlan, name: str) -> None:
    """Emit the join of the slots of all chunks, and the stores of the results."""
    f = m.function(f"define internal void @{name}(ptr %context, i64 %chunk, i64 %worker)")
    n = Nest(f, m, isa, layout, replace(part, stages=()))
    states = _tally_states(n, part, plan)
    scratch = n.scratch(layout.states(states.tallies[0], plan.chunks * states.size))
    n.base.accs.update(states.join_slots(f, plan.chunks, scratch))
    for r in states.tallies:
        n.base.acc_level[r.id] = 0
        n.export(r, n.env())


def _chunk_range(n: Nest, each: int, total: int, chunks: int) -> tuple[str | int, str | int]:
    """Return the bounds of this chunk's part of [0, total), of ``each`` items."""
    if chunks == 1:
        return 0, total
    lo = n.f.mul("%chunk", each)
    hi = n.f.add(lo, each)
    return lo, (hi if total % each == 0 else n.f.minimum(hi, total))


@contextmanager
def _rows_of_chunk(n: Nest, plan: NestPlan, axes: tuple[Axis, ...]) -> Iterator[None]:
    """Loop over this chunk's iterations of ``axes``; without axes there is one."""
    if not axes:
        yield
        return
    lo, hi = _chunk_range(n, plan.rows, size_of(axes), plan.chunks)
    with n.loop(lo, hi) as row:
        n.split_index(row, axes)
        yield


def _emit_rows(n: Nest, plan: NestPlan) -> None:
    with _rows_of_chunk(n, plan, n.part.shared):
        emit_row(n, plan.lanes, plan.unroll)


def _axes_of_plan(n: Nest, plan: NestPlan, inner: int | None = None) -> tuple[Axis, tuple[Axis, ...]]:
    """Return the plan's axis, and the shared axes other than it and ``inner``."""
    axis = next(a for a in n.part.shared if a.id == plan.axis)
    return axis, tuple(a for a in n.part.shared if a.id not in (plan.axis, inner))


def _emit_tiles(n: Nest, plan: NestPlan) -> None:
    part = n.part
    if plan.axis is None:
        with _rows_of_chunk(n, plan, part.shared):
            emit_stages(n, [n.env(accs={})])
        return
    axis, outer = _axes_of_plan(n, plan, plan.minor)
    if plan.rows:
        if not outer:
            _emit_axis(n, plan, axis)
            return
        lo, hi = _chunk_range(n, plan.rows, size_of(outer), plan.chunks)
        with n.loop(lo, hi) as row:
            n.split_index(row, outer)
            prefetch_rows(n, outer, axis, row, hi)
            with _skip_unwritten_rows(n, {plan.axis, plan.minor}):
                _emit_axis(n, plan, axis)
        return
    pieces, which = -(-axis.extent // plan.piece), "%chunk"
    if outer:
        row = n.f.let(f"udiv i64 %chunk, {pieces}", "i")
        which = n.f.let(f"urem i64 %chunk, {pieces}", "i")
        n.split_index(row, outer)
    _emit_piece(n, plan, axis, which)


@contextmanager
def _skip_unwritten_rows(n: Nest, within: set[int | None]) -> Iterator[None]:
    """Skip a row that no store would write: the guard is the same for all stores and constant along the axes ``within``."""
    stores = [s for stage in n.part.stages for s in stage.stores]
    guard = stores[0].access.guard if stores else ()
    deps: set = {a for g, _, _ in guard for a, _ in g.terms}
    deps = deps.union(*(dependencies(v, n.base.deps) for g, _, _ in guard for v, _ in g.gather))
    same_guard = all(s.access.guard == guard for s in stores) and not any(s.reductions for s in n.part.stages)
    if not guard or within & deps or not same_guard:
        yield
        return
    inside, _ = emit_guards(ValueEmitter(n.f, n.m, n.isa, n.env()), stores[0].access)
    if inside is None:
        yield
        return
    part = n.part
    n.part = replace(part, stages=tuple(
        replace(stage, stores=tuple(replace(s, access=replace(s.access, guard=())) for s in stage.stores))
        for stage in part.stages
    ))
    with n.when(inside):
        yield
    n.part = part


def _emit_sheet(n: Nest, plan: NestPlan) -> None:
    """Emit one slab of columns at one outer iteration."""
    axis, outer = _axes_of_plan(n, plan)
    pieces, which = -(-axis.extent // plan.piece), "%chunk"
    if outer:
        n.split_index(n.f.let(f"udiv i64 %chunk, {pieces}", "i"), outer)
        which = n.f.let(f"urem i64 %chunk, {pieces}", "i")
    sheet = Slab(n, axis, plan.lanes, plan.piece, which)
    for stage in n.part.stages:
        sheet.run(stage)


def _emit_columns(n: Nest, plan: NestPlan) -> None:
    """Emit some columns of all rows. Rows may write the same element and keep their order; columns never do."""
    axis, outer = _axes_of_plan(n, plan)
    with n.loop(0, size_of(outer)) if outer else nullcontext() as row:
        if row is not None:
            n.split_index(row, outer)
        _emit_piece(n, plan, axis, "%chunk")


def _emit_transposed(n: Nest, plan: NestPlan) -> None:
    """Emit blocks of the axis that is contiguous in the loads, with vectors along the axis that is contiguous in the stores."""
    assert plan.turn is not None
    which, count = plan.turn
    axis, outer = _axes_of_plan(n, plan, which)
    inner = next(a for a in n.part.shared if a.id == which)
    blocks = -(-inner.extent // count)
    lo, hi = _chunk_range(n, plan.rows, size_of(outer) * blocks, plan.chunks)
    with n.loop(lo, hi) as row:
        n.split_index(row, (*outer, Axis(which, blocks)))
        start = n.f.mul(n.base.axes[which], count)
        if inner.extent % count:  # the last block begins earlier
            start = n.f.minimum(start, inner.extent - count)
        n.base.axes[which] = str(start)
        for envs in vectors(n, axis, plan.lanes, 1, 0, axis.extent, None, plan.may_repeat):
            group = []
            for env in envs:
                for k in range(count):
                    one = n.env(axis.id, plan.lanes, env.mask, env.offsets.get(axis.id, 0))
                    one.offsets = {**one.offsets, which: k}
                    one.transposed_axis = which
                    group.append(one)
            _emit_fresh(n, group)


def _emit_axis(n: Nest, plan: NestPlan, axis: Axis) -> None:
    """Emit the whole vector axis."""
    minor = next((a for a in n.part.shared if a.id == plan.minor), None)
    for envs in vectors(n, axis, plan.lanes, plan.unroll, 0, axis.extent, minor, plan.may_repeat):
        _emit_fresh(n, envs)


def _emit_fresh(n: Nest, envs: list[Env]) -> None:
    """Emit all stages on Envs without accumulators."""
    for env in envs:
        env.accs, env.uniform = {}, set()
    emit_stages(n, envs)


def _emit_piece(n: Nest, plan: NestPlan, axis: Axis, which: str) -> None:
    """Emit ``plan.piece`` elements of the vector axis; the last piece includes the masked end."""
    f = n.f
    step = plan.lanes * plan.unroll
    main = axis.extent // step * step
    lo = f.mul(which, plan.piece)
    hi = f.add(lo, plan.piece)
    if -(-axis.extent // plan.piece) * plan.piece > main:  # the last piece ends early
        hi = f.minimum(hi, main)
    with n.loop(lo, hi, step, axis.id):
        envs = [n.env(axis.id, plan.lanes, None, u * plan.lanes) for u in range(plan.unroll)]
        for env in envs:
            env.alignment = math.gcd(step, plan.piece)
        _emit_fresh(n, envs)
    if axis.extent > main:
        last = (axis.extent - 1) // plan.piece
        with n.when(f.let(f"icmp eq i64 {which}, {last}")):
            for envs in vectors(n, axis, plan.lanes, plan.unroll, main, axis.extent):
                _emit_fresh(n, envs)


def _reserve_slots(layout: ScratchLayout, part: Part, blocks: int) -> dict[int, list[int]]:
    """Return the scratch offsets of all blocks' states, reserved under the reduction's id."""
    return {r.id: [at := layout.states(r, 16 * blocks), at + 8 * blocks] for r in part.stages[0].reductions}


def _emit_full(n: Nest, plan: NestPlan) -> None:
    """Emit blocks of a full reduction, each reduced to its own slot."""
    stage = n.part.stages[0]
    f = n.f
    lanes = width_for(stage, plan.lanes)
    total, block = stage.axes[0].extent, stage.reductions[0].order.block
    blocks = -(-total // block)
    slots = _reserve_slots(n.layout, n.part, blocks)
    full_blocks = total // block
    pointers = {r.id: [n.scratch(at) for at in slots[r.id]] for r in stage.reductions}
    lo = f.mul("%chunk", plan.rows)
    hi = f.minimum(f.add(lo, plan.rows), full_blocks)

    def keep(states: States, b: str | int) -> None:
        for r in stage.reductions:
            for t, p, s in zip(reduce.state_types(r), pointers[r.id], states[r.id][0], strict=False):
                store_cell(f, t, s, f.element(p, "i64", b), 8)

    def store(envs: list[Env], before: bool) -> None:
        for env in () if before else envs:
            for s in stage.stores:
                n.store(s, env)

    hook = store if stage.stores else None

    with n.loop(lo, hi) as b:
        keep(reduce_moving_block(n, stage, lanes, f.mul(b, block), block, hook), b)
    if full_blocks < blocks:
        with n.when(f.let(f"icmp eq i64 %chunk, {plan.chunks - 1}")):
            keep(reduce_block(n, stage, lanes, full_blocks * block, total, hook), full_blocks)


def emit_merge(m: Module, isa: ISA, layout: ScratchLayout, part: Part, lanes: int, name: str) -> None:
    """Emit the pairwise join of block results into the total."""
    f = m.function(f"define internal void @{name}(ptr %context, i64 %chunk, i64 %worker)")
    n = Nest(f, m, isa, layout, part)
    stage = part.stages[0]
    blocks = -(-stage.axes[0].extent // stage.reductions[0].order.block)
    slots = _reserve_slots(layout, part, blocks)
    o = Ops(f, m, isa, None)
    for r in stage.reductions:
        types = reduce.state_types(r)
        pointers = [n.scratch(at) for at in slots[r.id]]

        def at(b: str | int, types: list[str] = types, pointers: list[str] = pointers) -> list[tuple[str, str]]:
            return [(t, f.element(p, "i64", b)) for t, p in zip(types, pointers, strict=False)]

        def merge(i: str, j: str, r: Reduction = r, at: Callable[[str | int], list[tuple[str, str]]] = at) -> None:
            old, new = ([load_cell(f, t, p, 8) for t, p in at(k)] for k in (i, j))
            for (t, p), s in zip(at(i), reduce.merge(o, r, old, new), strict=True):
                store_cell(f, t, s, p, 8)

        pairwise.tree(f, blocks, merge)
        state = [load_cell(f, t, p, 8) for t, p in at(0)]
        n.base.accs[r.id] = reduce.finish(o, r, state)
        n.base.acc_level[r.id] = 0
        n.export(r, n.env())


_EMITTERS: dict[str, Callable[[Nest, NestPlan], None]] = {
    "full": _emit_full, "rows": _emit_rows, "sheet": _emit_sheet, "turn": _emit_transposed, "columns": _emit_columns,
    "tiles": _emit_tiles, "blocks": lambda n, plan: emit_blocks(n, plan.lanes, plan.rows, plan.chunks),
}
