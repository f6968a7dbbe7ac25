"""What emitted code that walks a table has in common: addresses in an arena, a step's call, and a look for a fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.devices.cpu.native.layouts import FAULT, STEP
from weft.devices.cpu.native.routine import Array, Body, Value


def place(f: Body, slots: Array, base: Value, offsets: Array, count: Value) -> None:
    """The addresses of temporaries in an arena that begins at ``base``."""
    with f.each(count) as k:
        slots[k] = base + offsets[k]


def call_step(f: Body, step: Value, slots: Array, packed: Array) -> tuple[Value, Value]:
    """Call a step with what its slots hold, by way of ``packed``: what is looked at afterwards, and the step behind it."""
    row = f.record(step, STEP)
    function, count, check = row["function"], row["count"], row["check"]
    arguments = f.array(step).part(len(STEP))
    after = arguments.at(count)
    with f.each(count) as k:
        packed[k] = slots[arguments[k]]
    f.call_address(f.array(function, "ptr")[0], packed.pointer)
    return check, after


@contextmanager
def where_faulted(f: Body, check: Value, record: Value) -> Iterator[None]:
    """Where the step that ran told a fault; the record then has the number that the site has in the Program."""
    first = check >> 1  # plus one; 0 where the step checks nothing
    with f.when(first != 0):
        fault = f.record(record, FAULT)
        site = fault["site"]
        with f.when(site != 0):
            fault["site"] = site + (first - 1)
            yield
