"""Print products and convolutions with one template.

Operands are printed as tiles of arbitrary values, and the epilogue on the tile of the result. So products, batches, convolutions
and their gradients share this text.

float32 is multiplied in IEEE precision unless the product permits a shorter one. Formats without tensor cores are multiplied and
added in small tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.formats import memory, round_to_format
from weft.devices.cuda.row_reductions import export
from weft.devices.cuda.tile_expressions import Expression, Printer
from weft.devices.cuda.tiles import contiguous_loads, fastest_last, lay_axes, pieces, power_of_two, program, spread
from weft.dtypes.formats import FLOAT16, FLOAT32, FLOATS, INT8, INT32, Format, holds
from weft.kernel.expressions import dependencies
from weft.kernel.ir import Axis, Reduction, Value, size_of
from weft.kernel.stages import Part

UNIT = 128  # of k, a multiple of every tile's k: k may be divided at multiples of it
GROUP = 8  # rows of tiles that run together, so that programs with common operands find them in the cache


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows, columns and k of a program's tile, warps (32 threads each), and pipeline stages."""

    m: int
    n: int
    k: int
    warps: int
    stages: int


@dataclass(frozen=True, slots=True)
class ProductOperands:
    """A product's axes and operands.

    m: axes of a alone. n: axes of b alone. batch: axes of both or neither. k: axes summed over.
    form: format of the multiplication. precision: see ``Contraction.precision``.
    """

    m: tuple[Axis, ...]
    n: tuple[Axis, ...]
    batch: tuple[Axis, ...]
    k: tuple[Axis, ...]
    a: Value
    b: Value
    form: Format
    precision: str


def match_operands(part: Part) -> ProductOperands | None:
    """Return the axes and operands of a part; None if it is not a product of matrices, or one with rounded sums."""
    first = part.stages[0]
    if len(first.reductions) != 1 or first.reductions[0].monoid != "dot" or first.stores or any(s.axes for s in part.stages[1:]):
        return None
    product = first.reductions[0].value
    if product.op != "mul" or part.is_ordered:
        return None
    cache: dict[int, frozenset] = {}
    a, b = product.args
    in_a, in_b = dependencies(a, cache), dependencies(b, cache)
    if any(isinstance(d, tuple) for d in in_a | in_b):  # an operand reads a sum of this part
        return None
    groups: dict[tuple[bool, bool], list[Axis]] = {}
    for axis in part.shared:
        groups.setdefault((axis.id in in_a, axis.id in in_b), []).append(axis)
    m, n = (tuple(groups.get(key, ())) for key in ((True, False), (False, True)))
    is_rounded = first.reductions[0].accumulator is not None
    if (size_of(m) == 1 or size_of(n) == 1 or size_of(first.axes) < 2) and not is_rounded:
        return None  # a product with a vector is a sum over rows
    batch = tuple([x for x in part.shared if x not in m and x not in n])
    accum = first.reductions[0].accum
    form = accum if accum in FLOATS else INT32  # tensor cores multiply integers in int8 only, and add in int32
    stored = {_stored_format(v) for v in (a, b)}
    if is_rounded:  # not in tiles of k, which is in order
        m, n = fastest_last(m, contiguous_loads(a)), fastest_last(n, contiguous_loads(b))
        return ProductOperands(m, n, batch, first.axes, a, b, form, "float32")
    if len(stored) == 1 and None not in stored:  # both are stored in one storage-only format, whose products are exact in float32
        (narrow,) = stored
        assert narrow is not None
        if narrow.custom or narrow.special == "scale":
            multiplied = FLOAT16 if holds(FLOAT16, narrow) else None
        else:
            multiplied = FLOAT16 if narrow.alone else narrow  # float16 represents 8-bit floats exactly
        if multiplied is not None:
            a, b, form = a.args[0], b.args[0], multiplied
    m, n = fastest_last(m, contiguous_loads(a)), fastest_last(n, contiguous_loads(b))
    k = fastest_last(first.axes, contiguous_loads(a, b))
    return ProductOperands(m, n, batch, k, a, b, form, first.reductions[0].precision if form is FLOAT32 else "float32")


def _stored_format(v: Value) -> Format | None:
    """Return the storage-only format behind a cast to float32, or int8 behind a cast to int32; else None."""
    inner = v.args[0].dtype if v.op == "cast" else None
    if inner is not None and (v.dtype is FLOAT32 and inner.narrow and inner in FLOATS or v.dtype is INT32 and inner is INT8):
        return inner
    return None


def tile_of(m: int, n: int, k: int, form: Format, precision: str = "float32") -> Tile:
    """Return the tile of a product. It depends on extents, format and precision alone, since it decides the order of sums."""
    if not on_tensor_cores(form):
        return Tile(16, 16, 16, 4, 2)
    bm, bn = (min(max(power_of_two(x), 16), 64) for x in (m, n))
    if form.narrow or form is INT8:
        if m >= 1024 and n >= 1024:
            return Tile(128, 128, 64, 8, 3)
        return Tile(bm, bn, min(max(power_of_two(k), 16 if form.narrow else 32), 64), 4, 3)
    if precision == "tf32" and m >= 1024 and n >= 1024:
        return Tile(128, 128, 32, 8, 3)
    return Tile(bm, bn, min(max(power_of_two(k), 16), 32), 4, 3)


def on_tensor_cores(form: Format) -> bool:
    """Return whether Triton's ``tl.dot`` supports the format."""
    return form is FLOAT32 or form is INT8 or form.narrow and form in FLOATS


def product_launch(part: Part, s: ProductOperands, tile: Tile | None = None) -> Launch:
    """Return the launch of a product, in ``tile`` if given instead of the one of :func:`tile_of`."""
    r = part.stages[0].reductions[0]
    tile = default_tile(s) if tile is None else tile
    p = Printer((*part.shared, *s.k))
    programs, _ = lay_result_tile(p, s, tile)
    follow(p, part, Expression(sum_of(p, s, r, tile), frozenset((0, 1))))
    return p.launch((programs, 1), tile.warps, tile.stages)


def rounded_launch(part: Part, s: ProductOperands) -> Launch:
    """Return the launch of a product whose sums are rounded on the way: k is a loop, in ascending order."""
    r = part.stages[0].reductions[0]
    assert r.accumulator is not None
    bm = min(power_of_two(size_of(s.m)), 32)
    tile = Tile(bm, min(power_of_two(size_of(s.n)), 1024 // bm), 1, 4, 2)
    p = Printer((*part.shared, *s.k))
    programs, _ = lay_result_tile(p, s, tile)
    form, every, length = *r.accumulator, p.arguments.integer(size_of(s.k))
    names = total, block = p.fresh("sum"), p.fresh("sum")
    for name in names[: 1 + (every > 1)]:
        p.line(f"{name} = tl.full([{tile.m}, {tile.n}], 0, tl.float32)")
    outer_axes = dict(p.axes)
    p.open()
    counter = p.fresh("i")
    k = p.put(counter, (), p.level)
    spread(p, s.k, k)
    x, y = (p.broadcast_tile(p.value(v), tile.m, tile.n, p.level) for v in (s.a, s.b))
    if every == 1:
        p.line(f"{total} = tl.fma({x}, {y}, {total})")
        p.line(f"{total} = {round_to_format(total, form)}")
    else:
        p.line(f"{block} = tl.fma({x}, {y}, {block})")
        ends = p.put(f"({k.text} % {every} == {every - 1}) | ({k.text} == {length} - 1)", (), p.level)
        added = p.put(f"{total} + {block}", (0, 1), p.level)
        p.line(f"{total} = tl.where({ends.text}, {round_to_format(added.text, form)}, {total})")
        p.line(f"{block} = tl.where({ends.text}, 0.0, {block})")
    p.close(f"for {counter} in range(0, {length}):")
    p.axes = outer_axes
    p.forget()
    follow(p, part, Expression(total, frozenset((0, 1))))
    return p.launch((programs, 1), tile.warps, tile.stages)


def follow(p: Printer, part: Part, total: Expression) -> None:
    """Print the epilogue on a product's sums."""
    r = part.stages[0].reductions[0]
    done = p.finish(total.text, r.dtype, r.accum)
    p.accs[r.id] = total if done == total.text else p.put(done, total.dims)
    for stage in part.stages[1:]:
        for store in stage.stores:
            p.store(store)
    export(p, part)


def default_tile(s: ProductOperands) -> Tile:
    """Return the default tile of a product."""
    return tile_of(size_of(s.m), size_of(s.n), size_of(s.k), s.form, s.precision)


def tile_count(s: ProductOperands, tile: Tile) -> int:
    """Return the number of tiles of the result."""
    return pieces(size_of(s.m), tile.m) * pieces(size_of(s.n), tile.n) * size_of(s.batch)


def lay_result_tile(p: Printer, s: ProductOperands, tile: Tile) -> tuple[int, str | None]:
    """Lay a program's tile of the result; return the number of programs, and the batch number if there is a batch."""
    m, n, number = size_of(s.m), size_of(s.n), None
    pid = p.put(program(0, m * n * size_of(s.batch)))
    if s.batch:  # along dimension 0, the only one of a grid that is long enough
        tiles = p.arguments.integer(pieces(m, tile.m) * pieces(n, tile.n))
        batch = p.put(f"{pid.text} // {tiles}")
        spread(p, s.batch, batch)
        number, pid = batch.text, p.put(f"{pid.text} % {tiles}")
    _lay_result_tile(p, s, tile, m, n, pid.text)
    return tile_count(s, tile), number


def _lay_result_tile(p: Printer, s: ProductOperands, tile: Tile, m: int, n: int, pid: str) -> None:
    """Lay the rows and columns of a program's tile, with GROUP rows of tiles at a time."""
    down, across = pieces(m, tile.m), pieces(n, tile.n)
    columns = p.put(f"({p.arguments.integer(n)} + {tile.n - 1}) // {tile.n}").text
    if down > GROUP and across > 1:
        rows = p.put(f"({p.arguments.integer(m)} + {tile.m - 1}) // {tile.m}").text
        group = p.put(f"{pid} // ({GROUP} * {columns})").text
        high = p.put(f"tl.minimum({rows} - {group} * {GROUP}, {GROUP})").text
        inside = p.put(f"{pid} % ({GROUP} * {columns})").text
        row, column = f"({group} * {GROUP} + {inside} % {high})", f"({inside} // {high})"
    else:
        row, column = f"({pid} // {columns})", f"({pid} % {columns})"
    lay_axes(p, s.m, p.put(f"{row} * {tile.m}").text if down > 1 else "0", tile.m, 0)
    lay_axes(p, s.n, p.put(f"{column} * {tile.n}").text if across > 1 else "0", tile.n, 1)


def inner_k_axes(s: ProductOperands, each: int) -> tuple[Axis, ...]:
    """Return the axes of k along which a tile goes; the others are looped outside. This decides the order of the sum."""
    longest = max(s.k, key=lambda x: x.extent)
    if s.k[-1].extent >= each // 2 and s.k[-1].id in contiguous_loads(s.a, s.b):
        longest = s.k[-1]
    return (longest,) if longest.extent >= each // 2 else s.k


def unit_count(s: ProductOperands, tile: Tile) -> int:
    """Return the number of units of k: along the axes inside a tile, for each iteration of those outside.

    It is the same for all tiles with the same axes inside.
    """
    inside = size_of(inner_k_axes(s, tile.k))
    return pieces(inside, UNIT) * (size_of(s.k) // max(inside, 1))


def sum_of(p: Printer, s: ProductOperands, r: Reduction, tile: Tile, between: tuple[str, str] | None = None) -> str:
    """Print the loop over k and return the name of the sums. between: (first, end) of the units of k, if not all."""
    total = p.fresh("sum")
    p.line(f"{total} = tl.full([{tile.m}, {tile.n}], 0, tl.{r.accum.name})")
    inside = inner_k_axes(s, tile.k)
    outside = tuple([x for x in s.k if x not in inside])
    length, turns = size_of(inside), size_of(outside)
    out_masks, out_places, out_axes = dict(p.masks), dict(p.places), dict(p.axes)
    steps = p.put(f"({p.arguments.integer(length)} + {tile.k - 1}) // {tile.k}").text
    low, high = "0", f"{steps}{f' * {p.arguments.integer(turns)}' if outside else ''}"
    if between is not None:
        each = p.arguments.integer(pieces(length, UNIT))
        low, high = (p.put(f"({u} // {each}) * {steps} + ({u} % {each}) * {UNIT // tile.k}").text for u in between)
    p.open()
    counter = p.fresh("i")
    turn = p.put(counter, (), p.level)
    if outside:
        spread(p, outside, p.put(f"{turn.text} // {steps}", (), p.level))
        turn = p.put(f"{turn.text} % {steps}", (), p.level)
    first = p.put(f"{turn.text} * {tile.k}", (), p.level).text
    x = _operand(p, s.a, s, inside, first, tile, 0, (out_masks, out_places, out_axes))
    y = _operand(p, s.b, s, inside, first, tile, 1, (out_masks, out_places, out_axes))
    if on_tensor_cores(s.form):
        how = "ieee" if s.precision == "float32" else s.precision
        p.line(f'{total} = tl.dot({x}, {y}, {total}, input_precision="{how}", out_dtype=tl.{r.accum.name})')
    else:
        p.line(f"{total} = {total} + tl.reduce({x}[:, :, None] * {y}[None, :, :], 1, join_sum)")
    p.close(f"for {counter} in range({low}, {high}):")
    p.masks, p.places, p.axes = out_masks, out_places, out_axes
    p.forget()
    # Without this line ptxas waits for each wgmma if more than a bias follows a product (its warning C7514). Convolutions do not
    # need it, and spill with it on compute capability 10.0.
    if s.form.narrow and not outside:
        p.line(f"{total} = {total} + 0.0")
    return total


def _operand(
    p: Printer, v: Value, s: ProductOperands, inside: tuple[Axis, ...], first: str, tile: Tile, side: int,
    outer: tuple[dict[int, Expression], dict[int, Expression], dict[int, Expression]],
) -> str:
    """Return one operand as a tile: a has k along its columns, b along its rows. Beyond the end of k there are zeros."""
    masks, places, axes = outer
    k_dim, free_dim = 1 - side, side
    p.axes.update(axes)
    p.masks, p.places = {free_dim: masks[free_dim]} if free_dim in masks else {}, {free_dim: places[free_dim]}
    lay_axes(p, inside, first, tile.k, k_dim, p.level)
    e = p.value(v)
    level = p.level
    text = p.broadcast_tile(e, *((tile.m, tile.k) if side == 0 else (tile.k, tile.n)), level)
    source = v.args[0] if v.op == "cast" else v
    zeros = source.op == "load" and (not source.attr.guard or source.attr.fill == 0) and k_dim in e.dims
    if k_dim in p.masks and not zeros:
        text = p.put(f"tl.where({p.masks[k_dim].text}, {text}, 0)", (0, 1), level).text
    if s.form.narrow:
        text = p.put(f"{text}.to({memory(s.form)})", (0, 1), level).text
    return text


