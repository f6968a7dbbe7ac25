"""The choice between compiling pending nodes and, while their graph is new, computing them one primitive at a time.

Views stay NumPy's views, and memory is freed after its last reader. If memory is short, the fused program is tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.devices.faults import OutOfDeviceMemory
from weft.dtypes.rounding import array_in
from weft.eager.implementations import IMPLEMENTATIONS, has_implementation, number
from weft.eager.policy import exceeds_work_limit
from weft.graph.calls import inline
from weft.graph.node import Graph, Node
from weft.graph.primitives.table import CONSTANT, SCALAR
from weft.process.bounded_cache import BoundedCache
from weft.runtime import auto_device, execute
from weft.runtime.context import CONTEXT

# Seconds on a 3 GHz processor with AVX2. Other machines switch to compiled code at another moment, with the same results.
_NODE = 4e-6  # of Python per node
_BYTE, _FLOP = 1 / 20e9, 1 / 80e9  # on one thread; flops of products
_FUSED_SHARE = 0.6  # share of the bytes that fused kernels neither read nor write
# to compile: a node, an elementwise node, a product, anything
_PLAN, _ELEMENTS, _PRODUCT, _COMPILE_LEAST = 0.4e-3, 0.25e-3, 6e-3, 6e-3

_LOST_SECONDS = BoundedCache(4096)  # hash of a graph's key -> seconds lost to it so far


def run(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """Run a graph like :func:`weft.runtime.execute.run`. A new graph may run node by node, with the same bits."""
    graph = inline(graph)
    if CONTEXT.placement is not CONTEXT.device and CONTEXT.profiler is None:
        name = auto_device.device_of(graph, values)
        if name != "cpu":
            try:
                with execute.on(name):
                    return execute.run(graph, values)
            except OutOfDeviceMemory as error:
                auto_device.record_shortage(graph, name, error)
    needs_program = CONTEXT.flush_denormals or CONTEXT.profiler is not None or CONTEXT.device is not None
    if needs_program or not CONTEXT.compile_threshold:
        return execute.run(graph, values)
    key = execute.key_of(graph)
    cached = execute.PROGRAMS.get(key)
    if cached is not None or not has_implementations(graph.order):
        return execute.run(graph, values, cached)
    digest = hash(key)
    lost = (_LOST_SECONDS.get(digest) or 0.0) + _estimate_loss(graph, execute.device().threads)
    if lost > CONTEXT.compile_threshold * _estimate_compilation(graph):
        return execute.run(graph, values)
    _LOST_SECONDS.put(digest, lost)
    try:
        return compute_nodes(graph.order, graph.outputs)
    except MemoryError:  # fused, the graph may need less memory
        return execute.run(graph, values)


def _pending(graph: Graph) -> list[Node]:
    return [n for n in graph.order if n.value is None and n.op is not CONSTANT and not n.op.view]


def _estimate_loss(graph: Graph, threads: int) -> float:
    """Return the seconds that a run node by node loses: to Python, to storing intermediates, and to running on one thread."""
    pending = _pending(graph)
    read = _BYTE * sum([n.nbytes + sum([i.nbytes for i in n.inputs]) for n in pending])
    unthreaded = (1 - 1 / threads) * (read + _FLOP * sum(map(_flops, pending)))
    return _NODE * len(pending) + _FUSED_SHARE * read + unthreaded


def _flops(node: Node) -> int:
    return node.op.cost(node).flops if node.op.contracts and node.op.cost is not None else 0


def _estimate_compilation(graph: Graph) -> float:
    """Return the seconds that compiling the graph takes."""
    pending = _pending(graph)
    elements = sum([n.op.kind == "elementwise" for n in pending])
    products = sum([n.op.contracts for n in pending])
    return max(_COMPILE_LEAST, _PLAN * (len(pending) - elements) + _ELEMENTS * elements + _PRODUCT * products)


def has_implementations(order: Iterable[Node]) -> bool:
    """Return whether all pending nodes of a graph have an eager implementation, with the bits of compiled code."""
    return all([n.value is not None or n.op is CONSTANT or (has_implementation(n) and not _may_round(n)) for n in order])


def _may_round(node: Node) -> bool:
    """Return whether compiled code may round the operands of a product to bfloat16, which eager code does not."""
    return node.params.get("precision") == "bfloat16" and exceeds_work_limit(node)


def compute_nodes(order: Iterable[Node], outputs: Sequence[Node]) -> list[Any]:
    """Compute nodes one at a time and return the buffers of ``outputs``, which share no memory. Memory is freed after its last
    reader.

    order : the nodes behind the outputs, operands first; leaves have values
    """
    snapshot = [(n, n.inputs) for n in order]  # inputs before values: another thread may set a value and drop the inputs
    pending = [(n, inputs) for n, inputs in snapshot if n.value is None and n.op is not CONSTANT]
    readers = Counter([i for _, inputs in pending for i in inputs])
    readers.update(outputs)
    contents: dict[Node, np.ndarray] = {}
    buffers: dict[Node, Any] = {}
    with np.errstate(all="ignore"):
        for node, inputs in pending:
            operands = [contents[i] if i in contents else content(i) for i in inputs]
            if node.op.view:
                assert node.op.reference is not None
                contents[node] = node.op.reference(*operands, **node.params)
            else:
                buffers[node] = buffer = execute.device().allocate(node.nbytes)
                contents[node] = out = execute.eager_device().memory(buffer, node.shape, node.dtype)
                IMPLEMENTATIONS[node.op.kind].compute(node, operands, out)
            del operands
            for i in inputs:
                readers[i] -= 1
                if not readers[i]:
                    contents.pop(i, None)
                    buffers.pop(i, None)
    return [
        buffers.pop(n) if n in buffers else execute.to_buffer(contents[n] if n in contents else content(n)) for n in outputs
    ]


def content(node: Node) -> np.ndarray:
    """Return the content of a materialised node or a constant, as a NumPy array."""
    if node.op is CONSTANT:
        return array_in(node.params["value"], node.dtype)
    if DEVICE_OF_BUFFER_TYPE:
        execute.move_leaves((node,))
    value = number(node.value, node.dtype) if node.op is SCALAR else node.value
    return execute.eager_device().memory(value, node.shape, node.dtype)
