"""Compute an operation now if its operands have values and its result is small.

The result has the same bits as that of a compiled kernel (``implementations.py``). Large results, operations on pending arrays,
and everything inside a trace, a gradient, a profile or ``flush_denormals`` stay pending.
"""

from __future__ import annotations

from typing import Any

from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.dtypes.formats import Format
from weft.eager import implementations, tiers
from weft.eager.implementations import IMPLEMENTATIONS
from weft.eager.policy import can_run_now, exceeds_work_limit
from weft.graph.node import Node, Primitive
from weft.graph.primitives.rules import find_reduction
from weft.graph.primitives.settings import ADD_MODES
from weft.graph.primitives.table import CONSTANT, INPUT, NODES_THAT_MAY_RAISE, SCALAR
from weft.runtime import execute
from weft.runtime.context import CONTEXT

_MAX_NODES = 24  # pending nodes computed with an operation; enough for the functions made of several primitives


def computed(node: Node) -> bool:
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
    (value,) = tiers.computed(order, (node,))
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
        if op.kind not in IMPLEMENTATIONS or exceeds_work_limit(n) or (op.kind == "scatter" and n.params["mode"] in ADD_MODES):
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


def joined(op: Primitive, x: Node, y: Node, like: Node, dtype: Format) -> Any:
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
    out = execute.allocator()(size * dtype.bytes or 1)
    if size:
        function(size, out.address, a.address, int(x.shape == like.shape), b.address, int(y.shape == like.shape))
    return out
