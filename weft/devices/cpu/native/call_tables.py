"""Tables for warm calls (``call_fast_ir.py``), the ``__call__`` of a class, and for small operations (``operators_ir.py``).

This module does not import the array layer, which passes the classes and slots (``weft.devices.native_protocols``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from types import MemberDescriptorType
from typing import Any

import numpy as np

from weft.devices.cpu.native import layouts
from weft.devices.cpu.native.allocator import Allocator
from weft.devices.cpu.native.call import MethodDef, builtin
from weft.devices.cpu.native.imported_symbols import METH_FASTCALL, METH_KEYWORDS, TYPE_DEALLOC
from weft.devices.cpu.native.threads import permanent
from weft.devices.native_protocols import PreparedCall, ResultInfo, SmallOperationContext, WarmCall, WarmCallContext, WatchRow
from weft.dtypes.formats import BOOL, FLOAT32, FLOAT64, FORMATS, Format
from weft.graph.node import Primitive

_PLACE_KINDS = {
    "array": layouts.ARRAY, "value": layouts.VALUE, "float": layouts.FLOAT, "same": layouts.SAME, list: layouts.LIST,
    tuple: layouts.TUPLE, dict: layouts.DICT, "output": layouts.OUTPUT, "argument": layouts.ARGUMENT,
}
_WATCH_KINDS = {
    "variable": layouts.VARIABLE, "cell": layouts.CELL, "items": layouts.ITEMS, "item": layouts.ITEM, "keys": layouts.KEYS,
    "next item": layouts.NEXT_ITEM,
}
_INPUT_KINDS = {"array": layouts.OF_ARRAY, "number": layouts.OF_NUMBER, "cell": layouts.OF_CELL, "fixed": layouts.FIXED}


class WarmTable:
    """The table of one signature, see ``weft.devices.native_protocols.WarmCall``.

    ``kept_alive`` keeps the executable and every object whose address is in the table alive.
    """

    __slots__ = ("address", "cells", "kept_alive", "program", "structures", "words")

    def __init__(self, world: WarmCallContext, call: WarmCall) -> None:
        self.program, self.structures = call.run.direct(), call.structures
        self.cells = [node for kind, _, node in call.inputs if kind == "cell"]
        slots = {k: _slot_words(world, *row[1:]) for k, row in enumerate(call.result) if row[0] == "output"}
        self.kept_alive = (call, slots)
        head = {
            "program": self.program, "arguments": call.arguments, "names": id(call.names),
            "structures": id(call.structures),
            "uses": call.uses.ctypes.data, "places": len(call.places), "watch": len(call.watch_rows), "inputs": len(call.inputs),
            "written": len(call.overwritten_inputs), "parts": len(call.result),
        }
        words = layouts.fill_record(layouts.WARM_TABLE, head)
        for kind, x, y, child, children in call.places:
            words += [_PLACE_KINDS[kind], id(x), id(y), child, children]
        words += _watch_words(call.watch_rows)
        for kind, x, y in call.inputs:
            words += [_INPUT_KINDS[kind], x if kind in ("array", "number") else id(x), id(y)]
        for number, output, nodes, buffers in call.overwritten_inputs:
            here = 2 if call.inputs[number][0] == "cell" else 0  # ``kept_alive`` and ``cells`` refer to the node of a cell
            words += [number, output, nodes + here, buffers + 1]  # and the call itself to the buffer
        for k, (kind, x, _, child, children) in enumerate(call.result):
            words += [_PLACE_KINDS[kind], id(x), slots[k].ctypes.data if k in slots else 0, child, children]
        self.words = np.array(words, np.int64)
        self.address = int(self.words.ctypes.data)

    def serves(self, program: int, structures: int, cells: list[Any]) -> bool:
        """Return whether the table belongs to this program, structure version and these nodes of captured cells."""
        return self.program == program and self.structures is structures and self.cells == cells


def _slot_words(world: WarmCallContext, kind: type, info: tuple[Any, Any], *_: int) -> np.ndarray:
    """Return the pairs (offset, object) of the slots of a new array's node and of the array. info : shape and dtype"""
    node = {**world.node_slots, "shape": info[0], "dtype": info[1]}
    pairs = [(offset_in(world.node, name), id(x)) for name, x in node.items()]
    pairs += [(offset_in(kind, name), id(x)) for name, x in world.array_slots.items()]
    return np.array(pairs, np.int64)


class _Address(int):
    """The address of a table, with the objects it refers to in ``kept_alive``."""

    kept_alive: Any


def watch_check(rows: Sequence[WatchRow], address: int) -> Callable[[], bool]:
    """Return the builtin ``weft_watched`` (at ``address``) bound to a table of these rows."""
    words = np.array([len(rows), *_watch_words(rows)], np.int64)
    table = _Address(words.ctypes.data)
    table.kept_alive = words, rows
    check: Callable[[], bool] = builtin("weft_watched", address, table)
    return check


def _watch_words(rows: Sequence[WatchRow]) -> list[int]:
    words = []
    for name, container, key, value in rows:
        words += [_WATCH_KINDS[name], id(container), key if name in ("items", "item", "keys") else id(key), id(value)]
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
        "inside": id(world.depth_name), "zero": id(0),
        "structure": id(world.structure), "count": id(world.counter), "slow": id(world.slow), "array": id(world.array),
        "scalar_type": id(world.value),
        "base": offset_in(world.array, "_base"), "content": offset_in(world.array, "_node"),
        "value": offset_in(world.node, "value"), "dtype": offset_in(world.node, "dtype"), "shape": offset_in(world.node, "shape"),
        "op": offset_in(world.node, "op"), "weak": world.node.__weakrefoffset__, "scalar": id(world.scalar),
        "constant": id(world.constant), "logs": id(world.logs), "node": id(world.node), "node_slots": len(world.node_slots) + 2,
        "array_slots": len(world.array_slots),
    }
    layouts.write(state, layouts.WARM_STATE, fields)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(world))  # the state holds no references to its parts
    method = MethodDef(b"__call__", address, METH_FASTCALL | METH_KEYWORDS, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
    cls.__call__ = make(cls, ctypes.addressof(method))  # type: ignore[method-assign]


# ---- small operations

# the functions of parts_ir.py, views_ir.py, lists_ir.py and extremes_ir.py
PARTS = ("show", "take", "put", "open", "full", "part", "transpose", "reshape", "join_numbers", "extreme", "item")
_ROW = layouts.extent(layouts.OPERATION_ROW)
_KINDS = {"signed": layouts.INTEGER, "unsigned": layouts.UNSIGNED, "bool": layouts.BOOLEAN}


class CPUSmall:
    """See ``weft.devices.native_protocols.SmallWork``."""

    def __init__(self, world: SmallOperationContext, native: dict[str, int], allocator: Allocator, state: int) -> None:
        self._native = native
        self._state = state
        self._getitem = world.getitem
        self._formats = _formats()
        own = world.local.__dict__
        names = "__dict__"
        node_slots = [x for name, value in world.node_slots.items() for x in (offset_in(world.node, name), id(value))]
        array_slots = [x for name, value in world.array_slots.items() for x in (offset_in(world.array, name), id(value))]
        view_slots = [x for name, value in world.view_slots.items() for x in (offset_in(world.array, name), id(value))]
        members = [x for cls in world.value.__mro__ for x in vars(cls).values() if isinstance(x, MemberDescriptorType)]
        offsets = [offset_in(world.array, x.__name__) for x in members]
        slots = (*world.node_slots.values(), *world.array_slots.values(), *world.view_slots.values())
        for referenced in (world, own, names, *slots):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(referenced))  # the state holds no references
        layouts.write(state, layouts.SMALL_STATE, {
            "thread": -1, "own": id(own), "local": id(world.local), "dict": id(names),
            "limit": id(world.limit),
            "homes": _words([0] + [allocator.home(n) for n in _sizes()]),
            "formats": next(iter(self._formats.values())), "format_count": len(self._formats),
            "array": id(world.array), "scalar_type": id(world.value), "node_type": id(world.node),
            "base": offset_in(world.array, "_base"), "content": offset_in(world.array, "_node"),
            "source": offset_in(world.array, "_source"), "layout": offset_in(world.array, "_layout"), "ndarray": id(np.ndarray),
            **{name: offset_in(world.node, name) for name in ("value", "dtype", "shape", "op", "params")},
            "weak": world.node.__weakrefoffset__,
            "leaf": id(world.leaf), "nothing": id(world.empty_result), "empty": id(()), "reduced": id(world.reduction_node),
            "node": _words(node_slots), "node_slots": len(world.node_slots),
            "result": _words(array_slots), "result_slots": len(world.array_slots), "allocator": allocator.address,
            **{name: offset_in(world.array, f"_{name}") for name in ("steps", "before", "index")},
            "view": _words(view_slots), "view_slots": len(world.view_slots),
            "shapes": permanent(layouts.SHAPE_SIZE * layouts.SHAPES),
            "cache_part": 0, "view_reads": id(world.view_reads),
            "transposes": id(world.transposes), "reshaped": id(world.reshaped),
            "kept": 0, "kept_scalars": permanent(8 * layouts.MAX_KEPT), "scalar_weak": world.value.__weakrefoffset__,
            "array_offsets": _words(offsets), "array_offset_count": len(offsets),
        })
        ctypes.c_int64.from_address(id(world.value) + TYPE_DEALLOC).value = native["weft_scalar_free"]
        self.element = builtin("weft_element", native["weft_element"], None)
        self.store = builtin("weft_store", native["weft_store"], None)
        self.number = builtin("weft_number", native["weft_number"], None)

    def __getattr__(self, name: str) -> Any:
        """Load the functions for parts of arrays when one of them is first used: many programs need none."""
        if name not in PARTS:
            raise AttributeError(name)
        function = self.__dict__[name] = builtin(f"weft_{name}", self._native[f"weft_{name}"], self._getitem)
        cache_part = self._state + layouts.offset(layouts.SMALL_STATE, "cache_part")
        ctypes.c_int64.from_address(cache_part).value = self._native["weft_cache_part"]
        return function

    def operation(self, arity: int) -> CPUOperation:
        return CPUOperation(self._native, arity, self._formats)

    def shaped_operation(self) -> CPUShaped:
        return CPUShaped(self._native)


class CPUOperation:
    """See ``weft.devices.native_protocols.SmallOperation``."""

    def __init__(self, native: dict[str, int], arity: int, formats: dict[Format, int]) -> None:
        self._formats = formats
        self._entries: list[tuple[Any, ...]] = []
        self._rows = permanent(_ROW * len(formats))
        self._table = _words([0, self._rows])
        name = "weft_one" if arity == 1 else "weft_two"
        self.call = builtin(name, native[name], self._table)

    def add(self, dtype: Format, function: Callable[..., None], op: Primitive, result: Format) -> None:
        """See ``weft.devices.native_protocols``."""
        place = len(self._entries)
        if any([row[0] is dtype for row in self._entries]):
            return
        self._entries.append((dtype, function, op, result))
        layouts.write(self._rows + place * _ROW, layouts.OPERATION_ROW, {
            "dtype": id(dtype), "function": function.__self__, "op": id(op), "result": id(result),  # type: ignore[attr-defined]
            "bytes": result.bytes, "format": self._formats[dtype],
        })
        ctypes.c_int64.from_address(self._table).value = place + 1  # last: other threads may read the row then


class CPUShaped:
    """See ``weft.devices.native_protocols.ShapedOperation``."""

    def __init__(self, native: dict[str, int]) -> None:
        self._entries: list[Any] = [None] * layouts.PLACES
        self._table = permanent(8 * layouts.PLACES)
        self.call = builtin("weft_shaped", native["weft_shaped"], self._table)

    def add(self, dtype: Format, shapes: Sequence[tuple[int, ...]], prepared: PreparedCall, result: ResultInfo) -> None:
        """See ``weft.devices.native_protocols``."""
        if prepared.needs_scratch or prepared.words[0] > layouts.RELEASE_ABOVE_WORK or result.nbytes > layouts.MAX_SMALL_BYTES:
            return
        words, plan = np.array(prepared.words, np.int64), np.zeros(len(layouts.PLAN), np.int64)
        owner = (dtype, tuple(shapes), prepared, result, words, plan)
        left, right = owner[1][0], owner[1][-1]
        plan[:] = layouts.fill_record(layouts.PLAN, {
            "owner": id(owner), "dtype": id(dtype), "left": id(left), "right": id(right),
            "function": prepared.function.__self__, "words": words.ctypes.data, "count": len(words),  # type: ignore[attr-defined]
            "first": prepared.operands[0], "second": prepared.operands[-1], "out": prepared.out, "nbytes": result.nbytes,
            "result": id(result.dtype), "shape": id(result.shape), "params": id(result.params),
        })
        place = (hash(left) * 3 + hash(right)) % layouts.PLACES
        before, self._entries[place] = self._entries[place], owner
        ctypes.c_int64.from_address(self._table + 8 * place).value = plan.ctypes.data
        del before  # not earlier: until now the table pointed to it


def _words(words: list[int]) -> int:
    """Copy words to permanent memory for native functions. Return the address."""
    address = permanent(8 * max(1, len(words)))
    ctypes.memmove(address, np.array(words, np.int64).ctypes.data, 8 * len(words))
    return address


def _sizes() -> list[int]:
    """Return the allocator's size classes as ``weft_small_made`` numbers them, from 1 on."""
    return [64 * k for k in range(1, 17)] + [k << shift for shift in range(8, 18) for k in range(5, 9)]


def _formats() -> dict[Format, int]:
    """Write the table of formats. Return the address of each format's row; the rows are adjacent."""
    size = layouts.extent(layouts.FORMAT)
    start = permanent(size * len(FORMATS))
    out = {}
    for k, dtype in enumerate(FORMATS.values()):
        kind = {FLOAT32: layouts.FLOAT32, FLOAT64: layouts.FLOAT64}.get(dtype) or _KINDS.get(dtype.kind, layouts.UNUSED)
        if dtype.narrow and dtype.kind != "float":  # native code reads whole bytes
            kind = layouts.UNUSED
        least, most = (-dtype.reach, dtype.reach) if dtype.kind == "float" else (dtype.least, min(dtype.greatest, (1 << 63) - 1))
        if dtype is BOOL:  # accepts no ints
            least, most = 1, 0
        out[dtype] = start + k * size
        layouts.write(out[dtype], layouts.FORMAT, {
            "dtype": id(dtype), "numpy": id(dtype.numpy), "bytes": dtype.bytes, "kind": kind, "least": int(least),
            "most": int(most),
        })
    return out
