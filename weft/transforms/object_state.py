"""The contents of objects, containers and variables as inputs and outputs of a traced function.

During a trace, run-time numbers replace constants in the objects; values that the function sets are recorded, and the objects
are restored. Each call of the program then reads numbers and arrays from the objects and sets what the function sets.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from weft.array import Array
from weft.devices.base import WarmCalls
from weft.devices.native_protocols import WatchRow
from weft.runtime import execute
from weft.runtime.traced_int import Tape
from weft.transforms import records
from weft.transforms.code_names import MISSING
from weft.transforms.content import StaticKey

_SWAPPING = [threading.RLock()]  # one trace at a time: traces must not read each other's run-time numbers
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _SWAPPING.__setitem__(0, threading.RLock()))  # another thread may have held it


class Content(NamedTuple):
    """The place of a container's whole content, if a function adds, removes or reorders items. names : the keys of a dict"""

    names: tuple[Any, ...]


class Swap:
    """Run-time numbers that replace constants in objects for the time of a trace."""

    def __init__(
        self, contents: Sequence[records.Record], moving: Sequence[int], tape: Tape, first: int, snapshots: int = 0,
    ) -> None:
        """moving : numbers of the values to replace. first : the tape slot of the first of them

        snapshots : how many records at the end of ``contents`` belong to containers that are not compared from call to call
        """
        self.contents = list(contents)
        self._compared_count, self._arguments = len(contents) - snapshots, len(contents)
        for record in contents:
            if isinstance(record, records.BufferRecord):
                record.save()
        places = [(n, k, indices) for n, record in enumerate(contents) for k, indices in record.paths]
        leaves = {}
        for slot, (n, k, indices) in enumerate([places[number] for number in moving], first):
            leaves[n, k, indices] = tape.number(records.at(contents[n].values[k], indices), slot)
        self._placed_values = records.put_leaves(contents, leaves)

    def changes(self) -> Iterator[tuple[int, int | str | Content, Any]]:
        """Yield each value that the function has set: the number of its record, its place, and the value.

        The place is the number of the value in the record, the name of a new attribute, or a ``Content``. MISSING is the value
        of a deleted attribute or variable.
        """
        for n, record in self._changed_records():
            names, values = record.read()
            if self._compared_count <= n < self._arguments or record.is_restructured(names, values):
                if not record.is_unchanged():
                    is_buffer = isinstance(record, records.BufferRecord)
                    yield n, Content(names), (record.owner.copy(),) if is_buffer else values
                    continue
            now = dict(zip(names or range(len(values)), values, strict=True))
            for place, name in enumerate(record.names or range(len(record.values))):
                before = self._placed_values.get((n, place), record.values[place])  # beside a run-time number any constant is new
                value = now.get(name, MISSING)
                if value is not before:
                    yield n, place, value
            for name in record.added_names():
                yield n, name, now[name] if name in now else getattr(record.owner, name)  # a constant that no code names

    def add_arguments(self, contents: Sequence[records.Record]) -> None:
        """Add the records of arguments of the traced call."""
        self.contents += contents

    def restore(self) -> None:
        """Restore the recorded values and remove added attributes and items."""
        for _, record in self._changed_records():
            record.reset()
        for record in self.contents:
            if isinstance(record, records.BufferRecord):
                record.saved_copy = None
        del self.contents[self._arguments :]
        self._placed_values.clear()

    def _changed_records(self) -> list[tuple[int, records.Record]]:
        with_numbers = {n for n, _ in self._placed_values}
        return [(n, r) for n, r in enumerate(self.contents) if n in with_numbers or not r.is_unchanged()]


@contextmanager
def swap_numbers(
    contents: Sequence[records.Record], moving: Sequence[int], tape: Tape, first: int, snapshots: int = 0,
) -> Iterator[Swap]:
    """Context manager: replace the constants ``moving`` by run-time numbers. The arguments are those of :class:`Swap`."""
    with _SWAPPING[0] if moving else nullcontext():
        swap = Swap(contents, moving, tape, first, snapshots)
        try:
            yield swap
        except BaseException:
            swap.restore()
            raise


class ObjectState:
    """The content of function and arguments that a program depends on, refreshed at each call.

    values : constants and arrays of objects
    numbers : the run-time numbers among them
    function_content, function_values : the content of the function, which other calls may refresh, and its values
    checks : functions that return whether the records are unchanged
    checks_final : whether the checks are native ones where the device has them
    """

    __slots__ = (
        "_aliases", "_arrays", "_moving", "_static", "checks", "content", "numbers", "function_content", "function_values",
        "checks_final", "values",
    )

    def __init__(self, content: StaticKey, moving: Sequence[int], still: Collection[int]) -> None:
        """moving : numbers of the values that the program reads. still : numbers of all values that may change"""
        values = content.values
        self._moving = moving
        self._arrays = [k for k, x in enumerate(values) if isinstance(x, Array)]
        self._static = [k for k, x in enumerate(values) if k not in still and not isinstance(x, Array)]
        self._aliases = records.aliases_of([values[k] for k in self._arrays])
        self.take(content)

    def take(self, content: StaticKey) -> None:
        """Make ``content`` the current content of function and arguments."""
        self.content, self.values = content, content.values
        self.function_content = content.base or content
        self.function_values = self.function_content.values
        self.checks: list[Callable[[], bool]] = [record.is_unchanged for record in content.checked_records]
        self.checks_final = not self.checks
        self.numbers = [content.values[k] for k in self._moving]

    def settle(self) -> None:
        """Replace the checks by native ones. Called when the content has not changed from one call to the next."""
        self.checks, self.checks_final = _checks(self.content.checked_records), True

    def refresh(self) -> bool:
        """Read changed contents again. Return False if they need another program."""
        content, before = self.content, self.values
        if not content.refresh():
            return False
        now = content.values
        if now is before:
            return True
        if not all([records.same_constant(before[k], now[k]) for k in self._static]):
            return False
        if not all([type(before[k]) is type(now[k]) for k in self._moving]):
            return False
        changed = [k for k in self._arrays if before[k] is not now[k]]
        if changed:
            if not all([_is_replaceable(before[k], now[k]) for k in changed]):
                return False
            if records.aliases_of([now[k] for k in self._arrays]) != self._aliases:
                return False
        self.take(content)
        return True

    def holds_other_arrays(self, values: Sequence[Any]) -> bool:
        """Return whether an array differs from the one in ``values``."""
        return any([values[k] is not self.values[k] for k in self._arrays])

    def belongs_to(self, content: StaticKey) -> bool:
        """Return whether ``content`` belongs to the same objects and holds the same arrays."""
        owners = zip(self.content.records, content.records, strict=True)
        return all([a.owner is b.owner for a, b in owners]) and not self.holds_other_arrays(content.values)

    def of(self, content: StaticKey) -> ObjectState:
        """Return a copy for the content of other objects."""
        out = copy.copy(self)
        out.take(content)
        return out

    def replacements(self, before: Sequence[Any], contents: Sequence[records.Record]) -> dict[int, Any]:
        """Map ids of the arrays, cells and owners in values and records of another call to those here. before, contents: these"""
        now = {id(old.owner): new.owner for old, new in zip(contents, self.content.records, strict=True)}
        for k in self._arrays:
            now[id(before[k].cell)] = self.values[k].cell
            now[id(before[k])] = self.values[k]
        return now


def _is_replaceable(a: Any, b: Any) -> bool:
    """Return whether one array may replace another without another trace."""
    return type(a) is type(b) and a._base is None and b._base is None and records.key_of(a) == records.key_of(b)


def _checks(contents: Sequence[records.Record]) -> list[Callable[[], bool]]:
    """Return functions that check that the records are unchanged: one native function for all that the device can compare."""
    device = execute.device()
    rows: list[WatchRow] = []
    functions = []
    for record in contents:
        comparisons = record.watch_rows() if isinstance(device, WarmCalls) else None
        if comparisons is None:
            functions.append(record.is_unchanged)
        else:
            rows += comparisons
    return [device.watch_check(rows), *functions] if rows and isinstance(device, WarmCalls) else functions
