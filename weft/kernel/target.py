"""What the scheduler knows of a device: in which order it sums, and how much one kernel may hold."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Orders:
    """Lanes and blocks of sums: see ``summation.py``. They decide the bits of results, so no machine changes them.

    lanes : of a reduction along memory, and of the product of two vectors; vector_lanes : of a product with one vector
    rows : that a column reduction adds up before it joins them
    chain : additions in a row; a block of several lanes has as many in each; window : the same in convolutions, where a block's
    sums cost more to put aside
    small, few : products of m * n * k up to ``small`` are cut into more blocks, which costs little there: (elements of k, blocks)
    """

    lanes: int = 32
    vector_lanes: int = 4
    rows: int = 64
    chain: int = 128
    window: int = 256
    small: int = 1_000_000
    few: tuple[tuple[int, int], ...] = ((32, 1), (80, 2), (200, 3), (400, 4))


@dataclass(frozen=True, slots=True)
class Fusion:
    """How much one kernel may hold.

    largest : nodes of a group: keeps the pass near linear and kernels compilable in a moment; heavy : so many a costly one counts
    views : positions at which one value may be computed for one element of what is stored
    factor : a costly value may be computed this many times before it is worth storing
    """

    largest: int = 96
    heavy: int = 4
    views: int = 12
    factor: int = 8


EVERY = frozenset(("phases", "iterations", "elements"))


@dataclass(frozen=True, slots=True)
class Target:
    """A device as the scheduler sees it.

    keeps : the parts of a kernel's order that its code keeps, and on which writing in place may rest: see ``hazards.py``
    """

    name: str = "cpu"
    orders: Orders = field(default_factory=Orders)
    fusion: Fusion = field(default_factory=Fusion)
    keeps: frozenset[str] = EVERY


CPU = Target()
