"""Forward convolutions and input gradients by Winograd's F(m x m, r x r).

The kernel has four phases:

1. transform the weights to ``[position][panel of filters][channel][filter]``;
2. transform the tiles of a round to planes;
3. multiply: for each position, tiles x channels by channels x filters, to planes of filters;
4. transform these to results, turn them to rows of pixels, and store them.

Phases 2 to 4 are repeated for each round. Sums over channels are blocks of BLOCK, added in order, and a result depends on its own
tile only. So results do not depend on threads or rounds. An infinity or NaN reaches all results of the tiles that read it.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from weft.devices.cpu.convolution import pack
from weft.devices.cpu.convolution.epilogue import JOINED_AXIS_ID, Stores
from weft.devices.cpu.convolution.forward import emit_digits
from weft.devices.cpu.convolution.winograd import BLOCK, UNROLL, WinogradPart
from weft.devices.cpu.convolution.winograd_transform import emit_transform
from weft.devices.cpu.emit.chunks import run_chunks
from weft.devices.cpu.emit.isa import ISA, LINE, round_to_line
from weft.devices.cpu.emit.text import Module
from weft.devices.cpu.product.pack import Packer
from weft.kernel.convolution import Conv, coefficient
from weft.kernel.ir import Axis, Kernel, Reduction
from weft.kernel.stages import join_axes

PACKED_CHANNELS = 64  # about as many channels of a panel of weights are transformed by one chunk
AHEAD = 8 << 10  # bytes by which transformed weights are prefetched


class WinogradForward(WinogradPart):
    """The generator of a forward convolution or an input gradient."""

    path = "convolution winograd"

    def __init__(
        self, kernel: Kernel, conv: Conv, isa: ISA, module: Module, prefix: str, tallies: tuple[Reduction, ...] = (),
    ) -> None:
        super().__init__(kernel, conv, isa, module, prefix, tallies)
        size, lanes = self.number.size, self.number.lanes
        channels, filters = conv.chan.extent, conv.filters.extent
        self.vectors = -(-filters // lanes)
        self.nv = min(2, self.vectors)
        self.panels = -(-self.vectors // self.nv)
        self.choose_round(conv.free.extent, -(-channels // lanes) + self.vectors)
        most = (isa.registers - self.nv - 1) // self.nv
        self.mr = min(range(1, most + 1), key=lambda mr: (-(-self.tiles // mr) * max(mr * self.nv / 2 + 1, 5.2), -mr))
        padded = -(-self.tiles // self.mr) * self.mr
        self.weights_at = LINE  # behind the number of the round
        self.weights_pitch = round_to_line(channels * self.vectors * lanes * size) | LINE
        planes_at = self.weights_at + self.positions * self.weights_pitch
        self.input = self.planes(round_to_line(planes_at), -(-channels // lanes), padded)
        self.output = self.planes(self.input.end, self.vectors, padded)
        self.shared = self.base = self.output.end
        self.chunk_channels = max(c for c in range(1, PACKED_CHANNELS + 1) if channels % c == 0)
        packed = self.chunk_channels * self.r**2 * self.nv * lanes * size
        self.pixel_pitch = self.strip * self.m * self.width + lanes  # of a filter's results, in elements
        pixels = self.strip * self.m * self.tile_columns * self.m * self.vector_bytes
        self.planes_at = round_to_line(pixels)
        results = self.planes_at + lanes * self.pixel_pitch * size
        self.worker = round_to_line(max(packed, self.strip_bytes, results))
        self.results = self.round_strips * self.vectors  # chunks
        self.storing = self.results * (self.rounds if tallies else 1)

    def generate(self, base: int) -> None:
        self.base = base
        self.transformed = self.emit_spread(self.image_source(self.conv.chan, self.conv.free), self.input)
        self._emit_weights()
        self._emit_products()
        self._emit_results()
        self._entry()

    def _panel_kinds(self) -> list[tuple[int, int, str]]:
        """Return (filters, vectors, comparison of a panel's number with the last one's) of whole panels and of the last one."""
        whole = self.nv * self.number.lanes
        last = self.conv.filters.extent - (self.panels - 1) * whole
        if last == whole or self.panels == 1:
            return [(last, self.nv, "sle")]
        return [(whole, self.nv, "slt"), (last, -(-last // self.number.lanes), "eq")]

    def _emit_weights(self) -> None:
        """Emit the transform of some channels of a panel of weights, a chunk."""
        conv, size, lanes = self.conv, self.number.size, self.number.lanes
        f = self.module.function(f"define internal void {self.name('weights')}(ptr %args, i64 %chunk, i64 %worker)")
        panel, block = emit_digits(f, "%chunk", (self.panels, conv.chan.extent // self.chunk_channels))
        channel = f.mul(block, self.chunk_channels)
        packed = self.scratch(f, f.add(f.mul("%worker", self.worker), self.base))
        part = replace(conv, chan=Axis(conv.chan.id, self.chunk_channels))
        step = coefficient(conv.weights.flat(), conv.chan) * conv.weights.buffer.dtype.bytes
        source = f.offset(self.argument(f, conv.weights.buffer.id), f.mul(channel, step))
        for filters, nv, compare in self._panel_kinds():
            with f.when(f.let(f"icmp {compare} i64 {panel}, {self.panels - 1}")):
                name = self.name(f"vectors{filters}")
                pack.pack_filter_vectors(self, part, name, f, source, packed, self.nv * lanes, panel, filters)
                to = f.add(f.mul(panel, conv.chan.extent * self.nv * lanes * size), f.mul(channel, nv * lanes * size))
                f.do(f"call void {self._emit_panel(nv)}(ptr {packed}, ptr {self.scratch(f, f.add(to, self.weights_at))})")

    def _emit_panel(self, nv: int) -> str:
        """Emit ``void panel(ptr packed, ptr weights)``, which transforms packed channels of nv vectors. Return its name."""
        name = self.name(f"panel{nv}")
        if not self.module.once(name):
            return name
        f = self.module.function(f"define internal void {name}(ptr noalias %w, ptr noalias %u)")
        vector, nbytes, taps = self.number.vector, self.vector_bytes, self.r**2
        with f.loop(0, self.chunk_channels) as c:
            with f.loop(0, nv) if nv > 1 else nullcontext("0") as j:
                w = f.offset("%w", f.mul(f.add(f.mul(c, taps * nv), j), nbytes))
                u = f.offset("%u", f.mul(f.add(f.mul(c, nv), j), nbytes))
                emit_transform(
                    f, self.module, self.isa, self.number, self.matrices.weights,
                    lambda a, b: f.load(vector, f.offset(w, (a * self.r + b) * nv * nbytes), nbytes),
                    lambda a, b, value: f.store(vector, value, f.offset(u, (a * self.n + b) * self.weights_pitch), nbytes),
                )
        return name

    def _emit_products(self) -> None:
        """Emit the products of one position and a half of the panels, a chunk."""
        conv, lanes, size = self.conv, self.number.lanes, self.number.size
        self.halves = min(2, self.panels)
        names = {nv: self._emit_tile(nv) for nv in {nv for _, nv, _ in self._panel_kinds()}}
        f = self.module.function(f"define internal void {self.name('products')}(ptr %args, i64 %chunk, i64 %worker)")
        position, half = emit_digits(f, "%chunk", (self.positions, self.halves))
        v0 = self.scratch(f, f.add(f.mul(position, self.input.pitch), self.input.at))
        m0 = self.scratch(f, f.add(f.mul(position, self.output.pitch), self.output.at))
        u0 = self.scratch(f, f.add(f.mul(position, self.weights_pitch), self.weights_at))
        tiles = f.mul(self.round_count(f), self.strip_tiles)
        each = -(-self.panels // self.halves)
        start = f.mul(half, each)
        with f.loop(start, f.minimum(f.add(start, each), self.panels)) as panel:
            u = f.offset(u0, f.mul(panel, conv.chan.extent * self.nv * lanes * size))
            m = f.offset(m0, f.mul(panel, self.nv * self.output.tile_bytes))
            for _, nv, compare in self._panel_kinds():
                with f.when(f.let(f"icmp {compare} i64 {panel}, {self.panels - 1}")):
                    with f.loop(0, tiles, self.mr) as t:
                        at = f.mul(t, self.vector_bytes)
                        f.do(f"call void {names[nv]}(ptr {f.offset(v0, at)}, ptr {u}, ptr {f.offset(m, at)})")

    def _emit_tile(self, nv: int) -> str:
        """Emit ``void tile(ptr v, ptr u, ptr m)``: mr tiles x nv vectors of filters, summed over channels. Return its name."""
        number, size, lanes, mr = self.number, self.number.size, self.number.lanes, self.mr
        vector, nbytes, channels = number.vector, self.vector_bytes, self.conv.chan.extent
        name = self.name(f"product{mr}x{nv}")
        f = self.module.function(f"define internal void {name}(ptr noalias %v, ptr noalias %u, ptr noalias %m)")
        accs = [[f.local(vector) for _ in range(nv)] for _ in range(mr)]
        whole, rest, per_block = channels // lanes, channels % lanes, max(1, BLOCK // lanes)
        blocks = max(1, -(-whole // per_block))

        def steps(v: str, u: str, count: int) -> None:
            now = [[f.load(vector, acc) for acc in row] for row in accs]
            for e in range(count):
                f.do('fence syncscope("singlethread") acq_rel')  # see tile._TileSum._step
                weights = [f.load(vector, f.offset(u, (e * nv + j) * nbytes), nbytes) for j in range(nv)]
                self.module.prefetch(f, f.offset(u, e * nv * nbytes + AHEAD), near=False)
                for i in range(mr):
                    x = f.splat(number.type, f.load(number.type, f.offset(v, i * nbytes + e * size), size), lanes)
                    for j in range(nv):
                        now[i][j] = self.module.fma(f, number.type, lanes, x, weights[j], now[i][j])
            for row, values in zip(accs, now, strict=True):
                for acc, value in zip(row, values, strict=True):
                    f.store(vector, value, acc)

        def places(c: str) -> tuple[str, str]:
            return f.offset("%v", f.mul(c, self.input.tile_bytes)), f.offset("%u", f.mul(c, lanes * nv * nbytes))

        with f.loop(0, blocks) if blocks > 1 else nullcontext("0") as block:
            f.clear(vector, [acc for row in accs for acc in row])
            first = f.mul(block, per_block)
            with f.loop(first, f.minimum(f.add(first, per_block), whole)) as c:
                v, u = places(c)
                with f.loop(0, lanes, UNROLL) as e:
                    steps(f.offset(v, f.mul(e, size)), f.offset(u, f.mul(e, nv * nbytes)), UNROLL)
            if rest:
                with f.when(f.let(f"icmp eq i64 {block}, {blocks - 1}")) if blocks > 1 else nullcontext():
                    v, u = places(str(whole))
                    steps(v, u, rest)
            cells = [(accs[i][j], f.offset("%m", j * self.output.tile_bytes + i * nbytes)) for i in range(mr) for j in range(nv)]
            self.store_sums(f, cells, f.let(f"icmp ne i64 {block}, 0") if blocks > 1 else None)
        return name

    def _emit_results(self) -> None:
        """Emit the transform of a strip of an image and a vector of filters to results, and their stores; a chunk."""
        conv, number, size, lanes, nbytes = self.conv, self.number, self.number.size, self.number.lanes, self.vector_bytes
        gather = self._emit_result_row()
        rows_axis, columns_axis = (w.pixel for w in conv.windows)
        f = self.module.function(f"define internal void {self.name('results')}(ptr %args, i64 %chunk, i64 %worker)")
        joined_axis = Axis(JOINED_AXIS_ID, self.height * self.width)
        joined = join_axes((conv.contraction.stores, self.tallies.tallies), (rows_axis, columns_axis), joined_axis)
        if self.strips > 1:
            joined = None
        stores = Stores(f, self, conv, number, joined)
        n, vector = emit_digits(f, "%chunk", (self.round_strips, self.vectors))
        with f.when(f.let(f"icmp slt i64 {n}, {self.round_count(f)}")):
            pixels = self.scratch(f, f.add(f.mul("%worker", self.worker), self.base))
            image, row0 = self.place_strip(f, n)
            at = f.add(f.add(f.mul(vector, self.output.tile_bytes), f.mul(n, self.strip_tiles * nbytes)), self.output.at)
            planes, row_bytes = self.scratch(f, at), self.m * self.tile_columns * nbytes
            with f.loop(0, self.strip) as r:
                source = f.offset(planes, f.mul(r, self.tile_columns * nbytes))
                f.do(f"call void {gather}(ptr {source}, ptr {f.offset(pixels, f.mul(r, self.m * row_bytes))})")
            rows = f.minimum(f.let(f"sub i64 {self.height}, {row0}"), self.strip * self.m)
            filter0 = f.mul(vector, lanes)
            filters = f.minimum(f.let(f"sub i64 {conv.filters.extent}, {filter0}"), lanes)
            out = f.offset(pixels, self.planes_at)
            name = self.name("turn.back")[1:]
            accum = conv.contraction.accum
            Packer(self.module, accum, accum, lanes).columns(name, lanes, lanes, 1, self.pixel_pitch)
            # the last vector of a row, or of all, writes beyond its end, before the next row is written
            is_contiguous = self.m * self.tile_columns == self.width
            with nullcontext("0") if is_contiguous else f.loop(0, rows) as r:
                source = f.offset(pixels, f.mul(r, row_bytes))
                to = f.offset(out, f.mul(r, self.width * size))
                with f.loop(0, f.mul(rows, self.width) if is_contiguous else self.width, lanes) as c:
                    pixel, target = f.offset(source, f.mul(c, nbytes)), f.offset(to, f.mul(c, size))
                    f.do(f"call void @{name}(ptr {pixel}, ptr {target}, i64 {filters})")
            axes: dict[Axis, str] = {conv.free: image, conv.group: "0"}
            with f.loop(0, filters) as i:
                axes[conv.filters] = f.add(filter0, i)
                plane = f.offset(out, f.mul(i, self.pixel_pitch * size))
                if joined is not None:
                    stores.row(axes, joined_axis, plane)
                else:
                    with f.loop(0, rows) as r:
                        axes[rows_axis] = f.add(row0, r)
                        stores.row(axes, columns_axis, f.offset(plane, f.mul(r, self.width * size)))
        stores.end()

    def _emit_result_row(self) -> str:
        """Emit ``void gather(ptr plane, ptr pixels)``, which transforms a row of tiles back. Return its name."""
        name = self.name("gather")
        f = self.module.function(f"define internal void {name}(ptr noalias %m, ptr noalias %y)")
        vector, nbytes, m = self.number.vector, self.vector_bytes, self.m
        with f.loop(0, self.tile_columns) as t:
            source, to = f.offset("%m", f.mul(t, nbytes)), f.offset("%y", f.mul(t, m * nbytes))
            emit_transform(
                f, self.module, self.isa, self.number, self.matrices.outputs,
                lambda i, j: f.load(vector, f.offset(source, (i * self.n + j) * self.output.pitch), nbytes),
                lambda i, j, value: f.store(vector, value, f.offset(to, (i * m * self.tile_columns + j) * nbytes), nbytes),
            )
        return name

    def _entry(self) -> None:
        f = self.module.function(f"define internal void {self.name('run')}(ptr %args)")
        weights = self.panels * (self.conv.chan.extent // self.chunk_channels)
        run_chunks(self.module, f, self.name("weights"), weights, True)

        def run_products(number: str) -> None:
            if self.rounds > 1:
                f.store("i64", number, self.scratch(f, 0), 8)
            run_chunks(self.module, f, self.name("image"), self.transformed, True)
            run_chunks(self.module, f, self.name("products"), self.positions * self.halves, True)

        if not self.tallies:
            with f.loop(0, self.rounds) if self.rounds > 1 else nullcontext("0") as number:
                run_products(number)
                run_chunks(self.module, f, self.name("results"), self.results, True)
            return
        for k in range(self.rounds):  # each round has chunks of its own, and these their tallies
            run_products(str(k))
            body = self.name(f"results.{k}")
            g = self.module.function(f"define internal void {body}(ptr %args, i64 %chunk, i64 %worker)")
            g.do(f"call void {self.name('results')}(ptr %args, i64 %chunk, i64 %worker)")
            body = self.tallies.wrap(body, self.tallies_at + k * self.results * self.tallies.size)
            run_chunks(self.module, f, body, self.results, True)
