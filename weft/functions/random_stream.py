"""A sequence of random words that goes on, and draws of one number, which are made ahead for the next positions of it.

A draw of one number reads the first word of each block that it takes. So the same draw at the next positions is the same formula
over the first words of the next blocks, one array for each word that it takes: a few operations make hundreds of draws, with the
bits that each has alone, and a draw is an element of what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from weft import small
from weft.array import Array, wrap
from weft.cell import WRITING
from weft.convert import numpy_node
from weft.functions.common import Node, Shape, op

AHEAD = 256  # positions
MOST = 8  # words that a draw of one number takes

Formula = Callable[[Any, Shape], Node]  # what gives words, and a shape


class Stream:
    """Key and base: a draw moves ``base``. What is known ahead holds while these have the nodes that it was made of."""

    __slots__ = ("_base", "_key", "_made", "_place", "_words", "base", "key")

    def __init__(self, key: Array, base: Array) -> None:
        self.key, self.base = key, base
        self._key: Node | None = None
        self._base: Node | None = None
        self._place = AHEAD
        self._words: Node | None = None  # the first of each block
        self._made: dict[Hashable, tuple[Any, int]] = {}  # numbers by position, and how many blocks one takes

    def move(self, blocks: int) -> None:
        """Go on by so many blocks, outside of traces: to be called under ``WRITING``."""
        known = self.base._node is self._base
        if small.wanted():
            self.base += _step(blocks)
        else:  # a number at once: a chain of additions would grow without end
            self.base._set(numpy_node(np.asarray((int(self.base.numpy()) + blocks) % 2**64, np.uint64)))
        if known:
            self._base = self.base._node
            self._place += blocks

    def next(self, kind: Hashable, formula: Formula) -> Array | None:
        """The next draw of one number; None where it is to be drawn alone: inside of traces and the like, and where somebody
        else has moved or begun the sequence, for he may do so each time."""
        return self._next(kind, lambda words: _known(formula(words, (AHEAD,))))

    def next_word(self, formula: Formula) -> int | None:
        """The same of an integer, as Python's."""
        found: int | None = self._next(formula, lambda words: _listed(formula(words, (AHEAD,))))
        return found

    def _next(self, kind: Hashable, make: Callable[[_First], Any]) -> Any:
        if not small.wanted():
            return None
        with WRITING:  # no other thread gets the same words
            if self.base._node is not self._base or self.key._node is not self._key:
                self._base, self._key, self._place = self.base._node, self.key._node, AHEAD
                return None
            made = self._made.get(kind)
            if made is None or self._place + made[1] > AHEAD:
                made = self._fill(kind, make)
                if made is None:
                    return None
            numbers, blocks = made
            found = numbers[self._place]
            self.move(blocks)
            return found

    def _fill(self, kind: Hashable, make: Callable[[_First], Any]) -> tuple[Any, int] | None:
        if self._words is None or self._place + MOST > AHEAD:
            self._made.clear()
            blocks = AHEAD + MOST
            words = op("random_bits", self.key._node, self.base._node, shape=(4 * blocks,))
            self._words, self._place = op("slice", words, start=(0,), step=(4,), shape=(blocks,)), 0
        first = _First(self._words)
        numbers = make(first)
        if numbers is None:
            return None
        made = self._made[kind] = numbers, first.taken
        return made


class _First:
    """The words of a draw of one number, at all positions."""

    def __init__(self, words: Node) -> None:
        self.words, self.taken = words, 0

    def take(self, shape: Shape) -> Node:
        start, self.taken = self.taken, self.taken + 1
        return op("slice", self.words, start=(start,), step=(1,), shape=shape)


def _known(node: Node) -> Array | None:
    return None if node.value is None else wrap(node)


def _listed(node: Node) -> list[int] | None:
    return None if node.value is None else wrap(node).tolist()


@lru_cache(maxsize=256)
def _step(blocks: int) -> Array:
    return wrap(numpy_node(np.asarray(blocks, np.uint64)))
