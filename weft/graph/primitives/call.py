"""Application of primitives by name, for derivatives and batching rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.dtypes.formats import Format
from weft.graph.node import Node, Shape
from weft.graph.primitives.table import TABLE, bind, constant


class _Calls:
    """``call.add(a, b)`` applies the primitive ``add``. The name is looked up at the call, so entries may refer to later ones."""

    def __getattr__(self, name: str) -> Callable[..., Node]:
        def apply(*nodes: Node, **params: Any) -> Node:
            return bind(TABLE[name], *nodes, **params)

        return apply


call = _Calls()


def number(value: Any, like: Node) -> Node:
    """Return a constant of shape () in the dtype of a node."""
    return constant(value, like.dtype)


def full(value: Any, shape: Shape, dtype: Format) -> Node:
    """Return a repeated constant. It costs no memory traffic once fused."""
    node = constant(value, dtype)
    return call.broadcast_to(node, shape=shape) if shape else node


def reshape(x: Node, shape: Shape) -> Node:
    return x if x.shape == shape else call.reshape(x, shape=shape)


def permute(x: Node, axes: tuple[int, ...]) -> Node:
    return x if axes == tuple(range(len(axes))) else call.permute(x, axes=axes)


def broadcast_to(x: Node, shape: Shape) -> Node:
    return x if x.shape == shape else call.broadcast_to(x, shape=shape)


def flip(x: Node, axes: tuple[int, ...]) -> Node:
    """Reverse some axes: a slice with step -1."""
    start = tuple(n - 1 if d in axes and n else 0 for d, n in enumerate(x.shape))
    step = tuple(-1 if d in axes else 1 for d in range(len(x.shape)))
    return call.slice(x, start=start, step=step, shape=x.shape) if axes else x


def slice_axis(x: Node, axis: int, start: int, stop: int) -> Node:
    """Return a range of x along one axis."""
    rank = len(x.shape)
    shape = tuple([stop - start if d == axis else n for d, n in enumerate(x.shape)])
    return call.slice(x, start=tuple([start if d == axis else 0 for d in range(rank)]), step=(1,) * rank, shape=shape)


def transpose(x: Node) -> Node:
    """Exchange the last two axes."""
    n = len(x.shape)
    return permute(x, (*range(n - 2), n - 1, n - 2))


def cast(x: Node, dtype: Format) -> Node:
    return x if x.dtype is dtype else call.cast(x, dtype=dtype)
