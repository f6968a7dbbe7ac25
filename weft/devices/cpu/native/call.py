"""Calls from Python into a Program: tables, and native functions with CPython's METH_FASTCALL convention.

``weft_call(inputs, held)`` creates the outputs (donating unshared inputs), reads addresses from the buffers, converts Python
numbers to the kernels' dtypes, and executes a table of steps, each a kernel's address and its argument slots.
``weft_run(inputs, outputs, arena)`` does the same with existing outputs, for Programs that Python steps cut into segments.
A segment's table is built once and never written by a run, so two threads may run one Program at the same time.

After each step, native code does the checks that the step's check word asks for. Bit 0: signals. The other bits are 0, or
1 + the number of the step's first site if the step can report a fault (an index out of range). The fault record of a run has two
words: 0, or 1 + the number of a site; and the index. A kernel counts its sites from 0, so native code adds the number of the
first one. After a fault no further step runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from weft.devices.cpu.native.imported_symbols import METH_FASTCALL
from weft.devices.cpu.native.layouts import BOOLEAN, CALL, FLOAT32, FLOAT64, HEADER, INTEGER, header, offset
from weft.dtypes import formats


def input_kind(dtype: formats.Format) -> int:
    """Return the kind of input for a Python number that becomes a run-time scalar of ``dtype``."""
    if dtype is formats.FLOAT32:
        return FLOAT32
    if dtype is formats.FLOAT64:
        return FLOAT64
    return BOOLEAN if dtype is formats.BOOL else INTEGER


class TableRow(NamedTuple):
    """One native call.

    check : whether to check for signals (Ctrl-C) afterwards
    first_site : number of its first site; -1 if it checks no index, 0 for a loop, whose sites have the Program's numbers already
    """

    function: int
    args: tuple[int, ...]
    check: bool = False
    first_site: int = -1


def max_arguments(steps: Sequence[TableRow]) -> int:
    return max((len(s.args) for s in steps), default=0)


def step_words(steps: Iterable[TableRow]) -> list[int]:
    return [word for s in steps for word in (s.function, len(s.args), int(s.check) + 2 * (s.first_site + 1), *s.args)]


class TableLayout(NamedTuple):
    """The parts of a table that describe a Program's values.

    kinds: one per input. outputs: (bytes, home) per output. donate: (input, output) pairs. arena: offsets that have a slot.
    arena_home: the idle list that provides the arena, 0 for none. constants: 8-byte values.
    """

    kinds: tuple[int, ...]
    outputs: tuple[tuple[int, int], ...]
    donate: tuple[tuple[int, int], ...]
    arena: tuple[int, ...]
    arena_home: int
    constants: tuple[int, ...]


class Table:
    """The native form of a segment: 8-byte words; slots are numbered inputs, outputs, arena, the run's record, constants."""

    def __init__(self, layout: TableLayout, steps: list[TableRow], flags: int, workers: int, allocator: int) -> None:
        ni, no, na, nc = len(layout.kinds), len(layout.outputs), len(layout.arena), len(layout.constants)
        words = header(CALL, dict(
            ni=ni, no=no, na=na, nc=nc, ns=len(steps), flags=flags, workers=workers, total=ni + no + na + 1 + nc,
            name=id(_ADDRESS), most=max_arguments(steps), allocator=allocator, home=layout.arena_home, nd=len(layout.donate),
        ))
        words += layout.kinds
        words += [nbytes for nbytes, _ in layout.outputs]
        words += [home for _, home in layout.outputs]
        words += [i for pair in layout.donate for i in pair]
        words += [*layout.arena, *layout.constants, *step_words(steps)]
        self.words = np.array(words, dtype=np.int64)
        self.address = int(self.words.ctypes.data)


def donations(address: int) -> set[tuple[int, int]]:
    """Return the (input, output) pairs that may share memory, from the table at an address."""
    words = (ctypes.c_int64 * HEADER).from_address(address)
    ni, no, nd = [words[offset(CALL, name) // 8] for name in ("ni", "no", "nd")]
    pairs = (ctypes.c_int64 * (2 * nd)).from_address(address + 8 * (HEADER + ni + 2 * no))
    return {(pairs[2 * k], pairs[2 * k + 1]) for k in range(nd)}


_ADDRESS = "address"  # kept for the life of the module: the table holds its id


class MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


@cache
def _method(name: str, address: int) -> MethodDef:
    method = MethodDef(name.encode(), address, METH_FASTCALL, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))  # builtins point to it, even at interpreter shutdown
    return method


def builtin(name: str, address: int, bound: Any) -> Any:
    """Return a Python builtin for a native ``PyObject *f(PyObject *self, PyObject *const *args, Py_ssize_t n)``."""
    method = _method(name, address)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(ctypes.addressof(method), bound, None)


MODULES = ("memory", "run", "small", "parts")  # of the native functions, in the order in which a process needs them


def text(module: str) -> str:
    """Return the LLVM text of one of ``MODULES``: buffers; calls, warm calls and loops; small eager operations; or parts of
    small arrays. Internal functions that two modules use are part of both."""
    from weft.devices.cpu.native import (
        call_fast_ir,
        extremes_ir,
        lists_ir,
        loop_ir,
        memory_ir,
        operators_ir,
        parts_ir,
        scalars_ir,
        views_ir,
        walk_ir,
    )
    from weft.devices.cpu.native.routine import text_of_all

    files = {
        "memory": (memory_ir,), "run": (walk_ir, call_fast_ir, loop_ir), "small": (operators_ir, scalars_ir),
        "parts": (parts_ir, views_ir, lists_ir, extremes_ir),
    }[module]
    return text_of_all(r for file in files for r in file.ROUTINES)
