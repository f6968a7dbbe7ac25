"""Elementwise functions of any count: one function for each primitive and operand dtypes.

The emitter of kernels emits the primitive's formula. Short formulas are written for several vectors at once; less optimised code
needs this to keep pace with memory. The last elements, if they fill no vector, are copied to and from one, so no memory beyond
them is read or written.
"""

from __future__ import annotations

from weft.devices.cpu.emit.emit import Env, emit_store
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import memory_type
from weft.kernel.ir import Buffer, Kernel, Stage


def elementwise_text(kernel: Kernel, isa: ISA, vectors: int = 1) -> str:
    """Return the text of a function that applies a kernel's one store to any number of elements.

    The kernel's own extent occurs only in its name.

    vectors : how many are computed at once while enough elements are left

    ``void @weft_each(ptr args)``, args: element count, address of the results, then for each operand its address and 1, or 0
    if one number serves all elements.
    """
    module = Module(hides_counters=False)
    f = module.function("define void @weft_each(ptr %args)")
    stage, buffers = kernel.phases[0].stages[0], (*kernel.inputs, *kernel.outputs)
    assert isinstance(stage, Stage)
    lanes = isa.lanes(max(4, *(b.dtype.bytes for b in buffers)))
    out = buffers[-1]
    words = [f.load("i64", f.offset("%args", 8 * k), 8) for k in range(2 + 2 * len(kernel.inputs))]
    count, target = words[0], f.let(f"inttoptr i64 {words[1]} to ptr")
    starts, steps = [f.let(f"inttoptr i64 {w} to ptr") for w in words[2::2]], words[3::2]
    with f.when(f.let(f"icmp eq i64 {count}, 0", "c")):
        f.do("ret void")
    rooms = {b.id: f.local(f"[{max(64, lanes * b.dtype.bytes)} x i8]", 64) for b in buffers}
    for b, start in zip(kernel.inputs, starts, strict=True):
        _fill_lanes(f, b, rooms[b.id], start, lanes)
    done: str | int = 0
    if vectors > 1:
        done = f.let(f"and i64 {count}, {-lanes * vectors}")  # both are powers of two
        sources = [
            f.let(f"select i1 {f.let(f'icmp eq i64 {step}, 0', 'c')}, ptr {rooms[b.id]}, ptr {start}")
            for b, start, step in zip(kernel.inputs, starts, steps, strict=True)
        ]
        with f.loop(0, done, lanes * vectors) as i:
            for k in range(vectors):
                index = f.add(i, k * lanes)
                at = {
                    b.id: f.element(source, memory_type(b.dtype), f.mul(index, step))
                    for b, source, step in zip(kernel.inputs, sources, steps, strict=True)
                }
                at[out.id] = f.element(target, memory_type(out.dtype), index)
                emit_store(f, module, isa, stage.stores[0], Env(axes={0: "0"}, vector=0, lanes=lanes, pointers=at))
    with f.loop(done, count, lanes) as i:
        left = f.let(f"sub i64 {count}, {i}")
        short = f.let(f"icmp slt i64 {left}, {lanes}", "c")
        at = {}
        for b, start, step in zip(kernel.inputs, starts, steps, strict=True):
            source = f.element(start, memory_type(b.dtype), i)
            one = f.let(f"icmp eq i64 {step}, 0", "c")
            needs_copy = f.let(f"and i1 {short}, {f.let(f'xor i1 {one}, true')}")
            with f.when(needs_copy):
                _copy(module, f, rooms[b.id], source, f.mul(left, b.dtype.bytes))
            at[b.id] = f.let(f"select i1 {f.let(f'or i1 {one}, {short}')}, ptr {rooms[b.id]}, ptr {source}")
        last = f.element(target, memory_type(out.dtype), i)
        at[out.id] = f.let(f"select i1 {short}, ptr {rooms[out.id]}, ptr {last}")
        emit_store(f, module, isa, stage.stores[0], Env(axes={0: "0"}, vector=0, lanes=lanes, pointers=at))
        with f.when(short):
            _copy(module, f, last, rooms[out.id], f.mul(left, out.dtype.bytes))
    return module.text()


def _fill_lanes(f: Function, buffer: Buffer, room: str, start: str, lanes: int) -> None:
    """Store the operand's first element in all lanes: for an operand of one number, and for lanes without elements."""
    type_ = memory_type(buffer.dtype)
    cell = "i16" if type_ == "half" else type_
    one = f.load(cell, start, buffer.dtype.bytes)
    with f.loop(0, lanes) as lane:
        f.store(cell, one, f.element(room, cell, lane), buffer.dtype.bytes)


def _copy(module: Module, f: Function, to: str, source: str, nbytes: str) -> None:
    module.declare("llvm.memcpy.p0.p0.i64", "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {nbytes}, i1 false)")
