"""Numbers that objects hold, while a function is traced: run-time numbers take their place, and what the function sets is noted.

What a function sets is not left behind by its trace: each call writes it when it has run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft.given import Given, Tape
from weft.transforms.content import Content
from weft.transforms.records import Record, form_of, replaced, tuple_of
from weft.transforms.tree import structure_changed

Write = tuple[int, int, Callable[[Sequence[Any]], Any]]  # number of a record, of its value, and the value by the tape's numbers

_SWAPPING = threading.RLock()  # two traces must not find each other's numbers in one object


class Swap:
    """What stands in the place of constants: ``writes`` is complete when :meth:`end` has been called."""

    def __init__(self, contents: Sequence[Content], moving: Sequence[int], tape: Tape, first: int) -> None:
        """moving : numbers of constants. first : the tape's slot for the first of them."""
        self.records: list[Record] = [record for content in contents for record in content.records]
        self.writes: list[Write] = []
        self._tape = tape
        self._placed: dict[tuple[int, int], Any] = {}
        slots = {k: first + n for n, k in enumerate(moving)}
        changes: dict[tuple[int, int], dict[tuple[int, ...], Any]] = {}
        k = 0
        for n, record in enumerate(self.records):
            for at, (place, way) in enumerate(record.paths, k):
                if at in slots:
                    number = tape.number(_constant(record.values[place], way), slots[at])
                    changes.setdefault((n, place), {})[way] = number
            k += len(record.paths)
        for (n, place), ways in changes.items():
            value = replaced(self.records[n].values[place], ways)
            self._placed[n, place] = value
            self.records[n].put(place, value)

    def end(self, done: bool) -> None:
        """Put the constants back, and note what was set in their place; ``done``: the function has returned."""
        for n, record in enumerate(self.records):
            if record.writable and not record.unchanged():
                self._end(n, record, done)
        self._placed.clear()

    def _end(self, n: int, record: Record, done: bool) -> None:
        names, values = record.read()
        fresh = type(record)(record.owner, names, values)
        own = {place for place, _ in record.paths}
        places = dict(zip(record.names or range(len(record.values)), range(len(record.values)), strict=True))
        for k, (name, value) in enumerate(zip(names or range(len(values)), values, strict=True)):
            place = places.get(name)
            before = value if place is None else record.values[place]
            if place is not None and (value is before or form_of(value) is None):
                continue
            if place is not None and value is self._placed.get((n, place)):
                record.put(place, before)
            elif place in own:
                record.put(place, before if done else _plain(value))
                self.writes.append((n, place, _writer(value, self._tape)))
            elif form_of(value) is not None:
                fresh.put(k, _plain(value))


def _constant(value: Any, way: tuple[int, ...]) -> Any:
    for k in way:
        value = value[k]
    return value


def _plain(value: Any) -> Any:
    """A constant, or a tuple of constants, without run-time numbers; those that it held are static."""
    if isinstance(value, tuple):
        return tuple_of(type(value), [_plain(part) for part in value])
    return value.told() if type(value) is Given else value


def _writer(value: Any, tape: Tape) -> Callable[[Sequence[Any]], Any]:
    """Return what gives the value again, of the numbers in the tape's slots."""
    if type(value) is Given and value.tape is tape:
        slot = value.slot
        return lambda numbers: numbers[slot]
    if isinstance(value, tuple):
        kind, parts = type(value), [_writer(part, tape) for part in value]
        return lambda numbers: tuple_of(kind, [part(numbers) for part in parts])
    return lambda numbers: value


@contextmanager
def swapped(contents: Sequence[Content], moving: Sequence[int], tape: Tape, first: int) -> Iterator[Swap]:
    """Trace with run-time numbers in the place of the constants ``moving``."""
    if moving:
        _SWAPPING.acquire()
    swap = None
    try:
        swap = Swap(contents, moving, tape, first)
        yield swap
    except BaseException:
        if swap is not None:
            swap.end(done=False)
        raise
    finally:
        if moving:
            _SWAPPING.release()


def write(writes: Iterable[Write], contents: Sequence[Content], numbers: Sequence[Any]) -> None:
    """Write what the traced function sets."""
    records = [record for content in contents for record in content.records]
    for n, place, value in writes:
        records[n].put(place, value(numbers))
        if records[n].told:
            structure_changed()
