"""Program: what one look or one jitted call runs. Plain data; explain only reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.schedule.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Slot:
    """A value the steps pass on.

    kind: ``input`` (position in the graph's inputs), ``output`` (position in its outputs), ``arena``
    (temporary; ``offset`` bytes into the arena), ``alias`` (same memory as slot ``of``: a reshape).
    """

    id: int
    kind: str
    shape: tuple[int, ...]
    dtype: np.dtype
    position: int = -1
    offset: int = -1
    of: int = -1


@dataclass(frozen=True, slots=True)
class Call:
    """Run a kernel. ``args``: slot ids for kernel.inputs then kernel.outputs; ``scalars``: graph input positions."""

    kernel: Kernel
    args: tuple[int, ...]
    scalars: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Host:
    """Run NumPy on the CPU: ``fn(*arrays, **params) -> array`` from slots to a slot."""

    name: str
    fn: Callable[..., np.ndarray]
    args: tuple[int, ...]
    out: int
    params: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Copy:
    """An output that is an input (or another output) unchanged."""

    source: int
    target: int


Step = Call | Host | Copy


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What explain prints of a kernel."""

    name: str
    phases: int
    flops: int
    bytes: int
    lines: tuple[str, ...]  # the user's lines, file:line
    boundary: tuple[str, ...]  # why each next operation was not fused: "reshape: ..." etc.


@dataclass(frozen=True, slots=True)
class Program:
    """``donate``: (input position, output position) pairs that may share memory when nobody else holds the input."""

    inputs: tuple[tuple[tuple[int, ...], np.dtype], ...]
    outputs: tuple[tuple[tuple[int, ...], np.dtype], ...]
    slots: tuple[Slot, ...]
    steps: tuple[Step, ...]
    arena: int
    donate: tuple[tuple[int, int], ...] = ()
    info: tuple[KernelInfo, ...] = ()
