"""Operators in emitted code, on small materialised arrays.

An elementwise operation has a row for each dtype of its operands, with a dynamic kernel; Python adds a row once the kernel is
compiled. A product or a reduction finds a prepared call in a hash table keyed by shapes.
"""

from __future__ import annotations

from weft.devices.cpu.native import layouts
from weft.devices.cpu.native import small_ir as small
from weft.devices.cpu.native.memory_ir import BUILTIN
from weft.devices.cpu.native.routine import Body, Value, routine

TIMES = 6  # number of words of a function of two operands; the number of calls is stored behind them
FEW = 32  # broadcasting with more calls than this, of fewer elements each, is left to NumPy


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
    operand_bytes = count * f.record(row["format"], layouts.FORMAT)["bytes"]  # Python's eager policy checks one of the two sizes
    is_small = (count > 0) & (count <= layouts.RELEASE_ABOVE_WORK) & (operand_bytes <= limit_)
    with f.unless(is_small & (nbytes <= limit_) & (nbytes <= layouts.MAX_SMALL_BYTES)):
        f.ret(None)
    buffer = f.call(small.made, nbytes)
    with f.when(buffer.null):
        f.ret(None)
    outer = words[TIMES]
    words[0] = count
    words[1] = f.record(buffer, layouts.BUFFER)["address"]
    with f.unless(outer == 1):
        words[0] = count // outer
    with f.each(outer) as k:
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


def _run(f: Body, cell: Value, words: Value) -> None:
    """Call the dynamic kernel whose address is in ``cell``."""
    counters = f.record(f.symbol("weft_counters"), layouts.COUNTERS)
    counters["sized"] = counters["sized"] + 1
    f.call_address(f.array(cell, "ptr")[0], words)


@routine("ptr weft_one" + BUILTIN, exported=True)
def one(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x) -> array or None. self: an operation."""
    operation = f.call("PyLong_AsVoidPtr", self)
    x = f.call(small.content, f.array(args, "ptr")[0])
    small.none_unless(f, ~x.null & (nargs == 1))
    row = f.call(row_of, operation, small.slot(f, x, "dtype")[0])
    most = f.call(small.limit)
    small.none_unless(f, ~row.null & (most > 0))
    words = f.array(f.fixed_room(f"[{TIMES + 3} x i64]"))
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
    with f.each(dims) as back:  # from the last dimension
        n = small.integer(f, small.items(f, shape)[dims - 1 - back])
        m = f.variable("i64", 1)
        with f.when(back < its_dims):
            m.now = small.integer(f, small.items(f, its)[its_dims - 1 - back])
        with f.unless((m.now == n) | (m.now == 1)):
            f.ret(False)
        with f.when(n == 1):
            f.again()
        matches = m.now == n
        with f.unless(has_started.now):
            has_started.now = True
            rows.now = matches
        with f.when(matches == rows.now):
            with f.when(has_switched.now):  # more than an outer and an inner part
                f.ret(False)
            inner.now = inner.now * n
        with f.otherwise():
            has_switched.now = True
            outer.now = outer.now * n
    with f.unless((outer.now <= FEW) | (inner.now >= FEW)):
        f.ret(False)
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
    x, y = f.call(small.content, arguments[0]), f.call(small.content, arguments[1])
    words, room = f.array(f.fixed_room(f"[{TIMES + 3} x i64]")), f.fixed_room("i64")
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
            nbytes = f.record(row["format"], layouts.FORMAT)["bytes"]
            shapes = [small.slot(f, x_.now, "shape")[0] for x_ in (like, other)]
            small.none_unless(f, f.call(spread, *shapes, at.pointer, words.pointer, nbytes))
    into = nargs == 3
    with f.when(into):
        is_replaceable = (arguments[2] == arguments[0]) & (like.now == x) & (row["result"] == dtype)
        small.none_unless(f, is_replaceable & f.call(small.own, arguments[0]))
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
def shaped(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x) or (x, y) -> array or None. self: a table of plans by hashes of shapes."""
    plans, arguments = f.array(f.call("PyLong_AsVoidPtr", self), "ptr"), f.array(args, "ptr")
    most = f.call(small.limit)
    small.none_unless(f, most > 0)
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
    words, owner = f.room("i64", plan["count"]), plan["owner"]
    f.copy(words.pointer, plan["words"], plan["count"] << 3)
    words[plan["first"]] = small.address(f, x)
    words[plan["second"]] = small.address(f, y)
    for object_ in (owner, x, y):  # creating objects may run Python code and other threads, which may replace the plan
        f.call("Py_IncRef", object_)
    new, buffer = f.variable("ptr", None), f.call(small.made, nbytes)
    with f.unless(buffer.null):
        words[plan["out"]] = f.record(buffer, layouts.BUFFER)["address"]
        _run(f, plan["function"], words.pointer)
        new.now = f.call(small.node, small.state_of(f)["leaf"], plan["params"], plan["shape"], plan["result"], buffer)
    value = small.length(f, plan["shape"]) == 0
    out = f.call(small.array, new.now, value)
    for object_ in (owner, x, y):
        f.call("Py_DecRef", object_)
    f.ret(out)


ROUTINES = (row_of, run, one, spread, two, shaped)
