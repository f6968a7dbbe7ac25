"""Small work in emitted code: what operators and elements (``operators_ir.py``, ``elements_ir.py``) have in common.

Each is a builtin that Python asks first. It answers None where the case is not a plain one, and then Python goes its own way: of
views that nobody followed yet, pending arrays, traces, other classes, dtypes that do not fit, large results. ``small.py`` writes
the tables.
"""

from __future__ import annotations

from weft.devices.cpu.native.call_fast_ir import filled
from weft.devices.cpu.native.imported_symbols import OBJECT, PY_EQ, TUPLE, WEAKREF
from weft.devices.cpu.native.layouts import BUFFER, FLOAT32, FLOAT64, FORMAT, INTEGER, SMALL_STATE, Layout, extent, offset
from weft.devices.cpu.native.memory_ir import make, return_none
from weft.devices.cpu.native.routine import Array, Body, Record, Value, routine


def state_of(f: Body) -> Record:
    return f.record(f.symbol("weft_small_state"), SMALL_STATE)


def slot(f: Body, object_: Value, name: str) -> Array:
    """A slot of an object, the place of which the state tells: an array of one."""
    return f.array(f.array(object_, "i8").at(state_of(f)[name]), "ptr")


def length(f: Body, tuple_: Value) -> Value:
    """How many items a tuple has."""
    return f.record(tuple_, TUPLE)["length"]


def items(f: Body, tuple_: Value) -> Array:
    """The items of a tuple."""
    return f.array(f.array(tuple_, "i8").at(offset(TUPLE, "items")), "ptr")


def integer(f: Body, object_: Value) -> Value:
    """A Python integer, cut to 64 bits."""
    return f.call("PyLong_AsUnsignedLongLongMask", object_)


def none_unless(f: Body, plain: Value) -> None:
    """Answer None, unless the case is a plain one."""
    with f.unless(plain):
        return_none(f)


# ---- what is asked of operands


@routine("i64 weft_small_limit()")
def limit(f: Body) -> None:
    """How many bytes a result may have to be computed at once in this thread, now; 0 in traces, gradients and the like."""
    state = state_of(f)
    me = f.call("PyThreadState_GetID", f.call("PyThreadState_Get"))  # no two threads ever have the same
    with f.unless(state["thread"] == me):
        own = f.call("PyObject_GetAttr", state["local"], state["dict"])
        with f.when(own.null):
            f.call("PyErr_Clear")
            f.ret(0)
        before = state["own"]
        state["own"] = own
        state["thread"] = me
        f.call("Py_DecRef", before)
    found = f.call("PyDict_GetItemWithError", state["own"], state["limit"])
    with f.when(found.null):
        f.ret(0)
    overflow = f.fixed_room("i64")
    f.ret(f.call("PyLong_AsLongLongAndOverflow", found, overflow))


@routine("ptr weft_small_content(ptr object)")
def content(f: Body, object_: Value) -> None:
    """The node of an array whose content is computed; else null. A view has one where it was followed already."""
    state, none = state_of(f), f.symbol("_Py_NoneStruct")
    its_type = f.record(object_, OBJECT)["type"]
    with f.unless((its_type == state["array"]) | (its_type == state["scalar_type"])):
        f.ret(None)
    base = slot(f, object_, "base")[0]
    with f.unless(base == none):
        source = slot(f, object_, "source")[0]
        with f.when(source == none):
            f.ret(None)
        with f.unless(f.record(source, WEAKREF)["target"] == slot(f, base, "content")[0]):
            f.ret(None)
    node = slot(f, object_, "content")[0]
    with f.when(node.null):
        f.ret(None)
    value = slot(f, node, "value")[0]
    buffers = f.array(state["allocator"], "ptr")[0]
    with f.unless(f.record(value, OBJECT)["type"] == buffers):  # pending, a number, or somebody else's memory
        f.ret(None)
    f.ret(node)


def address(f: Body, node: Value) -> Value:
    return f.record(slot(f, node, "value")[0], BUFFER)["address"]


@routine("i1 weft_small_own(ptr object)")
def own(f: Body, object_: Value) -> None:
    """Whether an array may be written into: it is no value, and holds its own content."""
    state = state_of(f)
    is_array = f.record(object_, OBJECT)["type"] == state["array"]
    f.ret(is_array & (slot(f, object_, "base")[0] == f.symbol("_Py_NoneStruct")))


@routine("i64 weft_small_size(ptr shape)")
def size(f: Body, shape: Value) -> None:
    """How many elements a shape has."""
    out, extents = f.variable("i64", 1), items(f, shape)
    with f.each(length(f, shape)) as k:
        out.now = out.now * integer(f, extents[k])
    f.ret(out.now)


@routine("ptr weft_small_format(ptr dtype)")
def format_(f: Body, dtype: Value) -> None:
    """What a dtype is in memory."""
    state = state_of(f)
    return_row(f, state["formats"], state["format_count"], FORMAT, dtype)


def return_row(f: Body, rows: Value, count: Value, layout: Layout, dtype: Value) -> None:
    """Return the row of a table that is about a dtype, or null."""
    table = f.array(rows, "i8")
    with f.each(count) as k:
        row = f.record(table.at(k * extent(layout)), layout)
        with f.when(row["dtype"] == dtype):
            f.ret(row.pointer)
    f.ret(None)


@routine("i1 weft_small_number(ptr object, ptr format, ptr room)")
def number(f: Body, object_: Value, format__: Value, room: Value) -> None:
    """Write a Python number as an element, if it is one that is given to this dtype without a word."""
    row = f.record(format__, FORMAT)
    kind, its_type = row["kind"], f.record(object_, OBJECT)["type"]
    whole, real = kind >= INTEGER, (kind == FLOAT32) | (kind == FLOAT64)
    as_double = f.variable("double", 0.0)
    with f.when((its_type == f.symbol("PyFloat_Type")) & real):
        value = f.call("PyFloat_AsDouble", object_)
        with f.unless((value >= -65504.0) & (value <= 65504.0)):  # Python warns of some that are larger
            f.ret(False)
        as_double.now = value
    with f.otherwise():
        with f.unless((its_type == f.symbol("PyLong_Type")) & (whole | real)):
            f.ret(False)
        overflow = f.fixed_room("i64")
        whole_number = f.call("PyLong_AsLongLongAndOverflow", object_, overflow)
        fits = (f.array(overflow, "i32")[0] == 0) & (whole_number >= row["least"]) & (whole_number <= row["most"])
        with f.unless(fits):
            f.ret(False)
        with f.when(whole):
            _stored(f, room, whole_number, row["bytes"])
            f.ret(True)
        as_double.now = whole_number.to("double")
    with f.when(kind == FLOAT32):
        f.array(room, "float")[0] = as_double.now.to("float")
    with f.otherwise():
        f.array(room, "double")[0] = as_double.now
    f.ret(True)


INTEGERS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


def _stored(f: Body, where: Value, number_: Value, nbytes: Value) -> None:
    for width, type_ in INTEGERS.items():
        with f.when(nbytes == width):
            f.array(where, type_)[0] = number_.to(type_)


@routine("i1 weft_small_same(ptr shape, ptr other)")
def same(f: Body, shape: Value, other: Value) -> None:
    with f.when(shape == other):
        f.ret(True)
    with f.unless(length(f, shape) == length(f, other)):
        f.ret(False)
    extents, others = items(f, shape), items(f, other)
    with f.each(length(f, shape)) as k:
        with f.unless(extents[k] == others[k]):  # not the same object: small integers are
            f.ret(f.call("PyObject_RichCompareBool", shape, other, PY_EQ) == 1)
    f.ret(True)


# ---- what comes out


@routine("ptr weft_small_made(i64 nbytes)")
def made(f: Body, nbytes: Value) -> None:
    """A buffer for a result."""
    state = state_of(f)
    place = f.variable("i64", (nbytes + 63) >> 6)
    with f.when(nbytes > 1024):
        shift = f.constant("i64", 61) - f.call("llvm.ctlz.i64", nbytes - 1, False)
        place.now = ((shift - 8) << 2) + ((nbytes - 1) >> shift) + 13
    home = f.array(state["homes"], "ptr")[place.now]
    f.ret(f.call(make, state["allocator"], home, nbytes))


@routine("ptr weft_small_node(ptr op, ptr params, ptr shape, ptr dtype, ptr buffer)")
def node(f: Body, op: Value, params: Value, shape: Value, dtype: Value, buffer: Value) -> None:
    """A Node of a buffer, which it takes over; null with an exception set if there is no memory."""
    state = state_of(f)
    new = f.call(filled, state["node_type"], state["node"], state["node_slots"])
    with f.when(new.null):
        f.call("Py_DecRef", buffer)
        f.ret(None)
    for name, object_ in (("op", op), ("params", params), ("shape", shape), ("dtype", dtype)):
        f.call("Py_IncRef", object_)
        slot(f, new, name)[0] = object_
    slot(f, new, "value")[0] = buffer
    f.ret(new)


@routine("ptr weft_small_array(ptr node, i1 value)")
def array(f: Body, node_: Value, value: Value) -> None:
    """An Array, or a Scalar, of a node, which it takes over."""
    state = state_of(f)
    with f.when(node_.null):
        f.ret(None)
    new = f.call(filled, value.pick(state["scalar_type"], state["array"]), state["result"], state["result_slots"])
    with f.when(new.null):
        f.call("Py_DecRef", node_)
        f.ret(None)
    slot(f, new, "content")[0] = node_
    f.ret(new)


ROUTINES = (limit, content, own, size, format_, number, same, made, node, array)
