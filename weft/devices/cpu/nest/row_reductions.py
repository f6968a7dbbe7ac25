"""Vectors along the innermost axis of the stages: row softmax, layer norm, full reductions by blocks.

A reduction has order.lanes accumulators as a few vectors; element k of the flat reduced index belongs to lane
k % lanes, so vectors start at multiples of ``lanes`` of k and ends are masked.
"""

from __future__ import annotations

from weft.devices.cpu.emit import reduce
from weft.devices.cpu.emit.emitter import Env
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.nest.multi_axis_reductions import fits, reduce_staged
from weft.devices.cpu.nest.nest import Nest
from weft.devices.cpu.nest.row_lanes import BlockJoiner, Hook, LaneAccumulators, vectors
from weft.devices.cpu.nest.row_scratch import RowArray, keep, recall, shared
from weft.devices.cpu.nest.tiles import emit_stage as emit_tile_stage
from weft.kernel.ir import Stage, size_of


def emit_row(n: Nest, lanes: int, unroll: int) -> None:
    """Emit all stages of the part at one shared iteration."""
    row = shared(n)
    for k, stage in enumerate(n.part.stages):
        total = size_of(stage.axes)
        if not stage.axes or (stage.reductions and (stage.reductions[0].order.lanes == 1 or total == 0)):
            emit_tile_stage(n, stage, [n.env()])
            continue
        if stage.reductions:
            for group in _group_by_order(stage):
                states = reduce_range(n, group, lanes, total, _make_hook(n, k, group, row))
                finish(n, group, states)
        if stage.stores and total:
            with n.loops(stage.axes[:-1]):
                for envs in vectors(n, stage.axes[-1], lanes, unroll, 0, stage.axes[-1].extent):
                    recall(n, k, stage, row, envs)
                    recalls = any(k in x.users for x in row)
                    for env in envs:
                        for s in stage.stores if recalls else ():  # the remaining loads precede all stores,
                            n.value(s.value, env)  # which may write to an input's memory
                        for s in stage.stores:
                            n.store(s, env)


def _make_hook(n: Nest, k: int, stage: Stage, row: list[RowArray]) -> Hook | None:
    """Return a function to call before (True) and after (False) a group of vectors is merged, or None."""
    if not any(x.maker == k or k in x.users for x in row):
        return None

    def hook(envs: list[Env], before: bool) -> None:
        (recall if before else keep)(n, k, stage, row, envs)

    return hook


def _group_by_order(stage: Stage) -> list[Stage]:
    groups: dict = {}
    for r in stage.reductions:
        groups.setdefault(r.order, []).append(r)
    return [Stage(stage.axes, tuple(g)) for g in groups.values()]


def finish(n: Nest, stage: Stage, states: dict[int, list[str]]) -> None:
    """Bind the scalar results, and store those that later parts read."""
    env = n.env()
    level = len(n.levels) - 1
    for r in stage.reductions:
        n.base.accs[r.id] = reduce.finish(Ops(n.f, n.m, n.isa, None), r, states[r.id])
        n.base.acc_level[r.id] = level
        n.base.uniform = {*n.base.uniform, r.id}
        n.export(r, env)


def width_for(stage: Stage, lanes: int) -> int:
    return min(lanes, stage.reductions[0].order.lanes)


def reduce_range(n: Nest, stage: Stage, lanes: int, total: int, hook: Hook | None = None) -> dict[int, list[str]]:
    """Return the scalar states of all reductions over the whole flat index."""
    lanes = width_for(stage, lanes)
    if len(stage.axes) > 1:
        staged = fits(stage, lanes, total)
        n.m.took("row staged" if staged else "row ragged")
        return reduce_staged(n, stage, lanes, total) if staged else _reduce_ragged(n, stage, lanes, total)
    block = stage.reductions[0].order.block
    n.m.took("row" if total <= block else "row of blocks")
    if total <= block:
        return reduce_block(n, stage, lanes, 0, total, hook)
    sums = BlockJoiner(n, stage, -(-total // block))
    full_end = total // block * block
    with n.loop(0, full_end, block) as first:
        states = reduce_moving_block(n, stage, lanes, first, block, hook)
        sums.put(n.f.let(f"udiv i64 {first}, {block}"), states)
    if total > full_end:
        sums.put(full_end // block, reduce_block(n, stage, lanes, full_end, total, hook))
    return sums.all()


def reduce_moving_block(
    n: Nest, stage: Stage, lanes: int, first: str, length: int, hook: Hook | None = None
) -> dict[int, list[str]]:
    """Reduce one whole block whose start is known at run time."""
    axis = stage.axes[0]
    acc = LaneAccumulators(n, stage, lanes, hook)
    acc.reset(acc.groups)
    end = n.f.add(first, length)
    with n.loop(first, end, lanes * acc.groups, axis.id) as k:
        acc.step([n.env(axis.id, lanes, None, u * lanes) for u in range(acc.groups)], k)
    return acc.folded(acc.groups)


def reduce_block(n: Nest, stage: Stage, lanes: int, start: int, end: int, hook: Hook | None = None) -> dict[int, list[str]]:
    """Reduce one block with constant bounds."""
    acc = LaneAccumulators(n, stage, lanes, hook)
    used = min(acc.groups, -(-(end - start) // lanes))
    acc.reset(used)
    for envs in vectors(n, stage.axes[0], lanes, acc.groups, start, end):
        acc.step(envs, n.base.axes[stage.axes[0].id])
    return acc.folded(used)


def _reduce_ragged(n: Nest, stage: Stage, lanes: int, total: int) -> dict[int, list[str]]:
    """Reduce over several axes: rows of the innermost one begin at any lane, so their first and last groups are masked."""
    f = n.f
    order = stage.reductions[0].order
    axis, width = stage.axes[-1], order.lanes
    outer = size_of(stage.axes[:-1])
    acc = LaneAccumulators(n, stage, lanes)
    blocks = -(-total // order.block)
    sums = BlockJoiner(n, stage, blocks)
    acc.reset(acc.groups)
    even = axis.extent % width == 0
    with n.loop(0, outer) as row:
        n.split_index(row, stage.axes[:-1])
        start = f.mul(row, axis.extent)
        end = f.add(start, axis.extent)
        first = start if even else f.let(f"and i64 {start}, {-width}")
        with n.loop(first, end, width) as k:
            if total > order.block:
                fresh = f.let(f"icmp eq i64 {f.let(f'urem i64 {k}, {order.block}')}, 0")
                in_row = f.let(f"icmp sge i64 {k}, {start}")
                later = f.let(f"icmp sgt i64 {k}, 0")
                with n.when(f.let(f"and i1 {f.let(f'and i1 {fresh}, {in_row}')}, {later}")):
                    sums.put(f.add(f.let(f"udiv i64 {k}, {order.block}"), -1), acc.folded(acc.groups))
                    acc.reset(acc.groups)
            position = f.let(f"sub i64 {k}, {start}", "i")

            def group(masked: bool, k: str = k, position: str = position) -> None:
                n.base.axes[axis.id] = position
                n.base.level_of[axis.id] = len(n.levels) - 1
                envs = []
                vo = Ops(f, n.m, n.isa, lanes)
                for u in range(acc.groups):
                    mask = None
                    if masked:
                        ramp = "<" + ", ".join(f"i64 {u * lanes + i}" for i in range(lanes)) + ">"
                        at = vo.op("add", "i64", vo.splat(position, "i64"), ramp)
                        mask = vo.cmp("ult", "i64", at, vo.c("i64", axis.extent))
                    envs.append(n.env(axis.id, lanes, mask, u * lanes))
                    envs[-1].whole = envs[-1].fours = even
                acc.step(envs, k)

            if even:
                group(masked=False)
            elif axis.extent < width:
                group(masked=True)
            else:
                inside = f.let(f"icmp ule i64 {position}, {axis.extent - width}")
                with n.when(inside):
                    group(masked=False)
                with n.when(f.let(f"xor i1 {inside}, true")):
                    group(masked=True)
    sums.put(blocks - 1, acc.folded(acc.groups))
    return sums.all()
