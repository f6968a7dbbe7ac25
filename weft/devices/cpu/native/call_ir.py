"""Emitted builtins that run a Program: with existing outputs, or with outputs that the call creates."""

from __future__ import annotations

from weft.devices.cpu.native.layouts import ALLOCATOR, BUFFER, CALL, COUNTERS, RELEASE_ABOVE_WORK
from weft.devices.cpu.native.memory_ir import BUILTIN, block, check_argument_count, give, make, return_none
from weft.devices.cpu.native.routine import Body, Value, routine
from weft.devices.cpu.native.walk_ir import execute, parts


@routine("ptr weft_run" + BUILTIN, exported=True)
def run(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (inputs, outputs, arena): run a Program with existing outputs."""
    table = f.call("PyLong_AsVoidPtr", self)
    check_argument_count(f, nargs, 3)
    arguments = f.array(args, "ptr")
    inputs, outputs = arguments[0], arguments[1]
    arena = f.call("PyLong_AsUnsignedLongLong", arguments[2])
    with f.unless(f.call(execute, table, inputs, outputs, arena)):
        f.ret(None)
    return_none(f)


@routine("ptr weft_call" + BUILTIN, exported=True)
def call(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (inputs, held or None) -> list of outputs: new buffers or donated inputs."""
    table = f.call("PyLong_AsVoidPtr", self)
    check_argument_count(f, nargs, 2)
    arguments = f.array(args, "ptr")
    inputs, held = arguments[0], arguments[1]
    words = f.record(table, CALL)
    ni, no, allocator, home = words["ni"], words["no"], words["allocator"], words["home"]
    _, sizes, homes, _ = parts(f, table, ni, no)
    check_argument_count(f, f.call("PyList_Size", inputs), ni)
    outputs = f.call("PyList_New", no)
    with f.when(outputs.null):
        f.ret(None)

    def fail() -> None:
        f.call("Py_DecRef", outputs)
        f.ret(None)

    with f.unless((held == f.symbol("_Py_NoneStruct")) | (words["nd"] == 0)):
        with f.unless(f.call("PyList_Size", held) == ni):
            f.call("PyErr_BadArgument")
            fail()
        f.call(donate, table, inputs, held, outputs)
    with f.each(no) as k:
        with f.when(f.call("PyList_GetItem", outputs, k).null):
            new = f.call(make, allocator, homes[k].to("ptr"), sizes[k])
            with f.when(new.null):
                fail()
            f.call("PyList_SetItem", outputs, k, new)
    with f.when(home.null):
        with f.unless(f.call(execute, table, inputs, outputs, 0)):
            fail()
        f.ret(outputs)
    arena = f.call(block, allocator, home)
    with f.when(arena == 0):
        fail()
    succeeded = f.call(execute, table, inputs, outputs, arena)
    f.call(give, home, arena)
    with f.unless(succeeded):
        fail()
    f.ret(outputs)


@routine("void weft_donate(ptr table, ptr inputs, ptr held, ptr outputs)")
def donate(f: Body, table: Value, inputs: Value, held: Value, outputs: Value) -> None:
    """Use unshared inputs as outputs, for the pairs in the table."""
    words = f.record(table, CALL)
    ni, no = words["ni"], words["no"]
    _, sizes, _, pairs = parts(f, table, ni, no)
    buffers = f.record(words["allocator"], ALLOCATOR)["type"]
    with f.each(words["nd"]) as k:
        pair = pairs.part(k << 1)
        i, o = pair[0], pair[1]
        with f.unless(f.call("PyList_GetItem", held, i) == f.symbol("_Py_FalseStruct")):
            f.again()
        candidate = f.call("PyList_GetItem", inputs, i)
        buffer = f.record(candidate, BUFFER)
        with f.unless(buffer["type"] == buffers):
            f.again()
        fits = (buffer["exported"] == 0) & (buffer["nbytes"] == sizes[o])
        with f.unless(fits & f.call("PyList_GetItem", outputs, o).null):
            f.again()
        # the buffer must not be another input or already an output
        with f.unless((f.call(count, inputs, ni, candidate) == 1) & (f.call(count, outputs, no, candidate) == 0)):
            f.again()
        f.call("Py_IncRef", candidate)
        f.call("PyList_SetItem", outputs, o, candidate)


@routine("i64 weft_count(ptr list, i64 length, ptr object)")
def count(f: Body, list_: Value, length: Value, object_: Value) -> None:
    """Return how often an object occurs in a list."""
    total = f.variable("i64", 0)
    with f.each(length) as k:
        total.now = total.now + (f.call("PyList_GetItem", list_, k) == object_).to("i64")
    f.ret(total.now)


@routine("void weft_copy(ptr args)", exported=True)
def copy(f: Body, args: Value) -> None:
    """Copy memory. args: source, target, bytes; source and target may overlap."""
    source, target, nbytes = f.array(args, "ptr")[0], f.array(args, "ptr")[1], f.array(args)[2]
    with f.unless(source == target):
        f.call("llvm.memmove.p0.p0.i64", target, source, nbytes, False)


@routine("ptr weft_apply" + BUILTIN, exported=True)
def apply(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (words...): call a dynamic kernel with these words. self: its address; words[0]: amount of work."""
    arguments, words = f.array(args, "ptr"), f.room("i64", nargs + 1)
    words[0] = 0
    with f.each(nargs) as k:
        words[k] = f.call("PyLong_AsUnsignedLongLongMask", arguments[k])
    function = f.call("PyLong_AsVoidPtr", self)
    with f.unless(f.call("PyErr_Occurred").null):
        f.ret(None)
    counters = f.record(f.symbol("weft_counters"), COUNTERS)
    counters["sized"] = counters["sized"] + 1
    release = words[0] > RELEASE_ABOVE_WORK
    thread = f.variable("ptr", None)
    with f.when(release):
        thread.now = f.call("PyEval_SaveThread")
    f.call_address(function, words.pointer)
    with f.when(release):
        f.call("PyEval_RestoreThread", thread.now)
    return_none(f)


ROUTINES = (run, call, donate, count, copy, apply)
