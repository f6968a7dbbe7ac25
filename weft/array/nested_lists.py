"""Nested lists of small arrays that have values, copied into one array at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.devices.base import ELSEWHERE
from weft.dtypes.formats import FROM_NUMPY, Format
from weft.eager import implementations
from weft.graph.node import Node
from weft.graph.primitives.table import CONSTANT, SCALAR, input_leaf
from weft.runtime import execute
from weft.runtime.context import LOCAL


def join_nodes(x: Any, nodes: Sequence[Node]) -> Node | None:
    """Nested lists that hold ``nodes``; None where not all are small, of one shape, and have values."""
    regular = _regular(x) if LOCAL.small and not ELSEWHERE else None
    return None if regular is None else _stacked(nodes, regular[0])


def join_arrays(x: Any) -> Node | None:
    """Nested lists of arrays of one dtype and shape, if all are small and have values; views are read where they lie."""
    regular = _regular(x) if LOCAL.small and not ELSEWHERE else None
    if regular is None or not regular[1]:
        return None
    extents, given = regular
    if not any([part._base is not None for part in given]):
        return _stacked([part._node for part in given], extents)
    memories: dict[Node, np.ndarray] = {}
    out = None
    for k, part in enumerate(given):
        node = part.cell._node
        memory = memories.get(node)
        if memory is None:
            if node.value is None or node.op is SCALAR or not execute.computes_at_once():
                return None
            memory = memories[node] = execute.memory(node.value, node.shape, node.dtype)
        seen = part._shown(memory)
        if seen is None or seen.nbytes > LOCAL.small:
            return None
        if out is None:
            out = np.empty((len(given), *seen.shape), seen.dtype)
        if seen.dtype != out.dtype or seen.shape != out.shape[1:]:
            return None
        out[k] = seen
    assert out is not None  # there is a part
    return _leaf_of(out, (*extents, *out.shape[1:]), FROM_NUMPY[out.dtype])


def _regular(x: Any) -> tuple[list[int], list[Any]] | None:
    """The extents of nested lists, and what they hold; None where lists of one depth differ in length or are beside others."""
    shape, level = [len(x)], list(x)
    while level and isinstance(level[0], list | tuple):
        extent = len(level[0])
        if any([not isinstance(item, list | tuple) or len(item) != extent for item in level]):
            return None
        shape.append(extent)
        level = [inner for item in level for inner in item]
    return None if any([isinstance(item, list | tuple) for item in level]) else (shape, level)


def _stacked(nodes: Sequence[Node], extents: list[int]) -> Node | None:
    """Nodes of one dtype and shape as an array of so many of them, if all are small and have values."""
    if not nodes or not nodes[0].size or nodes[0].nbytes > LOCAL.small:
        return None
    shape, dtype, values = nodes[0].shape, nodes[0].dtype, []
    for n in nodes:
        value = n.value
        if n.dtype is not dtype or n.shape != shape or (value is None and n.op is not CONSTANT):
            return None
        if value is None or n.op is SCALAR:
            value = implementations.number(n.params["value"] if value is None else value, dtype)
        values.append(value)
    data = execute.together(values) if execute.computes_at_once() else None
    return None if data is None else _leaf_of(np.frombuffer(data, dtype.numpy), (*extents, *shape), dtype)


def _leaf_of(array: np.ndarray, shape: tuple[int, ...], dtype: Format) -> Node:
    return input_leaf(shape, dtype, execute.to_buffer(array))
