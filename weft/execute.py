"""Run a Graph: the one place where the array layer meets schedule and runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.cell import LOCAL
from weft.errors import gib
from weft.graph.node import Graph, Node, Shape, user_line
from weft.graph.primitives.table import INPUT, SCALAR
from weft.recent import Recent
from weft.runtime import get_backend

# Someone who changes shapes for ever makes programs for ever. The last 1000 small ones are found again and at most 2000 kept,
# some 16 KB each, 40 MB in all; of large ones 64 and 128 MB by estimate, but never fewer than the last 16. That is far above
# what a program with fixed shapes needs.
PROGRAMS = Recent(64e6)
LEAST, NODE, STEP = 64e3, 1e3, 8e3  # bytes: of a node with its part of key and kernel, of a step with its code and table


def executable(graph: Graph) -> Callable[..., list[Any]]:
    """What runs a graph: ``f(inputs, held=None) -> buffers``. Made once for a graph's key, while that is in use."""
    if LOCAL.watch is not None:
        return LOCAL.watch.executable(graph)
    key = (graph.key(), LOCAL.flush)
    found = PROGRAMS.get(key)
    if found is None:
        from weft.schedule.build import build
        from weft.schedule.program import calls

        program = build(detached(graph))
        found = get_backend().compile(program, flush_denormals=LOCAL.flush)
        kernels = sum(1 for _ in calls(program))
        PROGRAMS.put(key, found, max(LEAST, NODE * len(graph.order) + STEP * (len(program.steps) + kernels)))
    return found


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
    try:
        return executable(graph)(list(values))
    except MemoryError as error:
        largest = max(graph.outputs, key=lambda n: n.nbytes)
        raise MemoryError(
            f"{user_line(largest.where)}: {error}; the largest result here has shape {largest.shape}, dtype "
            f"{largest.dtype.name} and {gib(largest.nbytes)}"
        ) from None


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
