"""Define the order of sums, and compute sums in that order with NumPy.

Lanes and blocks follow from extents alone, so neither the schedule nor the machine changes the bits. Blocks bound the error: a
chain of n roundings has an error of about sqrt(n) roundings, and blocks are joined pairwise (see ``Order``).

Reductions have 32 lanes and blocks of 4,096 along the last dimension, else blocks of 64 rows. Products with at most a million
multiplications have 2 to 4 blocks even if k is short, to be as accurate as OpenBLAS, which sums in lanes. Putting the sums of a
tile aside after each block costs 1 % of a product in the median, and 3 to 4 % where all sizes are 64 to 100. Joined pairwise,
float32 products of uniform numbers are off by 4e-8 at k = 3e7 (one chain: wrong in the second digit; OpenBLAS: 2e-6).

With an ``Accumulator`` the order is a part of the result: ascending, with one lane, and blocks are added in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dtypes.rounding import Accumulator, round_float32
from weft.kernel.target import CPU, Order, Orders

if TYPE_CHECKING:
    from weft.kernel.ir import Contraction


def reduction_order(run: int, last: bool, orders: Orders = CPU.orders) -> Order:
    """Return the order of a reduction.

    run: product of the reduced dimensions at the end, the number of reduced elements that are contiguous.
    last: whether the operand's last dimension is reduced.
    """
    if last:
        return Order(orders.lanes if run >= orders.lanes else 1, orders.lanes * orders.chain)
    return Order(1, orders.rows)


@lru_cache(maxsize=4096)
def shape_reduction_order(shape: tuple[int, ...], axes: tuple[int, ...], orders: Orders = CPU.orders) -> Order:
    """Return the order in which an array of this shape is reduced over ``axes``."""
    run, d = 1, len(shape) - 1
    last = d in axes
    while d in axes:
        run, d = run * shape[d], d - 1
    return reduction_order(run, last, orders)


@lru_cache(maxsize=4096)
def spans(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return a dense array's shape as (outer, k, inner), where k is reduced; None if ``axes`` are not adjacent.

    k is 1 if nothing is added. Then no sum is computed, and a negative zero keeps its sign.
    """
    reduced = [d for d in axes if shape[d] != 1]
    if not reduced:
        return prod(shape), 1, 1
    first, end = min(reduced), max(reduced) + 1
    if any(shape[d] != 1 and d not in axes for d in range(first, end)):
        return None
    return prod(shape[:first]), prod(shape[first:end]), prod(shape[end:])


def product_order(m: int, n: int, k: tuple[int, ...], orders: Orders = CPU.orders) -> Order:
    """Return the order of a product of m rows and n columns whose summed axes have the extents ``k``.

    Products with a vector (m or n is 1) are memory-bound; they use lanes if k has one axis. Blocks hold whole inner axes if these
    are short.
    """
    extents = [e for e in k if e != 1]
    if 1 in (m, n) and len(extents) == 1:
        lanes = orders.lanes if m == n else orders.vector_lanes
        return Order(lanes, lanes * orders.chain)
    total = prod(extents)
    if not total:
        return Order(1, 1)
    is_small = m * n * total <= orders.small_product
    blocks = next((b for limit, b in orders.small_product_blocks if total <= limit), 1) if is_small else 1
    return Order(1, _block(extents, min(-(-total // blocks), orders.chain)))


def window_order(channels: int, taps: int, orders: Orders = CPU.orders) -> Order:
    """Return the order of a convolution: blocks are whole channels unless a window is very large; short sums are one block."""
    for whole in (channels * taps, taps):
        if orders.window < whole <= 2 * orders.window:
            return Order(1, whole)
    return Order(1, _block([n for n in (channels, taps) if n != 1], orders.window))


def accumulator_order(accumulator: Accumulator, k: int) -> Order:
    """Return the order of a product of k numbers with an accumulator: its blocks are those that are rounded."""
    return Order(1, max(1, k if accumulator.every == 1 else min(k, accumulator.every)))


def contraction_order(c: Contraction) -> Order:
    """Return the order of a contraction; if it is open, that of a product with the same extents."""
    if c.order is not None:
        return c.order
    m, n = (prod([axis.extent for axis in side]) for side in (c.m, c.n))
    return product_order(m, n, tuple([axis.extent for axis in c.k]))


def _block(extents: list[int], most: int) -> int:
    """Return the elements of a block of at most ``most``: whole inner axes, and an even part of the next one."""
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
    unit = 16 if each >= 64 else 8  # whole iterations of the unrolled inner loops
    return -(-each // unit) * unit

Array = Any


def fold_in_order(
    n: int, order: Order, identity: Array, step: Callable[[Array, Array], Array], merge: Callable[[Array, Array], Array],
) -> Array:
    """Fold n elements in an Order.

    step: (accumulators, element numbers) -> accumulators; blocks and lanes are the last two dimensions.
    """
    totals: list[Array] = []
    for begin, count, block in ((0, n // order.block, order.block), (n // order.block * order.block, 1, n % order.block)):
        if not count * block:
            continue
        acc = np.repeat(np.repeat(identity[..., None, None], count, -2), order.lanes, -1)
        first = begin + order.block * np.arange(count)[:, None]
        for k in range(0, block, order.lanes):  # all whole blocks at once
            places = first + np.arange(k, min(k + order.lanes, block))
            acc[..., : places.shape[1]] = step(acc[..., : places.shape[1]], places)
        while acc.shape[-1] > 1:
            half = acc.shape[-1] // 2
            acc = merge(acc[..., :half], acc[..., half:])
        totals += [acc[..., k, 0] for k in range(count)]
    blocks: list[tuple[int, Array]] = []  # (number of blocks joined, result)
    for total in totals:
        blocks.append((1, total))
        while len(blocks) > 1 and blocks[-1][0] == blocks[-2][0]:
            (size, left), (_, right) = blocks[-2:]
            blocks[-2:] = [(2 * size, merge(left, right))]
    while len(blocks) > 1:
        (size, left), (more, right) = blocks[-2:]
        blocks[-2:] = [(size + more, merge(left, right))]
    return blocks[0][1] if blocks else identity


def fma(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c of float32, rounded once. The sum in float64 is rounded to odd, so that the second rounding is right."""
    product, c = np.multiply(a, b, dtype=np.float64), np.asarray(c, np.float64)
    total = np.asarray(product + c)
    part = total - product
    lost = (product - (total - part)) + (c - part)
    is_even = total.view(np.uint64) % 2 == 0
    toward = np.where(lost > 0, np.inf, -np.inf)
    odd = np.where(np.isfinite(total) & (lost != 0) & is_even, np.nextafter(total, toward), total)
    return odd.astype(np.float32)


def add_products(shape: tuple[int, ...], terms: Iterable[tuple[Array, Array, Array]], accumulator: Accumulator) -> Array:
    """Add up products as an accumulator does.

    terms: (a, b, whether an element of the result has this product), arrays that broadcast to ``shape``.
    """
    form, every = accumulator
    total, part, count = np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape, np.int64)
    with np.errstate(all="ignore"):
        for a, b, is_term in terms:
            if every == 1:
                total = np.where(is_term, round_float32(fma(a, b, total), form), total)
                continue
            part = np.where(is_term, fma(a, b, part), part)
            count = count + is_term
            if (ends := is_term & (count % every == 0)).any():
                total = np.where(ends, round_float32(total + part, form), total)
                part = np.where(ends, np.float32(0), part)
        return total if every == 1 else np.where(count % every != 0, round_float32(total + part, form), total)


def reduce_last(flat: np.ndarray, monoid: str, accum: np.dtype, order: Order) -> np.ndarray:
    """Reduce the last dimension with ``monoid`` (see ``kernel.ir.Reduction``), accumulating in ``accum``.

    ``flat`` has the dtype ``accum`` unless it is bool or the result is a position.
    """
    n = flat.shape[-1]
    if monoid in ("argmax", "argmin"):
        return (np.argmax if monoid == "argmax" else np.argmin)(flat, axis=-1)
    if monoid in ("max", "min"):
        if n == 0:
            raise ValueError(f"{monoid} of no elements")
        extreme = (np.maximum if monoid == "max" else np.minimum).reduce(flat, axis=-1)
        if flat.dtype.kind in "iub" or not np.any(extreme == 0):
            return extreme
        negative = np.signbit(flat)
        return correct_zero_signs(monoid, extreme, negative.all(-1), negative.any(-1))
    join, start = (np.add, 0) if monoid == "sum" else (np.multiply, 1)
    if order.lanes == 1 and 0 < n <= order.block:  # one block: no merging
        total = join.accumulate(flat, axis=-1, dtype=accum)[..., -1]
        return total + accum.type(0) if monoid == "sum" else total  # the accumulator starts at 0, which turns a sum of -0 into 0

    def merge(x: Array, y: Array) -> Array:
        return join(x, y).astype(accum)

    identity = np.full(flat.shape[:-1], start, accum)
    return fold_in_order(n, order, identity, lambda totals, places: merge(totals, flat[..., places]), merge)


def running(flat: np.ndarray, monoid: str, accum: np.dtype) -> np.ndarray:
    """Return the partial results along the last dimension; ``monoid`` is "sum", "prod", "max" or "min"."""
    if monoid in ("max", "min"):
        extremes = (np.maximum if monoid == "max" else np.minimum).accumulate(flat, axis=-1)
        if flat.dtype.kind in "iub" or not np.any(extremes == 0):
            return extremes
        negative = np.signbit(flat)
        any_negative = np.logical_or.accumulate(negative if monoid == "min" else ~negative & (flat == 0), axis=-1)
        return correct_zero_signs(monoid, extremes, ~any_negative, any_negative)
    return (np.multiply if monoid == "prod" else np.add).accumulate(flat, axis=-1, dtype=accum)


def correct_zero_signs(op: str, extreme: Array, both: Array, one: Array) -> Array:
    """Replace zeros in a max or min by correctly signed ones: -0 is less than 0, which NumPy leaves open.

    both: whether all operands are negative. one: whether at least one is.
    """
    negative = both if op == "max" else one
    return np.where(extreme == 0, np.where(negative, -0.0, 0.0).astype(extreme.dtype), extreme)
