"""Where the text of values goes: in front of which loop, once for all lanes or in each, and what is there already."""

from __future__ import annotations

from weft.devices.cpu.emit.env import Env
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import llvm_type
from weft.kernel.expressions import dependencies, operands
from weft.kernel.ir import Value


class Emitter:
    """Emission of values into one function under one Env. What one operation becomes is ``one``: see ValueEmitter in emit.py."""

    __slots__ = ("env", "f", "isa", "m")

    def __init__(self, f: Function, m: Module, isa: ISA, env: Env) -> None:
        self.f = f
        self.m = m
        self.isa = isa
        self.env = env

    # where code goes

    def place(self, deps: frozenset) -> tuple[int, bool]:
        """The level that a value with these dependencies belongs to, and whether it differs between lanes."""
        env = self.env
        vector = env.vector is not None and (env.vector in deps or env.minor in deps or self._differs(deps))
        if env.levels is None:
            return 0, vector
        level = 0
        last = len(env.levels) - 1
        for d in deps:
            at = env.acc_level.get(d[1], last) if type(d) is tuple else env.level_of.get(d, last)
            level = max(level, at)
        return level, vector

    def _differs(self, deps: frozenset) -> bool:
        """Whether one of the accumulators is a vector."""
        for d in deps:
            if type(d) is tuple and d[1] not in self.env.uniform:
                return True
        return False

    def memo(self, level: int) -> dict:
        return self.env.memo if self.env.levels is None else self.env.levels[level].memo

    def lines(self, level: int) -> list[str]:
        return self.f.lines if self.env.levels is None else self.env.levels[level].lines

    def splat(self, name: str, type_: str) -> str:
        """A scalar in all lanes, made where the scalar is known."""
        lanes = self.env.lanes
        if not name.startswith("%"):
            return f"splat ({type_} {name})"
        level = self.memo_level(name)
        memo = self.memo(level)
        if ("at", name) not in memo and self.f.lines is not self.lines(level):  # known here, perhaps not further in
            return Ops(self.f, self.m, self.isa, lanes).splat(name, type_)
        key = ("splat", name, lanes)
        if key not in memo:
            keep, self.f.lines = self.f.lines, self.lines(level)
            memo[key] = Ops(self.f, self.m, self.isa, lanes).splat(name, type_)
            self.f.lines = keep
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
        """(name, whether it is a vector) of a value and of all that it needs."""
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
                    keep, self.f.lines = self.f.lines, env.levels[level].lines
                    name = self.one(v, vector)
                    self.f.lines = keep
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
        """Copies share what is the same in all of them."""
        env = self.env
        return env.tag if vector or (env.offsets and not env.deps[id(v)].isdisjoint(env.offsets)) else None

    def in_lanes(self, v: Value, vector: bool) -> str:
        """The operand v as the lanes of its user need it."""
        name, is_vector = self.value(v)
        return self.splat(name, llvm_type(v.dtype)) if vector and not is_vector else name

    def one(self, v: Value, vector: bool) -> str:
        """Emit one value whose operands are known."""
        raise NotImplementedError
