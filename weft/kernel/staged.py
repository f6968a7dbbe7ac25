"""The stages of a part as parts of their own, for who runs each by itself: what a stage has reduced goes through scratch."""

from __future__ import annotations

from dataclasses import replace

from weft.kernel.ir import Access, Affine, Axis, Buffer, Reduction, Stage, Store, Value, along, size_of
from weft.kernel.parts import Part
from weft.kernel.rewrite import Rewriter


def place_of(axes: tuple[Axis, ...]) -> Affine:
    """The number of an iteration of some axes, the last of which runs fastest."""
    step, place = 1, Affine()
    for a in reversed(axes):
        place = place.plus(along(a, step))
        step *= a.extent
    return place


def by_stage(part: Part, number: int) -> tuple[list[Part], list[Buffer]]:
    """(parts of one stage each, new scratch buffers, numbered from ``number`` on).

    A part has either reductions or stores, except where the stores read a running fold and may be made in any order.
    """
    place, rows = place_of(part.shared), max(size_of(part.shared), 1)
    moved: dict[int, Value] = {}
    parts: list[Part] = []
    scratch: list[Buffer] = []

    def kept(r: Reduction) -> tuple[Buffer, Affine]:
        nonlocal number
        if r.id in part.exports:
            return part.exports[r.id]
        scratch.append(Buffer(number, r.dtype, (rows,), "kernel"))
        number += 1
        return scratch[-1], place

    for stage in part.stages:
        change = Rewriter(moved)
        reductions = tuple(replace(r, value=change.value(r.value)) for r in stage.reductions)
        if any(r.running for r in reductions):
            stores = tuple(map(change.store, stage.stores))
            if part.ordered:  # the sums so far go through scratch, too
                every = (*part.shared, *stage.axes)
                own: list[Store] = []
                for r in reductions:
                    scratch.append(Buffer(number, r.dtype, (max(size_of(every), 1),), "kernel"))
                    number += 1
                    there = Access(scratch[-1], (place_of(every),))
                    own.append(Store(there, Value("acc", (), r.dtype, r.id)))
                    moved[r.id] = Value("load", (), r.dtype, there)
                parts.append(Part(part.shared, (Stage(stage.axes, reductions, tuple(own)),), {}, False))
                stores = tuple(map(Rewriter(moved).store, stores))
                parts.append(Part(every, (Stage((), (), stores),), {}, True))
            else:
                parts.append(Part(part.shared, (Stage(stage.axes, reductions, stores),), {}, False))
            continue
        if reductions:
            exports = {r.id: kept(r) for r in reductions}
            parts.append(Part(part.shared, (Stage(stage.axes, reductions),), exports, False))
            for r in reductions:
                buffer, at = exports[r.id]
                moved[r.id] = Value("load", (), r.dtype, Access(buffer, (at,)))
            change = Rewriter(moved)
        if stage.stores:
            stores = tuple(map(change.store, stage.stores))
            parts.append(Part((*part.shared, *stage.axes), (Stage((), (), stores),), {}, part.ordered))
    return parts, scratch
