"""Common parts of the native small operations (``operators_ir.py``, ``parts_ir.py``, ``views_ir.py`` and others).

Each operation is a builtin that Python calls first. It returns None, and Python takes over, for pending arrays, traces, other
classes, unsuitable dtypes and large results. ``call_tables.py`` writes the tables.
"""

from __future__ import annotations

from weft.devices.cpu.native.call_fast_ir import make_object
from weft.devices.cpu.native.imported_symbols import MAX_DIMS, OBJECT, PY_EQ, TUPLE, WEAKREF
from weft.devices.cpu.native.layouts import BUFFER, FLOAT32, FLOAT64, FORMAT, INTEGER, PLACE, SMALL_STATE, Layout, extent, offset
from weft.devices.cpu.native.memory_ir import make, return_none
from weft.devices.cpu.native.routine import Array, Body, Record, Value, routine

DIMS = f"[{MAX_DIMS} x i64]"  # the type of a word for each dimension


def state_of(f: Body) -> Record:
    return f.record(f.symbol("weft_small_state"), SMALL_STATE)


def slot(f: Body, object_: Value, name: str) -> Array:
    """Return a slot of an object as an array of one element; the state holds the slot's offset."""
    return f.array(f.array(object_, "i8").at(state_of(f)[name]), "ptr")


def length(f: Body, tuple_: Value) -> Value:
    """Return the length of a tuple."""
    return f.record(tuple_, TUPLE)["length"]


def items(f: Body, tuple_: Value) -> Array:
    """Return the items of a tuple as an array of pointers."""
    return f.array(f.array(tuple_, "i8").at(offset(TUPLE, "items")), "ptr")


def integer(f: Body, object_: Value) -> Value:
    """Return a Python int, truncated to 64 bits."""
    return f.call("PyLong_AsUnsignedLongLongMask", object_)


def none_unless(f: Body, condition: Value) -> None:
    """Emit ``return None`` unless a condition holds."""
    with f.unless(condition):
        return_none(f)


# ---- operands


@routine("i64 weft_small_limit()")
def limit(f: Body) -> None:
    """Return the largest result in bytes that this thread may compute eagerly; 0 inside traces, gradients and profiles."""
    state = state_of(f)
    me = f.call("PyThreadState_GetID", f.call("PyThreadState_Get"))  # never reused by another thread
    with f.unless(state["thread"] == me):
        own = f.call("PyObject_GetAttr", state["local"], state["dict"])
        with f.when(own.null):
            f.call("PyErr_Clear")
            f.ret(0)
        before = state["own"]
        state["own"] = own
        state["thread"] = me
        f.call("Py_DecRef", before)
    value = f.call("PyDict_GetItemWithError", state["own"], state["limit"])
    f.ret_if(value.null, 0)
    overflow = f.allocate_fixed("i64")
    f.ret(f.call("PyLong_AsLongLongAndOverflow", value, overflow))


@routine("ptr weft_small_content(ptr object)")
def content(f: Body, object_: Value) -> None:
    """Return the node of a materialised array, or null. A view has a node if it has been read since its base changed."""
    state, none = state_of(f), f.symbol("_Py_NoneStruct")
    its_type = f.record(object_, OBJECT)["type"]
    f.ret_unless((its_type == state["array"]) | (its_type == state["scalar_type"]), None)
    base = slot(f, object_, "base")[0]
    with f.unless(base == none):
        f.ret_if(base.null, None)  # of ``object.__new__``
        source = slot(f, object_, "source")[0]
        f.ret_if(source == none, None)
        f.ret_unless(f.record(source, WEAKREF)["target"] == slot(f, base, "content")[0], None)
    node = slot(f, object_, "content")[0]
    f.ret_if(node.null, None)
    value = slot(f, node, "value")[0]
    buffers = f.array(state["allocator"], "ptr")[0]
    f.ret_unless(f.record(value, OBJECT)["type"] == buffers, None)  # pending, a number, or borrowed memory
    f.ret(node)


@routine("void weft_small_refresh(ptr object)")
def refresh(f: Body, object_: Value) -> None:
    """Let a view that has not been read since its base changed cache its node. That may run Python code and other threads."""
    state, none = state_of(f), f.symbol("_Py_NoneStruct")
    f.ret_unless(f.record(object_, OBJECT)["type"] == state["array"])
    base = slot(f, object_, "base")[0]
    f.ret_if((base == none) | base.null | state["cache_part"].null)
    source = slot(f, object_, "source")[0]
    with f.unless(source == none):
        f.ret_if(f.record(source, WEAKREF)["target"] == slot(f, base, "content")[0])
    f.call_address(state["cache_part"], object_)
    f.ret()


def new_place(f: Body) -> Record:
    """Return a PLACE with memory for extents and strides."""
    place = f.record(f.allocate_fixed(f"[{len(PLACE)} x i64]"), PLACE)
    for name in ("extents", "strides"):
        place[name] = f.allocate_fixed(DIMS)
    return place


def set_row_major(f: Body, place: Record) -> None:
    """Emit the strides of contiguous elements."""
    extents, strides, dims = f.array(place["extents"]), f.array(place["strides"]), place["dims"]
    step = f.variable("i64", f.record(place["format"], FORMAT)["bytes"])
    with f.count_to(dims) as back:
        k = dims - 1 - back
        strides[k] = step.now
        step.now = step.now * extents[k]


@routine("i1 weft_small_layout(ptr place, ptr layout)")
def apply_layout(f: Body, place_: Value, layout: Value) -> None:
    """Turn the place of an array into that of its part. Return False if NumPy has no such dimensions.

    layout: (shape, strides, offset) of the part, in bytes
    """
    place, parts = f.record(place_, PLACE), items(f, layout)
    shape, size = parts[0], f.variable("i64", 1)
    dims = length(f, shape)
    f.ret_unless(dims <= MAX_DIMS, False)
    extents, strides = f.array(place["extents"]), f.array(place["strides"])
    with f.count_to(dims) as k:
        extents[k] = integer(f, items(f, shape)[k])
        strides[k] = integer(f, items(f, parts[1])[k])
        size.now = size.now * extents[k]
    place["shape"], place["dims"], place["size"] = shape, dims, size.now
    place["address"] = place["address"] + integer(f, parts[2])
    f.ret(True)


@routine("i1 weft_small_locate(ptr object, ptr place)")
def locate(f: Body, object_: Value, place_: Value) -> None:
    """Fill in the place of the elements of a materialised array, or of a view of one. Return False for everything else."""
    state, none, place = state_of(f), f.symbol("_Py_NoneStruct"), f.record(place_, PLACE)
    its_type = f.record(object_, OBJECT)["type"]
    f.ret_unless((its_type == state["array"]) | (its_type == state["scalar_type"]), False)
    owner, layout, base = f.variable("ptr", object_), f.variable("ptr"), slot(f, object_, "base")[0]
    with f.unless(base == none):
        layout.now = slot(f, object_, "layout")[0]
        f.ret_if(base.null | layout.now.null | (layout.now == none), False)
        owner.now = base
    node = slot(f, owner.now, "content")[0]
    f.ret_if(node.null, False)
    buffers = f.array(state["allocator"], "ptr")[0]
    f.ret_unless(f.record(slot(f, node, "value")[0], OBJECT)["type"] == buffers, False)  # pending, a number, or borrowed memory
    form = f.call(format_, slot(f, node, "dtype")[0])
    f.ret_if(form.null, False)
    place["node"], place["format"], place["address"] = node, form, address(f, node)
    with f.unless(layout.now.null):
        f.ret(f.call(apply_layout, place_, layout.now))
    shape, size = slot(f, node, "shape")[0], f.variable("i64", 1)
    dims, extents = length(f, shape), f.array(place["extents"])
    f.ret_unless(dims <= MAX_DIMS, False)
    with f.count_to(dims) as k:
        extents[k] = integer(f, items(f, shape)[k])
        size.now = size.now * extents[k]
    place["shape"], place["dims"], place["size"] = shape, dims, size.now
    set_row_major(f, place)
    f.ret(True)


def address(f: Body, node: Value) -> Value:
    return f.record(slot(f, node, "value")[0], BUFFER)["address"]


@routine("i1 weft_small_is_base(ptr object)")
def is_base(f: Body, object_: Value) -> None:
    """Return whether an object is an array that is neither a Scalar nor a view."""
    f.ret_unless(f.record(object_, OBJECT)["type"] == state_of(f)["array"], False)
    f.ret(slot(f, object_, "base")[0] == f.symbol("_Py_NoneStruct"))


@routine("i64 weft_small_size(ptr shape)")
def size(f: Body, shape: Value) -> None:
    """Return the number of elements of a shape."""
    out, extents = f.variable("i64", 1), items(f, shape)
    with f.count_to(length(f, shape)) as k:
        out.now = out.now * integer(f, extents[k])
    f.ret(out.now)


@routine("ptr weft_small_format(ptr dtype)")
def format_(f: Body, dtype: Value) -> None:
    """Return a dtype's FORMAT row, or null."""
    state = state_of(f)
    return_row(f, state["formats"], state["format_count"], FORMAT, dtype)


def return_row(f: Body, rows: Value, count: Value, layout: Layout, dtype: Value) -> None:
    """Emit a search of a table for the row of a dtype; return the row or null."""
    table = f.array(rows, "i8")
    with f.count_to(count) as k:
        row = f.record(table.at(k * extent(layout)), layout)
        with f.when(row["dtype"] == dtype):
            f.ret(row.pointer)
    f.ret(None)


@routine("i1 weft_small_number(ptr object, ptr format, ptr room)")
def number(f: Body, object_: Value, format__: Value, room: Value) -> None:
    """Write a Python number as an element of a dtype. Return False if Python would have to check, warn or raise."""
    row = f.record(format__, FORMAT)
    kind, its_type = row["kind"], f.record(object_, OBJECT)["type"]
    is_integer, is_float = kind >= INTEGER, (kind == FLOAT32) | (kind == FLOAT64)
    as_double = f.variable("double", 0.0)
    with f.when((its_type == f.symbol("PyFloat_Type")) & is_float):
        value = f.call("PyFloat_AsDouble", object_)
        f.ret_unless((value >= -65504.0) & (value <= 65504.0), False)  # Python warns about some larger values
        as_double.now = value
    with f.otherwise():
        f.ret_unless((its_type == f.symbol("PyLong_Type")) & (is_integer | is_float), False)
        overflow = f.allocate_fixed("i64")
        whole_number = f.call("PyLong_AsLongLongAndOverflow", object_, overflow)
        fits = (f.array(overflow, "i32")[0] == 0) & (whole_number >= row["least"]) & (whole_number <= row["most"])
        f.ret_unless(fits, False)
        with f.when(is_integer):
            for width, type_ in INTEGERS.items():
                with f.when(row["bytes"] == width):
                    f.array(room, type_)[0] = whole_number.to(type_)
            f.ret(True)
        as_double.now = whole_number.to("double")
    with f.when(kind == FLOAT32):
        f.array(room, "float")[0] = as_double.now.to("float")
    with f.otherwise():
        f.array(room, "double")[0] = as_double.now
    f.ret(True)


INTEGERS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


@routine("i1 weft_small_same(ptr shape, ptr other)")
def same(f: Body, shape: Value, other: Value) -> None:
    f.ret_if(shape == other, True)
    f.ret_unless(length(f, shape) == length(f, other), False)
    extents, others = items(f, shape), items(f, other)
    with f.count_to(length(f, shape)) as k:
        with f.unless(extents[k] == others[k]):  # different objects; equal small ints are one object
            f.ret(f.call("PyObject_RichCompareBool", shape, other, PY_EQ) == 1)
    f.ret(True)


# ---- results


@routine("ptr weft_small_made(i64 nbytes)")
def make_buffer(f: Body, nbytes: Value) -> None:
    """Return a new buffer for a result of at most ``LARGEST`` bytes."""
    state = state_of(f)
    place = f.variable("i64", (nbytes + 63) >> 6)
    with f.when(nbytes > 1024):
        shift = f.constant("i64", 61) - f.call("llvm.ctlz.i64", nbytes - 1, False)
        place.now = ((shift - 8) << 2) + ((nbytes - 1) >> shift) + 13
    home = f.array(state["homes"], "ptr")[place.now]
    f.ret(f.call(make, state["allocator"], home, nbytes))


@routine("ptr weft_small_tuple(ptr words, i64 count)")
def make_tuple(f: Body, words: Value, count: Value) -> None:
    """Return a new tuple of integers, or null with an exception set."""
    out = f.call("PyTuple_New", count)
    f.ret_if(out.null, None)
    with f.count_to(count) as k:
        integer_ = f.call("PyLong_FromLongLong", f.array(words)[k])
        f.ret_if(integer_.null, None, out)
        items(f, out)[k] = integer_
    f.call("PyObject_GC_UnTrack", out)
    f.ret(out)


@routine("ptr weft_small_node(ptr op, ptr params, ptr shape, ptr dtype, ptr buffer)")
def node(f: Body, op: Value, params: Value, shape: Value, dtype: Value, buffer: Value) -> None:
    """Return a new node that takes over a reference to a buffer; null with an exception set if there is no memory."""
    state = state_of(f)
    new = f.call(make_object, state["node_type"], state["node"], state["node_slots"])
    f.ret_if(new.null, None, buffer)
    for name, object_ in (("op", op), ("params", params), ("shape", shape), ("dtype", dtype)):
        f.call("Py_IncRef", object_)
        slot(f, new, name)[0] = object_
    slot(f, new, "value")[0] = buffer
    f.call("PyObject_GC_UnTrack", new)  # a leaf is in no cycle; lists of many arrays are then collected faster
    f.ret(new)


@routine("ptr weft_small_array(ptr node, i1 value)")
def array(f: Body, node_: Value, value: Value) -> None:
    """Return a new array, or a Scalar if ``value``, that takes over a reference to a node; null if the node is null."""
    state = state_of(f)
    f.ret_if(node_.null, None)
    new = f.call(make_object, value.pick(state["scalar_type"], state["array"]), state["result"], state["result_slots"])
    f.ret_if(new.null, None, node_)
    slot(f, new, "content")[0] = node_
    with f.when(value):  # a Scalar keeps its leaf
        f.call("PyObject_GC_UnTrack", new)
    f.ret(new)
