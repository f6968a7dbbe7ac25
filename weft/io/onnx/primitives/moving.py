"""Primitives that make arrays, move elements, or read and write at indices, as ONNX nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.io.onnx.primitives.table import LOWEST, export
from weft.io.onnx.writer import Traced, Writer


@export("reshape")
def _reshape(w: Writer, n: Traced, x: str) -> str:
    zeros = {"allowzero": 1} if 0 in n.shape else {}  # else a 0 would copy the extent of x
    return w.add("Reshape", x, w.ints(n, lambda m: m.shape), **zeros)


@export("permute")
def _permute(w: Writer, n: Traced, x: str) -> str:
    return w.add("Transpose", x, perm=list(n.params["axes"]))


@export("broadcast_to")
def _broadcast_to(w: Writer, n: Traced, x: str) -> str:
    return w.add("Expand", x, w.ints(n, lambda m: m.shape))


def _find_ends(node: Any) -> list[int]:
    ends = []
    for begin, by, count in zip(node.params["start"], node.params["step"], node.shape, strict=True):
        end = begin + by * count
        ends.append(LOWEST if by < 0 and end < 0 else end)
    return ends


@export("slice")
def _slice(w: Writer, n: Traced, x: str) -> str:
    axes = w.tensor(np.arange(len(n.shape), dtype=np.int64))
    steps = w.tensor(np.array(w.same_ints(n, lambda m: m.params["step"]), np.int64))
    return w.add("Slice", x, w.ints(n, lambda m: m.params["start"]), w.ints(n, _find_ends), axes, steps)


@export("pad")
def _pad(w: Writer, n: Traced, x: str) -> str:
    return w.add("Pad", x, w.ints(n, lambda m: m.params["low"] + m.params["high"]), w.number(n.params["value"], n))


@export("concat")
def _concat(w: Writer, n: Traced, *xs: str) -> str:
    return w.add("Concat", *xs, axis=n.params["axis"])


@export("iota")
def _iota(w: Writer, n: Traced) -> str:
    axis, rank = n.params["axis"], len(n.shape)
    counts = {node.shape[axis] for node in n.nodes}
    if len(counts) == 1:
        line = w.tensor(np.arange(n.shape[axis]).astype(n.dtype.numpy).reshape([-1 if d == axis else 1 for d in range(rank)]))
    else:
        count = w.add("Reshape", w.ints(n, lambda m: (m.shape[axis],)), w.tensor(np.zeros(0, np.int64)))
        steps = w.add("Range", w.tensor(np.array(0)), count, w.tensor(np.array(1)))
        line = w.add("Reshape", w.cast(steps, n.dtype.numpy), w.tensor(np.array([-1 if d == axis else 1 for d in range(rank)])))
    return line if rank == 1 else w.add("Expand", line, w.ints(n, lambda m: m.shape))


@export("slice_set")
def _slice_set(w: Writer, n: Traced, x: str, value: str) -> str:
    shape = w.same_ints(n, lambda m: m.inputs[1].shape)
    start, step = w.same_ints(n, lambda m: (m.params["start"], m.params["step"]))
    lines = [a + by * np.arange(c) for a, by, c in zip(start, step, shape, strict=True)]
    places = np.stack(np.meshgrid(*lines, indexing="ij"), -1).astype(np.int64)
    return w.add("ScatterND", x, w.tensor(places), value)


def _stack_indices(w: Writer, n: Traced, first: int, names: tuple[str, ...]) -> str:
    """Return index arrays broadcast and stacked along a new last axis."""
    def lead(node: Any) -> tuple[int, ...]:
        return np.broadcast_shapes(*(i.shape for i in node.inputs[first:]))

    shape = w.ints(n, lead)
    last = w.tensor(np.array([-1], np.int64))
    wide = [x if i.dtype.numpy == np.int64 else w.cast(x, np.int64) for i, x in zip(n.inputs[first:], names, strict=True)]
    return w.add("Concat", *(w.add("Unsqueeze", w.add("Expand", x, shape), last) for x in wide), axis=-1)


@export("gather")
def _gather(w: Writer, n: Traced, x: str, *indices: str) -> str:
    axes, rank = n.params["axes"], len(n.inputs[0].shape)
    rest = [d for d in range(rank) if d not in axes]
    if len(axes) == 1:
        (axis,) = axes
        index = n.inputs[1]
        name = indices[0] if index.dtype.numpy in (np.int32, np.int64) else w.cast(indices[0], np.int64)
        y = w.add("Gather", x, name, axis=axis)
        lead = len(index.shape)
        order = [*range(axis, axis + lead), *range(axis), *range(axis + lead, rank - 1 + lead)]
        return y if order == sorted(order) else w.add("Transpose", y, perm=order)
    order = [*axes, *rest]
    x = x if order == sorted(order) else w.add("Transpose", x, perm=order)
    return w.add("GatherND", x, _stack_indices(w, n, 1, indices))


@export("scatter")
def _scatter(w: Writer, n: Traced, x: str, updates: str, *indices: str) -> str:
    axes, rank = n.params["axes"], len(n.shape)
    order = [*axes, *(d for d in range(rank) if d not in axes)]
    moved = x if order == sorted(order) else w.add("Transpose", x, perm=order)
    how = "add" if n.params["mode"].startswith("add") else "none"
    y = w.add("ScatterND", moved, _stack_indices(w, n, 2, indices), updates, reduction=how)
    return y if order == sorted(order) else w.add("Transpose", y, perm=[order.index(d) for d in range(rank)])


@export("sort", "argsort")
def _sort(w: Writer, n: Traced, x: str) -> str:
    axis = n.params["axis"]
    count = w.ints(n, lambda m: (m.shape[axis],))
    values, places = w.add_many("TopK", [x, count], 2, axis=axis, largest=0, sorted=1)
    return values if n.node.op.name == "sort" else places
