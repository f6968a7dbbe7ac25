"""argmax and argmin of small arrays in emitted code. NumPy is faster from about a thousand elements on."""

from __future__ import annotations

from weft.devices.cpu.native import small_ir as small
from weft.devices.cpu.native.imported_symbols import OBJECT
from weft.devices.cpu.native.layouts import BUFFER, FLOAT32, FLOAT64, FORMAT, INTEGER
from weft.devices.cpu.native.memory_ir import BUILTIN
from weft.devices.cpu.native.operators_ir import index
from weft.devices.cpu.native.routine import Body, Routine, Value, routine

MAX_SIZE = 1 << 10  # elements


def _find_extreme(type_: str) -> Routine:
    @routine(f"i64 weft_small_extreme_{type_}(i64 address, i64 count, i64 stride, i1 least)")
    def find(f: Body, address: Value, count: Value, stride: Value, is_least: Value) -> None:
        """Return the position of the greatest or least element: the first of equal ones, NaN before all numbers."""
        best, position = f.variable(type_, f.array(address.to("ptr"), type_)[0]), f.variable("i64")
        with f.count_to(count) as k:
            value = f.array((address + k * stride).to("ptr"), type_)[0]
            is_better = is_least.pick(value < best.now, value > best.now)
            if type_[0] != "i":
                is_better = is_better | (value.is_nan & ~best.now.is_nan)
            with f.when(is_better):
                best.now, position.now = value, k
        f.ret(position.now)

    return find


_TYPES = {(FLOAT32, 4): "float", (FLOAT64, 8): "double", (INTEGER, 4): "i32", (INTEGER, 8): "i64"}  # the frequent formats
_FIND = {kind: _find_extreme(type_) for kind, type_ in _TYPES.items()}


@routine("i64 weft_small_extreme(ptr format, i64 address, i64 count, i64 stride, i1 least)")
def find_extreme(f: Body, format_: Value, address: Value, count: Value, stride: Value, is_least: Value) -> None:
    """Return the position of an extreme, or -1 for other formats."""
    form = f.record(format_, FORMAT)
    for (kind, width), find in _FIND.items():
        with f.when((form["kind"] == kind) & (form["bytes"] == width)):
            f.ret(f.call(find, address, count, stride, is_least))
    f.ret(-1)


@routine("ptr weft_extreme" + BUILTIN, exported=True)
def extreme(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x, axis or None, is_least, dtype of the result) -> an array of positions, or None."""
    arguments, state, none = f.array(args, "ptr"), small.state_of(f), f.symbol("_Py_NoneStruct")
    x, axis, place = arguments[0], arguments[1], small.new_place(f)
    small.none_unless(f, (nargs == 4) & (f.call(small.limit) > 0))
    small.none_unless(f, f.call(small.locate, x, place.pointer))
    size, dims = place["size"], f.variable("i64", place["dims"])
    extents, strides = f.array(place["extents"]), f.array(place["strides"])
    small.none_unless(f, (size > 0) & (size <= MAX_SIZE))
    count, stride = f.variable("i64", size), f.variable("i64", f.record(place["format"], FORMAT)["bytes"])
    room = f.array(f.allocate_fixed("i64"))
    with f.when(axis == none):
        small.none_unless(f, small.slot(f, x, "base")[0] == none)
        dims.now = 0
    with f.otherwise():
        small.none_unless(f, f.record(axis, OBJECT)["type"] == f.symbol("PyLong_Type"))
        small.none_unless(f, f.call(index, axis, room.pointer))
        number = room[0] + (room[0] < 0).pick(dims.now, 0)
        small.none_unless(f, (number >= 0) & (number < dims.now))
        count.now, stride.now, dims.now = extents[number], strides[number], dims.now - 1
        with f.count_to(dims.now - number) as k:
            extents[number + k], strides[number + k] = extents[number + k + 1], strides[number + k + 1]
    is_least, form, dtype = arguments[2] == f.symbol("_Py_TrueStruct"), place["format"], arguments[3]
    address = place["address"]
    small.none_unless(f, f.call(find_extreme, form, address, count.now, stride.now, is_least) >= 0)
    number = size // count.now
    node = place["node"]
    f.call("Py_IncRef", node)  # creating objects may run Python code and other threads
    shape, new = f.call(small.make_tuple, extents.pointer, dims.now), f.variable("ptr")
    with f.unless(shape.null):
        buffer = f.call(small.make_buffer, number << 3)
        with f.unless(buffer.null):
            out = f.array(f.record(buffer, BUFFER)["address"].to("ptr"))
            with f.count_to(number) as k:
                rest, at = f.variable("i64", k), f.variable("i64", address)
                with f.count_to(dims.now) as back:
                    d = dims.now - 1 - back
                    above = rest.now // extents[d]
                    at.now = at.now + (rest.now - above * extents[d]) * strides[d]
                    rest.now = above
                out[k] = f.call(find_extreme, form, at.now, count.now, stride.now, is_least)
            new.now = f.call(small.node, state["leaf"], state["nothing"], shape, dtype, buffer)
        f.call("Py_DecRef", shape)
    f.call("Py_DecRef", node)
    f.ret(f.call(small.array, new.now, dims.now == 0))


ROUTINES = (extreme,)
