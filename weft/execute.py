"""Run a Graph: the one place where nodes become buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.graph.node import Graph, Node, Shape
from weft.graph.primitives.table import INPUT, SCALAR


def executable(graph: Graph) -> Callable[..., list[Any]]:
    """What runs a graph: ``f(inputs, held=None) -> buffers``. Made once for every key of a graph."""
    key = graph.key()
    found = _EXECUTABLES.get(key)
    if found is None:
        found = _EXECUTABLES[key] = _compile(graph)
    return found


_EXECUTABLES: dict[Any, Callable[..., list[Any]]] = {}


def _compile(graph: Graph) -> Callable[..., list[Any]]:
    from weft.graph.interpret import interpret

    skeleton = detached(graph)
    return lambda inputs, held=None: [np.array(x) for x in interpret(skeleton, inputs)]


def detached(graph: Graph) -> Graph:
    """A copy of the graph that holds no buffers, so that keeping it keeps no memory."""
    known: dict[Node, Node] = {}
    for node in graph.inputs:
        known[node] = Node(node.op if node.op is SCALAR else INPUT, (), {}, node.shape, node.dtype)
    for node in graph.order:
        if node not in known:
            inputs = tuple(known[i] for i in node.inputs)
            known[node] = Node(node.op, inputs, node.params, node.shape, node.dtype, node.where)
    return Graph([known[n] for n in graph.inputs], [known[n] for n in graph.outputs])


def run(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """One buffer an output; ``values`` are the buffers and numbers of ``graph.inputs``."""
    return executable(graph)(list(values))


def to_buffer(array: np.ndarray) -> Any:
    """A buffer with a copy of a NumPy array."""
    return np.array(array, order="C", copy=True)


def to_numpy(buffer: Any, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """A read-only view of a buffer."""
    out = np.asarray(buffer).reshape(shape)
    out = out.view()
    out.flags.writeable = False
    return out
