"""Tall column reductions: every block of rows to a slot of its own, in parallel; then the slots are joined pairwise.

The order of a reduction says the same (see Order), so the bits are those of one loop over all rows.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.devices.cpu.emit import pairwise, reduce
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.memory import load_cell, store_cell
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.text import Module
from weft.devices.cpu.emit.types import align_of, cell_type, wide
from weft.devices.cpu.nest.nest import Nest, ScratchLayout, strides_along
from weft.devices.cpu.nest.row_lanes import vectors
from weft.devices.cpu.nest.tiles import emit_stage, update
from weft.kernel.ir import Axis, Reduction
from weft.kernel.parts import Part

MOST_COLUMNS = 512
MOST_BYTES = 4 << 20
ACCUMULATORS = 4  # more of them are more streams than the machine follows


def in_blocks(part: Part, lanes: int) -> bool:
    """Whether a part is a tall column reduction over one axis, and what follows has no loops of its own."""
    if len(part.shared) != 1 or part.ordered or not part.stages or not 1 < part.shared[0].extent <= MOST_COLUMNS:
        return False
    first, *rest = part.stages
    if not first.reductions or len(first.axes) != 1 or first.stores or any(s.axes or s.reductions for s in rest):
        return False
    order, total = first.reductions[0].order, first.axes[0].extent
    if any(r.order != order or r.running or reduce.is_position(r) for r in first.reductions) or order.lanes != 1:
        return False
    if any(step not in (0, 1) for step in strides_along(part, part.shared[0].id)) or total < 16 * order.block:
        return False
    return -(-total // order.block) * (part.shared[0].extent + lanes) * 8 * len(first.reductions) <= MOST_BYTES


def _shape(part: Part, lanes: int) -> tuple[int, int]:
    """(vectors of columns, blocks) that one body takes."""
    across = min(4, -(-part.shared[0].extent // lanes))
    return across, max(1, ACCUMULATORS // (across * len(part.stages[0].reductions)))


def _slots(n: Nest, lanes: int, blocks: int) -> tuple[dict[int, str], int]:
    pitch = -(-n.part.shared[0].extent // lanes) * lanes
    out = {}
    for r in n.part.stages[0].reductions:
        key = (1 << 40) + r.id
        if key not in n.layout.offsets:
            n.layout.offsets[key] = n.layout.reserve(blocks * pitch * 8)
        out[r.id] = n.scratch(n.layout.offsets[key])
    return out, pitch


def emit_blocks(n: Nest, lanes: int, rows: int, chunks: int) -> None:
    """One chunk: ``rows`` blocks, each to its slot."""
    f, (stage, *_) = n.f, n.part.stages
    block, total = stage.reductions[0].order.block, stage.axes[0].extent
    blocks, whole = -(-total // block), total // block
    slots, pitch = _slots(n, lanes, blocks)
    across, many = _shape(n.part, lanes)
    lo = f.mul("%chunk", rows)
    hi = f.minimum(f.add(lo, rows), whole)

    def take(b: str | int, count: int, length: int) -> None:
        axis, row = n.part.shared[0], stage.axes[0]
        for envs in vectors(n, axis, lanes, across, 0, axis.extent, None, again=True):
            cells = {}
            for r in stage.reductions:
                t, start = wide(reduce.state_types(r)[0], lanes), reduce.identity(r, lanes)[0]
                for u in range(count):
                    for v in range(len(envs)):
                        cells[r.id, u, v] = f.local(t)
                        f.store(t, start, cells[r.id, u, v])
            first = f.mul(b, block)
            with n.loop(first, f.add(first, length), 1, row.id):
                for u in range(count):
                    for v, env in enumerate(envs):
                        one = n.env(axis.id, lanes, env.mask, env.offsets.get(axis.id, 0), {}, set())
                        one.offsets = {**one.offsets, row.id: u * block}
                        for r in stage.reductions:
                            t, cell = wide(reduce.state_types(r)[0], lanes), cells[r.id, u, v]
                            f.store(t, update(n, r, one, [f.load(t, cell)], 0)[0], cell)
            at = n.base.axes[axis.id]
            for r in stage.reductions:
                t = reduce.state_types(r)[0]
                for u in range(count):
                    for v, env in enumerate(envs):
                        place = f.element(slots[r.id], cell_type(t), f.add(f.mul(f.add(b, u), pitch), at))
                        place = f.element(place, cell_type(t), env.offsets.get(axis.id, 0))
                        store_cell(f, wide(t, lanes), f.load(wide(t, lanes), cells[r.id, u, v]), place, align_of(t))

    main = hi
    if many > 1:
        count = f.let(f"sub i64 {hi}, {lo}", "i")
        count = f.let(f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")  # the last chunk may hold the short block alone
        n.m.declare("llvm.smax.i64", "declare i64 @llvm.smax.i64(i64, i64)")
        main = f.let(f"sub i64 {hi}, {f.let(f'urem i64 {count}, {many}')}", "i")
        with n.loop(lo, main, many) as b:
            take(b, many, block)
        with n.loop(main, hi) as b:
            take(b, 1, block)
    else:
        with n.loop(lo, hi) as b:
            take(b, 1, block)
    if whole < blocks:
        with n.when(f.let(f"icmp eq i64 %chunk, {chunks - 1}")):
            take(whole, 1, total - whole * block)


def emit_blocks_merge(m: Module, isa: ISA, layout: ScratchLayout, part: Part, lanes: int, name: str) -> None:
    """The slots into the totals, and the stages that read them."""
    f = m.function(f"define internal void @{name}(ptr %context, i64 %chunk, i64 %worker)")
    n = Nest(f, m, isa, layout, part)
    stage, *rest = part.stages
    blocks = -(-stage.axes[0].extent // stage.reductions[0].order.block)
    slots, pitch = _slots(n, lanes, blocks)
    axis: Axis = part.shared[0]
    for envs in vectors(n, axis, lanes, 1, 0, axis.extent):
        (env,) = envs
        env.accs, env.uniform = {}, set()
        o = Ops(f, m, isa, lanes)
        at = f.add(n.base.axes[axis.id], env.offsets.get(axis.id, 0))
        level = len(n.levels) - 1

        def slot(r: Reduction, b: str | int, at: str = at) -> tuple[str, str]:
            t = reduce.state_types(r)[0]
            return t, f.element(slots[r.id], cell_type(t), f.add(f.mul(b, pitch), at))

        def merge(i: str, j: str, o: Ops = o, slot: Callable[[Reduction, str | int], tuple[str, str]] = slot) -> None:
            for r in stage.reductions:
                (t, into), (_, source) = slot(r, i), slot(r, j)
                pair = ([load_cell(f, wide(t, lanes), p, align_of(t))] for p in (into, source))
                store_cell(f, wide(t, lanes), reduce.merge(o, r, *pair)[0], into, align_of(t))

        pairwise.tree(f, blocks, merge)
        for r in stage.reductions:
            t, place = slot(r, 0)
            env.accs[r.id] = reduce.finish(o, r, [load_cell(f, wide(t, lanes), place, align_of(t))])
            n.base.acc_level[r.id] = level
            n.export(r, env)
        for s in rest:
            emit_stage(n, s, envs)
    f.do("ret void")
