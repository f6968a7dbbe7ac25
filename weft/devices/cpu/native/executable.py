"""Executables of the CPU: a compiled Program with loaded kernels and numbered slots, run by one native call if possible.

The interpreter lock is released if the estimated time exceeds 50 us, or a loop may not end; signals are handled every 20 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import accumulate, islice
from typing import Any

import numpy as np

from weft.devices.cpu.native import call
from weft.devices.cpu.native.allocator import Allocator
from weft.devices.cpu.native.call import TableRow
from weft.devices.cpu.native.compile import LoadedKernel
from weft.devices.cpu.native.layouts import FLUSH, RELEASE
from weft.devices.cpu.native.loops import Descriptor, Part, Place, PythonLoop, describe, make_row, times
from weft.devices.cpu.native.slots import Slots, align_bytes, nbytes
from weft.devices.cpu.native.threads import Pool
from weft.devices.steps import run_host_step
from weft.dtypes.rounding import scalar
from weft.errors import format_bytes
from weft.schedule.program import Call, Copy, HostCall, Loop, Program, calls, find_hosts

# assumed speed of one core, for estimates: when to release the interpreter lock and how much to optimise
FLOPS_PER_US, BYTES_PER_US = 2e4, 1e4
RELEASE_ABOVE_US, CHECK_EVERY_US = 50.0, 20_000.0


class CPUExecutable:
    """See :class:`weft.devices.base.Executable`. Several threads may call one object at the same time."""

    def __init__(
        self, program: Program, kernels: list[LoadedKernel], pool: Pool, allocator: Allocator, native: dict[str, int],
        flush_denormals: bool = False, inside: int = -1,
    ) -> None:
        """inside: for the body of a loop that Python runs, the number of its first checked index. Such an object has only
        ``parts``; -1 for a whole Program."""
        needs = program.arena + sum(nbytes(*output) for output in program.outputs)
        if needs >> 62:  # native code computes sizes in 64 bits
            raise MemoryError(f"weft: no memory for arrays of {format_bytes(needs)}")
        self.program = program
        self.places: Any = ()
        self._pool = pool
        self._allocator = allocator
        self._native = native
        self._kernels = kernels
        self._flush = flush_denormals
        self._times = times(program, FLOPS_PER_US, BYTES_PER_US)
        may_not_end = any(isinstance(step, Loop) and step.until for step in program.steps)
        self._slow = sum(self._times) > RELEASE_ABOVE_US or may_not_end
        kernel_sites = zip(kernels, accumulate((len(c.sites) for c in calls(program)), initial=max(inside, 0)), strict=False)
        self._step_kernels = [list(islice(kernel_sites, _count_kernels(step))) for step in program.steps]
        self._bodies: list[CPUExecutable] = []  # bodies of loops that Python runs
        self._loops = self._describe()
        self._slots = Slots(program, tuple(descriptors[0].address for descriptors in self._loops))
        self._narrow = [p for p in self._slots.scalars if program.inputs[p][1].narrow]
        self._layout = call.TableLayout(
            tuple(self._slots.kinds), tuple((n, allocator.home(n)) for n in (max(1, nbytes(*o)) for o in program.outputs)),
            program.donate, tuple(self._slots.arena), 0, tuple(self._slots.constants),
        )
        self._tables: list[call.Table] = []
        self._threads = 0
        self._direct = 0
        self._run: Callable[..., list[Any]] = lambda inputs, held: []
        self._runs_by_threads: dict[int, tuple[Callable[..., list[Any]], int]] = {}  # number of threads -> _build_for's result
        if inside < 0:
            self._prepare()

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[Any]:
        if self._pool.threads != self._threads:
            self._prepare()
        return self._run(self._round_narrow(inputs) if self._narrow else inputs, held)

    def _round_narrow(self, inputs: list[Any]) -> list[Any]:
        """Replace run-time numbers of storage-only formats by bit patterns, rounded by NumPy."""
        inputs = list(inputs)
        with np.errstate(over="ignore"):  # the array layer has warned about it
            for position in self._narrow:
                number = scalar(inputs[position], self.program.inputs[position][1])
                inputs[position] = int.from_bytes(number.tobytes(), sys.byteorder)
        return inputs

    def direct(self) -> int:
        """Return the address of the only table, for warm calls, or 0 if a run is more than one native call."""
        if self._pool.threads != self._threads:
            self._prepare()
        return 0 if self._narrow else self._direct

    def _describe(self) -> list[list[Descriptor]]:
        """Return the descriptors of each native loop, and create the executables of bodies of other loops."""
        out = []
        for step, us, own in zip(self.program.steps, self._times, self._step_kernels, strict=True):
            if isinstance(step, Loop) and find_hosts(step.body):
                self._bodies.append(CPUExecutable(
                    step.body, [kernel for kernel, _ in own], self._pool, self._allocator, self._native, self._flush,
                    inside=own[0][1] if own else 0,
                ))
            elif isinstance(step, Loop):
                every = max(1, int(CHECK_EVERY_US * step.expected_steps / us)) if self._slow else 0
                out.append(describe(step, iter(own), self._native, every))
        return out

    def _prepare(self) -> None:
        """Switch to the pool's current number of threads."""
        threads = self._pool.threads
        if threads not in self._runs_by_threads:
            self._runs_by_threads[threads] = self._build_for(threads)
        self._run, self._direct = self._runs_by_threads[threads]  # a running call keeps the old ones
        self._threads = threads

    def _build_for(self, threads: int) -> tuple[Callable[..., list[Any]], int]:
        """Write the tables for this number of threads. Return the callable that runs them and the address for ``direct``."""
        room, parts = self._arena_size(threads), self._segments(threads)
        native = [p for p in parts if isinstance(p, list)]
        direct = 0
        if len(parts) == len(native) <= 1:
            run = self._entry("weft_call", native[0] if native else [], threads, room)
            direct = run.__self__  # type: ignore[attr-defined]  # the builtin is bound to the table's address
        else:
            outputs = self._entry("weft_call", [], threads, 0)
            run = partial(self._run_parts, outputs, self._runs(parts, threads), room)
        return run, direct

    def _run_parts(
        self, make_outputs: Callable[..., list[Any]], parts: list[Part], room: int, inputs: list[Any], held: list[bool] | None
    ) -> list[Any]:
        """Run native segments with Python steps between them. room : bytes of the arena"""
        outputs = make_outputs(inputs, held)
        arena = self._allocator.allocate(room) if room else Place(0)
        for part in parts:
            part(inputs, outputs, arena.address)
        return outputs

    def parts(self, threads: int) -> tuple[list[Part], int]:
        """Return the parts of a run, to be called in order with inputs, outputs and arena, and the bytes of the arena."""
        return self._runs(self._segments(threads), threads), self._arena_size(threads)

    def _runs(self, parts: list[list[TableRow] | Part], threads: int) -> list[Part]:
        return [self._entry("weft_run", p, threads, 0) if isinstance(p, list) else p for p in parts]

    def _arena_size(self, threads: int) -> int:
        """Return the bytes of the arena including the kernels' scratch behind it."""
        scratch = max((align_bytes(k.scratch) + align_bytes(k.worker_scratch) * threads for k in self._kernels), default=0)
        return align_bytes(self.program.arena) + scratch

    def _entry(self, name: str, steps: list[TableRow], threads: int, room: int) -> Callable[..., Any]:
        flags = (RELEASE if self._slow else 0) | (FLUSH if self._flush else 0)
        home = self._allocator.home(room) if room else 0
        table = call.Table(self._layout._replace(arena_home=home), steps, flags, threads, self._allocator.address)
        self._tables.append(table)  # keep old tables: another thread may be using one
        return call.builtin(name, self._native[name], table.address)

    def _segments(self, threads: int) -> list[list[TableRow] | Part]:
        """Return lists of adjacent native steps, and the steps between them that need Python."""
        out: list[list[TableRow] | Part] = []
        slots = self._slots
        since, numbers, bodies = 0.0, iter(range(len(self._loops))), iter(self._bodies)
        for step, us, own in zip(self.program.steps, self._times, self._step_kernels, strict=True):
            if isinstance(step, Copy) and slots.may_be_number(step.source):
                step = HostCall("copy", np.array, (step.source,), step.target)
            if isinstance(step, HostCall):
                out.append(_HostStep(slots, step))
                continue
            if isinstance(step, Loop) and find_hosts(step.body):
                out.append(PythonLoop(slots, step, self._allocator, *next(bodies).parts(threads)))
                since = 0.0
                continue
            if not out or not isinstance(out[-1], list):
                out.append([])
            since += us if isinstance(step, Call) else 0.0
            check = since > CHECK_EVERY_US if isinstance(step, Call) else isinstance(step, Loop) and self._slow
            since = 0.0 if check or isinstance(step, Loop) else since
            native = make_row(step, slots, self._native, own[0] if own else None, numbers, check)
            out[-1].append(native)  # type: ignore[union-attr]
        return out


def _count_kernels(step: Any) -> int:
    return len(calls(step.body)) if isinstance(step, Loop) else int(isinstance(step, Call))


class _HostStep:
    """A host step, run in NumPy between native segments."""

    def __init__(self, slots: Slots, step: HostCall) -> None:
        self.slots = slots
        self.step = step
        self.arena_slots = [a for a in (*step.args, step.out) if slots.root(a).kind == "arena"]
        self.array_cache: tuple[int, dict[int, np.ndarray]] = -1, {}  # arena address -> arrays over it, reused by loops

    def __call__(self, inputs: list[Any], outputs: list[Any], arena: int) -> None:
        step, array = self.step, self.slots.array
        cached_arena, views = self.array_cache
        if cached_arena != arena:
            views = {a: array(a, inputs, outputs, arena, writable=a == step.out) for a in self.arena_slots}
            self.array_cache = arena, views
        arrays = [views[a] if a in views else array(a, inputs, outputs, arena, writable=False) for a in step.args]
        out = step.out
        target = views[out] if out in views else array(out, inputs, outputs, arena, writable=True)
        result = run_host_step(step, arrays)
        if step.name == "copy":  # a copy may reshape
            result = result.reshape(target.shape)
        if result.shape != target.shape:
            raise RuntimeError(f"host step {step.name} returned shape {result.shape}, its slot has {target.shape}")
        target[...] = result if result.dtype is target.dtype else result.astype(target.dtype, copy=False)
