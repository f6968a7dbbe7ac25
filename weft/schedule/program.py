"""Program: the steps that materialise pending nodes or that one jitted call runs. Plain data, read by executors and explain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np

from weft.dtypes.formats import Format
from weft.graph.loops import UNBOUNDED
from weft.kernel.ir import Kernel


@dataclass(frozen=True, slots=True)
class Slot:
    """Memory that steps read and write.

    kind: ``input`` (position in the graph's inputs), ``output`` (position in its outputs), ``arena`` (temporary; ``offset``
    bytes into the arena), ``alias`` (same memory as slot ``of``: a reshape). A temporary is stored in the order that the
    buffers of its kernels name, the same in all of them. Memory that is read in any other way is row-major.
    """

    id: int
    kind: str
    shape: tuple[int, ...]
    dtype: Format
    position: int = -1
    offset: int = -1
    of: int = -1

    @property
    def nbytes(self) -> int:
        return prod(self.shape, start=self.dtype.bytes)


class Site(NamedTuple):
    """An index that a kernel checks.

    source_line: the user's line (see Node). axis, extent: named by the error. lowest: the index of the first element, -extent or
        0. is_unsigned: whether the index has an unsigned dtype.
    """

    source_line: Any
    axis: int | str
    extent: int
    lowest: int
    is_unsigned: bool


@dataclass(frozen=True, slots=True)
class Call:
    """Run a kernel.

    args: slot ids for kernel.inputs, then kernel.outputs. scalars: graph input positions. sites: the indices that the kernel
    checks, by number.
    """

    kernel: Kernel
    args: tuple[int, ...]
    scalars: tuple[int, ...] = ()
    sites: tuple[Site, ...] = ()

    @property
    def reads(self) -> tuple[int, ...]:
        return self.args[: len(self.kernel.inputs)]

    @property
    def writes(self) -> tuple[int, ...]:
        return self.args[len(self.kernel.inputs) :]


@dataclass(frozen=True, slots=True)
class HostCall:
    """Run NumPy on the CPU: ``fn(*arrays, **params) -> array`` from slots to a slot.

    raises: whether it may raise because of its operands' values. source_line: the user's line (see Node). flops: its work.
    on_device: see Primitive.
    """

    name: str
    fn: Callable[..., np.ndarray]
    args: tuple[int, ...]
    out: int
    params: dict[str, Any] = field(default_factory=dict, hash=False)
    raises: bool = False
    source_line: Any = field(default=None, compare=False)
    flops: int = 0
    on_device: Callable[..., Any] | None = None

    @property
    def reads(self) -> tuple[int, ...]:
        return self.args

    @property
    def writes(self) -> tuple[int, ...]:
        return (self.out,)


class Copy(NamedTuple):
    """Copy an input or another output to an output."""

    source: int
    target: int

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.source,)

    @property
    def writes(self) -> tuple[int, ...]:
        return (self.target,)


class Carry(NamedTuple):
    """The slots of one value that a loop passes from step to step.

    init: read by the first step. result: written by the last one. Between them two memories alternate, ``result`` and ``spare``;
    or, if ``tape`` is not -1, each step reads its row of the tape and writes the next one. With neither, every step writes
    ``result``, and all but the first one read it: the body works in place.
    """

    init: int
    result: int
    spare: int = -1
    tape: int = -1


@dataclass(frozen=True, slots=True)
class Loop:
    """Run a Program ``length`` times: natively, or step by step if ``find_hosts(body)`` is not empty.

    ``count``: the slot with the number of steps, at most ``length``, or -1. ``until``: end before a step in which the first
    carry, a bool, is False.
    Code size does not depend on the length. ``body.inputs``: the carries, a slice of each of ``xs``, ``constants``.
    ``body.outputs``: the carries, a slice of each of ``ys``. ``reverse``: from the last slice to the first. ``arena``: the slot
    of the body's temporaries, or -1.
    """

    body: Program
    length: int
    reverse: bool
    carries: tuple[Carry, ...]
    xs: tuple[int, ...]
    constants: tuple[int, ...]
    ys: tuple[int, ...]
    arena: int = -1
    count: int = -1
    until: bool = False

    @property
    def in_place(self) -> tuple[int, ...]:
        """Return the carries that every step changes in their own memory."""
        alone = set(self.body.donate)
        return tuple([k for k, c in enumerate(self.carries) if c.tape < 0 and c.spare < 0 and (k, k) in alone])

    @property
    def reads(self) -> tuple[int, ...]:
        return (*(c.init for c in self.carries), *self.xs, *self.constants, *((self.count,) if self.count >= 0 else ()))

    @property
    def is_dynamic(self) -> bool:
        """Return whether the number of steps depends on values."""
        return self.count >= 0 or self.until

    @property
    def expected_steps(self) -> int:
        """Return the number of steps, or an estimate."""
        return min(self.length, EXPECTED_STEPS) if self.is_dynamic else self.length

    @property
    def steps(self) -> str:
        """Return the number of steps in words."""
        return str(self.length) if not self.is_dynamic else f"up to {self.length}" if self.length < UNBOUNDED else "any number of"

    @property
    def writes(self) -> tuple[int, ...]:
        own = (s for c in self.carries for s in (c.result, c.spare, c.tape) if s >= 0)
        return (*own, *self.ys, *((self.arena,) if self.arena >= 0 else ()))


EXPECTED_STEPS = 64  # estimate for loops whose number of steps depends on values

Step = Call | HostCall | Copy | Loop


def root(slots: Sequence[Slot], i: int) -> Slot:
    """Return the slot that owns the memory of slot ``i``."""
    return slots[slots[i].of] if slots[i].kind == "alias" else slots[i]


def walk_steps(program: Program) -> Iterator[Step]:
    """Yield all steps in order, each loop followed by those of its body."""
    for step in program.steps:
        yield step
        if isinstance(step, Loop):
            yield from walk_steps(step.body)


def calls(program: Program) -> list[Call]:
    """Return every kernel call of a Program, including those in the bodies of its loops, in order."""
    return [step for step in walk_steps(program) if isinstance(step, Call)]


def find_hosts(program: Program) -> list[HostCall]:
    """Return every step in NumPy, including those in the bodies of its loops, in order."""
    return [step for step in walk_steps(program) if isinstance(step, HostCall)]


class KernelInfo(NamedTuple):
    """What explain prints of a kernel."""

    name: str
    phases: int
    flops: int
    bytes: int
    lines: tuple[str, ...]  # the user's lines, file:line
    boundary: tuple[str, ...]  # why each next operation was not fused: "reshape: ..." etc.
    notes: tuple[str, ...] = ()  # precision of products, storage other than row-major


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled graph.

    ``donate``: (input position, output position) pairs that may share memory if no other reference to the input's buffer
    exists.
    """

    inputs: tuple[tuple[tuple[int, ...], Format], ...]
    outputs: tuple[tuple[tuple[int, ...], Format], ...]
    slots: tuple[Slot, ...]
    steps: tuple[Step, ...]
    arena: int
    donate: tuple[tuple[int, int], ...] = ()
    info: tuple[KernelInfo, ...] = ()


def find_infos(program: Program) -> tuple[KernelInfo, ...]:
    """Return the KernelInfo of every kernel, including those in the bodies of loops, in order. Work is that of one step."""
    out: list[KernelInfo] = []
    own = iter(program.info)
    for step in program.steps:
        if isinstance(step, Call):
            out.append(next(own))
        elif isinstance(step, Loop):
            out += find_infos(step.body)
    return tuple(out)
