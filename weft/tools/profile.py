"""profile: where the time of a function goes, and why."""

from __future__ import annotations

import functools
import os
import statistics
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.array import Array
from weft.look import evaluate
from weft.tools.profile_machine import Machine, machine
from weft.tools.profile_reasons import Reason, overhead, reason_of
from weft.tools.profile_report import (
    OUTSIDE,
    PHASES,
    Event,
    KernelTime,
    Part,
    Place,
    Places,
    Row,
    Step,
    by_layer,
    by_line,
    node_counts,
    rows,
    steps_of,
)
from weft.tools.profile_session import Run, Session
from weft.tools.profile_text import head, percent, short, text
from weft.transforms.jit import Jitted
from weft.transforms.reach import cells_of, names_of

BUDGET = 0.6  # seconds for the timed calls, where ``repeat`` is left out
SETTLE = 2  # calls before each round that are not counted: arrays change owners, caches fill
MOST_OBJECTS = 100_000


@dataclass(frozen=True)
class Culprit:
    """What to look at first.

    Attributes
    ----------
    line, layer, phase : where, "" where it is nowhere in particular
    seconds : that it takes, a call; lost : of these above the floor
    reason : in one word or two: "memory-bound", "too small", "not vectorised", "host primitive", "quadratic", ...
    sentence : all of it
    """

    line: str
    layer: str
    phase: str
    seconds: float
    lost: float
    reason: str
    sentence: str


@dataclass(frozen=True, repr=False)
class Profile:
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

    name: str
    calls: int
    measured: float
    seconds: float
    inside: float
    phases: dict[str, float]
    layers: tuple[Row, ...]
    lines: tuple[Row, ...]
    kernels: tuple[KernelTime, ...]
    culprit: Culprit
    machine: Machine
    events: tuple[Event, ...] = field(repr=False)

    @property
    def outside(self) -> float:
        """Seconds of a call outside of kernels: the call, and Python."""
        return max(0.0, self.seconds - self.inside)

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return f"Profile({head(self)})"

    def _repr_html_(self) -> str:
        from weft.tools.profile_html import fragment

        return fragment(self)

    def chrome_trace(self) -> dict[str, Any]:
        """One call as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open, as a dict for ``json.dump``."""
        from weft.tools.profile_trace import chrome_trace

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
        from weft.tools.profile_html import page
        from weft.tools.profile_plot import picture
        from weft.tools.profile_trace import trace_text

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
    if not callable(f):
        raise TypeError(f"profile: {f!r} is not a function: give the function and its arguments, wf.profile(f, x)")
    if repeat is not None and (isinstance(repeat, bool) or not isinstance(repeat, int | np.integer)):
        raise TypeError(f"profile: repeat must be an integer, not {repeat!r}")
    if repeat is not None and repeat < 1:
        raise ValueError(f"profile: repeat must be at least 1, not {repeat}")
    with Session() as session:  # fails early where a profile cannot be
        pass
    arrays = _arrays(f, args, kwargs)
    evaluate(arrays)
    kept = [(array, array._node) for array in arrays]
    try:
        _called(f, args, kwargs, arrays)
        made = _arrays(f, args, kwargs)
        if not {id(a) for a in made} <= {id(a) for a in arrays}:  # an optimizer's state, say, that only this call could make
            arrays = made
            evaluate(arrays)
            kept = [(array, array._node) for array in arrays]
        measured = _measured(session, functools.partial(_called, f, args, kwargs, arrays), repeat)
    finally:
        for array, node in kept:
            array._node = node
    found = _found(_name(f), session, *measured)
    if show and not _in_notebook():
        print(found)
    return found


def _called(f: Callable, args: tuple, kwargs: dict[str, Any], reached: Sequence[Array]) -> int:
    """Call, compute what comes out and what was written; nanoseconds."""
    begin = time.perf_counter_ns()
    out = f(*args, **kwargs)
    pending = [a for a in reached if a._node.value is None]
    if pending or not isinstance(out, Array) or out.node.value is None:
        evaluate(out, pending)
    return time.perf_counter_ns() - begin


def _measured(session: Session, call: Callable[[], int], repeat: int | None) -> tuple[list[int], list[int], list[list[Run]]]:
    """Nanoseconds of whole calls; of calls in the session; and the runs of each of these."""
    once = min(call(), call()) * 1e-9
    count = repeat if repeat is not None else int(min(200, max(3, BUDGET / 2 / max(once, 1e-7))))
    rounds = min(count, 4)
    wholes: list[int] = []
    timed: list[int] = []
    runs: list[list[Run]] = []
    for r in range(rounds):  # plain and timed calls in turns, so that a busy moment meets both
        share = count * (r + 1) // rounds - count * r // rounds
        for _ in range(SETTLE if once < 0.5 else 1):
            call()
        wholes += [call() for _ in range(share)]
        with session:
            for _ in range(SETTLE if r else SETTLE + 1):
                call()
            session.recording = True
            for _ in range(share):
                session.runs = []
                timed.append(call())
                runs.append(session.runs)
            session.recording = False
    return wholes, timed, runs


def _found(name: str, session: Session, wholes: list[int], timed: list[int], runs: list[list[Run]]) -> Profile:
    limits = machine()
    steps = steps_of(runs, limits)
    inside = sum(s.seconds for s in steps)
    outside = min(ns - sum(t for run in ran for _, t in run.times) for ns, ran in zip(timed, runs, strict=True)) * 1e-9
    measured = min(wholes) * 1e-9
    whole = max(min(measured, inside + outside), inside, 1e-9)
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
    culprit = _culprit(kernels, reasons, whole, whole - inside, reason, blamed)
    layers = rows(kernels, by_layer)
    return Profile(
        name, len(wholes), measured, whole, inside, phases, layers, rows(kernels, by_line), tuple(kernels), culprit, limits,
        _events(runs[best], place),
    )


def _kernel(step: Step, limits: Machine, reason: Reason, place: Places) -> KernelTime:
    work, runs = step.work, step.runs
    arithmetic, memory = work.floor(limits)
    parts = [Part(place(origin), share * step.seconds, len(work.parts) > 1) for origin, share in work.parts.items()]
    bound = "arithmetic" if arithmetic > memory else "memory"
    return KernelTime(
        work.name, work.kind, runs, step.seconds, runs * max(arithmetic, memory), bound,
        runs * work.flops, runs * work.bytes, reason.name, reason.why, tuple(sorted(parts, key=lambda p: -p.seconds)),
    )


def _culprit(
    kernels: Sequence[KernelTime], reasons: dict[int, Reason], whole: float, outside: float, why: Reason, blamed: Place
) -> Culprit:
    """The place that loses most above the floor; where all are near it, the place that takes most."""
    lost: dict[Place, float] = {}
    taken: dict[Place, float] = {}
    worst: dict[Place, tuple[float, KernelTime]] = {}
    for kernel in kernels:
        for part in kernel.parts:
            share = part.seconds / kernel.seconds if kernel.seconds else 0.0
            lost[part.place] = lost.get(part.place, 0.0) + share * kernel.lost
            taken[part.place] = taken.get(part.place, 0.0) + part.seconds
            worst[part.place] = max(worst.get(part.place, (-1.0, kernel)), (part.seconds, kernel), key=lambda x: x[0])
    by = lost if max(lost.values(), default=0.0) + outside > 0.3 * whole else taken
    place = max(by, key=by.__getitem__, default=None)
    same = place is not None and place.line == blamed.line != ""
    if place is None or (outside > by[place] and not same):
        extra = f"{_where(blamed)}: " if blamed.line else ""
        sentence = f"Culprit: {extra}{percent(outside / whole)} of the time is outside of kernels. {_sentence(why)}"
        return Culprit(blamed.line, "", "", outside, outside, why.name, sentence)
    kernel = worst[place][1]
    reason = reasons[id(kernel)]
    estimated = len(kernel.parts) > 1
    took, above = taken[place], lost[place]
    time = f"{percent(took / whole, estimated)} of the time"
    if same and outside > took:
        took, above, reason = took + outside, above + outside, why
        time = f"{percent(took / whole, True)} of the time, almost all of it in Python"
    if place.layer and len({p.layer for p in taken if p.line == place.line}) > 1:
        place = replace(place, line="")  # the line of the whole model says nothing more
    sentence = f"Culprit: {_where(place)}, {time}. {_sentence(reason)}"
    return Culprit(place.line, place.layer, place.phase, took, above, reason.name, sentence)


def _where(place: Place) -> str:
    layer = f"{place.layer} ({place.kind})" if place.kind and place.kind != place.layer else place.layer
    parts = [f"{layer}, {place.phase}"] if layer else []
    if place.line:
        inside = f" in {place.function}" if place.function and not place.function.startswith("<") else ""
        parts.append(f"{place.source + '  ' if place.source else ''}({short(place.line)}{inside})")
    return ", ".join(parts) or f"{OUTSIDE[1:-1]}, {place.phase}"


def _sentence(reason: Reason) -> str:
    why = reason.why[0].upper() + reason.why[1:] + "."
    return f"{why} {reason.advice}." if reason.advice else why


def _events(runs: Sequence[Run], place: Places) -> tuple[Event, ...]:
    from weft.tools.profile_work import works

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


def _name(f: Any) -> str:
    while isinstance(f, functools.partial):
        f = f.func
    return getattr(f, "__name__", type(f).__name__)


def _in_notebook() -> bool:
    from rich.console import Console

    return Console().is_jupyter


def _arrays(*roots: Any) -> list[Array]:
    """Every Array with a content of its own that the roots lead to, and the random state."""
    from weft.functions import random_state

    found: dict[int, Array] = {}
    seen: dict[int, Any] = {}
    stack: list[Any] = [*roots, random_state._STATE.key, random_state._STATE.base]
    while stack and len(seen) < MOST_OBJECTS:
        item = stack.pop()
        if item is None or isinstance(item, int | float | str | bytes | type | types.ModuleType | np.ndarray) or id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, Array):
            found[id(item.cell)] = item.cell
        elif isinstance(item, types.FunctionType):
            stack += [*cells_of(item), *(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values()]
            if not (item.__module__ or "").startswith("weft."):
                stack += [item.__globals__[n] for n in names_of(item.__code__) if n in item.__globals__]
        elif isinstance(item, types.MethodType):
            stack += [item.__func__, item.__self__]
        elif isinstance(item, functools.partial):
            stack += [item.func, *item.args, *item.keywords.values()]
        elif isinstance(item, Jitted):
            stack.append(item.f)
        elif isinstance(item, dict):
            stack += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            stack += item
        elif hasattr(item, "__dict__"):
            stack += vars(item).values()
    return list(found.values())
