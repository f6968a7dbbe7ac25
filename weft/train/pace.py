"""How many updates a native call makes: one, or many where steps are so short that Python between them would count.

Many steps are one native loop (``wf.scan`` of the step). The bits are those of the same steps one by one, so it does not
matter when, or whether, a run changes over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from weft.train.feed import Arrays, Feed
from weft.train.step import Stepper

MANY = 32  # updates in a loop
SHORT = 2e-3  # seconds of a step; beside longer ones Python does not count, and Ctrl-C would wait
LEFT = 4000  # updates still to come, for fewer a second program is not worth its compilation
WATCHED = 32  # updates that are timed, after as many that are not
MOST = 64 << 20  # bytes of the batches of a loop, which lie in memory together

Keys = tuple[Any, ...]  # of the batches of one update
Figures = tuple[int, tuple[float, ...]]  # rows, and (loss, *metrics)


class Pace:
    """Makes updates from the keys of their batches.

    ``alone`` says that somebody wants to be called after each update.
    """

    def __init__(self, stepper: Stepper, feed: Feed, alone: bool) -> None:
        self.stepper, self.feed = stepper, feed
        # whether a native call may make many updates
        self.able = stepper.many is not None and isinstance(feed, Arrays) and MANY * feed.batch_bytes <= MOST and not alone
        self.count = 1  # updates that a native call makes
        self.seen = 0  # updates of this epoch
        self.proven = False  # whether a loop has run

    def blocks(self, updates: Iterator[Keys], left: int, room: Callable[[], int]) -> Iterator[tuple[Keys, ...]]:
        """The updates of an epoch in tuples: each is one native call.

        left : updates still to come in the whole run
        room : how many updates may be made before the loop is to look after something else
        """
        self.seen = 0
        for update in updates:
            if self.able and self.count == 1:
                self._watch(left)
            if self.count == 1 or room() < self.count:
                yield (update,)
                continue
            block = (update, *islice(updates, self.count - 1))
            if len(block) == self.count and len(block[-1][0]) == len(update[0]):
                yield block
            else:
                yield from ((update,) for update in block)

    def advance(self, block: tuple[Keys, ...], lr: float) -> list[Figures]:
        """Make the updates of a block."""
        found = self._many(block, lr) if len(block) > 1 else None
        return [self._one(keys, lr) for keys in block] if found is None else found

    def _one(self, keys: Keys, lr: float) -> Figures:
        batch, count, plain = self.feed.batch, self.feed.count, self.stepper.plain
        if plain is None:
            return sum(map(count, keys)), self.stepper.advance([batch(key) for key in keys], lr)
        key = keys[0]
        x, y = batch(key)
        return count(key), (float(plain(x, y, lr)),)

    def _many(self, block: tuple[Keys, ...], lr: float) -> list[Figures] | None:
        """One native call, or None where the step has what no native loop can hold, which its trace tells."""
        assert self.stepper.many is not None
        xs, ys = self.feed.batch(np.stack([key for (key,) in block]))
        try:
            out = self.stepper.many(xs, ys, lr)
        except (TypeError, ValueError):
            if self.proven:
                raise
            self.able, self.count = False, 1
            return None
        self.proven = True
        rows = len(block[0][0])
        return [(rows, values) for values in zip(*(a.numpy().tolist() for a in out), strict=True)]

    def _watch(self, left: int) -> None:
        """Called before each update: whether steps are short enough for many at once."""
        self.seen += 1
        if self.seen == WATCHED:
            self.since = time.thread_time()  # not the clock's time: other programs may keep this one waiting
        elif self.seen == 2 * WATCHED and left >= LEFT and time.thread_time() - self.since < WATCHED * SHORT:
            self.count = MANY
