"""A sequence of random words that goes on, and draws of few numbers, which are made ahead for the next positions of it.

A draw takes blocks of four words, as many as its numbers need, once or several times. So the numbers of draws of one kind and
length, at whatever position they begin, are one formula over all words of the next blocks: a few operations make hundreds of
draws, with the bits that each has alone, and a draw is a stretch of what is there.
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
from weft.runtime.cell import WRITING

AHEAD = 1024  # positions
FEW = 128  # numbers in a draw that is made ahead
MOST = 8 * FEW // 4  # blocks that such a draw takes: of a formula that takes words eight times

Formula = Callable[[Any, Shape], Node]  # what gives words, and a shape


class Stream:
    """Key and base: a draw moves ``base``. What is known ahead holds while these have the nodes that it was made of."""

    __slots__ = ("_base", "_key", "_made", "_met", "_place", "_words", "base", "key")

    def __init__(self, key: Array, base: Array) -> None:
        self.key, self.base = key, base
        self._key: Node | None = None
        self._base: Node | None = None
        self._place = AHEAD
        self._words: Node | None = None
        self._made: dict[Hashable, tuple[Any, int]] = {}  # numbers, four a position, and how many blocks a draw takes
        self._met: set[Hashable] = set()  # kinds that were drawn since the sequence began

    def move(self, blocks: int) -> None:
        """Go on by so many blocks, outside of traces: to be called under ``WRITING``."""
        known = self.base._node is self._base
        if policy.wanted():
            self.base += _step(blocks)
        else:  # a number at once: a chain of additions would grow without end
            self.base._set(numpy_node(np.asarray((int(self.base.numpy()) + blocks) % 2**64, np.uint64)))
        if known:
            self._base = self.base._node
            self._place += blocks

    def next(self, kind: Hashable, formula: Formula, shape: Shape) -> Array | None:
        """The next draw of few numbers; None where it is to be drawn alone: inside of traces and the like, and the first time
        since somebody else has moved or begun the sequence, for he may do so each time."""
        count = math.prod(shape)
        if not 0 < count <= FEW:
            return None
        blocks = (count + 3) // 4
        found = self._next((kind, blocks), blocks, lambda words: _known(formula(words, (4 * AHEAD,))))
        if found is None:
            return None
        (numbers, memory), place = found
        if not shape:
            return numbers[4 * place]
        return wrap(leaf(memory[4 * place : 4 * place + count].reshape(shape), numbers.node.dtype))

    def next_word(self, formula: Formula) -> int | None:
        """The next draw of one integer, as Python's; None as above."""
        found = self._next(formula, 1, lambda words: _listed(formula(words, (4 * AHEAD,))))
        return None if found is None else found[0][found[1]]

    def _next(self, kind: Hashable, blocks: int, make: Callable[[_Ahead], Any]) -> tuple[Any, int] | None:
        """What was made ahead, and the position in it, from which the sequence goes on behind the draw."""
        if not policy.wanted():
            return None
        with WRITING:  # no other thread gets the same words
            if self.base._node is not self._base or self.key._node is not self._key:
                self._base, self._key, self._place = self.base._node, self.key._node, AHEAD
                self._met.clear()
            made = self._made.get(kind)
            if made is None or self._place + made[1] > AHEAD:
                if kind not in self._met:
                    self._met.add(kind)
                    return None
                made = self._fill(kind, blocks, make)
                if made is None:
                    return None
            place = self._place
            self.move(made[1])
            return made[0], place

    def _fill(self, kind: Hashable, blocks: int, make: Callable[[_Ahead], Any]) -> tuple[Any, int] | None:
        if self._words is None or self._place + MOST > AHEAD:
            self._made.clear()
            self._words = op("random_bits", self.key._node, self.base._node, shape=(4 * (AHEAD + MOST),))
            self._place = 0
        words = _Ahead(self._words, blocks)
        numbers = make(words)
        if numbers is None:
            return None
        made = self._made[kind] = numbers, blocks * words.taken
        return made


class _Ahead:
    """The words of draws at all positions, each of so many blocks every time that words are taken."""

    def __init__(self, words: Node, blocks: int) -> None:
        self.words, self.blocks, self.taken = words, blocks, 0

    def take(self, shape: Shape) -> Node:
        start, self.taken = 4 * self.blocks * self.taken, self.taken + 1
        return op("slice", self.words, start=(start,), step=(1,), shape=shape)


def _known(node: Node) -> tuple[Array, np.ndarray] | None:
    if node.value is None:
        return None
    found = wrap(node)
    return found, found.numpy()


def _listed(node: Node) -> list[int] | None:
    return None if node.value is None else wrap(node).numpy()[::4].tolist()


@lru_cache(maxsize=256)
def _step(blocks: int) -> Array:
    return wrap(numpy_node(np.asarray(blocks, np.uint64)))
