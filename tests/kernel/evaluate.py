"""Run a Kernel with NumPy, exactly by the IR's meaning, and count what it reads and writes.

The check on fusion: a kernel that fuse.py makes must give what the graph gives, and must touch each element
of its inputs and outputs as its `bytes` say. Small shapes only: every loop becomes an array dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.devices.faults import IndexFault
from weft.dtypes.formats import BOOL, FLOATS, INTEGERS
from weft.dtypes.rounding import convert_array, round_array
from weft.graph.primitives import TABLE
from weft.graph.primitives.philox import half_word, word
from weft.kernel.ir import (
    MACHINE_OPERATIONS,
    Access,
    Affine,
    Axis,
    Buffer,
    Chain,
    Contraction,
    Kernel,
    Phase,
    Reduction,
    Stage,
    Store,
    Value,
)
from weft.kernel.summation import add_products, contraction_order, correct_zero_signs, fma, fold_in_order, reduce_last, running

Array = Any


@dataclass(frozen=True, slots=True)
class Traffic:
    """Of one buffer. loads, stores: how many were made; touched: how many different elements they were of."""

    loads: int
    stores: int
    touched: int


def evaluate(
    kernel: Kernel, inputs: Sequence[np.ndarray], scalars: Sequence[Any] = (), shared: Sequence[tuple[int, int]] = (),
    operations: Mapping[str, Callable[..., Array]] | None = None,
) -> tuple[list[np.ndarray], list[Traffic]]:
    """Outputs of a kernel, and the traffic of each input and output buffer, in order.

    Parameters
    ----------
    kernel : Kernel
    inputs : arrays of the shapes and dtypes of ``kernel.inputs``
    scalars : numbers, one for each of ``kernel.scalars``
    shared : (input, output) positions that are one piece of memory; then iterations run one by one, and every loop
        reads for itself what it needs, as compiled kernels do. ``inputs`` are not written.
    operations : the machine operations as functions of arrays, NumPy's by default

    Raises
    ------
    IndexError
        An access is out of bounds, or a check does not hold. Elements that no store writes are left as a pattern (NaN or 77).
    """
    run = _Run(kernel, inputs, scalars, shared, NUMPY if operations is None else operations)
    with np.errstate(all="ignore"):
        for phase in kernel.phases:
            run.phase(phase)
    outputs = [shown(run.memory[b.id, "arg"], b) for b in kernel.outputs]
    traffic = []
    for b in (*kernel.inputs, *kernel.outputs):
        key = b.id, b.scope
        traffic.append(Traffic(run.loads.get(key, 0), run.stores.get(key, 0), int(run.touched[key].sum())))
    return outputs, traffic


def lying(a: np.ndarray, b: Buffer) -> np.ndarray:
    """An array as it lies in a buffer's memory."""
    return a.transpose(b.order) if b.order else a


def shown(memory: np.ndarray, b: Buffer) -> np.ndarray:
    """A buffer's memory, of any shape, as the array that it is."""
    memory = memory.reshape(b.memory_extents)
    return memory.transpose(np.argsort(b.order)) if b.order else memory


class _Run:
    def __init__(
        self, kernel: Kernel, inputs: Sequence[np.ndarray], scalars: Sequence[Any], shared: Sequence[tuple[int, int]],
        operations: Mapping[str, Callable[..., Array]],
    ) -> None:
        self.kernel = kernel
        self.operations = operations
        self.memory: dict[tuple[int, str], np.ndarray] = {}
        self.loads: dict[tuple[int, str], int] = {}
        self.stores: dict[tuple[int, str], int] = {}
        self.touched: dict[tuple[int, str], np.ndarray] = {}
        for b, a in zip(kernel.inputs, inputs, strict=True):
            if a.shape != b.shape or a.dtype != b.dtype.numpy:
                raise ValueError(f"input {b.id} is {a.dtype}{a.shape}, the kernel takes {b.dtype}{b.shape}")
            self.memory[b.id, b.scope] = lying(a, b)
        for b in (*kernel.outputs, *kernel.scratch):
            self.memory[b.id, b.scope] = np.full(b.memory_extents, _unwritten(b), b.dtype.numpy)
        for i, o in shared:
            given, made = kernel.inputs[i], kernel.outputs[o]
            memory = self.memory[i, "arg"] = np.array(lying(inputs[i], given), order="C")
            self.memory[made.id, "arg"] = memory.view(made.dtype.numpy).reshape(made.memory_extents)
            if given.dtype.bytes != made.dtype.bytes:
                raise ValueError(f"input {i} and output {o} do not fit into one piece of memory")
        self.stepwise = bool(shared)
        for key, a in self.memory.items():
            self.touched[key] = np.zeros(a.size, bool)
        self.scalars = [np.asarray(s, d.numpy)[()] for s, d in zip(scalars, kernel.scalars, strict=True)]
        self.accs: dict[int, tuple[tuple[int, ...], Array]] = {}  # acc id -> (axis ids, array over them)

    def phase(self, phase: Phase) -> None:
        own = any(isinstance(s, (Contraction, Chain)) for s in phase.stages)  # go through their own iterations
        if not self.stepwise or own:
            self._iterations(phase, {})
        else:
            rows: dict[int, Array] = {}
            for at in _points(phase.axes):
                for number, value in self._iterations(phase, at).items():
                    if number not in rows:
                        rows[number] = np.empty([a.extent for a in phase.axes], value.dtype)
                    rows[number][tuple(at.values())] = value
            if phase.axes:
                self.accs.update({number: (tuple(a.id for a in phase.axes), row) for number, row in rows.items()})
        done = {}  # what is reduced over shared axes: once all of their iterations are over
        for stage in phase.stages:
            if isinstance(stage, Stage):
                grid = _Grid(self, (*phase.axes, *stage.axes))
                done.update({r.id: self._reduce(grid, r, ()) for r in stage.reductions if r.is_carried})
        self.accs.update(done)

    def _iterations(self, phase: Phase, at: dict[int, int]) -> dict[int, Array]:
        """All iterations of the shared axes, or the one ``at`` a point; the reductions that stay within one."""
        made: dict[int, Array] = {}
        kept = () if at else phase.axes
        for stage in phase.stages:
            if isinstance(stage, Contraction):
                self._contraction(phase, stage)
                continue
            if isinstance(stage, Chain):
                self._chain(phase, stage)
                continue
            grid = _Grid(self, (*kept, *stage.axes), at)
            for r in stage.reductions:
                if not r.is_carried:
                    self.accs[r.id] = self._reduce(grid, r, kept)
                    if not r.running:
                        made[r.id] = self.accs[r.id][1]
            if not self.stepwise:
                for s in stage.stores:
                    grid.store(s)
                continue
            for own in _points(stage.axes):
                one = _Grid(self, (), at | own)
                for s in stage.stores:
                    one.store(s)
        return made

    def _reduce(self, grid: _Grid, r: Reduction, kept: tuple[Axis, ...]) -> tuple[tuple[int, ...], Array]:
        ids = [a.id for a in grid.axes]
        value = np.broadcast_to(grid.value(r.value), grid.shape)
        if r.value.dtype != r.accum and r.monoid not in ("argmax", "argmin"):
            raise TypeError(f"acc{r.id} reduces {r.value.dtype} in {r.accum}")
        order = [ids.index(a.id) for a in kept] + [ids.index(a.id) for a in r.axes]
        if len(order) != len(ids):
            raise ValueError(f"acc{r.id}: axes {[a.id for a in (*kept, *r.axes)]} are not the loops {ids}")
        flat = value.transpose(order).reshape([a.extent for a in kept] + [-1] if value.size else [a.extent for a in kept] + [0])
        if r.running:
            return (*[a.id for a in kept], r.axes[0].id), running(flat, r.monoid, r.accum.numpy).astype(r.dtype.numpy)
        return tuple(a.id for a in kept), np.asarray(reduce_in_order(flat, r)).astype(r.dtype.numpy)

    def _contraction(self, phase: Phase, c: Contraction) -> None:
        outer = (*phase.axes, *c.batch, *c.m, *c.n)
        grid = _Grid(self, (*outer, *c.k))
        a = np.broadcast_to(grid.value(c.a), grid.shape).astype(c.accum.numpy)
        b = np.broadcast_to(grid.value(c.b), grid.shape).astype(c.accum.numpy)
        shape = [x.extent for x in outer]
        a, b = a.reshape([*shape, -1]), b.reshape([*shape, -1])
        multiply_add = self.operations["fma"] if c.accum in FLOATS else lambda x, y, z: x * y + z

        def step(totals: Array, places: Array) -> Array:
            return multiply_add(a[..., places], b[..., places], totals)

        if c.accumulator is not None:
            total = add_products(tuple(shape), ((a[..., k], b[..., k], True) for k in range(a.shape[-1])), c.accumulator)
        else:
            total = fold_in_order(a.shape[-1], contraction_order(c), np.zeros(shape, c.accum.numpy), step, np.add)
        self.accs[c.id] = tuple(x.id for x in outer), total
        for at in _points(outer) if self.stepwise else ({},):
            inner = _Grid(self, () if self.stepwise else outer, at)
            for s in c.stores:
                inner.store(s)


    def _chain(self, phase: Phase, c: Chain) -> None:
        """In the simplest order: each sum is NumPy's, and the whole middle is an array."""
        outer, accum = (*phase.axes, *c.batch), c.accum.numpy
        whole = (*outer, *c.rows, *c.columns)
        columns = tuple(range(len(whole) - len(c.columns), len(whole)))

        def total(axes: tuple[Axis, ...], summed: tuple[Axis, ...], *values: Value, inside: Array | None = None) -> Array:
            grid = _Grid(self, (*axes, *summed))
            a, b = (np.broadcast_to(grid.value(v), grid.shape).astype(accum) for v in values)
            if inside is not None:
                a = np.where(grid.spread(inside, whole), a, 0)
            return (a * b).sum(axis=tuple(range(len(axes), len(grid.axes))), dtype=accum)

        for i in c.inner:
            self.accs[i.id] = tuple(x.id for x in whole), total(whole, i.k, i.a, i.b)
        grid = _Grid(self, whole)
        inside: Array = np.ones(grid.shape, bool)
        for a, lo, hi in c.guards:
            at = grid.affine(a)
            inside = inside & (lo <= at) & (at < hi)
        if c.softmax is not None:
            score = np.where(inside, np.broadcast_to(grid.value(c.softmax.score), grid.shape), -np.inf).astype(accum)
            top = score.max(axis=columns, initial=-np.inf)
            top = np.where(np.isneginf(top), 0, top).astype(accum)
            weight = np.exp(score - top.reshape(top.shape + (1,) * len(columns)))
            rows = tuple(x.id for x in (*outer, *c.rows))
            self.accs[c.softmax.weight] = tuple(x.id for x in whole), weight
            self.accs[c.softmax.top], self.accs[c.softmax.total] = (rows, top), (rows, weight.sum(axis=columns))
        for o in c.outer:
            kept, summed = (c.columns, c.rows) if o.sums_rows else (c.rows, c.columns)
            free = (*outer, *kept, *o.n)
            self.accs[o.id] = tuple(x.id for x in free), total(free, summed, o.value, o.b, inside=inside)
            for s in o.stores:
                _Grid(self, free).store(s)
        for s in c.stores:
            _Grid(self, (*outer, *c.rows)).store(s)


def reduce_in_order(flat: np.ndarray, r: Reduction) -> np.ndarray:
    """The last dimension merged in the order that ``r.order`` fixes."""
    return reduce_last(flat, r.monoid, r.accum.numpy, r.order)


def _points(axes: tuple[Axis, ...]) -> Iterator[dict[int, int]]:
    """Every iteration of some loops, in order."""
    for point in np.ndindex(*[a.extent for a in axes]):
        yield {a.id: i for a, i in zip(axes, point, strict=True)}


def _extreme(op: str) -> Callable[..., Array]:
    def extreme(a: Array, b: Array) -> Array:
        found = np.maximum(a, b) if op == "max" else np.minimum(a, b)
        if a.dtype.kind in "iub":
            return found
        return correct_zero_signs(op, found, np.signbit(a) & np.signbit(b), np.signbit(a) | np.signbit(b))

    return extreme


def _unwritten(b: Buffer) -> Any:
    return False if b.dtype is BOOL else 77 if b.dtype in INTEGERS else np.nan


class _Grid:
    """One loop nest: every Value is an array whose dimensions are the loops, in order."""

    def __init__(self, run: _Run, axes: tuple[Axis, ...], at: dict[int, int] | None = None) -> None:
        """``at``: where the loops stand that are not dimensions."""
        self.run = run
        self.at = at or {}
        self.axes = axes
        self.shape = tuple(a.extent for a in axes)
        self.place = {a.id: k for k, a in enumerate(axes)}
        self.memo: dict[int, Array] = {}

    def affine(self, a: Affine) -> Array:
        out: Array = np.full((1,) * len(self.axes), a.const, np.int64)
        for axis, coef in a.terms:
            if axis in self.at:
                out = out + coef * self.at[axis]
                continue
            shape = [1] * len(self.axes)
            shape[self.place[axis]] = -1
            out = out + coef * np.arange(self.shape[self.place[axis]]).reshape(shape)
        for value, coef in a.gather:
            out = out + coef * self.value(value)
        return out

    def spread(self, array: Array, axes: tuple[Axis, ...]) -> Array:
        """An array over some of the loops, beside values over all of them."""
        places = [self.place[a.id] for a in axes]
        shape = [1] * len(self.axes)
        for place, extent in zip(places, array.shape, strict=True):
            shape[place] = extent
        return array.transpose(np.argsort(places)).reshape(shape)

    def _where(self, access: Access) -> tuple[Array, Array]:
        """(flat offsets, whether memory is touched), over the loops the access depends on."""
        inside: Array = np.ones((1,) * len(self.axes), bool)
        for a, lo, hi in access.guard:
            i = self.affine(a)
            inside = inside & (lo <= i) & (i < hi)
        flat: Array = np.zeros((1,) * len(self.axes), np.int64)
        for a, n, stride in zip(access.index, access.buffer.shape, access.buffer.strides, strict=True):
            i = self.affine(a)
            if (inside & ((i < 0) | (i >= n))).any():
                raise IndexError(f"an access to buffer {access.buffer.id} {access.buffer.shape} is out of bounds: {access.index}")
            flat = flat + i * stride
        return tuple(np.broadcast_arrays(flat, inside))  # type: ignore[return-value]

    def load(self, access: Access) -> Array:
        key = access.buffer.id, access.buffer.scope
        flat, inside = self._where(access)
        run = self.run
        memory = np.ascontiguousarray(run.memory[key]).reshape(-1)
        run.loads[key] = run.loads.get(key, 0) + int(inside.sum())
        run.touched[key][flat[inside]] = True
        out = np.full(flat.shape, access.fill, access.buffer.dtype.numpy)
        out[inside] = memory[flat[inside]]
        return out

    def store(self, s: Store) -> None:
        key = s.access.buffer.id, s.access.buffer.scope
        value = np.broadcast_to(self.value(s.value), self.shape)
        if s.value.dtype != s.access.buffer.dtype:
            raise TypeError(f"a {s.value.dtype} is stored in a buffer of {s.access.buffer.dtype}")
        flat, inside = (np.broadcast_to(x, self.shape) for x in self._where(s.access))
        memory = self.run.memory[key].reshape(-1)  # made here, so contiguous: a view
        where = flat[inside]
        self.run.stores[key] = self.run.stores.get(key, 0) + where.size
        self.run.touched[key][where] = True
        if s.adds:
            for i, v in zip(where.reshape(-1), value[inside].reshape(-1), strict=True):
                memory[i] += v
        else:
            memory[where] = value[inside]

    def check(self, v: Value, index: Array, matters: Array) -> Array:
        inside = (index >= 0) & (index < v.attr.extent)
        wrong = np.broadcast_arrays(index, ~inside & matters)
        if v.attr.site is not None and wrong[1].any():
            raise IndexFault(v.attr.site, int(wrong[0][wrong[1]][0]))
        return np.where(inside, index, 0)

    def value(self, v: Value) -> Array:
        stack = [v]
        while stack:
            top = stack[-1]
            if id(top) in self.memo:
                stack.pop()
                continue
            missing = [a for a in top.args if id(a) not in self.memo]
            if missing:
                stack.extend(missing)
                continue
            self.memo[id(top)] = self._compute(top)
            stack.pop()
        return self.memo[id(v)]

    def _compute(self, v: Value) -> Array:
        one = (1,) * len(self.axes)
        if v.op == "load":
            return self.load(v.attr)
        if v.op == "const":
            return np.full(one, v.attr, v.dtype.numpy)
        if v.op == "scalar":
            return np.full(one, self.run.scalars[v.attr], v.dtype.numpy)
        if v.op == "index":
            return self.affine(v.attr)
        if v.op == "acc":
            ids, array = self.run.accs[v.attr]
            array = array.astype(v.dtype.numpy)  # a product's sum is rounded where it is read
            array = array[tuple([self.at.get(i, slice(None)) for i in ids])] if self.at else array
            ids = tuple([i for i in ids if i not in self.at])
            places = [self.place[i] for i in ids]
            shape = [1] * len(self.axes)
            for place, extent in zip(places, array.shape, strict=True):
                shape[place] = extent
            return array.transpose(np.argsort(places)).reshape(shape) if places else np.asarray(array).reshape(shape)
        args = [self.memo[id(a)] for a in v.args]
        if v.op == "check":
            return self.check(v, *args)
        if v.op == "cast":
            return convert_array(np.asarray(args[0]), v.dtype.numpy)
        if v.op.startswith("round_"):
            x, *words = np.broadcast_arrays(*args)
            return round_array(x, v.dtype, v.op.removeprefix("round_"), *words)
        if v.op == "bitcast":
            return np.array(args[0], order="C").view(v.dtype.numpy)
        if len({a.dtype for a in v.args[v.op == "select":]}) > 1 and not v.op.startswith("philox"):
            raise TypeError(f"{v.op} of {[str(a.dtype) for a in v.args]}")
        return np.asarray(self.run.operations[v.op](*args)).astype(v.dtype.numpy)


def _fma(a: Array, b: Array, c: Array) -> Array:
    if a.dtype == np.float32:
        return fma(a, b, c)
    wide = np.longdouble if a.dtype == np.float64 else np.float64
    return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(a.dtype)


def _shift(fn: Callable[..., Array], left: bool) -> Callable[..., Array]:
    def shift(a: Array, b: Array) -> Array:
        wide = (b < 0) | (b >= a.dtype.itemsize * 8)
        out = fn(a, np.where(wide, 0, b).astype(a.dtype))
        return np.where(wide, 0 if left else np.where(a < 0, -1, 0).astype(a.dtype), out)

    return shift


def _div(a: Array, b: Array) -> Array:
    return np.floor_divide(a, b) if a.dtype.kind in "iu" else np.divide(a, b)


# What machine operations mean in NumPy. Where a primitive has the operation's name, its reference says it.
NUMPY: dict[str, Callable[..., Array]] = {
    **{name: op.reference for name, op in TABLE.items() if name in MACHINE_OPERATIONS and op.reference is not None},
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _div, "floordiv": np.floor_divide, "rem": np.remainder,
    "min": _extreme("min"), "max": _extreme("max"), "neg": np.negative, "rint": np.rint,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "shl": _shift(np.left_shift, True), "shr": _shift(np.right_shift, False),
    "select": np.where, "fma": _fma, "philox": word, "philox_half": half_word,
}


