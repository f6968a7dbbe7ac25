"""Elements in emitted code: read or write one element of a small array, or convert the only one to a Python number."""

from __future__ import annotations

from weft.devices.cpu.native import small_ir as small
from weft.devices.cpu.native.imported_symbols import OBJECT
from weft.devices.cpu.native.layouts import BOOLEAN, BUFFER, FLOAT32, FLOAT64, FORMAT, INTEGER, UNSIGNED
from weft.devices.cpu.native.memory_ir import BUILTIN, return_none
from weft.devices.cpu.native.routine import Body, Value, routine


@routine("i1 weft_small_index(ptr object, ptr room)")
def index(f: Body, object_: Value, room: Value) -> None:
    """Store an index, a Python int or a materialised integer Scalar, in ``room``. Return whether it is one and fits 64 bits."""
    state, out = small.state_of(f), f.array(room, "i64")
    its_type = f.record(object_, OBJECT)["type"]
    with f.when(its_type == f.symbol("PyLong_Type")):
        overflow = f.fixed_room("i64")
        out[0] = f.call("PyLong_AsLongLongAndOverflow", object_, overflow)
        f.ret(f.array(overflow, "i32")[0] == 0)
    with f.unless(its_type == state["scalar_type"]):
        f.ret(False)
    x = f.call(small.content, object_)
    with f.when(x.null):
        f.ret(False)
    form_ = f.call(small.format_, small.slot(f, x, "dtype")[0])
    with f.when(form_.null):
        f.ret(False)
    form, at = f.record(form_, FORMAT), small.address(f, x).to("ptr")
    kind, nbytes = form["kind"], form["bytes"]
    for width, type_ in small.INTEGERS.items():
        with f.when((kind == INTEGER) & (nbytes == width)):
            out[0] = f.array(at, type_)[0].signed()
            f.ret(True)
        if width < 8:
            with f.when((kind == UNSIGNED) & (nbytes == width)):
                out[0] = f.array(at, type_)[0].to("i64")
                f.ret(True)
    f.ret(False)


@routine("i64 weft_small_place(ptr shape, ptr index)")
def place(f: Body, shape: Value, index_: Value) -> None:
    """Return the flat position of the element that an index selects, or -1 if it is out of range or not all integers."""
    count, room = f.variable("i64", 1), f.fixed_room("i64")
    is_single = f.record(index_, OBJECT)["type"] != f.symbol("PyTuple_Type")
    with f.unless(is_single):
        count.now = small.length(f, index_)
    dims = small.length(f, shape)
    with f.unless(count.now == dims):
        f.ret(-1)
    out, item = f.variable("i64", 0), f.variable("ptr", index_)
    with f.each(dims) as k:
        with f.unless(is_single):
            item.now = small.items(f, index_)[k]
        with f.unless(f.call(index, item.now, room)):
            f.ret(-1)
        n, at = small.integer(f, small.items(f, shape)[k]), f.array(room, "i64")[0]
        with f.unless((at < n) & (at + n >= 0)):
            f.ret(-1)
        out.now = out.now * n + at + (at < 0).pick(n, 0)
    f.ret(out.now)


@routine("ptr weft_element" + BUILTIN, exported=True)
def element(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x, index) -> Scalar or None."""
    arguments, state = f.array(args, "ptr"), small.state_of(f)
    x = f.call(small.content, arguments[0])
    small.none_unless(f, ~x.null & (nargs == 2))
    at = f.call(place, small.slot(f, x, "shape")[0], arguments[1])
    dtype = small.slot(f, x, "dtype")[0]
    form = f.call(small.format_, dtype)
    small.none_unless(f, (at >= 0) & ~form.null & (f.call(small.limit) > 0))
    nbytes = f.record(form, FORMAT)["bytes"]
    source = (small.address(f, x) + at * nbytes).to("ptr")
    f.call("Py_IncRef", x)
    buffer = f.call(small.made, nbytes)
    with f.unless(buffer.null):
        f.copy(f.record(buffer, BUFFER)["address"].to("ptr"), source, nbytes)
    f.call("Py_DecRef", x)
    with f.when(buffer.null):
        f.ret(None)
    f.ret(f.call(small.array, f.call(small.node, state["leaf"], state["nothing"], state["empty"], dtype, buffer), True))


@routine("ptr weft_store" + BUILTIN, exported=True)
def store(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x, index, number) -> True, or None if it has not written, for example because the buffer is shared.

    ``number`` is a Python number or a 0-d array of the same dtype.
    """
    arguments = f.array(args, "ptr")
    x = f.call(small.content, arguments[0])
    small.none_unless(f, ~x.null & (nargs == 3))
    buffer = f.record(small.slot(f, x, "value")[0], BUFFER)
    counts = f.record(buffer.pointer, OBJECT)["count"], f.record(x, OBJECT)["count"]
    # a weak reference to the node is that of a view which has cached it
    is_unshared = (counts[0] == 1) & (counts[1] == 1) & (buffer["exported"] == 0) & small.slot(f, x, "weak")[0].null
    # constants, whose node is not a leaf, are not written
    small.none_unless(f, is_unshared & f.call(small.own, arguments[0]) & (small.slot(f, x, "op")[0] == small.state_of(f)["leaf"]))
    dtype = small.slot(f, x, "dtype")[0]
    form, source = f.call(small.format_, dtype), f.variable("ptr", f.fixed_room("i64"))
    at = f.call(place, small.slot(f, x, "shape")[0], arguments[1])
    small.none_unless(f, (at >= 0) & ~form.null & (f.call(small.limit) > 0))
    y = f.call(small.content, arguments[2])
    with f.when(y.null):
        small.none_unless(f, f.call(small.number, arguments[2], form, source.now))
    with f.otherwise():
        small.none_unless(f, (small.slot(f, y, "dtype")[0] == dtype) & (small.length(f, small.slot(f, y, "shape")[0]) == 0))
        source.now = small.address(f, y).to("ptr")
    nbytes = f.record(form, FORMAT)["bytes"]
    f.copy((buffer["address"] + at * nbytes).to("ptr"), source.now, nbytes)
    true = f.symbol("_Py_TrueStruct")
    f.call("Py_IncRef", true)
    f.ret(true)


@routine("ptr weft_number" + BUILTIN, exported=True)
def to_python_number(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x) -> the only element as a Python number, or None."""
    x = f.call(small.content, f.array(args, "ptr")[0])
    small.none_unless(f, ~x.null & (nargs == 1))
    form_ = f.call(small.format_, small.slot(f, x, "dtype")[0])
    small.none_unless(f, ~form_.null & (f.call(small.limit) > 0) & (f.call(small.size, small.slot(f, x, "shape")[0]) == 1))
    form = f.record(form_, FORMAT)
    kind, nbytes, at = form["kind"], form["bytes"], small.address(f, x).to("ptr")
    with f.when(kind == FLOAT32):
        f.ret(f.call("PyFloat_FromDouble", f.array(at, "float")[0].to("double")))
    with f.when(kind == FLOAT64):
        f.ret(f.call("PyFloat_FromDouble", f.array(at, "double")[0]))
    with f.when(kind == BOOLEAN):
        f.ret(f.call("PyBool_FromLong", f.array(at, "i8")[0].to("i64")))
    for width, type_ in small.INTEGERS.items():
        with f.when((kind == INTEGER) & (nbytes == width)):
            f.ret(f.call("PyLong_FromLongLong", f.array(at, type_)[0].signed()))
        with f.when((kind == UNSIGNED) & (nbytes == width)):
            f.ret(f.call("PyLong_FromUnsignedLongLong", f.array(at, type_)[0].to("i64")))
    return_none(f)


ROUTINES = (index, place, element, store, to_python_number)
