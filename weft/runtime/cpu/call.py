"""From Python into a Program: one native function, called as CPython calls its own (METH_FASTCALL).

``run(inputs, outputs, arena)`` reads addresses out of the buffers, turns Python numbers into the kernels' dtypes,
and walks a table of steps, each a kernel's address and the slots it is given. The table is made once per
Program segment; what changes between runs lies on the stack, so two threads may run one Program at once.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cpu import pool_ir

RELEASE, FLUSH = 1, 2  # flags: give up the interpreter lock; flush denormals to zero
# kinds of input: how a list item becomes an 8-byte slot
UNUSED, ADDRESS, FLOAT32, FLOAT64, INTEGER, BOOLEAN = range(6)
_HEADER = 12  # words: inputs, outputs, arena slots, constants, steps, flags, workers, slots, name of "address", largest args


class Step(NamedTuple):
    """One native call. ``check``: look for signals (Ctrl-C) afterwards."""

    function: int
    args: tuple[int, ...]
    check: bool = False


def input_kind(dtype: np.dtype) -> int:
    """How a Python number becomes a run-time scalar of ``dtype``."""
    if dtype == np.float32:
        return FLOAT32
    if dtype == np.float64:
        return FLOAT64
    return BOOLEAN if dtype == np.bool_ else INTEGER


class Table:
    """The native form of a segment: 8-byte words, the slots numbered inputs, outputs, arena, constants."""

    def __init__(self, kinds: list[int], outputs: int, arena: list[int], constants: list[int], steps: list[Step], flags: int) -> None:
        steps_words = [w for s in steps for w in (s.function, len(s.args), int(s.check), *s.args)]
        most = max((len(s.args) for s in steps), default=0)
        slots = len(kinds) + outputs + len(arena) + len(constants)
        header = [len(kinds), outputs, len(arena), len(constants), len(steps), flags, 1, slots, id(_ADDRESS), most, 0, 0]
        self.words = np.array([*header, *kinds, *arena, *constants, *steps_words], dtype=np.int64)
        self.address = int(self.words.ctypes.data)

    def set_workers(self, count: int) -> None:
        self.words[6] = count


_ADDRESS = "address"  # kept for the life of the module: the table holds its id


class _MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


def builtin(name: str, address: int, bound: Any) -> Any:
    """A Python builtin over a native ``PyObject *f(PyObject *self, PyObject *const *args, Py_ssize_t n)``."""
    method = _MethodDef(name.encode(), address, 0x80, None)  # METH_FASTCALL
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))  # the builtin points into it
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(ctypes.addressof(method), bound, None)


def entry(run: int, table: Table) -> Any:
    """``f(inputs: list, outputs: list, arena: int) -> None`` for a table; the table must outlive it."""
    return builtin("weft_run", run, table.address)


def text() -> str:
    x86 = pool_ir.x86()
    out = _TEXT.replace("!STMXCSR", "call void @llvm.x86.sse.stmxcsr(ptr %mode)" if x86 else "store i32 0, ptr %mode")
    out = out.replace("!LDOLD", "call void @llvm.x86.sse.ldmxcsr(ptr %mode)" if x86 else "store i32 0, ptr %mode1")
    out = out.replace("!LDNEW", "call void @llvm.x86.sse.ldmxcsr(ptr %mode1)" if x86 else "store i32 0, ptr %mode1")
    out = out.replace("!DECLARE", "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)" if x86 else "")
    return out.replace("!ENTRIES", str(8 * pool_ir.COUNTERS["entries"]))


_TEXT = """
@weft_counters = external global i8
@_Py_NoneStruct = external global i8
!DECLARE
declare i1 @weft_acquire(i32)
declare void @weft_release()
declare i64 @PyList_Size(ptr)
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
define internal i1 @weft_item(ptr %item, i64 %kind, ptr %name, ptr %slot) nounwind {
entry:
  switch i64 %kind, label %integer [
    i64 0, label %fine
    i64 1, label %buffer
    i64 2, label %single
    i64 3, label %double
    i64 5, label %boolean
  ]
buffer:
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

define ptr @weft_run(ptr %self, ptr %args, i64 %nargs) nounwind {
entry:
  %mode = alloca i32
  %mode1 = alloca i32
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
  %total.p = getelementptr i64, ptr %table, i64 7
  %total = load i64, ptr %total.p
  %name.p = getelementptr i64, ptr %table, i64 8
  %name = load ptr, ptr %name.p
  %most.p = getelementptr i64, ptr %table, i64 9
  %most = load i64, ptr %most.p
  %slots = alloca i64, i64 %total, align 16
  %packed = alloca i64, i64 %most, align 16
  %kinds = getelementptr i64, ptr %table, i64 12
  %offsets = getelementptr i64, ptr %kinds, i64 %ni
  %constants = getelementptr i64, ptr %offsets, i64 %na
  %steps = getelementptr i64, ptr %constants, i64 %nc
  %given = call i64 @PyList_Size(ptr %inputs)
  %right.i = icmp eq i64 %given, %ni
  %given.o = call i64 @PyList_Size(ptr %outputs)
  %right.o = icmp eq i64 %given.o, %no
  %right = and i1 %right.i, %right.o
  br i1 %right, label %in.head, label %misused
in.head:
  %i = phi i64 [ 0, %begin ], [ %i1, %in.body ]
  %i.more = icmp slt i64 %i, %ni
  br i1 %i.more, label %in.body, label %out.head
in.body:
  %item = call ptr @PyList_GetItem(ptr %inputs, i64 %i)
  %kind.p = getelementptr i64, ptr %kinds, i64 %i
  %kind = load i64, ptr %kind.p
  %slot = getelementptr i64, ptr %slots, i64 %i
  %took = call i1 @weft_item(ptr %item, i64 %kind, ptr %name, ptr %slot)
  %i1 = add i64 %i, 1
  br i1 %took, label %in.head, label %failed
failed:
  ret ptr null
out.head:
  %o = phi i64 [ 0, %in.head ], [ %o1, %out.body ]
  %o.more = icmp slt i64 %o, %no
  br i1 %o.more, label %out.body, label %arena.head
out.body:
  %o.item = call ptr @PyList_GetItem(ptr %outputs, i64 %o)
  %o.at = add i64 %ni, %o
  %o.slot = getelementptr i64, ptr %slots, i64 %o.at
  %o.took = call i1 @weft_item(ptr %o.item, i64 1, ptr %name, ptr %o.slot)
  %o1 = add i64 %o, 1
  br i1 %o.took, label %out.head, label %failed
arena.head:
  %a = phi i64 [ 0, %out.head ], [ %a1, %arena.body ]
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
  %stop = icmp ne i32 %interrupted, 0
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
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
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
