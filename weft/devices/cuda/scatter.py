"""Print stores at gathered indices, which several iterations may write, in the order of the kernel IR.

If the last of several writes stays, every iteration first writes its number to a board of the buffer's size, where the highest
number stays; then the iteration that finds its own number writes. Integer additions do not depend on the order; they are atomic
if cards support their format. Float additions are made in order: a program owns some columns and some positions of the buffer,
and goes through the rows one after another. It reads the positions of many rows at a time and handles those that it owns.
If any order is permitted, float additions are atomic, too; storage-only floats are added in float32, in scratch.

All programs look at all indices. This is little beside a row that is read, added and written: 8,192 rows into a table of 50,000
are 64 looks a program (an estimate; nothing was measured).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.formats import convert_loaded, round_to_format
from weft.devices.cuda.row_reductions import map_launch
from weft.devices.cuda.tile_expressions import LIMIT, Printer, wide
from weft.devices.cuda.tiles import MIN_PROGRAMS, TILE_ELEMENTS, lay_axes, pieces, power_of_two, program, spread
from weft.dtypes.formats import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, Format
from weft.kernel.expressions import access_values, dependencies, may_collide
from weft.kernel.ir import Access, Axis, Buffer, Store, Value, size_of
from weft.kernel.stages import Part, iteration_number

# formats whose sums do not depend on the order, and for which cards have atomic additions
_ATOMIC = frozenset((INT32, INT64, UINT32, UINT64))
MIN_ROWS = 16  # rows from which on the buffer is divided among programs
ROWS = 128  # rows whose positions are read together
Shapes = dict[tuple[str, int], tuple[int, ...]]  # (scope, id) -> extents of a buffer in memory order; parts know the size only


def ordered_launches(part: Part, number: int, shapes: Shapes) -> tuple[list[Launch], list[Buffer]]:
    """Return the launches of a part whose stores are ordered, and its scratch, numbered from ``number`` on."""
    (stage,) = part.stages
    launches: list[Launch] = []
    scratch: list[Buffer] = []
    stores = stage.stores
    if len(stores) > 1:  # one store may overwrite another's operands: all are read first
        stores, first = _read_first(part.shared, stores, number)
        launches.append(map_launch(part.shared, [Store(Access(b, (iteration_number(part.shared),)), v) for b, v in first]))
        scratch += [b for b, _ in first]
    for s in stores:
        if s.value.dtype in _ATOMIC and s.adds or s.value.dtype in (FLOAT32, FLOAT64) and s.mode == "add_unordered":
            launches.append(map_launch(part.shared, [s], _print_atomic_add))
        elif s.mode == "add_unordered":
            sums = Buffer(number + len(scratch), FLOAT32, s.access.buffer.shape, "kernel")
            scratch.append(sums)
            launches += _add_in_float32(part.shared, s, sums)
        elif s.mode == "add":
            launches.append(_add_in_order(part.shared, s, shapes))
        elif not may_collide(s, part.shared):
            launches.append(map_launch(part.shared, [s]))
        else:
            board = Buffer(number + len(scratch), INT32, s.access.buffer.shape, "kernel")
            scratch.append(board)
            launches += _last_write_launches(part.shared, s, board)
    return launches, scratch


def _read_first(
    axes: tuple[Axis, ...], stores: tuple[Store, ...], number: int,
) -> tuple[tuple[Store, ...], list[tuple[Buffer, Value]]]:
    """Return the stores with values and gathered indices loaded from scratch, and (scratch buffer, value) pairs."""
    scratch_of: dict[int, tuple[Buffer, Value, Value]] = {}

    def from_scratch(v: Value) -> Value:
        if id(v) not in scratch_of:
            buffer = Buffer(number + len(scratch_of), v.dtype, (max(size_of(axes), 1),), "kernel")
            scratch_of[id(v)] = buffer, v, Value("load", (), v.dtype, Access(buffer, (iteration_number(axes),)))
        return scratch_of[id(v)][2]

    def access(a: Access) -> Access:
        if not access_values(a):
            return a
        index = tuple([replace(i, gather=tuple([(from_scratch(v), c) for v, c in i.gather])) for i in a.index])
        guard = tuple([(replace(i, gather=tuple([(from_scratch(v), c) for v, c in i.gather])), lo, hi) for i, lo, hi in a.guard])
        return Access(a.buffer, index, guard, a.fill)

    new = tuple([Store(access(s.access), from_scratch(s.value), s.mode) for s in stores])
    return new, [(buffer, v) for buffer, v, _ in scratch_of.values()]


# ---- the last write stays


def _last_write_launches(axes: tuple[Axis, ...], store: Store, board: Buffer) -> list[Launch]:
    """Return the launches of a store of which the last write to an element stays."""
    spot = Access(board, store.access.index, store.access.guard)
    iteration = iteration_number(axes)

    def clear(p: Printer, s: Store) -> None:
        p.store(Store(spot, Value("const", (), INT32, -1), "own"))

    def win(p: Printer, s: Store) -> None:
        number_here = p.affine(iteration, False)
        where, mask = p.target(Store(spot, s.value), number_here)
        p.line(f"tl.atomic_max({where}, {number_here.text}{_mask_argument(mask)}, sem='relaxed')")

    def write(p: Printer, s: Store) -> None:
        number_here, value = p.affine(iteration, False), p.value(s.value)
        on_board, mask, spot_offset = p.pointer(spot)
        written_by = f"tl.load({on_board}{_mask_argument(mask)}{', other=-1' if mask is not None else ''})"
        dims, level = spot_offset.dims | number_here.dims | (mask.dims if mask is not None else frozenset()), p.level
        won = p.put(f"{written_by} == {number_here.text}", dims, level)
        inside = won if mask is None else p.put(f"{won.text} & {mask.text}", dims | mask.dims, level)
        offset = p.put(f"{spot_offset.text} + tl.where({inside.text}, 0, 0)", inside.dims | spot_offset.dims, level)
        value = p.put(f"tl.where({inside.text}, {value.text}, {value.text})", inside.dims | value.dims, level)
        p.write(f"{p.arguments.buffer(s.access.buffer)} + {offset.text}", value.text, s.access.buffer.dtype, inside)

    return [map_launch(axes, [store], step) for step in (clear, win, write)]


def _mask_argument(mask: object) -> str:
    return "" if mask is None else f", mask={mask.text}"  # type: ignore[attr-defined]


# ---- additions


def _print_atomic_add(p: Printer, s: Store) -> None:
    """Print an addition in any order."""
    value = p.value(s.value)
    # one addition for each lane, even if all lanes add the same value to one element
    where, mask = p.target(s, value, every=True)
    p.line(f"tl.atomic_add({where}, {value.text}{_mask_argument(mask)}, sem='relaxed')")


def _add_in_float32(axes: tuple[Axis, ...], store: Store, sums: Buffer) -> list[Launch]:
    """Return launches that copy a storage-only buffer to float32, add in any order, and copy it back."""
    buffer = store.access.buffer
    all_elements = (Axis(1 + max([a.id for a in axes], default=0), prod(buffer.shape)),)
    in_buffer, in_scratch = Access(buffer, (iteration_number(all_elements),)), Access(sums, (iteration_number(all_elements),))
    first = Store(in_scratch, Value("cast", (Value("load", (), buffer.dtype, in_buffer),), FLOAT32))
    addition = Store(replace(store.access, buffer=sums), Value("cast", (store.value,), FLOAT32), store.mode)
    last = Store(in_buffer, Value("cast", (Value("load", (), FLOAT32, in_scratch),), buffer.dtype))
    return [map_launch(all_elements, [first]), map_launch(axes, [addition], _print_atomic_add), map_launch(all_elements, [last])]


def _add_in_order(axes: tuple[Axis, ...], store: Store, shapes: Shapes) -> Launch:
    buffer = store.access.buffer
    disjoint = _disjoint_axes(axes, store, shapes[buffer.scope, buffer.id])
    columns = tuple([a for a in axes if a.id in disjoint])
    rows = tuple([a for a in axes if a.id not in disjoint])
    p = Printer(axes)
    width = min(power_of_two(size_of(columns)), TILE_ELEMENTS)
    programs = pieces(size_of(columns), width) if size_of(rows) else 0
    lay_axes(p, columns, p.put(f"{program(0, size_of(columns))} * {width}").text if programs > 1 else "0", width, 1)
    if not programs:
        return p.launch((0, 1))
    blocks = _block_count(store, rows, disjoint, size_of(columns), programs)
    size = prod(buffer.shape)
    if blocks > 1:
        block = p.put(program(1, size * (blocks + 1))).text
        ends = [p.put(f"{k} * {p.arguments.integer(size)} // {p.arguments.integer(blocks)}") for k in (block, f"({block} + 1)")]
    end = p.arguments.integer(size_of(rows))
    p.open()
    if blocks > 1:
        lay_axes(p, rows, p.put("first", (), p.level).text, ROWS, 0, p.level)
        flat, row = store.access.flat(), p.places.pop(0).text
        position = p.affine(replace(flat, terms=tuple([t for t in flat.terms if t[0] not in disjoint])), wide(size)).text
        owned = f"({position} >= {ends[0].text}) & ({position} < {ends[1].text})"
        owned += f" & {p.masks.pop(0).text}" if 0 in p.masks else ""
        owned = p.put(owned, (0,), p.level).text
        p.line(f"row = {_first_owned_row(owned, row, end)}")
        p.open()
    spread(p, rows, p.put("row + 0", (), p.level))
    p.forget()
    value = p.value(store.value)
    where, mask = p.target(store, value)
    old_value = p.put(f"tl.load({where}{_mask_argument(mask)})", (1,), p.level).text
    p.write(where, _sum(old_value, value.text, buffer.dtype), buffer.dtype, mask)
    p.line("tl.debug_barrier()")  # another thread may add the next row to the same element
    if blocks > 1:
        p.line(f"row = {_first_owned_row(f'{owned} & ({row} > row)', row, end)}")
        p.close(f"while row < {end}:")
        p.close(f"for first in range(0, {end}, {ROWS}):")
    else:
        p.close(f"for row in range(0, {end}):")
    return p.launch((programs, blocks))


def _first_owned_row(owned: str, row: str, end: str) -> str:
    """Return the first of the rows for which ``owned`` holds; ``end`` if there is none."""
    return f"tl.reduce(tl.reduce(tl.where({owned}, {row}, {end}), 0, join_min), 0, join_min)"


def _block_count(store: Store, rows: tuple[Axis, ...], disjoint: set[int], columns: int, programs: int) -> int:
    """Return the number of blocks of the buffer.

    A block has at least one row of the buffer. With more programs than processors, another block would only read all positions
    again.
    """
    cache: dict[int, frozenset] = {}
    if not MIN_ROWS <= size_of(rows) < LIMIT or any(dependencies(v, cache) & disjoint for v, _ in store.access.flat().gather):
        return 1
    return max(1, min(prod(store.access.buffer.shape) // max(columns, 1), pieces(2 * MIN_PROGRAMS, programs)))


def _sum(a: str, b: str, form: Format) -> str:
    return round_to_format(f"({convert_loaded(a, form)} + {b})", form) if form.narrow else f"{a} + {b}"


def _disjoint_axes(axes: tuple[Axis, ...], store: Store, shape: tuple[int, ...]) -> set[int]:
    """Return the axes along which no two iterations write the same element.

    Each of them alone steps through some dimensions of the buffer, in which every index is in range.
    """
    edges, step = [1], 1
    for extent in reversed(shape):
        step *= extent
        edges.append(step)
    flat = store.access.flat()
    extents = {a.id: a.extent for a in axes}
    disjoint = set()
    for axis, c in flat.terms:
        other_steps = [abs(x) for a, x in flat.terms if a != axis] + [abs(x) for _, x in flat.gather]
        reach = min([e for e in edges if e >= extents[axis] * c], default=0)
        if c in edges and reach and not any(c <= x < reach for x in other_steps):
            disjoint.add(axis)
    return disjoint
