"""Checks a Kernel: what the printer prints is meant to run, and this says whether it can."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.dtypes.formats import BOOL, FLOAT32, FLOAT64, FLOATS, INT64, UINT32, Format
from weft.kernel.index import bounds
from weft.kernel.ir import MACHINE_OPERATIONS, Access, Affine, Axis, Chain, Contraction, Kernel, Phase, Store, Value, size_of
from weft.kernel.summation import accumulator_order

_COMPARE = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


class KernelError(AssertionError):
    """A kernel that breaks the rules of the IR: a bug in the fusion pass."""


def verify(kernel: Kernel) -> None:
    """Raise KernelError unless the kernel is well formed.

    Axis ids are unique and in scope where they are used; every access is in bounds, guards considered; dtypes
    of operands agree; a reduction is read only when it is complete; every element of an output is stored.
    """
    _Check(kernel).run()


class _Check:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.extents: dict[int, int] = {}
        self.buffers = {(b.id, b.scope): b for b in (*kernel.inputs, *kernel.outputs, *kernel.scratch)}
        self.complete: dict[int, Format] = {}
        self.written: dict[int, int] = {}
        self.scope: set[int] = set()
        self.empty = False
        self.seen: set[int] = set()

    def fail(self, why: str) -> None:
        raise KernelError(f"kernel {self.kernel.name}: {why}")

    def run(self) -> None:
        arguments = (*self.kernel.inputs, *self.kernel.outputs)
        if [b.id for b in arguments] != list(range(len(arguments))):
            self.fail("argument buffers are not numbered by position")
        for b in (*arguments, *self.kernel.scratch):
            if b.order and (sorted(b.order) != list(range(len(b.shape))) or b.scope != "arg"):
                self.fail(f"buffer {b.id} {b.shape} cannot lie in the order {b.order}")
        for phase in self.kernel.phases:
            self.phase(phase)
        for b in self.kernel.outputs:
            size = int(np.prod(b.shape))
            if self.written.get(b.id, 0) < size:
                self.fail(f"output {b.id} has {size} elements, {self.written.get(b.id, 0)} are stored")

    def axes(self, axes: tuple[Axis, ...]) -> set[int]:
        for a in axes:
            if self.extents.setdefault(a.id, a.extent) != a.extent:
                self.fail(f"axis {a.id} has two extents")
            self.empty = self.empty or a.extent == 0
        return {a.id for a in axes}

    def phase(self, phase: Phase) -> None:
        shared = self.axes(phase.axes)
        if len(shared) != len(phase.axes):
            self.fail("an axis twice in a phase")
        carried: dict[int, Format] = {}
        local: set[int] = set()
        for stage in phase.stages:
            self.seen = set()
            self.empty = any(a.extent == 0 for a in phase.axes)
            if isinstance(stage, Contraction):
                self.contraction(stage, shared)
                local.add(stage.id)
                continue
            if isinstance(stage, Chain):
                self.chain(stage, shared)
                continue
            self.scope = shared | self.axes(stage.axes)
            if len(self.scope) != len(shared) + len(stage.axes):
                self.fail("an axis is shared and a stage's own")
            for r in stage.reductions:
                want = shared | {a.id for a in stage.axes} if r.is_carried else {a.id for a in stage.axes}
                if {a.id for a in r.axes} != want:
                    self.fail(f"acc{r.id} is over {sorted(a.id for a in r.axes)}, its loops are {sorted(want)}")
                if r.is_carried and not shared:
                    self.fail(f"acc{r.id} is carried, but the phase has no shared axes")
                if r.value.dtype != r.accum:
                    self.fail(f"acc{r.id} accumulates {r.value.dtype} in {r.accum}")
                if r.order.block % r.order.lanes:
                    self.fail(f"acc{r.id}: its block is no multiple of its lanes")
                self.value(r.value)
            for r in stage.reductions:
                if r.id in self.complete or r.id in carried:
                    self.fail(f"acc{r.id} is defined twice")
                if r.is_carried:
                    carried[r.id] = r.dtype
                else:
                    self.complete[r.id] = r.dtype
                    local.add(r.id)
                    if not r.running and any(self.reads(s.value, r.id) for s in stage.stores):
                        self.fail(f"acc{r.id} is read in its own stage")
            for s in stage.stores:
                self.store(s, (*phase.axes, *stage.axes), () if phase.axes else stage.axes)
        for number in local:
            if shared:
                del self.complete[number]  # a row's result: gone with the row
        self.complete.update(carried)

    def contraction(self, c: Contraction, shared: set[int]) -> None:
        outer = (*c.batch, *c.m, *c.n)
        groups = [self.axes(g) for g in (c.batch, c.m, c.n, c.k)]
        for g, operand in ((groups[2], c.a), (groups[1], c.b)):
            self.scope = shared.union(*groups) - g
            self.value(operand)
        if c.order is not None and c.order.block % c.order.lanes:
            self.fail(f"acc{c.id}: its block is no multiple of its lanes")
        if c.accumulator is not None and c.order != accumulator_order(c.accumulator, size_of(c.k)):
            self.fail(f"acc{c.id} is rounded {c.accumulator} and has the order {c.order}")
        if c.a.dtype != c.b.dtype:
            self.fail(f"a product of {c.a.dtype} and {c.b.dtype}")
        self.scope = shared.union(*groups[:3])
        self.complete[c.id] = None  # type: ignore[assignment]
        self.seen = set()
        for s in c.stores:
            self.store(s, outer, ())

    def chain(self, c: Chain, shared: set[int]) -> None:
        """Numbers of the middle are read there alone; a row's, in its stores."""
        middle: set[int] = set()
        outer = shared | self.axes(c.batch)
        rows, columns = outer | self.axes(c.rows), outer | self.axes(c.columns)

        def read(scope: set[int], *values: Value) -> None:
            self.scope, self.seen = scope, set()
            for v in values:
                self.value(v)
                if v.dtype.computed is not c.accum:
                    self.fail(f"a chain sums {v.dtype} in {c.accum}")

        def made(number: int) -> None:
            if number in self.complete:
                self.fail(f"acc{number} is defined twice")
            self.complete[number] = c.accum

        for i in c.inner:
            k = self.axes(i.k)
            read(rows | k, i.a)
            read(columns | k, i.b)
        for i in c.inner:
            made(i.id)
            middle.add(i.id)
        self.scope = rows | columns
        for g in c.guards:
            self.affine(g[0])
        if c.softmax is not None:
            read(rows | columns, c.softmax.score)
            for number in (c.softmax.weight, c.softmax.top, c.softmax.total):
                made(number)
            middle.add(c.softmax.weight)
        for o in c.outer:
            n = self.axes(o.n)
            read(rows | columns, o.value)
            read((rows if o.sums_rows else columns) | n, o.b)
            if o.sums_rows and c.softmax is not None:
                self.fail("a row's total is not known while columns are summed over")
        held = {number: self.complete.pop(number) for number in middle}  # of no store's
        for o in c.outer:
            made(o.id)
            self.scope, self.seen = (columns if o.sums_rows else rows) | {a.id for a in o.n}, set()
            for s in o.stores:
                self.store(s, (*c.batch, *(c.columns if o.sums_rows else c.rows), *o.n), ())
            del self.complete[o.id]
        self.scope, self.seen = rows, set()
        for s in c.stores:
            self.store(s, (*c.batch, *c.rows), ())
        if held.keys() & self.complete.keys():
            self.fail("a number of the middle is defined twice")

    def reads(self, value: Value, number: int) -> bool:
        stack, seen = [value], set()
        while stack:
            v = stack.pop()
            if id(v) not in seen:
                seen.add(id(v))
                if v.op == "acc" and v.attr == number:
                    return True
                stack.extend(v.args)
        return False

    def store(self, s: Store, loops: tuple[Axis, ...], ordered: tuple[Axis, ...]) -> None:
        """``ordered``: loops that run one iteration after the other. What was stored before, a scatter's base, may be written
        several times over these, also where the position is known, because there is but one."""
        self.value(s.value)
        if s.mode not in ("set", "add", "own"):
            self.fail(f"store mode {s.mode!r}")
        if s.value.dtype != s.access.buffer.dtype:
            self.fail(f"a {s.value.dtype} is stored in {s.access.buffer.dtype}")
        if s.access.buffer not in self.kernel.outputs and s.access.buffer not in self.kernel.scratch:
            self.fail(f"buffer {s.access.buffer.id} is not an output")
        self.access(s.access)
        count = 1
        for a in loops:
            count *= a.extent
        used = {a for i in s.access.index for a, _ in i.terms}
        gathered = any(i.gather for i in s.access.index)
        if s.mode == "set" and not gathered:
            written = self.written.get(s.access.buffer.id, 0) >= int(np.prod(s.access.buffer.shape))
            for a in set(loops) - set(ordered if written else ()):
                if a.extent > 1 and a.id not in used:
                    self.fail(f"output {s.access.buffer.id} is stored {a.extent} times along axis {a.id}")
            if s.access.buffer.scope == "arg":
                self.written[s.access.buffer.id] = self.written.get(s.access.buffer.id, 0) + count

    def value(self, value: Value) -> None:
        stack = [value]
        while stack:
            v = stack.pop()
            if id(v) in self.seen:
                continue
            self.seen.add(id(v))
            stack.extend(v.args)
            if v.op == "load":
                if v.dtype != v.attr.buffer.dtype:
                    self.fail(f"a load of {v.attr.buffer.dtype} is called {v.dtype}")
                self.access(v.attr)
            elif v.op == "index":
                self.affine(v.attr)
            elif v.op == "acc":
                if v.attr not in self.complete:
                    self.fail(f"acc{v.attr} is read before it is complete")
                dtype = self.complete[v.attr]
                if dtype is not None and dtype != v.dtype:
                    self.fail(f"acc{v.attr} is {dtype}, read as {v.dtype}")
            elif v.op == "scalar":
                if not 0 <= v.attr < len(self.kernel.scalars) or self.kernel.scalars[v.attr] != v.dtype:
                    self.fail(f"scalar {v.attr} is not {v.dtype}")
            elif v.op == "check":
                if tuple([a.dtype for a in v.args]) != (INT64, BOOL) or v.dtype is not INT64:
                    self.fail("a check is of an int64 and a bool")
            elif v.op != "const":
                self.operation(v)

    def operation(self, v: Value) -> None:
        if v.op not in MACHINE_OPERATIONS:
            self.fail(f"{v.op!r} is not a machine operation")
        if len(v.args) != MACHINE_OPERATIONS[v.op].arity:
            self.fail(f"{v.op} with {len(v.args)} arguments")
        args = v.args[1:] if v.op == "select" else v.args
        if v.op.startswith("philox"):
            return
        if v.op.startswith("round_"):
            if args[0].dtype not in (FLOAT32, FLOAT64) or v.dtype not in FLOATS or any(a.dtype is not UINT32 for a in args[1:]):
                self.fail(f"{v.op} of {', '.join(a.dtype.name for a in v.args)} to {v.dtype}")
            return
        if any(a.dtype != args[0].dtype for a in args):
            self.fail(f"{v.op} of {', '.join(a.dtype.name for a in v.args)}")
        if v.op in _COMPARE:
            if v.dtype is not BOOL:
                self.fail(f"{v.op} gives {v.dtype}")
        elif v.op == "bitcast":
            if v.dtype.bytes != args[0].dtype.bytes:
                self.fail("a bitcast changes the width")
        elif v.op != "cast" and v.dtype != args[0].dtype:
            self.fail(f"{v.op} of {args[0].dtype} gives {v.dtype}")

    def affine(self, a: Affine) -> None:
        for axis, coef in a.terms:
            if axis not in self.scope:
                self.fail(f"axis {axis} is used outside of its loop")
            if coef == 0:
                self.fail("a term with coefficient 0")
        if list(a.terms) != sorted(a.terms):
            self.fail("terms are not sorted")
        for v, _ in a.gather:
            self.value(v)

    def access(self, access: Access) -> None:
        buffer = access.buffer
        if self.buffers.get((buffer.id, buffer.scope)) != buffer:
            self.fail(f"buffer {buffer.id} is not one of the kernel's")
        if len(access.index) != len(buffer.shape):
            self.fail(f"{len(access.index)} indices into {buffer.shape}")
        for i in access.index:
            self.affine(i)
        for g in access.guard:
            self.affine(g[0])
        if self.empty:
            return
        for i, n in zip(access.index, buffer.shape, strict=True):
            low, high = guarded_bounds(i, access.guard, self.extents)
            if low < 0 or high >= n:
                self.fail(f"an index of buffer {buffer.id} {buffer.shape} runs from {low} to {high}: {i}")


def guarded_bounds(
    i: Affine, guards: tuple[tuple[Affine, int, int], ...], extents: Mapping[int, int],
) -> tuple[float, float]:
    """Bounds of an index where all guards hold: the index is a multiple of a guard's and a rest, each with its bounds."""
    low, high = bounds(i, extents)
    for k, (g, lo, hi) in enumerate(guards):
        scale = _multiple(i, g)
        if not scale:
            continue
        ends = sorted((lo * scale, (hi - 1) * scale))
        rest = guarded_bounds(i.plus(g, -scale) if not g.gather else Affine(i.const - g.const * scale), guards[k + 1:], extents)
        low, high = max(low, ends[0] + rest[0]), min(high, ends[1] + rest[1])
    return low, high


def _multiple(i: Affine, g: Affine) -> int:
    """How often the guard's index is in the index, by its first term; with gathered parts both must be alike."""
    if g.gather or i.gather:
        if len(g.gather) != len(i.gather):
            return 0
        scale = i.gather[0][1] // g.gather[0][1]
        terms = tuple((a, c * scale) for a, c in g.terms)
        gathered = [(id(v), c * scale) for v, c in g.gather]
        return scale if i.terms == terms and [(id(v), c) for v, c in i.gather] == gathered else 0
    if not g.terms:
        return 0
    axis, coef = g.terms[0]
    return int(dict(i.terms).get(axis, 0) / coef)
