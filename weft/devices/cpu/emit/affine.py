"""Indices: the value of an Affine as an integer, at one iteration or per lane."""

from __future__ import annotations

from functools import partial

from weft.devices.cpu.emit.emitter import Emitter
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import cast
from weft.devices.cpu.emit.types import llvm_type, wide
from weft.dtypes.formats import INT64, Format
from weft.kernel.expressions import dependencies
from weft.kernel.ir import Affine, Value


def emit_index_value(e: Emitter, affine: Affine, dtype: Format, vector: bool) -> str:
    """Emit an Affine as a value of ``dtype``."""
    name = emit_affine(e, affine, vector)
    return name if llvm_type(dtype) == "i64" else cast(Ops(e.f, e.m, e.isa, e.env.lanes if vector else None), name, INT64, dtype)


def integer(e: Emitter, v: Value, vector: bool) -> str:
    """Emit an index value as i64, per lane if ``vector``."""
    name, is_vector = e.value(v)
    if v.dtype.bytes < 8 or v.dtype.kind == "bool":
        lanes = e.env.lanes if is_vector else None
        word = "sext" if v.dtype.kind == "signed" else "zext"
        name = e.f.let(f"{word} {wide(llvm_type(v.dtype), lanes)} {name} to {wide('i64', lanes)}")
    return e.splat(name, "i64") if vector and not is_vector else name


def uniform_groups(e: Emitter, affine: Affine) -> tuple[dict[int, list[tuple[str, int]]], int]:
    """Return the terms equal in all lanes, with lane 0 of the vector axis: (name, factor) by loop level, and the constant."""
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
        name = integer(e, v, vector=False)
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
            lanes = integer(e, v, vector=True)
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


def lane_terms(e: Emitter, affine: Affine) -> tuple[int, int]:
    terms = dict(affine.terms)
    return (terms.get(e.env.vector, 0) if e.env.vector is not None else 0,
            terms.get(e.env.minor, 0) if e.env.minor is not None else 0)


def lane_step(e: Emitter, affine: Affine) -> int | None:
    """Return the distance of neighbouring lanes, gathered indices aside; None if it varies."""
    step, inner = lane_terms(e, affine)
    if e.env.minor is None:
        return step
    return inner if step == e.env.span * inner else None


def lane_offsets(e: Emitter, affine: Affine) -> list[int]:
    """Return the distance of each lane from lane 0, gathered indices aside."""
    step, inner = lane_terms(e, affine)
    span = e.env.span
    return [i // span * step + i % span * inner for i in range(e.env.lanes)]
