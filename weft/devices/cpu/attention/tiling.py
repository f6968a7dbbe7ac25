"""The tiling of a chain of products: strides, tiles, blocks, units, scratch. It depends on extents, formats and ISA only."""

from __future__ import annotations

from dataclasses import dataclass

from weft.devices.cpu.emit.isa import ISA, round_to_line
from weft.devices.cpu.emit.types import llvm_type
from weft.kernel.ir import Axis, Buffer, Chain, Outer, Value, size_of
from weft.kernel.product import loaded

SERIAL_FLOPS = 2_000_000  # about 20 us on one core
UNITS = 16  # aimed number of units of work; only sums over rows depend on it: each unit computes its own
TILE_ROWS = 6  # rows of a tile of accumulators


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor in memory. Strides in elements: ``place`` along rows (or columns), ``own`` along its own axis, ``outer`` axes."""

    buffer: Buffer
    const: int
    place: int
    own: int
    outer: tuple[int, ...]
    extent: int  # of its own axis


class ChainTiling:
    """The sizes of a chain's tiling.

    vectors : vectors of a tile
    wide : rows of a panel, the lanes of its vectors
    panels : panels that share packed columns
    strips : groups of panels along the rows, including a group for the narrower last panel, if any
    block : columns of a tile, which determine the order of sums
    outer : the axes of the batch, then the row axes except the last; turns : iterations of the latter in one batch
    splits : units per batch, parts of its rows
    column_sides, turned_sides, plain_sides : the distinct factors along the columns, those of inner products along the rows,
        which are transposed, and those of sums over the rows
    values : the distinct left factors of outer products, in the order of their tiles
    """

    def __init__(self, chain: Chain, isa: ISA) -> None:
        self.chain, self.isa = chain, isa
        self.size, self.scalar, self.lanes = chain.accum.bytes, llvm_type(chain.accum), isa.lanes(chain.accum.bytes)
        self.row, self.column = row, column = chain.rows[-1], chain.columns[-1]
        self.rows, self.columns = row.extent, column.extent
        self.outer = (*chain.batch, *chain.rows[:-1])
        self.batch, self.turns = size_of(chain.batch), size_of(chain.rows[:-1])
        self.inner_rows = [self._factor(i.a, row, i.k) for i in chain.inner]
        self.inner_columns = [self._factor(i.b, column, i.k) for i in chain.inner]
        self.outer_sides = [self._factor(o.b, row if o.across else column, o.n) for o in chain.outer]
        self.across, self.along = ([o for o in chain.outer if o.across == across] for across in (True, False))
        self.column_sides = list(dict.fromkeys([*self.inner_columns, *map(self.side, self.along)]))
        self.turned_sides = list(dict.fromkeys(self.inner_rows))
        self.plain_sides = list(dict.fromkeys(map(self.side, self.across)))
        self.values = list({id(o.value): o.value for o in chain.outer}.values())
        self.tiles = max(len(chain.inner), len(self.values))
        self.vectors = max(1, min(4 if isa.registers >= 32 else 2, -(-self.rows // self.lanes)))
        self.wide = self.vectors * self.lanes
        self.block = min(64 if self.size == 4 else 32, max(self.columns, 1))
        copied = any(map(self.packed, self.column_sides))
        self.panels = min(4 if copied or self.wide < 64 else 1, max(1, self.rows // self.wide))
        self.strips = -(-(self.rows // self.wide) // self.panels) + bool(self.rows % self.wide)
        most = self.turns * self.strips
        if self.across:  # each unit has a sum for every column
            most = min(most, UNITS, -(-most // 4))
        self.splits = max(1, min(most, -(-(UNITS if self.across else 4 * UNITS) // max(self.batch, 1))))
        middle = size_of((*chain.batch, *chain.rows, *chain.columns))
        self.flops = 2 * middle * sum([s.extent for s in (*self.inner_rows, *self.outer_sides)])

    def _factor(self, value: Value, place: Axis, own: tuple[Axis, ...]) -> Factor:
        access = loaded(value, self.chain.accum)
        if access is None or len(own) != 1:
            raise ValueError("a factor of a chain must be a load with one axis of its own")
        terms = dict(access.flat().terms)
        strides = tuple([terms.get(a.id, 0) for a in self.outer])
        return Factor(
            access.buffer, access.flat().const, terms.get(place.id, 0), terms.get(own[0].id, 0), strides, own[0].extent
        )

    def side(self, o: Outer) -> Factor:
        return self.outer_sides[self.chain.outer.index(o)]

    def packed(self, side: Factor) -> bool:
        """Return whether a factor is copied, because its format is not that of the accumulators."""
        return side.buffer.dtype is not self.chain.accum

    def tile(self, value: Value) -> int:
        return next(k for k, v in enumerate(self.values) if v is value)

    def padded(self, n: int) -> int:
        return -(-n // self.lanes) * self.lanes


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
        self._at = at + round_to_line(elements * self.plan.size)
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
            size += round_to_line(plan.columns * self.width(plan, o) * plan.size)
        self.unit = size
        self.bytes = size * plan.batch * plan.splits

    @staticmethod
    def width(plan: ChainTiling, o: Outer) -> int:
        return plan.padded(plan.side(o).extent)
