"""Checks of indices whose outcome the host does not know yet: calls return before it is there, and a later look or call tells.

The card copies what a run noted of its indices to the host's memory at the end of the run; nobody waits for that. Until it is
known, arrays that the run writes in place are as good as any, since a wrong index stops the launches behind it, and then they
hold what they held. The other results of the run are *in doubt*, and so is what later runs make of these.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

import numpy as np

from weft.devices.cuda.card_allocator import CardMemory
from weft.devices.cuda.driver import Driver
from weft.devices.cuda.launch_list import Plan
from weft.devices.faults import IndexFault

SLOT = 1024  # bytes of records that a run may have; one with more waits at its end
SLOTS = 64  # runs whose outcome may be unknown; then the next one waits for the oldest
_NOTE = "a call before this line had that index: a card works behind, and tells at a later look or call"

Tell = Callable[[IndexFault], IndexError]  # makes the error that names the user's line


class PendingCheck:
    """The check of one run. slot : of its records in the host's memory; results : what it made in new memory; fault : once it is
    known, where an index was wrong"""

    __slots__ = ("fault", "known", "mark", "plan", "results", "slot", "tell")

    def __init__(self, plan: Plan, slot: int, mark: Any, results: Iterable[CardMemory], tell: Tell) -> None:
        self.plan, self.slot, self.mark, self.tell = plan, slot, mark, tell
        self.results: WeakSet[CardMemory] = WeakSet(results)
        self.known = False
        self.fault: IndexFault | None = None

    def error(self) -> IndexError:
        assert self.fault is not None
        found = self.tell(self.fault)
        found.add_note(_NOTE)
        return found


class PendingChecks:
    """Of one card. To be asked under the device's lock."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._waiting: deque[PendingCheck] = deque()  # in the order of the runs
        self._untold: deque[PendingCheck] = deque()  # an index was wrong, and nobody has heard of it
        self._failed: WeakSet[CardMemory] = WeakSet()  # results of these runs
        self._records: np.ndarray | None = None
        self._address = 0
        self._slots = list(range(SLOTS))
        self._marks: list[Any] = []

    def add(self, plan: Plan, records: CardMemory, results: Iterable[CardMemory], tell: Tell) -> None:
        """Note a run that was asked for. results : its outputs that lie in new memory"""
        if self._records is None:
            self._address = self._driver.pinned(SLOT * SLOTS)
            self._records = np.ctypeslib.as_array((ctypes.c_uint8 * (SLOT * SLOTS)).from_address(self._address))
        if not self._slots:
            self._driver.wait(self._waiting[0].mark)
            self.note()
        slot = self._slots.pop()
        self._driver.download(self._address + SLOT * slot, records.pointer, plan.record_bytes)
        mark = self._driver.mark(self._marks.pop() if self._marks else None)
        check = PendingCheck(plan, slot, mark, results, tell)
        self._waiting.append(check)
        for memory in check.results:
            memory.checks = (*memory.checks, check)

    def note(self) -> None:
        """Take notice of the runs that the card is done with."""
        while self._waiting and self._driver.reached(self._waiting[0].mark):
            check = self._waiting.popleft()
            assert self._records is not None
            first = SLOT * check.slot
            check.fault = check.plan.fault(self._records[first : first + check.plan.record_bytes])
            check.known = True
            self._slots.append(check.slot)
            self._marks.append(check.mark)
            if check.fault is not None:
                self._untold.append(check)
                self._failed.update(check.results)

    def tell(self) -> None:
        """Take notice, and raise the error of a run that nobody has heard of yet; each once."""
        self.note()
        if self._untold:
            raise self._untold.popleft().error()

    def doubts(self, inputs: Iterable[Any]) -> list[PendingCheck]:
        """Return the checks on which these inputs of a run rest and whose outcome is not known.

        Raises
        ------
        IndexError
            One of them failed.
        """
        if not self._waiting and not self._failed:
            return []
        self.note()
        found: dict[PendingCheck, None] = {}
        for memory in inputs:
            if isinstance(memory, CardMemory) and memory.checks:
                found.update(dict.fromkeys(memory.checks))
                memory.checks = tuple([c for c in memory.checks if not c.known or c.fault is not None])
        self._raise_failed(found)
        return [check for check in found if not check.known]

    def settle(self, checks: Iterable[PendingCheck]) -> None:
        """Wait until the outcome of these is known; raise where one failed."""
        for check in checks:
            if not check.known:
                self._driver.wait(check.mark)
                self.note()
        self._raise_failed(checks)

    def _raise_failed(self, checks: Iterable[PendingCheck]) -> None:
        for check in checks:
            if check.fault is not None:
                if check in self._untold:
                    self._untold.remove(check)
                raise check.error()

    def inherit(self, results: Iterable[CardMemory], checks: Iterable[PendingCheck]) -> None:
        """Let results of a run be in doubt since what it read is."""
        for memory in results:
            memory.checks = (*memory.checks, *checks)
            for check in checks:
                check.results.add(memory)
