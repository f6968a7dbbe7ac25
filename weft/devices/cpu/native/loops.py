"""Descriptors of a Program's loops, which the native loop reads, and time estimates of steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from weft.devices.cpu.native.compile import LoadedKernel
from weft.devices.cpu.native.layouts import LOOP, header
from weft.devices.cpu.native.slots import Slots, nbytes
from weft.devices.cpu.native.tables import TableRow, cell, most_arguments, step_words
from weft.schedule.program import Call, Copy, Loop, Program, calls


class Descriptor:
    """The descriptor of one loop: see ``layouts.LOOP``. The executable keeps it alive."""

    def __init__(
        self, loop: Loop, carries: list[tuple[int, int]], xs: list[int], ys: list[int], arena: list[int], numbers: list[int],
        steps: list[TableRow], every: int,
    ) -> None:
        constants = len(loop.constants)
        words = header(LOOP, dict(
            length=loop.length, reverse=int(loop.reverse), counted=int(loop.count >= 0), until=int(loop.until),
            carries=len(carries), xs=len(xs), ys=len(ys), constants=constants,
            na=len(arena), numbers=len(numbers), ns=len(steps), most=most_arguments(steps), every=every,
            total=2 * len(carries) + len(xs) + constants + len(ys) + len(arena) + len(numbers) + 2,
        ))
        for pair in carries:
            words += pair
        words += [*xs, *ys, *arena, *numbers, *step_words(steps)]
        self.words = np.array(words, dtype=np.int64)
        self.address = int(self.words.ctypes.data)


def describe(loop: Loop, kernels: Iterator[tuple[LoadedKernel, int]], native: Mapping[str, int], every: int) -> list[Descriptor]:
    """Return the descriptor of a loop, then those of nested loops.

    ``kernels`` yields the kernels of the body, each with the number of its first site.
    """
    program = loop.body
    inner: list[list[Descriptor]] = []
    functions: list[tuple[int, int]] = []  # (function, first site)
    for step in program.steps:
        if isinstance(step, Loop):
            inner.append(describe(step, kernels, native, 0))
            functions.append((cell(native["weft_loop"]), 0 if any(c.sites for c in calls(step.body)) else -1))
        elif isinstance(step, Call):
            kernel, number = next(kernels)
            functions.append((kernel.cell, number if step.sites else -1))
        else:
            functions.append((cell(native["weft_copy"]), -1))
    slots = Slots(program, tuple(descriptors[0].address for descriptors in inner), body=True)
    steps, number = [], 0
    for (function, site), step in zip(functions, program.steps, strict=True):
        if isinstance(step, Call):
            args: tuple[int, ...] = (*(slots.index(a) for a in step.args), *step.scalars, slots.scratch())
            args += (slots.record(),) if step.sites else ()
        elif isinstance(step, Loop):
            args = slots.loop(step, number)
            number += 1
        else:
            assert isinstance(step, Copy)
            args = (slots.index(step.source), slots.index(step.target), slots.constant(slots.nbytes(step.target)))
        steps.append(TableRow(function, args, check=False, first=site))
    n, xs = len(loop.carries), len(loop.xs)
    outermost = Descriptor(
        loop, [(int(c.tape >= 0), nbytes(*o)) for c, o in zip(loop.carries, program.outputs, strict=False)],
        [nbytes(*i) for i in program.inputs[n : n + xs]], [nbytes(*o) for o in program.outputs[n:]],
        slots.arena, slots.constants, steps, every,
    )
    return [outermost, *(d for descriptors in inner for d in descriptors)]


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
            out.append(step.expected * (0.05 + sum(times(step.body, flops_per_us, bytes_per_us))))
        else:
            out.append(0.0)
    return out


def estimate_kernel_times(program: Program, flops_per_us: float, bytes_per_us: float) -> list[float]:
    """Return the estimated microseconds per run of each kernel, over all iterations of loops, in the order of ``calls``."""
    out: list[float] = []
    for step, us in zip(program.steps, times(program, flops_per_us, bytes_per_us), strict=True):
        if isinstance(step, Call):
            out.append(us)
        elif isinstance(step, Loop):
            out += [step.expected * inner for inner in estimate_kernel_times(step.body, flops_per_us, bytes_per_us)]
    return out
