"""Vectors along the innermost axis of the stages: row softmax, layer norm, full reductions by blocks.

A reduction has order.lanes accumulators as a few vectors; element k of the flat reduced index belongs to lane
k % lanes, so vectors start at multiples of ``lanes`` of k and ends are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from weft.devices.cpu.emit import reduce
from weft.devices.cpu.emit.affine import constant_vector, first_mask
from weft.devices.cpu.emit.emit import ValueEmitter
from weft.devices.cpu.emit.emitter import Env
from weft.devices.cpu.emit.load import pointer_of
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import load_cell, store_cell
from weft.devices.cpu.emit.types import cell_type, wide
from weft.devices.cpu.nest.nest import Nest, vectors
from weft.devices.cpu.nest.row_scratch import RowArray, keep, recall, shared
from weft.devices.cpu.nest.tiles import Accumulators, BlockJoiner, States, update
from weft.devices.cpu.nest.tiles import emit_stage as emit_tile_stage
from weft.kernel.expressions import walk
from weft.kernel.ir import Access, Reduction, Stage, size_of

MAX_STAGED_BYTES = 64 << 10
BYTES_AHEAD = 8192  # from a load to its prefetch, in rows of at least so many bytes: the hardware prefetches within a page
MAX_ROW = 256  # elements; in longer rows masked ends cost little
Hook = Callable[[list[Env], bool], None]


class LaneAccumulators(Accumulators):
    """The order.lanes accumulators of each reduction, in groups of vectors."""

    def __init__(self, n: Nest, stage: Stage, lanes: int, hook: Hook | None = None) -> None:
        self.hook, self.lanes, self.groups = hook, lanes, stage.reductions[0].order.lanes // lanes
        super().__init__(n, stage.reductions, [lanes] * self.groups)

    def step(self, envs: list[Env], position: str | int) -> None:
        """Merge one group of vectors; ``position`` is the flat index of lane 0 of the first Env."""
        n = self.n
        if self.hook:
            self.hook(envs, True)
        for u, env in enumerate(envs):
            o = Ops(n.f, n.m, n.isa, self.lanes)
            for r in self.reductions:
                old = self.get(r, u)
                if reduce.is_position(r):
                    ramp = constant_vector(list(range(u * self.lanes, (u + 1) * self.lanes)))
                    at = o.op("add", "i64", o.splat(str(position), "i64"), ramp)
                    state = reduce.merge(o, r, old, [reduce.lift(o, r, n.value(r.value, env)), at])
                else:
                    state = update(n, r, env, old, 0)
                for t, cell, s, x in zip(reduce.state_types(r), self.cells[r.id, u], state, old, strict=True):
                    n.f.store(wide(t, self.lanes), s if env.mask is None else o.select(env.mask, t, s, x), cell)
        if self.hook:
            self.hook(envs, False)

    def fold(self, used: int) -> States:
        """Return the scalar state of each reduction. Vectors from ``used`` on have no elements."""
        out = {}
        for r in self.reductions:
            states = [self.get(r, u) for u in range(min(used, self.groups))]
            while len(states) & (len(states) - 1):
                states.append(reduce.identity(r, self.lanes))
            out[r.id] = [reduce.fold_lanes(Ops(self.n.f, self.n.m, self.n.isa, None), r, states, self.lanes)]
        return out


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


def finish(n: Nest, stage: Stage, states: States) -> None:
    """Bind the scalar results, and store those that later parts read."""
    env = n.env()
    level = len(n.levels) - 1
    for r in stage.reductions:
        n.base.accs[r.id] = reduce.finish(Ops(n.f, n.m, n.isa, None), r, states[r.id][0])
        n.base.acc_level[r.id] = level
        n.base.uniform = {*n.base.uniform, r.id}
        n.export(r, env)


def width_for(stage: Stage, lanes: int) -> int:
    return min(lanes, stage.reductions[0].order.lanes)


def reduce_range(n: Nest, stage: Stage, lanes: int, total: int, hook: Hook | None = None) -> States:
    """Return the scalar states of all reductions over the whole flat index."""
    lanes = width_for(stage, lanes)
    if len(stage.axes) > 1:
        staged = _fits(stage, lanes, total)
        n.m.took("row staged" if staged else "row ragged")
        return _StagedReduction(n, stage, lanes, total).run() if staged else _reduce_ragged(n, stage, lanes, total)
    block = stage.reductions[0].order.block
    n.m.took("row" if total <= block else "row of blocks")
    if total <= block:
        return reduce_block(n, stage, lanes, 0, total, hook)
    sums = BlockJoiner(n, stage.reductions, None, 1, -(-total // block))
    full_end = total // block * block
    with n.loop(0, full_end, block) as first:
        states = reduce_moving_block(n, stage, lanes, first, block, hook)
        sums.put(n.f.let(f"udiv i64 {first}, {block}"), states)
    if total > full_end:
        sums.put(full_end // block, reduce_block(n, stage, lanes, full_end, total, hook))
    return sums.all()


def reduce_moving_block(n: Nest, stage: Stage, lanes: int, first: str, length: int, hook: Hook | None = None) -> States:
    """Reduce one whole block whose start is known at run time."""
    axis = stage.axes[0]
    acc = LaneAccumulators(n, stage, lanes, hook)
    acc.reset(acc.groups)
    end = n.f.add(first, length)
    with n.loop(first, end, lanes * acc.groups, axis.id) as k:
        acc.step([n.env(axis.id, lanes, None, u * lanes) for u in range(acc.groups)], k)
    return acc.fold(acc.groups)


def reduce_block(n: Nest, stage: Stage, lanes: int, start: int, end: int, hook: Hook | None = None) -> States:
    """Reduce one block with constant bounds."""
    acc = LaneAccumulators(n, stage, lanes, hook)
    used = min(acc.groups, -(-(end - start) // lanes))
    acc.reset(used)
    for envs in vectors(n, stage.axes[0], lanes, acc.groups, start, end):
        acc.step(envs, n.base.axes[stage.axes[0].id])
    return acc.fold(used)


def _reduce_ragged(n: Nest, stage: Stage, lanes: int, total: int) -> States:
    """Reduce over several axes: rows of the innermost one begin at any lane, so their first and last groups are masked."""
    f = n.f
    order = stage.reductions[0].order
    axis, width = stage.axes[-1], order.lanes
    outer = size_of(stage.axes[:-1])
    acc = LaneAccumulators(n, stage, lanes)
    blocks = -(-total // order.block)
    sums = BlockJoiner(n, stage.reductions, None, 1, blocks)
    acc.reset(acc.groups)
    even = axis.extent % width == 0
    streams = _find_streams(n, stage)
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
                    sums.put(f.add(f.let(f"udiv i64 {k}, {order.block}"), -1), acc.fold(acc.groups))
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
                        ramp = constant_vector(list(range(u * lanes, (u + 1) * lanes)))
                        at = vo.op("add", "i64", vo.splat(position, "i64"), ramp)
                        mask = vo.cmp("ult", "i64", at, vo.c("i64", axis.extent))
                    envs.append(n.env(axis.id, lanes, mask, u * lanes))
                    envs[-1].alignment = 0 if even else 1
                acc.step(envs, k)

            n.base.axes[axis.id] = position
            n.base.level_of[axis.id] = len(n.levels) - 1
            for access in streams:
                pointer = pointer_of(ValueEmitter(f, n.m, n.isa, n.env(axis.id)), access, access.flat())
                for at in range(0, width * access.buffer.dtype.bytes, 64):
                    n.m.prefetch(f, f.offset(pointer, BYTES_AHEAD + at))
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
    sums.put(blocks - 1, acc.fold(acc.groups))
    return sums.all()


def _find_streams(n: Nest, stage: Stage) -> list[Access]:
    """Return loads of long contiguous rows of arrays larger than the L2 cache."""
    last = stage.axes[-1]
    loads = {v.attr: None for v in walk([r.value for r in stage.reductions]) if v.op == "load" and not v.attr.guard}
    return [
        a for a in loads
        if prod(a.buffer.shape) * a.buffer.dtype.bytes > n.isa.l2 and last.extent * a.buffer.dtype.bytes >= BYTES_AHEAD
        and dict(a.flat().terms).get(last.id) == 1 and not a.flat().gather and a.buffer.scope == "arg"
    ]


def _fits(stage: Stage, lanes: int, total: int) -> bool:
    """Return whether the rows of a stage can be staged."""
    order, extent = stage.reductions[0].order, stage.axes[-1].extent
    size = sum(r.value.dtype.computed.bytes for r in stage.reductions)
    plain = not any(reduce.is_position(r) or r.monoid == "dot" for r in stage.reductions)
    return (lanes <= extent <= MAX_ROW and extent % order.lanes != 0 and plain
            and (min(total, order.block + extent) + lanes) * size <= MAX_STAGED_BYTES)


class _StagedReduction:
    """A reduction whose rows are short and begin at any lane, such as 7x7 images of a channel.

    Masked vectors at both ends of every row would cost more than the rows. Instead, successive rows are written densely to a
    local array, with full vectors (the last one of a row repeats elements), and whole blocks are reduced from the array. The
    order, and so the bits, are the same.
    """

    def __init__(self, n: Nest, stage: Stage, lanes: int, total: int) -> None:
        self.n, self.stage, self.lanes, self.total = n, stage, lanes, total
        self.block, self.extent = stage.reductions[0].order.block, stage.axes[-1].extent
        self.types = {r.id: reduce.state_types(r)[0] for r in stage.reductions}
        room = min(total, self.block + self.extent) + lanes
        self.arrays = {r.id: n.f.local(f"[{room} x {cell_type(self.types[r.id])}]", 64) for r in stage.reductions}
        self.sums = BlockJoiner(n, stage.reductions, None, 1, -(-total // self.block))
        self.acc = LaneAccumulators(n, stage, lanes)

    def run(self) -> States:
        n, f, stage, axis = self.n, self.n.f, self.stage, self.stage.axes[-1]
        fill, done = f.local("i64"), f.local("i64")
        f.store("i64", "0", fill)
        f.store("i64", "0", done)
        with n.loop(0, size_of(stage.axes[:-1])) as row:
            n.split_index(row, stage.axes[:-1])
            at = f.load("i64", fill)
            for envs in vectors(n, axis, self.lanes, 4, 0, axis.extent, None, may_repeat=True):
                self._stage_row(envs, at)
            after = f.add(at, self.extent)
            f.store("i64", after, fill)
            if self.total > self.block:
                with n.when(f.let(f"icmp sge i64 {after}, {self.block}")):
                    number = f.load("i64", done)
                    self._fold(self.block, number)
                    f.store("i64", f.add(number, 1), done)
                    rest = f.let(f"sub i64 {after}, {self.block}")
                    f.store("i64", rest, fill)
                    with n.loop(0, rest, self.lanes) as k:
                        for r in stage.reductions:
                            self._store(r, self._load(r, f.add(k, self.block)), k)
        left = self.total if self.total <= self.block else self.total % self.block
        if left:
            self._fold(left, (self.total - 1) // self.block)
        return self.sums.all()

    def _pointer(self, r: Reduction, at: str | int) -> str:
        return self.n.f.element(self.arrays[r.id], cell_type(self.types[r.id]), at)

    def _load(self, r: Reduction, at: str | int) -> str:
        return load_cell(self.n.f, wide(self.types[r.id], self.lanes), self._pointer(r, at), r.value.dtype.computed.bytes)

    def _store(self, r: Reduction, value: str, at: str | int) -> None:
        store_cell(self.n.f, wide(self.types[r.id], self.lanes), value, self._pointer(r, at), r.value.dtype.computed.bytes)

    def _stage_row(self, envs: list[Env], at: str) -> None:
        n, axis = self.n, self.stage.axes[-1]
        start = n.f.add(at, n.base.axes[axis.id])
        for env in envs:
            o = Ops(n.f, n.m, n.isa, self.lanes)
            for r in self.stage.reductions:
                value = reduce.lift(o, r, n.value(r.value, env))
                self._store(r, value, n.f.add(start, env.offsets.get(axis.id, 0)))

    def _fold(self, count: int, number: str | int) -> None:
        """Reduce the first ``count`` staged elements, which are block ``number``."""
        n, lanes, groups = self.n, self.lanes, self.acc.groups
        width, used = lanes * groups, min(groups, -(-count // lanes))
        self.acc.reset(used)
        full_end = count // width * width
        if full_end:
            with n.loop(0, full_end, width) as k:
                self._merge_vectors(k, [(u, None) for u in range(groups)])
        if count > full_end:
            masks = [first_mask(lanes, c) if c < lanes else None for c in _split(count - full_end, lanes)]
            self._merge_vectors(full_end, list(enumerate(masks)))
        self.sums.put(number, self.acc.fold(used))

    def _merge_vectors(self, first: str | int, vectors: list[tuple[int, str | None]]) -> None:
        n, f = self.n, self.n.f
        o = Ops(f, n.m, n.isa, self.lanes)
        for u, mask in vectors:
            for r in self.stage.reductions:
                t, (cell,) = self.types[r.id], self.acc.cells[r.id, u]
                old = f.load(wide(t, self.lanes), cell)
                at = first + u * self.lanes if isinstance(first, int) else f.add(first, u * self.lanes)
                new = reduce.merge(o, r, [old], [self._load(r, at)])[0]
                f.store(wide(t, self.lanes), new if mask is None else o.select(mask, t, new, old), cell)


def _split(count: int, lanes: int) -> Iterator[int]:
    while count > 0:
        yield min(count, lanes)
        count -= lanes
