"""Code of indices, the integer value of an Affine at one iteration or per lane, and of the guards of accesses.

The guards of an access are one bit for all lanes and a mask per lane. A mask is text: a constant ``<i1 true, ...>`` or the SSA
name of an ``<n x i1>``. Guards that are constant when code is generated emit nothing.
"""

from __future__ import annotations

from functools import partial

from weft.devices.cpu.emit.emitter import Emitter
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import cast
from weft.devices.cpu.emit.types import llvm_type, splat_text, wide
from weft.dtypes.formats import INT64, Format
from weft.kernel.expressions import dependencies
from weft.kernel.ir import Access, Affine, Value


def emit_index_value(e: Emitter, affine: Affine, dtype: Format, vector: bool) -> str:
    """Emit an Affine as a value of ``dtype``."""
    name = emit_affine(e, affine, vector)
    return name if llvm_type(dtype) == "i64" else cast(Ops(e.f, e.m, e.isa, e.env.lanes if vector else None), name, INT64, dtype)


def emit_integer(e: Emitter, v: Value, vector: bool) -> str:
    """Emit an index value as i64, per lane if ``vector``."""
    name, is_vector = e.value(v)
    if v.dtype.bytes < 8 or v.dtype.kind == "bool":
        lanes = e.env.lanes if is_vector else None
        word = "sext" if v.dtype.kind == "signed" else "zext"
        name = e.f.let(f"{word} {wide(llvm_type(v.dtype), lanes)} {name} to {wide('i64', lanes)}")
    return e.splat(name, "i64") if vector and not is_vector else name


def uniform_groups(e: Emitter, affine: Affine) -> tuple[dict[int, list[tuple[str, int]]], int]:
    """Return the part of an Affine that is equal in all lanes: (name, factor) of each term by loop level, and the constant.

    The vector axis counts with the index of lane 0.
    """
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
        level, vector = e.place(dependencies(v, env.deps))
        if vector:
            continue
        saved, e.f.lines = e.f.lines, e.lines(level)
        name = emit_integer(e, v, vector=False)
        e.f.lines = saved
        if name.startswith("%"):
            groups.setdefault(level, []).append((name, c))
        else:
            const += c * int(name)
    return groups, const


def _uniform_terms(e: Emitter, affine: Affine) -> tuple[str | int, int]:
    """Return (sum of the uniform terms, outer levels first, as SSA name or int; constant)."""
    groups, const = uniform_groups(e, affine)
    total: str | int = 0
    for level in sorted(groups):
        total = e.once(level, ("sum", total, tuple(groups[level])), partial(e.f.dot, total, groups[level]))
    return total, const


def emit_affine(e: Emitter, affine: Affine, vector: bool) -> str:
    """Emit an Affine as i64, per lane if ``vector``."""
    base, const = _uniform_terms(e, affine)
    start = e.f.add(base, const)
    if not vector:
        return start
    total = constant_vector(lane_offsets(e, affine), 0 if start.startswith("%") else int(start))
    if start.startswith("%"):
        same = lane_step(e, affine) == 0
        total = e.splat(start, "i64") if same else e.f.let(f"add {wide('i64', e.env.lanes)} {e.splat(start, 'i64')}, {total}")
    for v, c in affine.gather:
        if e.place(dependencies(v, e.env.deps))[1]:
            lanes = emit_integer(e, v, vector=True)
            if c != 1:
                lanes = e.f.let(f"mul {wide('i64', e.env.lanes)} {lanes}, splat (i64 {c})")
            total = e.f.let(f"add {wide('i64', e.env.lanes)} {total}, {lanes}")
    return total


def constant_vector(numbers: list[int], plus: int = 0) -> str:
    """Return integers as a constant vector."""
    return "<" + ", ".join(f"i64 {n + plus}" for n in numbers) + ">"


def constant_lanes(e: Emitter, affine: Affine) -> list[int] | None:
    """Return the integers of the lanes if all of them are constant, else None."""
    if any(e.env.axes[a].startswith("%") for a, _ in affine.terms) or affine.gather:
        return None
    _, const = _uniform_terms(e, affine)
    return [const + i for i in lane_offsets(e, affine)]


def lane_coefficients(e: Emitter, affine: Affine) -> tuple[int, int]:
    """Return the coefficients of the vector axis and of the minor axis."""
    terms = dict(affine.terms)
    return (terms.get(e.env.vector, 0) if e.env.vector is not None else 0,
            terms.get(e.env.minor, 0) if e.env.minor is not None else 0)


def lane_step(e: Emitter, affine: Affine) -> int | None:
    """Return the distance of neighbouring lanes, gathered indices aside; None if it varies."""
    step, inner = lane_coefficients(e, affine)
    if e.env.minor is None:
        return step
    return inner if step == e.env.span * inner else None


def lane_offsets(e: Emitter, affine: Affine) -> list[int]:
    """Return the distance of each lane from lane 0, gathered indices aside."""
    step, inner = lane_coefficients(e, affine)
    span = e.env.span
    return [i // span * step + i % span * inner for i in range(e.env.lanes)]


# ---- guards and masks


def constant_mask(bits: list[bool]) -> str:
    """Return a constant mask as text."""
    return "<" + ", ".join("i1 true" if b else "i1 false" for b in bits) + ">"


def first_mask(lanes: int, live: int) -> str:
    """Return a mask of the first ``live`` lanes."""
    return constant_mask([k < live for k in range(lanes)])


def mask_bits(mask: str | None) -> list[bool] | None:
    """Return the lanes of a constant mask as bools, or None for any other mask."""
    return [word.endswith("true") for word in mask[1:-1].split(",")] if mask is not None and mask.startswith("<") else None


def leading_lane_count(mask: str | None) -> int | None:
    """Return the number of lanes that a constant mask sets if they are the first ones, else None."""
    bits = mask_bits(mask)
    if bits is None:
        return None
    count = sum(bits)
    return count if all(bits[:count]) else None


def emit_guards(e: Emitter, access: Access) -> tuple[str | None, str | None]:
    """Return (uniform i1 or None, lane mask or None) of an access's guards, the Env's mask not included.

    A constant mask counts only in lanes that the Env's mask allows: it is None if it allows all of them, and uniform is
    "false" if it allows none.
    """
    uniform: str | None = None
    mask: str | None = None
    for affine, lo, hi in access.guard:
        one, lanes = _emit_guard(e, affine, lo, hi)
        if one == "false":
            return "false", None
        if one is not None:
            uniform = one if uniform is None else e.f.let(f"and i1 {uniform}, {one}")
        mask = and_masks(e, mask, lanes)
    bits = mask_bits(mask)
    if bits is not None:
        active = mask_bits(e.env.mask) or [True] * len(bits)
        if not any(a and b for a, b in zip(active, bits, strict=True)):
            return "false", None
        if all(b or not a for a, b in zip(active, bits, strict=True)):
            mask = None
    return uniform, mask


def _emit_guard(e: Emitter, affine: Affine, lo: int, hi: int) -> tuple[str | None, str | None]:
    """Emit one guard at the loop level of its axes. Return (uniform bit, None) or (None, mask)."""
    deps: set = {a for a, _ in affine.terms}
    for v, _ in affine.gather:
        deps |= dependencies(v, e.env.deps)
    level, vector = e.place(frozenset(deps))
    if vector:
        indices = constant_lanes(e, affine)
        if indices is not None:
            return None, constant_mask([lo <= i < hi for i in indices])
    copy = e.env.tag if vector or not deps.isdisjoint(e.env.offsets) else None
    key = ("guard", affine.const, affine.terms, tuple([(id(v), c) for v, c in affine.gather]), lo, hi, vector, copy)
    condition = e.once(level, key, lambda: _compare(e, emit_affine(e, affine, vector), lo, hi, e.env.lanes if vector else None))
    return (None, condition) if vector else (condition, None)


def _compare(e: Emitter, index: str, lo: int, hi: int, lanes: int | None) -> str | None:
    """Emit lo <= index < hi as one unsigned comparison: index - lo < hi - lo.

    For a constant uniform index, return None if the guard holds, else "false".
    """
    if lanes is None and not index.startswith("%"):
        return None if lo <= int(index) < hi else "false"
    type_ = wide("i64", lanes)
    shifted = e.f.let(f"sub {type_} {index}, {splat_text('i64', str(lo), lanes)}") if lo else index
    return e.f.let(f"icmp ult {type_} {shifted}, {splat_text('i64', str(max(hi - lo, 0)), lanes)}", "g")


def and_masks(e: Emitter, a: str | None, b: str | None) -> str | None:
    """Emit the conjunction of two masks; None stands for all lanes."""
    if a is None or b is None:
        return a or b
    first, second = mask_bits(a), mask_bits(b)
    if first is not None and second is not None:
        return constant_mask([x and y for x, y in zip(first, second, strict=True)])
    return e.f.let(f"and {wide('i1', e.env.lanes)} {a}, {b}")


def select_lanes(e: Emitter, mask: str, lanes: int, places: list[int]) -> str:
    """Return the mask of the lanes ``places``."""
    bits = mask_bits(mask)
    if bits is not None:
        return constant_mask([bits[i] for i in places])
    return e.f.shuffle(wide("i1", lanes), mask, "poison", places)


def or_masks(e: Emitter, a: str, b: str, lanes: int) -> str:
    """Emit the disjunction of two masks."""
    first, second = mask_bits(a), mask_bits(b)
    if first is not None and second is not None:
        return constant_mask([x or y for x, y in zip(first, second, strict=True)])
    return e.f.let(f"or {wide('i1', lanes)} {a}, {b}")
