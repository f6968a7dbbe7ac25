"""A program as one list of launches and copies, for a card: what a run does besides putting addresses in.

Programs branch nowhere, so one walk over memory that is only named tells what every run will do. What needs NumPy in between or
is very long has no such list and is walked at each run.

Checks of indices need nobody in between either. Each kernel that checks has a record of its own, which begins as that of the one
before it ended, and all launches after a check read the latest record first and do nothing once an index was wrong. So a run is
looked at once, at its end; the first record that tells of a wrong index says which it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from weft.devices.cuda.arguments import FAULTS, Argument, Launch, Printed
from weft.devices.faults import IndexFault
from weft.devices.steps import walk
from weft.dtypes.formats import FLOAT32, FLOAT64, INT32, INT64, UINT8, scalar
from weft.kernel.ir import Kernel
from weft.schedule.program import Call, Loop, Program, Slot, calls, hosts

MOST = 4096  # launches and copies
_COPIED = 1024  # elements that a program copies
_POINTERS = ("buffer", FAULTS)


class Place(NamedTuple):
    """Memory by name: an offset in an input (base: its number), in an output (those follow the inputs), the arena or scratch."""

    base: int
    offset: int


@dataclass(frozen=True)
class Start:
    """A launch. places : of its buffers; fixed : (place among the parameters, number); given : (place among them, input, format)
    of inputs that are numbers; others : the same in other tiles, where these may be tried"""

    launch: Launch
    places: tuple[Place, ...]
    fixed: tuple[tuple[int, Any], ...]
    given: tuple[tuple[int, int, Any], ...]
    others: Callable[[], tuple[Start, ...]] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Move:
    """A copy on the card."""

    target: Place
    source: Place
    nbytes: int


@dataclass(frozen=True)
class Plan:
    """steps : in their order; scratch : bytes that kernels need beside arena, outputs and inputs; numbers : the inputs that are
    numbers; records : of kernels that check indices, (offset, the number of its first checked index); record_bytes : of all"""

    steps: tuple[Start | Move, ...]
    scratch: int
    numbers: tuple[int, ...]
    records: tuple[tuple[int, int], ...] = ()
    record_bytes: int = 0

    def fault(self, records: np.ndarray) -> IndexFault | None:
        """The wrong index that the records tell of."""
        for offset, first in self.records:
            words = records[offset:].view(np.int64)
            if words[0]:
                return IndexFault(first + int(words[0]) - 1, int(words[words[0]]))
        return None


class _Number(NamedTuple):
    """Stands for an input that is a number."""

    position: int


class _NoPlan(Exception):
    pass


def plan(program: Program, printed: Callable[[Kernel], Printed]) -> Plan | None:
    """printed : a kernel as launches. None where each run has to be walked."""
    if hosts(program):
        return None
    numbers = {p for step in program.steps if isinstance(step, Call) for p in step.scalars}
    count, made = len(program.inputs), len(program.outputs)
    inputs = [_Number(k) if k in numbers else Place(k, 0) for k in range(count)]
    outputs = [Place(count + k, 0) for k in range(made)]
    arena, scratch, records = (Place(count + made + k, 0) for k in range(3))
    worker = _Recorder(printed, scratch, records, {count + o for _, o in program.donate}, dict(_firsts(program, 0)))
    try:
        walk(program, inputs, outputs, arena, worker)
    except _NoPlan:
        return None
    return Plan(tuple(worker.steps), worker.scratch, tuple(sorted(numbers)), tuple(worker.records), worker.record_bytes)


def _firsts(program: Program, first: int) -> Iterator[tuple[int, int]]:
    """By the identity of a call: the number of its first checked index, as a walk counts them."""
    for step in program.steps:
        if isinstance(step, Call):
            yield id(step), first
            first += len(step.sites)
        elif isinstance(step, Loop):
            yield from _firsts(step.body, first)
            first += sum(len(call.sites) for call in calls(step.body))


class _Recorder:
    """A Worker that notes what it is asked for: see ``weft.devices.steps``."""

    def __init__(
        self, printed: Callable[[Kernel], Printed], scratch: Place, records: Place, shared: set[int], firsts: dict[int, int],
    ) -> None:
        self._printed, self._scratch, self._at = printed, scratch, records
        self._shared, self._firsts = shared, firsts  # shared: outputs that may lie on an input
        self._latest: Place | None = None  # record of a kernel that checked
        self.steps: list[Start | Move] = []
        self.records: list[tuple[int, int]] = []
        self.scratch = self.record_bytes = 0

    def _note(self, step: Start | Move) -> None:
        if len(self.steps) >= MOST:
            raise _NoPlan
        self.steps.append(step)

    def piece(self, memory: Place, offset: int, nbytes: int) -> Place:
        if isinstance(memory, _Number):
            raise _NoPlan
        return Place(memory.base, memory.offset + offset)

    def copy(self, source: Place, target: Place, nbytes: int) -> None:
        if isinstance(source, _Number):
            raise _NoPlan
        if self._latest is not None and target.base in self._shared:
            raise _NoPlan  # a copy cannot be stopped, and what it writes over may still be wanted
        if nbytes:
            self._note(Move(target, source, nbytes))

    def number(self, value: Any, slot: Slot) -> Any:
        raise _NoPlan

    def fetch(self, memory: Any, slot: Slot) -> np.ndarray:
        raise _NoPlan

    def put(self, array: np.ndarray, memory: Any) -> None:
        raise _NoPlan

    def launch(self, call: Call, memories: Sequence[Any], numbers: Sequence[Any]) -> None:
        found: Printed = self._printed(call.kernel)
        if any([isinstance(m, _Number) for m in memories]) or any([isinstance(x, Place) for x in numbers]):
            raise _NoPlan
        where = places(call.kernel, found, memories, self._scratch)
        self.scratch = max(self.scratch, scratch_bytes(found))
        before = self._latest
        if found.sites:
            self._latest = self._record(self._firsts[id(call)], found.sites)
            if before is not None:
                self._note(Move(self._latest, before, 8))
        for launch in found.launches:
            if before is not None:
                launch = launch.stopping()
            given = {k: (numbers[k].position, form) for k, form in enumerate(call.kernel.scalars)}
            start = _start(launch, where, self._latest, given)
            if launch.others is not None:
                start = replace(start, others=partial(_starts, launch, where, self._latest, given))
            self._note(start)

    def _record(self, first: int, sites: int) -> Place:
        """Room for what a kernel says of its indices."""
        place = Place(self._at.base, self.record_bytes)
        self.records.append((self.record_bytes, first))
        self.record_bytes += _aligned(8 * (1 + sites))
        return place


def _start(launch: Launch, where: dict[Any, Place], record: Place | None, numbers: dict[int, tuple[int, Any]]) -> Start:
    """A launch on memory that is named. record : of wrong indices; numbers : by place among the kernel's: (input, format)"""
    fixed: list[tuple[int, Any]] = []
    given: list[tuple[int, int, Any]] = []
    for k, a in enumerate(launch.arguments):
        if a.kind == "number":
            fixed.append((k, a.value))
        elif a.kind == "scalar":
            given.append((k, *numbers[a.value]))
    pointers = [where[a.value] if a.kind == "buffer" else record for a in launch.arguments if a.kind in _POINTERS]
    return Start(launch, tuple([p for p in pointers if p is not None]), tuple(fixed), tuple(given))


def _starts(launch: Launch, *about: Any) -> tuple[Start, ...]:
    return tuple([_start(other, *about) for other in launch.alternatives])


def restoring(record: Place, source: Place, target: Place, nbytes: int) -> Start:
    """A launch that copies a piece of memory where a record tells of a wrong index, and else does nothing."""
    form = INT32 if nbytes % INT32.bytes == 0 else UINT8
    count = nbytes // form.bytes
    arguments = (
        Argument(FAULTS, FAULTS, INT64), Argument("b0", "buffer", form), Argument("b1", "buffer", form),
        Argument("n0", "number", INT64, count),
    )
    lines = (
        f"if tl.load({FAULTS}) == 0:", "    return", f"i = tl.program_id(0).to(tl.int64) * {_COPIED} + tl.arange(0, {_COPIED})",
        "tl.store(b1 + i, tl.load(b0 + i, mask=i < n0), mask=i < n0)",
    )
    launch = Launch(lines, arguments, (-(-count // _COPIED), 1))
    return Start(launch, (record, source, target), ((3, count),), ())


def places(kernel: Kernel, printed: Printed, memories: Sequence[Place], scratch: Place) -> dict[Any, Place]:
    """Where the buffers of a kernel lie, by what arguments call them: one piece of scratch has all of the kernel's own."""
    found: dict[Any, Place] = {}
    for b, place in zip((*kernel.inputs, *kernel.outputs), memories, strict=True):
        found["arg", b.id] = place
    offset = scratch.offset
    for b in printed.scratch:
        found["kernel", b.id] = Place(scratch.base, offset)
        offset += _aligned(math.prod(b.shape) * b.dtype.bytes)
    return found


def scratch_bytes(printed: Printed) -> int:
    """Of memory that a kernel needs for itself."""
    return sum([_aligned(math.prod(b.shape) * b.dtype.bytes) for b in printed.scratch])


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 256) * 256


def rounded(value: Any, form: Any) -> Any:
    """A number of a call as a launch is given it: as its format rounds it. float32 is rounded when it is packed."""
    if form is FLOAT64 or form is FLOAT32 and -FLOAT32.largest < value < FLOAT32.largest:
        return float(value)
    return scalar(value, form).item()
