"""Protocols of native functions: small eager operations and warm jitted calls that run without Python in between.

A native function for small operations returns None, and Python takes over, unless its arrays are materialised and own their
content and the thread has no active trace, gradient or profile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from weft.dtypes.formats import Format
from weft.graph.node import Primitive


class SmallOperationContext(NamedTuple):
    """The objects of the array layer that native small operations use.

    local, limit : thread-local state, and the name of its attribute with the largest result in bytes
    array, value, node : the classes ndarray, Scalar and Node
    leaf : the primitive of leaf nodes
    empty_result : empty params; reduced: the name of the param that a result inherits from an operand of its shape
    node_slots, array_slots, view_slots : initial values of the other slots of a new node, a new array and a new view
    view_reads : the list with the number of times that views have cached a node
    transposes : the path of a transpose by the number of dimensions
    reshaped : what a reshape stores in place of an index
    getitem : Python's function of (x, index)
    """

    local: Any
    limit: str
    array: type
    value: type
    node: type
    leaf: Primitive
    empty_result: dict[str, Any]
    reduction_node: str
    node_slots: dict[str, Any]
    array_slots: dict[str, Any]
    view_slots: dict[str, Any]
    view_reads: list[int]
    transposes: tuple[Any, ...]
    reshaped: str
    getitem: Callable[..., Any]


class PreparedCall(NamedTuple):
    """A dynamic kernel and its arguments, called with the addresses of its operands and of its result.

    ``operands`` and ``out`` index the arguments that are addresses. needs_scratch: a call allocates memory.
    """

    function: Callable[..., None]
    words: tuple[int, ...]
    operands: tuple[int, ...]
    out: int
    needs_scratch: bool

    def __call__(self, *addresses: int) -> None:
        words = [*self.words]
        for place, address in zip((*self.operands, self.out), addresses, strict=True):
            words[place] = address
        self.function(*words)


class ResultInfo(NamedTuple):
    """Shape, dtype, size and params of a result's node."""

    shape: tuple[int, ...]
    dtype: Format
    nbytes: int
    params: dict[str, Any]


class SmallOperation(Protocol):
    """An elementwise operation on one array, on two, or on an array and a number.

    ``call`` takes (x) or (x, y) and returns a new array. Called with (x, y, x), it replaces the content of x and returns x.
    """

    call: Callable[..., Any]

    def add(self, dtype: Format, function: Callable[..., None], op: Primitive, result: Format) -> None:
        """Support operands of ``dtype``, with a function from ``DynamicKernels.elementwise``. ``op`` is the primitive of the
        result's node."""


class ShapedOperation(Protocol):
    """A product or reduction, prepared for given shapes. ``call`` takes (x) or (x, y) and returns a new array."""

    call: Callable[..., Any]

    def add(self, dtype: Format, shapes: Sequence[tuple[int, ...]], prepared: PreparedCall, result: ResultInfo) -> None:
        """Support operands of these shapes. May evict shapes that were added earlier."""


class SmallWork(Protocol):
    """A device's native functions for small operations.

    element(x, index) : return an element as a new Scalar
    part(x, index) : the same, and views for integers, slices, None and an ellipsis
    item(x, index) : call ``part``, and ``getitem`` if that returns None
    transpose(x), reshape(x, shape) : return a view of an array that is no view; one extent of the shape may be -1
    store(x, index, number) : write an element, return True if it was written
    number(x) : return the only element as a Python number
    show(x) : return a NumPy array over the memory of an array or a view, for immediate use
    take(x) : return a new array with a copy of an array or a view; take(numpy, dtype): of NumPy's array or number of this dtype
    open(x, node, opened) : make a node without a value the content of x, and put a NumPy array into the list ``opened``, in
        place of its only item. The array is over the memory of x if nothing else refers to that memory, else over a copy. The
        caller writes to it, and gives the node its ``base`` as value
    full(shape, dtype, number) : return a new array without empty axes, filled with a number
    extreme(x, axis, is_least, dtype) : return the positions of the least or the greatest elements; dtype: int64
    join_numbers(lists, real, integer) : return a new array of nested lists of floats, in the dtype ``real``, or of integers
    put(x, index, value) : write a number or an array of the same dtype to a part of x, which is no view; return True if it was
        written. index: of integers, slices, None and an ellipsis
    """

    element: Callable[..., Any]
    part: Callable[..., Any]
    item: Callable[..., Any]
    transpose: Callable[..., Any]
    reshape: Callable[..., Any]
    store: Callable[..., Any]
    number: Callable[..., Any]
    show: Callable[..., Any]
    take: Callable[..., Any]
    open: Callable[..., Any]
    full: Callable[..., Any]
    join_numbers: Callable[..., Any]
    extreme: Callable[..., Any]
    put: Callable[..., Any]

    def operation(self, arity: int) -> SmallOperation: ...
    def shaped_operation(self) -> ShapedOperation: ...

WatchRow = tuple[str, Any, Any, Any]


class WarmCallContext(NamedTuple):
    """The objects of the array layer that every warm call uses.

    local, depth_name : thread-local state, and the name of its attribute that must be 0 (nothing is traced)
    structure, counter : the object whose attribute ``counter`` must be unchanged
    array, value, node : the classes ndarray, Scalar and Node
    scalar, constant : the primitives of nodes that hold Python numbers, and of constants
    logs : a dict that must be empty if a call writes arrays
    node_slots, array_slots : initial values of the slots of a new node, without shape and dtype, and of a new array
    slow : the Python function to fall back to
    """

    local: Any
    depth_name: str
    structure: Any
    counter: str
    array: type
    value: type
    node: type
    scalar: Any
    constant: Any
    logs: dict[Any, Any]
    node_slots: dict[str, Any]
    array_slots: dict[str, Any]
    slow: Callable[..., Any]


Place = tuple[Any, Any, Any, int, int]


class WarmCall(NamedTuple):
    """What a native call of one signature compares, reads, writes and returns.

    run : the executable
    structures : the valid value of the context's ``counter``
    uses : an array of one integer, which counts the native calls
    arguments, names : the number of all arguments, and the names of the last ones, None if all are positional
    places : the arguments and, behind them, the items of their containers: ("array" or "value", shape, dtype, 0, 0),
        ("float", None, None, 0, 0), ("same", object, None, 0, 0), (list or tuple, None, None, first item, number of items), or
        (dict, tuple of keys, None, first item, number of items)
    watch_rows : the objects that must be unchanged
    inputs : the Program's inputs: ("array" or "number", number of a place, None), ("cell", cell, the node it must hold), or
        ("fixed", buffer or number, None)
    overwritten_inputs : (input, output, references to the node, references to the buffer) of each array that the Program
    overwrites if there
        are no other references
    result : the result and, behind it, the items of its containers: ("output", class, (shape, dtype), number of the output, 0),
        ("argument", None, None, number of a place, 0), or rows as in ``places``, where "same" is a constant
    """

    run: Any
    structures: int
    uses: Any
    arguments: int
    names: tuple[str, ...] | None
    places: Sequence[Place]
    watch_rows: Sequence[WatchRow]
    inputs: Sequence[tuple[str, Any, Any]]
    overwritten_inputs: Sequence[tuple[int, int, int, int]]
    result: Sequence[Place]


class WarmTable(Protocol):
    """The native table of one signature of a jitted function."""

    def serves(self, program: int, structures: int, cells: list[Any]) -> bool:
        """Return whether the table belongs to this program, structure version and these nodes of captured cells."""
