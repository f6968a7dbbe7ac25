"""Translate a kernel into launches: one for each part, since the end of a launch is the barrier between parts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from weft.devices.cuda.arguments import Launch, PrintedKernel
from weft.devices.cuda.attention import chain_launches
from weft.devices.cuda.product import match_operands, rounded_launch
from weft.devices.cuda.row_reductions import MAX_REGISTER_ROW, keeps_order, map_launch, row_launch
from weft.devices.cuda.scatter import Shapes, ordered_launches
from weft.devices.cuda.split_work import partial_launches, running_launches, should_cut
from weft.devices.cuda.target import GPU
from weft.devices.cuda.tile_choices import product_launches
from weft.devices.cuda.tiles import contiguous_loads, fastest_last, unit_strides
from weft.kernel.expressions import axes_of, iterate_values, roots
from weft.kernel.ir import Axis, Buffer, Chain, Kernel, Phase, Stage, size_of
from weft.kernel.printer import kernel_key
from weft.kernel.stages import Part, split, split_by_stage
from weft.process.bounded_cache import BoundedCache
from weft.schedule.index_checks import has_checks


def generate(kernel: Kernel) -> PrintedKernel:
    """Return a kernel as launches, in order."""
    chains = [stage for phase in kernel.phases for stage in phase.stages if isinstance(stage, Chain)]
    if chains:
        return PrintedKernel(kernel.name, tuple([x for c in chains for x in chain_launches(c) if 0 not in x.grid]), ())
    parts, kernel_scratch = split(join_phases(kernel))
    scratch = list(kernel_scratch)
    shapes: Shapes = {(b.scope, b.id): b.memory_extents for b in (*kernel.inputs, *kernel.outputs, *scratch)}
    launches: list[Launch] = []
    for part in parts:
        part_launches, new = _launches(part, 1 + max((b.id for b in scratch), default=-1), shapes)
        scratch += new
        launches += [launch for launch in part_launches if 0 not in launch.grid]
    sites = {v.attr.site for part in parts for v in iterate_values(roots(part.stages)) if v.op == "check"} - {None}
    return PrintedKernel(kernel.name, tuple(_skip_after_faults(launches)), tuple(scratch), max(sites, default=-1) + 1)


class PrintingDevice:
    """What the devices that run texts for a GPU have in common. ``kernels``: number of kernels asked for."""

    target = GPU
    threads = 1

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.launches = self.kernels = 0
        self._printed_kernels = BoundedCache(1000)

    def set_threads(self, count: int) -> None:
        """Do nothing: threads are the CPU's."""

    def launches_of(self, kernel: Kernel) -> int:
        return len(self.print_kernel(kernel).launches)

    def print_kernel(self, kernel: Kernel) -> PrintedKernel:
        """Return a kernel as launches, from the cache if it was printed before."""
        key = kernel_key(kernel)
        with self.lock:
            self.kernels += 1
            printed = self._printed_kernels.get(key)
            if printed is None:
                printed = generate(kernel)
                self._printed_kernels.put(key, printed)
        return printed


@lru_cache(maxsize=4096)
def launches_of(kernel: Kernel) -> int:
    """Return the number of launches of a kernel, for estimates."""
    return len(generate(kernel).launches)


def join_phases(kernel: Kernel) -> Kernel:
    """Merge neighbouring phases that one program can run, such as full reductions and uses of their results, into one launch.

    They become the stages of a phase with a single row.
    """
    phases: list[Phase] = []
    group: list[tuple[Phase, list[Stage]]] = []
    axes = [a for p in kernel.phases for a in (*p.axes, *(x for s in p.stages for x in axes_of(s)))]
    row = Axis(1 + max([a.id for a in axes], default=0), 1)

    def reduced() -> bool:
        return any(stage.reductions for _, stages in group for stage in stages)

    def flush() -> None:
        stages = [stage for _, phase_stages in group for stage in phase_stages]
        if reduced() and (len(stages) > 1 or stages[0].stores):
            phases.append(Phase((row,), tuple(stages)))
        else:
            phases.extend([phase for phase, _ in group])
        group.clear()

    for phase in kernel.phases:
        stages = _stages(phase)
        if stages is None or (phase.axes and not reduced()):  # without a preceding reduction, many programs are faster
            flush()
            phases.append(phase)
        else:
            group.append((phase, stages))
            if has_checks(phase):  # launches behind a check may write in place, and can be skipped only at the start of a launch
                flush()
    flush()
    return replace(kernel, phases=tuple(phases))


def _stages(phase: Phase) -> list[Stage] | None:
    """Return a phase as stages of one row; None if it is too large for one program or its order matters."""
    out = []
    for stage in phase.stages:
        if not isinstance(stage, Stage) or any(s.adds for s in stage.stores):
            return None
        if phase.axes:
            if stage.axes or stage.reductions:
                return None
            stage = replace(stage, axes=phase.axes)
        if not 0 < size_of(stage.axes) <= MAX_REGISTER_ROW:
            return None
        if any(set(r.axes) != set(stage.axes) or r.running or r.is_carried for r in stage.reductions):
            return None
        out.append(stage)
    return out


def _launches(part: Part, number: int, shapes: Shapes) -> tuple[list[Launch], list[Buffer]]:
    """Return the launches of a part, and new scratch, numbered from ``number`` on."""
    product = match_operands(part)
    if product is not None and part.stages[0].reductions[0].accumulator is not None:
        return [rounded_launch(part, product)], []
    if product is not None:
        return product_launches(part, product, number)
    if any(r.accumulator is not None for s in part.stages for r in s.reductions):
        raise NotImplementedError("sums of products that are rounded must have a kernel of their own")
    if not part.is_ordered:
        part = _order_rows_by_memory(part)
    plain = all(not s.axes and not s.reductions for s in part.stages)
    if plain and not part.exports:
        stores = [s for stage in part.stages for s in stage.stores]
        if not part.is_ordered:
            return [map_launch(part.shared, stores)], []
        if len(part.stages) == 1:
            return ordered_launches(part, number, shapes)
    if not part.is_ordered and not should_cut(part):
        return [row_launch(part)], []
    if len(part.stages) == 1 and part.stages[0].reductions and not part.stages[0].stores:
        return ([row_launch(part)], []) if keeps_order(part.stages[0]) else partial_launches(part, number)
    if len(part.stages) == 1 and not part.is_ordered and any(r.running for r in part.stages[0].reductions):
        return ([row_launch(part)], []) if keeps_order(part.stages[0]) else running_launches(part, number)
    pieces, scratch = split_by_stage(part, number)
    launches: list[Launch] = []
    for piece in pieces:
        shapes.update({(b.scope, b.id): b.memory_extents for b in scratch})
        piece_launches, new = _launches(piece, number + len(scratch), shapes)
        launches += piece_launches
        scratch += new
    return launches, scratch


def _order_rows_by_memory(part: Part) -> Part:
    """Order the rows so that neighbours are contiguous, if the elements of a row are not."""
    along = contiguous_loads(*roots(part.stages))
    if any(a.id in along for s in part.stages for a in s.axes):
        return part
    return replace(part, shared=fastest_last(part.shared, unit_strides(part.stages)))


def _skip_after_faults(launches: Sequence[Launch]) -> list[Launch]:
    """Make launches after the first one with index checks return at once after a failed check."""
    first = next((k for k, launch in enumerate(launches) if launch.checks), len(launches))
    return [launch.stopping() if k > first else launch for k, launch in enumerate(launches)]
