"""Reductions over several axes whose rows begin at any lane, such as 7x7 images of a channel.

Element k of the flat index belongs to accumulator k % lanes, so masked vectors at both ends of every short row would cost more
than the rows. Instead, successive rows are written densely to a local array, with full vectors (the last one of a row repeats
elements), and whole blocks are reduced from the array. The order, and so the bits, are the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.devices.cpu.emit import reduce
from weft.devices.cpu.emit.emitter import Env
from weft.devices.cpu.emit.masks import first_mask
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import load_cell, store_cell
from weft.devices.cpu.emit.types import cell_type, wide
from weft.devices.cpu.nest.nest import Nest
from weft.devices.cpu.nest.row_lanes import BlockJoiner, LaneAccumulators, vectors
from weft.kernel.ir import Reduction, Stage, size_of

MAX_STAGED_BYTES = 64 << 10
MAX_ROW = 256  # elements; in longer rows masked ends cost little


def fits(stage: Stage, lanes: int, total: int) -> bool:
    """Return whether the rows of a stage can be staged."""
    order, extent = stage.reductions[0].order, stage.axes[-1].extent
    size = sum(r.value.dtype.computed.bytes for r in stage.reductions)
    plain = not any(reduce.is_position(r) or r.monoid == "dot" for r in stage.reductions)
    return (lanes <= extent <= MAX_ROW and extent % order.lanes != 0 and plain
            and (min(total, order.block + extent) + lanes) * size <= MAX_STAGED_BYTES)


def reduce_staged(n: Nest, stage: Stage, lanes: int, total: int) -> dict[int, list[str]]:
    """Return the scalar states of all reductions of the stage."""
    return _StagedReduction(n, stage, lanes, total).run()


class _StagedReduction:
    def __init__(self, n: Nest, stage: Stage, lanes: int, total: int) -> None:
        self.n, self.stage, self.lanes, self.total = n, stage, lanes, total
        self.block, self.extent = stage.reductions[0].order.block, stage.axes[-1].extent
        self.types = {r.id: reduce.state_types(r)[0] for r in stage.reductions}
        room = min(total, self.block + self.extent) + lanes
        self.arrays = {r.id: n.f.local(f"[{room} x {cell_type(self.types[r.id])}]", 64) for r in stage.reductions}
        self.sums = BlockJoiner(n, stage, -(-total // self.block))
        self.acc = LaneAccumulators(n, stage, lanes)

    def run(self) -> dict[int, list[str]]:
        n, f, stage, axis = self.n, self.n.f, self.stage, self.stage.axes[-1]
        fill, done = f.local("i64"), f.local("i64")
        f.store("i64", "0", fill)
        f.store("i64", "0", done)
        with n.loop(0, size_of(stage.axes[:-1])) as row:
            n.split_index(row, stage.axes[:-1])
            at = f.load("i64", fill)
            for envs in vectors(n, axis, self.lanes, 4, 0, axis.extent, None, again=True):
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
        self.sums.put(number, self.acc.folded(used))

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
