"""Column reductions of row-major memory: rows outside, a slab of columns inside.

Each row is read a few hundred columns at a time. Accumulators, totals and values derived from them for the stores (mean, 1 /
sqrt(var + eps)) are local arrays as wide as the slab; four rows share one load and store of the accumulators. Costly values that
the stores need again (the exponentials of a softmax) are stored early, at the place of the result. In tall reductions each block
of rows writes its own slot, in parallel, and the slots are joined pairwise. Additions follow ``Order``, so the bits are those of
one loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from weft.devices.cpu.emit import pairwise, reduce
from weft.devices.cpu.emit.affine import first_mask
from weft.devices.cpu.emit.emitter import Env
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import load_cell, store_cell
from weft.devices.cpu.emit.text import Module
from weft.devices.cpu.emit.types import align_of, cell_type, llvm_type, wide
from weft.devices.cpu.nest.nest import Nest, ScratchLayout, instructions, lanes_for, strides_along, vectors
from weft.devices.cpu.nest.row_scratch import MIN_INSTRUCTIONS, ValueNumbering
from weft.devices.cpu.nest.tiles import emit_stage, update
from weft.kernel.expressions import dependencies, iterate_topmost, iterate_values, walk
from weft.kernel.ir import Access, Affine, Axis, Reduction, Stage, Store, Value, size_of
from weft.kernel.stages import Part

ROWS = 4  # rows that share one load and store of the accumulators


def slab_width(part: Part, axis: Axis, isa: ISA, parallel: bool) -> int:
    """Return the slab's width in elements if the part is a column reduction that gains from slabs, else 0."""
    reductions = [r for s in part.stages for r in s.reductions]
    lanes = lanes_for(isa, part)
    if not reductions or axis.extent < 8 * lanes or len(reductions) > 6:
        return 0
    if any(r.order.lanes != 1 or r.running or r.order != s.reductions[0].order for s in part.stages for r in s.reductions):
        return 0
    if any(r.accumulator is not None for r in reductions):
        return 0  # blocks are joined pairwise
    if any(len(s.axes) > 1 or (s.reductions and (not s.axes or s.axes[0].extent < 32 or s.stores)) for s in part.stages):
        return 0
    if any(step not in (0, 1) for step in strides_along(part, axis.id)):
        return 0
    row_strides = [abs(step) for s in part.stages for a in s.axes for step in strides_along(part, a.id) if step]
    if not row_strides or min(row_strides) < 8 * lanes:
        return 0
    # as wide as two chunks allow: on 4096x1024, slabs of 128 took 4.9 ms, of 512 2.9 ms, of 1024 2.1 ms
    outer = size_of(part.shared) // axis.extent
    pieces = max(2 if parallel and outer < 8 else 1, -(-axis.extent // 1024))
    width = -(-axis.extent // pieces)
    return min(max(-(-width // (4 * lanes)) * 4 * lanes, 16 * lanes), 1024)


class Slab:
    """The slab [lo, lo + width) of the vector axis in an open function."""

    def __init__(self, n: Nest, axis: Axis, lanes: int, width: int, which: str | int) -> None:
        self.n, self.axis, self.lanes, self.width = n, axis, lanes, width
        f = n.f
        self.main = axis.extent // lanes * lanes
        self.lo = f.mul(which, width)
        self.hi = f.add(self.lo, width)
        if axis.extent % width:
            self.hi = f.minimum(self.hi, self.main)
        self.is_last = f.let(f"icmp eq i64 {which}, {(axis.extent - 1) // width}") if axis.extent > self.main else ""
        self.results: dict[int, tuple[Reduction, list[str]]] = {}
        self.early_stores = find_early_stores(n)
        if self.early_stores:
            n.m.took("sheet early")

    def array(self, type_: str) -> str:
        return self.n.f.local(f"[{self.width + self.lanes} x {cell_type(type_)}]", 64)

    def _local_index(self, v: str) -> str:
        return v if self.lo == "0" else self.n.f.let(f"sub i64 {v}, {self.lo}", "i")

    def emit_groups(self, body, unroll: int = 1) -> None:
        """Emit ``body(place, mask, shifts)`` for each vector group of the slab; place: index into the arrays."""
        n = self.n
        if self.axis.extent % (self.lanes * unroll) or self.width % (self.lanes * unroll):
            unroll = 1
        with n.loop(self.lo, self.hi, self.lanes * unroll, self.axis.id) as v:
            body(self._local_index(v), None, [u * self.lanes for u in range(unroll)])
        if self.is_last:
            with n.when(self.is_last), n.block(self.axis.id):
                n.base.axes[self.axis.id] = str(self.main)
                body(self._local_index(str(self.main)), first_mask(self.lanes, self.axis.extent % self.lanes), [0])

    def env(self, mask: str | None, shift: int, stage_axis: int | None = None, row: int = 0) -> Env:
        env = self.n.env(self.axis.id, self.lanes, mask, shift, {}, set())
        if stage_axis is not None and row:
            env.offsets[stage_axis] = row
        return env

    def load(self, array: str, type_: str, place: str, shift: int) -> str:
        return load_cell(self.n.f, wide(type_, self.lanes), self._element(array, type_, place, shift), align_of(type_))

    def store(self, value: str, array: str, type_: str, place: str, shift: int) -> None:
        store_cell(self.n.f, wide(type_, self.lanes), value, self._element(array, type_, place, shift), align_of(type_))

    def _element(self, array: str, type_: str, place: str, shift: int) -> str:
        cell = cell_type(type_)
        return self.n.f.element(self.n.f.element(array, cell, place), cell, shift)

    def load_state(self, arrays: list[str], r: Reduction, place: str, shift: int = 0) -> list[str]:
        return [self.load(a, t, place, shift) for a, t in zip(arrays, reduce.state_types(r), strict=True)]

    def store_state(self, state: list[str], arrays: list[str], r: Reduction, place: str) -> None:
        for a, t, s in zip(arrays, reduce.state_types(r), state, strict=True):
            self.store(s, a, t, place, 0)

    # stages

    def run(self, stage: Stage) -> None:
        roots = [r.value for r in stage.reductions] + [s.value for s in stage.stores]
        ready = self._hoist_invariants(stage, roots)
        accs = {v.attr for v in walk(roots) if v.op == "acc"}
        if stage.reductions:
            self._reduce(stage, ready, accs)
            return
        early_values = self.early_stores if stage is self.n.part.stages[-1] else []
        if size_of(stage.axes) == 0:
            return

        def write(place: str, mask: str | None, shifts: list[int]) -> None:
            for shift in shifts:
                env = self.env(mask, shift)
                self._bind_arrays(env, place, shift, ready, accs)
                for e in early_values:
                    env.streamed = None  # the early value of this element is still in a cache
                    dependencies(e.recomputed_value, self.n.base.deps)
                    self.n.levels[-1].memo[env.tag, id(e.recomputed_value)] = self.n.value(e.load, env)
                for s in stage.stores:
                    self.n.store(s, env)

        with self.n.loops(stage.axes):
            self.emit_groups(write, 4)

    def _bind_arrays(self, env: Env, place: str, shift: int, ready: list[tuple[Value, str]], accs: set[int]) -> None:
        """Bind prepared values and accumulators to their loads from the arrays."""
        n = self.n
        level = len(n.levels) - 1
        for value, array in ready:
            dependencies(value, n.base.deps)
            n.levels[-1].memo[env.tag, id(value)] = self.load(array, llvm_type(value.dtype), place, shift)
        needed = {d[1] for v, _ in ready for d in n.base.deps[id(v)] if isinstance(d, tuple)} | accs
        for number in sorted(needed):
            n.base.acc_level[number] = level
        for number in sorted(accs):
            r, arrays = self.results[number]
            env.accs[number] = reduce.finish(Ops(n.f, n.m, n.isa, self.lanes), r, self.load_state(arrays, r, place, shift))

    def _hoist_invariants(self, stage: Stage, roots: list[Value]) -> list[tuple[Value, str]]:
        """Compute values that do not depend on the stage's rows once per column; return (value, array) pairs."""
        n = self.n
        own = {a.id for a in stage.axes}
        if not own:
            return []

        def fixed(v: Value) -> bool:
            deps = dependencies(v, n.base.deps)
            if deps & own or not any(isinstance(d, tuple) or d == self.axis.id for d in deps):
                return False
            return v.op not in ("load", "const", "scalar", "acc", "index") and llvm_type(v.dtype) in ("float", "double", "i32")

        values = list(iterate_topmost(roots, fixed))
        if not values:
            return []
        arrays = [(v, self.array(llvm_type(v.dtype))) for v in values]
        accs = {v.attr for v in walk(values) if v.op == "acc"}

        def prepare(place: str, mask: str | None, shifts: list[int]) -> None:
            for shift in shifts:
                env = self.env(mask, shift)
                self._bind_arrays(env, place, shift, [], accs)
                for v, array in arrays:
                    self.store(n.value(v, env), array, llvm_type(v.dtype), place, shift)

        self.emit_groups(prepare)
        return arrays

    def _reduce(self, stage: Stage, ready: list[tuple[Value, str]], accs: set[int]) -> None:
        n, f = self.n, self.n.f
        total, block = stage.axes[0].extent, stage.reductions[0].order.block
        axis = stage.axes[0].id
        early_stores = [e for e in self.early_stores if n.part.stages[e.maker] is stage]
        blocks = -(-total // block)
        slab = self.width + self.lanes
        elements = pairwise.depth(blocks, partial=True) * slab
        room = [(r.id, t, f.local(f"[{elements} x {cell_type(t)}]", 64)) for r in stage.reductions for t in reduce.state_types(r)]

        def levels(level: str | int) -> dict[int, list[str]]:
            arrays: dict[int, list[str]] = {}
            for number, t, array in room:
                arrays.setdefault(number, []).append(f.element(array, cell_type(t), f.mul(level, slab)))
            return arrays

        def clear(arrays: dict[int, list[str]]) -> None:
            def body(place: str, mask: str | None, shifts: list[int]) -> None:
                for r in stage.reductions:
                    self.store_state(reduce.identity(r, self.lanes), arrays[r.id], r, place)

            self.emit_groups(body)

        def rows(count: int, acc: dict[int, list[str]]):
            def body(place: str, mask: str | None, shifts: list[int]) -> None:
                k = n.base.axes[axis]
                states = {r.id: self.load_state(acc[r.id], r, place) for r in stage.reductions}
                for row in range(count):
                    env = self.env(mask, 0, axis, row)
                    self._bind_arrays(env, place, 0, ready, accs)
                    position = f.add(k, row) if any(reduce.is_position(r) for r in stage.reductions) else 0
                    for r in stage.reductions:
                        states[r.id] = update(n, r, env, states[r.id], position)
                    env.streamed = None
                    for e in early_stores:
                        n.store(e.store, env)
                for r in stage.reductions:
                    self.store_state(states[r.id], acc[r.id], r, place)

            return body

        def span(start: str | int, end: str | int, unrolled_end: str | int, acc: dict[int, list[str]]) -> None:
            """Emit rows [start, end); those before ``unrolled_end`` four at a time."""
            with n.loop(start, unrolled_end, ROWS, axis):
                self.emit_groups(rows(ROWS, acc))
            if unrolled_end != end:
                with n.loop(unrolled_end, end, 1, axis):
                    self.emit_groups(rows(1, acc))

        if blocks <= 1:
            clear(acc := levels(0))
            span(0, total, total // ROWS * ROWS, acc)
        else:
            with n.loop(0, total, block) as start:
                number = f.let(f"udiv i64 {start}, {block}")
                clear(acc := levels(pairwise.level_of(n.m, f, number)))  # a block is summed at its level's place
                end = f.minimum(f.add(start, block), total)
                unrolled_end = f.add(start, f.let(f"and i64 {f.let(f'sub i64 {end}, {start}')}, {-ROWS}"))
                span(start, end, unrolled_end if total % ROWS or block % ROWS else end, acc)
                last = f.let(f"icmp eq i64 {number}, {blocks - 1}", "c")
                self._join(stage, pairwise.joins(f, number, last), acc, levels)
            acc = levels((blocks & ~(blocks - 1)).bit_length() - 1)  # the level of the last block
        for r in stage.reductions:
            self.results[r.id] = (r, acc[r.id])
            if r.id in n.part.exports:

                def export(place: str, mask: str | None, shifts: list[int], r: Reduction = r) -> None:
                    env = self.env(mask, 0)
                    self._bind_arrays(env, place, 0, [], {r.id})
                    n.export(r, env)

                self.emit_groups(export)

    def _join(self, stage: Stage, mask: str, acc: dict[int, list[str]], levels: Callable[[str], dict[int, list[str]]]) -> None:
        """Join the levels in ``mask`` with a block's slab, lowest first."""
        n, f = self.n, self.n.f
        o = Ops(f, n.m, n.isa, self.lanes)

        def with_level(level: str) -> None:
            totals = levels(level)

            def body(place: str, lanes: str | None, shifts: list[int]) -> None:
                for r in stage.reductions:
                    earlier, later = (self.load_state(x[r.id], r, place) for x in (totals, acc))
                    self.store_state(reduce.merge(o, r, earlier, later), acc[r.id], r, place)

            self.emit_groups(body)

        pairwise.each_level(n.m, f, mask, with_level)


@dataclass(frozen=True, slots=True)
class EarlyStore:
    """``store`` writes ``value`` in the stage ``maker``; the last stage reads it by ``load`` instead of computing
    ``recomputed_value``."""

    maker: int
    value: Value
    store: Store
    recomputed_value: Value
    load: Value


def find_early_stores(n: Nest) -> list[EarlyStore]:
    """Return the costly values that earlier stages can store in the results, for the last stage to load."""
    stages = n.part.stages
    last = stages[-1]
    if last.reductions or len(last.axes) != 1 or any(s.stores for s in stages[:-1]):
        return []
    axis = last.axes[0]
    canon = ValueNumbering()

    def numbers(stage: Stage) -> list[tuple[int, Value]]:
        """Return the values that depend on the stage's axis, each with its number in ``canon``."""
        own, memo = stage.axes[0].id, {}  # type: ignore[var-annotated]
        values = walk([r.value for r in stage.reductions] + [s.value for s in stage.stores])
        return [(canon.of(v, own, memo), v) for v in values if own in dependencies(v, n.base.deps)]

    computed: dict[int, tuple[int, Value]] = {}
    for k, stage in enumerate(stages[:-1]):
        if len(stage.axes) == 1 and stage.axes[0].extent == axis.extent:
            for number, v in numbers(stage):
                computed.setdefault(number, (k, v))
    reusable = {
        id(v): computed[number] for number, v in numbers(last)
        if number in computed and instructions([v], None) >= MIN_INSTRUCTIONS
    }
    out: list[EarlyStore] = []
    for s in last.stores:
        dtype = s.access.buffer.dtype
        plain = s.mode == "set" and not s.access.guard and not s.access.index[0].gather and s.access.buffer.scope == "arg"
        again = next(iterate_topmost([s.value], lambda v, dtype=dtype: v.dtype == dtype and id(v) in reusable), None)  # type: ignore[misc]
        if not plain or again is None or any(e.store.access.buffer == s.access.buffer for e in out):
            continue
        k, value = reusable[id(again)]
        index, other = s.access.index[0], stages[k].axes[0].id
        place = replace(index, terms=tuple(sorted((other if a == axis.id else a, c) for a, c in index.terms)))
        store = Store(replace(s.access, index=(place,)), value)
        if _is_safe(n, s, k, place, {id(again), *(id(e.recomputed_value) for e in out)}):
            out.append(EarlyStore(k, value, store, again, Value("load", (), value.dtype, s.access)))
    return out


def _is_safe(n: Nest, s: Store, maker: int, place: Affine, replaced: set[int]) -> bool:
    """Return whether no input that may alias the result (one of its size) is read after the maker has written the result."""
    stages = n.part.stages
    size = s.access.buffer.dtype.bytes * int(np.prod(s.access.buffer.shape))

    def meets(access: Access) -> bool:
        b = access.buffer
        return b.scope == "arg" and b.dtype.bytes * int(np.prod(b.shape)) == size

    for k, stage in enumerate(stages[maker:], maker):
        values = [r.value for r in stage.reductions] + [x.value for x in stage.stores]
        for v in iterate_values(values, set(replaced) if k == len(stages) - 1 else None):
            if v.op == "load" and meets(v.attr) and not (k == maker and v.attr.index[0] == place and not v.attr.guard):
                return False
    return True

MAX_COLUMNS = 512
MAX_SLOT_BYTES = 4 << 20
ACCUMULATORS = 4  # more would be more memory streams than the hardware prefetches


def is_tall_reduction(part: Part, lanes: int) -> bool:
    """Return whether a part is a tall column reduction over one axis whose later stages have no loops of their own."""
    if len(part.shared) != 1 or part.is_ordered or not part.stages or not 1 < part.shared[0].extent <= MAX_COLUMNS:
        return False
    first, *rest = part.stages
    if not first.reductions or len(first.axes) != 1 or first.stores or any(s.axes or s.reductions for s in rest):
        return False
    order, total = first.reductions[0].order, first.axes[0].extent
    if any(r.order != order or r.running or reduce.is_position(r) or r.accumulator for r in first.reductions) or order.lanes != 1:
        return False
    if any(step not in (0, 1) for step in strides_along(part, part.shared[0].id)) or total < 16 * order.block:
        return False
    return -(-total // order.block) * (part.shared[0].extent + lanes) * 8 * len(first.reductions) <= MAX_SLOT_BYTES


def _reserve_slots(n: Nest, lanes: int, blocks: int) -> tuple[dict[int, str], int]:
    pitch = -(-n.part.shared[0].extent // lanes) * lanes
    return {r.id: n.scratch(n.layout.states(r, blocks * pitch * 8)) for r in n.part.stages[0].reductions}, pitch


def emit_blocks(n: Nest, lanes: int, rows: int, chunks: int) -> None:
    """Emit one chunk: ``rows`` blocks, each reduced to its slot."""
    f, (stage, *_) = n.f, n.part.stages
    block, total = stage.reductions[0].order.block, stage.axes[0].extent
    blocks, full_blocks = -(-total // block), total // block
    slots, pitch = _reserve_slots(n, lanes, blocks)
    across = min(4, -(-n.part.shared[0].extent // lanes))  # vectors of columns per loop body
    blocks_per_body = max(1, ACCUMULATORS // (across * len(stage.reductions)))
    lo = f.mul("%chunk", rows)
    hi = f.minimum(f.add(lo, rows), full_blocks)

    def take(b: str | int, count: int, length: int) -> None:
        axis, row = n.part.shared[0], stage.axes[0]
        for envs in vectors(n, axis, lanes, across, 0, axis.extent, None, may_repeat=True):
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

    main = lo
    if blocks_per_body > 1:
        count = f.let(f"sub i64 {hi}, {lo}", "i")
        count = f.let(f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")  # the last chunk may hold only the short block
        n.m.declare("llvm.smax.i64", "declare i64 @llvm.smax.i64(i64, i64)")
        main = f.let(f"sub i64 {hi}, {f.let(f'urem i64 {count}, {blocks_per_body}')}", "i")
        with n.loop(lo, main, blocks_per_body) as b:
            take(b, blocks_per_body, block)
    with n.loop(main, hi) as b:
        take(b, 1, block)
    if full_blocks < blocks:
        with n.when(f.let(f"icmp eq i64 %chunk, {chunks - 1}")):
            take(full_blocks, 1, total - full_blocks * block)


def emit_blocks_merge(m: Module, isa: ISA, layout: ScratchLayout, part: Part, lanes: int, name: str) -> None:
    """Emit the join of the slots into the totals, and the stages that read the totals."""
    f = m.function(f"define internal void @{name}(ptr %context, i64 %chunk, i64 %worker)")
    n = Nest(f, m, isa, layout, part)
    stage, *rest = part.stages
    blocks = -(-stage.axes[0].extent // stage.reductions[0].order.block)
    slots, pitch = _reserve_slots(n, lanes, blocks)
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
