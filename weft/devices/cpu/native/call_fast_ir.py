"""A warm call in emitted code: from a Python call into a Program and back without Python in between.

``weft_warm`` is the ``__call__`` of a class (a jitted function). It compares the arguments with a table that the last
slow call left in the object, runs the Program, and makes the Array of its one result. Where anything is not as the table
says, it calls the slow way, a Python function, with the same arguments. ``warm.py`` writes the tables.

The object of the table is held while the Program runs: it holds what runs, and another thread may drop both.
"""

from __future__ import annotations

from weft.devices.cpu.native.imported_symbols import CLOSURE, OBJECT, PY_EQ
from weft.devices.cpu.native.layouts import (
    ALLOCATOR,
    ARRAY,
    BUFFER,
    CALL,
    CELL,
    FLOAT,
    HEADER,
    ITEM,
    ITEMS,
    KEYS,
    NEXT,
    OF_ARRAY,
    OF_CELL,
    OF_NUMBER,
    POOL,
    VALUE,
    VARIABLE,
    WARM_INPUT,
    WARM_ROW,
    WARM_STATE,
    WARM_TABLE,
    WATCH_ROW,
)
from weft.devices.cpu.native.memory_ir import BUILTIN, block, give, make
from weft.devices.cpu.native.routine import Array, Body, Record, Value, routine
from weft.devices.cpu.native.walk_ir import item, walk


def _state(f: Body) -> Record:
    return f.record(f.symbol("weft_warm_state"), WARM_STATE)


def _slot(f: Body, object_: Value, name: str) -> Array:
    """A slot of an object, the place of which the state tells: an array of one."""
    return f.array(f.array(object_, "i8").at(_state(f)[name]), "ptr")


@routine("ptr weft_warm(ptr self, ptr args, i64 nargs, ptr names)", exported=True)
def warm(f: Body, self: Value, args: Value, nargs: Value, names: Value) -> None:
    """f(self, *args, **names), as Python calls a method"""

    def unless_as_known(right: Value) -> None:
        with f.unless(right):
            f.ret(f.call(slow, self, args, nargs, names))

    unless_as_known(names.null)
    holder = _slot(f, self, "table")[0]
    unless_as_known(~(holder.null | (holder == f.symbol("_Py_NoneStruct"))))
    table = f.call("PyLong_AsVoidPtr", _slot(f, holder, "address")[0])
    call = f.record(table, WARM_TABLE)
    program = f.record(call["program"], CALL)
    threads = f.record(f.symbol("weft_state"), POOL)["threads"].to("i64")
    unless_as_known((call["arguments"] == nargs) & (program["workers"] == threads))
    state = _state(f)
    unless_as_known(f.call(attribute_is, state["local"], state["inside"], state["zero"]))  # nothing is traced
    unless_as_known(f.call(attribute_is, state["structure"], state["count"], call["structures"]))
    rows = f.array(table).part(len(WARM_TABLE))
    with f.each(nargs) as k:
        unless_as_known(f.call(agrees, f.array(args, "ptr")[k], rows.at(k * len(WARM_ROW))))
    rows = rows.part(nargs * len(WARM_ROW))
    watch = call["watch"]
    unless_as_known(f.call(unchanged, rows.pointer, watch))
    rows = rows.part(watch * len(WATCH_ROW))
    inputs = call["inputs"]
    slots = f.room("i64", program["total"])
    objects = f.room("ptr", inputs)
    with f.each(inputs) as k:  # what the Program is given, each with a reference while it runs
        object_ = f.call(found, args, rows.at(k * len(WARM_INPUT)))
        with f.when(object_.null):
            f.call(drop, objects.pointer, k)
            f.ret(f.call(slow, self, args, nargs, names))
        f.call("Py_IncRef", object_)
        objects[k] = object_
    f.call("Py_IncRef", holder)
    result = f.variable("ptr", f.call(ran, table, rows.at(inputs * len(WARM_INPUT)), slots.pointer, objects.pointer))
    f.call(drop, objects.pointer, inputs)
    with f.when(result.now.null):  # where nothing has changed: the slow way finds the fault again, and knows the user's line
        with f.unless(f.call("PyErr_ExceptionMatches", f.symbol("weft_index_fault")) == 0):
            f.call("PyErr_Clear")
            result.now = f.call(slow, self, args, nargs, names)
    f.call("Py_DecRef", holder)
    f.ret(result.now)


@routine("ptr weft_slow(ptr self, ptr args, i64 nargs, ptr names)", attributes="noinline nounwind")
def slow(f: Body, self: Value, args: Value, nargs: Value, names: Value) -> None:
    """The same call of the Python function."""
    count = f.variable("i64", nargs)
    with f.unless(names.null):
        count.now = nargs + f.call("PyTuple_Size", names)
    copy = f.room("ptr", count.now + 1)
    copy[0] = self
    f.copy(copy.at(1), args, count.now << 3)
    f.ret(f.call("PyObject_Vectorcall", _state(f)["slow"], copy.pointer, nargs + 1, names))


@routine("i1 weft_is(ptr object, ptr name, ptr wanted)")
def attribute_is(f: Body, object_: Value, name: Value, wanted: Value) -> None:
    """Whether an attribute is this very object; an exception is forgotten, the slow way will meet it again."""
    found = f.call("PyObject_GetAttr", object_, name)
    with f.when(found.null):
        f.call("PyErr_Clear")
        f.ret(False)
    f.call("Py_DecRef", found)
    f.ret(found == wanted)


@routine("i1 weft_agrees(ptr argument, ptr row)")
def agrees(f: Body, argument: Value, row_: Value) -> None:
    """Whether an argument is what the table says."""
    row = f.record(row_, WARM_ROW)
    kind = row["kind"]
    with f.when((kind == ARRAY) | (kind == VALUE)):
        state = _state(f)
        wanted = (kind == ARRAY).pick(state["array"], state["scalar_type"])
        f.ret(f.call(fits, argument, wanted, row["first"], row["second"]))
    with f.when(kind == FLOAT):
        f.ret(f.record(argument, OBJECT)["type"] == f.symbol("PyFloat_Type"))
    f.ret(argument == row["first"])


@routine("i1 weft_unchanged(ptr rows, i64 count)")
def unchanged(f: Body, rows: Value, count: Value) -> None:
    """Whether variables, and the items of lists and dicts, are the very objects that the table names."""
    place, key, value = f.fixed_room("i64"), f.fixed_room("ptr"), f.fixed_room("ptr")  # where PyDict_Next is
    with f.each(count) as k:
        row = f.record(f.array(rows).at(k * len(WATCH_ROW)), WATCH_ROW)
        kind, container = row["kind"], row["container"]
        found = f.variable("ptr", row["value"])
        with f.when(kind == VARIABLE):
            found.now = f.call("PyDict_GetItemWithError", container, row["key"].to("ptr"))
        with f.when(kind == CELL):
            found.now = f.record(container, CLOSURE)["content"]
        with f.when(kind == ITEMS):
            with f.unless(f.call("PyList_Size", container) == row["key"]):
                f.ret(False)
        with f.when(kind == ITEM):
            found.now = f.call("PyList_GetItem", container, row["key"])
        with f.when(kind == KEYS):
            f.array(place)[0] = 0
            with f.unless(f.call("PyDict_Size", container) == row["key"]):
                f.ret(False)
        with f.when(kind == NEXT):
            with f.when(f.call("PyDict_Next", container, place, key, value) == 0):
                f.ret(False)
            with f.unless(f.array(key, "ptr")[0] == row["key"].to("ptr")):
                f.ret(False)
            found.now = f.array(value, "ptr")[0]
        with f.unless(found.now == row["value"]):
            f.ret(False)
    f.ret(True)


@routine("ptr weft_watched" + BUILTIN, exported=True)
def watched(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """self: where rows lie behind their number. (): whether all is as they say"""
    rows = f.array(f.call("PyLong_AsVoidPtr", self))
    f.ret(f.call("PyBool_FromLong", f.call(unchanged, rows.at(1), rows[0]).to("i64")))


@routine("i1 weft_fits(ptr array, ptr wanted, ptr shape, ptr dtype)")
def fits(f: Body, array: Value, wanted: Value, shape: Value, dtype: Value) -> None:
    """Whether an object of this class, shape and dtype is there, with a buffer."""
    none = f.symbol("_Py_NoneStruct")
    with f.unless(f.record(array, OBJECT)["type"] == wanted):
        f.ret(False)
    is_view = ~(_slot(f, array, "base")[0] == none)
    node = _slot(f, array, "content")[0]
    with f.when(is_view | node.null):
        f.ret(False)
    pending = _slot(f, node, "value")[0] == none
    is_number = _slot(f, node, "op")[0] == _state(f)["scalar"]
    with f.when(pending | is_number | ~(_slot(f, node, "dtype")[0] == dtype)):
        f.ret(False)
    its_shape = _slot(f, node, "shape")[0]
    with f.when(its_shape == shape):
        f.ret(True)
    f.ret(f.call("PyObject_RichCompareBool", its_shape, shape, PY_EQ) == 1)


@routine("ptr weft_found(ptr args, ptr row)")
def found(f: Body, args: Value, row_: Value) -> None:
    """An input of the Program, as the table says; null where a cell holds another Node than it did."""
    row = f.record(row_, WARM_INPUT)
    kind = row["kind"]
    with f.when(kind == OF_ARRAY):
        node = _slot(f, f.array(args, "ptr")[row["place"]], "content")[0]
        f.ret(_slot(f, node, "value")[0])
    with f.when(kind == OF_NUMBER):
        f.ret(f.array(args, "ptr")[row["place"]])
    object_ = row["place"].to("ptr")
    with f.when(kind == OF_CELL):
        node = _slot(f, object_, "content")[0]
        with f.unless(node == row["node"]):
            f.ret(None)
        f.ret(_slot(f, node, "value")[0])
    f.ret(object_)


@routine("ptr weft_ran(ptr table, ptr pairs, ptr slots, ptr objects)")
def ran(f: Body, table: Value, pairs: Value, slots_: Value, objects_: Value) -> None:
    """Run the Program on these objects: its result as an Array, or null with an exception set."""
    call = f.record(table, WARM_TABLE)
    program = f.record(call["program"], CALL)
    ni, name, allocator, home = call["inputs"], program["name"], program["allocator"], program["home"]
    buffers = f.record(allocator, ALLOCATOR)["type"]
    kinds = f.array(program.pointer).part(HEADER)
    slots, objects = f.array(slots_), f.array(objects_, "ptr")
    with f.each(ni) as k:
        with f.unless(f.call(item, objects[k], kinds[k], name, slots.at(k), buffers)):
            f.ret(None)
    sizes = kinds.part(ni)
    buffer = f.call(make, allocator, sizes[1].to("ptr"), sizes[0])  # of the one output: its bytes, its home
    with f.when(buffer.null):
        f.ret(None)
    count = call["node_slots"]
    node = f.call(filled, call["node"], pairs, count)
    with f.when(node.null):
        f.call("Py_DecRef", buffer)
        f.ret(None)
    _slot(f, node, "value")[0] = buffer
    array = f.call(filled, call["result"], f.array(pairs).at(count << 1), call["array_slots"])
    with f.when(array.null):
        f.call("Py_DecRef", node)
        f.ret(None)
    _slot(f, array, "content")[0] = node
    slots[ni] = f.record(buffer, BUFFER)["address"]
    well = f.variable("i1")
    with f.when(home.null):
        well.now = f.call(walk, program.pointer, slots_, 0)
    with f.otherwise():
        arena = f.call(block, allocator, home)
        with f.unless(arena == 0):
            well.now = f.call(walk, program.pointer, slots_, arena)
            f.call(give, home, arena)
    with f.unless(well.now):
        f.call("Py_DecRef", array)
        f.ret(None)
    f.ret(array)


@routine("ptr weft_filled(ptr type, ptr pairs, i64 count)")
def filled(f: Body, type_: Value, pairs: Value, count: Value) -> None:
    """A new object with its slots filled from pairs (offset, object)."""
    new = f.call("PyType_GenericAlloc", type_, 0)
    with f.when(new.null):
        f.ret(None)
    with f.each(count) as k:
        pair = f.array(pairs).part(k << 1)
        object_ = pair[1].to("ptr")
        f.call("Py_IncRef", object_)
        f.array(f.array(new, "i8").at(pair[0]), "ptr")[0] = object_
    f.ret(new)


@routine("void weft_drop(ptr objects, i64 count)")
def drop(f: Body, objects: Value, count: Value) -> None:
    with f.each(count) as k:
        f.call("Py_DecRef", f.array(objects, "ptr")[k])


ROUTINES = (warm, slow, attribute_is, agrees, unchanged, watched, fits, found, ran, filled, drop)
