"""Apply one operation: small work on materialised operands is computed now, everything else stays pending.

The array layer and the functions use this. Graph passes create nodes with ``primitives.table.bind``, which never computes.

The limits are measured. Up to 128 KB, eager execution beats fusion: 6 operations on 10,000 floats take 32 us here and 58 us
through a graph. At 340 KB, 12 operations on 65,000 floats take 93 us instead of 55, and slices of 256 KB, which are copied
first, 410 instead of 320. A decision is cached by primitive, parameters, shapes and formats; a hit evaluates no rule and finds
no source line. Results have the bits of compiled kernels (``implementations.py``). Operations on pending arrays stay pending, and
so does everything inside a trace, a gradient, a profile or ``flush_denormals``.
"""

from __future__ import annotations

from typing import Any

from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.dtypes.formats import Format
from weft.eager import implementations, tiers
from weft.eager.implementations import Run, has_implementation, specialise
from weft.eager.materialise import materialise
from weft.eager.policy import can_run_now, exceeds_work_limit, is_small
from weft.graph.node import Node, Primitive, Shape, frozen
from weft.graph.primitives import table
from weft.graph.primitives.rules import find_reduction
from weft.graph.primitives.settings import ADD_MODES
from weft.graph.primitives.table import CONSTANT, INPUT, NODES_THAT_MAY_RAISE, SCALAR
from weft.process.bounded_cache import BoundedCache
from weft.runtime import execute
from weft.runtime.context import CONTEXT

_MAX_NODES = 24  # pending nodes computed with an operation; enough for the functions made of several primitives
_NO_PARAMS: dict[str, Any] = {}
_new = object.__new__


class _EagerPlan:
    """A cached plan: the type of the result and the function that computes it."""

    __slots__ = ("dtype", "nbytes", "params", "run", "shape")

    def __init__(self, shape: Shape, dtype: Format, run: Run, nbytes: int, params: dict[str, Any]) -> None:
        self.shape, self.dtype, self.run, self.nbytes, self.params = shape, dtype, run, nbytes, params


_PLANS = BoundedCache(4096)  # (primitive, params, shapes and formats of operands) -> _EagerPlan


def bind(op: Primitive, *inputs: Node, **params: Any) -> Node:
    """Apply a primitive: check shapes and formats, and compute the result now if the work is small."""
    limit = CONTEXT.eager_limit
    if not limit or (DEVICE_OF_BUFFER_TYPE and not can_run_now(0, *inputs)):
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
    if plan is None:
        node = table.bind(op, *inputs, **params)
        if not is_small(node):
            return _leave_pending(node)
        plan = _make_plan(node)
        _PLANS.put(plan_key, plan)
    elif plan.nbytes > limit:
        return _leave_pending(table.bind(op, *inputs, **params))
    node = _new(Node)
    node.op, node.inputs, node.shape, node.dtype = INPUT, (), plan.shape, plan.dtype
    node.source_line = node.holder = None
    node.params = plan.params
    for i in inputs:
        if i.params and i.shape == plan.shape and "reduced" in i.params and op.kind == "elementwise":
            node.params = i.params
    node.value = plan.run(values)
    return node


def _leave_pending(node: Node) -> Node:
    """Return a pending node. A LAPACK step that may raise is computed now, so that it raises here, as NumPy does."""
    if node.op.kind == "host" and node.op.raises and not CONTEXT.transform_depth:
        materialise((node,))
    return node


def _make_plan(node: Node) -> _EagerPlan:
    params = _NO_PARAMS
    if node.op.kind == "reduce" and not node.params.get("keepdims", True):
        params = {"reduced": (node.params["axes"], node.inputs[0].shape)}  # for messages about shapes that do not broadcast
    bare = Node(node.op, tuple([table.input_leaf(i.shape, i.dtype) for i in node.inputs]), node.params, node.shape, node.dtype)
    return _EagerPlan(node.shape, node.dtype, specialise(bare), node.nbytes, params)


def compute_if_small(node: Node) -> bool:
    """Compute a pending node if it is small work on materialised operands. Return whether the node has its value now."""
    limit = CONTEXT.eager_limit
    if not limit or node.nbytes > limit:
        return False
    for i in node.inputs:
        if i.value is not None or not i.inputs:
            continue
        if (i.nbytes > limit and not i.op.view) or (i.holder is not None and i.op.kind != "shape"):  # the most frequent reason
            return False
    order = _eager_order(node, limit)
    if order is None or (
        DEVICE_OF_BUFFER_TYPE and not execute.move_if_small(*{i for n in order for i in n.inputs if i.value is not None})
    ):
        return False
    (value,) = tiers.compute_nodes(order, (node,))
    has_reduction = any([n.op.kind == "reduce" or any(["reduced" in i.params for i in n.inputs]) for n in order])
    reduced = find_reduction(node) if has_reduction else None
    node.value = value
    node.inputs = ()
    if node.op.raises:
        NODES_THAT_MAY_RAISE.discard(node)
    if reduced is not None:  # for messages about shapes that do not broadcast
        node.op, node.params = INPUT, {"reduced": reduced}
    return True


def _eager_order(node: Node, limit: int) -> list[Node] | None:
    """Return the pending nodes behind ``node``, operands first. Return None if one of them is not small work, or has to stay
    pending."""
    order: list[Node] = []
    done: set[Node] = set()
    stack = [node]
    while stack:
        n = stack[-1]
        if n in done:
            stack.pop()
            continue
        op = n.op
        if not has_implementation(n) or exceeds_work_limit(n) or (op.kind == "scatter" and n.params["mode"] in ADD_MODES):
            return None
        if n is not node and ((n.holder is not None and op.kind != "shape") or (n.nbytes > limit and not op.view)):
            return None
        waiting = [i for i in n.inputs if i.value is None and i.op is not CONSTANT and i not in done]
        if waiting:
            if len(stack) + len(order) > _MAX_NODES:
                return None
            stack += waiting
            continue
        stack.pop()
        done.add(n)
        order.append(n)
    return order


# ---- the fast path for two operands


def compute_pair(op: Primitive, x: Node, y: Node, like: Node, dtype: Format) -> Any:
    """Compute an operation on two materialised operands of one format, and of one shape unless one is a number. Return its
    buffer, or None if the work is not small. like : the operand that has the shape of the result"""
    size = 1
    for n in like.shape:
        size *= n
    function = None
    if can_run_now(size * x.dtype.bytes, x, y):
        function = implementations.elementwise_kernel(op, (x.dtype, x.dtype))
    if function is None:
        return None
    a, b = x.value, y.value
    if a is None or x.op is SCALAR:
        a = implementations.number(x.params["value"] if a is None else a, x.dtype)
    if b is None or y.op is SCALAR:
        b = implementations.number(y.params["value"] if b is None else b, y.dtype)
    out = execute.device().allocate(size * dtype.bytes or 1)
    if size:
        function(size, out.address, a.address, int(x.shape == like.shape), b.address, int(y.shape == like.shape))
    return out
