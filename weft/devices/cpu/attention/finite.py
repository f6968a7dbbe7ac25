"""Zeros times what lies in memory: NaN where that is not finite. So tiles that are skipped leave the NaNs that multiplying them
would, and cost a look at what they would have met."""

from __future__ import annotations

from weft.devices.cpu.attention.plan import Plan, Side
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.product.pack import Packer


class Finite:
    """Sums of zeros times columns, or rows, and their addition to what was summed."""

    def __init__(self, m: Module, plan: Plan, symbol: str) -> None:
        self.m, self.plan, self.symbol = m, plan, symbol
        self.made: dict[Side, str] = {}
        self.vector, self.width = f"<{plan.lanes} x {plan.scalar}>", plan.lanes * plan.size

    def columns(self, f: Function, side: Side, start: str, count: int, out: str) -> str:
        """Sums over ``count`` columns from ``start`` on, to ``out`` [own axis]; whether one of them is NaN."""
        if side not in self.made:
            name = self.made[side] = f"{self.symbol}.finite{len(self.made)}"
            g = self.m.function(f"define internal i1 @{name}(ptr %start, i64 %count, ptr %out)")
            pack = Packer(self.m, side.buffer.dtype, self.plan.chain.accum, self.plan.lanes)
            size = side.buffer.dtype.bytes
            bad = "false"
            for first in range(0, side.extent, self.plan.lanes):
                live = min(self.plan.lanes, side.extent - first)
                cell = g.local(self.vector, self.width)
                g.store(self.vector, "zeroinitializer", cell, self.width)
                with g.loop(0, "%count") as j:
                    at = g.offset("%start", g.mul(j, side.place * size))
                    if side.own == 1 and live == self.plan.lanes:
                        x = pack.read(g, g.offset(at, first * size), live)
                    else:
                        x = pack.across(g, at, first, side.extent, side.own)
                    self._add(g, cell, g.let(f"fmul {self.vector} {x}, zeroinitializer"))
                bad = self._kept(g, cell, g.offset("%out", first * self.plan.size), bad)
            g.do(f"ret i1 {bad}")
        return f.let(f"call i1 @{self.made[side]}(ptr {start}, i64 {count}, ptr {out})")

    def rows(self, f: Function, start: str, count: int, width: int, out: str) -> str:
        """The same of rows that were copied, each ``width`` elements from the one before."""
        bad = "false"
        for first in range(0, width, self.plan.lanes):
            cell = f.local(self.vector, self.width)
            f.store(self.vector, "zeroinitializer", cell, self.width)
            with f.loop(0, count) as r:
                at = f.add(f.mul(r, width * self.plan.size), first * self.plan.size)
                x = f.load(self.vector, f.offset(start, at), self.width)
                self._add(f, cell, f.let(f"fmul {self.vector} {x}, zeroinitializer"))
            bad = self._kept(f, cell, f.offset(out, first * self.plan.size), bad)
        return bad

    def _add(self, f: Function, cell: str, x: str) -> None:
        f.store(self.vector, f.let(f"fadd {self.vector} {f.load(self.vector, cell, self.width)}, {x}"), cell, self.width)

    def _kept(self, f: Function, cell: str, out: str, bad: str) -> str:
        total = f.load(self.vector, cell, self.width)
        f.store(self.vector, total, out, self.width)
        one = self.m.any_lane(f, f.let(f"fcmp uno {self.vector} {total}, {total}"), self.plan.lanes)
        return one if bad == "false" else f.let(f"or i1 {bad}, {one}")

    def add_down(self, f: Function, zeros: str, sums: str, extent: int, vectors: int) -> None:
        """To sums [own axis][rows], a number of ``zeros`` for each of the own axis."""
        plan, vec = self.plan, self.vector
        with f.loop(0, extent) as e:
            z = f.load(plan.scalar, f.offset(zeros, f.mul(e, plan.size)), plan.size)
            one = f.let(f"insertelement {vec} poison, {plan.scalar} {z}, i32 0")
            many = f.let(f"shufflevector {vec} {one}, {vec} poison, <{plan.lanes} x i32> zeroinitializer")
            for v in range(vectors):
                self._add(f, f.offset(sums, f.add(f.mul(e, plan.wide * plan.size), v * self.width)), many)

    def add_to_rows(self, f: Function, zeros: str, sums: str, count: int, width: int) -> None:
        """To ``count`` rows of sums [own axis], the numbers of ``zeros``."""
        with f.loop(0, count) as r:
            for first in range(0, width, self.plan.lanes):
                z = f.load(self.vector, f.offset(zeros, first * self.plan.size), self.width)
                self._add(f, f.offset(sums, f.add(f.mul(r, width * self.plan.size), first * self.plan.size)), z)
