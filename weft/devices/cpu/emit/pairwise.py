"""Pairwise sums of blocks, as ``Order`` defines them: a binary counter whose digits are partial results in memory.

Level l holds the sum of 2**l neighbouring blocks while bit l of the number of finished blocks is set. When block b is done, it is
joined with the levels of b's trailing ones, and the result is stored at the level of b's lowest zero. After the last block, all
occupied levels are joined, the lowest first.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.devices.cpu.emit.storage_formats import load_cell, store_cell
from weft.devices.cpu.emit.text import Function, Module

Join = Callable[[list[str], list[str]], list[str]]  # (earlier, later) -> joined
LevelPointers = Callable[[str], list[str]]  # a level -> the pointer of each register
SLOT_BYTES = 128  # bytes, enough for any register


def depth(blocks: int, partial: bool = False) -> int:
    """Return the number of levels. ``partial``: an unfinished block is stored too, at the level of its lowest zero."""
    return max(1, (blocks if partial else blocks - 1).bit_length())


def level_of(m: Module, f: Function, block: str | int) -> str:
    """Emit the level of a block: the number of trailing ones of its index."""
    m.declare("llvm.cttz.i64", "declare i64 @llvm.cttz.i64(i64, i1)")
    return f.let(f"call i64 @llvm.cttz.i64(i64 {f.let(f'xor i64 {block}, -1')}, i1 false)")


def joins(f: Function, block: str | int, last: str) -> str:
    """Emit a bit mask of the levels that are joined with a block; ``last``: an i1, whether it is the last block."""
    ones = f.let(f"and i64 {block}, {f.let(f'xor i64 {f.add(block, 1)}, -1')}")
    return f.let(f"select i1 {last}, i64 {block}, i64 {ones}")


def rows(f: Function, base: str, stride: int, places: list[int]) -> LevelPointers:
    """Return a function from a level to its pointers, for levels of ``stride`` bytes one after another."""
    def at(level: str) -> list[str]:
        start = f.offset(base, f.mul(level, stride))
        return [f.offset(start, p) for p in places]

    return at


def each_level(m: Module, f: Function, mask: str, body: Callable[[str], None]) -> None:
    """Emit ``body(level)`` for each set bit of ``mask``, lowest first."""
    m.declare("llvm.cttz.i64", "declare i64 @llvm.cttz.i64(i64, i1)")
    left = f.local("i64")
    head, next_, done = (f.fresh_label(h) for h in ("levels", "level", "joined"))
    f.store("i64", mask, left)
    f.do(f"br label %{head}")
    f.label(head)
    bits = f.load("i64", left)
    f.do(f"br i1 {f.let(f'icmp eq i64 {bits}, 0', 'c')}, label %{done}, label %{next_}")
    f.label(next_)
    body(f.let(f"call i64 @llvm.cttz.i64(i64 {bits}, i1 true)"))
    f.store("i64", f.let(f"and i64 {bits}, {f.add(bits, -1)}"), left)
    f.do(f"br label %{head}")
    f.label(done)


def join(
    m: Module, f: Function, at: LevelPointers, mask: str, types: list[str], cells: list[str], merge: Join, align: int,
) -> None:
    """Join the levels in ``mask``, lowest first, with the values in ``cells`` (one local for each of ``types``)."""
    def with_level(level: str) -> None:
        earlier = [load_cell(f, t, p, align) for t, p in zip(types, at(level), strict=True)]
        later = [f.load(t, c) for t, c in zip(types, cells, strict=True)]
        for t, c, value in zip(types, cells, merge(earlier, later), strict=True):
            f.store(t, value, c)

    each_level(m, f, mask, with_level)


def adder(f: Function, type_: str) -> Join:
    """Return a function that emits the sums of two lists of registers of one type."""
    word = "add" if "i32" in type_ else "fadd"
    return lambda x, y: [f.let(f"{word} {type_} {p}, {q}") for p, q in zip(x, y, strict=True)]


def add_block(
    m: Module, f: Function, at: LevelPointers, block: str | int, last: str, types: list[str], cells: list[str], merge: Join,
    align: int,
) -> None:
    """Join the values of a block in ``cells`` with earlier blocks; store the result unless the block is the last."""
    join(m, f, at, joins(f, block, last), types, cells, merge, align)
    with f.when(f.let(f"xor i1 {last}, true")):
        keep(m, f, at, block, types, cells, align)


def keep(m: Module, f: Function, at: LevelPointers, block: str | int, types: list[str], cells: list[str], align: int) -> None:
    """Store the values in ``cells`` at the level of a block."""
    for t, c, pointer in zip(types, cells, at(level_of(m, f, block)), strict=True):
        store_cell(f, t, f.load(t, c), pointer, align)


def tree(f: Function, blocks: int, merge_into: Callable[[str, str], None]) -> None:
    """Emit the same joins for results in memory: ``merge_into(i, j)`` joins block j into block i; block 0 receives the total."""
    step = f.local("i64")
    head, body, done = (f.fresh_label(h) for h in ("steps", "step", "joined"))
    f.store("i64", "1", step)
    f.do(f"br label %{head}")
    f.label(head)
    width = f.load("i64", step)
    f.do(f"br i1 {f.let(f'icmp slt i64 {width}, {blocks}', 'c')}, label %{body}, label %{done}")
    f.label(body)
    twice = f.add(width, width)
    with f.loop(0, f.let(f"sub i64 {blocks}, {width}"), twice) as i:
        merge_into(i, f.add(i, width))
    f.store("i64", twice, step)
    f.do(f"br label %{head}")
    f.label(done)


class Blocks:
    """Join the results of blocks as they finish. After the last ``put``, ``get`` returns the total."""

    def __init__(self, m: Module, f: Function, types: list[str], blocks: int, merge: Join) -> None:
        self.m, self.f, self.types, self.blocks, self.merge = m, f, types, blocks, merge
        self.cells = [f.local(t) for t in types]
        size = SLOT_BYTES * len(types)
        levels = f.local(f"[{depth(blocks) * size} x i8]", 64) if blocks > 1 else "null"
        self.at = rows(f, levels, size, [SLOT_BYTES * k for k in range(len(types))])

    def put(self, number: str | int, state: list[str]) -> None:
        """Add the result of block ``number``."""
        f = self.f
        for t, c, s in zip(self.types, self.cells, state, strict=True):
            f.store(t, s, c)
        if self.blocks == 1:
            return
        last = f.let(f"icmp eq i64 {number}, {self.blocks - 1}", "c")
        add_block(self.m, f, self.at, number, last, self.types, self.cells, self.merge, 64)

    def get(self) -> list[str]:
        return [self.f.load(t, c) for t, c in zip(self.types, self.cells, strict=True)]
