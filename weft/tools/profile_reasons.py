"""Why a step takes the time it takes, and the place to look at first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.devices import get_device, get_num_threads
from weft.devices.base import ReadsCode
from weft.errors import seconds
from weft.graph.node import Node
from weft.placement.device_figures import Machine
from weft.schedule.program import Call, Loop, calls
from weft.tools.profile_report import OUTSIDE, KernelTime, Place, StepTime
from weft.tools.profile_words import amount, percent, short

SMALL = 2e-6  # a kernel shorter than this is mostly its own beginning and end
LARGE = 8 << 20  # bytes: more than the caches near a core hold
MANY = 16  # writes of parts of one array by one line that count as a loop
Writes = Mapping[tuple[Any, int], list[Node]]


@dataclass(frozen=True)
class Reason:
    """``name``: in one word or two; ``why``: a sentence without its full stop; ``advice``: what would help, or ""."""

    name: str
    why: str
    advice: str = ""


def reason_of(step: StepTime, machine: Machine, writes: Writes) -> Reason:
    """The reason of one step's time."""
    work = step.work
    arithmetic, memory = (step.runs * s for s in work.floor(machine))
    once = step.seconds / max(step.runs, 1)
    done = step.runs / step.seconds if step.seconds else 0.0
    moved, counted = f"{amount(work.bytes * done)}B/s", f"{amount(work.flops * done)}FLOP/s"
    if work.kind == "numpy":
        return Reason(
            "host primitive", f"a host primitive: {work.name} runs in NumPy, on one thread, between the kernels",
            "Do without it where you can, or take it out of the part that runs often",
        )
    looped = _repeated(work.nodes, writes)
    if looped is not None:
        return looped
    scatter = next((n for n in work.nodes if n.op.kind == "scatter"), None)
    if scatter is not None and work.kind == "kernel":
        return _scatter(scatter, once)
    if work.kind == "loop":
        slow = dict.fromkeys(n.op.name for n in work.nodes if n.op.kind == "host")
        if slow:
            return Reason(
                "host primitive", f"a loop of {work.length:,} steps, walked from Python, for NumPy computes "
                f"{' and '.join(slow)}: {seconds(once / work.length)} a step", "Larger batches give each step more to do at once",
            )
        return Reason(
            "loop", f"a loop of {work.length:,} steps, each waits for the one before: {seconds(once / work.length)} a step",
            "Larger batches give each step more to do at once",
        )
    floor = max(arithmetic, memory)
    share = min(1.0, floor / step.seconds) if step.seconds else 0.0
    if once < SMALL and share < 0.5:
        return Reason(
            "too small", f"too small: a run takes {seconds(once)}, and its arithmetic and memory traffic need "
            f"{seconds(floor / max(step.runs, 1))} of that", "Give it more to do at once: larger batches",
        )
    if share < 0.4 and work.kernel is not None:
        single = _one_by_one(work.kernel, work.nodes)
        if single is not None:
            return Reason("not vectorised", f"not vectorised: {single}, {seconds(once / largest(work.nodes))} an element")
    if share < 0.4 and once > 5e-5 and get_num_threads() > 1 and not _parallel(step):
        return Reason("one thread", f"it runs on one of {get_num_threads()} threads: no axis of it can be divided", "")
    gather = next((n for n in work.nodes if n.op.kind == "gather"), None)
    if gather is not None and share < 0.4:
        return Reason(
            "gather", f"a gather: {gather.size:,} elements are read from where an index array says, {moved}, {share:.0%} of what "
            "memory read in order gives", "Slices and wf.where read in order, where they say the same",
        )
    product = any(n.op.contracts for n in work.nodes)
    if not product and share < (0.03 if work.bytes >= LARGE and memory >= arithmetic else 0.25):
        return Reason(
            "far from the roof", f"neither memory ({moved}) nor arithmetic ({counted}) holds it, it reaches {share:.0%} of what "
            "this machine can do: it reads or writes out of order, or its operations cost more than they count (windows, "
            "exponentials, divisions)", "",
        )
    if memory >= arithmetic:
        return Reason(
            "memory-bound", f"memory-bound: it moves {amount(work.bytes * step.runs)}B at {moved}, {share:.0%} of what this "
            "machine gives for that much",
            "Only fewer or narrower reads and writes help: fuse it with its neighbours, or store float16",
        )
    return Reason(
        "arithmetic", f"bound by arithmetic: {amount(work.flops * step.runs)}FLOP at {counted}, {share:.0%} of this machine's "
        "peak",
        "Less arithmetic helps: a smaller layer, or fewer steps",
    )


def _repeated(nodes: Sequence[Node], writes: Writes) -> Reason | None:
    """A line that writes parts of an array again and again: each write makes the array anew."""
    best: list[Node] = []
    for node in nodes:
        if node.op.kind in ("write", "scatter") and node.where is not None:
            of = [w for w in writes.get(node.where[:2], ()) if w.size == node.size]
            best = max(best, of, key=len)
    if len(best) < MANY:
        return None
    size, given = best[0].size, max(1, best[0].inputs[1].size)
    return Reason(
        "quadratic", f"quadratic: the line runs {len(best):,} times in Python, and each time makes an array of {size:,} elements "
        f"anew to write {given:,} of them", "Write all at once, with an index array: a[rows, columns] = values",
    )


def _scatter(node: Node, once: float) -> Reason:
    target, updates = node.inputs[0], node.inputs[1]
    times = updates.size / max(1, target.size)
    each = f"{seconds(once / max(1, updates.size))} an element"
    if times >= 4 and node.params["mode"] == "set":
        pairs = "A slice beside an index array pairs every row with every index: a[wf.arange(len(index)), index] = values writes"
        return Reason(
            "quadratic", f"quadratic: it writes {updates.size:,} elements into an array of {target.size:,}, each place "
            f"{times:,.0f} times; of several writes to one element only the last stays, so this is hardly what was meant",
            f"{pairs} one element a row" if len(node.params["axes"]) < len(target.shape) else "Sum what meets in one place first",
        )
    return Reason(
        "serial scatter", f"a scatter: {updates.size:,} elements are written in order, on one thread, without vectors, {each}",
        "A mask (wf.where) or a gather the other way round is faster where one says the same",
    )


def _one_by_one(kernel: Any, nodes: Sequence[Node]) -> str | None:
    """Why a kernel computes one element after another, where it does."""
    device = get_device()
    if not isinstance(device, ReadsCode):
        return None
    code = device.code_of(kernel)
    if code.called:
        return f"{' and '.join(code.called)} of the C library {'is' if len(code.called) == 1 else 'are'} called for each element"
    if code.vectors:
        return None
    if any(n.op.kind == "running" for n in nodes):
        return "a running sum, product or extreme takes one element after the other"
    return "it computes one element after the other; whole rows of contiguous memory are computed together"


def largest(nodes: Sequence[Node]) -> int:
    """Elements of the largest thing that a kernel computes or reads."""
    return max(1, *(n.size for n in nodes), *(i.size for n in nodes for i in n.inputs))


def _parallel(step: StepTime) -> bool:
    program = step.unit.program
    own = program.steps[step.number]
    if not isinstance(own, Call):
        return True
    before = 0
    for s in program.steps[: step.number]:
        before += 1 if isinstance(s, Call) else len(calls(s.body)) if isinstance(s, Loop) else 0
    return step.unit.run.parallel(before)


def overhead(
    whole: float, parts: float, programs: float, looks: float, traced: float, every: Counter, writes: Writes,
) -> tuple[Reason, Any]:
    """The reason of the time outside kernels, and the (code, instruction) to blame, or None.

    ``programs``: runs of programs in a call, ``looks`` of them not of jitted functions; ``traced``: jitted functions traced;
    ``every``: how often each (line, operation, shape) was asked for.
    """
    lost = whole - parts
    (line, _, _), count = every.most_common(1)[0] if every else ((None, "", ()), 0)
    if looks > programs / 2 and line is not None and count >= MANY and count > sum(every.values()) / 4:
        repeated = _repeated(writes.get(line, [])[:1], writes)
        if repeated is not None:
            return repeated, line
        return Reason(
            "Python loop", f"a loop in Python: the line runs {count:,} times, {seconds(lost)} of Python for {seconds(parts)} of "
            "kernels", "Write it for whole arrays, or as wf.scan or wf.fori_loop",
        ), line
    if traced >= 1:
        return Reason(
            "traced again", f"traced again: jitted functions are made anew, or meet something new, {traced:.0f} "
            f"time{'' if traced == 1 else 's'} in each call", "Make them once, outside, and keep shapes and settings as they are",
        ), None
    if looks > programs / 2:
        return Reason(
            "not jitted", f"not jitted: Python builds the graph and looks up its {programs:,.0f} "
            f"program{'' if programs == 1 else 's'} each time, {seconds(lost)} for {seconds(parts)} of kernels",
            "wf.jit makes one native call of it",
        ), None
    if not programs:
        return Reason("no weft", "nothing of weft ran: all of it is Python or another library"), None
    return Reason(
        "too small", f"too small: the kernels work {seconds(parts)} of {seconds(whole)}, the rest is "
        f"{'the call' if programs == 1 else f'{programs:,.0f} calls'} from Python",
        "Give each call more to do: larger batches, or many steps in one call with wf.scan",
    ), None


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


def culprit_of(
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
