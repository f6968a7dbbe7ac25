"""Runs of a program on a card: by its plan, from a graph where it was run before in the same memory, or step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from weft.devices.cuda.arguments import FAULTS, Launch, Printed
from weft.devices.cuda.card_allocator import CardMemory, Memories, Staging
from weft.devices.cuda.code_store import Codes, Loaded
from weft.devices.cuda.driver import Driver
from weft.devices.cuda.launch_list import Move, Place, Start, places, plan, restoring, rounded, scratch_bytes
from weft.devices.cuda.launch_parameters import Parameters
from weft.devices.cuda.pending_checks import SLOT, PendingChecks, Tell
from weft.devices.cuda.tuning import Tuner, starts_of
from weft.devices.faults import OutOfRoom
from weft.devices.steps import donated, walk
from weft.dtypes.formats import Format, scalar
from weft.kernel.ir import Kernel
from weft.schedule.program import Call, Program, Slot, calls

_NOTHING: dict[int, CardMemory] = {}
GRAPHS = 4  # kept for a program
_Asked = list[tuple[Launch, int]]  # launches, and what addresses are multiples of
RESTORED = 16  # arrays that a run may have to give their content back where an index is wrong: a launch each
AGAIN = 2  # runs in the same memory before one is recorded


class Card(Protocol):
    """What runs ask of their device."""

    driver: Driver
    memories: Memories
    staging: Staging
    codes: Codes
    tuner: Tuner
    checks: PendingChecks
    lock: Any
    launches: int
    replays: int

    def ready(self) -> Callable[[int], CardMemory]: ...
    def allocate(self, nbytes: int) -> CardMemory: ...
    def upload(self, array: np.ndarray) -> CardMemory: ...
    def read(self, pointer: int, shape: tuple[int, ...], dtype: Format) -> np.ndarray: ...
    def read_bytes(self, pointer: int, nbytes: int) -> np.ndarray: ...
    def printed(self, kernel: Kernel) -> Printed: ...
    def code(self, launch: Launch, aligned: int) -> Loaded: ...
    def run_kernel(self, kernel: Kernel, pointers: Sequence[int], numbers: Sequence[Any]) -> tuple[int, int] | None: ...
    def drop(self, graphs: list[Any]) -> None: ...


class CardExecutable:
    """See :class:`weft.devices.base.Executable`. A run returns before it is done: who looks at a result waits for it."""

    def __init__(self, device: Card, program: Program) -> None:
        self.device, self.program = device, program
        self.places: Any = ()
        self._graphs: dict[Any, Any] = {}
        self._met: dict[Any, int] = {}
        self._sizes = [math.prod(shape) * form.bytes for shape, form in program.outputs]
        self._plan = plan(program, device.printed)
        steps = None if self._plan is None else [self._chosen(s) if isinstance(s, Start) else s for s in self._plan.steps]
        device.codes.prepare(_launches(program, steps, device.printed))
        self._ready: _Steps = [_made(device, s) if isinstance(s, Start) else s for s in steps or ()]
        self._open = [k for k, step in enumerate(self._ready) if isinstance(step, _Tuned)]  # whose tiles are not known yet
        self._restores: dict[tuple[tuple[int, int], ...], _Steps] = {}
        self._anywhere: _Steps = []  # the same for memory that begins at any address, once it is needed
        self._numbers = () if self._plan is None else self._plan.numbers

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[CardMemory]:
        with self.device.lock:
            allocate = self.device.ready()
            return self._called(allocate, inputs, held, None, None)

    def deferring(
        self, inputs: list[Any], held: list[bool] | None, written: Mapping[int, int] | None, tell: Tell,
    ) -> list[CardMemory]:
        with self.device.lock:
            allocate = self.device.ready()
            self.device.checks.tell()
            return self._called(allocate, inputs, held, written, tell)

    def _called(
        self, allocate: Callable[[int], CardMemory], inputs: list[Any], held: list[bool] | None,
        written: Mapping[int, int] | None, tell: Tell | None,
    ) -> list[CardMemory]:
        """Run. written, tell : of a run that may return before the outcome of its checks is known; None where it may not"""
        device, program, plan = self.device, self.program, self._plan
        taken = _NOTHING if held is None else donated(program, inputs, held, self._sizes, CardMemory)
        if taken:
            taken = {k: memory for k, memory in taken.items() if not memory.lent}
        doubts = device.checks.doubts(inputs)
        if doubts and (held is not None or plan is None):
            device.checks.settle(doubts)  # or what is in doubt would be written over what arrays hold
            doubts = []
        outputs = [taken[k] if k in taken else allocate(size) for k, size in enumerate(self._sizes)]
        arena = allocate(program.arena) if program.arena else None
        if plan is None:
            given = [_At(x.pointer) if isinstance(x, CardMemory) else x for x in inputs]
            at = 0 if arena is None else arena.pointer
            try:
                walk(program, given, [_At(o.pointer) for o in outputs], _At(at), Walker(device))
            except OutOfRoom as error:
                if taken:  # what was given may be written by now: nobody can run this again
                    raise MemoryError(str(error)) from None
                raise
            return outputs
        scratch = allocate(plan.scratch) if plan.scratch else None
        records = allocate(plan.record_bytes) if plan.records else None
        pairs = None if records is None or tell is None else self._restorable(inputs, taken, written)
        memory = (*inputs, *outputs, arena, scratch, records)
        self._run([getattr(x, "pointer", 0) for x in memory], inputs, pairs or ())  # 0: of numbers, and of nothing
        if doubts:
            device.checks.inherit(outputs, doubts)
        if pairs is not None and records is not None and tell is not None and written is not None:
            device.checks.add(plan, records, [x for k, x in enumerate(outputs) if k not in written], tell)
        elif records is not None:  # who gets the results may write them where they were kept
            fault = plan.fault(device.read_bytes(records.pointer, records.nbytes))
            if fault is not None:
                raise fault
        return outputs

    def direct(self) -> int:
        return 0

    def _restorable(
        self, inputs: list[Any], taken: Mapping[int, CardMemory], written: Mapping[int, int] | None,
    ) -> tuple[tuple[int, int], ...] | None:
        """Return (input, output) pairs: the outputs in new memory that have to be given the input's content where an index is
        wrong, so that arrays hold what they held. None where that cannot be done, or is too much."""
        if written is None or self._plan is None or self._plan.record_bytes > SLOT:
            return None
        pairs = []
        for k, i in written.items():
            before = inputs[i]
            if k in taken:
                if taken[k] is not before:  # it lies where another array's content was
                    return None
            elif not isinstance(before, CardMemory) or before.nbytes != self._sizes[k] or before in taken.values():
                return None
            else:
                pairs.append((i, k))
        return tuple(pairs) if len(pairs) <= RESTORED else None

    def _restoring(self, pairs: tuple[tuple[int, int], ...]) -> _Steps:
        """What does that, behind all other steps."""
        found = self._restores.get(pairs)
        if found is None and self._plan is not None:
            first = len(self.program.inputs)
            record = Place(first + len(self._sizes) + 2, self._plan.records[-1][0])
            starts = [restoring(record, Place(i, 0), Place(first + k, 0), self._sizes[k]) for i, k in pairs]
            found = self._restores[pairs] = [_Ready(self.device.code, start, 1) for start in starts]
        return found or []

    def _run(self, bases: list[int], inputs: list[Any], pairs: tuple[tuple[int, int], ...] = ()) -> None:
        """What the plan says, with memory at these addresses. pairs : (input, output), see :meth:`_restorable`"""
        driver = self.device.driver
        if self._open:
            self._close()
        steps = self._fitting(bases)
        if pairs:
            steps = [*steps, *self._restoring(pairs)]
        self.device.launches += len(steps)
        if len(steps) < 2 or self._open:
            self._start(steps, bases, inputs)
            return
        key = (pairs, *bases, *[repr(inputs[k]) for k in self._numbers])
        graph = self._graphs.get(key)
        if graph is None:
            times = self._met[key] = self._met.get(key, 0) + 1
            if len(self._met) > 64:
                self._met.clear()
            if times <= AGAIN:
                self._start(steps, bases, inputs)
                return
            graph = self._recorded(steps, bases, inputs)
            if len(self._graphs) >= GRAPHS:
                self.device.drop([self._graphs.pop(next(iter(self._graphs)))])
            self._graphs[key] = graph
        driver.replay(graph)
        self.device.replays += 1

    def _chosen(self, start: Start) -> Start:
        """A launch in the tiles that are known to be best."""
        if start.others is None:
            return start
        best = self.device.tuner.choice(start, _aligned(start)).best
        return start if best is None else replace(starts_of(start)[best], others=None)

    def _close(self) -> None:
        """Take the tiles that are best, where that has become known."""
        for k in list(self._open):
            step = self._ready[k]
            assert isinstance(step, _Tuned)
            best = step.best()
            if best is not None:
                self._ready[k] = best
                self._open.remove(k)

    def _fitting(self, bases: list[int]) -> _Steps:
        """The steps for memory at these addresses: that of others may begin anywhere."""
        if not self.device.memories.odd or not any([base % 16 for base in bases]):
            return self._ready
        if not self._anywhere and self._plan is not None:
            self._anywhere = [_Ready(self.device.code, s, 1) if isinstance(s, Start) else s for s in self._plan.steps]
        return self._anywhere

    def _recorded(self, steps: _Steps, bases: list[int], inputs: list[Any]) -> Any:
        driver = self.device.driver
        driver.record()
        try:
            self._start(steps, bases, inputs)
        except BaseException:
            driver.drop(driver.recorded())  # or the stream would record for ever
            raise
        return driver.recorded()

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


def _aligned(start: Start) -> int:
    """What the addresses of a launch of a plan are multiples of, where all memory begins at multiples of 16."""
    return 16 if all(p.offset % 16 == 0 for p in start.places) else 1


def _launches(program: Program, steps: Sequence[Start | Move] | None, printed: Callable[[Kernel], Printed]) -> _Asked:
    """All that a program will start, and what the addresses are multiples of; where it is walked, as far as that is known."""
    if steps is not None:
        return [(step.launch, _aligned(step)) for step in steps if isinstance(step, Start)]
    return [(launch, 16) for call in calls(program) for launch in printed(call.kernel).launches]


def _made(device: Card, start: Start) -> _Ready | _Tuned:
    return _Ready(device.code, start) if start.others is None else _Tuned(device, start)


class _Ready:
    """A launch of a plan, packed."""

    __slots__ = ("_bases", "_code", "_function", "_given", "_grid", "_loaded", "_parameters", "_places")

    def __init__(self, code: Callable[[Launch, int], Loaded], start: Start, most: int = 16) -> None:
        loaded = self._loaded = code(start.launch, min(most, _aligned(start)))
        self._function, self._code, self._grid = loaded.function, loaded.code, start.launch.grid
        self._places, self._given = start.places, start.given
        self._parameters = Parameters(loaded.layout)
        self._bases: list[int] = []  # that are packed: memory that is used again comes at its old place
        for k, value in start.fixed:
            self._parameters.put_number(k, value)

    def start(self, driver: Any, bases: list[int], inputs: Sequence[Any]) -> None:
        parameters = self._parameters
        if bases != self._bases:
            parameters.put_addresses([bases[base] + offset for base, offset in self._places])
            self._bases = bases
        for k, position, form in self._given:
            parameters.put_number(k, rounded(inputs[position], form))
        driver.launch(self._function, self._grid, self._code, parameters.address)


class _Tuned:
    """The same in one of several tiles, which are tried while it runs."""

    __slots__ = ("_choice", "_device", "_ready", "_start")

    def __init__(self, device: Card, start: Start) -> None:
        self._device, self._start = device, start
        self._choice = device.tuner.choice(start, _aligned(start))
        self._ready = {0: _Ready(device.code, start)}

    def start(self, driver: Any, bases: list[int], inputs: Sequence[Any]) -> None:
        choice = self._choice
        number = self._device.tuner.next(choice, self._start, _aligned(self._start))
        ready = None if number is None else self._in(number)
        if number is None or ready is None:
            self._ready[0].start(driver, bases, inputs)
            return
        first = driver.stamp()
        ready.start(driver, bases, inputs)
        choice.measured(number, first, driver.stamp())

    def best(self) -> _Ready | None:
        """In the best tiles, once these are known."""
        if not self._device.tuner.settled(self._choice, self._start):
            return None
        return self._in(self._choice.best or 0) or self._ready[0]

    def _in(self, number: int) -> _Ready | None:
        """In tiles of this number; None where the card does not take them."""
        if number not in self._ready:
            try:
                self._ready[number] = _Ready(self._device.code, starts_of(self._start)[number])
            except RuntimeError:  # it cannot be compiled or loaded
                self._choice.refuse(number)
                return None
        return self._ready[number]


_Steps = list[_Ready | _Tuned | Move]


class _At(NamedTuple):
    """Memory of a walk, by its address."""

    address: int


class Walker:
    """Runs the steps of a Program one by one: see ``weft.devices.steps``."""

    def __init__(self, device: Card) -> None:
        self.device = device
        self._kept: list[CardMemory] = []  # until the run has been asked for as a whole

    def piece(self, memory: _At, offset: int, nbytes: int) -> _At:
        return _At(memory.address + offset)

    def copy(self, source: _At, target: _At, nbytes: int) -> None:
        if nbytes:
            self.device.driver.copy(target.address, source.address, nbytes)

    def number(self, value: Any, slot: Slot) -> _At:
        made = self.device.upload(np.asarray(scalar(value, slot.dtype)))
        self._kept.append(made)
        return _At(made.pointer)

    def fetch(self, memory: _At, slot: Slot) -> np.ndarray:
        return self.device.read(memory.address, slot.shape, slot.dtype)

    def put(self, array: np.ndarray, memory: _At) -> None:
        self.device.staging.upload(memory.address, array.reshape(-1).view(np.uint8))

    def launch(self, call: Call, memories: Sequence[_At], numbers: Sequence[Any]) -> tuple[int, int] | None:
        return self.device.run_kernel(call.kernel, [m.address for m in memories], numbers)


def run_kernel(
    device: Card, kernel: Kernel, pointers: Sequence[int], numbers: Sequence[Any],
) -> tuple[int, int] | None:
    """A kernel on memory of its inputs and outputs; (number of a site, index) where it found an index out of range."""
    printed = device.printed(kernel)
    scratch = device.allocate(scratch_bytes(printed))
    bases = [*pointers, scratch.pointer]
    named = [Place(k, 0) for k in range(len(pointers))]
    where = places(kernel, printed, named, Place(len(pointers), 0))
    faults = device.allocate(8 * (1 + printed.sites)) if printed.sites else None
    if faults is not None:
        device.driver.zero(faults.pointer, faults.nbytes)
    for launch in printed.launches:
        addresses = []
        for a in launch.arguments:
            if a.kind == "buffer":
                base, offset = where[a.value]
                addresses.append(bases[base] + offset)
            elif a.kind == FAULTS and faults is not None:
                addresses.append(faults.pointer)
        aligned = 16 if all(address % 16 == 0 for address in addresses) else 1
        loaded = device.code(launch, aligned)
        parameters = Parameters(loaded.layout)
        parameters.put_addresses(addresses)
        for k, a in enumerate(launch.arguments):
            if a.kind == "number":
                parameters.put_number(k, a.value)
            elif a.kind == "scalar":
                parameters.put_number(k, rounded(numbers[a.value], kernel.scalars[a.value]))
        device.driver.launch(loaded.function, launch.grid, loaded.code, parameters.address)
        device.launches += 1
    if faults is None:
        return None
    found = device.read_bytes(faults.pointer, faults.nbytes).view(np.int64)
    return (int(found[0]) - 1, int(found[found[0]])) if found[0] else None
