"""Running folds along a few long rows: each row is cut among many programs, as reductions are.

The first launch joins each piece, the second makes running folds of these, and in the third each piece goes on from what the
pieces before it have. So elements are read twice and written once.
"""

from __future__ import annotations

from dataclasses import replace

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.partial import cut_of, piece_launch
from weft.devices.cuda.rows import begin, gathered, identity, plan, row_launch, run_stage, warps
from weft.devices.cuda.values import Printer
from weft.kernel.ir import Buffer, Stage, Store, Value, size_of
from weft.kernel.parts import Part


def running_launches(part: Part, number: int) -> tuple[list[Launch], list[Buffer]]:
    """A part of one stage with running folds, in three steps, and the scratch between them, numbered from ``number`` on."""
    (stage,) = part.stages
    cut = cut_of(part)
    alone = Stage(stage.axes, tuple([replace(r, running=False) for r in stage.reductions]))
    first, found, _ = piece_launch(replace(part, stages=(alone,)), cut, number)
    so_far = {r.id: cut.scratch(number + len(found) + k, gathered(r)) for k, r in enumerate(stage.reductions)}
    folds, stores = [], []
    for r in stage.reductions:
        form = gathered(r)
        value = Value("load", (), form, cut.at(found[r.id]))
        folds.append(replace(r, axes=(cut.axis,), value=value, accum=form, dtype=form))
        stores.append(Store(cut.at(so_far[r.id]), Value("acc", (), form, r.id)))
    second = row_launch(Part(part.shared, (Stage((cut.axis,), tuple(folds), tuple(stores)),), {}, False))

    rows, (width,) = plan(part.shared, part.stages)
    p = Printer((*part.shared, *stage.axes))
    programs = begin(p, part.shared, rows)
    piece, low, high = cut.begin(p, size_of(stage.axes))
    inside = f"{piece} > 0" + (f" & {p.masks[0].text}" if 0 in p.masks else "")
    before = {}
    for r in stage.reductions:
        where = cut.pointer(p, so_far[r.id], f"({piece} - 1)")
        before[r.id] = p.put(f"tl.load({where}, mask={inside}, other={identity(r)})", (0,))
    run_stage(p, stage, rows, width, (low, high), before)
    third = p.launch((programs, cut.axis.extent), warps(rows, (width,)))
    return [first, second, third], [*found.values(), *so_far.values()]
