"""Views: a path of slices, reshapes and permutations from a cell's content to what a handle shows of it.

Reading follows the path forwards; writing goes back along it, each step put back functionally.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.graph.node import Node, Shape
from weft.graph.primitives.table import TABLE, bind

Step = tuple[str, dict[str, Any]]
Path = tuple[Step, ...]


def follow(node: Node, path: Path) -> Node:
    """What the path shows of ``node``."""
    for name, params in path:
        node = bind(TABLE[name], node, **params)
    return node


def put(node: Node, path: Path, value: Node) -> Node:
    """``node`` with ``value`` where the path leads."""
    if not path:
        return value
    seen = [node]
    for name, params in path[:-1]:
        seen.append(bind(TABLE[name], seen[-1], **params))
    for (name, params), behind in zip(reversed(path), reversed(seen), strict=True):
        if name == "slice":
            value = bind(TABLE["slice_set"], behind, value, start=params["start"], step=params["step"])
        elif name == "reshape":
            value = bind(TABLE["reshape"], value, shape=behind.shape)
        else:
            value = bind(TABLE["permute"], value, axes=inverse(params["axes"]))
    return value


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes ``axes``."""
    out = [0] * len(axes)
    for position, axis in enumerate(axes):
        out[axis] = position
    return tuple(out)


def reshape_step(shape: Shape) -> Step:
    return ("reshape", {"shape": shape})


def permute_step(axes: Sequence[int]) -> Step:
    return ("permute", {"axes": tuple(axes)})
