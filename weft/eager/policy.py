"""When small work is computed immediately.

Small work is computed by the CPU device: ``CONTEXT.eager_limit``, its limit in bytes, is 0 while another device is in use, and
inside traces, gradients and profiles and where denormals are flushed.
"""

from __future__ import annotations

from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.eager.implementations import has_implementation
from weft.graph.node import Graph, Node
from weft.graph.primitives.table import CONSTANT
from weft.runtime import execute
from weft.runtime.context import CONTEXT

MAX_WORK = 1 << 20  # steps of a product or a sum; beyond, compiled kernels and their threads pay off
_MAX_ITEMSIZE = 16  # bytes of the widest element


def is_enabled() -> bool:
    """Return whether this thread computes small work immediately."""
    return CONTEXT.eager_limit > 0


def can_run_now(nbytes: float, *operands: Node) -> bool:
    """Return whether work with a result of ``nbytes`` bytes is done now: eager work is enabled, the result is small, and each
    operand has a value or is a constant. Values on another device are moved here, unless one is too large to move for that."""
    limit = CONTEXT.eager_limit
    if not limit or nbytes > limit:
        return False
    for n in operands:
        if n.value is None and n.op is not CONSTANT:
            return False
    return not DEVICE_OF_BUFFER_TYPE or execute.move_if_small(*operands)


def is_small(node: Node) -> bool:
    """Return whether an operation is computed immediately if its operands have values and eager work is enabled."""
    return node.nbytes <= CONTEXT.max_eager_bytes and has_implementation(node) and not exceeds_work_limit(node)


def exceeds_work_limit(node: Node) -> bool:
    """Return whether an operation takes long although its result is small."""
    op = node.op
    if op.kind == "elementwise":
        limit = CONTEXT.max_eager_bytes
        return node.size * _MAX_ITEMSIZE > limit and any([i.nbytes > limit for i in node.inputs])
    if op.kind == "product":
        return op.cost is not None and op.cost(node).flops > 2 * MAX_WORK
    return op.kind in ("reduce", "running", "host") and bool(node.inputs) and node.inputs[0].size > MAX_WORK


def find_small(graph: Graph) -> list[Node]:
    """Return the operations of a graph that are computed immediately when its inputs have values."""
    available: set[Node] = {n for n in graph.order if n.op.kind == "leaf"}
    eager = []
    for node in graph.order if is_enabled() else ():
        if node not in available and all([i in available for i in node.inputs]) and is_small(node):
            available.add(node)
            eager.append(node)
    return eager
