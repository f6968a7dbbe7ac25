"""In which order a sum is made: lanes and blocks, from extents alone, so that no schedule and no machine changes the bits.

Blocks bound the error: a chain of n roundings is off by about the root of n, and blocks are joined pairwise (see ``Order``).
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from weft.kernel.target import CPU, Order, Orders

if TYPE_CHECKING:
    from weft.kernel.ir import Contraction


def reduction_order(run: int, last: bool, orders: Orders = CPU.orders) -> Order:
    """The order of a reduction.

    last: whether the operand's last dimension is among those reduced. run: how many reduced elements lie
    next to each other, the product of the reduced dimensions at the end.
    """
    if last:
        return Order(orders.lanes if run >= orders.lanes else 1, orders.lanes * orders.chain)
    return Order(1, orders.rows)


@lru_cache(maxsize=4096)
def order_over(shape: tuple[int, ...], axes: tuple[int, ...], orders: Orders = CPU.orders) -> Order:
    """The order in which an array of this shape is reduced over axes."""
    run, d = 1, len(shape) - 1
    last = d in axes
    while d in axes:
        run, d = run * shape[d], d - 1
    return reduction_order(run, last, orders)


@lru_cache(maxsize=4096)
def spans(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """A dense array as (outer, k, inner), of which k is summed over; None where the axes have others between them.

    k is 1 where nothing is added: then there is no sum, and a negative zero stays one.
    """
    reduced = [d for d in axes if shape[d] != 1]
    if not reduced:
        return prod(shape), 1, 1
    first, end = min(reduced), max(reduced) + 1
    if any(shape[d] != 1 and d not in axes for d in range(first, end)):
        return None
    return prod(shape[:first]), prod(shape[first:end]), prod(shape[end:])


def product_order(m: int, n: int, k: tuple[int, ...], orders: Orders = CPU.orders) -> Order:
    """The order of a product: m rows, n columns, axes of these extents that are summed over.

    Products with a vector (m or n is 1) are bound by memory and run in lanes, where there is one axis of k. Blocks hold whole
    inner axes where these are short.
    """
    extents = [e for e in k if e != 1]
    if 1 in (m, n) and len(extents) == 1:
        lanes = orders.lanes if m == n else orders.vector_lanes
        return Order(lanes, lanes * orders.chain)
    total = prod(extents)
    if not total:
        return Order(1, 1)
    blocks = next((b for most, b in orders.few if total <= most), 1) if m * n * total <= orders.small else 1
    return Order(1, _block(extents, min(-(-total // blocks), orders.chain)))


def window_order(channels: int, taps: int, orders: Orders = CPU.orders) -> Order:
    """The order of a convolution: blocks are whole channels, unless a window is very large; short sums are one block."""
    for whole in (channels * taps, taps):
        if orders.window < whole <= 2 * orders.window:
            return Order(1, whole)
    return Order(1, _block([n for n in (channels, taps) if n != 1], orders.window))


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
