"""Warm calls of jitted functions: arguments, result and captured cells as the native call is told of them.

Tables are written when a function is called a second time with arguments of the same kind; from then on its calls need
no Python until something is different.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.array import Array, Scalar
from weft.cell import LOCAL
from weft.devices import get_backend
from weft.graph.node import Node
from weft.graph.primitives.table import INPUT, SCALAR
from weft.transforms.tree import Structure

if TYPE_CHECKING:
    from weft.devices.cpu.native.warm import Table

_NOTHING: dict[str, Any] = {}
_installed: set[type] = set()


def install(cls: type, slow: Callable[..., Any]) -> None:
    """Make the native call the ``__call__`` of ``cls``; it calls ``slow`` where its table in ``_warm`` does not fit."""
    from weft.devices.cpu.native.warm import World

    if cls not in _installed:
        _installed.add(cls)
        world = World(LOCAL, "inside", Structure, "count", Array, Scalar, Node, SCALAR, slow)
        get_backend().warm_calls(cls, "_warm", world)


def table(
    run: Any, program: int, structures: int, specs: Sequence[Any], places: tuple[Sequence[int], Sequence[int]],
    cells: Sequence[tuple[Array, Node]], fixed: Sequence[Any], result: tuple[Any, Any, type],
) -> Table:
    """A table for one kind of call.

    run, program : what runs, and the address it has for this
    specs : for each argument (shape, dtype, Array or Scalar), or None for a float, or a 1-tuple of the very object it must be
    places : the arguments that are arrays, and those that are numbers, in the Program's order
    cells, fixed : captured cells with what they hold, and buffers, which follow these
    result : shape, dtype and class
    """
    from weft.devices.cpu.native import warm_ir
    from weft.devices.cpu.native.warm import Table

    arguments = [
        (warm_ir.FLOAT, None, None) if s is None
        else (warm_ir.SAME, s[0], None) if len(s) == 1
        else (warm_ir.ARRAY if s[2] is Array else warm_ir.VALUE, *s[:2])
        for s in specs
    ]
    inputs = [
        *((warm_ir.OF_ARRAY, k, None) for k in places[0]), *((warm_ir.OF_NUMBER, k, None) for k in places[1]),
        *((warm_ir.OF_CELL, cell, node) for cell, node in cells), *((warm_ir.FIXED, value, None) for value in fixed),
    ]
    shape, dtype, kind = result
    node = {"op": INPUT, "inputs": (), "params": _NOTHING, "shape": shape, "dtype": dtype, "where": None, "holder": None}
    return Table(Node, kind, run, program, structures, arguments, inputs, node, {"_base": None, "_trace": None})
