"""What explain prints of a kernel: work, traffic, the user's lines, why its neighbours are other kernels."""

from __future__ import annotations

from typing import Any

from weft.graph.node import Node, user_line
from weft.schedule.fuse import Fused
from weft.schedule.kernel import Affine, Kernel
from weft.schedule.memory import loads, values_of
from weft.schedule.program import KernelInfo


def kernel_info(fused: Fused, lines: dict[Any, str]) -> KernelInfo:
    """``lines``: what user_line answered before, kept over the kernels of one Program."""
    kernel = fused.kernel
    assert kernel is not None
    flops = 0
    for node in fused.nodes:
        if node.op.cost is not None:
            flops += node.op.cost(node).flops
    where = dict.fromkeys(_line(n, lines) for n in fused.nodes if n.where is not None)
    boundary = dict.fromkeys(f"{r.consumer.op.name}: {r.reason}" for r in fused.boundaries)
    return KernelInfo(kernel.name, len(kernel.phases), flops, traffic(kernel), tuple(where), tuple(boundary))


def _line(node: Node, lines: dict[Any, str]) -> str:
    key = (id(node.where[0]), node.where[1])
    if key not in lines:
        lines[key] = user_line(node.where)
    return lines[key]


def traffic(kernel: Kernel) -> int:
    """Bytes: each element that is read or written once, whatever the number of times it is."""
    extents = {}
    for phase in kernel.phases:
        for axis in phase.axes:
            extents[axis.id] = axis.extent
        for stage in phase.stages:
            for name in ("axes", "batch", "m", "n", "k"):
                for axis in getattr(stage, name, ()):
                    extents[axis.id] = axis.extent
    patterns: dict[int, set[tuple]] = {}
    for phase in kernel.phases:
        for stage in phase.stages:
            everywhere = 1
            for name in ("axes", "batch", "m", "n", "k"):
                for axis in getattr(stage, name, ()):
                    everywhere *= axis.extent
            for axis in phase.axes:
                everywhere *= axis.extent
            accesses = [*loads(values_of(stage)), *(s.access for s in stage.stores)]
            for access in accesses:
                count = 1
                if any(a.gather for a in access.index):
                    count = everywhere
                else:
                    for axis in {a for i in access.index for a, _ in i.terms}:
                        count *= extents[axis]
                key = (count, *[_shape_of(i, extents) for i in access.index])
                patterns.setdefault(access.buffer.id, set()).add(key)
    total = 0
    for buffer in (*kernel.inputs, *kernel.outputs):
        size = 1
        for n in buffer.shape:
            size *= n
        total += min(size, sum(k[0] for k in patterns.get(buffer.id, ()))) * buffer.dtype.itemsize
    return total


def _shape_of(i: Affine, extents: dict[int, int]) -> tuple:
    """What an index covers, whatever its axes are called."""
    return (i.const, tuple(sorted((c, extents[a]) for a, c in i.terms)), len(i.gather))
