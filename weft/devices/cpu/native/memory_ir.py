"""Buffers in emitted code: creation, destruction and export of the Python type Buffer.

It is native because creating an output must not cost more than the rest of a call. A *home* is the list of idle blocks of one
size class. All functions here require the interpreter lock.
"""

from __future__ import annotations

from weft.devices.cpu.native import imported_symbols
from weft.devices.cpu.native.layouts import ALLOCATOR, BUFFER, HOME
from weft.devices.cpu.native.routine import Body, Value, routine

BUILTIN = "(ptr self, ptr args, i64 nargs)"  # CPython's METH_FASTCALL convention


@routine("void weft_give(ptr home, i64 address)")
def give(f: Body, home: Value, address: Value) -> None:
    """Append a block to its home's list. If the list cannot grow, the block is leaked."""
    idle = f.record(home, HOME)
    count = idle["count"]
    capacity = idle["capacity"]
    with f.when(count >= capacity):
        more = (capacity << 1) + 16
        items = f.call("realloc", idle["items"], more << 3)
        f.ret_if(items.null)
        idle["items"] = items
        idle["capacity"] = more
    f.array(idle["items"])[count] = address
    idle["count"] = count + 1


@routine("i64 weft_idle(ptr home)")
def take_idle(f: Body, home: Value) -> None:
    """Return an idle block, or 0."""
    idle = f.record(home, HOME)
    count = idle["count"]
    f.ret_if(count == 0, 0)
    left = count - 1
    idle["count"] = left
    f.ret(f.array(idle["items"])[left])


@routine("i64 weft_block(ptr allocator, ptr home)")
def block(f: Body, allocator: Value, home: Value) -> None:
    """Return a block from the home or else, through Python, from the system; 0 with an exception set if there is no memory."""
    idle = f.call(take_idle, home)
    f.ret_unless(idle == 0, idle)
    number = f.call("PyLong_FromUnsignedLongLong", f.record(home, HOME)["size"])
    f.ret_if(number.null, 0)
    answer = f.call("PyObject_CallOneArg", f.record(allocator, ALLOCATOR)["fresh"], number)
    f.call("Py_DecRef", number)
    f.ret_if(answer.null, 0)
    new = f.call("PyLong_AsUnsignedLongLong", answer)
    f.call("Py_DecRef", answer)
    f.ret(new)


@routine("ptr weft_make(ptr allocator, ptr home, i64 nbytes)")
def make(f: Body, allocator: Value, home: Value, nbytes: Value) -> None:
    """Return a new buffer, or null with an exception set if there is no memory."""
    address = f.call(block, allocator, home)
    f.ret_if(address == 0, None)
    new = f.call("_PyObject_New", f.record(allocator, ALLOCATOR)["type"])
    with f.when(new.null):
        f.call(give, home, address)
        f.ret(None)
    buffer = f.record(new, BUFFER)
    buffer["address"] = address
    buffer["nbytes"] = nbytes
    buffer["home"] = home
    buffer["export_count"] = 0
    buffer["weak"] = None
    f.ret(new)


@routine("void weft_buffer_free(ptr self)", exported=True)
def free(f: Body, self: Value) -> None:
    """Free a buffer (tp_dealloc): return its block to its home."""
    buffer = f.record(self, BUFFER)
    with f.unless(buffer["weak"].null):
        f.call("PyObject_ClearWeakRefs", self)
    f.call(give, buffer["home"], buffer["address"])
    its_type = buffer["type"]
    f.call("PyObject_Free", self)
    f.call("Py_DecRef", its_type)


@routine("i32 weft_buffer_export(ptr self, ptr view, i32 flags)", exported=True)
def export(f: Body, self: Value, view: Value, flags: Value) -> None:
    """Export the memory as bytes through the buffer protocol, and count the export."""
    buffer = f.record(self, BUFFER)
    failed = f.call("PyBuffer_FillInfo", view, self, buffer["address"].to("ptr"), buffer["nbytes"], 0, flags)
    with f.when(failed == 0):
        buffer["export_count"] = buffer["export_count"] + 1
    f.ret(failed)


@routine("void weft_buffer_release(ptr self, ptr view)", exported=True)
def release(f: Body, self: Value, view: Value) -> None:
    buffer = f.record(self, BUFFER)
    buffer["export_count"] = buffer["export_count"] - 1


@routine("ptr weft_fill" + BUILTIN, exported=True)
def fill(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (address, array): copy the bytes of a C-contiguous array to an address."""
    arguments = f.array(args, "ptr")
    view = f.allocate_fixed(f"[{imported_symbols.BUFFER_ROOM} x i8]")
    target = f.call("PyLong_AsVoidPtr", arguments[0])
    failed = f.call("PyObject_GetBuffer", arguments[1], view, imported_symbols.BUF_C_CONTIGUOUS)
    f.ret_unless(failed == 0, None)
    exported = f.record(view, imported_symbols.PY_BUFFER)
    f.copy(target, exported["address"], exported["nbytes"])
    f.call("PyBuffer_Release", view)
    return_none(f)


@routine("ptr weft_buffer" + BUILTIN, exported=True)
def buffer(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (home, nbytes) -> Buffer. self: the allocator."""
    allocator = f.call("PyLong_AsVoidPtr", self)
    check_argument_count(f, nargs, 2)
    arguments = f.array(args, "ptr")
    home = f.call("PyLong_AsVoidPtr", arguments[0])
    f.ret(f.call(make, allocator, home, f.call("PyLong_AsUnsignedLongLong", arguments[1])))


@routine("ptr weft_pop" + BUILTIN, exported=True)
def pop(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (home) -> address of an idle block, or 0. self: the allocator."""
    home = f.call("PyLong_AsVoidPtr", f.array(args, "ptr")[0])
    f.ret(f.call("PyLong_FromUnsignedLongLong", f.call(take_idle, home)))


@routine("ptr weft_push" + BUILTIN, exported=True)
def push(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (home, address): append a block to its home. self: the allocator."""
    arguments = f.array(args, "ptr")
    home = f.call("PyLong_AsVoidPtr", arguments[0])
    f.call(give, home, f.call("PyLong_AsUnsignedLongLong", arguments[1]))
    return_none(f)


def return_none(f: Body) -> None:
    none = f.symbol("_Py_NoneStruct")
    f.call("Py_IncRef", none)
    f.ret(none)


def check_argument_count(f: Body, nargs: Value, wanted: int | Value) -> None:
    """Emit a check that raises unless ``nargs`` is ``wanted``."""
    with f.unless(nargs == wanted):
        f.call("PyErr_BadArgument")
        f.ret(None)


ROUTINES = (give, take_idle, block, make, free, export, release, fill, buffer, pop, push)
