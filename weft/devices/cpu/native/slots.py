"""The numbering of a Program's slots in native tables: inputs, outputs, arena offsets, the fault record, constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.devices.cpu.native import call, layouts
from weft.devices.cpu.native.allocator import at
from weft.dtypes.formats import Format
from weft.schedule.program import Call, Copy, Loop, Program


class Slots:
    """The slot numbers of one Program.

    ``loops``: addresses of the descriptors of its loops. In the ``body`` of a loop every input is memory, and scratch and, behind
    it, the fault record are its last slots; in a whole Program scratch is the memory behind the arena.
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
        self.arena = sorted(offsets if body else offsets | {align_bytes(program.arena)})
        self.constants = sorted({self.nbytes(c.target) for c in copies} | set(loops))
        first = len(program.inputs) + len(program.outputs)
        self._arena = {offset: first + k for k, offset in enumerate(self.arena)}
        first_constant = first + len(self.arena) + (0 if body else 1)  # behind the fault record
        self._constant = {value: first_constant + k for k, value in enumerate(self.constants)}
        buffers = {s.position for s in read if s.kind == "input"}
        self.kinds = [
            layouts.ADDRESS if p in buffers else call.input_kind(dtype) if p in self.scalars else layouts.UNUSED
            for p, (_, dtype) in enumerate(program.inputs)
        ]

    def root(self, slot: int) -> Any:
        root = self.by_id[slot]
        while root.kind == "alias":
            root = self.by_id[root.of]
        return root

    def nbytes(self, slot: int) -> int:
        return nbytes(self.by_id[slot].shape, self.by_id[slot].dtype)

    def may_be_number(self, slot: int) -> bool:
        """Return whether a slot may hold a Python number: 0-d inputs of a whole Program."""
        root = self.root(slot)
        return not self.body and root.kind == "input" and root.shape == ()

    def index(self, slot: int) -> int:
        root = self.root(slot)
        if root.kind == "input":
            return root.position
        if root.kind == "output":
            return len(self.program.inputs) + root.position
        return self._arena[root.offset]

    def constant(self, value: int) -> int:
        return self._constant[value]

    def record(self) -> int:
        """Return the slot of the fault record, to which kernels write an index out of range."""
        if self.body:
            return self.scratch() + 1
        return len(self.program.inputs) + len(self.program.outputs) + len(self.arena)

    def scratch(self) -> int:
        if self.body:
            return len(self.program.inputs) + len(self.program.outputs) + len(self.arena) + len(self.constants)
        return self._arena[align_bytes(self.program.arena)]

    def loop(self, step: Loop, number: int) -> tuple[int, ...]:
        """Return the argument slots of the native loop: see loop_ir.py."""
        arena = self.index(step.arena) if step.arena >= 0 else self.scratch()
        carries = [s for c in step.carries for s in (c.init, c.result, next(x for x in (c.tape, c.spare, c.result) if x >= 0))]
        rest = (*carries, *step.xs, *step.ys, *step.constants, *((step.count,) if step.count >= 0 else ()))
        return (self.constant(self.loops[number]), self.scratch(), arena, self.record(), *(self.index(s) for s in rest))

    def address(self, slot: int, inputs: list[Any], outputs: list[Any], arena: int) -> int:
        """Return the address of a slot, for loops that Python runs."""
        root = self.root(slot)
        if root.kind == "arena":
            return arena + root.offset
        return (inputs if root.kind == "input" else outputs)[root.position].address

    def array(self, slot: int, inputs: list[Any], outputs: list[Any], arena: int, writable: bool) -> np.ndarray:
        """Return a slot's memory as a NumPy array, for host steps."""
        root, slot_ = self.root(slot), self.by_id[slot]
        if root.kind == "arena":
            return at(arena + root.offset, slot_.shape, slot_.dtype.numpy, None, writable)
        holder = (inputs if root.kind == "input" else outputs)[root.position]
        if not hasattr(holder, "address"):
            return np.asarray(holder, slot_.dtype.numpy)
        return at(holder.address, slot_.shape, slot_.dtype.numpy, holder, writable)


def align_bytes(n: int) -> int:
    return -(-n // 64) * 64


def nbytes(shape: tuple[int, ...], dtype: Format) -> int:
    n = dtype.bytes
    for extent in shape:
        n *= extent
    return n
