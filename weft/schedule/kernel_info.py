"""KernelInfo, as printed by explain: work, traffic, the user's lines, and the boundaries of each kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.graph.node import Node
from weft.graph.source_lines import user_line
from weft.kernel.expressions import stores_of
from weft.kernel.hazards import copies
from weft.kernel.ir import Contraction, Kernel
from weft.schedule.fuse import FusedGroup
from weft.schedule.program import Call, KernelInfo, Loop, Program, root
from weft.schedule.traffic import traffic


def describe_kernel(fused: FusedGroup, lines: dict[Any, str]) -> KernelInfo:
    """Return the KernelInfo of a kernel. ``lines`` caches the results of user_line for all kernels of one Program."""
    kernel = fused.kernel
    assert kernel is not None
    flops = sum([n.op.cost(n).flops for n in fused.nodes if n.op.cost is not None])
    where = dict.fromkeys(_line(n, lines) for n in fused.nodes if n.source_line is not None)
    boundary = dict.fromkeys(f"{r.consumer.op.name}: {r.reason}" for r in fused.boundaries)
    return KernelInfo(kernel.name, len(kernel.phases), flops, fused.bytes, tuple(where), tuple(boundary), _notes(kernel))


def _notes(kernel: Kernel) -> tuple[str, ...]:
    """Return notes for explain: reduced precisions, Winograd's transforms, sums in any order, arrays stored channels last."""
    contractions = [s for phase in kernel.phases for s in phase.stages if isinstance(s, Contraction)]
    short = {c.precision: None for c in contractions}
    notes = [f"products {'in' if p != 'bfloat16' else 'may round to'} {p}" for p in short if p != "float32"]
    if any(c.algorithm == "winograd" for c in contractions):
        notes.append("may use Winograd's transforms")
    stores = [s for phase in kernel.phases for stage in phase.stages for s in stores_of(stage)]
    if any(s.mode == "add_unordered" for s in stores):
        notes.append("additions in any order")
    count, verbs = [sum([bool(b.order) for b in buffers]) for buffers in (kernel.inputs, kernel.outputs)], ("read", "written")
    if any(count):
        notes.append(f"channels last: {', '.join([f'{n} {how}' for n, how in zip(count, verbs, strict=True) if n])}")
    return tuple(notes)


def _line(node: Node, lines: dict[Any, str]) -> str:
    """Return ``file:line`` of a node, cached in ``lines``."""
    key = (id(node.source_line[0]), node.source_line[1])
    if key not in lines:
        lines[key] = user_line(node.source_line)
    return lines[key]


def describe_kernels_in_place(program: Program, given: frozenset[int]) -> tuple[KernelInfo, ...]:
    """Return the KernelInfos of a run that may overwrite the inputs at the positions ``given``.

    Traffic of phases that only copy an input onto itself is left out.
    """
    return tuple(_infos(program, {(i, o) for i, o in program.donate if i in given}))


def _infos(program: Program, pairs: set[tuple[int, int]]) -> Iterator[KernelInfo]:
    """Yield KernelInfos. ``pairs``: inputs and outputs of the program, or of a loop's body, that share memory."""
    own = iter(program.info)
    for step in program.steps:
        if isinstance(step, Loop):
            yield from _infos(step.body, {(k, k) for k in step.in_place})
        elif isinstance(step, Call):
            info = next(own)
            idle = _idle(program, step, pairs) if pairs else frozenset()
            yield info._replace(bytes=traffic(step.kernel, idle)) if idle else info


def _idle(program: Program, step: Call, pairs: set[tuple[int, int]]) -> frozenset[int]:
    """Return the phases of a kernel that copy one of ``pairs`` (input and output of the program)."""
    slots = [root(program.slots, a) for a in step.args]
    count = len(step.kernel.inputs)
    idle = set()
    for (i, o), phase in copies(step.kernel).items():
        source, target = slots[i], slots[count + o]
        if source is target or (source.kind, target.kind) == ("input", "output") and (source.position, target.position) in pairs:
            idle.add(phase)
    return frozenset(idle)
