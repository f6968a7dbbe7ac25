"""Choose the device for a program, and state the reason in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.errors import format_bytes, seconds
from weft.placement.device_figures import Machine
from weft.placement.estimate import Estimate, allocated_bytes, estimate, link_seconds
from weft.schedule.program import Program

Arrays = Sequence[tuple[int, str]]  # (bytes, device) of each array that a program reads


@dataclass(frozen=True)
class Decision:
    """The device chosen for a program.

    Attributes
    ----------
    device : the fastest device that has enough memory
    estimates : of each device, the fastest first, devices without enough memory last
    reason : a sentence
    """

    device: str
    estimates: tuple[Estimate, ...]
    reason: str


def choose(
    program: Program, machines: Mapping[str, Machine], arrays: Arrays = (), rooms: Mapping[str, int] | None = None, kept: int = 0,
) -> Decision:
    """Return the device on which the whole program takes least; of equal ones the first.

    The estimate uses the CPU's program; a GPU's may have more kernels and take a little longer. Results are assumed to stay on
    the device. rooms: free bytes of devices with memory of their own. kept: inputs from this number on may be overwritten.
    """
    estimates = [estimate(name, program, machine) for name, machine in machines.items()]
    return decide(estimates, machines, arrays, find_full_devices(allocated_bytes(program, kept), arrays, rooms or {}))


def decide(
    estimates: Sequence[Estimate], machines: Mapping[str, Machine], arrays: Arrays, without: Mapping[str, str] | None = None,
) -> Decision:
    """Return the decision for estimates that do not include transfers of the arrays.

    The estimates are computed once for all placements of the arrays. without: device -> why it cannot be used.
    """
    excluded = without or {}
    total_estimates = [e.after(transfer_seconds(e.device, machines, arrays)) for e in estimates]
    order = tuple(sorted(total_estimates, key=lambda e: (e.device in excluded, e.total)))
    quickest = min(order, key=lambda e: e.total)
    if quickest.device in excluded:
        comparison = f"{quickest.device} would take {seconds(quickest.total)}, {order[0].device} {seconds(order[0].total)}"
        return Decision(order[0].device, order, f"{comparison}: {excluded[quickest.device]}")
    return Decision(order[0].device, order, _reason(order))


def find_full_devices(made: int, arrays: Arrays, rooms: Mapping[str, int]) -> dict[str, str]:
    """Return device -> reason for each device whose free memory is less than the program needs there.

    made: bytes that the program needs besides the arrays it reads.
    """
    reasons = {}
    for name, room in rooms.items():
        needed = made + sum([nbytes for nbytes, where in arrays if where != name])
        if needed > room:
            reasons[name] = f"{format_bytes(needed)} more are needed there, and {format_bytes(room)} are left"
    return reasons


def transfer_seconds(name: str, machines: Mapping[str, Machine], arrays: Arrays) -> float:
    """Return the seconds until all arrays are on a device: over its own link, over that of their device, or over both."""
    links = [(nbytes, machines[place].link) for nbytes, where in arrays if where != name for place in (name, where)]
    return sum([link_seconds(nbytes, link) for nbytes, link in links if link is not None])


def _reason(order: Sequence[Estimate]) -> str:
    """Return a sentence that compares the two fastest devices and names the largest part of the second one's time."""
    best = order[0]
    if len(order) == 1:
        return f"{best.device} is the only device"
    second = order[1]
    seconds_of = {
        f"starting {second.launches} kernel{'' if second.launches == 1 else 's'} there takes": second.launching,
        "copying arrays there takes": second.moving,
        "the work itself takes there": second.working,
    }
    largest = max(seconds_of, key=lambda name: seconds_of[name])
    comparison = f"{second.device} would take {seconds(second.total)}, {best.device} {seconds(best.total)}"
    return f"{comparison}: {largest} {seconds(seconds_of[largest])}"
