"""Addresses, guards and masks, and the loads that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.codegen.cpu.env import access_axes, dependencies, flat, key_of
from weft.codegen.cpu.types import is_signed, literal, llvm_type, memory_type, name_of, splat_text, wide
from weft.schedule.kernel import Access, Affine, Value

if TYPE_CHECKING:
    from weft.codegen.cpu.emit import Emitter

_INT64 = np.dtype(np.int64)


def index_value(e: Emitter, affine: Affine, dtype: np.dtype, vector: bool) -> str:
    """The integer of an Affine as a value of ``dtype``."""
    name = affine_text(e, affine, vector)
    return name if llvm_type(dtype) == "i64" else _narrow(e, name, dtype, vector)


def _narrow(e: Emitter, name: str, dtype: np.dtype, vector: bool) -> str:
    from weft.codegen.cpu.machine import Ops, cast

    return cast(Ops(e.f, e.m, e.isa, e.env.lanes if vector else None), name, _INT64, dtype)


def _integer(e: Emitter, v: Value, vector: bool) -> str:
    """An index value as i64 (in lanes if asked)."""
    name, is_vector = e.value(v)
    if v.dtype.itemsize < 8 or v.dtype.kind == "b":
        lanes = e.env.lanes if is_vector else None
        word = "sext" if is_signed(v.dtype) else "zext"
        name = e.f.let(f"{word} {wide(llvm_type(v.dtype), lanes)} {name} to {wide('i64', lanes)}")
    return e.splat(name, "i64") if vector and not is_vector else name


def _uniform_terms(e: Emitter, affine: Affine) -> tuple[str | int, int]:
    """(SSA sum of the terms that do not differ between lanes or int, constant): lane 0 of the vector axis included."""
    env = e.env
    const = affine.const
    groups: dict[int, list[tuple[str, int]]] = {}
    for a, c in affine.terms:
        const += c * env.offsets.get(a, 0)
        text = env.axes[a]
        if text.startswith("%"):
            level = 0 if env.levels is None else env.level_of.get(a, len(env.levels) - 1)
            groups.setdefault(level, []).append((text, c))
        else:
            const += c * int(text)
    for v, c in affine.gather:
        deps = dependencies(v, env.deps)
        level, vector = e.place(deps)
        if not vector:
            keep, e.f.lines = e.f.lines, e.lines(level)
            name = _integer(e, v, False)
            e.f.lines = keep
            if name.startswith("%"):
                groups.setdefault(level, []).append((name, c))
            else:
                const += c * int(name)
    total: str | int = 0
    for level in sorted(groups):
        memo = e.memo(level)
        key = ("sum", total, tuple(groups[level]))
        if key not in memo:
            keep, e.f.lines = e.f.lines, e.lines(level)
            for text, c in groups[level]:
                total = e.f.add(total, e.f.mul(text, c))
            e.f.lines = keep
            memo[key] = total
        total = memo[key]
    return total, const


def affine_text(e: Emitter, affine: Affine, vector: bool) -> str:
    """An Affine as i64 (in lanes if asked)."""
    base, const = _uniform_terms(e, affine)
    start = e.f.add(base, const)
    if not vector:
        return start
    total = e.splat(start, "i64")
    if lane_step(e, affine) != 0:
        total = e.f.let(f"add {wide('i64', e.env.lanes)} {total}, {_ramp(e, affine)}")
    for v, c in affine.gather:
        if e.place(dependencies(v, e.env.deps))[1]:
            lanes = _integer(e, v, True)
            if c != 1:
                lanes = e.f.let(f"mul {wide('i64', e.env.lanes)} {lanes}, splat (i64 {c})")
            total = e.f.let(f"add {wide('i64', e.env.lanes)} {total}, {lanes}")
    return total


def _lane_terms(e: Emitter, affine: Affine) -> tuple[int, int]:
    terms = dict(affine.terms)
    return (terms.get(e.env.vector, 0) if e.env.vector is not None else 0,
            terms.get(e.env.minor, 0) if e.env.minor is not None else 0)


def lane_step(e: Emitter, affine: Affine) -> int | None:
    """How far neighbouring lanes lie apart, gathered indices aside; None where that differs."""
    step, inner = _lane_terms(e, affine)
    if e.env.minor is None:
        return step
    return inner if step == e.env.span * inner else None


def _ramp(e: Emitter, affine: Affine) -> str:
    step, inner = _lane_terms(e, affine)
    span = e.env.span
    return "<" + ", ".join(f"i64 {i // span * step + i % span * inner}" for i in range(e.env.lanes)) + ">"


def first_lanes(mask: str | None) -> int | None:
    """How many lanes a constant mask allows (always the first ones), or None."""
    return mask.count("i1 true") if mask is not None and mask.startswith("<") else None


def pointer_of(e: Emitter, access: Access, affine: Affine) -> str:
    """The address of lane 0: outer terms first, each summed at its own level, the constant last."""
    env = e.env
    type_ = memory_type(access.buffer.dtype)
    pointer = env.pointers[key_of(access.buffer)]
    const = affine.const
    groups: dict[int, list[tuple[str, int]]] = {}
    for a, c in affine.terms:
        const += c * env.offsets.get(a, 0)
        text = env.axes[a]
        if text.startswith("%"):
            level = 0 if env.levels is None else env.level_of.get(a, len(env.levels) - 1)
            groups.setdefault(level, []).append((text, c))
        else:
            const += c * int(text)
    for v, c in affine.gather:
        level, vector = e.place(dependencies(v, env.deps))
        if vector:
            continue
        keep, e.f.lines = e.f.lines, e.lines(level)
        name = _integer(e, v, False)
        e.f.lines = keep
        if name.startswith("%"):
            groups.setdefault(level, []).append((name, c))
        else:
            const += c * int(name)
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


def guards_of(e: Emitter, access: Access) -> tuple[str | None, str | None]:
    """(uniform i1 or None, lane mask or None) of an access's guards, the Env's mask not included."""
    uniform: str | None = None
    mask: str | None = None
    for affine, lo, hi in access.guard:
        deps: set = {a for a, _ in affine.terms}
        for v, _ in affine.gather:
            deps |= dependencies(v, e.env.deps)
        _, vector = e.place(frozenset(deps))
        lanes = e.env.lanes if vector else None
        type_ = wide("i64", lanes)
        index = affine_text(e, affine, vector)
        if not vector and not index.startswith("%"):
            inside = lo <= int(index) < hi
            if inside:
                continue
            uniform = "false"
            continue
        # one unsigned comparison: index - lo < hi - lo
        moved = e.f.let(f"sub {type_} {index}, {splat_text('i64', str(lo), lanes)}") if lo else index
        ok = e.f.let(f"icmp ult {type_} {moved}, {splat_text('i64', str(max(hi - lo, 0)), lanes)}", "g")
        if vector:
            mask = ok if mask is None else e.f.let(f"and {wide('i1', lanes)} {mask}, {ok}")
        elif uniform != "false":
            uniform = ok if uniform is None else e.f.let(f"and i1 {uniform}, {ok}")
    return uniform, mask


def both_masks(e: Emitter, a: str | None, b: str | None) -> str | None:
    if a is None or b is None:
        return a or b
    return e.f.let(f"and {wide('i1', e.env.lanes)} {a}, {b}")


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
    if name_of(dtype) == "float16":
        return f"0xH{np.asarray(fill).astype(np.float16).view(np.uint16).item():04X}"
    if name_of(dtype) == "bfloat16":
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
    """64 bytes that may always be read: where a load goes whose guard is false."""
    memo = e.memo(0)
    if "dummy" not in memo:
        memo["dummy"] = e.f.local("[256 x i8]", 64)
    return memo["dummy"]


def load_raw(e: Emitter, access: Access, vector: bool) -> str:
    f, buffer = e.f, access.buffer
    type_, size = memory_type(buffer.dtype), buffer.dtype.itemsize
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
    scattered = any(e.place(dependencies(v, e.env.deps))[1] for v, _ in affine.gather)
    step = lane_step(e, affine)
    mask = both_masks(e, mask, e.env.mask)
    if scattered:
        if uniform is not None:
            mask = both_masks(e, mask, e.splat(uniform, "i1"))
        pointers = pointers_of(e, access, affine)
        read = _gather(e, pointers, mask, fill, type_, size)
        return read
    if step == 0:  # the lanes differ by the guard only
        pointer = pointer_of(e, access, affine)
        if uniform is not None:
            mask = both_masks(e, mask, e.splat(uniform, "i1"))
        if mask is None:
            one = f.load(type_, pointer, size)
            return e.splat(one, type_)
        some = f.let(f"call i1 @llvm.vector.reduce.or.v{lanes}i1({wide('i1', lanes)} {mask})")
        e.m.declare(f"or.v{lanes}i1", f"declare i1 @llvm.vector.reduce.or.v{lanes}i1({wide('i1', lanes)})")
        one = f.load(type_, f.let(f"select i1 {some}, ptr {pointer}, ptr {_dummy(e)}", "a"), size)
        fills = splat_text(type_, fill, lanes)
        return f.let(f"select {wide('i1', lanes)} {mask}, {vtype} {e.splat(one, type_)}, {vtype} {fills}")
    count = first_lanes(mask)
    if step == 2 and e.env.turn is None and uniform is None and (mask is None or count is not None):
        return _load_second(e, access, affine, type_, size, lanes if count is None else count)
    if e.env.turn is not None and uniform is None and size >= 4 and (mask is None or count is not None):
        if step not in (None, 0, 1, -1) and dict(affine.terms).get(e.env.turn) == 1:
            return _load_turned(e, access, affine, type_, size, lanes if count is None else count)
    if step is None:
        if uniform is not None:
            mask = both_masks(e, mask, e.splat(uniform, "i1"))
        if _lane_terms(e, affine) != (1, 0):
            return _gather(e, pointers_of(e, access, affine), mask, fill, type_, size)
        return _load_repeated(e, pointer_of(e, access, affine), mask, fill, type_, size)
    pointer = pointer_of(e, access, affine)
    if mask is None:
        if uniform is not None and abs(step) * lanes * size <= 256:
            back = f.offset(_dummy(e), (lanes - 1) * -step * size if step < 0 else 0)
            pointer = f.let(f"select i1 {uniform}, ptr {pointer}, ptr {back}", "a")
            read = _load_strided(e, pointer, step, type_, size)
            return f.let(f"select i1 {uniform}, {vtype} {read}, {vtype} {splat_text(type_, fill, lanes)}")
        if uniform is None:
            return _load_strided(e, pointer, step, type_, size)
    if uniform is not None:
        mask = both_masks(e, mask, e.splat(uniform, "i1"))
    if step == 1:
        assert mask is not None
        return _load_masked(e, pointer, mask, lanes, fill, type_, size)
    return _gather(e, pointers_of(e, access, affine), mask, fill, type_, size)


def _load_masked(e: Emitter, pointer: str, mask: str, lanes: int, fill: str, type_: str, size: int) -> str:
    """Neighbours where the mask allows, elsewhere ``fill``."""
    f, vtype = e.f, wide(type_, lanes)
    count = first_lanes(mask)
    if count is not None and (size < 4 or count == lanes):  # no machine masks bytes: halves, quarters, ...
        return _load_first(e, pointer, count, lanes, type_, size)
    name = f"llvm.masked.load.{mangle(type_, lanes)}.p0"
    e.m.declare(name, f"declare {vtype} @{name}(ptr, {wide('i1', lanes)}, {vtype})")
    fills = splat_text(type_, fill, lanes)
    return f.let(f"call {vtype} @{name}(ptr align {size} {pointer}, {wide('i1', lanes)} {mask}, {vtype} {fills})")


def _load_first(e: Emitter, pointer: str, count: int, lanes: int, type_: str, size: int) -> str:
    """The first ``count`` of ``lanes`` neighbours; lanes beyond are 0 (a division must not meet poison)."""
    f, vtype = e.f, wide(type_, lanes)
    if count == lanes:
        return f.load(vtype, pointer, size)
    if count == 0:
        return "zeroinitializer"
    if size >= 4:
        mask = "<" + ", ".join("i1 true" if i < count else "i1 false" for i in range(lanes)) + ">"
        name = f"llvm.masked.load.{mangle(type_, lanes)}.p0"
        e.m.declare(name, f"declare {vtype} @{name}(ptr, {wide('i1', lanes)}, {vtype})")
        return f.let(f"call {vtype} @{name}(ptr align {size} {pointer}, {wide('i1', lanes)} {mask}, {vtype} zeroinitializer)")
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


def _load_second(e: Emitter, access: Access, affine: Affine, type_: str, size: int, count: int) -> str:
    """Every second element, ``count`` of them. Where the elements between are read too, both come from the same vectors."""
    f, lanes = e.f, e.env.lanes
    vtype = wide(type_, lanes)
    key = (key_of(access.buffer), affine.terms, affine.const)
    base = e.env.pairs.get(key)
    if base is None and count == lanes:
        return _load_strided(e, pointer_of(e, access, affine), 2, type_, size)
    first = affine.const if base is None else base
    memo = e.memo(e.place(frozenset(access_axes(access)))[0])
    both = ("pair", *key[:2], first, base is None, e.env.tag)
    if both not in memo:
        pointer = pointer_of(e, access, Affine(first, affine.terms, affine.gather))
        reach = 2 * count - (base is None)
        memo[both] = tuple(
            _load_first(e, f.offset(pointer, at * size), max(min(lanes, reach - at), 0), lanes, type_, size) for at in (0, lanes)
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


def _load_repeated(e: Emitter, pointer: str, mask: str | None, fill: str, type_: str, size: int) -> str:
    """Neighbours, each in ``span`` lanes."""
    f, lanes, span = e.f, e.env.lanes, e.env.span
    vtype, few = wide(type_, lanes), lanes // span
    count = first_lanes(mask)
    if mask is None:
        read = f.load(wide(type_, few), pointer, size)
    elif count is not None:
        read = _load_first(e, pointer, -(-count // span), few, type_, size)
    else:
        some = None
        for r in range(span):
            places = ", ".join(f"i32 {i}" for i in range(r, lanes, span))
            one = f.let(f"shufflevector {wide('i1', lanes)} {mask}, {wide('i1', lanes)} poison, <{few} x i32> <{places}>")
            some = one if some is None else f.let(f"or {wide('i1', few)} {some}, {one}")
        assert some is not None
        read = _load_masked(e, pointer, some, few, fill, type_, size)
    places = ", ".join(f"i32 {i // span}" for i in range(lanes))
    out = f.let(f"shufflevector {wide(type_, few)} {read}, {wide(type_, few)} poison, <{lanes} x i32> <{places}>")
    if mask is None or count is not None:
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
    name = f"llvm.masked.gather.{mangle(type_, lanes)}.v{lanes}p0"
    e.m.declare(name, f"declare {vtype} @{name}({wide('ptr', lanes)}, {wide('i1', lanes)}, {vtype})")
    mask = mask or "splat (i1 true)"
    fills = splat_text(type_, fill, lanes)
    return e.f.let(
        f"call {vtype} @{name}({wide('ptr', lanes)} align {size} {pointers}, {wide('i1', lanes)} {mask}, {vtype} {fills})"
    )
