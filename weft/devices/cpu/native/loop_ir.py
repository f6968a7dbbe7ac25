"""Loops in emitted code: one function executes the steps of a loop body, for the iterations given by a descriptor.

``weft_loop`` is called like a kernel. Its arguments: the descriptor (a table, see ``layouts.LOOP``), scratch, the body's arena,
the run's fault record, then (init, last, spare or tape) of each carry, each stacked operand, stacked result and constant, and the
number of steps of a counted loop.

The body's slots: inputs, outputs, arena offsets, constants, scratch, the fault record. They are on the stack: loops nest, and
several threads may run one loop at the same time. A fault in the record (see ``call.py``) ends the loop.

A step costs about 0.05 us beside its kernels. Carries alternate between two memories, move along the tape, or stay in place if
the body's Program may write them in place. The outermost loop handles signals every 20 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.devices.cpu.native.layouts import FAULT, HEADER, LOOP, STEP
from weft.devices.cpu.native.routine import Array, Body, Value, routine


def place(f: Body, slots: Array, base: Value, offsets: Array, count: Value) -> None:
    """Set the slots of temporaries to their addresses in an arena at ``base``."""
    with f.count_to(count) as k:
        slots[k] = base + offsets[k]


def call_step(f: Body, step: Value, slots: Array, packed: Array) -> tuple[Value, Value]:
    """Call a step, with its arguments copied from the slots to ``packed``. Return its check word and the next step."""
    row = f.record(step, STEP)
    function, count, check = row["function"], row["count"], row["check"]
    arguments = f.array(step).part(len(STEP))
    after = arguments.at(count)
    with f.count_to(count) as k:
        packed[k] = slots[arguments[k]]
    f.call_address(function, packed.pointer)
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


@routine("void weft_loop(ptr args)", exported=True)
def loop(f: Body, args: Value) -> None:
    arguments = f.array(args)
    table = arguments[0].to("ptr")
    words = f.record(table, LOOP)
    carries, xs, ys, constants = words["carries"], words["xs"], words["ys"], words["constants"]
    na, numbers, ns, every, until = words["na"], words["numbers"], words["ns"], words["every"], words["until"] != 0
    record = arguments[3].to("ptr")
    # arguments
    carry_arguments = arguments.part(4)
    xs_arguments = carry_arguments.part(carries * 3)
    ys_arguments = xs_arguments.part(xs)
    constant_arguments = ys_arguments.part(ys)
    steps = f.variable("i64", words["length"])
    with f.when(words["counted"] != 0):
        count = f.array(constant_arguments[constants].to("ptr"))[0]
        steps.now = (count < 0).pick(0, count.minimum(words["length"]))
    length = steps.now
    # lists of the descriptor
    carry_table = f.array(table).part(HEADER)
    stride_xs = carry_table.part(carries << 1)
    stride_ys = stride_xs.part(xs)
    offsets = stride_ys.part(ys)
    literals = offsets.part(na)
    first_step = literals.at(numbers)
    # slots of the body
    slots = f.allocate_stack("i64", words["total"])
    packed = f.allocate_stack("i64", words["most"])
    slot_xs = slots.part(carries)
    slot_constants = slot_xs.part(xs)
    slot_out = slot_constants.part(constants)
    slot_ys = slot_out.part(carries)
    slot_arena = slot_ys.part(ys)
    slot_numbers = slot_arena.part(na)
    rest = slot_numbers.part(numbers)
    rest[0] = arguments[1]
    rest[1] = arguments[3]
    f.copy(slot_constants.pointer, constant_arguments.pointer, constants << 3)
    f.copy(slot_numbers.pointer, literals.pointer, numbers << 3)
    place(f, slot_arena, arguments[2], offsets, na)

    with f.count_to(carries) as c:
        slot_out[c] = carry_arguments[c * 3]
    with f.when(length < words["length"]):
        f.call(clear, ys_arguments.pointer, stride_ys.pointer, ys, length, words["length"] - length)
    with f.when(length == 0):
        f.call(finish, slot_out.pointer, carry_arguments.pointer, carry_table.pointer, carries)
    backward = words["reverse"] != 0
    direction = backward.pick(-1, 1)
    since = f.variable("i64")  # iterations since the last check for signals
    with f.count_to(length) as t:
        left = length - 1 - t
        index = backward.pick(left, t)
        with f.when(until):
            ended = f.array(slot_out[0].to("ptr"), "i8")[0] == 0
            with f.when(ended):
                f.call(finish, slot_out.pointer, carry_arguments.pointer, carry_table.pointer, carries)
                f.call(clear, ys_arguments.pointer, stride_ys.pointer, ys, t, length - t)
                f.ret()
        with f.count_to(carries) as c:
            addresses, row = carry_arguments.part(c * 3), carry_table.part(c << 1)
            slots[c], slot_out[c] = _carry(f, addresses, row, t, left, index, index + direction)
        f.call(slices, slot_xs.pointer, xs_arguments.pointer, stride_xs.pointer, xs, index)
        f.call(slices, slot_ys.pointer, ys_arguments.pointer, stride_ys.pointer, ys, index)
        step = f.variable("ptr", first_step)
        with f.count_to(ns):
            check, step.now = call_step(f, step.now, slots, packed)
            with where_faulted(f, check, record):
                f.ret()
        since.now = since.now + 1
        with f.when((every != 0) & (since.now >= every)):
            since.now = 0
            # the caller has released the interpreter lock; it sees the exception after the loop
            gil_state = f.call("PyGILState_Ensure")
            interrupted = f.call("PyErr_CheckSignals")
            f.call("PyGILState_Release", gil_state)
            with f.unless(interrupted == 0):
                f.ret()


def _carry(
    f: Body, addresses: Array, row: Array, turn: Value, left: Value, index: Value, beyond: Value,
) -> tuple[Value, Value]:
    """Return the addresses where the body reads a carry and writes the next value.

    They move along the tape, which starts with a copy of ``init``, or alternate between two buffers. ``left`` iterations from
    now, in the last iteration, the body writes to ``last``.
    """
    init, last, other = addresses[0], addresses[1], addresses[2]
    tape, nbytes = row[0], row[1]
    is_first = turn == 0
    into, out = f.variable("i64"), f.variable("i64")
    with f.unless(tape == 0):
        into.now = other + index * nbytes
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
    """Set to[k] = from[k] + place * strides[k]."""
    with f.count_to(count) as k:
        f.array(to)[k] = f.array(from_)[k] + f.array(strides)[k] * place_


@routine("void weft_finish_carries(ptr now, ptr arguments, ptr table, i64 count)")
def finish(f: Body, now: Value, arguments: Value, table: Value, count: Value) -> None:
    """Copy each carry from where the last step left it to ``last``."""
    with f.count_to(count) as k:
        last, source = f.array(arguments)[k * 3 + 1], f.array(now)[k]
        with f.unless(source == last):
            f.copy(last.to("ptr"), source.to("ptr"), f.array(table)[(k << 1) + 1])


@routine("void weft_clear_rows(ptr results, ptr strides, i64 count, i64 first, i64 rows)")
def clear(f: Body, results: Value, strides: Value, count: Value, first: Value, rows: Value) -> None:
    """Set the rows of stacked results that no step computes to 0."""
    with f.count_to(count) as k:
        stride = f.array(strides)[k]
        f.call("llvm.memset.p0.i64", (f.array(results)[k] + first * stride).to("ptr"), 0, rows * stride, False)


ROUTINES = (loop, slices, finish, clear)
