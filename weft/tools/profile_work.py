"""What each step of a program has to do: arithmetic, memory traffic, and how both are shared by lines, layers and phases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from weft.graph.node import Node
from weft.placement.machine import Machine
from weft.schedule.build import built
from weft.schedule.fuse import Fused
from weft.schedule.info import kernel_info
from weft.schedule.program import Call, Copy, Host, Loop, Program
from weft.schedule.view import strip

Origin = tuple[Any, int, str, str]  # code, instruction, layer, phase: as on resolved nodes


@dataclass(frozen=True)
class Work:
    """One step. ``parts``: the weight of each origin in it; one part is exact, several are an estimate."""

    name: str
    kind: str  # kernel, loop, numpy, copy
    flops: int
    bytes: int
    wide: bool  # float64
    parts: dict[Origin, float]
    nodes: tuple[Node, ...] = ()
    kernel: Any = None
    length: int = 1  # steps of a loop

    def floor(self, machine: Machine) -> tuple[float, float]:
        """Seconds that the arithmetic and the memory traffic take at least."""
        peak = machine.flops / 2 if self.wide else machine.flops
        return self.flops / peak, self.bytes / machine.bandwidth_at(self.bytes // self.length)


def works(program: Program, fused: list[Fused], machine: Machine) -> list[Work]:
    """One a step of the program."""
    lines: dict[Any, str] = {}
    made = iter(fused)
    out = []
    for step in program.steps:
        if isinstance(step, Copy):
            size = program.slots[step.source].dtype.bytes
            for n in program.slots[step.source].shape:
                size *= n
            out.append(Work("copy", "copy", 0, 2 * size, False, {(None, -1, "", "forward"): 1.0}))
            continue
        f = next(made)
        wide = any(n.dtype.name == "float64" for n in f.nodes)
        if isinstance(step, Call):
            info = kernel_info(f, lines)
            out.append(Work(info.name, "kernel", info.flops, info.bytes, wide, _parts(f, machine, info.bytes), f.nodes, f.kernel))
        elif isinstance(step, Loop):
            out.append(_loop(f.nodes[0], machine))
        else:
            assert isinstance(step, Host)
            node = f.nodes[0]
            flops = node.op.cost(node).flops if node.op.cost is not None else 0
            moved = node.nbytes + sum(i.nbytes for i in node.inputs)
            out.append(Work(step.name, "numpy", flops, moved, wide, {_origin(node): 1.0}, f.nodes))
    return out


def _origin(node: Node) -> Origin:
    code, instruction, layer, phase = (*(node.where or (None, -1)), "", None)[:4]
    return code, instruction, layer, phase or "forward"


def _parts(fused: Fused, machine: Machine, size: int) -> dict[Origin, float]:
    """Seconds that each origin's arithmetic and memory traffic would take one after the other."""
    memory = 1 / machine.bandwidth_at(size)
    outputs = set(fused.outputs)
    given = {strip(n) for n, _ in fused.inputs}
    readers: dict[Node, list[Node]] = {}
    for node in fused.nodes:
        for i in node.inputs:
            if (base := strip(i)) in given:
                readers.setdefault(base, []).append(node)
    out: dict[Origin, float] = {}

    def add(node: Node, seconds: float) -> None:
        origin = _origin(node)
        out[origin] = out.get(origin, 0.0) + seconds

    for node in fused.nodes:
        flops = node.op.cost(node).flops if node.op.cost is not None else 0
        add(node, flops / machine.flops + (node.nbytes * memory if node in outputs else 0.0))
    for base, who in readers.items():
        for node in who:
            add(node, base.nbytes * memory / len(who))
    total = sum(out.values())
    return {o: w / total if total else 1 / len(out) for o, w in out.items() if w or not total}


def _loop(scan: Node, machine: Machine) -> Work:
    """A loop: its body's work, once for every step; nodes without a layer are in the loop's own."""
    program, fused = built(scan.params["body"].graph)
    length = scan.params["length"]
    inside = works(program, fused, machine)
    _, _, layer, phase = own = _origin(scan)
    parts: dict[Origin, float] = {}
    for work in inside:
        seconds = sum(work.floor(machine))
        for (code, instruction, inner, when), share in work.parts.items():
            late = phase if phase != "forward" else when
            origin = (code, instruction, inner or layer, late) if code is not None else (*own[:2], inner or layer, late)
            parts[origin] = parts.get(origin, 0.0) + share * seconds
    total = sum(parts.values())
    parts = {o: w / total for o, w in parts.items() if w} if total else {own: 1.0}
    name = f"loop of {length}: {max(inside, key=lambda w: sum(w.floor(machine))).name}"
    return Work(
        name, "loop", length * sum(w.flops for w in inside), length * sum(w.bytes for w in inside), any(w.wide for w in inside),
        parts, _nodes(inside), None, length,
    )


def _nodes(inside: Iterable[Work]) -> tuple[Node, ...]:
    return tuple([n for work in inside for n in work.nodes])
