"""What an ``Order`` means, in NumPy: sums, products, extremes and their positions with the bits of every code generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.kernel.target import Order

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
