"""LLVM text of a run: the slots of a table are filled and its steps called, one kernel after another.

The pool belongs to the run while it lasts; the interpreter lock is given up and denormals are flushed where the table's
flags say so. Inputs and outputs come as Python lists (``weft_execute``) or lie in their slots already (``weft_walk``).

Each run has a record of its own (see ``table_ir.py``): the step after which there is a fault in it is the last one.
"""

from __future__ import annotations

from weft.devices.cpu.native.table_ir import CALL, FAULT, STEP, addresses, filled, read

_DECLARED = """
@weft_counters = external global i8
@_Py_NoneStruct = external global i8
@_Py_FalseStruct = external global i8
!DECLARE_MODE
declare i1 @weft_enter(i32)
declare void @weft_leave(i1)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare i64 @PyLong_AsUnsignedLongLongMask(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i32 @PyObject_IsTrue(ptr)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_CheckSignals()
declare void @PyErr_BadArgument()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
@weft_index_fault = external global i8
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyTuple_Pack(i64, ...)
declare void @PyErr_SetObject(ptr, ptr)

"""

_ITEM = """; one list item into a slot; false when Python has an exception set
define internal i1 @weft_item(ptr %item, i64 %kind, ptr %name, ptr %slot, ptr %type) nounwind {
entry:
  switch i64 %kind, label %integer [
    i64 !UNUSED, label %fine
    i64 !BUFFER, label %buffer
    i64 !FLOAT32, label %single
    i64 !FLOAT64, label %double
    i64 !BOOLEAN, label %boolean
  ]
buffer:
  %type.p = getelementptr i8, ptr %item, i64 !OBTYPE
  %its = load ptr, ptr %type.p
  %ours = icmp eq ptr %its, %type
  br i1 %ours, label %direct, label %foreign
direct:
  %address.p = getelementptr i8, ptr %item, i64 !ADDRESS
  %known = load i64, ptr %address.p
  store i64 %known, ptr %slot
  ret i1 true
foreign:
  %attribute = call ptr @PyObject_GetAttr(ptr %item, ptr %name)
  %missing = icmp eq ptr %attribute, null
  br i1 %missing, label %bad, label %unbox
unbox:
  %address = call i64 @PyLong_AsUnsignedLongLong(ptr %attribute)
  call void @Py_DecRef(ptr %attribute)
  store i64 %address, ptr %slot
  %suspect.a = icmp eq i64 %address, -1
  br i1 %suspect.a, label %check, label %fine
single:
  %s = call double @PyFloat_AsDouble(ptr %item)
  %f = fptrunc double %s to float
  store i64 0, ptr %slot
  store float %f, ptr %slot
  %suspect.s = fcmp oeq double %s, -1.0
  br i1 %suspect.s, label %check, label %fine
double:
  %d = call double @PyFloat_AsDouble(ptr %item)
  store double %d, ptr %slot
  %suspect.d = fcmp oeq double %d, -1.0
  br i1 %suspect.d, label %check, label %fine
integer:
  %i = call i64 @PyLong_AsUnsignedLongLongMask(ptr %item)
  store i64 %i, ptr %slot
  %suspect.i = icmp eq i64 %i, -1
  br i1 %suspect.i, label %check, label %fine
boolean:
  %b = call i32 @PyObject_IsTrue(ptr %item)
  %b64 = sext i32 %b to i64
  store i64 %b64, ptr %slot
  %suspect.b = icmp slt i32 %b, 0
  br i1 %suspect.b, label %bad, label %fine
check:
  %error = call ptr @PyErr_Occurred()
  %ok = icmp eq ptr %error, null
  br i1 %ok, label %fine, label %bad
fine:
  ret i1 true
bad:
  ret i1 false
}
"""

_EXECUTE = """
; fill the slots of a table from lists and run its steps; false when Python has an exception set
define internal i1 @weft_execute(ptr %table, ptr %inputs, ptr %outputs, i64 %arena) nounwind {
begin:
""" + read("table", CALL, "ni", "no", "total", "name") + """
  %slots = alloca i64, i64 %total, align 16
""" + read("table", CALL, "allocator") + """
  %type = load ptr, ptr %allocator
  %kinds = getelementptr i64, ptr %table, i64 !HEADER
  %given = call i64 @PyList_Size(ptr %inputs)
  %right.i = icmp eq i64 %given, %ni
  %given.o = call i64 @PyList_Size(ptr %outputs)
  %right.o = icmp eq i64 %given.o, %no
  %right = and i1 %right.i, %right.o
  br i1 %right, label %in.head, label %misused
misused:
  call void @PyErr_BadArgument()
  ret i1 false
in.head:
  %i = phi i64 [ 0, %begin ], [ %i1, %in.body ]
  %i.more = icmp slt i64 %i, %ni
  br i1 %i.more, label %in.body, label %out.head
in.body:
  %item = call ptr @PyList_GetItem(ptr %inputs, i64 %i)
  %kind.p = getelementptr i64, ptr %kinds, i64 %i
  %kind = load i64, ptr %kind.p
  %slot = getelementptr i64, ptr %slots, i64 %i
  %took = call i1 @weft_item(ptr %item, i64 %kind, ptr %name, ptr %slot, ptr %type)
  %i1 = add i64 %i, 1
  br i1 %took, label %in.head, label %failed
failed:
  ret i1 false
out.head:
  %o = phi i64 [ 0, %in.head ], [ %o1, %out.body ]
  %o.more = icmp slt i64 %o, %no
  br i1 %o.more, label %out.body, label %filled
out.body:
  %o.item = call ptr @PyList_GetItem(ptr %outputs, i64 %o)
  %o.at = add i64 %ni, %o
  %o.slot = getelementptr i64, ptr %slots, i64 %o.at
  %o.took = call i1 @weft_item(ptr %o.item, i64 !BUFFER, ptr %name, ptr %o.slot, ptr %type)
  %o1 = add i64 %o, 1
  br i1 %o.took, label %out.head, label %failed
filled:
  %ran = call i1 @weft_walk(ptr %table, ptr %slots, i64 %arena)
  ret i1 %ran
}
"""

_WALK = """
; run the steps of a table whose slots for inputs and outputs are filled; false when Python has an exception set
define internal i1 @weft_walk(ptr %table, ptr %slots, i64 %arena) nounwind {
begin:
  %mode = alloca i32
  %mode1 = alloca i32
  %record = alloca [2 x i64], align 16
  store i64 0, ptr %record
""" + read("table", CALL, "ni", "no", "na", "nc", "ns", "flags", "workers") + """
  %limit = trunc i64 %workers to i32
""" + read("table", CALL, "most") + """
  %packed = alloca i64, i64 %most, align 16
""" + read("table", CALL, "nd") + """
  %kinds = getelementptr i64, ptr %table, i64 !HEADER
  %after.kinds = getelementptr i64, ptr %kinds, i64 %ni
  %no2 = shl i64 %no, 1
  %pairs = getelementptr i64, ptr %after.kinds, i64 %no2
  %nd2 = shl i64 %nd, 1
  %offsets = getelementptr i64, ptr %pairs, i64 %nd2
  %constants = getelementptr i64, ptr %offsets, i64 %na
  %steps = getelementptr i64, ptr %constants, i64 %nc
  %given = add i64 %ni, %no
  %arena.slots = getelementptr i64, ptr %slots, i64 %given
""" + addresses("begin", "arena", "arena.slots", "constants.copy") + """
constants.copy:
  %record.slot = getelementptr i64, ptr %arena.slots, i64 %na
  store ptr %record, ptr %record.slot
  %c.slot = getelementptr i64, ptr %record.slot, i64 1
  %c.bytes = shl i64 %nc, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %c.slot, ptr align 8 %constants, i64 %c.bytes, i1 false)
  %e.p = getelementptr i8, ptr @weft_counters, i64 !ENTRIES
  %e = load i64, ptr %e.p
  %e1 = add i64 %e, 1
  store i64 %e1, ptr %e.p
  !SAVE_MODE
  %old = load i32, ptr %mode
  %flush64 = and i64 %flags, !FLUSH
  %flush = icmp ne i64 %flush64, 0
  br i1 %flush, label %flushing, label %ready
flushing:
  %new = or i32 %old, 32832 ; bits 15 and 6: what comes out, and what goes in
  store i32 %new, ptr %mode1
  !LOAD_NEW
  br label %ready
ready:
  %release64 = and i64 %flags, !RELEASE
  %release = icmp ne i64 %release64, 0
  br i1 %release, label %save, label %go
save:
  %saved = call ptr @PyEval_SaveThread()
  br label %go
go:
  %thread = phi ptr [ %saved, %save ], [ null, %ready ]
  %owner = call i1 @weft_enter(i32 %limit)
  br label %step.head
step.head:
  %s = phi i64 [ 0, %go ], [ %s1, %step.next ]
  %step = phi ptr [ %steps, %go ], [ %after, %step.next ]
  %live = phi ptr [ %thread, %go ], [ %live.next, %step.next ]
  %s.more = icmp slt i64 %s, %ns
  br i1 %s.more, label %step.body, label %done
""" + STEP + """
  %wants = icmp ne i64 %check, 0
  br i1 %wants, label %looks, label %step.next
looks:
""" + filled(FAULT, {"NEXT": "unfaulted", "FAULTED": "faulted"}) + """
faulted:
  br i1 %release, label %faulted.restore, label %fault
faulted.restore:
  call void @PyEval_RestoreThread(ptr %live)
  br label %fault
fault:
  call void @weft_tell(ptr %record)
  br label %abandon
unfaulted:
  %signal64 = and i64 %check, 1
  %signal = icmp ne i64 %signal64, 0
  %checked = and i1 %signal, %release
  br i1 %checked, label %signals, label %step.next
signals:
  call void @PyEval_RestoreThread(ptr %live)
  %interrupted = call i32 @PyErr_CheckSignals()
  %signalled = icmp ne i32 %interrupted, 0
  %raised = call ptr @PyErr_Occurred()
  %found = icmp ne ptr %raised, null ; by a loop, which ended early
  %stop = or i1 %signalled, %found
  br i1 %stop, label %abandon, label %resume
resume:
  %again = call ptr @PyEval_SaveThread()
  br label %step.next
step.next:
  %live.next = phi ptr [ %live, %step.call ], [ %live, %unfaulted ], [ %again, %resume ]
  br label %step.head
done:
  call void @weft_leave(i1 %owner)
  br i1 %release, label %restore, label %mode.back
restore:
  call void @PyEval_RestoreThread(ptr %live)
  br label %mode.back
mode.back:
  br i1 %flush, label %unflush, label %return
unflush:
  !LOAD_MODE
  br label %return
return:
  ret i1 true
abandon:
  call void @weft_leave(i1 %owner)
  br i1 %flush, label %abandon.unflush, label %failed
abandon.unflush:
  !LOAD_MODE
  br label %failed
failed:
  ret i1 false
}
"""


_TELL = """
; IndexFault(site, index) as Python's exception
define internal void @weft_tell(ptr %record) cold noinline nounwind {
entry:
  %site1 = load i64, ptr %record
  %site = sub i64 %site1, 1
  %index.p = getelementptr i64, ptr %record, i64 1
  %index = load i64, ptr %index.p
  %a = call ptr @PyLong_FromLongLong(i64 %site)
  %b = call ptr @PyLong_FromLongLong(i64 %index)
  %no.a = icmp eq ptr %a, null
  %no.b = icmp eq ptr %b, null
  %none = or i1 %no.a, %no.b
  br i1 %none, label %done, label %pack
pack:
  %args = call ptr (i64, ...) @PyTuple_Pack(i64 2, ptr %a, ptr %b)
  call void @Py_DecRef(ptr %a)
  call void @Py_DecRef(ptr %b)
  %no.args = icmp eq ptr %args, null
  br i1 %no.args, label %done, label %raise
raise:
  call void @PyErr_SetObject(ptr @weft_index_fault, ptr %args)
  call void @Py_DecRef(ptr %args)
  br label %done
done:
  ret void
}
"""


def text() -> str:
    """What is filled in: see ``call.text``."""
    return _DECLARED + _ITEM + _EXECUTE + _TELL + _WALK
