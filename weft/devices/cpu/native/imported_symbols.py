"""Functions and constants of CPython, the C library, Linux and LLVM that emitted code uses."""

from __future__ import annotations

# CPython, Include/: calling conventions and memory layouts
METH_FASTCALL, METH_KEYWORDS = 0x80, 0x02  # methodobject.h: (self, args, nargs), and keyword names
OBJECT_SIZE = object.__basicsize__  # object.h, PyObject: reference count and type; an object's own fields follow
OBJECT = {"count": (OBJECT_SIZE - 16, "i32"), "type": (OBJECT_SIZE - 8, "ptr")}
WEAKREF = {"target": (OBJECT_SIZE, "ptr")}  # weakrefobject.h, PyWeakReference
TUPLE = {"length": (OBJECT_SIZE, "i64"), "items": (tuple.__basicsize__, "ptr")}  # tupleobject.h
LIST = {"length": (OBJECT_SIZE, "i64"), "items": (OBJECT_SIZE + 8, "ptr")}  # listobject.h
CLOSURE = {"content": (OBJECT_SIZE, "ptr")}  # cellobject.h, PyCellObject
# ndarraytypes.h, PyArrayObject_fields: the start of a NumPy array, the same in NumPy 1 and 2
NDARRAY = {
    "address": (OBJECT_SIZE, "i64"), "dims": (OBJECT_SIZE + 8, "i32"), "extents": (OBJECT_SIZE + 16, "ptr"),
    "strides": (OBJECT_SIZE + 24, "ptr"),
}
TYPE_DEALLOC = OBJECT_SIZE + 32  # object.h, PyTypeObject: offset of tp_dealloc
MAX_DIMS = 64  # of NumPy 2
SLICE = {name: (OBJECT_SIZE + 8 * k, "ptr") for k, name in enumerate(("start", "stop", "step"))}  # sliceobject.h, PySliceObject
PY_EQ = 2  # object.h: == for PyObject_RichCompareBool
BF_GETBUFFER, BF_RELEASEBUFFER, TP_DEALLOC, TP_MEMBERS = 1, 2, 52, 72  # typeslots.h: kinds of type slots
T_PYSSIZET, T_LONGLONG, READONLY = 19, 17, 1  # structmember.h: types of members, and a flag
DISALLOW_INSTANTIATION = 1 << 7  # object.h: Py_TPFLAGS_DISALLOW_INSTANTIATION
BUF_C_CONTIGUOUS = 0x38  # pybuffer.h: PyBUF_C_CONTIGUOUS
# pybuffer.h, Py_buffer: its first fields, and more bytes than it takes
PY_BUFFER = {"address": (0, "ptr"), "object": (8, "ptr"), "nbytes": (16, "i64")}
BUFFER_ROOM = 256
# Linux
FUTEX_WAIT, FUTEX_WAKE = 128, 129  # linux/futex.h: FUTEX_WAIT and FUTEX_WAKE with FUTEX_PRIVATE_FLAG
SIG_SETMASK, SIGSET_ROOM = 2, 128  # signal.h; bytes of a sigset_t
# x86: bits 15 and 6 of MXCSR flush denormal results and operands to zero
FLUSH_TO_ZERO = 1 << 15 | 1 << 6

_SIGNATURES = """
void Py_IncRef(ptr)
void Py_DecRef(ptr)
ptr PyList_New(i64)
i64 PyList_Size(ptr)
ptr PyList_GetItem(ptr, i64)
i32 PyList_SetItem(ptr, i64, ptr)
i64 PyTuple_Size(ptr)
ptr PyTuple_New(i64)
i32 PyTuple_SetItem(ptr, i64, ptr)
ptr PyTuple_GetItem(ptr, i64)
ptr PyTuple_Pack(i64, ...)
ptr PyLong_FromLongLong(i64)
ptr PyLong_FromUnsignedLongLong(i64)
i64 PyLong_AsUnsignedLongLong(ptr)
i64 PyLong_AsUnsignedLongLongMask(ptr)
i64 PyLong_AsLongLongAndOverflow(ptr, ptr)
ptr PyLong_AsVoidPtr(ptr)
double PyFloat_AsDouble(ptr)
ptr PyFloat_FromDouble(double)
ptr PyBool_FromLong(i64)
ptr PyDict_New()
i32 PyDict_SetItem(ptr, ptr, ptr)
i64 PyDict_Size(ptr)
i32 PyDict_Contains(ptr, ptr)
i32 PyDict_Next(ptr, ptr, ptr, ptr)
ptr PyDict_GetItemWithError(ptr, ptr)
i32 PyObject_IsTrue(ptr)
ptr PyObject_GetAttr(ptr, ptr)
i64 PyObject_Hash(ptr)
i32 PyObject_RichCompareBool(ptr, ptr, i32)
ptr PyObject_CallOneArg(ptr, ptr)
ptr PyObject_Vectorcall(ptr, ptr, i64, ptr)
ptr PyType_GenericAlloc(ptr, i64)
ptr _PyObject_New(ptr)
void PyObject_Free(ptr)
void PyObject_GC_UnTrack(ptr)
void PyObject_GC_Del(ptr)
void PyObject_ClearWeakRefs(ptr)
ptr PyWeakref_NewRef(ptr, ptr)
i32 PyObject_GetBuffer(ptr, ptr, i32)
i32 PyBuffer_FillInfo(ptr, ptr, ptr, i64, i32, i32)
void PyBuffer_Release(ptr)
ptr PyErr_Occurred()
i32 PyErr_CheckSignals()
void PyErr_BadArgument()
void PyErr_Clear()
i32 PyErr_ExceptionMatches(ptr)
void PyErr_SetObject(ptr, ptr)
ptr PyThreadState_Get()
i64 PyThreadState_GetID(ptr)
ptr PyEval_SaveThread()
void PyEval_RestoreThread(ptr)
i32 PyGILState_Ensure()
void PyGILState_Release(i32)
ptr realloc(ptr, i64)
i32 clock_gettime(i32, ptr)
i64 syscall(i64, ...)
i32 pthread_create(ptr, ptr, ptr, ptr)
i32 pthread_detach(i64)
i32 pthread_sigmask(i32, ptr, ptr)
i32 sigfillset(ptr)
i64 llvm.ctlz.i64(i64, i1)
void llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
void llvm.memset.p0.i64(ptr, i8, i64, i1)
void llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
ptr llvm.thread.pointer()
i64 llvm.readcyclecounter()
void llvm.x86.sse.stmxcsr(ptr)
void llvm.x86.sse.ldmxcsr(ptr)
void llvm.x86.sse2.pause()
void llvm.aarch64.hint(i32)
"""
FUNCTIONS = {line.split("(")[0].split()[1]: line for line in _SIGNATURES.split("\n") if line}
