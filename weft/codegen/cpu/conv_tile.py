"""The two inner loops of convolutions: a tile of filters x pixel vectors, and a tile of filters x columns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from weft.codegen.cpu.text import Function, Module

Steps = Callable[[list[tuple[str, str, int, int]]], None]
MAX_UNROLL = 12  # steps of k written out: enough to hide the loop, few enough to compile fast


@dataclass(frozen=True, slots=True)
class Number:
    """What accumulates: LLVM's scalar type, bytes, and lanes of a vector."""

    type: str
    size: int
    lanes: int

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.type}>"

    @property
    def suffix(self) -> str:
        return f"v{self.lanes}f{8 * self.size}"


def declare_fma(module: Module, number: Number) -> None:
    v = number.vector
    module.declare(f"llvm.fma.{number.suffix}", f"declare {v} @llvm.fma.{number.suffix}({v}, {v}, {v})")


def fma(f: Function, number: Number, a: str, b: str, c: str) -> str:
    v = number.vector
    return f.let(f"call {v} @llvm.fma.{number.suffix}({v} {a}, {v} {b}, {v} {c})")


def splat(f: Function, number: Number, scalar: str) -> str:
    one = f.let(f"insertelement {number.vector} poison, {number.type} {scalar}, i64 0")
    return f.let(f"shufflevector {number.vector} {one}, {number.vector} poison, <{number.lanes} x i32> zeroinitializer")


@dataclass(frozen=True, slots=True)
class PixelTile:
    """mr filters x nv vectors of pixels, summed over channels and taps in ascending order.

    vstep: elements from one vector of pixels to the next. taps: displacement of each tap in a channel's
    planes. Weights are packed [channel][tap][mr].
    """

    mr: int
    nv: int
    vstep: int
    chans: int
    chan_pitch: int
    taps: tuple[int, ...]
    live: int = 0  # lanes of the last vector that may be read; 0: all


def masked_load(f: Function, module: Module, number: Number, pointer: str, live: int) -> str:
    """The first ``live`` lanes at a pointer, zeros in the others."""
    v, lanes = number.vector, number.lanes
    name = f"llvm.masked.load.v{lanes}f{8 * number.size}.p0"
    mask = "<" + ", ".join(f"i1 {'true' if i < live else 'false'}" for i in range(lanes)) + ">"
    module.declare(name, f"declare {v} @{name}(ptr, <{lanes} x i1>, {v})")
    return f.let(f"call {v} @{name}(ptr align {number.size} {pointer}, <{lanes} x i1> {mask}, {v} zeroinitializer)")


def accumulate(f: Function, module: Module, number: Number, tile: PixelTile, pixels: str, weights: str) -> list[list[str]]:
    """Emit the sum; returns the pointers of the accumulators, [mr][nv]."""
    declare_fma(module, number)
    v, size = number.vector, number.size
    accs = [[f.local(v) for _ in range(tile.nv)] for _ in range(tile.mr)]
    for row in accs:
        for acc in row:
            f.store(v, "zeroinitializer", acc)

    def step(now: list[list[str]], px: str, w: str, at: int, wat: int) -> None:
        f.do('fence syncscope("singlethread") acq_rel')  # emits nothing: loads of later steps stay behind, so none is spilled
        vectors = []
        for j in range(tile.nv):
            here = f.offset(px, (at + j * tile.vstep) * size)
            part = tile.live and j == tile.nv - 1
            vectors.append(masked_load(f, module, number, here, tile.live) if part else f.load(v, here, size))
        for i in range(tile.mr):
            x = splat(f, number, f.load(number.type, f.offset(w, (wat + i) * size), size))
            for j in range(tile.nv):
                now[i][j] = fma(f, number, x, vectors[j], now[i][j])

    def steps(places: list[tuple[str, str, int, int]]) -> None:
        """Some steps in a row: accumulators are read before the first and written after the last."""
        now = [[f.load(v, acc) for acc in row] for row in accs]
        for place in places:
            step(now, *place)
        for row, values in zip(accs, now, strict=True):
            for acc, value in zip(row, values, strict=True):
                f.store(v, value, acc)

    count = len(tile.taps)
    if count > MAX_UNROLL:
        _looped_taps(f, module, number, tile, pixels, weights, steps)
        return accs
    unroll = max(1, min(tile.chans, MAX_UNROLL // 3 // count))
    main = tile.chans // unroll

    def chans(px: str, w: str, n: int) -> None:
        each = [(u, t) for u in range(n) for t in range(count)]
        steps([(px, w, u * tile.chan_pitch + tile.taps[t], (u * count + t) * tile.mr) for u, t in each])

    px_p, w_p = f.local("ptr"), f.local("ptr")
    f.store("ptr", pixels, px_p)
    f.store("ptr", weights, w_p)
    if main == 1:
        chans(pixels, weights, unroll)
        px_end, w_end = f.offset(pixels, unroll * tile.chan_pitch * size), f.offset(weights, unroll * count * tile.mr * size)
    else:
        with f.loop(0, main):
            px, w = f.load("ptr", px_p), f.load("ptr", w_p)
            chans(px, w, unroll)
            f.store("ptr", f.offset(px, unroll * tile.chan_pitch * size), px_p)
            f.store("ptr", f.offset(w, unroll * count * tile.mr * size), w_p)
        px_end, w_end = f.load("ptr", px_p), f.load("ptr", w_p)
    if tile.chans % unroll:
        chans(px_end, w_end, tile.chans % unroll)
    return accs


def _looped_taps(f: Function, module: Module, number: Number, tile: PixelTile, pixels: str, weights: str, steps: Steps) -> None:
    """Many taps: groups that look alike from their first tap are one loop body over a table of displacements."""
    count, size = len(tile.taps), number.size
    group = 1
    for width in range(MAX_UNROLL, 1, -1):
        shapes = {tuple(t - tile.taps[g] for t in tile.taps[g : g + width]) for g in range(0, count, width)}
        if count % width == 0 and len(shapes) == 1:
            group = width
            break
    firsts = [tile.taps[g] * size for g in range(0, count, group)]
    inside = [t - tile.taps[0] for t in tile.taps[:group]]
    table = f"@taps{len(module.globals)}"
    words = ", ".join(f"i64 {x}" for x in firsts)
    module.globals.append(f"{table} = private unnamed_addr constant [{len(firsts)} x i64] [{words}]")
    w_p, px_p = f.local("ptr"), f.local("ptr")
    f.store("ptr", weights, w_p)
    f.store("ptr", pixels, px_p)
    with f.loop(0, tile.chans):
        px = f.load("ptr", px_p)
        with f.loop(0, len(firsts)) as g:
            at = f.load("i64", f.element(table, "i64", g))
            here, w = f.offset(px, at), f.load("ptr", w_p)
            steps([(here, w, more, t * tile.mr) for t, more in enumerate(inside)])
            f.store("ptr", f.offset(w, group * tile.mr * size), w_p)
        f.store("ptr", f.offset(px, tile.chan_pitch * size), px_p)


def pixel_tile(module: Module, number: Number, kernel: str, tile: PixelTile, out_pitch: int) -> str:
    """The name of ``void (ptr pixels, ptr weights, ptr out)``: the tile, written to scratch at [mr][pixel].

    Phases of a kernel whose tiles are equal share one function.
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
    f.do("ret void")
    return name


def dot_tile(module: Module, number: Number, name: str, rows: int, columns: int, row_pitch: int, stride: int, tail: int) -> None:
    """``void name(ptr rows, ptr col0.., ptr out, i64 spans, i64 steps, i64 row_span, i64 col_span)``: dot products.

    out[i * stride + j] += sum of rows[i] * column[j] over spans of ``steps`` vectors and ``tail`` elements;
    spans lie row_span and col_span bytes apart, rows row_pitch elements. ``out`` has room for whole groups of 16 bytes.
    """
    declare_fma(module, number)
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
        f.do('fence syncscope("singlethread") acq_rel')  # see accumulate

        def read(pointer: str) -> str:
            return masked_load(f, module, number, pointer, tail) if part else f.load(v, pointer, size)

        few, many = (columns, rows) if columns <= rows else (rows, columns)
        columns_at = [f.offset(b, at) for b in bases]
        rows_at = [f.offset(row_at, i * row_pitch * size) for i in range(rows)]
        short, long = (columns_at, rows_at) if columns <= rows else (rows_at, columns_at)
        held = [read(p) for p in short]
        for m in range(many):
            x = read(long[m])
            for h in range(few):
                acc = accs[m][h] if columns <= rows else accs[h][m]
                f.store(v, fma(f, number, x, held[h], f.load(v, acc)), acc)

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
            f.store(
                type_, f.let(f"fadd {type_} {f.load(type_, at, size)}, {lane_sums(f, number, flat[g : g + group])}"), at, size
            )
    else:
        for i, row in enumerate(accs):
            for j, acc in enumerate(row):
                at = f.offset("%out", (i * stride + j) * size)
                total = f.let(f"fadd {number.type} {f.load(number.type, at)}, {lane_sum(f, number, f.load(v, acc))}")
                f.store(number.type, total, at)
    f.do("ret void")


def shuffle(f: Function, type_: str, a: str, b: str, order: list[int]) -> str:
    places = ", ".join(f"i32 {i}" for i in order)
    return f.let(f"shufflevector {type_} {a}, {type_} {b}, <{len(order)} x i32> <{places}>")


def lane_sums(f: Function, number: Number, vectors: list[str]) -> str:
    """The lane sums of as many vectors as numbers fit 16 bytes, side by side: neighbours first, then halves."""
    lanes, group, v = number.lanes, len(vectors), number.vector
    while len(vectors) > 1:
        pairs = []
        for a, b in zip(vectors[::2], vectors[1::2], strict=True):
            blocks = [range(k, k + group) for k in range(0, lanes, group)]
            even = [i for block in blocks for i in [*block[::2], *(lanes + j for j in block[::2])]]
            odd = [i for block in blocks for i in [*block[1::2], *(lanes + j for j in block[1::2])]]
            pairs.append(f.let(f"fadd {v} {shuffle(f, v, a, b, even)}, {shuffle(f, v, a, b, odd)}"))
        vectors = pairs
    total, width = vectors[0], lanes
    while width > group:
        half, type_ = width // 2, f"<{width} x {number.type}>"
        low, high = (shuffle(f, type_, total, "poison", list(range(k, k + half))) for k in (0, half))
        total, width = f.let(f"fadd <{half} x {number.type}> {low}, {high}"), half
    return total


def lane_sum(f: Function, number: Number, vector: str) -> str:
    """The lanes added by halves."""
    width = number.lanes
    while width > 1:
        half = width // 2
        wide, type_ = f"<{width} x {number.type}>", f"<{half} x {number.type}>"
        low = f.let(
            f"shufflevector {wide} {vector}, {wide} poison, <{half} x i32> <{', '.join(f'i32 {i}' for i in range(half))}>"
        )
        high = f.let(
            f"shufflevector {wide} {vector}, {wide} poison, <{half} x i32> <{', '.join(f'i32 {half + i}' for i in range(half))}>"
        )
        vector = f.let(f"fadd {type_} {low}, {high}")
        width = half
    return f.let(f"extractelement <1 x {number.type}> {vector}, i64 0")
