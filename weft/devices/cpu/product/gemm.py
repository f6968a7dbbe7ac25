"""Matrix products: a Kernel that is one plain product, as LLVM text.

One driver serves small and large products: loops over work units, K blocks, column panels and row panels around one
microkernel. Operands that fit in the cache are read in place, others from packed copies. Each element is summed in the order of
the contraction (fma chains over blocks of ascending k, joined pairwise) on every path, so results depend neither on the plan nor
on threads. Products summed in lanes, those with a vector, have a driver of their own (gemv). Products of 8-bit integers, summed
in int32, and of bfloat16 take the same path: their k counts units of several numbers (dot).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from weft.devices.cpu.emit import pairwise, reduce
from weft.devices.cpu.emit.chunks import divide, divide_all, share
from weft.devices.cpu.emit.isa import ISA, LINE, round_to_line
from weft.devices.cpu.emit.load import load_first_lanes
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.text import Function, Generated, Module
from weft.devices.cpu.emit.types import llvm_type, splat_text
from weft.devices.cpu.product.dot import Dot, in_pairs, in_units
from weft.devices.cpu.product.epilogue import Epilogue
from weft.devices.cpu.product.gemv import generate_gemv, generate_integer_gemv
from weft.devices.cpu.product.microkernel import MicrokernelSpec, Tile, emit_microkernel
from weft.devices.cpu.product.nibbles import generate_packed_product
from weft.devices.cpu.product.pack import Packer, operand_pointer
from weft.devices.cpu.product.tiling import ProductPlan, make_plan, should_swap
from weft.dtypes.formats import BFLOAT16, INT32
from weft.dtypes.rounding import Accumulator
from weft.kernel.ir import Kernel
from weft.kernel.product import Operand, Product, match_product

RESULTS_AHEAD = 768  # bytes of a row ahead of their use that results stored row by row are prefetched
MAX_ROUNDED_BLOCK = 4096  # steps of k, all of which are one piece


def generate_gemm(kernel: Kernel, isa: ISA, plan: Callable[[Product, ISA], ProductPlan] = make_plan) -> Generated | None:
    """Return LLVM text for a kernel whose only stage is a plain product of floats or of 8-bit integers, else None.

    Parameters
    ----------
    kernel : Kernel
        One phase with one Contraction. float32 or float64 accumulators; narrower operands are converted while they are
        packed. int32 accumulators of 8-bit integers. Any strides; k must be evenly spaced in both operands.
    isa : ISA
    plan : function, optional
        Replaces the choice of tile and blocks (tests, measurements).
    """
    product = match_product(kernel)
    if product is None:
        return None
    integers = product.accum is INT32
    if product.a.nibbles or product.b.nibbles:
        return generate_packed_product(kernel, product, isa)
    if integers:
        vector = generate_integer_gemv(kernel, product, isa)
        if vector is not None:
            return vector
    elif product.order.lanes > 1:
        return generate_gemv(kernel, product, isa)
    if not _has_whole_blocks(product):
        return None
    if product.accumulator is not None and product.accumulator.form is BFLOAT16:  # its rounding then is two instructions shorter
        a, b = (replace(side, canonical=side.buffer.dtype is not BFLOAT16) for side in (product.a, product.b))
        product = replace(product, a=a, b=b)
    if should_swap(product, isa.lanes(product.accum.bytes)):
        product = product.transpose()
    product, dot = in_units(product, isa) if integers else in_pairs(product, isa)
    return _Driver(kernel, product, isa, plan(product, isa), dot).generate()


def _has_whole_blocks(p: Product) -> bool:
    """Return whether pieces of k can be whole blocks, if blocks are rounded."""
    if p.accumulator is None or p.accumulator.every == 1 or p.order.block >= p.k * p.k_iterations:
        return True
    return p.order.block <= MAX_ROUNDED_BLOCK and (p.k_iterations == 1 or p.k % p.order.block == 0)


class _Driver:
    def __init__(self, kernel: Kernel, product: Product, isa: ISA, plan: ProductPlan, dot: Dot | None = None) -> None:
        self.kernel, self.p, self.isa, self.plan, self.dot = kernel, product, isa, plan, dot
        self.module = Module()
        self.symbol = kernel.name
        self.size = product.accum.bytes
        self.scalar = llvm_type(product.accum)
        self.flip = dot is not None and dot.flip
        self._round_sum = None
        if product.accumulator is not None:
            self._round_sum = partial(_round_sum, self.module, isa, plan.lanes, product.accumulator)
        self.extra = ", ptr %args" + "".join(f", i64 %o{n}" for n in range(len(product.outer)))
        # the narrow last column panel, and the packed copies in a worker's scratch
        rest = product.columns % plan.nr
        self.last_columns = rest
        self.last_vectors = -(-rest // plan.lanes)
        unit_panels = -(-plan.panels // plan.m_units)
        self.unit_panels, self.unit_columns = unit_panels, -(-plan.columns // plan.n_units)
        self.k_room = (plan.kc + 15) // 16 * 16
        self.a_along_k = product.a.k == 1 or product.a.free != 1
        # an odd number of cache lines between packed rows: rows of a tile use different cache sets
        self.a_stride = self.k_room + (16 if (self.k_room * self.size // LINE) % 2 == 0 else 0) * 4 // self.size
        a_elements = unit_panels * plan.rows * (self.a_stride if self.a_along_k else self.k_room)
        self.a_bytes = round_to_line(a_elements * self.size) if plan.pack_a else 0
        self.b_bytes = round_to_line(self.k_room * plan.nr * self.size) if plan.pack_b else 0
        self.tile_bytes = plan.rows * plan.nr * self.size
        # the piece of k that one call does, if not all of k, and the sums of blocks stored between pieces
        block = product.order.block
        self.steps = product.k * product.k_iterations
        self.pieces = plan.kc < self.steps
        self.partial = self.pieces and (plan.kc < block or (product.k_iterations > 1 and product.k % block > 0))
        self.piece = min(plan.kc, block) if self.pieces else 0
        while self.pieces and 2 * self.piece <= plan.kc and (product.k_iterations == 1 or product.k % (2 * self.piece) == 0):
            self.piece *= 2
        self.level_bytes = unit_panels * self.unit_columns * self.tile_bytes
        counted = -(-self.steps // max(block, self.piece))
        t_bytes = self.level_bytes * pairwise.depth(counted, self.partial) if self.pieces else 0
        self.sums_at = self.a_bytes + self.b_bytes + t_bytes
        self.sums_bytes = round_to_line(plan.rows * self.size)  # of one panel
        self.scratch = self.sums_at + (unit_panels * self.sums_bytes if self.flip else 0)

    def generate(self) -> Generated:
        plan = self.plan
        marks = {
            "product packs a": plan.pack_a, "product packs b": plan.pack_b, "product copies b": plan.copy_b,
            "product turns b": plan.turn_b, "product in pieces": self.pieces,
            "product in place": not (plan.pack_a or plan.pack_b), "product batch": self.p.batch > 1,
            "product last columns": self.last_columns > 0, "product units": plan.m_units * plan.n_units > 1,
            "product rounds sums": self.p.accumulator is not None,
            "product of integers": self.p.accum is INT32,
            "product of pairs": self.dot is not None and self.p.accum is not INT32, "product corrected by sums": self.flip,
        }
        for path in ("product", *(path for path, holds in marks.items() if holds)):
            self.module.took(path)
        epilogue = Epilogue(self.module, self.kernel, self.p, self.isa, self.symbol)
        for wide in (True, False):
            if self._variants(wide):
                self._emit_microkernel(wide, epilogue)
        self._emit_packs()
        self._emit_unit()
        units = self.plan.m_units * self.plan.n_units * self.p.batch
        self.module.vectors = True
        return epilogue.run_units(units, max(self.plan.chunks, 1), self.scratch)

    # ---- pieces

    def _exists(self, tall: bool, wide: bool, copy: bool = False) -> bool:
        plan = self.plan
        firsts = [u * plan.panels // plan.m_units for u in range(plan.m_units)]
        heads = any((x < plan.tall) == tall for x in firsts)
        if copy and not (plan.copy_b and heads) or plan.copy_b and not copy and plan.panels == plan.m_units:
            return False
        rows = plan.tall > 0 if tall else plan.tall < plan.panels
        return rows and (self.p.columns >= plan.nr if wide else self.last_columns > 0)

    def _name(self, part: str) -> str:
        return f"{self.symbol}.{part}"

    def _variants(self, wide: bool) -> list[tuple[bool, bool]]:
        """Return (tall, copy) of each variant of a microkernel, tall ones first."""
        return [(tall, copy) for tall in (True, False) for copy in (False, True) if self._exists(tall, wide, copy)]

    def _kernel_name(self, wide: bool) -> str:
        return self._name(f"tile{self.plan.vectors}" if wide else f"tile{self.last_vectors}.last")

    def _emit_microkernel(self, wide: bool, epilogue: Epilogue) -> None:
        plan = self.plan
        tail = 0 if wide else self.last_columns % plan.lanes
        variants = self._variants(wide)
        specs = [self._spec(tall, wide, copy) for tall, copy in variants]
        talls = sum(tall for tall, _ in variants)

        def finish(f: Function, tile: Tile) -> None:
            is_tall = f.let(f"icmp slt i64 %variant, {talls}", "c") if 0 < talls < len(variants) else ""
            epilogue.emit(f, self._correct(f, tile) if self.flip else tile, tail, is_tall)

        def begin(f: Function) -> None:
            # a tile takes so little time that its stores would wait for memory
            if plan.by_rows:
                epilogue.prefetch(f, specs[0].rows, specs[0].vectors, ahead=RESULTS_AHEAD)
            elif self.dot and self.steps >= 32:
                epilogue.prefetch(f, specs[0].rows, specs[0].vectors)

        emit_microkernel(self.module, specs, self.extra, finish, begin)

    def _spec(self, tall: bool, wide: bool, copy: bool) -> MicrokernelSpec:
        plan, p = self.plan, self.p
        vectors = plan.vectors if wide else self.last_vectors
        tail = 0 if wide else self.last_columns % plan.lanes
        packed = plan.pack_b and not copy
        a_row, a_k = p.a.free, p.a.k
        if plan.pack_a:
            a_row, a_k = (self.a_stride, 1) if self.a_along_k else (1, plan.rows)
        return MicrokernelSpec(
            self._kernel_name(wide), plan.rows - (not tall), vectors, plan.lanes, self.scalar, a_row, a_k,
            vectors * plan.lanes if packed else p.b.k, self.steps, p.order.block, self.piece, self.partial,
            self.level_bytes, 0 if packed else tail, plan.lanes * self.size if packed else self.size,
            self.isa.fma, copy, p.b.free if plan.turn_b else 0, self.dot, self.flip and (copy or not packed),
            math.gcd(p.k, p.order.block, self.piece), self._round_sum, p.accumulator is not None and p.accumulator.every == 1,
            plan.rows * p.a.free * self.size if plan.prefetch_a else 0, plan.nr * self.size if plan.prefetch_b else 0,
        )

    def _correct(self, f: Function, tile: Tile) -> Tile:
        """Add the terms in %P to the rows of a tile."""
        lanes = self.plan.lanes
        out = []
        for r, row in enumerate(tile):
            term = f.splat("i32", f.load("i32", f.offset("%P", r * self.size), self.size), lanes)
            out.append([f.let(f"add <{lanes} x i32> {x}, {term}") for x in row])
        return out

    def _packer(self, operand: Operand, flip: bool = False) -> Packer:
        dtype, p = operand.buffer.dtype, self.p
        # units of integers that are read in place are numbers of the accumulator's type
        per, rest = (1, 0) if self.dot is None or dtype is p.accum is INT32 else (self.dot.per, self.dot.rest)
        return Packer(
            self.module, dtype, p.accum, self.plan.lanes, per, rest, flip, self.isa, operand.rounded, operand.canonical,
        )

    def _emit_packs(self) -> None:
        plan, p = self.plan, self.p
        if plan.pack_a:
            pack = self._packer(p.a)
            if self.a_along_k:
                pack.rows(self._name("rows"), p.a.free, p.a.k, self.a_stride, plan.rows)
            else:
                pack.columns(self._name("rows.tall"), plan.rows, p.a.free, p.a.k, plan.rows)
                if plan.tall < plan.panels:
                    pack.columns(self._name("rows.low"), plan.rows - 1, p.a.free, p.a.k, plan.rows)
        if plan.pack_b and not plan.copy_b:
            pack = self._packer(p.b, self.flip)
            if p.columns >= plan.nr:
                pack.columns(self._name("panel"), plan.nr, p.b.free, p.b.k, plan.nr)
            if self.last_columns:
                pack.columns(self._name("panel.last"), self.last_columns, p.b.free, p.b.k, self.last_vectors * plan.lanes)

        if self.flip:
            for rows in {plan.rows, plan.rows - (plan.tall < plan.panels)}:
                self._emit_sums(rows)

    def _emit_sums(self, rows: int) -> None:
        """Emit ``@sums(a, out, kc, at)``: the correction of each row of a panel, added to ``out`` unless ``at`` is 0."""
        assert self.dot is not None
        plan, dot, lanes, size = self.plan, self.dot, self.plan.lanes, self.size
        vec = f"<{lanes} x i32>"
        f = self.module.function(f"define internal void @{self._name(f'sums{rows}')}(ptr %a, ptr %out, i64 %kc, i64 %at)")
        along_k = self.a_along_k or not plan.pack_a
        a_row = self.a_stride if plan.pack_a else self.p.a.free
        cell = f.local(vec, lanes * size)
        masks = f"<{lanes} x i64> <{', '.join(f'i64 {x}' for x in range(lanes))}>"

        def add(value: str, at: str, type_: str) -> None:
            value = f.let(f"mul {type_} {value}, {splat_text('i32', str(dot.correction), lanes if type_ == vec else None)}")
            before = f.load(type_, at, size)
            before = f.let(f"select i1 {f.let('icmp eq i64 %at, 0', 'c')}, {type_} zeroinitializer, {type_} {before}")
            f.store(type_, f.let(f"add {type_} {value}, {before}"), at, size)

        if along_k:
            self.module.declare(f"llvm.vector.reduce.add.v{lanes}i32", f"declare i32 @llvm.vector.reduce.add.v{lanes}i32({vec})")
            cells = [cell, *(f.local(vec, lanes * size) for _ in range(1, rows))]
            f.clear(vec, cells, lanes * size)
            with f.loop(0, "%kc", lanes) as k:
                left = f.splat("i64", f.let(f"sub i64 %kc, {k}"), lanes)
                mask = f.let(f"icmp slt {masks}, {left}")
                at = f.offset("%a", f.mul(k, size))
                for r, cell in enumerate(cells):
                    units = self.module.masked_load(f, "i32", lanes, f.offset(at, r * a_row * size), 1, mask)
                    f.store(vec, dot.emit_sum(self.module, f, units, f.load(vec, cell, lanes * size)), cell, lanes * size)
            for r, cell in enumerate(cells):
                total = f.let(f"call i32 @llvm.vector.reduce.add.v{lanes}i32({vec} {f.load(vec, cell, lanes * size)})")
                add(total, f.offset("%out", r * size), "i32")
            return
        for first in range(0, rows, lanes):
            f.clear(vec, [cell], lanes * size)
            with f.loop(0, "%kc") as k:
                at = f.offset("%a", f.mul(f.add(f.mul(k, plan.rows), first), size))
                units = load_first_lanes(self.module, f, "i32", lanes, min(lanes, rows - first), at, size)
                f.store(vec, dot.emit_sum(self.module, f, units, f.load(vec, cell, lanes * size)), cell, lanes * size)
            add(f.load(vec, cell, lanes * size), f.offset("%out", first * size), vec)

    # ---- one unit of work

    def _emit_unit(self) -> None:
        plan, p = self.plan, self.p
        f = self.module.function(f"define internal void @{self._name('unit')}(ptr %args, i64 %unit, ptr %work)")
        unit, ib = divide(f, "%unit", plan.m_units)
        unit, jb = divide(f, unit, plan.n_units)
        _, outer = divide_all(f, unit, [axis.extent for axis in p.outer])
        first, stop = share(f, ib, plan.panels, plan.m_units)
        left, right = share(f, jb, plan.columns, plan.n_units)
        a = operand_pointer(f, p.a, outer)
        b = operand_pointer(f, p.b, outer)
        t = f.offset("%work", self.a_bytes + self.b_bytes)
        with ExitStack() as stack:
            at, kc, k0 = "0", str(plan.kc), "0"
            if self.pieces:
                at, kc = stack.enter_context(self._each_piece(f))
                k0 = at
                if p.k_iterations > 1:
                    turn, k0 = divide(f, at, p.k)
                    for extent, sa, sb in reversed(list(zip(p.k_outer, p.a.k_outer, p.b.k_outer, strict=True))):
                        turn, index = divide(f, turn, extent)
                        a = f.offset(a, f.mul(index, sa * p.a.buffer.dtype.bytes))
                        b = f.offset(b, f.mul(index, sb * p.b.buffer.dtype.bytes))
            ak = f.offset(a, f.mul(k0, self._packer(p.a).size_in * p.a.k))
            bk = f.offset(b, f.mul(k0, self._packer(p.b).size_in * p.b.k))
            full = ""
            if self.dot and self.dot.rest:  # packing takes the number of units that are whole
                full = f", i64 {f.minimum(kc, f.let(f'sub i64 {p.k - 1}, {k0}'))}"
            full_columns = p.columns // plan.nr
            calls = _Calls(outer, kc, full, at, first, stop, left)
            if full_columns:
                with f.loop(left, f.minimum(right, full_columns) if self.last_columns else right) as jp:
                    self._emit_column(f, ak, bk, t, jp, wide=True, c=calls)
            if self.last_columns:
                with f.when(f.let(f"icmp sgt i64 {right}, {full_columns}", "c")):
                    self._emit_column(f, ak, bk, t, str(full_columns), wide=False, c=calls)

    @contextmanager
    def _each_piece(self, f: Function) -> Iterator[tuple[str, str]]:
        """Yield (number of the first step, steps) of each piece of k.

        A piece ends at the end of a row of k, and at the end of a block if it is shorter than a block.
        """
        p, place = self.p, f.local("i64")
        head, body, done = (f.fresh_label(h) for h in ("pieces", "piece", "whole"))
        f.store("i64", "0", place)
        f.do(f"br label %{head}")
        f.label(head)
        at = f.load("i64", place)
        f.do(f"br i1 {f.let(f'icmp slt i64 {at}, {self.steps}', 'c')}, label %{body}, label %{done}")
        f.label(body)
        count = f.minimum(self.piece, f.let(f"sub i64 {self.steps}, {at}"))
        for unit in ([p.order.block] if self.partial else []) + ([p.k] if p.k_iterations > 1 else []):
            count = f.minimum(count, f.let(f"sub i64 {unit}, {f.let(f'urem i64 {at}, {unit}')}"))
        yield at, count
        f.store("i64", f.add(at, count), place)
        f.do(f"br label %{head}")
        f.label(done)

    def _first_row(self, f: Function, panel: str | int) -> str:
        """Return the first row of a panel; panels after the tall ones have one row less."""
        plan = self.plan
        at = f.mul(panel, plan.rows)
        if plan.tall == plan.panels:
            return at
        return f.let(f"sub i64 {at}, {f.maximum(f.let(f'sub i64 {panel}, {plan.tall}'), 0)}")

    def _emit_column(self, f: Function, a: str, b: str, t: str, jp: str, wide: bool, c: _Calls) -> None:
        """Emit all row panels of one column panel."""
        plan, p = self.plan, self.p
        j = f.mul(jp, plan.nr) if not jp.isdigit() else str(int(jp) * plan.nr)
        source = f.offset(b, f.mul(j, p.b.free * p.b.buffer.dtype.bytes))
        panel = f.offset("%work", self.a_bytes) if plan.pack_b else source
        if plan.pack_b and not plan.copy_b:
            name = self._name("panel" if wide else "panel.last")
            f.do(f"call void @{name}(ptr {source}, ptr {panel}, i64 {c.kc}{c.full})")
        column = f.mul(f.let(f"sub i64 {jp}, {c.left}"), self.unit_panels * self.tile_bytes)
        fresh = f.let(f"icmp eq i64 {jp}, {c.left}", "c")
        ahead = self._plan_prefetch(f, b, j)

        def tile(index: str, tall: bool, copy: bool) -> None:
            i = self._first_row(f, index)
            local_panel = f.let(f"sub i64 {index}, {c.first}")
            rows = self._rows_pointer(f, a, i, local_panel, fresh, tall, c)
            if ahead is not None:
                start, count, step = ahead
                line = f.offset(start, f.mul(local_panel, count * step))
                for x in range(count):
                    self.module.prefetch(f, f.offset(line, x * step), near=False)
            at = f.offset(t, f.add(column, f.mul(local_panel, self.tile_bytes))) if self.pieces else t
            outer = "".join(f", i64 {o}" for o in c.outer)
            copied = panel
            if self.flip:
                copied = f.offset("%work", f.add(self.sums_at, f.mul(local_panel, self.sums_bytes)))
                with f.when(fresh):
                    name = self._name(f"sums{plan.rows - (not tall)}")
                    f.do(f"call void @{name}(ptr {rows}, ptr {copied}, i64 {c.kc}, i64 {c.at})")
            variants = self._variants(wide)
            variant = f", i64 {variants.index((tall, copy))}" if len(variants) > 1 else ""
            f.do(
                f"call void @{self._kernel_name(wide)}(ptr {rows}, ptr {source if copy else panel}, ptr {at}, "
                f"ptr {copied}, i64 {c.kc}, i64 {c.at}, i64 {i}, i64 {j}{variant}, ptr %args{outer})"
            )

        first = c.first
        if plan.copy_b:
            first = f.let(f"add i64 {c.first}, 1")
            for tall in (True, False):
                if self._exists(tall, wide, copy=True):
                    with f.when(f.let(f"icmp {'slt' if tall else 'sge'} i64 {c.first}, {plan.tall}", "c")):
                        tile(c.first, tall, True)
        ranges = [(True, first, c.stop)]
        if plan.tall < plan.panels:
            ranges = [(True, first, f.minimum(c.stop, plan.tall)), (False, f.maximum(first, plan.tall), c.stop)]
        for tall, lo, hi in ranges:
            if self._exists(tall, wide):
                with f.loop(lo, hi) as index:
                    tile(index, tall, False)

    def _rows_pointer(self, f: Function, a: str, i: str, local_panel: str, fresh: str, tall: bool, c: _Calls) -> str:
        """Return the address of a panel's rows; the first column panel packs them."""
        plan, p = self.plan, self.p
        source = f.offset(a, f.mul(i, p.a.free * p.a.buffer.dtype.bytes))
        if not plan.pack_a:
            return source
        room = self.a_stride if self.a_along_k else self.k_room
        at = f.offset("%work", f.mul(local_panel, plan.rows * room * self.size))
        with f.when(fresh):
            if self.a_along_k:
                f.do(f"call void @{self._name('rows')}(ptr {source}, ptr {at}, i64 {plan.rows - (not tall)}, i64 {c.kc}{c.full})")
            else:
                f.do(f"call void @{self._name('rows.tall' if tall else 'rows.low')}(ptr {source}, ptr {at}, i64 {c.kc}{c.full})")
        return at

    def _plan_prefetch(self, f: Function, b: str, j: str) -> tuple[str, int, int] | None:
        """Return (start of the next panel of b, cache lines of it to prefetch per tile, bytes between them), None for none."""
        plan, p = self.plan, self.p
        if not plan.pack_b or self.unit_columns == 1 or self.unit_panels < 8:
            return None
        size = p.b.buffer.dtype.bytes
        start = f.offset(b, f.mul(f.add(j, plan.nr), p.b.free * size))
        if p.b.free == 1:
            return start, -(-plan.kc * self._packer(p.b).per // self.unit_panels), p.b.k * size
        if p.b.k == 1 and p.b.free * size % LINE == 0:
            return start, -(-(plan.nr * plan.kc * size // LINE) // self.unit_panels), LINE
        return None


def _round_sum(module: Module, isa: ISA, lanes: int, accumulator: Accumulator, f: Function, x: str) -> str:
    return reduce.round_sum(Ops(f, module, isa, lanes), x, accumulator, low_nans=False)


class _Calls(NamedTuple):
    """The arguments that all tiles of one piece of k share."""

    outer: list[str]
    kc: str
    full: str
    at: str
    first: str
    stop: str
    left: str
