"""Small arrays of nested lists of Python's numbers, in emitted code."""

from __future__ import annotations

from weft.devices.cpu.native import layouts
from weft.devices.cpu.native import small_ir as small
from weft.devices.cpu.native.imported_symbols import LIST, MAX_DIMS, OBJECT
from weft.devices.cpu.native.layouts import BUFFER, FORMAT, PLACE
from weft.devices.cpu.native.memory_ir import BUILTIN
from weft.devices.cpu.native.routine import Array, Body, Value, routine


def is_list(f: Body, object_: Value) -> Value:
    its_type = f.record(object_, OBJECT)["type"]
    return (its_type == f.symbol("PyList_Type")) | (its_type == f.symbol("PyTuple_Type"))


def items_of(f: Body, object_: Value) -> Array:
    """Return the items of a list or tuple as an array of pointers."""
    items = f.variable("ptr", small.items(f, object_).pointer)
    with f.when(f.record(object_, OBJECT)["type"] == f.symbol("PyList_Type")):
        items.now = f.record(object_, LIST)["items"]
    return f.array(items.now, "ptr")


@routine("i64 weft_small_read_list(ptr list, i64 depth, ptr place, ptr kind, i64 address)")
def read_list(f: Body, list_: Value, depth: Value, place_: Value, kind: Value, address: Value) -> None:
    """Write the numbers of nested lists to an address. Return the address behind the last number.

    Return 0 if the lists are not regular, if a number is not of the type ``kind``, or if Python has to convert it.
    place: has extents, dimensions and format
    """
    place = f.record(place_, PLACE)
    count = f.array(place["extents"])[depth]
    f.ret_unless(is_list(f, list_), 0)
    f.ret_unless(small.length(f, list_) == count, 0)
    items, at, is_last = items_of(f, list_), f.variable("i64", address), depth + 1 == place["dims"]
    width = f.record(place["format"], FORMAT)["bytes"]
    with f.count_to(count) as k:
        item = items[k]
        with f.when(is_last):
            f.ret_unless(f.record(item, OBJECT)["type"] == kind, 0)
            f.ret_unless(f.call(small.number, item, place["format"], at.now.to("ptr")), 0)
            at.now = at.now + width
        with f.otherwise():
            at.now = f.call(read_list, item, depth + 1, place_, kind, at.now)
            f.ret_if(at.now == 0, 0)
    f.ret(at.now)


@routine("ptr weft_join_numbers" + BUILTIN, exported=True)
def join_numbers(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (lists, dtype of floats, dtype of integers) -> a new small array, or None.

    lists: nested lists or tuples of floats alone, or of integers alone
    """
    arguments, state, place, most = f.array(args, "ptr"), small.state_of(f), small.new_place(f), f.call(small.limit)
    small.none_unless(f, (nargs == 3) & (most > 0))
    item, dims, size = f.variable("ptr", arguments[0]), f.variable("i64"), f.variable("i64", 1)
    extents = f.array(place["extents"])
    with f.count_to(f.constant("i64", MAX_DIMS)):
        f.leave_if(~is_list(f, item.now))
        count = small.length(f, item.now)
        small.none_unless(f, (count > 0) & (count <= layouts.MAX_SMALL_BYTES))
        size.now, extents[dims.now] = size.now * count, count
        small.none_unless(f, size.now <= layouts.MAX_SMALL_BYTES)
        item.now, dims.now = items_of(f, item.now)[0], dims.now + 1
    kind = f.record(item.now, OBJECT)["type"]
    is_float = kind == f.symbol("PyFloat_Type")
    small.none_unless(f, (is_float | (kind == f.symbol("PyLong_Type"))) & (dims.now > 0))
    format_ = f.call(small.format_, is_float.pick(arguments[1], arguments[2]))
    small.none_unless(f, ~format_.null)
    place["format"], place["dims"] = format_, dims.now
    nbytes = size.now * f.record(format_, FORMAT)["bytes"]
    small.none_unless(f, (nbytes <= most) & (nbytes <= layouts.MAX_SMALL_BYTES))
    buffer = f.call(small.make_buffer, nbytes)
    f.ret_if(buffer.null, None)
    address = f.record(buffer, BUFFER)["address"]
    read = f.call(read_list, arguments[0], f.constant("i64", 0), place.pointer, kind, address)
    with f.when(read == 0):
        f.call("Py_DecRef", buffer)
    small.none_unless(f, read != 0)
    shape = f.call(small.make_tuple, extents.pointer, dims.now)
    f.ret_if(shape.null, None, buffer)
    node = f.call(small.node, state["leaf"], state["nothing"], shape, f.record(format_, FORMAT)["dtype"], buffer)
    f.call("Py_DecRef", shape)
    f.ret(f.call(small.array, node, False))


ROUTINES = (read_list, join_numbers)
