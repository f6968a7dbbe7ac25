"""The plan of a product: tile, blocks, packing, work units. It depends on extents and ISA only."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from weft.devices.cpu.emit.isa import ISA, LINE
from weft.dtypes.formats import FLOATS
from weft.kernel.product import Product
from weft.kernel.stages import work

SERIAL_FLOPS = 2_000_000  # about 20 us on one core. An instruction of a vector counts as a multiply-add
CHUNK_FLOPS = 1_500_000
STREAM_CACHES = 4  # an operand of more bytes than so many L2 caches is read from memory


@dataclass(frozen=True, slots=True)
class ProductPlan:
    """rows, vectors: the tile. kc: k steps per call of the microkernel. m_units, n_units: the grid of work units in one product.

    panels: tile rows are balanced: ``tall`` panels of ``rows`` rows, then panels of ``rows - 1``.
    chunks: 0 for a serial kernel. by_rows: whether a unit is one panel of rows, whose results are stored row by row.
    prefetch_a, prefetch_b: whether the next rows of a, or columns of b, are prefetched from memory while a tile is computed.
    """

    rows: int
    vectors: int
    lanes: int
    pack_a: bool
    pack_b: bool
    copy_b: bool  # the first tile of a panel reads b in place and stores the panel
    turn_b: bool  # b is transposed in registers
    kc: int
    panels: int
    tall: int
    columns: int  # column panels, the last may be narrow
    m_units: int
    n_units: int
    chunks: int
    by_rows: bool = False
    prefetch_a: bool = False
    prefetch_b: bool = False

    @property
    def nr(self) -> int:
        return self.vectors * self.lanes


def tile_cost(rows: int, vectors: int, k: int) -> float:
    """Estimate the cycles of one tile: two fma and two loads a cycle, four cycles of latency."""
    return k * max(rows * vectors / 2, (rows + vectors) / 2 + 0.25, 4.0) + 12 + rows * vectors


def choose_tile(m: int, n: int, k: int, lanes: int, registers: int, unit: int = 1) -> tuple[int, int]:
    """Return the tile of least cost, the tallest of equals: narrow panels of b stay in the nearest cache.

    unit: the vectors are a multiple of it unless n is narrower.
    """
    best, best_cost = (1, 1), float("inf")
    for rows, vectors in itertools.product(range(15, 0, -1), range(12, 0, -1)):
        # the accumulators, one fixed side and one streaming register
        if rows * vectors + min(rows, vectors) + 1 > registers or rows > m or (vectors - 1) * lanes >= n:
            continue
        if vectors % unit and vectors * lanes < n:
            continue
        panels = -(-m // rows)
        high = -(-m // panels)
        tall = m - panels * (high - 1)
        full, rest = divmod(n, vectors * lanes)
        last = -(-rest // lanes)
        cost = 0.0
        for count, height in ((tall, high), (panels - tall, high - 1)):
            cost += count * full * tile_cost(height, vectors, k)
            cost += count * (tile_cost(height, last, k) if rest else 0.0)
        if cost < best_cost * 0.985:
            best, best_cost = (rows, vectors), cost
    return best


def should_swap(p: Product, lanes: int) -> bool:
    """Return whether to vectorise along m.

    That is better if the results are contiguous along m, if n is too short for a vector, or if b would be transposed for a few
    rows that fill a vector themselves: then the rows are transposed, and b is read one element at a time. It is also better if a
    is far larger than b and contiguous along m, while b is along n: then a is copied in vectors instead of a few elements.

    If a is contiguous along k, it would be transposed, and so would the results: then vectors of which n fills a quarter are
    better. With 10 columns they take half the time.
    """
    along_m, along_n = (sum((a.id, 1) in s.access.index[0].terms for s in p.stores) if a else 0 for a in (p.m, p.n))
    if p.rows >= lanes and along_m > along_n:
        return True
    if p.rows in (lanes, 2 * lanes) and p.columns >= 2 * p.rows and p.b.k == 1 and p.b.free not in (0, 1):
        return not p.b.needs_conversion(p.accum)
    if p.a.free == p.b.free == 1 and p.columns >= lanes and p.rows >= 20 * p.columns and p.k >= 64:
        return len(p.stores) == 1 and p.stores[0].value.op == "acc"  # other operands and results are contiguous along n
    return p.columns < (lanes if p.a.k != 1 or p.a.free == 1 else lanes // 4) and p.rows > p.columns


def make_plan(
    p: Product, isa: ISA, *, tile: tuple[int, int] | None = None, pack_a: bool | None = None, pack_b: bool | None = None,
    kc: int | None = None, unit_rows: int | None = None, unit_columns: int | None = None,
) -> ProductPlan:
    """Return the plan of a product. Keyword arguments replace choices (tests, measurements)."""
    size = p.accum.bytes
    lanes = isa.lanes(size)
    m, n, k = p.rows, p.columns, p.k
    # k is so short that storing the results dominates: wide tiles store them row by row, in parts whose columns of b stay in L2
    by_rows = tile is None and k <= 16 and m > 4 and m * n * size > isa.l2 // 2 and n >= 32 * lanes and p.b.free == 1
    by_rows = by_rows and not p.b.needs_conversion(p.accum) and p.k_iterations == 1
    if by_rows:
        tile, pack_b = (4, 3), False
    prefetch_a = prefetch_b = False
    if (tile, pack_a, pack_b, kc) == (None, None, None, None) and isa.registers >= 32:
        prefetch_a, prefetch_b = _streams_rows(p, isa), _streams_columns(p, isa)
        if prefetch_a:  # more than 8 rows, if far apart, would share cache sets with each other
            tile, pack_a, kc = (8, 1), False, 512
        elif prefetch_b:
            tile, pack_b, kc = (8, 3), False, 64
    # whole cache lines of bytes: on one core of a Cascade Lake 5 to 10 % faster, with 96 rows of a 40 %
    integers = p.accum not in FLOATS
    unit = LINE // lanes if integers and isa.registers * lanes >= 4 * LINE else 1
    rows, vectors = tile or choose_tile(m, n, min(k, 256), lanes, isa.registers, unit)
    if not tile and m <= 2 and p.b.free != 1 and p.b.k == 1:
        vectors = min(vectors, 4)
    panels = -(-m // rows)
    rows = -(-m // panels)
    nr = vectors * lanes
    columns = -(-n // nr)

    same_a, same_b = (not side.needs_conversion(p.accum) for side in (p.a, p.b))
    in_cache = (m * k + k * n) * size <= 2 * isa.l2 and k <= 1024
    unit_b = p.b.free == 1 or n == 1
    b_is_small = k * n * size <= isa.l2 // 8
    if pack_b is None:
        # a few tiles read b in place, unless its rows share a cache set
        few_tiles = panels <= 10 and (p.b.k * size) % 1024
        pack_b = panels > 1 and not few_tiles and not b_is_small
    # b is reused so little that it is transposed in registers, not in memory
    turn_b = not pack_b and same_b and p.b.k == 1 and not unit_b and p.b.free != 0 and panels == 1 and rows <= 2
    pack_b = not turn_b and (pack_b or not same_b or not unit_b)
    if kc is None:
        kc = k
        if pack_b and not in_cache:
            panel_bytes = isa.l1 // 2 if panels <= 4 else max(isa.l1 // 2, isa.l2 // 16)  # that tiles reuse
            if integers and panels > 32:  # four times less work for each stored sum than with floats
                panel_bytes = max(panel_bytes, isa.l2 // 8)
            kc = max(32, panel_bytes // (nr * size))
        elif not (pack_b or turn_b or b_is_small) and k * min(n, nr) * size > isa.l1 // 2:
            # as many rows of b as the nearest cache holds; a single tile row sweeps whole rows of b
            kc = 128 if panels > 1 or rows > 3 else 16 if rows > 1 else 8
    block = p.order.block
    if block <= kc < k:  # 2**n blocks
        kc = block << (kc // block).bit_length() - 1
    elif kc < k and p.accumulator is not None and p.accumulator.every > 1:
        kc = block
    elif kc < k:  # equal parts of a block, in whole turns of the k loop
        kc = _ceil_div(_ceil_div(block, _ceil_div(block, kc)), 8) * 8
    kc = min(kc, k)

    m_units = _ceil_div(m, unit_rows) if unit_rows else 1
    n_units = _ceil_div(n, unit_columns) if unit_columns else 1
    if not unit_rows and not in_cache:
        # units read in place stream from memory beside a tile's arithmetic; packing b for more rows gains more
        share = 2.0 if integers and same_a else 0.4
        m_units = max(1, round(m / max(rows, int(isa.l2 * share) // (kc * size)) + 0.3))
    if not unit_columns and not in_cache and pack_b:
        n_units = max(1, round(n / 512))
    elif not unit_columns and kc < k:  # tiles stay in the cache between k blocks
        n_units = _ceil_div(m * n * size, isa.l2 // 4)
    sweeps = panels == 1 and kc < min(k, 17)
    flops = 2 * m * columns * nr * p.batch * (k * p.k_iterations + work((p.stores, p.tallies)))  # with those of unused lanes
    m_units, n_units = _split_units(p, flops, panels, columns, min(m_units, panels), min(n_units, columns), sweeps)
    if by_rows:
        m_units, n_units = panels, min(columns, _ceil_div(k * n * size, isa.l2 // 2))
    if prefetch_a:  # equal shares for a few threads
        m_units = min(panels, _ceil_div(m_units, 8) * 8)
    elif prefetch_b:
        n_units = min(columns, _ceil_div(n_units, 8) * 8)
    if pack_a is None:
        # rows that are close in memory, or used by only a few columns of tiles, are read in place
        in_place = p.a.k == 1 and p.a.free * size % 1024 and (abs(p.a.free) * size < 2048 or _ceil_div(columns, n_units) <= 4)
        pack_a = not integers and not in_cache and columns > 1 and panels > 10 and not in_place  # integers: few rows
    # rows of a that are read along k would share cache sets with each other
    pack_a = pack_a or not same_a or (by_rows and p.a.k != 1)
    units = m_units * n_units * p.batch
    chunks = 0
    if flops > SERIAL_FLOPS and units > 1:
        chunks = min(units, max(8, flops // 10_000_000), 4096)
    return ProductPlan(
        rows=rows, vectors=vectors, lanes=lanes, pack_a=pack_a, pack_b=pack_b,
        copy_b=pack_b and same_b and unit_b and not integers, turn_b=turn_b, kc=kc, panels=panels,
        tall=m - panels * (rows - 1), columns=columns, m_units=m_units, n_units=n_units, chunks=chunks,
        by_rows=by_rows, prefetch_a=prefetch_a, prefetch_b=prefetch_b,
    )


def _streams_rows(p: Product, isa: ISA) -> bool:
    """Return whether a is read from memory once, row by row, for at most a vector of columns: as fast as memory allows."""
    size, plain = p.accum.bytes, p.accum in FLOATS and p.accumulator is None and not p.a.needs_conversion(p.accum)
    large = p.rows >= 64 and p.rows * p.k * size > STREAM_CACHES * isa.l2
    return plain and large and p.a.k == 1 and p.k_iterations == 1 and isa.lanes(size) // 2 < p.columns <= isa.lanes(size)


def _streams_columns(p: Product, isa: ISA) -> bool:
    """Return whether b is read from memory for at most two panels of rows; its lines are spread over its columns."""
    size, plain = p.accum.bytes, p.accum in FLOATS and p.accumulator is None and not p.b.needs_conversion(p.accum)
    large = p.columns >= 32 * isa.lanes(size) and p.columns * p.k * size > STREAM_CACHES * isa.l2
    return plain and large and p.b.free == 1 and p.k >= 64 and p.k_iterations == 1 and 4 <= p.rows <= 16


def _split_units(
    p: Product, flops: int, panels: int, columns: int, m_units: int, n_units: int, sweeps: bool,
) -> tuple[int, int]:
    """Return the grid of units, split until a few threads have work. ``sweeps``: reading whole rows of b is faster."""
    grain = 10 * CHUNK_FLOPS if sweeps else CHUNK_FLOPS
    target = min(8, flops // grain) if flops > SERIAL_FLOPS else 1
    pack_factor = 4 if p.b.k == 1 and p.b.free != 1 else 1  # transposing b costs as much as four copies
    while m_units * n_units * p.batch < target:
        # split the longer side; each split packs a part of the other operand again
        if m_units * 2 <= panels and (p.rows * n_units >= p.columns * m_units * pack_factor or n_units * 2 > columns):
            m_units *= 2
        elif n_units * 2 <= columns:
            n_units *= 2
        else:
            break
    return m_units, n_units


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
