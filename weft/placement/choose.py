"""Which of several devices a program is to run on, and why, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.errors import seconds
from weft.placement.estimate import Estimate, estimate, moved
from weft.placement.machine import Machine
from weft.schedule.program import Program

Arrays = Sequence[tuple[int, str]]  # of each array that a program reads: bytes, and the device that it lies on


@dataclass(frozen=True)
class Decision:
    """Attributes
    ----------
    device : the name of the one that takes least
    estimates : of each device, the least first
    reason : a sentence
    """

    device: str
    estimates: tuple[Estimate, ...]
    reason: str


def choose(program: Program, machines: Mapping[str, Machine], arrays: Arrays = ()) -> Decision:
    """The device on which a program as a whole takes least; of equals the first. A GPU's program may have more kernels than the
    CPU's, for which it is estimated: then it takes a little longer than is told here. Results are taken to stay where they are
    made: who reads them next may be there, too."""
    return decide([estimate(name, program, machine) for name, machine in machines.items()], machines, arrays)


def decide(estimates: Sequence[Estimate], machines: Mapping[str, Machine], arrays: Arrays) -> Decision:
    """The same of estimates without copies of the arrays, which are made once for all ways in which these may lie."""
    found = [e.after(fetching(e.device, machines, arrays)) for e in estimates]
    order = tuple(sorted(found, key=lambda e: e.total))
    return Decision(order[0].device, order, _reason(order))


def fetching(name: str, machines: Mapping[str, Machine], arrays: Arrays) -> float:
    """Seconds until all arrays are on a device: over its own link, over that of where they lie, or over both."""
    links = [(nbytes, machines[place].link) for nbytes, where in arrays if where != name for place in (name, where)]
    return sum([moved(nbytes, link) for nbytes, link in links if link is not None])


def _reason(order: Sequence[Estimate]) -> str:
    best = order[0]
    if len(order) == 1:
        return f"{best.device} is the only device"
    second = order[1]
    parts = {
        f"starting {second.launches} kernel{'' if second.launches == 1 else 's'} there takes": second.launching,
        "copying arrays there takes": second.moving,
        "the work itself takes there": second.working,
    }
    what = max(parts, key=lambda name: parts[name])
    took = f"{second.device} would take {seconds(second.total)}, {best.device} {seconds(best.total)}"
    return f"{took}: {what} {seconds(parts[what])}"
