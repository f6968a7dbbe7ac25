"""Parts of small arrays in emitted code: as NumPy arrays, as copies, and written in place.

A part is an array or a view whose elements strides lead through. NumPy computes on it, or it is copied to a new array, without
a node for the view. Nothing here runs Python code between the checks of an array and the write.
"""

from __future__ import annotations

from weft.devices.cpu.native import layouts
from weft.devices.cpu.native import small_ir as small
from weft.devices.cpu.native.imported_symbols import BUF_C_CONTIGUOUS, BUFFER_ROOM, MAX_DIMS, NDARRAY, OBJECT, PY_BUFFER
from weft.devices.cpu.native.layouts import BUFFER, FORMAT, PLACE
from weft.devices.cpu.native.memory_ir import BUILTIN
from weft.devices.cpu.native.routine import Body, Value, routine
from weft.devices.cpu.native.views_ir import NO_INDEX, select


@routine("void weft_move(ptr to, ptr from)")
def move(f: Body, to_: Value, from_: Value) -> None:
    """Copy elements from one place to another of the same extents and format. The places do not overlap."""
    to, source = f.record(to_, PLACE), f.record(from_, PLACE)
    extents, to_strides, strides = f.array(to["extents"]), f.array(to["strides"]), f.array(source["strides"])
    f.ret_if(to["size"] == 0)
    run, dims = f.variable("i64", f.record(to["format"], FORMAT)["bytes"]), f.variable("i64", to["dims"])
    with f.count_to(to["dims"]) as back:  # bytes that are adjacent in both
        k = to["dims"] - 1 - back
        with f.unless(extents[k] == 1):
            f.leave_if((to_strides[k] != run.now) | (strides[k] != run.now))
            run.now = run.now * extents[k]
        dims.now = k
    outer, last = f.variable("i64", to["size"] * f.record(to["format"], FORMAT)["bytes"] // run.now), f.variable("i64", 1)
    to_step, step = f.variable("i64", 0), f.variable("i64", 0)
    with f.when(dims.now > 0):  # the innermost of the remaining loops
        dims.now = dims.now - 1
        last.now, to_step.now, step.now = extents[dims.now], to_strides[dims.now], strides[dims.now]
        outer.now = outer.now // last.now
    target, origin = f.variable("i64", to["address"]), f.variable("i64", source["address"])
    counters = f.array(f.allocate_fixed(small.DIMS))
    with f.count_to(dims.now) as k:
        counters[k] = 0
    with f.count_to(outer.now):
        done = f.variable("i1", False)
        for width, type_ in small.INTEGERS.items():
            with f.when(run.now == width):
                done.now = True
                with f.count_to(last.now) as j:
                    element = f.array((origin.now + j * step.now).to("ptr"), type_)[0]
                    f.array((target.now + j * to_step.now).to("ptr"), type_)[0] = element
        with f.unless(done.now):
            with f.count_to(last.now) as j:
                f.copy((target.now + j * to_step.now).to("ptr"), (origin.now + j * step.now).to("ptr"), run.now)
        with f.count_to(dims.now) as back:  # advance the loops, innermost first
            k = dims.now - 1 - back
            target.now = target.now + to_strides[k]
            origin.now = origin.now + strides[k]
            counters[k] = counters[k] + 1
            f.leave_if(counters[k] < extents[k])
            counters[k] = 0
            target.now = target.now - to_strides[k] * extents[k]
            origin.now = origin.now - strides[k] * extents[k]
    f.ret()


@routine("ptr weft_show" + BUILTIN, exported=True)
def show(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x) -> a NumPy array over the memory of a small array or view, for immediate use, or None."""
    x, state = f.array(args, "ptr")[0], small.state_of(f)
    place = small.new_place(f)
    small.none_unless(f, f.call(small.limit) > 0)
    small.none_unless(f, f.call(small.locate, x, place.pointer))
    arguments = f.array(f.allocate_fixed("[5 x i64]"), "ptr")
    arguments[0], arguments[1] = place["shape"], f.record(place["format"], FORMAT)["numpy"]
    arguments[2] = small.slot(f, place["node"], "value")[0]
    count = f.variable("i64", 3)
    with f.unless(small.slot(f, x, "base")[0] == f.symbol("_Py_NoneStruct")):
        small.none_unless(f, place["size"] > 0)  # NumPy checks that even the start of an empty view lies in the memory
        parts = small.items(f, small.slot(f, x, "layout")[0])
        arguments[3], arguments[4] = parts[2], parts[1]
        count.now = 5
    buffer = arguments[2]
    f.call("Py_IncRef", buffer)
    out = f.call("PyObject_Vectorcall", state["ndarray"], arguments.pointer, count.now, None)
    f.call("Py_DecRef", buffer)
    f.ret(out)


@routine("ptr weft_copy_part(ptr place, ptr shape, i64 limit)")
def copy_part(f: Body, place_: Value, shape: Value, most: Value) -> None:
    """Return a new node with a copy of the elements of a place; null if it is not small or with an exception set."""
    place, state = f.record(place_, PLACE), small.state_of(f)
    form = f.record(place["format"], FORMAT)
    nbytes = place["size"] * form["bytes"]
    f.ret_unless((nbytes <= most) & (nbytes <= layouts.MAX_SMALL_BYTES), None)
    buffer = f.call(small.make_buffer, (nbytes == 0).pick(1, nbytes))
    f.ret_if(buffer.null, None)
    to = small.new_place(f)
    to["address"], to["extents"] = f.record(buffer, BUFFER)["address"], place["extents"]
    to["format"], to["dims"], to["size"] = place["format"], place["dims"], place["size"]
    small.set_row_major(f, to)
    f.call(move, to.pointer, place_)
    f.ret(f.call(small.node, state["leaf"], state["nothing"], shape, form["dtype"], buffer))


@routine("void weft_cache_part(ptr view)", exported=True)
def cache_part(f: Body, view: Value) -> None:
    """Make a node with a copy of the elements of a small view, and store it in the view, as ``Array.node`` does."""
    place, state, most = small.new_place(f), small.state_of(f), f.call(small.limit)
    f.ret_unless(most > 0)
    f.ret_unless(f.call(small.locate, view, place.pointer))
    source, layout = place["node"], small.slot(f, view, "layout")[0]
    f.ret_unless(f.call("PyDict_Size", small.slot(f, source, "params")[0]) == 0)  # Python gives them to some views
    f.call("Py_IncRef", source)  # creating objects may run Python code and other threads
    f.call("Py_IncRef", layout)
    new, source_ref = f.call(copy_part, place.pointer, place["shape"], most), f.variable("ptr")
    with f.unless(new.null):
        source_ref.now = f.call("PyWeakref_NewRef", source, None)
    with f.when(source_ref.now.null):
        f.call("PyErr_Clear")
        with f.unless(new.null):
            f.call("Py_DecRef", new)
    with f.otherwise():
        reads = f.call("PyList_GetItem", state["view_reads"], 0)
        count = f.call("PyLong_AsUnsignedLongLongMask", reads)
        f.call("PyList_SetItem", state["view_reads"], 0, f.call("PyLong_FromUnsignedLongLong", count + 1))
        for name, object_ in (("content", new), ("source", source_ref.now)):
            before = small.slot(f, view, name)[0]
            small.slot(f, view, name)[0] = object_
            with f.unless(before.null):
                f.call("Py_DecRef", before)
    f.call("Py_DecRef", layout)
    f.call("Py_DecRef", source)
    f.ret()


@routine("ptr weft_take" + BUILTIN, exported=True)
def take(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x) or (numpy, dtype) -> a new array with a copy of a small array or view, or of NumPy's array or number."""
    arguments, state = f.array(args, "ptr"), small.state_of(f)
    most, x, place = f.call(small.limit), arguments[0], small.new_place(f)
    small.none_unless(f, most > 0)
    view, shape, node = f.allocate_fixed(f"[{BUFFER_ROOM} x i8]"), f.variable("ptr"), f.variable("ptr")
    is_exported = f.variable("i1", False)
    with f.when(nargs == 1):
        small.none_unless(f, f.call(small.locate, x, place.pointer))
        shape.now, node.now = place["shape"], place["node"]  # creating objects may run Python code and other threads
        f.call("Py_IncRef", shape.now)
        f.call("Py_IncRef", node.now)
    with f.otherwise():
        format_ = f.call(small.format_, arguments[1])
        small.none_unless(f, ~format_.null)
        place["format"] = format_
        with f.when(f.record(x, OBJECT)["type"] == state["ndarray"]):
            array = f.record(x, NDARRAY)
            dims, size = array["dims"].to("i64"), f.variable("i64", 1)
            place["address"], place["dims"] = array["address"], dims
            place["extents"], place["strides"] = array["extents"], array["strides"]
            extents = f.array(array["extents"])
            shape.now = f.call(small.make_tuple, extents.pointer, dims)
            f.ret_if(shape.now.null, None)
            with f.count_to(dims) as k:
                size.now = size.now * extents[k]
            place["size"] = size.now
        with f.otherwise():  # a number
            failed = f.call("PyObject_GetBuffer", x, view, BUF_C_CONTIGUOUS) != 0
            with f.when(failed):
                f.call("PyErr_Clear")
            small.none_unless(f, ~failed)
            is_exported.now = True
            place["address"], place["dims"], place["size"] = f.record(view, PY_BUFFER)["address"].to("i64"), 0, 1
            shape.now = state["empty"]
            f.call("Py_IncRef", shape.now)
    new = f.variable("ptr", f.call(copy_part, place.pointer, shape.now, most))
    new.now = f.call(small.array, new.now, place["dims"] == 0)
    with f.when(new.now.null):
        with f.when(f.call("PyErr_Occurred").null):
            new.now = f.symbol("_Py_NoneStruct")
            f.call("Py_IncRef", new.now)
    with f.when(is_exported.now):
        f.call("PyBuffer_Release", view)
    with f.unless(node.now.null):
        f.call("Py_DecRef", node.now)
    f.call("Py_DecRef", shape.now)
    f.ret(new.now)


@routine("i1 weft_spread(ptr from, ptr to)")
def spread(f: Body, from_: Value, to_: Value) -> None:
    """Set the strides of a place so that its elements are repeated to the extents of another. Return False if they do not fit."""
    source, to = f.record(from_, PLACE), f.record(to_, PLACE)
    dims, extra = to["dims"], to["dims"] - source["dims"]
    f.ret_unless(extra >= 0, False)
    extents, its, strides = f.array(to["extents"]), f.array(source["extents"]), f.array(source["strides"])
    with f.count_to(dims) as back:  # from the last dimension, so that no stride is overwritten before it is read
        k, stride = dims - 1 - back, f.variable("i64", 0)
        with f.when(k >= extra):
            n = its[k - extra]
            f.ret_unless((n == extents[k]) | (n == 1), False)
            with f.unless(n == 1):
                stride.now = strides[k - extra]
        strides[k] = stride.now
    f.ret(True)


@routine("ptr weft_put" + BUILTIN, exported=True)
def put(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x, index, value) -> True, or None if it has not written: the buffer is shared, or the value does not fit.

    x: an array that is no view; index: as in ``select``; value: a number, or an array of the same dtype in other memory that
    broadcasts to the part.
    """
    arguments, state = f.array(args, "ptr"), small.state_of(f)
    x, index, value, to = arguments[0], arguments[1], arguments[2], small.new_place(f)
    small.none_unless(f, (nargs == 3) & (f.call(small.limit) > 0))
    small.none_unless(f, f.call(small.is_base, x))
    small.none_unless(f, f.call(small.locate, x, to.pointer))
    small.none_unless(f, f.call(select, to.pointer, index) != NO_INDEX)
    node = to["node"]
    buffer_ = small.slot(f, node, "value")[0]
    buffer = f.record(buffer_, BUFFER)
    is_unshared = (f.record(buffer_, OBJECT)["count"] == 1) & (f.record(node, OBJECT)["count"] == 1)
    small.none_unless(f, is_unshared & (buffer["export_count"] == 0) & (small.slot(f, node, "op")[0] == state["leaf"]))
    with f.unless(small.slot(f, node, "weak")[0].null):  # views have cached the node: they read an equal one anew
        f.call("Py_IncRef", buffer_)
        shape, dtype = small.slot(f, node, "shape")[0], small.slot(f, node, "dtype")[0]
        new, content = f.variable("ptr"), small.slot(f, x, "content")
        new.now = f.call(small.node, state["leaf"], small.slot(f, node, "params")[0], shape, dtype, buffer_)
        f.ret_if(new.now.null, None)
        # creating an object may run Python code
        is_same = (content[0] == node) & (f.record(buffer_, OBJECT)["count"] == 2)
        with f.unless(is_same):
            f.call("Py_DecRef", new.now)
        small.none_unless(f, is_same)
        content[0] = new.now
        f.call("Py_DecRef", node)
        small.none_unless(f, f.record(buffer_, OBJECT)["count"] == 1)
    source, room = small.new_place(f), f.allocate_fixed("i64")
    is_number = f.variable("i1", ~f.call(small.locate, value, source.pointer))
    with f.when(is_number.now):
        small.none_unless(f, f.call(small.number, value, to["format"], room))
        source["address"], source["dims"] = room.to("i64"), 0
    with f.otherwise():
        is_apart = small.slot(f, source["node"], "value")[0] != buffer_
        small.none_unless(f, is_apart & (source["format"] == to["format"]))
    small.none_unless(f, f.call(spread, source.pointer, to.pointer))
    f.call(move, to.pointer, source.pointer)
    true = f.symbol("_Py_TrueStruct")
    f.call("Py_IncRef", true)
    f.ret(true)


@routine("ptr weft_open" + BUILTIN, exported=True)
def open_(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (x, node, opened) -> True if x now has ``node`` as its content, or None.

    The NumPy array is put into the list ``opened``, in place of its only item: over the memory of x if nothing else refers to
    that memory, else over a copy. The caller writes to the array, and makes its base the value of the node. A returned array
    would be lost if a signal came before the caller stored it.
    """
    arguments, state = f.array(args, "ptr"), small.state_of(f)
    x, after, most = arguments[0], arguments[1], f.call(small.limit)
    small.none_unless(f, (nargs == 3) & (most > 0))
    small.none_unless(f, f.call(small.is_base, x))
    node = f.call(small.content, x)
    small.none_unless(f, ~node.null)
    place = small.new_place(f)
    small.none_unless(f, f.call(small.locate, x, place.pointer))
    own = small.slot(f, node, "value")[0]
    buffer = f.variable("ptr", own)
    form, content = f.record(place["format"], FORMAT), small.slot(f, x, "content")
    is_unshared = (f.record(own, OBJECT)["count"] == 1) & (f.record(node, OBJECT)["count"] == 1)
    with f.when(is_unshared & (f.record(own, BUFFER)["export_count"] == 0)):
        f.call("Py_IncRef", own)
    with f.otherwise():
        nbytes = place["size"] * form["bytes"]
        small.none_unless(f, (nbytes > 0) & (nbytes <= most) & (nbytes <= layouts.MAX_SMALL_BYTES))
        f.call("Py_IncRef", node)  # creating objects may run Python code and other threads
        buffer.now = f.call(small.make_buffer, nbytes)
        with f.unless(buffer.now.null):
            target = f.record(buffer.now, BUFFER)["address"].to("ptr")
            f.copy(target, f.record(own, BUFFER)["address"].to("ptr"), nbytes)
        is_same = content[0] == node
        f.call("Py_DecRef", node)
        f.ret_if(buffer.now.null, None)
        with f.unless(is_same):
            f.call("Py_DecRef", buffer.now)
        small.none_unless(f, is_same)
    shape, numpy = place["shape"], form["numpy"]
    f.call("Py_IncRef", after)
    content[0] = after
    f.call("Py_IncRef", shape)
    f.call("Py_DecRef", node)
    words = f.array(f.allocate_fixed("[3 x i64]"), "ptr")
    words[0], words[1], words[2] = shape, numpy, buffer.now
    out = f.call("PyObject_Vectorcall", state["ndarray"], words.pointer, 3, None)
    f.call("Py_DecRef", shape)
    f.call("Py_DecRef", buffer.now)
    f.ret_if(out.null, None)
    f.call("PyList_SetItem", arguments[2], 0, out)
    true = f.symbol("_Py_TrueStruct")
    f.call("Py_IncRef", true)
    f.ret(true)


@routine("ptr weft_full" + BUILTIN, exported=True)
def full(f: Body, self: Value, args: Value, nargs: Value) -> None:
    """Builtin (shape, dtype, number) -> a new small array filled with a number, or None. shape: an int, or a tuple of them."""
    arguments, state = f.array(args, "ptr"), small.state_of(f)
    most, shape_, room = f.call(small.limit), arguments[0], f.allocate_fixed("i64")
    form_ = f.call(small.format_, arguments[1])
    small.none_unless(f, (nargs == 3) & (most > 0) & ~form_.null)
    form, size = f.record(form_, FORMAT), f.variable("i64", 1)
    f.array(room)[0] = 0
    small.none_unless(f, f.call(small.number, arguments[2], form_, room))
    is_single = f.record(shape_, OBJECT)["type"] != f.symbol("PyTuple_Type")
    count, item = f.variable("i64", 1), f.variable("ptr", shape_)
    with f.unless(is_single):
        count.now = small.length(f, shape_)
    small.none_unless(f, count.now <= MAX_DIMS)
    with f.count_to(count.now) as k:
        with f.unless(is_single):
            item.now = small.items(f, shape_)[k]
        small.none_unless(f, f.record(item.now, OBJECT)["type"] == f.symbol("PyLong_Type"))
        n = small.integer(f, item.now)
        small.none_unless(f, (n > 0) & (n <= layouts.MAX_SMALL_BYTES))
        size.now = size.now * n
        small.none_unless(f, size.now <= layouts.MAX_SMALL_BYTES)
    width = form["bytes"]
    nbytes = size.now * width
    small.none_unless(f, (nbytes <= most) & (nbytes <= layouts.MAX_SMALL_BYTES))
    shape = f.variable("ptr", shape_)
    with f.when(is_single):
        shape.now = f.call("PyTuple_Pack", 1, shape_)
        f.ret_if(shape.now.null, None)
    with f.otherwise():
        f.call("Py_IncRef", shape_)
    buffer, new = f.call(small.make_buffer, nbytes), f.variable("ptr")
    with f.unless(buffer.null):
        target, done = f.array(f.record(buffer, BUFFER)["address"].to("ptr"), "i8"), f.variable("i64", width)
        zero = f.array(room)[0] == 0
        with f.when(zero):
            f.call("llvm.memset.p0.i64", target.pointer, 0, nbytes, False)
            done.now = nbytes
        with f.otherwise():
            f.copy(target.pointer, room, width)
        with f.count_to(f.constant("i64", 64)):  # each copy doubles the filled part
            f.leave_if(done.now == nbytes)
            f.copy(target.at(done.now), target.pointer, done.now.minimum(nbytes - done.now))
            done.now = done.now + done.now.minimum(nbytes - done.now)
        dtype = f.record(form_, FORMAT)["dtype"]
        new.now = f.call(small.node, state["leaf"], state["nothing"], shape.now, dtype, buffer)
        new.now = f.call(small.array, new.now, False)
    f.call("Py_DecRef", shape.now)
    f.ret(new.now)


ROUTINES = (move, copy_part, cache_part, show, take, spread, put, open_, full)
