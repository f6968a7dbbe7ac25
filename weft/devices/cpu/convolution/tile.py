"""The two inner loops of convolutions: tiles of filters x pixel vectors, and tiles of filters x columns (dot products)."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from dataclasses import dataclass
from math import gcd

from weft.devices.cpu.emit import pairwise
from weft.devices.cpu.emit.load import load_first_lanes
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.product.dot import Dot

MAX_UNROLL = 12  # unrolled steps of k: enough to hide the loop overhead, few enough to compile fast


@dataclass(frozen=True, slots=True)
class Number:
    """The accumulator type: LLVM's scalar type, bytes, and lanes of a vector. pairs: operands are pairs of bfloat16."""

    type: str
    size: int
    lanes: int
    pairs: bool = False

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.type}>"

    def multiply_add(self, module: Module, f: Function, x: str, y: str, z: str) -> str:
        """Emit x * y + z of vectors; of pairs, both products are added."""
        if self.pairs:
            return Dot("bf16", self.lanes, True, True, 0).emit(module, f, x, y, z)
        return module.fma(f, self.type, self.lanes, x, y, z)


def digest(content: object) -> str:
    """Return a word for the name of what ``content`` describes: equal contents share a function or table."""
    return hashlib.blake2s(repr(content).encode(), digest_size=8).hexdigest()


def emit_table(module: Module, values: list[int]) -> str:
    """Emit a table of 64-bit integers. Return its name."""
    name = f"@table.{digest(values)}"
    if module.once(name):
        words = ", ".join(f"i64 {value}" for value in values)
        module.globals.append(f"{name} = private unnamed_addr constant [{len(values)} x i64] [{words}]")
    return name


@dataclass(frozen=True, slots=True)
class PixelTile:
    """A tile of mr filters x nv vectors of pixels. Its steps run over channels and taps; blocks of steps are added pairwise.

    vstep: elements from one vector of pixels to the next. taps: displacement of each tap in a channel's planes. Weights are
    packed as [channel][tap][mr]. places: if there are any, the displacements of mr pixels; the tile then has nv vectors of
    filters, and weights are packed as [channel][tap][nv * lanes].
    """

    mr: int
    nv: int
    vstep: int
    chans: int
    chan_pitch: int
    taps: tuple[int, ...]
    block: int
    live: int = 0  # lanes of the last vector that may be read; 0: all
    places: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        return self.chans * len(self.taps)


def accumulate(f: Function, module: Module, number: Number, tile: PixelTile, pixels: str, weights: str) -> list[list[str]]:
    """Emit the sums of a tile. Return the pointers to the accumulators, [mr][nv]."""
    return _TileSum(f, module, number, tile, pixels, weights).run()


class _TileSum:
    """The emitter of one tile's sums: steps over channels and taps, in blocks."""

    def __init__(self, f: Function, module: Module, number: Number, tile: PixelTile, pixels: str, weights: str) -> None:
        self.f, self.module, self.number, self.tile = f, module, number, tile
        self.accs = [[f.local(number.vector) for _ in range(tile.nv)] for _ in range(tile.mr)]
        self.cells = [acc for row in self.accs for acc in row]
        self.px, self.w = f.local("ptr"), f.local("ptr")
        f.store("ptr", pixels, self.px)
        f.store("ptr", weights, self.w)
        self.blocks = -(-tile.steps // tile.block)
        self.weights = tile.nv * number.lanes if tile.places else tile.mr  # of one step
        width = number.lanes * number.size
        if self.blocks > 1:
            levels = f.local(f"[{pairwise.depth(self.blocks) * len(self.cells)} x {number.vector}]", width)
            self.at = pairwise.rows(f, levels, width * len(self.cells), [width * k for k in range(len(self.cells))])

    def run(self) -> list[list[str]]:
        f, tile = self.f, self.tile
        count = len(tile.taps)
        if self.blocks == 1:
            self._clear()
            self._channels(tile.chans)
        elif tile.block % count == 0:
            each = tile.block // count
            with f.loop(0, self.blocks) as block:
                self._clear()
                left = f.let(f"sub i64 {tile.chans}, {f.mul(block, each)}")
                self._channels(each if tile.chans % each == 0 else f.minimum(left, each))
                self._close(block)
        else:
            self._groups()
        return self.accs

    def _clear(self) -> None:
        self.f.clear(self.number.vector, self.cells)

    def _close(self, block: str) -> None:
        """Emit the end of a block: add its sums pairwise to those of the blocks before it."""
        f, v = self.f, self.number.vector
        types, last = [v] * len(self.cells), f.let(f"icmp eq i64 {block}, {self.blocks - 1}", "c")
        merge = pairwise.adder(f, v)
        pairwise.add_block(self.module, f, self.at, block, last, types, self.cells, merge, self.number.size)

    def _step(self, now: list[list[str]], px: str, w: str, at: int, wat: int) -> None:
        f, number, tile = self.f, self.number, self.tile
        # The fence emits no instruction. LLVM moves no later load before it, which would spill registers.
        f.do('fence syncscope("singlethread") acq_rel')
        if tile.places:
            self._filter_step(now, px, w, at, wat)
            return
        vectors = []
        for j in range(tile.nv):
            at_j = f.offset(px, (at + j * tile.vstep) * number.size)
            part = tile.live and j == tile.nv - 1
            vectors.append(
                load_first_lanes(self.module, f, number.type, number.lanes, tile.live, at_j, number.size) if part
                else f.load(number.vector, at_j, number.size)
            )
        for i in range(tile.mr):
            x = f.splat(number.type, f.load(number.type, f.offset(w, (wat + i) * number.size), number.size), number.lanes)
            for j in range(tile.nv):
                now[i][j] = number.multiply_add(self.module, f, x, vectors[j], now[i][j])

    def _filter_step(self, now: list[list[str]], px: str, w: str, at: int, wat: int) -> None:
        f, number, tile = self.f, self.number, self.tile
        places = [f.offset(w, (wat + j * number.lanes) * number.size) for j in range(tile.nv)]
        vectors = [f.load(number.vector, place, number.size) for place in places]
        for i, place in enumerate(tile.places):
            x = f.splat(number.type, f.load(number.type, f.offset(px, (at + place) * number.size), number.size), number.lanes)
            for j in range(tile.nv):
                now[i][j] = number.multiply_add(self.module, f, x, vectors[j], now[i][j])

    def _steps(self, places: list[tuple[str, str, int, int]]) -> None:
        """Emit consecutive steps; accumulators are loaded before the first and stored after the last."""
        f, v = self.f, self.number.vector
        now = [[f.load(v, acc) for acc in row] for row in self.accs]
        for place in places:
            self._step(now, *place)
        for row, values in zip(self.accs, now, strict=True):
            for acc, value in zip(row, values, strict=True):
                f.store(v, value, acc)

    def _channels(self, count: int | str) -> None:
        """Emit the steps of the next ``count`` channels, with all taps of each."""
        f, tile, size = self.f, self.tile, self.number.size
        taps = len(tile.taps)
        if taps > MAX_UNROLL:
            first, inside, firsts = self._group_taps(taps)
            with f.loop(0, count):
                px = f.load("ptr", self.px)
                with f.loop(0, len(firsts)) as g:
                    group_px, w = f.offset(px, f.load("i64", f.element(first, "i64", g))), f.load("ptr", self.w)
                    self._steps([(group_px, w, more, t * self.weights) for t, more in enumerate(inside)])
                    f.store("ptr", f.offset(w, len(inside) * self.weights * size), self.w)
                f.store("ptr", f.offset(px, tile.chan_pitch * size), self.px)
            return

        def turn(n: int) -> None:
            px, w = f.load("ptr", self.px), f.load("ptr", self.w)
            each = [(u, t) for u in range(n) for t in range(taps)]
            self._steps([(px, w, u * tile.chan_pitch + tile.taps[t], (u * taps + t) * self.weights) for u, t in each])
            f.store("ptr", f.offset(px, n * tile.chan_pitch * size), self.px)
            f.store("ptr", f.offset(w, n * taps * self.weights * size), self.w)

        unroll = max(1, min(tile.chans, MAX_UNROLL // 3 // taps))
        turns = f.let(f"udiv i64 {count}, {unroll}") if isinstance(count, str) else count // unroll
        with f.loop(0, turns) if turns != 1 else nullcontext():
            turn(unroll)
        if isinstance(count, int):
            if count % unroll:
                turn(count % unroll)
        elif unroll > 1:
            with f.loop(0, f.let(f"urem i64 {count}, {unroll}")):
                turn(1)

    def _groups(self) -> None:
        """Emit all steps if blocks end between the taps of a channel: groups of taps that divide a block and a channel."""
        f, tile, size = self.f, self.tile, self.number.size
        taps = len(tile.taps)
        first, inside, firsts = self._group_taps(gcd(taps, tile.block))
        self._clear()
        with f.loop(0, tile.steps, len(inside)) as k:
            g = f.let(f"udiv i64 {f.let(f'urem i64 {k}, {taps}')}, {len(inside)}")
            chan = f.mul(f.let(f"udiv i64 {k}, {taps}"), tile.chan_pitch * size)
            px = f.offset(f.load("ptr", self.px), f.add(chan, f.load("i64", f.element(first, "i64", g))))
            w = f.load("ptr", self.w)
            self._steps([(px, w, more, t * self.weights) for t, more in enumerate(inside)])
            f.store("ptr", f.offset(w, len(inside) * self.weights * size), self.w)
            end = f.add(k, len(inside))
            is_block_end = f.let(f"icmp eq i64 {f.let(f'urem i64 {end}, {tile.block}')}, 0")
            with f.when(f.let(f"or i1 {is_block_end}, {f.let(f'icmp eq i64 {end}, {tile.steps}')}")):
                self._close(f.let(f"udiv i64 {k}, {tile.block}"))
                with f.when(f.let(f"icmp ne i64 {end}, {tile.steps}")):
                    self._clear()

    def _group_taps(self, within: int) -> tuple[str, list[int], list[int]]:
        """Divide the taps into groups with equal displacements from the first tap, whose size divides ``within``.

        Return a table of the groups' first displacements in bytes, the displacements inside a group, and the table's values.
        """
        taps, group = self.tile.taps, 1
        for width in range(MAX_UNROLL, 1, -1):
            shapes = {tuple(t - taps[g] for t in taps[g : g + width]) for g in range(0, len(taps), width)}
            if within % width == 0 and len(shapes) == 1:
                group = width
                break
        firsts = [taps[g] * self.number.size for g in range(0, len(taps), group)]
        table = emit_table(self.module, firsts)
        return table, [t - taps[0] for t in taps[:group]], firsts


def pixel_tile(
    module: Module, number: Number, kernel: str, tile: PixelTile, out_pitch: int, out_places: tuple[int, ...] = (),
) -> str:
    """Emit ``void (ptr pixels, ptr weights, ptr out)``, which writes a tile to scratch at [mr][pixel]. Return its name.

    out_places: for vectors of filters, the numbers of the pixels in [pixel][out_pitch].

    Phases of a kernel with equal tiles share one function.
    """
    name = f"@{kernel}.tile{tile.mr}x{tile.nv}.{digest((number, tile, out_pitch, out_places))}"
    if not module.once(name):
        return name
    f = module.function(f"define internal void {name}(ptr noalias %px, ptr noalias %w, ptr noalias %out)")
    accs = accumulate(f, module, number, tile, "%px", "%w")
    for i, vectors in enumerate(accs):
        for j, acc in enumerate(vectors):
            row = out_places[i] if out_places else i
            at = f.offset("%out", (row * out_pitch + j * tile.vstep) * number.size)
            f.store(number.vector, f.load(number.vector, acc), at, number.size)
    return name


@dataclass(frozen=True, slots=True)
class FilterTile:
    """A tile of columns x nv vectors of filters, summed over pixels.

    places: displacement of each column in the image copy; slots: place of its sums. extents, pitches: of the loops over images
    and pixels, the last one innermost; those of the images and of the loop ``cut`` are arguments. chain: the images and the
    iterations of ``cut`` that are summed in registers. The other operand has the pixels in the order of the loops, each with nv
    vectors of filters.
    """

    places: tuple[int, ...]
    slots: tuple[int, ...]
    nv: int
    extents: tuple[int, ...]
    pitches: tuple[int, ...]
    cut: int
    chain: tuple[int, int]


def filter_tile(module: Module, number: Number, name: str, tile: FilterTile) -> None:
    """Emit ``void name(ptr image, ptr filters, ptr out, i64 images, i64 count)``, which adds a tile's sums to ``out``.

    The sums of a chain are added to ``out`` before the next one begins.
    """
    v, size, lanes = number.vector, number.size, number.lanes
    f = module.function(f"define internal void {name}(ptr noalias %x, ptr noalias %g, ptr noalias %out, i64 %images, i64 %count)")
    accs = [[f.local(v) for _ in range(tile.nv)] for _ in tile.places]
    cursor = f.local("ptr")
    f.store("ptr", "%g", cursor)
    pitch = tile.pitches[-1]

    def steps(x: str, count: int) -> None:
        """Emit the steps of ``count`` pixels."""
        now = [[f.load(v, acc) for acc in row] for row in accs]
        g = f.load("ptr", cursor)
        for e in range(count):
            f.do('fence syncscope("singlethread") acq_rel')  # see _TileSum._step
            filters = [f.load(v, f.offset(g, (e * tile.nv + j) * lanes * size), size) for j in range(tile.nv)]
            for i, place in enumerate(tile.places):
                one = f.load(number.type, f.offset(x, (place + e * pitch) * size), size)
                broadcast = f.splat(number.type, one, lanes)
                for j, vector in enumerate(filters):
                    now[i][j] = number.multiply_add(module, f, broadcast, vector, now[i][j])
        for row, values in zip(accs, now, strict=True):
            for acc, value in zip(row, values, strict=True):
                f.store(v, value, acc)
        f.store("ptr", f.offset(g, count * tile.nv * lanes * size), cursor)

    def nest(depth: int, x: str) -> None:
        if depth < len(tile.extents) - 1:
            start, end = ranges.get(depth, (0, tile.extents[depth]))
            with f.loop(start, end) if end != 1 else nullcontext("0") as i:
                nest(depth + 1, f.offset(x, f.mul(i, tile.pitches[depth] * size)))
            return
        run = tile.extents[-1]
        unroll = run_unroll(run)
        whole = run // unroll * unroll
        with f.loop(0, whole, unroll) if whole > unroll else nullcontext("0") as i:
            steps(f.offset(x, f.mul(i, pitch * size)), unroll)
        if run > whole:
            steps(f.offset(x, whole * pitch * size), run - whole)

    ranges: dict[int, tuple[str, str]] = {}
    with f.loop(0, "%images", tile.chain[0]) as image:
        ranges[0] = image, f.minimum(f.add(image, tile.chain[0]), "%images")
        with f.loop(0, "%count", tile.chain[1]) if tile.cut else nullcontext("0") as first:
            if tile.cut:
                ranges[tile.cut] = first, f.minimum(f.add(first, tile.chain[1]), "%count")
            f.clear(v, [acc for row in accs for acc in row])
            nest(0, "%x")
            for i, row in enumerate(accs):
                for j, acc in enumerate(row):
                    at = f.offset("%out", (tile.slots[i] + j * lanes) * size)
                    f.store(v, f.let(f"fadd {v} {f.load(v, at, size)}, {f.load(v, acc)}"), at, size)


def run_unroll(run: int) -> int:
    """Return the unrolled pixels of a run: few, to compile fast, and if possible a divisor."""
    return max((u for u in range(1, min(run, MAX_UNROLL) + 1) if run % u == 0 and (u >= 4 or u == run)), default=8)


def dot_tile(module: Module, number: Number, name: str, rows: int, columns: int, row_pitch: int, stride: int, tail: int) -> None:
    """Emit ``void name(ptr rows, ptr col0.., ptr out, i64 spans, i64 steps, i64 row_span, i64 col_span)``: dot products.

    Adds to out[i * stride + j] the sum of rows[i] * column[j] over spans of ``steps`` vectors and ``tail`` elements. Spans are
    row_span and col_span bytes apart, rows row_pitch elements. The size of ``out`` is a multiple of 16 bytes.
    """
    v, size, lanes = number.vector, number.size, number.lanes
    cols = ", ".join(f"ptr noalias %c{j}" for j in range(columns))
    f = module.function(
        f"define internal void {name}(ptr noalias %r, {cols}, ptr noalias %out, i64 %spans, i64 %steps, "
        "i64 %row_span, i64 %col_span)"
    )
    accs = [[f.local(v) for _ in range(columns)] for _ in range(rows)]
    for row in accs:
        for acc in row:
            f.store(v, "zeroinitializer", acc)

    def step(bases: list[str], row_at: str, at: str | int, part: bool) -> None:
        f.do('fence syncscope("singlethread") acq_rel')  # see _Sum._step

        def read(pointer: str) -> str:
            return load_first_lanes(module, f, number.type, lanes, tail, pointer, size) if part else f.load(v, pointer, size)

        columns_at = [f.offset(b, at) for b in bases]
        rows_at = [f.offset(row_at, i * row_pitch * size) for i in range(rows)]
        short, long = (columns_at, rows_at) if columns <= rows else (rows_at, columns_at)
        loaded = [read(p) for p in short]
        for m, pointer in enumerate(long):
            x = read(pointer)
            for h, y in enumerate(loaded):
                acc = accs[m][h] if columns <= rows else accs[h][m]
                f.store(v, module.fma(f, number.type, lanes, x, y, f.load(v, acc)), acc)

    with f.loop(0, "%spans") as span:
        bases = [f.offset(f"%c{j}", f.mul(span, "%col_span")) for j in range(columns)]
        base = f.offset("%r", f.mul(span, "%row_span"))
        end = f.mul("%steps", lanes * size)
        with f.loop(0, end, lanes * size) as at:
            step(bases, f.offset(base, at), at, False)
        if tail:
            step(bases, f.offset(base, end), end, True)
    group = 16 // size
    if columns == stride:
        flat = [f.load(v, acc) for row in accs for acc in row]
        flat += ["zeroinitializer"] * (-len(flat) % group)
        for g in range(0, len(flat), group):
            at, type_ = f.offset("%out", g * size), f"<{group} x {number.type}>"
            total = f.let(f"fadd {type_} {f.load(type_, at, size)}, {lane_sums(f, number, flat[g : g + group])}")
            f.store(type_, total, at, size)
    else:
        for i, row in enumerate(accs):
            for j, acc in enumerate(row):
                at = f.offset("%out", (i * stride + j) * size)
                total = f.let(f"fadd {number.type} {f.load(number.type, at)}, {lane_sum(f, number, f.load(v, acc))}")
                f.store(number.type, total, at)


def lane_sums(f: Function, number: Number, vectors: list[str]) -> str:
    """Emit a vector of 16 bytes with the lane sums of several vectors: neighbours are added first, then halves."""
    lanes, group, v = number.lanes, len(vectors), number.vector
    while len(vectors) > 1:
        pairs = []
        for a, b in zip(vectors[::2], vectors[1::2], strict=True):
            blocks = [range(k, k + group) for k in range(0, lanes, group)]
            even = [i for block in blocks for i in [*block[::2], *(lanes + j for j in block[::2])]]
            odd = [i for block in blocks for i in [*block[1::2], *(lanes + j for j in block[1::2])]]
            pairs.append(f.let(f"fadd {v} {f.shuffle(v, a, b, even)}, {f.shuffle(v, a, b, odd)}"))
        vectors = pairs
    total, width = vectors[0], lanes
    while width > group:
        half, type_ = width // 2, f"<{width} x {number.type}>"
        low, high = (f.shuffle(type_, total, "poison", range(k, k + half)) for k in (0, half))
        total, width = f.let(f"fadd <{half} x {number.type}> {low}, {high}"), half
    return total


def lane_sum(f: Function, number: Number, vector: str) -> str:
    """Emit the sum of a vector's lanes, added by halves."""
    return f.let(f"extractelement <1 x {number.type}> {lane_sums(f, number, [vector])}, i64 0")
