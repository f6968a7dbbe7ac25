"""The inner loop of every product: a tile of accumulators in registers, fma chains over blocks of k.

    acc[rows][vectors] += a[row, k] * b[k, vector]      for ascending k of a block; then blocks are joined pairwise

Tiles that differ in one row, or in where they read ``b``, are variants of one function: each has its own k loop, and they share
joins and epilogue, the larger part of the text.

The strides of ``a`` are compile-time constants, so all rows are one base register and displacements. ``b`` is read in place or
from a packed panel; the two differ only in row stride, alignment and last vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from weft.devices.cpu.emit import pairwise
from weft.devices.cpu.emit.isa import LINE
from weft.devices.cpu.emit.load import load_first_lanes
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.product.dot import Dot
from weft.devices.cpu.product.pack import Packer, flip_signs
from weft.dtypes.formats import FLOAT32, FLOAT64, INT32

Tile = list[list[str]]
UNROLL = 4
PANEL_AHEAD = 1024  # bytes ahead of its use that a packed panel of integers is prefetched


@dataclass(frozen=True, slots=True)
class MicrokernelSpec:
    """One microkernel. Strides in elements of ``scalar`` ("float", "double", or "i32" for units of integers).

    k: all steps of k; block: steps of one chain. piece: steps of one call, 2**n blocks or a part of one; 0: all of k.
    partial: a piece may begin or end inside a block. levels: bytes between the levels of %T, which hold the sums of blocks
    between pieces (see pairwise.py).
    tail: lanes in use of the last vector of b, 0 for all (reads beyond are masked). align: alignment of b's vectors.
    copy: b's vectors are also stored at %P, as the packed panel that the next tiles read.
    turn: b is contiguous along k, with this stride between columns, and is transposed in registers.
    dot: how units of integers are multiplied. flip: the sign bits of b are flipped as it is read.
    grain: divides the steps of every chain.
    ahead_a, ahead_b: bytes from a number of a, or a vector of b, to the one that is prefetched with it; 0 for none.
    round_sum: emits the rounding of a vector of sums, after each step if ``rounds_steps``, else after each block. Then %T holds
    the rounded sums between pieces, which are whole blocks.
    """

    name: str
    rows: int
    vectors: int
    lanes: int
    scalar: str
    a_row: int
    a_k: int
    b_k: int
    k: int
    block: int
    piece: int = 0
    partial: bool = False
    levels: int = 0
    tail: int = 0
    align: int = 4
    fma: bool = True
    copy: bool = False
    turn: int = 0
    dot: Dot | None = None
    flip: bool = False
    grain: int = 1
    round_sum: Callable[[Function, str], str] | None = None
    rounds_steps: bool = False
    ahead_a: int = 0
    ahead_b: int = 0

    @property
    def conflict(self) -> bool:
        """Return whether columns of b share a cache set."""
        return self.turn * self.size % 1024 == 0 and self.turn > 0

    @property
    def rounds_blocks(self) -> bool:
        return self.round_sum is not None and not self.rounds_steps

    @property
    def size(self) -> int:
        return 8 if self.scalar == "double" else 4

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.scalar}>"


# kc: the steps of the piece; at: the number of its first step
PARAMETERS = "ptr %A, ptr %B, ptr %T, ptr %P, i64 %kc, i64 %at, i64 %i, i64 %j"


def emit_microkernel(
    module: Module, variants: Sequence[MicrokernelSpec], extra: str, finish: Callable[[Function, Tile], None],
    begin: Callable[[Function], None] = lambda f: None,
) -> None:
    """Emit ``@name``, of the first variant's name.

    Parameters
    ----------
    variants : the first has the most rows; the others differ from it in rows and in how they read b. If there are several, the
        function has one more parameter before ``extra``: ``%variant``, the number of the variant that runs
    extra : more parameters
    finish : emits the epilogue of a tile; the rows that a variant lacks are zero
    begin : emits code before the loops
    """
    micro = variants[0]
    f = module.function(f"define internal void @{micro.name}({PARAMETERS}{', i64 %variant' if len(variants) > 1 else ''}{extra})")
    vec, width = micro.vector, micro.lanes * micro.size
    cells = [[f.local(vec, width) for _ in range(micro.vectors)] for _ in range(micro.rows)]
    flat = [cell for row in cells for cell in row]
    f.clear(vec, flat, width)
    steps = [_Steps(module, f, variant, cells[: variant.rows]) for variant in variants]
    begin(f)
    if micro.piece and not micro.rounds_blocks:
        _prefetch_sums(module, f, micro)
    if not micro.piece and micro.k <= micro.block:
        if micro.k * len(flat) <= 96:
            _emit_variants(f, steps, lambda own: own.emit("%A", "%B", "%P", micro.k))
        else:
            _Loop(f, steps).run(micro.k)
        if micro.rounds_blocks:
            _add_rounded(f, micro, flat, flat)
    elif micro.rounds_blocks:
        _emit_rounded_blocks(f, micro, _Loop(f, steps), flat)
    else:
        _emit_blocks(module, f, micro, _Loop(f, steps), flat)
    finish(f, [[f.load(vec, cell, width) for cell in row] for row in cells])


def _prefetch_sums(module: Module, f: Function, micro: MicrokernelSpec) -> None:
    """Prefetch the stored sums of the next tile: the level that its blocks go to, and the lowest one they are joined with."""
    tile = micro.rows * micro.vectors * micro.lanes * micro.size
    slot = pairwise.level_of(module, f, f.let(f"udiv i64 %at, {max(micro.block, micro.piece)}"))

    def prefetch_tile(start: str) -> None:
        for line in range(tile // 64):
            module.prefetch(f, f.offset(start, tile + 64 * line))

    prefetch_tile(f.offset("%T", f.mul(slot, micro.levels)))
    if micro.partial:  # few pieces end a block: no second prefetch
        return
    with f.when(f.let(f"icmp ne i64 {slot}, 0", "c")):
        prefetch_tile("%T")


def _emit_blocks(module: Module, f: Function, micro: MicrokernelSpec, loop: _Loop, cells: list[str]) -> None:
    """Emit the blocks of a piece, joined. The function returns unless all of k is done.

    A piece of 2**local_levels blocks joins them in local memory: only its result goes to %T, whose levels then count pieces.
    """
    vec, width, block = micro.vector, micro.lanes * micro.size, micro.block
    types, places = [vec] * len(cells), [n * width for n in range(len(cells))]
    blocks, level_bytes = -(-micro.k // block), len(cells) * width
    local_levels = pairwise.depth(blocks) if not micro.piece else max(0, (micro.piece // block).bit_length() - 1)
    local_sums = f.local(f"[{local_levels * len(cells)} x {vec}]", width) if local_levels else "null"

    near_at = pairwise.rows(f, local_sums, level_bytes, places)
    far_at = pairwise.rows(f, "%T", micro.levels, places)

    def join(at: pairwise.LevelPointers, mask: str) -> None:
        pairwise.join(module, f, at, mask, types, cells, pairwise.adder(f, vec), width)

    if micro.partial:
        into = f.let(f"urem i64 %at, {block}")
        with f.when(f.let(f"icmp ne i64 {into}, 0", "c")):
            slot = pairwise.level_of(module, f, f.let(f"udiv i64 %at, {block}"))
            for cell, pointer in zip(cells, far_at(slot), strict=True):
                f.store(vec, f.load(vec, pointer, width), cell, width)
    at, end = ("%at", f.add("%at", "%kc")) if micro.piece else ("0", str(micro.k))
    block_label, next_, over = (f.fresh_label(h) for h in ("block", "next", "over"))
    place = f.local("i64")
    if local_levels:
        f.store("i64", at, place)
        f.do(f"br label %{block_label}")
        f.label(block_label)
        at = f.load("i64", place)
    number = f.let(f"udiv i64 {at}, {block}")
    stop = f.minimum(f.mul(f.add(number, 1), block), end) if local_levels else end
    loop.run(f.let(f"sub i64 {stop}, {at}") if local_levels else "%kc")
    last = f.let(f"icmp eq i64 {stop}, {micro.k}", "c")
    mask = pairwise.joins(f, number, last)
    if micro.partial:
        ends_block = f.let(f"icmp eq i64 {f.let(f'urem i64 {stop}, {block}')}, 0", "c")
        mask = f.let(f"select i1 {f.let(f'or i1 {last}, {ends_block}')}, i64 {mask}, i64 0")
    if local_levels:
        join(near_at, f.let(f"and i64 {mask}, {(1 << local_levels) - 1}") if micro.piece else mask)
        with f.when(f.let(f"icmp ne i64 {stop}, {end}", "c")):
            pairwise.keep(module, f, near_at, number, types, cells, width)
            f.clear(vec, cells, width)
            f.store("i64", stop, place)
            f.do(f"br label %{block_label}")
            f.label(next_)
    if micro.piece:
        join(far_at, f.let(f"lshr i64 {mask}, {local_levels}"))
        with f.when(f.let(f"xor i1 {last}, true")):
            piece = f.let(f"lshr i64 {number}, {local_levels}")
            pairwise.keep(module, f, far_at, piece, types, cells, width)
            f.do("ret void")
            f.label(over)


def _emit_rounded_blocks(f: Function, micro: MicrokernelSpec, loop: _Loop, cells: list[str]) -> None:
    """Emit the blocks of a piece, each added to the rounded sums. The function returns unless all of k is done."""
    vec, width, k, block = micro.vector, micro.lanes * micro.size, micro.k, micro.block
    sums = "%T" if micro.piece else f.local(f"[{len(cells)} x {vec}]", width)
    places = [f.offset(sums, n * width) for n in range(len(cells))]
    with f.when(f.let("icmp eq i64 %at, 0", "c")) if micro.piece else nullcontext():
        for place in places:
            f.store(vec, "zeroinitializer", place, width)

    def emit_block(steps: int) -> None:
        f.clear(vec, cells, width)
        loop.run(steps)
        _add_rounded(f, micro, cells, places)

    with f.loop(0, f.let(f"udiv i64 %kc, {block}") if micro.piece else k // block):
        emit_block(block)
    is_last = f.let(f"icmp eq i64 {f.add('%at', '%kc')}, {k}", "c") if micro.piece else ""
    if k % block:
        with f.when(is_last) if is_last else nullcontext():
            emit_block(k % block)
    if is_last:
        with f.when(f.let(f"xor i1 {is_last}, true")):
            f.do("ret void")
            f.label(f.fresh_label("over"))
    for cell, place in zip(cells, places, strict=True):
        f.store(vec, f.load(vec, place, width), cell, width)


def _add_rounded(f: Function, micro: MicrokernelSpec, cells: list[str], sums: list[str]) -> None:
    """Add the sums of a block in ``cells`` to ``sums`` and round them. Both may be the same: then they are added to 0."""
    assert micro.round_sum is not None
    vec, width = micro.vector, micro.lanes * micro.size
    for cell, place in zip(cells, sums, strict=True):
        before = "zeroinitializer" if place == cell else f.load(vec, place, width)
        f.store(vec, micro.round_sum(f, f.let(f"fadd {vec} {before}, {f.load(vec, cell, width)}")), place, width)


def _emit_variants(f: Function, steps: Sequence[_Steps], emit: Callable[[_Steps], None], number: int = 0) -> None:
    """Emit code of each variant, of which that of ``%variant`` runs."""
    if number == len(steps) - 1:
        emit(steps[number])
        return
    with f.when(f.let(f"icmp eq i64 %variant, {number}", "c")):
        emit(steps[number])
    with f.otherwise():
        _emit_variants(f, steps, emit, number + 1)


class _Loop:
    """The k loop, UNROLL steps a turn, then the rest. A second run continues where the first stopped."""

    def __init__(self, f: Function, steps: Sequence[_Steps]) -> None:
        self.f, self.steps = f, steps
        self.places = [f.local("ptr") for _ in range(3)]
        for cell, start in zip(self.places, ("%A", "%B", "%P"), strict=True):
            f.store("ptr", start, cell)

    def _emit_turn(self, steps: _Steps, count: int) -> None:
        f, m = self.f, steps.micro
        a, b, p = (f.load("ptr", cell) for cell in self.places)
        steps.emit(a, b, p, count)
        for cell, pointer, step in zip(self.places, (a, b, p), (m.a_k, m.b_k, m.vectors * m.lanes), strict=True):
            f.store("ptr", f.offset(pointer, count * step * m.size), cell)

    def run(self, count: int | str) -> None:
        _emit_variants(self.f, self.steps, lambda own: self._run(own, count))

    def _run(self, steps: _Steps, count: int | str) -> None:
        f, m = self.f, steps.micro
        unroll = LINE // m.size if m.conflict or m.ahead_a else UNROLL
        with f.loop(0, count // unroll if isinstance(count, int) else f.let(f"udiv i64 {count}, {unroll}")):
            self._emit_turn(steps, unroll)
        if isinstance(count, int):
            if count % unroll:
                self._emit_turn(steps, count % unroll)
        elif m.grain % unroll:
            with f.loop(0, f.let(f"urem i64 {count}, {unroll}")):
                self._emit_turn(steps, 1)


class _Steps:
    """Emit k steps on the accumulators."""

    def __init__(self, module: Module, f: Function, micro: MicrokernelSpec, cells: Tile) -> None:
        self.module, self.f, self.micro, self.cells = module, f, micro, cells
        self.vector = micro.vector

    def emit(self, a: str, b: str, p: str, count: int) -> None:
        f, m = self.f, self.micro
        width = m.lanes * m.size
        acc = [[f.load(self.vector, cell, width) for cell in row] for row in self.cells]
        if m.turn:
            self._emit_transposed(a, b, count, acc)
        for u in range(0 if m.turn else count):
            if m.dot and m.b_k == m.vectors * m.lanes:  # a packed panel is larger than the nearest cache: 2 to 3 % of the time
                for v in range(m.vectors):
                    self.module.prefetch(f, f.offset(b, (u * m.b_k + v * m.lanes) * m.size + PANEL_AHEAD))
            x, y = partial(self._splat, a, u), partial(self._vector, b, p, u)
            # the smaller side stays in registers, the other streams through one
            few, many, fixed, streamed = (m.vectors, m.rows, y, x) if m.vectors <= m.rows else (m.rows, m.vectors, x, y)
            kept = [fixed(h) for h in range(few)]
            for i in range(many):
                one = streamed(i)
                for h, other in enumerate(kept):
                    r, v, pair = (i, h, (one, other)) if m.vectors <= m.rows else (h, i, (other, one))
                    acc[r][v] = self._fma(*pair, acc[r][v])
        for r in range(m.rows):
            for v in range(m.vectors):
                f.store(self.vector, acc[r][v], self.cells[r][v], width)

    def _emit_transposed(self, a: str, b: str, count: int, acc: Tile) -> None:
        m = self.micro
        dtype = INT32 if m.dot else FLOAT32 if m.size == 4 else FLOAT64
        packer = Packer(self.module, dtype, dtype, m.lanes, flip=m.flip)
        columns = (m.vectors - 1) * m.lanes + (m.tail or m.lanes)
        step = packer.quad if count % packer.quad == 0 else 1
        quads = range(0, count, step)
        order = [(u, v) for u in quads for v in range(m.vectors)]
        if m.conflict:
            # columns share a cache set: a few of them read whole lines before the next ones
            order = [(u, v) for v in range(m.vectors) for u in quads]
        for u, v in order:
            at = self.f.offset(b, u * m.size)
            first = v * m.lanes
            if m.conflict and u == 0:
                for column in range(first, min(first + m.lanes, columns)):
                    packer.fetch(self.f, self.f.offset(b, column * m.turn * m.size + 512))
            turned = [packer.across(self.f, at, first, columns, m.turn)] if step == 1 else packer.square(
                self.f, at, first, columns, m.turn
            )
            for s in range(step):
                for r in range(m.rows):
                    acc[r][v] = self._fma(self._splat(a, u + s, r), turned[s], acc[r][v])

    def _vector(self, b: str, p: str, u: int, v: int) -> str:
        m = self.micro
        pointer = self.f.offset(b, (u * m.b_k + v * m.lanes) * m.size)
        if m.tail and v == m.vectors - 1:
            value = load_first_lanes(self.module, self.f, m.scalar, m.lanes, m.tail, pointer, m.size)
        else:
            if m.ahead_b:
                self.module.prefetch(self.f, self.f.offset(pointer, m.ahead_b), near=False)
            value = self.f.load(self.vector, pointer, m.align)
        if m.flip:
            value = flip_signs(self.f, value, m.lanes)
        if m.copy:
            place = self.f.offset(p, (u * m.vectors + v) * m.lanes * m.size)
            self.f.store(self.vector, value, place, m.lanes * m.size)
        return value

    def _splat(self, a: str, u: int, r: int) -> str:
        m = self.micro
        pointer = self.f.offset(a, (r * m.a_row + u * m.a_k) * m.size)
        if m.ahead_a and u % (LINE // m.size) == 0:
            self.module.prefetch(self.f, self.f.offset(pointer, m.ahead_a), near=False)
        x = self.f.load(m.scalar, pointer, 1 if m.dot else m.size)
        return self.f.splat(m.scalar, x, m.lanes)

    def _fma(self, x: str, y: str, z: str) -> str:
        if self.micro.dot:
            return self.micro.dot.emit(self.module, self.f, x, y, z)
        m = self.micro
        total = self.module.fma(self.f, m.scalar, m.lanes, x, y, z, m.fma)
        return m.round_sum(self.f, total) if m.round_sum is not None and m.rounds_steps else total
