"""A Program's loops: descriptors for the native loop (``loop_ir.py``), loops that Python runs, and time estimates of steps.

Python runs the iterations of a loop with host steps; the segments between the host steps run natively.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from weft.devices.cpu.native.allocator import Allocator, at
from weft.devices.cpu.native.call import TableRow, max_arguments, step_words
from weft.devices.cpu.native.compile import LoadedKernel
from weft.devices.cpu.native.layouts import LOOP, header
from weft.devices.cpu.native.slots import Slots, nbytes
from weft.devices.steps import run_loop
from weft.schedule.program import Call, Copy, Loop, Program, Slot, calls

Part = Callable[[list[Any], list[Any], int], Any]  # of a run: inputs, outputs, arena
Kernel = tuple[LoadedKernel, int]  # of a step, with the number of its first site


class Descriptor:
    """The descriptor of one loop: see ``layouts.LOOP``. The executable keeps it alive."""

    def __init__(self, loop: Loop, slots: Slots, steps: list[TableRow], every: int) -> None:
        program, n, xs = loop.body, len(loop.carries), len(loop.xs)
        words = header(LOOP, dict(
            length=loop.length, reverse=int(loop.reverse), counted=int(loop.count >= 0), until=int(loop.until),
            carries=n, xs=xs, ys=len(program.outputs) - n, constants=len(loop.constants), na=len(slots.arena),
            numbers=len(slots.constants), ns=len(steps), most=max_arguments(steps), every=every,
            total=len(program.inputs) + len(program.outputs) + len(slots.arena) + len(slots.constants) + 2,
        ))
        for carry, output in zip(loop.carries, program.outputs, strict=False):
            words += [int(carry.tape >= 0), nbytes(*output)]
        words += [nbytes(*i) for i in program.inputs[n : n + xs]] + [nbytes(*o) for o in program.outputs[n:]]
        words += [*slots.arena, *slots.constants, *step_words(steps)]
        self.words = np.array(words, dtype=np.int64)
        self.address = int(self.words.ctypes.data)


def describe(loop: Loop, kernels: Iterator[Kernel], native: Mapping[str, int], every: int) -> list[Descriptor]:
    """Return the descriptor of a loop, then those of nested loops. ``kernels`` yields the kernels of the body."""
    inner: list[list[Descriptor]] = []
    own: list[Kernel | None] = []
    for step in loop.body.steps:
        if isinstance(step, Loop):
            inner.append(describe(step, kernels, native, 0))
        own.append(next(kernels) if isinstance(step, Call) else None)
    slots = Slots(loop.body, tuple(descriptors[0].address for descriptors in inner), body=True)
    numbers = iter(range(len(inner)))
    rows = [make_row(step, slots, native, kernel, numbers) for step, kernel in zip(loop.body.steps, own, strict=True)]
    return [Descriptor(loop, slots, rows, every), *(d for descriptors in inner for d in descriptors)]


def make_row(
    step: Any, slots: Slots, native: Mapping[str, int], kernel: Kernel | None, numbers: Iterator[int], check: bool = False,
) -> TableRow:
    """Return a native step. kernel: of a Call. numbers: yields the number of each Loop. check: for signals, after the step."""
    if isinstance(step, Call):
        assert kernel is not None
        record = (slots.record(),) if step.sites else ()
        args = (*(slots.index(a) for a in step.args), *step.scalars, slots.scratch(), *record)
        return TableRow(kernel[0].address, args, check, kernel[1] if step.sites else -1)
    if isinstance(step, Loop):
        has_sites = any(c.sites for c in calls(step.body))
        return TableRow(native["weft_loop"], slots.loop(step, next(numbers)), check, 0 if has_sites else -1)
    assert isinstance(step, Copy)
    size = slots.constant(slots.nbytes(step.target))
    return TableRow(native["weft_copy"], (slots.index(step.source), slots.index(step.target), size))


class Place(NamedTuple):
    """An address of memory that the run keeps alive."""

    address: int


class _Mover:
    """See ``weft.devices.steps``."""

    def piece(self, memory: Place, offset: int, nbytes: int) -> Place:
        return Place(memory.address + offset)

    def copy(self, source: Place, target: Place, nbytes: int) -> None:
        ctypes.memmove(target.address, source.address, nbytes)

    def fetch(self, memory: Place, slot: Slot) -> np.ndarray:
        return at(memory.address, slot.shape, slot.dtype.numpy, memory, False)

    def put(self, array: np.ndarray, memory: Place) -> None:
        ctypes.memmove(memory.address, array.ctypes.data, array.nbytes)


class PythonLoop:
    """A loop that Python runs, as a part of a run.

    parts : of the body, called in every iteration
    scratch_bytes : bytes of the memory for temporaries and scratch, allocated once per run
    """

    def __init__(self, slots: Slots, loop: Loop, allocator: Allocator, parts: list[Part], room: int) -> None:
        self.slots, self.loop, self.allocator, self.parts, self.scratch_bytes = slots, loop, allocator, parts, room

    def __call__(self, inputs: list[Any], outputs: list[Any], arena: int) -> None:
        own = self.allocator.allocate(self.scratch_bytes) if self.scratch_bytes else Place(0)

        def memory(slot: int) -> Place:
            return Place(self.slots.address(slot, inputs, outputs, arena))

        def run_body(body_inputs: list[Place], body_outputs: list[Place], _: Any) -> None:
            for part in self.parts:
                part(body_inputs, body_outputs, own.address)

        run_loop(self.loop, self.slots.program.slots, memory, _Mover(), run_body)


def times(program: Program, flops_per_us: float, bytes_per_us: float) -> list[float]:
    """Return the estimated microseconds of each step."""
    size = {s.id: nbytes(s.shape, s.dtype) for s in program.slots}
    has_info = sum(isinstance(s, Call) for s in program.steps) == len(program.info)
    out, k = [], 0
    for step in program.steps:
        if isinstance(step, Call):
            if has_info:
                info = program.info[k]
                out.append(info.flops / flops_per_us + info.bytes / bytes_per_us)
            else:
                out.append(sum(size[a] for a in step.args) / bytes_per_us)
            k += 1
        elif isinstance(step, Loop):
            out.append(step.expected_steps * (0.05 + sum(times(step.body, flops_per_us, bytes_per_us))))
        else:
            out.append(0.0)
    return out
