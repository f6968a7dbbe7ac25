"""The tiling of a chain of products: strides, tiles, blocks, units, scratch. It depends on extents, formats and ISA only."""

from __future__ import annotations

from dataclasses import dataclass

from weft.devices.cpu.emit.isa import ISA, round_to_line
from weft.devices.cpu.emit.types import llvm_type
from weft.kernel.ir import Axis, Buffer, Chain, Outer, Value, size_of
from weft.kernel.product import load_access

SERIAL_FLOPS = 2_000_000  # about 20 us on one core
TARGET_UNITS = 16  # units of work to aim at. Sums over rows depend on it, because each unit has sums of its own.
TILE_ROWS = 6  # rows of a tile of accumulators


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a product in memory, a matrix of rows (or columns) and an axis of its own. Strides are in elements."""

    buffer: Buffer
    offset: int  # of its first element
    stride: int  # between its rows (or columns)
    own_stride: int  # along its own axis
    outer_strides: tuple[int, ...]  # along the outer axes of the chain
    extent: int  # of its own axis


class ChainTiling:
    """The sizes of a chain's tiling.

    vectors : vectors of a tile
    panel_rows : rows of a panel, which fill the lanes of its vectors
    panels : panels that share packed columns
    strips : groups of panels along the rows, including a group for the narrower last panel, if any
    block : columns of a tile, which determine the order of sums
    outer : the axes of the batch, then the row axes except the last
    row_iterations : iterations of those row axes in one batch
    splits : units per batch, parts of its rows
    column_sides : the distinct factors along the columns
    transposed_sides : the distinct factors of inner products along the rows, which are transposed
    plain_sides : the distinct factors of sums over the rows
    values : the distinct left factors of outer products, in the order of their tiles
    """

    def __init__(self, chain: Chain, isa: ISA) -> None:
        self.chain, self.isa = chain, isa
        self.size, self.scalar, self.lanes = chain.accum.bytes, llvm_type(chain.accum), isa.lanes(chain.accum.bytes)
        self.row, self.column = row, column = chain.rows[-1], chain.columns[-1]
        self.rows, self.columns = row.extent, column.extent
        self.outer = (*chain.batch, *chain.rows[:-1])
        self.batch, self.row_iterations = size_of(chain.batch), size_of(chain.rows[:-1])
        self.inner_rows = [self._factor(i.a, row, i.k) for i in chain.inner]
        self.inner_columns = [self._factor(i.b, column, i.k) for i in chain.inner]
        self.outer_sides = [self._factor(o.b, row if o.sums_rows else column, o.n) for o in chain.outer]
        self.row_sums, self.column_sums = ([o for o in chain.outer if o.sums_rows == across] for across in (True, False))
        self.column_sides = list(dict.fromkeys([*self.inner_columns, *map(self.side, self.column_sums)]))
        self.transposed_sides = list(dict.fromkeys(self.inner_rows))
        self.plain_sides = list(dict.fromkeys(map(self.side, self.row_sums)))
        self.values = list({id(o.value): o.value for o in chain.outer}.values())
        self.tiles = max(len(chain.inner), len(self.values))
        self.vectors = max(1, min(4 if isa.registers >= 32 else 2, -(-self.rows // self.lanes)))
        self.panel_rows = self.vectors * self.lanes
        self.block = min(64 if self.size == 4 else 32, max(self.columns, 1))
        copied = any(map(self.needs_packing, self.column_sides))
        self.panels = min(4 if copied or self.panel_rows < 64 else 1, max(1, self.rows // self.panel_rows))
        self.strips = -(-(self.rows // self.panel_rows) // self.panels) + bool(self.rows % self.panel_rows)
        most = self.row_iterations * self.strips
        if self.row_sums:  # each unit has a sum for every column
            most = min(most, TARGET_UNITS, -(-most // 4))
        self.splits = max(1, min(most, -(-(TARGET_UNITS if self.row_sums else 4 * TARGET_UNITS) // max(self.batch, 1))))
        middle = size_of((*chain.batch, *chain.rows, *chain.columns))
        self.flops = 2 * middle * sum([s.extent for s in (*self.inner_rows, *self.outer_sides)])

    def _factor(self, value: Value, place: Axis, own: tuple[Axis, ...]) -> Factor:
        """Return the factor that ``value`` loads. ``place``: its row or column axis; ``own``: its own axis."""
        access = load_access(value, self.chain.accum)
        if access is None or len(own) != 1:
            raise ValueError("a factor of a chain must be a load with one axis of its own")
        terms = dict(access.flat().terms)
        strides = tuple([terms.get(a.id, 0) for a in self.outer])
        return Factor(
            access.buffer, access.flat().const, terms.get(place.id, 0), terms.get(own[0].id, 0), strides, own[0].extent
        )

    def side(self, o: Outer) -> Factor:
        """Return the right factor of an outer product."""
        return self.outer_sides[self.chain.outer.index(o)]

    def needs_packing(self, side: Factor) -> bool:
        """Return whether a factor is copied, because its format is not that of the accumulators."""
        return side.buffer.dtype is not self.chain.accum

    def tile(self, value: Value) -> int:
        """Return the number of the tile that holds a left factor of an outer product."""
        return next(k for k, v in enumerate(self.values) if v is value)

    def pad_to_vectors(self, n: int) -> int:
        """Return ``n`` rounded up to whole vectors."""
        return -(-n // self.lanes) * self.lanes


class WorkerScratch:
    """Byte offsets in a worker's scratch: parts of each panel, ``panel`` bytes apart, then parts for all panels."""

    def __init__(self, plan: ChainTiling) -> None:
        self.plan = plan
        self._at = 0
        wide = plan.panel_rows
        self.transposed_offsets = {s: self._take(s.extent * wide) for s in plan.transposed_sides}  # [own axis][rows]
        self.plain_offsets = {s: self._take(wide * plan.pad_to_vectors(s.extent)) for s in plan.plain_sides}  # [rows][own axis]
        self.sums = [self._take(plan.side(o).extent * wide) for o in plan.column_sums]  # [own axis][rows]
        self.top, self.total, self.shrink = (self._take(wide) for _ in range(3))
        self.panel = self._at
        self._at *= plan.panels
        self.tiles = [self._take(plan.block * wide) for _ in range(plan.tiles)]  # [columns][rows]
        packed = filter(plan.needs_packing, plan.column_sides)
        self.packed_offsets = {s: self._take(plan.block * s.extent) for s in packed}  # [columns][own axis]
        self.result = self._take(wide * max([plan.pad_to_vectors(plan.side(o).extent) for o in plan.column_sums], default=0))
        self.zeros = self._take(max([plan.pad_to_vectors(s.extent) for s in plan.outer_sides], default=0))
        self.bytes = self._at

    def _take(self, elements: int) -> int:
        at = self._at
        self._at = at + round_to_line(elements * self.plan.size)
        return at

    def sums_of(self, o: Outer) -> int:
        return self.sums[self.plan.column_sums.index(o)]


class SharedScratch:
    """Byte offsets in the scratch of all workers: each unit's sums over its rows, [columns][own axis] per outer product."""

    def __init__(self, plan: ChainTiling) -> None:
        self.at: dict[int, int] = {}
        size = 0
        for o in plan.row_sums:
            self.at[o.id] = size
            size += round_to_line(plan.columns * self.width(plan, o) * plan.size)
        self.unit = size
        self.bytes = size * plan.batch * plan.splits

    @staticmethod
    def width(plan: ChainTiling, o: Outer) -> int:
        return plan.pad_to_vectors(plan.side(o).extent)
