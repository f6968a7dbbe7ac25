"""Writes at places that are read from memory, where several iterations may meet: the order of the kernel IR is kept.

The last of several writes stays: every iteration writes its number on a board as long as the buffer, where the highest stays,
and then who finds its own number there writes. Additions of integers give the same in any order, and are atomic where cards
can; those of floats are made in order: a program has some columns and some places of the buffer to itself, and goes through the
rows one after another; it reads where all are to go, many at a time, and takes those that go to its places.
Where any order was permitted they are atomic, too; narrow floats are added up in float32, beside the buffer.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.formats import loaded, rounded
from weft.devices.cuda.row_reductions import map_launch
from weft.devices.cuda.tile_expressions import LIMIT, Printer, wide
from weft.devices.cuda.tiles import ELEMENTS, FEW, line_up, pieces, power_of_two, program, spread
from weft.dtypes.formats import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, Format
from weft.kernel.expressions import access_values, dependencies
from weft.kernel.ir import Access, Axis, Buffer, Store, Value, size_of
from weft.kernel.stages import Part, place_of

_ATOMIC = frozenset((INT32, INT64, UINT32, UINT64))  # formats whose sums are the same in any order, and that cards add up so
WORTH = 16  # rows from which on their places are divided
ROWS = 128  # whose places are looked at together
Shapes = dict[tuple[str, int], tuple[int, ...]]  # of buffers as they lie, by scope and id: parts know their sizes only


def ordered_launches(part: Part, number: int, shapes: Shapes) -> tuple[list[Launch], list[Buffer]]:
    """A part of stores whose order counts, and the scratch that it needs, numbered from ``number`` on."""
    (stage,) = part.stages
    launches: list[Launch] = []
    scratch: list[Buffer] = []
    stores = stage.stores
    if len(stores) > 1:  # what one writes another may read: all is read first
        stores, first = _read_first(part.shared, stores, number)
        launches.append(map_launch(part.shared, [Store(Access(b, (place_of(part.shared),)), v) for b, v in first]))
        scratch += [b for b, _ in first]
    for s in stores:
        if s.value.dtype in _ATOMIC and s.adds or s.value.dtype in (FLOAT32, FLOAT64) and s.mode == "add_unordered":
            launches.append(map_launch(part.shared, [s], _add))
        elif s.mode == "add_unordered":
            sums = Buffer(number + len(scratch), FLOAT32, s.access.buffer.shape, "kernel")
            scratch.append(sums)
            launches += _beside(part.shared, s, sums)
        elif s.mode == "add":
            launches.append(_added(part.shared, s, shapes))
        elif not collides(s, part.shared):
            launches.append(map_launch(part.shared, [s]))
        else:
            board = Buffer(number + len(scratch), INT32, s.access.buffer.shape, "kernel")
            scratch.append(board)
            launches += _last(part.shared, s, board)
    return launches, scratch


def collides(store: Store, axes: tuple[Axis, ...]) -> bool:
    """Whether several iterations may write one element."""
    used = {a for a, _ in store.access.flat().terms}
    gathers = any(index.gather for index in store.access.index)
    return store.mode != "own" and (gathers or any(a.extent > 1 and a.id not in used for a in axes))


def _read_first(
    axes: tuple[Axis, ...], stores: tuple[Store, ...], number: int,
) -> tuple[tuple[Store, ...], list[tuple[Buffer, Value]]]:
    """The stores, with values and gathered indices out of scratch; and what goes there."""
    kept: dict[int, tuple[Buffer, Value, Value]] = {}

    def moved(v: Value) -> Value:
        if id(v) not in kept:
            buffer = Buffer(number + len(kept), v.dtype, (max(size_of(axes), 1),), "kernel")
            kept[id(v)] = buffer, v, Value("load", (), v.dtype, Access(buffer, (place_of(axes),)))
        return kept[id(v)][2]

    def access(a: Access) -> Access:
        if not access_values(a):
            return a
        index = tuple([replace(i, gather=tuple([(moved(v), c) for v, c in i.gather])) for i in a.index])
        guard = tuple([(replace(i, gather=tuple([(moved(v), c) for v, c in i.gather])), lo, hi) for i, lo, hi in a.guard])
        return Access(a.buffer, index, guard, a.fill)

    new = tuple([Store(access(s.access), moved(s.value), s.mode) for s in stores])
    return new, [(buffer, v) for buffer, v, _ in kept.values()]


# ---- the last one stays


def _last(axes: tuple[Axis, ...], store: Store, board: Buffer) -> list[Launch]:
    spot = Access(board, store.access.index, store.access.guard)
    iteration = place_of(axes)

    def clear(p: Printer, s: Store) -> None:
        p.store(Store(spot, Value("const", (), INT32, -1), "own"))

    def win(p: Printer, s: Store) -> None:
        mine = p.affine(iteration, False)
        where, mask = p.target(Store(spot, s.value), mine)
        p.line(f"tl.atomic_max({where}, {mine.text}{_masked(mask)}, sem='relaxed')")

    def write(p: Printer, s: Store) -> None:
        mine, value = p.affine(iteration, False), p.value(s.value)
        on_board, mask, at = p.pointer(spot)
        stands = f"tl.load({on_board}{_masked(mask)}{', other=-1' if mask is not None else ''})"
        dims, level = at.dims | mine.dims | (mask.dims if mask is not None else frozenset()), p.level
        won = p.put(f"{stands} == {mine.text}", dims, level)
        inside = won if mask is None else p.put(f"{won.text} & {mask.text}", dims | mask.dims, level)
        offset = p.put(f"{at.text} + tl.where({inside.text}, 0, 0)", inside.dims | at.dims, level)
        value = p.put(f"tl.where({inside.text}, {value.text}, {value.text})", inside.dims | value.dims, level)
        p.write(f"{p.arguments.buffer(s.access.buffer)} + {offset.text}", value.text, s.access.buffer.dtype, inside)

    return [map_launch(axes, [store], step) for step in (clear, win, write)]


def _masked(mask: object) -> str:
    return "" if mask is None else f", mask={mask.text}"  # type: ignore[attr-defined]


# ---- additions


def _add(p: Printer, s: Store) -> None:
    """In any order."""
    value = p.value(s.value)
    where, mask = p.target(s, value, every=True)  # one addition a lane, also where all lanes add the same to one place
    p.line(f"tl.atomic_add({where}, {value.text}{_masked(mask)}, sem='relaxed')")


def _beside(axes: tuple[Axis, ...], store: Store, sums: Buffer) -> list[Launch]:
    """Of narrow floats, in any order: the buffer in float32, what is added to it there, and back."""
    buffer = store.access.buffer
    every = (Axis(1 + max([a.id for a in axes], default=0), prod(buffer.shape)),)
    narrow, there = Access(buffer, (place_of(every),)), Access(sums, (place_of(every),))
    first = Store(there, Value("cast", (Value("load", (), buffer.dtype, narrow),), FLOAT32))
    added = Store(replace(store.access, buffer=sums), Value("cast", (store.value,), FLOAT32), store.mode)
    last = Store(narrow, Value("cast", (Value("load", (), FLOAT32, there),), buffer.dtype))
    return [map_launch(every, [first]), map_launch(axes, [added], _add), map_launch(every, [last])]


def _added(axes: tuple[Axis, ...], store: Store, shapes: Shapes) -> Launch:
    """In order."""
    buffer = store.access.buffer
    apart = _apart(axes, store, shapes[buffer.scope, buffer.id])
    columns = tuple([a for a in axes if a.id in apart])
    rows = tuple([a for a in axes if a.id not in apart])
    p = Printer(axes)
    width = min(power_of_two(size_of(columns)), ELEMENTS)
    programs = pieces(size_of(columns), width) if size_of(rows) else 0
    line_up(p, columns, p.put(f"{program(0, size_of(columns))} * {width}").text if programs > 1 else "0", width, 1)
    if not programs:
        return p.launch((0, 1))
    blocks = _blocks(store, rows, apart, size_of(columns), programs)
    size = prod(buffer.shape)
    if blocks > 1:
        block = p.put(program(1, size * (blocks + 1))).text
        ends = [p.put(f"{k} * {p.arguments.integer(size)} // {p.arguments.integer(blocks)}") for k in (block, f"({block} + 1)")]
    end = p.arguments.integer(size_of(rows))
    p.open()
    if blocks > 1:
        line_up(p, rows, p.put("first", (), p.level).text, ROWS, 0, p.level)
        flat, row = store.access.flat(), p.places.pop(0).text
        at = p.affine(replace(flat, terms=tuple([t for t in flat.terms if t[0] not in apart])), wide(size)).text
        own = f"({at} >= {ends[0].text}) & ({at} < {ends[1].text})" + (f" & {p.masks.pop(0).text}" if 0 in p.masks else "")
        own = p.put(own, (0,), p.level).text
        p.line(f"row = {_first(own, row, end)}")
        p.open()
    spread(p, rows, p.put("row + 0", (), p.level))
    p.forget()
    value = p.value(store.value)
    where, mask = p.target(store, value)
    there = p.put(f"tl.load({where}{_masked(mask)})", (1,), p.level).text
    p.write(where, _sum(there, value.text, buffer.dtype), buffer.dtype, mask)
    p.line("tl.debug_barrier()")  # the next row may be added to the same place, by another thread
    if blocks > 1:
        p.line(f"row = {_first(f'{own} & ({row} > row)', row, end)}")
        p.close(f"while row < {end}:")
        p.close(f"for first in range(0, {end}, {ROWS}):")
    else:
        p.close(f"for row in range(0, {end}):")
    return p.launch((programs, blocks))


def _first(mine: str, row: str, end: str) -> str:
    """The first of some rows; their end where there is none."""
    return f"tl.reduce(tl.reduce(tl.where({mine}, {row}, {end}), 0, join_min), 0, join_min)"


def _blocks(store: Store, rows: tuple[Axis, ...], apart: set[int], columns: int, programs: int) -> int:
    """Into how many the places of a buffer are divided: none has less than a row of it, and with more programs there are than
    processors, another would only read all places again."""
    known: dict[int, frozenset] = {}
    if not WORTH <= size_of(rows) < LIMIT or any(dependencies(v, known) & apart for v, _ in store.access.flat().gather):
        return 1
    return max(1, min(prod(store.access.buffer.shape) // max(columns, 1), pieces(2 * FEW, programs)))


def _sum(a: str, b: str, form: Format) -> str:
    return rounded(f"({loaded(a, form)} + {b})", form) if form.narrow else f"{a} + {b}"


def _apart(axes: tuple[Axis, ...], store: Store, shape: tuple[int, ...]) -> set[int]:
    """Axes along which no two iterations write the same element: each alone steps through some dimensions of the buffer, in
    which every index is in range."""
    edges, step = [1], 1
    for extent in reversed(shape):
        step *= extent
        edges.append(step)
    flat = store.access.flat()
    extents = {a.id: a.extent for a in axes}
    found = set()
    for axis, c in flat.terms:
        others = [abs(x) for a, x in flat.terms if a != axis] + [abs(x) for _, x in flat.gather]
        reach = min([e for e in edges if e >= extents[axis] * c], default=0)
        if c in edges and reach and not any(c <= x < reach for x in others):
            found.add(axis)
    return found
