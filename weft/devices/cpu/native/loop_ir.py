"""Loops as emitted code: one function walks the steps of a body, as often as its descriptor says.

``weft_loop`` is called as a kernel is. Its slots: the descriptor, scratch, the body's arena, the run's record, then for each
carry (init, last, spare or tape), each stacked operand, each stacked result, each constant. The descriptor is a table: see
``layouts.LOOP``.

The body's slots: its inputs, its outputs, arena offsets, numbers, scratch, the record. What changes lies on the stack: loops
nest, and several threads may run one at once. A fault in the record (see ``tables.py``) ends the loop.
"""

from __future__ import annotations

from weft.devices.cpu.native.layouts import HEADER, LOOP
from weft.devices.cpu.native.routine import Array, Body, Value, routine
from weft.devices.cpu.native.table_ir import call_step, place, where_faulted


@routine("void weft_loop(ptr args)", exported=True)
def loop(f: Body, args: Value) -> None:
    given = f.array(args)
    table = given[0].to("ptr")
    words = f.record(table, LOOP)
    carries, xs, ys, constants = words["carries"], words["xs"], words["ys"], words["constants"]
    length, na, numbers, ns, every = words["length"], words["na"], words["numbers"], words["ns"], words["every"]
    record = given[3].to("ptr")
    # what it is given
    given_carries = given.part(4)
    given_xs = given_carries.part(carries * 3)
    given_ys = given_xs.part(xs)
    # what the descriptor lists
    about = f.array(table).part(HEADER)
    stride_xs = about.part(carries << 1)
    stride_ys = stride_xs.part(xs)
    offsets = stride_ys.part(ys)
    literals = offsets.part(na)
    first_step = literals.at(numbers)
    # the slots of the body
    slots = f.room("i64", words["total"])
    packed = f.room("i64", words["most"])
    slot_xs = slots.part(carries)
    slot_constants = slot_xs.part(xs)
    slot_out = slot_constants.part(constants)
    slot_ys = slot_out.part(carries)
    slot_arena = slot_ys.part(ys)
    slot_numbers = slot_arena.part(na)
    rest = slot_numbers.part(numbers)
    rest[0] = given[1]
    rest[1] = given[3]
    f.copy(slot_constants.pointer, given_ys.at(ys), constants << 3)
    f.copy(slot_numbers.pointer, literals.pointer, numbers << 3)
    place(f, slot_arena, given[2], offsets, na)

    backward = words["reverse"] != 0
    direction = backward.pick(-1, 1)
    since = f.variable("i64")  # the last look for signals
    with f.each(length) as t:
        left = length - 1 - t
        here = backward.pick(left, t)
        with f.each(carries) as c:
            slots[c], slot_out[c] = _carry(f, given_carries.part(c * 3), about.part(c << 1), t, left, here, here + direction)
        f.call(slices, slot_xs.pointer, given_xs.pointer, stride_xs.pointer, xs, here)
        f.call(slices, slot_ys.pointer, given_ys.pointer, stride_ys.pointer, ys, here)
        step = f.variable("ptr", first_step)
        with f.each(ns):
            check, step.now = call_step(f, step.now, slots, packed)
            with where_faulted(f, check, record):
                f.ret()
        since.now = since.now + 1
        with f.when((every != 0) & (since.now >= every)):
            since.now = 0
            # the driver has given the interpreter lock up; it finds the exception when the loop is left
            held = f.call("PyGILState_Ensure")
            interrupted = f.call("PyErr_CheckSignals")
            f.call("PyGILState_Release", held)
            with f.unless(interrupted == 0):
                f.ret()


def _carry(
    f: Body, given: Array, about: Array, turn: Value, left: Value, here: Value, beyond: Value,
) -> tuple[Value, Value]:
    """Where the body finds a carry, and where it puts the next one: from place to place of a tape, or two memories in turn.

    Both ends at the last one, ``left`` turns from now; the first is ``init``, which a tape begins with as a copy.
    """
    init, last, other = given[0], given[1], given[2]
    tape, nbytes = about[0], about[1]
    is_first = turn == 0
    into, out = f.variable("i64"), f.variable("i64")
    with f.unless(tape == 0):
        into.now = other + here * nbytes
        out.now = (left == 0).pick(last, other + beyond * nbytes)
        with f.when(is_first):
            f.copy(into.now.to("ptr"), init.to("ptr"), nbytes)
    with f.otherwise():
        odd = left.to("i1")
        out.now = odd.pick(other, last)
        into.now = is_first.pick(init, odd.pick(last, other))
    return into.now, out.now


@routine("void weft_slices(ptr to, ptr from, ptr strides, i64 count, i64 place)")
def slices(f: Body, to: Value, from_: Value, strides: Value, count: Value, place_: Value) -> None:
    """to[k] = from[k] + place * stride[k]"""
    with f.each(count) as k:
        f.array(to)[k] = f.array(from_)[k] + f.array(strides)[k] * place_


ROUTINES = (loop, slices)
