"""Run a program on a card: by its plan, as a recorded graph if its memory has recurred, or step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from weft.devices.cuda.arguments import Launch, PrintedKernel
from weft.devices.cuda.card_allocator import CardAllocator, CardMemory, Staging
from weft.devices.cuda.code_store import CodeStore
from weft.devices.cuda.launch_list import (
    Move,
    Start,
    SymbolicAddress,
    places,
    plan,
    restoring,
    round_number,
    scratch_bytes,
    start_of,
    sum_rows,
)
from weft.devices.cuda.launch_parameters import Parameters
from weft.devices.cuda.nvidia import NvidiaDriver
from weft.devices.cuda.pending_checks import SLOT_BYTES, MakeError, PendingChecks
from weft.devices.cuda.tuning import Tuner, starts_of
from weft.devices.faults import OutOfDeviceMemory
from weft.devices.steps import Sums, find_donations, walk
from weft.dtypes.formats import Format
from weft.dtypes.rounding import scalar
from weft.kernel.ir import Kernel
from weft.schedule.program import Call, Program, Slot, calls

_NO_CHANGES: dict[int, CardMemory] = {}
MAX_GRAPHS = 4  # graphs kept for a program
_AlignedLaunches = list[tuple[Launch, int]]  # (launch, alignment of its addresses)
MAX_RESTORED = 16  # limit of arrays that a run restores if an index is out of range: one launch each
RUNS_BEFORE_GRAPH = 2  # runs in the same memory before a graph is recorded


class Card(Protocol):
    """The part of a device that runs use."""

    driver: NvidiaDriver
    memories: CardAllocator
    staging: Staging
    codes: CodeStore
    tuner: Tuner
    checks: PendingChecks
    lock: Any
    launches: int
    replays: int

    def enter(self) -> Callable[[int], CardMemory]: ...
    def allocate(self, nbytes: int) -> CardMemory: ...
    def upload(self, array: np.ndarray) -> CardMemory: ...
    def read(self, pointer: int, shape: tuple[int, ...], dtype: Format) -> np.ndarray: ...
    def read_bytes(self, pointer: int, nbytes: int) -> np.ndarray: ...
    def print_kernel(self, kernel: Kernel) -> PrintedKernel: ...
    def drop(self, graphs: list[Any]) -> None: ...


class CardExecutable:
    """See :class:`weft.devices.base.Executable`. A run is asynchronous; reading a result waits for it."""

    def __init__(self, device: Card, program: Program) -> None:
        self.device, self.program = device, program
        self.places: Any = ()
        self._graphs: dict[Any, Any] = {}
        self._run_counts: dict[Any, int] = {}
        self._sizes = [math.prod(shape) * form.bytes for shape, form in program.outputs]
        self._plan = plan(program, device.print_kernel)
        steps = None if self._plan is None else [self._choose_tile(s) if isinstance(s, Start) else s for s in self._plan.steps]
        device.codes.prepare(_aligned_launches(program, steps, device.print_kernel))
        self._steps: _Steps = [
            s if isinstance(s, Move) else _PackedLaunch(
                device.codes, s
            ) if s.others is None else _TunedLaunch(device, s) for s in steps or ()
        ]
        # steps whose best tiles are unknown
        self._undecided_steps = [k for k, step in enumerate(self._steps) if isinstance(step, _TunedLaunch)]
        self._restores: dict[tuple[tuple[int, int], ...], _Steps] = {}
        self._unaligned_steps: _Steps = []  # the same steps for unaligned memory, made when needed
        self._numbers = () if self._plan is None else self._plan.numbers

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[CardMemory]:
        with self.device.lock:
            allocate = self.device.enter()
            return self._run_once(allocate, inputs, held, None, None)

    def run_deferred(
        self, inputs: list[Any], held: list[bool] | None, written: Mapping[int, int] | None, tell: MakeError,
    ) -> list[CardMemory]:
        with self.device.lock:
            allocate = self.device.enter()
            self.device.checks.raise_pending_error()
            return self._run_once(allocate, inputs, held, written, tell)

    def _run_once(
        self, allocate: Callable[[int], CardMemory], inputs: list[Any], held: list[bool] | None,
        written: Mapping[int, int] | None, tell: MakeError | None,
    ) -> list[CardMemory]:
        """Run the program.

        written, tell: of a run that may return before the outcome of its checks is known; None of one that may not.
        """
        device, program, plan = self.device, self.program, self._plan
        reused = _NO_CHANGES if held is None else find_donations(program, inputs, held, self._sizes, CardMemory)
        if reused:
            reused = {k: memory for k, memory in reused.items() if not memory.lent}
        doubts = device.checks.doubts(inputs)
        if doubts and (held is not None or plan is None):
            device.checks.settle(doubts)  # values in doubt must not overwrite an array's content
            doubts = []
        outputs = [reused[k] if k in reused else allocate(size) for k, size in enumerate(self._sizes)]
        arena = allocate(program.arena) if program.arena else None
        if plan is None:
            walk_inputs = [_At(x.pointer) if isinstance(x, CardMemory) else x for x in inputs]
            arena_address = 0 if arena is None else arena.pointer
            try:
                walk(program, walk_inputs, [_At(o.pointer) for o in outputs], _At(arena_address), Walker(device))
            except OutOfDeviceMemory as error:
                if reused:  # donated inputs may be overwritten by now, so the program cannot be run again
                    raise MemoryError(str(error)) from None
                raise
            return outputs
        scratch = allocate(plan.scratch) if plan.scratch else None
        records = allocate(plan.record_bytes) if plan.records else None
        pairs = None if records is None or tell is None else self._find_restorable(inputs, reused, written)
        memory = (*inputs, *outputs, arena, scratch, records)
        self._run([getattr(x, "pointer", 0) for x in memory], inputs, pairs or ())  # 0 for numbers and absent memory
        if doubts:
            device.checks.inherit(outputs, doubts)
        if pairs is not None and records is not None and tell is not None and written is not None:
            device.checks.add(plan, records, [x for k, x in enumerate(outputs) if k not in written], tell)
        elif records is not None:  # the caller may write the results in place
            fault = plan.fault(device.read_bytes(records.pointer, records.nbytes))
            if fault is not None:
                raise fault
        return outputs

    def direct(self) -> int:
        return 0

    def _find_restorable(
        self, inputs: list[Any], reused: Mapping[int, CardMemory], written: Mapping[int, int] | None,
    ) -> tuple[tuple[int, int], ...] | None:
        """Return (input, output) pairs: outputs in new memory to be restored from the input if an index is out of range.

        Arrays then keep their content. Return None if that is impossible or takes too many copies.
        """
        if written is None or self._plan is None or self._plan.record_bytes > SLOT_BYTES:
            return None
        pairs = []
        for k, i in written.items():
            original = inputs[i]
            if k in reused:
                if reused[k] is not original:  # it overwrites another array's content
                    return None
            elif not isinstance(original, CardMemory) or original.nbytes != self._sizes[k] or original in reused.values():
                return None
            else:
                pairs.append((i, k))
        return tuple(pairs) if len(pairs) <= MAX_RESTORED else None

    def _restore_steps(self, pairs: tuple[tuple[int, int], ...]) -> _Steps:
        """Return the steps that copy the inputs to the outputs of these pairs after a fault; they follow all other steps."""
        steps = self._restores.get(pairs)
        if steps is None and self._plan is not None:
            first = len(self.program.inputs)
            record = SymbolicAddress(first + len(self._sizes) + 2, self._plan.records[-1][0])
            starts = [restoring(record, SymbolicAddress(i, 0), SymbolicAddress(first + k, 0), self._sizes[k]) for i, k in pairs]
            steps = self._restores[pairs] = [_PackedLaunch(self.device.codes, start, 1) for start in starts]
        return steps or []

    def _run(self, bases: list[int], inputs: list[Any], pairs: tuple[tuple[int, int], ...] = ()) -> None:
        """Run the plan with memory at these addresses. pairs: (input, output), see :meth:`_find_restorable`."""
        driver = self.device.driver
        if self._undecided_steps:
            self._replace_decided()
        steps = self._steps_for(bases)
        if pairs:
            steps = [*steps, *self._restore_steps(pairs)]
        self.device.launches += len(steps)
        if len(steps) < 2 or self._undecided_steps:
            self._start(steps, bases, inputs)
            return
        key = (pairs, *bases, *[repr(inputs[k]) for k in self._numbers])
        graph = self._graphs.get(key)
        if graph is None:
            times = self._run_counts[key] = self._run_counts.get(key, 0) + 1
            if len(self._run_counts) > 64:
                self._run_counts.clear()
            if times <= RUNS_BEFORE_GRAPH:
                self._start(steps, bases, inputs)
                return
            graph = self._record(steps, bases, inputs)
            if len(self._graphs) >= MAX_GRAPHS:
                self.device.drop([self._graphs.pop(next(iter(self._graphs)))])
            self._graphs[key] = graph
        driver.replay(graph)
        self.device.replays += 1

    def _choose_tile(self, start: Start) -> Start:
        """Return a launch in its best tiles, if they are known."""
        if start.others is None:
            return start
        best = self.device.tuner.choice(start, _alignment(start)).best
        return start if best is None else replace(starts_of(start)[best], others=None)

    def _replace_decided(self) -> None:
        """Replace steps whose best tiles have become known."""
        for k in list(self._undecided_steps):
            step = self._steps[k]
            assert isinstance(step, _TunedLaunch)
            best = step.best()
            if best is not None:
                self._steps[k] = best
                self._undecided_steps.remove(k)

    def _steps_for(self, bases: list[int]) -> _Steps:
        """Return the steps for memory at these addresses; memory of other libraries may be unaligned."""
        if not self.device.memories.has_unaligned or not any([base % 16 for base in bases]):
            return self._steps
        if not self._unaligned_steps and self._plan is not None:
            self._unaligned_steps = [
                _PackedLaunch(self.device.codes, s, 1) if isinstance(s, Start) else s for s in self._plan.steps
            ]
        return self._unaligned_steps

    def _record(self, steps: _Steps, bases: list[int], inputs: list[Any]) -> Any:
        driver = self.device.driver
        driver.record()
        try:
            self._start(steps, bases, inputs)
        except BaseException:
            driver.drop(driver.end_recording())  # otherwise the stream would record forever
            raise
        return driver.end_recording()

    def _start(self, steps: _Steps, bases: list[int], inputs: list[Any]) -> None:
        driver = self.device.driver
        if self._plan is not None and self._plan.records:
            driver.zero(bases[-1], self._plan.record_bytes)
        for step in steps:
            if isinstance(step, Move):
                target, source = (bases[place.base] + place.offset for place in (step.target, step.source))
                driver.copy(target, source, step.nbytes)
            else:
                step.start(driver, bases, inputs)

    def __del__(self) -> None:
        self.device.drop([*self._graphs.values()])


def _alignment(start: Start) -> int:
    """Return the alignment of a plan's addresses, where all memory begins at multiples of 16."""
    return 16 if all(p.offset % 16 == 0 for p in start.places) else 1


def _aligned_launches(
    program: Program, steps: Sequence[Start | Move] | None, printed: Callable[[Kernel], PrintedKernel],
) -> _AlignedLaunches:
    """Return the launches of a program, with the alignment of their addresses; of a walked program, as far as known."""
    if steps is not None:
        return [(step.launch, _alignment(step)) for step in steps if isinstance(step, Start)]
    return [(launch, 16) for call in calls(program) for launch in printed(call.kernel).launches]


class _PackedLaunch:
    """A launch of a plan with packed parameters."""

    __slots__ = ("_bases", "_code", "_function", "_number_inputs", "_grid", "_loaded_code", "_parameters", "_places")

    def __init__(self, codes: CodeStore, start: Start, max_alignment: int = 16) -> None:
        loaded = self._loaded_code = codes.load(start.launch, min(max_alignment, _alignment(start)))
        self._function, self._code, self._grid = loaded.function, loaded.code, start.launch.grid
        self._places, self._number_inputs = start.places, start.number_inputs
        self._parameters = Parameters(loaded.layout)
        self._bases: list[int] = []  # the packed addresses: repeated runs often use the same memory
        for k, value in start.constants:
            self._parameters.put_number(k, value)

    def start(self, driver: Any, bases: list[int], inputs: Sequence[Any]) -> None:
        parameters = self._parameters
        if bases != self._bases:
            parameters.put_addresses([bases[base] + offset for base, offset in self._places])
            self._bases = bases
        for k, position, form in self._number_inputs:
            parameters.put_number(k, round_number(inputs[position], form))
        driver.launch(self._function, self._grid, self._code, parameters.address)


class _TunedLaunch:
    """A launch in one of several tiles, which are measured while the program runs."""

    __slots__ = ("_choice", "_device", "_launches", "_start")

    def __init__(self, device: Card, start: Start) -> None:
        self._device, self._start = device, start
        self._choice = device.tuner.choice(start, _alignment(start))
        self._launches = {0: _PackedLaunch(device.codes, start)}

    def start(self, driver: Any, bases: list[int], inputs: Sequence[Any]) -> None:
        choice = self._choice
        number = self._device.tuner.next_tile(choice, self._start, _alignment(self._start))
        ready = None if number is None else self._launch_in(number)
        if number is None or ready is None:
            self._launches[0].start(driver, bases, inputs)
            return
        first = driver.stamp()
        ready.start(driver, bases, inputs)
        choice.add_measurement(number, first, driver.stamp())

    def best(self) -> _PackedLaunch | None:
        """Return the launch in its best tiles; None while they are unknown."""
        if not self._device.tuner.is_settled(self._choice, self._start):
            return None
        return self._launch_in(self._choice.best or 0) or self._launches[0]

    def _launch_in(self, number: int) -> _PackedLaunch | None:
        """Return the launch in the tiles of this number; None if the card rejects them."""
        if number not in self._launches:
            try:
                self._launches[number] = _PackedLaunch(self._device.codes, starts_of(self._start)[number])
            except RuntimeError:  # it cannot be compiled or loaded
                self._choice.refuse(number)
                return None
        return self._launches[number]


_Steps = list[_PackedLaunch | _TunedLaunch | Move]


class _At(NamedTuple):
    """Memory of a walk, by its address."""

    address: int


class Walker:
    """Runs the steps of a Program one by one: see ``weft.devices.steps``."""

    def __init__(self, device: Card) -> None:
        self.device = device
        self._kept_memory: list[CardMemory] = []  # until all steps have been issued

    def piece(self, memory: _At, offset: int, nbytes: int) -> _At:
        return _At(memory.address + offset)

    def copy(self, source: _At, target: _At, nbytes: int) -> None:
        if nbytes:
            self.device.driver.copy(target.address, source.address, nbytes)

    def number(self, value: Any, slot: Slot) -> _At:
        memory = self.device.upload(np.asarray(scalar(value, slot.dtype)))
        self._kept_memory.append(memory)
        return _At(memory.pointer)

    def fetch(self, memory: _At, slot: Slot) -> np.ndarray:
        return self.device.read(memory.address, slot.shape, slot.dtype)

    def put(self, array: np.ndarray, memory: _At) -> None:
        self.device.staging.upload(memory.address, array.reshape(-1).view(np.uint8))

    def device_step(self, operand: _At, slot: Slot, out: _At) -> CardStep:
        return CardStep(self.device, operand, slot, out)

    def launch(self, call: Call, memories: Sequence[_At], numbers: Sequence[Any]) -> tuple[int, int] | None:
        return run_kernel(self.device, call.kernel, [m.address for m in memories], numbers)


def run_kernel(device: Card, kernel: Kernel, pointers: Sequence[int], numbers: Sequence[Any]) -> tuple[int, int] | None:
    """Run a kernel on the memory of its inputs and outputs. Return (check number, index) if an index was out of range."""
    printed = device.print_kernel(kernel)
    scratch = device.allocate(scratch_bytes(printed))
    faults = device.allocate(8 * (1 + printed.sites))
    count = len(pointers)
    bases = [*pointers, scratch.pointer, faults.pointer]
    locations = places(kernel, printed, [SymbolicAddress(k, 0) for k in range(count)], SymbolicAddress(count, 0))
    scalars = dict(enumerate(enumerate(kernel.scalars)))
    if printed.sites:
        device.driver.zero(faults.pointer, faults.nbytes)
    for launch in printed.launches:
        start = start_of(launch, locations, SymbolicAddress(count + 1, 0), scalars)
        aligned = all([(bases[base] + offset) % 16 == 0 for base, offset in start.places])
        _PackedLaunch(device.codes, start, 16 if aligned else 1).start(device.driver, bases, numbers)
        device.launches += 1
    if not printed.sites:
        return None
    record = device.read_bytes(faults.pointer, faults.nbytes).view(np.int64)
    return (int(record[0]) - 1, int(record[record[0]])) if record[0] else None


class CardStep:
    """See :class:`weft.devices.steps.DeviceStep`."""

    def __init__(self, device: Card, operand: _At, slot: Slot, out: _At) -> None:
        self._device, self._driver = device, device.driver
        self._scratch: list[CardMemory] = []
        self._mark: Any = None
        self.address, self.shape, self.dtype, self.out = operand.address, slot.shape, slot.dtype, out.address
        self.stream, self.card = self._driver.stream, self._driver.bus

    def fetch(self) -> np.ndarray:
        return self._device.read(self.address, self.shape, self.dtype)

    def allocate(self, nbytes: int) -> int:
        self._scratch.append(self._device.allocate(nbytes))
        return self._scratch[-1].pointer

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._driver.copy(target, source, nbytes)

    def zero(self, target: int, nbytes: int) -> None:
        self._driver.zero(target, nbytes)

    def sum_rows(self, target: int, rows: int, sums: Sums, count: int, dtype: Format) -> None:
        addresses = (SymbolicAddress(0, 0), SymbolicAddress(1, 0))
        start = sum_rows(*addresses, sums, count, dtype)
        alignment = 16 if (target | rows) % 16 == 0 else 1
        _PackedLaunch(self._device.codes, start, alignment).start(self._driver, [rows, target], ())
        self._device.launches += 1

    def mark(self) -> None:
        self._mark = self._driver.mark(self._mark)

    def has_reached_mark(self) -> bool:
        return self._driver.has_reached(self._mark)

    def synchronise(self) -> None:
        self._driver.synchronise()
