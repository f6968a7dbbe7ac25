"""Choose how pending nodes are computed: compiled, or one primitive at a time while their graph is new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from weft.devices.base import ELSEWHERE
from weft.devices.faults import OutOfRoom
from weft.eager import implementations, policy
from weft.graph.node import Graph, Node
from weft.graph.primitives.table import CONSTANT, SCALAR
from weft.process.bounded_cache import Recent
from weft.runtime import auto_device, execute
from weft.runtime.context import LOCAL

# Seconds on a processor of 3 GHz with AVX2. That they differ between machines moves the moment, not the results.
_NODE = 4e-6  # what Python takes for a node
_BYTE, _FLOP = 1 / 20e9, 1 / 80e9  # of one thread, in products
_SAVED = 0.6  # of the bytes: what fused kernels do not read and write
_PLAN, _ELEMENTS, _PRODUCT, _LEAST = 0.4e-3, 0.25e-3, 6e-3, 6e-3  # compiling: a node, one of elements, a product more, anything

_LOST = Recent(4096)  # hash of a graph's key -> seconds lost to it so far


def run(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """As :func:`weft.runtime.execute.run`; a graph that is new may run node by node, with the same bits."""
    if LOCAL.place is not LOCAL.device and LOCAL.watch is None:
        name = auto_device.device_of(graph, values)
        if name != "cpu":
            try:
                with execute.on(name):
                    return execute.run(graph, values)
            except OutOfRoom as error:
                auto_device.refused(graph, name, error)
    if not (LOCAL.patience and policy.possible() and execute.computes_at_once()):
        return execute.run(graph, values)
    key = execute.key_of(graph)
    found = execute.known(key)
    if found is not None or not can(graph.order):
        return execute.run(graph, values, found)
    short = hash(key)
    lost = (_LOST.get(short) or 0.0) + _loses(graph, execute.threads())
    if lost > LOCAL.patience * _compiling(graph):
        return execute.run(graph, values)
    _LOST.put(short, lost)
    try:
        return computed(graph.order, graph.outputs)
    except MemoryError:  # fused, it may need less
        return execute.run(graph, values)


def _pending(graph: Graph) -> list[Node]:
    return [n for n in graph.order if n.value is None and n.op is not CONSTANT and not n.op.view]


def _loses(graph: Graph, threads: int) -> float:
    """Seconds that a run node by node takes longer: by Python, by what is written and read again, and on one thread."""
    pending = _pending(graph)
    read = _BYTE * sum([n.nbytes + sum([i.nbytes for i in n.inputs]) for n in pending])
    alone = (1 - 1 / threads) * (read + _FLOP * sum(map(_flops, pending)))
    return _NODE * len(pending) + _SAVED * read + alone


def _flops(node: Node) -> int:
    return node.op.cost(node).flops if node.op.contracts and node.op.cost is not None else 0


def _compiling(graph: Graph) -> float:
    """Seconds to compile it."""
    pending = _pending(graph)
    elements = sum([n.op.kind == "elementwise" for n in pending])
    products = sum([n.op.contracts for n in pending])
    return max(_LEAST, _PLAN * (len(pending) - elements) + _ELEMENTS * elements + _PRODUCT * products)


def can(order: Iterable[Node]) -> bool:
    """Whether all that is pending in a graph can be computed so."""
    return all([n.value is not None or n.op is CONSTANT or implementations.can(n) for n in order])


def computed(order: Iterable[Node], outputs: Sequence[Node]) -> list[Any]:
    """The buffers of ``outputs``, each of memory of its own; memory is given back as soon as its last reader has read it.

    order : the nodes behind the outputs, operands first; leaves have values
    """
    asked = [(n, n.inputs) for n in order]  # inputs first: another thread may give a node its value now, and drop them
    pending = [(n, inputs) for n, inputs in asked if n.value is None and n.op is not CONSTANT]
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
                buffers[node] = buffer = execute.allocate(node.nbytes)
                contents[node] = out = execute.memory(buffer, node.shape, node.dtype)
                implementations.compute(node, operands, out)
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
    """What a node that has a value, or a number of the text, holds."""
    if node.op is CONSTANT:
        return np.asarray(node.params["value"], node.dtype.numpy)
    if ELSEWHERE:
        execute.here((node,))
    value = implementations.number(node.value, node.dtype) if node.op is SCALAR else node.value
    return execute.memory(value, node.shape, node.dtype)
