"""Find outputs of a kernel that may overwrite an input, from the order of execution that ``ir`` states.

An output may overwrite an input if every read of an element precedes the write to it. Each such precedence relies on one named
part of the order, and a device lists the parts that its code keeps (``Target.kept_orders``): "phases", "iterations" (the stages
within
a shared iteration run one after the other) and "elements" (an element is read before it is stored).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from weft.kernel.expressions import access_values, axes_of, loads, stores_of, values_outside_stores
from weft.kernel.ir import Access, Affine, Chain, Contraction, Kernel, Phase, Stage, Store
from weft.kernel.target import EVERY

PHASES, ITERATIONS, ELEMENTS = "phases", "iterations", "elements"


class _Read(NamedTuple):
    """first_store: the first store of the stage that needs the value, -1 if needed earlier. operand: whether a product reads it.
    """

    phase: int
    stage: int
    first_store: int
    operand: bool
    access: Access


class _Write(NamedTuple):
    """A store to an argument.

    number: position among the stores of its stage.
    conditional: whether the store is guarded or adds.
    rewrites: whether several iterations may write an element.
    source: the input that the store copies element by element, or -1.
    """

    phase: int
    stage: int
    number: int
    access: Access
    conditional: bool
    rewrites: bool
    source: int


def in_place(kernel: Kernel, keeps: frozenset[str] = EVERY) -> list[tuple[int, int]]:
    """Return the (input, output) positions that may share memory on a device that ``keeps`` these orders."""
    out = []
    sizes = {prod(o.shape) for o in kernel.outputs}
    candidates = {b.id for b in (*kernel.inputs, *kernel.outputs) if prod(b.shape) in sizes}
    reads: dict[int, list[_Read]] = {}
    writes: dict[int, list[_Write]] = {}
    for p, phase in enumerate(kernel.phases):
        for s, stage in enumerate(phase.stages):
            for read in _reads(phase, p, stage, s):
                if read.access.buffer.id in candidates and read.access.buffer.scope == "arg":
                    reads.setdefault(read.access.buffer.id, []).append(read)
            for k, store in enumerate(stores_of(stage)):
                at = store.access
                if at.buffer.scope == "arg":
                    conditional = store.mode != "own" and (store.adds or bool(at.guard))
                    rewrites, source = _rewrites(phase, stage, store), _copied_input(store, at.flat())
                    writes.setdefault(at.buffer.id, []).append(_Write(p, s, k, at, conditional, rewrites, source))
    for i in kernel.inputs:
        for o in kernel.outputs:
            if i.dtype.bits != o.dtype.bits or prod(i.shape) != prod(o.shape) or o.id not in writes:
                continue
            changes = [w for w in writes[o.id] if w.source != i.id]  # a copy onto itself changes nothing
            if all(_ordering_of(kernel, r, w) in keeps for r in reads.get(i.id, ()) for w in changes):
                out.append((i.id, o.id - len(kernel.inputs)))
    return out


def _reads(phase: Phase, p: int, stage: Stage | Contraction | Chain, s: int) -> Iterator[_Read]:
    """Yield every read of a stage. Stores run in a loop after the reductions', so a value used by both is read twice."""
    product = not isinstance(stage, Stage)
    for access in loads(values_outside_stores(stage)):
        yield _Read(p, s, -1, product, access)
    if isinstance(stage, Stage):
        for access in loads([r.value for r in stage.reductions if r.is_carried]):
            yield _Read(p, len(phase.stages), -1, False, access)
    seen: set[int] = set()
    for k, store in enumerate(stores_of(stage)):
        for access in loads([store.value, *access_values(store.access)], seen):
            yield _Read(p, s, k, False, access)


def _ordering_of(kernel: Kernel, read: _Read, write: _Write) -> str | None:
    """Return the part of the order that puts a read before a write to the same element, or None."""
    if read.phase < write.phase:
        return PHASES
    if read.operand or read.phase > write.phase or write.conditional:
        return None
    flat, aim, p = read.access.flat(), write.access.flat(), write.phase
    if read.stage == write.stage:
        same = flat == aim and not write.rewrites or _same_iteration_only(kernel.phases[p], read, write)
        return ELEMENTS if same and read.first_store <= write.number else None
    if read.stage > write.stage or not kernel.phases[p].axes:
        return None
    shared = {a.id for a in kernel.phases[p].axes}
    if flat.gather and _within_row(kernel, p, write.access, shared, read.access):
        return ITERATIONS
    along_shared, written = ([t for t in a.terms if t[0] in shared] for a in (flat, aim))
    return ITERATIONS if along_shared == written and _same_row(kernel, p, aim, shared, flat) else None


def _same_iteration_only(phase: Phase, read: _Read, write: _Write) -> bool:
    """Return whether an element can be written only by the iteration that reads it, whatever the gathered indices are.

    This holds if each loop of more than one iteration runs along a dimension of its own in which both indices are equal: for
    instance rows of a table, read and written at gathered indices, column by column. A stage of one iteration has no such loop.
    """
    stage, a, b = phase.stages[write.stage], read.access, write.access
    if not isinstance(stage, Stage) or (a.buffer.shape, a.buffer.order) != (b.buffer.shape, b.buffer.order):
        return False
    equal = [i for i, j in zip(a.index, b.index, strict=True) if i == j and not i.gather]
    distinct = {i.terms[0][0] for i in equal if len(i.terms) == 1}
    return all(x.extent <= 1 or x.id in distinct for x in (*phase.axes, *stage.axes))


def copies(kernel: Kernel) -> dict[tuple[int, int], int]:
    """Return (input, output) positions -> the phase that only copies the input to the output. In place it does nothing."""
    out = {}
    for p, phase in enumerate(kernel.phases):
        stage = phase.stages[0]
        if len(phase.stages) == 1 and isinstance(stage, Stage) and not stage.reductions and len(stage.stores) == 1:
            (store,) = stage.stores
            source = _copied_input(store, store.access.flat())
            if source >= 0:
                out[source, store.access.buffer.id - len(kernel.inputs)] = p
    return out


def _copied_input(store: Store, aim: Affine) -> int:
    """Return the id of the input that a store copies element by element, or -1."""
    source = store.value.attr
    whole = store.value.op == "load" and source.buffer.scope == "arg" and not source.guard and not store.access.guard
    same = whole and source.buffer.dtype == store.access.buffer.dtype and store.mode == "set" and source.flat() == aim
    return source.buffer.id if same else -1


def _rewrites(phase: Phase, stage: Stage | Contraction | Chain, store: Store) -> bool:
    """Return whether several iterations may write one element, as a scatter into one row does: each reads the previous value."""
    used = {a for index in store.access.index for a, _ in index.terms}
    loops = (*phase.axes, *stage.axes) if isinstance(stage, Stage) and store.mode != "own" else ()
    return any(a.extent > 1 and a.id not in used for a in loops)


def _within_row(kernel: Kernel, p: int, target: Access, shared: set[int], read: Access) -> bool:
    """Return whether a gathered read of an earlier stage stays inside a row that its own shared iteration writes completely."""
    extents = {a.id: a.extent for s in kernel.phases[p].stages for a in axes_of(s)}
    if (read.buffer.shape, read.buffer.order) != (target.buffer.shape, target.buffer.order):
        return False
    for r, t, n in zip(read.index, target.index, target.buffer.shape, strict=True):
        run = t.axis()
        if t.gather or {a for a, _ in r.terms} - shared:
            return False
        whole = run is not None and run not in shared and extents[run] == n
        if not whole and (r.gather or (r.const, r.terms) != (t.const, t.terms) or {a for a, _ in t.terms} - shared):
            return False
    return True


def _same_row(kernel: Kernel, p: int, target: Affine, shared: set[int], read: Affine) -> bool:
    """Return whether an earlier stage's read stays inside the elements that its own shared iteration writes."""
    extents = {a.id: a.extent for phase in kernel.phases[p: p + 1] for s in phase.stages for a in axes_of(s)}
    if read.gather or target.gather or read.const != target.const:
        return False
    read_terms = sorted((c, extents[a]) for a, c in read.terms if a not in shared)
    written_terms = sorted((c, extents[a]) for a, c in target.terms if a not in shared)
    return read_terms == written_terms
