"""Sums of blocks joined pairwise, as ``Order`` says: a binary counter whose digits are partial results in memory.

Level l holds the join of 2**l neighbouring blocks while bit l of the number of finished blocks is set. When block b is done,
what the trailing ones of b say is joined with it, and the result goes to the level of b's lowest zero. After the last block
whatever levels are in use are joined, the shortest first.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.devices.cpu.emit.storage_formats import load_cell, store_cell
from weft.devices.cpu.emit.text import Function, Module

Join = Callable[[list[str], list[str]], list[str]]  # (earlier, later) -> joined
Places = Callable[[str], list[str]]  # a level -> where each register lies in it
SLOT = 128  # bytes: room for any register's lanes


def depth(blocks: int, partial: bool = False) -> int:
    """How many levels are needed. ``partial``: a block that is not done rests at the level of its lowest zero."""
    return max(1, (blocks if partial else blocks - 1).bit_length())


def level_of(m: Module, f: Function, block: str | int) -> str:
    """The level that a block goes to: how many ones its number ends in."""
    m.declare("llvm.cttz.i64", "declare i64 @llvm.cttz.i64(i64, i1)")
    return f.let(f"call i64 @llvm.cttz.i64(i64 {f.let(f'xor i64 {block}, -1')}, i1 false)")


def joins(f: Function, block: str | int, last: str) -> str:
    """Which levels are joined with a block, a bit each; ``last``: whether it is the last one."""
    ones = f.let(f"and i64 {block}, {f.let(f'xor i64 {f.add(block, 1)}, -1')}")
    return f.let(f"select i1 {last}, i64 {block}, i64 {ones}")


def rows(f: Function, base: str, stride: int, places: list[int]) -> Places:
    """Levels of equal size, one behind the other."""
    def at(level: str) -> list[str]:
        start = f.offset(base, f.mul(level, stride))
        return [f.offset(start, p) for p in places]

    return at


def each_level(m: Module, f: Function, mask: str, body: Callable[[str], None]) -> None:
    """``body(level)`` for every bit of ``mask``, lowest first."""
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
    m: Module, f: Function, at: Places, mask: str, types: list[str], cells: list[str], merge: Join, align: int,
) -> None:
    """Join the levels that ``mask`` names with what ``cells`` (a local each, of LLVM ``types``) hold, lowest first."""
    def with_level(level: str) -> None:
        earlier = [load_cell(f, t, p, align) for t, p in zip(types, at(level), strict=True)]
        later = [f.load(t, c) for t, c in zip(types, cells, strict=True)]
        for t, c, value in zip(types, cells, merge(earlier, later), strict=True):
            f.store(t, value, c)

    each_level(m, f, mask, with_level)


def keep(m: Module, f: Function, at: Places, block: str | int, types: list[str], cells: list[str], align: int) -> None:
    """Put what ``cells`` hold at the level of a block."""
    for t, c, pointer in zip(types, cells, at(level_of(m, f, block)), strict=True):
        store_cell(f, t, f.load(t, c), pointer, align)


def tree(f: Function, blocks: int, merge_into: Callable[[str, str], None]) -> None:
    """The same joins of results that all lie in memory: ``merge_into(i, j)`` joins block j to block i; block 0 has it all."""
    step = f.local("i64")
    head, body, done = (f.fresh_label(h) for h in ("steps", "step", "joined"))
    f.store("i64", "1", step)
    f.do(f"br label %{head}")
    f.label(head)
    wide = f.load("i64", step)
    f.do(f"br i1 {f.let(f'icmp slt i64 {wide}, {blocks}', 'c')}, label %{body}, label %{done}")
    f.label(body)
    twice = f.add(wide, wide)
    with f.loop(0, f.let(f"sub i64 {blocks}, {wide}"), twice) as i:
        merge_into(i, f.add(i, wide))
    f.store("i64", twice, step)
    f.do(f"br label %{head}")
    f.label(done)


class Blocks:
    """Results of blocks as they are finished, in ``cells``; when the last was put, ``get`` gives the whole."""

    def __init__(self, m: Module, f: Function, types: list[str], blocks: int, merge: Join) -> None:
        self.m, self.f, self.types, self.blocks, self.merge = m, f, types, blocks, merge
        self.cells = [f.local(t) for t in types]
        size = SLOT * len(types)
        levels = f.local(f"[{depth(blocks) * size} x i8]", 64) if blocks > 1 else "null"
        self.at = rows(f, levels, size, [SLOT * k for k in range(len(types))])

    def put(self, number: str | int, state: list[str]) -> None:
        """What block ``number`` made."""
        f = self.f
        for t, c, s in zip(self.types, self.cells, state, strict=True):
            f.store(t, s, c)
        if self.blocks == 1:
            return
        last = f.let(f"icmp eq i64 {number}, {self.blocks - 1}", "c")
        join(self.m, f, self.at, joins(f, number, last), self.types, self.cells, self.merge, 64)
        with f.when(f.let(f"xor i1 {last}, true")):
            keep(self.m, f, self.at, number, self.types, self.cells, 64)

    def get(self) -> list[str]:
        return [self.f.load(t, c) for t, c in zip(self.types, self.cells, strict=True)]
