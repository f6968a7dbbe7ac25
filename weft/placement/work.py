"""What a kernel computes, counted in its own words: how often each machine operation runs, and what is multiplied.

A value is computed once for each place along the axes that it depends on. A costly one that several stages of a phase need is
kept between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from weft.kernel.expressions import access_values, axes_of, dependencies, each, read_first, stores_of
from weft.kernel.ir import LIBRARY_NS, MACHINE, Access, Axis, Chain, Contraction, Kernel, Phase, Stage, Store, Value, size_of

CALL_NS = 2.0  # of an operation, from which it is a call for each element and not a vector instruction
MOVE_NS = 0.015  # of reading or writing an element that lies near
FOLD_NS = 0.05  # of adding an element to a sum
DIVIDED_NS = 0.15  # of dividing an integer by a number of the text, which is a multiplication
ADDED_NS = 0.2  # of an element that is added to memory at an index of an array
RUNNING_NS = 0.5  # of an element of a running fold: each waits for the one before
APART_NS = 1.3  # of an element that is read or written across the order in which memory lies
APART = 16  # elements between neighbours, from which that is so
NEAR = 1 << 15  # bytes that lie in the nearest cache, where the order does not matter


@dataclass(frozen=True)
class Work:
    """Nanoseconds of one core, as :data:`weft.kernel.ir.MACHINE` tells them, by what they scale with.

    vectors : of vector instructions, which go as the peak of arithmetic does
    moves : of reading and writing what lies near, on a CPU
    calls : of functions of the C library, called for each element; called : how many calls
    waits : of what waits for itself or for memory, element by element, on a CPU
    products : (contraction or chain, operations) pairs
    """

    vectors: float
    moves: float
    calls: float
    called: int
    waits: float
    products: tuple[tuple[Contraction | Chain, int], ...]


@lru_cache(maxsize=4096)
def work_of(kernel: Kernel) -> Work:
    """Count a kernel's work."""
    counter = _Counter(kernel)
    for phase in kernel.phases:
        counter.count(phase)
    return Work(counter.vectors, counter.moves, counter.calls, counter.called, counter.waits, tuple(counter.products))


class _Counter:
    def __init__(self, kernel: Kernel) -> None:
        self.vectors = self.moves = self.calls = self.waits = 0.0
        self.called = 0
        self.products: list[tuple[Contraction | Chain, int]] = []
        self._free: dict[int, frozenset[int]] = {}  # the axes along which a sum has values
        self._known: dict[int, frozenset] = {}
        self._extents: dict[int, int] = {}
        for phase in kernel.phases:
            for stage in phase.stages:
                own = (*phase.axes, *axes_of(stage))
                self._extents.update({a.id: a.extent for a in own})
                self._sums(stage, phase.axes)

    def _sums(self, stage: Stage | Contraction | Chain, shared: tuple[Axis, ...]) -> None:
        """Note along which axes the sums of a stage have values."""

        def note(number: int, *groups: tuple[Axis, ...]) -> None:
            self._free[number] = frozenset([a.id for axes in groups for a in axes])

        if isinstance(stage, Contraction):
            note(stage.id, stage.batch, stage.m, stage.n)
        elif isinstance(stage, Chain):
            for i in stage.inner:
                note(i.id, stage.batch, stage.rows, stage.columns)
            if stage.softmax is not None:
                note(stage.softmax.weight, stage.batch, stage.rows, stage.columns)
                for number in (stage.softmax.top, stage.softmax.total):
                    note(number, stage.batch, stage.rows)
            for o in stage.outer:
                note(o.id, stage.batch, stage.columns if o.across else stage.rows, o.n)
        else:
            for r in stage.reductions:
                note(r.id, tuple([a for a in (*shared, *stage.axes) if a not in r.axes or r.running]))

    def count(self, phase: Phase) -> None:
        kept: set[int] = set()  # costly values that an earlier stage has computed
        for stage in phase.stages:
            counted, along = 1.0, None
            if isinstance(stage, (Contraction, Chain)):
                counted = 0.5 if isinstance(stage, Chain) and stage.where else 1.0  # half of a causal middle is left out
                self.products.append((stage, int(counted * multiplied(stage))))
                if isinstance(stage, Chain) and stage.softmax is not None:
                    self.vectors += counted * MACHINE["exp"].ns * size_of((*stage.batch, *stage.rows, *stage.columns))
            elif isinstance(stage, Stage) and not stage.reductions:
                along = _fastest(stage.stores, (*phase.axes, *stage.axes))
            self._values(stage, kept, along)
            if not isinstance(stage, Stage):
                continue
            times = size_of((*phase.axes, *stage.axes))
            for r in stage.reductions:
                if r.running:
                    self.waits += times * RUNNING_NS
                else:
                    self.vectors += times * FOLD_NS * _width(r.value)

    def _values(self, stage: Stage | Contraction | Chain, kept: set[int], along: int | None) -> None:
        """along : the axis along which the stage goes through memory, where that is known"""
        stores = stores_of(stage)
        roots = [*read_first(stage), *[s.value for s in stores], *[v for s in stores for v in access_values(s.access)]]
        for v in each(roots):
            if v.op in ("const", "scalar", "acc", "index") or id(v) in kept:
                continue
            times = prod([self._extents[a] for a in self._axes(v)])
            operation = MACHINE.get(v.op)
            if v.op == "load":
                self._access(v.attr, times, along)
            elif operation is None:  # a check of an index
                self.moves += times * MOVE_NS
            elif operation.ns <= FOLD_NS and not isinstance(stage, Stage):  # a cast of an operand, a bias: in the product's rate
                continue
            elif _divided(v):
                self.vectors += times * DIVIDED_NS * _width(v)
            elif operation.ns >= CALL_NS and v.op != "philox" or (v.op == "erf" and v.dtype.bytes > 4):
                self.calls += times * max(operation.ns, LIBRARY_NS if v.op == "erf" else 0.0)
                self.called += times
            else:
                self.vectors += times * operation.ns * _width(v)
            if operation is not None and operation.costly:
                kept.add(id(v))
        for s in stores:
            places = frozenset([a for a, _ in s.access.flat().terms])
            times = prod([self._extents[a] for a in self._axes(s.value) | places])
            self._access(s.access, times, along)
            if s.adds:
                self.waits += times * ADDED_NS

    def _access(self, access: Access, times: int, along: int | None) -> None:
        flat, nbytes = access.flat(), access.buffer.dtype.bytes
        if along is not None and abs(dict(flat.terms).get(along, 0)) >= APART and times * nbytes > NEAR:
            self.waits += times * APART_NS
        else:
            self.moves += times * MOVE_NS * (4 if flat.gather else 1) * (1 if nbytes <= 4 else 2)

    def _axes(self, v: Value) -> frozenset[int]:
        found: set[int] = set()
        for d in dependencies(v, self._known):
            if isinstance(d, tuple):
                found |= self._free.get(d[1], frozenset())
            else:
                found.add(d)
        return frozenset(found)


def multiplied(product: Contraction | Chain) -> int:
    """Operations of a product: each multiplication with its addition counts as two."""
    if isinstance(product, Chain):
        middle = size_of((*product.batch, *product.rows, *product.columns))
        return 2 * middle * sum([size_of(i.k) for i in product.inner] + [size_of(o.n) for o in product.outer])
    return 2 * size_of((*product.batch, *product.m, *product.n, *product.k))


def _fastest(stores: Sequence[Store], loops: Sequence[Axis]) -> int | None:
    """The axis along which the memory that a stage writes runs."""
    units = [a for s in stores for a, step in s.access.flat().terms if abs(step) == 1]
    return next((a for a in units if any(a == x.id for x in loops)), None)


def _divided(v: Value) -> bool:
    """Whether an integer is divided by a number that the text has."""
    return v.op in ("floordiv", "rem") and v.args[1].op == "const" and v.dtype.kind in ("signed", "unsigned")


def _width(v: Value) -> int:
    return 1 if v.dtype.bytes <= 4 else 2
