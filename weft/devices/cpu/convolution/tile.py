"""The two inner loops of convolutions: tiles of filters x pixel vectors, and tiles of filters x columns (dot products)."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from dataclasses import dataclass
from math import gcd

from weft.devices.cpu.emit import pairwise
from weft.devices.cpu.emit.load import load_first_lanes
from weft.devices.cpu.emit.text import Function, Module

MAX_UNROLL = 12  # unrolled steps of k: enough to hide the loop overhead, few enough to compile fast


@dataclass(frozen=True, slots=True)
class Number:
    """The accumulator type: LLVM's scalar type, bytes, and lanes of a vector."""

    type: str
    size: int
    lanes: int

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.type}>"


@dataclass(frozen=True, slots=True)
class PixelTile:
    """A tile of mr filters x nv vectors of pixels. Its steps run over channels and taps; blocks of steps are added pairwise.

    vstep: elements from one vector of pixels to the next. taps: displacement of each tap in a channel's planes. Weights are
    packed as [channel][tap][mr].
    """

    mr: int
    nv: int
    vstep: int
    chans: int
    chan_pitch: int
    taps: tuple[int, ...]
    block: int
    live: int = 0  # lanes of the last vector that may be read; 0: all

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
                now[i][j] = self.module.fma(f, number.type, number.lanes, x, vectors[j], now[i][j])

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
                    self._steps([(group_px, w, more, t * tile.mr) for t, more in enumerate(inside)])
                    f.store("ptr", f.offset(w, len(inside) * tile.mr * size), self.w)
                f.store("ptr", f.offset(px, tile.chan_pitch * size), self.px)
            return

        def turn(n: int) -> None:
            px, w = f.load("ptr", self.px), f.load("ptr", self.w)
            each = [(u, t) for u in range(n) for t in range(taps)]
            self._steps([(px, w, u * tile.chan_pitch + tile.taps[t], (u * taps + t) * tile.mr) for u, t in each])
            f.store("ptr", f.offset(px, n * tile.chan_pitch * size), self.px)
            f.store("ptr", f.offset(w, n * taps * tile.mr * size), self.w)

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
            self._steps([(px, w, more, t * tile.mr) for t, more in enumerate(inside)])
            f.store("ptr", f.offset(w, len(inside) * tile.mr * size), self.w)
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
        table = f"@taps{len(self.module.globals)}"
        words = ", ".join(f"i64 {x}" for x in firsts)
        self.module.globals.append(f"{table} = private unnamed_addr constant [{len(firsts)} x i64] [{words}]")
        return table, [t - taps[0] for t in taps[:group]], firsts


def pixel_tile(module: Module, number: Number, kernel: str, tile: PixelTile, out_pitch: int) -> str:
    """Emit ``void (ptr pixels, ptr weights, ptr out)``, which writes a tile to scratch at [mr][pixel]. Return its name.

    Phases of a kernel with equal tiles share one function.
    """
    content = repr((number, tile, out_pitch)).encode()
    name = f"@{kernel}.tile{tile.mr}x{tile.nv}.{hashlib.blake2s(content, digest_size=8).hexdigest()}"
    if not module.once(name):
        return name
    f = module.function(f"define internal void {name}(ptr noalias %px, ptr noalias %w, ptr noalias %out)")
    accs = accumulate(f, module, number, tile, "%px", "%w")
    for i, row in enumerate(accs):
        for j, acc in enumerate(row):
            at = f.offset("%out", (i * out_pitch + j * tile.vstep) * number.size)
            f.store(number.vector, f.load(number.vector, acc), at, number.size)
    return name


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
