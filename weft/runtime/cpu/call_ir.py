"""The native text of a call: ``call.text`` fills in offsets and what the machine has."""

TEXT = """
@weft_counters = external global i8
@_Py_NoneStruct = external global i8
@_Py_FalseStruct = external global i8
!DECLARE
declare i1 @weft_acquire(i32)
declare void @weft_release()
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

; one list item into a slot; false when Python has an exception set
define internal i1 @weft_item(ptr %item, i64 %kind, ptr %name, ptr %slot, ptr %type) nounwind {
entry:
  switch i64 %kind, label %integer [
    i64 0, label %fine
    i64 1, label %buffer
    i64 2, label %single
    i64 3, label %double
    i64 5, label %boolean
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

; fill the slots of a table from lists and run its steps; false when Python has an exception set
define internal i1 @weft_execute(ptr %table, ptr %inputs, ptr %outputs, i64 %arena) nounwind {
begin:
  %ni = load i64, ptr %table
  %no.p = getelementptr i64, ptr %table, i64 1
  %no = load i64, ptr %no.p
  %total.p = getelementptr i64, ptr %table, i64 7
  %total = load i64, ptr %total.p
  %name.p = getelementptr i64, ptr %table, i64 8
  %name = load ptr, ptr %name.p
  %slots = alloca i64, i64 %total, align 16
  %allocator.p = getelementptr i64, ptr %table, i64 10
  %allocator = load ptr, ptr %allocator.p
  %type = load ptr, ptr %allocator
  %kinds = getelementptr i64, ptr %table, i64 16
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
  %o.took = call i1 @weft_item(ptr %o.item, i64 1, ptr %name, ptr %o.slot, ptr %type)
  %o1 = add i64 %o, 1
  br i1 %o.took, label %out.head, label %failed
filled:
  %ran = call i1 @weft_walk(ptr %table, ptr %slots, i64 %arena)
  ret i1 %ran
}

; run the steps of a table whose slots for inputs and outputs are filled; false when Python has an exception set
define internal i1 @weft_walk(ptr %table, ptr %slots, i64 %arena) nounwind {
begin:
  %mode = alloca i32
  %mode1 = alloca i32
  %ni = load i64, ptr %table
  %no.p = getelementptr i64, ptr %table, i64 1
  %no = load i64, ptr %no.p
  %na.p = getelementptr i64, ptr %table, i64 2
  %na = load i64, ptr %na.p
  %nc.p = getelementptr i64, ptr %table, i64 3
  %nc = load i64, ptr %nc.p
  %ns.p = getelementptr i64, ptr %table, i64 4
  %ns = load i64, ptr %ns.p
  %flags.p = getelementptr i64, ptr %table, i64 5
  %flags = load i64, ptr %flags.p
  %workers.p = getelementptr i64, ptr %table, i64 6
  %workers64 = load i64, ptr %workers.p
  %workers = trunc i64 %workers64 to i32
  %most.p = getelementptr i64, ptr %table, i64 9
  %most = load i64, ptr %most.p
  %packed = alloca i64, i64 %most, align 16
  %nd.p = getelementptr i64, ptr %table, i64 12
  %nd = load i64, ptr %nd.p
  %kinds = getelementptr i64, ptr %table, i64 16
  %after.kinds = getelementptr i64, ptr %kinds, i64 %ni
  %no2 = shl i64 %no, 1
  %pairs = getelementptr i64, ptr %after.kinds, i64 %no2
  %nd2 = shl i64 %nd, 1
  %offsets = getelementptr i64, ptr %pairs, i64 %nd2
  %constants = getelementptr i64, ptr %offsets, i64 %na
  %steps = getelementptr i64, ptr %constants, i64 %nc
  br label %arena.head
arena.head:
  %a = phi i64 [ 0, %begin ], [ %a1, %arena.body ]
  %a.more = icmp slt i64 %a, %na
  br i1 %a.more, label %arena.body, label %constants.copy
arena.body:
  %a.off.p = getelementptr i64, ptr %offsets, i64 %a
  %a.off = load i64, ptr %a.off.p
  %a.address = add i64 %arena, %a.off
  %a.at0 = add i64 %ni, %no
  %a.at = add i64 %a.at0, %a
  %a.slot = getelementptr i64, ptr %slots, i64 %a.at
  store i64 %a.address, ptr %a.slot
  %a1 = add i64 %a, 1
  br label %arena.head
constants.copy:
  %c.at0 = add i64 %ni, %no
  %c.at = add i64 %c.at0, %na
  %c.slot = getelementptr i64, ptr %slots, i64 %c.at
  %c.bytes = shl i64 %nc, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %c.slot, ptr align 8 %constants, i64 %c.bytes, i1 false)
  %e.p = getelementptr i8, ptr @weft_counters, i64 !ENTRIES
  %e = load i64, ptr %e.p
  %e1 = add i64 %e, 1
  store i64 %e1, ptr %e.p
  !STMXCSR
  %old = load i32, ptr %mode
  %flush64 = and i64 %flags, 2
  %flush = icmp ne i64 %flush64, 0
  br i1 %flush, label %flushing, label %ready
flushing:
  %new = or i32 %old, 32832
  store i32 %new, ptr %mode1
  !LDNEW
  br label %ready
ready:
  %release64 = and i64 %flags, 1
  %release = icmp ne i64 %release64, 0
  br i1 %release, label %save, label %go
save:
  %saved = call ptr @PyEval_SaveThread()
  br label %go
go:
  %thread = phi ptr [ %saved, %save ], [ null, %ready ]
  %owner = call i1 @weft_acquire(i32 %workers)
  br label %step.head
step.head:
  %s = phi i64 [ 0, %go ], [ %s1, %step.next ]
  %step = phi ptr [ %steps, %go ], [ %after, %step.next ]
  %live = phi ptr [ %thread, %go ], [ %live.next, %step.next ]
  %s.more = icmp slt i64 %s, %ns
  br i1 %s.more, label %step.body, label %done
step.body:
  %function = load ptr, ptr %step
  %n.p = getelementptr i64, ptr %step, i64 1
  %n = load i64, ptr %n.p
  %check.p = getelementptr i64, ptr %step, i64 2
  %check = load i64, ptr %check.p
  %list = getelementptr i64, ptr %step, i64 3
  %after = getelementptr i64, ptr %list, i64 %n
  br label %arg.head
arg.head:
  %k = phi i64 [ 0, %step.body ], [ %k1, %arg.body ]
  %k.more = icmp slt i64 %k, %n
  br i1 %k.more, label %arg.body, label %step.call
arg.body:
  %index.p = getelementptr i64, ptr %list, i64 %k
  %index = load i64, ptr %index.p
  %from = getelementptr i64, ptr %slots, i64 %index
  %value = load i64, ptr %from
  %to = getelementptr i64, ptr %packed, i64 %k
  store i64 %value, ptr %to
  %k1 = add i64 %k, 1
  br label %arg.head
step.call:
  call void %function(ptr %packed)
  %s1 = add i64 %s, 1
  %wants = icmp ne i64 %check, 0
  %checked = and i1 %wants, %release
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
  %live.next = phi ptr [ %live, %step.call ], [ %again, %resume ]
  br label %step.head
done:
  br i1 %owner, label %free, label %lock
free:
  call void @weft_release()
  br label %lock
lock:
  br i1 %release, label %restore, label %mode.back
restore:
  call void @PyEval_RestoreThread(ptr %live)
  br label %mode.back
mode.back:
  br i1 %flush, label %unflush, label %return
unflush:
  !LDOLD
  br label %return
return:
  ret i1 true
abandon:
  br i1 %owner, label %abandon.free, label %abandon.mode
abandon.free:
  call void @weft_release()
  br label %abandon.mode
abandon.mode:
  br i1 %flush, label %abandon.unflush, label %failed
abandon.unflush:
  !LDOLD
  br label %failed
failed:
  ret i1 false
}

; (inputs, outputs, arena): into outputs that exist
define ptr @weft_run(ptr %self, ptr %args, i64 %nargs) nounwind {
entry:
  %table = call ptr @PyLong_AsVoidPtr(ptr %self)
  %three = icmp eq i64 %nargs, 3
  br i1 %three, label %begin, label %misused
misused:
  call void @PyErr_BadArgument()
  ret ptr null
begin:
  %inputs = load ptr, ptr %args
  %args1 = getelementptr ptr, ptr %args, i64 1
  %outputs = load ptr, ptr %args1
  %args2 = getelementptr ptr, ptr %args, i64 2
  %arena.o = load ptr, ptr %args2
  %arena = call i64 @PyLong_AsUnsignedLongLong(ptr %arena.o)
  %ok = call i1 @weft_execute(ptr %table, ptr %inputs, ptr %outputs, i64 %arena)
  br i1 %ok, label %return, label %failed
failed:
  ret ptr null
return:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

; (inputs, held or None) -> list of outputs: new buffers, or inputs that nobody else holds
define ptr @weft_call(ptr %self, ptr %args, i64 %nargs) nounwind {
entry:
  %table = call ptr @PyLong_AsVoidPtr(ptr %self)
  %two = icmp eq i64 %nargs, 2
  br i1 %two, label %begin, label %misused
misused:
  call void @PyErr_BadArgument()
  ret ptr null
begin:
  %inputs = load ptr, ptr %args
  %args1 = getelementptr ptr, ptr %args, i64 1
  %held = load ptr, ptr %args1
  %ni = load i64, ptr %table
  %no.p = getelementptr i64, ptr %table, i64 1
  %no = load i64, ptr %no.p
  %allocator.p = getelementptr i64, ptr %table, i64 10
  %allocator = load ptr, ptr %allocator.p
  %type = load ptr, ptr %allocator
  %arena.home.p = getelementptr i64, ptr %table, i64 11
  %arena.home = load ptr, ptr %arena.home.p
  %nd.p = getelementptr i64, ptr %table, i64 12
  %nd = load i64, ptr %nd.p
  %kinds = getelementptr i64, ptr %table, i64 16
  %sizes = getelementptr i64, ptr %kinds, i64 %ni
  %homes = getelementptr i64, ptr %sizes, i64 %no
  %pairs = getelementptr i64, ptr %homes, i64 %no
  %given = call i64 @PyList_Size(ptr %inputs)
  %right = icmp eq i64 %given, %ni
  br i1 %right, label %list, label %misused
list:
  %outputs = call ptr @PyList_New(i64 %no)
  %bad = icmp eq ptr %outputs, null
  br i1 %bad, label %failed, label %listed
failed:
  ret ptr null
listed:
  %unknown = icmp eq ptr %held, @_Py_NoneStruct
  %useless = icmp slt i64 %nd, 1
  %keep = or i1 %unknown, %useless
  br i1 %keep, label %make.head, label %donate
donate:
  %marks = call i64 @PyList_Size(ptr %held)
  %marked = icmp eq i64 %marks, %ni
  br i1 %marked, label %pair.head, label %undone.misused
undone.misused:
  call void @Py_DecRef(ptr %outputs)
  call void @PyErr_BadArgument()
  ret ptr null
pair.head:
  %d = phi i64 [ 0, %donate ], [ %d1, %pair.next ]
  %d.more = icmp slt i64 %d, %nd
  br i1 %d.more, label %pair, label %make.head
pair:
  %d2 = shl i64 %d, 1
  %i.p = getelementptr i64, ptr %pairs, i64 %d2
  %i = load i64, ptr %i.p
  %o.p = getelementptr i64, ptr %i.p, i64 1
  %o = load i64, ptr %o.p
  %mark = call ptr @PyList_GetItem(ptr %held, i64 %i)
  %free = icmp eq ptr %mark, @_Py_FalseStruct
  br i1 %free, label %look, label %pair.next
look:
  %buffer = call ptr @PyList_GetItem(ptr %inputs, i64 %i)
  %type.p = getelementptr i8, ptr %buffer, i64 !OBTYPE
  %its = load ptr, ptr %type.p
  %ours = icmp eq ptr %its, %type
  br i1 %ours, label %unseen, label %pair.next
unseen:
  %exported.p = getelementptr i8, ptr %buffer, i64 !EXPORTED
  %exported = load i64, ptr %exported.p
  %private = icmp eq i64 %exported, 0
  %has.p = getelementptr i8, ptr %buffer, i64 !NBYTES
  %has = load i64, ptr %has.p
  %needs.p = getelementptr i64, ptr %sizes, i64 %o
  %needs = load i64, ptr %needs.p
  %fits = icmp eq i64 %has, %needs
  %there = call ptr @PyList_GetItem(ptr %outputs, i64 %o)
  %vacant = icmp eq ptr %there, null
  %p1 = and i1 %private, %fits
  %p2 = and i1 %p1, %vacant
  br i1 %p2, label %twin.head, label %pair.next
twin.head: ; the same buffer must not be another input, nor an output already
  %j = phi i64 [ 0, %unseen ], [ %j1, %twin.next ]
  %j.more = icmp slt i64 %j, %ni
  br i1 %j.more, label %twin, label %mate.head
twin:
  %other = call ptr @PyList_GetItem(ptr %inputs, i64 %j)
  %same = icmp eq ptr %other, %buffer
  %else = icmp ne i64 %j, %i
  %clash = and i1 %same, %else
  br i1 %clash, label %pair.next, label %twin.next
twin.next:
  %j1 = add i64 %j, 1
  br label %twin.head
mate.head:
  %m = phi i64 [ 0, %twin.head ], [ %m1, %mate.next ]
  %m.more = icmp slt i64 %m, %no
  br i1 %m.more, label %mate, label %take
mate:
  %mated = call ptr @PyList_GetItem(ptr %outputs, i64 %m)
  %taken = icmp eq ptr %mated, %buffer
  br i1 %taken, label %pair.next, label %mate.next
mate.next:
  %m1 = add i64 %m, 1
  br label %mate.head
take:
  call void @Py_IncRef(ptr %buffer)
  %set = call i32 @PyList_SetItem(ptr %outputs, i64 %o, ptr %buffer)
  br label %pair.next
pair.next:
  %d1 = add i64 %d, 1
  br label %pair.head
make.head:
  %q = phi i64 [ 0, %listed ], [ 0, %pair.head ], [ %q1, %make.next ]
  %q.more = icmp slt i64 %q, %no
  br i1 %q.more, label %make, label %made
make:
  %already = call ptr @PyList_GetItem(ptr %outputs, i64 %q)
  %open = icmp eq ptr %already, null
  br i1 %open, label %new, label %make.next
new:
  %size.p = getelementptr i64, ptr %sizes, i64 %q
  %size = load i64, ptr %size.p
  %home.p = getelementptr i64, ptr %homes, i64 %q
  %home = load ptr, ptr %home.p
  %object = call ptr @weft_make(ptr %allocator, ptr %home, i64 %size)
  %no.object = icmp eq ptr %object, null
  br i1 %no.object, label %undone, label %newset
newset:
  %set2 = call i32 @PyList_SetItem(ptr %outputs, i64 %q, ptr %object)
  br label %make.next
make.next:
  %q1 = add i64 %q, 1
  br label %make.head
made:
  %no.arena = icmp eq ptr %arena.home, null
  br i1 %no.arena, label %plain, label %arena
plain:
  %ok.p = call i1 @weft_execute(ptr %table, ptr %inputs, ptr %outputs, i64 0)
  br i1 %ok.p, label %return, label %undone
arena:
  %block = call i64 @weft_block(ptr %allocator, ptr %arena.home)
  %no.block = icmp eq i64 %block, 0
  br i1 %no.block, label %undone, label %within
within:
  %ok.a = call i1 @weft_execute(ptr %table, ptr %inputs, ptr %outputs, i64 %block)
  call void @weft_give(ptr %arena.home, i64 %block)
  br i1 %ok.a, label %return, label %undone
undone:
  call void @Py_DecRef(ptr %outputs)
  ret ptr null
return:
  ret ptr %outputs
}

; args: source, target, bytes
define void @weft_copy(ptr %args) nounwind {
  %source = load ptr, ptr %args
  %target.p = getelementptr ptr, ptr %args, i64 1
  %target = load ptr, ptr %target.p
  %bytes.p = getelementptr i64, ptr %args, i64 2
  %bytes = load i64, ptr %bytes.p
  %same = icmp eq ptr %source, %target
  br i1 %same, label %done, label %copy
copy:
  call void @llvm.memmove.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  br label %done
done:
  ret void
}
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
"""
