"""Run a Graph: the one place where nodes become buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.graph.node import Graph, Shape


def run(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """One buffer an output; ``values`` are the buffers and numbers of ``graph.inputs``."""
    from weft.graph.interpret import interpret

    return interpret(graph, values)


def to_buffer(array: np.ndarray) -> Any:
    """A buffer with a copy of a NumPy array."""
    return np.array(array, order="C", copy=True)


def to_numpy(buffer: Any, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """A read-only view of a buffer."""
    out = np.asarray(buffer).reshape(shape)
    out = out.view()
    out.flags.writeable = False
    return out
