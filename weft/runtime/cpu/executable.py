"""A compiled Program on the CPU: kernels loaded, slots numbered, one native call a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.runtime.cpu import call
from weft.runtime.cpu.allocator import Allocator, Buffer, at
from weft.runtime.cpu.compile import Loaded
from weft.runtime.cpu.threads import Pool
from weft.schedule.program import Call, Copy, Host, Program

FLOPS_PER_US, BYTES_PER_US = 2e4, 1e4  # a cautious core: only decides when to give up the interpreter lock
RELEASE_ABOVE_US, CHECK_EVERY_US = 50.0, 20_000.0


class CPUExecutable:
    """See :class:`weft.runtime.backend.Executable`. Two threads may call one object at the same time."""

    def __init__(
        self, program: Program, kernels: list[Loaded], pool: Pool, allocator: Allocator, native: dict[str, int],
        flush_denormals: bool = False,
    ) -> None:
        self.program = program
        self._pool = pool
        self._allocator = allocator
        self._native = native
        self._kernels = kernels
        self._flush = flush_denormals
        self._slots = Slots(program)
        self._outputs = [(max(1, _nbytes(s, d)), allocator.stack(max(1, _nbytes(s, d)))) for s, d in program.outputs]
        self._sizes = [_nbytes(s, d) for s, d in program.inputs]
        self._narrow = [
            p for p in self._slots.scalars if program.inputs[p][1].kind not in "iub" and program.inputs[p][1].itemsize == 2
        ]
        self._threads = 0
        self._plan: Any = None
        self._prepare()
        self._donates = bool(program.donate)
        self._slow = self._donates or bool(self._narrow)

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[Any]:
        if self._pool.threads != self._threads:
            self._prepare()
        run, stack, arena_bytes = self._plan
        if self._slow:
            inputs, outputs = self._narrowed(inputs), self._donated(inputs, held)
        else:
            outputs = []
        if not outputs:
            for nbytes, idle in self._outputs:
                try:
                    outputs.append(Buffer(idle.pop(), nbytes, idle))
                except IndexError:
                    outputs.append(Buffer(self._allocator.fresh(nbytes), nbytes, idle))
        if stack is None:
            run(inputs, outputs, 0)
            return outputs
        try:
            arena = stack.pop()
        except IndexError:
            arena = self._allocator.fresh(arena_bytes)
        try:
            run(inputs, outputs, arena)
        finally:
            stack.append(arena)
        return outputs

    def _prepare(self) -> None:
        """Lay out the arena and write the tables for the pool's present number of threads."""
        threads = self._pool.threads
        scratch = max((_aligned(k.scratch) + _aligned(k.worker_scratch) * threads for k in self._kernels), default=0)
        start = _aligned(self.program.arena)
        arena = start + scratch
        segments = self._segments(threads, start)
        run = segments[0] if len(segments) == 1 else _Sequence(segments)
        stack = self._allocator.stack(arena) if arena else None
        self._plan = (run, stack, arena)  # one assignment: a call that runs keeps what it read
        self._threads = threads

    def _segments(self, threads: int, scratch: int) -> list[Callable[..., None]]:
        """Runs of native steps, cut by steps that need Python."""
        out: list[Callable[..., None]] = []
        steps: list[call.Step] = []
        slots, program = self._slots, self.program
        times = _times(program)
        total, since, kernel = sum(times), 0.0, 0
        flags = (call.RELEASE if total > RELEASE_ABOVE_US else 0) | (call.FLUSH if self._flush else 0)

        def close() -> None:
            if steps:
                table = call.Table(slots.kinds, len(program.outputs), slots.arena, slots.constants, steps, flags)
                table.set_workers(threads)
                out.append(_Native(call.entry(self._native["weft_run"], table), table).run)
                steps.clear()

        extra = slots.arena_index(scratch)
        for step in program.steps:
            if isinstance(step, Call):
                loaded = self._kernels[kernel]
                args = (*(slots.index(a) for a in step.args), *step.scalars, extra)
                since += times[kernel]
                check = since > CHECK_EVERY_US
                steps.append(call.Step(loaded.address, args, check))
                since = 0.0 if check else since
                kernel += 1
            elif isinstance(step, Copy) and not slots.may_be_number(step.source):
                size = slots.constant(slots.nbytes(step.target))
                steps.append(call.Step(self._native["weft_copy"], (slots.index(step.source), slots.index(step.target), size)))
            elif isinstance(step, Copy):
                close()
                out.append(_HostStep(slots, Host("copy", np.array, (step.source,), step.target)))
            else:
                close()
                out.append(_HostStep(slots, step))
        close()
        return out or [_nothing]

    def _narrowed(self, inputs: list[Any]) -> list[Any]:
        """Half-width numbers as their bits: NumPy knows how they round."""
        if self._narrow:
            inputs = list(inputs)
            for p in self._narrow:
                inputs[p] = int(np.asarray(inputs[p], self.program.inputs[p][1]).view(np.uint16))
        return inputs

    def _donated(self, inputs: list[Any], held: list[bool] | None) -> list[Any]:
        """Outputs, some of them in the memory of inputs that nobody else holds; empty if there are none."""
        if held is None or not self._donates:
            return []
        given: dict[int, Any] = {}
        used: set[int] = set()
        seen: set[int] = set()
        twice = {id(b) for b in inputs if id(b) in seen or seen.add(id(b))}  # type: ignore[func-returns-value]
        for i, o in self.program.donate:
            buffer = inputs[i]
            if held[i] or o in given or i in used or getattr(buffer, "exported", True) or id(buffer) in twice:
                continue
            if buffer.nbytes == self._outputs[o][0]:
                given[o] = buffer
                used.add(i)
        if not given:
            return []
        return [given[o] if o in given else self._allocator.allocate(n) for o, (n, _) in enumerate(self._outputs)]


class Slots:
    """The Program's slots as the native table numbers them: inputs, outputs, arena offsets, constants.

    All indices are given out before the first table is made, by walking the steps once.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.by_id = {s.id: s for s in program.slots}
        self.scalars = sorted({p for s in program.steps if isinstance(s, Call) for p in s.scalars})
        read = set()
        self.arena: list[int] = []
        self.constants: list[int] = []
        for step in program.steps:
            ids = step.args if isinstance(step, Call) else (step.source, step.target) if isinstance(step, Copy) else ()
            for slot in map(self.root, ids):
                if slot.kind == "input":
                    read.add(slot.position)
                elif slot.kind == "arena" and slot.offset not in self.arena:
                    self.arena.append(slot.offset)
            if isinstance(step, Copy) and self.nbytes(step.target) not in self.constants:
                self.constants.append(self.nbytes(step.target))
        scratch = _aligned(program.arena)
        if scratch not in self.arena:
            self.arena.append(scratch)
        copied = {self.root(s.source).position for s in program.steps if isinstance(s, Copy) and self.may_be_number(s.source)}
        self.kinds = [
            call.input_kind(dtype) if p in self.scalars else call.ADDRESS if p in read - copied else call.UNUSED
            for p, (_, dtype) in enumerate(program.inputs)
        ]
        called = {self.root(a).position for s in program.steps if isinstance(s, Call) for a in s.args if self.root(a).kind == "input"}
        for p in called:
            self.kinds[p] = call.ADDRESS

    def root(self, slot: int) -> Any:
        found = self.by_id[slot]
        while found.kind == "alias":
            found = self.by_id[found.of]
        return found

    def nbytes(self, slot: int) -> int:
        return _nbytes(self.by_id[slot].shape, self.by_id[slot].dtype)

    def may_be_number(self, slot: int) -> bool:
        """A 0-d input may be given as a Python number."""
        root = self.root(slot)
        return root.kind == "input" and root.shape == ()

    def index(self, slot: int) -> int:
        root = self.root(slot)
        if root.kind == "input":
            return root.position
        if root.kind == "output":
            return len(self.program.inputs) + root.position
        return self.arena_index(root.offset)

    def arena_index(self, offset: int) -> int:
        return len(self.program.inputs) + len(self.program.outputs) + self.arena.index(offset)

    def constant(self, value: int) -> int:
        return len(self.program.inputs) + len(self.program.outputs) + len(self.arena) + self.constants.index(value)

    def array(self, slot: int, inputs: list[Any], outputs: list[Any], arena: int, writable: bool) -> np.ndarray:
        """A slot's memory as NumPy sees it, for steps that run in Python."""
        root, seen = self.root(slot), self.by_id[slot]
        if root.kind == "arena":
            return at(arena + root.offset, seen.shape, seen.dtype, None, writable)
        holder = (inputs if root.kind == "input" else outputs)[root.position]
        if not hasattr(holder, "address"):
            return np.asarray(holder, seen.dtype)
        return at(holder.address, seen.shape, seen.dtype, holder, writable)


class _Native:
    """Keeps a table as long as its entry."""

    __slots__ = ("run", "table")

    def __init__(self, run: Callable[..., None], table: call.Table) -> None:
        self.run = run
        self.table = table


class _HostStep:
    """NumPy between native segments."""

    def __init__(self, slots: Slots, step: Host) -> None:
        self.slots = slots
        self.step = step

    def __call__(self, inputs: list[Any], outputs: list[Any], arena: int) -> None:
        step, slots = self.step, self.slots
        arrays = [slots.array(a, inputs, outputs, arena, False) for a in step.args]
        target = slots.array(step.out, inputs, outputs, arena, True)
        result = np.asarray(step.fn(*arrays, **step.params))
        if result.shape != target.shape:
            raise RuntimeError(f"host step {step.name} gave shape {result.shape}, its slot has {target.shape}")
        target[...] = result.astype(target.dtype, copy=False)


class _Sequence:
    __slots__ = ("parts",)

    def __init__(self, parts: list[Callable[..., None]]) -> None:
        self.parts = parts

    def __call__(self, inputs: list[Any], outputs: list[Any], arena: int) -> None:
        for part in self.parts:
            part(inputs, outputs, arena)


def _nothing(inputs: list[Any], outputs: list[Any], arena: int) -> None:
    return None


def _aligned(n: int) -> int:
    return -(-n // 64) * 64


def _nbytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    n = dtype.itemsize
    for extent in shape:
        n *= extent
    return n


def _times(program: Program) -> list[float]:
    """Estimated microseconds of each Call."""
    calls = [s for s in program.steps if isinstance(s, Call)]
    if len(program.info) == len(calls):
        return [i.flops / FLOPS_PER_US + i.bytes / BYTES_PER_US for i in program.info]
    size = {s.id: _nbytes(s.shape, s.dtype) for s in program.slots}
    return [sum(size[a] for a in c.args) / BYTES_PER_US for c in calls]
