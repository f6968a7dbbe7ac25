"""Sums over the shards of a batch in one pairwise tree, the same for any number of ranks.

The tree is that of ``all_sum``, with shards as leaves: the largest power of 2 of the shards, then the rest, each in the same way.
A rank has neighbouring shards. Level k of the tree pairs nodes of 2**k shards, so a range of shards is a few complete nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weft.dist import algorithms
from weft.dist.algorithms import SHORT_BYTES, Link
from weft.dist.together import run_together
from weft.dist.world import user_place

NodeName = tuple[int, int]  # level and number: the shards number * 2**level, ..., (number + 1) * 2**level - 1


def shards_of(rank: int, size: int, shards: int) -> range:
    """Return the shards that a rank computes, out of ``shards``."""
    return range(rank * shards // size, (rank + 1) * shards // size)


def find_nodes(part: range) -> list[NodeName]:
    """Return the fewest nodes of the tree whose leaves are the shards ``part``."""
    nodes, first = [], part.start
    while first < part.stop:
        level = (part.stop - first).bit_length() - 1
        if first:
            level = min(level, (first & -first).bit_length() - 1)
        nodes.append((level, first >> level))
        first += 1 << level
    return nodes


class PairwiseStack:
    """Sums of leaves that come in order, joined as a binary counter counts. Vectors are added in place."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, int, list[np.ndarray]]] = []
        self.unused: list[list[np.ndarray]] = []  # vectors of nodes that were added to others

    def push(self, level: int, number: int, vectors: list[np.ndarray]) -> None:
        """Append a node, and join it with those that complete nodes of higher levels."""
        while number & 1 and self.nodes and self.nodes[-1][:2] == (level, number - 1):
            vectors = self._join(self.nodes.pop()[2], vectors)
            level, number = level + 1, number >> 1
        self.nodes.append((level, number, vectors))

    def fold(self) -> list[np.ndarray]:
        """Return the sum of all nodes: those that lack a neighbour are joined from the last one on."""
        total = self.nodes.pop()[2]
        while self.nodes:
            total = self._join(self.nodes.pop()[2], total)
        return total

    def _join(self, left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            for a, b in zip(left, right, strict=True):
                np.add(a, b, out=a)
        self.unused.append(right)
        return left


class ShardSum:
    """The sum over all shards of the arrays that each shard gives. Memory is kept from one sum to the next.

    shards : the number of shards of all ranks
    size : the number of ranks
    arrays : examples of what a shard gives
    flags : numbers that each rank adds beside its shards, in float64

    places : of each array its vector, the offset in it and the shape; one vector holds all arrays of a dtype
    """

    def __init__(self, shards: int, size: int, arrays: Sequence[np.ndarray], flags: int = 0) -> None:
        self._size, self._flags = size, flags
        self._nodes = [find_nodes(shards_of(r, size, shards)) for r in range(size)]
        sizes: dict[np.dtype, int] = {}
        placed = []
        for a in arrays:
            placed.append((a.dtype, sizes.get(a.dtype, 0), a.shape))
            sizes[a.dtype] = sizes.get(a.dtype, 0) + a.size
        sizes[np.dtype(np.float64)] = sizes.get(np.dtype(np.float64), 0) + flags
        self._sizes = list(sizes.items())
        self._flag_vector = list(sizes).index(np.dtype(np.float64))
        self.places = [(list(sizes).index(dtype), first, shape) for dtype, first, shape in placed]
        self._zeros = [np.zeros((), a.dtype) for a in arrays]
        self._stack = PairwiseStack()

    def add(self, shard: int, arrays: Sequence[np.ndarray] | None) -> None:
        """Add what a shard of this rank gives; None: zeros. The shards must come in order."""
        nodes = self._stack.nodes
        if shard & 1 and nodes and nodes[-1][:2] == (0, shard - 1):  # without a copy of the second of a pair
            vectors = nodes.pop()[2]
            with np.errstate(all="ignore"):
                for view, a in zip(self._views(vectors), arrays or self._zeros, strict=True):
                    np.add(view, a, out=view)
            self._stack.push(1, shard >> 1, vectors)
            return
        vectors = self._stack.unused.pop() if self._stack.unused else [np.empty(n, dtype) for dtype, n in self._sizes]
        for view, a in zip(self._views(vectors), arrays or self._zeros, strict=True):
            np.copyto(view, a)
        self._flag_view(vectors)[...] = 0
        self._stack.push(0, shard, vectors)

    def total(self, request: str, flags: Sequence[float]) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the vectors of the sum over all shards, and the sums of the ranks' flags. They are valid until the next ``add``.

        ``request`` names this sum, for the comparison between ranks. It begins the next sum.
        """
        self._flag_view(self._stack.nodes[0][2])[...] = flags
        if self._size == 1:
            vectors = self._stack.fold()
            self._stack.unused.append(vectors)
        else:
            vectors = run_together(self.join_ranks, request, user_place(), tuple(range(self._size)))
        return vectors, self._flag_view(vectors)

    def join_ranks(self, link: Link) -> list[np.ndarray]:
        """Return the vectors of the sum over all shards, of which each rank has added its own."""
        own = [vectors for _, _, vectors in self._stack.nodes]
        self._stack.unused += own
        self._stack.nodes = []
        levels = [[level for level, _ in nodes] for nodes in self._nodes]
        one_each = self._size & (self._size - 1) == 0 and all(part == levels[0] and len(part) == 1 for part in levels)
        if one_each:  # each rank has one node of one level: recursive halving adds them in the order of the tree
            return [algorithms.all_sum(link, vector) for vector in own[0]]
        return [self._join_nodes(link, [vectors[k] for vectors in own]) for k in range(len(self._sizes))]

    def _views(self, vectors: list[np.ndarray]) -> list[np.ndarray]:
        return [vectors[k][first : first + math.prod(shape)].reshape(shape) for k, first, shape in self.places]

    def _flag_view(self, vectors: list[np.ndarray]) -> np.ndarray:
        vector = vectors[self._flag_vector]
        return vector[vector.size - self._flags :]

    def _join_nodes(self, link: Link, own: list[np.ndarray]) -> np.ndarray:
        """Return the sum of the nodes of all ranks. Each rank joins a part of the elements, unless they are few."""
        n, dtype, me = own[0].size, own[0].dtype, link.me
        others = [k for k in range(link.size) if k != me]
        if n * dtype.itemsize * sum(map(len, self._nodes)) <= SHORT_BYTES:
            cuts = [(0, n)] * link.size
        else:
            each = -(-n // link.size)
            cuts = [(min(r * each, n), min((r + 1) * each, n)) for r in range(link.size)]
        first, last = cuts[me]
        received = [np.empty((len(nodes), last - first), dtype) for nodes in self._nodes]
        for k, vector in enumerate(own):
            received[me][k] = vector[first:last]
        sends = [(np.stack([vector[slice(*cuts[k])] for vector in own]), k) for k in others]
        link.exchange(sends, [(received[k], k) for k in others])
        stack = PairwiseStack()
        for nodes, parts in zip(self._nodes, received, strict=True):
            for (level, number), part in zip(nodes, parts, strict=True):
                stack.push(level, number, [part])
        (total,) = stack.fold()
        if cuts[0] == cuts[-1]:
            return total
        padded = np.zeros(each, dtype)
        padded[: last - first] = total
        return algorithms.all_gather(link, padded).reshape(-1)[:n]
