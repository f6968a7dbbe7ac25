"""Operations on vectors of one float type with any number of lanes."""

from __future__ import annotations

from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import llvm_type
from weft.dtypes.formats import Format


class Vectors:
    """A writer of operations on ``<n x scalar>``. lanes: of a whole register."""

    def __init__(self, module: Module, isa: ISA, dtype: Format) -> None:
        self.m, self.isa = module, isa
        self.scalar, self.size = llvm_type(dtype), dtype.bytes
        self.lanes = isa.lanes(self.size)

    def type(self, n: int) -> str:
        return f"<{n} x {self.scalar}>"

    def add(self, f: Function, x: str, y: str, n: int) -> str:
        return f.let(f"fadd {self.type(n)} {x}, {y}")

    def fma(self, f: Function, x: str, y: str, z: str, n: int) -> str:
        """Emit x * y + z as the products compiled for one shape do."""
        return self.m.fma(f, self.scalar, n, x, y, z, self.isa.fma)

    def splat(self, f: Function, at: str, n: int) -> str:
        """Load the number at an address into all lanes."""
        return f.splat(self.scalar, f.load(self.scalar, at, self.size), n)

    def lane_mask(self, f: Function, live: str, n: int, before: int = 0) -> str:
        """Emit a mask of the lanes below ``live``; ``before``: the number of lane 0."""
        every = f.splat("i64", live, n)
        numbers = ", ".join(f"i64 {before + lane}" for lane in range(n))
        return f.let(f"icmp slt <{n} x i64> <{numbers}>, {every}")

    def load(self, f: Function, at: str, n: int, mask: str | None = None) -> str:
        """Load neighbours, at most one register; lanes outside the mask are 0, and their memory is not read."""
        return f.load(self.type(n), at, self.size) if mask is None else self.m.masked_load(f, self.scalar, n, at, self.size, mask)

    def gather(self, f: Function, at: str, step: str, n: int, mask: str | None = None) -> str:
        """Load elements ``step`` bytes apart; lanes outside the mask are 0, and their memory is not read."""
        vec = self.type(n)
        if mask is None:
            out = "poison"
            for lane in range(n):
                x = f.load(self.scalar, f.offset(at, f.mul(step, lane)), self.size)
                out = f.let(f"insertelement {vec} {out}, {self.scalar} {x}, i32 {lane}")
            return out
        places = "poison"
        for lane in range(n):
            places = f.let(f"insertelement <{n} x ptr> {places}, ptr {f.offset(at, f.mul(step, lane))}, i32 {lane}")
        return self.m.masked_load(f, self.scalar, n, places, self.size, mask, gather=True)

    def choose(self, f: Function, mask: str, x: str, y: str, n: int) -> str:
        return f.let(f"select <{n} x i1> {mask}, {self.type(n)} {x}, {self.type(n)} {y}")

    def add_halves(self, f: Function, sums: list[str], n: int) -> list[str]:
        """Add vectors pairwise by halves until one is left."""
        while len(sums) > 1:
            half = len(sums) // 2
            sums = [self.add(f, x, y, n) for x, y in zip(sums[:half], sums[half:], strict=True)]
        return sums

    def fold_lanes(self, f: Function, x: str, n: int) -> str:
        """Add the lanes of a vector pairwise by halves; return a scalar."""
        while n > 1:
            half = n // 2
            low, high = (f.shuffle(self.type(n), x, "poison", range(start, start + half)) for start in (0, half))
            x, n = self.add(f, low, high, half), half
        return f.let(f"extractelement {self.type(1)} {x}, i32 0")


def at_least_one(f: Function, number: str) -> str:
    return f.let(f"select i1 {f.let(f'icmp sgt i64 {number}, 0', 'c')}, i64 {number}, i64 1")
