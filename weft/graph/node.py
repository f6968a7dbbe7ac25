"""Primitive: the definition of an operation. Node: one application of an operation. Graph: nodes with inputs and outputs.

A node records its operation, inputs and parameters, and the shape and dtype of its result. It refers to no device and no Array.
Nodes are compared by identity; structural keys are computed per graph. ``primitives`` contains the entries, each a Primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from weft.dtypes.formats import Format, Kinds

if TYPE_CHECKING:
    from weft.kernel.expressions import Machine
    from weft.kernel.index import Guards, Index
    from weft.kernel.ir import Affine, Value

Shape = tuple[int, ...]
AxisMaps = tuple[tuple[int | None, ...], ...]


class Domain(NamedTuple):
    """Operands that an element-wise primitive takes; tests draw their samples from it (``tests/kernel/samples``)."""

    operands: int
    dtypes: Kinds
    floats: tuple[float, float] = (-3.0, 3.0)
    integers: tuple[float, float] = (-9.0, 9.0)


class Cost(NamedTuple):
    """flops: arithmetic operations; bytes: each element of inputs and outputs once."""

    flops: int
    bytes: int


class Reader(Protocol):
    """The interface of index rules: it reads operands at any index and builds Values of the kernel IR from them."""

    m: Machine
    extents: dict[int, int]  # of the axes in an index

    def at(self, node: Node, index: Index, guards: Guards = ()) -> Value:
        """Return the value of ``node`` at ``index``. Memory is read only where the guards hold."""

    def guard(self, node: Node, index: Index, guards: Guards, own: Guards, fill: Any) -> Value:
        """Return ``node`` where the guards ``own`` hold and ``fill`` elsewhere."""

    def position(self, operand: Node, index: Index, guards: Guards, extent: int) -> Affine:
        """Return an integer operand as an index within ``extent``: negative values count from the end, the rest is clamped."""

    def check(self, node: Node, index: Index, guards: Guards) -> Value:
        """Return the integer operand of a check, which must be an index in range."""


@dataclass(frozen=True, eq=False, slots=True)
class Primitive:
    """One operation.

    kind
        how it is scheduled: ``leaf`` (input, scalar, constant), ``elementwise``, ``random``, ``shape`` (moves data only),
        ``reduce`` (over axes), ``window`` (over windows), ``unwindow`` (back), ``product``, ``convolution``, ``gather``,
        ``attention``, ``attention_gradient``, ``write`` (of a part), ``scatter``, ``running`` (folds), ``board`` (last_equal),
        ``host`` (in Python), ``loop`` (or another graph with several results), ``result`` (of a loop).
    rule(*input_nodes, **params) -> (shape, dtype)
        raises weft.errors.ShapeError / DTypeError / AxisError with argument, shapes, dtypes and fix.
    reference(*arrays, **params) -> ndarray
        NumPy; computes in the dtype of its inputs, so the tests call it on float64.
    formula(m, *values, **params) -> value
        elementwise only: builds the result from machine operations, ``m.add(a, b)`` ...
    at(reader, node, index, guards) -> value or None
        the element of the result at ``index``, read from the operands: :class:`Reader`. None if no index expression exists.
        Element-wise operations and reductions need none.
    axis_maps(node) -> for each operand, for each dimension of the result, the operand's dimension that it runs along, or None
        shape only. None as a whole if the operand's dimensions cannot be followed.
    vjp(cotangent, out, *inputs, **params) -> tuple of Node or None, one an input
        nodes of the table's own primitives; None where the derivative is zero. The walk sums over broadcast dimensions, rules
        need not.
    jvp(tangents, out, *inputs, **params) -> the tangent of ``out``
        tangents: a node or None (zero), one an input. Of a loop: a function that returns, for the number of a result, the result
        and its tangent or None. Entries without it get their forward derivative from ``vjp``: see ``forward.py``.
    batch(inputs, dims, **params) -> (Node, dim)
        ``dims[i]`` is the batch dimension of input i or None.
    cost(node) -> Cost
    exact
        the same bits on every processor: the result is that of IEEE 754, or an integer.
    cheap
        over leaves it costs less than the memory traffic of its result: each reader computes it again.
    heavy
        so costly that it is computed again only for few elements.
    monoid
        reductions over ``axes`` and running folds: the operation on two elements, ``sum``, ``prod``, ``max``, ``min``,
        ``argmax`` or ``argmin``.
    ends_kernel
        no node of the same kernel can read what it writes: its kernel ends with it.
    view
        its result is its operand read through an index: nothing is computed, filled in or joined.
    moves
        an element's position may differ from that in the operand. Several such operands are read at as many positions.
    reads
        the number of positions at which an index rule reads one operand.
    same_memory
        its result is its operand's memory under another shape.
    factor_count
        attention only: the number of leading operands that it multiplies. They are read from memory, like those of a product.
    compose(*input_nodes, **params) -> Node
        the same result from other primitives: for derivatives without ``vjp`` and for devices without a kernel for it.
    domain
        elementwise only: number, dtypes and ranges of the operands that tests draw.
    raises
        it may raise because of its operands' values: a checked index, a matrix without an inverse, a loop of such steps.
    effect
        it acts on other processes, so it takes place once, in the order of the program: see ``effects.py``.
    on_device(step, **params) -> ndarray or None
        host only: the same in the memory of a device, whose :class:`weft.devices.steps.DeviceStep` has operands and result; an
        array if it was computed on the host after all.
    halves
        effects of kind ``host`` only: two primitives that the scheduler may put in its place. The first begins the effect and
        returns its parameter ``number``, the second waits for the effect of that number and returns the result.
    timing
        host only: ``early`` if it begins what goes on beside the program, ``late`` if it waits for that: see
        ``weft/schedule/overlap.py``.
    receives
        effects only: its result comes from another process, to which its derivative goes, also if its operands are constant.
    """

    name: str
    kind: str
    rule: Callable[..., tuple[Shape, Format]]
    reference: Callable[..., np.ndarray] | None = None
    formula: Callable[..., Any] | None = None
    vjp: Callable[..., tuple[Node | None, ...]] | None = None
    batch: Callable[..., tuple[Node, int | None]] | None = None
    cost: Callable[[Node], Cost] | None = None
    exact: bool = False
    cheap: bool = False
    heavy: bool = False
    monoid: str = ""
    ends_kernel: bool = False
    view: bool = False
    moves: bool = False
    reads: int = 1
    same_memory: bool = False
    raises: bool = False
    effect: bool = False
    receives: bool = False
    halves: tuple[Primitive, Primitive] | None = None
    timing: str = ""
    on_device: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    factor_count: int = 0
    compose: Callable[..., Node] | None = None
    at: Callable[[Reader, Node, Index, Guards], Value | None] | None = None
    axis_maps: Callable[[Node], AxisMaps | None] | None = None
    domain: Domain | None = None

    def __repr__(self) -> str:
        return self.name

    @property
    def contracts(self) -> bool:
        """Return whether it is a sum of products along axes that two operands share."""
        return self.kind in ("product", "convolution")

    @property
    def chains(self) -> bool:
        """Return whether it is products of products, whose intermediate matrix is not stored."""
        return self.kind in ("attention", "attention_gradient")

    @property
    def outside_kernels(self) -> bool:
        """Return whether it is a step of a Program by itself, or a result of such a step."""
        return self.kind in ("host", "loop", "result")


class Node:
    """One operation of a graph.

    Immutable except for ``value``: after a run has computed the node, the runtime stores the buffer there and drops ``inputs``,
    so that the memory of the operands can be reused. A node with a ``value`` is a leaf.

    Attributes
    ----------
    op : Primitive
    inputs : tuple of Node
    params : dict, never changed after construction; keys in the order the primitive declares them
    shape, dtype : of the result; ``dtype`` is a Format
    source_line : (code, instruction) of the user's line, in a profile (code, instruction, layer, phase): see ``source_lines.py``
    value : None, or the buffer (runtime) or Python number (scalar leaf) of the result
    holder : None, or a weak reference to the Cell through which the user can reach this node; of a scan, weak references
        to its results
    """

    __slots__ = ("__weakref__", "dtype", "holder", "inputs", "op", "params", "shape", "source_line", "value")

    def __init__(
        self, op: Primitive, inputs: tuple[Node, ...], params: dict[str, Any], shape: Shape, dtype: Format,
        source_line: Any = None, value: Any = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.params = params
        self.shape = shape
        self.dtype = dtype
        self.source_line = source_line
        self.value = value
        self.holder: Any = None

    def on(self, inputs: tuple[Node, ...]) -> Node:
        """Return this operation on other operands of the same shapes and dtypes; the node itself if they are its own."""
        if inputs == self.inputs:
            return self
        return Node(self.op, inputs, self.params, self.shape, self.dtype, self.source_line)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return prod(self.shape, start=self.dtype.bytes)

    def __repr__(self) -> str:
        shape = ",".join(map(str, self.shape))
        return f"<{self.op.name} {self.dtype}[{shape}]>"


_MAX_RESCANNED = 9  # up to this many operands, the list of operands is scanned again after each of them


class Graph:
    """Outputs as a function of leaves.

    ``inputs`` are the leaves whose contents a run receives, in order: placeholders and nodes with a value. Constants are not
    among them: they are part of the graph's key.
    """

    __slots__ = ("inputs", "order", "outputs")

    def __init__(self, inputs: Sequence[Node], outputs: Sequence[Node], order: Sequence[Node] | None = None) -> None:
        """``order``: the result of ``topological_order`` for the outputs, if it was computed before."""
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.order = topological_order(self.outputs, stop=frozenset(self.inputs)) if order is None else tuple(order)

    def key(self) -> tuple:
        """Return a hashable description: equal keys mean the same computation on the same shapes and dtypes."""
        number: dict[Node, int] = {}
        rows: list[tuple] = []
        for node in self.inputs:
            number[node] = len(number)
            rows.append((node.op.name if node.op.name == "scalar" else "input", node.shape, node.dtype))
        for node in self.order:
            if node in number:
                continue
            number[node] = len(number)
            params = node.params
            operands = tuple([number[i] for i in node.inputs])
            rows.append((node.op.name, operands, frozen(params) if params else (), node.shape, node.dtype))
        return (len(self.inputs), tuple(rows), tuple([number[o] for o in self.outputs]))

    def __repr__(self) -> str:
        number: dict[Node, int] = {}
        lines = []
        for node in self.order:
            number[node] = len(number)
            args = ", ".join(f"%{number[i]}" for i in node.inputs if i in number)
            params = ", ".join(f"{k}={v}" for k, v in node.params.items())
            call = f"{node.op.name}({args}{'; ' if params else ''}{params})"
            lines.append(f"%{number[node]} = {call} {node.dtype}{list(node.shape)}")
        lines.append("return " + ", ".join(f"%{number[o]}" for o in self.outputs))
        return "\n".join(lines)


def rebuild(graph: Graph, change: Callable[[Node, tuple[Node, ...]], Node]) -> Graph:
    """Return the graph with each node replaced by ``change(node, new operands)``, operands first; inputs stay.

    If no node changes, return the graph itself.
    """
    done: dict[Node, Node] = {n: n for n in graph.inputs}
    for node in graph.order:
        if node not in done:
            done[node] = change(node, tuple([done[i] for i in node.inputs]))
    same = all(a is b for a, b in done.items())
    return graph if same else Graph(graph.inputs, [done[o] for o in graph.outputs])


def frozen(params: dict[str, Any]) -> tuple:
    """Return parameters as a key. Floats are compared by their bits, since 0.0 == -0.0 and NaN != NaN."""
    if not params:
        return ()
    return tuple([(k, type(v), v) if type(v) in _PLAIN_TYPES else _freeze(k, v) for k, v in params.items()])


def _freeze(k: str, v: Any) -> tuple:
    if isinstance(v, np.generic):
        return k, v.dtype, v.tobytes()
    return k, type(v), repr(v) if isinstance(v, float | complex) else v


_PLAIN_TYPES = frozenset((int, bool, str, tuple, Format, type(None)))


def topological_order(outputs: Iterable[Node], stop: Set[Node] = frozenset()) -> tuple[Node, ...]:
    """Return every node on which the outputs depend, operands first, without going past nodes in ``stop`` or with a value."""
    done: set[Node] = set()
    order: list[Node] = []
    add, append = done.add, order.append
    stack: list[Node] = list(outputs)[::-1]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        inputs = node.inputs if node.value is None and node not in stop else ()
        for i in inputs:
            if i not in done:
                if i.value is None and i.inputs and i not in stop:
                    stack += (i,) if len(inputs) < _MAX_RESCANNED else [i for i in inputs[::-1] if i not in done]
                    break
                add(i)
                append(i)
        else:
            add(node)
            append(node)
            stack.pop()
    return tuple(order)
