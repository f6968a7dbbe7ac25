"""Warm calls in words: what the layers above tell a device that calls jitted functions without Python in between.

A row of ``arguments`` says what an argument must be: ("array" or "value", shape, dtype), ("float", None, None), or
("same", object, None). A row of ``inputs`` says where an input of the program is found: ("array" or "number", place among the
arguments, None), ("cell", cell, the node it must hold), or ("fixed", buffer, None).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

Watched = tuple[str, Any, Any, Any]


class World(NamedTuple):
    """What every warm call asks for. ``inside``, ``counter``: names of attributes that must be 0 and unchanged.

    array, value, node : the classes of arrays, of those that are values, and of nodes
    scalar : the operation of nodes that hold numbers
    slow : the Python function that is called otherwise
    """

    local: Any
    inside: str
    structure: Any
    counter: str
    array: type
    value: type
    node: type
    scalar: Any
    slow: Callable[..., Any]


class WarmTable(Protocol):
    """One kind of call, as the device has written it down."""

    def serves(self, program: int, structures: int, cells: list[Any]) -> bool:
        """Whether this table is for this program, count of structures, and what the captured cells hold now."""
        ...
