"""Guards as what LLVM sees of them: one bit for all lanes, and a mask. What is known while the text is written is decided here.

A mask is the text of an ``<n x i1>``: a constant ``<i1 true, ...>`` or a name.
"""

from __future__ import annotations

from weft.devices.cpu.emit.affine import affine_text, known_lanes
from weft.devices.cpu.emit.emitter import Emitter
from weft.devices.cpu.emit.types import splat_text, wide
from weft.kernel.expressions import dependencies
from weft.kernel.ir import Access, Affine


def constant_mask(bits: list[bool]) -> str:
    return "<" + ", ".join("i1 true" if b else "i1 false" for b in bits) + ">"


def first_mask(lanes: int, live: int) -> str:
    """A mask of the first ``live`` lanes."""
    return constant_mask([k < live for k in range(lanes)])


def bits_of(mask: str | None) -> list[bool] | None:
    """The lanes of a constant mask, or None."""
    return [word.endswith("true") for word in mask[1:-1].split(",")] if mask is not None and mask.startswith("<") else None


def first_lanes(mask: str | None) -> int | None:
    """How many lanes a constant mask allows where these are the first ones, or None."""
    bits = bits_of(mask)
    if bits is None:
        return None
    count = sum(bits)
    return count if all(bits[:count]) else None


def guards_of(e: Emitter, access: Access) -> tuple[str | None, str | None]:
    """(uniform i1 or None, lane mask or None) of an access's guards, the Env's mask not included.

    A constant mask speaks of the lanes that the Env's mask allows: it is None where it allows all of those, and
    uniform is "false" where it allows none.
    """
    uniform: str | None = None
    mask: str | None = None
    for affine, lo, hi in access.guard:
        one, lanes = _guard(e, affine, lo, hi)
        if one == "false":
            return "false", None
        if one is not None:
            uniform = one if uniform is None else e.f.let(f"and i1 {uniform}, {one}")
        mask = both_masks(e, mask, lanes)
    bits = bits_of(mask)
    if bits is not None:
        asked = bits_of(e.env.mask) or [True] * len(bits)
        if not any(a and b for a, b in zip(asked, bits, strict=True)):
            return "false", None
        if all(b or not a for a, b in zip(asked, bits, strict=True)):
            mask = None
    return uniform, mask


def _guard(e: Emitter, affine: Affine, lo: int, hi: int) -> tuple[str | None, str | None]:
    """One guard; made once where its axes are known."""
    deps: set = {a for a, _ in affine.terms}
    for v, _ in affine.gather:
        deps |= dependencies(v, e.env.deps)
    level, vector = e.place(frozenset(deps))
    if vector:
        known = known_lanes(e, affine)
        if known is not None:
            return None, constant_mask([lo <= i < hi for i in known])
    copy = e.env.tag if vector or not deps.isdisjoint(e.env.offsets) else None
    key = ("guard", affine.const, affine.terms, tuple([(id(v), c) for v, c in affine.gather]), lo, hi, vector, copy)
    memo = e.memo(level)
    if key not in memo:
        keep, e.f.lines = e.f.lines, e.lines(level)
        memo[key] = _compare(e, affine_text(e, affine, vector), lo, hi, e.env.lanes if vector else None)
        e.f.lines = keep
    found = memo[key]
    return (None, found) if vector else (found, None)


def _compare(e: Emitter, index: str, lo: int, hi: int, lanes: int | None) -> str | None:
    """lo <= index < hi as one unsigned comparison: index - lo < hi - lo. Uniform: None where it holds, or "false"."""
    if lanes is None and not index.startswith("%"):
        return None if lo <= int(index) < hi else "false"
    type_ = wide("i64", lanes)
    moved = e.f.let(f"sub {type_} {index}, {splat_text('i64', str(lo), lanes)}") if lo else index
    return e.f.let(f"icmp ult {type_} {moved}, {splat_text('i64', str(max(hi - lo, 0)), lanes)}", "g")


def both_masks(e: Emitter, a: str | None, b: str | None) -> str | None:
    if a is None or b is None:
        return a or b
    first, second = bits_of(a), bits_of(b)
    if first is not None and second is not None:
        return constant_mask([x and y for x, y in zip(first, second, strict=True)])
    return e.f.let(f"and {wide('i1', e.env.lanes)} {a}, {b}")


def some_lanes(e: Emitter, mask: str, lanes: int, places: list[int]) -> str:
    """The mask of these lanes."""
    bits = bits_of(mask)
    if bits is not None:
        return constant_mask([bits[i] for i in places])
    text = ", ".join(f"i32 {i}" for i in places)
    type_ = wide("i1", lanes)
    return e.f.let(f"shufflevector {type_} {mask}, {type_} poison, <{len(places)} x i32> <{text}>")


def either(e: Emitter, a: str, b: str, lanes: int) -> str:
    first, second = bits_of(a), bits_of(b)
    if first is not None and second is not None:
        return constant_mask([x or y for x, y in zip(first, second, strict=True)])
    return e.f.let(f"or {wide('i1', lanes)} {a}, {b}")
