"""Common parts of emitted code that executes a table: addresses in an arena, calls of steps, checks for faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.devices.cpu.native.layouts import FAULT, STEP
from weft.devices.cpu.native.routine import Array, Body, Value


def place(f: Body, slots: Array, base: Value, offsets: Array, count: Value) -> None:
    """Set the slots of temporaries to their addresses in an arena at ``base``."""
    with f.each(count) as k:
        slots[k] = base + offsets[k]


def call_step(f: Body, step: Value, slots: Array, packed: Array) -> tuple[Value, Value]:
    """Call a step, with its arguments copied from the slots to ``packed``. Return its check word and the next step."""
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
    """Emit a block that runs if the last step reported a fault. It first makes the record's site number that of the Program."""
    first = check >> 1  # first site plus one; 0 if the step checks no index
    with f.when(first != 0):
        fault = f.record(record, FAULT)
        site = fault["site"]
        with f.when(site != 0):
            fault["site"] = site + (first - 1)
            yield
