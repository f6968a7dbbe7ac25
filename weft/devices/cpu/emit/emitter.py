"""Emitter, the base class that places the code of values: before which loop, as a scalar or a vector, and which are reused.

An Env names the axes, accumulators, buffers and scalars of an iteration, and the open loops.

Levels. A nest of loops is written from inside out: each open loop has a Level with its own list of lines, and the loop's text is
appended to the outer level's list when the loop closes. Lines appended to an outer level's list therefore precede the loop: a
value that does not depend on the loop is emitted there, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import llvm_type
from weft.kernel.expressions import dependencies, operands
from weft.kernel.ir import Buffer, Value

T = TypeVar("T")


@dataclass(slots=True)
class Level:
    """One open loop or block: its lines and the values emitted in it."""

    lines: list[str]
    memo: dict = field(default_factory=dict)


@dataclass(slots=True)
class Env:
    """One iteration (or ``lanes`` neighbouring ones along the axis ``vector``).

    axes: axis id -> i64 SSA name or integer text; for the vector axis the index of lane 0.
    offsets: constants added to axes; unrolled copies that differ only here share addresses.
    mask: SSA <lanes x i1>, or None for all lanes.
    accs: accumulator id -> SSA value; a vector, or a scalar if the id is in ``uniform``.
    pointers: buffer key (see :func:`key_of`) -> SSA pointer. scalars: number -> SSA value.
    memo: the values emitted so far (if ``levels`` is None).
    levels: open loops, outermost first; level_of: axis id -> its level; acc_level: the same for accumulators.
    tag: identifies the unrolled copy; copies share values that do not depend on the vector axis.
    minor, span: an axis of extent ``span`` inside the lanes: lane l is iteration l // span of the vector axis and l % span of
    this axis (whose entry in axes is "0").
    transposed_axis: an axis whose next ``lanes`` iterations are Envs of their own, distinguished by its offset. A load along it
    reads a square of memory in rows, which are transposed in registers.
    alignment: the vector axis starts at multiples of it, offsets and constants aside. 0: of the lanes.
    streamed: None, or a set to which a store that bypasses the caches adds True (the function then ends with a fence).
    pairs: (buffer, terms, constant) -> constant of the first of two neighbouring loads at stride 2.
    record: pointer of the fault record, "" if nothing is checked.
    """

    axes: dict[int, str] = field(default_factory=dict)
    vector: int | None = None
    lanes: int = 1
    mask: str | None = None
    accs: dict[int, str] = field(default_factory=dict)
    pointers: dict[int, str] = field(default_factory=dict)
    scalars: dict[int, str] = field(default_factory=dict)
    memo: dict = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    uniform: frozenset[int] | set[int] = frozenset()
    levels: list[Level] | None = None
    level_of: dict[int, int] = field(default_factory=dict)
    acc_level: dict[int, int] = field(default_factory=dict)
    deps: dict[int, frozenset] = field(default_factory=dict)
    tag: int = 0
    minor: int | None = None
    span: int = 1
    pairs: dict[tuple, int] = field(default_factory=dict)
    streamed: set | None = None
    transposed_axis: int | None = None
    alignment: int = 0
    record: str = ""

    def starts_at(self, multiple: int) -> bool:
        """Return whether the vector axis starts at multiples of a number."""
        return (self.alignment or self.lanes) % multiple == 0

    @property
    def width(self) -> int | None:
        return self.lanes if self.vector is not None else None


def key_of(buffer: Buffer) -> int:
    """Return the key of a buffer in Env.pointers: its id, complemented for kernel scratch."""
    return buffer.id if buffer.scope == "arg" else ~buffer.id


class Emitter:
    """Emit values into one function under one Env. Subclasses implement ``emit_uncached``: see ValueEmitter in emit.py."""

    __slots__ = ("env", "f", "isa", "m")

    def __init__(self, f: Function, m: Module, isa: ISA, env: Env) -> None:
        self.f = f
        self.m = m
        self.isa = isa
        self.env = env

    # placement

    def place(self, deps: frozenset) -> tuple[int, bool]:
        """Return the loop level of a value with these dependencies, and whether it differs between lanes."""
        env = self.env
        vector = env.vector is not None and (
            env.vector in deps or env.minor in deps or any(type(d) is tuple and d[1] not in env.uniform for d in deps)
        )
        if env.levels is None:
            return 0, vector
        last = len(env.levels) - 1
        places = [env.acc_level.get(d[1], last) if type(d) is tuple else env.level_of.get(d, last) for d in deps]
        return max(places, default=0), vector

    def memo(self, level: int) -> dict:
        return self.env.memo if self.env.levels is None else self.env.levels[level].memo

    def lines(self, level: int) -> list[str]:
        return self.f.lines if self.env.levels is None else self.env.levels[level].lines

    def once(self, level: int, key: tuple, emit: Callable[[], T]) -> T:
        """Return the value of ``key`` at a level, emitted there on the first use."""
        memo = self.memo(level)
        if key not in memo:
            saved, self.f.lines = self.f.lines, self.lines(level)
            memo[key] = emit()
            self.f.lines = saved
        return memo[key]

    def splat(self, name: str, type_: str) -> str:
        """Return a scalar broadcast to all lanes, emitted at the level of the scalar."""
        lanes = self.env.lanes
        if not name.startswith("%"):
            return f"splat ({type_} {name})"
        ops = Ops(self.f, self.m, self.isa, lanes)
        levels = self.env.levels or ()
        level = next((i for i, x in enumerate(levels) if ("at", name) in x.memo), max(len(levels) - 1, 0))
        if ("at", name) not in self.memo(level) and self.f.lines is not self.lines(level):  # defined in the current lines only
            return ops.splat(name, type_)
        return self.once(level, ("splat", name, lanes), lambda: ops.splat(name, type_))

    # values

    def value(self, value: Value) -> tuple[str, bool]:
        """Return (name, whether it is a vector) of a value. Emit the value and its operands if necessary."""
        env = self.env
        stack = [value]
        while True:
            v = stack[-1]
            level, vector = self.place(dependencies(v, env.deps))
            memo, key = self.memo(level), (self.tag(v, vector), id(v))
            name = memo.get(key)
            if name is None:
                waiting = [a for a in operands(v) if self.find(a) is None]
                if waiting:
                    stack.extend(waiting)
                    continue
                name = self.once(level, key, lambda v=v, vector=vector: self.emit_uncached(v, vector))  # type: ignore[misc]
                memo[("at", name)] = True
            stack.pop()
            if not stack:
                return name, vector

    def find(self, v: Value) -> tuple[str, bool] | None:
        level, vector = self.place(dependencies(v, self.env.deps))
        name = self.memo(level).get((self.tag(v, vector), id(v)))
        return None if name is None else (name, vector)

    def tag(self, v: Value, vector: bool) -> int | None:
        """Return the memo tag: the Env's tag if the value differs between unrolled copies, None if all copies share it."""
        env = self.env
        return env.tag if vector or (env.offsets and not env.deps[id(v)].isdisjoint(env.offsets)) else None

    def in_lanes(self, v: Value, vector: bool) -> str:
        """Return the operand ``v``, broadcast if its user is a vector."""
        name, is_vector = self.value(v)
        return self.splat(name, llvm_type(v.dtype)) if vector and not is_vector else name

    def emit_uncached(self, v: Value, vector: bool) -> str:
        """Emit one value whose operands are emitted already."""
        raise NotImplementedError
