"""In which order a sum is made: lanes and blocks, from extents alone, so that no schedule and no machine changes the bits.

Blocks bound the error: a chain of n roundings is off by about the root of n, and blocks are joined pairwise (see ``Order``).
"""

from __future__ import annotations

from math import prod

from weft.kernel.ir import Contraction, Order

LANES = 32  # of a reduction along memory, and of the product of two vectors
VECTOR_LANES = 4  # of a product with one vector
ROWS = 64  # that a column reduction adds up before it joins them
CHAIN = 128  # additions in a row; a block of several lanes has as many in each
WINDOW = 256  # the same in convolutions, where a block's sums cost more to put aside
# small products, of m * n * k up to SMALL, are cut into more blocks, which costs little there: up to so many elements, so many
SMALL = 1_000_000
FEW = ((32, 1), (80, 2), (200, 3), (400, 4))


def reduction_order(run: int, last: bool) -> Order:
    """The order of a reduction.

    last: whether the operand's last dimension is among those reduced. run: how many reduced elements lie
    next to each other, the product of the reduced dimensions at the end.
    """
    if last:
        return Order(LANES if run >= LANES else 1, LANES * CHAIN)
    return Order(1, ROWS)


def product_order(m: int, n: int, k: tuple[int, ...]) -> Order:
    """The order of a product: m rows, n columns, axes of these extents that are summed over.

    Products with a vector (m or n is 1) are bound by memory and run in lanes, where there is one axis of k. Blocks hold whole
    inner axes where these are short.
    """
    extents = [e for e in k if e != 1]
    if 1 in (m, n) and len(extents) == 1:
        lanes = LANES if m == n else VECTOR_LANES
        return Order(lanes, lanes * CHAIN)
    total = prod(extents)
    blocks = next((b for most, b in FEW if total <= most), 1) if m * n * total <= SMALL else 1
    return Order(1, _block(extents, min(-(-total // blocks), CHAIN)))


def window_order(channels: int, taps: int) -> Order:
    """The order of a convolution: blocks are whole channels, unless a window is very large; short sums are one block."""
    for whole in (channels * taps, taps):
        if WINDOW < whole <= 2 * WINDOW:
            return Order(1, whole)
    return Order(1, _block([n for n in (channels, taps) if n != 1], WINDOW))


def order_of(c: Contraction) -> Order:
    """How a contraction is summed; one that leaves it open as any other product."""
    if c.order is not None:
        return c.order
    m, n = (prod([axis.extent for axis in side]) for side in (c.m, c.n))
    return product_order(m, n, tuple([axis.extent for axis in c.k]))


def _block(extents: list[int], most: int) -> int:
    """Elements of a block of at most ``most``: whole inner axes, and an even part of the next one."""
    inner = 1
    while extents and inner * extents[-1] <= most:
        inner *= extents.pop()
    if not extents:
        return inner
    n = extents[-1]
    pieces = -(-n // (most // inner))
    each = -(-n // pieces)
    if inner > 1 or pieces == 1 or (len(extents) > 1 and n % pieces == 0):
        return inner * each
    unit = 16 if each >= 64 else 8  # whole turns of the inner loops
    return -(-each // unit) * unit
