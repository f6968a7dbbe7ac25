"""Unroll short loops of a kernel, and join the loop nests that remain.

A concatenation along an axis of three elements makes every iteration compute all parts and select one of them. With the axis
unrolled, each store computes its own part, and expressions that several stores need are computed once.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TypeGuard

from weft.dtypes.formats import BOOL
from weft.kernel.expressions import Machine, axes_of, loads, operands, roots, walk
from weft.kernel.hazards import in_place
from weft.kernel.index import always_holds, never_holds
from weft.kernel.ir import Access, Affine, Axis, Chain, Contraction, Kernel, Phase, Stage, Store, Value, axis_index, size_of
from weft.kernel.stages import iteration_number

SHORT = 8  # iterations of a shared loop that is unrolled
NARROW = 4  # iterations of a last axis that vectors do not follow
MAX_COPIES = 16  # of the stores of one stage
MAX_VALUES = 1500  # of a stage
_COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}


def unroll(kernel: Kernel) -> Kernel:
    """Return a kernel with the same results, bit for bit, that computes values of short loops fewer times."""
    m = Machine()
    extents = {a.id: a.extent for p in kernel.phases for s in p.stages for a in (*p.axes, *axes_of(s))}
    phases = [_unroll_phase(m, phase, extents) for phase in kernel.phases]
    if all(new is old for new, old in zip(phases, kernel.phases, strict=True)):
        return kernel
    pairs = in_place(kernel)
    overwritten = {i for i, _ in pairs}
    out: list[Phase] = []
    for phase in phases:
        joined = _join_phases(m, out[-1], phase, overwritten) if out else None
        out[len(out) - (joined is not None):] = [joined or phase]
    new = replace(kernel, phases=tuple(out))
    return new if _reads_before_writes(new, pairs) else kernel


def _reads_before_writes(kernel: Kernel, pairs: Sequence[tuple[int, int]]) -> bool:
    """Return whether no stage reads an element of an input after it stored the one of an output that may lie there.

    A stored value that needed the element only in a part that was folded away is stored before another value reads the element.
    """
    outputs: dict[int, list[int]] = {}
    for i, o in pairs:
        outputs.setdefault(i, []).append(kernel.outputs[o].id)
    for stage in [s for phase in kernel.phases for s in phase.stages if isinstance(s, Stage)]:
        written: set[tuple[int, Affine]] = set()
        seen: set[int] = set()
        for store in stage.stores:
            for access in loads([store.value], seen):
                if access.buffer.scope == "arg" and any((o, access.flat()) in written for o in outputs.get(access.buffer.id, ())):
                    return False
            if store.access.buffer.scope == "arg":
                written.add((store.access.buffer.id, store.access.flat()))
    return True


def _unroll_phase(m: Machine, phase: Phase, extents: Mapping[int, int]) -> Phase:
    """Unroll short loops: those of stages that only store, and shared ones if all stages are such."""
    plain = [s for s in phase.stages if _only_stores(s)]
    short = _choosing_axes(phase, extents) if len(plain) == len(phase.stages) else ()
    axes = tuple([a for a in phase.axes if a not in short])
    if not axes or not any(short or s.axes for s in plain):
        return phase
    stages: list[Stage | Contraction | Chain] = []
    for s in phase.stages:
        new = _unroll_stage(m, s, (*short, *s.axes), extents) if _only_stores(s) else s
        if stages and (joined := _join_stages(stages[-1], new)):
            stages[-1] = joined
        else:
            stages.append(new)
    whole = not short or all(isinstance(s, Stage) and not s.axes for s in stages)
    return Phase(axes, tuple(stages)) if whole else phase


def _only_stores(stage: Stage | Contraction | Chain) -> TypeGuard[Stage]:
    """Return whether a stage does nothing but store, without gathered indices and checks, one value for each iteration."""
    if not isinstance(stage, Stage) or stage.reductions or not stage.stores or any(s.mode != "set" for s in stage.stores):
        return False
    gathers = any(i.gather for s in stage.stores for i in (*s.access.index, *(g[0] for g in s.access.guard)))
    return not gathers and not any(v.op == "check" or (v.op in ("load", "index") and operands(v)) for v in walk(roots([stage])))


def _choosing_axes(phase: Phase, extents: Mapping[int, int]) -> tuple[Axis, ...]:
    """Return short shared axes on which conditions depend, the inner ones first, as long as the copies are few.

    None if the last axis is short: vectors may lie along others.
    """
    if size_of(phase.axes[-1:]) <= NARROW:
        return ()
    used: set[int] = set()
    values = walk(roots(phase.stages))
    for v in values:
        conditions = [v.attr] if v.op == "index" else [g[0] for g in v.attr.guard] if v.op == "load" else []
        used |= {a for affine in conditions for a, _ in affine.terms}
    found: list[Axis] = []
    for a in reversed(phase.axes[:-1]):
        if a.extent <= SHORT and a.id in used and a.extent * size_of(tuple(found)) <= MAX_COPIES:
            found.insert(0, a)
    return tuple(found)


def _unroll_stage(m: Machine, stage: Stage, axes: tuple[Axis, ...], extents: Mapping[int, int]) -> Stage:
    """Return a stage with one copy of the stores for each iteration of ``axes``, or with these loops if that is too long."""
    copies = size_of(axes)
    if not axes or copies > MAX_COPIES or copies * len(walk(roots([stage]))) > MAX_VALUES:
        return replace(stage, axes=axes)
    stores: list[Store] = []
    for place in product(*[range(a.extent) for a in axes]):
        stores += substitute(m, stage.stores, {a.id: Affine(k) for a, k in zip(axes, place, strict=True)}, extents)
    return Stage((), (), tuple(stores))


def _join_stages(one: Stage | Contraction | Chain, two: Stage | Contraction | Chain) -> Stage | None:
    """Return one stage for two without loops, or None if the second reads what the first stores."""
    if not (_only_stores(one) and _only_stores(two)) or one.axes or two.axes:
        return None
    written = {(s.access.buffer.scope, s.access.buffer.id) for s in one.stores}
    values = walk(roots([two]))
    if any(v.op == "load" and (v.attr.buffer.scope, v.attr.buffer.id) in written for v in values):
        return None
    return Stage((), (), (*one.stores, *two.stores)) if len(values) + len(walk(roots([one]))) <= MAX_VALUES else None


def _join_phases(m: Machine, first: Phase, second: Phase, overwritten: set[int]) -> Phase | None:
    """Return one phase for two with equal loops, or None if an iteration may touch what another one stores.

    overwritten : the inputs that may share memory with an output
    """
    a, b = first.axes, second.axes
    if not a or [x.extent for x in a] != [x.extent for x in b] or len(first.stages) > 1 or len(second.stages) > 1:
        return None
    one, two = first.stages[0], second.stages[0]
    if not (_only_stores(one) and _only_stores(two) and all(_keeps_to_column(p, overwritten) for p in (first, second))):
        return None
    extents = {x.id: x.extent for x in a}
    renamed = {old.id: axis_index(new) for old, new in zip(b, a, strict=True)}
    stages = [replace(s, stores=tuple(substitute(m, s.stores, at, extents))) for s, at in ((one, {}), (two, renamed))]
    joined = _join_stages(*stages)
    return None if joined is None else Phase(a, (joined,))


def _keeps_to_column(phase: Phase, overwritten: set[int]) -> bool:
    """Return whether iteration k of n uses only elements k, k + n, k + 2n, ... of memory that is written."""
    number, count = iteration_number(phase.axes), size_of(phase.axes)

    def keeps(access: Access) -> bool:
        flat = access.flat()
        return flat.terms == number.terms and flat.const % count == 0

    reads = [v.attr for v in walk(roots(phase.stages)) if v.op == "load"]
    stores = [s.access for stage in phase.stages for s in getattr(stage, "stores", ())]
    return all(map(keeps, stores)) and all(keeps(x) for x in reads if x.buffer.scope != "arg" or x.buffer.id in overwritten)


def substitute(m: Machine, stores: Sequence[Store], at: Mapping[int, Affine], extents: Mapping[int, int]) -> list[Store]:
    """Return the stores with some axes replaced by indices. What becomes constant is folded."""
    done: dict[int, Value] = {}

    def move(affine: Affine) -> Affine:
        out = Affine(affine.const, tuple([t for t in affine.terms if t[0] not in at]))
        for axis, coef in affine.terms:
            if axis in at:
                out = out.plus(at[axis], coef)
        return out

    def place(a: Access) -> Access:
        guards = [(move(i), low, high) for i, low, high in a.guard]
        return Access(a.buffer, tuple(map(move, a.index)), tuple([g for g in guards if not always_holds(g, extents)]), a.fill)

    def rebuild(v: Value) -> Value:
        args = [done[id(x)] for x in v.args]
        if v.op == "load":
            access = place(v.attr)
            return m.const(access.fill, v.dtype) if never_holds(access.guard, extents) else m.load(access)
        if v.op == "index":
            return m.index(move(v.attr))
        if v.op in ("const", "scalar", "acc"):
            return m.const(v.attr, v.dtype) if v.op == "const" else getattr(m, v.op)(v.attr, v.dtype)
        if v.op == "select":
            return m.select(*args) if args[0].op != "const" else args[1] if args[0].attr else args[2]
        if v.op in _COMPARISONS and all(x.op == "const" and isinstance(x.attr, int) for x in args):
            return m.const(_COMPARISONS[v.op](args[0].attr, args[1].attr), BOOL)
        return m.make(v.op, args, v.dtype)

    moved = []
    for s in stores:
        for v in walk([s.value]):
            if id(v) not in done:
                done[id(v)] = rebuild(v)
        access = place(s.access)
        if not never_holds(access.guard, extents):
            moved.append(Store(access, done[id(s.value)], s.mode))
    return moved
