"""bench: milliseconds, GFLOP/s and GB/s of a function, and the share of what this machine can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.devices import settle
from weft.devices.base import Measuring
from weft.errors import DeviceError, seconds
from weft.placement.device_figures import Machine, machine
from weft.runtime import execute
from weft.runtime.context import LOCAL
from weft.tools.profile_session import Session, Work, called, check_call, contents_kept, in_notebook, name_of, works
from weft.tools.profile_words import amount

BUDGET = 0.5  # seconds for the timed calls, where ``repeat`` is left out
MOST_CALLS = 1000
_UNKNOWN = Machine("", 1, 1.0, ((1, 1.0),))  # counting work needs no figures


@dataclass(frozen=True, repr=False)
class Bench:
    """What :func:`bench` found; ``print`` it. All of it is of one call.

    Attributes
    ----------
    name : of the function
    seconds : the least of the calls measured, since other programs only ever add
    calls : how many were measured
    kernels : kernels, NumPy steps and copies that ran; a loop counts as one
    flops, bytes : arithmetic; elements that kernels read and write, each once a kernel
    device, threads : what ran it
    floor : seconds that the machine needs at least, by its peak arithmetic or its bandwidth; None where no figures are at hand
    bound : which of the two: "arithmetic" or "memory"
    """

    name: str
    seconds: float
    calls: int
    kernels: int
    flops: int
    bytes: int
    device: str
    threads: int
    floor: float | None
    bound: str

    @property
    def milliseconds(self) -> float:
        return 1e3 * self.seconds

    @property
    def gflops(self) -> float:
        """GFLOP/s."""
        return self.flops / self.seconds / 1e9

    @property
    def gbytes(self) -> float:
        """GB/s."""
        return self.bytes / self.seconds / 1e9

    @property
    def share(self) -> float | None:
        """``floor`` over ``seconds``: 1 is the measured peak, or the measured bandwidth."""
        return None if self.floor is None else self.floor / self.seconds

    def __str__(self) -> str:
        of = "peak" if self.bound == "arithmetic" else "bandwidth"
        share = "" if self.share is None else f", {self.share:.0%} of the measured {of}"
        threads = f", {self.threads} thread{'s' * (self.threads > 1)}" if self.device == "cpu" else ""
        return (
            f"{self.name}: {seconds(self.seconds)} (the least of {self.calls}), {amount(self.flops / self.seconds)}FLOP/s, "
            f"{amount(self.bytes / self.seconds)}B/s{share}; {self.device}{threads}"
        )

    def __repr__(self) -> str:
        return f"Bench({self})"


def bench(f: Callable, *args: Any, repeat: int | None = None, show: bool = True, **kwargs: Any) -> Bench:
    """Time ``f(*args, **kwargs)``, count its arithmetic and memory traffic, and compare both with this machine's peak.

    The time is that of whole calls, results computed: of a function that is not jitted, Python's share in it counts too. What
    ``f`` computes in NumPy by itself is in the time and not in the counts. Arrays that ``f`` writes have their contents back
    afterwards, as after :func:`profile`, which says where the time goes.

    Parameters
    ----------
    f : function, jitted or not, method, or module
    args, kwargs : what it is called with
    repeat : how many calls are measured; as many as fit into half a second where it is left out, at least 3
    show : print the line (a notebook shows the result by itself)

    Returns
    -------
    Bench : ``milliseconds``, ``gflops`` (GFLOP/s), ``gbytes`` (GB/s), ``share`` of the measured peak (None on devices without
        figures), and what they are made of: ``seconds``, ``flops``, ``bytes``

    Raises
    ------
    TypeError, ValueError
        when ``f`` is no function or ``repeat`` is not positive; when nothing can be counted: no program of weft runs, or two
        calls do different work.
    TraceError
        inside jit, grad or a profile.
    DeviceError
        under ``wf.set_device("auto")``, where calls may run on several devices.

    Examples
    --------
    >>> import weft as wf
    >>> x, w = wf.ones((100, 200)), wf.ones((200, 50))
    >>> found = wf.bench(wf.jit(lambda x, w: wf.nn.relu(2 * (x @ w))), x, w, repeat=3, show=False)
    >>> found.kernels, found.bytes
    (1, 140000)
    >>> found.gflops > 0
    True
    """
    check_call("bench", f, repeat)
    if LOCAL.place is not LOCAL.device:
        raise DeviceError("bench: 'auto' may run calls on several devices: name one, inside `with wf.device('cpu'):`")
    name = name_of(f)
    session = Session("bench", timed=False)
    with session:  # fails early where it cannot be
        pass
    with contents_kept(f, args, kwargs) as arrays:
        counts = []
        with session:
            session.recording = True
            for _ in range(2):
                session.runs = []
                called(f, args, kwargs, arrays)
                counts.append([run.unit for run in session.runs])
        limits = _figures()
        known = {unit: works(unit.program, unit.fused, limits or _UNKNOWN) for call in counts for unit in call}
        first, work = ([step for unit in call for step in known[unit]] for call in counts)
        _check_work(name, first, work)
        once = min(called(f, args, kwargs, arrays) for _ in range(2)) * 1e-9
        settle()  # what runs often is compiled anew in the background
        count = repeat if repeat is not None else int(min(MOST_CALLS, max(3, BUDGET / max(once, 1e-7))))
        for _ in range(max(2, count // 10)):
            called(f, args, kwargs, arrays)
        least = min(called(f, args, kwargs, arrays) for _ in range(count)) * 1e-9
    arithmetic, memory, floor = 0.0, 0.0, 0.0
    for step in work:
        a, m = step.floor(limits or _UNKNOWN)
        arithmetic, memory, floor = arithmetic + a, memory + m, floor + max(a, m)
    device = execute.device()
    found = Bench(
        name, max(least, 1e-9), count, len(work), sum([s.flops for s in work]), sum([s.bytes for s in work]), device.name,
        device.threads, None if limits is None else floor, "arithmetic" if arithmetic > memory else "memory",
    )
    if show and not in_notebook():
        print(found)
    return found


def _figures() -> Machine | None:
    """Return the figures of the device in use, None where it has none: gpu-sim interprets."""
    device = execute.device()
    return machine(device.name) if isinstance(device, Measuring) else None


def _check_work(name: str, first: list[Work], work: list[Work]) -> None:
    """Refuse calls whose work cannot be counted."""
    if not any(step.flops or step.bytes for step in work):
        raise ValueError(
            f"bench: {name} ran no program of weft, so there is no arithmetic and no traffic to count; give a function that "
            "computes with weft's arrays, not one that returns what exists"
        )
    done = [(sum([s.flops for s in steps]), sum([s.bytes for s in steps])) for steps in (first, work)]
    if done[0] != done[1]:
        a, b = (f"{amount(flops)}FLOP and {amount(size)}B" for flops, size in done)
        raise ValueError(f"bench: two calls of {name} did different work ({a}, then {b}): give one whose calls are alike")
