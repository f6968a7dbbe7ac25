"""Index checks whose outcome the host does not know yet: calls return before it, and a later read or call raises the error.

At the end of a run the card copies its check records to host memory, asynchronously. Arrays that the run writes in place are
valid in the meantime: a wrong index skips the launches behind it and the arrays keep their content. The other results of the run
are *in doubt*, and so are results of later runs that read them.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

import numpy as np

from weft.devices.cuda.card_allocator import CardMemory
from weft.devices.cuda.launch_list import Plan
from weft.devices.cuda.nvidia import NvidiaDriver
from weft.devices.faults import IndexFault

SLOT_BYTES = 1024  # bytes of a run's records; a run with more waits at its end
SLOTS = 64  # runs whose outcome may be unknown; the next one waits for the oldest
_NOTE = "an earlier call used this index: a GPU runs asynchronously and raises its errors at a later read or call"

MakeError = Callable[[IndexFault], IndexError]  # makes an error that names the user's line


class PendingCheck:
    """The check of one run.

    slot: position of its records in host memory.
    results: its outputs in new memory.
    fault: the out-of-range index, once it is known.
    """

    __slots__ = ("fault", "is_complete", "mark", "plan", "results", "slot", "tell")

    def __init__(self, plan: Plan, slot: int, mark: Any, results: Iterable[CardMemory], tell: MakeError) -> None:
        self.plan, self.slot, self.mark, self.tell = plan, slot, mark, tell
        self.results: WeakSet[CardMemory] = WeakSet(results)
        self.is_complete = False
        self.fault: IndexFault | None = None

    def error(self) -> IndexError:
        assert self.fault is not None
        error = self.tell(self.fault)
        error.add_note(_NOTE)
        return error


class PendingChecks:
    """The pending checks of one card. Call it under the device's lock."""

    def __init__(self, driver: NvidiaDriver) -> None:
        self._driver = driver
        self._waiting: deque[PendingCheck] = deque()  # in run order
        self._unraised_checks: deque[PendingCheck] = deque()  # failed, and the error was not raised yet
        self._failed_results: WeakSet[CardMemory] = WeakSet()  # results of failed runs
        self._records: np.ndarray | None = None
        self._address = 0
        self._slots = list(range(SLOTS))
        self._marks: list[Any] = []

    def add(self, plan: Plan, records: CardMemory, results: Iterable[CardMemory], tell: MakeError) -> None:
        """Register a run that was issued. results: its outputs in new memory."""
        if self._records is None:
            self._address = self._driver.allocate_pinned(SLOT_BYTES * SLOTS)
            self._records = np.ctypeslib.as_array((ctypes.c_uint8 * (SLOT_BYTES * SLOTS)).from_address(self._address))
        if not self._slots:
            self._driver.wait(self._waiting[0].mark)
            self.note()
        slot = self._slots.pop()
        self._driver.download(self._address + SLOT_BYTES * slot, records.pointer, plan.record_bytes)
        mark = self._driver.mark(self._marks.pop() if self._marks else None)
        check = PendingCheck(plan, slot, mark, results, tell)
        self._waiting.append(check)
        for memory in check.results:
            memory.checks = (*memory.checks, check)

    def note(self) -> None:
        """Read the records of the runs that the card has finished."""
        while self._waiting and self._driver.has_reached(self._waiting[0].mark):
            check = self._waiting.popleft()
            assert self._records is not None
            first = SLOT_BYTES * check.slot
            check.fault = check.plan.fault(self._records[first : first + check.plan.record_bytes])
            check.is_complete = True
            self._slots.append(check.slot)
            self._marks.append(check.mark)
            if check.fault is not None:
                self._unraised_checks.append(check)
                self._failed_results.update(check.results)

    def raise_pending_error(self) -> None:
        """Read finished records, and raise the error of a failed run if it was not raised yet."""
        self.note()
        if self._unraised_checks:
            raise self._unraised_checks.popleft().error()

    def doubts(self, inputs: Iterable[Any]) -> list[PendingCheck]:
        """Return the checks on which these inputs depend and whose outcome is unknown.

        Raises
        ------
        IndexError
            One of them failed.
        """
        if not self._waiting and not self._failed_results:
            return []
        self.note()
        checks: dict[PendingCheck, None] = {}
        for memory in inputs:
            if isinstance(memory, CardMemory) and memory.checks:
                checks.update(dict.fromkeys(memory.checks))
                memory.checks = tuple([c for c in memory.checks if not c.is_complete or c.fault is not None])
        self._raise_failed(checks)
        return [check for check in checks if not check.is_complete]

    def settle(self, checks: Iterable[PendingCheck]) -> None:
        """Wait until the outcome of these checks is known; raise the error of a failed one."""
        for check in checks:
            if not check.is_complete:
                self._driver.wait(check.mark)
                self.note()
        self._raise_failed(checks)

    def _raise_failed(self, checks: Iterable[PendingCheck]) -> None:
        for check in checks:
            if check.fault is not None:
                if check in self._unraised_checks:
                    self._unraised_checks.remove(check)
                raise check.error()

    def inherit(self, results: Iterable[CardMemory], checks: Iterable[PendingCheck]) -> None:
        """Put results of a run in doubt because its inputs are."""
        for memory in results:
            memory.checks = (*memory.checks, *checks)
            for check in checks:
                check.results.add(memory)
