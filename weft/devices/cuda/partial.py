"""Reductions of a few long rows: each row is cut among many programs, and a second launch joins what they found.

Where it is cut depends on extents alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.rows import begin, best, export, gathered, memory_along_rows, plan, positional, run_stage, warps
from weft.devices.cuda.text import Expression
from weft.devices.cuda.tiles import ELEMENTS, FEW, pieces, program
from weft.devices.cuda.values import Printer
from weft.dtypes.formats import BOOL, FLOATS, INT64, Format
from weft.kernel.ir import Access, Affine, Axis, Buffer, Reduction, Stage, Value, along, size_of
from weft.kernel.parts import Part
from weft.kernel.staged import place_of

LONG = 16384, 2048  # rows longer than this are cut: rows that lie in memory as such, and columns of memory
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
    """Products of floats are not cut: they go through their elements in order."""
    return all(not (r.monoid == "prod" and r.accum in FLOATS) for r in stage.reductions)


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows cut into pieces. axis : the pieces of a row; place : of a row among them, where rows run fastest; length : columns"""

    axis: Axis
    place: Affine
    length: int
    rows: int

    def at(self, buffer: Buffer) -> Access:
        """What a piece of a row has in a buffer."""
        return Access(buffer, (self.place.plus(along(self.axis, self.rows)),))

    def scratch(self, number: int, form: Format) -> Buffer:
        """Room for one number a piece."""
        return Buffer(number, form, (self.axis.extent * self.rows,), "kernel")

    def begin(self, p: Printer, columns: int) -> tuple[str, str, str]:
        """In a program: the number of its piece, and from where to where it goes."""
        piece = p.put(program(1, columns * self.rows)).text
        low = p.put(f"{piece} * {p.arguments.integer(self.length)}").text
        return piece, low, p.put(f"tl.minimum({low} + {p.arguments.integer(self.length)}, {p.arguments.integer(columns)})").text

    def pointer(self, p: Printer, buffer: Buffer, piece: str) -> str:
        """Where the numbers of a piece stand, one a row of the program."""
        at = p.affine(self.place, False)
        where = f"{p.arguments.buffer(buffer)} + {piece} * {p.arguments.integer(self.rows)} + {at.text}"
        return where if 0 in at.dims else f"{where} + {p.places[0].text} * 0"


def cut_of(part: Part) -> Cut:
    """How the rows of a part of one stage are cut."""
    (stage,) = part.stages
    n = size_of(stage.axes)
    along_rows = memory_along_rows(part.shared, part.stages)
    count = min(MOST[along_rows], pieces(n, LEAST[along_rows]))
    length = pieces(pieces(n, count), ELEMENTS) * ELEMENTS
    axis = Axis(1 + max([a.id for a in (*part.shared, *stage.axes)]), pieces(n, length))
    return Cut(axis, place_of(part.shared), length, max(size_of(part.shared), 1))


def piece_launch(part: Part, cut: Cut, number: int) -> tuple[Launch, dict[int, Buffer], dict[int, Buffer]]:
    """The first step, a program a piece; what each reduction found there, and where it stands if that is asked, by its number."""
    (stage,) = part.stages
    rows, (width,) = plan(part.shared, part.stages)
    p = Printer((*part.shared, *stage.axes))
    programs = begin(p, part.shared, rows)
    piece, low, high = cut.begin(p, size_of(stage.axes))
    run_stage(p, stage, rows, width, (low, high))
    found: dict[int, Buffer] = {}
    where: dict[int, Buffer] = {}

    def keep(into: dict[int, Buffer], r: Reduction, form: Format, value: Expression) -> None:
        into[r.id] = cut.scratch(number + len(found) + len(where), form)
        p.write(cut.pointer(p, into[r.id], piece), value.text, form, p.masks.get(0))

    for r in stage.reductions:
        if positional(r):
            keep(where, r, INT64, p.accs[r.id])
            keep(found, r, gathered(r), best(p, r))
        else:
            keep(found, r, gathered(r), p.accs[r.id])
    return p.launch((programs, cut.axis.extent)), found, where


def partial_launches(part: Part, number: int) -> tuple[list[Launch], list[Buffer]]:
    """A part of one stage with reductions, in two steps, and the scratch between them, numbered from ``number`` on."""
    cut = cut_of(part)
    first, found, where = piece_launch(part, cut, number)
    joins = tuple([_join(r, cut.at(found[r.id]), cut.axis) for r in part.stages[0].reductions])
    stage = Stage((cut.axis,), joins)
    rows, (width,) = plan(part.shared, (stage,))
    p = Printer((*part.shared, cut.axis))
    programs = begin(p, part.shared, rows)
    run_stage(p, stage, rows, width)
    for k, buffer in where.items():  # the best piece is known: where the best of it stands
        piece = Affine(gather=((Value("acc", (), INT64, k), cut.rows),))
        p.accs[k] = p.value(Value("load", (), INT64, Access(buffer, (cut.place.plus(piece),))))
    export(p, part)
    return [first, p.launch((programs, 1), warps(rows, (width,)))], [*found.values(), *where.values()]


def _join(r: Reduction, access: Access, axis: Axis) -> Reduction:
    """The reduction of what the pieces of each row gave."""
    value = Value("load", (), access.buffer.dtype, access)
    if r.accum is BOOL and not positional(r):
        value = Value("ne", (value, Value("const", (), value.dtype, 0)), BOOL)
    return replace(r, axes=(axis,), value=value, monoid="sum" if r.monoid == "dot" else r.monoid)
