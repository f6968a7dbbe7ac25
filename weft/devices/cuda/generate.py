"""A kernel as launches: each part of it is one, and the barrier between parts is the end of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from weft.devices.cuda.arguments import Launch, Printed
from weft.devices.cuda.attention import chain_launches
from weft.devices.cuda.product import sides
from weft.devices.cuda.row_reductions import REGISTERS, map_launch, row_launch
from weft.devices.cuda.scatter import Shapes, ordered_launches
from weft.devices.cuda.split_work import can_cut, cuts, partial_launches, running_launches
from weft.devices.cuda.tile_choices import product_launches
from weft.devices.cuda.tiles import fastest_last, read_along, unit_strides
from weft.kernel.expressions import each, roots
from weft.kernel.ir import Axis, Buffer, Chain, Contraction, Kernel, Phase, Stage, size_of
from weft.kernel.stages import Part, by_stage, split
from weft.schedule.index_checks import has_checks


def generate(kernel: Kernel) -> Printed:
    """A kernel as launches, in order."""
    chains = [stage for phase in kernel.phases for stage in phase.stages if isinstance(stage, Chain)]
    if chains:
        return Printed(kernel.name, tuple([x for c in chains for x in chain_launches(c) if 0 not in x.grid]), ())
    parts, own = split(owned(kernel))
    scratch = list(own)
    shapes: Shapes = {(b.scope, b.id): b.lying for b in (*kernel.inputs, *kernel.outputs, *scratch)}
    launches: list[Launch] = []
    for part in parts:
        found, new = _launches(part, 1 + max((b.id for b in scratch), default=-1), shapes)
        scratch += new
        launches += [launch for launch in found if 0 not in launch.grid]
    sites = {v.attr.site for part in parts for v in each(roots(part.stages)) if v.op == "check"} - {None}
    return Printed(kernel.name, tuple(_stopping(launches)), tuple(scratch), max(sites, default=-1) + 1)


@lru_cache(maxsize=4096)
def launches_of(kernel: Kernel) -> int:
    """Return how many launches a kernel is, for those who estimate what it takes."""
    return len(generate(kernel).launches)


def owned(kernel: Kernel) -> Kernel:
    """Neighbouring phases that a single program can own, sums of everything and what is made of them, as one row of stages: then
    they are one launch."""
    phases: list[Phase] = []
    together: list[tuple[Phase, list[Stage]]] = []
    row = Axis(1 + max([a.id for p in kernel.phases for a in _axes(p)], default=0), 1)

    def reduced() -> bool:
        return any(stage.reductions for _, stages in together for stage in stages)

    def done() -> None:
        stages = [stage for _, found in together for stage in found]
        if reduced() and (len(stages) > 1 or stages[0].stores):
            phases.append(Phase((row,), tuple(stages)))
        else:
            phases.extend([phase for phase, _ in together])
        together.clear()

    for phase in kernel.phases:
        stages = _stages(phase)
        if stages is None or (phase.axes and not reduced()):  # what sums do not precede is better done by many programs
            done()
            phases.append(phase)
        else:
            together.append((phase, stages))
            if has_checks(phase):  # what comes behind a check may be written in place, and stops at the start of a launch alone
                done()
    done()
    return replace(kernel, phases=tuple(phases))


def _axes(phase: Phase) -> list[Axis]:
    """All that a phase goes over."""
    found = list(phase.axes)
    for stage in phase.stages:
        if isinstance(stage, Stage):
            found += stage.axes
        elif isinstance(stage, Contraction):
            found += [*stage.batch, *stage.m, *stage.n, *stage.k]
        else:
            found += [*stage.batch, *stage.rows, *stage.columns]
    return found


def _stages(phase: Phase) -> list[Stage] | None:
    """A phase as stages of one row; None where one program cannot hold what they go over, or may not in any order."""
    out = []
    for stage in phase.stages:
        if not isinstance(stage, Stage) or any(s.adds for s in stage.stores):
            return None
        if phase.axes:
            if stage.axes or stage.reductions:
                return None
            stage = replace(stage, axes=phase.axes)
        if not 0 < size_of(stage.axes) <= REGISTERS:
            return None
        if any(set(r.axes) != set(stage.axes) or r.running or r.carried for r in stage.reductions):
            return None
        out.append(stage)
    return out


def _launches(part: Part, number: int, shapes: Shapes) -> tuple[list[Launch], list[Buffer]]:
    """The launches of a part, and new scratch, numbered from ``number`` on."""
    product = sides(part)
    if product is not None:
        return product_launches(part, product, number)
    if not part.ordered:
        part = _along_memory(part)
    plain = all(not s.axes and not s.reductions for s in part.stages)
    if plain and not part.exports:
        stores = [s for stage in part.stages for s in stage.stores]
        if not part.ordered:
            return [map_launch(part.shared, stores)], []
        if len(part.stages) == 1:
            return ordered_launches(part, number, shapes)
    if not part.ordered and not cuts(part):
        return [row_launch(part)], []
    if len(part.stages) == 1 and part.stages[0].reductions and not part.stages[0].stores:
        return partial_launches(part, number) if can_cut(part.stages[0]) else ([row_launch(part)], [])
    if len(part.stages) == 1 and not part.ordered and any(r.running for r in part.stages[0].reductions):
        return running_launches(part, number) if can_cut(part.stages[0]) else ([row_launch(part)], [])
    pieces, scratch = by_stage(part, number)
    launches: list[Launch] = []
    for piece in pieces:
        shapes.update({(b.scope, b.id): b.lying for b in scratch})
        found, new = _launches(piece, number + len(scratch), shapes)
        launches += found
        scratch += new
    return launches, scratch


def _along_memory(part: Part) -> Part:
    """Rows in an order in which neighbours lie side by side, where what a row has does not."""
    along = read_along(*roots(part.stages))
    if any(a.id in along for s in part.stages for a in s.axes):
        return part
    return replace(part, shared=fastest_last(part.shared, unit_strides(part.stages)))


def _stopping(launches: Sequence[Launch]) -> list[Launch]:
    """Launches after one that checks indices do nothing where a fault was found."""
    first = next((k for k, launch in enumerate(launches) if launch.checks), len(launches))
    return [launch.stopping() if k > first else launch for k, launch in enumerate(launches)]
