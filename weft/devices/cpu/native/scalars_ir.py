"""Scalars in emitted code: a Scalar that dies is kept with its node and its buffer, for the next element that is read.

Making and freeing these three objects for each number took three quarters of the time of ``x[i]``.
"""

from __future__ import annotations

from weft.devices.cpu.native import layouts
from weft.devices.cpu.native import small_ir as small
from weft.devices.cpu.native.imported_symbols import OBJECT
from weft.devices.cpu.native.layouts import BUFFER, FORMAT, PLACE
from weft.devices.cpu.native.routine import Body, Value, routine


@routine("i1 weft_small_fresh(ptr object, ptr pairs, i64 count)")
def has_slots(f: Body, object_: Value, pairs: Value, count: Value) -> None:
    """Return whether slots of an object hold the objects of pairs (offset, object)."""
    with f.count_to(count) as k:
        pair = f.array(pairs).part(k << 1)
        f.ret_unless(f.array(f.array(object_, "i8").at(pair[0]), "ptr")[0].to("i64") == pair[1], False)
    f.ret(True)


@routine("i1 weft_small_keepable(ptr scalar)")
def is_keepable(f: Body, scalar: Value) -> None:
    """Return whether a dying Scalar can be kept: its slots, its node and its buffer are as in a new Scalar, and nothing else
    refers to them."""
    state = small.state_of(f)
    is_plain = (f.record(scalar, OBJECT)["type"] == state["scalar_type"]) & small.slot(f, scalar, "scalar_weak")[0].null
    f.ret_unless(is_plain & f.call(has_slots, scalar, state["result"], state["result_slots"]), False)
    used = f.variable("i64", 0)
    with f.count_to(state["array_offset_count"]) as k:
        place = f.array(scalar, "i8").at(f.array(state["array_offsets"])[k])
        used.now = used.now + (~f.array(place, "ptr")[0].null).to("i64")
    node = small.slot(f, scalar, "content")[0]
    f.ret_if(node.null | (used.now != state["result_slots"] + 1), False)
    f.ret_unless((f.record(node, OBJECT)["count"] == 1) & small.slot(f, node, "weak")[0].null, False)
    f.ret_unless(f.call(has_slots, node, state["node"], state["node_slots"]), False)
    for name, plain in (("op", "leaf"), ("params", "nothing"), ("shape", "empty")):
        f.ret_unless(small.slot(f, node, name)[0] == state[plain], False)
    buffer_ = small.slot(f, node, "value")[0]
    f.ret_unless(f.record(buffer_, OBJECT)["type"] == f.array(state["allocator"], "ptr")[0], False)
    buffer = f.record(buffer_, BUFFER)
    is_unshared = (f.record(buffer_, OBJECT)["count"] == 1) & (buffer["export_count"] == 0) & buffer["weak"].null
    f.ret(is_unshared & (buffer["home"] == f.array(state["homes"], "ptr")[1]))


@routine("void weft_scalar_free(ptr self)", exported=True)
def free(f: Body, self: Value) -> None:
    """Free a Scalar (tp_dealloc), or keep it."""
    state = small.state_of(f)
    f.call("PyObject_GC_UnTrack", self)
    count = state["kept"]
    with f.when((count < layouts.MAX_KEPT) & f.call(is_keepable, self)):
        f.array(state["kept_scalars"], "ptr")[count] = self
        state["kept"] = count + 1
        f.ret()
    with f.unless(small.slot(f, self, "scalar_weak")[0].null):
        f.call("PyObject_ClearWeakRefs", self)
    with f.count_to(state["array_offset_count"]) as k:
        place = f.array(f.array(self, "i8").at(f.array(state["array_offsets"])[k]), "ptr")
        object_ = place[0]
        with f.unless(object_.null):
            place[0] = None
            f.call("Py_DecRef", object_)
    its_type = f.record(self, OBJECT)["type"]
    f.call("PyObject_GC_Del", self)
    f.call("Py_DecRef", its_type)


@routine("ptr weft_small_copy_element(ptr place)")
def copy_element(f: Body, place_: Value) -> None:
    """Return the element at the address of a place as a new Scalar, or null with an exception set."""
    place, state = f.record(place_, PLACE), small.state_of(f)
    form, owner, source = f.record(place["format"], FORMAT), place["node"], place["address"].to("ptr")
    nbytes, dtype, count = form["bytes"], form["dtype"], state["kept"]
    with f.unless(count == 0):
        scalar = f.array(state["kept_scalars"], "ptr")[count - 1]
        state["kept"] = count - 1
        node = small.slot(f, scalar, "content")[0]
        buffer = f.record(small.slot(f, node, "value")[0], BUFFER)
        buffer["nbytes"] = nbytes
        f.copy(buffer["address"].to("ptr"), source, nbytes)
        f.record(scalar, OBJECT)["count"] = 1
        before = small.slot(f, node, "dtype")[0]
        with f.unless(before == dtype):
            f.call("Py_IncRef", dtype)
            small.slot(f, node, "dtype")[0] = dtype
            f.call("Py_DecRef", before)
        f.ret(scalar)
    f.call("Py_IncRef", owner)
    new = f.call(small.make_buffer, nbytes)
    with f.unless(new.null):
        f.copy(f.record(new, BUFFER)["address"].to("ptr"), source, nbytes)
    f.call("Py_DecRef", owner)
    f.ret_if(new.null, None)
    f.ret(f.call(small.array, f.call(small.node, state["leaf"], state["nothing"], state["empty"], dtype, new), True))


ROUTINES = (has_slots, is_keepable, free, copy_element)
