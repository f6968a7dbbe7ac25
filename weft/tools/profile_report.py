"""Records of a profile, made from the times and the work of the steps; the reason for each time, and the place to optimise first.

A step belongs to the update if an optimizer made it, or if it depends on a gradient; then it belongs to that gradient's layer.
Times are minima, because other programs only add.
"""

from __future__ import annotations

import linecache
import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.devices import get_device, get_num_threads
from weft.devices.base import ReadsCode
from weft.errors import amount, seconds
from weft.graph.node import Node
from weft.graph.source_lines import file_name, user_line
from weft.kernel.expressions import roots, walk
from weft.kernel.ir import Kernel
from weft.placement.device_figures import Machine
from weft.schedule.program import Call, Loop, calls
from weft.tools.profile_gains import Gain
from weft.tools.profile_session import Origin, Run, Session, Unit, Work

PHASES = ("forward", "backward", "update")
OUTSIDE_LAYERS, UNKNOWN = "(outside layers)", "(unknown line)"


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
    floor : minimum time on this machine in seconds, by its peak arithmetic, with the multiplications that Winograd's transforms
        leave, or its bandwidth
    bound : which of the two limits applies: "arithmetic" or "memory"
    flops, bytes : arithmetic operations; size of the elements read and written, each once
    reason : why it is slower than the floor, or what limits it, in one or two words
    why : the same as a sentence
    parts : the places that share it
    gains : the settings from which it would gain, by the cost model
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
    gains: tuple[Gain, ...] = ()

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
    """A step on the time line of one call, in nanoseconds since the start of the call; its places with their shares."""

    work: Work
    begin: int
    length: int
    parts: list[tuple[Place, float]]


@dataclass(frozen=True)
class StepTime:
    """The measured seconds of one step of a program in one call, and its number of runs."""

    unit: Unit
    number: int
    work: Work
    seconds: float
    runs: float


def steps_of(calls: Sequence[Sequence[Run]], works_of: Callable[[Unit], list[Work]]) -> list[StepTime]:
    """Return the minimum time of each step over the calls, since other programs can only add time."""
    totals: dict[tuple[Unit, int], list[int]] = defaultdict(lambda: [0] * len(calls))
    counts: dict[tuple[Unit, int], list[int]] = defaultdict(lambda: [0] * len(calls))
    for c, ran in enumerate(calls):
        for run in ran:
            for k, (_, ns) in enumerate(run.times):
                totals[run.unit, k][c] += ns
                counts[run.unit, k][c] += 1
    return [
        StepTime(unit, k, works_of(unit)[k], min(t for t, n in zip(ns, counts[unit, k], strict=True) if n) * 1e-9, runs)
        for (unit, k), ns in totals.items() if (runs := statistics.median(counts[unit, k])) > 0
    ]


def find_place(session: Session, origin: Origin) -> Place:
    """Return the place of an origin; without a line if its file is not the user's: the command ``weft``, or Python's start."""
    code, _, mark, phase = origin
    layer, kind = session.layer(mark)
    if code is None or code.co_filename.startswith("<frozen") or os.path.basename(code.co_filename) in ("weft", "weft.exe"):
        return Place("", "", "", layer, kind, phase)
    line = user_line(origin)
    file, _, number = line.rpartition(":")
    return Place(line, linecache.getline(file, int(number)).strip(), code.co_qualname, layer, kind, phase)


def rows(kernels: Sequence[KernelTime], key: Callable[[Place], tuple[str, str]]) -> tuple[Row, ...]:
    """Return the seconds by layer or by line, the largest first."""
    times: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(PHASES, 0.0))
    details: dict[str, str] = {}
    parts = [part for kernel in kernels for part in kernel.parts]
    for part in parts:
        name, detail = key(part.place)
        details.setdefault(name, detail)
        times[name][part.place.phase] += part.seconds
    estimated = {key(part.place)[0] for part in parts if part.estimated}
    out = [Row(name, details[name], t["forward"], t["backward"], t["update"], name in estimated) for name, t in times.items()]
    return tuple(sorted(out, key=lambda r: -r.seconds))


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
        for fused in run.unit.groups:
            for node in fused.nodes:
                if node.source_line is not None and node.source_line[0] is not None:
                    place = node.source_line[:2]
                    counts[place, node.op.name, node.shape] += 1
                    if node.op.kind in ("write", "scatter"):
                        writes.setdefault(place, []).append(node)
    return counts, writes


def short(line: str) -> str:
    """Return a line with the short name of its file: ``net.py:12``."""
    file, colon, number = line.rpartition(":")
    return f"{file_name(file)}:{number}" if colon else line


def percent(share: float, estimated: bool = False) -> str:
    return "<0.1 %" if 0 < share < 0.0005 else f"{'~' if estimated else ''}{100 * share:.1f} %"


SMALL_S = 2e-6  # seconds: shorter kernels consist mostly of fixed costs
LARGE_BYTES = 8 << 20  # bytes: larger than the caches of a core
MANY_WRITES = 16  # writes to parts of one array by one line that indicate a Python loop
Writes = Mapping[tuple[Any, int], list[Node]]


@dataclass(frozen=True)
class Reason:
    """``name``: one or two words; ``why``: a sentence without its full stop; ``advice``: a sentence without it, or "" """

    name: str
    why: str
    advice: str = ""


def find_reason(step: StepTime, machine: Machine, writes: Writes) -> Reason:
    """Return the reason for one step's time."""
    work = step.work
    arithmetic, memory = (step.runs * s for s in work.floor(machine))
    each = step.seconds / max(step.runs, 1)
    runs_per_second = step.runs / step.seconds if step.seconds else 0.0
    bandwidth_text, rate_text = f"{amount(work.bytes * runs_per_second)}B/s", f"{amount(work.flops * runs_per_second)}FLOP/s"
    if work.kind == "numpy":
        why = f"a host primitive: {work.name} runs in NumPy, on one thread, between the kernels"
        return Reason("host primitive", why, "Do without it where you can, or take it out of the part that runs often")
    repeated = _find_repeated_writes(work.nodes, writes)
    if repeated is not None:
        return repeated
    scatter = next((n for n in work.nodes if n.op.kind == "scatter"), None)
    if scatter is not None and work.kind == "kernel":
        return _scatter_reason(scatter, each)
    if work.kind == "loop":
        names = " and ".join(dict.fromkeys(n.op.name for n in work.nodes if n.op.kind == "host"))
        cause = f"walked from Python, for NumPy computes {names}" if names else "each waits for the one before"
        why = f"a loop of {work.length:,} steps, {cause}: {seconds(each / work.length)} a step"
        return Reason("host primitive" if names else "loop", why, "Larger batches give each step more to do at once")
    floor = max(arithmetic, memory)
    share = min(1.0, floor / step.seconds) if step.seconds else 0.0
    if each < SMALL_S and share < 0.5:
        needed = f"its arithmetic and memory traffic need {seconds(floor / max(step.runs, 1))} of that"
        return Reason("too small", f"too small: a run takes {seconds(each)}, and {needed}", "Give it more to do: larger batches")
    if share < 0.4 and work.kernel is not None:
        scalar_reason = _why_scalar(work.kernel, work.nodes)
        if scalar_reason is not None:
            time = seconds(each / largest(work.nodes))
            return Reason("not vectorised", f"not vectorised: {scalar_reason}, {time} an element")
    if share < 0.4 and each > 5e-5 and get_num_threads() > 1 and not _is_parallel(step):
        return Reason("one thread", f"it runs on one of {get_num_threads()} threads: no axis of it can be divided", "")
    gather = next((n for n in work.nodes if n.op.kind == "gather"), None)
    if gather is not None and share < 0.4 and (work.kernel is None or _reads_by_index(work.kernel)):
        why = f"a gather: {gather.size:,} elements are read at the places of an index array, {bandwidth_text}, {share:.0%} of the"
        return Reason("gather", f"{why} bandwidth of reads in order", "Slices and wf.where read in order, if they can replace it")
    product = any(n.op.contracts for n in work.nodes)
    if not product and share < (0.03 if work.bytes >= LARGE_BYTES and memory >= arithmetic else 0.25):
        limits = f"neither memory ({bandwidth_text}) nor arithmetic ({rate_text}) limits it"
        cause = "it reads or writes out of order, or its operations cost more than they count (windows, exponentials, divisions)"
        return Reason("far from the roof", f"{limits}, it reaches {share:.0%} of what this machine can do: {cause}")
    if memory >= arithmetic:
        why = f"it moves {amount(work.bytes * step.runs)}B at {bandwidth_text}, {share:.0%} of this machine's bandwidth"
        advice = "Only fewer or narrower reads and writes help: fuse it with its neighbours, or store float16"
        return Reason("memory-bound", f"memory-bound: {why} for that amount", advice)
    saved = f", of which Winograd's transforms execute {work.executed / work.flops:.0%}" if work.executed < work.flops else ""
    why = f"bound by arithmetic: {amount(work.flops * step.runs)}FLOP at {rate_text}{saved}, {share:.0%} of this machine's peak"
    return Reason("arithmetic", why, "Less arithmetic helps: a smaller layer, or fewer steps")


def _reads_by_index(kernel: Kernel) -> bool:
    """Return whether a kernel reads at places that it has computed from memory, not in the order of its loops."""
    values = walk(roots([stage for phase in kernel.phases for stage in phase.stages]))
    return any(i.gather for v in values if v.op == "load" for i in v.attr.index)


def _find_repeated_writes(nodes: Sequence[Node], writes: Writes) -> Reason | None:
    """Return the reason "quadratic" if one line writes parts of an array many times, each time copying it; else None."""
    best: list[Node] = []
    for node in nodes:
        if node.op.kind in ("write", "scatter") and node.source_line is not None:
            similar = [w for w in writes.get(node.source_line[:2], ()) if w.size == node.size]
            best = max(best, similar, key=len)
    if len(best) < MANY_WRITES:
        return None
    size, written = best[0].size, max(1, best[0].inputs[1].size)
    why = f"the line runs {len(best):,} times in Python, and each time copies an array of {size:,} elements to write {written:,}"
    return Reason("quadratic", f"quadratic: {why}", "Write all at once, with an index array: a[rows, columns] = values")


def _scatter_reason(node: Node, run_seconds: float) -> Reason:
    target, updates = node.inputs[0], node.inputs[1]
    times = updates.size / max(1, target.size)
    each = f"{seconds(run_seconds / max(1, updates.size))} an element"
    if times >= 4 and node.params["mode"] == "set":
        pairs = "A slice beside an index array pairs every row with every index: a[wf.arange(len(index)), index] = values writes"
        is_sliced = len(node.params["axes"]) < len(target.shape)
        advice = f"{pairs} one element a row" if is_sliced else "Sum what meets in one place first"
        what = f"it writes {updates.size:,} elements into an array of {target.size:,}, each place {times:,.0f} times"
        doubt = "of several writes to one element only the last stays, so this is hardly what was meant"
        return Reason("quadratic", f"quadratic: {what}; {doubt}", advice)
    why = f"a scatter: {updates.size:,} elements are written in order, on one thread, without vectors, {each}"
    return Reason("serial scatter", why, "A mask (wf.where) or a gather the other way round is faster where one says the same")


def _why_scalar(kernel: Any, nodes: Sequence[Node]) -> str | None:
    """Return why a kernel computes one element after another, None if it does not."""
    device = get_device()
    if not isinstance(device, ReadsCode):
        return None
    code = device.code_of(kernel)
    if code.called_functions:
        verb = "is" if len(code.called_functions) == 1 else "are"
        return f"{' and '.join(code.called_functions)} of the C library {verb} called for each element"
    if code.vectors:
        return None
    if any(n.op.kind == "running" for n in nodes):
        return "a running sum, product or extreme takes one element after the other"
    return "it computes one element after the other; whole rows of contiguous memory are computed together"


def largest(nodes: Sequence[Node]) -> int:
    """Return the number of elements of the largest array that a kernel computes or reads."""
    return max(1, *(n.size for n in nodes), *(i.size for n in nodes for i in n.inputs))


def _is_parallel(step: StepTime) -> bool:
    program = step.unit.program
    own = program.steps[step.number]
    if not isinstance(own, Call):
        return True
    before = 0
    for s in program.steps[: step.number]:
        before += 1 if isinstance(s, Call) else len(calls(s.body)) if isinstance(s, Loop) else 0
    return step.unit.run.parallel(before)


def overhead_reason(
    whole: float, parts: float, programs: float, looks: float, traced: float, counts: Counter, writes: Writes,
) -> tuple[Reason, Any]:
    """Return the reason for the time outside kernels, and the (code, instruction) responsible, or None.

    programs : runs of programs in a call
    looks : those that do not belong to jitted functions
    traced : number of jitted functions traced
    counts : occurrences of each (line, operation, shape)
    """
    lost = whole - parts
    (line, _, _), count = counts.most_common(1)[0] if counts else ((None, "", ()), 0)
    if looks > programs / 2 and line is not None and count >= MANY_WRITES and count > sum(counts.values()) / 4:
        repeated = _find_repeated_writes(writes.get(line, [])[:1], writes)
        if repeated is not None:
            return repeated, line
        why = f"a loop in Python: the line runs {count:,} times, {seconds(lost)} of Python for {seconds(parts)} of kernels"
        return Reason("Python loop", why, "Write it for whole arrays, or as wf.scan or wf.fori_loop"), line
    if traced >= 1:
        times = f"{traced:.0f} time{'' if traced == 1 else 's'} in each call"
        why = f"traced again: jitted functions are created, or get arguments of a new kind, {times}"
        return Reason("traced again", why, "Create them once, outside, and keep shapes and settings the same"), None
    if looks > programs / 2:
        graph = f"Python builds the graph and looks up its {programs:,.0f} program{'' if programs == 1 else 's'} each time"
        why = f"not jitted: {graph}, {seconds(lost)} for {seconds(parts)} of kernels"
        return Reason("not jitted", why, "wf.jit makes one native call of it"), None
    if not programs:
        return Reason("no weft", "nothing of weft ran: all of it is Python or another library"), None
    rest = f"{'the call' if programs == 1 else f'{programs:,.0f} calls'} from Python"
    why = f"too small: the kernels work {seconds(parts)} of {seconds(whole)}, the rest is {rest}"
    return Reason("too small", why, "Give each call more to do: larger batches, or many steps in one call with wf.scan"), None


@dataclass(frozen=True)
class Culprit:
    """The place to optimise first.

    Attributes
    ----------
    line, layer, phase : the place, "" if there is no single one
    seconds : time at this place in one call
    lost : the part of it above the floor
    reason : in one or two words: "memory-bound", "too small", "not vectorised", "host primitive", "quadratic", ...
    sentence : everything as text
    """

    line: str
    layer: str
    phase: str
    seconds: float
    lost: float
    reason: str
    sentence: str


def find_culprit(
    kernels: Sequence[KernelTime], reasons: dict[int, Reason], whole: float, outside: float, why: Reason, blamed: Place
) -> Culprit:
    """Return the place with the most time above the floor or, if all are near it, the place with the most time."""
    lost: dict[Place, float] = {}
    total: dict[Place, float] = {}
    worst: dict[Place, tuple[float, KernelTime]] = {}
    for kernel in kernels:
        for part in kernel.parts:
            share = part.seconds / kernel.seconds if kernel.seconds else 0.0
            lost[part.place] = lost.get(part.place, 0.0) + share * kernel.lost
            total[part.place] = total.get(part.place, 0.0) + part.seconds
            worst[part.place] = max(worst.get(part.place, (-1.0, kernel)), (part.seconds, kernel), key=lambda x: x[0])
    by = lost if max(lost.values(), default=0.0) + outside > 0.3 * whole else total
    place = max(by, key=by.__getitem__, default=None)
    same = place is not None and place.line == blamed.line != ""
    if place is None or (outside > by[place] and not same):
        extra = f"{_describe_place(blamed)}: " if blamed.line else ""
        sentence = f"Culprit: {extra}{percent(outside / whole)} of the time is outside of kernels. {_write_sentence(why)}"
        return Culprit(blamed.line, "", "", outside, outside, why.name, sentence)
    kernel = worst[place][1]
    reason = reasons[id(kernel)]
    estimated = len(kernel.parts) > 1
    seconds_, above = total[place], lost[place]
    time = f"{percent(seconds_ / whole, estimated)} of the time"
    if same and outside > seconds_:
        seconds_, above, reason = seconds_ + outside, above + outside, why
        time = f"{percent(seconds_ / whole, True)} of the time, almost all of it in Python"
    if place.layer and len({p.layer for p in total if p.line == place.line}) > 1:
        place = replace(place, line="")  # the line of the whole model adds nothing
    sentence = f"Culprit: {_describe_place(place)}, {time}. {_write_sentence(reason)}"
    return Culprit(place.line, place.layer, place.phase, seconds_, above, reason.name, sentence)


def _describe_place(place: Place) -> str:
    layer = f"{place.layer} ({place.kind})" if place.kind and place.kind != place.layer else place.layer
    parts = [f"{layer}, {place.phase}"] if layer else []
    if place.line:
        inside = f" in {place.function}" if place.function and not place.function.startswith("<") else ""
        parts.append(f"{place.source + '  ' if place.source else ''}({short(place.line)}{inside})")
    return ", ".join(parts) or f"{OUTSIDE_LAYERS[1:-1]}, {place.phase}"


def _write_sentence(reason: Reason) -> str:
    why = reason.why[0].upper() + reason.why[1:] + "."
    return f"{why} {reason.advice}." if reason.advice else why
