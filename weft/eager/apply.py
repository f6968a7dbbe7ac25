"""Apply one operation: small work on materialised operands is computed now, everything else stays pending.

The array layer and the functions use this. Graph passes create nodes with ``primitives.table.bind``, which never computes.

The limits are measured. Up to 128 KB, eager execution beats fusion: 6 operations on 10,000 floats take 32 us here and 58 us
through a graph. At 340 KB, 12 operations on 65,000 floats take 93 us instead of 55, and slices of 256 KB, which are copied
first, 410 instead of 320. A decision is cached by primitive, parameters, shapes and formats; a hit evaluates no rule and finds
no source line.
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

WORK = 1 << 20  # steps of a product or a sum; beyond, compiled kernels and their threads pay off
_MAX_ITEMSIZE = 16  # bytes of the widest element
_NO_PARAMS: dict[str, Any] = {}
_new = object.__new__


class _EagerPlan:
    """A cached plan: the type of the result and the function that computes it."""

    __slots__ = ("device", "dtype", "nbytes", "params", "run", "shape")

    def __init__(self, shape: Shape, dtype: Format, run: Run, nbytes: int, params: dict[str, Any]) -> None:
        self.shape, self.dtype, self.run, self.nbytes, self.params = shape, dtype, run, nbytes, params
        self.device = execute.device()


_PLANS = Recent(4096)  # (primitive, params, shapes and formats of operands) -> _EagerPlan


def bind(op: Primitive, *inputs: Node, **params: Any) -> Node:
    """Apply a primitive: check shapes and formats, and compute the result now if the work is small (see ``compute_now.py``)."""
    limit = LOCAL.small
    if not limit or (ELSEWHERE and not _move_operands(inputs)):
        return _leave_pending(table.bind(op, *inputs, **params))
    key: list[Any] = [op]
    values = []
    for i in inputs:
        value = i.value
        if value is None or i.op is SCALAR:
            if value is None and i.op is not CONSTANT:
                return _leave_pending(table.bind(op, *inputs, **params))
            value = implementations.number(i.params["value"] if value is None else value, i.dtype)
        values.append(value)
        key.append(i.shape)
        key.append(i.dtype)
    if params:
        key.append(frozen(params))
    plan_key = tuple(key)
    plan = _PLANS.get(plan_key)
    if plan is None or plan.device is not execute.device():
        node = table.bind(op, *inputs, **params)
        if not _is_small(node) or not execute.computes_at_once():
            return _leave_pending(node)
        plan = _make_plan(node)
        _PLANS.put(plan_key, plan)
    elif plan.nbytes > limit:
        return _leave_pending(table.bind(op, *inputs, **params))
    node = _new(Node)
    node.op, node.inputs, node.shape, node.dtype = INPUT, (), plan.shape, plan.dtype
    node.where = node.holder = None
    node.params = plan.params
    for i in inputs:
        if i.params and i.shape == plan.shape and "reduced" in i.params and op.kind == "elementwise":
            node.params = i.params
    node.value = plan.run(values)
    return node


def _move_operands(inputs: tuple[Node, ...]) -> bool:
    return not any([i.value is None and i.op is not CONSTANT for i in inputs]) and execute.fetched(*inputs)


def _leave_pending(node: Node) -> Node:
    """Return a pending node. A LAPACK step that may raise is computed now, so that it raises here, as NumPy does."""
    if node.op.kind == "host" and node.op.raises and not LOCAL.inside:
        materialise((node,))
    return node


def _make_plan(node: Node) -> _EagerPlan:
    params = _NO_PARAMS
    if node.op.kind == "reduce" and not node.params.get("keepdims", True):
        params = {"reduced": (node.params["axes"], node.inputs[0].shape)}  # for messages about shapes that do not broadcast
    bare = Node(node.op, tuple([table.input_leaf(i.shape, i.dtype) for i in node.inputs]), node.params, node.shape, node.dtype)
    return _EagerPlan(node.shape, node.dtype, specialise(bare), node.nbytes, params)


def large(node: Node) -> bool:
    """Return whether an operation takes long although its result is small."""
    op = node.op
    if op.kind == "elementwise":
        limit = LOCAL.at_once
        return node.size * _MAX_ITEMSIZE > limit and any([i.nbytes > limit for i in node.inputs])
    if op.kind == "product":
        return op.cost is not None and op.cost(node).flops > 2 * WORK
    return op.kind in ("reduce", "running", "host") and bool(node.inputs) and node.inputs[0].size > WORK


def at_once_of(graph: Graph) -> list[Node]:
    """Return the operations of a graph that are computed immediately when its inputs have values."""
    available: set[Node] = {n for n in graph.order if n.op.kind == "leaf"}
    eager = []
    for node in graph.order:
        if node not in available and all([i in available for i in node.inputs]) and _is_small(node):
            available.add(node)
            eager.append(node)
    return eager


def _is_small(node: Node) -> bool:
    return node.nbytes <= LOCAL.at_once and implementations.can(node) and not large(node)
