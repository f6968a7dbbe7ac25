"""From Python into a Program: one native function, called as CPython calls its own (METH_FASTCALL).

``weft_call(inputs, held)`` makes the outputs (donating inputs that nobody else holds), reads addresses out of the
buffers, turns Python numbers into the kernels' dtypes, and walks a table of steps, each a kernel's address and
the slots it is given. ``weft_run(inputs, outputs, arena)`` does the same into outputs that exist, for Programs that
Python steps cut into segments. The table is made once a segment; what changes between runs lies on the stack,
so two threads may run one Program at once.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cpu import call_ir, loop_ir, memory_ir, pool_ir, warm_ir

RELEASE, FLUSH = 1, 2  # flags: give up the interpreter lock; flush denormals to zero
# kinds of input: how a list item becomes an 8-byte slot
UNUSED, ADDRESS, FLOAT32, FLOAT64, INTEGER, BOOLEAN = range(6)


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


class Layout(NamedTuple):
    """The parts of a table that describe a Program's values.

    kinds: an input each. outputs: (bytes, home) each. donate: (input, output) pairs. arena: offsets that have a slot.
    arena_home: where the arena comes from, 0 for none. constants: 8-byte values.
    """

    kinds: tuple[int, ...]
    outputs: tuple[tuple[int, int], ...]
    donate: tuple[tuple[int, int], ...]
    arena: tuple[int, ...]
    arena_home: int
    constants: tuple[int, ...]


class Table:
    """The native form of a segment: 8-byte words; slots are numbered inputs, outputs, arena, constants."""

    def __init__(self, layout: Layout, steps: list[Step], flags: int, workers: int, allocator: int) -> None:
        ni, no, na, nc = len(layout.kinds), len(layout.outputs), len(layout.arena), len(layout.constants)
        most = max((len(s.args) for s in steps), default=0)
        words = [ni, no, na, nc, len(steps), flags, workers, ni + no + na + nc, id(_ADDRESS), most,
                 allocator, layout.arena_home, len(layout.donate), 0, 0, 0]
        words += layout.kinds
        words += [nbytes for nbytes, _ in layout.outputs]
        words += [home for _, home in layout.outputs]
        words += [i for pair in layout.donate for i in pair]
        words += layout.arena
        words += layout.constants
        for s in steps:
            words += [s.function, len(s.args), int(s.check), *s.args]
        self.words = np.array(words, dtype=np.int64)
        self.address = int(self.words.ctypes.data)


_ADDRESS = "address"  # kept for the life of the module: the table holds its id


class MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


@cache
def _method(name: str, address: int) -> MethodDef:
    method = MethodDef(name.encode(), address, 0x80, None)  # METH_FASTCALL
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))  # builtins point into it, also while the interpreter ends
    return method


def builtin(name: str, address: int, bound: Any) -> Any:
    """A Python builtin over a native ``PyObject *f(PyObject *self, PyObject *const *args, Py_ssize_t n)``."""
    method = _method(name, address)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(ctypes.addressof(method), bound, None)


def text() -> str:
    x86 = pool_ir.x86()
    warm = warm_ir.text(pool_ir.STATE["threads"])
    out = call_ir.TEXT + warm
    out = out.replace("!STMXCSR", "call void @llvm.x86.sse.stmxcsr(ptr %mode)" if x86 else "store i32 0, ptr %mode")
    out = out.replace("!LDOLD", "call void @llvm.x86.sse.ldmxcsr(ptr %mode)" if x86 else "store i32 0, ptr %mode1")
    out = out.replace("!LDNEW", "call void @llvm.x86.sse.ldmxcsr(ptr %mode1)" if x86 else "store i32 0, ptr %mode1")
    declare = "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)"
    out = out.replace("!DECLARE", declare if x86 else "")
    for name, offset in memory_ir.FIELDS.items():
        out = out.replace(f"!{name.upper()}", str(offset))
    return out.replace("!ENTRIES", str(8 * pool_ir.COUNTERS["entries"])) + memory_ir.text() + loop_ir.text()
