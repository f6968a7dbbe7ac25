"""Where results live: an arena for temporaries, and which outputs may take an input's memory."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence

from weft.kernel.ir import Access, Affine, Contraction, Kernel, Phase, Stage, Store, Value
from weft.kernel.walk import each

ALIGN = 64
MANY = 1000  # temporaries; above, their places are sought in a way that takes less time and may take more memory
_Read = tuple[int, int, int, bool, Access]  # phase, stage, first store that needs it, whether a product's operand, place
_Write = tuple[int, int, int, Access, bool, bool, int]  # phase, stage, which store, place, whether it is guarded or adds
# (``own`` is neither), whether an element is written again, and the input of which it is a copy, element by element, or -1


def aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN


def arena(sizes: Sequence[int], lives: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Offsets for temporaries, and the size of the whole.

    Parameters
    ----------
    sizes : bytes of each
    lives : (step that writes it, last step that reads it) of each, both inclusive

    The largest are placed first, each into the lowest gap that is free over its whole life; where there are very many, in the
    order in which they are written, each into the lowest gap that is free then.
    """
    if len(sizes) > MANY:
        return _swept(sizes, lives)
    offsets = [0] * len(sizes)
    placed: list[int] = []
    total = 0
    for k in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        need = aligned(sizes[k])
        begin, end = lives[k]
        taken = sorted(
            (offsets[o], offsets[o] + aligned(sizes[o])) for o in placed if lives[o][0] <= end and begin <= lives[o][1]
        )
        at = 0
        for low, high in taken:
            if low - at >= need:
                break
            at = max(at, high)
        offsets[k] = at
        total = max(total, at + need)
        placed.append(k)
    return offsets, total


def _swept(sizes: Sequence[int], lives: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Step by step: a gap for what is written, and what was read last is a gap again."""
    offsets, total = [0] * len(sizes), 0
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for k, (begin, end) in enumerate(lives):
        begins.setdefault(begin, []).append(k)
        ends.setdefault(end, []).append(k)
    gaps: list[tuple[int, int]] = []  # (begin, end), in order
    for step in sorted(begins.keys() | ends.keys()):
        for k in sorted(begins.get(step, ()), key=lambda i: (-sizes[i], i)):
            need = aligned(sizes[k])
            for place, (low, high) in enumerate(gaps):
                if high - low >= need:
                    gaps[place : place + 1] = [(low + need, high)] if high - low > need else []
                    offsets[k] = low
                    break
            else:
                if gaps and gaps[-1][1] == total:  # the last gap grows
                    offsets[k] = gaps.pop()[0]
                else:
                    offsets[k] = total
                total = offsets[k] + need
        for k in ends.get(step, ()):
            low, high = offsets[k], offsets[k] + aligned(sizes[k])
            place = bisect(gaps, (low, high))
            if place < len(gaps) and gaps[place][0] == high:
                high = gaps.pop(place)[1]
            if place and gaps[place - 1][1] == low:
                place -= 1
                low = gaps.pop(place)[0]
            if low < high:
                gaps.insert(place, (low, high))
    return offsets, total


def loads(values: Sequence[Value], seen: set[int] | None = None) -> Iterator[Access]:
    """Every access that the values read, gathered indices included; each shared value once, those ``seen`` not."""
    return (v.attr for v in each(values, seen) if v.op == "load")


def values_of(stage: Stage | Contraction) -> list[Value]:
    out = [s.value for s in stage.stores]
    for s in stage.stores:
        out.extend(_where(s.access))
    if isinstance(stage, Contraction):
        return [*out, stage.a, stage.b]
    return [*out, *(r.value for r in stage.reductions)]


def _where(access: Access) -> list[Value]:
    """The values that say where an access is."""
    return [v for affine in (*access.index, *(g[0] for g in access.guard)) for v, _ in affine.gather]


def in_place(kernel: Kernel) -> list[tuple[int, int]]:
    """(input, output) positions of a kernel that may be one piece of memory.

    Legal where the input is read, from the first phase that writes the output on, only where and when the
    output's own element is written, or earlier in the same shared iteration. An element's stores are made one after
    the other, so what only a later store needs is read too late; what a carried reduction reads is read last of all.
    """
    out = []
    sizes = {_size(o.shape) for o in kernel.outputs}
    wanted = {b.id for b in (*kernel.inputs, *kernel.outputs) if _size(b.shape) in sizes}
    reads: dict[int, list[_Read]] = {}
    writes: dict[int, list[_Write]] = {}
    for p, phase in enumerate(kernel.phases):
        for s, stage in enumerate(phase.stages):
            operands = {id(a) for a in loads([stage.a, stage.b])} if isinstance(stage, Contraction) else set()
            for access, when in _in_order(stage):
                if access.buffer.id in wanted and access.buffer.scope == "arg":
                    reads.setdefault(access.buffer.id, []).append((p, s, when, id(access) in operands, access))
            carried = [r.value for r in getattr(stage, "reductions", ()) if r.carried]
            for access in loads(carried):  # code generators reduce over shared axes once all their iterations are done
                if access.buffer.id in wanted and access.buffer.scope == "arg":
                    reads.setdefault(access.buffer.id, []).append((p, len(phase.stages), -1, False, access))
            for k, store in enumerate(stage.stores):
                at = store.access
                if at.buffer.scope != "arg":
                    continue
                special = store.mode != "own" and (store.mode == "add" or bool(at.guard))
                again, source = _again(phase, stage, store), _copied(store, at.flat())
                writes.setdefault(at.buffer.id, []).append((p, s, k, at, special, again, source))
    for i in kernel.inputs:
        for o in kernel.outputs:
            if i.dtype.itemsize != o.dtype.itemsize or _size(i.shape) != _size(o.shape) or o.id not in writes:
                continue
            changes = [w for w in writes[o.id] if w[6] != i.id]  # in place, a copy changes nothing
            if all(_harmless(kernel, r, changes) for r in reads.get(i.id, ())):
                out.append((i.id, o.id - len(kernel.inputs)))
    return out


def _in_order(stage: Stage | Contraction) -> Iterator[tuple[Access, int]]:
    """Every access with the number of the first store that needs it; -1: needed before any.

    Stores have a loop of their own, after the reductions': what both need is read twice.
    """
    before = [stage.a, stage.b] if isinstance(stage, Contraction) else [r.value for r in stage.reductions]
    for access in loads(before):
        yield access, -1
    seen: set[int] = set()
    for k, store in enumerate(stage.stores):
        for access in loads([store.value, *_where(store.access)], seen):
            yield access, k


def copies(kernel: Kernel) -> dict[tuple[int, int], int]:
    """(input, output) positions -> the phase that only copies the one to the other; in place it does nothing."""
    out = {}
    for p, phase in enumerate(kernel.phases):
        stage = phase.stages[0]
        if len(phase.stages) == 1 and isinstance(stage, Stage) and not stage.reductions and len(stage.stores) == 1:
            (store,) = stage.stores
            source = _copied(store, store.access.flat())
            if source >= 0:
                out[source, store.access.buffer.id - len(kernel.inputs)] = p
    return out


def _copied(store: Store, aim: Affine) -> int:
    """The input of which a store is a copy, element by element, or -1."""
    source = store.value.attr
    whole = store.value.op == "load" and source.buffer.scope == "arg" and not source.guard and not store.access.guard
    same = whole and source.buffer.dtype == store.access.buffer.dtype and store.mode == "set" and source.flat() == aim
    return source.buffer.id if same else -1


def _harmless(kernel: Kernel, read: _Read, writes: list[_Write]) -> bool:
    phase, stage, when, operand, access = read
    flat = access.flat()
    for p, s, k, target, special, again, _ in writes:
        aim = target.flat()
        if phase < p:
            continue
        if operand or phase > p or special:
            return False
        if s == stage:
            if flat != aim or when > k or again:
                return False
            continue
        if stage > s or not kernel.phases[p].axes:
            return False
        shared = {a.id for a in kernel.phases[p].axes}
        if flat.gather and not special and _within_row(kernel, p, target, shared, access):
            continue
        if _only(flat, shared) != _only(aim, shared) or not _same_row(kernel, p, aim, shared, flat):
            return False
    return True


def _again(phase: Phase, stage: Stage | Contraction, store: Store) -> bool:
    """Whether an element may be written in several iterations, as a scatter's into one row is: each reads what it was before."""
    used = {a for index in store.access.index for a, _ in index.terms}
    loops = (*phase.axes, *stage.axes) if isinstance(stage, Stage) and store.mode != "own" else ()
    return any(a.extent > 1 and a.id not in used for a in loops)


def _only(flat: Affine, axes: set[int]) -> tuple:
    return tuple(t for t in flat.terms if t[0] in axes)


def _within_row(kernel: Kernel, p: int, target: Access, shared: set[int], read: Access) -> bool:
    """Whether an earlier stage's read at a gathered index stays inside a row that its own shared iteration writes as a whole."""
    extents = {a.id: a.extent for s in kernel.phases[p].stages for a in _axes(s)}
    if read.buffer.shape != target.buffer.shape:
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
    """Whether an earlier stage's read stays inside the elements that its own shared iteration writes."""
    extents = {a.id: a.extent for phase in kernel.phases[p: p + 1] for s in phase.stages for a in _axes(s)}
    if read.gather or target.gather or read.const != target.const:
        return False
    mine = sorted((c, extents[a]) for a, c in read.terms if a not in shared)
    written = sorted((c, extents[a]) for a, c in target.terms if a not in shared)
    return mine == written


def _axes(stage: Stage | Contraction):
    if isinstance(stage, Stage):
        return (*stage.axes, *(a for r in stage.reductions for a in r.axes))
    return (*stage.batch, *stage.m, *stage.n, *stage.k)


def _size(shape: tuple[int, ...]) -> int:
    n = 1
    for e in shape:
        n *= e
    return n
