"""Addresses, and the loads that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.codegen.cpu.affine import affine_text, lane_step, lane_terms, uniform_groups
from weft.codegen.cpu.env import access_axes, dependencies, flat, key_of
from weft.codegen.cpu.lanewise import load_function
from weft.codegen.cpu.masks import bits_of, both_masks, constant_mask, either, first_lanes, guards_of, some_lanes
from weft.codegen.cpu.types import literal, memory_type, name_of, splat_text, wide
from weft.schedule.kernel import Access, Affine

if TYPE_CHECKING:
    from weft.codegen.cpu.emit import Emitter

DUMMY = 256  # bytes


def pointer_of(e: Emitter, access: Access, affine: Affine) -> str:
    """The address of lane 0: outer terms first, each summed at its own level, the constant last."""
    type_ = memory_type(access.buffer.dtype)
    pointer = e.env.pointers[key_of(access.buffer)]
    groups, const = uniform_groups(e, affine)
    for level in sorted(groups):
        memo = e.memo(level)
        key = ("address", type_, pointer, tuple(groups[level]))
        if key not in memo:
            keep, e.f.lines = e.f.lines, e.lines(level)
            total: str | int = 0
            for text, c in groups[level]:
                total = e.f.add(total, e.f.mul(text, c))
            memo[key] = e.f.element(pointer, type_, total)
            e.f.lines = keep
        pointer = memo[key]
    return e.f.offset(pointer, const * access.buffer.dtype.itemsize)


def from_memory(e: Emitter, name: str, dtype: np.dtype, lanes: int | None) -> str:
    """A loaded value as it is kept in registers."""
    kind = name_of(dtype)
    if kind == "bool":
        return e.f.let(f"icmp ne {wide('i8', lanes)} {name}, {splat_text('i8', '0', lanes)}")
    if kind == "float16":
        return e.f.let(f"fpext {wide('half', lanes)} {name} to {wide('float', lanes)}")
    if kind == "bfloat16":
        bits = e.f.let(f"zext {wide('i16', lanes)} {name} to {wide('i32', lanes)}")
        high = e.f.let(f"shl {wide('i32', lanes)} {bits}, {splat_text('i32', '16', lanes)}")
        return e.f.let(f"bitcast {wide('i32', lanes)} {high} to {wide('float', lanes)}")
    return name


def to_memory(e: Emitter, name: str, dtype: np.dtype, lanes: int | None) -> str:
    """A register value as it is written."""
    kind = name_of(dtype)
    if kind == "bool":
        return e.f.let(f"zext {wide('i1', lanes)} {name} to {wide('i8', lanes)}")
    if kind == "float16":
        return e.f.let(f"fptrunc {wide('float', lanes)} {name} to {wide('half', lanes)}")
    if kind == "bfloat16":
        bits = e.f.let(f"bitcast {wide('float', lanes)} {name} to {wide('i32', lanes)}")
        high = e.f.let(f"lshr {wide('i32', lanes)} {bits}, {splat_text('i32', '16', lanes)}")
        return e.f.let(f"trunc {wide('i32', lanes)} {high} to {wide('i16', lanes)}")
    return name


def _memory_literal(dtype: np.dtype, fill: object) -> str:
    """``fill`` as a constant of the memory type."""
    if name_of(dtype) == "bool":
        return "1" if fill else "0"
    if name_of(dtype) in ("float16", "bfloat16"):
        return str(np.asarray(fill).astype(dtype).view(np.int16).item())
    return literal(dtype, fill)


def mangle(type_: str, lanes: int) -> str:
    short = {"float": "f32", "double": "f64", "half": "f16"}.get(type_, type_)
    return f"v{lanes}{short}"


def emit_load(e: Emitter, access: Access, dtype: np.dtype, vector: bool) -> str:
    """A load; where the guard is false, the fill."""
    lanes = e.env.lanes if vector else None
    raw = load_raw(e, access, vector)
    name = from_memory(e, raw, access.buffer.dtype, lanes)
    if dtype != access.buffer.dtype:
        from weft.codegen.cpu.machine import Ops, cast

        name = cast(Ops(e.f, e.m, e.isa, lanes), name, access.buffer.dtype, dtype)
    return name


def _dummy(e: Emitter) -> str:
    """Memory that may always be read: where a load goes whose guard is false."""
    memo = e.memo(0)
    if "dummy" not in memo:
        memo["dummy"] = e.f.local(f"[{DUMMY} x i8]", 64)
    return memo["dummy"]


def load_raw(e: Emitter, access: Access, vector: bool) -> str:
    """As it lies in memory; where the guard is false, the fill."""
    if name_of(access.buffer.dtype) != "float16":
        return _load(e, access, memory_type(access.buffer.dtype), vector)
    bits = _load(e, access, "i16", vector)  # LLVM moves single halves about by converting them
    lanes = e.env.lanes if vector else None
    return e.f.let(f"bitcast {wide('i16', lanes)} {bits} to {wide('half', lanes)}")


def _load(e: Emitter, access: Access, type_: str, vector: bool) -> str:
    f, buffer = e.f, access.buffer
    size = buffer.dtype.itemsize
    uniform, mask = guards_of(e, access)
    fill = _memory_literal(buffer.dtype, access.fill)
    lanes = e.env.lanes if vector else None
    if uniform == "false":
        return splat_text(type_, fill, lanes) if vector else _named(e, type_, fill)
    affine = flat(access)
    if not vector:
        pointer = pointer_of(e, access, affine)
        if uniform is None:
            return f.load(type_, pointer, size)
        pointer = f.let(f"select i1 {uniform}, ptr {pointer}, ptr {_dummy(e)}", "a")
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
        return _load_same(e, pointer_of(e, access, affine), uniform, mask, filled, fill, type_, size)
    count = lanes if mask is None else None if filled else first_lanes(mask)
    if step == 2 and e.env.turn is None and not scattered and (mask is None or bits_of(mask) is not None):
        return _load_seconds(e, access, affine, type_, size, bits_of(mask), filled, uniform, fills)
    if uniform is None and count is not None and not scattered:
        if e.env.turn is not None and size >= 4 and step not in (None, 1, -1) and dict(affine.terms).get(e.env.turn) == 1:
            return _load_turned(e, access, affine, type_, size, count)
    near = step == 1 or (step is None and lane_terms(e, affine) == (1, 0)) or (step is not None and mask is None)
    reach = lanes if step is None else (lanes - 1) * abs(step) + 1
    if scattered or not near or (uniform is not None and reach * size > DUMMY):
        pointers = pointers_of(e, access, affine)
        if uniform is None or mask is not None:
            mask = both_masks(e, mask, None if uniform is None else e.splat(uniform, "i1"))
            return _gather(e, pointers, mask, fill, type_, size)
        kind = wide("ptr", lanes)  # a mask would be asked about lane by lane
        pointers = f.let(f"select i1 {uniform}, {kind} {pointers}, {kind} {e.splat(_dummy(e), 'ptr')}", "a")
        read = _gather(e, pointers, None, fill, type_, size)
        return f.let(f"select i1 {uniform}, {vtype} {read}, {vtype} {fills}")
    pointer = pointer_of(e, access, affine)
    if uniform is not None:  # a bit for all lanes is no part of the mask: the whole vector is read elsewhere
        back = f.offset(_dummy(e), (lanes - 1) * -step * size if step is not None and step < 0 else 0)
        pointer = f.let(f"select i1 {uniform}, ptr {pointer}, ptr {back}", "a")
    if step is None:
        read = _load_repeated(e, pointer, mask, filled, fill, type_, size)
    elif mask is None:
        read = _load_strided(e, pointer, step, type_, size)
    else:
        read = _load_masked(e, pointer, mask, lanes, fill, type_, size)
    return read if uniform is None else f.let(f"select i1 {uniform}, {vtype} {read}, {vtype} {fills}")


def _load_same(
    e: Emitter, pointer: str, uniform: str | None, mask: str | None, filled: bool, fill: str, type_: str, size: int,
) -> str:
    """One element for all lanes, or the fill."""
    f, lanes = e.f, e.env.lanes
    known = mask is None or bits_of(mask) is not None  # some lane reads it
    if not known:
        assert mask is not None
        some = e.m.any_lane(f, mask, lanes)
        uniform = some if uniform is None else f.let(f"and i1 {uniform}, {some}")
    if uniform is not None:
        pointer = f.let(f"select i1 {uniform}, ptr {pointer}, ptr {_dummy(e)}", "a")
    one = f.load(type_, pointer, size)
    if uniform is not None:
        one = f.let(f"select i1 {uniform}, {type_} {one}, {type_} {fill}")
    every = e.splat(one, type_)
    if not filled:
        return every
    vtype = wide(type_, lanes)
    return f.let(f"select {wide('i1', lanes)} {mask}, {vtype} {every}, {vtype} {splat_text(type_, fill, lanes)}")


def _load_masked(e: Emitter, pointer: str, mask: str, lanes: int, fill: str, type_: str, size: int) -> str:
    """Neighbours where the mask allows, elsewhere ``fill``.

    Vectors wider than a register are loaded in pieces: LLVM 22 splits such a masked load wrongly where one half of the mask
    turns out to be all or nothing (it reads unmasked, or an assertion fails).
    """
    f, vtype = e.f, wide(type_, lanes)
    bits = bits_of(mask)
    if bits is not None and all(bits):
        return f.load(vtype, pointer, size)
    if bits is not None and not any(bits):
        return splat_text(type_, fill, lanes)
    if bits is not None and size < 4:  # no machine masks bytes: halves, quarters, ...
        low, count = bits.index(True), sum(bits)
        if all(bits[low:low + count]):
            read = _load_first(e, f.offset(pointer, low * size), count, lanes, type_, size)
            places = ", ".join(f"i32 {i - low if bits[i] else lanes + i}" for i in range(lanes))
            return f.let(f"shufflevector {vtype} {read}, {vtype} {splat_text(type_, fill, lanes)}, <{lanes} x i32> <{places}>")
    most = e.isa.bits // (8 * size)
    if lanes > most and size >= 4:
        parts = []
        for at in range(0, lanes, most):
            piece = some_lanes(e, mask, lanes, list(range(at, at + most)))
            parts.append(_load_masked(e, f.offset(pointer, at * size), piece, most, fill, type_, size))
        return _joined(e, parts, most, type_)
    if size < 4 and bits is None:
        some = load_function(e.m, type_, lanes, size, False)
        return f.let(f"call {vtype} {some}(ptr {pointer}, {wide('i1', lanes)} {mask}, {type_} {fill})")
    name = f"llvm.masked.load.{mangle(type_, lanes)}.p0"
    e.m.declare(name, f"declare {vtype} @{name}(ptr, {wide('i1', lanes)}, {vtype})")
    fills = splat_text(type_, fill, lanes)
    return f.let(f"call {vtype} @{name}(ptr align {size} {pointer}, {wide('i1', lanes)} {mask}, {vtype} {fills})")


def _joined(e: Emitter, parts: list[str], lanes: int, type_: str) -> str:
    """Vectors of ``lanes`` one after another, a power of two of them."""
    while len(parts) > 1:
        lanes *= 2
        half, places = wide(type_, lanes // 2), ", ".join(f"i32 {i}" for i in range(lanes))
        parts = [e.f.let(f"shufflevector {half} {a}, {half} {b}, <{lanes} x i32> <{places}>")
                 for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _load_first(e: Emitter, pointer: str, count: int, lanes: int, type_: str, size: int) -> str:
    """The first ``count`` of ``lanes`` neighbours; lanes beyond are 0 (a division must not meet poison)."""
    f, vtype = e.f, wide(type_, lanes)
    if count == lanes:
        return f.load(vtype, pointer, size)
    if count == 0:
        return "zeroinitializer"
    if size >= 4:
        mask = constant_mask([i < count for i in range(lanes)])
        return _load_masked(e, pointer, mask, lanes, "0" if type_.startswith("i") else "0.0", type_, size)
    out, at, width = "zeroinitializer", 0, lanes // 2
    while width:
        if count & width:
            part = f.load(wide(type_, width), f.offset(pointer, at * size), size)
            spread = ", ".join(f"i32 {i}" if i < width else "i32 poison" for i in range(lanes))
            grown = f.let(f"shufflevector {wide(type_, width)} {part}, {wide(type_, width)} poison, <{lanes} x i32> <{spread}>")
            places = ", ".join(f"i32 {lanes + i - at if at <= i < at + width else i}" for i in range(lanes))
            out = f.let(f"shufflevector {vtype} {out}, {vtype} {grown}, <{lanes} x i32> <{places}>")
            at += width
        width //= 2
    return out


def _load_seconds(
    e: Emitter, access: Access, affine: Affine, type_: str, size: int, bits: list[bool] | None, filled: bool,
    uniform: str | None, fills: str,
) -> str:
    """Every second element in the lanes of ``bits``, at the others and where not ``uniform`` the fills."""
    f, lanes = e.f, e.env.lanes
    vtype = wide(type_, lanes)
    low, high = (0, lanes) if bits is None else (bits.index(True), lanes - bits[::-1].index(True))
    start = Affine(affine.const + 2 * low, affine.terms, affine.gather)
    read = _load_second(e, access, start, type_, size, high - low, uniform)
    if filled and bits is not None:
        places = ", ".join(f"i32 {i - low if bits[i] else lanes + i}" for i in range(lanes))
        read = f.let(f"shufflevector {vtype} {read}, {vtype} {fills}, <{lanes} x i32> <{places}>")
    if uniform is None:
        return read
    return f.let(f"select i1 {uniform}, {vtype} {read}, {vtype} {fills}")


def _load_second(
    e: Emitter, access: Access, affine: Affine, type_: str, size: int, count: int, uniform: str | None,
) -> str:
    """Every second element, ``count`` of them. Where the elements between are read too, both come from the same vectors."""
    f, lanes = e.f, e.env.lanes
    vtype = wide(type_, lanes)

    def pointer(affine: Affine) -> str:
        there = pointer_of(e, access, affine)
        return there if uniform is None else f.let(f"select i1 {uniform}, ptr {there}, ptr {_dummy(e)}", "a")

    key = (key_of(access.buffer), affine.terms, affine.const)
    base = e.env.pairs.get(key) if uniform is None else None
    if base is None and count == lanes:
        return _load_strided(e, pointer(affine), 2, type_, size)
    first = affine.const if base is None else base
    memo = e.memo(e.place(frozenset(access_axes(access)))[0])
    both = ("pair", *key[:2], first, base is None, e.env.tag, count, uniform)
    if both not in memo:
        start = pointer(Affine(first, affine.terms, affine.gather))
        reach = 2 * count - (base is None)
        memo[both] = tuple(
            _load_first(e, f.offset(start, at * size), max(min(lanes, reach - at), 0), lanes, type_, size) for at in (0, lanes)
        )
    a, b = memo[both]
    odd = affine.const - first
    places = ", ".join(f"i32 {i}" for i in range(odd, 2 * lanes, 2))
    return f.let(f"shufflevector {vtype} {a}, {vtype} {b}, <{lanes} x i32> <{places}>")


def _load_turned(e: Emitter, access: Access, affine: Affine, type_: str, size: int, count: int) -> str:
    """A column of a square: its rows are loaded once for all the Envs of the group and transposed by halves."""
    f, env, lanes = e.f, e.env, e.env.lanes
    assert env.turn is not None and env.vector is not None
    vtype = wide(type_, lanes)
    which = env.offsets.get(env.turn, 0) % lanes
    start = Affine(affine.const - which, affine.terms, affine.gather)
    memo = e.memo(e.place(frozenset(access_axes(access)))[0])
    square = ("turn", key_of(access.buffer), affine.terms, start.const,
              env.offsets.get(env.turn, 0) - which, env.offsets.get(env.vector, 0), count)
    if square not in memo:
        pointer, step = pointer_of(e, access, start), dict(affine.terms)[env.vector]
        rows = [f.load(vtype, f.offset(pointer, i * step * size), size) for i in range(count)]
        rows += ["zeroinitializer"] * (lanes - count)
        half = lanes // 2
        while half:
            low = ", ".join(f"i32 {k if not k & half else lanes + k - half}" for k in range(lanes))
            high = ", ".join(f"i32 {k + half if not k & half else lanes + k}" for k in range(lanes))
            for i in range(lanes):
                if not i & half:
                    a, b = rows[i], rows[i + half]
                    rows[i], rows[i + half] = (
                        f.let(f"shufflevector {vtype} {a}, {vtype} {b}, <{lanes} x i32> <{places}>") for places in (low, high)
                    )
            half //= 2
        memo[square] = rows
    return memo[square][which]


def _load_repeated(e: Emitter, pointer: str, mask: str | None, filled: bool, fill: str, type_: str, size: int) -> str:
    """Neighbours, each in ``span`` lanes."""
    f, lanes, span = e.f, e.env.lanes, e.env.span
    vtype, few = wide(type_, lanes), lanes // span
    if mask is None:
        read = f.load(wide(type_, few), pointer, size)
    else:
        some = some_lanes(e, mask, lanes, list(range(0, lanes, span)))
        for r in range(1, span):
            some = either(e, some, some_lanes(e, mask, lanes, list(range(r, lanes, span))), few)
        read = _load_masked(e, pointer, some, few, fill, type_, size)
    places = ", ".join(f"i32 {i // span}" for i in range(lanes))
    out = f.let(f"shufflevector {wide(type_, few)} {read}, {wide(type_, few)} poison, <{lanes} x i32> <{places}>")
    if not filled:
        return out
    return f.let(f"select {wide('i1', lanes)} {mask}, {vtype} {out}, {vtype} {splat_text(type_, fill, lanes)}")


def _named(e: Emitter, type_: str, text: str) -> str:
    return e.f.let(f"select i1 true, {type_} {text}, {type_} {text}")


def _load_strided(e: Emitter, pointer: str, step: int, type_: str, size: int) -> str:
    """All lanes from pointer, ``step`` elements apart; nothing outside first and last lane is read."""
    f, lanes = e.f, e.env.lanes
    vtype = wide(type_, lanes)
    if step == 1:
        return f.load(vtype, pointer, size)
    order = [f"i32 {i}" for i in range(2 * lanes)]
    if step == -1:
        read = f.load(vtype, f.offset(pointer, -(lanes - 1) * size), size)
        return f.let(f"shufflevector {vtype} {read}, {vtype} poison, <{lanes} x i32> <{', '.join(reversed(order[:lanes]))}>")
    if abs(step) == 2 and lanes > 1:
        low = f.offset(pointer, 0 if step > 0 else -2 * (lanes - 1) * size)
        a = f.load(vtype, low, size)
        b = f.load(vtype, f.offset(low, (lanes - 1) * size), size)
        places = [i if i < lanes else lanes + i - (lanes - 1) for i in range(0, 2 * lanes, 2)]
        if step < 0:
            places.reverse()
        text = ", ".join(order[p] for p in places)
        return f.let(f"shufflevector {vtype} {a}, {vtype} {b}, <{lanes} x i32> <{text}>")
    out = "poison"
    for i in range(lanes):
        one = f.load(type_, f.offset(pointer, i * step * size), size)
        out = f.let(f"insertelement {vtype} {out}, {type_} {one}, i32 {i}")
    return out


def pointers_of(e: Emitter, access: Access, affine: Affine) -> str:
    """A vector of addresses."""
    index = affine_text(e, affine, True)
    base = e.env.pointers[key_of(access.buffer)]
    return e.f.let(f"getelementptr {memory_type(access.buffer.dtype)}, ptr {base}, {wide('i64', e.env.lanes)} {index}", "a")


def _gather(e: Emitter, pointers: str, mask: str | None, fill: str, type_: str, size: int) -> str:
    lanes = e.env.lanes
    vtype = wide(type_, lanes)
    if size < 4 and mask is not None and bits_of(mask) is None:
        some = load_function(e.m, type_, lanes, size, True)
        return e.f.let(f"call {vtype} {some}({wide('ptr', lanes)} {pointers}, {wide('i1', lanes)} {mask}, {type_} {fill})")
    name = f"llvm.masked.gather.{mangle(type_, lanes)}.v{lanes}p0"
    e.m.declare(name, f"declare {vtype} @{name}({wide('ptr', lanes)}, {wide('i1', lanes)}, {vtype})")
    mask = mask or "splat (i1 true)"
    fills = splat_text(type_, fill, lanes)
    return e.f.let(
        f"call {vtype} @{name}({wide('ptr', lanes)} align {size} {pointers}, {wide('i1', lanes)} {mask}, {vtype} {fills})"
    )
