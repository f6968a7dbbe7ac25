"""Addresses: of one element, of the elements in the lanes, and one that may always be read."""

from __future__ import annotations

from weft.devices.cpu.emit.affine import affine_text, uniform_groups
from weft.devices.cpu.emit.emitter import Emitter
from weft.devices.cpu.emit.env import key_of
from weft.devices.cpu.emit.types import memory_type, wide
from weft.kernel.ir import Access, Affine

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
    return e.f.offset(pointer, const * access.buffer.dtype.bytes)


def pointers_of(e: Emitter, access: Access, affine: Affine) -> str:
    """A vector of addresses."""
    index = affine_text(e, affine, vector=True)
    base = e.env.pointers[key_of(access.buffer)]
    return e.f.let(f"getelementptr {memory_type(access.buffer.dtype)}, ptr {base}, {wide('i64', e.env.lanes)} {index}", "a")


def dummy(e: Emitter) -> str:
    """Memory that may always be read: where a load goes whose guard is false."""
    memo = e.memo(0)
    if "dummy" not in memo:
        memo["dummy"] = e.f.local(f"[{DUMMY} x i8]", 64)
    return memo["dummy"]
