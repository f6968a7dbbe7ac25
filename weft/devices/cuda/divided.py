"""Products of few tiles and a long k, weights' gradients above all: k is divided among programs, and a second launch adds up.

How many pieces there are depends on extents, formats and precision alone, and where they begin on no tile that a clock chose.
"""

from __future__ import annotations

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.product import Sides, Tile, begin_tile, first_tile, follow, inside_of, sum_of, tiles_of, units_of
from weft.devices.cuda.rows import begin, gathered
from weft.devices.cuda.tiles import FEW, pieces, power_of_two, program, unit_strides
from weft.devices.cuda.values import Printer
from weft.kernel.ir import Buffer, Reduction, size_of
from weft.kernel.parts import Part

# A turn of the loop is taken to last 0.3 us, the second launch 2 us and the longer the more pieces there are. Sums of pieces go
# through scratch once each way: a quarter more traffic where a piece reads 8 times as much. Two pieces would win next to nothing.
PROGRAMS = 2 * FEW  # two for each processor of a large card: one waits for memory while the other multiplies
TURNS = 8  # of a piece, at least; and what it reads is at least as many times its sums
WORTH, MOST = 3, 128  # pieces
ROWS, AHEAD = 256, 16  # of the second launch: elements of a program, and pieces that are read before they are added


def division(s: Sides, r: Reduction) -> int:
    """Into how many pieces k is divided; 0: not at all."""
    tile = first_tile(s)
    tiles, inside = tiles_of(s, tile), size_of(inside_of(s, tile.k))
    if not tiles or not inside:
        return 0
    turns = size_of(s.k) // inside * pieces(inside, tile.k)
    sums, operands = tile.m * tile.n * gathered(r).bytes, (tile.m + tile.n) * tile.k * s.a.dtype.bytes
    count = min(PROGRAMS // tiles, MOST, turns // (TURNS * pieces(sums, operands)), units_of(s, tile))
    return count if count >= WORTH else 0


def sums_of(part: Part, count: int, number: int) -> Buffer:
    """Scratch for the sums of all pieces: of as many tiles as there are programs."""
    return Buffer(number, gathered(part.stages[0].reductions[0]), (count * size_of(part.shared),), "kernel")


def piece_launch(part: Part, s: Sides, sums: Buffer, count: int, tile: Tile | None = None) -> Launch:
    """The first: a program has a tile, and a piece of k. tile : another one than the first"""
    tile = first_tile(s) if tile is None else tile
    units, m, n = units_of(s, tile), size_of(s.m), size_of(s.n)
    p = Printer((*part.shared, *s.k))
    programs, batch = begin_tile(p, s, tile)
    piece = p.put(program(1, units * (count + 1))).text
    all_units, all_pieces = p.arguments.integer(units), p.arguments.integer(count)
    low, high = (p.put(f"{k} * {all_units} // {all_pieces}").text for k in (piece, f"({piece} + 1)"))
    total = sum_of(p, s, part.stages[0].reductions[0], tile, (low, high))
    where = f"{p.arguments.buffer(sums)} + {piece} * {p.arguments.integer(size_of(part.shared))}"
    if batch is not None:
        where += f" + {batch} * {p.arguments.integer(m * n)}"
    row, column = p.places[0].text, p.places[1].text
    slow, each, fast = (column, m, row) if _turned(part, s) else (row, n, column)
    where += f" + {slow} * {p.arguments.integer(each)} + {fast}"
    p.write(where, total, sums.dtype, p.inside(frozenset((0, 1)), []))
    return p.launch((programs, count), tile.warps, tile.stages)


def joining_launch(part: Part, s: Sides, sums: Buffer, count: int) -> Launch:
    """The second: a program has some elements of the result, counted as they lie in scratch, adds up what the pieces gave, one
    after the other, and does what follows."""
    elements = (*s.batch, *s.n, *s.m) if _turned(part, s) else (*s.batch, *s.m, *s.n)
    p = Printer(elements)
    n = size_of(elements)
    rows, ahead = min(ROWS, power_of_two(n)), min(AHEAD, power_of_two(count))
    programs = begin(p, elements, rows)
    first = p.put(f"{p.arguments.buffer(sums)} + {p.places[0].text}", (0,)).text
    total, counter, end = p.fresh("sum"), p.fresh("i"), p.arguments.integer(count)
    p.line(f"{total} = tl.full([{rows}, 1], 0, tl.{sums.dtype.name})")
    p.open()
    found = []
    for k in range(ahead):
        piece = p.put(f"{counter} + {k}", (), p.level)
        mask = p.inside(frozenset((0,)), [p.put(f"{piece.text} < {end}", (), p.level)])
        assert mask is not None
        load = f"tl.load({first} + {piece.text} * {p.arguments.integer(n)}, mask={mask.text}, other=0)"
        found.append(p.put(load, (0,), p.level).text)
    for x in found:
        p.line(f"{total} = {total} + {x}")
    p.close(f"for {counter} in range(0, {end}, {ahead}):")
    follow(p, part, p.put(total, (0,)))
    return p.launch((programs, 1))


def _turned(part: Part, s: Sides) -> bool:
    """Whether what follows goes through memory along rows of the product."""
    units = unit_strides(part.stages[1:])
    down, across = (sum([units.get(a.id, 0) for a in side]) for side in (s.m, s.n))
    return down > across
