"""Views: a path of slices, reshapes and permutations from a cell's content to what a handle shows of it.

Reading follows the path forwards; writing goes back along it, each step put back functionally.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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


def overlap(shape: Shape, first: Path, second: Path) -> bool:
    """Whether two views of one array of ``shape`` show an element in common; yes where that is hard to tell."""
    memory = np.empty(shape, np.int8)  # never touched: only its addresses count
    shown = [_addresses(memory, path) for path in (first, second)]
    if shown[0] is None or shown[1] is None:
        return True
    most: Any = 10_000  # steps of a search that can take very long
    try:
        return np.shares_memory(shown[0], shown[1], max_work=most)
    except np.exceptions.TooHardError:
        return True


def _addresses(memory: np.ndarray, path: Path) -> np.ndarray | None:
    """What the path shows, as NumPy's view of ``memory``; None where NumPy would have to copy."""
    for name, params in path:
        if name == "slice":
            places = zip(params["start"], params["step"], params["shape"], strict=True)
            memory = memory[tuple([_run(*place) for place in places])]
        elif name == "permute":
            memory = memory.transpose(params["axes"])
        elif memory.flags.c_contiguous or _long(memory.shape) == _long(params["shape"]):
            memory = memory.reshape(params["shape"])
        else:
            return None
    return memory


def _run(start: int, step: int, count: int) -> slice:
    stop = start + step * count
    return slice(start, None if stop < 0 else stop, step) if count else slice(0, 0)


def _long(shape: Shape) -> list[int]:
    return [n for n in shape if n != 1]
