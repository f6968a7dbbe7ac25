"""What a step writes, all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.array import Array, Scalar, ndarray
from weft.array.assignment import assigned
from weft.array.indexing import fitted
from weft.eager.materialise import proven
from weft.graph.node import Node

Writes = list[tuple[Array, Any]]  # where, and what


def write_together(writes: Sequence[tuple[Array, Any]], others: Iterable[Array] = ()) -> None:
    """Write all, after what may fail behind any of it, or behind ``others``, has been computed: an error leaves all as it was."""
    for target, node in ready(writes, others):
        target._set(node)


def ready(writes: Sequence[tuple[Array, Any]], others: Iterable[Array] = ()) -> list[tuple[Array, Node]]:
    """The same but for the writing: where, and what is to be held there, of which nothing can fail any more."""
    nodes = [_held(target, content) for target, content in writes]
    proven([*nodes, *[x.node for x in others]])
    return list(zip([target for target, _ in writes], nodes, strict=True))


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
