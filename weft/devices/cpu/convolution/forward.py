"""Forward convolution and input gradient: vectors of pixels times broadcast weights, or vectors of filters times pixels.

The work is divided into chunks: blocks of images and rows, and possibly groups of filter panels. A chunk copies its part of the
image, with borders, to the worker's scratch (``tiling.ImageLayout``), so that each tap of a tile is one contiguous load at a
constant displacement. A panel's sums go to a scratch plane, which the stores read row by row; if the stores are few, they read a
tile's registers.

Tiles of filter vectors waste nothing at the ends of rows. Their sums are turned from [pixel][filter] to a plane for each filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import product
from math import prod

from weft.devices.cpu.convolution.epilogue import JOINED_AXIS_ID, Stores, SumPart
from weft.devices.cpu.convolution.pack import pack_filter_vectors, pack_image, pack_weights
from weft.devices.cpu.convolution.pairs import block_steps
from weft.devices.cpu.convolution.tile import PixelTile, accumulate, pixel_tile
from weft.devices.cpu.convolution.tiling import make_plan
from weft.devices.cpu.emit.chunks import run_chunks
from weft.devices.cpu.emit.emit import Level
from weft.devices.cpu.emit.isa import ISA, round_to_line
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.product.pack import Packer
from weft.kernel.convolution import Conv, coefficient
from weft.kernel.ir import Axis, Kernel, Reduction
from weft.kernel.stages import join_axes, work

MAX_SERIAL_FLOPS = 8e5  # up to this work the calling thread runs all chunks
MAX_DIRECT_INSTRUCTIONS = 24  # stores of up to this many instructions are part of each tile's function
MAX_CACHED_WEIGHTS_SUM = 64  # up to this many summed elements the weights of a panel stay in the cache, else a tile's pixels
MIN_PARALLEL_WEIGHTS = 1 << 16  # weights above which packing runs in parallel


def emit_digits(f: Function, value: str, radices: tuple[int, ...]) -> list[str]:
    """Emit the mixed-radix digits of ``value``, the last one varying fastest."""
    out: list[str] = []
    for radix in reversed(radices[1:]):
        out.insert(0, f.let(f"urem i64 {value}, {radix}") if radix > 1 else "0")
        value = f.let(f"udiv i64 {value}, {radix}") if radix > 1 else value
    return [value, *out]


class Forward(SumPart):
    """The generator of a convolution over vectors of pixels or of filters."""

    def __init__(
        self, kernel: Kernel, conv: Conv, isa: ISA, module: Module, prefix: str, tallies: tuple[Reduction, ...] = (),
    ) -> None:
        super().__init__(kernel, conv, isa, module, prefix, tallies)
        axes = tuple(w.pixel for w in conv.windows)
        self.joined_axis = Axis(JOINED_AXIS_ID, prod(axis.extent for axis in axes))
        self.joined_epilogue = join_axes((conv.contraction.stores, tallies), axes, self.joined_axis)
        few = self.joined_epilogue is not None and work(self.joined_epilogue) <= MAX_DIRECT_INSTRUCTIONS
        self.plan = make_plan(conv, isa, self.number.size, few)
        self.path = "convolution" + (" in place" if self.plan.in_place else "") + (" direct" if self.plan.direct else "")
        self.k = conv.chan.extent * prod(w.tap.extent for w in conv.windows)
        self.block = block_steps(conv)
        self.mr = self.plan.tile.mr
        self.panels = self.plan.panels(conv.filters.extent)
        self.last_rows = conv.filters.extent - (self.panels - 1) * self.mr
        size = self.number.size
        layout, tile = self.plan.layout, self.plan.tile
        slack = layout.overlap + (tile.nv + 1) * self.number.lanes + (tile.nv * layout.pitches[-2] if tile.levels == 0 else 0)
        self.panel_bytes = round_to_line(self.k * self.mr * size)
        self.shared = self.base = round_to_line(conv.group.extent * self.panels * self.panel_bytes)
        self.image_bytes = 0 if self.plan.in_place else round_to_line((conv.chan.extent * layout.chan_pitch + slack) * size)
        self.out_pitch = round_to_line((layout.plane + slack) * size) // size + 64 // size
        self.worker = self.image_bytes + (0 if self.plan.direct else round_to_line(self.mr * self.out_pitch * size))
        if tile.has_filter_vectors:
            self.path = "convolution filter vectors"
            lanes = self.number.lanes
            vectors = -(-layout.images * prod(self.plan.pixels) // lanes)
            self.turned = self.mr * vectors * lanes  # sums of a panel, behind which lie the planes that are made of them
            self.out_pitch = (vectors | 1) * lanes + lanes
            self.worker = self.image_bytes + round_to_line((self.turned + self.mr * self.out_pitch) * size)
        self.tiles: dict[int, str] = {}
        self.storing = conv.group.extent * self.plan.image_blocks * self.plan.row_blocks * self.plan.filter_groups

    def generate(self, base: int) -> None:
        self.base = base
        plan, layout = self.plan, self.plan.layout
        vstep = layout.pitches[-2] if plan.tile.levels == 0 else self.number.lanes
        if plan.direct:
            self._direct_tiles()
        for rows in set() if plan.direct or plan.tile.has_filter_vectors else {self.mr, self.last_rows}:
            tile = PixelTile(rows, plan.tile.nv, vstep, self.conv.chan.extent, layout.chan_pitch, layout.taps, self.block)
            self.tiles[rows] = pixel_tile(self.module, self.number, self.kernel.name, tile, self.out_pitch)
        self._pack()
        self._emit_chunk()
        self._entry()

    def _pack(self) -> None:
        """Emit the packing of one panel of weights of one group, a chunk."""
        conv = self.conv
        f = self.module.function(f"define internal void {self.name('pack')}(ptr %args, i64 %chunk, i64 %worker)")
        group, panel = emit_digits(f, "%chunk", (conv.group.extent, self.panels))
        to = f.offset(self.argument(f, self.scratch_slot), f.mul("%chunk", self.panel_bytes))
        source = self.operand(f, conv.weights, conv.group, group)
        ragged = self.last_rows != self.mr
        for rows, compare in ((self.mr, "slt"), (self.last_rows, "eq")) if ragged else ((self.mr, ""),):
            with f.when(f.let(f"icmp {compare} i64 {panel}, {self.panels - 1}")) if ragged else nullcontext():
                if self.plan.tile.has_filter_vectors:
                    name = self.name(f"vectors{rows}")
                    pack_filter_vectors(self, conv, name, f, source, to, self.mr, panel, rows)
                else:
                    pack_weights(self, f, source, to, self.mr, panel, rows)

    def _emit_chunk(self) -> None:
        conv, plan, layout, number = self.conv, self.plan, self.plan.layout, self.number
        f = self.module.function(f"define internal void {self.name('chunk')}(ptr %args, i64 %chunk, i64 %worker)")
        rows_together = plan.tile.has_filter_vectors and plan.row_blocks == 1
        joined = self.joined_epilogue if rows_together else None  # stores all pixels of an image
        stores = None if plan.direct else Stores(f, self, conv, number, joined, aligned=joined is not None)
        radices = (conv.group.extent, plan.image_blocks, plan.row_blocks, plan.filter_groups)
        group, image_block, row_block, filter_group = emit_digits(f, "%chunk", radices)
        scratch = self.argument(f, self.scratch_slot)
        image = f.offset(scratch, f.add(f.mul("%worker", self.worker), self.base))
        out = f.offset(image, self.image_bytes)
        first = f.mul(image_block, layout.images)
        images = f.minimum(f.let(f"sub i64 {conv.free.extent}, {first}"), layout.images)
        row0 = f.mul(row_block, layout.rows)
        rows = f.minimum(f.let(f"sub i64 {conv.windows[0].pixel.extent}, {row0}"), layout.rows)
        width = conv.image.buffer.dtype.bytes
        source = self.operand(f, conv.image, conv.group, group)
        if plan.in_place:
            at = f.add(f.mul(first, coefficient(conv.image.flat(), conv.free)), f.mul(row0, layout.pitches[0]))
            image = f.offset(source, f.mul(f.add(at, conv.image_base), width))
        else:
            pack_image(self, f, layout, source, image, (conv.chan, conv.free), first, images, row0)
        start = f.mul(filter_group, plan.panels_per_group)
        end = f.minimum(f.add(start, plan.panels_per_group), self.panels)
        weights = f.offset(scratch, f.mul(f.mul(group, self.panels), self.panel_bytes))
        if plan.direct:
            self._direct_panels(f, image, weights, start, end, group, first, row0, rows)
            return
        with f.loop(start, end) as panel:
            w = f.offset(weights, f.mul(panel, self.panel_bytes))
            ragged = self.last_rows != self.mr
            for tile_rows, compare in ((self.mr, "slt"), (self.last_rows, "eq")) if ragged else ((self.mr, "sle"),):
                with f.when(f.let(f"icmp {compare} i64 {panel}, {self.panels - 1}")):
                    if plan.tile.has_filter_vectors:
                        self._filter_tiles(f, tile_rows, image, w, out, images, rows)
                    else:
                        self._tiles(f, self.tiles[tile_rows], image, w, out, images, rows)
            filter0 = f.mul(panel, self.mr)
            filters = f.minimum(f.let(f"sub i64 {conv.filters.extent}, {filter0}"), self.mr)
            assert stores is not None
            axes: dict[Axis, str] = {conv.group: group}
            planes, pitches, image_pitch = out, layout.pitches, str(layout.image_pitch)
            if plan.tile.has_filter_vectors:  # pixels are contiguous
                planes = f.offset(out, self.turned * number.size)
                pitches = tuple(prod(plan.pixels[d + 1 :]) for d in range(len(plan.pixels)))
                image_pitch = f.mul(rows, pitches[0])
            with f.loop(0, filters) as i:
                axes[conv.filters] = f.add(filter0, i)
                plane = f.offset(planes, f.mul(i, self.out_pitch * number.size))
                with f.loop(0, images) as n:
                    axes[conv.free] = f.add(first, n)
                    at = f.offset(plane, f.mul(f.mul(n, image_pitch), number.size))
                    if joined is not None:
                        stores.row(axes, self.joined_axis, at)
                    else:
                        self._rows(f, stores, axes, at, 0, row0, rows, pitches)
        assert stores is not None
        stores.end()

    def _direct_tiles(self) -> None:
        """Emit ``void tile(px, w, args, group, free, filter, from, to)``: tiles and their stores along one run of pixels.

        There is one function for whole tiles, and one for each number of pixels that may be left at the end of a block.
        """
        plan, layout, number = self.plan, self.plan.layout, self.number
        width = plan.tile.nv * number.lanes
        total_rows = self.conv.windows[0].pixel.extent
        spans = {r * layout.pitches[0] for r in (layout.rows, total_rows - (plan.row_blocks - 1) * layout.rows)}
        self.pixel_counts = sorted({width for s in spans if s >= width} | {s % width for s in spans if s % width}, reverse=True)
        for rows in sorted({self.mr, self.last_rows}):
            for live in self.pixel_counts:
                self._direct_tile(rows, live, width)

    def _direct_tile(self, rows: int, live: int, width: int) -> None:
        number, size = self.number, self.number.size
        nv, layout = -(-live // number.lanes), self.plan.layout
        last = live % number.lanes if self.plan.in_place else 0
        tile = PixelTile(rows, nv, number.lanes, self.conv.chan.extent, layout.chan_pitch, layout.taps, self.block, last)
        f = self.module.function(
            f"define internal void {self.name(f'tile{rows}.{live}')}(ptr noalias %px, ptr noalias %w, ptr %args, "
            "i64 %group, i64 %free, i64 %filter, i64 %from, i64 %to)"
        )
        aligned = layout.rows * layout.pitches[0] % number.lanes == 0 or self.plan.row_blocks == 1
        stores = Stores(f, self, self.conv, number, self.joined_epilogue, aligned)
        filters = [f.add("%filter", i) for i in range(rows)]
        before = f.lines
        once = [Level(before) for _ in range(rows)]  # loads of a filter's stores hoisted out of the loop
        f.lines = []
        with f.loop("%from", "%to", width) as start:
            px = f.offset("%px", f.mul(f.let(f"sub i64 {start}, %from"), size))
            for i, j in product(range(rows), range(nv)):
                axes = {self.conv.group: "%group", self.conv.free: "%free", self.conv.filters: filters[i]}
                stores.prefetch(axes, self.joined_axis, f.add(start, j * number.lanes), once[i])
            accs = accumulate(f, self.module, number, tile, px, "%w")
            # a branch that is always taken stops the scheduler from mixing sums and stores, which would spill registers
            with f.when(f.let("icmp ne ptr %w, null")):
                for i in range(rows):
                    axes = {self.conv.group: "%group", self.conv.free: "%free", self.conv.filters: filters[i]}
                    for j in range(nv):
                        sums = f.load(number.vector, accs[i][j])
                        at = f.add(start, j * number.lanes)
                        stores.emit(axes, self.joined_axis, at, sums, min(number.lanes, live - j * number.lanes), once[i])
        before.extend(f.lines)
        f.lines = before
        stores.end()

    def _direct_panels(
        self, f: Function, image: str, weights: str, start: str, end: str, group: str, free: str, row0: str, rows: str
    ) -> None:
        """Emit the calls of all tiles of a block, whose pixels are one run."""
        layout, size, width = self.plan.layout, self.number.size, self.plan.tile.nv * self.number.lanes
        span, at0 = f.mul(rows, layout.pitches[0]), f.mul(row0, layout.pitches[0])
        cut = f.let(f"udiv i64 {span}, {width}")
        whole = f.mul(cut, width)
        left = f.let(f"sub i64 {span}, {whole}")
        middle, stop = f.add(at0, whole), f.add(at0, span)

        def tile(filters: int, panel: str, live: int, px: str, ends: str) -> None:
            w, filter0 = f.offset(weights, f.mul(panel, self.panel_bytes)), f.mul(panel, self.mr)
            f.do(
                f"call void {self.name(f'tile{filters}.{live}')}(ptr {px}, ptr {w}, ptr %args, "
                f"i64 {group}, i64 {free}, i64 {filter0}, {ends})"
            )

        def panels(live: int, px: str, ends: str) -> None:
            ragged = self.last_rows != self.mr
            with f.loop(start, end) as panel:
                if ragged:
                    is_last = f.let(f"icmp eq i64 {panel}, {self.panels - 1}")
                    with f.when(is_last):
                        tile(self.last_rows, panel, live, px, ends)
                with f.when(f.let(f"xor i1 {is_last}, true")) if ragged else nullcontext():
                    tile(self.mr, panel, live, px, ends)

        for live in self.pixel_counts:
            if live < width:
                with f.when(f.let(f"icmp eq i64 {left}, {live}")):
                    panels(live, f.offset(image, f.mul(whole, size)), f"i64 {middle}, i64 {stop}")
            elif self.k <= MAX_CACHED_WEIGHTS_SUM:  # a panel of weights stays in the cache
                with f.when(f.let(f"icmp sgt i64 {whole}, 0")):
                    panels(live, image, f"i64 {at0}, i64 {middle}")
            else:  # a tile's pixels stay in the cache
                with f.loop(0, whole, width) as at:
                    pixel = f.add(at0, at)
                    panels(live, f.offset(image, f.mul(at, size)), f"i64 {pixel}, i64 {f.add(pixel, width)}")

    def _tiles(self, f: Function, tile: str, image: str, weights: str, out: str, images: str, rows: str) -> None:
        """Emit the calls of tiles that cover a block's pixels."""
        plan, layout, size, lanes = self.plan, self.plan.layout, self.number.size, self.number.lanes
        counts: list[str | int] = [images, rows, *plan.pixels[1:]]
        steps = [layout.image_pitch, *layout.pitches]
        levels, nv = plan.tile.levels, plan.tile.nv

        def call(at: str | int) -> None:
            offset = f.mul(at, size)
            f.do(f"call void {tile}(ptr {f.offset(image, offset)}, ptr {weights}, ptr {f.offset(out, offset)})")

        def nest(depth: int, at: str | int) -> None:
            left = len(counts) - depth
            if levels == 0 and left == 2:
                with f.loop(0, counts[depth], nv) as r, f.loop(0, counts[depth + 1], lanes) as c:
                    call(f.add(at, f.add(f.mul(r, steps[depth]), c)))
            elif levels == left:
                span: str | int = 1
                for n, s in zip(counts[depth:], steps[depth:], strict=True):
                    span = f.add(span, f.mul(n - 1 if isinstance(n, int) else f.let(f"sub i64 {n}, 1"), s))
                with f.loop(0, span, nv * lanes) as c:
                    call(f.add(at, c))
            else:
                with f.loop(0, counts[depth]) as i:
                    nest(depth + 1, f.add(at, f.mul(i, steps[depth])))

        nest(0, 0)

    def _filter_tiles(self, f: Function, filters: int, image: str, weights: str, out: str, images: str, rows: str) -> None:
        """Emit the tiles of filter vectors that cover a block's pixels, and the turn of their sums to planes."""
        conv, plan, layout, number = self.conv, self.plan, self.plan.layout, self.number
        size, lanes, (height, width) = number.size, number.lanes, plan.tile.block
        nv = -(-filters // lanes)
        last = len(conv.windows) - 1
        steps, extents = [layout.image_pitch, *layout.pitches], [plan.layout.images, *plan.pixels]
        total = conv.windows[0].pixel.extent
        last_rows = total - (plan.row_blocks - 1) * layout.rows
        heights = {r % height for r in ((layout.rows, last_rows) if last == 1 else (plan.pixels[-2],))} - {0}

        def call(h: int, w: int, at: str | int, pixel: str | int) -> None:
            cells = [(r, c) for r in range(h) for c in range(w)]
            tile = PixelTile(
                h * w, nv, lanes, conv.chan.extent, layout.chan_pitch, layout.taps, self.block,
                places=tuple(r * layout.pitches[-2] + c * layout.pitches[-1] for r, c in cells),
            )
            places = tuple(r * plan.pixels[-1] + c for r, c in cells)
            name = pixel_tile(self.module, number, self.kernel.name, tile, nv * lanes, places)
            to = f.offset(out, f.mul(pixel, nv * lanes * size))
            f.do(f"call void {name}(ptr {f.offset(image, f.mul(at, size))}, ptr {weights}, ptr {to})")

        def row(h: int, at: str | int, pixel: str | int) -> None:
            run = plan.pixels[-1]
            whole = run // width * width
            with f.loop(0, whole, width) if whole > width else nullcontext("0") as c:
                call(h, width, f.add(at, f.mul(c, layout.pitches[-1])), f.add(pixel, c))
            if run > whole:
                call(h, run - whole, f.add(at, whole * layout.pitches[-1]), f.add(pixel, whole))

        def nest(depth: int, at: str | int, pixel: str | int) -> None:
            count: str | int = images if depth == 0 else rows if depth == 1 else extents[depth]
            if depth == last:
                inner = plan.pixels[-1]
                whole = f.mul(f.let(f"udiv i64 {count}, {height}"), height)
                with f.loop(0, whole, height) as r:
                    row(height, f.add(at, f.mul(r, steps[depth])), f.add(pixel, f.mul(r, inner)))
                left = f.let(f"sub i64 {count}, {whole}")
                for h in sorted(heights):
                    with f.when(f.let(f"icmp eq i64 {left}, {h}")):
                        row(h, f.add(at, f.mul(whole, steps[depth])), f.add(pixel, f.mul(whole, inner)))
                return
            each: str | int = prod(extents[depth + 1 :]) if depth else f.mul(rows, prod(extents[2:]))
            with f.loop(0, count) as i:
                nest(depth + 1, f.add(at, f.mul(i, steps[depth])), f.add(pixel, f.mul(i, each)))

        nest(0, 0, 0)
        name = self.name(f"turn{filters}")
        if self.module.once(name):
            accum = conv.contraction.accum
            Packer(self.module, accum, accum, lanes).columns(name[1:], lanes, nv * lanes, 1, self.out_pitch)
        pixels = f.mul(f.mul(images, rows), prod(extents[2:]))
        planes = f.offset(out, self.turned * size)
        with f.loop(0, pixels, lanes) as pixel:
            source, target = f.offset(out, f.mul(pixel, nv * lanes * size)), f.offset(planes, f.mul(pixel, size))
            f.do(f"call void {name}(ptr {source}, ptr {target}, i64 {filters})")

    def _rows(
        self, f: Function, stores: Stores, axes: dict[Axis, str], at: str, depth: int, row0: str, rows: str,
        pitches: Sequence[int],
    ) -> None:
        windows = self.conv.windows
        if depth == len(windows) - 1:
            stores.row(axes, windows[-1].pixel, at)
            return
        with f.loop(0, rows if depth == 0 else windows[depth].pixel.extent) as r:
            axes[windows[depth].pixel] = f.add(r, row0) if depth == 0 else r
            row = f.offset(at, f.mul(r, pitches[depth] * self.number.size))
            self._rows(f, stores, axes, row, depth + 1, row0, rows, pitches)

    def _entry(self) -> None:
        f = self.module.function(f"define internal void {self.name('run')}(ptr %args)")
        packs = self.conv.group.extent * self.panels
        worth = self.k * self.conv.filters.extent * self.conv.group.extent > MIN_PARALLEL_WEIGHTS
        run_chunks(self.module, f, self.name("pack"), packs, worth)
        self.run_storing(f, self.name("chunk"), self.conv.flops() > MAX_SERIAL_FLOPS)
