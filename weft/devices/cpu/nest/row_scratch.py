"""Costly values that one stage of a row computes and a later stage needs again, kept in an array.

The stores of a softmax divide the exponentials that its sum has read. The two stages have loops of their own, so their values
differ in the axis only: :func:`shared` finds pairs that are equal if the axes are taken as one.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.devices.cpu.emit.emitter import Env
from weft.devices.cpu.emit.types import llvm_type, wide
from weft.devices.cpu.nest.nest import Nest, instructions
from weft.kernel.expressions import dependencies, operands, walk
from weft.kernel.ir import Access, Affine, Stage, Value

MIN_INSTRUCTIONS = 20  # instructions of a value that is worth a store and a load
L2_SHARE = 8  # arrays may fill 1 / L2_SHARE of the L2 cache, which also holds the row and its results


@dataclass(frozen=True, slots=True)
class RowArray:
    """One array of a row: the stage ``maker`` stores ``value`` in it; users: stage index -> value that a load replaces."""

    value: Value
    maker: int
    users: dict[int, Value]
    array: str


class ValueNumbering:
    """A numbering of values with one axis replaced by a placeholder: equal numbers mean equal values."""

    def __init__(self) -> None:
        self.numbers: dict[tuple, int] = {}

    def of(self, value: Value, axis: int, memo: dict[int, int]) -> int:
        for v in walk([value], memo):
            if v.op == "load":
                attr: object = self._access(v.attr, axis, memo)
            else:
                attr = self._affine(v.attr, axis, memo) if v.op == "index" else repr(v.attr)
            key = (v.op, tuple(memo[id(a)] for a in v.args), v.dtype, attr)
            memo[id(v)] = self.numbers.setdefault(key, len(self.numbers))
        return memo[id(value)]

    @staticmethod
    def _affine(a: Affine, axis: int, memo: dict[int, int]) -> tuple:
        return (a.const, tuple(sorted((-1 if t == axis else t, c) for t, c in a.terms)),
                tuple((memo[id(v)], c) for v, c in a.gather))

    def _access(self, a: Access, axis: int, memo: dict[int, int]) -> tuple:
        guards = tuple((self._affine(g, axis, memo), lo, hi) for g, lo, hi in a.guard)
        return (a.buffer.id, a.buffer.scope, self._affine(a.index[0], axis, memo), guards, repr(a.fill))


def shared(n: Nest) -> list[RowArray]:
    """Return the arrays of the part's rows: values of reducing stages that later stages over equally long axes use again."""
    stages, max_bytes = n.part.stages, n.isa.l2 // L2_SHARE
    canon = ValueNumbering()
    out: list[RowArray] = []
    arrays: dict[tuple[int, int], RowArray] = {}  # by (extent, number)
    candidates: dict[tuple[int, int], tuple[Value, int]] = {}
    for k, stage in enumerate(stages):
        if len(stage.axes) != 1 or (stage.reductions and stage.reductions[0].order.lanes == 1):
            continue
        axis = stage.axes[0]
        memo: dict[int, int] = {}
        fresh: dict[tuple[int, int], tuple[Value, int]] = {}
        stack = [r.value for r in stage.reductions] + [s.value for s in stage.stores]
        visited: set[int] = set()
        while stack:
            v = stack.pop()
            if id(v) in visited:
                continue
            visited.add(id(v))
            if axis.id in dependencies(v, n.base.deps) and llvm_type(v.dtype) != "i1":
                key = (axis.extent, canon.of(v, axis.id, memo))
                if key in arrays:
                    arrays[key].users[k] = v
                    continue
                if key in candidates and instructions([v], axis.id) >= MIN_INSTRUCTIONS:
                    value, maker = candidates[key]
                    type_ = llvm_type(v.dtype)
                    size = (axis.extent + 64) * v.dtype.computed.bytes
                    if sum((x.value.dtype.computed.bytes * axis.extent for x in out), size) <= max_bytes:
                        entry = RowArray(value, maker, {k: v}, n.f.local(f"[{axis.extent + 64} x {type_}]", 64))
                        out.append(entry)
                        arrays[key] = entry
                        continue
                if stage.reductions:
                    fresh[key] = (v, k)
            stack.extend(operands(v))
        candidates |= {key: x for key, x in fresh.items() if key not in candidates}
    return out


def _element_pointer(n: Nest, entry: RowArray, axis: int, env: Env) -> tuple[str, str]:
    type_ = llvm_type(entry.value.dtype)
    pointer = n.f.element(entry.array, type_, n.base.axes[axis])
    return n.f.element(pointer, type_, env.offsets.get(axis, 0)), wide(type_, env.lanes)


def keep(n: Nest, index: int, stage: Stage, row: list[RowArray], envs: list[Env]) -> None:
    """Store the values that this stage computes."""
    for entry in row:
        if entry.maker == index:
            for env in envs:
                name = n.value(entry.value, env)
                pointer, type_ = _element_pointer(n, entry, stage.axes[0].id, env)
                n.f.store(type_, name, pointer, entry.value.dtype.computed.bytes)


def recall(n: Nest, index: int, stage: Stage, row: list[RowArray], envs: list[Env]) -> None:
    """Bind the values of earlier stages to loads."""
    for entry in row:
        value = entry.users.get(index)
        if value is not None:
            dependencies(value, n.base.deps)
            for env in envs:
                pointer, type_ = _element_pointer(n, entry, stage.axes[0].id, env)
                n.levels[-1].memo[env.tag, id(value)] = n.f.load(type_, pointer, entry.value.dtype.computed.bytes)
