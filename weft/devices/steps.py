"""An interpreter of a Program's steps in Python, for devices without a native one.

The interpreter resolves slots, loops and the arena; a ``Worker`` provides the device's operations on memory and kernels. For a
host step, the worker fetches the operands, NumPy computes, and the worker puts the result; a step that has ``on_device``, as
collectives have, runs in the device's own memory if the worker offers it. The CPU executes steps natively
(``cpu/native/walk_ir.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from weft.devices.faults import IndexFault
from weft.dtypes.formats import Format
from weft.schedule.program import Call, Copy, HostCall, Loop, Program, Slot, calls


class Mover(Protocol):
    """Operations on a device's memory. The type of memory is up to the device; a piece of memory is memory."""

    def piece(self, memory: Any, offset: int, nbytes: int) -> Any: ...

    def copy(self, source: Any, target: Any, nbytes: int) -> None: ...

    def fetch(self, memory: Any, slot: Slot) -> np.ndarray:
        """Return the content of a slot as a NumPy array that is valid until the next step."""

    def put(self, array: np.ndarray, memory: Any) -> None:
        """Copy an array into memory, in row-major order."""


class Worker(Mover, Protocol):
    """A Mover that also runs steps."""

    def launch(self, call: Call, memories: Sequence[Any], numbers: Sequence[Any]) -> tuple[int, int] | None:
        """Run a kernel. If an index is out of range, write nothing and return (position in ``call.sites``, index)."""

    def number(self, value: Any, slot: Slot) -> Any:
        """Return memory that holds a scalar argument."""


Sums = int | tuple["Sums", "Sums"]  # the number of a row, or two operands of an addition


class DeviceStep(Protocol):
    """A host step in a device's memory: its first operand, its result, and operations of the device, in the order of its stream.

    address, shape, dtype : of the operand
    out : address of the result
    stream : the CUDA stream of the device's work, as an integer
    card : the card's PCI bus id
    """

    address: int
    shape: tuple[int, ...]
    dtype: Format
    out: int
    stream: int
    card: str

    def fetch(self) -> np.ndarray:
        """Return the content of the operand."""

    def allocate(self, nbytes: int) -> int:
        """Return the address of memory that lasts as long as the step."""

    def copy(self, target: int, source: int, nbytes: int) -> None: ...

    def zero(self, target: int, nbytes: int) -> None: ...

    def sum_rows(self, target: int, rows: int, sums: Sums, count: int, dtype: Format) -> None:
        """Add up rows of ``count`` elements that follow each other; 16-bit floats in float32, rounded once."""

    def mark(self) -> None:
        """Mark the end of all operations so far."""

    def has_reached_mark(self) -> bool:
        """Return whether all operations before the mark are done."""

    def synchronise(self) -> None:
        """Return when all operations so far are done."""


@runtime_checkable
class OffersDeviceSteps(Protocol):
    """A Worker that can run host steps in its own memory."""

    def device_step(self, operand: Any, slot: Slot, out: Any) -> DeviceStep: ...


def nbytes(slot: Slot) -> int:
    return math.prod(slot.shape) * slot.dtype.bytes


def walk(program: Program, inputs: Sequence[Any], outputs: Sequence[Any], arena: Any, worker: Worker, first: int = 0) -> None:
    """Run a Program. Inputs are memory or numbers; ``first`` is the site number of the Program's first checked index.

    Raises
    ------
    IndexFault
        If a kernel finds an index out of range. No later step is run.
    """

    def memory(i: int) -> Any:
        slot = root = program.slots[i]
        while root.kind == "alias":
            root = program.slots[root.of]
        if root.kind == "arena":
            return worker.piece(arena, root.offset, nbytes(root))
        if root.kind == "output":
            return outputs[root.position]
        value = inputs[root.position]
        return worker.number(value, slot) if isinstance(value, int | float | np.generic) else value

    for step in program.steps:
        if isinstance(step, Call):
            fault = worker.launch(step, [memory(a) for a in step.args], [inputs[p] for p in step.scalars])
            if fault is not None:
                raise IndexFault(first + fault[0], fault[1])
            first += len(step.sites)
        elif isinstance(step, HostCall):
            if step.on_device is not None and isinstance(worker, OffersDeviceSteps):
                first = step.args[0]
                result = step.on_device(worker.device_step(memory(first), program.slots[first], memory(step.out)), **step.params)
            else:
                result = run_host_step(step, [worker.fetch(memory(a), program.slots[a]) for a in step.args])
            if result is not None:
                worker.put(np.ascontiguousarray(result, program.slots[step.out].dtype.numpy), memory(step.out))
        elif isinstance(step, Copy):
            worker.copy(memory(step.source), memory(step.target), nbytes(program.slots[step.target]))
        else:
            run_body = partial(walk, step.body, worker=worker, first=first)
            run_loop(step, program.slots, memory, worker, run_body)
            first += sum(len(call.sites) for call in calls(step.body))


def find_donations(program: Program, inputs: list[Any], held: list[bool], sizes: list[int], kind: Any) -> dict[int, Any]:
    """Return the outputs that reuse an input's buffer: output -> buffer.

    The Program lists the candidate pairs. An input is donated if it is of type ``kind``, nothing else holds it, its size is that
    of the output, and it occurs only once among inputs and donations.
    """
    reused: dict[int, Any] = {}
    for i, o in program.donate:
        candidate = inputs[i]
        fits = not held[i] and isinstance(candidate, kind) and candidate.nbytes == sizes[o] and o not in reused
        if fits and sum(x is candidate for x in inputs) == 1 and all(x is not candidate for x in reused.values()):
            reused[o] = candidate
    return reused


def run_host_step(step: HostCall, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Run a host step in NumPy. A ValueError gets the step as its attribute ``step``."""
    try:
        return np.asarray(step.fn(*arrays, **step.params))
    except ValueError as error:  # LinAlgError is one
        error.step = step  # type: ignore[attr-defined]
        raise


def run_loop(
    loop: Loop, slots: Sequence[Slot], memory: Callable[[int], Any], worker: Mover,
    body: Callable[[list[Any], list[Any], Any], None],
) -> None:
    """Run a loop iteration by iteration.

    Carries alternate between two pieces of memory or move along their tape; stacked inputs and outputs advance by one slice.

    memory : returns the memory of a slot
    body : runs one iteration on the memory of its inputs, its outputs and its temporaries (None if there are none)
    """
    size = [nbytes(slots[c.init]) for c in loop.carries]
    state = [memory(c.init) for c in loop.carries]
    targets = [(memory(c.result), memory(c.spare if c.spare >= 0 else c.result)) for c in loop.carries]
    constants = [memory(c) for c in loop.constants]
    arena = memory(loop.arena) if loop.arena >= 0 else None

    def stacked(i: int) -> tuple[Any, int]:
        return memory(i), nbytes(slots[i]) // loop.length

    xs, ys = [stacked(i) for i in loop.xs], [stacked(i) for i in loop.ys]
    tapes = {k: stacked(c.tape) for k, c in enumerate(loop.carries) if c.tape >= 0}
    condition, done = slots[loop.carries[0].init] if loop.until else None, 0
    count = loop.length if loop.count < 0 else min(max(int(worker.fetch(memory(loop.count), slots[loop.count])), 0), loop.length)
    while done < count and (condition is None or worker.fetch(state[0], condition)):
        t = count - 1 - done if loop.reverse else done
        done += 1
        for k, (whole, each) in tapes.items():  # the tape records the carry each iteration reads
            recorded = worker.piece(whole, t * each, each)
            worker.copy(state[k], recorded, size[k])
            state[k] = recorded
        odd = (count - done) % 2  # the last iteration writes ``last``
        after = [pair[odd] for pair in targets]
        operands = [*state, *[worker.piece(whole, t * each, each) for whole, each in xs], *constants]
        body(operands, [*after, *[worker.piece(whole, t * each, each) for whole, each in ys]], arena)
        state = after
    if done < count or not done:  # else the last iteration wrote the last carries
        for k, carry in enumerate(loop.carries):
            worker.copy(state[k], memory(carry.result), size[k])
    for whole, each in ys if done < loop.length else ():
        rows = np.zeros((loop.length - done) * each, np.uint8)
        worker.put(rows, worker.piece(whole, done * each, rows.nbytes))
