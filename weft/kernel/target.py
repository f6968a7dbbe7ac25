"""Describe a device to the scheduler: the order of its sums, the limits of one kernel, its features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Order(NamedTuple):
    """The order in which a reduction or a product is summed. It depends on extents and dtype only, never on a schedule.

    lanes == 1: the elements of a block are added in ascending order into one accumulator.
    lanes > 1: element k goes to accumulator k % lanes, ascending within a block. At the end of a block the lanes are merged
    pairwise (0 with lanes/2, ...: halves).
    k is the flattened reduced index (row-major over Reduction.axes or Contraction.k), whatever the memory layout is.
    block: elements of a block, a multiple of lanes. Blocks are cut over k; the last may be short.
    The results of blocks are joined pairwise as a binary counter counts: two neighbours that cover equally many blocks are
    merged. The rest is joined from the right, shortest first: ((0 1) (2 3)) ((4 5) 6).
    Accumulators start from the monoid's identity. In a product each step is one fma.
    """

    lanes: int
    block: int


class Orders(NamedTuple):
    """Lanes and blocks of sums: see ``summation.py``. They decide the bits of results, so they are equal on all machines.

    lanes: of a reduction along memory and of the product of two vectors.
    vector_lanes: of a product of a matrix with a vector.
    rows: additions in a block of a column reduction.
    chain: additions in a row; a block of several lanes has as many in each.
    window: the same in convolutions, where saving a block's sums costs more.
    small, few: products of m * n * k up to ``small`` are cut into more blocks, which costs little there: (elements of k, blocks).
    """

    lanes: int = 32
    vector_lanes: int = 4
    rows: int = 64
    chain: int = 128
    window: int = 256
    small_product: int = 1_000_000
    small_product_blocks: tuple[tuple[int, int], ...] = ((32, 1), (80, 2), (200, 3), (400, 4))


class FusionLimits(NamedTuple):
    """Limits of one kernel.

    largest: nodes of a group; it keeps the pass near linear and compilation short.
    heavy: how many nodes a costly node counts as.
    views: positions at which one value may be computed for one stored element.
    factor: how many times a costly value may be recomputed before it is stored instead.
    """

    largest: int = 96
    heavy: int = 4
    views: int = 12
    factor: int = 8


class ChainLimits(NamedTuple):
    """The products of products for which a device has kernels.

    widest: largest extent of k of an inner product and of n of an outer product.
    min_bits, max_bits: width in bits of the narrowest and of the widest format.
    """

    widest: int = 1 << 62
    max_bits: int = 64
    min_bits: int = 0


EVERY = frozenset(("phases", "iterations", "elements"))


@dataclass(frozen=True, slots=True)
class Target:
    """A device as the scheduler sees it.

    keeps: the parts of the kernel IR's order that the generated code keeps, on which in-place writes may rely: see
        ``hazards.py``.
    precisions: formats other than float32 in which the device can multiply float32, where the user permits it.
    algorithms: of convolutions, other than the direct one, where the user permits them.
    unordered: whether scatter-adds run faster in any order, where the user permits it.
    channels_last: number of channels from which images between 16-bit convolutions are stored channels last; 0: never.
    relaying: memory traffic in bytes that storing a program's weights in another order must save, since it needs one more launch.
    chains: the products of products with kernels that do not store the intermediate matrix (``ir.Chain``).
    skips_copies: whether a phase that only copies an array onto itself is omitted.
    tallies: whether the kernel of a product also computes reductions of its result (``tallies.py``).
    splits_effects: whether effects run in the host's memory, so that they can go on beside kernels.
    unpacking_rows: largest number of rows by which a product multiplies a matrix whose 4-bit elements it unpacks.
    """

    name: str = "cpu"
    orders: Orders = Orders()
    fusion: FusionLimits = FusionLimits()
    kept_orders: frozenset[str] = EVERY
    precisions: frozenset[str] = frozenset(("bfloat16",))
    algorithms: frozenset[str] = frozenset(("winograd",))
    fast_unordered: bool = False
    channels_last: int = 0
    relaying: int = 0
    chains: ChainLimits = ChainLimits()
    skips_copies: bool = True
    tallies: bool = True
    splits_effects: bool = True
    unpacking_rows: int = 12


CPU = Target()
