"""Cut a kernel into parts. Each runs in one fork-join over shared axes, with stages over axes of their own.

* Accesses become one-dimensional (the flat element offset); guards that always hold are dropped.
* An accumulator that is read outside its part, or before its own loops are complete, goes through scratch.
* A reduction over shared axes becomes a part of its own over the axes it keeps.
* A contraction becomes a reduction with the monoid ``dot`` (each step one fma) and its stores.
* Neighbouring axes that are contiguous in every access become one axis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from weft.kernel.expressions import Rewriter, access_key, dependencies, each, roots, tag, walk
from weft.kernel.index import Guard, always
from weft.kernel.ir import (
    MACHINE_OPERATIONS,
    Access,
    Affine,
    Axis,
    Buffer,
    Chain,
    Contraction,
    Kernel,
    Reduction,
    Stage,
    Store,
    Value,
    along,
    size_of,
)
from weft.kernel.summation import contraction_order


@dataclass(frozen=True, slots=True)
class Part:
    """One loop nest: shared axes (chunks run in parallel unless ``ordered``), then the stages one after another.

    exports: accumulator id -> (scratch buffer that receives its result, element offset).
    """

    shared: tuple[Axis, ...]
    stages: tuple[Stage, ...]
    exports: dict[int, tuple[Buffer, Affine]]
    ordered: bool


def split(kernel: Kernel) -> tuple[tuple[Part, ...], tuple[Buffer, ...]]:
    """Return the parts of a kernel in order, and its scratch buffers: its own, and one for each exported accumulator."""
    cut_parts = _cut_phases(kernel)
    scratch = list(kernel.scratch)
    extents = {a.id: a.extent for shared, stages in cut_parts for a in (*shared, *(x for s in stages for x in s.axes))}
    home: dict[int, int] = {}
    reductions: dict[int, tuple[Reduction, tuple[Axis, ...]]] = {}
    for i, (shared, stages) in enumerate(cut_parts):
        for stage in stages:
            for r in stage.reductions:
                home[r.id] = i
                reductions[r.id] = (r, tuple(a for a in (*shared, *stage.axes) if a not in r.axes))
    exported: dict[int, tuple[Buffer, Affine]] = {}
    number = max((b.id for b in kernel.scratch), default=-1)
    for i, (_, stages) in enumerate(cut_parts):
        for v in walk(roots(stages)):
            if v.op == "acc" and home[v.attr] != i and v.attr not in exported:
                r, free = reductions[v.attr]
                number += 1
                buffer = Buffer(number, r.dtype, (max(size_of(free), 1),), "kernel")
                exported[v.attr] = (buffer, iteration_number(free))
                scratch.append(buffer)
    parts = []
    for i, (shared, stages) in enumerate(cut_parts):
        exports = {k: e for k, e in exported.items() if home[k] == i}
        parts.append(_simplify(shared, stages, exports, {k: e for k, e in exported.items() if home[k] != i}, extents))
    return tuple(parts), tuple(scratch)


def _cut_phases(kernel: Kernel) -> list[tuple[tuple[Axis, ...], tuple[Stage, ...]]]:
    """Return (shared axes, stages) in order; later parts may read accumulators of earlier ones."""
    out: list[tuple[tuple[Axis, ...], tuple[Stage, ...]]] = []
    for phase in kernel.phases:
        pending: list[Stage] = []
        late: list[tuple[tuple[Axis, ...], tuple[Stage, ...]]] = []
        for stage in phase.stages:
            if isinstance(stage, Contraction):
                if pending:
                    out.append((phase.axes, tuple(pending)))
                    pending = []
                out.append(_lower_contraction(phase.axes, stage))
                continue
            if isinstance(stage, Chain):
                raise ValueError("a chain of products cannot be cut into loops: its intermediate matrix would be stored")
            stay: list[Reduction] = []
            for r in stage.reductions:
                free = tuple(a for a in (*phase.axes, *stage.axes) if a not in r.axes)
                if set(free) == set(phase.axes):
                    stay.append(r)
                elif r.carried or set(phase.axes) - set(free):
                    late.append((free, (Stage(r.axes, (r,)),)))
                else:  # the result varies along axes of the stage: it is complete before the next stage reads it
                    if pending:
                        out.append((phase.axes, tuple(pending)))
                        pending = []
                    out.append((free, (Stage(r.axes, (r,)),)))
            if stay or stage.stores:
                # reductions of one stage may differ in the order of their axes: each order needs its own loop
                by_axes: dict[tuple[Axis, ...], list[Reduction]] = {}
                for r in stay:
                    by_axes.setdefault(r.axes, []).append(r)
                last = by_axes.pop(stage.axes, [])  # stores come after all reductions, since they may overwrite operands of these
                pending += [Stage(axes, tuple(group)) for axes, group in by_axes.items()]
                if last or stage.stores:
                    pending.append(Stage(stage.axes, tuple(last), stage.stores))
        if pending:
            out += _separate(phase.axes, pending)
        out += late
    return out


def _separate(shared: tuple[Axis, ...], stages: list[Stage]) -> list[tuple[tuple[Axis, ...], tuple[Stage, ...]]]:
    """Return the parts of stages. Without shared axes each stage with loops is a part, and axes of plain stores are shared."""
    if shared:
        out: list[tuple[tuple[Axis, ...], tuple[Stage, ...]]] = []
        group: list[Stage] = []
        for s in stages:  # scatter-adds run in order, in a part of their own
            if any(x.adds for x in s.stores) and (group or len(stages) > 1):
                if group:
                    out.append((shared, tuple(group)))
                out.append((shared, (s,)))
                group = []
            else:
                group.append(s)
        return out + ([(shared, tuple(group))] if group else [])
    out = []
    for s in stages:
        if any(r.running for r in s.reductions):
            out.append(((), (s,)))
        elif s.reductions and s.stores:
            out.append(((), (Stage(s.axes, s.reductions),)))
            out.append((s.axes, (Stage((), (), s.stores),)))
        elif s.reductions:
            out.append(((), (s,)))
        else:
            out.append((s.axes, (Stage((), (), s.stores),)))
    return out


def _lower_contraction(shared: tuple[Axis, ...], c: Contraction) -> tuple[tuple[Axis, ...], tuple[Stage, ...]]:
    """Return a contraction as a part: a ``dot`` reduction, then its stores."""
    shared_ids = {a.id for a in shared}
    free = tuple(a for a in (*shared, *c.batch, *c.m, *c.n) if a.id not in shared_ids or a in shared)
    a = c.a if c.a.dtype == c.accum else Value("cast", (c.a,), c.accum)
    b = c.b if c.b.dtype == c.accum else Value("cast", (c.b,), c.accum)
    product = Value("mul", (a, b), c.accum)
    dtype = next((v.dtype for v in walk([s.value for s in c.stores]) if v.op == "acc" and v.attr == c.id), c.accum)
    r = Reduction(c.id, c.k, "dot", product, c.accum, dtype, contraction_order(c), precision=c.precision)
    return free, (Stage(c.k, (r,)), Stage((), (), c.stores))


class _Rewriter(Rewriter):
    """Rewrites values: flat accesses, outer accumulators as loads, no merged axes, one object for equal values."""

    def __init__(self, outside: dict[int, tuple[Buffer, Affine]], extents: dict[int, int]) -> None:
        super().__init__({})
        self.outside = outside
        self.extents = extents
        self.gone: set[int] = set()
        self.by_key: dict[tuple, Value] = {}

    def _rewrite_one(self, v: Value) -> Value:
        op, attr, args = v.op, v.attr, tuple([self._done[id(a)][1] for a in v.args])
        key_attr: object
        if op == "acc" and attr in self.outside:
            buffer, place = self.outside[attr]
            op, attr = "load", Access(buffer, (place,))
        if op == "load":
            attr = self.access(attr)
            key_attr = access_key(attr)
        elif op == "index":
            attr = self.affine(attr)
            key_attr = tag(attr)
        elif op == "const":
            key_attr = (type(attr).__name__, repr(attr))
        else:
            key_attr = attr
        key = (op, tuple(map(id, args)), v.dtype, key_attr)
        result = self.by_key.get(key)
        if result is None:
            result = self.by_key[key] = Value(op, args, v.dtype, attr)
        return result

    def affine(self, a: Affine) -> Affine:
        gather = tuple([(self.value(v), c) for v, c in a.gather])
        return Affine(a.const, tuple(t for t in a.terms if t[0] not in self.gone and self.extents[t[0]] > 1), gather)

    def access(self, a: Access) -> Access:
        guard = tuple([(self.affine(g[0]), *g[1:]) for g in a.guard if not self.always_holds(g)])
        buffer = Buffer(a.buffer.id, a.buffer.dtype, (max(prod(a.buffer.shape), 1),), a.buffer.scope)
        return Access(buffer, (self.affine(a.flat()),), guard, a.fill)

    def always_holds(self, guard: Guard) -> bool:
        return not guard[0].gather and always(guard, self.extents)


def _affines(stages: tuple[Stage, ...], places: list[Affine], always_holds) -> list[dict[int, int]]:
    """Return the coefficients of every index expression in the stages."""
    coefficients = [dict(p.terms) for p in places]

    def access(a: Access) -> None:
        coefficients.append(dict(a.flat().terms))
        coefficients.extend(dict(g[0].terms) for g in a.guard if not always_holds(g))

    for v in walk(roots(stages)):
        if v.op == "load":
            access(v.attr)
        elif v.op == "index":
            coefficients.append(dict(v.attr.terms))
    for stage in stages:
        for s in stage.stores:
            access(s.access)
    return coefficients


def _merge(axes: tuple[Axis, ...], coefficients: list[dict[int, int]], gone: set[int]) -> tuple[Axis, ...]:
    """Merge adjacent axes if every index steps through the outer one as a continuation of the inner one."""
    out: list[Axis] = []
    for a in reversed(axes):
        if a.extent == 1:
            gone.add(a.id)
            continue
        if out and all(t.get(a.id, 0) == out[-1].extent * t.get(out[-1].id, 0) for t in coefficients):
            gone.add(a.id)
            out[-1] = Axis(out[-1].id, out[-1].extent * a.extent)
        else:
            out.append(a)
    return tuple(reversed(out))


def _simplify(
    shared: tuple[Axis, ...], stages: tuple[Stage, ...], exports: dict[int, tuple[Buffer, Affine]],
    outside: dict[int, tuple[Buffer, Affine]], extents: dict[int, int],
) -> Part:
    """Return a Part with merged axes and flat accesses."""
    rewriter = _Rewriter(outside, extents)
    places = [place for _, place in exports.values()]
    places += [outside[v.attr][1] for v in walk(roots(stages)) if v.op == "acc" and v.attr in outside]
    coefficients = _affines(stages, places, rewriter.always_holds)
    gone = rewriter.gone
    merged = _merge(shared, coefficients, gone)
    # an axis in the lists of several stages must merge the same way in all of them
    own: dict[tuple[Axis, ...], tuple[Axis, ...]] = {}
    axes_with: dict[int, tuple[Axis, ...]] = {}
    for stage in stages:
        clash = any(axes_with.get(a.id, stage.axes) != stage.axes for a in stage.axes)
        for a in stage.axes:
            axes_with[a.id] = stage.axes
        if stage.axes not in own:
            own[stage.axes] = stage.axes if clash else _merge(stage.axes, coefficients, gone)
    new = []
    for stage in stages:
        axes = own[stage.axes]
        reductions = tuple(replace(r, axes=axes, value=rewriter.value(r.value)) for r in stage.reductions)
        new.append(Stage(axes, reductions, tuple(rewriter.store(s) for s in stage.stores)))
    moved_exports = {k: (b, rewriter.affine(p)) for k, (b, p) in exports.items()}
    ordered = any(s.adds or _collides(s, merged) for stage in new for s in stage.stores)
    return Part(merged, tuple(new), moved_exports, ordered)


def _collides(store: Store, shared: tuple[Axis, ...]) -> bool:
    """Return whether two shared iterations may write the same element."""
    terms = dict(store.access.index[0].terms)
    if store.mode == "own":
        return False
    return bool(store.access.index[0].gather) or any(a.id not in terms for a in shared)


def used_axes(part: Part) -> set[int]:
    """Return the ids of the axes that any value of the part depends on."""
    cache: dict[int, frozenset] = {}
    axes: set[int] = set()
    for v in roots(part.stages):
        axes |= {d for d in dependencies(v, cache) if not isinstance(d, tuple)}
    return axes


def iteration_number(axes: tuple[Axis, ...]) -> Affine:
    """Return the number of an iteration of some axes, the last of which runs fastest."""
    step, place = 1, Affine()
    for a in reversed(axes):
        place = place.plus(along(a, step))
        step *= a.extent
    return place


def split_by_stage(part: Part, number: int) -> tuple[list[Part], list[Buffer]]:
    """Return (parts of one stage each, new scratch buffers, numbered from ``number`` on).

    A part has either reductions or stores, except if the stores read a running fold and may run in any order.
    """
    place, rows = iteration_number(part.shared), max(size_of(part.shared), 1)
    replacements: dict[int, Value] = {}
    parts: list[Part] = []
    scratch: list[Buffer] = []

    def exported(r: Reduction) -> tuple[Buffer, Affine]:
        nonlocal number
        if r.id in part.exports:
            return part.exports[r.id]
        scratch.append(Buffer(number, r.dtype, (rows,), "kernel"))
        number += 1
        return scratch[-1], place

    for stage in part.stages:
        change = Rewriter(replacements)
        reductions = tuple(replace(r, value=change.value(r.value)) for r in stage.reductions)
        if any(r.running for r in reductions):
            stores = tuple(map(change.store, stage.stores))
            if part.ordered:  # partial results go through scratch, too
                all_axes = (*part.shared, *stage.axes)
                partial_stores: list[Store] = []
                for r in reductions:
                    scratch.append(Buffer(number, r.dtype, (max(size_of(all_axes), 1),), "kernel"))
                    number += 1
                    partial_result = Access(scratch[-1], (iteration_number(all_axes),))
                    partial_stores.append(Store(partial_result, Value("acc", (), r.dtype, r.id)))
                    replacements[r.id] = Value("load", (), r.dtype, partial_result)
                parts.append(Part(part.shared, (Stage(stage.axes, reductions, tuple(partial_stores)),), {}, False))
                stores = tuple(map(Rewriter(replacements).store, stores))
                parts.append(Part(all_axes, (Stage((), (), stores),), {}, True))
            else:
                parts.append(Part(part.shared, (Stage(stage.axes, reductions, stores),), {}, False))
            continue
        if reductions:
            exports = {r.id: exported(r) for r in reductions}
            parts.append(Part(part.shared, (Stage(stage.axes, reductions),), exports, False))
            for r in reductions:
                buffer, at = exports[r.id]
                replacements[r.id] = Value("load", (), r.dtype, Access(buffer, (at,)))
            change = Rewriter(replacements)
        if stage.stores:
            stores = tuple(map(change.store, stage.stores))
            parts.append(Part((*part.shared, *stage.axes), (Stage((), (), stores),), {}, part.ordered))
    return parts, scratch


def join_axes(stores: tuple[Store, ...], axes: tuple[Axis, ...], joined: Axis) -> tuple[Store, ...] | None:
    """Return the stores with ``joined`` in place of ``axes`` (last fastest), or None if an index needs them separately."""
    ids = {a.id for a in axes}
    steps, step = {}, 1
    for axis in reversed(axes):
        steps[axis.id] = step
        step *= axis.extent

    def affine(index: Affine) -> Affine | None:
        terms = dict(index.terms)
        coefs = {i: terms.pop(i) for i in ids & set(terms)}
        unit = next((c // steps[i] for i, c in coefs.items() if steps[i] and c % steps[i] == 0), 0)
        if index.gather or any(coefs.get(a.id, 0) != unit * steps[a.id] for a in axes if a.extent > 1):
            return None if coefs or index.gather else index
        if unit:
            terms[joined.id] = unit
        return Affine(index.const, tuple(sorted(terms.items())))

    def access(a: Access) -> Access | None:
        if any(set(dict(g.terms)) & ids or g.gather for g, _, _ in a.guard):
            return None
        flat = affine(a.flat())
        if flat is None:
            return None
        return Access(Buffer(a.buffer.id, a.buffer.dtype, (prod(a.buffer.shape),), a.buffer.scope), (flat,), a.guard, a.fill)

    memo: dict[int, Value | None] = {}

    def value(v: Value) -> Value | None:
        if id(v) not in memo:
            memo[id(v)] = rewrite(v)
        return memo[id(v)]

    def rewrite(v: Value) -> Value | None:
        attr = v.attr
        if v.op == "load":
            attr = access(attr)
        elif v.op == "index":
            attr = affine(attr)
        args = tuple([value(a) for a in v.args])
        if any(a is None for a in args) or (attr is None and v.attr is not None):
            return None
        return replace(v, args=args, attr=attr)  # type: ignore[arg-type]

    out = []
    for store in stores:
        new_access, new_value = access(store.access), value(store.value)
        if new_access is None or new_value is None:
            return None
        out.append(Store(new_access, new_value, store.mode))
    return tuple(out)


def work(stores: tuple[Store, ...]) -> int:
    """Return about how many instructions the stores take for one vector."""
    free = ("const", "acc", "scalar")
    values = each([s.value for s in stores])
    return len(stores) + sum(
        0 if v.op in free else 30 if v.op in MACHINE_OPERATIONS and MACHINE_OPERATIONS[v.op].costly else 1 for v in values
    )
