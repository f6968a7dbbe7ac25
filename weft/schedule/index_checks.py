"""Checked indices of a Program: their sites, and which inputs may be overwritten although a check may still fail.

A run that finds an index out of range stops and raises. Until then it must not have changed any input. An output may therefore
take over an input's memory only if no check can run after the first write or together with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.graph.node import Node
from weft.kernel.expressions import iterate_values, roots
from weft.kernel.hazards import copies
from weft.kernel.ir import Kernel, Phase
from weft.schedule.fuse import FusedGroup
from weft.schedule.program import Call, HostCall, Loop, Program, Site, Step, calls, find_hosts


def site(node: Node) -> Site:
    """Return the Site of an ``in_bounds`` node."""
    p, unsigned = node.params, node.inputs[0].dtype.kind == "unsigned"
    return Site(node.source_line, p["axis"], p["extent"], -p["extent"] if p["from_end"] and not unsigned else 0, unsigned)


def sites(program: Program) -> tuple[Site, ...]:
    """Return all sites of a Program in the order of fault numbers: kernel by kernel, including those in the bodies of loops."""
    return tuple([s for call in calls(program) for s in call.sites])


def safe(steps: Sequence[Step], fused: Sequence[FusedGroup], pairs: Iterable[tuple[int, int, int]]) -> list[bool]:
    """Return for each pair whether writing to it comes after all checks.

    A pair is (step, input, output of its kernel), or (step, carry, carry) of a loop.
    """
    may = _may_fault(steps, fused)
    last = max((k for k, m in enumerate(may) if m), default=-1)
    out = []
    for k, i, o in pairs:
        step = steps[k]
        if k > last:
            out.append(True)
        elif k < last or not isinstance(step, Call):
            out.append(False)
        else:
            checking = max((p for p, phase in enumerate(step.kernel.phases) if has_checks(phase)), default=-1)
            out.append(checking < _first_write(step.kernel, i, o))
    return out


def _may_fault(steps: Sequence[Step], fused: Sequence[FusedGroup]) -> list[bool]:
    """Return for each step whether it may fail: it checks an index not fully checked before, or its host function may raise."""
    checked: set[Node] = set()
    out = []
    for step, f in zip(steps, fused, strict=False):  # copies at the end check nothing
        if isinstance(step, Loop):
            out.append(bool(sites(step.body)) or any(h.raises for h in find_hosts(step.body)))
        else:
            out.append(any(n not in checked for n in f.sites) or (isinstance(step, HostCall) and step.raises))
        checked |= f.fully_checked
    return out


def has_checks(phase: Phase) -> bool:
    """Return whether a phase checks an index that users gave."""
    return any(v.op == "check" and v.attr.site is not None for v in iterate_values(roots(phase.stages)))


def _first_write(kernel: Kernel, i: int, o: int) -> int:
    """Return the first phase that changes output ``o`` if it shares the memory of input ``i``; copies change nothing then."""
    idle = copies(kernel).get((i, o))
    target = kernel.outputs[o].id
    return min(
        p for p, phase in enumerate(kernel.phases)
        if p != idle and any(s.access.buffer.scope == "arg" and s.access.buffer.id == target
                             for stage in phase.stages for s in stage.stores)
    )
