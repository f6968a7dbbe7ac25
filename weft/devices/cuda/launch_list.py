"""Record a program as one list of launches and copies; a run only inserts addresses and numbers.

Programs have no branches, so one walk over symbolic memory records what every run does. Programs with NumPy steps and very long
programs have no such list and are walked at each run.

Index checks do not need the host between launches either. Each kernel that checks has a record of its own, initialised with the
state of the previous kernel's record. All launches after a check read the latest record first and do nothing if an index was out
of range. So the host reads the records once, at the end of a run; the first record with a fault identifies the index.

Loops are unrolled to 4,096 launches; longer ones, and host steps, are walked at each run. A run waits at its end if its records
of checks are longer than 1 KB, if more than 16 arrays would need their old content, if a step runs in NumPy, or if arrays
exchange contents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from weft.devices.cuda.arguments import FAULTS, Argument, Launch, PrintedKernel
from weft.devices.cuda.formats import convert_loaded, convert_stored
from weft.devices.faults import IndexFault
from weft.devices.steps import Sums, walk
from weft.dtypes.formats import FLOAT32, FLOAT64, INT32, INT64, UINT8, Format
from weft.dtypes.rounding import rounded_number
from weft.kernel.ir import Kernel
from weft.schedule.program import Call, Loop, Program, calls, find_hosts

MAX_STEPS = 4096  # limit of launches and copies
_COPY_BLOCK = 1024  # elements that one program of a restoring or summing launch writes
_POINTERS = ("buffer", FAULTS)


class SymbolicAddress(NamedTuple):
    """Symbolic memory: an offset in a base.

    base: number of an input, of an output (numbered after the inputs), or the arena, scratch or records after these.
    """

    base: int
    offset: int


@dataclass(frozen=True)
class Start:
    """A launch.

    places: of its buffers.
    fixed: (parameter number, value) of constants.
    given: (parameter number, input, format) of inputs that are numbers.
    others: returns the same launch in other tiles, if there are any to try.
    """

    launch: Launch
    places: tuple[SymbolicAddress, ...]
    constants: tuple[tuple[int, Any], ...]
    number_inputs: tuple[tuple[int, int, Any], ...]
    others: Callable[[], tuple[Start, ...]] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Move:
    """A copy on the card."""

    target: SymbolicAddress
    source: SymbolicAddress
    nbytes: int


@dataclass(frozen=True)
class Plan:
    """steps: in order.
    scratch: bytes besides arena, outputs and inputs.
    numbers: the inputs that are numbers.
    records: (offset, number of the first checked index) of each kernel that checks indices.
    record_bytes: of all records.
    """

    steps: tuple[Start | Move, ...]
    scratch: int
    numbers: tuple[int, ...]
    records: tuple[tuple[int, int], ...] = ()
    record_bytes: int = 0

    def fault(self, records: np.ndarray) -> IndexFault | None:
        """Return the first out-of-range index in the records, or None."""
        for offset, first in self.records:
            words = records[offset:].view(np.int64)
            if words[0]:
                return IndexFault(first + int(words[0]) - 1, int(words[words[0]]))
        return None


class _Number(NamedTuple):
    """Stands for an input that is a number."""

    position: int


class _NoPlan(Exception):
    """The program has to be walked at each run."""


def plan(program: Program, printed: Callable[[Kernel], PrintedKernel]) -> Plan | None:
    """Return the plan of a program; None if each run has to be walked. printed: returns a kernel as launches."""
    if find_hosts(program):
        return None
    numbers = {p for step in program.steps if isinstance(step, Call) for p in step.scalars}
    input_count, output_count = len(program.inputs), len(program.outputs)
    inputs = [_Number(k) if k in numbers else SymbolicAddress(k, 0) for k in range(input_count)]
    outputs = [SymbolicAddress(input_count + k, 0) for k in range(output_count)]
    arena, scratch, records = (SymbolicAddress(input_count + output_count + k, 0) for k in range(3))
    shared = {input_count + o for _, o in program.donate}
    worker = _Recorder(printed, scratch, records, shared, dict(_first_check_numbers(program, 0)))
    try:
        walk(program, inputs, outputs, arena, worker)
    except _NoPlan:
        return None
    return Plan(tuple(worker.steps), worker.scratch, tuple(sorted(numbers)), tuple(worker.records), worker.record_bytes)


def _first_check_numbers(program: Program, first: int) -> Iterator[tuple[int, int]]:
    """Yield (id of a call, number of its first checked index), numbered as a walk counts them."""
    for step in program.steps:
        if isinstance(step, Call):
            yield id(step), first
            first += len(step.sites)
        elif isinstance(step, Loop):
            yield from _first_check_numbers(step.body, first)
            first += sum(len(call.sites) for call in calls(step.body))


class _Recorder:
    """A Worker that records the steps: see ``weft.devices.steps``."""

    def __init__(
        self, printed: Callable[[Kernel], PrintedKernel], scratch: SymbolicAddress, records: SymbolicAddress, shared: set[int],
        firsts: dict[int, int],
    ) -> None:
        self._print_kernel, self._scratch, self._at = printed, scratch, records
        self._shared, self._first_check_numbers = shared, firsts  # shared: outputs that may overwrite an input
        self._latest: SymbolicAddress | None = None  # record of the latest kernel that checks
        self.steps: list[Start | Move] = []
        self.records: list[tuple[int, int]] = []
        self.scratch = self.record_bytes = 0

    def _append(self, step: Start | Move) -> None:
        if len(self.steps) >= MAX_STEPS:
            raise _NoPlan
        self.steps.append(step)

    def piece(self, memory: SymbolicAddress, offset: int, nbytes: int) -> SymbolicAddress:
        if isinstance(memory, _Number):
            raise _NoPlan
        return SymbolicAddress(memory.base, memory.offset + offset)

    def copy(self, source: SymbolicAddress, target: SymbolicAddress, nbytes: int) -> None:
        if isinstance(source, _Number):
            raise _NoPlan
        if self._latest is not None and target.base in self._shared:
            raise _NoPlan  # a copy cannot be skipped after a fault, and the overwritten input may still be needed
        if nbytes:
            self._append(Move(target, source, nbytes))

    def number(self, *_: Any) -> Any:
        raise _NoPlan

    fetch = put = number

    def launch(self, call: Call, memories: Sequence[Any], numbers: Sequence[Any]) -> None:
        printed: PrintedKernel = self._print_kernel(call.kernel)
        if any([isinstance(m, _Number) for m in memories]) or any([isinstance(x, SymbolicAddress) for x in numbers]):
            raise _NoPlan
        where = places(call.kernel, printed, memories, self._scratch)
        self.scratch = max(self.scratch, scratch_bytes(printed))
        previous = self._latest
        if printed.sites:
            self._latest = self._record(self._first_check_numbers[id(call)], printed.sites)
            if previous is not None:
                self._append(Move(self._latest, previous, 8))
        for launch in printed.launches:
            if previous is not None:
                launch = launch.stopping()
            run_time_numbers = {k: (numbers[k].position, form) for k, form in enumerate(call.kernel.scalars)}
            start = start_of(launch, where, self._latest, run_time_numbers)
            if launch.others is not None:
                start = replace(start, others=partial(_starts, launch, where, self._latest, run_time_numbers))
            self._append(start)

    def _record(self, first: int, sites: int) -> SymbolicAddress:
        """Reserve the record of a kernel's index checks."""
        place = SymbolicAddress(self._at.base, self.record_bytes)
        self.records.append((self.record_bytes, first))
        self.record_bytes += _align(8 * (1 + sites))
        return place


def start_of(
    launch: Launch, where: dict[Any, SymbolicAddress], record: SymbolicAddress | None, numbers: dict[int, tuple[int, Any]]
) -> Start:
    """Return a launch on symbolic memory. record: of index checks; numbers: the kernel's scalars -> (input, format)."""
    fixed: list[tuple[int, Any]] = []
    scalars: list[tuple[int, int, Any]] = []
    for k, a in enumerate(launch.arguments):
        if a.kind == "number":
            fixed.append((k, a.value))
        elif a.kind == "scalar":
            scalars.append((k, *numbers[a.value]))
    pointers = [where[a.value] if a.kind == "buffer" else record for a in launch.arguments if a.kind in _POINTERS]
    return Start(launch, tuple([p for p in pointers if p is not None]), tuple(fixed), tuple(scalars))


def _starts(launch: Launch, *arguments: Any) -> tuple[Start, ...]:
    return tuple([start_of(other, *arguments) for other in launch.alternatives])


def restoring(record: SymbolicAddress, source: SymbolicAddress, target: SymbolicAddress, nbytes: int) -> Start:
    """Return a launch that copies a piece of memory if a record has a fault."""
    form = INT32 if nbytes % INT32.bytes == 0 else UINT8
    count = nbytes // form.bytes
    arguments = (
        Argument(FAULTS, FAULTS, INT64), Argument("b0", "buffer", form), Argument("b1", "buffer", form),
        Argument("n0", "number", INT64, count),
    )
    lines = (
        f"if tl.load({FAULTS}) == 0:", "    return",
        f"i = tl.program_id(0).to(tl.int64) * {_COPY_BLOCK} + tl.arange(0, {_COPY_BLOCK})",
        "tl.store(b1 + i, tl.load(b0 + i, mask=i < n0), mask=i < n0)",
    )
    launch = Launch(lines, arguments, (-(-count // _COPY_BLOCK), 1))
    return Start(launch, (record, source, target), ((3, count),), ())


def sum_rows(source: SymbolicAddress, target: SymbolicAddress, sums: Sums, count: int, form: Format) -> Start:
    """Return a launch that adds up rows of ``count`` elements in the order of ``sums``; 16-bit floats in float32."""

    def write(part: Sums) -> str:
        if isinstance(part, int):
            return convert_loaded(f"tl.load(b0 + {part} * n0 + i, mask=i < n0)", form)
        return f"({write(part[0])} + {write(part[1])})"

    arguments = (Argument("b0", "buffer", form), Argument("b1", "buffer", form), Argument("n0", "number", INT64, count))
    lines = (
        f"i = tl.program_id(0).to(tl.int64) * {_COPY_BLOCK} + tl.arange(0, {_COPY_BLOCK})",
        f"tl.store(b1 + i, {convert_stored(write(sums), form)}, mask=i < n0)",
    )
    return Start(Launch(lines, arguments, (-(-count // _COPY_BLOCK), 1)), (source, target), ((2, count),), ())


def places(
    kernel: Kernel, printed: PrintedKernel, memories: Sequence[SymbolicAddress], scratch: SymbolicAddress
) -> dict[Any, SymbolicAddress]:
    """Return the memory of a kernel's buffers, by the key that arguments use. Scratch buffers are packed into one piece."""
    result: dict[Any, SymbolicAddress] = {}
    for b, place in zip((*kernel.inputs, *kernel.outputs), memories, strict=True):
        result["arg", b.id] = place
    offset = scratch.offset
    for b in printed.scratch:
        result["kernel", b.id] = SymbolicAddress(scratch.base, offset)
        offset += _align(math.prod(b.shape) * b.dtype.bytes)
    return result


def scratch_bytes(printed: PrintedKernel) -> int:
    """Return the bytes of scratch that a kernel needs."""
    return sum([_align(math.prod(b.shape) * b.dtype.bytes) for b in printed.scratch])


def _align(nbytes: int) -> int:
    return -(-nbytes // 256) * 256


def round_number(value: Any, form: Any) -> Any:
    """Return a run-time number rounded to its format. Packing rounds float32."""
    if form is FLOAT64 or form is FLOAT32 and -FLOAT32.largest < value < FLOAT32.largest:
        return float(value)
    return rounded_number(value, form)
