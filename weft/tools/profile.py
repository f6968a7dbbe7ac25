"""profile: measure where the time of a function goes, and report why."""

from __future__ import annotations

import functools
import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from weft.placement.device_figures import Machine, machine
from weft.tools import profile_report as report
from weft.tools.profile_output import Profile
from weft.tools.profile_session import Run, Session, called, check_call, in_notebook, measured, name_of, restore_arrays, works

BUDGET = 0.6  # seconds for the timed calls, if ``repeat`` is not given


def profile(f: Callable, *args: Any, repeat: int | None = None, show: bool = True, **kwargs: Any) -> Profile:
    """Measure where the time of ``f(*args, **kwargs)`` goes, by layer, line and kernel, and name the place to optimise first.

    The kernels are the same as without a profile. ``f`` is called several times. Arrays that it writes and that can be reached
    from it or its arguments (parameters, optimizer, random state) are restored; other changes to Python objects stay. State that
    the first call creates, such as an optimizer's, stays as this call left it.

    Parameters
    ----------
    f : function, jitted or not, method, or module. One that is not jitted may read contents; Python's time is then included.
    args, kwargs : arguments of ``f``
    repeat : number of measured calls; by default as many as fit into about half a second, at least 3
    show : print the tables (a notebook displays the returned object)

    Returns
    -------
    Profile : ``print`` it or ``save("profile.html")``, also ``.png``, ``.json`` (a trace for Perfetto) and ``.txt``

    Raises
    ------
    TypeError, ValueError
        ``f`` is not a function or ``repeat`` is not positive.
    TraceError
        Called inside jit, grad or another profile.
    DeviceError
        The device is a GPU or gpu-sim, whose steps are not timed: profile on the CPU, inside ``with wf.device("cpu"):``.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.random.normal(size=(1000, 100))
    >>> found = wf.profile(wf.jit(lambda x: wf.exp(x - x.max(axis=1, keepdims=True))), x, repeat=3, show=False)
    >>> len(found.kernels), found.kernels[0].runs
    (1, 1)
    >>> found.seconds >= found.inside > 0
    True
    """
    check_call("profile", f, repeat)
    with Session() as session:  # raises now if a profile is not possible
        pass
    with restore_arrays(f, args, kwargs) as arrays:
        times = measured(session, functools.partial(called, f, args, kwargs, arrays), repeat, BUDGET)
    result = _evaluate(name_of(f), session, *times)
    if show and not in_notebook():
        print(result)
    return result


def _evaluate(name: str, session: Session, wholes: list[int], timed: list[int], runs: list[list[Run]]) -> Profile:
    limits = machine()
    steps = report.steps_of(runs, limits)
    inside = sum(s.seconds for s in steps)
    outside = min(ns - sum(t for run in ran for _, t in run.times) for ns, ran in zip(timed, runs, strict=True)) * 1e-9
    quickest = min(wholes) * 1e-9
    whole = max(min(quickest, inside + outside), inside, 1e-9)
    best = timed.index(min(timed))
    find_place = report.Places(session, _is_launcher)
    node_counter, writes = report.node_counts(runs[best])
    kernels, reasons = [], {}
    for step in steps:
        reason = report.find_reason(step, limits, writes)
        kernel = _kernel(step, limits, reason, find_place)
        kernels.append(kernel)
        reasons[id(kernel)] = reason
    kernels.sort(key=lambda k: (-k.lost, -k.seconds))
    phases = {p: sum(part.seconds for k in kernels for part in k.parts if part.place.phase == p) for p in report.PHASES}
    programs = statistics.median(map(len, runs))
    unjitted_runs = statistics.median([sum(not run.unit.jitted for run in call) for call in runs])
    traced = session.traced / len(runs)
    reason, line = report.overhead_reason(whole, inside, programs, unjitted_runs, traced, node_counter, writes)
    blamed_place = find_place((*line, "", "forward")) if line is not None else report.Place("", "", "", "", "", "")
    culprit = report.find_culprit(kernels, reasons, whole, whole - inside, reason, blamed_place)
    layers, lines = (report.rows(kernels, key) for key in (report.layer_key, report.line_key))
    return Profile(
        name, len(wholes), quickest, whole, inside, phases, layers, lines, tuple(kernels), culprit, limits,
        _events(runs[best], find_place),
    )


def _kernel(step: report.StepTime, limits: Machine, reason: report.Reason, place: report.Places) -> report.KernelTime:
    work, runs = step.work, step.runs
    arithmetic, memory = work.floor(limits)
    parts = [report.Share(place(origin), share * step.seconds, len(work.parts) > 1) for origin, share in work.parts.items()]
    bound = "arithmetic" if arithmetic > memory else "memory"
    return report.KernelTime(
        work.name, work.kind, runs, step.seconds, runs * max(arithmetic, memory), bound,
        runs * work.flops, runs * work.bytes, reason.name, reason.why, tuple(sorted(parts, key=lambda p: -p.seconds)),
    )


def _events(runs: Sequence[Run], place: report.Places) -> tuple[report.Event, ...]:
    limits, works_by_unit, out = machine(), {}, []
    begin = min((t for run in runs for t, _ in run.times), default=0)
    for run in runs:
        unit = run.unit
        if unit not in works_by_unit:
            works_by_unit[unit] = works(unit.program, unit.fused, limits)
        for (start, ns), work in zip(run.times, works_by_unit[unit], strict=True):
            parts = [(place(o), share) for o, share in sorted(work.parts.items(), key=lambda p: -p[1])]
            detail = {"flops": work.flops, "bytes": work.bytes, "parts": parts}
            out.append(report.Event(work.name, work.kind, start - begin, ns, detail))
    return tuple(out)


def _is_launcher(file: str) -> bool:
    """Return whether a file is not the user's: the command ``weft``, and the modules that start Python."""
    return file.startswith("<frozen") or os.path.basename(file) in ("weft", "weft.exe")
