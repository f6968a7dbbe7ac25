"""Rows of tables, asked for before they are needed: where index arrays say which rows come next, no hardware foresees them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from weft.devices.cpu.emit.emit import ValueEmitter
from weft.devices.cpu.emit.load import pointer_of
from weft.devices.cpu.nest.nest import Nest, instructions
from weft.devices.cpu.nest.row_lanes import FAR
from weft.kernel.expressions import dependencies, walk
from weft.kernel.ir import Access, Affine, Axis, Stage, Value, size_of

BYTES = 4096  # between what is worked on and what is asked for
SHORTEST, LONGEST = 128, 4096  # bytes of a row; the hardware follows longer ones by itself
MOST = 16  # rows that one iteration may read
COSTLY = 16  # instructions of an index that is not computed twice


def ask_ahead(n: Nest, outer: tuple[Axis, ...], axis: Axis, row: str, end: str | int) -> None:
    """Ask for the rows that iterations of ``outer`` after this one read or write along ``axis``; ``end``: of the chunk."""
    if len(outer) != 1:
        return
    wanted = list(_wanted(n, outer[0], axis))
    if not wanted:
        return
    far = max(1, BYTES // sum(size_of(inner) * _length(access, axis) for access, inner, _ in wanted))
    there = n.f.minimum(n.f.add(row, far), n.f.add(end, -1))
    for access, inner, write in wanted:
        for places in product(*(range(a.extent) for a in inner)):
            env = n.env(accs={})  # a tag of its own: nothing is shared with this iteration
            fixed = {a.id: str(k) for a, k in zip(inner, places, strict=True)}
            env.axes = {**n.base.axes, **fixed, outer[0].id: there, axis.id: "0"}
            env.offsets = {outer[0].id: 0}
            pointer = pointer_of(ValueEmitter(n.f, n.m, n.isa, env), access, access.flat())
            for k in range(0, _length(access, axis), 64):
                n.m.prefetch(n.f, n.f.offset(pointer, k), write)


def _length(access: Access, axis: Axis) -> int:
    return axis.extent * access.buffer.dtype.bytes


def _wanted(n: Nest, outer: Axis, axis: Axis) -> Iterator[tuple[Access, tuple[Axis, ...], bool]]:
    """Rows of large buffers behind a gathered index, each once: (access, axes of a stage, whether it is written)."""
    seen: set[tuple] = set()
    for stage in n.part.stages:
        values: list[Value] = [r.value for r in stage.reductions] + [s.value for s in stage.stores]
        found = [(s.access, True) for s in stage.stores if s.mode == "own"]
        found += [(v.attr, False) for v in walk(values) if v.op == "load"]
        for access, write in found:
            at = access.flat()
            inner = _inner(n, at, outer, axis, stage)
            size = math.prod(access.buffer.shape) * access.buffer.dtype.bytes
            if inner is None or access.buffer.scope != "arg" or size < FAR:
                continue
            if size_of(inner) > MOST or not SHORTEST <= _length(access, axis) <= LONGEST:
                continue
            # an update writes what it reads, in place: asking for it once, to write it, serves both
            place = (at.terms, tuple((id(v), c) for v, c in at.gather), access.buffer.shape, access.buffer.dtype)
            again = (access.buffer.id, tuple(a.extent for a in inner))  # a later stage reads the rows of an earlier one
            if again in seen or (not write and place in seen):
                continue
            seen |= {again, place} if write else {again}
            yield access, inner, write


def _inner(n: Nest, at: Affine, outer: Axis, axis: Axis, stage: Stage) -> tuple[Axis, ...] | None:
    """The stage's axes that say which row an access reads; None where it reads no row that ``outer`` chooses by an index."""
    gathered = [dependencies(v, n.base.deps) for v, _ in at.gather]
    chosen = frozenset().union(*gathered)
    rest = {a for a, _ in at.terms if a != axis.id}
    own = {a.id: a for a in stage.axes}
    if dict(at.terms).get(axis.id) != 1 or outer.id not in chosen or not chosen | rest <= {outer.id, *own}:
        return None
    if instructions([v for v, _ in at.gather], None) > COSTLY:
        return None
    return tuple([own[d] for d in sorted((chosen | rest) - {outer.id})])
