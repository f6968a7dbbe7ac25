"""The intermediate values of a chain on one tile: scores, softmax, and the factors of outer products.

Vectors run along the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.devices.cpu.attention.tiling import ChainTiling, WorkerScratch
from weft.devices.cpu.emit.affine import emit_affine, first_mask
from weft.devices.cpu.emit.emit import Env, ValueEmitter, emit_store, emit_value, kernel_env
from weft.devices.cpu.emit.math import function
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.text import Function, Module
from weft.kernel.expressions import dependencies, iterate_topmost, iterate_values, roots, stores_of
from weft.kernel.ir import Kernel, Outer, Value

INFINITE = float("inf")


class IntermediateTile:
    """Emitter of the values and stores of one chain."""

    def __init__(self, m: Module, kernel: Kernel, plan: ChainTiling, room: WorkerScratch) -> None:
        self.m, self.kernel, self.plan, self.worker_scratch = m, kernel, plan, room
        self.deps: dict[int, frozenset] = {}
        self.values = list(iterate_values(roots([plan.chain])))
        self.vector = f"<{plan.lanes} x {plan.scalar}>"
        self.width = plan.lanes * plan.size

    # ---- where values are evaluated

    def env(self, f: Function, places: dict[int, str]) -> Env:
        """Return the environment that all elements share. ``places``: indices of axes other than the outer ones."""
        axes = {a.id: f"%o{n}" for n, a in enumerate(self.plan.outer)} | places
        return kernel_env(f, self.kernel, self.values, stores_of(self.plan.chain), axes, lanes=self.plan.lanes, deps=self.deps)

    def _vector_envs(self, base: Env, live: int) -> list[Env]:
        """Return an environment for each vector of a panel's ``live`` rows."""
        row, lanes = self.plan.row.id, self.plan.lanes
        return [replace(
            base, memo={}, offsets={row: v * lanes}, vector=row, tag=v + 1,
            mask=first_mask(lanes, live - v * lanes) if live < (v + 1) * lanes else None,
        ) for v in range(-(-live // lanes))]

    def _hoist(self, f: Function, live: int, roots: list[Value]) -> list[Env]:
        """Return an environment for each vector, with the values that depend on the rows only."""
        row, column = self.plan.row.id, self.plan.column.id
        lanes = self._vector_envs(self.env(f, {row: "%i", column: ""}), live)

        def depends_on_row_only(value: Value) -> bool:
            deps = dependencies(value, self.deps)
            return row in deps and column not in deps and not any(isinstance(d, tuple) for d in deps)

        for env in lanes:
            for value in iterate_topmost(roots, depends_on_row_only):
                emit_value(f, self.m, self.plan.isa, value, env)
        return lanes

    def _elements(self, f: Function, lanes: list[Env], count: int) -> Iterator[tuple[int, Env, str]]:
        """Open a loop over columns; yield (number, environment, address in %tile) of each vector."""
        with f.loop(0, count) as n:
            axes = {**lanes[0].axes, self.plan.column.id: f.add("%j", n)}
            for v, env in enumerate(lanes):
                place = f.offset("%tile", f.add(f.mul(n, self.plan.panel_rows * self.plan.size), v * self.width))
                yield v, replace(env, axes=axes, memo=dict(env.memo)), place

    # ---- masks

    def bounds(self, f: Function, rows: int, columns: int) -> tuple[str | None, str | None]:
        """Emit two bits: whether the mask excludes the whole tile at %i, %j; whether it includes it. None without a mask."""
        plan = self.plan
        none = every = None
        extents = {plan.row.id: rows, plan.column.id: columns}
        e = ValueEmitter(f, self.m, plan.isa, Env(axes={
            **{a.id: f"%o{n}" for n, a in enumerate(plan.outer)}, plan.row.id: "%i", plan.column.id: "%j"
        }, deps=self.deps))
        for affine, lo, hi in plan.chain.guards:
            start = emit_affine(e, affine, vector=False)
            reach = [c * (extents.get(a, 1) - 1) for a, c in affine.terms]
            low, high = f.add(start, sum(r for r in reach if r < 0)), f.add(start, sum(r for r in reach if r > 0))
            out = f.let(f"or i1 {f.let(f'icmp slt i64 {high}, {lo}')}, {f.let(f'icmp sge i64 {low}, {hi}')}")
            inside = f.let(f"and i1 {f.let(f'icmp sge i64 {low}, {lo}')}, {f.let(f'icmp slt i64 {high}, {hi}')}")
            none = out if none is None else f.let(f"or i1 {none}, {out}")
            every = inside if every is None else f.let(f"and i1 {every}, {inside}")
        return none, every

    def _mask(self, f: Function, env: Env) -> str:
        """Emit the chain's mask of one vector."""
        plan = self.plan
        e, o = ValueEmitter(f, self.m, plan.isa, env), Ops(f, self.m, plan.isa, plan.lanes)
        mask = ""
        for affine, lo, hi in plan.chain.guards:
            at = emit_affine(e, affine, vector=True)
            for comparison, bound in (("sge", lo), ("slt", hi)):
                one = o.cmp(comparison, "i64", at, f"splat (i64 {bound})")
                mask = one if not mask else o.op("and", "i1", mask, one)
        return mask

    # ---- one tile

    def softmax(self, f: Function, live: int, count: int, masked: bool) -> None:
        """Replace the scores in %tile by weights; update each row's maximum and total, and the factor to shrink its sums by.

        %work: scratch of the panel
        """
        plan, s = self.plan, self.plan.chain.softmax
        assert s is not None
        o = Ops(f, self.m, plan.isa, plan.lanes)
        vec, t = self.vector, plan.scalar
        product = plan.chain.inner[0].id
        lanes = self._hoist(f, live, [s.score, *plan.values])
        tops = [f.local(vec, self.width) for _ in lanes]
        for v, cell in enumerate(tops):
            f.store(vec, f.load(vec, f.offset("%work", self.worker_scratch.top + v * self.width), self.width), cell, self.width)
        least = o.c(t, -INFINITE)

        for v, env, place in self._elements(f, lanes, count):
            env.accs = {product: f.load(vec, place, self.width)}
            score = emit_value(f, self.m, plan.isa, s.score, env)
            if masked:
                score = o.select(self._mask(f, env), t, score, least)
            f.store(vec, score, place, self.width)
            top = f.load(vec, tops[v], self.width)
            f.store(vec, o.select(o.cmp("ogt", t, score, top), t, score, top), tops[v], self.width)
        totals = [f.local(vec, self.width) for _ in lanes]
        tops_now = []
        for v, cell in enumerate(tops):
            place = f.offset("%work", self.worker_scratch.top + v * self.width)
            old, new = f.load(vec, place, self.width), f.load(vec, cell, self.width)
            f.store(vec, new, place, self.width)
            tops_now.append(self._finite_top(o, new))
            shrink = function(o, "exp", t, o.op("fsub", t, old, tops_now[v]))
            f.store(vec, shrink, f.offset("%work", self.worker_scratch.shrink + v * self.width), self.width)
            f.store(vec, o.c(t, 0.0), totals[v], self.width)
        for v, env, place in self._elements(f, lanes, count):
            weight = function(o, "exp", t, o.op("fsub", t, f.load(vec, place, self.width), tops_now[v]))
            f.store(vec, o.op("fadd", t, f.load(vec, totals[v], self.width), weight), totals[v], self.width)
            env.accs = {s.weight: weight}
            for value in plan.values:
                f.store(vec, emit_value(f, self.m, plan.isa, value, env), place, self.width)
        for v, cell in enumerate(totals):
            place, shrink = (
                f.offset("%work", x + v * self.width) for x in (self.worker_scratch.total, self.worker_scratch.shrink)
            )
            old = o.op("fmul", t, f.load(vec, place, self.width), f.load(vec, shrink, self.width))
            f.store(vec, o.op("fadd", t, old, f.load(vec, cell, self.width)), place, self.width)

    def _finite_top(self, o: Ops, top: str) -> str:
        """Return the number to subtract from a row's scores: the maximum, or 0 if all are -inf."""
        t = self.plan.scalar
        return o.select(o.cmp("oeq", t, top, o.c(t, -INFINITE)), t, o.c(t, 0.0), top)

    def compute_factors(self, f: Function, live: int, count: int, masked: bool) -> None:
        """Compute the factors of outer products from the inner products in the tiles."""
        plan = self.plan
        o = Ops(f, self.m, plan.isa, plan.lanes)
        vec, t = self.vector, plan.scalar
        lanes = self._hoist(f, live, plan.values)
        first_tile = self.worker_scratch.tiles[0]
        for _, env, first in self._elements(f, lanes, count):
            places = [f.offset(first, x - first_tile) for x in self.worker_scratch.tiles]
            env.accs = {i.id: f.load(vec, p, self.width) for i, p in zip(plan.chain.inner, places, strict=False)}
            results = [emit_value(f, self.m, plan.isa, value, env) for value in plan.values]
            mask = self._mask(f, env) if masked else None
            for x, place in zip(results, places, strict=False):
                f.store(vec, x if mask is None else o.select(mask, t, x, o.c(t, 0.0)), place, self.width)

    # ---- results

    def rows_done(self, f: Function, live: int) -> None:
        """Emit the stores of a panel's rows, which read the rows' maxima and totals."""
        plan, s = self.plan, self.plan.chain.softmax
        assert s is not None
        o = Ops(f, self.m, plan.isa, plan.lanes)
        for v, env in enumerate(self._vector_envs(self.env(f, {plan.row.id: "%i"}), live)):
            top, total = (
                f.load(
                    self.vector, f.offset("%work", x + v * self.width), self.width
                ) for x in (self.worker_scratch.top, self.worker_scratch.total)
            )
            env.accs = {s.top: self._finite_top(o, top), s.total: total}
            for store in plan.chain.stores:
                emit_store(f, self.m, plan.isa, store, env)

    def results(self, f: Function, outer: Outer, count: str | int) -> None:
        """Emit the stores of an outer product for ``count`` rows (or columns) from %i on, from sums at %sums [rows][own axis]."""
        plan, s = self.plan, self.plan.chain.softmax
        extent, axis = plan.side(outer).extent, outer.n[0]
        padded = plan.pad_to_vectors(extent) * plan.size
        place = plan.column.id if outer.sums_rows else plan.row.id
        o = Ops(f, self.m, plan.isa, None)
        base = self.env(f, {place: "", axis.id: "0"})
        with f.loop(0, count) as r:
            axes = {**base.axes, place: f.add("%i", r)}
            accs: dict[int, str] = {}
            if s is not None and not outer.sums_rows:
                for number, at in ((s.top, self.worker_scratch.top), (s.total, self.worker_scratch.total)):
                    accs[number] = f.load(plan.scalar, f.offset("%work", f.add(f.mul(r, plan.size), at)), plan.size)
                accs[s.top] = self._finite_top(o, accs[s.top])
            memo: dict = {}
            for first in range(0, extent, plan.lanes):
                live = min(plan.lanes, extent - first)
                x = f.load(self.vector, f.offset("%sums", f.add(f.mul(r, padded), first * plan.size)), self.width)
                env = replace(
                    base, axes=axes, offsets={axis.id: first}, vector=axis.id, tag=first + 1, accs={**accs, outer.id: x},
                    uniform=set(accs), mask=None if live == plan.lanes else first_mask(plan.lanes, live), memo=memo,
                )
                for store in outer.stores:
                    emit_store(f, self.m, plan.isa, store, env)
