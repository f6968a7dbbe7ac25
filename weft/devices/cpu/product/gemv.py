"""Products of a matrix and a vector: bound by memory, so the matrix is read once, in memory order.

Each element is summed in the contraction's order: in 4 fma chains (32 for the product of two vectors), element k of the sum in
chain k % 4; at the end of a block the chains are added pairwise by halves, and blocks are joined pairwise. All functions below
keep this order, so results depend on extents and dtype, not on strides:

- ``along``: the matrix is contiguous along k; a chain is a lane, a register a row of the matrix, or several rows if its numbers
  are bytes, which are widened a whole register at a time.
- ``across``: the matrix is contiguous along its free axis; a chain is a register, a lane an element of the result.
- ``sweep``: the same for a large matrix: 8 rows of one chain are read side by side, in whole rows; between rows the chains are
  stored in scratch that stays in the nearest cache, followed by the sums of blocks.

Products of 8-bit integers (see ``dot.py``) go ``along`` too, in as many chains as a register has lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from weft.devices.cpu.emit import pairwise
from weft.devices.cpu.emit.chunks import divide, divide_all, share
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.text import Function, Generated, Module
from weft.devices.cpu.emit.types import llvm_type
from weft.devices.cpu.product.dot import Dot, make_dot
from weft.devices.cpu.product.epilogue import Epilogue
from weft.devices.cpu.product.pack import Packer, operand_pointer
from weft.kernel.ir import Kernel
from weft.kernel.product import Product
from weft.kernel.target import Order

SWEEP = 8  # rows of the matrix read side by side
WIDE = 8  # vectors of each row read at once
BYTES = 16  # numbers of a row that are read and widened at once if they are bytes
PARALLEL_BYTES = 2 << 20


def generate_gemv(kernel: Kernel, product: Product, isa: ISA) -> Generated:
    """Return the LLVM text of a product that is summed in lanes: m or n is 1, and k one axis."""
    return _Driver(kernel, product if product.rows == 1 else product.transpose(), isa).generate()


def generate_integer_gemv(kernel: Kernel, product: Product, isa: ISA) -> Generated | None:
    """Return the LLVM text of a product of a matrix and a vector of 8-bit integers that are contiguous along k, else None."""
    p = product if product.rows == 1 else product.transpose()
    dot = make_dot(p, isa)
    if p.rows > 1 or p.k_iterations > 1 or p.a.k != 1 or p.b.k != 1 or p.k < dot.lanes * dot.per:
        return None
    return _Driver(kernel, replace(p, order=Order(dot.lanes, -(-p.k // dot.lanes) * dot.lanes)), isa, dot).generate()


def add_chains(f: Function, sums: list[str], chains: int, scalar: str) -> str:
    """Return the vector of all rows' sums; the upper half of each row's chains is added to the lower half, repeatedly."""
    n, span, word = chains, chains, "add" if scalar[0] == "i" else "fadd"
    while span > 1:
        half = span // 2
        count = 2 * n if len(sums) > 1 else n
        low = [x for x in range(count) if x % span < half]
        pairs = list(zip(sums[::2], sums[1::2], strict=True)) if len(sums) > 1 else [(sums[0], "poison")]
        out = []
        for x, y in pairs:
            a, b = (f.shuffle(f"<{n} x {scalar}>", x, y, [k + up for k in low]) for up in (0, half))
            out.append(f.let(f"{word} <{len(low)} x {scalar}> {a}, {b}"))
        sums, n, span = out, len(low), half
    while len(sums) > 1:
        sums = [f.shuffle(f"<{n} x {scalar}>", x, y, range(2 * n)) for x, y in zip(sums[::2], sums[1::2], strict=True)]
        n *= 2
    return sums[0]


class _Driver:
    def __init__(self, kernel: Kernel, p: Product, isa: ISA, dot: Dot | None = None) -> None:
        self.kernel, self.p, self.isa, self.dot = kernel, p, isa, dot
        self.module = Module()
        self.symbol = kernel.name
        self.size = p.accum.bytes
        self.scalar = llvm_type(p.accum)
        self.lanes = isa.lanes(self.size)
        self.chains, self.block = p.order.lanes, p.order.block
        self.blocks = -(-p.k // self.block)
        self.along = dot is not None or p.columns == 1 or p.b.k == 1 and p.b.free != 1
        self.a = Packer(self.module, p.a.buffer.dtype, p.accum, self.lanes, isa=isa, rounded=p.a.rounded)
        self.b = Packer(self.module, p.b.buffer.dtype, p.accum, self.lanes, isa=isa, rounded=p.b.rounded)
        self.extra = ", ptr %args" + "".join(f", i64 %o{n}" for n in range(len(p.outer)))
        matrix = p.columns * p.k * p.b.buffer.dtype.bytes
        parallel = matrix * p.batch >= PARALLEL_BYTES
        self.blocked = not self.along and matrix > isa.l1 * 3 // 4 and p.k >= SWEEP * self.chains and p.b.free == 1
        # nr: elements of the result per turn; a unit is a run of turns, longer if rows are swept
        self.nr = self.lanes * (1 if self.along else WIDE if self.blocked else 2)
        self.tail = p.columns % self.nr
        self.groups = -(-p.columns // self.nr)
        width = 16384 // self.size if self.blocked else p.columns
        units = max(1, round(p.columns / width))
        if parallel and p.batch < 8:
            least = 8192 // self.size if self.blocked else self.nr  # shorter pieces of rows halve the bandwidth
            units = max(units, min(max(8, matrix >> 20), p.columns // least))
        self.units = max(1, min(units, self.groups))
        self.chunks = min(self.units * p.batch, max(8, matrix * p.batch >> 21), 4096) if parallel else 0
        self.chunks = self.chunks if self.chunks > 1 else 0
        self.plane = -(-self.groups // self.units) * self.nr * self.size  # bytes of one chain, or one level of blocks
        self.room = self.plane * (self.chains + (pairwise.depth(self.blocks) if self.blocks > 1 else 0)) if self.blocked else 0

    def generate(self) -> Generated:
        if self.dot:
            self.module.took("vector product of integers")
        self.module.took(f"vector product {'along' if self.along else 'sweep' if self.blocked else 'across'}")
        epilogue = Epilogue(self.module, self.kernel, self.p, self.isa, self.symbol)
        for live in {0} | {self.tail % self.lanes}:
            f = self.module.function(
                f"define internal void @{self._name('store', live)}({self._vec(self.lanes)} %acc, i64 %i, i64 %j{self.extra})"
            )
            epilogue.emit(f, [["%acc"]], live)
        for tail in ([0] if self.p.columns >= self.nr else []) + ([self.tail] if self.tail else []):
            if self.along:
                self._emit_along(tail)
            elif self.blocked:
                self._emit_sweep(tail)
            else:
                self._emit_across(tail)
        self._emit_unit()
        self.module.vectors = True
        return epilogue.run_units(self.units * self.p.batch, max(self.chunks, 1), self.room)

    # ---- pieces

    def _name(self, part: str, tail: int) -> str:
        return f"{self.symbol}.{part}{tail or ''}"

    def _vec(self, n: int) -> str:
        return f"<{n} x {self.scalar}>"

    def _read(self, f: Function, packer: Packer, at: str, stride: int, n: int, live: int) -> str:
        """Read n elements; those from ``live`` on are zero."""
        if stride == 1 and live == n:
            return packer.read(f, at, n)
        vec, out = self._vec(n), "zeroinitializer"
        if stride == 1:
            done = 0
            while done < live:  # powers of two
                part = 1 << ((live - done).bit_length() - 1)
                value = packer.read(f, f.offset(at, done * packer.size_in), part)
                value = f.shuffle(self._vec(part), value, "zeroinitializer", [min(x, part) for x in range(n)])
                out = f.shuffle(vec, out, value, [x if not done <= x < done + part else n + x - done for x in range(n)])
                done += part
            return out
        if stride == 0:
            x = packer.read(f, at, 0)
            return f.shuffle(vec, f.splat(self.scalar, x, n), "zeroinitializer", [x if x < live else n + x for x in range(n)])
        for lane in range(live):
            x = packer.read(f, f.offset(at, lane * stride * packer.size_in), 0)
            out = f.let(f"insertelement {vec} {out}, {self.scalar} {x}, i32 {lane}")
        return out

    def _emit_along(self, tail: int) -> None:
        """Emit ``along(a, b, i, j)``: the elements of one vector of the result, each from one row of the matrix."""
        p, n = self.p, self.chains
        f = self.module.function(f"define internal void @{self._name('tile', tail)}(ptr %A, ptr %B, i64 %i, i64 %j{self.extra})")
        rows, vec = tail or self.lanes, self._vec(n)
        width = n * self.size
        cells = [f.local(vec, width) for _ in range(rows)]
        per_register = self.lanes // n  # rows whose chains fill a register
        grouped = per_register > 1 and rows > 1 and p.b.k == 1 and p.k >= BYTES and self.b.size == 1
        registers = -(-rows // per_register) if grouped else 0
        groups = [f.local(self._vec(self.lanes), self.lanes * self.size) for _ in range(registers)]

        def step(k: str, live: int) -> None:
            x = self._read(f, self.a, f.offset("%A", f.mul(k, p.a.k * self.a.size_in)), p.a.k, n, live)
            at = f.offset("%B", f.mul(k, p.b.k * self.b.size_in))
            for row, cell in enumerate(cells):
                y = self._read(f, self.b, f.offset(at, row * p.b.free * self.b.size_in), p.b.k, n, live)
                before = f.load(vec, cell, width)
                after = self.module.fma(f, self.scalar, n, x, y, before, self.isa.fma)
                if live < n:  # chains without an element keep -0.0
                    after = f.shuffle(vec, after, before, [c if c < live else n + c for c in range(n)])
                f.store(vec, after, cell, width)

        def block(first: str | int, end: str | int, last: str | None) -> list[str]:
            if self.dot:
                return [self._add_dots(f, cells)]
            f.clear(vec, cells, width)
            if grouped:
                f.clear(self._vec(self.lanes), groups, self.lanes * self.size)
                stop = str(int(end) // BYTES * BYTES) if isinstance(end, int) else f.let(f"and i64 {end}, {-BYTES}")
                with f.loop(first, stop, BYTES) as k:
                    self._add_bytes(f, k, rows, groups)
                first = stop
                for row, cell in enumerate(cells):
                    group = f.load(self._vec(self.lanes), groups[row // per_register], self.lanes * self.size)
                    places = range(row % per_register * n, (row % per_register + 1) * n)
                    f.store(vec, f.shuffle(self._vec(self.lanes), group, "poison", places), cell, width)
            if p.k >= n:
                with f.loop(first, end, n) as k:
                    step(k, n)
            if p.k % n:
                with f.when(last) if last else nullcontext():
                    step(str(p.k // n * n), p.k % n)
            sums = [f.load(vec, cell, width) for cell in cells]
            return [self._add_chains_of_rows(f, sums + ["zeroinitializer"] * (self.lanes - rows if p.columns > 1 else 0))]

        (acc,) = self._sum_blocks(f, p.k // n * n, self._vec(1 if p.columns == 1 else self.lanes), 1, block)
        if p.columns == 1:
            acc = f.shuffle(self._vec(1), acc, "poison", [0] * self.lanes)
        self._finish(f, acc, "%j", tail % self.lanes)

    def _add_bytes(self, f: Function, k: str, rows: int, groups: list[str]) -> None:
        """Add the products of BYTES steps from k on to the chains of all rows, several rows in a register."""
        p, n, lanes, count = self.p, self.chains, self.lanes, self.lanes // self.chains
        turns, vec = BYTES // n, self._vec(self.lanes)
        a = f.offset("%A", f.mul(k, p.a.k * self.a.size_in))
        b = f.offset("%B", f.mul(k, self.b.size_in))
        x = [self._read(f, self.a, f.offset(a, t * n * p.a.k * self.a.size_in), p.a.k, n, n) for t in range(turns)]
        x = [f.shuffle(self._vec(n), v, "poison", [*range(n)] * count) for v in x]
        for g, cell in enumerate(groups):
            parts = [
                f.load(f"<{BYTES} x i8>", f.offset(b, min(g * count + r, rows - 1) * p.b.free), 1) for r in range(count)
            ]
            size = BYTES
            while len(parts) > 1:
                parts = [f.shuffle(f"<{size} x i8>", y, z, range(2 * size)) for y, z in zip(parts[::2], parts[1::2], strict=True)]
                size *= 2
            total = f.load(vec, cell, lanes * self.size)
            numbers = self.b.convert(f, self.b.transpose_words(f, parts[0], count, turns), size)
            for t in range(turns):
                y = f.shuffle(self._vec(size), numbers, "poison", range(t * lanes, (t + 1) * lanes))
                total = self.module.fma(f, self.scalar, lanes, x[t], y, total, self.isa.fma)
            f.store(vec, total, cell, lanes * self.size)

    def _add_dots(self, f: Function, cells: list[str]) -> str:
        """Return the sums of the products of integers, with one accumulator for each row."""
        p, dot, lanes = self.p, self.dot, self.lanes
        assert dot is not None
        vec, width, step = self._vec(lanes), lanes * self.size, lanes * dot.per
        a = Packer(self.module, p.a.buffer.dtype, p.accum, lanes, dot.per)
        b = Packer(self.module, p.b.buffer.dtype, p.accum, lanes, dot.per, flip=dot.flip)
        of_a = f.local(vec, width)
        f.clear(vec, [*cells, of_a], width)

        def add(k: str, mask: str) -> None:
            x = a.read(f, f.offset("%A", k), lanes)
            if mask:
                x = f.let(f"and {vec} {x}, {mask}")
            at = f.offset("%B", k)
            for row, cell in enumerate(cells):
                y = b.read(f, f.offset(at, row * p.b.free), lanes)
                f.store(vec, dot.emit(self.module, f, x, y, f.load(vec, cell, width)), cell, width)
            if dot.flip:
                f.store(vec, dot.emit_sum(self.module, f, x, f.load(vec, of_a, width)), of_a, width)

        with f.loop(0, p.k // step * step, step) as k:
            add(k, "")
        if rest := p.k % step:  # the last whole register; its first numbers, added before, are masked
            bits = 32 // dot.per
            units = [
                sum([(1 << bits) - 1 << bits * x for x in range(dot.per) if unit * dot.per + x >= step - rest])
                for unit in range(lanes)
            ]
            add(str(p.k - step), f"<{', '.join(f'i32 {u - (u >> 31 << 32)}' for u in units)}>")
        sums = [f.load(vec, cell, width) for cell in cells]
        total = self._add_chains_of_rows(f, sums + ["zeroinitializer"] * (lanes - len(cells) if p.columns > 1 else 0))
        if not dot.flip:
            return total
        n = 1 if p.columns == 1 else lanes
        self.module.declare(f"llvm.vector.reduce.add.v{lanes}i32", f"declare i32 @llvm.vector.reduce.add.v{lanes}i32({vec})")
        term = f.let(f"call i32 @llvm.vector.reduce.add.v{lanes}i32({vec} {f.load(vec, of_a, width)})")
        term = f.splat("i32", f.let(f"mul i32 {term}, {dot.correction}"), n)
        return f.let(f"add {self._vec(n)} {total}, {term}")

    def _sum_blocks(
        self, f: Function, full_end: int, type_: str, count: int, block: Callable[[str | int, str | int, str | None], list[str]],
    ) -> list[str]:
        """Emit the sums of all blocks, joined; return ``count`` registers of ``type_``.

        ``block(first, end, last)`` emits one block: the steps below ``full_end``, and later ones if ``last`` (None: always).
        """
        if self.blocks == 1:
            return block(0, full_end, None)
        bytes_ = max(16, self.lanes * self.size)
        cells = [f.local(type_, bytes_) for _ in range(count)]
        levels = f.local(f"[{pairwise.depth(self.blocks) * count * bytes_} x i8]", bytes_)
        places = [n * bytes_ for n in range(count)]
        with f.loop(0, self.blocks) as number:
            last = f.let(f"icmp eq i64 {number}, {self.blocks - 1}", "c")
            first = f.mul(number, self.block)
            for cell, value in zip(cells, block(first, f.minimum(f.add(first, self.block), full_end), last), strict=True):
                f.store(type_, value, cell)
            self._join(f, pairwise.rows(f, levels, count * bytes_, places), number, last, type_, cells)
        return [f.load(type_, cell) for cell in cells]

    def _join(self, f: Function, at: pairwise.LevelPointers, number: str, last: str, type_: str, cells: list[str]) -> None:
        """Join a block's sums with those of earlier blocks; store the result unless the block is the last."""
        merge = pairwise.adder(f, type_)
        pairwise.add_block(self.module, f, at, number, last, [type_] * len(cells), cells, merge, self.size)

    def _add_chains_of_rows(self, f: Function, sums: list[str]) -> str:
        return add_chains(f, sums, self.chains, self.scalar)

    def _emit_across(self, tail: int) -> None:
        """Emit ``across(a, b, i, j)``: two vectors of the result; each lane is a column of the matrix."""
        p, vec, width = self.p, self._vec(self.lanes), self.lanes * self.size
        vectors, lives = self._vector_lanes(tail)
        f = self.module.function(f"define internal void @{self._name('tile', tail)}(ptr %A, ptr %B, i64 %i, i64 %j{self.extra})")
        cells = [[f.local(vec, width) for _ in range(vectors)] for _ in range(self.chains)]

        def steps(k: str, count: int) -> None:
            a = f.offset("%A", f.mul(k, p.a.k * self.a.size_in))
            b = f.offset("%B", f.mul(k, p.b.k * self.b.size_in))
            for step in range(count):
                x = f.splat(self.scalar, self.a.read(f, f.offset(a, step * p.a.k * self.a.size_in), 0), self.lanes)
                self._add_row(f, x, f.offset(b, step * p.b.k * self.b.size_in), cells[step % self.chains], lives)

        def block(first: str | int, end: str | int, last: str | None) -> list[str]:
            f.clear(vec, [cell for row in cells for cell in row], width)
            if p.k >= SWEEP:
                with f.loop(first, end, SWEEP) as k:
                    steps(k, SWEEP)
            if p.k % SWEEP:
                with f.when(last) if last else nullcontext():
                    steps(str(p.k // SWEEP * SWEEP), p.k % SWEEP)
            return [self._add_registers(f, [f.load(vec, row[v], width) for row in cells]) for v in range(vectors)]

        for v, acc in enumerate(self._sum_blocks(f, p.k // SWEEP * SWEEP, vec, vectors, block)):
            self._finish(f, acc, f.add("%j", v * self.lanes), lives[v] % self.lanes)

    def _emit_sweep(self, tail: int) -> None:
        """Emit ``sweep(a, b, t, rows, first)``: up to SWEEP rows of one chain; ``finish(t, block, i, j)``: a block's sum."""
        p, vec, width = self.p, self._vec(self.lanes), self.lanes * self.size
        vectors, lives = self._vector_lanes(tail)
        f = self.module.function(
            f"define internal void @{self._name('tile', tail)}(ptr %A, ptr %B, ptr %T, i64 %rows, i64 %first)"
        )
        cells = [f.local(vec, width) for _ in range(vectors)]
        f.clear(vec, cells, width)
        with f.when(f.let("icmp eq i64 %first, 0", "c")):
            for v, cell in enumerate(cells):
                f.store(vec, f.load(vec, f.offset("%T", v * width), width), cell, width)
        full = f.let(f"icmp eq i64 %rows, {SWEEP}", "c")

        def row(step: str | int) -> None:
            at = f.offset("%A", f.mul(step, self.chains * p.a.k * self.a.size_in))
            x = f.splat(self.scalar, self.a.read(f, at, 0), self.lanes)
            self._add_row(f, x, f.offset("%B", f.mul(step, self.chains * p.b.k * self.b.size_in)), cells, lives)

        with f.when(full):
            for index in range(SWEEP):
                row(index)
        with f.when(f.let(f"xor i1 {full}, true")), f.loop(0, "%rows") as step:
            row(step)
        for v, cell in enumerate(cells):
            f.store(vec, f.load(vec, cell, width), f.offset("%T", v * width), width)

        f = self.module.function(
            f"define internal void @{self._name('finish', tail)}(ptr %T, i64 %block, i64 %i, i64 %j{self.extra})"
        )
        for v, cell in enumerate(cells := [f.local(vec, width) for _ in range(vectors)]):
            sums = [f.load(vec, f.offset("%T", v * width + c * self.plane), width) for c in range(self.chains)]
            f.store(vec, self._add_registers(f, sums), cell, width)
        if self.blocks > 1:
            levels, places = f.offset("%T", self.chains * self.plane), [v * width for v in range(vectors)]
            last = f.let(f"icmp eq i64 %block, {self.blocks - 1}", "c")
            self._join(f, pairwise.rows(f, levels, self.plane, places), "%block", last, vec, cells)
            with f.when(f.let(f"xor i1 {last}, true")):
                f.do("ret void")
                f.label(f.fresh_label("dead"))
        for v, cell in enumerate(cells):
            self._finish(f, f.load(vec, cell, width), f.add("%j", v * self.lanes), lives[v] % self.lanes)

    def _vector_lanes(self, tail: int) -> tuple[int, list[int]]:
        vectors = -(-(tail or self.nr) // self.lanes)
        return vectors, [self.lanes] * (vectors - 1) + [tail % self.lanes or self.lanes]

    def _add_row(self, f: Function, x: str, at: str, cells: list[str], lives: list[int]) -> None:
        """Add x times a piece of a row of the matrix to ``cells``."""
        vec, width, stride = self._vec(self.lanes), self.lanes * self.size, self.p.b.free
        for v, cell in enumerate(cells):
            y = self._read(f, self.b, f.offset(at, v * self.lanes * stride * self.b.size_in), stride, self.lanes, lives[v])
            total = self.module.fma(f, self.scalar, self.lanes, x, y, f.load(vec, cell, width), self.isa.fma)
            f.store(vec, total, cell, width)

    def _add_registers(self, f: Function, sums: list[str]) -> str:
        while len(sums) > 1:
            half = len(sums) // 2
            sums = [f.let(f"fadd {self._vec(self.lanes)} {x}, {y}") for x, y in zip(sums[:half], sums[half:], strict=True)]
        return sums[0]

    def _finish(self, f: Function, acc: str, j: str, tail: int) -> None:
        f.do(f"call void @{self._name('store', tail)}({self._vec(self.lanes)} {acc}, i64 %i, i64 {j}{self.extra})")

    # ---- units and the entry

    def _emit_unit(self) -> None:
        p = self.p
        f = self.module.function(f"define internal void @{self.symbol}.unit(ptr %args, i64 %unit, ptr %work)")
        unit, part = divide(f, "%unit", self.units)
        _, outer = divide_all(f, unit, [axis.extent for axis in p.outer])
        first, stop = share(f, part, self.groups, self.units)
        a, b = operand_pointer(f, p.a, outer), operand_pointer(f, p.b, outer)
        whole_groups = p.columns // self.nr
        end = f.minimum(stop, whole_groups)
        places = "ptr %args" + "".join(f", i64 {o}" for o in outer)

        def groups(run: Callable[[str, int], None]) -> None:
            if whole_groups:
                with f.loop(first, end) as v:
                    run(v, 0)
            if self.tail:
                with f.when(f.let(f"icmp sgt i64 {stop}, {whole_groups}", "c")):
                    run(str(whole_groups), self.tail)

        def tile(v: str, tail: int) -> None:
            j = f.mul(v, self.nr)
            at = f.offset(b, f.mul(j, p.b.free * self.b.size_in))
            f.do(f"call void @{self._name('tile', tail)}(ptr {a}, ptr {at}, i64 0, i64 {j}, {places})")

        def room(v: str) -> str:
            return f.offset("%work", f.mul(f.let(f"sub i64 {v}, {first}"), self.nr * self.size))

        def finish(number: str, v: str, tail: int) -> None:
            at = f.mul(v, self.nr)
            f.do(f"call void @{self._name('finish', tail)}(ptr {room(v)}, i64 {number}, i64 0, i64 {at}, {places})")

        if not self.blocked:
            groups(tile)
            return
        each = SWEEP * self.chains  # rows per turn; a block is a whole number of turns
        with f.loop(0, self.blocks) if self.blocks > 1 else nullcontext("0") as number:
            start = f.mul(number, self.block)
            last = f.minimum(f.add(start, self.block), p.k)
            with f.loop(start, last, each) as turn, f.loop(0, self.chains) as chain:
                k = f.add(turn, chain)
                left = f.let(f"sdiv i64 {f.let(f'sub i64 {f.add(last, self.chains - 1)}, {k}')}, {self.chains}")
                rows = f.minimum(left, SWEEP)
                ak, bk = f.offset(a, f.mul(k, p.a.k * self.a.size_in)), f.offset(b, f.mul(k, p.b.k * self.b.size_in))

                def sweep(v: str, tail: int) -> None:
                    at = f.offset(bk, f.mul(f.mul(v, self.nr), self.b.size_in))
                    t = f.offset(room(v), f.mul(chain, self.plane))
                    new = f.let(f"zext i1 {f.let(f'icmp eq i64 {turn}, {start}')} to i64")
                    f.do(f"call void @{self._name('tile', tail)}(ptr {ak}, ptr {at}, ptr {t}, i64 {rows}, i64 {new})")

                groups(sweep)
            groups(partial(finish, number))
