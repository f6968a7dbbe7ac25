"""Tables for native warm calls of jitted functions.

A table describes arguments, result and captured cells to the device. It is made at the second call with arguments of one kind;
later calls run without Python until a guard fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.array import Array, Scalar, ndarray
from weft.devices.base import Run, WarmCalls
from weft.devices.native_protocols import WarmCallContext, WarmTable, WatchRow
from weft.graph.node import Node
from weft.graph.primitives.table import INPUT, SCALAR
from weft.runtime import execute
from weft.runtime.context import CONTEXT
from weft.transforms.records import Record
from weft.transforms.tree import Structure

_NOTHING: dict[str, Any] = {}
_installed: set[type] = set()


def install(cls: type, slow: Callable[..., Any]) -> None:
    """Replace ``cls.__call__`` by the device's native call, which calls ``slow`` if the table in ``_warm`` does not fit."""
    device = execute.device()
    if cls not in _installed and isinstance(device, WarmCalls):
        _installed.add(cls)
        world = WarmCallContext(CONTEXT, "transform_depth", Structure, "count", ndarray, Scalar, Node, SCALAR, slow)
        device.install_warm_calls(cls, "_warm", world)


def checks(records: Sequence[Record]) -> list[Callable[[], bool]]:
    """Return functions that check that the records are unchanged: one native function for all that the device can compare."""
    device = execute.device()
    rows: list[WatchRow] = []
    functions = []
    for record in records:
        comparisons = record.watch() if isinstance(device, WarmCalls) else None
        if comparisons is None:
            functions.append(record.unchanged)
        else:
            rows += comparisons
    return [device.watched(rows), *functions] if rows and isinstance(device, WarmCalls) else functions


def table(
    run: Run, structures: int, watch: Sequence[WatchRow], specs: Sequence[Any], places: tuple[Sequence[int], Sequence[int]],
    cells: Sequence[tuple[Array, Node]], fixed: Sequence[Any], result: tuple[Any, Any, type],
) -> WarmTable | None:
    """Return the table for one kind of call, None if the device makes no warm calls.

    run : the compiled program
    watch : comparisons that detect changed contents
    specs : for each argument (shape, dtype, ndarray or Scalar), None for a float, or a 1-tuple of the object it must be
    places : numbers of the array arguments and of the number arguments, in the Program's order
    cells, fixed : captured cells with their nodes, and fixed buffers, which follow as inputs
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
