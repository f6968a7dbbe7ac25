"""Products of a few rows of int8 and a matrix of packed 4-bit elements, summed in int32.

Elements lie in runs of 32: the first 16 are the low halves of 16 bytes, the others the high ones. A register of bytes of one row
of the matrix is masked and shifted to two registers of elements, each of which takes one vpdpbusd (without VNNI vpmaddubsw and
vpmaddwd) for each row of int8, whose registers are loaded once for all rows of a tile.

The matrix is bound by memory. So the outer loops, which are the blocks of rows in quantized weights, run inside of a tile, whose
rows are read from end to end. int32 sums wrap, so their order does not matter.
"""

from __future__ import annotations

from contextlib import ExitStack

from weft.devices.cpu.emit.chunks import share
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.text import Function, Generated, Module
from weft.devices.cpu.product.epilogue import Epilogue
from weft.devices.cpu.product.gemv import PARALLEL_BYTES, add_chains
from weft.dtypes.formats import INT8
from weft.kernel.ir import Kernel
from weft.kernel.product import Product

HALF = 16  # bytes of a run
PREFETCH_BYTES = 1024
UNIT_BYTES = 1 << 16


def generate_packed_product(kernel: Kernel, product: Product, isa: ISA) -> Generated | None:
    """Return the LLVM text of a product with a packed operand, None if it lies otherwise or the CPU lacks the instruction."""
    p = product if product.b.nibbles else product.transpose()
    runs = p.k_outer[:-1]
    fits = (
        p.k == HALF and p.b.k == 1 and p.a.k == 1 and p.a.buffer.dtype is INT8 and not p.a.nibbles and p.n is not None
        and len(runs) <= 1 and p.a.k_outer == (*(2 * HALF,) * len(runs), HALF) and p.b.k_outer == (*(HALF,) * len(runs), 0)
    )
    if not fits or isa.dot not in ("vnni", "madd") or isa.bits < 256 or p.tallies:
        return None
    return _Driver(kernel, p, isa).generate()


class _Driver:
    def __init__(self, kernel: Kernel, p: Product, isa: ISA) -> None:
        self.kernel, self.p, self.isa = kernel, p, isa
        self.module = Module()
        self.symbol = kernel.name
        self.lanes = isa.lanes(4)  # rows of the matrix in a tile
        self.runs = p.k_outer[0] if len(p.k_outer) > 1 else 1
        # runs read at once: as many as divide the sum and fill a register
        self.step = next(n for n in (4, 2, 1) if self.runs % n == 0 and 4 * n <= self.lanes)
        self.chains = 4 * self.step
        # rows of the matrix whose sums stay in registers
        self.together = next(n for n in (16, 8, 4, 2, 1) if n * p.rows <= isa.registers * 3 // 4 or n == 1)
        self.extra = ", ptr %args" + "".join(f", i64 %o{n}" for n in range(len(p.outer)))
        self.tail = p.columns % self.lanes
        self.groups = -(-p.columns // self.lanes)
        matrix = p.columns * self.runs * HALF * p.batch
        self.units = max(1, min(self.groups, matrix // UNIT_BYTES))
        self.chunks = min(self.units, max(8, matrix >> 21), 4096) if matrix >= PARALLEL_BYTES else 1

    def generate(self) -> Generated:
        self.module.took("product of packed integers")
        epilogue = Epilogue(self.module, self.kernel, self.p, self.isa, self.symbol)
        vectors = ", ".join(f"<{self.lanes} x i32> %acc{m}" for m in range(self.p.rows))
        for live in {0} | {self.tail}:
            f = self.module.function(
                f"define internal void @{self._name('store', live)}({vectors}, i64 %i, i64 %j{self.extra})"
            )
            epilogue.emit(f, [[f"%acc{m}"] for m in range(self.p.rows)], live)
        for tail in ([0] if self.p.columns >= self.lanes else []) + ([self.tail] if self.tail else []):
            self._emit_tile(tail)
        self._emit_unit()
        self.module.vectors = True
        return epilogue.run_units(self.units, self.chunks, 0)

    def _name(self, part: str, tail: int) -> str:
        return f"{self.symbol}.{part}{tail or ''}"

    def _emit_tile(self, tail: int) -> None:
        """Emit ``tile(a, b, j)``: the results of a vector of rows of the matrix, for all outer indices."""
        p, size = self.p, 4 * self.chains
        f = self.module.function(f"define internal void @{self._name('tile', tail)}(ptr %A, ptr %B, i64 %j, ptr %args)")
        vec, rows = f"<{self.chains} x i32>", tail or self.lanes
        cells = [[f.local(vec, size) for _ in range(p.rows)] for _ in range(rows)]
        with ExitStack() as loops:
            outer = [loops.enter_context(f.loop(0, axis.extent)) for axis in p.outer]
            a, b = (
                f.offset(base, f.dot(0, [(o, step) for o, step in zip(outer, operand.outer, strict=True)]))
                for base, operand in (("%A", p.a), ("%B", p.b))
            )
            f.clear(vec, [cell for row in cells for cell in row], size)
            for first in range(0, rows, self.together):
                with f.loop(0, self.runs, self.step) as run:
                    at = f.offset(b, f.add(f.mul(run, HALF), first * p.b.free))
                    self._add(f, f.offset(a, f.mul(run, 2 * HALF)), at, cells[first : first + self.together])
            totals = []
            for m in range(p.rows):
                sums = [f.load(vec, row[m], size) for row in cells] + ["zeroinitializer"] * (self.lanes - rows)
                totals.append(f"<{self.lanes} x i32> {add_chains(f, sums, self.chains, 'i32')}")
            places = "ptr %args" + "".join(f", i64 {o}" for o in outer)
            f.do(f"call void @{self._name('store', tail)}({', '.join(totals)}, i64 0, i64 %j, {places})")

    def _add(self, f: Function, a: str, b: str, cells: list[list[str]]) -> None:
        """Add the products of ``step`` runs from ``a`` and ``b`` on to the cells of all rows of a tile."""
        p, vec, size = self.p, f"<{self.chains} x i32>", 4 * self.chains
        xs = []
        for m in range(p.rows):
            x = f.load(f"<{2 * self.chains} x i32>", f.offset(a, m * p.a.free), 1)
            xs.append([
                f.shuffle(f"<{2 * self.chains} x i32>", x, "poison", [8 * (c // 4) + c % 4 + half for c in range(self.chains)])
                for half in (0, 4)
            ])
        for n, row in enumerate(cells):
            at = f.offset(b, n * p.b.free)
            w = f.load(vec, at, 1)
            self.module.prefetch(f, f.offset(at, PREFETCH_BYTES))
            low = f.let(f"and {vec} {w}, splat (i32 252645135)")
            high = f.let(f"and {vec} {f.let(f'lshr {vec} {w}, splat (i32 4)')}, splat (i32 252645135)")
            for m, cell in enumerate(row):
                acc = f.load(vec, cell, size)
                for part, x in zip((low, high), xs[m], strict=True):
                    acc = self._dot(f, acc, part, x)
                f.store(vec, acc, cell, size)

    def _dot(self, f: Function, acc: str, unsigned: str, signed: str) -> str:
        vec, bits = f"<{self.chains} x i32>", 32 * self.chains
        if self.isa.dot == "vnni":
            name = f"llvm.x86.avx512.vpdpbusd.{bits}"
            self.module.declare(name, f"declare {vec} @{name}({vec}, {vec}, {vec})")
            return f.let(f"call {vec} @{name}({vec} {acc}, {vec} {unsigned}, {vec} {signed})")
        octets, halves = f"<{bits // 8} x i8>", f"<{bits // 16} x i16>"
        pairs, quads = _MADD[bits]
        self.module.declare(pairs, f"declare {halves} @{pairs}({octets}, {octets})")
        self.module.declare(quads, f"declare {vec} @{quads}({halves}, {halves})")
        x, y = (f.let(f"bitcast {vec} {v} to {octets}") for v in (unsigned, signed))
        sums = f.let(f"call {halves} @{pairs}({octets} {x}, {octets} {y})")  # at most 2 * 15 * 128: no saturation
        return f.let(f"add {vec} {acc}, {f.let(f'call {vec} @{quads}({halves} {sums}, {halves} splat (i16 1))')}")

    def _emit_unit(self) -> None:
        f = self.module.function(f"define internal void @{self.symbol}.unit(ptr %args, i64 %unit, ptr %work)")
        first, stop = share(f, "%unit", self.groups, self.units)
        p, whole = self.p, self.p.columns // self.lanes
        a, b = (f.offset(f.argument(x.buffer.id), x.const) for x in (p.a, p.b))
        if whole:
            with f.loop(first, f.minimum(stop, whole)) as v:
                self._call_tile(f, 0, a, b, f.mul(v, self.lanes))
        if self.tail:
            with f.when(f.let(f"icmp sgt i64 {stop}, {whole}", "c")):
                self._call_tile(f, self.tail, a, b, str(whole * self.lanes))

    def _call_tile(self, f: Function, tail: int, a: str, b: str, j: str) -> None:
        at = f.offset(b, f.mul(j, self.p.b.free))
        f.do(f"call void @{self._name('tile', tail)}(ptr {a}, ptr {at}, i64 {j}, ptr %args)")


_MADD = {
    128: ("llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd"),
    256: ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"),
    512: ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
}
