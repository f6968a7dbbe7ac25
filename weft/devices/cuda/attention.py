"""Print chains of products: one launch whose programs loop over the columns, and one whose programs loop over the rows.

A program owns some rows, or columns, and holds one tile of the intermediate matrix at a time, which is never stored.

Tiles depend on extents and formats alone. Tiles that are masked completely are skipped. The CPU checks the skipped values and
returns NaN if one is infinite; the GPU does not.

float32, float16 and bfloat16 to a width of 128; else array code. Narrow formats above a width of 64 get 128 rows a program if
there are enough of them for a card, else tiles of 64. 128 columns, or 128 rows where numbers are drawn, spill on compute
capability 8.0. The weights of narrow formats are powers of two (``exp2``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.formats import memory
from weft.devices.cuda.row_reductions import reduce_columns
from weft.devices.cuda.tile_expressions import Expression, Printer
from weft.devices.cuda.tiles import MIN_PROGRAMS, lay_axes, pieces, power_of_two, program, spread
from weft.dtypes.formats import Format
from weft.kernel.expressions import axes_of, iterate_values
from weft.kernel.ir import Axis, Chain, Outer, Value, size_of

MIN_SIDE = 16  # least side of a tile, for tensor cores
NONE = 'float("-inf")'
# exp(x) is exp2(x * LOG2_E): one instruction, which is accurate enough for storage-only formats; exp takes eight
LOG2_E = 1.4426950408889634


def chain_launches(c: Chain) -> list[Launch]:
    """Return the launches of a chain."""
    out = []
    by_rows, by_columns = [o for o in c.outer if not o.sums_rows], [o for o in c.outer if o.sums_rows]
    if by_rows or c.stores:
        out.append(_Program(c, by_rows, by_columns=False).launch())
    if by_columns:
        out.append(_Program(c, by_columns, by_columns=True).launch())
    return out


@dataclass(frozen=True, slots=True)
class _Run:
    """A range of an axis along one dimension of a tile.

    start: its first position, an expression of the loop ``level``. width: number of positions.
    """

    axis: Axis
    start: str
    width: int
    level: int


class _Program:
    """The text of one launch.

    own: the axis whose positions are divided among programs, along dimension 0 of the intermediate matrix.
    other: the axis that a program loops over, along dimension 1. turns: loops outside of that.
    """

    def __init__(self, c: Chain, outer: Sequence[Outer], by_columns: bool) -> None:
        self.c, self.outer, self.by_columns = c, outer, by_columns
        self.divided_axis, self.other = (c.columns[-1], c.rows[-1]) if by_columns else (c.rows[-1], c.columns[-1])
        self.batch = c.batch if by_columns else (*c.batch, *c.rows[:-1])
        self.outer_loops = c.rows[:-1] if by_columns else ()
        self.form = _memory_format(c.inner[0].a)
        widest = max(size_of(axes) for axes in (*[i.k for i in c.inner], *[o.n for o in outer]))
        most = 64 if self.form.narrow and (widest <= 64 or len(outer) < 2) else 32  # limited by registers
        self.high, self.wide = (min(max(power_of_two(a.extent), MIN_SIDE), most) for a in (self.divided_axis, self.other))
        if self.form.narrow and widest > 64:  # an instruction of tensor cores of compute capability 9.0 has 64 rows
            self.wide = min(self.wide, 64 if c.softmax is not None else 32)
            self.high = min(max(power_of_two(self.divided_axis.extent), MIN_SIDE), 64)
            has_random = any(v.op.startswith("philox") for v in iterate_values([o.value for o in outer]))
            if not (by_columns or has_random) and pieces(self.divided_axis.extent, 128) * size_of(self.batch) >= MIN_PROGRAMS:
                self.high = 128  # loops over rows, two sums and random numbers would spill on cards of 8.0
        if not self.form.narrow and widest > 64 and by_columns:
            self.wide = min(self.wide, MIN_SIDE)  # more shared memory than cards of 8.6, 8.9 and 12.0 have
        small = widest <= 64 and len(outer) < 2 and (self.form.narrow or c.softmax is not None)
        self.warps = 4 if small else 8  # no spills with Triton 3.6 and 3.9
        self.p = Printer(axes_of(c))
        self.outer_places: dict[int, Expression] = {}

    # ---- tiles of operands

    def at(self, *runs: _Run) -> None:
        """Make values print on a tile: the first run along its dimension 0, the second along 1."""
        p = self.p
        p.axes, p.masks, p.places = dict(self.outer_places), {}, {}
        for dim, r in enumerate(runs):
            lay_axes(p, (r.axis,), r.start, r.width, dim, r.level)

    def tile(self, v: Value, *runs: _Run) -> str:
        """Return a value as an operand of a product, with zeros beyond the ends."""
        self.at(*runs)
        p = self.p
        e = p.value(v)
        level = max(e.level, *(r.level for r in runs))
        text = p.broadcast_tile(e, runs[0].width, runs[1].width, level)
        for dim in sorted(p.masks.keys() - e.dims):
            text = p.put(f"tl.where({p.masks[dim].text}, {text}, 0)", (0, 1), level).text
        return p.put(f"{text}.to({memory(self.form)})", (0, 1), level).text if self.form.narrow else text

    def whole_axis(self, axis: Axis) -> _Run:
        """Return all of the axis that an inner product sums over, or that an outer product adds."""
        return _Run(axis, "0", max(MIN_SIDE, power_of_two(axis.extent)), 0)

    def dot(self, x: str, y: str, total: str = "") -> str:
        return f'tl.dot({x}, {y}{f", {total}" if total else ""}, input_precision="ieee", out_dtype=tl.float32)'

    # ---- the text

    def launch(self) -> Launch:
        p, c = self.p, self.c
        tiles, batch = pieces(self.divided_axis.extent, self.high), size_of(self.batch)
        pid = p.put(program(0, self.divided_axis.extent * batch))
        if self.batch:
            spread(p, self.batch, p.put(f"{pid.text} // {p.arguments.integer(tiles)}"))
            pid = p.put(f"{pid.text} % {p.arguments.integer(tiles)}")
        self.outer_places = dict(p.axes)
        own = _Run(self.divided_axis, p.put(f"{pid.text} * {self.high}").text if tiles > 1 else "0", self.high, 0)
        fixed = [self.tile(i.b if self.by_columns else i.a, own, self.whole_axis(i.k[0])) for i in c.inner]
        if c.softmax is not None:
            p.line(f"top = tl.full([{self.high}, 1], {NONE}, tl.float32)")
            p.line(f"total = tl.full([{self.high}, 1], 0, tl.float32)")
        for o in self.outer:
            p.line(f"sum{o.id} = tl.full([{self.high}, {self.whole_axis(o.n[0]).width}], 0, tl.float32)")
        start, stop = self._tile_range(own)
        p.open()
        counter = p.fresh("i")
        turn = p.put(counter, (), p.level)
        last = stop
        if self.outer_loops:
            count = p.put(f"{stop} - {start}").text
            spread(p, self.outer_loops, p.put(f"{turn.text} // {count}", (), p.level))
            self.outer_places.update({a.id: p.axes[a.id] for a in self.outer_loops})
            turn = p.put(f"{turn.text} % {count} + {start}", (), p.level)
            start, last = "0", f"{count} * {p.arguments.integer(size_of(self.outer_loops))}"
        other = _Run(self.other, p.put(f"{turn.text} * {self.wide}", (), p.level).text, self.wide, p.level)
        self._print_tile(own, other, fixed)
        p.close(f"for {counter} in range({start}, {last}):")
        self.outer_places = {a.id: e for a in self.batch if (e := self.outer_places.get(a.id)) is not None}
        self._print_results(own)
        return p.launch((tiles * batch, 1), self.warps, 2)

    def _print_tile(self, own: _Run, other: _Run, fixed: list[str]) -> None:
        """Print one tile: inner products, softmax, outer products."""
        p, c = self.p, self.c
        for i, x in zip(c.inner, fixed, strict=True):
            y = self.tile(i.a if self.by_columns else i.b, self.whole_axis(i.k[0]), other)
            p.accs[i.id] = p.put(self.dot(x, y), (0, 1), p.level)
        self.at(own, other)
        mask = self._count_mask()
        if c.softmax is not None:
            self._softmax(mask)
        values = []
        for o in self.outer:
            e = p.value(o.value)
            text = p.broadcast_tile(e, self.high, self.wide, p.level)
            if mask is not None:
                text = p.put(f"tl.where({mask}, {text}, 0.0)", (0, 1), p.level).text
            values.append(p.put(f"{text}.to({memory(self.form)})", (0, 1), p.level).text if self.form.narrow else text)
        for o, x in zip(self.outer, values, strict=True):
            y = self.tile(o.b, other, self.whole_axis(o.n[0]))
            before = f"sum{o.id} * shrink" if c.softmax is not None else f"sum{o.id}"
            p.line(f"sum{o.id} = {self.dot(x, y, before)}")

    def _count_mask(self) -> str | None:
        """Return the mask of a tile: inside the other axis, and inside the chain's guards. None if all of it counts."""
        p = self.p
        conditions = [p.masks[1]] if 1 in p.masks else []
        conditions += [p.is_within(affine, low, high, False) for affine, low, high in self.c.guards]
        if not conditions:
            return None
        return p.put(" & ".join(f"({e.text})" for e in conditions), (0, 1), p.level).text

    def _softmax(self, counts: str | None) -> None:
        """Print the weights of a tile, and the update of the rows' maxima and totals."""
        p, s = self.p, self.c.softmax
        assert s is not None
        shape = f"[{self.high}, {self.wide}]"
        score = p.put(f"tl.broadcast_to({p.value(s.score).text}, {shape})", (0, 1), p.level).text
        if counts is not None:
            score = p.put(f"tl.where({counts}, {score}, {NONE})", (0, 1), p.level).text
        best = p.put(f"join_max(top, {reduce_columns('max', score)})", (0,), p.level).text
        finite_best = p.put(f"tl.where({best} == {NONE}, 0.0, {best})", (0,), p.level).text
        power = f"tl.exp2(({{}} - {finite_best}) * {LOG2_E})" if self.form.narrow else f"ld.exp({{}} - {finite_best})"
        weight = p.put(power.format(score), (0, 1), p.level)
        p.line(f"shrink = {power.format('top')}")
        p.line(f"total = total * shrink + {reduce_columns('sum', weight.text)}")
        p.line(f"top = {best}")
        p.accs[s.weight] = weight

    def _print_results(self, own: _Run) -> None:
        p, s = self.p, self.c.softmax
        if s is not None:
            p.accs[s.top] = p.put(f"tl.where(top == {NONE}, 0.0, top)", (0,))
            p.accs[s.total] = Expression("total", frozenset((0,)))
        for o in self.outer:
            self.at(own, self.whole_axis(o.n[0]))
            p.accs[o.id] = Expression(f"sum{o.id}", frozenset((0, 1)))
            for store in o.stores:
                p.store(store)
        if not self.by_columns:
            self.at(own)
            for store in self.c.stores:
                p.store(store)

    def _tile_range(self, own: _Run) -> tuple[str, str]:
        """Return the first tile of the other axis that is not masked, and the end of these tiles."""
        p, w = self.p, self.wide
        start, stop = "0", p.put(f"({p.arguments.integer(self.other.extent)} + {w - 1}) // {w}").text
        for affine, low, high in self.c.guards:
            terms = dict(affine.terms)
            step, own_step = terms.pop(self.other.id, 0), terms.pop(self.divided_axis.id, 0)
            if abs(step) != 1 or terms or affine.gather:
                continue
            reach = own_step * (own.width - 1)
            base = f"{own.start} * {own_step} + {affine.const}"
            least, most = f"({base} + {min(reach, 0)})", f"({base} + {max(reach, 0)})"
            low_text, high_text = p.arguments.integer(low), p.arguments.integer(high)
            if step < 0:  # low <= base - x < high
                begin, end = f"{least} - {high_text} + 1", f"{most} - {low_text} + 1"
            else:
                begin, end = f"{low_text} - {most}", f"{high_text} - {least}"
            start = p.put(f"tl.maximum({begin}, {start} * {w}) // {w}").text
            stop = p.put(f"tl.minimum((tl.maximum({end}, 0) + {w - 1}) // {w}, {stop})").text
        if start != "0":
            stop = p.put(f"tl.maximum({start}, {stop})").text
        return start, stop


def _memory_format(v: Value) -> Format:
    """Return the memory format of an operand."""
    return v.args[0].dtype if v.op == "cast" else v.dtype
