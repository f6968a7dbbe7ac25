"""What the scheduler knows of a device: in which order it sums, and how much one kernel may hold; and what an order is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Order(NamedTuple):
    """How a reduction or a product is summed; a function of extents and dtype only, so results never depend on schedules.

    lanes == 1: elements of a block in ascending order into one accumulator.
    lanes > 1: element k goes to accumulator k % lanes; within a block, ascending; at the end of a block
    the lanes are merged pairwise (0 with lanes/2, ...: halves).
    k is always the flattened reduced index (row-major over Reduction.axes or Contraction.k), whatever the memory looks like.
    block: a number of elements, a multiple of lanes; blocks are cut over k; the last may be short.
    The results of blocks are joined pairwise, as a binary counter counts: two neighbours of as many blocks each become one;
    what is left after the last block is joined from the right, the shortest first: ((0 1) (2 3)) ((4 5) 6).
    Accumulators start from the monoid's identity. In a product each step is one fma.
    """

    lanes: int
    block: int


class Orders(NamedTuple):
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


class Fusion(NamedTuple):
    """How much one kernel may hold.

    largest : nodes of a group: keeps the pass near linear and kernels compilable in a moment; heavy : so many a costly one counts
    views : positions at which one value may be computed for one element of what is stored
    factor : a costly value may be computed this many times before it is worth storing
    """

    largest: int = 96
    heavy: int = 4
    views: int = 12
    factor: int = 8


class Chaining(NamedTuple):
    """Which products of products a device has kernels for.

    widest : numbers of a row that is multiplied, or of a result's
    least, bits : of the narrowest and of the widest format
    """

    widest: int = 1 << 62
    bits: int = 64
    least: int = 0


EVERY = frozenset(("phases", "iterations", "elements"))


@dataclass(frozen=True, slots=True)
class Target:
    """A device as the scheduler sees it.

    keeps : the parts of a kernel's order that its code keeps, and on which writing in place may rest: see ``hazards.py``
    precisions : other than float32, in which it can multiply float32 where that was permitted
    unordered : whether it gains by additions in any order, where writes of a scatter meet and that was permitted
    channels_last : from so many channels on, images between convolutions of 16-bit formats lie channels last; 0: none do
    relaying : bytes of memory's traffic that laying a program's weights anew has to save, for it is one more launch
    chains : which products of products it has kernels for, whose middle is not stored (``ir.Chain``)
    skips_copies : whether a phase that only copies an array is left out where the copy lies on the array
    """

    name: str = "cpu"
    orders: Orders = Orders()
    fusion: Fusion = Fusion()
    keeps: frozenset[str] = EVERY
    precisions: frozenset[str] = frozenset()
    unordered: bool = False
    channels_last: int = 0
    relaying: int = 0
    chains: Chaining = Chaining()
    skips_copies: bool = True


CPU = Target()
