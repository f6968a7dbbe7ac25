"""The stores of a product, emitted on its accumulators: inline if short, else in one separate function."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from weft.devices.cpu.emit.affine import first_mask
from weft.devices.cpu.emit.chunks import run_units
from weft.devices.cpu.emit.emit import Env, emit_store, emit_value, kernel_env, llvm_type
from weft.devices.cpu.emit.isa import ISA, LINE
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import cast
from weft.devices.cpu.emit.tally import Cell, Tallies, emit_tally_stores
from weft.devices.cpu.emit.text import Function, Generated, Module
from weft.devices.cpu.product.microkernel import Tile
from weft.kernel.expressions import access_values, dependencies, iterate_topmost, iterate_values
from weft.kernel.ir import Kernel, Store, Value
from weft.kernel.product import Product

INLINE_COST = 500
MIN_SCATTERED_STEPS = 512  # of a product whose lanes are stored one by one: a loop over its vectors then costs less than 1 %
_CHEAP = frozenset(("add", "sub", "mul", "min", "max", "neg", "abs", "eq", "ne", "lt", "le", "gt", "ge", "select", "and",
                    "or", "xor", "not", "load", "const", "scalar", "index", "acc", "cast", "fma", "bitcast"))
_MIDDLE = frozenset(("div", "sqrt", "floor", "ceil", "trunc", "rint", "shl", "shr", "copysign"))


class Epilogue:
    """Emit a product's stores for the tiles of one module."""

    def __init__(self, module: Module, kernel: Kernel, product: Product, isa: ISA, symbol: str) -> None:
        self.module, self.kernel, self.p, self.isa, self.symbol = module, kernel, product, isa, symbol
        self.lanes = isa.lanes(product.accum.bytes)
        self.scalar = llvm_type(product.accum)
        self.vector = f"<{self.lanes} x {self.scalar}>"
        self.size = product.accum.bytes
        self.deps: dict[int, frozenset] = {}
        self.tallies = Tallies(module, isa, kernel, product.tallies, self.lanes)
        self.roots = [*(s.value for s in product.stores), *(r.value for r in product.tallies)]
        self.values = list(iterate_values(self.roots + [v for s in product.stores for v in access_values(s.access)]))
        self.cost = sum(_cost(v) for v in self.values)
        if product.k * product.k_iterations >= MIN_SCATTERED_STEPS:
            self.cost += sum(3 * self.lanes for store in product.stores if self._is_scattered(store))
        self.outlined: set[int] = set()
        self.narrow = next((v.dtype for v in self.values if v.op == "acc" and v.dtype.narrow), None)

    def run_units(self, units: int, chunks: int, worker_scratch: int) -> Generated:
        """Emit the entry of the kernel (``chunks.run_units``), which also stores the tallies. Return the generated kernel."""
        shared = chunks * self.tallies.size
        wrap = partial(self.tallies.wrap, base=0) if self.tallies else str
        f = run_units(self.module, self.kernel, units, chunks, worker_scratch, shared, wrap)
        if self.tallies:
            results = self.tallies.join(f, chunks, 0)
            emit_tally_stores(f, self.module, self.isa, self.kernel, self.p.tally_stores, results)
        return self.module.generated(self.symbol, shared, worker_scratch)

    # ---- a tile in registers

    def emit(self, f: Function, tile: Tile, tail: int, is_tall: str = "") -> None:
        """Store a tile whose first element is (%i, %j).

        tail: lanes in use of each row's last vector, 0 for all. is_tall: whether the last row is stored; empty if it always is.
        """
        rows, vectors = len(tile), len(tile[0])
        if self.cost * rows * vectors > INLINE_COST and rows * vectors > 1:
            self.module.took("product epilogue apart")
            self._call(f, tile, tail, is_tall)
            return
        if self.cost > 1:
            self.module.took("product epilogue")
        base = self._env(f)
        columns = {}
        for v in range(vectors):
            env = self._element_env(base, 0, v, tail if v == vectors - 1 else 0)
            self._hoist(f, env, column=True)
            columns[v] = env.memo
        always = rows - bool(is_tall)
        lines = [self._hoist_row(f, base, r) for r in range(always)]
        cells = self.tallies.begin(f)
        for r in range(rows):
            with f.when(is_tall) if r == always else nullcontext():
                line = lines[r] if r < always else self._hoist_row(f, base, r)
                for v in range(vectors):
                    env = self._element_env(base, r, v, tail if v == vectors - 1 else 0)
                    env.memo = {**columns[v], **line}
                    self._store(f, env, tile[r][v], cells)
        self.tallies.end(f, cells)

    def _hoist_row(self, f: Function, base: Env, r: int) -> dict:
        env = self._element_env(base, r, 0, 0)
        env.vector = None
        self._hoist(f, env, column=False)
        return env.memo

    def _is_scattered(self, store: Store) -> bool:
        """Return whether a store of a vector of columns writes elements that are not neighbours."""
        return self.p.n is not None and dict(store.access.flat().terms).get(self.p.n.id, 0) != 1

    def _env(self, f: Function) -> Env:
        """Return the Env that all elements share: pointers, scalars, the outer loops."""
        axes = {axis.id: f"%o{n}" for n, axis in enumerate(self.p.outer)}
        if self.p.m:
            axes[self.p.m.id] = "%i"
        if self.p.n:
            axes[self.p.n.id] = "%j"
        return kernel_env(f, self.kernel, self.values, self.p.stores, axes, lanes=self.lanes, deps=self.deps)

    def _element_env(self, base: Env, r: int, v: int, live: int) -> Env:
        offsets = {}
        if self.p.m:
            offsets[self.p.m.id] = r
        if self.p.n:
            offsets[self.p.n.id] = v * self.lanes
        mask = first_mask(self.lanes, live) if live else None
        return replace(base, memo={}, offsets=offsets, vector=self.p.n.id if self.p.n else None, mask=mask)

    def _hoist(self, f: Function, env: Env, column: bool) -> None:
        """Emit values that depend only on the column (or only on the row) once for all rows (columns)."""
        axis = self.p.n if column else self.p.m
        other = self.p.m if column else self.p.n
        if axis is None:
            return

        def depends_on_axis(value: Value) -> bool:
            deps = dependencies(value, self.deps)
            return axis.id in deps and not (other and other.id in deps) and not any(isinstance(d, tuple) for d in deps)

        for value in iterate_topmost(self.roots, depends_on_axis):
            emit_value(f, self.module, self.isa, value, env)

    def _store(self, f: Function, env: Env, acc: str, cells: list[Cell]) -> None:
        """Store one vector (or one element if n is a single column): all values are emitted before all stores."""
        if self.narrow is not None:  # summed in float32, rounded before it is read
            acc = cast(Ops(f, self.module, self.isa, self.lanes), acc, self.p.accum, self.narrow)
        if env.vector is None:
            acc = f.let(f"extractelement {self.vector} {acc}, i32 0")
        env.accs = {self.p.id: acc}
        for store in self.p.stores:
            emit_value(f, self.module, self.isa, store.value, env)
        self.tallies.add(f, env, cells)
        for store in self.p.stores:
            emit_store(f, self.module, self.isa, store, env)

    def prefetch(self, f: Function, rows: int, vectors: int, ahead: int = 0) -> None:
        """Prefetch the memory that the stores of a tile write, if the tile's rows are contiguous there.

        ahead: bytes behind the tile in its rows, which later tiles write, to be prefetched in its place.
        """
        names = {axis.id: f"%o{n}" for n, axis in enumerate(self.p.outer)}
        if self.p.m is None or self.p.n is None:
            return
        names |= {self.p.m.id: "%i", self.p.n.id: "%j"}
        for store in self.p.stores:
            at, size = store.access.flat(), store.access.buffer.dtype.bytes
            steps = dict(at.terms)
            if at.gather or store.access.guard or steps.get(self.p.n.id) != 1 or not set(steps) <= set(names):
                continue
            place = f.dot(at.const, [(names[axis], step) for axis, step in at.terms])
            start = f.offset(f.argument(store.access.buffer.id), f.mul(place, size))
            for r in range(rows):
                for x in range(ahead, ahead + vectors * self.lanes * size, LINE):
                    self.module.prefetch(f, f.offset(start, r * steps.get(self.p.m.id, 0) * size + x), write=True)

    # ---- a tile in memory, for long epilogues

    def _call(self, f: Function, tile: Tile, tail: int, is_tall: str) -> None:
        rows, vectors = len(tile), len(tile[0])
        stored = f.let(f"select i1 {is_tall}, i64 {rows}, i64 {rows - 1}") if is_tall else rows
        width = self.lanes * self.size
        room = f.local(f"[{rows * vectors} x {self.vector}]", width)
        for r in range(rows):
            for v in range(vectors):
                f.store(self.vector, tile[r][v], f.offset(room, (r * vectors + v) * width), width)
        outer = "".join(f", i64 %o{n}" for n in range(len(self.p.outer)))
        full = vectors - bool(tail)
        place = f"i64 %i, i64 %j, ptr %args{outer}"
        f.do(f"call void @{self._outline(0)}(ptr {room}, i64 {stored}, i64 {full}, i64 {vectors}, {place})")
        if tail:
            part = f.offset(room, full * width)
            j = f.add("%j", full * self.lanes)
            name = self._outline(tail)
            f.do(f"call void @{name}(ptr {part}, i64 {stored}, i64 1, i64 {vectors}, i64 %i, i64 {j}, ptr %args{outer})")

    def _outline(self, tail: int) -> str:
        """Return the name of ``@name(tile, rows, vectors, stride, i, j, args, outer...)``, for full vectors or ``tail`` lanes."""
        name = f"{self.symbol}.epilogue{tail or ''}"
        if tail in self.outlined:
            return name
        self.outlined.add(tail)
        outer = "".join(f", i64 %o{n}" for n in range(len(self.p.outer)))
        f = self.module.function(
            f"define internal void @{name}(ptr %tile, i64 %rows, i64 %vectors, i64 %stride, i64 %i, i64 %j, ptr %args{outer})"
        )
        width = self.lanes * self.size
        base = self._env(f)
        cells = self.tallies.begin(f)
        with f.loop(0, "%rows") as r, f.loop(0, "%vectors") as v:
            at = f.add(f.mul(r, "%stride"), v)
            acc = f.load(self.vector, f.offset("%tile", f.mul(at, width)), width)
            env = self._element_env(base, 0, 0, tail)
            env.axes = dict(base.axes)
            if self.p.m:
                env.axes[self.p.m.id] = f.add("%i", r)
            if self.p.n:
                env.axes[self.p.n.id] = f.add("%j", f.mul(v, self.lanes))
            self._store(f, env, acc, cells)
        self.tallies.end(f, cells)
        return name


def _cost(value: Value) -> int:
    """Estimate the instructions of a value."""
    return 1 if value.op in _CHEAP else 4 if value.op in _MIDDLE else 40
