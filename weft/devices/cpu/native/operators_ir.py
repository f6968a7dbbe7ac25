"""Operators and element access in emitted code, on small materialised arrays.

An elementwise operation has a row for each dtype of its operands, with a dynamic kernel; Python adds a row once the kernel is
compiled. A product or a reduction finds a prepared call in a hash table keyed by shapes. Elements are read, written, or converted
to Python numbers.
"""

from __future__ import annotations

from weft.devices.cpu.native import layouts
from weft.devices.cpu.native import small_ir as small
from weft.devices.cpu.native.imported_symbols import OBJECT
from weft.devices.cpu.native.layouts import BOOLEAN, BUFFER, FLOAT32, FLOAT64, FORMAT, INTEGER, UNSIGNED
from weft.devices.cpu.native.memory_ir import BUILTIN, return_none
from weft.devices.cpu.native.pool_ir import count_event
from weft.devices.cpu.native.routine import Body, Value, routine
from weft.devices.cpu.native.scalars_ir import copy_element

TIMES = 6  # number of words of a function of two operands; the number of calls is stored behind them
MAX_BROADCAST_CALLS = 32  # broadcasting with more calls than this, of fewer elements each, is left to NumPy


@routine("ptr weft_small_row(ptr operation, ptr dtype)")
def row_of(f: Body, operation: Value, dtype: Value) -> None:
    """Return an operation's row for a dtype, or null."""
    head = f.record(operation, layouts.OPERATION)
    small.return_row(f, head["rows"], head["count"], layouts.OPERATION_ROW, dtype)


@routine("ptr weft_small_run(ptr row, ptr like, ptr words, i64 limit)")
def run(f: Body, row_: Value, like: Value, words_: Value, limit_: Value) -> None:
    """Run a dynamic kernel. Return a node with the shape of ``like``; null if the work is not small or an exception is set.

    words: the kernel's words, of which count and result are filled in here, then the number of calls, and the bytes by which the
    addresses of x and y advance from call to call
    """
    row, words, state = f.record(row_, layouts.OPERATION_ROW), f.array(words_), small.state_of(f)
    shape = small.slot(f, like, "shape")[0]
    count = f.call(small.size, shape)
    nbytes = count * row["bytes"]
    operand_bytes = count * f.record(row["format"], FORMAT)["bytes"]  # Python's eager policy checks one of the two sizes
    is_small = (count > 0) & (count <= layouts.RELEASE_ABOVE_WORK) & (operand_bytes <= limit_)
    f.ret_unless(is_small & (nbytes <= limit_) & (nbytes <= layouts.MAX_SMALL_BYTES), None)
    buffer = f.call(small.make_buffer, nbytes)
    f.ret_if(buffer.null, None)
    outer = words[TIMES]
    words[0] = count
    words[1] = f.record(buffer, BUFFER)["address"]
    with f.unless(outer == 1):
        words[0] = count // outer
    with f.count_to(outer) as k:
        with f.unless(k == 0):
            words[1] = words[1] + words[0] * row["bytes"]
            words[2] = words[2] + words[TIMES + 1]
            words[4] = words[4] + words[TIMES + 2]
        _run(f, row["function"], words.pointer)
    params = f.variable("ptr", state["nothing"])
    its_params = small.slot(f, like, "params")[0]
    with f.unless(f.call("PyDict_Size", its_params) == 0):
        with f.unless(f.call("PyDict_Contains", its_params, state["reduced"]) == 0):
            params.now = its_params
    f.ret(f.call(small.node, row["op"], params.now, shape, row["result"], buffer))


def _run(f: Body, function: Value, words: Value) -> None:
    """Call a dynamic kernel, and count the call."""
    count_event(f, "sized")
    f.call_address(function, words)


@routine("ptr weft_one" + BUILTIN, exported=True)
def call_unary(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x) -> array or None. self: an operation."""
    operation = f.call("PyLong_AsVoidPtr", self)
    f.call(small.refresh, f.array(args, "ptr")[0])
    x = f.call(small.content, f.array(args, "ptr")[0])
    small.none_unless(f, ~x.null & (nargs == 1))
    row = f.call(row_of, operation, small.slot(f, x, "dtype")[0])
    most = f.call(small.limit)
    small.none_unless(f, ~row.null & (most > 0))
    words = f.array(f.allocate_fixed(f"[{TIMES + 3} x i64]"))
    words[2], words[3], words[TIMES] = small.address(f, x), f.constant("i64", 1), f.constant("i64", 1)
    f.call("Py_IncRef", x)  # creating objects may run Python code and other threads
    _return_array(f, f.call(run, row, x, words.pointer, most), x)


def _return_array(f: Body, new: Value, like: Value) -> None:
    """Release ``like`` and return the array of a node; if the node is null, return None or, with an exception set, null."""
    value = small.length(f, small.slot(f, like, "shape")[0]) == 0
    f.call("Py_DecRef", like)
    with f.when(new.null):
        small.none_unless(f, ~f.call("PyErr_Occurred").null)
        f.ret(None)
    f.ret(f.call(small.array, new, value))


@routine("i1 weft_small_spread(ptr shape, ptr its, ptr at, ptr words, i64 nbytes)")
def spread(f: Body, shape: Value, its: Value, at_: Value, words_: Value, nbytes: Value) -> None:
    """Return whether an operand can be broadcast to ``shape`` by repeating a contiguous row or column; set the words for it.

    its: the operand's shape; at: its two words, address and step; words: all words of the call
    """
    at, words = f.array(at_), f.array(words_)
    dims, its_dims = small.length(f, shape), small.length(f, its)
    inner, outer = f.variable("i64", 1), f.variable("i64", 1)
    rows, has_started, has_switched = f.variable("i1", False), f.variable("i1", False), f.variable("i1", False)
    with f.count_to(dims) as back:  # from the last dimension
        n = small.integer(f, small.items(f, shape)[dims - 1 - back])
        m = f.variable("i64", 1)
        with f.when(back < its_dims):
            m.now = small.integer(f, small.items(f, its)[its_dims - 1 - back])
        f.ret_unless((m.now == n) | (m.now == 1), False)
        with f.when(n == 1):
            f.again()
        matches = m.now == n
        with f.unless(has_started.now):
            has_started.now = True
            rows.now = matches
        with f.when(matches == rows.now):
            f.ret_if(has_switched.now, False)  # more than an outer and an inner part
            inner.now = inner.now * n
        with f.otherwise():
            has_switched.now = True
            outer.now = outer.now * n
    f.ret_unless((outer.now <= MAX_BROADCAST_CALLS) | (inner.now >= MAX_BROADCAST_CALLS), False)
    words[TIMES] = outer.now
    step = inner.now * nbytes
    words[TIMES + 1], words[TIMES + 2] = step, step
    advance = rows.now.pick(0, nbytes)
    with f.when(at_ == words.at(2)):
        words[TIMES + 1] = advance
    with f.otherwise():
        words[TIMES + 2] = advance
    at[1] = rows.now.to("i64")
    f.ret(True)


@routine("ptr weft_two" + BUILTIN, exported=True)
def two(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x, y) -> array or None; (x, y, x) replaces the content of x. self: an operation. x or y may be a number."""
    operation = f.call("PyLong_AsVoidPtr", self)
    most = f.call(small.limit)
    small.none_unless(f, (most > 0) & (nargs >= 2))
    arguments = f.array(args, "ptr")
    for k in range(2):
        f.call(small.refresh, arguments[k])
    x, y = f.call(small.content, arguments[0]), f.call(small.content, arguments[1])
    words, room = f.array(f.allocate_fixed(f"[{TIMES + 3} x i64]")), f.allocate_fixed("i64")
    like, other = f.variable("ptr", x), f.variable("ptr", y)
    with f.when(x.null):
        like.now = y
    small.none_unless(f, ~like.now.null)
    dtype = small.slot(f, like.now, "dtype")[0]
    row_ = f.call(row_of, operation, dtype)
    small.none_unless(f, ~row_.null)
    row = f.record(row_, layouts.OPERATION_ROW)
    for k in (3, 5, TIMES):
        words[k] = 1
    with f.when(x.null | y.null):
        number_index = x.null.pick(f.constant("i64", 0), f.constant("i64", 1))
        small.none_unless(f, f.call(small.number, arguments[number_index], row["format"], room))
        words[(number_index << 1) + 2] = room.to("i64")
        words[(number_index << 1) + 3] = 0
        words[((f.constant("i64", 1) - number_index) << 1) + 2] = small.address(f, like.now)
    with f.otherwise():
        small.none_unless(f, small.slot(f, y, "dtype")[0] == dtype)
        words[2], words[4] = small.address(f, x), small.address(f, y)
        shape, its = small.slot(f, x, "shape")[0], small.slot(f, y, "shape")[0]
        with f.unless(f.call(small.same, shape, its)):
            dims, its_dims = small.length(f, shape), small.length(f, its)
            smaller = (dims == its_dims) & (f.call(small.size, shape) < f.call(small.size, its))
            with f.when((dims < its_dims) | smaller):
                like.now = y
                other.now = x
            at = f.array(words.at((like.now == x).pick(4, 2)))  # the words of the operand that is broadcast
            nbytes = f.record(row["format"], FORMAT)["bytes"]
            shapes = [small.slot(f, x_.now, "shape")[0] for x_ in (like, other)]
            small.none_unless(f, f.call(spread, *shapes, at.pointer, words.pointer, nbytes))
    into = nargs == 3
    with f.when(into):
        is_replaceable = (arguments[2] == arguments[0]) & (like.now == x) & (row["result"] == dtype)
        small.none_unless(f, is_replaceable & f.call(small.is_base, arguments[0]))
    like_operand, other_operand = like.now, other.now
    f.call("Py_IncRef", like_operand)  # creating objects may run Python code and other threads
    f.call("Py_IncRef", other_operand)
    new = f.call(run, row_, like_operand, words.pointer, most)
    f.call("Py_DecRef", other_operand)
    with f.when(into & ~new.null):
        target = arguments[2]
        content_ = small.slot(f, target, "content")
        before = content_[0]
        content_[0] = new
        f.call("Py_IncRef", target)
        f.call("Py_DecRef", before)
        f.call("Py_DecRef", like_operand)
        f.ret(target)
    _return_array(f, new, like_operand)


@routine("ptr weft_shaped" + BUILTIN, exported=True)
def call_shaped(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x) or (x, y) -> array or None. self: a table of plans by hashes of shapes."""
    plans, arguments = f.array(f.call("PyLong_AsVoidPtr", self), "ptr"), f.array(args, "ptr")
    most = f.call(small.limit)
    small.none_unless(f, most > 0)
    f.call(small.refresh, arguments[0])
    with f.when(nargs == 2):
        f.call(small.refresh, arguments[1])
    x = f.call(small.content, arguments[0])
    y_ = f.variable("ptr", x)
    with f.when(nargs == 2):
        y_.now = f.call(small.content, arguments[1])
    y = y_.now
    small.none_unless(f, ~(x.null | y.null))
    left, right = small.slot(f, x, "shape")[0], small.slot(f, y, "shape")[0]
    plan_address = plans[(f.call("PyObject_Hash", left) * 3 + f.call("PyObject_Hash", right)) & (layouts.PLACES - 1)]
    small.none_unless(f, ~plan_address.null)
    plan = f.record(plan_address, layouts.PLAN)
    dtype = plan["dtype"]
    small.none_unless(f, (small.slot(f, x, "dtype")[0] == dtype) & (small.slot(f, y, "dtype")[0] == dtype))
    small.none_unless(f, f.call(small.same, left, plan["left"]) & f.call(small.same, right, plan["right"]))
    nbytes = plan["nbytes"]
    small.none_unless(f, nbytes <= most)
    words, owner = f.allocate_stack("i64", plan["count"]), plan["owner"]
    f.copy(words.pointer, plan["words"], plan["count"] << 3)
    words[plan["first"]] = small.address(f, x)
    words[plan["second"]] = small.address(f, y)
    for object_ in (owner, x, y):  # creating objects may run Python code and other threads, which may replace the plan
        f.call("Py_IncRef", object_)
    new, buffer = f.variable("ptr", None), f.call(small.make_buffer, nbytes)
    with f.unless(buffer.null):
        words[plan["out"]] = f.record(buffer, BUFFER)["address"]
        _run(f, plan["function"], words.pointer)
        new.now = f.call(small.node, small.state_of(f)["leaf"], plan["params"], plan["shape"], plan["result"], buffer)
    value = small.length(f, plan["shape"]) == 0
    out = f.call(small.array, new.now, value)
    for object_ in (owner, x, y):
        f.call("Py_DecRef", object_)
    f.ret(out)


@routine("i1 weft_small_index(ptr object, ptr room)")
def index(f: Body, object_: Value, room: Value) -> None:
    """Store an index, a Python int or a materialised integer Scalar, in ``room``. Return whether it is one and fits 64 bits."""
    state, out = small.state_of(f), f.array(room, "i64")
    its_type = f.record(object_, OBJECT)["type"]
    with f.when(its_type == f.symbol("PyLong_Type")):
        overflow = f.allocate_fixed("i64")
        out[0] = f.call("PyLong_AsLongLongAndOverflow", object_, overflow)
        f.ret(f.array(overflow, "i32")[0] == 0)
    f.ret_unless(its_type == state["scalar_type"], False)
    x = f.call(small.content, object_)
    f.ret_if(x.null, False)
    form_ = f.call(small.format_, small.slot(f, x, "dtype")[0])
    f.ret_if(form_.null, False)
    form, at = f.record(form_, FORMAT), small.address(f, x).to("ptr")
    kind, nbytes = form["kind"], form["bytes"]
    for width, type_ in small.INTEGERS.items():
        with f.when((kind == INTEGER) & (nbytes == width)):
            out[0] = f.array(at, type_)[0].sign_extend()
            f.ret(True)
        if width < 8:
            with f.when((kind == UNSIGNED) & (nbytes == width)):
                out[0] = f.array(at, type_)[0].to("i64")
                f.ret(True)
    f.ret(False)


@routine("i64 weft_small_element(ptr place, ptr index)")
def find_element(f: Body, place_: Value, index_: Value) -> None:
    """Return the address of the element that an index selects, or 0 if it is out of range or not all integers."""
    place, count, room = f.record(place_, layouts.PLACE), f.variable("i64", 1), f.allocate_fixed("i64")
    is_single = f.record(index_, OBJECT)["type"] != f.symbol("PyTuple_Type")
    with f.unless(is_single):
        count.now = small.length(f, index_)
    dims = place["dims"]
    f.ret_unless(count.now == dims, 0)
    out, item = f.variable("i64", place["address"]), f.variable("ptr", index_)
    extents, strides = f.array(place["extents"]), f.array(place["strides"])
    with f.count_to(dims) as k:
        with f.unless(is_single):
            item.now = small.items(f, index_)[k]
        f.ret_unless(f.call(index, item.now, room), 0)
        n, at = extents[k], f.array(room, "i64")[0]
        f.ret_unless((at < n) & (at + n >= 0), 0)
        out.now = out.now + (at + (at < 0).pick(n, 0)) * strides[k]
    f.ret(out.now)


@routine("ptr weft_element" + BUILTIN, exported=True)
def element(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x, index) -> Scalar or None. x may be a view."""
    arguments, place = f.array(args, "ptr"), small.new_place(f)
    small.none_unless(f, (f.call(small.limit) > 0) & (nargs == 2))
    small.none_unless(f, f.call(small.locate, arguments[0], place.pointer))
    place["address"] = f.call(find_element, place.pointer, arguments[1])
    small.none_unless(f, place["address"] != 0)
    f.ret(f.call(copy_element, place.pointer))


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
    is_unshared = (counts[0] == 1) & (counts[1] == 1) & (buffer["export_count"] == 0) & small.slot(f, x, "weak")[0].null
    # constants, whose node is not a leaf, are not written
    small.none_unless(
        f, is_unshared & f.call(small.is_base, arguments[0]) & (small.slot(f, x, "op")[0] == small.state_of(f)["leaf"])
    )
    dtype = small.slot(f, x, "dtype")[0]
    source, place = f.variable("ptr", f.allocate_fixed("i64")), small.new_place(f)
    small.none_unless(f, (f.call(small.limit) > 0) & f.call(small.locate, arguments[0], place.pointer))
    at, form = f.call(find_element, place.pointer, arguments[1]), place["format"]
    small.none_unless(f, at != 0)
    y = f.call(small.content, arguments[2])
    with f.when(y.null):
        small.none_unless(f, f.call(small.number, arguments[2], form, source.now))
    with f.otherwise():
        small.none_unless(f, (small.slot(f, y, "dtype")[0] == dtype) & (small.length(f, small.slot(f, y, "shape")[0]) == 0))
        source.now = small.address(f, y).to("ptr")
    nbytes = f.record(form, FORMAT)["bytes"]
    f.copy(at.to("ptr"), source.now, nbytes)
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
            f.ret(f.call("PyLong_FromLongLong", f.array(at, type_)[0].sign_extend()))
        with f.when((kind == UNSIGNED) & (nbytes == width)):
            f.ret(f.call("PyLong_FromUnsignedLongLong", f.array(at, type_)[0].to("i64")))
    return_none(f)


ROUTINES = (
    row_of, run, call_unary, spread, two, call_shaped, index, find_element, element, store, to_python_number,
)
