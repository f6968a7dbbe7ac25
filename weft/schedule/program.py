"""Program: what one look or one jitted call runs. Plain data; explain only reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from weft.dtypes.formats import Format
from weft.kernel.ir import Kernel


@dataclass(frozen=True, slots=True)
class Slot:
    """A value the steps pass on.

    kind: ``input`` (position in the graph's inputs), ``output`` (position in its outputs), ``arena``
    (temporary; ``offset`` bytes into the arena), ``alias`` (same memory as slot ``of``: a reshape). A temporary lies as the
    buffers of its kernels say, all alike; what is seen in another way lies row by row.
    """

    id: int
    kind: str
    shape: tuple[int, ...]
    dtype: Format
    position: int = -1
    offset: int = -1
    of: int = -1


class Site(NamedTuple):
    """An index that a kernel checks. where: the user's line (see Node); axis, extent: what the error names; lowest: what stands
    for the first element: -extent, or 0; unsigned: its dtype."""

    where: Any
    axis: int
    extent: int
    lowest: int
    unsigned: bool


@dataclass(frozen=True, slots=True)
class Call:
    """Run a kernel. ``args``: slot ids for kernel.inputs then kernel.outputs; ``scalars``: graph input positions; ``sites``:
    the indices that it checks, by the numbers of the kernel."""

    kernel: Kernel
    args: tuple[int, ...]
    scalars: tuple[int, ...] = ()
    sites: tuple[Site, ...] = ()


@dataclass(frozen=True, slots=True)
class Host:
    """Run NumPy on the CPU: ``fn(*arrays, **params) -> array`` from slots to a slot. raises: it may refuse what they hold; where:
    the user's line (see Node); flops: what it takes."""

    name: str
    fn: Callable[..., np.ndarray]
    args: tuple[int, ...]
    out: int
    params: dict[str, Any] = field(default_factory=dict, hash=False)
    raises: bool = False
    where: Any = field(default=None, compare=False)
    flops: int = 0


class Copy(NamedTuple):
    """An output that is an input (or another output) unchanged."""

    source: int
    target: int


class Carry(NamedTuple):
    """What a loop passes from step to step: slots.

    init: read by the first step; last: written by the last one. Between them two memories change places, ``last`` and
    ``spare``; or, where ``tape`` is not -1, each step reads its place in the tape and writes the next one. With neither,
    every step writes ``last``, and all but the first one read it: the body works in place.
    """

    init: int
    last: int
    spare: int = -1
    tape: int = -1


@dataclass(frozen=True, slots=True)
class Loop:
    """Run a Program ``length`` times: natively, or walked step by step where ``hosts(body)`` are any. Code size does not depend
    on the length.

    ``body.inputs``: the carries, a slice of each of ``xs``, ``constants``; ``body.outputs``: the carries, a slice of each of
    ``ys``. ``reverse``: from the last slice to the first. ``arena``: the slot that holds the body's temporaries, or -1.
    """

    body: Program
    length: int
    reverse: bool
    carries: tuple[Carry, ...]
    xs: tuple[int, ...]
    constants: tuple[int, ...]
    ys: tuple[int, ...]
    arena: int = -1

    @property
    def in_place(self) -> tuple[int, ...]:
        """The carries that every step changes in their own memory."""
        alone = set(self.body.donate)
        return tuple([k for k, c in enumerate(self.carries) if c.tape < 0 and c.spare < 0 and (k, k) in alone])

    @property
    def reads(self) -> tuple[int, ...]:
        return (*(c.init for c in self.carries), *self.xs, *self.constants)

    @property
    def writes(self) -> tuple[int, ...]:
        own = (s for c in self.carries for s in (c.last, c.spare, c.tape) if s >= 0)
        return (*own, *self.ys, *((self.arena,) if self.arena >= 0 else ()))


Step = Call | Host | Copy | Loop


def every_step(program: Program) -> Iterator[Step]:
    """All steps in order, each loop followed by those of its body."""
    for step in program.steps:
        yield step
        if isinstance(step, Loop):
            yield from every_step(step.body)


def calls(program: Program) -> list[Call]:
    """Every kernel call of a Program, those in the bodies of its loops included, in order."""
    return [step for step in every_step(program) if isinstance(step, Call)]


def hosts(program: Program) -> list[Host]:
    """Every step in NumPy, those in the bodies of its loops included, in order."""
    return [step for step in every_step(program) if isinstance(step, Host)]


class KernelInfo(NamedTuple):
    """What explain prints of a kernel."""

    name: str
    phases: int
    flops: int
    bytes: int
    lines: tuple[str, ...]  # the user's lines, file:line
    boundary: tuple[str, ...]  # why each next operation was not fused: "reshape: ..." etc.
    notes: tuple[str, ...] = ()  # what else is worth knowing: precision of products, storage other than row-major


@dataclass(frozen=True, slots=True)
class Program:
    """``donate``: (input position, output position) pairs that may share memory when nobody else holds the input."""

    inputs: tuple[tuple[tuple[int, ...], Format], ...]
    outputs: tuple[tuple[tuple[int, ...], Format], ...]
    slots: tuple[Slot, ...]
    steps: tuple[Step, ...]
    arena: int
    donate: tuple[tuple[int, int], ...] = ()
    info: tuple[KernelInfo, ...] = ()


def infos(program: Program) -> tuple[KernelInfo, ...]:
    """What explain prints of every kernel, those in the bodies of loops included, in order; work is that of one step."""
    out: list[KernelInfo] = []
    own = iter(program.info)
    for step in program.steps:
        if isinstance(step, Call):
            out.append(next(own))
        elif isinstance(step, Loop):
            out += infos(step.body)
    return tuple(out)
