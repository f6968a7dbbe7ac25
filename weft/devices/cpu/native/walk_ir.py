"""A run of a Program in emitted code: fill the slots of a table and call its steps in order.

The run owns the thread pool if it is free. The table's flags decide whether it releases the interpreter lock and flushes
denormals. Inputs and outputs are Python lists (``execute``) or are in their slots already (``walk``). Builtins run a Program with
existing outputs, or with outputs that the call creates.

Each run has its own fault record (see ``call.py``); a fault ends the run after the step that reported it.
"""

from __future__ import annotations

from weft.devices.cpu.native import layouts, pool_ir
from weft.devices.cpu.native.imported_symbols import FLUSH_TO_ZERO
from weft.devices.cpu.native.loop_ir import call_step, place, where_faulted
from weft.devices.cpu.native.memory_ir import BUILTIN, block, check_argument_count, give, make, return_none
from weft.devices.cpu.native.routine import Array, Body, Value, routine
from weft.devices.cpu.native.worker_ir import load_mode, save_mode


@routine("i1 weft_item(ptr object, i64 kind, ptr name, ptr slot, ptr buffers)")
def item(f: Body, object_: Value, kind: Value, name: Value, slot: Value, buffers: Value) -> None:
    """Convert an object to a kernel argument and store it in a slot. Return False with an exception set if that fails.

    buffers: the class Buffer
    """
    out = f.array(slot)
    with f.when(kind == layouts.ADDRESS):
        buffer = f.record(object_, layouts.BUFFER)
        with f.when(buffer["type"] == buffers):
            out[0] = buffer["address"]
            f.ret(True)
        attribute = f.call("PyObject_GetAttr", object_, name)
        f.ret_if(attribute.null, False)
        address = f.call("PyLong_AsUnsignedLongLong", attribute)
        f.call("Py_DecRef", attribute)
        out[0] = address
        _succeed(f, address == -1)
    f.ret_if(kind == layouts.UNUSED, True)
    with f.when(kind == layouts.FLOAT32):
        number = f.call("PyFloat_AsDouble", object_)
        out[0] = 0
        f.array(slot, "float")[0] = number.to("float")
        _succeed(f, number == -1.0)
    with f.when(kind == layouts.FLOAT64):
        number = f.call("PyFloat_AsDouble", object_)
        f.array(slot, "double")[0] = number
        _succeed(f, number == -1.0)
    with f.when(kind == layouts.BOOLEAN):
        truth = f.call("PyObject_IsTrue", object_)
        out[0] = truth.to("i64")
        f.ret(truth >= 0)
    integer = f.call("PyLong_AsUnsignedLongLongMask", object_)
    out[0] = integer
    _succeed(f, integer == -1)


def _succeed(f: Body, suspect: Value) -> None:
    """Emit the return: False if the result is the error value (``suspect``) and an exception is set, else True."""
    with f.when(suspect):
        f.ret(f.call("PyErr_Occurred").null)
    f.ret(True)


@routine("i1 weft_execute(ptr table, ptr inputs, ptr outputs, i64 arena)")
def execute(f: Body, table: Value, inputs: Value, outputs: Value, arena: Value) -> None:
    """Fill the slots of a table from lists and run its steps. Return False if an exception is set."""
    words = f.record(table, layouts.CALL)
    ni, no, name = words["ni"], words["no"], words["name"]
    slots = f.allocate_stack("i64", words["total"])
    buffers = f.record(words["allocator"], layouts.ALLOCATOR)["type"]
    kinds = f.array(table).part(layouts.HEADER)
    is_valid = (f.call("PyList_Size", inputs) == ni) & (f.call("PyList_Size", outputs) == no)
    with f.unless(is_valid):
        f.call("PyErr_BadArgument")
        f.ret(False)
    with f.count_to(ni) as k:
        object_ = f.call("PyList_GetItem", inputs, k)
        f.ret_unless(f.call(item, object_, kinds[k], name, slots.at(k), buffers), False)
    with f.count_to(no) as k:
        object_ = f.call("PyList_GetItem", outputs, k)
        f.ret_unless(f.call(item, object_, layouts.ADDRESS, name, slots.at(ni + k), buffers), False)
    f.ret(f.call(walk, table, slots.pointer, arena))


def parts(f: Body, table: Value, ni: Value, no: Value) -> tuple[Array, Array, Array, Array]:
    """Return the lists of a table: kinds of inputs, bytes of outputs, homes of outputs, donations."""
    kinds = f.array(table).part(layouts.HEADER)
    sizes = kinds.part(ni)
    homes = sizes.part(no)
    return kinds, sizes, homes, homes.part(no)


@routine("i1 weft_walk(ptr table, ptr slots, i64 arena)")
def walk(f: Body, table: Value, slots_: Value, arena: Value) -> None:
    """Run the steps of a table whose slots for inputs and outputs are filled. Return False if an exception is set."""
    words = f.record(table, layouts.CALL)
    slots = f.array(slots_)
    record = f.allocate_fixed("[2 x i64]")
    f.record(record, layouts.FAULT)["site"] = 0
    ni, no, na, nc, flags = words["ni"], words["no"], words["na"], words["nc"], words["flags"]
    limit = words["workers"].to("i32")
    packed = f.allocate_stack("i64", words["most"])
    offsets = parts(f, table, ni, no)[3].part(words["nd"] << 1)
    constants = offsets.part(na)
    arena_slots = slots.part(ni + no)
    place(f, arena_slots, arena, offsets, na)
    rest = arena_slots.part(na)
    rest[0] = record.to("i64")
    f.copy(rest.at(1), constants.pointer, nc << 3)
    pool_ir.count_event(f, "entries")
    mode = save_mode(f)
    flush = flags & layouts.FLUSH != 0
    with f.when(flush):
        load_mode(f, mode | FLUSH_TO_ZERO)
    release = flags & layouts.RELEASE != 0
    thread = f.variable("ptr", None)
    with f.when(release):
        thread.now = f.call("PyEval_SaveThread")
    owner = f.call(pool_ir.enter, limit)

    def end(succeeded: bool) -> None:
        f.call(pool_ir.leave, owner)
        if succeeded:
            with f.when(release):
                f.call("PyEval_RestoreThread", thread.now)
        with f.when(flush):
            load_mode(f, mode)
        f.ret(succeeded)

    step = f.variable("ptr", constants.at(nc))
    with f.count_to(words["ns"]):
        check, step.now = call_step(f, step.now, slots, packed)
        with f.when(check != 0):
            with where_faulted(f, check, record):
                with f.when(release):
                    f.call("PyEval_RestoreThread", thread.now)
                f.call(tell, record)
                end(False)
            with f.when((check & 1 != 0) & release):
                f.call("PyEval_RestoreThread", thread.now)
                interrupted = f.call("PyErr_CheckSignals") != 0
                raised = ~f.call("PyErr_Occurred").null  # by a loop that was interrupted
                with f.when(interrupted | raised):
                    end(False)
                thread.now = f.call("PyEval_SaveThread")
    end(True)


@routine("void weft_tell(ptr record)", attributes="cold noinline nounwind")
def tell(f: Body, record: Value) -> None:
    """Set the exception IndexFault(site, index)."""
    fault = f.record(record, layouts.FAULT)
    site = f.call("PyLong_FromLongLong", fault["site"] - 1)
    index = f.call("PyLong_FromLongLong", fault["index"])
    f.ret_if(site.null | index.null)
    args = f.call("PyTuple_Pack", 2, site, index)
    f.call("Py_DecRef", site)
    f.call("Py_DecRef", index)
    f.ret_if(args.null)
    f.call("PyErr_SetObject", f.symbol("weft_index_fault"), args)
    f.call("Py_DecRef", args)


@routine("ptr weft_run" + BUILTIN, exported=True)
def run(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (inputs, outputs, arena): run a Program with existing outputs."""
    table = f.call("PyLong_AsVoidPtr", self)
    check_argument_count(f, nargs, 3)
    arguments = f.array(args, "ptr")
    inputs, outputs = arguments[0], arguments[1]
    arena = f.call("PyLong_AsUnsignedLongLong", arguments[2])
    f.ret_unless(f.call(execute, table, inputs, outputs, arena), None)
    return_none(f)


@routine("ptr weft_call" + BUILTIN, exported=True)
def call(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (inputs, held or None) -> list of outputs: new buffers or donated inputs."""
    table = f.call("PyLong_AsVoidPtr", self)
    check_argument_count(f, nargs, 2)
    arguments = f.array(args, "ptr")
    inputs, held = arguments[0], arguments[1]
    words = f.record(table, layouts.CALL)
    ni, no, allocator, home = words["ni"], words["no"], words["allocator"], words["home"]
    _, sizes, homes, _ = parts(f, table, ni, no)
    check_argument_count(f, f.call("PyList_Size", inputs), ni)
    outputs = f.call("PyList_New", no)
    f.ret_if(outputs.null, None)

    with f.unless((held == f.symbol("_Py_NoneStruct")) | (words["nd"] == 0)):
        with f.unless(f.call("PyList_Size", held) == ni):
            f.call("PyErr_BadArgument")
            f.call("Py_DecRef", outputs)
            f.ret(None)
        f.call(donate, table, inputs, held, outputs)
    with f.count_to(no) as k:
        with f.when(f.call("PyList_GetItem", outputs, k).null):
            new = f.call(make, allocator, homes[k].to("ptr"), sizes[k])
            f.ret_if(new.null, None, outputs)
            f.call("PyList_SetItem", outputs, k, new)
    with f.when(home.null):
        f.ret_if(~f.call(execute, table, inputs, outputs, 0), None, outputs)
        f.ret(outputs)
    arena = f.call(block, allocator, home)
    f.ret_if(arena == 0, None, outputs)
    succeeded = f.call(execute, table, inputs, outputs, arena)
    f.call(give, home, arena)
    f.ret_if(~succeeded, None, outputs)
    f.ret(outputs)


@routine("void weft_donate(ptr table, ptr inputs, ptr held, ptr outputs)")
def donate(f: Body, table: Value, inputs: Value, held: Value, outputs: Value) -> None:
    """Use unshared inputs as outputs, for the pairs in the table."""
    words = f.record(table, layouts.CALL)
    ni, no = words["ni"], words["no"]
    _, sizes, _, pairs = parts(f, table, ni, no)
    buffers = f.record(words["allocator"], layouts.ALLOCATOR)["type"]
    with f.count_to(words["nd"]) as k:
        pair = pairs.part(k << 1)
        i, o = pair[0], pair[1]
        f.continue_unless(f.call("PyList_GetItem", held, i) == f.symbol("_Py_FalseStruct"))
        candidate = f.call("PyList_GetItem", inputs, i)
        buffer = f.record(candidate, layouts.BUFFER)
        f.continue_unless(buffer["type"] == buffers)
        fits = (buffer["export_count"] == 0) & (buffer["nbytes"] == sizes[o])
        f.continue_unless(fits & f.call("PyList_GetItem", outputs, o).null)
        # the buffer must not be another input or already an output
        f.continue_unless((f.call(count, inputs, ni, candidate) == 1) & (f.call(count, outputs, no, candidate) == 0))
        f.call("Py_IncRef", candidate)
        f.call("PyList_SetItem", outputs, o, candidate)


@routine("i64 weft_count(ptr list, i64 length, ptr object)")
def count(f: Body, list_: Value, length: Value, object_: Value) -> None:
    """Return how often an object occurs in a list."""
    total = f.variable("i64", 0)
    with f.count_to(length) as k:
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
    arguments, words = f.array(args, "ptr"), f.allocate_stack("i64", nargs + 1)
    words[0] = 0
    with f.count_to(nargs) as k:
        words[k] = f.call("PyLong_AsUnsignedLongLongMask", arguments[k])
    function = f.call("PyLong_AsVoidPtr", self)
    f.ret_unless(f.call("PyErr_Occurred").null, None)
    pool_ir.count_event(f, "sized")
    release = words[0] > layouts.RELEASE_ABOVE_WORK
    thread = f.variable("ptr", None)
    with f.when(release):
        thread.now = f.call("PyEval_SaveThread")
    f.call_address(function, words.pointer)
    with f.when(release):
        f.call("PyEval_RestoreThread", thread.now)
    return_none(f)


ROUTINES = (item, execute, walk, tell, run, call, donate, count, copy, apply)
