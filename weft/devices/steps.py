"""A plain walker of a Program's steps: what a new device starts with.

The walker knows slots, loops and the arena, and that a step in NumPy is three: operands are fetched, NumPy runs, its result is
put. A ``Worker`` knows memory and kernels, and is asked for one thing at a time. The CPU has a native walker of its own, which
does the same (``cpu/native/walk_ir.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from weft.devices.faults import IndexFault
from weft.schedule.program import Call, Copy, Host, Loop, Program, Slot, calls


class Mover(Protocol):
    """Memory is whatever the device says it is; a piece of memory is memory."""

    def piece(self, memory: Any, offset: int, nbytes: int) -> Any: ...

    def copy(self, source: Any, target: Any, nbytes: int) -> None: ...


class Worker(Mover, Protocol):
    """What runs the steps, too."""

    def fetch(self, memory: Any, slot: Slot) -> np.ndarray:
        """The content of a slot as NumPy reads it, until the next step."""
        ...

    def put(self, array: np.ndarray, memory: Any) -> None:
        """An array, in row-major order, into memory."""
        ...

    def launch(self, call: Call, memories: Sequence[Any], numbers: Sequence[Any]) -> tuple[int, int] | None:
        """Run a kernel; (number among ``call.sites``, index) where it found an index out of range, and wrote nothing."""
        ...

    def number(self, value: Any, slot: Slot) -> Any:
        """Memory that holds a number, which came with the call."""
        ...


def nbytes(slot: Slot) -> int:
    return math.prod(slot.shape) * slot.dtype.bytes


def walk(program: Program, inputs: Sequence[Any], outputs: Sequence[Any], arena: Any, worker: Worker, first: int = 0) -> None:
    """Run a Program. inputs : memory, or numbers; outputs, arena : memory; first : the number of its first checked index.

    Raises
    ------
    IndexFault
        where a kernel found an index out of range: no later step has run.
    """

    def memory(i: int) -> Any:
        slot = root = program.slots[i]
        while root.kind == "alias":
            root = program.slots[root.of]
        if root.kind == "arena":
            return worker.piece(arena, root.offset, nbytes(root))
        if root.kind == "output":
            return outputs[root.position]
        found = inputs[root.position]
        return worker.number(found, slot) if isinstance(found, int | float | np.generic) else found

    for step in program.steps:
        if isinstance(step, Call):
            wrong = worker.launch(step, [memory(a) for a in step.args], [inputs[p] for p in step.scalars])
            if wrong is not None:
                raise IndexFault(first + wrong[0], wrong[1])
            first += len(step.sites)
        elif isinstance(step, Host):
            given = [worker.fetch(memory(a), program.slots[a]) for a in step.args]
            made = in_numpy(step, given)
            worker.put(np.ascontiguousarray(made, program.slots[step.out].dtype.numpy), memory(step.out))
        elif isinstance(step, Copy):
            worker.copy(memory(step.source), memory(step.target), nbytes(program.slots[step.target]))
        else:
            inside = partial(walk, step.body, worker=worker, first=first)
            turns(step, program.slots, memory, worker, inside)
            first += sum(len(call.sites) for call in calls(step.body))


def donated(program: Program, inputs: list[Any], held: list[bool], sizes: list[int], kind: Any) -> dict[int, Any]:
    """Inputs of a kind of memory that nobody else holds become outputs, as the Program pairs them; none that is another input,
    too. sizes : bytes of the outputs"""
    taken: dict[int, Any] = {}
    for i, o in program.donate:
        given = inputs[i]
        fits = not held[i] and isinstance(given, kind) and given.nbytes == sizes[o] and o not in taken
        if fits and sum(x is given for x in inputs) == 1 and all(x is not given for x in taken.values()):
            taken[o] = given
    return taken


def in_numpy(step: Host, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """What a step in NumPy gives; where it refuses its operands, its error tells of the step."""
    try:
        return np.asarray(step.fn(*arrays, **step.params))
    except ValueError as error:  # LinAlgError is one
        error.step = step  # type: ignore[attr-defined]
        raise


def turns(
    loop: Loop, slots: Sequence[Slot], memory: Callable[[int], Any], worker: Mover,
    body: Callable[[list[Any], list[Any], Any], None],
) -> None:
    """A loop step by step: carries change places, slices of stacked inputs and outputs move on.

    memory : of a slot; body : runs one step, of memory of its inputs, of its outputs and of its temporaries (None where the loop
    has none for them)
    """
    size = [nbytes(slots[c.init]) for c in loop.carries]
    state = [memory(c.init) for c in loop.carries]
    targets = [(memory(c.last), memory(c.spare if c.spare >= 0 else c.last)) for c in loop.carries]
    constants = [memory(c) for c in loop.constants]
    arena = memory(loop.arena) if loop.arena >= 0 else None

    def stacked(i: int) -> tuple[Any, int]:
        return memory(i), nbytes(slots[i]) // loop.length

    xs, ys = [stacked(i) for i in loop.xs], [stacked(i) for i in loop.ys]
    tapes = {k: stacked(c.tape) for k, c in enumerate(loop.carries) if c.tape >= 0}
    for step in range(loop.length):
        t = loop.length - 1 - step if loop.reverse else step
        for k, (whole, each) in tapes.items():  # what a step reads stays on the tape
            kept = worker.piece(whole, t * each, each)
            worker.copy(state[k], kept, size[k])
            state[k] = kept
        odd = (loop.length - 1 - step) % 2  # the last step writes ``last``
        after = [pair[odd] for pair in targets]
        given = [*state, *[worker.piece(whole, t * each, each) for whole, each in xs], *constants]
        body(given, [*after, *[worker.piece(whole, t * each, each) for whole, each in ys]], arena)
        state = after
    if not loop.length:
        for k, carry in enumerate(loop.carries):
            worker.copy(state[k], memory(carry.last), size[k])
