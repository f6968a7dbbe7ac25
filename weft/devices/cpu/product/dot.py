"""Products of 8-bit integers and of bfloat16 in units of 32 bits along k: several numbers are one number to the driver.

A unit of one operand times a unit of the other, summed and added to a 32-bit accumulator, is one instruction (vpdpbusd of four
bytes), or two (vpmaddwd and an addition) on 16-bit integers. Sums of integers wrap, so their order does not matter: k is one
block.

vpdpbusd multiplies unsigned bytes by signed ones. If both operands are signed (or both unsigned), the sign bits of b are flipped
while it is packed, which adds 128 to (or subtracts it from) its numbers; 128 times the sums of the rows of a corrects the result.

vdpbf16ps is two fmas in float32, the high halves of the units first. So the first number of a pair is packed into the high half,
and sums have the order and the bits of the chain of fmas. Subnormal numbers, operands and sums, are taken as zero.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.text import Function, Module
from weft.dtypes.formats import BFLOAT16, FLOAT32, INT32, holds
from weft.kernel.product import Operand, Product
from weft.kernel.target import Order


class Dot(NamedTuple):
    """How units are multiplied.

    instruction: see ``ISA.dot``, or "bf16": units of float32 vectors are pairs of bfloat16. a_signed, b_signed: of bytes.
    rest: numbers in the last unit of k, 0 if it is whole.
    """

    instruction: str
    lanes: int
    a_signed: bool
    b_signed: bool
    rest: int

    @property
    def per(self) -> int:
        """Return the numbers in a unit."""
        return 4 if self.instruction == "vnni" else 2

    @property
    def flip(self) -> bool:
        """Return whether the sign bits of b are flipped."""
        return self.instruction == "vnni" and self.a_signed == self.b_signed

    @property
    def correction(self) -> int:
        """Return the factor of the sum of a row of a that is added to the results if ``flip``."""
        return -128 if self.a_signed else 128

    def emit(self, module: Module, f: Function, a: str, b: str, acc: str) -> str:
        """Emit ``acc`` plus the sums of the products of the units of two vectors."""
        vec, bits = f"<{self.lanes} x i32>", 32 * self.lanes
        if self.instruction == "bf16":
            vec, pairs, name = f"<{self.lanes} x float>", f"<{2 * self.lanes} x bfloat>", f"llvm.x86.avx512bf16.dpbf16ps.{bits}"
            module.declare(name, f"declare {vec} @{name}({vec}, {pairs}, {pairs})")
            a, b = (f.let(f"bitcast {vec} {x} to {pairs}") for x in (a, b))
            return f.let(f"call {vec} @{name}({vec} {acc}, {pairs} {a}, {pairs} {b})")
        if self.instruction == "vnni":
            unsigned, signed = (b, a) if self.a_signed else (a, b)
            name = f"llvm.x86.avx512.vpdpbusd.{bits}"
            module.declare(name, f"declare {vec} @{name}({vec}, {vec}, {vec})")
            return f.let(f"call {vec} @{name}({vec} {acc}, {vec} {unsigned}, {vec} {signed})")
        if self.instruction == "madd":
            halves, name = f"<{2 * self.lanes} x i16>", _MADD[bits]
            module.declare(name, f"declare {vec} @{name}({halves}, {halves})")
            a, b = (f.let(f"bitcast {vec} {x} to {halves}") for x in (a, b))
            return f.let(f"add {vec} {acc}, {f.let(f'call {vec} @{name}({halves} {a}, {halves} {b})')}")
        for up in (16, 0):  # the low halves, then the high ones
            x, y = (f.let(f"ashr {vec} {f.let(f'shl {vec} {x}, splat (i32 {up})')}, splat (i32 16)") for x in (a, b))
            acc = f.let(f"add {vec} {acc}, {f.let(f'mul {vec} {x}, {y}')}")
        return acc

    def emit_sum(self, module: Module, f: Function, a: str, acc: str) -> str:
        """Emit ``acc`` plus the sums of the bytes of units of a."""
        ones = "splat (i32 16843009)"
        return self.emit(module, f, a, ones, acc)


MAX_FMA_FLOPS = 2 << 20  # products of bfloat16 up to here, about 10 us, are not in pairs: eager ones are computed with fmas, too
_MADD = {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}


def make_dot(p: Product, isa: ISA) -> Dot:
    """Return how the units of a product of 8-bit integers are multiplied."""
    dot = Dot(isa.dot, isa.lanes(4), p.a.buffer.dtype.kind == "signed", p.b.buffer.dtype.kind == "signed", 0)
    return dot._replace(rest=p.k % dot.per)


def in_pairs(p: Product, isa: ISA) -> tuple[Product, Dot | None]:
    """Return a product of floats that bfloat16 holds, whose k counts pairs, and how they are multiplied; ``p`` and None if not.

    Both operands are packed. A pair lies in one block of the sum, and in one row of k. Sums rounded at each step remain fmas, and
    so do small products. A product that may round its operands to bfloat16 does so for this.
    """
    if p.precision == "bfloat16":
        a, b = (replace(x, rounded=BFLOAT16) if x.buffer.dtype is FLOAT32 and x.rounded is None else x for x in (p.a, p.b))
        rounded, dot = in_pairs(replace(p, a=a, b=b, precision="float32"), isa)
        return (p, None) if dot is None else (rounded, dot)
    formats = (p.a.rounded or p.a.buffer.dtype, p.b.rounded or p.b.buffer.dtype)
    block, total = p.order.block, p.k * p.k_iterations
    if not isa.multiplies_bfloat16 or p.accum is not FLOAT32 or not all(holds(BFLOAT16, form) for form in formats):
        return p, None
    if p.accumulator is not None and p.accumulator.every == 1 or p.k < 2 or p.flops <= MAX_FMA_FLOPS:
        return p, None
    if block < total and block % 2 or p.k_iterations > 1 and p.k % 2:
        return p, None
    order = Order(1, -(-min(block, total) // 2))
    return replace(p, k=-(-p.k // 2), order=order), Dot("bf16", isa.lanes(4), True, True, p.k % 2)


def in_units(p: Product, isa: ISA) -> tuple[Product, Dot]:
    """Return a product of 8-bit integers whose k counts units, and how they are multiplied.

    An operand whose units are whole and adjacent is read as an array of int32; strides of the other one remain those of bytes.
    """
    dot = make_dot(p, isa)
    k = -(-p.k // dot.per)

    def as_units(x: Operand) -> Operand:
        steps = (x.const, x.free, *x.outer, *x.k_outer)
        if dot.per != 4 or x.k != 1 or dot.rest or any(step % 4 for step in steps):
            return x
        outer, k_outer = (tuple([step // 4 for step in axes]) for axes in (x.outer, x.k_outer))
        return Operand(replace(x.buffer, dtype=INT32), x.const // 4, x.free // 4, 1, outer, k_outer)

    return replace(p, k=k, a=as_units(p.a), b=as_units(p.b), order=Order(1, k * p.k_iterations)), dot
