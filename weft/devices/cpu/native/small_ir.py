"""Small work in emitted code: operators on arrays that have contents, and reading and writing one element.

Each is a builtin that Python asks first. It answers None where the case is not a plain one, and then Python goes its own way:
views, pending arrays, traces, other classes, dtypes that do not fit, large results. ``small.py`` writes the tables.

An operation is known by rows, one a dtype of its operands, of functions whose sizes are arguments; a row is there once Python
has seen the function made.
"""

from __future__ import annotations

from weft.devices.cpu.native.call_ir import MUCH
from weft.devices.cpu.native.foreign import OBJECT, PY_EQ
from weft.devices.cpu.native.layouts import (
    BOOLEAN,
    BUFFER,
    COUNTERS,
    FLOAT32,
    FLOAT64,
    FORMAT,
    INTEGER,
    OPERATION,
    OPERATION_ROW,
    SMALL_STATE,
    UNSIGNED,
    extent,
)
from weft.devices.cpu.native.memory_ir import BUILTIN, make, return_none
from weft.devices.cpu.native.routine import Array, Body, Record, Value, routine
from weft.devices.cpu.native.warm_ir import filled

LARGEST = 1 << 20  # bytes of a result: so far the homes go


def _state(f: Body) -> Record:
    return f.record(f.symbol("weft_small_state"), SMALL_STATE)


def _slot(f: Body, object_: Value, name: str) -> Array:
    """A slot of an object, the place of which the state tells: an array of one."""
    return f.array(f.array(object_, "i8").at(_state(f)[name]), "ptr")


def _none_unless(f: Body, plain: Value) -> None:
    """Answer None, unless the case is a plain one."""
    with f.unless(plain):
        return_none(f)


# ---- what is asked of operands


@routine("i64 weft_small_limit()")
def limit(f: Body) -> None:
    """How many bytes a result may have to be computed at once in this thread, now; 0 in traces, gradients and the like."""
    state = _state(f)
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
    own, pairs = state["own"], f.array(state["still"], "ptr")
    with f.each(state["stills"]) as k:
        pair = pairs.part(k << 1)
        found = f.call("PyDict_GetItemWithError", own, pair[0])
        with f.unless(found.null | (found == pair[1])):
            f.ret(0)
    found = f.call("PyDict_GetItemWithError", own, state["limit"])
    with f.when(found.null):
        f.ret(state["usual"])
    overflow = f.fixed_room("i64")
    f.ret(f.call("PyLong_AsLongLongAndOverflow", found, overflow))


@routine("ptr weft_small_content(ptr object)")
def content(f: Body, object_: Value) -> None:
    """The node of an array whose content is computed; else null. A view has one where it was followed already."""
    state, none = _state(f), f.symbol("_Py_NoneStruct")
    its_type = f.record(object_, OBJECT)["type"]
    with f.unless((its_type == state["array"]) | (its_type == state["scalar_type"])):
        f.ret(None)
    base = _slot(f, object_, "base")[0]
    with f.unless(base == none):
        source = _slot(f, object_, "source")[0]
        with f.when(source.null | ~(source == _slot(f, base, "content")[0])):
            f.ret(None)
    node = _slot(f, object_, "content")[0]
    with f.when(node.null):
        f.ret(None)
    value = _slot(f, node, "value")[0]
    buffers = f.array(state["allocator"], "ptr")[0]
    with f.unless(f.record(value, OBJECT)["type"] == buffers):  # pending, a number, or somebody else's memory
        f.ret(None)
    f.ret(node)


def _address(f: Body, node: Value) -> Value:
    return f.record(_slot(f, node, "value")[0], BUFFER)["address"]


@routine("i1 weft_small_own(ptr object)")
def own(f: Body, object_: Value) -> None:
    """Whether an array may be written into: it is no value, and holds its own content."""
    state = _state(f)
    is_array = f.record(object_, OBJECT)["type"] == state["array"]
    f.ret(is_array & (_slot(f, object_, "base")[0] == f.symbol("_Py_NoneStruct")))


@routine("i64 weft_small_size(ptr shape)")
def size(f: Body, shape: Value) -> None:
    """How many elements a shape has."""
    out = f.variable("i64", 1)
    with f.each(f.call("PyTuple_Size", shape)) as k:
        out.now = out.now * f.call("PyLong_AsUnsignedLongLongMask", f.call("PyTuple_GetItem", shape, k))
    f.ret(out.now)


@routine("ptr weft_small_format(ptr dtype)")
def format_(f: Body, dtype: Value) -> None:
    """What a dtype is in memory."""
    state = _state(f)
    rows = f.array(state["formats"], "i8")
    with f.each(state["format_count"]) as k:
        row = f.record(rows.at(k * extent(FORMAT)), FORMAT)
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
        integer = f.call("PyLong_AsLongLongAndOverflow", object_, overflow)
        fits = (f.array(overflow, "i32")[0] == 0) & (integer >= row["least"]) & (integer <= row["most"])
        with f.unless(fits):
            f.ret(False)
        with f.when(whole):
            _store(f, room, integer, row["bytes"])
            f.ret(True)
        as_double.now = integer.to("double")
    with f.when(kind == FLOAT32):
        f.array(room, "float")[0] = as_double.now.to("float")
    with f.otherwise():
        f.array(room, "double")[0] = as_double.now
    f.ret(True)


_INTEGERS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


def _store(f: Body, where: Value, integer: Value, nbytes: Value) -> None:
    for width, type_ in _INTEGERS.items():
        with f.when(nbytes == width):
            f.array(where, type_)[0] = integer.to(type_)


# ---- what comes out


@routine("ptr weft_small_made(i64 nbytes)")
def made(f: Body, nbytes: Value) -> None:
    """A buffer for a result."""
    state = _state(f)
    place = f.variable("i64", (nbytes + 63) >> 6)
    with f.when(nbytes > 1024):
        shift = f.constant("i64", 61) - f.call("llvm.ctlz.i64", nbytes - 1, False)
        place.now = ((shift - 8) << 2) + ((nbytes - 1) >> shift) + 13
    home = f.array(state["homes"], "ptr")[place.now]
    f.ret(f.call(make, state["allocator"], home, nbytes))


@routine("ptr weft_small_node(ptr op, ptr params, ptr shape, ptr dtype, ptr buffer)")
def node(f: Body, op: Value, params: Value, shape: Value, dtype: Value, buffer: Value) -> None:
    """A Node of a buffer, which it takes over; null with an exception set if there is no memory."""
    state = _state(f)
    new = f.call(filled, state["node_type"], state["node"], state["node_slots"])
    with f.when(new.null):
        f.call("Py_DecRef", buffer)
        f.ret(None)
    for name, object_ in (("op", op), ("params", params), ("shape", shape), ("dtype", dtype)):
        f.call("Py_IncRef", object_)
        _slot(f, new, name)[0] = object_
    _slot(f, new, "value")[0] = buffer
    f.ret(new)


@routine("ptr weft_small_array(ptr node, i1 value)")
def array(f: Body, node_: Value, value: Value) -> None:
    """An Array, or a Scalar, of a node, which it takes over."""
    state = _state(f)
    with f.when(node_.null):
        f.ret(None)
    new = f.call(filled, value.pick(state["scalar_type"], state["array"]), state["result"], state["result_slots"])
    with f.when(new.null):
        f.call("Py_DecRef", node_)
        f.ret(None)
    _slot(f, new, "content")[0] = node_
    f.ret(new)


# ---- operators


@routine("ptr weft_small_row(ptr operation, ptr dtype)")
def row_of(f: Body, operation: Value, dtype: Value) -> None:
    """What an operation does with operands of a dtype; null where nothing is known of that."""
    head = f.record(operation, OPERATION)
    rows = f.array(head["rows"], "i8")
    with f.each(head["count"]) as k:
        row = f.record(rows.at(k * extent(OPERATION_ROW)), OPERATION_ROW)
        with f.when(row["dtype"] == dtype):
            f.ret(row.pointer)
    f.ret(None)


@routine("ptr weft_small_run(ptr row, ptr like, ptr words, i64 limit)")
def run(f: Body, row_: Value, like: Value, words_: Value, limit_: Value) -> None:
    """Run a function: a node with the shape of ``like``, or null, with an exception set or because it is no small work.

    words: for the function, without count and result
    """
    row, words, state = f.record(row_, OPERATION_ROW), f.array(words_), _state(f)
    shape = _slot(f, like, "shape")[0]
    count = f.call(size, shape)
    nbytes = count * row["bytes"]
    theirs = count * f.record(row["format"], FORMAT)["bytes"]  # Python goes by one of the two
    with f.unless((count > 0) & (count <= MUCH) & (theirs <= limit_) & (nbytes <= limit_) & (nbytes <= LARGEST)):
        f.ret(None)
    buffer = f.call(made, nbytes)
    with f.when(buffer.null):
        f.ret(None)
    words[0] = count
    words[1] = f.record(buffer, BUFFER)["address"]
    counters = f.record(f.symbol("weft_counters"), COUNTERS)
    counters["sized"] = counters["sized"] + 1
    f.call_address(row["function"], words.pointer)
    params = f.variable("ptr", state["nothing"])
    its_params = _slot(f, like, "params")[0]
    with f.unless(f.call("PyDict_Size", its_params) == 0):
        with f.unless(f.call("PyDict_Contains", its_params, state["reduced"]) == 0):
            params.now = its_params
    f.ret(f.call(node, row["op"], params.now, shape, row["result"], buffer))


@routine("ptr weft_one" + BUILTIN, exported=True)
def one(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """self: an operation. (x) -> Array or None"""
    operation = f.call("PyLong_AsVoidPtr", self)
    x = f.call(content, f.array(args, "ptr")[0])
    _none_unless(f, ~x.null & (nargs == 1))
    row = f.call(row_of, operation, _slot(f, x, "dtype")[0])
    most = f.call(limit)
    _none_unless(f, ~row.null & (most > 0))
    words = f.array(f.fixed_room("[4 x i64]"))
    words[2] = _address(f, x)
    words[3] = 1
    f.call("Py_IncRef", x)  # making objects may run Python, and other threads
    _answer(f, f.call(run, row, x, words.pointer, most), x)


def _answer(f: Body, new: Value, like: Value) -> None:
    """Give an Array of a node, or None where there is neither a node nor an exception; ``like`` is let go."""
    value = f.call("PyTuple_Size", _slot(f, like, "shape")[0]) == 0
    f.call("Py_DecRef", like)
    with f.when(new.null):
        _none_unless(f, ~f.call("PyErr_Occurred").null)
        f.ret(None)
    f.ret(f.call(array, new, value))


@routine("ptr weft_two" + BUILTIN, exported=True)
def two(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """self: an operation. (x, y) -> Array or None; (x, y, x): the result becomes the content of x. One may be a Python number"""
    operation = f.call("PyLong_AsVoidPtr", self)
    most = f.call(limit)
    _none_unless(f, (most > 0) & (nargs >= 2))
    given = f.array(args, "ptr")
    x, y = f.call(content, given[0]), f.call(content, given[1])
    words, room = f.array(f.fixed_room("[6 x i64]")), f.fixed_room("i64")
    like, other = f.variable("ptr", x), f.variable("ptr", y)
    with f.when(x.null):
        like.now = y
    _none_unless(f, ~like.now.null)
    dtype = _slot(f, like.now, "dtype")[0]
    row_ = f.call(row_of, operation, dtype)
    _none_unless(f, ~row_.null)
    row = f.record(row_, OPERATION_ROW)
    words[3], words[5] = f.constant("i64", 1), f.constant("i64", 1)
    with f.when(x.null | y.null):
        alone = x.null.pick(f.constant("i64", 0), f.constant("i64", 1))
        _none_unless(f, f.call(number, given[alone], row["format"], room))
        words[(alone << 1) + 2] = room.to("i64")
        words[(alone << 1) + 3] = 0
        words[((f.constant("i64", 1) - alone) << 1) + 2] = _address(f, like.now)
    with f.otherwise():
        _none_unless(f, _slot(f, y, "dtype")[0] == dtype)
        words[2], words[4] = _address(f, x), _address(f, y)
        shape, its = _slot(f, x, "shape")[0], _slot(f, y, "shape")[0]
        with f.unless(shape == its):
            with f.unless(f.call("PyObject_RichCompareBool", shape, its, PY_EQ) == 1):
                with f.when(f.call("PyTuple_Size", its) == 0):
                    words[5] = 0
                with f.otherwise():
                    _none_unless(f, f.call("PyTuple_Size", shape) == 0)
                    words[3] = 0
                    like.now = y
                    other.now = x
    into = nargs == 3
    with f.when(into):
        whole = (given[2] == given[0]) & (like.now == x) & (row["result"] == dtype)
        _none_unless(f, whole & f.call(own, given[0]))
    kept, kept_too = like.now, other.now
    f.call("Py_IncRef", kept)  # making objects may run Python, and other threads
    f.call("Py_IncRef", kept_too)
    new = f.call(run, row_, kept, words.pointer, most)
    f.call("Py_DecRef", kept_too)
    with f.when(into & ~new.null):
        target = given[2]
        content_ = _slot(f, target, "content")
        before = content_[0]
        content_[0] = new
        f.call("Py_IncRef", target)
        f.call("Py_DecRef", before)
        f.call("Py_DecRef", kept)
        f.ret(target)
    _answer(f, new, kept)


# ---- elements


@routine("i64 weft_small_place(ptr shape, ptr index)")
def place(f: Body, shape: Value, index: Value) -> None:
    """The number of the element that integers choose; -1 where they choose none, or something else is given."""
    integers, overflow = f.symbol("PyLong_Type"), f.fixed_room("i64")
    given = f.variable("i64", 1)
    alone = f.record(index, OBJECT)["type"] == integers
    with f.unless(alone):
        with f.unless(f.record(index, OBJECT)["type"] == f.symbol("PyTuple_Type")):
            f.ret(-1)
        given.now = f.call("PyTuple_Size", index)
    dims = f.call("PyTuple_Size", shape)
    with f.unless(given.now == dims):
        f.ret(-1)
    out, item = f.variable("i64", 0), f.variable("ptr", index)
    with f.each(dims) as k:
        with f.unless(alone):
            item.now = f.call("PyTuple_GetItem", index, k)
        with f.unless(f.record(item.now, OBJECT)["type"] == integers):
            f.ret(-1)
        n = f.call("PyLong_AsUnsignedLongLongMask", f.call("PyTuple_GetItem", shape, k))
        at = f.call("PyLong_AsLongLongAndOverflow", item.now, overflow)
        with f.unless((f.array(overflow, "i32")[0] == 0) & (at < n) & (at + n >= 0)):
            f.ret(-1)
        out.now = out.now * n + at + (at < 0).pick(n, 0)
    f.ret(out.now)


@routine("ptr weft_element" + BUILTIN, exported=True)
def element(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """(x, index) -> Scalar or None"""
    given, state = f.array(args, "ptr"), _state(f)
    x = f.call(content, given[0])
    _none_unless(f, ~x.null & (nargs == 2))
    at = f.call(place, _slot(f, x, "shape")[0], given[1])
    dtype = _slot(f, x, "dtype")[0]
    form = f.call(format_, dtype)
    _none_unless(f, (at >= 0) & ~form.null & (f.call(limit) > 0))
    nbytes = f.record(form, FORMAT)["bytes"]
    source = (_address(f, x) + at * nbytes).to("ptr")
    f.call("Py_IncRef", x)
    buffer = f.call(made, nbytes)
    with f.unless(buffer.null):
        f.copy(f.record(buffer, BUFFER)["address"].to("ptr"), source, nbytes)
    f.call("Py_DecRef", x)
    with f.when(buffer.null):
        f.ret(None)
    f.ret(f.call(array, f.call(node, state["leaf"], state["nothing"], state["empty"], dtype, buffer), True))


@routine("ptr weft_store" + BUILTIN, exported=True)
def store(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """(x, index, number) -> True where it is written, else None: where somebody else may be reading it, too

    The number is Python's, or an array of this dtype without dimensions.
    """
    given = f.array(args, "ptr")
    x = f.call(content, given[0])
    _none_unless(f, ~x.null & (nargs == 3))
    buffer = f.record(_slot(f, x, "value")[0], BUFFER)
    held = f.record(buffer.pointer, OBJECT)["count"], f.record(x, OBJECT)["count"]
    alone = (held[0] == 1) & (held[1] == 1) & (buffer["exported"] == 0)
    _none_unless(f, alone & f.call(own, given[0]))
    dtype = _slot(f, x, "dtype")[0]
    form, source = f.call(format_, dtype), f.variable("ptr", f.fixed_room("i64"))
    at = f.call(place, _slot(f, x, "shape")[0], given[1])
    _none_unless(f, (at >= 0) & ~form.null & (f.call(limit) > 0))
    y = f.call(content, given[2])
    with f.when(y.null):
        _none_unless(f, f.call(number, given[2], form, source.now))
    with f.otherwise():
        _none_unless(f, (_slot(f, y, "dtype")[0] == dtype) & (f.call("PyTuple_Size", _slot(f, y, "shape")[0]) == 0))
        source.now = _address(f, y).to("ptr")
    nbytes = f.record(form, FORMAT)["bytes"]
    f.copy((buffer["address"] + at * nbytes).to("ptr"), source.now, nbytes)
    true = f.symbol("_Py_TrueStruct")
    f.call("Py_IncRef", true)
    f.ret(true)


@routine("ptr weft_number" + BUILTIN, exported=True)
def told(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """(x) -> the one element as a Python number, or None"""
    x = f.call(content, f.array(args, "ptr")[0])
    _none_unless(f, ~x.null & (nargs == 1))
    form_ = f.call(format_, _slot(f, x, "dtype")[0])
    _none_unless(f, ~form_.null & (f.call(limit) > 0) & (f.call(size, _slot(f, x, "shape")[0]) == 1))
    form = f.record(form_, FORMAT)
    kind, nbytes, at = form["kind"], form["bytes"], _address(f, x).to("ptr")
    with f.when(kind == FLOAT32):
        f.ret(f.call("PyFloat_FromDouble", f.array(at, "float")[0].to("double")))
    with f.when(kind == FLOAT64):
        f.ret(f.call("PyFloat_FromDouble", f.array(at, "double")[0]))
    with f.when(kind == BOOLEAN):
        f.ret(f.call("PyBool_FromLong", f.array(at, "i8")[0].to("i64")))
    for width, type_ in _INTEGERS.items():
        with f.when((kind == INTEGER) & (nbytes == width)):
            f.ret(f.call("PyLong_FromLongLong", f.array(at, type_)[0].signed()))
        with f.when((kind == UNSIGNED) & (nbytes == width)):
            f.ret(f.call("PyLong_FromUnsignedLongLong", f.array(at, type_)[0].to("i64")))
    return_none(f)


ROUTINES = (
    limit, content, own, size, format_, number, made, node, array, row_of, run, one, two, place, element, store, told,
)
