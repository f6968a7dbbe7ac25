"""Weight gradients by Winograd's F(m x m, r x r): products of transformed tiles of the image and of the other operand.

Each position is a matrix of channels x filters, summed over the tiles of all images: ``[position][vector of filters][channel]
[filter]``. The phases of a round transform both operands to planes and add their products to these matrices, in blocks of BLOCK
tiles. After the last round the matrices are transformed to r x r taps. So sums depend on extents only, not on threads.
"""

from __future__ import annotations

from contextlib import nullcontext

from weft.devices.cpu.convolution.epilogue import ColumnStores
from weft.devices.cpu.convolution.forward import emit_digits
from weft.devices.cpu.convolution.winograd import BLOCK, UNROLL, Source, WinogradPart
from weft.devices.cpu.convolution.winograd_transform import emit_transform, transpose
from weft.devices.cpu.emit.chunks import run_chunks
from weft.devices.cpu.emit.isa import ISA, LINE, round_to_line
from weft.devices.cpu.emit.text import Module
from weft.devices.cpu.product.pack import Packer
from weft.kernel.convolution import Conv, coefficient
from weft.kernel.ir import Axis, Kernel, Reduction


class WinogradGradient(WinogradPart):
    """The generator of a weight gradient."""

    path = "convolution winograd weights"

    def __init__(
        self, kernel: Kernel, conv: Conv, isa: ISA, module: Module, prefix: str, tallies: tuple[Reduction, ...] = (),
    ) -> None:
        super().__init__(kernel, conv, isa, module, prefix, tallies)
        size, lanes = self.number.size, self.number.lanes
        self.channels, self.taps = conv.free.extent, self.r**2
        channel_vectors, self.vectors = -(-self.channels // lanes), -(-conv.filters.extent // lanes)
        self.choose_round(conv.chan.extent, channel_vectors + self.vectors)
        self.nv = min(2, self.vectors)
        # channels of a tile of sums: a part of a vector that leaves registers for the other operands
        self.mr = max(c for c in (1, 2, 4, 8) if c <= lanes and (c + 1) * self.nv + 1 <= isa.registers)
        tiles = -(-self.tiles // UNROLL) * UNROLL
        self.input = self.planes(LINE, channel_vectors, tiles)
        self.other = self.planes(self.input.end, self.vectors, tiles)
        self.sums = self.planes(self.other.end, self.vectors, channel_vectors * lanes)
        self.shared = self.base = self.sums.end
        columns = self.channels * self.taps
        self.row_pitch = -(-columns // lanes) * lanes + lanes
        self.rows_at = round_to_line((columns + lanes) * self.vector_bytes)
        self.worker = round_to_line(max(self.strip_bytes, self.rows_at + lanes * self.row_pitch * size))
        self.storing = self.vectors

    def generate(self, base: int) -> None:
        self.base = base
        conv = self.conv
        self.transformed = self.emit_spread(self.image_source(conv.free, conv.chan), self.input)
        flat = conv.weights.flat()
        rows, columns = (coefficient(flat, w.pixel) for w in conv.windows)
        other = Source(
            "other", conv.weights, conv.filters, conv.chan, flat.const, (rows, columns),
            ((0, self.height), (0, self.width)), transpose(self.matrices.outputs),
        )
        self.others = self.emit_spread(other, self.other)
        self._emit_products()
        self._emit_results()
        self._entry()

    def _emit_products(self) -> None:
        """Emit the products of one position and one panel of filters, a chunk."""
        panels = -(-self.vectors // self.nv)
        last = self.vectors - (panels - 1) * self.nv
        f = self.module.function(f"define internal void {self.name('products')}(ptr %args, i64 %chunk, i64 %worker)")
        position, panel = emit_digits(f, "%chunk", (self.positions, panels))
        self.products = self.positions * panels
        v0, d0, s0 = (
            self.scratch(f, f.add(f.mul(position, planes.pitch), planes.at)) for planes in (self.input, self.other, self.sums)
        )
        d = f.offset(d0, f.mul(panel, self.nv * self.other.tile_bytes))
        s = f.offset(s0, f.mul(panel, self.nv * self.sums.tile_bytes))
        tiles = f.mul(self.round_count(f), self.strip_tiles)
        kinds = [(self.nv, "slt"), (last, "eq")] if last != self.nv else [(self.nv, "sle")]
        parts = -(-self.number.lanes // self.mr)
        for nv, compare in kinds:
            name = self._emit_tile(nv)
            with f.when(f.let(f"icmp {compare} i64 {panel}, {panels - 1}")):
                with f.loop(0, self.input.vectors) as c, f.loop(0, parts) as part:
                    channel = f.mul(part, self.mr)
                    v = f.offset(v0, f.add(f.mul(c, self.input.tile_bytes), f.mul(channel, self.number.size)))
                    to = f.offset(s, f.mul(f.add(f.mul(c, self.number.lanes), channel), self.vector_bytes))
                    f.do(f"call void {name}(ptr {v}, ptr {d}, ptr {to}, i64 {tiles}, i64 {self.round_number(f)})")

    def _emit_tile(self, nv: int) -> str:
        """Emit ``void tile(ptr v, ptr d, ptr s, i64 tiles, i64 round)``: mr channels x nv vectors of filters. Return its name."""
        number, size, lanes, nbytes, mr = self.number, self.number.size, self.number.lanes, self.vector_bytes, self.mr
        vector, name = number.vector, self.name(f"product{self.mr}x{nv}")
        arguments = "ptr noalias %v, ptr noalias %d, ptr noalias %s, i64 %tiles, i64 %round"
        f = self.module.function(f"define internal void {name}({arguments})")
        accs = [[f.local(vector) for _ in range(nv)] for _ in range(mr)]

        def steps(t: str, count: int) -> None:
            at = f.mul(t, nbytes)
            v, d = f.offset("%v", at), f.offset("%d", at)
            now = [[f.load(vector, acc) for acc in row] for row in accs]
            for e in range(count):
                f.do('fence syncscope("singlethread") acq_rel')  # see tile._TileSum._step
                others = [f.load(vector, f.offset(d, j * self.other.tile_bytes + e * nbytes), nbytes) for j in range(nv)]
                for i in range(mr):
                    x = f.splat(number.type, f.load(number.type, f.offset(v, e * nbytes + i * size), size), lanes)
                    for j in range(nv):
                        now[i][j] = self.module.fma(f, number.type, lanes, x, others[j], now[i][j])
            for row, values in zip(accs, now, strict=True):
                for acc, value in zip(row, values, strict=True):
                    f.store(vector, value, acc)

        with f.loop(0, "%tiles", BLOCK) as first:
            f.clear(vector, [acc for row in accs for acc in row])
            end = f.minimum(f.add(first, BLOCK), "%tiles")
            whole = f.add(first, f.let(f"and i64 {f.let(f'sub i64 {end}, {first}')}, {-UNROLL}"))
            with f.loop(first, whole, UNROLL) as t:
                steps(t, UNROLL)
            with f.loop(whole, end) as t:
                steps(t, 1)
            cells = [(accs[i][j], f.offset("%s", j * self.sums.tile_bytes + i * nbytes)) for i in range(mr) for j in range(nv)]
            self.store_sums(f, cells, f.let(f"icmp ne i64 {f.add(first, '%round')}, 0"))
        return name

    def _emit_results(self) -> None:
        """Emit the transform of the sums of a vector of filters to taps, and their stores; a chunk."""
        conv, number, size, lanes, nbytes = self.conv, self.number, self.number.size, self.number.lanes, self.vector_bytes
        gather = self._emit_gather()
        columns = self.channels * self.taps
        f = self.module.function(f"define internal void {self.name('results')}(ptr %args, i64 %chunk, i64 %worker)")
        stores = ColumnStores(f, self, conv, number)
        taps = self.scratch(f, f.add(f.mul("%worker", self.worker), self.base))
        rows = f.offset(taps, self.rows_at)
        f.do(f"call void {gather}(ptr {self.scratch(f, f.add(f.mul('%chunk', self.sums.tile_bytes), self.sums.at))}, ptr {taps})")
        filter0 = f.mul("%chunk", lanes)
        filters = f.minimum(f.let(f"sub i64 {conv.filters.extent}, {filter0}"), lanes)
        name, accum = self.name("turn.back")[1:], conv.contraction.accum
        Packer(self.module, accum, accum, lanes).columns(name, lanes, lanes, 1, self.row_pitch)
        with f.loop(0, columns, lanes) as c:
            source, to = f.offset(taps, f.mul(c, nbytes)), f.offset(rows, f.mul(c, size))
            f.do(f"call void @{name}(ptr {source}, ptr {to}, i64 {filters})")
        with f.loop(0, filters) as i:
            axes: dict[Axis, str] = {conv.group: "0", conv.filters: f.add(filter0, i)}
            stores.emit(axes, f.offset(rows, f.mul(i, self.row_pitch * size)))
        stores.end()

    def _emit_gather(self) -> str:
        """Emit ``void gather(ptr sums, ptr taps)``, which transforms the sums of all channels. Return its name."""
        name = self.name("gather")
        f = self.module.function(f"define internal void {name}(ptr noalias %s, ptr noalias %y)")
        vector, nbytes = self.number.vector, self.vector_bytes
        with f.loop(0, self.channels) as c:
            source, to = f.offset("%s", f.mul(c, nbytes)), f.offset("%y", f.mul(c, self.taps * nbytes))
            emit_transform(
                f, self.module, self.isa, self.number, transpose(self.matrices.weights),
                lambda i, j: f.load(vector, f.offset(source, (i * self.n + j) * self.sums.pitch), nbytes),
                lambda i, j, value: f.store(vector, value, f.offset(to, (i * self.r + j) * nbytes), nbytes),
            )
        return name

    def _entry(self) -> None:
        f = self.module.function(f"define internal void {self.name('run')}(ptr %args)")
        with f.loop(0, self.rounds) if self.rounds > 1 else nullcontext("0") as number:
            if self.rounds > 1:
                f.store("i64", number, self.scratch(f, 0), 8)
            run_chunks(self.module, f, self.name("image"), self.transformed, True)
            run_chunks(self.module, f, self.name("other"), self.others, True)
            run_chunks(self.module, f, self.name("products"), self.products, True)
        self.run_storing(f, self.name("results"), True)
