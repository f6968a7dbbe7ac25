"""LLVM text of buffers: a Python type whose objects are made and freed in emitted code.

A call that makes one output must not spend more on the output's Python object than on the call. A *home* is
the list of idle blocks of one size class: count, capacity, items, block size. All of this runs under the
interpreter lock.
"""

from __future__ import annotations

from weft.devices.cpu.native.table_ir import filled

HEADER = object.__basicsize__  # 16; where a Python object's own fields begin
FIELDS = {"address": HEADER, "nbytes": HEADER + 8, "home": HEADER + 16, "exported": HEADER + 24, "weak": HEADER + 32,
          "obtype": HEADER - 8}
PLACES = {name.upper(): offset for name, offset in FIELDS.items()}  # as texts name them
OBJECT_SIZE = HEADER + 40
HOME_SIZE = 32


def text() -> str:
    return filled(_TEXT, PLACES)


_TEXT = """
declare ptr @realloc(ptr, i64)
declare ptr @_PyObject_New(ptr)
declare void @PyObject_Free(ptr)
declare i32 @PyBuffer_FillInfo(ptr, ptr, ptr, i64, i32, i32)
declare i32 @PyObject_GetBuffer(ptr, ptr, i32)
declare void @PyBuffer_Release(ptr)
declare void @PyObject_ClearWeakRefs(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyLong_FromUnsignedLongLong(i64)

; put a block on its home's list; without memory for the list the block is lost, nothing else
define internal void @weft_give(ptr %home, i64 %address) nounwind {
entry:
  %count = load i64, ptr %home
  %capacity.p = getelementptr i64, ptr %home, i64 1
  %capacity = load i64, ptr %capacity.p
  %items.p = getelementptr i64, ptr %home, i64 2
  %full = icmp sge i64 %count, %capacity
  br i1 %full, label %grow, label %put
grow:
  %twice = shl i64 %capacity, 1
  %more = add i64 %twice, 16
  %bytes = shl i64 %more, 3
  %old = load ptr, ptr %items.p
  %new = call ptr @realloc(ptr %old, i64 %bytes)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %done, label %grown
grown:
  store ptr %new, ptr %items.p
  store i64 %more, ptr %capacity.p
  br label %put
put:
  %items = load ptr, ptr %items.p
  %cell = getelementptr i64, ptr %items, i64 %count
  store i64 %address, ptr %cell
  %count1 = add i64 %count, 1
  store i64 %count1, ptr %home
  br label %done
done:
  ret void
}

; an idle block, or 0
define internal i64 @weft_idle(ptr %home) nounwind {
  %count = load i64, ptr %home
  %none = icmp slt i64 %count, 1
  br i1 %none, label %empty, label %some
empty:
  ret i64 0
some:
  %count1 = sub i64 %count, 1
  store i64 %count1, ptr %home
  %items.p = getelementptr i64, ptr %home, i64 2
  %items = load ptr, ptr %items.p
  %cell = getelementptr i64, ptr %items, i64 %count1
  %address = load i64, ptr %cell
  ret i64 %address
}

; a block from the home or, by way of Python, from the system; 0 with an exception set if there is none
define internal i64 @weft_block(ptr %allocator, ptr %home) nounwind {
entry:
  %address = call i64 @weft_idle(ptr %home)
  %miss = icmp eq i64 %address, 0
  br i1 %miss, label %fresh, label %done
fresh:
  %size.p = getelementptr i64, ptr %home, i64 3
  %size = load i64, ptr %size.p
  %number = call ptr @PyLong_FromUnsignedLongLong(i64 %size)
  %bad = icmp eq ptr %number, null
  br i1 %bad, label %failed, label %ask
ask:
  %f.p = getelementptr ptr, ptr %allocator, i64 1
  %f = load ptr, ptr %f.p
  %answer = call ptr @PyObject_CallOneArg(ptr %f, ptr %number)
  call void @Py_DecRef(ptr %number)
  %refused = icmp eq ptr %answer, null
  br i1 %refused, label %failed, label %got
got:
  %new = call i64 @PyLong_AsUnsignedLongLong(ptr %answer)
  call void @Py_DecRef(ptr %answer)
  ret i64 %new
failed:
  ret i64 0
done:
  ret i64 %address
}

define internal ptr @weft_make(ptr %allocator, ptr %home, i64 %nbytes) nounwind {
entry:
  %address = call i64 @weft_block(ptr %allocator, ptr %home)
  %none = icmp eq i64 %address, 0
  br i1 %none, label %failed, label %object
object:
  %type = load ptr, ptr %allocator
  %new = call ptr @_PyObject_New(ptr %type)
  %bad = icmp eq ptr %new, null
  br i1 %bad, label %lost, label %fill
lost:
  call void @weft_give(ptr %home, i64 %address)
  br label %failed
fill:
  %address.p = getelementptr i8, ptr %new, i64 !ADDRESS
  store i64 %address, ptr %address.p
  %nbytes.p = getelementptr i8, ptr %new, i64 !NBYTES
  store i64 %nbytes, ptr %nbytes.p
  %home.p = getelementptr i8, ptr %new, i64 !HOME
  store ptr %home, ptr %home.p
  %exported.p = getelementptr i8, ptr %new, i64 !EXPORTED
  store i64 0, ptr %exported.p
  %weak.p = getelementptr i8, ptr %new, i64 !WEAK
  store ptr null, ptr %weak.p
  ret ptr %new
failed:
  ret ptr null
}

; tp_dealloc
define void @weft_buffer_free(ptr %self) nounwind {
entry:
  %weak.p = getelementptr i8, ptr %self, i64 !WEAK
  %weak = load ptr, ptr %weak.p
  %watched = icmp ne ptr %weak, null
  br i1 %watched, label %clear, label %give
clear:
  call void @PyObject_ClearWeakRefs(ptr %self)
  br label %give
give:
  %home.p = getelementptr i8, ptr %self, i64 !HOME
  %home = load ptr, ptr %home.p
  %address.p = getelementptr i8, ptr %self, i64 !ADDRESS
  %address = load i64, ptr %address.p
  call void @weft_give(ptr %home, i64 %address)
  %type.p = getelementptr i8, ptr %self, i64 !OBTYPE
  %type = load ptr, ptr %type.p
  call void @PyObject_Free(ptr %self)
  call void @Py_DecRef(ptr %type)
  ret void
}

; the buffer protocol: NumPy and others see the memory as bytes; exports are counted while they last
define i32 @weft_buffer_export(ptr %self, ptr %view, i32 %flags) nounwind {
  %address.p = getelementptr i8, ptr %self, i64 !ADDRESS
  %address = load ptr, ptr %address.p
  %nbytes.p = getelementptr i8, ptr %self, i64 !NBYTES
  %nbytes = load i64, ptr %nbytes.p
  %failed = call i32 @PyBuffer_FillInfo(ptr %view, ptr %self, ptr %address, i64 %nbytes, i32 0, i32 %flags)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %done, label %count
count:
  %exported.p = getelementptr i8, ptr %self, i64 !EXPORTED
  %n = load i64, ptr %exported.p
  %n1 = add i64 %n, 1
  store i64 %n1, ptr %exported.p
  br label %done
done:
  ret i32 %failed
}

define void @weft_buffer_release(ptr %self, ptr %view) nounwind {
  %exported.p = getelementptr i8, ptr %self, i64 !EXPORTED
  %n = load i64, ptr %exported.p
  %n1 = sub i64 %n, 1
  store i64 %n1, ptr %exported.p
  ret void
}

; (buffer address, array): copy a row-major array's bytes
define ptr @weft_fill(ptr %self, ptr %args, i64 %nargs) nounwind {
  %view = alloca [256 x i8], align 16
  %target.o = load ptr, ptr %args
  %target = call ptr @PyLong_AsVoidPtr(ptr %target.o)
  %array.p = getelementptr ptr, ptr %args, i64 1
  %array = load ptr, ptr %array.p
  %failed = call i32 @PyObject_GetBuffer(ptr %array, ptr %view, i32 56)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %refused, label %copy
refused:
  ret ptr null
copy:
  %source = load ptr, ptr %view
  %length.p = getelementptr i64, ptr %view, i64 2
  %length = load i64, ptr %length.p
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %length, i1 false)
  call void @PyBuffer_Release(ptr %view)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

; self: the allocator. (home, nbytes) -> Buffer
define ptr @weft_buffer(ptr %self, ptr %args, i64 %nargs) nounwind {
entry:
  %allocator = call ptr @PyLong_AsVoidPtr(ptr %self)
  %two = icmp eq i64 %nargs, 2
  br i1 %two, label %go, label %misused
misused:
  call void @PyErr_BadArgument()
  ret ptr null
go:
  %home.o = load ptr, ptr %args
  %home = call ptr @PyLong_AsVoidPtr(ptr %home.o)
  %nbytes.p = getelementptr ptr, ptr %args, i64 1
  %nbytes.o = load ptr, ptr %nbytes.p
  %nbytes = call i64 @PyLong_AsUnsignedLongLong(ptr %nbytes.o)
  %new = call ptr @weft_make(ptr %allocator, ptr %home, i64 %nbytes)
  ret ptr %new
}

; self: the allocator. (home) -> address of an idle block, or 0
define ptr @weft_pop(ptr %self, ptr %args, i64 %nargs) nounwind {
  %home.o = load ptr, ptr %args
  %home = call ptr @PyLong_AsVoidPtr(ptr %home.o)
  %address = call i64 @weft_idle(ptr %home)
  %number = call ptr @PyLong_FromUnsignedLongLong(i64 %address)
  ret ptr %number
}

; self: the allocator. (home, address)
define ptr @weft_push(ptr %self, ptr %args, i64 %nargs) nounwind {
  %home.o = load ptr, ptr %args
  %home = call ptr @PyLong_AsVoidPtr(ptr %home.o)
  %address.p = getelementptr ptr, ptr %args, i64 1
  %address.o = load ptr, ptr %address.p
  %address = call i64 @PyLong_AsUnsignedLongLong(ptr %address.o)
  call void @weft_give(ptr %home, i64 %address)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}
"""
