"""Stores: strided, guarded, masked, scattered, and additions in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext

from weft.devices.cpu.emit.affine import (
    and_masks,
    constant_mask,
    emit_guards,
    lane_step,
    leading_lane_count,
    mask_bits,
    select_lanes,
)
from weft.devices.cpu.emit.emitter import Emitter
from weft.devices.cpu.emit.load import load_raw, pointer_of, pointers_of
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import add, cast, from_memory, to_memory
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import llvm_type, memory_type, wide
from weft.kernel.expressions import access_axes, access_values, dependencies
from weft.kernel.ir import Access, Affine, Store

MIN_STREAM_BYTES = 8 << 20  # bytes; larger results bypass the caches. Buffers are aligned to 64 bytes


def emit_stores(e: Emitter, stores: Sequence[Store]) -> None:
    """Emit stores in order, but two at stride 2 that fill each other's gaps together, in the place of the later one."""
    partners = _find_partners(e, stores)
    # rows of other alignments would fetch lines that this row stores past the caches: that takes three times as long
    aligned = all([stores[min(pair)].access.flat().const % e.env.lanes in (0, 1) for pair in partners.items()])
    for i, store in enumerate(stores):
        if i not in partners:
            emit_store_access(e, store)
        elif partners[i] < i:
            _store_interleaved(e, stores[partners[i]], store, aligned)


def _find_partners(e: Emitter, stores: Sequence[Store]) -> dict[int, int]:
    """Return the partner of each store at stride 2 whose gaps another one fills, if no third one writes the same elements."""
    if e.env.vector is None or e.env.transposed_axis is not None or e.isa.lanes(4) < 16 or len(stores) < 2:
        return {}
    by_row: dict[tuple, list[int]] = {}
    for i, s in enumerate(stores):
        flat = s.access.flat()
        if s.mode == "set" and s.access.buffer.dtype.bytes >= 4 and not flat.gather and lane_step(e, flat) == 2:
            by_row.setdefault((s.access.buffer, flat.terms, flat.const // 2 * 2), []).append(i)
    pairs = [row for row in by_row.values() if len(row) == 2 and len({stores[i].access.flat().const for i in row}) == 2]
    return {a: b for pair in pairs for a, b in (pair, pair[::-1])}


def _store_interleaved(e: Emitter, one: Store, other: Store, aligned: bool) -> None:
    """Store two values at stride 2, the one at even and the other at odd elements, as vectors without gaps.

    aligned: whether they may bypass the caches
    """
    f, lanes = e.f, e.env.lanes
    stores = sorted((one, other), key=lambda s: s.access.flat().const)
    conditions = [emit_guards(e, s.access) for s in stores]
    if conditions[0][0] != conditions[1][0] or conditions[0][0] == "false":
        for s in (one, other):
            emit_store_access(e, s)
        return
    access = stores[0].access
    type_, size = memory_type(access.buffer.dtype), access.buffer.dtype.bytes
    raws = []
    for s in stores:
        ops = Ops(f, e.m, e.isa, lanes)
        value = cast(ops, e.in_lanes(s.value, vector=True), s.value.dtype, access.buffer.dtype)
        raws.append(to_memory(ops, value, access.buffer.dtype))
    masks = [and_masks(e, mask, e.env.mask) for _, mask in conditions]
    all_set = constant_mask([True] * lanes)
    pointer, whole = pointer_of(e, access, access.flat()), masks == [None, None]
    bypasses = whole and aligned and _bypasses_caches(e, access, access.flat(), size * lanes)
    e.m.took("store interleaved")
    uniform = conditions[0][0]
    with nullcontext() if uniform is None else f.when(uniform):
        for first in (0, lanes // 2):
            order = [first + i // 2 + i % 2 * lanes for i in range(lanes)]
            part = f.shuffle(wide(type_, lanes), raws[0], raws[1], order)
            to = f.offset(pointer, 2 * first * size)
            if bypasses:
                _store_past_caches(e, wide(type_, lanes), part, to, size * lanes)
            elif whole:
                f.store(wide(type_, lanes), part, to, size)
            else:
                e.m.masked_store(f, type_, lanes, part, to, size, _interleave_masks(e, [m or all_set for m in masks], order))


def _interleave_masks(e: Emitter, masks: list[str], order: list[int]) -> str:
    """Return lanes of the first mask, followed by the second, in an order."""
    bits = [mask_bits(mask) for mask in masks]
    if bits[0] is not None and bits[1] is not None:
        joined = bits[0] + bits[1]
        return constant_mask([joined[i] for i in order])
    return e.f.shuffle(wide("i1", e.env.lanes), masks[0], masks[1], order)


def emit_store_access(e: Emitter, store: Store) -> None:
    """Emit a store; see :func:`weft.devices.cpu.emit.emit.emit_store`."""
    env, f = e.env, e.f
    access = store.access
    deps: set = access_axes(access)
    for v in access_values(access):
        deps |= dependencies(v, env.deps)
    vector = env.vector is not None and (env.vector in deps or env.minor in deps or any(e.place(dependencies(v, env.deps))[1]
                                                                   for v in access_values(access)))
    if store.mode == "add" and env.vector is not None:
        vector = True
    if vector:
        name = e.in_lanes(store.value, vector=True)
    else:
        name, is_vector = e.value(store.value)
        if is_vector:  # all lanes write the same element: the last active lane wins
            last = leading_lane_count(env.mask) if env.mask is not None else env.lanes
            assert last is not None, "an Env's own mask is of its first lanes"
            name = f.let(f"extractelement {wide(llvm_type(store.value.dtype), env.lanes)} {name}, i32 {last - 1}")
    lanes = env.lanes if vector else None
    dtype = access.buffer.dtype
    ops = Ops(f, e.m, e.isa, lanes)
    if store.value.dtype != dtype:
        name = cast(ops, name, store.value.dtype, dtype)
    if store.mode == "add":
        e.m.took("scatter add" if lanes is None else "scatter add lanes")
        _add_in_place(e, access, name, lanes)
        return
    _store(e, access, to_memory(ops, name, dtype), lanes)


def _store(e: Emitter, access: Access, raw: str, lanes: int | None) -> None:
    f = e.f
    type_, size = memory_type(access.buffer.dtype), access.buffer.dtype.bytes
    uniform, mask = emit_guards(e, access)
    if uniform == "false":
        return
    affine = access.flat()
    if lanes is None:
        pointer = pointer_of(e, access, affine)
        if uniform is None:
            f.store(type_, raw, pointer, size)
            return
        with f.when(uniform):
            f.store(type_, raw, pointer, size)
        return
    vtype = wide(type_, lanes)
    step = lane_step(e, affine)
    scattered = any(e.place(dependencies(v, e.env.deps))[1] for v, _ in affine.gather)
    mask = and_masks(e, mask, e.env.mask)
    if uniform is not None:
        mask = and_masks(e, mask, e.splat(uniform, "i1"))
    if step == 1 and not scattered:
        pointer = pointer_of(e, access, affine)
        if mask is None:
            if _bypasses_caches(e, access, affine, size * lanes):
                _store_past_caches(e, vtype, raw, pointer, size * lanes)
                if size < 4:  # LLVM 22 merges a truncation without another use into the store: it does not bypass the caches then
                    e.m.declare("llvm.fake.use", "declare void @llvm.fake.use(...)")
                    f.do(f"call void (...) @llvm.fake.use({vtype} {raw})")
            else:
                f.store(vtype, raw, pointer, size)
            return
        count = leading_lane_count(mask)
        bits = mask_bits(mask)
        if bits is not None and sum(bits) == 1:  # LLVM 22 widens a masked store of a single narrow lane
            lane = bits.index(True)
            one = f.let(f"extractelement {vtype} {raw}, i32 {lane}")
            f.store(type_, one, f.offset(pointer, lane * size), size)
            return
        if count is not None and e.isa.lanes(4) < 16:
            _store_first(e, raw, pointer, count, type_, size)
            return
        e.m.masked_store(f, type_, lanes, raw, pointer, size, mask)
        return
    if step == 2 and not scattered and 4 <= size and lanes > 1 and e.isa.lanes(4) == 16:
        _store_every_second(e, raw, pointer_of(e, access, affine), mask, type_, size)
        return
    count = lanes if mask is None else leading_lane_count(mask)
    if count is not None and not scattered and step:
        pointer = pointer_of(e, access, affine)
        for i in range(count):
            one = f.let(f"extractelement {vtype} {raw}, i32 {i}")
            f.store(type_, one, f.offset(pointer, i * step * size), size)
        return
    e.m.took("scatter")
    e.m.masked_store(f, type_, lanes, raw, pointers_of(e, access, affine), size, mask or "splat (i1 true)", scatter=True)


def _store_past_caches(e: Emitter, vtype: str, raw: str, pointer: str, align: int) -> None:
    assert e.env.streamed is not None
    e.f.store(vtype, raw, pointer, align, ", !nontemporal !{i32 1}")
    e.env.streamed.add(True)


def emit_fence(f: Function, m: Module) -> None:
    """Order the stores that bypass the caches before all later ones."""
    m.declare("llvm.x86.sse.sfence", "declare void @llvm.x86.sse.sfence()")
    f.do("call void @llvm.x86.sse.sfence()")


def _store_every_second(e: Emitter, raw: str, pointer: str, mask: str | None, type_: str, size: int) -> None:
    """Store the lanes of the mask at stride 2, as two vectors of which every second lane is masked. A scatter takes longer."""
    f, lanes = e.f, e.env.lanes
    e.m.took("store every second")
    for first in (0, lanes // 2):
        places = [first + i // 2 for i in range(lanes)]
        even = constant_mask([i % 2 == 0 for i in range(lanes)])
        allowed = even if mask is None else and_masks(e, even, select_lanes(e, mask, lanes, places)) or even
        if mask_bits(allowed) != [False] * lanes:
            part = f.shuffle(wide(type_, lanes), raw, "poison", places)
            e.m.masked_store(f, type_, lanes, part, f.offset(pointer, 2 * first * size), size, allowed)


def _bypasses_caches(e: Emitter, access: Access, affine: Affine, width: int) -> bool:
    """Return whether a full vector bypasses the caches: it is aligned, and the result is large enough to evict the inputs."""
    buffer, env = access.buffer, e.env
    size = buffer.dtype.bytes
    if env.streamed is None or env.transposed_axis is not None or not env.starts_at(env.lanes) or affine.gather:
        return False
    if buffer.scope != "arg" or not 16 <= width <= 64:
        return False
    if math.prod(buffer.shape) * size <= MIN_STREAM_BYTES:
        return False
    const = affine.const
    for a, c in affine.terms:
        const += c * env.offsets.get(a, 0)
        text = env.axes[a]
        if not text.startswith("%"):
            const += c * int(text)
        elif c * (env.lanes // env.span if a == env.vector else 1) * size % width:  # the counter advances by whole vectors
            return False
    return const * size % width == 0


def _store_first(e: Emitter, raw: str, pointer: str, count: int, type_: str, size: int) -> None:
    """Store the first ``count`` lanes in pieces: AVX2's masked stores are slow, and there are none for bytes."""
    f, lanes = e.f, e.env.lanes
    vtype = wide(type_, lanes)
    at, width = 0, lanes
    while width:
        if count & width:
            part = raw if width == lanes else f.shuffle(vtype, raw, "poison", range(at, at + width))
            f.store(wide(type_, width), part, f.offset(pointer, at * size), size)
            at += width
        width //= 2


def _add_in_place(e: Emitter, access: Access, name: str, lanes: int | None) -> None:
    """Emit buffer[...] += value."""
    f, dtype = e.f, access.buffer.dtype
    type_, size = memory_type(dtype), dtype.bytes
    affine = access.flat()
    step = lane_step(e, affine) if lanes is not None else 0
    scattered = lanes is not None and any(e.place(dependencies(v, e.env.deps))[1] for v, _ in affine.gather)
    if lanes is None or (step and not scattered):  # the lanes write different elements
        old = from_memory(f, load_raw(e, access, lanes is not None), dtype, lanes)
        ops = Ops(f, e.m, e.isa, lanes)
        _store(e, access, to_memory(ops, add(ops, old, name, dtype), dtype), lanes)
        return
    uniform, mask = emit_guards(e, access)
    if uniform == "false":
        return
    mask = and_masks(e, mask, e.env.mask)
    if uniform is not None:
        mask = and_masks(e, mask, e.splat(uniform, "i1"))
    pointers = pointers_of(e, access, affine)
    ops = Ops(f, e.m, e.isa, None)
    for i in range(lanes):
        go = f.let(f"extractelement {wide('i1', lanes)} {mask}, i32 {i}") if mask is not None else "true"
        with f.when(go):
            pointer = f.let(f"extractelement {wide('ptr', lanes)} {pointers}, i32 {i}")
            one = f.let(f"extractelement {wide(llvm_type(dtype), lanes)} {name}, i32 {i}")
            old = from_memory(f, f.load(type_, pointer, size), dtype, None)
            f.store(type_, to_memory(ops, add(ops, old, one, dtype), dtype), pointer, size)
