"""profile: where the time of a function goes, and why."""

from __future__ import annotations

import functools
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.placement.device_figures import Machine, machine
from weft.tools.profile_figures import Figures
from weft.tools.profile_reasons import Reason, culprit_of, overhead, reason_of
from weft.tools.profile_report import (
    PHASES,
    Event,
    KernelTime,
    Place,
    Places,
    Share,
    StepTime,
    by_layer,
    by_line,
    node_counts,
    rows,
    steps_of,
)
from weft.tools.profile_session import Run, Session, called, check_call, contents_kept, in_notebook, measured, name_of
from weft.tools.profile_text import head, text

BUDGET = 0.6  # seconds for the timed calls, where ``repeat`` is left out


@dataclass(frozen=True, repr=False)
class Profile(Figures):
    """What :func:`profile` found; ``print`` it, show it in a notebook, or :meth:`save` it. Seconds are those of one call.

    Attributes
    ----------
    name : of the function
    calls : how many were measured; all times are the least of them, since other programs only ever add
    measured : the quickest call as a whole
    seconds : a call: what its parts take at their quickest; on a busy machine that is less than ``measured``
    inside : the sum of the kernels' own seconds; outside : the rest
    phases : seconds of "forward", "backward" and "update"
    layers, lines : one Row each, the slowest first
    kernels : one KernelTime each, the worst first: by seconds above what this machine needs at least
    culprit : what to look at first
    machine : what was measured of this machine
    """

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return f"Profile({head(self)})"

    def _repr_html_(self) -> str:
        from weft.tools.profile_export import fragment

        return fragment(self)

    def chrome_trace(self) -> dict[str, Any]:
        """One call as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open, as a dict for ``json.dump``."""
        from weft.tools.profile_export import chrome_trace

        return chrome_trace(self)

    def save(self, path: str | os.PathLike) -> None:
        """Write a file; its ending says what.

        Parameters
        ----------
        path : ``.html`` a page that needs no network, ``.png`` a picture (matplotlib, ``pip install weft[plot]``), ``.json`` a
            trace of one call for Perfetto and chrome://tracing, ``.txt`` what ``print`` shows

        Raises
        ------
        ValueError
            for another ending.
        """
        from weft.tools.profile_export import page, picture, trace_text

        path = Path(path)
        check_ending(path)
        writers: dict[str, Callable[[Profile], str | bytes]] = {
            ".html": page, ".png": picture, ".json": trace_text, ".txt": lambda p: text(p) + "\n",
        }
        content = writers[path.suffix](self)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def check_ending(path: str | os.PathLike) -> None:
    """Refuse a file name that :meth:`Profile.save` could not write."""
    end = Path(path).suffix
    if end not in (".html", ".png", ".json", ".txt"):
        raise ValueError(f"profile: the name of its file must end in .html, .png, .json or .txt, not in {end!r}: {path}")


def profile(f: Callable, *args: Any, repeat: int | None = None, show: bool = True, **kwargs: Any) -> Profile:
    """Measure where the time of ``f(*args, **kwargs)`` goes: by layer, by line and by kernel, and say what to look at first.

    The kernels are those that run without a profile; nothing is split for it. ``f`` is called several times. Arrays that it
    writes and that can be reached from it or its arguments (parameters, optimizer, random state) are given back their
    contents; other traces that it leaves in Python stay. A first call that makes such state counts as a call.

    Parameters
    ----------
    f : function, jitted or not, method, or module. One that is not jitted may look at contents; then Python's time counts.
    args, kwargs : what it is called with
    repeat : how many calls are measured; as many as fit into about half a second where it is left out, at least 3
    show : print the tables (a notebook shows the result by itself)

    Returns
    -------
    Profile : ``print`` it or ``save("profile.html")``, also ``.png``, ``.json`` (a trace for Perfetto) and ``.txt``

    Raises
    ------
    TypeError, ValueError
        when ``f`` is no function or ``repeat`` is not positive.
    TraceError
        inside jit, grad or another profile.
    DeviceError
        on a GPU or gpu-sim, whose steps are not timed: profile on the CPU, inside ``with wf.device("cpu"):``.

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
    with Session() as session:  # fails early where a profile cannot be
        pass
    with contents_kept(f, args, kwargs) as arrays:
        times = measured(session, functools.partial(called, f, args, kwargs, arrays), repeat, BUDGET)
    found = _found(name_of(f), session, *times)
    if show and not in_notebook():
        print(found)
    return found


def _found(name: str, session: Session, wholes: list[int], timed: list[int], runs: list[list[Run]]) -> Profile:
    limits = machine()
    steps = steps_of(runs, limits)
    inside = sum(s.seconds for s in steps)
    outside = min(ns - sum(t for run in ran for _, t in run.times) for ns, ran in zip(timed, runs, strict=True)) * 1e-9
    quickest = min(wholes) * 1e-9
    whole = max(min(quickest, inside + outside), inside, 1e-9)
    best = timed.index(min(timed))
    place = Places(session, _hidden)
    every, writes = node_counts(runs[best])
    kernels, reasons = [], {}
    for step in steps:
        reason = reason_of(step, limits, writes)
        kernel = _kernel(step, limits, reason, place)
        kernels.append(kernel)
        reasons[id(kernel)] = reason
    kernels.sort(key=lambda k: (-k.lost, -k.seconds))
    phases = {p: sum(part.seconds for k in kernels for part in k.parts if part.place.phase == p) for p in PHASES}
    programs = statistics.median(map(len, runs))
    looks = statistics.median([sum(not run.unit.jitted for run in call) for call in runs])
    reason, line = overhead(whole, inside, programs, looks, session.traced / len(runs), every, writes)
    blamed = place((*line, "", "forward")) if line is not None else Place("", "", "", "", "", "")
    culprit = culprit_of(kernels, reasons, whole, whole - inside, reason, blamed)
    layers = rows(kernels, by_layer)
    return Profile(
        name, len(wholes), quickest, whole, inside, phases, layers, rows(kernels, by_line), tuple(kernels), culprit, limits,
        _events(runs[best], place),
    )


def _kernel(step: StepTime, limits: Machine, reason: Reason, place: Places) -> KernelTime:
    work, runs = step.work, step.runs
    arithmetic, memory = work.floor(limits)
    parts = [Share(place(origin), share * step.seconds, len(work.parts) > 1) for origin, share in work.parts.items()]
    bound = "arithmetic" if arithmetic > memory else "memory"
    return KernelTime(
        work.name, work.kind, runs, step.seconds, runs * max(arithmetic, memory), bound,
        runs * work.flops, runs * work.bytes, reason.name, reason.why, tuple(sorted(parts, key=lambda p: -p.seconds)),
    )


def _events(runs: Sequence[Run], place: Places) -> tuple[Event, ...]:
    from weft.tools.profile_session import works

    limits, done, out = machine(), {}, []
    begin = min((t for run in runs for t, _ in run.times), default=0)
    for run in runs:
        unit = run.unit
        if unit not in done:
            done[unit] = works(unit.program, unit.fused, limits)
        for (start, ns), work in zip(run.times, done[unit], strict=True):
            parts = [(place(o), share) for o, share in sorted(work.parts.items(), key=lambda p: -p[1])]
            detail = {"flops": work.flops, "bytes": work.bytes, "parts": parts}
            out.append(Event(work.name, work.kind, start - begin, ns, detail))
    return tuple(out)


def _hidden(file: str) -> bool:
    """Whether a file is none that a user wrote: the command itself, and what starts Python."""
    return file.startswith("<frozen") or os.path.basename(file) in ("weft", "weft.exe")
