"""Vectors along the innermost axis of the stages: row softmax, layer norm, full reductions by blocks.

A reduction has order.lanes accumulators as a few vectors; element k of the flat reduced index belongs to lane
k % lanes, so vectors start at multiples of ``lanes`` of k and ends are masked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from weft.codegen.cpu import reduce
from weft.codegen.cpu.access import pointer_of
from weft.codegen.cpu.emit import Emitter
from weft.codegen.cpu.env import Env, flat
from weft.codegen.cpu.machine import Ops
from weft.codegen.cpu.nest import Nest
from weft.codegen.cpu.nest_tiles import emit_stage as emit_tile_stage
from weft.codegen.cpu.parts import size_of, walk
from weft.codegen.cpu.row_scratch import Kept, keep, recall, shared
from weft.codegen.cpu.types import wide
from weft.schedule.kernel import Access, Affine, Axis, Reduction, Stage

FAR = 256 << 10  # bytes of a buffer that is not in the nearest caches


def const_mask(lanes: int, count: int) -> str:
    return "<" + ", ".join("i1 true" if i < count else "i1 false" for i in range(lanes)) + ">"


def vectors(
    n: Nest, axis: Axis, lanes: int, unroll: int, start: int, end: int, minor: Axis | None = None, again: bool = False,
) -> Iterator[list[Env]]:
    """Env groups that cover [start, end) of an axis: (in a loop) full groups, then the rest with a masked last vector.

    minor: an axis inside the lanes (see Env). again: the last vector may repeat elements instead of being masked.
    """
    if minor is not None:
        n.base.axes[minor.id] = "0"
    span = 1 if minor is None else minor.extent
    lanes //= span  # counted along the axis
    step = lanes * unroll

    def env(mask: str | None, shift: int) -> Env:
        if minor is not None:
            n.base.level_of[minor.id] = len(n.levels) - 1
        return n.env(axis.id, lanes * span, mask, shift, minor=minor)

    main = start + (end - start) // step * step
    if again and unroll == 1 and main < end and main > start + step and minor is None:  # one body for all: the last begins earlier
        n.m.declare("llvm.smin.i64", "declare i64 @llvm.smin.i64(i64, i64)")
        with n.loop(start, end, step) as k:
            n.base.axes[axis.id] = n.f.let(f"call i64 @llvm.smin.i64(i64 {k}, i64 {end - lanes})")
            n.base.level_of[axis.id] = len(n.levels) - 1
            last = env(None, 0)
            last.whole = False
            yield [last]
        return
    if main > start:
        if main - start == step:
            with n.block(axis.id):
                n.base.axes[axis.id] = str(start)
                yield [env(None, u * lanes) for u in range(unroll)]
        else:
            with n.loop(start, main, step, axis.id):
                yield [env(None, u * lanes) for u in range(unroll)]
    left = end - main
    if left:
        with n.block(axis.id):
            n.base.axes[axis.id] = str(main)
            envs = [env(None, u * lanes) for u in range(left // lanes)]
            if left % lanes and again and end - start >= lanes:
                envs.append(env(None, left - lanes))
            elif left % lanes:
                envs.append(env(const_mask(lanes * span, left % lanes * span), left // lanes * lanes))
            yield envs


def emit_row(n: Nest, lanes: int, unroll: int) -> None:
    """All stages of the part at one shared iteration."""
    row = shared(n)
    ahead = next((k for k, s in enumerate(n.part.stages) if k and s.axes), 0)
    for k, stage in enumerate(n.part.stages):
        total = size_of(stage.axes)
        if not stage.axes or (stage.reductions and (stage.reductions[0].order.lanes == 1 or total == 0)):
            emit_tile_stage(n, stage, [n.env()])
            continue
        if stage.reductions:
            for group in _orders(stage):
                states = reduce_range(n, group, lanes, 0, total, _hooks(n, k, group, row, k == ahead))
                finish(n, group, states)
        if stage.stores and total:
            with n.loops(stage.axes[:-1]):
                for envs in vectors(n, stage.axes[-1], lanes, unroll, 0, stage.axes[-1].extent):
                    recall(n, k, stage, row, envs)
                    if k == ahead:
                        _prefetch(n, stage, envs)
                    for env in envs:
                        for s in stage.stores:
                            n.store(s, env)


Hook = Callable[[list[Env], bool], None]


def _prefetch(n: Nest, stage: Stage, envs: list[Env]) -> None:
    """Ask for the next row while this one is computed: the machine's own prefetching ends at the page, often the row's end."""
    if not n.part.shared:
        return
    outer, axis = n.part.shared[-1], stage.axes[-1]
    first = [v.attr for v in walk([r.value for r in n.part.stages[0].reductions]) if v.op == "load"]
    own = n.part.stages[0].axes
    if len(own) != 1 or len(stage.axes) != 1 or own[0].extent != axis.extent:
        return
    for access in first:
        terms, size = dict(flat(access).terms), access.buffer.dtype.itemsize
        step = terms.pop(outer.id, 0)
        if access.guard or flat(access).gather or terms.pop(own[0].id, 0) != 1 or size_of_buffer(access) < FAR or step <= 0:
            continue
        if step < axis.extent:
            continue
        moved = Affine(flat(access).const, tuple(sorted({**terms, outer.id: step, axis.id: 1}.items())))
        e = Emitter(n.f, n.m, n.isa, envs[0])
        pointer = pointer_of(e, access, moved)
        n.m.declare("llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for at in range(0, max(envs[0].lanes * len(envs) * size, 1), 64):
            place = n.f.offset(pointer, step * size + at)
            n.f.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 3, i32 1)")


def size_of_buffer(access: Access) -> int:
    return math.prod(access.buffer.shape) * access.buffer.dtype.itemsize


def _hooks(n: Nest, k: int, stage: Stage, row: list[Kept], ahead: bool) -> Hook | None:
    """What runs before (True) and after (False) a group of vectors is merged."""
    if not ahead and not any(x.maker == k or k in x.users for x in row):
        return None

    def hook(envs: list[Env], before: bool) -> None:
        if ahead and before:
            _prefetch(n, stage, envs)
        (recall if before else keep)(n, k, stage, row, envs)

    return hook


def _orders(stage: Stage) -> list[Stage]:
    groups: dict = {}
    for r in stage.reductions:
        groups.setdefault(r.order, []).append(r)
    return [Stage(stage.axes, tuple(g)) for g in groups.values()]


def finish(n: Nest, stage: Stage, states: dict[int, list[str]]) -> None:
    """Name the scalar results, and write those that later parts read."""
    env = n.env()
    level = len(n.levels) - 1
    for r in stage.reductions:
        n.base.accs[r.id] = reduce.finish(Ops(n.f, n.m, n.isa, None), r, states[r.id])
        n.base.acc_level[r.id] = level
        n.base.uniform = {*n.base.uniform, r.id}
        n.export(r, env)


class _Lanes:
    """order.lanes accumulators of each reduction, in groups of vectors."""

    def __init__(self, n: Nest, stage: Stage, lanes: int, hook: Hook | None = None) -> None:
        self.hook = hook
        order = stage.reductions[0].order
        self.n, self.stage, self.lanes = n, stage, lanes
        self.groups = order.lanes // lanes
        self.cells = {
            (r.id, u): [n.f.local(wide(t, lanes)) for t in reduce.state_types(r)]
            for r in stage.reductions for u in range(self.groups)
        }

    def reset(self, used: int) -> None:
        for r in self.stage.reductions:
            for u in range(used):
                for t, c, s in zip(reduce.state_types(r), self.cells[r.id, u], reduce.identity(r, self.lanes), strict=True):
                    self.n.f.store(wide(t, self.lanes), s, c)

    def step(self, envs: list[Env], position: str | int) -> None:
        """Merge one group; ``position`` is the flat index of lane 0 of the first Env."""
        n, f = self.n, self.n.f
        if self.hook:
            self.hook(envs, True)
        for u, env in enumerate(envs):
            o = Ops(f, n.m, n.isa, self.lanes)
            for r in self.stage.reductions:
                types = reduce.state_types(r)
                new = [reduce.lift(o, r, n.value(r.value, env))]
                if reduce.is_position(r):
                    ramp = "<" + ", ".join(f"i64 {u * self.lanes + i}" for i in range(self.lanes)) + ">"
                    new.append(o.op("add", "i64", o.splat(str(position), "i64"), ramp))
                cells = self.cells[r.id, u]
                old = [f.load(wide(t, self.lanes), c) for t, c in zip(types, cells, strict=True)]
                state = reduce.merge(o, r, old, new)
                for t, c, s, kept in zip(types, cells, state, old, strict=True):
                    if env.mask is not None:
                        s = o.select(env.mask, t, s, kept)
                    f.store(wide(t, self.lanes), s, c)
        if self.hook:
            self.hook(envs, False)

    def folded(self, used: int) -> dict[int, list[str]]:
        """The scalar state of each reduction. Vectors beyond ``used`` saw nothing."""
        out = {}
        for r in self.stage.reductions:
            states = []
            for u in range(self.groups):
                if u < used:
                    types = zip(reduce.state_types(r), self.cells[r.id, u], strict=True)
                    states.append([self.n.f.load(wide(t, self.lanes), c) for t, c in types])
            while len(states) & (len(states) - 1):
                states.append(reduce.identity(r, self.lanes))
            out[r.id] = reduce.fold_lanes(Ops(self.n.f, self.n.m, self.n.isa, None), r, states, self.lanes)
        return out


def width_for(stage: Stage, lanes: int) -> int:
    return min(lanes, stage.reductions[0].order.lanes)


def reduce_range(n: Nest, stage: Stage, lanes: int, start: int, total: int, hook: Hook | None = None) -> dict[int, list[str]]:
    """The scalar states of all reductions over the whole flat index."""
    lanes = width_for(stage, lanes)
    if len(stage.axes) > 1:
        return _reduce_ragged(n, stage, lanes, total)
    block = stage.reductions[0].order.block
    if total <= block:
        return reduce_block(n, stage, lanes, start, total, hook)
    o = Ops(n.f, n.m, n.isa, None)
    sums = {r.id: [n.f.local(t) for t in reduce.state_types(r)] for r in stage.reductions}

    def put(r: Reduction, state: list[str]) -> None:
        for t, c, s in zip(reduce.state_types(r), sums[r.id], state, strict=True):
            n.f.store(t, s, c)

    def get(r: Reduction) -> list[str]:
        return [n.f.load(t, c) for t, c in zip(reduce.state_types(r), sums[r.id], strict=True)]

    for r in stage.reductions:
        put(r, reduce.identity(r, None))
    whole = total // block * block
    with n.loop(0, whole, block) as first:
        states = moving_block(n, stage, lanes, first, block, hook)
        for r in stage.reductions:
            put(r, reduce.merge(o, r, get(r), states[r.id]))
    if total > whole:
        states = reduce_block(n, stage, lanes, whole, total, hook)
        for r in stage.reductions:
            put(r, reduce.merge(o, r, get(r), states[r.id]))
    return {r.id: get(r) for r in stage.reductions}


def moving_block(n: Nest, stage: Stage, lanes: int, first: str, length: int, hook: Hook | None = None) -> dict[int, list[str]]:
    """One whole block that starts at run time."""
    axis = stage.axes[0]
    acc = _Lanes(n, stage, lanes, hook)
    acc.reset(acc.groups)
    end = n.f.add(first, length)
    with n.loop(first, end, lanes * acc.groups, axis.id) as k:
        acc.step([n.env(axis.id, lanes, None, u * lanes) for u in range(acc.groups)], k)
    return acc.folded(acc.groups)


def reduce_block(n: Nest, stage: Stage, lanes: int, start: int, end: int, hook: Hook | None = None) -> dict[int, list[str]]:
    """One block with constant ends."""
    acc = _Lanes(n, stage, lanes, hook)
    used = min(acc.groups, -(-(end - start) // lanes))
    acc.reset(used)
    for envs in vectors(n, stage.axes[0], lanes, acc.groups, start, end):
        acc.step(envs, n.base.axes[stage.axes[0].id])
    return acc.folded(used)


def _reduce_ragged(n: Nest, stage: Stage, lanes: int, total: int) -> dict[int, list[str]]:
    """Several axes: rows of the innermost one begin anywhere in the lanes, so their first and last groups are masked."""
    f, o = n.f, Ops(n.f, n.m, n.isa, None)
    order = stage.reductions[0].order
    axis, width = stage.axes[-1], order.lanes
    outer = size_of(stage.axes[:-1])
    acc = _Lanes(n, stage, lanes)
    sums = {r.id: [f.local(t) for t in reduce.state_types(r)] for r in stage.reductions}
    acc.reset(acc.groups)
    for r in stage.reductions:
        for t, c, s in zip(reduce.state_types(r), sums[r.id], reduce.identity(r, None), strict=True):
            f.store(t, s, c)

    def flush() -> None:
        states = acc.folded(acc.groups)
        for r in stage.reductions:
            types = reduce.state_types(r)
            held = [f.load(t, c) for t, c in zip(types, sums[r.id], strict=True)]
            for t, c, s in zip(types, sums[r.id], reduce.merge(o, r, held, states[r.id]), strict=True):
                f.store(t, s, c)

    even = axis.extent % width == 0
    with n.loop(0, outer) as row:
        n.split_index(row, stage.axes[:-1])
        start = f.mul(row, axis.extent)
        end = f.add(start, axis.extent)
        first = start if even else f.let(f"and i64 {start}, {-width}")
        with n.loop(first, end, width) as k:
            if total > order.block:
                fresh = f.let(f"icmp eq i64 {f.let(f'urem i64 {k}, {order.block}')}, 0")
                mine = f.let(f"icmp sge i64 {k}, {start}")
                later = f.let(f"icmp sgt i64 {k}, 0")
                with n.when(f.let(f"and i1 {f.let(f'and i1 {fresh}, {mine}')}, {later}")):
                    flush()
                    acc.reset(acc.groups)
            here = f.let(f"sub i64 {k}, {start}", "i")

            def group(masked: bool, k: str = k, here: str = here) -> None:
                n.base.axes[axis.id] = here
                n.base.level_of[axis.id] = len(n.levels) - 1
                envs = []
                vo = Ops(f, n.m, n.isa, lanes)
                for u in range(acc.groups):
                    mask = None
                    if masked:
                        ramp = "<" + ", ".join(f"i64 {u * lanes + i}" for i in range(lanes)) + ">"
                        at = vo.op("add", "i64", vo.splat(here, "i64"), ramp)
                        mask = vo.cmp("ult", "i64", at, vo.c("i64", axis.extent))
                    envs.append(n.env(axis.id, lanes, mask, u * lanes))
                    envs[-1].whole = even
                acc.step(envs, k)

            if even:
                group(False)
            elif axis.extent < width:
                group(True)
            else:
                inside = f.let(f"icmp ule i64 {here}, {axis.extent - width}")
                with n.when(inside):
                    group(False)
                with n.when(f.let(f"xor i1 {inside}, true")):
                    group(True)
    flush()
    out = {}
    for r in stage.reductions:
        out[r.id] = [f.load(t, c) for t, c in zip(reduce.state_types(r), sums[r.id], strict=True)]
    return out
