"""Warm calls: tables for ``weft_warm`` (``warm_ir.py``), and the class that it is the ``__call__`` of.

Nothing here knows what an Array is: the layers above say which slots hold what.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from weft.devices.cpu.native import warm_ir
from weft.devices.cpu.native.call import MethodDef
from weft.devices.warm import World

Row = tuple[str, Any, Any]


_ARGUMENT = {"array": warm_ir.ARRAY, "value": warm_ir.VALUE, "float": warm_ir.FLOAT, "same": warm_ir.SAME}
_INPUT = {"array": warm_ir.OF_ARRAY, "number": warm_ir.OF_NUMBER, "cell": warm_ir.OF_CELL, "fixed": warm_ir.FIXED}


class WarmTable:
    """One kind of call: see ``weft.devices.warm`` for its rows.

    ``held`` keeps every object whose address is in it, and ``run``, which ``program`` belongs to.
    """

    __slots__ = ("address", "cells", "held", "program", "structures", "words")

    def __init__(
        self, node_type: type, array_type: type, run: Any, structures: int, arguments: Sequence[Row],
        inputs: Sequence[Row], node: dict[str, Any], array: dict[str, Any],
    ) -> None:
        program = run.direct()
        self.held = (run, arguments, inputs, node, array)
        self.program, self.structures = program, structures
        self.cells = [y for kind, _, y in inputs if kind == "cell"]
        node_slots = [(_offset(node_type, name), id(x)) for name, x in node.items()]
        array_slots = [(_offset(array_type, name), id(x)) for name, x in array.items()]
        head = {
            "PROGRAM": program, "ARGUMENTS": len(arguments), "STRUCTURES": id(structures), "INPUTS": len(inputs),
            "NODE": id(node_type), "NODESLOTS": len(node_slots), "RESULT": id(array_type), "ARRAYSLOTS": len(array_slots),
        }
        words = [head[name] for name in warm_ir.TABLE]
        for kind, x, y in arguments:
            words += [_ARGUMENT[kind], id(x), id(y)]
        for kind, x, y in inputs:
            words += [_INPUT[kind], x if kind in ("array", "number") else id(x), id(y)]
        for pair in (*node_slots, *array_slots):
            words += pair
        self.words = np.array(words, np.int64)
        self.address = int(self.words.ctypes.data)

    def serves(self, program: int, structures: int, cells: list[Any]) -> bool:
        """Whether this table is for this program, count of structures, and what the captured cells hold now."""
        return self.program == program and self.structures is structures and self.cells == cells


@cache
def _offset(cls: type, name: str) -> int:
    """Where a slot lies within the instances of a class."""
    probe: Any = object.__new__(cls)
    mark = object()
    setattr(probe, name, mark)
    words = (ctypes.c_int64 * (cls.__basicsize__ // 8)).from_address(id(probe))
    return 8 * list(words).index(id(mark))


def install(cls: type, table: str, world: World, address: int, state: int) -> None:
    """Make ``weft_warm`` at ``address`` the ``__call__`` of ``cls``, whose slot ``table`` holds a WarmTable."""
    at = {
        "TABLE": _offset(cls, table), "ADDRESS": _offset(WarmTable, "address"), "LOCAL": id(world.local),
        "INSIDE": id(world.inside), "ZERO": id(0),
        "STRUCTURE": id(world.structure), "COUNT": id(world.counter), "SLOW": id(world.slow), "ARRAY": id(world.array),
        "SCALARTYPE": id(world.value),
        "BASE": _offset(world.array, "_base"), "CONTENT": _offset(world.array, "_node"),
        "VALUE": _offset(world.node, "value"), "DTYPE": _offset(world.node, "dtype"), "SHAPE": _offset(world.node, "shape"),
        "OP": _offset(world.node, "op"), "SCALAR": id(world.scalar),
    }
    (ctypes.c_int64 * len(warm_ir.STATE)).from_address(state)[:] = [at[name] for name in warm_ir.STATE]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(world))  # the state holds its parts without counting
    method = MethodDef(b"__call__", address, 0x82, None)  # METH_FASTCALL | METH_KEYWORDS
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
    cls.__call__ = make(cls, ctypes.addressof(method))  # type: ignore[method-assign]
