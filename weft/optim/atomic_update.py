"""Atomic updates: several arrays are written together or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.array import Array, Scalar, ndarray
from weft.array.convert import assigned
from weft.array.indexing import broadcast_value
from weft.eager.materialise import proven
from weft.graph.node import Node

Writes = list[tuple[Array, Any]]  # (target, content)


def write_together(writes: Sequence[tuple[Array, Any]], others: Iterable[Array] = ()) -> None:
    """Write all contents, or none if any of them, or of ``others``, fails.

    Contents and ``others`` that may raise are computed before the first write.
    """
    for target, node in ready(writes, others):
        target._set(node)


def ready(writes: Sequence[tuple[Array, Any]], others: Iterable[Array] = ()) -> list[tuple[Array, Node]]:
    """Return each target with the node to write, after computing all nodes that may raise, ``others`` included."""
    nodes = [_convert_content(target, content) for target, content in writes]
    proven([*nodes, *[x.node for x in others]])
    return list(zip([target for target, _ in writes], nodes, strict=True))


def _convert_content(target: Array, content: Any) -> Node:
    """Return the content as a node with the target's dtype and shape."""
    current = target.node
    if target.read_only:
        target[...] = content  # raises
    if type(content) in (ndarray, Scalar):
        node = content.node
        if node.dtype is current.dtype and node.shape == current.shape:
            return node
    return broadcast_value(assigned(content, current.dtype), current.shape)
