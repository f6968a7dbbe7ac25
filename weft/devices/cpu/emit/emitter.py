"""Placement of the code of values: the loop it precedes, scalar or per lane, and the reuse of emitted values."""

from __future__ import annotations

from weft.devices.cpu.emit.env import Env
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import llvm_type
from weft.kernel.expressions import dependencies, operands
from weft.kernel.ir import Value


class Emitter:
    """Emit values into one function under one Env. Subclasses implement ``one``: see ValueEmitter in emit.py."""

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
        vector = env.vector is not None and (env.vector in deps or env.minor in deps or self._has_vector_acc(deps))
        if env.levels is None:
            return 0, vector
        level = 0
        last = len(env.levels) - 1
        for d in deps:
            at = env.acc_level.get(d[1], last) if type(d) is tuple else env.level_of.get(d, last)
            level = max(level, at)
        return level, vector

    def _has_vector_acc(self, deps: frozenset) -> bool:
        """Return whether one of the accumulators is a vector."""
        for d in deps:
            if type(d) is tuple and d[1] not in self.env.uniform:
                return True
        return False

    def memo(self, level: int) -> dict:
        return self.env.memo if self.env.levels is None else self.env.levels[level].memo

    def lines(self, level: int) -> list[str]:
        return self.f.lines if self.env.levels is None else self.env.levels[level].lines

    def splat(self, name: str, type_: str) -> str:
        """Return a scalar broadcast to all lanes, emitted at the level of the scalar."""
        lanes = self.env.lanes
        if not name.startswith("%"):
            return f"splat ({type_} {name})"
        level = self.memo_level(name)
        memo = self.memo(level)
        if ("at", name) not in memo and self.f.lines is not self.lines(level):  # defined in the current lines only
            return Ops(self.f, self.m, self.isa, lanes).splat(name, type_)
        key = ("splat", name, lanes)
        if key not in memo:
            saved, self.f.lines = self.f.lines, self.lines(level)
            memo[key] = Ops(self.f, self.m, self.isa, lanes).splat(name, type_)
            self.f.lines = saved
        return memo[key]

    def memo_level(self, name: str) -> int:
        levels = self.env.levels
        if levels is None:
            return 0
        for i, level in enumerate(levels):
            if ("at", name) in level.memo:
                return i
        return len(levels) - 1

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
                if env.levels is None or level == len(env.levels) - 1:
                    name = self.one(v, vector)
                else:
                    saved, self.f.lines = self.f.lines, env.levels[level].lines
                    name = self.one(v, vector)
                    self.f.lines = saved
                memo[key] = name
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

    def one(self, v: Value, vector: bool) -> str:
        """Emit one value whose operands are emitted already."""
        raise NotImplementedError
