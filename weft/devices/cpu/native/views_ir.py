"""Indices and views in emitted code: elements, rows and slices, transposes and reshapes of small computed arrays.

A view gets its layout at once. Its path is found from the index when it is first needed (``Array._path``): most views are read or
written natively, and die without it.
"""

from __future__ import annotations

from weft.devices.cpu.native import layouts
from weft.devices.cpu.native import small_ir as small
from weft.devices.cpu.native.call_fast_ir import make_object
from weft.devices.cpu.native.imported_symbols import MAX_DIMS, OBJECT, SLICE
from weft.devices.cpu.native.layouts import PLACE
from weft.devices.cpu.native.memory_ir import BUILTIN
from weft.devices.cpu.native.operators_ir import index
from weft.devices.cpu.native.routine import Body, Value, routine
from weft.devices.cpu.native.scalars_ir import copy_element

_MAX_STEP = 1 << 40  # of slices: no sum of a bound and a step overflows
NO_INDEX, _ELEMENT, _PART = range(3)  # results of ``select``


@routine("i1 weft_small_read_slice(ptr slice, i64 n, ptr out)")
def read_slice(f: Body, slice_: Value, n: Value, out_: Value) -> None:
    """Write start, length and step of a slice of ``n`` elements. Return False if a bound is neither None nor a Python int."""
    parts, out, none, room = f.record(slice_, SLICE), f.array(out_), f.symbol("_Py_NoneStruct"), f.allocate_fixed("i64")
    overflow = f.allocate_fixed("i64")

    def read(bound: Value) -> Value:
        f.ret_unless(f.record(bound, OBJECT)["type"] == f.symbol("PyLong_Type"), False)
        f.array(room)[0] = f.call("PyLong_AsLongLongAndOverflow", bound, overflow)
        f.ret_unless(f.array(overflow, "i32")[0] == 0, False)
        return f.array(room)[0]

    step = f.variable("i64", 1)
    with f.unless(parts["step"] == none):
        step.now = read(parts["step"])
    f.ret_unless((step.now != 0) & (step.now < _MAX_STEP) & (step.now > -_MAX_STEP), False)
    is_backward = step.now < 0
    low, high = is_backward.pick(f.constant("i64", -1), 0), is_backward.pick(n - 1, n)
    ends = []
    for name, default in (("start", is_backward.pick(high, low)), ("stop", is_backward.pick(low, high))):
        end = f.variable("i64", default)
        with f.unless(parts[name] == none):
            end.now = read(parts[name])
            end.now = end.now + (end.now < 0).pick(n, 0)
            end.now = (end.now < low).pick(low, end.now.minimum(high))
        ends.append(end.now)
    start, stop = ends
    distance, size = is_backward.pick(start - stop, stop - start), is_backward.pick(step.now * -1, step.now)
    count = (distance > 0).pick((distance + size - 1) // size, 0)
    out[0], out[1], out[2] = (count == 0).pick(0, start), count, step.now
    f.ret(True)


@routine("i64 weft_small_select(ptr place, ptr index)")
def select(f: Body, place_: Value, index_: Value) -> None:
    """Change a place to the part that an index of integers, slices, None and an ellipsis selects.

    Return ``_ELEMENT`` if all dimensions have an integer, else ``_PART``. Return ``NO_INDEX`` for other indices.
    """
    place, none, ellipsis = f.record(place_, PLACE), f.symbol("_Py_NoneStruct"), f.symbol("_Py_EllipsisObject")
    dims, extents, strides = place["dims"], f.array(place["extents"]), f.array(place["strides"])
    new_extents, new_strides = f.array(f.allocate_fixed(small.DIMS)), f.array(f.allocate_fixed(small.DIMS))
    room, size, seen = f.array(f.allocate_fixed("[3 x i64]")), f.variable("i64", 1), f.variable("i1", False)
    item, count, used = f.variable("ptr", index_), f.variable("i64", 1), f.variable("i64", 0)
    is_single = f.record(index_, OBJECT)["type"] != f.symbol("PyTuple_Type")
    with f.unless(is_single):
        count.now = small.length(f, index_)
    with f.count_to(count.now) as k:
        with f.unless(is_single):
            item.now = small.items(f, index_)[k]
        used.now = used.now + ((item.now == none) | (item.now == ellipsis)).pick(f.constant("i64", 0), 1)
    f.ret_unless((used.now <= dims) & (count.now - used.now + dims <= MAX_DIMS), NO_INDEX)
    d, out, result = f.variable("i64"), f.variable("i64"), f.variable("i64", _ELEMENT)
    address = f.variable("i64", place["address"])

    def keep(extent: Value, stride: Value) -> None:
        new_extents[out.now], new_strides[out.now] = extent, stride
        out.now, size.now, result.now = out.now + 1, size.now * extent, _PART

    def keep_dimensions(number: Value) -> None:
        with f.count_to(number):
            keep(extents[d.now], strides[d.now])
            d.now = d.now + 1

    with f.count_to(count.now) as k:
        with f.unless(is_single):
            item.now = small.items(f, index_)[k]
        with f.when(item.now == none):
            keep(f.constant("i64", 1), f.constant("i64", 0))
            f.again()
        with f.when(item.now == ellipsis):
            f.ret_if(seen.now, NO_INDEX)
            seen.now, result.now = True, _PART
            keep_dimensions(dims - used.now)
            f.again()
        with f.when(f.record(item.now, OBJECT)["type"] == f.symbol("PySlice_Type")):
            f.ret_unless(f.call(read_slice, item.now, extents[d.now], room.pointer), NO_INDEX)
            address.now = address.now + room[0] * strides[d.now]
            keep(room[1], room[2] * strides[d.now])
            d.now = d.now + 1
            f.again()
        f.ret_unless(f.call(index, item.now, room.pointer), NO_INDEX)
        n, at = extents[d.now], room[0]
        f.ret_unless((at < n) & (at + n >= 0), NO_INDEX)
        address.now = address.now + (at + (at < 0).pick(n, 0)) * strides[d.now]
        d.now = d.now + 1
    keep_dimensions(dims - d.now)
    place["address"], place["dims"], place["size"] = address.now, out.now, size.now
    f.copy(extents.pointer, new_extents.pointer, out.now << 3)
    f.copy(strides.pointer, new_strides.pointer, out.now << 3)
    f.ret(result.now)


@routine("i1 weft_small_shapes(ptr place, ptr out)")
def find_shapes(f: Body, place_: Value, out_: Value) -> None:
    """Store new references to the tuples of a place's extents and strides. Return False if that fails, with an exception set."""
    place, out = f.record(place_, PLACE), f.array(out_, "ptr")
    dims, extents, strides = place["dims"], f.array(place["extents"]), f.array(place["strides"])
    is_short, code = dims <= layouts.SHAPE_DIMS, f.variable("i64", dims)
    with f.when(is_short):
        with f.count_to(dims) as k:
            code.now = (code.now * 31 + extents[k]) * 31 + strides[k]
    number = (code.now + (code.now >> 6)) & (layouts.SHAPES - 1)
    row_ = f.array(small.state_of(f)["shapes"], "i8").at(number * layouts.SHAPE_SIZE)
    row, words = f.record(row_, layouts.SHAPE), f.array(f.array(row_, "i8").at(layouts.offset(layouts.SHAPE, "words")))
    is_same = f.variable("i1", is_short & ~row["shape"].null & (row["dims"] == dims))
    with f.when(is_same.now):
        with f.count_to(dims) as k:
            f.leave_if(~is_same.now)
            is_same.now = (words[k] == extents[k]) & (words[dims + k] == strides[k])
    with f.when(is_same.now):
        for part_, name in enumerate(("shape", "strides")):
            out[part_] = row[name]
            f.call("Py_IncRef", out[part_])
        f.ret(True)
    out[0], out[1] = f.call(small.make_tuple, extents.pointer, dims), None
    f.ret_if(out[0].null, False)
    out[1] = f.call(small.make_tuple, strides.pointer, dims)
    f.ret_if(out[1].null, False)  # the caller releases the first
    with f.when(is_short):
        before = [row["shape"], row["strides"]]
        row["dims"] = dims
        f.copy(words.pointer, extents.pointer, dims << 3)
        f.copy(words.at(dims), strides.pointer, dims << 3)
        for part_, name in enumerate(("shape", "strides")):
            f.call("Py_IncRef", out[part_])
            row[name] = out[part_]
        for object_ in before:
            with f.unless(object_.null):
                f.call("Py_DecRef", object_)
    f.ret(True)


@routine("ptr weft_small_view(ptr x, ptr place, ptr steps, ptr index)")
def make_view(f: Body, x: Value, place_: Value, steps: Value, index_: Value) -> None:
    """Return a new view of x at a place in the memory of x, or null with an exception set. x: an array, or a view with a path.

    steps: the path of the new view, or None if ``Array._path`` is to find it from ``index``
    """
    place, state, none = f.record(place_, PLACE), small.state_of(f), f.symbol("_Py_NoneStruct")
    owner, before, base = f.variable("ptr", x), f.variable("ptr", state["empty"]), small.slot(f, x, "base")[0]
    with f.unless(base == none):
        owner.now, before.now = base, small.slot(f, x, "steps")[0]
    offset = place["address"] - small.address(f, place["node"])
    layout = f.call("PyTuple_New", 3)
    f.ret_if(layout.null, None)
    f.call("PyObject_GC_UnTrack", layout)
    parts = small.items(f, layout)
    f.ret_unless(f.call(find_shapes, place_, parts.pointer), None, layout)
    parts[2] = f.call("PyLong_FromLongLong", offset)
    f.ret_if(parts[2].null, None, layout)
    new = f.call(make_object, state["array"], state["view"], state["view_slots"])
    f.ret_if(new.null, None, layout)
    small.slot(f, new, "layout")[0] = layout
    for name, object_ in (("base", owner.now), ("before", before.now), ("steps", steps), ("index", index_)):
        f.call("Py_IncRef", object_)
        small.slot(f, new, name)[0] = object_
    f.call("PyObject_GC_UnTrack", new)  # its base does not refer to it
    f.ret(new)


@routine("ptr weft_part" + BUILTIN, exported=True)
def part(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x, index) -> an element as a Scalar, a view, or None."""
    arguments, state, place = f.array(args, "ptr"), small.state_of(f), small.new_place(f)
    x, index_, none = arguments[0], arguments[1], f.symbol("_Py_NoneStruct")
    small.none_unless(f, (f.call(small.limit) > 0) & (nargs == 2))
    small.none_unless(f, f.call(small.locate, x, place.pointer))
    found = f.call(select, place.pointer, index_)
    with f.when(found == _ELEMENT):
        f.ret(f.call(copy_element, place.pointer))
    small.none_unless(f, (found == _PART) & (f.record(x, OBJECT)["type"] == state["array"]))
    with f.unless(small.slot(f, x, "base")[0] == none):
        small.none_unless(f, small.slot(f, x, "steps")[0] != none)
    index_type, scalar = f.record(index_, OBJECT)["type"], state["scalar_type"]
    with f.when(index_type == scalar):  # the path of a view is found from Python's ints
        room = f.array(f.allocate_fixed("i64"))
        f.call(index, index_, room.pointer)
        number = f.call("PyLong_FromLongLong", room[0])
        f.ret_if(number.null, None)
        view = f.call(make_view, x, place.pointer, none, number)
        f.call("Py_DecRef", number)
        f.ret(view)
    with f.when(index_type == f.symbol("PyTuple_Type")):
        with f.count_to(small.length(f, index_)) as k:
            small.none_unless(f, f.record(small.items(f, index_)[k], OBJECT)["type"] != scalar)
    f.ret(f.call(make_view, x, place.pointer, none, index_))


@routine("ptr weft_item" + BUILTIN, exported=True)
def item(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x, index) -> the result of ``part``; if ``part`` returns None, of the Python function ``self``."""
    out = f.call(part, self, args, nargs)
    f.ret_unless(out == f.symbol("_Py_NoneStruct"), out)
    f.call("Py_DecRef", out)
    f.ret(f.call("PyObject_Vectorcall", self, args, nargs, None))


@routine("ptr weft_transpose" + BUILTIN, exported=True)
def transpose(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x) -> a view with the axes reversed, or None. x: an array that is no view."""
    x, place, state, none = f.array(args, "ptr")[0], small.new_place(f), small.state_of(f), f.symbol("_Py_NoneStruct")
    small.none_unless(f, (f.call(small.limit) > 0) & (nargs == 1) & f.call(small.is_base, x))
    small.none_unless(f, f.call(small.locate, x, place.pointer))
    dims = place["dims"]
    small.none_unless(f, dims < small.length(f, state["transposes"]))
    for words in (f.array(place["extents"]), f.array(place["strides"])):
        with f.count_to(dims >> 1) as k:
            word, last = words[k], dims - 1 - k
            words[k] = words[last]
            words[last] = word
    f.ret(f.call(make_view, x, place.pointer, small.items(f, state["transposes"])[dims], none))


@routine("ptr weft_reshape" + BUILTIN, exported=True)
def reshape(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x, shape) -> a view with these extents, one of which may be -1, or None. x: an array that is no view."""
    arguments, place, state = f.array(args, "ptr"), small.new_place(f), small.state_of(f)
    x, shape, none = arguments[0], arguments[1], f.symbol("_Py_NoneStruct")
    small.none_unless(f, (f.call(small.limit) > 0) & (nargs == 2) & f.call(small.is_base, x))
    small.none_unless(f, f.record(shape, OBJECT)["type"] == f.symbol("PyTuple_Type"))
    small.none_unless(f, f.call(small.locate, x, place.pointer))
    dims, size, extents = small.length(f, shape), place["size"], f.array(place["extents"])
    small.none_unless(f, (dims <= MAX_DIMS) & (size > 0))
    product, unknown, room = f.variable("i64", 1), f.variable("i64", -1), f.array(f.allocate_fixed("i64"))
    with f.count_to(dims) as k:
        item = small.items(f, shape)[k]
        small.none_unless(f, f.record(item, OBJECT)["type"] == f.symbol("PyLong_Type"))
        small.none_unless(f, f.call(index, item, room.pointer))
        n = room[0]
        extents[k] = n
        with f.when(n == -1):
            small.none_unless(f, unknown.now == -1)
            unknown.now = k
        with f.otherwise():
            small.none_unless(f, (n > 0) & (n <= size))
            product.now = product.now * n
            small.none_unless(f, product.now <= size)
    with f.unless(unknown.now == -1):
        extents[unknown.now] = size // product.now
        product.now = product.now * extents[unknown.now]
    small.none_unless(f, product.now == size)
    place["dims"] = dims
    small.set_row_major(f, place)
    f.ret(f.call(make_view, x, place.pointer, none, state["reshaped"]))


ROUTINES = (read_slice, select, make_view, part, item, transpose, reshape)
