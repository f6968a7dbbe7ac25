"""LLVM text of a chain of products, such as attention. Work is divided into units of rows and blocks of columns; all products of
the chain are computed on one tile before the next.

Each worker holds only one tile of the intermediate matrix at a time. Columns are visited in ascending blocks, so sums over
columns do not depend on units or threads. Sums over rows (gradients of keys and values) are computed per unit in the order of
its rows and joined in the order of the units; extents alone determine the units. A tile that the mask
excludes is skipped; its sums become NaN where its zeros would have met infinite or NaN elements.

The products on one tile are calls of the product microkernel. Scores are stored as [columns][rows], so vectors run along the
rows: factors along the columns are read in place as scalars, a softmax over columns needs no operation across lanes, and only
factors along the rows are transposed, once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

from weft.devices.cpu.attention.middle import IntermediateTile
from weft.devices.cpu.attention.tiling import SERIAL_FLOPS, TILE_ROWS, ChainTiling, Factor, SharedScratch, WorkerScratch
from weft.devices.cpu.emit.check import record_slot
from weft.devices.cpu.emit.chunks import count_entry, divide, run_chunks, share
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.text import Function, Generated, Module
from weft.devices.cpu.product.microkernel import MicrokernelSpec, Tile, emit_microkernel
from weft.devices.cpu.product.pack import Packer
from weft.dtypes.formats import Format
from weft.kernel.ir import Chain, Kernel, Outer

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
            emit_microkernel(self.m, [micro], "", self._finish(micro, p.t_row, p.mode))
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


def generate_chain(kernel: Kernel, isa: ISA) -> Generated:
    """Return LLVM text of a kernel whose only stage is a chain of products."""
    ((stage,),) = (phase.stages for phase in kernel.phases)
    if not isinstance(stage, Chain):
        raise ValueError(f"kernel {kernel.name} is not a single chain of products")
    return _ChainEmitter(kernel, ChainTiling(stage, isa)).generate()


class _ChainEmitter:
    """The emitter of all functions of one kernel."""

    def __init__(self, kernel: Kernel, plan: ChainTiling) -> None:
        self.kernel, self.plan = kernel, plan
        self.m = Module()
        self.symbol = f"weft_{kernel.name}"
        self.worker_scratch, self.shared = WorkerScratch(plan), SharedScratch(plan)
        self.tiles = Tiles(self.m, plan, self.symbol)
        self.middle = IntermediateTile(self.m, kernel, plan, self.worker_scratch)
        self.nan_sums = NanSums(self.m, plan, self.symbol)
        self.packs: dict[tuple, str] = {}
        self.outer = "".join(f", i64 %o{n}" for n in range(len(plan.outer)))
        self.rest_rows, self.rest_columns = plan.rows % plan.panel_rows, plan.columns % plan.block
        self.heights = [plan.panel_rows] * (plan.rows >= plan.panel_rows) + [self.rest_rows] * (self.rest_rows > 0)
        self.widths = [plan.block] * (plan.columns >= plan.block) + [self.rest_columns] * (self.rest_columns > 0)

    def generate(self) -> Generated:
        plan, m = self.plan, self.m
        conditions = {
            "chain softmax": plan.chain.softmax is not None, "chain across": bool(plan.row_sums),
            "chain packs": bool(
                self.worker_scratch.packed_offsets
            ), "chain skips": bool(plan.chain.guards), "chain panels": plan.panels > 1,
            "chain last rows": self.rest_rows > 0, "chain last columns": self.rest_columns > 0,
            "chain splits": plan.splits > 1, "chain turns": plan.row_iterations > 1,
        }
        for path in ("chain", *(path for path, holds in conditions.items() if holds)):
            m.took(path)
        for live in self.heights:
            for count in self.widths:
                self._emit_tile(live, count)
            self._emit_rows(live)
        self._emit_unit()
        if plan.row_sums:
            self._emit_join()
        f = m.function(f"define void @{self.symbol}(ptr %args)")
        count_entry(m, f)
        parallel = plan.flops > SERIAL_FLOPS
        if plan.batch * plan.splits:
            run_chunks(m, f, f"@{self.symbol}.unit", plan.batch * plan.splits, parallel)
        if plan.row_sums and plan.batch * plan.columns:
            run_chunks(m, f, f"@{self.symbol}.join", plan.batch * len(self._column_blocks()), parallel)
        m.vectors = True
        return m.generated(self.symbol, self.shared.bytes, self.worker_scratch.bytes)

    def _column_blocks(self) -> range:
        return range(0, self.plan.columns, self.plan.block)

    # ---- operands

    def _side(self, f: Function, side: Factor, position: str | int) -> str:
        """Return the address of a factor at a row or a column."""
        size = side.buffer.dtype.bytes
        at: str | int = f.add(f.mul(position, side.stride), side.offset)
        at = f.dot(at, ((f"%o{n}", stride) for n, stride in enumerate(side.outer_strides)))
        return f.offset(f.argument(side.buffer.id), f.mul(at, size))

    def _packing(self, make: Callable[..., None], dtype: Format, *arguments: int) -> str:
        """Return the name of a function that ``make``, a method of Packer, emits on first use."""
        key = (make, dtype, *arguments)
        if key not in self.packs:
            name = self.packs[key] = f"{self.symbol}.pack{len(self.packs)}"
            make(Packer(self.m, dtype, self.plan.chain.accum, self.plan.lanes), name, *arguments)
        return self.packs[key]

    def _pack_rows(self, side: Factor, out: int) -> str:
        """Return the name of a function that copies rows or columns, ``out`` elements apart."""
        return self._packing(Packer.rows, side.buffer.dtype, side.stride, side.own_stride, out, 8)

    def _column(self, f: Function, side: Factor) -> tuple[str, int, int]:
        """Return the address of column %j of a factor, the stride between columns, and the stride within a column."""
        if side in self.worker_scratch.packed_offsets:
            return f.offset("%base", self.worker_scratch.packed_offsets[side]), side.extent, 1
        return self._side(f, side, "%j"), side.stride, side.own_stride

    # ---- one tile

    def _tile_name(self, live: int, count: int) -> str:
        return f"{self.symbol}.rows{live}.columns{count}"

    def _emit_tile(self, live: int, count: int) -> None:
        """Emit @name(args, work, base, sums, flag, outer..., i, j): all products of the tile at row %i and column %j.

        work: scratch of the panel; base: scratch of the worker; sums: the sums over the unit's rows; flag: whether a factor along
        the columns has an infinite or NaN element
        """
        plan, room = self.plan, self.worker_scratch
        name = self._tile_name(live, count)
        for masked in (False, True) if plan.chain.guards else (False,):
            own = f"{name}.middle{'.masked' * masked}"
            g = self.m.function(f"define internal void @{own}(ptr %args, ptr %work, ptr %tile{self.outer}, i64 %i, i64 %j)")
            (self.middle.softmax if plan.chain.softmax else self.middle.compute_factors)(g, live, count, masked)
        f = self.m.function(
            f"define internal void @{name}(ptr %args, ptr %work, ptr %base, ptr %sums, i1 %flag{self.outer}, i64 %i, i64 %j)"
        )
        none, every = self.middle.bounds(f, live, count)
        if none is not None:
            with f.when(none):
                self._emit_skipped(f, live, count)
                f.do("ret void")
        vectors = -(-live // plan.lanes)
        tile = f.offset("%base", room.tiles[0])
        for k, (rows, columns) in enumerate(zip(plan.inner_rows, plan.inner_columns, strict=True)):
            start, place, step = self._column(f, columns)
            scores = TileProduct(count, vectors, rows.extent, place, step, plan.panel_rows, plan.panel_rows, "set")
            factor = f.offset("%work", room.transposed_offsets[rows])
            self.tiles.product(f, scores, start, factor, f.offset("%base", room.tiles[k]))
        arguments = f"(ptr %args, ptr %work, ptr {tile}{self.outer}, i64 %i, i64 %j)"
        if every is None:
            f.do(f"call void @{name}.middle{arguments}")
        else:
            with f.when(every):
                f.do(f"call void @{name}.middle{arguments}")
            with f.otherwise():
                f.do(f"call void @{name}.middle.masked{arguments}")
        mode = "shrink" if plan.chain.softmax else "add"
        for o in plan.column_sums:
            side = plan.side(o)
            start, place, step = self._column(f, side)
            sums = TileProduct(side.extent, vectors, count, step, place, plan.panel_rows, plan.panel_rows, mode)
            value = f.offset("%base", room.tiles[plan.tile(o.value)])
            self.tiles.product(f, sums, start, value, f.offset("%work", room.sums_of(o)), f.offset("%work", room.shrink))
        for o in plan.row_sums:
            side, width = plan.side(o), SharedScratch.width(plan, o)
            value, plain = f.offset("%base", room.tiles[plan.tile(o.value)]), f.offset("%work", room.plain_offsets[side])
            sums = TileProduct(count, width // plan.lanes, live, plan.panel_rows, 1, width, width, "add")
            self.tiles.product(f, sums, value, plain, self._sums_at(f, o, "%j"))

    def _sums_at(self, f: Function, o: Outer, column: str | int) -> str:
        return f.offset("%sums", f.add(f.mul(column, SharedScratch.width(self.plan, o) * self.plan.size), self.shared.at[o.id]))

    def _emit_skipped(self, f: Function, live: int, count: int) -> None:
        """Emit the code of a tile that the mask excludes: its elements are 0, so only NaNs, 0 times infinity, are added."""
        plan, room = self.plan, self.worker_scratch
        vectors = -(-live // plan.lanes)
        zeros = f.offset("%base", room.zeros)
        if plan.column_sums:
            with f.when("%flag"):
                for o in plan.column_sums:
                    side = plan.side(o)
                    self.nan_sums.columns(f, side, self._side(f, side, "%j"), count, zeros)
                    self.nan_sums.add_down(f, zeros, f.offset("%work", room.sums_of(o)), side.extent, vectors)
        for o in plan.row_sums:
            side, width = plan.side(o), SharedScratch.width(plan, o)
            bad = self.nan_sums.rows(f, f.offset("%work", room.plain_offsets[side]), live, width, zeros)
            with f.when(bad):
                self.nan_sums.add_to_rows(f, zeros, self._sums_at(f, o, "%j"), count, width)

    # ---- rows

    def _emit_rows(self, live: int) -> None:
        """Emit @name(args, base, sums, flag, outer..., i, panels): all columns for %panels panels of rows from %i on."""
        plan, room = self.plan, self.worker_scratch
        f = self.m.function(
            f"define internal void @{self.symbol}.rows{live}(ptr %args, ptr %base, ptr %sums, i1 %flag{self.outer}, i64 %i, "
            f"i64 %panels)"
        )
        with f.loop(0, "%panels") as p:
            self._emit_panel_setup(f, f.offset("%base", f.mul(p, room.panel)), f.add("%i", f.mul(p, plan.panel_rows)), live)
        whole = plan.columns // plan.block
        if whole:
            with f.loop(0, whole * plan.block, plan.block) as j:
                self._emit_columns(f, live, plan.block, j)
        if self.rest_columns:
            self._emit_columns(f, live, self.rest_columns, whole * plan.block)
        if plan.column_sums or plan.chain.stores:
            with f.loop(0, "%panels") as p:
                work, i = f.offset("%base", f.mul(p, room.panel)), f.add("%i", f.mul(p, plan.panel_rows))
                f.do(f"call void @{self.symbol}.rows{live}.done(ptr %args, ptr {work}, ptr %base{self.outer}, i64 {i})")
            self._emit_results(live)

    def _emit_panel_setup(self, f: Function, work: str, i: str, live: int) -> None:
        plan, room, size = self.plan, self.worker_scratch, self.plan.size
        for side, at in room.transposed_offsets.items():
            name = self._packing(Packer.columns, side.buffer.dtype, live, side.stride, side.own_stride, plan.panel_rows)
            f.do(f"call void @{name}(ptr {self._side(f, side, i)}, ptr {f.offset(work, at)}, i64 {side.extent})")
        for side, at in room.plain_offsets.items():
            name = self._pack_rows(side, plan.pad_to_vectors(side.extent))
            f.do(f"call void @{name}(ptr {self._side(f, side, i)}, ptr {f.offset(work, at)}, i64 {live}, i64 {side.extent})")
        for o in plan.column_sums:
            self._emit_fill(f, f.offset(work, room.sums_of(o)), plan.side(o).extent * plan.panel_rows * size, "zeroinitializer")
        if plan.chain.softmax:
            least = "splat (float 0xFFF0000000000000)" if size == 4 else "splat (double 0xFFF0000000000000)"
            self._emit_fill(f, f.offset(work, room.top), plan.panel_rows * size, least)
            self._emit_fill(f, f.offset(work, room.total), plan.panel_rows * size, "zeroinitializer")

    def _emit_fill(self, f: Function, pointer: str, nbytes: str | int, value: str) -> None:
        with f.loop(0, nbytes, self.middle.width) as at:
            f.store(self.middle.vector, value, f.offset(pointer, at), self.middle.width)

    def _emit_columns(self, f: Function, live: int, count: int, j: str | int) -> None:
        plan, room = self.plan, self.worker_scratch
        for side, at in room.packed_offsets.items():
            name = self._pack_rows(side, side.extent)
            f.do(f"call void @{name}(ptr {self._side(f, side, j)}, ptr {f.offset('%base', at)}, i64 {count}, i64 {side.extent})")
        with f.loop(0, "%panels") as p:
            work, i = f.offset("%base", f.mul(p, room.panel)), f.add("%i", f.mul(p, plan.panel_rows))
            arguments = f"ptr %args, ptr {work}, ptr %base, ptr %sums, i1 %flag{self.outer}, i64 {i}, i64 {j}"
            f.do(f"call void @{self._tile_name(live, count)}({arguments})")

    def _emit_results(self, live: int) -> None:
        """Emit @name(args, work, base, outer..., i), which stores the results of a panel."""
        plan, room = self.plan, self.worker_scratch
        f = self.m.function(
            f"define internal void @{self.symbol}.rows{live}.done(ptr %args, ptr %work, ptr %base{self.outer}, i64 %i)"
        )
        if plan.chain.stores:
            self.middle.rows_done(f, live)
        for n, o in enumerate(plan.column_sums):
            extent = plan.side(o).extent  # [own axis][rows] to [rows][own axis]
            name = self._packing(Packer.columns, plan.chain.accum, extent, plan.panel_rows, 1, plan.pad_to_vectors(extent))
            result = f.offset("%base", room.result)
            f.do(f"call void @{name}(ptr {f.offset('%work', room.sums_of(o))}, ptr {result}, i64 {live})")
            each = self._results(n, o)
            f.do(f"call void @{each}(ptr %args, ptr %work, ptr {result}{self.outer}, i64 %i, i64 {live})")

    def _results(self, n: int, o: Outer) -> str:
        """Return the name of a function that stores an outer product's results, emitted on first use."""
        key = ("stores", n, o.sums_rows)
        if key not in self.packs:
            name = self.packs[key] = f"{self.symbol}.pack{len(self.packs)}"
            f = self.m.function(f"define internal void @{name}(ptr %args, ptr %work, ptr %sums{self.outer}, i64 %i, i64 %count)")
            self.middle.results(f, o, "%count")
        return self.packs[key]

    # ---- units

    def _split_outer(self, f: Function, number: str, first: int, stop: int) -> None:
        """Split ``number`` into the indices %o of the outer axes from ``first`` to ``stop``."""
        for n in reversed(range(first, stop)):
            number, index = divide(f, number, self.plan.outer[n].extent)
            f.do(f"%o{n} = add i64 {index}, 0")

    def _emit_unit(self) -> None:
        plan, shared = self.plan, self.shared
        lead = len(plan.chain.batch)
        f = self.m.function(f"define internal void @{self.symbol}.unit(ptr %args, i64 %unit, i64 %worker)")
        scratch = f.argument(record_slot(self.kernel) - 1)
        base = f.offset(scratch, f.add(f.mul("%worker", self.worker_scratch.bytes), shared.bytes))
        batch, split = divide(f, "%unit", plan.splits)
        self._split_outer(f, batch, 0, lead)
        sums = f.offset(scratch, f.mul("%unit", shared.unit))
        if plan.row_sums:
            self._emit_fill(f, sums, shared.unit, "zeroinitializer")
        flag = "false"
        if plan.chain.guards:
            for side in dict.fromkeys(plan.side(o) for o in plan.column_sums):
                zeros = f.offset(base, self.worker_scratch.zeros)
                bad = self.nan_sums.columns(f, side, self._side(f, side, 0), plan.columns, zeros)
                flag = bad if flag == "false" else f.let(f"or i1 {flag}, {bad}")
        lo, hi = share(f, split, plan.row_iterations * plan.strips, plan.splits)
        body = f"ptr %args, i64 %turn, ptr %base, ptr %sums, i1 %flag{''.join(f', i64 %o{n}' for n in range(lead))}"
        with f.loop(lo, hi) as turn:
            arguments = body.replace("%turn", turn).replace("%base", base).replace("%sums", sums).replace("%flag", flag)
            f.do(f"call void @{self.symbol}.turn({arguments})")
        f = self.m.function(f"define internal void @{self.symbol}.turn({body})")
        group, strip = divide(f, "%turn", plan.strips)
        self._split_outer(f, group, lead, len(plan.outer))
        i = f.mul(strip, plan.panels * plan.panel_rows)
        whole = plan.rows // plan.panel_rows
        arguments = f"ptr %args, ptr %base, ptr %sums, i1 %flag{self.outer}"
        first = f.mul(strip, plan.panels)

        both = whole and self.rest_rows
        if whole:
            with f.when(f.let(f"icmp slt i64 {first}, {whole}", "c")) if both else nullcontext():
                count = f.minimum(f.let(f"sub i64 {whole}, {first}"), plan.panels)
                f.do(f"call void @{self.symbol}.rows{plan.panel_rows}({arguments}, i64 {i}, i64 {count})")
        if self.rest_rows:
            with f.otherwise() if both else nullcontext():
                f.do(f"call void @{self.symbol}.rows{self.rest_rows}({arguments}, i64 {whole * plan.panel_rows}, i64 1)")

    def _emit_join(self) -> None:
        """Emit the function that adds the sums of a batch's units and stores the results, a block of columns per chunk."""
        plan, shared = self.plan, self.shared
        lead = len(plan.chain.batch)
        f = self.m.function(f"define internal void @{self.symbol}.join(ptr %args, i64 %chunk, i64 %worker)")
        scratch = f.argument(record_slot(self.kernel) - 1)
        blocks = len(self._column_blocks())
        batch, block = divide(f, "%chunk", blocks)
        self._split_outer(f, batch, 0, lead)
        for n in range(lead, len(plan.outer)):
            f.do(f"%o{n} = add i64 0, 0")
        j = f.mul(block, plan.block)
        count = f.minimum(f.let(f"sub i64 {plan.columns}, {j}"), plan.block)
        start = f.offset(scratch, f.mul(batch, plan.splits * shared.unit))
        vec, width = self.middle.vector, self.middle.width
        for n, o in enumerate(plan.row_sums):
            row = shared.width(plan, o) * plan.size
            first = f.offset(start, f.add(f.mul(j, row), shared.at[o.id]))
            if plan.splits > 1:
                with f.loop(0, f.mul(count, row), width) as at:
                    place = f.offset(first, at)
                    total = f.load(vec, place, width)
                    for k in range(1, plan.splits):
                        total = f.let(f"fadd {vec} {total}, {f.load(vec, f.offset(place, k * shared.unit), width)}")
                    f.store(vec, total, place, width)
            each = self._results(n, o)
            f.do(f"call void @{each}(ptr %args, ptr null, ptr {first}{self.outer}, i64 {j}, i64 {count})")


class NanSums:
    """Emitter of sums of 0 * x over columns or rows, which are NaN if an x is infinite or NaN, and of their addition to other
    sums."""

    def __init__(self, m: Module, plan: ChainTiling, symbol: str) -> None:
        self.m, self.plan, self.symbol = m, plan, symbol
        self.functions: dict[Factor, str] = {}
        self.vector, self.width = f"<{plan.lanes} x {plan.scalar}>", plan.lanes * plan.size

    def columns(self, f: Function, side: Factor, start: str, count: int, out: str) -> str:
        """Write the sums over ``count`` columns from ``start`` on to ``out`` [own axis]. Return whether one of them is NaN."""
        if side not in self.functions:
            name = self.functions[side] = f"{self.symbol}.finite{len(self.functions)}"
            g = self.m.function(f"define internal i1 @{name}(ptr %start, i64 %count, ptr %out)")
            pack = Packer(self.m, side.buffer.dtype, self.plan.chain.accum, self.plan.lanes)
            size = side.buffer.dtype.bytes
            bad = "false"
            for first in range(0, side.extent, self.plan.lanes):
                live = min(self.plan.lanes, side.extent - first)
                cell = g.local(self.vector, self.width)
                g.store(self.vector, "zeroinitializer", cell, self.width)
                with g.loop(0, "%count") as j:
                    at = g.offset("%start", g.mul(j, side.stride * size))
                    if side.own_stride == 1 and live == self.plan.lanes:
                        x = pack.read(g, g.offset(at, first * size), live)
                    else:
                        x = pack.across(g, at, first, side.extent, side.own_stride)
                    self._add(g, cell, g.let(f"fmul {self.vector} {x}, zeroinitializer"))
                bad = self._store_sum(g, cell, g.offset("%out", first * self.plan.size), bad)
            g.do(f"ret i1 {bad}")
        return f.let(f"call i1 @{self.functions[side]}(ptr {start}, i64 {count}, ptr {out})")

    def rows(self, f: Function, start: str, count: int, width: int, out: str) -> str:
        """Write the sums over ``count`` copied rows, ``width`` elements apart, to ``out``. Return whether one of them is NaN."""
        bad = "false"
        for first in range(0, width, self.plan.lanes):
            cell = f.local(self.vector, self.width)
            f.store(self.vector, "zeroinitializer", cell, self.width)
            with f.loop(0, count) as r:
                at = f.add(f.mul(r, width * self.plan.size), first * self.plan.size)
                x = f.load(self.vector, f.offset(start, at), self.width)
                self._add(f, cell, f.let(f"fmul {self.vector} {x}, zeroinitializer"))
            bad = self._store_sum(f, cell, f.offset(out, first * self.plan.size), bad)
        return bad

    def _add(self, f: Function, cell: str, x: str) -> None:
        f.store(self.vector, f.let(f"fadd {self.vector} {f.load(self.vector, cell, self.width)}, {x}"), cell, self.width)

    def _store_sum(self, f: Function, cell: str, out: str, bad: str) -> str:
        total = f.load(self.vector, cell, self.width)
        f.store(self.vector, total, out, self.width)
        one = self.m.any_lane(f, f.let(f"fcmp uno {self.vector} {total}, {total}"), self.plan.lanes)
        return one if bad == "false" else f.let(f"or i1 {bad}, {one}")

    def add_down(self, f: Function, zeros: str, sums: str, extent: int, vectors: int) -> None:
        """Add ``zeros`` [own axis], broadcast along the rows, to sums [own axis][rows]."""
        plan = self.plan
        with f.loop(0, extent) as e:
            z = f.load(plan.scalar, f.offset(zeros, f.mul(e, plan.size)), plan.size)
            many = f.splat(plan.scalar, z, plan.lanes)
            for v in range(vectors):
                self._add(f, f.offset(sums, f.add(f.mul(e, plan.panel_rows * plan.size), v * self.width)), many)

    def add_to_rows(self, f: Function, zeros: str, sums: str, count: int, width: int) -> None:
        """Add ``zeros`` [own axis] to each of ``count`` rows of sums."""
        with f.loop(0, count) as r:
            for first in range(0, width, self.plan.lanes):
                z = f.load(self.vector, f.offset(zeros, first * self.plan.size), self.width)
                self._add(f, f.offset(sums, f.add(f.mul(r, width * self.plan.size), first * self.plan.size)), z)
