"""Records of a profile, made from the times and the work of the steps.

A step belongs to the update if an optimizer made it, or if it depends on a gradient; then it belongs to that gradient's layer.
Times are minima, because other programs only add.
"""

from __future__ import annotations

import linecache
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.graph.node import Node
from weft.graph.source_lines import user_line
from weft.placement.device_figures import Machine
from weft.tools.profile_session import Origin, Run, Session, Unit, Work, works
from weft.tools.profile_words import UNKNOWN, short

PHASES = ("forward", "backward", "update")
OUTSIDE = "(outside layers)"


@dataclass(frozen=True)
class Place:
    """A place in the program. ``line``: "file:line", "" if not known; ``source``: its text; ``function``: the enclosing one;
    ``layer``: its path in the model, "" outside layers; ``kind``: the layer's class; ``phase``: forward, backward or update"""

    line: str
    source: str
    function: str
    layer: str
    kind: str
    phase: str


@dataclass(frozen=True)
class Share:
    """The seconds of a place in a kernel in one call, estimated if the kernel has several places."""

    place: Place
    seconds: float
    estimated: bool


@dataclass(frozen=True)
class KernelTime:
    """One kernel, loop, NumPy step or copy. Seconds, flops and bytes are those of all its runs in one call.

    Attributes
    ----------
    name : name of the kernel
    kind : kernel, loop, numpy or copy
    runs : number of runs in one call
    seconds : measured time
    floor : minimum time on this machine in seconds, by its peak arithmetic or its bandwidth
    bound : which of the two limits applies: "arithmetic" or "memory"
    flops, bytes : arithmetic operations; size of the elements read and written, each once
    reason : why it is slower than the floor, or what limits it, in one or two words
    why : the same as a sentence
    parts : the places that share it
    """

    name: str
    kind: str
    runs: float
    seconds: float
    floor: float
    bound: str
    flops: float
    bytes: float
    reason: str
    why: str
    parts: tuple[Share, ...]

    @property
    def lost(self) -> float:
        """Seconds above the floor."""
        return max(0.0, self.seconds - self.floor)

    @property
    def of_floor(self) -> float:
        """Floor divided by time: 1 is the limit of this machine."""
        return min(1.0, self.floor / self.seconds) if self.seconds else 1.0

    @property
    def flops_per_second(self) -> float:
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        return self.bytes / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Row:
    """The seconds of a layer or a line in one call. ``estimated``: a part of it is a share of a fused kernel"""

    name: str
    detail: str  # a layer's class, a line's text
    forward: float
    backward: float
    update: float
    estimated: bool

    @property
    def seconds(self) -> float:
        return self.forward + self.backward + self.update


@dataclass(frozen=True)
class Event:
    """A step on the time line of one call, in nanoseconds since the start of the call."""

    name: str
    category: str
    begin: int
    length: int
    detail: dict[str, Any]


@dataclass(frozen=True)
class StepTime:
    """The measured seconds of one step of a program in one call, and its number of runs."""

    unit: Unit
    number: int
    work: Work
    seconds: float
    runs: float


def steps_of(calls: Sequence[Sequence[Run]], machine: Machine) -> list[StepTime]:
    """Return the minimum time of each step over the calls, since other programs can only add time."""
    work: dict[Unit, list[Work]] = {}
    totals: dict[tuple[Unit, int], list[int]] = {}
    counts: dict[tuple[Unit, int], list[int]] = {}
    for c, ran in enumerate(calls):
        for run in ran:
            if run.unit not in work:
                work[run.unit] = works(run.unit.program, run.unit.fused, machine)
            for k, (_, ns) in enumerate(run.times):
                if (run.unit, k) not in totals:
                    totals[run.unit, k], counts[run.unit, k] = [0] * len(calls), [0] * len(calls)
                totals[run.unit, k][c] += ns
                counts[run.unit, k][c] += 1
    return [
        StepTime(unit, k, work[unit][k], min(t for t, n in zip(ns, counts[unit, k], strict=True) if n) * 1e-9, runs)
        for (unit, k), ns in totals.items() if (runs := statistics.median(counts[unit, k])) > 0
    ]


class Places:
    """Function from origins to places, with a cache of lines."""

    def __init__(self, session: Session, hidden: Callable[[str], bool]) -> None:
        self._session = session
        self._hidden = hidden
        self._lines: dict[tuple[Any, int], str] = {}

    def __call__(self, origin: Origin) -> Place:
        code, instruction, mark, phase = origin
        if (code, instruction) not in self._lines:
            self._lines[code, instruction] = user_line(origin)
        line = self._lines[code, instruction]
        layer, kind = self._session.layer(mark)
        if code is None or self._hidden(code.co_filename):
            return Place("", "", "", layer, kind, phase)
        file, _, number = line.rpartition(":")
        source = linecache.getline(file, int(number)).strip()
        return Place(line, source, code.co_qualname, layer, kind, phase)


def rows(kernels: Sequence[KernelTime], key: Callable[[Place], tuple[str, str]]) -> tuple[Row, ...]:
    """Return the seconds by layer or by line, the largest first."""
    times_by_name: dict[str, dict[str, float]] = {}
    details: dict[str, str] = {}
    estimated: set[str] = set()
    for kernel in kernels:
        for part in kernel.parts:
            name, detail = key(part.place)
            details.setdefault(name, detail)
            times = times_by_name.setdefault(name, dict.fromkeys(PHASES, 0.0))
            times[part.place.phase] += part.seconds
            if part.estimated:
                estimated.add(name)
    out = [
        Row(name, details[name], t["forward"], t["backward"], t["update"], name in estimated) for name, t in times_by_name.items()
    ]
    return tuple(sorted(out, key=lambda r: -r.seconds))


def layer_key(place: Place) -> tuple[str, str]:
    return place.layer or OUTSIDE, place.kind


def line_key(place: Place) -> tuple[str, str]:
    return place.line or UNKNOWN, place.source


def places(parts: Sequence[Share]) -> str:
    """Return the origins of a kernel as text, the largest share first: layers and phases, or lines outside layers."""
    names: dict[str, float] = {}
    for part in parts:
        p = part.place
        name = f"{p.layer} {p.phase}" if p.layer else short(p.line)
        names[name] = names.get(name, 0.0) + part.seconds
    return ", ".join([n for n in sorted(names, key=lambda n: -names[n]) if n][:4])


def node_counts(calls: Sequence[Run]) -> tuple[Counter, dict[tuple[Any, int], list[Node]]]:
    """Count each (line, operation, shape) in one call, and collect by line the nodes that write a part of an array."""
    counts: Counter = Counter()
    writes: dict[tuple[Any, int], list[Node]] = {}
    for run in calls:
        for fused in run.unit.fused:
            for node in fused.nodes:
                if node.where is not None and node.where[0] is not None:
                    place = node.where[:2]
                    counts[place, node.op.name, node.shape] += 1
                    if node.op.kind in ("write", "scatter"):
                        writes.setdefault(place, []).append(node)
    return counts, writes
