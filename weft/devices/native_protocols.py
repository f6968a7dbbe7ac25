"""Protocols of native functions: small eager operations and warm jitted calls that run without Python in between.

A native function for small work returns None unless its arrays hold their own, computed content and the thread has no trace,
gradient or profile; then Python takes over.

For a jitted call, a row of ``arguments`` says what an argument must be: ("array" or "value", shape, dtype), ("float", None,
None), or ("same", object, None). A row of ``inputs`` says where a program's input is found: ("array" or "number", place among
the arguments, None), ("cell", cell, the node it must hold), or ("fixed", buffer, None).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from weft.dtypes.formats import Format
from weft.graph.node import Primitive


class Surroundings(NamedTuple):
    """What small work is done in.

    local : of the thread; limit: the name of how many bytes a result may have in it, now
    array, value, node : the classes of arrays, of those that are values, and of nodes
    leaf : the operation of nodes of contents
    nothing : the params of nodes; reduced: the name of one that operands of the result's shape pass on
    node_slots, array_slots : what else fresh ones always hold
    """

    local: Any
    limit: str
    array: type
    value: type
    node: type
    leaf: Primitive
    nothing: dict[str, Any]
    reduced: str
    node_slots: dict[str, Any]
    array_slots: dict[str, Any]


class Prepared(NamedTuple):
    """A function whose sizes are arguments, and these arguments; operands, out : which of them are addresses."""

    function: Callable[..., None]
    words: tuple[int, ...]
    operands: tuple[int, ...]
    out: int


class Result(NamedTuple):
    """What the node of a result is like."""

    shape: tuple[int, ...]
    dtype: Format
    nbytes: int
    params: dict[str, Any]


class SmallOperation(Protocol):
    """An operation on the elements of one array, or of two or of one and a number.

    ``call``: (x) or (x, y) -> a new array; (x, y, x): the result becomes the content of x, which is given.
    """

    call: Callable[..., Any]

    def add(self, dtype: Format, function: Callable[..., None], op: Primitive, result: Format) -> None:
        """From now on for operands of a dtype, too: by a function that ``Sized.each`` gave; op: of the node that is made."""
        ...


class ShapedOperation(Protocol):
    """An operation that goes by the shapes of its one or two operands. ``call``: (x) or (x, y) -> a new array."""

    call: Callable[..., Any]

    def add(self, dtype: Format, shapes: Sequence[tuple[int, ...]], prepared: Prepared, result: Result) -> None:
        """From now on for operands of these shapes, too; of what is added the last is kept, and some before it."""
        ...


class SmallWork(Protocol):
    """What a device does.

    element(x, index) : a value of its own. store(x, index, number) : True where it is written
    number(x) : of one element, as Python's
    """

    element: Callable[..., Any]
    store: Callable[..., Any]
    number: Callable[..., Any]

    def operation(self, arity: int) -> SmallOperation: ...
    def shaped(self) -> ShapedOperation: ...

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
