"""The loops of a part: vector axis, unrolling, chunks. They depend on the kernel and the ISA only, never on threads."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from weft.devices.cpu.emit.emitter import key_of
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.nest.column_reductions import is_tall_reduction, slab_width
from weft.devices.cpu.nest.nest import estimate_ns, instructions, lanes_for, strides_along
from weft.kernel.expressions import dependencies, roots, walk
from weft.kernel.ir import Axis, Value, size_of
from weft.kernel.stages import Part

INLINE_NS = 20_000  # less work than this runs on the calling thread
CHUNK_NS = 10_000
MAX_CHUNKS = 64
COLUMNS = 16  # least vectors of a row per chunk of a scatter: neighbouring chunks share a cache line


@dataclass(frozen=True, slots=True)
class NestPlan:
    """The loop shape of a part.

    kind: ``tiles`` (vectors along the shared axis ``axis``), ``rows`` (along the stages' last axis), ``full`` (rows without
    shared axes, blocks in parallel), ``sheet``, ``blocks`` (of the rows of columns), ``turn`` or ``columns`` (a chunk is some
    columns of all rows, in order). axis None: scalar code.

    minor: an axis inside the lanes (see Env). may_repeat: a last vector may compute elements a second time.
    turn: (axis, how many of its iterations are taken together): squares of memory are transposed in registers.

    chunks: their number; rows: outer iterations per chunk, or 0 if a chunk is ``piece`` elements of the vector axis.
    """

    kind: str
    axis: int | None
    lanes: int
    unroll: int
    chunks: int
    rows: int = 0
    piece: int = 0
    parallel: bool = False
    minor: int | None = None
    may_repeat: bool = False
    turn: tuple[int, int] | None = None


def plan_part(part: Part, isa: ISA, may_repeat: bool = False) -> NestPlan:
    """Choose the plan of a part. ``may_repeat``: no output aliases an input, so elements may be stored twice."""
    lanes = lanes_for(isa, part)
    values = roots(part.stages)
    reductions = [r for s in part.stages for r in s.reductions]
    rows = max(size_of(part.shared), 1)
    work = rows * sum(max(size_of(s.axes), 1) * estimate_ns([*(r.value for r in s.reductions), *(x.value for x in s.stores)])
                      for s in part.stages)
    chunks = 1 if work < INLINE_NS or part.is_ordered else int(min(MAX_CHUNKS, max(8, work / CHUNK_NS)))

    def plan(kind: str, axis: int | None, lanes: int, unroll: int, rows: int, unit: int = 1, **more: Any) -> NestPlan:
        """Return a plan whose chunks share ``rows`` iterations, a multiple of ``unit`` each."""
        each = -(-rows // (chunks * unit)) * unit
        return NestPlan(kind, axis, lanes, unroll, -(-rows // each), each, parallel=chunks > 1, **more)

    laned = [r for r in reductions if r.order.lanes > 1]
    if laned and not part.shared:
        order, stage = laned[0].order, part.stages[0]
        total = size_of(stage.axes)
        if (len(part.stages) == len(stage.axes) == 1 and len(laned) == len(reductions) and chunks > 1
                and all(r.order == order for r in laned) and total > 2 * order.block):
            return plan("full", None, lanes, 4, -(-total // order.block))
        chunks = 1
        return plan("rows", None, lanes, 4, 1)
    if part.shared and _prefers_rows(part, lanes):
        own = part.stages[-1].axes
        return plan("rows", None, lanes, _unroll_factor(values, own[-1].id if own else None), rows)
    axis = _vector_axis(part, lanes)
    if axis is None or any(r.running for r in reductions) and any(abs(s) > 2 for s in strides_along(part, axis.id)):
        return plan("tiles", None, 1, 1, rows)  # a running fold along contiguous memory is scalar
    extent, outer = axis.extent, rows // axis.extent
    if part.is_ordered and work >= INLINE_NS and extent >= 2 * COLUMNS * lanes and _never_meet(part, axis.id, extent):
        piece = -(-extent // (extent // (COLUMNS * lanes) * lanes)) * lanes
        return NestPlan("columns", axis.id, lanes, 1, -(-extent // piece), piece=piece, parallel=True)
    if chunks > 1 and is_tall_reduction(part, lanes):
        stage = part.stages[0]
        while lanes >= 2 * extent:
            lanes //= 2
        return plan("blocks", axis.id, lanes, 1, -(-stage.axes[0].extent // stage.reductions[0].order.block), 8)  # whole bodies
    slab = 0 if part.is_ordered else slab_width(part, axis, isa, chunks > 1)
    if slab:
        return NestPlan("sheet", axis.id, lanes, 1, outer * -(-extent // slab), piece=slab, parallel=chunks > 1)
    may_repeat = may_repeat and not part.is_ordered and not part.tallied and not _reads_outputs(part)
    minor, unroll = _minor_axis(part, axis.id, lanes), _unroll_factor(values, axis.id)
    if minor is not None:
        unroll = min(unroll, -(-extent * minor.extent // lanes))
        return plan("tiles", axis.id, lanes, unroll, outer // minor.extent, minor=minor.id, may_repeat=may_repeat)
    turn = _transposed_axis(part, axis.id, lanes, may_repeat)
    if turn is not None:
        inner, count = turn
        blocks = outer // inner.extent * -(-inner.extent // count)
        return plan("turn", axis.id, lanes, 1, blocks, may_repeat=may_repeat, turn=(inner.id, count))
    while lanes >= 2 * extent:  # guards are computed for every lane
        lanes //= 2
    if reductions:
        unroll = max(1, min(unroll, 8 // len(reductions)))
    unroll = min(unroll, -(-extent // lanes))
    if chunks == 1 or outer >= chunks:
        return plan("tiles", axis.id, lanes, unroll, outer, may_repeat=may_repeat)
    pieces, step = -(-chunks // outer), lanes * unroll
    piece = (-(-extent // pieces) + step - 1) // step * step
    return NestPlan("tiles", axis.id, lanes, unroll, outer * -(-extent // piece), piece=piece, parallel=chunks > 1)


def _never_meet(part: Part, axis: int, extent: int) -> bool:
    """Return whether iterations that differ in ``axis`` never write the same element; then only the other axes keep order."""
    if any(stage.reductions or stage.axes for stage in part.stages) or part.exports or _reads_outputs(part):
        return False
    for s in (s for stage in part.stages for s in stage.stores):
        at = s.access.flat()
        other_strides = [c for a, c in at.terms if a != axis] + [c for _, c in at.gather]
        if dict(at.terms).get(axis) != 1 or (other_strides and gcd(*other_strides) < extent):
            return False
        if any(axis in dependencies(v, {}) for v, _ in at.gather):
            return False
    return True


def _reads_outputs(part: Part) -> bool:
    """Return whether the part reads a buffer that it writes."""
    written = {key_of(s.access.buffer) for stage in part.stages for s in stage.stores}
    return any(v.op == "load" and key_of(v.attr.buffer) in written for v in walk(roots(part.stages)))


def _minor_axis(part: Part, axis: int, lanes: int) -> Axis | None:
    """Return a short axis that fills the gaps between the vector axis's elements in every store, making full vectors."""
    stores = [s for stage in part.stages for s in stage.stores]
    if part.is_ordered or part.exports or any(stage.reductions or stage.axes for stage in part.stages) or not stores:
        return None
    for a in part.shared:
        if a.id != axis and a.extent in (2, 4, 8) and a.extent < lanes:
            places = [s.access.index[0] for s in stores]
            if all(not p.gather and dict(p.terms).get(a.id) == 1 and dict(p.terms).get(axis) == a.extent for p in places):
                return a
    return None


def _transposed_axis(part: Part, axis: int, lanes: int, may_repeat: bool) -> tuple[Axis, int] | None:
    """Return an axis that is contiguous where the vector axis is not, and how many of its iterations one body takes.

    The count fills about one cache line.
    """
    stores = [s for stage in part.stages for s in stage.stores]
    if part.is_ordered or part.exports or any(stage.reductions or stage.axes for stage in part.stages) or lanes < 4:
        return None
    values = roots(part.stages)
    across = [v.attr.flat() for v in walk(values) if v.op == "load" and not v.attr.guard and v.attr.buffer.dtype.bytes >= 4]
    across = [a for a in across if not a.gather and abs(dict(a.terms).get(axis, 0)) > 2]
    if any(dict(s.access.index[0].terms).get(axis) != 1 for s in stores):
        return None
    for a in part.shared:
        if a.id == axis or not any(dict(x.terms).get(a.id) == 1 for x in across):
            continue
        for count in (2 * lanes, lanes):
            if a.extent >= count and (may_repeat or a.extent % count == 0) and instructions(values, None) * count <= 600:
                return a, count
    return None


def _unroll_factor(values: list[Value], axis: int | None) -> int:
    size = instructions(values, axis)
    return 4 if size < 40 else 2 if size < 120 else 1


def _score(part: Part, axis: int) -> float:
    """Rate how well loads and stores vectorise along an axis: 1 for each unit stride, less for others."""
    points = 0.0
    for step in strides_along(part, axis):
        points += 1.0 if step == 1 else 0.5 if step in (0, -1) else 0.2 if abs(step) == 2 else -1.0
    return points


def _prefers_rows(part: Part, lanes: int) -> bool:
    """Return whether the stages' own axes are the better vector axes."""
    own = [s for s in part.stages if s.axes]
    laned = [r for s in own for r in s.reductions if r.order.lanes > 1]
    if not own or any(r.order.lanes == 1 for s in own for r in s.reductions):
        return False
    longest = max(size_of(s.axes) for s in own)
    inner = max(s.axes[-1].extent for s in own)
    if longest <= 4 or (not laned and inner < lanes):
        return False
    rows = max(_score(part, s.axes[-1].id) for s in own)
    best = max((_score(part, a.id) for a in part.shared if a.extent >= lanes), default=-1e9)
    if longest <= 16 and best > -1e9:
        return rows > best + 1
    return rows >= best or longest > 64


def _vector_axis(part: Part, lanes: int) -> Axis | None:
    """Return the shared axis to vectorise: the best score, the innermost of equals; short axes are penalised.

    If iterations keep their order, it is the innermost axis, or one along which they never write the same element.
    """
    best, result = -1e9, None
    for i, a in enumerate(part.shared):
        if part.is_ordered and a is not part.shared[-1] and not _never_meet(part, a.id, a.extent):
            continue
        points = _score(part, a.id) + 1e-3 * i
        if a.extent < lanes:
            points -= 3.0 * (1 - a.extent / lanes)
        if points > best:
            best, result = points, a
    return result
