"""Print parts with reductions: each program owns some rows (the shared axes) and runs the stages over their columns in order.

A short row stays in registers; a longer one is a loop over tiles with one accumulator for each element of a tile. If memory is
contiguous along the rows, tiles are high and narrow. Tiles depend on extents and strides alone. Parts without reductions are one
loop over all elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.formats import literal
from weft.devices.cuda.tile_expressions import Expression, Printer
from weft.devices.cuda.tiles import TILE_ELEMENTS, lay_axes, lay_tile, pieces, power_of_two, program, unit_strides
from weft.dtypes.formats import BOOL, FLOATS, INT32, Format
from weft.kernel.ir import Access, Axis, Reduction, Stage, Store, Value, size_of
from weft.kernel.stages import Part

MAX_REGISTER_ROW = 8192  # longest row that stays in registers
HIGH, DEEP = 32, 64  # rows and columns of a tile if memory is contiguous along the rows
NO_POSITION = 2**31 - 1  # greater than any position


def row_launch(part: Part) -> Launch:
    """Return the launch of a part with reductions."""
    p = Printer((*part.shared, *[a for s in part.stages for a in s.axes]))
    rows, tiles = plan(part.shared, part.stages)
    programs = begin(p, part.shared, rows)
    written: set[tuple[str, int]] = set()
    for k, stage in enumerate(part.stages):
        if k and written | {(s.access.buffer.scope, s.access.buffer.id) for s in stage.stores}:
            p.line("tl.debug_barrier()")  # other threads' accesses complete before later ones
        run_stage(p, stage, rows, tiles[k])
        written |= {(s.access.buffer.scope, s.access.buffer.id) for s in stage.stores}
    export(p, part)
    return p.launch((programs, 1), warps(rows, tiles))


def warps(rows: int, tiles: Sequence[int]) -> int:
    """Return the number of warps of a program."""
    return 4 if rows * max(tiles) <= 4096 else 8


def plan(shared: Sequence[Axis], stages: Sequence[Stage]) -> tuple[int, list[int]]:
    """Return the rows of a tile, and its columns for each stage."""
    n, lengths = size_of(tuple(shared)), [size_of(s.axes) for s in stages]
    if memory_along_rows(shared, stages):
        rows = min(HIGH, power_of_two(n))
        tiles = [min(power_of_two(length), DEEP) for length in lengths]
    else:
        tiles = [power_of_two(length) if length <= MAX_REGISTER_ROW else TILE_ELEMENTS for length in lengths]
        rows = max(1, min(TILE_ELEMENTS // max(tiles), power_of_two(n)))
    return rows, [1 if keeps_order(stage) else c for stage, c in zip(stages, tiles, strict=True)]


def memory_along_rows(shared: Sequence[Axis], stages: Sequence[Stage]) -> bool:
    """Return whether neighbours in memory are neighbouring rows, not elements of a row."""
    units = unit_strides(stages)
    return any(a.id in units for a in shared[-1:]) and not any(a.id in units for s in stages for a in s.axes[-1:])


def keeps_order(stage: Stage) -> bool:
    """Return whether elements must be reduced in order, as float products must: one lane could reach 0 and another infinity."""
    return any(r.monoid == "prod" and r.accum in FLOATS for r in stage.reductions)


def begin(p: Printer, shared: Sequence[Axis], rows: int) -> int:
    """Lay the rows of a program along dimension 0; return the number of programs."""
    programs = pieces(size_of(tuple(shared)), rows)
    lay_axes(p, shared, p.put(f"{program(0, size_of(tuple(shared)))} * {rows}").text if programs > 1 else "0", rows, 0)
    return programs


def run_stage(
    p: Printer, stage: Stage, rows: int, width: int, between: tuple[str, str] | None = None,
    before: Mapping[int, Expression] = MappingProxyType({}),
) -> None:
    """Print one stage on the rows of a program.

    between: (first, end) of the columns, if not all. before: reduction -> its running fold over the columns before.
    """
    if not stage.axes:
        p.masks.pop(1, None)
        p.places.pop(1, None)
        p.forget()
        for r in stage.reductions:  # each reduces one element
            _reduce_one(p, r, rows)
        for s in stage.stores:
            p.store(s)
        return
    n = size_of(stage.axes)
    if not n:
        for r in stage.reductions:  # each reduces nothing
            start = p.put(f"tl.full([{rows}, 1], {identity(r)}, tl.{accumulator_format(r).name})", (0,))
            p.accs[r.id] = _read_as(p, r, start)
        return
    if n > NO_POSITION and any(map(positional, stage.reductions)):
        raise NotImplementedError(f"argmax and argmin along {n:,} elements: positions are counted in 32 bits on this device")
    looped = n > width or between is not None
    shape = f"[{rows}, {width}]"
    if looped:
        for r in stage.reductions:
            _print_start(p, r, rows, shape, before.get(r.id))
        p.open()
        counter = p.fresh("i")
        first = p.put(counter, (), p.level)
        lay_axes(p, stage.axes, first.text, width, 1, p.level, between[1] if between else None)
    else:
        lay_axes(p, stage.axes, "0", width, 1)
    for r in stage.reductions:
        if r.running:
            _print_running(p, r, shape, looped)
        else:
            _print_step(p, r, shape, looped)
    for s in stage.stores:
        p.store(s)
    if looped:
        low, high = between or ("0", p.arguments.integer(n))
        p.close(f"for {counter} in range({low}, {high}, {width}):")
    p.masks.pop(1, None)
    p.places.pop(1, None)
    for r in stage.reductions:
        if not r.running:
            _print_end(p, r, between is not None)
    p.forget()


# ---- reductions


def positional(r: Reduction) -> bool:
    return r.monoid.startswith("arg")


def accumulator_format(r: Reduction) -> Format:
    """Return the format of a reduction's accumulators: bools are integers."""
    form = r.value.dtype if positional(r) else r.accum
    return INT32 if form is BOOL else form.computed


def identity(r: Reduction) -> str:
    """Return the identity of a reduction."""
    if r.running and r.monoid == "sum" and accumulator_format(r) in FLOATS:
        return "-0.0"  # 0 + -0 is 0
    if r.monoid in ("sum", "dot", "prod"):
        return "1" if r.monoid == "prod" else "0"
    form = r.value.dtype if positional(r) else r.accum
    return literal(form.least if "max" in r.monoid else form.greatest, INT32 if form is BOOL else form.computed)


def _join(r: Reduction, a: str, b: str) -> str:
    """Return the expression that joins two accumulators."""
    if r.monoid in ("sum", "dot"):
        return f"{a} + {b}"
    if r.monoid == "prod":
        return f"{a} * {b}"
    return f"join_{r.monoid}({a}, {b})" if accumulator_format(r) in FLOATS else f"tl.{r.monoid}imum({a}, {b})"


def reduce_columns(monoid: str, name: str) -> str:
    """Return the reduction of a tile along its columns."""
    return f"tl.reduce({name}, 1, join_{'sum' if monoid == 'dot' else monoid}, keep_dims=True)"


def _print_start(p: Printer, r: Reduction, rows: int, shape: str, before: Expression | None) -> None:
    """Print the initial accumulators of a loop."""
    kind = f"tl.{accumulator_format(r).name}"
    if r.running:
        p.line(f"run{r.id} = " + (before.text if before else f"tl.full([{rows}, 1], {identity(r)}, {kind})"))
        return
    p.line(f"a{r.id} = tl.full({shape}, {identity(r)}, {kind})")
    if positional(r):
        p.line(f"i{r.id} = tl.full({shape}, {NO_POSITION}, tl.int32)")


def _tile(p: Printer, r: Reduction, shape: str) -> Expression:
    """Return the reduced value as a whole tile, with the identity beyond the end."""
    v = p.value(r.value)
    level = max(v.level, p.level)
    text = f"{v.text}.to(tl.int32)" if r.value.dtype is BOOL else v.text
    whole = p.put(f"tl.broadcast_to({text}, {shape})", (0, 1), level)
    if 1 not in p.masks:
        return whole
    return p.put(f"tl.where({p.masks[1].text}, {whole.text}, {identity(r)})", (0, 1), level)


def _print_running(p: Printer, r: Reduction, shape: str, looped: bool) -> None:
    """Print one tile of a running fold."""
    x = _tile(p, r, shape)
    total = p.put(f"tl.associative_scan({x.text}, 1, join_{r.monoid})", (0, 1), p.level)
    if looped:
        total = p.put(_join(r, f"run{r.id}", total.text), (0, 1), p.level)
        p.line(f"run{r.id} = {_join(r, f'run{r.id}', reduce_columns(r.monoid, x.text))}")
    text = f"({total.text} != 0)" if r.dtype is BOOL else p.finish(total.text, r.dtype, accumulator_format(r))
    p.accs[r.id] = p.put(text, (0, 1), p.level)


def _print_step(p: Printer, r: Reduction, shape: str, looped: bool) -> None:
    """Print the accumulation of one tile."""
    x, a, i = _tile(p, r, shape).text, f"a{r.id}", f"i{r.id}"
    if not positional(r):
        p.line(f"{a} = {_join(r, a, x) if looped else x}")
        return
    place = f"tl.broadcast_to({p.places[1].text}, {shape})"
    masked_place = f"tl.where({p.masks[1].text}, {place}, {NO_POSITION})" if 1 in p.masks else place
    if not looped:
        p.line(f"{a} = {x}")
        p.line(f"{i} = {masked_place}")
        return
    better = f"({x} {'>' if r.monoid == 'argmax' else '<'} {a}) | ({i} == {NO_POSITION})"
    if accumulator_format(r) in FLOATS:  # the first NaN wins
        better += f" | (({x} != {x}) & ({a} == {a}))"
    wins = p.put(better if 1 not in p.masks else f"{p.masks[1].text} & ({better})", (0, 1), p.level).text
    # ``wins`` is assigned before the accumulators that it depends on change
    p.line(f"{i} = tl.where({wins}, {place}, {i})")
    p.line(f"{a} = tl.where({wins}, {x}, {a})")


def _print_end(p: Printer, r: Reduction, is_partial: bool) -> None:
    """Print the result of each row; of a part of the columns, in the accumulator's format."""
    if positional(r):
        most = best(p, r).text
        hit = f"(a{r.id} == {most})"
        if accumulator_format(r) in FLOATS:
            hit += f" | ((a{r.id} != a{r.id}) & ({most} != {most}))"
        first = p.put(reduce_columns("min", f"tl.where({hit}, i{r.id}, {NO_POSITION})"), (0,), p.level).text
        p.accs[r.id] = p.put(f"{first}.to(tl.int64)", (0,), p.level)
        return
    done = p.put(reduce_columns(r.monoid, f"a{r.id}"), (0,), p.level)
    p.accs[r.id] = done if is_partial else _read_as(p, r, done)


def best(p: Printer, r: Reduction) -> Expression:
    """Return the extreme value of each row in an argmax or argmin."""
    return p.put(reduce_columns(r.monoid[3:], f"a{r.id}"), (0,), p.level)


def _read_as(p: Printer, r: Reduction, done: Expression) -> Expression:
    """Return a result in the reduction's result format."""
    text = f"({done.text} != 0)" if r.dtype is BOOL else p.finish(done.text, r.dtype, accumulator_format(r))
    return p.put(text, (0,), p.level) if text != done.text else done


def _reduce_one(p: Printer, r: Reduction, rows: int) -> None:
    """Print a reduction over axes that were dropped: of one element."""
    v = p.value(r.value)
    if positional(r):
        p.accs[r.id] = p.put(f"tl.full([{rows}, 1], 0, tl.int64)", (0,), p.level)
    else:
        text = v.text if r.dtype is BOOL else p.finish(v.text, r.dtype, accumulator_format(r))
        p.accs[r.id] = p.put(text, v.dims, v.level) if text != v.text else v


def export(p: Printer, part: Part) -> None:
    """Store the accumulators that other parts read in scratch."""
    for number, (buffer, place) in part.exports.items():
        value = Value("acc", (), buffer.dtype, number)
        p.store(Store(Access(buffer, (place,)), value))



SQUARE = 32  # side of a tile that reads along one axis and writes along another
MIN_EXTENT = 16  # least extent of both axes for such a tile
NARROW = 32  # axes shorter than this are merged with the others into columns


def map_launch(axes: Sequence[Axis], stores: Sequence[Store], write: Callable[[Printer, Store], None] = Printer.store) -> Launch:
    """Return a launch of stores for every iteration of some axes; ``write`` prints one store."""
    p = Printer(tuple(axes))
    rows, columns, r, c = choose_map_tile(axes, stores)
    programs = lay_tile(p, rows, columns, r, c)
    for s in stores:
        write(p, s)
    return p.launch((programs, 1))


def choose_map_tile(axes: Sequence[Axis], stores: Sequence[Store]) -> tuple[list[Axis], list[Axis], int, int]:
    """Return (axes of rows, axes of columns, rows and columns of a tile)."""
    if not axes:
        return [], [], 1, 1
    units = unit_strides([Stage((), (), tuple(stores))])
    fast = max(axes, key=lambda a: (units.get(a.id, 0), a is axes[-1]))
    slow = [a for a in axes if a is not fast]
    transposed = [a for a in slow if a.id in units and a.extent >= MIN_EXTENT]  # contiguous in another access
    if transposed and fast.extent >= MIN_EXTENT:
        rows = [a for a in slow if a is not transposed[0]] + transposed[:1]
        return rows, [fast], min(SQUARE, power_of_two(size_of(tuple(rows)))), min(SQUARE, power_of_two(fast.extent))
    if fast.extent < NARROW:
        rows, columns = [], list(axes)
    else:
        rows, columns = slow, [fast]
    c = min(power_of_two(size_of(tuple(columns))), TILE_ELEMENTS)
    return rows, columns, max(1, min(TILE_ELEMENTS // c, power_of_two(size_of(tuple(rows))))), c
