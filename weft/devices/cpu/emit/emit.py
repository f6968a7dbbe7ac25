"""Values to LLVM text: one expression at one iteration, or at ``lanes`` neighbouring ones."""

from __future__ import annotations

from weft.devices.cpu.emit.access import emit_load
from weft.devices.cpu.emit.affine import affine_text, index_value
from weft.devices.cpu.emit.check import emit_check
from weft.devices.cpu.emit.env import Env, Level, key_of
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.machine import Ops, machine
from weft.devices.cpu.emit.philox import four_words
from weft.devices.cpu.emit.store import emit_store_access
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import llvm_type, memory_type, wide
from weft.kernel.ir import Store, Value
from weft.kernel.walk import dependencies, operands

__all__ = ["Env", "Level", "emit_store", "emit_value", "key_of", "llvm_type", "memory_type", "wide"]


def emit_value(f: Function, m: Module, isa: ISA, value: Value, env: Env) -> str:
    """The SSA name (or constant) of a value: ``<lanes x T>`` where env.vector is set, else a scalar.

    T is :func:`llvm_type` of value.dtype. What does not depend on the vector axis is computed once as a
    scalar; what does not depend on an open loop is computed in front of it (env.levels).
    """
    e = Emitter(f, m, isa, env)
    name, vector = e.value(value)
    return name if vector or env.vector is None else e.splat(name, llvm_type(value.dtype))


def emit_store(f: Function, m: Module, isa: ISA, store: Store, env: Env) -> None:
    """Write store.value to its place: only allowed lanes touch memory.

    Mode "add" reads, adds and writes; lanes in order where several may meet the same element.
    """
    e = Emitter(f, m, isa, env)
    emit_store_access(e, store)


class Emitter:
    """Emission of values into one function under one Env."""

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
        vector = env.vector is not None and (
            env.vector in deps or env.minor in deps or any(type(d) is tuple and d[1] not in env.uniform for d in deps)
        )
        if env.levels is None:
            return 0, vector
        level = 0
        last = len(env.levels) - 1
        for d in deps:
            at = env.acc_level.get(d[1], last) if type(d) is tuple else env.level_of.get(d, last)
            level = max(level, at)
        return level, vector

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
        found = self.find(value)
        if found is not None:
            return found
        stack = [value]
        while stack:
            v = stack[-1]
            if self.find(v) is not None:
                stack.pop()
                continue
            waiting = [a for a in operands(v) if self.find(a) is None]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            level, vector = self.place(dependencies(v, env.deps))
            if env.levels is None or level == len(env.levels) - 1:
                name = self.one(v, vector)
            else:
                keep, self.f.lines = self.f.lines, env.levels[level].lines
                name = self.one(v, vector)
                self.f.lines = keep
            memo = self.memo(level)
            memo[(self.tag(v, vector), id(v))] = name
            memo[("at", name)] = True
        found = self.find(value)
        assert found is not None
        return found

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
        ops = Ops(self.f, self.m, self.isa, self.env.lanes if vector else None)
        if v.op == "const":
            return ops.const(v.dtype, v.attr)
        if v.op == "scalar":
            return self.env.scalars[v.attr]
        if v.op == "acc":
            return self.env.accs[v.attr]
        if v.op == "index":
            return index_value(self, v.attr, v.dtype, vector)
        if v.op == "load":
            return emit_load(self, v.attr, v.dtype, vector)
        if v.op == "check":
            return emit_check(self, v, vector)
        if v.op == "philox" and vector:
            words = self.quads(v)
            if words is not None:
                return words
        return machine(ops, v, [self.in_lanes(a, vector) for a in v.args])

    def quads(self, v: Value) -> str | None:
        """Random words of neighbouring elements that begin at a multiple of four: each block of four is made once."""
        env = self.env
        key, base, element = v.args
        while element.op == "cast":
            element = element.args[0]
        if element.op != "index" or element.attr.gather or env.lanes % 4 or not env.fours or env.minor is not None:
            return None
        const = element.attr.const
        for a, c in element.attr.terms:
            const += c * env.offsets.get(a, 0)
            text = env.axes[a]
            if a == env.vector and c != 1:
                return None
            if not text.startswith("%"):
                const += c * int(text)
            elif a != env.vector and c % 4:
                return None
        known = [self.value(x) for x in (key, base)]
        if const % 4 or any(is_vector for _, is_vector in known):
            return None
        first = affine_text(self, element.attr, False)
        ops = Ops(self.f, self.m, self.isa, None)
        counter = ops.op("add", "i64", known[1][0], ops.op("lshr", "i64", first, "2"))
        return four_words(Ops(self.f, self.m, self.isa, env.lanes), known[0][0], counter)
