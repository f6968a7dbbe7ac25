"""The inner loop of every product: a tile of accumulators in registers, one fma chain an element.

    acc[rows][vectors] += a[row, k] * b[k, vector]      for ascending k

The strides of ``a`` are compile-time constants, so all rows are one base register and displacements. ``b``
is read in place or from a packed panel; it differs in its row stride, alignment and last vector only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weft.codegen.cpu.gemm_pack import Packer
from weft.codegen.cpu.text import Function, Module

Tile = list[list[str]]


@dataclass(frozen=True, slots=True)
class Micro:
    """One microkernel. Strides in elements of ``scalar`` ("float" or "double").

    kc: the number of k steps, or None where the caller passes it. tail: lanes in use of the last vector
    of b, 0 when all (reads beyond are masked). align: alignment of b's vectors in bytes.
    blocked: accumulators continue from and go to the scratch tile %T by %flags (1: continue, 2: last block).
    copy: b's vectors are also stored at %P, as the packed panel that the tiles below read.
    turn: b runs along k in memory with this stride between columns, and is transposed in registers.
    """

    name: str
    rows: int
    vectors: int
    lanes: int
    scalar: str
    a_row: int
    a_k: int
    b_k: int
    kc: int | None
    tail: int = 0
    align: int = 4
    blocked: bool = False
    fma: bool = True
    copy: bool = False
    turn: int = 0

    @property
    def conflict(self) -> bool:
        return self.turn * self.size % 1024 == 0 and self.turn > 0

    @property
    def size(self) -> int:
        return 4 if self.scalar == "float" else 8

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.scalar}>"

    @property
    def suffix(self) -> str:
        return f"v{self.lanes}f{self.size * 8}"


PARAMETERS = "ptr %A, ptr %B, ptr %T, ptr %P, i64 %kc, i64 %flags, i64 %i, i64 %j"


def mask_text(lanes: int, live: int) -> str:
    """A constant mask, spelt as ``access.first_lanes`` counts it."""
    return "<" + ", ".join("i1 true" if x < live else "i1 false" for x in range(lanes)) + ">"


def masked_load(module: Module, f: Function, type_: str, suffix: str, lanes: int, live: int, pointer: str, align: int) -> str:
    """The first ``live`` lanes, zero beyond; nothing beyond is touched."""
    name = f"llvm.masked.load.{suffix}.p0"
    module.declare(name, f"declare {type_} @{name}(ptr, <{lanes} x i1>, {type_})")
    mask = mask_text(lanes, live)
    return f.let(f"call {type_} @{name}(ptr align {align} {pointer}, <{lanes} x i1> {mask}, {type_} zeroinitializer)")


def emit_microkernel(
    module: Module, micro: Micro, extra: str, finish: Callable[[Function, Tile], None],
    fetch: Callable[[Function], None] | None = None, unroll: int = 4,
) -> None:
    """Emit ``@name``. ``extra``: more parameters; ``finish`` emits the epilogue on the accumulators, ``fetch`` asks for
    the memory it will need."""
    f = module.function(f"define internal void @{micro.name}({PARAMETERS}{extra})")
    vec, rows, nv = micro.vector, micro.rows, micro.vectors
    width = micro.lanes * micro.size
    cells = [[f.local(vec, width) for _ in range(nv)] for _ in range(rows)]

    def spread(action: Callable[[str, int], None]) -> None:
        for r in range(rows):
            for v in range(nv):
                action(cells[r][v], r * nv + v)

    spread(lambda cell, _: f.store(vec, "zeroinitializer", cell, width))
    if micro.blocked:
        with f.when(f.let("icmp ne i64 " + f.let("and i64 %flags, 1") + ", 0", "c")):
            spread(lambda cell, n: f.store(vec, f.load(vec, f.offset("%T", n * width), width), cell, width))

    if micro.blocked:
        for line in range(rows * nv * width // 64):
            module.prefetch(f, f.offset("%T", rows * nv * width + 64 * line))
    if fetch is not None and micro.blocked:
        with f.when(f.let("icmp uge i64 %flags, 2", "c")):
            fetch(f)
    elif fetch is not None:
        fetch(f)
    steps = _Steps(module, f, micro, cells)
    if micro.kc is not None and micro.kc * rows * nv <= 96:
        steps.emit("%A", "%B", "%P", micro.kc)
    else:
        _loop(f, micro, steps, unroll)

    if not micro.blocked:
        finish(f, _read(f, vec, cells, width))
    else:
        last, save, done = (f.fresh_label(h) for h in ("last", "save", "done"))
        f.do(f"br i1 {f.let('icmp ult i64 %flags, 2', 'c')}, label %{save}, label %{last}")
        f.label(save)
        spread(lambda cell, n: f.store(vec, f.load(vec, cell, width), f.offset("%T", n * width), width))
        f.do(f"br label %{done}")
        f.label(last)
        finish(f, _read(f, vec, cells, width))
        f.do(f"br label %{done}")
        f.label(done)
    f.do("ret void")


def _read(f: Function, vec: str, cells: Tile, width: int) -> Tile:
    return [[f.load(vec, cell, width) for cell in row] for row in cells]


def _loop(f: Function, micro: Micro, steps: _Steps, unroll: int) -> None:
    """The k loop, ``unroll`` steps a turn, then the rest."""
    a, b, p = (f.local("ptr") for _ in range(3))
    for cell, start in ((a, "%A"), (b, "%B"), (p, "%P")):
        f.store("ptr", start, cell)

    def turn(count: int) -> None:
        at, bt, pt = (f.load("ptr", cell) for cell in (a, b, p))
        steps.emit(at, bt, pt, count)
        f.store("ptr", f.offset(at, count * micro.a_k * micro.size), a)
        f.store("ptr", f.offset(bt, count * micro.b_k * micro.size), b)
        f.store("ptr", f.offset(pt, count * micro.vectors * micro.lanes * micro.size), p)

    unroll = 64 // micro.size if micro.conflict else unroll
    if micro.kc is not None:
        with f.loop(0, micro.kc // unroll):
            turn(unroll)
        if micro.kc % unroll:
            turn(micro.kc % unroll)
    else:
        with f.loop(0, f.let(f"udiv i64 %kc, {unroll}")):
            turn(unroll)
        with f.loop(0, f.let(f"urem i64 %kc, {unroll}")):
            turn(1)


class _Steps:
    """Emits k steps on the accumulators."""

    def __init__(self, module: Module, f: Function, micro: Micro, cells: Tile) -> None:
        self.module, self.f, self.micro, self.cells = module, f, micro, cells
        vec = micro.vector
        if micro.fma:
            module.declare(f"llvm.fma.{micro.suffix}", f"declare {vec} @llvm.fma.{micro.suffix}({vec}, {vec}, {vec})")

    def emit(self, a: str, b: str, p: str, count: int) -> None:
        f, m = self.f, self.micro
        width = m.lanes * m.size
        acc = _read(f, m.vector, self.cells, width)
        if m.turn:
            self._turned(a, b, count, acc)
        for u in range(0 if m.turn else count):
            # the smaller side is held in registers, the other streams through one
            if m.vectors <= m.rows:
                held = [self._vector(b, p, u, v) for v in range(m.vectors)]
                for r in range(m.rows):
                    x = self._splat(a, u, r)
                    for v in range(m.vectors):
                        acc[r][v] = self._fma(x, held[v], acc[r][v])
            else:
                held = [self._splat(a, u, r) for r in range(m.rows)]
                for v in range(m.vectors):
                    y = self._vector(b, p, u, v)
                    for r in range(m.rows):
                        acc[r][v] = self._fma(held[r], y, acc[r][v])
        for r in range(m.rows):
            for v in range(m.vectors):
                f.store(m.vector, acc[r][v], self.cells[r][v], width)

    def _turned(self, a: str, b: str, count: int, acc: Tile) -> None:
        m = self.micro
        dtype = np.dtype(np.float32 if m.size == 4 else np.float64)
        packer = Packer(self.module, dtype, dtype, m.lanes)
        columns = (m.vectors - 1) * m.lanes + (m.tail or m.lanes)
        step = packer.quad if count % packer.quad == 0 else 1
        quads = range(0, count, step)
        order = [(u, v) for u in quads for v in range(m.vectors)]
        if m.conflict:
            # columns fall into one cache set: a few of them read whole lines before the next do
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
            value = masked_load(self.module, self.f, m.vector, m.suffix, m.lanes, m.tail, pointer, m.size)
        else:
            value = self.f.load(m.vector, pointer, m.align)
        if m.copy:
            place = self.f.offset(p, (u * m.vectors + v) * m.lanes * m.size)
            self.f.store(m.vector, value, place, m.lanes * m.size)
        return value

    def _splat(self, a: str, u: int, r: int) -> str:
        m = self.micro
        x = self.f.load(m.scalar, self.f.offset(a, (r * m.a_row + u * m.a_k) * m.size), m.size)
        one = self.f.let(f"insertelement {m.vector} poison, {m.scalar} {x}, i32 0")
        return self.f.let(f"shufflevector {m.vector} {one}, {m.vector} poison, <{m.lanes} x i32> zeroinitializer")

    def _fma(self, x: str, y: str, z: str) -> str:
        m = self.micro
        if m.fma:
            return self.f.let(f"call {m.vector} @llvm.fma.{m.suffix}({m.vector} {x}, {m.vector} {y}, {m.vector} {z})")
        return self.f.let(f"fadd {m.vector} {self.f.let(f'fmul {m.vector} {x}, {y}')}, {z}")
