"""Split work with few results among many programs: products with a long k, reductions and running folds along a few long rows.

A second launch adds the pieces. A running fold takes three: pieces are reduced, their totals are folded, and each piece continues
from the total before it. The number of pieces depends on extents, formats and precision alone.

A turn takes 0.3 us or so and a second launch 2 us; there are 3 to 128 pieces, as many as give each processor two programs, each
of 8 turns or more. A quarter more traffic, and two pieces would gain nothing. Scratch is at most 17 MB. Products of floats
(``prod``) are not divided: of two pieces one may reach 0 and the other infinity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.devices.cuda import product, row_reductions
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.product import ProductOperands, Tile
from weft.devices.cuda.tile_expressions import Expression, Printer
from weft.devices.cuda.tiles import MIN_PROGRAMS, TILE_ELEMENTS, pieces, power_of_two, program, unit_strides
from weft.dtypes.formats import BOOL, INT64, Format
from weft.kernel.ir import Access, Affine, Axis, Buffer, Reduction, Stage, Store, Value, axis_index, size_of
from weft.kernel.stages import Part, iteration_number

PROGRAMS = 2 * MIN_PROGRAMS  # two for each processor of a large card: one waits for memory while the other multiplies
MIN_ITERATIONS = 8  # least iterations of a piece; it also reads at least this many times the bytes of its sums
MIN_PIECES, MAX_PIECES = 3, 128  # least and largest number of pieces
ROWS, PIECES_AHEAD = 256, 16  # of the second launch: elements of a program, and pieces that are loaded before they are added


def piece_count(s: ProductOperands, r: Reduction) -> int:
    """Return the number of pieces of k; 0 if k is not divided."""
    tile = product.default_tile(s)
    tiles, inside = product.tile_count(s, tile), size_of(product.inner_k_axes(s, tile.k))
    if not tiles or not inside:
        return 0
    iterations = size_of(s.k) // inside * pieces(inside, tile.k)
    sums, operands = tile.m * tile.n * row_reductions.accumulator_format(r).bytes, (tile.m + tile.n) * tile.k * s.a.dtype.bytes
    count = min(
        PROGRAMS // tiles, MAX_PIECES, iterations // (MIN_ITERATIONS * pieces(sums, operands)), product.unit_count(s, tile)
    )
    return count if count >= MIN_PIECES else 0


def sums_of(part: Part, count: int, number: int) -> Buffer:
    """Return the scratch for the sums of all pieces."""
    form = row_reductions.accumulator_format(part.stages[0].reductions[0])
    return Buffer(number, form, (count * size_of(part.shared),), "kernel")


def product_piece(part: Part, s: ProductOperands, sums: Buffer, count: int, tile: Tile | None = None) -> Launch:
    """Return the first launch: a program has a tile and a piece of k. tile: used instead of the default tile."""
    tile = product.default_tile(s) if tile is None else tile
    units, m, n = product.unit_count(s, tile), size_of(s.m), size_of(s.n)
    p = Printer((*part.shared, *s.k))
    programs, batch = product.lay_result_tile(p, s, tile)
    piece = p.put(program(1, units * (count + 1))).text
    all_units, all_pieces = p.arguments.integer(units), p.arguments.integer(count)
    low, high = (p.put(f"{k} * {all_units} // {all_pieces}").text for k in (piece, f"({piece} + 1)"))
    total = product.sum_of(p, s, part.stages[0].reductions[0], tile, (low, high))
    where = f"{p.arguments.buffer(sums)} + {piece} * {p.arguments.integer(size_of(part.shared))}"
    if batch is not None:
        where += f" + {batch} * {p.arguments.integer(m * n)}"
    row, column = p.places[0].text, p.places[1].text
    slow, each, fast = (column, m, row) if _is_contiguous_along_m(part, s) else (row, n, column)
    where += f" + {slow} * {p.arguments.integer(each)} + {fast}"
    p.write(where, total, sums.dtype, p.join_masks(frozenset((0, 1)), []))
    return p.launch((programs, count), tile.warps, tile.stages)


def joining_launch(part: Part, s: ProductOperands, sums: Buffer, count: int) -> Launch:
    """Return the second launch, which adds the pieces in order and runs the epilogue.

    A program owns some elements of the result, in the order of the scratch buffer.
    """
    elements = (*s.batch, *s.n, *s.m) if _is_contiguous_along_m(part, s) else (*s.batch, *s.m, *s.n)
    p = Printer(elements)
    n = size_of(elements)
    rows, ahead = min(ROWS, power_of_two(n)), min(PIECES_AHEAD, power_of_two(count))
    programs = row_reductions.begin(p, elements, rows)
    first = p.put(f"{p.arguments.buffer(sums)} + {p.places[0].text}", (0,)).text
    total, counter, end = p.fresh("sum"), p.fresh("i"), p.arguments.integer(count)
    p.line(f"{total} = tl.full([{rows}, 1], 0, tl.{sums.dtype.name})")
    p.open()
    loaded_pieces = []
    for k in range(ahead):
        piece = p.put(f"{counter} + {k}", (), p.level)
        mask = p.join_masks(frozenset((0,)), [p.put(f"{piece.text} < {end}", (), p.level)])
        assert mask is not None
        load = f"tl.load({first} + {piece.text} * {p.arguments.integer(n)}, mask={mask.text}, other=0)"
        loaded_pieces.append(p.put(load, (0,), p.level).text)
    for x in loaded_pieces:
        p.line(f"{total} = {total} + {x}")
    p.close(f"for {counter} in range(0, {end}, {ahead}):")
    product.follow(p, part, p.put(total, (0,)))
    return p.launch((programs, 1))


def _is_contiguous_along_m(part: Part, s: ProductOperands) -> bool:
    """Return whether the epilogue's accesses are contiguous along m rather than along n."""
    units = unit_strides(part.stages[1:])
    down, across = (sum([units.get(a.id, 0) for a in side]) for side in (s.m, s.n))
    return down > across

LONG = 16384, 2048  # rows longer than this are cut: rows that are contiguous, rows across memory
MIN_COLUMNS = 4096, 512  # least columns of a piece: of contiguous rows, of rows across memory
MAX_ROW_PIECES = 1024, 256  # of a row, in the same two cases


def should_cut(part: Part) -> bool:
    """Return whether a part runs faster stage by stage, with its reductions in two steps."""
    if not any(s.reductions for s in part.stages):
        return False
    if max(size_of(s.axes) for s in part.stages) <= LONG[row_reductions.memory_along_rows(part.shared, part.stages)]:
        return False
    rows, _ = row_reductions.plan(part.shared, part.stages)
    return pieces(size_of(part.shared), rows) < MIN_PROGRAMS


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows cut into pieces.

    axis: the pieces of a row. place: number of a row; buffers with one number for each piece have rows fastest. length: columns
        of a piece. rows: number of rows.
    """

    axis: Axis
    place: Affine
    length: int
    rows: int

    def at(self, buffer: Buffer) -> Access:
        """Return the access to a piece's number in a buffer."""
        return Access(buffer, (self.place.plus(axis_index(self.axis, self.rows)),))

    def scratch(self, number: int, form: Format) -> Buffer:
        """Return a buffer for one number of each piece."""
        return Buffer(number, form, (self.axis.extent * self.rows,), "kernel")

    def begin(self, p: Printer, columns: int) -> tuple[str, str, str]:
        """Print the number of a program's piece; return it with the first and the end of its columns."""
        piece = p.put(program(1, columns * self.rows)).text
        low = p.put(f"{piece} * {p.arguments.integer(self.length)}").text
        return piece, low, p.put(f"tl.minimum({low} + {p.arguments.integer(self.length)}, {p.arguments.integer(columns)})").text

    def pointer(self, p: Printer, buffer: Buffer, piece: str) -> str:
        """Return the addresses of a piece's numbers, one for each row of the program."""
        at = p.affine(self.place, False)
        where = f"{p.arguments.buffer(buffer)} + {piece} * {p.arguments.integer(self.rows)} + {at.text}"
        return where if 0 in at.dims else f"{where} + {p.places[0].text} * 0"


def make_cut(part: Part) -> Cut:
    """Return how the rows of a part of one stage are cut."""
    (stage,) = part.stages
    n = size_of(stage.axes)
    along_rows = row_reductions.memory_along_rows(part.shared, part.stages)
    count = min(MAX_ROW_PIECES[along_rows], pieces(n, MIN_COLUMNS[along_rows]))
    length = pieces(pieces(n, count), TILE_ELEMENTS) * TILE_ELEMENTS
    axis = Axis(1 + max([a.id for a in (*part.shared, *stage.axes)]), pieces(n, length))
    return Cut(axis, iteration_number(part.shared), length, max(size_of(part.shared), 1))


def reduction_piece(part: Part, cut: Cut, number: int) -> tuple[Launch, dict[int, Buffer], dict[int, Buffer]]:
    """Return the first step, and the buffers of each reduction's result and, if it is an argmax or argmin, of its position."""
    (stage,) = part.stages
    rows, (width,) = row_reductions.plan(part.shared, part.stages)
    p = Printer((*part.shared, *stage.axes))
    programs = row_reductions.begin(p, part.shared, rows)
    piece, low, high = cut.begin(p, size_of(stage.axes))
    row_reductions.run_stage(p, stage, rows, width, (low, high))
    results: dict[int, Buffer] = {}
    positions: dict[int, Buffer] = {}

    def store(into: dict[int, Buffer], r: Reduction, form: Format, value: Expression) -> None:
        into[r.id] = cut.scratch(number + len(results) + len(positions), form)
        p.write(cut.pointer(p, into[r.id], piece), value.text, form, p.masks.get(0))

    for r in stage.reductions:
        if row_reductions.positional(r):
            store(positions, r, INT64, p.accs[r.id])
            store(results, r, row_reductions.accumulator_format(r), row_reductions.best(p, r))
        else:
            store(results, r, row_reductions.accumulator_format(r), p.accs[r.id])
    return p.launch((programs, cut.axis.extent)), results, positions


def partial_launches(part: Part, number: int) -> tuple[list[Launch], list[Buffer]]:
    """Return two launches for a part of one stage with reductions, and scratch numbered from ``number`` on."""
    cut = make_cut(part)
    first, results, positions = reduction_piece(part, cut, number)
    joins = tuple([_join(r, cut.at(results[r.id]), cut.axis) for r in part.stages[0].reductions])
    stage = Stage((cut.axis,), joins)
    rows, (width,) = row_reductions.plan(part.shared, (stage,))
    p = Printer((*part.shared, cut.axis))
    programs = row_reductions.begin(p, part.shared, rows)
    row_reductions.run_stage(p, stage, rows, width)
    for k, buffer in positions.items():  # the reduction found the best piece: read its position
        piece = Affine(gather=((Value("acc", (), INT64, k), cut.rows),))
        p.accs[k] = p.value(Value("load", (), INT64, Access(buffer, (cut.place.plus(piece),))))
    row_reductions.export(p, part)
    return [first, p.launch((programs, 1), row_reductions.warps(rows, (width,)))], [*results.values(), *positions.values()]


def _join(r: Reduction, access: Access, axis: Axis) -> Reduction:
    """Return the reduction over the results of the pieces of each row."""
    value = Value("load", (), access.buffer.dtype, access)
    if r.accum is BOOL and not row_reductions.positional(r):
        value = Value("ne", (value, Value("const", (), value.dtype, 0)), BOOL)
    return replace(r, axes=(axis,), value=value, monoid="sum" if r.monoid == "dot" else r.monoid)


def running_launches(part: Part, number: int) -> tuple[list[Launch], list[Buffer]]:
    """Return three launches for a part of one stage with running folds, and scratch numbered from ``number`` on."""
    (stage,) = part.stages
    cut = make_cut(part)
    without_folds = Stage(stage.axes, tuple([replace(r, running=False) for r in stage.reductions]))
    first, totals, _ = reduction_piece(replace(part, stages=(without_folds,)), cut, number)
    folded = {
        r.id: cut.scratch(number + len(totals) + k, row_reductions.accumulator_format(r)) for k, r in enumerate(stage.reductions)
    }
    folds, stores = [], []
    for r in stage.reductions:
        form = row_reductions.accumulator_format(r)
        value = Value("load", (), form, cut.at(totals[r.id]))
        folds.append(replace(r, axes=(cut.axis,), value=value, accum=form, dtype=form))
        stores.append(Store(cut.at(folded[r.id]), Value("acc", (), form, r.id)))
    second = row_reductions.row_launch(Part(part.shared, (Stage((cut.axis,), tuple(folds), tuple(stores)),), {}, False))

    rows, (width,) = row_reductions.plan(part.shared, part.stages)
    p = Printer((*part.shared, *stage.axes))
    programs = row_reductions.begin(p, part.shared, rows)
    piece, low, high = cut.begin(p, size_of(stage.axes))
    inside = f"{piece} > 0" + (f" & {p.masks[0].text}" if 0 in p.masks else "")
    before = {}
    for r in stage.reductions:
        where = cut.pointer(p, folded[r.id], f"({piece} - 1)")
        before[r.id] = p.put(f"tl.load({where}, mask={inside}, other={row_reductions.identity(r)})", (0,))
    row_reductions.run_stage(p, stage, rows, width, (low, high), before)
    third = p.launch((programs, cut.axis.extent), row_reductions.warps(rows, (width,)))
    return [first, second, third], [*totals.values(), *folded.values()]
