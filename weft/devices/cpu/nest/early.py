"""Costly values that a column reduction computes and the stores need again, kept where the result will lie.

Softmax down the columns: the second pass writes the exponentials it sums into the result, the third divides them
there. (Rows are short enough for an array of their own: row_scratch.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weft.devices.cpu.nest.nest import Nest, instructions
from weft.devices.cpu.nest.row_scratch import LEAST, Canon
from weft.kernel.ir import Access, Affine, Stage, Store, Value
from weft.kernel.walk import dependencies, each, uppermost, walk


@dataclass(frozen=True, slots=True)
class Early:
    """``value`` of the stage ``maker`` is stored by ``store``; the last stage reads it by ``load`` in place of ``again``."""

    maker: int
    value: Value
    store: Store
    again: Value
    load: Value


def early(n: Nest) -> list[Early]:
    """What the stages before the last one, which stores, can leave in its results."""
    stages = n.part.stages
    last = stages[-1]
    if last.reductions or len(last.axes) != 1 or any(s.stores for s in stages[:-1]):
        return []
    axis = last.axes[0]
    canon = Canon()
    made: dict[int, tuple[int, Value]] = {}
    numbers = [_numbers(n, canon, stage) for stage in stages]
    for k, stage in enumerate(stages[:-1]):
        if len(stage.axes) == 1 and stage.axes[0].extent == axis.extent:
            for v, number in numbers[k]:
                made.setdefault(number, (k, v))
    out: list[Early] = []
    for s in last.stores:
        plain = s.mode == "set" and not s.access.guard and not s.access.index[0].gather and s.access.buffer.scope == "arg"
        found = _largest(n, s, dict((id(v), number) for v, number in numbers[-1]), made) if plain else None
        if found is None or any(e.store.access.buffer == s.access.buffer for e in out):
            continue
        again, (k, value) = found
        place = _along(s.access.index[0], axis.id, stages[k].axes[0].id)
        store = Store(replace(s.access, index=(place,)), value)
        if _free(n, s, k, place, {id(again), *(id(e.again) for e in out)}):
            out.append(Early(k, value, store, again, Value("load", (), value.dtype, s.access)))
    return out


def _numbers(n: Nest, canon: Canon, stage: Stage) -> list[tuple[Value, int]]:
    """The values of a stage that move with its rows, and what they are equal by."""
    if len(stage.axes) != 1:
        return []
    axis = stage.axes[0].id
    memo: dict[int, int] = {}
    values = walk([r.value for r in stage.reductions] + [s.value for s in stage.stores])
    return [(v, canon.of(v, axis, memo)) for v in values if axis in dependencies(v, n.base.deps)]


def _largest(n: Nest, s: Store, numbers: dict[int, int], made: dict[int, tuple[int, Value]]):
    """The uppermost costly value of a store that was made before: (value, (stage, the value there))."""

    def made_before(v: Value) -> bool:
        return v.dtype == s.access.buffer.dtype and numbers.get(id(v)) in made and instructions([v], None) >= LEAST

    found = next(uppermost([s.value], made_before), None)
    return None if found is None else (found, made[numbers[id(found)]])


def _along(index: Affine, axis: int, other: int) -> Affine:
    return replace(index, terms=tuple(sorted((other if a == axis else a, c) for a, c in index.terms)))


def _free(n: Nest, s: Store, maker: int, place: Affine, kept: set[int]) -> bool:
    """Whether nothing that may lie in the result's memory (an input of its size) is read once the maker has written there."""
    stages = n.part.stages
    size = s.access.buffer.dtype.bytes * int(np.prod(s.access.buffer.shape))

    def meets(access: Access) -> bool:
        b = access.buffer
        return b.scope == "arg" and b.dtype.bytes * int(np.prod(b.shape)) == size

    for k, stage in enumerate(stages[maker:], maker):
        values = [r.value for r in stage.reductions] + [x.value for x in stage.stores]
        for v in each(values, set(kept) if k == len(stages) - 1 else None):
            if v.op == "load" and meets(v.attr) and not (k == maker and v.attr.index[0] == place and not v.attr.guard):
                return False
    return True
