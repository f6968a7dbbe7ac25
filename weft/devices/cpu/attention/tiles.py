"""The products of a chain on one tile, a block of columns and a panel of rows: calls of the product microkernel.

Scores are stored as [columns][rows], so vectors run along the rows: factors along the columns are read in place as scalars, a
softmax over columns needs no operation across lanes, and only factors along the rows are transposed, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from weft.devices.cpu.attention.tiling import TILE_ROWS, ChainTiling
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.product.microkernel import MicrokernelSpec, Tile, emit_microkernel

MAX_ADDITION_CHAIN = 128  # consecutive additions to one accumulator
MAX_TILE_VECTORS = 4  # vectors that one call of the microkernel computes side by side


class TileProduct(NamedTuple):
    """The product ``t[rows][vectors] = a[rows][k] @ b[k][vectors]`` of one tile. Strides are in elements.

    a_row, a_k : strides of a along its rows and along k
    b_k, t_row : strides of b along k, and of t along its rows
    mode : ``set`` overwrites t, ``add`` adds to t, ``shrink`` multiplies t by a vector of factors and then adds
    """

    rows: int
    vectors: int
    k: int
    a_row: int
    a_k: int
    b_k: int
    t_row: int
    mode: str


class Tiles:
    """Products of tiles, as functions that are emitted on first use."""

    def __init__(self, m: Module, plan: ChainTiling, symbol: str) -> None:
        self.m, self.plan, self.symbol = m, plan, symbol
        self.functions: dict[TileProduct, str] = {}

    def product(self, f: Function, p: TileProduct, a: str, b: str, t: str, shrink: str = "null") -> None:
        """Emit a product of the tiles at the addresses a, b and t. shrink: address of the factors of mode ``shrink``."""
        size, lanes, rows, vectors = self.plan.size, self.plan.lanes, p.rows, p.vectors
        for first in range(0, vectors, MAX_TILE_VECTORS):
            count = min(MAX_TILE_VECTORS, vectors - first)
            tall = TILE_ROWS if count * TILE_ROWS + count + 1 <= self.plan.isa.registers else max(1, 12 // count)
            start, into = f.offset(b, first * lanes * size), f.offset(t, first * lanes * size)
            factors = f.offset(shrink, first * lanes * size) if p.mode == "shrink" else "null"
            whole = rows // tall * tall

            def call(
                height: int, row: str | int, count: int = count, start: str = start, into: str = into, factors: str = factors,
            ) -> None:
                name = self._micro(p._replace(rows=height, vectors=count))
                x, y = f.offset(a, f.mul(row, p.a_row * size)), f.offset(into, f.mul(row, p.t_row * size))
                f.do(f"call void @{name}(ptr {x}, ptr {start}, ptr {y}, ptr {factors}, i64 0, i64 0, i64 0, i64 0)")

            if whole == tall:
                call(tall, 0)
            elif whole:
                with f.loop(0, whole, tall) as row:
                    call(tall, row)
            if rows > whole:
                call(rows - whole, whole)

    def _micro(self, p: TileProduct) -> str:
        """Return the name of the function that computes ``p`` in registers, emitting it on first use."""
        if p not in self.functions:
            name = self.functions[p] = f"{self.symbol}.tile{len(self.functions)}"
            plan = self.plan
            micro = MicrokernelSpec(
                name, p.rows, p.vectors, plan.lanes, plan.scalar, p.a_row, p.a_k, p.b_k, p.k, MAX_ADDITION_CHAIN,
                align=plan.lanes * plan.size, fma=plan.isa.fma,
            )
            emit_microkernel(self.m, micro, "", self._finish(micro, p.t_row, p.mode))
        return self.functions[p]

    def _finish(self, micro: MicrokernelSpec, t_row: int, mode: str) -> Callable[[Function, Tile], None]:
        vec, width = micro.vector, micro.lanes * micro.size

        def finish(f: Function, tile: Tile) -> None:
            for r, row in enumerate(tile):
                for v, x in enumerate(row):
                    at = f.offset("%T", r * t_row * micro.size + v * width)
                    if mode != "set":
                        old = f.load(vec, at, width)
                        if mode == "shrink":
                            old = f.let(f"fmul {vec} {old}, {f.load(vec, f.offset('%P', v * width), width)}")
                        x = f.let(f"fadd {vec} {old}, {x}")
                    f.store(vec, x, at, width)

        return finish
