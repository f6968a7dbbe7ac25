"""Nested lists of small materialised arrays, copied into one array immediately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.dtypes.formats import FROM_NUMPY, Format
from weft.eager import implementations
from weft.eager.peek import memory_of
from weft.eager.policy import is_enabled
from weft.graph.node import Node
from weft.graph.primitives.table import CONSTANT, SCALAR, input_leaf
from weft.runtime import execute
from weft.runtime.context import CONTEXT


def join_nodes(x: Any, nodes: Sequence[Node]) -> Node | None:
    """Return nested lists of ``nodes`` as one leaf; None if not all are small, materialised and of one shape."""
    regular = _read_regular(x) if is_enabled() and not DEVICE_OF_BUFFER_TYPE else None
    return None if regular is None else _stack(nodes, regular[0])


def join_arrays(x: Any) -> Node | None:
    """Return nested lists of arrays as one leaf; None if not all are small, materialised and of one dtype and shape. Views are
    read in place."""
    regular = _read_regular(x) if is_enabled() and not DEVICE_OF_BUFFER_TYPE else None
    if regular is None or not regular[1]:
        return None
    extents, items = regular
    if not any([part._base is not None for part in items]):
        return _stack([part._node for part in items], extents)
    memories: dict[Node, np.ndarray | None] = {}
    out = None
    for k, part in enumerate(items):
        node = part.cell._node
        memory = memories.get(node)
        if memory is None:
            memory = memories[node] = memory_of(node)
        view = None if memory is None else part._shown(memory)
        if view is None or view.nbytes > CONTEXT.eager_limit:
            return None
        if out is None:
            out = np.empty((len(items), *view.shape), view.dtype)
        if view.dtype != out.dtype or view.shape != out.shape[1:]:
            return None
        out[k] = view
    assert out is not None  # the list is not empty
    return _make_leaf(out, (*extents, *out.shape[1:]), FROM_NUMPY[out.dtype])


def _read_regular(x: Any) -> tuple[list[int], list[Any]] | None:
    """Return the extents and the items of nested lists; None if lists at one depth differ in length or are mixed with items."""
    shape, level = [len(x)], list(x)
    while level and isinstance(level[0], list | tuple):
        extent = len(level[0])
        if any([not isinstance(item, list | tuple) or len(item) != extent for item in level]):
            return None
        shape.append(extent)
        level = [inner for item in level for inner in item]
    return None if any([isinstance(item, list | tuple) for item in level]) else (shape, level)


def _stack(nodes: Sequence[Node], extents: list[int]) -> Node | None:
    """Return nodes of one dtype and shape, stacked in ``extents``, as a leaf; None if not all are small and materialised."""
    if not nodes or not nodes[0].size or nodes[0].nbytes > CONTEXT.eager_limit:
        return None
    shape, dtype, values = nodes[0].shape, nodes[0].dtype, []
    for n in nodes:
        value = n.value
        if n.dtype is not dtype or n.shape != shape or (value is None and n.op is not CONSTANT):
            return None
        if value is None or n.op is SCALAR:
            value = implementations.number(n.params["value"] if value is None else value, dtype)
        values.append(value)
    data = execute.eager_device().together(values)
    return None if data is None else _make_leaf(np.frombuffer(data, dtype.numpy), (*extents, *shape), dtype)


def _make_leaf(array: np.ndarray, shape: tuple[int, ...], dtype: Format) -> Node:
    return input_leaf(shape, dtype, execute.to_buffer(array))
