"""Convolutions in pairs of bfloat16, and copies that make them: two channels, or two images of a weight gradient, are one number.

A pair takes the place of one float32: tiles, layouts and loops are those of half as many channels, and a multiply-add is
vdpbf16ps. All windows, strides and borders have pairs, since both numbers lie at the same pixel. The second number of the last
pair is zero in both operands if the number of channels is odd.

The sum adds the two products of a pair at each step, in the order of pairs and taps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from weft.devices.cpu.convolution.epilogue import SumPart
from weft.devices.cpu.convolution.tile import Number
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.product.dot import MAX_FMA_FLOPS
from weft.devices.cpu.product.pack import Packer, round_to_bfloat16
from weft.dtypes.formats import BFLOAT16, FLOAT32, holds
from weft.kernel.convolution import Conv, coefficient
from weft.kernel.ir import Access, Affine, Axis
from weft.kernel.summation import contraction_order


def in_pairs(conv: Conv, isa: ISA) -> Conv | None:
    """Return the convolution whose ``chan`` counts pairs; None if it may not round its operands, or would not gain."""
    c = conv.contraction
    permitted = c.precision == "bfloat16" and c.accum is FLOAT32 and isa.multiplies_bfloat16
    if not permitted or conv.chan.extent < 2 or conv.flops() <= MAX_FMA_FLOPS:
        return None

    def double(access: Access) -> Access:
        """Return the access whose step along the channels is that of pairs."""
        index = [Affine(i.const, tuple([(a, 2 * s if a == conv.chan.id else s) for a, s in i.terms])) for i in access.index]
        return replace(access, index=tuple(index))

    chan = Axis(conv.chan.id, -(-conv.chan.extent // 2))
    return replace(conv, chan=chan, image=double(conv.image), weights=double(conv.weights), paired=conv.chan)


def block_steps(conv: Conv) -> int:
    """Return the steps of a block of the sum. Of pairs, a block of whole channels has half as many."""
    block, taps = contraction_order(conv.contraction).block, prod(w.tap.extent for w in conv.windows)
    return block if conv.paired is None or block % taps else -(-(block // taps) // 2) * taps


@dataclass(frozen=True, slots=True)
class Pair:
    """Where the second number of a pair lies.

    distance: from the first one, in bytes. mask: of the bits of a pair; "" for all.
    """

    module: Module
    distance: int | str
    mask: str

    def join(self, f: Function, number: Number, first: str, second: str, wide: bool) -> str:
        """Emit the pairs of two vectors of float32, or of two numbers, rounded to bfloat16; the first in the upper halves."""
        v, n = number.vector, number.lanes
        if not wide:
            first, second = (f.let(f"insertelement {v} zeroinitializer, float {x}, i64 0") for x in (first, second))
        words = round_to_bfloat16(self.module, f, n, second, first)
        words = f.shuffle(f"<{2 * n} x i16>", words, "poison", [half + i for i in range(n) for half in (0, n)])
        pairs = f.let(f"bitcast <{2 * n} x i16> {words} to <{n} x i32>")
        if self.mask:
            pairs = f.let(f"and <{n} x i32> {pairs}, {f.splat('i32', self.mask, n)}")
        value = f.let(f"bitcast <{n} x i32> {pairs} to {v}")
        return value if wide else f.let(f"extractelement {v} {value}, i64 0")


def make_pair(module: Module, f: Function, conv: Conv, access: Access, index: int | str) -> Pair | None:
    """Emit where the second number of the pair ``index`` of an operand lies; None if the convolution has no pairs."""
    if conv.paired is None:
        return None
    distance, width = coefficient(access.flat(), conv.chan) // 2, access.buffer.dtype.bytes
    if conv.paired.extent % 2 == 0:
        return Pair(module, distance * width, "")
    is_last = f.let(f"icmp eq i64 {index}, {conv.chan.extent - 1}")  # of a number alone
    return Pair(
        module, f.let(f"select i1 {is_last}, i64 0, i64 {distance * width}"), f.let(f"select i1 {is_last}, i32 -65536, i32 -1")
    )


def emit_packers(part: SumPart, conv: Conv, name: str, count: int, stride: int, k_stride: int, out_stride: int) -> str:
    """Emit ``Packer.columns`` of the weights; of pairs, and of a last channel alone, if there are any. Return ``name``."""
    accum, lanes, dtype = conv.contraction.accum, part.number.lanes, conv.weights.buffer.dtype
    if not part.module.once(name):
        return name
    if conv.paired is None:
        Packer(part.module, dtype, accum, lanes).columns(name[1:], count, stride, k_stride, out_stride)
        return name
    rounded = None if holds(BFLOAT16, dtype) else BFLOAT16
    apart = coefficient(conv.weights.flat(), conv.chan) // 2
    Packer(part.module, dtype, accum, lanes, 2, isa=part.isa, rounded=rounded, apart=apart).columns(
        name[1:], count, stride, k_stride, out_stride
    )
    if conv.paired.extent % 2:
        Packer(part.module, dtype, accum, lanes, isa=part.isa, rounded=rounded).columns(
            f"{name[1:]}.alone", count, stride, k_stride, out_stride
        )
    return name


def call_packer(f: Function, conv: Conv, name: str, index: int | str, arguments: str) -> None:
    """Emit the call of a function of ``emit_packers`` for the pair ``index``, or the channel."""
    if conv.paired is None or conv.paired.extent % 2 == 0:
        f.do(f"call void {name}({arguments})")
        return
    is_last = f.let(f"icmp eq i64 {index}, {conv.chan.extent - 1}")
    with f.when(is_last):
        f.do(f"call void {name}.alone({arguments})")
    with f.otherwise():
        f.do(f"call void {name}({arguments})")
