"""Run a Graph: the one place where nodes become buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.graph.node import Graph, Shape


def run(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """One buffer an output; ``values`` are the buffers and numbers of ``graph.inputs``."""
    known: dict[Any, Any] = {n: np.asarray(v, n.dtype).reshape(n.shape) for n, v in zip(graph.inputs, values, strict=True)}
    for node in graph.order:
        if node in known:
            continue
        if node.op.name == "constant":
            known[node] = np.asarray(node.params["value"])
        else:
            assert node.op.reference is not None
            known[node] = np.asarray(node.op.reference(*(known[i] for i in node.inputs), **node.params))
    return [known[n] for n in graph.outputs]


def to_buffer(array: np.ndarray) -> Any:
    """A buffer with a copy of a NumPy array."""
    return np.array(array, order="C", copy=True)


def to_numpy(buffer: Any, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """A read-only view of a buffer."""
    out = np.asarray(buffer).reshape(shape)
    out = out.view()
    out.flags.writeable = False
    return out
