"""Ask for one operation: small work on arrays that have values is done at once, everything else stays pending.

This is what the array layer and the functions ask with. The passes over graphs bind nodes of their own, which nobody computes.
"""

from __future__ import annotations

from typing import Any

from weft.devices.base import ELSEWHERE
from weft.dtypes.formats import Format
from weft.eager import implementations
from weft.eager.implementations import Run, specialise
from weft.eager.materialise import materialise
from weft.graph.node import Graph, Node, Primitive, Shape, frozen
from weft.graph.primitives import table
from weft.graph.primitives.table import CONSTANT, INPUT, SCALAR
from weft.process.bounded_cache import Recent
from weft.runtime import execute
from weft.runtime.context import LOCAL

WORK = 1 << 20  # steps of a product or a sum; beyond, compiled kernels and their threads are worth waiting for
_WIDEST = 16  # bytes of an element
_NOTHING: dict[str, Any] = {}
_new = object.__new__


class _Way:
    """How an operation is computed at once: what its result is like, and what computes it."""

    __slots__ = ("device", "dtype", "nbytes", "params", "run", "shape")

    def __init__(self, shape: Shape, dtype: Format, run: Run, nbytes: int, params: dict[str, Any]) -> None:
        self.shape, self.dtype, self.run, self.nbytes, self.params = shape, dtype, run, nbytes, params
        self.device = execute.device()


_LATELY = Recent(4096)  # (primitive, params, shapes and formats of operands) -> _Way


def bind(op: Primitive, *inputs: Node, **params: Any) -> Node:
    """One operation: checks shapes and formats now, and computes it now if it is small work (see ``compute_now.py``)."""
    limit = LOCAL.small
    if not limit or (ELSEWHERE and not _fetched(inputs)):
        return _left(table.bind(op, *inputs, **params))
    key: list[Any] = [op]
    values = []
    for i in inputs:
        value = i.value
        if value is None or i.op is SCALAR:
            if value is None and i.op is not CONSTANT:
                return _left(table.bind(op, *inputs, **params))
            value = implementations.number(i.params["value"] if value is None else value, i.dtype)
        values.append(value)
        key.append(i.shape)
        key.append(i.dtype)
    if params:
        key.append(frozen(params))
    known = tuple(key)
    way = _LATELY.get(known)
    if way is None or way.device is not execute.device():
        node = table.bind(op, *inputs, **params)
        if not _is_small(node) or not execute.computes_at_once():
            return _left(node)
        way = _way(node)
        _LATELY.put(known, way)
    elif way.nbytes > limit:
        return _left(table.bind(op, *inputs, **params))
    node = _new(Node)
    node.op, node.inputs, node.shape, node.dtype = INPUT, (), way.shape, way.dtype
    node.where = node.holder = None
    node.params = way.params
    for i in inputs:
        if i.params and i.shape == way.shape and "reduced" in i.params and op.kind == "elementwise":
            node.params = i.params
    node.value = way.run(values)
    return node


def _fetched(inputs: tuple[Node, ...]) -> bool:
    return not any([i.value is None and i.op is not CONSTANT for i in inputs]) and execute.fetched(*inputs)


def _left(node: Node) -> Node:
    """A node for a look to compute. What LAPACK may refuse it refuses now, where it is asked for, as with NumPy."""
    if node.op.kind == "host" and node.op.raises and not LOCAL.inside:
        materialise((node,))
    return node


def _way(node: Node) -> _Way:
    params = _NOTHING
    if node.op.kind == "reduce" and not node.params.get("keepdims", True):
        params = {"reduced": (node.params["axes"], node.inputs[0].shape)}  # for who tells of shapes that do not fit
    bare = Node(node.op, tuple([table.input_leaf(i.shape, i.dtype) for i in node.inputs]), node.params, node.shape, node.dtype)
    return _Way(node.shape, node.dtype, specialise(bare), node.nbytes, params)


def large(node: Node) -> bool:
    """Whether an operation takes long although its result is small."""
    op = node.op
    if op.kind == "elementwise":
        most = LOCAL.at_once
        return node.size * _WIDEST > most and any([i.nbytes > most for i in node.inputs])  # no operand has more elements
    if op.kind == "product":
        return op.cost is not None and op.cost(node).flops > 2 * WORK
    return op.kind in ("reduce", "running", "host") and bool(node.inputs) and node.inputs[0].size > WORK


def at_once_of(graph: Graph) -> list[Node]:
    """The operations of a graph that run at once where its inputs have values."""
    there: set[Node] = {n for n in graph.order if n.op.kind == "leaf"}
    found = []
    for node in graph.order:
        if node not in there and all([i in there for i in node.inputs]) and _is_small(node):
            there.add(node)
            found.append(node)
    return found


def _is_small(node: Node) -> bool:
    return node.nbytes <= LOCAL.at_once and implementations.can(node) and not large(node)
