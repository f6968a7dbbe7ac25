"""Small work without Python: the device's functions for it, once the device is in use.

Operators, indices and looks ask these first. They answer None until there are such functions, and wherever the case is not a
plain one: then Python does what it always did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.devices.base import DoesSmallWork
from weft.devices.native_protocols import Result, ShapedOperation, SmallOperation, SmallWork, Surroundings
from weft.dtypes.formats import Format
from weft.eager import implementations, policy
from weft.eager.implementations import prepared
from weft.graph.node import Node, Primitive
from weft.graph.primitives.table import INPUT, input_leaf
from weft.runtime import execute
from weft.runtime.context import LOCAL

_NOTHING: dict[str, Any] = {}
_CLASSES: list[Any] = []
_WORK: list[SmallWork | None] = []  # of the device, once that is known


def never(*operands: Any) -> None:
    """There is no native function."""


class _Elements:
    """element(x, index), store(x, index, number), number(x): see ``weft.devices.native_protocols``."""

    __slots__ = ("element", "number", "store")

    def __init__(self) -> None:
        self.element: Callable[..., Any] = never
        self.store: Callable[..., Any] = never
        self.number: Callable[..., Any] = never


class Short:
    """The short way of an operation of one or two operands: ``call``.

    way : (primitive, dtype of the operands) -> dtype of the result, where the primitive is all that the operation does
    """

    __slots__ = ("arity", "call", "way", "work")

    def __init__(self, arity: int, way: Callable[[Primitive, Format], Format | None]) -> None:
        self.arity, self.way = arity, way
        self.call: Callable[..., Any] = never
        self.work: SmallOperation | None = None
        _SHORT.append(self)
        if _WORK:
            for key, function in implementations.made():
                self.offered(*key, function)

    def offered(self, op: Primitive, dtypes: tuple[Format, ...], function: Callable[..., None]) -> None:
        """A function of elements was made: use it, if it is what this does."""
        dtype, work = dtypes[0], _WORK[0]
        if work is None or len(dtypes) != self.arity or dtypes[-1] is not dtype:
            return
        result = self.way(op, dtype)
        if result is not None:
            if self.work is None:
                self.work = work.operation(self.arity)
            self.work.add(dtype, function, INPUT if self.arity == 1 else op, result)
            self.call = self.work.call


class Shaped:
    """The same of a product or a sum, which goes by shapes.

    asked : nodes of operands -> the node of the result. met: how often Python did it, by dtype and shapes
    """

    __slots__ = ("asked", "call", "met", "work")

    def __init__(self, asked: Callable[..., Node]) -> None:
        self.asked = asked
        _SHAPED.append(self)
        self.call: Callable[..., Any] = never
        self.met: dict[Any, int] = {}
        self.work: ShapedOperation | None = None

    def did(self, result: Node, *operands: Node) -> None:
        """Python did it: where it does so again and again, the device does it from now on."""
        dtype, shapes = operands[0].dtype, tuple([x.shape for x in operands])
        if result.value is None or any([x.value is None or x.dtype is not dtype for x in operands]) or not policy.wanted():
            return
        start()
        if len(self.met) >= 1000:
            self.met.clear()
        times = self.met[dtype, shapes] = self.met.get((dtype, shapes), 0) + 1
        if times < _AGAIN or times & (times - 1) or _WORK[0] is None:  # ever more seldom: it may be none that the device does
            return
        leaves = tuple([input_leaf(shape, dtype) for shape in shapes])
        node = self.asked(*leaves)
        known = prepared(node) if node.inputs == leaves else None  # of these very operands
        if known is not None:
            if self.work is None:
                self.work = _WORK[0].shaped()
            self.work.add(dtype, shapes, known, Result(node.shape, node.dtype, node.nbytes, result.params or _NOTHING))
            self.call = self.work.call


ELEMENTS = _Elements()
_AGAIN = 4
_SHORT: list[Short] = []
_SHAPED: list[Shaped] = []


def introduce(array: type, value: type) -> None:
    """Tell the classes of arrays, and of those that are values."""
    _CLASSES[:] = array, value


def asked_again(native: Callable[..., Any], *operands: Any) -> Any:
    """What a native function that gave None gives once views are followed, which it does not do itself."""
    array, views = _CLASSES[0], False
    for x in operands:
        if type(x) is array and x._base is not None and native is not never:
            x.node  # noqa: B018  remembered there
            views = True
    return native(*operands) if views else None


def start() -> None:
    """Ask the device, which somebody has just computed with, for what it has."""
    if _WORK:
        return
    device: Any = execute.device()
    if not isinstance(device, DoesSmallWork):
        _WORK.append(None)
        return
    array, value = _CLASSES
    work = device.small_work(Surroundings(
        LOCAL, "small", array, value, Node, INPUT, _NOTHING, "reduced",
        {"inputs": (), "where": None, "holder": None}, {"_base": None, "_trace": None},
    ))
    _WORK.append(work)
    ELEMENTS.element, ELEMENTS.store, ELEMENTS.number = work.element, work.store, work.number
    for made in implementations.made():
        _offer(*made)


def _offer(key: tuple[Primitive, tuple[Format, ...]], function: Callable[..., None]) -> None:
    """A function was made."""
    if not _WORK:
        return start()
    for short in _SHORT:
        short.offered(*key, function)


implementations.tell.append(_offer)
