"""Weight gradients of few filters or columns, and convolutions with windows larger than their output: dot products along pixels.

Computes result[filter, column] with column = (channel, tap). Both operands are copied to the same pixel positions (the weights
operand with zeros where the image copy has borders), so a column is the image copy at a constant displacement, and the sum runs
over whole vectors, whose lanes are partial sums. Blocks of images x rows are summed in order, first within groups of GROUP
blocks, then over groups, into ``parts`` partial results of a fixed range of blocks each, which are added in order. Results do
not depend on threads, and no chain of additions is long.

A vector that reaches beyond a row's pixels multiplies zeros of the weights operand by image elements that belong to other taps.
If such an element is infinite or NaN, a sum is not finite; the chunk is then recomputed from copies of the columns that have
zeros there, so only a column's own elements enter its sums.
"""

from __future__ import annotations

from contextlib import nullcontext
from math import prod

from weft.devices.cpu.convolution import pack, tiling
from weft.devices.cpu.convolution.epilogue import ColumnStores, SumPart
from weft.devices.cpu.convolution.forward import MAX_SERIAL_FLOPS, emit_digits
from weft.devices.cpu.convolution.tile import dot_tile, emit_table
from weft.devices.cpu.convolution.tiling import ImageLayout, even_block, layout_in_place, make_layout, readable_in_place
from weft.devices.cpu.emit.chunks import run_chunks
from weft.devices.cpu.emit.isa import ISA, round_to_line
from weft.devices.cpu.emit.text import Function, Module
from weft.kernel.convolution import Conv, coefficient
from weft.kernel.ir import Kernel, Reduction

BLOCK = 384 * 1024  # largest size of a block's copies, in bytes
RUN = 640  # positions of a block that make the inner loop long enough
CHUNKS = 8  # aimed number of chunks
STEPS = 256  # vectors of one chain of additions
GROUP = 64  # blocks of a group, whose sums are added before those of other groups


def choose_dot(isa: ISA, filters: int, columns: int) -> tuple[int, int]:
    """Return the filters and columns of the tile with the fewest estimated cycles: FMAs, loads and latency."""
    best = None
    for rows in range(1, min(filters, 8) + 1):
        for cols in range(1, min(columns, 8) + 1):
            if rows * cols + min(rows, cols) + 1 > isa.registers:
                continue
            cost = 0.0
            for r, times_r in ((rows, filters // rows), (filters % rows, 1)):
                for c, times_c in ((cols, columns // cols), (columns % cols, 1)):
                    if r and c:
                        cost += times_r * times_c * max(r * c / 2, (r + 1.5 * c) / 2, 4.2)
            if best is None or cost < best[0] * 0.999:
                best = (cost, rows, cols)
    assert best is not None
    return best[1], best[2]


class WeightGradient(SumPart):
    """The generator of a convolution as dot products along pixels."""

    def __init__(
        self, kernel: Kernel, conv: Conv, isa: ISA, module: Module, prefix: str, tallies: tuple[Reduction, ...] = (),
    ) -> None:
        super().__init__(kernel, conv, isa, module, prefix, tallies)
        self.storing = conv.group.extent * conv.filters.extent
        size, lanes = self.number.size, self.number.lanes
        windows, images, filters = conv.windows, conv.chan.extent, conv.filters.extent
        taps = prod(w.tap.extent for w in windows)
        self.columns = conv.free.extent * taps
        self.tile_rows, self.tile_columns = choose_dot(isa, filters, self.columns)
        row_tiles = -(-filters // self.tile_rows)
        small = conv.flops() <= MAX_SERIAL_FLOPS
        groups = 1 if small else max(1, min(CHUNKS, filters * taps // 400, row_tiles))
        self.tiles_a_group = -(-row_tiles // groups)
        self.filter_groups = -(-row_tiles // self.tiles_a_group)
        self.row_tiles = row_tiles
        flat = conv.weights.flat()
        total_rows = windows[0].pixel.extent
        self.in_place = len(windows) == 2 and readable_in_place(conv, size)
        self.direct = (
            len(windows) == 2
            and (conv.free.extent * windows[1].tap.extent <= tiling.MAX_SPREAD_PHASES or self.in_place)
            and conv.weights.buffer.dtype is conv.contraction.accum
            and coefficient(flat, windows[1].pixel) == 1
            and (total_rows == 1 or coefficient(flat, windows[0].pixel) == windows[1].pixel.extent)
        )
        self.in_place = self.in_place and self.direct
        self.path = "convolution weights" + (" in place" if self.in_place else " direct" if self.direct else "")
        group_filters = 0 if self.direct else min(filters, self.tiles_a_group * self.tile_rows)

        def layout(n: int, rows: int) -> ImageLayout:
            return layout_in_place(conv, rows) if self.in_place else make_layout(conv, n, rows, size, self.direct)

        def fits(x: ImageLayout) -> bool:
            return self.in_place or (conv.free.extent * x.chan_pitch + group_filters * x.plane) * size <= BLOCK

        rows = total_rows
        run = RUN // 2 if self.in_place else 2 * RUN
        while rows > 1 and (not fits(layout(1, rows)) or layout(1, rows).plane > run):
            rows = even_block(total_rows, rows - 1)
            while self.direct and total_rows % rows:
                rows -= 1
        if self.direct and layout(1, rows).plane < 96 and layout(1, total_rows).plane <= 8 * RUN and fits(layout(1, total_rows)):
            rows = total_rows  # no divisor results in good blocks
        n = 1
        if rows == total_rows and not self.in_place:
            while n < images and (n + 1) * layout(1, rows).plane <= RUN and fits(layout(n + 1, rows)):
                n += 1
            n = even_block(images, n)
        self.layout = layout(n, rows)
        self.pixels = (rows, *(w.pixel.extent for w in windows[1:]))
        self.image_blocks, self.row_blocks = -(-images // n), -(-total_rows // rows)
        self.blocks = self.image_blocks * self.row_blocks
        room = max(1, (32 << 20) // (self.columns * filters * size))
        parts = 1 if small else min(self.blocks, -(-CHUNKS // self.filter_groups), room)
        self.blocks_a_part = -(-self.blocks // parts)
        self.parts = -(-self.blocks // self.blocks_a_part)

        # positions of a block, from its first to its last pixel
        positions = self.layout.span(len(windows), self.pixels)
        self.tail = positions % lanes if self.direct else 0
        self.steps = positions // lanes if self.direct else -(-positions // lanes)
        joined = -(-self.layout.span(len(windows) + 1, self.pixels) // lanes)
        self.join = not self.direct and joined <= self.layout.images * self.steps
        unit = 64 // size
        reach = max(self.layout.plane, self.steps * lanes + (n - 1) * self.layout.image_pitch, joined * lanes)
        self.grad_pitch = -(-reach // unit) * unit
        if self.grad_pitch // unit % 2 == 0:
            self.grad_pitch += unit
        image = conv.free.extent * self.layout.chan_pitch + lanes + self.layout.overlap
        self.image_bytes = 0 if self.in_place else round_to_line(image * size)
        self.copies_at = self.image_bytes + round_to_line(group_filters * self.grad_pitch * size)  # copies of a tile's columns
        self.worker = self.copies_at + (0 if self.direct else self.tile_columns * self.grad_pitch * size)
        # layout of sums: [filter tile][column tile][filter][column], each tile padded to 16 bytes
        self.column_tiles = -(-self.columns // self.tile_columns)
        self.slots = -(-self.tile_rows * self.tile_columns * size // 16) * 16
        self.part_bytes = round_to_line(self.row_tiles * self.column_tiles * self.slots)
        self.worker = max(self.worker, round_to_line((self.columns + lanes) * size))
        # columns whose planes stay in the L1 cache during the loop over filters
        planes = max(1, 16 * 1024 // (min(self.layout.plane, 4 * RUN) * size))
        self.columns_a_turn = -(-planes * taps // self.tile_columns) * self.tile_columns
        self.pieces = max(1, -(-self.steps // STEPS))
        # a part with several groups has two regions: the sum of the current group, then the sum of finished groups
        self.region = self.part_bytes * (2 if self.blocks_a_part > GROUP else 1)
        self.shared = self.base = conv.group.extent * self.parts * self.region

    def generate(self, base: int) -> None:
        self.base = base
        pitch = coefficient(self.conv.weights.flat(), self.conv.filters) if self.direct else self.grad_pitch

        def sizes(total: int, tile: int) -> list[int]:
            """Return the sizes of whole tiles and of the last one, if they occur."""
            return [tile] * (total >= tile) + [total % tile] * (total % tile > 0)

        for rows in sizes(self.conv.filters.extent, self.tile_rows):
            for columns in sizes(self.columns, self.tile_columns):
                for tail in {self.tail} | ({0} if self.pieces > 1 else set()):
                    name = self._tile(rows, columns, tail)
                    if self.module.once(name):
                        dot_tile(self.module, self.number, name, rows, columns, pitch, self.tile_columns, tail)
        self._displacements()
        if not self.direct:
            self._fill()
        self._emit_chunk("chunk", clean=False)
        self._finish()
        self._entry()
        if not self.direct:  # emitted last, to keep code that rarely runs away from the hot code
            self._emit_chunk("again", clean=True)
            pack.pack_columns(self.module, self.name("columns"), self.conv, self.layout, self.number, self.grad_pitch)

    def _tile(self, rows: int, columns: int, tail: int) -> str:
        """Return the name of a tile's function. Phases of a kernel with equal tiles share one function."""
        pitch = coefficient(self.conv.weights.flat(), self.conv.filters) if self.direct else self.grad_pitch
        return f"@{self.kernel.name}.dot{rows}x{columns}.{pitch}.{self.tile_columns}.{tail}"

    def _displacements(self) -> None:
        """Emit the table of each column's displacement in the image copy, in bytes."""
        size, layout = self.number.size, self.layout
        places = [c * layout.chan_pitch + t for c in range(self.conv.free.extent) for t in layout.taps]
        self.places = emit_table(self.module, [p * size for p in places])

    def _fill(self) -> None:
        """Emit the function that copies a block of both operands. Both chunk functions call it."""
        conv, layout, number = self.conv, self.layout, self.number
        numbers = "%filter0", "%filter1", "%first", "%images", "%row0", "%rows"
        pointers = "%image_source", "%image", "%grad_source", "%grad"
        arguments = [*(f"ptr {p}" for p in pointers), *(f"i64 {n}" for n in numbers)]
        f = self.module.function(f"define internal void {self.name('fill')}({', '.join(arguments)})")
        pack.pack_image(self, f, layout, "%image_source", "%image", (conv.free, conv.chan), "%first", "%images", "%row0")
        pack.zero_unused(f, conv, layout, number, "%image", "%images")
        self._pack_grad(f, "%grad_source", "%grad", *numbers)

    def _emit_chunk(self, name: str, clean: bool) -> None:
        """Emit ``void name(ptr args, i64 chunk, i64 worker)``: some filters of a part. clean: use copies of the columns."""
        conv, layout, number, size = self.conv, self.layout, self.number, self.number.size
        f = self.module.function(f"define internal void {self.name(name)}(ptr %args, i64 %chunk, i64 %worker)")
        group, part, filter_group = emit_digits(f, "%chunk", (conv.group.extent, self.parts, self.filter_groups))
        scratch = self.argument(f, self.scratch_slot)
        image = f.offset(scratch, f.add(f.mul("%worker", self.worker), self.base))
        grad = f.offset(image, self.image_bytes)
        result = f.offset(scratch, f.mul(f.add(f.mul(group, self.parts), part), self.region))
        tile0 = f.mul(filter_group, self.tiles_a_group)
        tile1 = f.minimum(f.add(tile0, self.tiles_a_group), self.row_tiles)
        filter0 = f.mul(tile0, self.tile_rows)
        filter1 = f.minimum(f.mul(tile1, self.tile_rows), conv.filters.extent)
        row_bytes = self.column_tiles * self.slots
        own = f.mul(tile0, row_bytes), f.mul(tile1, row_bytes)
        copies = f.offset(image, self.copies_at)
        for place in range(0, self.region, self.part_bytes):
            pack.zero_groups(f, number, f.offset(result, place), *own)
        if not self.direct:  # vectors may read past the last channel
            behind = f.offset(image, conv.free.extent * layout.chan_pitch * size)
            pack.zero_fill(f, number, behind, number.lanes + layout.overlap)
        image_source = self.operand(f, conv.image, conv.group, group)
        grad_source = self.operand(f, conv.weights, conv.group, group)
        start = f.mul(part, self.blocks_a_part)
        with f.loop(start, f.minimum(f.add(start, self.blocks_a_part), self.blocks)) as block:
            image_block, row_block = emit_digits(f, block, (self.image_blocks, self.row_blocks))
            first, row0 = f.mul(image_block, layout.images), f.mul(row_block, layout.rows)
            images = f.minimum(f.let(f"sub i64 {conv.chan.extent}, {first}"), layout.images)
            rows = f.minimum(f.let(f"sub i64 {conv.windows[0].pixel.extent}, {row0}"), layout.rows)
            if self.in_place:
                at = f.add(f.mul(first, coefficient(conv.image.flat(), conv.chan)), f.mul(row0, layout.pitches[0]))
                image = f.offset(image_source, f.mul(f.add(at, conv.image_base), size))
            elif self.direct:
                pack.pack_image(self, f, layout, image_source, image, (conv.free, conv.chan), first, images, row0)
            if self.direct:
                flat = conv.weights.flat()
                at = f.add(f.mul(first, coefficient(flat, conv.chan)), f.mul(row0, layout.pitches[0]))
                grad, row_span = f.offset(grad_source, f.mul(f.add(at, flat.const), size)), coefficient(flat, conv.chan) * size
                pitch = coefficient(flat, conv.filters)
            else:
                numbers = ", ".join(f"i64 {n}" for n in (filter0, filter1, first, images, row0, rows))
                pointers = ", ".join(f"ptr {p}" for p in (image_source, image, grad_source, grad))
                f.do(f"call void {self.name('fill')}({pointers}, {numbers})")
                row_span, pitch = layout.image_pitch * size, self.grad_pitch
            spans: str | int = images
            steps: str | int = self.steps
            if self.join:
                more = f.mul(f.let(f"sub i64 {images}, 1"), layout.image_pitch)
                positions = f.add(more, layout.span(len(conv.windows), self.pixels) + number.lanes - 1)
                spans, steps = 1, f.let(f"udiv i64 {positions}, {number.lanes}")

            def call(filters: int, width: int, rows_at: str, out: str, j: str | int) -> None:
                if clean:
                    places = [f.offset(copies, k * self.grad_pitch * size) for k in range(width)]
                else:
                    places = [f.offset(image, f.load("i64", f.element(self.places, "i64", f.add(j, k)))) for k in range(width)]
                tile = j // self.tile_columns if isinstance(j, int) else f.let(f"udiv i64 {j}, {self.tile_columns}")
                to = f.offset(out, f.mul(tile, self.slots))

                def piece(start: str | int, count: str | int, tail: int) -> None:
                    at = f.mul(start, number.lanes * size)
                    moved = ", ".join(f"ptr {f.offset(p, at)}" for p in places)
                    f.do(
                        f"call void {self._tile(filters, width, tail)}(ptr {f.offset(rows_at, at)}, {moved}, ptr {to}, "
                        f"i64 {spans}, i64 {count}, i64 {row_span}, i64 {layout.image_pitch * size})"
                    )

                done = (self.pieces - 1) * STEPS  # if there are several pieces, ``spans`` is 1
                if done:
                    with f.loop(0, done, STEPS) as start:
                        piece(start, STEPS, 0)
                piece(done, f.add(steps, -done), self.tail)

            def columns_of(filters: int, t: str, j0: str, j1: str) -> None:
                o = f.mul(t, self.tile_rows)
                row = o if self.direct else f.let(f"sub i64 {o}, {filter0}")
                rows_at, out = f.offset(grad, f.mul(row, pitch * size)), f.offset(result, f.mul(t, row_bytes))
                if whole:
                    with f.loop(j0, j1, self.tile_columns) as j:
                        call(filters, self.tile_columns, rows_at, out, j)
                if self.columns > whole:
                    with f.when(f.let(f"icmp sge i64 {f.add(j0, turn)}, {self.columns}")):
                        call(filters, self.columns - whole, rows_at, out, whole)

            whole = self.columns // self.tile_columns * self.tile_columns
            ragged = conv.filters.extent % self.tile_rows
            turn = self.tile_columns if clean else self.columns_a_turn
            with f.loop(0, self.columns, turn) as j0:
                if clean:
                    count = f.minimum(f.let(f"sub i64 {self.columns}, {j0}"), turn)
                    arguments = f"ptr {image}, ptr {f.element(self.places, 'i64', j0)}, ptr {copies}, i64 {count}"
                    f.do(f"call void {self.name('columns')}({arguments}, i64 {images}, i64 {rows})")
                with f.loop(tile0, tile1) as t:
                    j1 = f.minimum(f.add(j0, turn), whole)
                    if ragged:
                        is_last = f.let(f"icmp eq i64 {t}, {self.row_tiles - 1}")
                        with f.when(is_last):
                            columns_of(ragged, t, j0, j1)
                    if not ragged or self.row_tiles > 1:
                        with f.when(f.let(f"xor i1 {is_last}, true")) if ragged else nullcontext():
                            columns_of(self.tile_rows, t, j0, j1)
            if self.region > self.part_bytes:
                nth = f.let(f"sub i64 {block}, {start}")
                with f.when(f.let(f"icmp eq i64 {f.let(f'urem i64 {nth}, {GROUP}')}, {GROUP - 1}")):
                    pack.add_and_clear(f, number, f.offset(result, self.part_bytes), result, *own)
        if self.region > self.part_bytes:
            pack.add_and_clear(f, number, f.offset(result, self.part_bytes), result, *own)
        if not clean and not self.direct:  # every position of a direct block is a pixel
            sums = f.offset(result, self.region - self.part_bytes)
            is_not_finite = f.let(f"xor i1 {pack.all_finite(f, self.module, number, sums, *own)}, true")
            with f.when(is_not_finite):
                f.do(f"call void {self.name('again')}(ptr %args, i64 %chunk, i64 %worker)")

    def _pack_grad(
        self, f: Function, source: str, target: str, filter0: str, filter1: str, first: str, images: str, row0: str, rows: str
    ) -> None:
        """Copy the weights operand to the image copy's positions, [filter][image][row]..., with zeros in between."""
        conv, layout, number = self.conv, self.layout, self.number
        buffer, flat = conv.weights.buffer, conv.weights.flat()
        width = buffer.dtype.bytes
        steps = coefficient(flat, conv.chan), tuple(coefficient(flat, w.pixel) for w in conv.windows)
        block = f.add(f.mul(first, steps[0]), f.mul(row0, steps[1][0]))
        source = f.offset(source, f.mul(f.add(block, flat.const), width))
        with f.loop(0, f.let(f"sub i64 {filter1}, {filter0}")) as i:
            at = f.offset(source, f.mul(f.add(filter0, i), coefficient(flat, conv.filters) * width))
            to = f.offset(target, f.mul(i, self.grad_pitch * number.size))
            pack.pack_pixels(f, conv, layout, number, buffer, at, to, *steps, images, rows, self.grad_pitch)

    def _finish(self) -> None:
        """Emit the function that adds the parts of one filter of one group in order, and stores the results; a chunk."""
        conv, number, size, width = self.conv, self.number, self.number.size, self.tile_columns
        f = self.module.function(f"define internal void {self.name('finish')}(ptr %args, i64 %chunk, i64 %worker)")
        stores = ColumnStores(f, self, conv, number)
        group, o = emit_digits(f, "%chunk", (conv.group.extent, conv.filters.extent))
        scratch = self.argument(f, self.scratch_slot)
        row = f.offset(scratch, f.add(f.mul("%worker", self.worker), self.base))
        t, i = f.let(f"udiv i64 {o}, {self.tile_rows}"), f.let(f"urem i64 {o}, {self.tile_rows}")
        at = f.add(f.mul(t, self.column_tiles * self.slots), f.mul(i, width * size))
        whole_at = self.region - self.part_bytes  # the final sums of a part
        tiles = f.offset(scratch, f.add(f.add(f.mul(group, self.parts * self.region), at), whole_at))

        def gather(tile: str | int, count: int) -> None:
            tile_sums, to = f.offset(tiles, f.mul(tile, self.slots)), f.offset(row, f.mul(tile, width * size))
            for j in range(count):
                total = f.load(number.type, f.offset(tile_sums, j * size))
                for p in range(1, self.parts):
                    total = f.let(
                        f"fadd {number.type} {total}, {f.load(number.type, f.offset(tile_sums, p * self.region + j * size))}"
                    )
                f.store(number.type, total, f.offset(to, j * size))

        whole = self.columns // width
        with f.loop(0, whole) as tile:
            gather(tile, width)
        if self.columns % width:
            gather(whole, self.columns % width)
        stores.emit({conv.group: group, conv.filters: o}, row)
        stores.end()

    def _entry(self) -> None:
        f = self.module.function(f"define internal void {self.name('run')}(ptr %args)")
        groups = self.conv.group.extent
        chunks = groups * self.parts * self.filter_groups
        run_chunks(self.module, f, self.name("chunk"), chunks, self.conv.flops() > MAX_SERIAL_FLOPS)
        self.run_storing(f, self.name("finish"), self.storing * self.columns > 1 << 15)
