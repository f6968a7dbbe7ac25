"""Tables for warm calls (``weft_warm`` in ``call_fast_ir.py``), and its installation as the ``__call__`` of a class.

This module does not import the array layer, which passes the classes and slot names.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from weft.devices.cpu.native import layouts
from weft.devices.cpu.native.call import MethodDef, builtin
from weft.devices.cpu.native.imported_symbols import METH_FASTCALL, METH_KEYWORDS
from weft.devices.native_protocols import WarmCallContext, WatchRow

Row = tuple[str, Any, Any]


_ARGUMENT = {"array": layouts.ARRAY, "value": layouts.VALUE, "float": layouts.FLOAT, "same": layouts.SAME}
_WATCH = {
    "variable": layouts.VARIABLE, "cell": layouts.CELL, "items": layouts.ITEMS, "item": layouts.ITEM, "keys": layouts.KEYS,
    "next": layouts.NEXT,
}
_INPUT = {"array": layouts.OF_ARRAY, "number": layouts.OF_NUMBER, "cell": layouts.OF_CELL, "fixed": layouts.FIXED}


class WarmTable:
    """The table of one signature: see ``weft.devices.native_protocols`` for its rows.

    ``held`` keeps ``run`` and every object whose address is in the table alive.
    """

    __slots__ = ("address", "cells", "held", "program", "structures", "words")

    def __init__(
        self, node_type: type, array_type: type, run: Any, structures: int, watch: Sequence[WatchRow], arguments: Sequence[Row],
        inputs: Sequence[Row], node: dict[str, Any], array: dict[str, Any],
    ) -> None:
        program = run.direct()
        self.held = (run, watch, arguments, inputs, node, array)
        self.program, self.structures = program, structures
        self.cells = [y for kind, _, y in inputs if kind == "cell"]
        node_slots = [(offset_in(node_type, name), id(x)) for name, x in node.items()]
        array_slots = [(offset_in(array_type, name), id(x)) for name, x in array.items()]
        head = {
            "program": program, "arguments": len(arguments), "structures": id(structures), "watch": len(watch),
            "inputs": len(inputs),
            "node": id(node_type), "node_slots": len(node_slots), "result": id(array_type), "array_slots": len(array_slots),
        }
        words = layouts.filled(layouts.WARM_TABLE, head)
        for kind, x, y in arguments:
            words += [_ARGUMENT[kind], id(x), id(y)]
        words += _watch_words(watch)
        for kind, x, y in inputs:
            words += [_INPUT[kind], x if kind in ("array", "number") else id(x), id(y)]
        for pair in (*node_slots, *array_slots):
            words += pair
        self.words = np.array(words, np.int64)
        self.address = int(self.words.ctypes.data)

    def serves(self, program: int, structures: int, cells: list[Any]) -> bool:
        """Return whether the table belongs to this program, structure version and these nodes of captured cells."""
        return self.program == program and self.structures is structures and self.cells == cells


class _Address(int):
    """The address of a table, with the objects it refers to in ``held``."""

    held: Any


def watched(rows: Sequence[WatchRow], address: int) -> Callable[[], bool]:
    """Return the builtin ``weft_watched`` (at ``address``) bound to a table of these rows."""
    words = np.array([len(rows), *_watch_words(rows)], np.int64)
    table = _Address(words.ctypes.data)
    table.held = words, rows
    check: Callable[[], bool] = builtin("weft_watched", address, table)
    return check


def _watch_words(rows: Sequence[WatchRow]) -> list[int]:
    words = []
    for name, container, key, value in rows:
        words += [_WATCH[name], id(container), key if name in ("items", "item", "keys") else id(key), id(value)]
    return words


@cache
def offset_in(cls: type, name: str) -> int:
    """Return the byte offset of a slot in the instances of a class."""
    probe: Any = object.__new__(cls)
    mark = object()
    setattr(probe, name, mark)
    words = (ctypes.c_int64 * (cls.__basicsize__ // 8)).from_address(id(probe))
    return 8 * list(words).index(id(mark))


def install(cls: type, table: str, world: WarmCallContext, address: int, state: int) -> None:
    """Set ``cls.__call__`` to ``weft_warm`` at ``address``. The slot ``table`` of ``cls`` holds a WarmTable."""
    fields = {
        "table": offset_in(cls, table), "address": offset_in(WarmTable, "address"), "local": id(world.local),
        "inside": id(world.inside), "zero": id(0),
        "structure": id(world.structure), "count": id(world.counter), "slow": id(world.slow), "array": id(world.array),
        "scalar_type": id(world.value),
        "base": offset_in(world.array, "_base"), "content": offset_in(world.array, "_node"),
        "value": offset_in(world.node, "value"), "dtype": offset_in(world.node, "dtype"), "shape": offset_in(world.node, "shape"),
        "op": offset_in(world.node, "op"), "scalar": id(world.scalar),
    }
    layouts.write(state, layouts.WARM_STATE, fields)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(world))  # the state holds no references to its parts
    method = MethodDef(b"__call__", address, METH_FASTCALL | METH_KEYWORDS, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
    cls.__call__ = make(cls, ctypes.addressof(method))  # type: ignore[method-assign]
