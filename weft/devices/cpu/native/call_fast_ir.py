"""Warm calls in emitted code: from a Python call into a Program and back without Python in between.

``weft_warm`` is the ``__call__`` of the class of jitted functions. It compares the arguments, which may be lists, tuples and
dicts, with a table that the last slow call stored in the object. The Program overwrites the arrays that the function writes, if
nobody else refers to their memory, and the results are new arrays. If anything differs from the table, the call falls back to a
Python function with the same arguments. ``call_tables.py`` writes the tables.

The call holds a reference to the table's object while the Program runs: the object keeps the executable alive, and another
thread may replace it.
"""

from __future__ import annotations

from weft.devices.cpu.native import layouts
from weft.devices.cpu.native.imported_symbols import CLOSURE, OBJECT, PY_EQ
from weft.devices.cpu.native.memory_ir import BUILTIN, block, give, make
from weft.devices.cpu.native.routine import Array, Body, Record, Value, routine
from weft.devices.cpu.native.walk_ir import item, walk


def _state(f: Body) -> Record:
    return f.record(f.symbol("weft_warm_state"), layouts.WARM_STATE)


def _slot(f: Body, object_: Value, name: str) -> Array:
    """Return a slot of an object as an array of one element; the state holds the slot's offset."""
    return f.array(f.array(object_, "i8").at(_state(f)[name]), "ptr")


@routine("ptr weft_warm(ptr self, ptr args, i64 nargs, ptr names)", exported=True)
def call_jitted(f: Body, self: Value, args: Value, nargs: Value, names: Value) -> None:
    """Call f(self, *args, **names) with the vectorcall convention."""

    def fall_back_unless(condition: Value) -> None:
        with f.unless(condition):
            f.ret(f.call(slow, self, args, nargs, names))

    holder = _slot(f, self, "table")[0]
    fall_back_unless(~(holder.null | (holder == f.symbol("_Py_NoneStruct"))))
    table = f.call("PyLong_AsVoidPtr", _slot(f, holder, "address")[0])
    call = f.record(table, layouts.WARM_TABLE)
    program = f.record(call["program"], layouts.CALL)
    threads = f.record(f.symbol("weft_state"), layouts.POOL)["threads"].to("i64")
    count = f.variable("i64", nargs)
    with f.when(names.null):
        fall_back_unless(call["names"] == f.symbol("_Py_NoneStruct"))
    with f.otherwise():
        fall_back_unless(f.call("PyObject_RichCompareBool", names, call["names"], PY_EQ) == 1)
        count.now = nargs + f.call("PyTuple_Size", names)
    fall_back_unless((call["arguments"] == count.now) & (program["workers"] == threads))
    state = _state(f)
    fall_back_unless(f.call(attribute_is, state["local"], state["inside"], state["zero"]))  # nothing is traced
    fall_back_unless(f.call(attribute_is, state["structure"], state["count"], call["structures"]))
    places, watch, inputs, written = call["places"], call["watch"], call["inputs"], call["written"]
    room = f.allocate_stack("ptr", places + call["parts"])
    given = room.part(call["parts"])
    f.copy(given.pointer, args, count.now << 3)
    rows = f.array(table).part(len(layouts.WARM_TABLE))
    with f.count_to(places) as k:
        fall_back_unless(f.call(agrees, given.pointer, k, rows.at(k * len(layouts.WARM_ROW))))
    rows = rows.part(places * len(layouts.WARM_ROW))
    fall_back_unless(f.call(are_unchanged, rows.pointer, watch))
    fall_back_unless((written == 0) | (f.call("PyDict_Size", state["logs"]) == 0))
    rows = rows.part(watch * len(layouts.WATCH_ROW))
    slots = f.allocate_stack("i64", program["total"])
    objects = f.allocate_stack("ptr", inputs)
    with f.count_to(inputs) as k:  # the Program's inputs, each with a reference while it runs
        object_ = f.call(find_input, given.pointer, rows.at(k * len(layouts.WARM_INPUT)))
        with f.when(object_.null):
            f.call(drop, objects.pointer, k)
            f.ret(f.call(slow, self, args, nargs, names))
        f.call("Py_IncRef", object_)
        objects[k] = object_
    writes = rows.part(inputs * len(layouts.WARM_INPUT))
    with f.count_to(written) as k:
        row = writes.at(k * len(layouts.WARM_WRITTEN))
        with f.unless(f.call(is_unshared, program.pointer, row, rows.pointer, given.pointer, objects.pointer)):
            f.call(drop, objects.pointer, inputs)
            f.ret(f.call(slow, self, args, nargs, names))
    f.call("Py_IncRef", holder)
    uses = f.array(call["uses"])
    uses[0] = uses[0] + 1
    result = f.variable("ptr", f.call(run_program, table, writes.pointer, slots.pointer, objects.pointer, room.pointer))
    f.call(drop, objects.pointer, inputs)
    with f.when(result.now.null):  # nothing has changed; the slow path meets the fault again and adds the user's line
        with f.unless(f.call("PyErr_ExceptionMatches", f.symbol("weft_index_fault")) == 0):
            f.call("PyErr_Clear")
            result.now = f.call(slow, self, args, nargs, names)
    f.call("Py_DecRef", holder)
    f.ret(result.now)


@routine("ptr weft_slow(ptr self, ptr args, i64 nargs, ptr names)", attributes="noinline nounwind")
def slow(f: Body, self: Value, args: Value, nargs: Value, names: Value) -> None:
    """Call the Python function with the same arguments."""
    count = f.variable("i64", nargs)
    with f.unless(names.null):
        count.now = nargs + f.call("PyTuple_Size", names)
    copy = f.allocate_stack("ptr", count.now + 1)
    copy[0] = self
    f.copy(copy.at(1), args, count.now << 3)
    f.ret(f.call("PyObject_Vectorcall", _state(f)["slow"], copy.pointer, nargs + 1, names))


@routine("i1 weft_is(ptr object, ptr name, ptr wanted)")
def attribute_is(f: Body, object_: Value, name: Value, wanted: Value) -> None:
    """Return whether an attribute is this object. Exceptions are cleared; the slow path meets them again."""
    value = f.call("PyObject_GetAttr", object_, name)
    with f.when(value.null):
        f.call("PyErr_Clear")
        f.ret(False)
    f.call("Py_DecRef", value)
    f.ret(value == wanted)


@routine("i1 weft_agrees(ptr given, i64 k, ptr row)")
def agrees(f: Body, given_: Value, k: Value, row_: Value) -> None:
    """Return whether the argument or item number ``k`` matches its row. The items of a container are written to ``given``."""
    row, given = f.record(row_, layouts.WARM_ROW), f.array(given_, "ptr")
    kind, argument, children = row["kind"], given[k], row["children"]
    with f.when((kind == layouts.ARRAY) | (kind == layouts.VALUE)):
        state = _state(f)
        wanted = (kind == layouts.ARRAY).pick(state["array"], state["scalar_type"])
        f.ret(f.call(fits, argument, wanted, row["first"], row["second"]))
    type_ = f.record(argument, OBJECT)["type"]
    with f.when(kind == layouts.FLOAT):
        f.ret(type_ == f.symbol("PyFloat_Type"))
    with f.when(kind == layouts.SAME):
        f.ret(argument == row["first"])
    items = given.part(row["child"])
    for container, name in ((layouts.LIST, "PyList"), (layouts.TUPLE, "PyTuple")):
        with f.when(kind == container):
            f.ret_unless(type_ == f.symbol(f"{name}_Type"), False)
            f.ret_unless(f.call(f"{name}_Size", argument) == children, False)
            with f.count_to(children) as j:
                items[j] = f.call(f"{name}_GetItem", argument, j)
            f.ret(True)
    f.ret_unless(type_ == f.symbol("PyDict_Type"), False)
    f.ret_unless(f.call("PyDict_Size", argument) == children, False)
    place, key, value = f.allocate_fixed("i64"), f.allocate_fixed("ptr"), f.allocate_fixed("ptr")
    f.array(place)[0] = 0
    with f.count_to(children) as j:
        f.ret_if(f.call("PyDict_Next", argument, place, key, value) == 0, False)
        f.ret_unless(f.array(key, "ptr")[0] == f.call("PyTuple_GetItem", row["first"], j), False)
        items[j] = f.array(value, "ptr")[0]
    f.ret(True)


@routine("i1 weft_unchanged(ptr rows, i64 count)")
def are_unchanged(f: Body, rows: Value, count: Value) -> None:
    """Return whether variables and the items of lists and dicts are still the objects in the table."""
    place, key, value = f.allocate_fixed("i64"), f.allocate_fixed("ptr"), f.allocate_fixed("ptr")  # the state of PyDict_Next
    with f.count_to(count) as k:
        row = f.record(f.array(rows).at(k * len(layouts.WATCH_ROW)), layouts.WATCH_ROW)
        kind, container = row["kind"], row["container"]
        current = f.variable("ptr", row["value"])
        with f.when(kind == layouts.VARIABLE):
            current.now = f.call("PyDict_GetItemWithError", container, row["key"].to("ptr"))
        with f.when(kind == layouts.CELL):
            current.now = f.record(container, CLOSURE)["content"]
        with f.when(kind == layouts.ITEMS):
            f.ret_unless(f.call("PyList_Size", container) == row["key"], False)
        with f.when(kind == layouts.ITEM):
            current.now = f.call("PyList_GetItem", container, row["key"])
        with f.when(kind == layouts.KEYS):
            f.array(place)[0] = 0
            f.ret_unless(f.call("PyDict_Size", container) == row["key"], False)
        with f.when(kind == layouts.NEXT_ITEM):
            f.ret_if(f.call("PyDict_Next", container, place, key, value) == 0, False)
            f.ret_unless(f.array(key, "ptr")[0] == row["key"].to("ptr"), False)
            current.now = f.array(value, "ptr")[0]
        f.ret_unless(current.now == row["value"], False)
    f.ret(True)


@routine("ptr weft_watched" + BUILTIN, exported=True)
def check_watched(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin () -> bool: whether nothing watched has changed. self: address of the number of rows, followed by the rows."""
    rows = f.array(f.call("PyLong_AsVoidPtr", self))
    f.ret(f.call("PyBool_FromLong", f.call(are_unchanged, rows.at(1), rows[0]).to("i64")))


@routine("i1 weft_fits(ptr array, ptr wanted, ptr shape, ptr dtype)")
def fits(f: Body, array: Value, wanted: Value, shape: Value, dtype: Value) -> None:
    """Return whether an array has this class, shape and dtype, is no view and is materialised."""
    none = f.symbol("_Py_NoneStruct")
    f.ret_unless(f.record(array, OBJECT)["type"] == wanted, False)
    is_view = ~(_slot(f, array, "base")[0] == none)
    node = _slot(f, array, "content")[0]
    f.ret_if(is_view | node.null, False)
    pending = _slot(f, node, "value")[0] == none
    is_number = _slot(f, node, "op")[0] == _state(f)["scalar"]
    f.ret_if(pending | is_number | ~(_slot(f, node, "dtype")[0] == dtype), False)
    its_shape = _slot(f, node, "shape")[0]
    f.ret_if(its_shape == shape, True)
    f.ret(f.call("PyObject_RichCompareBool", its_shape, shape, PY_EQ) == 1)


@routine("ptr weft_found(ptr given, ptr row)")
def find_input(f: Body, given: Value, row_: Value) -> None:
    """Return the input of the Program that a row describes, or null if a cell holds another node than before."""
    row = f.record(row_, layouts.WARM_INPUT)
    kind = row["kind"]
    with f.when(kind == layouts.OF_ARRAY):
        node = _slot(f, f.array(given, "ptr")[row["place"]], "content")[0]
        f.ret(_slot(f, node, "value")[0])
    with f.when(kind == layouts.OF_NUMBER):
        f.ret(f.array(given, "ptr")[row["place"]])
    object_ = row["place"].to("ptr")
    with f.when(kind == layouts.OF_CELL):
        node = _slot(f, object_, "content")[0]
        f.ret_unless(node == row["node"], None)
        f.ret(_slot(f, node, "value")[0])
    f.ret(object_)


@routine("i1 weft_is_unshared(ptr program, ptr row, ptr rows, ptr given, ptr objects)")
def is_unshared(f: Body, program_: Value, row_: Value, rows: Value, given: Value, objects: Value) -> None:
    """Return whether only the written array refers to its node, and only the node to its buffer, so it may be overwritten."""
    row, program = f.record(row_, layouts.WARM_WRITTEN), f.record(program_, layouts.CALL)
    place = row["input"]
    input_ = f.record(f.array(rows).at(place * len(layouts.WARM_INPUT)), layouts.WARM_INPUT)
    owner = f.variable("ptr", None)
    with f.when(input_["kind"] == layouts.OF_ARRAY):
        owner.now = f.array(given, "ptr")[input_["place"]]
    with f.otherwise():
        owner.now = input_["place"].to("ptr")
    node = _slot(f, owner.now, "content")[0]
    is_shared = ~_slot(f, node, "weak")[0].null | ~(f.record(node, OBJECT)["count"].to("i64") == row["nodes"])
    f.ret_if(is_shared | (_slot(f, node, "op")[0] == _state(f)["constant"]), False)
    object_ = f.array(objects, "ptr")[place]
    buffer = f.record(object_, layouts.BUFFER)
    f.ret_unless(buffer["type"] == f.record(program["allocator"], layouts.ALLOCATOR)["type"], False)
    sizes = f.array(program.pointer).part(layouts.HEADER).part(program["ni"])
    fits_ = (buffer["export_count"] == 0) & (buffer["nbytes"] == sizes[row["output"]])
    f.ret(fits_ & (f.record(object_, OBJECT)["count"].to("i64") == row["buffers"]))


@routine("ptr weft_ran(ptr table, ptr writes, ptr slots, ptr objects, ptr built)")
def run_program(f: Body, table: Value, writes: Value, slots_: Value, objects_: Value, built: Value) -> None:
    """Run the Program on these objects. Return its result, or null with an exception set.

    built : room for the parts of the result, followed by the places of the arguments
    """
    call = f.record(table, layouts.WARM_TABLE)
    program = f.record(call["program"], layouts.CALL)
    ni, name, allocator, home = call["inputs"], program["name"], program["allocator"], program["home"]
    buffers = f.record(allocator, layouts.ALLOCATOR)["type"]
    kinds = f.array(program.pointer).part(layouts.HEADER)
    slots, objects = f.array(slots_), f.array(objects_, "ptr")
    with f.count_to(ni) as k:
        f.ret_unless(f.call(item, objects[k], kinds[k], name, slots.at(k), buffers), None)
    written = call["written"]
    with f.count_to(written) as k:
        row = f.record(f.array(writes).at(k * len(layouts.WARM_WRITTEN)), layouts.WARM_WRITTEN)
        slots[ni + row["output"]] = slots[row["input"]]
    rows = f.array(writes).at(written * len(layouts.WARM_WRITTEN))
    result = f.call(build, program.pointer, rows, call["parts"], slots.at(ni), built)
    f.ret_if(result.null, None)
    succeeded = f.variable("i1")
    with f.when(home.null):
        succeeded.now = f.call(walk, program.pointer, slots_, 0)
    with f.otherwise():
        arena = f.call(block, allocator, home)
        with f.unless(arena == 0):
            succeeded.now = f.call(walk, program.pointer, slots_, arena)
            f.call(give, home, arena)
    f.ret_if(~succeeded.now, None, result)
    f.ret(result)


@routine("ptr weft_build(ptr program, ptr rows, i64 parts, ptr slots, ptr built)")
def build(f: Body, program: Value, rows: Value, parts: Value, slots: Value, built_: Value) -> None:
    """Return the result of a call, whose arrays have new buffers, or null with an exception set. The first part is the whole.

    slots : the Program's outputs. built : see ``run_program``
    """
    built = f.array(built_, "ptr")
    given = built.at(parts)
    with f.count_to(parts) as j:
        k = parts - 1 - j  # a container comes before its items
        built[k] = f.call(part, program, f.array(rows).at(k * len(layouts.WARM_ROW)), slots, built_, given)
        with f.when(built[k].null):
            with f.count_to(j) as done:
                object_ = built[k + 1 + done]
                with f.unless(object_.null):
                    f.call("Py_DecRef", object_)
            f.ret(None)
    f.ret(built[0])


@routine("ptr weft_part(ptr program, ptr row, ptr slots, ptr built, ptr given)")
def part(f: Body, program_: Value, row_: Value, slots: Value, built: Value, given: Value) -> None:
    """Return a part of the result: a new array, an argument, a constant, or a container, which takes its items from ``built``."""
    program, row = f.record(program_, layouts.CALL), f.record(row_, layouts.WARM_ROW)
    kind, count = row["kind"], row["children"]
    items = f.array(built, "ptr").part(row["child"])
    with f.when(kind == layouts.OUTPUT):
        state, allocator, number = _state(f), program["allocator"], row["child"]
        sizes = f.array(program.pointer).part(layouts.HEADER).part(program["ni"])
        buffer = f.call(make, allocator, sizes[program["no"] + number].to("ptr"), sizes[number])
        f.ret_if(buffer.null, None)
        pairs, slots_of_node = f.array(row["second"]), state["node_slots"]
        node = f.call(make_object, state["node"], pairs.pointer, slots_of_node)
        f.ret_if(node.null, None, buffer)
        _slot(f, node, "value")[0] = buffer
        array = f.call(make_object, row["first"], pairs.at(slots_of_node << 1), state["array_slots"])
        f.ret_if(array.null, None, node)
        _slot(f, array, "content")[0] = node
        f.array(slots)[number] = f.record(buffer, layouts.BUFFER)["address"]
        f.ret(array)
    with f.when((kind == layouts.SAME) | (kind == layouts.ARGUMENT)):
        object_ = f.variable("ptr", row["first"])
        with f.when(kind == layouts.ARGUMENT):
            object_.now = f.array(given, "ptr")[row["child"]]
        f.call("Py_IncRef", object_.now)
        f.ret(object_.now)
    for container, name in ((layouts.LIST, "PyList"), (layouts.TUPLE, "PyTuple")):
        with f.when(kind == container):
            new = f.call(f"{name}_New", count)
            f.ret_if(new.null, None)
            with f.count_to(count) as k:
                f.call(f"{name}_SetItem", new, k, items[k])
                items[k] = None
            f.ret(new)
    dict_ = f.call("PyDict_New")
    f.ret_if(dict_.null, None)
    with f.count_to(count) as k:
        failed = f.call("PyDict_SetItem", dict_, f.call("PyTuple_GetItem", row["first"], k), items[k]) != 0
        f.ret_if(failed, None, dict_)
        f.call("Py_DecRef", items[k])
        items[k] = None
    f.ret(dict_)


@routine("ptr weft_filled(ptr type, ptr pairs, i64 count)")
def make_object(f: Body, type_: Value, pairs: Value, count: Value) -> None:
    """Return a new object whose slots are set from pairs (offset, object), or null."""
    new = f.call("PyType_GenericAlloc", type_, 0)
    f.ret_if(new.null, None)
    with f.count_to(count) as k:
        pair = f.array(pairs).part(k << 1)
        object_ = pair[1].to("ptr")
        f.call("Py_IncRef", object_)
        f.array(f.array(new, "i8").at(pair[0]), "ptr")[0] = object_
    f.ret(new)


@routine("void weft_drop(ptr objects, i64 count)")
def drop(f: Body, objects: Value, count: Value) -> None:
    with f.count_to(count) as k:
        f.call("Py_DecRef", f.array(objects, "ptr")[k])


ROUTINES = (
    call_jitted, slow, attribute_is, agrees, are_unchanged, check_watched, fits, find_input, is_unshared, run_program, build,
    part, make_object, drop,
)
