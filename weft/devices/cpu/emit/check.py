"""Bounds checks of indices: the first index out of range is recorded, and index 0 replaces it, so that memory stays safe.

The record is two 64-bit words that the run owns: the number of a site plus one, 0 while there is no fault, and the index. The
first writer wins. Later kernels (see ``walk_ir.py``) and later parts of this kernel do not run.
"""

from __future__ import annotations

from weft.devices.cpu.emit.affine import and_masks
from weft.devices.cpu.emit.emitter import Emitter
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import wide
from weft.kernel.ir import Kernel, Value


def record_slot(kernel: Kernel) -> int:
    """Return the position of the fault record among a kernel's arguments: after scratch."""
    return len(kernel.inputs) + len(kernel.outputs) + len(kernel.scalars) + 1


def emit_check(e: Emitter, v: Value, vector: bool) -> str:
    """Return the index if it is in range, else 0; record the fault."""
    f, (index, matters) = e.f, v.args
    name = e.in_lanes(index, vector)
    if v.attr.site is None:
        return name
    lanes = e.env.lanes if vector else None
    type_, bits = wide("i64", lanes), wide("i1", lanes)
    limit = str(v.attr.extent) if lanes is None else f"splat (i64 {v.attr.extent})"
    wrong = f.let(f"icmp uge {type_} {name}, {limit}", "g")
    bad = wrong
    if not (matters.op == "const" and matters.attr):
        bad = f.let(f"and {bits} {bad}, {e.in_lanes(matters, vector)}")
    if vector:
        bad = and_masks(e, bad, e.env.mask) or bad
    faulty = bad if lanes is None else f.let(f"extractelement {bits} {bad}, i64 0") if lanes == 1 else e.m.any_lane(f, bad, lanes)
    with f.when(faulty):
        if lanes == 1:  # LLVM 22 aborts on an argument of type <1 x i1>
            only = f.let(f"extractelement {type_} {name}, i64 0")
            f.do(f"call void @{_fault_recorder(e.m, None)}(ptr {e.env.record}, i64 {v.attr.site + 1}, i64 {only}, i1 true)")
        else:
            f.do(
                f"call void @{_fault_recorder(e.m, lanes)}(ptr {e.env.record}, i64 {v.attr.site + 1}, {type_} {name}, "
                f"{bits} {bad})"
            )
    zero = "0" if lanes is None else "zeroinitializer"
    return f.let(f"select {bits} {wrong}, {type_} {zero}, {type_} {name}")


def return_if_fault(f: Function, record: str) -> None:
    """Emit a return if a fault is recorded."""
    with f.when(f.let(f"icmp ne i64 {f.load('i64', record, 8)}, 0", "c")):
        f.do("ret void")
        f.label(f.fresh_label("on"))


def _fault_recorder(m: Module, lanes: int | None) -> str:
    """Return the name of ``@name(record, site, index, bad)``, which records the first bad lane's index if the record is empty."""
    name = f"weft_out_of_bounds{lanes or ''}"
    if not m.once(name):
        return name
    type_, bits = wide("i64", lanes), wide("i1", lanes)
    f = m.function(
        f"define internal void @{name}(ptr %record, i64 %site, {type_} %index, {bits} %bad)", "cold noinline nounwind"
    )
    index = "%index"
    if lanes is not None:
        m.declare("llvm.cttz.i64", "declare i64 @llvm.cttz.i64(i64, i1)")
        word = f.let(f"bitcast {bits} %bad to i{lanes}")
        if lanes < 64:
            word = f.let(f"zext i{lanes} {word} to i64")
        lane = f.let(f"call i64 @llvm.cttz.i64(i64 {word}, i1 false)")
        index = f.let(f"extractelement {type_} %index, i64 {lane}")
    pair = f.let("cmpxchg ptr %record, i64 0, i64 %site monotonic monotonic, align 8")
    with f.when(f.let(f"extractvalue {{ i64, i1 }} {pair}, 1")):
        f.store("i64", index, f.offset("%record", 8), 8)
    return name
