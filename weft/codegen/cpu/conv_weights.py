"""Weight gradient, and every convolution whose window is larger than its output: dot products along pixels.

result[filter, column] with column = (channel, tap): both operands are copied to the same pixel positions (the
weights operand with zeros where the image copy has borders), so that a column is the image copy at a constant
displacement and the sum runs over whole vectors, their lanes partial sums. Blocks of images x rows are summed in
order into ``parts`` partial results, a fixed range of blocks each, and these are added in order: nothing depends
on threads.
"""

from __future__ import annotations

from math import prod

from weft.codegen.cpu.conv_epilogue import Stores
from weft.codegen.cpu.conv_forward import INLINE, digits, line, minimum, parallel_chunks
from weft.codegen.cpu.conv_match import Conv, coefficient
from weft.codegen.cpu.conv_pack import copy_run, memory, pack_image, zero_fill
from weft.codegen.cpu.conv_layout import even, make_layout
from weft.codegen.cpu.conv_tile import Number, dot_tile
from weft.codegen.cpu.isa import ISA
from weft.codegen.cpu.text import Function, Module
from weft.schedule.kernel import Axis, Kernel

BLOCK = 96 * 1024  # bytes of a block's copies
ROWS, COLUMNS = 4, 3
CHUNKS = 8


class WeightGradient:
    def __init__(self, kernel: Kernel, conv: Conv, isa: ISA, module: Module, prefix: str) -> None:
        self.kernel, self.conv, self.isa = kernel, conv, isa
        accum = conv.contraction.accum
        self.number = Number("float" if accum.itemsize == 4 else "double", accum.itemsize, isa.lanes(accum.itemsize))
        self.module, self.prefix = module, prefix
        self.slots = len(kernel.inputs) + len(kernel.outputs) + len(kernel.scalars)
        size, lanes = accum.itemsize, self.number.lanes
        windows, images = conv.windows, conv.chan.extent
        self.columns = conv.free.extent * prod(w.tap.extent for w in windows)
        whole = windows[0].pixel.extent

        def cost(n: int, rows: int) -> int:
            layout = make_layout(conv, n, rows, size)
            return (conv.free.extent * layout.chan_pitch + conv.filters.extent * layout.plane) * size

        rows = whole
        while rows > 1 and cost(1, even(whole, rows)) > 3 * BLOCK:
            rows = even(whole, rows) - 1
        rows = even(whole, rows)
        n = 1
        if rows == whole:
            while n < images and n < 8 and cost(n + 1, rows) <= BLOCK and images >= 8 * (n + 1):
                n += 1
            n = even(images, n)
        self.layout = make_layout(conv, n, rows, size)
        self.pixels = (rows, *(w.pixel.extent for w in windows[1:]))
        self.image_blocks, self.row_blocks = -(-images // n), -(-whole // rows)
        blocks = self.image_blocks * self.row_blocks
        row_tiles = -(-conv.filters.extent // ROWS)
        self.filter_groups = max(1, min(CHUNKS, row_tiles // 4))
        self.parts = min(blocks, -(-CHUNKS // self.filter_groups), max(1, (32 << 20) // (self.columns * conv.filters.extent * size)))
        self.blocks_a_part = -(-blocks // self.parts)
        self.parts = -(-blocks // self.blocks_a_part)
        self.tiles_a_group = -(-row_tiles // self.filter_groups)
        self.filter_groups = -(-row_tiles // self.tiles_a_group)
        self.blocks, self.row_tiles = blocks, row_tiles

        # positions of a block, from its first to one past its last pixel, in whole vectors
        self.steps = -(-self.layout.span(len(windows), self.pixels) // lanes)
        self.joined = -(-self.layout.span(len(windows) + 1, self.pixels) // lanes)
        self.join = self.joined <= self.layout.images * self.steps
        room = (self.joined if self.join else self.steps) * lanes
        self.grad_pitch = -(-max(self.layout.plane, room + (self.layout.images - 1) * self.layout.image_pitch) // (64 // size)) * (64 // size)
        if self.grad_pitch * size // 64 % 2 == 0:
            self.grad_pitch += 64 // size
        self.image_bytes = line((conv.free.extent * self.layout.chan_pitch + lanes + self.layout.overlap) * size)
        self.grad_filters = self.tiles_a_group * ROWS
        self.worker = self.image_bytes + line(self.grad_filters * self.grad_pitch * size)
        self.filters_padded = row_tiles * ROWS
        self.columns_padded = -(-self.columns // lanes) * lanes + lanes
        self.part_bytes = line(self.filters_padded * self.columns_padded * size)
        self.shared = self.base = conv.group.extent * self.parts * self.part_bytes

    def name(self, part: str) -> str:
        return f"@{self.prefix}.{part}"

    def generate(self, base: int) -> None:
        """Emit ``void @prefix.run(ptr args)``. base: where the workers' scratch begins."""
        self.base = base
        for columns in {min(COLUMNS, self.columns), self.columns % COLUMNS or min(COLUMNS, self.columns)}:
            dot_tile(self.module, self.number, self.name(f"dot{columns}"), ROWS, columns, self.grad_pitch, self.columns_padded)
        self._displacements()
        self._chunk()
        self._finish()
        self._entry()

    def _argument(self, f: Function, index: int) -> str:
        return f.load("ptr", f.offset("%args", 8 * index))

    def _displacements(self) -> None:
        """Where each column begins in the image copy, in bytes."""
        size, layout = self.number.size, self.layout
        places = [c * layout.chan_pitch + t for c in range(self.conv.free.extent) for t in layout.taps]
        words = ", ".join(f"i64 {p * size}" for p in places)
        self.module.globals.append(f"{self.name('columns')} = private unnamed_addr constant [{len(places)} x i64] [{words}]")

    def _chunk(self) -> None:
        conv, layout, number, size = self.conv, self.layout, self.number, self.number.size
        f = self.module.function(f"define internal void {self.name('chunk')}(ptr %args, i64 %chunk, i64 %worker)")
        group, part, filter_group = digits(f, "%chunk", (conv.group.extent, self.parts, self.filter_groups))
        scratch = self._argument(f, self.slots)
        image = f.offset(scratch, f.add(f.mul("%worker", self.worker), self.base))
        grad = f.offset(image, self.image_bytes)
        result = f.offset(scratch, f.mul(f.add(f.mul(group, self.parts), part), self.part_bytes))
        tile0 = f.mul(filter_group, self.tiles_a_group)
        tile1 = minimum(f, f.add(tile0, self.tiles_a_group), self.row_tiles)
        with f.loop(f.mul(tile0, ROWS * self.columns_padded * size), f.mul(tile1, ROWS * self.columns_padded * size), number.lanes * size) as at:
            f.store(number.vector, "zeroinitializer", f.offset(result, at), size)
        # past the last channel a vector may read on: let it find zeros
        zero_fill(f, number, f.offset(image, conv.free.extent * layout.chan_pitch * size), number.lanes)
        image_source = self._operand(f, conv.image.buffer, coefficient(conv.image.flat(), conv.group), group)
        grad_source = self._operand(f, conv.weights.buffer, coefficient(conv.weights.flat(), conv.group), group)
        start = f.mul(part, self.blocks_a_part)
        with f.loop(start, minimum(f, f.add(start, self.blocks_a_part), self.blocks)) as block:
            image_block, row_block = digits(f, block, (self.image_blocks, self.row_blocks))
            first, row0 = f.mul(image_block, layout.images), f.mul(row_block, layout.rows)
            images = minimum(f, f.let(f"sub i64 {conv.chan.extent}, {first}"), layout.images)
            rows = minimum(f, f.let(f"sub i64 {conv.windows[0].pixel.extent}, {row0}"), layout.rows)
            pack_image(f, conv, layout, number, image_source, image, conv.free, conv.free.extent, conv.chan, first, images, row0)
            self._pad_tail(f, image)
            self._pack_grad(f, grad_source, grad, tile0, tile1, first, images, row0, rows)
            if self.join:
                spans: str | int = 1
                steps: str | int = self.joined
                with_images = f.add(f.mul(f.let(f"sub i64 {images}, 1"), layout.image_pitch), self.layout.span(len(conv.windows), self.pixels))
                steps = f.let(f"udiv i64 {f.add(with_images, number.lanes - 1)}, {number.lanes}")
            else:
                spans, steps = images, self.steps
            with f.loop(tile0, tile1) as t:
                rows_at = f.offset(grad, f.mul(f.let(f"sub i64 {t}, {tile0}"), ROWS * self.grad_pitch * size))
                out = f.offset(result, f.mul(t, ROWS * self.columns_padded * size))
                whole = self.columns // COLUMNS * COLUMNS

                def call(width: int, j: str | int, rows_at: str = rows_at, out: str = out) -> None:
                    places = [
                        f.offset(image, f.load("i64", f.element(self.name("columns"), "i64", f.add(j, k)))) for k in range(width)
                    ]
                    columns = ", ".join(f"ptr {p}" for p in places)
                    at = f.offset(out, f.mul(j, size))
                    f.do(
                        f"call void {self.name(f'dot{width}')}(ptr {rows_at}, {columns}, ptr {at}, i64 {spans}, i64 {steps}, "
                        f"i64 {layout.image_pitch * size})"
                    )

                if whole:
                    with f.loop(0, whole, COLUMNS) as j:
                        call(COLUMNS, j)
                if self.columns % COLUMNS:
                    call(self.columns % COLUMNS, whole)
        f.do("ret void")

    def _operand(self, f: Function, buffer, coef: int, group: str) -> str:
        return f.offset(self._argument(f, buffer.id), f.mul(group, coef * buffer.dtype.itemsize))

    def _pad_tail(self, f: Function, image: str) -> None:
        """Zeros between the last phase's plane and the next channel: what a vector reads there meets zeros only."""
        layout, size = self.layout, self.number.size
        used = len(layout.phases) * layout.plane
        if layout.chan_pitch > used:
            with f.loop(0, self.conv.free.extent) as c:
                at = f.offset(image, f.mul(c, layout.chan_pitch * size))
                zero_fill(f, self.number, f.offset(at, used * size), layout.chan_pitch - used)

    def _pack_grad(
        self, f: Function, source: str, target: str, tile0: str, tile1: str, first: str, images: str, row0: str, rows: str
    ) -> None:
        """[filter][image][row]...: the weights operand at the image copy's positions, zeros between."""
        conv, layout, number, size = self.conv, self.layout, self.number, self.number.size
        buffer, flat = conv.weights.buffer, conv.weights.flat()
        _, width = memory(buffer)
        whole_plane = self.grad_pitch
        filter0 = f.mul(tile0, ROWS)
        count = f.mul(f.let(f"sub i64 {tile1}, {tile0}"), ROWS)

        def copy(depth: int, at: str, to: str) -> None:
            w = conv.windows[depth]
            unit = coefficient(flat, w.pixel)
            if depth == len(conv.windows) - 1:
                copy_run(f, buffer, number, at, to, w.pixel.extent, unit)
                zero_fill(f, number, f.offset(to, w.pixel.extent * size), layout.pitches[depth - 1] - w.pixel.extent)
                return
            with f.loop(0, rows if depth == 0 else w.pixel.extent) as r:
                source_row = f.add(r, row0) if depth == 0 else r
                here = f.offset(to, f.mul(r, layout.pitches[depth] * size))
                copy(depth + 1, f.offset(at, f.mul(source_row, unit * width)), here)
            outer = layout.pitches[depth - 1] if depth else layout.image_pitch
            if depth:
                zero_fill(f, number, f.offset(to, w.pixel.extent * layout.pitches[depth] * size), outer - w.pixel.extent * layout.pitches[depth])
            else:
                zero_run(f, number, to, f.mul(rows, layout.pitches[0]), outer)

        with f.loop(0, count) as i:
            o = f.add(filter0, i)
            to = f.offset(target, f.mul(i, whole_plane * size))
            real = f.let(f"icmp slt i64 {o}, {conv.filters.extent}")
            with f.when(real):
                at = f.offset(source, f.mul(o, coefficient(flat, conv.filters) * width))
                at = f.offset(at, flat.const * width)
                with f.loop(0, images) as n:
                    here = f.offset(at, f.mul(f.add(n, first), coefficient(flat, conv.chan) * width))
                    copy(0, here, f.offset(to, f.mul(n, layout.image_pitch * size)))
                zero_run(f, number, to, f.mul(images, layout.image_pitch), whole_plane)
            with f.when(f.let(f"xor i1 {real}, true")):
                zero_run(f, number, to, 0, whole_plane)

    def _finish(self) -> None:
        """Chunk of finishing: one tile of filters of one group: add the parts, emit the stores."""
        conv, number, size = self.conv, self.number, self.number.size
        f = self.module.function(f"define internal void {self.name('finish')}(ptr %args, i64 %chunk, i64 %worker)")
        group, o = digits(f, "%chunk", (conv.group.extent, conv.filters.extent))
        base = f.offset(self._argument(f, self.slots), f.mul(group, self.parts * self.part_bytes))
        row = f.offset(base, f.mul(o, self.columns_padded * size))
        if self.parts > 1:
            with f.loop(0, (self.columns_padded - number.lanes) * size, number.lanes * size) as at:
                here = f.offset(row, at)
                total = f.load(number.vector, here, size)
                for p in range(1, self.parts):
                    more = f.load(number.vector, f.offset(here, p * self.part_bytes), size)
                    total = f.let(f"fadd {number.vector} {total}, {more}")
                f.store(number.vector, total, here, size)
        stores = Stores(f, self.module, self.isa, self.kernel, conv, number)
        axes: dict[Axis, str] = {conv.group: group, conv.filters: o}
        nest = [conv.free, *(w.tap for w in conv.windows[:-1])]
        along = conv.windows[-1].tap
        pitch = [along.extent] * len(nest)
        for i in range(len(nest) - 2, -1, -1):
            pitch[i] = pitch[i + 1] * nest[i + 1].extent

        def walk(depth: int, at: str) -> None:
            if depth == len(nest):
                stores.row(axes, along, at)
                return
            with f.loop(0, nest[depth].extent) as i:
                axes[nest[depth]] = i
                walk(depth + 1, f.offset(at, f.mul(i, pitch[depth] * size)))

        walk(0, row)
        f.do("ret void")

    def _entry(self) -> None:
        f = self.module.function(f"define internal void {self.name('run')}(ptr %args)")
        groups = self.conv.group.extent
        parallel_chunks(f, self.module, self.name("chunk"), groups * self.parts * self.filter_groups, self.conv.flops() > INLINE)
        results = groups * self.conv.filters.extent * self.columns
        parallel_chunks(f, self.module, self.name("finish"), groups * self.conv.filters.extent, results > 1 << 15)
        f.do("ret void")


def zero_run(f: Function, number: Number, pointer: str, start: str | int, end: int) -> None:
    """Zeros from element ``start`` to ``end``, both known to be few or aligned to nothing."""
    lanes, size = number.lanes, number.size
    left = f.let(f"sub i64 {end}, {start}")
    vectors = f.let(f"and i64 {left}, {-lanes}")
    middle = f.add(start, vectors)
    with f.loop(start, middle, lanes) as i:
        f.store(number.vector, "zeroinitializer", f.element(pointer, number.type, i), size)
    with f.loop(middle, end) as i:
        f.store(number.type, "0.0", f.element(pointer, number.type, i), size)
