"""Prefetches of table rows: the hardware cannot foresee rows that an index array selects.

Scatters into rows keep the order of the rows and share the columns among threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from weft.devices.cpu.emit.emit import ValueEmitter
from weft.devices.cpu.emit.load import pointer_of
from weft.devices.cpu.nest.nest import Nest, instructions
from weft.kernel.expressions import dependencies, walk
from weft.kernel.ir import Access, Affine, Axis, Stage, Value, size_of

MIN_BYTES = 256 << 10  # larger buffers are not in the nearest caches
BYTES_AHEAD = 4096  # from a load to its prefetch
SHORTEST, LONGEST = 128, 4096  # bytes of a row; the hardware prefetches longer rows itself
MAX_ROWS = 16  # per iteration
MAX_INDEX_COST = 16  # instructions; costlier indices are not computed twice


def prefetch_rows(n: Nest, outer: tuple[Axis, ...], axis: Axis, row: str, end: str | int) -> None:
    """Prefetch rows that later iterations of ``outer`` read or write along ``axis``; ``end``: the end of the chunk."""
    if len(outer) != 1:
        return
    rows = list(_find_rows(n, outer[0], axis))
    if not rows:
        return
    far = max(1, BYTES_AHEAD // sum(size_of(inner) * _row_bytes(access, axis) for access, inner, _ in rows))
    target = n.f.minimum(n.f.add(row, far), n.f.add(end, -1))
    for access, inner, write in rows:
        for places in product(*(range(a.extent) for a in inner)):
            env = n.env(accs={})  # a new tag: no value is shared with this iteration
            fixed = {a.id: str(k) for a, k in zip(inner, places, strict=True)}
            env.axes = {**n.base.axes, **fixed, outer[0].id: target, axis.id: "0"}
            env.offsets = {outer[0].id: 0}
            pointer = pointer_of(ValueEmitter(n.f, n.m, n.isa, env), access, access.flat())
            for k in range(0, _row_bytes(access, axis), 64):
                n.m.prefetch(n.f, n.f.offset(pointer, k), write)


def _row_bytes(access: Access, axis: Axis) -> int:
    return axis.extent * access.buffer.dtype.bytes


def _find_rows(n: Nest, outer: Axis, axis: Axis) -> Iterator[tuple[Access, tuple[Axis, ...], bool]]:
    """Yield rows of large buffers behind a gathered index, each once: (access, axes of a stage, whether it is written)."""
    visited: set[tuple] = set()
    for stage in n.part.stages:
        values: list[Value] = [r.value for r in stage.reductions] + [s.value for s in stage.stores]
        accesses = [(s.access, True) for s in stage.stores if s.mode == "own"]
        accesses += [(v.attr, False) for v in walk(values) if v.op == "load"]
        for access, write in accesses:
            at = access.flat()
            inner = _row_axes(n, at, outer, axis, stage)
            size = math.prod(access.buffer.shape) * access.buffer.dtype.bytes
            if inner is None or access.buffer.scope != "arg" or size < MIN_BYTES:
                continue
            if size_of(inner) > MAX_ROWS or not SHORTEST <= _row_bytes(access, axis) <= LONGEST:
                continue
            # an update reads and writes the same rows: one prefetch, for writing, serves both
            place = (at.terms, tuple((id(v), c) for v, c in at.gather), access.buffer.shape, access.buffer.dtype)
            identity = (access.buffer.id, tuple(a.extent for a in inner))  # a later stage may read the same rows
            if identity in visited or (not write and place in visited):
                continue
            visited |= {identity, place} if write else {identity}
            yield access, inner, write


def _row_axes(n: Nest, at: Affine, outer: Axis, axis: Axis, stage: Stage) -> tuple[Axis, ...] | None:
    """Return the stage's axes that select an access's row; None if ``outer`` selects no row through an index."""
    gathered = [dependencies(v, n.base.deps) for v, _ in at.gather]
    chosen = frozenset().union(*gathered)
    rest = {a for a, _ in at.terms if a != axis.id}
    own = {a.id: a for a in stage.axes}
    if dict(at.terms).get(axis.id) != 1 or outer.id not in chosen or not chosen | rest <= {outer.id, *own}:
        return None
    if instructions([v for v, _ in at.gather], None) > MAX_INDEX_COST:
        return None
    return tuple([own[d] for d in sorted((chosen | rest) - {outer.id})])
