"""Run a Graph: the one place where the array layer meets schedule and runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.cell import LOCAL
from weft.graph.node import Graph, Node, Shape
from weft.graph.primitives.table import INPUT, SCALAR
from weft.runtime import get_backend

# Someone who changes shapes for ever makes programs for ever. The last 1024 kinds of graph are found again, and at most
# 2048 kept: some 20 KB each for small expressions, 40 MB in all. Far above what a program with fixed shapes needs.
KEPT = 1024
_RECENT: dict[Any, Callable[..., list[Any]]] = {}
_OLDER: dict[Any, Callable[..., list[Any]]] = {}


def executable(graph: Graph) -> Callable[..., list[Any]]:
    """What runs a graph: ``f(inputs, held=None) -> buffers``. Made once for a graph's key, while that is in use."""
    if LOCAL.watch is not None:
        return LOCAL.watch.executable(graph)
    key = (graph.key(), LOCAL.flush)
    found = _RECENT.get(key)
    if found is None:
        found = _OLDER.get(key)
        if found is None:
            from weft.schedule.build import build

            found = get_backend().compile(build(detached(graph)), flush_denormals=LOCAL.flush)
        _keep(key, found)
    return found


def _keep(key: Any, found: Callable[..., list[Any]]) -> None:
    """Two generations instead of an order of use: a look that finds its program among the recent pays nothing."""
    global _RECENT, _OLDER
    if len(_RECENT) >= KEPT:
        _OLDER, _RECENT = _RECENT, {}
    _RECENT[key] = found


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
    return get_backend().from_numpy(array)


def gathered(array: np.ndarray, rows: np.ndarray) -> Any:
    """A buffer with some rows of a NumPy array, copied once; the dtype is one of NumPy's own, ``rows`` lie within the array."""
    return get_backend().gather(array, rows)


def first(buffer: Any, dtype: np.dtype) -> Any:
    """The first element of a buffer, as a NumPy number."""
    return get_backend().first(buffer, dtype)


def to_numpy(buffer: Any, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """A read-only view of a buffer, which is never written from then on."""
    return get_backend().to_numpy(buffer, shape, dtype)


def synchronise() -> None:
    """Wait until everything that was started is done."""
    get_backend().synchronise()
