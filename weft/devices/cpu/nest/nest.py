"""The open function of a part: its loops as levels, its Envs, and functions that all plans share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import gcd

from weft.devices.cpu.emit.affine import first_mask
from weft.devices.cpu.emit.emit import Env, Level, emit_all_stores, emit_store, emit_value
from weft.devices.cpu.emit.emitter import key_of
from weft.devices.cpu.emit.isa import ISA, round_to_line
from weft.devices.cpu.emit.math import VECTOR_FUNCTIONS
from weft.devices.cpu.emit.storage_formats import load_scalar
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import llvm_type
from weft.dtypes.formats import Format
from weft.kernel.expressions import dependencies, roots, walk
from weft.kernel.ir import MACHINE_OPERATIONS, Access, Axis, Reduction, Stage, Store, Value
from weft.kernel.stages import Part

LOAD_NS = 0.15  # of one element from a near cache; MACHINE has the figures of operations
OTHER_NS = 0.05  # of constants, indices and finished accumulators


@dataclass(slots=True)
class ScratchLayout:
    """Argument slots and scratch offsets of a kernel."""

    slots: dict[int, int]  # buffer key -> args slot
    scalars: tuple[Format, ...]
    first_scalar: int
    scratch_slot: int
    offsets: dict[int, int] = field(default_factory=dict)  # buffer key -> bytes into scratch
    size: int = 0

    def reserve(self, nbytes: int) -> int:
        at = self.size
        self.size = at + round_to_line(nbytes)
        return at

    def states(self, r: Reduction, nbytes: int) -> int:
        """Return the offset of the states of a reduction's blocks, reserved on the first call."""
        key = (1 << 40) + r.id
        if key not in self.offsets:
            self.offsets[key] = self.reserve(nbytes)
        return self.offsets[key]


class Nest:
    """One function ``void(ptr context, i64 chunk, i64 worker)`` under construction."""

    def __init__(self, f: Function, m: Module, isa: ISA, layout: ScratchLayout, part: Part) -> None:
        self.f, self.m, self.isa, self.layout, self.part = f, m, isa, layout, part
        self.levels = [Level(f.lines)]
        self.base = Env(levels=self.levels)
        self.tally: Callable[[int, Env], None] | None = None  # merges the elements of the Env with a number into the tallies
        self._scratch: str | None = None
        self._tags = 0
        self.base.pairs.update(_adjacent_loads(part))
        if "+sse2" in isa.features.split(","):
            self.base.streamed = set()
        for v in walk(roots(part.stages)):
            if v.op == "load":
                self.buffer(v.attr)
            elif v.op == "scalar" and v.attr not in self.base.scalars:
                self.base.scalars[v.attr] = load_scalar(f, v.dtype, f.offset("%context", 8 * (layout.first_scalar + v.attr)))
            elif v.op == "check" and not self.base.record:
                self.base.record = f.argument(layout.scratch_slot + 1, "%context")
        for stage in part.stages:
            for s in stage.stores:
                self.buffer(s.access)

    # arguments

    def scratch(self, offset: int) -> str:
        if self._scratch is None:
            self._scratch = self.f.argument(self.layout.scratch_slot, "%context")
        return self.f.offset(self._scratch, offset)

    def buffer(self, access: Access) -> None:
        key = key_of(access.buffer)
        if key in self.base.pointers:
            return
        slot = self.layout.slots.get(key)
        self.base.pointers[key] = self.scratch(self.layout.offsets[key]) if slot is None else self.f.argument(slot, "%context")

    # loops

    @contextmanager
    def block(self, *axes: int | None, head: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Open a level without a loop; ``axes`` are fixed in it. ``head`` emits its first lines when it is complete."""
        outer = self.f.lines
        self.levels.append(Level([]))
        self.f.lines = lines = self.levels[-1].lines
        self.base.level_of.update({a: len(self.levels) - 1 for a in axes if a is not None})
        yield
        self.levels.pop()
        self.f.lines = outer
        head()
        outer.extend(lines)

    @contextmanager
    def loop(self, start: str | int, end: str | int, step: int = 1, axis: int | None = None) -> Iterator[str]:
        """Open a counting loop as a level; the counter becomes the name of ``axis``."""
        f = self.f
        counter = f.local("i64")
        head, body, done = (f.fresh_label(h) for h in ("head", "body", "done"))

        def enter() -> None:
            f.store("i64", str(start), counter)
            f.do(f"br label %{head}")
            f.label(head)

        with self.block(axis, head=enter):
            i = f.load("i64", counter)
            f.do(f"br i1 {f.let(f'icmp slt i64 {i}, {end}', 'c')}, label %{body}, label %{done}")
            f.label(body)
            if axis is not None:
                self.base.axes[axis] = i
            yield i
            f.store("i64", f.let(f"add i64 {i}, {step}", "i"), counter)
            f.do(f"br label %{head}")
            f.label(done)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        f = self.f
        then, done = f.fresh_label("then"), f.fresh_label("done")
        with self.block():  # hoisted code precedes the branch
            f.do(f"br i1 {condition}, label %{then}, label %{done}")
            f.label(then)
            yield
            f.do(f"br label %{done}")
            f.label(done)

    def split_index(self, index: str, axes: tuple[Axis, ...]) -> None:
        """Split a flat (row-major) index into ``axes``, at the innermost level."""
        level = len(self.levels) - 1
        rest = index
        for i, a in reversed(list(enumerate(axes))):
            if i == 0:
                name = rest
            else:
                name = self.f.let(f"urem i64 {rest}, {a.extent}", "i")
                rest = self.f.let(f"udiv i64 {rest}, {a.extent}", "i")
            self.base.axes[a.id] = name
            self.base.level_of[a.id] = level

    @contextmanager
    def loops(self, axes: tuple[Axis, ...]) -> Iterator[None]:
        """Open nested loops over all axes."""
        if not axes:
            yield
            return
        with self.loop(0, axes[0].extent, axis=axes[0].id), self.loops(axes[1:]):
            yield

    # environments

    def env(self, vector: int | None = None, lanes: int = 1, mask: str | None = None, shift: int = 0,
            accs: dict[int, str] | None = None, uniform: set[int] | None = None, minor: Axis | None = None) -> Env:
        """Return an Env of this nest, with a tag of its own: unrolled copies share no values that differ between them."""
        self._tags += 1
        b = self.base
        return Env(
            b.axes, vector, lanes, mask, b.accs if accs is None else accs, b.pointers, b.scalars, {},
            {vector: shift} if vector is not None and shift else {}, b.uniform if uniform is None else uniform,
            self.levels, b.level_of, b.acc_level, b.deps, self._tags, None if minor is None else minor.id,
            1 if minor is None else minor.extent, b.pairs, b.streamed, record=b.record,
        )

    def value(self, v: Value, env: Env) -> str:
        return emit_value(self.f, self.m, self.isa, v, env)

    def store(self, s: Store, env: Env) -> None:
        emit_store(self.f, self.m, self.isa, s, env)

    def store_all(self, stage: Stage, env: Env) -> None:
        emit_all_stores(self.f, self.m, self.isa, stage.stores, env)

    def export(self, r: Reduction, env: Env) -> None:
        """Store a finished accumulator in scratch if later parts read it."""
        target = self.part.exports.get(r.id)
        if target is None:
            return
        buffer, place = target
        access = Access(buffer, (place,))
        if key_of(buffer) not in self.base.pointers:
            saved, self.f.lines = self.f.lines, self.levels[0].lines
            self.buffer(access)
            self.f.lines = saved
        value = Value("acc", (), r.dtype, r.id)
        self.store(Store(access, value), env)
        self.base.memo.setdefault("keep", []).append(value)  # memos are keyed by id(), which must stay unique


def _adjacent_loads(part: Part) -> dict[tuple, int]:
    """Map each of two unguarded loads that differ by one element, (buffer, terms, constant), to the first one's constant."""
    constants: dict[tuple, list[int]] = {}
    for v in walk(roots(part.stages)):
        if v.op == "load" and not v.attr.guard:
            at = v.attr.flat()
            if not at.gather:
                constants.setdefault((key_of(v.attr.buffer), at.terms), []).append(at.const)
    out: dict[tuple, int] = {}
    for key, consts in constants.items():
        for c in sorted(set(consts)):
            if c - 1 in consts and out.get((*key, c - 1), c - 1) == c - 1:
                out[*key, c - 1] = out[*key, c] = c - 1
    return out


def vectors(
    n: Nest, axis: Axis, lanes: int, unroll: int, start: int, end: int, minor: Axis | None = None, may_repeat: bool = False,
) -> Iterator[list[Env]]:
    """Yield groups of Envs that cover [start, end) of an axis: full groups (in a loop), then the rest with a masked last vector.

    minor: an axis inside the lanes (see Env). may_repeat: the last vector may repeat elements instead of being masked.
    """
    if minor is not None:
        n.base.axes[minor.id] = "0"
    span = 1 if minor is None else minor.extent
    lanes //= span  # iterations of the axis per vector
    step = lanes * unroll

    def env(mask: str | None, shift: int) -> Env:
        if minor is not None:
            n.base.level_of[minor.id] = len(n.levels) - 1
        made = n.env(axis.id, lanes * span, mask, shift, minor=minor)
        made.alignment = gcd(step, start) if minor is None else 0
        return made

    main = start + (end - start) // step * step
    if may_repeat and unroll == 1 and start + step < main < end and minor is None:  # one body: the last vector starts earlier
        with n.loop(start, end, step) as k:
            n.base.axes[axis.id] = n.f.minimum(k, end - lanes)
            n.base.level_of[axis.id] = len(n.levels) - 1
            last = env(None, 0)
            last.alignment = gcd(step, end - lanes)
            yield [last]
        return
    if main > start:
        if main - start == step:
            with n.block(axis.id):
                n.base.axes[axis.id] = str(start)
                yield [env(None, u * lanes) for u in range(unroll)]
        else:
            with n.loop(start, main, step, axis.id):
                yield [env(None, u * lanes) for u in range(unroll)]
    left = end - main
    if left:
        with n.block(axis.id):
            n.base.axes[axis.id] = str(main)
            envs = [env(None, u * lanes) for u in range(left // lanes)]
            if left % lanes and may_repeat and end - start >= lanes:
                envs.append(env(None, left - lanes))
            elif left % lanes:
                envs.append(env(first_mask(lanes * span, left % lanes * span), left // lanes * lanes))
            yield envs


def lanes_for(isa: ISA, part: Part) -> int:
    """Return the lanes of the part's vectors: for 4-byte values if it has any or mixes sizes, else for its largest values."""
    sizes = set()
    for v in walk(roots(part.stages)):
        if v.op in ("index", "const", "scalar"):
            continue
        t = llvm_type(v.dtype)
        sizes.add({"float": 4, "double": 8, "i1": 1}.get(t) or int(t[1:]) // 8)
    if 4 in sizes or {1, 8} <= sizes or {2, 8} <= sizes:
        return isa.lanes(4)
    return isa.lanes(8 if 8 in sizes else max(sizes, default=4))


def estimate_ns(values: list[Value]) -> float:
    """Estimate the nanoseconds per element."""
    def operation_ns(op: str) -> float:
        return LOAD_NS if op == "load" else MACHINE_OPERATIONS[op].ns if op in MACHINE_OPERATIONS else OTHER_NS

    return sum(operation_ns(v.op) * (1 if v.dtype.bytes <= 4 else 2) for v in walk(values)) + 0.1


LONG = VECTOR_FUNCTIONS | {"philox", "philox_half"}


def instructions(values: list[Value], axis: int | None) -> int:
    """Estimate the instructions of one vector of these values; polynomials and lane-by-lane loads are long."""
    total = 0
    for v in walk(values):
        lanes = v.op == "load" and axis is not None and abs(_stride(v.attr, axis)) > 2
        total += 20 if v.op in LONG else 10 if lanes else 1
    return total


def strides_along(part: Part, axis: int) -> list[int]:
    """Return the coefficient of an axis in every load and store."""
    accesses = [v.attr for v in walk(roots(part.stages)) if v.op == "load"]
    accesses += [s.access for stage in part.stages for s in stage.stores]
    return [_stride(access, axis) for access in accesses]


def _stride(access: Access, axis: int) -> int:
    affine = access.flat()
    if any(axis in dependencies(v, {}) for v, _ in affine.gather):
        return 1 << 30
    return dict(affine.terms).get(axis, 0)
