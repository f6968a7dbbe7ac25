"""The primitive table: one entry says everything about one operation.

A primitive is shape and dtype rule, NumPy reference, formula in machine operations, derivative, batching
rule, cost, and the samples its tests are made from. To add one, add one entry (see CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from weft.errors import ShapeError, gib
from weft.formats import Format
from weft.graph.node import Node, Shape
from weft.graph.origin import user_frame, user_function

if TYPE_CHECKING:
    from weft.kernel.index import Guards, Index
    from weft.kernel.ir import Affine, Value
    from weft.kernel.values import Machine

Along = tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One call that tests make: arrays (NumPy), parameters, and what it is a sample of.

    ``tag`` is one of zero, one, prime, broadcast, strided, special (NaN and infinity), usual.
    """

    arrays: tuple[np.ndarray, ...]
    params: dict[str, Any] = field(default_factory=dict)
    tag: str = "usual"


@dataclass(frozen=True, slots=True)
class ErrorSample:
    """A call that must be refused, with the pattern its message must match."""

    arrays: tuple[np.ndarray, ...]
    params: dict[str, Any]
    error: type[Exception]
    match: str


@dataclass(frozen=True, slots=True)
class Cost:
    """flops: arithmetic operations; bytes: each element of inputs and outputs once."""

    flops: int
    bytes: int


class Reader(Protocol):
    """What an index rule is given: it reads operands where it likes, and builds Values of the kernel IR from them."""

    m: Machine
    extents: dict[int, int]  # of the axes that an index runs along

    def at(self, node: Node, index: Index, guards: Guards = ()) -> Value:
        """The value of ``node`` where ``index`` points; memory is touched only where the guards hold."""

    def guarded(self, node: Node, index: Index, guards: Guards, own: Guards, fill: Any) -> Value:
        """``node`` where the guards ``own`` hold, elsewhere ``fill``."""

    def position(self, operand: Node, index: Index, guards: Guards, extent: int) -> Affine:
        """The integer that ``operand`` holds, as an index within ``extent``: from the end where negative, then clamped."""

    def check(self, node: Node, index: Index, guards: Guards) -> Value:
        """The integer that a check's operand holds, which must be an index in range."""


@dataclass(frozen=True, eq=False, slots=True)
class Primitive:
    """One operation.

    kind
        how it is scheduled: ``leaf`` (input, scalar, constant), ``elementwise``, ``random``, ``shape`` (moves data only),
        ``reduce`` (over axes), ``window`` (over windows), ``unwindow`` (back), ``product``, ``convolution``, ``gather``,
        ``write`` (of a part), ``scatter``, ``running`` (sums), ``board`` (last_equal), ``host`` (in Python), ``loop``,
        ``result`` (of a loop).
    rule(*input_nodes, **params) -> (shape, dtype)
        raises weft.errors.ShapeError / DTypeError / AxisError with argument, shapes, dtypes and fix.
    reference(*arrays, **params) -> ndarray
        NumPy; computes in the dtype of its inputs, so the tests call it on float64.
    formula(m, *values, **params) -> value
        elementwise only: builds the result from machine operations, ``m.add(a, b)`` ...
    at(reader, node, index, guards) -> value or None
        the element of the result at ``index``, read from the operands: :class:`Reader`. None where no index can say it.
        Element-wise operations and reductions need none.
    along(node) -> for each operand, for each dimension of the result, the operand's dimension that it runs along, or None
        shape only. None as a whole where the operand cannot be followed.
    vjp(cotangent, out, *inputs, **params) -> tuple of Node or None, one an input
        nodes of the table's own primitives; None where the derivative is zero. The walker sums away
        broadcast dimensions, rules need not.
    batch(inputs, dims, **params) -> (Node, dim)
        ``dims[i]`` is the batch dimension of input i or None.
    cost(node) -> Cost
    exact
        the same bits on every processor: the result is that of IEEE 754, or an integer.
    cheap
        over leaves it costs less than the memory traffic of its result: each reader computes it again.
    heavy
        so costly that it is computed again only where that is seldom.
    monoid
        reductions over ``axes``: what joins two elements, ``sum``, ``prod``, ``max``, ``min``, ``argmax`` or ``argmin``.
    last
        it writes in a way that nothing in the same kernel can read: its kernel ends with it.
    view
        its result is its operand seen through an index: nothing is computed, filled in or joined.
    moves
        an element may stand elsewhere than in the operand: several such operands are read at as many places.
    same_memory
        its result is its operand's memory under another shape.
    """

    name: str
    kind: str
    rule: Callable[..., tuple[Shape, Format]]
    reference: Callable[..., np.ndarray] | None = None
    formula: Callable[..., Any] | None = None
    vjp: Callable[..., tuple[Node | None, ...]] | None = None
    batch: Callable[..., tuple[Node, int | None]] | None = None
    cost: Callable[[Node], Cost] | None = None
    samples: Callable[[np.random.Generator], Iterable[Sample]] | None = None
    errors: Callable[[], Iterable[ErrorSample]] | None = None
    exact: bool = False
    cheap: bool = False
    heavy: bool = False
    monoid: str = ""
    last: bool = False
    view: bool = False
    moves: bool = False
    same_memory: bool = False
    at: Callable[[Reader, Node, Index, Guards], Value | None] | None = None
    along: Callable[[Node], Along | None] | None = None

    def __repr__(self) -> str:
        return self.name

    @property
    def contracts(self) -> bool:
        """Whether it is a sum of products along axes that two operands share."""
        return self.kind in ("product", "convolution")

    @property
    def outside_kernels(self) -> bool:
        """Whether it is a step of a Program by itself, or what such a step gives."""
        return self.kind in ("host", "loop", "result")


TABLE: dict[str, Primitive] = {}
MOST = 1 << 57  # elements: no machine's addresses have more bits, and their bytes are a number of 64 bits in every dtype


def register(primitive: Primitive) -> Primitive:
    if primitive.name in TABLE:
        raise ValueError(f"primitive {primitive.name!r} is in the table already")
    TABLE[primitive.name] = primitive
    return primitive


def bind(op: Primitive, *inputs: Node, **params: Any) -> Node:
    """Ask for one operation: checks shapes and dtypes now, computes nothing."""
    shape, dtype = op.rule(*inputs, **params)
    if (not inputs or shape is not inputs[0].shape) and not 0 < prod(shape) <= MOST:
        refuse_too_large(op.name, shape, dtype)
    return Node(op, inputs, params, shape, dtype, user_frame())


def refuse_too_large(name: str, shape: Shape, dtype: Format) -> None:
    """Refuse an array that no machine can address, as the function that the user called."""
    size = prod(n for n in shape if n)  # as NumPy counts, to whom an empty array may be too large
    if size > MOST:
        raise ShapeError(
            f"{user_function(name)}: an array of shape {shape} and dtype {dtype.name} would have {gib(size * dtype.bytes)}, "
            f"more than a machine can address"
        )


def _leaf_rule(*inputs: Node, **params: Any) -> tuple[Shape, Format]:
    raise TypeError("leaves are made by input_leaf, scalar_leaf and constant")


INPUT = register(Primitive("input", "leaf", _leaf_rule))
SCALAR = register(Primitive("scalar", "leaf", _leaf_rule))
CONSTANT = register(Primitive("constant", "leaf", _leaf_rule))


def input_leaf(shape: Shape, dtype: Format, value: Any = None) -> Node:
    """A leaf whose contents a run is given: a placeholder, or (with a value) a buffer that exists."""
    return Node(INPUT, (), {}, shape, dtype, None, value)


def is_placeholder(node: Node) -> bool:
    """Whether a node is a leaf without content: a run has to be given it."""
    return node.value is None and node.op.kind == "leaf" and node.op is not CONSTANT


def scalar_leaf(value: float | int | bool | None, dtype: Format) -> Node:
    """A Python number in an expression: an argument of the Program, so that a new number compiles nothing."""
    return Node(SCALAR, (), {}, (), dtype, None, value)


def constant(value: Any, dtype: Format) -> Node:
    """A number that is part of the program's text. ``params['value']`` is a NumPy scalar of ``dtype``."""
    if -65504 <= value <= 65504:  # float16's largest
        return Node(CONSTANT, (), {"value": dtype.numpy.type(value)}, (), dtype)
    with np.errstate(over="ignore"):  # who asks for numbers of users warns of them
        return Node(CONSTANT, (), {"value": dtype.numpy.type(value)}, (), dtype)
