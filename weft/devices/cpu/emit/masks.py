"""Guards of accesses as LLVM values: one bit for all lanes, and a mask. Guards that are constant at generation time vanish here.

A mask is the text of an ``<n x i1>``: a constant ``<i1 true, ...>`` or a name.

Masked loads are never wider than a register: LLVM 22 splits them wrongly if half of a mask is constant. Masked stores of one
narrow lane are written as one element: LLVM 22 writes more. No CPU masks loads of bytes or halves, so one function per module
does.
"""

from __future__ import annotations

from weft.devices.cpu.emit.affine import constant_lanes, emit_affine
from weft.devices.cpu.emit.emitter import Emitter
from weft.devices.cpu.emit.types import splat_text, wide
from weft.kernel.expressions import dependencies
from weft.kernel.ir import Access, Affine


def constant_mask(bits: list[bool]) -> str:
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
    """Emit one guard at the level of its axes; return its uniform bit or its mask, the other as None."""
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


def either(e: Emitter, a: str, b: str, lanes: int) -> str:
    first, second = mask_bits(a), mask_bits(b)
    if first is not None and second is not None:
        return constant_mask([x or y for x, y in zip(first, second, strict=True)])
    return e.f.let(f"or {wide('i1', lanes)} {a}, {b}")
