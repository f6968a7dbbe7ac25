"""Loads of the kernel IR: one function for each layout of the lanes in memory, chosen by guards and strides.

Masked loads of 8- and 16-bit elements, which have no instruction, call one function per module.
"""

from __future__ import annotations

from functools import partial

from weft.devices.cpu.emit.affine import (
    and_masks,
    emit_affine,
    emit_guards,
    first_mask,
    lane_coefficients,
    lane_step,
    leading_lane_count,
    mask_bits,
    or_masks,
    select_lanes,
    uniform_groups,
)
from weft.devices.cpu.emit.emitter import Emitter, key_of
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import cast, from_memory, memory_literal
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import memory_type, splat_text, wide
from weft.dtypes.formats import FLOAT16, Format
from weft.kernel.expressions import access_axes, dependencies
from weft.kernel.ir import Access, Affine


def emit_load(e: Emitter, access: Access, dtype: Format, vector: bool) -> str:
    """Emit a load in the register type; its value is the fill where the guard is false."""
    lanes = e.env.lanes if vector else None
    raw = load_raw(e, access, vector)
    name = from_memory(e.f, raw, access.buffer.dtype, lanes)
    if dtype != access.buffer.dtype:
        name = cast(Ops(e.f, e.m, e.isa, lanes), name, access.buffer.dtype, dtype)
    return name


def load_raw(e: Emitter, access: Access, vector: bool) -> str:
    """Emit a load in the memory type; its value is the fill where the guard is false."""
    if access.buffer.dtype is not FLOAT16:
        return _load(e, access, memory_type(access.buffer.dtype), vector)
    bits = _load(e, access, "i16", vector)  # LLVM converts single halves to move them
    lanes = e.env.lanes if vector else None
    return e.f.let(f"bitcast {wide('i16', lanes)} {bits} to {wide('half', lanes)}")


def _load(e: Emitter, access: Access, type_: str, vector: bool) -> str:
    f, buffer = e.f, access.buffer
    size = buffer.dtype.bytes
    uniform, mask = emit_guards(e, access)
    fill = memory_literal(buffer.dtype, access.fill)
    lanes = e.env.lanes if vector else None
    if uniform == "false":
        return splat_text(type_, fill, lanes) if vector else e.f.let(f"select i1 true, {type_} {fill}, {type_} {fill}")
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
    filled = mask is not None  # lanes outside the guard get the fill; lanes outside the Env's mask are unused
    mask = and_masks(e, mask, e.env.mask)
    if step == 0 and not scattered:  # all lanes read one element
        return load_broadcast(e, pointer_of(e, access, affine), uniform, mask, filled, fill, type_, size)
    count = lanes if mask is None else None if filled else leading_lane_count(mask)
    if step == 2 and e.env.transposed_axis is None and not scattered and (mask is None or mask_bits(mask) is not None):
        return load_stride_2(e, access, affine, type_, size, mask_bits(mask), filled, uniform, fills)
    if uniform is None and count is not None and not affine.gather:
        along = e.env.transposed_axis
        if along is not None and size >= 4 and step not in (None, 1, -1) and dict(affine.terms).get(along) == 1:
            return load_transposed(e, access, affine, type_, size, count)
    contiguous = step == 1 or (step is None and lane_coefficients(e, affine) == (1, 0)) or (step is not None and mask is None)
    reach = lanes if step is None else (lanes - 1) * abs(step) + 1
    if scattered or not contiguous or (uniform is not None and reach * size > DUMMY_BYTES):
        pointers = pointers_of(e, access, affine)
        if uniform is None or mask is not None:
            mask = and_masks(e, mask, None if uniform is None else e.splat(uniform, "i1"))
            return gather(e, pointers, mask, fill, type_, size)
        kind = wide("ptr", lanes)  # a mask would be tested lane by lane
        pointers = f.let(f"select i1 {uniform}, {kind} {pointers}, {kind} {e.splat(dummy(e), 'ptr')}", "a")
        read = gather(e, pointers, None, fill, type_, size)
        return f.let(f"select i1 {uniform}, {vtype} {read}, {vtype} {fills}")
    pointer = pointer_of(e, access, affine)
    if uniform is not None:  # a uniform guard is no part of the mask: the vector reads the dummy
        back = f.offset(dummy(e), (lanes - 1) * -step * size if step is not None and step < 0 else 0)
        pointer = f.let(f"select i1 {uniform}, ptr {pointer}, ptr {back}", "a")
    if step is None:
        read = load_repeated(e, pointer, mask, filled, fill, type_, size)
    elif mask is None:
        read = load_strided(e, pointer, step, type_, size)
    else:
        read = load_masked(e, pointer, mask, lanes, fill, type_, size)
    return read if uniform is None else f.let(f"select i1 {uniform}, {vtype} {read}, {vtype} {fills}")



DUMMY_BYTES = 256  # bytes that loads with a false guard may read


def pointer_of(e: Emitter, access: Access, affine: Affine) -> str:
    """Return the address of lane 0: outer terms first, each summed at its own level, the constant last."""
    type_ = memory_type(access.buffer.dtype)
    pointer = e.env.pointers[key_of(access.buffer)]
    groups, const = uniform_groups(e, affine)
    for level in sorted(groups):
        start, terms = pointer, groups[level]
        pointer = e.once(level, ("address", type_, start, tuple(terms)), partial(_advance, e, start, type_, terms))
    return e.f.offset(pointer, const * access.buffer.dtype.bytes)


def _advance(e: Emitter, pointer: str, type_: str, terms: list[tuple[str, int]]) -> str:
    return e.f.element(pointer, type_, e.f.dot(0, terms))


def pointers_of(e: Emitter, access: Access, affine: Affine) -> str:
    """Return a vector of addresses."""
    index = emit_affine(e, affine, vector=True)
    base = e.env.pointers[key_of(access.buffer)]
    return e.f.let(f"getelementptr {memory_type(access.buffer.dtype)}, ptr {base}, {wide('i64', e.env.lanes)} {index}", "a")


def dummy(e: Emitter) -> str:
    """Return memory that is always readable: loads whose guard is false read it."""
    memo = e.memo(0)
    if "dummy" not in memo:
        memo["dummy"] = e.f.local(f"[{DUMMY_BYTES} x i8]", 64)
    return memo["dummy"]


def load_broadcast(
    e: Emitter, pointer: str, uniform: str | None, mask: str | None, filled: bool, fill: str, type_: str, size: int,
) -> str:
    """Load one element for all lanes, or the fill."""
    f, lanes = e.f, e.env.lanes
    has_lane = mask is None or mask_bits(mask) is not None  # a constant mask has a lane set
    if not has_lane:
        assert mask is not None
        any_set = e.m.any_lane(f, mask, lanes)
        uniform = any_set if uniform is None else f.let(f"and i1 {uniform}, {any_set}")
    if uniform is not None:
        pointer = f.let(f"select i1 {uniform}, ptr {pointer}, ptr {dummy(e)}", "a")
    one = f.load(type_, pointer, size)
    if uniform is not None:
        one = f.let(f"select i1 {uniform}, {type_} {one}, {type_} {fill}")
    splat = e.splat(one, type_)
    return _fill_masked(e, splat, mask, fill, type_) if filled and mask is not None else splat


def _fill_masked(e: Emitter, read: str, mask: str, fill: str, type_: str) -> str:
    """Return ``read`` in the lanes of the mask, elsewhere ``fill``.

    A constant mask becomes a shuffle: LLVM 22 never terminates on constant selects of many bytes.
    """
    lanes = e.env.lanes
    vtype, fills, bits = wide(type_, lanes), splat_text(type_, fill, lanes), mask_bits(mask)
    if bits is None:
        return e.f.let(f"select {wide('i1', lanes)} {mask}, {vtype} {read}, {vtype} {fills}")
    return e.f.shuffle(vtype, read, fills, [i if bit else lanes + i for i, bit in enumerate(bits)])


def load_masked(e: Emitter, pointer: str, mask: str, lanes: int, fill: str, type_: str, size: int) -> str:
    """Load neighbours in the lanes of the mask; the others are ``fill``.

    Vectors wider than a register are loaded in pieces: LLVM 22 splits such a masked load wrongly if one half of the mask
    turns out to be all or nothing (it reads unmasked, or an assertion fails).
    """
    f, vtype = e.f, wide(type_, lanes)
    bits = mask_bits(mask)
    if bits is not None and all(bits):
        return f.load(vtype, pointer, size)
    if bits is not None and not any(bits):
        return splat_text(type_, fill, lanes)
    if bits is not None and size < 4:  # no instruction masks bytes: load powers of two
        low, count = bits.index(True), sum(bits)
        if all(bits[low:low + count]):
            read = _load_first(e, f.offset(pointer, low * size), count, lanes, type_, size)
            order = [i - low if bits[i] else lanes + i for i in range(lanes)]
            return f.shuffle(vtype, read, splat_text(type_, fill, lanes), order)
    widest = e.isa.bits // (8 * size)
    if lanes > widest and size >= 4:
        parts = []
        for at in range(0, lanes, widest):
            piece = select_lanes(e, mask, lanes, list(range(at, at + widest)))
            parts.append(load_masked(e, f.offset(pointer, at * size), piece, widest, fill, type_, size))
        return _concatenate(e, parts, widest, type_)
    if size < 4 and bits is None:
        helper = masked_load_function(e.m, type_, lanes, size, gather=False)
        return f.let(f"call {vtype} {helper}(ptr {pointer}, {wide('i1', lanes)} {mask}, {type_} {fill})")
    return e.m.masked_load(f, type_, lanes, pointer, size, mask, splat_text(type_, fill, lanes))


def _concatenate(e: Emitter, parts: list[str], lanes: int, type_: str) -> str:
    """Concatenate vectors of ``lanes``; their number is a power of two."""
    while len(parts) > 1:
        parts = [e.f.shuffle(wide(type_, lanes), a, b, range(2 * lanes)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        lanes *= 2
    return parts[0]


def _load_first(e: Emitter, pointer: str, count: int, lanes: int, type_: str, size: int) -> str:
    """Load the first ``count`` of ``lanes`` neighbours; the other lanes are 0, since a division must not meet poison."""
    f, vtype = e.f, wide(type_, lanes)
    if count == lanes:
        return f.load(vtype, pointer, size)
    if count == 0:
        return "zeroinitializer"
    if size >= 4:
        mask = first_mask(lanes, count)
        return load_masked(e, pointer, mask, lanes, "0" if type_.startswith("i") else "0.0", type_, size)
    out, at, width = "zeroinitializer", 0, lanes // 2
    while width:
        if count & width:
            part = f.load(wide(type_, width), f.offset(pointer, at * size), size)
            grown = f.shuffle(wide(type_, width), part, "poison", [i if i < width else "poison" for i in range(lanes)])
            out = f.shuffle(vtype, out, grown, [lanes + i - at if at <= i < at + width else i for i in range(lanes)])
            at += width
        width //= 2
    return out


def load_first_lanes(m: Module, f: Function, type_: str, lanes: int, live: int, pointer: str, align: int) -> str:
    """Load the first ``live`` of ``lanes`` neighbours; the others are zero, and their memory is not read."""
    return m.masked_load(f, type_, lanes, pointer, align, first_mask(lanes, live))


def load_stride_2(
    e: Emitter, access: Access, affine: Affine, type_: str, size: int, bits: list[bool] | None, filled: bool,
    uniform: str | None, fills: str,
) -> str:
    """Load every second element in the lanes of ``bits``; the others, or all if not ``uniform``, are the fills."""
    f, lanes = e.f, e.env.lanes
    vtype = wide(type_, lanes)
    low, high = (0, lanes) if bits is None else (bits.index(True), lanes - bits[::-1].index(True))
    start = Affine(affine.const + 2 * low, affine.terms, affine.gather)
    read = _load_every_second(e, access, start, type_, size, high - low, uniform)
    if filled and bits is not None:
        read = f.shuffle(vtype, read, fills, [i - low if bits[i] else lanes + i for i in range(lanes)])
    return read if uniform is None else f.let(f"select i1 {uniform}, {vtype} {read}, {vtype} {fills}")


def _load_every_second(
    e: Emitter, access: Access, affine: Affine, type_: str, size: int, count: int, uniform: str | None,
) -> str:
    """Load ``count`` elements at stride 2. If the elements between them are loaded too, both loads share the same vectors."""
    f, lanes = e.f, e.env.lanes

    def pointer(const: int) -> str:
        address = pointer_of(e, access, Affine(const, affine.terms, affine.gather))
        return address if uniform is None else f.let(f"select i1 {uniform}, ptr {address}, ptr {dummy(e)}", "a")

    key = (key_of(access.buffer), affine.terms, affine.const)
    base = e.env.pairs.get(key) if uniform is None and not affine.gather else None
    if base is None and count == lanes:
        return load_strided(e, pointer(affine.const), 2, type_, size)
    first = affine.const if base is None else base
    memo = e.memo(e.place(frozenset(access_axes(access)).union(*(dependencies(v, e.env.deps) for v, _ in affine.gather)))[0])
    where = tuple([(id(v), c) for v, c in affine.gather])
    both = ("pair", *key[:2], where, first, base is None, e.env.tag, count, uniform)
    if both not in memo:
        start, reach = pointer(first), 2 * count - (base is None)
        memo[both] = tuple(
            _load_first(e, f.offset(start, at * size), max(min(lanes, reach - at), 0), lanes, type_, size) for at in (0, lanes)
        )
    a, b = memo[both]
    return f.shuffle(wide(type_, lanes), a, b, range(affine.const - first, 2 * lanes, 2))


def load_transposed(e: Emitter, access: Access, affine: Affine, type_: str, size: int, count: int) -> str:
    """Load a column of a square: its rows are loaded once for all Envs of the group and transposed by halves."""
    f, env, lanes = e.f, e.env, e.env.lanes
    assert env.transposed_axis is not None and env.vector is not None
    vtype = wide(type_, lanes)
    which = env.offsets.get(env.transposed_axis, 0) % lanes
    start = Affine(affine.const - which, affine.terms, affine.gather)
    memo = e.memo(e.place(frozenset(access_axes(access)))[0])
    square = ("turn", key_of(access.buffer), affine.terms, start.const,
              env.offsets.get(env.transposed_axis, 0) - which, env.offsets.get(env.vector, 0), count)
    if square not in memo:
        pointer, step = pointer_of(e, access, start), dict(affine.terms)[env.vector]
        rows = [f.load(vtype, f.offset(pointer, i * step * size), size) for i in range(count)]
        rows += ["zeroinitializer"] * (lanes - count)
        half = lanes // 2
        while half:
            low = [k if not k & half else lanes + k - half for k in range(lanes)]
            high = [k + half if not k & half else lanes + k for k in range(lanes)]
            for i in range(lanes):
                if not i & half:
                    a, b = rows[i], rows[i + half]
                    rows[i], rows[i + half] = (f.shuffle(vtype, a, b, order) for order in (low, high))
            half //= 2
        memo[square] = rows
    return memo[square][which]


def load_repeated(e: Emitter, pointer: str, mask: str | None, filled: bool, fill: str, type_: str, size: int) -> str:
    """Load neighbours, each repeated in ``span`` lanes."""
    f, lanes, span = e.f, e.env.lanes, e.env.span
    count = lanes // span
    if mask is None:
        read = f.load(wide(type_, count), pointer, size)
    else:
        narrow_mask = select_lanes(e, mask, lanes, list(range(0, lanes, span)))
        for r in range(1, span):
            narrow_mask = or_masks(e, narrow_mask, select_lanes(e, mask, lanes, list(range(r, lanes, span))), count)
        read = load_masked(e, pointer, narrow_mask, count, fill, type_, size)
    out = f.shuffle(wide(type_, count), read, "poison", [i // span for i in range(lanes)])
    return _fill_masked(e, out, mask, fill, type_) if filled and mask is not None else out


def load_strided(e: Emitter, pointer: str, step: int, type_: str, size: int) -> str:
    """Load all lanes, ``step`` elements apart; nothing beyond the first and the last lane is read."""
    f, lanes = e.f, e.env.lanes
    vtype = wide(type_, lanes)
    if step == 1:
        return f.load(vtype, pointer, size)
    if step == -1:
        read = f.load(vtype, f.offset(pointer, -(lanes - 1) * size), size)
        return f.shuffle(vtype, read, "poison", reversed(range(lanes)))
    if abs(step) == 2 and lanes > 1:
        low = f.offset(pointer, 0 if step > 0 else -2 * (lanes - 1) * size)
        a = f.load(vtype, low, size)
        b = f.load(vtype, f.offset(low, (lanes - 1) * size), size)
        places = [i if i < lanes else lanes + i - (lanes - 1) for i in range(0, 2 * lanes, 2)]
        return f.shuffle(vtype, a, b, places if step > 0 else places[::-1])
    out = "poison"
    for i in range(lanes):
        one = f.load(type_, f.offset(pointer, i * step * size), size)
        out = f.let(f"insertelement {vtype} {out}, {type_} {one}, i32 {i}")
    return out


def gather(e: Emitter, pointers: str, mask: str | None, fill: str, type_: str, size: int) -> str:
    lanes = e.env.lanes
    vtype = wide(type_, lanes)
    if size < 4 and mask is not None and mask_bits(mask) is None:
        helper = masked_load_function(e.m, type_, lanes, size, gather=True)
        return e.f.let(f"call {vtype} {helper}({wide('ptr', lanes)} {pointers}, {wide('i1', lanes)} {mask}, {type_} {fill})")
    fills = splat_text(type_, fill, lanes)
    return e.m.masked_load(e.f, type_, lanes, pointers, size, mask or "splat (i1 true)", fills, gather=True)


def masked_load_function(m: Module, type_: str, lanes: int, size: int, gather: bool) -> str:
    """Return the name of ``vector (ptr | vector of ptr, mask, fill)``: whole vectors if all lanes are set, else lane by lane."""
    vtype, bits = wide(type_, lanes), wide("i1", lanes)
    name = f"@weft_{'gather' if gather else 'load'}_v{lanes}{type_}"
    if not m.once(name):
        return name
    source = wide("ptr", lanes) if gather else "ptr"
    f = m.function(f"define internal {vtype} {name}({source} %from, {bits} %mask, {type_} %fill)", "nounwind noinline")
    out, allowed = f.local(f"[{lanes} x {type_}]", 64), f.local(f"[{lanes} x i8]", 64)
    places = f.local(f"[{lanes} x ptr]", 64) if gather else ""
    with f.when(m.all_lanes(f, "%mask", lanes)):
        read = f.load(vtype, "%from", size) if not gather else "poison"
        for k in range(lanes if gather else 0):
            one = f.load(type_, f.let(f"extractelement {source} %from, i32 {k}"), size)
            read = f.let(f"insertelement {vtype} {read}, {type_} {one}, i32 {k}")
        f.do(f"ret {vtype} {read}")
        f.label(f.fresh_label("unused"))
    any_set = m.any_lane(f, "%mask", lanes)
    with f.when(f.let(f"xor i1 {any_set}, true")):
        f.do(f"ret {vtype} {f.splat(type_, '%fill', lanes)}")
        f.label(f.fresh_label("unused"))
    if gather:
        f.store(wide("ptr", lanes), "%from", places)
    f.store(wide("i8", lanes), f.let(f"zext {bits} %mask to {wide('i8', lanes)}"), allowed)
    with f.loop(0, lanes) as i:
        place = f.element(out, type_, i)
        f.store(type_, "%fill", place)
        with f.when(f.let(f"icmp ne i8 {f.load('i8', f.element(allowed, 'i8', i))}, 0")):
            address = f.load("ptr", f.element(places, "ptr", i)) if gather else f.element("%from", type_, i)
            f.store(type_, f.load(type_, address, size), place)
    f.do(f"ret {vtype} {f.load(vtype, out)}")
    return name
