"""Change the memory order of a kernel's arguments: the same computation on other addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from weft.dtypes.formats import Format
from weft.kernel.expressions import Rewriter, may_collide
from weft.kernel.ir import Access, Axis, Buffer, Contraction, Kernel, Phase, Stage, Store, Value, axis_index

RELAYOUT = "relay"  # the name of kernels that only copy an array into another memory order


def channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the order in which dimension 1 runs fastest; () if that is the row-major order."""
    if len(shape) < 3 or shape[1] <= 1 or prod(shape[2:]) <= 1:
        return ()
    return (0, *range(2, len(shape)), 1)


def reorder_memory(kernel: Kernel, orders: Mapping[int, tuple[int, ...]]) -> Kernel:
    """Return the kernel with some arguments in other memory orders: buffer id -> order.

    Loops that only store are reordered to follow the memory they write.
    """
    change = _BufferReorderer(orders)
    return Kernel(
        kernel.name, tuple([_phase(p, change) for p in kernel.phases]), tuple(map(change.buffer, kernel.inputs)),
        tuple(map(change.buffer, kernel.outputs)), kernel.scalars, kernel.scratch,
    )


class _BufferReorderer(Rewriter):
    def __init__(self, orders: Mapping[int, tuple[int, ...]]) -> None:
        super().__init__({})
        self._orders = orders

    def buffer(self, b: Buffer) -> Buffer:
        order = self._orders.get(b.id) if b.scope == "arg" else None
        return replace(b, order=order) if order else b

    def access(self, a: Access) -> Access:
        a, buffer = super().access(a), self.buffer(a.buffer)
        return a if buffer is a.buffer else Access(buffer, a.index, a.guard, a.fill)


def _phase(phase: Phase, change: _BufferReorderer) -> Phase:
    stages: list[Any] = []
    for s in phase.stages:
        stores = tuple(map(change.store, s.stores))
        if isinstance(s, Contraction):
            stages.append(replace(s, a=change.value(s.a), b=change.value(s.b), stores=stores))
        elif isinstance(s, Stage):  # chains of products read and write row-major arrays only
            stages.append(Stage(s.axes, tuple([replace(r, value=change.value(r.value)) for r in s.reductions]), stores))
    return Phase(_order_by_stores(phase.axes, stages), tuple(stages))


def _order_by_stores(axes: tuple[Axis, ...], stages: list[Any]) -> tuple[Axis, ...]:
    """Return the loops in the memory order of their largest ordered store, if iterations are independent; else ``axes``."""
    stores: list[Store] = [s for stage in stages for s in stage.stores]
    free = all(isinstance(stage, Stage) and not stage.axes and not stage.reductions for stage in stages)
    ordered = [s for s in stores if s.access.buffer.order]
    if not free or not ordered or any(s.adds or may_collide(s, axes) for s in stores):
        return axes
    widest = max(ordered, key=lambda s: s.access.buffer.dtype.bytes)
    steps = dict(widest.access.flat().terms)
    return tuple(sorted(axes, key=lambda a: -abs(steps.get(a.id, 0))))


def relay(shape: tuple[int, ...], dtype: Format) -> Kernel:
    """Return a kernel that copies a row-major array to channels-last order."""
    order = channels_last(shape)
    axes = tuple([Axis(d, n) for d, n in enumerate(shape)])
    index = tuple([axis_index(a) for a in axes])
    source, target = Buffer(0, dtype, shape), Buffer(1, dtype, shape, order=order)
    store = Store(Access(target, index), Value("load", (), dtype, Access(source, index)))
    return Kernel(RELAYOUT, (Phase(tuple([axes[d] for d in order]), (Stage((), (), (store,)),)),), (source,), (target,))
