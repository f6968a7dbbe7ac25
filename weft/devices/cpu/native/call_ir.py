"""LLVM text of what Python calls to run a Program: into outputs that exist, or into outputs that the call makes."""

from __future__ import annotations

from weft.devices.cpu.native.table_ir import CALL, read

_RUN = """
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
"""

_CALL = """
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
""" + read("table", CALL, "ni", "no", "allocator") + """
  %type = load ptr, ptr %allocator
""" + read("table", CALL, "home", "nd") + """
  %kinds = getelementptr i64, ptr %table, i64 !HEADER
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
  %its.home.p = getelementptr i64, ptr %homes, i64 %q
  %its.home = load ptr, ptr %its.home.p
  %object = call ptr @weft_make(ptr %allocator, ptr %its.home, i64 %size)
  %no.object = icmp eq ptr %object, null
  br i1 %no.object, label %undone, label %newset
newset:
  %set2 = call i32 @PyList_SetItem(ptr %outputs, i64 %q, ptr %object)
  br label %make.next
make.next:
  %q1 = add i64 %q, 1
  br label %make.head
made:
  %no.arena = icmp eq ptr %home, null
  br i1 %no.arena, label %plain, label %arena
plain:
  %ok.p = call i1 @weft_execute(ptr %table, ptr %inputs, ptr %outputs, i64 0)
  br i1 %ok.p, label %return, label %undone
arena:
  %block = call i64 @weft_block(ptr %allocator, ptr %home)
  %no.block = icmp eq i64 %block, 0
  br i1 %no.block, label %undone, label %within
within:
  %ok.a = call i1 @weft_execute(ptr %table, ptr %inputs, ptr %outputs, i64 %block)
  call void @weft_give(ptr %home, i64 %block)
  br i1 %ok.a, label %return, label %undone
undone:
  call void @Py_DecRef(ptr %outputs)
  ret ptr null
return:
  ret ptr %outputs
}
"""

_COPY = """
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


def text() -> str:
    """What is filled in: see ``call.text``."""
    return _RUN + _CALL + _COPY
