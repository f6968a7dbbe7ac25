"""Loads of the kernel IR: which way of loading an access is, from its guards and from where its lanes lie."""

from __future__ import annotations

from weft.devices.cpu.emit.address import DUMMY, dummy, pointer_of, pointers_of
from weft.devices.cpu.emit.affine import lane_step, lane_terms
from weft.devices.cpu.emit.casts import cast
from weft.devices.cpu.emit.emitter import Emitter
from weft.devices.cpu.emit.masks import bits_of, both_masks, first_lanes, guards_of
from weft.devices.cpu.emit.memory import from_memory, memory_literal
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.types import memory_type, splat_text, wide
from weft.devices.cpu.emit.vector_load import (
    gather,
    load_masked,
    load_repeated,
    load_same,
    load_seconds,
    load_strided,
    load_turned,
)
from weft.dtypes.formats import FLOAT16, Format
from weft.kernel.ir import Access
from weft.kernel.walk import dependencies


def emit_load(e: Emitter, access: Access, dtype: Format, vector: bool) -> str:
    """A load; where the guard is false, the fill."""
    lanes = e.env.lanes if vector else None
    raw = load_raw(e, access, vector)
    name = from_memory(e.f, raw, access.buffer.dtype, lanes)
    if dtype != access.buffer.dtype:
        name = cast(Ops(e.f, e.m, e.isa, lanes), name, access.buffer.dtype, dtype)
    return name


def load_raw(e: Emitter, access: Access, vector: bool) -> str:
    """As it lies in memory; where the guard is false, the fill."""
    if access.buffer.dtype is not FLOAT16:
        return _load(e, access, memory_type(access.buffer.dtype), vector)
    bits = _load(e, access, "i16", vector)  # LLVM moves single halves about by converting them
    lanes = e.env.lanes if vector else None
    return e.f.let(f"bitcast {wide('i16', lanes)} {bits} to {wide('half', lanes)}")


def _load(e: Emitter, access: Access, type_: str, vector: bool) -> str:
    f, buffer = e.f, access.buffer
    size = buffer.dtype.bytes
    uniform, mask = guards_of(e, access)
    fill = memory_literal(buffer.dtype, access.fill)
    lanes = e.env.lanes if vector else None
    if uniform == "false":
        return splat_text(type_, fill, lanes) if vector else _named(e, type_, fill)
    affine = access.flat()
    if not vector:
        pointer = pointer_of(e, access, affine)
        if uniform is None:
            return f.load(type_, pointer, size)
        pointer = f.let(f"select i1 {uniform}, ptr {pointer}, ptr {dummy(e)}", "a")
        read = f.load(type_, pointer, size)
        return f.let(f"select i1 {uniform}, {type_} {read}, {type_} {fill}")
    assert lanes is not None
    vtype = wide(type_, lanes)
    fills = splat_text(type_, fill, lanes)
    scattered = any(e.place(dependencies(v, e.env.deps))[1] for v, _ in affine.gather)
    step = lane_step(e, affine)
    filled = mask is not None  # lanes outside get the fill; outside the Env's own mask nobody looks
    mask = both_masks(e, mask, e.env.mask)
    if step == 0 and not scattered:  # the lanes differ by the guard only
        return load_same(e, pointer_of(e, access, affine), uniform, mask, filled, fill, type_, size)
    count = lanes if mask is None else None if filled else first_lanes(mask)
    if step == 2 and e.env.turn is None and not scattered and (mask is None or bits_of(mask) is not None):
        return load_seconds(e, access, affine, type_, size, bits_of(mask), filled, uniform, fills)
    if uniform is None and count is not None and not affine.gather:
        if e.env.turn is not None and size >= 4 and step not in (None, 1, -1) and dict(affine.terms).get(e.env.turn) == 1:
            return load_turned(e, access, affine, type_, size, count)
    near = step == 1 or (step is None and lane_terms(e, affine) == (1, 0)) or (step is not None and mask is None)
    reach = lanes if step is None else (lanes - 1) * abs(step) + 1
    if scattered or not near or (uniform is not None and reach * size > DUMMY):
        pointers = pointers_of(e, access, affine)
        if uniform is None or mask is not None:
            mask = both_masks(e, mask, None if uniform is None else e.splat(uniform, "i1"))
            return gather(e, pointers, mask, fill, type_, size)
        kind = wide("ptr", lanes)  # a mask would be asked about lane by lane
        pointers = f.let(f"select i1 {uniform}, {kind} {pointers}, {kind} {e.splat(dummy(e), 'ptr')}", "a")
        read = gather(e, pointers, None, fill, type_, size)
        return f.let(f"select i1 {uniform}, {vtype} {read}, {vtype} {fills}")
    pointer = pointer_of(e, access, affine)
    if uniform is not None:  # a bit for all lanes is no part of the mask: the whole vector is read elsewhere
        back = f.offset(dummy(e), (lanes - 1) * -step * size if step is not None and step < 0 else 0)
        pointer = f.let(f"select i1 {uniform}, ptr {pointer}, ptr {back}", "a")
    if step is None:
        read = load_repeated(e, pointer, mask, filled, fill, type_, size)
    elif mask is None:
        read = load_strided(e, pointer, step, type_, size)
    else:
        read = load_masked(e, pointer, mask, lanes, fill, type_, size)
    return read if uniform is None else f.let(f"select i1 {uniform}, {vtype} {read}, {vtype} {fills}")


def _named(e: Emitter, type_: str, text: str) -> str:
    return e.f.let(f"select i1 true, {type_} {text}, {type_} {text}")
