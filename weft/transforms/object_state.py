"""The contents of objects, containers and variables as inputs and outputs of a traced function.

During a trace, run-time numbers replace constants in the objects; values that the function sets are recorded, and the objects
are restored. Each call of the program then reads numbers and arrays from the objects and sets what the function sets.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft.array import Array
from weft.runtime.traced_int import TRACED_TYPES, Tape
from weft.transforms import fast_call
from weft.transforms.content import StaticKey
from weft.transforms.records import MISSING, Record, at, form_of, is_plain, make_tuple, replaced, same_constant
from weft.transforms.values import aliases_of, key_of

_SWAPPING = [threading.RLock()]  # one trace at a time: traces must not read each other's run-time numbers
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _SWAPPING.__setitem__(0, threading.RLock()))  # another thread may have held it


class Swap:
    """Run-time numbers that replace constants in objects for the time of a trace."""

    def __init__(self, contents: Sequence[StaticKey], moving: Sequence[int], tape: Tape, first: int) -> None:
        """moving : numbers of the values to replace. first : the tape slot of the first of them"""
        self.records: list[Record] = [record for content in contents for record in content.records]
        self._placed: dict[tuple[int, int], Any] = {}
        slots = {k: first + n for n, k in enumerate(moving)}
        changes: dict[tuple[int, int], dict[tuple[int, ...], Any]] = {}
        k = 0
        for n, record in enumerate(self.records):
            for n_at, (place, indices) in enumerate(record.paths, k):
                if n_at in slots:
                    changes.setdefault((n, place), {})[indices] = tape.number(at(record.values[place], indices), slots[n_at])
            k += len(record.paths)
        for (n, place), by_indices in changes.items():
            value = replaced(self.records[n].values[place], by_indices)
            self._placed[n, place] = value
            self.records[n].put(place, value)

    def changes(self) -> Iterator[tuple[int, int | str, Any]]:
        """Yield each value that the function has set: the number of its record, its number in the record or the name of a new
        attribute, and the value."""
        for n, record in self._changed():
            names, values = record.read()
            if not (record.names or names) and len(values) != len(record.values):
                continue  # a list that has grown is read only during the trace, see ``Jitted._skip_variables``
            now = dict(zip(names or range(len(values)), values, strict=True))
            for place, name in enumerate(record.names or range(len(record.values))):
                before = self._placed.get((n, place), record.values[place])  # beside a run-time number any constant is new
                value = now.get(name, before)
                if value is not before and value is not MISSING:
                    yield n, place, value
            for name in record.added():
                yield n, name, now[name]

    def restore(self) -> None:
        """Restore the recorded values and remove added attributes. Items added to containers stay, with plain numbers."""
        for n, record in self._changed():
            names, values = record.read()
            fresh = record.again(names, values)
            places = dict(zip(record.names or range(len(record.values)), range(len(record.values)), strict=True))
            grown = not (record.names or names) and len(values) != len(record.values)
            for k, (name, value) in enumerate(zip(names or range(len(values)), values, strict=True)):
                place = places.get(name)
                if place is not None and not grown and value is not MISSING:
                    if value is not record.values[place]:
                        record.put(place, record.values[place])
                elif place is not None and value is self._placed.get((n, place)):
                    record.put(place, record.values[place])
                elif form_of(value) is not None and not is_plain(value):
                    fresh.put(k, _plain(value))
            for name in record.added():
                record.remove(name)
        self._placed.clear()

    def _changed(self) -> Iterator[tuple[int, Record]]:
        with_numbers = {n for n, _ in self._placed}
        return ((n, r) for n, r in enumerate(self.records) if r.writable and (n in with_numbers or not r.unchanged()))


def _plain(value: Any) -> Any:
    """Return the constant or tuple with plain numbers for its run-time numbers, which become static."""
    if isinstance(value, tuple):
        return make_tuple(type(value), [_plain(part) for part in value])
    return value.told() if type(value) in TRACED_TYPES else value


@contextmanager
def swapped(contents: Sequence[StaticKey], moving: Sequence[int], tape: Tape, first: int) -> Iterator[Swap]:
    """Context manager: replace the constants ``moving`` by run-time numbers."""
    lock, swap = _SWAPPING[0], None
    if moving:
        lock.acquire()
    try:
        swap = Swap(contents, moving, tape, first)
        yield swap
    except BaseException:
        if swap is not None:
            swap.restore()
        raise
    finally:
        if moving:
            lock.release()


class ObjectState:
    """The contents of function and arguments that a program depends on, refreshed at each call.

    values : constants and arrays of objects, in the order of ``contents``
    numbers : the run-time numbers among them
    reached, seen : the first of ``contents``, which other calls may refresh, and its values
    checks : functions that return whether the records are unchanged
    settled : whether the checks are native ones where the device has them
    """

    __slots__ = (
        "_aliases", "_arrays", "_moving", "_static", "_taken", "_untold", "checks", "contents", "numbers", "reached", "seen",
        "settled", "values",
    )

    def __init__(self, contents: Sequence[StaticKey], moving: Sequence[int], still: Collection[int]) -> None:
        """moving : numbers of the values that the program reads. still : numbers of all values that may change"""
        values = [x for content in contents for x in content.values]
        self._moving = moving
        self._arrays = [k for k, x in enumerate(values) if isinstance(x, Array)]
        self._static = [k for k, x in enumerate(values) if k not in still and not isinstance(x, Array)]
        self._aliases = aliases_of([values[k] for k in self._arrays])
        self.take(contents)

    def take(self, contents: Sequence[StaticKey]) -> None:
        """Make ``contents`` the current contents of function and arguments."""
        self.contents = tuple(contents)
        self.reached, self.seen = contents[0], contents[0].values
        self._taken = [content.values for content in contents]
        self._untold = [record for content in contents for record in content.untold]
        self.checks: list[Callable[[], bool]] = [record.unchanged for record in self._untold]
        self.settled = not self.checks
        self.values = values = [x for content in contents for x in content.values]
        self.numbers = [values[k] for k in self._moving]

    def settle(self) -> None:
        """Replace the checks by native ones. Called when the contents have not changed from one call to the next."""
        self.checks, self.settled = fast_call.checks(self._untold), True

    def refresh(self) -> bool:
        """Read changed contents again. Return False if they need another program."""
        contents, before = self.contents, self.values
        for content in contents:
            if not content.refresh():
                return False
        if self.taken(contents):
            return True
        now = [x for content in contents for x in content.values]
        if not all([same_constant(before[k], now[k]) for k in self._static]):
            return False
        if not all([type(before[k]) is type(now[k]) for k in self._moving]):
            return False
        changed = [k for k in self._arrays if before[k] is not now[k]]
        if changed:
            if not all([_is_replaceable(before[k], now[k]) for k in changed]):
                return False
            if aliases_of([now[k] for k in self._arrays]) != self._aliases:
                return False
        self.take(contents)
        return True

    def rebound(self, before: Sequence[Any]) -> bool:
        """Return whether an array differs from the one in ``before``."""
        return any([before[k] is not self.values[k] for k in self._arrays])

    def taken(self, contents: Sequence[StaticKey]) -> bool:
        """Return whether ``contents`` are the current ones, unchanged since :meth:`take`."""
        pairs = zip(self.contents, contents, self._taken, strict=True)
        return all([mine is other and other.values is values for mine, other, values in pairs])

    def same(self, contents: Sequence[StaticKey]) -> bool:
        """Return whether ``contents`` belong to the same objects and hold the same arrays."""
        for mine, other in zip(self.contents, contents, strict=True):
            if mine is not other and any([a.owner is not b.owner for a, b in zip(mine.records, other.records, strict=True)]):
                return False
        return not self.rebound([x for content in contents for x in content.values])

    def of(self, contents: Sequence[StaticKey]) -> ObjectState:
        """Return a copy for the contents of other objects."""
        out: ObjectState = object.__new__(ObjectState)
        out._moving, out._arrays, out._static, out._aliases = self._moving, self._arrays, self._static, self._aliases
        out.take(contents)
        return out

    def places(self) -> tuple[dict[int, int], dict[int, tuple[bool, int]]]:
        """Return two mappings: id of a cell to the number of the first value that shows it; id of an array or record owner to
        (True, number of the value) or (False, number of the record)."""
        cells: dict[int, int] = {}
        same = {id(record.owner): (False, n) for n, record in enumerate(self.records())}
        for k in self._arrays:
            cells.setdefault(id(self.values[k].cell), k)
            same.setdefault(id(self.values[k]), (True, k))
        return cells, same

    def records(self) -> list[Record]:
        return [record for content in self.contents for record in content.records]


def _is_replaceable(a: Any, b: Any) -> bool:
    """Return whether one array may replace another without another trace."""
    return type(a) is type(b) and a._base is None and b._base is None and key_of(a) == key_of(b)
