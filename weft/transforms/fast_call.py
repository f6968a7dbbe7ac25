"""Warm calls of jitted functions: arguments, result and captured cells as the native call is told of them.

Tables are written when a function is called a second time with arguments of the same kind; from then on its calls need
no Python until something is different.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.array import Array, Scalar, ndarray
from weft.devices.base import Run, WarmCalls
from weft.devices.native_protocols import WarmTable, Watched, World
from weft.graph.node import Node
from weft.graph.primitives.table import INPUT, SCALAR
from weft.runtime import execute
from weft.runtime.context import LOCAL
from weft.transforms.records import Record
from weft.transforms.tree import Structure

_NOTHING: dict[str, Any] = {}
_installed: set[type] = set()


def install(cls: type, slow: Callable[..., Any]) -> None:
    """Make the native call the ``__call__`` of ``cls``; it calls ``slow`` where its table in ``_warm`` does not fit."""
    device = execute.device()
    if cls not in _installed and isinstance(device, WarmCalls):
        _installed.add(cls)
        world = World(LOCAL, "inside", Structure, "count", ndarray, Scalar, Node, SCALAR, slow)
        device.install_warm_calls(cls, "_warm", world)


def checks(records: Sequence[Record]) -> list[Callable[[], bool]]:
    """What says of the records whether they are as they were: one native call for all that the device can watch."""
    device = execute.device()
    rows: list[Watched] = []
    others = []
    for record in records:
        watch = record.watch() if isinstance(device, WarmCalls) else None
        if watch is None:
            others.append(record.unchanged)
        else:
            rows += watch
    return [device.watched(rows), *others] if rows and isinstance(device, WarmCalls) else others


def table(
    run: Run, structures: int, watch: Sequence[Watched], specs: Sequence[Any], places: tuple[Sequence[int], Sequence[int]],
    cells: Sequence[tuple[Array, Node]], fixed: Sequence[Any], result: tuple[Any, Any, type],
) -> WarmTable | None:
    """A table for one kind of call, None where the device makes no warm calls.

    run : what runs
    specs : for each argument (shape, dtype, ndarray or Scalar), or None for a float, or a 1-tuple of the very object it must be
    places : the arguments that are arrays, and those that are numbers, in the Program's order
    cells, fixed : captured cells with what they hold, and buffers, which follow these
    result : shape, dtype and class
    """
    device = execute.device()
    if not isinstance(device, WarmCalls):
        return None
    arguments = [
        ("float", None, None) if s is None
        else ("same", s[0], None) if len(s) == 1
        else ("array" if s[2] is ndarray else "value", *s[:2])
        for s in specs
    ]
    inputs = [
        *(("array", k, None) for k in places[0]), *(("number", k, None) for k in places[1]),
        *(("cell", cell, node) for cell, node in cells), *(("fixed", value, None) for value in fixed),
    ]
    shape, dtype, kind = result
    node = {"op": INPUT, "inputs": (), "params": _NOTHING, "shape": shape, "dtype": dtype, "where": None, "holder": None}
    return device.warm_table(run, structures, watch, arguments, inputs, node, (kind, {"_base": None, "_trace": None}))
