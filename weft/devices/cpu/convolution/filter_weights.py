"""Weight gradients as vectors of filters: each number of the image is multiplied by a vector of filters of the other operand.

Computes result[filter, column] with column = (channel, tap). The image is copied once, with borders, to scratch that all chunks
read: [group][block of images][channel][image][row]...; if the copies are large, in rounds. A chunk computes one panel of filters
over its part of the pixels. It copies the other operand a *unit* at a time, as [pixel][filter], and a tile keeps the sums of some
columns in registers over at most CHAIN pixels of a unit. These sums are added in order, first within groups of GROUP units, then
over groups and rounds, into ``parts`` partial results of a fixed range each, which are added in order. So results do not depend
on threads, and no chain of additions is long.

Each product belongs to the sum it is added to, so infinities and NaN need no special treatment.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import prod

from weft.devices.cpu.convolution import pack
from weft.devices.cpu.convolution.epilogue import ColumnStores, SumPart
from weft.devices.cpu.convolution.forward import MAX_SERIAL_FLOPS, emit_digits
from weft.devices.cpu.convolution.pairs import call_packer, emit_packers
from weft.devices.cpu.convolution.tile import FilterTile, digest, emit_table, filter_tile
from weft.devices.cpu.convolution.tiling import even_block, make_layout
from weft.devices.cpu.emit.chunks import run_chunks
from weft.devices.cpu.emit.isa import ISA, round_to_line
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.product.pack import Packer
from weft.kernel.convolution import Conv, coefficient
from weft.kernel.ir import Axis, Kernel, Reduction

CHAIN = 200  # pixels of one chain of additions
UNIT = 960  # pixels of a unit: for each unit a panel's sums are read and written once
GROUP = 16  # units of a group, whose sums are added before those of other groups
CHUNKS = 8  # aimed number of chunks
MAX_COPY = 16 << 20  # bytes of the image copies of a round, unless one block has more
MAX_PARTS = 32 << 20  # bytes of all partial results
COPIED_CHANNELS = 32  # about as many channels of a block are copied by one chunk
TURN = 7.0  # estimated cycles to copy a vector of filters
MIN_EFFICIENCY = 0.75  # part of the FMA peak from which this generator is faster than dot products along pixels
MAX_CALLS = 4  # groups of taps up to which each has its own call, else a loop over a table


Bundle = tuple[int, tuple[tuple[int, int], ...]]  # first tap, and the groups from there on: (first, number of taps)


@dataclass(frozen=True, slots=True)
class Columns:
    """How the columns are divided into tiles: ``chans`` channels x a group of taps, with nv vectors of filters.

    cost: estimated cycles per pixel.
    """

    cost: float
    nv: int
    chans: int
    bundles: tuple[Bundle, ...]


def bundle_taps(taps: int, row: int, most: int) -> tuple[Bundle, ...]:
    """Divide the taps into groups of at most ``most``: whole rows of ``row`` taps, or, as a bundle, the parts of one row."""
    if most >= row:
        return tuple((t, ((0, min(most, taps - t)),)) for t in range(0, taps, most))
    parts = tuple((t, min(most, row - t)) for t in range(0, row, most))
    return tuple((r, parts) for r in range(0, taps, row))


def choose_columns(isa: ISA, vectors: int, channels: int, taps: int, row: int) -> Columns:
    """Return the tiles with the fewest estimated cycles per pixel: FMAs, loads and latency."""
    best: Columns | None = None
    for nv in range(1, min(4, vectors) + 1):
        limits = range(1, min(taps, (isa.registers - 1) // nv - 1) + 1)
        for most in sorted({limit // row * row or even_block(row, limit) for limit in limits}):
            bundles = bundle_taps(taps, row, most)
            for chans in range(1, min(channels, isa.registers // (most * nv)) + 1):
                if (chans * most + 1) * nv + 1 > isa.registers:
                    break
                cost = 0.0
                for u, times_u in ((chans, channels // chans), (channels % chans, 1)):
                    for v, times_v in ((nv, vectors // nv), (vectors % nv, 1)):
                        if u and v:
                            each = [max(u * t * v / 2, (u * t + v) / 2, 4.2) + 0.2 for _, pieces in bundles for _, t in pieces]
                            cost += times_u * times_v * sum(each)
                if best is None or cost < best.cost * 0.99:
                    best = Columns(cost, nv, chans, bundles)
    assert best is not None
    return best


def divide_columns(conv: Conv, isa: ISA) -> Columns:
    """Return the tiles of a convolution."""
    taps = [w.tap.extent for w in conv.windows]
    vectors = -(-conv.filters.extent // isa.lanes(conv.contraction.accum.bytes))
    return choose_columns(isa, vectors, conv.free.extent, prod(taps), taps[-1])


def is_efficient(conv: Conv, isa: ISA) -> bool:
    """Return whether vectors of filters pay: enough filters to fill vectors, and enough columns for each copied vector."""
    lanes = isa.lanes(conv.contraction.accum.bytes)
    filters, columns = conv.filters.extent, conv.free.extent * prod(w.tap.extent for w in conv.windows)
    cycles = divide_columns(conv, isa).cost + TURN * -(-filters // lanes)
    return filters * columns / (2 * lanes) >= MIN_EFFICIENCY * cycles


class FilterGradient(SumPart):
    """The generator of a weight gradient as vectors of filters."""

    path = "convolution filter weights"

    def __init__(
        self, kernel: Kernel, conv: Conv, isa: ISA, module: Module, prefix: str, tallies: tuple[Reduction, ...] = (),
    ) -> None:
        super().__init__(kernel, conv, isa, module, prefix, tallies)
        number, windows = self.number, conv.windows
        size, lanes = number.size, number.lanes
        images, filters, channels = conv.chan.extent, conv.filters.extent, conv.free.extent
        self.taps = prod(w.tap.extent for w in windows)
        self.vectors = -(-filters // lanes)
        self.tiles = divide_columns(conv, isa)
        self.panel_filters = self.tiles.nv * lanes
        self.panels = -(-self.vectors // self.tiles.nv)
        small = conv.flops() <= MAX_SERIAL_FLOPS
        self._choose_units(images)
        self._choose_layout(conv)
        groups = conv.group.extent
        self.block_bytes = round_to_line(channels * self.layout.chan_pitch * size)
        blocks = -(-images // self.layout.images)
        self.round_blocks = even_block(blocks, max(1, MAX_COPY // (groups * self.block_bytes)))
        self.rounds = -(-blocks // self.round_blocks)
        self.units = blocks * prod(self.box_counts)
        self.round_units = self.round_blocks * prod(self.box_counts)
        self.panel_bytes = channels * self.taps * self.panel_filters * size
        room = max(1, MAX_PARTS // (groups * self.panels * self.panel_bytes))
        parts = 1 if small else min(self.round_units, -(-CHUNKS // (groups * self.panels)), room)
        self.part_units = -(-self.round_units // parts)
        self.parts = -(-self.round_units // self.part_units)
        self.chans_a_copy = max(c for c in range(1, COPIED_CHANNELS + 1) if channels % c == 0)
        # if a part has several groups, a panel has two regions: the sums of finished groups, then those of the current group
        self.region = self.panel_bytes * (2 if self.rounds > 1 or self.part_units > GROUP else 1)
        self.sums_at = 64 + groups * self.round_blocks * self.block_bytes
        self.shared = self.base = round_to_line(self.sums_at + groups * self.parts * self.panels * self.region)
        self.row_pitch = -(-channels * self.taps // lanes) * lanes + lanes
        unit = self.layout.images * prod(self.box) * self.panel_filters
        self.worker = round_to_line(max(unit, lanes * self.row_pitch) * size)
        self.storing = groups * self.vectors

    def _choose_units(self, images: int) -> None:
        """Choose the images of a block, the pixels of a unit, and the chains.

        A unit is a ``box`` of pixels, ``box_counts`` boxes along each window. ``cut``: the first window that is not cut into
        single pixels.
        """
        extents = [w.pixel.extent for w in self.conv.windows]
        inner = [prod(extents[d + 1 :]) for d in range(len(extents))]
        cut = self.cut = next(d for d, n in enumerate(inner) if n <= CHAIN)
        total = UNIT if cut < len(extents) - 1 else CHAIN
        self.box = [1] * cut + [even_block(extents[cut], total // inner[cut])] + extents[cut + 1 :]
        self.box_counts = [-(-e // b) for e, b in zip(extents, self.box, strict=True)]
        pixels = prod(extents)
        self.block_images = even_block(images, max(1, UNIT // pixels))
        rows = even_block(self.box[cut], max(1, CHAIN // inner[cut]))
        self.chain = even_block(self.block_images, max(1, CHAIN // pixels)), rows

    def _choose_layout(self, conv: Conv) -> None:
        """Choose the layout of a copied block: positions in their order, or, if taps read few of them, by phase."""
        size, windows = self.number.size, conv.windows
        rows = windows[0].pixel.extent
        self.layout, self.copied = make_layout(conv, self.block_images, rows, size, overlapping=False), conv
        self.steps = self.layout.pitches
        if len(self.layout.phases) < prod(w.stride for w in windows) or all(w.stride == 1 for w in windows):
            return
        dense = tuple(
            replace(w, pixel=Axis(w.pixel.id, w.stride * (w.pixel.extent - 1) + 1), stride=1) for w in windows
        )
        self.copied = replace(conv, windows=dense)
        self.layout = make_layout(self.copied, self.block_images, dense[0].pixel.extent, size, overlapping=False)
        self.steps = tuple(w.stride * pitch for w, pitch in zip(windows, self.layout.pitches, strict=True))

    def generate(self, base: int) -> None:
        self.base = base
        filters, lanes = self.conv.filters.extent, self.number.lanes
        last = filters - (self.panels - 1) * self.panel_filters
        self.alike = self._find_alike()
        self.variants = {self.panel_filters, last} if self.panels > 1 else {last}
        self._emit_copy()
        for count in sorted(self.variants):
            self._emit_panel(count, -(-count // lanes))
        self._emit_chunk()
        self._finish()
        self._entry()

    def _emit_copy(self) -> None:
        """Emit the copy of some channels of a block of images, a chunk."""
        conv, layout = self.conv, self.layout
        slices = conv.free.extent // self.chans_a_copy
        f = self.module.function(f"define internal void {self.name('copy')}(ptr %args, i64 %chunk, i64 %worker)")
        group, place, part = emit_digits(f, "%chunk", (conv.group.extent, self.round_blocks, slices))
        scratch = self.argument(f, self.scratch_slot)
        block = self._nth(f, scratch, place, self.round_blocks)
        first = f.mul(block, layout.images)
        left = f.let(f"sub i64 {conv.chan.extent}, {first}")
        with f.when(f.let(f"icmp sgt i64 {left}, 0")):
            images = f.minimum(left, layout.images)
            chan = f.mul(part, self.chans_a_copy)
            width = conv.image.buffer.dtype.bytes
            source = f.offset(
                self.operand(f, conv.image, conv.group, group), f.mul(chan, coefficient(conv.image.flat(), conv.free) * width)
            )
            copy = f.add(f.mul(f.add(f.mul(group, self.round_blocks), place), self.block_bytes), 64)
            target = f.offset(f.offset(scratch, copy), f.mul(chan, layout.chan_pitch * self.number.size))
            axes = Axis(conv.free.id, self.chans_a_copy), conv.chan
            pack.pack_image(self, f, layout, source, target, axes, first, images, 0, self.copied)

    def _nth(self, f: Function, scratch: str, place: str, a_round: int) -> str:
        """Emit the number of a block or unit from its place in the round."""
        return f.add(f.mul(f.load("i64", scratch, 8), a_round), place) if self.rounds > 1 else place

    def _emit_chunk(self) -> None:
        """Emit a chunk: a panel of a part of a group."""
        f = self.module.function(f"define internal void {self.name('chunk')}(ptr %args, i64 %chunk, i64 %worker)")
        _, panel = emit_digits(f, "%chunk", (self.conv.group.extent * self.parts, self.panels))
        for count in sorted(self.variants, reverse=True):
            only = len(self.variants) == 1
            compare = "slt" if count == self.panel_filters else "eq"
            with nullcontext() if only else f.when(f.let(f"icmp {compare} i64 {panel}, {self.panels - 1}")):
                f.do(f"call void {self.name(f'panel{count}')}(ptr %args, i64 %chunk, i64 %worker)")

    def _emit_panel(self, count: int, nv: int) -> None:
        """Emit ``void panel(ptr args, i64 chunk, i64 worker)`` for panels of ``count`` filters, which are nv vectors."""
        conv, number, size, layout, windows = self.conv, self.number, self.number.size, self.layout, self.conv.windows
        f = self.module.function(f"define internal void {self.name(f'panel{count}')}(ptr %args, i64 %chunk, i64 %worker)")
        group, part, panel = emit_digits(f, "%chunk", (conv.group.extent, self.parts, self.panels))
        scratch = self.argument(f, self.scratch_slot)
        grad = f.offset(scratch, f.add(f.mul("%worker", self.worker), self.base))
        finished = f.offset(f.offset(scratch, self.sums_at), f.mul("%chunk", self.region))
        sums = f.offset(finished, self.region - self.panel_bytes)
        with f.when(f.let(f"icmp eq i64 {f.load('i64', scratch, 8)}, 0")) if self.rounds > 1 else nullcontext():
            pack.zero_groups(f, number, finished, "0", str(self.region))
        source = self.operand(f, conv.weights, conv.group, group)
        flat, width = conv.weights.flat(), conv.weights.buffer.dtype.bytes
        filter0 = f.mul(panel, self.panel_filters)
        source = f.offset(source, f.mul(f.add(f.mul(filter0, coefficient(flat, conv.filters)), flat.const), width))
        copies = f.offset(scratch, f.add(f.mul(group, self.round_blocks * self.block_bytes), 64))
        start = f.mul(part, self.part_units)
        end = f.minimum(f.add(start, self.part_units), self.round_units)
        if self.rounds > 1:
            before = f.mul(f.load("i64", scratch, 8), self.round_units)
            end = f.minimum(end, f.let(f"sub i64 {self.units}, {before}"))
        with f.loop(start, end) as unit:
            place, *boxes = emit_digits(f, unit, (self.round_blocks, *self.box_counts))
            first = f.mul(self._nth(f, scratch, place, self.round_blocks), layout.images)
            images = f.minimum(f.let(f"sub i64 {conv.chan.extent}, {first}"), layout.images)
            pixels = [f.mul(box, each) for box, each in zip(boxes, self.box, strict=True)]
            extent = windows[self.cut].pixel.extent
            length = f.minimum(f.let(f"sub i64 {extent}, {pixels[self.cut]}"), self.box[self.cut])
            at = f.dot(f.mul(first, coefficient(flat, conv.chan)), [
                (p, coefficient(flat, w.pixel)) for p, w in zip(pixels, windows, strict=True)
            ])
            self._turn(f, f.offset(source, f.mul(at, width)), grad, count, nv, first, images, length)
            image = f.offset(copies, f.mul(place, self.block_bytes))
            image = f.offset(image, f.mul(f.dot(0, zip(pixels, self.steps, strict=True)), size))
            runs = {self.box[-1], windows[-1].pixel.extent - (self.box_counts[-1] - 1) * self.box[-1]}
            for run in sorted(runs) if self.cut == len(windows) - 1 else [self.box[-1]]:
                with f.when(f.let(f"icmp eq i64 {length}, {run}")) if len(runs) > 1 else nullcontext():
                    self._tiles(f, nv, image, grad, sums, images, length, run)
            if self.region > self.panel_bytes:
                nth = f.let(f"sub i64 {unit}, {start}")
                with f.when(f.let(f"icmp eq i64 {f.let(f'urem i64 {nth}, {GROUP}')}, {GROUP - 1}")):
                    pack.add_and_clear(f, number, finished, sums, "0", str(self.panel_bytes))
        if self.region > self.panel_bytes:
            pack.add_and_clear(f, number, finished, sums, "0", str(self.panel_bytes))

    def _turn(
        self, f: Function, source: str, target: str, count: int, nv: int, first: str, images: str, length: str
    ) -> None:
        """Emit the copy of a unit of the weights operand as [pixel][filter]. first: of its images."""
        conv, number, cut = self.conv, self.number, self.cut
        flat, width = conv.weights.flat(), conv.weights.buffer.dtype.bytes
        steps = [coefficient(flat, w.pixel) for w in conv.windows]
        extents: list[int] = [w.pixel.extent for w in conv.windows]
        joined = len(steps) - 1  # pixels from this window on are evenly spaced
        while joined > cut and steps[joined - 1] == steps[joined] * extents[joined]:
            joined -= 1
        filter_step = coefficient(flat, conv.filters)
        packer = emit_packers(self, conv, self.name(f"turn{count}"), count, filter_step, steps[-1], nv * number.lanes)
        cursor = f.local("ptr")
        f.store("ptr", target, cursor)
        run: str | int = f.mul(length, prod(extents[cut + 1 :])) if joined == cut else prod(extents[joined:])

        def nest(d: int, at: str, pair: str) -> None:
            if d == joined:
                to = f.load("ptr", cursor)
                call_packer(f, conv, packer, pair, f"ptr {at}, ptr {to}, i64 {run}")
                f.store("ptr", f.offset(to, f.mul(run, nv * number.lanes * number.size)), cursor)
                return
            with f.loop(0, length if d == cut else extents[d]) as i:
                nest(d + 1, f.offset(at, f.mul(i, steps[d] * width)), pair)

        with f.loop(0, images) as n:
            pair = n if conv.paired is None else f.add(first, n)
            nest(cut, f.offset(source, f.mul(n, coefficient(flat, conv.chan) * width)), pair)

    def _tiles(self, f: Function, nv: int, image: str, grad: str, sums: str, images: str, length: str, run: int) -> None:
        """Emit the calls of all tiles of a unit, whose innermost pixels are runs of ``run``."""
        size, layout, chans, channels = self.number.size, self.layout, self.tiles.chans, self.conv.free.extent
        filters, taps = self.panel_filters, layout.taps

        def call(u: int, first: int, count: int, x: str, out: str) -> None:
            name = self._tile(nv, u, first, count, run)
            f.do(f"call void {name}(ptr {x}, ptr {grad}, ptr {out}, i64 {images}, i64 {length})")

        def bundle(u: int, first: int, groups: tuple[tuple[int, int], ...], x: str, out: str) -> None:
            for at, count in groups:
                moved = f.offset(x, (taps[first + at] - taps[first]) * size)
                call(u, first + at, count, moved, f.offset(out, at * filters * size))

        def all_taps(u: int, chan: str | int) -> None:
            x = f.offset(image, f.mul(chan, layout.chan_pitch * size))
            out = f.offset(sums, f.mul(chan, self.taps * filters * size))
            for firsts, groups in self.alike:
                first, step = firsts[0], firsts[-1] - firsts[-2] if len(firsts) > 1 else 0
                if len(firsts) <= MAX_CALLS:
                    for tap in firsts:
                        bundle(u, tap, groups, f.offset(x, taps[tap] * size), f.offset(out, tap * filters * size))
                    continue
                table = emit_table(self.module, [taps[tap] * size for tap in firsts])
                with f.loop(0, len(firsts)) as n:
                    moved = f.offset(x, f.load("i64", f.element(table, "i64", n)))
                    bundle(u, first, groups, moved, f.offset(out, f.mul(f.add(f.mul(n, step), first), filters * size)))

        whole = channels // chans * chans
        with f.loop(0, whole, chans) if whole > chans else nullcontext("0") as chan:
            all_taps(chans, chan)
        if channels > whole:
            all_taps(channels - whole, whole)

    def _find_alike(self) -> list[tuple[list[int], tuple[tuple[int, int], ...]]]:
        """Return the bundles as (first taps of neighbours that share their tiles, groups)."""
        alike: list[tuple[list[int], tuple[tuple[int, int], ...]]] = []
        for first, groups in self.tiles.bundles:
            count = sum(c for _, c in groups)
            if alike and alike[-1][1] == groups and self._shape(alike[-1][0][0], count) == self._shape(first, count):
                alike[-1][0].append(first)
            else:
                alike.append(([first], groups))
        return alike

    def _shape(self, first: int, count: int) -> tuple[int, ...]:
        taps = self.layout.taps
        return tuple(t - taps[first] for t in taps[first : first + count])

    def _tile(self, nv: int, chans: int, first: int, count: int, run: int) -> str:
        """Return the name of a tile's function, emitted at its first use."""
        layout, shape = self.layout, self._shape(first, count)
        columns = [(u, t) for u in range(chans) for t in range(count)]
        cut = self.cut + 1 if self.cut < len(self.box) - 1 else 0
        tile = FilterTile(
            tuple(u * layout.chan_pitch + shape[t] for u, t in columns),
            tuple((u * self.taps + t) * self.panel_filters for u, t in columns),
            nv, (layout.images, *self.box[:-1], run), (layout.image_pitch, *self.steps), cut, self.chain,
        )
        name = f"@{self.kernel.name}.filters{chans}x{count}x{nv}.{digest((self.number, tile))}"
        if self.module.once(name):
            filter_tile(self.module, self.number, name, tile)
        return name

    def _finish(self) -> None:
        """Emit the function that adds the parts of one vector of filters in order, and stores the results; a chunk."""
        conv, number, size, lanes = self.conv, self.number, self.number.size, self.number.lanes
        columns, pitch = conv.free.extent * self.taps, self.panel_filters
        whole = columns // lanes * lanes
        names = {}
        for count in {lanes} if whole else set():
            names[count] = self._emit_turn_back(count)
        if columns > whole:
            names[columns - whole] = self._emit_turn_back(columns - whole)
        f = self.module.function(f"define internal void {self.name('finish')}(ptr %args, i64 %chunk, i64 %worker)")
        stores = ColumnStores(f, self, conv, number)
        group, vector = emit_digits(f, "%chunk", (conv.group.extent, self.vectors))
        scratch = self.argument(f, self.scratch_slot)
        rows = f.offset(scratch, f.add(f.mul("%worker", self.worker), self.base))
        filter0 = f.mul(vector, lanes)
        filters = f.minimum(f.let(f"sub i64 {conv.filters.extent}, {filter0}"), lanes)
        panel, place = f.let(f"udiv i64 {vector}, {self.tiles.nv}"), f.let(f"urem i64 {vector}, {self.tiles.nv}")
        at = f.add(f.mul(f.add(f.mul(group, self.parts * self.panels), panel), self.region), f.mul(place, lanes * size))
        sums = f.offset(f.offset(scratch, self.sums_at), at)
        if self.parts > 1:
            with f.loop(0, columns) as column:
                here = f.offset(sums, f.mul(column, pitch * size))
                total = f.load(number.vector, here, size)
                for p in range(1, self.parts):
                    more = f.load(number.vector, f.offset(here, p * self.panels * self.region), size)
                    total = f.let(f"fadd {number.vector} {total}, {more}")
                f.store(number.vector, total, here, size)

        def turn(column: str | int, count: int) -> None:
            source, target = f.offset(sums, f.mul(column, pitch * size)), f.offset(rows, f.mul(column, size))
            f.do(f"call void {names[count]}(ptr {source}, ptr {target}, i64 {filters})")

        if whole:
            with f.loop(0, whole, lanes) as column:
                turn(column, lanes)
        if columns > whole:
            turn(whole, columns - whole)
        with f.loop(0, filters) as i:
            axes = {conv.group: group, conv.filters: f.add(filter0, i)}
            stores.emit(axes, f.offset(rows, f.mul(i, self.row_pitch * size)))
        stores.end()

    def _emit_turn_back(self, count: int) -> str:
        """Emit the copy of ``count`` columns of a panel to rows of filters. Return its name."""
        accum, name = self.conv.contraction.accum, self.name(f"back{count}")
        Packer(self.module, accum, accum, self.number.lanes).columns(name[1:], count, self.panel_filters, 1, self.row_pitch)
        return name

    def _entry(self) -> None:
        conv = self.conv
        f = self.module.function(f"define internal void {self.name('run')}(ptr %args)")
        parallel = conv.flops() > MAX_SERIAL_FLOPS
        copies = conv.group.extent * self.round_blocks * (conv.free.extent // self.chans_a_copy)
        with f.loop(0, self.rounds) if self.rounds > 1 else nullcontext("0") as number:
            if self.rounds > 1:
                f.store("i64", number, self.argument(f, self.scratch_slot), 8)
            run_chunks(self.module, f, self.name("copy"), copies, parallel)
            run_chunks(self.module, f, self.name("chunk"), conv.group.extent * self.parts * self.panels, parallel)
        columns = conv.free.extent * self.taps
        self.run_storing(f, self.name("finish"), conv.group.extent * conv.filters.extent * columns > 1 << 15)
