"""What a step writes, all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.array import Array, Scalar, ndarray
from weft.assigned import assigned
from weft.graph.node import Node
from weft.indexing import fitted
from weft.look import proven

Writes = list[tuple[Array, Any]]  # where, and what


def write_together(writes: Sequence[tuple[Array, Any]], others: Iterable[Array] = ()) -> None:
    """Write all, after what may fail behind any of it, or behind ``others``, has been computed: an error leaves all as it was."""
    nodes = [_held(target, content) for target, content in writes]
    proven([*nodes, *[x.node for x in others]])
    for (target, _), node in zip(writes, nodes, strict=True):
        target._set(node)


def _held(target: Array, content: Any) -> Node:
    """The content as an array holds it."""
    have = target.node
    if target.read_only:
        target[...] = content  # is refused
    if type(content) in (ndarray, Scalar):
        node = content.node
        if node.dtype is have.dtype and node.shape == have.shape:
            return node
    return fitted(assigned(content, have.dtype), have.shape)
