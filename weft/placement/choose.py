"""Which of several devices a program is to run on, and why, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.errors import gib, seconds
from weft.placement.device_figures import Machine
from weft.placement.estimate import Estimate, estimate, made, moved
from weft.schedule.program import Program

Arrays = Sequence[tuple[int, str]]  # of each array that a program reads: bytes, and the device that it lies on


@dataclass(frozen=True)
class Decision:
    """Attributes
    ----------
    device : the name of the one that takes least, of those that have the memory
    estimates : of each device, the least first
    reason : a sentence
    """

    device: str
    estimates: tuple[Estimate, ...]
    reason: str


def choose(
    program: Program, machines: Mapping[str, Machine], arrays: Arrays = (), rooms: Mapping[str, int] | None = None, kept: int = 0,
) -> Decision:
    """The device on which a program as a whole takes least; of equals the first. A GPU's program may have more kernels than the
    CPU's, for which it is estimated: then it takes a little longer than is told here. Results are taken to stay where they are
    made: who reads them next may be there, too. rooms : bytes that are left on devices with memory of their own;
    kept : from this input on they may be written over"""
    estimates = [estimate(name, program, machine) for name, machine in machines.items()]
    return decide(estimates, machines, arrays, lacking(made(program, kept), arrays, rooms or {}))


def decide(
    estimates: Sequence[Estimate], machines: Mapping[str, Machine], arrays: Arrays, without: Mapping[str, str] | None = None,
) -> Decision:
    """The same of estimates without copies of the arrays, which are made once for all ways in which these may lie. without : why
    it cannot be one of these devices; they come last"""
    why = without or {}
    found = [e.after(fetching(e.device, machines, arrays)) for e in estimates]
    order = tuple(sorted(found, key=lambda e: (e.device in why, e.total)))
    quickest = min(order, key=lambda e: e.total)
    if quickest.device in why:
        took = f"{quickest.device} would take {seconds(quickest.total)}, {order[0].device} {seconds(order[0].total)}"
        return Decision(order[0].device, order, f"{took}: {why[quickest.device]}")
    return Decision(order[0].device, order, _reason(order))


def lacking(made: int, arrays: Arrays, rooms: Mapping[str, int]) -> dict[str, str]:
    """The devices that a program does not fit on, which takes so many bytes beside the arrays that it reads, and why."""
    found = {}
    for name, room in rooms.items():
        needed = made + sum([nbytes for nbytes, where in arrays if where != name])
        if needed > room:
            found[name] = f"{gib(needed)} more are needed there, and {gib(room)} are left"
    return found


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
