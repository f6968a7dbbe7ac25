"""Apply one operation: small work on materialised operands is computed now, everything else stays pending.

The array layer and the functions use this. Graph passes create nodes with ``primitives.table.bind``, which never computes.

The limits are measured. Up to 128 KB, eager execution beats fusion: 6 operations on 10,000 floats take 32 us here and 58 us
through a graph. At 340 KB, 12 operations on 65,000 floats take 93 us instead of 55, and slices of 256 KB, which are copied
first, 410 instead of 320. A decision is cached by primitive, parameters, shapes and formats; a hit evaluates no rule and finds
no source line.
"""

from __future__ import annotations

from typing import Any

from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.dtypes.formats import Format
from weft.eager import implementations
from weft.eager.implementations import Run, specialise
from weft.eager.materialise import materialise
from weft.eager.policy import can_run_now, is_small
from weft.graph.node import Node, Primitive, Shape, frozen
from weft.graph.primitives import table
from weft.graph.primitives.table import CONSTANT, INPUT, SCALAR
from weft.process.bounded_cache import BoundedCache
from weft.runtime.context import CONTEXT

_NO_PARAMS: dict[str, Any] = {}
_new = object.__new__


class _EagerPlan:
    """A cached plan: the type of the result and the function that computes it."""

    __slots__ = ("dtype", "nbytes", "params", "run", "shape")

    def __init__(self, shape: Shape, dtype: Format, run: Run, nbytes: int, params: dict[str, Any]) -> None:
        self.shape, self.dtype, self.run, self.nbytes, self.params = shape, dtype, run, nbytes, params


_PLANS = BoundedCache(4096)  # (primitive, params, shapes and formats of operands) -> _EagerPlan


def bind(op: Primitive, *inputs: Node, **params: Any) -> Node:
    """Apply a primitive: check shapes and formats, and compute the result now if the work is small (see ``compute_now.py``)."""
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
    node.where = node.holder = None
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
