"""Masked loads of bytes and halves, which no machine has: one function a module instead of a branch a lane at each load."""

from __future__ import annotations

from weft.devices.cpu.emit.text import Module
from weft.devices.cpu.emit.types import wide


def load_function(m: Module, type_: str, lanes: int, size: int, gather: bool) -> str:
    """The name of ``vector (ptr | vector of ptr, mask, fill)``: whole vectors where the mask allows all, else lane by lane."""
    vtype, bits = wide(type_, lanes), wide("i1", lanes)
    name = f"@weft_{'gather' if gather else 'load'}_v{lanes}{type_}"
    if not m.once(name):
        return name
    source = wide("ptr", lanes) if gather else "ptr"
    f = m.function(f"define internal {vtype} {name}({source} %from, {bits} %mask, {type_} %fill)", "nounwind noinline")
    out, allowed = f.local(f"[{lanes} x {type_}]", 64), f.local(f"[{lanes} x i8]", 64)
    places = f.local(f"[{lanes} x ptr]", 64) if gather else ""
    m.declare(f"and.v{lanes}i1", f"declare i1 @llvm.vector.reduce.and.v{lanes}i1({bits})")
    with f.when(f.let(f"call i1 @llvm.vector.reduce.and.v{lanes}i1({bits} %mask)")):
        read = f.load(vtype, "%from", size) if not gather else "poison"
        for k in range(lanes if gather else 0):
            one = f.load(type_, f.let(f"extractelement {source} %from, i32 {k}"), size)
            read = f.let(f"insertelement {vtype} {read}, {type_} {one}, i32 {k}")
        f.do(f"ret {vtype} {read}")
        f.label(f.fresh_label("unused"))
    some = m.any_lane(f, "%mask", lanes)
    with f.when(f.let(f"xor i1 {some}, true")):
        one = f.let(f"insertelement {vtype} poison, {type_} %fill, i32 0")
        f.do(f"ret {vtype} {f.let(f'shufflevector {vtype} {one}, {vtype} poison, <{lanes} x i32> zeroinitializer')}")
        f.label(f.fresh_label("unused"))
    if gather:
        f.store(wide("ptr", lanes), "%from", places)
    f.store(wide("i8", lanes), f.let(f"zext {bits} %mask to {wide('i8', lanes)}"), allowed)
    with f.loop(0, lanes) as i:
        place = f.element(out, type_, i)
        f.store(type_, "%fill", place)
        with f.when(f.let(f"icmp ne i8 {f.load('i8', f.element(allowed, 'i8', i))}, 0")):
            there = f.load("ptr", f.element(places, "ptr", i)) if gather else f.element("%from", type_, i)
            f.store(type_, f.load(type_, there, size), place)
    f.do(f"ret {vtype} {f.load(vtype, out)}")
    return name
