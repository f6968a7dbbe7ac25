"""Reductions of a few long rows: each row is cut among many programs, and a second launch joins what they found.

Where it is cut depends on extents alone.
"""

from __future__ import annotations

from dataclasses import replace

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.rows import begin, gathered, memory_along_rows, plan, positional, row_launch, run_stage
from weft.devices.cuda.tiles import ELEMENTS, pieces, program
from weft.devices.cuda.values import Printer
from weft.formats import BOOL
from weft.kernel.ir import Access, Axis, Buffer, Reduction, Stage, Value, along, size_of
from weft.kernel.parts import Part
from weft.kernel.staged import place_of

LONG = 16384, 2048  # rows longer than this are cut: rows that lie in memory as such, and columns of memory
FEW = 132  # programs: with fewer, processors of large cards would have none
LEAST = 4096, 512  # columns of a piece: of rows that lie in memory as such, and of columns of memory
MOST = 1024, 256  # pieces


def cuts(part: Part) -> bool:
    """Whether a part is better run stage by stage, its reductions in two steps."""
    if not any(s.reductions for s in part.stages):
        return False
    if max(size_of(s.axes) for s in part.stages) <= LONG[memory_along_rows(part.shared, part.stages)]:
        return False
    rows, _ = plan(part.shared, part.stages)
    return pieces(size_of(part.shared), rows) < FEW


def can_cut(stage: Stage) -> bool:
    """Positions and running sums are not cut, nor products of floats, which go through their elements in order."""
    return all(not (r.running or positional(r) or r.monoid == "prod") for r in stage.reductions)


def partial_launches(part: Part, number: int) -> tuple[list[Launch], list[Buffer]]:
    """A part of one stage with reductions, in two steps, and the scratch between them, numbered from ``number`` on."""
    (stage,) = part.stages
    n, count = size_of(stage.axes), max(size_of(part.shared), 1)
    along_rows = memory_along_rows(part.shared, part.stages)
    cut = min(MOST[along_rows], pieces(n, LEAST[along_rows]))
    length = pieces(pieces(n, cut), ELEMENTS) * ELEMENTS
    cut = pieces(n, length)
    rows, (width,) = plan(part.shared, part.stages)
    p = Printer((*part.shared, *stage.axes))
    programs = begin(p, part.shared, rows)
    piece = p.put(program(1, n * count)).text
    low = p.put(f"{piece} * {p.arguments.integer(length)}").text
    high = p.put(f"tl.minimum({low} + {p.arguments.integer(length)}, {p.arguments.integer(n)})").text
    run_stage(p, stage, rows, width, (low, high))
    scratch, joins = [], []
    place, axis = place_of(part.shared), Axis(1 + max([a.id for a in (*part.shared, *stage.axes)]), cut)
    for k, r in enumerate(stage.reductions):
        found = Buffer(number + k, gathered(r), (cut * count,), "kernel")
        scratch.append(found)
        at = p.affine(place, False)
        where = f"{p.arguments.buffer(found)} + {piece} * {p.arguments.integer(count)} + {at.text}"
        where += "" if 0 in at.dims else f" + {p.places[0].text} * 0"
        p.write(where, p.accs[r.id].text, found.dtype, p.masks.get(0))
        joins.append(_join(r, found, Access(found, (place.plus(along(axis, count)),)), axis))
    first = p.launch((programs, cut))
    second = row_launch(Part(part.shared, (Stage((axis,), tuple(joins)),), part.exports, False))
    return [first, second], scratch


def _join(r: Reduction, found: Buffer, access: Access, axis: Axis) -> Reduction:
    """The reduction of what the pieces of each row gave."""
    value = Value("load", (), found.dtype, access)
    if r.accum is BOOL:
        value = Value("ne", (value, Value("const", (), found.dtype, 0)), BOOL)
    return replace(r, axes=(axis,), value=value, monoid="sum" if r.monoid == "dot" else r.monoid)
