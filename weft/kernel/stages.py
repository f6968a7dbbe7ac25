"""Cut a kernel into parts. Each runs in one fork-join over shared axes, with stages over axes of their own.

* Accesses become one-dimensional (the flat element offset); guards that always hold are dropped.
* An accumulator that is read outside its part, or before its own loops are complete, goes through scratch.
* A reduction over shared axes becomes a part of its own over the axes it keeps.
* If the target has tallies, order-free reductions over all elements that a stage stores stay with the stores, in one loop
  (``tallies.py``); otherwise reductions run first, in a part of their own.
* A contraction becomes a reduction with the monoid ``dot`` (each step one fma) and its stores.
* Neighbouring axes that are contiguous in every access become one axis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from weft.kernel import ir
from weft.kernel.expressions import Rewriter, access_key, iterate_values, roots, tag, walk
from weft.kernel.index import Guard, always_holds
from weft.kernel.summation import contraction_order
from weft.kernel.tallies import reduces_tallies


@dataclass(frozen=True, slots=True)
class Part:
    """One loop nest: shared axes (chunks run in parallel unless ``is_ordered``), then the stages one after another.

    exports: accumulator id -> (scratch buffer that receives its result, element offset).
    tallied: whether the reductions of its only stage are tallies: over the shared axes, complete when all chunks are.
    """

    shared: tuple[ir.Axis, ...]
    stages: tuple[ir.Stage, ...]
    exports: dict[int, tuple[ir.Buffer, ir.Affine]]
    is_ordered: bool
    tallied: bool = False


def split(kernel: ir.Kernel, tallies: bool = False) -> tuple[tuple[Part, ...], tuple[ir.Buffer, ...]]:
    """Return the parts of a kernel in order, and its scratch buffers: its own, and one for each exported accumulator.

    tallies: whether parts may have tallies.
    """
    cut_parts = _cut_phases(kernel, tallies)
    scratch = list(kernel.scratch)
    extents = {a.id: a.extent for shared, stages in cut_parts for a in (*shared, *(x for s in stages for x in s.axes))}
    home: dict[int, int] = {}
    reductions: dict[int, tuple[ir.Reduction, tuple[ir.Axis, ...]]] = {}
    for i, (shared, stages) in enumerate(cut_parts):
        for stage in stages:
            for r in stage.reductions:
                home[r.id] = i
                reductions[r.id] = (r, tuple(a for a in (*shared, *stage.axes) if a not in r.axes))
    exported: dict[int, tuple[ir.Buffer, ir.Affine]] = {}
    number = max((b.id for b in kernel.scratch), default=-1)
    for i, (_, stages) in enumerate(cut_parts):
        for v in walk(roots(stages)):
            if v.op == "acc" and home[v.attr] != i and v.attr not in exported:
                r, free = reductions[v.attr]
                number += 1
                buffer = ir.Buffer(number, r.dtype, (max(ir.size_of(free), 1),), "kernel")
                exported[v.attr] = (buffer, iteration_number(free))
                scratch.append(buffer)
    parts = []
    for i, (shared, stages) in enumerate(cut_parts):
        exports, outside = ({k: e for k, e in exported.items() if (home[k] == i) is own} for own in (True, False))
        part = _simplify(shared, stages, exports, outside, extents)
        if shared or _runs_in_one_loop(part):
            parts.append(part)
        else:
            for axes, apart in _separate(shared, list(stages), together=False):
                parts.append(_simplify(axes, apart, exports if apart[0].reductions else {}, outside, extents))
    return tuple(parts), tuple(scratch)


_Cut = tuple[tuple[ir.Axis, ...], tuple[ir.Stage, ...]]


def _cut_phases(kernel: ir.Kernel, tallies: bool) -> list[_Cut]:
    """Return (shared axes, stages) in order; later parts may read accumulators of earlier ones."""
    out: list[_Cut] = []
    for phase in kernel.phases:
        pending: list[ir.Stage] = []
        late: list[_Cut] = []
        for stage in phase.stages:
            if isinstance(stage, ir.Chain):
                raise ValueError("a chain of products cannot be cut into loops: its intermediate matrix would be stored")
            early: list[_Cut] = []
            stay: dict[tuple[ir.Axis, ...], list[ir.Reduction]] = {}  # by the order of their axes: each needs its own loop
            loop = stage if isinstance(stage, ir.Stage) else ir.Stage(())
            if tallies and not phase.axes and _has_tallies(loop):
                out += [*_separate((), pending, tallies), (loop.axes, (ir.Stage((), loop.reductions, loop.stores),))]
                pending = []
                continue
            for r in loop.reductions:
                free = tuple(a for a in (*phase.axes, *loop.axes) if a not in r.axes)
                if set(free) == set(phase.axes):
                    stay.setdefault(r.axes, []).append(r)
                elif r.is_carried or set(phase.axes) - set(free):
                    late.append((free, (ir.Stage(r.axes, (r,)),)))
                else:  # the result varies along axes of the stage: it is complete before the next stage reads it
                    early.append((free, (ir.Stage(r.axes, (r,)),)))
            if isinstance(stage, ir.Contraction):
                early.append(_lower_contraction(phase, stage))
            if early and pending:
                out.append((phase.axes, tuple(pending)))
                pending = []
            out += early
            last = stay.pop(loop.axes, [])  # stores come after all reductions, since they may overwrite operands of these
            pending += [ir.Stage(axes, tuple(group)) for axes, group in stay.items()]
            if last or loop.stores:
                pending.append(ir.Stage(loop.axes, tuple(last), loop.stores))
        out += [*_separate(phase.axes, pending, tallies), *late]
    return out


def _separate(shared: tuple[ir.Axis, ...], stages: list[ir.Stage], together: bool) -> list[_Cut]:
    """Return the parts of stages. Without shared axes each stage with loops is a part, and axes of plain stores are shared.

    together: whether reductions and stores of one stage may be one part.
    """
    out: list[_Cut] = []
    if shared:
        groups: list[list[ir.Stage]] = [[]]
        for s in stages:  # scatter-adds run in order, in a part of their own
            if any(x.adds for x in s.stores):
                groups += [[s], []]
            else:
                groups[-1].append(s)
        return [(shared, tuple(group)) for group in groups if group]
    for s in stages:
        running = any(r.running for r in s.reductions)
        if together and s.reductions and s.stores and _stores_its_own(s):
            out.append(((), (s,)))
            continue
        if s.reductions:
            out.append(((), (s if running else ir.Stage(s.axes, s.reductions),)))
        if s.stores and not running:
            out.append((s.axes, (ir.Stage((), (), s.stores),)))
    return out


def _stores_its_own(stage: ir.Stage) -> bool:
    """Return whether each iteration of a stage stores elements of its own."""
    return not any(s.adds or _collides(s.access.flat(), s.mode, stage.axes) for s in stage.stores)


def _has_tallies(stage: ir.Stage) -> bool:
    """Return whether the reductions of a stage are tallies, which run in the loop of its stores."""
    has_both = bool(stage.reductions and stage.stores)
    return has_both and ir.size_of(stage.axes) > 1 and reduces_tallies(stage) and _stores_its_own(stage)


def _runs_in_one_loop(part: Part) -> bool:
    """Return whether the stages of a part without shared axes are one loop: no reductions and stores, or blocks of one axis."""
    if not any(s.reductions and s.stores and not any(r.running for r in s.reductions) for s in part.stages):
        return True
    (stage,) = part.stages
    order = stage.reductions[0].order
    return len(stage.axes) == 1 and order.lanes > 1 and stage.axes[0].extent > 2 * order.block and all(
        r.order == order for r in stage.reductions
    )


def _lower_contraction(phase: ir.Phase, c: ir.Contraction) -> tuple[tuple[ir.Axis, ...], tuple[ir.Stage, ...]]:
    """Return a contraction as a part: a ``dot`` reduction, then its stores."""
    shared = phase.axes
    shared_ids = {a.id for a in shared}
    free = tuple(a for a in (*shared, *c.batch, *c.m, *c.n) if a.id not in shared_ids or a in shared)
    a = c.a if c.a.dtype == c.accum else ir.Value("cast", (c.a,), c.accum)
    b = c.b if c.b.dtype == c.accum else ir.Value("cast", (c.b,), c.accum)
    product = ir.Value("mul", (a, b), c.accum)
    dtype = next((v.dtype for v in walk(roots(phase.stages)) if v.op == "acc" and v.attr == c.id), c.accum)
    r = ir.Reduction(
        c.id, c.k, "dot", product, c.accum, dtype, contraction_order(c), precision=c.precision, accumulator=c.accumulator,
    )
    return free, (ir.Stage(c.k, (r,)), *((ir.Stage((), (), c.stores),) if c.stores else ()))


class _Rewriter(Rewriter):
    """Rewrites values: flat accesses, outer accumulators as loads, no merged axes, one object for equal values."""

    def __init__(self, outside: dict[int, tuple[ir.Buffer, ir.Affine]], extents: dict[int, int]) -> None:
        super().__init__({})
        self.exported_accumulators = outside
        self.extents = extents
        self.merged_axes: set[int] = set()
        self.by_key: dict[tuple, ir.Value] = {}

    def _rewrite_one(self, v: ir.Value) -> ir.Value:
        op, attr, args = v.op, v.attr, tuple([self._rewrites[id(a)][1] for a in v.args])
        if op == "acc" and attr in self.exported_accumulators:
            buffer, place = self.exported_accumulators[attr]
            op, attr = "load", ir.Access(buffer, (place,))
        key_attr: object = attr
        if op == "load":
            attr = self.access(attr)
            key_attr = access_key(attr)
        elif op == "index":
            attr = self.affine(attr)
            key_attr = tag(attr)
        elif op == "const":
            key_attr = (type(attr).__name__, repr(attr))
        return self.by_key.setdefault((op, tuple(map(id, args)), v.dtype, key_attr), ir.Value(op, args, v.dtype, attr))

    def affine(self, a: ir.Affine) -> ir.Affine:
        gather = tuple([(self.value(v), c) for v, c in a.gather])
        return ir.Affine(a.const, tuple(t for t in a.terms if t[0] not in self.merged_axes and self.extents[t[0]] > 1), gather)

    def access(self, a: ir.Access) -> ir.Access:
        guard = tuple([(self.affine(g[0]), *g[1:]) for g in a.guard if not self.always_holds(g)])
        buffer = ir.Buffer(a.buffer.id, a.buffer.dtype, (max(prod(a.buffer.shape), 1),), a.buffer.scope)
        return ir.Access(buffer, (self.affine(a.flat()),), guard, a.fill)

    def always_holds(self, guard: Guard) -> bool:
        return not guard[0].gather and always_holds(guard, self.extents)


def _coefficients(
    stages: tuple[ir.Stage, ...], places: list[ir.Affine], always_holds: Callable[[Guard], bool],
) -> list[dict[int, int]]:
    """Return the coefficients of every index expression in the stages."""
    values = walk(roots(stages))
    accesses = [*(v.attr for v in values if v.op == "load"), *(s.access for stage in stages for s in stage.stores)]
    places = places + [v.attr for v in values if v.op == "index"]
    for a in accesses:
        places += [a.flat(), *(g[0] for g in a.guard if not always_holds(g))]
    return [dict(p.terms) for p in places]


def _merge(axes: tuple[ir.Axis, ...], coefficients: list[dict[int, int]], gone: set[int]) -> tuple[ir.Axis, ...]:
    """Merge adjacent axes if every index steps through the outer one as a continuation of the inner one."""
    out: list[ir.Axis] = []
    for a in reversed(axes):
        if a.extent == 1:
            gone.add(a.id)
            continue
        if out and all(t.get(a.id, 0) == out[-1].extent * t.get(out[-1].id, 0) for t in coefficients):
            gone.add(a.id)
            out[-1] = ir.Axis(out[-1].id, out[-1].extent * a.extent)
        else:
            out.append(a)
    return tuple(reversed(out))


def _simplify(
    shared: tuple[ir.Axis, ...], stages: tuple[ir.Stage, ...], exports: dict[int, tuple[ir.Buffer, ir.Affine]],
    outside: dict[int, tuple[ir.Buffer, ir.Affine]], extents: dict[int, int],
) -> Part:
    """Return a Part with merged axes and flat accesses."""
    rewriter = _Rewriter(outside, extents)
    places = [place for _, place in exports.values()]
    places += [outside[v.attr][1] for v in walk(roots(stages)) if v.op == "acc" and v.attr in outside]
    coefficients = _coefficients(stages, places, rewriter.always_holds)
    gone = rewriter.merged_axes
    merged = _merge(shared, coefficients, gone)
    # an axis in the lists of several stages must merge the same way in all of them
    own: dict[tuple[ir.Axis, ...], tuple[ir.Axis, ...]] = {}
    axes_with: dict[int, tuple[ir.Axis, ...]] = {}
    for stage in stages:
        clash = any(axes_with.get(a.id, stage.axes) != stage.axes for a in stage.axes)
        for a in stage.axes:
            axes_with[a.id] = stage.axes
        if stage.axes not in own:
            own[stage.axes] = stage.axes if clash else _merge(stage.axes, coefficients, gone)
    new = []
    tallied = bool(shared) and any(set(r.axes) == set(shared) for stage in stages for r in stage.reductions)
    for stage in stages:
        axes = own[stage.axes]
        reductions = tuple(replace(r, axes=axes, value=rewriter.value(r.value)) for r in stage.reductions)
        new.append(ir.Stage(axes, reductions, tuple(rewriter.store(s) for s in stage.stores)))
    moved_exports = {k: (b, rewriter.affine(p)) for k, (b, p) in exports.items()}
    ordered = any(s.adds or _collides(s.access.index[0], s.mode, merged) for stage in new for s in stage.stores)
    return Part(merged, tuple(new), moved_exports, ordered, tallied)


def _collides(place: ir.Affine, mode: str, shared: tuple[ir.Axis, ...]) -> bool:
    """Return whether two shared iterations may write the same element."""
    terms = dict(place.terms)
    return mode != "own" and (bool(place.gather) or any(a.id not in terms and a.extent > 1 for a in shared))


def iteration_number(axes: tuple[ir.Axis, ...]) -> ir.Affine:
    """Return the number of an iteration of some axes, the last of which runs fastest."""
    step, place = 1, ir.Affine()
    for a in reversed(axes):
        place = place.plus(ir.axis_index(a, step))
        step *= a.extent
    return place


def split_by_stage(part: Part, number: int) -> tuple[list[Part], list[ir.Buffer]]:
    """Return (parts of one stage each, new scratch buffers, numbered from ``number`` on).

    A part has either reductions or stores, except if the stores read a running fold and may run in any order.
    """
    place, rows = iteration_number(part.shared), ir.size_of(part.shared)
    replacements: dict[int, ir.Value] = {}
    parts: list[Part] = []
    scratch: list[ir.Buffer] = []

    def reserve(r: ir.Reduction, size: int) -> ir.Buffer:
        scratch.append(ir.Buffer(number + len(scratch), r.dtype, (max(size, 1),), "kernel"))
        return scratch[-1]

    for stage in part.stages:
        change = Rewriter(replacements)
        reductions = tuple(replace(r, value=change.value(r.value)) for r in stage.reductions)
        if any(r.running for r in reductions):
            stores = tuple(map(change.store, stage.stores))
            if part.is_ordered:  # partial results go through scratch, too
                all_axes = (*part.shared, *stage.axes)
                partial_stores: list[ir.Store] = []
                for r in reductions:
                    partial_result = ir.Access(reserve(r, ir.size_of(all_axes)), (iteration_number(all_axes),))
                    partial_stores.append(ir.Store(partial_result, ir.Value("acc", (), r.dtype, r.id)))
                    replacements[r.id] = ir.Value("load", (), r.dtype, partial_result)
                parts.append(Part(part.shared, (ir.Stage(stage.axes, reductions, tuple(partial_stores)),), {}, False))
                stores = tuple(map(Rewriter(replacements).store, stores))
                parts.append(Part(all_axes, (ir.Stage((), (), stores),), {}, True))
            else:
                parts.append(Part(part.shared, (ir.Stage(stage.axes, reductions, stores),), {}, False))
            continue
        if reductions:
            exports = {r.id: part.exports.get(r.id) or (reserve(r, rows), place) for r in reductions}
            parts.append(Part(part.shared, (ir.Stage(stage.axes, reductions),), exports, False))
            for r in reductions:
                buffer, at = exports[r.id]
                replacements[r.id] = ir.Value("load", (), r.dtype, ir.Access(buffer, (at,)))
            change = Rewriter(replacements)
        if stage.stores:
            stores = tuple(map(change.store, stage.stores))
            parts.append(Part((*part.shared, *stage.axes), (ir.Stage((), (), stores),), {}, part.is_ordered))
    return parts, scratch


Epilogue = tuple[tuple[ir.Store, ...], tuple[ir.Reduction, ...]]  # of a contraction: its stores and tallies


def join_axes(epilogue: Epilogue, axes: tuple[ir.Axis, ...], joined: ir.Axis) -> Epilogue | None:
    """Return an epilogue with ``joined`` in place of ``axes`` (last fastest), or None if an index needs them separately."""
    stores, tallies = epilogue
    ids = {a.id for a in axes}
    steps, step = {}, 1
    for axis in reversed(axes):
        steps[axis.id] = step
        step *= axis.extent

    def affine(index: ir.Affine) -> ir.Affine | None:
        terms = dict(index.terms)
        coefs = {i: terms.pop(i) for i in ids & set(terms)}
        unit = next((c // steps[i] for i, c in coefs.items() if steps[i] and c % steps[i] == 0), 0)
        if index.gather or any(coefs.get(a.id, 0) != unit * steps[a.id] for a in axes if a.extent > 1):
            return None if coefs or index.gather else index
        if unit:
            terms[joined.id] = unit
        return ir.Affine(index.const, tuple(sorted(terms.items())))

    def access(a: ir.Access) -> ir.Access | None:
        if any(set(dict(g.terms)) & ids or g.gather for g, _, _ in a.guard):
            return None
        flat = affine(a.flat())
        if flat is None:
            return None
        buffer = ir.Buffer(a.buffer.id, a.buffer.dtype, (prod(a.buffer.shape),), a.buffer.scope)
        return ir.Access(buffer, (flat,), a.guard, a.fill)

    memo: dict[int, ir.Value] = {}
    for v in walk([*(s.value for s in stores), *(r.value for r in tallies)]):
        attr = access(v.attr) if v.op == "load" else affine(v.attr) if v.op == "index" else v.attr
        if attr is None and v.attr is not None:
            return None
        memo[id(v)] = replace(v, args=tuple([memo[id(a)] for a in v.args]), attr=attr)
    places = [access(s.access) for s in stores]
    new = [ir.Store(p, memo[id(s.value)], s.mode) for p, s in zip(places, stores, strict=True) if p]
    return (tuple(new), tuple([replace(r, value=memo[id(r.value)]) for r in tallies])) if all(places) else None


def work(epilogue: Epilogue) -> int:
    """Return about how many instructions an epilogue takes for one vector."""
    stores, tallies = epilogue
    free = ("const", "acc", "scalar")
    values = iterate_values([*(s.value for s in stores), *(r.value for r in tallies)])
    return len(stores) + len(tallies) + sum(
        0 if v.op in free else 30 if v.op in ir.MACHINE_OPERATIONS and ir.MACHINE_OPERATIONS[v.op].costly else 1 for v in values
    )
