"""Choose the tiles of products by measurement, and remember them by card and text.

Nothing is run twice for this. After AFTER runs of a launch, its next runs use each other tile in turn, which gives the same bits,
between two timed events. The fastest is used from then on, also in later processes. Until then no graph is recorded.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Any

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.code_store import CodeStore
from weft.devices.cuda.launch_list import Start
from weft.devices.cuda.nvidia import NvidiaDriver
from weft.process.bounded_cache import BoundedCache

AFTER = 20  # runs before other tiles are tried: compiling them is not worth it for fewer
ROUNDS = 3  # measurements of each tile; the best counts, since the first loads the code
REQUIRED_SHARE = 0.98  # a tile must take less than this share of the first one's time to replace it


class Choice:
    """The choice among the tiles of one launch with its numbers, shared by all programs that start it.

    best : the number of the chosen tile, the first being 0; None while undecided
    seconds : the least time of each
    """

    __slots__ = ("_are_compiled", "_count", "_rejected_tiles", "_runs", "_turn", "_waiting", "best", "name", "seconds")

    def __init__(self, name: str) -> None:
        self.name, self.best = name, None
        self.seconds: list[float] = []
        # returns whether the others are compiled; None before they were submitted
        self._are_compiled: Callable[[], bool] | None = None
        self._runs = self._turn = self._count = 0
        self._rejected_tiles: set[int] = set()
        self._waiting: deque[tuple[int, Any, Any]] = deque()

    best: int | None

    def next_tile(
        self, starts: Callable[[], tuple[Start, ...]], ahead: Callable[[list[Launch]], Callable[[], bool]],
    ) -> int | None:
        """Return the number of the tile to run and measure; None: run the first without measuring.

        starts : returns the launch in all tiles
        ahead : starts compiling launches, and returns a function that says whether they are done
        """
        self._runs += 1
        if self._runs <= AFTER or self.best is not None:
            return None
        if self._are_compiled is None:
            launches = [start.launch for start in starts()]
            self._count, self.seconds = len(launches), [float("inf")] * len(launches)
            self._are_compiled = ahead(launches[1:])
        if self._turn >= ROUNDS * self._count or not self._are_compiled():
            return None
        number = self._turn % self._count
        self._turn += 1
        return None if number in self._rejected_tiles else number

    def refuse(self, number: int) -> None:
        """Exclude a tile that cannot be compiled or loaded on this card."""
        self._rejected_tiles.add(number)

    def add_measurement(self, number: int, first: Any, second: Any) -> None:
        """Record that a tile ran between two events."""
        self._waiting.append((number, first, second))

    def collect(self, driver: NvidiaDriver) -> bool:
        """Read the events that are reached; return whether the best tile became known."""
        while self._waiting and driver.has_reached(self._waiting[0][2]):
            number, first, second = self._waiting.popleft()
            self.seconds[number] = min(self.seconds[number], driver.take_seconds(first, second))
        if self.best is not None or not self._count or self._turn < ROUNDS * self._count or self._waiting:
            return False
        least = min(range(self._count), key=self.seconds.__getitem__)
        self.best = least if self.seconds[least] < REQUIRED_SHARE * self.seconds[0] else 0
        return True


class Tuner:
    """Chooses tiles on one card. identity: distinguishes kinds of cards; recall, remember: notes on disk."""

    def __init__(
        self, driver: NvidiaDriver, codes: CodeStore, identity: str, recall: Callable[[str], dict[str, Any] | None],
        remember: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._driver, self._codes, self._identity = driver, codes, identity
        self._recall, self._remember = recall, remember
        self._choices = BoundedCache(1000)
        self.undecided_starts = 0  # number of launches started while their best tile was unknown

    def choice(self, start: Start, aligned: int) -> Choice:
        """Return the choice of a launch that has other tiles, from memory, from its note or new."""
        launch = start.launch
        key = (launch.text, launch.signature, launch.warps, launch.stages, launch.grid, start.constants, aligned)
        choice = self._choices.get(key)
        if choice is None:
            choice = Choice(hashlib.sha256(repr(("tile", self._identity, key)).encode()).hexdigest())
            note = self._recall(choice.name)
            if note is not None:
                tags = [_tag(s.launch) for s in starts_of(start)]
                # None if the set of tiles has changed
                choice.best = tags.index(note["best"]) if note.get("best") in tags else None
            self._choices.put(key, choice)
        return choice

    def next_tile(self, choice: Choice, start: Start, aligned: int) -> int | None:
        """See :meth:`Choice.next_tile`."""
        self.undecided_starts += 1
        return choice.next_tile(
            lambda: starts_of(start), lambda launches: self._codes.start_compiling([(x, aligned) for x in launches])
        )

    def is_settled(self, choice: Choice, start: Start) -> bool:
        """Return whether the best tile is known; store it when it becomes known."""
        if choice.collect(self._driver):
            assert choice.best is not None
            seconds = [s if s < float("inf") else None for s in choice.seconds]
            self._remember(choice.name, {"best": _tag(starts_of(start)[choice.best].launch), "seconds": seconds})
        return choice.best is not None


def starts_of(start: Start) -> tuple[Start, ...]:
    """Return a launch of a plan in all of its tiles."""
    return (start, *start.others()) if start.others is not None else (start,)


def _tag(launch: Launch) -> str:
    """Return a hash that identifies a tile."""
    return hashlib.sha256(repr((launch.text, launch.warps, launch.stages)).encode()).hexdigest()
