"""A program as one list of launches and copies, for a card: what a run does besides putting addresses in.

Programs branch nowhere, so one walk over memory that is only named tells what every run will do. What needs the host in between
(steps in NumPy, checks of indices) or is very long has no such list and is walked at each run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weft.devices.cuda.arguments import Launch, Printed
from weft.devices.steps import walk
from weft.formats import FLOAT32, FLOAT64
from weft.kernel.ir import Kernel
from weft.schedule.program import Call, Host, Loop, Program, Slot

MOST = 4096  # launches and copies


class Place(NamedTuple):
    """Memory by name: an offset in an input (base: its number), in an output (those follow the inputs), the arena or scratch."""

    base: int
    offset: int


@dataclass(frozen=True)
class Start:
    """A launch. places : of its buffers; fixed : (place among the parameters, number); given : (place among them, input, format)
    of inputs that are numbers"""

    launch: Launch
    places: tuple[Place, ...]
    fixed: tuple[tuple[int, Any], ...]
    given: tuple[tuple[int, int, Any], ...]


@dataclass(frozen=True)
class Move:
    """A copy on the card."""

    target: Place
    source: Place
    nbytes: int


@dataclass(frozen=True)
class Plan:
    """steps : in their order; scratch : bytes that kernels need beside arena, outputs and inputs; numbers : the inputs that are
    numbers"""

    steps: tuple[Start | Move, ...]
    scratch: int
    numbers: tuple[int, ...]


class _Number(NamedTuple):
    """Stands for an input that is a number."""

    position: int


class _NoPlan(Exception):
    pass


def plan(program: Program, printed: Any, numbers: Sequence[int]) -> Plan | None:
    """printed : kernel -> Printed; numbers : the inputs that are numbers. None where each run has to be walked."""
    if _waits(program):
        return None
    count = len(program.inputs)
    inputs = [_Number(k) if k in set(numbers) else Place(k, 0) for k in range(count)]
    outputs = [Place(count + k, 0) for k in range(len(program.outputs))]
    worker = _Recorder(printed, Place(count + len(outputs) + 1, 0))
    try:
        walk(program, inputs, outputs, Place(count + len(outputs), 0), worker)
    except _NoPlan:
        return None
    return Plan(tuple(worker.steps), worker.scratch, tuple(numbers))


def _waits(program: Program) -> bool:
    """Whether a run needs the host in between."""
    for step in program.steps:
        if isinstance(step, Host) or isinstance(step, Call) and step.sites or isinstance(step, Loop) and _waits(step.body):
            return True
    return False


class _Recorder:
    """A Worker that notes what it is asked for: see ``weft.devices.steps``."""

    def __init__(self, printed: Any, scratch: Place) -> None:
        self._printed, self._scratch = printed, scratch
        self.steps: list[Start | Move] = []
        self.scratch = 0

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
        for launch in found.launches:
            fixed: list[tuple[int, Any]] = []
            given: list[tuple[int, int, Any]] = []
            for k, a in enumerate(launch.arguments):
                if a.kind == "number":
                    fixed.append((k, a.value))
                elif a.kind == "scalar":
                    given.append((k, numbers[a.value].position, call.kernel.scalars[a.value]))
            pointers = tuple([where[a.value] for a in launch.arguments if a.kind == "buffer"])
            self._note(Start(launch, pointers, tuple(fixed), tuple(given)))


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
    return np.asarray(value, form.numpy)[()].item()
