"""Memory traffic of a kernel, in bytes."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from weft.kernel.expressions import axes_of, loads, roots, stores_of
from weft.kernel.ir import Access, Kernel

_MAX_LISTED = 4096  # extents up to this are tracked position by position
Box = tuple[tuple[int, int], ...] | int


def traffic(kernel: Kernel, idle: frozenset[int] = frozenset()) -> int:
    """Return the bytes that a kernel reads and writes, counting each element once. Phases in ``idle`` do not run."""
    extents: dict[int, int] = {}
    boxes: dict[int, list[Box]] = {}
    for number, phase in enumerate(kernel.phases):
        if number in idle:
            continue
        for axis in phase.axes:
            extents[axis.id] = axis.extent
        for stage in phase.stages:
            count = 1
            for axis in dict.fromkeys((*phase.axes, *axes_of(stage))):
                extents[axis.id] = axis.extent
                count *= axis.extent
            for access in (*loads(roots([stage])), *(s.access for s in stores_of(stage))):
                if access.buffer.scope != "arg":
                    continue
                box = _box(access, extents, count)
                if box not in (regions := boxes.setdefault(access.buffer.id, [])):
                    regions.append(box)
    total = 0
    for buffer in (*kernel.inputs, *kernel.outputs):
        total += min(prod(buffer.shape), _union(boxes.get(buffer.id, []), buffer.shape)) * buffer.dtype.bytes
    return total


def _box(access: Access, extents: dict[int, int], loops: int) -> Box:
    """Return the region of an access: (count, bit mask of positions) for each dimension, or only a number of elements."""
    used: set[int] = set()
    out = []
    for i, n in zip(access.index, access.buffer.shape, strict=True):
        if i.gather or any(a in used for a, _ in i.terms):
            return loops
        used.update(a for a, _ in i.terms)
        if len(i.terms) == 1 and i.const == 0 and i.terms[0][1] == 1 and extents[i.terms[0][0]] == n:
            out.append((n, -1))
        else:
            low, high = 0, n
            for g, lo, hi in access.guard:
                if g.terms and g.terms == i.terms and not g.gather:
                    low, high = max(low, lo - g.const + i.const), min(high, hi - g.const + i.const)
            out.append(_positions(i.const, tuple([(c, extents[a]) for a, c in i.terms]), low, high, n))
    return tuple(out)


@lru_cache(maxsize=4096)
def _positions(const: int, terms: tuple[tuple[int, int], ...], low: int, high: int, extent: int) -> tuple[int, int]:
    """Return how many positions in [low, high) an index takes, and which, as a bit mask. The mask is -1 for all of [0, extent).

    A negative mask other than -1 means that the positions were not listed.
    """
    work = prod([n for _, n in terms])
    if work > _MAX_LISTED or extent > _MAX_LISTED:
        reach = sum(abs(c) * (n - 1) for c, n in terms) + 1
        count = min(high - low, reach, work)
        return count, -1 if count == extent else -2 - const
    values = {const}
    for c, n in terms:
        values = {v + c * k for v in values for k in range(n)}
    mask = 0
    for v in values:
        if low <= v < high:
            mask |= 1 << v
    count = mask.bit_count()
    return count, -1 if count == extent else mask


def _merge_positions(one: tuple[int, int], other: tuple[int, int], extent: int) -> tuple[int, int]:
    """Return the union of the positions of two boxes along one dimension."""
    (m, a), (n, b) = one, other
    if -1 in (a, b):
        return extent, -1
    if min(a, b) < 0:
        return min(extent, m + n), -2
    count = (a | b).bit_count()
    return count, -1 if count == extent else a | b


def _union(boxes: list[Box], extents: tuple[int, ...]) -> int:
    """Return the number of elements in all boxes together. The union is exact for boxes that differ in one dimension only."""
    merged: list[tuple] = []
    total = 0
    waiting = list(reversed(boxes))
    while waiting:
        box = waiting.pop()
        if not isinstance(box, tuple):
            total += box
            continue
        for k, other in enumerate(merged):
            if box == other:
                break
            differ = [d for d, (a, b) in enumerate(zip(box, other, strict=True)) if a != b]
            if len(differ) == 1:
                d = differ[0]
                (m, a), (n, b) = box[d], other[d]
                both = _merge_positions((m, a), (n, b), extents[d])
                del merged[k]
                waiting.append((*box[:d], both, *box[d + 1:]))
                break
        else:
            merged.append(box)
    return total + sum([prod([n for n, _ in box]) for box in merged])
