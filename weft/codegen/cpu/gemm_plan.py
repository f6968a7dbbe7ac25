"""How a product is cut: tile, blocks, what is packed, what a worker takes. Functions of extents and ISA only."""

from __future__ import annotations

from dataclasses import dataclass

from weft.codegen.cpu.gemm_match import Product
from weft.codegen.cpu.isa import ISA

SERIAL_FLOPS = 2_000_000  # about 20 us on one core
CHUNK_FLOPS = 500_000


@dataclass(frozen=True, slots=True)
class Plan:
    """rows, vectors: the tile. kc: k steps a block. m_units, n_units: the grid of work units in one product.

    panels: tile rows are balanced: ``tall`` panels of ``rows`` rows, then panels of ``rows - 1``.
    chunks: 0 for a serial kernel.
    """

    rows: int
    vectors: int
    lanes: int
    pack_a: bool
    pack_b: bool
    copy_b: bool  # the first tile of a panel reads b in place and stores the panel
    kc: int
    k_blocks: int
    panels: int
    tall: int
    columns: int  # column panels, the last may be narrow
    m_units: int
    n_units: int
    chunks: int

    @property
    def nr(self) -> int:
        return self.vectors * self.lanes


def tile_shapes(registers: int) -> list[tuple[int, int]]:
    """(rows, vectors) whose accumulators, one held side and one streaming register fit."""
    out = []
    for rows in range(1, 16):
        for vectors in range(1, 13):
            if rows * vectors + min(rows, vectors) + 1 <= registers:
                out.append((rows, vectors))
    return out


def tile_cost(rows: int, vectors: int, k: int) -> float:
    """Cycles of one tile: two fma and two loads a cycle, four cycles of latency."""
    return k * max(rows * vectors / 2, (rows + vectors) / 2 + 0.25, 4.0) + 12 + rows * vectors


def choose_tile(m: int, n: int, k: int, lanes: int, registers: int) -> tuple[int, int]:
    best, best_cost = (1, 1), float("inf")
    for rows, vectors in tile_shapes(registers):
        if rows > m or (vectors - 1) * lanes >= n:
            continue
        panels = -(-m // rows)
        tall = m - panels * (-(-m // panels) - 1)
        high = -(-m // panels)
        full, rest = divmod(n, vectors * lanes)
        last = -(-rest // lanes)
        cost = 0.0
        for count, height in ((tall, high), (panels - tall, high - 1)):
            cost += count * full * tile_cost(height, vectors, k)
            cost += count * (tile_cost(height, last, k) if rest else 0.0)
        if cost < best_cost * 0.999:
            best, best_cost = (rows, vectors), cost
    return best


def should_swap(p: Product, lanes: int) -> bool:
    """Vectorise along m? The result is stored along n, so only where n is too short for a vector."""
    return p.columns < lanes and p.rows > p.columns


def make_plan(p: Product, isa: ISA, tile=None, pa=None, pb=None, kcx=None, mcx=None, ncx=None) -> Plan:
    size = p.accum.itemsize
    lanes = isa.lanes(size)
    m, n, k = p.rows, p.columns, p.k
    rows, vectors = choose_tile(m, n, min(k, 256), lanes, isa.registers)
    if tile:
        rows, vectors = tile
    nr = vectors * lanes
    flops = 2 * m * n * k * p.batch

    same_a, same_b = p.a.buffer.dtype == p.accum, p.b.buffer.dtype == p.accum
    fits = (m * k + k * n) * size <= isa.l2 and 2 * m * n * k <= 20_000_000
    pack_b = not same_b or (n > 1 and p.b.free != 1) or not fits
    pack_a = not same_a or not fits
    if fits and k <= 4096 // size * 4:
        kc = k
    else:
        kc = max(32, isa.l1 // 2 // (nr * size))
        kc = -(-k // -(-k // kc))  # balanced
        kc = min(k, -(-kc // 8) * 8)
    if pa is not None:
        pack_a = pa
    if pb is not None:
        pack_b = pb
    if kcx:
        kc = min(kcx, k)
    panels = -(-m // rows)
    rows = -(-m // panels)
    tall = m - panels * (rows - 1)
    columns = -(-n // nr)

    m_units = n_units = 1
    if not fits:
        mc = max(rows, int(isa.l2 * 0.4) // (kc * size))
        m_units = max(1, round(m / mc + 0.3))
        n_units = max(1, round(n / 512))
    if mcx:
        m_units = -(-m // mcx)
    if ncx:
        n_units = -(-n // ncx)
    wanted = min(8, flops // CHUNK_FLOPS) if flops > SERIAL_FLOPS else 1
    while m_units * n_units * p.batch < wanted:
        # split the longer side; packing costs a share of the other operand each time
        tall_unit, wide_unit = m / m_units, n / n_units
        if tall_unit >= wide_unit and m_units * 2 <= panels:
            m_units *= 2
        elif n_units * 2 <= columns:
            n_units *= 2
        elif m_units * 2 <= panels:
            m_units *= 2
        else:
            break
    m_units, n_units = min(m_units, panels), min(n_units, columns)
    copy_b = pack_b and same_b and (p.b.free == 1 or n == 1)
    units = m_units * n_units * p.batch
    chunks = 0
    if flops > SERIAL_FLOPS and units > 1:
        chunks = min(units, max(8, flops // 10_000_000), 4096)
    return Plan(rows, vectors, lanes, pack_a, pack_b, copy_b, kc, -(-k // kc), panels, tall, columns, m_units, n_units, chunks)
