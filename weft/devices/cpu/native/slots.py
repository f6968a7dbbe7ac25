"""The Program's slots as a native table numbers them: inputs, outputs, arena offsets, the record of faults, constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.devices.cpu.native import call, layouts
from weft.devices.cpu.native.allocator import at
from weft.dtypes.formats import Format
from weft.schedule.program import Call, Copy, Loop, Program


class Slots:
    """Numbers for the slots of one Program.

    ``loops``: the addresses of the descriptors of its loops. In the ``body`` of a loop every input is memory, and scratch
    has a number of its own, as the record behind it; elsewhere scratch is what follows the arena.
    """

    def __init__(self, program: Program, loops: tuple[int, ...] = (), body: bool = False) -> None:
        self.program = program
        self.body = body
        self.loops = loops
        self.by_id = {s.id: s for s in program.slots}
        calls = [s for s in program.steps if isinstance(s, Call)]
        copies = [s for s in program.steps if isinstance(s, Copy)]
        self.scalars = sorted({p for c in calls for p in c.scalars})
        read = [self.root(a) for c in calls for a in c.args]
        for c in copies:
            read += [self.root(c.target)] if self.may_be_number(c.source) else [self.root(c.source), self.root(c.target)]
        read += [self.root(a) for s in program.steps if isinstance(s, Loop) for a in (*s.reads, *s.writes)]
        offsets = {s.offset for s in read if s.kind == "arena"}
        self.arena = sorted(offsets if body else offsets | {aligned(program.arena)})
        self.constants = sorted({self.nbytes(c.target) for c in copies} | set(loops))
        first = len(program.inputs) + len(program.outputs)
        self._arena = {offset: first + k for k, offset in enumerate(self.arena)}
        behind = first + len(self.arena) + (0 if body else 1)  # the record
        self._constant = {value: behind + k for k, value in enumerate(self.constants)}
        buffers = {s.position for s in read if s.kind == "input"}
        self.kinds = [
            layouts.ADDRESS if p in buffers else call.input_kind(dtype) if p in self.scalars else layouts.UNUSED
            for p, (_, dtype) in enumerate(program.inputs)
        ]

    def root(self, slot: int) -> Any:
        found = self.by_id[slot]
        while found.kind == "alias":
            found = self.by_id[found.of]
        return found

    def nbytes(self, slot: int) -> int:
        return nbytes(self.by_id[slot].shape, self.by_id[slot].dtype)

    def may_be_number(self, slot: int) -> bool:
        """A 0-d input may be given as a Python number."""
        root = self.root(slot)
        return not self.body and root.kind == "input" and root.shape == ()

    def index(self, slot: int) -> int:
        root = self.root(slot)
        if root.kind == "input":
            return root.position
        if root.kind == "output":
            return len(self.program.inputs) + root.position
        return self.arena_index(root.offset)

    def arena_index(self, offset: int) -> int:
        return self._arena[offset]

    def constant(self, value: int) -> int:
        return self._constant[value]

    def record(self) -> int:
        """Where kernels tell of an index out of range."""
        if self.body:
            return self.scratch() + 1
        return len(self.program.inputs) + len(self.program.outputs) + len(self.arena)

    def scratch(self) -> int:
        if self.body:
            return len(self.program.inputs) + len(self.program.outputs) + len(self.arena) + len(self.constants)
        return self.arena_index(aligned(self.program.arena))

    def loop(self, step: Loop, number: int) -> tuple[int, ...]:
        """What the native loop is given, see loop_ir.py."""
        arena = self.index(step.arena) if step.arena >= 0 else self.scratch()
        carries = [s for c in step.carries for s in (c.init, c.last, _other(c.tape, c.spare, c.last))]
        rest = (*carries, *step.xs, *step.ys, *step.constants)
        return (self.constant(self.loops[number]), self.scratch(), arena, self.record(), *(self.index(s) for s in rest))

    def address(self, slot: int, inputs: list[Any], outputs: list[Any], arena: int) -> int:
        """Where a slot lies, for what Python walks."""
        root = self.root(slot)
        if root.kind == "arena":
            return arena + root.offset
        return (inputs if root.kind == "input" else outputs)[root.position].address

    def array(self, slot: int, inputs: list[Any], outputs: list[Any], arena: int, writable: bool) -> np.ndarray:
        """A slot's memory as NumPy sees it, for steps that run in Python."""
        root, seen = self.root(slot), self.by_id[slot]
        if root.kind == "arena":
            return at(arena + root.offset, seen.shape, seen.dtype.numpy, None, writable)
        holder = (inputs if root.kind == "input" else outputs)[root.position]
        if not hasattr(holder, "address"):
            return np.asarray(holder, seen.dtype.numpy)
        return at(holder.address, seen.shape, seen.dtype.numpy, holder, writable)


def _other(tape: int, spare: int, last: int) -> int:
    return tape if tape >= 0 else spare if spare >= 0 else last


def aligned(n: int) -> int:
    return -(-n // 64) * 64


def nbytes(shape: tuple[int, ...], dtype: Format) -> int:
    n = dtype.bytes
    for extent in shape:
        n *= extent
    return n
