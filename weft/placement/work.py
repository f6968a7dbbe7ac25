"""Count the work of a kernel: how often each machine operation runs, and the size of its products.

A value is computed once for each position along the axes that it depends on. A costly value that several stages of a phase need
is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from weft.kernel import ir
from weft.kernel.expressions import access_values, axes_of, dependencies, each, stores_of, values_outside_stores

CALL_NS = 2.0  # cost from which an operation is a call for each element and not a vector instruction
MOVE_NS = 0.015  # reading or writing an element in the nearest cache
FOLD_NS = 0.05  # adding an element to a sum
DIVIDED_NS = 0.15  # dividing an integer by a constant, which is a multiplication
ADDED_NS = 0.2  # adding an element to memory at a gathered index
RUNNING_NS = 0.5  # an element of a running fold: each waits for the previous one
STRIDED_NS = 1.3  # reading or writing an element with a large stride
LARGE_STRIDE = 16  # stride in elements from which APART_NS applies
CACHE_BYTES = 1 << 15  # bytes that fit into the nearest cache, where strides do not matter


@dataclass(frozen=True)
class Work:
    """Nanoseconds of one core, on the scale of :data:`weft.kernel.ir.MACHINE_OPERATIONS`, by the resource they scale with.

    vectors: vector instructions; they scale with the peak of arithmetic.
    moves: reads and writes of near memory, on a CPU.
    calls: functions of the C library, called for each element. called: the number of calls.
    waits: dependent or memory-latency-bound steps, element by element, on a CPU.
    products: (contraction or chain, operations) pairs.
    """

    vectors: float
    moves: float
    calls: float
    called: int
    waits: float
    products: tuple[tuple[ir.Contraction | ir.Chain, int], ...]


@lru_cache(maxsize=4096)
def work_of(kernel: ir.Kernel) -> Work:
    """Return the work of a kernel."""
    counter = _Counter(kernel)
    for phase in kernel.phases:
        counter.count(phase)
    return Work(counter.vectors, counter.moves, counter.calls, counter.called, counter.waits, tuple(counter.products))


class _Counter:
    def __init__(self, kernel: ir.Kernel) -> None:
        self.vectors = self.moves = self.calls = self.waits = 0.0
        self.called = 0
        self.products: list[tuple[ir.Contraction | ir.Chain, int]] = []
        self._free: dict[int, frozenset[int]] = {}  # sum id -> axes along which the result varies
        self._dependencies: dict[int, frozenset] = {}
        self._extents: dict[int, int] = {}
        for phase in kernel.phases:
            for stage in phase.stages:
                own = (*phase.axes, *axes_of(stage))
                self._extents.update({a.id: a.extent for a in own})
                self._record_sums(stage, phase.axes)

    def _record_sums(self, stage: ir.Stage | ir.Contraction | ir.Chain, shared: tuple[ir.Axis, ...]) -> None:
        """Record the axes along which the results of a stage's sums vary."""

        def record(number: int, *groups: tuple[ir.Axis, ...]) -> None:
            self._free[number] = frozenset([a.id for axes in groups for a in axes])

        if isinstance(stage, ir.Contraction):
            record(stage.id, stage.batch, stage.m, stage.n)
        elif isinstance(stage, ir.Chain):
            for i in stage.inner:
                record(i.id, stage.batch, stage.rows, stage.columns)
            if stage.softmax is not None:
                record(stage.softmax.weight, stage.batch, stage.rows, stage.columns)
                for number in (stage.softmax.top, stage.softmax.total):
                    record(number, stage.batch, stage.rows)
            for o in stage.outer:
                record(o.id, stage.batch, stage.columns if o.sums_rows else stage.rows, o.n)
        else:
            for r in stage.reductions:
                record(r.id, tuple([a for a in (*shared, *stage.axes) if a not in r.axes or r.running]))

    def count(self, phase: ir.Phase) -> None:
        kept: set[int] = set()  # costly values that an earlier stage of the phase computes
        for stage in phase.stages:
            share, along = 1.0, None
            if isinstance(stage, (ir.Contraction, ir.Chain)):
                # a causal mask skips half of the intermediate matrix
                share = 0.5 if isinstance(stage, ir.Chain) and stage.where else 1.0
                self.products.append((stage, int(share * multiplied(stage))))
                if isinstance(stage, ir.Chain) and stage.softmax is not None:
                    weights = ir.size_of((*stage.batch, *stage.rows, *stage.columns))
                    self.vectors += share * ir.MACHINE_OPERATIONS["exp"].ns * weights
            elif isinstance(stage, ir.Stage) and not stage.reductions:
                along = _fastest_axis(stage.stores, (*phase.axes, *stage.axes))
            self._count_values(stage, kept, along)
            if not isinstance(stage, ir.Stage):
                continue
            times = ir.size_of((*phase.axes, *stage.axes))
            for r in stage.reductions:
                if r.running:
                    self.waits += times * RUNNING_NS
                else:
                    self.vectors += times * FOLD_NS * _width(r.value)

    def _count_values(self, stage: ir.Stage | ir.Contraction | ir.Chain, kept: set[int], along: int | None) -> None:
        """Count the operations of a stage. along: the axis along which the stage steps through memory, if known."""
        stores = stores_of(stage)
        roots = [*values_outside_stores(stage), *[s.value for s in stores], *[v for s in stores for v in access_values(s.access)]]
        for v in each(roots):
            if v.op in ("const", "scalar", "acc", "index") or id(v) in kept:
                continue
            times = prod([self._extents[a] for a in self._axes_of(v)])
            operation = ir.MACHINE_OPERATIONS.get(v.op)
            if v.op == "load":
                self._count_access(v.attr, times, along)
            elif operation is None:  # an index check
                self.moves += times * MOVE_NS
            # casts of operands and biases are included in the product's rate
            elif operation.ns <= FOLD_NS and not isinstance(stage, ir.Stage):
                continue
            elif _divides_by_constant(v):
                self.vectors += times * DIVIDED_NS * _width(v)
            elif operation.ns >= CALL_NS and v.op != "philox" or (v.op == "erf" and v.dtype.bytes > 4):
                self.calls += times * max(operation.ns, ir.LIBRARY_NS if v.op == "erf" else 0.0)
                self.called += times
            else:
                self.vectors += times * operation.ns * _width(v)
            if operation is not None and operation.costly:
                kept.add(id(v))
        for s in stores:
            places = frozenset([a for a, _ in s.access.flat().terms])
            times = prod([self._extents[a] for a in self._axes_of(s.value) | places])
            self._count_access(s.access, times, along)
            if s.adds:
                self.waits += times * ADDED_NS

    def _count_access(self, access: ir.Access, times: int, along: int | None) -> None:
        flat, nbytes = access.flat(), access.buffer.dtype.bytes
        if along is not None and abs(dict(flat.terms).get(along, 0)) >= LARGE_STRIDE and times * nbytes > CACHE_BYTES:
            self.waits += times * STRIDED_NS
        else:
            self.moves += times * MOVE_NS * (4 if flat.gather else 1) * (1 if nbytes <= 4 else 2)

    def _axes_of(self, v: ir.Value) -> frozenset[int]:
        axes: set[int] = set()
        for d in dependencies(v, self._dependencies):
            if isinstance(d, tuple):
                axes |= self._free.get(d[1], frozenset())
            else:
                axes.add(d)
        return frozenset(axes)


def multiplied(product: ir.Contraction | ir.Chain) -> int:
    """Return the operations of a product: a multiplication with its addition counts as two."""
    if isinstance(product, ir.Chain):
        middle = ir.size_of((*product.batch, *product.rows, *product.columns))
        return 2 * middle * sum([ir.size_of(i.k) for i in product.inner] + [ir.size_of(o.n) for o in product.outer])
    return 2 * ir.size_of((*product.batch, *product.m, *product.n, *product.k))


def _fastest_axis(stores: Sequence[ir.Store], loops: Sequence[ir.Axis]) -> int | None:
    """Return the loop along which the memory written by a stage is contiguous, or None."""
    units = [a for s in stores for a, step in s.access.flat().terms if abs(step) == 1]
    return next((a for a in units if any(a == x.id for x in loops)), None)


def _divides_by_constant(v: ir.Value) -> bool:
    """Return whether an integer is divided by a constant of the kernel."""
    return v.op in ("floordiv", "rem") and v.args[1].op == "const" and v.dtype.kind in ("signed", "unsigned")


def _width(v: ir.Value) -> int:
    return 1 if v.dtype.bytes <= 4 else 2
