"""bench: milliseconds, GFLOP/s and GB/s of a function, and its share of this machine's measured limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.devices.base import Measuring
from weft.errors import DeviceError, amount, seconds
from weft.placement.device_figures import Machine, machine
from weft.runtime import execute
from weft.runtime.context import CONTEXT
from weft.tools.profile_session import Session, Work, check_call, in_notebook, list_work, name_of, restore_arrays, time_call

BUDGET = 0.5  # seconds for the timed calls, if ``repeat`` is not given
MOST_CALLS = 1000
_UNKNOWN = Machine("", 1, 1.0, ((1, 1.0),))  # counting work needs no figures


@dataclass(frozen=True, repr=False)
class Bench:
    """The result of :func:`bench`, to be printed. All figures are those of one call.

    Attributes
    ----------
    name : name of the function
    seconds : the minimum over the measured calls, since other programs can only add time
    calls : number of measured calls
    kernels : number of kernels, NumPy steps and copies that ran; a loop counts as one
    flops, bytes : arithmetic operations; size of the elements that kernels read and write, each counted once per kernel
    device, threads : the device and its number of threads
    floor : minimum time on this machine in seconds, by its peak arithmetic or its bandwidth; None if it has not been measured
    bound : which of the two limits applies: "arithmetic" or "memory"
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

    The time is that of whole calls, including the computation of results; for a function that is not jitted it includes Python's
    time. What ``f`` computes by calling NumPy itself is in the time but not in the counts. Arrays that ``f`` writes are restored
    afterwards, as by :func:`profile`, which measures where the time goes.

    Parameters
    ----------
    f : function, jitted or not, method, or module
    args, kwargs : arguments of ``f``
    repeat : number of measured calls; by default as many as fit into half a second, at least 3
    show : print the result as a line (a notebook displays the returned object)

    Returns
    -------
    Bench : ``milliseconds``, ``gflops`` (GFLOP/s), ``gbytes`` (GB/s), ``share`` of the measured peak (None on devices without
        figures), and the values they derive from: ``seconds``, ``flops``, ``bytes``

    Raises
    ------
    TypeError, ValueError
        ``f`` is not a function or ``repeat`` is not positive; nothing can be counted, because no program of weft runs or two
        calls do different work.
    TraceError
        Called inside jit, grad or a profile.
    DeviceError
        ``wf.set_device("auto")`` is in force, under which calls may run on several devices.

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
    if CONTEXT.placement is not CONTEXT.device:
        raise DeviceError("bench: 'auto' may run calls on several devices: name one, inside `with wf.device('cpu'):`")
    name = name_of(f)
    session = Session("bench", timed=False)
    with session:  # raises now if a session is not possible
        pass
    with restore_arrays(f, args, kwargs) as arrays:
        counts = []
        with session:
            session.recording = True
            for _ in range(2):
                session.runs = []
                time_call(f, args, kwargs, arrays)
                counts.append([run.unit for run in session.runs])
        device = execute.device()
        limits = machine(device.name) if isinstance(device, Measuring) else None  # None for gpu-sim
        works_by_unit = {unit: list_work(unit.program, unit.groups, limits or _UNKNOWN) for call in counts for unit in call}
        first, work = ([step for unit in call for step in works_by_unit[unit]] for call in counts)
        _check_work(name, first, work)
        call_seconds = min(time_call(f, args, kwargs, arrays) for _ in range(2)) * 1e-9
        count = repeat if repeat is not None else int(min(MOST_CALLS, max(3, BUDGET / max(call_seconds, 1e-7))))
        for _ in range(max(2, count // 10)):
            time_call(f, args, kwargs, arrays)
        least = min(time_call(f, args, kwargs, arrays) for _ in range(count)) * 1e-9
    arithmetic, memory, floor = 0.0, 0.0, 0.0
    for step in work:
        a, m = step.floor(limits or _UNKNOWN)
        arithmetic, memory, floor = arithmetic + a, memory + m, floor + max(a, m)
    result = Bench(
        name, max(least, 1e-9), count, len(work), sum([s.flops for s in work]), sum([s.bytes for s in work]), device.name,
        device.threads, None if limits is None else floor, "arithmetic" if arithmetic > memory else "memory",
    )
    if show and not in_notebook():
        print(result)
    return result


def _check_work(name: str, first: list[Work], work: list[Work]) -> None:
    """Raise ValueError if the work of the calls cannot be counted."""
    if not any(step.flops or step.bytes for step in work):
        raise ValueError(
            f"bench: {name} ran no program of weft, so there is no arithmetic and no traffic to count; give a function that "
            "computes with weft's arrays, not one that returns what exists"
        )
    counts = [(sum([s.flops for s in steps]), sum([s.bytes for s in steps])) for steps in (first, work)]
    if counts[0] != counts[1]:
        a, b = (f"{amount(flops)}FLOP and {amount(size)}B" for flops, size in counts)
        raise ValueError(f"bench: two calls of {name} did different work ({a}, then {b}): give one whose calls are alike")
