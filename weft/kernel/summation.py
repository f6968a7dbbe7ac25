"""The order in which sums are made, and its meaning in NumPy.

Lanes and blocks follow from extents alone, so no schedule and no machine changes the bits. Blocks bound the error: a chain of n
roundings is off by about the root of n, and blocks are joined pairwise (see ``Order``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

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

Array = Any


def in_order(
    n: int, order: Order, identity: Array, step: Callable[[Array, Array], Array], merge: Callable[[Array, Array], Array],
) -> Array:
    """What n elements make in an Order. step: (accumulators, numbers of elements) -> accumulators; blocks and lanes come last."""
    totals: list[Array] = []
    for begin, count, block in ((0, n // order.block, order.block), (n // order.block * order.block, 1, n % order.block)):
        if not count * block:
            continue
        acc = np.repeat(np.repeat(identity[..., None, None], count, -2), order.lanes, -1)
        first = begin + order.block * np.arange(count)[:, None]
        for k in range(0, block, order.lanes):  # whole blocks side by side
            places = first + np.arange(k, min(k + order.lanes, block))
            acc[..., : places.shape[1]] = step(acc[..., : places.shape[1]], places)
        while acc.shape[-1] > 1:
            half = acc.shape[-1] // 2
            acc = merge(acc[..., :half], acc[..., half:])
        totals += [acc[..., k, 0] for k in range(count)]
    blocks: list[tuple[int, Array]] = []  # how many each stands for, and their result
    for total in totals:
        blocks.append((1, total))
        while len(blocks) > 1 and blocks[-1][0] == blocks[-2][0]:
            (size, left), (_, right) = blocks[-2:]
            blocks[-2:] = [(2 * size, merge(left, right))]
    while len(blocks) > 1:
        (size, left), (more, right) = blocks[-2:]
        blocks[-2:] = [(size + more, merge(left, right))]
    return blocks[0][1] if blocks else identity


def reduced(flat: np.ndarray, monoid: str, accum: np.dtype, order: Order) -> np.ndarray:
    """The last dimension of an array in one: ``monoid`` as in ``kernel.ir.Reduction``, in ``accum``, which the array has too
    unless it is bool or a position is asked for."""
    n = flat.shape[-1]
    if monoid in ("argmax", "argmin"):
        return (np.argmax if monoid == "argmax" else np.argmin)(flat, axis=-1)
    if monoid in ("max", "min"):
        if n == 0:
            raise ValueError("max and min of nothing")
        found = (np.maximum if monoid == "max" else np.minimum).reduce(flat, axis=-1)
        if flat.dtype.kind in "iub" or not np.any(found == 0):
            return found
        negative = np.signbit(flat)
        return signed_zero(monoid, found, negative.all(-1), negative.any(-1))
    join, start = (np.add, 0) if monoid == "sum" else (np.multiply, 1)
    if order.lanes == 1 and 0 < n <= order.block:  # one chain
        total = join.accumulate(flat, axis=-1, dtype=accum)[..., -1]
        return total + accum.type(0) if monoid == "sum" else total  # it begins with 0: that only a negative zero tells

    def merge(x: Array, y: Array) -> Array:
        return join(x, y).astype(accum)

    identity = np.full(flat.shape[:-1], start, accum)
    return in_order(n, order, identity, lambda totals, places: merge(totals, flat[..., places]), merge)


def running(flat: np.ndarray, monoid: str, accum: np.dtype) -> np.ndarray:
    """The first 1, 2, ... elements of the last dimension in one: ``monoid`` is "sum", "prod", "max" or "min"."""
    if monoid in ("max", "min"):
        found = (np.maximum if monoid == "max" else np.minimum).accumulate(flat, axis=-1)
        if flat.dtype.kind in "iub" or not np.any(found == 0):
            return found
        negative = np.signbit(flat)
        met = np.logical_or.accumulate(negative if monoid == "min" else ~negative & (flat == 0), axis=-1)
        return signed_zero(monoid, found, ~met, met)
    return (np.multiply if monoid == "prod" else np.add).accumulate(flat, axis=-1, dtype=accum)


def signed_zero(op: str, found: Array, both: Array, one: Array) -> Array:
    """-0 is less than 0, which NumPy leaves open: ``both`` (``one``) says whether all (some) of the operands are negative."""
    negative = both if op == "max" else one
    return np.where(found == 0, np.where(negative, -0.0, 0.0).astype(found.dtype), found)
