"""A sequence of random words, and small draws that are computed ahead for its next positions.

A draw takes blocks of four words, as many as its numbers need, once or several times. The numbers of all draws of one kind and
length, at any position, are therefore one formula over the words of the next blocks: a few operations compute hundreds of draws,
with the bits that each would have alone, and a draw then reads a slice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import numpy_node
from weft.eager import policy
from weft.eager.peek import leaf
from weft.functions.support.arguments import Node, Shape, op
from weft.runtime.cell import WRITE_LOCK

PREPARED_BLOCKS = 1024  # positions (blocks) prepared at a time
MAX_PREPARED_ELEMENTS = 128  # largest number of elements of a prepared draw
MAX_DRAW_BLOCKS = (
    8 * MAX_PREPARED_ELEMENTS // 4
)  # largest number of blocks of a prepared draw: its formula takes words at most eight times

Formula = Callable[[Any, Shape], Node]  # (source of words, shape) -> numbers


class Stream:
    """Key and base of a sequence; a draw advances ``base``.

    Prepared draws are valid while both arrays still have the nodes that the draws were computed from.
    """

    __slots__ = ("_base", "_key", "_place", "_prepared", "_seen_kinds", "_words", "base", "key")

    def __init__(self, key: Array, base: Array) -> None:
        self.key, self.base = key, base
        self._key: Node | None = None
        self._base: Node | None = None
        self._place = PREPARED_BLOCKS
        self._words: Node | None = None
        self._prepared: dict[Hashable, tuple[Any, int]] = {}  # four numbers per position, blocks per draw
        self._seen_kinds: set[Hashable] = set()  # kinds drawn since the sequence was last moved from outside

    def move(self, blocks: int) -> None:
        """Advance by ``blocks``. To be called outside of traces, with ``WRITE_LOCK`` held."""
        in_step = self.base._node is self._base
        if policy.is_enabled():
            self.base += _step(blocks)
        else:  # a computed number: pending additions would form an endless chain
            self.base._set(numpy_node(np.asarray((int(self.base.numpy()) + blocks) % 2**64, np.uint64)))
        if in_step:
            self._base = self.base._node
            self._place += blocks

    def next(self, kind: Hashable, formula: Formula, shape: Shape) -> Array | None:
        """Return the next small draw, or None if it has to be computed alone.

        None is returned inside traces, gradients and the like, and for the first draw of a kind after the sequence was moved or
        restarted from outside, since that may happen before every draw.
        """
        count = math.prod(shape)
        if not 0 < count <= MAX_PREPARED_ELEMENTS:
            return None
        blocks = (count + 3) // 4
        prepared = self._next((kind, blocks), blocks, lambda words: _as_arrays(formula(words, (4 * PREPARED_BLOCKS,))))
        if prepared is None:
            return None
        (numbers, memory), place = prepared
        if not shape:
            return numbers[4 * place]
        return wrap(leaf(memory[4 * place : 4 * place + count].reshape(shape), numbers.node.dtype))

    def next_word(self, formula: Formula) -> int | None:
        """Return the next draw of one integer as a Python int; None as in :meth:`next`."""
        prepared = self._next(formula, 1, lambda words: _as_ints(formula(words, (4 * PREPARED_BLOCKS,))))
        return None if prepared is None else prepared[0][prepared[1]]

    def _next(self, kind: Hashable, blocks: int, make: Callable[[_Ahead], Any]) -> tuple[Any, int] | None:
        """Return the prepared draws of a kind and the position of the next one, and advance the sequence past it."""
        if not policy.is_enabled():
            return None
        with WRITE_LOCK:  # no other thread may take the same words
            if self.base._node is not self._base or self.key._node is not self._key:
                self._base, self._key, self._place = self.base._node, self.key._node, PREPARED_BLOCKS
                self._seen_kinds.clear()
            prepared = self._prepared.get(kind)
            if prepared is None or self._place + prepared[1] > PREPARED_BLOCKS:
                if kind not in self._seen_kinds:
                    self._seen_kinds.add(kind)
                    return None
                prepared = self._fill(kind, blocks, make)
                if prepared is None:
                    return None
            place = self._place
            self.move(prepared[1])
            return prepared[0], place

    def _fill(self, kind: Hashable, blocks: int, make: Callable[[_Ahead], Any]) -> tuple[Any, int] | None:
        """Compute the draws of a kind for all positions, on new words if the present ones are nearly used up."""
        if self._words is None or self._place + MAX_DRAW_BLOCKS > PREPARED_BLOCKS:
            self._prepared.clear()
            self._words = op("random_bits", self.key._node, self.base._node, shape=(4 * (PREPARED_BLOCKS + MAX_DRAW_BLOCKS),))
            self._place = 0
        words = _Ahead(self._words, blocks)
        numbers = make(words)
        if numbers is None:
            return None
        prepared = self._prepared[kind] = numbers, blocks * words.taken
        return prepared


class _Ahead:
    """The words of the draws at all positions: each ``take`` reads the next ``blocks`` blocks of every draw."""

    def __init__(self, words: Node, blocks: int) -> None:
        self.words, self.blocks, self.taken = words, blocks, 0

    def take(self, shape: Shape) -> Node:
        start, self.taken = 4 * self.blocks * self.taken, self.taken + 1
        return op("slice", self.words, start=(start,), step=(1,), shape=shape)


def _as_arrays(node: Node) -> tuple[Array, np.ndarray] | None:
    if node.value is None:
        return None
    array = wrap(node)
    return array, array.numpy()


def _as_ints(node: Node) -> list[int] | None:
    return None if node.value is None else wrap(node).numpy()[::4].tolist()


@lru_cache(maxsize=256)
def _step(blocks: int) -> Array:
    return wrap(numpy_node(np.asarray(blocks, np.uint64)))
