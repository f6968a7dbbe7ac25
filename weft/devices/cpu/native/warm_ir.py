"""LLVM text of a warm call: from a Python call into a Program and back without Python in between.

``weft_warm`` is the ``__call__`` of a class (a jitted function). It compares the arguments with a table that the last
slow call left in the object, runs the Program, and makes the Array of its one result. Where anything is not as the table
says, it calls the slow way, a Python function, with the same arguments. ``warm.py`` writes the tables.

The object of the table is held while the Program runs: it holds what runs, and another thread may drop both.
"""

from __future__ import annotations

from weft.devices.cpu.native.table_ir import CALL, filled, read

# words of the state, which ``warm.install`` fills in: addresses of objects, and offsets of slots within them
STATE = (
    "TABLE", "ADDRESS", "LOCAL", "INSIDE", "ZERO", "STRUCTURE", "COUNT", "SLOW", "ARRAY", "SCALARTYPE", "BASE", "CONTENT",
    "VALUE", "DTYPE", "SHAPE", "OP", "SCALAR",
)
# words of a table; after them the arguments, the inputs, and the slots of a fresh Node and of a fresh Array
TABLE = ("PROGRAM", "ARGUMENTS", "STRUCTURES", "INPUTS", "NODE", "NODESLOTS", "RESULT", "ARRAYSLOTS")
ARRAY, FLOAT, SAME, VALUE = range(4)  # what an argument must be; rows of (kind, shape or object, dtype)
OF_ARRAY, OF_NUMBER, OF_CELL, FIXED = range(4)  # where an input is found; rows of (kind, place or object, node)


def text() -> str:
    """What is filled in besides: see ``call.text``."""
    words: dict[str, object] = {
        "ROWS": 8 * len(TABLE), "A.ARRAY": ARRAY, "A.FLOAT": FLOAT, "A.VALUE": VALUE, "I.ARRAY": OF_ARRAY, "I.NUMBER": OF_NUMBER,
        "I.CELL": OF_CELL,
    }
    for prefix, names in (("S", STATE), ("T", TABLE)):
        words |= {f"{prefix}.{name}!": 8 * k for k, name in enumerate(names)}
    return filled(_TEXT, words)


_TEXT = """
@weft_warm_state = external global i8
@weft_state = external global i8
@PyFloat_Type = external global i8
declare ptr @PyType_GenericAlloc(ptr, i64)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)

define internal ptr @weft_of_state(i64 %offset) alwaysinline nounwind {
  %p = getelementptr i8, ptr @weft_warm_state, i64 %offset
  %value = load ptr, ptr %p
  ret ptr %value
}

; a slot of an object, the place of which the state tells
define internal ptr @weft_slot(ptr %object, i64 %which) alwaysinline nounwind {
  %p = getelementptr i8, ptr @weft_warm_state, i64 %which
  %offset = load i64, ptr %p
  %slot = getelementptr i8, ptr %object, i64 %offset
  %value = load ptr, ptr %slot
  ret ptr %value
}

; whether an attribute is this very object; an exception is forgotten, the slow way will meet it again
define internal i1 @weft_is(ptr %object, ptr %name, ptr %wanted) nounwind {
entry:
  %found = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  %none = icmp eq ptr %found, null
  br i1 %none, label %failed, label %compare
failed:
  call void @PyErr_Clear()
  ret i1 false
compare:
  %same = icmp eq ptr %found, %wanted
  call void @Py_DecRef(ptr %found)
  ret i1 %same
}
declare void @PyErr_Clear()
declare i32 @PyErr_ExceptionMatches(ptr)

; whether an object of this class, shape and dtype is there, with a buffer
define internal i1 @weft_fits(ptr %array, ptr %wanted, ptr %shape, ptr %dtype) nounwind {
entry:
  %type.p = getelementptr i8, ptr %array, i64 !OBTYPE
  %type = load ptr, ptr %type.p
  %right = icmp eq ptr %type, %wanted
  br i1 %right, label %own, label %no
own:
  %base = call ptr @weft_slot(ptr %array, i64 !S.BASE!)
  %no.view = icmp eq ptr %base, @_Py_NoneStruct
  %node = call ptr @weft_slot(ptr %array, i64 !S.CONTENT!)
  %there = icmp ne ptr %node, null
  %plain = and i1 %no.view, %there
  br i1 %plain, label %look, label %no
look:
  %value = call ptr @weft_slot(ptr %node, i64 !S.VALUE!)
  %pending = icmp eq ptr %value, @_Py_NoneStruct
  %its.dtype = call ptr @weft_slot(ptr %node, i64 !S.DTYPE!)
  %same.dtype = icmp eq ptr %its.dtype, %dtype
  %its.op = call ptr @weft_slot(ptr %node, i64 !S.OP!)
  %scalar = call ptr @weft_of_state(i64 !S.SCALAR!)
  %number = icmp eq ptr %its.op, %scalar
  %not = or i1 %pending, %number
  %good = xor i1 %not, true
  %ok = and i1 %good, %same.dtype
  br i1 %ok, label %extents, label %no
extents:
  %its.shape = call ptr @weft_slot(ptr %node, i64 !S.SHAPE!)
  %same = icmp eq ptr %its.shape, %shape
  br i1 %same, label %yes, label %equal
equal:
  %compared = call i32 @PyObject_RichCompareBool(ptr %its.shape, ptr %shape, i32 2)
  %holds = icmp eq i32 %compared, 1
  br i1 %holds, label %yes, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; a new object with its slots filled from pairs (offset, object); the pairs' end in %after
define internal ptr @weft_filled(ptr %type, ptr %pairs, i64 %count) nounwind {
entry:
  %new = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %bad = icmp eq ptr %new, null
  br i1 %bad, label %failed, label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k1, %body ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %body, label %done
body:
  %at = shl i64 %k, 1
  %pair = getelementptr i64, ptr %pairs, i64 %at
  %offset = load i64, ptr %pair
  %object.p = getelementptr i64, ptr %pair, i64 1
  %object = load ptr, ptr %object.p
  call void @Py_IncRef(ptr %object)
  %slot = getelementptr i8, ptr %new, i64 %offset
  store ptr %object, ptr %slot
  %k1 = add i64 %k, 1
  br label %head
done:
  ret ptr %new
failed:
  ret ptr null
}

; put an object, the reference to which is given away, where the state says
define internal void @weft_put(ptr %object, i64 %which, ptr %value) alwaysinline nounwind {
  %p = getelementptr i8, ptr @weft_warm_state, i64 %which
  %offset = load i64, ptr %p
  %slot = getelementptr i8, ptr %object, i64 %offset
  store ptr %value, ptr %slot
  ret void
}

define internal void @weft_drop(ptr %objects, i64 %count) nounwind {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k1, %body ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %body, label %done
body:
  %p = getelementptr ptr, ptr %objects, i64 %k
  %object = load ptr, ptr %p
  call void @Py_DecRef(ptr %object)
  %k1 = add i64 %k, 1
  br label %head
done:
  ret void
}

; f(self, *args, **names), as Python calls a method
define ptr @weft_warm(ptr %self, ptr %args, i64 %nargs, ptr %names) nounwind {
entry:
  %named = icmp ne ptr %names, null
  br i1 %named, label %slow, label %ready
ready:
  %holder = call ptr @weft_slot(ptr %self, i64 !S.TABLE!)
  %none = icmp eq ptr %holder, null
  %empty = icmp eq ptr %holder, @_Py_NoneStruct
  %cold = or i1 %none, %empty
  br i1 %cold, label %slow, label %open
open:
  %number.t = call ptr @weft_slot(ptr %holder, i64 !S.ADDRESS!)
  %table = call ptr @PyLong_AsVoidPtr(ptr %number.t)
  %program.p = getelementptr i8, ptr %table, i64 !T.PROGRAM!
  %program = load ptr, ptr %program.p
  %count.p = getelementptr i8, ptr %table, i64 !T.ARGUMENTS!
  %count = load i64, ptr %count.p
  %as.many = icmp eq i64 %count, %nargs
""" + read("program", CALL, "workers") + """
  %threads = load i32, ptr getelementptr (i8, ptr @weft_state, i64 !WORKERS)
  %threads64 = zext i32 %threads to i64
  %same.threads = icmp eq i64 %workers, %threads64
  %usual = and i1 %as.many, %same.threads
  br i1 %usual, label %outside, label %slow
outside:
  %local = call ptr @weft_of_state(i64 !S.LOCAL!)
  %inside = call ptr @weft_of_state(i64 !S.INSIDE!)
  %zero = call ptr @weft_of_state(i64 !S.ZERO!)
  %no.trace = call i1 @weft_is(ptr %local, ptr %inside, ptr %zero)
  br i1 %no.trace, label %structure, label %slow
structure:
  %class = call ptr @weft_of_state(i64 !S.STRUCTURE!)
  %counter = call ptr @weft_of_state(i64 !S.COUNT!)
  %known.p = getelementptr i8, ptr %table, i64 !T.STRUCTURES!
  %known = load ptr, ptr %known.p
  %unchanged = call i1 @weft_is(ptr %class, ptr %counter, ptr %known)
  br i1 %unchanged, label %begin, label %slow
begin:
  %rows = getelementptr i8, ptr %table, i64 !ROWS
  br label %arg.head
arg.head:
  %a = phi i64 [ 0, %begin ], [ %a1, %arg.next ]
  %a.more = icmp slt i64 %a, %count
  br i1 %a.more, label %arg.body, label %inputs
arg.body:
  %a3 = mul i64 %a, 3
  %row = getelementptr i64, ptr %rows, i64 %a3
  %arg.p = getelementptr ptr, ptr %args, i64 %a
  %arg = load ptr, ptr %arg.p
  %kind = load i64, ptr %row
  %first.p = getelementptr i64, ptr %row, i64 1
  %first = load ptr, ptr %first.p
  switch i64 %kind, label %same [ i64 !A.ARRAY, label %an.array
                                 i64 !A.VALUE, label %a.value
                                 i64 !A.FLOAT, label %float ]
an.array:
  %array.class = call ptr @weft_of_state(i64 !S.ARRAY!)
  br label %array
a.value:
  %value.class = call ptr @weft_of_state(i64 !S.SCALARTYPE!)
  br label %array
array:
  %wanted = phi ptr [ %array.class, %an.array ], [ %value.class, %a.value ]
  %second.p = getelementptr i64, ptr %row, i64 2
  %second = load ptr, ptr %second.p
  %fits = call i1 @weft_fits(ptr %arg, ptr %wanted, ptr %first, ptr %second)
  br i1 %fits, label %arg.next, label %slow
float:
  %type.p = getelementptr i8, ptr %arg, i64 !OBTYPE
  %type = load ptr, ptr %type.p
  %is.float = icmp eq ptr %type, @PyFloat_Type
  br i1 %is.float, label %arg.next, label %slow
same:
  %identical = icmp eq ptr %arg, %first
  br i1 %identical, label %arg.next, label %slow
arg.next:
  %a1 = add i64 %a, 1
  br label %arg.head
inputs:
  %ni.p = getelementptr i8, ptr %table, i64 !T.INPUTS!
  %ni = load i64, ptr %ni.p
""" + read("program", CALL, "total") + """
  %slots = alloca i64, i64 %total, align 16
  %objects = alloca ptr, i64 %ni, align 16
  %count3 = mul i64 %count, 3
  %in.rows = getelementptr i64, ptr %rows, i64 %count3
  br label %in.head
in.head: ; what the Program is given, each with a reference while it runs
  %i = phi i64 [ 0, %inputs ], [ %i1, %in.held ]
  %i.more = icmp slt i64 %i, %ni
  br i1 %i.more, label %in.body, label %fill
in.body:
  %i3 = mul i64 %i, 3
  %in.row = getelementptr i64, ptr %in.rows, i64 %i3
  %in.kind = load i64, ptr %in.row
  %where.p = getelementptr i64, ptr %in.row, i64 1
  %where = load i64, ptr %where.p
  %where.o = load ptr, ptr %where.p
  switch i64 %in.kind, label %in.fixed [ i64 !I.ARRAY, label %in.array
                                        i64 !I.NUMBER, label %in.number
                                        i64 !I.CELL, label %in.cell ]
in.array:
  %given.p = getelementptr ptr, ptr %args, i64 %where
  %given = load ptr, ptr %given.p
  %its.node = call ptr @weft_slot(ptr %given, i64 !S.CONTENT!)
  %its.value = call ptr @weft_slot(ptr %its.node, i64 !S.VALUE!)
  br label %in.held
in.number:
  %number.p = getelementptr ptr, ptr %args, i64 %where
  %number = load ptr, ptr %number.p
  br label %in.held
in.cell:
  %cell.node = call ptr @weft_slot(ptr %where.o, i64 !S.CONTENT!)
  %expected.p = getelementptr i64, ptr %in.row, i64 2
  %expected = load ptr, ptr %expected.p
  %as.before = icmp eq ptr %cell.node, %expected
  br i1 %as.before, label %in.content, label %changed
in.content:
  %content = call ptr @weft_slot(ptr %cell.node, i64 !S.VALUE!)
  br label %in.held
changed:
  call void @weft_drop(ptr %objects, i64 %i)
  br label %slow
in.fixed:
  br label %in.held
in.held:
  %object = phi ptr [ %its.value, %in.array ], [ %number, %in.number ], [ %content, %in.content ], [ %where.o, %in.fixed ]
  call void @Py_IncRef(ptr %object)
  %object.p = getelementptr ptr, ptr %objects, i64 %i
  store ptr %object, ptr %object.p
  %i1 = add i64 %i, 1
  br label %in.head
fill:
""" + read("program", CALL, "name", "allocator") + """
  %buffer.type = load ptr, ptr %allocator
""" + read("program", CALL, "home") + """
  %kinds = getelementptr i64, ptr %program, i64 !HEADER
  call void @Py_IncRef(ptr %holder)
  br label %slot.head
slot.head:
  %s = phi i64 [ 0, %fill ], [ %s1, %slot.body ]
  %s.more = icmp slt i64 %s, %ni
  br i1 %s.more, label %slot.body, label %output
slot.body:
  %s.p = getelementptr ptr, ptr %objects, i64 %s
  %s.o = load ptr, ptr %s.p
  %s.kind.p = getelementptr i64, ptr %kinds, i64 %s
  %s.kind = load i64, ptr %s.kind.p
  %s.slot = getelementptr i64, ptr %slots, i64 %s
  %took = call i1 @weft_item(ptr %s.o, i64 %s.kind, ptr %name, ptr %s.slot, ptr %buffer.type)
  %s1 = add i64 %s, 1
  br i1 %took, label %slot.head, label %failed
output:
  %size.p = getelementptr i64, ptr %kinds, i64 %ni
  %size = load i64, ptr %size.p
  %its.home.p = getelementptr i64, ptr %size.p, i64 1
  %its.home = load ptr, ptr %its.home.p
  %buffer = call ptr @weft_make(ptr %allocator, ptr %its.home, i64 %size)
  %no.buffer = icmp eq ptr %buffer, null
  br i1 %no.buffer, label %failed, label %made
made: ; the result, before the run
  %node.type.p = getelementptr i8, ptr %table, i64 !T.NODE!
  %node.type = load ptr, ptr %node.type.p
  %nn.p = getelementptr i8, ptr %table, i64 !T.NODESLOTS!
  %nn = load i64, ptr %nn.p
  %na.p = getelementptr i8, ptr %table, i64 !T.ARRAYSLOTS!
  %na = load i64, ptr %na.p
  %ni3 = mul i64 %ni, 3
  %node.pairs = getelementptr i64, ptr %in.rows, i64 %ni3
  %nn2 = shl i64 %nn, 1
  %array.pairs = getelementptr i64, ptr %node.pairs, i64 %nn2
  %node = call ptr @weft_filled(ptr %node.type, ptr %node.pairs, i64 %nn)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %lost, label %noded
lost:
  call void @Py_DecRef(ptr %buffer)
  br label %failed
noded:
  call void @weft_put(ptr %node, i64 !S.VALUE!, ptr %buffer)
  %array.type.p = getelementptr i8, ptr %table, i64 !T.RESULT!
  %array.type = load ptr, ptr %array.type.p
  %array.o = call ptr @weft_filled(ptr %array.type, ptr %array.pairs, i64 %na)
  %no.array = icmp eq ptr %array.o, null
  br i1 %no.array, label %lost.node, label %filled
lost.node:
  call void @Py_DecRef(ptr %node)
  br label %failed
filled:
  call void @weft_put(ptr %array.o, i64 !S.CONTENT!, ptr %node)
  %address.p = getelementptr i8, ptr %buffer, i64 !ADDRESS
  %address = load i64, ptr %address.p
  %out.slot = getelementptr i64, ptr %slots, i64 %ni
  store i64 %address, ptr %out.slot
  %no.arena = icmp eq ptr %home, null
  br i1 %no.arena, label %run, label %arena
arena:
  %block = call i64 @weft_block(ptr %allocator, ptr %home)
  %no.block = icmp eq i64 %block, 0
  br i1 %no.block, label %undone, label %run.arena
run.arena:
  %ran.a = call i1 @weft_walk(ptr %program, ptr %slots, i64 %block)
  call void @weft_give(ptr %home, i64 %block)
  br i1 %ran.a, label %result, label %undone
run:
  %ran = call i1 @weft_walk(ptr %program, ptr %slots, i64 0)
  br i1 %ran, label %result, label %undone
undone:
  call void @Py_DecRef(ptr %array.o)
  %fault = call i32 @PyErr_ExceptionMatches(ptr @weft_index_fault)
  %faulted = icmp ne i32 %fault, 0
  br i1 %faulted, label %tell, label %failed
tell: ; nothing has changed: the slow way finds the fault again, and knows the user's line
  call void @PyErr_Clear()
  call void @weft_drop(ptr %objects, i64 %ni)
  br label %slow
failed:
  call void @weft_drop(ptr %objects, i64 %ni)
  call void @Py_DecRef(ptr %holder)
  ret ptr null
result:
  call void @weft_drop(ptr %objects, i64 %ni)
  call void @Py_DecRef(ptr %holder)
  ret ptr %array.o
slow:
  %more.n = call i64 @weft_names(ptr %names)
  %plus = add i64 %nargs, 1
  %space = add i64 %plus, %more.n
  %copy = alloca ptr, i64 %space, align 16
  store ptr %self, ptr %copy
  %rest = getelementptr ptr, ptr %copy, i64 1
  %rest.n = add i64 %nargs, %more.n
  %rest.bytes = shl i64 %rest.n, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %rest, ptr align 8 %args, i64 %rest.bytes, i1 false)
  %function = call ptr @weft_of_state(i64 !S.SLOW!)
  %answer = call ptr @PyObject_Vectorcall(ptr %function, ptr %copy, i64 %plus, ptr %names)
  ret ptr %answer
}

define internal i64 @weft_names(ptr %names) nounwind {
entry:
  %none = icmp eq ptr %names, null
  br i1 %none, label %no, label %some
no:
  ret i64 0
some:
  %n = call i64 @PyTuple_Size(ptr %names)
  ret i64 %n
}
"""
