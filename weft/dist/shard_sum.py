"""Sums over the shards of a batch in one pairwise tree, the same for any number of ranks.

The tree is that of ``all_sum``, with shards as leaves: the largest power of 2 of the shards, then the rest, each in the same way.
A rank has neighbouring shards. Level k of the tree pairs nodes of 2**k shards, so a range of shards is a few complete nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from weft.dist import algorithms
from weft.dist.algorithms import SHORT_BYTES, Link
from weft.dist.together import run_together
from weft.dist.world import user_place

Form = tuple[np.dtype, bool]  # dtype of sums, and whether ranks need a part of them only
Given = Sequence[tuple[tuple[int, int, tuple[int, ...]], np.ndarray]]  # places and arrays
NodeName = tuple[int, int]  # level and number: the shards number * 2**level, ..., (number + 1) * 2**level - 1


def shards_of(rank: int, size: int, shards: int) -> range:
    """Return the shards that a rank computes, out of ``shards``."""
    return range(rank * shards // size, (rank + 1) * shards // size)


def shards_in_turn(rank: int, size: int, shards: int) -> range:
    """Return the shards that a rank computes if the ranks take turns."""
    return range(rank, shards, size)


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
    forms : of each array the dtype of its sums, and whether they are for :meth:`scatter`; by default its own dtype, and no. What
        a shard gives, and every sum of two nodes, is rounded to that dtype

    places : of each array its vector, the offset in it and the shape; one vector holds all arrays of a form
    """

    def __init__(
        self, shards: int, size: int, arrays: Sequence[np.ndarray], flags: int = 0, forms: Sequence[Form] | None = None,
    ) -> None:
        self._size, self._flags = size, flags
        self._nodes = [find_nodes(shards_of(r, size, shards)) for r in range(size)]
        sizes: dict[Form, int] = {}
        placed = []
        for a, form in zip(arrays, forms or [(a.dtype, False) for a in arrays], strict=True):
            placed.append((form, sizes.get(form, 0), a.shape))
            sizes[form] = sizes.get(form, 0) + a.size
        flag_form = np.dtype(np.float64), False
        sizes[flag_form] = sizes.get(flag_form, 0) + flags
        self._sizes = [(dtype, n) for (dtype, _), n in sizes.items()]
        self._flag_vector = list(sizes).index(flag_form)
        self.places = [(list(sizes).index(form), first, shape) for form, first, shape in placed]
        self._zeros = [np.zeros((), a.dtype) for a in arrays]
        self._stack = PairwiseStack()
        self._cuts: dict[int, Sequence[int]] = {}

    def scatter(self, vector: int, cuts: Sequence[int]) -> None:
        """Let :meth:`total` return a part of a vector: on rank r the elements from ``cuts[r]`` to ``cuts[r + 1]``."""
        self._cuts[vector] = cuts

    @property
    def nbytes(self) -> int:
        """The bytes of the sums that this rank keeps."""
        vectors = [v for node in self._stack.nodes for v in node[2]] + [v for unused in self._stack.unused for v in unused]
        return sum(v.nbytes for v in vectors)

    def add(self, shard: int, arrays: Sequence[np.ndarray] | None) -> None:
        """Add what a shard of this rank gives; None: zeros. The shards must come in order."""
        given = self._given(arrays)
        nodes = self._stack.nodes
        if shard & 1 and nodes and nodes[-1][:2] == (0, shard - 1):  # without a copy of the second of a pair
            vectors = nodes.pop()[2]
            with np.errstate(all="ignore"):
                for view, a in self._views(vectors, given):
                    np.add(view, a.astype(view.dtype, copy=False), out=view)
            self._stack.push(1, shard >> 1, vectors)
        else:
            vectors = self._stack.unused.pop() if self._stack.unused else [np.empty(n, dtype) for dtype, n in self._sizes]
            self._fill(vectors, given)
            self._stack.push(0, shard, vectors)

    def total(self, request: str, flags: Sequence[float], place: str = "") -> tuple[list[np.ndarray], np.ndarray]:
        """Return the vectors of the sum over all shards, and the sums of the ranks' flags. They are valid until the next ``add``.

        Of a vector of :meth:`scatter` this rank's part is returned.

        ``request`` names this sum, for the comparison between ranks. ``place``: the user's line, by default that of the caller.
        It begins the next sum.
        """
        self._flag_view(self._stack.nodes[0][2])[...] = flags
        if self._size == 1:
            vectors = self._stack.fold()
            self._stack.unused.append(vectors)
        else:
            vectors = run_together(self.join_ranks, request, place or user_place(), tuple(range(self._size)))
        return vectors, self._flag_view(vectors)

    def join_ranks(self, link: Link) -> list[np.ndarray]:
        """Return the vectors of the sum over all shards, of which each rank has added its own."""
        own = [vectors for _, _, vectors in self._stack.nodes]
        self._stack.unused += own
        self._stack.nodes = []
        levels = [[level for level, _ in nodes] for nodes in self._nodes]
        one_each = self._size & (self._size - 1) == 0 and all(part == levels[0] and len(part) == 1 for part in levels)
        out = []
        for k, (dtype, _) in enumerate(self._sizes):
            if one_each and k not in self._cuts and not algorithms.is_narrow(dtype):
                # recursive halving adds the ranks' nodes in the order of the tree; it would round narrow dtypes once, at the end
                out.append(algorithms.all_sum(link, own[0][k], in_place=True))
            else:
                out.append(self._join_nodes(link, [vectors[k] for vectors in own], self._cuts.get(k)))
        return out

    def _given(self, arrays: Sequence[np.ndarray] | None) -> Given:
        return list(zip(self.places, arrays or self._zeros, strict=True))

    def _views(self, vectors: list[np.ndarray], given: Given) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the place of each array in the vectors, and the array."""
        for (k, first, shape), a in given:
            yield vectors[k][first : first + math.prod(shape)].reshape(shape), a

    def _fill(self, vectors: list[np.ndarray], given: Given) -> None:
        """Copy what a shard gives into vectors, with flags of 0."""
        with np.errstate(all="ignore"):
            for view, a in self._views(vectors, given):
                np.copyto(view, a, casting="same_kind" if a.dtype == view.dtype else "unsafe")
        self._flag_view(vectors)[...] = 0

    def _flag_view(self, vectors: list[np.ndarray]) -> np.ndarray:
        vector = vectors[self._flag_vector]
        return vector[vector.size - self._flags :]

    def _join_nodes(self, link: Link, own: list[np.ndarray], wanted: Sequence[int] | None) -> np.ndarray:
        """Return the sum of the nodes of all ranks, or the part of it between this rank's ``wanted`` cuts.

        Each rank joins a part of the elements, unless they are few.
        """
        n, dtype, me = own[0].size, own[0].dtype, link.me
        others = [k for k in range(link.size) if k != me]
        if wanted is not None:
            cuts = list(pairwise(wanted))
        elif n * dtype.itemsize * sum(map(len, self._nodes)) <= SHORT_BYTES:
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
        if wanted is not None or cuts[0] == cuts[-1]:
            return total
        return algorithms.gather_parts(link, total, [last - first for first, last in cuts])


class RoundSum(ShardSum):
    """As :class:`ShardSum`, for ranks that take turns: rank r of N has the shards r, r + N, ...

    What a shard gives is divided among the ranks at once, so that a rank keeps its parts only, of at most log2(shards) + 1 nodes.
    All ranks wait for each other in each ``add``, and send as many bytes as there are shards a rank.
    """

    def __init__(
        self, shards: int, size: int, arrays: Sequence[np.ndarray], flags: int = 0, forms: Sequence[Form] | None = None,
    ) -> None:
        super().__init__(shards, size, arrays, flags, forms)
        self._shards, self._round = shards, 0

    def add(self, shard: int, arrays: Sequence[np.ndarray] | None) -> None:
        vectors = [np.empty(n, dtype) for dtype, n in self._sizes]
        self._fill(vectors, self._given(arrays))
        self._run_round(vectors)

    def total(self, request: str, flags: Sequence[float], place: str = "") -> tuple[list[np.ndarray], np.ndarray]:
        if self._round * self._size < self._shards:
            self._run_round(None)  # this rank has no shard in the last round
        self._round = 0
        vectors, total = self._stack.fold(), np.array(flags, np.float64)
        self._stack.unused.clear()
        if self._size > 1:
            total = run_together(algorithms.all_sum, request, place or user_place(), tuple(range(self._size)), total)
        return vectors, total

    def _run_round(self, vectors: list[np.ndarray] | None) -> None:
        """Exchange what the next shard of each rank gives. vectors : of this rank's shard, None if it has no more"""
        first, self._round = self._round * self._size, self._round + 1
        shards = range(first, min(first + self._size, self._shards))
        if self._size == 1:
            assert vectors is not None
            self._stack.push(0, first, vectors)
            return self._stack.unused.clear()
        request = f"the gradients of shards {shards.start} to {shards.stop - 1} of fit"
        run_together(self._exchange_round, request, user_place(), tuple(range(self._size)), shards, vectors)

    def _exchange_round(self, link: Link, shards: range, vectors: list[np.ndarray] | None) -> None:
        me, others = link.me, [r for r in range(link.size) if r != link.me]
        parts: list[list[np.ndarray]] = [[] for _ in shards]  # of each shard, of each vector
        for k, (dtype, n) in enumerate(self._sizes):
            spans = list(pairwise(self._cuts[k])) if k in self._cuts else [(0, n)] * link.size
            first, last = spans[me]
            for r, part in enumerate(parts):
                part.append(vectors[k][first:last].copy() if r == me and vectors is not None else np.empty(last - first, dtype))
            sends = [] if vectors is None else [(vectors[k][slice(*spans[r])], r) for r in others]
            link.exchange(sends, [(parts[r][k], r) for r in others if r < len(parts)])
        for shard, part in zip(shards, parts, strict=True):
            self._stack.push(0, shard, part)
            self._stack.unused.clear()
