"""The stores of a product, emitted on its accumulators."""

from __future__ import annotations

from weft.codegen.cpu.gemm_match import Product
from weft.codegen.cpu.isa import ISA
from weft.codegen.cpu.text import Function, Module
from weft.schedule.kernel import Kernel


class Epilogue:
    def __init__(self, module: Module, kernel: Kernel, product: Product, isa: ISA) -> None:
        self.module, self.kernel, self.p, self.isa = module, kernel, product, isa
        self.lanes = isa.lanes(product.accum.itemsize)
        self.scalar = "float" if product.accum.itemsize == 4 else "double"

    def emit(self, f: Function, tile: list[list[str]], tail: int) -> None:
        """Store a tile whose first element is (%i, %j); ``tail``: lanes in use of each row's last vector, 0 for all."""
        p = self.p
        vec = f"<{self.lanes} x {self.scalar}>"
        size = p.accum.itemsize
        for store in p.stores:
            assert store.value.op == "acc"
            access = store.access
            flat = access.flat()
            base = f.load("ptr", f.offset("%args", 8 * access.buffer.id), 8)
            terms = dict(flat.terms)
            at = str(flat.const)
            for n, axis in enumerate(p.outer):
                at = f.add(at, f.mul(f"%o{n}", terms.get(axis.id, 0)))
            sm, sn = terms.get(p.m.id, 0) if p.m else 0, terms.get(p.n.id, 0) if p.n else 0
            at = f.add(at, f.add(f.mul("%i", sm), f.mul("%j", sn)))
            base = f.offset(base, f.mul(at, size))
            for r, row in enumerate(tile):
                for v, value in enumerate(row):
                    pointer = f.offset(base, (r * sm + v * self.lanes * sn) * size)
                    live = tail if tail and v == len(row) - 1 else self.lanes
                    if sn == 1 and live == self.lanes:
                        f.store(vec, value, pointer, size)
                        continue
                    for lane in range(live):
                        x = f.let(f"extractelement {vec} {value}, i32 {lane}")
                        f.store(self.scalar, x, f.offset(pointer, lane * sn * size), size)
