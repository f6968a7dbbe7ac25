"""Tiles of products chosen by measurement, and remembered by card and text.

Nothing runs twice for that: once a launch has run some times, its next runs use the other tiles in turn, which give the same
bits, between two marks on the card. What took least stays, from then on and in later processes. Meanwhile no graph is recorded.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Any

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.code_store import Codes
from weft.devices.cuda.driver import Driver
from weft.devices.cuda.launch_list import Start
from weft.process.bounded_cache import Recent

AFTER = 20  # runs before others are tried: what runs less often is not worth compiling them
ROUNDS = 3  # of each; the best counts, for the first loads the code
BETTER = 0.98  # of the time that the first takes: what takes more is no reason to change


class Choice:
    """Between the tiles of one launch, with its numbers; all programs that start it share this.

    best : the number of the one that is taken, the first being 0; None until it is known. seconds : the least of each
    """

    __slots__ = ("_arrived", "_count", "_refused", "_runs", "_turn", "_waiting", "best", "name", "seconds")

    def __init__(self, name: str) -> None:
        self.name, self.best = name, None
        self.seconds: list[float] = []
        self._arrived: Callable[[], bool] | None = None  # whether the others are compiled, once that was asked for
        self._runs = self._turn = self._count = 0
        self._refused: set[int] = set()
        self._waiting: deque[tuple[int, Any, Any]] = deque()

    best: int | None

    def next(self, starts: Callable[[], tuple[Start, ...]], ahead: Callable[[list[Launch]], Callable[[], bool]]) -> int | None:
        """Which one is to run and to be measured; None: the first, unmeasured. starts : all; ahead : lets them be compiled, and
        gives what tells whether they are"""
        self._runs += 1
        if self._runs <= AFTER or self.best is not None:
            return None
        if self._arrived is None:
            found = [start.launch for start in starts()]
            self._count, self.seconds = len(found), [float("inf")] * len(found)
            self._arrived = ahead(found[1:])
        if self._turn >= ROUNDS * self._count or not self._arrived():
            return None
        number = self._turn % self._count
        self._turn += 1
        return None if number in self._refused else number

    def refuse(self, number: int) -> None:
        """One that cannot be compiled, or does not run on this card."""
        self._refused.add(number)

    def measured(self, number: int, first: Any, second: Any) -> None:
        """One ran between two marks."""
        self._waiting.append((number, first, second))

    def collect(self, driver: Driver) -> bool:
        """Read the marks that are reached by now; whether the best became known."""
        while self._waiting and driver.reached(self._waiting[0][2]):
            number, first, second = self._waiting.popleft()
            self.seconds[number] = min(self.seconds[number], driver.passed(first, second))
        if self.best is not None or not self._count or self._turn < ROUNDS * self._count or self._waiting:
            return False
        least = min(range(self._count), key=self.seconds.__getitem__)
        self.best = least if self.seconds[least] < BETTER * self.seconds[0] else 0
        return True


class Tuner:
    """Of one card. identity : another text for another kind of card; recall, remember : notes on disk"""

    def __init__(
        self, driver: Driver, codes: Codes, identity: str, recall: Callable[[str], dict[str, Any] | None],
        remember: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._driver, self._codes, self._identity = driver, codes, identity
        self._recall, self._remember = recall, remember
        self._choices = Recent(1000)
        self.undecided = 0  # launches so far whose best tile was not known

    def choice(self, start: Start, aligned: int) -> Choice:
        """Of a launch that has others."""
        launch = start.launch
        key = (launch.text, launch.signature, launch.warps, launch.stages, launch.grid, start.fixed, aligned)
        found = self._choices.get(key)
        if found is None:
            found = Choice(hashlib.sha256(repr(("tile", self._identity, key)).encode()).hexdigest())
            note = self._recall(found.name)
            if note is not None:
                tags = [_tag(s.launch) for s in starts_of(start)]
                found.best = tags.index(note["best"]) if note.get("best") in tags else None  # else the tiles are others now
            self._choices.put(key, found)
        return found

    def next(self, choice: Choice, start: Start, aligned: int) -> int | None:
        """See :meth:`Choice.next`."""
        self.undecided += 1
        return choice.next(lambda: starts_of(start), lambda found: self._codes.ahead([(launch, aligned) for launch in found]))

    def settled(self, choice: Choice, start: Start) -> bool:
        """Whether the best is known; it is noted when it becomes so."""
        if choice.collect(self._driver):
            assert choice.best is not None
            seconds = [s if s < float("inf") else None for s in choice.seconds]
            self._remember(choice.name, {"best": _tag(starts_of(start)[choice.best].launch), "seconds": seconds})
        return choice.best is not None


def starts_of(start: Start) -> tuple[Start, ...]:
    """A launch of a plan in all of its tiles."""
    return (start, *start.others()) if start.others is not None else (start,)


def _tag(launch: Launch) -> str:
    """What tells one tile from another."""
    return hashlib.sha256(repr((launch.text, launch.warps, launch.stages)).encode()).hexdigest()
