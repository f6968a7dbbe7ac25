"""The scratch memory of chains: byte offsets of a worker's pieces and of the sums that workers share."""

from __future__ import annotations

from weft.devices.cpu.attention.tiling import ChainTiling
from weft.kernel.ir import Outer

LINE = 64


class WorkerScratch:
    """A worker's scratch: pieces of each panel, ``panel`` bytes apart, then pieces that panels share."""

    def __init__(self, plan: ChainTiling) -> None:
        self.plan = plan
        self._at = 0
        wide = plan.wide
        self.turned = {s: self._take(s.extent * wide) for s in plan.turned_sides}  # [own axis][rows]
        self.plain = {s: self._take(wide * plan.padded(s.extent)) for s in plan.plain_sides}  # [rows][own axis]
        self.sums = [self._take(plan.side(o).extent * wide) for o in plan.along]  # [own axis][rows]
        self.top, self.total, self.shrink = (self._take(wide) for _ in range(3))
        self.panel = self._at
        self._at *= plan.panels
        self.tiles = [self._take(plan.block * wide) for _ in range(plan.tiles)]  # [columns][rows]
        self.packed = {s: self._take(plan.block * s.extent) for s in plan.column_sides if plan.packed(s)}  # [columns][own axis]
        self.result = self._take(wide * max([plan.padded(plan.side(o).extent) for o in plan.along], default=0))
        self.zeros = self._take(max([plan.padded(s.extent) for s in plan.outer_sides], default=0))
        self.bytes = self._at

    def _take(self, elements: int) -> int:
        at = self._at
        self._at = at + -(-elements * self.plan.size // LINE) * LINE
        return at

    def sums_of(self, o: Outer) -> int:
        return self.sums[self.plan.along.index(o)]


class SharedScratch:
    """Scratch shared by all workers: for each unit and outer product the sums over its rows, [columns][own axis]."""

    def __init__(self, plan: ChainTiling) -> None:
        self.at: dict[int, int] = {}
        size = 0
        for o in plan.across:
            self.at[o.id] = size
            size += -(-plan.columns * self.width(plan, o) * plan.size // LINE) * LINE
        self.unit = size
        self.bytes = size * plan.batch * plan.splits

    @staticmethod
    def width(plan: ChainTiling, o: Outer) -> int:
        return plan.padded(plan.side(o).extent)


