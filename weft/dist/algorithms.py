"""Collectives made of messages between two ranks, on NumPy arrays.

Sums are added up in one tree, which the number of ranks fixes: the largest power of 2 of the ranks, then the rest, each in the
same way. Among 2**k ranks recursive halving and doubling add in this order; it sends as many bytes as a ring, in 2 k messages.
Other numbers of ranks exchange parts directly. So a sum has the same bits on all ranks, in every run, whatever the MPI.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.dist.engine import Engine, Request, Waiter

DATA_TAG = 2
SHORT_BYTES = 1 << 14  # vectors up to here are exchanged as a whole: fewer messages


class Link:
    """The members of a group in one collective. Ranks here are places in the group."""

    def __init__(self, world: Waiter, engine: Engine, ranks: tuple[int, ...], what: str) -> None:
        self._world, self._engine, self.ranks, self.what = world, engine, ranks, what
        self.me, self.size = ranks.index(world.rank), len(ranks)

    def exchange(self, sends: Sequence[tuple[np.ndarray, int]], receives: Sequence[tuple[np.ndarray, int]]) -> None:
        """Send and receive contiguous arrays at the same time. Empty ones send nothing."""
        ranks, engine = self.ranks, self._engine
        requests = [(engine.irecv(_bytes(x), ranks[k], DATA_TAG), ranks[k]) for x, k in receives if x.size]
        requests += [(engine.isend(_bytes(x), ranks[k], DATA_TAG), ranks[k]) for x, k in sends if x.size]
        self._world.wait(requests, self.what)

    def wait(self, request: Request) -> None:
        """Wait for work in which all other members take part."""
        self._world.wait([(request, rank) for rank in self.ranks if rank != self._world.rank], self.what)


def _bytes(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1).view(np.uint8)


def all_sum(link: Link, x: np.ndarray, in_place: bool = False) -> np.ndarray:
    """Return the sum over the ranks. in_place : whether it may overwrite ``x``"""
    own, n = np.asarray(x, order="C").reshape(-1), link.size
    if n & (n - 1) == 0 and not is_narrow(x.dtype):
        own = own if in_place else own.copy()
        total = _double_sums(link, own) if x.nbytes <= SHORT_BYTES else _halve_and_double(link, own)
    elif x.nbytes * n <= SHORT_BYTES:
        total = _add_up(list(all_gather(link, own)))
    else:
        padded = np.zeros((n, -(-own.size // n)), x.dtype)
        padded.reshape(-1)[: own.size] = own
        total = all_gather(link, reduce_scatter(link, padded)).reshape(-1)[: own.size]
    return total.reshape(x.shape)


def reduce_scatter(link: Link, x: np.ndarray) -> np.ndarray:
    """Return row ``rank`` of the sum over the ranks."""
    rows = all_to_all(link, x)
    return _add_up([rows[k, ...] for k in range(link.size)])  # arrays, also of no dimensions


def all_to_all(link: Link, x: np.ndarray) -> np.ndarray:
    """Return this rank's row of every rank's array."""
    x, me = np.asarray(x, order="C"), link.me
    out = np.empty_like(x)
    out[me] = x[me]
    others = [k for k in range(link.size) if k != me]
    link.exchange([(x[k], k) for k in others], [(out[k : k + 1], k) for k in others])
    return out


def all_gather(link: Link, x: np.ndarray) -> np.ndarray:
    """Return the arrays of all ranks, stacked."""
    x, me = np.asarray(x, order="C"), link.me
    out = np.empty((link.size, *x.shape), x.dtype)
    out[me] = x
    others = [k for k in range(link.size) if k != me]
    link.exchange([(x, k) for k in others], [(out[k : k + 1], k) for k in others])
    return out


def gather_parts(link: Link, x: np.ndarray, sizes: Sequence[int], root: int | None = None) -> np.ndarray:
    """Return the vectors of all ranks, joined. sizes : their lengths. root : the only rank that gets more than its own"""
    x, me = np.asarray(x, order="C"), link.me
    if root not in (None, me):
        link.exchange([(x, root)], [])
        return x
    ends = np.cumsum(sizes)
    out = np.empty(ends[-1], x.dtype)
    parts = np.split(out, ends[:-1])
    parts[me][...] = x
    others = [k for k in range(link.size) if k != me]
    link.exchange([(x, k) for k in others] if root is None else [], [(parts[k], k) for k in others])
    return out


def broadcast(link: Link, x: np.ndarray, root: int) -> np.ndarray:
    """Return the root's array, which goes down a binomial tree."""
    out, n = np.array(x, order="C"), link.size
    place, step = (link.me - root) % n, 1  # the root has place 0
    while step < n:
        if place < step:
            if place + step < n:
                link.exchange([(out, (place + step + root) % n)], [])
        elif place < 2 * step:
            link.exchange([], [(out, (place - step + root) % n)])
        step *= 2
    return out


def barrier(link: Link) -> None:
    """Return when all ranks have come here."""
    least(link, 0)


def least(link: Link, number: int) -> int:
    """Return the smallest of the ranks' numbers from 0 to 127: after round k each rank knows those of 2**k others."""
    own, step, n = np.array([number], np.int8), 1, link.size
    while step < n:
        theirs = np.empty_like(own)
        link.exchange([(own, (link.me + step) % n)], [(theirs, (link.me - step) % n)])
        own, step = np.minimum(own, theirs), 2 * step
    return int(own[0])


# ---- sums


def is_narrow(dtype: np.dtype) -> bool:
    """Return whether sums are added up in float32 and rounded once at the end."""
    return dtype.kind not in "iuc" and dtype.itemsize < 4


def _add_up(parts: list[np.ndarray]) -> np.ndarray:
    """Return the sum in the fixed tree. The arrays may be overwritten."""
    dtype = parts[0].dtype
    with np.errstate(all="ignore"):
        if is_narrow(dtype):
            return sum_in_tree([p.astype(np.float32) for p in parts], _add).astype(dtype)
        return sum_in_tree(parts, _add)


def sum_in_tree(parts: Sequence[Any], add: Callable[[Any, Any], Any]) -> Any:
    """Return the sum in the fixed tree, whose nodes ``add`` makes of two parts."""
    if len(parts) == 1:
        return parts[0]
    half = 1 << ((len(parts) - 1).bit_length() - 1)
    return add(sum_in_tree(parts[:half], add), sum_in_tree(parts[half:], add))


def _add(own: np.ndarray, theirs: np.ndarray, own_first: bool = True) -> np.ndarray:
    """Add in place, the lower ranks first: of two NaN the first one is the result."""
    with np.errstate(all="ignore"):
        return np.add(own, theirs, out=own) if own_first else np.add(theirs, own, out=own)


def _double_sums(link: Link, own: np.ndarray) -> np.ndarray:
    """Return the sum, in place: in step k pairs of ranks 2**k apart exchange their sums."""
    theirs, step = np.empty_like(own), 1
    while step < link.size:
        peer = link.me ^ step
        link.exchange([(own, peer)], [(theirs, peer)])
        own = _add(own, theirs, link.me < peer)
        step *= 2
    return own


def _halve_and_double(link: Link, own: np.ndarray) -> np.ndarray:
    """Return the sum, in place.

    In each step pairs of ranks split their part in two, and each rank adds up one half. Then the steps are taken back: pairs
    exchange their sums, until each rank has all.
    """
    low, high, step = 0, own.size, 1
    theirs = np.empty(-(-own.size // 2), own.dtype)
    spans = []
    while step < link.size:
        peer, middle = link.me ^ step, (low + high) // 2
        spans.append((peer, low, high))
        keep, give = ((low, middle), (middle, high)) if link.me < peer else ((middle, high), (low, middle))
        part = theirs[: keep[1] - keep[0]]
        link.exchange([(own[slice(*give)], peer)], [(part, peer)])
        _add(own[slice(*keep)], part, link.me < peer)
        low, high = keep
        step *= 2
    for peer, first, last in reversed(spans):
        rest = (high, last) if low == first else (first, low)
        link.exchange([(own[low:high], peer)], [(own[slice(*rest)], peer)])
        low, high = first, last
    return own
