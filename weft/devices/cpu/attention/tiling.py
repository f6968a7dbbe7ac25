"""The tiling of a chain of products: operand strides, tiles, blocks, units. It depends on extents, formats and ISA only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from weft.devices.cpu.emit.isa import ISA
from weft.dtypes.formats import Format
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


def side_of(value: Value, accum: Format, outer: tuple[Axis, ...], place: Axis, own: tuple[Axis, ...]) -> Factor:
    access = loaded(value, accum)
    if access is None or len(own) != 1:
        raise ValueError("a factor of a chain must be a load with one axis of its own")
    terms = dict(access.flat().terms)
    return Factor(
        access.buffer, access.flat().const, terms.get(place.id, 0), terms.get(own[0].id, 0),
        tuple([terms.get(a.id, 0) for a in outer]), own[0].extent,
    )


@dataclass(frozen=True)
class ChainTiling:
    """The sizes of a chain's tiling.

    vectors : vectors of a tile
    wide : rows of a panel, the lanes of its vectors
    panels : panels that share packed columns
    block : columns of a tile, which determine the order of sums
    splits : units per batch, parts of its rows
    """

    chain: Chain
    isa: ISA

    @cached_property
    def size(self) -> int:
        return self.chain.accum.bytes

    @cached_property
    def scalar(self) -> str:
        return "float" if self.size == 4 else "double"

    @cached_property
    def lanes(self) -> int:
        return self.isa.lanes(self.size)

    @cached_property
    def vectors(self) -> int:
        most = 4 if self.isa.registers >= 32 else 2
        return max(1, min(most, -(-self.rows // self.lanes)))

    @property
    def wide(self) -> int:
        return self.vectors * self.lanes

    @property
    def row(self) -> Axis:
        return self.chain.rows[-1]

    @property
    def column(self) -> Axis:
        return self.chain.columns[-1]

    @property
    def rows(self) -> int:
        return self.row.extent

    @property
    def columns(self) -> int:
        return self.column.extent

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The axes of the batch, then the row axes except the last."""
        return (*self.chain.batch, *self.chain.rows[:-1])

    @cached_property
    def turns(self) -> int:
        """The iterations of the outer row axes in one batch."""
        return size_of(self.chain.rows[:-1])

    @property
    def block(self) -> int:
        return min(64 if self.size == 4 else 32, max(self.columns, 1))

    @cached_property
    def panels(self) -> int:
        narrow = any(self.packed(s) for s in self.column_sides)
        return min(4 if narrow or self.wide < 64 else 1, max(1, self.rows // self.wide))

    @property
    def strips(self) -> int:
        """The groups of panels along the rows, including a group for the narrower last panel, if any."""
        return -(-(self.rows // self.wide) // self.panels) + bool(self.rows % self.wide)

    @cached_property
    def batch(self) -> int:
        return size_of(self.chain.batch)

    @cached_property
    def splits(self) -> int:
        most = self.turns * self.strips
        if self.across:  # each unit has a sum for every column
            most = min(most, UNITS, -(-most // 4))
        wanted = -(-UNITS // max(self.batch, 1)) if self.across else -(-4 * UNITS // max(self.batch, 1))
        return max(1, min(most, wanted))

    @cached_property
    def flops(self) -> int:
        middle = size_of((*self.chain.batch, *self.chain.rows, *self.chain.columns))
        return 2 * middle * sum([s.extent for s in (*self.inner_rows, *self.outer_sides)])

    # ---- operands

    @cached_property
    def inner_rows(self) -> list[Factor]:
        return [self._side(i.a, self.row, i.k) for i in self.chain.inner]

    @cached_property
    def inner_columns(self) -> list[Factor]:
        return [self._side(i.b, self.column, i.k) for i in self.chain.inner]

    @cached_property
    def outer_sides(self) -> list[Factor]:
        return [self._side(o.b, self.row if o.across else self.column, o.n) for o in self.chain.outer]

    def _side(self, value: Value, place: Axis, own: tuple[Axis, ...]) -> Factor:
        return side_of(value, self.chain.accum, self.outer, place, own)

    @cached_property
    def across(self) -> list[Outer]:
        return [o for o in self.chain.outer if o.across]

    @cached_property
    def along(self) -> list[Outer]:
        return [o for o in self.chain.outer if not o.across]

    def side(self, o: Outer) -> Factor:
        return self.outer_sides[self.chain.outer.index(o)]

    @cached_property
    def column_sides(self) -> list[Factor]:
        """The distinct factors along the columns."""
        return list(dict.fromkeys([*self.inner_columns, *(self.side(o) for o in self.along)]))

    @cached_property
    def turned_sides(self) -> list[Factor]:
        """The distinct factors of inner products along the rows; they are transposed."""
        return list(dict.fromkeys(self.inner_rows))

    @cached_property
    def plain_sides(self) -> list[Factor]:
        """The distinct factors of sums over the rows."""
        return list(dict.fromkeys([self.side(o) for o in self.across]))

    def packed(self, side: Factor) -> bool:
        """Return whether a factor is copied, because its format is not that of the accumulators."""
        return side.buffer.dtype is not self.chain.accum

    @cached_property
    def values(self) -> list[Value]:
        """The distinct left factors of outer products, in the order of their tiles."""
        return list({id(o.value): o.value for o in self.chain.outer}.values())

    def tile(self, value: Value) -> int:
        return next(k for k, v in enumerate(self.values) if v is value)

    @property
    def tiles(self) -> int:
        return max(len(self.chain.inner), len(self.values))

    def padded(self, n: int) -> int:
        return -(-n // self.lanes) * self.lanes


